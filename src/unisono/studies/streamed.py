"""A party's records of a study, read in batches: larger than memory, if need be.

As `table` says for a table: read, clipped and encoded from the study's declarations, each record by
itself. What could not be read or was clipped is counted, and told at the end, to the party alone.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from unisono.core.streamed import StreamedColumns
from unisono.data.cells import blanks
from unisono.data.columns import NumericColumn
from unisono.data.sources import RecordTable, UnreadValues
from unisono.data.streams import RecordStream
from unisono.errors import ClippedValues
from unisono.studies.schema import StudyFile
from unisono.studies.stages import SplitRecords
from unisono.studies.table import Values

Encode = Callable[[SplitRecords], tuple[np.ndarray, ...]]


@dataclass(frozen=True, repr=False)
class StreamedRecords:
    """Records that are read whenever a stage opens them; none are kept out for a test."""

    file: StudyFile
    stream: RecordStream

    def columns(self, encode: Encode) -> StreamedColumns:
        """What a stage reads of them."""
        nobody = {name: np.zeros(0) for name in self.file.data.columns}
        shapes = tuple(column.shape[1:] for column in encode(SplitRecords(nobody, nobody)))

        def read() -> Iterator[tuple[np.ndarray, ...]]:
            for values in self._values():
                yield encode(SplitRecords(values, nobody))

        return StreamedColumns(self.stream.rows, shapes, read)

    def _values(self) -> Iterator[Values]:
        columns, seen = self.file.data.columns, 0
        unread, outside = dict.fromkeys(columns, 0), dict.fromkeys(columns, 0)
        declared = dict.fromkeys(columns, 0)
        first: dict[str, int] = {}
        for batch in self.stream.batches():
            values = {}
            for name, column in columns.items():
                cells = batch.column(name)
                own = column.read(cells, batch.decimal)
                missing = np.isnan(own)
                nowhere = int(np.count_nonzero(missing))
                if nowhere and column.incomplete:  # as in `studies.table`
                    empty = missing & blanks(column.uncoded(cells, batch.decimal))
                    declared[name] += int(np.count_nonzero(empty))
                    missing &= ~empty
                if missing.any():
                    first.setdefault(name, seen + int(np.argmax(missing)) + 1)
                    unread[name] += int(np.count_nonzero(missing))
                if isinstance(column, NumericColumn):
                    clipped = np.clip(own, *column.span)
                    # NaN differs from itself, and is not outside.
                    outside[name] += int(np.count_nonzero(clipped != own)) - nowhere
                    own = clipped
                values[name] = own
            seen += batch.rows
            yield values
        RecordTable(self.stream.name, {}, self.stream.rows).tell_empty(declared)
        self._tell(unread, first, outside)

    def _tell(self, unread: dict[str, int], first: dict[str, int], outside: dict[str, int]) -> None:
        name, rows = self.stream.name, self.stream.rows
        for column, number in unread.items():
            if number:
                warnings.warn(
                    f"{number} of {rows} values of {column!r} in {name} are not "
                    f"{self.file.data.columns[column].wanted}, first in record {first[column]}: "
                    "each counts as missing, which changes what is read of no other record; "
                    "correct them if they should count. Nobody else is told",
                    UnreadValues,
                    stacklevel=2,
                )
        for column, number in outside.items():
            if number:
                warnings.warn(
                    f"{name}: {number} of {rows} values of {column!r} lie outside the public "
                    "bounds and are clipped to them; nobody else is told",
                    ClippedValues,
                    stacklevel=2,
                )


__all__ = ["StreamedRecords"]
