"""`unisono predict`: a study is run, and new records are predicted from what it left."""

import csv
import json
import pickle

import numpy as np
import pytest
from typer.testing import CliRunner

import unisono
from unisono.cli import app
from unisono.core.documents import CERTIFICATE
from unisono.data.scaling import UnitScaling
from unisono.data.schema import Schema
from unisono.errors import InvalidInput
from unisono.models.fitted import fitted_document, save_model
from unisono.models.prediction import Scores

STUDY = """
title = "Who is ill?"

[data]
target = "ill"
columns.age = { kind = "number", bounds = [0.0, 100.0] }
columns.sex = { kind = "category", values = ["f", "m"] }
columns.ill = { kind = "category", values = ["no", "yes"] }

[[parties]]
name = "north"
records = 200
[[parties]]
name = "south"
records = 200

[privacy]
epsilon = 8.0
delta = 1e-5

[trust]
mode = "local"

[model]
name = "logistic-regression"

[algorithm]
name = "gradient-perturbation"
rounds = 5
"""


def write(path, columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def people(seed, records):
    generator = np.random.default_rng(seed)
    age = generator.uniform(0, 100, records).round(1)
    sex = generator.choice(["f", "m"], records)
    ill = np.where(age + 20 * (sex == "m") + generator.normal(0, 10, records) > 60, "yes", "no")
    return {"age": age, "sex": sex, "ill": ill}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A simulation of a linear model over two parties."""
    home = tmp_path_factory.mktemp("study")
    (home / "study.toml").write_text(STUDY)
    for seed, name in enumerate(("north", "south")):
        write(home / f"{name}.csv", people(seed, 200))
    study, data = str(home / "study.toml"), str(home)
    done = CliRunner().invoke(app, ["run", study, "--data", data, "--seed", "1"])
    assert done.exit_code == 0, done.output
    assert "unisono-model" not in done.stdout
    return home / "study.simulation"


def predict(*words):
    return CliRunner().invoke(app, ["predict", *map(str, words)])


def test_new_records_are_scored_as_python_scores_them(run, tmp_path):
    new = people(7, 30)
    write(tmp_path / "new.csv", {"id": range(30), "age": new["age"], "sex": new["sex"]})
    out = tmp_path / "scored.csv"
    done = predict(run, tmp_path / "new.csv", "--output", out, "--proba")
    assert done.exit_code == 0, done.output
    assert "30 records predicted" in done.stdout
    assert "simulation" in done.stderr
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        *("id", "age", "sex", "predicted_ill", "probability_no", "probability_yes")
    ]
    model = unisono.load(run)
    assert [row["predicted_ill"] for row in rows] == list(model.predict(tmp_path / "new.csv"))
    chances = model.predict_proba(tmp_path / "new.csv")[:, 1]
    shown = np.array([float(row["probability_yes"]) for row in rows])
    np.testing.assert_allclose(shown, chances, rtol=1e-9)
    # Age and sex decide, nearly: of records that nobody learnt from most are right.
    right = [row["predicted_ill"] == one for row, one in zip(rows, new["ill"], strict=True)]
    assert np.mean(right) > 0.7


def test_intervals_are_beside_what_is_expected(tmp_path):
    scale = UnitScaling(np.array([50.0]), np.array([50.0]), None)
    how = Scores.linear(
        *(("age",), ("age",), scale, np.array([[3.0, 10.0]]), "identity"),
        covariance=np.diag([0.25, 1.0]),
        silence="",
    )
    columns = {
        "age": {"kind": "number", "bounds": (0.0, 100.0)},
        "days": {"kind": "number", "bounds": (0.0, 99.0)},
    }
    schema = Schema.model_validate({"columns": columns, "target": "days"})
    CERTIFICATE.write(tmp_path, {"guarantees": [], "unit": "record", "entropy": "os"})
    save_model(tmp_path, {}, *fitted_document("glm", {}, schema, how))
    (tmp_path / "new.csv").write_text("age\n100\n50\n")
    done = predict(tmp_path, tmp_path / "new.csv", "--interval", "--level", "0.9")
    assert done.exit_code == 0, done.output
    head, *lines = done.stdout.splitlines()
    assert head == "age,predicted_days,interval_low,interval_high"
    found = np.array([line.split(",") for line in lines], float)
    reach = 1.6448536269514722 * np.sqrt([1.25, 1.0])
    middle = np.array([13.0, 10.0])
    wanted = np.stack([np.array([100, 50]), middle, middle - reach, middle + reach], axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.filterwarnings("always::unisono.ClippedValues")
def test_what_was_clipped_is_said_once(tmp_path, run):
    (tmp_path / "new.csv").write_text("age,sex\n130,f\n")
    done = predict(run, tmp_path / "new.csv", "--proba")
    assert done.exit_code == 0, done.output
    assert done.stderr.count("lie outside the public bounds") == 1


def test_a_file_without_records_is_refused_as_such(tmp_path, run):
    (tmp_path / "new.csv").write_text("age,sex\n")
    done = predict(run, tmp_path / "new.csv")
    assert done.exit_code == 2
    assert "holds no records: give at least one" in done.stderr


def test_only_columns_that_the_model_does_not_want_are_suggested(run):
    model = unisono.load(run)
    with pytest.raises(InvalidInput) as refused:
        model.predict([{"sex": "m", "agee": 3}])
    assert "did you mean 'agee'?" in str(refused.value)
    with pytest.raises(InvalidInput) as refused:
        model.predict([{"age": 3, "stage": 1}])
    assert "no column 'sex'" in str(refused.value)
    assert "did you mean 'age" not in str(refused.value)


def test_a_loaded_model_may_be_pickled(run):
    model = unisono.load(run)
    again = pickle.loads(pickle.dumps(model))
    record = {"age": 71, "sex": "m"}
    np.testing.assert_array_equal(again.predict_proba(record), model.predict_proba(record))
    assert again.summary() == model.summary()
    assert again.certificate == model.certificate


def test_a_result_is_self_contained(run):
    """The model needs neither the study file nor anything else beside its certificate."""
    fitted = json.loads((run / "result.json").read_text())["fitted"]
    assert fitted["format"] == "unisono-model-1"
    assert fitted["formula"] == "ill ~ age + sex"
    assert fitted["schema"]["columns"]["sex"]["values"] == ["f", "m"]
    assert fitted["prediction"]["labels"] == ["no", "yes"]
    assert len(fitted["prediction"]["shift"]) == 2
    (run / "study.toml").rename(run / "elsewhere.toml")
    try:
        assert unisono.load(run).predict({"age": 99, "sex": "m"}).tolist() == ["yes"]
    finally:
        (run / "elsewhere.toml").rename(run / "study.toml")


def test_records_without_what_is_needed_stay_empty(run, tmp_path):
    (tmp_path / "new.csv").write_text("age,sex\n10,f\n,m\n90,other\n99,m\n")
    done = predict(run, tmp_path / "new.csv")
    assert done.exit_code == 0, done.output
    said = [line.split(",")[-1] for line in done.stdout.splitlines()]
    assert said == ["predicted_ill", "no", "", "", "yes"]
    assert "2 of 4 records have no prediction" in done.stderr
    found = json.loads(predict(run, tmp_path / "new.csv", "--json").stdout)
    assert found["columns"] == {"predicted_ill": ["no", None, None, "yes"]}
    assert (found["records"], found["empty"]) == (4, 2)


@pytest.mark.parametrize(
    ("header", "options", "words"),
    [
        ("agee,sex", (), "no column 'age', which this model predicts from"),
        ("age,sex,predicted_ill", (), "'predicted_ill' already"),
        ("age,sex", ("--times", "1"), "no survival"),
        ("age,sex", ("--interval",), "there are no intervals"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(run, tmp_path, header, options, words):
    cells = ["50", "m", "no"][: header.count(",") + 1]
    (tmp_path / "new.csv").write_text(f"{header}\n{','.join(cells)}\n")
    done = predict(run, tmp_path / "new.csv", *options)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "Traceback" not in done.output


def test_places_that_hold_no_result_are_explained(run, tmp_path):
    (tmp_path / "new.csv").write_text("age,sex\n10,f\n")
    done = predict(run.parent, tmp_path / "new.csv")
    assert done.exit_code == 2
    assert str(run) in done.stderr
    done = predict(run, tmp_path / "new.csv", "--output", tmp_path / "new.csv")
    assert done.exit_code == 2
    assert "choose another --output" in done.stderr
    assert (tmp_path / "new.csv").read_text() == "age,sex\n10,f\n"
