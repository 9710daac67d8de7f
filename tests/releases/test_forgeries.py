"""Algorithms that try to release more than they pay for."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.output_perturbation import OUTPUT_PERTURBATION
from unisono.algorithms.statistics import count
from unisono.algorithms.survey import STATISTICS, Survey
from unisono.core.algorithm import Facts, Named, Schedule
from unisono.core.costs import everyone
from unisono.core.events import Event, Gaussian, NoNoise, bounded_sum
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import ITERATES, Relation, Trust, Unit
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import UnisonoError
from unisono.problems.columns import BoundedColumns
from unisono.problems.linear import LinearLoss, MarginLoss
from unisono.problems.losses import loss_named
from unisono.problems.record_loss import RecordLoss
from unisono.releases.algorithm import (
    Algorithm,
    AlgorithmConfig,
    AlgorithmKind,
    Publication,
    PublishedConfig,
)
from unisono.releases.banded import COEFFICIENT_UNIT, BandedSum
from unisono.releases.blocked_sum import BlockedSum, Clipping
from unisono.releases.bounds import ClippedSum, ClippedUpdate
from unisono.releases.minimiser import Minimiser
from unisono.releases.perturbed_minimiser import PerturbedMinimiser
from unisono.releases.release import LocalSteps, Poisson, Release
from unisono.releases.rows import Interval, Moments, Ones, OuterProduct, Size
from unisono.releases.table import Block, Table

D, N = 3, 64
COLUMNS = BoundedColumns(((-1.0, 1.0),) * D)
ROWS = ClippedSum(1.0, D)


class Nothing(AlgorithmConfig):
    """No settings."""


class Printable(PublishedConfig):
    """Noise as printed, or calibrated."""


def forged(release, local=None, problem=BoundedColumns, own=None, printed=None, **functions):
    """A registry entry whose release and functions are up to the forger."""
    made = release if callable(release) else lambda config, problem, facts: release

    def build(config, problem, facts, priced):
        return Algorithm(
            **{
                "init": lambda: (jnp.zeros(priced.bound.dimension), own),
                "ask": lambda state: state,
                "local": local or (lambda public, own, records: (own, records.columns[0])),
                "merge": lambda state, sums: sums.total,
                "result": lambda state: state,
            }
            | functions
        )

    config = Nothing if printed is None else Printable
    return AlgorithmKind("forged", "forges", config, problem, made, build, printed=printed)


def study_of(kind, problem=COLUMNS, privacy=None, trust=Trust.LOCAL, parties=1, records=N, **facts):
    privacy = privacy or Privacy(1.0, 1e-6)
    known = Facts((records,) * parties, D, parties, **facts)
    return Study(kind.method(problem, privacy), known, trust)


def run(study, *columns):
    """The study over as many parties, who hold the same records."""
    generator = np.random.default_rng(0)
    columns = columns or (generator.uniform(-1, 1, (N, D)).astype(np.float32),)
    parties = []
    for name in range(study.facts.parties):
        policy = Policy(f"party {name}", Budget(100.0, 1e-3))
        ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=name)
        parties.append(Party(f"party {name}", Private(columns), ledger))
    return in_process.run(study, parties)


def test_an_honest_one_runs():
    assert run(study_of(forged(Release(ROWS)))).value.shape == (D,)


# ------------------------------------------------------------- what bounds are made of


class SmallRows(Interval):
    """Says that it is shorter than it is."""

    alone = within = Size(1e-3, 1e-3)


class SmallBlock(Block):
    taken = swapped = Size(1e-3, 1e-3)


class SmallClipping(Clipping):
    def sensitivity(self, problem, step, hides_presence):
        found = super().sensitivity(problem, step, hides_presence)
        return dataclasses.replace(found, replace_one=found.zero_out)


class SmallLoss(MarginLoss):
    @property
    def function(self):
        return loss_named(self.loss)._replace(lipschitz=1e-3)


class SmallSum(ClippedSum):
    def sensitivity(self, facts, privacy, step):
        return dataclasses.replace(self, clipping_norm=1e-3).sensitivity(facts, privacy, step)


class CheapRelease(Release):
    def scale(self, number):
        return 1e-3 if number else 1.0


class OftenPoisson(Poisson):
    pass


RECORD_LOSS = RecordLoss(lambda w, x: jnp.sum((x - w) ** 2), np.zeros(D, np.float32), np.zeros(D))


def column(public, features):
    return features[:, 0]


@pytest.mark.parametrize(
    "release",
    [
        Release(SmallSum(1.0, D)),
        Release(Table((Block("one", SmallRows(-1.0, 2.0), column),))),
        Release(Table((SmallBlock("one", Interval(-1.0, 2.0), column),))),
        Release(BlockedSum(RECORD_LOSS.plan, SmallClipping())),
        Release(Minimiser(SmallLoss("logistic"), D, 0.1)),
        CheapRelease(ROWS, 2, scales=(1.0, 1.0)),
        Release(ROWS, sampler=OftenPoisson(0.1)),
    ],
    ids=["bound", "rows", "block", "clipping", "loss", "release", "sampler"],
)
def test_parts_of_a_release_are_a_closed_set(release):
    with pytest.raises(UnisonoError, match="closed set"):
        study_of(forged(release))


def test_the_rows_of_a_table_have_the_ends_that_they_say():
    with pytest.raises(UnisonoError, match="multiple"):
        Interval(0.49, 0.02, whole=True)
    with pytest.raises(UnisonoError, match="multiple"):
        Moments(True, False, True, 0.5)
    Interval(-2 / 3, 1.0, whole=True, multiple=3)


@pytest.mark.parametrize(
    "block",
    [
        Block("triangle", OuterProduct(D, False), lambda public, features: features[:, :1]),
        Block("mean", Interval(-1.0, 2.0), lambda public, features: features[:, 0].mean()[None]),
        Block("wide", Ones(), lambda public, features: features),
    ],
    ids=lambda block: block.name,
)
def test_a_table_takes_one_row_of_the_agreed_length_for_each_record(block):
    kind = forged(
        Release(Table((block,))), lambda public, own, records: (own, (public, records.columns[0]))
    )
    with pytest.raises(UnisonoError, match="row"):
        run(study_of(kind))


# ------------------------------------------------------------- what a release says of itself


def test_a_sample_is_claimed_by_sums_only():
    """A minimiser divides by how many were chosen, an update may be made of all records."""
    for bound in (Minimiser(LinearLoss(), D, 0.1), ClippedUpdate(1.0, D, Unit.RECORD, 4)):
        with pytest.raises(UnisonoError, match="sampl"):
            study_of(forged(Release(bound, sampler=Poisson(0.01))))


def test_pure_epsilon_is_not_priced_for_samples_or_schedules_of_noise():
    """Everybody would take part, where an algorithm divides by a sample's size."""
    for more in ({"sampler": Poisson(0.1)}, {"scales": (1.0, 2.0)}):
        release = Release(ClippedSum(1.0, D, pure="laplace"), 4, **more)
        with pytest.raises(UnisonoError, match="pure"):
            study_of(forged(release), privacy=Privacy(1.0))


def test_a_run_is_one_of_banded_sums_and_as_long_as_they_say():
    banded = BandedSum(BlockedSum(RECORD_LOSS.plan, Clipping()), (COEFFICIENT_UNIT, 512), 4, 2)
    for release in (
        Release(ROWS, 4, run=True),
        Release(banded, 4),
        Release(banded, 2, run=True),
        Release(banded, 4, Poisson(0.5), run=True),
        Release(banded, 4, scales=(1.0, 2.0), run=True),
        Release(banded, 4, run=True, turns=lambda facts: Schedule(np.ones((4, 1), bool))),
        Release(banded, 4, run=True, local_steps=LocalSteps(2, 0.1, 1.0)),
    ):
        with pytest.raises(UnisonoError, match="run"):
            study_of(forged(release))


def test_records_are_named_where_the_cost_of_their_uses_is_proved():
    """One record in a round, by its owner's own noise: what a record is charged for is its uses."""

    class More(Named):
        pass

    local = frozenset({Trust.LOCAL})
    banded = BandedSum(BlockedSum(RECORD_LOSS.plan, Clipping()), (COEFFICIENT_UNIT, 512), 4, 2)
    for release in (
        Release(ROWS, 4, named=Named(2)),  # a secure sum would be offered
        Release(ROWS, 4, named=Named(0), trusts=local),
        Release(ROWS, 4, named=Named(5), trusts=local),
        Release(ROWS, 4, named=Named(True), trusts=local),
        Release(ROWS, 4, named=More(2), trusts=local),
        Release(ROWS, 4, Poisson(0.5), named=Named(2), trusts=local),
        Release(ROWS, 4, scales=(1.0, 2.0), named=Named(2), trusts=local),
        Release(ROWS, 4, local_steps=LocalSteps(2, 0.1, 1.0), named=Named(2), trusts=local),
        Release(banded, 4, run=True, named=Named(2), trusts=local),
        Release(Minimiser(LinearLoss(), D, 0.1), named=Named(1), trusts=local),
    ):
        with pytest.raises(UnisonoError, match=r"named|order"):
            study_of(forged(release))


def test_printed_noise_is_asked_for_once_and_charged_what_it_costs():
    told = iter([0.5, 50.0])
    study = printed_study(Release(ROWS, 4), lambda: Gaussian(next(told)))
    assert study.algorithm.event(study.facts, study.trust).noise.std == 0.5
    assert ACCOUNTANT.epsilon(study.cost[ITERATES], Relation.REPLACE_ONE, 1e-6) > 10
    assert next(told) == 50.0
    for nothing in (lambda: Gaussian(0.0), NoNoise, lambda: None):
        with pytest.raises(UnisonoError):
            printed_study(Release(ROWS, 4), nothing)


def printed_study(release, noise, **promise):
    """A study of a forger who prints a noise."""
    publication = Publication("a paper", "it is forged", lambda *_: noise())
    kind = forged(release, printed=publication)
    privacy = Privacy(**{"epsilon": 1.0, "delta": 1e-6, **promise})
    return Study(kind.method(COLUMNS, privacy, published=True), Facts((N, N), D, 2), Trust.LOCAL)


def test_printed_noise_is_the_same_for_everybody_and_in_every_round():
    """Of other releases its event would say too little."""
    banded = BandedSum(BlockedSum(RECORD_LOSS.plan, Clipping()), (COEFFICIENT_UNIT, 512), 4, 2)
    every_other = np.arange(8).reshape(4, 2) % 2 == 0
    for release in (
        Release(ROWS, 4, scales=(1.0, 2.0)),
        Release(banded, 4, run=True),
        Release(ROWS, 4, turns=lambda facts: Schedule(every_other)),
        Release(PerturbedMinimiser(LinearLoss(), D, 0.1), trusts=frozenset({Trust.LOCAL})),
    ):
        with pytest.raises(UnisonoError, match="published = true"):
            printed_study(release, lambda: Gaussian(1.0))
    with pytest.raises(UnisonoError, match="published = true"):
        printed_study(Release(ROWS, 4), lambda: Gaussian(1.0), own=(1.0, 2.0))
    with pytest.raises(UnisonoError, match="pure epsilon"):
        printed_study(Release(ROWS, 4), lambda: Gaussian(1.0), delta=0.0)


def test_a_kind_has_a_field_for_its_printed_noise_and_no_other():
    publication = Publication("a paper", "it is forged", lambda *_: Gaussian(1.0))
    usual = ("forged", "forges", BoundedColumns, Release(ROWS), None)
    for config, printed in ((Nothing, publication), (Printable, None)):
        with pytest.raises(UnisonoError, match="if and only if"):
            AlgorithmKind(*usual[:2], config, *usual[2:], printed=printed)


def test_a_schedule_is_asked_for_once():
    calls = []

    def turns(facts):
        calls.append(facts)
        asked = np.ones((8, facts.parties), bool)
        asked[1 if len(calls) == 1 else 8 :] = False  # few at first, when the price is made
        return Schedule(asked)

    study = study_of(forged(Release(ROWS, 8, turns=turns)))
    history = study.cost[ITERATES]
    assert ACCOUNTANT.epsilon(history, Relation.REPLACE_ONE, 1e-6) <= 1.0


def test_a_release_is_asked_for_once():
    bounds = iter([ClippedSum(1.0, D), ClippedSum(100.0, D)])
    run(study_of(forged(lambda *_: Release(next(bounds)))))
    assert len(list(bounds)) == 1


def test_a_bound_that_grows_after_it_was_priced_is_refused():
    bound = ClippedSum(1.0, D)
    study = study_of(forged(Release(bound)))
    object.__setattr__(bound, "clipping_norm", 100.0)
    with pytest.raises(UnisonoError, match="authorised"):
        run(study)


# ------------------------------------------------------------- what functions do


def test_what_a_party_remembers_is_not_made_of_single_records():
    """Another round's rows would be made of all records, by way of the state."""

    def local(public, own, records):
        (rows,) = records.columns
        return jnp.sum(rows, axis=0), rows * 0 + own

    with pytest.raises(UnisonoError, match="remember"):
        run(study_of(forged(Release(ROWS, 4), local, own=jnp.zeros(D))))


MIXED = {
    "centred": lambda rows: rows - rows.mean(axis=0),
    "repeated": lambda rows: rows * 0 + rows[:1],
    "summed": lambda rows: rows.sum(axis=0, keepdims=True),
    "sorted": lambda rows: jnp.sort(rows, axis=0),
    "shifted": lambda rows: rows + jnp.roll(rows, 1, axis=0),
}


@pytest.mark.parametrize("mixed", MIXED)
def test_rows_of_several_records_are_refused(mixed):
    kind = forged(
        Release(ROWS), lambda public, own, records: (own, MIXED[mixed](records.columns[0]))
    )
    with pytest.raises(UnisonoError, match="record"):
        run(study_of(kind))


def test_what_everybody_sees_is_not_made_of_records():
    """A table's cells, and where gradients are taken, would depend on all of them."""
    block = Block("one", Interval(-1.0, 2.0), lambda public, features: features[:, 0] - public)
    table = forged(
        Release(Table((block,))),
        lambda public, own, records: (own, (records.columns[0].mean(), records.columns[0])),
    )
    with pytest.raises(UnisonoError, match="record"):
        run(study_of(table))
    gradients = forged(
        Release(BlockedSum(RECORD_LOSS.plan, Clipping())),
        lambda public, own, records: (
            own,
            (records.columns[0].mean(axis=0), jnp.ones(1), records.columns[0]),
        ),
        problem=RecordLoss,
    )
    with pytest.raises(UnisonoError, match="record"):
        run(study_of(gradients, RECORD_LOSS))


# ------------------------------------------------------------- words instead of terms


def test_terms_may_be_given_by_their_names():
    """A name is equal to its term but not the same: whatever asks `is` takes the other way."""
    privacy = Privacy(1.0, 1e-6, "replace-one")
    assert privacy.relation is Relation.REPLACE_ONE
    with pytest.raises(UnisonoError, match="add-or-remove"):
        study_of(forged(Release(ROWS)), privacy=Privacy(1.0, 1e-6, "add-or-remove"))
    study = study_of(forged(Release(ROWS)), trust="trusted-server")
    assert study.trust is Trust.TRUSTED_SERVER
    with pytest.raises(UnisonoError, match="relation"):
        Privacy(1.0, 1e-6, "replace-two")


def test_settings_that_hide_one_another_are_refused():
    """Or one of them would be missing from the hash, and parties agree on nothing about it."""

    class Hidden(AlgorithmConfig):
        bounds: float = 1.0

    kind = dataclasses.replace(forged(Release(ROWS)), config=Hidden)
    with pytest.raises(UnisonoError, match="another name"):
        study_of(kind)


def test_methods_that_differ_are_priced_apart():
    once = study_of(forged(Release(ROWS)))
    wider = Study(
        dataclasses.replace(once.method, privacy=Privacy(0.1, 1e-6)), once.facts, once.trust
    )
    assert wider.algorithm.event(once.facts, once.trust).noise.std > 5 * (
        once.algorithm.event(once.facts, once.trust).noise.std
    )
    assert math.isfinite(wider.algorithm.event(once.facts, once.trust).noise.std)


def test_rows_are_tried_at_every_end_of_the_sizes():
    """Only the larger party would mix its records."""

    def local(public, own, records):
        (rows,) = records.columns
        return own, jnp.where(records.size > 32, rows - rows.mean(axis=0), rows)

    kind = forged(Release(ROWS), local)
    study = Study(kind.method(COLUMNS, Privacy(1.0, 1e-6)), Facts((32, N), D, 2), Trust.LOCAL)
    with pytest.raises(UnisonoError, match="record"):
        run(study, np.zeros((N, D), np.float32))


def test_a_name_that_counts_as_an_index_is_counted_as_it():
    """Not as an object of its own each time."""

    class Zero:
        def __index__(self):
            return 0

    event = Event(Gaussian(1.0), bounded_sum(l2=1.0))
    ledger = Ledger.in_memory(Policy("data", Budget(100.0, 1e-3)), ACCOUNTANT, seed=1)
    grant = ledger.authorize(everyone(event * 2), 2, "named", records=3)
    for index in range(2):
        grant.draw(index, record=Zero()).take(event)
    with pytest.raises(UnisonoError):
        grant.draw(1, record=Zero()).take(event)


def test_statistics_have_one_epsilon_for_all_parties():
    method = STATISTICS.method(Survey([count(0)]), Privacy(1.0, 1e-6, own=(0.1, 1.0)))
    with pytest.raises(UnisonoError, match="epsilons of their own"):
        Study(method, Facts((N, N), 1, 2), Trust.LOCAL).costs  # noqa: B018


def test_minimisers_of_several_classes_need_exact_sizes():
    """Whether a party answers would depend on how many records it holds."""
    method = OUTPUT_PERTURBATION.method(
        LinearLoss("multinomial", 3), Privacy(1.0, 0.0, Relation.ADD_OR_REMOVE), regularisation=0.1
    )
    with pytest.raises(UnisonoError, match="several classes under nominal sizes"):
        Study(method, Facts((N, N), D, 2, exact_sizes=False), Trust.LOCAL).costs  # noqa: B018
