"""The tensor method on two-layer networks: errors, exponents and seconds.

    python benchmarks/tensor_attack.py            to 1e6 neurons, about a quarter of an hour
    python benchmarks/tensor_attack.py --quick    to 1e5 neurons, a minute

Records are uniform on the sphere, weights N(0, I), σ = selu, d = 64 and B = 4 where not said. An
error is the median, over records and seeds, of ||x̂ - x|| / ||x|| before the polish, where guessing
zero scores 1. Residuals are +1 or -1, so that no record is fainter than another; the line "network"
has those of f(x) = Σ a_j σ(w_j · x) with a ~ N(0, 1/m) and labels ±1, some of which are nearly 0.

Exponents are fitted to logarithms and judged against 002's Table 1, which bounds one attack's error
from above (E002-14): holds (within 0.1), loose (the error grows more slowly), violated (faster).
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import figures
from unisono.attacks.scoring import fit_slope, match, verdict
from unisono.attacks.tensor import ACTIVATIONS, Neurons, array_neurons, attack, gaussian_neurons

SHAPE = ACTIVATIONS["selu"]


class Problem(NamedTuple):
    rows: np.ndarray  # (B, d)
    residuals: np.ndarray  # (B,)
    neurons: Neurons
    shares: np.ndarray  # (m, B): σ(w_j · x_i)

    @property
    def gradient(self) -> np.ndarray:
        return self.shares @ self.residuals


def problem(m: int, seed: int, d: int = 64, batch: int = 4, network: bool = False) -> Problem:
    generator = np.random.default_rng([seed, d, batch])
    rows = generator.normal(size=(batch, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    neurons = gaussian_neurons(m, d, seed)
    shares = [SHAPE.value(block.astype(float) @ rows.T) for _, block in neurons.blocks()]
    values = np.concatenate(shares)
    signs = generator.choice((-1.0, 1.0), batch)
    outputs = generator.normal(size=m) / np.sqrt(m)
    return Problem(rows, 2 * (outputs @ values - signs) if network else signs, neurons, values)


def errors(one: Problem, gradient: np.ndarray) -> np.ndarray:
    batch = len(one.rows)
    found = attack(gradient, one.neurons, SHAPE, batch, polished=False, polish_neurons=1000)
    return match(found.rows, one.rows).errors


# ------------------------------------------------------------- defences


def noisy(one: Problem, std: float, seed: int) -> np.ndarray:
    return one.gradient + std * np.random.default_rng([seed, 1]).normal(size=len(one.shares))


def batch_clipped(one: Problem, bound: float) -> np.ndarray:
    return one.gradient * min(1.0, bound / np.linalg.norm(one.gradient))


def dp_sgd(one: Problem, multiplier: float, seed: int) -> np.ndarray:
    """Each record's gradient clipped to 1, and Gaussian noise of that multiple."""
    own = one.shares * one.residuals
    clipped = np.sum(own / np.maximum(np.linalg.norm(own, axis=0), 1.0), axis=1)
    return clipped + multiplier * np.random.default_rng([seed, 2]).normal(size=len(clipped))


def dropout_errors(one: Problem, keep: float, seed: int) -> np.ndarray:
    """One public mask for the step: the attacker leaves out the neurons that were silent."""
    kept = np.random.default_rng([seed, 3]).random(len(one.shares)) < keep
    weights = np.concatenate([block for _, block in one.neurons.blocks()])[kept]
    left = one._replace(neurons=array_neurons(weights), shares=one.shares[kept])
    return errors(left, left.gradient)


def local_steps(one: Problem, steps: int, seed: int) -> np.ndarray:
    """The change of a after plain descent on (f - y)²/2 of one batch, by the rate; W moves too."""
    m = one.neurons.count
    weights = np.concatenate([block for _, block in one.neurons.blocks()]).astype(float)
    generator = np.random.default_rng([seed, 4])
    start = generator.normal(size=m) / np.sqrt(m)
    labels = start @ one.shares - one.residuals
    rate, output = 0.02 / m, start.copy()
    for _ in range(steps):
        inner = weights @ one.rows.T
        values = SHAPE.value(inner)
        residuals = output @ values - labels
        by_hidden = (output[:, None] * SHAPE.slope(inner) * residuals) @ one.rows
        output, weights = output - rate * (values @ residuals), weights - rate * by_hidden
    return (start - output) / rate


# ------------------------------------------------------------- figures


class Sweep(NamedTuple):
    defence: str
    what: str
    predicted: float
    sizes: Sequence[float]
    errors: Callable[[float, int], np.ndarray]  # size, seed -> errors of the records


def sweeps(quick: bool) -> list[Sweep]:
    wide = 100_000 if quick else 1_000_000
    counts = (10_000, 30_000, 100_000) if quick else (10_000, 100_000, 1_000_000)

    def clean(one: Problem) -> np.ndarray:
        return errors(one, one.gradient)

    def with_noise(m: float, seed: int, std: float) -> np.ndarray:
        one = problem(int(m), seed)
        return errors(one, noisy(one, std, seed))

    def clipped(m: float, seed: int) -> np.ndarray:
        one = problem(int(m), seed)
        return errors(one, batch_clipped(one, 1.0))

    def private(m: float, seed: int, multiplier: float) -> np.ndarray:
        one = problem(int(m), seed)
        return errors(one, dp_sgd(one, multiplier, seed))

    def local(steps: float, seed: int) -> np.ndarray:
        one = problem(30_000, seed)
        return errors(one, local_steps(one, int(steps), seed))

    stds = (0.5, 0.7, 1.0) if quick else (1.0, 2.0, 4.0)
    return [
        Sweep("none", "m", -0.5, counts, lambda m, seed: clean(problem(int(m), seed))),
        Sweep(
            "none, network",
            "m",
            -0.5,
            counts,
            lambda m, seed: clean(problem(int(m), seed, network=True)),
        ),
        Sweep(
            "none, m=1e5",
            "d",
            0.5,
            (16, 32, 64, 128),
            lambda d, seed: clean(problem(100_000, seed, d=int(d))),
        ),
        Sweep(
            "none, m=1e5",
            "B",
            1.0,
            (2, 4, 8, 16),
            lambda b, seed: clean(problem(100_000, seed, batch=int(b))),
        ),
        Sweep("batch clipping to 1", "m", -0.5, counts, clipped),
        Sweep("noise of std 0.3", "m", -0.5, counts, lambda m, seed: with_noise(m, seed, 0.3)),
        Sweep(
            f"noise, m={wide:.0e}", "std", 1.0, stds, lambda std, seed: with_noise(wide, seed, std)
        ),
        Sweep("DP-SGD, noise 0.006", "m", 0.0, counts, lambda m, seed: private(m, seed, 0.006)),
        Sweep("DP-SGD, noise 1", "m", 0.0, counts, lambda m, seed: private(m, seed, 1.0)),
        Sweep(
            "dropout, m=1e5",
            "keep",
            -0.5,
            (0.2, 0.45, 1.0),
            lambda p, seed: dropout_errors(problem(100_000, seed), p, seed),
        ),
        Sweep("local steps, m=3e4", "k", 1.0, (1, 4, 16), local),
    ]


def exponents(quick: bool, seeds: int) -> None:
    print(f"{'defence':22}{'in':>6} {'errors':36}{'fitted':>15}{'002':>6}  verdict")
    for sweep in sweeps(quick):
        found = [
            float(np.median([sweep.errors(size, seed) for seed in range(seeds)]))
            for size in sweep.sizes
        ]
        slope = fit_slope(sweep.sizes, found)
        pairs = zip(sweep.sizes, found, strict=True)
        shown = " ".join(f"{size:g}:{error:.3f}" for size, error in pairs)
        print(
            f"{sweep.defence:22}{sweep.what:>6} {shown:36}"
            f"{slope.exponent:8.2f} ±{slope.uncertainty:5.2f}{sweep.predicted:6.1f}  "
            f"{verdict(slope.exponent, sweep.predicted)}",
            flush=True,
        )


def polish(seeds: int) -> None:
    worst, longest = 0.0, 0.0
    for seed in range(seeds):
        one = problem(10_000, seed, d=32, network=True)
        start = time.perf_counter()
        found = attack(one.gradient, one.neurons, SHAPE, 4, seed=seed)
        longest = max(longest, time.perf_counter() - start)
        worst = max(worst, float(np.max(match(found.rows, one.rows).errors)))
    print(
        f"polished, d=32, B=4, m=1e4, residuals of the network: worst error of {seeds} seeds "
        f"{worst:.1e} (target 1e-6), longest {longest:.1f} s"
    )
    figures.report(
        "tensor attack, polished: worst error", worst, "relative error", aim=1e-6, lower=True
    )


def clipping() -> None:
    one = problem(100_000, 0)
    change = np.max(np.abs(errors(one, batch_clipped(one, 1.0)) - errors(one, one.gradient)))
    print(f"batch clipping to 1 changes the error by {change:.1e}")


def seconds(m: int) -> None:
    one = problem(m, 0)
    gradient = one.gradient
    array = np.concatenate([block for _, block in one.neurons.blocks()])
    for name, weights in (("weights as an array", array), ("weights from a seed", one.neurons)):
        start, spent = time.perf_counter(), time.process_time()
        found = attack(gradient, weights, SHAPE, 4)
        taken, spent = time.perf_counter() - start, time.process_time() - spent
        error = match(found.rows, one.rows).error
        print(
            f"m={m:.0e}, d=64, {name}: {taken:.1f} s ({spent:.1f} s of CPU) with the polish, "
            f"error {error:.1e} (target 30 s)"
        )
        figures.report(f"tensor attack on {m:,} neurons, {name}", taken, "s", aim=30, lower=True)


def smoke() -> dict[str, float]:
    one = problem(5_000, 0, d=8, batch=2)
    return {"error": float(np.mean(errors(one, one.gradient)))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="at most 1e5 neurons, two seeds")
    parser.add_argument("--seeds", type=int, default=0, help="5, or 2 with --quick")
    arguments = figures.options(parser, smoke)
    seeds = arguments.seeds or (2 if arguments.quick else 5)
    polish(seeds)
    clipping()
    seconds(100_000 if arguments.quick else 1_000_000)
    exponents(arguments.quick, seeds)


if __name__ == "__main__":
    main()
