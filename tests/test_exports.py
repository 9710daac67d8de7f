"""Models for other programs: JSON, scikit-learn and ONNX predict the same; dp-accounting agrees.

Models are written down by hand, so that every kind of column and every link is met.
"""

import json
import math
import pickle
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import unisono
from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli import app
from unisono.core.documents import CERTIFICATE
from unisono.core.events import (
    DiscreteGaussian,
    Event,
    Gaussian,
    Laplace,
    NoNoise,
    Poisson,
    RandomizedResponse,
    Selection,
    bounded_sum,
    composed_to_json,
)
from unisono.core.trust import Relation
from unisono.data.encoding import Frame
from unisono.data.schema import Schema
from unisono.data.sites import SITE, site_column
from unisono.errors import InvalidInput
from unisono.exports import onnx_graph, plain_json, scikit_learn, statement
from unisono.exports.dp_events import dp_events
from unisono.models.average import Average
from unisono.models.fitted import fitted_document, load, save_model
from unisono.models.prediction import HazardRatio, Layer, NearestCentre, Offset, Scores

pandas = pytest.importorskip("pandas")
PAGE = Path(__file__).parents[1] / "docs" / "use-the-model.md"
PLAIN = {
    "age": {"kind": "number", "bounds": (0.0, 100.0)},
    "dose": {"kind": "number", "bounds": (0.0, 10.0), "missing": "indicator", "fill": 0.0},
    "size": {"kind": "number", "bounds": (1.0, 50.0), "transform": "log1p", "missing": 7.0},
    "sex": {"kind": "category", "values": ("f", "m")},
    "ward": {"kind": "category", "values": ("a", "b", "c"), "missing": "category"},
    "stage": {"kind": "ordinal", "values": ("I", "II", "III")},
}
CURVED = PLAIN | {
    "pulse": {"kind": "number", "bounds": (20.0, 220.0), "bins": (60.0, 100.0)},
    "sodium": {"kind": "number", "bounds": (100.0, 180.0), "knots": (120.0, 140.0, 150.0, 160.0)},
    "weight": {"kind": "number", "bounds": (1.0, 200.0), "power": 1.5},
    "smokes": {"kind": "true-false", "missing": False},
    "city": {"kind": "category", "values": ("x", "y"), "other": True},
}
TARGET = {"ill": {"kind": "category", "values": ("no", "yes")}}
GENERATOR = np.random.default_rng(3)


def records(columns, number=40):
    """Cells, some of them missing or beyond the bounds."""
    made = {}
    for name, own in columns.items():
        if own["kind"] == "number":
            low, high = own["bounds"]
            cells = list(GENERATOR.uniform(low - 1, high + 20, number))
        elif own["kind"] == "true-false":
            cells = list(GENERATOR.choice(["yes", "no", "TRUE"], number))
        else:
            more = ("z",) if own.get("other") else ()
            cells = list(GENERATOR.choice([*own["values"], *more], number))
        if own.get("missing") is not None:
            cells[::7] = [None] * len(cells[::7])
        made[name] = cells
    made["size"][1] = 3.0
    return made


def scores(schema, outputs=1, hidden=(), **more):
    """A model of random weights over all features of a schema."""
    frame = Frame(schema.model_copy(update={"target": None}))
    scale = frame.scaling(more.pop("centred", "away from zero"))
    sizes = [len(frame.names) + 1, *hidden, outputs]
    layers = tuple(
        Layer(GENERATOR.normal(size=pair), GENERATOR.normal(size=pair[1]) * bool(hidden))
        for pair in pairwise(sizes)
    )
    said = {"labels": ("no", "yes"), "link": "logistic", **more}
    return Scores(*(tuple(schema.columns), frame.names, scale.shift, scale.scale, layers), **said)


def spread(width):
    factor = GENERATOR.normal(size=(width, width)) / 5
    return factor @ factor.T


def certificate(history=None, relation=Relation.ZERO_OUT, delta=1e-5):
    history = history or Event(Gaussian(4.0), bounded_sum(l2=1.0)) * 10
    epsilon = ACCOUNTANT.epsilon(history, relation, delta)
    line = {
        "viewer": "final-model",
        "relation": str(relation),
        "epsilon": "inf" if math.isinf(epsilon) else epsilon,
        "delta": delta,
    }
    return {
        "study": "0" * 64,
        "algorithm": "some algorithm",
        "settings": {},
        "trust": "local",
        "parties": 2,
        "minimum_parties": 2,
        "colluders": 0,
        "unit": "record",
        "guarantees": [line],
        "events": {"final-model": composed_to_json(history)},
        "declarations": {"records_per_person": 1},
        "entropy": "os",
        "versions": {"unisono": "0"},
    }


def saved(folder, how, columns=PLAIN, model="glm", **stated):
    folder.mkdir(exist_ok=True)
    CERTIFICATE.write(folder, certificate(**stated))
    schema = Schema.model_validate({"columns": {**columns, **TARGET}, "target": "ill"})
    document, arrays = fitted_document(model, {}, schema, how)
    save_model(folder, {"title": "A <test>", "note": "Mind the gap."}, document, arrays)
    return load(folder)


def schema_of(columns, **more):
    return Schema.model_validate({"columns": columns, **more})


def cases():
    plain, curved = schema_of(PLAIN), schema_of(CURVED)
    width = len(Frame(plain).names) + 1
    number = {"labels": (), "link": "identity", "half": 3.0, "centre": 10.0}
    network = {"link": "softmax", "hidden": (5, 4)}
    yield "logistic", plain, scores(plain, divided=True, centred="none")
    yield "softmax", plain, scores(plain, 3, link="softmax", labels=("a", "b", "c"), divided=True)
    yield "sign", plain, scores(plain, link="sign", labels=(0, 1), divided=True)
    yield "identity", plain, scores(plain, **number)
    yield "exp", plain, scores(plain, labels=(), link="exp")
    yield "relu network", plain, scores(plain, 2, activation="relu", **network)
    yield (
        "tanh network",
        plain,
        scores(plain, 3, labels=("a", "b", "c"), activation="tanh", **network),
    )
    yield "network of numbers", plain, scores(plain, hidden=(6,), activation="sigmoid", **number)
    averaged = {"covariance": spread(width), "averaged": True, "silence": ""}
    yield "averaged", plain, scores(plain, **averaged)
    yield "probit", plain, scores(plain, link="probit", **averaged)
    yield "curves", curved, scores(curved, divided=True)
    without = schema_of({name: own for name, own in PLAIN.items() if name != "age"})
    late = scores(without, labels=(), link="exp", offset=Offset("age", True))
    yield "exposure", plain, late
    yield "offset", plain, scores(without, **number, offset=Offset("age", False))
    both = [scores(plain, divided=True), scores(plain, 2, activation="tanh", **network)]
    yield "average of classes", plain, Average.of([*both, scores(plain, link="probit", **averaged)])
    lines = [scores(plain, **number), scores(plain, hidden=(6,), activation="relu", **number)]
    yield "average of numbers", plain, Average.of(lines)
    pairs = schema_of(PLAIN, interactions=(("age", "ward"), ("dose", "sex")))
    yield "products", pairs, scores(pairs)
    for activation in ("softplus", "elu", "selu", "gelu", "identity"):
        yield activation, plain, scores(plain, hidden=(5,), activation=activation, **number)


CASES = {name: (schema, how) for name, schema, how in cases()}


def model_of(name, folder):
    schema, how = CASES[name]
    columns = {key: own.model_dump() for key, own in schema.columns.items()}
    folder.mkdir(exist_ok=True)
    CERTIFICATE.write(folder, certificate())
    whole = Schema.model_validate(
        {"columns": {**columns, **TARGET}, "target": "ill", "interactions": schema.interactions}
    )
    kind = "average" if isinstance(how, Average) else "glm"
    document, arrays = fitted_document(kind, {}, whole, how)
    save_model(folder, {"title": name}, document, arrays)
    return load(folder), records(CURVED if "pulse" in columns else PLAIN)


def said_by(model, cells):
    """Labels, or nothing, and numbers (n, k)."""
    if not model.prediction.classes:
        return None, model.predict(cells)[:, None]
    numbers = (
        model.decision_function(cells)[:, None]
        if getattr(model.prediction, "link", "") == "sign"
        else model.predict_proba(cells)
    )
    return list(model.predict(cells)), numbers


# ------------------------------------------------------------- plain JSON


def page_scorer():
    """The scorer of the documentation."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    [block] = [one for one in blocks if "def predict(" in one]
    functions, _, more = block.partition("\n# --- try")
    average = more.partition("\n# --- an average")[2].partition("\n")[2].partition("\nprint")[0]
    lines = [line for line in functions.splitlines() if line.strip() and '"""' not in line]
    assert len(lines) <= 41
    space = {}
    exec(compile(f"{functions}\n{average}", "docs", "exec"), space)

    def scored(model, record):
        mean = "members" in model["prediction"]
        return space["predict_average" if mean else "predict"](model, record)

    return scored


@pytest.mark.filterwarnings("ignore::unisono.ClippedValues")
@pytest.mark.parametrize("name", [n for n in CASES if n not in ("elu", "selu", "gelu")])
def test_the_scorer_of_the_page_agrees(name, tmp_path):
    model, cells = model_of(name, tmp_path / "m")
    document = json.loads(plain_json.as_text(model))
    predict = page_scorer()
    _, numbers = said_by(model, cells)
    for place in range(len(numbers)):
        found = predict(document, {key: own[place] for key, own in cells.items()})
        np.testing.assert_allclose(found, numbers[place], rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore::unisono.ClippedValues")
def test_dates_are_numbers_in_json_and_refused_elsewhere(tmp_path):
    columns = {
        "age": PLAIN["age"],
        "came": {
            "kind": "date",
            "bounds": ("2010-01-01", "2024-12-31"),
            "missing": "indicator",
            "fill": "2010-01-01",
        },
        "born": {
            "kind": "date",
            "bounds": ("1920-01-01", "2000-12-31"),
            "format": "%d.%m.%Y",
            "age_at": "2020-07-01",
        },
    }
    model = saved(tmp_path / "m", scores(schema_of(columns)), columns)
    cells = {
        "age": [20.0, 50.0, 70.0, 90.0],
        "came": ["2012-03-04", None, "2031-01-01T12:30:00+02:00", "2020-02-29 23:00"],
        "born": ["01.02.1950", "31.12.1999", "05.06.1910", "17.08.1977"],
    }
    document, predict = json.loads(plain_json.as_text(model)), page_scorer()
    rows = [{name: own[place] for name, own in cells.items()} for place in range(4)]
    found = [predict(document, row) for row in rows]
    np.testing.assert_allclose(found, model.predict_proba(cells), rtol=1e-9)
    pytest.importorskip("onnx")
    for made_of in (scikit_learn.pipeline, onnx_graph.as_bytes):
        with pytest.raises(InvalidInput, match=r"'came' holds dates.*export to json, or"):
            made_of(model)
    columns["came"]["parts"] = ("year", "month")
    parted = saved(tmp_path / "n", scores(schema_of(columns)), columns)
    with pytest.raises(InvalidInput, match="predict with unisono"):
        plain_json.as_text(parted)


# ------------------------------------------------------------- scikit-learn


SKLEARN = (
    *("logistic", "softmax", "sign", "identity", "exp", "averaged"),
    *("relu network", "tanh network", "network of numbers", "average of numbers"),
)


@pytest.mark.filterwarnings("ignore::unisono.ClippedValues")
@pytest.mark.parametrize("name", SKLEARN)
def test_scikit_learn_predicts_the_same(name, tmp_path):
    model, cells = model_of(name, tmp_path / "m")
    content = scikit_learn.as_bytes(model)
    assert b"unisono" not in content
    pipeline = pickle.loads(content)
    frame = pandas.DataFrame(
        {key: [np.nan if c is None else c for c in own] for key, own in cells.items()}
    )
    labels, numbers = said_by(model, cells)
    if labels is None:
        np.testing.assert_allclose(pipeline.predict(frame), numbers[:, 0], rtol=1e-6)
        return
    assert list(pipeline.predict(frame)) == labels
    if hasattr(pipeline, "predict_proba"):
        np.testing.assert_allclose(pipeline.predict_proba(frame), numbers, atol=1e-6)
    else:  # averaged chances have no part: the classes are the same, and there is no other number
        assert name in ("sign", "averaged")


@pytest.mark.parametrize(
    "name", ["curves", "products", "softplus", "exposure", "offset", "average of classes"]
)
def test_what_scikit_learn_has_no_part_for_is_refused(name, tmp_path):
    with pytest.raises(InvalidInput, match="export to json or onnx"):
        scikit_learn.pipeline(model_of(name, tmp_path / "m")[0])


def test_effects_of_parties_in_every_export(tmp_path):
    """The column of parties is a category for other programs."""
    known = schema_of(PLAIN | TARGET).columns
    sites = site_column(("north", "south", "west"), (40, 50, 60))
    columns = {"age": known["age"], SITE: sites}
    how = scores(Schema.model_construct(columns=columns, target=None))
    whole = Schema.model_construct(columns={**columns, "ill": known["ill"]}, target="ill")
    (tmp_path / "m").mkdir()
    CERTIFICATE.write(tmp_path / "m", certificate())
    document, arrays = fitted_document("glm", {}, whole, how)
    save_model(tmp_path / "m", {"title": "sites"}, document, arrays)
    model = load(tmp_path / "m")
    cells = {"age": [10.0, 50.0, 90.0], SITE: ["north", "west", "south"]}
    wanted = model.predict_proba(cells)
    plain, predict = json.loads(plain_json.as_text(model)), page_scorer()
    rows = [{name: own[place] for name, own in cells.items()} for place in range(3)]
    np.testing.assert_allclose([predict(plain, row) for row in rows], wanted, rtol=1e-9)
    np.testing.assert_allclose(run_onnx(model, cells)[-1], wanted, atol=1e-6)
    pipeline = pickle.loads(scikit_learn.as_bytes(model))
    found = pipeline.predict_proba(pandas.DataFrame(cells))
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_groups_in_scikit_learn_and_onnx(tmp_path):
    columns = {n: PLAIN[n] | {"missing": None, "fill": None} for n in ("age", "dose")}
    ranges = np.array([100.0, 10.0])
    centres = GENERATOR.uniform(0, 1, (4, 2)) * ranges
    how = NearestCentre(("age", "dose"), ("age", "dose"), centres, ranges)
    model = saved(tmp_path / "m", how, columns, "k-means")
    cells = {"age": GENERATOR.uniform(0, 100, 30), "dose": GENERATOR.uniform(0, 10, 30)}
    wanted = list(model.predict(cells))
    found = scikit_learn.pipeline(model).predict(pandas.DataFrame(cells))
    assert [f"group {place + 1}" for place in found] == wanted
    assert run_onnx(model, cells)[0].tolist() == wanted


# ------------------------------------------------------------- ONNX


def run_onnx(model, cells):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    session = runtime.InferenceSession(onnx_graph.as_bytes(model))
    feed = {}
    for one in session.get_inputs():
        own = cells[one.name]
        if "double" in one.type:
            feed[one.name] = np.array([np.nan if c is None else c for c in own], float)[:, None]
        else:
            feed[one.name] = np.array([["" if c is None else str(c)] for c in own], object)
    return session.run(None, feed)


@pytest.mark.filterwarnings("ignore::unisono.ClippedValues")
@pytest.mark.parametrize("name", CASES)
def test_onnx_predicts_the_same(name, tmp_path):
    model, cells = model_of(name, tmp_path / "m")
    labels, numbers = said_by(model, cells)
    if name == "offset":
        with pytest.raises(InvalidInput, match="export to json"):
            run_onnx(model, cells)
        return
    if name == "exposure":  # the graph is for one unit of it
        del cells["age"]
        labels, numbers = said_by(model, cells)
    found = run_onnx(model, cells)
    np.testing.assert_allclose(found[-1], numbers, rtol=1e-6, atol=1e-6)
    if labels is not None:
        assert found[0].tolist() == labels


def test_onnx_has_no_answer_for_a_record_that_misses_what_it_needs(tmp_path):
    model, cells = model_of("logistic", tmp_path / "m")
    cells["age"][3], cells["sex"][5] = None, "other"
    chances = run_onnx(model, cells)[-1]
    assert np.isnan(chances).any(axis=1).nonzero()[0].tolist() == [3, 5]


def test_hazards_and_balls_in_onnx(tmp_path):
    ones = np.ones(1)
    how = HazardRatio(
        *(("age",), ("age",), 0 * ones, 100 * ones, 50 * ones, 0.02 * ones, np.eye(1)),
        *(np.array([0.0, 12.0]), np.array([0.01])),
    )
    model = saved(tmp_path / "a", how, {"age": PLAIN["age"]}, "hazards")
    cells = {"age": [10.0, 90.0]}
    np.testing.assert_allclose(run_onnx(model, cells)[0][:, 0], model.predict(cells))
    schema = schema_of({"age": PLAIN["age"]})
    for divided in (True, False):
        ball = scores(schema, norm=20.0, divided=divided)
        model = saved(tmp_path / f"b{divided}", ball, {"age": PLAIN["age"]})
        np.testing.assert_allclose(run_onnx(model, cells)[-1], model.predict_proba(cells))
    late = scores(schema, labels=(), link="identity", offset=Offset("age", False))
    with pytest.raises(InvalidInput, match="offset"):
        onnx_graph.graph(saved(tmp_path / "c", late, {"age": PLAIN["age"]}))


# ------------------------------------------------------------- events


def made(document):
    """As the page shows it."""
    import dp_accounting

    said = {key: inner(value) for key, value in document.items() if key != "class"}
    return getattr(dp_accounting.dp_event, document["class"])(**said)


def inner(value):
    if isinstance(value, dict):
        return made(value)
    return [made(one) for one in value] if isinstance(value, list) else value


def recomputed(document):
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.privacy_accountant import NeighboringRelation

    own = document["viewers"]["final-model"]
    accountant = PLDAccountant(NeighboringRelation[document["neighboring_relation"]])
    accountant.compose(made(own["event"]))
    return accountant.get_epsilon(own["delta_for_events"]) + own["epsilon_added"]


SUM = bounded_sum(l1=1.0, l2=1.0, linf=1.0)
HISTORIES = {
    "gaussian": Event(Gaussian(4.0), SUM) * 10,
    "shares": Event(Gaussian(4.0, gap=1e-9, slack=1e-4), SUM) * 10,
    "dp-sgd": Event(Gaussian(1.2), SUM, Poisson(0.02)) * 200,
    "laplace": Event(Laplace(4.0), SUM) * 5,
    "discrete laplace": Event(Laplace(4.0, grid=0.25), SUM) * 5,
    "response": Event(RandomizedResponse(0.5), SUM) * 4,
    "selection": Event(Selection(3.0), SUM) * 4,
    "several": Event(Gaussian(4.0), SUM) * 3 + Event(Laplace(6.0), SUM) * 2,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HISTORIES)
def test_another_accountant_finds_our_epsilon(name, tmp_path):
    """Within 1 %; both are upper bounds."""
    schema = schema_of(PLAIN)
    model = saved(tmp_path / "m", scores(schema), history=HISTORIES[name])
    document = dp_events(model)
    ours = document["viewers"]["final-model"]["epsilon"]
    assert recomputed(document) == pytest.approx(ours, rel=0.01)


@pytest.mark.filterwarnings("ignore")
def test_distances_between_neighbours_are_counted_in(tmp_path):
    schema = schema_of(PLAIN)
    model = saved(
        tmp_path / "m",
        scores(schema),
        history=Event(Gaussian(4.0), SUM) * 10,
        relation=Relation.REPLACE_ONE,
    )
    document = dp_events(model)
    assert document["relation"] == "replace-one"
    ours = document["viewers"]["final-model"]["epsilon"]
    assert recomputed(document) == pytest.approx(ours, rel=0.01)


@pytest.mark.parametrize(
    ("event", "relation", "words"),
    [
        (Event(Gaussian(2.0), SUM, Poisson(0.1)), Relation.REPLACE_ONE, "--relation zero-out"),
        (Event(DiscreteGaussian(9.0, 1.0, 1), SUM), Relation.ZERO_OUT, "no pair of distributions"),
    ],
)
def test_events_without_counterparts_are_refused(event, relation, words, tmp_path):
    how = scores(schema_of(PLAIN))
    model = saved(tmp_path / "m", how, history=event * 3, relation=relation)
    with pytest.raises(InvalidInput, match=words):
        dp_events(model)


def test_what_discloses_is_no_private_event(tmp_path):
    how = scores(schema_of(PLAIN))
    model = saved(tmp_path / "m", how, history=Event(NoNoise(), SUM) * 1)
    [part] = dp_events(model)["viewers"]["final-model"]["event"]["events"]
    assert part["event"] == {"class": "NonPrivateDpEvent"}


# ------------------------------------------------------------- people and registries


def test_the_card_says_what_is_promised_and_what_not(tmp_path):
    model = saved(tmp_path / "m", scores(schema_of(PLAIN)))
    text = statement.as_markdown(model)
    titles = re.findall(r"^## (.*)$", text, re.M)
    assert titles == ["Purpose", "Data", "Privacy", "Quality", "Limits"]
    assert "A &lt;test>" in text
    epsilon = model.certificate["guarantees"][0]["epsilon"]
    assert f"epsilon {epsilon:.2f}"[:11] in text
    assert "Not measured: no evaluation of this model was found" in text
    assert "misses age or sex or stage has no prediction" in text
    page = statement.as_html(model)
    assert "A &lt;test&gt;" in page
    assert "<test>" not in page
    assert not re.search(r"(src|href)=", page)


def test_the_registry_has_every_section_and_names_what_is_open(tmp_path):
    model = saved(tmp_path / "m", scores(schema_of(PLAIN)))
    found = statement.registry(model)
    assert set(found) >= {
        *("deployment", "dp_flavor", "privacy_loss", "deployment_model"),
        *("accounting", "implementation"),
    }
    [stated] = found["privacy_loss"]["privacy_parameters"]
    assert stated["epsilon"] == model.certificate["guarantees"][0]["epsilon"]
    assert found["deployment_model"]["model_name"].startswith("local")
    assert found["deployment"]["data_curator"] == statement.TO_BE_SAID
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("to", ["json", "card", "registry", "dp-events", "sklearn", "onnx"])
def test_the_command_writes_a_file(to, tmp_path):
    if to == "onnx":
        pytest.importorskip("onnx")
    saved(tmp_path / "m", scores(schema_of(PLAIN)))
    done = CliRunner().invoke(app, ["export", str(tmp_path / "m"), "--to", to])
    assert done.exit_code == 0, done.output
    [word] = re.findall(rf"{to} is in (.*)", done.stdout)
    assert Path(word).stat().st_size > 100


def test_a_pipeline_predicts_where_unisono_is_not_installed(tmp_path):
    model, cells = model_of("logistic", tmp_path / "m")
    (tmp_path / "model.pkl").write_bytes(scikit_learn.as_bytes(model))
    frame = pandas.DataFrame(
        {key: [np.nan if c is None else c for c in own] for key, own in cells.items()}
    )
    frame.to_pickle(tmp_path / "frame.pkl")
    code = (
        "import sys; sys.modules['unisono'] = None\n"
        "import pickle, pandas\n"
        f"model = pickle.load(open({str(tmp_path / 'model.pkl')!r}, 'rb'))\n"
        f"print(len(model.predict(pandas.read_pickle({str(tmp_path / 'frame.pkl')!r}))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "40"


def test_what_predicts_nothing_has_a_card_and_no_graph(tmp_path):
    model = saved(tmp_path / "m", None, model="statistics")
    assert "It predicts nothing" in statement.as_markdown(model)
    for made_of in (plain_json.scorer, scikit_learn.pipeline):
        with pytest.raises(InvalidInput, match="predicts nothing"):
            made_of(model)
    assert unisono.load(tmp_path / "m").prediction is None
