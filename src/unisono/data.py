"""A party's file: CSV or Parquet in, arrays out, and clear refusals in between.

Nothing here is private by itself: it runs on the party's own machine, before any budget is spent,
and its messages (which may name a row) belong on the party's own terminal. Bounds and categories
are public knowledge and come from the study, never from the file.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet

from unisono.errors import InvalidInput

NUMBER, TEXT, BOOLEAN = "number", "text", "boolean"


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


@dataclass(frozen=True, repr=False)
class Table:
    """One party's records, by column; it prints its shape and never its values."""

    name: str
    columns: Mapping[str, np.ndarray]
    kinds: Mapping[str, str]
    rows: int

    def __repr__(self) -> str:
        return f"<Table {self.name}: {self.rows} records of {len(self.columns)} columns>"

    def column(self, name: str) -> np.ndarray:
        """A column, or a refusal that lists what there is."""
        if name not in self.columns:
            there = ", ".join(sorted(self.columns))
            hint = _separated(self.columns)
            raise InvalidInput(f"{self.name} has no column {name!r}: it has {there}{hint}")
        return self.columns[name]

    def numbers(self, name: str) -> np.ndarray:
        """A numeric column (rows,); NaN, infinity and gaps are refused with their row."""
        values = self.column(name)
        if self.kinds[name] == TEXT:
            raise InvalidInput(
                f"column {name!r} of {self.name} holds text, {_first_text(values)}: write numbers, "
                "with a point before decimals; nothing was spent"
            )
        array = np.asarray(values, np.float64)
        self._require(np.isfinite(array), name, "not a finite number (NaN, infinity or missing)")
        return array

    def codes(self, name: str, categories: Sequence[str]) -> np.ndarray:
        """Category numbers (rows,); values that are not in the public list get -1."""
        values = self.present(name)
        places = {category: number for number, category in enumerate(categories)}
        texts = [as_text(value) for value in values]
        return np.array([places.get(text, -1) for text in texts], np.float64)

    def present(self, name: str) -> np.ndarray:
        """A column of any kind (rows,), without gaps."""
        values = self.column(name)
        if self.kinds[name] == NUMBER:
            self._require(np.isfinite(np.asarray(values, float)), name, "missing or not finite")
        else:
            there = np.array([value is not None for value in values], bool)
            self._require(there, name, "missing")
        return values

    def _require(self, good: np.ndarray, name: str, fault: str) -> None:
        if not good.all():
            bad = np.flatnonzero(~good)
            more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
            raise InvalidInput(
                f"{self.name}: column {name!r} is {fault} in record {bad[0] + 1}{more}: remove or "
                "replace it; nothing was spent"
            )


def _first_text(values: np.ndarray) -> str:
    """Where the first value is that is no number; the value itself stays untold."""
    for place, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            return f"first in record {place + 1} (line {place + 2} of a CSV file)"
    return "in all records"


def _separated(names: Collection[str]) -> str:
    """A hint where one name looks like a whole header."""
    [name, *others] = names
    found = next((mark for mark in (";", "\t", "|") if mark in name), None)
    if others or found is None:
        return ""
    return f"; it looks separated by {found!r}: save it with commas"


def as_text(value: Any) -> str:
    """How a value is written in a list of categories.

    >>> as_text(3.0), as_text(True), as_text("north")
    ('3', 'true', 'north')
    """
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def read_table(path: str | Path, columns: Sequence[str] | None = None) -> Table:
    """Read one party's CSV or Parquet file; only `columns` if they are named."""
    file = Path(path)
    if file.suffix.lower() not in (".csv", ".parquet"):
        raise InvalidInput(f"{path}: only .csv and .parquet files are read")
    if not file.is_file():
        raise InvalidInput(f"{path}: no such file; check the name")
    try:
        arrow = _read_arrow(file)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"{path} cannot be read: {_harmless(reason)}") from None
    if len(set(arrow.column_names)) != len(arrow.column_names):
        raise InvalidInput(f"{path} names a column twice: rename one of them")
    if arrow.num_rows == 0:
        raise InvalidInput(f"{path} holds no records: a party without records takes no part")
    wanted = arrow.column_names if columns is None else list(dict.fromkeys(columns))
    missing = [name for name in wanted if name not in arrow.column_names]
    if missing:
        raise InvalidInput(
            f"{path} has no column {missing[0]!r}: it has {', '.join(sorted(arrow.column_names))}"
        )
    read = {name: _column(file, name, arrow.column(name)) for name in wanted}
    return Table(
        str(path),
        {name: values for name, (values, _) in read.items()},
        {name: kind for name, (_, kind) in read.items()},
        arrow.num_rows,
    )


def _harmless(reason: str) -> str:
    """The first words of a parser's message: the rest may quote records."""
    return reason.split(":")[0][:100] + "; is it a table with a header line?"


def _read_arrow(file: Path) -> pyarrow.Table:
    if file.suffix.lower() == ".parquet":
        return pyarrow.parquet.read_table(file)
    if file.stat().st_size == 0:
        raise ValueError("the file is empty")
    return pyarrow.csv.read_csv(
        file, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    )


def _column(file: Path, name: str, values: pyarrow.ChunkedArray) -> tuple[np.ndarray, str]:
    """Values and what kind they are."""
    kind = values.type
    types = pyarrow.types
    if types.is_null(kind):
        raise InvalidInput(f"{file}: column {name!r} has no value at all; nothing was spent")
    if types.is_dictionary(kind):
        values, kind = values.cast(kind.value_type), kind.value_type
    if types.is_boolean(kind):
        return np.array(values.to_pylist(), object), BOOLEAN
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = values.cast(pyarrow.float64(), safe=False)
        array = np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)
        return array, NUMBER
    if types.is_string(kind) or types.is_large_string(kind):
        return np.array(values.to_pylist(), object), TEXT
    raise InvalidInput(
        f"{file}: column {name!r} has type {kind}, which is neither number, text nor true/false: "
        "convert it first"
    )


def require_same_schema(tables: Sequence[Table]) -> None:
    """Refuse parties whose columns mean different things."""
    first = tables[0]
    for table in tables[1:]:
        for name, kind in first.kinds.items():
            if table.kinds.get(name) != kind:
                raise InvalidInput(
                    f"column {name!r} holds {kind}s in {first.name} but "
                    f"{table.kinds.get(name, 'nothing')} in {table.name}: bring both files to one "
                    "schema; nothing was spent"
                )
