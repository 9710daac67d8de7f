"""Nanoseconds per draw of every exact sampler, beside OpenDP's integer Gaussian in the same run.

    python benchmarks/exact_samplers.py

Each figure is the best of several runs on a warm table; `first call` includes building it.
"""

import argparse
import importlib.util
import time
from collections.abc import Callable

import numpy as np

import figures
from unisono.core.noise import (
    Keystream,
    bernoulli,
    bernoulli_exp,
    discrete_gaussian,
    discrete_laplace,
    discrete_laplace_share,
    poisson,
    polya,
    rounded_gaussian,
    skellam,
    uniform_below,
)

SCORECARD = figures.Benchmark(quick=("--draws", "200000", "--repeats", "3"))

Call = Callable[[Keystream, int], object]

CALLS: list[tuple[str, Call]] = [
    ("keystream words", lambda s, n: s.words(n)),
    ("uniform_below(1000)", lambda s, n: uniform_below(s, 1000, n)),
    ("bernoulli(0.01)", lambda s, n: bernoulli(s, 0.01, n)),
    ("bernoulli_exp(1)", lambda s, n: bernoulli_exp(s, np.ones(n))),
    ("rounded_gaussian(10)", lambda s, n: rounded_gaussian(s, 10.0, n)),
    ("rounded_gaussian(1e6)", lambda s, n: rounded_gaussian(s, 1e6, n)),
    ("rounded_gaussian(2^40)", lambda s, n: rounded_gaussian(s, 2.0**40, n)),
    ("discrete_laplace(10)", lambda s, n: discrete_laplace(s, 10.0, n)),
    ("discrete_laplace(1e6)", lambda s, n: discrete_laplace(s, 1e6, n)),
    ("discrete_laplace(2^40)", lambda s, n: discrete_laplace(s, 2.0**40, n)),
    ("polya(1/10, 100)", lambda s, n: polya(s, 0.1, 100.0, n)),
    ("discrete_laplace_share(100, 10)", lambda s, n: discrete_laplace_share(s, 100.0, 10, n)),
    ("discrete_laplace_share(1e6, 10)", lambda s, n: discrete_laplace_share(s, 1e6, 10, n)),
    ("poisson(10)", lambda s, n: poisson(s, 10.0, n)),
    ("poisson(1e5)", lambda s, n: poisson(s, 1e5, n)),
    ("poisson(1e10)", lambda s, n: poisson(s, 1e10, n)),
    ("skellam(100)", lambda s, n: skellam(s, 100.0, n)),
    ("skellam(1e10)", lambda s, n: skellam(s, 1e10, n)),
]
STDS = (0.5, 1.0, 10.0, 100.0, 1e3, 1e6, 2.0**40)


def best(call: Callable[[], object], draws: int, repeats: int) -> float:
    """Nanoseconds per draw, the best of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) / draws * 1e9


def measure(call: Call, draws: int, repeats: int) -> tuple[float, float]:
    """Milliseconds of a first call for one draw, then nanoseconds per draw."""
    stream = Keystream(bytes(32))
    start = time.perf_counter()
    call(stream, 1)
    first = (time.perf_counter() - start) * 1e3
    return first, best(lambda: call(stream, draws), draws, repeats)


def opendp_gaussian(std: float, draws: int, repeats: int) -> float:
    """OpenDP's Gaussian mechanism on a vector of integers: exact discrete Gaussian noise."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    mechanism = dp.m.make_gaussian(*space, scale=std)
    zeros = [0] * draws
    return best(lambda: mechanism(zeros), draws, repeats)


def smoke() -> dict[str, float]:
    return {f"ns per draw, {name}": measure(call, 1000, 1)[1] for name, call in CALLS}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = figures.options(parser, smoke, ("opendp",))
    draws, repeats = arguments.draws, arguments.repeats

    print(f"{'sampler':34}{'first call ms':>14}{'ns per draw':>14}")
    for name, call in CALLS:
        first, each = measure(call, draws, repeats)
        print(f"{name:34}{first:14.2f}{each:14.1f}")

    peer = importlib.util.find_spec("opendp") is not None
    print(f"\n{'discrete Gaussian, std':34}{'first call ms':>14}{'ns per draw':>14}", end="")
    print(f"{'opendp ns':>14}{'ratio':>10}" if peer else "   (opendp is not installed)")
    for std in STDS:
        first, each = measure(lambda s, n, std=std: discrete_gaussian(s, std, n), draws, repeats)
        print(f"{std:<34g}{first:14.2f}{each:14.1f}", end="")
        other = opendp_gaussian(std, 3_000, 2) if peer else 0.0
        print(f"{other:14.0f}{other / each:9.0f}x" if peer else "")
        if peer:
            figures.report(
                f"discrete Gaussian, std {std:g}",
                other / each,
                "times faster",
                peer="OpenDP",
                ratio=True,
                ours=each / 1e9,
                theirs=other / 1e9,
                measure="s",
            )
    if not peer:
        figures.missing("OpenDP", "pip install 'unisono[bench]'")


if __name__ == "__main__":
    main()
