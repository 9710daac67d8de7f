"""A two-layer network in closed form: gradients of records, their bounds, and the worst pair.

f(x) = Σ_j a_j σ(w_j · x) costs (f - y)² on a record with ||x|| <= 1 and |y| <= 1. W is (m, d), and
with r = f(x) - y the gradients of one record are

    by a:  2 r σ(Wx)            by W:  u xᵀ  with  u = 2 r a ∘ σ'(Wx)

Where |σ(t)| <= |t| and |σ'| <= 1 (tanh, relu; not the sigmoid), public weights bound how far the
summed gradient moves when one record is replaced, whatever the records:

    R = ||a||_2 ||W|| + 1        Δ1 <= 4 R (sqrt(m) ||W|| + sqrt(d) ||a||_1)
                                 Δ2 <= 4 R sqrt(||W||² + ||a||_2²)

`largest_move` looks for the pair of records that is furthest apart: for fixed multipliers S (the
signs of the difference in L1, its direction in L2) the distance is <S, g(x, y) - g(x', y')>, whose
slopes are known in closed form; it climbs, and is put back into the ball after each step.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Shape(NamedTuple):
    """An activation with its first and second derivative."""

    value: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    bend: Callable[[Any], Any]


SHAPES = {
    "relu": Shape(lambda t: np.maximum(t, 0), lambda t: (t > 0) * 1.0, np.zeros_like),
    "tanh": Shape(
        np.tanh, lambda t: 1 - np.tanh(t) ** 2, lambda t: -2 * np.tanh(t) * (1 - np.tanh(t) ** 2)
    ),
}


class Weights(NamedTuple):
    """W (m, d), a (m,) and the activation's name."""

    hidden: np.ndarray
    output: np.ndarray
    shape: str = "tanh"


def as_published(units: int, features: int, shape: str, seed: int = 0) -> Weights:
    """Lecture 13's model: w_j ~ N(0, I) and a_j = 1/m."""
    hidden = np.random.default_rng([seed, units, features]).normal(size=(units, features))
    return Weights(hidden, np.full(units, 1 / units), shape)


def predictions(weights: Weights, rows: np.ndarray) -> np.ndarray:
    return SHAPES[weights.shape].value(rows @ weights.hidden.T) @ weights.output


def teacher_records(count: int, features: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Rows of length 1, and labels in [-1, 1] by another network and a little chance."""
    hidden = 4 * np.random.default_rng(0).normal(size=(4, features))
    generator = np.random.default_rng([seed, features])
    rows = generator.normal(size=(count, features))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    teacher = Weights(hidden, np.array([0.9, -0.7, 0.8, -0.6]))
    noise = 0.05 * generator.normal(size=count)
    return rows, np.clip(predictions(teacher, rows) + noise, -1, 1)


def gradients(
    weights: Weights, rows: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of n records: by a (n, m), and u (n, m), so that u_i x_iᵀ is the gradient by W."""
    shape, inner = SHAPES[weights.shape], rows @ weights.hidden.T
    values = shape.value(inner)
    residual = 2 * (values @ weights.output - labels)[:, None]
    return residual * values, residual * weights.output * shape.slope(inner)


def clipped_sum(
    weights: Weights, rows: np.ndarray, labels: np.ndarray, clip: float
) -> tuple[np.ndarray, np.ndarray]:
    """The sum of gradients, each of L2 norm at most `clip`: by W (m, d) and by a (m,)."""
    by_output, factors = gradients(weights, rows, labels)
    by_hidden = np.sum(factors**2, axis=1) * np.sum(rows**2, axis=1)  # ||u xᵀ|| = ||u|| ||x||
    lengths = np.sqrt(np.sum(by_output**2, axis=1) + by_hidden)
    keep = np.minimum(1.0, clip / np.maximum(lengths, 1e-300))
    return (keep[:, None] * factors).T @ rows, keep @ by_output


def bounds(weights: Weights) -> tuple[float, float]:
    """Δ1 and Δ2 of the summed gradient when one record is replaced."""
    m, d = weights.hidden.shape
    spectral, length = np.linalg.norm(weights.hidden, 2), np.linalg.norm(weights.output)
    reach = 4 * (length * spectral + 1)
    total = np.sum(np.abs(weights.output))
    l1 = reach * (math.sqrt(m) * spectral + math.sqrt(d) * total)
    return float(l1), float(reach * math.hypot(spectral, length))


# ------------------------------------------------------------- the worst pair of records


def distances(weights: Weights, one: Any, other: Any, norm: int) -> tuple[np.ndarray, Any]:
    """How far apart the gradients of k pairs are, (k,), and the multipliers S, by a and by W."""
    first, second = gradients(weights, *one), gradients(weights, *other)
    by_output = first[0] - second[0]
    by_hidden = first[1][:, :, None] * one[0][:, None] - second[1][:, :, None] * other[0][:, None]
    if norm == 1:
        found = np.sum(np.abs(by_output), axis=1) + np.sum(np.abs(by_hidden), axis=(1, 2))
        return found, (np.sign(by_output), np.sign(by_hidden))
    found = np.sqrt(np.sum(by_output**2, axis=1) + np.sum(by_hidden**2, axis=(1, 2)))
    safe = np.maximum(found, 1e-300)
    return found, (by_output / safe[:, None], by_hidden / safe[:, None, None])


def slopes(weights: Weights, record: Any, multipliers: Any) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of <S, g(x, y)> = 2 r (S_a · σ + (a ∘ σ') · S_W x) by x (k, d) and y (k,)."""
    (rows, labels), (by_output, by_hidden) = record, multipliers
    shape, inner = SHAPES[weights.shape], rows @ weights.hidden.T
    values, rises = shape.value(inner), shape.slope(inner)
    weighted = weights.output * rises
    pulled = np.einsum("kmd,kd->km", by_hidden, rows)
    sums = np.sum(by_output * values + weighted * pulled, axis=1)
    residual = values @ weights.output - labels
    through = by_output * rises + weights.output * shape.bend(inner) * pulled
    moved = through @ weights.hidden + np.einsum("kmd,km->kd", by_hidden, weighted)
    by_row = 2 * sums[:, None] * (weighted @ weights.hidden) + 2 * residual[:, None] * moved
    return by_row, -2 * sums


def largest_move(
    weights: Weights, norm: int, starts: int = 8, steps: int = 60, seed: int = 0
) -> float:
    """The largest distance met while climbing from `starts` pairs of records."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(2, starts, weights.hidden.shape[1]))
    # The first pair starts where the linear network would be worst.
    rows[:, 0] = np.outer((1, -1), weights.output @ weights.hidden)
    labels = generator.choice((-1.0, 1.0), size=(2, starts))
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    best = 0.0
    for step in range(steps):
        pairs = [(rows[side], labels[side]) for side in (0, 1)]
        found, (by_output, by_hidden) = distances(weights, pairs[0], pairs[1], norm)
        best = max(best, float(found.max()))
        for side, sign in ((0, 1), (1, -1)):
            up, label_up = slopes(weights, pairs[side], (sign * by_output, sign * by_hidden))
            up /= np.maximum(np.linalg.norm(up, axis=1, keepdims=True), 1e-300)
            moved = rows[side] + 0.94**step * up
            rows[side] = moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1.0)
            # The distance is convex in a label, so that an end is best.
            labels[side] = np.where(label_up >= 0, 1.0, -1.0)
    return best
