"""The norm mechanism's noise, rounded: density ∝ exp(-||b||_2 / scale) on R^p.

b = scale sqrt(2 G) Z with G ~ Gamma((p + 1)/2) and Z ~ N(0, I_p). Both are exact functions
of uniforms: G is a sum of -ln U, plus (-ln U) cos^2(2 pi V) = Z^2/2 where p is even; Z comes in
pairs sqrt(-2 ln U) (cos, sin)(2 pi V). For an integer vector x, x + round(b) = round(x + b) is a
post-processing of the continuous mechanism, so its pure epsilon holds for what is drawn.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unisono.core.noise.exact import Interval, LazyUniform, Reals, floor_of, rational
from unisono.core.noise.keystream import Keystream
from unisono.core.noise.parameters import Size, shape_of, spread

# Logarithm, root, cosine and a sum of p positive terms: 2^-52 each, relative to the radius.
_ERROR = 2.0**-48
# Below this the unknown further bits of a uniform matter to its logarithm.
_SMALLEST_SETTLED_WORD = np.uint64(1 << 50)


def rounded_norm(
    stream: Keystream, scale: float, size: Size, *, always_exact: bool = False
) -> NDArray[np.int64]:
    """One vector round(b) with density of b ∝ exp(-||b||_2 / scale), p = the number of entries."""
    scale = spread("scale", scale)
    shape, p = shape_of(size)
    exponentials, half, pairs = (p + 1) // 2, (p + 1) % 2, (p + 1) // 2
    position = stream.position
    words = stream.words(exponentials + 2 * half + 2 * pairs)
    u = (words.astype(np.float64) + 0.5) * 2.0**-64
    radii, angles = u[exponentials + 2 * half :: 2], u[exponentials + 2 * half + 1 :: 2]

    gamma = -np.log(u[:exponentials]).sum()
    if half:
        gamma -= np.log(u[exponentials]) * np.cos(2 * np.pi * u[exponentials + 1]) ** 2
    length = scale * np.sqrt(2 * gamma) * np.sqrt(-2 * np.log(radii))
    value = np.stack([length * np.cos(2 * np.pi * angles), length * np.sin(2 * np.pi * angles)], 1)
    value = value.reshape(-1)[:p]
    nearest = np.rint(value)
    reach = np.repeat(length, 2)[:p] * _ERROR * (p + 8)
    doubtful = 0.5 - np.abs(value - nearest) <= reach
    small = words < _SMALLEST_SETTLED_WORD
    small[exponentials + 2 * half + 1 :: 2] = False  # angles need no logarithm
    if small.any() or always_exact:
        doubtful[:] = True
    draws = nearest.astype(np.int64)
    if doubtful.any():
        lazy = [LazyUniform(stream, w, position + 8 * i) for i, w in enumerate(words)]
        for i in np.flatnonzero(doubtful):
            draws[i] = floor_of(_coordinate(lazy, int(i), exponentials, half, scale))
    return draws.reshape(shape)


def _coordinate(
    lazy: list[LazyUniform], index: int, exponentials: int, half: int, scale: float
) -> Callable[[Reals], Interval]:
    """b_index + 1/2 as an interval at each precision."""
    first = exponentials + 2 * half

    def value(real: Reals) -> Interval:
        gamma = real.mpf(0)
        for uniform in lazy[:exponentials]:
            gamma -= real.log(uniform.enclose(real))
        if half:
            angle = 2 * real.pi * lazy[exponentials + 1].enclose(real)
            gamma -= real.log(lazy[exponentials].enclose(real)) * real.cos(angle) ** 2
        pair = first + 2 * (index // 2)
        angle = 2 * real.pi * lazy[pair + 1].enclose(real)
        turn = real.sin(angle) if index % 2 else real.cos(angle)
        radius = real.sqrt(-2 * real.log(lazy[pair].enclose(real)))
        length = rational(real, Fraction(scale)) * real.sqrt(2 * gamma)
        return length * radius * turn + rational(real, Fraction(1, 2))

    return value


def norm_share(
    generator: np.random.Generator, scale: float, dimension: int, shares: int, count: int
) -> NDArray[np.float64]:
    """Shares over the reals, (count, dimension): sums of `shares` of them are the norm noise.

    In double precision and for analysis only: rounded shares have no proved pure epsilon.
    """
    gamma = generator.gamma((dimension + 1) / (2 * shares), size=(count, 1))
    return scale * np.sqrt(2 * gamma) * generator.standard_normal((count, dimension))
