"""Figure 4.3 of Sharma 2019: noise on natural parameters biases the mean and variance they give.

One client, y = θ x + N(0, σ_e²), prior N(0, σ_θ²), σ_e = 0.5, ten points x spread evenly over
[-1, 1], y = θ x with θ = ±2; noise of standard deviation 1 on sum x² and on sum x y; no clipping,
no clamp.

    D = σ_e²/σ_θ² + sum x²      variance = σ_e² / (D + z1)        mean = (sum x y + z2) / (D + z1)

The prior is printed as "N(0, 5)": a standard deviation of 5 (drawn), or a variance of 5. Of ten
points the prior is worth 0.01 or 0.05 beside sum x² = 4.07, so that both readings look alike.

The natural parameters are unbiased, but mean and variance are not linear in them:
the median of each is right (the mean m is exceeded iff z2 > m z1, which is even odds),
the most likely value is too small, the expectation does not exist (D + z1 may vanish; it is
negative once in 45,000 draws), and an expectation without the extremes is too large.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm, trim_mean

from unisono.experiments.findings import ExpectedNumber, Findings
from unisono.experiments.linear_case import PRIOR_STD, PRIOR_VARIANCES

DRAWS, SLOPE, ERROR = 10_000, 2.0, 0.5
POINTS = np.linspace(-1, 1, 10)
SQUARES = float(POINTS @ POINTS)
TRIM_MEAN, TRIM_VARIANCE = 0.05, 0.001


class ExactPosterior(NamedTuple):
    """Means and variances from noisy statistics, and the noise in the natural parameters."""

    means: np.ndarray
    variances: np.ndarray
    noise: np.ndarray


def run(quick: bool) -> Findings:
    """10,000 draws for either sign of the slope, as in the thesis; quick changes nothing."""
    found = {sign: noisy_posteriors(sign * SLOPE, DRAWS, seed=1) for sign in (1, -1)}
    true_mean, true_variance = exact_posterior(SLOPE)
    sizes, spreads = biases(PRIOR_STD**2)
    narrow_sizes, narrow_spreads = biases(PRIOR_VARIANCES["variance 5"])
    noise = np.concatenate([found[sign].noise for sign in found])
    numbers: tuple[ExpectedNumber, ...] = (
        ExpectedNumber("|mean|: median bias", float(np.median(sizes)), -0.025, 0.025),
        ExpectedNumber(
            "|mean|: trimmed bias",
            trim_mean(sizes, TRIM_MEAN),
            0.06,
            0.10,
            "5 % at each end left out",
        ),
        ExpectedNumber(
            "|mean|: most likely value, bias",
            mode_of_mean() - true_mean,
            -0.21,
            -0.18,
            "from the density",
        ),
        ExpectedNumber("|mean|: peak of the draws, bias", peak(sizes), -0.30, -0.08),
        ExpectedNumber("variance: median bias", float(np.median(spreads)), -5e-4, 5e-4),
        ExpectedNumber(
            "variance: trimmed bias",
            trim_mean(spreads, TRIM_VARIANCE),
            0.0038,
            0.0050,
            "0.1 % at each end left out",
        ),
        ExpectedNumber(
            "variance: most likely value, bias",
            mode_of_variance() - true_variance,
            -0.0065,
            -0.0055,
            "from the density",
        ),
        ExpectedNumber(
            "natural parameters: largest bias",
            float(np.abs(noise.mean(axis=0)).max()),
            0.0,
            0.03,
            "of noise with deviation 1",
        ),
    )
    numbers += (
        ExpectedNumber(
            "|mean|: trimmed bias, prior of variance 5",
            trim_mean(narrow_sizes, TRIM_MEAN),
            0.06,
            0.10,
            "the other reading of N(0, 5)",
        ),
        ExpectedNumber(
            "variance: trimmed bias, prior of variance 5",
            trim_mean(narrow_spreads, TRIM_VARIANCE),
            0.0036,
            0.0048,
        ),
    )
    both = trim_mean(sizes, TRIM_VARIANCE), trim_mean(spreads, TRIM_MEAN)
    remarks = (
        "The thesis's text says that |mean| is slightly underestimated. Only its most likely value "
        "is; the median is right and a trimmed mean is too large.",
        "A trimmed mean depends on the trim, since the expectation does not exist: +0.08 for the "
        "mean leaves 5 % off each end, +0.0046 for the variance 0.1 %. With the trims exchanged "
        f"they are {both[0]:+.3f} and {both[1]:+.4f}.",
        "N(0, 5) is a standard deviation of 5 above. With a variance of 5 the trimmed biases are "
        f"{trim_mean(narrow_sizes, TRIM_MEAN):+.3f} and "
        f"{trim_mean(narrow_spreads, TRIM_VARIANCE):+.4f}: this figure cannot tell the readings "
        "apart.",
        "The untrimmed expectations do not exist, so the plain average of 10,000 draws means "
        "nothing, however steady it looks.",
    )

    def draw(figure: Any) -> None:
        _draw(figure, found)

    return Findings(
        "fig4.3",
        "Bias of the tilted posterior",
        "Sharma 2019, figure 4.3",
        numbers,
        remarks,
        draw,
        (9.0, 6.0),
    )


def denominator(prior_variance: float = PRIOR_STD**2) -> float:
    """D = σ_e²/σ_θ² + sum x²: the posterior's precision times σ_e²."""
    return ERROR**2 / prior_variance + SQUARES


def exact_posterior(slope: float, prior_variance: float = PRIOR_STD**2) -> tuple[float, float]:
    """Mean and variance without noise."""
    below = denominator(prior_variance)
    return slope * SQUARES / below, ERROR**2 / below


def biases(prior_variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Errors of |mean| and of the variance over the draws of both signs: (2 draws,) each."""
    true_mean, true_variance = exact_posterior(SLOPE, prior_variance)
    found = {s: noisy_posteriors(s * SLOPE, DRAWS, 1, prior_variance) for s in (1, -1)}
    sizes = np.concatenate([sign * one.means for sign, one in found.items()]) - true_mean
    spreads = np.concatenate([one.variances for one in found.values()]) - true_variance
    return sizes, spreads


def noisy_posteriors(
    slope: float, draws: int, seed: int, prior_variance: float = PRIOR_STD**2
) -> ExactPosterior:
    """Means and variances from noisy sums, shape (draws,) each."""
    noise = np.random.default_rng([seed, int(slope > 0)]).normal(size=(draws, 2))
    denominators = denominator(prior_variance) + noise[:, 0]
    means = (slope * SQUARES + noise[:, 1]) / denominators
    return ExactPosterior(means, ERROR**2 / denominators, noise)


def mode_of_mean() -> float:
    """Where the density of a ratio of Gaussians, ∫ |d| φ(d - D) φ(d t - S) dd, is largest."""

    middle = denominator()

    def density(t: float) -> float:
        def height(d: float) -> float:
            return abs(d) * norm.pdf(d - middle) * norm.pdf(d * t - SLOPE * SQUARES)

        return float(quad(height, -4, 14, limit=200)[0])

    return float(minimize_scalar(lambda t: -density(t), bounds=(1, 3), method="bounded").x)


def mode_of_variance() -> float:
    """The density of σ_e²/d is φ(d - D) d²/σ_e², largest where d (d - D) = 2."""
    half = denominator() / 2
    return ERROR**2 / (half + np.sqrt(half**2 + 2))


def peak(values: np.ndarray, share: float = 0.2) -> float:
    """Middle of the shortest interval that holds this share of the values."""
    ordered = np.sort(values)
    held = int(share * len(ordered))
    start = int(np.argmin(ordered[held:] - ordered[:-held]))
    return float((ordered[start] + ordered[start + held]) / 2)


def _draw(figure: Any, found: dict[int, ExactPosterior]) -> None:
    panels = figure.subplots(2, 2)
    for row, (sign, posterior) in zip(panels, found.items(), strict=True):
        mean, variance = exact_posterior(sign * SLOPE)
        window = np.sort([sign * 0.5, sign * 5.0])
        _histogram(row[0], posterior.means, mean, window, TRIM_MEAN)
        _histogram(row[1], posterior.variances, variance, np.array([0.02, 0.16]), TRIM_VARIANCE)
        row[0].set(ylabel="draws", title=f"slope {sign * SLOPE:+g}: mean")
        row[1].set(title=f"slope {sign * SLOPE:+g}: variance")
    panels[1][0].set_xlabel("posterior mean from noisy statistics")
    panels[1][1].set_xlabel("posterior variance from noisy statistics")
    panels[0][1].legend(loc="upper right")


def _histogram(axes: Any, values: np.ndarray, true: float, window: Any, trim: float) -> None:
    axes.hist(values, bins=70, range=tuple(window), color="C0", alpha=0.45)
    axes.axvline(true, color="black", linewidth=4, alpha=0.6, label="without noise")
    axes.axvline(np.median(values), color="C1", linestyle="--", label="median")
    axes.axvline(trim_mean(values, trim), color="C2", linestyle="-.", label="trimmed mean")
