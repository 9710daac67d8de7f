"""The Laplace mechanism: independent noise in proportion to the l1 sensitivity.

Releases   a vector: value + b, b_i with P(k) ∝ exp(-|k| / scale) on the integer grid
Sensitivity  l1 (Chen 2019; lecture 16, Theorem 2.1); per-coordinate noise against an l2 bound would
           cost sqrt(p) times the epsilon
Guarantee  epsilon = Δ1 / scale, delta = 0, under the relation of Δ1: on the grid the ratio of two
           probabilities is exp((|k - x'| - |k - x|) / scale) <= exp(Δ1 / scale), and there is no
           floating-point noise to betray the value. With a delta many releases cost less than
           randomized response of this epsilon: `accounting.laplace_pairs` has the law of the loss
           on the grid, which is the same in any dimension
Shares     h honest parties each add a difference of two Pólya(1/h) variables; their sum is exactly
           discrete Laplace, so pure epsilon survives an integer secure sum. What that costs: Δ1 of
           an l2-bounded vector is sqrt(p) Δ2, so the error grows with p where a Gaussian's grows
           with sqrt(p)
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv, ndtr

from unisono.accounting.calibrate import calibrate_scale
from unisono.core.events import Event, Everyone, Laplace, Sampler, Sensitivity, positive
from unisono.core.trust import Relation
from unisono.mechanisms.mechanism import Mechanism, NoiseLaw, NoiseReach, require_tail

_POINTS = (np.arange(4096) + 0.5) / 4096


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
    """The event whose `count` releases together cost at most (epsilon, delta).

    Without a grid it may be drawn on any, and is charged its pure epsilon, whatever delta is.
    """
    positive(epsilon=epsilon, count=count)
    distance = sensitivity.under(relation).in_norm("l1")

    def event(scale: float) -> Event:
        return Event(Laplace(scale, dimension, discrete=True, grid=grid), sensitivity, sampler)

    if delta == 0 and isinstance(sampler, Everyone):
        return event(distance * count / epsilon * (1 + 2.0**-50))
    return event(calibrate_scale(event, relation, epsilon, delta, count, start=distance / epsilon))


def tail(noise: Laplace, dimension: int, probability: float) -> float:
    """Every coordinate errs by less than this, but for `probability` (lecture 16, Corollary 2.3).

    scale * log(d / probability), exact for one continuous coordinate.

    >>> round(tail(Laplace(2.0), 1, 0.05), 3)
    5.991
    """
    require_tail(dimension, probability)
    return noise.scale * math.log(dimension / probability)


@dataclass(frozen=True)
class LaplaceSum(NoiseLaw):
    """`shape` shares of Laplace noise: characteristic function (1 + scale² t²)^-shape.

    A difference of two Gamma(k) variables (k shares) is a normal of variance 2 s² G with
    G ~ Gamma(k), which gives its tail to any accuracy. Sums of m such variables stay in the family
    with shape m k. The integers that are really drawn have no larger moment generating function:
    with q(u) = (cosh u - 1) / u², which increases, it is 1 / (1 - s² u² q(u) / q(1/s)) for discrete
    Laplace noise, against 1 / (1 - s² u²). One grid step is added for their being whole.
    """

    name: ClassVar[str] = "Laplace"

    @property
    def std(self) -> float:
        return self.scale * math.sqrt(self.shape * 2)

    def _single(self, probability: float) -> float:
        if self.shape == 1:
            return self.scale * math.log(1 / probability)
        return self.scale * _sum_tail(self.shape, probability)


@lru_cache(maxsize=4096)
def _sum_tail(shape: float, probability: float) -> float:
    """t with P(|X| > t) = probability, X of characteristic function (1 + s²)^-shape.

    Chernoff bounds bracket the root and replace it where the quadrature is too coarse:
    log P(X > t) <= min over 0 < u < 1 of -u t - shape log(1 - u²).
    """

    def chernoff(t: float) -> float:
        u = (math.sqrt(shape**2 + t**2) - shape) / t
        return math.log(2) - u * t - shape * math.log1p(-u * u) - math.log(probability)

    high = 1.0
    while chernoff(high) > 0:
        high *= 2
    bound = float(brentq(chernoff, 1e-9, high))
    if probability < 1e-3:
        return bound
    spread = np.sqrt(2 * gammaincinv(shape, _POINTS))
    excess = brentq(lambda t: 2 * ndtr(-t / spread).mean() - probability, 0.0, bound)
    # 4096 midpoints are good to three digits at this probability; stay on the safe side.
    return min(bound, 1.002 * float(excess))


def summed(noise: Laplace, shares: float, drawn: int, grid: float) -> LaplaceSum:
    """The law of a sum of so many shares: rounding is in the law that each party draws."""
    return LaplaceSum(noise.scale, shares, grid)


def reach(
    noise: Laplace, shares: float, drawn: int, grid: float, dimension: int, probability: float
) -> NoiseReach:
    """The tail of each number, and Chernoff's bound for the l1 norm of independent ones.

    With k shares, M(u) = (1 - u²)^-k is the moment generating function in units of the scale. From
    e^|x| = 2 cosh x - e^-|x| and e^-|x| >= 1 - |x| follows E e^(u|X|) <= 2 M(u) - 1 + u sqrt(2k),
    as E|X| is at most the standard deviation. For k = 1 it is 1 / (1 - u), and no more on the grid,
    where it is tanh(1/2s) coth(1/2s - u/2): tanh(x) / x decreases.
    """
    require_tail(dimension, probability)
    each = LaplaceSum(noise.scale, shares, grid).tail(probability / 2, dimension)
    u = np.linspace(0, 1, 1001)[1:-1]
    moments = 2 * (1 - u**2) ** -shares - 1 + u * math.sqrt(2 * shares)
    if shares == 1:
        moments = 1 / (1 - u)
    bounds = (math.log(2 / probability) + dimension * np.log(moments)) / u
    return NoiseReach(each, l1=noise.scale * float(bounds.min()) + grid)


MECHANISM = Mechanism(
    law=Laplace,
    releases="a vector",
    pure=True,
    shares="differences of Pólya variables",
    calibrate=calibrate,
    tail=tail,
    unit=lambda scale: Laplace(scale.multiplier, scale.dimension, grid=scale.grid),
    summed=summed,
    reach=reach,
    measure="a scale of {} times the largest norm of one record",
)
