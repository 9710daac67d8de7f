"""`unisono evaluate`: a finished run is judged by records of its parties, for one release."""

import json
import re
import shutil

import numpy as np
import pytest
from sklearn import metrics as textbook
from typer.testing import CliRunner

import unisono
from unisono.cli import app
from unisono.deployment.evaluating import Asked, evaluation_text_of
from unisono.errors import InvalidInput
from unisono.exports import statement
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


def everybody(*seeds):
    """The records of both parties."""
    parts = [people(seed, ENOUGH) for seed in seeds]
    return {name: np.concatenate([np.asarray(p[name]) for p in parts]) for name in parts[0]}


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
    columns = everybody(10, 11)
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
    assert re.search(r"about 1,?[78]\d\d records", page)


def test_records_that_were_learnt_from_are_labelled(finished):
    asked = (
        "evaluate", finished / "study.run", "--data", finished / "old",
        "--epsilon", "1", "--study", finished / "again.toml",
    )  # fmt: skip
    before = [(finished / "old" / f"{name}.ledger").read_bytes() for name in ("north", "south")]
    refused = invoke(*asked)
    assert refused.exit_code == 2
    assert "ON RECORDS THAT WERE LEARNT FROM: the ledgers of north, south" in refused.output
    assert "nothing was paid" in refused.output
    assert "--learnt" in refused.output
    after = [(finished / "old" / f"{name}.ledger").read_bytes() for name in ("north", "south")]
    assert before == after
    done = invoke(*asked, "--learnt")
    assert done.exit_code == 0, done.output
    assert "ON RECORDS THAT WERE LEARNT FROM: the ledgers of north, south" in done.output
    assert result_of(finished / "again.run")["learnt_from"] == ["north", "south"]
    assert "learnt from" in (finished / "again.run" / "report.html").read_text().lower()


def test_the_card_holds_evaluations_of_this_very_model_alone(finished, tmp_path):
    place = finished / "carded.toml"
    asked = ("--data", finished / "new", "--epsilon", "2", "--study", place, "--edition", "5")
    done = invoke("evaluate", finished / "study.run", *asked, "--budget", "200")
    assert done.exit_code == 0, done.output
    model = unisono.load(finished / "study.run")
    text = statement.as_markdown(model)
    assert "records (carded.run):" in text
    assert "AUC: 0." in text
    assert "Not measured" not in text
    moved = tmp_path / "carded.run"
    shutil.copytree(finished / "carded.run", moved)
    shutil.copytree(finished / "study.run", tmp_path / "study.run")
    assert "carded.run" in statement.as_markdown(unisono.load(tmp_path / "study.run"))
    study = moved / "study.toml"  # which judges another model now
    study.write_text(study.read_text().replace("Who is ill?", "Who is well?"))
    text = statement.as_markdown(unisono.load(tmp_path / "study.run"))
    assert "no evaluation of this model was found" in text


@pytest.mark.parametrize(("said", "code"), [("n\n", 1), ("y\n", 0)])
def test_a_terminal_is_asked_before_learnt_records_pay(finished, monkeypatch, said, code):
    monkeypatch.setattr("unisono.cli.budget.on_terminal", lambda: True)
    book, place = finished / "old" / "north.ledger", finished / "asked.toml"
    before = book.read_bytes()
    asked = ["evaluate", finished / "study.run", "--data", finished / "old", "--study", place]
    asked += ["--edition", "7"]
    done = CliRunner().invoke(app, list(map(str, asked)), input=said)
    assert done.exit_code == code, done.output
    assert "LEARNT FROM" in done.stderr
    assert (book.read_bytes() == before) == (code == 1)


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


@pytest.mark.parametrize(
    ("model", "target", "named"),
    [
        ("logistic-regression", "ill", ("AUC", "calibration slope", "f, about")),
        ("linear-svm", "ill", ("recall of yes", "f, about")),
        ("linear-regression", "age", ("RMSE", "R²", "f, about")),
    ],
)
def test_records_that_were_kept_out_give_all_metrics(tmp_path, model, target, named):
    held = '\n[evaluation]\nholdout = 0.4\nepsilon = 40.0\nmetrics = "all"\nby = "sex"\n'
    text = BIG.replace('target = "ill"', f'target = "{target}"')
    (tmp_path / "study.toml").write_text(text.replace("logistic-regression", model) + held)
    for number, name in enumerate(("north", "south")):
        write(tmp_path / f"{name}.csv", people(number, ENOUGH))
    done = invoke("run", tmp_path / "study.toml", "--data", tmp_path, "--seed", "3")
    assert done.exit_code == 0, done.output
    for words in named:
        assert words in done.output
    home = tmp_path / "study.simulation"
    found = json.loads((home / "evaluation.json").read_text())
    assert found["low"] <= found["value"] <= found["high"]
    assert found["metrics"]["records"] == pytest.approx(found["records"], abs=40)
    assert "Metrics" in (home / "report.html").read_text()
    if target == "ill":  # as of all records, of which a part was kept out
        records = everybody(0, 1)
        right = unisono.load(home).predict(records) == records["ill"]
        assert found["value"] == pytest.approx(right.mean(), abs=0.05)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('metrics = "all"\nfile = "test.csv"', "metrics: is about the private test"),
        ('holdout = 0.2\nepsilon = 1.0\nby = "sex"', 'by: needs metrics = "all"'),
        ('holdout = 0.2\nepsilon = 1.0\nmetrics = "all"\nby = "age"', "a category is needed here"),
    ],
)
def test_metrics_that_cannot_be_asked_for(more, words):
    with pytest.raises(InvalidInput, match=words):
        parse_study(f"{BIG}\n[evaluation]\n{more}\n")


# ------------------------------------------------------------- times until an event

TIMES = """
title = "How long?"

[data]
target = "months"
columns.age = { kind = "number", bounds = [0.0, 100.0] }
columns.sex = { kind = "category", values = ["f", "m"] }
columns.months = { kind = "number", bounds = [0.0, 24.0] }
columns.died = { kind = "category", values = ["no", "yes"] }

[[parties]]
name = "north"
records = 900
[[parties]]
name = "south"
records = 900

[privacy]
epsilon = 50.0
delta = 1e-5

[trust]
mode = "secure-sum"

[model]
name = "hazards"
event = "died"
"""


def patients(seed, records=ENOUGH):
    generator = np.random.default_rng(seed)
    age, sex = generator.uniform(0, 100, records).round(1), generator.choice(["f", "m"], records)
    hazard = np.exp(0.03 * (age - 50) + 0.5 * (sex == "m")) / 15
    time, censored = generator.exponential(1 / hazard), generator.uniform(6, 30, records)
    seen = np.minimum(np.minimum(time, censored), 24).round(2)
    died = np.where((time <= censored) & (time <= 24), "yes", "no")
    return {"age": age, "sex": sex, "months": seen, "died": died}


def harrell(score, time, event):
    first = event[:, None] & (time[:, None] < time[None])
    above = (score[:, None] > score[None]) + 0.5 * (score[:, None] == score[None])
    return float((first * above).sum() / first.sum())


def test_survival_models_are_judged_by_their_concordance(tmp_path):
    """In the study itself, by records that it kept out; afterwards by new ones, by subgroup."""
    held = '\n[evaluation]\nholdout = 0.5\nepsilon = 40.0\nmetrics = "all"\n'
    (tmp_path / "study.toml").write_text(TIMES + held)
    for kind, seed in (("old", 0), ("new", 10)):
        (tmp_path / kind).mkdir()
        for number, name in enumerate(("north", "south")):
            write(tmp_path / kind / f"{name}.csv", patients(seed + number))
    ran = invoke("run", tmp_path / "study.toml", "--data", tmp_path / "old", "--budget", "400")
    assert ran.exit_code == 0, ran.output
    model = unisono.load(tmp_path / "study.run")

    def exact(*seeds):
        parts = [patients(seed) for seed in seeds]
        own = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
        return harrell(model.predict(own), own["months"], own["died"] == "yes")

    kept = json.loads((tmp_path / "study.run" / "evaluation.json").read_text())
    assert kept["measure"] == "concordance"
    assert kept["value"] == pytest.approx(exact(0, 1), abs=0.03)  # half of those records
    assert "concordance" in ran.output
    place = tmp_path / "judge.toml"
    done = invoke(
        "evaluate", tmp_path / "study.run", "--data", tmp_path / "new", "--by", "sex",
        "--epsilon", "40", "--study", place, "--budget", "200",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = result_of(tmp_path / "judge.run")["evaluation"]
    [metric] = found["metrics"]
    assert metric["name"] == "concordance"
    assert metric["value"] == pytest.approx(exact(10, 11), abs=0.015)
    assert metric["low"] < metric["value"] < metric["high"]
    assert [one["group"] for one in found["groups"]] == ["f", "m"]
    assert "LEARNT FROM" not in done.output
    assert "concordance" in (tmp_path / "judge.run" / "report.html").read_text()


@pytest.mark.parametrize("more", ["holdout = 0.2\nepsilon = 1.0", 'file = "test.csv"'])
def test_survival_models_have_no_score_of_one_record(more):
    with pytest.raises(InvalidInput, match="judged by its concordance"):
        parse_study(f"{TIMES}\n[evaluation]\n{more}\n")
