"""Fixed-size lots: replace-one only, and the factor of two is not lost."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from unisono.accounting import gaussian, renyi
from unisono.accounting import sampling_without_replacement as lots
from unisono.errors import InvalidInput


def oracle(orders, sample_size, population, multiplier, steps):
    from dp_accounting import (
        GaussianDpEvent,
        NeighboringRelation,
        SampledWithoutReplacementDpEvent,
    )
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(list(orders), NeighboringRelation.REPLACE_ONE)
    event = SampledWithoutReplacementDpEvent(population, sample_size, GaussianDpEvent(multiplier))
    accountant.compose(event, steps)
    return accountant


@pytest.mark.parametrize(
    ("sample_size", "population", "multiplier", "steps"),
    [(1, 10, 5.0, 78), (10, 1000, 1.0, 1000), (1, 100, 95.8, 10_000), (50, 100, 2.0, 10)],
)
def test_curve_and_epsilon_against_dp_accounting(sample_size, population, multiplier, steps):
    orders = lots.ORDERS[lots.ORDERS <= 256]  # above, dp-accounting switches to a looser bound
    accountant = oracle(orders, sample_size, population, multiplier, steps)
    curve = lots.renyi_curve(orders, sample_size, population, 1.0, multiplier)
    np.testing.assert_allclose(
        steps * curve,
        np.minimum(accountant._rdp, steps * renyi.gaussian(orders, 1 / multiplier)),
        rtol=1e-8,
    )
    assert lots.epsilon(
        1e-5, steps, sample_size, population, 1.0, multiplier, orders
    ) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-8)


def test_fractional_orders_interpolate():
    orders = [1.25, 1.9, 2.5, 7.3, 20.5]
    accountant = oracle(orders, 5, 100, 2.0, 1)
    found = lots.renyi_curve(orders, 5, 100, 1.0, 2.0)
    np.testing.assert_allclose(found, accountant._rdp, rtol=1e-8)


def test_factor_of_two():
    """Clip C, noise sigma: replace-one sensitivity 2 C, so dp-accounting needs sigma/(2 C)."""
    clip, sigma, steps = 3.0, 15.0, 100
    right = lots.epsilon(1e-5, steps, 1, 10, 2 * clip, sigma)
    assert right == pytest.approx(
        oracle(lots.ORDERS, 1, 10, sigma / (2 * clip), steps).get_epsilon(1e-5), rel=1e-6
    )
    lost = oracle(lots.ORDERS, 1, 10, sigma / clip, steps).get_epsilon(1e-5)
    assert right > 1.5 * lost


@pytest.mark.parametrize(("order", "mu"), [(2, 0.5), (4, 0.5), (6, 1.0), (8, 2.0)])
def test_even_moments_are_the_binomial_sums(order, mu):
    exact = sum(
        math.comb(order, i) * (-1) ** (order - i) * math.exp(i * (i - 1) * mu * mu / 2)
        for i in range(order + 1)
    )
    assert lots._log_even_moment(order, mu) == pytest.approx(math.log(exact), rel=1e-8)


def test_bounds_the_exact_divergence_of_one_of_n():
    """n = 2, records 0 or 1 (clip 1/2): the pair is a mixture against a point, both orders."""
    noise = 0.8
    x = np.linspace(-15, 16, 40_001)
    log_step = math.log(x[1] - x[0])
    log_zero, log_one = stats.norm.logpdf(x, 0, noise), stats.norm.logpdf(x, 1, noise)
    log_mixture = np.logaddexp(log_zero, log_one) - math.log(2)
    for order in (2, 3, 5, 9):
        bound = lots.renyi_curve(order, 1, 2, 1.0, noise)[0]
        for first, second in ((log_mixture, log_zero), (log_zero, log_mixture)):
            total = logsumexp(order * first + (1 - order) * second) + log_step
            assert total / (order - 1) <= bound


@given(st.integers(1, 50), st.integers(50, 500), st.floats(0.5, 20), st.floats(1.01, 40.0))
@settings(max_examples=30, deadline=None)
def test_monotone_and_below_no_sampling(sample_size, population, multiplier, order):
    here = lots.renyi_curve(order, sample_size, population, 1.0, multiplier)[0]
    assert 0 <= here <= renyi.gaussian(order, 1 / multiplier)[0]
    assert here <= lots.renyi_curve(order, sample_size + 1, population + 1, 1.0, multiplier)[0] * (
        1 + 1e-9
    )
    assert here <= lots.renyi_curve(order, sample_size, population, 1.1, multiplier)[0] * (1 + 1e-9)
    assert here <= lots.renyi_curve(order * 1.1, sample_size, population, 1.0, multiplier)[0] * (
        1 + 1e-9
    )


def test_no_sampling_is_the_plain_gaussian():
    np.testing.assert_array_equal(
        lots.renyi_curve([2, 5.5], 7, 7, 2.0, 4.0), renyi.gaussian([2, 5.5], 0.5)
    )
    assert lots.amplified_epsilon(1e-5, 7, 7, 2.0, 4.0) == pytest.approx(
        gaussian.epsilon(1e-5, 0.5)
    )
    np.testing.assert_array_equal(lots.renyi_curve([2], 1, 7, 0.0, 4.0), 0)


class TestAmplification:
    def test_single_release_round_trip(self):
        for epsilon in (0.01, 0.5, 3.0, 45.0):
            delta = lots.amplified_delta(epsilon, 5, 100, 2.0, 1.0)
            if delta > 1e-300:
                assert lots.amplified_epsilon(delta, 5, 100, 2.0, 1.0) == pytest.approx(
                    epsilon, rel=1e-6
                )

    def test_single_release_is_the_exact_mixture(self):
        """(1-q) N(0) + q N(1) against N(0): amplification is exact in this direction."""
        rate, noise, epsilon = 0.05, 1.0, 0.3
        x = np.linspace(-12, 13, 200_001)
        base = np.exp(-0.5 * (x / noise) ** 2) / math.sqrt(2 * math.pi)
        shifted = np.exp(-0.5 * ((x - 1) / noise) ** 2) / math.sqrt(2 * math.pi)
        mixture = (1 - rate) * base + rate * shifted
        exact = np.sum(np.maximum(mixture - math.exp(epsilon) * base, 0)) * (x[1] - x[0])
        found = lots.amplified_delta(epsilon, 5, 100, 1.0, noise)
        assert found == pytest.approx(exact, rel=1e-6)

    def test_composition_is_an_upper_bound_of_similar_size(self):
        one = lots.amplified_composition(1e-5, 1, 1, 100, 1.0, 5.0)
        assert one == lots.amplified_epsilon(1e-5, 1, 100, 1.0, 5.0)
        many = lots.amplified_composition(1e-6, 1000, 1, 100, 1.0, 20.0)
        by_renyi = lots.epsilon(1e-6, 1000, 1, 100, 1.0, 20.0)
        assert by_renyi / 3 < many < 10 * by_renyi
        assert lots.amplified_epsilon(0.5, 1, 100, 1.0, 5.0) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: lots.renyi_curve([2], 11, 10, 1.0, 1.0),
        lambda: lots.renyi_curve([2], 0, 10, 1.0, 1.0),
        lambda: lots.renyi_curve([2], 1, 10, math.nan, 1.0),
        lambda: lots.renyi_curve([2], 1, 10, 1.0, 0.0),
        lambda: lots.renyi_curve([1], 1, 10, 1.0, 1.0),
        lambda: lots.epsilon(0, 1, 1, 10, 1.0, 1.0),
        lambda: lots.epsilon(1e-5, 0, 1, 10, 1.0, 1.0),
        lambda: lots.amplified_delta(-1, 1, 10, 1.0, 1.0),
        lambda: lots.amplified_epsilon(1, 1, 10, 1.0, 1.0),
        lambda: lots.amplified_composition(1e-5, 0, 1, 10, 1.0, 1.0),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
