"""The exact Gaussian curve, its inverses, and the published calibrations it refutes."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unisono.accounting import gaussian, published_gaussian, validation
from unisono.errors import ConditionViolated, InvalidInput

FEW = settings(max_examples=60, deadline=None)
MU_THESIS = math.sqrt(78) / 5


def exact_delta(epsilon: float, mu: float) -> mp.mpf:
    with mp.workdps(60):
        e, m = mp.mpf(epsilon), mp.mpf(mu)

        def cdf(x):
            return mp.erfc(-x / mp.sqrt(2)) / 2

        return cdf(m / 2 - e / m) - mp.exp(e) * cdf(-m / 2 - e / m)


@pytest.mark.parametrize(
    ("mu", "epsilon", "delta"),
    [
        (1, 1, 0.1269367375),
        (0.5, 1, 0.006829594983),
        (2, 4, 0.08495331867),
        (1.766352173, 8, 4.046591584e-05),
        (0.2, 0.5, 0.0005125360832),
    ],
)
def test_golden_delta(mu, epsilon, delta):
    assert gaussian.delta(epsilon, mu) == pytest.approx(delta, rel=2e-10)


@pytest.mark.parametrize(
    ("mu", "delta", "epsilon"),
    [
        (1, 1e-5, 4.377178096),
        (0.1, 1e-6, 0.3968573776),
        (MU_THESIS, 1e-5, 8.58750376),
        (2 * MU_THESIS, 1e-5, 20.65360339),  # E003-5: replace-one
        (15.79873413, 1e-5, 191.2953119),  # E003-17: one message, M = 20
    ],
)
def test_golden_epsilon(mu, delta, epsilon):
    assert gaussian.epsilon(delta, mu) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu", "multiplier", "classical"),
    [
        (0.1, 1e-6, 0.02754465024, 36.30469043, 52.98802527),
        (0.5, 1e-5, 0.1422105587, 7.031826676, 9.689610525),
        (1, 1e-5, 0.2680511232, 3.730631635, 4.844805263),
        (1, 1e-6, 0.2367043807, 4.224678889, 5.298802527),
        (2, 1e-6, 0.4483347404, 2.230476271, 2.649401263),
        (8, 1e-5, 1.666030598, 0.6002290722, 0.6056006578),
        (10, 1e-5, 2.00044562, 0.4998886197, 0.4844805263),
        (20, 1e-5, 3.447783447, 0.290041418, 0.2422402631),
    ],
)
def test_golden_calibration(epsilon, delta, mu, multiplier, classical):
    assert gaussian.mu_for(epsilon, delta) == pytest.approx(mu, rel=5e-10)
    assert 1 / gaussian.mu_for(epsilon, delta) == pytest.approx(multiplier, rel=5e-10)
    published = gaussian.published_classical_sigma(epsilon, delta, beyond_its_condition=True)
    assert published == pytest.approx(classical, rel=5e-10)


@given(st.floats(-6, 2), st.floats(0, 1))
@FEW
def test_log_delta_agrees_with_sixty_digits(log_mu, position):
    mu = 10**log_mu
    x = -mu / 2 + position * (mu / 2 + 30)
    epsilon = mu * (x + mu / 2)
    reference = float(mp.log(exact_delta(epsilon, mu)))
    # Subtracting mu/2 from epsilon/mu rounds x by ulp(mu), which the slope x of log phi magnifies.
    assert gaussian.log_delta(epsilon, mu) == pytest.approx(
        reference, abs=1e-12 + 1e-15 * abs(x) * (abs(x) + mu), rel=1e-13
    )


@given(st.floats(-5, 2), st.floats(-300, -0.05))
@FEW
def test_epsilon_is_an_upper_bound_and_tight(log_mu, log_delta):
    mu, delta = 10**log_mu, 10**log_delta
    epsilon = gaussian.epsilon(delta, mu)
    assert exact_delta(epsilon, mu) <= delta
    if epsilon > 0:
        # 1e-10 less is no longer enough (relative to the natural scale of epsilon).
        assert exact_delta(max(epsilon - 1e-9 * (epsilon + mu), 0.0), mu) > delta


@given(st.floats(-4, 2.5), st.floats(-30, -0.3))
@FEW
def test_calibrate_then_account_never_exceeds(log_epsilon, log_delta):
    epsilon, delta = 10**log_epsilon, 10**log_delta
    mu = gaussian.mu_for(epsilon, delta)
    assert gaussian.epsilon(delta, mu) <= epsilon
    assert exact_delta(epsilon, mu) <= delta
    assert gaussian.epsilon(delta, mu * (1 + 1e-8)) > epsilon * (1 - 1e-12)
    assert gaussian.epsilon(delta, mu) == pytest.approx(epsilon, rel=1e-7, abs=1e-9)


def test_calibration_at_epsilon_zero():
    for delta in (1e-12, 1e-5, 0.2, 0.9):
        mu = gaussian.mu_for(0, delta)
        assert gaussian.epsilon(delta, mu) == 0
        assert gaussian.membership_advantage(mu) == pytest.approx(delta, rel=1e-9)


@given(st.floats(0, 20), st.floats(1e-3, 10), st.floats(1.001, 3))
@FEW
def test_monotone_in_both_arguments(epsilon, mu, factor):
    assert gaussian.delta(epsilon, mu) <= gaussian.delta(epsilon, mu * factor)
    assert gaussian.delta(epsilon * factor, mu) <= gaussian.delta(epsilon, mu)


def test_tiny_deltas_keep_their_digits():
    assert gaussian.delta(30, 1) == pytest.approx(float(exact_delta(30, 1)), rel=1e-11)
    assert gaussian.delta(1e9, 1) == 0
    assert gaussian.log_delta(1e3, 1) == pytest.approx(
        float(mp.log(exact_delta(1e3, 1))), rel=1e-12
    )
    assert gaussian.delta(1, 0) == 0
    assert gaussian.epsilon(1e-5, 0) == 0


def test_agrees_with_the_pessimistic_loss_distribution_of_dp_accounting():
    from dp_accounting import GaussianDpEvent, NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    accountant.compose(GaussianDpEvent(1.0), 10)
    oracle = accountant.get_epsilon(1e-5)
    assert oracle == pytest.approx(46.21, abs=0.01)
    # Records of norm 1, noise 1, replace-one: sensitivity 2.
    assert gaussian.epsilon(1e-5, gaussian.compose([2.0], [10])) == pytest.approx(oracle, abs=2e-3)


def test_compose_split_and_filter():
    assert gaussian.compose([3, 4]) == pytest.approx(5, rel=1e-14)
    assert gaussian.compose([3, 4]) >= 5
    budget = gaussian.mu_for(1, 1e-6)
    for count in (1, 7, 1000):
        step = gaussian.split(budget, count)
        spent = 0.0
        for _ in range(count):
            assert gaussian.admits(spent, step, budget)
            spent = gaussian.compose([spent, step])
        assert not gaussian.admits(spent, step, budget)
        assert step * math.sqrt(count) == pytest.approx(budget, rel=1e-10)


def test_the_filter_refuses_before_the_step_that_would_exceed():
    assert gaussian.admits(3, 4, 5.001)
    assert not gaussian.admits(3, 4, 4.999)


def test_trade_off_and_attack_success():
    alpha = np.linspace(0, 1, 11)
    curve = gaussian.trade_off(alpha, 1.0)
    assert curve[0] == 1
    assert curve[-1] == 0
    assert np.all(np.diff(curve) < 0)
    # The best test reaches the advantage where the slope of the curve is -1.
    best = stats.norm.sf(0.5)
    assert 1 - best - gaussian.trade_off([best], 1.0)[0] == pytest.approx(
        gaussian.membership_advantage(1.0)
    )
    assert gaussian.delta(0, 1) == pytest.approx(gaussian.membership_advantage(1), rel=1e-14)
    assert gaussian.best_guess_accuracy(1) == pytest.approx((1 + math.erf(8**-0.5)) / 2)
    assert gaussian.best_guess_accuracy(0, 0.9) == 0.9
    assert gaussian.best_guess_accuracy(1, 0.9) == pytest.approx(
        max(0.9 * stats.norm.sf(t - 1) + 0.1 * stats.norm.cdf(t) for t in np.linspace(-6, 6, 9999)),
        abs=1e-6,
    )
    # E003-16: 5 % false alarms at accountant epsilon 1 (sigma 32.95, T = 78) allow 8.4 % / 13.4 %.
    mu = math.sqrt(78) / 32.95
    assert gaussian.epsilon(1e-5, mu) == pytest.approx(1, abs=2e-4)
    assert 1 - gaussian.trade_off([0.05], mu)[0] == pytest.approx(0.084, abs=5e-4)
    assert 1 - gaussian.trade_off([0.05], 2 * mu)[0] == pytest.approx(0.134, abs=5e-4)


def test_reconstruction_bound():
    assert gaussian.reconstruction_bound(0.5, 1) == pytest.approx(stats.norm.cdf(1))
    assert gaussian.reconstruction_bound(0.0, 3) == 0
    assert gaussian.reconstruction_bound(0.1, 0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("t", "replace", "zero_out"),
    [
        (0, 20.65360339, 8.58750376),
        (1, 21.36821912, 8.859803398),
        (2, 22.15125599, 9.157011037),
        (5, 25.0355861, 10.24195289),
        (10, 33.06681406, 13.19335035),
        (15, 54.31263194, 20.65360339),
        (19, 191.2953119, 64.09194761),
    ],
)
def test_golden_collusion(t, replace, zero_out):
    """E003-18."""
    mu = gaussian.colluders(MU_THESIS, 20, t)
    assert gaussian.epsilon(1e-5, mu) == pytest.approx(zero_out, rel=1e-9)
    assert gaussian.epsilon(1e-5, 2 * mu) == pytest.approx(replace, rel=1e-9)


def test_all_parties_colluding_is_refused():
    with pytest.raises(ConditionViolated, match="no honest noise"):
        gaussian.colluders(1.0, 5, 5)


def test_group():
    """E003-19: t mu beats e^{t epsilon} delta."""
    mu = gaussian.mu_for(1, 1e-6)
    assert gaussian.epsilon(1e-6, gaussian.group(mu, 10)) == pytest.approx(13.50700311, rel=1e-9)


def test_delta_is_not_the_probability_of_a_large_loss():
    """E003-1."""
    assert gaussian.loss_tail(1, 1) == pytest.approx(0.3085, abs=5e-5)
    assert gaussian.loss_tail(1, 1) > gaussian.delta(1, 1) == pytest.approx(0.1269, abs=5e-5)
    # The true converse: Pr[loss > e'] <= delta / (1 - e^{e - e'}).
    for further in (1.2, 2, 4):
        bound = gaussian.delta(1, 1) / -math.expm1(1 - further)
        assert gaussian.loss_tail(further, 1) <= bound


class TestPublished:
    def test_classical_formula_is_refused_beyond_its_condition(self):
        assert gaussian.published_classical_sigma(1, 1e-5) == pytest.approx(4.844805263)
        with pytest.raises(ConditionViolated, match="mu_for"):
            gaussian.published_classical_sigma(1.01, 1e-5)

    @pytest.mark.parametrize(
        ("delta", "limit"), [(1e-2, 6.77), (1e-3, 7.46), (1e-5, 8.41), (1e-6, 8.78), (1e-10, 9.84)]
    )
    def test_classical_limit(self, delta, limit):
        """E000-3; the errata round down."""
        found = published_gaussian.classical_limit(delta)
        assert math.floor(found * 100) / 100 == limit
        for epsilon, holds in ((found * 0.999, True), (found * 1.001, False)):
            sigma = gaussian.published_classical_sigma(epsilon, delta, beyond_its_condition=True)
            assert (gaussian.delta(epsilon, 1 / sigma) <= delta) is holds

    @pytest.mark.parametrize(("epsilon", "true_delta"), [(10, 2.27e-5), (20, 1.5e-3)])
    def test_classical_formula_fails_for_large_epsilon(self, epsilon, true_delta):
        sigma = gaussian.published_classical_sigma(epsilon, 1e-5, beyond_its_condition=True)
        assert gaussian.delta(epsilon, 1 / sigma) == pytest.approx(true_delta, rel=0.03)

    def test_any_constant_fails_for_large_epsilon(self):
        """E001-4: sigma = c Delta / epsilon."""
        constant = 10 * math.sqrt(math.log(1e5))
        assert gaussian.delta(1e5, 1e5 / constant) > 0.999

    @pytest.mark.parametrize(
        ("delta", "limit"),
        [
            (1e-2, 6.24),
            (1e-3, 6.97),
            (1e-4, 7.52),
            (1e-5, 7.96),
            (1e-6, 8.33),
            (1e-8, 8.94),
            (1e-10, 9.42),
        ],
    )
    def test_gradient_perturbation_limit(self, delta, limit):
        """E000-9: epsilon*(delta)."""
        found = published_gaussian.published_gradient_perturbation_limit(delta)
        assert math.floor(found * 100) / 100 == limit
        true = published_gaussian.published_gradient_perturbation_true_epsilon
        assert true(found, delta) <= found
        assert true(found * 1.001, delta) > found * 1.001

    @pytest.mark.parametrize(
        ("claimed", "true"), [(1, 0.759), (4, 3.55), (8, 8.007), (16, 19.14), (32, 49.91)]
    )
    def test_gradient_perturbation_true_epsilon(self, claimed, true):
        found = published_gaussian.published_gradient_perturbation_true_epsilon(claimed, 1e-5)
        assert found == pytest.approx(true, abs=0.006)

    def test_gradient_perturbation_sigma(self):
        """golden 000_GP, and the true epsilon is the one of that sigma."""
        sigma = published_gaussian.published_gradient_perturbation_sigma(
            1.0, 1e-6, parties=10, smallest_party=100, lipschitz=1.0, rounds=100
        )
        assert sigma == pytest.approx(0.1051304354, rel=1e-9)
        sensitivity = 2 * 1.0 / (10 * 100)
        exact = sensitivity * math.sqrt(100) / gaussian.mu_for(1, 1e-6)
        assert exact == pytest.approx(0.08449357779, rel=1e-9)
        mu = math.sqrt(100) * sensitivity / sigma
        true = published_gaussian.published_gradient_perturbation_true_epsilon(1, 1e-6)
        assert gaussian.epsilon(1e-6, mu) == pytest.approx(true, rel=1e-9)

    def test_prefix_of_the_iterates(self):
        """E000-10: after t of T rounds the claim is (sqrt(t/T) epsilon, delta)."""
        mu = 8.0 / math.sqrt(2 * math.log(1e5))
        for share in (0.1, 0.5, 0.9):
            assert gaussian.epsilon(1e-5, math.sqrt(share) * mu) <= math.sqrt(share) * 8.0

    def test_synchronous_sgd(self):
        """golden 004_SGD2, E004-7."""
        sigma = published_gaussian.published_synchronous_sgd_sigma(1, 1e-6, lipschitz=1, rounds=100)
        assert sigma == pytest.approx(453.9373978, rel=1e-9)
        assert 2 * 10 / gaussian.mu_for(1, 1e-6) == pytest.approx(84.49357779, rel=1e-9)
        epsilon, delta = published_gaussian.published_synchronous_sgd_proved(1, 1e-6)
        assert epsilon > 1
        assert delta == 2e-6

    def test_secret_noise_in_the_state(self):
        """E003-16, M large: claimed 8.59, true 51.3 / 84.1 (zero-out), 150 / 258 (replace-one)."""
        final, transcript = published_gaussian.published_secret_state_mu(78, 0.1, 5)
        assert gaussian.epsilon(1e-5, final) == pytest.approx(51.3, abs=0.06)
        assert gaussian.epsilon(1e-5, transcript) == pytest.approx(84.1, abs=0.06)
        assert gaussian.epsilon(1e-5, 2 * final) == pytest.approx(150, abs=0.5)
        assert gaussian.epsilon(1e-5, 2 * transcript) == pytest.approx(258, abs=0.5)


def pair_epsilon(gap: float, first: float, second: float, coordinates: int) -> float:
    """epsilon(1e-5) of N(m, first I) against N(0, second I), |m| = gap, the worse direction."""

    def direction(v1: float, v2: float) -> float:
        # log p/q = (n/2) log(v2/v1) + c |x + b m|^2 + k; the norm is noncentral chi-square under p.
        c = (1 / v2 - 1 / v1) / 2
        b = 1 / (2 * c * v1)
        constant = (
            coordinates / 2 * math.log(v2 / v1) - gap**2 / (4 * c * v1**2) - gap**2 / (2 * v1)
        )
        law = stats.ncx2(coordinates, ((1 + b) * gap) ** 2 / v1)
        mean, spread = law.mean(), law.std()
        y = np.linspace(max(mean - 12 * spread, 1e-12), mean + 14 * spread, 20_001)
        loss = constant + c * v1 * y
        density = law.pdf(y) * (y[1] - y[0])
        return invert(loss, density)

    def line(v1: float, v2: float) -> float:
        x = np.linspace(gap - 12 * math.sqrt(v1), gap + 12 * math.sqrt(v1), 40_001)
        log_p = stats.norm.logpdf(x, gap, math.sqrt(v1))
        return invert(log_p - stats.norm.logpdf(x, 0, math.sqrt(v2)), np.exp(log_p) * (x[1] - x[0]))

    def invert(loss: np.ndarray, density: np.ndarray) -> float:
        low, high = 0.0, 2000.0
        for _ in range(40):
            middle = (low + high) / 2
            delta = np.sum(density * np.maximum(-np.expm1(np.minimum(middle - loss, 0)), 0))
            low, high = (middle, high) if delta > 1e-5 else (low, middle)
        return high

    if coordinates == 1:
        return max(line(first, second), line(second, first))
    return max(direction(first, second), direction(second, first))


@pytest.mark.parametrize(
    ("parties", "absent", "empty"), [(20, 70.0, 66.0), (100, 55.1, 54.5), (1000, 51.7, 51.7)]
)
def test_secret_noise_in_the_state_with_few_parties(parties, absent, empty):
    """E003-16, final model, exact with unequal variances."""
    damping, rounds, sigma = 0.1, 78, 5.0
    fresh = damping**2 * sum((1 - damping) ** (2 * i) for i in range(rounds)) * sigma**2
    others = fresh * (parties - 1) / parties
    present = others + damping**2 * rounds * sigma**2 / parties
    gap = damping * rounds
    assert pair_epsilon(gap, present, others, 1) == pytest.approx(absent, abs=0.06)
    assert pair_epsilon(gap, present, fresh, 1) == pytest.approx(empty, abs=0.06)


@pytest.mark.parametrize(("dimension", "epsilon"), [(2, 9.82), (100, 22.6), (1000, 98)])
def test_shares_do_not_hide_who_took_part(dimension, epsilon):
    """E003-16: under add-or-remove the absent share changes the variance of all T d coordinates."""
    found = pair_epsilon(math.sqrt(78), 25.0, 25.0 * 19 / 20, 78 * dimension)
    assert found == pytest.approx(epsilon, rel=0.01)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, "1", None, True])
@pytest.mark.parametrize(
    "call",
    [
        lambda bad: gaussian.delta(bad, 1),
        lambda bad: gaussian.delta(1, bad),
        lambda bad: gaussian.epsilon(bad, 1),
        lambda bad: gaussian.epsilon(1e-5, bad),
        lambda bad: gaussian.mu_for(bad, 1e-5),
        lambda bad: gaussian.mu_for(1, bad),
        lambda bad: gaussian.group(1, bad),
        lambda bad: gaussian.admits(bad, 1, 1),
        lambda bad: gaussian.split(1, bad),
        lambda bad: gaussian.reconstruction_bound(bad, 1),
        lambda bad: gaussian.trade_off([0.5], bad),
        lambda bad: published_gaussian.published_secret_state_mu(10, bad, 1),
    ],
)
def test_bad_numbers_are_refused(call, bad):
    with pytest.raises(InvalidInput):
        call(bad)


@pytest.mark.parametrize("delta", [0, 1, 1.5, -1e-9])
def test_delta_outside_its_interval(delta):
    with pytest.raises(InvalidInput, match="delta"):
        gaussian.epsilon(delta, 1)


@pytest.mark.parametrize("bad", [[], [1, math.nan], [-1.0], [[1.0]], "x"])
def test_bad_lists_are_refused(bad):
    with pytest.raises(InvalidInput):
        gaussian.compose(bad)
    with pytest.raises(InvalidInput):
        gaussian.deltas(1.0, [math.nan])
    with pytest.raises(InvalidInput):
        gaussian.deltas([-1.0], 1.0)
    with pytest.raises(InvalidInput, match="above 1"):
        gaussian.trade_off([1.5], 1.0)
    with pytest.raises(InvalidInput, match="one each"):
        gaussian.compose([1.0, 2.0], [1])


def test_validation_accepts_whole_floats_and_refuses_others():
    assert validation.require_count("rounds", np.int64(3)) == 3
    for bad in (2.5, 0, "3", None, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="rounds"):
            validation.require_count("rounds", bad)
    assert validation.require_delta(0, zero=True) == 0
    with pytest.raises(InvalidInput, match="pure mechanism"):
        validation.require_delta(0)
    with pytest.raises(InvalidInput, match="order"):
        validation.require_orders([1.0, 2.0])
    with pytest.raises(InvalidInput):
        validation.require_probability("rate", 0.0, zero=False)
