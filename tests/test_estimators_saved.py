"""Estimators that are saved, pickled and copied: the model travels, its ledger does not."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import unisono
from unisono.errors import InvalidInput, PrivacyWarning
from unisono.estimators import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    PrivateClassifier,
    PrivateGLM,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRegressor,
    PrivateRidge,
)

GENERATOR = np.random.default_rng(5)
X = GENERATOR.uniform(-1, 11, (400, 2))  # wider than the bounds, as new records may be
SCORE = X @ [0.5, -0.3] - 1
CLASS = (SCORE > 0).astype(int)
THREE = np.digitize(SCORE, [-1, 1])
NEW = GENERATOR.uniform(-6, 20, (40, 2))
BOUNDS = ([0, 0], [10, 10])
NUMBER = {"bounds": BOUNDS, "target_bounds": (-5.0, 5.0)}
CASES = {
    "logistic": (PrivateLogisticRegression(bounds=BOUNDS, classes=[0, 1], rounds=3), CLASS),
    "three classes in a ball": (
        PrivateLogisticRegression(bounds=15.0, classes=["a", "b", "c"], rounds=3),
        np.array(list("abc"))[THREE],
    ),
    "svm": (PrivateLinearSVC(bounds=BOUNDS, classes=[False, True], rounds=3), CLASS > 0),
    "ridge": (PrivateRidge(rounds=3, **NUMBER), SCORE),
    "bayesian linear": (BayesianLinearRegression(**NUMBER), SCORE),
    "bayesian logistic": (
        BayesianLogisticRegression(bounds=BOUNDS, classes=[0, 1], rounds=4, link="probit"),
        CLASS,
    ),
    "unaware of noise": (
        BayesianLogisticRegression(bounds=BOUNDS, classes=[0, 1], rounds=4, noise_aware=False),
        CLASS,
    ),
    "odds": (
        PrivateGLM("binomial", bounds=BOUNDS, classes=["n", "y"]),
        np.array(["n", "y"])[CLASS],
    ),
    "differences": (PrivateGLM("gaussian", **NUMBER), SCORE),
    "rates": (PrivateGLM("poisson", bounds=BOUNDS, target_bounds=(0.0, 5.0)), THREE),
    "network": (
        PrivateClassifier(
            bounds=BOUNDS, classes=[0, 1, 2], hidden=(50, 60), activation="gelu", epochs=1
        ),
        THREE,
    ),
    "network of numbers": (PrivateRegressor(activation="selu", epochs=1, **NUMBER), SCORE),
}
# Others of their kind are saved where they are fitted anyway: test_glm_estimator.py.
SLOW = (
    *("network", "network of numbers", "odds", "differences", "rates"),
    *("bayesian logistic", "unaware of noise"),
)


def quietly_fitted(model, y, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise, and of a simulation
        return clone(model).set_params(epsilon=5.0, **more).fit(X, y)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in CASES]
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_saved_predicts_the_same(name, tmp_path):
    model, y = CASES[name]
    model = quietly_fitted(model, y, random_state=0)
    model.save(tmp_path / "model")
    loaded = unisono.load(tmp_path / "model")
    said, own = loaded.predict(NEW), model.predict(NEW)
    assert said.dtype.kind == own.dtype.kind
    if hasattr(model, "classes_"):
        assert list(said) == list(own)
        assert list(loaded.classes_) == list(model.classes_)
        scores = loaded.decision_function(NEW)
        np.testing.assert_allclose(scores, model.decision_function(NEW), rtol=1e-9, atol=1e-12)
    else:
        np.testing.assert_allclose(said, own, rtol=1e-9)
    if hasattr(model, "predict_proba"):
        wanted = model.predict_proba(NEW)
        np.testing.assert_allclose(loaded.predict_proba(NEW), wanted, rtol=1e-9, atol=1e-15)
    if isinstance(model, BayesianLinearRegression):
        _, spread = model.predict(NEW, return_std=True)
        reach = np.diff(loaded.predict_interval(NEW, new=True))[:, 0] / 2
        np.testing.assert_allclose(reach, 1.959963985 * spread, rtol=1e-8)
    assert loaded.certificate == model.certificate_.to_json()
    assert loaded.simulated
    # A pickle predicts as well, and pays for nothing.
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(NEW), own)


def test_declared_columns_are_read_from_cells(tmp_path):
    frame = {"age": X[:, 0] * 9, "sex": np.where(X[:, 1] > 5, "m", "f"), "ill": CLASS.tolist()}
    columns = {
        "age": {"kind": "number", "bounds": (0, 100), "missing": "indicator", "fill": 0.0},
        "sex": {"kind": "category", "values": ["f", "m"]},
    }
    model = PrivateLogisticRegression(5.0, classes=[0, 1], columns=columns, rounds=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(random_state=0).fit(frame, "ill")
        model.save(tmp_path / "m")
    new = {"age": [20, None, 90], "sex": ["f", "m", "m"]}
    loaded = unisono.load(tmp_path / "m")
    np.testing.assert_allclose(loaded.predict_proba(new), model.predict_proba(new), rtol=1e-12)
    assert list(loaded.feature_names_in_) == ["age", "sex"]


@pytest.fixture
def paid(tmp_path):
    """A model that was paid for from a ledger on disk."""
    book = unisono.open_ledger(tmp_path / "a.ledger", dataset="a", epsilon=9.0, delta=1e-5)
    model, y = CASES["ridge"]
    return quietly_fitted(model, y, ledger=book), book


def test_a_pickle_has_no_ledger_and_says_so(paid, tmp_path):
    model, book = paid
    content = pickle.dumps(model)
    assert b"Ledger" not in content
    assert str(tmp_path).encode() not in content
    again = pickle.loads(content)
    assert again.ledger is None
    assert any("without its ledger" in one for one in again.statements_)
    assert not any("without its ledger" in one for one in model.statements_)
    assert model.ledger is book
    spent = book.spent(unisono.Viewer("final-model"))
    for one in (again, clone(again), copy.deepcopy(again)):
        with pytest.raises(InvalidInput, match=r"set_params\(ledger=...\)"):
            one.fit(X, SCORE)
    assert book.spent(unisono.Viewer("final-model")) == spent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again.set_params(ledger=book).fit(X, SCORE)
    assert book.spent(unisono.Viewer("final-model")) > spent


def test_one_that_was_never_fitted_loses_its_ledger_too(paid):
    other = pickle.loads(pickle.dumps(clone(paid[0])))
    with pytest.raises(InvalidInput, match="its ledger was left out"):
        other.fit(X, SCORE)
    fresh = pickle.loads(pickle.dumps(clone(CASES["ridge"][0])))  # had none to lose
    with pytest.warns(PrivacyWarning, match="ledger"):
        fresh.fit(np.clip(X, 0, 10), SCORE)


def test_copies_in_the_same_process_spend_from_the_same_ledger(paid):
    model, book = paid
    for one in (copy.copy(model), copy.deepcopy(model)):
        assert one.ledger is book
        assert np.array_equal(one.predict(NEW), model.predict(NEW))


def test_a_saved_model_has_no_ledger_and_spares_runs(paid, tmp_path):
    model, _ = paid
    model.save(tmp_path / "model")
    assert {one.name for one in (tmp_path / "model").iterdir()} == {
        "result.json",
        "certificate.json",
    }
    assert not unisono.load(tmp_path / "model").simulated
    (tmp_path / "model" / "run.json").write_text("{}")
    with pytest.raises(InvalidInput, match="holds a run"):
        model.save(tmp_path / "model")
    with pytest.raises(InvalidInput, match="is a file"):
        model.save(tmp_path / "a.ledger")
