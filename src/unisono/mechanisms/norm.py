"""The vector norm mechanism (L2 gamma): pure epsilon from an l2 bound.

Releases   a vector: value + b with density ∝ exp(-||b||_2 / scale), rounded to the grid
Sensitivity  l2 (Chen 2019, after Chaudhuri et al. 2011)
Guarantee  epsilon = Δ2 / scale, delta = 0: the ratio of densities is at most
           exp(||Δ|| / scale). ||b|| ~ Gamma(p, scale), uniform direction
Shares     b = scale sqrt(2 G) N(0, I) with G ~ Gamma((p+1)/2): infinitely divisible over the reals,
           party j drawing G_j ~ Gamma((p+1)/(2h)). Rounded before an integer secure sum
           the proof is lost, so there pure epsilon comes from discrete Laplace shares instead
"""

import math

from scipy.special import gammainccinv

from unisono.accounting.calibrate import calibrate_scale
from unisono.core.events import Event, Everyone, NormNoise, Sampler, Sensitivity, positive
from unisono.core.trust import Relation
from unisono.mechanisms.mechanism import Mechanism, NoiseReach, require_tail


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
    """The event whose `count` releases together cost at most (epsilon, delta)."""
    positive(epsilon=epsilon, count=count)
    distance = sensitivity.under(relation).in_norm("l2")

    def event(scale: float) -> Event:
        return Event(NormNoise(scale), sensitivity, sampler)

    if delta == 0 and isinstance(sampler, Everyone):
        return event(distance / (epsilon / count) * (1 + 2.0**-50))
    return event(calibrate_scale(event, relation, epsilon, delta, count, start=distance / epsilon))


def tail(noise: NormNoise, dimension: int, probability: float) -> float:
    """The whole vector errs by less than this in l2, but for `probability`: a Gamma quantile.

    >>> round(tail(NormNoise(1.0), 1, 0.05), 3)
    2.996
    """
    require_tail(dimension, probability)
    return noise.scale * float(gammainccinv(dimension, probability))


def reach(
    noise: NormNoise, shares: float, drawn: int, grid: float, dimension: int, probability: float
) -> NoiseReach:
    """The l2 norm of `drawn` vectors is at most the sum of theirs, each a Gamma quantile; rounding
    moves every number by half a step."""
    longest = tail(noise, dimension, probability / drawn) * (1 + 1e-9)
    length = drawn * (longest + 0.5 * grid * math.sqrt(dimension))
    return NoiseReach(length, l2=length)


MECHANISM = Mechanism(
    law=NormNoise,
    releases="a vector",
    pure=True,
    shares="over the reals only (gamma mixture)",
    calibrate=calibrate,
    tail=tail,
    reach=reach,
    unit=lambda scale: NormNoise(scale.multiplier),
    measure="a scale of {} times the largest norm of one record",
)
