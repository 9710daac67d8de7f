"""Federated averaging that hides parties: what it computes, how its clipping moves, what it claims.

Audits compare whole transcripts of real rounds; the direction of the attack comes from runs that
are not audited. False-alarm rate of every audit: 1e-3.
"""

import math
from dataclasses import replace
from functools import lru_cache, partial

import dp_accounting
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from dp_accounting import pld

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import fed_avg as module
from unisono.algorithms.fed_avg import FedAvgConfig, trained
from unisono.attacks.audit import audit, check
from unisono.attacks.replay import Replay, best_direction, scores
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.compiled import numbers
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import FINAL_MODEL, ITERATES, SERVER, Relation, Trust, Unit
from unisono.core.values import _BOUNDED_ONLY, Contribution, Private, update_sensitivity
from unisono.engines import in_process
from unisono.errors import AuditFailed, InvalidInput
from unisono.problems.record_loss import RecordLoss
from unisono.releases import bounds
from unisono.releases.blocked_sum import Clipping, moved

from .. import methods

EPSILON, DELTA = 4.0, 1e-5
SIZES = (7, 3, 12)


def logistic(weights, record):
    row, label = record
    return jnp.logaddexp(0.0, -label * (row @ weights))


def linear(weights, record):
    """Its slope is the record itself, wherever the weights are."""
    return -(record[0] @ weights)


def problem(loss=logistic, features=2):
    row = np.zeros(features, np.float32)
    return RecordLoss(loss, row, (row, np.float32(0)))


def fed_avg(problem, home, server, epsilon=EPSILON, **settings):
    return methods.fed_avg(problem, server, epsilon, DELTA, home=home, **settings)


def records(sizes=SIZES, seed=0):
    generator = np.random.default_rng(seed)
    rows = [generator.normal(size=(n, 2)).astype(np.float32) for n in sizes]
    return [(x, np.where(x @ [1.0, -2.0] > 0, 1, -1).astype(np.float32)) for x in rows]


def members(data, budget=50.0, trust=Trust.SECURE_SUM):
    def ledger(name):
        exceptions = ((SERVER, Budget(math.inf)),) if trust is Trust.TRUSTED_SERVER else ()
        policy = Policy(name, Budget(budget, DELTA), exceptions, Relation.ZERO_OUT, unit=Unit.PARTY)
        return Ledger.in_memory(policy, ACCOUNTANT, seed=3)

    return [Party(f"{j}", Private(columns), ledger(f"data-{j}")) for j, columns in enumerate(data)]


def without_noise(algorithm, facts, data):
    """The rounds as an engine runs them, but for the noise."""
    server, party = algorithm.init(facts)
    local = jax.jit(numbers(partial(algorithm.local, facts)))
    for _ in range(algorithm.rounds):
        public, total = algorithm.ask(server), 0
        for columns in data:
            mask = np.ones(len(columns[0]), bool)
            total += local(public, party, columns, mask)[1]
        shown = Aggregate(total * algorithm.grid(facts, None), len(data), sum(facts.records))
        server = algorithm.merge(server, shown)
    return algorithm.result(server)


# ------------------------------------------------------- what it computes


def train_by_hand(weights, rows, labels, batch, epochs, rate):
    for _ in range(epochs):
        for begin in range(0, len(rows), batch):
            x, y = rows[begin : begin + batch], labels[begin : begin + batch]
            pull = y / (1 + np.exp(y * (x @ weights)))
            weights = weights + rate * (pull[:, None] * x).mean(0)
    return weights


def test_training_at_home_is_plain_minibatch_descent():
    for rows, labels in records():
        settings = FedAvgConfig(epochs=3, batch_size=4)
        start, mask = jnp.asarray([0.3, 0.1]), np.ones(len(rows), bool)
        found = trained(settings, problem(), optax.sgd(0.7), start, (rows, labels), mask)
        assert found == pytest.approx(
            train_by_hand(np.array([0.3, 0.1]), rows, labels, 4, 3, 0.7), rel=1e-4
        )


@pytest.mark.parametrize("bound", [pytest.param(4.0, marks=pytest.mark.slow), 0.6])
def test_without_noise_it_is_federated_averaging(bound):
    """By hand, in NumPy: train, clip, average, and move the bound. Rounding to the grid errs by
    half a step of bound * grid in every round."""
    facts = Facts(SIZES, 2, 3)
    algorithm = fed_avg(
        problem(),
        optax.sgd(0.7),
        optax.sgd(1.0),
        rounds=4,
        epochs=2,
        batch_size=4,
        clipping=Clipping(bound=bound, quantile=0.6, gauge=0.125),
    ).bind(facts, Trust.LOCAL)
    found = without_noise(algorithm, facts, records())
    weights, clip, clipped = np.zeros(2), bound, 0
    for _ in range(4):
        changes = [train_by_hand(weights, x, y, 4, 2, 0.7) - weights for x, y in records()]
        norms = np.array([np.linalg.norm(change) for change in changes])
        clipped += (norms > clip).sum()
        weights = weights + np.mean(
            [c * min(1, clip / n) for c, n in zip(changes, norms, strict=True)], axis=0
        )
        clip *= math.exp(-0.2 * (np.mean(norms <= clip) - 0.6))
    assert (clipped > 0) == (bound < 1)
    step = 4 * bound * algorithm.grid(facts, None)
    assert found.parameters == pytest.approx(weights, abs=step)
    assert np.linalg.norm(weights) > 100 * step
    assert found.bounds == pytest.approx(clip, rel=1e-3)


@pytest.mark.slow
def test_the_server_may_use_adam():
    """Its first step has the length of its rate in every coordinate: FedAdam."""
    facts, settings = Facts(SIZES, 2, 3), {"rounds": 1, "clipping": Clipping(bound=10.0)}
    method = fed_avg(problem(), optax.sgd(0.7), optax.adam(0.05), **settings)
    found = without_noise(method.bind(facts, Trust.LOCAL), facts, records())
    change = sum(train_by_hand(np.zeros(2), x, y, 32, 1, 0.7) for x, y in records())
    assert found.parameters == pytest.approx(0.05 * np.sign(change), rel=1e-3)


@pytest.mark.parametrize("home", [optax.sgd(0.7, momentum=0.9), optax.adam(0.1)])
def test_padding_changes_nothing(home):
    """Not even where the loss of a row of zeros has no finite slope."""

    def touchy(weights, record):
        return logistic(weights, record) + 0.01 * jnp.sqrt(
            jnp.sum(record[0] ** 2) * weights @ weights
        )

    settings, start = FedAvgConfig(epochs=2, batch_size=4), jnp.asarray([0.3, 0.1])
    rows, labels = records((5,))[0]
    told = problem(touchy)
    plain = trained(settings, told, home, start, (rows, labels), np.ones(5, bool))
    padded = (np.pad(rows, ((0, 9), (0, 0))), np.pad(labels, (0, 9)))
    found = trained(settings, told, home, start, padded, np.arange(14) < 5)
    assert np.isfinite(found).all()
    assert found == pytest.approx(np.asarray(plain), rel=1e-5)


def contribution(columns, mask, **changes):
    facts = Facts((len(mask),), 2, 1)
    method = fed_avg(problem(), optax.sgd(0.7), optax.sgd(1.0), **changes)
    algorithm = method.bind(facts, Trust.LOCAL)
    server, party = algorithm.init(facts)
    return algorithm.local(facts, algorithm.ask(server), party, columns, mask)[1]


def test_a_party_without_records_sends_zero():
    """Its gauge included; one record is enough to send something."""
    columns = records((6,))[0]
    assert not contribution(columns, np.zeros(6, bool)).value.any()
    one = contribution(columns, np.arange(6) < 1).value
    assert one[:2].any()
    assert abs(one[2]) > 0


def test_what_is_not_finite_is_not_sent():
    """A record that is not finite is as if absent; a change that is not finite is zero."""
    rows, labels = records((6,))[0]
    absent = contribution((rows, labels), np.arange(6) != 3).value
    for unread in (np.inf, np.nan):
        rows[3] = unread
        found = contribution((rows, labels), np.ones(6, bool)).value
        assert found.any()
        assert np.array_equal(found, absent)
    rows[3], labels[3] = 3e38, 1e38  # finite, but its loss is not
    assert not contribution((rows, labels), np.ones(6, bool)).value.any()


@pytest.mark.parametrize("bound", [1e-6, 1.0, 1e6])
def test_a_contribution_keeps_the_bound_that_it_states(bound):
    clipping = Clipping(bound=bound, quantile=0.5, gauge=0.3)
    for columns in records(seed=4):
        rows, labels = columns
        made = contribution((1e3 * rows, labels), np.ones(len(rows), bool), clipping=clipping)
        length = np.linalg.norm(np.asarray(made.value, float)) * made.grid
        assert length <= made.sensitivity.zero_out.l2 <= math.hypot(1, 0.3) * 1.002
        assert made.sensitivity.unit is Unit.PARTY
        assert made.sensitivity.add_or_remove is None


# ------------------------------------------------------- how its clipping moves

NORMS = np.exp(np.random.default_rng(2).normal(size=48))


def final_bound(start):
    """After 50 noisy rounds of 48 parties whose changes have the norms above."""
    data = [(np.array([[norm, 0.0]], np.float32), np.ones(1, np.float32)) for norm in NORMS]
    clipping = Clipping(bound=start, quantile=0.5, rate=0.5, gauge=1.0)
    algorithm = fed_avg(
        problem(linear), optax.sgd(1.0), optax.sgd(1.0), 8.0, rounds=50, clipping=clipping
    )
    study = Study(algorithm, Facts((1,) * 48, 2, 48), Trust.SECURE_SUM)
    return float(in_process.run(study, members(data)).value.bounds[0]) / np.median(NORMS)


@pytest.mark.parametrize("off", [100.0, 0.01])
def test_the_bound_finds_its_quantile_from_both_sides(off):
    """48 norms that spread by a factor e; noise moves the bound by a few per cent a round."""
    assert final_bound(off * np.median(NORMS)) == pytest.approx(1.0, rel=0.35)


@pytest.mark.parametrize("off", [3.0, 1 / 3])
def test_the_opposite_sign_runs_away(off, monkeypatch):
    """As in Flower 1.x, where the bound rises when more is within it than wanted."""
    monkeypatch.setattr(module, "moved", lambda c, bound, part: moved(c, bound, 1.0 - part))
    found = final_bound(off * np.median(NORMS))
    assert found > 100 if off > 1 else found < 0.01


# ------------------------------------------------------- what it claims


FAR = np.tile(np.array([[30.0, 40.0]], np.float32), (4, 1))
WORLD = [(FAR, np.ones(4, np.float32))] * 3
THREE, ALONE = Facts((4, 4, 4), 2, 3), Facts((4,), 2, 1)
REPLAYS = {}  # compiled once for all audits of a study


@lru_cache
def audited(facts, trust, **changes):
    settings = {"rounds": 5, "clipping": Clipping(quantile=0.5, gauge=1.0), **changes}
    method = fed_avg(problem(linear), optax.sgd(0.1), optax.sgd(1.0), **settings)
    return Study(method, facts, trust)


def found_in(study, noise=1.0, runs=4000):
    """An audit of the worst case: the first party's records are there, or they are not."""
    replay, parties = REPLAYS.setdefault(study.hash, Replay(study)), study.facts.parties
    empty = [np.zeros(4, bool), *[np.ones(4, bool)] * (parties - 1)]

    def fault(event):
        return replace(event, noise=replace(event.noise, std=noise * event.noise.std))

    def made(count, seed):
        return [
            replay.transcripts(WORLD[:parties], count, seed + k, present, fault)
            for k, present in enumerate((None, empty))
        ]

    direction = best_direction(*made(1000, 10))
    return audit(
        *(scores(seen, direction) for seen in made(runs, 20)), delta=DELTA, confidence=0.999
    )


@pytest.mark.parametrize(
    ("facts", "trust"),
    [
        (THREE, Trust.SECURE_SUM),
        pytest.param(THREE, Trust.TRUSTED_SERVER, marks=pytest.mark.slow),
        (ALONE, Trust.LOCAL),
    ],
    ids=list("STL"),
)
def test_the_claim_holds_and_is_not_idle(facts, trust):
    found = found_in(audited(facts, trust))
    check(EPSILON, DELTA, found)
    assert found.epsilon_model_based > 0.65 * EPSILON


@pytest.mark.parametrize("noise", [0.5, math.sqrt(0.5)], ids=["halved", "gauge-not-paid-for"])
def test_too_little_noise_is_caught(noise):
    with pytest.raises(AuditFailed):
        check(EPSILON, DELTA, found_in(audited(THREE, Trust.SECURE_SUM), noise))


def test_a_forgotten_clip_is_caught(monkeypatch):
    def forgetful(rows, clip, grid, unit):
        steps = jnp.round(rows[0] / grid).astype(jnp.int32)
        bound = update_sensitivity(clip, grid, rows.shape[1], unit)
        return Contribution(steps, grid, bound, maker=_BOUNDED_ONLY), steps

    monkeypatch.setattr(module, "gauged", lambda _, change, bound: jnp.append(change / bound, 1.0))
    monkeypatch.setattr(bounds, "clipped_updates", forgetful)
    with pytest.raises(AuditFailed):
        check(EPSILON, DELTA, found_in(audited.__wrapped__(THREE, Trust.TRUSTED_SERVER)))


def test_secret_coins_cost_what_an_independent_accountant_says():
    """And the audit of sampled parties stays below it."""
    study = audited(THREE, Trust.SECURE_SUM, sampling_rate=0.3)
    event = study.algorithm.event(THREE, study.trust)
    assert event.sampler.rate == 0.3
    multiplier = event.noise.std / event.sensitivity.zero_out.l2
    oracle = pld.PLDAccountant(value_discretization_interval=1e-4)
    oracle.compose(
        dp_accounting.PoissonSampledDpEvent(0.3, dp_accounting.GaussianDpEvent(multiplier)), 5
    )
    assert oracle.get_epsilon(DELTA) == pytest.approx(EPSILON, rel=3e-3)
    everyone = audited(THREE, Trust.SECURE_SUM).algorithm.event(THREE, study.trust)
    assert event.noise.std < 0.8 * everyone.noise.std
    check(EPSILON, DELTA, found_in(study, runs=2000))


def test_coins_are_tossed_and_the_divisor_is_how_many_are_expected():
    """Half of the parties take part: sums of a constant update are binomial, within six standard
    errors; and a ledger is charged what was promised."""
    data = [(FAR[:1], np.ones(1, np.float32))] * 200
    settings = {"rounds": 4, "sampling_rate": 0.5, "clipping": Clipping(bound=0.1, quantile=None)}
    method = fed_avg(problem(linear), optax.sgd(0.1), optax.sgd(1.0), 8.0, **settings)
    study = Study(method, Facts((1,) * 200, 2, 200), Trust.SECURE_SUM)
    algorithm = study.algorithm
    parties = members(data)
    result = in_process.run(study, parties)
    taken = [
        m.value @ [0.6, 0.8] * algorithm.grid(study.facts, None)
        for m in result.transcript.seen_by(SERVER)
        if m.name == "sum"
    ]
    std = algorithm.event(study.facts, study.trust).noise.std
    assert np.mean(taken) == pytest.approx(100, abs=6 * math.sqrt((50 + std**2) / 4))
    assert result.value.parameters @ [0.6, 0.8] == pytest.approx(0.1 * sum(taken) / 100, rel=1e-5)
    assert parties[0].ledger.spent(FINAL_MODEL) == pytest.approx(8.0, rel=5e-3)


def test_dropouts_are_survived_down_to_the_minimum():
    """The average is over those who arrived; a round with too few leaves everything as it was."""
    study = Study(
        fed_avg(
            problem(linear),
            optax.sgd(0.1),
            optax.sgd(1.0),
            20.0,
            rounds=4,
            clipping=Clipping(bound=0.1, quantile=0.5),
        ),
        Facts((4,) * 100, 2, 60),
        Trust.SECURE_SUM,
    )
    silent = np.zeros((4, 100), bool)
    silent[1, :40] = True  # sixty survive, enough
    silent[2, :41] = True
    result = in_process.run(study, members(WORLD[:1] * 100), dropouts=silent)
    seen = [m.value for m in result.transcript.seen_by(ITERATES) if m.name == "public"]
    moves = np.diff([public.parameters for public in seen], axis=0)
    noise = study.algorithm.event(study.facts, study.trust).noise.std * math.sqrt(100 / 60) / 60
    for number in (0, 1):
        bound = seen[number].bound
        assert moves[number] == pytest.approx(
            bound * np.array([0.6, 0.8]), abs=float(6 * bound * noise)
        )
    assert not moves[2].any()
    assert seen[2].bound == seen[3].bound


def test_what_cannot_be_kept_is_refused():
    made = partial(fed_avg, problem(), optax.sgd(0.1), optax.sgd(1.0))
    with pytest.raises(InvalidInput, match="presence"):
        Study(made(relation=Relation.ADD_OR_REMOVE), Facts(SIZES, 2, 3, 1, False), Trust.LOCAL)
    with pytest.raises(InvalidInput, match="as a whole"):
        made(clipping=Clipping(style="per-layer"))
    with pytest.raises(InvalidInput, match="as a whole"):
        made(clipping=Clipping(loss_range=1.0))
    with pytest.raises(InvalidInput, match=r"sampling_rate = 2\.0.*less than or equal to 1"):
        made(sampling_rate=2.0)
    with pytest.raises(InvalidInput, match="epochs"):
        made(epochs=0)


def test_the_grid_is_coarse_enough_for_wide_noise():
    """A large model under a small epsilon: the noise stays within what its sampler can do."""
    facts, large = Facts((4,) * 10, 200_000, 10), problem(linear, 200_000)
    settings = {"rounds": 100, "relation": Relation.REPLACE_ONE}
    method = fed_avg(large, optax.sgd(0.1), optax.sgd(1.0), 0.5, **settings)
    algorithm = method.bind(facts, Trust.LOCAL)
    event, grid = algorithm.event(facts, Trust.LOCAL), algorithm.grid(facts, Trust.LOCAL)
    assert 2**16 < event.noise.std / grid <= 2**20
    assert event.sensitivity.zero_out.l2 < 1.4


def test_another_optimizer_at_home_is_another_study():
    facts, made = Facts(SIZES, 2, 3), []
    for home, server in ((0.1, 1.0), (0.2, 1.0), (0.1, 0.5)):
        method = fed_avg(problem(), optax.sgd(home), optax.sgd(server))
        algorithm = method.bind(facts, Trust.LOCAL)
        made.append(algorithm.study_hash(facts, Trust.LOCAL))
    assert len(set(made)) == 3
    assert jax.tree.leaves(algorithm.init(facts)[1]) == []  # parties remember nothing
