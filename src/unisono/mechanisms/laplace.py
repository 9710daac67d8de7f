"""The Laplace mechanism: independent noise in proportion to the l1 sensitivity.

Releases   a vector: value + b, b_i with P(k) ∝ exp(-|k| / scale) on the integer grid
Sensitivity  l1 (source 000-7, 001 Theorem 2.1); per-coordinate noise against an l2 bound would
           cost sqrt(p) times the epsilon
Guarantee  epsilon = Δ1 / scale, delta = 0, under the relation of Δ1: on the grid the ratio of two
           probabilities is exp((|k - x'| - |k - x|) / scale) <= exp(Δ1 / scale), and there is no
           floating-point noise to betray the value
Shares     h honest parties each add a difference of two Pólya(1/h) variables; their sum is exactly
           discrete Laplace, so pure epsilon survives an integer secure sum. What that costs: Δ1 of
           an l2-bounded vector is sqrt(p) Δ2, so the error grows with p where a Gaussian's grows
           with sqrt(p)
"""

import math

from unisono.core.events import Event, Everyone, Laplace, Sampler, Sensitivity, positive
from unisono.core.trust import Relation
from unisono.errors import InvalidInput
from unisono.mechanisms.sampling import calibrate_scale


def calibrate(
    sensitivity: Sensitivity,
    relation: Relation,
    epsilon: float,
    delta: float = 0.0,
    *,
    count: int = 1,
    sampler: Sampler = Everyone(),
    dimension: int = 1,
) -> Event:
    """The event whose `count` releases together cost at most (epsilon, delta)."""
    positive(epsilon=epsilon, count=count)
    distance = sensitivity.under(relation).in_norm("l1")

    def event(scale: float) -> Event:
        return Event(Laplace(scale, dimension), sensitivity, sampler)

    if delta == 0 and isinstance(sampler, Everyone):
        return event(distance * count / epsilon * (1 + 2.0**-50))
    return event(calibrate_scale(event, relation, epsilon, delta, count, start=distance / epsilon))


def tail(noise: Laplace, dimension: int, probability: float) -> float:
    """Every coordinate errs by less than this, but for `probability` (001 Corollary 2.3).

    scale * log(d / probability), exact for one continuous coordinate.

    >>> round(tail(Laplace(2.0), 1, 0.05), 3)
    5.991
    """
    if not 0 < probability < 1 or dimension < 1:
        raise InvalidInput(
            f"probability {probability!r}, dimension {dimension!r}: need (0, 1), >= 1"
        )
    return noise.scale * math.log(dimension / probability)
