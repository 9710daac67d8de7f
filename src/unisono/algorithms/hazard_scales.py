"""What a regression of hazards begins with: middles and spreads of columns, and when events happen.

One release counts the records of every column in its cells, as `column_scales` does, and besides
the events and the censored records of 20 intervals of time, and who outlasts the horizon: with d
columns one replaced record moves the counts by sqrt(2 (d + 1)). From the last part follow pieces of
time with about equally many events, and the hazard in each of them if nothing else is known.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from unisono.algorithms.column_scales import BINS, bin_of, column_scale, counted_once, value_of
from unisono.algorithms.survey import unpack
from unisono.algorithms.survival_curves import nearest_counts, split
from unisono.core.algorithm import Facts
from unisono.problems.survival import ProportionalHazards
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind
from unisono.releases.release import Priced, Release
from unisono.releases.rows import Ones
from unisono.releases.table import Block, Table

_TIMES = 20  # intervals
_SHORTEST = 0.02  # piece, as a share of the horizon
_LEAST_EVENTS = 5.0  # that a piece is taken to have


class HazardScalesConfig(AlgorithmConfig):
    """Public bounds say everything."""


class HazardScales(NamedTuple):
    """Middles and spreads of the features (d,); ends of pieces (K + 1,), from 0 to 1; logarithms of
    their hazards (K,), a horizon; and the share of records with an event."""

    centre: Any
    scale: Any
    ends: Any
    log_hazards: Any
    events: Any


def cell_counts(problem: ProportionalHazards) -> tuple[int, ...]:
    """How many cells every column has, times last; of a category the reference is first."""
    columns = (BINS if own.number else own.width + 1 for own in problem.columns)
    return (*columns, 2 * _TIMES + 1)


def scales_of(problem: ProportionalHazards, found: Any) -> HazardScales:
    """What was released, read; without a release, the middle of what is public."""
    sizes = cell_counts(problem)
    if found is None:
        *columns, times = (np.full(size, 100.0 / size) for size in sizes)
    else:
        *columns, times = np.split(unpack(np.asarray(found)).total, np.cumsum(sizes)[:-1])
    pairs = [column_scale(own, cells) for own, cells in zip(problem.columns, columns, strict=True)]
    none = np.zeros(0)
    centre = np.concatenate([none, *(one for one, _ in pairs)])
    scale = np.concatenate([none, *(other for _, other in pairs)])
    return HazardScales(centre, scale, *_pieces(times, problem.pieces))


def _pieces(times: np.ndarray, pieces: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Ends of pieces at quantiles of the events' times, hazards there, and the share of events."""
    count = max(float(times.sum()), 1.0)
    known = nearest_counts(times[None], count)
    events, censored, at_risk = (part[0] for part in split(known))
    fine = np.arange(_TIMES + 1) / _TIMES
    # A tiny slope makes the distribution function invertible where there are no events.
    rising = np.concatenate([[0.0], np.cumsum(events)]) + 1e-6 * count * fine
    ends = np.interp(np.arange(pieces + 1) / pieces, rising / rising[-1], fine)
    for place in range(1, pieces):
        ends[place] = max(ends[place], ends[place - 1] + _SHORTEST)
    ends = np.minimum(ends, 1 - _SHORTEST * np.arange(pieces, -1, -1))
    exposed = np.concatenate([[0.0], np.cumsum(at_risk - (events + censored) / 2) / _TIMES])
    happened = np.diff(np.interp(ends, fine, rising))
    exposure = np.diff(np.interp(ends, fine, exposed))
    hazards = np.maximum(happened, _LEAST_EVENTS) / np.maximum(exposure, _LEAST_EVENTS / 20)
    share = float(np.clip(events.sum() / count, 0.02, 1.0))
    return ends, np.log(np.clip(hazards, 0.005, 50.0)), share


def table(problem: ProportionalHazards, facts: Facts) -> Table:
    """One block, in which every column is a level: a record counts in one cell of each."""
    sizes = cell_counts(problem)
    starts = np.cumsum([0, *sizes[:-1]])
    places = np.cumsum([0, *(own.width for own in problem.columns)])

    def cells(public: Any, rows: Any) -> Any:
        found = []
        for own, place in zip(problem.columns, places, strict=False):
            numbers = rows[:, place : place + own.width]
            found.append(bin_of(numbers[:, 0], -1.0, 1.0) if own.number else value_of(numbers))
        _, time, event = problem.parts(rows)
        inside = jnp.ceil(_TIMES * jnp.nan_to_num(time) - 1e-4).astype(jnp.int32) - 1
        inside = jnp.clip(inside, 0, _TIMES - 1)
        cell = jnp.where(event > 0.5, inside, _TIMES + inside)
        found.append(jnp.where(time > 1, 2 * _TIMES, cell))
        return jnp.stack([start + own for start, own in zip(starts, found, strict=True)], axis=1)

    def there(public: Any, rows: Any) -> Any:
        return jnp.sum(rows[:, : problem.features + 2], axis=1)

    return Table((Block("columns", Ones(), there, cells, sizes),), group=facts.group)


def release(config: HazardScalesConfig, problem: ProportionalHazards, facts: Facts) -> Release:
    return Release(table(problem, facts))


def build(
    config: HazardScalesConfig, problem: ProportionalHazards, facts: Facts, priced: Priced
) -> Algorithm:
    return counted_once(sum(cell_counts(problem)), facts, priced)


HAZARD_SCALES = AlgorithmKind(
    "hazard-scales",
    "one noisy count of every column and of times, from which a regression of hazards begins",
    HazardScalesConfig,
    ProportionalHazards,
    release,
    build,
    unit_rows=False,
    sends="noisy counts of every column's values and of times",
)

__all__ = ["HAZARD_SCALES", "HazardScales", "scales_of"]
