"""Defences: what the server sees, and what it costs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unisono.accounting import gaussian
from unisono.attacks.defences import (
    ClippingDefence,
    DpSgd,
    Dropout,
    GradientNoise,
    LocalStepsDefence,
    Nothing,
    Pruning,
    SecureSum,
)
from unisono.attacks.victim import Victim, sender, visible_mask
from unisono.errors import InvalidInput
from unisono.problems.networks import mlp

UNITS = ("dense1", "weights")
NETWORK = mlp(10, (64,), 4, "tanh")
_coins = np.random.default_rng(3)
POOL = _coins.normal(size=(30, 10)).astype(np.float32), np.arange(30, dtype=np.float32) % 4
VICTIM = Victim(NETWORK.loss, NETWORK.init(jax.random.key(1)), POOL[0][:4], POOL[1][:4])
REST = POOL[0][4:], POOL[1][4:]


def _flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def _modelled(public):
    rows, targets = jnp.asarray(VICTIM.rows), jnp.asarray(VICTIM.targets)
    return _flat(sender(NETWORK.loss, public)(VICTIM.parameters, rows, targets))


def _seen(defence, seed=0):
    return defence.observe(VICTIM, np.random.default_rng(seed))


@pytest.mark.parametrize(
    "defence",
    [
        Nothing(),
        LocalStepsDefence(),
        GradientNoise(0.1),
        ClippingDefence(),
        ClippingDefence(1.0, "record"),
        Dropout(0.5, UNITS),
        Pruning(0.1),
        SecureSum(3, REST),
    ],
    ids=lambda defence: defence.name,
)
def test_only_dp_sgd_is_private(defence):
    assert defence.epsilon(1e-5, 1000, 10) == math.inf
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(_seen(defence).update))


def test_the_epsilon_of_dp_sgd_is_the_accountants():
    """One unsampled release is the exact Gaussian curve; sampling and fewer rounds cost less."""
    defence = DpSgd(1.0, 0.8, 4)
    assert defence.epsilon(1e-5, 4, 1) == pytest.approx(gaussian.epsilon(1e-5, 1 / 0.8), rel=1e-6)
    sampled = [defence.epsilon(1e-5, 400, rounds) for rounds in (1, 10, 100)]
    assert sampled[0] < sampled[1] < sampled[2] < math.inf
    assert sampled[0] < defence.epsilon(1e-5, 4, 1)


def test_dp_sgd_adds_the_noise_it_claims():
    """The sum of squares of 964 normals: halved or doubled noise is far outside, and a right one
    is refused with a probability below 1e-6 (5 standard deviations)."""
    defence = DpSgd(0.5, 2.0, 4)
    seen = _seen(defence)
    clean = _modelled({"clip": 0.5, "clipped": "record"})
    noise = (_flat(seen.update) - clean) / seen.public["std"]
    assert abs(np.mean(noise**2) - 1) < 5 * math.sqrt(2 / noise.size)
    assert seen.public["std"] == pytest.approx(2.0 * 0.5 / 4, rel=0.02)
    assert not np.array_equal(_flat(seen.update), _flat(_seen(defence, 1).update))


def test_dp_sgd_clips_as_the_attacker_believes():
    public = {"clip": 0.3, "clipped": "record"}
    modelled = _modelled(public)
    found = _flat(_seen(DpSgd(0.3, 1e-4, 4)).update)
    # One grid step is 2^-12 of a bound, divided by 4 records.
    np.testing.assert_allclose(found, modelled, atol=1e-4)
    assert np.linalg.norm(found) < 0.3 < np.linalg.norm(_flat(_seen(Nothing()).update))


def test_dp_sgd_refuses_another_batch():
    with pytest.raises(InvalidInput, match="4 rows where batch = 5"):
        _seen(DpSgd(1.0, 1.0, 5))


def test_noise_has_the_stated_spread():
    """964 normals; false alarm below 1e-6."""
    noise = (_flat(_seen(GradientNoise(0.2)).update) - _flat(_seen(Nothing()).update)) / 0.2
    assert abs(np.mean(noise**2) - 1) < 5 * math.sqrt(2 / noise.size)


def test_pruning_sends_the_largest_coordinates():
    whole, pruned = _flat(_seen(Nothing()).update), _flat(_seen(Pruning(0.1)).update)
    sent = pruned != 0
    assert sent.sum() == math.ceil(0.1 * whole.size)
    np.testing.assert_array_equal(pruned[sent], whole[sent])
    assert np.abs(whole[~sent]).max() <= np.abs(whole[sent]).min()


def test_dropout_keeps_with_probability_p():
    """Of 64 units 0.9 are kept: 58 ± 2.4; fewer than 45 has a probability below 1e-6."""
    seen = _seen(Dropout(0.9, UNITS))
    assert visible_mask(seen).sum() >= 45
    assert visible_mask(_seen(Dropout(0.1, UNITS))).sum() <= 19


def test_records_have_masks_of_their_own():
    """With a mask for each of 4 records a unit is silent in all of them with chance 1/16 only."""
    kept = visible_mask(_seen(Dropout(0.5, UNITS, "record"))).mean()
    assert kept > 0.75 > visible_mask(_seen(Dropout(0.5, UNITS))).mean()


def test_a_secure_sum_is_the_mean_over_parties():
    seen = SecureSum(3, REST).observe(VICTIM, np.random.default_rng(5))
    drawn = np.random.default_rng(5).choice(26, 8, replace=False)
    batches = [(VICTIM.rows, VICTIM.targets)]
    batches += [(REST[0][part], REST[1][part]) for part in (drawn[:4], drawn[4:])]
    plain = sender(NETWORK.loss, {})
    each = [
        _flat(plain(VICTIM.parameters, jnp.asarray(rows), jnp.asarray(targets)))
        for rows, targets in batches
    ]
    np.testing.assert_allclose(_flat(seen.update), np.mean(each, axis=0), atol=1e-6)
    assert seen.public == {"parties": 3}


@pytest.mark.parametrize(
    ("defence", "words"),
    [
        (lambda: Dropout(0.0, UNITS), "keep = 0.0"),
        (lambda: Dropout(0.5, UNITS, "epoch"), "'epoch' is unknown"),
        (lambda: ClippingDefence(1.0, "layer"), "choose batch or record"),
        (lambda: LocalStepsDefence(0), "steps = 0"),
        (lambda: _seen(LocalStepsDefence(3, 0.1, True)), "4 rows are no multiple of 3"),
        (lambda: _seen(GradientNoise(-1.0)), "std = -1.0"),
        (lambda: _seen(SecureSum(9, REST)), "9 parties need 32 of 26"),
    ],
)
def test_what_cannot_be_is_refused(defence, words):
    with pytest.raises(InvalidInput, match=words):
        defence()
