"""Exact Polya (negative binomial) counts, and the shares of discrete Laplace noise they make.

The discrete Laplace law is the difference of two geometric variables, and a geometric variable is
the sum of n Polya variables of shape 1/n. So n parties, each adding the difference of two
Polya(1/n) variables, together add exactly discrete Laplace noise, and the pure epsilon of that law
holds for their sum.
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unisono.core.noise.counting import PoissonMean, poisson_table
from unisono.core.noise.exact import (
    Interval,
    LazyUniform,
    Reals,
    between,
    fixed_point,
    floor_of,
    rational,
    reals,
)
from unisono.core.noise.inversion import (
    CHUNK,
    LARGEST_TABLE,
    InversionTable,
    draw_from_table,
    inversion_table,
    tails,
)
from unisono.core.noise.keystream import Keystream
from unisono.core.noise.parameters import Size, positive, shape_of, spread, whole_number
from unisono.errors import InvalidInput

LARGEST_MEAN_OF_TERMS = 2.0**16

_RELATIVE_ERROR = 2.0**-34  # 2^15 steps of four roundings each, and as many additions
_SMALLEST_SETTLED = np.uint64(1 << 46)


def polya(
    stream: Keystream, shape: float, scale: float, size: Size, *, always_exact: bool = False
) -> NDArray[np.int64]:
    """Polya (negative binomial) counts, exactly, for any real shape > 0 and p = exp(-1 / scale):
    P(k) = Gamma(shape + k) / (k! Gamma(shape)) p^k (1 - p)^shape, k = 0, 1, 2, ...

    By inversion where a table of the law is short, else as a sum of Poisson(-shape ln(1 - p))
    logarithmic-series variables, each by Kemp's inversion 1 + floor(ln V / ln(1 - (1 - p)^U)).
    Sums of independent Polya counts of equal scale are Polya; the shapes add up.
    """
    return _polya(stream, Fraction(positive("shape", shape)), scale, size, always_exact)


def discrete_laplace_share(
    stream: Keystream, scale: float, shares: int, size: Size, *, always_exact: bool = False
) -> NDArray[np.int64]:
    """One of `shares` shares of discrete Laplace noise: the sum of all is exactly discrete_laplace.

    The difference of two Polya counts whose shape is the exact rational 1 / shares.
    """
    fraction = Fraction(1, whole_number("shares", shares, 1, 10**9))
    plus = _polya(stream, fraction, scale, size, always_exact)
    return plus - _polya(stream, fraction, scale, size, always_exact)


def _polya(
    stream: Keystream, shape: Fraction, scale: float, size: Size, always_exact: bool
) -> NDArray[np.int64]:
    scale = spread("scale", scale)
    lengths, count = shape_of(size)
    table = _polya_table(shape, scale)
    if table is not None:
        return draw_from_table(stream, table, count, always_exact).reshape(lengths)
    mean = _mean_of_terms(shape, scale)
    counts = poisson_table(mean)
    out = np.empty(count, dtype=np.int64)
    per_chunk = max(1, int(CHUNK / (1 + mean.approximate)))
    for start in range(0, count, per_chunk):
        part = out[start : start + per_chunk]
        terms = draw_from_table(stream, counts, part.size, always_exact)
        ends = np.cumsum(terms)
        values = _logarithmic_series(stream, scale, int(terms.sum()), always_exact)
        sums = np.concatenate([[0], np.cumsum(values)])
        part[:] = sums[ends] - sums[ends - terms]
    return out.reshape(lengths)


class _Success(NamedTuple):
    """p = exp(-1 / scale) and -ln(1 - p), each the double nearest to it or next to that."""

    p: float
    minus_log_q: float


@lru_cache(maxsize=64)
def _success(scale: float) -> _Success:
    # In doubles, 1 / scale rounded and then exponentiated would lose what the bounds count on.
    # The bits beyond 256 keep ln(1 - p) apart from 0 as long as p is a positive double.
    real = reals(256 + min(2048, math.ceil(1.5 / max(scale, 1e-3))))
    exact = real.exp(-rational(real, 1 / Fraction(scale)))
    return _Success(float(exact.mid), float(-_log_q(real, scale).mid))


def _log_q(real: Reals, scale: float) -> Interval:
    """ln(1 - p), enclosed."""
    return real.log(1 - real.exp(-rational(real, 1 / Fraction(scale))))


@lru_cache(maxsize=64)
def _mean_of_terms(shape: Fraction, scale: float) -> PoissonMean:
    """-shape ln(1 - p): how many logarithmic-series variables a Polya count sums on average."""
    approximate = float(shape) * _success(scale).minus_log_q
    if approximate > LARGEST_MEAN_OF_TERMS:
        raise InvalidInput(
            f"shape {float(shape):g} with scale {scale:g} needs {approximate:g} terms a draw, more "
            f"than {LARGEST_MEAN_OF_TERMS:g}: draw several smaller shapes and add them"
        )
    return PoissonMean(approximate, lambda real: -rational(real, shape) * _log_q(real, scale))


def _logarithmic_series(
    stream: Keystream, scale: float, count: int, always_exact: bool
) -> NDArray[np.int64]:
    """P(k) = p^k / (-k ln(1 - p)), k >= 1: X = 1 + floor(ln V / ln Y), Y = 1 - (1 - p)^U.

    Given U, X is geometric: X > j exactly when V < Y^j.
    """
    position = stream.position
    words = stream.words(2 * count)
    uniforms = (words.astype(np.float64) + 0.5) * 2.0**-64
    first, second = uniforms[:count], uniforms[count:]
    exponent = first * -_success(scale).minus_log_q
    with np.errstate(divide="ignore"):  # in the branch not taken
        log_y = np.where(exponent > -0.7, np.log(-np.expm1(exponent)), np.log1p(-np.exp(exponent)))
    ratio = np.log(second) / log_y
    below = np.floor(ratio)
    # U ln(1 - p), at most 40, is off by 2^-52 of itself and ln Y, where small, by 40 times that
    # relatively. ln V is off by 2^-53 where V is near 1, and 1 / |ln Y| <= 1 / |ln p| = scale.
    tolerance = (ratio + 1) * 2.0**-44 + scale * 2.0**-50
    doubtful = np.abs(ratio - below - 0.5) >= 0.5 - tolerance
    too_small = words < _SMALLEST_SETTLED
    doubtful |= too_small[:count] | too_small[count:]
    out = below.astype(np.int64) + 1
    for i in np.arange(count) if always_exact else np.flatnonzero(doubtful):
        u = LazyUniform(stream, words[i], position + 8 * int(i))
        v = LazyUniform(stream, words[count + i], position + 8 * (count + int(i)))

        def value(real: Reals, u: LazyUniform = u, v: LazyUniform = v) -> Interval:
            y = 1 - real.exp(u.enclose(real) * _log_q(real, scale))
            return real.log(v.enclose(real)) / real.log(y)

        out[i] = floor_of(value) + 1
    return out


@lru_cache(maxsize=64)
def _polya_table(shape: Fraction, scale: float) -> InversionTable | None:
    """The law as a table, or None where it would need more than 2^15 entries."""
    p, r = _success(scale).p, float(shape)
    none = r * _success(scale).minus_log_q
    if none > 600:  # P(0) = exp(-none) would underflow
        return None
    k = np.arange(1, LARGEST_TABLE)
    ratios = p * ((k - 1 + r) / k)
    if ratios[-1] >= 1:
        return None
    with np.errstate(under="ignore"):
        masses = math.exp(-none) * np.append(1.0, np.cumprod(ratios))
    # Beyond the table the ratios stay below the larger of p and the last one.
    beyond = masses[-1] / (1 - max(p, ratios[-1]))
    if beyond > 2.0**-70:
        return None
    lower, upper = tails(masses)
    kept = int(np.searchsorted(-upper, -(2.0**-66))) + 1
    return inversion_table(
        0,
        lower[:kept],
        upper[:kept],
        _RELATIVE_ERROR,
        lambda real, k: _polya_cumulative(real, shape, scale, k),
        starts_support=True,
    )


def _polya_cumulative(real: Reals, shape: Fraction, scale: float, k: int) -> Interval:
    """P(X <= k), the masses summed in fixed point by P(j) / P(j - 1) = p (j - 1 + shape) / j."""
    if k < 0:
        return real.mpf(0)
    bits = real.prec
    p = real.exp(-rational(real, 1 / Fraction(scale)))
    p_low, p_high = fixed_point(p, bits)
    low_term = high_term = low = high = 1 << bits
    for j in range(1, k + 1):
        factor = (j - 1) * shape.denominator + shape.numerator
        divisor = (j * shape.denominator) << bits
        low_term = low_term * p_low * factor // divisor
        high_term = -(-high_term * p_high * factor // divisor)
        low += low_term
        high += high_term
    return between(real, low, high, bits) * real.exp(rational(real, shape) * real.log(1 - p))
