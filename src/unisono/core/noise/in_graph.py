"""Cryptographic normals inside `jit`: ChaCha20 bits, 64-bit and finer uniforms, double precision.

One pair of normals takes four words (h, l, a, m) of the keystream:

    sign, swap   m bits 0, 1
    u            (A + 1/2) / 2^78,  A = h | l | m bits 15..2                       usually
                 (A + 1/2) / 2^94,  A = h | l | m bits 31..2    if h = 0, so u < 2^-32
    phi          pi / 2^49 (V + 1/2),  V = a | m bits 31..16 as a signed integer   usually
                 pi / 2^33 (V + 1/2),  V = a                    if h = 0

    (x, y) = sqrt(-2 ln u) (+-cos phi, sin phi), swapped or not       (Box and Muller)

The four words of a pair stand at the same place in the four quarters of a part of the
keystream (`keystream_map`), so that all of them are read in order.

phi in (-pi/4, pi/4), a sign and a swap cover the circle evenly. Where u is small the bits of
the angle's tail refine u instead: the largest value is sqrt(2 * 95 ln 2) = 11.48, while 23-bit
uniforms end near 5.4 and give tails away. The logarithm, sine and cosine are power series in
IEEE doubles, written out here so that their error is proved (`in_graph_error`) and not a
property of somebody's libm. Doubles are switched on locally: the caller's arrays stay 32-bit.

The series, with u = (1 + d) 2^-k, 1 + d in [sqrt(1/2), sqrt(2)), w = d / (2 + d), |w| <= .172:

    ln(1 + d) = 2 (w + w^3 / 3 + ... + w^19 / 19),   rest < 2 w * 2.4e-17
    sin: through phi^15, rest < 4.7e-17;   cos: through phi^16, rest < 2.1e-18
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unisono.core.noise.chacha import Use, key_words, keystream_map
from unisono.core.noise.in_graph_error import MAX_STD, MIN_STD, check_std
from unisono.errors import InvalidInput

PAIRS_PER_BLOCK = 4
OUT_OF_RANGE = -(2**31)

_ZERO = np.uint32(0)
_HALF_SQRT = np.uint32(0xB504F334)  # upper word of 2^64 sqrt(1/2)
_LOG_SERIES = [np.float64(1 / (2 * j + 1)) for j in range(9, 0, -1)]
_SIN_SERIES = [np.float64((-1) ** (j // 2) / math.factorial(j)) for j in range(15, 1, -2)]
_COS_SERIES = [np.float64((-1) ** (j // 2) / math.factorial(j)) for j in range(16, 1, -2)]


def _signed(word: Array) -> Array:
    return lax.bitcast_convert_type(word, np.int32)


def _double(x: Array) -> Array:
    return lax.convert_element_type(x, np.float64)


def _horner(x: Array, coefficients: Sequence[np.float64]) -> Array:
    total = lax.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def _radius(h: Array, l: Array, m: Array) -> Array:  # noqa: E741
    """sqrt(-2 ln u) in double precision; call inside `enable_x64`."""
    tail = h == _ZERO
    far = tail & (l == _ZERO)
    low = jnp.where(
        tail,
        (m & np.uint32(0xFFFFFFFC)) | np.uint32(0x00000002),
        ((m << np.uint32(16)) & np.uint32(0xFFFC0000)) | np.uint32(0x00020000),
    )
    first = jnp.where(far, low, jnp.where(tail, l, h))
    second = jnp.where(far, _ZERO, jnp.where(tail, low, l))
    third = jnp.where(tail, _ZERO, low)
    # u = 0.1... * 2^-zeros with a 64-bit mantissa (upper, lower); 31 - shift avoids a shift by 32.
    shift = lax.clz(first)
    zeros = shift + jnp.where(far, np.uint32(64), jnp.where(tail, np.uint32(32), _ZERO))
    back = np.uint32(31) - shift
    upper = (first << shift) | ((second >> np.uint32(1)) >> back)
    lower = (second << shift) | ((third >> np.uint32(1)) >> back)
    # Scale the mantissa into [sqrt(1/2), sqrt(2)) and subtract 1: as signed integers, exactly.
    small = upper < _HALF_SQRT
    d_upper = jnp.where(small, (upper << np.uint32(1)) | (lower >> np.uint32(31)), upper)
    d_lower = jnp.where(small, lower << np.uint32(1), lower)
    exponent = zeros + small.astype(jnp.uint32)
    d = _double(_signed(d_upper)) * np.float64(2.0**-32) + _double(d_lower) * np.float64(2.0**-64)
    w = d / (d + np.float64(2))
    square = w * w
    twice = np.float64(2) * w
    logarithm = twice + twice * (square * _horner(square, _LOG_SERIES))
    minus_log = _double(_signed(exponent)) * np.float64(math.log(2)) - logarithm
    return lax.sqrt(np.float64(2) * minus_log)


def _cos_sin(h: Array, a: Array, m: Array) -> tuple[Array, Array]:
    """(cos phi, sin phi) in double precision; call inside `enable_x64`."""
    fraction = jnp.where(
        h == _ZERO, np.float64(2.0**15), _double(_signed(m >> np.uint32(16))) + np.float64(0.5)
    )
    turns = _double(_signed(a)) * np.float64(2.0**16) + fraction
    phi = turns * np.float64(math.pi * 2.0**-49)
    square = phi * phi
    sine = phi + phi * (square * _horner(square, _SIN_SERIES))
    cosine = np.float64(1) + square * _horner(square, _COS_SERIES)
    return cosine, sine


def normal_pair(h: Array, l: Array, a: Array, m: Array) -> tuple[Array, Array]:  # noqa: E741
    """Two independent standard normals, float64, from four uint32 words of equal shape."""
    with jax.enable_x64(True):
        radius = _radius(h, l, m)
        cosine, sine = _cos_sin(h, a, m)
        one = radius * jnp.where((m & np.uint32(1)) != _ZERO, -cosine, cosine)
        other = radius * sine
        swap = (m & np.uint32(2)) != _ZERO
        return jnp.where(swap, other, one), jnp.where(swap, one, other)


def _of_pairs(
    finish: Callable[[Array], Array], words: Array, shape: tuple[int, ...], use: Use
) -> Array:
    """`finish` of independent standard normals in double precision, in the given shape."""
    size = math.prod(shape)

    def pairs(stream: Array) -> Array:
        h, l, a, m = stream.reshape(4, -1)  # noqa: E741
        return jnp.stack([finish(x) for x in normal_pair(h, l, a, m)])

    noise = keystream_map(pairs, words, -(-size // (2 * PAIRS_PER_BLOCK)), use)
    return noise.reshape(-1)[:size].reshape(shape)


def _checked_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise InvalidInput(f"shape {shape!r} must consist of integers of at least 0")
    return tuple(int(size) for size in sizes)


@partial(jax.jit, static_argnames=("shape", "dtype"))
def _normal(words: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    with jax.enable_x64(True):
        return _of_pairs(lambda x: lax.convert_element_type(x, dtype), words, shape, Use.NORMAL)


def normal(key: Array, shape: int | Sequence[int] = (), dtype: Any = jnp.float32) -> Array:
    """Independent standard normals of the given shape from one ChaCha20 key.

    Each is the nearest float32 (or, with jax_enable_x64, float64) to a value within
    `value_error` of an ideal normal; values reach 11.48. Draw once from a key; inside a loop
    draw from `jax.random.fold_in(key, step)`.

    Floating-point noise on floating-point data leaks through its low bits: releases use
    `gaussian_on_grid`; this is for simulations and for noise that is rounded later.

    >>> from unisono.core.noise.chacha import key_from_seed
    >>> normal(key_from_seed(0), (2, 3)).shape
    (2, 3)
    """
    sizes = _checked_shape(shape)
    kind = np.dtype(dtype)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InvalidInput(f"normals have dtype float32 or float64, not {kind}; cast the result")
    if kind == np.float64 and jnp.result_type(float) != np.float64:
        raise InvalidInput("float64 normals need jax_enable_x64; ask for float32 or enable it")
    words = key_words(key)
    if 0 in sizes:
        return jnp.zeros(sizes, kind)
    return _normal(words, sizes, kind)


@partial(jax.jit, static_argnames=("shape",))
def _grid(words: Array, shape: tuple[int, ...], std: Array) -> Array:
    with jax.enable_x64(True):
        scale = _double(std)
        nearest = lax.RoundingMethod.TO_NEAREST_EVEN

        def on_grid(x: Array) -> Array:
            return lax.convert_element_type(lax.round(scale * x, nearest), np.int32)

        noise = _of_pairs(on_grid, words, shape, Use.GRID)
        inside = (scale >= np.float64(MIN_STD)) & (scale <= np.float64(MAX_STD))
        return jnp.where(inside, noise, np.int32(OUT_OF_RANGE))


def gaussian_on_grid(key: Array, shape: int | Sequence[int], std: float | Array) -> Array:
    """round(std * G) as int32, G independent standard normals; std in grid steps, 4 to 2^20.

    Guarantee: for integer data k below 2^31 - 12 std in size, k + gaussian_on_grid is the
    Gaussian mechanism of this std followed by rounding, up to `composed_error(draws, std)`:
    account the Gaussian curve and add the slack (proof in `in_graph_error`). It
    holds against everyone who cannot tell ChaCha20 from random bits, on devices with IEEE
    doubles (tested on CPU), for one draw per key.

    A traced std cannot raise: check it beforehand with `check_std`. If it is nevertheless out
    of range or NaN, every entry is OUT_OF_RANGE = -2^31, which no draw can be.

    >>> from unisono.core.noise.chacha import key_from_seed
    >>> gaussian_on_grid(key_from_seed(0), (5,), 100.0).dtype
    dtype('int32')
    """
    sizes = _checked_shape(shape)
    if np.shape(std) != ():
        raise InvalidInput(f"std must be one number, got shape {np.shape(std)}; use jax.vmap")
    words = key_words(key)
    if not isinstance(std, jax.core.Tracer):
        check_std(float(std))
        with jax.enable_x64(True):
            std = jnp.asarray(float(std), np.float64)
    if 0 in sizes:
        return jnp.zeros(sizes, jnp.int32)
    return _grid(words, sizes, std)
