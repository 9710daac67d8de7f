"""Arrow's columns as cells, by the types that their schema states."""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import cache, cached_property
from typing import Any

import numpy as np

from unisono.errors import InvalidInput


class ArrowColumn(Sequence[Any]):
    """A column of Arrow's as the cells that `arrow_cells` makes of it, and not made before they are
    asked for: numbers are read as they lie, and of other cells only distinct ones are made.

    >>> import pyarrow
    >>> column = ArrowColumn("ages", pyarrow.array(["41", None, "41"]))
    >>> list(column), column.each(lambda cells: np.array([float(c or -1) for c in cells]))
    (['41', None, '41'], array([41., -1., 41.]))
    """

    def __init__(self, what: str, values: Any) -> None:
        import pyarrow

        chunked = isinstance(values, pyarrow.ChunkedArray)
        self.what, self.values = what, values.combine_chunks() if chunked else values
        if isinstance(self.values, pyarrow.ChunkedArray):  # longer than one array may be
            self.values = pyarrow.concat_arrays(self.values.chunks)
        arrow_cells(what, self.values[:0])  # a type that cannot be read is refused here

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return arrow_cells(self.what, self.values[place])
        return arrow_cells(self.what, self.values.take([place % len(self)]))[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(arrow_cells(self.what, self.values))

    @cached_property
    def numeric(self) -> np.ndarray | None:
        """Its numbers as they lie, float64 (n,) with NaN for null, which nobody may change; None
        where it holds others."""
        import pyarrow
        from pyarrow import types

        kind = self.values.type
        if not (types.is_integer(kind) or types.is_floating(kind)):
            return None
        wide = self.values.cast(pyarrow.float64(), safe=False)
        return _as_they_lie(wide.fill_null(_nan()))

    def each(self, read: Callable[[list[Any]], np.ndarray]) -> np.ndarray:
        """`read` of all cells, where what it makes of a cell depends on that cell alone."""
        import pyarrow
        from pyarrow import types

        kind = self.values.type
        if types.is_null(kind):
            return read([None])[np.zeros(len(self), np.int64)]
        if types.is_dictionary(kind):  # its values may repeat, and need not be text that decodes
            indices, known = self.values.indices, self.values.dictionary
        else:
            encoded = self.values.dictionary_encode()
            indices, known = encoded.indices, encoded.dictionary
        places = indices.cast(pyarrow.int64()).fill_null(len(known)).to_numpy(zero_copy_only=False)
        return read([*arrow_cells(self.what, known), None])[places]


def _as_they_lie(values: Any) -> np.ndarray:
    """Arrow's float64 without nulls, not copied; `to_numpy` would import pandas, for nothing."""
    if not len(values):
        return np.zeros(0)
    found = np.frombuffer(values.buffers()[1], np.float64, len(values), 8 * values.offset)
    found.flags.writeable = False  # Arrow's arrays do not change
    return found


@cache
def _nan() -> Any:
    """Arrow's NaN, made of its bytes: `pyarrow.scalar` would import pandas."""
    import pyarrow

    lone = pyarrow.py_buffer(np.array([np.nan]))
    return pyarrow.Array.from_buffers(pyarrow.float64(), 1, [None, lone])[0]


def arrow_cells(what: str, values: Any) -> list[Any]:
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
            known = arrow_cells(what, chunk.dictionary)
            cells += [None if i is None else known[i] for i in chunk.indices.to_pylist()]
        return cells
    if types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind):
        return values.to_pylist()
    if types.is_floating(kind):
        return values.cast(pyarrow.float64(), safe=False).to_pylist()
    if types.is_decimal(kind):
        return [_undecimal(value) for value in values.to_pylist()]
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


def _undecimal(value: Decimal | None) -> int | float | None:
    """Whole numbers as they are: as doubles two ids of many digits would be one person's."""
    if value is None:
        return None
    return int(value) if value == value.to_integral_value() else float(value)


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


__all__ = ["ArrowColumn", "arrow_cells"]
