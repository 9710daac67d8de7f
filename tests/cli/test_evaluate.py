"""`unisono evaluate`: a finished run is judged by records of its parties, for one release."""

import json
import re

import numpy as np
import pytest
from sklearn import metrics as textbook
from typer.testing import CliRunner

import unisono
from unisono.cli import app
from unisono.errors import InvalidInput
from unisono.studies.evaluating import Asked, evaluation_text_of
from unisono.studies.file import parse_study

from .test_predict import STUDY, people, write

ENOUGH = 900
BIG = STUDY.replace("records = 200", f"records = {ENOUGH}").replace("8.0", "50.0")


def invoke(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run, and other records of the same parties."""
    folder = tmp_path_factory.mktemp("evaluate")
    (folder / "study.toml").write_text(BIG)
    for kind, seed in (("old", 0), ("new", 10)):
        (folder / kind).mkdir()
        for number, name in enumerate(("north", "south")):
            write(folder / kind / f"{name}.csv", people(seed + number, ENOUGH))
    ran = invoke("run", folder / "study.toml", "--data", folder / "old", "--budget", "200")
    assert ran.exit_code == 0, ran.output
    return folder


def result_of(folder):
    return json.loads((folder / "result.json").read_text())


def test_new_records_are_judged_as_a_textbook_would(finished):
    place = finished / "judge.toml"
    done = invoke(
        "evaluate", finished / "study.run", "--data", finished / "new",
        "--epsilon", "30", "--by", "sex", "--study", place, "--budget", "200",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "LEARNT FROM" not in done.output
    found = result_of(finished / "judge.run")
    model = unisono.load(finished / "study.run")
    parts = [people(seed, ENOUGH) for seed in (10, 11)]
    columns = {name: np.concatenate([np.asarray(p[name]) for p in parts]) for name in parts[0]}
    said = model.predict(columns)
    shown = {one["name"]: one for one in found["evaluation"]["metrics"]}
    exact = textbook.accuracy_score(columns["ill"], said)
    assert shown["accuracy"]["value"] == pytest.approx(exact, abs=0.01)
    chances = model.predict_proba(columns)[:, 1]
    exact = textbook.roc_auc_score(columns["ill"] == "yes", chances)
    assert shown["AUC"]["value"] == pytest.approx(exact, abs=0.02)
    assert [one["group"] for one in found["evaluation"]["groups"]] == ["f", "m"]
    page = (finished / "judge.run" / "report.html").read_text()
    assert "ROC" in page
    assert "Calibration" in page
    assert re.search(r"about 1[78]\d\d records", page)


def test_records_that_were_learnt_from_are_labelled(finished):
    done = invoke(
        "evaluate", finished / "study.run", "--data", finished / "old",
        "--epsilon", "1", "--study", finished / "again.toml",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "ON RECORDS THAT WERE LEARNT FROM: the ledgers of north, south" in done.output
    assert result_of(finished / "again.run")["learnt_from"] == ["north", "south"]
    assert "learnt from" in (finished / "again.run" / "report.html").read_text().lower()


def test_the_study_alone_can_be_written_checked_and_kept(finished):
    place = finished / "alone.toml"
    done = invoke("evaluate", finished / "study.run", "--study", place, "--records", "north=50")
    assert done.exit_code == 0, done.output
    file = parse_study(place.read_text())
    assert [(party.name, party.records) for party in file.parties] == [("north", 50)]
    other = invoke("evaluate", finished / "study.run", "--study", place, "--epsilon", "2")
    assert other.exit_code == 2
    assert "says something else" in other.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--records", "zest=5"), "'zest' is no party"),
        (("--records", "north=five"), "write NAME=N"),
        (("--by", "age"), "'age' is a number, and a category is needed"),
        (("--by", "ward"), "'ward' is no column"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_spent(finished, options, words):
    done = invoke("evaluate", finished / "study.run", "--study", finished / "no.toml", *options)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
    assert not (finished / "no.toml").exists()


def test_columns_must_be_declared_as_the_model_knows_them(finished):
    text = evaluation_text_of(unisono.load(finished / "study.run"), Asked(1.0))
    with pytest.raises(InvalidInput, match="declared otherwise"):
        parse_study(text.replace('"age" = { kind = "number", bounds = [0.0, 100.0]',
                                 '"age" = { kind = "number", bounds = [0.0, 90.0]'))  # fmt: skip
