"""Study files with `published = true`: who runs them, who refuses, and what all are told."""

import json

import pytest

from unisono.core.policy import Budget
from unisono.core.trust import FINAL_MODEL
from unisono.deployment import party
from unisono.deployment.local_run import RunPlace, prepare
from unisono.deployment.parties_here import find_data
from unisono.errors import PrivacyViolation
from unisono.reports.markdown import markdown
from unisono.runs.folder import Heading, read_run
from unisono.studies.explain import explain
from unisono.studies.file import load_study, parse_study
from unisono.studies.policy_file import load_policy

from .trial import ADDRESS, DESCENT, NAMES, Trial, study_text

PRINTED = DESCENT.format(rounds=3) + "\npublished = true"
TEXT = study_text(PRINTED, epsilon=16.0)
# Of 16 at delta = 1e-5; rounding adds a little, and a curious party knows its share of the noise.
WORDS = "noise as printed in Chen 2019, theorem on gradient perturbation; the printed epsilon is 16"


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path, TEXT, epsilon=100.0)


def allow(trial, name):
    path = trial.policy(name)
    path.write_text(path.read_text() + "published = true\n")


def run(trial, seed=None):
    data = find_data(NAMES, trial.folder)
    budget = Budget(1000.0, 1e-5)  # for parties without a policy
    task = prepare(RunPlace(trial.study, data, trial.folder / "run", seed=seed, budget=budget))
    with task.opened() as books:
        return task.run(books, lambda progress: None)


def test_a_check_says_both_epsilons_before_anything_runs():
    found = explain(parse_study(TEXT))
    said = [line for line in found.learnt if "as printed in Chen 2019" in line]
    assert len(said) == 1
    assert "the printed epsilon is 16, the true one at most" in said[0]
    [danger] = [one for one in found.dangers if "as printed" in one.words]
    assert danger.level == "warning"
    assert "leave published out" in danger.remedy
    worst = max(cost.epsilon for cost in found.costs if cost.relation == "replace-one")
    assert 19 < worst < 40


def test_it_just_runs_in_a_simulation_and_everything_is_labelled(trial):
    shown = run(trial, seed=5)
    assert shown["printed"].startswith(WORDS)
    folder = trial.folder / "run"
    for name in ("result.json", "certificate.json"):
        assert json.loads((folder / name).read_text())["printed"] == shown["printed"]
    assert "AS PRINTED" in (folder / "certificate.txt").read_text()
    Heading("printed", "in process", "finished", "2026-01-01T00:00:00+00:00").write(folder)
    text = " ".join(markdown(read_run(folder)).split())
    assert "the printed epsilon is 16, the true one at most" in text


def test_real_parties_run_it_where_all_of_them_allow_it(trial):
    for name in NAMES[:-1]:
        allow(trial, name)
    with pytest.raises(PrivacyViolation, match=r"west.*(?s:.*)published = true: noise as printed"):
        run(trial)
    assert not trial.ledger("west").exists()
    allow(trial, "west")
    assert run(trial)["printed"].startswith(WORDS)
    ledger = load_policy(trial.policy("north")).open_ledger()
    assert 19 < ledger.spent(FINAL_MODEL) < 25
    ledger.close()


def test_parties_without_a_policy_allow_no_printed_noise(trial):
    for name in NAMES:
        trial.policy(name).unlink()
    with pytest.raises(PrivacyViolation, match="published = true"):
        run(trial)
    assert not list(trial.folder.rglob("*.ledger"))


def test_a_member_refuses_before_it_opens_anything(trial):
    home = trial.folder / "north"
    seat = party.PartyConfig(
        "north",
        trial.study,
        trial.roster,
        home / "records.csv",
        trial.policy("north"),
        home / "keys",
        trial.output("north"),
    )
    with pytest.raises(PrivacyViolation, match="published = true: noise as printed in Chen 2019"):
        party.Member(seat, ADDRESS)
    assert not trial.ledger("north").exists()
    allow(trial, "north")
    member = party.Member(seat, ADDRESS)
    assert member.ledger.policy.published
    member.ledger.close()


def test_a_published_study_is_another_study(trial):
    plain = parse_study(TEXT.replace("\npublished = true", ""))
    assert plain.hash != load_study(trial.study).hash
    silent = parse_study(TEXT.replace("published = true", "published = false"))
    assert silent.hash == plain.hash  # as before there was a choice
