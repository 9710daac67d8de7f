"""The neighbour fuzzer at the entrances: three-line statistics and estimators, before the noise.

Statistics: what would be released moves by no more than the event says, whatever one value is.
Estimators: what the algorithm is given of every other record, and all that is agreed in public, is
the same whatever one row and its label are. (What algorithms make of it: test_neighbours.py.)
"""

import decimal
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
from unisono.engines import in_process, one_round
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

ODD = [
    *EXTREMES.astype(float),
    5e-324,
    -1.8e308,
    10**400,
    -(2**63),
    True,
    None,
    "",
    "n/a",
    " 1",
    "1",
    "0.5",
    "nan",
    "\x00",
    b"\xff",
    1.5 + 0j,
    [],
    np.float32(0.1),
    "yes",
    2**53 + 1,
    "٣",
    np.timedelta64(3, "s"),
    np.datetime64("NaT"),
    decimal.Decimal("sNaN"),
]
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
    "count": lambda values, _, __, **how: statistics.count(values, **how),
    "total": lambda values, bounds, _, **how: statistics.total(values, bounds, **how),
    "mean": lambda values, bounds, _, **how: statistics.mean(values, bounds, **how),
    "histogram": lambda values, _, names, **how: statistics.histogram(values, names, **how),
}
HIDDEN = {"nominal_rows": 30}
SURVEYED = {
    "variance": lambda values, bounds, _, **how: statistics.variance(
        values, bounds, **how, **HIDDEN
    ),
    "median": lambda values, bounds, _, **how: statistics.median(values, bounds, **how, **HIDDEN),
    "quantile": lambda values, bounds, _, **how: statistics.quantile(
        values, [0.1, 0.9], bounds, **how, **HIDDEN
    ),
}
# Values of one kind, and public categories of the same: one value of another kind is one value.
KINDS = [
    (["1", "2", "yes", "True"], ["1", "n/a", "yes"]),
    ([1, 2, 3], [1, 2]),
    ([True, False], [True, False]),
    ([0.5, 1.0, 2.5], [0.5, 1.0]),
    ([2**53, 2**53 + 1], [2**53, 2**53 + 1]),
    (["2020-01-01", "2020-01-02"], ["2020-01-01"]),
]


def surveyed(study, parties, **_):
    """What a survey's one party would release; rows that are not there fill up to a public size,
    as in every engine, so that operations are compiled once."""
    [party] = parties
    [rows] = party.data._value
    assert len(rows) <= 32
    padded = np.zeros((32, 1), np.float32)
    padded[: len(rows)] = rows
    algorithm, present = study.algorithm, np.arange(32) < len(rows)
    public = algorithm.ask(algorithm.init(study.facts)[0])
    _, contribution = algorithm.local(study.facts, public, None, (padded,), present)
    raise Before(contribution, algorithm.event(study.facts, study.trust))


@pytest.fixture
def clean(monkeypatch):
    """A statistic's contribution and its event, or None where public arguments are refused."""

    def caught(draw, contribution, event):
        raise Before(contribution, event)

    monkeypatch.setattr(one_round, "release", caught)
    monkeypatch.setattr(in_process, "run", surveyed)

    def ask(name, values, bounds, names, relation, delta):
        policy = Policy("d", Budget(1e6, 0.1), relation=relation)
        book = Ledger.in_memory(policy, unisono.ACCOUNTANT, seed=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                (ASKED | SURVEYED)[name](
                    values, bounds, names, epsilon=1.0, delta=delta, ledger=book
                )
            except Before as found:
                return found.args
            except InvalidInput as refusal:
                return str(refusal)
        raise AssertionError("nothing was released")

    return ask


def too_far(clean, name, pairs=PAIRS):
    """Two lists that differ in one value, further apart than is claimed; None if there are none."""
    generator = np.random.default_rng(7)
    for _ in range(pairs):
        size = int(generator.integers(2, 30))
        bounds = draw_bounds(generator)
        low, high = bounds
        values = [float(v) for v in generator.uniform(low, high, size)]
        if generator.random() < 0.2:  # on the ends
            values = [bounds[int(end)] for end in generator.integers(2, size=size)]
        kind, names = KINDS[int(generator.integers(len(KINDS)))]
        if name in ("count", "histogram"):
            values = [kind[int(place)] for place in generator.integers(len(kind), size=size)]
        if generator.random() < 0.5:
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
        worlds = (values, other)
        before, after = (clean(name, own, bounds, names, relation, delta) for own in worlds)
        if isinstance(before, str) or isinstance(after, str):
            if before != after:  # refused by what is in a list
                return values, other, bounds
            continue
        claimed = before[1].sensitivity.under(relation)
        sums = [np.asarray(one[0].value, np.int64) for one in (before, after)]
        moved = distances(*sums, before[0].grid)
        if before[1] != after[1] or any(
            moved[norm] > getattr(claimed, norm) * (1 + 1e-12) for norm in NORMS
        ):
            return values, other, bounds
    return None


@pytest.mark.parametrize("name", ASKED)
def test_one_value_moves_a_statistic_as_far_as_is_claimed(clean, name):
    """Lists of anything: one value more, less, or another one."""
    assert too_far(clean, name) is None


@pytest.mark.parametrize("name", SURVEYED)
def test_one_value_moves_a_survey_of_a_list_as_far_as_is_claimed(clean, name):
    assert too_far(clean, name, pairs=60) is None


def test_a_survey_that_reads_values_as_one_array_would_be_noticed(clean, monkeypatch):
    """The control: every value is scaled by the mean of all."""
    read = statistics.numbers

    def scaled(values):
        found = read(values)
        size = np.abs(found)
        return found * (np.nanmean(size / np.nanmax(size)))

    monkeypatch.setattr(statistics, "numbers", scaled)
    assert too_far(clean, "median", pairs=60) is not None


@pytest.mark.parametrize("name", ["count", "histogram"])
def test_values_that_are_read_as_one_array_would_be_noticed(clean, monkeypatch, name):
    """The control: what a value counts as is asked of the array that all values make together."""

    def compared(values, categories):
        try:
            array = np.asarray(values)
        except ValueError:  # ragged
            array = np.array([str(value) for value in values])
        places = np.full(len(values), -1)
        for place, category in enumerate(categories):
            places[np.asarray([bool(value == category) for value in array])] = place
        return places

    monkeypatch.setattr(statistics, "codes", compared)
    assert too_far(clean, name) is not None


def test_bounds_that_doubles_cannot_separate_are_refused(clean):
    bounds = (2.0**53, 2.0**53 + 2)
    refused = clean("mean", [bounds[0]] * 3, bounds, [], Relation.ADD_OR_REMOVE, 0.0)
    assert isinstance(refused, str)
    assert "apart" in refused


def test_values_that_are_clipped_only_before_they_are_centred_would_be_noticed(clean, monkeypatch):
    """The control: narrow bounds are taken, and the final whole numbers are not clipped."""
    clip = np.clip
    monkeypatch.setattr(statistics.math, "ulp", lambda _: 0.0)
    assert too_far(clean, "mean") is None  # the whole numbers are clipped: bounds cannot matter

    def values_only(values, low, high):
        return values if isinstance(high, int) else clip(values, low, high)

    monkeypatch.setattr(statistics.np, "clip", values_only)
    assert too_far(clean, "mean") is not None


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
    "glm": lambda: PrivateGLM(**PRIVATE, classes=[0, 1]),
    "glm-gaussian": lambda: PrivateGLM("gaussian", **PRIVATE, target_bounds=(-1.0, 1.0)),
    "network": lambda: PrivateClassifier(**PRIVATE, **CLASSES, hidden=(3,), epochs=2),
    "regressor": lambda: PrivateRegressor(
        **PRIVATE, target_bounds=(-1.0, 1.0), hidden=(3,), epochs=2
    ),
    "private-bounds": lambda: PrivateLogisticRegression(
        1.0, 1e-6, bounds="private", classes=[0, 1], rounds=3
    ),
    "private-target": lambda: PrivateRidge(
        1.0, 1e-6, bounds="private", target_bounds="private", rounds=3
    ),
    # So much epsilon, because fewer records are refused than would show classes through the noise.
    "private-classes": lambda: PrivateLogisticRegression(
        1e3, 1e-6, bounds=(-1.0, 1.0), classes="private", rounds=3
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
    numbers = name in ("ridge", "bayesian-linear", "regressor", "private-target", "glm-gaussian")
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


@pytest.mark.parametrize("label", [0, "never seen", "ü", 7, 1.0, "1", True])
def test_after_its_classes_one_label_changes_nothing_of_others(monkeypatch, label):
    """The second stage: whatever classes were released, labels are read by them alone. One label of
    another kind changes how no other one is read."""
    generator = np.random.default_rng(5)
    size, run = 16, in_process.run
    rows, labels = generator.uniform(-1, 1, (size, 3)), [0, 1] * (size // 2)
    released, first = [], []

    def first_only(study, parties, **more):
        columns = [party.data._value for party in parties]
        if study.algorithm.name != "statistics":
            raise Before(study.hash, columns)
        first.append([np.asarray(own) for [own] in columns])
        if not released:
            released.append(run(study, parties, **more))
        return released[0]

    def given(marks):
        monkeypatch.setattr(in_process, "run", first_only)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(Before) as found:
                ESTIMATORS["private-classes"]().fit(rows, marks, parties=np.arange(size) % 2)
        return found.value.args

    agreed, columns = given(labels)
    changed = list(labels)
    changed[7] = label
    other, found = given(changed)
    assert other == agreed
    for party in range(2):
        kept = np.arange(party, size, 2) != 7
        for one, two in zip(columns[party], found[party], strict=True):
            assert np.array_equal(one[kept], two[kept])
        assert np.array_equal(first[0][party][kept], first[1][party][kept])


@pytest.mark.parametrize("name", ["private-bounds", "private-target"])
def test_after_its_ranges_one_row_changes_nothing_of_others(monkeypatch, name):
    """The second stage: whatever ranges were released, records are read by them alone."""
    generator = np.random.default_rng(4)
    size, run = 16, in_process.run
    rows, labels = generator.uniform(-1, 1, (size, 3)), np.arange(size) % 2
    released = []

    def first_only(study, parties, **more):
        if study.algorithm.name != "statistics":
            raise Before(study.hash, [party.data._value for party in parties])
        if not released:
            released.append(run(study, parties, **more))
        return released[0]  # what happened to be released, whoever is in the records

    def given(changed):
        monkeypatch.setattr(in_process, "run", first_only)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(Before) as found:
                ESTIMATORS[name]().fit(changed, labels, parties=np.arange(size) % 2)
        return found.value.args

    agreed, columns = given(rows)
    for cell in (1e300, -1e300, 5e-324, 0.0, 2.0**41):
        changed = rows.copy()
        changed[6] = cell
        other, found = given(changed)
        assert other == agreed
        for party, (mine, theirs) in enumerate(zip(columns, found, strict=True)):
            kept = np.arange(party, size, 2) != 6
            for one, two in zip(mine, theirs, strict=True):
                assert np.array_equal(one[kept], two[kept])
            assert np.abs(np.linalg.norm(theirs[0], axis=1)).max() <= 1 + 1e-9
