"""Persons: what one of them adds is bounded as a whole, whatever the number of its records.

False-alarm rate of the audits: 1e-3; the unharmed study passes the same audit.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import statistics
from unisono.attacks.neighbours import search
from unisono.attacks.worlds import AuditEffort, attacker, audit_pair, find_pair
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import ITERATES, Relation, Trust, Unit
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.problems.linear import linear_loss
from unisono.problems.record_loss import RecordLoss, of_persons
from unisono.releases import person_sum, table
from unisono.releases.person_sum import PersonSum

from .. import methods
from ..attacks.neighbour_cases import PARTY, persons, study_of

CASES = {name: rest for name, *rest in persons()}
BOX = (-1.0, 1.0)
EPSILON, DELTA = 4.0, 1e-5


def people(records=(8,), group=3, **more):
    return Facts(records, 2, len(records), records_per_person=group, **more)


def value(method, facts, columns, present=None):
    """What one party would add noise to, in value units."""
    study = Study(method, facts, Trust.LOCAL)
    server, own = study.algorithm.init(facts)
    held = tuple(np.asarray(column, np.float32) for column in columns)
    mask = np.ones(len(held[0]), bool) if present is None else present
    _, sent = study.algorithm.local(facts, study.algorithm.ask(server), own, held, mask)
    return np.asarray(sent.value) * sent.grid, sent, study


# ------------------------------------------------------------- what a person adds


def test_a_persons_records_share_weight_one_in_a_table():
    """Means of means: two records of .2 and .6, one of 1, and nobody's padding."""
    facts = people((2,))
    rows = np.full((2, 3, 2), np.nan)
    rows[0, :2, 0], rows[1, 0, 0] = (0.2, 0.6), 1.0
    there = np.array([[1, 1, 0], [1, 0, 0]])
    method = methods.statistics([statistics.total(0, BOX)], 1.0, 1e-6)
    found, sent, _ = value(method, facts, (rows, there))
    assert found == pytest.approx([0.4 + 1.0], abs=1e-4)
    assert sent.sensitivity.unit is Unit.PERSON


def test_a_record_that_is_missing_a_value_keeps_its_share():
    facts = people((1,))
    rows = np.array([[[0.5, 0], [np.nan, 0], [np.nan, 0]]])
    method = methods.statistics([statistics.total(0, BOX)], 1.0, 1e-6)
    assert value(method, facts, (rows, [[1, 1, 0]]))[0] == pytest.approx([0.25], abs=1e-4)
    assert value(method, facts, (rows, [[1, 0, 0]]))[0] == pytest.approx([0.5], abs=1e-4)


def test_the_sum_of_a_persons_gradients_is_clipped_as_one():
    """At zero a record's gradient is -y x / 2: short sums stay whole, long ones do not."""
    facts = people((2,), 3)
    rows = np.full((2, 3, 2), np.nan)
    labels = np.full((2, 3), np.nan)
    rows[0, :2], labels[0, :2] = [(0.4, 0.0), (0.0, 0.4)], 1.0
    rows[1], labels[1] = [(1.0, 0.0)] * 3, -1.0
    method = methods.gradient_perturbation(2.0, DELTA, rounds=2, clipping_norm=1.0)
    found, sent, _ = value(method, facts, (rows, labels))
    assert found == pytest.approx([-0.2 + 1.0, -0.2], abs=1e-2)  # of 1.5 the second keeps 1
    assert sent.sensitivity.replace_one.l2 == pytest.approx(2.0, rel=1e-2)
    alone = value(method, facts, (rows, labels), np.array([True, False]))[0]
    assert alone == pytest.approx([-0.2, -0.2], abs=1e-2)


@pytest.mark.parametrize(("loss", "classes"), [("logistic", 2), ("multinomial", 3)])
def test_gradients_of_persons_are_sums_of_gradients_of_records(loss, classes):
    generator = np.random.default_rng(1)
    problem, group, persons_here = linear_loss(loss, classes), 4, 300  # more than one block
    rows = generator.uniform(-0.05, 0.05, (persons_here, group, 2)).astype(np.float32)
    labels = generator.integers(0, 2, (persons_here, group)).astype(np.float32)
    labels = labels if loss == "multinomial" else 2 * labels - 1
    gone = generator.random((persons_here, group)) < 0.4
    rows[gone], labels[gone] = np.nan, np.nan
    parameters = np.zeros(problem.shape(2), np.float32)
    bound = PersonSum(1.0, 2, problem.outputs, group)
    facts = people((persons_here,), group)
    slopes = problem.coefficients(parameters, jnp.asarray(rows), jnp.asarray(labels))
    found, _ = bound.integers(facts, None, 2.0**-14, (slopes, jnp.asarray(rows)), ~gone[:, 0])
    kept = ~gone & ~gone[:, :1]
    each = problem.function.gradients(parameters, rows[kept], labels[kept])
    expected = np.asarray(each, float).sum(axis=0).ravel()
    assert np.asarray(found.value) * 2.0**-14 == pytest.approx(expected, abs=0.02)


def test_the_loss_of_a_person_is_the_sum_of_its_records_losses():
    problem = RecordLoss(
        lambda w, record: (record[0] @ w - record[1]) ** 2,
        np.ones(2, np.float32),
        (np.zeros(2, np.float32), np.float32(0)),
    )
    loss = of_persons(problem, 3)
    rows = jnp.array([[1.0, 2.0], [0.0, 1.0], [jnp.nan, jnp.nan]])
    labels = jnp.array([0.0, 3.0, jnp.nan])
    assert float(loss.loss(problem.parameters, (rows, labels))) == pytest.approx(9.0 + 4.0)
    pieces = loss.plan.pieces(problem.parameters, (rows[None], labels[None]))
    # 2 (3) (1, 2) + 2 (-2) (0, 1): padding adds no NaN to a derivative
    assert np.ravel(pieces.leaves[0]) == pytest.approx([6.0, 12.0 - 4.0])


# ------------------------------------------------------------- what it costs


def test_a_person_costs_what_a_record_costs():
    """Clipped together, persons take the noise of records; group privacy would take k times it."""
    for method in (
        methods.statistics([statistics.mean(0, BOX)], 1.0, 1e-6),
        methods.gradient_perturbation(1.0, DELTA, rounds=5),
    ):
        records = Study(method, Facts((50, 60), 2, 2), Trust.LOCAL)
        own = Study(method, people((50, 60), 5), Trust.LOCAL)
        stds = [s.algorithm.event(s.facts, s.trust).noise.std for s in (records, own)]
        assert stds[1] == pytest.approx(stds[0], rel=0.01)
        units = [s.algorithm.event(s.facts, s.trust).sensitivity.unit for s in (records, own)]
        assert units == [Unit.RECORD, Unit.PERSON]
        assert records.hash != own.hash


def test_a_person_at_several_parties_moves_a_sum_as_often():
    method = methods.gradient_perturbation(1.0, DELTA, rounds=5)
    once, thrice = (
        Study(method, people((50, 60, 70), 5, person_at_parties=p), Trust.SECURE_SUM)
        for p in (1, 3)
    )
    events = [s.algorithm.event(s.facts, s.trust) for s in (once, thrice)]
    for relation in (Relation.REPLACE_ONE, Relation.ZERO_OUT):
        near, far = (event.sensitivity.under(relation) for event in events)
        assert (far.l1, far.l2, far.linf) == (3 * near.l1, 3 * near.l2, 3 * near.linf)
    assert events[1].noise.std == pytest.approx(3 * events[0].noise.std, rel=1e-3)
    assert once.hash != thrice.hash


@pytest.mark.parametrize(
    ("method", "trust", "facts", "words"),
    [
        (methods.dp_sgd_convex(1.0, DELTA), Trust.SECURE_SUM, {"person_at_parties": 2}, "sampling"),
        (
            methods.gradient_perturbation(1.0, DELTA),
            Trust.LOCAL,
            {"person_at_parties": 2},
            "release on their own",
        ),
        (methods.output_perturbation(1.0, DELTA), Trust.LOCAL, {}, "records_per_person = 1"),
        (methods.sgd_sequential(1.0, DELTA), Trust.LOCAL, {}, "single records only"),
        (methods.objective_perturbation(1.0, DELTA), Trust.LOCAL, {}, "single records only"),
    ],
)
def test_what_is_not_proved_for_persons_is_refused(method, trust, facts, words):
    with pytest.raises(InvalidInput, match=words):
        Study(method, people((50, 60), 5, **facts), trust).costs  # noqa: B018


def test_a_loss_of_records_is_refused_where_rows_are_persons():
    """Its gradient would be of all records of a row at once, or of the first."""
    problem = RecordLoss(
        lambda w, record: jnp.sum(record[0] @ w), np.ones(2, np.float32), (np.zeros((3, 2)), 0.0)
    )
    method = methods.dp_sgd(problem, optax.sgd(0.1), 1.0, DELTA, rounds=2)
    with pytest.raises(InvalidInput, match="does not add up the records of a person"):
        Study(method, people(), Trust.LOCAL).costs  # noqa: B018


@pytest.mark.parametrize("facts", [people((8,), 2), Facts((8,), 2, 1)])
def test_a_loss_of_persons_is_for_studies_of_as_many_records(facts):
    problem = of_persons(
        RecordLoss(lambda w, row: row @ w, np.ones(2, np.float32), np.zeros(2, np.float32)), 3
    )
    method = methods.dp_sgd(problem, optax.sgd(0.1), 1.0, DELTA, rounds=2)
    with pytest.raises(InvalidInput, match="persons with up to 3 records each"):
        Study(method, facts, Trust.LOCAL).costs  # noqa: B018


def test_certificates_say_at_how_many_parties_a_person_may_be():
    method = methods.statistics([statistics.mean(0, BOX)], 1.0, 1e-6)
    columns = (np.zeros((5, 3, 2), np.float32), np.ones((5, 3), np.float32))
    for places, said in ((1, {"parties_disjoint": True}), (2, {"person_at_parties": 2})):
        facts = Facts((5, 5, 5), 2, 3, 1, records_per_person=3, person_at_parties=places)
        members = [
            Party(
                f"party-{number}",
                Private(columns),
                Ledger.in_memory(
                    Policy("data", Budget(2.0, 1e-5), unit=Unit.PERSON), ACCOUNTANT, seed=number
                ),
            )
            for number in range(3)
        ]
        certificate = in_process.run(Study(method, facts, Trust.SECURE_SUM), members).certificate
        assert (certificate.unit, certificate.declarations) == ("person", said)


def test_one_record_of_each_person_suits_algorithms_for_records():
    study = Study(methods.output_perturbation(1.0, DELTA), people((50, 60), 1), Trust.LOCAL)
    assert study.algorithm.event(study.facts, study.trust).sensitivity.unit is Unit.PERSON
    assert study.cost[ITERATES].parts[0][0].sensitivity.unit is Unit.PERSON


def test_one_record_of_each_person_is_released_as_a_person():
    """Gradients of single records are added up in turns; what leaves is a person's all the same."""
    method = methods.gradient_perturbation(1.0, DELTA, rounds=2)
    columns = (np.full((5, 2), 0.5, np.float32), np.ones(5, np.float32))
    book = Ledger.in_memory(Policy("data", Budget(2.0, 1e-4), unit=Unit.PERSON), ACCOUNTANT, seed=1)
    party = Party("clinic", Private(columns), book)
    result = in_process.run(Study(method, people((5,), 1), Trust.LOCAL), [party])
    assert result.certificate.unit == "person"


@pytest.mark.parametrize(
    "said",
    [
        {"records_per_person": 0},
        {"records_per_person": 2.0},
        {"person_at_parties": 2},
        {"records_per_person": 2, "person_at_parties": 3},
    ],
)
def test_facts_about_persons_that_make_no_sense(said):
    with pytest.raises(InvalidInput, match="person"):
        Facts((5, 5), 2, 2, **said)


# ------------------------------------------------------------- faults that must be found


def fuzzed(name, pairs=60):
    build, facts, shapes = CASES[name]
    study, relations = study_of(build, facts)
    found = search(study, shapes, relations, pairs, 3, name, 0.0, PARTY)
    return [pair for pair in found if pair is not None]


@pytest.mark.parametrize("name", ["persons-survey-public", "persons-k-means-public"])
def test_the_fuzzer_finds_records_that_do_not_share_a_weight(monkeypatch, name):
    honest = table._by_record

    def whole(features, marks, mask, group):
        flat, shares, there = honest(features, marks, mask, group)
        return flat, jnp.ones_like(shares), there

    monkeypatch.setattr(table, "_by_record", whole)
    assert fuzzed(name)


def twice_the_clip(monkeypatch):
    """Two records of a person may each add what one may."""
    honest = person_sum.clipped_sum
    monkeypatch.setattr(
        person_sum,
        "clipped_sum",
        lambda rows, clip, step, mask: honest(rows, 2 * clip, step, mask),
    )


def test_the_fuzzer_finds_persons_who_add_what_two_records_may(monkeypatch):
    twice_the_clip(monkeypatch)
    assert fuzzed("persons-gradient-perturbation-public")


# ------------------------------------------------------------- audits

RUNS, HELD = 1000, 8


def audited(fault=None, rounds=5):
    """A person of three records whose gradients add up to 2.2, or nobody, in a few rounds."""
    method = methods.gradient_perturbation(
        EPSILON, DELTA, rounds=rounds, relation=Relation.ZERO_OUT
    )
    made = Study(method, people((HELD,)), Trust.LOCAL)
    attack, generator = attacker(made), np.random.default_rng(0)
    rows = generator.normal(size=(HELD, 3, 2)).astype(np.float32) / 4
    base = [(rows, np.ones((HELD, 3), np.float32))]
    far = np.zeros((2, 3, 2), np.float32)
    far[0, :, 0], far[1, 0, 0] = 1.5, 0.1
    pair = find_pair(attack, base, (far, np.ones((2, 3), np.float32)), Relation.ZERO_OUT, seed=1)
    effort = AuditEffort(RUNS, 60.0, 0.999)
    return audit_pair(attack, pair, Relation.ZERO_OUT, DELTA, effort, seed=2, fault=fault)


def halved(event):
    return replace(event, noise=replace(event.noise, std=event.noise.std / 2))


def test_audits_of_persons_find_half_of_the_noise_and_nothing_else():
    assert 1.5 < audited().epsilon < EPSILON
    assert audited(halved).epsilon > EPSILON


def test_audits_find_persons_who_add_what_two_records_may(monkeypatch):
    twice_the_clip(monkeypatch)
    assert audited(rounds=4).epsilon > EPSILON  # another program than the unharmed one
