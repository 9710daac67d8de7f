"""Exact coins and uniform integers."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unisono.core.noise.exact import Interval, LazyUniform, Reals, is_below, rational
from unisono.core.noise.inversion import CHUNK
from unisono.core.noise.keystream import Keystream
from unisono.core.noise.parameters import Size, real_number, shape_of, whole_number
from unisono.errors import InvalidInput

_EXP_ERROR = 2.0**-48


def bernoulli(
    stream: Keystream, probability: float, size: Size, *, always_exact: bool = False
) -> NDArray[np.bool_]:
    """Coins with P(True) = probability, exactly the rational value of the double.

    These are the secret coins of Poisson sampling. One byte settles 255 of 256 coins: U < p is
    decided unless the byte is the first digit of p in base 256, and then by the digits that follow.
    """
    shape, count = shape_of(size)
    if _probability(probability) == 1:
        return np.ones(shape, np.bool_)
    digit, rest = _first_digit(probability)
    digits = np.frombuffer(stream.bytes(count), np.uint8)
    out = digits < digit
    tied = np.flatnonzero(digits == digit)
    if tied.size:
        out[tied] = _by_words(stream, rest, tied.size, always_exact)
    return out.reshape(shape)


def successes(
    stream: Keystream, probability: float, count: int, *, always_exact: bool = False
) -> NDArray[np.intp]:
    """Which of `count` coins of `bernoulli` show True, in increasing order, from the same bytes.

    Where few do, as in small batches of many records, this is quicker than to search a mask.

    >>> coins = bernoulli(Keystream(bytes(32)), 0.25, 1000)
    >>> found = successes(Keystream(bytes(32)), 0.25, 1000)
    >>> bool((found == np.flatnonzero(coins)).all())
    True
    """
    if _probability(probability) == 1:
        return np.arange(count)
    digit, rest = _first_digit(probability)
    digits = np.frombuffer(stream.bytes(count), np.uint8)
    found = (digits <= digit).nonzero()[0]
    tied = (digits[found] == digit).nonzero()[0]
    if not tied.size:
        return found
    kept = np.ones(found.size, np.bool_)
    kept[tied] = _by_words(stream, rest, tied.size, always_exact)
    return found[kept]


def _probability(probability: float) -> float:
    probability = real_number("probability", probability)
    if not 0 <= probability <= 1:
        raise InvalidInput(f"probability must lie in [0, 1], got {probability!r}")
    return probability


def _by_words(
    stream: Keystream, exact: Fraction, count: int, always_exact: bool
) -> NDArray[np.bool_]:
    """Coins from 64-bit words, with more bits where those do not settle them."""
    below, above = _between(exact)
    out = np.empty(count, dtype=np.bool_)
    for start in range(0, count, CHUNK):
        part = out[start : start + CHUNK]
        position = stream.position
        words = stream.words(part.size)
        np.less(words, np.uint64(below), out=part) if below < 2**64 else part.fill(True)
        doubtful = np.full(part.size, always_exact)
        if below < above:
            doubtful |= words == np.uint64(below)
        for i in np.flatnonzero(doubtful):
            uniform = LazyUniform(stream, words[i], position + 8 * int(i))
            part[i] = is_below(uniform, lambda real: rational(real, exact))
    return out


@lru_cache(maxsize=64)
def _first_digit(probability: float) -> tuple[int, Fraction]:
    """The first digit in base 256, and what follows, as a fraction of it."""
    scaled = 256 * Fraction(probability)
    return math.floor(scaled), scaled - math.floor(scaled)


@lru_cache(maxsize=64)
def _between(exact: Fraction) -> tuple[int, int]:
    """The whole numbers around 2^64 p."""
    return math.floor(exact * 2**64), math.ceil(exact * 2**64)


def bernoulli_exp(
    stream: Keystream, exponents: ArrayLike, *, always_exact: bool = False
) -> NDArray[np.bool_]:
    """Coins with P(True) = exp(-x) for each exponent x >= 0, in the shape of `exponents`."""
    given = np.asarray(exponents)
    if given.dtype.kind not in "iuf":
        raise InvalidInput(f"exponents must be real numbers, got an array of {given.dtype}")
    values = given.astype(np.float64)
    if not np.all(values >= 0) or not np.all(np.isfinite(values)):
        raise InvalidInput("exponents must be finite and >= 0: exp(-x) is to be a probability")
    if given.dtype.kind != "f" and np.any(values > 2.0**53):
        raise InvalidInput("whole exponents must be at most 2^53, or a double cannot hold them")
    flat = values.reshape(-1)
    out = np.empty(flat.size, dtype=np.bool_)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK]

        def exact(real: Reals, i: int, part: NDArray[np.float64] = part) -> Interval:
            return rational(real, Fraction(float(part[i])))

        out[start : start + CHUNK] = accept(stream, part, 0.0, exact, always_exact)
    return out.reshape(values.shape)


def accept(
    stream: Keystream,
    exponents: NDArray[np.float64],
    exponent_error: float | NDArray[np.float64],
    exact_exponent: Callable[[Reals, int], Interval],
    always_exact: bool,
) -> NDArray[np.bool_]:
    """U_i < exp(-x_i), one word each, where |x_i - exponents[i]| <= exponent_error.

    `exact_exponent(real, i)` encloses x_i >= 0. An error bound of 1 sends the draw to the exact
    path; others are to be below 1/2.
    """
    position = stream.position
    words = stream.words(exponents.size)
    uniforms = (words.astype(np.float64) + 0.5) * 2.0**-64
    with np.errstate(under="ignore"):
        thresholds = np.exp(-exponents)
    accepted = uniforms < thresholds
    # exp(-x) <= 1, so an error of the exponent moves it by at most 1.3 times that error.
    doubtful = np.abs(uniforms - thresholds) <= _EXP_ERROR + 2 * exponent_error
    for i in range(exponents.size) if always_exact else np.flatnonzero(doubtful):
        uniform = LazyUniform(stream, words[i], position + 8 * int(i))
        accepted[i] = is_below(uniform, _threshold(exact_exponent, int(i)))
    return accepted


def accept_most(
    stream: Keystream,
    count: int,
    largest: float,
    exponents: Callable[[NDArray[np.intp]], NDArray[np.float64]],
    exponent_error: float,
    exact_exponent: Callable[[Reals, int], Interval],
    always_exact: bool,
) -> NDArray[np.bool_]:
    """The verdicts of `accept`, sooner where every x_i is at most `largest` + exponent_error << 1.

    U_i < exp(-largest) settles most draws; `exponents(places)` are asked for of the others alone.
    """
    position = stream.position
    words = stream.words(count)
    margin = _EXP_ERROR + 2 * exponent_error
    # A word w below it says U < (w + 1) / 2^64 <= exp(-largest) - margin.
    sure = max(0, math.floor((math.exp(-largest) - margin) * 2.0**64))
    accepted = words < np.uint64(sure)
    places = np.arange(count) if always_exact else np.flatnonzero(~accepted)
    uniforms = (words[places].astype(np.float64) + 0.5) * 2.0**-64
    with np.errstate(under="ignore"):
        thresholds = np.exp(-exponents(places))
    accepted[places] = uniforms < thresholds
    doubtful = np.abs(uniforms - thresholds) <= margin
    for i in places if always_exact else places[doubtful]:
        uniform = LazyUniform(stream, words[i], position + 8 * int(i))
        accepted[i] = is_below(uniform, _threshold(exact_exponent, int(i)))
    return accepted


def _threshold(
    exact_exponent: Callable[[Reals, int], Interval], i: int
) -> Callable[[Reals], Interval]:
    return lambda real: real.exp(-exact_exponent(real, i))


def uniform_below(stream: Keystream, bound: int, size: Size) -> NDArray[np.int64]:
    """Integers uniform on {0, ..., bound - 1}, 1 <= bound <= 2^63, by rejection on whole words."""
    bound = whole_number("bound", bound, 1, 2**63)
    shape, count = shape_of(size)
    last = np.uint64(2**64 - 1 - 2**64 % bound)  # words up to here hold every remainder equally
    out = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK):
        part = out[start : start + CHUNK]
        words = stream.words(part.size)
        refused = np.flatnonzero(words > last)
        while refused.size:
            words[refused] = stream.words(refused.size)
            refused = refused[words[refused] > last]
        np.copyto(part, words % np.uint64(bound), casting="unsafe")
    return out.reshape(shape)
