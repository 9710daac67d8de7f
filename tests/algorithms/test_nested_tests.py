"""Likelihood-ratio tests of what was released: Wald's where S is the same, and of the right level
where it is not."""

import numpy as np
import pytest
from scipy.stats import binom, chi2

from unisono.algorithms.nested_tests import Evidence, distance
from unisono.algorithms.noisy_scores import Scored, noise_aware_step, numpy_loop
from unisono.errors import InvalidInput
from unisono.models.inference import Inference, LikelihoodRatioTest

P, RECORDS = 4, 4000.0


def evidence(seed, s_gradient=30.0, s_curvature=60.0, effect=0.0, curving=1e-3):
    """What a last round releases where the last two of four coefficients are `effect`, asked at a
    point that is off by what an earlier round would leave."""
    generator = np.random.default_rng(seed)
    true = RECORDS * (0.7 * np.eye(P) + 0.3)
    truth = np.array([0.3, -0.2, effect, effect])
    point = truth + 0.04 * generator.normal(size=P)
    noise = generator.normal(size=(P, P)) * s_curvature
    scattered = generator.multivariate_normal(np.zeros(P), true)
    gradient = true @ (truth - point) + scattered + s_gradient * generator.normal(size=P)
    scored = Scored(
        gradient, true + (noise + noise.T) / 2, true.copy(), s_gradient, s_curvature, 0.0
    )
    prior = np.eye(P) / 25
    return Evidence(scored, prior, -point, 4.0, curving, point, np.eye(P))


def wald(own, places):
    step = noise_aware_step(
        np, own.scored, own.prior, own.prior_way, own.largest, own.curving, numpy_loop
    )
    found = (own.theta + step.way)[places]
    return found @ np.linalg.solve(step.covariance[np.ix_(places, places)], found)


def test_without_noise_in_the_curvature_it_is_walds_statistic():
    for seed in range(5):
        own = evidence(seed, s_curvature=1e-9, effect=0.05, curving=0.0)
        assert distance(own, [2, 3]) == pytest.approx(wald(own, [2, 3]), rel=1e-3)


def test_large_effects_are_found_and_none_are_not_below_zero():
    assert distance(evidence(1, effect=0.4), [2, 3]) > chi2.isf(1e-6, 2)
    assert min(distance(evidence(seed), [3]) for seed in range(8)) >= 0.0


def rejected(seeds, places):
    limit = chi2.isf(0.05, len(places))
    return sum(distance(evidence(seed), places) > limit for seed in seeds)


def test_the_level_is_kept():
    """Of 40 tests at 5 % more than 9 reject in one of 10^4 runs."""
    assert rejected(range(40), [2, 3]) <= 9
    assert binom.sf(9, 40, 0.05) < 1e-4


@pytest.mark.slow
def test_the_level_is_that_of_a_test_at_five_percent():
    """2,000 simulations; 3.5 to 6.5 % is three deviations."""
    assert 70 <= rejected(range(1000, 3000), [2, 3]) <= 130


def test_what_cannot_be_compared_is_refused():
    own = evidence(3, effect=0.1)
    names = ("intercept", "age", "marker", "dose")
    known = np.ones(P, bool)
    found = Inference(names, own.theta, np.eye(P), np.eye(P), known, evidence=own)
    test = found.likelihood_ratio(["marker", "dose"])
    assert isinstance(test, LikelihoodRatioTest)
    assert test.degrees == 2
    assert test.p_value == pytest.approx(chi2.sf(distance(own, [2, 3]), 2))
    with pytest.raises(InvalidInput, match="use Wald's test"):
        found.likelihood_ratio(["intercept"])
    with pytest.raises(InvalidInput, match="name each once"):
        found.likelihood_ratio(["dose", "dose"])
