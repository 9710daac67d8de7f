"""SGD1: a hidden order amplifies only against who does not know it (E004-5)."""

import math

import numpy as np
import pytest
from scipy import stats

from unisono.accounting import gaussian, hidden_order
from unisono.accounting import sampling_without_replacement as lots
from unisono.errors import InvalidInput


def published(target: float, records: int) -> tuple[float, float]:
    """delta = .5/n^3 and the sigma of eq. (3) for it."""
    delta = 0.5 / records**3
    return delta, hidden_order.published_sigma(target, delta, records, 1.0)


@pytest.mark.parametrize(
    ("target", "records", "true"),
    [
        (0.5, 300, 0.73),
        (0.5, 1000, 1.27),
        (0.5, 3000, 2.12),
        (0.99, 300, 1.50),
        (0.99, 1000, 2.61),
        (0.99, 3000, 4.37),
    ],
)
def test_who_knows_the_order_gains_from_no_amplification(target, records, true):
    delta, sigma = published(target, records)
    found = hidden_order.known_order_epsilon(delta, records, 1.0, sigma)
    assert found == pytest.approx(true, abs=6e-3)
    assert found > target
    assert hidden_order.known_order_delta(found, records, 1.0, sigma) <= delta


@pytest.mark.parametrize(("target", "threshold"), [(0.5, 132), (0.99, 120)])
def test_the_claim_is_violated_from_about_these_sizes(target, threshold):
    for records, violated in ((threshold - 3, False), (threshold + 1, True)):
        delta, sigma = published(target, records)
        found = hidden_order.known_order_epsilon(delta, records, 1.0, sigma)
        assert (found > target) is violated


@pytest.mark.parametrize(("records", "epsilon"), [(100, 0.088), (1000, 0.0845)])
def test_who_does_not_know_the_order(records, epsilon):
    """E004-5 (i): .085-.088 and .084 by the grid of orders; a longer grid is a little tighter."""
    delta, sigma = published(0.5, records)
    found = hidden_order.without_order_epsilon(delta, records, 1.0, sigma)
    assert 0.85 * epsilon < found < epsilon
    short = np.arange(2, 257)
    mu = 2 * records / sigma
    by_short_grid = lots.epsilon(delta, records**2, 1, records, mu, 1.0, short)
    assert found <= by_short_grid * (1 + 1e-4)


def test_longer_grids_of_orders_reach_the_errata_value():
    delta, sigma = published(0.5, 1000)
    grid = np.arange(2, 513)
    assert lots.epsilon(delta, 10**6, 1, 1000, 2000 / sigma, 1.0, grid) == pytest.approx(
        0.08, abs=5e-3
    )


def test_repaired_proof_of_theorem_1():
    """E004-5 (i): eps (1 + eps0) sqrt(r) + eps^2 (1 + eps0)^2 / (4 l) <= .91 eps at n = 100."""
    records, epsilon = 100, 0.5
    delta, sigma = published(epsilon, records)
    level = math.log(1.25 * records**2 / delta)
    start = epsilon / math.sqrt(2 * level)
    # E004-3: under replace-one eq. (3) gives eps / sqrt(2 l), not eps / (2 sqrt log 1/delta).
    exact = 2 * records * math.sqrt(2 * math.log(1.25 * records**2 / delta)) / sigma
    assert start == pytest.approx(exact)
    assert start > epsilon / (2 * math.sqrt(math.log(1 / delta)))
    ratio = math.log(1 / (delta * (1 - 1 / records))) / level
    total = epsilon * (1 + start) * math.sqrt(ratio) + (epsilon * (1 + start)) ** 2 / (4 * level)
    assert total <= 0.91 * epsilon
    assert hidden_order.without_order_epsilon(delta, records, 1.0, sigma) < total


def test_equation_6():
    """E004-2: n = 1000, delta = 5e-10 -> 7.9e-4."""
    found = hidden_order.published_equation6_delta(5e-10, 1000)
    assert found == pytest.approx(7.9e-4, rel=0.01)
    assert found >= (5e-10) ** (1 / 3)


@pytest.mark.parametrize(("trials", "probability"), [(1, 1.0), (4, 0.5), (90_000, 1 / 300)])
def test_binomial_weights(trials, probability):
    values, mass = hidden_order._binomial(trials, probability)
    np.testing.assert_allclose(
        mass, stats.binom.pmf(values, trials, probability), rtol=1e-7, atol=1e-30
    )
    assert mass.sum() == pytest.approx(1)


def test_known_order_by_direct_summation():
    records, sigma = 6, 40.0
    steps = records**2
    direct = sum(
        stats.binom.pmf(k, steps, 1 / records)
        * (gaussian.delta(0.7, math.sqrt(k) * 2 * records / sigma) if k else 0.0)
        for k in range(steps + 1)
    )
    assert hidden_order.known_order_delta(0.7, records, 1.0, sigma) == pytest.approx(
        direct, rel=1e-9
    )


def test_cap_holds_against_a_coordinator_who_names_one_record():
    """X-10: mu = sqrt(k_max) 2 n L / sigma; n passes cost sqrt(n) 2 n L / sigma."""
    assert hidden_order.capped_mu(9, 100, 0.5, 300.0) == pytest.approx(1.0)
    delta, sigma = published(0.5, 300)
    fair = hidden_order.known_order_epsilon(delta, 300, 1.0, sigma)
    at_mean = gaussian.epsilon(delta, hidden_order.capped_mu(300, 300, 1.0, sigma))
    at_all = gaussian.epsilon(delta, hidden_order.capped_mu(90_000, 300, 1.0, sigma))
    assert at_mean < fair < at_all


def test_views_are_ordered():
    """Hidden <= parties visible <= order known, and each end is reached."""
    records = 100
    delta, sigma = published(0.5, records)
    hidden = hidden_order.without_order_epsilon(delta, records, 1.0, sigma)
    known = hidden_order.known_order_epsilon(delta, records, 1.0, sigma)
    visible = [
        hidden_order.visible_parties_epsilon(delta, records, own, 1.0, sigma)
        for own in (100, 50, 10, 1)
    ]
    assert hidden == pytest.approx(visible[0], rel=1e-6)
    assert visible == sorted(visible)
    assert visible[-1] == known
    assert hidden < known
    again = hidden_order.visible_parties_delta(visible[2], records, 10, 1.0, sigma)
    assert again <= delta
    assert again == pytest.approx(delta, rel=1e-6)


def test_visible_parties_bins_are_pessimistic():
    """A record of a party with 2 of 4: exact average over the binomial by the same bound."""
    records, own, sigma = 4, 2, 60.0
    mu = 2 * records / sigma
    curve = lots.renyi_curve(lots.ORDERS, 1, own, mu, 1.0)
    from unisono.accounting import renyi

    direct = sum(
        stats.binom.pmf(k, 16, 0.5) * renyi.delta(lots.ORDERS, k * curve, 1.0) for k in range(17)
    )
    found = hidden_order.visible_parties_delta(1.0, records, own, 1.0, sigma)
    assert found >= direct * (1 - 1e-9)
    assert found == pytest.approx(direct, rel=1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0, None])
@pytest.mark.parametrize(
    "call",
    [
        lambda bad: hidden_order.known_order_epsilon(bad, 10, 1.0, 1.0),
        lambda bad: hidden_order.known_order_epsilon(1e-5, bad, 1.0, 1.0),
        lambda bad: hidden_order.known_order_epsilon(1e-5, 10, bad, 1.0),
        lambda bad: hidden_order.known_order_delta(1.0, 10, 1.0, bad),
        lambda bad: (
            hidden_order.without_order_epsilon(1e-5, 10, 1.0, 1.0, bad)
            if bad is not None
            else hidden_order.without_order_epsilon(1e-5, None, 1.0, 1.0)
        ),
        lambda bad: hidden_order.visible_parties_epsilon(1e-5, 10, bad, 1.0, 1.0),
        lambda bad: hidden_order.capped_mu(bad, 10, 1.0, 1.0),
        lambda bad: hidden_order.published_sigma(bad, 1e-5, 10, 1.0),
        lambda bad: hidden_order.published_equation6_delta(bad, 10),
    ],
)
def test_bad_input(call, bad):
    with pytest.raises(InvalidInput):
        call(bad)


def test_a_party_cannot_hold_more_than_all():
    with pytest.raises(InvalidInput, match="part of all"):
        hidden_order.visible_parties_delta(1.0, 10, 11, 1.0, 1.0)
