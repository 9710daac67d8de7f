"""Integer noise against the exact laws of the integers."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from unisono.accounting import gaussian, integer_noise, renyi, zcdp
from unisono.errors import ConditionViolated, InvalidInput

FEW = settings(max_examples=30, deadline=None)


def discrete_gaussian_log_mass(sigma: float, reach: int) -> np.ndarray:
    y = np.arange(-reach, reach + 1)
    log_mass = -(y**2) / (2 * sigma**2)
    return log_mass - logsumexp(log_mass)


def divergence(log_p: np.ndarray, log_q: np.ndarray, order: float) -> float:
    return float(logsumexp(order * log_p + (1 - order) * log_q)) / (order - 1)


class TestSkellam:
    @pytest.mark.parametrize("variance", [4.0, 20.0, 100.0])
    @pytest.mark.parametrize("shift", [1, 2])
    @pytest.mark.parametrize("order", [2, 3, 8, 16])
    def test_bounds_the_exact_divergence(self, variance, shift, order):
        reach = int(8 * math.sqrt(variance) + 10 * order + 40)
        y = np.arange(-reach, reach + 1)
        log_p = stats.skellam.logpmf(y, variance / 2, variance / 2)
        log_q = stats.skellam.logpmf(y - shift, variance / 2, variance / 2)
        kept = np.isfinite(log_p) & np.isfinite(log_q) & (log_p > -600) & (log_q > -600)
        exact = divergence(log_p[kept], log_q[kept], order)
        bound = integer_noise.skellam(order, variance, shift, shift)[0]
        assert bound >= exact * (1 - 1e-6)
        assert bound >= order * shift**2 / (2 * variance)

    def test_approaches_the_gaussian(self):
        bound = integer_noise.skellam([2, 16], 1e6, 100, 10)
        np.testing.assert_allclose(bound, renyi.gaussian([2, 16], 10 / 1e3), rtol=1e-3)

    def test_formula(self):
        a, V, l1, l2 = 5, 10.0, 7.0, 3.0
        expected = a * l2**2 / (2 * V) + min(
            ((2 * a - 1) * l2**2 + 6 * l1) / (4 * V**2), 3 * l1 / (2 * V)
        )
        assert integer_noise.skellam(a, V, l1, l2)[0] == pytest.approx(expected)

    def test_fractional_orders_are_refused(self):
        with pytest.raises(ConditionViolated, match="whole"):
            integer_noise.skellam([2.5], 10, 1, 1)


class TestDistributedDiscreteGaussian:
    @pytest.mark.parametrize(("sigma", "honest"), [(0.5, 2), (0.6, 3), (0.8, 4), (1.0, 2)])
    @pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
    def test_bounds_the_exact_divergence_of_a_sum_of_shares(self, sigma, honest, order):
        reach = 40
        mass = np.exp(discrete_gaussian_log_mass(sigma, reach))
        total = mass
        for _ in range(honest - 1):
            total = np.convolve(total, mass)
        with np.errstate(divide="ignore"):
            log_mass = np.log(total)
        log_p, log_q = log_mass[1:], log_mass[:-1]
        kept = (log_p > -60) & (log_q > -60)
        exact = divergence(log_p[kept], log_q[kept], order)
        bound = integer_noise.distributed_discrete_gaussian(order, sigma, honest, 1, 1, 1)[0]
        assert bound >= exact * (1 - 1e-9)

    def test_gap_vanishes_on_a_fine_grid_and_for_one_share(self):
        assert integer_noise.divisibility_gap(4.0, 1000) < 1e-60
        assert integer_noise.divisibility_gap(0.5, 1) == 0
        expected = 10 * (math.exp(-(math.pi**2) * 0.64) + math.exp(-2 * math.pi**2 * 0.64 * 2 / 3))
        assert integer_noise.divisibility_gap(0.8, 3) == pytest.approx(expected)
        curve = integer_noise.distributed_discrete_gaussian([2, 8], 10.0, 25, 40, 20, 100)
        np.testing.assert_allclose(curve, renyi.gaussian([2, 8], 20 / 50), rtol=1e-12)

    def test_three_bounds(self):
        sigma, honest, l1, l2, d, a = 0.7, 4, 9.0, 3.0, 9, 6.0
        tau = integer_noise.divisibility_gap(sigma, honest)
        s1, s2 = l1 / (2 * sigma), l2 / (2 * sigma)
        expected = min(
            a * s2**2 / 2 + tau * d,
            a / 2 * (s2**2 + 2 * s1 * tau + tau**2 * d),
            a / 2 * (s2 + tau * 3) ** 2,
        )
        found = integer_noise.distributed_discrete_gaussian(a, sigma, honest, l1, l2, d)[0]
        assert found == pytest.approx(expected)

    def test_condition(self):
        with pytest.raises(ConditionViolated, match="finer grid"):
            integer_noise.divisibility_gap(0.49, 3)


class TestDiscreteGaussian:
    def test_exceeds_the_continuous_curve(self):
        """X-3: std one grid step, epsilon .2."""
        assert integer_noise.discrete_gaussian_delta(0.2, 1.0) == pytest.approx(0.332, abs=5e-4)
        assert gaussian.delta(0.2, 1.0) == pytest.approx(0.322, abs=5e-4)

    @given(st.floats(0.3, 30), st.integers(1, 5), st.floats(0, 4))
    @FEW
    def test_against_the_definition(self, sigma, shift, epsilon):
        log_mass = discrete_gaussian_log_mass(sigma, int(40 * sigma) + 40)
        padded = np.concatenate([np.full(shift, -np.inf), log_mass])
        log_p, log_q = np.concatenate([log_mass, np.full(shift, -np.inf)]), padded
        # Mass beyond 40 standard deviations is below e^-800.
        exact = np.sum(np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0))
        found = integer_noise.discrete_gaussian_delta(epsilon, sigma, shift)
        assert found == pytest.approx(exact, rel=1e-9, abs=1e-14)
        assert found <= zcdp.delta(epsilon, integer_noise.discrete_gaussian_rho(shift, sigma)) * (
            1 + 1e-9
        )

    def test_large_deviations_agree_with_the_continuous_curve(self):
        assert integer_noise.discrete_gaussian_delta(1.0, 1000.0, 500) == pytest.approx(
            gaussian.delta(1.0, 0.5), rel=1e-6
        )
        with pytest.raises(InvalidInput, match="coarser grid"):
            integer_noise.discrete_gaussian_delta(1.0, 1e7)

    def test_monotone(self):
        by_shift = [integer_noise.discrete_gaussian_delta(0.5, 3.0, d) for d in range(1, 10)]
        assert np.all(np.diff(by_shift) > 0)


class TestDiscreteLaplace:
    def test_pure_epsilon(self):
        scale = integer_noise.discrete_laplace_scale(0.5, 7)
        assert integer_noise.discrete_laplace_epsilon(scale, 7) == pytest.approx(0.5)
        k = np.arange(-50, 51)
        law = stats.dlaplace(1 / scale)
        loss = law.logpmf(k) - law.logpmf(k + 7)
        assert loss.max() == pytest.approx(0.5)

    def test_rounding_is_in_the_sensitivity(self):
        """E000-8: sqrt(p) Delta_2 + p gamma, in grid steps."""
        assert integer_noise.rounded_l1(1.0, 4, 0.5) == 8
        assert integer_noise.rounded_l2(1.0, 4, 0.5) == pytest.approx(4.0)
        generator = np.random.default_rng(0)
        for _ in range(200):
            first = generator.normal(size=5)
            step = generator.normal(size=5)
            second = first + step / np.linalg.norm(step)
            change = np.round(first / 0.1) - np.round(second / 0.1)
            assert np.abs(change).sum() <= integer_noise.rounded_l1(1.0, 5, 0.1)
            assert np.linalg.norm(change) <= integer_noise.rounded_l2(1.0, 5, 0.1)

    @pytest.mark.parametrize(("planned", "honest"), [(10, 9), (10, 5), (3, 1), (4, 4), (4, 7)])
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
    def test_polya_shares(self, planned, honest, epsilon):
        a = math.exp(-epsilon)
        reach = int(60 / epsilon) + 50
        one_side = stats.nbinom.pmf(np.arange(reach), honest / planned, 1 - a)
        law = np.convolve(one_side, one_side[::-1])
        middle = reach - 1
        window = law[middle : middle + int(10 / epsilon)]
        exact = np.max(np.abs(np.diff(np.log(window))))
        claimed = integer_noise.polya_epsilon(epsilon, planned, honest, 1)
        assert claimed >= exact * (1 - 1e-9)
        if honest <= planned:
            assert claimed == pytest.approx(exact, rel=1e-6)
        # Several units of change, each in its own coordinate.
        assert integer_noise.polya_epsilon(3 * epsilon, planned, honest, 3) == pytest.approx(
            3 * claimed
        )


class TestShares:
    def test_variance(self):
        """X-4: only survivors minus colluders count."""
        assert integer_noise.share_variance(12.0, 5, 2) == 4.0
        assert integer_noise.share_variance(12.0, 5, 0) == pytest.approx(2.4)
        for survivors, colluders in ((3, 3), (3, 4), (1, 1)):
            with pytest.raises(ConditionViolated, match="no honest"):
                integer_noise.share_variance(12.0, survivors, colluders)

    def test_fewer_honest_than_planned(self):
        assert integer_noise.mu_with_fewer(1.0, 16, 4) == 2.0
        assert integer_noise.mu_with_fewer(1.0, 20, 19) == pytest.approx(
            gaussian.colluders(1.0, 20, 1)
        )

    @pytest.mark.parametrize(("colluding", "epsilon"), [(0, 1.0), (1, 1.19), (4, 2.49)])
    def test_norm_mechanism(self, colluding, epsilon):
        """E000-8: m = 10, p = 1, z = 1."""
        found = integer_noise.norm_mechanism_epsilon(1.0, 1, 10, 10 - colluding)
        assert found == pytest.approx(epsilon, abs=5e-3)

    def test_norm_mechanism_residual_by_inversion(self):
        """log f(0)/f(z) from the characteristic function (1 + t^2)^-nu, p = 1."""
        nu = mp.mpf(2 * 9) / 20

        def density(x):
            return mp.quadosc(lambda t: mp.cos(t * x) * (1 + t * t) ** -nu, [0, mp.inf], omega=x)

        at_zero = mp.quad(lambda t: (1 + t * t) ** -nu, [0, 1, 10, 1000, mp.inf])
        exact = float(mp.log(at_zero / density(mp.mpf(1))))
        assert integer_noise.norm_mechanism_epsilon(1.0, 1, 10, 9) == pytest.approx(exact, rel=1e-4)

    def test_one_colluder_is_infinite_in_high_dimension(self):
        assert integer_noise.norm_mechanism_epsilon(1.0, 9, 10, 9) == math.inf
        assert integer_noise.norm_mechanism_epsilon(1.0, 8, 10, 9) < math.inf
        assert integer_noise.norm_mechanism_epsilon(1.0, 8, 10, 12) == 1.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: integer_noise.skellam([2], 0, 1, 1),
        lambda: integer_noise.skellam([2], math.nan, 1, 1),
        lambda: integer_noise.skellam([2], 1, 1, 2),  # an L1 norm below the L2 norm
        lambda: integer_noise.distributed_discrete_gaussian([2], 1, 0, 1, 1, 1),
        lambda: integer_noise.distributed_discrete_gaussian([2], 1, 2, 1, math.inf, 1),
        lambda: integer_noise.distributed_discrete_gaussian([1], 1, 2, 1, 1, 1),
        lambda: integer_noise.discrete_gaussian_delta(-1, 1),
        lambda: integer_noise.discrete_gaussian_delta(1, math.nan),
        lambda: integer_noise.discrete_gaussian_delta(1, 1, 0.5),
        lambda: integer_noise.discrete_laplace_scale(0, 1),
        lambda: integer_noise.discrete_laplace_epsilon(math.inf, 1),
        lambda: integer_noise.rounded_l1(1, 1, 0),
        lambda: integer_noise.polya_epsilon(1, 0, 1, 1),
        lambda: integer_noise.norm_mechanism_epsilon(math.nan, 1, 1, 1),
        lambda: integer_noise.share_variance(0, 2, 0),
        lambda: integer_noise.share_variance(1, 2, -1),
        lambda: integer_noise.mu_with_fewer(1, 2, 0),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
