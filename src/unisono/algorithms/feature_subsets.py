"""Some of the columns only, from what was released about all of them: nothing more is paid.

Where noisy sums have told a quadratic  ½ θᵀAθ - bᵀθ  of all coefficients, a model of fewer columns
minimises it with the others at zero: rows and columns of A are left out. Which columns these are
may be said beforehand, or read off the same A and b: by forward selection, that is the one first
whose coefficient lowers the quadratic most, then the one that lowers it most beside that one, and
so on. Either is post-processing, and so are all subsets of one release that anybody likes to try.
"""

from collections.abc import Sequence

import numpy as np

from unisono.errors import InvalidInput

Features = int | tuple[int, ...]  # so many columns, or these, by their places


def minimiser_of(
    wanted: Features | None, matrix: np.ndarray, vector: np.ndarray, always: int
) -> np.ndarray:
    """θ (p,) with zeros for columns that are left out; None: all are kept."""
    if wanted is None:
        return np.linalg.solve(matrix, vector)
    kept = kept_places(wanted, matrix, vector, always)
    theta = np.zeros_like(vector)
    theta[kept] = np.linalg.solve(matrix[np.ix_(kept, kept)], vector[kept])
    return theta


def kept_places(
    wanted: Features, matrix: np.ndarray, vector: np.ndarray, always: int
) -> np.ndarray:
    """The places (k + 1,) of wanted columns in A (p, p) and b (p,), and `always`, the intercept's.

    A is positive definite. Places of columns count without the intercept.
    """
    columns = np.delete(np.arange(len(vector)), always)
    if isinstance(wanted, int):
        return _forward(matrix, vector, [always], [*columns], wanted)
    require_places(wanted, len(columns))
    return np.sort([always, *columns[list(wanted)]])


def require_places(wanted: Sequence[int], columns: int) -> None:
    """Refuse what names no columns."""
    if not wanted or len(set(wanted)) < len(wanted) or not all(0 <= j < columns for j in wanted):
        raise InvalidInput(
            f"features = {list(wanted)!r} of {columns} columns: name each once, by its place from "
            f"0 to {columns - 1}, or say how many are to be kept"
        )


def _forward(
    matrix: np.ndarray, vector: np.ndarray, kept: list[int], left: list[int], number: int
) -> np.ndarray:
    """Add, `number` times, the column that lowers the quadratic most."""
    for _ in range(min(number, len(left))):
        # By what is not explained yet: residual b² / (A less its part along the kept columns).
        along = np.linalg.solve(matrix[np.ix_(kept, kept)], matrix[np.ix_(kept, left)])
        rest = vector[left] - vector[kept] @ along
        room = matrix[left, left] - np.einsum("kj,kj->j", matrix[np.ix_(kept, left)], along)
        best = int(np.argmax(rest**2 / np.maximum(room, 1e-12)))
        kept.append(left.pop(best))
    return np.sort(kept)


__all__ = ["Features", "kept_places", "minimiser_of", "require_places"]
