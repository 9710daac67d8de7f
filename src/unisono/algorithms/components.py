"""Principal components over several parties: one clipped sum of outer products.

Records are centred and scaled by public bounds, then clipped to the unit ball: |z| <= 1. Each
contributes z zᵀ, packed (`releases.rows.OuterProduct`).

Eigenvectors and eigenvalues of the noisy matrix are post-processing (Dwork et al. 2014). By Weyl's
inequality no eigenvalue is off by more than the spectral norm of the noise, which for Gaussian
noise of standard deviation σ is at most σ (sqrt(2 d) + sqrt(2 log(2 / α))) but for α.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from unisono.algorithms.estimates import Estimate
from unisono.algorithms.readings import Box, Noisy, Sizes, mean_ends
from unisono.algorithms.survey import Question
from unisono.core.certificate import Certificate
from unisono.errors import InvalidInput
from unisono.problems.columns import Bounds, require_bounds
from unisono.releases.rows import OuterProduct, into_ball
from unisono.releases.table import Block


@dataclass(frozen=True)
class Components(Estimate):
    """Principal components: `value` holds the eigenvalues (count,) of the mean outer product.

    `directions` (count, d) are orthonormal rows on the scale of the bounds, `explained` (count,)
    is each one's part of the trace. `interval` holds for all eigenvalues at once.
    """

    directions: Any = None
    explained: Any = None
    project: Callable[[np.ndarray], np.ndarray] | None = None


def principal_components(
    columns: Sequence[int], bounds: Sequence[Bounds], count: int, *, name: str = "components"
) -> Question:
    """The first `count` principal components of some columns, around the middle of the bounds."""
    chosen = tuple(int(c) for c in columns)
    limits = tuple(require_bounds(b, f"column {c}") for c, b in zip(chosen, bounds, strict=True))
    d = len(chosen)
    if not 1 <= count <= d:
        raise InvalidInput(f"{count} components of {d} columns: ask for 1 to {d}")
    centre = np.array([(low + high) / 2 for low, high in limits], np.float32)
    half = np.array([(high - low) / 2 for low, high in limits], np.float32)

    def unit(xp: Any, features: Any) -> Any:
        """The columns on the scale of their bounds, in [-1, 1]."""
        return xp.clip((features[:, list(chosen)] - centre) / half, -1.0, 1.0)

    def build(sizes: Sizes | None) -> Block:
        rows = OuterProduct(d, sized=sizes is not None)
        return Block(name, rows, lambda _, features: unit(jnp, features))

    def scaled(rows: np.ndarray) -> np.ndarray:
        return np.asarray(into_ball(np, unit(np, rows)))

    about = (("kind", "components"), ("columns", chosen), ("bounds", limits), ("count", count))
    return Question(name, build, partial(_read, name, d, count, scaled), about)


def _read(
    name: str,
    d: int,
    count: int,
    scaled: Callable[[np.ndarray], np.ndarray],
    noisy: Noisy,
    probability: float,
    certificate: Certificate,
) -> list[Components]:
    hidden = not noisy.exact_sizes
    level = probability / 2 if hidden else probability
    size = max(float(noisy.values[0, 0]), 0.0) if hidden else float(noisy.records)
    size_margin = noisy.margin(0, level) if hidden else 0.0
    matrix = np.zeros((d, d))
    upper = np.triu_indices(d)
    triangle = noisy.values[0, int(hidden) :]
    matrix[upper] = triangle / np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    matrix = matrix + np.triu(matrix, 1).T
    eigenvalues, vectors = np.linalg.eigh(matrix)
    order = np.argsort(eigenvalues)[::-1][:count]
    directions = vectors[:, order].T
    # The sign of an eigenvector means nothing: the largest entry is made positive.
    signs = np.sign(directions[np.arange(count), np.abs(directions).argmax(axis=1)])
    directions = directions * signs[:, None]
    margin = spectral_bound(noisy, d, level)
    sums = eigenvalues[order]
    ends = mean_ends(sums, np.full(count, size), lambda far: margin + far * size_margin)
    box = Box(ends[0], sums / max(size, 1.0), ends[1]).clipped(0.0, 1.0)
    explained = np.clip(sums, 0.0, None) / max(float(np.clip(eigenvalues, 0, None).sum()), 1e-12)
    moved = margin / max(size - size_margin, 1.0)
    note = (
        "explained parts of the second moment: "
        + ", ".join(f"{part:.0%}" for part in explained)
        + f"; the noise moves no eigenvalue by more than {moved:.3g}, and "
        "directions whose eigenvalues are closer than that are not to be trusted."
    )
    return [
        Components(
            name,
            box.value,
            (box.low, box.high),
            1 - probability,
            note,
            certificate,
            labels=tuple(range(1, count + 1)),
            directions=directions,
            explained=explained,
            project=lambda rows: scaled(np.asarray(rows, float)) @ directions.T,
        )
    ]


def spectral_bound(noisy: Noisy, d: int, probability: float) -> float:
    """The spectral norm of noise and rounding, but for `probability`."""
    width = d * (d + 1) // 2
    rounding = float(np.linalg.norm(noisy.rounding))
    if noisy.law.gaussian:
        tail = math.sqrt(2 * d) + math.sqrt(2 * math.log(2 / probability))
        return noisy.law.std * tail + rounding
    return noisy.law.tail(probability, width) * math.sqrt(width) + rounding
