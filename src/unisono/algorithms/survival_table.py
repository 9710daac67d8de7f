"""One noisy table of a survival study: in every group, how many events and how many censored
records fall into each interval of time, how late within it they do, and how many records outlast
the horizon.

    cells of a group = (events in K intervals, censored in K intervals, beyond)          (2 K + 1,)
    in each cell     = (records, Σ (f - 1/2)),      f in [0, 1] a record's place in its interval

A record counts in one cell of all and adds (1, f - 1/2) there, which has a length of at most √5/2.
One replaced record moves the table by sqrt(5/2), one that is zeroed out or added by √5/2, whatever
its time (`rows.PlacedOne`): that is all that Kaplan-Meier curves with their bands, medians and
restricted means need, and all of it is released at once. Where records may miss something, those
that do have a cell of their own, so that all cells add up to what is public.

Intervals are closed on the right, up to a public horizon, so that ties at an end leave within the
interval that it ends. They end at public `visits` of the problem where there are any; otherwise
where an earlier stage of the study found that records leave (`exit_times`), and are equal where
that stage was lost. K is a rule of public facts where nobody says it: with n records in each of G
groups and the Gaussian-DP parameter μ of the guarantee about .6 sqrt(n μ / G), between 5 and 40.
More intervals would hold too few events to be told from noise, fewer would blur the curve.

Tables of a score (`ScoredTimes`) have equal intervals and counts alone: one replaced record moves
them by sqrt 2.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from unisono.accounting import gaussian
from unisono.algorithms.exit_times import (
    EXIT_TIMES,
    FEWEST_INTERVALS,
    ROUNDING,
    TREE_SHARE,
    Intervals,
    OneSum,
    intervals_of,
    no_sum,
    opened_sum,
)
from unisono.algorithms.survival_curves import Numbers, TimeCounts
from unisono.core.algorithm import Facts
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.errors import InvalidInput
from unisono.problems.survival import MOST_BINS, CountedTimes, SurvivalTimes
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind, Earlier
from unisono.releases.release import Priced, Release
from unisono.releases.rows import Ones, PlacedOne
from unisono.releases.table import Block, Table, TableRecords, codes, lone_weight

# Numbers of equal intervals that the rule takes.
_RULE = (5, 6, 8, 10, 12, 15, 16, 20, 24, 30, 40)
_MOST_LOCATED = 40


class SurvivalTableConfig(AlgorithmConfig):
    """A rule of public facts fills in what is left out."""

    bins: int | None = Field(
        None,
        ge=2,
        le=MOST_BINS,
        description="At most so many intervals of time up to the horizon; left out: a rule of "
        "records, groups and epsilon.",
    )


def resolve(
    config: SurvivalTableConfig,
    problem: CountedTimes,
    facts: Facts,
    privacy: Privacy,
    trust: Trust,
) -> SurvivalTableConfig:
    if visits := visits_of(problem):
        return config.model_copy(update={"bins": len(visits)})
    if config.bins is not None:
        return config
    found_first = earlier(config, problem) is not None
    rule = located_bins if found_first else bins_for
    bins = rule(sum(facts.records), len(problem.groups), privacy)
    return config.model_copy(update={"bins": bins})


def visits_of(problem: CountedTimes) -> tuple[float, ...]:
    """Public ends of intervals, in horizons; none where they are not known."""
    return problem.visits if isinstance(problem, SurvivalTimes) else ()


def bins_for(records: float, groups: int, privacy: Privacy) -> int:
    """The rule: how many equal intervals of time so many records in so many groups allow."""
    wanted = math.sqrt(records * _mu(privacy) / groups) / 2
    return max((one for one in _RULE if one <= wanted), default=FEWEST_INTERVALS)


def located_bins(records: float, groups: int, privacy: Privacy) -> int:
    """The rule for intervals that follow the exits, none of which is empty."""
    wanted = round(0.63 * math.sqrt(records * _mu(privacy) / groups))
    return int(np.clip(wanted, FEWEST_INTERVALS, _MOST_LOCATED))


def _mu(privacy: Privacy) -> float:
    # Of pure epsilon the noise of two cells deviates as if μ were half of it.
    pure, epsilon = privacy.pure, privacy.epsilon
    return epsilon / 2 if pure else gaussian.mu_for(epsilon, privacy.delta)


def cells_of(time: Any, event: Any, cuts: Any, array: Any = jnp) -> tuple[Any, Any]:
    """Of records, the cell (n,) among the 2 K + 1 of their group, and the place (n,) in their
    interval, from 0 to 1. Times and the intervals' ends `cuts` (K + 1,) are in horizons; times that
    are not known lie anywhere."""
    bins = len(cuts) - 1
    time = array.nan_to_num(time)
    inside = array.searchsorted(cuts[1:], time - ROUNDING, side="left")
    inside = array.clip(inside, 0, bins - 1).astype("int32")
    length = array.maximum(cuts[inside + 1] - cuts[inside], ROUNDING)
    place = array.clip((time - cuts[inside]) / length, 0.0, 1.0)
    cell = array.where(event > 0.5, inside, bins + inside)
    return array.where(time > 1 + ROUNDING, 2 * bins, cell), place


def table(config: SurvivalTableConfig, problem: CountedTimes, facts: Facts) -> Table:
    """One block. What is public of it are the intervals' ends."""
    assert config.bins is not None
    groups, width = len(problem.groups), 2 * config.bins + 1
    incomplete = groups * width

    def cells(cuts: Any, rows: Any) -> Any:
        time, event = rows[:, 0], rows[:, 1]
        one = jnp.zeros(len(rows), jnp.int32)  # of a single group everybody is
        group = one if groups == 1 else codes(rows[:, 2], groups)
        cell, _ = cells_of(time, event, cuts)
        known = jnp.isfinite(time + event) & (group >= 0)
        # Where nobody can miss anything, such a record counts nowhere.
        other = -1 if problem.complete else incomplete
        return jnp.where(known, width * group + cell, other)[:, None]

    def place(cuts: Any, rows: Any) -> Any:
        return cells_of(rows[:, 0], rows[:, 1], cuts)[1]

    sizes = (incomplete + (not problem.complete),)
    rows = PlacedOne() if isinstance(problem, SurvivalTimes) else Ones()
    return Table((Block("times", rows, place, cells, sizes),), group=facts.group)


class SurvivalTable(NamedTuple):
    """What was released: counts (groups, 2 K + 1) and sums of centered places (groups, 2 K), with
    their noise; the number of records that miss something, where there may be any; the deviation of
    noise if every party answers, how many answered, and their public number of records; and the
    intervals."""

    cells: np.ndarray
    places: np.ndarray
    incomplete: float | None
    noise: float
    survivors: int
    records: int
    intervals: Intervals

    @property
    def bins(self) -> int:
        return (self.cells.shape[1] - 1) // 2

    def counted(self, facts: Facts) -> float | None:
        """How many records the cells hold, where that is known better than by their sum: the public
        number, without those that miss something. Of these the count is moved, like all others, so
        that everything adds up."""
        if not facts.exact_sizes:
            return None
        if self.incomplete is None:
            return float(self.records)
        apart = self.records - self.incomplete - float(self.cells.sum())
        return self.records - self.incomplete - apart / (self.cells.size + 1)

    def noise_of(self, facts: Facts, trust: Trust) -> float:
        """The deviation of the noise of those who answered: every party brought its share of it,
        unless the server did."""
        whole = trust is Trust.TRUSTED_SERVER
        return self.noise * (1.0 if whole else math.sqrt(self.survivors / facts.parties))

    def numbers(self, facts: Facts, trust: Trust, laplace: bool = False) -> Numbers:
        """What is known of the cells besides them."""
        noise = self.noise_of(facts, trust)
        apart = 0.0 if self.incomplete is None else noise
        return Numbers(noise, self.counted(facts), apart, laplace)

    def counts_of(self, facts: Facts) -> TimeCounts:
        """Counts that add up to what is public, and places."""
        return TimeCounts(self.cells, self.places).shifted(self.counted(facts))


_ENDS = 4  # numbers after the intervals' ends


def packed(found: SurvivalTable) -> np.ndarray:
    """One flat array of a length that does not depend on K: counts and places, the intervals' ends,
    the count of records that miss something, then the four numbers. Intervals of no length fill it
    up."""
    groups, bins = len(found.cells), found.bins
    numbers = np.zeros((2, groups, 2, MOST_BINS))
    numbers[0, :, :, :bins] = found.cells[:, :-1].reshape(groups, 2, bins)
    numbers[1, :, :, :bins] = found.places.reshape(groups, 2, bins)
    cuts = np.pad(found.intervals.cuts, (0, MOST_BINS - bins), constant_values=1.0)
    ends = (found.intervals.crowded, found.noise, found.survivors, found.records)
    return np.concatenate(
        [numbers.ravel(), found.cells[:, -1], cuts, [found.incomplete or 0.0], ends]
    )


def packed_size(groups: int) -> int:
    return groups * (4 * MOST_BINS + 1) + MOST_BINS + 2 + _ENDS


def unpacked_table(value: Any, problem: CountedTimes) -> SurvivalTable:
    """The inverse of `packed`; refuses a round that was never opened."""
    groups = len(problem.groups)
    numbers, beyond, cuts, ends = np.split(
        np.asarray(value, np.float64),
        np.cumsum([4 * groups * MOST_BINS, groups, MOST_BINS + 1]),
    )
    incomplete, crowded, noise, survivors, records = ends
    if survivors == 0:
        raise InvalidInput(
            "fewer parties answered than the study requires, so the table was not opened and "
            "there is no curve: ask again, or agree on a smaller minimum of survivors; what was "
            "granted stays spent"
        )
    bins = int(np.count_nonzero(np.diff(cuts)))
    counts, places = numbers.reshape(2, groups, 2, MOST_BINS)[..., :bins].reshape(2, groups, -1)
    return SurvivalTable(
        np.column_stack([counts, beyond]),
        places,
        None if problem.complete else float(incomplete),
        float(noise),
        int(survivors),
        round(float(records)),
        Intervals(cuts[: bins + 1], bool(crowded)),
    )


class TableState(NamedTuple):
    """The server's: what was opened, the intervals' ends (K + 1,), and whether exits crowd."""

    opened: OneSum
    cuts: Any
    crowded: Any


def release(config: SurvivalTableConfig, problem: CountedTimes, facts: Facts) -> Release:
    return Release(table(config, problem, facts))


def build(
    config: SurvivalTableConfig, problem: CountedTimes, facts: Facts, priced: Priced
) -> Algorithm:
    assert config.bins is not None
    bins, groups = config.bins, len(problem.groups)
    width, weight = priced.bound.dimension, lone_weight(priced.step)
    visits = visits_of(problem)
    ends = np.array(visits) if visits else np.arange(1, bins + 1) / bins
    usual = Intervals(np.append(0.0, ends), crowded=bool(visits))

    def begin(found: Any) -> tuple[TableState, None]:
        own = intervals_of(found, bins) or usual
        # Intervals that were not needed have no length, and hold noise alone.
        cuts = np.pad(own.cuts, (0, bins + 1 - len(own.cuts)), constant_values=1.0)
        crowded = jnp.float32(own.crowded)
        return TableState(no_sum(width), jnp.asarray(cuts, jnp.float32), crowded), None

    def result(state: TableState) -> np.ndarray:
        total, survivors, records = state.opened
        numbers = np.asarray(total, np.float64)
        numbers = numbers.reshape(-1, 2 if isinstance(problem, SurvivalTimes) else 1)
        cells = numbers[: groups * (2 * bins + 1)].reshape(groups, 2 * bins + 1, -1)
        cuts = np.asarray(state.cuts, np.float64)
        used = np.flatnonzero(np.diff(cuts) > 0)
        kept = np.concatenate([used, bins + used, [2 * bins]])
        places = cells[:, kept[:-1], 1] if cells.shape[2] > 1 else 0 * cells[:, kept[:-1], 0]
        return packed(
            SurvivalTable(
                cells[:, kept, 0],
                places,
                None if problem.complete else float(numbers[-1, 0]),
                priced.noise_std / weight,
                int(survivors),
                round(float(records)),
                Intervals(cuts[: len(used) + 1], bool(state.crowded)),
            )
        )

    return Algorithm(
        init=lambda: begin(None),
        begin=begin if earlier(config, problem) else None,
        ask=lambda state: state.cuts,
        local=TableRecords(facts.group),
        merge=lambda state, sums: state._replace(opened=opened_sum(sums, weight)),
        result=result,
    )


def earlier(config: SurvivalTableConfig, problem: CountedTimes) -> Earlier | None:
    """Intervals are found first, unless they are public."""
    known = visits_of(problem) or not isinstance(problem, SurvivalTimes)
    return None if known else Earlier(EXIT_TIMES, TREE_SHARE)


SURVIVAL_TABLE = AlgorithmKind(
    "survival-table",
    "one noisy table of events and censored records by time, for curves with bands",
    SurvivalTableConfig,
    CountedTimes,
    release,
    build,
    resolve,
    unit_rows=False,
    sends="noisy counts of events and of censored records by time",
    earlier=earlier,
)

__all__ = [
    "SURVIVAL_TABLE",
    "SurvivalTable",
    "SurvivalTableConfig",
    "TableState",
    "bins_for",
    "cells_of",
    "packed",
    "packed_size",
    "unpacked_table",
]
