"""Two groups, or two categories, compared under noise: estimates, intervals and p values.

All of it is post-processing of noisy sums whose noise has a known law, so that noise is one more
source of error beside sampling, and is counted as such. `s` is the standard deviation of the noise
of one number, N a group's noisy size. Arrays may have leading axes: many releases at once.

**Means.** With u in [-1, 1], S = Σ u, Q = Σ (u - m)² and m = S / N, the error of S - m N is
sampling, of variance Q, and noise, of variance s² (1 + m²), so that

    V = Σ over both groups of (Q + s² (1 + m²)) / N²         t = (m₁ - m₀) / √V

As Fieller (1954) does, N is what was released: the noise of N is in the numerator, not ignored. Q
comes of the noisy sum of squares; its own error, sampling 2 Q²/N and noise s² (1/2 + (3/4 + m²)² +
4 m²), gives Welch's degrees of freedom after Satterthwaite (1946), 2 V² / Var(V).

**Proportions.** y - p N has noise of variance s² (p² + (1 - p)²) and sampling variance N p (1 - p).
The test takes the pooled p. The interval of one share is Wilson's (1927) with that noise in it, a
quadratic in p; those of two shares make that of their difference, and of the logarithm of their
odds ratio, as Newcombe (1998) and Donner and Zou (2012) do.

**Tables.** The residuals D = X - (row)(column)/N have zero margins, and under independence and to
first order covariance P (diag(E) + s² I) Pᵀ, P = (I - p 1ᵀ) ⊗ (I - q 1ᵀ). The statistic is the
quadratic form of D in its inverse, as Kifer and Rogers (2017) project it: chi-square of (r - 1)
(c - 1) degrees, whatever s is, where Pearson's statistic of noisy counts would reject nearly always
(Gaboardi et al. 2016). A cell's skewness, E / (E + s²)^1.5, is at most 0.385 / s: with s of 1 or
more counts may be as small as they like, and be as normal as in a table with five expected. Where
that does not hold, for Laplace noise, and for Fisher's test, the null distribution is simulated
from a public seed: tables of the noisy margins, with noise.

**Medians.** The records below t less half of all are a contrast of a tree's nodes, of which least
squares (Hay et al. 2010) know the covariance. Near the median a line is laid through them, over as
much of the distribution as their error makes uncertain: A(t) = a + b (t - c), with a covariance of
(a, b) from noise and one from sampling (a Brownian bridge). Z(t) = A(t) / sd as Fieller does, so
that a slope that noise hides makes the interval wide, not wrong. Where both groups have median t,
Z₁(t)² + Z₀(t)² is chi-square of 2 degrees, and the least of it over t, of 1; the interval holds all
t₁ - t₀ for which the sum is not refuted. Where noise is large the least over t is smaller than
that, and the test conservative. Of columns with few different values this is a median between them.
The interval for these records is made of single edges, without lines.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc, chdtri, chndtr, logit, ndtri, stdtr, stdtrit

from unisono.algorithms.noise_law import NoiseLaw, simulated_noise
from unisono.algorithms.quantiles import (
    Tree,
    consistent_leaves,
    distribution,
    invert,
    rank_variance,
)

# Of the noise that is drawn where its sums have no simple law; and of tables.
_DRAWS, _TABLES = 2**13, 2000
_AT_ONCE = 128
# Medians: how far a line is laid, in errors of a rank, at least and at most in parts of the
# records; and points in each leaf at which it is tested.
_WINDOW, _LEAST_PART, _MOST_PART = 4.0, 0.05, 0.4
_POINTS = 8
# A size below so many standard deviations of its noise is not known: ratios of it are no use.
LEAST_SIZE = 3.0
_ROOT = math.sqrt(2.0)


class Compared(NamedTuple):
    """Arrays, or numbers: the difference, its interval for these records (`own`) and for the
    population, the statistic and its degrees of freedom, the p value, which part of the width the
    noise of privacy is, and whether the sizes are `known` well enough for any of it to be said."""

    value: Any
    own: tuple[Any, Any]
    interval: tuple[Any, Any]
    statistic: Any
    degrees: Any
    p_value: Any
    privacy_share: Any
    known: Any


# ------------------------------------------------------------------- laws of errors


class _Error(NamedTuple):
    """The law of Σ w noise + normal of variance `sampling`; w is (..., k). With few `degrees` the
    variance is itself uncertain."""

    law: NoiseLaw
    weights: np.ndarray
    sampling: np.ndarray
    degrees: np.ndarray

    @property
    def noise(self) -> np.ndarray:
        """The variance of the noise."""
        return np.asarray(self.law.std**2 * np.square(self.weights).sum(axis=-1))

    @property
    def std(self) -> np.ndarray:
        return np.sqrt(self.noise + self.sampling)

    def beyond(self, distance: np.ndarray) -> np.ndarray:
        """How often the error is at least as large."""
        if self.law.gaussian:
            return np.asarray(2 * stdtr(self.degrees, -np.abs(distance) / self.std))
        return self._drawn(lambda drawn, far: (1 + (drawn >= far).sum(0)) / (1 + _DRAWS), distance)

    def reach(self, probability: float) -> np.ndarray:
        """The error stays below this, but for `probability`."""
        if self.law.gaussian:
            return np.asarray(stdtrit(self.degrees, 1 - probability / 2) * self.std)
        return self._drawn(
            lambda drawn, _: np.quantile(drawn, 1 - probability, axis=0), np.zeros(())
        )

    def _drawn(self, read: Any, distance: np.ndarray) -> np.ndarray:
        """Errors of a public seed, (draws, some of the releases)."""
        shape = self.sampling.shape
        if not self.sampling.size:
            return np.zeros(shape)
        unit = simulated_noise(
            replace(self.law, scale=1.0, step=0.0), (_DRAWS, self.weights.shape[-1])
        )
        normal, doubt = np.random.default_rng(1).normal(size=(2, _DRAWS, 1))
        flat = self.weights.reshape(-1, self.weights.shape[-1]) * self.law.scale
        sampling = np.sqrt(self.sampling.reshape(-1))
        part = 2 / (9 * np.broadcast_to(self.degrees, shape).reshape(-1))
        far = np.abs(np.broadcast_to(distance, shape)).reshape(-1)
        found = []
        for start in range(0, len(flat), _AT_ONCE):
            here = slice(start, start + _AT_ONCE)
            drawn = np.abs(unit @ flat[here].T + sampling[here] * normal)
            # A chi-square over its degrees, after Wilson and Hilferty (1931).
            uncertain = np.maximum(1 - part[here] + doubt * np.sqrt(part[here]), 0.1) ** 3
            found.append(read(drawn / np.sqrt(uncertain), far[here]))
        return np.concatenate(found).reshape(shape)


_CERTAIN = np.array(np.inf)


def _privacy_share(noise: np.ndarray, sampling: np.ndarray) -> np.ndarray:
    """1 - the width without noise over that with it."""
    return np.asarray(1 - np.sqrt(sampling / (sampling + noise)))


# ------------------------------------------------------------------- means


def compare_means(sums: np.ndarray, law: NoiseLaw, probability: float) -> Compared:
    """Group 0 less group 1, of sums (..., 2, 3): N, Σ u and Σ √2 (u² - 3/4), u in [-1, 1]."""
    size, first, second = np.moveaxis(np.asarray(sums, float), -1, 0)
    known = size > LEAST_SIZE * law.std
    size = np.where(known, size, LEAST_SIZE * law.std + 2.0)
    mean = np.clip(first / size, -1.0, 1.0)
    noise = law.std**2 * (1 + mean**2)
    # The square of a noisy mean is too large by its variance, which is counted back.
    squares = second / _ROOT + 0.75 * size - first**2 / size + noise / size
    squares = np.clip(squares, 0.0, size * (1 - mean**2)) * size / (size - 1)
    doubt = law.std**2 * (0.5 + (0.75 + mean**2) ** 2 + 4 * mean**2) + 2 * squares**2 / size
    total = ((squares + noise) / size**2).sum(axis=-1)
    degrees = 2 * total**2 / (doubt / size**4).sum(axis=-1)
    weights = np.concatenate([1 / size, mean / size], axis=-1)
    sampling = (squares / size**2).sum(axis=-1)
    error = _Error(law, weights, sampling, degrees)
    value = (first / size)[..., 0] - (first / size)[..., 1]
    reach = error.reach(probability)
    own = _Error(law, weights, np.zeros_like(sampling), _CERTAIN).reach(probability)
    return Compared(
        np.clip(value, -2.0, 2.0),
        (np.clip(value - own, -2.0, 2.0), np.clip(value + own, -2.0, 2.0)),
        (np.clip(value - reach, -2.0, 2.0), np.clip(value + reach, -2.0, 2.0)),
        value / error.std,
        degrees,
        error.beyond(value),
        _privacy_share(error.noise, sampling),
        known,
    )


# ------------------------------------------------------------------- proportions


def compare_proportions(counts: np.ndarray, law: NoiseLaw, probability: float) -> Compared:
    """Group 0 less group 1, of counts (..., 2, 2): without and with the property."""
    counts = np.asarray(counts, float)
    yes, size, known = _sizes(counts[..., 1], counts.sum(axis=-1), law)
    share = yes / size
    value = share[..., 0] - share[..., 1]
    pooled = np.clip(yes.sum(axis=-1) / size.sum(axis=-1), 0.0, 1.0)
    error = _share_error(pooled[..., None], size, law)
    return Compared(
        np.clip(value, -1.0, 1.0),
        _apart(yes, size, law, probability, 0.0),
        _apart(yes, size, law, probability, 1.0),
        value / error.std,
        _CERTAIN,
        error.beyond(value),
        _privacy_share(error.noise, error.sampling),
        known,
    )


def _sizes(
    yes: np.ndarray, size: np.ndarray, law: NoiseLaw
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A size is the sum of two noisy counts; one that noise hides is replaced by a harmless one."""
    least = LEAST_SIZE * law.std * _ROOT
    known = size > least
    return np.where(known, yes, 0.0), np.where(known, size, least + 2.0), known


def _share_error(share: np.ndarray, size: np.ndarray, law: NoiseLaw) -> _Error:
    """Of the difference of two shares, groups in the last axis."""
    weights = np.concatenate([(1 - share) / size, share / size], axis=-1)
    return _Error(law, weights, (share * (1 - share) / size).sum(axis=-1), _CERTAIN)


def wilson(
    yes: np.ndarray, size: np.ndarray, law: NoiseLaw, probability: float, sampled: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """All p for which (yes - p size)² is at most z² [size p (1 - p) + s² (p² + (1 - p)²)]; without
    the first term (`sampled` 0) those of these records. z is the quantile of the error at the share
    that was found."""
    share = np.clip(yes / size, 0.0, 1.0)
    weights = np.stack([(1 - share) / size, share / size], axis=-1)
    error = _Error(law, weights, sampled * share * (1 - share) / size, _CERTAIN)
    z2 = np.square(error.reach(probability) / error.std)
    s2, drawn = law.std**2, sampled * size
    a = size**2 + z2 * (drawn - 2 * s2)
    half = yes * size + z2 * (drawn - 2 * s2) / 2
    root = np.sqrt(np.maximum(half**2 - a * (yes**2 - z2 * s2), 0.0))
    known = a > 0
    a = np.where(known, a, 1.0)
    low, high = (half - root) / a, (half + root) / a
    return np.where(known, np.clip(low, 0.0, 1.0), 0.0), np.where(known, np.clip(high, 0, 1), 1.0)


def _apart(
    yes: np.ndarray,
    size: np.ndarray,
    law: NoiseLaw,
    probability: float,
    sampled: float,
    scale: Any = lambda share: share,
) -> tuple[np.ndarray, np.ndarray]:
    """The interval of the difference of two shares on a scale, from the intervals of each."""
    low, high = (scale(end) for end in wilson(yes, size, law, probability, sampled))
    at = np.clip(scale(np.clip(yes / size, 0.0, 1.0)), low, high)
    value = at[..., 0] - at[..., 1]
    down = np.hypot((at - low)[..., 0], (high - at)[..., 1])
    up = np.hypot((high - at)[..., 0], (at - low)[..., 1])
    return value - down, value + up


# ------------------------------------------------------------------- tables


class _Association(NamedTuple):
    """Residuals (..., k) without the last row and column; contrasts W (..., k, cells) of which they
    are made; expected counts (..., cells); the whole (...)."""

    residual: np.ndarray
    contrasts: np.ndarray
    expected: np.ndarray
    whole: np.ndarray

    def covariance(self, cells: np.ndarray) -> np.ndarray:
        """Of residuals, where cells vary so much (..., cells)."""
        return (self.contrasts * cells[..., None, :]) @ np.swapaxes(self.contrasts, -1, -2)

    def statistic(self, noise: float) -> np.ndarray:
        cells = self.expected + noise
        if self.residual.shape[-1] == 1:  # of 2x2 tables, without matrices
            variance = (self.contrasts[..., 0, :] ** 2 * cells).sum(axis=-1)
            return np.asarray(self.residual[..., 0] ** 2 / variance)
        covariance = self.covariance(cells)
        solved = np.linalg.solve(covariance, self.residual[..., None])[..., 0]
        return np.asarray((self.residual * solved).sum(axis=-1))


def _association(tables: np.ndarray) -> _Association:
    whole = np.maximum(tables.sum(axis=(-2, -1)), 1.0)
    rows, columns = tables.sum(axis=-1), tables.sum(axis=-2)
    residual = tables - rows[..., :, None] * columns[..., None, :] / whole[..., None, None]
    p, q = _shares(rows), _shares(columns)
    left = (np.eye(p.shape[-1]) - p[..., :, None])[..., :-1, :]
    right = (np.eye(q.shape[-1]) - q[..., :, None])[..., :-1, :]
    contrasts = left[..., :, None, :, None] * right[..., None, :, None, :]
    lead = tables.shape[:-2]
    cells = tables.shape[-2] * tables.shape[-1]
    expected = whole[..., None, None] * p[..., :, None] * q[..., None, :]
    return _Association(
        residual[..., :-1, :-1].reshape(*lead, -1),
        contrasts.reshape(*lead, -1, cells),
        expected.reshape(*lead, cells),
        whole,
    )


def _shares(margin: np.ndarray) -> np.ndarray:
    positive = np.maximum(margin, 0.0)
    return np.asarray(positive / np.maximum(positive.sum(axis=-1, keepdims=True), 1.0))


def independence(table: np.ndarray, law: NoiseLaw, probability: float) -> Compared:
    """Of one table (r, c). The value is Cramér's V of these records; its intervals invert the
    noncentral chi-square, and allow for the directions in which noise tells least and most of V."""
    table = np.asarray(table, float)
    tested, stretch = _tested(table, law, probability, margins_kept=False)
    if not tested.known:
        return tested
    found, noise = _association(table), law.std**2
    counted = found.covariance(np.maximum(found.expected, 0.5))
    noisy = noise * found.covariance(np.ones_like(found.expected))
    # V² scale = dᵀ G d with G the inverse of what sampling alone would be.
    scale = float(found.whole) * (min(table.shape) - 1)
    solved = np.linalg.solve(counted, found.residual)
    square = float(found.residual @ solved - np.trace(np.linalg.solve(counted, noisy))) / scale
    own, interval = (
        _cramer_interval(found.residual, covariance, counted, scale, probability, stretch)
        for covariance in (noisy, counted + noisy)
    )
    value = math.sqrt(min(max(square, 0.0), 1.0))
    return tested._replace(value=value, own=own, interval=interval)


def _tested(
    table: np.ndarray, law: NoiseLaw, probability: float, margins_kept: bool
) -> tuple[Compared, float]:
    """The test alone; and by how much its statistic is longer in its tail than a chi-square."""
    known = np.array(table.sum() > LEAST_SIZE * law.std * math.sqrt(table.size))
    if not known:
        nothing = (math.nan, math.nan)
        return Compared(0.0, nothing, nothing, math.nan, 1, math.nan, 1.0, known), 1.0
    found, noise = _association(table), law.std**2
    statistic = float(found.statistic(noise))
    degrees = (table.shape[0] - 1) * (table.shape[1] - 1)
    skewness = (found.expected / (found.expected + noise) ** 1.5).max()
    p_value, stretch = float(chdtrc(degrees, statistic)), 1.0
    if margins_kept or not law.gaussian or skewness > 5**-0.5:
        drawn = _null_statistics(table, law, margins_kept)
        p_value = float(1 + (drawn >= statistic).sum()) / (1 + len(drawn))
        quantile = np.quantile(drawn, 1 - probability) / chdtri(degrees, probability)
        stretch = max(1.0, float(quantile))
    sampling, added = (
        np.trace(found.covariance(cells))
        for cells in (found.expected, noise * np.ones_like(found.expected))
    )
    share = _privacy_share(np.array(added), np.array(sampling))
    nothing = (math.nan, math.nan)
    return Compared(0.0, nothing, nothing, statistic, degrees, p_value, share, known), stretch


def _cramer_interval(
    residual: np.ndarray,
    covariance: np.ndarray,
    counted: np.ndarray,
    scale: float,
    probability: float,
    stretch: float,
) -> tuple[float, float]:
    """Noncentralities δᵀ C⁻¹ δ that fit the statistic, as V: √(δᵀ G δ / scale)."""
    statistic = float(residual @ np.linalg.solve(covariance, residual)) / stretch
    degrees = len(residual)
    low = _noncentrality(statistic, degrees, probability / 2)
    # A statistic that is smaller than chance alone makes it is no sign that V is exactly 0.
    high = _noncentrality(max(statistic, degrees), degrees, 1 - probability / 2)
    # The eigenvalues of C G say how much of V there is to one of the noncentrality.
    ratios = np.linalg.eigvals(np.linalg.solve(counted, covariance)).real * stretch
    ends = (low * ratios.min() / scale, high * ratios.max() / scale)
    return tuple(min(math.sqrt(max(end, 0.0)), 1.0) for end in ends)  # type: ignore[return-value]


def _noncentrality(statistic: float, degrees: int, level: float) -> float:
    """λ for which the chance of a larger statistic is `level`; 0 where none is so small."""
    if chdtrc(degrees, statistic) >= level:
        return 0.0
    low, high = 0.0, statistic + 10 * math.sqrt(statistic + degrees) + 50
    for _ in range(32):
        middle = (low + high) / 2
        if 1 - chndtr(statistic, degrees, middle) < level:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _null_statistics(table: np.ndarray, law: NoiseLaw, margins_kept: bool) -> np.ndarray:
    """Statistics (draws,) of independent categories with these noisy margins, from a public seed.

    Of 2x2 tables whose margins are kept, as in Fisher's test, counts are hypergeometric; else they
    are multinomial."""
    generator = np.random.default_rng(1)
    rows, columns = _shares(table.sum(axis=1)), _shares(table.sum(axis=0))
    whole = round(float(table.sum()))
    if margins_kept:
        row, column = round(whole * rows[0]), round(whole * columns[0])
        first = generator.hypergeometric(row, whole - row, column, _TABLES)
        counts = np.stack([first, row - first, column - first, whole - row - column + first], -1)
    else:
        chances = np.outer(rows, columns).ravel()
        counts = generator.multinomial(whole, chances / chances.sum(), _TABLES)
    # Tails are a grid step longer, for bounds; what is drawn here should be as long as it is.
    drawn = counts + simulated_noise(replace(law, step=0.0), counts.shape)
    return _association(drawn.reshape(-1, *table.shape)).statistic(law.std**2)


def fisher(table: np.ndarray, law: NoiseLaw, probability: float) -> Compared:
    """Of one 2x2 table: the odds ratio, and a p value with the margins kept, as Fisher's exact test
    keeps them, but as noisy as they are. What a table of so many records cannot show is cut off."""
    table = np.asarray(table, float)
    tested, _ = _tested(table, law, probability, margins_kept=True)
    yes, size, known = _sizes(table[:, 0], table.sum(axis=1), law)
    known = known & tested.known

    def log_odds(share: np.ndarray) -> np.ndarray:
        least = 1 / (2 * size + 2)
        return np.asarray(logit(np.clip(share, least, 1 - least)))

    def odds_ratio(sampled: float) -> tuple[float, float]:
        low, high = _apart(yes, size, law, probability, sampled, log_odds)
        return math.exp(float(low)), math.exp(float(high))

    odds = log_odds(yes / size)
    value = math.exp(float(odds[0] - odds[1]))
    return tested._replace(value=value, own=odds_ratio(0.0), interval=odds_ratio(1.0), known=known)


# ------------------------------------------------------------------- medians


class _Crossing(NamedTuple):
    """One group: how many records, its median, what it costs that the median is in a leaf where
    these records are meant (`own`), and a + b (t - centre), the records below t less half of all
    near the median, with the covariance of (a, b) from noise and from sampling."""

    size: float
    value: float
    own: np.ndarray
    centre: float
    line: np.ndarray
    noise: np.ndarray
    sampling: np.ndarray

    def costs(self, points: np.ndarray) -> np.ndarray:
        """Z² at each of them."""
        basis = np.stack([np.ones_like(points), points - self.centre])
        variance = (basis * ((self.noise + self.sampling) @ basis)).sum(axis=0)
        return np.asarray((self.line @ basis) ** 2 / variance)


def _crossing(nodes: np.ndarray, tree: Tree, law: NoiseLaw) -> _Crossing:
    below, edges = distribution(nodes, tree, None), tree.edges
    size = max(float(below[-1]), 1.0)
    value = invert(below, edges, size / 2)
    kappa = law.std**2 * rank_variance(tree, 0.5, False)
    z = (below - size / 2) / np.sqrt(kappa)
    own = np.maximum(np.maximum(z[:-1], -z[1:]), 0.0) ** 2
    # The line is laid through as much of the distribution as its own error makes uncertain.
    error = math.sqrt(size / 4 + float(np.median(kappa)))
    reach = min(max(_WINDOW * error, _LEAST_PART * size), _MOST_PART * size)
    first, last = np.searchsorted(below, [size / 2 - reach, size / 2 + reach])
    first, last = max(min(first, last - 4), 0), min(max(last, first + 4), tree.leaves)
    places = np.arange(first, last + 1)
    centre = float(edges[places].mean())
    fit = np.linalg.pinv(np.stack([np.ones(len(places)), edges[places] - centre], axis=1))
    leaves = consistent_leaves(nodes, tree, None)
    running = np.concatenate([[0.0], np.cumsum(leaves)])
    line = fit @ (running[places] - running[-1] / 2)
    # (AᵀA)⁻¹ q is what least squares make of leaves q and nothing above them.
    contrasts = fit @ (np.arange(tree.leaves) < places[:, None]) - fit.sum(axis=1)[:, None] / 2
    empty = np.zeros(tree.nodes - tree.leaves)
    solved = [consistent_leaves(np.concatenate([empty, q]), tree, None) for q in contrasts]
    share = below[places] / size
    bridge = size * (np.minimum.outer(share, share) - np.outer(share, share))
    noise = law.std**2 * contrasts @ np.stack(solved, axis=1)
    return _Crossing(size, value, own, centre, line, noise, fit @ bridge @ fit.T)


def compare_medians(nodes: np.ndarray, tree: Tree, law: NoiseLaw, probability: float) -> Compared:
    """Group 0 less group 1, of one release's nodes (2, nodes)."""
    groups = [_crossing(own, tree, law) for own in nodes]
    # Least squares know a size from all levels: its variance is 4 κ of the outermost edge.
    deviation = 2 * law.std * math.sqrt(float(rank_variance(tree, 0.5, False)[0]))
    known = np.array([one.size > LEAST_SIZE * deviation for one in groups])
    # Counts below an edge are sums of few noises, whose tails are longer than the normal's where
    # they are Laplace; those of three are allowed for. Lines are made of many.
    stretch = 1.0
    if not law.gaussian:
        three = law.summed(3)
        normal = -float(ndtri(probability / 2)) * three.std
        stretch = max(1.0, (three.tail(probability) - three.step) / normal) ** 2
    edges, limit = tree.edges, float(chdtri(1, probability))
    points = np.linspace(edges[0], edges[-1], _POINTS * tree.leaves + 1)
    costs = [one.costs(points) for one in groups]
    statistic = float((costs[0] + costs[1]).min())
    slopes = [max(float(one.line[1]), 1e-9 * one.size / (edges[-1] - edges[0])) for one in groups]
    noise, sampling = (
        np.array(sum(part[0, 0] / b**2 for part, b in zip(parts, slopes, strict=True)))
        for parts in ([one.noise for one in groups], [one.sampling for one in groups])
    )
    value = groups[0].value - groups[1].value
    return Compared(
        value,
        _apart_by(groups[0].own, groups[1].own, edges[:-1], edges[1:], limit * stretch),
        _apart_by(costs[0], costs[1], points, points, limit),
        math.copysign(math.sqrt(statistic), value),
        1,
        float(chdtrc(1, statistic)),
        _privacy_share(noise, sampling),
        known,
    )


def _apart_by(
    first: np.ndarray, second: np.ndarray, low: np.ndarray, high: np.ndarray, limit: float
) -> tuple[float, float]:
    """Least and largest x₁ - x₀ of places that cost at most `limit` together; each begins at `low`
    and ends at `high`."""
    left = limit - first
    places = np.flatnonzero(left >= second.min())
    if not len(places):
        return float(low[0] - high[-1]), float(high[-1] - low[0])
    # How little the places up to here cost falls from left to right; from the right likewise.
    lowest = np.searchsorted(-np.minimum.accumulate(second), -left[places])
    backwards = np.minimum.accumulate(second[::-1])
    highest = len(second) - 1 - np.searchsorted(-backwards, -left[places])
    return (
        float((low[places] - high[highest]).min()),
        float((high[places] - low[lowest]).max()),
    )


__all__ = [
    "LEAST_SIZE",
    "Compared",
    "compare_means",
    "compare_medians",
    "compare_proportions",
    "fisher",
    "independence",
    "wilson",
]
