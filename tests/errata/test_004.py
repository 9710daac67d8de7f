"""Source 004 (SGD1 and SGD2): what fails there and holds here."""

import math

import pytest

from unisono.accounting import composition, gaussian, hidden_order, pld, published_gaussian, zcdp
from unisono.accounting.curve import PrivacyCurve
from unisono.core.events import Event, Gaussian, bounded_sum
from unisono.core.trust import Relation


def test_the_cube_root_of_delta_is_not_delta():
    """E004-2: eq. (6) counts delta' = delta^(1/3) as delta: 5e-10 becomes 7.9e-4."""
    delta, n = 5e-10, 1000
    total = hidden_order.published_equation6_delta(delta, n)
    assert total == pytest.approx(7.9e-4, rel=0.01)
    assert total >= delta ** (1 / 3) > delta
    left = composition.slack(delta / (2 * n**2), n**2, delta)  # what is truly left for delta'
    log_kept = n**2 * math.log1p(-delta / (2 * n**2)) + math.log1p(-left)
    assert -math.expm1(log_kept) == pytest.approx(delta, rel=1e-6)
    assert left < delta


@pytest.mark.parametrize("n", [100, 1000, 10_000])
def test_lemma_2_does_not_give_the_step_that_theorem_1_uses(n):
    """E004-3: eq. (3) costs epsilon/sqrt(2 log(1.25 n^2/delta)) a step, above Theorem 1's claim."""
    epsilon, delta = 0.5, 0.5 / n**3
    sigma = hidden_order.published_sigma(epsilon, delta, n, lipschitz=1.0)
    claimed = epsilon / (2 * math.sqrt(math.log(1 / delta)))
    by_lemma = {
        reach: reach * n * math.sqrt(2 * math.log(1.25 * n**2 / delta)) / sigma for reach in (1, 2)
    }
    assert by_lemma[2] > claimed  # replace-one moves the scaled gradient by 2nL
    assert by_lemma[1] <= claimed  # the proof needs zero-out, which it does not state
    step = Event(Gaussian(sigma), bounded_sum(l2=float(n)))
    exact = {r: PrivacyCurve(step * 1, r).epsilon(delta / n**2) for r in Relation}
    assert exact[Relation.REPLACE_ONE] > exact[Relation.ZERO_OUT]
    assert exact[Relation.REPLACE_ONE] == pytest.approx(
        gaussian.epsilon(delta / n**2, 2 * n / sigma), rel=1e-9
    )


@pytest.mark.parametrize(
    ("target", "true"),
    [(0.5, {300: 0.73, 1000: 1.27, 3000: 2.12}), (0.99, {300: 1.50, 1000: 2.61, 3000: 4.37})],
)
def test_who_drew_the_order_is_not_fooled_by_it(target, true):
    """E004-5: B chose pi, so nothing is amplified against B: 0.5 is really 0.73 to 2.12."""
    for n, epsilon in true.items():
        delta = 0.5 / n**3
        sigma = hidden_order.published_sigma(target, delta, n, lipschitz=1.0)
        found = hidden_order.known_order_epsilon(delta, n, 1.0, sigma)
        assert found == pytest.approx(epsilon, abs=0.006)
        assert found > target
        # n fixed passes cost what any order with n uses of each record costs.
        sigma = math.sqrt(n) * 2 * n / gaussian.mu_for(target, delta)
        mu = hidden_order.capped_mu(n, n, 1.0, sigma)
        assert gaussian.epsilon(delta, mu) == pytest.approx(target, rel=1e-9)


def test_theorem_1_is_true_only_for_strangers_and_few_records():
    """E004-5: who knows nothing of the order sees 0.085; B is short-changed from n = 132 on."""

    def views(n, target=0.5):
        delta = 0.5 / n**3
        sigma = hidden_order.published_sigma(target, delta, n, lipschitz=1.0)
        return (
            hidden_order.without_order_epsilon(delta, n, 1.0, sigma),
            hidden_order.known_order_epsilon(delta, n, 1.0, sigma),
        )

    stranger, coordinator = views(100)
    assert 0.08 < stranger < 0.09
    assert stranger < coordinator < 0.5
    assert views(131)[1] <= 0.5 < views(132)[1]


def test_synchronous_sgd_proves_less_than_it_states():
    """E004-7: T parts of (epsilon/sqrt(T log 1/delta), delta/T) are not (epsilon, delta)-DP."""
    epsilon, delta, rounds = 1.0, 1e-6, 100
    each = epsilon / math.sqrt(rounds * math.log(1 / delta))
    worst = pld.compose([(pld.ApproximatePair(each, delta / rounds), rounds)])
    assert worst.delta(epsilon).lower > 10 * delta
    proved, proved_delta = published_gaussian.published_synchronous_sgd_proved(epsilon, delta)
    assert proved == pytest.approx(math.sqrt(2) + 1 / math.log(1e6))
    assert proved_delta == 2 * delta
    assert worst.epsilon(proved_delta).upper <= proved


def test_synchronous_sgd_noise_in_numbers():
    """E004-7: L = 1, T = 100, (1, 1e-6): 84.5 exactly, 107.0 by zCDP, 453.9 by Theorem 3."""
    sigma = 2 * math.sqrt(100) / gaussian.mu_for(1.0, 1e-6)
    assert sigma == pytest.approx(84.49357779, rel=1e-9)
    by_zcdp = 2 * math.sqrt(100) / math.sqrt(2 * zcdp.rho_standard(1.0, 1e-6))
    assert by_zcdp == pytest.approx(106.9996012, rel=1e-9)
    published = published_gaussian.published_synchronous_sgd_sigma(
        1.0, 1e-6, lipschitz=1.0, rounds=100
    )
    assert published == pytest.approx(453.9373978, rel=1e-9)
    run = Event(Gaussian(sigma), bounded_sum(l2=1.0)) * 100
    curve = PrivacyCurve(run, Relation.REPLACE_ONE)
    assert curve.epsilon(1e-6) == pytest.approx(1.0, rel=1e-9)
    assert not PrivacyCurve(run + run, Relation.REPLACE_ONE).fits(1.0, 1e-6)
