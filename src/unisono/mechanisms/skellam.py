"""Skellam noise: a Poisson minus a Poisson, closed under sums.

Releases   an integer vector: value + Pois(V/2) - Pois(V/2) per coordinate, V in grid steps squared
Sensitivity  l2 and l1
Guarantee  Rényi bound of Agarwal, Kairouz and Liu at whole orders:
           a Δ2²/(2V) + min(((2a-1) Δ2² + 6 Δ1)/(4V²), 3 Δ1/(2V))
Shares     exact: h honest shares of variance V/h add up to Skellam noise of variance V
"""

import math

from unisono.accounting.calibrate import calibrate_scale
from unisono.core.events import Event, Everyone, Sampler, Sensitivity, Skellam, positive
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
    sampler: Sampler = Everyone(),
    dimension: int = 1,
) -> Event:
    """The event whose `count` releases together cost at most (epsilon, delta)."""
    positive(epsilon=epsilon, count=count)
    if not isinstance(sampler, Everyone):
        raise InvalidInput(
            "Skellam noise has no accountant under sampling: use Gaussian noise instead"
        )

    def event(std: float) -> Event:
        return Event(Skellam(std, grid), sensitivity)

    start = sensitivity.under(relation).in_norm("l2") / epsilon
    return event(calibrate_scale(event, relation, epsilon, delta, count, start))


def tail(noise: Skellam, dimension: int, probability: float) -> float:
    """Every coordinate errs by less than this, but for `probability`.

    Bernstein's bound for a difference of Poissons: with L = log(2 d / probability) and variance V,
    sqrt(2 V L) + L/3 grid steps.
    """
    require_tail(dimension, probability)
    level = math.log(2 * dimension / probability)
    return noise.std * math.sqrt(2 * level) + noise.grid * level / 3


MECHANISM = Mechanism(
    law=Skellam,
    releases="an integer vector",
    pure=False,
    shares="exact: sums stay Skellam",
    calibrate=calibrate,
    tail=tail,
    unit=lambda scale: Skellam(scale.multiplier, scale.grid),
    # Rounding a record to the grid is part of its sensitivity, and integer noise cannot round it
    # away again.
    unit_bound=lambda scale: sum_sensitivity(1.0, scale.grid, scale.dimension),
)
