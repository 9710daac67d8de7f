"""Columns that are read block by block whenever they are opened: larger than memory, if need be.

Blocks have one public number of rows, the last padded with rows that count for nothing, so that one
compiled program serves all of them. Which block a record lies in follows from its place alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

# Rows of a block: a multiple of 64, in which compiled programs treat all rows alike.
BLOCK = 2**16
Columns = tuple[np.ndarray, ...]


@dataclass(frozen=True, repr=False)
class StreamedColumns:
    """A party's columns, as many `rows`, each record of these `shapes`; `read` begins anew whenever
    it is called, in batches of any length. Prints its shape and never its values."""

    rows: int
    shapes: tuple[tuple[int, ...], ...]
    read: Callable[[], Iterator[Columns]]

    def __repr__(self) -> str:
        return f"<StreamedColumns: {self.rows} records>"

    @classmethod
    def of(cls, columns: Sequence[np.ndarray]) -> "StreamedColumns":
        """Columns in memory, as a stream of one batch."""
        shapes = tuple(np.shape(column)[1:] for column in columns)
        return cls(len(columns[0]), shapes, lambda: iter([tuple(columns)]))

    @property
    def block_shapes(self) -> list[tuple[int, ...]]:
        return [(BLOCK, *shape) for shape in self.shapes]

    def blocks(self) -> Iterator[tuple[Columns, np.ndarray]]:
        """All records in blocks of float32, and which of their rows are real; in memory they lie as
        those of the batches do, by row or by column."""
        held: list[np.ndarray] = []
        filled = 0
        for batch in self.read():
            begin, length = 0, len(batch[0])
            while begin < length:
                if not filled and length - begin >= BLOCK:  # as it is, without a copy
                    end = begin + BLOCK
                    whole = (np.asarray(column[begin:end], np.float32) for column in batch)
                    yield tuple(whole), np.ones(BLOCK, bool)
                    begin = end
                    continue
                held = held or self._empty(batch)
                taken = min(BLOCK - filled, length - begin)
                for block, column in zip(held, batch, strict=True):
                    block[filled : filled + taken] = column[begin : begin + taken]
                filled, begin = filled + taken, begin + taken
                if filled == BLOCK:
                    yield tuple(held), np.ones(BLOCK, bool)
                    held, filled = [], 0  # a program may still be reading the last ones
        if filled:
            yield tuple(held), np.arange(BLOCK) < filled

    def _empty(self, batch: Columns) -> list[np.ndarray]:
        return [
            np.zeros_like(column, np.float32, shape=shape)
            for column, shape in zip(batch, self.block_shapes, strict=True)
        ]


__all__ = ["BLOCK", "StreamedColumns"]
