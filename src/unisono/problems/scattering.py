"""The scattering transform: fixed wavelet features of small grey images (Bruna and Mallat 2013).

An image is filtered by waves of J sizes and L directions; the modulus forgets the phase, a local
average forgets small shifts, and filtering the modulus once more finds again what the average
lost. With a Gaussian φ of width 2^J and Morlet waves ψ_{j,l}, sampled every 2^J pixels,

    S0 x = x * φ      S1 x = |x * ψ_{j,l}| * φ      S2 x = ||x * ψ_{j,l}| * ψ_{j',l'}| * φ,  j' > j

which is 1 + J L + L² J (J - 1) / 2 channels. The wave of size 2^j and direction θ = π l / L is

    ψ(u) = c exp(-(a² + (4 b / L)²) / (2 s²)) (exp(i ξ a) - β),      s = 0.8 · 2^j,  ξ = 3π/4 · 2^-j

with a, b the coordinates of u along and across θ; β makes its mean zero, so that a constant image
has S1 = S2 = 0, and c is the largest constant for which no frequency gains energy,

    |φ̂(ω)|² + ½ Σ_{j,l} (|ψ̂_{j,l}(ω)|² + |ψ̂_{j,l}(-ω)|²) <= 1,

so that with the modulus, which moves no two values apart, S is a contraction (of the padded
image). Turning an image by a right angle turns every channel and moves l on by L / 2.

Privacy: a public, fixed function of each record on its own. Nothing is learnt from the data, no
record's features depend on another record, and so a mechanism on the features keeps the guarantee
it has on the images, for every adjacency between records, sampler and viewer. The same holds for
`group_normalised`, which uses means and deviations of one record only (Tramèr and Boneh 2021).
"""

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.errors import InvalidInput

_CHUNK = 64  # images at a time: the waves of a chunk stay near the processor


def scattering(images: Any, scales: int = 2, angles: int = 8) -> np.ndarray:
    """Features (n, channels, height / 2^J, width / 2^J) of grey images (n, height, width).

    Channels: the average; then (j, l); then (j, j', l, l') with j < j', each counted from zero,
    the last index fastest. An image that is not finite gives features that are not finite, and
    leaves the others alone.

    >>> scattering(np.ones((5, 28, 28))).shape
    (5, 81, 7, 7)
    """
    pixels = np.asarray(images, dtype=np.float32)
    _check(pixels.shape, scales, angles)
    cell = 2**scales
    missing = -len(pixels) % _CHUNK  # every chunk has one shape: compiled once, same bits alone
    padded = np.pad(pixels, ((0, missing), (0, 0), (0, 0)))
    chunks = [
        np.asarray(_scattered(padded[first : first + _CHUNK], scales, angles))
        for first in range(0, len(padded), _CHUNK)
    ]
    channels = 1 + scales * angles + angles**2 * scales * (scales - 1) // 2
    cells = (channels, pixels.shape[1] // cell, pixels.shape[2] // cell)
    return np.concatenate([np.zeros((0, *cells), np.float32), *chunks])[: len(pixels)]


def group_normalised(features: Any, groups: int) -> np.ndarray:
    """Mean 0 and variance 1 over each record's `groups` groups of neighbouring channels.

    (n, channels, ...) -> the same shape, float32. Every record then has the same l2 norm, the
    square root of its number of features (less where a group is constant, which becomes zero).

    >>> group_normalised(np.array([[[1.0], [3.0], [10.0], [30.0]]]), groups=2).round(3).ravel()
    array([-1.,  1., -1.,  1.], dtype=float32)
    """
    rows = np.asarray(features, dtype=np.float32)
    if rows.ndim < 2 or groups < 1 or rows.shape[1] % groups:
        raise InvalidInput(
            f"{groups} groups of features of shape {rows.shape}: give (n, channels, ...) and a "
            "number of groups that divides the channels"
        )
    grouped = rows.reshape(len(rows), groups, -1)
    centred = grouped - grouped.mean(axis=2, keepdims=True)
    variance = np.mean(centred * centred, axis=2, keepdims=True)
    # Below the rounding of the mean there is nothing to see; do not blow it up to variance 1.
    floor = 1e-12 + 1e-10 * np.mean(grouped * grouped, axis=2, keepdims=True)
    scale = np.where(variance > floor, 1 / np.sqrt(np.maximum(variance, floor)), 0.0)
    return (centred * scale).reshape(rows.shape)


# ------------------------------------------------------------- the transform


@partial(jax.jit, static_argnums=(1, 2))
def _scattered(images: Any, scales: int, angles: int) -> Any:
    """One chunk: (n, height, width) -> (n, channels, height / 2^J, width / 2^J)."""
    margin = 2**scales
    field = jnp.pad(images, ((0, 0), (margin, margin), (margin, margin)), mode="symmetric")
    outputs = [_averaged(field[:, None], scales, 0)]
    first = [_moduli(field[:, None], scales, angles, j) for j in range(scales)]
    outputs += [_averaged(modulus[:, 0], scales, j) for j, modulus in enumerate(first)]
    for j in range(scales):
        for further in range(1, scales - j):
            # One direction l after the other: L times less memory.
            second = jax.lax.map(
                lambda u, j=j, further=further: _averaged(
                    _moduli(u, scales - j, angles, further), scales, j + further
                ),
                jnp.moveaxis(first[j][:, 0], 1, 0),
            )
            outputs.append(jnp.moveaxis(second, 0, 1).reshape(len(images), -1, *second.shape[-2:]))
    return jnp.concatenate(outputs, axis=1)


def _moduli(field: Any, scales: int, angles: int, scale: int) -> Any:
    """|field * ψ_{scale,l}| at every 2^scale-th pixel: (..., h, w) -> (..., L, h/2^j, w/2^j).

    Taking every k-th pixel folds the spectrum: its k x k parts are averaged.
    """
    step = 2**scale
    height, width = field.shape[-2] // step, field.shape[-1] // step
    waves = _bank(field.shape[-2:], scales, angles)[scale] / step**2
    spectrum = jnp.fft.fft2(field)[..., None, :, :]
    parts = [
        (..., slice(top, top + height), slice(left, left + width))
        for top in range(0, height * step, height)
        for left in range(0, width * step, width)
    ]
    values = jnp.fft.ifft2(sum(spectrum[part] * waves[part] for part in parts))
    return jnp.sqrt(values.real**2 + values.imag**2)  # twice as fast as jnp.abs


def _averaged(field: Any, scales: int, scale: int) -> Any:
    """field * φ in the middle of every cell of the image, `field` having every 2^scale-th pixel."""
    rows, columns = (_average(size, scales, scale) for size in field.shape[-2:])
    flat = field.reshape(*field.shape[:-2], -1)
    # One large product is faster than two small ones.
    means = flat @ np.kron(rows, columns).T
    return means.reshape(*field.shape[:-2], len(rows), len(columns))


# ------------------------------------------------------------- the filters


@lru_cache(maxsize=64)
def _average(size: int, scales: int, scale: int) -> np.ndarray:
    """The Gaussian means (cells, size) over one axis; φ is their product over both axes."""
    cell, step = 2**scales, 2**scale
    cells = size * step // cell - 2  # the margin on either side is one cell
    centres = cell * np.arange(1, cells + 1) + cell // 2
    weights = _bell(step * np.arange(size) - centres[:, None], size * step, scales)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def _bell(distances: np.ndarray, period: int, scales: int) -> np.ndarray:
    """A Gaussian of deviation 0.8 · 2^(J-1), wrapped around the torus."""
    turns = period * np.arange(-3, 4)
    wrapped = distances[..., None] + turns
    return np.exp(-(wrapped**2) / (2 * (0.8 * 2 ** (scales - 1)) ** 2)).sum(axis=-1)


@lru_cache(maxsize=64)
def _bank(shape: tuple[int, int], scales: int, angles: int) -> np.ndarray:
    """The spectra ψ̂ (J, L, height, width) on a torus; real, as ψ(-u) is the conjugate of ψ(u)."""
    numbers = [[(j, angle) for angle in range(angles)] for j in range(scales)]
    waves = np.array([[_wave(shape, *number, angles) for number in row] for row in numbers])
    opposite = np.roll(waves[..., ::-1, ::-1], 1, axis=(-2, -1))
    gain = 0.5 * np.sum(waves**2 + opposite**2, axis=(0, 1))
    across = [_bell(np.arange(size), size, scales) for size in shape]
    average = np.multiply.outer(*(np.fft.fft(bell / bell.sum()).real for bell in across))
    positive = gain > 1e-9 * gain.max()
    room = (1 - average[positive] ** 2) / gain[positive]
    return (waves * np.sqrt(room.min())).astype(np.float32)


def _wave(shape: tuple[int, int], scale: int, angle: int, angles: int) -> np.ndarray:
    """The spectrum of one Morlet wave with c = 1, wrapped around the torus."""
    deviation, frequency = 0.8 * 2**scale, 0.75 * np.pi / 2**scale
    theta = np.pi * angle / angles
    vertical, horizontal = (
        np.arange(size)[:, None] + size * np.arange(-3, 4)[None, :] for size in shape
    )
    r, c = vertical[:, None, :, None], horizontal[None, :, None, :]
    along = np.cos(theta) * r + np.sin(theta) * c
    across = np.cos(theta) * c - np.sin(theta) * r
    envelope = np.exp(-(along**2 + (4 / angles * across) ** 2) / (2 * deviation**2))
    wave = envelope * np.exp(1j * frequency * along)
    wave -= envelope * (wave.sum() / envelope.sum())
    return np.fft.fft2(wave.sum(axis=(-2, -1))).real


def _check(shape: tuple[int, ...], scales: int, angles: int) -> None:
    if scales < 1 or angles < 1:
        raise InvalidInput(f"scales = {scales!r}, angles = {angles!r}: need at least one of each")
    if len(shape) != 3 or 0 in shape[1:] or any(size % 2**scales for size in shape[1:]):
        raise InvalidInput(
            f"images of shape {shape} with {scales} scales: give (n, height, width) with sides "
            f"that are multiples of {2**scales} (pad them, or take fewer scales)"
        )
