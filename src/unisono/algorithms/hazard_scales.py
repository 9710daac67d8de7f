"""What a regression of hazards begins with: middles and spreads of columns, and when events happen.

One release counts the records of every column in its cells, as `column_scales` does, and besides
the events and the censored records of 20 intervals of time, and who outlasts the horizon: with d
columns one replaced record moves the counts by sqrt(2 (d + 1)). From the last part follow pieces of
time with about equally many events, and the hazard in each of them if nothing else is known.

Pieces have constant hazards in t^k rather than in t, with one k of the same table: the power law
(of Weibull) by which the cumulative hazard reaches half of its height. Within a piece a hazard that
rises or falls would draw coefficients to zero, since those at risk change meanwhile; what is left
of it after the power law is small, and pieces take it up.
"""

import math
from dataclasses import dataclass
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
_FEWEST_EVENTS = 0.02  # the least share of records that is taken to have an event
_LEAST_EVENTS = 5.0  # that a piece is taken to have
_POWERS = (0.5, 2.0)


class HazardScalesConfig(AlgorithmConfig):
    """Public bounds say everything."""


class HazardScales(NamedTuple):
    """Middles and spreads of the features (d,); ends of pieces (K + 1,), from 0 to 1, as shares of
    the horizon; logarithms of the cumulative hazards of pieces (K,); the share of records with an
    event; and the power of time, k."""

    centre: Any
    scale: Any
    ends: Any
    log_hazards: Any
    events: Any
    power: Any = 1.0


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


def _pieces(times: np.ndarray, pieces: int) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Ends of pieces at quantiles of the events' times, hazards there, the share of events, and the
    power of time."""
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
    there = at_risk - (events + censored) / 2
    power = _power(events / np.maximum(there, _LEAST_EVENTS), fine)
    exposed = np.concatenate([[0.0], np.cumsum(there * np.diff(fine**power))])
    happened = np.diff(np.interp(ends, fine, rising))
    exposure = np.diff(np.interp(ends**power, fine**power, exposed))
    hazards = np.maximum(happened, _LEAST_EVENTS) / np.maximum(exposure, _LEAST_EVENTS / 20)
    share = float(np.clip(events.sum() / count, _FEWEST_EVENTS, 1.0))
    log_hazards = np.log(np.clip(hazards, 0.005, 50.0) * np.diff(ends**power))
    return ends, log_hazards, share, power


def _power(hazards: np.ndarray, fine: np.ndarray) -> float:
    """k of a cumulative hazard c t^k that reaches half of its height where this one does.

    >>> ends = np.arange(21) / 20
    >>> round(_power(np.diff(ends**1.5), ends), 2)
    1.5
    """
    cumulative = np.concatenate([[0.0], np.cumsum(hazards)]) + 1e-9 * fine
    half = np.interp(0.5 * cumulative[-1], cumulative, fine)
    return float(np.clip(math.log(2) / -math.log(min(half, 0.99)), *_POWERS))


def table(problem: ProportionalHazards, facts: Facts) -> Table:
    """One block, in which every column is a level: a record counts in one cell of each."""
    sizes = cell_counts(problem)
    block = Block("columns", Ones(), _Complete(problem), _Cells(problem), sizes)
    return Table((block,), group=facts.group)


@dataclass(frozen=True)
class _Complete:
    """A number (n,) that is finite where a record is."""

    problem: ProportionalHazards

    def __call__(self, public: Any, rows: Any) -> Any:
        return jnp.sum(rows[:, : self.problem.features + 2], axis=1)


@dataclass(frozen=True)
class _Cells:
    """In which cell of each column a record counts (n, columns)."""

    problem: ProportionalHazards

    def __call__(self, public: Any, rows: Any) -> Any:
        problem, found = self.problem, []
        starts = np.cumsum([0, *cell_counts(problem)[:-1]])
        places = np.cumsum([0, *(own.width for own in problem.columns)])
        for own, place in zip(problem.columns, places, strict=False):
            numbers = rows[:, place : place + own.width]
            found.append(bin_of(numbers[:, 0], -1.0, 1.0) if own.number else value_of(numbers))
        _, time, event = problem.parts(rows)
        inside = jnp.ceil(_TIMES * jnp.nan_to_num(time) - 1e-4).astype(jnp.int32) - 1
        inside = jnp.clip(inside, 0, _TIMES - 1)
        cell = jnp.where(event > 0.5, inside, _TIMES + inside)
        found.append(jnp.where(time > 1, 2 * _TIMES, cell))
        return jnp.stack([start + own for start, own in zip(starts, found, strict=True)], axis=1)


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
