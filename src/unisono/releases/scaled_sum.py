"""Sums of clipped rows that are known by a coefficient: gradients of linear models.

The gradient of a loss of the score is x ⊗ c, a record's row times a few numbers, so that its norm
is ||x|| ||c|| and the sum over a block of records is one matrix product (`problems.losses`):

    S = Σ over records of x_i ⊗ (c_i min(1, C / (||x_i|| ||c_i||)))

Nothing of the size of all gradients is ever made. Rows are gone through in turns that fit the
processor's cache: coefficients, norms and sums of a turn are made while it lies there, so that rows
come from memory once in a round. Within a turn records are added up in floats in blocks of 64,
every block is rounded, and blocks are added as integers: the float error of a block, which is part
of the sensitivity, stays below a thousandth of it.

Where sizes are hidden a record that comes or goes moves others to other blocks, in which they would
be rounded in other company. There each gradient is made and rounded on its own, as in `ClippedSum`;
and so it is where records are read from files block by block (`exact_sums`): in one that is sorted,
or cut into partitions, a record that is replaced moves many others by a place. Records in memory
are put into a secret order instead (`studies.order`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from unisono.core.algorithm import Facts, SumTerms
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Sensitivity, positive
from unisono.core.stacked import cut, whole
from unisono.core.trust import Unit
from unisono.core.values import (
    _BOUNDED_ONLY,
    Contribution,
    blocked_sum_sensitivity,
    clipped_sum,
    sum_sensitivity,
    within,
)
from unisono.errors import InvalidInput
from unisono.releases.bounds import power_of_two_steps
from unisono.releases.release import Release, record_terms

BLOCK = 64
# A turn's rows hold at most so many numbers, an eighth of a megabyte, or are one block; and there
# are so many of them at most, beyond which nothing is gained.
_TURN_NUMBERS, _TURN_ROWS = 2**15, 1024
# Float errors of norms let a sum exceed its bound by far less than this.
_FLOAT_SLACK = 1.01
# Squares of norms outside this range have lost digits to underflow or overflow; the underflow of
# d squares is below d 2^-126, far less than the (d + 16) 2^-24 that the sensitivity allows for.
_LEAST_SQUARE, _MOST_SQUARE = 2.0**-90, 2.0**90


@dataclass(frozen=True)
class ScaledSum:
    """Σ over records of clip_C(x_i ⊗ c_i): one record moves it by C, twice that if it is replaced.

    `raw`: the coefficients (n,) or (n, outputs), and the rows (n, features). The sum is
    (features · outputs,), as the parameters of a linear model are laid out.
    """

    clipping_norm: float
    features: int
    outputs: int = 1
    unit = Unit.RECORD
    whole = False
    batched = False
    in_graph = False
    pure = ""

    def __post_init__(self) -> None:
        positive(clipping_norm=self.clipping_norm, features=self.features, outputs=self.outputs)

    @property
    def dimension(self) -> int:
        return self.features * self.outputs

    def steps(self, release: Release, facts: Facts, privacy: Privacy) -> Iterator[float]:
        """Twice as fine as for single records: roundings of a block may differ by a whole step."""
        records = release.summed(facts.records, facts)
        finer = 2 if facts.exact_sizes else 1
        yield from power_of_two_steps(self.clipping_norm, finer**2 * self.dimension, records)

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        if not facts.exact_sizes:
            return sum_sensitivity(self.clipping_norm, step, self.dimension)
        terms = self.features + self.outputs
        return blocked_sum_sensitivity(
            step, self.dimension, BLOCK, terms, hides_presence=False, clip=self.clipping_norm
        )

    def sum_bound(self, release: Release, facts: Facts, privacy: Privacy) -> float:
        return _FLOAT_SLACK * self.clipping_norm * release.summed(facts.records, facts)

    @property
    def turn(self) -> int:
        """How many rows are gone through at a time: whole blocks."""
        blocks = _TURN_NUMBERS // (BLOCK * self.features)
        return BLOCK * max(1, min(_TURN_ROWS // BLOCK, blocks))

    def terms(self, facts: Facts, privacy: Privacy, step: float) -> SumTerms:
        return record_terms(self, facts, privacy, step)

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, None]:
        def given(columns: Any, present: Any) -> Any:
            return columns

        return self.streamed(facts, privacy, step, given, raw, mask), None

    def streamed(
        self,
        facts: Facts,
        privacy: Privacy,
        step: float,
        local: Callable[[Any, Any], Any],
        columns: tuple[Any, ...],
        mask: Any,
    ) -> Contribution:
        """The contribution of records (n, ...) of which `local(columns, mask)` makes `raw`, turn
        after turn. Each row is made of one record, so that it does not matter who is beside it."""
        if not facts.exact_sizes:
            return self._one_by_one(local(tuple(map(whole, columns)), mask), mask, step)

        def turn(part: Any, present: Any) -> Any:
            rows, outputs = self._pairs(local(part, present), present)
            return _turn(rows, outputs, present, self.clipping_norm, step)

        total = _added(turn, columns, mask, self.turn).T
        bound = self.sensitivity(facts, privacy, step)
        return Contribution(total.reshape(-1), step, bound, maker=_BOUNDED_ONLY)

    def rounds_apart(self, facts: Facts, privacy: Privacy, step: float) -> bool:
        """Whether gradients that are rounded one by one keep the bound that is claimed of blocks:
        not where there are so many numbers that the float error of a norm is the larger one."""
        apart = sum_sensitivity(self.clipping_norm, step, self.dimension, hides_presence=False)
        return facts.exact_sizes and within(apart, self.sensitivity(facts, privacy, step), "l2")

    def exact_sums(
        self, step: float, local: Callable[[Any, Any], Any], columns: tuple[Any, ...], mask: Any
    ) -> Any:
        """As `streamed`, the integers (dimension,) of gradients that are rounded one by one: a
        record adds the same to them in every place, whoever is beside it."""

        def turn(part: Any, present: Any) -> Any:
            return self._one_by_one(local(part, present), present, step).value

        return _added(turn, columns, mask, self.turn)

    def _one_by_one(self, raw: Any, mask: Any, step: float) -> Contribution:
        rows, outputs = self._pairs(raw, mask)
        gradients = (rows[:, :, None] * outputs[:, None, :]).reshape(len(rows), -1)
        return clipped_sum(gradients, self.clipping_norm, step, mask)

    def _pairs(self, raw: Any, mask: Any) -> tuple[Any, Any]:
        """Rows (n, features) and coefficients (n, outputs)."""
        coefficients, rows = raw
        if not len(coefficients) == len(rows) == len(mask):  # or one row would count twice
            raise InvalidInput(
                f"{len(coefficients)} coefficients and {len(rows)} rows of {len(mask)} records: "
                "each record has one of each"
            )
        return rows, coefficients.reshape(len(rows), self.outputs)


def _added(
    turn: Callable[[Any, Any], Any], columns: tuple[Any, ...], mask: Any, length: int
) -> Any:
    """The sum of all turns of `length` rows.

    Rows are cut out of the columns where they lie. The last turn begins early enough to be whole,
    and leaves out what was counted before.
    """
    records = len(mask)
    if records <= length:
        return turn(tuple(map(whole, columns)), jnp.asarray(mask))

    def part(number: Any) -> Any:
        begin = jnp.minimum(number * length, records - length)
        new = begin + jnp.arange(length) >= number * length
        present = cut(mask, begin, length) & new
        return turn(tuple(cut(column, begin, length) for column in columns), present)

    shape = jax.eval_shape(part, 0)
    none = jnp.zeros(shape.shape, shape.dtype)
    return jax.lax.fori_loop(
        0, -(-records // length), lambda number, total: total + part(number), none
    )


def _turn(rows: Any, coefficients: Any, mask: Any, clip: float, step: float) -> Any:
    """The sum (outputs, features) of some blocks, each rounded once. A record whose norms are
    not numbers, or too large or small to be measured in floats, adds exactly zero: a tiny row times
    a huge coefficient would pass for short where the squares of the row underflow. Products are of
    the highest precision: accelerators take fewer digits than the sensitivity allows for."""
    squares = [_row_sums(one * one) for one in (rows, coefficients)]
    measured = [(one >= _LEAST_SQUARE) & (one <= _MOST_SQUARE) for one in squares]
    keep = (mask & measured[0] & measured[1])[:, None]
    norms = jnp.where(keep[:, 0], jnp.sqrt(squares[0]) * jnp.sqrt(squares[1]), 1.0)
    scale = jnp.minimum(1.0, clip / norms) / step
    weights = jnp.where(keep, coefficients * scale[:, None], 0.0)
    # Whether a row is kept is found out once, not again for each of its numbers.
    weights, keep = jax.lax.optimization_barrier((weights, keep))
    rows = jnp.where(keep, rows, 0.0)
    whole_blocks = len(rows) // BLOCK * BLOCK
    parts = []
    if whole_blocks:
        blocks = [a[:whole_blocks].reshape(-1, BLOCK, a.shape[1]) for a in (weights, rows)]
        products = jnp.einsum("bik,bij->bkj", *blocks, precision="highest")
        parts.append(jnp.sum(jnp.round(products).astype(jnp.int32), axis=0))
    if whole_blocks < len(rows):
        left = jnp.matmul(weights[whole_blocks:].T, rows[whole_blocks:], precision="highest")
        parts.append(jnp.round(left).astype(jnp.int32))
    return sum(parts)


def _row_sums(rows: Any) -> Any:
    """(n, k) -> (n,). Products of a vector and a transposed matrix are those that compile best."""
    return jnp.matmul(jnp.ones(rows.shape[1], rows.dtype), rows.T, precision="highest")


__all__ = ["BLOCK", "ScaledSum"]
