"""A study in plain words: costs that are the study's own, and every danger with its remedy."""

import math

import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.studies.build import build
from unisono.studies.explain import explain
from unisono.studies.file import parse_study

from .test_build import CASES, text_of


def words(text, level=None):
    found = explain(parse_study(text)).dangers
    return " ".join(d.words for d in found if level in (None, d.level))


def test_costs_are_those_of_the_study(change):
    file = parse_study(change() + "\n[evaluation]\nholdout = 0.25\nepsilon = 0.5\n")
    found = explain(file)
    assert {cost.viewer for cost in found.costs} == set(found.built.study.cost)
    for cost in found.costs:
        assert cost.parties == file.names
        history = build(file).costs[0][cost.viewer]
        assert cost.epsilon == ACCOUNTANT.epsilon(history, cost.relation, 1e-4)
    assert any("costs epsilon 0.5 in addition" in line for line in found.learnt)


def test_it_says_who_learns_what_from_whom(change):
    found = explain(parse_study(change()))
    first = found.learnt[0]
    for part in (
        "linear model",
        "predicts diagnosis (benign or malignant)",
        "radius, age, sex",
        "by gradient-perturbation",
        "3 parties",
        "130 records",
    ):
        assert part in first
    assert "2.72 times as likely" in found.promise[0]
    # As the events bound it; an adversary of any (1, 1e-4)-private release would have 73.2 %.
    assert "at most 56.3 % for inferring which of two values" in found.promise[1]
    document = found.to_json()
    assert document["file"] == found.built.file.hash
    assert document["dangers"][0]["remedy"]


LIGHT = [case for case in CASES if case[0] != "network" and case[1] != "dp-sgd-convex"]


@pytest.mark.parametrize(
    ("model", "name"),
    [*LIGHT, *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES if case not in LIGHT)],
)
def test_every_pair_can_be_explained(study, model, name):
    found = explain(parse_study(text_of(study, model, name)))
    assert found.learnt[0].startswith("Learns ")
    assert f", by {name}, from 3 parties" in found.learnt[0]
    assert math.isfinite(found.noise.total)
    assert found.noise.total > 0
    alone = "of one record, and its noise weighs"  # where records are named one by one
    named = found.built.study.algorithm.named is not None
    assert (alone if named else "noise weighs as much as") in found.noise_words


SERVER = '\n[server]\naddress = "10.0.0.5:9092"\n'


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (
            (("colluders = 1", "colluders = 2"),),
            "3 parties and 2 colluders: the secure sum protects nobody",
        ),
        ((("colluders = 1", "colluders = 0"),), "against a server that works together with one"),
        ((("colluders = 1", "colluders = 0"),), "against another party epsilon is"),
        ((("delta = 1e-4", "delta = 0.01"),), "delta = 0.01 with 130 records"),
        ((("epsilon = 1\n", "epsilon = 20\n"),), "epsilon 20 is weak"),
        (
            (('"secure-sum"', '"trusted-server"'), ("colluders = 1", "colluders = 0")),
            "the server sees every party's values without noise",
        ),
        ((("epsilon = 1\n", "epsilon = 0.01\n"),), "noise will swamp the result"),
    ],
)
def test_warnings(change, pairs, said):
    assert said in words(change(*pairs), "warning")
    assert said not in words(change(("epsilon = 1\n", "epsilon = 2\n")))


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ((), "all 3 parties must answer: one that fails leaves the round out"),
        (
            (("minimum_parties = 3", "minimum_parties = 2"), ("retries = 0", "retries = 2")),
            "noise is made for 20 rounds and 2 retries",
        ),
        ((), "everybody learns how many records each party has"),
        ((), "one record is hidden, not one person"),
        ((), "no server is named"),
        ((), "nobody measures how good the result is"),
        (
            (('"secure-sum"', '"local"'), ("colluders = 1", "colluders = 0")),
            "every party adds all of the noise: about 1.7 times",
        ),
        ((("bounds = [5, 30]", "bounds = [0, 5e6]"),), "'radius' has very wide bounds, 0 to 5e+06"),
        ((("epsilon = 1\n", "epsilon = 0.5\n"),), "expect a rough result"),
    ],
)
def test_notes(change, pairs, said):
    assert said in words(change(*pairs), "note")


def test_notes_that_do_not_apply_are_not_made(change):
    quiet = change(("minimum_parties = 3", "minimum_parties = 2"))
    said = words(quiet + '\n[evaluation]\nfile = "t.csv"\n' + SERVER)
    for phrase in ("no server", "nobody measures", "must answer", "retries", "wide bounds"):
        assert phrase not in said


def test_the_worst_comes_first_and_points_at_the_line(change):
    file = parse_study(change(("colluders = 1", "colluders = 2")))
    found = explain(file)
    levels = [danger.level for danger in found.dangers]
    assert levels == sorted(levels, key=["warning", "note"].index)
    first = next(d for d in found.dangers if "protects nobody" in d.words)
    assert file.source.where(first.place) == "study.toml line 34"


def test_a_single_round_that_fails_loses_everything(study):
    said = words(study("logistic-regression", "output-perturbation"))
    assert "in the only round: if one fails, nothing is learnt" in said


def test_whole_parties_are_few(study):
    text = text_of(study, "bayesian-logistic-regression", "pvi-clipped-updates")
    found = explain(parse_study(text))
    remedies = " ".join(danger.remedy for danger in found.dangers if danger.level == "warning")
    assert "hiding whole parties takes hundreds of them" in remedies
    assert "leaving the data of one party blank" in " ".join(found.promise)


def test_a_plan_that_is_useless_is_said_although_messages_are_clear(study):
    """Noise in a minimiser is small beside the bound that it is sent within, and decides."""
    text = text_of(study, "logistic-regression", "output-perturbation")
    said = "noise is predicted to drown the result"
    assert said in words(text.replace("epsilon = 1\n", "epsilon = 4\n"), "warning")
    other = text_of(study, "logistic-regression", "gradient-perturbation")
    assert said not in words(other.replace("epsilon = 1\n", "epsilon = 4\n"))
