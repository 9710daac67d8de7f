"""What parties send by a public recipe, and how attackers model it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unisono.attacks.victim import (
    Seen,
    as_gradient,
    attacker_model,
    leaf_at,
    length,
    sender,
    visible_mask,
)
from unisono.errors import InvalidInput
from unisono.problems.networks import mlp, two_layer

UNITS = ("dense1", "weights")
NETWORK = mlp(5, (7,), 3, "tanh")
PARAMETERS = NETWORK.init(jax.random.key(1))
_coins = np.random.default_rng(2)
ROWS = _coins.normal(size=(4, 5)).astype(np.float32)
LABELS = np.array([0, 2, 1, 1], np.float32)


def _sent(public, masks=None):
    send = sender(NETWORK.loss, public)
    return send(PARAMETERS, jnp.asarray(ROWS), jnp.asarray(LABELS), masks)


def _close(one, other, tolerance=2e-6):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance)


def test_the_gradient_is_that_of_the_corrected_formulas():
    """E002-5: 2 r σ(Wx) by a, and 2 a_j r σ'(w_j·x) x by w_j, as means over the batch."""
    network = two_layer(5, 6, "tanh")
    parameters = network.init(jax.random.key(0))
    targets = np.array([1.0, -1.0, 0.5, 0.0], np.float32)
    found = sender(network.loss, {})(parameters, jnp.asarray(ROWS), jnp.asarray(targets))
    hidden, output = np.asarray(parameters["hidden"]), np.asarray(parameters["output"])
    values = np.tanh(ROWS @ hidden)
    residual = 2 * (values @ output - targets) / len(ROWS)
    _close(found["output"], values.T @ residual)
    slopes = residual[:, None] * (1 - values**2) * output
    _close(found["hidden"], ROWS.T @ slopes)


@pytest.mark.parametrize("fresh", [False, True])
def test_local_steps_are_gradient_descent(fresh):
    at = PARAMETERS
    for step in range(2):
        batch = slice(2 * step, 2 * step + 2) if fresh else slice(0, 4)
        plain = sender(NETWORK.loss, {})
        slopes = plain(at, jnp.asarray(ROWS[batch]), jnp.asarray(LABELS[batch]))
        at = jax.tree.map(lambda p, g: p - 0.3 * g, at, slopes)
    moved = jax.tree.map(jnp.subtract, at, PARAMETERS)
    _close(_sent({"steps": 2, "rate": 0.3, "fresh": fresh}), moved)


def test_one_local_step_read_as_a_gradient_is_the_gradient():
    public = {"steps": 1, "rate": 0.25, "fresh": False}
    _close(as_gradient(Seen(_sent(public), public)), _sent({}))


def test_clipping_of_records_and_of_the_batch():
    each = jax.vmap(jax.grad(lambda p, r, t: NETWORK.loss(p, (r, t))), (None, 0, 0))(
        PARAMETERS, ROWS, LABELS
    )
    norms = np.sqrt(
        sum(np.sum(np.square(leaf).reshape(4, -1), axis=1) for leaf in jax.tree.leaves(each))
    )
    bound = float(np.median(norms))  # some are clipped and some are not
    scale = np.minimum(1, bound / norms) / 4
    expected = jax.tree.map(lambda leaf: np.tensordot(scale, leaf, 1), each)
    _close(_sent({"clip": bound, "clipped": "record"}), expected)
    batch = _sent({"clip": 0.01, "clipped": "batch"})
    assert float(length(batch)) == pytest.approx(0.01, rel=1e-5)
    whole = _sent({})
    _close(batch, jax.tree.map(lambda leaf: 0.01 * leaf / length(whole), whole))
    _close(_sent({"clip": 1e3, "clipped": "batch"}), whole)


def test_dropout_is_the_network_without_the_dropped_units():
    """Kept activations are divided by the chance of being KEPT."""
    mask = np.array([1, 0, 1, 1, 0, 0, 1], np.float32)
    found = _sent({"keep": 0.5, "units": UNITS, "masks": "step"}, jnp.asarray(mask))
    kept = mask > 0
    first, second = PARAMETERS["dense0"], PARAMETERS["dense1"]
    small = {
        "dense0": {"weights": first["weights"][:, kept], "bias": first["bias"][kept]},
        "dense1": {"weights": second["weights"][kept] / 0.5, "bias": second["bias"]},
    }
    network = mlp(5, (4,), 3, "tanh")
    expected = sender(network.loss, {})(small, jnp.asarray(ROWS), jnp.asarray(LABELS))
    _close(found["dense0"]["weights"][:, kept], expected["dense0"]["weights"])
    _close(found["dense1"]["weights"][kept], expected["dense1"]["weights"] / 0.5)
    assert not np.any(found["dense0"]["weights"][:, ~kept])
    public = {"keep": 0.5, "units": UNITS, "masks": "step"}
    np.testing.assert_array_equal(visible_mask(Seen(found, public)), mask)


def test_equal_masks_of_records_are_the_mask_of_a_step():
    public = {"keep": 0.5, "units": UNITS, "masks": "record"}
    mask = jnp.array([1.0, 0, 1, 1, 0, 0, 1])
    _close(_sent(public, jnp.tile(mask, (4, 1))), _sent(public, mask))


def test_adaptive_models_follow_the_recipe_and_naive_ones_do_not():
    update = jax.tree.map(lambda leaf: jnp.where(jnp.abs(leaf) > 0.05, leaf, 0.0), _sent({}))
    seen = Seen(update, {"pruned": 0.3, "parties": 3})
    adaptive = attacker_model(NETWORK.loss, PARAMETERS, seen, 4)
    naive = attacker_model(NETWORK.loss, PARAMETERS, seen, 4, adaptive=False)
    counted = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(adaptive.counted)])
    flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(update)])
    np.testing.assert_array_equal(counted, flat != 0)
    assert 0 < counted.sum() < counted.size
    assert all(np.all(leaf == 1) for leaf in jax.tree.leaves(naive.counted))
    assert (adaptive.records, naive.records) == (12, 4)


def test_masks_that_nobody_sees_have_to_be_found():
    public = {"keep": 0.5, "units": UNITS, "masks": "record"}
    model = attacker_model(NETWORK.loss, PARAMETERS, Seen(_sent({}), public), 4)
    assert model.units == 7


def test_a_wrong_path_is_named():
    with pytest.raises(InvalidInput, match="'dense9' is not among dense0, dense1"):
        leaf_at(PARAMETERS, ("dense9", "weights"))
