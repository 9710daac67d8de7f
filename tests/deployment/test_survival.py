"""A study of three stages between machines: exit times, the table of curves, then the test."""

import csv
import json

import numpy as np
import pytest

from unisono.algorithms.survival_table import unpacked_table
from unisono.deployment import local_run, server
from unisono.deployment.job import Job
from unisono.deployment.local_run import RunPlace, prepare
from unisono.engines.distributed.server import Conditions
from unisono.studies.stages import FIRST, FIT, START

from .test_standing import Network, member
from .trial import NAMES, Trial, study_text

MODEL = 'name = "kaplan-meier"\nevent = "diagnosis"\nby = "remark"\nhorizon = 100'
COLUMN = 'remark = { kind = "category", values = ["a", "b"] }\n'
STAGES = ["exit-times", "survival-table", "log-rank"]


class Dies(Exception):
    """A process that ends here."""


@pytest.fixture
def trial(tmp_path, monkeypatch):
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
    text = study_text('name = "log-rank"', epsilon=5.0, model=MODEL)
    text = text.replace('target = "diagnosis"', 'target = "age"')
    text = text.replace("[[parties]]", COLUMN + "[[parties]]", 1)
    found = Trial(tmp_path, text)
    for name in NAMES:
        path = tmp_path / name / "records.csv"
        rows = list(csv.reader(path.read_text().splitlines()))
        for number, row in enumerate(rows[1:]):
            row[3] = "ab"[number % 2]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    return found


def test_three_stages_between_machines_survive_the_death_of_the_server(trial, monkeypatch):
    """They go on with the same intervals; nothing is paid twice, and everybody has one result."""
    Job.begin(trial.job, trial.study, trial.roster, Conditions(5.0, 5.0))
    members = [member(trial, name) for name in NAMES]
    assert [stage.name for stage in members[0].agreed.built.stages] == [FIRST, START, FIT]
    whole = server._Server._stage

    def dies(self, stage, session, late):
        if stage.name == FIT:
            raise Dies
        return whole(self, stage, session, late)

    with monkeypatch.context() as patch:
        patch.setattr(server._Server, "_stage", dies)
        with pytest.raises(Dies):
            server.main(Network(members), trial.job)
    assert [len(trial.charges(name)) for name in NAMES] == [2, 2, 2]
    server.main(Network(members), trial.job)
    assert [len(trial.charges(name)) for name in NAMES] == [3, 3, 3]
    results = [one.finish() for one in members]
    written = json.loads((trial.job / "result.json").read_text())
    assert results[0] == results[1] == results[2] == written
    for number, name in enumerate(STAGES):
        assert members[0]._responders[number].study.algorithm.name == name
    _, table, test = members[0]._responders
    problem = test.study.method.problem
    cuts = np.array(written["kaplan_meier"]["groups"]["a"]["times"]) / 100
    assert unpacked_table(table.result, problem).intervals.cuts == pytest.approx(cuts, abs=1e-6)
    seen = json.loads((trial.job / "transcript.json").read_text())["viewers"]
    assert {"first", "start"} <= set(seen["server"])


def test_a_run_in_one_process_has_the_same_stages(trial, monkeypatch):
    data = {name: trial.folder / name / "records.csv" for name in NAMES}
    drive, names = local_run.drive, []

    def told(study, *given, **more):
        names.append(study.algorithm.name)
        return drive(study, *given, **more)

    monkeypatch.setattr(local_run, "drive", told)
    ready = prepare(RunPlace(trial.study, data, trial.folder / "here"))
    with ready.opened() as books:
        shown = ready.run(books, lambda progress: None)
    assert names == STAGES
    assert 0 < shown["kaplan_meier"]["log_rank"]["p_value"] <= 1
    assert [len(trial.charges(name)) for name in NAMES] == [3, 3, 3]
