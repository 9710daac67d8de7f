"""Exact Gaussian noise on the integers: rounded and discrete.

`rounded_gaussian` is round(N(0, std^2)). For integer data x, x + round(G) = round(x + G) is a
post-processing of the continuous Gaussian mechanism, so its exact curve holds with nothing added;
for a sum of shares see `rounded_share_gap`.
`discrete_gaussian` has mass proportional to exp(-k^2 / (2 std^2)) and is accounted as such.

The rounded law inverts a table up to std 1024, the discrete one up to 256, whose exact sums take
longer. Above, both propose a block of B = 2^e integers or reals around j B, where s = std / B lies
in [128, 256), then a place in the block. With j from the discrete Gaussian of std w,
w^2 ~ s^2 + s / 2, and x = j + b, b uniform on [-1/2, 1/2), accepting with probability exp(-E),
E = h + x^2 / (2 s^2) - j^2 / (2 w^2) and h = 1 / (8 (w^2 - s^2)), leaves x with density
proportional to exp(-x^2 / (2 s^2)). E >= 0, since the maximum of
j^2 / w^2 - (|j| - 1/2)^2 / s^2 over real j is 1 / (4 (w^2 - s^2)). One candidate in 2 s is lost.
"""

import math
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from unisono.core.noise.coins import accept_most
from unisono.core.noise.exact import (
    Interval,
    LazyUniform,
    Reals,
    between,
    fixed_point,
    normal_cumulative,
    rational,
    reals,
)
from unisono.core.noise.inversion import (
    InversionTable,
    draw_from_table,
    inversion_table,
    tails,
)
from unisono.core.noise.keystream import Keystream
from unisono.core.noise.parameters import Size, shape_of, spread
from unisono.core.noise.rejection import first_accepted

LARGEST_ROUNDED_TABLE_STD, LARGEST_DISCRETE_TABLE_STD = 1024.0, 256.0

# scipy's ndtr follows Cephes, with a relative error below 2^-44 for |z| < 13. The bound used is
# sixteen times that; the tests measure ndtr against mpmath.
_NDTR_RELATIVE_ERROR = 2.0**-40
_EXP_SUM_RELATIVE_ERROR = 2.0**-38  # exp within 2^-45 of itself, then at most 2^13 additions
_EXPONENT_ERROR = 2.0**-46  # a dozen roundings of numbers below 2^3


def rounded_gaussian(
    stream: Keystream, std: float, size: Size, *, always_exact: bool = False
) -> NDArray[np.int64]:
    """round(N(0, std^2)), exactly: P(k) = Phi((k + 1/2) / std) - Phi((k - 1/2) / std).

    `std` means the exact value of the double. `always_exact` sends every draw to the exact path:
    the same output, about ten thousand times slower, for verification.

    >>> rounded_gaussian(Keystream(bytes(32)), 10.0, 5)
    array([  2, -10, -13,   8,   1])
    """
    std = spread("std", std)
    shape, count = shape_of(size)
    if std <= LARGEST_ROUNDED_TABLE_STD:
        draws = draw_from_table(stream, _rounded_table(std), count, always_exact)
    else:
        draws = _draw_by_blocks(stream, std, count, True, always_exact)
    return draws.reshape(shape)


def discrete_gaussian(
    stream: Keystream, std: float, size: Size, *, always_exact: bool = False
) -> NDArray[np.int64]:
    """The discrete Gaussian, exactly: P(k) proportional to exp(-k^2 / (2 std^2)).

    >>> discrete_gaussian(Keystream(bytes(32)), 1e9, (2, 2))
    array([[  159288852, -1000127989],
           [-1254467208,   765157051]])
    """
    std = spread("std", std)
    shape, count = shape_of(size)
    if std <= LARGEST_DISCRETE_TABLE_STD:
        draws = draw_from_table(stream, _discrete_table(std), count, always_exact)
    else:
        draws = _draw_by_blocks(stream, std, count, False, always_exact)
    return draws.reshape(shape)


def _draw_by_blocks(
    stream: Keystream, std: float, count: int, rounded: bool, always_exact: bool
) -> NDArray[np.int64]:
    blocks = _blocks(std)
    return first_accepted(
        count, 0.995, lambda n: _propose(stream, blocks, n, rounded, always_exact)
    )


class _Blocks(NamedTuple):
    """Blocks of 2^log_size integers, the law of their index, and E as a quadratic form:
    E = height + square j^2 + cross j b + place b^2.
    """

    log_size: int
    table: InversionTable
    inner: Fraction  # s^2 of the module docstring
    outer: Fraction  # w^2
    exact_height: Fraction  # h
    height: float
    square: float
    cross: float
    place: float


@lru_cache(maxsize=64)
def _blocks(std: float) -> _Blocks:
    log_size = math.frexp(std)[1] - 8
    s = std / 2.0**log_size
    w = math.sqrt(s * s + s / 2)
    inner, outer = Fraction(s) ** 2, Fraction(w) ** 2
    exact_height = 1 / (8 * (outer - inner))
    return _Blocks(
        log_size,
        _discrete_table(w),
        inner,
        outer,
        exact_height,
        height=float(exact_height),
        square=float((1 / inner - 1 / outer) / 2),
        cross=float(1 / inner),
        place=float(1 / (2 * inner)),
    )


def _propose(
    stream: Keystream, blocks: _Blocks, count: int, rounded: bool, always_exact: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Candidates and whether they are accepted: three words each.

    The place in the block is the leading log_size bits of a word for the discrete law, and the
    word with all its further bits for the rounded one.
    """
    log_size, inner, outer = blocks.log_size, blocks.inner, blocks.outer
    chosen = draw_from_table(stream, blocks.table, count, always_exact)
    position = stream.position
    words = stream.words(count)
    # Rounded: leading bits 2 q + r, where r is the first bit that is left out, give q + r.
    shift = 63 - log_size if rounded else 64 - log_size
    candidates = (words >> np.uint64(shift)).view(np.int64)
    if rounded:
        candidates += 1 - (1 << log_size)
        candidates >>= 1
    else:
        candidates -= 1 << (log_size - 1)
    candidates += chosen << log_size

    def exponents(places: NDArray[np.intp]) -> NDArray[np.float64]:
        block, bits = chosen[places].astype(np.float64), words[places]
        if rounded:
            place = (bits.astype(np.float64) + 0.5) * 2.0**-64 - 0.5
        else:
            place = (bits >> np.uint64(shift)).astype(np.float64) * 2.0**-log_size - 0.5
        of_block = (block * blocks.square + place * blocks.cross) * block
        return of_block + np.square(place) * blocks.place + blocks.height

    # No place in a block is further than 1/2 from its middle.
    furthest = float(max(chosen.max(initial=0), -chosen.min(initial=0)))
    largest = (furthest * blocks.square + blocks.cross / 2) * furthest
    largest += blocks.place / 4 + blocks.height

    def exact_exponent(real: Reals, i: int) -> Interval:
        j = int(chosen[i])
        if rounded:
            uniform = LazyUniform(stream, words[i], position + 8 * i)
            x = uniform.enclose(real) - rational(real, Fraction(1, 2)) + j
        else:
            x = rational(real, Fraction(int(candidates[i]), 1 << log_size))
        rest = rational(real, blocks.exact_height - j * j / (2 * outer))
        return x * x / rational(real, 2 * inner) + rest

    accepted = accept_most(
        stream, count, largest, exponents, _EXPONENT_ERROR, exact_exponent, always_exact
    )
    return candidates, accepted


@lru_cache(maxsize=64)
def _rounded_table(std: float) -> InversionTable:
    exact_std = Fraction(std)
    reach = math.ceil(9.5 * std) + 1
    with np.errstate(over="ignore"):
        z = (np.arange(-reach, reach) + 0.5) / std
    return inversion_table(
        -reach,
        ndtr(z),
        ndtr(-z),
        _NDTR_RELATIVE_ERROR,
        lambda real, k: normal_cumulative(real, Fraction(2 * k + 1, 2) / exact_std),
    )


@lru_cache(maxsize=64)
def _discrete_table(std: float) -> InversionTable:
    reach = math.ceil(10 * std) + 1  # beyond lies less than 2^-70
    with np.errstate(over="ignore", under="ignore"):
        masses = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / std))
        lower, upper = tails(masses / masses.sum())
    return inversion_table(
        -reach,
        lower,
        upper,
        _EXP_SUM_RELATIVE_ERROR,
        lambda real, k: _discrete_cumulative(real, std, k),
    )


def _discrete_cumulative(real: Reals, std: float, k: int) -> Interval:
    """P(X <= k) of the discrete Gaussian."""
    if k >= 0:
        return 1 - _discrete_cumulative(real, std, -k - 1)
    bits = real.prec
    sums, slack = _discrete_weights(std, bits)
    # sums[j] = sum of the weights of j, j + 1, ..., within `slack` units of 2^-bits below it.
    beyond = sums[-k] if -k < len(sums) else 0
    total = 2 * sums[1] + (1 << bits)
    numerator = between(real, beyond, beyond + slack, bits)
    return numerator / between(real, total, total + 2 * slack, bits)


@lru_cache(maxsize=16)
def _discrete_weights(std: float, bits: int) -> tuple[tuple[int, ...], int]:
    """Lower bounds of 2^bits sum_{i >= j} exp(-i^2 / (2 std^2)) for j = 0, 1, ..., and their slack.

    Beyond the last index n > sqrt(2 bits) std the sum is at most (std^2 / n) exp(-n^2 / (2 std^2))
    <= std e^-bits, less than one unit of 2^-bits for std <= 512.
    """
    real = reals(bits)
    variance = Fraction(std) ** 2
    last = math.isqrt(math.ceil(2 * bits * variance)) + 1
    exponents = (rational(real, j * j / (2 * variance)) for j in range(last + 1))
    weights = [fixed_point(real.exp(-exponent), bits) for exponent in exponents]
    sums = list(accumulate((low for low, _ in reversed(weights)), initial=0))
    return tuple(reversed(sums)), 1 + sum(high - low for low, high in weights)
