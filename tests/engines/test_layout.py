"""Hidden sizes: one record more touches two blocks, no shape, and nobody else's rounding."""

import warnings
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import (
    components,
    quantiles,
    statistics,
)
from unisono.core.algorithm import Facts
from unisono.core.compiled import numbers
from unisono.core.in_graph import share_width
from unisono.core.ledger import Ledger
from unisono.core.noise.chacha import key_from_seed
from unisono.core.noise.in_graph import OUT_OF_RANGE, gaussian_on_grid
from unisono.core.policy import Budget, Policy
from unisono.core.release import noise_steps
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process, rounds
from unisono.engines.layout import (
    batch_width,
    chosen_in_turns,
    chosen_rows,
    padded_length,
    program_rows,
    segment_rows,
    wider,
)
from unisono.engines.rounds import Keys, _clean_values, _noised, stack
from unisono.errors import ConditionViolated
from unisono.problems import networks
from unisono.problems.record_loss import RecordLoss
from unisono.releases import blocked_sum
from unisono.releases.blocked_sum import Clipping

from .. import methods

ADDED = Relation.ADD_OR_REMOVE
FACTS = Facts((40,), 3, 1, 0, exact_sizes=False)
ROWS = FACTS.places
BOX = (-1.0, 1.0)
PROBLEM = RecordLoss(
    lambda weights, record: jnp.logaddexp(0.0, -record[1] * (record[0] @ weights)),
    np.zeros(3, np.float32),
    (np.zeros(3, np.float32), np.float32(0)),
)
PLENTY = {"rounds": 2, "sampling_rate": 0.5, "relation": ADDED}
ALGORITHMS = {
    "gradient-perturbation": methods.gradient_perturbation(2.0, 1e-5, rounds=2, relation=ADDED),
    "dp-sgd-convex": methods.dp_sgd_convex(2.0, 1e-5, rounds=2, relation=ADDED),
    "dp-sgd": methods.dp_sgd(PROBLEM, optax.sgd(0.1), 2.0, 1e-5, **PLENTY),
    "dp-sgd-small-blocks": methods.dp_sgd(
        PROBLEM, optax.sgd(0.1), 2.0, 1e-5, clipping=Clipping(block=64, quantile=0.5), **PLENTY
    ),
    "local-dp-sgd": methods.local_dp_sgd(PROBLEM, optax.sgd(0.1), 2.0, 1e-5, steps=2, **PLENTY),
    "natural-gradient": methods.natural_gradient(rounds=2, relation=ADDED),
    "one-shot-regression": methods.one_shot_regression(2.0, 1e-5, relation=ADDED),
    "k-means": methods.k_means((BOX,) * 3, 2, 2.0, 1e-6, ADDED, rounds=2),
    **{
        name: methods.statistics([question], 1.0, 1e-6, ADDED)
        for name, question in {
            "moments": statistics.mean(0, BOX, wanted=("mean", "variance")),
            "quantiles": quantiles.median(2, BOX, branching=4),
            "components": components.principal_components((0, 1, 2), (BOX,) * 3, 2),
        }.items()
    },
}
ONE_SHOT = {"moments", "quantiles", "components", "k-means"}
SCORED = {
    "fisher-scoring": methods.fisher_scoring("gaussian", 2, 2.0, 1e-6, ADDED, rounds=2),
    "hazard-scoring": methods.hazard_scoring(1, 2.0, 1e-6, ADDED, rounds=2),
    "log-rank": methods.log_rank(("a", "b", "c"), 2.0, 1e-6, ADDED),
    "score-influence": methods.score_influence(("no", "yes"), (), 2.0, 1e-6, ADDED),
}
ONE_SHOT |= set(SCORED)


def study_of(name):
    return Study((ALGORITHMS | SCORED)[name], FACTS, Trust.LOCAL)


def records(count, seed=0):
    generator = np.random.default_rng(seed)
    rows = generator.uniform(-1, 1, size=(count, 3)).astype(np.float32)
    return rows, np.where(generator.random(count) < 0.5, 1, -1).astype(np.float32)


def columns_of(name, count, seed=0):
    rows, labels = records(count, seed)
    return (rows,) if name in ONE_SHOT else (rows, labels)


def compiled(study):
    """The party's function of one segment, as the program between machines has it."""
    server, state = study.algorithm.init(study.facts)
    local = jax.jit(numbers(partial(study.algorithm.local, study.facts)))
    return lambda columns, mask: np.asarray(
        local(study.algorithm.ask(server), state, columns, mask)[1]
    )


@pytest.mark.parametrize("name", [*ALGORITHMS, *SCORED])
def test_a_record_says_the_same_wherever_it_lies(name):
    """What layout's proof needs of a compiled program: at every place of a segment, whoever else
    is there, one record adds the same integers. The events pay for one step a coordinate more."""
    study = study_of(name)
    rows = program_rows(study, 40)
    clean = compiled(study)
    others = columns_of(name, rows, seed=1)
    mine = columns_of(name, 1, seed=2)
    seen = set()
    for place in {0, 1, 2, 3, 15, 16, 17, 31, rows // 2, rows - 17, rows - 2, rows - 1}:
        here = [np.array(column) for column in others]
        for column, own in zip(here, mine, strict=True):
            column[place] = own[0]
        seen.add(clean(tuple(here), np.arange(rows) == place).tobytes())
    assert len(seen) == 1


@pytest.mark.parametrize("name", [*SCORED, "k-means", "natural-gradient"])
def test_records_are_shuffled_where_a_server_asks_for_their_sums(name):
    """At public sizes rows are no multiple of 64, and the last of them are rounded in another order
    than the first. A server that asks at a huge point makes residuals of nothing but rounding: in
    a sorted array, in which one replaced record moves all others by a place, the sum of 71 records
    of `fisher-scoring` was moved by 2.83, where sqrt 2 is paid for."""
    public = replace(FACTS, exact_sizes=True)
    method = (ALGORITHMS | SCORED)[name]
    method = replace(method, privacy=replace(method.privacy, relation=Relation.REPLACE_ONE))
    assert Study(method, public, Trust.LOCAL).algorithm.by_company(public)
    assert not study_of(name).algorithm.by_company(FACTS)  # places are drawn there anyway


@pytest.mark.parametrize("name", ALGORITHMS)
def test_shapes_are_public_whatever_the_size(name):
    study = study_of(name)
    assert {program_rows(study, size) for size in (1, 40, ROWS, ROWS + 1, 10 * ROWS)} == {
        segment_rows(study)
    }


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_record_more_than_a_segment_holds_changes_no_other_block(name):
    """In one process: R records in one segment, and R + 1 in two, through programs that differ in
    nothing but the number of segments. The record apart, integers are the same."""
    study = study_of(name)
    size = segment_rows(study)
    columns = columns_of(name, size + 1)
    server, state = study.algorithm.init(FACTS)
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state)
    found = {}
    for count in (size, size + 1):
        data = stack(study, [tuple(column[:count] for column in columns)])
        masks = data.real
        if study.algorithm.batch is not None:
            padding = -count % size
            masks = np.pad(np.arange(count), (0, padding), constant_values=-1)[None]
        run = jax.jit(partial(_clean_values(study), study.algorithm.ask(server)))
        found[count] = np.asarray(run(states, tuple(data), masks)[1][0])
    last = tuple(np.pad(c[size:], [(0, size - 1)] + [(0, 0)] * (c.ndim - 1)) for c in columns)
    alone = compiled(study)(last, np.arange(size) == 0)
    assert np.array_equal(found[size + 1] - found[size], alone)
    assert padded_length(study, size) % 64 == 0


def book(relation=ADDED, epsilon=10.0):
    policy = Policy("d", Budget(epsilon, 1e-5), relation=relation)
    return Ledger.in_memory(policy, ACCOUNTANT, seed=3)


@pytest.mark.parametrize("name", ["gradient-perturbation", "dp-sgd", "moments"])
def test_more_records_than_agreed_are_all_used_and_nobody_is_told(name):
    study = study_of(name)
    for count in (1, ROWS, ROWS + 1, 3 * ROWS + 5):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            party = Party("p", Private(columns_of(name, count)), book())
            result = in_process.run(study, [party])
        sums = [m.value for m in result.transcript.messages if m.name == "sum"]
        assert all(np.isfinite(np.asarray(leaf)).all() for leaf in sums)


# ------------------------------------------------------------------ the noise


WIDTHS = [4.0, 2.0**20]


def near(width, bits):
    """Just outside, at and just inside an end of the proved range, as floats of so many bits."""
    number = (np.float32 if bits == 32 else np.float64)(width)
    beyond = number.dtype.type(0 if width == 4 else np.inf)
    inside = np.nextafter(number, number.dtype.type(1000))
    return float(np.nextafter(number, beyond)), float(number), float(inside)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("width", WIDTHS)
def test_no_draw_without_noise_at_the_ends_of_the_range(width, bits):
    """Every way to draw in a compiled program refuses a width that is out of range, or leaves the
    value out; none adds the mark of a sampler that could not draw to a value."""
    study = study_of("dp-sgd")
    event = study.algorithm.event(FACTS, Trust.LOCAL)
    value = jnp.full((1, 3), 1234, jnp.int32)
    words = np.arange(8, dtype=np.uint32)[None]
    run = jax.jit(lambda given, width: _noised(study, given, Keys(words, width)))
    for place, std in enumerate(near(width, bits)):
        in_range = place > 0
        handed = np.float32(std)
        noised = np.asarray(run(value, handed[None]) - run(0 * value, handed[None]))
        drawn = np.asarray(run(0 * value, handed[None]))
        if 4 <= handed <= 2.0**20:
            assert (noised == 1234).all()
            assert (drawn != OUT_OF_RANGE).all()
        else:
            assert (noised == 0).all()
        wide = replace(event, noise=replace(event.noise, std=std))
        if in_range:
            gaussian_on_grid(key_from_seed(0), (3,), std)
        else:
            with pytest.raises(ConditionViolated, match="outside"):
                gaussian_on_grid(key_from_seed(0), (3,), std)
        try:
            steps = noise_steps(bytes(32), wide, 1.0, (3,), 1)
        except ConditionViolated:
            continue
        assert max(4, std) <= share_width(wide, 1.0, 1) <= 2.0**20
        assert (steps != OUT_OF_RANGE).all()


# ------------------------------------------------------------------ the last bit


def on_the_edge(generator, grid, features=8):
    """Rows whose gradients, clipped to 1 at parameters 0, are rounded by the last bit of the norm.

    A clipped coordinate v F, with F = 1 / (norm grid), is put where F and the next float round it
    to different integers; the last coordinate makes the norm what it has to be. Equal records then
    move all at once, which is how a program of another shape showed (it added .58 clips).
    """
    one = np.float32
    gradient = generator.normal(size=features)
    gradient *= 2.0 / np.linalg.norm(gradient)
    small = np.abs(gradient) < 0.3
    gradient[small] = 0.45 * np.sign(gradient[small])
    factor = one(one(one(1.0) / one(np.linalg.norm(gradient))) / one(grid))
    above = np.nextafter(factor, one(np.inf))
    for place in range(features - 1):
        first = round(abs(gradient[place]) * float(factor))
        centres = ((first + np.arange(60) + 0.5) / float(factor)).astype(one)
        near = centres[:, None] + np.arange(-3, 4) * np.spacing(centres)[:, None]
        split = np.rint(near * factor) != np.rint(near * above)
        if split.any():
            gradient[place] = np.sign(gradient[place]) * near[split][0]
    rest = (1 / float(factor) / grid) ** 2 - np.sum(gradient[:-1] ** 2)
    if rest <= 0.01:
        return np.zeros((0, features), one)
    last = one(np.sqrt(rest))
    lasts = last + np.arange(-40, 40) * np.spacing(last)
    head = np.repeat(2 * gradient[None, :-1], len(lasts), axis=0)
    return np.concatenate([head, 2 * lasts[:, None]], axis=1).astype(one)


def others_move_by(study, rows, equal):
    """How many steps `equal` equal records move when one more comes that adds nothing."""
    server, _ = study.algorithm.init(study.facts)
    run = jax.jit(partial(rounds._clean_values(study), study.algorithm.ask(server)))
    worst = 0
    for row in rows:
        found = []
        for count in (equal, equal + 1):
            features = np.repeat(row[None], count, axis=0)
            features[equal:] = 0
            data = stack(study, [(features, np.ones(count, np.float32))])
            found.append(np.asarray(run(None, tuple(data), data.real)[1][0]))
        worst = max(worst, int(np.abs(found[0] - found[1]).max()))
    return worst


@pytest.mark.parametrize("fixed", [True, False], ids=["segments", "a-shape-for-every-size"])
def test_the_last_bit_of_others_is_not_decided_by_a_record_that_comes(monkeypatch, fixed):
    """The control pads to the next multiple of 64, as was done once, and must be noticed."""
    if not fixed:
        monkeypatch.setattr(rounds, "segment_rows", lambda study: None)
        monkeypatch.setattr(rounds, "padded_length", lambda study, records: -(-records // 64) * 64)
    method = methods.gradient_perturbation(1.0, 1e-6, rounds=1, relation=ADDED)
    facts = Facts((360,), 8, 1, 0, exact_sizes=False)
    study = Study(method, facts, Trust.LOCAL)
    equal = facts.places if fixed else 448
    assert facts.places == 448
    generator = np.random.default_rng(5)
    grid = study.algorithm.grid(facts, Trust.LOCAL)
    rows = np.concatenate([on_the_edge(generator, grid) for _ in range(3)])
    moved = others_move_by(study, rows, equal)
    assert moved == 0 if fixed else moved >= 448


# ------------------------------------------------------------------ segments of secret batches


LARGE = Facts((4800,), 3, 1, 0, exact_sizes=False)
SAMPLED = methods.dp_sgd(
    PROBLEM, optax.sgd(0.1), 2.0, 1e-5, rounds=40, sampling_rate=0.1, relation=ADDED
)


def test_a_segment_holds_the_usual_batch_and_two_hold_every_one():
    """Nine of ten batches fit into a segment, all but one in 10^18 into two; where sizes are
    public, nobody may be left out, and a batch is padded as before."""
    study = Study(SAMPLED, LARGE, Trust.LOCAL)
    size, law = segment_rows(study), stats.binom(4800, 0.1)
    assert size == 512
    assert 0.01 < law.sf(size) < 0.1
    assert law.sf(2 * size) < 1e-18
    assert batch_width(study) == 2 * size
    exact = replace(LARGE, exact_sizes=True)
    public = methods.dp_sgd(PROBLEM, optax.sgd(0.1), 2.0, 1e-5, rounds=40, sampling_rate=0.1)
    padded = public.bind(exact, Trust.LOCAL).batch(exact)
    assert stats.binom(4800, 0.1).sf(padded) < 1e-18
    small = Study(ALGORITHMS["dp-sgd"], FACTS, Trust.LOCAL)
    assert segment_rows(small) == 128  # nothing to spare


def test_batches_of_one_and_of_two_segments_hold_exactly_who_was_chosen():
    """Over 40 rounds about two batches take a second segment: everybody whom the draw chose lies
    in one row, nobody in two, and a record's chance is the sampling rate."""
    study = Study(SAMPLED, LARGE, Trust.LOCAL)
    size, event = segment_rows(study), study.algorithm.event(LARGE, Trust.LOCAL)
    twins = [book().authorize(study.cost, 40) for _ in range(2)]
    lengths, taken = set(), 0
    for number in range(40):
        first, second = (grant.draw(number, b"") for grant in twins)
        rows = chosen_rows(study, first, event, [4800])[0]
        chosen = np.flatnonzero(second.sample(event.sampler, 4800))
        assert np.sort(rows[rows >= 0]).tolist() == chosen.tolist()
        full = rows[: len(rows) - size]
        assert (full >= 0).all()  # only the last segment has empty rows
        lengths.add(len(rows) // size)
        taken += len(chosen)
    assert lengths == {1, 2}
    assert stats.binomtest(taken, 40 * 4800, 0.1).pvalue > 1e-6


@pytest.mark.parametrize("rate", [0.1, 0.02])
def test_batches_of_many_draws_are_those_drawn_one_by_one(rate):
    """By coins, and by a size; chunks of one length or another draw the same batches."""
    method = methods.dp_sgd(
        PROBLEM, optax.sgd(0.1), 2.0, 1e-5, rounds=6, sampling_rate=rate, relation=ADDED
    )
    study = Study(method, LARGE, Trust.LOCAL)
    event = study.algorithm.event(LARGE, Trust.LOCAL)
    first, second = (book().authorize(study.cost, 6) for _ in range(2))
    together = chosen_in_turns(study, [first.draw(n, b"") for n in range(6)], event, 4800)
    alone = [chosen_rows(study, second.draw(n, b""), event, [4800])[0] for n in range(6)]
    width = max(map(len, alone))
    assert together.tolist() == [wider(own, width).tolist() for own in alone]
    assert all(len(np.unique(own[own >= 0])) == np.count_nonzero(own >= 0) for own in together)


def test_parties_that_are_drawn_together_each_get_their_own():
    """One draw for three parties: whoever was chosen of all lies in his own party's row."""
    records = [1000, 0, 3800]
    study = Study(SAMPLED, LARGE, Trust.LOCAL)
    event = study.algorithm.event(LARGE, Trust.LOCAL)
    first, second = (book().authorize(study.cost, 1).draw(0, b"") for _ in range(2))
    rows = chosen_rows(study, first, event, records)
    chosen = np.sort(second.chosen(event.sampler, 4800))
    found = [np.sort(own[own >= 0]) for own in rows]
    assert len(found[1]) == 0
    assert np.concatenate([found[0], found[2] + 1000]).tolist() == chosen.tolist()
    assert (np.diff(rows[2][rows[2] >= 0]) < 0).any()  # in no order of theirs


NETWORKS = {
    "logistic": (lambda: networks.logistic(100, 4), 100, 512),  # four blocks, computed together
    "mlp": (lambda: networks.mlp(784, (256,), 10), 784, 128),
    "convolutional": (lambda: networks.convolutional((28, 28, 1)), 784, 128),
}


def compiled_sum(model):
    """A network's compiled sum of clipped gradients of (rows, labels, mask), with such records."""
    make, width, count = NETWORKS[model]
    network = make()
    parameters = network.init(jax.random.key(0))
    plan = RecordLoss(network.loss, parameters, (np.zeros(width, np.float32), np.float32(0))).plan
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(count, width)).astype(np.float32)
    labels = generator.integers(0, 4, size=count).astype(np.float32)

    @jax.jit
    def clean(rows, labels, mask):
        columns = (rows, labels)
        return blocked_sum.clipped_sum(
            plan, Clipping(), parameters, jnp.ones(1), columns, mask, 2.0**-18, True
        ).value

    return clean, rows, labels


@pytest.mark.parametrize(
    "model", ["logistic", "mlp", pytest.param("convolutional", marks=pytest.mark.slow)]
)
def test_rows_of_usual_networks_are_alike(model):
    """A record of a network's batch adds the same integers at every place of a block, and in every
    block: what the proof asks of a record that moves into another segment."""
    clean, rows, labels = compiled_sum(model)
    count = len(rows)

    def at(place):
        lying = np.roll(rows, place, 0), np.roll(labels, place), np.arange(count) == place
        return np.asarray(clean(*lying)).tobytes()

    places = {0, 1, 2, 3, 5, 8, 13, 31, 47, 63, 64, 65, 96, 126, 127, count // 2, count - 1}
    assert len({at(place) for place in places}) == 1


def test_blocks_that_are_computed_together_are_rounded_apart():
    """What a record adds depends on its own block alone, bit by bit, whoever lies in the others:
    a sum that were rounded once for all four blocks, or mixed them, would not be."""
    clean, rows, labels = compiled_sum("logistic")
    block = np.arange(len(rows)) // 128
    for place in (0, 127, 128, 300, 511):
        others = np.arange(len(rows)) != place
        own = block == block[place]
        everyone = np.asarray(clean(rows, labels, block >= 0) - clean(rows, labels, others))
        alone = np.asarray(clean(rows, labels, own) - clean(rows, labels, own & others))
        assert everyone.tolist() == alone.tolist()
        assert np.abs(everyone).max() > 0
