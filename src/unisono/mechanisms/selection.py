"""Private selection: the exponential mechanism and report noisy max.

Releases   the index of one candidate, better scores more likely
Sensitivity  linf of the score vector
Guarantee  epsilon = Δ∞ / scale, delta = 0. `exponential` chooses i with probability ∝
           exp(score_i / (2 scale)). `noisy_max` is permute-and-flip, the law of the largest score
           after adding one-sided exponential noise of scale 2 * scale; it is never worse in
           expected score and costs the same (McKenna and Sheldon 2020)
"""

import math

import numpy as np

from unisono.core.events import (
    Distance,
    Event,
    Everyone,
    Sampler,
    Selection,
    Sensitivity,
    positive,
)
from unisono.core.grant import Draw
from unisono.core.noise import Keystream, bernoulli_exp, uniform_below
from unisono.core.trust import Relation
from unisono.core.values import require_finite
from unisono.errors import InvalidInput
from unisono.mechanisms.mechanism import Mechanism, require_tail

# Scores are rounded to multiples of scale * _STEP, so that their differences are exact.
_STEP = 2.0**-20


def calibrate(
    sensitivity: Sensitivity,
    relation: Relation,
    epsilon: float,
    delta: float = 0.0,
    *,
    count: int = 1,
    sampler: Sampler = Everyone(),
    dimension: int = 1,
    grid: float | None = None,
) -> Event:
    """The event whose `count` selections together cost at most epsilon."""
    positive(epsilon=epsilon, count=count)
    distance = sensitivity.under(relation).in_norm("linf")
    if epsilon / count <= 2 * _STEP:
        raise InvalidInput(
            f"epsilon / count = {epsilon / count:g} is below {2 * _STEP:g}: too small"
        )
    scale = distance / (epsilon / count - _STEP) * (1 + 2.0**-50)
    # Rounding two scores to the grid moves their difference by one step at most.
    widened = Sensitivity(
        sensitivity.unit,
        **{
            r.replace("-", "_"): Distance(linf=sensitivity.under(r).in_norm("linf") + scale * _STEP)
            for r in sensitivity.relations
        },
    )
    return Event(Selection(scale), widened, sampler)


def exponential(draw: Draw, scores: np.ndarray, event: Event) -> int:
    """Sample i with probability ∝ exp(score_i / (2 scale)), exactly, by rejection."""
    exponents = _exponents(scores, event)
    stream = Keystream(draw.take(event))
    while True:
        candidate = int(uniform_below(stream, len(exponents), 1)[0])
        if bernoulli_exp(stream, exponents[candidate : candidate + 1])[0]:
            return candidate


def noisy_max(draw: Draw, scores: np.ndarray, event: Event) -> int:
    """Permute-and-flip: visit candidates in random order, accept i with exp(-gap_i / (2 scale))."""
    exponents = _exponents(scores, event)
    stream = Keystream(draw.take(event))
    waiting = list(range(len(exponents)))
    while True:
        candidate = waiting.pop(int(uniform_below(stream, len(waiting), 1)[0]))
        if bernoulli_exp(stream, exponents[candidate : candidate + 1])[0]:
            return candidate


def tail(noise: Selection, dimension: int, probability: float) -> float:
    """The chosen score is below the best by less than this, but for `probability`.

    2 scale log(candidates / probability).
    """
    require_tail(dimension, probability)
    return 2 * noise.scale * math.log(dimension / probability)


def _exponents(scores: np.ndarray, event: Event) -> np.ndarray:
    """How far each candidate is below the best, in units of 2 scale."""
    if not isinstance(event.noise, Selection):
        raise InvalidInput(f"{type(event.noise).__name__} is not a selection")
    array = require_finite(scores, "scores")
    if array.ndim != 1 or array.size == 0:
        raise InvalidInput("scores must be a flat list with at least one candidate")
    steps = np.rint(array / (event.noise.scale * _STEP))
    if np.abs(steps).max() >= 2.0**52:
        raise InvalidInput("scores are too large for their sensitivity: rescale them")
    return (steps.max() - steps) * (_STEP / 2)


MECHANISM = Mechanism(
    law=Selection,
    releases="one of several candidates",
    pure=True,
    shares="none",
    calibrate=calibrate,
    tail=tail,
    unit=lambda scale: Selection(scale.multiplier),
    measure="a scale of {} times the largest norm of one record",
)
