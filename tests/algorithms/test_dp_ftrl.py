"""DP-FTRL: reading, covariance, exact claims, audits, and messages that are lost or lied about.

The loss is linear in the model, so that a record's gradient is itself: worst cases are plain.
"""

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.linalg import toeplitz
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from unisono.accounting import gaussian
from unisono.accounting import matrix_mechanism as matrix
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.dp_ftrl import DP_FTRL
from unisono.attacks import neighbours
from unisono.attacks.audit import audit, check
from unisono.attacks.replay import Replay, best_direction, scores
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.compiled import numbers
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.release import noise_steps
from unisono.core.study import Party, Study
from unisono.core.trust import ITERATES, SERVER, Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.engines.layout import spread
from unisono.errors import AuditFailed, InvalidInput
from unisono.problems.record_loss import RecordLoss
from unisono.releases.banded import remembered
from unisono.releases.blocked_sum import Clipping

from .. import methods

EPSILON, DELTA = 4.0, 1e-5
ROUNDS, WIDTH = 12, 3
ALONE, THREE = Facts((9,), WIDTH, 1), Facts((9, 7, 8), WIDTH, 3)


def linear(model, record):
    return jnp.dot(model, record[0])


PROBLEM = RecordLoss(linear, np.zeros(WIDTH, np.float32), (np.ones(WIDTH, np.float32),))


def algorithm(optimizer=None, **changes):
    usual = {
        "epsilon": EPSILON,
        "delta": DELTA,
        "rounds": ROUNDS,
        "separation": 4,
        "bands": 4,
        "relation": Relation.ZERO_OUT,
    }
    return methods.dp_ftrl(PROBLEM, optimizer or optax.sgd(1.0), **usual | changes)


def alone(method):
    return method.bind(ALONE, Trust.LOCAL)


DISJOINT, OVERLAPPING, ONE_BAND = (
    algorithm(),
    algorithm(separation=2, bands=12, optimised=False),
    algorithm(bands=1),
)


def records(facts, seed=0):
    """Rows inside the unit ball; the first of the first party is as long as can be."""
    generator = np.random.default_rng(seed)
    rows = [0.3 * generator.normal(size=(n, WIDTH)).astype(np.float32) for n in facts.records]
    rows = [row / np.maximum(1, np.linalg.norm(row, axis=1, keepdims=True)) for row in rows]
    rows[0][0] = 50.0 * np.array([0.6, -0.8, 0.0])
    return [(row,) for row in rows]


def dense(coefficients, rounds=ROUNDS):
    column = np.zeros(rounds)
    column[: len(coefficients)] = coefficients
    return toeplitz(column, np.zeros(rounds))


def coefficients_of(method):
    return np.array(alone(method).settings["coefficients"]) / 4096


# ------------------------------------------------------------ integers and reading


def test_the_bracket_is_rounded_exactly():
    """Against unbounded integers, for sums of either sign up to 2^28 steps."""
    generator = np.random.default_rng(1)
    for bands in (1, 2, 9, 60):
        steps = np.sort(generator.integers(0, 4097, bands - 1))[::-1]
        sums = generator.integers(-(2**28), 2**28, (bands - 1, 500)) // max(1, bands // 8)
        exact = steps.astype(object) @ sums.astype(object) if bands > 1 else np.zeros(500, int)
        expected = [(int(value) + 2048) // 4096 for value in exact]
        found = remembered(steps.astype(np.int32), jnp.asarray(sums, jnp.int32))
        assert np.array_equal(found, expected)


def test_coefficients_are_those_of_the_strategy_and_never_rise():
    rooted = coefficients_of(algorithm(optimised=False, bands=6, momentum=0.5))
    assert rooted == pytest.approx(matrix.square_root(6, 0.5), abs=2**-13)
    found = coefficients_of(algorithm(separation=6, bands=6, momentum=0.5))
    assert found == pytest.approx(matrix.optimised(6, ROUNDS, 6, 0.5), abs=2**-13)
    assert np.abs(found - rooted).max() > 0.01
    assert found[0] == 1
    assert (np.diff(found) <= 0).all()
    useful = algorithm(separation=2, bands=6)  # further bands only overlap
    assert len(coefficients_of(useful)) == 2
    assert alone(useful).init(ALONE)[1].memory.sums.shape == (1, WIDTH)


def test_every_place_has_its_turn_once_in_an_epoch():
    method = algorithm(separation=4, bands=1, momentum=0.0, rounds=8)
    bound = DP_FTRL.release(method.config, PROBLEM, ALONE).bound
    data = (np.arange(9, dtype=np.float32),)
    seen = []
    for clock in range(4):
        rows, chosen = bound.in_turn(ALONE, clock, data, np.ones(9, bool))
        seen.append(np.asarray(rows[0])[np.asarray(chosen)])
        assert (seen[-1] % 4 == clock).all()
        again, same = bound.in_turn(ALONE, clock + 4, data, np.ones(9, bool))
        assert np.array_equal(again[0], rows[0])
        assert np.array_equal(same, chosen)
    assert sorted(np.concatenate(seen)) == list(range(9))
    assert not bound.in_turn(ALONE, 8, data, np.ones(9, bool))[1].any()


@pytest.mark.parametrize("found", [DISJOINT, OVERLAPPING, ONE_BAND], ids=["4", "6", "1"])
def test_reading_gives_back_the_clean_sums(found):
    """Without noise; rounding to the grid is all that is left."""
    found = found.bind(THREE, Trust.LOCAL)
    data, separation = records(THREE), found.settings["separation"]
    server, state = found.init(THREE)
    states, grid = [state] * 3, found.grid(THREE, None)
    local = jax.jit(numbers(partial(found.local, THREE)))
    for number in range(ROUNDS):
        total, clean = 0, 0.0
        for party, (rows,) in enumerate(data):
            padded = np.zeros((9, WIDTH), np.float32)
            padded[: len(rows)] = rows
            full = np.arange(9) < len(rows)
            after, value, _ = local(found.ask(server), states[party], (padded,), full)
            states[party] = found.settle(after, True)
            total = total + value
            mine = rows[number % separation :: separation]
            clean = clean + (mine / np.maximum(1, np.linalg.norm(mine, axis=1))[:, None]).sum(0)
        before = server.model.parameters
        server = found.merge(server, Aggregate(total * grid, 3, 24.0, None))
        step = (before - server.model.parameters) * 24.0 / separation
        assert step == pytest.approx(clean, abs=20 * grid)
        assert np.abs(clean).max() > 0.1


# --------------------------------------------------------------------- the noise


def iterates(found, sums):
    """The server's models after every round, for noisy sums (runs, rounds, d) of one party."""
    found = alone(found)
    server, _ = found.init(ALONE)

    def step(state, total):
        state = found.merge(state, Aggregate(total, 1, jnp.float32(9.0), None))
        return state, state.model.parameters

    scan = jax.jit(jax.vmap(lambda total: jax.lax.scan(step, server, total)[1]))
    return np.asarray(scan(jnp.asarray(sums, jnp.float32)))


def noise_of_models(found, runs=2000):
    """Models learned from noise alone, as prefix sums of gradients: (runs, rounds, d)."""
    bound, rounds = alone(found), found.config.rounds
    event, grid = bound.event(ALONE, Trust.LOCAL), bound.grid(ALONE, None)
    drawn = noise_steps(b"k" * 32, event, grid, (runs * rounds, WIDTH), 1, (WIDTH,))
    noise = iterates(found, (drawn * grid).reshape(runs, rounds, WIDTH))
    return noise * 9.0 / found.config.separation


def test_the_noise_of_models_has_the_predicted_covariance():
    """6000 draws of 12 iterates: 78 entries within 6 standard errors, false alarm 2e-7."""
    found = OVERLAPPING
    noise = noise_of_models(found)
    std = alone(found).event(ALONE, Trust.LOCAL).noise.std
    reading = std * dense(np.ones(ROUNDS)) @ np.linalg.inv(dense(coefficients_of(found)))
    predicted = reading @ reading.T
    draws = np.moveaxis(noise, 2, 1).reshape(-1, ROUNDS)
    measured = draws.T @ draws / len(draws)
    spread = np.sqrt((np.outer(np.diag(predicted), np.diag(predicted)) + predicted**2) / len(draws))
    assert (np.abs(measured - predicted) < 6 * spread).all()


def test_correlated_noise_errs_less_than_independent_noise_at_equal_epsilon():
    """Measured against the prediction: 6000 draws, 6 standard errors, false alarm 4e-9."""
    errors = []
    for bands in (1, 8):
        found = algorithm(rounds=40, separation=8, bands=bands)
        last = noise_of_models(found)[:, -1].ravel()
        event, c = alone(found).event(ALONE, Trust.LOCAL), coefficients_of(found)
        predicted = event.noise.std * matrix.errors(c, np.ones(40))[-1]
        assert np.std(last) == pytest.approx(predicted, rel=6 / math.sqrt(2 * last.size))
        errors.append(np.std(last))
    assert errors[1] < 0.5 * errors[0]


# -------------------------------------------------------------------- the claims


def epsilon_of(mu, delta):
    """Balle and Wang's curve by itself: Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) = δ."""

    def excess(epsilon):
        second = math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
        return ndtr(mu / 2 - epsilon / mu) - second - delta

    return brentq(excess, 0, 100, xtol=1e-12)


def worst_distance(found, facts):
    """||C u|| by brute force over the batches, and what rounding adds, from first principles."""
    separation, c = found.config.separation, coefficients_of(found)
    columns = dense(c)
    worst = max(np.linalg.norm(columns[:, p::separation].sum(axis=1)) for p in range(separation))
    grid = found.bind(facts, Trust.LOCAL).grid(facts, None)
    turns = math.ceil(ROUNDS / separation)
    rounding = grid * math.sqrt(WIDTH * min(ROUNDS, turns * (len(c) - 1)))
    return worst * (1 + grid * math.sqrt(WIDTH)) + rounding


@pytest.mark.parametrize("relation", [Relation.ZERO_OUT, Relation.REPLACE_ONE])
@pytest.mark.parametrize("bands", [1, 4, 8])
def test_epsilon_is_that_of_one_gaussian_release(bands, relation):
    found = algorithm(bands=bands, relation=relation)
    times = 2 if relation is Relation.REPLACE_ONE else 1
    for facts, trust in ((ALONE, Trust.LOCAL), (THREE, Trust.SECURE_SUM)):
        bound = found.bind(facts, trust)
        event = bound.event(facts, trust)
        claimed = event.sensitivity.under(relation).l2
        # Besides: what float32 sums over blocks of records may err by, 0.2 %.
        assert 1 <= claimed / (times * worst_distance(found, facts)) < 1.003
        assert epsilon_of(claimed / event.noise.std, DELTA) == pytest.approx(EPSILON, rel=2e-3)
        cost = bound.cost(facts, trust)[ITERATES]
        assert [count for _, count in cost.parts] == [1]
        assert 0.997 * EPSILON < ACCOUNTANT.epsilon(cost, relation, DELTA) <= EPSILON


def test_a_run_is_paid_for_whole_or_not_at_all():
    with pytest.raises(InvalidInput, match="cannot be paid for in parts"):
        alone(DISJOINT).cost(ALONE, Trust.LOCAL, rounds=6)


def worlds(found, facts, trust, relation=Relation.ZERO_OUT):
    """A study, and the arguments of two neighbours: one with the long record, one without."""
    inside = records(facts)
    if relation is Relation.ZERO_OUT:
        masks = [np.ones(n, bool) for n in facts.records]
        masks[0][0] = False
        return Replay(Study(found, facts, trust)), (inside, None), (inside, masks)
    outside = records(facts)
    outside[0][0][0] *= -1
    return Replay(Study(found, facts, trust)), (inside, None), (outside, None)


def runs_of(replay, world, runs, seed, fault=None):
    return replay.transcripts(world[0], runs, seed, world[1], fault)


REPLACED = algorithm(relation=Relation.REPLACE_ONE)
CASES = {
    "disjoint": (DISJOINT, ALONE, Trust.LOCAL),
    "overlapping": (OVERLAPPING, ALONE, Trust.LOCAL),
    "secure-sum": (DISJOINT, THREE, Trust.SECURE_SUM),
    "trusted-server": (OVERLAPPING, THREE, Trust.TRUSTED_SERVER),
    "replaced": (REPLACED, ALONE, Trust.LOCAL, Relation.REPLACE_ONE),
    "one-band": (ONE_BAND, ALONE, Trust.LOCAL),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=name,
            marks=[pytest.mark.slow] if name in ("trusted-server", "one-band") else [],
        )
        for name, case in CASES.items()
    ],
)
def test_the_worst_record_moves_the_run_by_nearly_what_is_claimed(case):
    """The same noise in both worlds: their difference is what the record adds, exactly."""
    replay, inside, outside = worlds(*case)
    relation = case[3] if len(case) > 3 else Relation.ZERO_OUT
    claim = replay.study.algorithm.event(case[1], case[2]).sensitivity.under(relation).l2
    moved = runs_of(replay, inside, 1, 2) - runs_of(replay, outside, 1, 2)
    assert 0.97 * claim < np.linalg.norm(moved) <= claim


def bound(case, fault=None):
    """What an audit of 4000 runs shows; the direction comes from other runs. False alarm 1e-3."""
    replay, inside, outside = worlds(*case)
    pilots = (runs_of(replay, world, 1000, 10 + n) for n, world in enumerate((inside, outside)))
    direction = best_direction(*pilots)
    found = [
        scores(runs_of(replay, world, 4000, 20 + n, fault), direction)
        for n, world in enumerate((inside, outside))
    ]
    return audit(*found, DELTA, confidence=0.999)


def halved(event):
    return replace(event, noise=replace(event.noise, std=event.noise.std / 2))


@pytest.mark.parametrize("case", list(CASES.values())[:3], ids=list(CASES)[:3])
def test_audits_confirm_the_claim_and_nothing_less(case):
    """The truth passes and nearly reaches the claim; claims that forget participations do not."""
    found, facts, trust = case
    result = bound(case)
    check(EPSILON, DELTA, result)
    event, c = found.bind(facts, trust).event(facts, trust), coefficients_of(found)
    mu = gaussian.mu_for(EPSILON, DELTA)
    assert result.mu > 0.75 * mu
    once = np.linalg.norm(c) / event.noise.std
    with pytest.raises(AuditFailed):
        check(epsilon_of(once, DELTA), DELTA, result)
    if found is OVERLAPPING:  # as if the columns of a record were disjoint
        with pytest.raises(AuditFailed):
            check(epsilon_of(math.sqrt(6) * once, DELTA), DELTA, result)


@pytest.mark.parametrize("case", list(CASES.values())[:3], ids=list(CASES)[:3])
def test_halved_noise_is_caught(case):
    with pytest.raises(AuditFailed):
        check(EPSILON, DELTA, bound(case, halved))


# ------------------------------------------------------- lost and lying messages


def differences(found, told, asked, counted, forgets=False):
    """||difference of all messages|| of two worlds, for sequences (n, T): which round the server
    tells, whether it asks, and whether it says that it counted the answer. Under secure aggregation
    a party `forgets` an answer that was not."""
    found = alone(found)
    server, first = found.init(ALONE)
    rows, full = records(ALONE)[0], np.ones(9, bool)

    def answers(mask, *sequence):
        def step(state, inputs):
            number, called, accepted = inputs
            now = found.at_round(state, number)
            after, contribution = found.local(ALONE, found.ask(server), now, rows, mask)
            settled = found.settle(after, accepted)
            kept = called & accepted if forgets else called
            state = jax.tree.map(lambda new, old: jnp.where(kept, new, old), settled, state)
            return state, jnp.where(called, contribution.value, 0)

        return jax.lax.scan(step, first, sequence)[1]

    every = jax.jit(jax.vmap(answers, in_axes=(None, 0, 0, 0)))
    without = full.copy()
    without[0] = False
    sequences = jnp.asarray(told, jnp.int32), jnp.asarray(asked), jnp.asarray(counted)
    apart = every(full, *sequences) - every(without, *sequences)
    return np.linalg.norm(np.asarray(apart, float), axis=(1, 2)) * found.grid(ALONE, None)


@pytest.mark.parametrize("found", [DISJOINT, OVERLAPPING], ids=["disjoint", "overlapping"])
def test_whatever_the_server_asks_tells_and_counts_the_claim_stands(found):
    """Skipped rounds, rounds that are not opened, and numbers that are lies."""
    generator, n = np.random.default_rng(7), 16_000
    shape = (n, ROUNDS)
    honest = np.broadcast_to(np.arange(ROUNDS), shape)
    lies = generator.integers(-5, 40, shape)
    patient = np.sort(generator.integers(0, ROUNDS + 3, shape), axis=1)
    stuck = np.zeros(shape, int)
    told = np.choose(generator.integers(0, 4, (n, 1)), [honest, lies, patient, stuck])
    asked = generator.random(shape) < generator.choice([0.3, 0.7, 1.0], (n, 1))
    counted = generator.random(shape) < generator.choice([0.5, 0.9, 1.0], (n, 1))
    told[0], asked[0], counted[0] = np.arange(ROUNDS), True, True
    claim = alone(found).event(ALONE, Trust.LOCAL).sensitivity.zero_out.l2
    moved = differences(found, told, asked, counted)
    assert moved[0] > 0.97 * claim
    assert moved.max() <= claim
    forgotten = differences(found, honest, asked, counted, forgets=True)
    assert forgotten[0] > 0.97 * claim
    assert forgotten.max() <= claim


def parties(data, trust=Trust.LOCAL, relation=Relation.ZERO_OUT, seed=3):
    trusted = ((SERVER, Budget(math.inf)),) if trust is Trust.TRUSTED_SERVER else ()
    return [
        Party(
            f"party-{j}",
            Private(columns),
            Ledger.in_memory(
                Policy(f"data-{j}", Budget(2 * EPSILON, DELTA), trusted, relation=relation),
                ACCOUNTANT,
                seed=seed + j,
            ),
        )
        for j, columns in enumerate(data)
    ]


def sums(result):
    return np.array([m.value for m in result.transcript.messages if m.name == "sum"])


@pytest.mark.parametrize(
    "trust", [pytest.param(Trust.LOCAL, marks=pytest.mark.slow), Trust.SECURE_SUM]
)
def test_engines_agree_when_parties_drop_out(trust):
    loopback = pytest.importorskip("unisono.engines.flower.loopback", reason="needs flwr")
    study = Study(DISJOINT, Facts((9, 7, 8), WIDTH, 2), trust)
    silent = np.zeros((ROUNDS, 3), bool)
    silent[2, 0] = silent[3, 0] = silent[6, 1] = silent[9, 2] = True
    first, second = (
        run(study, parties(records(THREE), trust), dropouts=silent)
        for run in (in_process.run, loopback.run)
    )
    assert np.array_equal(sums(first), sums(second))
    assert first.value.parameters == pytest.approx(second.value.parameters, abs=1e-5)


def test_an_unopened_round_leaves_the_model_and_goes_on():
    """Nothing is counted in round 5; afterwards parties and server go on, and errors fade."""
    study = Study(DISJOINT, THREE, Trust.LOCAL)
    silent = np.zeros((ROUNDS, 3), bool)
    silent[5, 1] = True  # all three are needed
    result = in_process.run(study, parties(records(THREE)), dropouts=silent)
    publics = [m.value for m in result.transcript.seen_by(ITERATES) if m.name == "public"]
    same = [np.array_equal(a.parameters, b.parameters) for a, b in pairwise(publics)]
    assert same == [number == 5 for number in range(ROUNDS - 1)]


def test_presence_is_hidden_by_places():
    """Nominal sizes: a removed record leaves its place empty, and all others where they are.
    (Beyond the places one takes another's, which the claim pays for.)"""
    method = algorithm(relation=Relation.ADD_OR_REMOVE)
    facts = Facts((9,), WIDTH, 1, 0, False)
    found = method.bind(facts, Trust.LOCAL)
    rows = records(ALONE)[0][0]
    bounds = found.event(facts, Trust.LOCAL).sensitivity
    claim = bounds.zero_out.l2
    assert bounds.add_or_remove == bounds.replace_one
    party = neighbours.CleanParty(Study(found, facts, Trust.LOCAL))
    places = np.random.default_rng(0).permutation(facts.places)
    held = spread(np.arange(len(rows)), places, facts.places)
    world = neighbours.World((rows,), np.ones(len(rows), bool), held)
    longest = int(np.argmax(np.linalg.norm(rows, axis=1)))
    server, state = found.init(facts)
    releases = [
        party.releases(one, [found.ask(server)] * party.turns, state)[0]
        for one in (world, neighbours.without(world, longest, party.layout))
    ]
    moved = neighbours.distances(*releases, found.grid(facts, None))["l2"]
    assert 0.8 * claim < moved <= claim
    with pytest.raises(InvalidInput, match="add-or-remove hides how many"):
        alone(method)


# ------------------------------------------------------------------------ the rest


def test_clean_sums_are_never_written_to_disk(tmp_path):
    study = Study(DISJOINT, ALONE, Trust.LOCAL)
    with pytest.raises(InvalidInput, match="must not be written"):
        in_process.run(study, parties(records(ALONE)), checkpoint=tmp_path / "run")


@pytest.mark.slow
def test_something_is_learned_with_momentum_and_moving_bounds():
    """A linear classifier of 400 points: momentum, averages and quantile bounds as in DP-SGD."""
    generator = np.random.default_rng(8)
    rows = generator.normal(size=(400, WIDTH)).astype(np.float32)
    labels = np.sign(rows @ np.array([2.0, -1.0, 0.5])).astype(np.float32)

    def logistic(model, record):
        return jnp.logaddexp(0.0, -record[1] * jnp.dot(model, record[0]))

    found = methods.dp_ftrl(
        RecordLoss(logistic, np.zeros(WIDTH, np.float32), (rows[0], labels[0])),
        optax.sgd(0.3, momentum=0.5),
        EPSILON,
        DELTA,
        Relation.ZERO_OUT,
        rounds=40,
        separation=10,
        bands=10,
        momentum=0.5,
        average_last=0.5,
        clipping=Clipping(quantile=0.5, loss_range=2.0),
    )
    study = Study(found, Facts((400,), WIDTH, 1), Trust.LOCAL)
    learned = in_process.run(study, parties([(rows, labels)])).value
    assert np.mean(np.sign(rows @ learned.parameters) == labels) > 0.9
    assert learned.bounds[0] != 1


def test_impossible_settings_are_refused():
    with pytest.raises(InvalidInput, match="nothing older"):
        algorithm(bands=13)
    with pytest.raises(InvalidInput, match="not as many batches"):
        alone(algorithm(separation=10))
    with pytest.raises(InvalidInput, match="use fewer bands"):
        alone(algorithm(bands=4000, rounds=4000, momentum=0.999, optimised=False))
    with pytest.raises(InvalidInput, match="delta"):
        algorithm(delta=1.0)
