"""What is lost by noise, from the signal-to-noise ratio of a run: laws fitted to simulations.

With r the ratio of the whole run (`planning.noise`), the accuracy that a private classifier loses
against the same model without privacy, or the share of its R² that a private regression loses, is
about

    lost(r) = most / (1 + (r / half) ^ power),        most = 1 - 1 / classes  (R²: 1, all of it)

and for networks r is divided by classes / 2, since only a class's own records teach its outputs.
Without signal a classifier guesses; for convex models by noisy gradients the loss falls as 1 / r.
`half` is where half of it is lost. How much a given r really costs depends on the data (how far
records lie from the boundary, how many features matter, how much of their bounds columns fill),
which a plan does not know: so every law has a band, the factors exp(-below) and exp(above) of the
odds lost / (most - lost).

The constants were fitted by `benchmarks/planning.py --fit` to its development list: planes of six
shapes (columns that are even, narrow, skewed, categories, correlated, or all of these) with 3 to 25
columns, 150 to 10,000 records at 3 to 200 parties of equal and unequal size, epsilon 0.3 to 8 and
every trust, and two real tables, breast_cancer and digits; one run each. Each algorithm has a line
of its own; the ends of bands come from the deviations of all algorithms for a task together, in
units of each one's spread, so that 19 of 20 runs of the list lie within and bands are as narrow as
that allows. Networks learn bent planes and digits, 27 runs; DP-FTRL shares the law of DP-SGD. How
often bands held on tables that were not used to fit them is in docs/planning.md.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from unisono.planning.tasks import Task
from unisono.releases.algorithm import UtilityLaw

# Of all runs of the development list, in the band: more than the nine tenths that tables which
# nobody has looked at should have.
_HELD = 0.95
# An algorithm's own spread counts as if so many runs had the usual one. Noise of the gradient costs
# 1 / r: powers are drawn to 1 as if that were known up to a half, beside odds that scatter by 1.4.
_BORROWED, _DRAWN = 10, 8.0
_STEPS = tuple(step / 10 for step in range(31))  # ends of bands that are tried, in spreads
# Losses closer to nothing or everything than this are beyond what test records can tell.
_LEAST, _MOST = 0.002, 0.98
_CLOSE, _OPEN = 0.005, 0.9


# What fewer records cost without privacy, over records for each feature (`planning.alone`).
FEWER_RECORDS = {
    Task.CLASSIFICATION: UtilityLaw(0.19, 0.794, 2.34, 1.38),
    Task.REGRESSION: UtilityLaw(3.06, 1.36, 2.96, 2.96),
    Task.NETWORK: UtilityLaw(1.29, 0.841, 1.75, 1.75),
}


class Band(NamedTuple):
    """What is likely, and between which ends it should lie."""

    low: float
    likely: float
    high: float


def band(law: UtilityLaw, ratio: float, classes: int) -> Band:
    """What is lost at this ratio; `classes` 0 is regression, whose losses are shares of R².

    >>> band(UtilityLaw(1.0, 1.0, 0.0, 0.0), 4.0, 2)
    Band(low=0.1, likely=0.1, high=0.1)
    """
    most = largest(classes)
    own = _own(ratio, classes) if law.by_class else ratio
    odds = (own / law.half) ** law.power
    ends = (math.exp(law.below), 1.0, math.exp(-law.above))
    return Band(*(most / (1 + odds * factor) for factor in ends))


def holds(law: UtilityLaw, ratio: float, classes: int, lost: float, close: float = _CLOSE) -> bool:
    """Whether a run lost what the band says, to half a point, which test records leave open (of a
    share of R², `close` is that over the R² itself). A band that reaches nine tenths of everything
    is open upwards."""
    found, most = band(law, ratio, classes), largest(classes)
    return lost >= found.low - close and (lost <= found.high + close or found.high >= _OPEN * most)


class Runs(NamedTuple):
    """What runs of one algorithm lost at which ratios, and how much test records leave open: (n,)
    each."""

    ratios: Sequence[float]
    classes: Sequence[int]
    lost: Sequence[float]
    close: Sequence[float]


def fit(runs: Mapping[str, Runs], by_class: bool = False) -> dict[str, UtilityLaw]:
    """The laws of algorithms for one task: for each a line through the logarithms of odds and
    ratios, by least squares, its power drawn to 1; then the narrowest bands that hold enough of all
    runs, their ends so many spreads of each algorithm apart."""
    middles, rests = {}, {}
    for name, (ratios, classes, lost, _) in runs.items():
        own = [_own(*pair) if by_class else pair[0] for pair in zip(ratios, classes, strict=True)]
        share = np.clip(np.asarray(lost) / [largest(count) for count in classes], _LEAST, _MOST)
        odds, axis = np.log(share / (1 - share)), np.log(own)
        apart = axis - axis.mean()
        slope = (apart @ odds - _DRAWN) / (apart @ apart + _DRAWN)
        start = odds.mean() - slope * axis.mean()
        middles[name] = UtilityLaw(math.exp(-start / slope), -slope, 0.0, 0.0, by_class)
        rests[name] = odds - (start + slope * axis)
    usual = float(np.mean(np.square(np.concatenate(list(rests.values())))))
    spreads = {
        name: math.sqrt((rest @ rest + _BORROWED * usual) / (len(rest) + _BORROWED))
        for name, rest in rests.items()
    }
    below, above = _narrowest(runs, middles, spreads)
    found = {}
    for name, law in middles.items():
        ends = (below * spreads[name], above * spreads[name])
        half, power, *reach = (float(f"{x:.3g}") for x in (law.half, law.power, *ends))
        found[name] = UtilityLaw(half, power, reach[0], reach[1], by_class)
    return found


def _narrowest(
    runs: Mapping[str, Runs], laws: Mapping[str, UtilityLaw], spreads: Mapping[str, float]
) -> tuple[float, float]:
    """How many spreads below and above the middle bands must reach, to hold enough runs and be as
    narrow as they can on average."""
    best = (math.inf, 0.0, 0.0)
    for below, above in itertools.product(_STEPS, _STEPS):
        inside, wide = [], []
        for name, own in runs.items():
            law = laws[name]._replace(below=below * spreads[name], above=above * spreads[name])
            for ratio, classes, lost, close in zip(*own, strict=True):
                inside.append(holds(law, ratio, classes, lost, close))
                found = band(law, ratio, classes)
                wide.append((found.high - found.low) / largest(classes))
        if np.mean(inside) >= _HELD:
            best = min(best, (float(np.mean(wide)), below, above))
    return best[1:]


def _own(ratio: float, classes: int) -> float:
    """A class's own share of the ratio, over that of one of two."""
    return ratio * 2 / max(2, classes)


def largest(classes: int) -> float:
    """The most that can be lost: all that is above guessing, or all of R²."""
    return 1 - 1 / classes if classes else 1.0


__all__ = ["FEWER_RECORDS", "Band", "Runs", "UtilityLaw", "band", "fit", "holds", "largest"]
