"""Rényi curves against integrals, finite distributions and dp-accounting."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from unisono.accounting import gaussian, renyi, zcdp
from unisono.errors import InvalidInput

FEW = settings(max_examples=30, deadline=None)


def sampled_integral(order: float, rate: float, noise: float) -> float:
    """D_a of the Poisson-sampled Gaussian by mpmath's quadrature."""
    with mp.workdps(45):
        q, s, a = mp.mpf(rate), mp.mpf(noise), mp.mpf(order)

        def excess(z):
            u = q * mp.expm1((2 * z - 1) / (2 * s * s))
            return mp.npdf(z, 0, s) * ((1 + u) ** a - 1 - a * u)

        bend = mp.mpf(1) / 2 + s * s * mp.log((1 - q) / q)
        cuts = {-16 * s, -6 * s, mp.mpf(0), 6 * s, bend, a - 6 * s, a, a + 6 * s, a + 16 * s}
        points = sorted(p for p in cuts if -16 * s <= p <= a + 16 * s)
        return float(mp.log1p(mp.quad(excess, points)) / (a - 1))


@pytest.mark.parametrize(
    ("rate", "noise", "order"),
    [
        (0.01, 1, 1.5),
        (0.1, 1, 1.1),  # dp-accounting does not converge here
        (0.1, 0.5, 2.5),
        (1e-4, 1, 1.01),
        (0.5, 2, 7.3),
        (0.9, 0.3, 3.7),
        (0.01, 0.2, 1.7),
        (1e-3, 10, 40.5),
        (0.3, 0.05, 1.3),
        (0.01, 1, 2),
        (0.01, 1, 4.5),
        (0.2, 4, 4.5),
        (1e-9, 5, 1.5),  # the excess over 1 is 1e-20: only the series keeps its digits
        (0.1, 1, 8),
    ],
)
def test_poisson_gaussian_against_quadrature(rate, noise, order):
    found = renyi.poisson_gaussian(order, rate, noise)[0]
    reference = sampled_integral(order, rate, noise)
    assert found == pytest.approx(reference, rel=2e-11, abs=0)
    assert found >= reference * (1 - 1e-12)


def test_poisson_gaussian_against_dp_accounting():
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    orders = [2.0, 3.0, 4.5, 8.0, 16.5, 32.0, 64.0, 256.0]
    for rate, noise in ((0.01, 1.0), (0.001, 0.6), (0.2, 4.0)):
        accountant = RdpAccountant(orders)
        accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)))
        found = renyi.poisson_gaussian(orders, rate, noise)
        whole = np.equal(orders, np.floor(orders))
        np.testing.assert_allclose(found[whole], accountant._rdp[whole], rtol=1e-8)
        # Its series at fractional orders is cut off early; quadrature above confirms ours.
        np.testing.assert_allclose(found, accountant._rdp, rtol=1e-3)
        assert renyi.epsilon(orders, 100 * found, 1e-5) == pytest.approx(
            RdpAccountant(orders)
            .compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), 100)
            .get_epsilon(1e-5),
            rel=1e-3,
        )


def test_poisson_gaussian_upper_bounds_the_exact_loss_distribution():
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 1000)
    curve = 1000 * renyi.poisson_gaussian(renyi.ORDERS, 0.01, 1.0)
    exact = accountant.get_epsilon(1e-5)
    assert exact < renyi.epsilon(renyi.ORDERS, curve, 1e-5) < 1.2 * exact


def test_sampling_at_the_ends():
    orders = [1.5, 2.0, 30.0]
    np.testing.assert_array_equal(renyi.poisson_gaussian(orders, 0, 1), 0)
    np.testing.assert_allclose(
        renyi.poisson_gaussian(orders, 1, 2.0), renyi.gaussian(orders, 0.5), rtol=1e-12
    )
    near_one = renyi.poisson_gaussian(orders, 1 - 1e-12, 2.0)
    np.testing.assert_allclose(near_one, renyi.gaussian(orders, 0.5), rtol=1e-9)


@given(st.floats(1e-4, 0.9), st.floats(0.3, 20), st.floats(1.05, 40), st.floats(1.01, 2))
@FEW
def test_poisson_gaussian_is_monotone_and_below_no_sampling(rate, noise, order, factor):
    here = renyi.poisson_gaussian(order, rate, noise)[0]
    slack = 1 + 1e-9
    assert here <= renyi.poisson_gaussian(order, min(rate * factor, 1), noise)[0] * slack
    assert here >= renyi.poisson_gaussian(order, rate, noise * factor)[0] / slack
    assert here <= renyi.poisson_gaussian(order * factor, rate, noise)[0] * slack
    assert here <= renyi.gaussian(order, 1 / noise)[0] * slack


@given(st.floats(0.01, 15), st.floats(1.01, 60))
@FEW
def test_pure_is_randomized_response(epsilon, order):
    p = 1 / (1 + math.exp(-epsilon))
    exact = renyi.divergence(order, [p, 1 - p], [1 - p, p])
    assert renyi.pure(order, epsilon)[0] == pytest.approx(exact, rel=1e-7, abs=1e-10)
    assert exact <= epsilon + 1e-12


@pytest.mark.parametrize(("epsilon", "order"), [(0.5, 1.5), (1.0, 2.0), (3.0, 7.5), (8.0, 1.2)])
def test_laplace_against_quadrature(epsilon, order):
    def integrand(x):
        return 0.5 * math.exp(-order * abs(x) - (1 - order) * abs(x - epsilon))

    pieces = [quad(integrand, *ends)[0] for ends in ((-40, 0), (0, epsilon), (epsilon, 60))]
    exact = math.log(sum(pieces)) / (order - 1)
    assert renyi.laplace(order, epsilon)[0] == pytest.approx(exact, rel=1e-7)
    assert renyi.laplace(order, epsilon)[0] <= renyi.pure(order, epsilon)[0] + 1e-12


def test_laplace_against_dp_accounting():
    from dp_accounting import LaplaceDpEvent
    from dp_accounting.rdp import RdpAccountant

    orders = [1.1, 2.0, 16.0, 200.0]
    accountant = RdpAccountant(orders)
    accountant.compose(LaplaceDpEvent(2.0))
    np.testing.assert_allclose(renyi.laplace(orders, 0.5), accountant._rdp, rtol=1e-9)


class TestInvertedDefinition:
    """E001-5: the printed divergence has dQ/dP where dP/dQ belongs."""

    def test_identity(self):
        p, q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.6, 0.3])
        for order in (2.5, 3.0, 10.0):
            expected = (order - 2) / (order - 1) * renyi.divergence(order - 1, q, p)
            assert renyi.published_inverted_renyi(order, p, q) == pytest.approx(expected)

    def test_zero_at_order_two_for_every_pair(self):
        assert renyi.published_inverted_renyi(2, [0.999, 0.001], [0.001, 0.999]) == pytest.approx(
            0, abs=1e-12
        )
        assert renyi.published_inverted_renyi(1.5, [0.9, 0.1], [0.1, 0.9]) <= 0

    def test_publishing_the_data_satisfies_it(self):
        for order in (1.5, 2, 20):
            assert renyi.published_inverted_renyi(order, [1, 0], [0, 1]) == -math.inf
            assert renyi.divergence(order, [1, 0], [0, 1]) == math.inf

    @pytest.mark.parametrize(
        ("epsilon", "true", "misprint"), [(1, 0.462, 0.141), (2, 1.523, 0.329), (10, 10.0, 1.72)]
    )
    def test_randomized_response(self, epsilon, true, misprint):
        p = 1 / (1 + math.exp(-epsilon))
        pair = ([p, 1 - p], [1 - p, p])
        orders = np.concatenate([1 + np.geomspace(1e-4, 1, 50), np.linspace(2, 60, 3000)])
        right = max(renyi.divergence(a, *pair) / a for a in orders)
        wrong = max(renyi.published_inverted_renyi(a, *pair) / a for a in orders)
        assert right == pytest.approx(true, abs=2e-3)
        assert wrong == pytest.approx(misprint, abs=5e-3)


class TestConversion:
    def test_golden_thesis_endpoint(self):
        """golden fig44_improved_rdp_real_orders; exact is 8.5875."""
        curve = renyi.compose([renyi.gaussian(renyi.ORDERS, 0.2)], [78])
        assert renyi.epsilon(renyi.ORDERS, curve, 1e-5) == pytest.approx(9.225958992, abs=2e-3)
        fine = np.linspace(3, 5, 2001)
        assert renyi.epsilon(fine, 78 * renyi.gaussian(fine, 0.2), 1e-5) == pytest.approx(
            zcdp.epsilon(1.56, 1e-5), rel=1e-7
        )

    @given(st.floats(-3, 1), st.floats(-12, -1))
    @FEW
    def test_never_below_the_exact_gaussian_and_inverse(self, log_mu, log_delta):
        mu, delta = 10**log_mu, 10**log_delta
        curve = renyi.gaussian(renyi.ORDERS, mu)
        epsilon = renyi.epsilon(renyi.ORDERS, curve, delta)
        assert epsilon >= gaussian.epsilon(delta, mu) - 1e-12
        assert renyi.delta(renyi.ORDERS, curve, epsilon) <= delta * (1 + 1e-9)

    def test_agrees_with_dp_accounting(self):
        from dp_accounting.rdp.rdp_privacy_accountant import compute_delta, compute_epsilon

        orders = renyi.ORDERS
        for mu in (0.01, 0.3, 2.0):
            curve = renyi.gaussian(orders, mu)
            oracle = compute_epsilon(orders, curve, 1e-6)[0]
            assert renyi.epsilon(orders, curve, 1e-6) == pytest.approx(oracle, rel=1e-12)
            oracle = compute_delta(orders, curve, 0.7)[0]
            assert renyi.delta(orders, curve, 0.7) <= oracle * (1 + 1e-9)

    def test_edges(self):
        assert renyi.epsilon([2, 3], [0, 0], 1e-5) == 0
        assert renyi.delta([2, 3], [0, 0], 0.0) == 0
        assert renyi.epsilon([2, 3], [math.inf, math.inf], 1e-5) == math.inf
        assert renyi.delta([2, 3], [math.inf, math.inf], 1) == 1
        with_gap = renyi.epsilon([2, 3], [math.inf, 0.1], 1e-5)
        assert with_gap == renyi.epsilon([3], [0.1], 1e-5)
        # An infinite curve that is used zero times costs nothing.
        np.testing.assert_array_equal(
            renyi.compose([[math.inf, 1.0], [0.5, 0.5]], [0, 2]), [1.0, 1.0]
        )


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, None])
@pytest.mark.parametrize(
    "call",
    [
        lambda bad: renyi.gaussian([2.0], bad),
        lambda bad: renyi.gaussian([bad], 1.0),
        lambda bad: renyi.poisson_gaussian([2.0], bad, 1.0),
        lambda bad: renyi.poisson_gaussian([2.0], 0.1, bad),
        lambda bad: renyi.pure([2.0], bad),
        lambda bad: renyi.laplace([2.0], bad),
        lambda bad: renyi.epsilon([2.0], [1.0], bad),
        lambda bad: renyi.delta([2.0], [1.0], bad),
    ],
)
def test_bad_numbers(call, bad):
    with pytest.raises(InvalidInput):
        call(bad)


@pytest.mark.parametrize(
    "call",
    [
        lambda: renyi.gaussian([1.0], 1.0),
        lambda: renyi.gaussian([], 1.0),
        lambda: renyi.epsilon([2.0, 3.0], [1.0], 1e-5),
        lambda: renyi.epsilon([2.0], [math.nan], 1e-5),
        lambda: renyi.epsilon([2.0], [-0.1], 1e-5),
        lambda: renyi.compose([]),
        lambda: renyi.compose([[1.0], [1.0, 2.0]]),
        lambda: renyi.divergence(2, [0.5, 0.4], [0.5, 0.5]),
        lambda: renyi.divergence(2, [1.0], [0.5, 0.5]),
    ],
)
def test_bad_curves(call):
    with pytest.raises(InvalidInput):
        call()
