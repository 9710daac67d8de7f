"""What one cell is: a number, a truth, a date, a name; and the same for a cell of each record.

Every function of many cells is the function of one cell, repeated. Nothing about a column is
inferred from what is in it, so that changing one record changes how one record is read.
"""

import datetime
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np

from unisono.data.arrow import ArrowColumn
from unisono.errors import InvalidInput

_NUMBERS = (int, float, np.integer, np.floating, np.bool_, Decimal)
_TRUTHS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
# Further spellings of true and false where a column is declared to hold them, in lower case.
_TRUE, _FALSE = (
    frozenset(("true", "t", "yes", "y", "1", "on")),
    frozenset(("false", "f", "no", "n", "0", "off")),
)
# How files say that a value is missing; listed values of a category come first.
_BLANK = frozenset(("", "na", "n/a", "nan", "null", "none", ".", "?", "#n/a"))
# Beyond it doubles cannot tell whole numbers apart, so that equal numbers are no equal values.
_LARGEST_WHOLE = 2.0**53
_COMMA = re.compile(r"\s*[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?\s*")
_EPOCH = datetime.datetime(1970, 1, 1)
_DAY = 86_400.0


def as_number(value: Any, decimal: str = ".") -> float:
    """The finite number that one value is or spells; NaN for everything else. With a `decimal`
    comma 2,5 is a number, and 2.5 is none: it might be meant for 25.

    >>> [as_number(value) for value in (7, " 2.50", "true", "n/a", None, "1e999")]
    [7.0, 2.5, 1.0, nan, nan, nan]
    >>> as_number("2,5", ","), as_number("2.5", ",")
    (2.5, nan)
    """
    if isinstance(value, str):
        value = value.strip()
        if value in _TRUTHS:
            return _TRUTHS[value]
        if "_" in value or not value.isascii():  # Python reads 1_000 as a number; files do not
            return math.nan
        if decimal == ",":
            if "." in value:
                return math.nan
            if _COMMA.fullmatch(value):
                value = value.replace(",", ".")
    elif not isinstance(value, _NUMBERS):
        return math.nan
    try:
        number = float(value)
    except (ValueError, OverflowError, TypeError):  # numpy's durations are integers, and no numbers
        return math.nan
    return number if math.isfinite(number) else math.nan


def as_text(value: Any) -> str | None:
    """How one value is written in a list of categories, without white space around it; None where
    it is missing.

    >>> [as_text(value) for value in (3.0, True, " north ", 2.5, " ", None)]
    ['3', 'true', 'north', '2.5', None, None]
    """
    if isinstance(value, str):
        return str(value).strip() or None
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


def as_truth(value: Any) -> float:
    """1 for what is or spells true, 0 for false; NaN for everything else.

    >>> [as_truth(value) for value in ("Yes", "f", 0, True, "2", None)]
    [1.0, 0.0, 0.0, 1.0, nan, nan]
    """
    text = as_text(value)
    word = None if text is None else text.lower()
    return 1.0 if word in _TRUE else 0.0 if word in _FALSE else math.nan


def as_day(value: Any, pattern: str | None = None) -> float:
    """Days since 1970 of a date, a time or its text, by the pattern or ISO 8601; else NaN.

    >>> as_day("1970-01-02"), as_day("03.01.1970 12:00", "%d.%m.%Y %H:%M"), as_day("tomorrow")
    (1.0, 2.5, nan)
    """
    if isinstance(value, np.datetime64):
        value = None if np.isnat(value) else value.astype("datetime64[us]").item()
    if isinstance(value, str):
        return _day_of_text(value.strip(), pattern)
    if isinstance(value, datetime.datetime):
        return _days_since(value)
    if isinstance(value, datetime.date):
        return float((value - _EPOCH.date()).days)
    return math.nan


@lru_cache(maxsize=65_536)  # dates repeat, and reading one is slow; what it is depends on it alone
def _day_of_text(text: str, pattern: str | None) -> float:
    try:
        if pattern is None:
            return _days_since(datetime.datetime.fromisoformat(text))
        return _days_since(datetime.datetime.strptime(text, pattern))
    except (ValueError, OverflowError):
        return math.nan


def _days_since(moment: datetime.datetime) -> float:
    """In universal time, where a zone is given."""
    try:
        if moment.tzinfo is not None:
            moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
        return float((moment - _EPOCH).total_seconds() / _DAY)
    except (ValueError, OverflowError):  # pandas' missing time, or the ends of the calendar
        return math.nan


def is_blank(value: Any) -> bool:
    """Whether a cell says nothing: empty, or one of the usual words for it.

    >>> [is_blank(value) for value in ("", " NA ", "?", None, math.nan, "north", 0)]
    [True, True, True, True, True, False, False]
    """
    if isinstance(value, str):
        return value.strip().lower() in _BLANK
    return as_text(value) is None


# ------------------------------------------------------------- one value of each record


def listed(values: Any) -> Sequence[Any] | np.ndarray:
    """Values of records (n,), one for each; several of one record would count it often.

    A list is never made an array, which would read all its values as one kind, and neither is a
    column of a frame whose own type knows missing values: for the sake of a single one NumPy would
    make all whole numbers floats.
    """
    if isinstance(values, Iterator):  # batches, one after the other
        values = [value for batch in values for value in listed(batch)]
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
    if hasattr(values, "to_pylist") and hasattr(values, "type"):
        from unisono.data.arrow import arrow_cells

        return arrow_cells("the list", values)
    if hasattr(values, "astype"):  # pandas
        return np.asarray(values.astype(object))
    found = getattr(values, "to_list", None) or getattr(values, "tolist", None)  # polars and others
    return found() if found is not None else np.asarray(values)


def text_type(values: Any) -> str | None:
    """The declared type of an array or a column, where it is text or objects; None for others and
    for lists, which have none. No value is looked at.

    >>> text_type(np.array(["7"])), text_type(np.array([7])), text_type(["7"])
    ('<U1', None, None)
    """
    declared = getattr(values, "dtype", getattr(values, "type", None))
    if isinstance(declared, np.dtype):
        return str(declared) if declared.kind in "OSU" else None
    named = str(declared).lower()
    text = ("str", "utf8", "large_", "object", "categor", "enum", "binary", "dictionary")
    return named if declared is not None and named.startswith(text) else None


def numbers(values: Iterable[Any], decimal: str = ".") -> np.ndarray:
    """`as_number` of each value: float64 (n,)."""
    if isinstance(values, ArrowColumn):
        if values.numeric is None:
            return values.each(lambda cells: numbers(cells, decimal))
        return _finite(values.numeric)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            return _finite(values.astype(np.float64))
    return np.array([as_number(value, decimal) for value in values], np.float64)


def _finite(values: np.ndarray) -> np.ndarray:
    """NaN in the place of what is infinite; the same array where nothing is."""
    infinite = np.isinf(values)
    return np.where(infinite, np.nan, values) if infinite.any() else values


def codes(values: Iterable[Any], categories: Sequence[Any], decimal: str = ".") -> np.ndarray:
    """The place of each value in the public list, int64 (n,); -1 for those that are not in it.

    A value is in its place by its text, without white space around it; where no text is equal, by
    its text in lower case, unless two categories share one; then by its number, so that 3.0 is 3,
    and TRUE is true, and 1; with a `decimal` comma 3,0 is 3.

    >>> codes(["North ", 2, "2.0", "n/a", None], ["2", "north"])
    array([ 1,  0,  0, -1, -1])
    """
    names = [as_text(category) for category in categories]
    if not names or None in names or len(set(names)) < len(names):
        raise InvalidInput(
            f"categories {list(categories)!r} are not distinct values: name at least one, each "
            "once, from public knowledge"
        )
    if isinstance(values, ArrowColumn):
        return values.each(lambda cells: codes(cells, categories, decimal))
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        distinct, places = np.unique(values, return_inverse=True)
        return codes(list(distinct), categories)[places]
    by_text = {name: place for place, name in enumerate(names)}
    folded = [str(name).casefold() for name in names]
    by_case = {name: place for place, name in enumerate(folded) if folded.count(name) == 1}
    by_number: dict[float, int] = {}
    for place, category in enumerate(categories):
        by_number.setdefault(as_number(category), place)

    def code(value: Any) -> int:
        text = as_text(value)
        if text in by_text:
            return by_text[text]
        if text is not None and text.casefold() in by_case:
            return by_case[text.casefold()]
        number = as_number(value, decimal)
        return by_number.get(number, -1) if abs(number) < _LARGEST_WHOLE else -1

    return np.array([code(value) for value in values], np.int64)


def truths(values: Iterable[Any]) -> np.ndarray:
    """`as_truth` of each value: float64 (n,)."""
    if isinstance(values, ArrowColumn):
        return values.each(truths)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        wide = values.astype(np.float64)
        return np.where((wide == 0) | (wide == 1), wide, np.nan)
    return np.array([as_truth(value) for value in values], np.float64)


def dates(values: Iterable[Any], pattern: str | None = None) -> np.ndarray:
    """`as_day` of each value: float64 (n,)."""
    if isinstance(values, ArrowColumn):
        return values.each(lambda cells: dates(cells, pattern))
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        micro = values.astype("datetime64[us]")
        days = micro.astype(np.int64) / (1e6 * _DAY)
        return np.where(np.isnat(micro), np.nan, days)
    return np.array([as_day(value, pattern) for value in values], np.float64)


def blanks(values: Iterable[Any]) -> np.ndarray:
    """`is_blank` of each value: bool (n,)."""
    if isinstance(values, ArrowColumn):
        if values.numeric is None:
            return values.each(blanks)
        values = values.numeric
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return ~np.isfinite(values)
    return np.array([is_blank(value) for value in values], bool)


def uncoded(
    values: Iterable[Any], missing_codes: Sequence[Any], decimal: str = "."
) -> Sequence[Any] | np.ndarray | Iterable[Any]:
    """Values (n,) without those that a public list says stand for nothing, by text or number as in
    `codes`: these are None, or NaN among floats.

    >>> uncoded([5, "999", 999.0, "x"], [999])
    [5, None, None, 'x']
    """
    if not missing_codes:
        return values
    if not isinstance(values, (ArrowColumn, np.ndarray)):
        values = list(values)
    coded = codes(values, missing_codes, decimal) >= 0
    if isinstance(values, ArrowColumn) and values.numeric is not None:
        values = values.numeric
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return np.where(coded, np.nan, values)
    return [None if gone else value for gone, value in zip(coded, values, strict=True)]


__all__ = [
    "as_day",
    "as_number",
    "as_text",
    "as_truth",
    "blanks",
    "codes",
    "dates",
    "is_blank",
    "listed",
    "numbers",
    "text_type",
    "truths",
    "uncoded",
]
