"""`unisono audit`: words, JSON, exit codes. False-alarm rate of every audit here: 1e-3."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from unisono import cli
from unisono.attacks import replay

RUNNER = CliRunner()
STUDY = """\
title = "How old?"
[data]
sizes = "exact"
[data.columns]
age = { kind = "number", bounds = [0, 120], integer = true }
sex = { kind = "category", values = ["f", "m"] }
[[parties]]
name = "north"
records = 10
[[parties]]
name = "south"
records = 12
[[parties]]
name = "west"
records = 8
[privacy]
epsilon = 2
delta = 1e-4
relation = "replace-one"
[trust]
mode = "secure-sum"
[model]
name = "statistics"
[[model.questions]]
ask = "mean"
column = "age"
[[model.questions]]
ask = "histogram"
column = "sex"
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return str(path)


def test_a_true_promise_is_not_refuted(study):
    result = RUNNER.invoke(cli.app, ["audit", study, "--runs", "2000", "--json"])
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert shown["claim"] == 2
    assert shown["accounted"] <= 2
    assert 0.8 < shown["bound"] < 2
    assert shown["bound"] == max(shown["bound_direct"], shown["bound_model_based"])
    assert shown["verdict"] == "not refuted"
    assert (shown["runs"], shown["confidence"]) == (2000, 0.999)
    assert shown["viewer"] == "everyone who sees all sums, with 1 of 3 parties"


def test_halved_noise_exits_with_six(study, monkeypatch):
    honest = replay.noise_steps

    def too_little(key, event, *rest):
        narrow = replace(event, noise=replace(event.noise, std=event.noise.std / 2, gap=0.5))
        return honest(key, narrow, *rest)

    monkeypatch.setattr(replay, "noise_steps", too_little)
    result = RUNNER.invoke(cli.app, ["audit", study, "--runs", "1000"])
    assert result.exit_code == 6
    assert "verdict     refuted" in result.stdout
    assert "promises epsilon 2" in result.stderr
    assert "Traceback" not in result.stderr


def test_words_and_help(study):
    result = RUNNER.invoke(cli.app, ["audit", study, "--runs", "200"])
    assert result.exit_code == 0
    for words in ("claim", "confidence  0.999, 200 runs", "this certifies nothing", "seconds"):
        assert words in result.stdout
    help_text = RUNNER.invoke(cli.app, ["audit", "--help"]).stdout
    assert "Examples:" in help_text
    assert "--json" in help_text


def test_too_few_runs_and_no_study(study, tmp_path):
    result = RUNNER.invoke(cli.app, ["audit", study, "--runs", "50"])
    assert result.exit_code == 2
    assert "too few" in result.stderr
    assert RUNNER.invoke(cli.app, ["audit", str(tmp_path / "none.toml")]).exit_code == 2
