"""Bounded vectors that several statistics of one release are made of.

A block turns every record into a short row r(x) of k numbers and says in which cells it counts:

    block(records) = for every cell c:  sum over the records in cell c of r(x)      (cells, k)

A record counts in at most one cell on each of `levels` levels (one for a plain statistic,
several for a tree). Let a bound the norm of a row and w the distance of two rows. Then

    one record taken away or zeroed out:  l1 <= levels a,      l2 <= sqrt(levels) a
    one record replaced, same cell:       per level w, or a where it leaves the statistic
    one record replaced, other cell:      per level 2 a in l1 and sqrt(2) a in l2, because the two
                                          rows land on disjoint coordinates

Blocks of one release are weighted and stacked: l1 bounds add, l2 bounds add in squares. Under
Gaussian noise a joint release costs exactly what the composition of its parts does.

Rounding is in the sensitivity (X-1): an entry moves by half a grid step, plus a float32 error of
at most 2^-18 of its limit, which covers clipping, squares and norms of up to a thousand columns.
Entries that are whole multiples of 1 / `multiple` are encoded without any error.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from unisono.algorithms.noise_law import NoiseLaw, sum_law
from unisono.algorithms.one_shot import Opened, Promise
from unisono.core.algorithm import Facts
from unisono.core.events import Distance, Event, Sensitivity
from unisono.core.trust import Trust, Unit
from unisono.core.values import _BOUNDED_ONLY, Contribution
from unisono.errors import InvalidInput

_FLOAT_ERROR = 2.0**-18
# The clean sum stays below a quarter of the 32-bit range; the rest is headroom for noise.
_LARGEST_SUM, _LARGEST_NOISE = 2**29, 2**30
_FINEST = 2.0**-20


@dataclass(frozen=True)
class Size:
    """A bound in l1 and in l2."""

    l1: float
    l2: float

    def of(self, pure: bool) -> float:
        return self.l1 if pure else self.l2


Rows = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Block:
    """See the module. `rows(public, features)` (n, k), `cells(public, features)` (n, levels);
    a cell outside 0..cell_count - 1 counts nowhere. `whole` says which of the k numbers are
    multiples of 1 / `multiple`; `share` is the block's part of the budget; `error` is how far
    float32 may move an entry that is not whole (for intervals, not for privacy)."""

    name: str
    rows: Rows
    alone: Size
    within: Size
    limit: float = 1.0
    length: int = 1
    whole: tuple[bool, ...] = (True,)
    multiple: int = 1
    cells: Rows | None = None
    cell_count: int = 1
    levels: int = 1
    share: float = 1.0
    error: float = 2.0**-22
    settings: tuple[tuple[str, Any], ...] = field(default=())

    def __post_init__(self) -> None:
        if len(self.whole) != self.length or self.share <= 0 or self.cell_count < 1:
            raise InvalidInput(
                f"block {self.name!r}: one entry of `whole` per number, a positive share of the "
                "budget and at least one cell are needed"
            )

    @property
    def width(self) -> int:
        return self.cell_count * self.length

    @property
    def taken(self) -> Size:
        """How far the block moves when one record is zeroed out, added or removed."""
        return Size(self.levels * self.alone.l1, math.sqrt(self.levels) * self.alone.l2)

    @property
    def swapped(self) -> Size:
        """How far the block moves when one record is replaced."""
        moved = (2.0, math.sqrt(2.0)) if self.cell_count > 1 else (1.0, 1.0)
        return Size(
            self.levels * max(self.within.l1, moved[0] * self.alone.l1),
            math.sqrt(self.levels) * max(self.within.l2, moved[1] * self.alone.l2),
        )

    def by(self, column: int, groups: int) -> "Block":
        """The same block for each of `groups` public groups; `column` holds the group's number."""
        inner = self.cells

        def cells(public: Any, features: Any) -> Any:
            group = codes(features[:, column], groups)[:, None]
            cell = jnp.zeros_like(group) if inner is None else inner(public, features)
            inside = (group >= 0) & (cell >= 0) & (cell < self.cell_count)
            return jnp.where(inside, group * self.cell_count + cell, -1)

        note = (*self.settings, ("by", column), ("groups", groups))
        return replace(self, cells=cells, cell_count=groups * self.cell_count, settings=note)


def codes(values: Any, count: int) -> Any:
    """Category numbers 0..count - 1 from floats; anything else is -1."""
    codes = jnp.where(jnp.isfinite(values), values, -1.0)
    inside = (codes >= 0) & (codes < count) & (codes == jnp.floor(codes))
    return jnp.where(inside, codes, -1.0).astype(jnp.int32)


@dataclass(frozen=True)
class Plan:
    """Everything about encoding that follows from public facts: weights are `factors * grid`."""

    grid: float
    factors: tuple[int, ...]
    sensitivity: Sensitivity
    width: int
    reach: float


def plan(blocks: tuple[Block, ...], promise: Promise, facts: Facts) -> Plan:
    """Weights that split the budget by `share`, a grid, and the sensitivity on that grid."""
    return _plan(blocks, promise, sum(facts.records), facts.parties, not facts.exact_sizes)


@lru_cache(maxsize=256)
def _plan(
    blocks: tuple[Block, ...], promise: Promise, records: int, parties: int, hides: bool
) -> Plan:
    weights = _weights(blocks, promise)
    rough = _sensitivity(blocks, weights, 0.0, True)
    noise = promise.scale(rough) * (1 if promise.pure else 1.5)
    grid = _grid(blocks, weights, promise, records, noise * math.sqrt(parties))
    factors = tuple(
        _factor(weight / grid, block.multiple)
        for block, weight in zip(blocks, weights, strict=True)
    )
    return Plan(
        grid, factors, _sensitivity(blocks, [f * grid for f in factors], grid, hides),
        sum(block.width for block in blocks),
        max(f * b.limit + 1 for b, f in zip(blocks, factors, strict=True)) * grid * records,
    )  # fmt: skip


def _sensitivity(
    blocks: Sequence[Block], weights: Sequence[float], grid: float, hides: bool
) -> Sensitivity:
    """Bounds of the stacked blocks, with half a step and the float error for every number that
    is not encoded exactly. A replaced record is rounded twice; where one comes or goes, another may
    move into its place (`engines.layout`) and is rounded twice too."""

    def bound(size: Callable[[Block], Size], roundings: int) -> Distance:
        ones, squares, largest = 0.0, 0.0, 0.0
        for block, weight in zip(blocks, weights, strict=True):
            loose = sum(not _is_whole(block, weight, grid, i) for i in range(block.length))
            slack = (grid / 2 + weight * _FLOAT_ERROR * block.limit) * roundings
            found, touched = size(block), loose * block.levels
            ones += weight * found.l1 + slack * touched
            squares += (weight * found.l2 + slack * math.sqrt(touched)) ** 2
            largest = max(largest, weight * found.l2 + (slack if touched else 0.0))
        return Distance(l1=ones, l2=math.sqrt(squares), linf=largest)

    once, twice = bound(lambda b: b.taken, 1), bound(lambda b: b.swapped, 2)
    return Sensitivity(Unit.RECORD, twice, once, bound(lambda b: b.taken, 3) if hides else None)


def _weights(blocks: tuple[Block, ...], promise: Promise) -> list[float]:
    """Equal shares mean equal cost: norm budgets add in l1, and in squares in l2."""
    if len(blocks) == 1:
        return [1.0]
    total = sum(block.share for block in blocks)
    weights = []
    for block in blocks:
        part = block.share / total
        size = block.swapped if promise.relation == "replace-one" else block.taken
        weights.append((part if promise.pure else math.sqrt(part)) / size.of(promise.pure))
    return weights


def _grid(
    blocks: tuple[Block, ...], weights: Sequence[float], promise: Promise, records: int,
    noise: float,
) -> float:  # fmt: skip
    """As fine as the sum of all records and the noise allow; 1 for counts with discrete Laplace
    noise, where whole numbers are the best grid."""
    if promise.pure and len(blocks) == 1 and all(blocks[0].whole) and blocks[0].multiple == 1:
        return 1.0
    largest = max(weight * block.limit for block, weight in zip(blocks, weights, strict=True))
    coarse = max(largest * records / _LARGEST_SUM, 24 * noise / _LARGEST_NOISE)
    return 2.0 ** math.ceil(math.log2(max(coarse, largest * _FINEST)))


def _factor(steps: float, multiple: int) -> int:
    whole = round(steps / multiple) * multiple
    return whole if whole else max(1, round(steps))


def _is_whole(block: Block, weight: float, grid: float, position: int) -> bool:
    if not block.whole[position]:
        return False
    return grid == 0 or round(weight / grid) % block.multiple == 0


def contribute(
    blocks: tuple[Block, ...], promise: Promise, facts: Facts, public: Any, features: Any, mask: Any
) -> Contribution:
    """One party's vector (width,) in grid steps; rows that are masked or not finite count zero."""
    made = plan(blocks, promise, facts)
    parts = []
    for block, factor in zip(blocks, made.factors, strict=True):
        rows = block.rows(public, features)
        keep = mask & jnp.all(jnp.isfinite(rows), axis=1)
        bounded = jnp.clip(jnp.where(keep[:, None], rows, 0.0), -block.limit, block.limit)
        steps = jnp.round(bounded * factor).astype(jnp.int32)
        if block.cells is None:
            parts.append(jnp.sum(steps, axis=0, dtype=jnp.int32))
            continue
        cells = block.cells(public, features)
        inside = (cells >= 0) & (cells < block.cell_count)
        target = jnp.where(inside, cells, block.cell_count)
        total = jnp.zeros((block.cell_count, block.length), jnp.int32)
        for level in range(block.levels):
            total = total.at[target[:, level]].add(steps, mode="drop")
        parts.append(total.ravel())
    return Contribution(jnp.concatenate(parts), made.grid, made.sensitivity, maker=_BOUNDED_ONLY)


@dataclass(frozen=True)
class Noisy:
    """A block as it was opened: values (cells, k), the law of their noise, and encoding errors.

    `rounding` (k,) bounds how far rounding moved a sum over all records, in the worst case.
    """

    values: np.ndarray
    law: NoiseLaw
    rounding: np.ndarray
    records: int
    exact_sizes: bool

    def margin(self, position: int, probability: float, numbers: int = 1) -> float:
        """Half-width that holds for `numbers` values at once, but for `probability`."""
        single = np.abs(self.values[:, position]).max() * 2.0**-23  # the sum travels as float32
        return self.law.tail(probability, numbers) + float(self.rounding[position]) + float(single)


def read_blocks(
    blocks: tuple[Block, ...], promise: Promise, facts: Facts, trust: Trust, event: Event,
    opened: Opened,
) -> list[Noisy]:  # fmt: skip
    """Undo weights and grid: every block in its own units."""
    made = plan(blocks, promise, facts)
    law = sum_law(event, facts, trust, opened.survivors, made.grid)
    found, start = [], 0
    for block, factor in zip(blocks, made.factors, strict=True):
        weight = factor * made.grid
        values = opened.total[start : start + block.width].reshape(block.cell_count, block.length)
        loose = [not _is_whole(block, weight, made.grid, i) for i in range(block.length)]
        worst = opened.records * (0.5 / factor + block.error)
        found.append(
            Noisy(values / weight, law.scaled(1 / weight), np.where(loose, worst, 0.0),
                  opened.records, facts.exact_sizes)
        )  # fmt: skip
        start += block.width
    return found
