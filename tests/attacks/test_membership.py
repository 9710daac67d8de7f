"""Who was in the training data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unisono.attacks import membership
from unisono.attacks.defences import ClippingDefence, DpSgd, Nothing
from unisono.attacks.victim import Victim, sender
from unisono.errors import InvalidInput
from unisono.problems.networks import mlp

FEATURES, CANDIDATES = 20, 60
NETWORK = mlp(FEATURES, (16,), 2, "tanh")
_coins = np.random.default_rng(8)
ROWS = _coins.normal(size=(CANDIDATES, FEATURES)).astype(np.float32)
LABELS = (_coins.random(CANDIDATES) < 0.5).astype(np.float32)  # noise: whoever fits it memorises


@jax.jit
def _descend(mask, key):
    def objective(parameters):
        each = jax.vmap(NETWORK.loss, (None, 0))(parameters, (ROWS, LABELS))
        return jnp.sum(mask * each) / jnp.sum(mask)

    def step(_, parameters):
        slopes = jax.grad(objective)(parameters)
        return jax.tree.map(lambda p, g: p - 0.3 * g, parameters, slopes)

    return jax.lax.fori_loop(0, 60, step, NETWORK.init(key))


def _train(mask, seed):
    return _descend(jnp.asarray(mask, jnp.float32), jax.random.key(seed))


@pytest.fixture(scope="module")
def target():
    members = np.random.default_rng(9).permutation(CANDIDATES) < CANDIDATES // 2
    return _train(members, 1), members


def test_members_have_smaller_losses(target):
    """With scores that say nothing the area is 0.5 ± 0.08; it exceeds 0.8 with chance below 1e-4"""
    parameters, members = target
    found = membership.loss_scores(NETWORK.loss, parameters, ROWS, LABELS)
    assert membership.measured(found, members).area > 0.8
    strangers = np.random.default_rng(10).normal(size=ROWS.shape).astype(np.float32)
    unseen = membership.loss_scores(NETWORK.loss, parameters, strangers, LABELS)
    assert membership.measured(unseen, members).area < 0.8


def test_shadow_models_know_more_than_a_threshold(target):
    parameters, members = target
    found = membership.shadows(_train, NETWORK.loss, ROWS, LABELS, 8, np.random.default_rng(11))
    assert found.odds.shape == (8, CANDIDATES)
    assert np.all(found.members.sum(axis=0) == 4)
    values = membership.losses(NETWORK.loss, parameters, ROWS, LABELS)
    ratio = membership.likelihood_ratio(found, membership.log_odds(values))
    better = membership.measured(ratio, members)
    assert better.area > membership.measured(-values, members).area
    assert better.true_positives > 0.3


def test_too_few_shadows_are_refused():
    few = membership.Shadows(np.zeros((2, 3)), np.array([[True] * 3, [False] * 3]))
    with pytest.raises(InvalidInput, match="train more"):
        membership.likelihood_ratio(few, np.zeros(3))


def test_an_update_betrays_the_record_that_was_not_known():
    """Five of six records are known. What is left of the update is the sixth's own gradient, and
    by Cauchy and Schwarz none of sixty candidates scores higher; it drowns under DP-SGD."""
    parameters = NETWORK.init(jax.random.key(3))
    victim = Victim(NETWORK.loss, parameters, ROWS[:6], LABELS[:6])

    def place(defence, recipe):
        seen = defence.observe(victim, np.random.default_rng(12))
        send = sender(NETWORK.loss, recipe)
        known = send(parameters, jnp.asarray(ROWS[1:6]), jnp.asarray(LABELS[1:6]))
        rest = jax.tree.map(lambda leaf: 5 / 6 * leaf, known)
        found = membership.update_scores(NETWORK.loss, parameters, seen, ROWS, LABELS, rest)
        return np.count_nonzero(found > found[0])

    assert place(Nothing(), {}) == 0
    assert place(ClippingDefence(0.5, "record"), {"clip": 0.5, "clipped": "record"}) == 0
    assert place(DpSgd(0.5, 4.0, 6), {"clip": 0.5, "clipped": "record"}) > 0


def test_the_measures_are_those_of_a_known_curve():
    """Members score 1 and 3, others 0, 2: three of four pairs are in order."""
    found = membership.measured([1.0, 3.0, 0.0, 2.0], [True, True, False, False])
    assert found.area == pytest.approx(0.75)
    assert found.advantage == pytest.approx(0.5)
    assert found.true_positives == pytest.approx(0.5)
    assert membership.measured([1.0, 1.0], [True, False]).area == 0.5
    with pytest.raises(InvalidInput, match="both members and others"):
        membership.measured([1.0, 2.0], [True, True])


def test_no_private_release_can_be_beaten():
    """TPR <= e^ε FPR + δ bounds the advantage of 4,000 perfect matched filters; with this seed and
    5 standard errors of room the false-alarm rate is below 1e-6."""
    from unisono.accounting import gaussian

    multiplier = 2.0
    noise = np.random.default_rng(13).normal(size=4000)
    members = np.arange(4000) < 2000
    found = membership.measured(members / multiplier + noise, members)
    advantage = gaussian.delta(0.0, 1 / multiplier)
    room = 5 * np.sqrt(0.5 / 2000)
    assert abs(found.advantage - advantage) < room
