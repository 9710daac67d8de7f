"""One suite over every mechanism: calibrated within target, noise as stated, tails as stated."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.attacks.audit import audit, check
from unisono.core.costs import everyone
from unisono.core.events import (
    DiscreteGaussian,
    Distance,
    Event,
    Gaussian,
    Laplace,
    NormNoise,
    Poisson,
    Sensitivity,
    WithoutReplacement,
    bounded_sum,
)
from unisono.core.ledger import Ledger
from unisono.core.noise.norm import norm_share
from unisono.core.policy import Budget, Policy
from unisono.core.release import noise_steps
from unisono.core.trust import Relation, Unit
from unisono.errors import InvalidInput, UndefinedRelation, UnknownEvent
from unisono.mechanisms import (
    MECHANISMS,
    discrete_gaussian,
    gaussian,
    laplace,
    norm,
    randomized_response,
    selection,
    skellam,
)

BOUND = bounded_sum(l1=2.0, l2=1.0, linf=1.0)
GRID = 2.0**-6
ADDITIVE = [name for name, mechanism in MECHANISMS.items() if mechanism.law.additive]


def calibrated(name, epsilon=1.0, delta=1e-5, count=1, **options):
    mechanism = MECHANISMS[name]
    options = {"grid": GRID} | options
    target = 0.0 if mechanism.pure else delta
    return mechanism.calibrate(BOUND, Relation.REPLACE_ONE, epsilon, target, count=count, **options)


def key(number):
    return number.to_bytes(32, "little")


def book(seed=0):
    policy = Policy("d", Budget(1e6, 0.5))
    return Ledger.in_memory(policy, ACCOUNTANT, seed=seed)


def draws(event, count, seed=0):
    """`count` paid draws of one event."""
    grant = book(seed).authorize(everyone(event * count), releases=count)
    return (grant.draw(i) for i in range(count))


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("name", MECHANISMS)
def test_calibration_never_overshoots_and_wastes_little(name, epsilon, count):
    event = calibrated(name, epsilon, count=count)
    delta = 0.0 if MECHANISMS[name].pure else 1e-5
    spent = PrivacyCurve(event * count, Relation.REPLACE_ONE).epsilon(delta)
    assert epsilon * 0.995 < spent <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "norm"])
@pytest.mark.parametrize("sampler", [Poisson(0.05), WithoutReplacement(5, 100)])
def test_calibration_under_sampling(name, sampler):
    target = 1e-5
    event = MECHANISMS[name].calibrate(
        BOUND, Relation.REPLACE_ONE, 1.0, target, count=10, sampler=sampler
    )
    spent = PrivacyCurve(event * 10, Relation.REPLACE_ONE).epsilon(target)
    assert 0.99 < spent <= 1.0
    scale = getattr(event.noise, "std", getattr(event.noise, "scale", None))
    plain = MECHANISMS[name].calibrate(BOUND, Relation.REPLACE_ONE, 1.0, target, count=10)
    assert scale < getattr(plain.noise, "std", getattr(plain.noise, "scale", None))


@pytest.mark.parametrize("name", ["discrete-gaussian", "skellam"])
def test_unaccountable_sampling_is_refused(name):
    with pytest.raises(InvalidInput, match="under sampling"):
        calibrated(name, sampler=Poisson(0.1))
    event = replace(calibrated(name), sampler=Poisson(0.1))
    with pytest.raises(UnknownEvent, match="no accountant"):
        PrivacyCurve(event * 1, Relation.ZERO_OUT).epsilon(1e-5)


def in_dimension(event, dimension):
    """The same noise, authorised in more coordinates."""
    noise = event.noise
    if isinstance(noise, (Laplace, DiscreteGaussian)):
        noise = replace(noise, dimension=dimension)
    return replace(event, noise=noise)


LAWS = {
    "laplace": lambda noise: stats.laplace(scale=noise.scale / GRID),
    "gaussian": lambda noise: stats.norm(scale=noise.std / GRID),
    "discrete-gaussian": lambda noise: stats.norm(scale=noise.std / GRID),
    "skellam": lambda noise: stats.norm(scale=noise.std / GRID),
    "norm": lambda noise: stats.laplace(scale=noise.scale / GRID),
}


@pytest.mark.parametrize("name", ADDITIVE)
def test_noise_has_the_law_the_event_names(name):
    """Kolmogorov-Smirnov against the continuous law, in one coordinate, at a false-alarm rate
    of 1e-6; a grid of more than 60 steps to the standard deviation hides the lattice."""
    event = calibrated(name)
    if name == "norm":
        values = np.array([noise_steps(key(i), event, GRID, (1,), 1)[0] for i in range(20_000)])
    else:
        values = noise_steps(key(1), in_dimension(event, 20_000), GRID, (20_000,), 1)
    uniform = np.random.default_rng(0).uniform(-0.5, 0.5, len(values))
    assert stats.kstest(values + uniform, LAWS[name](event.noise).cdf).pvalue > 1e-6
    half = LAWS[name](type(event.noise)(**{**event.noise.__dict__, **_halved(event.noise)}))
    assert stats.kstest(values + uniform, half.cdf).pvalue < 1e-9


def _halved(noise):
    field = "std" if hasattr(noise, "std") else "scale"
    return {field: getattr(noise, field) / 2}


@pytest.mark.parametrize("name", ADDITIVE)
@pytest.mark.parametrize("dimension", [1, 7])
def test_tail_bounds_hold(name, dimension):
    """At probability 0.01 over 2,000 vectors, more than 50 misses have probability 1e-7."""
    event = calibrated(name)
    event = in_dimension(event, dimension)
    bound = MECHANISMS[name].tail(event.noise, dimension, 0.01)
    misses = 0
    for i in range(2000):
        vector = noise_steps(key(i), event, GRID, (dimension,), 1) * GRID
        size = np.linalg.norm(vector) if name == "norm" else np.abs(vector).max()
        misses += size > bound
    assert misses <= 50


SHARED = {
    "laplace": laplace.calibrate(BOUND, Relation.REPLACE_ONE, 1.0, dimension=4000),
    "gaussian": gaussian.calibrate(
        BOUND, Relation.REPLACE_ONE, 1.0, 1e-5, shares=5, grid=GRID, dimension=4000
    ),
    "discrete-gaussian": discrete_gaussian.calibrate(
        BOUND, Relation.REPLACE_ONE, 1.0, 1e-5, shares=5, grid=GRID, dimension=4000
    ),
    "skellam": skellam.calibrate(BOUND, Relation.REPLACE_ONE, 1.0, 1e-5, grid=GRID),
}


@pytest.mark.parametrize("name", SHARED)
def test_five_shares_add_up_to_the_whole_noise(name):
    """Kolmogorov-Smirnov of sums of shares at a false-alarm rate of 1e-6."""
    event = SHARED[name]
    total = sum(noise_steps(key(i), event, GRID, (4000,), 5) for i in range(5))
    uniform = np.random.default_rng(0).uniform(-0.5, 0.5, total.shape)
    law = LAWS[name](event.noise)
    assert stats.kstest(total + uniform, law.cdf).pvalue > 1e-6
    four = total - noise_steps(key(0), event, GRID, (4000,), 5)
    assert np.var(four) == pytest.approx(0.8 * law.var(), rel=0.15)


def test_real_shares_of_the_norm_mechanism_add_up():
    """E000-8: the gamma mixture; lengths of sums follow Gamma(p, scale), false-alarm rate 1e-6."""
    generator = np.random.default_rng(8)
    total = sum(norm_share(generator, 2.0, 6, 5, 4000) for _ in range(5))
    assert stats.kstest(np.linalg.norm(total, axis=1), stats.gamma(6, scale=2.0).cdf).pvalue > 1e-6
    with pytest.raises(UnknownEvent, match="5 shares"):
        noise_steps(key(0), norm.calibrate(BOUND, Relation.REPLACE_ONE, 1.0), GRID, (3,), 5)


@pytest.mark.parametrize("dimension", [1, 2, 5, 8])
def test_norm_noise_is_exact_and_isotropic(dimension):
    """Lengths follow Gamma(p, scale); every draw equals its exact evaluation."""
    from unisono.core.noise import Keystream
    from unisono.core.noise.norm import rounded_norm

    vectors = np.array([rounded_norm(Keystream(key(i)), 500.0, dimension) for i in range(4000)])
    lengths = np.linalg.norm(vectors, axis=1)
    assert stats.kstest(lengths, stats.gamma(dimension, scale=500.0).cdf).pvalue > 1e-6
    signs = np.sign(vectors).mean(axis=0)
    assert np.abs(signs).max() < 5.5 / math.sqrt(4000)  # 1e-7 a coordinate
    for i in range(25):
        slow = rounded_norm(Keystream(key(i)), 500.0, dimension, always_exact=True)
        np.testing.assert_array_equal(slow, vectors[i])


# ------------------------------------------------------------------- audits


def _release_in_two_worlds(event, runs, seed):
    """0 or the full replace-one distance, plus noise."""
    distance = event.sensitivity.under(Relation.REPLACE_ONE).in_norm(event.noise.norm)
    noise = np.array([noise_steps(key(seed + i), event, GRID, (1,), 1)[0] for i in range(2 * runs)])
    values = noise * GRID
    return values[:runs] + distance, values[runs:]


@pytest.mark.parametrize("name", ADDITIVE)
def test_empirical_epsilon_stays_below_the_claim_and_halved_noise_is_caught(name):
    """One audit at 95 % confidence with fixed seeds."""
    event = calibrated(name)
    delta = 0.0 if MECHANISMS[name].pure else 1e-5
    inside, outside = _release_in_two_worlds(event, 5000, seed=10**6)
    check(1.0, delta, audit(inside, outside, delta=delta))
    halved = Event(type(event.noise)(**{**event.noise.__dict__, **_halved(event.noise)}), BOUND)
    found = audit(*_release_in_two_worlds(halved, 5000, seed=10**6), delta=delta)
    assert max(found.epsilon_direct, found.epsilon_model_based or 0) > 1.0


@pytest.mark.parametrize("choices", [2, 5])
def test_randomized_response(choices):
    event = randomized_response.calibrate(epsilon=1.0, choices=choices)
    people = 20_000
    truth = np.full(people, choices - 1)
    (draw,) = draws(event, 1)
    said = randomized_response.respond(draw, truth, event)
    kept = np.mean(said == truth)
    expected = math.e / (math.e + choices - 1)
    assert kept == pytest.approx(expected, abs=6 * 0.5 / math.sqrt(people))
    estimate = randomized_response.estimate(said, event.noise)
    margin = randomized_response.tail(event.noise, people, 1e-6)
    assert np.abs(estimate - np.bincount(truth, minlength=choices)).max() < margin
    lies = np.bincount(said, minlength=choices)[:-1]
    assert stats.chisquare(lies).pvalue > 1e-6 if choices > 2 else True
    with pytest.raises(InvalidInput, match="choices"):
        randomized_response.respond(next(draws(event, 1)), np.array([choices]), event)


SCORES = np.array([3.0, 2.0, 0.0, 2.9])
SCORE_BOUND = Sensitivity(Unit.RECORD, *[Distance(linf=1.0)] * 3)


@pytest.mark.parametrize("choose", [selection.exponential, selection.noisy_max])
def test_selection_has_its_law_and_its_epsilon(choose):
    """Chi-square against the exact law at 1e-6; the largest log ratio on neighbours is epsilon."""
    event = selection.calibrate(SCORE_BOUND, Relation.REPLACE_ONE, 1.0)
    counts = np.bincount([choose(d, SCORES, event) for d in draws(event, 4000)], minlength=4)
    law = _law(choose, SCORES, event.noise.scale)
    assert stats.chisquare(counts, 4000 * law).pvalue > 1e-6
    worst = 0.0
    for signs in np.ndindex(2, 2, 2, 2):
        moved = SCORES + np.array(signs) - 0.5
        other = SCORES - (np.array(signs) - 0.5)
        ratio = np.log(
            _law(choose, moved, event.noise.scale) / _law(choose, other, event.noise.scale)
        )
        worst = max(worst, np.abs(ratio).max())
    assert 0.5 < worst <= 1.0 + 1e-9


def _law(choose, scores, scale):
    """Exact probabilities, by enumeration of permute-and-flip's orders."""
    accept = np.exp((scores - scores.max()) / (2 * scale))
    if choose is selection.exponential:
        return accept / accept.sum()
    import itertools

    law = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        left = 1.0
        for i in order:
            law[i] += left * accept[i]
            left *= 1 - accept[i]
    return law / math.factorial(len(scores))


def test_selection_prefers_the_best_as_its_tail_says():
    event = selection.calibrate(SCORE_BOUND, Relation.REPLACE_ONE, 4.0)
    bound = selection.tail(event.noise, 4, 0.05)
    worse = [
        SCORES.max() - SCORES[selection.noisy_max(d, SCORES, event)] > bound
        for d in draws(event, 500)
    ]
    assert np.mean(worse) < 0.1


def test_relations_change_the_cost():
    """A factor of two between replace-one and zero-out is never lost."""
    event = Event(Gaussian(2.0), BOUND)
    one = PrivacyCurve(event * 1, Relation.ZERO_OUT).epsilon(1e-5)
    two = PrivacyCurve(Event(Gaussian(1.0), BOUND) * 1, Relation.ZERO_OUT).epsilon(1e-5)
    assert PrivacyCurve(event * 1, Relation.REPLACE_ONE).epsilon(1e-5) == pytest.approx(two)
    assert one < two
    with pytest.raises(UndefinedRelation, match="fixed size"):
        PrivacyCurve(
            Event(Gaussian(2.0), BOUND, WithoutReplacement(1, 10)) * 1, Relation.ZERO_OUT
        ).epsilon(1e-5)


@given(st.sampled_from([Gaussian, Laplace, NormNoise]), st.floats(allow_nan=True))
@settings(max_examples=60)
def test_senseless_scales_are_refused(kind, scale):
    if math.isfinite(scale) and scale > 0:
        assert kind(scale)
    else:
        with pytest.raises(InvalidInput, match="positive finite"):
            kind(scale)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_senseless_targets_are_refused(name, epsilon):
    with pytest.raises(InvalidInput):
        calibrated(name, epsilon)


@pytest.mark.parametrize("name", ["gaussian", "discrete-gaussian", "skellam"])
@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_senseless_deltas_are_refused(name, delta):
    with pytest.raises(InvalidInput):
        calibrated(name, delta=delta)
