"""Directions from matrices that one set of directions makes diagonal.

Seen from the records' span, every second-order matrix and every contraction of a higher order is

    N_k = A diag(d_k) Aᵀ                      columns of A: the records, up to length and sign

so that for two random combinations N N'^-1 = A diag(d / d') A^-1: a plain eigenproblem, whose
eigenvectors are the records. It needs no positive matrix. Noise makes eigenvalues meet and turn
complex; of many random pairs the one with a real spectrum and the largest gap is the least hurt.
Ratios d / d' may be infinite, so that the gap is that of points on a circle (chordal).
"""

from typing import NamedTuple

import numpy as np

from unisono.attacks.tensor.activations import Array

_REAL = 1e-9


class Directions(NamedTuple):
    """Unit columns (B, B), the smallest gap of their spectrum, and whether it was real."""

    columns: Array
    gap: float
    real: bool


def slices(moments: dict[int, Array]) -> Array:
    """All matrices (K, B, B) that the moments hold, orders on one scale."""
    batch = next(iter(moments.values())).shape[1]
    parts = [moment.reshape(-1, batch, batch) for moment in moments.values()]
    return np.concatenate([part / max(float(np.linalg.norm(part)), 1e-300) for part in parts])


def joint_directions(
    matrices: Array, generator: np.random.Generator, tries: int = 200, keep: int = 5
) -> list[Directions]:
    """The `keep` best candidates among `tries` random pairs, best first."""
    batch = matrices.shape[1]
    found = []
    for _ in range(tries):
        first, second = np.tensordot(
            generator.standard_normal((2, len(matrices))), matrices, axes=1
        )
        try:
            values, vectors = np.linalg.eig(np.linalg.solve(second.T, first.T).T)
        except np.linalg.LinAlgError:
            continue
        size = max(float(np.max(np.abs(values))), 1e-300)
        real = bool(np.max(np.abs(values.imag)) <= _REAL * size)
        # Of a conjugate pair the real and the imaginary part span the plane the two should span.
        columns = np.where(values.imag < -_REAL * size, vectors.imag, vectors.real)
        lengths = np.linalg.norm(columns, axis=0)
        if np.min(lengths) == 0:
            continue
        found.append(Directions(columns / lengths, _gap(values) if batch > 1 else 1.0, real))
    found.sort(key=lambda one: (one.real, one.gap), reverse=True)
    return found[:keep]


def _gap(values: Array) -> float:
    """The smallest chordal distance of two eigenvalues."""
    radius = np.sqrt(1 + np.abs(values) ** 2)
    distance = np.abs(values[:, None] - values) / (radius[:, None] * radius)
    np.fill_diagonal(distance, np.inf)
    return float(np.min(distance))
