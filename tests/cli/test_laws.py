"""The command line knows every law from the law itself, and has words for it."""

import math

import pytest

from unisono.accounting.curve import PrivacyCurve
from unisono.cli.inputs import MechanismName, TypedQuestion
from unisono.cli.ledger_text import history_words
from unisono.core.events import Event, Gaussian, GaussianRun, NoNoise, Poisson, bounded_sum
from unisono.core.trust import Relation
from unisono.mechanisms import MECHANISMS

BOUND = bounded_sum(l2=1.0)


def test_every_mechanism_is_offered():
    assert set(MechanismName) == set(MECHANISMS)
    assert MechanismName.DISCRETE_GAUSSIAN == "discrete-gaussian"


@pytest.mark.parametrize("name", MechanismName)
def test_the_multiplier_is_the_size_of_the_noise_on_records_of_norm_one(name):
    """Zero-out moves such a sum by 1, replace-one an answer: pure epsilon is 1 / multiplier."""
    question = TypedQuestion(name, delta=1e-6, dimension=4, grid=2.0**-6)
    event = question.event(3.0)
    relation = max(event.sensitivity.relations, key=lambda r: r is Relation.ZERO_OUT)
    if question.entry.pure:
        spent = PrivacyCurve(event * 1, relation).epsilon(0.0)
        assert spent == pytest.approx(1 / 3)
    else:
        assert event.noise.size == 3.0
        assert math.isfinite(PrivacyCurve(event * 1, relation).epsilon(1e-6))


@pytest.mark.parametrize("name", MechanismName)
def test_ledgers_name_the_law_and_its_size(name):
    noise = TypedQuestion(name).event(4.0).noise
    size = "0.25" if noise.kind == "randomized-response" else "4"
    assert history_words(Event(noise, BOUND) * 2) == f"2 x {type(noise).__name__} {size}"


def test_ledgers_name_what_is_no_single_release():
    assert history_words(Event(NoNoise(), BOUND) * 1) == "1 x clean value"
    assert history_words(Event(GaussianRun(2.0, rounds=9), BOUND) * 1) == "1 x GaussianRun 2"
    sampled = Event(Gaussian(2.0), BOUND, Poisson(0.1))
    assert history_words(sampled * 3) == "3 x Gaussian 2 at rate 0.1"
