"""Arithmetic in which no record touches another: blocks of one public shape, and products of rows.

How a floating-point sum is rounded may depend on the shape of an array: BLAS computes the last
n mod 4 rows of a matrix product by another kernel, and vector units treat the end of an array
apart. Computed on all rows at once, one record that comes, goes or moves changes the last bit of
other records' scores, and at the edge of a bin their cells: a release moves by more than one
record's bound. So all that is computed from private records before they are bounded

    passes in blocks      `in_blocks`: ROWS rows each, the last block padded, so that the shape of
                          every operation is public, whatever the number of records
    has no matrix product `row_product`: a product and a sum at a time, each rounded by itself

Elementwise functions and sums along a row of public length remain. Each of them reads one record,
so that what is made of a record is a function of that record alone, to the last bit.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

# Rows of a block: a public number, and a multiple of every vector width.
ROWS = 1024
# Numbers of a product that are held at once: they stay in the processor's cache.
_TOGETHER = 2**16


def in_blocks(
    compute: Callable[..., Sequence[np.ndarray]], *columns: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The rows (n, ...) that `compute` makes of columns (n, ...), by blocks of ROWS rows; rows that
    fill up the last block are NaN, and dropped.

    >>> in_blocks(lambda x: (2 * x,), np.arange(3.0))[0].tolist()
    [0.0, 2.0, 4.0]
    """
    records = len(columns[0])
    made = []
    for first in range(0, max(records, 1), ROWS):
        own = compute(*(_block(column[first : first + ROWS]) for column in columns))
        made.append([part[: records - first] for part in own])
    return tuple(np.concatenate(parts) for parts in zip(*made, strict=True))


def values_in_blocks(
    compute: Callable[[dict[str, np.ndarray]], Sequence[np.ndarray]],
    values: Mapping[str, np.ndarray],
) -> tuple[np.ndarray, ...]:
    """The same of columns (n,) by name."""
    names = tuple(values)
    return in_blocks(
        lambda *columns: compute(dict(zip(names, columns, strict=True))), *values.values()
    )


def _block(column: np.ndarray) -> np.ndarray:
    out = np.full((ROWS, *column.shape[1:]), np.nan)
    out[: len(column)] = column
    return out


def row_product(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """rows (n, d) times weights (d,) or (d, k); a row of the result depends on its own row alone.

    One feature is added after the other: two elementwise operations, which IEEE 754 rounds by
    their operands alone, whatever other rows there are and wherever a row lies.

    >>> rows = np.random.default_rng(0).normal(size=(5, 3))
    >>> bool((row_product(rows, np.ones(3))[4:] == row_product(rows[4:], np.ones(3))).all())
    True
    """
    rows, given = np.asarray(rows, float), np.asarray(weights, float)
    weights = given.reshape(len(given), -1)
    total = np.zeros((len(rows), weights.shape[1]))
    step = max(1, _TOGETHER // max(1, weights.shape[1]))
    for first in range(0, len(rows), step):
        own, some = rows[first : first + step], total[first : first + step]
        for feature, weight in enumerate(weights):
            some += own[:, feature, None] * weight
    return total.reshape(len(rows), *given.shape[1:])


def row_variance(rows: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """row · covariance · rowᵀ (n,) of each row (n, d), at least 0."""
    products = np.ascontiguousarray(row_product(rows, covariance) * rows)
    return np.maximum(products.sum(axis=1), 0.0)


__all__ = ["ROWS", "in_blocks", "row_product", "row_variance", "values_in_blocks"]
