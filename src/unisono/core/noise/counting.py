"""Exact Poisson and Skellam counts.

Skellam(variance) = Poisson(variance / 2) - Poisson(variance / 2) is closed under sums: the sum of
independent Skellam variables is Skellam with the variances added up, so shares of it leave no gap.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unisono.core.noise.coins import accept
from unisono.core.noise.exact import (
    Interval,
    Reals,
    between,
    certainly_at_most,
    fixed_point,
    floor_of,
    log_factorial,
    precisions,
    rational,
)
from unisono.core.noise.inversion import (
    InversionTable,
    draw_from_table,
    inversion_table,
    tails,
)
from unisono.core.noise.keystream import Keystream
from unisono.core.noise.laplace import discrete_laplace
from unisono.core.noise.parameters import Size, positive, shape_of
from unisono.core.noise.rejection import Candidates, first_accepted
from unisono.errors import InvalidInput

LARGEST_TABLE_MEAN = 2.0**20
LARGEST_MEAN = 2.0**50

# 2^14 steps of two roundings from the mode, 2^15 additions, and the error of an irrational mean.
_TABLE_RELATIVE_ERROR = 2.0**-34


class PoissonMean(NamedTuple):
    """A mean that need not be rational: a double within 2^-49 of it, relatively, and enclosures."""

    approximate: float
    enclose: Callable[[Reals], Interval]


def poisson(
    stream: Keystream, mean: float, size: Size, *, always_exact: bool = False
) -> NDArray[np.int64]:
    """Poisson counts, exactly: P(k) = exp(-mean) mean^k / k!, for 0 < mean < 2^50.

    Up to mean 2^20 by inversion. Above by rejection: k = floor(mean) + discrete_laplace(t),
    t = sqrt(mean), is accepted with probability exp(L(k) - H), where
    L(k) = ln P(k) - ln P(floor(mean)) + |k - floor(mean)| / t. P is log-concave, so L has its
    maximum at floor(mean e^(1/t)) or floor(mean e^(-1/t)); H is a double proved at run time, in
    interval arithmetic, to be at least L there. About three candidates in four are accepted.
    """
    why = "such counts are not represented on any grid used here; use a coarser grid"
    mean = positive("mean", mean, LARGEST_MEAN, why)
    shape, count = shape_of(size)
    if mean <= LARGEST_TABLE_MEAN:
        table = poisson_table(_rational_mean(mean))
        return draw_from_table(stream, table, count, always_exact).reshape(shape)

    def propose(asked: int) -> Candidates:
        steps = discrete_laplace(stream, math.sqrt(mean), asked, always_exact=always_exact)
        return steps + math.floor(mean), _accept(stream, mean, steps, always_exact)

    return first_accepted(count, 0.76, propose).reshape(shape)


def skellam(
    stream: Keystream, variance: float, size: Size, *, always_exact: bool = False
) -> NDArray[np.int64]:
    """Symmetric Skellam noise, exactly: the difference of two Poisson(variance / 2) counts.

    Sums of independent Skellam variables are Skellam; the variances add up. So shares of variance
    total / h, h honest parties, make Skellam noise of the total variance, with no gap.
    """
    half = positive("variance", variance, 2 * LARGEST_MEAN, "use a coarser grid") / 2
    if half == 0:
        raise InvalidInput(f"variance {variance!r} underflows when halved; it is no noise at all")
    plus = poisson(stream, half, size, always_exact=always_exact)
    return plus - poisson(stream, half, size, always_exact=always_exact)


@lru_cache(maxsize=64)
def _rational_mean(mean: float) -> PoissonMean:
    exact = Fraction(mean)
    return PoissonMean(mean, lambda real: rational(real, exact))


@lru_cache(maxsize=64)
def poisson_table(mean: PoissonMean) -> InversionTable:
    """The law of Poisson(mean), mean <= 2^20, as a table of at most 20542 entries."""
    m = mean.approximate
    mode, reach = math.floor(m), 10 * math.sqrt(m) + 30  # less than 2^-70 lies beyond
    first, last = max(0, math.floor(m - reach)), math.ceil(m + reach)
    rising = np.arange(mode, first, -1) / m  # P(k - 1) / P(k) = k / m, downwards from the mode
    falling = m / np.arange(mode + 1.0, last + 1)
    with np.errstate(under="ignore"):
        masses = np.concatenate([np.cumprod(rising)[::-1], [1.0], np.cumprod(falling)])
        lower, upper = tails(masses / masses.sum())
    return inversion_table(
        first,
        lower,
        upper,
        _TABLE_RELATIVE_ERROR,
        lambda real, k: _cumulative(real, mean.enclose(real), k),
        starts_support=first == 0,
    )


def _log_mass(real: Reals, mean: Interval, k: int) -> Interval:
    return k * real.log(mean) - mean - log_factorial(real, k)


def _cumulative(real: Reals, mean: Interval, k: int) -> Interval:
    """P(X <= k), from whichever side of k the masses fall: all terms positive and decreasing."""
    if k < 0:
        return real.mpf(0)
    bits = real.prec
    mean_low, mean_high = fixed_point(mean, bits)
    above_mean = k << bits > mean_low
    if mean_low <= 0 or (above_mean and mean_high >= (k + 2) << bits):
        return real.mpf([0, 1])  # the mean itself is not known well enough yet
    low_term = high_term = low = high = 1 << bits
    negligible = 1 << 32
    # Either way the ratios of the terms left out are at most the first one, r < 1, so their sum is
    # at most r / (1 - r) times the last term kept.
    if not above_mean:
        j = k
        while j > 0 and high_term > negligible:  # P(j - 1) = P(j) j / mean
            low_term = (low_term * j << bits) // mean_high
            high_term = -((-high_term * j << bits) // mean_low)
            low, high, j = low + low_term, high + high_term, j - 1
        high += -((-high_term * j << bits) // (mean_low - (j << bits)) if j else 0)
        return real.exp(_log_mass(real, mean, k)) * between(real, low, high, bits)
    j = k + 2
    while high_term > negligible:  # P(j) = P(j - 1) mean / j
        low_term = low_term * mean_low // (j << bits)
        high_term = -(-high_term * mean_high // (j << bits))
        low, high, j = low + low_term, high + high_term, j + 1
    high += -(-high_term * mean_high // ((j << bits) - mean_high))
    return 1 - real.exp(_log_mass(real, mean, k + 1)) * between(real, low, high, bits)


def _accept(
    stream: Keystream, mean: float, steps: NDArray[np.int64], always_exact: bool
) -> NDArray[np.bool_]:
    """U < exp(L(floor(mean) + step) - H), one word each.

    With h(u) = (1 + u) ln(1 + u) - u and c = floor(mean), Stirling's series gives
    ln P(k) = -mean h(k / mean - 1) - ln(2 pi k) / 2 - 1 / (12 k) + (less than 2^-53). In doubles
    mean h(u) is off by a few 2^-53 mean |u|, that is by a few 2^-53 |k - mean|.
    """
    centre = math.floor(mean)
    d = steps.astype(np.float64)
    distance = np.abs(d)
    near = distance < mean / 4
    d[~near] = 0.0
    u, at_centre = (d + (centre - mean)) / mean, (centre - mean) / mean
    exponents = (1 + u) * np.log1p(u)
    exponents -= u
    exponents -= (1 + at_centre) * math.log1p(at_centre) - at_centre
    exponents *= mean
    exponents += 0.5 * np.log1p(d / centre)
    exponents += (1 / (centre + d) - 1 / centre) / 12
    exponents -= distance * (1 / math.sqrt(mean))
    exponents += _height(mean)
    # Far away the formula does not hold; an error bound of 1 always asks for an exact verdict.
    exponents[~near] = 1.0
    error = np.where(near, 2.0**-46 + distance * 2.0**-47, 1.0)

    def exact_exponent(real: Reals, i: int) -> Interval:
        k = centre + int(steps[i])
        if k < 0:
            return real.mpf("inf")
        return real.mpf(_height(mean)) - _log_ratio(real, mean, k)

    return accept(stream, exponents, error, exact_exponent, always_exact)


def _log_ratio(real: Reals, mean: float, k: int) -> Interval:
    """L(k), enclosed."""
    exact, centre = rational(real, Fraction(mean)), math.floor(mean)
    hat = rational(real, abs(k - centre) / Fraction(math.sqrt(mean)))
    return _log_mass(real, exact, k) - _log_mass(real, exact, centre) + hat


@lru_cache(maxsize=64)
def _height(mean: float) -> float:
    """H >= max L, a double at most 2^-20 above it."""
    inverse = 1 / Fraction(math.sqrt(mean))
    peaks = [floor_of(partial(_peak, mean=mean, tilt=tilt)) for tilt in (inverse, -inverse)]
    real = next(precisions())
    heights = [_log_ratio(real, mean, peak) for peak in peaks]
    height = max(float(value.mid) for value in heights) + 2.0**-21
    if not all(certainly_at_most(value, real.mpf(height)) for value in heights):
        raise AssertionError(f"the Poisson hat at mean {mean!r} is too low")
    return height


def _peak(real: Reals, mean: float, tilt: Fraction) -> Interval:
    return rational(real, Fraction(mean)) * real.exp(rational(real, tilt))
