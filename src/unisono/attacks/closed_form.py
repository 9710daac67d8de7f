"""What a gradient gives away without any search.

A dense layer z = Wᵀx + b that meets each of B records once has the gradients, with δ_i = dl_i/dz,

    by b_j:  (1/B) Σ_i δ_ij              by w_j:  (1/B) Σ_i δ_ij x_i

so that for one record    x = (dl/dw_j) / (dl/db_j)    for every unit j. In a batch the same holds
for a unit that only one record wakes (relu: δ_ij = 0 for all others), and units that agree on a
row betray it. A unit's gradient mixes records otherwise; even then all rows of the weight gradient
lie in the span of the records.

The last layer of a classifier with cross-entropy has δ_ic = p_ic - [y_i = c], hence

    number of records of class c  =  B ((1/B) Σ_i p_ic - dl/db_c)

where one record alone has its only negative entry at its class. These attacks read an update only;
they need no parameters (labels need a guess of the average prediction).
"""

from typing import Any

import numpy as np

from unisono.errors import InvalidInput


def one_record(weight_gradient: Any, bias_gradient: Any, counted: Any = None) -> np.ndarray:
    """The only record of a batch, (d,), from a layer's gradients by W (d, m) and b (m,).

    All units are used, by least squares: Σ_j w_j b_j / Σ_j b_j². `counted` (d, m) says which
    numbers of W were sent, if not all; a feature of which none was sent is given as 0.

    >>> one_record(np.outer([1.0, 2.0], [3.0, -1.0]), np.array([3.0, -1.0]))
    array([1., 2.])
    """
    weights, bias = _layer(weight_gradient, bias_gradient)
    square = bias @ bias
    if square == 0:
        raise InvalidInput(
            "the bias gradient is zero: the record has no influence on this layer; attack a layer "
            "in front of it, or other parameters"
        )
    if counted is None:
        return weights @ bias / square
    squares = np.asarray(counted, float) @ bias**2
    return np.where(squares > 0, weights @ bias, 0.0) / np.where(squares > 0, squares, 1.0)


def lone_records(
    weight_gradient: Any, bias_gradient: Any, agreement: float = 1e-3, units: int = 2
) -> np.ndarray:
    """Rows (k, d) on which at least `units` hidden units agree, the most frequent first.

    Each unit offers the row w_j / b_j; rows closer than `agreement` times their length are one.
    Mixtures of records hardly ever agree, so that what comes out is nearly always a record.
    """
    weights, bias = _layer(weight_gradient, bias_gradient)
    awake = np.abs(bias) > 1e-6 * np.abs(bias).max(initial=0.0)
    offers = (weights[:, awake] / bias[awake]).T
    lengths = np.linalg.norm(offers, axis=1)
    groups: list[np.ndarray] = []
    free = np.ones(len(offers), bool)
    while free.any():
        first = int(np.flatnonzero(free)[0])
        near = free & (np.linalg.norm(offers - offers[first], axis=1) <= agreement * lengths[first])
        near[first] = True
        groups.append(offers[near])
        free &= ~near
    rows = [np.median(g, axis=0) for g in sorted(groups, key=len, reverse=True) if len(g) >= units]
    return np.array(rows).reshape(len(rows), len(weights))


def span(weight_gradient: Any, records: int) -> np.ndarray:
    """An orthonormal basis (d, k), k <= records, of the space in which the records lie."""
    left, sizes, _ = np.linalg.svd(np.asarray(weight_gradient, float), full_matrices=False)
    kept = min(records, int(np.sum(sizes > 1e-12 * sizes[0]))) if sizes[0] > 0 else 0
    return left[:, :kept]


def labels(bias_gradient: Any, records: int, expected: Any | None = None) -> np.ndarray:
    """The classes of a batch, (records,) in rising order, from the last layer's bias gradient.

    `expected` (classes,) is the average prediction, uniform if nothing is known. Counts are made
    whole by the largest remainders.

    >>> labels(np.array([0.3, -0.8, 0.5]), 1), labels(np.array([-0.3, 0.1, 0.2]), 3)
    (array([1]), array([0, 0, 1]))
    """
    gradient = np.asarray(bias_gradient, float)
    if gradient.ndim != 1 or records < 1:
        raise InvalidInput(
            f"a bias gradient of shape {gradient.shape} for {records} records: give (classes,) "
            "numbers and at least one record"
        )
    if records == 1:
        return np.array([int(np.argmin(gradient))])
    mean = np.full(gradient.size, 1 / gradient.size) if expected is None else np.asarray(expected)
    counts = np.maximum(records * (mean - gradient), 0.0)
    counts *= records / max(counts.sum(), 1e-300)
    whole = np.floor(counts).astype(int)
    rest = records - whole.sum()
    whole[np.argsort(whole - counts, kind="stable")[:rest]] += 1
    return np.repeat(np.arange(gradient.size), whole)


def _layer(weight_gradient: Any, bias_gradient: Any) -> tuple[np.ndarray, np.ndarray]:
    weights, bias = np.asarray(weight_gradient, float), np.asarray(bias_gradient, float)
    if weights.ndim != 2 or bias.shape != weights.shape[1:]:
        raise InvalidInput(
            f"weights of shape {weights.shape} with a bias of shape {bias.shape}: give the "
            "gradients of one dense layer, (d, m) and (m,)"
        )
    return weights, bias
