"""Output against gradient perturbation: excess risk by parties, records and epsilon (Chen 2019).

Both protect one record (replace-one, sizes public) with Gaussian noise in a secure sum, at (ε, δ)
for whoever sees the released models; every record takes part. With m parties of n records:

    output      Δ2 = 2 G / (m n λ)        once        excess ≈ tr(H) σ² / 2,   σ = Δ2 / μ*(ε, δ)
    gradient    Δ2 = 2 G / (m n)          T times     σ = Δ2 sqrt(T) / μ*(ε, δ) in every step

H is the Hessian of the regularised mean loss at its minimiser. Both σ fall as 1 / (m n) and nearly
as 1 / ε, so every excess risk falls with slope -2 in a log-log picture; output perturbation pays
1/λ for its single release, gradient perturbation sqrt(T) for its many. The sources never ran this.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from unisono.accounting import gaussian
from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION
from unisono.algorithms.output_perturbation import OUTPUT_PERTURBATION
from unisono.core.algorithm import Facts
from unisono.core.events import Gaussian
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust
from unisono.experiments.findings import ExpectedNumber, Findings
from unisono.experiments.simulation import (
    Records,
    least_risk,
    logistic_records,
    logistic_risks,
    simulate,
)
from unisono.problems.linear import LinearLoss

FEATURES, DELTA, REGULARISATION, ROUNDS = 5, 1e-6, 0.01, 50
PARTIES, RECORDS, EPSILON = 10, 200, 1.0
KINDS = ("output", "gradient")
AXES = {
    "parties": (10, 20, 40, 80),
    "records of each party": (200, 400, 800),
    "epsilon": (1.0, 2.0, 4.0),
}


def run(quick: bool) -> Findings:
    """Vary one of m, n and epsilon at a time; mean excess risk over draws of the noise."""
    draws = 40 if quick else 120
    axes = {name: (values[0], values[-1]) for name, values in AXES.items()} if quick else AXES
    curves = {
        (name, kind): [_excess(kind, *_point(name, value), draws) for value in values]
        for name, values in axes.items()
        for kind in KINDS
    }
    numbers = [
        ExpectedNumber(
            f"{kind}: slope by {name}",
            _slope(name, axes[name], curves[name, kind]),
            -2.25,
            -1.75,
            "per unit of log mu*" if name == "epsilon" else "",
        )
        for kind in KINDS
        for name in axes
    ]
    by_epsilon = axes["epsilon"][-1]
    measured = curves["epsilon", "output"][-1]
    predicted = _predicted(by_epsilon)
    ratio = np.divide(curves["epsilon", "output"], curves["epsilon", "gradient"])
    numbers += [
        ExpectedNumber(
            "output: measured / tr(H) σ²/2",
            measured / predicted,
            0.75,
            1.3,
            f"at epsilon {by_epsilon:g}",
        ),
        ExpectedNumber(
            "output / gradient",
            float(ratio.mean()),
            2.0,
            8.0,
            f"lambda {REGULARISATION:g}, {ROUNDS} rounds",
        ),
        ExpectedNumber("averaging without noise", _floor(), 0.0, 1e-4),
    ]
    remarks = (
        "No source ran this, so the ranges are ours: slope -2 from the formulas (in epsilon a "
        "little less, because mu* grows more slowly), the level from tr(H) σ²/2.",
        f"At lambda = {REGULARISATION:g} the gradient's {ROUNDS} releases cost less than the "
        "output's factor 1/lambda; by the formulas a stronger regulariser turns this round.",
        "Averaging the parties' minimisers costs almost nothing here: all parties draw from one "
        "population. Parties that differ would pay for it, and no noise would be to blame.",
    )

    def draw(figure: Any) -> None:
        _draw(figure, axes, curves)

    return Findings(
        "output-or-gradient",
        "Output or gradient perturbation?",
        "Chen 2019, both theorems corrected",
        tuple(numbers),
        remarks,
        draw,
        (10.0, 4.0),
    )


def _point(name: str, value: float) -> tuple[int, int, float]:
    """(m, n, epsilon) with one of them changed."""
    m = int(value) if name == "parties" else PARTIES
    n = int(value) if name == "records of each party" else RECORDS
    return m, n, value if name == "epsilon" else EPSILON


@lru_cache(maxsize=16)
def _records(parties: int, records: int) -> tuple[Records, float]:
    data = logistic_records(parties, records, FEATURES)
    return data, least_risk(data, REGULARISATION)


def _study(kind: str, parties: int, records: int, epsilon: float) -> Study:
    problem, privacy = LinearLoss("logistic"), Privacy(epsilon, DELTA, Relation.REPLACE_ONE)
    if kind == "output":
        method = OUTPUT_PERTURBATION.method(problem, privacy, regularisation=REGULARISATION)
    else:
        method = GRADIENT_PERTURBATION.method(
            problem,
            privacy,
            rounds=ROUNDS,
            clipping_norm=1.0,
            learning_rate=4.0,
            momentum=0.0,
            average_last=0.0,
            regularisation=REGULARISATION,
        )
    return Study(method, Facts((records,) * parties, FEATURES, parties), Trust.SECURE_SUM)


@lru_cache(maxsize=64)
def _excess(kind: str, parties: int, records: int, epsilon: float, draws: int) -> float:
    """Mean excess of the regularised mean risk."""
    data, least = _records(parties, records)
    models = simulate(_study(kind, parties, records, epsilon), data, draws)
    return float(np.mean(logistic_risks(models, data, REGULARISATION)) - least)


def _floor() -> float:
    """Excess risk of the averaged minimisers themselves."""
    data, least = _records(PARTIES, RECORDS)
    return float(logistic_risks(_without_noise(), data, REGULARISATION)[0] - least)


@lru_cache(maxsize=1)
def _without_noise() -> np.ndarray:
    data, _ = _records(PARTIES, RECORDS)
    return simulate(_study("output", PARTIES, RECORDS, EPSILON), data, 1, silent=True)[0]


def _predicted(epsilon: float) -> float:
    """tr(H) σ²/2 for output perturbation; tr(H) from the model without noise."""
    rows = np.concatenate([x for x, _ in _records(PARTIES, RECORDS)[0]])
    chance = 1 / (1 + np.exp(-rows @ _without_noise()))
    trace = np.mean(chance * (1 - chance) * np.sum(rows**2, axis=1)) + FEATURES * REGULARISATION
    study = _study("output", PARTIES, RECORDS, epsilon)
    noise = study.algorithm.event(study.facts, study.trust).noise
    assert isinstance(noise, Gaussian)
    return float(trace * (noise.std / PARTIES) ** 2 / 2)


def _slope(name: str, values: tuple[float, ...], excess: list[float]) -> float:
    """Slope in a log-log picture; epsilon counts as the μ* that it buys."""
    if name == "epsilon":
        values = tuple(gaussian.mu_for(epsilon, DELTA) for epsilon in values)
    return float(np.polyfit(np.log(values), np.log(excess), 1)[0])


def _draw(figure: Any, axes: dict[str, Any], curves: dict[tuple[str, str], list[float]]) -> None:
    panels = figure.subplots(1, len(axes), sharey=True)
    for panel, (name, values) in zip(panels, axes.items(), strict=True):
        for kind, style in zip(KINDS, ("o-", "s--"), strict=True):
            panel.loglog(values, curves[name, kind], style, label=f"{kind} perturbation")
        guide = curves[name, "output"][0] * 0.12 * (np.array(values) / values[0]) ** -2.0
        panel.loglog(values, guide, ":", color="0.5", label="slope -2")
        panel.set(xlabel=name, xticks=values, xticklabels=[f"{v:g}" for v in values])
        panel.minorticks_off()
    panels[0].set_ylabel("mean excess risk")
    panels[0].legend()
    figure.suptitle(
        f"Otherwise {PARTIES} parties of {RECORDS} records, epsilon {EPSILON:g}, "
        f"delta {DELTA:g}, lambda {REGULARISATION:g}"
    )
