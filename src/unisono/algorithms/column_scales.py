"""Where the middle of every column lies and how far it spreads: what a regression begins with.

One release counts the records of every number in bins over its public range, of every category in
its values, and the target likewise. Each record counts once in each of them, so with d columns one
replaced record moves the counts by sqrt(2 d), or less where a column has one cell only. A column
whose shares are public, as that of the parties, is not counted: nothing is paid for it.

    centre, scale    of a number: the median, and (q80 - q20) / 1.68, which is the deviation of a
                     normal one; quantiles bear the heavy tails that moments do not
                     of 0 and 1: the share p, and sqrt(p (1 - p)), no less than a fifth

Noisy counts are moved to the nearest shares (on the simplex), which is post-processing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from unisono.algorithms.survey import Opened, pack, unpack
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.trust import Unit
from unisono.problems.glm import Columns, GeneralizedLinear
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind
from unisono.releases.release import Priced, Release
from unisono.releases.rows import Ones
from unisono.releases.table import Block, Table, TableRecords, lone_weight

BINS = 32  # of every number
_LEAST_SPREAD = 0.2  # of 0 and 1
# From the lowest to the highest fifth of a normal law, and to the highest twentieth, in deviations.
_QUINTILES, _TWENTIETHS = 1.68, 3.29
# Deviations beyond which a count among dozens is rarely noise.
_STANDS_OUT = 2.5
# How many spreads are far out, and the share of records there from which on a tail is heavy.
_FAR, HEAVY = 4.0, 0.025


class ColumnScalesConfig(AlgorithmConfig):
    """Public bounds say everything."""


class Scales(NamedTuple):
    """Middles and spreads of the features (d,), of the target, and the offset's middle; and of each
    feature the share of records that is certainly far out (d,)."""

    centre: np.ndarray
    scale: np.ndarray
    mean: float
    spread: float
    offset: float
    far: Any = ()


def scales_of(problem: GeneralizedLinear, found: Any, noise: float = 0.0) -> Scales:
    """What was released with noise of this deviation in every count, read; without a release, the
    middle of what is public."""
    return read_scales(problem, found, column_scale, lambda counts: counts, noise)


def read_scales(
    problem: GeneralizedLinear,
    found: Any,
    column: Callable[[Columns, np.ndarray], tuple[np.ndarray, np.ndarray]],
    drawn: Callable[[np.ndarray], np.ndarray],
    noise: float,
) -> Scales:
    """What was released, by what `column` reads in the counts of a column, and from counts of a
    target that is a number as they are `drawn` towards what is likely."""
    sizes = cell_counts(problem)
    cells = [np.full(size, 1.0 / size) for size in sizes]
    if found is not None:
        cells = np.split(unpack(np.asarray(found)).total, np.cumsum(sizes)[:-1])
    counted = len(_counted(problem))
    columns, counts = iter(cells[:counted]), cells[counted]
    pairs, tails = [], []
    for own in problem.columns:
        if own.shares is not None:
            pairs.append(value_scale(own.shares))
            tails += [0.0] * own.width
            continue
        found_here = next(columns)
        pairs.append(column(own, found_here))
        tails += [far_part(found_here, *pairs[-1], noise)] if own.number else [0.0] * own.width
    centre, scale = [one for one, _ in pairs], [other for _, other in pairs]
    if problem.family == "binomial":
        mean, spread = float(shares_of(counts)[1]), 1.0
    elif problem.wide:
        edges = target_edges(problem)
        if problem.family == "poisson":
            mean, spread = moments(without_far(counts, noise), edges)
        else:
            mean, spread = mean_scale(drawn(counts), edges)
    else:
        mean, spread = quantile_scale(drawn(counts), *problem.target)
    offset = 0.0
    if problem.offset is not None:
        offset = offset_middle(problem, cells[-1])
    empty = np.zeros((0,))
    return Scales(
        np.concatenate([empty, *centre]),
        np.concatenate([empty, *scale]),
        mean,
        spread,
        offset,
        np.array(tails),
    )


def far_part(counts: np.ndarray, middle: np.ndarray, spread: np.ndarray, noise: float) -> float:
    """The share of records further than four spreads from the middle, less two standard deviations
    of its noise, by noisy counts in bins of [-1, 1]: next to nothing for a normal number, .02 for
    an exponential one, .075 for a lognormal one with σ = 1.5."""
    middles = np.linspace(-1.0, 1.0, 2 * len(counts) + 1)[1::2]
    far = np.abs(middles - middle) > _FAR * spread
    certain = float(np.sum(counts[far])) - 2 * noise * math.sqrt(float(np.sum(far)))
    return max(certain, 0.0) / max(float(np.sum(counts)), 1.0)


def target_edges(problem: GeneralizedLinear) -> np.ndarray:
    """Ends of the bins of a target that is a number. Each of the first counts has its own bin, and
    bins of larger ones widen with them: wide public bounds cost nothing there."""
    low, high = problem.target
    if problem.family != "poisson":
        return np.linspace(low, high, BINS + 1)
    edges = [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5]
    while edges[-1] <= high:
        edges.append(math.ceil(1.35 * edges[-1]) + 0.5)
    return np.array(edges)


def mean_scale(counts: np.ndarray, edges: np.ndarray) -> tuple[float, float]:
    """Mean and spread of a number by noisy counts in its bins. The spread is that of quantiles,
    raised towards the deviation where the tail is long, but less so where bounds are far out and
    bins say little of it."""
    mean, deviation = moments(counts, edges)
    _, spread = quantile_scale(counts, float(edges[0]), float(edges[-1]))
    most = 1.5 if edges[-1] - edges[0] > 8 * spread else 4.0
    return mean, max(spread, min(deviation, most * spread))


def moments(counts: np.ndarray, edges: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation by noisy counts in bins."""
    shares, middles = shares_of(counts), (edges[1:] + edges[:-1]) / 2
    mean = float(shares @ middles)
    return mean, math.sqrt(float(shares @ (middles - mean) ** 2))


def without_far(counts: np.ndarray, noise: float) -> np.ndarray:
    """Counts without those beyond the last one that stands out of the noise, by itself or with all
    that follow: a few records of noise in bins far out would move the mean by more than all
    others."""
    tails, bins = np.cumsum(counts[::-1])[::-1], np.arange(len(counts), 0, -1)
    seen = np.maximum(counts, tails / np.sqrt(bins)) > _STANDS_OUT * noise
    last = np.flatnonzero(seen)
    return np.where(np.arange(len(counts)) <= (last[-1] if len(last) else 0), counts, 0.0)


def offset_middle(problem: GeneralizedLinear, counts: np.ndarray) -> float:
    """The median offset; for counts the logarithm of the mean exposure, as their mean needs."""
    assert problem.offset is not None
    if problem.family != "poisson":
        return quantile_scale(counts, *problem.offset)[0]
    edges = np.linspace(*problem.offset, BINS + 1)
    return math.log(shares_of(counts) @ np.exp((edges[1:] + edges[:-1]) / 2))


def column_scale(own: Columns, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Middles and spreads of one column's features, of the noisy counts in its cells."""
    if own.number:
        middle, spread = quantile_scale(counts, -1.0, 1.0)
        return np.array([middle]), np.array([spread])
    return value_scale(shares_of(counts)[1:])


def value_scale(shares: Any) -> tuple[np.ndarray, np.ndarray]:
    """Middles and spreads of 0 and 1, where 1 has these shares."""
    share = np.clip(shares, 0.005, 0.995)
    return share, np.maximum(np.sqrt(share * (1 - share)), _LEAST_SPREAD)


def _counted(problem: GeneralizedLinear) -> list[Columns]:
    return [own for own in problem.columns if own.shares is None]


def quantile_scale(counts: np.ndarray, low: float, high: float) -> tuple[float, float]:
    """Median and spread of counts in equal bins between two ends."""
    shares = shares_of(counts)
    # A tiny slope makes the distribution function invertible where bins are empty.
    rising = np.concatenate([[0.0], np.cumsum(shares)]) + 1e-12 * np.arange(len(shares) + 1)
    edges = np.linspace(low, high, len(shares) + 1)
    levels = [0.05, 0.2, 0.5, 0.8, 0.95]
    lowest, lower, middle, upper, highest = np.interp(levels, rising / rising[-1], edges)
    least = (high - low) / len(shares) / 4
    # Where most records have one value, the others say how far the number spreads.
    outer = (highest - lowest) / (2 * _TWENTIETHS)
    return float(middle), float(max((upper - lower) / _QUINTILES, outer, least))


def shares_of(counts: np.ndarray) -> np.ndarray:
    """Noisy counts as shares: the nearest point of the simplex (Duchi et al. 2008). Their own sum
    stands for the records, some of which may be incomplete.

    >>> shares_of(np.array([3.0, -1.0, 0.0]))
    array([1., 0., 0.])
    """
    total = max(float(np.sum(counts)), 1e-6)
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    kept = np.flatnonzero(falling > excess)[-1]
    return np.asarray(np.maximum(counts - excess[kept], 0.0) / total)


def cell_counts(problem: GeneralizedLinear) -> tuple[int, ...]:
    """How many cells every column that is counted has, then the target and the offset; of a
    category the reference is first."""
    target = 2 if problem.family == "binomial" else len(target_edges(problem)) - 1
    columns = (BINS if own.number else own.width + 1 for own in _counted(problem))
    return (*columns, target, *([] if problem.offset is None else [BINS]))


def table(problem: GeneralizedLinear, facts: Facts) -> Table:
    """One block, in which every column is a level: a record counts in one cell of each."""
    sizes = cell_counts(problem)
    block = Block("columns", Ones(), _Target(problem), _Cells(problem), sizes)
    return Table((block,), group=facts.group)


@dataclass(frozen=True)
class _Target:
    """The target, whose presence is that of the record."""

    problem: GeneralizedLinear

    def __call__(self, public: Any, features: Any) -> Any:
        return features[:, self.problem.features]


@dataclass(frozen=True)
class _Cells:
    """In which cell of each column a record counts (n, columns)."""

    problem: GeneralizedLinear

    def __call__(self, public: Any, features: Any) -> Any:
        problem, found = self.problem, []
        starts = np.cumsum([0, *cell_counts(problem)[:-1]])
        places = np.cumsum([0, *(own.width for own in problem.columns)])
        for own, place in zip(problem.columns, places, strict=False):
            if own.shares is not None:
                continue
            numbers = features[:, place : place + own.width]
            found.append(bin_of(numbers[:, 0], -1.0, 1.0) if own.number else value_of(numbers))
        y = features[:, problem.features]
        binomial = problem.family == "binomial"
        found.append(value_of(y[:, None]) if binomial else _target_bin(problem, y))
        if problem.offset is not None:
            found.append(bin_of(features[:, problem.features + 1], *problem.offset))
        return jnp.stack([start + own for start, own in zip(starts, found, strict=True)], axis=1)


def _target_bin(problem: GeneralizedLinear, y: Any) -> Any:
    if problem.family != "poisson":
        return bin_of(y, *problem.target)
    edges = jnp.asarray(target_edges(problem), jnp.float32)
    place = jnp.searchsorted(edges, jnp.nan_to_num(y), side="right") - 1
    return jnp.clip(place, 0, len(edges) - 2).astype(jnp.int32)


def bin_of(numbers: Any, low: float, high: float) -> Any:
    """In which of the equal bins between two ends each number lies."""
    share = jnp.nan_to_num((numbers - low) / (high - low))
    return jnp.clip(jnp.floor(BINS * share).astype(jnp.int32), 0, BINS - 1)


def value_of(dummies: Any) -> Any:
    """The reference, where none of its features is 1, counts in the first cell."""
    own = jnp.nan_to_num(dummies) > 0.5
    return jnp.where(own.any(axis=1), 1 + jnp.argmax(own, axis=1), 0).astype(jnp.int32)


def release(config: ColumnScalesConfig, problem: GeneralizedLinear, facts: Facts) -> Release:
    return Release(table(problem, facts))


def build(
    config: ColumnScalesConfig, problem: GeneralizedLinear, facts: Facts, priced: Priced
) -> Algorithm:
    return counted_once(sum(cell_counts(problem)), facts, priced)


def counted_once(width: int, facts: Facts, priced: Priced) -> Algorithm:
    """One round of counts in so many cells, which `survey.unpack` reads."""
    weight = lone_weight(priced.step)

    def merge(state: Opened, sums: Aggregate) -> Opened:
        return Opened(
            jnp.asarray(sums.total / weight, jnp.float32),
            jnp.asarray(sums.survivors, jnp.int32),
            jnp.asarray(sums.records, jnp.float32),
        )

    return Algorithm(
        init=lambda: (Opened(jnp.zeros(width, jnp.float32), jnp.int32(0), jnp.float32(0)), None),
        ask=lambda state: (),
        local=TableRecords(facts.group),
        merge=merge,
        result=pack,
    )


COLUMN_SCALES = AlgorithmKind(
    "column-scales",
    "one noisy count of every column, from which a regression knows middles and spreads",
    ColumnScalesConfig,
    GeneralizedLinear,
    release,
    build,
    units=(Unit.RECORD, Unit.PERSON),
    unit_rows=False,
    sends="noisy counts of every column's values",
)

__all__ = [
    "BINS",
    "COLUMN_SCALES",
    "HEAVY",
    "Scales",
    "bin_of",
    "column_scale",
    "counted_once",
    "far_part",
    "quantile_scale",
    "read_scales",
    "scales_of",
    "shares_of",
    "value_of",
    "value_scale",
]
