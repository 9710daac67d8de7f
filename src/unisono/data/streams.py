"""Records that are read in batches, as often as they are asked for: larger than memory, if need be.

A stream knows how many records there are before any of them is read (from the metadata of files,
or by counting), so that public sizes can be checked without holding a record.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from unisono.data.arrow import ArrowColumn
from unisono.data.sources import RecordTable
from unisono.errors import InvalidInput

# Records of one batch: enough for arrays to be worth their while, few enough for any memory.
BATCH = 2**16


@dataclass(frozen=True, repr=False)
class RecordStream:
    """One party's records, batch by batch. `read` begins anew whenever it is called.

    `unordered`: it is not the records' own places that say in which order they come, as in the rows
    of a query. Whoever reads them by their place puts them into a secret order first.
    """

    name: str
    names: tuple[str, ...]
    rows: int
    read: Callable[[], Iterator[RecordTable]]
    decimal: str = "."
    unordered: bool = False

    def __repr__(self) -> str:
        return f"<RecordStream {self.name}: {self.rows} records of {len(self.names)} columns>"

    def batches(self) -> Iterator[RecordTable]:
        """All records; refused where there are now others than were counted."""
        found = 0
        for batch in self.read():
            found += batch.rows
            yield batch
        if found != self.rows:
            raise InvalidInput(
                f"{self.name} held {self.rows} records when they were counted, and {found} when "
                "they were read: let nobody write there while a study runs"
            )

    def table(self) -> RecordTable:
        """All records at once, in memory."""
        batches = list(self.batches())
        columns = {name: joined([batch.columns[name] for batch in batches]) for name in self.names}
        return RecordTable(self.name, columns, self.rows, self.decimal, self.unordered)


def read_ahead(batches: Iterator[RecordTable]) -> Iterator[RecordTable]:
    """The same batches; each is read while the one before it is worked on, in a thread of its own.
    For sources that read outside of Python's lock."""
    with ThreadPoolExecutor(1, "read-ahead") as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


def joined(parts: Sequence[Sequence[Any] | np.ndarray]) -> Sequence[Any] | np.ndarray:
    """The cells of several batches, each as it was."""
    arrow = [part.values for part in parts if isinstance(part, ArrowColumn)]
    if len(arrow) == len(parts) and len({values.type for values in arrow}) == 1:
        import pyarrow

        first = parts[0]
        assert isinstance(first, ArrowColumn)
        if not pyarrow.types.is_dictionary(arrow[0].type):
            return ArrowColumn(first.what, pyarrow.chunked_array(arrow))
    return [cell for part in parts for cell in part]


__all__ = ["BATCH", "RecordStream", "joined", "read_ahead"]
