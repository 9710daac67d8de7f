"""A linear network gives its data away in d + 1 rounds (against 002 section 4.4).

f(x) = Σ_j a_j w_j·x = u·x with u = Wᵀa public. For squares (f - y)² the batch enters a round only
through s = Σ_i r_i x_i, r_i = u·x_i - y_i; the gradients, W of shape (m, d), are

    by a:  2 W s            by W:  2 a sᵀ            s = (XᵀX) u - Xᵀy

One round shows one combination of the records, which the source calls safe. But s is affine in u:
d + 1 rounds on the same batch, whose u are affinely independent, give XᵀX and Xᵀy exactly:

    [u_t, 1] · [XᵀX; -(Xᵀy)ᵀ] = s_tᵀ        t = 0..d

That is X up to a rotation, and it names people: whoever knows all records but one is left with
x xᵀ and x y of that one; and a column that is 1 for one person and 0 for all others makes its row
of XᵀX that person's record. No search, no prior, and no secret but the number of records is needed.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unisono.errors import InvalidInput


class Statistics(NamedTuple):
    """XᵀX (d, d) and Xᵀy (d,) of a batch, and how far the rounds are from explained by them:
    the largest absolute difference, 0 but for rounding if the batch stayed the same."""

    gram: np.ndarray
    moment: np.ndarray
    misfit: float = 0.0


class RecoveredRecord(NamedTuple):
    """A row (d,) and its target; (-row, -target) fits as well unless a sign was known."""

    row: np.ndarray
    target: float


def direction(hidden: Any, output: Any) -> np.ndarray:
    """u (d,) of a two-layer linear network with hidden (d, m) and output (m,)."""
    return np.asarray(hidden, float) @ np.asarray(output, float)


def sum_of_residuals(hidden: Any, output: Any, update: Any, records: int) -> np.ndarray:
    """s (d,) from the mean gradient of squares over a batch: `update` has "hidden" (d, m), or
    "output" (m,) if the hidden layer has at least d units, or both."""
    matrix, weights = np.asarray(hidden, float), np.asarray(output, float)
    if "hidden" in update and np.any(weights):
        return records / 2 * np.asarray(update["hidden"], float) @ weights / (weights @ weights)
    if "output" not in update:
        raise InvalidInput(f"an update of {', '.join(update)}: it needs hidden or output")
    if np.linalg.matrix_rank(matrix) < len(matrix):
        raise InvalidInput(
            f"a hidden layer of shape {matrix.shape} does not have rank {len(matrix)}: its output "
            "gradient shows a part of s only; use the gradient of the hidden layer"
        )
    return records / 2 * np.linalg.lstsq(matrix.T, np.asarray(update["output"], float))[0]


def statistics(directions: Any, sums: Any) -> Statistics:
    """XᵀX and Xᵀy from rounds with u (T, d) and s (T, d), T >= d + 1.

    >>> rows, targets = np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([1.0, -1.0])
    >>> u = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> found = statistics(u, (u @ rows.T - targets) @ rows)
    >>> np.allclose(found.gram, rows.T @ rows), np.allclose(found.moment, rows.T @ targets)
    (True, True)
    """
    given, seen = np.asarray(directions, float), np.asarray(sums, float)
    if given.ndim != 2 or given.shape != seen.shape:
        raise InvalidInput(
            f"directions of shape {given.shape} for sums of shape {seen.shape}: give (T, d) of both"
        )
    rounds, features = given.shape
    # Centred and scaled, so that small steps between rounds are no reason for a refusal.
    centre = given.mean(axis=0)
    scale = np.abs(given - centre).max(initial=0.0) or 1.0
    design = np.column_stack([(given - centre) / scale, np.ones(rounds)])
    if np.linalg.matrix_rank(design) < features + 1:
        raise InvalidInput(
            f"{rounds} rounds whose directions span {np.linalg.matrix_rank(design) - 1} of "
            f"{features} dimensions: wait for {features + 1} affinely independent ones"
        )
    solution = np.linalg.lstsq(design, seen)[0]
    gram = solution[:-1] / scale
    gram = (gram + gram.T) / 2
    moment = gram @ centre - solution[-1]
    return Statistics(gram, moment, float(np.abs(given @ gram - moment - seen).max()))


def from_rounds(parameters: Sequence[Any], updates: Sequence[Any], records: int) -> Statistics:
    """From what a server saw of `problems.networks.two_layer(..., "identity")`: parameters and mean
    gradients of every round, as dicts with "hidden" and "output"."""
    pairs = [(np.asarray(p["hidden"], float), np.asarray(p["output"], float)) for p in parameters]
    seen = zip(pairs, updates, strict=True)
    sums = [sum_of_residuals(*pair, update, records) for pair, update in seen]
    return statistics([direction(*pair) for pair in pairs], sums)


def last_record(found: Statistics, rows: Any, targets: Any) -> RecoveredRecord:
    """The one record that somebody who knows all others, rows (n - 1, d), does not know yet."""
    known = np.asarray(rows, float)
    gram = found.gram - known.T @ known
    return record_of(gram, found.moment - known.T @ np.asarray(targets, float))


def record_of(gram: Any, moment: Any) -> RecoveredRecord:
    """The record behind x xᵀ and x y: the largest eigenvector; its first large entry is made
    positive, as an intercept or a pixel is."""
    values, vectors = np.linalg.eigh(np.asarray(gram, float))
    if values[-1] <= 0:
        raise InvalidInput(f"the largest eigenvalue of x xᵀ is {values[-1]:.3g}: no record is left")
    row = np.sqrt(values[-1]) * vectors[:, -1]
    row *= np.sign(row[np.argmax(np.abs(row) > 0.5 * np.abs(row).max())])
    return RecoveredRecord(row, float(row @ np.asarray(moment, float) / values[-1]))


def singled_out(found: Statistics, column: int, tolerance: float = 1e-6) -> RecoveredRecord:
    """The record of the only person for whom a binary column is 1."""
    count = found.gram[column, column]
    if abs(count - 1) > tolerance:
        raise InvalidInput(
            f"column {column} holds {count:.6g} ones (or is not binary): one is needed to single a "
            "person out"
        )
    return RecoveredRecord(found.gram[column].copy(), float(found.moment[column]))
