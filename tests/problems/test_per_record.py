"""Per-record gradients from traced programs, against JAX's own gradients record by record."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unisono.errors import InvalidInput
from unisono.problems import per_record
from unisono.problems.networks import convolutional, logistic, mlp, two_layer
from unisono.problems.per_record import PerRecord, masked

COUNT = 5


def normal(*shape, seed=0):
    values = np.random.default_rng([seed, *shape]).normal(size=shape)
    return jnp.asarray(values.astype(np.float32))


def left(parameters, record):
    """Weights stand on the left, as in Equinox."""
    inner = jnp.tanh(parameters["w"] @ record[0] + parameters["b"])
    return jnp.sum((inner - record[1]) ** 2)


def sequence(parameters, record):
    """One layer that a record passes once for each of three words."""
    words = record[0].reshape(3, 2)
    return jnp.sum(jnp.tanh(words @ parameters["w"]) * parameters["scale"]) * record[1]


def tied(parameters, record):
    inner = jnp.tanh(record[0] @ parameters["w"])
    return jnp.sum((inner @ parameters["w"].T - record[0]) ** 2)


def looped(parameters, record):
    def step(carry, _):
        return jnp.tanh(carry @ parameters["w"]), None

    last, _ = jax.lax.scan(step, record[0], None, length=2)
    return jnp.sum(last * record[1])


@jax.jit
def _layer(weights, row):
    return jnp.tanh(row @ weights)


def called_twice(parameters, record):
    """The same compiled function twice: its variables must not be mixed up."""
    return jnp.sum(_layer(parameters["v"], _layer(parameters["w"], record[0]))) * record[1]


def image(parameters, record):
    """Channels first, a dilated kernel, one-sided padding and stride 2."""
    picture = record[0].reshape(1, 2, 6, 5)
    found = jax.lax.conv_general_dilated(
        picture,
        parameters["k"],
        (2, 1),
        ((1, 0), (0, 2)),
        rhs_dilation=(1, 2),
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
    )
    return jnp.sum(jnp.sin(found)) + jnp.sum(parameters["bare"] ** 2) * record[1]


def indexed(parameters, record):
    """An embedding: rows of a table are looked up."""
    return jnp.sum(jnp.take(parameters["table"], record[0].astype(jnp.int32), axis=0) ** 2)


CASES = {
    "left": (left, {"w": normal(4, 6), "b": normal(4)}, 6, {"outer", "whole"}),
    "sequence": (sequence, {"w": normal(2, 4), "scale": normal(4)}, 6, {"whole"}),
    "tied": (tied, {"w": normal(6, 3)}, 6, {"whole"}),
    "looped": (looped, {"w": normal(6, 6)}, 6, {"whole"}),
    "called twice": (called_twice, {"w": normal(6, 6), "v": normal(6, 6, seed=1)}, 6, {"outer"}),
    "image": (image, {"k": normal(3, 2, 2, 2), "bare": normal(2)}, 60, {"whole"}),
    "indexed": (indexed, {"table": normal(6, 2)}, 6, {"whole"}),
}
for name, network, width in (
    ("logistic", logistic(6, 3), 6),
    ("mlp", mlp(6, (5, 4), 3), 6),
    ("two layers", two_layer(6, 4), 6),
    ("convolutional", convolutional((14, 14, 1), 3), 196),
):
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    first = jax.tree.map(lambda leaf: normal(*leaf.shape) / leaf.size**0.5, shapes)
    CASES[name] = (network.loss, first, width, None)


def records(width, seed=1):
    return normal(COUNT, width, seed=seed), jnp.asarray([0.0, 1.0, 1.0, 0.0, 1.0])


@pytest.mark.parametrize("name", CASES)
def test_norms_and_sums_are_those_of_single_gradients(name):
    loss, parameters, width, kinds = CASES[name]
    rows = records(width)
    plan = PerRecord(loss, parameters, jax.tree.map(lambda column: column[0], rows))
    each = jax.jit(jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0)))
    losses, expected = each(parameters, rows)
    flat = [leaf.reshape(COUNT, -1) for leaf in jax.tree.leaves(expected)]
    pieces = jax.jit(plan.pieces)(parameters, rows)
    norms = np.stack([np.linalg.norm(leaf, axis=1) for leaf in flat], axis=1)
    np.testing.assert_allclose(jax.jit(plan.norms)(pieces), norms, rtol=1e-5, atol=1e-9)
    weights = np.random.default_rng(2).uniform(size=norms.shape).astype(np.float32)
    sums = jax.jit(plan.weighted)(pieces, weights)
    for k, (found, leaf) in enumerate(zip(sums, flat, strict=True)):
        assert found.shape == plan.leaves[k].shape
        np.testing.assert_allclose(found.reshape(-1), weights[:, k] @ leaf, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(pieces.losses, losses, rtol=1e-5)
    if kinds is not None:
        assert {leaf.kind for leaf in plan.leaves} == kinds


def test_dense_layers_are_never_held_record_by_record():
    network = mlp(784, (256,), 10)
    first = jax.eval_shape(network.init, jax.random.key(0))
    first = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), first)
    plan = PerRecord(network.loss, first, (normal(784), normal()))
    assert {leaf.shape for leaf in plan.leaves if leaf.kind == "outer"} == {(784, 256), (256, 10)}
    assert plan.terms < 1100  # the norm adds 784 + 256 squares, not 200,704


def test_a_records_gradient_holds_nothing_of_the_others():
    """Other records, infinite ones too, change no bit of a record's pieces."""
    network = mlp(6, (5,), 3)
    parameters = network.init(jax.random.key(0))
    rows, labels = records(6)
    plan = PerRecord(lambda p, r: network.loss(p, r) / r[1], parameters, (rows[0], labels[0]))
    run = jax.jit(lambda x, y: plan.pieces(parameters, (x, y)))
    one = run(rows, labels)
    other = run(rows.at[:2].set(np.inf), labels.at[2].set(np.nan))
    for mine, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(mine[3:], theirs[3:])
    kept = masked(other, jnp.asarray([False, False, False, True, True]))
    assert all(bool(jnp.all(leaf[:3] == 0)) for leaf in jax.tree.leaves(kept))


@pytest.mark.parametrize(
    ("loss", "parameters", "message"),
    [
        (left, {"w": np.zeros((4, 6), np.int32), "b": normal(4)}, r"\['w'\] has type int32"),
        (left, {"w": np.zeros((4, 6), np.float16), "b": normal(4)}, "float16"),
        (left, {}, "no parameters"),
        (lambda p, r: p["w"] @ r[0], {"w": normal(4, 6)}, "must be one number"),
        (
            lambda p, r: jnp.sum(p["w"] * (r[0] - jax.lax.pmean(r[0], "batch"))),
            {"w": normal(6)},
            "group or layer normalisation",
        ),
    ],
)
def test_what_is_refused(loss, parameters, message):
    with pytest.raises(InvalidInput, match=message):
        PerRecord(loss, parameters, (normal(6), normal()))


def test_the_program_has_the_same_name_everywhere():
    first = PerRecord(left, CASES["left"][1], (normal(6), normal()))
    again = PerRecord(left, CASES["left"][1], (normal(6), normal()))
    other = PerRecord(tied, CASES["tied"][1], (normal(6), normal()))
    assert first.program == again.program != other.program


@pytest.mark.parametrize("outputs", [1, 2, 16, 17])
def test_narrow_and_wide_products_are_the_same_sum(outputs):
    """Column by column or as one product of matrices: Xᵀ Δ, to the error of a sum of 128 floats."""
    generator = np.random.default_rng(outputs)
    x, slopes = (generator.normal(size=(128, n)).astype(np.float32) for n in (30, outputs))
    found = np.asarray(jax.jit(per_record._product)(x, slopes))
    exact = x.T.astype(np.float64) @ slopes.astype(np.float64)
    bound = 132 * 2.0**-24 * (np.abs(x.T).astype(np.float64) @ np.abs(slopes))
    assert found.shape == (30, outputs)
    assert (np.abs(found - exact) <= bound).all()
