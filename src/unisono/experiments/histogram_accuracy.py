"""How accurate is a private histogram? Lecture 16, Corollary 2.3, and the claim built on it.

n records fall into k cells. Replacing one record moves two counts by one, so Δ1 = 2 (replace-one, n
public); every cell gets discrete Laplace noise of scale b = 2/ε, once, for anyone to see: pure ε.

    Pr[largest error >= b log(k/η)] <= η                              (Corollary 2.3, continuous)
    exactly, on the integers:  Pr[|Y| >= j] = 2 q^j / (1 + q),  q = e^{-1/b}

The source adds that n >~ log(k)/(ε α) makes every count right within a factor 1 + α. That is wrong:
a cell that holds one record gets noise of about 2/ε however large n is. True is an error of at most
α n in every cell, and 1 + α for cells of at least 2 log(k/η)/(ε α) records.
"""

import math
from typing import Any

import numpy as np

from unisono.core.events import Event, Laplace, bounded_sum
from unisono.core.release import noise_steps
from unisono.core.trust import Relation
from unisono.experiments.findings import ExpectedNumber, Findings
from unisono.mechanisms import laplace

EPSILON, FAILURE, FACTOR = 0.5, 0.05, 0.1
CELLS = (2, 8, 32, 128, 512)
SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)


def run(quick: bool) -> Findings:
    """Largest errors over many histograms, and relative errors of small and large cells."""
    draws, cells = (4000, (8, 128)) if quick else (40_000, CELLS)
    rates = [failure_rate(k, draws) for k in cells]
    theory = [exact_failure(k) for k in cells]
    # Four standard errors of a rate of 5 %.
    error = 4 * math.sqrt(FAILURE * (1 - FAILURE) / draws)
    fine = max(failure_rate(k, draws, grid=2.0**-8) for k in cells)
    rare = [float(np.mean(relative_errors(n, 1, draws))) for n in SIZES]
    large = large_enough(32)
    share = float(np.mean(relative_errors(10**6, large, draws) <= FACTOR))
    numbers = (
        ExpectedNumber(
            "failure rate of Cor 2.3, largest",
            fine,
            0.0,
            FAILURE + error,
            f"grid 2^-8, nearly continuous; promised {FAILURE:g}",
        ),
        ExpectedNumber(
            "on the integers: distance to the exact law",
            float(np.abs(np.subtract(rates, theory)).max()),
            0.0,
            error,
        ),
        ExpectedNumber(
            "mean relative error of a cell of 1",
            float(np.mean(rare)),
            0.95 * mean_error(),
            1.05 * mean_error(),
            "averaged over n",
        ),
        ExpectedNumber(
            "the same, largest n over smallest n",
            rare[-1] / rare[0],
            0.9,
            1.1,
            "the claim would have it fall to 0",
        ),
        ExpectedNumber(f"cells of {large} right within {FACTOR:.0%}", share, 1 - FAILURE, 1.0),
        ExpectedNumber(
            "largest error / n at n = 10^6",
            errors(32, draws).max() / 10**6,
            0.0,
            1e-4,
            f"32 cells, all of {draws} histograms",
        ),
    )
    remarks = (
        f"The corollary is about continuous noise. On the integers, where releases really live, "
        f"its bound fails up to 2/(1 + e^(-1/b)) = {2 / (1 + math.exp(-EPSILON / 2)):.3f} times "
        f"as often: {max(rates):.4f} measured, {max(theory):.4f} exact, {FAILURE:g} promised.",
        "Confirmed: the relative error of a rare cell does not depend on n.",
    )

    def draw(figure: Any) -> None:
        _draw(figure, cells, rates, theory, rare)

    return Findings(
        "histogram-accuracy",
        "Accuracy of a private histogram",
        "Lecture 16, Corollary 2.3 and its example",
        numbers,
        remarks,
        draw,
        (10.0, 4.2),
    )


def cell_event(cells: int) -> Event:
    """One release of all counts."""
    bound = bounded_sum(l1=1.0, hides_presence=False)
    return laplace.calibrate(bound, Relation.REPLACE_ONE, EPSILON, dimension=cells)


def bound(cells: int) -> float:
    """b log(k/η) by the library's own tail."""
    noise = cell_event(cells).noise
    assert isinstance(noise, Laplace)
    return laplace.tail(noise, cells, FAILURE)


def errors(cells: int, draws: int, grid: float = 1.0) -> np.ndarray:
    """Errors of `draws` histograms, (draws, cells)."""
    key = np.random.default_rng(cells).bytes(32)
    steps = noise_steps(key, cell_event(cells), grid, (draws, cells), 1, (cells,))
    return np.abs(steps) * grid


def failure_rate(cells: int, draws: int, grid: float = 1.0) -> float:
    """How often some cell errs by the bound or more."""
    return float(np.mean(errors(cells, draws, grid).max(axis=1) >= bound(cells)))


def mean_error() -> float:
    """E|Y| of discrete Laplace noise: 2 q / (1 - q²)."""
    q = math.exp(-EPSILON / 2)
    return 2 * q / (1 - q * q)


def exact_failure(cells: int) -> float:
    """1 - (1 - Pr[|Y| >= j])^k, j the first integer at or above the bound."""
    q = math.exp(-EPSILON / 2)
    one = 2 * q ** math.ceil(bound(cells)) / (1 + q)
    return -math.expm1(cells * math.log1p(-one))


def large_enough(cells: int) -> int:
    """Least count that is right within a factor of 1 + α, for all cells at once."""
    return math.ceil(2 * math.log(cells / FAILURE) / (EPSILON * FACTOR))


def relative_errors(records: int, count: int, draws: int) -> np.ndarray:
    """|noisy - true| / true for a cell of `count` in a histogram of `records` over 32 cells."""
    key = np.random.default_rng([records, count]).bytes(32)
    truth = np.array([count, *[(records - count) // 31] * 31])
    steps = noise_steps(key, cell_event(32), 1.0, (draws, 32), 1, (32,))
    noisy = truth + steps
    return np.abs(noisy[:, 0] - count) / count


def _draw(figure: Any, cells: Any, rates: Any, theory: Any, rare: Any) -> None:
    left, right = figure.subplots(1, 2)
    left.semilogx(cells, rates, "o", label="measured on the integers")
    left.semilogx(cells, theory, "x--", label="exact on the integers")
    left.axhline(FAILURE, color="0.4", linestyle=":", label="promised by Corollary 2.3")
    left.set(
        xlabel="cells of the histogram",
        ylabel="histograms with an error above the bound",
        ylim=(0, 0.09),
        title=f"epsilon {EPSILON:g}, replace-one",
    )
    left.set_xticks(cells, [str(k) for k in cells])
    left.minorticks_off()
    left.legend(loc="lower left")
    claim = np.log(32) / (EPSILON * np.array(SIZES))
    right.loglog(SIZES, rare, "o-", label="measured, a cell that holds 1 record")
    right.loglog(SIZES, claim, "s--", label="claimed in lecture 16 (false)")
    right.loglog(SIZES, bound(32) / np.array(SIZES), "^:", label="true: error / n, any cell")
    right.set(
        xlabel="records in all",
        ylabel="error relative to the count",
        title="A large n does not help a rare cell",
    )
    right.legend(loc="lower left")
