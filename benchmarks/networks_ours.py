"""Our side of the network benchmark: `ours(model, steps, noise)` trains and waits for the end.

A prototype that holds the place of the library's own training: norms of the gradients in closed
form, sums rounded to a grid block by block, Gaussian noise from ChaCha20 inside the graph.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from networks_common import CLIP, NOISE, RATE, TASKS, data
from unisono.core.noise.chacha import key_from_seed
from unisono.core.noise.in_graph import gaussian_on_grid

GRID = 2.0**-14
BLOCK = {"mlp": 200, "conv": 100, "logistic": 160}  # records at a time
SHAPES = {  # inputs and outputs of each layer as a product of matrices
    "mlp": ((784, 256), (256, 10)),
    "conv": ((64, 16), (256, 32), (512, 32), (32, 10)),
    "logistic": ((100, 2),),
}


def _patches(x: Array, size: int, padding: int) -> Array:
    """Inputs of a convolution of stride 2 as (records, positions, size * size * channels)."""
    sides = (padding, padding)
    x = jnp.pad(x, ((0, 0), sides, sides, (0, 0)))
    span = 2 * ((x.shape[1] - size) // 2) + 1
    windows = [x[:, i : i + span : 2, j : j + span : 2] for i in range(size) for j in range(size)]
    patches = jnp.concatenate(windows, -1)
    return patches.reshape(len(x), -1, patches.shape[-1])


def _pool(x: Array) -> Array:
    side = round(x.shape[1] ** 0.5)
    x = x.reshape(len(x), side, side, -1)
    x = jnp.maximum(x[:, 1:], x[:, :-1])
    return jnp.maximum(x[:, :, 1:], x[:, :, :-1])


def _loss(model: str, parameters: Any, taps: Any, x: Array, y: Array, mask: Array) -> Any:
    """Summed loss; its slope in the taps is the slope in each layer's output. And the inputs."""
    inputs, last = [], len(parameters) - 1
    for j, ((weights, bias), tap) in enumerate(zip(parameters, taps, strict=True)):
        convolution = model == "conv" and j < 2
        a = _patches(x, *((8, 3), (4, 0))[j]) if convolution else x.reshape(len(x), 1, -1)
        inputs.append(a)
        x = a @ weights + bias + tap
        x = x if j == last else jax.nn.relu(x)
        x = _pool(x) if convolution else x
    scores = jax.nn.log_softmax(x.reshape(len(x), -1))
    return -(jnp.take_along_axis(scores, y[:, None], 1)[:, 0] * mask).sum(), inputs


def _square(inputs: Array, slopes: Array) -> Array:
    """Squared norm of each record's gradient of one layer."""
    bias = (slopes.sum(1) ** 2).sum(1)
    if inputs.shape[1] == 1:
        return (inputs**2).sum((1, 2)) * (slopes**2).sum((1, 2)) + bias
    return (jnp.einsum("npk,npc->nkc", inputs, slopes) ** 2).sum((1, 2)) + bias


def _block(model: str, parameters: Any, x: Array, y: Array, mask: Array) -> Any:
    positions = [196, 25, 1, 1] if model == "conv" else [1] * len(parameters)
    taps = [jnp.zeros((len(x), p, len(b))) for p, (_, b) in zip(positions, parameters, strict=True)]
    gradient = jax.grad(lambda t: _loss(model, parameters, t, x, y, mask), has_aux=True)
    slopes, inputs = gradient(taps)
    squares = sum(_square(a, d) for a, d in zip(inputs, slopes, strict=True))
    factors = (jnp.minimum(1, CLIP / jnp.sqrt(squares + 1e-30)) * mask / GRID)[:, None, None]
    flat = [
        (a.reshape(-1, a.shape[-1]), (d * factors).reshape(-1, d.shape[-1]))
        for a, d in zip(inputs, slopes, strict=True)
    ]
    return [(a.T @ d, d.sum(0)) for a, d in flat]


@functools.cache
def _trained(model: str, noise: bool) -> Callable[[int], None]:
    task, (features, labels) = TASKS[model], map(jnp.asarray, data(model))
    block = BLOCK[model]
    room = -(-(task.batch + 8 * int(task.batch**0.5)) // block) * block
    generator = np.random.default_rng(4)

    def step(state: Any, batch: Any, features: Array, labels: Array) -> Any:
        (parameters, key), (chosen, count) = state, batch

        def add(j: Array, total: Any) -> Any:
            rows = jax.lax.dynamic_slice(chosen, (j * block,), (block,))
            mask = j * block + jnp.arange(block) < count
            part = _block(model, parameters, features[rows], labels[rows], mask)
            return jax.tree.map(lambda t, g: t + jnp.round(g).astype(jnp.int32), total, part)

        zero = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.int32), parameters)
        total = jax.lax.fori_loop(0, (count + block - 1) // block, add, zero)
        if noise:
            flat, unravel = ravel_pytree(total)
            key, use = jax.random.split(key)
            total = unravel(flat + gaussian_on_grid(use, flat.shape, NOISE * CLIP / GRID))
        scale = RATE * GRID / task.batch
        return (jax.tree.map(lambda p, g: p - scale * g, parameters, total), key), None

    @jax.jit
    def chunk(state: Any, batches: Any, *records: Array) -> Any:
        return jax.lax.scan(lambda s, b: step(s, b, *records), state, batches)[0]

    def draw() -> tuple[np.ndarray, np.ndarray]:
        rows = np.zeros((task.chunk, room), np.int32)
        counts = np.zeros(task.chunk, np.int32)
        for j in range(task.chunk):
            mask = generator.random(task.records, np.float32) < task.batch / task.records
            chosen = np.flatnonzero(mask)[:room]
            rows[j, : len(chosen)], counts[j] = chosen, len(chosen)
        return rows, counts

    start = [
        (jnp.asarray(generator.standard_normal(s, np.float32) / s[0] ** 0.5), jnp.zeros(s[1]))
        for s in SHAPES[model]
    ]
    state = start, key_from_seed(0)

    def run(steps: int) -> None:
        nonlocal state
        for _ in range(steps // task.chunk):
            state = chunk(state, draw(), features, labels)
        jax.block_until_ready(state[0])

    return run


def ours(model: str, steps: int, noise: bool) -> None:
    """Train `model` for `steps` steps (whole chunks), with or without noise."""
    _trained(model, noise)(steps)
