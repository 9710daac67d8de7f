"""DP-SGD at every party's home: equal to DP-SGD where it should be, and private as it claims.

False-alarm rate of every audit: 1e-3.
"""

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
from unisono.attacks.audit import audit, check
from unisono.attacks.replay import Replay, best_direction, scores
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.compiled import numbers
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import ITERATES, SERVER, Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.engines.requirements import rounded_report
from unisono.errors import AuditFailed, InvalidInput
from unisono.problems.record_loss import RecordLoss
from unisono.releases.blocked_sum import Clipping

from ..methods import dp_sgd, local_dp_sgd

EPSILON, DELTA = 4.0, 1e-5
ZERO_OUT = {"delta": DELTA, "relation": Relation.ZERO_OUT}
ROW = np.zeros(2, np.float32)


def logistic(weights, record):
    row, label = record
    return jnp.logaddexp(0.0, -label * (row @ weights))


def linear(weights, record):
    """Its slope is the record itself, wherever the weights are."""
    return -(record[0] @ weights)


LOGISTIC = RecordLoss(logistic, ROW, (ROW, np.float32(0)))
LINEAR = RecordLoss(linear, ROW, (ROW, np.float32(0)))


def records(size, seed=0):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(size, 2)).astype(np.float32)
    return rows, np.where(rows @ [1.0, -2.0] > 0, 1, -1).astype(np.float32)


def members(data, budgets):
    return [
        Party(
            f"{j}",
            Private(columns),
            Ledger.in_memory(
                Policy(f"data-{j}", Budget(budget, DELTA), (), Relation.ZERO_OUT),
                ACCOUNTANT,
                seed=7,
            ),
        )
        for j, (columns, budget) in enumerate(zip(data, budgets, strict=True))
    ]


def at_home(algorithm, facts, public, state, columns, masks):
    """One party's steps and its report in value units, without noise; masks say who is chosen."""
    local, grid = (
        jax.jit(numbers(partial(algorithm.local, facts))),
        algorithm.grid(facts, Trust.LOCAL),
    )
    for mask in masks:
        value = local(public, state, columns, mask)[1]
        state = algorithm.inner.absorb(facts, public, state, value * grid)
    return state, rounded_report(algorithm.inner, state) * algorithm.inner.grid


def without_noise(algorithm, facts, data, masks):
    """Rounds as an engine runs them, but for noise: masks[party] (rounds, steps, records)."""
    server, first = algorithm.init(facts)
    states = [first] * facts.parties
    for number in range(algorithm.rounds):
        public, total = algorithm.ask(server), 0.0
        for j, columns in enumerate(data):
            states[j], report = at_home(
                algorithm, facts, public, states[j], columns, masks[j][number]
            )
            states[j], total = algorithm.settle(states[j], True), total + report
        server = algorithm.merge(server, Aggregate(total, facts.parties, sum(facts.records)))
    return algorithm.result(server), states


# ------------------------------------------------------- what it computes

CLIPPINGS = {
    "flat": Clipping(bound=0.4),
    "quantile": Clipping(bound=0.4, quantile=0.6),
    "per-layer": Clipping("per-layer", bound=0.3),
}


@pytest.mark.parametrize(
    "name",
    [n if n == "quantile" else pytest.param(n, marks=pytest.mark.slow) for n in CLIPPINGS],
)
def test_one_party_and_one_step_a_round_is_dp_sgd(name):
    """The same noise, to the last digit, and the same model but for the rounding of reports."""
    shared = {"rounds": 5, "sampling_rate": 0.5, "clipping": CLIPPINGS[name], **ZERO_OUT}
    facts, columns = Facts((30,), 2, 1), records(30)
    both = (
        local_dp_sgd(LOGISTIC, optax.sgd(2.0), EPSILON, steps=1, **shared),
        dp_sgd(LOGISTIC, optax.sgd(2.0), EPSILON, **shared),
    )
    many = Facts((2000,), 2, 1)  # whose batches may overflow
    ours, theirs = (method.bind(many, Trust.LOCAL) for method in both)
    assert ours.event(many, Trust.LOCAL) == theirs.event(many, Trust.LOCAL)
    assert ours.batch(many) == theirs.batch(many) < 2000
    ours, theirs = (method.bind(facts, Trust.LOCAL) for method in both)
    masks = np.random.default_rng(1).random((5, 1, 30)) < 0.5
    found, states = without_noise(ours, facts, [columns], [masks])
    server, local = theirs.init(facts)[0], jax.jit(numbers(partial(theirs.local, facts)))
    for mask in masks[:, 0]:
        value = local(theirs.ask(server), None, columns, mask)[1]
        server = theirs.merge(server, Aggregate(value * theirs.grid(facts, None), 1, 30))
    expected = theirs.result(server)
    assert found.parameters == pytest.approx(np.asarray(expected.parameters), abs=1e-5)
    assert np.linalg.norm(found.parameters) > 0.5
    assert states[0].bounds == pytest.approx(np.asarray(expected.bounds), rel=1e-6)


@pytest.mark.slow
def test_with_little_noise_an_engine_finds_what_dp_sgd_finds():
    """4000 records and epsilon 20: the noise of a step is below 1e-4 of a clipped average, and
    both runs end within 3e-3 of each other where they travel by more than 1."""
    facts, columns = Facts((4000,), 2, 1), records(4000)
    shared = {"rounds": 12, "sampling_rate": 1.0, **ZERO_OUT}
    models = []
    for algorithm in (
        local_dp_sgd(LOGISTIC, optax.sgd(2.0), 20.0, steps=1, **shared),
        dp_sgd(LOGISTIC, optax.sgd(2.0), 20.0, **shared),
    ):
        result = in_process.run(Study(algorithm, facts, Trust.LOCAL), members([columns], [20.1]))
        models.append(result.value.parameters)
    assert np.linalg.norm(models[0]) > 1
    assert models[0] == pytest.approx(models[1], abs=3e-3)


def test_parties_take_steps_of_their_own_and_weigh_by_their_sizes():
    """Two rounds of three steps at parties of 10 and 30 records, by hand in NumPy."""
    sizes, clip, rate = (10, 30), 0.4, 0.5
    facts, data = Facts(sizes, 2, 2), [records(n, n) for n in sizes]
    algorithm = local_dp_sgd(
        LOGISTIC,
        optax.sgd(1.0, momentum=0.5),
        EPSILON,
        rounds=2,
        steps=3,
        sampling_rate=rate,
        clipping=Clipping(bound=clip),
        **ZERO_OUT,
    ).bind(facts, Trust.LOCAL)
    generator = np.random.default_rng(3)
    masks = [generator.random((2, 3, n)) < rate for n in sizes]
    found, _ = without_noise(algorithm, facts, data, masks)

    weights = np.zeros(2)
    for number in range(2):
        change = np.zeros(2)
        for (rows, labels), chosen in zip(data, masks, strict=True):
            own, velocity = weights.copy(), np.zeros(2)
            for mask in chosen[number]:
                slopes = -(labels / (1 + np.exp(labels * (rows @ own))))[:, None] * rows
                slopes *= np.minimum(1, clip / np.linalg.norm(slopes, axis=1))[:, None]
                velocity = 0.5 * velocity + slopes[mask].sum(0) / (rate * 20)
                own = own - velocity
            change += own - weights
        weights = weights + change / 2
    # A step of the grid in every one of twelve blocks.
    assert found.parameters == pytest.approx(weights, abs=12 * clip * algorithm.grid(facts, None))
    assert np.linalg.norm(weights) > 0.5


def test_a_party_that_drops_out_is_left_out_of_the_average():
    facts = Facts((10, 30, 20), 2, 2)
    method = local_dp_sgd(LOGISTIC, optax.sgd(1.0), EPSILON, rounds=2, **ZERO_OUT)
    algorithm = method.bind(facts, Trust.LOCAL)
    server, _ = algorithm.init(facts)
    after = algorithm.merge(server, Aggregate(jnp.asarray([1.0, 2.0]), 2, 30.0))
    assert after.parameters == pytest.approx([1 / 1.5, 2 / 1.5])


def test_optimizers_begin_anew_and_bounds_stay():
    clipping = Clipping(bound=5.0, quantile=0.5)
    facts, columns = Facts((10,), 2, 1), records(10)
    algorithm = local_dp_sgd(
        LOGISTIC,
        optax.adam(0.1),
        EPSILON,
        rounds=2,
        steps=2,
        sampling_rate=1.0,
        clipping=clipping,
        **ZERO_OUT,
    ).bind(facts, Trust.LOCAL)
    server, first = algorithm.init(facts)
    state, report = at_home(
        algorithm, facts, algorithm.ask(server), first, columns, np.ones((2, 10), bool)
    )
    settled = algorithm.settle(state, True)
    assert abs(report).max() > 0.1
    assert not settled.change.any()
    assert [int(leaf.sum()) for leaf in jax.tree.leaves(settled.optimizer)] == [0, 0, 0]
    assert settled.bounds == pytest.approx(5.0 * np.exp(-0.2 * 0.5 * 2), rel=1e-2)


# ------------------------------------------------------- what it claims

FAR = (np.tile(np.array([[30.0, 40.0]], np.float32), (6, 1)), np.ones(6, np.float32))
ALONE = Facts((6,), 2, 1)
REPLAYS = {}  # compiled once for all audits of a study


@lru_cache
def audited(rate=1.0):
    settings = {"rounds": 3, "steps": 2, "sampling_rate": rate, **ZERO_OUT}
    return Study(local_dp_sgd(LINEAR, optax.sgd(1.0), EPSILON, **settings), ALONE, Trust.LOCAL)


def found_in(study, noise=1.0, runs=4000):
    """An audit of the worst case: one record, always clipped, is there or not."""
    replay = REPLAYS.setdefault(study.hash, Replay(study))
    less = [np.arange(6) > 0]

    def fault(event):
        return replace(event, noise=replace(event.noise, std=noise * event.noise.std))

    def made(count, seed):
        return [
            replay.transcripts([FAR], count, seed + k, present, fault)
            for k, present in enumerate((None, less))
        ]

    direction = best_direction(*made(1000, 10))
    return audit(
        *(scores(seen, direction) for seen in made(runs, 20)), delta=DELTA, confidence=0.999
    )


def test_the_claim_holds_and_is_not_idle():
    found = found_in(audited())
    check(EPSILON, DELTA, found)
    assert found.epsilon_model_based > 0.65 * EPSILON


def test_halved_noise_is_caught():
    with pytest.raises(AuditFailed):
        check(EPSILON, DELTA, found_in(audited(), noise=0.5))


def test_a_claim_that_forgets_the_steps_of_a_round_is_caught():
    """Noise for 3 releases where there are 6: narrower by sqrt(2)."""
    settings = {"rounds": 3, "steps": 1, "sampling_rate": 1.0, **ZERO_OUT}
    method = local_dp_sgd(LINEAR, optax.sgd(1.0), EPSILON, **settings)
    once = method.bind(ALONE, Trust.LOCAL)
    ratio = (
        once.event(ALONE, Trust.LOCAL).noise.std
        / audited().algorithm.event(ALONE, Trust.LOCAL).noise.std
    )
    assert ratio == pytest.approx(np.sqrt(0.5), rel=2e-3)
    with pytest.raises(AuditFailed):
        check(EPSILON, DELTA, found_in(audited(), noise=ratio))


def test_sampled_claims_agree_with_an_independent_accountant():
    study = audited(0.3)
    event = study.algorithm.event(ALONE, Trust.LOCAL)
    oracle = pld.PLDAccountant(value_discretization_interval=1e-4)
    multiplier = event.noise.std / event.sensitivity.zero_out.l2
    oracle.compose(
        dp_accounting.PoissonSampledDpEvent(0.3, dp_accounting.GaussianDpEvent(multiplier)), 6
    )
    assert oracle.get_epsilon(DELTA) == pytest.approx(EPSILON, rel=3e-3)
    check(EPSILON, DELTA, found_in(study, runs=2000))


def test_every_party_may_have_its_own_epsilon():
    """Each pays its own, and what each sends is as noisy as it paid for.

    Records of zeros teach nothing, so that reports are noise: 2 x 150 numbers a party, whose
    spread is within a quarter of the truth but for 1e-8.
    """
    own, rounds = (0.5, 2.0, 4.0), 150
    settings = {"rounds": rounds, "steps": 1, "sampling_rate": 0.5, **ZERO_OUT}
    facts = Facts((8, 8, 8), 2, 3)
    method = local_dp_sgd(LINEAR, optax.sgd(1.0), 9.0, own=own, **settings)
    algorithm = method.bind(facts, Trust.LOCAL)
    nothing = (np.zeros((8, 2), np.float32), np.ones(8, np.float32))
    parties = members([nothing] * 3, [epsilon * 1.0001 for epsilon in own])
    result = in_process.run(Study(algorithm, facts, Trust.LOCAL), parties)
    sent = np.array([m.value for m in result.transcript.seen_by(SERVER) if m.name == "messages"])
    for party, epsilon in enumerate(own):
        spent = parties[party].ledger.spent(ITERATES)
        assert 0.99 * epsilon < spent <= epsilon * 1.0001
        std = algorithm.own_event(facts, Trust.LOCAL, party).noise.std / (0.5 * 8)
        assert np.std(sent[:, party] * algorithm.inner.grid) == pytest.approx(std, rel=0.25)


def test_what_does_not_fit_is_refused():
    made = partial(local_dp_sgd, LINEAR, optax.sgd(1.0), 1.0, **ZERO_OUT)
    with pytest.raises(InvalidInput, match="does not know 'noise_scales'"):
        made(noise_scales=(2.0, 1.0))
    with pytest.raises(InvalidInput, match="steps"):
        made(steps=0)
    with pytest.raises(InvalidInput, match="epsilon of party 1"):
        made(own=(1.0, -1.0))
    short = made(own=(1.0, 2.0))
    with pytest.raises(InvalidInput, match="2 epsilons for 3 parties"):
        Study(short, Facts((8, 8, 8), 2, 3), Trust.LOCAL)
    with pytest.raises(InvalidInput, match="cannot run with trust"):
        Study(short, Facts((8, 8), 2, 2), Trust.SECURE_SUM)
