"""Calibration: never over the target, within 0.2 % of the tight noise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.accounting import gaussian
from unisono.accounting.calibrate import smallest_scale
from unisono.accounting.curve import PrivacyCurve
from unisono.accounting.pld import GaussianPair, LaplacePair, compose
from unisono.core.events import Event, Everyone, Gaussian, Laplace, Poisson, bounded_sum
from unisono.core.events import compose as composed
from unisono.core.trust import Relation
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import calibrate

NOISES = np.random.default_rng(0).uniform(0.8, 2, 100)
ONE = bounded_sum(l1=1.0, l2=1.0)
ADD, REPLACE = Relation.ADD_OR_REMOVE, Relation.REPLACE_ONE


def check(noise, target, delta, build):
    """The target holds at the noise, up to this bracket's width, and provably fails at 0.2 %
    less."""
    tolerance = 2e-4 * target
    assert compose(build(noise), tolerance=tolerance).epsilon(delta).upper <= target + tolerance
    less = compose(build(noise / 1.002), tolerance=tolerance).epsilon(delta)
    assert less.lower > target * (1 - 1e-4)
    # A factor of two in the noise would be caught.
    assert compose(build(noise / 2), tolerance=0.01 * target).epsilon(delta).lower > 1.2 * target


def std(epsilon, delta, rate, count, relation=ADD):
    sampler = Everyone() if rate == 1 else Poisson(rate)
    event = calibrate(ONE, relation, epsilon, delta, count=count, sampler=sampler)
    # By the certified bound that will account for it, never over the target.
    assert PrivacyCurve(event * count, relation).epsilon(delta) <= epsilon
    return event.noise.std


def gaussians(std, rate=1.0, count=1):
    return Event(Gaussian(std), ONE, Poisson(rate) if rate < 1 else Everyone()) * count


@pytest.mark.parametrize(("rate", "count"), [(0.01, 10_000), (0.001, 100_000)])
def test_the_two_benchmarks(rate, count):
    noise = std(1.0, 1e-5, rate, count)
    check(noise, 1.0, 1e-5, lambda s: [(GaussianPair(1 / s, rate), count)])


@pytest.mark.slow
def test_one_factor_on_many_noises():
    def build(factor):
        return [(GaussianPair(1 / (factor * noise), 0.01), 1) for noise in NOISES]

    def history(factor):
        return composed(gaussians(factor * noise, 0.01) for noise in NOISES)

    check(smallest_scale(history, ADD, 1.0, 1e-5), 1.0, 1e-5, build)


@settings(max_examples=5, deadline=None)
@given(
    st.floats(0.2, 20.0),
    st.sampled_from([1e-4, 1e-7]),
    st.floats(0.01, 0.8),
    st.integers(1, 500),
    st.sampled_from([ADD, REPLACE]),
)
def test_any_sampled_gaussian(target, delta, rate, count, relation):
    noise = std(target, delta, rate, count, relation)
    check(noise, target, delta, lambda s: [(GaussianPair(1 / s, rate, relation.value), count)])


def laplaces(scale, rate=1.0, count=1):
    sampler = Poisson(rate) if rate < 1 else Everyone()
    return Event(Laplace(scale, discrete=False), ONE, sampler) * count


@pytest.mark.parametrize(
    ("history", "build"),
    [
        (lambda s: laplaces(s, count=10), lambda s: [(LaplacePair(1 / s), 10)]),
        (lambda s: laplaces(s, 0.1, 50), lambda s: [(LaplacePair(1 / s, 0.1), 50)]),
        (
            lambda s: laplaces(s, count=10) + gaussians(s / 0.3, count=5),
            lambda s: [(LaplacePair(1 / s), 10), (GaussianPair(0.3 / s), 5)],
        ),
    ],
)
def test_other_noise(history, build):
    check(smallest_scale(history, ADD, 2.0, 1e-6), 2.0, 1e-6, build)


def test_part_of_the_cost_may_be_fixed():
    """The noise then carries only the rest, and small changes of cost are large ones of it."""

    def build(noise):
        return [(GaussianPair(1 / noise, 0.1), 20), (GaussianPair(0.3), 1)]

    def history(noise):
        return gaussians(noise, 0.1, 20) + gaussians(1 / 0.3)

    noise = smallest_scale(history, ADD, 2.0, 1e-6)
    assert compose(build(noise), tolerance=1e-3).epsilon(1e-6).upper <= 2.0
    assert compose(build(noise / 1.01), tolerance=1e-3).epsilon(1e-6).lower > 2.0


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_without_sampling_it_is_exact(relation):
    noise = std(1.0, 1e-6, 1.0, 100, relation)
    factor = 2 if relation is REPLACE else 1
    assert noise == pytest.approx(factor * 10 / gaussian.mu_for(1.0, 1e-6), rel=1e-5)
    assert PrivacyCurve(gaussians(noise, count=100), relation).epsilon(1e-6) <= 1.0
    own = [(GaussianPair(1 / noise, 1.0, relation.value), 100)]
    assert compose(own).epsilon(1e-6).upper <= 1.0 + 1e-8


def test_out_of_reach():
    with pytest.raises(InvalidInput, match="no amount of noise"):
        smallest_scale(lambda s: gaussians(s) + gaussians(0.5), ADD, 1.0, 1e-5)


@pytest.mark.parametrize(
    "arguments",
    [
        (0.0, 1e-5, 0.1, 10),
        (-1.0, 1e-5, 0.1, 10),
        (math.nan, 1e-5, 0.1, 10),
        (1.0, 1.0, 0.1, 10),
        (1.0, 1e-5, 0.0, 10),
        (1.0, 1e-5, math.nan, 10),
        (1.0, 1e-5, 0.1, 0),
        (1.0, 1e-5, 0.1, 2.5),
    ],
)
def test_bad_input(arguments):
    with pytest.raises(InvalidInput):
        std(*arguments)
