"""Gradient perturbation (source 000, INVENTORY 2.3): T noisy full-gradient rounds.

    g_t     = sum over all parties and records of clip_C(grad l(θ_t; record))  +  N(0, σ² I)
    v_{t+1} = m v_t + g_t / n + λ θ_t
    θ_{t+1} = θ_t - η v_{t+1}

The regulariser is added after the noise, and momentum and averaging of the last iterates are
post-processing. Every iterate may be public: the T releases compose exactly as one Gaussian with
μ = sqrt(T) Δ / σ, so σ = Δ sqrt(T) / μ*(ε, δ) (E000-9; the slides' σ is too small for large ε).
The prefix up to round t costs sqrt(t/T) μ, by `prefix_epsilon` (E000-10).
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from unisono.accounting import gaussian
from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.events import Event, positive
from unisono.core.trust import Relation, Trust
from unisono.core.values import Contribution, clipped_sum, sum_sensitivity
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import calibrate
from unisono.models.losses import loss_named


@dataclass(frozen=True)
class Settings:
    """What the parties agree on; `epsilon` and `delta` hold for the whole run.

    `averaged` is the last part of the rounds whose iterates are averaged; 0 takes the last one.
    """

    epsilon: float
    delta: float
    loss: str = "logistic"
    classes: int = 2
    rounds: int = 100
    clip: float = 1.0
    learning_rate: float = 4.0
    momentum: float = 0.0
    averaged: float = 0.0
    regularisation: float = 1e-3
    relation: Relation = Relation.REPLACE_ONE

    def __post_init__(self) -> None:
        positive(
            epsilon=self.epsilon, delta=self.delta, rounds=self.rounds, clip=self.clip,
            learning_rate=self.learning_rate,
        )  # fmt: skip
        loss_named(self.loss)
        if self.delta >= 1 or self.regularisation < 0:
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


def choose_grid(clip: float, dimension: int, records: int) -> float:
    """A power of two so fine that rounding adds at most a thousandth to the sensitivity, unless
    the sum of all records needs coarser steps to fit 32 bits."""
    fine = clip / (512 * math.sqrt(dimension))
    coarse = 8 * clip * records / 2**31
    return (
        2.0 ** math.floor(math.log2(fine))
        if fine >= coarse
        else 2.0 ** math.ceil(math.log2(coarse))
    )


def prefix_epsilon(settings: Settings, rounds: int) -> float:
    """Epsilon of the first `rounds` iterates at the same delta (corollary of 000, E000-10)."""
    mu = gaussian.mu_for(settings.epsilon, settings.delta) * math.sqrt(rounds / settings.rounds)
    return gaussian.epsilon(settings.delta, mu)


def gradient_perturbation(settings: Settings) -> Algorithm:
    """The algorithm, with noise calibrated exactly to the settings."""
    loss = loss_named(settings.loss)
    late = int(settings.rounds * (1 - settings.averaged))

    def dimension(facts: Facts) -> int:
        return math.prod(settings.shape(facts.features))

    def grid(facts: Facts, trust: Trust) -> float:
        return choose_grid(settings.clip, dimension(facts), sum(facts.records))

    def event(facts: Facts, trust: Trust) -> Event:
        sensitivity = sum_sensitivity(
            settings.clip, grid(facts, trust), dimension(facts),
            hides_presence=not facts.exact_sizes,
        )  # fmt: skip
        return calibrate(
            sensitivity, settings.relation, settings.epsilon, settings.delta,
            count=settings.rounds, dimension=dimension(facts), grid=grid(facts, trust),
            shares=facts.honest if trust is Trust.SECURE_SUM else 1,
        )  # fmt: skip

    def init(facts: Facts) -> tuple[State, None]:
        zero = jnp.zeros(settings.shape(facts.features), jnp.float32)
        return State(zero, zero, zero, jnp.int32(0)), None

    def ask(state: State) -> Any:
        return state.parameters

    def local(
        facts: Facts, public: Any, party: None, data: Any, mask: Any
    ) -> tuple[None, Contribution]:
        features, labels = data
        rows = loss.gradients(public, features, labels).reshape(len(features), -1)
        step = choose_grid(settings.clip, dimension(facts), sum(facts.records))
        return party, clipped_sum(
            rows, settings.clip, step, mask, hides_presence=not facts.exact_sizes
        )

    def settle(party: None, accepted: Any) -> None:
        return party

    def merge(state: State, aggregate: Aggregate) -> State:
        gradient = aggregate.total.reshape(state.parameters.shape) / aggregate.records
        gradient = gradient + settings.regularisation * state.parameters
        velocity = settings.momentum * state.velocity + gradient
        parameters = state.parameters - settings.learning_rate * velocity
        weight = jnp.where(state.round >= late, 1.0 / (state.round - late + 1), 0.0)
        average = state.average + weight * (parameters - state.average)
        return State(parameters, velocity, average, state.round + 1)

    def result(state: State) -> Any:
        return state.average if settings.averaged else state.parameters

    return Algorithm(
        name="gradient-perturbation",
        settings=asdict(settings),
        trusts=frozenset(Trust),
        combine="sum",
        rounds=settings.rounds,
        grid=grid,
        event=event,
        init=init,
        ask=ask,
        local=local,
        settle=settle,
        merge=merge,
        result=result,
        reach=lambda facts: 1.01 * settings.clip * sum(facts.records),
    )
