"""Parties of different sizes: what plans, checks and the choice "auto" make of them."""

import json

import pytest

from unisono.algorithms.descent import signal
from unisono.cli.plan_advice import AdviceLine
from unisono.cli.plan_studies import PlanRequest, candidate, document, prediction
from unisono.cli.plan_text import write_plan
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust, Unit
from unisono.models.registry import algorithms_for, model_named
from unisono.planning.noise import noise_of
from unisono.planning.predict import predict
from unisono.planning.tasks import Task
from unisono.planning.verdicts import Grade
from unisono.studies.build import build
from unisono.studies.explain import explain
from unisono.studies.schema import StudyFile

SIZES = (450, 250, 150, 100, 50)


def planned(sizes, name, **settings):
    request = PlanRequest(Task.CLASSIFICATION, sizes, 10, 2, epsilon=3.0)
    said = document(request, name, Trust.SECURE_SUM)
    said["algorithm"] |= settings
    found = candidate(said)
    assert found.built is not None, found.reason
    return found.built.study, prediction(request, found)


@pytest.mark.parametrize("name", ["gradient-perturbation", "output-perturbation"])
def test_the_plan_follows_the_weights(name):
    """Pooled: as for equal parties of the same sum; else as if all were as small as the least."""
    study, pooled = planned(SIZES, name)
    _, alike = planned((200,) * 5, name)
    other, equal = planned(SIZES, name, objective="equal-parties")
    _, small = planned((50,) * 5, name)
    assert pooled.likely == pytest.approx(alike.likely, rel=2e-2)
    assert equal.likely == pytest.approx(small.likely, rel=2e-2)
    assert equal.likely > 1.3 * pooled.likely
    assert pooled.weights == ""
    assert "follows the smallest, of 50 records" in equal.weights
    assert "250 records in all instead of 1,000" in equal.to_json()["weights"]
    for one, counted in ((study, 1000), (other, 250)):
        q = signal(one.facts, one.trust, Privacy(3.0, 1e-6), 11, counted)
        assert noise_of(one).units == counted
        if name == "gradient-perturbation":  # minimisers pay for their tolerance too
            assert noise_of(one).total == pytest.approx(q, rel=0.02)


def test_check_and_plan_say_what_the_smallest_party_costs(capsys):
    request = PlanRequest(Task.CLASSIFICATION, SIZES, 10, 2, epsilon=3.0)
    for objective, said in (("pooled", False), ("equal-parties", True)):
        asked = document(request, "gradient-perturbation", Trust.SECURE_SUM)
        asked["algorithm"]["objective"] = objective
        found = candidate(asked)
        words = [danger.words for danger in explain(found.built.file).dangers]
        assert any("noise follows the smallest, of 50 records" in one for one in words) is said
        seen = prediction(request, found)
        write_plan(request, Unit.RECORD, [AdviceLine(found, seen)], seen, [], [], None)
        shown = " ".join(capsys.readouterr().out.split())
        assert ("gradient-perturbation: every party weighs the same" in shown) is said


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.02, 0.5, 5.0])
@pytest.mark.parametrize(
    ("task", "model"),
    [(Task.CLASSIFICATION, "logistic-regression"), (Task.REGRESSION, "linear-regression")],
)
def test_auto_takes_nothing_useless_where_something_else_is_not(task, model, epsilon, delta):
    """Parties of 4500 to 500 records: its choice is useless only if every choice is."""
    sizes = tuple(10 * size for size in SIZES)
    classes = 2 if task is Task.CLASSIFICATION else 0
    request = PlanRequest(task, sizes, 5, classes, epsilon=epsilon, delta=delta)
    grades = {}
    for kind in algorithms_for(model_named(model)):
        if task in kind.laws:
            found = candidate(document(request, kind.name, Trust.SECURE_SUM))
            if found.built is not None:
                grades[kind.name] = predict(found.built.study, task, classes).grade
    said = document(request, next(iter(grades)), Trust.SECURE_SUM)
    said["algorithm"] = {"name": "auto"}
    built = build(StudyFile.model_validate_json(json.dumps(said)))
    useless = all(grade is Grade.USELESS for grade in grades.values())
    assert (grades[built.algorithm.name] is Grade.USELESS) == useless
    assert ("noise is predicted to cost most" in built.reason) == useless
