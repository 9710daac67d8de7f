"""Predicted widths of hazard ratios and of curves: from public facts alone."""

import json
import math

import pytest
from typer.testing import CliRunner

from unisono.cli import app
from unisono.errors import InvalidInput
from unisono.planning.curve_widths import curve_widths
from unisono.planning.hazard_widths import interval_widths
from unisono.studies.build import build
from unisono.studies.file import parse_study

STUDY = """\
title = "Survival"
[data]
target = "t"
[data.columns]
a = { kind = "number", bounds = [-4, 4] }
s = { kind = "category", values = ["u", "v"] }
e = { kind = "category", values = ["no", "yes"] }
t = { kind = "number", bounds = [0, 10] }
[[parties]]
name = "north"
records = 4000
[[parties]]
name = "south"
records = 2500
[privacy]
epsilon = EPSILON
delta = 1e-6
[trust]
mode = "secure-sum"
[model]
event = "e"
"""
HAZARDS, CURVES = STUDY + 'name = "hazards"\n', STUDY + 'name = "kaplan-meier"\nby = "s"\n'


def hazards(epsilon, share=None):
    built = build(parse_study(HAZARDS.replace("EPSILON", str(epsilon))))
    return interval_widths(built.study, share)


def curves(epsilon, share=None):
    built = build(parse_study(CURVES.replace("EPSILON", str(epsilon))))
    _, first, second = (stage.study for stage in built.stages)
    return curve_widths(first, second, share)


def test_widths_of_hazard_ratios():
    """Without noise per deviation about 1 / sqrt(events); noise widens, and so do rare events."""
    usual, rare = hazards(1.0), hazards(1.0, 0.1)
    assert [one.name for one in usual.columns] == ["a", "s"]
    assert usual.ratios
    number, other = usual.columns
    assert number.sampling_error == pytest.approx(1 / math.sqrt(3250), rel=0.25)
    assert other.sampling_error == pytest.approx(2 / math.sqrt(3250), rel=0.25)
    assert number.inflation > 1.1
    assert rare.columns[0].std_error > 1.5 * number.std_error
    assert number.power(usual.coefficient(1.5)) > 0.99
    with pytest.raises(InvalidInput, match="share of records with an event"):
        hazards(1.0, 1.5)


def test_widths_of_curves_and_the_power_of_the_test():
    """Greenwood's at the horizon, sqrt(S (1 - S) / n); the test's error is 2 / sqrt(events)."""
    usual, loud = curves(1.0), curves(100.0)
    last = usual.points[-1]
    assert (last.time, last.survival) == (1.0, pytest.approx(0.5, abs=0.01))
    assert last.without_privacy == pytest.approx(1.96 * math.sqrt(0.25 / 3250), rel=0.15)
    assert last.reach > 1.02 * last.without_privacy
    assert usual.ratio_error_alone == pytest.approx(2 / math.sqrt(3250), rel=0.05)
    assert loud.ratio_error == pytest.approx(loud.ratio_error_alone, rel=0.05)
    assert usual.ratio_error > 1.02 * usual.ratio_error_alone
    assert 0.05 <= usual.power(1.0) < 0.051
    assert usual.power(1.5) > 0.99
    with pytest.raises(InvalidInput, match="above zero"):
        usual.power(0.0)


@pytest.mark.parametrize(
    ("study", "words"),
    [(CURVES, "1.5 is found by"), (HAZARDS, "log-hazard")],
    ids=["curves", "hazards"],
)
def test_the_command_says_it(tmp_path, study, words):
    path = tmp_path / "study.toml"
    path.write_text(study.replace("EPSILON", "1"))
    if study is CURVES:
        found = CliRunner().invoke(app, ["plan", str(path), "--majority", "0.6"])
        shown = CliRunner().invoke(app, ["plan", str(path), "--json", "--effect", "1.5"])
        assert json.loads(shown.stdout)["power"]["1.5"] > 0.5
    else:
        found = CliRunner().invoke(app, ["check", str(path)])
    assert found.exit_code == 0, found.output
    assert words in " ".join(found.stdout.split())
