"""A study whose target has no list of classes: they are found in the stage before all others."""

import json
import re

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli.results import result_text
from unisono.core.trust import Relation
from unisono.deployment import server
from unisono.deployment.job import Job
from unisono.deployment.local_run import RunPlace, prepare
from unisono.engines.distributed.server import Conditions
from unisono.errors import InvalidInput, PrivacyViolation
from unisono.reports import findings
from unisono.studies.build import build
from unisono.studies.explain import explain
from unisono.studies.file import load_study, parse_study
from unisono.studies.inspection import inspect_file
from unisono.studies.stages import BOUNDS, EVALUATION, FIT

from .test_standing import Network, member
from .trial import NAMES, Trial, study_text

TESTED = "\n[evaluation]\nholdout = 0.25\nepsilon = 100\n"
DECLARED = re.compile(r'(diagnosis = \{ kind = "category", values = )\[.*?\]')


def text(epsilon=400.0, more="", **given):
    """Noise of this epsilon is small beside 90 records."""
    said, changed = DECLARED.subn(rf'\1"private"{more}', study_text(epsilon=epsilon, **given))
    assert changed == 1
    return said


def here(trial, seed=1):
    data = {name: trial.folder / name / "records.csv" for name in NAMES}
    ready = prepare(RunPlace(trial.study, data, trial.folder / "here", seed=seed))
    with ready.opened() as books:
        return ready.run(books, lambda progress: None)


def renamed(trial, old, new):
    for name in NAMES:
        place = trial.folder / name / "records.csv"
        place.write_text(place.read_text().replace(old, new))


def test_classes_are_found_between_machines(tmp_path, monkeypatch):
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
    trial = Trial(tmp_path, text() + TESTED, epsilon=1000.0)
    Job.begin(trial.job, trial.study, trial.roster, Conditions(5.0, 5.0))
    members = [member(trial, name) for name in NAMES]
    assert [one.name for one in members[0].agreed.built.stages] == [BOUNDS, FIT, EVALUATION]
    server.main(Network(members), trial.job)
    shown = [one.finish() for one in members]
    found = json.loads((trial.job / "result.json").read_text())
    assert found["private_values"] == {"diagnosis": ["benign", "malignant"]}
    assert (found["negative"], found["positive"]) == ("benign", "malignant")
    assert found["weights"]["radius"] > 0
    assert all(one == found for one in shown)
    assert [len(trial.charges(name)) for name in NAMES] == [5, 5, 5]
    assert (trial.job / "evaluation.json").exists()


def test_words_that_nobody_expects_are_spelt_out(tmp_path):
    descent = 'name = "gradient-perturbation"\nrounds = 30'
    trial = Trial(tmp_path, text(algorithm=descent) + TESTED, epsilon=1000.0)
    renamed(trial, "malignant", "zweite Art")
    shown = here(trial)
    assert json.loads((trial.folder / "here" / "evaluation.json").read_text())["value"] > 0.8
    assert shown["private_values"] == {"diagnosis": ["benign", "zweite Art"]}
    assert shown["positive"] == "zweite Art"
    assert "values that were paid for: diagnosis: benign, zweite Art" in result_text(shown)
    [_, grid] = findings._paid_ranges(shown)
    assert grid.rows == [["diagnosis", "benign, zweite Art"]]


def test_long_words_are_found_by_those_who_expect_them(tmp_path):
    name = "malignant neoplasm of bronchus"
    trial = Trial(tmp_path, text(more=f', candidates = ["{name}"]'), epsilon=1000.0)
    renamed(trial, "malignant", name)
    assert here(trial)["private_values"] == {"diagnosis": ["benign", name]}
    trial.study.write_text(text())
    shown = here(trial, seed=2)
    assert shown["private_values"] == {"diagnosis": ["benign"]}
    assert "Of 2 values of diagnosis only 1 were found (benign)" in shown["note"]


def test_one_class_is_said_by_the_noisy_counts_alone(tmp_path):
    trial = Trial(tmp_path, text(), epsilon=1000.0)
    renamed(trial, "malignant", "benign")
    with pytest.warns(UserWarning, match="every 'diagnosis' is the same"):  # to its owner
        shown = here(trial)
    place = trial.folder / "north" / "records.csv"
    [found] = inspect_file(load_study(trial.study), place, "north").notes
    assert "all targets are the same, one of 2 classes" in found.words
    assert "only 1 were found (benign)" in shown["note"]


def test_ranges_and_values_are_one_release(tmp_path):
    said = text(epsilon=2000.0).replace("bounds = [5, 30]", 'bounds = "private"')
    shown = here(Trial(tmp_path, said, epsilon=5000.0))
    assert shown["private_values"] == {"diagnosis": ["benign", "malignant"]}
    low, high = shown["private_bounds"]["radius"]
    assert low < 12 < 18 < high


def test_all_stages_keep_the_promise_together():
    built, known = (build(parse_study(said)) for said in (text(epsilon=2.0), study_text()))
    for viewer, history in built.costs[0].items():
        spent, usual = (
            ACCOUNTANT.epsilon(cost, Relation.REPLACE_ONE, 1e-5)
            for cost in (history, known.study.cost[viewer])
        )
        assert 0.93 * usual < spent <= usual
    said = " ".join(explain(built.file).learnt)
    found = re.search(r"from about ([\d,]+) records on, others from about ([\d,]+)", said)
    least, spelt = found.groups()
    assert 10 < float(least) < float(spelt) < 1000
    assert "ranges of" not in said
    assert "predicts diagnosis ((to be found 1) or (to be found 2))" in said


def test_records_count_on_every_level_once(tmp_path):
    trial = Trial(tmp_path, text(), epsilon=1000.0)
    place = trial.folder / "north" / "records.csv"
    lines = place.read_text().splitlines()
    odd = ["", "n/a", "ü" * 40, " ", "3.0"]
    for number, cell in enumerate(odd, start=3):
        radius, age, _, remark = lines[number].split(",")
        lines[number] = ",".join([radius, age, cell, remark])
    place.write_text("\n".join(lines) + "\n")
    built = build(load_study(trial.study))
    with pytest.warns(UserWarning, match="diagnosis"):
        records = built.records(built.table(place), "north")
    [columns] = built.stage(BOUNDS).prepare(records, {})
    assert columns.shape == (40, 16)
    assert np.isnan(columns).all(axis=1).sum() == 3
    assert np.isfinite(columns).all(axis=1).sum() == 37


def test_a_list_of_values_is_the_study_that_it_was():
    plain = study_text()
    said = plain.replace('"malignant"]', '"malignant"], candidates = []')
    assert said != plain
    assert parse_study(said).hash == parse_study(plain).hash
    one, other = (build(parse_study(text(epsilon=2.0))) for _ in range(2))
    assert one.study.hash == other.study.hash
    assert one.bounds.study.hash == other.bounds.study.hash


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("delta = 1e-5", "delta = 0"), "list them from public knowledge, or choose delta above 0"),
        (("delta = 1e-5", 'delta = 1e-5\nunit = "party"'), "hides single records"),
        (('values = "private"', 'values = ["a", "b"], number = 3'), "belongs to values"),
        (('values = "private"', 'values = "private", number = 1'), "number"),
        (('values = "private"', 'values = "secret"'), "values"),
        (('values = "private"', 'values = "private", missing = "a"'), "drop record"),
    ],
)
def test_what_is_refused(change, words):
    with pytest.raises((InvalidInput, PrivacyViolation), match=words):
        build(parse_study(text().replace(*change)))
