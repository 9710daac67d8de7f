"""Parties, persons and weights through scikit-learn's own machinery: routed by name, every fold
with the labels of its own rows, and every fit paid for."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import unisono
from unisono.estimators import PrivateLinearSVC, PrivateRidge, RepeatedFits

DRAW = np.random.default_rng(0)
N = 900
X = DRAW.normal(size=(N, 2)).clip(-3, 3)
T = X @ [1.0, -0.5] + 0.3 * DRAW.normal(size=N)
HOSPITALS = np.resize(["Aalborg", "Bergen", "Cork"], N)
WEIGHTS = np.where(np.arange(N) % 5, 1.0, 0.0)


@pytest.fixture(autouse=True)
def routed():
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", unisono.PredictableNoiseWarning)
        warnings.simplefilter("ignore", RepeatedFits)
        warnings.simplefilter("ignore", unisono.ClippedValues)
        yield


@pytest.fixture
def ledgers():
    def made(name):
        policy = unisono.Policy(name, unisono.Budget(200.0, 1e-3))
        return unisono.Ledger.in_memory(policy, unisono.ACCOUNTANT, seed=1)

    return {str(name): made(str(name)) for name in np.unique(HOSPITALS)}


def ridge(**more):
    given = {"bounds": (-3, 3), "target_bounds": (-5, 5), "algorithm": "adaptive-statistics"}
    return PrivateRidge(10.0, 1e-6, random_state=0, largest_weight=1.0, **given, **more)


def test_folds_have_the_parties_and_weights_of_their_rows_and_each_pays(ledgers):
    model = ridge(ledger=ledgers).set_fit_request(parties=True, sample_weight=True)
    model = model.set_score_request(sample_weight=False).set_params(epsilon=60.0)  # little noise
    found = cross_validate(
        model,
        X,
        np.where(WEIGHTS > 0, T, -T),  # those that count for nothing are wrong
        cv=3,
        params={"parties": HOSPITALS, "sample_weight": WEIGHTS},
        return_estimator=True,
    )
    assert [one.certificate_.parties for one in found["estimator"]] == [3, 3, 3]
    assert all(one.coef_ == pytest.approx([1.0, -0.5], abs=0.1) for one in found["estimator"])
    # Every fold is a fit, and every fit of every party a payment.
    assert {book.grants for book in ledgers.values()} == {3}


def test_a_search_over_a_pipeline_routes_to_the_estimator_inside(ledgers):
    inside = ridge(ledger=ledgers).set_fit_request(parties=True, sample_weight=False)
    steps = Pipeline([("same", FunctionTransformer()), ("ridge", inside)])
    search = GridSearchCV(steps, {"ridge__regularisation": [0.0, 1e-3]}, cv=2)
    search.fit(X, T, parties=HOSPITALS)
    assert search.best_estimator_["ridge"].certificate_.parties == 3
    assert {book.grants for book in ledgers.values()} == {5}  # two folds of two, and the last one


def test_persons_are_routed_too():
    model = PrivateLinearSVC(
        10.0,
        1e-6,
        bounds=(-3, 3),
        classes=[False, True],
        rounds=2,
        records_per_person=2,
        random_state=0,
    ).set_fit_request(persons=True)
    persons = [f"patient {number // 2}" for number in range(N)]
    model.set_score_request(sample_weight=False)
    found = cross_validate(
        model, X, T > 0, cv=2, params={"persons": persons}, return_estimator=True
    )
    assert {one.certificate_.unit for one in found["estimator"]} == {"person"}


def test_what_nobody_asked_for_is_refused_by_scikit_learn():
    with pytest.raises(UnsetMetadataPassedError, match="parties"):
        cross_val_score(ridge(), X, T, params={"parties": HOSPITALS}, error_score="raise")
