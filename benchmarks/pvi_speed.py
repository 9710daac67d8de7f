"""Speed of partitioned inference: many parties at once, and all of Figure 4.4 in one program.

    python benchmarks/pvi_speed.py [--parties 1000] [--rounds 8000]

One round of synchronous inference on Bayesian logistic regression, every party climbing its own
free energy, as one compiled program, against a Python loop over parties that calls (a) the same
local step, compiled once, and (b) the same mathematics in NumPy. Ratios in one run; absolute
times mean little on a shared machine.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

import figures
from unisono.algorithms.pvi import Climb, infer, local_optimum
from unisono.experiments import fig4_4
from unisono.problems import gaussian_family as family
from unisono.problems import likelihoods
from unisono.problems.gaussian_family import Natural

SCORECARD = figures.Benchmark(quick=("--rounds", "2000"))

RECORDS, FEATURES, STEPS = 10, 5, 5
CLIMB = Climb(steps=STEPS)


def parties(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(0)
    truth = generator.normal(size=FEATURES)
    rows = generator.normal(size=(count, RECORDS, FEATURES)).astype(np.float32)
    labels = np.where(rows @ truth + generator.logistic(size=(count, RECORDS)) > 0, 1.0, -1.0)
    return [(x, y.astype(np.float32)) for x, y in zip(rows, labels, strict=True)]


def at_once(
    data: list[tuple[np.ndarray, np.ndarray]], prior: Natural, damping: float, rounds: int
) -> float:
    """Seconds per round of a whole run, the median of three. Compilation, which every run does
    anew, is counted against us: a difference of two totals could be negative."""

    def whole() -> float:
        begin = time.perf_counter()
        infer(likelihoods.logistic(), prior, data, passes=rounds, damping=damping, climb=CLIMB)
        return time.perf_counter() - begin

    return statistics.median(whole() for _ in range(3)) / rounds


def compiled_loop(data: list[tuple[np.ndarray, np.ndarray]], prior: Natural) -> float:
    """Seconds per round of a loop that calls the compiled step of one party."""
    start = Natural(*(jnp.asarray(part, jnp.float32) for part in prior))
    mask, key = jnp.ones(RECORDS, bool), jax.random.key(0)
    step = jax.jit(
        lambda cavity, q, own: local_optimum(
            likelihoods.logistic(), cavity, q, own, mask, CLIMB, key
        )
    )
    on_device = [tuple(map(jnp.asarray, own)) for own in data]

    def one_round() -> Any:
        found = [step(start, start, own) for own in on_device]
        return sum(q.shift for q in found), sum(q.precision for q in found)

    return _typical(lambda: jax.block_until_ready(one_round()))


def numpy_loop(data: list[tuple[np.ndarray, np.ndarray]], prior: Natural) -> float:
    """Seconds per round of the same fixed-point steps in NumPy, party by party."""
    weights, scales = likelihoods._MIXTURE.T

    def climb(rows: np.ndarray, labels: np.ndarray) -> Natural:
        shift, precision = prior.shift, prior.precision
        for _ in range(STEPS):
            centre = shift / precision
            spread = (rows * rows) @ (1 / precision)
            narrowed = scales / np.sqrt(1 + scales**2 * spread[:, None])
            at = -narrowed * (labels * (rows @ centre))[:, None]
            slope = labels * (ndtr(at) @ weights)
            bend = (narrowed * np.exp(-0.5 * at**2)) @ weights / np.sqrt(2 * np.pi)
            site = bend @ (rows * rows)
            shift = 0.5 * shift + 0.5 * (prior.shift + slope @ rows + site * centre)
            precision = 0.5 * precision + 0.5 * (prior.precision + site)
        return Natural(shift, precision)

    def one_round() -> Any:
        found = [climb(*own) for own in data]
        return sum(q.shift for q in found), sum(q.precision for q in found)

    return _typical(one_round)


def _typical(run: Callable[[], Any], repeats: int = 5) -> float:
    """The median of some runs after a first one."""
    run()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def smoke() -> dict[str, float]:
    data, prior = parties(5), family.prior(FEATURES, 0.0, 4.0)
    seconds = {
        "at once": at_once(data, prior, damping=1 / 5, rounds=4),
        "compiled": compiled_loop(data, prior),
        "NumPy": numpy_loop(data, prior),
    }
    return {f"seconds a round, {name}": value for name, value in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parties", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=8000, help="of a run of all parties at once")
    options = figures.options(parser, smoke)
    count = options.parties
    data, prior = parties(count), family.prior(FEATURES, 0.0, 4.0)
    together = at_once(data, prior, damping=1 / count, rounds=options.rounds)
    loops = {
        "compiled step, Python loop": compiled_loop(data, prior),
        "NumPy, Python loop": numpy_loop(data, prior),
    }
    print(f"partitioned inference, {count} parties, {RECORDS} records of {FEATURES} features each")
    print(f"  all at once                {1 / together:10.1f} rounds per second")
    for name, seconds in loops.items():
        ratio = seconds / together
        print(f"  {name:<26} {1 / seconds:10.1f} rounds per second: {ratio:.0f} times slower")
        figures.report(
            f"inference over {count} parties",
            ratio,
            "times faster",
            peer=name,
            ratio=True,
            ours=together,
            theirs=seconds,
            measure="s",
        )
    begin = time.perf_counter()
    fig4_4.run(quick=False)
    seconds = time.perf_counter() - begin
    print(f"Figure 4.4 with compilation, both clamps: {seconds:.1f} s (aim 10)")
    figures.report("Figure 4.4 of the thesis", seconds, "s", aim=10, lower=True)


if __name__ == "__main__":
    main()
