"""The moments accountant of source 003 reproduces the source's figures."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.accounting import gaussian, moments, renyi
from unisono.errors import InvalidInput


def integrated(power: int, rate: float, noise: float) -> tuple[float, float]:
    """E1 and E2 of eq. 2.15, 2.16 by quadrature."""
    with mp.workdps(30):
        q, s = mp.mpf(rate), mp.mpf(noise)

        def base(z):
            return mp.npdf(z, 0, s)

        def ratio(z):
            return (1 - q) + q * mp.exp((2 * z - 1) / (2 * s * s))

        points = [-16 * s, -4 * s, 0, 1, power / 2, power, power + 1, power + 6 * s, power + 18 * s]
        first = mp.quad(lambda z: base(z) * ratio(z) ** -power, sorted(points))
        second = mp.quad(lambda z: base(z) * ratio(z) ** (power + 1), sorted(points))
        return float(first), float(second)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("noise", [1.0, 3.0])
def test_closed_form_is_the_larger_integral(rate, noise):
    """E003-3: E2 >= E1, and E2 has the closed form."""
    alpha = moments.log_moments(rate, noise)
    for power in (1, 2, 5, 12):
        first, second = integrated(power, rate, noise)
        assert second >= first
        assert alpha[power - 1] == pytest.approx(math.log(max(first, second)), rel=1e-10)


def test_golden_values():
    assert moments.log_moments(0.1, 1)[0] == pytest.approx(0.01703686324, rel=1e-9)
    step = moments.log_moments(1, 5)
    assert moments.epsilon(77 * step, 1e-5) == pytest.approx(9.997641822, rel=1e-9)
    assert moments.epsilon(78 * step, 1e-5) == pytest.approx(10.07764182, rel=1e-9)
    assert moments.epsilon_tight(78 * step, 1e-5) == pytest.approx(9.33, abs=5e-3)
    # E003-5: the exact values, add-or-remove and replace-one.
    assert gaussian.epsilon(1e-5, math.sqrt(78) / 5) == pytest.approx(8.59, abs=5e-3)


@pytest.mark.parametrize(
    ("rate", "row"),
    [
        (0.001, (0.97, 1.08, 2.11, 7.21)),
        (0.01, (1.62, 2.54, 7.47, 28.69)),
        (0.05, (3.09, 6.12, 20.09, 97.24)),
        (0.1, (4.18, 8.93, 28.55, 181.9)),
        (0.5, (6.14, 18.66, 82.99, 726.3)),
    ],
)
def test_figure_4_2(rate, row):
    step = moments.log_moments(rate, 1.0)
    for epochs, shown in zip((1, 10, 100, 1000), row, strict=True):
        digit = 0.05 if shown > 100 else 0.005
        found = moments.epsilon(round(epochs / rate) * step, 1e-5)
        assert found == pytest.approx(shown, abs=digit * 1.001)


def test_figure_4_1():
    """INVENTORY 4.1: q = .1, noise 1, 50 local steps a round."""
    step = moments.log_moments(0.1, 1.0)
    shown = {100: 96.7, 250: 224.5, 500: 437, 573: 500, 800: 693, 1000: 863}
    for rounds, epsilon in shown.items():
        assert moments.epsilon(50 * rounds * step, 1e-5) == pytest.approx(epsilon, abs=0.6)


def test_stop_before_the_step_that_exceeds():
    """E003-7."""
    assert moments.steps_within(10, 1e-5, 1, 5) == 77
    assert moments.steps_within(10, 1e-5, 1, 5, tight=True) >= 78
    assert moments.steps_within(1e-3, 1e-5, 1, 5) == 0


def test_delta_direction():
    """E003-2: the bound is the smallest *proved* delta, never zero for a real mechanism."""
    alpha = 78 * moments.log_moments(1, 5)
    found = moments.delta(alpha, 8.0)
    assert found > gaussian.delta(8.0, math.sqrt(78) / 5) > 0
    assert moments.epsilon(alpha, found) == pytest.approx(8.0, rel=1e-12)
    assert moments.delta(alpha, 0) == 1


def test_values_do_not_depend_on_the_sensitivity_but_relation_does():
    """E003-4, E003-5: only q, noise multiplier and T enter; replace-one halves the multiplier."""
    add_or_remove = moments.epsilon(78 * moments.log_moments(1, 5), 1e-5)
    replace_one = moments.epsilon(78 * moments.log_moments(1, 2.5), 1e-5)
    assert replace_one > 2 * add_or_remove
    assert replace_one > gaussian.epsilon(1e-5, 2 * math.sqrt(78) / 5) > 20.65


@given(st.floats(0.001, 1), st.floats(0.5, 10), st.integers(1, 2000), st.floats(-12, -2))
@settings(max_examples=30, deadline=None)
def test_tight_conversion_is_tighter_and_above_renyi(rate, noise, steps, log_delta):
    alpha, delta = steps * moments.log_moments(rate, noise), 10**log_delta
    loose, tight = moments.epsilon(alpha, delta), moments.epsilon_tight(alpha, delta)
    assert tight <= loose
    orders = np.arange(2, 34)
    curve = steps * renyi.poisson_gaussian(orders, rate, noise)
    assert renyi.epsilon(orders, curve, delta) <= tight * (1 + 1e-9)
    if rate == 1:
        assert tight >= gaussian.epsilon(delta, math.sqrt(steps) / noise)


def test_composition_adds():
    first, second = moments.log_moments(0.1, 1), moments.log_moments(0.2, 3)
    np.testing.assert_allclose(moments.compose([first, second], [3, 2]), 3 * first + 2 * second)
    np.testing.assert_array_equal(moments.log_moments(0, 1), 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: moments.log_moments(1.1, 1),
        lambda: moments.log_moments(math.nan, 1),
        lambda: moments.log_moments(0.1, 0),
        lambda: moments.log_moments(0.1, math.inf),
        lambda: moments.log_moments(0.1, 1, 0),
        lambda: moments.epsilon([math.nan], 1e-5),
        lambda: moments.epsilon([0.1], 0),
        lambda: moments.delta([0.1], math.nan),
        lambda: moments.compose([]),
        lambda: moments.compose([[0.1], [0.1, 0.2]]),
        lambda: moments.steps_within(0, 1e-5, 1, 1),
        lambda: moments.steps_within(1, 1e-5, 0, 1),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
