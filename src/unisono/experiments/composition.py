"""What do T private releases cost together? Every composition theorem on the same question.

T adaptive releases of ε each, pure, on the same records (any relation, the one of the parts), for
someone who sees all of them; no sampling. Total epsilon at δ = 1e-5:

    basic           T ε
    advanced (DRV)  ε sqrt(2 T log 1/δ) + T ε (e^ε - 1)
    sqrt 6          ε sqrt(6 T log 1/δ)                 true only if T ε² <= 4.287 log 1/δ
    zCDP            ρ = T ε²/2,  ρ + 2 sqrt(ρ log 1/δ)      (classic)
                    ρ = T ε tanh(ε/2), tight conversion
    exact           randomized response is the worst case: a binomial sum

Lecture 16 states the third without its condition: at ε = 1, T = 1000 it claims 262.8, where a
thousand randomized responses really cost 577.8.
"""

from typing import Any

import numpy as np

from unisono.accounting.composition import optimal, published_sqrt6
from unisono.accounting.theorems import compare_composition
from unisono.experiments.findings import ExpectedNumber, Findings

DELTA = 1e-5
EPSILONS = (0.1, 1.0)
LABELS = {
    "basic": "basic",
    "advanced": "advanced (DRV)",
    "zCDP, standard": "zCDP, classic",
    "zCDP, tight": "zCDP, tight",
    "optimal": "exact",
}
_STYLES = (":", "--", "-.", (0, (5, 1)), "-")


def run(quick: bool) -> Findings:
    """All theorems over T at two values of epsilon."""
    counts = np.unique(np.geomspace(1, 10_000, 9 if quick else 40).round().astype(int))
    curves = {
        e: {name: [totals(e, int(t))[name] for t in counts] for name in LABELS} for e in EPSILONS
    }
    large = totals(1.0, 1000)
    small = totals(0.1, 1000)
    breaks = {e: first_false(e) for e in EPSILONS}
    last = 4.287 * np.log(1 / DELTA)
    numbers = (
        ExpectedNumber("exact, epsilon 1, T 1000", large["optimal"], 577.82, 577.84),
        ExpectedNumber(
            "sqrt 6 claims", published_sqrt6(1.0, 1000, DELTA), 262.82, 262.84, "false there"
        ),
        ExpectedNumber("basic", large["basic"], 1000, 1000),
        ExpectedNumber("zCDP, classic", large["zCDP, standard"], 651.6, 651.8),
        ExpectedNumber("zCDP, tight / exact", large["zCDP, tight"] / large["optimal"], 1.0, 1.05),
        ExpectedNumber("advanced (DRV)", large["advanced"], 1869.9, 1870.1, "worse than basic"),
        ExpectedNumber(
            "epsilon 0.1, T 1000: basic / exact", small["basic"] / small["optimal"], 5.0, 8.0
        ),
        ExpectedNumber(
            "sqrt 6 first false at T, epsilon 1", breaks[1.0], last, 200, f"proved up to {last:.0f}"
        ),
        ExpectedNumber(
            "sqrt 6 first false at T, epsilon 0.1",
            breaks[0.1],
            100 * last,
            10_000,
            f"proved up to {100 * last:.0f}",
        ),
    )
    remarks = (
        "The square-root formula of lecture 16 is safe for few or small releases and false beyond: "
        f"at epsilon 1 from T = {breaks[1.0]} on, at epsilon 0.1 from T = {breaks[0.1]} on.",
        "Tight zCDP stays within a few per cent of the exact answer, which no accountant beats for "
        "parts of which only epsilon is known.",
    )

    def draw(figure: Any) -> None:
        _draw(figure, counts, curves, breaks)

    return Findings(
        "composition",
        "What T private releases cost together",
        "Lecture 16, Theorem 3.1",
        numbers,
        remarks,
        draw,
        (10.0, 4.4),
    )


def totals(epsilon: float, count: int) -> dict[str, float]:
    """Total epsilon by the name of the theorem."""
    return {line.name: line.epsilon for line in compare_composition(epsilon, 0.0, count, DELTA)}


def first_false(epsilon: float) -> int:
    """The least T at which the square-root formula claims less than the exact epsilon."""

    def is_false(count: int) -> bool:
        return published_sqrt6(epsilon, count, DELTA) < optimal(epsilon, 0.0, count, DELTA)

    # For T below 6 log 1/δ basic composition alone proves the formula; then one crossing.
    low = int(6 * np.log(1 / DELTA))
    high = 2 * low
    while not is_false(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_false(middle) else (middle, high)
    return high


def _draw(figure: Any, counts: Any, curves: Any, breaks: Any) -> None:
    panels = figure.subplots(1, 2)
    for panel, epsilon in zip(panels, EPSILONS, strict=True):
        for number, (name, label) in enumerate(LABELS.items()):
            panel.loglog(
                counts,
                curves[epsilon][name],
                color=f"C{number}",
                label=label,
                linestyle=_STYLES[number],
                linewidth=2.2 if name == "optimal" else 1.5,
            )
        claims = np.array([published_sqrt6(epsilon, int(t), DELTA) for t in counts])
        false = counts >= breaks[epsilon]
        panel.loglog(counts, claims, color="0.4", linewidth=1, label="sqrt 6, lecture 16")
        panel.loglog(counts[false], claims[false], "kx", label="sqrt 6 where it is false")
        panel.set(
            xlabel="number of releases T",
            title=f"epsilon {epsilon:g} each, delta {DELTA:g}",
            ylim=(epsilon / 2, 3e4 * epsilon),
        )
    panels[0].set_ylabel("total epsilon")
    panels[0].legend(loc="upper left")
