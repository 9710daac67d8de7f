"""Parties of different sizes: what is minimised, and what the noise follows.

Seeds are fixed; runs whose noise decides a test have their false-alarm rate beside them.
"""

import math
from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.descent import signal
from unisono.algorithms.objectives import effective_records, largest_weight, record_weight
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.releases.release import Release

from .. import methods
from .test_convex_output import PROMISE, bound_of

SIZES = (450, 250, 150, 100, 50)
FACTS = Facts(SIZES, 3, 5)
OBJECTIVES = ("pooled", "equal-parties")


@cache
def records(sizes=SIZES, seed=0):
    """Every party has a direction of its own, so that weights are seen in what is learnt."""
    generator, found = np.random.default_rng(seed), []
    for number, size in enumerate(sizes):
        rows = generator.normal(size=(size, 3))
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        plane = np.array([2.0, -1.0 + number, 0.5 - number / 2])
        labels = np.where(rows @ plane + 0.3 * generator.normal(size=size) > 0, 1.0, -1.0)
        found.append((rows.astype(np.float32), labels.astype(np.float32)))
    return found


def run(method, facts=FACTS, trust=Trust.SECURE_SUM, epsilon=1e9, delta=1e-5, seed=1, **options):
    parties = [
        Party(
            f"party-{j}",
            Private(columns),
            Ledger.in_memory(Policy(f"{j}", Budget(epsilon, delta)), ACCOUNTANT, seed=seed),
        )
        for j, columns in enumerate(records(facts.records))
    ]
    return in_process.run(Study(method, facts, trust), parties, **options).value


def gradient(objective, present=range(5)):
    """Of the logistic loss at zero, by its definition."""
    means = [-(y[:, None] * x / 2).mean(0) for x, y in records()]
    weights = [1.0 if objective == "equal-parties" else SIZES[j] for j in present]
    return np.average([means[j] for j in present], axis=0, weights=weights)


# ------------------------------------------------------------- what is minimised


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("make", [methods.gradient_perturbation, methods.sgd_synchronous])
def test_a_step_follows_the_gradient_of_its_objective(make, objective):
    """Clean messages of all parties, merged, with one party absent too."""
    algorithm = make(1.0, 1e-5, rounds=1, objective=objective).bind(FACTS, Trust.LOCAL)
    server, state = algorithm.init(FACTS)
    step = algorithm.grid(FACTS, Trust.LOCAL)
    sent = []
    for size, (x, y) in zip(SIZES, records(), strict=True):
        local = algorithm.local(
            FACTS, algorithm.ask(server), state, (x, y), np.ones(size, bool), np.int32(size)
        )
        sent.append(np.asarray(local[1].value) * step)
    directions = []
    for present in (range(5), range(4)):
        total = sum(sent[j] for j in present).astype(np.float32)
        count = np.float32(sum(SIZES[j] for j in present))
        after = algorithm.merge(server, Aggregate(total, len(present), count))
        moved = np.asarray(after.parameters - server.parameters)
        expected = -gradient(objective, present)
        directions.append(moved / np.linalg.norm(moved))
        assert moved @ expected / np.linalg.norm(moved) / np.linalg.norm(expected) == pytest.approx(
            1, abs=1e-4
        )
        if make is methods.gradient_perturbation:  # a learning rate of 4, as the methods say
            assert moved == pytest.approx(4 * expected, abs=2e-3)


@cache
def minimisers(regularisation):
    """Every party's own, by the bound that sends it."""
    found = []
    bound = bound_of(regularisation=regularisation)
    for size, (x, y) in zip(SIZES, records(), strict=True):
        facts = Facts((size,), 3, 1)
        step = next(bound.steps(Release(bound), facts, PROMISE))

        @jax.jit
        def solve(x, y, facts=facts, step=step, size=size):
            return bound.integers(facts, PROMISE, step, (x, y), np.ones(size, bool))[0].value

        found.append(np.asarray(solve(x, y)) * step)
    return np.array(found)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_local_minimisers_are_averaged_by_their_weights(objective):
    """At epsilon 1000 noise in the average has a std of at most 6e-4 (false alarm below 1e-8); a
    party that drops out is left out of both sums."""
    own, weights = minimisers(0.2), np.array(SIZES if objective == "pooled" else [1] * 5, float)
    method = methods.output_perturbation(1e3, 1e-5, regularisation=0.2, objective=objective)
    facts = replace(FACTS, minimum_parties=4)
    silent = np.zeros((1, 5), bool)
    assert run(method) == pytest.approx(np.average(own, axis=0, weights=weights), abs=4e-3)
    silent[0, 0] = True
    left = run(method, facts, dropouts=silent)
    assert left == pytest.approx(np.average(own[1:], axis=0, weights=weights[1:]), abs=4e-3)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_noisy_minimisers_are_averaged_by_their_weights(objective):
    """Objective perturbation: the weights are post-processing. Epsilon 1e4, noise below 0.02."""
    method = methods.objective_perturbation(1e4, 1e-5, regularisation=0.2, objective=objective)
    weights = SIZES if objective == "pooled" else None
    expected = np.average(minimisers(0.2), axis=0, weights=weights)
    assert run(method, trust=Trust.LOCAL) == pytest.approx(expected, abs=0.02)


# ------------------------------------------------------------- what the noise follows


def spread(make, objective, facts, **settings):
    """Standard deviation of the noise in the mean, when everybody came."""
    study = Study(make(1.0, 1e-5, objective=objective, **settings), facts, Trust.TRUSTED_SERVER)
    std = study.algorithm.event(facts, study.trust).noise.std
    if make is methods.output_perturbation:
        total = sum(facts.records) / min(facts.records) if objective == "pooled" else facts.parties
        return std / total
    return std / sum(facts.records)


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (methods.gradient_perturbation, {"rounds": 5}),
        (methods.sgd_synchronous, {"rounds": 5}),
        (methods.output_perturbation, {"regularisation": 0.1}),
    ],
)
def test_noise_follows_all_records_or_the_smallest_party(make, settings):
    """1 / n for the pooled objective, whatever the split; else 1 / (m n_(1))."""
    alike = Facts((200,) * 5, 3, 5)
    pooled, equal, usual = (
        spread(make, "pooled", FACTS, **settings),
        spread(make, "equal-parties", FACTS, **settings),
        spread(make, "pooled", alike, **settings),
    )
    assert pooled == pytest.approx(usual, rel=2e-3)
    assert equal == pytest.approx(usual * 200 / 50, rel=2e-3)
    assert spread(make, "equal-parties", alike, **settings) == pytest.approx(usual, rel=1e-9)


def test_equal_parties_pay_for_the_same_event_whatever_the_objective():
    facts = Facts((60,) * 3, 3, 3, 1)
    for make in (methods.gradient_perturbation, methods.output_perturbation):
        for trust in Trust:
            events = {
                make(1.0, 1e-5, objective=objective).bind(facts, trust).event(facts, trust)
                for objective in OBJECTIVES
            }
            assert len(events) == 1


def test_weights_and_effective_records():
    assert record_weight("pooled", FACTS, 50) == 1
    assert largest_weight("equal-parties", FACTS) == record_weight("equal-parties", FACTS, 50) == 4
    assert [effective_records(objective, FACTS) for objective in OBJECTIVES] == [1000, 250]
    weighted = sum(size * record_weight("equal-parties", FACTS, size) for size in SIZES)
    assert weighted == sum(SIZES)


def test_a_minimiser_is_told_its_party_where_sizes_differ():
    bound, (x, y) = bound_of(), records()[0]
    with pytest.raises(InvalidInput, match=r"50 to 450 records.*of_party"):
        bound.integers(FACTS, PROMISE, 2.0**-10, (x, y), np.ones(450, bool))


def test_a_small_party_no_longer_drowns_the_others():
    """45/25/15/10/5 %, epsilon 10, delta 0: with equal weights the noise is four times as long.
    The same 400 draws for both: accuracies of 0.83 and 0.78 on average, which differ by far more
    than five standard errors (false alarm below 1e-6)."""
    facts, own = Facts(SIZES, 3, 5, 1), minimisers(0.01)
    rows, labels = (np.concatenate(parts) for parts in zip(*records(), strict=True))
    found = {}
    for objective in OBJECTIVES:
        method = methods.output_perturbation(10.0, objective=objective, regularisation=0.01)
        event = Study(method, facts, Trust.SECURE_SUM).algorithm.event(facts, Trust.SECURE_SUM)
        weights = np.array(SIZES if objective == "pooled" else [50] * 5) / 50
        noise = np.random.default_rng(3).laplace(scale=event.noise.scale, size=(400, 3))
        drawn = (weights @ own + noise) / weights.sum()
        found[objective] = np.mean(np.sign(rows @ drawn.T) == labels[:, None], axis=0)
    better = found["pooled"] - found["equal-parties"]
    assert better.mean() > 5 * better.std() / math.sqrt(len(better))
    common = max(np.mean(labels > 0), np.mean(labels < 0))
    assert found["pooled"].mean() > common + 0.1


# ------------------------------------------------------------- rules of public facts


def test_learning_rates_and_ridges_follow_the_weights():
    """Noise that is four times as large asks for steps a quarter as long, and four times the
    ridge."""
    facts = Facts((450, 250, 150, 100, 50), 40, 5)
    rates, ridges = [], []
    for objective in OBJECTIVES:
        slow = methods.gradient_perturbation(
            0.05, 1e-5, learning_rate=None, momentum=0.9, rounds=200, objective=objective
        )
        rates.append(slow.bind(facts, Trust.LOCAL).settings["learning_rate"])
        method = methods.output_perturbation(1.0, 1e-5, objective=objective)
        ridges.append(method.bind(facts, Trust.LOCAL).settings["regularisation"])
    assert rates[0] == pytest.approx(4 * rates[1], rel=1e-4)
    assert ridges[1] == pytest.approx(4 * ridges[0], rel=1e-4)


def test_the_ridge_of_squares_keeps_their_noise_short():
    """The slope of squares grows as the ridge falls: noise of length about 1 / (λ^1.5 q)."""
    for epsilon in (0.5, 5.0):
        method = methods.output_perturbation(epsilon, 1e-5, "squares")
        ridge = method.bind(FACTS, Trust.LOCAL).settings["regularisation"]
        q = signal(FACTS, Trust.LOCAL, Privacy(epsilon, 1e-5), 3)
        assert ridge**-1.5 / q == pytest.approx(0.04, rel=1e-3)
