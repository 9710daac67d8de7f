"""Output perturbation (source 000, INVENTORY 2.2): one noisy average of local minimisers.

    θ_j   = argmin (1/n_j) sum_i l(θ; x_i, y_i) + (λ/2) ||θ||²     at party j, to tolerance τ
    θ     = (1/m) (sum_j round(θ_j) + noise)                       one release

Sensitivity of the *sum* (its average over m parties has 1/m of it), for n_(1) the smallest party:

    replace-one   Δ2 = 2 G / (n_(1) λ) + 2 τ / λ + sqrt(p) γ       Δ1 = sqrt(p) (...) + p γ
    zero-out        Δ2 =   G / (n_(1) λ) + 2 τ / λ + sqrt(p) γ

Proof. J of one party is λ-strongly convex, so λ ||θ1* - θ2*|| <= ||grad J1(θ2*)|| =
||grad (J1 - J2)(θ2*)||, which is at most 2 G / n when a record is replaced (E000-6) and G / n when
it is switched off, n being public and unchanged. Each computed point is within τ/λ of its
minimiser, certified in double precision (`solver`), and rounding to the grid γ moves each
coordinate by at most γ/2 on either side. A party that misses τ is a dropout (X-5).
Where sizes are nominal, every party divides by n_(1) and add-or-remove equals zero-out.

Noise: Gaussian for (ε, δ) under every trust; for pure ε (δ = 0) the norm mechanism where one place
adds all of it, discrete Laplace shares against Δ1 under a secure sum (E000-8). The slides' iid
Laplace noise against Δ2 is `published_laplace`: its true cost, sqrt(p) ε, is what it is charged.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.algorithms import solver
from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.defaults import RELATION
from unisono.core.events import Distance, Event, Laplace, Sensitivity, positive
from unisono.core.trust import Relation, Trust, Unit
from unisono.core.values import _BOUNDED_ONLY, Contribution
from unisono.errors import InvalidInput
from unisono.mechanisms import gaussian, laplace, norm
from unisono.models.losses import Loss, loss_named


@dataclass(frozen=True)
class Settings:
    """What the parties agree on; `delta = 0` asks for pure epsilon.

    `tolerance` is public: the solver must bring the gradient below tolerance * G / n_(1), which
    adds that fraction to the sensitivity.
    """

    epsilon: float
    delta: float = 0.0
    loss: str = "logistic"
    classes: int = 2
    regularisation: float = field(kw_only=True)  # the sensitivity is in proportion to 1 / λ
    tolerance: float = 1e-3
    relation: Relation = RELATION

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon, regularisation=self.regularisation, tolerance=self.tolerance)
        loss_named(self.loss)
        if not 0 <= self.delta < 1:
            raise InvalidInput(
                f"delta = {self.delta!r} lies outside [0, 1): use 0 for pure epsilon"
            )
        if self.classes < 2:
            raise InvalidInput(f"classes = {self.classes!r}: there are at least two")

    @property
    def function(self) -> Loss:
        return loss_named(self.loss)

    @property
    def steepness(self) -> float:
        """G: the largest gradient of one record."""
        return solver.lipschitz(self.function, self.regularisation, self.classes)

    @property
    def reach(self) -> float:
        """No minimiser, nor its certified approximation, has a larger norm."""
        return solver.radius(self.function, self.regularisation, self.classes)

    def shape(self, features: int) -> tuple[int, ...]:
        """The shape of the parameters."""
        return (features, self.classes) if self.loss == "multinomial" else (features,)

    def required_gradient(self, facts: Facts) -> float:
        """τ, the public tolerance."""
        return self.tolerance * self.steepness / min(facts.records)


class State(NamedTuple):
    """The server's: the averaged model."""

    parameters: Any


def minimiser_distance(settings: Settings, facts: Facts, changed: int) -> float:
    """How far two *computed* minimisers of one party are apart when `changed` gradients differ:
    2 for a replaced record, 1 for one switched off; before rounding."""
    smallest, tolerance = min(facts.records), settings.required_gradient(facts)
    moved = changed * settings.steepness / smallest + 2 * tolerance
    return moved / settings.regularisation * (1 + 1e-9)  # double-precision steps after the solver


def sensitivity(settings: Settings, facts: Facts, grid: float) -> Sensitivity:
    """Sensitivity of the sum of rounded minimisers over all parties."""
    if settings.loss == "squares" and not facts.exact_sizes:
        raise InvalidInput(
            "squares under nominal sizes: the gradients at a minimiser are bounded only where the "
            "number of records is exact and public; use exact sizes, or gradient perturbation"
        )
    p = math.prod(settings.shape(facts.features))

    def distance(changed: int) -> Distance:
        moved = minimiser_distance(settings, facts, changed)
        return Distance(
            l1=math.sqrt(p) * moved + p * grid, l2=moved + math.sqrt(p) * grid, linf=moved + grid
        )

    switched = distance(1)
    return Sensitivity(Unit.RECORD, distance(2), switched, None if facts.exact_sizes else switched)


def choose_grid(settings: Settings, facts: Facts) -> float:
    """A power of two so fine that rounding adds about a thousandth to the sensitivity, unless the
    sum of all models needs coarser steps to fit 32 bits."""
    p = math.prod(settings.shape(facts.features))
    fine = minimiser_distance(settings, facts, 1) / (1024 * math.sqrt(p))
    coarse = 8 * settings.reach * facts.parties / 2**31
    if fine >= coarse:
        return 2.0 ** math.floor(math.log2(fine))
    return 2.0 ** math.ceil(math.log2(coarse))


def solve_locally(
    settings: Settings, facts: Facts, data: Any, mask: Any, grid: float
) -> Contribution:
    """One party's minimiser on the grid; not valid where the public tolerance was missed."""
    features, labels = data
    with jax.enable_x64(True):
        nominal = float(min(facts.records))
        count = jnp.sum(mask).astype(np.float64) if facts.exact_sizes else nominal
        required = settings.required_gradient(facts)
        solution = solver.minimise(
            settings.function, features, labels, mask, count, settings.regularisation,
            settings.shape(facts.features), required,
            crowding=1.0 if facts.exact_sizes else 2 * max(facts.records) / nominal,
        )  # fmt: skip
        valid = solution.certified <= required
        point = jnp.where(valid, solution.parameters, 0.0)
        size = jnp.sqrt(jnp.sum(point**2))
        # Projection onto the ball that holds every minimiser moves nobody further apart.
        point = point * jnp.minimum(1.0, settings.reach / jnp.maximum(size, 1e-30))
        steps = jnp.round(point.reshape(-1) / grid).astype(np.int32)
    return Contribution(steps, grid, sensitivity(settings, facts, grid), valid, maker=_BOUNDED_ONLY)


def output_perturbation(settings: Settings) -> Algorithm:
    """The algorithm: pure epsilon where delta is zero, else exactly calibrated Gaussian noise.

    Trusts: all. Pure epsilon in a secure sum needs `colluders >= 1` or all survivors' shares.
    """

    def event(facts: Facts, trust: Trust) -> Event:
        grid = choose_grid(settings, facts)
        bound = sensitivity(settings, facts, grid)
        relation, epsilon, delta = settings.relation, settings.epsilon, settings.delta
        p, count = math.prod(settings.shape(facts.features)), facts.attempts(1)
        if delta:
            shares = facts.honest if trust is Trust.SECURE_SUM else 1
            return gaussian.calibrate(
                bound, relation, epsilon, delta, count=count, dimension=p, shares=shares, grid=grid
            )
        if trust is Trust.SECURE_SUM:
            return laplace.calibrate(bound, relation, epsilon, count=count, dimension=p)
        return norm.calibrate(bound, relation, epsilon / count)

    return _algorithm("output-perturbation", settings, event, asdict(settings))


def published_laplace(settings: Settings, features: int) -> Algorithm:
    """The theorem of source 000 as printed: iid Laplace noise of scale Δ2 / epsilon.

    NOT private at `settings.epsilon` (E000-8): the true pure epsilon, about sqrt(p) times as much,
    is stated in the settings and charged to every ledger. For comparison only.
    """
    if settings.delta:
        raise InvalidInput("the published theorem is about pure epsilon: leave delta at 0")

    def event(facts: Facts, trust: Trust) -> Event:
        if facts.features != features:
            raise InvalidInput(
                f"the true epsilon was stated for {features} features, the study has "
                f"{facts.features}: build the algorithm for the study"
            )
        bound = sensitivity(settings, facts, choose_grid(settings, facts))
        scale = bound.under(settings.relation).in_norm("l2") / settings.epsilon
        return Event(Laplace(scale, math.prod(settings.shape(features))), bound)

    truth = math.sqrt(math.prod(settings.shape(features))) * settings.epsilon
    stated = {**asdict(settings), "features": features, "true_epsilon": truth}
    return _algorithm("output-perturbation-published-laplace", settings, event, stated)


def _algorithm(
    name: str, settings: Settings, event: Callable[[Facts, Trust], Event], stated: dict[str, Any]
) -> Algorithm:
    def init(facts: Facts) -> tuple[State, None]:
        return State(jnp.zeros(settings.shape(facts.features), jnp.float32)), None

    def local(
        facts: Facts, public: Any, party: None, data: Any, mask: Any
    ) -> tuple[None, Contribution]:
        return party, solve_locally(settings, facts, data, mask, choose_grid(settings, facts))

    def merge(state: State, aggregate: Aggregate) -> State:
        average = aggregate.total / jnp.maximum(aggregate.survivors, 1)
        return State(average.reshape(state.parameters.shape).astype(jnp.float32))

    return Algorithm(
        name=name,
        settings=stated,
        trusts=frozenset(Trust),
        combine="sum",
        rounds=1,
        grid=lambda facts, trust: choose_grid(settings, facts),
        event=event,
        init=init,
        ask=lambda state: state.parameters,
        local=local,
        settle=lambda party, accepted: party,
        merge=merge,
        result=lambda state: state.parameters,
        reach=lambda facts: 1.01 * settings.reach * facts.parties,
        whole=True,
    )
