"""Laplace noise by its own loss: brute force, independent accountants, neighbours, an audit.

What is drawn is discrete noise on a grid, in several coordinates, sampled or not; each claim is
compared with all outcomes listed, so that a factor of two, a step or a coordinate is noticed.
"""

import itertools
import math

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.accounting.laplace_pairs import (
    LARGEST_LISTED,
    DiscreteLaplacePair,
    continuous_epsilon,
    discrete_laplace_pair,
)
from unisono.accounting.law_costs import pair, renyi_curve
from unisono.accounting.pairs import PurePair
from unisono.accounting.pld import compose
from unisono.accounting.shift_pairs import LaplacePair
from unisono.attacks.audit import audit
from unisono.attacks.trade_off import error_bounds, trade_off
from unisono.core.costs import everyone
from unisono.core.events import (
    Event,
    Gaussian,
    Laplace,
    Poisson,
    RandomizedResponse,
    WithoutReplacement,
    bounded_sum,
    event_from_json,
    event_to_json,
)
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.release import noise_steps
from unisono.core.trust import Relation
from unisono.errors import (
    BudgetExceeded,
    GrantMisused,
    InvalidInput,
    UndefinedRelation,
    UnknownEvent,
)
from unisono.mechanisms import laplace

dp_accounting = pytest.importorskip("dp_accounting")
peer = dp_accounting.pld.privacy_loss_distribution

ADD, REPLACE, ZERO = Relation.ADD_OR_REMOVE, Relation.REPLACE_ONE, Relation.ZERO_OUT
ONE = bounded_sum(l1=1.0, l2=1.0, linf=1.0)


def discrete(scale, moved):
    """Probabilities of discrete Laplace noise around `moved`, far into both tails."""
    reach = int(36 * scale) + 8
    ratio = math.exp(-1 / scale)
    return (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-reach, reach + 1) - moved)


def in_space(scale, moved):
    """The same of a vector, a coordinate for each number of `moved`."""
    law = np.ones(1)
    for one in moved:
        law = np.multiply.outer(law, discrete(scale, one)).ravel()
    return law


def hockey_stick(upper, lower, epsilon):
    return float(np.maximum(upper - math.exp(epsilon) * lower, 0).sum())


# ------------------------------------------------------------------ one release


@pytest.mark.parametrize("relation", ["add-or-remove", "replace-one"])
@pytest.mark.parametrize("rate", [1.0, 0.3])
@pytest.mark.parametrize(("units", "scale"), [(1, 0.7), (2, 3.0), (5, 4.0), (12, 6.0)])
def test_the_pair_is_the_noise_that_is_drawn(units, scale, rate, relation):
    found = DiscreteLaplacePair(units, scale, rate, relation)
    upper = (1 - rate) * discrete(scale, 0) + rate * discrete(scale, units)
    lower = discrete(scale, 0)
    if relation == "replace-one":
        lower = (1 - rate) * lower + rate * discrete(scale, -units)
    for epsilon in np.linspace(0.0, 2.2 * units / scale, 23):
        expected = hockey_stick(upper, lower, epsilon), hockey_stick(lower, upper, epsilon)
        assert found.hockey_stick(epsilon) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize(
    ("scale", "split"),
    [
        *itertools.product([0.7, 1.5, 4.0], [(1, 1), (1, 2), (2, 2), (-1, 3)]),
        (0.7, (1, -1, 1)),
    ],
)
def test_one_coordinate_is_the_worst_case(scale, split):
    """Every split of the same l1 distance, at every ratio, in both orders; a pair one step closer
    would be exceeded by each."""
    units = sum(map(abs, split))
    moved, still = in_space(scale, split), in_space(scale, (0,) * len(split))
    one, closer = DiscreteLaplacePair(units, scale), DiscreteLaplacePair(units - 1, scale)
    exceeds = False
    for epsilon in np.linspace(0.0, units / scale, 60):
        for truth in (hockey_stick(moved, still, epsilon), hockey_stick(still, moved, epsilon)):
            assert truth <= one.hockey_stick(epsilon)[0] + 1e-13
            exceeds |= truth > closer.hockey_stick(epsilon)[0] + 1e-6
    assert exceeds


@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_one_coordinate_is_the_worst_case_of_samples(rate):
    """A sampled record against none, and against another, each within l1 distance 3 of nothing."""
    scale, still = 2.0, in_space(2.0, (0, 0))
    added = DiscreteLaplacePair(3, scale, rate)
    replaced = DiscreteLaplacePair(3, scale, rate, "replace-one")
    records = [v for v in itertools.product(range(-3, 4), repeat=2) if abs(v[0]) + abs(v[1]) <= 3]
    worlds = {v: (1 - rate) * still + rate * in_space(scale, v) for v in records}
    attained = 0.0
    for epsilon in (0.0, 0.1, 0.4, 1.0):
        ratio = math.exp(epsilon)
        forward, reverse = added.hockey_stick(epsilon)
        either = replaced.hockey_stick(epsilon)[0]
        for world in worlds.values():
            assert np.maximum(world - ratio * still, 0).sum() <= forward + 1e-13
            assert np.maximum(still - ratio * world, 0).sum() <= reverse + 1e-13
        for v in records[:: 3 if rate < 0.5 else 4]:
            for w in ((3, 0), (0, -3), (-1, 2), (0, 0)):
                found = float(np.maximum(worlds[v] - ratio * worlds[w], 0).sum())
                assert found <= either + 1e-13
                attained = max(attained, found / max(either, 1e-9))
    assert attained > 0.9


@pytest.mark.parametrize(("units", "scale"), [(1, 0.5), (2, 2.0), (7, 3.0), (40, 25.0)])
def test_continuous_noise_moved_a_little_further_dominates(units, scale):
    distance = continuous_epsilon(units, scale)
    spare = distance - units / scale
    below, exceeded = LaplacePair(distance), False
    for epsilon in np.linspace(0.0, 1.01 * units / scale, 997):
        truth = DiscreteLaplacePair(units, scale).hockey_stick(epsilon)[0]
        assert truth <= below.hockey_stick(epsilon)[0] + 1e-14
        exceeded |= truth > LaplacePair(distance - 0.02 * spare).hockey_stick(epsilon)[0] + 1e-12
    assert exceeded  # no smaller distance would do: neither n/s nor anything just above it


def test_which_pair_is_chosen():
    assert discrete_laplace_pair(1, 2.0) == PurePair(0.5)
    assert isinstance(discrete_laplace_pair(LARGEST_LISTED, 50.0), DiscreteLaplacePair)
    assert isinstance(discrete_laplace_pair(LARGEST_LISTED + 1, 50.0), LaplacePair)
    assert discrete_laplace_pair(1000, 1.0) is None
    listed = DiscreteLaplacePair(LARGEST_LISTED, 50.0)
    above = LaplacePair(continuous_epsilon(LARGEST_LISTED, 50.0))
    for found, other in zip(
        compose([(listed, 20)]).epsilon(1e-6), compose([(above, 20)]).epsilon(1e-6), strict=True
    ):
        assert found == pytest.approx(other, rel=2e-4)
    for build in (
        lambda: DiscreteLaplacePair(0, 1.0),
        lambda: DiscreteLaplacePair(1, 0.0),
        lambda: DiscreteLaplacePair(1, 1.0, 0.0),
        lambda: DiscreteLaplacePair(1, 1.0, 0.5, "swap"),
    ):
        with pytest.raises(InvalidInput):
            build()


# ------------------------------------------------------------------ from events


def on_grid(units, scale, sampler=None, dimension=1):
    """A sum of records of l1 norm 1, in so many steps of a grid; the scale in steps, too."""
    rest = () if sampler is None else (sampler,)
    return Event(Laplace(scale / units, dimension, grid=1 / units), ONE, *rest)


def test_events_are_counted_in_steps_of_their_grid():
    assert pair(on_grid(8, 20.0), ADD) == DiscreteLaplacePair(8, 20.0)
    assert pair(on_grid(8, 20.0), REPLACE) == DiscreteLaplacePair(16, 20.0)
    sampled = pair(on_grid(8, 20.0, Poisson(0.1)), REPLACE)
    assert sampled == DiscreteLaplacePair(8, 20.0, 0.1, "replace-one")
    thirds = Event(Laplace(1.0, grid=0.1), bounded_sum(l1=0.3))  # 0.3 / 0.1 is below 3 in doubles
    assert pair(thirds, ADD).units == 3
    coarse = Event(Laplace(1.0, grid=1.0), bounded_sum(l1=1.7))  # whole numbers move by 1, or 3
    assert (pair(coarse, ADD), pair(coarse, REPLACE).units) == (PurePair(1.0), 3)
    odd = Event(Laplace(1.0, grid=1.0), bounded_sum(l1=1.7), Poisson(0.5))
    assert pair(odd, REPLACE).units == 2
    assert pair(Event(Laplace(2.0, 50), ONE), ADD) == LaplacePair(0.5)  # in any dimension
    assert pair(on_grid(8, 20.0, WithoutReplacement(1, 10)), REPLACE).epsilon < 0.2
    with pytest.raises(UndefinedRelation, match="replace-one only"):
        PrivacyCurve(on_grid(8, 20.0, WithoutReplacement(1, 10)) * 1, ADD).epsilon(0.0)


def test_of_an_unknown_grid_only_epsilon_is_known():
    """Ledgers of earlier versions do not name it, and any grid may have been meant."""
    document = {
        "noise": {"kind": "laplace", "scale": 2.0, "dimension": 1, "discrete": True},
        "unit": "record",
        "sensitivity": {"add-or-remove": {"l1": 1.0}},
        "sampler": {"kind": "everyone"},
    }
    earlier = event_from_json(document)
    assert event_to_json(earlier) == document
    assert pair(earlier, ADD) == PurePair(0.5)
    known = on_grid(8, 16.0)
    assert event_from_json(event_to_json(known)) == known
    spent = [PrivacyCurve(event * 30, ADD).epsilon(1e-5) for event in (earlier, known)]
    assert spent[1] < 0.95 * spent[0]
    assert PrivacyCurve(on_grid(1, 2.0) * 30, ADD).epsilon(1e-5) == pytest.approx(spent[0])


def test_noise_is_drawn_on_the_grid_that_was_accounted():
    event = on_grid(8, 20.0)
    assert noise_steps(bytes(32), event, 1 / 8, (1,), 1).shape == (1,)
    with pytest.raises(GrantMisused, match=r"grid 0\.125, released on 0\.25"):
        noise_steps(bytes(32), event, 1 / 4, (1,), 1)
    with pytest.raises(UnknownEvent, match=r"name its grid, as in Laplace\(2, 1, grid=0\.25\)"):
        noise_steps(bytes(32), Event(Laplace(2.0), ONE), 1 / 4, (1,), 1)


def test_beyond_the_pure_epsilon_delta_is_nothing():
    for event in (on_grid(8, 20.0), on_grid(1000, 2000.0), on_grid(8, 20.0, Poisson(0.2))):
        curve = PrivacyCurve(event * 3, ADD)
        assert curve.epsilon(1e-9) <= curve.epsilon(0.0) < math.inf
        assert curve.delta(curve.epsilon(0.0)) == 0
        assert curve.delta(0.99 * curve.epsilon(0.0)) > 1e-6


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("units", [1, 2, 9, 300])
def test_renyi_bounds_are_above_the_noise(units, relation):
    orders = np.array([2.0, 3.0, 8.0, 50.0])
    event = on_grid(units, 1.5 * units)
    moved = units * (2 if relation is REPLACE else 1)
    upper, lower = DiscreteLaplacePair(moved, 1.5 * units).masses()
    exact = [math.log(np.sum(upper**a * lower ** (1 - a))) / (a - 1) for a in orders]
    found = renyi_curve(event, relation, orders)
    assert np.all(found >= np.array(exact) * (1 - 1e-12))
    assert np.all(found <= np.array(exact) * 1.1)


# ------------------------------------------------------------------ compositions


@pytest.mark.parametrize(
    ("units", "rate", "relation", "count", "epsilon"),
    [
        (1, 1.0, ADD, 30, 12.984),
        (2, 1.0, ADD, 30, 12.457),
        (8, 1.0, ADD, 30, 12.223),
        (1024, 1.0, ADD, 30, 12.205),
        (3, 0.1, ADD, 30, 0.982),
        (3, 0.1, REPLACE, 30, 1.8105),
        (3, 0.1, ZERO, 30, 0.982),
    ],
)
def test_what_thirty_releases_cost(units, rate, relation, count, epsilon):
    """Of scale twice the bound, on grids of so many steps to it, at delta 1e-5."""
    event = on_grid(units, 2.0 * units, None if rate == 1.0 else Poisson(rate))
    assert PrivacyCurve(event * count, relation).epsilon(1e-5) == pytest.approx(epsilon, abs=6e-4)


def convolved(units, scale, count, epsilon):
    """Delta of a composition, by adding up all losses: multiples of 1 / scale."""
    upper, lower = (discrete(scale, moved) for moved in (units, 0))
    steps = np.rint(np.log(upper / lower) * scale).astype(int)
    law = np.bincount(steps + units, weights=upper)
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, law)
    losses = (np.arange(len(total)) - units * count) / scale
    return float(np.sum(total * np.maximum(-np.expm1(epsilon - losses), 0)))


@pytest.mark.parametrize(
    ("units", "scale", "count"), [(2, 4.0, 30), (3, 20.0, 100), (16, 16.0, 8), (40, 200.0, 60)]
)
def test_compositions_against_convolution(units, scale, count):
    found = compose([(DiscreteLaplacePair(units, scale), count)]).epsilon(1e-6)
    assert convolved(units, scale, count, found.upper) <= 1e-6 * (1 + 1e-9)
    assert convolved(units, scale, count, found.lower) >= 1e-6 * (1 - 1e-9)
    assert found.width < 2e-3
    assert convolved(units, scale / 2, count, found.upper) > 1e-3  # half the noise is noticed


@pytest.mark.parametrize(("units", "rate", "count"), [(1, 1.0, 30), (4, 1.0, 50), (4, 0.1, 40)])
def test_discrete_laplace_agrees_with_dp_accounting(units, rate, count):
    scale = 2.0 * units
    law = peer.from_discrete_laplace_mechanism(
        1 / scale,
        units,
        sampling_prob=rate,
        value_discretization_interval=2e-4,
        use_connect_dots=True,
    ).self_compose(count)
    expected = law.get_epsilon_for_delta(1e-6)
    sampler = None if rate == 1.0 else Poisson(rate)
    found = PrivacyCurve(on_grid(units, scale, sampler) * count, ADD).epsilon(1e-6)
    assert found == pytest.approx(expected, abs=2e-3)
    wrong = PrivacyCurve(on_grid(units, scale / 2, sampler) * count, ADD).epsilon(1e-6)
    assert wrong > 1.5 * expected


def mixture(seed, pure):
    """Random releases, ours and as functions that make theirs; `pure`: Laplace by its epsilon."""
    generator = np.random.default_rng(seed)
    parts = []
    for _ in range(generator.integers(1, 3)):  # Laplace noise, on a grid or continuous
        scale, count = float(generator.uniform(1.0, 12.0)), int(generator.integers(3, 40))
        units, dimension = int(generator.choice([0, 2, 5, 128])), int(generator.integers(1, 9))
        law = Laplace(scale, dimension, grid=1 / units if units else None)
        law = Laplace(scale, dimension, discrete=True) if pure else law
        if units:
            make = (peer.from_discrete_laplace_mechanism, 1 / (units * scale), units)
        else:
            make = (peer.from_laplace_mechanism, scale)
        parts.append((Event(law, ONE) * count, make, {}, count))
    if generator.random() < 0.6:
        std, count = float(generator.uniform(3.0, 9.0)), int(generator.integers(1, 6))
        parts.append(
            (Event(Gaussian(std), ONE) * count, (peer.from_gaussian_mechanism, std), {}, count)
        )
    if generator.random() < 0.6:
        std, rate = float(generator.uniform(0.8, 2.0)), float(generator.uniform(0.01, 0.1))
        event, count = Event(Gaussian(std), ONE, Poisson(rate)), int(generator.integers(5, 50))
        sampled = {"sampling_prob": rate}
        parts.append((event * count, (peer.from_gaussian_mechanism, std), sampled, count))
    if generator.random() < 0.6:
        epsilon, count = float(generator.uniform(0.05, 0.4)), int(generator.integers(1, 9))
        lies = 2 / (1 + math.exp(epsilon))
        make = (peer.from_randomized_response, lies, 2)
        parts.append((Event(RandomizedResponse(epsilon), ONE) * count, make, {}, count))
    return parts


def independent(parts, delta, pessimistic):
    total = None
    for _, (make, *sizes), options, count in parts:
        options = {"pessimistic_estimate": pessimistic, **options}
        if make is not peer.from_randomized_response:
            options["use_connect_dots"] = pessimistic
        law = make(*sizes, value_discretization_interval=5e-4, **options).self_compose(count)
        total = law if total is None else total.compose(law)
    return total.get_epsilon_for_delta(delta)


def ours(parts, delta):
    history = parts[0][0]
    for part, *_ in parts[1:]:
        history = history + part
    return PrivacyCurve(history, ADD).epsilon(delta)


@pytest.mark.parametrize("seed", range(20))
def test_mixtures_are_within_a_thousandth_of_an_independent_bracket(seed):
    """The aim is 1 % above a bracket that others certify; measured: .003 %, and never below it."""
    parts = mixture(seed, pure=False)
    low, high = (independent(parts, 1e-6, pessimistic) for pessimistic in (False, True))
    assert low - 1e-9 <= ours(parts, 1e-6) <= 1.001 * high


def test_by_their_epsilons_mixtures_would_be_above_it():
    """That the test above can fail: of an unknown grid, six of these are charged 4 to 8 % more."""
    for seed in (4, 9, 14, 15, 17, 18):
        charged = ours(mixture(seed, pure=True), 1e-6)
        assert 1.03 < charged / ours(mixture(seed, pure=False), 1e-6) < 1.09


# ------------------------------------------------------------------ audits and ledgers


def losses(event, distance, claimed, runs, rounds, seed):
    """Privacy losses of what is really drawn, of neighbours whose first number differs."""
    grid, dimension = event.noise.grid, event.noise.dimension
    worlds = []
    for world, moved in enumerate((distance, 0)):
        shape = (runs * rounds, dimension)
        key = np.random.default_rng([seed, world]).bytes(32)
        seen = noise_steps(key, event, grid, shape, 1, (dimension,))[:, 0] + moved
        loss = (np.abs(seen) - np.abs(seen - distance)) / claimed
        worlds.append(loss.reshape(runs, rounds).sum(axis=1))
    return worlds


def test_an_audit_of_drawn_noise_refutes_half_of_it_only():
    """Twenty releases of three numbers: the curve of the composition holds for the noise that is
    drawn (a stated rate of 2.5 % a run; more than 4 of 40 has chance .3 %) and not for half."""
    units, scale, rounds, delta = 4, 30.0, 20, 1e-5
    event = on_grid(units, scale, dimension=3)
    curve = trade_off(PrivacyCurve(event * rounds, ADD), delta)

    def refuted(drawn, seed):
        negative = error_bounds(audit(*losses(drawn, units, scale, 500, rounds, seed), delta))
        return negative[1] < curve(negative[0])

    assert sum(refuted(event, seed) for seed in range(40)) <= 4
    narrow = on_grid(units, scale / 2, dimension=3)
    assert sum(refuted(narrow, seed) for seed in range(40, 60)) >= 15


def test_a_ledger_has_room_for_more_statistics():
    """Releases at pure epsilon .2 that a budget of (10, 1e-6) admits, on a known or on any grid."""

    def admitted(grid):
        ledger = Ledger.in_memory(Policy("ages", Budget(10.0, 1e-6)), ACCOUNTANT, seed=1)
        event = laplace.calibrate(ONE, REPLACE, 0.2, grid=grid)
        for number in range(1000):
            try:
                ledger.authorize(everyone(event * 1))
            except BudgetExceeded:
                return number
        raise AssertionError("the budget has no end")

    assert admitted(2.0**-8) > admitted(None) > 10.0 / 0.2
