"""Weights of records: they count before the clip, so that the bound, the noise and the price stay.

What one record adds at a public point, before the noise, is compared with min(C, w |gradient|): a
weight that came after the clip would give w min(C, |gradient|).
"""

import warnings

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.validation import has_fit_parameter

import unisono
from unisono.algorithms.dp_sgd import DP_SGD
from unisono.attacks import neighbours
from unisono.core.algorithm import Facts
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.errors import InvalidInput
from unisono.estimators import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    PrivateClassifier,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRegressor,
    PrivateRidge,
)
from unisono.estimators.networks import _weighted
from unisono.problems.record_loss import RecordLoss
from unisono.releases.blocked_sum import Clipping

from . import methods

FEATURES, CLIP = 3, 0.25
DRAW = np.random.default_rng(0)
N = 4000
X = DRAW.normal(size=(N, 2)).clip(-3, 3)
WRONG = DRAW.random(N) < 0.3
TRUE = (X @ [1.5, -1.0] + DRAW.logistic(size=N) > 0).astype(int)
Y = np.where(WRONG, 1 - TRUE, TRUE)
T = X @ [1.0, -0.5] + 0.3 * DRAW.normal(size=N)
WEIGHTS = np.where(WRONG, 0.0, 2.0)
SURE = {"epsilon": 40.0, "delta": 1e-6, "bounds": (-3, 3), "random_state": 0}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", unisono.PredictableNoiseWarning)
        warnings.simplefilter("ignore", unisono.ClippedValues)
        yield


# ------------------------------------------------------------- before the clip


def released(method, columns):
    """The length of what one record adds to the first sum, before the noise; its row stands alone
    among records that are not there."""
    facts = Facts((1,), FEATURES, 1, 0)
    study = Study(method, facts, Trust.LOCAL)
    party = neighbours.CleanParty(study)
    algorithm = study.algorithm
    server, state = algorithm.init(facts)
    world = neighbours.World(
        tuple(np.asarray(one, np.float32)[None] for one in columns),
        np.ones(1, bool),
        np.zeros(1, int),
    )
    steps = party.releases(world, [algorithm.ask(server)], state)[0]
    grid = algorithm.grid(facts, Trust.LOCAL)
    return float(np.linalg.norm(np.asarray(steps, float)) * grid)


@pytest.mark.parametrize("weight", [0.0, 0.2, 0.6, 1.0, 1e6])
def test_gradients_of_linear_losses_are_clipped_with_their_weight(weight):
    """At zero the logistic gradient of a unit row is half long: twice the clip."""
    method = methods.gradient_perturbation(2.0, 1e-5, rounds=1, clipping_norm=CLIP, weighted=True)
    row = np.ones(FEATURES) / np.sqrt(FEATURES)
    added = released(method, (row, (1.0, weight)))
    assert added == pytest.approx(min(CLIP, 0.5 * min(weight, 1.0)), abs=1e-3)


@pytest.mark.parametrize("weight", [0.0, 0.2, 0.6, 1.0, 1e6])
def test_gradients_of_networks_are_clipped_with_their_weight(weight):
    def logistic(parameters, record):
        return jnp.logaddexp(0.0, -record[1] * (record[0] @ parameters))

    zero = np.float32(0)
    problem = RecordLoss(
        _weighted(logistic),
        np.zeros(FEATURES, np.float32),
        (np.zeros(FEATURES, np.float32), zero, zero),
    )
    method = DP_SGD.method(
        problem,
        Privacy(2.0, 1e-5),
        rounds=1,
        sampling_rate=1.0,
        clipping=Clipping(bound=CLIP),
        learning_rate=0.1,
    )
    row = np.ones(FEATURES) / np.sqrt(FEATURES)
    added = CLIP * released(method, (row, 1.0, weight))  # sums are of shares of the bound
    assert added == pytest.approx(min(CLIP, 0.5 * min(weight, 1.0)), abs=1e-3)


# ------------------------------------------------------------- what is learnt


def test_a_classifier_learns_from_those_that_count_and_pays_the_same():
    model = PrivateLogisticRegression(classes=[0, 1], largest_weight=2.0, rounds=40, **SURE)
    plain = PrivateLogisticRegression(classes=[0, 1], rounds=40, **SURE).fit(X, Y)
    model.fit(X, Y, sample_weight=WEIGHTS)
    usual = LogisticRegression(C=1e6).fit(X, Y, sample_weight=WEIGHTS)
    assert model.coef_ == pytest.approx(usual.coef_, rel=0.15)
    assert np.abs(plain.coef_).max() < 0.5 * np.abs(model.coef_).max()
    lines = [(one.viewer, one.relation, one.epsilon) for one in model.certificate_.lines]
    assert lines == [(one.viewer, one.relation, one.epsilon) for one in plain.certificate_.lines]
    assert model._weights is None  # nothing of records is kept


def test_weights_of_classes_are_public_numbers():
    model = PrivateLogisticRegression(
        classes=[0, 1], class_weight={1: 4, 0: 1}, rounds=40, **SURE
    ).fit(X, TRUE)
    usual = LogisticRegression(C=1e6, class_weight={1: 4}).fit(X, TRUE)
    assert model.intercept_ == pytest.approx(usual.intercept_, abs=0.25)
    assert usual.intercept_ > 1


@pytest.mark.parametrize("algorithm", ["fisher-scoring", "adaptive-statistics"])
def test_a_line_has_weights_too(algorithm):
    model = PrivateRidge(
        target_bounds=(-6, 6), largest_weight=2.0, algorithm=algorithm, **SURE
    ).fit(X, np.where(WRONG, -T, T), sample_weight=WEIGHTS)
    usual = LinearRegression().fit(X, np.where(WRONG, -T, T), sample_weight=WEIGHTS)
    assert model.coef_ == pytest.approx(usual.coef_, abs=0.05)


def test_a_network_has_weights_too_and_a_frame_names_them():
    own = {"a": X[:, 0], "b": X[:, 1], "w": WEIGHTS, "y": np.where(WRONG, -T, T)}
    frame = pd.DataFrame(own)[:1500]
    model = PrivateRegressor(
        target_bounds=(-6, 6), largest_weight=2.0, hidden=(4,), epochs=3, batch_size=300, **SURE
    ).fit(frame, "y", sample_weight="w")
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model.score(frame[["a", "b"]], T[:1500]) > 0.5


# ------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("balanced", "counts away without paying"),
        ("even", "no such rule"),
        ({2: 1.0}, "none of the classes"),
        ({1: -1.0}, "zero or above"),
        ({1: np.inf}, "zero or above"),
        ({0: 0, 1: 0}, "some must count"),
        ([1, 2], "give a mapping"),
    ],
)
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC, PrivateClassifier])
def test_what_are_no_public_numbers_of_classes_is_refused(kind, given, words):
    with pytest.raises(InvalidInput, match=words):
        kind(classes=[0, 1], class_weight=given, **SURE).fit(X, Y)


def test_weights_of_classes_that_are_private_are_refused():
    with pytest.raises(InvalidInput, match="classes that are known"):
        PrivateLogisticRegression(classes="private", class_weight={1: 2}, **SURE).fit(X, Y)


@pytest.mark.parametrize("kind", [BayesianLinearRegression, BayesianLogisticRegression])
def test_posteriors_refuse_weights_with_a_remedy(kind):
    assert not has_fit_parameter(kind(), "sample_weight")
    with pytest.raises(InvalidInput, match="use PrivateGLM"):
        kind(**SURE).fit(X, Y, sample_weight=WEIGHTS)
    with pytest.raises(TypeError, match="no argument 'sampleweight'"):
        kind(**SURE).fit(X, Y, sampleweight=WEIGHTS)


def test_what_cannot_weigh_says_what_can(tmp_path):
    pure = PrivateLogisticRegression(
        1.0, 0.0, bounds=(-3, 3), classes=[0, 1], largest_weight=2.0, random_state=0
    )
    with pytest.raises(InvalidInput, match="choose one of preconditioned-gradients"):
        pure.fit(X, Y, sample_weight=WEIGHTS)
    model = PrivateLogisticRegression(classes=[0, 1], **SURE)
    with pytest.raises(InvalidInput, match="largest_weight = None"):
        model.fit(X, Y, sample_weight=WEIGHTS)
    model.set_params(largest_weight=2.0)
    for wrong, words in [(-WEIGHTS, "negative"), (0 * WEIGHTS, "zeros only"), (X, "shape")]:
        with pytest.raises(InvalidInput, match=words):
            model.fit(X, Y, sample_weight=wrong)
    pd.DataFrame({"a": X[:, 0], "y": Y, "w": WEIGHTS}).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(InvalidInput, match="give a frame or arrays"):
        model.fit(str(tmp_path / "rows.csv"), "y", sample_weight="w")
