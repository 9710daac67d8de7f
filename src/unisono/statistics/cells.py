"""What the statistics are given, and how each cell of it is read by itself.

A list, an array, one column of a frame, a file or a stream of batches; with persons, the records of
each that count. What cannot be read is missing, and whoever holds the cells is warned.
"""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unisono.core.defaults import warn_of_clipping
from unisono.core.ledger import Ledger
from unisono.core.streamed import StreamedColumns
from unisono.core.trust import Unit
from unisono.data import (
    RecordTable,
    UnreadValues,
    codes,
    listed,
    numbers,
    still_divided,
    warn_unread,
)
from unisono.data.cells import blanks, text_type
from unisono.data.cells import truths as spelled_truths
from unisono.data.given import HELD, is_frame, stream_of, table_of
from unisono.data.order import order_key
from unisono.data.people import as_rows, drawn_persons, require_same_persons
from unisono.data.people import records_per_person as usual_group
from unisono.data.streams import RecordStream
from unisono.errors import ClippedValues, InvalidInput
from unisono.releases.exact_sums import STEPS_IN_RANGE

# Sums of so small or so large values, or their grid, are not numbers that doubles hold; surveys
# hold records as 32-bit floats.
DOUBLES, SINGLES = (1e-250, 1e250), (1e-30, 1e30)

# One column of cells as float64 (n,), NaN where a cell cannot be read; whoever holds them is told.
Read = Callable[[Any], np.ndarray]


@dataclass(frozen=True)
class Given:
    """Values as they were given: a list, a stream of batches, or a list by persons (persons, k)."""

    cells: Any = None
    stream: RecordStream | None = None
    column: str = ""
    people: np.ndarray | None = None

    @property
    def listed(self) -> bool:
        """Whether they are a list of records, each of them by itself."""
        return self.stream is None and self.people is None

    @property
    def group(self) -> int | None:
        return None if self.people is None else self.people.shape[1]

    def columns(self, read: Read) -> tuple[int, Any]:
        """How many records or persons there are, and what a survey of one column reads of them."""
        if self.stream is not None:
            return self.stream.rows, self._streamed(self.stream, read)
        own = read(self.cells).astype(np.float32)[:, None]
        if self.people is None:
            return len(own), (own,)
        if self.group == 1:
            return len(self.people), (own[self.people[:, 0]],)
        flat = own[self.people.reshape(-1)]
        return len(self.people), as_rows((flat,), self.people >= 0)

    def _streamed(self, stream: RecordStream, read: Read) -> StreamedColumns:
        def batches() -> Iterator[tuple[np.ndarray, ...]]:
            unread = 0
            for batch in stream.batches():
                with warnings.catch_warnings():  # once, at the end
                    warnings.simplefilter("ignore", UnreadValues)
                    warnings.simplefilter("ignore", ClippedValues)
                    own = read(batch.column(self.column))
                unread += int(np.count_nonzero(np.isnan(own)))
                yield (own.astype(np.float32)[:, None],)
            if unread:
                warnings.warn(
                    f"{unread} of {stream.rows} values of {self.column!r} in {stream.name} cannot "
                    "be read: each counts as missing, which changes what is read of no other "
                    "record. Nobody else is told",
                    UnreadValues,
                    stacklevel=2,
                )

        return StreamedColumns(stream.rows, ((1,),), batches)


def given_values(
    values: Any,
    column: str | None,
    persons: Any,
    group: int | None,
    ledger: Ledger,
    number: bool = False,
) -> Given:
    """Values in memory, of persons if they are named, or a stream, where it is long. Where they are
    to be a `number` each, a column whose declared type is text is refused."""
    if number:
        require_number_type(values, column)
    if column is None:
        if is_frame(values) or isinstance(values, os.PathLike) or callable(values):
            raise InvalidInput(
                f"got a {type(values).__name__} with several columns: say which with column"
            )
        if isinstance(persons, str):
            raise InvalidInput(
                f"persons = {persons!r}, but values are a list without names: give a frame and a "
                "column, or one id for each value"
            )
        cells, owners = values, persons
    else:
        stream = stream_of(values, [column])
        if stream is not None and persons is None and stream.rows > HELD:
            return Given(stream=stream, column=column)
        wanted = [column, *([persons] if isinstance(persons, str) else [])]
        table = table_of(values, wanted)
        cells = table.column(column)
        owners = table.column(persons) if isinstance(persons, str) else persons
    if owners is None:
        return Given(cells)
    cells, ids = listed(cells), list(listed(owners))
    if len(ids) != len(cells):
        raise InvalidInput(f"{len(ids)} persons for {len(cells)} values: name one for each")
    named = persons if isinstance(persons, str) else ""
    require_same_persons(ledger.policy, Unit.PERSON, named)
    owner = ledger.policy.dataset
    key = order_key(ledger.seed, owner)
    people = drawn_persons(ids, usual_group(group), key, owner, named)
    return Given(cells, people=people)


def require_number_type(values: Any, column: str | None) -> None:
    """Refuse values whose declared type is text, before anything is charged: text that spells
    numbers, too. A program that infers types from records, as `pandas.read_csv` does, lets one
    record decide this refusal, which the threat model therefore lists."""
    found = text_type(values if column is None else _declared(values, column))
    if found is not None:
        what = "values are" if column is None else f"column {column!r} is"
        raise InvalidInput(
            f"{what} of type {found}, and numbers are needed.\nConvert them first, as "
            "values.astype(float) or pandas.to_numeric(values).\nNo privacy budget was spent."
        )


def _declared(frame: Any, column: str) -> Any:
    """The column of a frame as the frame itself gives it; None of files, streams and queries."""
    names = getattr(frame, "column_names", getattr(frame, "columns", frame))
    if not is_frame(frame) or column not in list(names):
        return None
    try:
        return frame.columns[column] if isinstance(frame, RecordTable) else frame[column]
    except TypeError:  # a query that is not run yet
        return None


def named(name: str, column: str | None) -> str:
    """What answers call values: a column by its own name, where they have no other."""
    return column if column is not None and name == "values" else name


def truths(cells: Any) -> np.ndarray:
    """1 for true, 0 for false, NaN for a value that is neither; whoever holds the cells is told."""
    flags = spelled_truths(listed(cells))
    warn_unread(np.isnan(flags), "values", "true or false (write a condition, as ages > 65)")
    return flags


def places_in(categories: Sequence[Any]) -> Read:
    def read(cells: Any) -> np.ndarray:
        places = codes(listed(cells), categories)
        return np.where(places < 0, np.nan, places)

    return read


def between_bounds(low: float, high: float, divided: bool = False) -> Read:
    return lambda cells: np.clip(clean_numbers(cells, low, high, divided), low, high)


def read_numbers(
    values: Any,
    bounds: tuple[float, float],
    centred: bool = False,
    divided: bool = False,
) -> tuple[np.ndarray, float, float]:
    """Numbers (n,) and the bounds, for sums in doubles; they are clipped where they are used."""
    low, high = public_range(bounds, centred)
    return clean_numbers(values, low, high, divided), low, high


def public_range(
    bounds: tuple[float, float],
    centred: bool = False,
    within: tuple[float, float] = DOUBLES,
) -> tuple[float, float]:
    """Public bounds, or a refusal of what are none."""
    try:
        low, high = (float(b) for b in bounds)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"bounds = {bounds!r} are not two numbers: give the public (lowest, highest) value, "
            "never read from the data"
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput(
            f"bounds {bounds!r} are not a finite range: give the public lowest and highest value, "
            "never read from the data"
        )
    smallest, largest = within
    if not smallest < max(abs(low), abs(high)) < largest:
        raise InvalidInput(
            f"bounds {bounds!r} are too small or too large to add up in "
            f"{'doubles' if within == DOUBLES else '32-bit floats'}: choose another unit for "
            "values and bounds"
        )
    if centred and (high / 2 - low / 2) / STEPS_IN_RANGE < math.ulp(max(abs(low), abs(high))):
        raise InvalidInput(
            f"bounds {bounds!r} are too narrow for where they lie: doubles cannot tell the values "
            "between them apart; subtract a public constant from values and bounds first"
        )
    return low, high


def clean_numbers(values: Any, low: float, high: float, divided: bool = False) -> np.ndarray:
    """Numbers (n,), NaN where a value is none; local warnings say how many cannot be read or are
    clipped. An empty one needs none, unless the answer is `divided` by the number of all records,
    so that it moves the answer."""
    column = listed(values)
    if _all_finite(column):
        records = np.asarray(column)
    else:
        records = numbers(column)
        moved = still_divided("complete=True") if divided else ""
        unread = np.isnan(records)
        unread = unread if divided else unread & ~blanks(column)
        warn_unread(unread, "values", "finite numbers", moved)
    warn_of_clipping(records, low, high, "values")
    return records


def _all_finite(column: Any) -> bool:
    """Whether these are finite doubles, which are read as they are, without a copy."""
    if not isinstance(column, np.ndarray) or column.dtype != np.float64:
        return False
    return bool(np.isfinite(column.min()) and np.isfinite(column.max()))  # NaN is both
