"""Objective perturbation with an approximate minimum: noise inside the objective.

    θ^  = argmin  sum_i l(θ; x_i, y_i) + (n λ / 2) ||θ||² + b·θ,      b ~ N(0, σ² I)
    out = round(θ~) + N(0, σ_out² I),   θ~ a computed approximation of θ^     (Iyengar et al. 2019)

for losses of a linear score whose slope has one sign per record (logistic, Huber SVM), with
slope at most L and curvature at most β. Every party does this with its own records (`LOCAL`); the
average of the results is post-processing. Noise inside one objective cannot come in shares of a
secure sum, so several parties are not pooled.

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
is within sqrt(p) γ_b / (2 n λ) + τ / λ + sqrt(p) γ / 2 of θ^ (b is drawn rounded to a grid γ_b, the
gradient of the mean objective is certified below τ, the result is rounded to γ), so
neighbours are twice that apart.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from unisono.accounting import gaussian
from unisono.algorithms.agreement import Agreement, require_fitting
from unisono.core.algorithm import Facts, cost_per_viewer
from unisono.core.certificate import certify
from unisono.core.defaults import RELATION
from unisono.core.events import Distance, Event, Gaussian, Sensitivity, positive
from unisono.core.grant import Grant
from unisono.core.ledger import Ledger
from unisono.core.release import noise_steps, release
from unisono.core.study import Party, Result, require_same_kind
from unisono.core.transcript import EVERYONE, Transcript
from unisono.core.trust import Relation, Trust, Unit
from unisono.core.values import _BOUNDED_ONLY, Contribution
from unisono.errors import InvalidInput, UnisonoError
from unisono.problems.losses import loss_named
from unisono.releases import solver

# Part of mu² that pays for the small noise on the output, and the finest parts of both noises.
_OUTPUT_SHARE = 0.01
_FINENESS = 2.0**-16


@dataclass(frozen=True)
class Settings:
    """What a party fixes; `regularisation` None lets ℓ = epsilon / 16, from public sizes.

    `tolerance` is public and relative: the solver must bring the gradient of the mean objective
    below tolerance * L / n.
    """

    epsilon: float
    delta: float
    loss: str = "logistic"
    regularisation: float | None = None
    tolerance: float = 1e-5
    relation: Relation = RELATION

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon, delta=self.delta, tolerance=self.tolerance)
        if self.regularisation is not None:
            positive(regularisation=self.regularisation)
        loss = loss_named(self.loss)
        if not loss.one_signed:
            raise InvalidInput(
                f"objective perturbation is proved for slopes of one sign (logistic, huber-svm), "
                f"not for {self.loss!r}: use gradient perturbation"
            )
        if self.delta >= 1:
            raise InvalidInput(f"delta = {self.delta!r} lies outside (0, 1)")


@dataclass(frozen=True)
class Plan:
    """Both events of one party's release and the numbers behind them, from public facts."""

    objective: Event
    output: Event
    regularisation: float
    tolerance: float
    noise_grid: float
    grid: float


def plan(settings: Settings, facts: Facts) -> Plan:
    """Calibrate: e^ℓ dG(ε - 2ℓ; μ) = δ, one hundredth of μ² for the output."""
    if not facts.exact_sizes:
        raise InvalidInput("objective perturbation divides by the record count: use exact sizes")
    loss = loss_named(settings.loss)
    n, p = min(facts.records), facts.features
    ridge = settings.regularisation
    if ridge is None:
        ridge = loss.smoothness / (n * math.expm1(settings.epsilon / 16))
    bend = math.log1p(loss.smoothness * (1 + 1e-9) / (n * ridge)) * (1 + 1e-12)
    if 2 * bend >= settings.epsilon:
        needed = loss.smoothness / (n * math.expm1(settings.epsilon / 4))
        raise InvalidInput(
            f"regularisation = {ridge:g} with {n} records costs epsilon {2 * bend:.3g} by itself, "
            f"of {settings.epsilon:g}: use at least {needed:.3g}"
        )
    mu = gaussian.mu_for(settings.epsilon - 2 * bend, settings.delta * math.exp(-bend))
    mu *= 1 - 1e-9  # the roots behind curve and ledger agree to far better than this
    steep = loss.lipschitz * (1 + 1e-9)
    bound = Sensitivity(Unit.RECORD, Distance(l2=2 * steep), Distance(l2=steep))
    distance = bound.under(settings.relation).in_norm("l2")
    std = distance / (mu * math.sqrt(1 - _OUTPUT_SHARE))
    noise_grid = _power(std * _FINENESS)
    tolerance = settings.tolerance * loss.lipschitz / n
    exact = math.sqrt(p) * noise_grid / (2 * n * ridge) + tolerance / ridge
    grid = _power(exact / math.sqrt(p))
    apart = 2 * exact * (1 + 1e-9) + math.sqrt(p) * grid
    small = Sensitivity(Unit.RECORD, Distance(l2=apart), Distance(l2=apart))
    output = Event(Gaussian(apart / (mu * math.sqrt(_OUTPUT_SHARE))), small)
    return Plan(Event(Gaussian(std, slack=bend), bound), output, ridge, tolerance, noise_grid, grid)


def agreement(settings: Settings, facts: Facts) -> Agreement:
    """What the run costs each viewer: both events, seen by everyone."""
    planned = plan(settings, facts)
    first = cost_per_viewer(planned.objective, 1, facts, Trust.LOCAL)
    second = cost_per_viewer(planned.output, 1, facts, Trust.LOCAL)
    cost = {viewer: first[viewer] + second[viewer] for viewer in first}
    stated = {**asdict(settings), "regularisation": planned.regularisation}
    return Agreement("objective-perturbation", stated, facts, Trust.LOCAL, cost)


def run_objective_perturbation(
    settings: Settings, parties: Sequence[Party], facts: Facts
) -> Result:
    """Every party releases its own model; the value is their average, weighted by public sizes.

    Trust: LOCAL only. A party whose solver misses the public tolerance drops out (X-5).
    """
    agreed, planned = agreement(settings, facts), plan(settings, facts)
    require_same_kind(agreed, parties)  # type: ignore[arg-type]
    ledgers = [party.ledger for party in parties]
    purpose = f"study {agreed.hash[:16]}"
    grants = Ledger.authorize_all(ledgers, agreed.cost, 2, purpose)
    columns = [party.data.open(grant) for party, grant in zip(parties, grants, strict=True)]
    require_fitting(facts, columns)
    transcript, total, weight = Transcript(), np.zeros(facts.features), 0
    for party, grant, data in zip(parties, grants, columns, strict=True):
        contribution = perturbed_minimiser(settings, planned, grant, data, agreed.hash)
        if not contribution.valid:
            continue
        draw = grant.draw(1, agreed.hash.encode())
        released = release(draw, contribution, planned.output)
        party.ledger.dispatch(released)
        transcript.record(0, party.name, released.array, EVERYONE)
        total, weight = total + len(data[0]) * released.array, weight + len(data[0])
    if not weight:
        raise UnisonoError("every party's solver missed the public tolerance: raise regularisation")
    books = {party.name: party.ledger for party in parties}
    certificate = certify(agreed, books, ledgers[0].accountant)
    return Result((total / weight).astype(np.float32), certificate, transcript)


def perturbed_minimiser(
    settings: Settings, planned: Plan, grant: Grant, data: Any, public: str
) -> Contribution:
    """The minimiser of one party's perturbed objective on the grid, before the output noise."""
    features, labels = (np.asarray(column, np.float32) for column in data)
    n, p = features.shape
    key = grant.draw(0, public.encode()).take(planned.objective)
    exact = replace(planned.objective, noise=Gaussian(planned.objective.noise.std))  # type: ignore[union-attr]
    steps = noise_steps(key, exact, planned.noise_grid, (p,), 1)
    tilt = steps * (planned.noise_grid / n)
    with jax.enable_x64(True):
        point, certified = _solve(
            features, labels, tilt, loss=settings.loss, ridge=planned.regularisation,
            tolerance=planned.tolerance,
        )  # fmt: skip
        found, norm = np.asarray(point), float(np.asarray(certified))
    valid = norm <= planned.tolerance
    rounded = np.round(np.where(valid, found, 0.0) / planned.grid).astype(np.int64)
    bound = planned.output.sensitivity
    return Contribution(rounded, planned.grid, bound, valid, maker=_BOUNDED_ONLY)


@partial(jax.jit, static_argnames=("loss", "ridge", "tolerance"))
def _solve(
    features: Any, labels: Any, tilt: Any, *, loss: str, ridge: float, tolerance: float
) -> Any:
    n, p = features.shape
    mask = np.ones(n, bool)
    return solver.minimise(
        loss_named(loss), features, labels, mask, float(n), ridge, (p,), tolerance, tilt
    )


def _power(value: float) -> float:
    return 2.0 ** math.floor(math.log2(value))
