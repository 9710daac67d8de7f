"""A party's records: CSV, Parquet, arrays or lists in, numbers and places of categories out.

A record is read by itself. What is read of it depends on its own line or values and on public
declarations (the header, the bounds, the categories), never on another record: nothing about a
column is inferred from what is in it. So changing one record changes how one record is read, which
is what every guarantee here takes for granted.

    a number      what a cell spells (`as_number`), else missing: NaN
    a category    its place in the public list (`codes`), else none: -1
    a line        of a CSV file ends at a newline and nowhere else, quotes or not; one that does
                  not parse is a record of missing values, and the line after it another record

Nothing here is private by itself: it runs on the party's own machine, and its warnings (which may
name a record) belong on the party's own terminal. A record that cannot be read is no error: a run
that stopped there would tell everybody about it.
"""

import datetime
import math
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from unisono.errors import InvalidInput

_NUMBERS = (int, float, np.integer, np.floating, np.bool_, Decimal)
_TRUTHS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
# Beyond it doubles cannot tell whole numbers apart, so that equal numbers are no equal values.
_LARGEST_WHOLE = 2.0**53
# One field of a line and what ends it: in quotes, where two stand for one, or not beginning with
# one (as in 5 ft 10"), where quotes are letters like others.
_FIELD = re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"|((?:[^",][^,]*+)?+))(,|\Z)')


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


# ------------------------------------------------------------- one value


def as_number(value: Any) -> float:
    """The finite number that one value is or spells; NaN for everything else.

    >>> [as_number(value) for value in (7, " 2.50", "true", "n/a", None, "1e999")]
    [7.0, 2.5, 1.0, nan, nan, nan]
    """
    if isinstance(value, str):
        if value in _TRUTHS:
            return _TRUTHS[value]
        if "_" in value or not value.isascii():  # Python reads 1_000 as a number; files do not
            return math.nan
    elif not isinstance(value, _NUMBERS):
        return math.nan
    try:
        number = float(value)
    except (ValueError, OverflowError, TypeError):  # numpy's durations are integers, and no numbers
        return math.nan
    return number if math.isfinite(number) else math.nan


def as_text(value: Any) -> str | None:
    """How one value is written in a list of categories; None where it is missing.

    >>> [as_text(value) for value in (3.0, True, "north", 2.5, "", None)]
    ['3', 'true', 'north', '2.5', None, None]
    """
    if isinstance(value, str):
        return str(value) or None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            return None
        return str(int(value)) if float(value).is_integer() else str(value)
    if isinstance(value, (datetime.date, np.datetime64, np.timedelta64, Decimal)):
        return str(value)
    if isinstance(value, (int, np.integer)):
        try:
            return str(int(value))
        except ValueError:  # thousands of digits
            return None
    return None


# ------------------------------------------------------------- one value of each record


def listed(values: Any) -> Sequence[Any] | np.ndarray:
    """Values of records (n,), one for each; several of one record would count it often.

    A list is never made an array, which would read all its values as one kind, and neither is a
    column of a frame whose own type knows missing values: for the sake of a single one NumPy would
    make all whole numbers floats.
    """
    if hasattr(values, "__array__"):
        values = _unconverted(values)
        if getattr(values, "ndim", 1) != 1:
            raise InvalidInput(
                f"got {values.ndim} dimensions: give a flat list with one value for each record"
            )
    elif not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise InvalidInput(
            f"got a {type(values).__name__}: give a flat list with one value for each record"
        )
    if not len(values):
        raise InvalidInput(
            "the data are empty: a statistic needs at least one value; nothing was spent"
        )
    return values


def _unconverted(values: Any) -> Any:
    """An array of the type that it has, or its values one by one where NumPy has no such type."""
    if getattr(values, "ndim", 1) != 1:
        return values
    if isinstance(values, np.ma.MaskedArray):
        return values.tolist()  # a masked value is missing
    if isinstance(getattr(values, "dtype", None), np.dtype):
        return np.asarray(values)
    if hasattr(values, "to_pylist") and hasattr(values, "type"):  # Arrow
        return _cells("the list", values)
    if hasattr(values, "astype"):  # pandas
        return np.asarray(values.astype(object))
    found = getattr(values, "to_list", None) or getattr(values, "tolist", None)  # polars and others
    return found() if found is not None else np.asarray(values)


def numbers(values: Iterable[Any]) -> np.ndarray:
    """`as_number` of each value: float64 (n,)."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            wide = values.astype(np.float64)
        return np.where(np.isfinite(wide), wide, np.nan)
    return np.array([as_number(value) for value in values], np.float64)


def codes(values: Iterable[Any], categories: Sequence[Any]) -> np.ndarray:
    """The place of each value in the public list, int64 (n,); -1 for those that are not in it.

    A value is in its place by its text, as letters, spaces and case are; where no text is equal, by
    its number, so that 3.0 is 3, and TRUE is true, and 1.

    >>> codes(["north", 2, "2.0", "n/a", None], ["2", "north"])
    array([ 1,  0,  0, -1, -1])
    """
    names = [as_text(category) for category in categories]
    if not names or None in names or len(set(names)) < len(names):
        raise InvalidInput(
            f"categories {list(categories)!r} are not distinct values: name at least one, each "
            "once, from public knowledge"
        )
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        distinct, places = np.unique(values, return_inverse=True)
        return codes(list(distinct), categories)[places]
    by_text = {name: place for place, name in enumerate(names)}
    by_number: dict[float, int] = {}
    for place, category in enumerate(categories):
        by_number.setdefault(as_number(category), place)

    def code(value: Any) -> int:
        text = as_text(value)
        if text in by_text:
            return by_text[text]
        number = as_number(value)
        return by_number.get(number, -1) if abs(number) < _LARGEST_WHOLE else -1

    return np.array([code(value) for value in values], np.int64)


def warn_unread(unread: np.ndarray, what: str, kind: str) -> None:
    """Tell whoever holds the records, and nobody else, which of `what` are not `kind`."""
    if unread.any():
        warnings.warn(
            f"{np.count_nonzero(unread)} of {len(unread)} {what} are not {kind}, first in record "
            f"{int(np.argmax(unread)) + 1}: each counts as missing, which changes what is read of "
            "no other record; correct them if they should count. Nobody else is told",
            UnreadValues,
            stacklevel=3,
        )


# ------------------------------------------------------------- files


@dataclass(frozen=True, repr=False)
class RecordTable:
    """One party's records, by column, as they stand in its file: what a cell means is asked of it
    alone, by `numbers` or `codes`. It prints its shape and never its values."""

    name: str
    columns: Mapping[str, Sequence[Any] | np.ndarray]
    rows: int

    def __repr__(self) -> str:
        return f"<RecordTable {self.name}: {self.rows} records of {len(self.columns)} columns>"

    def column(self, name: str) -> Sequence[Any] | np.ndarray:
        """A column, or a refusal that lists what there is."""
        _require_columns(self.name, self.columns, [name])
        return self.columns[name]

    def numbers(self, name: str) -> np.ndarray:
        """A column of numbers (rows,); NaN where a cell is none."""
        return numbers(self.column(name))

    def codes(self, name: str, categories: Sequence[Any]) -> np.ndarray:
        """Places in the public list (rows,); -1 for cells that are not in it."""
        return codes(self.column(name), categories)

    def warn_unread(self, unread: np.ndarray, name: str, kind: str) -> None:
        warn_unread(unread, f"values of {name!r} in {self.name}", kind)


def read_table(
    path: str | Path, columns: Sequence[str] | None = None, multiline: bool = False
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
    try:
        if file.suffix.lower() == ".parquet":
            cells, rows = _read_parquet(file, columns)
        else:
            cells, rows = _read_csv(file, columns, multiline)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or 'it is damaged'}") from None
    if rows == 0:
        raise InvalidInput(f"{path} holds no records: a party without records takes no part")
    return RecordTable(str(path), cells, rows)


def _require_columns(file: Any, names: Collection[str], wanted: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise InvalidInput(f"{file} names a column twice: rename one of them")
    missing = [name for name in wanted if name not in names]
    if missing:
        raise InvalidInput(
            f"{file} has no column {missing[0]!r}: it has {', '.join(sorted(names))}"
            f"{_separated(names)}"
        )


def _separated(names: Collection[str]) -> str:
    """A hint where one name looks like a whole header."""
    found = [mark for name in names for mark in (";", "\t", "|") if mark in name]
    if len(names) != 1 or not found:
        return ""
    return f"; it looks separated by {found[0]!r}: save it with commas"


# ------------------------------------------------------------- CSV


def _read_csv(
    file: Path, columns: Sequence[str] | None, multiline: bool
) -> tuple[dict[str, list[Any]], int]:
    """The header, and one record for every line after it.

    A blank line is a record too, of missing values. Were it passed over, a record that is left
    blank (an empty cell, where there is one column) would change how many records there are. Only
    the newline that ends the last line begins no other.
    """
    lines = file.read_bytes().split(b"\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    first, *records = _joined(lines) if multiline else lines
    names = _fields(first.removeprefix(b"\xef\xbb\xbf"))
    if names is None or not any(names):
        raise InvalidInput(
            f"{file} cannot be read: its first line holds no names of columns in UTF-8, separated "
            "by commas"
        )
    wanted = names if columns is None else list(dict.fromkeys(columns))
    _require_columns(file, names, wanted)
    broken: list[str | None] = [None] * len(names)
    rows = []
    for line in records:
        fields = _fields(line)
        rows.append(fields if fields is not None and len(fields) == len(names) else broken)
    places = [names.index(name) for name in wanted]
    return {
        name: [row[place] for row in rows] for name, place in zip(wanted, places, strict=True)
    }, len(rows)


def _fields(line: bytes) -> list[str] | None:
    """The cells of one line (RFC 4180); None where its quotes or its bytes make no sense.

    >>> _fields(b'1,"a ""b"", c",'), _fields(b'1,5 ft 10"'), _fields(b'1,"a" b')
    (['1', 'a "b", c', ''], ['1', '5 ft 10"'], None)
    """
    try:
        text = line.removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        return None
    if '"' not in text:
        return text.split(",")
    fields, at, more = [], 0, ","
    while more:
        found = _FIELD.match(text, at)
        if found is None:
            return None
        quoted, bare, more = found.groups()
        fields.append(bare if quoted is None else quoted.replace('""', '"'))
        at = found.end()
    return fields


def _joined(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines put together wherever a newline stands within quotes."""
    pending: list[bytes] = []
    quotes = 0
    for line in lines:
        pending.append(line)
        quotes += line.count(b'"')
        if quotes % 2 == 0:
            yield b"\n".join(pending)
            pending, quotes = [], 0
    if pending:
        yield b"\n".join(pending)


# ------------------------------------------------------------- Parquet


def _read_parquet(file: Path, columns: Sequence[str] | None) -> tuple[dict[str, list[Any]], int]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(file) as opened:
            names = opened.schema_arrow.names
            wanted = names if columns is None else list(dict.fromkeys(columns))
            _require_columns(file, names, wanted)
            table = opened.read(columns=wanted)
        return {
            name: _cells(f"{file}: column {name!r}", table.column(name)) for name in wanted
        }, table.num_rows
    except pyarrow.ArrowException as error:  # its further words may quote records
        reason = str(error).partition(":")[0][:100]
        raise InvalidInput(f"{file} cannot be read: {reason}; is it a Parquet file?") from None


def _cells(what: str, values: Any) -> list[Any]:
    """Values as numbers, truths or text, by the type that the file's schema states.

    Text is decoded cell by cell, and dates are written by Arrow: converted to Python's all at once,
    one that cannot be would take the others with it.
    """
    import pyarrow
    from pyarrow import types

    kind = values.type
    if types.is_dictionary(kind):  # Arrow would decode it only if all of it is UTF-8
        cells = []
        for chunk in getattr(values, "chunks", [values]):
            known = _cells(what, chunk.dictionary)
            cells += [None if i is None else known[i] for i in chunk.indices.to_pylist()]
        return cells
    if types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind):
        return values.to_pylist()
    if types.is_floating(kind) or types.is_decimal(kind):
        return values.cast(pyarrow.float64(), safe=False).to_pylist()
    if types.is_date(kind) or types.is_timestamp(kind):
        return values.cast(pyarrow.string()).to_pylist()
    if any(
        check(kind)
        for check in (
            types.is_string,
            types.is_large_string,
            types.is_binary,
            types.is_large_binary,
        )
    ):
        return [_decoded(value) for value in values.cast(pyarrow.large_binary()).to_pylist()]
    raise InvalidInput(
        f"{what} has type {kind}, which is neither number, text, date nor true/false: convert it "
        "first"
    )


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
