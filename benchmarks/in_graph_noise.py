"""Cost of cryptographic noise inside a compiled loop, against `jax.random.normal`.

    python benchmarks/in_graph_noise.py [elements] [steps] [repetitions]

Each row is one `lax.scan` that adds fresh noise to an array at every step. Repetitions of
all rows are interleaved and the minimum is kept, so that a busy machine disturbs all alike.
A second table has the noise of a model with 203,530 parameters: nanoseconds per normal.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

import figures
from unisono.core.noise.chacha import key_from_seed
from unisono.core.noise.in_graph import gaussian_on_grid, normal
from unisono.core.noise.in_graph_error import composed_error

SCORECARD = figures.Benchmark(quick=("262144", "10", "5"))

STD = 64.0
MODEL = 203_530
REFERENCE = "jax.random.normal, threefry (reference)"


Row = tuple[Callable[[Array], Array], Array, Array]


def loop(draw: Callable[[Array], Array], steps: int) -> Callable[[Array, Array], Array]:
    @jax.jit
    def run(key: Array, start: Array) -> Array:
        def step(total: Array, i: Array) -> tuple[Array, None]:
            return total + draw(jax.random.fold_in(key, i)), None

        return lax.scan(step, start, jnp.arange(steps))[0]

    return run


def fastest(
    rows: dict[str, Row], steps: int, repetitions: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Smallest wall and processor seconds of each row's loop."""
    runs = {name: (loop(draw, steps), key, start) for name, (draw, key, start) in rows.items()}
    wall = dict.fromkeys(runs, np.inf)
    processor = dict.fromkeys(runs, np.inf)
    for run, key, start in runs.values():
        run(key, start).block_until_ready()
    for _ in range(repetitions):
        for name, (run, key, start) in runs.items():
            before, before_processor = time.perf_counter(), time.process_time()
            run(key, start).block_until_ready()
            wall[name] = min(wall[name], time.perf_counter() - before)
            processor[name] = min(processor[name], time.process_time() - before_processor)
    return wall, processor


def model_noise(steps: int, repetitions: int) -> None:
    rows: dict[str, Row] = {
        REFERENCE: (
            lambda k: jax.random.normal(k, (MODEL,)),
            jax.random.key(0),
            jnp.zeros(MODEL),
        ),
        "gaussian_on_grid, ChaCha20": (
            lambda k: gaussian_on_grid(k, (MODEL,), STD),
            key_from_seed(0),
            jnp.zeros(MODEL, jnp.int32),
        ),
    }
    wall, processor = fastest(rows, steps, repetitions)
    print(f"{MODEL} normals x {steps} steps, nanoseconds per normal")
    print(f"{'':40s} {'wall':>8s} {'CPU':>8s}")
    for name in rows:
        scale = 1e9 / (MODEL * steps)
        print(f"{name:40s} {scale * wall[name]:8.2f} {scale * processor[name]:8.2f}")


def main(elements: int = 2**20, steps: int = 20, repetitions: int = 10) -> None:
    shape = (elements,)
    threefry, chacha = jax.random.key(0), key_from_seed(0)
    reals, words = jnp.zeros(shape), jnp.zeros(shape, jnp.uint32)
    integers = jnp.zeros(shape, jnp.int32)
    rows: dict[str, Row] = {
        REFERENCE: (lambda k: jax.random.normal(k, shape), threefry, reals),
        "jax.random.bits, threefry": (lambda k: jax.random.bits(k, shape), threefry, words),
        "jax.random.bits, ChaCha20": (lambda k: jax.random.bits(k, shape), chacha, words),
        "jax.random.normal, ChaCha20 (23 bits)": (
            lambda k: jax.random.normal(k, shape),
            chacha,
            reals,
        ),
        "normal, ChaCha20 (78 to 94 bits)": (lambda k: normal(k, shape), chacha, reals),
        "gaussian_on_grid, ChaCha20": (
            lambda k: gaussian_on_grid(k, shape, STD),
            chacha,
            integers,
        ),
    }
    wall, processor = fastest(rows, steps, repetitions)
    print(f"{elements} elements x {steps} steps, minimum of {repetitions}, {jax.devices()[0]}")
    print(f"{'':40s} {'ms/step':>8s} {'ratio':>6s} {'CPU ms':>8s} {'ratio':>6s}")
    for name in rows:
        print(
            f"{name:40s} {1e3 * wall[name] / steps:8.2f} {wall[name] / wall[REFERENCE]:6.2f}"
            f" {1e3 * processor[name] / steps:8.2f} {processor[name] / processor[REFERENCE]:6.2f}"
        )
    grid, plain = "gaussian_on_grid, ChaCha20", REFERENCE
    figures.report(
        "cryptographic noise on a grid",
        processor[grid] / processor[plain],
        "of its processor time",
        peer="jax.random.normal",
        lower=True,
        ratio=True,
        ours=processor[grid] / steps,
        theirs=processor[plain] / steps,
        measure="s",
    )
    model_noise(steps, repetitions)
    draws = elements * steps
    error = composed_error(draws, STD)
    print(
        f"proved error of {draws} grid draws at std {STD:g}:"
        f" epsilon {error.epsilon:.2g}, delta {error.delta:.2g}"
    )


def smoke() -> dict[str, float]:
    start = jnp.zeros(1024, jnp.int32)
    row = (lambda k: gaussian_on_grid(k, (1024,), STD), key_from_seed(0), start)
    return {"seconds": fastest({"grid": row}, 1, 1)[0]["grid"]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("elements", type=int, nargs="?", default=2**20)
    parser.add_argument("steps", type=int, nargs="?", default=20)
    parser.add_argument("repetitions", type=int, nargs="?", default=10)
    chosen = figures.options(parser, smoke)
    main(chosen.elements, chosen.steps, chosen.repetitions)
