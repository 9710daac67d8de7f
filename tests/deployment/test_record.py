"""What a run writes down for whoever looks on, on every engine."""

import json

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import SERVER, Viewer
from unisono.deployment.job import Job
from unisono.deployment.record import Budgets, RunLog, write_transcript
from unisono.engines.distributed.server import Conditions
from unisono.errors import InvalidInput
from unisono.runs.folder import PROGRESS
from unisono.studies.build import build
from unisono.studies.file import parse_study

from .trial import Trial, study_text, write_records


def lines(folder):
    return [json.loads(line) for line in (folder / "timeline.jsonl").read_text().splitlines()]


def test_changes_are_lengths_and_names_of_very_many_are_left_out(tmp_path):
    diary = RunLog(tmp_path, 3)
    diary.step(1, np.array([0.0, 0.0]), answered=["north"])
    diary.step(2, np.array([3.0, 4.0]), answered=[str(n) for n in range(300)])
    diary.step(3, np.array([np.nan, 0.0]), words="over")
    found = lines(tmp_path)
    assert [line["change"] for line in found] == [None, 5.0, None]
    assert [line["answered"] for line in found] == [["north"], None, None]
    progress = PROGRESS.content(tmp_path)
    assert progress == {"rounds": 3, "of": 3, "words": "over", "answered": None}


def test_a_line_that_a_killed_writer_left_unfinished_is_cut_off(tmp_path):
    RunLog(tmp_path, 2).step(1)
    with (tmp_path / "timeline.jsonl").open("a") as file:
        file.write('{"round": 2, "ti')
    RunLog(tmp_path, 2).step(2)
    assert [line["round"] for line in lines(tmp_path)] == [1, 2]


def test_what_was_spent_before_a_run_is_remembered_when_it_goes_on(tmp_path):
    study = build(parse_study(study_text())).study
    ledger = Ledger.in_memory(Policy("north", Budget(20.0, 1e-5)), ACCOUNTANT)
    ledger.authorize(study.costs[0], 3, "an earlier study")
    before = ledger.spent(SERVER)
    Budgets(tmp_path, [SERVER], {"north": ledger})
    ledger.authorize(study.costs[0], 3, "this one")
    Budgets(tmp_path, [SERVER], {"north": ledger})  # as after a crash
    [entry] = json.loads((tmp_path / "budgets.json").read_text())["parties"]
    assert entry["viewers"]["server"] == {
        "before": before,
        "spent": ledger.spent(SERVER),
        "budget": 20.0,
        "left": ledger.left(SERVER).epsilon,
    }
    assert ledger.spent(SERVER) > before > 0


@pytest.mark.parametrize(("policy", "study"), [(0, 1), (1, 1), (1, 2)])
def test_budgets_are_those_that_the_ledger_counts(tmp_path, policy, study):
    own = Policy("north", Budget(20.0, 1e-5), colluders=policy)
    ledger = Ledger.in_memory(own, ACCOUNTANT)
    Budgets(tmp_path, [SERVER, Viewer.colluders(study)], {"north": ledger})
    [entry] = json.loads((tmp_path / "budgets.json").read_text())["parties"]
    assert set(entry["viewers"]) == {"server"} | ({f"colluders:{policy}"} if policy else set())


@pytest.mark.parametrize("trust", ["local", "secure-sum", "trusted-server"])
def test_transcripts_follow_the_trust(tmp_path, trust):
    study = build(parse_study(study_text(trust=trust))).study
    write_transcript(tmp_path, study, (3,), np.zeros(3), 3)
    found = json.loads((tmp_path / "transcript.json").read_text())
    seen = found["viewers"]
    assert ("messages" in seen["server"]) == (trust != "secure-sum")
    assert "messages" not in seen["final-model"] + seen["network"]
    assert seen["final-model"] == ["result"]
    write_transcript(tmp_path, study, (3,), None, 2)
    half = json.loads((tmp_path / "transcript.json").read_text())
    assert [m["rounds"] for m in half["messages"] if m["name"] == "sum"] == [[0, 1]]
    assert "result" not in half["viewers"]["server"]


# ------------------------------------------------------------- tests between machines


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path / "trial", study_text())


def test_the_server_keeps_a_copy_of_public_test_records(trial, tmp_path):
    trial.study.write_text(trial.study.read_text() + '\n[evaluation]\nfile = "public.csv"\n')
    with pytest.raises(InvalidInput, match=r"public.csv: no such file"):
        Job.begin(tmp_path / "job", trial.study, trial.roster, Conditions())
    write_records(trial.folder / "public.csv", 9, records=25)
    job = Job.begin(tmp_path / "job", trial.study, trial.roster, Conditions())
    built = job.agreement().built
    values, name = job.test(built)
    assert name == "public.csv"
    assert len(values["age"]) == 25
    assert built.judge(np.zeros(3), values, name)["records"] == 25
