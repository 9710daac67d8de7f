"""Estimators that nobody tells the classes: they are found first, within the same promise."""

import numpy as np
import pytest
from sklearn.base import clone

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import FINAL_MODEL, Relation
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
