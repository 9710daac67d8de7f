"""The neighbour fuzzer at the entrances: three-line statistics and estimators, before the noise.

Statistics: what would be released moves by no more than the event says, whatever one value is.
Estimators: what the algorithm is given of every other record, and all that is agreed in public, is
the same whatever one row and its label are. (What algorithms make of it: test_neighbours.py.)
"""

import math
import warnings

import numpy as np
import pytest

import unisono
from unisono import statistics
from unisono.attacks.neighbours import EXTREMES, NORMS, distances
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import Relation
from unisono.engines import in_process
from unisono.errors import InvalidInput, PrivacyWarning
from unisono.estimators import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    PrivateClassifier,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRegressor,
    PrivateRidge,
)

ODD = [*EXTREMES.astype(float), 5e-324, -1.8e308, 10**400, -(2**63), True, None, "", "n/a", " 1",
       "1", "0.5", "nan", "\x00", b"\xff", 1.5 + 0j, [], np.float32(0.1), "yes",
       np.timedelta64(3, "s")]  # fmt: skip
PAIRS = 250


class Before(Exception):
    """Carries what would have been released, or learnt from."""


# ------------------------------------------------------------------ statistics


def draw_bounds(generator):
    """Public bounds of any size, down to those that doubles can hardly tell apart."""
    centre = float(generator.choice([0.0, 0.0, 1.0, -7.3, 1e6, 1e16, 2.0**53, 1.7e18, -1e-300]))
    width = float(10.0 ** generator.integers(-8, 9)) * float(generator.choice([1, 2, 3]))
    return centre, centre + width


ASKED = {
    "count": lambda values, _, **how: statistics.count(values, **how),
    "total": statistics.total,
    "mean": statistics.mean,
    "histogram": lambda values, _, **how: statistics.histogram(values, ["1", "n/a", "yes"], **how),
}


@pytest.fixture
def clean(monkeypatch):
    """A statistic's contribution and its event, or None where public arguments are refused."""

    def caught(draw, contribution, event):
        raise Before(contribution, event)

    monkeypatch.setattr(statistics, "release", caught)

    def ask(name, values, bounds, relation, delta):
        policy = Policy("d", Budget(1e6, 0.1), relation=relation)
        book = Ledger.in_memory(policy, unisono.ACCOUNTANT, seed=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ASKED[name](values, bounds, epsilon=1.0, delta=delta, ledger=book)
            except Before as found:
                return found.args
            except InvalidInput as refusal:
                return str(refusal)
        raise AssertionError("nothing was released")

    return ask


@pytest.mark.parametrize("name", ASKED)
def test_one_value_moves_a_statistic_as_far_as_is_claimed(clean, name):
    """Lists of anything: one value more, less, or another one."""
    generator = np.random.default_rng(7)
    for _ in range(PAIRS):
        size = int(generator.integers(2, 30))
        bounds = draw_bounds(generator)
        low, high = bounds
        values = [float(v) for v in generator.uniform(low, high, size)]
        if name in ("count", "histogram"):
            values = [str(v) for v in generator.choice(["1", "2", "yes", "True"], size)]
        values[int(generator.integers(size))] = ODD[int(generator.integers(len(ODD)))]
        place = int(generator.integers(size))
        relation = list(Relation)[int(generator.integers(3))]
        other = list(values)
        if relation is Relation.ADD_OR_REMOVE:
            del other[place]
        elif relation is Relation.REPLACE_ONE:
            other[place] = ODD[int(generator.integers(len(ODD)))]
        else:
            other[place] = None  # a value that is not there
        delta = float(generator.choice([0.0, 1e-6]))
        before, after = (clean(name, world, bounds, relation, delta) for world in (values, other))
        if isinstance(before, str) or isinstance(after, str):
            assert before == after  # refused by public arguments alone
            continue
        assert before[1] == after[1]
        claimed = before[1].sensitivity.under(relation)
        moved = distances(before[0].value, after[0].value, before[0].grid)
        for norm in NORMS:
            assert moved[norm] <= getattr(claimed, norm) * (1 + 1e-12), (values, other, bounds)


def test_bounds_that_doubles_cannot_separate_would_be_noticed(clean, monkeypatch):
    """The control: values that are clipped before they are centred, and never again, reach too far
    where doubles round the centre away."""
    bounds, relation = (2.0**53, 2.0**53 + 2), Relation.ADD_OR_REMOVE
    refused = clean("mean", [bounds[0]] * 3, bounds, relation, 0.0)
    assert isinstance(refused, str)
    assert "apart" in refused or "resolve" in refused
    narrow = (2.0**53, 2.0**53 + 2**40)
    monkeypatch.setattr(statistics.np, "clip", lambda values, *_, **__: values)
    worlds = ([narrow[0]] * 3, [narrow[0]] * 3 + [narrow[1] + 2**42])  # four widths beyond
    found = [clean("mean", values, narrow, relation, 0.0) for values in worlds]
    moved = distances(found[0][0].value, found[1][0].value, found[0][0].grid)
    assert moved["l1"] > found[0][1].sensitivity.add_or_remove.l1


# ------------------------------------------------------------------ estimators

PRIVATE = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1.0, 1.0)}
CLASSES = {"classes": [0, 1, 2]}
ESTIMATORS = {
    "logistic": lambda: PrivateLogisticRegression(**PRIVATE, classes=[0, 1], rounds=3),
    "multinomial": lambda: PrivateLogisticRegression(**PRIVATE, **CLASSES, rounds=3),
    "svm": lambda: PrivateLinearSVC(**PRIVATE, classes=[0, 1], rounds=3),
    "ridge": lambda: PrivateRidge(**PRIVATE, target_bounds=(-1.0, 1.0), rounds=3),
    "bayesian-linear": lambda: BayesianLinearRegression(
        **PRIVATE, target_bounds=(-1.0, 1.0), noise_std=0.5
    ),
    "bayesian-logistic": lambda: BayesianLogisticRegression(**PRIVATE, classes=[0, 1]),
    "network": lambda: PrivateClassifier(**PRIVATE, **CLASSES, hidden=(3,), epochs=2),
    "regressor": lambda: PrivateRegressor(
        **PRIVATE, target_bounds=(-1.0, 1.0), hidden=(3,), epochs=2
    ),
}


def given_to_the_engine(monkeypatch, estimator, rows, labels):
    """What is agreed, and the columns that the algorithm would be given."""

    def caught(study, parties, **_):
        raise Before(study.hash, [party.data._value for party in parties])

    monkeypatch.setattr(in_process, "run", caught)
    parties = np.arange(len(rows)) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("ignore", PrivacyWarning)
        with pytest.raises(Before) as found:
            estimator.fit(rows, labels, parties=parties)
    return found.value.args


@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_row_changes_nothing_that_an_algorithm_sees_of_others(monkeypatch, name):
    generator = np.random.default_rng(3)
    finite = EXTREMES[np.isfinite(EXTREMES)].astype(float)
    size = 16
    numbers = name in ("ridge", "bayesian-linear", "regressor")
    rows = generator.uniform(-1, 1, size=(size, 3))
    labels = generator.uniform(-1, 1, size) if numbers else np.arange(size) % 2
    agreed, columns = given_to_the_engine(monkeypatch, ESTIMATORS[name](), rows, labels)
    for _ in range(12):
        place = int(generator.integers(size))
        changed, marks = rows.copy(), labels.copy()
        changed[place] = generator.choice([*finite, 1e300, 5e-324], 3)
        marks[place] = generator.choice(finite) if numbers else 1 - marks[place]
        other, found = given_to_the_engine(monkeypatch, ESTIMATORS[name](), changed, marks)
        assert other == agreed
        for party, (mine, theirs) in enumerate(zip(columns, found, strict=True)):
            kept = np.arange(party, size, 2) != place
            for one, two in zip(mine, theirs, strict=True):
                assert np.array_equal(np.asarray(one)[kept], np.asarray(two)[kept])
            own = np.concatenate([np.asarray(c).reshape(len(kept), -1) for c in theirs], axis=1)
            assert math.isfinite(float(np.abs(own).max()))
