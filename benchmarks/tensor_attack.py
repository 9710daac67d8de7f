"""The tensor method on two-layer networks: errors, exponents and seconds.

    python benchmarks/tensor_attack.py            to 1e6 neurons, about a quarter of an hour
    python benchmarks/tensor_attack.py --quick    to 1e5 neurons, half a minute of processor time

Records are uniform on the sphere, weights N(0, I), σ = selu, d = 64 and B = 4 where not said. An
error is the median, over records and seeds, of ||x̂ - x|| / ||x|| before the polish, where guessing
zero scores 1. Residuals are +1 or -1, so that no record is fainter than another; the line "network"
has those of f(x) = Σ a_j σ(w_j · x) with a ~ N(0, 1/m) and labels ±1, some of which are nearly 0.

Exponents are fitted and judged by Table 1 of lecture 13, which bounds one attack's error
from above (E002-14): holds (within 0.1 or two standard errors), loose (the error grows more
slowly), violated (faster).
"""

import argparse
import time

import numpy as np

import figures
from unisono.attacks.scoring import match
from unisono.attacks.tensor import attack
from unisono.experiments.table_1 import (
    FULL,
    SHAPE,
    Sweep,
    batch_clipped,
    errors,
    fitted,
    problem,
    sweeps,
    weights_of,
)

SCORECARD = figures.Benchmark(seconds=5400)

# As in `unisono reproduce table-1`, with more features and neurons, whose weights come from a seed.
WIDE = FULL._replace(
    features=64,
    counts=(10_000, 30_000, 100_000),
    neurons=100_000,
    dimensions=(16, 32, 64, 128),
    batches=(2, 4, 8, 16),
    stds=(0.5, 0.7, 1.0),
    private=(0.004, 0.006, 0.009),
    stored=False,
)
# The largest batch and the largest dimension take as long as all the rest of their sweeps.
QUICK = WIDE._replace(dimensions=(16, 32, 64), batches=(2, 4, 8))
WIDEST = WIDE._replace(counts=(10_000, 100_000, 1_000_000), neurons=1_000_000, stds=(1.0, 2.0, 4.0))


def chosen(quick: bool) -> list[Sweep]:
    """To a million neurons what needs no copy of their weights: not local steps, not dropout."""
    if quick:
        return list(sweeps(QUICK))
    widest = [
        (one.what == "m" and one.defence not in ("local steps", "dropout"))
        or (one.what == "σ" and one.defence == "noise")
        for one in sweeps(WIDE)
    ]
    pairs = zip(sweeps(WIDEST), sweeps(WIDE), widest, strict=True)
    return [wide if million else narrow for wide, narrow, million in pairs]


def exponents(quick: bool, seeds: int) -> None:
    print(f"{'defence':28}{'in':>3} {'errors':44}{'fitted':>15}{'002':>6}  verdict")
    for sweep in chosen(quick):
        found = fitted(sweep, seeds)
        pairs = zip(sweep.sizes, found.medians, strict=True)
        shown = " ".join(f"{size:g}:{error:.3f}" for size, error in pairs)
        print(
            f"{sweep.defence:28}{sweep.what:>3} {shown:44}"
            f"{found.slope.exponent:8.2f} ±{found.slope.uncertainty:5.2f}{sweep.predicted:6.1f}  "
            f"{found.verdict}",
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
    array = weights_of(one.neurons)
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
    parser.add_argument("--quick", action="store_true", help="at most 1e5 neurons, one seed")
    parser.add_argument("--seeds", type=int, default=0, help="5, or 1 with --quick")
    arguments = figures.options(parser, smoke)
    seeds = arguments.seeds or (1 if arguments.quick else 5)
    polish(seeds)
    clipping()
    seconds(100_000 if arguments.quick else 1_000_000)
    exponents(arguments.quick, seeds)


if __name__ == "__main__":
    main()
