"""`unisono check`: plain words before anything runs, and an exit code for what would be refused."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli import app
from unisono.core.ledger import Ledger
from unisono.errors import UndefinedRelation
from unisono.studies.build import build
from unisono.studies.file import load_study
from unisono.studies.policy_file import load_policy

from ..deployment.trial import POLICY, study_text

RUNNER = CliRunner()


def check(*arguments: object, code: int = 0) -> str:
    result = RUNNER.invoke(app, ["check", *map(str, arguments)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert code or not result.stderr
    return " ".join((result.stdout if code in (0, 3) else "").split() + result.stderr.split())


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(study_text())
    return path


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(POLICY.format(name="north", epsilon=5.0))
    return path


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_it_explains_a_study(study):
    text = check(study)
    for part in (
        "WHAT WILL BE LEARNT",
        "predicts diagnosis (benign or malignant)",
        "WHAT IT COSTS",
        "another party",
        "WHAT ONE RECORD'S OWNER IS PROMISED",
        "NOISE",
        "WHAT COULD GO WRONG",
        f"{study} line",
    ):
        assert part in text, part
    assert list(study.parent.iterdir()) == [study]


def test_coefficients_with_intervals_come_with_their_widths():
    text = check(Path(__file__).parents[2] / "examples" / "odds" / "study.toml")
    assert "95 % intervals of coefficients of independent columns will reach about" in text
    assert "is found four times in five" in text


def test_an_algorithm_that_is_left_open_comes_with_its_reason(study):
    named = '[algorithm]\nname = "gradient-perturbation"\nrounds = 3\n'
    change(study, named, "")
    said = "The algorithm was left open; preconditioned-gradients: after a release of how columns"
    assert said in check(study)
    assert any(said in line for line in json.loads(check(study, "--json"))["learnt"])
    study.write_text(f"{study.read_text()}{named}")
    assert "left open" not in check(study)


def test_an_algorithm_that_cannot_learn_the_model_is_refused_with_those_that_can(study):
    change(study, '"gradient-perturbation"', '"dp-sgd"')
    text = check(study, code=2)
    assert f"{study} line 36: dp-sgd: dp-sgd cannot learn a logistic-regression: choose " in text
    assert "gradient-perturbation, dp-sgd-convex, output-perturbation" in text


def test_json_says_the_same(study, policy):
    document = json.loads(check(study, "--policy", policy, "--json"))
    assert document["policy"] == {"allowed": True, "reason": None}
    costs = {(cost["viewer"], cost["relation"]): cost["epsilon"] for cost in document["costs"]}
    assert costs["server", "replace-one"] == pytest.approx(2.0, rel=1e-3)
    assert all(danger["remedy"] for danger in document["dangers"])
    change(study, '"secure-sum"', '"trusted-server"')
    document = json.loads(check(study, "--json"))
    assert "inf" in [cost["epsilon"] for cost in document["costs"]]


def test_a_policy_that_allows_it_makes_no_ledger(study, policy):
    assert "allows it, and the budget suffices" in check(study, "--policy", policy)
    assert not list(study.parent.glob("*.ledger"))


def test_a_policy_that_refuses(study, policy):
    change(policy, "minimum_parties = 2", "minimum_parties = 3")
    text = check(study, "--policy", policy, code=3)
    assert "WHAT IT COSTS" in text
    assert "at least 3 parties must take part" in text
    found = RUNNER.invoke(app, ["check", str(study), "--policy", str(policy), "--json"])
    assert found.exit_code == 3
    assert json.loads(found.stdout)["policy"]["allowed"] is False


def test_a_budget_that_is_spent(study, policy):
    change(policy, "epsilon = 5.0\ndelta", "epsilon = 3.2\ndelta")
    change(policy, "maximum_epsilon = 5.0", "maximum_epsilon = 3.2")
    built = build(load_study(study))
    ledger = Ledger.create(
        policy.parent / "records.ledger", load_policy(policy).core_policy(), ACCOUNTANT
    )
    ledger.authorize(built.study.costs[0], 3, "an earlier study")
    head = ledger.head
    ledger.close()
    assert "Budget exceeded for" in check(study, "--policy", policy, code=3)
    again = Ledger.open(policy.parent / "records.ledger", ACCOUNTANT)
    assert again.head == head
    again.close()


def test_the_test_counts_against_the_policy(study, policy):
    change(policy, "maximum_epsilon = 5.0", "maximum_epsilon = 3.2")
    check(study, "--policy", policy)
    study.write_text(study.read_text() + "\n[evaluation]\nholdout = 0.25\nepsilon = 2.0\n")
    assert "at most epsilon 3.2" in check(study, "--policy", policy, code=3)


def test_faults_point_at_their_lines(study):
    change(study, "epsilon = 2.0", "epsilon = -2.0")
    change(study, "retries = 0", "retrys = 0")
    text = check(study, code=2)
    assert f"{study} line 24: privacy.epsilon: -2.0 is not allowed" in text
    assert "did you mean 'retries'?" in text
    assert text.count("unisono:") == 1


def test_files_that_are_missing(study, policy, tmp_path):
    assert "cannot be read" in check(tmp_path / "none.toml", code=2)
    assert "cannot be read" in check(study, "--policy", tmp_path / "none.toml", code=2)
    assert "no party 'east'" in check(study, "--policy", policy, "--name", "east", code=2)
    study.write_text(study.read_text() + '\n[evaluation]\nfile = "test.csv"\n')
    text = check(study, code=2)
    assert "put the public test records there" in text
    assert "line 41" in text


def test_a_public_test_file_is_named_as_public(study):
    (study.parent / "test.csv").touch()
    study.write_text(study.read_text() + '\n[evaluation]\nfile = "test.csv"\n')
    text = check(study)
    assert "tested on test.csv, which is public" in text
    assert "test.csv counts as public" in text


def test_a_claim_that_would_be_false(study, monkeypatch):
    def refuse(file, kind):
        raise UndefinedRelation("this release bounds nothing under zero-out")

    monkeypatch.setattr("unisono.studies.build._study", refuse)
    text = check(study, code=4)
    assert f"{study} line 36: gradient-perturbation: this release bounds nothing" in text
