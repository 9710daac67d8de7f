"""Signs and residuals of given directions, and directions that fit all moments at once.

Seen from the span, order p should be c_p Σ_i r_i a_i^⊗p for unit vectors a_i. The noise of an entry
is proportional to sqrt(p!), so that orders are weighed by 1 / p!:

    cost = Σ_p ||M_p - c_p Σ_i r_i a_i^⊗p||² / p!

Nothing of size B^p is formed but M_p, as inner products of powers are powers of inner products:
<a_i^⊗p, a_k^⊗p> = (a_i · a_k)^p. For directions δ of a_i and ε of a_k, the Jacobian's products are

    r_i r_k [p (a_i·a_k)^(p-1) δ·ε + p (p-1) (a_i·a_k)^(p-2) (δ·a_k) (ε·a_i)]

Signs: even orders do not see that of a_i and odd ones do, so residuals fitted to each differ in it.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from unisono.attacks.tensor.activations import Array
from unisono.attacks.tensor.least_squares import Normal, minimise, moved_on_spheres, on_spheres


class Fit(NamedTuple):
    """Unit columns (B, B) in the span, residuals (B, outputs), and the cost they leave."""

    columns: Array
    residuals: Array
    cost: float


def fitted(moments: dict[int, Array], coefficients: Array, columns: Array, refine: bool) -> Fit:
    """Give unit columns their signs and residuals, and refine all three if asked."""
    even, odd = (fit_residuals(moments, coefficients, columns, p) for p in (0, 1))
    columns = columns * np.where(np.sum(even * odd, axis=1) < 0, -1.0, 1.0)
    residuals = fit_residuals(moments, coefficients, columns)
    if refine:
        return refined(moments, coefficients, columns, residuals)
    cost = _normal(moments, coefficients, columns.T, residuals).cost
    return Fit(columns, residuals, cost)


def fit_residuals(
    moments: dict[int, Array], coefficients: Array, columns: Array, parity: int | None = None
) -> Array:
    """Residuals (B, outputs) by least squares from all orders, even ones (0) or odd ones (1); zero
    where there are no such orders."""
    batch, outputs = columns.shape[1], next(iter(moments.values())).shape[0]
    matrix, right = np.zeros((batch, batch)), np.zeros((batch, outputs))
    for p in _orders(moments, parity):
        share = coefficients[p] / math.factorial(p)
        matrix += share * coefficients[p] * (columns.T @ columns) ** p
        right += share * np.einsum("oai,ai->io", _along(moments[p], columns), columns)
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=1e-12)[0], np.float64)


def refined(
    moments: dict[int, Array], coefficients: Array, columns: Array, residuals: Array
) -> Fit:
    """The nearest minimum of the cost, by Levenberg-Marquardt with the Jacobian above."""
    shape, size = columns.T.shape, columns.size

    def normal(unknowns: Array) -> Normal:
        rows = unknowns[:size].reshape(shape)
        found = _normal(moments, coefficients, rows, unknowns[size:].reshape(residuals.shape))
        return on_spheres(found, rows)

    start = np.concatenate([columns.T.ravel(), residuals.ravel()])
    end, cost = minimise(start, normal, lambda at, step: moved_on_spheres(at, step, shape))
    return Fit(end[:size].reshape(shape).T, end[size:].reshape(residuals.shape), cost)


def _normal(
    moments: dict[int, Array], coefficients: Array, rows: Array, residuals: Array
) -> Normal:
    """Cost, slopes and JᵀJ by rows (B, B), then by residuals (B, outputs)."""
    (batch, outputs), gram = residuals.shape, rows @ rows.T
    cost, by_rows, by_residuals = 0.0, np.zeros_like(rows), np.zeros_like(residuals)
    rows_rows = np.zeros((batch, batch, batch, batch))  # record, axis, record, axis
    rows_residuals = np.zeros((batch, batch, batch, outputs))
    both = np.zeros((batch, batch))
    pairs = residuals @ residuals.T
    crossed = np.einsum("ka,ib->iakb", rows, rows)  # (δ·a_k)(ε·a_i)
    for p in moments:
        c = coefficients[p]
        share = c / math.factorial(p)
        along = _along(moments[p], rows.T)
        power, lower = gram**p, gram ** (p - 1)
        values = np.einsum("oai,ia->io", along, rows)
        model = c * power @ residuals
        squares = np.sum(moments[p] ** 2) / math.factorial(p)
        cost += squares + share * float(np.sum(residuals * (model - 2 * values)))
        by_residuals += share * (model - values)
        pull = c * (pairs * lower) @ rows - np.einsum("io,oai->ia", residuals, along)
        by_rows += share * p * pull
        both += share * c * power
        rows_residuals += share * c * p * np.einsum("io,ik,ka->iako", residuals, lower, rows)
        rows_rows += share * c * p * np.einsum("ik,ab->iakb", pairs * lower, np.eye(batch))
        if p > 1:
            twice = share * c * p * (p - 1) * pairs * gram ** (p - 2)
            rows_rows += twice[:, None, :, None] * crossed
    size = rows.size
    hessian = np.zeros((size + residuals.size,) * 2)
    hessian[:size, :size] = rows_rows.reshape(size, size)
    hessian[:size, size:] = rows_residuals.reshape(size, -1)
    hessian[size:, :size] = hessian[:size, size:].T
    hessian[size:, size:] = np.kron(both, np.eye(outputs))
    gradient = np.concatenate([by_rows.ravel(), by_residuals.ravel()])
    return Normal(max(cost, 0.0), gradient, hessian)


def _along(moment: Array, columns: Array) -> Array:
    """M(·, a_i, ..., a_i) for every column: (outputs, B, records)."""
    if moment.ndim == 2:
        return np.repeat(moment[:, :, None], columns.shape[1], axis=2)
    found = moment @ columns
    while found.ndim > 3:
        found = np.einsum("...ci,ci->...i", found, columns)
    return found


def _orders(moments: dict[int, Array], parity: int | None) -> Iterable[int]:
    return [p for p in moments if parity is None or p % 2 == parity]
