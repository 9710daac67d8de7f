"""Estimators: scikit-learn's own checks, guarantees, parties, ledgers and bad input."""

import inspect
import math
import subprocess
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from unisono import estimators
from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import FINAL_MODEL, PARTY, SERVER, Relation
from unisono.data.scaling import scaling
from unisono.engines import compilation_cache, in_process
from unisono.errors import (
    BudgetExceeded,
    ClippedValues,
    FreshBudgetWarning,
    InvalidInput,
    PredictableNoiseWarning,
)
from unisono.estimators import (
    BayesianLogisticRegression,
    PrivateClassifier,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
    RepeatedFits,
    UnboundedFeatures,
    private_search,
    search,
)
from unisono.estimators import records as estimator_records
from unisono.estimators.members import membership

# A test's seeds and budgets are its own; that users are told of theirs is a test below.
pytestmark = pytest.mark.filterwarnings(
    "ignore::unisono.PredictableNoiseWarning", "ignore::unisono.FreshBudgetWarning"
)
LOGISTIC = {"bounds": (-3, 3), "classes": [0, 1], "rounds": 20}


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Compiled programs of the tests stay out of the user's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def toy(records=2000, features=3, seed=0):
    generator = np.random.default_rng(seed)
    X = np.clip(generator.normal(size=(records, features)), -3, 3)
    return X, (X @ np.arange(1, features + 1) - 0.5 > 0).astype(int)


# ------------------------------------------------------------- scikit-learn

# Two rounds: the checks are about manners, not about accuracy.
quietly = pytest.mark.filterwarnings(
    "ignore::unisono.estimators.UnboundedFeatures",
    "ignore::unisono.estimators.DrownedByNoise",
    "ignore::unisono.ClippedValues",
    "ignore::unisono.PrivacyWarning",
)


# Each of these compiles programs for shapes of its own. check_classifiers_train stays.
LONGER = {
    "check_classifiers_classes",
    "check_dtype_object",
    "check_pipeline_consistency",
    "check_supervised_y_2d",
    "check_classifier_data_not_an_array",
    "check_estimators_dtypes",
    "check_fit_check_is_fitted",
    "check_decision_proba_consistency",
    "check_f_contiguous_array_estimator",
    "check_estimators_overwrite_params",
    "check_positive_only_tag_during_fit",
    "check_n_features_in_after_fitting",
    "check_fit2d_1feature",
}


def named(check):
    """A check's name with its arguments, as scikit-learn shows it."""
    given = ",".join(f"{key}={value}" for key, value in check.keywords.items())
    return check.func.__name__ + (f"({given})" if given else "")


# A record of weight two is no two records: noise depends on how many there are, by every promise.
NOT_TRUE = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}
CHECKS = [
    pytest.param(
        estimator,
        check,
        id=named(check),
        marks=[pytest.mark.slow] if check.func.__name__ in LONGER else [],
    )
    for estimator, check in estimator_checks_generator(
        PrivateLogisticRegression(rounds=2, largest_weight=10.0)
    )
    if check.func.__name__ not in NOT_TRUE
]


@quietly
@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_checks(estimator, check, labels_are_public):
    check(estimator)


@quietly
@pytest.mark.slow
@parametrize_with_checks(
    [PrivateLinearSVC(rounds=2, largest_weight=10.0), PrivateRidge(rounds=2, largest_weight=10.0)],
    expected_failed_checks=lambda _: dict.fromkeys(NOT_TRUE, "noise depends on how many there are"),
)
def test_scikit_learn_checks_of_the_others(estimator, check, labels_are_public):
    check(estimator)


def test_import_is_light():
    """Neither the package nor its command line loads scikit-learn; estimators load JAX late."""
    code = (
        "import sys, unisono, unisono.cli; assert 'sklearn' not in sys.modules\n"
        "import unisono.estimators; assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --------------------------------------------------------------- guarantees


@pytest.mark.parametrize(
    "relation", ["replace-one", "add-or-remove", pytest.param("zero-out", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("algorithm", "least"), [("gradient-perturbation", 0.699), ("auto", 0.68)])
def test_the_certificate_holds_the_budget(relation, algorithm, least):
    """Two stages share a promise in steps of a thirty-second of it."""
    X, y = toy(500)
    extra = {"records": 500} if relation == "add-or-remove" else {}
    extra |= {"relation": relation, "algorithm": algorithm}
    model = PrivateLogisticRegression(0.7, 1e-6, **LOGISTIC, **extra).fit(X, y)
    epsilon = model.certificate_.epsilon(FINAL_MODEL, Relation(relation))
    assert least < epsilon <= 0.7
    assert model.epsilon_spent_ == pytest.approx(epsilon)
    assert not model.certificate_.simulated


def test_a_seed_is_a_simulation_and_repeats():
    X, y = toy(300)
    first, second, third = (
        PrivateLogisticRegression(random_state=seed, **LOGISTIC).fit(X, y) for seed in (1, 1, 2)
    )
    assert first.certificate_.simulated
    assert "SIMULATION" in first.certificate_.text()
    assert np.array_equal(first.coef_, second.coef_)
    assert not np.array_equal(first.coef_, third.coef_)


def test_records_that_are_added_up_in_blocks_stand_in_a_secret_order(monkeypatch):
    """In a sorted array one record that is replaced moves many others into other blocks."""
    drawn, read = [], []

    def order(records, key):
        drawn.append(np.random.default_rng(5).permutation(records))
        return drawn[-1]

    def fitted(study, parties, run=in_process.run, **more):
        read.append(parties[0].data._value)
        return run(study, parties, **more)

    monkeypatch.setattr(estimator_records, "secret_order", order)
    monkeypatch.setattr(in_process, "run", fitted)
    X, y = toy(300)
    for seed in (1, None):  # a simulation's are as they are given
        PrivateLogisticRegression(1.0, 1e-6, random_state=seed, **LOGISTIC).fit(X, y)
    assert len(drawn) == 1
    for plain, other in zip(read[:2], read[2:], strict=True):  # moments, and then gradients
        for own, shuffled in zip(plain, other, strict=True):
            np.testing.assert_array_equal(own[drawn[0]], shuffled)


def test_parties_under_a_secure_sum():
    """By default the promise holds against one curious party too."""
    X, y = toy()
    hospital = np.array(["north", "south", "east", "west"])[np.arange(len(X)) % 4]
    model = PrivateLogisticRegression(1.0, 1e-6, random_state=0, **LOGISTIC)
    model.fit(X, y, parties=hospital)
    certificate = model.certificate_
    assert (certificate.parties, certificate.colluders) == (4, 1)
    assert certificate.epsilon(PARTY, Relation.REPLACE_ONE) <= 1.0
    assert model.score(X, y) > 0.9
    brave = clone(model).set_params(colluders=0, ledger=None, algorithm="gradient-perturbation")
    with pytest.warns(RepeatedFits, match=r"epsilon = 2 at delta = 2e-06"):
        brave.fit(X, y, parties=hospital)
    assert brave.certificate_.epsilon(FINAL_MODEL, Relation.REPLACE_ONE) <= 1.0
    assert brave.certificate_.epsilon(PARTY, Relation.REPLACE_ONE) > 1.1
    assert brave.epsilon_spent_ > 1.1


def test_a_trusted_server_sees_everything():
    X, y = toy(200)
    model = PrivateLogisticRegression(trust="trusted-server", random_state=0, **LOGISTIC)
    model.fit(X, y, parties=np.arange(200) % 2)
    assert math.isinf(model.certificate_.epsilon(SERVER, Relation.REPLACE_ONE))
    assert model.epsilon_spent_ <= 1.0


# Rows that are subnormal in a unit of 1 lose their last bits; nothing here depends on them.
NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


@settings(max_examples=60, deadline=None)
@given(
    rows=arrays(float, (5, 3), elements=NUMBERS),
    bounds=st.sampled_from([None, 2.5, (-1, 4), ([1, -9, -5], [2, -3, 5])]),
)
def test_rows_lie_in_the_unit_ball_and_are_scaled_alone(rows, bounds):
    scale = scaling(bounds, 3)
    scaled, lengths = scale.rows(rows)
    assert (np.linalg.norm(scaled, axis=1) <= 1 + 1e-12).all()
    assert (lengths >= 1).all()
    assert np.array_equal(scaled[2], scale.rows(rows[2:3])[0][0])


# ------------------------------------------------------------------ learning


def test_coefficients_speak_of_the_users_units():
    X, y = toy()
    X = X * [1.0, 10.0, 100.0] + [0.0, 50.0, -500.0]
    bounds = np.array([[-3.0, 20.0, -800.0], [3.0, 80.0, -200.0]])
    model = PrivateLogisticRegression(5.0, bounds=bounds, classes=[0, 1], random_state=0).fit(X, y)
    scores = X @ model.coef_[0] + model.intercept_[0]
    assert np.array_equal(model.classes_[(scores > 0).astype(int)], model.predict(X))
    assert model.score(X, y) > 0.9


@pytest.mark.slow
def test_many_classes():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(3000, 4))
    y = np.array(["a", "b", "c", "d"])[X.argmax(axis=1)]
    model = PrivateLogisticRegression(
        2.0, bounds=6.0, classes=list("abcd"), random_state=0, rounds=60
    ).fit(X, y)
    assert model.coef_.shape == (4, 4)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    assert model.score(X, y) > 0.8


def test_support_vectors():
    X, y = toy()
    model = PrivateLinearSVC(1.0, bounds=(-3, 3), classes=[0, 1], random_state=0, rounds=60)
    assert model.fit(X, y).score(X, y) > 0.9


def test_ridge_finds_the_plane():
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, size=(20_000, 2))
    y = 30 + 5 * X[:, 0] - 3 * X[:, 1] + generator.uniform(-1, 1, 20_000)
    model = PrivateRidge(
        1.0, bounds=(-1, 1), target_bounds=(20, 40), random_state=0, rounds=60
    ).fit(X, y)
    assert model.intercept_ == pytest.approx(30, abs=0.5)
    assert model.coef_ == pytest.approx([5, -3], abs=0.5)
    assert model.predict(X) == pytest.approx(X @ model.coef_ + model.intercept_)


# ----------------------------------------------------------- ledgers, tuning


def book(epsilon=3.0, delta=1e-4, seed=0, relation=Relation.REPLACE_ONE):
    policy = Policy("ages", Budget(epsilon, delta), relation=relation)
    return Ledger.in_memory(policy, ACCOUNTANT, seed=seed)


def test_one_ledger_pays_for_all_fits_and_refuses_the_last():
    X, y = toy(200)
    ledger = book(epsilon=1.2, delta=1e-5)
    model = PrivateLogisticRegression(1.0, 1e-5, ledger=ledger, **LOGISTIC)
    model.fit(X, y)
    with pytest.raises(BudgetExceeded, match="'ages'"):
        clone(model).fit(X, y)
    assert ledger.grants == 2  # the two stages of the first fit


def test_grid_search_is_charged_for_every_fit():
    X, y = toy(200)
    ledger = book(epsilon=50.0)
    model = PrivateLogisticRegression(1.0, 1e-5, ledger=ledger, **LOGISTIC)
    grid = GridSearchCV(model, {"regularisation": [0.0, 0.1]}, cv=2, error_score="raise")
    grid.fit(X, y)
    assert ledger.grants == 2 * (2 * 2 + 1)  # a fit has two stages
    alone = model.set_params(ledger=None).fit(X, y)
    with pytest.warns(RepeatedFits, match=r"fit number 2 .* epsilon = 2 at"):
        clone(alone).fit(X, y)
    with pytest.warns(RepeatedFits, match="fit number 3"):
        clone(clone(alone)).fit(X, y)


@pytest.mark.slow
def test_pipeline():
    X, y = toy(500)
    pipe = make_pipeline(
        FunctionTransformer(np.tanh),
        PrivateLogisticRegression(bounds=(-1, 1), classes=[0, 1], random_state=0),
    )
    pipe.fit(X, y, privatelogisticregression__parties=np.arange(500) % 2)
    assert pipe[-1].certificate_.parties == 2
    assert pipe.predict(X).shape == (500,)


def test_private_search_pays_for_fits_and_choice():
    X, y = toy(3000)
    candidates = [
        PrivateLogisticRegression(1.0, 1e-6, regularisation=r, **LOGISTIC) for r in (50.0, 0.0)
    ]
    chosen = private_search(candidates, X, y, epsilon=0.5, random_state=0)
    assert chosen.position == 1  # the other one always says the same class
    assert chosen.ledger.grants == 2 * 2 + 1  # a fit has two stages
    assert 1.5 < chosen.epsilon <= 2.5
    assert chosen.delta == pytest.approx(2e-6)
    poor = book(epsilon=1.0)
    with pytest.raises(BudgetExceeded):
        private_search(candidates, X, y, epsilon=0.5, ledger=poor, random_state=0)
    with pytest.raises(InvalidInput, match="public classes"):
        private_search([PrivateLogisticRegression()], X, y, epsilon=0.5)
    declared = PrivateLogisticRegression(classes=[0, 1], columns={"age": {"kind": "true-false"}})
    with pytest.raises(InvalidInput, match="on arrays of numbers"):
        private_search([declared], X, y, epsilon=0.5)
    with pytest.raises(InvalidInput, match="without candidates"):
        private_search([], X, y, epsilon=0.5)


WIDE = 2**53  # the next whole number is none of the doubles


@pytest.mark.parametrize("last", [float(WIDE), str(WIDE), np.float32(WIDE)])
@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(bounds=(-1, 1), classes=[WIDE, WIDE + 1]),
        BayesianLogisticRegression(bounds=(-1, 1), classes=[WIDE, WIDE + 1]),
        BayesianLogisticRegression(bounds=(-1, 1), classes=[WIDE, WIDE + 1], rounds=2),
        PrivateClassifier(bounds=(-1, 1), classes=[WIDE, WIDE + 1], hidden=(2,)),
    ],
    ids=lambda model: type(model).__name__ + "-rounds" * (getattr(model, "rounds", None) == 2),
)
def test_one_label_never_decides_how_another_is_read(monkeypatch, model, last):
    """As one array, labels with a single float are floats, and with a single text they are text."""
    seen = []

    def caught(_, parties, **__):
        columns = [np.asarray(column) for column in parties[0].data._value]
        # Generalised linear models have the label in the row, after its two features.
        seen.append(columns[1] if len(columns) == 2 else columns[0][:, 2])
        raise InterruptedError

    monkeypatch.setattr(in_process, "run", caught)
    monkeypatch.setattr(estimator_records, "secret_order", lambda records, key: np.arange(records))
    X = np.linspace(-1, 1, 16).reshape(8, 2)
    labels = [WIDE + 1, WIDE] * 4
    for own in (labels, [*labels[:-1], last]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(InterruptedError):
                model.fit(X, own)
    assert np.array_equal(*seen)
    assert len(np.unique(seen[0])) == 2


def test_a_judge_that_cannot_be_read_is_a_miss():
    """Not a number among the scores would have stopped the search after all fits were paid for."""
    chosen = PrivateRidge(bounds=(-1, 1), target_bounds=(-1, 1))
    chosen.predict = lambda X: np.zeros(len(X))
    assert search._score(chosen, np.zeros((3, 1)), [0.0, float("nan"), "n/a"]) == 1.0
    classifier = PrivateLogisticRegression(**LOGISTIC)
    classifier.classes_, classifier.predict = np.array([0, 1]), lambda X: np.ones(len(X), int)
    assert search._score(classifier, np.zeros((4, 1)), [1, 1.0, "n/a", None]) == 2.0


def test_what_the_user_is_told():
    X, y = toy(200)
    with pytest.warns(UnboundedFeatures, match="only its direction"):
        model = PrivateLogisticRegression(0.1, classes=[0, 1], rounds=5).fit(X, y)
    assert "booked in memory" in " ".join(model.statements_)
    assert (model.bounds_, model.bounds_epsilon_) == (None, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PrivateLogisticRegression(ledger=book(), **LOGISTIC).fit(X, y)
    assert model.statements_ == ()


def warned(category, match, model, X, y):
    """Told before anything is spent: whoever makes an error of it keeps the whole budget."""
    ledger = model.ledger
    with warnings.catch_warnings():
        warnings.simplefilter("error", category)
        with pytest.raises(category, match=match):
            model.fit(X, y)
    assert ledger is None or ledger.grants == 0
    with pytest.warns(category, match=match) as told:
        model.fit(X, y)
    assert {one.filename for one in told} == {__file__}
    return model


def test_predictable_noise_and_fresh_budgets_are_told():
    X, y = toy(200)
    model = warned(
        PredictableNoiseWarning,
        "SIMULATION: .* no privacy",
        PrivateLogisticRegression(random_state=0, **LOGISTIC),
        X,
        y,
    )
    assert "SIMULATION" in " ".join(model.statements_)
    model = warned(
        FreshBudgetWarning,
        r"forgotten with the process.*pass ledger=unisono.open_ledger",
        PrivateLogisticRegression(**LOGISTIC),
        X,
        y,
    )
    with pytest.warns(FreshBudgetWarning) as told:
        model.fit(X, y)
    assert [one.category for one in told] == [RepeatedFits]
    with pytest.warns(PredictableNoiseWarning):
        private_search([PrivateLogisticRegression(**LOGISTIC)], X, y, epsilon=1.0, random_state=0)
    with pytest.warns(FreshBudgetWarning):
        private_search([PrivateLogisticRegression(**LOGISTIC)], X, y, epsilon=1.0)


def test_values_outside_the_bounds_are_clipped_and_whoever_holds_them_is_told():
    """As study files and statistics do: each record by itself, never refused."""
    X, y = toy(200)
    X[7] = [50, 0, 0]
    seeded = dict(LOGISTIC, ledger=book(seed=3))
    clipped = PrivateLogisticRegression(**seeded).fit(X.clip(-3, 3), y)
    seeded["ledger"] = book(seed=3)
    model = warned(
        ClippedValues,
        r"1 of 200 values of feature 0 of party .* bounds -3 to 3 and are clipped",
        PrivateLogisticRegression(**seeded),
        X,
        y,
    )
    assert np.array_equal(model.coef_, clipped.coef_)
    long = PrivateLogisticRegression(**(LOGISTIC | {"bounds": 10.0, "ledger": book()}))
    warned(ClippedValues, "1 of 200 lengths of rows .* 0 to 10", long, X, y)
    ridge = PrivateRidge(1.0, 1e-5, bounds=(-50, 50), target_bounds=(0, 1), ledger=book(), rounds=2)
    warned(ClippedValues, "targets lie outside the public bounds 0 to 1 and", ridge, X, 2.0 * y)


@pytest.mark.parametrize(
    "estimator",
    [PrivateLogisticRegression, PrivateLinearSVC, PrivateClassifier, BayesianLogisticRegression],
)
def test_labels_are_never_read_from_the_records(estimator):
    """A rare label would be published by its mere presence in `classes_`."""
    X, y = toy(60)
    model = estimator(bounds=(-3, 3), ledger=book())
    with pytest.raises(InvalidInput, match=r"classes = None: .* rare .* pass classes=\[...\]"):
        model.fit(X, y)
    assert model.ledger.grants == 0
    assert not hasattr(model, "classes_")


# ----------------------------------------------------------------- bad input


def refused(match, X=None, y=None, parties=None, cls=PrivateLogisticRegression, **options):
    """The fit raises before anything is spent."""
    rows, labels = toy(60)
    ledger = options.pop("ledger", None) or book(relation=options.pop("book", "replace-one"))
    model = cls(**({**LOGISTIC, "ledger": ledger} | options))
    with pytest.raises(ValueError, match=match):
        model.fit(rows if X is None else X, labels if y is None else y, parties=parties)
    if isinstance(ledger, Ledger):
        assert ledger.grants == 0


def test_bad_records():
    X, y = toy(60)
    broken = X.copy()
    broken[3, 1] = np.nan
    refused("NaN", broken)
    refused("inconsistent numbers", X, y[:-1])
    refused("one class only", X, np.zeros(60), classes=[0])
    refused("not among the public classes", X, y + 1)
    refused("Only binary", X, np.arange(60) % 3, cls=PrivateLinearSVC, classes=[0, 1, 2])


def test_bad_parties():
    refused("one party label for each row", parties=[1, 2])
    refused("no party label", parties=[math.nan] * 60)
    refused("one value for each record", parties=np.full((60, 1), "a"))
    refused("no party label", parties=[None] + ["a"] * 59)
    refused("one party alone", trust="secure-sum")
    half = np.array(["a", "b"])[np.arange(60) % 2]
    refused("one ledger for 2 parties", parties=half)
    refused("hold no records", parties=half, ledger={"a": book(), "b": book(), "c": book()})
    refused("lacks \\['b'\\]", parties=half, ledger={"a": book()})
    refused("give a Ledger", ledger="book")
    refused("no honest party", parties=half, colluders=2, ledger={"a": book(), "b": book()})


def test_bad_parameters():
    for name in ("epsilon", "delta", "regularisation", "rounds"):
        for value in (math.nan, -1.0, math.inf):
            refused(name, **{name: value})
    refused("no pure epsilon", delta=0.0, algorithm="gradient-perturbation")
    refused("relation = 'none'", relation="none")
    refused("trust = 'blind'", trust="blind")
    refused("algorithm = 'magic'", algorithm="magic")
    refused("cannot be read from the data", relation="add-or-remove")
    refused("whole number", relation="add-or-remove", records=0)
    refused("leave it out", records=60)
    refused("positive", bounds=-1.0)
    refused("lowest value", bounds=(1, -1))
    refused("shape", bounds=[1, 2, 3])
    refused("not finite", bounds=(-math.inf, 1))
    refused("the ledger is real", random_state=1, ledger=book(seed=None))
    for wrong in ((1, 0), "ab", 3, (0, math.inf)):
        with pytest.raises(InvalidInput, match="target_bounds"):
            PrivateRidge(target_bounds=wrong).fit(*toy(10))


def test_unfitted():
    with pytest.raises(NotFittedError):
        PrivateLogisticRegression().predict([[1.0]])


def test_compilation_cache_is_in_the_users_folder(tmp_path, monkeypatch):
    import jax

    before = jax.config.jax_compilation_cache_dir
    try:
        jax.config.update("jax_compilation_cache_dir", None)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert compilation_cache.enable() == tmp_path / "unisono" / "jax"
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
        assert compilation_cache.enable() == tmp_path / "unisono" / "jax"
        (tmp_path / "file").touch()
        jax.config.update("jax_compilation_cache_dir", None)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        assert compilation_cache.enable() is None
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


# ---------------------------------------------------------------- algorithms


@pytest.mark.parametrize(
    ("name", "accuracy"),
    [
        ("gradient-perturbation", 0.9),
        ("objective-perturbation", 0.9),
        # Its noise is the largest by far. The next test runs it in the fast suite.
        pytest.param("output-perturbation", 0.7, marks=pytest.mark.slow),
        ("dp-sgd-convex", 0.9),
    ],
)
def test_every_algorithm_learns_within_its_budget(name, accuracy):
    X, y = toy(4000)
    model = PrivateLogisticRegression(
        2.0, 1e-5, algorithm=name, random_state=0, **(LOGISTIC | {"rounds": 60})
    )
    model.fit(X, y)
    assert model.certificate_.epsilon(FINAL_MODEL, Relation.REPLACE_ONE) <= 2.0
    assert model.epsilon_spent_ <= 2.0
    assert model.certificate_.algorithm == name
    assert model.score(X, y) > accuracy


def test_pure_epsilon_is_output_perturbation():
    X, y = toy(4000)
    model = PrivateLogisticRegression(2.0, 0.0, random_state=0, **LOGISTIC).fit(X, y)
    assert model.certificate_.algorithm == "output-perturbation"
    assert model.certificate_.epsilon(FINAL_MODEL, Relation.REPLACE_ONE) <= 2.0
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize(
    "parties",
    [pytest.param(None, marks=pytest.mark.slow), np.repeat([0, 1, 2], [300, 200, 100])],
    ids=["one", "several"],
)
def test_pure_epsilon_for_numbers(parties):
    """A regression has no classes, and the ridge of the rule keeps its noise short: without that R²
    was far below -1000."""
    X = np.random.default_rng(0).uniform(-1, 1, (600, 3))
    y = X @ [1.0, 0.5, -0.5]
    options = {"bounds": (-1, 1), "target_bounds": (-2, 2), "random_state": 0}
    for algorithm in ("auto", "output-perturbation"):
        model = PrivateRidge(20.0, 0.0, algorithm=algorithm, **options).fit(X, y, parties=parties)
        taken = "adaptive-statistics" if algorithm == "auto" else algorithm
        assert model.certificate_.algorithm == taken
        assert model.certificate_.epsilon(FINAL_MODEL, Relation.REPLACE_ONE) <= 20.0
        assert model.score(X, y) > 0.2


def fitted_without_delta(kind):
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    takes = inspect.signature(kind).parameters
    given = {"bounds": (-1, 1), "target_bounds": (-2, 2), "classes": [0, 1]}
    said = {name: value for name, value in given.items() if name in takes}
    model = kind(epsilon=5.0, delta=0.0, random_state=0, **said)
    return model.fit(X, (X[:, 0] > 0).astype(int) if "classes" in takes else X[:, 0])


GAUSSIAN = ("BayesianLogisticRegression", "PrivateClassifier", "PrivateGLM", "PrivateRegressor")
OTHERS = sorted(
    name
    for name in estimators.__all__
    if hasattr(getattr(estimators, name), "fit") and name not in (*GAUSSIAN, "PrivateSearch")
)  # a search has what its estimator has: tests/test_model_choice.py


@pytest.mark.parametrize("name", GAUSSIAN)
def test_who_has_no_pure_epsilon_names_who_does(name):
    with pytest.raises(InvalidInput, match="nothing was spent") as refused:
        fitted_without_delta(getattr(estimators, name))
    for word in (f"with {name}", "delta in (0, 1)", "output-perturbation", "one-shot-regression"):
        assert word in str(refused.value)
    for other in OTHERS:
        assert other in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_every_other_estimator_keeps_pure_epsilon(name):
    certificate = fitted_without_delta(getattr(estimators, name)).certificate_
    assert certificate.epsilon(FINAL_MODEL, Relation.REPLACE_ONE) <= 5.0
    assert {line.delta for line in certificate.lines} == {0.0}


def test_objective_perturbation_has_no_shares():
    with pytest.raises(InvalidInput, match="cannot come in shares"):
        PrivateLogisticRegression(algorithm="objective-perturbation", **LOGISTIC).fit(
            *toy(60), parties=np.arange(60) % 3
        )


@pytest.mark.parametrize("odd", ["x", 2.5, True, 10**30])
def test_one_row_never_renames_the_party_of_another(odd):
    """As one array, a single label that is text or no whole number would rename all others."""
    alike = [
        [1, 2, 2],
        [1.0, 2.0, 2.0],
        np.array([1, 2, 2]),
        np.array(["1", "2", "2"]),
        ["1", 2, 2.0],
    ]
    for labels in alike:
        assert membership(labels, 3).names == ("1", "2")
    names, rows = (getattr(membership([1, 2, odd], 3), part) for part in ("names", "rows"))
    found = {name: own.tolist() for name, own in zip(names, rows, strict=True)}
    assert (found["1"], found["2"]) == ([0], [1])
