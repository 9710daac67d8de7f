"""Regressions by Fisher scoring under other names: ridge and posteriors, and how one is chosen."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from scipy.special import expit
from sklearn.linear_model import LinearRegression

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.adaptive_statistics import SummedProducts, minimiser
from unisono.algorithms.fisher_scoring import Fitted, terms_for
from unisono.algorithms.regression_choice import choice_of, predicted_loss
from unisono.core.algorithm import agree_facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.errors import InvalidInput
from unisono.estimators import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    DrownedByNoise,
    PrivateGLM,
    PrivateRidge,
)
from unisono.models.line import PREDICTION, believed_share, under_prior
from unisono.problems.gaussian_family import Natural, pack

from . import methods

pytestmark = pytest.mark.filterwarnings(
    "ignore::unisono.PredictableNoiseWarning", "ignore::unisono.FreshBudgetWarning"
)
LOW, HIGH = np.array([18.0, 0.0, 0.0]), np.array([95.0, 1.0, 60.0])
BOUNDS, TARGETS, SLOPES = (LOW, HIGH), (0.0, 200.0), np.array([0.5, 6.0, 0.8])
PARTY = np.arange(6000) % 3


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Compiled programs of the tests stay out of the user's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def survey(records=6000, seed=0):
    """Columns that fill little of their ranges, one of 0 and 1; R² of a third."""
    random = np.random.default_rng(seed)
    X = np.column_stack(
        [
            random.normal(52, 12, records),
            random.random(records) < 0.3,
            np.exp(random.normal(2.2, 0.5, records)),
        ]
    ).clip(LOW, HIGH)
    y = 60 + X @ SLOPES + 11 * random.standard_normal(records)
    return X, y.clip(*TARGETS)


def book(seed=0, epsilon=1.0, delta=1e-6):
    return Ledger.in_memory(Policy("ages", Budget(epsilon, delta)), ACCOUNTANT, seed=seed)


# ------------------------------------------------------------- ridge


def test_ridge_keeps_nearly_all_of_least_squares_and_says_how():
    """Four other seeds of the noise lost between nothing and .011."""
    X, y = survey()
    books = {party: book(party) for party in range(3)}
    model = PrivateRidge(1.0, 1e-6, bounds=BOUNDS, target_bounds=TARGETS, ledger=books)
    model.fit(X, y, parties=PARTY)
    test, true = survey(4000, 1)
    plain = LinearRegression().fit(X, y).score(test, true)
    assert model.score(test, true) > plain - 0.02
    assert model.algorithm_ == "fisher-scoring"
    assert "R² lost is predicted" in model.reason_
    assert model.reason_ in " ".join(model.statements_)
    assert model.predict(test) == pytest.approx(test @ model.coef_ + model.intercept_)
    assert model.epsilon_spent_ <= 1.0 + 1e-9
    assert all(own.grants == 2 for own in books.values())  # counts of columns, then rounds


def test_a_ridge_is_the_one_that_is_asked_for():
    X, y = survey()
    penalty = 0.05
    model = PrivateRidge(
        50.0,
        1e-6,
        bounds=BOUNDS,
        target_bounds=TARGETS,
        regularisation=penalty,
        random_state=0,
        algorithm="fisher-scoring",
    ).fit(X, y)
    rows = np.column_stack([(X - model._scaling.shift) / model._scaling.scale, np.ones(len(X))])
    target = (y - 100) / 100
    expected = np.linalg.solve(
        rows.T @ rows / len(X) + penalty * np.eye(4), rows.T @ target / len(X)
    )
    found = np.r_[model.coef_ * model._scaling.scale, model.predict(LOW * [[1, 0, 0]])]
    assert found[:3] / 100 == pytest.approx(expected[:3], abs=0.03)
    loose = PrivateRidge(
        50.0,
        1e-6,
        bounds=BOUNDS,
        target_bounds=TARGETS,
        regularisation=0.0,
        random_state=0,
        algorithm="fisher-scoring",
    ).fit(X, y)
    assert loose.coef_ == pytest.approx(LinearRegression().fit(X, y).coef_, rel=0.15)


def test_what_scoring_cannot_do_is_refused_or_left_to_others():
    X, y = survey(300)
    options = {"bounds": BOUNDS, "target_bounds": TARGETS, "random_state": 0}
    with pytest.raises(InvalidInput, match="needs delta > 0"):
        PrivateRidge(1.0, 0.0, algorithm="fisher-scoring", **options).fit(X, y)
    assert PrivateRidge(1.0, 0.0, **options).fit(X, y).algorithm_ == "adaptive-statistics"
    assert PrivateRidge(1.0, 1e-6, rounds=5, **options).fit(X, y).algorithm_ == (
        "gradient-perturbation"
    )
    with pytest.raises(InvalidInput, match="algorithm = 'newton': choose one of auto, fisher"):
        PrivateRidge(algorithm="newton").fit(X, y)


def test_numbers_between_0_and_1_are_numbers():
    """A range is a unit of measurement: the same records in another one, the same line."""
    X, y = survey(3000)
    other = (X - LOW) / (HIGH - LOW)
    options = {"target_bounds": TARGETS, "random_state": 3, "algorithm": "fisher-scoring"}
    wide = PrivateRidge(1.0, 1e-6, bounds=(100 * LOW, 100 * HIGH), **options).fit(100 * X, y)
    unit = PrivateRidge(1.0, 1e-6, bounds=(0.0 * LOW, 0.0 * LOW + 1), **options).fit(other, y)
    assert unit.predict(other) == pytest.approx(wide.predict(100 * X), abs=1e-2)
    assert unit.score(other, y) > LinearRegression().fit(X, y).score(X, y) - 0.05


def test_where_noise_drowns_a_table_slopes_predict_no_worse_than_the_mean():
    """200 records at epsilon .1: R² of predictions about their own mean, which is 0 for the mean
    alone. With a prior that does not know of the noise these seeds have -.51 on average."""
    found = []
    for seed in range(8):
        X, y = survey(200, seed)
        options = {"bounds": BOUNDS, "target_bounds": TARGETS, "random_state": seed}
        model = PrivateRidge(0.1, 1e-6, algorithm="fisher-scoring", **options).fit(X, y)
        test, true = survey(2000, 100 + seed)
        found.append(1 - np.var(true - model.predict(test)) / np.var(true))
    assert np.mean(found) > -0.02


def test_less_is_believed_of_columns_only_where_noise_drowns_them():
    facts = agree_facts((5000, 5000), 5, Trust.SECURE_SUM)
    for epsilon, low, high in ((1.0, 1.0, 1.0), (0.02, 0.0, 0.2)):
        method = methods.fisher_scoring("gaussian", 4, epsilon, 1e-6, **PREDICTION)
        study = Study(method, facts, Trust.SECURE_SUM)
        state, _ = study.begun(None).algorithm.init(facts)
        state = state._replace(round=1, records=np.full(len(state.records), 10_000.0))
        assert low <= believed_share(terms_for(study), state) <= high


# ------------------------------------------------------------- the choice


def planned(records, features, epsilon, delta=1e-6):
    facts = agree_facts((records // 2, records // 2), features + 1, Trust.SECURE_SUM)
    scored = methods.fisher_scoring("gaussian", features, epsilon, delta, **PREDICTION)
    made = {
        "fisher-scoring": scored,
        "adaptive-statistics": methods.adaptive_statistics(epsilon, delta),
        "gradient-perturbation": methods.gradient_perturbation(epsilon, delta, loss="squares"),
    }
    return {name: Study(method, facts, Trust.SECURE_SUM) for name, method in made.items()}


def test_predictions_fall_with_epsilon_and_the_least_is_taken():
    for name in planned(4000, 4, 1.0):
        lost = [predicted_loss(planned(4000, 4, epsilon)[name]) for epsilon in (0.1, 1.0, 10.0)]
        assert lost[0] > lost[1] > lost[2] > 0
    studies = planned(4000, 4, 1.0)
    found = choice_of(studies)
    assert found.lost == {name: predicted_loss(study) for name, study in studies.items()}
    assert found.lost[found.algorithm] == min(found.lost.values())
    assert all(name in found.reason for name in studies if name != found.algorithm)
    assert found.algorithm == "fisher-scoring"
    assert choice_of(planned(200, 4, 0.3)).algorithm != "fisher-scoring"


def test_a_ridge_follows_the_noise_of_sums():
    """Without noise none; with noise that hides the smallest eigenvalue, as much as that has."""
    rows = np.random.default_rng(0).normal(size=(500, 3)) / 4
    theta = np.array([0.5, -0.2, 0.1])
    sums = pack(Natural(rows.T @ (rows @ theta), rows.T @ rows))
    state = SummedProducts(sums, 500.0)
    assert minimiser(None, state, 3, 0.0) == pytest.approx(theta, abs=1e-5)
    least = np.linalg.eigvalsh(rows.T @ rows).min()
    shrunk = minimiser(None, state, 3, least)
    added = (6**0.5 - 1) * least
    ridge = np.linalg.solve(rows.T @ rows + added * np.eye(3), rows.T @ (rows @ theta))
    assert shrunk == pytest.approx(ridge, rel=1e-5)
    given = np.linalg.solve(rows.T @ rows / 500 + 0.1 * np.eye(3), rows.T @ (rows @ theta) / 500)
    assert minimiser(0.1, state, 3, 1e6) == pytest.approx(given, rel=1e-5)


# ------------------------------------------------------------- posteriors


def test_another_prior_gives_what_it_would_have_given_from_the_start():
    random = np.random.default_rng(3)
    half = random.normal(size=(4, 4))
    known, said = half @ half.T, random.normal(size=4)
    old, start = np.array([2.0, 3.0, 1.0, 5.0]), random.normal(size=4)
    covariance = np.linalg.inv(known + np.diag(old**-2))
    theta = covariance @ (known @ said + start / old**2)
    nothing = np.zeros((4, 4))
    found = Fitted(theta, covariance, nothing, old, np.zeros(3), np.ones(3), 1)
    precision, centre = np.diag([0.3, 1.0, 2.0, 0.1]), random.normal(size=4)
    moved = under_prior(found, start, centre, precision)
    assert moved.covariance == pytest.approx(np.linalg.inv(known + precision))
    assert moved.mean == pytest.approx(moved.covariance @ (known @ said + precision @ centre))


def test_posteriors_are_those_of_the_generalised_linear_model():
    """The same problem, rounds and noise: one release, read as a table or as a posterior."""
    X, y = survey()
    options = {"epsilon": 1.0, "delta": 1e-6, "bounds": BOUNDS, "random_state": 5}
    glm = PrivateGLM("gaussian", target_bounds=TARGETS, errors="symmetric", **options)
    glm.fit(X, y, parties=PARTY)
    model = BayesianLinearRegression(target_bounds=TARGETS, **options).fit(X, y, parties=PARTY)
    assert model.algorithm_ == "fisher-scoring"
    assert model.converged_
    assert model.posterior_.mean == pytest.approx(np.r_[glm.params_[1:], glm.params_[0]], rel=1e-4)
    assert model.posterior_.std == pytest.approx(np.r_[glm.bse_[1:], glm.bse_[0]], rel=1e-4)
    assert model.noise_std_ == pytest.approx(11, rel=0.15)
    _, spread = model.predict(X[:5], return_std=True)
    assert spread == pytest.approx(np.full(5, model.noise_std_), rel=0.1)
    assert np.all(spread > model.noise_std_)
    # Weights of long rows are in one released trace once and in the other twice: their plain ratio
    # is a tenth too small here, however little noise there is.
    options["epsilon"] = 50.0
    clear = BayesianLinearRegression(target_bounds=TARGETS, **options).fit(X, y, parties=PARTY)
    assert clear.noise_std_ == pytest.approx(11, rel=0.05)
    options["epsilon"] = 1.0
    tight = BayesianLinearRegression(target_bounds=TARGETS, prior_variance=1e-6, **options)
    tight.fit(X, y, parties=PARTY)
    assert np.abs(tight.posterior_.mean[0]) < 0.5 * np.abs(model.posterior_.mean[0])
    assert np.all(tight.posterior_.std < model.posterior_.std)


@pytest.mark.filterwarnings("ignore::unisono.estimators.DrownedByNoise")
def test_default_posteriors_of_classes_are_log_odds_and_know_when_noise_is_all():
    X, _ = survey()
    truth = np.array([0.04, 0.7, 0.05, -3.2])
    chance = expit(X @ truth[:3] + truth[3])
    y = np.where(np.random.default_rng(2).random(len(X)) < chance, "yes", "no")
    options = {"delta": 1e-6, "bounds": BOUNDS, "classes": ["no", "yes"], "random_state": 1}
    model = BayesianLogisticRegression(3.0, **options).fit(X, y, parties=PARTY)
    assert model.algorithm_ == "fisher-scoring"
    assert np.all(np.abs(model.posterior_.mean - truth) < 4 * model.posterior_.std)
    assert model.posterior_.learnt.all()
    assert np.array_equal(
        model.predict(X[:50]), model.classes_[(model.decision_function(X[:50]) > 0) * 1]
    )
    with pytest.warns(DrownedByNoise, match="noise hides what data say of"):
        nothing = BayesianLogisticRegression(0.02, **options).fit(X[:200], y[:200])
    assert not nothing.posterior_.learnt.any()
    other = BayesianLogisticRegression(3.0, link="probit", rounds=2, **options)
    with pytest.raises(InvalidInput, match="and not link='probit'"):
        other.set_params(algorithm="fisher-scoring").fit(X, y)
