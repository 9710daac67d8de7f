"""zCDP: both conversions, their inverses, and the tight rho of pure mechanisms."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.accounting import gaussian, renyi, zcdp
from unisono.errors import InvalidInput

FEW = settings(max_examples=30, deadline=None)


@pytest.mark.parametrize(
    ("rho", "delta", "standard", "tight", "exact"),
    [
        (0.01, 1e-6, 0.7533844378, 0.6216926575, 0.5750551858),
        (0.1, 1e-5, 2.245966026, 1.914239946, 1.76005715),
        (0.5, 1e-5, 5.298525912, 4.728388061, 4.377178096),
        (1.56, 1e-5, 10.03588667, 9.225087949, 8.58750376),
    ],
)
def test_golden_conversions(rho, delta, standard, tight, exact):
    assert zcdp.epsilon_standard(rho, delta) == pytest.approx(standard, rel=1e-9)
    # The golden value came from a grid of orders: the true minimum is up to 1e-6 below.
    assert zcdp.epsilon(rho, delta) == pytest.approx(tight, rel=2e-6)
    assert zcdp.epsilon(rho, delta) <= tight
    assert gaussian.epsilon(delta, math.sqrt(2 * rho)) == pytest.approx(exact, rel=1e-9)
    assert exact < zcdp.epsilon(rho, delta) < standard


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"),
    [(1, 1e-5, 0.02081993834), (1, 1e-6, 0.01746890477), (8, 1e-5, 1.049136201)],
)
def test_golden_inverse(epsilon, delta, rho):
    assert zcdp.rho_standard(epsilon, delta) == pytest.approx(rho, rel=1e-9)
    assert zcdp.epsilon_standard(zcdp.rho_standard(epsilon, delta), delta) <= epsilon


def test_tight_conversion_is_the_minimum_over_orders():
    with mp.workdps(30):
        rho, log_delta = mp.mpf("1.56"), mp.log(mp.mpf("1e-5"))

        def bound(a):
            return a * rho + mp.log(1 - 1 / a) - (log_delta + mp.log(a)) / (a - 1)

        order = mp.findroot(lambda a: mp.diff(bound, a), mp.mpf(3.6))
        assert zcdp.epsilon(1.56, 1e-5) == pytest.approx(float(bound(order)), rel=1e-11)


@given(st.floats(-3, 2), st.floats(-15, -1))
@FEW
def test_calibrate_then_account_never_exceeds(log_epsilon, log_delta):
    epsilon, delta = 10**log_epsilon, 10**log_delta
    rho = zcdp.rho_for(epsilon, delta)
    assert rho >= zcdp.rho_standard(epsilon, delta)
    assert zcdp.epsilon(rho, delta) <= epsilon
    assert zcdp.epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-6, abs=1e-9)
    # zCDP may never promise more than the exact curve of the Gaussian with that rho.
    assert gaussian.epsilon(delta, math.sqrt(2 * rho)) <= epsilon


@given(st.floats(-6, 1), st.floats(0.001, 20))
@FEW
def test_delta_and_epsilon_invert_each_other(log_rho, epsilon):
    rho = 10**log_rho
    delta = zcdp.delta(epsilon, rho)
    if 1e-300 < delta < 0.5:
        assert zcdp.epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-6)
        assert delta >= gaussian.delta(epsilon, math.sqrt(2 * rho))


@given(st.floats(0.01, 20))
@FEW
def test_pure_rho_dominates_randomized_response_and_is_attained(epsilon):
    """E001-5: the true rho of randomized response."""
    orders = np.concatenate([1 + np.geomspace(1e-6, 1, 30), np.arange(2.5, 60, 0.5)])
    ratio = renyi.pure(orders, epsilon) / orders
    rho = zcdp.pure(epsilon)
    assert np.all(ratio <= rho * (1 + 1e-9))
    assert ratio[0] == pytest.approx(rho, rel=1e-4)
    assert rho <= zcdp.pure_classic(epsilon)


@pytest.mark.parametrize(("epsilon", "rho"), [(1, 0.462), (2, 1.523), (10, 10.0)])
def test_pure_values(epsilon, rho):
    assert zcdp.pure(epsilon) == pytest.approx(rho, abs=1e-3)


def test_published_gradient_perturbation_is_not_proved_by_zcdp():
    """E000-9: rho = epsilon^2/(4 log 1/delta) converts to epsilon + epsilon^2/(4 log 1/delta)."""
    for epsilon in (0.1, 1, 10):
        rho = epsilon**2 / (4 * math.log(1e5))
        assert zcdp.epsilon_standard(rho, 1e-5) == pytest.approx(epsilon + rho, rel=1e-12)
    # golden 000_GP and 004_SGD2
    rho = zcdp.rho_standard(1, 1e-6)
    assert zcdp.standard_deviation(2 / 1000, rho / 100) == pytest.approx(0.1069996012, rel=1e-9)
    assert zcdp.standard_deviation(2, rho / 100) == pytest.approx(106.9996012, rel=1e-9)


def test_source_theorem_2_5():
    """001-T2.5: pure -> (epsilon^2/2 + epsilon sqrt(2 log 1/delta), delta)."""
    assert zcdp.epsilon_standard(zcdp.pure_classic(0.3), 1e-5) == pytest.approx(
        0.045 + 0.3 * math.sqrt(2 * math.log(1e5))
    )


def test_composition_group_and_calibration():
    assert zcdp.compose([0.1, 0.2], [3, 1]) == pytest.approx(0.5)
    assert zcdp.group(0.01, 5) == pytest.approx(0.25)
    assert zcdp.gaussian(2, zcdp.standard_deviation(2, 0.3)) == pytest.approx(0.3)
    assert zcdp.epsilon(0, 1e-5) == 0
    assert zcdp.delta(1, 0) == 0
    assert zcdp.epsilon(1e-9, 0.5) == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, "x", None])
@pytest.mark.parametrize(
    "call",
    [
        lambda bad: zcdp.epsilon(bad, 1e-5),
        lambda bad: zcdp.epsilon(1, bad),
        lambda bad: zcdp.rho_for(bad, 1e-5),
        lambda bad: zcdp.rho_standard(bad, 1e-5),
        lambda bad: zcdp.delta(bad, 1),
        lambda bad: zcdp.pure(bad),
        lambda bad: zcdp.gaussian(1, bad),
        lambda bad: zcdp.compose([bad]),
        lambda bad: zcdp.group(1, bad),
    ],
)
def test_bad_input(call, bad):
    with pytest.raises(InvalidInput):
        call(bad)
