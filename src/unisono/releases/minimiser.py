"""The minimiser of a party's own regularised loss, on the integer grid.

    θ_j = argmin (1/n_j) sum_i l(θ; x_i, y_i) + (λ/2) ||θ||²      to a public tolerance τ

Sensitivity of the *sum* over parties, for n_(1) the smallest party, G the largest gradient of one
record, γ the quantization step and p parameters:

    replace-one   Δ2 = 2 G / (n_(1) λ) + 2 τ / λ + sqrt(p) γ       Δ1 = sqrt(p) (...) + p γ
    zero-out      Δ2 =   G / (n_(1) λ) + 2 τ / λ + sqrt(p) γ

Proof. J of one party is λ-strongly convex, so λ ||θ1* - θ2*|| <= ||grad J1(θ2*)|| =
||grad (J1 - J2)(θ2*)||, which is at most 2 G / n when a record is replaced and G / n when it is
switched off, n being public and unchanged (Chaudhuri, Monteleoni and Sarwate 2011). Each computed
point is within τ/λ of its minimiser, certified in double precision (`solver`), and rounding moves
each coordinate by at most γ/2 on either side. A party that misses τ is a dropout. Where sizes are
nominal, every party divides by n_(1) and add-or-remove equals zero-out.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.algorithm import Facts
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Distance, Sensitivity, positive
from unisono.core.trust import Unit
from unisono.core.values import _BOUNDED_ONLY, Contribution
from unisono.errors import InvalidInput
from unisono.problems.linear import LinearLoss
from unisono.releases import solver
from unisono.releases.release import Release


@dataclass(frozen=True)
class Minimiser:
    """See the module. `raw`: rows and labels. `tolerance` is public: the solver must bring the
    gradient below tolerance * G / n_(1), which adds that fraction to the sensitivity."""

    problem: LinearLoss
    features: int
    regularisation: float
    tolerance: float = 1e-3
    unit = Unit.RECORD
    whole = True
    batched = False
    in_graph = False
    pure = "norm"

    def __post_init__(self) -> None:
        positive(regularisation=self.regularisation, tolerance=self.tolerance)

    @property
    def dimension(self) -> int:
        return self.problem.parameters(self.features)

    @property
    def steepness(self) -> float:
        """G: the largest gradient of one record."""
        return solver.lipschitz(self.problem.function, self.regularisation, self.problem.classes)

    @property
    def radius(self) -> float:
        """No minimiser, nor its certified approximation, has a larger norm."""
        return solver.radius(self.problem.function, self.regularisation, self.problem.classes)

    def required_gradient(self, facts: Facts) -> float:
        """τ, the public tolerance."""
        return self.tolerance * self.steepness / min(facts.records)

    def distance(self, facts: Facts, changed: int) -> float:
        """How far two *computed* minimisers of one party are apart when `changed` gradients differ:
        2 for a replaced record, 1 for one switched off; before rounding."""
        moved = changed * self.steepness / min(facts.records) + 2 * self.required_gradient(facts)
        return moved / self.regularisation * (1 + 1e-9)  # double-precision steps after the solver

    def steps(self, release: Release, facts: Facts, privacy: Privacy) -> Iterator[float]:
        """So fine that rounding adds about a thousandth to the sensitivity, unless the sum of all
        models needs coarser steps to fit 32 bits."""
        fine = self.distance(facts, 1) / (1024 * math.sqrt(self.dimension))
        coarse = 8 * self.radius * facts.parties / 2**31
        if fine >= coarse:
            yield 2.0 ** math.floor(math.log2(fine))
        else:
            yield 2.0 ** math.ceil(math.log2(coarse))

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        if self.problem.loss == "squares" and not facts.exact_sizes:
            raise InvalidInput(
                "squares under nominal sizes: the gradients at a minimiser are bounded only where "
                "the number of records is exact and public; use exact sizes, or gradient "
                "perturbation"
            )
        p = self.dimension

        def far(changed: int) -> Distance:
            moved = self.distance(facts, changed)
            return Distance(
                l1=math.sqrt(p) * moved + p * step,
                l2=moved + math.sqrt(p) * step,
                linf=moved + step,
            )

        switched = far(1)
        return Sensitivity(Unit.RECORD, far(2), switched, None if facts.exact_sizes else switched)

    def sum_bound(self, release: Release, facts: Facts, privacy: Privacy) -> float:
        return 1.01 * self.radius * facts.parties

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, None]:
        """The minimiser on the grid; not valid where the public tolerance was missed."""
        features, labels = raw
        problem, required = self.problem, self.required_gradient(facts)
        with jax.enable_x64(True):
            nominal = float(min(facts.records))
            count = jnp.sum(mask).astype(np.float64) if facts.exact_sizes else nominal
            solution = solver.minimise(
                problem.function,
                features,
                labels,
                mask,
                count,
                self.regularisation,
                problem.shape(self.features),
                required,
                crowding=1.0 if facts.exact_sizes else 2 * max(facts.records) / nominal,
            )
            valid = solution.certified <= required
            point = jnp.where(valid, solution.parameters, 0.0)
            size = jnp.sqrt(jnp.sum(point**2))
            # Projection onto the ball that holds every minimiser moves nobody further apart.
            point = point * jnp.minimum(1.0, self.radius / jnp.maximum(size, 1e-30))
            steps = jnp.round(point.reshape(-1) / step).astype(np.int32)
        bound = self.sensitivity(facts, privacy, step)
        return Contribution(steps, step, bound, valid, maker=_BOUNDED_ONLY), None
