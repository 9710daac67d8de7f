"""Randomized response: an answer that may always be denied.

Releases   one answer out of k: the true one with odds e^epsilon against each other one
Sensitivity  an answer is replaced by any other: replace-one
Guarantee  epsilon, delta = 0: probabilities of any answer differ by e^epsilon at most; the
           two-answer form is the worst case of every pure mechanism, so its compositions are
           exact
"""

import math

import numpy as np

from unisono.core.events import (
    Distance,
    Event,
    Everyone,
    RandomizedResponse,
    Sampler,
    Sensitivity,
    positive,
)
from unisono.core.grant import Draw
from unisono.core.noise import Keystream, bernoulli, uniform_below
from unisono.core.trust import Relation, Unit
from unisono.errors import InvalidInput
from unisono.mechanisms.mechanism import Mechanism, require_tail

ANSWER = Sensitivity(Unit.RECORD, replace_one=Distance(linf=1.0))


def calibrate(
    sensitivity: Sensitivity = ANSWER,
    relation: Relation = Relation.REPLACE_ONE,
    epsilon: float = 1.0,
    delta: float = 0.0,
    *,
    count: int = 1,
    choices: int = 2,
    sampler: Sampler = Everyone(),
    dimension: int = 1,
    grid: float | None = None,
) -> Event:
    """The event of one answer, when a person gives `count` of them."""
    positive(epsilon=epsilon, count=count)
    sensitivity.under(relation)
    return Event(RandomizedResponse(epsilon / count, choices), sensitivity, sampler)


def keep_probability(noise: RandomizedResponse) -> float:
    """Probability that the true answer is given, rounded down so that epsilon is not exceeded."""
    return math.exp(noise.epsilon) / (math.exp(noise.epsilon) + noise.choices - 1) * (1 - 2.0**-50)


def respond(draw: Draw, answers: np.ndarray, event: Event) -> np.ndarray:
    """Answers of different people, each randomised: integers in [0, choices).

    A lie is uniform among the other answers.
    """
    noise = event.noise
    if not isinstance(noise, RandomizedResponse):
        raise InvalidInput(f"{type(noise).__name__} is not randomized response")
    truth = np.asarray(answers)
    if truth.ndim != 1 or truth.size == 0 or truth.dtype.kind not in "iub" or truth.min() < 0:
        raise InvalidInput("answers must be a flat list of whole numbers from 0, one per person")
    if truth.max() >= noise.choices:
        raise InvalidInput(f"answer {truth.max()} is not one of {noise.choices} choices")
    stream = Keystream(draw.take(event))
    honest = bernoulli(stream, keep_probability(noise), truth.shape)
    shift = 1 + uniform_below(stream, noise.choices - 1, truth.shape)
    return np.where(honest, truth, (truth + shift) % noise.choices).astype(np.int64)


def estimate(responses: np.ndarray, noise: RandomizedResponse) -> np.ndarray:
    """Unbiased estimate of how many people truly gave each answer."""
    count = np.bincount(np.asarray(responses), minlength=noise.choices)
    keep = keep_probability(noise)
    lie = (1 - keep) / (noise.choices - 1)
    return (count - len(responses) * lie) / (keep - lie)


def tail(noise: RandomizedResponse, dimension: int, probability: float) -> float:
    """Estimated counts of `dimension` people err by less than this, but for `probability`.

    Hoeffding's bound over all answers.
    """
    require_tail(dimension, probability)
    keep = keep_probability(noise)
    lie = (1 - keep) / (noise.choices - 1)
    level = math.log(2 * noise.choices / probability)
    return math.sqrt(dimension * level / 2) / (keep - lie)


def _meaning(noise: RandomizedResponse) -> str:
    return f"Each answer is the true one with probability {keep_probability(noise):.3f}."


MECHANISM = Mechanism(
    law=RandomizedResponse,
    releases="one answer out of k",
    pure=True,
    shares="none",
    calibrate=calibrate,
    tail=tail,
    unit=lambda scale: RandomizedResponse(1 / scale.multiplier, scale.choices),
    unit_bound=lambda scale: ANSWER,
    measure="each answer is randomised with epsilon 1 / {}",
    meaning=_meaning,
)
