"""What is lost by noise, from the signal-to-noise ratio of a run: laws fitted to simulations.

With r the ratio of the whole run (`planning.noise`), the accuracy or R² that a private model loses
against the same model without privacy is about

    lost(r) = most / (1 + (r / half) ^ power),        most = 1 - 1 / classes  (R²: 1)

and for networks r is divided by classes / 2, since only a class's own records teach its outputs.
Without signal a classifier guesses; for convex models by noisy gradients the loss falls as 1 / r.
`half` is where half of it is lost. How much a given r really costs depends on the data (how far
records lie from the boundary, how many features matter), which a plan does not know: so every
law has a band, the factors exp(-below) and exp(above) of the odds lost / (most - lost).

The constants were fitted by the code of `benchmarks/planning.py --fit` to runs on planes with 3 to
30 features, 100 to 50,000 records at 2 to 1,000 parties, epsilon 0.3 to 8 and every trust, one run
each: 36 planes for a convex classifier (19 for fed-avg), 20 to 40 for a regression (10 for
fed-avg), 12 for networks by DP-SGD, whose law dp-ftrl and local-dp-sgd share; fed-avg has one law
for all classifiers, and preconditioned gradients have that of gradient perturbation, unmeasured.
The division by classes was introduced after a law without it had failed on digits. How often
bands held on other planes and on real data is in docs/planning.md.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unisono.planning.tasks import Task
from unisono.releases.algorithm import UtilityLaw

_TAIL = 0.05
# Losses closer to nothing or everything than this are beyond what test records can tell.
_LEAST, _MOST = 0.002, 0.98
_CLOSE, _OPEN = 0.005, 0.9


# What fewer records cost without privacy, over records for each feature (`planning.alone`).
FEWER_RECORDS = {
    Task.CLASSIFICATION: UtilityLaw(0.166, 0.78, 2.01, 1.29),
    Task.REGRESSION: UtilityLaw(1.05, 1.19, 2.1, 2.98),
    Task.NETWORK: UtilityLaw(3.0, 1.02, 1.85, 1.48),
}


class Band(NamedTuple):
    """What is likely, and between which ends it should lie."""

    low: float
    likely: float
    high: float


def band(law: UtilityLaw, ratio: float, classes: int) -> Band:
    """What is lost at this ratio; `classes` 0 is regression.

    >>> band(UtilityLaw(1.0, 1.0, 0.0, 0.0), 4.0, 2)
    Band(low=0.1, likely=0.1, high=0.1)
    """
    most = largest(classes)
    own = _own(ratio, classes) if law.by_class else ratio
    odds = (own / law.half) ** law.power
    ends = (math.exp(law.below), 1.0, math.exp(-law.above))
    return Band(*(most / (1 + odds * factor) for factor in ends))


def holds(law: UtilityLaw, ratio: float, classes: int, lost: float) -> bool:
    """Whether a run lost what the band says, to half a point, which test records leave open.
    A band that reaches nine tenths of everything is open upwards."""
    found, most = band(law, ratio, classes), largest(classes)
    return lost >= found.low - _CLOSE and (
        lost <= found.high + _CLOSE or found.high >= _OPEN * most
    )


def fit(
    ratios: Sequence[float], classes: Sequence[int], lost: Sequence[float], by_class: bool = False
) -> UtilityLaw:
    """The law of runs: a line through the logarithms of odds and ratios, by least squares."""
    if by_class:
        ratios = [_own(*pair) for pair in zip(ratios, classes, strict=True)]
    share = np.asarray(lost) / [largest(count) for count in classes]
    share = np.clip(share, _LEAST, _MOST)
    odds, axis = np.log(share / (1 - share)), np.log(ratios)
    slope, start = np.polyfit(axis, odds, 1)
    rest = odds - (start + slope * axis)
    low, high = np.quantile(rest, [_TAIL, 1 - _TAIL])
    half, power, below, above = (
        float(f"{x:.3g}") for x in (np.exp(-start / slope), -slope, -low, high)
    )
    return UtilityLaw(half, power, below, above, by_class)


def _own(ratio: float, classes: int) -> float:
    """A class's own share of the ratio, over that of one of two."""
    return ratio * 2 / max(2, classes)


def largest(classes: int) -> float:
    """The most that can be lost: all that is above guessing, or all of R²."""
    return 1 - 1 / classes if classes else 1.0


__all__ = ["FEWER_RECORDS", "Band", "UtilityLaw", "band", "fit", "holds", "largest"]
