"""Gradient perturbation (source 000, INVENTORY 2.3): T noisy full-gradient rounds.

    g_t     = sum over all parties and records of clip_C(grad l(θ_t; record))  +  N(0, σ² I)
    θ_{t+1} = θ_t - η (g_t / n + λ θ_t)

The regulariser is added after the noise. Every iterate may be public: the T releases
compose exactly as one Gaussian with μ = sqrt(T) Δ / σ, so σ = Δ sqrt(T) / μ*(ε, δ) (E000-9;
the slides' σ is too small for large ε). The prefix up to round t costs sqrt(t/T) μ (E000-10).
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.events import Event, positive
from unisono.core.trust import Relation, Trust
from unisono.core.values import Contribution, clipped_sum, sum_sensitivity
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import calibrate
from unisono.models.losses import logistic_gradients


@dataclass(frozen=True)
class Settings:
    """What the parties agree on; `epsilon` and `delta` hold for the whole run."""

    epsilon: float
    delta: float
    rounds: int = 100
    clip: float = 1.0
    learning_rate: float = 4.0
    regularisation: float = 1e-3
    relation: Relation = Relation.REPLACE_ONE

    def __post_init__(self) -> None:
        positive(
            epsilon=self.epsilon, delta=self.delta, rounds=self.rounds, clip=self.clip,
            learning_rate=self.learning_rate,
        )  # fmt: skip
        if self.delta >= 1 or self.regularisation < 0:
            raise InvalidInput(
                f"delta = {self.delta!r}, regularisation = {self.regularisation!r}: delta lies "
                "in (0, 1) and regularisation is not negative"
            )


class State(NamedTuple):
    """The server's: parameters (d,)."""

    parameters: Any


def choose_grid(clip: float, dimension: int) -> float:
    """A power of two so fine that rounding adds less than a thousandth to the sensitivity."""
    return 2.0 ** math.floor(math.log2(clip / (512 * math.sqrt(dimension))))


def gradient_perturbation(settings: Settings) -> Algorithm:
    """The algorithm for logistic loss, with noise calibrated exactly to the settings."""

    def grid(facts: Facts, trust: Trust) -> float:
        return choose_grid(settings.clip, facts.features)

    def event(facts: Facts, trust: Trust) -> Event:
        sensitivity = sum_sensitivity(
            settings.clip, grid(facts, trust), facts.features, hides_presence=not facts.exact_sizes
        )
        return calibrate(
            sensitivity, settings.relation, settings.epsilon, settings.delta,
            count=settings.rounds, dimension=facts.features, grid=grid(facts, trust),
            shares=facts.honest if trust is Trust.SECURE_SUM else 1,
        )  # fmt: skip

    def init(facts: Facts) -> tuple[State, None]:
        return State(jnp.zeros(facts.features, jnp.float32)), None

    def ask(state: State) -> Any:
        return state.parameters

    def local(public: Any, party: None, data: Any, mask: Any) -> tuple[None, Contribution]:
        features, labels = data
        rows = logistic_gradients(public, features, labels)
        step = choose_grid(settings.clip, features.shape[-1])
        return party, clipped_sum(rows, settings.clip, step, mask)

    def settle(party: None, accepted: Any) -> None:
        return party

    def merge(state: State, aggregate: Aggregate) -> State:
        gradient = aggregate.total / aggregate.records
        gradient = gradient + settings.regularisation * state.parameters
        return State(state.parameters - settings.learning_rate * gradient)

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
        result=ask,
    )
