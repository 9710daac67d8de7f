"""Models on disk: what `unisono.load` reads, what it refuses, and how it reads new records."""

import hashlib
import json
import pickle

import numpy as np
import pytest

import unisono
from unisono.core.documents import ARRAYS, CERTIFICATE, RESULT
from unisono.data.scaling import UnitScaling
from unisono.data.schema import Schema
from unisono.errors import ClippedValues, InvalidInput
from unisono.models.fitted import INLINE, fitted_document, save_model
from unisono.models.prediction import HazardRatio, Layer, NearestCentre, Offset, Scores

COLUMNS = {
    "age": {"kind": "number", "bounds": (0.0, 100.0)},
    "dose": {"kind": "number", "bounds": (0.0, 10.0), "missing": "indicator", "fill": 0.0},
    "sex": {"kind": "category", "values": ("f", "m"), "missing": "f"},
    "smokes": {"kind": "true-false", "missing": "category"},
    "ill": {"kind": "category", "values": ("no", "yes")},
}
NAMES = ("age", "dose", "dose=(missing)", "sex=m", "smokes", "smokes=(missing)")
WEIGHTS = np.array([[2.0, -1.0, 0.5, 0.25, 1.0, -3.0, -0.5]])
ONE = {"age": 75, "dose": 2.5, "sex": "m", "smokes": "yes"}


def schema_of(**more):
    return Schema.model_validate({"columns": COLUMNS, "target": "ill", **more})


def scores(**more):
    scale = UnitScaling(np.zeros(6), np.array([100.0, 10.0, 1.0, 1.0, 1.0, 1.0]), None)
    said = {"labels": ("no", "yes"), **more}
    link = said.pop("link", "logistic")
    return Scores.linear(tuple(COLUMNS)[:-1], NAMES, scale, WEIGHTS, link, **said)


def saved(folder, prediction, model="glm", schema=None, result=None):
    folder.mkdir(exist_ok=True)
    lines = [{"viewer": "final-model", "relation": "zero-out", "epsilon": 1.5, "delta": 1e-6}]
    CERTIFICATE.write(folder, {"guarantees": lines, "unit": "record", "entropy": "os"})
    document, arrays = fitted_document(model, {}, schema or schema_of(), prediction)
    save_model(folder, result or {"title": "a test"}, document, arrays)
    return folder


@pytest.fixture
def folder(tmp_path):
    return saved(tmp_path / "test.run", scores())


def edited(folder, change):
    document = json.loads((folder / RESULT.file).read_text())
    change(document)
    (folder / RESULT.file).write_text(json.dumps(document))
    return folder


# ------------------------------------------------------------- new records


def score_of(age, dose, male, smokes):
    """By hand: 2 age/100 - dose/10 or what stands in for it, and so on."""
    lacks_dose, lacks_smokes = dose is None, smokes is None
    return (
        2 * min(max(age / 100, -1), 1)
        - (0 if lacks_dose else dose / 10)
        + 0.5 * lacks_dose
        + 0.25 * male
        + (0 if lacks_smokes else smokes)
        - 3 * lacks_smokes
        - 0.5
    )


def test_missing_cells_follow_the_rule_of_their_column(folder):
    model = unisono.load(folder)
    records = [
        ONE,
        {"age": 75, "dose": None, "sex": "", "smokes": None},
        {"age": 20, "dose": "what?", "sex": "x", "smokes": "no"},
    ]
    wanted = [score_of(75, 2.5, 1, 1), score_of(75, None, 0, None), score_of(20, None, 0, 0)]
    np.testing.assert_allclose(model.decision_function(records), wanted, rtol=1e-12)
    assert list(model.predict(records)) == ["yes", "no", "yes"]
    chances = model.predict_proba(records)
    np.testing.assert_allclose(chances[:, 1], 1 / (1 + np.exp(-np.array(wanted))))


def test_a_record_that_misses_what_it_needs_is_refused_or_empty(folder):
    model = unisono.load(folder)
    frame = {name: [own, own] for name, own in ONE.items()} | {"age": ["75", ""]}
    with pytest.raises(InvalidInput, match=r"1 of 2 records cannot be predicted: record 2 .*'age'"):
        model.predict(frame)
    assert list(model.predict(frame, incomplete="empty")) == ["yes", None]
    assert np.isnan(model.predict_proba(frame, incomplete="empty")).tolist() == [[0, 0], [1, 1]]


def test_numbers_outside_the_bounds_count_as_their_ends(folder):
    model = unisono.load(folder)
    with pytest.warns(ClippedValues, match="'age' lie outside the public bounds 0 to 100"):
        beyond = model.decision_function(ONE | {"age": 250})
    np.testing.assert_allclose(beyond, score_of(100, 2.5, 1, 1))


@pytest.mark.parametrize("kind", ["pandas", "polars", "csv", "parquet", "record", "array"])
def test_records_come_in_many_forms(folder, tmp_path, kind):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": ["a", "b"], **{n: [own, own] for n, own in ONE.items()}})
    given, more = frame, {}
    if kind == "polars":
        given = pytest.importorskip("polars").DataFrame(frame.to_dict("list"))
    elif kind == "csv":
        given = tmp_path / "new.csv"
        frame.to_csv(given, index=False)
    elif kind == "parquet":
        given = str(tmp_path / "new.parquet")
        frame.to_parquet(given)
    elif kind == "record":
        given = ONE
    elif kind == "array":
        given, more = frame.to_numpy(object), {"columns": list(frame)}
    said = unisono.load(folder).decision_function(given, **more)
    np.testing.assert_allclose(said, score_of(75, 2.5, 1, 1))


def test_files_are_read_as_the_study_says(tmp_path):
    schema = schema_of(csv={"separator": ";", "decimal": ",", "quote": '"', "encoding": "latin-1"})
    folder = saved(tmp_path / "test.run", scores(), schema=schema)
    (tmp_path / "new.csv").write_text("age;dose;sex;smokes\n75;2,5;m;yes\n", encoding="latin-1")
    said = unisono.load(folder).decision_function(tmp_path / "new.csv")
    np.testing.assert_allclose(said, score_of(75, 2.5, 1, 1))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"age": [1], "dose": [1], "sex": ["m"]}, "no column 'smokes', which this model"),
        (ONE | {"age": ["old"]}, "no cell of 'age' in .* can be read: the model takes numbers"),
        (np.zeros((2, 4)), "array of 4 columns without names"),
        (np.zeros(4), r"array of shape \(4,\)"),
        ("new.txt", "only .csv and .parquet files"),
        ("new.csv", "no such file"),
    ],
)
def test_records_that_do_not_fit_are_refused(folder, tmp_path, monkeypatch, given, words):
    monkeypatch.chdir(tmp_path)
    if isinstance(given, dict):
        given = {name: own if isinstance(own, list) else [own] for name, own in given.items()}
    with pytest.raises(InvalidInput, match=words):
        unisono.load(folder).predict(given)


def test_unnamed_columns_are_known_by_their_places(tmp_path):
    columns = {f"x{n}": {"kind": "number", "bounds": (0.0, 1.0)} for n in range(2)}
    scale = UnitScaling(np.zeros(2), np.ones(2), None)
    how = Scores.linear(("x0", "x1"), ("x0", "x1"), scale, np.array([[1.0, 2.0, 3.0]]), "identity")
    schema = Schema.model_validate({"columns": columns})
    model = unisono.load(saved(tmp_path / "m", how, schema=schema))
    assert model.predict([[0.5, 0.25]]).tolist() == [4.0]
    assert not hasattr(model, "classes_")
    with pytest.raises(InvalidInput, match="3 columns where 2 belong"):
        model.predict([[1, 2, 3]])


# ------------------------------------------------------------- other forms


def test_exposure_is_an_offset_of_its_logarithm_and_may_be_left_out(tmp_path):
    columns = COLUMNS | {"days": {"kind": "number", "bounds": (0.0, 1000.0)}}
    schema = Schema.model_validate({"columns": columns, "target": "ill"})
    exposed = scores(link="exp", labels=(), offset=Offset("days", True))
    model = unisono.load(saved(tmp_path / "a", exposed, schema=schema))
    rate = np.exp(score_of(75, 2.5, 1, 1))
    np.testing.assert_allclose(model.predict(ONE), rate)
    np.testing.assert_allclose(model.predict(ONE | {"days": 30}), 30 * rate)
    np.testing.assert_allclose(model.predict(ONE, offset=[np.log(30)]), 30 * rate)
    with pytest.raises(InvalidInput, match="its offset"):
        model.predict(ONE | {"days": 0})
    plain = scores(link="identity", labels=(), offset=Offset("days", False))
    other = unisono.load(saved(tmp_path / "b", plain, schema=schema))
    with pytest.raises(InvalidInput, match="'days', which is added to every score"):
        other.predict(ONE)


def test_intervals_hold_what_a_normal_score_says(tmp_path):
    covariance = np.diag([0.04, 0, 0, 0, 0, 0, 0.01])
    model = unisono.load(saved(tmp_path / "a", scores(covariance=covariance, silence="")))
    middle, spread = score_of(75, 2.5, 1, 1), np.sqrt(0.04 * 0.75**2 + 0.01)
    ends = 1 / (1 + np.exp(-(middle + 1.959963985 * spread * np.array([-1, 1]))))
    np.testing.assert_allclose(model.predict_interval(ONE)[0], ends)
    number = scores(
        link="identity", labels=(), covariance=covariance, silence="", half=10.0, spread=5.0
    )
    model = unisono.load(saved(tmp_path / "b", number))
    reach = 1.959963985 * np.sqrt(spread**2 + 0.5**2) * 10
    np.testing.assert_allclose(np.diff(model.predict_interval(ONE, new=True)), 2 * reach)
    with pytest.raises(InvalidInput, match=r"level = 1\.0"):
        model.predict_interval(ONE, 1.0)


def test_hazards_predict_ratios_and_survival(tmp_path):
    columns = {
        "age": {"kind": "number", "bounds": (0.0, 100.0)},
        "months": {"kind": "number", "bounds": (0.0, 24.0)},
    }
    how = HazardRatio(
        *(("age",), ("age",)),
        *(np.array([0.0]), np.array([100.0]), np.array([50.0])),
        *(np.array([0.02]), np.array([[1e-4]])),
        *(np.array([0.0, 12.0, 24.0]), np.array([0.01, 0.02])),
    )
    schema = Schema.model_validate({"columns": columns, "target": "months"})
    model = unisono.load(saved(tmp_path / "a", how, "hazards", schema))
    ratio = np.exp(0.02 * 25)
    np.testing.assert_allclose(model.predict({"age": 75}), ratio)
    wanted = np.exp(-ratio * np.array([0.0, 0.06, 0.12 + 0.02 * 6]))
    np.testing.assert_allclose(model.predict_survival({"age": 75}, [0, 6, 18])[0], wanted)
    with pytest.raises(InvalidInput, match="beyond 24"):
        model.predict_survival({"age": 75}, [25])
    with pytest.raises(InvalidInput, match="no scores"):
        model.decision_function({"age": 75})


def test_the_nearest_group_in_units_of_ranges(tmp_path):
    columns = {name: COLUMNS[name] | {"missing": None, "fill": None} for name in ("age", "dose")}
    how = NearestCentre(
        ("age", "dose"), ("age", "dose"), np.array([[20.0, 1.0], [30.0, 9.0]]), np.array([100, 10])
    )
    schema = Schema.model_validate({"columns": columns})
    model = unisono.load(saved(tmp_path / "a", how, "k-means", schema))
    assert list(model.predict({"age": [30, 30], "dose": [2, 8]})) == ["group 1", "group 2"]


# ------------------------------------------------------------- what is on disk


def test_larger_arrays_lie_beside_and_belong_to_the_result(tmp_path):
    generator = np.random.default_rng(0)
    layers = (
        Layer(generator.normal(size=(7, 400)).astype(np.float32), np.zeros(400, np.float32)),
        Layer(generator.normal(size=(400, 2)).astype(np.float32), np.zeros(2, np.float32)),
    )
    assert layers[0].weights.size > INLINE
    base = scores()
    how = Scores(
        *(base.inputs, base.names, base.shift, base.scale, layers, "softmax"),
        labels=("no", "yes"),
        activation="relu",
    )
    folder = saved(tmp_path / "a", how, "network")
    row = np.array([0.75, 0.25, 0, 1, 1, 0, 1])
    inner = np.maximum(row @ layers[0].weights.astype(float), 0) @ layers[1].weights.astype(float)
    model = unisono.load(folder)
    np.testing.assert_allclose(model.decision_function(ONE), inner[1] - inner[0], rtol=1e-12)
    with np.load(folder / ARRAYS, allow_pickle=False) as file:
        assert len(file.files) == 1
    (folder / ARRAYS).write_bytes((folder / ARRAYS).read_bytes() + b" ")
    with pytest.raises(InvalidInput, match="not the one that belongs to it"):
        unisono.load(folder)
    (folder / ARRAYS).unlink()
    with pytest.raises(InvalidInput, match="is missing"):
        unisono.load(folder)


class Trap:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_no_code_of_a_file_is_run(folder, tmp_path):
    trap = tmp_path / "sprung"
    (folder / RESULT.file).write_bytes(pickle.dumps(Trap(trap)))
    with pytest.raises(InvalidInput, match="damaged"):
        unisono.load(folder)
    saved(folder, scores())
    np.savez(folder / ARRAYS, model=np.array([Trap(trap)], object))
    content = (folder / ARRAYS).read_bytes()

    def named(document):
        digest = hashlib.sha256(content).hexdigest()
        document["fitted"]["arrays"] = {"file": ARRAYS, "sha256": digest}
        document["fitted"]["prediction"]["shift"] = {"array": "model"}

    with pytest.raises(InvalidInput, match="no plain arrays"):
        unisono.load(edited(folder, named))
    assert not trap.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("fitted"), "earlier version.*run it again; what was spent stays spent"),
        (lambda d: d["fitted"].update(format="unisono-model-9"), "'unisono-model-9'.*run the"),
        (lambda d: d.update(format="unisono-result-1"), "unisono-result-1"),
        (lambda d: d.update(failed="nobody answered"), "its run failed: nobody answered"),
        (lambda d: d["fitted"]["certificate"].update(sha256="0"), "not the one of this result"),
        (lambda d: d["fitted"]["certificate"].update(fields=[]), "not the one of this result"),
        (lambda d: d["fitted"].pop("certificate"), "not the one of this result"),
        (lambda d: d["fitted"].update(model="magic"), "damaged"),
        (lambda d: d["fitted"].update(model="k-means"), "damaged"),
        (lambda d: d["fitted"]["prediction"].update(shift=[0.0]), "damaged"),
        (lambda d: d["fitted"]["prediction"].update(layers=3), "damaged"),
        (lambda d: d["fitted"]["prediction"].update(link="magic"), "damaged"),
        (lambda d: d["fitted"]["prediction"].update(scale=[0.0] * 6), "damaged"),
        (lambda d: d["fitted"]["prediction"].update(inputs=["weight"]), "damaged"),
        (lambda d: d["fitted"]["prediction"]["inputs"].pop(), "damaged"),
        (lambda d: d["fitted"]["schema"]["columns"]["age"].update(kind="magic"), "damaged"),
        (lambda d: d["fitted"].pop("prediction"), "damaged"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_remedy(folder, change, words):
    with pytest.raises(InvalidInput, match=words):
        unisono.load(edited(folder, change))


def test_another_certificate_is_refused(folder):
    certificate = json.loads((folder / CERTIFICATE.file).read_text())
    certificate["guarantees"][0]["epsilon"] = 0.1
    (folder / CERTIFICATE.file).write_text(json.dumps(certificate))
    with pytest.raises(InvalidInput, match="not the one of this result"):
        unisono.load(folder)


def test_a_folder_without_a_model_is_named(tmp_path, folder):
    with pytest.raises(InvalidInput, match="does not exist"):
        unisono.load(tmp_path / "other")
    with pytest.raises(InvalidInput, match=r"holds no result\.json"):
        unisono.load(tmp_path)
    (folder / CERTIFICATE.file).unlink()
    with pytest.raises(InvalidInput, match="is missing"):
        unisono.load(folder / RESULT.file)


def test_the_summary_says_what_it_needs_and_promises(folder):
    model = unisono.load(folder / RESULT.file)
    said = model.summary()
    for words in (
        "ill ~ age + dose + sex + smokes",
        "age: numbers, 0 to 100",
        "classes    no, yes",
    ):
        assert words in said
    assert "epsilon 1.5 at delta 1e-06 for one record, zero-out" in said
    assert model.certificate["guarantees"][0]["epsilon"] == 1.5
    assert list(model.feature_names_in_) == list(COLUMNS)[:-1]
    assert repr(model).startswith("<FittedModel glm of 'a test'")
