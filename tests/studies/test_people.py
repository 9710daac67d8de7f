"""Persons with several records, from the file to the certificate."""

import warnings
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.costs import counted
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party
from unisono.core.trust import Relation, Unit
from unisono.core.values import Private
from unisono.data import RecordTable
from unisono.data.arrow import ArrowColumn
from unisono.data.people import by_person, one_of_each, owner_of, persons_of
from unisono.data.sources import UnreadValues
from unisono.deployment.parties_here import policy_for
from unisono.engines import in_process
from unisono.errors import BudgetExceeded, ClippedValues, InvalidInput, PrivacyViolation
from unisono.studies.build import build
from unisono.studies.clipped_people import lengths, warn_of_clipping
from unisono.studies.data_set import data_set
from unisono.studies.explain import explain
from unisono.studies.file import parse_study
from unisono.studies.inspection import inspect_file
from unisono.studies.policy import require_allowed
from unisono.studies.stages import EVALUATION, FIT

TEXT = """\
title = "Visits"
[data]
person = "patient"
records_per_person = 3
[data.columns]
pressure = { kind = "number", bounds = [0, 200] }
sick = { kind = "true-false" }
[[parties]]
name = "clinic"
records = 60
[privacy]
epsilon = 500
delta = 1e-4
unit = "person"
[trust]
mode = "local"
[model]
name = "statistics"
[[model.questions]]
ask = "mean"
column = "pressure"
[[model.questions]]
ask = "histogram"
column = "sick"
"""
LEARNT = TEXT[: TEXT.index("[model]")].replace("[data]\n", '[data]\ntarget = "sick"\n')
LOGISTIC = LEARNT + '[model]\nname = "logistic-regression"\n'


def visits(persons=60, most=3, seed=1):
    """Persons of 1 to `most` visits in any order, whose pressures differ with their number."""
    generator = np.random.default_rng(seed)
    owners = np.repeat(np.arange(persons), generator.integers(1, most + 1, persons))
    generator.shuffle(owners)
    pressure = 70 + 20 * np.bincount(owners)[owners] + generator.uniform(-9, 9, len(owners))
    sick = generator.random(len(owners)) < pressure / 200
    return owners, pressure, sick


def table(owners, pressure, sick):
    columns = {
        "patient": [f"p{owner}" for owner in owners],
        "pressure": [f"{value:.3f}" for value in pressure],
        "sick": ["yes" if value else "no" for value in sick],
    }
    return RecordTable("clinic.csv", columns, len(owners))


def built_of(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a huge epsilon
        return build(parse_study(text, "study.toml"))


def run(built, records, stage=FIT, found=None, unit=Unit.PERSON, seed=5):
    policy = Policy("clinic", Budget(1500, 1e-3), unit=unit)
    ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=seed)
    own = built.stage(stage)
    columns = own.prepare(built.records(records, "clinic", bytes(32)), found or {})
    return in_process.run(own.study, [Party("clinic", Private(columns), ledger)])


# ------------------------------------------------------------- reading


def test_each_record_is_in_its_persons_row_and_in_no_other():
    owners = ["b", "a", " b ", 7, 7.0, "7", None, "NA", "a"]
    rows = persons_of(owners, 4, bytes(32))
    held = {frozenset(row[row >= 0].tolist()) for row in rows}
    assert held == {frozenset({0, 2}), frozenset({1, 8}), frozenset({3, 4, 5})}
    assert rows.shape == (3, 4)


def test_of_more_records_some_are_drawn_evenly_and_apart():
    """Two of five records of one person, 2000 keys: each is kept with chance 2/5. A count lies
    outside 800 ± 110 (five standard deviations) once in two million."""
    owners = ["a"] * 5 + ["b"] * 2
    kept, first = Counter(), Counter()
    for number in range(2000):
        rows = persons_of(owners, 2, number.to_bytes(32, "big"))
        kept.update(rows[0].tolist())
        first.update([rows[0, 0]])
        assert set(rows[1]) == {5, 6}
    assert set(kept) == {0, 1, 2, 3, 4}
    assert all(abs(count - 800) < 110 for count in kept.values())
    assert all(abs(count - 400) < 90 for count in first.values())  # the one that is tested


def test_another_person_moves_one_row_and_no_shape():
    """All of a person's records change, their number and their places in the file too."""
    owners, pressure, sick = visits()
    built = built_of(TEXT)
    before = built.columns(table(owners, pressure, sick), "clinic")
    gone = owners == 7
    others = [np.concatenate([np.full(3, value), one[~gone]]) for value, one in
              ((7, owners), (11.0, pressure), (True, sick))]  # fmt: skip
    after = built.columns(table(*others), "clinic")
    assert [array.shape for array in before] == [array.shape for array in after]

    def people(columns):
        rows, there = columns
        return Counter(tuple(sorted(own[real > 0, 0].tolist())) for own, real in
                       zip(rows, there, strict=True))  # fmt: skip

    assert sum((people(before) - people(after)).values()) == 1


def test_rows_hold_what_a_person_has_and_nothing_else():
    values = {"x": np.array([1.0, 2.0, 3.0])}
    rows = np.array([[2, 0], [1, -1]])
    found = by_person(values, rows)
    assert np.array_equal(found["x"], [[3.0, 1.0], [2.0, np.nan]], equal_nan=True)
    assert one_of_each(found) == {"x": pytest.approx([3.0, 2.0])}
    assert by_person(values, rows[:, :1]) == {"x": pytest.approx([3.0, 2.0])}


def test_only_the_party_is_told_of_records_that_are_left_out():
    owners, pressure, sick = visits(most=6)
    records = table(owners, pressure, sick)
    records.columns["patient"][int(np.argmax(np.bincount(owners)[owners]))] = ""
    built = built_of(TEXT)
    with (
        pytest.warns(UnreadValues, match="1 of .* records do not say in 'patient' whose"),
        pytest.warns(ClippedValues, match="persons have more than 3 records"),
    ):
        built.columns(records, "clinic")


def test_sizes_count_persons():
    owners, pressure, sick = visits(61)
    with pytest.raises(InvalidInput, match=r"61 persons \(by 'patient'\), and the study states 60"):
        built_of(TEXT).columns(table(owners, pressure, sick), "clinic")
    nobody = RecordTable("a.csv", {n: [""] * 3 for n in ("patient", "pressure", "sick")}, 3)
    with pytest.raises(InvalidInput, match="holds no persons"):
        built_of(TEXT).columns(nobody, "clinic")


def test_a_file_is_checked_by_persons_before_the_run(tmp_path):
    path = tmp_path / "clinic.csv"
    lines = [f"p{number % 59},100,yes" for number in range(80)]
    path.write_text("\n".join(["patient,pressure,sick", *lines, ",90,no"]) + "\n")
    found = {
        one.words: one.problem for one in inspect_file(parse_study(TEXT), path, "clinic").findings
    }
    assert found["it holds 59 persons (by 'patient'), and the study states 60 for clinic"]
    assert found["1 of 81 records do not say in 'patient' whose they are"] is False
    assert inspect_file(parse_study(TEXT), path, "clinic").to_json()["persons"] == 59
    path.write_text("pressure,sick\n100,yes\n")
    said = [one.words for one in inspect_file(parse_study(TEXT), path, "clinic").findings]
    assert "there is no column 'patient'" in said


# ------------------------------------------------------------- answers


def test_in_statistics_every_person_counts_once():
    owners, pressure, sick = visits()
    found = run(built_of(TEXT), table(owners, pressure, sick))
    assert found.certificate.unit == "person"
    answers = {one["name"]: one["value"] for one in built_of(TEXT).present(found)["answers"]}
    weights = 1 / np.bincount(owners)[owners]
    means = np.bincount(owners, weights * pressure)
    assert answers["mean of pressure"] == pytest.approx(means.mean(), abs=0.5)
    assert abs(means.mean() - pressure.mean()) > 3  # which is what records would say
    shares = [np.sum(weights * ~sick), np.sum(weights * sick)]
    assert np.array(answers["histogram of sick"]) == pytest.approx(shares, abs=0.3)


def test_models_are_learnt_from_all_records_of_a_person():
    owners, pressure, sick = visits()
    sick = pressure > 110
    settings = 'name = "gradient-perturbation"\nrounds = 60\nclipping_norm = 1.0\n'
    built = built_of(f"{LOGISTIC}[algorithm]\n{settings}")
    shown = built.present(run(built, table(owners, pressure, sick)))
    scores = shown["intercept"] + shown["weights"]["pressure"] * pressure
    assert np.mean((scores > 0) == sick) > 0.9


def test_the_party_alone_is_told_how_many_persons_are_clipped():
    """Gradients of persons at the result, by hand: slopes times rows, added up."""
    owners, pressure, sick = visits()
    built = built_of(LOGISTIC + '[algorithm]\nname = "gradient-perturbation"\nrounds = 2\n')
    split = built.records(table(owners, pressure, sick), "clinic", bytes(32))
    rows, labels = built.stage(FIT).prepare(split, {})
    value = np.array([0.5, -0.25])
    slopes = -labels / (1 + np.exp(labels * (rows @ value)))
    norms = np.linalg.norm(np.nansum(slopes[:, :, None] * rows, axis=1), axis=1)
    found, most = lengths(built, split, "clinic", value)
    assert most == 0.4
    assert found == pytest.approx(norms, rel=1e-4)
    over = int((norms > 0.4).sum())
    assert 0 < over < 60
    with pytest.warns(ClippedValues, match=f"{over} of 60 persons teach"):
        warn_of_clipping(built, split, "clinic", value)
    plain = built_of(TEXT)
    asked = plain.records(table(owners, pressure, sick), "clinic", bytes(32))
    assert lengths(plain, asked, "clinic", np.zeros(3)) is None


@pytest.mark.slow
def test_a_network_learns_from_persons():
    owners, pressure, _ = visits()
    settings = '[model]\nname = "network"\nhidden = [4]\n[algorithm]\nname = "dp-sgd"\n'
    built = built_of(f"{LEARNT}{settings}rounds = 3\nsampling_rate = 1.0\n")
    found = run(built, table(owners, pressure, pressure > 110))
    assert found.certificate.unit == "person"
    assert all(np.isfinite(array).all() for array in built.arrays(found).values())
    split = built.records(table(owners, pressure, pressure > 110), "clinic", bytes(32))
    norms, most = lengths(built, split, "clinic", found.value)
    assert (len(norms), most) == (60, 1.0)


@pytest.mark.filterwarnings("ignore::unisono.errors.ClippedValues")
def test_one_record_of_each_person_and_any_algorithm():
    text = LOGISTIC.replace("records_per_person = 3", "records_per_person = 1")
    built = built_of(text + '[algorithm]\nname = "output-perturbation"\n')
    owners, pressure, sick = visits()
    records = table(owners, pressure, sick)
    assert [len(array) for array in built.columns(records, "clinic")] == [60, 60]
    assert built.study.facts.unit is Unit.PERSON  # its event is tried in tests/releases


@pytest.mark.filterwarnings("ignore::unisono.errors.ClippedValues")
@pytest.mark.parametrize("name", ["gradient-perturbation", "dp-sgd-convex", "sgd-synchronous"])
def test_one_record_of_each_person_and_sums_of_gradients(name):
    """What is paid for is what is released: nothing is spent on a contribution of records."""
    text = LOGISTIC.replace("records_per_person = 3", "records_per_person = 1")
    built = built_of(f'{text}[algorithm]\nname = "{name}"\nrounds = 2\n')
    assert np.isfinite(run(built, table(*visits())).value).all()


def test_held_out_persons_are_tested_on_one_record_each():
    built = built_of(LOGISTIC + "[evaluation]\nholdout = 0.2\nepsilon = 400\n")
    owners, pressure, _ = visits()
    records = table(owners, pressure, pressure > 110)
    split = built.records(records, "clinic", bytes(32))
    assert (len(split.kept["pressure"]), len(split.learnt["pressure"])) == (12, 48)
    weights = np.array([5.0, 0.0])  # whoever's pressure is high
    [scores] = built.stage(EVALUATION).prepare(split, {FIT: weights})
    assert scores.shape == (12, 1)
    assert built.test.study.facts.unit is Unit.PERSON
    assert run(built, records, EVALUATION, {FIT: weights}).certificate.unit == "person"


def test_public_test_records_are_nobodys(tmp_path):
    built = built_of(LOGISTIC)
    path = tmp_path / "public.csv"
    path.write_text("pressure,sick\n100,yes\n150,no\n")
    values = built.testable(built.public_table(path))
    assert built.judge(np.array([5.0, 0.0]), values, "public.csv")["records"] == 2


# ------------------------------------------------------------- what files say


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('person = "patient"\nrecords_per_person = 3\n', "", "needs the column that says whose"),
        ('unit = "person"', 'unit = "record"', "does not look at persons"),
        ('person = "patient"', 'person = "sick"', "also one of the columns"),
        ("records_per_person = 3", "records_per_person = 0", "greater than or equal to 1"),
        ("records_per_person = 3", "person_at_parties = 2", "2 of 1 parties"),
        ('person = "patient"\n', "", "is about persons: name their column"),
    ],
)
def test_files_that_contradict_themselves(old, new, words):
    with pytest.raises(InvalidInput, match=words):
        parse_study(TEXT.replace(old, new), "study.toml")


def test_algorithms_that_do_not_add_up_persons_name_those_that_do():
    text = LOGISTIC + '[algorithm]\nname = "output-perturbation"\n'
    with pytest.raises(InvalidInput, match=r"person = 1 .*choose gradient-perturbation or dp-sgd-"):
        parse_study(text, "study.toml")
    with pytest.raises(InvalidInput, match=r"choose dp-sgd$"):
        parse_study(
            LEARNT + '[model]\nname = "network"\n[algorithm]\nname = "fed-avg"\n', "study.toml"
        )


def test_studies_of_records_mean_what_they_meant(text):
    said = parse_study(text).meaning["data"]
    assert not {"person", "records_per_person", "person_at_parties"} & set(said)
    one, other = (parse_study(TEXT.replace("= 3", f"= {k}")) for k in (3, 4))
    assert one.hash != other.hash


def test_what_is_said_before_a_run():
    found = explain(parse_study(TEXT.replace("epsilon = 500", "epsilon = 1")))
    assert any("60 persons" in line for line in found.learnt)
    assert any("all records of one person" in line for line in found.promise)
    assert not any("not one person" in danger.words for danger in found.dangers)
    assert any("every person counts once" in danger.words for danger in found.dangers)


def test_ids_of_many_digits_are_told_apart():
    """As doubles two persons would be one: whoever leaves would replace another's row."""
    ids = [Decimal(10**17 + 1), Decimal(10**17 + 2), None, Decimal(10**17 + 1)]
    column = ArrowColumn("ids", pyarrow.array(ids, pyarrow.decimal128(20, 0)))
    assert len(persons_of(column, 2, bytes(32))) == 2
    scaled = ArrowColumn("ids", pyarrow.array(ids, pyarrow.decimal128(20, 2)))
    assert list(map(owner_of, scaled)) == list(map(owner_of, column))


# ------------------------------------------------------------- who pays


def cost(text=TEXT):
    return built_of(text).costs[0]


def test_a_budget_of_records_can_pay_for_persons_and_not_the_other_way_round():
    """Whatever happens to one record, its person is replaced by another: twice the distance of
    blanking out."""
    as_person = counted(cost(), Unit.PERSON, Relation.ZERO_OUT)
    as_record = counted(cost(), Unit.RECORD, Relation.ZERO_OUT)
    for viewer, history in as_record.items():
        [(event, _)] = history.parts
        [(own, _)] = as_person[viewer].parts
        assert event.sensitivity.unit is Unit.RECORD
        assert event.sensitivity.zero_out == own.sensitivity.replace_one
    of_records = TEXT.replace('person = "patient"\nrecords_per_person = 3\n', "").replace(
        'unit = "person"', 'unit = "record"'
    )
    with pytest.raises(InvalidInput, match="budget counts persons, to whom it promises nothing"):
        counted(cost(of_records), Unit.PERSON, Relation.REPLACE_ONE)
    with pytest.raises(InvalidInput, match="hides a person, the budget counts whole parties"):
        counted(cost(), Unit.PARTY, Relation.REPLACE_ONE)


MOVED = """\
[algorithm]
name = "gradient-perturbation"
rounds = 2
clipping_norm = 0.01
"""


def test_a_record_that_is_replaced_may_change_two_persons():
    """It was one person's and is another's: a budget of records counts both of them."""
    built = built_of(LOGISTIC.replace("records = 60", "records = 3") + MOVED)
    algorithm, facts = built.study.algorithm, built.study.facts
    step = algorithm.grid(facts, built.study.trust)
    history = next(iter(counted(built.costs[0], Unit.RECORD, Relation.REPLACE_ONE).values()))
    [(event, _)] = history.parts
    public = algorithm.ask(algorithm.init(facts)[0])

    def total(first):
        # What ann and bob have besides nearly cancels: one record more turns it around.
        rows = [first, ("ann", 110, 1), ("ann", 100, 0), ("bob", 110, 0), ("bob", 100, 1)]
        owners, pressures, sick = zip(*rows, ("eve", 100, 1), strict=True)
        table = RecordTable("visits", {"patient": owners, "pressure": pressures, "sick": sick}, 6)
        columns = built.columns(table, "clinic")
        made = algorithm.local(facts, public, None, columns, np.ones(3, bool), np.int32(3))[1]
        return np.asarray(made.value, float)

    moved = step * np.linalg.norm(total(("ann", 200, 0)) - total(("bob", 200, 1)))
    one_person = algorithm.event(facts, built.study.trust).sensitivity.replace_one.l2
    assert one_person < moved <= event.sensitivity.replace_one.l2


def test_a_policy_says_who_is_a_person(tmp_path):
    """Under another column a study would hide other groups of records, from the same budget."""
    built = built_of(TEXT)
    records = tmp_path / "clinic.csv"
    records.write_text("patient,visit,pressure,sick\n")
    policy = policy_for(built, data_set(records), "clinic", None, False, Budget(600.0, 1e-4))
    assert policy.budget.person == "patient"
    assert policy.core_policy().person == "patient"
    assert Policy.from_json(policy.core_policy().to_json()) == policy.core_policy()
    require_allowed(policy, built.file, built.study, "clinic", built.costs)
    other = built_of(TEXT.replace('person = "patient"', 'person = "visit"'))
    with pytest.raises(PrivacyViolation, match='persons by the column "patient"'):
        require_allowed(policy, other.file, other.study, "clinic", other.costs)


def test_ledgers_pay_before_persons_are_read():
    built = built_of(TEXT)
    ledger = Ledger.in_memory(
        Policy("clinic", Budget(1.0, 1e-4), unit=Unit.PERSON), ACCOUNTANT, seed=1
    )
    closed = Private(None).map(lambda _: pytest.fail("records were opened"))
    with pytest.raises(BudgetExceeded):
        in_process.run(built.study, [Party("clinic", closed, ledger)])
