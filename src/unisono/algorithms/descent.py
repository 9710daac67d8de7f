"""Noisy gradient descent, as full-batch and sampled algorithms share it.

    v_{t+1} = m v_t + g_t + λ θ_t,      θ_{t+1} = θ_t - η v_{t+1}

g_t is the noisy average gradient. Momentum m, the regulariser λ and averaging the last iterates
are post-processing of what was released.

The learning rate, where it is left out, follows a rule of public facts. With n records in all, p
parameters, sensitivity factor s (2 for replace-one, else 1), `copies` the variance of the noise in
the sum over the planned one, and β the smoothness of the loss,

    q = n μ / (s sqrt(p copies))
    η = min(1.95 (1 + m) / (β + λ),  a q (1 - m) / (C T))

q is how far the signal of all records outweighs the noise. η keeps heavy-ball descent stable for
β-smooth losses, and the noise that T rounds put into the parameters about `a` long. The constants
were set once, on a held-out quarter of Adult's *training* file (losses of classes) and on synthetic
planes (squares).
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax.numpy as jnp
from pydantic import Field

from unisono.accounting import gaussian
from unisono.core.algorithm import Facts
from unisono.core.defaults import RIDGE
from unisono.core.privacy import Privacy
from unisono.core.trust import Relation, Trust
from unisono.problems.linear import LinearLoss
from unisono.problems.losses import loss_named
from unisono.releases.algorithm import AlgorithmConfig
from unisono.releases.release import copies

Rounds = Annotated[int, Field(gt=0, le=1_000_000)]
# How long the noise in the parameters may become: the length of useful parameters differs.
NOISE_LENGTH = {"logistic": 36.0, "multinomial": 36.0, "huber-svm": 12.0, "squares": 0.3}


class DescentConfig(AlgorithmConfig):
    """What the parties agree on about the descent."""

    rounds: Rounds = Field(200, description="Noisy gradients in all; the budget covers them.")
    clipping_norm: float = Field(
        0.4, gt=0, description="The largest gradient of one record; longer ones are clipped."
    )
    learning_rate: float | None = Field(
        None, gt=0, description="The length of a step; left out: a published rule of public facts."
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="How much of the last step is kept.")
    average_last: float = Field(
        0.5, ge=0, le=1, description="The last share of rounds whose iterates are averaged."
    )
    regularisation: float = Field(RIDGE, ge=0, description="Pulls weights towards zero.")


class DescentState(NamedTuple):
    """The server's: parameters, velocity, running average of late iterates, round."""

    parameters: Any
    velocity: Any
    average: Any
    round: Any


def start(shape: tuple[int, ...]) -> DescentState:
    """Descent begins at zero."""
    zero = jnp.zeros(shape, jnp.float32)
    return DescentState(zero, zero, zero, jnp.int32(0))


def descend(
    config: DescentConfig,
    state: DescentState,
    gradient: Any,
    project: Callable[[Any], Any] = lambda point: point,
) -> DescentState:
    """One step along the noisy average gradient, back into the set that parameters stay in."""
    late = int(config.rounds * (1 - config.average_last))
    slope = gradient.reshape(state.parameters.shape) + config.regularisation * state.parameters
    velocity = config.momentum * state.velocity + slope
    parameters = project(state.parameters - config.learning_rate * velocity)
    weight = jnp.where(state.round >= late, 1.0 / (state.round - late + 1), 0.0)
    average = state.average + weight * (parameters - state.average)
    return DescentState(parameters, velocity, average, state.round + 1)


def arrived(config: DescentConfig, state: DescentState) -> Any:
    """The model: the last iterate, or the average of the late ones."""
    return state.average if config.average_last else state.parameters


# ------------------------------------------------------------- the published rule


def signal(
    facts: Facts, trust: Trust, privacy: Privacy, parameters: int, records: float | None = None
) -> float:
    """q: how many standard deviations of noise all records together outweigh, or as many
    `records` of the heaviest weight as they amount to (`objectives.effective_records`).

    >>> facts = Facts((10_000,), 10, 1)
    >>> round(signal(facts, Trust.LOCAL, Privacy(1.0, 1e-5), 10))
    424
    """
    strength = privacy.epsilon / math.sqrt(parameters)
    if privacy.delta:
        strength = gaussian.mu_for(privacy.epsilon, privacy.delta)
    factor = 2 if privacy.relation is Relation.REPLACE_ONE else 1
    noise = math.sqrt(parameters * copies(facts, trust))
    counted = sum(facts.records) if records is None else records
    return counted * strength / (factor * noise)


def stable_rate(config: DescentConfig, problem: LinearLoss, group: int = 1) -> float:
    """The largest learning rate that heavy-ball descent bears, where a row of the sum holds up to
    `group` records: as many times as curved."""
    smoothness = group * loss_named(problem.loss).smoothness
    return 1.95 * (1 + config.momentum) / (smoothness + config.regularisation)


def quiet_rate(config: DescentConfig, problem: LinearLoss, quality: float) -> float:
    """The learning rate at which the noise of all rounds stays as short as useful parameters are
    long: of a quality 1 / (noise of one round in the mean gradient, over the clipping norm)."""
    length = NOISE_LENGTH[problem.loss] * (1 - config.momentum)
    return length / (config.clipping_norm * config.rounds) * quality
