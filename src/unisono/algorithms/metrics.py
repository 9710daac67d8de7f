"""How good a model is, read from noisy counts and sums: metrics with intervals.

All of it is post-processing of one release whose noise has a known law. A metric is a function f of
noisy numbers c = C + noise, C counts or sums over records. To first order its error is

    Var f = Σ g² C  +  s² |g|²  (+ binning),        g = ∂f/∂c

sampling and noise: metrics do not change when all counts double, so that g·C = 0 and Poisson and
multinomial counts have the same sampling error. The first sum is linear in the counts, so that
noisy ones estimate it without bias. Where the number of records N is public, counts are moved so
that they add up to it, and noise loses its mean: s² (|g|² - (Σ g)²/m) of m counts.

    accuracy, recall of a class       shares of a confusion matrix
    AUC                               counts by bins of the score, Σ c₁ (C₀ below + w c₀) / (N₁ N₀)
    calibration slope and intercept   the same counts: Σ ω (1, x) (c₁ - (c₀ + c₁) π(a + b x)) = 0
    Brier score, log loss             means of bounded losses of each record, no bins
    RMSE, R²                          means of clipped squared errors over the target's variance

**Bins.** Scores are cut at public places of their log-odds x, finer in the middle, with a cut at
0. Within a bin of width h a record with the outcome scores higher than one without with probability
w = 1/(1 - e^{-bh}) - 1/(bh) if scores are spread evenly there and their log-odds are right up to
the slope b; 1/2 would take AUC to be too small. A third of that correction counts as an error of
its own. Noise enters the equations of calibration linearly and biases nothing; weights ω, from
smoothed counts, keep bins that hold nothing but noise out of them.

**Not determined**: where noise hides how many records a denominator holds.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtri

from unisono.algorithms.hypothesis_tests import LEAST_SIZE

_ROOT = math.sqrt(2.0)
# Log-odds beyond the last cut are taken to lie so far behind it.
_TAIL = 0.8
_WIDEST, _BEND = 5.0, 1.25
# Places in each bin at which the density of scores is known; a slope with a larger standard error
# says nothing.
_NODES, _WIDEST_SLOPE = 9, 1.0
_PLACES, _WEIGHTS = np.polynomial.legendre.leggauss(_NODES)
# The part of what another spread of scores within bins would change that counts as an error.
_DOUBT = 0.75
# By which part a bin may hold more or less than a smooth curve says.
_ROUGH = 0.5


class Metric(NamedTuple):
    """One figure, its standard error, the part of it that sampling alone would make, the interval,
    and whether noise leaves anything of it."""

    name: str
    value: float
    std_error: float
    sampling_error: float
    low: float
    high: float
    determined: bool = True

    @property
    def privacy_share(self) -> float:
        """The part of the interval's width that is the noise of privacy."""
        if not self.determined or self.std_error <= 0:
            return 1.0
        return 1 - min(1.0, self.sampling_error / self.std_error)


class Counts(NamedTuple):
    """Noisy counts (m,) of deviation `noise`; `records` where their sum is public."""

    values: np.ndarray
    noise: float
    records: float | None = None

    @property
    def moved(self) -> np.ndarray:
        """Counts that add up to the records."""
        if self.records is None:
            return self.values
        return self.values + (self.records - self.values.sum()) / self.values.size

    @property
    def size(self) -> float:
        return float(self.values.sum()) if self.records is None else float(self.records)

    @property
    def known(self) -> bool:
        """Whether there are records at all."""
        noise = self.noise * math.sqrt(self.values.size)
        return self.records is not None or self.size > LEAST_SIZE * noise

    def errors(self, gradient: np.ndarray) -> tuple[float, float]:
        """Variance from sampling and from noise of a function with this gradient."""
        flat, counts = gradient.ravel(), self.moved.ravel()
        sampling = max(float((flat**2 * counts).sum()), 0.0)
        square = float((flat**2).sum())
        if self.records is not None:
            square -= float(flat.sum()) ** 2 / flat.size
        return sampling, self.noise**2 * max(square, 0.0)


def measured(
    name: str,
    value: float,
    sampling: float,
    noise: float,
    confidence: float,
    limits: tuple[float, float] = (-math.inf, math.inf),
    known: bool = True,
) -> Metric:
    """A figure with its interval, within what is possible."""
    error = math.sqrt(sampling + noise)
    known = known and math.isfinite(value) and math.isfinite(error)
    if not known:
        return undetermined(name, limits)
    reach = float(ndtri((1 + confidence) / 2)) * error
    low, high = (min(max(end, limits[0]), limits[1]) for end in (value - reach, value + reach))
    value = min(max(value, limits[0]), limits[1])
    return Metric(name, value, error, math.sqrt(sampling), low, high)


def undetermined(name: str, limits: tuple[float, float]) -> Metric:
    """Of which noise leaves nothing."""
    return Metric(name, math.nan, math.nan, math.nan, *limits, False)


# ------------------------------------------------------------------- confusion matrices


def share(name: str, counts: Counts, part: np.ndarray, confidence: float) -> Metric:
    """The share of all records that `part`, of the same shape, marks by 1.

    Agresti and Coull's two records of either kind keep intervals of shares near 0 and 1 honest.
    """
    return _ratio(name, counts, part, np.ones_like(part), confidence)


def accuracy(confusion: Counts, confidence: float, name: str = "accuracy") -> Metric:
    """Right predictions over all, of counts (classes, classes): true by predicted."""
    return share(name, confusion, np.eye(len(confusion.values)), confidence)


def recall(confusion: Counts, place: int, confidence: float, name: str) -> Metric:
    """Of the records that are in one class, the share that is predicted to be."""
    own = np.zeros_like(confusion.values)
    own[place] = 1.0
    right = own * np.eye(len(own))
    return _ratio(name, confusion, right, own, confidence)


def precision(confusion: Counts, place: int, confidence: float, name: str) -> Metric:
    """Of the records that are predicted to be in one class, the share that is."""
    own = np.zeros_like(confusion.values)
    own[:, place] = 1.0
    right = own * np.eye(len(own))
    return _ratio(name, confusion, right, own, confidence)


def _ratio(
    name: str, counts: Counts, above: np.ndarray, below: np.ndarray, confidence: float
) -> Metric:
    """(above · c) / (below · c): a share with a noisy denominator, as Fieller has it."""
    cells = counts.moved
    size, whole = float((below * cells).sum()), bool(below.all())
    spread = counts.noise * math.sqrt(float(below.sum()))
    known = counts.known if whole else size > LEAST_SIZE * spread
    size = max(size, 1.0)
    value = float((above * cells).sum()) / size
    inner = min(max(value, 0.0), 1.0)
    # Two more of either kind (Agresti and Coull 1998), for the errors and for the middle.
    inner, more = (inner * size + 2) / (size + 4), size + 4
    gradient = (above - inner * below) / more
    _, noise = counts.errors(gradient)
    sampling = inner * (1 - inner) / more
    found = measured(name, inner, sampling, noise, confidence, (0.0, 1.0), known)
    if not found.determined:
        return found
    middle = min(max(value, 0.0), 1.0)
    return found._replace(value=middle, low=min(found.low, middle), high=max(found.high, middle))


# ------------------------------------------------------------------- scores by bins


def score_cuts(half: int) -> np.ndarray:
    """Log-odds (2 half - 1,) at which scores are cut into 2 half bins.

    >>> score_cuts(2).round(2).tolist()
    [-2.1, 0.0, 2.1]
    """
    ends = _WIDEST * (np.arange(half) / half) ** _BEND
    return np.concatenate([-ends[:0:-1], ends])


def bins_for(records: float, mu: float) -> int:
    """Half the number of bins, a rule of public facts: more bins cost noise, fewer blur."""
    return int(np.clip(round(math.sqrt(records * mu) / 4), 4, 10))


def _edges(cuts: np.ndarray) -> np.ndarray:
    return np.concatenate([[cuts[0] - 2 * _TAIL], cuts, [cuts[-1] + 2 * _TAIL]])


class ScoreCurve(NamedTuple):
    """How scores are spread, over and within bins: places x (bins, nodes) and how many records lie
    at each of them, by a curve that bends with the bins, and by a smooth one."""

    x: np.ndarray
    mass: np.ndarray
    plain: np.ndarray

    @property
    def totals(self) -> np.ndarray:
        return np.asarray(self.mass.sum(axis=1))

    @property
    def even(self) -> "ScoreCurve":
        """As many records in each bin, evenly spread."""
        return self.spread(np.ones_like(self.mass))

    @property
    def smooth(self) -> "ScoreCurve":
        """As many records in each bin, spread by the smooth curve."""
        return self.spread(self.plain)

    def spread(self, mass: np.ndarray) -> "ScoreCurve":
        """As many records in each bin, spread within it as this mass."""
        within = mass * (self.totals / mass.sum(axis=1))[:, None]
        return ScoreCurve(self.x, within, self.plain)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """The mean of (bins, nodes) in each bin."""
        return np.asarray((values * self.mass).sum(axis=1) / self.totals)


def score_curve(scores: Counts, cuts: np.ndarray) -> ScoreCurve:
    """The density of scores as exp of a cubic in x, laid through noisy totals of the bins by least
    squares; a weak prior keeps what noise hides near a normal density."""
    totals, noise = scores.moved.sum(axis=1), 2 * scores.noise**2
    edges = _edges(cuts)
    weights, half = _WEIGHTS, np.diff(edges)[:, None] / 2
    x = (edges[1:] + edges[:-1])[:, None] / 2 + half * _PLACES
    t = x / _WIDEST
    basis = np.stack([np.ones_like(t), t, t**2, t**3])  # (4, bins, nodes)
    size = max(float(totals.sum()), 4.0)
    positive = np.maximum(totals - scores.noise, 0.0) + 1e-3
    middle = float(positive @ x.mean(axis=1) / positive.sum())
    spread = float(positive @ (x.mean(axis=1) - middle) ** 2 / positive.sum())
    spread = min(max(spread, 0.25), 9.0)
    first = np.array(
        [
            math.log(size / math.sqrt(2 * math.pi * spread)) - middle**2 / (2 * spread),
            middle * _WIDEST / spread,
            -(_WIDEST**2) / (2 * spread),
            0.0,
        ]
    )
    prior = np.diag([0.1, 0.1, 0.1, 0.3]) ** 2
    at = first
    for _ in range(40):
        mass = weights * half * np.exp(np.clip(np.tensordot(at, basis, 1), -30.0, 30.0))
        found = mass.sum(axis=1)
        slopes = (basis * mass).sum(axis=2)  # (4, bins)
        scale = 1 / (np.maximum(found, 0.5) + noise)
        step = np.linalg.solve(
            (slopes * scale) @ slopes.T + prior,
            slopes @ (scale * (totals - found)) - prior @ (at - first),
        )
        at = at + step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-6:
            break
    mass = weights * half * np.exp(np.clip(np.tensordot(at, basis, 1), -30.0, 30.0)) + 1e-6
    return ScoreCurve(x, _bent(mass, x, totals, noise), mass)


def _bent(mass: np.ndarray, x: np.ndarray, totals: np.ndarray, noise: float) -> np.ndarray:
    """A smooth curve, bent where bins say that scores are not spread so smoothly: by the logarithm
    of what they hold over what the curve does, with straight lines between their middles. What a
    bin holds is believed as far as it stands out of noise and chance."""
    found = mass.sum(axis=1)
    prior = (_ROUGH * np.maximum(found, totals)) ** 2
    believed = found + (totals - found) * prior / (prior + noise + np.maximum(found, 1.0))
    apart = np.log(np.maximum(believed, 0.03 * found) / found)
    bent = mass * np.exp(np.interp(x.ravel(), x.mean(axis=1), apart)).reshape(mass.shape)
    return np.asarray(bent)


class Calibrated(NamedTuple):
    """Slope and intercept of the log-odds of the outcome in those of the score."""

    slope: Metric
    intercept: Metric
    at: tuple[float, float]


class _Root(NamedTuple):
    """Where the equations of calibration hold: (a, b), chances (bins,), and how each cell (bins, 2)
    pulls at a and b; whether they hold anywhere."""

    at: np.ndarray
    chance: np.ndarray
    pulls: np.ndarray
    known: bool


def calibration(scores: Counts, curve: ScoreCurve, confidence: float) -> Calibrated:
    """Of counts (bins, 2) without and with the outcome. What another density within the bins, a
    smooth or an even one, would change, counts as an error: most of the larger; so does 0.06 of the
    width of each bin, by which the mean of its scores may be elsewhere."""
    root = _root(scores, curve)
    others = [_root(scores, other, root.at).at - root.at for other in (curve.even, curve.smooth)]
    apart = np.abs(others).max(axis=0)
    width = 0.06 * (curve.x[:, -1] - curve.x[:, 0])
    inside = expit(root.at[0] + root.at[1] * curve.x)
    moved = curve.totals * root.at[1] * curve.mean(inside * (1 - inside)) * width
    smooth = np.stack([1 - root.chance, root.chance], axis=1) * curve.totals[:, None]
    found = []
    for place, name in enumerate(("calibration intercept", "calibration slope")):
        _, noise = scores.errors(root.pulls[place])
        sampling = float((root.pulls[place] ** 2 * smooth).sum())
        pull = root.pulls[place, :, 1] - root.pulls[place, :, 0]  # of one record more with it
        error = noise + (_DOUBT * apart[place]) ** 2 + float((pull**2 * moved**2).sum())
        said = root.known and error + sampling < _WIDEST_SLOPE**2
        value = float(root.at[place])
        found.append(measured(name, value, sampling, error, confidence, known=said))
    return Calibrated(found[1], found[0], (float(root.at[0]), float(root.at[1])))


def _root(scores: Counts, curve: ScoreCurve, first: np.ndarray | None = None) -> _Root:
    cells, known = scores.moved, False
    at = np.array([0.0, 1.0]) if first is None or np.abs(first).max() > 2 else first
    for _ in range(100):
        inside = expit(at[0] + at[1] * curve.x)
        chance, bend = curve.mean(inside), inside * (1 - inside)
        design = np.stack([curve.mean(bend), curve.mean(bend * curve.x)], axis=1)
        sampled = curve.totals * chance * (1 - chance)
        noise = scores.noise**2 * (chance**2 + (1 - chance) ** 2)
        pull = design * (curve.totals / (sampled + noise))[:, None]
        jacobian = pull.T @ (design * curve.totals[:, None]) + 1e-9 * np.eye(2)
        residual = cells[:, 1] - cells.sum(axis=1) * chance
        step = np.linalg.solve(jacobian, pull.T @ residual)
        at = at + np.clip(step, -0.5, 0.5)
        known = bool(np.abs(step).max() < 1e-6)
        if known or np.abs(at).max() > 8:
            break
    pulls = np.linalg.solve(jacobian, pull.T)  # (2, bins)
    return _Root(at, chance, np.stack([-pulls * chance, pulls * (1 - chance)], axis=2), known)


def auc(scores: Counts, curve: ScoreCurve, slope: float, confidence: float) -> Metric:
    """How often a record with the outcome scores higher than one without."""
    cells = scores.moved
    without, with_ = cells[:, 0], cells[:, 1]
    wins = _wins(curve, min(max(slope, 0.0), 3.0))
    sizes = cells.sum(axis=0)
    noise = scores.noise * math.sqrt(len(cells))
    known = bool((sizes > LEAST_SIZE * noise).all())
    zero, one = np.maximum(sizes, 1.0)
    below = np.concatenate([[0.0], np.cumsum(without)[:-1]])
    above = np.concatenate([np.cumsum(with_[::-1])[::-1][1:], [0.0]])
    over, under = below + wins * without, above + wins * with_
    value = float(with_ @ over) / (zero * one)
    gradient = np.stack([(under / one - value) / zero, (over / zero - value) / one], axis=1)
    sampling, noise_part = scores.errors(gradient)
    sampling = max(sampling, value * (1 - value) / (zero + one))
    # Noise times noise: the form is bilinear.
    order = np.tri(len(cells), k=-1) + np.diag(wins) - min(max(value, 0.0), 1.0)
    noise_part += scores.noise**4 * float((order**2).sum()) / (zero * one) ** 2
    ties = np.maximum(with_ * without, 0.0) / (zero * one)
    even = _wins(curve.even, min(max(slope, 0.0), 3.0))
    binned = float(ties @ np.abs(wins - 0.5)) / 3, float(ties @ np.abs(wins - even))
    error = noise_part + binned[0] ** 2 + binned[1] ** 2
    return measured("AUC", value, sampling, error, confidence, (0.0, 1.0), known)


def _wins(curve: ScoreCurve, slope: float) -> np.ndarray:
    """In each bin, how often a record with the outcome scores higher than one without, if the odds
    of the outcome are as exp(slope x) within it."""
    x = curve.x - curve.x.mean(axis=1, keepdims=True)
    one = curve.mass * np.exp(slope * x)
    one, zero = (part / part.sum(axis=1, keepdims=True) for part in (one, curve.mass))
    below = np.cumsum(zero, axis=1) - zero / 2
    return np.asarray((one * below).sum(axis=1))


# ------------------------------------------------------------------- means of losses


class Sums(NamedTuple):
    """Noisy sums of u and √2 (u² - 3/4) over N records, u in [-1, 1], each of deviation `noise`; N
    is noisy too where it is not `exact`. u stands for centre + half u."""

    size: float
    first: float
    second: float
    noise: float
    exact: bool
    centre: float
    half: float

    @property
    def known(self) -> bool:
        return self.exact or self.size > LEAST_SIZE * self.noise

    @property
    def mean(self) -> float:
        return self.centre + self.half * min(max(self.first / max(self.size, 1.0), -1.0), 1.0)

    @property
    def variance(self) -> float:
        """Of one record's value."""
        size = max(self.size, 2.0)
        middle = min(max(self.first / size, -1.0), 1.0)
        squares = self.second / _ROOT + 0.75 * size - self.first**2 / size
        squares += self.noise**2 * (1 + middle**2 * (not self.exact)) / size
        return self.half**2 * min(max(squares / (size - 1), 1e-12), 1 - middle**2 + 1e-12)

    @property
    def mean_errors(self) -> tuple[float, float]:
        """Of the mean: variances from sampling and from noise."""
        size = max(self.size, 1.0)
        middle = min(max(self.first / size, -1.0), 1.0)
        noise = self.noise**2 * (1 + middle**2 * (not self.exact))
        # The spread is uncertain too: a standard error of it is added, a third of the time.
        doubt = self.half**2 * self.noise * math.sqrt(0.5 + 4 * middle**2) / (3 * size)
        return (self.variance + doubt) / size, self.half**2 * noise / size**2


def mean_loss(name: str, sums: Sums, confidence: float) -> Metric:
    """The mean of a bounded loss."""
    limits = (sums.centre - sums.half, sums.centre + sums.half)
    return measured(name, sums.mean, *sums.mean_errors, confidence, limits, sums.known)


def rmse(squares: Sums, confidence: float) -> Metric:
    """The root of mean squared errors; squares are clipped at a public bound. Its interval is that
    of the mean, on the root's scale."""
    found = mean_loss("RMSE", squares, confidence)
    if not found.determined:
        return found
    low, value, high = (math.sqrt(max(part, 0.0)) for part in (found.low, found.value, found.high))
    slope = 1 / (2 * max(value, 1e-12))
    return Metric("RMSE", value, found.std_error * slope, found.sampling_error * slope, low, high)


def r_squared(squares: Sums, target: Sums, confidence: float) -> Metric:
    """1 - mean squared error / variance of the target.

    Errors e of a model y = ŷ + e that do not depend on ŷ have Cov(e², (y - ȳ)²) = Var e² and
    Var (y - ȳ)² = Var e² + 4 E e² Var ŷ + 2 (Var ŷ)², ŷ normal: that is what is taken for them.
    """
    error, whole = max(squares.mean, 0.0), target.variance
    size = max(target.size, 2.0)
    explained = max(whole - error, 0.0)
    spread, noise_of_error = squares.mean_errors
    of_whole = spread + (4 * error * explained + 2 * explained**2) / size
    middle = (target.first / size) * target.half
    noise_of_whole = (
        target.noise**2
        * (
            target.half**4 / 2
            + 4 * (middle * target.half) ** 2
            + (not target.exact) * (0.75 * target.half**2 + middle**2) ** 2
        )
        / size**2
    )
    part = error / whole
    sampling = (spread - 2 * part * spread + part**2 * of_whole) / whole**2
    noise = (noise_of_error + part**2 * noise_of_whole) / whole**2
    known = squares.known and target.known and whole > 3 * math.sqrt(noise_of_whole)
    return measured("R²", 1 - part, max(sampling, 0.0), noise, confidence, (-math.inf, 1.0), known)


def difference(name: str, one: Metric, other: Metric, confidence: float) -> Metric:
    """The first less the second, of different records with noise of their own."""
    sampling = one.sampling_error**2 + other.sampling_error**2
    whole = one.std_error**2 + other.std_error**2
    known = one.determined and other.determined
    noise = max(whole - sampling, 0.0)
    return measured(name, one.value - other.value, sampling, noise, confidence, known=known)
