"""Columns that are read block by block whenever they are opened: larger than memory, if need be.

Blocks have one public number of rows, the last padded with rows that count for nothing, so that one
compiled program serves all of them and every number of records. Which block a record lies in
follows from its place alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

# Rows of a block: a multiple of 64, in which compiled programs treat all rows alike.
BLOCK = 2**16
# The same of columns in memory: so few that a short table is mostly records, and a block of rows
# stays in the cache.
HELD_BLOCK = 2**12
Columns = tuple[np.ndarray, ...]


@dataclass(frozen=True, repr=False)
class StreamedColumns:
    """A party's columns, as many `rows`, each record of these `shapes`; `read` begins anew whenever
    it is called, in batches of any length. Records that are not `counted` add nothing. Prints its
    shape and never its values."""

    rows: int
    shapes: tuple[tuple[int, ...], ...]
    read: Callable[[], Iterator[Columns]]
    block: int = BLOCK
    counted: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"<StreamedColumns: {self.rows} records>"

    @classmethod
    def of(
        cls,
        columns: Sequence[np.ndarray],
        block: int = BLOCK,
        counted: np.ndarray | None = None,
    ) -> "StreamedColumns":
        """Columns in memory, as a stream of one batch."""
        shapes = tuple(np.shape(column)[1:] for column in columns)
        return cls(len(columns[0]), shapes, lambda: iter([tuple(columns)]), block, counted)

    @property
    def block_shapes(self) -> list[tuple[int, ...]]:
        return [(self.block, *shape) for shape in self.shapes]

    def blocks(self) -> Iterator[tuple[Columns, np.ndarray]]:
        """All records in blocks of float32, and which of their rows count."""
        if self.counted is None:
            yield from self._blocks()
            return
        for number, (block, mask) in enumerate(self._blocks()):
            own = self.counted[number * self.block : (number + 1) * self.block]
            mask[: len(own)] &= own
            yield block, mask

    def _blocks(self) -> Iterator[tuple[Columns, np.ndarray]]:
        """All records in blocks of float32, and which of their rows are real; in memory they lie as
        those of the batches do, by row or by column. No records make one block of padding: where
        sizes are hidden, the last record that is taken away must not stop a release."""
        held: list[np.ndarray] = []
        filled, size = 0, self.block
        for batch in self.read():
            begin, length = 0, len(batch[0])
            while begin < length:
                if not filled and length - begin >= size:  # as it is, without a copy
                    end = begin + size
                    whole = (np.asarray(column[begin:end], np.float32) for column in batch)
                    yield tuple(whole), np.ones(size, bool)
                    begin = end
                    continue
                held = held or self._empty(batch)
                taken = min(size - filled, length - begin)
                for block, column in zip(held, batch, strict=True):
                    block[filled : filled + taken] = column[begin : begin + taken]
                filled, begin = filled + taken, begin + taken
                if filled == size:
                    yield tuple(held), np.ones(size, bool)
                    held, filled = [], 0  # a program may still be reading the last ones
        if filled or not self.rows:
            held = held or [np.zeros(shape, np.float32) for shape in self.block_shapes]
            yield tuple(held), np.arange(size) < filled

    def _empty(self, batch: Columns) -> list[np.ndarray]:
        return [
            np.zeros_like(column, np.float32, shape=shape)
            for column, shape in zip(batch, self.block_shapes, strict=True)
        ]


__all__ = ["BLOCK", "HELD_BLOCK", "StreamedColumns"]
