"""DP-SGD for convex losses: secret Poisson batches and a secure sum (INVENTORY 2.6 (d)).

The redesign of SGD1 that needs no hidden order: in every round each party tosses a secret coin of
probability q for each of its own records,

    g_t     = sum over chosen records of clip_C(grad l(θ_t; record))  +  N(0, σ² I)
    v_{t+1} = m v_t + g_t / (q n) + λ θ_t,       θ_{t+1} = θ_t - η v_{t+1}

and only the noisy sum is opened. Nobody, the coordinator included, knows who took part, so the
amplification by sampling holds against the server and every other party: T releases of a
Poisson-sampled Gaussian, accounted by a certified privacy loss distribution. The divisor is the
*expected* batch, never its secret size. Momentum, averaging and the regulariser are
post-processing. `LOCAL` is valid too (a party's coins are its own), with m times the variance.
"""

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp

from unisono.algorithms.gradient_perturbation import choose_grid
from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.events import Event, Poisson, positive
from unisono.core.trust import Relation, Trust
from unisono.core.values import Contribution, clipped_sum, sum_sensitivity
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import calibrate
from unisono.models.losses import loss_named


@dataclass(frozen=True)
class Settings:
    """What the parties agree on; `epsilon` and `delta` hold for the whole run.

    `rate` is the probability with which a record takes part in a round; `averaged` the last part
    of the rounds whose iterates are averaged, 0 takes the last one.
    """

    epsilon: float
    delta: float
    loss: str = "logistic"
    classes: int = 2
    rounds: int = 100
    rate: float = 0.1
    clip: float = 1.0
    learning_rate: float = 1.0
    momentum: float = 0.9
    averaged: float = 0.5
    regularisation: float = 1e-3
    relation: Relation = Relation.REPLACE_ONE

    def __post_init__(self) -> None:
        positive(
            epsilon=self.epsilon, delta=self.delta, rounds=self.rounds, clip=self.clip,
            learning_rate=self.learning_rate,
        )  # fmt: skip
        loss_named(self.loss)
        Poisson(self.rate)
        if self.delta >= 1 or not (math.isfinite(self.regularisation) and self.regularisation >= 0):
            raise InvalidInput(
                f"delta = {self.delta!r}, regularisation = {self.regularisation!r}: delta lies "
                "in (0, 1) and regularisation is not negative"
            )
        if not (0 <= self.momentum < 1 and 0 <= self.averaged <= 1):
            raise InvalidInput(
                f"momentum = {self.momentum!r} must lie in [0, 1) and averaged = {self.averaged!r} "
                "in [0, 1]"
            )

    def shape(self, features: int) -> tuple[int, ...]:
        """The shape of the parameters."""
        return (features, self.classes) if self.loss == "multinomial" else (features,)


class State(NamedTuple):
    """The server's: parameters, velocity, running average of late iterates, round."""

    parameters: Any
    velocity: Any
    average: Any
    round: Any


def dp_sgd_convex(settings: Settings) -> Algorithm:
    """The algorithm, with noise calibrated by its privacy loss distribution; every trust."""
    loss = loss_named(settings.loss)
    sampler = Poisson(settings.rate)
    late = int(settings.rounds * (1 - settings.averaged))

    def grid(facts: Facts, trust: Trust) -> float:
        p = math.prod(settings.shape(facts.features))
        return choose_grid(settings.clip, p, sum(facts.records))

    @lru_cache(maxsize=16)
    def event(facts: Facts, trust: Trust) -> Event:
        p, step = math.prod(settings.shape(facts.features)), grid(facts, trust)
        bound = sum_sensitivity(settings.clip, step, p, hides_presence=not facts.exact_sizes)
        return calibrate(
            bound, settings.relation, settings.epsilon, settings.delta, count=settings.rounds,
            sampler=sampler, dimension=p, grid=step,
            shares=facts.honest if trust is Trust.SECURE_SUM else 1,
        )  # fmt: skip

    def init(facts: Facts) -> tuple[State, None]:
        zero = jnp.zeros(settings.shape(facts.features), jnp.float32)
        return State(zero, zero, zero, jnp.int32(0)), None

    def local(
        facts: Facts, public: Any, party: None, data: Any, mask: Any
    ) -> tuple[None, Contribution]:
        features, labels = data
        rows = loss.gradients(public, features, labels).reshape(len(features), -1)
        step = grid(facts, Trust.SECURE_SUM)
        return party, clipped_sum(
            rows, settings.clip, step, mask, hides_presence=not facts.exact_sizes
        )

    def merge(state: State, aggregate: Aggregate) -> State:
        batch = settings.rate * aggregate.records
        gradient = aggregate.total.reshape(state.parameters.shape) / batch
        gradient = gradient + settings.regularisation * state.parameters
        velocity = settings.momentum * state.velocity + gradient
        parameters = state.parameters - settings.learning_rate * velocity
        weight = jnp.where(state.round >= late, 1.0 / (state.round - late + 1), 0.0)
        average = state.average + weight * (parameters - state.average)
        return State(parameters, velocity, average, state.round + 1)

    return Algorithm(
        name="dp-sgd-convex",
        settings=asdict(settings),
        trusts=frozenset(Trust),
        combine="sum",
        rounds=settings.rounds,
        grid=grid,
        event=event,
        init=init,
        ask=lambda state: state.parameters,
        local=local,
        settle=lambda party, accepted: party,
        merge=merge,
        result=lambda state: state.average if settings.averaged else state.parameters,
        reach=lambda facts: 1.01 * settings.clip * sum(facts.records),
        sampler=sampler,
    )
