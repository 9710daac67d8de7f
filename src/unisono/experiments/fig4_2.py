"""Figure 4.2 of Sharma 2019: privacy cost over the epochs of DP-SGD, for five lot sizes.

N = 1000 records, lots of expected size L in {1, 10, 50, 100, 500}, so rates q = L/N; every record
joins a lot by a secret coin (Poisson); Gaussian noise of one clip (σ = 1); 1/q steps make an epoch;
δ = 1e-5. Adding or removing one record, for whoever sees every step.

    thesis      ε = min over λ <= 32 of (steps α(λ) - log δ)/λ          (eq. 2.10)
    certified   the privacy loss distribution, both bounds within 0.001

At q = 0.001 the thesis's curve starts flat: -log δ/λ cannot fall below 0.36 with λ <= 32.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from unisono.accounting import moments, pld
from unisono.experiments.findings import ExpectedNumber, Findings

RATES = (0.001, 0.01, 0.05, 0.1, 0.5)
EPOCHS = (1, 10, 100, 1000)
DELTA, NOISE = 1e-5, 1.0
# Equation (2.10) at the settings of the thesis's code, to the digits that its figure can show.
THESIS = {
    0.001: (0.97, 1.08, 2.11, 7.21),
    0.01: (1.62, 2.54, 7.47, 28.69),
    0.05: (3.09, 6.12, 20.09, 97.24),
    0.1: (4.18, 8.93, 28.55, 181.9),
    0.5: (6.14, 18.66, 82.99, 726.3),
}
CERTIFIED = {0.001: 0.4760, 0.01: 1.829, 0.05: 4.766, 0.1: 7.047, 0.5: 15.12}


def run(quick: bool) -> Findings:
    """Both accountants at 1, 10, 100 and 1000 epochs; the picture has more points."""
    epochs = np.unique(np.geomspace(1, 1000, 10 if quick else 40).round().astype(int))
    numbers = []
    for rate in RATES:
        for epoch, seen in zip(EPOCHS, THESIS[rate], strict=True):
            half = 0.5 if seen > 500 else 0.05 if seen > 100 else 0.005
            name = f"thesis, q {rate:g}, {epoch} epochs"
            numbers.append(
                ExpectedNumber(name, thesis_epsilon(rate, epoch), seen - half, seen + half)
            )
    for rate, seen in CERTIFIED.items():
        bracket = certified_epsilon(rate, 10)
        numbers.append(
            ExpectedNumber(
                f"certified, q {rate:g}, 10 epochs",
                bracket.upper,
                seen - 1e-3 * max(1, seen),
                seen + 1e-3 * max(1, seen),
                f"lower bound {bracket.lower:.4f}",
            )
        )
    published = {q: [thesis_epsilon(q, int(e)) for e in epochs] for q in RATES}
    tight = {q: [certified_epsilon(q, int(e)).upper for e in epochs] for q in RATES}
    numbers.append(
        ExpectedNumber(
            "least step up in q or epochs", _least_rise(published), 0.0, np.inf, "monotone"
        )
    )
    remarks = (
        "At q = 0.001 and 10 epochs the certified lower and upper bounds lie between 0.4750 and "
        "0.4762. A privacy loss distribution that is rounded up to multiples of 1e-3, ten times as "
        "coarse as is usual, gives 0.499 after these 10,000 steps: an upper bound too, but loose.",
        "The flat start for q = 0.001 is an artefact of lambda <= 32: with 1 epoch the thesis "
        f"pays {published[0.001][0]:.2f}, the certified cost is {tight[0.001][0]:.3f}.",
        "All of this is add-or-remove with Poisson lots. Under replace-one, or with lots of fixed "
        "size as in the thesis's program, these numbers are not a guarantee.",
    )

    def draw(figure: Any) -> None:
        _draw(figure, epochs, published, tight)

    return Findings(
        "fig4.2",
        "Privacy cost over the epochs of DP-SGD",
        "Sharma 2019, figure 4.2",
        tuple(numbers),
        remarks,
        draw,
        (8.0, 5.0),
    )


def thesis_epsilon(rate: float, epochs: int) -> float:
    """The moments accountant as the thesis has it."""
    return moments.epsilon(round(epochs / rate) * _one_step(rate), DELTA)


@lru_cache(maxsize=8)
def _one_step(rate: float) -> np.ndarray:
    return moments.log_moments(rate, NOISE)


def certified_epsilon(rate: float, epochs: int) -> pld.Bracket:
    """Lower and upper bound of the true epsilon."""
    pair = pld.GaussianPair(1 / NOISE, rate=rate)
    return pld.compose([(pair, round(epochs / rate))]).epsilon(DELTA)


def _least_rise(curves: Mapping[float, Sequence[float]]) -> float:
    table = np.array(list(curves.values()))
    return float(min(np.diff(table, axis=0).min(), np.diff(table, axis=1).min()))


def _draw(figure: Any, epochs: Any, published: Any, tight: Any) -> None:
    axes = figure.subplots()
    for number, rate in enumerate(RATES):
        colour = f"C{number}"
        axes.loglog(epochs, published[rate], color=colour)
        axes.loglog(epochs, tight[rate], "--", color=colour)
        axes.annotate(
            f"q = {rate:g}",
            (epochs[-1], published[rate][-1]),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=colour,
        )
    axes.plot([], [], color="0.3", label="thesis: moments accountant, lambda up to 32")
    axes.plot([], [], "--", color="0.3", label="certified: privacy loss distribution")
    axes.set(xlabel="epochs", ylabel=f"epsilon at delta {DELTA:g}", xlim=(1, 2500))
    axes.legend(loc="upper left")
