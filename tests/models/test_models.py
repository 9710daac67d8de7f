"""Every model of the registry: from declared columns to a result that people can read.

A new model is tested here by being registered. Runs are simulations: their noise is predictable.
"""

import json
import pickle
import re
import tomllib

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.registry import algorithm_named
from unisono.cli.results import result_text
from unisono.core.algorithm import agree_facts
from unisono.core.documents import CERTIFICATE
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Trust, Unit
from unisono.core.values import Private
from unisono.data.columns import Category, NamedColumn
from unisono.data.schema import Schema
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.exports import onnx_graph, plain_json, scikit_learn
from unisono.models.fitted import fitted_document, load, save_model
from unisono.models.model import Target, target_faults
from unisono.models.prediction import HazardRatio, Scores
from unisono.models.registry import algorithms_for, model_named, models
from unisono.studies.schema import MODEL_SECTIONS

from ..test_exports import page_scorer, pandas, run_onnx, said_by

SIZES = (60, 70, 50)
NUMBERS = {
    "age": {"kind": "number", "bounds": (0.0, 120.0), "integer": True},
    "radius": {"kind": "number", "bounds": (5.0, 30.0)},
}
SEX = {"sex": {"kind": "category", "values": ("f", "m")}}
ILL = {"ill": {"kind": "category", "values": ("no", "yes")}}
# What belongs to programs, not to sentences about a study.
INTERNAL = re.compile(
    r"[{}\[\]<>=_]|\b(None|nan|inf|theta|dict|tuple|config|kind|posed|problem|LinearLoss|RecordLoss)\b"
)
# What a run of the registry's defaults would take too long for.
SHORT = {"rounds": 3}


def schema_of(kind):
    """Columns that suit a model."""
    if kind.name == "k-means":
        return Schema.model_validate({"columns": NUMBERS})
    columns = NUMBERS | SEX | ILL
    target = {Target.NONE: None, Target.NUMBER: "radius"}.get(kind.target, "ill")
    return Schema.model_validate({"columns": columns, "target": target})


def drafted(kind):
    """The settings that `unisono init` would write, read as a study file's."""
    text = f'[model]\nname = "{kind.name}"\n{kind.draft(schema_of(kind))}'
    section = MODEL_SECTIONS[kind.name]
    return section.model_validate_json(json.dumps(tomllib.loads(text)["model"]))


def configured(kind):
    said = drafted(kind)
    settings = {name: getattr(said, name) for name in said.model_fields_set if name != "name"}
    return kind.configured(**settings)


def values_of(schema, records, seed):
    """Synthetic records: numbers within their bounds, places of categories."""
    generator = np.random.default_rng(seed)
    return {
        name: generator.integers(0, len(column.values), records).astype(float)
        if isinstance(column, Category)
        else generator.uniform(*column.bounds, records)
        for name, column in schema.columns.items()
    }


def posed_of(kind, epsilon=20.0):
    """A model over its columns, and the study by the algorithm of its own rule."""
    schema, config, privacy = schema_of(kind), configured(kind), Privacy(epsilon, 1e-5)
    choice = kind.choose(config, schema, privacy, Unit.RECORD)
    algorithm = algorithm_named(choice.algorithm)
    posed = kind.pose(config, schema, algorithm, privacy)
    short = {key: own for key, own in SHORT.items() if key in algorithm.config.model_fields}
    method = algorithm.method(posed.problem, privacy, **{**posed.settings, **short})
    facts = agree_facts(SIZES, posed.features, Trust.SECURE_SUM)
    return posed, Study(method, facts, Trust.SECURE_SUM)


@pytest.fixture(scope="module", params=list(models()))
def learnt(request):
    """A model, posed, run in process on synthetic records by simulated ledgers."""
    kind = model_named(request.param)
    posed, study = posed_of(kind)
    parties = [
        Party(
            f"party-{number}",
            Private(encoded(posed, values_of(schema_of(kind), records, number))),
            Ledger.in_memory(
                Policy(f"data-{number}", Budget(100.0, 1e-5)), ACCOUNTANT, seed=number
            ),
        )
        for number, records in enumerate(SIZES)
    ]
    if (earlier := study.method.earlier) is not None:
        method = earlier.kind.method(posed.problem, study.method.privacy)
        first = in_process.run(Study(method, study.facts, study.trust), parties)
        study = study.begun(first.value)
    return kind, posed, study, in_process.run(study, parties)


def encoded(posed, values):
    return tuple(array.astype(np.float32) for array in posed.encode(values))


def numbers(document):
    """Every number of a document."""
    if isinstance(document, dict):
        document = list(document.values())
    if isinstance(document, list):
        for one in document:
            yield from numbers(one)
    elif isinstance(document, float):
        yield document


# ------------------------------------------------------------- from records to results


def test_rows_are_made_record_by_record(learnt):
    """One row for each record; another record, or a missing cell, changes no other row."""
    kind, posed, study, _ = learnt
    values = values_of(schema_of(kind), 40, 9)
    rows = posed.encode(values)
    assert rows[0].shape == (40, posed.features) == (40, study.facts.features)
    assert all(len(array) == 40 for array in rows)
    other = {name: np.concatenate([[np.nan], column[1:]]) for name, column in values.items()}
    for before, after in zip(rows, posed.encode(other), strict=True):
        assert np.array_equal(before[1:], after[1:])
        assert np.isnan(after[0]).any()
        assert not np.isnan(before).any()


def test_results_are_json_in_the_words_of_the_columns(learnt):
    kind, posed, study, result = learnt
    shown = posed.present(study, result)
    text = json.dumps(shown, allow_nan=False)
    assert json.loads(text) == shown
    assert all(np.isfinite(list(numbers(shown))))
    target = schema_of(kind).target
    assert shown.get("target") == target
    assert any(name in text for name in schema_of(kind).features)
    for name, array in posed.arrays(result.value).items():
        assert isinstance(name, str)
        assert np.asarray(array).dtype.kind == "f"


def test_results_are_printed_in_words_without_dumps(learnt):
    """What `run` prints: names of columns, no nested lists, no covariance, a line that fits."""
    kind, posed, study, result = learnt
    shown = json.loads(json.dumps(posed.present(study, result)))
    text = result_text({"title": "all", "rounds_opened": 1, **shown})
    assert text.startswith("RESULT  all\n  rounds_opened: 1\n")
    assert not re.search(
        r"\[\[|\[-?\d+(\.\d+)?, -?\d[^]]*, -?\d[^]]*, -?\d|covariance|\{|^ *- ", text
    )
    assert "arrays" not in text
    assert len(text.splitlines()) < 70
    assert any(name in text for name in schema_of(kind).features)


def test_scores_are_shares_record_by_record(learnt):
    kind, posed, study, result = learnt
    if not kind.predicts:
        assert posed.score is None
        return
    rows = encoded(posed, values_of(schema_of(kind), 50, 5))
    scores = posed.score(study, result.value, rows)
    assert scores.shape == (50,)
    assert ((scores >= 0) & (scores <= 1)).all()
    if schema_of(kind).classes:
        assert set(np.unique(scores)) <= {0.0, 1.0}
    alone = posed.score(study, result.value, tuple(array[:1] for array in rows))
    assert alone == pytest.approx(scores[:1], abs=1e-6)


# ------------------------------------------------------------- what is said of them


@pytest.mark.parametrize("name", models())
def test_words_are_sentences_for_people(name):
    kind = model_named(name)
    schema, config = schema_of(kind), configured(kind)
    phrase = kind.learns(config, schema)
    assert not phrase.endswith(".")
    said = [f"Learns {phrase}.", f"{kind.summary}."]
    for algorithm in algorithms_for(kind):
        notes = kind.notes(config, algorithm)
        assert all(note[0].isupper() and note.endswith(".") for note in notes)
        said += notes
    for target in ("record", "party"):
        rule = kind.choose(config, schema, Privacy(1.0, 1e-5), Unit(target))
        assert kind.solved_by(algorithm_named(rule.algorithm))
        assert not rule.reason.endswith(".")
        said.append(rule.reason)
    for words in said:
        assert not INTERNAL.search(words), words
        assert "  " not in words


@pytest.mark.parametrize("name", models())
def test_drafts_are_read_and_without_faults(name):
    kind = model_named(name)
    drafted(kind)
    assert not list(kind.faults(configured(kind), schema_of(kind)))
    assert not list(target_faults(kind, schema_of(kind)))


@pytest.mark.parametrize("name", models())
def test_a_target_of_the_wrong_kind_is_a_fault(name):
    kind = model_named(name)
    columns = NUMBERS | ILL | {"place": {"kind": "category", "values": ("a", "b", "c")}}
    fits = {
        Target.NONE: {None},
        Target.CLASSES: {"ill", "place"},
        Target.TWO_CLASSES: {"ill"},
        Target.NUMBER: {"age"},
        Target.EITHER: {"ill", "place", "age"},
    }[kind.target]
    for target in (None, "ill", "place", "age", "nowhere"):
        schema = Schema.model_construct(
            columns=Schema.model_validate({"columns": columns}).columns, target=target
        )
        assert bool(list(target_faults(kind, schema))) == (target not in fits), target


@pytest.mark.parametrize("name", models())
def test_settings_are_described_and_unknown_ones_refused(name):
    kind = model_named(name)
    for key, info in kind.config.model_fields.items():
        assert info.description, key
        assert info.description.endswith("."), key
    with pytest.raises(InvalidInput, match=f"model {name}: .*colour"):
        kind.configured(colour=3)


def test_an_unknown_model_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match="model = 'magic': choose one of statistics"):
        model_named("magic")


# ------------------------------------------------------------- models that are kept


def kept(kind, posed, study, result, folder):
    """What a run leaves of its model."""
    folder.mkdir(exist_ok=True)
    CERTIFICATE.write(folder, result.certificate.to_json())
    how = None if posed.prediction is None else posed.prediction(study, result)
    arrays = posed.arrays(result.value)
    settings = configured(kind).model_dump(mode="json")
    document, more = fitted_document(kind.name, settings, schema_of(kind), how, arrays)
    shown = {"title": "a test", **posed.present(study, result)}
    save_model(folder, shown, document, {**arrays, **more})
    return how, load(folder)


def cells_of(schema, values):
    """Values as a file has them: names of categories, numbers."""
    return {
        name: [column.levels[int(place)] for place in values[name]]
        if isinstance(column, NamedColumn)
        else values[name].tolist()
        for name, column in schema.columns.items()
    }


def test_a_model_that_is_kept_predicts_what_was_learnt(learnt, tmp_path):
    """Records that are read from cells, by a model that was read from disk, are predicted as the
    result in memory predicts them; whoever predicts nothing says why."""
    kind, posed, study, result = learnt
    how, model = kept(kind, posed, study, result, tmp_path / "run")
    assert model.summary()
    assert (how is None) is (kind.prediction is None)
    schema = schema_of(kind)
    values = values_of(schema, 50, 11)
    cells = cells_of(schema, values)
    if how is None:
        assert kind.silent
        with pytest.raises(InvalidInput, match=re.escape(kind.silent)):
            model.predict(cells)
        return
    inputs = {name: own for name, own in cells.items() if name in how.inputs}
    assert list(model.feature_names_in_) == list(how.inputs)
    if schema.target is not None:
        assert schema.target not in how.inputs
    rows = how.rows(Schema(columns={n: schema.columns[n] for n in how.inputs}), values)
    said, own = model.predict(inputs), how.predict(rows)
    if how.classes:
        assert list(said) == [how.classes[place] for place in own]
    else:
        np.testing.assert_allclose(said, own, rtol=1e-9)
    if how.classes and kind.name not in ("linear-svm", "k-means"):
        chances = model.predict_proba(inputs)
        np.testing.assert_allclose(chances, how.probabilities(rows), rtol=1e-9)
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
        assert list(model.classes_[chances.argmax(axis=1)]) == list(said)
    if isinstance(how, Scores) and how.silence:
        with pytest.raises(InvalidInput, match="no intervals"):
            model.predict_interval(inputs)
    elif kind.name != "k-means":
        low, high = model.predict_interval(inputs).T
        middle = said if not how.classes else model.predict_proba(inputs)[:, 1]
        assert ((low < middle) & (middle < high)).all()
        assert (np.diff(model.predict_interval(inputs, 0.5)) < (high - low)[:, None]).all()


def test_predictions_are_those_that_the_score_judges(learnt, tmp_path):
    """The score goes its own way, by the rows and parameters of the run in single precision. Those
    of models with intervals are scored before the noise is counted in, and predict afterwards."""
    kind, posed, study, result = learnt
    if posed.score is None or kind.prediction is None:
        return
    how, model = kept(kind, posed, study, result, tmp_path / "run")
    if how.covariance is not None:
        return
    schema = schema_of(kind)
    values = values_of(schema, 80, 12)
    said = model.predict(cells_of(schema, values))
    score = posed.score(study, result.value, encoded(posed, values))
    column = schema.columns[schema.target]
    if isinstance(column, NamedColumn):
        right = [
            one == column.levels[int(own)]
            for one, own in zip(said, values[schema.target], strict=True)
        ]
        assert 0 < np.mean(right) < 1
        assert np.array_equal(score, np.array(right, float))
    else:
        low, high = column.span
        error = np.abs(np.clip(said, low, high) - values[schema.target]) / (high - low)
        np.testing.assert_allclose(score, error, atol=1e-5)


def test_every_export_predicts_the_same_or_says_why_not(learnt, tmp_path):
    """Plain JSON by the scorer of the documentation, ONNX, scikit-learn: to 1e-6."""
    kind, posed, study, result = learnt
    how, model = kept(kind, posed, study, result, tmp_path / "run")
    exports = (plain_json.as_text, onnx_graph.as_bytes, scikit_learn.as_bytes)
    if how is None:
        for export in exports:
            with pytest.raises(InvalidInput, match=re.escape(kind.silent)):
                export(model)
        return
    schema = schema_of(kind)
    cells = cells_of(schema, values_of(schema, 40, 13))
    cells = {name: own for name, own in cells.items() if name in how.inputs}
    labels, expected = said(model, cells)
    document = json.loads(plain_json.as_text(model))
    assert document["format"]
    if isinstance(how, Scores):
        predict = page_scorer()
        rows = [{key: own[place] for key, own in cells.items()} for place in range(40)]
        found = np.array([predict(document, row) for row in rows])
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    graph = run_onnx(model, cells)
    if expected is not None:
        np.testing.assert_allclose(graph[-1], expected, rtol=1e-6, atol=1e-6)
    if labels is not None:
        assert graph[0].tolist() == labels
    if isinstance(how, HazardRatio):
        with pytest.raises(InvalidInput, match="scikit-learn has no part for"):
            scikit_learn.as_bytes(model)
        return
    pipeline = pickle.loads(scikit_learn.as_bytes(model))
    frame = pandas.DataFrame(cells)
    if kind.name == "k-means":
        assert [f"group {place + 1}" for place in pipeline.predict(frame)] == labels
    elif labels is not None:
        assert list(pipeline.predict(frame)) == labels
        if hasattr(pipeline, "predict_proba"):
            np.testing.assert_allclose(pipeline.predict_proba(frame), expected, atol=1e-6)
        else:
            assert how.averaged or how.link == "sign"
    else:
        np.testing.assert_allclose(pipeline.predict(frame), expected[:, 0], rtol=1e-6)


def said(model, cells):
    """Labels, and numbers (n, k), where the model has them."""
    if isinstance(model.prediction, Scores):
        return said_by(model, cells)
    found = model.predict(cells)
    return (list(found), None) if model.prediction.classes else (None, found[:, None])
