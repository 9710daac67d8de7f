"""The neighbour fuzzer at every entrance that scores records by a model: one record changes its own
row, and no other one by a bit.

Each table is many copies of one record whose score is nothing but rounding, others among them, in
sizes about multiples of 4, 8, 64 and 1024. A product of all rows at once rounds the last of them in
another way: in `unisono.evaluate` one record moved the counts of 7 (`test_..._would_be_noticed`).
"""

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, scale
from sklearn.svm import LinearSVC

import unisono
from unisono import judge
from unisono.attacks.neighbours import (
    SIZES,
    edge_weights,
    neighbour_tables,
    rows_apart,
    sign_depends_on_company,
)
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import Relation
from unisono.data.scaling import UnitScaling
from unisono.data.schema import Schema
from unisono.engines import in_process
from unisono.estimators import PrivateClassifier, PrivateLogisticRegression, PrivateRidge
from unisono.estimators import private_predictions as predictions
from unisono.estimators.averaged import AveragedModel
from unisono.estimators.judged_candidates import record_scores
from unisono.models import fitted as fitted_models
from unisono.models import model as models
from unisono.models import prediction as own_predictions
from unisono.models.fitted import FittedModel, portable_text
from unisono.models.prediction import HazardRatio, Layer, Scores
from unisono.models.registry import kind_read
from unisono.studies import build as building
from unisono.studies import search as searching
from unisono.studies.file import parse_study
from unisono.studies.stages import SplitRecords

WIDTH = 12
INPUTS = tuple(f"x{n}" for n in range(WIDTH))
CUTS = [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]
GENERATOR = np.random.default_rng(5)
# Records whose numbers are of very different size, and fit float32.
EDGE, OTHER = (
    np.float32(GENERATOR.normal(size=WIDTH) * 10 ** GENERATOR.uniform(0, 5, WIDTH) / 2**20)
    .clip(-1, 1)
    .astype(float)
    for _ in range(2)
)
ROW = np.append(EDGE, 1.0)
WEIGHTS = edge_weights(GENERATOR, ROW)
HUGE = 2.0**10 * WEIGHTS  # rounding of their scores is as large as chances can tell


by_blas = pytest.mark.skipif(
    not sign_depends_on_company(ROW, WEIGHTS),
    reason="matrix products of this machine round all rows alike",
)


class Given(Exception):
    """Carries what an algorithm would be given."""


# ------------------------------------------------------------------ entrances


def evaluated(model, X, y, **options):
    """The rows that `unisono.evaluate` would hand to the release, of one party."""

    def caught(study, parties, **_):
        raise Given(parties[0].data._value[0])

    policy = Policy("d", Budget(1e6, 1e-3), relation=Relation.ADD_OR_REMOVE)
    book = Ledger.in_memory(policy, unisono.ACCOUNTANT)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(in_process, "run", caught)
        with pytest.raises(Given) as found:
            unisono.evaluate(model, X, y, epsilon=1.0, ledger=book, records=300, **options)
    return found.value.args[0]


def in_memory(prediction, kind="logistic-regression", target=None):
    """A model as `unisono.load` reads it."""
    columns = {name: {"kind": "number", "bounds": (-1.0, 1.0)} for name in INPUTS}
    schema = Schema.model_validate({"columns": columns | (target or {})})
    result = {"title": "m", "fitted": {"settings": {}, "formula": ""}}
    return FittedModel(Path(), kind_read(kind), schema, prediction, result, {})


def linear(weights, link, **more):
    scale_ = UnitScaling(np.zeros(WIDTH), np.ones(WIDTH), None)
    labels = {} if link in ("identity", "exp") else {"labels": ("0", "1")}
    return Scores.linear(INPUTS, INPUTS, scale_, np.atleast_2d(weights), link, **labels | more)


def user(kind, weights=WEIGHTS, **more):
    """A model of scikit-learn with these weights."""
    model = kind(**more)
    model.classes_, model.n_features_in_ = np.array([0, 1]), WIDTH
    model.coef_, model.intercept_ = weights[None, :-1].copy(), weights[-1:].copy()
    if kind is LinearRegression:
        del model.classes_
        model.coef_ = weights[:-1].copy()
    return model


HAZARD = HazardRatio(
    INPUTS,
    INPUTS,
    -np.ones(WIDTH),
    np.ones(WIDTH),
    np.zeros(WIDTH),
    edge_weights(GENERATOR, EDGE),
    np.eye(WIDTH),
    np.array([0.0, 1.0]),
    np.array([1.0]),
    spread=1.0,
)
NETWORK = Scores(
    INPUTS,
    INPUTS,
    np.zeros(WIDTH),
    np.ones(WIDTH),
    (
        Layer(HUGE[:, None], np.zeros(1)),
        Layer(np.array([[-1.0, 1.0]]), np.zeros(2)),
    ),
    "softmax",
    labels=("0", "1"),
    activation="tanh",
)
INTERVALS = {"covariance": np.outer(WEIGHTS, WEIGHTS), "silence": "", "spread": 1.0}


class Risk:
    """A score of a user, higher where the event is expected sooner."""

    def predict(self, rows):
        return 1e9 * (np.asarray(rows) @ WEIGHTS[:-1] + WEIGHTS[-1])


def times(model, X, y, **more):
    y = np.asarray(y)
    return evaluated(model, X, 0.3 + y / 4, events=y, bounds=(0.0, 1.0), **more)


def numbers(model, X, y):
    return evaluated(model, X, np.asarray(y) / 2, bounds=(-9.0, 9.0))


@pytest.fixture(scope="module")
def estimators():
    """Fitted to next to nothing; their weights are put in."""
    X, y = np.random.default_rng(0).uniform(-1, 1, (40, WIDTH)), np.arange(40) % 2
    how = {"bounds": (-1.0, 1.0), "random_state": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logistic = PrivateLogisticRegression(3.0, 1e-4, classes=[0, 1], rounds=2, **how).fit(X, y)
        ridge = PrivateRidge(3.0, 1e-4, target_bounds=(-9.0, 9.0), **how).fit(X, y / 2)
        network = PrivateClassifier(
            3.0, 1e-4, classes=[0, 1], hidden=(1,), epochs=1, batch_size=4, **how
        ).fit(X, y)
    logistic._parameters, logistic._unit_rows = HUGE[None], False
    ridge._parameters = HUGE[None]
    network.parameters_ = {
        f"dense{n}": {"weights": own.weights, "bias": own.bias}
        for n, own in enumerate(NETWORK.layers)
    }
    return {
        "logistic": logistic,
        "ridge": ridge,
        "network": network,
        "average": AveragedModel([logistic, network]),
    }


EVALUATED = {
    "LinearSVC": lambda X, y: evaluated(user(LinearSVC), X, y),
    "LinearSVC-float32": lambda X, y: evaluated(user(LinearSVC), X.astype(np.float32), y),
    "LogisticRegression": lambda X, y: evaluated(user(LogisticRegression, HUGE), X, y),
    "LinearRegression": lambda X, y: numbers(user(LinearRegression, HUGE), X, y),
    "pipeline-that-scales": lambda X, y: evaluated(
        make_pipeline(FunctionTransformer(scale), user(LinearSVC)), X, y, classes=[0, 1]
    ),
    "risk": lambda X, y: times(Risk(), X, y, cuts=CUTS),
    "sign": lambda X, y: evaluated(in_memory(linear(WEIGHTS, "sign"), "linear-svm"), X, y),
    "logistic": lambda X, y: evaluated(in_memory(linear(HUGE, "logistic")), X, y),
    "averaged": lambda X, y: evaluated(
        in_memory(linear(HUGE, "logistic", **INTERVALS, averaged=True)), X, y
    ),
    "identity": lambda X, y: numbers(
        in_memory(linear(HUGE, "identity", **INTERVALS), "linear-regression"), X, y
    ),
    "network": lambda X, y: evaluated(in_memory(NETWORK, "network"), X, y),
    "hazards": lambda X, y: times(in_memory(HAZARD, "hazards"), X, y),
}


OWN = ("sign", "logistic", "averaged", "identity", "network", "hazards")
SMALL = tuple(size for size in SIZES if size < 100)  # of models that get one record at a time


def moved_others(entrance, sizes=SIZES, seed=1):
    """Tables that differ in one record, and in more than one row of what is made of them."""
    generator = np.random.default_rng(seed)
    found = []
    for size in sizes:
        copies = generator.random(size) < 0.9
        X = np.where(copies[:, None], EDGE, generator.uniform(-1, 1, (size, WIDTH)))
        y = np.where(copies, 1, generator.integers(0, 2, size))
        if generator.random() < 0.5:  # a sorted table
            order = np.argsort(X[:, 0], kind="stable")
            X, y = X[order], y[order]
        one = OTHER if generator.random() < 0.5 else EDGE
        before = entrance(X, y)
        other = one[None], np.array([0])
        for name, (rows, labels) in neighbour_tables(generator, (X, y), other):
            apart = rows_apart(before, entrance(rows, labels))
            if apart > (0 if name == "moved" else 1):
                found.append((size, name, apart))
    return found


@pytest.mark.parametrize("name", EVALUATED)
def test_one_record_changes_its_own_row_of_an_evaluation(name):
    assert moved_others(EVALUATED[name], SIZES if name in OWN else SMALL) == []


@pytest.mark.parametrize("name", ["logistic", "network", "average", "ridge"])
def test_nor_of_an_evaluation_of_a_fitted_estimator(estimators, name):
    how = numbers if name == "ridge" else evaluated
    assert moved_others(lambda X, y: how(estimators[name], X, y)) == []


@pytest.mark.parametrize("scoring", ["accuracy", "brier"])
@pytest.mark.parametrize("name", ["logistic", "network", "average", "ridge"])
def test_nor_of_the_scores_of_a_search(estimators, name, scoring):
    assert moved_others(lambda X, y: record_scores(estimators[name], scoring, X, y)[:, None]) == []


@pytest.mark.parametrize("features", [2, 3, 5, 8, 17, 33])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_nor_with_other_numbers_of_features(features, kind):
    """Copies of one record, and one fewer: one count fewer, in one cell."""
    generator = np.random.default_rng(features)
    row = np.round(generator.normal(size=features) * 10 ** generator.uniform(0, 5, features), 1)
    row = row.astype(kind)
    model = user(LinearSVC)
    model.coef_, model.intercept_ = edge_weights(generator, row)[None], np.zeros(1)
    model.n_features_in_ = features
    for size in (37, 40):
        found = evaluated(model, np.tile(row, (size, 1)), [1] * size)
        assert len(found) == size
        assert len(np.unique(found, axis=0)) == 1


# ------------------------------------------------------------------ studies


def study_text(model, more=""):
    columns = "\n".join(f'{name} = {{ kind = "number", bounds = [-1, 1] }}' for name in INPUTS)
    return f"""title = "t"
[data]
target = "y"
[data.columns]
{columns}
y = {{ kind = "category", values = ["0", "1"] }}
[[parties]]
name = "a"
records = 100
[privacy]
epsilon = 1
delta = 1e-4
[trust]
mode = "local"
[model]
{model}
{more}"""


def built_of(model, more=""):
    return building.build(parse_study(study_text(model, more)))


def values_of(X, y):
    named = dict(zip(INPUTS, X.T, strict=True))
    return {**{name: np.array(own) for name, own in named.items()}, "y": np.asarray(y, float)}


OUTPUT = '[algorithm]\nname = "output-perturbation"\n'
TEST = OUTPUT + "[evaluation]\nholdout = 0.2\nepsilon = 1\n"


def study_evaluation():
    """`unisono evaluate`, and a study of it between machines."""
    target = {"y": {"kind": "category", "values": ("0", "1")}}
    model = in_memory(linear(HUGE, "logistic"), target=target)
    schema = model.schema.model_copy(update={"target": "y"})
    model = FittedModel(Path(), model.kind, schema, model.prediction, model.result, {})
    text = portable_text(model).replace("\\", "\\\\").replace('"', '\\"')
    built = built_of(f'name = "evaluation"\njudged = "{text}"')
    return lambda X, y: built._encoded(values_of(X, y))[0]


def held_out(model, metrics, more=TEST):
    """`[evaluation]` of a study: one score, or all metrics."""
    built = built_of(f'name = "{model}"', more + metrics)
    row = built.posed.encode(values_of(EDGE[None], [1]))[0][0]
    row = row if metrics else row.astype(np.float32)
    value = edge_weights(np.random.default_rng(3), row)
    if metrics:
        return lambda X, y: built._judged(built.test.how, value, values_of(X, y))
    return lambda X, y: built.posed.scores(built.study, value, built._encoded(values_of(X, y)))[
        :, None
    ]


def searched():
    """`[search]` of a study: scores of all candidates and of their average."""
    grid = '[search]\naverage = true\n[search.grid]\n"algorithm.regularisation" = [0.1, 0.5]\n'
    built = built_of('name = "logistic-regression"', OUTPUT + grid)
    row = built.candidates[0]._encoded(values_of(EDGE[None], [1]))[0][0]
    generator = np.random.default_rng(3)
    found = {
        searching.stage_name(place): edge_weights(generator, row)
        for place in range(len(built.candidates))
    }

    def scores(X, y):
        values = values_of(X, y)
        return built._scores(SplitRecords(values, values), found)[0]

    return scores


STUDIES = {
    "evaluation": study_evaluation,
    "score-svm": lambda: held_out("linear-svm", ""),
    "score-logistic": lambda: held_out("logistic-regression", ""),
    "all-metrics-svm": lambda: held_out("linear-svm", 'metrics = "all"\n'),
    "all-metrics-logistic": lambda: held_out("logistic-regression", 'metrics = "all"\n'),
    "search": searched,
}


@pytest.mark.parametrize("name", STUDIES)
def test_one_record_changes_its_own_row_in_a_study(name):
    assert moved_others(STUDIES[name]()) == []


# ------------------------------------------------------------------ no matrix products of records

# Functions that read records before a bound, by name: encoders, scores and predictions.
ROWWISE = {
    *("encode", "encoded", "rows", "whole", "columns", "compute", "block", "labels", "inner"),
    *("score", "scores", "scored_rows", "record_scores", "layer_scores", "judged_columns"),
    *("predict", "predict_proba", "probabilities", "interval", "log_ratio", "decision_function"),
    *("_deviation", "_latent", "_chances", "_outputs", "_scores", "_judged", "_score_of", "_seen"),
}
PRODUCTS = {"dot", "matmul", "einsum", "tensordot", "vdot"}


def mixing(code):
    """Functions of records in which there is a matrix product."""
    for function in ast.walk(ast.parse(code)):
        if isinstance(function, ast.FunctionDef) and function.name in ROWWISE:
            for node in ast.walk(function):
                operator = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
                called = isinstance(node, ast.Attribute) and node.attr in PRODUCTS
                if operator or called:
                    yield function.name


def test_nothing_multiplies_records_before_a_bound():
    source = Path(unisono.__file__).parent
    files = [source / "judge.py", source / "survival.py", source / "describe.py"]
    for folder in ("data", "models", "estimators", "studies"):
        files += sorted((source / folder).glob("*.py"))
    known = {
        f.name
        for one in files
        for f in ast.walk(ast.parse(one.read_text()))
        if isinstance(f, ast.FunctionDef)
    }
    assert known >= ROWWISE
    found = {one.name: list(mixing(one.read_text())) for one in files}
    assert found.pop("hazards.py") == ["_scores"]  # of coefficients, after the release
    assert not any(found.values())
    assert list(mixing("def predict(X):\n    return X @ w")) == ["predict"]
    assert list(mixing("def score(X):\n    return np.dot(X, w)")) == ["score"]


# ------------------------------------------------------------------ controls


@pytest.fixture
def at_once(monkeypatch):
    """All rows at once, in matrix products, as they were computed before."""

    def whole(compute, *columns):
        return tuple(map(np.asarray, compute(*columns)))

    def by_name(compute, values):
        return tuple(map(np.asarray, compute(dict(values))))

    for module in (models, judge):
        monkeypatch.setattr(module, "in_blocks", whole)
    for module in (models, fitted_models, building, searching):
        monkeypatch.setattr(module, "values_in_blocks", by_name)
    monkeypatch.setattr(own_predictions, "row_product", lambda rows, weights: rows @ weights)
    monkeypatch.setattr(
        "unisono.models.linear.row_product", lambda rows, weights: rows @ np.asarray(weights, float)
    )

    def together(call, X, seats, rowwise):
        return list(call(X[seats[seats >= 0]]))

    monkeypatch.setattr(judge, "user_predictions", together)


@by_blas
@pytest.mark.parametrize(
    "name", ["LinearSVC", "LogisticRegression", "pipeline-that-scales", "risk", "sign", "network"]
)
def test_rows_that_are_computed_at_once_would_be_noticed(at_once, name):
    assert moved_others(EVALUATED[name]) != []


@by_blas
@pytest.mark.parametrize("name", ["evaluation", "score-svm", "all-metrics-svm"])
def test_rows_of_a_study_that_are_computed_at_once_would_be_noticed(at_once, name):
    assert moved_others(STUDIES[name]()) != []


def test_a_false_statement_that_rows_are_independent_would_be_noticed():
    """`rowwise=True` of a model that scales each block by its mean."""
    mixed = make_pipeline(FunctionTransformer(scale), user(LinearSVC))
    found = moved_others(
        lambda X, y: evaluated(mixed, X, y, classes=[0, 1], rowwise=True), sizes=(40, 65)
    )
    assert max(apart for *_, apart in found) > 3


@pytest.fixture
def one_order(monkeypatch):
    """Both worlds in one order, as the proof couples them (`data.order`)."""
    monkeypatch.setattr(judge, "shuffled", lambda rows, ledger: rows)


@pytest.mark.parametrize("kind", [LinearSVC, LogisticRegression])
def test_a_true_statement_leaves_others_as_they_are(one_order, kind):
    """Whoever is replaced, and where sizes are hidden whoever comes or goes: seats stay."""
    weights = WEIGHTS if kind is LinearSVC else HUGE
    generator = np.random.default_rng(4)
    for size in (5, 64, 65, 130):
        X, y = np.tile(EDGE, (size, 1)), np.ones(size, int)
        X[generator.integers(size)] = OTHER
        before = evaluated(user(kind, weights), X, y, rowwise=True)
        for bad in (OTHER, np.full(WIDTH, np.nan), np.full(WIDTH, np.inf)):
            rows = X.copy()
            rows[generator.integers(size)] = bad
            assert rows_apart(before, evaluated(user(kind, weights), rows, y, rowwise=True)) <= 1
        assert rows_apart(before, evaluated(user(kind, weights), X[:-1], y[:-1], rowwise=True)) == 1


def test_a_block_with_an_error_is_answered_record_by_record():
    """Each in its own seat, among copies of itself: others are answered as they were."""
    seen = []

    def call(rows):
        seen.append(len(rows))
        if np.isnan(rows).any():
            raise ValueError("NaN")
        return rows[:, 0]

    X = np.arange(70.0)[:, None]
    X[3] = np.nan
    seats = np.concatenate([np.arange(70), np.full(10, -1)])
    found = predictions.user_predictions(call, X, seats, rowwise=True)
    assert found[3] is None
    assert [one for one in found if one is not None] == [n for n in range(70) if n != 3]
    assert set(seen) == {predictions.BLOCK}
    assert predictions.user_predictions(call, X, seats, rowwise=False) == found
