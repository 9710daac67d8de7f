"""The best of a random number of runs: the bound, against what can be computed without it.

The law of the best run is computed exactly for runs with finitely many outcomes, and for runs that
show a Gaussian number, which is its own score. No bound may be below it, and it is not far above.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from unisono.accounting import gaussian, random_stopping, renyi
from unisono.accounting.curve import PrivacyCurve
from unisono.core.costs import counted
from unisono.core.events import (
    Composed,
    Event,
    Gaussian,
    NoNoise,
    Poisson,
    RandomizedResponse,
    RandomStopping,
    Sensitivity,
    bounded_sum,
    event_from_json,
    event_to_json,
)
from unisono.core.events import random_stopping as stopped
from unisono.core.trust import ITERATES, Relation, Unit
from unisono.errors import InvalidInput, UnknownEvent

ZERO = Relation.ZERO_OUT
BOUND = bounded_sum(l1=1.0, l2=1.0, linf=1.0)
ORDERS = np.array([1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 64.0])


def plain(mu):
    return Event(Gaussian(1 / mu), BOUND) * 1


def best_by_enumeration(run, weights):
    """P(the best outcome is y), by going through all sequences of runs; outcomes ascend."""
    found, total = np.zeros(len(run)), sum(weights)
    for number, weight in enumerate(weights, 1):
        for outcomes in itertools.product(range(len(run)), repeat=number):
            found[max(outcomes)] += weight / total * math.prod(run[y] for y in outcomes)
    return found


def best_of(run, weights):
    """The same by the generating function."""
    below = np.minimum(1.0, np.concatenate([[0.0], np.cumsum(run)]))
    chances = np.array(weights, float) / sum(weights)
    values = sum(p * below**k for k, p in enumerate(chances, 1))
    return np.diff(values)


def test_the_law_of_the_best_is_that_of_all_sequences():
    run = np.array([0.4, 0.35, 0.25])
    weights = RandomStopping((plain(1.0),), 5, 2).weights
    assert weights == (2, 3, 4, 5, 6)
    assert best_of(run, weights) == pytest.approx(best_by_enumeration(run, weights), abs=1e-14)


@pytest.mark.parametrize(("most", "shape"), [(2, 1), (10, 1), (40, 2), (40, 3)])
@pytest.mark.parametrize("outcomes", [2, 3, 8])
def test_no_finite_mechanism_shows_more(most, shape, outcomes):
    """Random pairs of neighbours that are e^ε apart at most, with their own exact profile."""
    generator = np.random.default_rng(most + shape + outcomes)
    weights = RandomStopping((plain(1.0),), most, shape).weights
    for _ in range(6):
        first = generator.dirichlet(np.ones(outcomes))
        tilt = np.exp(generator.uniform(-0.4, 0.4, outcomes))
        second = first * tilt / (first * tilt).sum()
        epsilons = np.linspace(0, 1.2, 40)
        deltas = [
            max(np.maximum(a - math.exp(e) * b, 0).sum() for a, b in two_ways(first, second))
            for e in epsilons
        ]
        curve = random_stopping.supported_trade_off(epsilons, np.array(deltas))
        added = random_stopping.growth(ORDERS, weights, curve)
        for order, more in zip(ORDERS, added, strict=True):
            own = max(renyi.divergence(order, a, b) for a, b in two_ways(first, second))
            exact = max(
                renyi.divergence(order, best_of(a, weights), best_of(b, weights))
                for a, b in two_ways(first, second)
            )
            assert exact <= own + more + 1e-12


def two_ways(first, second):
    return ((first, second), (second, first))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
@pytest.mark.parametrize(("most", "shape"), [(40, 1), (40, 2)])
def test_pure_epsilon_is_that_of_the_worst_pair_within_three_percent(epsilon, most, shape):
    """The worst order of outcomes has the best one rare: 2 + η times, as γ goes to 0."""
    event = stopped([Event(RandomizedResponse(epsilon), BOUND) * 1], most, shape)
    bound = PrivacyCurve(event * 1, ZERO).epsilon(0)
    worst = 0.0
    weights = event.noise.weights
    for rare in np.geomspace(1e-5, 0.1, 60):  # outcomes: the rest, a middle one and the best
        first = np.array([1 - rare * math.exp(epsilon) - rare, rare, rare * math.exp(epsilon)])
        second = np.array([0.0, rare * math.exp(epsilon), rare])
        second[0] = 1 - second.sum()
        if first.min() <= 0 or second.min() <= 0:
            continue
        ratio = np.abs(np.log(best_of(first, weights) / best_of(second, weights)))
        worst = max(worst, float(ratio.max()))
    assert worst <= bound
    assert bound <= (2 + shape) * epsilon * 1.03
    assert worst > (1 + 0.5 * shape) * epsilon  # far more than one run costs


def exact_delta(mu, weights, epsilon):
    """δ of the largest of K Gaussian numbers, N(0, 1) against N(μ, 1), the larger of both ways."""
    chances = np.array(weights, float) / sum(weights)
    factors = np.arange(1, len(weights) + 1) * chances

    def density(x, shift):
        at = stats.norm.cdf(x - shift)
        return stats.norm.pdf(x - shift) * np.polynomial.polynomial.polyval(at, factors)

    found = []
    for one, other in ((0.0, mu), (mu, 0.0)):
        points = np.linspace(-12, 12 + mu, 200_001)
        excess = np.maximum(density(points, one) - math.exp(epsilon) * density(points, other), 0)
        found.append(float(integrate.trapezoid(excess, points)))
    return max(found)


@pytest.mark.parametrize("mu", [0.1, 0.3, 1.0])
@pytest.mark.parametrize(("most", "shape"), [(10, 1), (40, 2)])
def test_the_largest_of_gaussian_numbers_is_within_the_bound_and_breaks_half_of_it(mu, most, shape):
    """An audit that would catch a factor of two: at half of the bound, delta is exceeded; and so it
    is where the choice is taken to cost nothing, as if there had been one run."""
    delta = 1e-6
    event = stopped([plain(mu)], most, shape)
    bound = PrivacyCurve(event * 1, ZERO).epsilon(delta)
    weights = event.noise.weights
    assert exact_delta(mu, weights, bound) <= delta
    assert exact_delta(mu, weights, bound / 2) > delta
    assert exact_delta(mu, weights, gaussian.epsilon(delta, mu)) > delta


def test_the_theorems_as_printed_agree_with_the_general_bound():
    """Theorem 2 at η = 1 (geometric law), with γ so large that no run beyond 1,000 matters: the
    general bound is never above the closed form, and not below the exact divergence."""
    mu, gamma, order = 0.3, 0.05, 12.0
    weights = [10**15 * (1 - gamma) ** k for k in range(1, 700)]
    rho = mu * mu / 2
    printed = min(
        random_stopping.published_negative_binomial(
            order, order * rho, 1.0, gamma, other, other * rho
        )
        for other in np.geomspace(1.01, 100, 200)
    )
    ours = order * rho + random_stopping.growth(
        np.array([order]), weights, random_stopping.gaussian_trade_off(mu)
    )
    assert ours[0] <= printed
    assert ours[0] > 0.6 * printed


def test_the_poisson_theorem_agrees_with_the_general_bound():
    mu, mean, order = 0.3, 10.0, 8.0
    weights = [10**15 * math.exp(k * math.log(mean) - math.lgamma(k + 1)) for k in range(1, 80)]
    delta = gaussian.delta(math.log1p(1 / (order - 1)), mu)
    printed = random_stopping.published_poisson(order, order * mu * mu / 2, mean, delta)
    ours = order * mu * mu / 2 + random_stopping.growth(
        np.array([order]), weights, random_stopping.gaussian_trade_off(mu)
    )
    # The closed form is the supremum itself here; cells of the grid cost half a percent.
    assert ours[0] == pytest.approx(printed, rel=0.01)
    assert ours[0] >= printed * (1 - 1e-4)  # K > 0 is given here: e^-10 of the mass


@pytest.mark.parametrize(
    ("epsilon", "most", "shape", "golden"),
    [(0.3, 40, 2, 0.6631), (1.0, 40, 1, 1.8476), (1.0, 40, 2, 2.1174), (3.0, 40, 2, 6.0523)],
)
def test_twenty_candidates_cost_about_twice_one_run(epsilon, most, shape, golden):
    event = stopped([plain(gaussian.mu_for(epsilon, 1e-6))], most, shape)
    found = PrivacyCurve(event * 1, ZERO).epsilon(1e-6)
    assert found == pytest.approx(golden, rel=1e-3)
    assert found < 3 * epsilon


def test_one_run_of_several_options_costs_what_the_worst_does():
    options = [plain(0.2), plain(0.4), plain(0.3)]
    one = stopped(options, 1)
    for delta in (1e-9, 1e-5):
        assert PrivacyCurve(one * 1, ZERO).epsilon(delta) == pytest.approx(
            gaussian.epsilon(delta, 0.4), rel=1e-9
        )
    assert PrivacyCurve(one * 9, ZERO).epsilon(1e-6) == pytest.approx(
        gaussian.epsilon(1e-6, 1.2), rel=1e-9
    )


def test_options_that_are_not_gaussian_are_bounded_by_their_profile():
    """Sampled Gaussians have no trade-off function in closed form; the profile of points gives one
    that costs a little more than it must."""
    sampled = Event(Gaussian(2.0), BOUND, Poisson(0.02)) * 50
    curve = PrivacyCurve(stopped([sampled, plain(0.01)], 20, 2) * 1, ZERO)
    run = PrivacyCurve(sampled, ZERO).epsilon(1e-6)
    assert run < curve.epsilon(1e-6) < 3 * run
    # A Gaussian by its profile costs what it does by its trade-off function, but for the points.
    points = np.concatenate([[0.0], np.geomspace(4e-3, 12, 24)])
    profile = np.array([gaussian.delta(float(e), 0.3) for e in points])
    weights = RandomStopping((plain(0.3),), 20, 2).weights
    orders = np.arange(2.0, 40.0)
    coarse = random_stopping.supported_trade_off(points, profile)
    assert random_stopping.growth(orders, weights, coarse) == pytest.approx(
        random_stopping.growth(orders, weights, random_stopping.gaussian_trade_off(0.3)), rel=0.03
    )


def test_gap_and_slack_count_for_every_run():
    noise = Gaussian(3.0, gap=1e-12, slack=1e-4)
    law = stopped([Event(noise, BOUND) * 2, plain(0.1)], 10).noise
    assert law.gap == pytest.approx(20e-12)
    assert law.slack == pytest.approx(20e-4)


def test_what_is_written_is_what_is_read_and_nothing_else_is_understood():
    event = stopped([plain(0.2) + plain(0.1), plain(0.4)], 12, 3)
    document = event_to_json(event)
    assert event_from_json(document) == event
    for change in ({"most": 0}, {"shape": 9}, {"options": []}, {"options": [[]]}):
        broken = {**document, "noise": {**document["noise"], **change}}
        with pytest.raises((InvalidInput, UnknownEvent)):
            event_from_json(broken)
    with pytest.raises((InvalidInput, UnknownEvent)):
        event_from_json({**document, "sensitivity": {"zero-out": {"linf": 0.001}}})
    with pytest.raises(InvalidInput, match="within random stopping"):
        stopped([event * 1], 2)


def test_whoever_sees_clean_values_sees_them_whatever_is_chosen():
    event = stopped([plain(0.2), Event(NoNoise(), BOUND) * 1], 3)
    assert event.noise.discloses
    assert math.isinf(PrivacyCurve(event * 1, ZERO).epsilon(1e-6))


def test_a_run_that_hides_parties_counts_for_records():
    party = bounded_sum(l2=1.0, unit=Unit.PARTY, hides_presence=False)
    event = stopped([Event(Gaussian(4.0), party) * 1], 5)
    [found] = counted({ITERATES: event * 1}, Unit.RECORD, Relation.REPLACE_ONE).values()
    [(own, _)] = found.parts
    assert own.sensitivity.unit is Unit.RECORD
    expected = stopped([Composed(own.noise.options[0].parts)], 5)
    assert own == expected
    with pytest.raises(InvalidInput, match="promises nothing"):
        counted({ITERATES: stopped([plain(0.2)], 5) * 1}, Unit.PARTY, Relation.ZERO_OUT)


def test_the_number_of_runs_has_the_law_that_is_accounted_for():
    """20,000 numbers and choices: chi-square tests at a false-alarm rate of 1e-6 each."""
    law = stopped([plain(0.2)] * 3, 8, 2).noise
    drawn = [law.drawn(number.to_bytes(32, "little"), 3) for number in range(20_000)]
    counts = np.bincount([k for k, _ in drawn], minlength=9)[1:]
    chances = np.array(law.weights) / sum(law.weights)
    assert stats.chisquare(counts, 20_000 * chances).pvalue > 1e-6
    options = np.bincount([o for _, chosen in drawn for o in chosen], minlength=3)
    assert stats.chisquare(options).pvalue > 1e-6
    assert stats.chisquare(counts, 20_000 * np.full(8, 1 / 8)).pvalue < 1e-6  # it would notice


def test_an_event_of_random_stopping_names_the_relations_of_its_options():
    only = Sensitivity(Unit.RECORD, zero_out=BOUND.zero_out)
    event = stopped([plain(0.2), Event(Gaussian(2.0), only) * 1], 4)
    assert event.sensitivity.relations == (ZERO,)
    with pytest.raises(InvalidInput, match="make the event with"):
        Event(event.noise, BOUND)
