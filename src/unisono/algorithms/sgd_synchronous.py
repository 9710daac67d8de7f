"""SGD2 (source 004, INVENTORY 2.7): T rounds of noisy full gradients, projected onto a ball.

    G_t     = sum_j (sum over S_j of clip_L(grad l(θ_t; d)) + noise_j)  +  n Δ θ_t
    θ_{t+1} = Π_C(θ_t - η_t G_t),        C the ball of radius R, |C| = 2 R its diameter

The loss is summed, not averaged, over the n records, as in the source. Replace-one sensitivity of a
message is 2 L, so σ = 2 L sqrt(T) / μ*(ε, δ) (E004-7; the source leaves σ open and its sketch
is short by constants). `LOCAL` is the protocol as published: every party adds σ, the sum has m σ².
Under a secure sum the total is σ² m / h: sqrt(m) less noise for the same guarantee.

Step sizes (p parameters, V the variance of the noise in a coordinate of the sum, L' = L + Δ R):

    convex (Δ = 0)           η   = |C| / sqrt(T (n² L'² + p V)),  plain average of the iterates
    strongly convex (Δ > 0)  η_t = 2 / (n Δ (t + 1)), t = 1, ...,  average with weights t (E004-9)

Δ is the regularisation: its gradient is added after the noise, which costs nothing.
"""

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp

from unisono.algorithms.descent import choose_grid
from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.defaults import RELATION
from unisono.core.events import Event, Gaussian, positive
from unisono.core.trust import Relation, Trust
from unisono.core.values import Contribution, clipped_sum, sum_sensitivity
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import calibrate
from unisono.models.losses import loss_named


@dataclass(frozen=True)
class Settings:
    """What the parties agree on; `strong_convexity` = 0 chooses the convex regime.

    `lipschitz` is the L to which every record's gradient is clipped.
    """

    epsilon: float
    delta: float
    loss: str = "logistic"
    classes: int = 2
    rounds: int = 100
    lipschitz: float = 1.0
    radius: float = 5.0
    strong_convexity: float = 0.0
    relation: Relation = RELATION

    def __post_init__(self) -> None:
        positive(
            epsilon=self.epsilon, delta=self.delta, rounds=self.rounds, lipschitz=self.lipschitz,
            radius=self.radius,
        )  # fmt: skip
        loss_named(self.loss)
        if self.delta >= 1:
            raise InvalidInput(f"delta = {self.delta!r} lies outside (0, 1): use Gaussian's delta")
        if not (math.isfinite(self.strong_convexity) and self.strong_convexity >= 0):
            raise InvalidInput(
                f"strong_convexity = {self.strong_convexity!r} is not a number of at least 0: "
                "use 0 for the convex step sizes"
            )

    @property
    def diameter(self) -> float:
        return 2 * self.radius

    @property
    def steepness(self) -> float:
        """L': the largest gradient of one record's loss with its regulariser on the ball."""
        return self.lipschitz + self.strong_convexity * self.radius

    def shape(self, features: int) -> tuple[int, ...]:
        """The shape of the parameters."""
        return (features, self.classes) if self.loss == "multinomial" else (features,)


class State(NamedTuple):
    """The server's: parameters, (weighted) average of the iterates, round."""

    parameters: Any
    average: Any
    round: Any


def noise_variance(event: Event, facts: Facts, trust: Trust) -> float:
    """V: variance of one coordinate of the noise in the sum, if all parties survive."""
    if not isinstance(event.noise, Gaussian):
        raise InvalidInput(f"{type(event.noise).__name__} noise has no variance planned for here")
    places = {
        Trust.LOCAL: facts.parties,
        Trust.SECURE_SUM: facts.parties / facts.honest,
        Trust.TRUSTED_SERVER: 1,
    }
    return event.noise.std**2 * places[trust]


def convex_step(settings: Settings, facts: Facts, variance: float) -> float:
    """η = |C| / sqrt(T (n² L'² + p V))."""
    n, p = sum(facts.records), math.prod(settings.shape(facts.features))
    square = (n * settings.steepness) ** 2 + p * variance
    return settings.diameter / math.sqrt(settings.rounds * square)


def project(parameters: Any, radius: float) -> Any:
    """Onto the ball of this radius about the origin."""
    size = jnp.sqrt(jnp.sum(parameters**2))
    return parameters * jnp.minimum(1.0, radius / jnp.maximum(size, 1e-30))


def sgd_synchronous(settings: Settings, trust: Trust = Trust.LOCAL) -> Algorithm:
    """SGD2 for one trust; `LOCAL` is the protocol as published, all three are offered.

    The trust is an argument because the convex step size depends on the noise in the sum.
    """
    loss = loss_named(settings.loss)

    def grid(facts: Facts, trust: Trust) -> float:
        p = math.prod(settings.shape(facts.features))
        return choose_grid(settings.lipschitz, p, sum(facts.records))

    @lru_cache(maxsize=16)
    def event(facts: Facts, trust: Trust) -> Event:
        p, step = math.prod(settings.shape(facts.features)), grid(facts, trust)
        bound = sum_sensitivity(
            settings.lipschitz, step, p, hides_presence=not facts.exact_sizes
        )  # fmt: skip
        return calibrate(
            bound, settings.relation, settings.epsilon, settings.delta,
            count=facts.attempts(settings.rounds),
            dimension=p, grid=step, shares=facts.honest if trust is Trust.SECURE_SUM else 1,
        )  # fmt: skip

    class Server(NamedTuple):
        """`State` and the public numbers that its steps need."""

        state: State
        records: Any
        step: Any

    def init(facts: Facts) -> tuple[Server, None]:
        zero = jnp.zeros(settings.shape(facts.features), jnp.float32)
        step = convex_step(settings, facts, noise_variance(event(facts, trust), facts, trust))
        n = jnp.float32(sum(facts.records))
        return Server(State(zero, zero, jnp.int32(0)), n, jnp.float32(step)), None

    def local(
        facts: Facts, public: Any, party: None, data: Any, mask: Any
    ) -> tuple[None, Contribution]:
        features, labels = data
        rows = loss.gradients(public, features, labels).reshape(len(features), -1)
        return party, clipped_sum(
            rows, settings.lipschitz, grid(facts, trust), mask,
            hides_presence=not facts.exact_sizes,
        )  # fmt: skip

    def merge(server: Server, aggregate: Aggregate) -> Server:
        (parameters, average, number), n, step = server
        # Dropouts: the survivors' gradient, scaled to all n records.
        total = aggregate.total.reshape(parameters.shape) * (n / aggregate.records)
        gradient = total + n * settings.strong_convexity * parameters
        weight = 1.0 / (number + 1)
        if settings.strong_convexity:
            step = 2.0 / (n * settings.strong_convexity * (number + 2))
            weight = 2.0 / (number + 2)
        average = average + weight * (parameters - average)
        after = project(parameters - step * gradient, settings.radius)
        return Server(State(after, average, number + 1), n, server.step)

    return Algorithm(
        name="sgd-synchronous",
        settings={**asdict(settings), "planned_trust": str(trust)},
        trusts=frozenset({trust}),
        combine="sum",
        rounds=settings.rounds,
        grid=grid,
        event=event,
        init=init,
        ask=lambda server: server.state.parameters,
        local=local,
        settle=lambda party, accepted: party,
        merge=merge,
        result=lambda server: server.state.average,
        reach=lambda facts: 1.01 * settings.lipschitz * sum(facts.records),
    )
