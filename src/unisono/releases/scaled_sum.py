"""Sums of clipped rows that are known by a coefficient: gradients of linear models.

The gradient of a loss of the score is x ⊗ c, a record's row times a few numbers, so that its norm
is ||x|| ||c|| and the sum over a block of records is one matrix product (`problems.losses`):

    S = Σ over records of x_i ⊗ (c_i min(1, C / (||x_i|| ||c_i||)))

Nothing of the size of all gradients is ever made. Records are added up in floats in blocks of 64,
every block is rounded, and blocks are added as integers: a block lies in the processor's cache, and
its float error, which is part of the sensitivity, stays below a thousandth of it.

Where sizes are hidden a record that comes or goes moves others to other blocks, in which they would
be rounded in other company. There each gradient is made and rounded on its own, as in `ClippedSum`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from unisono.core.algorithm import Facts
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Sensitivity, positive
from unisono.core.trust import Unit
from unisono.core.values import (
    _BOUNDED_ONLY,
    Contribution,
    blocked_sum_sensitivity,
    clipped_sum,
    sum_sensitivity,
)
from unisono.errors import InvalidInput
from unisono.releases.bounds import power_of_two_step
from unisono.releases.release import Release

BLOCK = 64
# Rows that are gone through at a time: two blocks, whose rows and products stay in the cache.
TURN = 2 * BLOCK
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
        yield power_of_two_step(self.clipping_norm, finer**2 * self.dimension, records)

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        if not facts.exact_sizes:
            return sum_sensitivity(self.clipping_norm, step, self.dimension)
        terms = self.features + self.outputs
        return blocked_sum_sensitivity(
            step, self.dimension, BLOCK, terms, hides_presence=False, clip=self.clipping_norm
        )

    def sum_bound(self, release: Release, facts: Facts, privacy: Privacy) -> float:
        return _FLOAT_SLACK * self.clipping_norm * release.summed(facts.records, facts)

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, None]:
        coefficients, rows = raw
        if not len(coefficients) == len(rows) == len(mask):  # or one row would count twice
            raise InvalidInput(
                f"{len(coefficients)} coefficients and {len(rows)} rows of {len(mask)} records: "
                "each record has one of each"
            )
        outputs = coefficients.reshape(len(rows), self.outputs)
        if not facts.exact_sizes:
            gradients = (rows[:, :, None] * outputs[:, None, :]).reshape(len(rows), -1)
            return clipped_sum(gradients, self.clipping_norm, step, mask), None
        total = _added(rows, outputs, mask, self.clipping_norm, step)
        bound = self.sensitivity(facts, privacy, step)
        return Contribution(total.reshape(-1), step, bound, maker=_BOUNDED_ONLY), None


def _added(rows: Any, coefficients: Any, mask: Any, clip: float, step: float) -> Any:
    """The sum in steps, (features, outputs), turn after turn.

    Rows are cut out of the columns where they lie. The last turn begins early enough to be whole,
    and leaves out what was counted before.
    """
    count, length = -(-len(mask) // TURN), min(TURN, len(mask))

    def add(number: Any, total: Any) -> Any:
        begin = jnp.minimum(number * TURN, len(mask) - length)

        def cut(column: Any) -> Any:
            return jax.lax.dynamic_slice_in_dim(jnp.asarray(column), begin, length)

        new = begin + jnp.arange(length) >= number * TURN
        return total + _turn(cut(rows), cut(coefficients), cut(mask) & new, clip, step)

    none = jnp.zeros((coefficients.shape[1], rows.shape[1]), jnp.int32)
    return jax.lax.fori_loop(0, count, add, none).T


def _turn(rows: Any, coefficients: Any, mask: Any, clip: float, step: float) -> Any:
    """The sum (outputs, features) of some blocks, each rounded once. A record whose norms are
    not numbers, or too large or small to be measured in floats, adds exactly zero: a tiny row times
    a huge coefficient would pass for short where the squares of the row underflow."""
    squares = (jnp.sum(rows * rows, axis=1), jnp.sum(coefficients * coefficients, axis=1))
    measured = [(one >= _LEAST_SQUARE) & (one <= _MOST_SQUARE) for one in squares]
    keep = (mask & measured[0] & measured[1])[:, None]
    norms = jnp.where(keep[:, 0], jnp.sqrt(squares[0]) * jnp.sqrt(squares[1]), 1.0)
    scale = jnp.minimum(1.0, clip / norms) / step
    weights = jnp.where(keep, coefficients * scale[:, None], 0.0)
    rows = jnp.where(keep, rows, 0.0)
    total = jnp.zeros((coefficients.shape[1], rows.shape[1]), jnp.int32)
    for begin in range(0, len(rows), BLOCK):
        block = slice(begin, begin + BLOCK)
        total = total + jnp.round(weights[block].T @ rows[block]).astype(jnp.int32)
    return total


__all__ = ["BLOCK", "ScaledSum"]
