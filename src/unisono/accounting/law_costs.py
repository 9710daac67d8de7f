"""From events to what accountants understand: dominating pairs and Rényi curves.

Each function answers for one event under one relation, or says `None` where the theory has
no such form. An event neither can express is unknown, and unknown is never free. What is known of
each law stands in one place, `COSTS`.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from unisono.accounting import (
    integer_noise,
    random_stopping,
    renyi,
    sampling_without_replacement,
)
from unisono.accounting.laplace_pairs import continuous_epsilon, discrete_laplace_pair
from unisono.accounting.pairs import Pair, PurePair
from unisono.accounting.shift_pairs import GaussianPair, LaplacePair
from unisono.accounting.shift_pairs import Relation as PairRelation
from unisono.accounting.theorems import amplify_by_sampling
from unisono.core.events import (
    Composed,
    DiscreteGaussian,
    Event,
    Everyone,
    Gaussian,
    GaussianRun,
    Laplace,
    NoNoise,
    NormNoise,
    Poisson,
    RandomizedResponse,
    RandomStopping,
    Selection,
    Skellam,
    WithoutReplacement,
)
from unisono.core.kinds import Law
from unisono.core.trust import Relation
from unisono.errors import ConditionViolated, UndefinedRelation, UnknownEvent

# The bound for fixed-size subsets sums over all orders below; beyond this one it takes seconds.
_LARGEST_SUBSET_ORDER = 128
# Where a privacy profile is asked for a trade-off function: any points give a valid one.
_PROFILE = np.concatenate([[0.0], np.geomspace(4e-3, 12, 24)])
# Without sampling a pair knows how far apart two values are, whatever the relation.
_DISTANCE: PairRelation = "add-or-remove"


class Cost(NamedTuple):
    """What theory knows of one law: functions of an event and a relation, None where it has no
    such form.

    `mu`: the event is exactly, or is dominated by, a Gaussian pair N(0, 1), N(mu, 1); without
    sampling only. `pure`: epsilon at delta 0, before sampling. `pair`: a dominating pair, with
    sampling; of a law that has `pure` and no pair of its own it follows from that. `curve`: a bound
    on the Rényi divergence at whole orders, with sampling; it too may follow from the others.
    """

    mu: Callable[[Event, Relation], float | None] = lambda event, relation: None
    pure: Callable[[Event, Relation], float | None] = lambda event, relation: None
    pair: Callable[[Event, Relation], Pair | None] = lambda event, relation: None
    curve: Callable[[Event, Relation, np.ndarray], np.ndarray | None] = (
        lambda event, relation, orders: None
    )


def gaussian_mu(event: Event, relation: Relation) -> float | None:
    """mu of an unsampled Gaussian, else None."""
    return _cost(event).mu(event, relation) if _rate(event) == 1 else None


class Square(NamedTuple):
    """mu^2 of a Gaussian pair, and a factor e^slack in every probability."""

    mu2: float
    slack: float = 0.0


@lru_cache(maxsize=65536)
def dominating_square(event: Event, relation: Relation, delta: float) -> Square | None:
    """mu^2 of a Gaussian pair that dominates an event, up to a factor of e^slack."""
    mu = gaussian_mu(event, relation)
    if mu is not None:
        return Square(mu * mu)
    if isinstance(event.noise, DiscreteGaussian) and isinstance(event.sampler, Everyone):
        return _discrete_gaussian_square(event.noise, event, relation, delta)
    return None


def _discrete_gaussian_square(
    noise: DiscreteGaussian, event: Event, relation: Relation, delta: float
) -> Square | None:
    """A discrete Gaussian of variance s^2 in d coordinates is, up to a factor of e^a in every
    probability, ``a <= 5 d e^{-2 pi^2 r}``, a draw of N(v, s^2 - r) that is rounded by a discrete
    Gaussian of variance r: the normaliser of the latter is constant up to 1 +- 2.1 e^{-2 pi^2 r} in
    each coordinate. So it costs k^2 / (s^2 - r) at distance k, and not k^2 / s^2, which does not
    dominate it. A sum of shares is one up to tau (Kairouz, Liu and Steinke 2021)."""
    d, s2 = noise.dimension, (noise.std / noise.grid) ** 2
    rounding = max(2.0, math.log(5 * d * 3.1e6 / delta) / (2 * math.pi**2))
    slack = 5 * d * math.exp(-2 * math.pi**2 * rounding)
    if noise.shares > 1:
        try:
            slack += d * integer_noise.divisibility_gap(math.sqrt(s2 / noise.shares), noise.shares)
        except ConditionViolated:
            return None
    if s2 <= 2 * rounding or slack > 1e-5 * delta:
        return None  # its Rényi curve is worth more
    distance = event.sensitivity.under(relation).in_norm("l2") / noise.grid
    return Square(distance**2 / (s2 - rounding), slack)


def pure_epsilon(event: Event, relation: Relation) -> float | None:
    """Epsilon of a pure mechanism before sampling, else None."""
    return _cost(event).pure(event, relation)


def sampled_pure_epsilon(event: Event, relation: Relation) -> float | None:
    """Epsilon of a pure mechanism with its sampling, else None."""
    _require_defined(event, relation)
    epsilon, rate = pure_epsilon(event, relation), _rate(event)
    if epsilon is None or rate == 1:
        return epsilon
    return _amplified(event, relation, epsilon, rate)


def pair(event: Event, relation: Relation) -> Pair | None:
    """A pair of distributions that dominates the event, if one is known."""
    _require_defined(event, relation)
    mu = gaussian_mu(event, relation)
    if mu is not None:
        return GaussianPair(mu)
    own = _cost(event).pair(event, relation)
    if own is not None:
        return own
    epsilon = sampled_pure_epsilon(event, relation)
    return None if epsilon is None else PurePair(epsilon)


def renyi_curve(event: Event, relation: Relation, orders: np.ndarray) -> np.ndarray | None:
    """An upper bound on the Rényi divergence at whole orders, if one is known."""
    mu = gaussian_mu(event, relation)
    if mu is not None:
        return renyi.gaussian(orders, mu)
    own = _cost(event).curve(event, relation, orders)
    if own is not None:
        return own
    epsilon = sampled_pure_epsilon(event, relation)
    return None if epsilon is None else renyi.pure(orders, epsilon)


# ------------------------------------------------------------------- the laws


def _gaussian_pair(event: Event, relation: Relation) -> Pair | None:
    noise = event.noise
    assert isinstance(noise, Gaussian)
    if not isinstance(event.sampler, Poisson):
        return None
    # Replace-one compares two sampled records, each of at most its zero-out norm.
    own = _own_norm(event, relation, "l2")
    return GaussianPair(own / noise.std, event.sampler.rate, relation.value)


def _gaussian_curve(event: Event, relation: Relation, orders: np.ndarray) -> np.ndarray | None:
    noise, distance = event.noise, event.sensitivity.under(relation)
    assert isinstance(noise, Gaussian)
    match event.sampler:
        case Poisson(rate) if relation is not Relation.REPLACE_ONE:
            return renyi.poisson_gaussian(orders, rate, noise.std / distance.in_norm("l2"))
        case WithoutReplacement(size, population) if relation is Relation.REPLACE_ONE:
            low = orders <= _LARGEST_SUBSET_ORDER
            curve = np.full(len(orders), np.inf)
            curve[low] = sampling_without_replacement.renyi_curve(
                orders[low], size, population, distance.in_norm("l2"), noise.std
            )
            return curve
    return None


def _laplace_pair(event: Event, relation: Relation) -> Pair | None:
    """A pair of its own, tighter than its epsilon, in any dimension; but not on an unknown grid."""
    noise, sampler = event.noise, event.sampler
    assert isinstance(noise, Laplace)
    if (noise.discrete and noise.grid is None) or isinstance(sampler, WithoutReplacement):
        return None
    own, rate, kind = event.sensitivity.under(relation).in_norm("l1"), 1.0, _DISTANCE
    if isinstance(sampler, Poisson):
        own, rate, kind = _own_norm(event, relation, "l1", noise.grid), sampler.rate, relation.value
    if noise.grid is None:
        return LaplacePair(own / noise.scale, rate, kind)
    return discrete_laplace_pair(_whole(own, noise.grid), noise.scale / noise.grid, rate, kind)


def _laplace_curve(event: Event, relation: Relation, orders: np.ndarray) -> np.ndarray | None:
    noise = event.noise
    assert isinstance(noise, Laplace)
    if (noise.discrete and noise.grid is None) or not isinstance(event.sampler, Everyone):
        return None
    distance = event.sensitivity.under(relation).in_norm("l1")
    if noise.grid is None:
        return renyi.laplace(orders, distance / noise.scale)
    units, scale = _whole(distance, noise.grid), noise.scale / noise.grid
    # The second is the better one on a coarse grid.
    return np.minimum(
        renyi.laplace(orders, continuous_epsilon(units, scale)), renyi.pure(orders, units / scale)
    )


def _skellam_curve(event: Event, relation: Relation, orders: np.ndarray) -> np.ndarray | None:
    noise, distance = event.noise, event.sensitivity.under(relation)
    assert isinstance(noise, Skellam)
    if not isinstance(event.sampler, Everyone):
        return None
    l1, l2 = distance.in_norm("l1") / noise.grid, distance.in_norm("l2") / noise.grid
    return integer_noise.skellam(orders, (noise.std / noise.grid) ** 2, l1, l2)


def _discrete_gaussian_curve(
    event: Event, relation: Relation, orders: np.ndarray
) -> np.ndarray | None:
    noise, distance = event.noise, event.sensitivity.under(relation)
    assert isinstance(noise, DiscreteGaussian)
    if not isinstance(event.sampler, Everyone):
        return None
    l1, l2 = distance.in_norm("l1") / noise.grid, distance.in_norm("l2") / noise.grid
    share = noise.std / noise.grid / math.sqrt(noise.shares)
    return integer_noise.distributed_discrete_gaussian(
        orders, share, noise.shares, l1, l2, noise.dimension
    )


def _ratio(event: Event, relation: Relation) -> float:
    """Sensitivity, in the norm of the law, over the size of the noise."""
    return event.sensitivity.under(relation).in_norm(event.noise.norm) / event.noise.size


def _response_epsilon(event: Event, relation: Relation) -> float:
    event.sensitivity.under(relation)  # refuses a relation under which an answer has none
    return event.noise.size


def _stopping_mu(event: Event, relation: Relation) -> float | None:
    """That of the worst option, where there is one run and all options are Gaussian."""
    law = event.noise
    assert isinstance(law, RandomStopping)
    mus = [_option_mu(option, relation) for option in law.options]
    known = [mu for mu in mus if mu is not None]
    return max(known) if law.most == 1 and len(known) == len(mus) else None


def _option_mu(option: Composed, relation: Relation) -> float | None:
    found = [(gaussian_mu(event, relation), count) for event, count in option.parts]
    squares = [count * mu * mu for mu, count in found if mu is not None]
    if len(squares) < len(found):
        return None
    return math.sqrt(math.fsum(squares)) * (1 + 2.0**-50)


def _stopping_pure(event: Event, relation: Relation) -> float | None:
    law, total = event.noise, []
    assert isinstance(law, RandomStopping)
    for option in law.options:
        found = [(sampled_pure_epsilon(one, relation), count) for one, count in option.parts]
        known = [count * epsilon for epsilon, count in found if epsilon is not None]
        if len(known) < len(found):
            return None
        total.append(math.fsum(known))
    return max(total) + random_stopping.pure_growth(law.weights, max(total))


def _stopping_curve(event: Event, relation: Relation, orders: np.ndarray) -> np.ndarray | None:
    """See `random_stopping`. Gap and slack of the options are counted by whoever asks: here they
    are those of the laws that were meant."""
    law, curves = event.noise, []
    assert isinstance(law, RandomStopping)
    for option in law.options:
        found = [(renyi_curve(one, relation, orders), count) for one, count in option.parts]
        known = [(curve, count) for curve, count in found if curve is not None]
        if len(known) < len(found):
            return None
        curves.append(renyi.compose([curve for curve, _ in known], [n for _, n in known]))
    own: np.ndarray = np.max(curves, axis=0)
    return own + random_stopping.growth(orders, law.weights, _trade_off(law, relation))


def _trade_off(law: RandomStopping, relation: Relation) -> random_stopping.Curve:
    """That of one run."""
    mus = [_option_mu(option, relation) for option in law.options]
    known = [mu for mu in mus if mu is not None]
    if len(known) == len(mus):
        return random_stopping.gaussian_trade_off(max(known))
    from unisono.accounting.curve import PrivacyCurve  # which asks for what stands here

    curves = [PrivacyCurve(option, relation) for option in dict.fromkeys(law.options)]
    deltas = [[curve.ideal_delta(float(epsilon)) for epsilon in _PROFILE] for curve in curves]
    return random_stopping.supported_trade_off(_PROFILE, np.max(deltas, axis=0))


_GAUSSIAN = Cost(mu=_ratio, pair=_gaussian_pair, curve=_gaussian_curve)
COSTS: dict[type[Law], Cost] = {
    Gaussian: _GAUSSIAN,
    GaussianRun: _GAUSSIAN,
    Laplace: Cost(pure=_ratio, pair=_laplace_pair, curve=_laplace_curve),
    NormNoise: Cost(pure=_ratio),
    Selection: Cost(pure=_ratio),
    RandomizedResponse: Cost(pure=_response_epsilon),
    RandomStopping: Cost(mu=_stopping_mu, pure=_stopping_pure, curve=_stopping_curve),
    Skellam: Cost(curve=_skellam_curve),
    DiscreteGaussian: Cost(curve=_discrete_gaussian_curve),
    NoNoise: Cost(),
}


def _cost(event: Event) -> Cost:
    """By exact type: what is derived from a known law has another law, and unknown is not free."""
    cost = COSTS.get(type(event.noise))
    if cost is None:
        raise UnknownEvent(
            f"no accountant knows {type(event.noise).__name__} noise: its cost must be proved in "
            "unisono.accounting.law_costs first"
        )
    return cost


# ------------------------------------------------------------------- details


def unknown(event: Event, relation: Relation) -> UnknownEvent:
    """The error for an event no accountant can express."""
    return UnknownEvent(
        f"no accountant knows {type(event.noise).__name__} noise with "
        f"{type(event.sampler).__name__} sampling under {relation!s}: use Gaussian noise with "
        "Poisson sampling, or no sampling"
    )


def _require_defined(event: Event, relation: Relation) -> None:
    if isinstance(event.sampler, WithoutReplacement) and relation is not Relation.REPLACE_ONE:
        raise UndefinedRelation(
            f"a subset of fixed size has a guarantee under replace-one only, not {relation!s}: "
            "the size of the population is public"
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


def _whole(distance: float, grid: float) -> int:
    """How many steps of its grid a value on it moves at most, whatever rounding did to either."""
    return max(1, math.floor(distance / grid * (1 + 2.0**-40)))


def _own_norm(event: Event, relation: Relation, norm: str, grid: float | None = None) -> float:
    """The norm of one record's own contribution, which sampling amplifies; half of what a record
    moves when it is replaced is a whole number of steps of a `grid`, too."""
    if relation is Relation.REPLACE_ONE and event.sensitivity.zero_out is None:
        raise UndefinedRelation(
            "sampling under replace-one needs a bound on a single record's contribution: "
            "release a sum of clipped records"
        )
    own = event.sensitivity.under(
        Relation.ZERO_OUT if relation is Relation.REPLACE_ONE else relation
    ).in_norm(norm)
    if relation is Relation.REPLACE_ONE:
        replaced = event.sensitivity.under(relation).in_norm(norm)
        if grid is not None:
            replaced = grid * 2 * math.ceil(_whole(replaced, grid) / 2)
        own = max(own, replaced / 2)
    return own
