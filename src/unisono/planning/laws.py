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
each: 36 planes for a convex classifier (19 for fed-avg), 20 to 29 for a regression (10 for
fed-avg), 12 for networks by DP-SGD, whose law dp-ftrl and local-dp-sgd share; fed-avg has one law
for all classifiers. The division by classes was introduced after a law without it had failed on
digits. How often bands held on other planes and on real data is in docs/planning.md.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from unisono.planning.tasks import Task

_TAIL = 0.05
# Losses closer to nothing or everything than this are beyond what test records can tell.
_LEAST, _MOST = 0.002, 0.98
_CLOSE, _OPEN = 0.005, 0.9


class Band(NamedTuple):
    """What is likely, and between which ends it should lie."""

    low: float
    likely: float
    high: float


class Law(NamedTuple):
    """A law of loss over the ratio, and its band."""

    half: float
    power: float
    below: float
    above: float
    by_class: bool = False

    def band(self, ratio: float, classes: int) -> Band:
        """What is lost at this ratio; `classes` 0 is regression.

        >>> Law(1.0, 1.0, 0.0, 0.0).band(4.0, 2)
        Band(low=0.1, likely=0.1, high=0.1)
        """
        most = _largest(classes)
        own = _own(ratio, classes) if self.by_class else ratio
        odds = (own / self.half) ** self.power
        ends = (math.exp(self.below), 1.0, math.exp(-self.above))
        return Band(*(most / (1 + odds * factor) for factor in ends))

    def holds(self, ratio: float, classes: int, lost: float) -> bool:
        """Whether a run lost what the band says, to half a point, which test records leave open.
        A band that reaches nine tenths of everything is open upwards."""
        band, most = self.band(ratio, classes), _largest(classes)
        return lost >= band.low - _CLOSE and (
            lost <= band.high + _CLOSE or band.high >= _OPEN * most
        )


def fit(
    ratios: Sequence[float], classes: Sequence[int], lost: Sequence[float], by_class: bool = False
) -> Law:
    """The law of runs: a line through the logarithms of odds and ratios, by least squares."""
    if by_class:
        ratios = [_own(*pair) for pair in zip(ratios, classes, strict=True)]
    share = np.asarray(lost) / [_largest(count) for count in classes]
    share = np.clip(share, _LEAST, _MOST)
    odds, axis = np.log(share / (1 - share)), np.log(ratios)
    slope, start = np.polyfit(axis, odds, 1)
    rest = odds - (start + slope * axis)
    low, high = np.quantile(rest, [_TAIL, 1 - _TAIL])
    half, power, below, above = (
        float(f"{x:.3g}") for x in (np.exp(-start / slope), -slope, -low, high)
    )
    return Law(half, power, below, above, by_class)


def _own(ratio: float, classes: int) -> float:
    """A class's own share of the ratio, over that of one of two."""
    return ratio * 2 / max(2, classes)


def _largest(classes: int) -> float:
    return 1 - 1 / classes if classes else 1.0


# Output perturbation of squares: with the ridge of the published rule every run of 20 lost more
# than everything (its noise grows with 1 / ridge²); a ridge of one's own is not predicted.
_EVERYTHING = Law(1e12, 1.0, 0.0, 0.0)
_PARTIES = Law(1.53, 1.11, 2.39, 2.86)
_NETWORK = Law(0.543, 1.31, 1.65, 1.86, by_class=True)
LAWS: Mapping[Task, Mapping[str, Law]] = MappingProxyType(
    {
        Task.CLASSIFICATION: {
            "gradient-perturbation": Law(1.36, 1.01, 1.88, 1.36),
            "dp-sgd-convex": Law(1.34, 1.02, 1.56, 1.52),
            "output-perturbation": Law(0.454, 0.302, 1.19, 1.32),
            "sgd-synchronous": Law(1.11, 0.824, 1.67, 1.41),
            "fed-avg": _PARTIES,
        },
        Task.REGRESSION: {
            "gradient-perturbation": Law(11.9, 1.49, 2.63, 2.49),
            "dp-sgd-convex": Law(10.6, 1.26, 2.83, 2.59),
            "output-perturbation": _EVERYTHING,
            "sgd-synchronous": Law(34.8, 1.71, 3.5, 3.1),
            "fed-avg": Law(8.9, 1.77, 2.08, 2.26),
        },
        Task.NETWORK: {
            "dp-sgd": _NETWORK,
            "dp-ftrl": _NETWORK,
            "local-dp-sgd": _NETWORK,
            "fed-avg": _PARTIES,
        },
    }
)  # fmt: skip

__all__ = ["LAWS", "Band", "Law", "fit"]
