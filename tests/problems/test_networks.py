"""Ready-made networks: gradients by hand and by differences, shapes, bad labels, mixed batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unisono.errors import InvalidInput
from unisono.problems import networks

READY = {
    "logistic": networks.logistic(6, 3),
    "squares": networks.two_layer(6, 5),
    "fixed": networks.two_layer(6, 5, "softplus", fixed_output=True),
    "two classes": networks.two_layer(6, 5, "relu", task="classes"),
    "mlp": networks.mlp(6, (7, 4), 3),
    "regression": networks.mlp(6, (7,), 0, "tanh"),
    "convolutional": networks.convolutional((14, 15, 2), 4),
}
WIDTHS = dict.fromkeys(READY, 6) | {"convolutional": 420}
GRADIENTS = {name: jax.jit(jax.value_and_grad(READY[name].loss)) for name in READY}
STARTS = {name: jax.jit(READY[name].init) for name in READY}
SLOPES = {"tanh": lambda t: 1 - np.tanh(t) ** 2, "softplus": lambda t: 1 / (1 + np.exp(-t))}
SHAPES = {"tanh": np.tanh, "softplus": lambda t: np.logaddexp(0, t)}


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def by_differences(function, parameters, step=1e-5):
    """Central differences of a function of a dict of arrays, one number at a time."""
    leaves, form = jax.tree.flatten(jax.tree.map(np.asarray, parameters))
    found = []
    for place, leaf in enumerate(leaves):
        for index in np.ndindex(leaf.shape):
            ends = []
            for sign in (1, -1):
                moved = leaf.copy()
                moved[index] += sign * step
                changed = [*leaves[:place], moved, *leaves[place + 1 :]]
                ends.append(float(function(jax.tree.unflatten(form, changed))))
            found.append((ends[0] - ends[1]) / (2 * step))
    return np.array(found)


# ------------------------------------------------------------- source 002


def printed(hidden, output, rows, labels, name):
    """Eqs. (4.4) and (4.6) as source 002 prints them; hidden is (d, m)."""
    inner = rows @ hidden
    residual = SHAPES[name](inner) @ output - labels
    return residual @ SHAPES[name](inner), rows.T @ (residual[:, None] * SLOPES[name](inner))


@pytest.mark.parametrize("name", SHAPES)
def test_gradients_of_the_two_layer_network(name, generator):
    """E002-5: the closed forms hold; the printed ones lack 2, and 2 a_j, and nothing else."""
    network = networks.two_layer(4, 3, name)
    hidden, output = generator.normal(size=(4, 3)), generator.normal(size=3)
    rows, labels = generator.normal(size=(7, 4)), generator.normal(size=7)
    with jax.enable_x64(True):

        def total(parameters):
            return jnp.sum(jax.vmap(network.loss, (None, 0))(parameters, (rows, labels)))

        total = jax.jit(total)
        parameters = {"hidden": jnp.asarray(hidden), "output": jnp.asarray(output)}
        by_a, by_w = printed(hidden, output, rows, labels, name)
        corrected = {"hidden": 2 * output * by_w, "output": 2 * by_a}
        automatic = jax.grad(total)(parameters)
        assert flat(corrected) == pytest.approx(flat(automatic), rel=1e-12)
        assert flat(corrected) == pytest.approx(by_differences(total, parameters), rel=1e-7)
        assert np.asarray(automatic["output"]) / by_a == pytest.approx(np.full(3, 2.0))
        ratio = np.asarray(automatic["hidden"]) / by_w
        assert ratio == pytest.approx(np.tile(2 * output, (4, 1)))


def test_fixed_output_weights_are_one_over_m(generator):
    free, fixed = networks.two_layer(4, 3), networks.two_layer(4, 3, fixed_output=True)
    hidden = generator.normal(size=(4, 3)).astype(np.float32)
    record = generator.normal(size=4).astype(np.float32), np.float32(0.5)
    one = float(free.loss({"hidden": hidden, "output": np.full(3, 1 / 3, np.float32)}, record))
    assert list(fixed.init(jax.random.key(0))) == ["hidden"]
    assert float(fixed.loss({"hidden": hidden}, record)) == pytest.approx(one, rel=1e-6)


def test_two_classes_by_hand(generator):
    """The loss is -log softmax([0, f])_y; labels -1 / +1 mean the same as 0 / 1."""
    network = READY["two classes"]
    loss = jax.jit(network.loss)
    parameters = STARTS["two classes"](jax.random.key(1))
    rows = generator.normal(size=(5, 6)).astype(np.float32)
    scores = np.asarray(network.predict(parameters, rows))
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    for row, chance in zip(rows, chances, strict=True):
        for label, other, cost in ((0.0, -1.0, chance[0]), (1.0, 1.0, chance[1])):
            found, same = (float(loss(parameters, (row, mark))) for mark in (label, other))
            assert found == pytest.approx(-np.log(cost), rel=1e-5)
            assert found == same


# ------------------------------------------------------------- all networks


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in ("fixed", "regression") else name
        for name in READY
    ],
)
def test_shapes_and_gradients(name, generator):
    """Predictions of a batch are those one by one; the gradient is that of differences."""
    network, width = READY[name], WIDTHS[name]
    parameters = STARTS[name](jax.random.key(0))
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(parameters))
    rows = generator.normal(size=(3, width)).astype(np.float32)
    predict = jax.jit(network.predict)
    scores = np.asarray(predict(parameters, rows))
    assert scores.shape == ((3, network.classes) if network.classes else (3,))
    single = [np.asarray(predict(parameters, row[None]))[0] for row in rows]
    assert scores == pytest.approx(np.array(single), rel=1e-4, abs=1e-5)
    towards = jax.tree.map(lambda leaf: generator.normal(size=leaf.shape), parameters)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: np.asarray(leaf, float), parameters)
        ends = [jax.tree.map(lambda p, t, s=s: p + s * t, wide, towards) for s in (1e-6, -1e-6)]
        record = np.asarray(rows[0], float), np.float64(1.0)
        value, exact = GRADIENTS[name](wide, record)
        up, down = (float(GRADIENTS[name](end, record)[0]) for end in ends)
        assert value.shape == ()
        slope = float(flat(exact) @ flat(towards))
        assert (up - down) / 2e-6 == pytest.approx(slope, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", READY)
def test_finite_records_have_finite_losses_and_gradients(name, generator):
    parameters = STARTS[name](jax.random.key(2))
    for size in (0.0, 1e3, 3e38):
        row = (size * np.sign(generator.normal(size=WIDTHS[name]))).astype(np.float32)
        for label in (0.0, 1.0, -1.0, 99.0, -3e38, 3e38):
            value, gradient = GRADIENTS[name](parameters, (row, np.float32(label)))
            assert np.isfinite(value)
            assert np.all(np.isfinite(flat(gradient)))


@pytest.mark.parametrize("name", ["logistic", "mlp", "convolutional"])
def test_an_unknown_class_teaches_nothing(name, generator):
    row = generator.normal(size=WIDTHS[name]).astype(np.float32)
    parameters = STARTS[name](jax.random.key(2))
    for label in (-1.0, 4.0, 1e9):
        value, gradient = GRADIENTS[name](parameters, (row, np.float32(label)))
        assert value == 0
        assert not np.any(flat(gradient))
    assert np.any(flat(GRADIENTS[name](parameters, (row, np.float32(1.0)))[1]))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_signals_keep_their_size_through_the_layers(activation):
    """He and Glorot: scores of standard-normal rows have a variance from 0.15 to 3."""
    network = networks.mlp(400, (400, 400, 400), 400, activation)
    rows = np.random.default_rng(0).normal(size=(50, 400)).astype(np.float32)
    first, second = (jax.jit(network.init)(jax.random.key(seed)) for seed in (5, 6))
    assert 0.15 < float(np.var(jax.jit(network.predict)(first, rows))) < 3
    assert np.any(flat(first) != flat(second))


def test_the_convolutional_network_is_that_of_opacus(generator):
    """26,010 numbers, and the forward pass by a slow loop in the published shapes."""
    network = networks.convolutional()
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    parameters = jax.tree.map(lambda leaf: 0.2 * generator.normal(size=leaf.shape), shapes)
    assert sum(leaf.size for leaf in jax.tree.leaves(parameters)) == 26_010

    def convolved(image, layer, padding):
        padded = np.pad(image, ((padding, padding), (padding, padding), (0, 0)))
        side = layer["weights"].shape[0]
        places = range(0, padded.shape[0] - side + 1, 2)
        windows = [[padded[i : i + side, j : j + side] for j in places] for i in places]
        return np.einsum("ijabc,abck->ijk", windows, layer["weights"]) + layer["bias"]

    def pooled(image):
        size = len(image) - 1
        return np.max([image[i:, j:][:size, :size] for i in (0, 1) for j in (0, 1)], axis=0)

    start = image = generator.normal(size=(28, 28, 1))
    for number, padding, shape in ((0, 3, (13, 13, 16)), (1, 0, (4, 4, 32))):
        image = pooled(np.maximum(convolved(image, parameters[f"convolution{number}"], padding), 0))
        assert image.shape == shape
    first, second = (parameters[name] for name in ("dense0", "dense1"))
    inner = np.maximum(image.ravel() @ first["weights"] + first["bias"], 0)
    expected = inner @ second["weights"] + second["bias"]
    scores = jax.jit(network.predict)(parameters, start.reshape(1, -1))[0]
    assert np.asarray(scores) == pytest.approx(expected, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: networks.logistic(4, 1), "classes = 1"),
        (lambda: networks.logistic(0, 2), "features = 0"),
        (lambda: networks.mlp(4, (0,)), "layer 1 = 0"),
        (lambda: networks.mlp(4, (3,), activation="rleu"), "'rleu': choose one of tanh"),
        (lambda: networks.two_layer(4, 3, task="rank"), "task = 'rank'"),
        (lambda: networks.two_layer(4, 2.5), "hidden = 2.5"),
        (lambda: networks.convolutional((13, 28, 1)), "13 x 28 are too small"),
    ],
)
def test_what_cannot_be_built_is_refused(build, words):
    with pytest.raises(InvalidInput, match=words):
        build()


# ------------------------------------------------------------- losses written for batches


RECORDS = np.full((9, 5), np.nan, np.float32), np.full(9, np.nan, np.float32)
WEIGHTS = {"first": np.eye(5, 4, dtype=np.float32), "last": np.ones((4, 3), np.float32)}


def batched(normalise):
    def loss(weights, batch):
        rows, labels = batch
        inner = jnp.tanh(normalise(rows @ weights["first"]))
        logs = jax.nn.log_softmax(inner @ weights["last"])
        truth = jax.nn.one_hot(labels.astype(int), 3)
        return -jnp.sum(truth * logs, axis=1)

    return loss


def by_batch(inner):
    return (inner - inner.mean(axis=0)) / jnp.sqrt(inner.var(axis=0) + 1e-3)


def by_layer(inner):
    centred = inner - inner.mean(axis=1, keepdims=True)
    return centred / jnp.sqrt(inner.var(axis=1, keepdims=True) + 1e-3)


@pytest.mark.parametrize("normalise", [lambda inner: inner, by_layer])
def test_a_loss_that_takes_each_record_on_its_own_is_kept(normalise, generator):
    """The user's values (here NaN) are never read: the check would fail on them."""
    loss = batched(normalise)
    one = networks.from_batched(loss, WEIGHTS, RECORDS)
    batch = generator.normal(size=(6, 5)).astype(np.float32), np.arange(6.0, dtype=np.float32) % 3
    found = jax.jit(jax.vmap(one, (None, 0)))(WEIGHTS, batch)
    assert np.asarray(found) == pytest.approx(np.asarray(jax.jit(loss)(WEIGHTS, batch)), rel=1e-4)


@pytest.mark.parametrize(
    "normalise",
    [
        by_batch,
        lambda inner: jax.lax.stop_gradient(by_batch(inner)) + inner,
        lambda inner: inner - 0.1 * jax.lax.stop_gradient(inner.mean(axis=0)),
        lambda inner: inner * len(inner),
        lambda inner: inner - inner[-1],
    ],
    ids=["batch normalisation", "no gradient", "centred", "by batch size", "neighbour"],
)
@pytest.mark.parametrize("start", [1.0, 0.0])
def test_a_loss_that_mixes_records_is_refused(normalise, start):
    """Also where all weights are zero, so that every loss is the same."""
    weights = jax.tree.map(lambda leaf: start * leaf, WEIGHTS)
    with pytest.raises(InvalidInput, match=r"(?s)other people's records.*group or layer norm"):
        networks.from_batched(batched(normalise), weights, RECORDS)


def test_a_mean_over_the_batch_is_refused():
    loss = batched(lambda inner: inner)
    with pytest.raises(InvalidInput, match=r"shape \(\) for three records: return one number"):
        networks.from_batched(lambda w, b: jnp.mean(loss(w, b)), WEIGHTS, RECORDS)


def test_a_loss_that_fails_is_refused_with_its_reason():
    narrow = {**WEIGHTS, "first": np.ones((6, 4), np.float32)}
    with pytest.raises(InvalidInput, match="fails on a batch of three records"):
        networks.from_batched(batched(lambda inner: inner), narrow, RECORDS)


@pytest.mark.parametrize("name", ["mlp", pytest.param("convolutional", marks=pytest.mark.slow)])
def test_ready_made_losses_pass_the_check(name):
    network, width = READY[name], WIDTHS[name]
    shapes = (jax.ShapeDtypeStruct((4, width), "float32"), jax.ShapeDtypeStruct((4,), "int32"))
    parameters = STARTS[name](jax.random.key(0))
    loss = networks.from_batched(jax.vmap(network.loss, (None, 0)), parameters, shapes)
    record = np.ones(width, np.float32), np.float32(1)
    expected = float(GRADIENTS[name](parameters, record)[0])
    assert float(jax.jit(loss)(parameters, record)) == pytest.approx(expected, rel=1e-5)
