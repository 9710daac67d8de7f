"""Faults that an audit must find, each put into a private algorithm on purpose.

    halved noise             here, and for every algorithm in tests/algorithms (audits)
    missing clip             here, and by one run of the engine in tests/algorithms/test_dp_sgd.py
    wrong sensitivity        here; a wrong relation in tests/algorithms/test_dp_sgd.py
    wrong sampler            here: everybody takes part, and the claim counts on coins
    noise shared by rounds   here: differences of rounds are then free of noise
    published Algorithm 3    here (E003-16), and in full in tests/errata/test_003_algorithm_3.py

Unit: one record, zero-out; viewer: everyone who sees all sums. False-alarm rate of every audit:
1e-3; the unharmed study passes the same audits.
"""

import math
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unisono.accounting import gaussian
from unisono.attacks import replay as replay_module
from unisono.attacks.audit import audit, check
from unisono.attacks.replay import Replay
from unisono.attacks.worlds import AuditEffort, attacker, audit_pair, find_pair
from unisono.core.algorithm import Facts
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust
from unisono.engines.rounds import Stack
from unisono.errors import AuditFailed
from unisono.experiments.dataset_level import DAMPING, EMPTY, LARGE, ROUNDS, published, views
from unisono.problems.record_loss import RecordLoss
from unisono.releases import blocked_sum
from unisono.releases.blocked_sum import Clipping

from .. import methods

EPSILON, DELTA, RUNS = 4.0, 1e-5, 1000
WIDTH, RECORDS = 3, 8


def study(rate=1.0):
    """DP-SGD on a loss whose gradient is the record itself."""
    first = jnp.zeros(WIDTH)
    problem = RecordLoss(lambda w, record: jnp.sum(w * record[0]), first, (first, jnp.zeros(())))
    settings = {"rounds": 5, "sampling_rate": rate, "relation": Relation.ZERO_OUT}
    algorithm = methods.dp_sgd(problem, optax.sgd(0.01), EPSILON, DELTA, **settings)
    return Study(algorithm, Facts((RECORDS,), WIDTH, 1), Trust.LOCAL)


def prepared(made):
    """The attacker, and two worlds: one record far too long, or nobody."""
    attack, generator = attacker(made), np.random.default_rng(0)
    rows = generator.normal(size=(RECORDS, WIDTH)).astype(np.float32)
    base = [(rows, np.zeros(RECORDS, np.float32))]
    extremes = (np.array([[0.1, 0, 0], [9.0, 12.0, 0]], np.float32), np.zeros(2, np.float32))
    return attack, find_pair(attack, base, extremes, Relation.ZERO_OUT, seed=1)


def found_in(attack, pair, fault=None):
    effort = AuditEffort(RUNS, 60.0, 0.999)
    return audit_pair(attack, pair, Relation.ZERO_OUT, DELTA, effort, seed=2, fault=fault)


@pytest.fixture(scope="module")
def plain():
    return prepared(study())


@pytest.fixture(scope="module")
def sampled():
    return prepared(study(rate=0.3))


def halved(event):
    return replace(event, noise=replace(event.noise, std=event.noise.std / 2))


def test_without_a_fault_the_bound_is_below_the_claim_and_not_idle(plain, sampled):
    assert plain[1].distance == pytest.approx(5.0, rel=0.02)  # the longest record, in five rounds
    assert 2.0 < found_in(*plain).epsilon < EPSILON
    found = found_in(*sampled)
    assert not found.curve_refuted
    assert found.audit.mu > 0.1


def test_halved_noise(plain, sampled):
    assert found_in(*plain, halved).epsilon > EPSILON
    assert found_in(*sampled, halved).curve_refuted


def test_missing_clip(monkeypatch):
    weights = blocked_sum._weights

    def unclipped(clipping, norms, bounds):
        return jnp.ones_like(norms), weights(clipping, norms, bounds)[1]

    monkeypatch.setattr(blocked_sum, "_weights", unclipped)
    assert found_in(*prepared(study())).epsilon > EPSILON


def test_wrong_sensitivity(monkeypatch):
    """Half of what a record can do is accounted for: the noise is calibrated to that."""
    honest = Clipping.sensitivity

    def too_small(self, *arguments, **options):
        true = honest(self, *arguments, **options)
        distance = true.zero_out
        return replace(
            true,
            zero_out=replace(
                distance, l1=distance.l1 / 2, l2=distance.l2 / 2, linf=distance.linf / 2
            ),
        )

    monkeypatch.setattr(Clipping, "sensitivity", too_small)
    assert found_in(*prepared(study())).epsilon > EPSILON


def test_wrong_sampler(monkeypatch, sampled):
    """Coins of 0.3 are paid for, and nobody tosses them."""

    def everyone(generator, event, counts, real):
        return np.broadcast_to(real, (*counts, len(real))), np.ones(counts[:2], bool)

    monkeypatch.setattr(replay_module, "_tossed", everyone)
    assert found_in(*sampled).curve_refuted


def round_differences(attack, pair, runs):
    """Largest difference of two rounds along what the victim adds, for runs of both worlds."""
    nobody = Stack(pair.inside.arrays, pair.inside.real & ~attack.victim)
    worlds = []
    for seed, world in enumerate((pair.inside, pair.outside)):
        own = []
        for seen, secret in attack.replay.batches(world, runs, 50 + seed):
            others = attack.clean(nobody, seen, secret)
            added = attack.clean(pair.inside, seen, secret) - others
            along = ((seen - others) * added).sum(-1) / np.linalg.norm(added, axis=-1)
            own.append(np.abs(np.diff(along, axis=1)).max(axis=1))
        worlds.append(np.concatenate(own)[:runs])
    return audit(*worlds, DELTA, 0.999)


def test_noise_shared_between_rounds(monkeypatch, sampled):
    """The likelihood ratio expects fresh noise; an auditor who suspects this looks at differences
    of rounds, in which shared noise cancels and a coin shows."""
    check(EPSILON, DELTA, round_differences(*sampled, 500))
    fresh = Replay._noise

    def shared(self, *arguments):
        noise, central = fresh(self, *arguments)
        return np.repeat(noise[:, :1], noise.shape[1], axis=1), central

    monkeypatch.setattr(Replay, "_noise", shared)
    with pytest.raises(AuditFailed):
        check(EPSILON, DELTA, round_differences(*sampled, 500))


def test_published_algorithm_3():
    """E003-16: secret noise that is fed back. Claimed 8.59 by composition; 51 to 84 are true."""
    claim = gaussian.epsilon(DELTA, math.sqrt(ROUNDS) / 5.0)
    assert DAMPING == 0.1
    assert claim == pytest.approx(8.59, abs=0.005)
    worlds = [views(published(v, 20, 5.0, 300, seed)) for seed, v in enumerate((LARGE, EMPTY))]
    with pytest.raises(AuditFailed):
        check(claim, DELTA, audit(worlds[0][1], worlds[1][1], DELTA, 0.999))
