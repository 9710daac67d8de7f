"""From events to what accountants understand: dominating pairs and Rényi curves.

Each function answers for one event under one relation, or says `None` where the theory has
no such form. An event neither can express is unknown, and unknown is never free.
"""

import math

import numpy as np

from unisono.accounting import integer_noise, renyi, sampling_without_replacement
from unisono.accounting.pairs import Pair, PurePair
from unisono.accounting.shift_pairs import GaussianPair, LaplacePair
from unisono.accounting.theorems import amplify_by_sampling
from unisono.core.events import (
    DiscreteGaussian,
    Event,
    Everyone,
    Gaussian,
    Laplace,
    NoNoise,
    NormNoise,
    Poisson,
    RandomizedResponse,
    Selection,
    Skellam,
    WithoutReplacement,
)
from unisono.core.trust import Relation
from unisono.errors import UndefinedRelation, UnknownEvent

# The bound for fixed-size subsets sums over all orders below; beyond this one it takes seconds.
_LARGEST_SUBSET_ORDER = 128


def discloses(event: Event) -> bool:
    """Whether the event shows the value itself."""
    return isinstance(event.noise, NoNoise)


def gaussian_mu(event: Event, relation: Relation) -> float | None:
    """mu of an unsampled Gaussian, else None."""
    if isinstance(event.noise, Gaussian) and _rate(event) == 1:
        return event.sensitivity.under(relation).in_norm("l2") / event.noise.std
    return None


def pure_epsilon(event: Event, relation: Relation) -> float | None:
    """Epsilon of a pure mechanism before sampling, else None."""
    distance = event.sensitivity.under(relation)
    match event.noise:
        case Laplace(scale):
            return distance.in_norm("l1") / scale
        case NormNoise(scale):
            return distance.in_norm("l2") / scale
        case Selection(scale):
            return distance.in_norm("linf") / scale
        case RandomizedResponse(epsilon):
            return epsilon
        case _:
            return None


def pair(event: Event, relation: Relation) -> Pair | None:
    """A pair of distributions that dominates the event, if one is known."""
    rate = _rate(event)
    if isinstance(event.sampler, WithoutReplacement) and relation is not Relation.REPLACE_ONE:
        raise UndefinedRelation(
            f"a subset of fixed size has a guarantee under replace-one only, not {relation!s}: "
            "the size of the population is public"
        )
    mu = gaussian_mu(event, relation)
    if mu is not None:
        return GaussianPair(mu)
    if isinstance(event.noise, Gaussian) and isinstance(event.sampler, Poisson):
        # Replace-one compares two sampled records, each of at most its zero-out norm.
        own = _own_norm(event, relation, "l2")
        return GaussianPair(own / event.noise.std, rate, relation.value)
    epsilon = pure_epsilon(event, relation)
    if epsilon is None:
        return None
    if isinstance(event.noise, Laplace) and not event.noise.discrete and event.noise.dimension == 1:
        if isinstance(event.sampler, Everyone):
            return LaplacePair(epsilon)
        if isinstance(event.sampler, Poisson):
            own = _own_norm(event, relation, "l1")
            return LaplacePair(own / event.noise.scale, rate, relation.value)
    return PurePair(epsilon if rate == 1 else _amplified(event, relation, epsilon, rate))


def renyi_curve(event: Event, relation: Relation, orders: np.ndarray) -> np.ndarray | None:
    """An upper bound on the Rényi divergence at whole orders, if one is known."""
    distance, noise = event.sensitivity.under(relation), event.noise
    mu = gaussian_mu(event, relation)
    if mu is not None:
        return renyi.gaussian(orders, mu)
    match noise, event.sampler:
        case Gaussian(std=std), Poisson(rate) if relation is not Relation.REPLACE_ONE:
            return renyi.poisson_gaussian(orders, rate, std / distance.in_norm("l2"))
        case Gaussian(std=std), WithoutReplacement(size, population):
            if relation is Relation.REPLACE_ONE:
                low = orders <= _LARGEST_SUBSET_ORDER
                curve = np.full(len(orders), np.inf)
                curve[low] = sampling_without_replacement.renyi_curve(
                    orders[low], size, population, distance.in_norm("l2"), std
                )
                return curve
        case Skellam(std, grid), Everyone():
            l1, l2 = distance.in_norm("l1") / grid, distance.in_norm("l2") / grid
            return integer_noise.skellam(orders, (std / grid) ** 2, l1, l2)
        case DiscreteGaussian(std, grid, dimension, shares), Everyone():
            l1, l2 = distance.in_norm("l1") / grid, distance.in_norm("l2") / grid
            return integer_noise.distributed_discrete_gaussian(
                orders, std / grid / math.sqrt(shares), shares, l1, l2, dimension
            )
    dominating = pair(event, relation)
    if isinstance(dominating, PurePair):
        return renyi.pure(orders, dominating.epsilon)
    if isinstance(dominating, LaplacePair) and isinstance(event.sampler, Everyone):
        return renyi.laplace(orders, dominating.epsilon)
    return None


def unknown(event: Event, relation: Relation) -> UnknownEvent:
    """The error for an event no accountant can express."""
    return UnknownEvent(
        f"no accountant knows {type(event.noise).__name__} noise with "
        f"{type(event.sampler).__name__} sampling under {relation!s}: use Gaussian noise with "
        "Poisson sampling, or no sampling"
    )


def _rate(event: Event) -> float:
    match event.sampler:
        case Everyone():
            return 1.0
        case Poisson(rate):
            return rate
        case WithoutReplacement(size, population):
            return size / population


def _amplified(event: Event, relation: Relation, epsilon: float, rate: float) -> float:
    """A pure epsilon after secret sampling."""
    if isinstance(event.sampler, WithoutReplacement):
        return amplify_by_sampling(
            epsilon, 0.0, rate, sampler="without-replacement", relation=relation.value
        )[0]
    if relation is Relation.REPLACE_ONE:
        # Replacing a record is removing one and adding another: twice the zero-out cost.
        own = pure_epsilon(event, Relation.ZERO_OUT)
        assert own is not None
        return 2 * _amplified(event, Relation.ZERO_OUT, own, rate)
    return amplify_by_sampling(epsilon, 0.0, rate, sampler="poisson", relation=relation.value)[0]


def _own_norm(event: Event, relation: Relation, norm: str) -> float:
    """The norm of one record's own contribution, which sampling amplifies."""
    if relation is Relation.REPLACE_ONE and event.sensitivity.zero_out is None:
        raise UndefinedRelation(
            "sampling under replace-one needs a bound on a single record's contribution: "
            "release a sum of clipped records"
        )
    own = event.sensitivity.under(
        Relation.ZERO_OUT if relation is Relation.REPLACE_ONE else relation
    ).in_norm(norm)
    if relation is Relation.REPLACE_ONE:
        own = max(own, event.sensitivity.under(relation).in_norm(norm) / 2)
    return own
