"""What users are told where they go wrong: the value, the cause and the remedy, in their words."""

import math
import types
import warnings

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.gradient_perturbation import GradientPerturbationConfig
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.words import did_you_mean
from unisono.deployment.parties_here import find_data
from unisono.engines.requirements import require_headroom
from unisono.errors import BudgetExceeded, InvalidInput
from unisono.estimators import PrivateGLM, PrivateLogisticRegression, PrivateRidge
from unisono.reports.charts import gauge
from unisono.studies.build import build
from unisono.studies.explain import explain, warnings_of
from unisono.studies.file import parse_study
from unisono.studies.table import OneClass

STUDY = """\
title = "T"
[data]
target = "ill"
[data.columns]
age = { kind = "number", bounds = [0, 120] }
ill = { kind = "true-false" }
[[parties]]
name = "oslo"
records = 4
[[parties]]
name = "bergen"
records = 3000
[[parties]]
name = "trondheim"
records = 3000
[privacy]
epsilon = 1
delta = 1e-6
[trust]
mode = "secure-sum"
[model]
name = "logistic-regression"
[algorithm]
name = "gradient-perturbation"
"""
ROWS, LABELS = np.linspace(0, 1, 60).reshape(20, 3), np.arange(20) % 2


def changed(old, new):
    assert old in STUDY
    return STUDY.replace(old, new)


def refused(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InvalidInput) as found:
            build(parse_study(text))
    return str(found.value)


def fit(estimator, rows=ROWS, labels=LABELS):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(rows, labels)


# ------------------------------------------------------------- study files


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "bounds = [0, 120] }",
            'bounds = [0, 120], missing = "category" }',
            "age.missing: \"category\" is not allowed: choose one of 'drop record' or 'indicator', "
            "or write a number",
        ),
        (
            '"true-false" }',
            '"true-false", missing = "maybe" }',
            "ill.missing: \"maybe\" is not allowed: choose one of 'drop record' or 'category', or "
            "write true or false",
        ),
        (
            "[0, 120]",
            "[0, 120, 3]",
            "age.bounds: [0, 120, 3] is not allowed: write at most 2, not 3",
        ),
        (
            'kind = "true-false"',
            'kind = "category", values = ["yes"]',
            'ill.values: ["yes"] is not allowed: write at least 2, not 1',
        ),
        ('"logistic-regression"', '"logistic-regresion"', "did you mean 'logistic-regression'?"),
        ('"gradient-perturbation"', '"Gradient perturbation"', "mean 'gradient-perturbation'?"),
        ('"secure-sum"', '"secure_sum"', "did you mean 'secure-sum'?"),
        ('"true-false"', '"truefalse"', "did you mean 'true-false'?"),
    ],
)
def test_what_a_study_file_may_say_is_said_without_names_of_types(old, new, words):
    text = refused(changed(old, new))
    assert words in text, text
    assert "study.toml line " in text
    for name in ("literal[", "float:", "bool:", "tuple", "validation"):
        assert name not in text


def test_pure_epsilon_names_the_algorithms_that_offer_it():
    text = refused(changed("delta = 1e-6", "delta = 0"))
    assert "only output-perturbation can learn a logistic-regression in this study" in text
    assert "such as 1e-06, for the others" in text
    offered = changed("delta = 1e-6", "delta = 0").replace("gradient-", "output-")
    build(parse_study(offered))


def test_so_few_rounds_are_remarked_on():
    usual = GradientPerturbationConfig.model_fields["rounds"].default
    few = explain(parse_study(changed("[algorithm]", "[algorithm]\nrounds = 2")))
    words = f"rounds = 2: gradient-perturbation usually takes {usual}; after so few steps"
    assert any(danger.words.startswith(words) for danger in few.dangers)
    # Whoever runs it without having checked it is told, too.
    said = build(parse_study(changed("[algorithm]", "[algorithm]\nrounds = 2")))
    assert any(danger.words.startswith(words) for danger in warnings_of(said))
    many = explain(parse_study(changed("[algorithm]", "[algorithm]\nrounds = 60")))
    assert not any(danger.words.startswith("rounds = ") for danger in many.dangers)


def test_one_class_in_a_file_is_told_to_its_owner(tmp_path):
    built = build(parse_study(STUDY))
    (tmp_path / "oslo.csv").write_text("age,ill\n" + "50,yes\n" * 4)
    with pytest.warns(OneClass, match="every 'ill' is 'true', one of 2 classes"):
        built.columns(built.table(tmp_path / "oslo.csv"), "oslo")
    (tmp_path / "oslo.csv").write_text("age,ill\n" + "50,yes\n" * 3 + "40,no\n")
    built.columns(built.table(tmp_path / "oslo.csv"), "oslo")


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(InvalidInput, match="nowhere does not exist"):
        find_data(["oslo"], tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="is a file"):
        find_data(["oslo"], tmp_path / "file")


def test_sums_that_are_too_large_are_refused_in_words():
    """Not in steps of a grid that nobody has heard of."""
    study = build(parse_study(STUDY)).study
    require_headroom(study)
    huge = types.SimpleNamespace(
        name=study.algorithm.name,
        grid=study.algorithm.grid,
        events=study.algorithm.events,
        reach=lambda facts: 2.0**40,
    )
    with pytest.raises(InvalidInput, match="times too large for the 32-bit numbers") as found:
        require_headroom(
            types.SimpleNamespace(facts=study.facts, trust=study.trust, algorithm=huge)
        )
    assert "choose a larger epsilon" in str(found.value)
    assert "grid" not in str(found.value)


# ------------------------------------------------------------- ledgers


def test_a_budget_without_delta_says_so_to_gaussian_noise():
    ledger = Ledger.in_memory(Policy("x", Budget(5.0, 0.0)), ACCOUNTANT)
    estimator = PrivateLogisticRegression(bounds=(0, 1), classes=[0, 1], ledger=ledger)
    with pytest.raises(BudgetExceeded) as found:
        fit(estimator)
    text = str(found.value)
    assert "no finite epsilon at the budget's delta 0" in text
    assert "needs a delta above 0; give the budget one, such as 1e-6" in text
    assert "more noise" not in text
    pure = PrivateLogisticRegression(
        delta=0.0, bounds=(0, 1), classes=[0, 1], ledger=ledger, algorithm="output-perturbation"
    )
    fit(pure)


# ------------------------------------------------------------- estimators


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"age": (0, 1)}, "bounds name 'age', and the columns of X have no names: give a frame"),
        ("0:1", "bounds = '0:1': give public (lowest, highest) values, or 'private'"),
    ],
)
def test_bounds_of_other_shapes(bounds, words):
    with pytest.raises(InvalidInput) as found:
        fit(PrivateLogisticRegression(bounds=bounds, classes=[0, 1]))
    assert words in str(found.value)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"a": (0, 1), "b": (0, 1)}, "bounds lack 'c': give every column"),
        ({"a": (0, 1), "b": (0, 1), "c": (0, 1), "cc": (0, 1)}, "'cc', which is no column"),
        ({"a": (0, 1), "b": (0, 1), "c": (1, 0)}, "bounds of 'c' are (1, 0): give two numbers"),
        ({"a": (0, 1), "b": (0, 1), "c": 3}, "bounds of 'c' are 3: give two numbers"),
    ],
)
def test_bounds_by_name_that_do_not_fit(bounds, words):
    frame = pytest.importorskip("pandas").DataFrame(ROWS, columns=["a", "b", "c"])
    with pytest.raises(InvalidInput) as found:
        fit(PrivateRidge(bounds=bounds, target_bounds=(0, 1)), frame)
    assert words in str(found.value)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", [PrivateRidge, PrivateGLM])
def test_bounds_by_name_are_those_in_the_order_of_columns(kind):
    frame = pytest.importorskip("pandas").DataFrame(ROWS, columns=["a", "b", "c"])
    others = {"family": "gaussian"} if kind is PrivateGLM else {}
    named = {"c": (0, 3), "a": (0, 1), "b": (-1, 1)}
    found = [
        kind(bounds=bounds, target_bounds=(0, 1), epsilon=9.0, random_state=1, **others)
        .fit(frame, LABELS)
        .predict(frame)
        for bounds in (named, ([0, -1, 0], [1, 1, 3]))
    ]
    assert np.array_equal(*found)


def test_cells_that_are_no_numbers_say_what_to_do():
    missing, text = ROWS.copy(), ROWS.astype(object)
    missing[3, 1], text[3, 1] = math.nan, "secret cell"
    for estimator in (PrivateLogisticRegression(classes=[0, 1]), PrivateRidge()):
        with pytest.raises(InvalidInput, match=r"contains NaN: .*put a public constant there"):
            fit(estimator, missing)
        with pytest.raises(
            InvalidInput, match=r"holds text .*from a public list of values"
        ) as found:
            fit(estimator, text)
        assert "secret cell" not in str(found.value)
    with pytest.raises(InvalidInput, match="y contains NaN"):
        fit(PrivateRidge(), labels=np.where(LABELS, math.nan, 1.0))


def test_an_algorithm_of_an_estimator_that_is_mistyped():
    estimator = PrivateLogisticRegression(
        bounds=(0, 1), classes=[0, 1], algorithm="output-pertubation"
    )
    with pytest.raises(InvalidInput, match="did you mean 'output-perturbation'"):
        fit(estimator)
    with pytest.raises(InvalidInput, match="did you mean 'secure-sum'"):
        fit(PrivateLogisticRegression(bounds=(0, 1), classes=[0, 1], trust="secure sum"))


# ------------------------------------------------------------- words


def test_nothing_is_meant_by_a_name_that_is_like_none():
    assert did_you_mean("magic", ["statistics", "network"]) == ""
    assert did_you_mean("Net work", ["statistics", "network"]) == "; did you mean 'network'?"


def test_a_gauge_without_limit_is_no_share_of_it():
    drawn = str(gauge("each of 3 parties, such as oslo", math.inf, math.inf, words="no limit set"))
    assert "no protection, no limit" in drawn
    assert "of infinite" not in drawn
    assert "of no protection" not in drawn
    assert "2 of 3" in str(gauge("oslo", 2.0, 3.0, words=""))
