"""A party's records: CSV, Parquet, arrays or lists in; what a cell means is asked of it alone.

A record is read by itself. What is read of it depends on its own line or values and on public
declarations (the header, the dialect, the columns), never on another record. So changing one record
changes how one record is read, which is what every guarantee here takes for granted.

Nothing here is private by itself: it runs on the party's own machine, and its warnings (which may
name a record) belong on the party's own terminal. A record that cannot be read is no error: a run
that stopped there would tell everybody about it.
"""

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unisono.core.words import clean, did_you_mean
from unisono.data.cells import codes, numbers
from unisono.errors import InvalidInput

if TYPE_CHECKING:
    from unisono.data.csv_file import CsvDialect


class UnreadValues(UserWarning):
    """Values of this party could not be read and count as missing; only it is told."""


@dataclass(frozen=True)
class Bounds:
    """Public lowest and highest value of a column.

    >>> Bounds.parse("0:120")
    Bounds(low=0.0, high=120.0)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InvalidInput(
                f"bounds {self.low!r} to {self.high!r} are not a finite range: give the public "
                "lowest and highest value, as 0:120"
            )

    @classmethod
    def parse(cls, text: str) -> "Bounds":
        low, _, high = text.partition(":")
        try:
            return cls(float(low), float(high))
        except ValueError as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"{text!r} are no bounds: write LOWEST:HIGHEST, as 0:120") from None

    @property
    def pair(self) -> tuple[float, float]:
        return self.low, self.high


def warn_unread(unread: np.ndarray, what: str, kind: str, more: str = "") -> None:
    """Tell whoever holds the records, and nobody else, which of `what` are not `kind`, and what
    `more` it means for the answer."""
    if unread.any():
        warnings.warn(
            f"{np.count_nonzero(unread)} of {len(unread)} {what} are not {kind}, first in record "
            f"{int(np.argmax(unread)) + 1}: each counts as missing, which changes what is read of "
            f"no other record; correct them if they should count. {more}Nobody else is told",
            UnreadValues,
            stacklevel=3,
        )


def still_divided(remedy: str) -> str:
    """What missing values do to an answer that is divided by a public number of records."""
    return (
        "The public number of records divides, so the answer is not the one of the values that are "
        f"there; where some may be missing leave out {remedy}. "
    )


# ------------------------------------------------------------- files


@dataclass(frozen=True, repr=False)
class RecordTable:
    """One party's records, by column, as they stand in its file: what a cell means is asked of it
    alone, by `numbers` or `codes`. It prints its shape and never its values. `unordered` are rows
    of a query, whose places say nothing (`streams`)."""

    name: str
    columns: Mapping[str, Sequence[Any] | np.ndarray]
    rows: int
    decimal: str = "."
    unordered: bool = False

    def __repr__(self) -> str:
        return f"<RecordTable {self.name}: {self.rows} records of {len(self.columns)} columns>"

    def column(self, name: str) -> Sequence[Any] | np.ndarray:
        """A column, or a refusal that lists what there is."""
        require_columns(self.name, self.columns, [name])
        return self.columns[name]

    def numbers(self, name: str) -> np.ndarray:
        """A column of numbers (rows,); NaN where a cell is none."""
        return numbers(self.column(name), self.decimal)

    def codes(self, name: str, categories: Sequence[Any]) -> np.ndarray:
        """Places in the public list (rows,); -1 for cells that are not in it."""
        return codes(self.column(name), categories)

    def warn_unread(self, unread: np.ndarray, name: str, kind: str, more: str = "") -> None:
        warn_unread(unread, f"values of {name!r} in {self.name}", kind, more)

    def tell_empty(self, empty: Mapping[str, int], first: int | None = None) -> None:
        """One line for the empty cells of all columns that may have some, by their numbers, with
        the number of the `first` such record."""
        counts = ", ".join(f"{name} {number}" for name, number in empty.items() if number)
        if counts:
            place = "" if first is None or self.unordered else f", the first in record {first}"
            warnings.warn(
                f"{self.name}: empty cells among {self.rows} records{place}, which do not count "
                f"unless declared: {counts}. Nobody else is told",
                UnreadValues,
                stacklevel=3,
            )


def read_table(
    path: str | Path,
    columns: Sequence[str] | None = None,
    multiline: bool = False,
    dialect: "CsvDialect | None" = None,
) -> RecordTable:
    """Read one party's CSV or Parquet file; only `columns` if they are named.

    `multiline` declares that quoted cells of a CSV file hold newlines. Then a quote that is not
    closed swallows the records after it, and one record does decide where others end.
    """
    file = Path(path)
    if file.suffix.lower() not in (".csv", ".parquet"):
        raise InvalidInput(f"{path}: only .csv and .parquet files are read")
    if not file.is_file():
        raise InvalidInput(f"{path}: no such file; check the name")
    decimal = "."
    try:
        if file.suffix.lower() == ".parquet":
            from unisono.data.parquet_files import parquet_table

            return parquet_table(file, columns)
        else:
            cells, rows, decimal = _read_csv(file, columns, multiline, dialect)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or 'it is damaged'}") from None
    require_records(path, rows)
    return RecordTable(str(path), cells, rows, decimal)


def require_records(source: Any, rows: int) -> None:
    if rows == 0:
        raise InvalidInput(f"{source} holds no records: give at least one")


def require_columns(file: Any, names: Collection[str], wanted: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise InvalidInput(f"{file} names a column twice: rename one of them")
    missing = [name for name in wanted if name not in names]
    if missing:
        raise InvalidInput(
            f"{file} has no column {missing[0]!r}: it has {clean(', '.join(sorted(names)))}"
            f"{did_you_mean(missing[0], names)}"
        )


def _read_csv(
    file: Path, columns: Sequence[str] | None, multiline: bool, dialect: "CsvDialect | None"
) -> tuple[dict[str, list[Any]], int, str]:
    from unisono.data.csv_file import USUAL, read_csv

    names, cells, rows = read_csv(file, columns, multiline, dialect or USUAL)
    require_columns(file, names, names if columns is None else columns)
    return cells, rows, (dialect or USUAL).decimal


__all__ = [
    "Bounds",
    "RecordTable",
    "UnreadValues",
    "read_table",
    "require_columns",
    "require_records",
    "still_divided",
    "warn_unread",
]
