"""The neighbour fuzzer at the entrances: three-line statistics and estimators, before the noise.

Statistics: what would be released moves by no more than the event says, whatever one value is.
Estimators: what the algorithm is given of every other record, and all that is agreed in public, is
the same whatever one row and its label are. (What algorithms make of it: test_neighbours.py.)
"""

import decimal
import math
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import unisono
from unisono import statistics
from unisono.attacks.neighbours import EXTREMES, NORMS, distances
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import Relation, Unit
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
    members,
)
from unisono.estimators import records as estimator_records
from unisono.releases import table

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


def sides(values, first="even", second="odd"):
    """Groups that each record's own value decides, none for one that is not there; others than
    "even" and "odd" are cut in another way."""
    cut = 2 if first == "even" else 3
    return [
        None if value is None else first if len(repr(value)) % cut else second for value in values
    ]


SURVEYED = {
    "variance": lambda values, bounds, _, **how: statistics.variance(
        values, bounds, **how, **HIDDEN
    ),
    "median": lambda values, bounds, _, **how: statistics.median(values, bounds, **how, **HIDDEN),
    "quantile": lambda values, bounds, _, **how: statistics.quantile(
        values, [0.1, 0.9], bounds, **how, **HIDDEN
    ),
    "t_test": lambda values, bounds, _, **how: statistics.t_test(
        values, sides(values), bounds, between=["even", "odd"], **how, **HIDDEN
    ),
    "median_test": lambda values, bounds, _, **how: statistics.median_test(
        values, sides(values), bounds, between=["even", "odd"], **how, **HIDDEN
    ),
    "proportion_test": lambda values, _, __, **how: statistics.proportion_test(
        [None if one is None else one == "a" for one in sides(values, "a", "b")],
        sides(values),
        between=["even", "odd"],
        **how,
        **HIDDEN,
    ),
    "chi_square": lambda values, _, __, **how: statistics.chi_square(
        sides(values), sides(values, "a", "b"), (["even", "odd"], ["a", "b"]), **how, **HIDDEN
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
    padded = np.zeros((32, rows.shape[1]), np.float32)
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
    read = statistics.cells.numbers

    def scaled(values):
        found = read(values)
        size = np.abs(found)
        return found * (np.nanmean(size / np.nanmax(size)))

    monkeypatch.setattr(statistics.cells, "numbers", scaled)
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

    def flags(values):
        places = compared(values, (False, True)).astype(float)
        return np.where(places < 0, np.nan, places)

    monkeypatch.setattr(statistics.one_column, "codes", compared)
    monkeypatch.setattr(statistics.cells, "spelled_truths", flags)
    assert too_far(clean, name) is not None


def test_bounds_that_doubles_cannot_separate_are_refused(clean):
    bounds = (2.0**53, 2.0**53 + 2)
    refused = clean("mean", [bounds[0]] * 3, bounds, [], Relation.ADD_OR_REMOVE, 0.0)
    assert isinstance(refused, str)
    assert "apart" in refused


def test_values_that_are_clipped_only_before_they_are_centred_would_be_noticed(clean, monkeypatch):
    """The control: narrow bounds are taken, and the final whole numbers are not clipped."""
    clip = np.clip
    monkeypatch.setattr(statistics.cells.math, "ulp", lambda _: 0.0)
    assert too_far(clean, "mean") is None  # the whole numbers are clipped: bounds cannot matter

    def values_only(values, low, high):
        return values if isinstance(high, int) else clip(values, low, high)

    monkeypatch.setattr(statistics.cells.np, "clip", values_only)
    assert too_far(clean, "mean") is not None


# ------------------------------------------------------------------ estimators

PRIVATE = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1.0, 1.0)}
CLASSES = {"classes": [0, 1, 2]}


@pytest.fixture(autouse=True)
def one_order(monkeypatch):
    """Both worlds in one order: that is what the secret one's proof compares (`data.order`)."""
    monkeypatch.setattr(estimator_records, "secret_order", lambda records, key: np.arange(records))


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
    "private-bounds-in-the-ball": lambda: PrivateLogisticRegression(
        1.0, 1e-6, bounds="private", classes=[0, 1], rounds=3, algorithm="gradient-perturbation"
    ),
    "private-target": lambda: PrivateRidge(
        1.0, 1e-6, bounds="private", target_bounds="private", rounds=3
    ),
    "private-target-scored": lambda: PrivateRidge(
        1.0, 1e-6, bounds="private", target_bounds="private", algorithm="fisher-scoring"
    ),
    # So much epsilon, because fewer records are refused than would show classes through the noise.
    "private-classes": lambda: PrivateLogisticRegression(
        1e3, 1e-6, bounds=(-1.0, 1.0), classes="private", rounds=3
    ),
}


def given_to_the_engine(monkeypatch, estimator, rows, labels, **weights):
    """What is agreed, and the columns that the algorithm would be given."""

    def caught(study, parties, **_):
        raise Before(study.hash, [party.data._value for party in parties])

    monkeypatch.setattr(in_process, "run", caught)
    parties = np.arange(len(rows)) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("ignore", PrivacyWarning)
        with pytest.raises(Before) as found:
            estimator.fit(rows, labels, parties=parties, **weights)
    return found.value.args


@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_row_changes_nothing_that_an_algorithm_sees_of_others(monkeypatch, name):
    generator = np.random.default_rng(3)
    finite = EXTREMES[np.isfinite(EXTREMES)].astype(float)
    size = 16
    numbers = name in (
        *("ridge", "bayesian-linear", "regressor", "glm-gaussian"),
        *("private-target", "private-target-scored"),
    )
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


@pytest.mark.parametrize("name", ["logistic", "multinomial", "svm", "ridge", "glm", "network"])
def test_one_weight_changes_nothing_that_an_algorithm_sees_of_others(monkeypatch, name):
    """Weights are shares of a public number: none depends on the others' sum or on the largest."""
    generator, size = np.random.default_rng(4), 16
    rows = generator.uniform(-1, 1, size=(size, 3))
    labels = generator.uniform(-1, 1, size) if name == "ridge" else np.arange(size) % 2
    weights = generator.uniform(0, 2, size)

    def given(own):
        estimator = ESTIMATORS[name]().set_params(largest_weight=2.0)
        return given_to_the_engine(monkeypatch, estimator, rows, labels, sample_weight=own)

    agreed, columns = given(weights)
    for extreme in (0.0, 5e-324, 2.0, 1e300):
        place = int(generator.integers(size))
        changed = weights.copy()
        changed[place] = extreme
        other, found = given(changed)
        assert other == agreed
        for party, (mine, theirs) in enumerate(zip(columns, found, strict=True)):
            kept = np.arange(party, size, 2) != place
            for one, two in zip(mine, theirs, strict=True):
                assert np.array_equal(np.asarray(one)[kept], np.asarray(two)[kept])
            assert all(np.isfinite(np.asarray(one)).all() for one in theirs)


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


# What a fit releases before the algorithm that learns, and what learns from rows as they are.
EARLIER = ("statistics", "row-moments", "column-scales")
STAGES = {
    "private-bounds": ("row-moments", "preconditioned-gradients"),
    "private-bounds-in-the-ball": ("gradient-perturbation",),
    "private-target": ("gradient-perturbation",),
    "private-target-scored": ("column-scales", "fisher-scoring"),
}


def bounded(name, columns):
    """Whether rows lie where their algorithm wants them: in the unit ball, or, where each release
    bounds a record by itself (test_neighbours.py), in the box that public ranges leave."""
    rows = np.asarray(columns[0])
    if name == "gradient-perturbation":
        return np.linalg.norm(rows, axis=1).max() <= 1 + 1e-9
    in_the_box = np.abs(rows).max() <= 1
    return in_the_box and (len(columns) == 1 or np.array_equal(rows[:, -1], np.ones(len(rows))))


def changed_after_ranges(monkeypatch, name, epsilon=1.0):
    """Whether any stage after the ranges is agreed on, or reads others, by what one row holds."""
    generator = np.random.default_rng(4)
    size, run = 16, in_process.run
    rows, labels = generator.uniform(-1, 1, (size, 3)), np.arange(size) % 2
    released = {}

    def given(changed):
        seen, estimator = {}, ESTIMATORS[name]().set_params(epsilon=epsilon)

        def earlier_only(study, parties, **more):
            stage = study.algorithm.name
            if stage != "statistics":
                seen[stage] = study.hash, [party.data._value for party in parties]
            if stage not in EARLIER:
                raise Before(seen)
            if stage not in released:
                released[stage] = run(study, parties, **more)
            return released[stage]  # what happened to be released, whoever is in the records

        monkeypatch.setattr(in_process, "run", earlier_only)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(Before) as found:
                estimator.fit(changed, labels, parties=np.arange(size) % 2)
        return found.value.args[0]

    before = given(rows)
    assert tuple(before) == STAGES[name]
    for cell in (1e300, -1e300, 5e-324, 0.0, 2.0**41):
        changed = rows.copy()
        changed[6] = cell
        after = given(changed)
        assert tuple(after) == STAGES[name]
        for stage, (agreed, columns) in before.items():
            other, found = after[stage]
            for party, (mine, theirs) in enumerate(zip(columns, found, strict=True)):
                kept = np.arange(party, size, 2) != 6
                same = [np.array_equal(a[kept], b[kept]) for a, b in zip(mine, theirs, strict=True)]
                if other != agreed or not all(same) or not bounded(stage, theirs):
                    return True
    return False


@pytest.mark.parametrize("name", STAGES)
def test_after_its_ranges_one_row_changes_nothing_of_others(monkeypatch, name):
    """The later stages: whatever was released before, records are read by it alone."""
    assert not changed_after_ranges(monkeypatch, name)


@pytest.mark.parametrize("name", ["private-bounds", "private-target-scored"])
def test_rows_that_are_read_by_the_largest_would_be_noticed(monkeypatch, name):
    """The control: rows are divided by the largest of their party before they are bounded. With so
    much epsilon that ranges are found: between two that noise has made up, all rows look alike."""
    honest = PrivateRidge._encoded, PrivateLogisticRegression._encoded

    def divided(encode):
        return lambda self, scale, X, labels: encode(self, scale, X / np.abs(X).max(), labels)

    monkeypatch.setattr(PrivateRidge, "_encoded", divided(honest[0]))
    monkeypatch.setattr(PrivateLogisticRegression, "_encoded", divided(honest[1]))
    assert changed_after_ranges(monkeypatch, name, epsilon=1e3)


# ------------------------------------------------------------------ declared columns

DECLARED = {
    "age": {"kind": "number", "bounds": (0, 1), "missing": "indicator", "fill": 0.0},
    "dose": {"kind": "number", "bounds": (-1, 1), "bins": (-0.5, 0.5)},
    "ward": {"kind": "category", "values": ["1", "yes"], "other": True, "missing": "category"},
    "seen": {
        "kind": "date",
        "bounds": ("2000-01-01", "2030-01-01"),
        "missing": "indicator",
        "fill": "2000-01-01",
    },
    "known": {"kind": "true-false", "missing": False},
    "class": {"kind": "category", "values": ["no", "yes"]},
    "value": {"kind": "number", "bounds": (-1, 1)},
}
FRAMED = {
    "logistic": ("class", lambda **more: PrivateLogisticRegression(1.0, 1e-6, rounds=3, **more)),
    "network": (
        "class",
        lambda **more: PrivateClassifier(1.0, 1e-6, hidden=(3,), epochs=2, **more),
    ),
    "ridge": ("value", lambda **more: PrivateRidge(1.0, 1e-6, rounds=3, **more)),
    "bayesian-linear": (
        "value",
        lambda **more: BayesianLinearRegression(1.0, 1e-6, noise_std=0.5, **more),
    ),
}


def framed(monkeypatch, name, cells):
    """What is agreed, and the rows that the algorithm would be given of a table."""
    target, make = FRAMED[name]
    columns = {
        key: said for key, said in DECLARED.items() if key not in {"class", "value"} - {target}
    }

    def caught(study, parties, **_):
        raise Before(study.hash, parties[0].data._value)

    monkeypatch.setattr(in_process, "run", caught)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Before) as found:
            make(columns=columns).fit({key: cells[key] for key in columns}, target)
    return found.value.args


def reads_across_records(monkeypatch, name, pairs=15):
    generator = np.random.default_rng(8)
    size = 16
    cells = {
        "age": generator.random(size).tolist(),
        "dose": generator.uniform(-1, 1, size).tolist(),
        "ward": generator.choice(["1", "yes", "other"], size).tolist(),
        "seen": [f"20{day:02}-01-01" for day in generator.integers(0, 30, size)],
        "known": generator.choice([True, False], size).tolist(),
        "class": generator.choice(["no", "yes"], size).tolist(),
        "value": generator.uniform(-1, 1, size).tolist(),
    }
    cells["age"][3] = cells["ward"][4] = cells["dose"][5] = None
    agreed, columns = framed(monkeypatch, name, cells)
    for _ in range(pairs):
        place = int(generator.integers(size))
        changed = {key: list(own) for key, own in cells.items()}
        for own in changed.values():
            own[place] = ODD[int(generator.integers(len(ODD)))]
        other, found = framed(monkeypatch, name, changed)
        kept = np.arange(size) != place
        if other != agreed or not all(
            np.array_equal(one[kept], two[kept], equal_nan=True)
            for one, two in zip(columns, found, strict=True)
        ):
            return True
    return False


@pytest.mark.parametrize("name", FRAMED)
def test_one_record_of_a_frame_changes_nothing_of_others(monkeypatch, name):
    """Whatever stands in all of its cells, the target among them, and nothing is refused for it."""
    assert not reads_across_records(monkeypatch, name)


def test_a_missing_value_that_is_filled_from_others_would_be_noticed(monkeypatch):
    """The control: a mean of the column stands in for what is missing."""
    honest = estimator_records.Declared.read

    def filled(declared, table):
        values = honest(declared, table)
        return np.where(np.isnan(values), np.nanmean(values, axis=0), values)

    monkeypatch.setattr(estimator_records.Declared, "read", filled)
    assert reads_across_records(monkeypatch, "ridge")


# ------------------------------------------------------------------ persons

OF_PERSONS = {
    "logistic": lambda **more: PrivateLogisticRegression(
        **PRIVATE, **more, classes=[0, 1], rounds=3
    ),
    "multinomial": lambda **more: PrivateLogisticRegression(**PRIVATE, **more, **CLASSES, rounds=3),
    "svm": lambda **more: PrivateLinearSVC(**PRIVATE, **more, classes=[0, 1], rounds=3),
    "ridge": lambda **more: PrivateRidge(**PRIVATE, **more, target_bounds=(-1.0, 1.0), rounds=3),
    "network": lambda **more: PrivateClassifier(
        **PRIVATE, **more, **CLASSES, hidden=(3,), epochs=2
    ),
    "regressor": lambda **more: PrivateRegressor(
        **PRIVATE, **more, target_bounds=(-1.0, 1.0), hidden=(3,), epochs=2
    ),
    "private-bounds": lambda **more: PrivateLogisticRegression(
        1.0, 1e-6, bounds="private", classes=[0, 1], rounds=3, **more
    ),
}
# One record of each person is drawn: the neighbour is the same whatever the others hold.
OF_ONE = {
    "bayesian-linear": lambda **more: BayesianLinearRegression(
        **PRIVATE, **more, target_bounds=(-1.0, 1.0), noise_std=0.5
    ),
    "bayesian-logistic": lambda **more: BayesianLogisticRegression(
        **PRIVATE, **more, classes=[0, 1]
    ),
}
MOST = 4


def people_given(monkeypatch, estimator, rows, labels, owners):
    """What is agreed, and every person that an algorithm would be given: its records, in no
    order, as one tuple of numbers."""

    def caught(study, parties, **_):
        raise Before(study.hash, study.facts, [party.data._value for party in parties])

    monkeypatch.setattr(in_process, "run", caught)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Before) as found:
            estimator.fit(rows, labels, persons=owners)
    agreed, facts, [columns] = found.value.args
    assert facts.unit is Unit.PERSON
    group = facts.group
    flat = [np.asarray(column, float).reshape(len(column), group, -1) for column in columns]
    held = np.concatenate(flat, axis=2)
    assert held.shape[0] == facts.records[0]
    return agreed, [tuple(sorted(map(repr, person.tolist()))) for person in held]


def one_person_changed(monkeypatch, make, most, pairs=12):
    """Whether others are given as before, whatever one person holds, and however many records."""
    generator = np.random.default_rng(5)
    finite = [*EXTREMES[np.isfinite(EXTREMES)].astype(float), 1e300, 5e-324]
    counts = generator.integers(1, most + 1, 9)
    owners = np.repeat(np.arange(9), counts)
    rows = generator.uniform(-1, 1, (len(owners), 3))
    labels = np.arange(len(owners)) % 2
    agreed, before = people_given(monkeypatch, make(), rows, labels, owners)
    for _ in range(pairs):
        victim, size = int(generator.integers(9)), int(generator.integers(1, MOST + 3))
        kept = owners != victim
        own = generator.choice(finite, (size, 3))
        order = generator.permutation(int(kept.sum()) + size)  # a file may put them anywhere
        world = (
            np.concatenate([rows[kept], own])[order],
            np.concatenate([labels[kept], generator.integers(0, 2, size)])[order],
            np.concatenate([owners[kept], np.full(size, victim)])[order],
        )
        other, after = people_given(monkeypatch, make(), *world)
        if other != agreed or len(after) != len(before):
            return True
        left = list(after)
        gone = [person for person in before if person not in left or left.remove(person)]
        if len(gone) > 1 or len(left) > 1:
            return True
    return False


@pytest.mark.parametrize("name", OF_PERSONS)
def test_one_person_changes_nothing_that_an_algorithm_sees_of_others(monkeypatch, name):
    make = OF_PERSONS[name]
    assert not one_person_changed(monkeypatch, lambda: make(records_per_person=MOST), MOST)


@pytest.mark.parametrize("name", [*OF_ONE, "ridge"])
def test_one_record_of_a_person_is_one_row(monkeypatch, name):
    make = (OF_ONE | OF_PERSONS)[name]
    assert not one_person_changed(monkeypatch, lambda: make(records_per_person=1), 1)


def test_persons_that_are_given_as_records_would_be_noticed(monkeypatch):
    """The control: every record is a person of its own."""
    honest = members.drawn_persons
    monkeypatch.setattr(
        members,
        "drawn_persons",
        lambda cells, *rest: honest([str(place) for place in range(len(cells))], *rest),
    )
    make = OF_PERSONS["logistic"]
    assert one_person_changed(monkeypatch, lambda: make(records_per_person=MOST), MOST)


PERSONAL = {
    "count": lambda values, **how: statistics.count([v > 0 for v in values], **how),
    "total": lambda values, **how: statistics.total(values, (-1.0, 1.0), **how),
    "mean": lambda values, **how: statistics.mean(values, (-1.0, 1.0), **how),
    "histogram": lambda values, **how: statistics.histogram(
        ["a" if v > 0 else "b" if v <= 0 else None for v in values], ["a", "b"], **how
    ),
    "variance": lambda values, **how: statistics.variance(values, (-1.0, 1.0), **how),
    "quantile": lambda values, **how: statistics.quantile(values, [0.1, 0.9], (-1.0, 1.0), **how),
}


def moved_too_far(monkeypatch, name, pairs=30):
    """Lists that differ in all values of one person, further apart than is claimed."""

    def surveyed(study, parties, **_):
        [party] = parties
        features, *marks = party.data._value
        padded = [np.zeros((16, *own.shape[1:]), np.float32) for own in (features, *marks)]
        for own, column in zip(padded, (features, *marks), strict=True):
            own[: len(column)] = column
        algorithm, present = study.algorithm, np.arange(16) < len(features)
        public = algorithm.ask(algorithm.init(study.facts)[0])
        _, contribution = algorithm.local(study.facts, public, None, tuple(padded), present)
        raise Before(contribution, algorithm.event(study.facts, study.trust))

    def added(values, owners, relation, delta):
        book = Ledger.in_memory(
            Policy("d", Budget(1e6, 0.1), relation=relation, unit=Unit.PERSON),
            unisono.ACCOUNTANT,
            seed=1,
        )
        how = {"persons": owners, "records_per_person": MOST, "nominal_rows": 16}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(Before) as found:
                PERSONAL[name](values, epsilon=1.0, delta=delta, ledger=book, **how)
        return found.value.args

    monkeypatch.setattr(in_process, "run", surveyed)
    generator = np.random.default_rng(9)
    for _ in range(pairs):
        owners = np.repeat(np.arange(9), generator.integers(1, MOST + 1, 9))
        values = generator.choice([-1.0, 1.0, 0.3, -0.9, 7.0], len(owners))
        relation = list(Relation)[int(generator.integers(3))]
        delta = float(generator.choice([0.0, 1e-6]))
        kept = owners != int(generator.integers(9))
        size = int(generator.integers(1, MOST + 1))
        own = np.full(size, generator.choice([-1.0, 1.0, np.nan]))
        if relation is Relation.ADD_OR_REMOVE:
            own = own[:0]
        if relation is Relation.ZERO_OUT:
            own = np.full(size, np.nan)
        world = np.concatenate([values[kept], own]), np.concatenate([owners[kept], [99] * len(own)])
        one, event = added(values, owners, relation, delta)
        two, other = added(*world, relation, delta)
        assert event.sensitivity.unit is Unit.PERSON
        claimed = event.sensitivity.under(relation)
        sums = [np.asarray(sent.value, np.int64) for sent in (one, two)]
        moved = distances(*sums, one.grid)
        if event != other or any(
            moved[norm] > getattr(claimed, norm) * (1 + 1e-12) for norm in NORMS
        ):
            return True
    return False


@pytest.mark.parametrize("name", PERSONAL)
def test_one_person_moves_a_statistic_as_far_as_is_claimed(monkeypatch, name):
    assert not moved_too_far(monkeypatch, name)


@pytest.mark.parametrize("name", ["mean", "histogram"])
def test_records_that_do_not_share_a_persons_weight_would_be_noticed(monkeypatch, name):
    """The control: every record counts as a whole person."""
    honest = table._by_record

    def whole(features, marks, mask, group):
        flat, shares, there = honest(features, marks, mask, group)
        return flat, jnp.ones_like(shares), there

    monkeypatch.setattr(table, "_by_record", whole)
    assert moved_too_far(monkeypatch, name)
