"""Sums of clipped gradients of persons, each the sum over a person's records.

With rows x_pj and coefficients c_pj of a linear model (`scaled_sum`), a person's gradient is

    g_p = Σ over its records j of x_pj ⊗ c_pj            S = Σ over persons of clip_C(g_p)

Its norm is no product of norms, and the terms may cancel, so that g_p itself is made, a block of
persons at a time, measured, clipped and rounded on its own, as in `ClippedSum`. A record that is
not finite adds nothing to its person; one person moves S by C, twice that if replaced.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from unisono.core.algorithm import Facts, SumTerms
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Sensitivity, positive
from unisono.core.trust import Unit
from unisono.core.values import _BOUNDED_ONLY, Contribution, clipped_sum, sum_sensitivity
from unisono.errors import InvalidInput
from unisono.releases.bounds import power_of_two_step
from unisono.releases.release import Release, record_terms
from unisono.releases.scaled_sum import ScaledSum

# So many persons' gradients are made at a time. Each is rounded on its own: memory depends on it,
# the sum does not.
_BLOCK = 256
# Float errors of norms let a sum exceed its bound by far less than this.
_FLOAT_SLACK = 1.01


@dataclass(frozen=True)
class PersonSum:
    """Σ over persons of clip_C(Σ_j x_pj ⊗ c_pj).

    `raw`: the coefficients (n, group) or (n, group, outputs), and the rows (n, group, features).
    """

    clipping_norm: float
    features: int
    outputs: int
    group: int
    unit = Unit.RECORD  # of rows: `people` says what a row is
    whole = False
    batched = False
    in_graph = False
    pure = ""

    def __post_init__(self) -> None:
        positive(
            clipping_norm=self.clipping_norm,
            features=self.features,
            outputs=self.outputs,
            group=self.group,
        )

    @property
    def dimension(self) -> int:
        return self.features * self.outputs

    def steps(self, release: Release, facts: Facts, privacy: Privacy) -> Iterator[float]:
        persons = release.summed(facts.records, facts)
        yield power_of_two_step(self.clipping_norm, self.dimension, persons)

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        return sum_sensitivity(
            self.clipping_norm, step, self.dimension, hides_presence=not facts.exact_sizes
        )

    def sum_bound(self, release: Release, facts: Facts, privacy: Privacy) -> float:
        return _FLOAT_SLACK * self.clipping_norm * release.summed(facts.records, facts)

    def terms(self, facts: Facts, privacy: Privacy, step: float) -> SumTerms:
        return record_terms(self, facts, privacy, step)

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, None]:
        coefficients, rows = raw
        persons = len(mask)
        if rows.shape != (persons, self.group, self.features) or len(coefficients) != persons:
            raise InvalidInput(
                f"rows of shape {rows.shape} and {len(coefficients)} coefficients for {persons} "
                f"persons of {self.group} records of {self.features} numbers: each has one row of "
                "each"
            )
        slopes = coefficients.reshape(persons, self.group, self.outputs)
        total = self._added(slopes, rows, mask, step)
        bound = self.sensitivity(facts, privacy, step)
        return Contribution(total, step, bound, maker=_BOUNDED_ONLY), None

    def _added(self, slopes: Any, rows: Any, mask: Any, step: float) -> Any:
        """The sum in steps (dimension,), block after block."""
        size = min(_BLOCK, len(mask))
        count = -(-len(mask) // size)

        def blocks(column: Any) -> Any:
            padding = [(0, count * size - len(mask))] + [(0, 0)] * (column.ndim - 1)
            return jnp.pad(column, padding).reshape(count, size, *column.shape[1:])

        def add(total: Any, block: Any) -> tuple[Any, None]:
            own, points, present = block
            gradients = person_gradients(own, points).reshape(size, -1)
            part = clipped_sum(gradients, self.clipping_norm, step, present)
            return total + part.value, None

        none = jnp.zeros(self.dimension, jnp.int32)
        columns = tuple(map(blocks, (slopes, rows, mask)))
        return jax.lax.scan(add, none, columns)[0]


def person_gradients(slopes: Any, rows: Any) -> Any:
    """Each person's (features, outputs), of the records that are finite."""
    keep = jnp.all(jnp.isfinite(rows), axis=2) & jnp.all(jnp.isfinite(slopes), axis=2)
    points = jnp.where(keep[:, :, None], rows, 0.0)
    own = jnp.where(keep[:, :, None], slopes, 0.0)
    return jnp.einsum("pjf,pjo->pfo", points, own, precision="highest")


def gradient_sum(clipping_norm: float, facts: Facts, outputs: int) -> ScaledSum | PersonSum:
    """The bound of a linear model's gradients: of records, or of persons with several of them."""
    if facts.group == 1:
        return ScaledSum(clipping_norm, facts.features, outputs)
    return PersonSum(clipping_norm, facts.features, outputs, facts.group)


__all__ = ["PersonSum", "gradient_sum", "person_gradients"]
