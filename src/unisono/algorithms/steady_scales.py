"""Middles and spreads of columns from counts that noise may drown: what a regression begins with.

`column_scales` reads quantiles of noisy counts, which are right where noise is small and arbitrary
where it is not: of 32 counts of 600 records at epsilon 1 noise is a tenth of the records in each.
Here counts c of n records with noise of a known deviation s are first drawn towards what is likely,

    f      the mean of bell-shaped shares, weighed by how well each explains the counts,
           exp(-|c - n f|² / 2 (s² + n / cells)), and by a prior: the middle within half of half the
           range, the spread about .3 of it
    n f + k (c - n f),     k = max(0, 1 - m s² / |c - n f|²)

(James and Stein 1961; m is the cells and three deviations of a sum of squares of that many, so that
noise alone is not kept), and then read as ever: where noise is small k is 1, and nothing changes.
A number that has two values alone, the ends of its range, has no quantiles worth a name. Where two
ends explain the counts to within noise, and better than bells do, its middle is the share of the
upper end, and its spread that of 0 and 1. Counts of a category are drawn to even shares by how far
shares drawn evenly from the simplex lie from them, against noise.

Everything here is post-processing of what was released.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from unisono.algorithms.column_scales import (
    BINS,
    Scales,
    column_scale,
    quantile_scale,
    read_scales,
    shares_of,
    value_scale,
)
from unisono.problems.glm import Columns, GeneralizedLinear

# Of the middle of a column, and of its spread: what is likely before anything is counted.
_MIDDLE_SD, _SPREAD, _SPREAD_FACTOR = 0.5, 0.3, 0.8
# Deviations of a sum of squares of noise, beyond which counts differ from what was thought.
_TOLD_APART = 3.0
# By how much two ends must be likelier than bells, in logarithms: most numbers have more values.
_BETTER = 1.0


class Shapes(NamedTuple):
    """Shares in the bins of a range that a column may have (m, bins), and the logarithms of how
    likely each is beforehand (m,)."""

    shares: np.ndarray
    log_prior: np.ndarray


def steady_scales(
    problem: GeneralizedLinear, found: Any, noise: float, records: int, columns: bool = True
) -> Scales:
    """What `column_scales` released of so many records, with noise of this deviation in every
    count. Without `columns` only the target is drawn: a number with a long tail has few records
    outside one bin, and no bell."""

    def column(own: Columns, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not columns:
            return column_scale(own, counts)
        if not own.number:
            return value_scale(shares_of(to_even_shares(counts, noise, records))[1:])
        middle, spread = number_scale(counts, noise, records)
        return np.array([middle]), np.array([spread])

    return read_scales(
        problem, found, column, lambda counts: to_bells(counts, noise, records), noise
    )


def number_scale(counts: np.ndarray, noise: float, records: int) -> tuple[float, float]:
    """Middle and spread of a number in [-1, 1] from noisy counts in its bins."""
    _, by_bells = _explained(counts, noise, records, bells())
    ends, by_ends = _explained(counts, noise, records, two_ends())
    apart, variance = counts - records * ends, _variance(counts, noise, records)
    if by_ends > by_bells + _BETTER and apart @ apart < variance * _most(len(counts)):
        return _ends_scale(float(ends[-1]))
    return quantile_scale(to_bells(counts, noise, records), -1.0, 1.0)


def _ends_scale(upper: float) -> tuple[float, float]:
    """Middle and spread of -1 and 1, where 1 has this share."""
    [middle], [spread] = value_scale(np.array([upper]))
    return 2 * float(middle) - 1, 2 * float(spread)


def two_valued(centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Which numbers (d,) have two values alone, by the middles and spreads that were read: those of
    two ends have a relation that no other number hits to five digits."""
    pairs = [_ends_scale((float(one) + 1) / 2) for one in centre]
    return np.array(
        [abs(own - spread) < 1e-5 for own, (_, spread) in zip(scale, pairs, strict=True)]
    )


def to_bells(counts: np.ndarray, noise: float, records: int) -> np.ndarray:
    """Counts drawn towards bell-shaped ones, the more the less they differ beyond noise."""
    likely = records * _explained(counts, noise, records, bells())[0]
    apart = counts - likely
    kept = max(0.0, 1 - _most(len(counts)) * noise**2 / max(float(apart @ apart), 1e-9))
    return np.asarray(likely + kept * apart)


def to_even_shares(counts: np.ndarray, noise: float, records: int) -> np.ndarray:
    """Counts of a category's values drawn towards even ones."""
    cells = len(counts)
    own = records**2 * (cells - 1) / (cells**2 * (cells + 1))  # of a share, even on the simplex
    even = records / cells
    return np.asarray(even + own / (own + noise**2) * (counts - even))


def _most(cells: int) -> float:
    """What the sum of so many squares of unit noise hardly exceeds."""
    return cells + _TOLD_APART * math.sqrt(2 * cells)


def _variance(counts: np.ndarray, noise: float, records: int) -> float:
    """Of a count, by noise and by sampling."""
    return noise**2 + max(records, 1) / len(counts)


def _explained(
    counts: np.ndarray, noise: float, records: int, shapes: Shapes
) -> tuple[np.ndarray, float]:
    """The mean shares (bins,) of shapes weighed by how well they explain the counts, and the
    logarithm of how well all of them do."""
    shares, log_prior = shapes
    fit = records * (shares @ counts) - records**2 / 2 * np.sum(shares**2, axis=1)
    logs = fit / _variance(counts, noise, records) + log_prior
    top = float(logs.max())
    weights = np.exp(logs - top)
    return weights @ shares / weights.sum(), top + math.log(weights.sum())


@lru_cache(maxsize=1)
def bells() -> Shapes:
    """Normal laws over [-1, 1], what lies beyond counting at the ends."""
    middle, spread = (
        part.ravel()
        for part in np.meshgrid(np.linspace(-1, 1, 41), np.geomspace(0.03, 1.2, 12), indexing="ij")
    )
    edges = np.linspace(-1, 1, BINS + 1)
    below = ndtr((edges - middle[:, None]) / spread[:, None])
    below[:, 0], below[:, -1] = 0.0, 1.0
    likely = (middle / _MIDDLE_SD) ** 2 + (np.log(spread / _SPREAD) / _SPREAD_FACTOR) ** 2
    return Shapes(np.diff(below, axis=1), _normalised(-likely / 2))


@lru_cache(maxsize=1)
def two_ends() -> Shapes:
    """All records at both ends of the range, in any proportion."""
    upper = (np.arange(200) + 0.5) / 200
    shares = np.zeros((len(upper), BINS))
    shares[:, 0], shares[:, -1] = 1 - upper, upper
    return Shapes(shares, _normalised(np.zeros(len(upper))))


def _normalised(logs: np.ndarray) -> np.ndarray:
    return np.asarray(logs - np.log(np.sum(np.exp(logs))))


__all__ = ["number_scale", "steady_scales", "to_bells", "to_even_shares", "two_valued"]
