"""The law of the noise in a sum over parties, for confidence intervals.

With an event of scale s, `survivors` parties answered and `honest` shares were planned for:

    trust            Gaussian: variance      Laplace: characteristic function
    LOCAL            survivors s²            (1 + s² t²)^-survivors
    SECURE_SUM       survivors / honest s²   (1 + s² t²)^-(survivors / honest)
    TRUSTED_SERVER   s²                      (1 + s² t²)^-1

A difference of two Gamma(k) variables (k shares of Laplace noise) is a normal of variance 2 s² G
with G ~ Gamma(k), which gives its tail to any accuracy. Sums of m such variables stay in the
family with shape m k. The integers that are really drawn have no larger moment generating function:
with q(u) = (cosh u - 1) / u², which increases, it is 1 / (1 - s² u² q(u) / q(1/s)) for discrete
Laplace noise, against 1 / (1 - s² u²). One grid step is added for their being whole.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv, ndtr, ndtri

from unisono.core.algorithm import Facts
from unisono.core.events import Event, Gaussian, Laplace
from unisono.core.trust import Trust
from unisono.errors import InvalidInput, UnknownEvent

_POINTS = (np.arange(4096) + 0.5) / 4096


@dataclass(frozen=True)
class NoiseLaw:
    """Independent symmetric noise per number: Gaussian of `scale`, or `shape` Laplace shares.

    `shape` counts shares: the variance is shape scale² (Gaussian) or 2 shape scale² (Laplace).
    `step` is the grid, by which the integers may differ from the continuous law.
    """

    gaussian: bool
    scale: float
    shape: float = 1.0
    step: float = 0.0

    @property
    def std(self) -> float:
        return self.scale * math.sqrt(self.shape * (1 if self.gaussian else 2))

    def scaled(self, factor: float) -> "NoiseLaw":
        """The law of factor times the noise."""
        return replace(self, scale=self.scale * abs(factor), step=self.step * abs(factor))

    def summed(self, terms: float) -> "NoiseLaw":
        """The law of the sum of `terms` independent noises."""
        return replace(self, shape=self.shape * terms)

    def tail(self, probability: float, numbers: int = 1) -> float:
        """All of `numbers` independent or dependent noises stay below this, but for `probability`.

        >>> round(NoiseLaw(True, 1.0).tail(0.05), 3), round(NoiseLaw(False, 1.0).tail(0.05), 3)
        (1.96, 2.996)
        """
        if not 0 < probability < 1 or numbers < 1:
            raise InvalidInput(
                f"probability {probability!r} for {numbers!r} numbers: need (0, 1) and >= 1"
            )
        each = probability / numbers
        if self.gaussian:
            return self.std * -float(ndtri(each / 2)) + self.step
        if self.shape == 1:
            return self.scale * math.log(1 / each) + self.step
        return self.scale * _laplace_sum_tail(self.shape, each) + self.step


@lru_cache(maxsize=4096)
def _laplace_sum_tail(shape: float, probability: float) -> float:
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


def sum_law(event: Event, facts: Facts, trust: Trust, survivors: int, grid: float) -> NoiseLaw:
    """The noise in the opened sum of a round in which `survivors` parties answered."""
    shares = {
        Trust.LOCAL: float(survivors),
        Trust.SECURE_SUM: survivors / facts.honest,
        Trust.TRUSTED_SERVER: 1.0,
    }[trust]
    match event.noise:
        case Gaussian(std):
            # Every rounded Gaussian has a twelfth of a squared step more variance.
            drawn = 1 if trust is Trust.TRUSTED_SERVER else survivors
            variance = shares * std**2 + drawn * grid**2 / 12
            return NoiseLaw(True, math.sqrt(variance / shares), shares, grid)
        case Laplace(scale):
            return NoiseLaw(False, scale, shares, grid)
        case other:
            raise UnknownEvent(
                f"no confidence interval for {type(other).__name__} noise: use Gaussian or Laplace"
            )
