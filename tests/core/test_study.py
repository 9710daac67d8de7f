"""A study warns of what it promises where it is made, whoever makes it."""

import warnings

import pytest

from unisono.algorithms.statistics import count
from unisono.core.algorithm import Facts
from unisono.core.study import Study, warn_large_delta
from unisono.core.trust import Trust, Unit
from unisono.errors import LargeDeltaWarning

from .. import methods


def gradients(delta, facts):
    return Study(methods.gradient_perturbation(1.0, delta, rounds=2), facts, Trust.LOCAL)


def survey(delta, facts):
    return Study(methods.statistics([count(0)], 1.0, delta), facts, Trust.LOCAL)


def objective(delta, facts):
    return Study(methods.objective_perturbation(1.0, delta), facts, Trust.LOCAL)


@pytest.mark.parametrize("made", [gradients, survey, objective])
def test_a_delta_that_would_publish_a_record_is_told_where_the_study_is_made(made):
    """E000-2: publishing one random record in clear is (0, 1/n)-private."""
    facts = Facts((40, 60), 3, 2)
    with pytest.warns(LargeDeltaWarning, match="0.01 with 100 records.*one whole record") as told:
        made(0.01, facts)
    assert told[0].filename == __file__
    made(0.0099, facts)


def test_where_a_party_is_hidden_parties_are_counted():
    facts = Facts((1000, 1000), 3, 2)
    with pytest.warns(LargeDeltaWarning, match="0.5 with 2 parties.*all records of one party"):
        Study(methods.clipped_updates(delta=0.5, rounds=2), facts, Trust.LOCAL)
    Study(methods.clipped_updates(delta=0.1, rounds=2), facts, Trust.LOCAL)


def test_the_warning_says_what_to_do():
    with pytest.warns(LargeDeltaWarning, match=r"use 1e-06 \(1 / records\^2\) or less"):
        warn_large_delta(1e-3, 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_large_delta(1e-6, 1000)
        warn_large_delta(0.4, 2, Unit.PARTY)


def test_what_a_study_releases_costs_the_same_and_is_known_by_the_same_hash():
    """Only what is told in the end differs: the server's state, of which results are made."""
    study = survey(1e-6, Facts((400, 600), 3, 2))
    told = study.released
    assert (told.hash, told.costs) == (study.hash, study.costs)
    state, _ = study.algorithm.init(study.facts)
    assert told.algorithm.result(state) is state
