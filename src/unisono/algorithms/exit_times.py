"""When records leave a survival study, just well enough to place the intervals of its table.

One tree of counts of the times at which records leave, whatever their group and whether by an event
or censored: 12³ equal leaves up to a public horizon, which are closed on the right. A record counts
in one node on each of the three levels, so that one replaced record moves the tree by sqrt 6, and
one that is zeroed out or added by sqrt 3. Records that outlast the horizon count nowhere.

The table that follows ends its K intervals where the distribution function (least squares, then
isotonic; see `quantiles`) reaches j / K of all exits, at ends of leaves: each holds about as many
exits, and a time at which many leave ends an interval. With E of n records leaving, K falls with
sqrt(E / n): exits are what a hazard is estimated from, and every interval adds noise.

Exits are *crowded* where Σ c² of the leaves' counts, less what their noise adds, says that they
lie on few leaves: fewer than 8 for an interval, as if they were spread evenly over E² / Σ c² of
them. Times within an interval then have gaps, which a smooth curve would ignore. Leaves that would
fill two intervals alone, as one date of censoring does, are left out: they end an interval.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from unisono.algorithms.quantiles import Tree, distribution
from unisono.core.algorithm import Aggregate, Facts
from unisono.problems.survival import CountedTimes
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind
from unisono.releases.release import Priced, Release
from unisono.releases.rows import Ones
from unisono.releases.table import Block, Table, TableRecords, lone_weight

# Of the promise of tree and table; in squares of μ about a sixth.
TREE_SHARE = 0.3
FEWEST_INTERVALS = 5
TREE = Tree(0.0, 1.0, branching=12, levels=3)
# A time that 32-bit rounding put beyond the end of an interval, in horizons, lies in it.
ROUNDING = 1e-6
_CROWDED = 8.0  # leaves that hold the exits of an interval, below which they are crowded
_HEAVY = 2.0  # intervals that a leaf would fill: it ends one by itself, and leaves no gaps
_CERTAIN = 3.5  # deviations by which Σ c² exceeds its noise


class ExitTimesConfig(AlgorithmConfig):
    """Public facts say everything."""


class Intervals(NamedTuple):
    """Ends of a table's intervals (K + 1,), from 0 to 1 in horizons, and whether exits crowd on few
    times within them, as at visits."""

    cuts: np.ndarray
    crowded: bool = False


class OneSum(NamedTuple):
    """The server's state where a study releases one sum: what was opened, who answered, and their
    records."""

    total: Any
    survivors: Any
    records: Any


def no_sum(width: int) -> OneSum:
    return OneSum(jnp.zeros(width, jnp.float32), jnp.int32(0), jnp.float32(0))


def opened_sum(aggregate: Aggregate, weight: float) -> OneSum:
    return OneSum(
        jnp.asarray(aggregate.total / weight, jnp.float32),
        jnp.asarray(aggregate.survivors, jnp.int32),
        jnp.asarray(aggregate.records, jnp.float32),
    )


def table(facts: Facts) -> Table:
    """One block of counts, with a level for each level of the tree."""

    def cells(public: Any, rows: Any) -> Any:
        time, event, group = rows[:, 0], rows[:, 1], rows[:, -1]
        leaf = jnp.ceil(TREE.leaves * (jnp.nan_to_num(time) - ROUNDING)) - 1
        middle = (jnp.clip(leaf, 0, TREE.leaves - 1) + 0.5) / TREE.leaves
        counts = jnp.isfinite(time + event + group) & (time <= 1 + ROUNDING)
        return jnp.where(counts[:, None], TREE.cells(middle), -1)

    def there(public: Any, rows: Any) -> Any:
        return jnp.zeros_like(rows[:, 0])

    sizes = tuple(TREE.branching**level for level in range(1, TREE.levels + 1))
    return Table((Block("exits", Ones(), there, cells, sizes),), group=facts.group)


def number_for(exits: float, records: float, most: int) -> int:
    """How many intervals so many exits of so many records allow."""
    wanted = round(most * math.sqrt(min(1.0, exits / max(records, 1.0))))
    return max(min(FEWEST_INTERVALS, most), min(wanted, most))


def intervals_of(found: Any, most: int) -> Intervals | None:
    """At most so many intervals, by what was released; None where nothing was opened."""
    if found is None or float(np.asarray(found)[-2]) == 0:
        return None
    *nodes, noise, _, records = np.asarray(found, np.float64)
    counts = distribution(np.array(nodes), TREE, None)
    exits = max(float(counts[-1]), 1.0)
    number = number_for(exits, records, most)
    ends = np.searchsorted(counts, exits * np.arange(1, number) / number)
    cuts = np.unique(np.concatenate([[0], ends[ends > 0], [TREE.leaves]])) / TREE.leaves
    leaves = np.array(nodes[TREE.offsets[-1] : -1])  # the last one ends at the horizon
    leaves = leaves[leaves < _HEAVY * exits / number]
    squares = float(np.sum(leaves**2)) - len(leaves) * noise**2
    certain = squares > _CERTAIN * math.sqrt(2 * TREE.leaves) * noise**2
    crowded = certain and exits**2 < _CROWDED * (len(cuts) - 1) * squares
    return Intervals(cuts, bool(crowded))


def release(config: ExitTimesConfig, problem: CountedTimes, facts: Facts) -> Release:
    return Release(table(facts))


def build(
    config: ExitTimesConfig, problem: CountedTimes, facts: Facts, priced: Priced
) -> Algorithm:
    weight = lone_weight(priced.step)

    def result(state: OneSum) -> np.ndarray:
        ends = [priced.noise_std / weight, float(state.survivors), float(state.records)]
        return np.concatenate([np.asarray(state.total, np.float64), ends])

    return Algorithm(
        init=lambda: (no_sum(TREE.nodes), None),
        ask=lambda state: (),
        local=TableRecords(facts.group),
        merge=lambda state, sums: opened_sum(sums, weight),
        result=result,
    )


EXIT_TIMES = AlgorithmKind(
    "exit-times",
    "noisy counts of when records leave, by which a survival study places its intervals",
    ExitTimesConfig,
    CountedTimes,
    release,
    build,
    unit_rows=False,
    sends="noisy counts of the times at which records leave",
)

__all__ = [
    "EXIT_TIMES",
    "FEWEST_INTERVALS",
    "ROUNDING",
    "TREE_SHARE",
    "ExitTimesConfig",
    "Intervals",
    "OneSum",
    "intervals_of",
    "no_sum",
    "number_for",
    "opened_sum",
]
