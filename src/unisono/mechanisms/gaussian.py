"""The Gaussian mechanism, calibrated exactly.

Releases   a vector: value + round(N(0, std^2 I)) on the integer grid
Sensitivity  l2 (Chen 2019)
Guarantee  (epsilon, delta) iff dG(epsilon; mu) <= delta with mu = Δ2 sqrt(count) / std: the exact
           curve of Balle and Wang, not the classical sqrt(2 log(1.25/delta)), which is false above
           epsilon ~ 8 and wasteful below 1. An integer x plus a rounded Gaussian is the
           rounding of x plus a Gaussian, so the exact curve holds for what is really drawn
Shares     h honest parties each add round(N(0, std^2 / h)); the sum differs from a post-processed
           Gaussian by a total variation of about exp(-π² (share std in grid steps)²), which the
           event carries as its `gap`
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from scipy.special import ndtri

from unisono.accounting import gaussian as exact
from unisono.accounting.calibrate import calibrate_scale, smallest_scale
from unisono.accounting.curve import GAP_SHARE
from unisono.core.events import (
    Event,
    Everyone,
    Gaussian,
    GaussianRun,
    Sampler,
    Sensitivity,
    compose,
    positive,
)
from unisono.core.in_graph import in_graph_event
from unisono.core.noise import rounded_share_gap
from unisono.core.trust import Relation
from unisono.errors import InvalidInput
from unisono.mechanisms.mechanism import Mechanism, NoiseLaw, NoiseReach, require_tail


def calibrate(
    sensitivity: Sensitivity,
    relation: Relation,
    epsilon: float,
    delta: float,
    *,
    count: int = 1,
    sampler: Sampler = Everyone(),
    dimension: int = 1,
    shares: int = 1,
    grid: float | None = None,
    in_graph: bool = False,
    missed: float = 0.0,
    scales: Sequence[tuple[float, int]] = (),
) -> Event:
    """The event whose `count` releases together cost at most (epsilon, delta).

    `in_graph` noise is drawn inside a compiled program, whose sampler has an error.
    `missed` is the chance that a release was not what it claims to be, such as a batch that
    overflowed. With `scales` there are, for each pair (factor, times), so many releases with so
    much wider noise, and the event is that of factor 1.
    """
    positive(epsilon=epsilon, count=count)
    if not 0 < delta < 1:
        raise InvalidInput(
            f"delta = {delta!r}: Gaussian noise has no pure epsilon; choose delta in (0, 1), or "
            "use Laplace or norm noise"
        )
    if (shares > 1 or in_graph) and grid is None:
        raise InvalidInput("shares of noise are rounded to a grid: give its step")
    distance = sensitivity.under(relation).in_norm("l2")
    target = delta * (1 - GAP_SHARE) if shares > 1 or in_graph or missed else delta

    factors = [factor for factor, _ in scales] or [1.0]

    def event(std: float, factor: float = 1.0) -> Event:
        return event_of(
            std,
            sensitivity,
            count=count,
            sampler=sampler,
            dimension=dimension,
            shares=shares,
            grid=grid,
            in_graph=in_graph,
            missed=missed,
            factor=factor,
            factors=factors,
        )

    plain = isinstance(sampler, Everyone) and not in_graph and not scales
    if plain:
        mu = exact.split(exact.mu_for(epsilon, target), count)
        # The root finder behind the curve is good to 1e-12; stay on the safe side of it.
        return event(distance / mu * (1 + 1e-11))
    start = distance / exact.mu_for(epsilon, target)
    if scales:
        return event(
            smallest_scale(
                lambda std: compose(event(std, factor) * times for factor, times in scales),
                relation,
                epsilon,
                target,
                start=start,
            )
        )
    return event(calibrate_scale(event, relation, epsilon, target, count, start))


def event_of(
    std: float,
    sensitivity: Sensitivity,
    *,
    count: int = 1,
    sampler: Sampler = Everyone(),
    dimension: int = 1,
    shares: int = 1,
    grid: float | None = None,
    in_graph: bool = False,
    missed: float = 0.0,
    factor: float = 1.0,
    factors: Sequence[float] = (1.0,),
) -> Event:
    """The event of noise of this standard deviation, whatever it costs: with the rounding gap of
    the narrowest noise of the run, and the sampler's error as if all noise were the widest."""
    gap = missed
    if shares > 1 and grid is not None:
        narrowest = std * min(factors) / grid / math.sqrt(shares)
        gap += dimension * rounded_share_gap(narrowest, shares)
    ideal = Event(Gaussian(std * max(factors), gap), sensitivity, sampler)
    if in_graph and grid is not None:
        ideal = in_graph_event(ideal, grid, dimension, count, shares)
    assert isinstance(ideal.noise, Gaussian)
    return replace(ideal, noise=replace(ideal.noise, std=std * factor))


def tail(noise: Gaussian, dimension: int, probability: float) -> float:
    """Every coordinate errs by less than this, but for `probability`.

    >>> round(tail(Gaussian(1.0), 1, 0.05), 3)
    1.96
    """
    require_tail(dimension, probability)
    return -noise.std * float(ndtri(probability / (2 * dimension)))


@dataclass(frozen=True)
class GaussianSum(NoiseLaw):
    """`shape` shares of variance scale² each."""

    name: ClassVar[str] = "Gaussian"
    gaussian: ClassVar[bool] = True

    @property
    def std(self) -> float:
        return self.scale * math.sqrt(self.shape)

    def _single(self, probability: float) -> float:
        return self.std * -float(ndtri(probability / 2))


def summed(noise: Gaussian, shares: float, drawn: int, grid: float) -> GaussianSum:
    """The law of a sum of so many shares, which `drawn` parties rounded: every rounded Gaussian has
    a twelfth of a squared step more variance."""
    variance = shares * noise.std**2 + drawn * grid**2 / 12
    return GaussianSum(math.sqrt(variance / shares), shares, grid)


def reach(
    noise: Gaussian, shares: float, drawn: int, grid: float, dimension: int, probability: float
) -> NoiseReach:
    """The exact tail of each number, and for the l2 norm sqrt(d) + sqrt(2 log(1 / p)) standard
    deviations: a norm is 1-Lipschitz, its mean at most sqrt(d) (Gaussian concentration).

    Each of `drawn` roundings moves a number by half a step, and where noise is drawn in a compiled
    program by at most a 64th more (`core.noise.in_graph_error`).

    >>> round(reach(Gaussian(1.0), 1.0, 1, 1e-6, 10_000, 1e-12).l2, 1)
    107.5
    """
    require_tail(dimension, probability)
    std = noise.std * math.sqrt(shares) * (1 + 1e-6)  # 32-bit widths are rounded up
    rounded = 0.52 * drawn * grid
    each = -std * float(ndtri(probability / (4 * dimension))) + rounded
    norm = std * (math.sqrt(dimension) + math.sqrt(2 * math.log(2 / probability)))
    return NoiseReach(each, l2=norm + rounded * math.sqrt(dimension))


MECHANISM = Mechanism(
    law=Gaussian,
    releases="a vector",
    pure=False,
    shares="rounded Gaussians",
    calibrate=calibrate,
    tail=tail,
    unit=lambda scale: Gaussian(scale.multiplier),
    summed=summed,
    reach=reach,
    also=(GaussianRun,),
)
