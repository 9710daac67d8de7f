"""What Python programs hand over as records: frames by the names of their columns, files, batches.

A frame, or lists by name, is in memory already. A path to a Parquet or CSV file, and a function
that begins the same batches anew whenever it is called, are read as streams: whoever can add up
blocks of records never holds all of them (`core.streamed`). An iterator can be read once only, and
is put together in memory.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unisono.data.frames import as_table
from unisono.data.sources import RecordTable, require_columns
from unisono.data.streams import RecordStream
from unisono.errors import InvalidInput

# Above so many cells a stream is read block by block where that is possible, and above the second
# number it is not read into memory where it is not.
HELD, MOST_HELD = 2**24, 2**28
# Libraries whose frames narwhals or Arrow reads, by the first part of a type's module.
_QUERIES = frozenset(("duckdb", "ibis", "dask"))
_FRAMES = frozenset(("polars", "pyarrow", "duckdb", "narwhals", "modin", "cudf", "dask", "ibis"))


def is_frame(data: Any, pandas: bool = True) -> bool:
    """Whether records have named columns: lists by name, or a frame of a library.

    >>> is_frame({"age": [41]}), is_frame([[41]])
    (True, False)
    """
    if isinstance(data, Mapping | RecordTable):
        return not hasattr(data, "shape")  # SciPy has sparse matrices that are dictionaries
    library = type(data).__module__.partition(".")[0]
    known = library in _FRAMES or (pandas and library == "pandas")
    return known and hasattr(type(data), "columns")  # which a single column has not


def stream_of(
    data: Any, columns: Sequence[str] | None = None, name: str = "the batches"
) -> RecordStream | None:
    """Records that are read whenever they are asked for; None where they are in memory already.

    >>> batches = stream_of(lambda: iter([{"age": [41, 7]}, {"age": [60]}]))
    >>> batches.rows, batches.table().numbers("age")
    (3, array([41.,  7., 60.]))
    """
    if isinstance(data, RecordStream):
        if columns is not None:
            require_columns(data.name, data.names, columns)
        return data
    if isinstance(data, str | os.PathLike):
        return _file(Path(data), columns)
    if callable(data) and not hasattr(data, "__array__") and not is_frame(data):
        return _batches(data, columns, name)
    return None


def table_of(
    data: Any, columns: Sequence[str] | None = None, name: str = "the frame"
) -> RecordTable:
    """Records in memory, whatever they are given as; those of a query come in any order."""
    stream = stream_of(data, columns, name)
    found = as_table(data if stream is None else stream.table(), columns, name)
    library = type(data).__module__.partition(".")[0]
    lazy = library in _QUERIES or type(data).__name__ == "LazyFrame"
    return replace(found, unordered=True) if lazy else found


def _file(path: Path, columns: Sequence[str] | None) -> RecordStream:
    if path.suffix.lower() == ".csv":
        from unisono.data.csv_stream import csv_stream
        from unisono.data.sources import read_table

        if not path.is_file():
            read_table(path)  # which says what is wrong with it
        found = csv_stream(path, columns)
        return found if isinstance(found, RecordStream) else _held(found)
    if path.suffix.lower() == ".parquet" or path.is_dir() or set("*?[") & set(str(path)):
        from unisono.data.parquet_files import parquet_stream

        return parquet_stream(path, columns)
    raise InvalidInput(f"{path}: only .csv and .parquet files, and folders of the latter, are read")


def _held(table: RecordTable) -> RecordStream:
    """A table in memory as a stream of one batch."""
    names = tuple(table.columns)
    return RecordStream(table.name, names, table.rows, lambda: iter([table]), table.decimal)


def _batches(
    begin: Callable[[], Iterator[Any]], columns: Sequence[str] | None, name: str
) -> RecordStream:
    """Batches of a function; they are counted once, so that their number is known."""

    def read() -> Iterator[RecordTable]:
        for batch in begin():
            yield as_table(batch, columns, name)

    rows, names = 0, None
    for batch in read():
        rows, names = rows + batch.rows, names or tuple(map(str, batch.columns))
    if names is None:
        raise InvalidInput(f"{name} hold no records: give at least one")
    return RecordStream(name, names, rows, read)


__all__ = ["HELD", "MOST_HELD", "is_frame", "stream_of", "table_of"]
