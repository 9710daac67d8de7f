"""Noisy gradient descent, as both full-batch and sampled algorithms share it.

    v_{t+1} = m v_t + g_t + λ θ_t,      θ_{t+1} = θ_t - η v_{t+1}

g_t is the noisy average gradient. Momentum m, the regulariser λ and averaging the last iterates
are post-processing of what was released.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from unisono.core.algorithm import Facts
from unisono.core.defaults import RELATION, RIDGE
from unisono.core.events import positive
from unisono.core.trust import Relation
from unisono.errors import InvalidInput
from unisono.models.losses import loss_named


@dataclass(frozen=True)
class DescentSettings:
    """What the parties agree on; `epsilon` and `delta` hold for the whole run.

    `averaged` is the last part of the rounds whose iterates are averaged; 0 takes the last one.
    """

    epsilon: float
    delta: float
    loss: str = "logistic"
    classes: int = 2
    rounds: int = 100
    clip: float = 1.0
    learning_rate: float = 1.0
    momentum: float = 0.0
    averaged: float = 0.0
    regularisation: float = RIDGE
    relation: Relation = RELATION

    def __post_init__(self) -> None:
        positive(
            epsilon=self.epsilon, delta=self.delta, rounds=self.rounds, clip=self.clip,
            learning_rate=self.learning_rate,
        )  # fmt: skip
        loss_named(self.loss)
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

    def dimension(self, facts: Facts) -> int:
        """How many parameters there are."""
        return math.prod(self.shape(facts.features))

    def grid(self, facts: Facts) -> float:
        """The grid of the clipped sums."""
        return choose_grid(self.clip, self.dimension(facts), sum(facts.records))


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
    if fine >= coarse:
        return 2.0 ** math.floor(math.log2(fine))
    return 2.0 ** math.ceil(math.log2(coarse))


def start(settings: DescentSettings, facts: Facts) -> State:
    """Descent begins at zero."""
    zero = jnp.zeros(settings.shape(facts.features), jnp.float32)
    return State(zero, zero, zero, jnp.int32(0))


def descend(settings: DescentSettings, state: State, gradient: Any) -> State:
    """One step along the noisy average gradient."""
    late = int(settings.rounds * (1 - settings.averaged))
    slope = gradient.reshape(state.parameters.shape) + settings.regularisation * state.parameters
    velocity = settings.momentum * state.velocity + slope
    parameters = state.parameters - settings.learning_rate * velocity
    weight = jnp.where(state.round >= late, 1.0 / (state.round - late + 1), 0.0)
    average = state.average + weight * (parameters - state.average)
    return State(parameters, velocity, average, state.round + 1)


def arrived(settings: DescentSettings, state: State) -> Any:
    """The model: the last iterate, or the average of the late ones."""
    return state.average if settings.averaged else state.parameters
