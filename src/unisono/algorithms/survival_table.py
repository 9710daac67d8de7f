"""One noisy table of a survival study: in every group, how many events and how many censored
records fall into each interval of time, and how many records outlast the horizon.

    cells of a group = (events in K intervals, censored in K intervals, beyond)          (2 K + 1,)

A record counts in one cell of all, so that one replaced record moves the table by sqrt 2, and one
that is zeroed out or added by 1, whatever its time: that is all that Kaplan-Meier curves with their
bands, medians and restricted means need, and all of it is released at once. Intervals are equal and
closed on the right, up to a public horizon. Where records may miss something, those that do have a
cell of their own, so that all cells add up to what is public.

K is a rule of public facts where nobody says it: with n records in each of G groups and the
Gaussian-DP parameter μ of the promise about sqrt(n μ / G) / 2, between 5 and 40. More intervals
would hold too few events to be told from noise, fewer would blur the curve.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from unisono.accounting import gaussian
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.errors import InvalidInput
from unisono.problems.survival import CountedTimes
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind
from unisono.releases.release import Priced, Release
from unisono.releases.rows import Ones
from unisono.releases.table import Block, Table, TableRecords, codes, lone_weight

MOST_BINS = 40
# Numbers of intervals that the rule takes: all of them divide 240 (see `log_rank`).
_RULE = (5, 6, 8, 10, 12, 15, 16, 20, 24, 30, 40)
# A time that rounding put so little beyond the end of an interval, in intervals, lies in it.
_ROUNDING = 1e-4


class SurvivalTableConfig(AlgorithmConfig):
    """A rule of public facts fills in what is left out."""

    bins: int | None = Field(
        None,
        ge=2,
        le=MOST_BINS,
        description="Equal intervals of time up to the horizon; left out: a rule of records, "
        "groups and epsilon.",
    )


def resolve(
    config: SurvivalTableConfig,
    problem: CountedTimes,
    facts: Facts,
    privacy: Privacy,
    trust: Trust,
) -> SurvivalTableConfig:
    if config.bins is not None:
        return config
    bins = bins_for(sum(facts.records), len(problem.groups), privacy)
    return config.model_copy(update={"bins": bins})


def bins_for(records: float, groups: int, privacy: Privacy) -> int:
    """The rule: how many intervals of time so many records in so many groups allow."""
    # Of pure epsilon the noise of two cells deviates as if μ were half of it.
    pure, epsilon = privacy.pure, privacy.epsilon
    mu = epsilon / 2 if pure else gaussian.mu_for(epsilon, privacy.delta)
    wanted = math.sqrt(records * mu / groups) / 2
    return max((one for one in _RULE if one <= wanted), default=_RULE[0])


def cells_of(time: Any, event: Any, bins: int, array: Any = jnp) -> Any:
    """The cell (n,) of records among the 2 K + 1 of their group; times are shares of the horizon,
    and those that are not known lie anywhere."""
    inside = array.ceil(bins * array.nan_to_num(time) - _ROUNDING).astype("int32") - 1
    inside = array.clip(inside, 0, bins - 1)
    cell = array.where(event > 0.5, inside, bins + inside)
    return array.where(time > 1 + _ROUNDING / bins, 2 * bins, cell)


def table(config: SurvivalTableConfig, problem: CountedTimes, facts: Facts) -> Table:
    """One block of counts."""
    assert config.bins is not None
    bins, groups = config.bins, len(problem.groups)
    width = 2 * bins + 1

    def cells(public: Any, rows: Any) -> Any:
        time, event = rows[:, 0], rows[:, 1]
        one = jnp.zeros(len(rows), jnp.int32)  # of a single group everybody is
        group = one if groups == 1 else codes(rows[:, 2], groups)
        cell = cells_of(time, event, bins)
        known = jnp.isfinite(time + event) & (group >= 0)
        # Where nobody can miss anything, such a record counts nowhere.
        other = -1 if problem.complete else groups * width
        return jnp.where(known, width * group + cell, other)[:, None]

    def there(public: Any, rows: Any) -> Any:
        return jnp.zeros_like(rows[:, 0])

    sizes = (groups * width + (not problem.complete),)
    return Table((Block("times", Ones(), there, cells, sizes),), group=facts.group)


class SurvivalTable(NamedTuple):
    """What was released: counts (groups, 2 K + 1) with their noise, and that of records that miss
    something, where there may be any; the deviation of noise if every party answers, how many
    answered, and their public number of records."""

    cells: np.ndarray
    incomplete: float | None
    noise: float
    survivors: int
    records: int

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


def packed(cells: Any, noise: float, survivors: Any, records: Any) -> np.ndarray:
    """One flat array: all cells, then the three numbers."""
    ends = [float(noise), float(survivors), float(records)]
    return np.concatenate([np.asarray(cells, np.float64).ravel(), ends])


def unpacked_table(value: Any, problem: CountedTimes) -> SurvivalTable:
    """The inverse of `packed`; refuses a round that was never opened."""
    value = np.asarray(value, np.float64)
    noise, survivors, records = value[-3], int(value[-2]), round(float(value[-1]))
    if survivors == 0:
        raise InvalidInput(
            "fewer parties answered than the study requires, so the table was not opened and "
            "there is no curve: ask again, or agree on a smaller minimum of survivors; what was "
            "granted stays spent"
        )
    cells, incomplete = value[:-3], None
    if not problem.complete:
        cells, incomplete = cells[:-1], float(cells[-1])
    cells = cells.reshape(len(problem.groups), -1)
    return SurvivalTable(cells, incomplete, float(noise), survivors, records)


class TableState(NamedTuple):
    """The server's: counts as they were opened, who answered, and their records."""

    total: Any
    survivors: Any
    records: Any


def release(config: SurvivalTableConfig, problem: CountedTimes, facts: Facts) -> Release:
    return Release(table(config, problem, facts))


def build(
    config: SurvivalTableConfig, problem: CountedTimes, facts: Facts, priced: Priced
) -> Algorithm:
    width, weight = priced.bound.dimension, lone_weight(priced.step)

    def merge(state: TableState, sums: Aggregate) -> TableState:
        return TableState(
            jnp.asarray(sums.total / weight, jnp.float32),
            jnp.asarray(sums.survivors, jnp.int32),
            jnp.asarray(sums.records, jnp.float32),
        )

    def result(state: TableState) -> np.ndarray:
        return packed(state.total, priced.noise_std / weight, state.survivors, state.records)

    empty = TableState(jnp.zeros(width, jnp.float32), jnp.int32(0), jnp.float32(0))
    return Algorithm(
        init=lambda: (empty, None),
        ask=lambda state: (),
        local=TableRecords(facts.group),
        merge=merge,
        result=result,
    )


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
)

__all__ = [
    "MOST_BINS",
    "SURVIVAL_TABLE",
    "SurvivalTable",
    "SurvivalTableConfig",
    "bins_for",
    "cells_of",
    "packed",
    "unpacked_table",
]
