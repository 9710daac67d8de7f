"""From a party's table to numbers that the study may use: read, clipped, encoded.

All of it happens on the party's own machine before anything is spent, and its messages belong on
the party's own screen. Bounds and categories come from the study file, never from the table, and
every record is read by itself.

Numbers and dates are clipped to their public bounds, with a local warning that says how many were
outside. What is missing and has no declared value of its own is NaN, with a local warning. In
statistics its record counts in no sum or table of that column; in a model it teaches nothing at
all, unless an indicator says that it is missing. A refusal would tell everybody that such a record
is there.
"""

import warnings

import numpy as np

from unisono.data import RecordTable
from unisono.data.columns import ColumnKind, NumericColumn
from unisono.data.encoding import Values
from unisono.data.streams import RecordStream
from unisono.errors import ClippedValues, InvalidInput
from unisono.studies.schema import StudyFile


def values_of(file: StudyFile, table: RecordTable, party: str) -> Values:
    """Each column of the study as float64 (records,): numbers in their bounds, categories as
    places in their lists, NaN where a cell is neither."""
    require_size(file, table, party)
    values = {}
    for name, column in file.data.columns.items():
        values[name] = own = _read(table, name, column)
        table.warn_unread(np.isnan(own), name, column.wanted)
    return values


def public_values(file: StudyFile, table: RecordTable) -> Values:
    """As `values_of`, for public records: of any number, and refused where a cell is missing."""
    values = {name: _read(table, name, column) for name, column in file.data.columns.items()}
    for name, own in values.items():
        missing = np.flatnonzero(np.isnan(own))
        if len(missing):
            raise InvalidInput(
                f"{table.name}: {len(missing)} values of {name!r} are not "
                f"{file.data.columns[name].wanted}, first in record {missing[0] + 1}: correct or "
                "remove these public records; nothing was spent"
            )
    return values


def _read(table: RecordTable, name: str, column: ColumnKind) -> np.ndarray:
    found = column.read(table.column(name), table.decimal)
    return _clipped(table, name, column, found) if isinstance(column, NumericColumn) else found


def require_size(file: StudyFile, table: RecordTable | RecordStream, party: str) -> None:
    """Where sizes are hidden a party may hold any number of records, and nobody is told."""
    stated = file.parties[file.party(party)].records
    if file.data.sizes == "exact" and table.rows != stated:
        raise InvalidInput(
            f"{table.name} holds {table.rows} records, and the study states {stated} for {party}: "
            "sizes are public and exact here; correct the study file with everybody, or agree on "
            'sizes = "hidden"; nothing was spent'
        )


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


__all__ = ["Values", "public_values", "require_size", "values_of"]
