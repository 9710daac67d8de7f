"""The minimiser of a party's own regularised loss, on the integer grid.

    θ_j  = argmin (1/n_j) sum_i l(θ; x_i, y_i) + (λ/2) ||θ||²      to τ_j = tolerance G / n_j
    sent = round(v_j θ_j),       v_j = n_j / n_(1) (`by_size`) or 1

Sensitivity of the *sum* over parties, for n_(1) the smallest party, G the largest gradient of one
record, γ the quantization step and p parameters:

    replace-one   Δ2 = 2 G (1 + tolerance) / (n_(1) λ) + sqrt(p) γ
    zero-out      Δ2 =   G (1 + 2 tolerance) / (n_(1) λ) + sqrt(p) γ         Δ1 <= sqrt(p) Δ2

Proof. J of party j is λ-strongly convex, so λ ||θ1* - θ2*|| <= ||grad J1(θ2*)|| =
||grad (J1 - J2)(θ2*)||, which is at most 2 G / n_j when a record is replaced and G / n_j when it is
switched off, n_j being public and unchanged (Chaudhuri, Monteleoni and Sarwate 2011). Each computed
point is within τ_j/λ of its minimiser, certified in double precision (`solver`). So the computed
θ_j moves by at most (2 G + 2 tolerance G) / (n_j λ). Times n_j / n_(1) that is the same for every
party; times 1 it is largest for the smallest party. Rounding, after the weight, moves each
coordinate by at most γ/2 on either side. A party that misses τ_j is a dropout. Where sizes are
nominal, n_j is the agreed one whatever the party holds, and add-or-remove equals zero-out.

In other units a party sends n_j θ_j, which one record moves by 2 G (1 + tolerance) / λ; a public
factor of 1 / n_(1) makes the events of equal parties the same for both weights.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.algorithm import Facts, SumTerms
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Distance, Sensitivity, positive
from unisono.core.trust import Unit
from unisono.core.values import _BOUNDED_ONLY, Contribution
from unisono.errors import InvalidInput
from unisono.problems.linear import LinearLoss
from unisono.releases import solver
from unisono.releases.release import Release, terms_of


@dataclass(frozen=True)
class Minimiser:
    """See the module. `raw`: rows and labels. `tolerance` is public: the solver must bring the
    gradient below tolerance * G / n_j, which adds that fraction to the sensitivity. `size` is n_j,
    which the engine names (`of_party`); it may be left out where all parties are of one size."""

    problem: LinearLoss
    features: int
    regularisation: float
    tolerance: float = 1e-3
    by_size: bool = True
    size: Any = None
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

    def of_party(self, size: Any) -> "Minimiser":
        """The bound at a party of this public size."""
        return replace(self, size=size)

    def required_gradient(self, size: Any) -> Any:
        """τ_j, the public tolerance of a party of this size."""
        return self.tolerance * self.steepness / size

    def total_weight(self, facts: Facts) -> float:
        """sum_j v_j."""
        return sum(facts.records) / min(facts.records) if self.by_size else float(facts.parties)

    def distance(self, facts: Facts, changed: int) -> float:
        """How far two *computed* minimisers of one party are apart, times its weight, when
        `changed` gradients differ: 2 for a replaced record, 1 for one switched off; before
        rounding."""
        smallest = min(facts.records)
        moved = changed * self.steepness / smallest + 2 * self.required_gradient(smallest)
        return moved / self.regularisation * (1 + 1e-9)  # double-precision steps after the solver

    def steps(self, release: Release, facts: Facts, privacy: Privacy) -> Iterator[float]:
        """So fine that rounding adds about a thousandth to the sensitivity, unless the sum of all
        models needs coarser steps to fit 32 bits."""
        fine = self.distance(facts, 1) / (1024 * math.sqrt(self.dimension))
        coarse = 8 * self.radius * self.total_weight(facts) / 2**31
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
        if self.problem.loss == "multinomial" and not facts.exact_sizes:
            raise InvalidInput(
                "several classes under nominal sizes: a party with far more records than agreed "
                "may miss the solver's tolerance, and whether it answers would depend on one "
                "record; use exact sizes, or gradient perturbation"
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
        return 1.01 * self.radius * self.total_weight(facts)

    def terms(self, facts: Facts, privacy: Privacy, step: float) -> SumTerms:
        """v_j points of the ball that holds every minimiser; rounding moves each number by half a
        step, once for v_j >= 1."""
        smallest = min(facts.records)
        weights = [n / smallest if self.by_size else 1.0 for n in facts.records]
        rounded = math.sqrt(self.dimension) * step
        return terms_of(weights, Distance(l2=self.radius * (1 + 1e-6) + rounded), step)

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, None]:
        """The weighted minimiser on the grid; not valid where the public tolerance was missed."""
        features, labels = raw
        problem, smallest, largest = self.problem, min(facts.records), max(facts.records)
        if self.size is None and smallest != largest:
            raise InvalidInput(
                f"parties of {smallest} to {largest} records: a minimiser divides by its party's "
                "public size, which was not named; say of_party(size)"
            )
        with jax.enable_x64(True):
            count = jnp.asarray(smallest if self.size is None else self.size, np.float64)
            required = self.required_gradient(count)
            solution = solver.minimise(
                problem.function,
                features,
                labels,
                mask,
                count,
                self.regularisation,
                problem.shape(self.features),
                self.required_gradient(largest),
                crowding=1.0 if facts.exact_sizes else 2 * largest / smallest,
                enough=required,
            )
            valid = solution.certified <= required
            point = jnp.where(valid, solution.parameters, 0.0)
            size = jnp.sqrt(jnp.sum(point**2))
            # Projection onto the ball that holds every minimiser moves nobody further apart.
            point = point * jnp.minimum(1.0, self.radius / jnp.maximum(size, 1e-30))
            weight = count / smallest if self.by_size else 1.0
            steps = jnp.round(weight * point.reshape(-1) / step).astype(np.int32)
        bound = self.sensitivity(facts, privacy, step)
        return Contribution(steps, step, bound, valid, maker=_BOUNDED_ONLY), None
