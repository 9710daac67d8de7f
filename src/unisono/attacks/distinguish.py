"""How well a threshold on scores tells two worlds apart, with proved confidence.

A test "score above t" has

    FPR = P_out(test says in),   FNR = P_in(test says out),   accuracy = 1 - (FPR + FNR) / 2,

and privacy bounds every test (data processing), hence also this one:

    (epsilon, delta)-DP   1 - FNR <= e^epsilon FPR + delta,  1 - FPR <= e^epsilon FNR + delta,
                          and by their sum  accuracy <= (e^epsilon + delta) / (1 + e^epsilon)
    mu-GDP                FNR >= Phi(Phi^-1(1 - FPR) - mu),  hence  accuracy <= Phi(mu / 2)

The threshold, its orientation and the statistic are chosen on one half of the scores; the
confidence bound is taken on the other half, which the choice never saw. Two statistics:

* ``errors``: Clopper-Pearson upper bounds of FPR and of FNR, half of the error level each.
  Both hold at once, so both directions of the inequality may be used without further cost.
* ``accuracy``: Clopper-Pearson lower bound of the accuracy from the pooled count of right
  answers. The count is a sum of independent coins of two different biases; Hoeffding (1956,
  theorem 4) shows that its upper tail is never heavier than that of the binomial with the
  average bias once it is one above the mean, and for levels up to 1/4 the critical value
  always is (Greenberg and Mohri 2014). It is sharper when both errors are common.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
Statistic = Literal["errors", "accuracy"]

MINIMUM_CONFIDENCE = 0.75
# Of 300 audits of halved noise (epsilon = 1, 5000 runs) 1 misses 12, 4 misses 5 and 16 none;
# larger values lose rare leaks (a release in a hundred in the clear: 74 % found, at 400 56 %).
CAUTION = 16


@dataclass(frozen=True)
class Evidence:
    """The test that was chosen on the first half, and what it did on the second.

    The test answers "in" for scores above ``threshold`` (not above it if ``inverted``);
    ``false_positives`` and ``false_negatives`` count its errors in ``held_out`` runs a world.
    """

    statistic: Statistic
    threshold: float
    inverted: bool
    false_positives: int
    false_negatives: int
    held_out: int

    @property
    def false_positive_rate(self) -> float:
        return self.false_positives / self.held_out

    @property
    def false_negative_rate(self) -> float:
        return self.false_negatives / self.held_out


def lower_bound(
    choice: tuple[Array, Array],
    held_out: tuple[Array, Array],
    value: Callable[[Array, Array], Array],
    level: float,
) -> tuple[float, Evidence]:
    """Best ``value`` on the first half names the test; its value on the second is the bound.

    The choice compares bounds of a smaller level: the lucky extremes of the tails would win
    otherwise, and disappoint on the second half. The guarantee does not depend on it.
    ``value`` maps upper confidence bounds of the two errors, (k,) each, to (k,). A test that
    does no better than a coin on the first half is worth -infinity.
    """
    thresholds = _candidates(*choice)
    above_in, above_out = (_above(world, thresholds) for world in choice)
    orientation = np.sign(above_in - above_out)
    errors = _errors(above_in, above_out, orientation, len(choice[0]))
    predicted = {
        statistic: np.where(orientation == 0, -np.inf, value(*bounds))
        for statistic, bounds in limits(*errors, len(choice[0]), level / CAUTION).items()
    }
    statistic = max(predicted, key=lambda name: float(predicted[name].max()))
    best = int(predicted[statistic].argmax())

    runs = len(held_out[0])
    threshold, sign = thresholds[best : best + 1], orientation[best : best + 1]
    above = [_above(world, threshold) for world in held_out]
    errors = _errors(above[0], above[1], sign, runs)
    bound = float(value(*limits(*errors, runs, level)[statistic])[0]) if sign[0] else -np.inf
    return bound, Evidence(
        statistic=statistic,
        threshold=float(threshold[0]),
        inverted=bool(sign[0] < 0),
        false_positives=int(errors[0][0]),
        false_negatives=int(errors[1][0]),
        held_out=runs,
    )


def _candidates(inside: Array, outside: Array) -> Array:
    """Thresholds between scores: evenly by rank and, for rare errors, in each world's tails.

    They lie halfway to the next larger score, so that worlds with a gap between them are also
    told apart by the scores that were not seen.
    """
    ordered = np.sort(np.concatenate([inside, outside]))
    last = len(ordered) - 1
    tail = np.r_[0, np.geomspace(1, len(inside) / 4, 32).astype(int)]
    tops = [np.sort(world)[::-1][tail] for world in (inside, outside)]
    bottoms = [np.sort(world)[tail] for world in (inside, outside)]
    # A test is "strictly above", so what spares a lowest score is the score before it.
    before = [ordered[np.maximum(np.searchsorted(ordered, b, "left") - 1, 0)] for b in bottoms]
    even = ordered[np.linspace(0, last, 129).astype(int)]
    low = np.unique(np.concatenate([even, *tops, *before]))
    high = ordered[np.minimum(np.searchsorted(ordered, low, "right"), last)]
    middle = low / 2 + high / 2
    # Between neighbouring floats there is no middle.
    return np.where((low < middle) & (middle < high), middle, low)


def _above(scores: Array, thresholds: Array) -> Array:
    """How many scores (n,) lie strictly above each threshold (k,)."""
    return (len(scores) - np.searchsorted(np.sort(scores), thresholds, "right")).astype(float)


def _errors(
    above_in: Array, above_out: Array, orientation: Array, runs: int
) -> tuple[Array, Array]:
    """Counts of false positives and false negatives of the oriented tests, (k,) each."""
    upward = orientation > 0
    return (
        np.where(upward, above_out, runs - above_out),
        np.where(upward, runs - above_in, above_in),
    )


def limits(
    false_positives: Array, false_negatives: Array, runs: int, level: float
) -> dict[Statistic, tuple[Array, Array]]:
    """Upper confidence bounds of (FPR, FNR) for each statistic, of error at most ``level``.

    A bound on the accuracy is written as the pair with both errors equal: at equal errors the
    inequalities of the module's head say what they say about the accuracy.
    """
    pooled = clopper_pearson(false_positives + false_negatives, 2 * runs, level)
    return {
        "accuracy": (pooled, pooled),
        "errors": (
            clopper_pearson(false_positives, runs, level / 2),
            clopper_pearson(false_negatives, runs, level / 2),
        ),
    }


def clopper_pearson(count: Array, runs: int, level: float) -> Array:
    """Clopper-Pearson: the p with P(Binomial(runs, p) <= count) = level; 1 for count = runs."""
    below = np.minimum(count, runs - 1)
    return np.where(count < runs, special.betaincinv(below + 1, runs - below, 1.0 - level), 1.0)


def odds(false_positive: Array, false_negative: Array, delta: float) -> Array:
    """e^epsilon that (epsilon, delta)-DP needs to allow these error rates."""
    return np.maximum(
        (1.0 - delta - false_negative) / false_positive,
        (1.0 - delta - false_positive) / false_negative,
    )


def separation(false_positive: Array, false_negative: Array) -> Array:
    """mu that mu-GDP needs to allow these error rates: Phi^-1(1 - FPR) - Phi^-1(FNR)."""
    return -special.ndtri(false_positive) - special.ndtri(false_negative)
