"""Declared columns of a table: each cell read by itself, numbers clipped to public bounds.

Messages belong on the screen of whoever holds the records, and nobody else is told.
"""

import warnings
from collections.abc import Mapping

import numpy as np

from unisono.data.columns import ColumnKind, NumericColumn
from unisono.data.encoding import Values
from unisono.data.sources import RecordTable
from unisono.errors import ClippedValues


def declared_values(table: RecordTable, columns: Mapping[str, ColumnKind]) -> Values:
    """Each column as float64 (records,): numbers in their bounds, categories as places in their
    lists, NaN where a cell is neither; with local warnings of what was clipped or is missing."""
    values = {}
    for name, column in columns.items():
        values[name] = own = declared_column(table, name, column)
        table.warn_unread(np.isnan(own), name, column.wanted)
    return values


def declared_column(table: RecordTable, name: str, column: ColumnKind) -> np.ndarray:
    """One of them, with a warning of what was clipped."""
    found = column.read(table.column(name), table.decimal)
    return _clipped(table, name, column, found) if isinstance(column, NumericColumn) else found


def _clipped(
    table: RecordTable, name: str, column: NumericColumn, numbers: np.ndarray
) -> np.ndarray:
    low, high = column.span
    outside = int(np.count_nonzero((numbers < low) | (numbers > high)))
    if outside:
        warnings.warn(
            f"{table.name}: {outside} of {table.rows} values of {name!r} lie outside the public "
            f"bounds {low:g} to {high:g} and are clipped to them; nobody else is told",
            ClippedValues,
            stacklevel=2,
        )
    return np.clip(numbers, low, high)


__all__ = ["declared_column", "declared_values"]
