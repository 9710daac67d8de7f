"""The bias of raising a noisy precision to zero, equation (4.24): the plot the thesis left undone.

Equation (4.20) raises a party's noisy sum of squares to zero. With Σ = Σ x² and s = σC,

    Δ = max{0, N(Σ, s²)}        an atom of Φ(-u) at zero, N(Σ, s²) above it, u = Σ/s      (4.24)

The author notes beside it that the mean could be worked out and plotted. It is the mean of a
censored Gaussian (Tobin 1958):

    E[Δ] = Σ Φ(u) + s φ(u)              bias = E[Δ] - Σ = s [φ(u) - u Φ(-u)] > 0

which grows with s, hence with C, and tends to s/√(2π) - Σ/2 where the noise drowns the sum. Every
party pays it, so 20 parties are biased 20 times as much as one release of the whole sum:
this alone predicts the precisions of figure 4.4 under (4.20).
"""

from typing import Any

import numpy as np
from scipy.stats import norm

from unisono.experiments.fig4_4 import (
    CLIPS,
    PARTIES,
    POINTS,
    SEEDS,
    SIGMA,
    measure,
    medians,
)
from unisono.experiments.findings import ExpectedNumber, Findings
from unisono.experiments.linear_case import (
    NOISE_STD,
    PRIOR,
    clipped_sums,
    posterior,
    records,
    thesis_shards,
)

SUMS = (
    1.0,
    10.0,
    40.0,
)  # Σ x² of a party: strongly clipped, ten standard normal x, four times that
SHOWN = 5.0  # the noise's standard deviation s in the picture of the law


def clamp_bias(statistic: Any, noise_std: Any) -> Any:
    """E max{0, N(Σ, s²)} - Σ = s [φ(u) - u Φ(-u)], u = Σ/s.

    >>> round(float(clamp_bias(1.0, 1.25)), 10), round(float(clamp_bias(10.0, 320.0)), 4)
    (0.1502590424, 122.7239)
    """
    u = np.asarray(statistic, float) / noise_std
    return noise_std * (norm.pdf(u) - u * norm.cdf(-u))


def atom(statistic: Any, noise_std: Any) -> Any:
    """P(Δ = 0) = Φ(-Σ/s): how often the noisy sum is negative."""
    return norm.cdf(-np.asarray(statistic, float) / noise_std)


def predicted_ratios(clips: tuple[float, ...] = CLIPS) -> np.ndarray:
    """E[precision of q] / precision of p of every data set under (4.20): (clips, seeds).

    The damped factors' expectations converge to E[Δ]/σ_e² (0.9^78 is left), clipping included.
    """
    shards = thesis_shards(SEEDS, PARTIES, POINTS)
    true = posterior(shards).precision
    found = []
    for clip in clips:
        squares = np.asarray(clipped_sums(records(shards), clip))[..., 1]
        raised = squares + clamp_bias(squares, SIGMA * clip)
        found.append((PRIOR.precision + raised.sum(-1) / NOISE_STD**2) / true)
    return np.array(found)


def run(quick: bool) -> Findings:
    """Quick: a tenth of a million draws of Δ, and 8 of figure 4.4's noise in place of 40."""
    draws = 100_000 if quick else 1_000_000
    simulated = {total: simulated_bias(total, draws) for total in SUMS}
    shards = thesis_shards(SEEDS, PARTIES, POINTS)
    measured = measure(shards, SIGMA, 8 if quick else 40, ("statistic",), posterior(shards))
    seen, expected = medians(measured["statistic"].ratio), np.median(predicted_ratios(), axis=-1)
    scales = SIGMA * np.array(CLIPS)
    worst = max(
        float(np.max(np.abs(simulated[total] - clamp_bias(total, scales)) / scales))
        for total in SUMS
    )
    numbers = (
        ExpectedNumber(
            "bias at Σ = 1, C = 0.25", float(clamp_bias(1.0, scales[0])), 0.15025, 0.15027
        ),
        ExpectedNumber(
            "bias at Σ = 10, C = 1", float(clamp_bias(10.0, scales[1])), 0.04245, 0.04246
        ),
        ExpectedNumber(
            "bias at Σ = 10, C = 64", float(clamp_bias(10.0, scales[-1])), 122.72, 122.73
        ),
        ExpectedNumber(
            "largest gap of closed form and simulation, in noise deviations",
            worst,
            0,
            5 / np.sqrt(draws),
            "five standard errors",
        ),
        *(
            ExpectedNumber(
                f"precision ratio of figure 4.4 over the predicted one, C = {clip:g}",
                float(one / other),
                0.93,
                1.07,
                f"{one:.2f} measured, {other:.2f} predicted",
            )
            for clip, one, other in zip(CLIPS, seen, expected, strict=True)
        ),
        ExpectedNumber(
            "share of sums raised, Σ = 10, C = 64",
            float(atom(10.0, scales[-1])),
            0.48,
            0.5,
            "a coin: the data no longer matter",
        ),
    )
    remarks = (
        "The bias is positive at every clip and grows with it, as the text of the thesis argues "
        "without the formula; at C = 64 a sum of squares of 10 is reported as "
        f"{10 + float(clamp_bias(10.0, scales[-1])):.0f} on average.",
        "Clamping and clipping together predict the precisions of figure 4.4 under (4.20) to a few "
        f"percent: {expected[-1]:.1f} times the true one at C = 64, measured {seen[-1]:.1f}. "
        "Small clips underestimate because of clipping, large ones overestimate because of (4.20).",
        "Raised once after the sum over parties, the bias is that of one release whose sum is "
        "20 times as large beside noise √20 times as wide; not raised at all, there is none.",
    )
    return Findings(
        "clamp_bias",
        "Bias of raising a noisy precision to zero",
        "003, equation (4.24)",
        numbers,
        remarks,
        lambda figure: draw(figure, simulated, measured["statistic"].ratio),
        (13.0, 4.2),
    )


def simulated_bias(total: float, draws: int) -> np.ndarray:
    """E[Δ] - Σ over draws, at every clip; one set of normals for all.

    Δ - N = max{0, -N} for the same normal N, whose mean is Σ: the excess varies less than Δ.
    """
    normals = np.random.default_rng(1).normal(size=draws)
    return np.array([np.maximum(0, -(total + SIGMA * clip * normals)).mean() for clip in CLIPS])


def draw(figure: Any, simulated: dict[float, np.ndarray], ratios: np.ndarray) -> None:
    """The law (4.24), the bias over C with its simulation, and figure 4.4's ratios over C."""
    law, bias, precision = figure.subplots(1, 3)
    grid = np.linspace(0, 30, 400)
    for total in SUMS[:2]:
        (line,) = law.plot(grid, norm.pdf(grid, total, SHOWN), label=f"Σ = {total:g}")
        colour = line.get_color()
        law.plot([0, 0], [0, atom(total, SHOWN) / 5], color=colour, linewidth=4, alpha=0.6)
        mean = total + clamp_bias(total, SHOWN)
        law.axvline(mean, color=colour, linestyle=":", linewidth=1)
    law.set(
        xlabel="Δ",
        ylabel="density; at 0 a fifth of the atom",
        title=f"Equation (4.24), σC = {SHOWN:g}; dotted: E[Δ]",
    )
    law.legend()
    fine = np.geomspace(CLIPS[0], CLIPS[-1], 200)
    for total in SUMS:
        (line,) = bias.plot(fine, clamp_bias(total, SIGMA * fine), label=f"Σ = {total:g}")
        shown = simulated[total] > 1e-4  # smaller ones are chance alone
        bias.plot(np.array(CLIPS)[shown], simulated[total][shown], "o", color=line.get_color())
    bias.plot(fine, SIGMA * fine / np.sqrt(2 * np.pi), "k:", linewidth=1, label="σC/√(2π)")
    bias.set(
        xlabel="clip C (σ = 5)",
        ylabel="E[Δ] - Σ",
        xscale="log",
        yscale="log",
        ylim=(1e-4, 300),
        title="Bias of one party's sum; dots: simulated",
    )
    bias.legend()
    low, high = np.quantile(np.median(ratios, axis=0), [0.1, 0.9], axis=-1)
    precision.fill_between(CLIPS, low, high, alpha=0.25, label="figure 4.4, 80 % of data sets")
    precision.plot(CLIPS, medians(ratios), "o", label="figure 4.4, median")
    precision.plot(CLIPS, np.median(predicted_ratios(), axis=-1), "-", label="predicted")
    precision.axhline(1, color="black", linewidth=0.8)
    precision.set(
        xlabel="clip C",
        ylabel="precision of q / of p",
        xscale="log",
        yscale="log",
        title="Figure 4.4 under (4.20), explained",
    )
    precision.legend()
