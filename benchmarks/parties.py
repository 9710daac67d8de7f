"""Accuracy over the number of parties and over epsilon: secure sum against local noise.

    python benchmarks/parties.py [--seeds 3] [--data folder]

Adult's 32,561 training records dealt to m = 1 .. 10,000 parties in turn (the same synthetic size
where the file is absent); logistic regression on rows in the unit ball, delta = 1e-5, replace-one.

    pooled          one holder of all records, gradient perturbation by the shipped rule, 100 rounds
    secure sum      the same over m parties; no colluders, all survive
    local noise     the same, every party adds all of its noise
    SGD2            as published: local noise, convex step sizes, plain average, radius 10
    no privacy      regularised logistic regression

With colluders = 0 the sum holds m shares of σ²/m: the noise of the pooled run exactly (the column
"noise" divides the two), so accuracies differ by chance only. A curious party that knows its own
share leaves (m - 1)/m of the variance, which the ledger charges to it; t colluders cost noise x
sqrt(m / (m - t)), which a study plans for with `colluders`.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import figures
from datasets import MissingData, adult, data_folder
from unisono.engines import compilation_cache
from unisono.experiments.adult_parties import (
    DELTA,
    NAMES,
    AdultRecords,
    learn,
    prepared,
    with_ceiling,
)

SCORECARD = figures.Benchmark(quick=None)

RESULTS = Path(__file__).parent / "results"
PARTIES = (1, 10, 100, 1_000, 10_000)
EPSILONS = (0.1, 0.3, 1.0, 3.0)
MIDDLE = 100


def load(folder: Path) -> AdultRecords:
    """Adult with its official split, or a noisy plane of the same size."""
    try:
        return prepared(adult(folder))
    except MissingData as reason:
        print(f"Adult is absent ({reason}): a synthetic plane instead")
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(48_842, 105))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    odds = 1 / (1 + np.exp(-6 * rows @ generator.normal(size=105)))
    labels = np.where(generator.random(len(rows)) < odds, 1.0, -1.0)
    first = slice(32_561), slice(32_561, None)
    (train, test), (marks, test_marks) = (
        tuple(part[cut] for cut in first) for part in (rows, labels)
    )
    return with_ceiling("a synthetic plane", train, marks, test, test_marks)


def verdict(secure: Sequence[float], pooled: Sequence[float]) -> str:
    """Whether two sets of runs differ by more than three standard errors, or a thousandth."""
    gap = float(np.mean(secure) - np.mean(pooled))
    error = math.hypot(
        np.std(secure, ddof=1) / len(secure) ** 0.5, np.std(pooled, ddof=1) / len(pooled) ** 0.5
    )
    equal = abs(gap) <= max(3 * error, 1e-3)
    return f"{gap:+.4f} ± {error:.4f} {'equal' if equal else 'DIFFERENT'}"


def over_parties(records: AdultRecords, epsilon: float, seeds: int) -> dict[str, list[float]]:
    print(
        f"\n{records.name}, epsilon = {epsilon:g}: test accuracy over m "
        f"(no privacy {records.ceiling:.4f}; {seeds} seeds, 1 at m = 10,000)"
    )
    print(
        f"{'m':<8}"
        + "".join(f"{name:>13}" for name in NAMES)
        + f"{'noise':>9}{'secure - pooled':>26}"
    )
    pooled = learn("pooled", records, 1, epsilon, range(max(seeds, 5)))
    curves: dict[str, list[float]] = {name: [] for name in NAMES}
    everywhere: list[float] = []
    for count in PARTIES:
        chosen = range(100, 100 + (1 if count > 1_000 else seeds))
        outcomes = {name: learn(name, records, count, epsilon, chosen) for name in NAMES[1:]}
        outcomes["pooled"] = pooled
        for name in NAMES:
            curves[name].append(float(np.mean(outcomes[name].accuracies)))
        secure = outcomes["secure sum"]
        everywhere += secure.accuracies
        difference = float(np.mean(secure.accuracies) - np.mean(pooled.accuracies))
        print(
            f"{count:<8}"
            + "".join(f"{curves[name][-1]:>13.4f}" for name in NAMES)
            + f"{secure.noise / pooled.noise:>9.5f}{difference:>+26.4f}",
            flush=True,
        )
    print("secure sum over all m against pooled: " + verdict(everywhere, pooled.accuracies))
    lost = float(np.mean(pooled.accuracies) - np.mean(everywhere))
    figures.report(
        "accuracy that m parties lose against one",
        lost,
        "of accuracy",
        aim=1e-3,
        peer="pooled data",
        lower=True,
    )
    return curves


def over_epsilon(records: AdultRecords, seeds: int) -> dict[str, list[float]]:
    print(f"\n{records.name}, m = {MIDDLE} parties: test accuracy over epsilon ({seeds} seeds)")
    print(f"{'epsilon':<10}" + "".join(f"{name:>13}" for name in NAMES) + f"{'noise':>9}")
    curves: dict[str, list[float]] = {name: [] for name in NAMES}
    for epsilon in EPSILONS:
        outcomes = {
            name: learn(name, records, MIDDLE, epsilon, range(200, 200 + seeds)) for name in NAMES
        }
        for name in NAMES:
            curves[name].append(float(np.mean(outcomes[name].accuracies)))
        ratio = outcomes["secure sum"].noise / outcomes["pooled"].noise
        print(
            f"{epsilon:<10g}"
            + "".join(f"{curves[name][-1]:>13.4f}" for name in NAMES)
            + f"{ratio:>9.5f}",
            flush=True,
        )
    return curves


def picture(
    records: AdultRecords,
    parties: dict[str, list[float]],
    epsilons: dict[str, list[float]],
    epsilon: float,
) -> str:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.8), sharey=True)
    larger = float(np.mean(records.test_labels < 0))
    larger = max(larger, 1 - larger)
    styles = {"pooled": "r--", "secure sum": "o-", "local noise": "s-", "SGD2": "^-"}
    for axes, positions, curves in ((left, PARTIES, parties), (right, EPSILONS, epsilons)):
        for name in NAMES:
            axes.plot(positions, curves[name], styles[name], label=name)
        axes.axhline(records.ceiling, color="black", linewidth=1, label="no privacy")
        axes.axhline(larger, color="grey", linestyle=":", label="always the larger class")
        axes.set(xscale="log")
        axes.grid(alpha=0.3)
    left.set(
        xlabel="parties m (the same records in all)",
        ylabel="test accuracy",
        title=f"{records.name}, epsilon = {epsilon:g}",
    )
    right.set(
        xlabel=f"epsilon (delta = {DELTA:g}, replace-one)",
        title=f"{records.name}, m = {MIDDLE} parties",
    )
    right.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    right.minorticks_off()
    lowest = min(min(values) for curve in (parties, epsilons) for values in curve.values())
    left.set_ylim(lowest - 0.03, records.ceiling + 0.03)
    left.legend(fontsize=8)
    figure.tight_layout()
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / "parties.png", dpi=120)
    return "benchmarks/results/parties.png"


def smoke() -> dict[str, float]:
    """Two synthetic parties."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(400, 5)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = np.where(rows[:, 0] > 0, 1.0, -1.0)
    found = learn(
        "local noise", AdultRecords("smoke", rows, labels, rows, labels, 1.0), 2, 1.0, [0]
    )
    return {"accuracy": found.accuracies[0], "noise": found.noise}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--data", help="folder of adult.data.gz (default: UNISONO_DATA)")
    arguments = figures.options(parser, smoke)
    compilation_cache.enable()
    records = load(data_folder(arguments.data))
    parties = over_parties(records, arguments.epsilon, arguments.seeds)
    epsilons = over_epsilon(records, arguments.seeds)
    print("picture:", picture(records, parties, epsilons, arguments.epsilon))
    return 0


if __name__ == "__main__":
    sys.exit(main())
