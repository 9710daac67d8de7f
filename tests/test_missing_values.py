"""Missing values do not count: intervals hold at any share of them, in every entrance."""

import warnings

import numpy as np
import pytest

import unisono
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import statistics
from unisono.algorithms.readings import Sizes
from unisono.algorithms.survey import STATISTICS, Survey
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.data import UnreadValues
from unisono.engines import in_process

BOUNDS = (0.0, 120.0)


def book(seed, relation=Relation.REPLACE_ONE):
    policy = Policy("ages", Budget(1e6, 0.5), relation=relation)
    return Ledger.in_memory(policy, ACCOUNTANT, seed=seed)


def values(seed, n, share):
    """Skewed values, far from the middle of their bounds, and the same with missing ones."""
    generator = np.random.default_rng([seed, n])
    found = np.clip(generator.lognormal(1.5, 0.8, n), *BOUNDS)
    there = generator.random(n) >= share
    return found[there], np.where(there, found, np.nan)


def quiet(ask, *given, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreadValues)
        return ask(*given, **options)


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.4])
@pytest.mark.parametrize("n", [300, 2000, 20_000])
def test_intervals_hold_for_the_values_that_are_there(n, share, delta, relation):
    """Of 60 intervals that hold with 95 % more than 10 miss with probability below 1e-4."""
    misses = [0, 0]
    mean = np.exp(1.5 + 0.8**2 / 2)
    for seed in range(60):
        known, given = values(seed, n, share)
        ledger = book(seed, relation)
        found = quiet(unisono.mean, given, BOUNDS, epsilon=1.0, delta=delta, ledger=ledger)
        misses[0] += not found.interval[0] <= known.mean() <= found.interval[1]
        if found.population_interval is not None:
            misses[1] += not found.population_interval[0] <= mean <= found.population_interval[1]
        assert ledger.grants == 1
    assert max(misses) <= 10


@pytest.mark.parametrize("center", [6.0, 60.0, 110.0])
def test_a_count_that_is_not_needed_costs_little(center):
    """At most sqrt(1 + 4 / 9) = 1.2 times as wide, where values lie at the ends of the bounds."""
    widths = {}
    for complete in (False, True):
        given = np.full(5000, center)
        answer = unisono.mean(
            given, BOUNDS, epsilon=1.0, delta=1e-6, ledger=book(0), complete=complete
        )
        widths[complete] = answer.interval[1] - answer.interval[0]
    m = (center - 60) / 60
    assert widths[False] == pytest.approx(widths[True] * np.sqrt(1 + m**2 * 4 / 9), rel=0.03)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_shares_are_of_the_values_that_are_there(delta):
    """A proportion costs no more noise than a count; 40 % are missing."""
    misses, widths = 0, []
    for seed in range(40):
        generator = np.random.default_rng(seed)
        flags = np.where(generator.random(2000) < 0.4, np.nan, generator.random(2000) < 0.1)
        question = statistics.proportion(0).counting(Sizes(1.5 if delta else 1.0, replaced=True))
        survey = Survey([question])
        method = STATISTICS.method(survey, Privacy(1.0, delta))
        study = Study(method, Facts((len(flags),), 1, 1), Trust.LOCAL)
        rows = Private((flags[:, None].astype(np.float32),), "a")
        result = in_process.run(study, [Party("a", rows, book(seed))])
        [found] = survey.read(study, result)
        truth = np.nanmean(flags)
        misses += not found.interval[0] <= truth <= found.interval[1]
        widths.append(found.interval[1] - found.interval[0])
    assert misses <= 7
    assert np.mean(widths) < 0.02


def test_most_missing_is_not_an_answer():
    """Where no size can be told from none, all that is possible is possible."""
    given = np.full(1000, np.nan)
    given[0] = 5.0
    found = quiet(unisono.mean, given, BOUNDS, epsilon=0.1, delta=1e-6, ledger=book(1))
    assert found.interval == BOUNDS
