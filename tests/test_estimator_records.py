"""What estimators and statistics are given: frames, declared columns, persons, files, batches."""

import itertools
import re
import warnings
from dataclasses import replace

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

import unisono
from unisono import statistics
from unisono.accounting.accountant import ACCOUNTANT
from unisono.attacks.worlds import AuditEffort, attacker, audit_pair, find_pair
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.streamed import StreamedColumns
from unisono.core.study import Study
from unisono.core.trust import FINAL_MODEL, Relation, Unit
from unisono.data import UnreadValues, as_table
from unisono.data.given import is_frame, stream_of, table_of
from unisono.data.people import blanked
from unisono.engines import in_process
from unisono.errors import BudgetExceeded, ClippedValues, InvalidInput
from unisono.estimators import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    PrivateClassifier,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRegressor,
    PrivateRidge,
    foundation,
)
from unisono.estimators.members import Membership, persons_at
from unisono.problems.glm import GeneralizedLinear
from unisono.releases import person_sum
from unisono.studies import build as study_build
from unisono.studies.build import build
from unisono.studies.file import parse_study

pytestmark = pytest.mark.filterwarnings(
    "ignore::unisono.PredictableNoiseWarning",
    "ignore::unisono.FreshBudgetWarning",
    "ignore::unisono.PrivacyWarning",
    "ignore::unisono.ClippedValues",
    "ignore::unisono.data.UnreadValues",
    "ignore::unisono.estimators.DrownedByNoise",
    "ignore::unisono.estimators.NotConverged",
)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Compiled programs of the tests stay out of the user's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


FRAMES = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "lazy polars": polars.LazyFrame,
    "arrow": pyarrow.table,
    "lists": dict,
    "batches": lambda table: iter([table]),
}
CLASSES, TARGETS = {"classes": ["no", "yes"]}, {"target_bounds": (-9.0, 9.0)}
ESTIMATORS = {
    "logistic": (PrivateLogisticRegression, {**CLASSES, "rounds": 3}),
    "svm": (PrivateLinearSVC, {**CLASSES, "rounds": 3}),
    "network": (PrivateClassifier, {**CLASSES, "hidden": (2,), "epochs": 1}),
    "bayesian-logistic": (BayesianLogisticRegression, {**CLASSES, "rounds": 2}),
    "ridge": (PrivateRidge, {**TARGETS, "rounds": 3}),
    "regressor": (PrivateRegressor, {**TARGETS, "hidden": (2,), "epochs": 1}),
    "bayesian-linear": (BayesianLinearRegression, {**TARGETS, "noise_std": 1.0}),
}
# Other algorithms under the same names.
OTHERWISE = {
    "one-shot": (
        BayesianLinearRegression,
        {**TARGETS, "noise_std": 1.0, "algorithm": "one-shot-regression"},
    ),
    "scored-classes": (BayesianLogisticRegression, CLASSES),
    "scored-ridge": (PrivateRidge, {**TARGETS, "algorithm": "fisher-scoring"}),
}
COLUMNS = {
    "age": {"kind": "number", "bounds": [0, 120]},
    "sex": {"kind": "category", "values": ["F", "M"], "other": True, "missing": "category"},
    "creatinine": {
        "kind": "number",
        "bounds": (0.0, 5.0),
        "missing": "indicator",
        "fill": 0.0,
        "transform": "log1p",
    },
    "born": {"kind": "date", "bounds": ("1920-01-01", "2020-01-01")},
}


class Before(Exception):
    """Carries what would have been learnt from."""


@pytest.fixture
def engine(monkeypatch):
    """What an algorithm would be given: its study, and each party's columns."""

    def caught(study, parties, **_):
        raise Before(study, [party.data._value for party in parties])

    monkeypatch.setattr(in_process, "run", caught)

    def given(estimator, *records, **more):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(Before) as found:
                estimator.fit(*records, **more)
        return found.value.args

    return given


def made(name, **more):
    kind, settings = (ESTIMATORS | OTHERWISE)[name]
    return kind(2.0, 1e-6, random_state=1, **{**settings, **more})


def target_of(name):
    return "sick" if "classes" in (ESTIMATORS | OTHERWISE)[name][1] else "score"


def table(records=40, seed=3):
    """Numbers only, as any estimator takes them, and targets of both kinds."""
    generator = np.random.default_rng(seed)
    age, dose = generator.uniform(0, 9, (2, records))
    return {
        "age": [float(value) for value in age],
        "dose": [float(value) for value in dose],
        "sick": ["yes" if value > 4 else "no" for value in age],
        "score": [float(value) - 4 for value in dose],
        "hospital": ["north" if place % 2 else "south" for place in range(records)],
    }


def ugly(records=60, seed=4):
    """Categories, dates, missing cells and unknown ones, and a target that is sometimes missing."""
    generator = np.random.default_rng(seed)
    cells = {
        "age": [float(value) for value in generator.uniform(0, 130, records)],
        "sex": [str(value) for value in generator.choice(["F", "M", "X"], records)],
        "creatinine": [float(value) for value in generator.uniform(0, 6, records)],
        "born": [f"{year}-03-01" for year in generator.integers(1930, 2010, records)],
        "note": ["never read"] * records,
        "sick": ["yes" if value else "no" for value in generator.random(records) < 0.5],
    }
    for place, name in enumerate(["age", "sex", "creatinine", "born", "sick"]):
        cells[name][5 + place] = None
    return cells


# ------------------------------------------------------------- frames of numbers


def unnamed(study):
    """The same study of columns x0, x1, ...: generalised linear models agree on their names."""
    if not isinstance(study.method.problem, GeneralizedLinear):
        return study
    columns = study.method.problem.columns
    assert [own.name for own in columns] in (["age", "dose"], ["x0", "x1"])
    other = tuple(own._replace(name=f"x{place}") for place, own in enumerate(columns))
    problem = replace(study.method.problem, columns=other)
    return Study(replace(study.method, problem=problem), study.facts, study.trust)


@pytest.mark.parametrize("name", ESTIMATORS | OTHERWISE)
def test_frames_are_what_arrays_are(engine, name):
    """Every library's frame, by the names of its columns, gives the algorithm the same rows."""
    cells, target = table(), target_of(name)
    cells.pop("score" if target == "sick" else "sick")
    rows = np.column_stack([cells["age"], cells["dose"]])
    expected, columns = engine(made(name, bounds=(0, 9)), rows, cells[target], cells["hospital"])
    for library, frame in FRAMES.items():
        estimator = made(name, bounds=(0, 9))
        study, found = engine(estimator, frame(cells), target, parties="hospital")
        assert unnamed(study).hash == expected.hash, library
        assert list(estimator.feature_names_in_) == ["age", "dose"]
        assert estimator.n_features_in_ == 2
        for mine, theirs in zip(columns, found, strict=True):
            for one, two in zip(mine, theirs, strict=True):
                if library == "lazy polars":  # rows of a query, in a secret order
                    one, two = (np.sort(np.reshape(array, -1)) for array in (one, two))
                assert np.array_equal(one, two), library


def test_relations_of_duckdb_stand_in_a_secret_order(engine):
    """A query may put a record that changed into another place, and others with it."""
    frame = pandas.DataFrame(table())
    relation = duckdb.sql("select age, dose, sick from frame")
    _, [found] = engine(made("logistic", bounds=(0, 9)), relation, "sick")
    _, [other] = engine(made("logistic", bounds=(0, 9)), relation, "sick")
    _, [third] = engine(
        made("logistic", bounds=(0, 9)).set_params(random_state=None), relation, "sick"
    )
    _, [plain] = engine(made("logistic", bounds=(0, 9)), frame[["age", "dose", "sick"]], "sick")
    assert np.array_equal(found[0], other[0])  # a simulation repeats
    assert not np.array_equal(found[0], plain[0])
    assert not np.array_equal(third[0], plain[0])
    for one in (found, third):
        assert np.array_equal(np.sort(one[0], axis=0), np.sort(plain[0], axis=0))


@pytest.mark.parametrize("name", ["logistic", "ridge"])
def test_predict_refuses_columns_that_do_not_fit(name):
    cells, target = table(200), target_of(name)
    frame = polars.DataFrame(cells).select("age", "dose", target)
    model = made(name, bounds=(0, 9)).fit(frame, target)
    rows = frame.select("age", "dose")
    array = rows.to_numpy()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        expected = model.predict(array)
    for library, make in FRAMES.items():
        if library != "batches":
            assert np.array_equal(model.predict(make(rows.to_dict(as_series=False))), expected)
    with pytest.raises(InvalidInput, match=r"fit \(age, dose\): 'sick'|'score' were not there"):
        model.predict(frame)
    with pytest.raises(InvalidInput, match="another order"):
        model.predict(rows.select("dose", "age"))
    with pytest.raises(InvalidInput, match="it lacks 'dose'"):
        model.predict(rows.select("age"))
    with pytest.raises(ValueError, match="feature names"):  # scikit-learn's own words
        model.predict(rows.to_pandas()[["dose", "age"]])


@pytest.mark.parametrize(("library", "make"), [(n, FRAMES[n]) for n in ("pandas", "arrow")])
def test_what_is_no_number_says_what_to_declare(library, make):
    cells = table()
    text, missing = dict(cells), dict(cells)
    text["age"] = ["secret cell", *map(str, cells["age"][1:])]
    missing["dose"] = [None, *cells["dose"][1:]]
    estimator = made("logistic", bounds=(0, 9))
    with pytest.raises(InvalidInput, match=r"'age' of X holds text in 1 of 40 .*columns=") as found:
        estimator.fit(make({k: text[k] for k in ("age", "dose", "sick")}), "sick")
    assert "secret cell" not in str(found.value)
    with pytest.raises(InvalidInput, match=r"'dose' of X misses values in 1 of 40 .*columns="):
        estimator.fit(make({k: missing[k] for k in ("age", "dose", "sick")}), "sick")


@pytest.mark.parametrize("kind", [list, np.array, lambda cells: np.array(cells, object)])
def test_text_where_numbers_are_predicted_is_refused_and_not_quoted(kind):
    estimator = made("ridge", bounds=(0, 9), target_bounds=(0, 1))
    with pytest.raises(InvalidInput, match=r"y holds text .*predicts numbers") as found:
        estimator.fit(np.zeros((4, 2)), kind(["1", "secret cell", "0", "1"]))
    assert "secret cell" not in str(found.value)


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ((np.zeros((4, 2)), "sick"), "without names of columns"),
        (({"age": [1.0, 2.0], "sick": ["no", "yes"]}, "ill"), "no column 'ill'"),
        (({"sick": ["no", "yes"]}, "sick"), "no columns but sick"),
        (({"age": [1.0, 2.0]}, ["no"]), "1 targets for 2 records"),
        (({"age": [1.0, 2.0], "sick": ["no", "what"]}, "sick"), "not among the public classes"),
    ],
)
def test_frames_that_do_not_fit(records, words):
    with pytest.raises(InvalidInput, match=words):
        made("logistic", bounds=(0, 9)).fit(*records)


# ------------------------------------------------------------- declared columns

STUDY = """\
title = "Ugly"
[data]
target = "sick"
[data.columns]
age = { kind = "number", bounds = [0, 120] }
sex = { kind = "category", values = ["F", "M"], other = true, missing = "category" }
creatinine = { kind = "number", bounds = [0.0, 5.0], missing = "indicator", \
fill = 0.0, transform = "log1p" }
born = { kind = "date", bounds = ["1920-01-01", "2020-01-01"] }
sick = { kind = "category", values = ["no", "yes"] }
[[parties]]
name = "clinic"
records = 60
[privacy]
epsilon = 2
delta = 1e-6
[trust]
mode = "local"
[model]
name = "logistic-regression"
"""


def test_declared_columns_are_read_as_study_files_read_them(engine, monkeypatch):
    """Row by row, NaN by NaN: what an estimator and a study make of the same table is equal, but
    for the secret order that studies put records into."""
    monkeypatch.setattr(study_build, "secret_order", lambda records, key: np.arange(records))
    cells = ugly()
    declared = {**COLUMNS, "sick": {"kind": "category", "values": ["no", "yes"]}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = build(parse_study(STUDY, "study.toml")).columns(as_table(cells), "clinic")
    for library in ("pandas", "polars", "arrow", "lists"):
        estimator = PrivateLogisticRegression(2.0, 1e-6, columns=declared, random_state=1)
        _, [found] = engine(estimator, FRAMES[library](cells), "sick")
        for one, two in zip(expected, found, strict=True):
            assert np.array_equal(one, np.asarray(two, np.float32), equal_nan=True), library
    assert int(np.isnan(found[1]).sum()) == 3  # no age, no date of birth, no target


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_fits_and_predicts_an_ugly_frame(name):
    """Without a line of cleaning; a missing target teaches nothing, and public numbers stay."""
    cells = ugly()
    cells["score"] = [None if age is None else age / 20 for age in cells["age"]]
    target = target_of(name)
    estimator = made(name, columns=COLUMNS)
    with pytest.warns(UnreadValues, match="targets .* are missing"):
        estimator.fit(pandas.DataFrame(cells), target)
    assert list(estimator.encoded_names_) == [
        "age",
        "sex=M",
        "sex=(other)",
        "sex=(missing)",
        "log1p(creatinine)",
        "creatinine=(missing)",
        "born",
    ]
    assert list(estimator.feature_names_in_) == list(COLUMNS)
    coefficients = getattr(estimator, "coef_", None)
    assert coefficients is None or np.shape(coefficients)[-1] == 7
    assert np.isfinite(estimator.certificate_.epsilon(FINAL_MODEL, Relation.REPLACE_ONE))
    whole = polars.DataFrame(cells).filter(
        polars.col("age").is_not_null() & polars.col("born").is_not_null()
    )
    answers = estimator.predict(whole.drop(target))  # more columns than needed are left alone
    assert len(answers) == len(whole)
    assert (set(answers) <= {"no", "yes"}) if target == "sick" else np.isfinite(answers).all()
    with pytest.raises(InvalidInput, match=r"1 of 60 records miss 'age', first record 6"):
        estimator.predict(pandas.DataFrame(cells))
    with pytest.raises(InvalidInput, match="no column 'born'"):
        estimator.predict(whole.drop("born"))
    with pytest.raises(InvalidInput, match="declared by name"):
        estimator.predict(np.zeros((2, 4)))


def test_a_declared_target_says_classes_and_bounds(engine):
    cells = {**ugly(), "score": [float(place) for place in range(60)]}
    truth = {**COLUMNS, "sick": {"kind": "true-false"}}
    estimator = PrivateLogisticRegression(2.0, 1e-6, columns=truth, random_state=1)
    _, [found] = engine(estimator, pandas.DataFrame(cells), "sick")
    assert estimator.classes_.tolist() == [False, True]
    known = ~np.isnan(found[1])
    said = np.array([1.0 if cell == "yes" else -1.0 for cell in cells["sick"]])
    assert np.array_equal(found[1][known], said[known])
    number = {**COLUMNS, "score": {"kind": "number", "bounds": (0, 59)}}
    ridge = PrivateRidge(2.0, 1e-6, columns=number, rounds=3, random_state=1)
    _, [found] = engine(ridge, pandas.DataFrame(cells), "score")
    assert ridge._targets.centre == 29.5
    with pytest.raises(InvalidInput, match="classes and columns both"):
        made("logistic", columns=truth).fit(cells, "sick")
    with pytest.raises(InvalidInput, match='with kind = "category"'):
        PrivateLogisticRegression(columns=number).fit(cells, "score")


def test_private_bounds_of_declared_columns_are_paid_for():
    """Of one column, whose range nobody knows; the others keep their own."""
    generator = np.random.default_rng(0)
    age = generator.uniform(20, 80, 3000)
    cells = {"age": age, "sex": generator.choice(["F", "M"], 3000), "sick": age > 50}
    declared = {
        "age": {"kind": "number", "bounds": "private"},
        "sex": {"kind": "category", "values": ["F", "M"]},
        "sick": {"kind": "true-false"},
    }
    model = PrivateLogisticRegression(3.0, 1e-6, columns=declared, rounds=30, random_state=0)
    model.fit(cells, "sick")
    low, high = model.bounds_
    assert (len(low), len(high)) == (1, 1)
    assert 10 < low[0] < 30
    assert 70 < high[0] < 90
    assert 0 < model.bounds_epsilon_ < 3.0
    assert model.certificate_.epsilon(FINAL_MODEL, Relation.REPLACE_ONE) <= 3.0
    assert np.mean(model.predict(cells) == cells["sick"]) > 0.9


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"age": (0, 120)}, "give each column a dictionary"),
        ({"age": {"kind": "number"}}, "'age'.*bounds.*required"),
        ({"age": {"kind": "numbers", "bounds": (0, 1)}}, "'age'.*numbers"),
        ({"age": {"kind": "number", "bounds": (1, 0)}}, "no range"),
        ({"sick": {"kind": "true-false"}}, "target 'sick' alone"),
        ({"weight": {"kind": "number", "bounds": (0, 1)}}, "no column 'weight'"),
    ],
)
def test_declarations_that_make_no_sense(columns, words):
    with pytest.raises(InvalidInput, match=words):
        PrivateLogisticRegression(columns=columns).fit(ugly(), "sick")


def test_bounds_beside_declarations_are_refused():
    with pytest.raises(InvalidInput, match="bounds and columns are both given"):
        made("logistic", columns=COLUMNS, bounds=(0, 1)).fit(ugly(), "sick")


# ------------------------------------------------------------- persons


def visits(persons=40, most=3, seed=2):
    generator = np.random.default_rng(seed)
    owners = np.repeat(np.arange(persons), generator.integers(1, most + 1, persons))
    age = generator.uniform(0, 9, len(owners))
    return {
        "patient": [f"p{owner}" for owner in owners],
        "age": age,
        "dose": generator.uniform(0, 9, len(owners)),
        "sick": ["yes" if value > 4 else "no" for value in age],
        "score": age - 4,
    }


@pytest.mark.parametrize("name", ESTIMATORS)
def test_certificates_say_that_persons_are_hidden(name):
    cells, target = visits(), target_of(name)
    rows = np.column_stack([cells["age"], cells["dose"]])
    several = 1 if name.startswith("bayesian") else 4
    model = made(name, bounds=(0, 9), records_per_person=several)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippedValues)
        model.fit(rows, cells[target], persons=cells["patient"])
    assert model.certificate_.unit == "person"
    assert "protects   one person" in model.certificate_.text()
    assert model.certificate_.epsilon(FINAL_MODEL, Relation.REPLACE_ONE) <= 2.0
    if several == 1:  # refused before anything is spent
        with pytest.raises(InvalidInput, match="say records_per_person = 1"):
            made(name, bounds=(0, 9)).fit(rows, cells[target], persons=cells["patient"])


def test_persons_are_given_as_studies_give_them(engine):
    """Names of columns, ids and a study file with unit = "person": the same persons."""
    cells = visits()
    frame = pandas.DataFrame(cells)[["patient", "age", "dose", "sick"]]
    how = {"bounds": (0, 9), "records_per_person": 3}
    study, [found] = engine(made("logistic", **how), frame, "sick", persons="patient")
    rows = np.column_stack([cells["age"], cells["dose"]])
    other, [ids] = engine(made("logistic", **how), rows, cells["sick"], persons=cells["patient"])
    assert study.hash == other.hash
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, ids, strict=True))
    assert study.facts.records == (40,)
    assert study.facts.records_per_person == 3
    text = (
        STUDY.replace('target = "sick"', 'target = "sick"\nperson = "patient"')
        .replace("records = 60", "records = 40")
        .replace("[data.columns]", "records_per_person = 3\n[data.columns]")
        .replace("delta = 1e-6", 'delta = 1e-6\nunit = "person"')
    )
    begin, end = text.index("age = {"), text.index("sick = {")
    bounds = 'kind = "number", bounds = [0, 9]'
    text = text[:begin] + f"age = {{ {bounds} }}\ndose = {{ {bounds} }}\n" + text[end:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = build(parse_study(text, "study.toml")).columns(as_table(frame), "clinic")

    def known(columns):
        """Persons as sets of records: their order is secret."""
        held = np.concatenate([columns[0], np.asarray(columns[1])[:, :, None]], axis=2)
        held = np.nan_to_num(np.asarray(held, np.float32), nan=-9.0)
        return sorted(sorted(map(tuple, person.tolist())) for person in held)

    assert known(found) == known(expected)


def test_parties_and_persons_who_are_at_several():
    cells = visits()
    rows = np.column_stack([cells["age"], cells["dose"]])
    half = np.arange(len(rows)) % 2
    how = {"bounds": (0, 9), "records_per_person": 3}
    with pytest.warns(ClippedValues, match="person_at_parties, which is 1: each of them") as told:
        alone = made("logistic", **how).fit(rows, cells["sick"], half, cells["patient"])
    assert alone.certificate_.declarations == {"parties_disjoint": True}
    said = [str(one.message) for one in told if "person_at_parties" in str(one.message)]
    assert re.findall(r"\d+", " ".join(said)) == ["1"]  # what is declared, and nothing exact
    both = made("logistic", **how, person_at_parties=2)
    both.fit(rows, cells["sick"], half, cells["patient"])
    assert both.certificate_.declarations == {"person_at_parties": 2}
    sampled = made("network", **how, person_at_parties=2, batch_size=10)
    with pytest.raises(InvalidInput, match="person_at_parties = 2 with sampling"):
        sampled.fit(rows, cells["sick"], half, cells["patient"])


def placed(owners, most, group=2, seed=7):
    """Persons of parties whose records are these persons', by the owners of what is left."""
    cells = [owner for own in owners for owner in own]
    ends = np.cumsum([0, *map(len, owners)])
    rows = tuple(np.arange(a, b) for a, b in itertools.pairwise(ends))
    members = Membership(tuple(f"party {n}" for n in range(len(owners))), rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        people = persons_at(members, cells, group, seed, "", most)
    return [
        [[cells[own[place]] for place in person if place >= 0] for person in found]
        for own, found in zip(rows, people, strict=True)
    ]


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("group", [1, 2])
def test_a_person_counts_at_as_many_parties_as_are_declared(most, group):
    """Whoever else is there, and with as many rows as before: blank ones take the others' place."""
    owners = [["ann", "bob", "ann"], ["ann", "cid"], ["dora", "ann"], ["ann", "bob"]]
    found = placed(owners, most, group)
    assert [len(own) for own in found] == [2, 2, 2, 2]  # public sizes are what they were
    counted = {
        name: sum(any(name in person for person in own) for own in found)
        for name in ("ann", "bob", "cid", "dora")
    }
    assert counted == {"ann": min(most, 4), "bob": min(most, 2), "cid": 1, "dora": 1}
    assert all(len(set(person)) <= 1 for own in found for person in own)
    # Neighbors: without bob, ann counts where she did.
    others = [[name if name != "bob" else "eve" for name in own] for own in owners]

    def of_ann(parties):
        return [any("ann" in person for person in own) for own in parties]

    assert of_ann(placed(others, most, group)) == of_ann(found)


def test_where_a_person_counts_is_drawn_evenly():
    """400 persons at four parties: each party keeps 100 of them, within 4.6 deviations."""
    names = [f"p{number}" for number in range(400)]
    kept = [sum(map(bool, own)) for own in placed([names] * 4, 1)]
    assert sum(kept) == 400
    assert all(abs(own - 100) < 40 for own in kept)


def test_blank_rows_of_persons_teach_nothing():
    """One record each: what is dropped is NaN in the arrays, or zero where labels are whole."""
    rows, there = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([True, False])
    assert np.isnan(blanked(rows, there)[1]).all()
    assert blanked(np.array([5, 6]), there).tolist() == [5, 0]
    assert blanked(rows, np.array([True, True])) is rows
    cells = visits()
    table = np.column_stack([cells["age"], cells["dose"]])
    half = np.arange(len(table)) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = made("logistic", bounds=(0, 9), records_per_person=1).fit(
            table, cells["sick"], half, cells["patient"]
        )
    assert np.isfinite(found.coef_).all()


def test_ledgers_that_count_persons():
    cells = visits()
    frame = pandas.DataFrame(cells)[["patient", "age", "dose", "sick"]]
    rows = frame[["age", "dose"]].to_numpy()
    ledger = Ledger.in_memory(
        Policy("visits", Budget(2.5, 1e-6), unit=Unit.PERSON, person="patient"), ACCOUNTANT, seed=1
    )
    how = {"bounds": (0, 9), "ledger": ledger, "records_per_person": 3}
    with pytest.raises(InvalidInput, match="budget counts persons, to whom it promises nothing"):
        made("logistic", **how).fit(rows, cells["sick"])
    with pytest.raises(InvalidInput, match="counts persons by the column 'patient'"):
        made("logistic", **how).fit(rows, cells["sick"], persons=cells["patient"])
    assert ledger.grants == 0
    made("logistic", **how).fit(frame, "sick", persons="patient")
    assert ledger.grants == 1
    with pytest.raises(BudgetExceeded):
        made("logistic", **how).fit(frame, "sick", persons="patient")
    with pytest.raises(InvalidInput, match="counts persons by the column 'patient'"):
        unisono.mean(cells["age"], (0, 9), persons=cells["patient"], epsilon=0.1, ledger=ledger)
    found = unisono.mean(frame, (0, 9), column="age", persons="patient", epsilon=0.1, ledger=ledger)
    assert found.certificate.unit == "person"


def test_people_are_told_what_became_of_their_records():
    cells = visits(30, 6)
    cells["patient"][0] = None
    rows = np.column_stack([cells["age"], cells["dose"]])
    model = made("logistic", bounds=(0, 9), records_per_person=2)
    with pytest.warns() as seen:
        model.fit(rows, cells["sick"], persons=cells["patient"])
    words = " ".join(str(one.message) for one in seen)
    assert "1 of" in words
    assert "do not say in 'persons' whose they are" in words
    assert "have more than 2 records" in words
    clipped = made("logistic", bounds=(0, 9), records_per_person=6)
    with pytest.warns(ClippedValues, match="persons teach together is longer"):
        clipped.fit(rows, cells["sick"], persons=cells["patient"])
    with pytest.raises(InvalidInput, match="3 persons for"):
        made("logistic", bounds=(0, 9)).fit(rows, cells["sick"], persons=["a", "b", "c"])
    with pytest.raises(InvalidInput, match="says whose it is"):
        made("logistic", bounds=(0, 9)).fit(rows, cells["sick"], persons=[None] * len(rows))


# ------------------------------------------------------------- audits of persons

EPSILON, DELTA, HELD = 4.0, 1e-5, 8


def audited(engine, monkeypatch, fault=None, rounds=4):
    """The study and the rows that an estimator makes of persons, attacked: a person with three
    records at the edge of the bounds, or nobody. False-alarm rate 1e-3."""
    generator = np.random.default_rng(0)
    owners = np.repeat(np.arange(HELD), 3)

    def given(rows, labels):
        model = PrivateLogisticRegression(
            EPSILON,
            DELTA,
            bounds=(-1, 1),
            classes=[0, 1],
            relation="zero-out",
            rounds=rounds,
            records_per_person=3,
            random_state=0,
        )
        study, [columns] = engine(model, rows, labels, persons=owners)
        return study, tuple(np.asarray(column, np.float32) for column in columns)

    study, base = given(generator.uniform(-0.2, 0.2, (3 * HELD, 2)), np.arange(3 * HELD) % 2)
    _, far = given(np.ones((3 * HELD, 2)), np.ones(3 * HELD, int))
    _, other = given(-np.ones((3 * HELD, 2)), np.ones(3 * HELD, int))
    extremes = tuple(np.stack([a[0], b[0]]) for a, b in zip(far, other, strict=True))
    monkeypatch.undo()
    attack = attacker(study)
    pair = find_pair(attack, [base], extremes, Relation.ZERO_OUT, seed=1)
    effort = AuditEffort(1000, 60.0, 0.999)
    return audit_pair(attack, pair, Relation.ZERO_OUT, DELTA, effort, seed=2, fault=fault).epsilon


def halved(event):
    from dataclasses import replace

    return replace(event, noise=replace(event.noise, std=event.noise.std / 2))


@pytest.mark.slow
def test_audits_of_estimators_find_half_of_the_noise_and_nothing_else(engine, monkeypatch):
    assert 1.5 < audited(engine, monkeypatch) < EPSILON


@pytest.mark.slow
def test_audits_of_estimators_find_half_of_the_noise(engine, monkeypatch):
    assert audited(engine, monkeypatch, halved) > EPSILON


@pytest.mark.slow
def test_audits_of_estimators_find_persons_who_add_what_two_records_may(engine, monkeypatch):
    honest = person_sum.clipped_sum
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            person_sum,
            "clipped_sum",
            lambda rows, clip, step, mask: honest(rows, 2 * clip, step, mask),
        )
        assert audited(engine, monkeypatch, rounds=5) > EPSILON


# ------------------------------------------------------------- files and batches


def written(folder, cells, name="visits.parquet"):
    path = folder / name
    pyarrow.parquet.write_table(pyarrow.table(cells), path)
    return path


@pytest.mark.parametrize("kind", ["parquet", "csv", "batches"])
def test_a_stream_teaches_what_its_table_does(monkeypatch, tmp_path, kind):
    """Block by block, where the public number of cells is too large for memory."""
    cells = {name: table(3000)[name] for name in ("age", "dose", "sick")}
    cells["age"][7] = None  # which teaches nothing
    path = written(tmp_path, cells)
    source = {
        "parquet": path,
        "csv": tmp_path / "visits.csv",
        "batches": lambda: iter(pyarrow.table(cells).to_batches(700)),
    }[kind]
    pandas.DataFrame(cells).to_csv(tmp_path / "visits.csv", index=False)
    declared = {n: {"kind": "number", "bounds": (0, 9)} for n in ("age", "dose")}

    def fitted(records, **more):
        model = made("logistic", columns=declared, **more)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreadValues)
            return model.fit(records, "sick")

    whole = fitted(pandas.DataFrame(cells))
    assert np.array_equal(fitted(source).coef_, whole.coef_)  # short: held in memory
    opened = []
    begin = StreamedColumns.blocks
    monkeypatch.setattr(StreamedColumns, "blocks", lambda own: opened.append(own) or begin(own))
    monkeypatch.setattr(foundation, "HELD", 0)
    streamed = fitted(source)
    assert len(opened) == 1 + 3  # a pass for the moments of rows, and one for each round
    assert streamed.coef_ == pytest.approx(whole.coef_, rel=1e-2, abs=1e-3)
    assert streamed.certificate_.to_json()["study"] == whole.certificate_.to_json()["study"]


def test_streams_of_several_parties_and_targets(monkeypatch, tmp_path):
    cells = {name: table(2000)[name] for name in ("age", "dose", "score")}
    halves = [{name: column[half::2] for name, column in cells.items()} for half in (0, 1)]
    paths = [written(tmp_path, own, f"{number}.parquet") for number, own in enumerate(halves)]
    monkeypatch.setattr(foundation, "HELD", 0)
    model = made("ridge", bounds=(0, 9), rounds=20)
    model.fit(paths, "score", parties=["north", "south"])
    assert model.certificate_.parties == 2
    predicted = model.predict({name: cells[name] for name in ("age", "dose")})
    assert np.corrcoef(predicted, cells["score"])[0, 1] > 0.9
    with pytest.raises(InvalidInput, match="give parties a name for each"):
        made("ridge", bounds=(0, 9)).fit(paths, "score")
    with pytest.raises(InvalidInput, match="y as the name"):
        made("ridge", bounds=(0, 9)).fit(paths[0], cells["score"])


def test_what_cannot_be_streamed_is_refused_where_it_is_long(monkeypatch, tmp_path):
    """Secret batches, hidden sizes and persons need all records at hand."""
    cells = {name: table(60)[name] for name in ("age", "dose", "sick")}
    path = written(tmp_path, {**cells, "patient": [str(n // 2) for n in range(60)]})
    columns = {n: {"kind": "number", "bounds": (0, 9)} for n in ("age", "dose")}
    model = made("network", columns=columns)
    model.fit(path, "sick")  # short enough
    monkeypatch.setattr(foundation, "HELD", 0)
    monkeypatch.setattr(foundation, "MOST_HELD", 100)
    with pytest.raises(InvalidInput, match=r"180 cells.*dp-sgd.*cannot read them block by block"):
        made("network", columns=columns).fit(path, "sick")
    hidden = made("logistic", columns=columns, relation="add-or-remove", records=60)
    with pytest.raises(InvalidInput, match=r"block by block here.*nothing was spent"):
        hidden.fit(path, "sick")
    personal = made("logistic", columns=columns, records_per_person=2)
    personal.fit(path, "sick", persons="patient")
    assert personal.certificate_.unit == "person"
    with pytest.raises(InvalidInput, match="persons: they are not streamed"):
        personal.fit([path, path], "sick", persons="patient")


def test_what_is_a_frame_and_what_a_stream():
    frame = pandas.DataFrame({"age": [1]})
    assert is_frame(frame)
    assert not is_frame(frame, pandas=False)
    assert is_frame(pyarrow.table({"age": [1]}))
    for column in (frame["age"], polars.Series([1]), pyarrow.array([1]), np.zeros(1), [1], "a.csv"):
        assert not is_frame(column)
    assert stream_of(frame) is None
    assert table_of(frame).rows == 1
    with pytest.raises(InvalidInput, match=r"only \.csv and \.parquet"):
        stream_of("ages.xlsx")
    with pytest.raises(InvalidInput, match="no such file"):
        stream_of("nowhere.csv")
    with pytest.raises(InvalidInput, match="hold no records"):
        stream_of(lambda: iter([]))


# ------------------------------------------------------------- statistics


def book(unit="record", relation=Relation.REPLACE_ONE, seed=3):
    policy = Policy("visits", Budget(1e6, 0.1), relation=relation, unit=Unit(unit))
    return Ledger.in_memory(policy, ACCOUNTANT, seed=seed)


ASKED = {
    "count": lambda values, **how: unisono.count(values, **how),
    "total": lambda values, **how: unisono.total(values, (0, 9), **how),
    "mean": lambda values, **how: unisono.mean(values, (0, 9), **how),
    "histogram": lambda values, **how: unisono.histogram(values, ["no", "yes"], **how),
    "variance": lambda values, **how: unisono.variance(values, (0, 9), **how),
    "std": lambda values, **how: unisono.std(values, (0, 9), **how),
    "quantile": lambda values, **how: unisono.quantile(values, [0.2, 0.8], (0, 9), **how),
    "median": lambda values, **how: unisono.median(values, (0, 9), **how),
}
COLUMN = {"histogram": "sick", "count": "old"}


def with_truth(cells):
    return {**cells, "old": [value > 5 for value in cells["age"]]}


@pytest.mark.parametrize("name", ASKED)
def test_statistics_of_columns_are_those_of_lists(name):
    cells, column = with_truth(visits()), COLUMN.get(name, "age")
    how = {"epsilon": 1.0, "delta": 1e-6}
    named = {} if name in COLUMN else {"name": column}
    alone = ASKED[name](list(cells[column]), ledger=book(), **how, **named)
    for library in ("pandas", "polars", "arrow", "lists", "batches"):
        frame = FRAMES[library]({k: list(own) for k, own in cells.items()})
        found = ASKED[name](frame, column=column, ledger=book(), **how)
        assert np.array_equal(found.value, alone.value), library
    assert f"of {column}" in found.text or name in ("count", "histogram")
    with pytest.raises(InvalidInput, match="say which with column"):
        ASKED[name](pandas.DataFrame(cells), ledger=book(), **how)
    with pytest.raises(InvalidInput, match="no column 'ages'"):
        ASKED[name](pandas.DataFrame(cells), column="ages", ledger=book(), **how)


def by_person(name, cells, column):
    """The truth about persons, each of whom counts once."""
    frame = pandas.DataFrame(cells)
    if name == "histogram":
        shares = [
            (frame[column] == one).groupby(frame["patient"]).mean().sum() for one in ("no", "yes")
        ]
        return np.array(shares)
    means = frame.groupby("patient")[column].mean()
    if name in ("count", "total"):
        return means.sum()
    squares = (frame[column] ** 2).groupby(frame["patient"]).mean()
    spread = squares.mean() - means.mean() ** 2
    return {"mean": means.mean(), "variance": spread, "std": spread**0.5}[name]


@pytest.mark.parametrize("name", ["count", "total", "mean", "histogram", "variance", "std"])
@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE])
def test_every_person_counts_once(name, relation):
    cells, column = with_truth(visits(400)), COLUMN.get(name, "age")
    ledger = book("person", relation)
    how = {"epsilon": 300.0, "delta": 1e-6, "ledger": ledger, "nominal_rows": 400}
    found = ASKED[name](pandas.DataFrame(cells), column=column, persons="patient", **how)
    assert found.value == pytest.approx(by_person(name, cells, column), rel=0.02)
    assert found.certificate.unit == "person"
    assert "one person" in str(found)
    ids = ASKED[name](list(cells[column]), persons=cells["patient"], **how)
    assert ids.value == pytest.approx(found.value, rel=0.02)


@pytest.mark.parametrize("name", ["count", "mean", "histogram", "median"])
def test_statistics_stream_what_is_long(monkeypatch, tmp_path, name):
    cells, column = with_truth(visits(900)), COLUMN.get(name, "age")
    path = written(tmp_path, {key: list(own) for key, own in cells.items()})
    how = {"epsilon": 50.0, "delta": 1e-6, "column": column}
    short = ASKED[name](path, ledger=book(), **how)
    opened = []
    begin = StreamedColumns.blocks
    monkeypatch.setattr(StreamedColumns, "blocks", lambda own: opened.append(own) or begin(own))
    monkeypatch.setattr(statistics.cells, "HELD", 0)
    long = ASKED[name](path, ledger=book(), **how)
    assert len(opened) == 1
    assert long.value == pytest.approx(short.value, rel=0.02, abs=0.5)


def test_table_one_counts_persons():
    cells = with_truth(visits(400))
    how = {"bounds": {"age": (0, 9)}, "categories": {"sick": ["no", "yes"]}, "delta": 1e-6}
    found = unisono.table_one(
        pandas.DataFrame(cells),
        "sick",
        persons="patient",
        epsilon=200.0,
        ledger=book("person"),
        **how,
    )
    assert found.certificate.unit == "person"
    shares = by_person("histogram", cells, "sick")
    printed = found.text.splitlines()[3].split()
    assert printed[:3] == ["Records,", "n", "400"]
    assert [float(one) for one in printed[3:]] == pytest.approx(shares, abs=3)
    with pytest.raises(InvalidInput, match="no column 'person'"):
        unisono.table_one(
            pandas.DataFrame(cells), persons="person", epsilon=1.0, ledger=book("person"), **how
        )
