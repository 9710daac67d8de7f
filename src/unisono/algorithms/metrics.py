"""How good a model is, read from noisy counts and sums: metrics with intervals.

All of it is post-processing of releases whose noise has a known law. A metric is a function f of
noisy numbers c = C + noise, C counts or sums over records. To first order its error is

    Var f = Σ g² C  +  s² |g|²,        g = ∂f/∂c

sampling and noise: metrics do not change when all counts double, so that g·C = 0 and Poisson and
multinomial counts have the same sampling error. The first sum is linear in the counts, so that
noisy ones estimate it without bias. Where the number of records N is public, counts are moved so
that they add up to it, and noise loses its mean: s² (|g|² - (Σ g)²/m) of m counts.

    accuracy, recall of a class       shares of a confusion matrix
    AUC, calibration                  influence functions, at noisy distributions of the scores
                                      (`score_distributions`)
    Brier score, log loss             means of bounded losses of each record
    RMSE, R²                          means of clipped squared errors over the target's variance

**Not estimable**: where noise hides how many records a denominator holds.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from unisono.algorithms import score_distributions
from unisono.algorithms.hypothesis_tests import LEAST_SIZE
from unisono.algorithms.score_influence import Influence

_ROOT = math.sqrt(2.0)
# A slope per standard deviation of the scores with a larger standard error says nothing.
_WIDEST_SLOPE = 0.8
_LINE = "calibration slope", "calibration intercept"


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


# ------------------------------------------------------------------- scores, in two rounds


def auc(left: np.ndarray, drawn: np.ndarray, sums: Influence, confidence: float) -> Metric:
    """How often a record with the outcome scores higher than one without: what distributions say,
    of records `left` of every edge, and the noisy sum of influences. `drawn` is the same with noise
    added again."""
    value = float(score_distributions.area(score_distributions.shares(left))) + sums.auc
    sampling = score_distributions.area_sampling(left)
    noise = sums.auc_noise**2 + score_distributions.area_remainder(left, drawn)
    return measured("AUC", value, sampling, noise, confidence, (0.0, 1.0))


def calibration(
    left: np.ndarray, drawn: np.ndarray, noise: float, sums: Influence, confidence: float
) -> list[Metric]:
    """Slope and intercept of the log-odds of the outcome in those of the score; `noise` is the
    standard deviation of a node. Nothing where the equations hold nowhere, or where a slope per
    standard deviation of the scores has too large an error."""
    start = score_distributions.start_of(left, noise)
    at, known = score_distributions.root_of(start, sums.score)
    rest = score_distributions.calibration_remainder(
        start, score_distributions.start_of(drawn, noise)
    )
    if rest is None or not known:
        return no_calibration()
    found = score_distributions.covariance_of(start, at, sums.score_noise)
    # Weights of (a, b) in slope and intercept on the scale of the log-odds.
    weights = np.array([[0.0, 1.0], [1.0, -float(start.centre)]]) / [[1.0, start.scale]]
    sampling, noise_part = (np.diag(weights @ part @ weights.T) for part in found)
    added = noise_part + rest[::-1]
    if (sampling[0] + added[0]) * start.scale**2 > _WIDEST_SLOPE**2:
        return no_calibration()
    return [
        measured(name, float(value), float(own), float(more), confidence)
        for name, value, own, more in zip(_LINE, weights @ at, sampling, added, strict=True)
    ]


def no_calibration() -> list[Metric]:
    """Slope and intercept that are not estimable."""
    return [undetermined(name, (-math.inf, math.inf)) for name in _LINE]


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
