"""Measured excess risk of SGD2 beside its utility bounds, over epsilon.

    python benchmarks/utility_bounds.py

Logistic regression on generated records in the unit ball, five parties, the ball of radius 3; the
objective is the *sum* of losses, as in the write-up. The bounds hold for the worst data; what is
measured is one data set. A bound above the trivial one (any fixed point) promises nothing.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from scipy.optimize import minimize

import figures
import unisono
from unisono.algorithms import bounds
from unisono.algorithms.sgd_synchronous import SYNCHRONOUS_SGD
from unisono.engines import in_process
from unisono.problems.linear import LinearLoss

mpl.use("Agg")
import matplotlib.pyplot as plt

SCORECARD = figures.Benchmark(quick=None)

PARTIES, RECORDS, FEATURES, RADIUS, ROUNDS, SEEDS = 5, 800, 5, 3.0, 100, 5
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTA, TOTAL = 1e-6, PARTIES * RECORDS


def records() -> list[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(0)
    parts = []
    for _ in range(PARTIES):
        rows = generator.normal(size=(RECORDS, FEATURES))
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        scores = rows @ np.linspace(2, -2, FEATURES) + 0.3 * generator.normal(size=RECORDS)
        labels = np.where(scores > 0, 1.0, -1.0)
        parts.append((rows, labels))
    return parts


def risk(parameters: np.ndarray, data: list) -> float:
    """Sum of logistic losses, in double precision."""
    point = np.asarray(parameters, float)
    return float(sum(np.logaddexp(0, -y * (x @ point)).sum() for x, y in data))


def best(data: list) -> float:
    """The least risk in the ball, without privacy."""
    ball = {"type": "ineq", "fun": lambda t: RADIUS**2 - t @ t}
    found = minimize(lambda t: risk(t, data), np.zeros(FEATURES), constraints=[ball])
    return float(found.fun)


def measured(data: list, epsilon: float, trust: unisono.Trust, least: float) -> tuple[float, float]:
    """Mean excess risk over seeds, and the variance of the noise in a summed gradient."""
    method = SYNCHRONOUS_SGD.method(
        LinearLoss(), unisono.Privacy(epsilon, DELTA), rounds=ROUNDS, radius=RADIUS
    )
    facts = unisono.Facts((RECORDS,) * PARTIES, FEATURES, PARTIES, 1)
    study = unisono.Study(method, facts, trust)
    excess = []
    for seed in range(SEEDS):
        parties = [
            unisono.Party(
                f"p{j}",
                unisono.Private(d),
                unisono.Ledger.in_memory(
                    unisono.Policy(f"p{j}", unisono.Budget(100.0, DELTA)), unisono.ACCOUNTANT, seed
                ),
            )
            for j, d in enumerate(data)
        ]
        result = in_process.run(study, parties)
        excess.append(risk(result.value, data) - least)
    std = study.algorithm.event(facts, trust).noise.std
    shares = PARTIES if trust is unisono.Trust.LOCAL else PARTIES / facts.honest
    return float(np.mean(excess)), std**2 * shares


def smoke() -> dict[str, float]:
    data = records()
    excess, variance = measured(data, 1.0, unisono.Trust.LOCAL, best(data))
    return {"excess risk": excess, "variance of the noise": variance}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    figures.options(parser, smoke)
    data = records()
    least = best(data)
    useless = bounds.trivial(TOTAL, 1.0, 2 * RADIUS)
    heads = ("trust", "measured", "bound (12)", "published", "trivial")
    print(f"{'epsilon':>8}" + "".join(f"{head:>12}" for head in heads))
    curves: dict[str, list[float]] = {}
    for epsilon in EPSILONS:
        for trust in (unisono.Trust.LOCAL, unisono.Trust.SECURE_SUM):
            excess, variance = measured(data, epsilon, trust, least)
            moment = bounds.second_moment(TOTAL, 1.0, FEATURES, variance)
            bound = bounds.plain_average(2 * RADIUS, moment, ROUNDS)
            size = 2 * RADIUS / (moment * ROUNDS) ** 0.5
            wrong = bounds.published_equation_12(
                2 * RADIUS, (variance / PARTIES) ** 0.5, ROUNDS, size
            )
            numbers = "".join(f"{v:>12.1f}" for v in (excess, bound, wrong, useless))
            print(f"{epsilon:>8g}{trust!s:>12}{numbers}")
            curves.setdefault(f"measured, {trust}", []).append(excess)
            curves.setdefault(f"corrected bound (12), {trust}", []).append(bound)
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    styles = ["o-", "--", "s-", ":"]
    for (name, values), style in zip(curves.items(), styles, strict=True):
        axes.loglog(EPSILONS, np.maximum(values, 1e-3), style, label=name)
    axes.axhline(useless, color="grey", linewidth=1, label="trivial bound: any point of the ball")
    axes.set(
        xlabel=f"epsilon (delta = {DELTA:g}, replace-one)",
        ylabel="excess risk (sum)",
        title=f"SGD2: {PARTIES} parties, {TOTAL} records, {ROUNDS} rounds",
    )
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    place = Path(__file__).parent / "results" / "utility_bounds.png"
    place.parent.mkdir(exist_ok=True)
    figure.savefig(place, dpi=120)
    print(f"picture: {place.name}")


if __name__ == "__main__":
    main()
