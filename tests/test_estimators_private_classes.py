"""Estimators that nobody tells the classes: they are found first, within the same promise."""

import warnings

import numpy as np
import pandas
import pyarrow
import pytest
from sklearn.base import clone

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import FINAL_MODEL, Relation
from unisono.data import UnreadValues
from unisono.errors import BudgetExceeded, InvalidInput
from unisono.estimators import (
    BayesianLogisticRegression,
    PrivateClassifier,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    private_search,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::unisono.PredictableNoiseWarning", "ignore::unisono.FreshBudgetWarning"
)
OPTIONS = {"epsilon": 2.0, "delta": 1e-5, "bounds": (-3, 3), "classes": "private"}


def plane(records=2000, seed=0):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(records, 2)).clip(-3, 3)
    return rows, (rows.sum(axis=1) > 0).astype(int)


def book(epsilon=2.0):
    return Ledger.in_memory(Policy("records", Budget(epsilon, 1e-5)), ACCOUNTANT)


@pytest.mark.parametrize(
    ("made", "classes"),
    [
        (lambda y: y, [0, 1]),
        (lambda y: y.astype(bool), [False, True]),
        (lambda y: np.array(["healthy", "sick"])[y], ["healthy", "sick"]),
        (lambda y: [["Art 1", "Art 2"][own] for own in y], ["Art 1", "Art 2"]),
        (lambda y: np.array(["0", "1"])[y], ["0", "1"]),
        (lambda y: y.tolist(), [0, 1]),
    ],
)
def test_classes_come_back_as_labels_are(made, classes):
    rows, labels = plane()
    model = PrivateLogisticRegression(**OPTIONS, random_state=0, rounds=50).fit(rows, made(labels))
    assert model.classes_.tolist() == classes
    other, unseen = plane(seed=1)
    assert model.score(other, made(unseen)) > 0.85
    assert model.certificate_.epsilon(FINAL_MODEL, Relation.REPLACE_ONE) <= 2.0
    assert 0.95 * 2 < model.epsilon_spent_ <= 2.0
    assert 0 < model.bounds_epsilon_ < 1.0
    assert "were found first, for epsilon" in model.statements_[0]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.slow  # each kind is compiled
@pytest.mark.parametrize(
    "model",
    [
        PrivateLinearSVC(**OPTIONS, rounds=50),
        BayesianLogisticRegression(**OPTIONS, rounds=4),
        PrivateClassifier(**OPTIONS, hidden=(3,), epochs=2),
        PrivateLogisticRegression(**OPTIONS, number_of_classes=3, rounds=50),
        PrivateLogisticRegression(**{**OPTIONS, "bounds": None}, rounds=50),
        PrivateLogisticRegression(**OPTIONS, algorithm="output-perturbation"),
    ],
)
@pytest.mark.parametrize("parties", [None, np.arange(2000) % 4])
def test_every_kind_of_classifier_finds_them(model, parties):
    rows, labels = plane()
    if getattr(model, "number_of_classes", 2) == 3:
        labels = labels + (rows[:, 0] > 1)
    found = clone(model).set_params(random_state=0).fit(rows, labels, parties=parties)
    assert found.classes_.tolist() == sorted(set(labels.tolist()))
    assert found.epsilon_spent_ <= 2.0
    assert np.isin(found.predict(rows), found.classes_).all()


def test_rare_labels_teach_nothing_and_are_never_shown():
    """Records with a label of their own are as if they had never come."""
    rows, labels = plane()
    marks = [str(label) for label in labels]
    for place in range(60):
        marks[place] = f"secret {place}"
        rows[place] = 3.0
    model = PrivateLogisticRegression(**OPTIONS, random_state=0, rounds=50).fit(rows, marks)
    assert model.classes_.tolist() == [0, 1]
    assert np.isfinite(model.coef_).all()
    assert not any("secret" in text for text in model.statements_)


def test_one_class_is_said_by_noisy_counts_and_the_fit_is_not_paid_for():
    rows, labels = plane()
    ledger = book()
    model = PrivateLogisticRegression(**OPTIONS, ledger=ledger)
    with pytest.raises(InvalidInput, match=r"only \['0'\] of 2 classes .* fit itself was not paid"):
        model.fit(rows, 0 * labels)
    assert ledger.grants == 1
    assert not hasattr(model, "classes_")


def test_the_whole_fit_is_authorised_before_the_classes_are():
    rows, labels = plane()
    ledger = book(1.0)  # enough for the classes alone
    with pytest.raises(BudgetExceeded):
        PrivateLogisticRegression(**OPTIONS, ledger=ledger).fit(rows, labels)
    assert ledger.grants == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"classes": "secret"}, "or 'private' to find them"),
        ({"delta": 0.0}, r"pass classes=\[...\], the public list of all labels, or choose delta"),
        ({"epsilon": 0.05}, "only a label of .* records or more"),
        ({"number_of_classes": 1}, "number_of_classes = 1"),
        ({"number_of_classes": 2.5}, "number_of_classes = 2.5"),
    ],
)
def test_what_is_refused_costs_nothing(options, words):
    rows, labels = plane(400)
    ledger = book()
    model = PrivateLogisticRegression(**{**OPTIONS, **options}, ledger=ledger)
    with pytest.raises(InvalidInput, match=words):
        model.fit(rows, labels)
    assert ledger.grants == 0


def test_a_search_wants_public_classes():
    rows, labels = plane(400)
    with pytest.raises(InvalidInput, match="classes = 'private'"):
        private_search([PrivateLogisticRegression(**OPTIONS)], rows, labels, epsilon=1.0)


@pytest.mark.parametrize(
    ("made", "classes"),
    [
        (lambda y: np.array(["healthy", "sick"])[y].tolist(), ["healthy", "sick"]),
        (lambda y: y.astype(bool), [False, True]),
        (lambda y: y, [0, 1]),
    ],
)
@pytest.mark.parametrize("frame", [pandas.DataFrame, pyarrow.table])
def test_labels_may_be_a_column_of_a_frame(frame, made, classes):
    """Empty cells are no class, and their records teach nothing."""
    rows, labels = plane()
    table = {"a": rows[:, 0], "b": rows[:, 1], "label": made(labels)}
    if classes == ["healthy", "sick"]:
        table["label"][:40] = [None] * 40
    model = PrivateLogisticRegression(**OPTIONS, random_state=0, rounds=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreadValues)
        model.fit(frame(table), "label")
    assert model.classes_.tolist() == classes
    seen = model.predict(frame({"a": rows[:, 0], "b": rows[:, 1]}))
    assert np.mean(seen == np.array(classes)[labels]) > 0.85


@pytest.mark.filterwarnings("ignore::unisono.ClippedValues")  # what is outside released ranges
def test_declared_features_and_private_classes_go_together():
    """Ranges of declared columns, and classes, are found in one release."""
    rows, labels = plane()
    declared = {
        "a": {
            "kind": "number",
            "bounds": (-3, 3),
            "missing": "indicator",
            "fill": 0.0,
            "missing_codes": [-9],
        },
        "b": {"kind": "number", "bounds": "private"},
    }
    frame = pandas.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "label": labels})
    frame.loc[:50, "a"] = -9
    options = {**OPTIONS, "epsilon": 6.0, "bounds": None, "columns": declared}
    model = PrivateLogisticRegression(**options, random_state=0, rounds=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreadValues)
        model.fit(frame, "label")
    assert model.classes_.tolist() == [0, 1]
    assert 0 < model.bounds_epsilon_ < model.epsilon_spent_ <= 6.0
    assert np.mean(model.predict(frame[["a", "b"]])[51:] == labels[51:]) > 0.8


@pytest.mark.parametrize(
    ("options", "persons", "words"),
    [
        ({}, np.arange(400) // 2, "classes = 'private' with persons"),
        ({}, np.arange(400), "classes = 'private' with persons"),
        (
            {
                "classes": None,
                "bounds": None,
                "columns": {
                    "a": {"kind": "number", "bounds": (-3, 3)},
                    "label": {"kind": "category", "values": "private"},
                },
            },
            None,
            'leave it out of columns and pass classes="private"',
        ),
    ],
)
def test_what_would_not_be_hidden_is_refused_and_costs_nothing(options, persons, words):
    rows, labels = plane(400)
    ledger = book()
    frame = pandas.DataFrame({"a": rows[:, 0], "label": labels})
    model = PrivateLogisticRegression(**{**OPTIONS, **options}, ledger=ledger)
    with pytest.raises(InvalidInput, match=words):
        model.fit(frame, "label", persons=persons)
    assert ledger.grants == 0


def test_labels_of_streams_are_not_looked_for(tmp_path):
    (tmp_path / "plane.csv").write_text("a,label\n" + "1,yes\n2,no\n" * 50)
    with pytest.raises(InvalidInput, match="labels are looked for in memory"):
        PrivateLogisticRegression(**OPTIONS, ledger=book()).fit(tmp_path / "plane.csv", "label")


def test_a_fitted_estimator_keeps_no_labels_of_records():
    """Whoever is handed one, pickled, has the model and nothing more."""
    rows, labels = plane()
    marks = [f"mark {label}" for label in labels]
    model = PrivateLogisticRegression(**OPTIONS, random_state=0, rounds=50).fit(rows, marks)
    large = [name for name, own in vars(model).items() if np.size(own) >= len(rows)]
    assert large == []
    assert model._unlisted is None
    with pytest.raises(InvalidInput, match="of 2 classes"):
        model.fit(rows, [marks[0]] * len(marks))
    assert model._unlisted is None
