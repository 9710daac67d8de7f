"""The neighbour fuzzer: before the noise, one record moves no release further than is claimed.

`make test` tries 20,000 pairs, `make test-slow` a million. A failure is a proof, not a statistic:
the pair that is printed is further apart than the event that would pay for it says. (That records
on the very edge of rounding stay where they are is tried in tests/engines/test_layout.py.)
"""

import contextlib
import os
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unisono.attacks import neighbours
from unisono.attacks.neighbours import search
from unisono.core import streamed, values
from unisono.core.algorithm import Facts
from unisono.core.sensitivity import Sensitivity
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust
from unisono.engines import layout, streaming
from unisono.engines.distributed import work
from unisono.errors import ConditionViolated, InvalidInput, PrivacyViolation
from unisono.problems.record_loss import RecordLoss
from unisono.releases import algorithm, blocked_sum, minimiser, scaled_sum, table
from unisono.studies.schema import ALGORITHM_SECTIONS

from .. import methods
from .neighbour_cases import FEATURES, PARTY, RECORDS, SIZES, cases, drawn, persons, study_of

CASES = {name: rest for name, *rest in cases()}
PERSONS = {name: rest for name, *rest in persons()}
# Solvers and long correlated runs take many times as long as sums.
HEAVY = {
    "output-perturbation-hidden": 40,
    "output-perturbation-public": 150,
    "output-perturbation-equal-parties-hidden": 40,
    "output-perturbation-equal-parties-public": 60,
    "dp-ftrl-public": 60,
    "dp-ftrl-hidden": 60,
}
FAST, SLOW = 600, 28_300
# Places that are full leave records out, and tell their owner.
pytestmark = pytest.mark.filterwarnings("ignore:party . holds:UserWarning")


def test_there_are_enough_pairs_and_few_enough_programs():
    assert sum(HEAVY.get(name, FAST) for name in CASES) >= 20_000
    assert sum(SLOW * HEAVY.get(name, FAST) // FAST for name in CASES) >= 1_000_000
    assert len(CASES) <= 130


def fuzzed(name, pairs, seed, slack=0.0):
    build, facts, shapes = (CASES | PERSONS)[name]
    study, relations = study_of(build, facts)
    slack = 2.0 if study.algorithm.batch is not None else slack  # two blocks of floats
    found = search(study, shapes, relations, pairs, seed, name, slack, PARTY)
    return [str(pair) for pair in found if pair is not None]


@pytest.mark.parametrize("name", CASES)
def test_no_pair_of_neighbours_is_further_apart_than_claimed(name):
    assert fuzzed(name, HEAVY.get(name, FAST), seed=1) == []


@pytest.mark.parametrize("name", PERSONS)
def test_no_person_moves_a_release_further_than_is_claimed(name):
    assert fuzzed(name, 200, seed=1) == []


STREAMED = (
    "moments-hidden",
    "survey-public",
    "survey-hidden",
    "components-hidden",
    "gradient-perturbation-public",
)


@pytest.fixture
def coarse(monkeypatch):
    """Sums of few records in steps as coarse as those of very many: added up in finer ones."""
    monkeypatch.setattr(table, "_MANY", 1)
    monkeypatch.setattr(table, "_LARGEST_SUM", 2**14)
    algorithm._bound_hashable.cache_clear()
    yield
    algorithm._bound_hashable.cache_clear()


@pytest.mark.parametrize("name", ["moments-public", "survey-public", "survey-hidden"])
def test_nor_where_sums_are_rounded_once(coarse, name):
    build, facts, _ = CASES[name]
    study, _ = study_of(build, facts)
    asked = study.method.problem.table(facts)
    step = study.algorithm.grid(facts, study.trust)
    assert asked.shift(facts, study.method.privacy, step) > 3
    # One of all others may move to another segment, and both are rounded apart.
    assert fuzzed(name, 200, seed=3, slack=2.0) == []


@pytest.fixture
def in_blocks(coarse, monkeypatch):
    """Records are streamed, in blocks of 64: whoever comes or goes moves others to other blocks."""
    monkeypatch.setattr(work, "HELD_BLOCK", 64)

    def opened(self, _):
        return streamed.StreamedColumns.of(self.columns, 64)

    def silent(world, own, layout, by_value, of=neighbours.silent):
        return of(world, own, layout, by_value=True)  # a stream has no mask

    monkeypatch.setattr(neighbours._Opened, "open", opened)
    monkeypatch.setattr(neighbours, "silent", silent)


@pytest.mark.parametrize("name", STREAMED)
def test_nor_where_records_are_streamed(in_blocks, name):
    build, facts, _ = CASES[name]
    assert streaming.streamable(study_of(build, facts)[0])
    assert fuzzed(name, 150, seed=4) == []


def test_streamed_sums_that_move_twice_as_far_are_found(in_blocks, monkeypatch):
    def twice(*given, of=neighbours.distances):
        return {norm: 2 * far for norm, far in of(*given).items()}

    monkeypatch.setattr(neighbours, "distances", twice)
    assert fuzzed("survey-hidden", 150, seed=4) != []


@pytest.mark.parametrize(
    "name",
    ["moments-hidden", "score-influence-2-classes-hidden", "fisher-scoring-binomial-hidden"],
)
def test_taking_the_only_record_away_stops_no_release(name):
    """Where sizes are hidden, a party without records sends a sum of zeros."""
    build, facts, shapes = CASES[name]
    study, _ = study_of(build, facts)
    party = neighbours.CleanParty(study, PARTY)
    server, first = study.algorithm.init(facts)
    publics = [study.algorithm.ask(server)] * party.turns
    columns = tuple(np.full((1, *shape), 0.5, np.float32) for shape in shapes)
    rows = np.concatenate([[0], np.full(party.layout.segment - 1, -1)])
    world = neighbours.World(columns, np.ones(1, bool), rows)
    before, _ = party.releases(world, publics, first)
    after, _ = party.releases(neighbours.without(world, 0, party.layout), publics, first)
    assert np.any(before)
    assert not np.any(after)
    assert after.shape == before.shape


def in_any_order(name):
    """Whether arrays are handed to this algorithm in the order in which they are given."""
    build, facts, _ = CASES[name]
    own = study_of(build, facts)[0].algorithm
    shuffled = own.by_place or own.by_company(facts) or own.batch is not None or own.whole
    return facts.exact_sizes and not shuffled


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name.endswith("public")])
def test_records_that_move_change_no_release(name):
    """In a sorted array one replaced record moves all others by a place. Where places could count
    entrances put records in a random order; elsewhere they do not count, of 77 rows, either."""
    if not in_any_order(name):
        pytest.skip("records of this algorithm are in a random order, or hidden as a whole")
    build, facts, shapes = CASES[name]
    facts = replace(facts, records=(*SIZES[:PARTY], 77, *SIZES[PARTY + 1 :]))
    study, _ = study_of(build, facts)
    party, generator = neighbours.CleanParty(study, PARTY), np.random.default_rng(1)
    server, first = study.algorithm.init(facts)
    for _ in range(10):
        world = neighbours.draw_world(generator, study, party.event, shapes, PARTY)
        few = generator.integers(0, 3, world.size)  # many copies
        columns = tuple(column[few] for column in world.columns)
        public = neighbours.draw_public(generator, study.algorithm.ask(server))
        order = generator.permutation(world.size)
        found = [
            party.releases(world._replace(columns=own), [public] * party.turns, first)[0]
            for own in (columns, tuple(column[order] for column in columns))
        ]
        assert np.array_equal(*found)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CASES, *PERSONS])
def test_nor_is_any_of_a_million(name):
    seed = int(os.environ.get("UNISONO_FUZZ_SEED", "2"))
    assert fuzzed(name, SLOW * HEAVY.get(name, FAST) // FAST, seed) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # of public bounds
@pytest.mark.parametrize("seed", range(5))
def test_nor_with_any_public_parameters(seed):
    """Every draw of bounds, clips, losses and questions is a program of its own."""
    generator, built = np.random.default_rng(seed), 0
    for number in range(40):
        exact = bool(generator.random() < 0.4)
        relation = Relation.REPLACE_ONE if exact else Relation.ADD_OR_REMOVE
        try:
            shapes, method = drawn(generator, relation)
            facts = Facts(SIZES, FEATURES, 3, 1, exact_sizes=exact)
            study, relations = study_of(lambda own=method: own, facts)
        except (InvalidInput, ConditionViolated):
            continue
        built += 1
        slack = 2.0 if study.algorithm.batch is not None else 0.0
        found = search(study, shapes, relations, 120, number, method.name, slack, PARTY)
        assert [str(pair) for pair in found if pair is not None] == []
    assert built > 15


# ------------------------------------------------- that nothing is left out


def test_every_algorithm_of_a_study_file_is_fuzzed():
    """Objective perturbation bounds no difference of what is released: the noise inside its
    objective hides a record, which audits test (tests/algorithms/test_convex_objective.py)."""
    surveys = {"statistics": "survey"}
    pvi = {"pvi-natural-gradient": "natural-gradient", "pvi-clipped-updates": "clipped-updates"}
    for name in set(ALGORITHM_SECTIONS) - {"objective-perturbation"}:
        known = (surveys | pvi).get(name, name)
        assert any(case.startswith(known) for case in CASES), name


@pytest.mark.parametrize("name", CASES)
def test_claims_of_every_trust_are_compared(name):
    """A trust under which another grid is used, or that the facts rule out, would go unnoticed."""
    build, facts, _ = CASES[name]
    study, _ = study_of(build, facts)
    grid = study.algorithm.grid(facts, study.trust)
    compared = {
        other.trust
        for other in neighbours.studies_of(study)
        if other.algorithm.grid(facts, other.trust) == grid
    }
    assert compared == study.algorithm.trusts


# ------------------------------------------------- bugs that it has to notice


def caught(name, pairs=300, seed=3):
    build, facts, shapes = CASES[name]
    study, relations = study_of(build, facts)
    slack = 2.0 if study.algorithm.batch is not None else 0.0
    found = search(study, shapes, relations, pairs, seed, name, slack, PARTY)
    return next((pair for pair in found if pair is not None), None)


def test_a_clip_that_is_twice_as_wide_is_noticed(monkeypatch):
    honest = values._clipped_steps
    monkeypatch.setattr(
        values,
        "_clipped_steps",
        lambda rows, clip, grid, mask=None: honest(rows, 2 * clip, grid, mask),
    )
    assert caught("gradient-perturbation-hidden")


def test_a_clip_of_blocks_that_is_twice_as_wide_is_noticed(monkeypatch):
    honest = scaled_sum._turn
    monkeypatch.setattr(
        scaled_sum,
        "_turn",
        lambda rows, given, mask, clip, step: honest(rows, given, mask, 2 * clip, step),
    )
    assert caught("gradient-perturbation-public")


@pytest.mark.parametrize(
    "name", ["gradient-perturbation-public", "moments-public", "sgd-sequential-public"]
)
def test_half_the_sensitivity_is_noticed(monkeypatch, name):
    """The claim of one record zeroed out, made for one replaced."""

    def halved(unit, replace_one=None, zero_out=None, add_or_remove=None):
        return Sensitivity(unit, zero_out, zero_out, add_or_remove)

    monkeypatch.setattr(values, "Sensitivity", halved)
    monkeypatch.setattr(table, "Sensitivity", halved)
    algorithm._bound_hashable.cache_clear()
    try:
        assert caught(name)
    finally:
        algorithm._bound_hashable.cache_clear()


def tight(objective, party, pairs=60):
    """What the fuzzer finds where Huber's loss is linear, so that the bound is nearly attained."""
    method = methods.output_perturbation(
        2.0, 1e-5, loss="huber-svm", regularisation=2.0, objective=objective
    )
    facts = Facts(SIZES, FEATURES, 3, 1)
    study, relations = study_of(lambda: method, facts)
    found = search(study, CASES["output-perturbation-public"][2], relations, pairs, 5, index=party)
    return [str(pair) for pair in found if pair is not None]


# Weighted by sizes every party is as close to the claim as the smallest; else only that one is.
NEARLY = [("pooled", 0), ("pooled", 2), ("equal-parties", 0)]


@pytest.mark.parametrize(("objective", "party"), NEARLY)
def test_half_the_sensitivity_of_a_weighted_minimiser_is_noticed(monkeypatch, objective, party):
    assert tight(objective, party) == []

    honest = minimiser.Distance
    monkeypatch.setattr(
        minimiser,
        "Distance",
        lambda **norms: honest(**{name: value / 2 for name, value in norms.items()}),
    )
    algorithm._bound_hashable.cache_clear()
    try:
        assert tight(objective, party)
    finally:
        algorithm._bound_hashable.cache_clear()


def test_a_weight_without_its_divisor_is_noticed(monkeypatch):
    """A party that weighs its model by its size must have divided its loss by it, not by n_(1)."""
    honest = minimiser.solver.minimise

    def by_the_smallest(loss, features, labels, mask, count, *rest, **more):
        return honest(loss, features, labels, mask, float(min(SIZES)), *rest, **more)

    monkeypatch.setattr(minimiser.solver, "minimise", by_the_smallest)
    assert tight("pooled", 2)


def test_a_gradient_weighed_after_its_clip_is_noticed(monkeypatch):
    """Weights come before the clip: afterwards the smallest party would reach beyond it."""
    name = "gradient-perturbation-equal-parties-public"
    build, facts, shapes = CASES[name]
    study, relations = study_of(build, facts)
    weight = sum(SIZES) / 3 / min(SIZES)
    honest = scaled_sum._turn

    def weighed_after(*block):
        return jnp.round(weight * honest(*block)).astype(np.int32)

    monkeypatch.setattr(scaled_sum, "_turn", weighed_after)
    assert [pair for pair in search(study, shapes, relations, 300, 3, index=0) if pair is not None]


def test_records_that_displace_each_other_are_noticed(monkeypatch):
    """Hidden sizes, more records than places: an added record took another one's."""
    everything = layout.chosen_rows

    def displaced(study, draw, event, records):
        return everything(study, draw, event, records)[:, : study.algorithm.batch(study.facts)]

    monkeypatch.setattr(work, "chosen_rows", displaced)
    found = caught("dp-sgd-hidden", pairs=1500)
    assert found is not None
    assert found.world.size > CASES["dp-sgd-hidden"][1].places


@pytest.mark.parametrize("sizes", ["public", "hidden"])
def test_a_batch_in_the_order_of_the_file_is_noticed(monkeypatch, sizes):
    """A record that is not chosen, or gone, shifted all that come after it to other blocks. The
    distance hardly shows it unless public values cancel, but other blocks are other numbers."""
    everything = layout.chosen_rows

    def in_order(study, draw, event, records):
        rows = everything(study, draw, event, records)
        chosen = [np.sort(own[own >= 0]) for own in rows]
        return layout.batched(study, chosen)

    name = f"dp-sgd-small-blocks-{sizes}"
    assert not shifted(name)
    monkeypatch.setattr(work, "chosen_rows", in_order)
    assert shifted(name)


def shifted(name):
    """Whether a record that does not take part changes in which row another one lies."""
    build, facts, shapes = CASES[name]
    study, _ = study_of(build, facts)
    party, generator = neighbours.CleanParty(study, PARTY), np.random.default_rng(0)
    seen = []

    def spy(columns, full, rows):
        seen.append(rows)
        return layout.gathered(columns, full, rows)

    original, work.gathered = work.gathered, spy
    try:
        server, state = study.algorithm.init(facts)
        public = [study.algorithm.ask(server)]
        for _ in range(20):
            world = neighbours.draw_world(generator, study, party.event, shapes, PARTY)
            if len(world.rows) > party.layout.segment or not world.present.any():
                continue
            own = int(generator.choice(np.flatnonzero(world.present)))
            other = neighbours.silent(world, own, party.layout, by_value=False)
            seen.clear()
            for one in (world, other):
                party.releases(one, public, state)
            first, second = seen
            if not np.array_equal(np.where(first == own, -1, first), second):
                return True
    finally:
        work.gathered = original
    return False


def test_a_norm_that_overflows_is_noticed(monkeypatch):
    """Squares of huge norms are infinite: a weight of zero where there should be a clip, or worse;
    here the clip is simply trusted to a norm of one coordinate."""
    honest = blocked_sum._weights

    def first_layer_only(rule, norms, bounds):
        return honest(rule, norms * jnp.array([1.0] + [0.0] * (norms.shape[1] - 1)), bounds)

    monkeypatch.setattr(blocked_sum, "_weights", first_layer_only)
    with contextlib.suppress(PrivacyViolation):  # the party's own last look may come first
        assert caught("dp-sgd-public")


def test_a_correlated_run_is_compared_as_a_whole():
    """Single messages of DP-FTRL stay far below the claim, all of them together come close."""
    build, facts, shapes = CASES["dp-ftrl-public"]
    study, _ = study_of(build, facts)
    party = neighbours.CleanParty(study, PARTY)
    assert party.turns == 8
    generator = np.random.default_rng(0)
    world = neighbours.draw_world(generator, study, party.event, shapes, PARTY)
    long = np.ones((RECORDS, FEATURES), np.float32) * 100
    world = world._replace(columns=(long, np.ones(RECORDS, np.float32)))
    server, state = study.algorithm.init(facts)
    publics = [study.algorithm.ask(server)] * 8
    other = neighbours.silent(world, 5, party.layout, by_value=True)
    grid = study.algorithm.grid(facts, Trust.LOCAL)
    first, second = (party.releases(w, publics, state)[0] for w in (world, other))
    claim = party.event.sensitivity.zero_out.l2
    whole = neighbours.distances(first, second, grid)["l2"]
    single = max(neighbours.distances(a, b, grid)["l2"] for a, b in zip(first, second, strict=True))
    assert 0.8 * claim < whole <= claim
    assert single < 0.75 * claim


# ------------------------------------------------- public values that cancel


def cancelling(generator, records, features):
    """Parameters and rows almost orthogonal to them: the last bit of a score decides its sign, so
    that a record computed in another place has another gradient altogether."""
    weights = (generator.normal(size=features) * 1e8).astype(np.float32)
    along = weights.astype(np.float64)
    rows = generator.normal(size=(records, features))
    rows -= np.outer(rows @ along, along) / (along @ along)
    return weights, (10 * rows).astype(np.float32)


@pytest.mark.parametrize(
    ("records", "exact", "block"), [(300, True, 100), (101, True, 128), (24, False, 128)]
)
def test_no_record_is_computed_in_another_place(records, exact, block):
    """Whether one record takes part moves no other one, at public sizes and at hidden ones, within
    the agreed size and far beyond it. Chosen rows in the order of the file moved the sum by 2.5
    where 1.006 was claimed, and a record that took the place of another one by 2.0."""
    features, relation = 20, Relation.REPLACE_ONE if exact else Relation.ADD_OR_REMOVE
    problem = RecordLoss(
        lambda weights, record: jnp.logaddexp(0.0, -record[1] * (record[0] @ weights)),
        np.zeros(features, np.float32),
        (np.zeros(features, np.float32), np.float32(0)),
    )
    clipping = blocked_sum.Clipping(block=block)
    sampled = {"rounds": 2, "sampling_rate": 0.5, "relation": relation, "clipping": clipping}
    method = methods.dp_sgd(problem, optax.sgd(0.1), 2.0, 1e-5, **sampled)
    facts = Facts((records,), features, 1, 0, exact_sizes=exact)
    party = neighbours.CleanParty(Study(method, facts, Trust.LOCAL))
    algorithm = party.study.algorithm
    server, state = algorithm.init(facts)
    grid, generator = algorithm.grid(facts, Trust.LOCAL), np.random.default_rng(1)
    claims = party.event.sensitivity
    for trial in range(60):
        world = neighbours.draw_world(generator, party.study, party.event, ((features,), ()))
        weights, rows = cancelling(generator, world.size, features)
        world = world._replace(columns=(rows, np.ones(world.size, np.float32)))
        if not world.present.any():
            continue
        own = int(generator.choice(np.flatnonzero(world.present)))
        public = algorithm.ask(server)._replace(parameters=jnp.asarray(weights))
        if exact or trial % 2:
            other, claim = neighbours.silent(world, own, party.layout, by_value=False), "zero_out"
        else:
            other, claim = neighbours.without(world, own, party.layout), "add_or_remove"
        first, second = (party.releases(w, [public], state)[0] for w in (world, other))
        assert neighbours.distances(first, second, grid)["l2"] <= getattr(claims, claim).l2
