"""Exact discrete Laplace noise: P(k) = (1 - p) / (1 + p) p^|k| with p = exp(-1 / scale)."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unisono.core.noise.coins import accept
from unisono.core.noise.exact import Interval, LazyUniform, Reals, floor_of, rational
from unisono.core.noise.inversion import CHUNK
from unisono.core.noise.keystream import Keystream
from unisono.core.noise.parameters import Size, shape_of, spread
from unisono.core.noise.rejection import first_accepted

LARGEST_INVERTED_SCALE = 2.0**20

# Of ln U: 2^-47 from the unknown bits below 64, 2^-47 from rounding numbers up to 45.
_LOG_ERROR = 2.0**-43
_SMALLEST_SETTLED_TAIL = np.int64(1 << 46)


def discrete_laplace(
    stream: Keystream, scale: float, size: Size, *, always_exact: bool = False
) -> NDArray[np.int64]:
    """Discrete Laplace noise, exactly: P(k) proportional to exp(-|k| / scale).

    Inversion: P(X <= -k) = p^k / (1 + p) for k >= 0, so U < 1/2 gives -floor(-scale ln(U (1 + p)))
    and U >= 1/2 its mirror image at 1 - U.

    Above scale 2^20, where doubles would leave too many draws to the exact path, k = j B + r with
    B = 2^e, s = scale / B in [512, 1024), j discrete Laplace of scale s and r uniform below B,
    accepted with probability exp(-(1 + r / B) / s) if j >= 0 and exp(-(1 - r / B) / s) if j < 0.
    """
    scale = spread("scale", scale)
    shape, count = shape_of(size)
    if scale > LARGEST_INVERTED_SCALE:
        draws = first_accepted(count, 0.997, lambda n: _propose(stream, scale, n, always_exact))
        return draws.reshape(shape)
    out = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK):
        part = out[start : start + CHUNK]
        part[:] = _inverted(stream, scale, part.size, always_exact)
    return out.reshape(shape)


def _inverted(stream: Keystream, scale: float, count: int, always_exact: bool) -> NDArray[np.int64]:
    position = stream.position
    words = stream.words(count)
    # Fold U at 1/2 onto the nearer tail, whose probability a double holds to full precision.
    signed = words.view(np.int64)
    sign = signed >> 63
    tail = signed ^ sign
    value = np.log((tail.astype(np.float64) + 0.5) * 2.0**-64)
    value += math.log1p(math.exp(-finite_inverse(scale)))
    value *= -scale
    magnitude = np.floor(value)
    # Below scale 2^-8 the value is under 1/4 and the tolerance, lost in rounding, not needed.
    doubtful = np.abs(value - magnitude - 0.5) > 0.5 - scale * _LOG_ERROR
    doubtful |= tail < _SMALLEST_SETTLED_TAIL
    out = magnitude.astype(np.int64)
    for i in range(count) if always_exact else np.flatnonzero(doubtful):
        uniform = LazyUniform(stream, words[i], position + 8 * int(i))
        out[i] = _exact_magnitude(uniform, bool(sign[i]), scale)
    return (out ^ ~sign) + (sign + 1)  # negative where U < 1/2


def _propose(
    stream: Keystream, scale: float, count: int, always_exact: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    log_size = math.frexp(scale)[1] - 10
    inner = scale / 2.0**log_size
    chosen = _inverted(stream, inner, count, always_exact)
    offsets = (stream.words(count) >> np.uint64(64 - log_size)).astype(np.int64)
    signs = np.where(chosen >= 0, 1, -1)
    exponents = (1 + signs * offsets.astype(np.float64) * 2.0**-log_size) / inner

    def exact_exponent(real: Reals, i: int) -> Interval:
        place = Fraction(int(signs[i] * offsets[i]), 1 << log_size)
        return rational(real, (1 + place) / Fraction(inner))

    accepted = accept(stream, exponents, 2.0**-50, exact_exponent, always_exact)
    return (chosen << log_size) + offsets, accepted


def finite_inverse(scale: float) -> float:
    """1 / scale, or a number whose negative exponential is 0 as well."""
    return min(1 / max(scale, 1e-300), 1e300)


def _exact_magnitude(uniform: LazyUniform, mirrored: bool, scale: float) -> int:
    exact_scale = Fraction(scale)

    def value(real: Reals) -> Interval:
        tail = uniform.enclose(real)
        if mirrored:
            tail = 1 - tail
        p = real.exp(-rational(real, 1 / exact_scale))
        return -rational(real, exact_scale) * real.log(tail * (1 + p))

    return floor_of(value)
