"""Tables: bounded rows of records, added up in cells; what one-shot statistics are made of.

A block turns every record into a short row r(x) of k numbers and says in which cells it counts:

    block(records) = for every cell c:  sum over the records in cell c of r(x)      (cells, k)

A record counts in at most one cell on each of `levels` levels (one for a plain statistic,
several for a tree). Let a bound the norm of a row and w the distance of two rows (`rows`). Then

    one record taken away or zeroed out:  l1 <= levels a,      l2 <= sqrt(levels) a
    one record replaced, same cell:       per level w, or a where it leaves the statistic
    one record replaced, other cell:      per level 2 a in l1 and sqrt(2) a in l2, because the two
                                          rows land on disjoint coordinates

Blocks of one release are weighted and stacked: l1 bounds add, l2 bounds add in squares. Under
Gaussian noise a joint release costs exactly what the composition of its parts does (Dong, Roth and
Su 2022).

Rounding is in the sensitivity: an entry moves by half a quantization step, plus a float32 error of
at most 2^-18 of its limit, which covers clipping, squares and norms of up to a thousand columns.
Numbers that are whole multiples of 1 / `multiple` are encoded as integers, without any error.

Of very many records each is rounded to finer steps, and the sum once (`fine_sums`). Two sums that
differ by x are then rounded to steps that differ by x and at most one step more, in every cell that
differs at all: in that of a record that goes; in both of one that is replaced. Where sizes are
hidden, another record may have moved from one segment to the next, which are rounded apart: three.
"""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from unisono.accounting.gaussian import mu_for
from unisono.core.algorithm import Facts, SumTerms
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Distance, Sensitivity
from unisono.core.trust import Relation, Unit
from unisono.core.values import _BOUNDED_ONLY, Contribution
from unisono.errors import InvalidInput
from unisono.releases.fine_sums import joined, limb_widths, split
from unisono.releases.release import Release, record_terms
from unisono.releases.rows import Rows, Size

_FLOAT_ERROR = 2.0**-18
# The clean sum stays below a quarter of the 32-bit range; the rest is headroom for noise.
_LARGEST_SUM, _LARGEST_NOISE = 2**29, 2**30
_FINEST = 2.0**-20
# From so many records on, sums are added up in finer steps than they are released in.
_MANY = 2**16
# Rows of at most so many numbers are added up as columns of their own.
_FEW = 8


Read = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Block:
    """See the module. `values(public, features)` are what `rows` are made of, each record's of its
    own features; `cells(public, features)` (n, levels) says where it counts: on level l in one of
    `level_sizes[l]` cells, numbered through all levels, or nowhere. `share` is the block's part of
    the budget; `error` is how far float32 may move a number that is not exact (for intervals, not
    for privacy)."""

    name: str
    rows: Rows
    values: Read
    cells: Read | None = None
    level_sizes: tuple[int, ...] = (1,)
    share: float = 1.0
    error: float = 2.0**-22

    def __post_init__(self) -> None:
        if self.share <= 0 or min(self.level_sizes, default=0) < 1:
            raise InvalidInput(
                f"block {self.name!r}: a positive share of the budget and at least one cell on "
                "each level are needed"
            )

    @property
    def length(self) -> int:
        """k, how many numbers each cell holds."""
        return len(self.rows.exact)

    @property
    def levels(self) -> int:
        return len(self.level_sizes)

    @property
    def cell_count(self) -> int:
        return sum(self.level_sizes)

    @property
    def width(self) -> int:
        return self.cell_count * self.length

    @property
    def taken(self) -> Size:
        """How far the block moves when one record is zeroed out, added or removed."""
        alone = self.rows.alone
        return Size(self.levels * alone.l1, math.sqrt(self.levels) * alone.l2)

    @property
    def swapped(self) -> Size:
        """How far the block moves when one record is replaced."""
        moved = (2.0, math.sqrt(2.0)) if self.cell_count > 1 else (1.0, 1.0)
        alone, within = self.rows.alone, self.rows.within
        return Size(
            self.levels * max(within.l1, moved[0] * alone.l1),
            math.sqrt(self.levels) * max(within.l2, moved[1] * alone.l2),
        )

    @property
    def counts(self) -> bool:
        """Whether all of its numbers are counts."""
        return all(self.rows.exact) and self.rows.multiple == 1

    def rounded(self, factor: int) -> list[bool]:
        """Which of its k numbers are not exact when they are multiplied by `factor`."""
        kept = factor % self.rows.multiple == 0
        return [not (exact and kept) for exact in self.rows.exact]

    def by(self, column: int, groups: int) -> "Block":
        """The same block for each of `groups` public groups; `column` holds the group's number.

        On every level the cells of the first group come first, then those of the second, and so
        on: a record still counts in at most one cell of a level, so its bounds stay what they are.
        """
        inner, sizes = self.cells, self.level_sizes
        starts = tuple(accumulate(sizes, initial=0))[:-1]

        def cells(public: Any, features: Any) -> Any:
            group = codes(features[:, column], groups)[:, None]
            found = jnp.zeros_like(group) if inner is None else inner(public, features)
            placed = [
                jnp.where(
                    (group >= 0) & (cell >= 0) & (cell < size),
                    groups * start + group * size + cell,
                    -1,
                )
                for level, (size, start) in enumerate(zip(sizes, starts, strict=True))
                for cell in [found[:, level : level + 1] - start]
            ]
            return jnp.concatenate(placed, axis=1)

        return replace(self, cells=cells, level_sizes=tuple(groups * size for size in sizes))


def codes(values: Any, count: int) -> Any:
    """Category numbers 0..count - 1 from floats; anything else is -1."""
    codes = jnp.where(jnp.isfinite(values), values, -1.0)
    inside = (codes >= 0) & (codes < count) & (codes == jnp.floor(codes))
    return jnp.where(inside, codes, -1.0).astype(jnp.int32)


@dataclass(frozen=True)
class Table:
    """Blocks that are released together, each with its share of the budget.

    `raw`: the public values that rows and cells may depend on, and the features (n, columns). Rows
    that are masked or not finite count zero. Every number of a block is multiplied by the block's
    weight, a whole number of quantization steps.

    With a `group` of several, rows are persons: the features are (n, group, columns), beside a mark
    (n, group) of the records that are there, m for a person, each of which weighs 1 / m. A person's
    part is then a mean of what records may add, and whatever bounds those, alone or two of them
    apart, bounds a mean of them. Weighted numbers are no whole ones: each record is rounded.
    Where persons are taken `together`, a block makes one row of all that a person has, features and
    marks, and that row is bounded and rounded like a record's.
    """

    blocks: tuple[Block, ...]
    pure: str = "laplace"
    group: int = 1
    together: bool = False
    unit = Unit.RECORD
    whole = False
    batched = False
    in_graph = False

    @property
    def dimension(self) -> int:
        return sum(block.width for block in self.blocks)

    @property
    def apart(self) -> int:
        """How many rows a person has, at most."""
        return 1 if self.together else self.group

    def factors(self, privacy: Privacy, step: float) -> tuple[int, ...]:
        """The blocks' weights in quantization steps."""
        return tuple(
            _factor(weight / step, block.rows.multiple)
            for block, weight in zip(self.blocks, self._weights(privacy), strict=True)
        )

    def steps(self, release: Release, facts: Facts, privacy: Privacy) -> Iterator[float]:
        """As fine as the sum of all records and the noise allow; 1 for counts with discrete Laplace
        noise, where whole numbers are best."""
        counts = len(self.blocks) == 1 and self.blocks[0].counts and self.apart == 1
        if privacy.pure and counts:
            yield 1.0
            return
        weights = self._weights(privacy)
        noise = _rough_noise(self._bound(weights, 0.0, True), privacy, release.rounds)
        largest = max(w * block.rows.limit for block, w in zip(self.blocks, weights, strict=True))
        records = release.summed(facts.records, facts)
        coarse = max(
            largest * records / _LARGEST_SUM, 24 * noise * math.sqrt(facts.parties) / _LARGEST_NOISE
        )
        yield 2.0 ** math.ceil(math.log2(max(coarse, largest * _FINEST)))

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        weights = [factor * step for factor in self.factors(privacy, step)]
        return self._bound(weights, step, not facts.exact_sizes, self.shift(facts, privacy, step))

    def rounded(self, block: Block, factor: int) -> list[bool]:
        """Which of a block's k numbers are not exact when they are multiplied by `factor`."""
        return block.rounded(factor) if self.apart == 1 else [True] * block.length

    def _bound(
        self, weights: Sequence[float], step: float, hides_presence: bool, shift: int = 0
    ) -> Sensitivity:
        return _sensitivity(self.blocks, weights, step, hides_presence, shift, self.apart)

    def shift(self, facts: Facts, privacy: Privacy, step: float) -> int:
        """By how many binary digits the steps are finer in which a party adds up its records."""
        factors = self.factors(privacy, step)
        blocks = list(zip(self.blocks, factors, strict=True))
        many = self.apart == 1 and sum(facts.records) >= _MANY
        if not many or not any(any(b.rounded(f)) for b, f in blocks):
            return 0
        largest = max(factor * block.rows.limit for block, factor in blocks)
        return max(0, math.floor(-math.log2(largest * _FINEST)))

    def sum_bound(self, release: Release, facts: Facts, privacy: Privacy) -> float:
        step = next(self.steps(release, facts, privacy))
        factors = self.factors(privacy, step)
        blocks = zip(self.blocks, factors, strict=True)
        largest = max(factor * block.rows.limit + self.apart for block, factor in blocks)
        return largest * step * release.summed(facts.records, facts)

    def terms(self, facts: Facts, privacy: Privacy, step: float) -> SumTerms:
        """One for each record, with a range for every number of every cell."""
        low, high, shift = [], [], self.shift(facts, privacy, step)
        for block, factor in zip(self.blocks, self.factors(privacy, step), strict=True):
            slack = _slack(block, factor * step, step, shift, self.apart, 1, 1) / step
            ends = factor * np.array(block.rows.ranges)
            moved = slack * np.array(self.rounded(block, factor), float)
            low.append(np.tile(ends[:, 0] - moved, block.cell_count))
            high.append(np.tile(ends[:, 1] + moved, block.cell_count))
        whole = record_terms(self, facts, privacy, step)
        return whole._replace(low=np.concatenate(low), high=np.concatenate(high))

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, None]:
        inexact, shift = self.inexact(privacy, step), self.shift(facts, privacy, step)
        sums = self.exact_sums(self.factors(privacy, step), inexact, shift, raw, mask)
        value = self.rounded_sum(facts, privacy, step, sums, len(mask))
        return self.contribution(facts, privacy, step, value), None

    def contribution(self, facts: Facts, privacy: Privacy, step: float, value: Any) -> Contribution:
        """A sum of this table, with its bound."""
        bound = self.sensitivity(facts, privacy, step)
        return Contribution(value, step, bound, maker=_BOUNDED_ONLY)

    def inexact(self, privacy: Privacy, step: float) -> tuple[tuple[bool, ...], ...]:
        """Which numbers of each block are rounded to steps."""
        factors = zip(self.blocks, self.factors(privacy, step), strict=True)
        return tuple(tuple(block.rounded(factor)) for block, factor in factors)

    def exact_sums(
        self, factors: Any, inexact: Sequence[Sequence[bool]], shift: int, raw: Any, mask: Any
    ) -> Any:
        """Integers (parts, dimension) that add up over blocks of records, without any error, of
        blocks with these `factors`, for steps that are finer by `shift` digits."""
        public, features = raw
        shares = None
        if self.apart > 1:
            points, marks = features
            features, shares, mask = _by_record(points, marks, mask, self.group)
        widths = limb_widths(shift, len(mask))
        parts = [
            _added(block, factors[place], np.array(own), public, features, mask, widths, shares)
            for place, (block, own) in enumerate(zip(self.blocks, inexact, strict=True))
        ]
        return jnp.concatenate(parts, axis=1)

    def rounded_sum(self, facts: Facts, privacy: Privacy, step: float, sums: Any, rows: int) -> Any:
        """What is released of exact sums, in quantization steps; each was over so many `rows`."""
        return joined(sums, limb_widths(self.shift(facts, privacy, step), rows))

    def _weights(self, privacy: Privacy) -> list[float]:
        """Equal shares mean equal cost: norm budgets add in l1, and in squares in l2."""
        if len(self.blocks) == 1:
            return [1.0]
        total = sum(block.share for block in self.blocks)
        weights = []
        for block in self.blocks:
            part = block.share / total
            replaced = privacy.relation is Relation.REPLACE_ONE
            size = block.swapped if replaced else block.taken
            weights.append((part if privacy.pure else math.sqrt(part)) / size.of(privacy.pure))
        return weights


@dataclass(frozen=True)
class TableRecords:
    """What a table reads (`Algorithm.local`): the public values, and of a party's columns the
    features; of persons with a `group` of records also the marks."""

    group: int

    def __call__(self, public: Any, own: Any, records: Any) -> tuple[Any, Any]:
        return own, (public, records.columns[0] if self.group == 1 else records.columns)


def lone_weight(step: float) -> float:
    """The weight of a table's only block: 1, or one quantization step where that is longer.

    >>> lone_weight(2.0**-9), lone_weight(4.0)
    (1.0, 4.0)
    """
    return _factor(1 / step, 1) * step


def _factor(steps: float, multiple: int) -> int:
    whole = round(steps / multiple) * multiple
    return whole if whole else max(1, round(steps))


def _rough_noise(sensitivity: Sensitivity, privacy: Privacy, rounds: int) -> float:
    """About the noise that the price will be, to choose a quantization step it fits on."""
    distance, epsilon = sensitivity.under(privacy.relation), privacy.smallest
    if privacy.pure:
        return distance.in_norm("l1") * rounds / epsilon
    return 1.5 * distance.in_norm("l2") * math.sqrt(rounds) / mu_for(epsilon, privacy.delta)


def _sensitivity(
    blocks: Sequence[Block],
    weights: Sequence[float],
    step: float,
    hides_presence: bool,
    shift: int = 0,
    group: int = 1,
) -> Sensitivity:
    """Bounds of the stacked blocks, with half a step and the float error for every number that
    is not encoded exactly. A replaced record is rounded twice; where one comes or goes, another may
    move into its place (`engines.layout`) and is rounded twice too. Of a person each record is.
    With a `shift` these are finer steps, and `sums` are rounded in every number that a record
    touches."""

    def bound(size: Callable[[Block], Size], roundings: int, sums: int) -> Distance:
        ones, squares, largest = 0.0, 0.0, 0.0
        for block, weight in zip(blocks, weights, strict=True):
            factor = round(weight / step) if step else 0
            slack = _slack(block, weight, step, shift, group, roundings, sums)
            inexact = sum(block.rounded(factor)) if group == 1 else block.length
            found, touched = size(block), inexact * block.levels
            ones += weight * found.l1 + slack * touched
            squares += (weight * found.l2 + slack * math.sqrt(touched)) ** 2
            largest = max(largest, weight * found.l2 + (slack if touched else 0.0))
        return Distance(l1=ones, l2=math.sqrt(squares), linf=largest)

    once, twice = bound(lambda b: b.taken, 1, 1), bound(lambda b: b.swapped, 2, 2)
    moved = bound(lambda b: b.taken, 3, 3) if hides_presence else None
    return Sensitivity(Unit.RECORD, twice, once, moved)


def _slack(
    block: Block, weight: float, step: float, shift: int, group: int, roundings: int, sums: int
) -> float:
    """How far roundings move a number of a block that is not exact."""
    fine = step / 2**shift / 2 + weight * _FLOAT_ERROR * block.rows.limit
    return fine * roundings * group + (step * sums if shift else 0.0)


def _by_record(features: Any, marks: Any, mask: Any, group: int) -> tuple[Any, Any, Any]:
    """Persons (n, group, columns) as records (n group, columns): with the share of each in its
    person, 1 / m of those m that are there, and which of them count."""
    if features.shape[:2] != (len(mask), group) or marks.shape != (len(mask), group):
        raise InvalidInput(
            f"features of shape {features.shape} and marks of shape {marks.shape} for {len(mask)} "
            f"persons of {group} records: each record has one row and one mark"
        )
    there = (marks > 0) & mask[:, None]
    shares = 1.0 / jnp.maximum(jnp.sum(there, axis=1, keepdims=True), 1)
    shares = jnp.broadcast_to(shares.astype(jnp.float32), there.shape)
    return features.reshape(len(mask) * group, -1), shares.reshape(-1), there.reshape(-1)


def _added(
    block: Block,
    factor: Any,
    inexact: np.ndarray,
    public: Any,
    features: Any,
    mask: Any,
    widths: list[int],
    shares: Any = None,
) -> Any:
    """One party's block, in quantization steps and their limbs (1 + limbs, width). Cells of another
    level count nowhere, so that the levels of a record lie on disjoint coordinates."""
    rows = block.rows.of(block.values(public, features))
    if rows.shape != (len(mask), block.length):
        raise InvalidInput(
            f"block {block.name!r} makes rows of shape {rows.shape}: each of {len(mask)} records "
            f"has one row of {block.length} numbers"
        )
    if block.cells is None and block.length <= _FEW:
        return _summed_by_column(block, factor, inexact, rows, mask, widths, shares)
    keep = mask & jnp.all(jnp.isfinite(rows), axis=1)
    steps = _quantized(block, factor, inexact, rows.T, keep, sum(widths), shares).T
    parts = split(steps, widths)
    if block.cells is None:
        return jnp.stack([jnp.sum(part, axis=0, dtype=jnp.int32) for part in parts])
    cells = block.cells(public, features)
    return jnp.stack([_in_cells(block, cells, part) for part in parts])


def _summed_by_column(
    block: Block,
    factor: Any,
    inexact: np.ndarray,
    rows: Any,
    mask: Any,
    widths: list[int],
    shares: Any,
) -> Any:
    """The sums of a few columns and of their limbs, (1 + limbs, width): one reduction of all of
    them, which compiles to a single vectorised pass over the records."""
    columns = [rows[:, number] for number in range(block.length)]
    keep = reduce(operator.and_, map(jnp.isfinite, columns), mask)
    parts = [
        part
        for column, rounds in zip(columns, inexact, strict=True)
        for part in split(
            _quantized(block, factor, rounds, column, keep, sum(widths), shares), widths
        )
    ]
    sums = lax.reduce(
        parts,
        [np.int32(0)] * len(parts),
        lambda some, more: [one + other for one, other in zip(some, more, strict=True)],
        (0,),
    )
    return jnp.stack(sums).reshape(block.length, -1).T


def _in_cells(block: Block, cells: Any, steps: Any) -> Any:
    total = jnp.zeros((block.cell_count, block.length), jnp.int32)
    for level, end in enumerate(accumulate(block.level_sizes)):
        cell = cells[:, level]
        inside = (cell >= end - block.level_sizes[level]) & (cell < end)
        target = jnp.where(inside, cell, block.cell_count)
        total = total.at[target].add(steps, mode="drop")
    return total.ravel()


def _quantized(
    block: Block, factor: Any, inexact: Any, numbers: Any, keep: Any, shift: int, shares: Any
) -> Any:
    """Numbers (..., n) of rows in quantization steps, or finer ones by `shift` digits; of those
    that are not `inexact`, which has the shape (...), a whole number of multiples."""
    limit, multiple = block.rows.limit, block.rows.multiple
    bounded = jnp.clip(jnp.where(keep, numbers, 0.0), -limit, limit)
    if shares is not None:
        return jnp.round(bounded * shares * factor).astype(jnp.int32)
    steps = jnp.round(bounded * (factor << shift)).astype(jnp.int32)
    if np.all(inexact):
        return steps
    multiples = jnp.round(bounded * multiple).astype(jnp.int32)
    whole = multiples * (factor // multiple) << shift
    return jnp.where(np.expand_dims(inexact, -1), steps, whole) if np.any(inexact) else whole


__all__ = ["Block", "Table", "TableRecords", "codes", "lone_weight"]
