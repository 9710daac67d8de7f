"""Levenberg-Marquardt from normal equations, for unknowns that may live on spheres.

A step solves (JᵀJ + μ diag JᵀJ) δ = -Jᵀe, and `move` puts the unknowns back where they belong. A
step that does not lower ||e||² is undone and μ grows; one that does shrinks it, towards
Gauss-Newton, which near an exact fit doubles the digits with each step.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unisono.attacks.tensor.activations import Array

_PATIENCE = 8


class Normal(NamedTuple):
    """||e||², Jᵀe (n,) and JᵀJ (n, n) at some unknowns."""

    cost: float
    gradient: Array
    hessian: Array


def minimise(
    start: Array,
    normal: Callable[[Array], Normal],
    move: Callable[[Array, Array], Array],
    steps: int = 60,
    floor: float = 0.0,
) -> tuple[Array, float]:
    """The unknowns of the smallest ||e||² met, and it; stops at `floor` or where steps no longer
    help."""
    here, at, damping, refused = start, normal(start), 1e-3, 0
    for _ in range(steps):
        if at.cost <= floor or refused == _PATIENCE:
            break
        diagonal = np.maximum(np.diag(at.hessian), 1e-12 * np.trace(at.hessian) / len(here))
        step = np.linalg.solve(at.hessian + np.diag(damping * diagonal), -at.gradient)
        there = move(here, np.asarray(step, np.float64))
        new = normal(there)
        if not new.cost < at.cost:
            damping, refused = 10 * max(damping, 1e-6), refused + 1
            continue
        gained = 1 - new.cost / at.cost
        here, at, damping, refused = there, new, max(damping / 10, 1e-15), 0
        if gained < 1e-9:
            break
    return here, at.cost


def on_spheres(normal: Normal, rows: Array) -> Normal:
    """The same problem where the first unknowns are `rows` (B, k) that must keep their lengths:
    slopes along a row are dropped, and the matrix is pinned there so that steps stay across."""
    along = np.zeros((len(normal.gradient), len(rows)))
    for i, row in enumerate(rows):
        along[i * len(row) : (i + 1) * len(row), i] = row / np.linalg.norm(row)
    gradient = normal.gradient - along @ (along.T @ normal.gradient)
    half = normal.hessian - along @ (along.T @ normal.hessian)
    hessian = half - (half @ along) @ along.T
    pin = np.trace(normal.hessian) / len(gradient)
    return Normal(normal.cost, gradient, hessian + pin * along @ along.T)


def moved_on_spheres(unknowns: Array, step: Array, shape: tuple[int, int]) -> Array:
    """Unknowns plus step, the first of them rows of `shape` put back to the lengths they had."""
    moved, size = unknowns + step, shape[0] * shape[1]
    old, new = unknowns[:size].reshape(shape), moved[:size].reshape(shape)
    lengths = np.linalg.norm(old, axis=1) / np.maximum(np.linalg.norm(new, axis=1), 1e-300)
    return np.concatenate([(new * lengths[:, None]).ravel(), moved[size:]])
