"""Every sampler follows its law. Fixed keys: a test either always passes or always fails.

Each chi-square, binomial or two-sample test would fail for one key in a million if the sampler
is right: false-alarm rate 1e-6 each, below 1e-4 for the whole file.
"""

import math
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

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
    rounded_share_gap,
    skellam,
    uniform_below,
)

FALSE_ALARM = 1e-6
DRAWS = 400_000

Cumulative = Callable[[NDArray[np.float64]], NDArray[np.float64]]
Draw = Callable[[Keystream, int], NDArray[np.int64]]


def stream(seed: int = 1) -> Keystream:
    return Keystream(seed.to_bytes(32, "little"))


def chi_square(draws: NDArray[np.int64], cumulative: Cumulative, bins: int = 200) -> float:
    """p-value of the draws against the law, in bins of about equal expected counts."""
    low, high = int(draws.min()), int(draws.max())
    step = max(1, (high - low) // 20_000)
    grid = np.arange(low, high + 1, step).astype(np.float64)
    values = cumulative(grid)
    least = max(20 / draws.size, 1 / bins)
    edges: list[float] = []
    last = 0.0
    for k, value in zip(grid, values, strict=True):
        if value - last >= least and 1 - value >= least:
            edges.append(k)
            last = value
    limits = np.concatenate([[-np.inf], np.array(edges), [np.inf]])
    levels = np.concatenate([[0.0], cumulative(np.array(edges)), [1.0]]) if edges else [0.0, 1.0]
    index = np.searchsorted(limits[1:], draws, side="left")
    observed = np.bincount(index, minlength=len(levels) - 1)
    expected = np.diff(levels) * draws.size
    statistic = float(np.sum((observed - expected) ** 2 / expected))
    return float(stats.chi2.sf(statistic, max(1, len(expected) - 1)))


def discrete_gaussian_cumulative(std: float) -> Cumulative:
    if std > 1e4:  # Euler-Maclaurin: the two laws agree far beyond what draws can tell
        return lambda k: stats.norm.cdf((k + 0.5) / std)
    reach = math.ceil(12 * std) + 2
    masses = np.exp(-np.square(np.arange(-reach, reach + 1)) / (2 * std * std))
    sums = np.cumsum(masses) / masses.sum()
    return lambda k: sums[np.clip(k.astype(np.int64) + reach, 0, 2 * reach)]


def discrete_laplace_cumulative(scale: float) -> Cumulative:
    p = math.exp(-1 / scale)
    return lambda k: np.where(k < 0, np.exp(k / scale), 1 + p - np.exp(-(k + 1) / scale)) / (1 + p)


def polya_cumulative(shape: float, scale: float) -> Cumulative:
    law = stats.nbinom(shape, -math.expm1(-1 / scale))
    return lambda k: law.cdf(k)


LAWS: list[tuple[str, Draw, Cumulative]] = [
    *(
        (
            f"rounded_gaussian {std}",
            lambda s, n, std=std: rounded_gaussian(s, std, n),
            lambda k, std=std: stats.norm.cdf((k + 0.5) / std),
        )
        for std in (0.3, 1.0, 7.3, 300.0, 1024.0, 1100.0, 1e6, 2.0**45)
    ),
    *(
        (
            f"discrete_gaussian {std}",
            lambda s, n, std=std: discrete_gaussian(s, std, n),
            discrete_gaussian_cumulative(std),
        )
        for std in (0.3, 1.0, 7.3, 255.0, 257.0, 500.0, 1e6, 2.0**40)
    ),
    *(
        (
            f"discrete_laplace {scale}",
            lambda s, n, scale=scale: discrete_laplace(s, scale, n),
            discrete_laplace_cumulative(scale),
        )
        for scale in (0.3, 1.0, 40.0, 1e6, 2.0**21 + 1, 2.0**40)
    ),
    *(
        (
            f"polya {shape} {scale}",
            lambda s, n, shape=shape, scale=scale: polya(s, shape, scale, n),
            polya_cumulative(shape, scale),
        )
        for shape, scale in ((0.1, 0.3), (0.5, 3.0), (2.5, 50.0), (0.1, 1e6), (0.7, 5e3))
    ),
    *(
        (
            f"poisson {mean}",
            lambda s, n, mean=mean: poisson(s, mean, n),
            lambda k, mean=mean: stats.poisson.cdf(k, mean),
        )
        for mean in (0.3, 1.0, 30.5, 1e4, 1e6, 2.0**20 + 0.75, 1e12)
    ),
    *(
        (
            f"skellam {variance}",
            lambda s, n, variance=variance: skellam(s, variance, n),
            lambda k, variance=variance: stats.skellam.cdf(k, variance / 2, variance / 2),
        )
        for variance in (0.3, 50.0, 5e6)
    ),
]


@pytest.mark.parametrize(
    ("draw", "cumulative"), [law[1:] for law in LAWS], ids=[a for a, *_ in LAWS]
)
def test_law(draw: Draw, cumulative: Cumulative) -> None:
    assert chi_square(draw(stream(), DRAWS), cumulative) > FALSE_ALARM


TAILS = [
    law
    for law in LAWS
    if law[0]
    in {
        "rounded_gaussian 7.3",
        "rounded_gaussian 1000000.0",
        "discrete_gaussian 7.3",
        "discrete_gaussian 500.0",
        "discrete_laplace 40.0",
        "discrete_laplace 1099511627776.0",
        "polya 2.5 50.0",
        "poisson 30.5",
        "poisson 1048576.75",
        "skellam 50.0",
    }
]


@pytest.mark.parametrize(("draw", "cumulative"), [a[1:] for a in TAILS], ids=[a for a, *_ in TAILS])
def test_tails_to_one_in_a_million(draw: Draw, cumulative: Cumulative) -> None:
    """Counts beyond the 1e-4, 1e-5 and 1e-6 quantiles of 4e6 draws are binomial, on both sides."""
    draws = draw(stream(7), 4_000_000)
    step = max(1, int((draws.max() - draws.min()) // 100_000))
    grid = np.arange(draws.min(), draws.max() + 1, step).astype(np.float64)
    values = cumulative(grid)
    for tail in (1e-4, 1e-5, 1e-6):
        for probability, count in _beyond(draws, grid, values, tail):
            p_value = stats.binomtest(count, draws.size, probability).pvalue
            assert p_value > FALSE_ALARM, (tail, probability, count)


def _beyond(
    draws: NDArray[np.int64], grid: NDArray[np.float64], values: NDArray[np.float64], tail: float
) -> list[tuple[float, int]]:
    cases = []
    below, above = np.flatnonzero(values >= tail)[0], np.flatnonzero(1 - values <= tail)
    if values[below] < 0.1:
        cases.append((float(values[below]), int(np.sum(draws <= grid[below]))))
    if above.size and values[above[0]] < 1:
        cases.append((float(1 - values[above[0]]), int(np.sum(draws > grid[above[0]]))))
    assert cases
    return cases


@pytest.mark.parametrize(("scale", "shares"), [(0.7, 3), (20.0, 4), (1e5, 2)])
def test_discrete_laplace_shares_sum_to_discrete_laplace(scale: float, shares: int) -> None:
    key = stream(2)
    total = sum(
        discrete_laplace_share(key.child(i), scale, shares, DRAWS // 2) for i in range(shares)
    )
    assert chi_square(np.asarray(total), discrete_laplace_cumulative(scale)) > FALSE_ALARM


@pytest.mark.parametrize(("shape", "scale"), [(2e4, 0.3), (3e7, 0.1)])
def test_polya_of_large_shape(shape: float, scale: float) -> None:
    """P(0) is below the smallest double, and p small: hundreds of terms a draw."""
    draws = polya(stream(9), shape, scale, 5_000)
    assert chi_square(draws, polya_cumulative(shape, scale)) > FALSE_ALARM


def test_skellam_shares_sum_to_skellam() -> None:
    key = stream(3)
    total = sum(skellam(key.child(i), 5.0, DRAWS // 2) for i in range(4))
    law = stats.skellam(10.0, 10.0)
    assert chi_square(np.asarray(total), law.cdf) > FALSE_ALARM


@pytest.mark.parametrize("probability", [0.0, 1.0, 0.5, 0.01, 1 / 3, 1e-300])
def test_bernoulli(probability: float) -> None:
    heads = int(bernoulli(stream(4), probability, DRAWS).sum())
    assert stats.binomtest(heads, DRAWS, probability).pvalue > FALSE_ALARM


@pytest.mark.parametrize("exponent", [0.0, 1e-3, 0.7, 5.0, 800.0])
def test_bernoulli_exp(exponent: float) -> None:
    heads = int(bernoulli_exp(stream(5), np.full((2, DRAWS // 2), exponent)).sum())
    assert stats.binomtest(heads, DRAWS, math.exp(-exponent)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("bound", [1, 2, 3, 960, 2**62 + 2**61, 2**63])
def test_uniform_below(bound: int) -> None:
    """The bound 1.5 * 2^62 refuses one word in four, so a missing rejection would show."""
    draws = uniform_below(stream(6), bound, DRAWS)
    assert draws.min() >= 0
    assert draws.max() < bound
    cells = min(bound, 96)
    index = np.array([int(k) * cells // bound for k in draws[: DRAWS // 4]])
    assert stats.chisquare(np.bincount(index, minlength=cells)).pvalue > FALSE_ALARM or cells == 1


def reference_discrete_gaussian(source: random.Random, variance: Fraction) -> int:
    """Canonne, Kamath and Steinke (2020), Algorithms 1-3, in integers and fractions only."""

    def below(n: int) -> int:
        return source.randrange(n)

    def coin_exp(x: Fraction) -> bool:
        while x > 1:
            if not coin_exp(Fraction(1)):
                return False
            x -= 1
        k = 1
        while below(x.denominator * k) < x.numerator:
            k += 1
        return k % 2 == 1

    def laplace(t: int) -> int:
        while True:
            u = below(t)
            if not coin_exp(Fraction(u, t)):
                continue
            v = 0
            while coin_exp(Fraction(1)):
                v += 1
            x, negative = u + t * v, below(2)
            if not (negative and x == 0):
                return -x if negative else x

    t = math.isqrt(math.floor(variance)) + 1
    while True:
        y = laplace(t)
        if coin_exp((abs(y) - variance / t) ** 2 / (2 * variance)):
            return y


@pytest.mark.parametrize("std", [0.75, 3.5])
def test_agrees_with_an_independent_reference(std: float) -> None:
    source = random.Random(11)
    reference = [reference_discrete_gaussian(source, Fraction(std) ** 2) for _ in range(20_000)]
    ours = discrete_gaussian(stream(8), std, 20_000)
    reach = math.ceil(3 * std)
    table = [
        np.bincount(np.clip(draws, -reach, reach) + reach, minlength=2 * reach + 1)
        for draws in (np.array(reference), ours)
    ]
    assert stats.chi2_contingency(np.array(table)).pvalue > FALSE_ALARM


def exact_share_gap(std: float, shares: int) -> float:
    """Total variation of S and T of `rounded_share_gap`, from their masses.

    S: the n-fold convolution of the rounded masses. T: P(T = k) is the density at k of
    N(0, n std^2) plus n uniforms, from its characteristic function.
    """
    reach = 40
    k = np.arange(-reach, reach + 1)
    cell = np.diff(stats.norm.cdf((np.arange(-reach, reach + 2) - 0.5) / std))
    total = cell
    for _ in range(shares - 1):
        total = np.convolve(total, cell)[reach:-reach]
    frequency = np.linspace(-6 / std, 6 / std, 24_001)
    transform = np.exp(-2 * (math.pi * std * frequency) ** 2) * np.sinc(frequency)
    waves = np.cos(2 * math.pi * np.outer(k, frequency)) * transform**shares
    continuous = np.trapezoid(waves, frequency, axis=1)
    return float(np.abs(total - continuous).sum() / 2)


@pytest.mark.parametrize("std", [0.2, 0.3, 0.4, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("shares", [2, 3, 6])
def test_share_gap_bounds_the_brute_force_distance(std: float, shares: int) -> None:
    distance = exact_share_gap(std, shares)
    bound = rounded_share_gap(std, shares)
    assert distance <= bound
    if shares == 2 and std >= 0.3:
        assert bound <= 12 * distance + 1e-12  # and it is not idle


def test_share_gap_formula() -> None:
    leading = math.exp(-(math.pi**2) * 2.0**2) / math.sqrt(2)
    assert rounded_share_gap(2.0, 2) == pytest.approx(leading, rel=1e-6)
    assert rounded_share_gap(2.0, 10_000) > rounded_share_gap(2.0, 5_000) > leading
    assert rounded_share_gap(0.01, 2) == 1.0
    assert 0 < rounded_share_gap(1e6, 2) < 1e-300
    assert rounded_share_gap(1e6, 1) == 0.0
