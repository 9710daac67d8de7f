"""From a party's table to numbers that the study may use: read, clipped, encoded.

All of it happens on the party's own machine before anything is spent, and its messages belong on
the party's own screen. Bounds and categories come from the study file, never from the table, and
every record is read by itself.

    number      clipped to its public bounds, with a local warning that says how many were outside
    category    its place in the public list; as a feature of a model, one column of 0 and 1 for
                each value but the first, which is the reference
    missing     NaN, for a cell that is neither, with a local warning. In statistics its record
                counts in no sum or table of that column; in a model it teaches nothing at all. A
                refusal would tell everybody that such a record is there.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unisono.data import Table
from unisono.errors import ClippedValues, InvalidInput
from unisono.estimators.scaling import Scaling, Targets, scaling, target_scaling
from unisono.studies.schema import Category, Number, StudyFile

Values = Mapping[str, np.ndarray]


def values_of(file: StudyFile, table: Table, party: str) -> Values:
    """Each column of the study as float64 (records,): numbers in their bounds, categories as
    places in their lists, NaN where a cell is neither."""
    _require_size(file, table, party)
    values = {}
    for name, column in file.data.columns.items():
        values[name] = own = _read(table, name, column)
        table.warn_unread(np.isnan(own), name, _kind(column))
    return values


def public_values(file: StudyFile, table: Table) -> Values:
    """As `values_of`, for public records: of any number, and refused where a cell is missing."""
    values = {name: _read(table, name, column) for name, column in file.data.columns.items()}
    for name, own in values.items():
        missing = np.flatnonzero(np.isnan(own))
        if len(missing):
            raise InvalidInput(
                f"{table.name}: {len(missing)} values of {name!r} are not "
                f"{_kind(file.data.columns[name])}, first in record {missing[0] + 1}: correct or "
                "remove these public records; nothing was spent"
            )
    return values


def _read(table: Table, name: str, column: Number | Category) -> np.ndarray:
    if isinstance(column, Number):
        return _numbers(table, name, column)
    places = table.codes(name, column.values)
    return np.where(places < 0, np.nan, places)


def _kind(column: Number | Category) -> str:
    if isinstance(column, Number):
        return "numbers"
    return f"any of {', '.join(column.values)} (letters, spaces and case count)"


def _require_size(file: StudyFile, table: Table, party: str) -> None:
    """Where sizes are hidden a party may hold any number of records, and nobody is told."""
    stated = file.parties[file.party(party)].records
    if file.data.sizes == "exact" and table.rows != stated:
        raise InvalidInput(
            f"{table.name} holds {table.rows} records, and the study states {stated} for {party}: "
            "sizes are public and exact here; correct the study file with everybody, or agree on "
            'sizes = "hidden"; nothing was spent'
        )


def _numbers(table: Table, name: str, column: Number) -> np.ndarray:
    numbers, (low, high) = table.numbers(name), column.bounds
    outside = int(np.count_nonzero((numbers < low) | (numbers > high)))
    if outside:
        warnings.warn(
            f"{table.name}: {outside} of {table.rows} values of {name!r} lie outside the public "
            f"bounds {low:g} to {high:g} and are clipped to them; nobody else is told",
            ClippedValues,
            stacklevel=2,
        )
    return np.clip(numbers, low, high)


# ------------------------------------------------------------- features of a model


@dataclass(frozen=True)
class Frame:
    """The columns that a model learns from: names (d,) and public ranges (d,)."""

    file: StudyFile

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(
            name if isinstance(column, Number) else f"{name}={value}"
            for name, column in self.file.data.features.items()
            for value in (column.values[1:] if isinstance(column, Category) else (None,))
        )

    def scaling(self, centred: str = "none") -> Scaling:
        """How rows come into the unit ball, by the public bounds."""
        bounds = [
            pair
            for column in self.file.data.features.values()
            for pair in (
                [column.bounds] if isinstance(column, Number)
                else [(0.0, 1.0)] * (len(column.values) - 1)
            )
        ]  # fmt: skip
        low, high = zip(*bounds, strict=True)
        return scaling((low, high), len(bounds), centred)

    @property
    def mean_square(self) -> float:
        """|u|² of a scaled row whose numbers are even over their ranges, and values alike often."""
        return sum(
            1 / 3 if isinstance(column, Number) else 1 - 1 / len(column.values)
            for column in self.file.data.features.values()
        )

    def rows(self, values: Values) -> np.ndarray:
        """One party's features (n, d), in their own units; NaN where a record is incomplete."""
        columns = []
        for name, column in self.file.data.features.items():
            if isinstance(column, Number):
                columns.append(values[name])
            else:
                places = range(1, len(column.values))
                columns.extend((values[name] == place).astype(float) for place in places)
        return np.where(self._complete(values)[:, None], np.column_stack(columns), np.nan)

    def _complete(self, values: Values) -> np.ndarray:
        """Which records miss nothing (n,); of the others a model learns nothing, not half."""
        return np.all([np.isfinite(values[name]) for name in self.file.data.columns], axis=0)

    # --------------------------------------------------------- the target

    @property
    def target(self) -> str:
        assert self.file.data.target is not None  # `file.faults` refuses it
        return self.file.data.target

    @property
    def classes(self) -> tuple[str, ...]:
        """The target's values; none where it is a number."""
        column = self.file.data.columns[self.target]
        return column.values if isinstance(column, Category) else ()

    @property
    def targets(self) -> Targets:
        """The scaling of a number to [-1, 1]."""
        column = self.file.data.columns[self.target]
        return target_scaling(column.bounds if isinstance(column, Number) else None)

    def labels(self, values: Values, signed: bool) -> np.ndarray:
        """Places of classes, or -1 and +1 where two are `signed`; numbers in [-1, 1]; NaN where a
        record is incomplete."""
        own = np.where(self._complete(values), values[self.target], np.nan)
        if not self.classes:
            return self.targets.scaled(own)
        return 2 * own - 1 if signed else own


__all__ = ["Frame", "Values", "public_values", "values_of"]
