"""From a good guess to the records themselves: fit the gradient, not its moments.

The moments forget: their error falls as 1/sqrt(m). The gradient does not, as it holds m exact
equations for B (d + 1) unknowns,

    g_j = t + Σ_i r_i σ(v_j · x_i)

and from a start that is near enough Levenberg-Marquardt solves them to machine precision. (The
constant t is zero, unless σ minus a constant is odd and a sign was taken the other way round.) With
F = [σ'(v·x_i) v, σ(v·x_i), 1] for all records side by side, one product FᵀF over the neurons holds
all of JᵀJ, whatever the number of outputs. Records keep their lengths unless they are free: a relu
shows only r_i ||x_i||.
"""

import math
from typing import NamedTuple

import numpy as np

from unisono.attacks.tensor.activations import Activation, Array
from unisono.attacks.tensor.least_squares import Normal, minimise, moved_on_spheres, on_spheres
from unisono.attacks.tensor.moments import Neurons

BLOCK = 1 << 13
_ROUNDING = 1e-15


class Polished(NamedTuple):
    """Records (B, d), residuals (B, outputs), constants (outputs,), and ||error|| / ||g||."""

    rows: Array
    residuals: Array
    constants: Array
    misfit: float


class _Sums(NamedTuple):
    """||e||², Fᵀe (width, outputs) and FᵀF (width, width); width = B d + B + 1."""

    cost: float
    product: Array
    gram: Array


def polish(
    gradient: Array,
    neurons: Neurons,
    shape: Activation,
    rows: Array,
    *,
    free_lengths: bool = False,
    steps: int = 60,
) -> Polished:
    """Start from rows (B, d) in units of the standardised weights; residuals follow from them."""
    gradient = gradient[: neurons.count]
    (batch, features), outputs = rows.shape, gradient.shape[1]
    size = rows.size

    def parts(unknowns: Array) -> tuple[Array, Array]:
        return unknowns[:size].reshape(batch, features), unknowns[size:].reshape(-1, outputs)

    def normal(unknowns: Array) -> Normal:
        now, readout = parts(unknowns)
        found = _assembled(_sums(gradient, neurons, shape, now, readout), readout, size)
        return found if free_lengths else on_spheres(found, now)

    def move(unknowns: Array, step: Array) -> Array:
        if free_lengths:
            return unknowns + step
        return moved_on_spheres(unknowns, step, (batch, features))

    readout = best_readout(gradient, neurons, shape, rows)
    start = np.concatenate([rows.ravel(), readout.ravel()])
    size_seen = max(float(np.linalg.norm(gradient)), 1e-300)
    end, cost = minimise(start, normal, move, steps, floor=(_ROUNDING * size_seen) ** 2)
    found, readout = parts(end)
    return Polished(found, readout[:-1], readout[-1], math.sqrt(cost) / size_seen)


def best_readout(gradient: Array, neurons: Neurons, shape: Activation, rows: Array) -> Array:
    """Residuals and constants (B + 1, outputs) of given records, by linear least squares."""
    width = len(rows) + 1
    gram, product = np.zeros((width, width)), np.zeros((width, gradient.shape[1]))
    for at, block in neurons.blocks(BLOCK):
        values = _with_one(shape.value(block.astype(np.float64) @ rows.T))
        gram += values.T @ values
        product += values.T @ gradient[at]
    return np.asarray(np.linalg.lstsq(gram, product, rcond=1e-14)[0], np.float64)


def _sums(
    gradient: Array, neurons: Neurons, shape: Activation, rows: Array, readout: Array
) -> _Sums:
    width = rows.size + len(readout)
    cost, gram, product = 0.0, np.zeros((width, width)), np.zeros((width, gradient.shape[1]))
    for at, block in neurons.blocks(BLOCK):
        weights = block.astype(np.float64)
        inner = weights @ rows.T
        values = _with_one(shape.value(inner))
        slopes = shape.slope(inner)[:, :, None] * weights[:, None, :]
        wide = np.hstack([slopes.reshape(len(weights), -1), values])
        error = values @ readout - gradient[at]
        cost += float(np.sum(error**2))
        product += wide.T @ error
        gram += wide.T @ wide
    return _Sums(cost, product, gram)


def _assembled(sums: _Sums, readout: Array, size: int) -> Normal:
    """JᵀJ and Jᵀe by records (B d), then by readout (B + 1, outputs), from F's sums."""
    residuals, outputs = readout[:-1], readout.shape[1]
    repeated = np.repeat(residuals, size // len(residuals), axis=0)  # (B d, outputs)
    by_rows = np.sum(repeated * sums.product[:size], axis=1)
    mixed = repeated[:, None, :] * sums.gram[:size, size:, None]
    hessian = np.zeros((size + readout.size,) * 2)
    hessian[:size, :size] = sums.gram[:size, :size] * (repeated @ repeated.T)
    hessian[:size, size:] = mixed.reshape(size, -1)
    hessian[size:, :size] = hessian[:size, size:].T
    hessian[size:, size:] = np.kron(sums.gram[size:, size:], np.eye(outputs))
    return Normal(sums.cost, np.concatenate([by_rows, sums.product[size:].ravel()]), hessian)


def _with_one(values: Array) -> Array:
    return np.hstack([values, np.ones((len(values), 1))])
