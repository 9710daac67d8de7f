"""Exact verdicts on lazily extended uniforms: the slow path behind every sampler.

Every draw is a function of uniforms U in [0, 1) with infinitely many bits, evaluated over the
reals. The samplers look at 64 bits of U in double precision with an error bound; where that does
not settle the draw they come here. A question ("is U < q?", "what is floor(f(U))?") is answered
with interval arithmetic (mpmath, outward rounding) at 128, 256, 512, ... bits, each time with as
many bits of U, until the interval leaves one answer. The thresholds are met with probability zero,
so this ends; what it returns is the value of the exact function, never an approximation.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from math import factorial
from typing import Any

import mpmath
from mpmath import libmp

from unisono.core.noise.keystream import Keystream

Reals = Any  # an mpmath interval context of fixed precision
Interval = Any  # one of its intervals: contains the real number it stands for

FIRST_BITS = 128
_NOT_FINITE = (libmp.finf, libmp.fninf, libmp.fnan)


@lru_cache(maxsize=32)
def reals(bits: int) -> Reals:
    """Interval arithmetic with `bits`-bit endpoints. Never reconfigured, so safe to share."""
    context = mpmath.ctx_iv.MPIntervalContext()
    context.prec = bits
    return context


def precisions() -> Iterator[Reals]:
    """Contexts of 128, 256, 512, ... bits."""
    bits = FIRST_BITS
    while True:
        yield reals(bits)
        bits *= 2


def rational(real: Reals, value: Fraction | int) -> Interval:
    """An interval around an exact rational."""
    value = Fraction(value)
    return real.mpf(value.numerator) / real.mpf(value.denominator)


def between(real: Reals, low: int, high: int, bits: int) -> Interval:
    """The interval [low, high] / 2^bits, rounded outwards."""
    return real.mpf([low, high]) / real.mpf(1 << bits)


def certainly_at_most(left: Interval, right: Interval) -> bool:
    """True when every point of `left` is <= every point of `right`."""
    return bool(libmp.mpf_le(left._mpi_[1], right._mpi_[0]))


def fixed_point(value: Interval, bits: int) -> tuple[int, int]:
    """Integers (low, high) with low <= 2^bits x <= high for every x in a finite interval."""
    low, high = value._mpi_
    return (
        libmp.to_int(libmp.mpf_floor(libmp.mpf_shift(low, bits))),
        libmp.to_int(libmp.mpf_ceil(libmp.mpf_shift(high, bits))),
    )


class LazyUniform:
    """U = (w0 + w1 / 2^64 + w2 / 2^128 + ...) / 2^64: w0 read already, the rest read on demand."""

    __slots__ = ("_bits", "_further", "_numerator", "_position", "_stream")

    def __init__(self, stream: Keystream, word: int, position: int) -> None:
        self._stream = stream
        self._position = position
        self._further: Keystream | None = None
        self._numerator = int(word)
        self._bits = 64

    def enclose(self, real: Reals) -> Interval:
        """The interval known to contain U after `real.prec` of its bits."""
        if self._further is None:
            self._further = self._stream.extension(self._position)
        while self._bits < real.prec:
            self._numerator = (self._numerator << 64) | int(self._further.words(1)[0])
            self._bits += 64
        excess = self._bits - real.prec
        numerator = self._numerator >> excess
        return between(real, numerator, numerator + 1, real.prec)


def is_below(uniform: LazyUniform, threshold: Callable[[Reals], Interval]) -> bool:
    """Whether U < threshold, for a threshold given as an interval at each precision."""
    for real in precisions():
        value, bound = uniform.enclose(real), threshold(real)
        if certainly_at_most(value, bound):  # U itself is below the upper end of its interval
            return True
        if certainly_at_most(bound, value):
            return False
    raise AssertionError("unreachable: precisions() is endless")


def floor_of(value: Callable[[Reals], Interval]) -> int:
    """floor of an irrational real, given as an interval at each precision."""
    for real in precisions():
        low, high = value(real)._mpi_
        if low not in _NOT_FINITE and high not in _NOT_FINITE:
            below, above = libmp.mpf_floor(low), libmp.mpf_floor(high)
            if libmp.mpf_eq(below, above):
                return int(libmp.to_int(below))
    raise AssertionError("unreachable: precisions() is endless")


def invert(uniform: LazyUniform, cumulative: Callable[[Reals, int], Interval], guess: int) -> int:
    """The integer k with P(X <= k - 1) <= U < P(X <= k), whatever the guess.

    `cumulative(real, k)` encloses P(X <= k) and is 0 below the support.
    """

    def at_most(k: int) -> bool:
        return is_below(uniform, lambda real: cumulative(real, k))

    # Gallop away from the guess until k in (low, high], then bisect.
    step = 1
    if at_most(guess):
        high, low = guess, guess - 1
        while at_most(low):
            high, low, step = low, low - 2 * step, 2 * step
    else:
        low, high = guess, guess + 1
        while not at_most(high):
            low, high, step = high, high + 2 * step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        if at_most(middle):
            high = middle
        else:
            low = middle
    return high


def normal_cumulative(real: Reals, z: Fraction) -> Interval:
    """Phi(z) to about 2^-prec, from the all-positive series
    Phi(z) = 1/2 + phi(z) (z + z^3/3 + z^5/(3 5) + z^7/(3 5 7) + ...).
    """
    if z < 0:
        return 1 - normal_cumulative(real, -z)
    bits = real.prec
    if z * z > 2 * bits:  # 1 - Phi(z) <= exp(-z^2 / 2) / 2 < 2^-bits
        return between(real, (1 << bits) - 1, 1 << bits, bits)
    square = z * z
    shifted = square.numerator << bits
    series = between(
        real,
        _odd_factorial_series(shifted // square.denominator, bits, round_up=False),
        _odd_factorial_series(-(-shifted // square.denominator), bits, round_up=True),
        bits,
    )
    density = real.exp(-rational(real, square / 2)) / real.sqrt(2 * real.pi)
    return rational(real, Fraction(1, 2)) + density * rational(real, z) * series


def _odd_factorial_series(square: int, bits: int, *, round_up: bool) -> int:
    """Bound of sum_n square^n / (1 3 5 ... (2n+1)) in fixed point, every step rounded one way."""
    term = total = 1 << bits
    order = 0
    while term > 1 or 2 * square > (2 * order + 3) << bits:
        order += 1
        numerator, denominator = term * square, (2 * order + 1) << bits
        term = -(-numerator // denominator) if round_up else numerator // denominator
        total += term
        if term == 0:
            break
    # Past the loop the ratio of terms is at most 1/2, so what is left is at most the last term.
    return total + term if round_up else total


def log_factorial(real: Reals, n: int) -> Interval:
    """ln n!, exactly summed for small n, else by Stirling's series with its remainder enclosed.

    For x > 0 the remainder of ln Gamma(x) after j terms lies between 0 and the next term.
    """
    bits = real.prec
    if n < bits:
        return real.log(real.mpf(factorial(n)))
    x = real.mpf(n + 1)
    total = (x - rational(real, Fraction(1, 2))) * real.log(x) - x + real.log(2 * real.pi) / 2
    power = x
    for order in range(1, bits):
        bernoulli = Fraction(*map(int, mpmath.bernfrac(2 * order)))
        term = rational(real, bernoulli / (2 * order * (2 * order - 1))) / power
        if certainly_at_most(abs(term), between(real, 1, 1, bits)):
            return total + real.mpf([-1, 1]) * abs(term)
        total += term
        power *= x * x
    raise AssertionError("unreachable: with x >= bits the terms fall below 2^-bits")
