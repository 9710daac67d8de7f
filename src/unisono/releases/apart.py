"""Whether an algorithm's function keeps records apart, as the bounds of records require.

A bound proves how far one record moves a release if each row that it is given is made of one record
and of what everybody knows. Rows that are centred by their mean, sorted or repeated are not, and
one record would move all of them, whatever each is clipped to. So the function is tried on a few
synthetic records, which are changed one after the other: one row may change with each, and nothing
else. As for a loss of batches (`problems.batched`), that shows dependence and does not prove
independence.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from unisono.errors import InvalidInput

_COMPANY = 7
_ROUNDING = 1e-3


def require_apart(name: str, local: Callable[[Any, Any], Any], columns: Any) -> None:
    """Refuse `local(columns, present)`, raw values of records, if one record moves another's row.
    `columns` is looked at for shapes and types only."""
    generator = np.random.default_rng(0)

    def some(column: Any) -> np.ndarray:
        shape = (_COMPANY, *column.shape[1:])
        return generator.uniform(-1, 1, shape).astype(column.dtype)

    def raw(records: Any) -> list[np.ndarray]:
        with jax.ensure_compile_time_eval():
            found = local(records, np.ones(_COMPANY, bool))
            return [np.asarray(leaf) for leaf in jax.tree.leaves(found)]

    records = jax.tree.map(some, columns)
    before = raw(records)
    for number in range(_COMPANY):
        others = np.arange(_COMPANY) != number
        after = raw(jax.tree.map(partial(_changed, number), records))
        if not all(_alike(*pair, others) for pair in zip(before, after, strict=True)):
            raise InvalidInput(
                f"{name}: one record moves what is computed of others, so that clipping rows "
                "bounds nothing: make each record's row of that record alone and of what everybody "
                "sees"
            )


def _changed(number: int, column: np.ndarray) -> np.ndarray:
    other = column.copy()
    other[number] = 1 - 2 * column[number]
    return other


def _alike(one: np.ndarray, other: np.ndarray, others: np.ndarray) -> bool:
    """Whether rows of other records, and what is no row, are the same up to rounding."""
    if one.shape[:1] == others.shape:
        one, other = one[others], other[others]
    return np.allclose(one, other, _ROUNDING, _ROUNDING, equal_nan=True)


__all__ = ["require_apart"]
