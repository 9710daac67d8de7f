"""`unisono attack`: the laboratory's folder, a study's attack, errors. Small sizes throughout."""

import json
import math

import pytest
from typer.testing import CliRunner

from unisono import cli
from unisono.attacks.laboratory import experiment, testbed
from unisono.attacks.laboratory.results import (
    Baseline,
    LaboratoryResults,
    MembershipScore,
    PrivacyScore,
    Reconstruction,
    Row,
    Tensor,
    TensorPoint,
)
from unisono.cli.attack_inversion import inversion
from unisono.reports.markdown import markdown
from unisono.runs.folder import read_run

from ..studies.test_people import LEARNT, built_of

RUNNER = CliRunner()
TINY = experiment.LaboratoryEffort(
    neurons=(2000, 4000),
    tensor_seeds=1,
    private_batches=1,
    trials=3,
    runs=100,
    private_runs=100,
    rounds=2,
    curve_digits=1,
    multipliers=(0.61,),
    parties=(1,),
)
STUDY = """\
title = "How old?"
[data]
sizes = "exact"
[data.columns]
age = { kind = "number", bounds = [0, 120] }
[[parties]]
name = "north"
records = 10
[[parties]]
name = "south"
records = 12
[privacy]
epsilon = 4
delta = 1e-4
relation = "replace-one"
[trust]
mode = "MODE"
[model]
name = "statistics"
[[model.questions]]
ask = "mean"
column = "age"
"""


def imagined(cases, *, seed, quick, progress):
    """An outcome in which every number is made up; `run` itself is tested beside the attacks."""
    progress("done", 1, 1)
    truth, _ = testbed.secrets()
    error = Reconstruction(1e-6, math.inf, 2e-6, 0.3, 20.0, 1)
    tensor = Tensor((10, 20), (0.2, 0.1), -0.5, 0.05, "B sqrt(d/m)", None, None, 0.02, 30.0, 0.4)
    rows = tuple(
        Row(
            case.name,
            case.words,
            error,
            None,
            tensor,
            MembershipScore(1.0, 1.0, 0.9, 3),
            0.7,
            0.95,
            PrivacyScore(
                1e-5,
                case.make(testbed.images(0, 8), 5).epsilon(1e-5, 5, 1),
                1.0,
                4.0,
                None,
                4.0,
                0.95,
                100,
            ),
        )
        for case in cases
    )
    points = (TensorPoint(100.0, 0.1, 0.7), TensorPoint(1.0, 0.9, 0.7))
    found = LaboratoryResults(
        rows, Baseline(0.55, 11.0, 0.97), points, points, 0.55, experiment.SETTING, quick, seed, 1.0
    )
    shown = {case.name: {"inversion": truth, "tensor": truth} for case in cases}
    return experiment.LaboratoryOutcome(found, {"truth": {"truth": truth}, **shown})


@pytest.mark.slow
def test_the_laboratory_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "QUICK", TINY)
    command = ["attack", "--quick", "--only", "none,dp-8", "--output", str(tmp_path), "--json"]
    result = RUNNER.invoke(cli.app, command)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["laboratory"]["rows"]
    assert [row["name"] for row in rows] == ["none", "dp-8"]
    assert rows[0]["inversion"]["error"] < 1e-3 < 1 < rows[1]["inversion"]["ratio"]


def test_the_laboratory_leaves_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr("unisono.attacks.laboratory.run", imagined)
    folder = tmp_path / "lab"
    command = ["attack", "--quick", "--only", "none,dp-8", "--output", str(folder)]
    result = RUNNER.invoke(cli.app, command)
    assert result.exit_code == 0, result.output
    for words in ("DP-SGD, noise 0.61", "no protection", "certifies nothing", "report.html"):
        assert words in result.stdout
    run = read_run(folder)
    assert (run.heading.engine, run.heading.state) == ("laboratory", "finished")
    assert [row["name"] for row in run.attacks["laboratory"]["rows"]] == ["none", "dp-8"]
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "certifies nothing" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_linkage_leaves_a_run_with_a_table_and_a_picture(tmp_path):
    folder = tmp_path / "linked"
    result = RUNNER.invoke(cli.app, ["attack", "linkage", "--quick", "--output", str(folder)])
    assert result.exit_code == 0, result.output
    for words in (
        "no names, nothing else",
        "noisy table, epsilon 0.1",
        "k-anonymity",
        "report.html",
    ):
        assert words in result.stdout
    run = read_run(folder)
    assert (run.heading.title, run.heading.state) == ("Linkage attack", "finished")
    rows = {row["name"]: row for row in run.attacks["linkage"]["rows"]}
    assert rows["none"]["reidentified"] > 0.7
    assert rows["decade"]["insider"] == 1 > rows["dp-1"]["bound"] > rows["dp-1"]["insider"]
    assert (folder / "report.html").read_text().count("data:image/png;base64,") == 1
    assert (folder / "attack-linkage.png").read_bytes().startswith(b"\x89PNG")
    again = markdown(run)
    assert "an insider has the records of all other patients" in again
    assert "| noisy table, epsilon 1 |" in again.replace("  ", " ")


def test_a_run_that_breaks_says_so(tmp_path, monkeypatch):
    def broken(*arguments, **options):
        raise OSError("no digits")

    monkeypatch.setattr("unisono.attacks.laboratory.run", broken)
    RUNNER.invoke(cli.app, ["attack", "--output", str(tmp_path / "lab")])
    heading = read_run(tmp_path / "lab").heading
    assert (heading.state, heading.error) == ("failed", "no digits")


@pytest.mark.parametrize("mode", ["secure-sum", "trusted-server"])
def test_a_study_is_attacked_by_what_each_viewer_sees(tmp_path, mode):
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace("MODE", mode))
    result = RUNNER.invoke(cli.app, ["attack", str(path), "--quick", "--json"])
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    first, *others = shown["identification"]
    assert first["blind"] <= first["right"] <= first["at_most"] < 1
    assert shown["membership"]["bound"] <= 4
    assert shown["inversion"] == {
        "applies": False,
        "why": "statistics sends noisy counts and sums; no inversion is built for that: see "
        "identification",
    }
    if mode == "trusted-server":
        assert others[0]["viewer"] == "the trusted server, before it adds noise"
        assert others[0]["right"] > 0.9
        assert others[0]["error"] < 0.2 < others[0]["baseline"]
    else:
        assert not others


def test_bad_input(tmp_path):
    result = RUNNER.invoke(cli.app, ["attack", "--only", "wishes"])
    assert result.exit_code == 2
    assert "no defence is called wishes" in result.stderr
    assert RUNNER.invoke(cli.app, ["attack", str(tmp_path / "none.toml")]).exit_code == 2
    result = RUNNER.invoke(cli.app, ["attack", "study.toml", "--only", "none"])
    assert "belong to the laboratory" in result.stderr
    result = RUNNER.invoke(cli.app, ["attack", "linkage", "--only", "none"])
    assert (result.exit_code, "leave it out for linkage" in result.stderr) == (2, True)


def test_gradients_of_persons_are_not_inverted_as_if_of_records():
    built = built_of(LEARNT + '[model]\nname = "network"\nhidden = [4]\n')
    found = inversion(built, [], True, 0, lambda *_: None)
    assert not found["applies"]
    assert "sums over several records" in found["why"]
