"""The JAX and NumPy side of the network benchmark, and our own (`networks_ours`).

    python benchmarks/networks_peer_jax.py [--model mlp] [--methods nonprivate vmap+noise]

    nonprivate  SGD on the mean loss: the yardstick of what privacy costs
    vmap        the gradient of every record, clipped and summed: DP-SGD as the papers print it
    jaxprivacy  jax_privacy.clipped_grad
    numpy       dense networks by hand: the gradient of a dense layer for one record is the outer
                product of its input a (with a 1 for the bias) and the slope d of the loss, so that
                its norm is |a| |d|, and clipping rescales d before one product for the batch

The compiled peers take batches of exactly the expected size, drawn beforehand, which spares them
the draw and the padding of a Poisson sample; NumPy draws one.
"""

import functools
import sys
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from networks_common import CLIP, NOISE, RATE, TASKS, Prepare, Run, data, serve
from networks_ours import ours

Layers = list[tuple[Any, Any]]
SHAPES = {
    "mlp": ((784, 256), (256, 10)),
    "conv": ((8, 8, 1, 16), (4, 4, 16, 32), (512, 32), (32, 10)),
    "logistic": ((100, 2),),
}


def layers(model: str) -> Layers:
    generator = np.random.default_rng(1)
    return [
        (generator.standard_normal(s, np.float32) / np.prod(s[:-1]) ** 0.5, np.zeros(s[-1], "f"))
        for s in SHAPES[model]
    ]


def _pool(x: Array) -> Array:
    """The largest of 2 x 2 neighbours. Slices: XLA differentiates `reduce_window` more slowly."""
    x = jnp.maximum(x[:, 1:], x[:, :-1])
    return jnp.maximum(x[:, :, 1:], x[:, :, :-1])


def _convolve(x: Array, weights: Array, padding: int) -> Array:
    sides = [(padding, padding)] * 2
    return jax.lax.conv_general_dilated(
        x, weights, (2, 2), sides, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def loss(parameters: Layers, rows: Array, labels: Array) -> Array:
    """Mean cross-entropy of a batch; four-dimensional weights are convolutions."""
    x, last = rows, len(parameters) - 1
    for j, (weights, bias) in enumerate(parameters):
        if weights.ndim == 4:
            x = _pool(jax.nn.relu(_convolve(x, weights, 3 if j == 0 else 0) + bias))
        else:
            x = x.reshape(len(x), -1) @ weights + bias
            x = x if j == last else jax.nn.relu(x)
    return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1).mean()


# ------------------------------------------------------------------ mean gradients of one batch


def nonprivate(parameters: Layers, rows: Array, labels: Array) -> Layers:
    return jax.grad(loss)(parameters, rows, labels)


def vmap(parameters: Layers, rows: Array, labels: Array) -> Layers:
    each = jax.vmap(lambda x, y: jax.grad(loss)(parameters, x[None], y[None]))(rows, labels)
    leaves = jax.tree.leaves(each)
    squares = sum(jnp.sum(g.reshape(len(g), -1) ** 2, axis=1) for g in leaves)
    factors = jnp.minimum(1, CLIP / jnp.sqrt(squares)) / len(rows)
    return jax.tree.map(lambda g: jnp.tensordot(factors, g, 1), each)


def jaxprivacy(parameters: Layers, rows: Array, labels: Array) -> Layers:
    import jax_privacy

    clipped = jax_privacy.clipped_grad(
        loss, l2_clip_norm=CLIP, normalize_by=len(rows), batch_argnums=(1, 2)
    )
    return clipped(parameters, rows, labels)


def _by_jaxprivacy(model: str, noise: bool) -> Run:
    if find_spec("jax_privacy") is None:  # the other methods are measured without it
        raise NotImplementedError("jax_privacy is missing: pip install jax-privacy==2.0.0")
    return training(jaxprivacy)(model, noise)


def training(gradient: Any) -> Prepare:
    """SGD with one of the gradients above, compiled.

    A chunk of steps is one scan, except for convolutions: XLA's loops on CPU run them about ten
    times slower than a compiled step that Python calls.
    """

    def prepare(model: str, noise: bool) -> Run:
        task, (features, labels) = TASKS[model], map(jnp.asarray, data(model))
        std = NOISE * CLIP / task.batch

        def step(state: Any, chosen: Array, features: Array, labels: Array) -> Any:
            parameters, key = state
            change = gradient(parameters, features[chosen], labels[chosen])
            if noise:
                leaves, structure = jax.tree.flatten(change)
                key, *keys = jax.random.split(key, len(leaves) + 1)
                pairs = zip(leaves, keys, strict=True)
                leaves = [g + std * jax.random.normal(k, g.shape) for g, k in pairs]
                change = jax.tree.unflatten(structure, leaves)
            return jax.tree.map(lambda p, g: p - RATE * g, parameters, change), key

        @jax.jit
        def chunk(state: Any, chosen: Array, *records: Array) -> Any:
            return jax.lax.scan(lambda s, c: (step(s, c, *records), None), state, chosen)[0]

        one = jax.jit(step)
        draws = np.random.default_rng(2).integers(0, task.records, (task.chunk, task.batch))
        batches = jnp.asarray(draws)
        state = jax.tree.map(jnp.asarray, layers(model)), jax.random.key(0)

        def run(steps: int) -> None:
            nonlocal state
            for _ in range(steps // task.chunk):
                if model == "conv":
                    for chosen in batches:
                        state = one(state, chosen, features, labels)
                else:
                    state = chunk(state, batches, features, labels)
            jax.block_until_ready(state[0])

        return run

    return prepare


# ------------------------------------------------------------------------------------- NumPy


def by_hand(model: str, noise: bool) -> Run:
    """Dense networks with NumPy: forward, backward, norms in closed form, one product a layer."""
    if model == "conv":
        raise NotImplementedError("nobody writes convolutions by hand")
    task, (features, labels), parameters = TASKS[model], data(model), layers(model)
    generator = np.random.default_rng(3)

    def run(steps: int) -> None:
        for _ in range(steps):
            mask = generator.random(task.records, np.float32) < task.batch / task.records
            chosen = np.flatnonzero(mask)
            for (weights, bias), (inputs, slopes) in zip(
                parameters, _clipped(parameters, features[chosen], labels[chosen]), strict=True
            ):
                for value, change in ((weights, inputs.T @ slopes), (bias, slopes.sum(0))):
                    if noise:
                        change += NOISE * CLIP * generator.standard_normal(change.shape, np.float32)
                    value -= RATE / task.batch * change

    return run


def _clipped(
    parameters: Layers, rows: np.ndarray, labels: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(inputs, clipped slopes) of every layer."""
    inputs = [rows]
    for weights, bias in parameters[:-1]:
        inputs.append(np.maximum(inputs[-1] @ weights + bias, 0))
    weights, bias = parameters[-1]
    scores = inputs[-1] @ weights + bias
    slope = np.exp(scores - scores.max(1, keepdims=True))
    slope /= slope.sum(1, keepdims=True)
    slope[np.arange(len(labels)), labels] -= 1
    slopes = [slope]
    for (weights, _), value in zip(parameters[:0:-1], inputs[:0:-1], strict=True):
        slopes.insert(0, (slopes[0] @ weights.T) * (value > 0))
    square = functools.partial(np.einsum, "ij,ij->i")
    squares = sum((square(a, a) + 1) * square(d, d) for a, d in zip(inputs, slopes, strict=True))
    factors = np.minimum(1, CLIP / np.sqrt(squares))[:, None]
    return [(a, d * factors) for a, d in zip(inputs, slopes, strict=True)]


def our_side(model: str, noise: bool) -> Run:
    return lambda steps: ours(model, steps, noise)


SIDE: dict[str, Prepare] = {
    "ours": our_side,
    "nonprivate": training(nonprivate),
    "vmap": training(vmap),
    "jaxprivacy": _by_jaxprivacy,
    "numpy": by_hand,
}

if __name__ == "__main__":
    sys.exit(serve(SIDE, without_noise=("nonprivate",), chunked=True))
