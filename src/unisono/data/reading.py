"""Declared columns of a table: each cell read by itself, numbers clipped to public bounds.

Messages belong on the screen of whoever holds the records, and nobody else is told.
"""

import warnings
from collections.abc import Mapping

import numpy as np

from unisono.data.cells import blanks
from unisono.data.columns import ColumnKind, NumericColumn
from unisono.data.sources import RecordTable
from unisono.errors import ClippedValues


def declared_values(table: RecordTable, columns: Mapping[str, ColumnKind]) -> dict[str, np.ndarray]:
    """Each column as float64 (records,): numbers in their bounds, categories as places in their
    lists, NaN where a cell is neither; with local warnings of what was clipped or is missing."""
    values: dict[str, np.ndarray] = {}
    declared: dict[str, int] = {}
    some = np.zeros(table.rows, bool)
    for name, column in columns.items():
        values[name] = own = declared_column(table, name, column)
        unread = np.isnan(own)
        if column.incomplete:  # declared: said once for all, and no reason to correct a cell
            empty = unread & blanks(column.uncoded(table.column(name), table.decimal))
            declared[name], unread = int(np.count_nonzero(empty)), unread & ~empty
            some |= empty
        table.warn_unread(unread, name, column.wanted)
    table.tell_empty(declared, int(np.argmax(some)) + 1 if some.any() else None)
    return values


def declared_column(
    table: RecordTable, name: str, column: ColumnKind, told: str = "nobody else is told"
) -> np.ndarray:
    """One of them, with a warning of what was clipped."""
    found = column.read(table.column(name), table.decimal)
    if not isinstance(column, NumericColumn):
        return found
    return _clipped(table, name, column, found, told)


def _clipped(
    table: RecordTable, name: str, column: NumericColumn, numbers: np.ndarray, told: str
) -> np.ndarray:
    low, high = column.span
    outside = int(np.count_nonzero((numbers < low) | (numbers > high)))
    if outside:
        warnings.warn(
            f"{table.name}: {outside} of {table.rows} values of {name!r} lie outside the public "
            f"bounds {low:g} to {high:g} and are clipped to them; {told}",
            ClippedValues,
            stacklevel=2,
        )
    return np.clip(numbers, low, high)


__all__ = ["declared_column", "declared_values"]
