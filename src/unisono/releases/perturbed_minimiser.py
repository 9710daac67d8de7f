"""The minimiser of a party's perturbed objective: noise inside it, and a little on what comes out.

    θ^  = argmin  sum_i l(θ; x_i, y_i) + (n λ / 2) ||θ||² + b·θ,      b ~ N(0, σ² I)
    out = round(Π(θ~)) + N(0, σ_out² I),   θ~ a computed approximation of θ^  (Iyengar et al. 2019)

for losses of a linear score whose slope has one sign per record (logistic, Huber SVM), with slope
at most L and curvature at most β. Π projects onto a public ball.

Guarantee. With μ = L / σ and ℓ = log(1 + β / (n λ)), for every real ε and every event A
(dG is the exact Gaussian curve and F_μ(x) = Φ(Φ⁻¹(x) + μ) its power):

    zero-out      P_D(A) - e^ε P_D0(A) <= dG(ε - ℓ; μ)
    replace-one   P_D(A) <= e^ℓ F_2μ(P_D'(A)),  so  H_ε(P_D || P_D') <= e^ℓ dG(ε - ℓ; 2μ)

Proof. θ -> b_D(θ) = -(grad of the sum) is bi-Lipschitz, so θ^ has density φ_σ(b_D(θ)) det H_D(θ).
Let D hold one record z more than D0. H_D = H_D0 + (curvature) x xᵀ, so the determinants' ratio lies
in [1, 1 + β / (n λ)]. With b ~ N(0, σ² I) and grad l(θ; z) = ±a u, u a fixed unit vector
and a = a(θ) in [0, L] because the slope keeps its sign, the Gaussian part of the log ratio is
a²/2σ² + a Z/σ with Z standard normal: convex in a, so at most max(0, L²/2σ² + L Z/σ). Hence
H_ε(P_D0 || P_D) <= dG(ε; μ) for ε >= 0, and H_ε(P_D || P_D0) <= dG(ε - ℓ; μ) for ε >= ℓ. For ε <= 0
the duality H_ε(P || Q) = 1 - e^ε + e^ε H_-ε(Q || P), which dG satisfies with equality, gives
H_ε(P_D || P_D0) <= dG(ε; μ), and between 0 and ℓ it is at most its value dG(0; μ) at 0: the first
line. It says P_D(A) <= F_μ(e^ℓ P_D0(A)) and P_D0(A) <= F_μ(P_D'(A)); F_μ is concave with
F_μ(0) = 0, so P_D(A) <= e^ℓ F_μ(F_μ(P_D'(A))) = e^ℓ F_2μ(P_D'(A)). ∎ (The tight profile of Redberg,
Koskela and Wang 2023 without their factor 2, thanks to the constant sign.)

Both lines are dominated by a Gaussian event of slack ℓ, e^ℓ dG(ε - 2ℓ), which composes with
everything else in a ledger. Second, given θ^, the output is a Gaussian mechanism whose centre
is within sqrt(p) γ_b / (2 n λ) + τ / λ + sqrt(p) γ / 2 of Π(θ^) (b is drawn rounded to steps γ_b,
the gradient of the mean objective is certified below τ, Π moves no two points further apart, the
result is rounded to steps γ), so neighbours are twice that apart.
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
from unisono.releases.release import NOISE_FINENESS, Release, terms_of

# b is longer than this many standard deviations beyond sqrt(p) with probability below 1e-14; the
# ball then cuts the minimiser short, at no cost to anybody's privacy.
_FAR = 8.0


@dataclass(frozen=True)
class PerturbedMinimiser:
    """See the module. `raw`: the noise inside in steps of `noise_step`, and rows and labels.

    `tolerance` is public and relative: the solver must bring the gradient of the mean objective
    below tolerance * L / n_(1). `noise_step` is set by the price: without it nothing is computed.
    """

    problem: LinearLoss
    features: int
    regularisation: float
    tolerance: float = 1e-5
    noise_step: float = 0.0
    unit = Unit.RECORD
    whole = True
    batched = False
    in_graph = False
    pure = ""

    def __post_init__(self) -> None:
        positive(regularisation=self.regularisation, tolerance=self.tolerance)
        if not self.problem.function.one_signed:
            raise InvalidInput(
                f"objective perturbation is proved for slopes of one sign (logistic, huber-svm), "
                f"not for {self.problem.loss!r}: use gradient perturbation"
            )

    @property
    def dimension(self) -> int:
        return self.problem.parameters(self.features)

    # --------------------------------------------------------- the noise inside

    def slack(self, facts: Facts, privacy: Privacy) -> float:
        """ℓ: what one record's curvature tells by itself; refused where that is too much."""
        if not facts.exact_sizes:
            raise InvalidInput(
                "objective perturbation divides by the record count: use exact sizes"
            )
        smoothness, n = self.problem.function.smoothness, min(facts.records)
        bend = math.log1p(smoothness * (1 + 1e-9) / (n * self.regularisation)) * (1 + 1e-12)
        if 2 * bend >= privacy.epsilon:
            needed = smoothness / (n * math.expm1(privacy.epsilon / 4))
            raise InvalidInput(
                f"regularisation = {self.regularisation:g} with {n} records costs epsilon "
                f"{2 * bend:.3g} by itself, of {privacy.epsilon:g}: use at least {needed:.3g}"
            )
        return bend

    @property
    def inside(self) -> Sensitivity:
        """How far one record moves the gradient of the summed loss."""
        steep = self.problem.function.lipschitz * (1 + 1e-9)
        return Sensitivity(Unit.RECORD, Distance(l2=2 * steep), Distance(l2=steep))

    def with_noise(self, step: float) -> "PerturbedMinimiser":
        return replace(self, noise_step=step)

    # --------------------------------------------------------- what comes out

    def required_gradient(self, facts: Facts) -> float:
        """τ, the public tolerance."""
        return self.tolerance * self.problem.function.lipschitz / min(facts.records)

    def distance(self, facts: Facts) -> float:
        """How far the computed minimiser may be from the exact one, before rounding."""
        rounded = math.sqrt(self.dimension) * self.noise_step / (2 * min(facts.records))
        return (rounded + self.required_gradient(facts)) / self.regularisation

    def radius(self, facts: Facts) -> float:
        """Of the ball that what is released lies in: λ ||θ^|| <= L + ||b|| / n."""
        widest = self.noise_step / NOISE_FINENESS * 2  # at least one standard deviation of b
        length = widest * (math.sqrt(self.dimension) + _FAR)
        steep = self.problem.function.lipschitz + length / min(facts.records)
        return steep / self.regularisation

    def steps(self, release: Release, facts: Facts, privacy: Privacy) -> Iterator[float]:
        """As fine as the computed minimiser is exact, unless that would not fit 32 bits."""
        fine = 2.0 ** math.floor(math.log2(self.distance(facts) / math.sqrt(self.dimension)))
        coarse = 2.0 ** math.ceil(math.log2(1.25 * self.radius(facts) / 2**31))
        yield max(fine, coarse)

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        apart = 2 * self.distance(facts) * (1 + 1e-9) + math.sqrt(self.dimension) * step
        return Sensitivity(Unit.RECORD, Distance(l2=apart), Distance(l2=apart))

    def sum_bound(self, release: Release, facts: Facts, privacy: Privacy) -> float:
        return 1.01 * self.radius(facts)

    def terms(self, facts: Facts, privacy: Privacy, step: float) -> SumTerms:
        rounded = math.sqrt(self.dimension) * step
        length = self.radius(facts) * (1 + 1e-6) + rounded
        return terms_of([1.0] * facts.parties, Distance(l2=length), step)

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, None]:
        """The minimiser in quantized units; not valid where the public tolerance was missed."""
        noise, (features, labels) = raw
        positive(noise_step=self.noise_step)
        problem, required, radius = self.problem, self.required_gradient(facts), self.radius(facts)
        with jax.enable_x64(True):
            count = jnp.sum(mask).astype(np.float64)
            tilt = jnp.asarray(noise, np.float64) * (self.noise_step / count)
            solution = solver.minimise(
                problem.function,
                features,
                labels,
                mask,
                count,
                self.regularisation,
                problem.shape(self.features),
                required,
                tilt,
                gap=self.regularisation * radius**2 / 2,  # >= ||grad J(0)||² / 2λ >= J(0) - J*
            )
            valid = solution.certified <= required
            point = jnp.where(valid, solution.parameters, 0.0)
            size = jnp.sqrt(jnp.sum(point**2))
            point = point * jnp.minimum(1.0, radius / jnp.maximum(size, 1e-30))
            steps = jnp.round(point.reshape(-1) / step).astype(np.int32)
        bound = self.sensitivity(facts, privacy, step)
        return Contribution(steps, step, bound, valid, maker=_BOUNDED_ONLY), None
