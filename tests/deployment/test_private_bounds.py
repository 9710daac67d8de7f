"""A study whose columns have no bounds: their ranges are a stage before all others."""

import json
import re

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli.results import result_text
from unisono.core.trust import Relation
from unisono.deployment import local_run, server
from unisono.deployment.job import Job
from unisono.deployment.local_run import RunPlace, prepare
from unisono.engines.distributed.server import Conditions
from unisono.errors import InvalidInput, PrivacyViolation
from unisono.reports import findings
from unisono.studies.build import build
from unisono.studies.explain import explain
from unisono.studies.file import load_study, parse_study
from unisono.studies.stages import BOUNDS, EVALUATION, FIT

from .test_standing import Network, member
from .trial import NAMES, Trial, study_text

TESTED = "\n[evaluation]\nholdout = 0.25\nepsilon = 100\n"


def text(epsilon=200.0, **more):
    """Noise of this epsilon is small beside 90 records."""
    said = study_text(epsilon=epsilon, **more)
    said = said.replace("bounds = [5, 30]", 'bounds = "private"')
    return said.replace("bounds = [0, 120]", 'bounds = "private"')


@pytest.fixture
def trial(tmp_path, monkeypatch):
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
    found = Trial(tmp_path, text() + TESTED, epsilon=1000.0)
    Job.begin(found.job, found.study, found.roster, Conditions(5.0, 5.0))
    return found


def document(folder, name="result.json"):
    return json.loads((folder / name).read_text())


def near_the_truth(ranges):
    """radius: 8.5 to 21.5, age: 20 to 89, within the resolution of a factor of two."""
    assert set(ranges) == {"radius", "age"}
    low, high = ranges["radius"]
    assert low < 12
    assert 18 < high < 45
    low, high = ranges["age"]
    assert low < 40
    assert 70 < high < 220


def test_ranges_are_a_stage_between_machines(trial):
    members = [member(trial, name) for name in NAMES]
    assert [one.name for one in members[0].agreed.built.stages] == [BOUNDS, FIT, EVALUATION]
    server.main(Network(members), trial.job)
    assert all(one.finished for one in members)
    shown = [one.finish() for one in members]
    found = document(trial.job)
    near_the_truth(found["private_bounds"])
    # Three rounds of descent, the ranges before and the test after them.
    assert [len(trial.charges(name)) for name in NAMES] == [5, 5, 5]
    for name, result in zip(NAMES, shown, strict=True):
        assert result == found
        certificate = document(trial.output(name), "certificate.json")
        [stated] = [
            line["epsilon"]
            for line in certificate["guarantees"]
            if (line["viewer"], line["relation"]) == ("server", "replace-one")
        ]
        assert stated > 250  # ranges, fit and test: 200 for the first two, 100 for the last
    seen = document(trial.job, "transcript.json")["viewers"]
    assert "bounds" in seen["server"]
    assert document(trial.job, "evaluation.json")["value"] > 0.8


class Dies(Exception):
    """A process that ends here."""


def test_a_run_in_one_process_goes_on_after_its_ranges(trial, monkeypatch):
    """Killed between the stages: ranges are read from their checkpoint, and not paid for again."""
    data = {name: trial.folder / name / "records.csv" for name in NAMES}
    place = RunPlace(trial.study, data, trial.folder / "here")
    drive = local_run.drive

    def dies(study, *given, **more):
        if study.algorithm.name == "gradient-perturbation":
            raise Dies
        return drive(study, *given, **more)

    def go():
        ready = prepare(place)
        with ready.opened() as books:
            return ready.run(books, lambda progress: None)

    with monkeypatch.context() as patch:
        patch.setattr(local_run, "drive", dies)
        with pytest.raises(Dies):
            go()
    assert [len(trial.charges(name)) for name in NAMES] == [1, 1, 1]
    shown = go()
    near_the_truth(shown["private_bounds"])
    assert all(
        sum("bounds" in line for line in own) == 1
        for own in (trial.charges(name) for name in NAMES)
    )
    assert re.search(r"paid for: radius \S+ to \S+, age \S+ to", result_text(shown))
    [_, grid] = findings._paid_ranges(shown)
    assert [row[0] for row in grid.rows] == ["radius", "age"]
    widths = findings.public_widths(build(load_study(trial.study)).file, shown["private_bounds"])
    assert widths["age"] < 250
    certificate = (trial.folder / "here" / "certificate.txt").read_text()
    assert "replace-one" in certificate


def test_where_ranges_are_lost_nothing_is_learnt(trial, monkeypatch):
    members = [member(trial, name) for name in NAMES]
    monkeypatch.setattr("unisono.engines.distributed.opening.Opening.set_up", lambda *_: None)
    server.main(Network(members), trial.job)
    assert all(one.finished for one in members)
    assert "failed" in document(trial.job)
    assert "failed" in members[0].finish()
    assert trial.charges("north") == []
    for one in members[1:]:
        one.close()


def test_all_stages_keep_the_promise_together_and_use_it_up():
    built, known = (build(parse_study(said)) for said in (text(epsilon=2.0), study_text()))
    for viewer, history in built.costs[0].items():
        spent, usual = (
            ACCOUNTANT.epsilon(cost, Relation.REPLACE_ONE, 1e-5)
            for cost in (history, known.study.cost[viewer])
        )
        # As much as the same study with public bounds, and nobody sees more.
        assert 0.93 * usual < spent <= usual
    said = " ".join(explain(built.file).learnt)
    assert "ranges of radius, age are not known" in said
    paid = float(re.search(r"with epsilon ([\d.]+) of 2", said)[1])
    assert 0.5 <= paid < 1.0


def test_the_price_of_ranges_is_known_to_all_before_the_first(trial):
    policy = trial.policy("north")
    policy.write_text(policy.read_text().replace("1000.0", "150.0"))
    with pytest.raises(PrivacyViolation, match="epsilon"):
        member(trial)
    policy.write_text(policy.read_text().replace("150.0", "1000.0"))
    policy.write_text(policy.read_text() + 'algorithms = ["gradient-perturbation"]\n')
    with pytest.raises(PrivacyViolation, match="algorithms statistics"):
        member(trial)
    assert not trial.ledger("north").exists()


def test_equal_files_are_equal_studies_and_old_ones_stay_what_they_were():
    one, other = (build(parse_study(text(epsilon=2.0))) for _ in range(2))
    assert one.study.hash == other.study.hash
    assert one.bounds.study.hash == other.bounds.study.hash
    plain = study_text()
    said = plain.replace("delta = 1e-5", "delta = 1e-5\nbounds_share = 0.3")
    assert parse_study(plain).hash == parse_study(said).hash
    more = plain.replace("delta = 1e-5", "delta = 1e-5\nbounds_share = 0.4")
    assert parse_study(plain).hash != parse_study(more).hash


def test_a_target_without_bounds_comes_back_in_its_own_units(tmp_path):
    said = text(model='name = "linear-regression"', epsilon=2000.0)
    said = said.replace('target = "diagnosis"', 'target = "radius"')
    trial = Trial(tmp_path, said, epsilon=5000.0)
    data = {name: trial.folder / name / "records.csv" for name in NAMES}
    ready = prepare(RunPlace(trial.study, data, tmp_path / "here", seed=1))
    with ready.opened() as books:
        shown = ready.run(books, lambda progress: None)
    benign = shown["intercept"] + 55 * shown["weights"]["age"]
    assert 8 < benign < 16
    assert 16 < benign + shown["weights"]["diagnosis=malignant"] < 24


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('name = "logistic-regression"', 'name = "k-means"\nclusters = 2'), "depends on the bou"),
        (("delta = 1e-5", 'delta = 1e-5\nunit = "party"'), "hides single records"),
        (("delta = 1e-5", 'delta = 1e-5\nunit = "person"'), "hides single records"),
        (('bounds = "private"', 'bounds = "private", bins = [3.0]'), "not known beforehand"),
        (('bounds = "private"', 'bounds = "secret"'), "bounds"),
    ],
)
def test_what_is_refused(change, words):
    said = text().replace(*change)
    if "k-means" in said:
        said = said.replace('target = "diagnosis"\n', "").partition("[algorithm]")[0]
        said = re.sub(r"diagnosis = .*\n", "", said)
    with pytest.raises((InvalidInput, PrivacyViolation), match=words):
        build(parse_study(said))


def test_records_are_read_whatever_they_hold(tmp_path):
    """Cells beyond all magnitudes, missing and broken ones: read, clipped, and nothing fails."""
    trial = Trial(tmp_path, text(), epsilon=1000.0)
    place = trial.folder / "north" / "records.csv"
    lines = place.read_text().splitlines()
    for number, cell in enumerate(["1e300", "-1e300", "", "inf", "nan", "word"], start=3):
        lines[number] = ",".join([cell, *lines[number].split(",")[1:]])
    place.write_text("\n".join(lines) + "\n")
    built = build(load_study(trial.study))
    with pytest.warns(UserWarning, match="radius"):
        records = built.records(built.table(place), "north")
    [columns] = built.stage(BOUNDS).prepare(records, {})
    assert columns.shape == (40, 2)
    assert np.nanmax(np.abs(columns)) <= 2.0**40
    assert np.isnan(columns[:, 0]).sum() >= 3
