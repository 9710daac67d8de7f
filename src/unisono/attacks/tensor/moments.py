"""What one gradient of the output weights shows: tensors of the records, by blocks of neurons.

g_j = Σ_i r_i σ(w_j · x_i) is one number for each neuron, and the w_j = s v_j are public and
Gaussian: v_j ~ N(0, I). A moment over neurons is thus a sample mean over Gaussians, and Stein's
identity says of it, for records of length 1 (directions u_i otherwise),

    (1/m) Σ_j g_j H_p(v_j)  ->  c_p Σ_i r_i u_i^⊗p            error falls as 1/sqrt(m)

Deflation first: g loses its least-squares fit on [1, V]. The fit's slopes are order 1, and what is
left is smaller, hence all else is less noisy; and as Σ g = 0 and Σ g_j v_j = 0 hold exactly then,

    M2 = (1/m) Σ g v⊗v      M3 = (1/m) Σ g v⊗v⊗v      M4 = (1/m) Σ g v⊗v⊗v⊗v - 6 sym(I ⊗ M2)

The records' span is that of the B eigenvectors of M2 with the largest |eigenvalue|: residuals have
both signs, so that M2 is not positive. Order 3 alone has no M2: matrices M3(θ) for random θ give
a first span, and alternating the other two sides of M3 mends it. Higher orders are contracted to
the span as they are summed, (B, B, B) and never (d, d, d).

All g are (m, outputs): one for regression, one for each class of a softmax.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unisono.attacks.tensor.activations import Array
from unisono.errors import InvalidInput

BLOCK = 1 << 15
_SKETCHES, _ALTERNATIONS = 8, 4


@dataclass(frozen=True)
class Neurons:
    """Public hidden weights, w_j = scale v_j with v_j ~ N(0, I), read a block at a time."""

    count: int
    features: int
    scale: float
    read: Callable[[int, int], Any]

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Any]]:
        """Standardised rows v_j of one block after another."""
        for start in range(0, self.count, size):
            stop = min(start + size, self.count)
            rows = self.read(start, stop)
            yield slice(start, stop), rows if self.scale == 1.0 else rows / self.scale


def array_neurons(weights: Any, scale: float = 1.0) -> Neurons:
    """Neurons of an array (m, d) whose entries are N(0, scale²), as at the start of training."""
    rows = np.asarray(weights)
    if rows.ndim != 2 or not np.issubdtype(rows.dtype, np.floating):
        raise InvalidInput(f"weights have shape {rows.shape} of {rows.dtype}: give floats (m, d)")
    found = float(np.sqrt(np.mean(np.square(rows, dtype=np.float64))))
    # Five standard errors of the estimate, and some room for a generator that is not quite normal.
    room = 0.05 + 5 / np.sqrt(2 * rows.size)
    if not abs(found / scale - 1) < room:
        raise InvalidInput(
            f"the weights' root mean square is {found:.4g} but scale is {scale:g}: the method "
            f"needs Gaussian weights of known scale; give scale={found:.4g} if they are Gaussian"
        )
    count, features = rows.shape
    return Neurons(count, features, scale, lambda start, stop: rows[start:stop])


def gaussian_neurons(count: int, features: int, seed: int) -> Neurons:
    """Float32 neurons drawn anew whenever they are read: any count in the memory of one block."""

    def read(start: int, stop: int) -> Any:
        # Whole blocks of BLOCK rows have a stream each, whatever part of them is asked for.
        parts = []
        for block in range(start // BLOCK, (stop - 1) // BLOCK + 1):
            stream = np.random.default_rng([seed, block])
            rows = stream.standard_normal((BLOCK, features), np.float32)
            parts.append(rows[max(start - block * BLOCK, 0) : stop - block * BLOCK])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    return Neurons(count, features, 1.0, read)


def deflated(gradient: Array, neurons: Neurons) -> tuple[Array, Array]:
    """g without its least-squares fit on [1, V], and the fit's slopes (outputs, d): order 1."""
    width = neurons.features + 1
    gram, product = np.zeros((width, width)), np.zeros((width, gradient.shape[1]))
    for at, rows in neurons.blocks():
        wide = _with_one(rows)
        gram += wide.T @ wide
        product += wide.T @ gradient[at].astype(wide.dtype)
    fit = np.asarray(np.linalg.solve(gram, product), np.float64)
    left = gradient.copy()
    for at, rows in neurons.blocks():
        left[at] -= _with_one(rows) @ fit
    return left, fit[1:].T


def leading_span(gradient: Array, neurons: Neurons, batch: int) -> tuple[Array, Array]:
    """The span (d, B) of M2's largest |eigenvalues|, and all of these, largest first."""
    total = np.zeros((neurons.features, neurons.features))
    for matrix in _matrices(gradient, neurons):
        total += matrix @ matrix
    return _leading(total, batch)


def leading_span_of_order_three(
    gradient: Array, neurons: Neurons, batch: int, generator: np.random.Generator
) -> tuple[Array, Array]:
    """The same for activations without order 2: sketches M3(θ), then alternation on M3(·, U, U)."""
    d = neurons.features
    count = min(d, _SKETCHES)
    sketches = np.linalg.qr(generator.standard_normal((d, count)))[0].T
    total = np.zeros((d, d))
    for direction in sketches:
        for matrix in _matrices(gradient, neurons, direction):
            total += matrix @ matrix
    basis, values = _leading(total, batch)
    for _ in range(_ALTERNATIONS):
        total = np.zeros((d, d))
        for side in _sides(gradient, neurons, basis):
            total += side @ side.T
        basis, values = _leading(total, batch)
    return basis, values


def row_span(hidden_gradient: Any, batch: int) -> tuple[Array, Array]:
    """The exact span from the gradient of W (m, d), whose rows are combinations of the records:
    the gradient of w_j is 2 a_j Σ_i r_i σ'(w_j · x_i) x_i."""
    rows = np.asarray(hidden_gradient, np.float64)
    _, values, right = np.linalg.svd(rows, full_matrices=False)
    return right[:batch].T, values


def contracted(
    gradient: Array, neurons: Neurons, basis: Array, orders: Sequence[int]
) -> dict[int, Array]:
    """Order p -> (outputs, B, ..., B), the moments of a deflated g seen from the span."""
    outputs, batch = gradient.shape[1], basis.shape[1]
    sums = {p: np.zeros((outputs, batch ** (p // 2), batch ** (p - p // 2))) for p in {2, *orders}}
    narrow = basis.astype(np.float32)
    for at, rows in neurons.blocks():
        inside = (rows @ (narrow if rows.dtype == np.float32 else basis)).astype(np.float64)
        powers = {1: inside, 2: _pairs(inside) if max(orders) > 2 else inside}
        for output in range(outputs):
            for p, total in sums.items():
                left, right = powers[p // 2], powers[p - p // 2]
                total[output] += (left * gradient[at, output, None]).T @ right
    found = {p: (sums[p] / neurons.count).reshape(outputs, *[batch] * p) for p in sums}
    if 4 in orders:
        found[4] = found[4] - _six(np.eye(batch), found[2])
    return {p: found[p] for p in orders}


# ------------------------------------------------------------- sums over neurons


def _with_one(rows: Any) -> Any:
    return np.hstack([np.ones((len(rows), 1), rows.dtype), rows])


def _pairs(rows: Array) -> Array:
    return (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)


def _matrices(gradient: Array, neurons: Neurons, direction: Array | None = None) -> Array:
    """M2 of each output, or M3(θ) for a direction θ: (outputs, d, d)."""
    d = neurons.features
    total = np.zeros((gradient.shape[1], d, d))
    for at, rows in neurons.blocks():
        for output, own in enumerate(total):
            weight = gradient[at, output].astype(rows.dtype)
            if direction is not None:
                weight = weight * (rows @ direction.astype(rows.dtype))
            own += (rows * weight[:, None]).T @ rows
    return total / neurons.count


def _sides(gradient: Array, neurons: Neurons, basis: Array) -> Array:
    """M3(·, U, U) of each output: (outputs, d, B²)."""
    total = np.zeros((gradient.shape[1], neurons.features, basis.shape[1] ** 2))
    for at, rows in neurons.blocks():
        pairs = _pairs(rows @ basis)
        for output, own in enumerate(total):
            own += (rows * gradient[at, output, None]).T @ pairs
    return total / neurons.count


def _leading(squares: Array, batch: int) -> tuple[Array, Array]:
    """The `batch` leading eigenvectors of a sum of squared matrices, and the roots of all."""
    values, vectors = np.linalg.eigh(squares)
    return vectors[:, ::-1][:, :batch], np.sqrt(np.maximum(values[::-1], 0))


def _six(one: Array, other: Array) -> Array:
    """6 sym(I ⊗ M): I and M (outputs, B, B) on the six ways to give two of four axes to I."""
    ways = ("ab,ocd", "cd,oab", "ac,obd", "bd,oac", "ad,obc", "bc,oad")
    return np.sum([np.einsum(f"{way}->oabcd", one, other) for way in ways], axis=0)
