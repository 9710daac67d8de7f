"""Scores of reconstructions: matching, baselines and exponents."""

import math

import numpy as np
import pytest

from unisono.attacks.scoring import fit_slope, match, mean_baseline, verdict
from unisono.errors import InvalidInput

TRUTH = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]])


def test_match_undoes_any_order():
    score = match(TRUTH[[2, 0, 1]], TRUTH)
    assert np.all(score.errors == 0)
    assert np.all(np.isinf(score.psnr))
    assert np.array_equal(score.matched, TRUTH)


def test_errors_are_relative_to_each_record():
    score = match(TRUTH + np.array([0.3, 0.4]), TRUTH)
    assert score.errors == pytest.approx([0.1, 0.25, 0.5])
    assert score.error == pytest.approx(np.mean([0.1, 0.25, 0.5]))


def test_match_minimises_the_sum_and_is_not_greedy():
    """The nearest pair is (0.9, 1), but giving it up lowers the sum of squares."""
    score = match([[0.9], [3.0]], [[1.0], [0.1]])
    assert score.matched.ravel() == pytest.approx([3.0, 0.9])
    apart, greedy = 2.0**2 + 0.8**2, 0.1**2 + 2.9**2
    assert apart < greedy


def test_signs_are_free_only_where_said():
    assert np.all(match(-TRUTH, TRUTH, signs_free=True).errors == 0)
    assert np.min(match(-TRUTH, TRUTH).errors) > 1


def test_a_record_nobody_guessed_counts_as_zero():
    score = match(TRUTH[:1], TRUTH)
    assert score.errors == pytest.approx([0, 1, 1])


def test_psnr_by_its_definition():
    """A mean squared error of 1/100 at peak 1 is 20 dB; ten times the peak adds 20 dB."""
    truth, guess = np.ones((1, 4)), np.full((1, 4), 0.9)
    assert match(guess, truth, peak=1.0).psnr == pytest.approx([20.0])
    assert match(guess, truth, peak=10.0).psnr == pytest.approx([40.0])


def test_mean_baseline_guesses_the_mean_of_the_reference():
    score = mean_baseline([[0.0, 0.0], [2.0, 4.0]], TRUTH)
    assert score.errors[1] == pytest.approx(0.5)
    assert np.array_equal(score.matched, np.tile([1.0, 2.0], (3, 1)))


def test_slope_of_a_power_and_its_uncertainty():
    sizes = np.array([1e3, 1e4, 1e5, 1e6])
    exact = fit_slope(sizes, 7 * sizes**-0.5)
    assert exact.exponent == pytest.approx(-0.5)
    assert exact.uncertainty < 1e-12
    bent = fit_slope(sizes, 7 * sizes**-0.5 * np.array([1, 1.3, 0.7, 1]))
    assert 0.01 < bent.uncertainty < 0.2
    assert math.isnan(fit_slope([1, 2], [1, 2]).uncertainty)


@pytest.mark.parametrize(
    ("measured", "word"), [(-0.5, "holds"), (-0.41, "holds"), (-0.3, "violated"), (-0.7, "loose")]
)
def test_verdict_on_an_upper_bound(measured, word):
    assert verdict(measured, -0.5) == word


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: match(np.ones((2, 3)), TRUTH), "features of the truth"),
        (lambda: match(np.full((3, 2), np.nan), TRUTH), "NaN"),
        (lambda: match(np.ones(3), TRUTH), "give rows"),
        (lambda: match(TRUTH, np.zeros((3, 2))), "all zeros"),
        (lambda: mean_baseline(np.ones((2, 3)), TRUTH), "public"),
        (lambda: fit_slope([1, 1], [1, 2]), "two sizes"),
        (lambda: fit_slope([1, 2], [1, 0]), "positive"),
    ],
)
def test_refusals_say_why(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
