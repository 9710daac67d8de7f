"""Discrete Gaussian noise, alone or as the sum of shares.

Releases   an integer vector: value + b, P(b_i = k) ∝ exp(-k² / (2 std²)) on the grid
Sensitivity  l2, and l1 for the gap of shares
Guarantee  zCDP with rho = Δ2² / (2 std²) for one share (Canonne, Kamath and Steinke); the (epsilon,
           delta) curve lies slightly above the continuous one, so the Rényi bound is used
Shares     a sum of h discrete Gaussians is not one; the divisibility gap tau of Kairouz, Liu and
           Steinke is in the Rényi bound. Keep a share at 4 grid steps or more
"""

import math

from unisono.accounting.calibrate import calibrate_scale
from unisono.core.events import (
    DiscreteGaussian,
    Event,
    Everyone,
    Sampler,
    Sensitivity,
    positive,
)
from unisono.core.trust import Relation
from unisono.core.values import sum_sensitivity
from unisono.errors import InvalidInput
from unisono.mechanisms.mechanism import Mechanism, require_tail


def calibrate(
    sensitivity: Sensitivity,
    relation: Relation,
    epsilon: float,
    delta: float,
    *,
    grid: float,
    count: int = 1,
    dimension: int = 1,
    shares: int = 1,
    sampler: Sampler = Everyone(),
) -> Event:
    """The event whose `count` releases together cost at most (epsilon, delta)."""
    positive(epsilon=epsilon, count=count)
    if not isinstance(sampler, Everyone):
        raise InvalidInput(
            "discrete Gaussian shares have no accountant under sampling: use Gaussian noise, whose "
            "rounded shares keep the exact curve"
        )

    def event(std: float) -> Event:
        return Event(DiscreteGaussian(std, grid, dimension, shares), sensitivity)

    start = sensitivity.under(relation).in_norm("l2") / epsilon
    floor = 4 * grid * math.sqrt(shares)
    return event(
        max(floor, calibrate_scale(event, relation, epsilon, delta, count, start, floor=floor))
    )


def tail(noise: DiscreteGaussian, dimension: int, probability: float) -> float:
    """Every coordinate errs by less than this, but for `probability`.

    A discrete Gaussian is sub-Gaussian with its std, and so are sums of them:
    std sqrt(2 log(2 d / probability)).
    """
    require_tail(dimension, probability)
    return noise.std * math.sqrt(2 * math.log(2 * dimension / probability))


MECHANISM = Mechanism(
    law=DiscreteGaussian,
    releases="an integer vector",
    pure=False,
    shares="with a divisibility gap",
    calibrate=calibrate,
    tail=tail,
    unit=lambda scale: DiscreteGaussian(scale.multiplier, scale.grid, scale.dimension),
    # Rounding a record to the grid is part of its sensitivity, and integer noise cannot round it
    # away again.
    unit_bound=lambda scale: sum_sensitivity(1.0, scale.grid, scale.dimension),
)
