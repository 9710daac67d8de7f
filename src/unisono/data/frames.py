"""Frames of other libraries as a table of records: pandas, polars, Arrow and what narwhals knows.

A column keeps the type that the frame declares, and its values are read one by one (`cells`): no
missing value makes floats of the whole numbers beside it. Batches are put together as they come.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unisono.data.arrow import ArrowColumn
from unisono.data.cells import listed
from unisono.data.sources import RecordTable, require_columns, require_records
from unisono.data.streams import RecordStream, joined
from unisono.errors import InvalidInput


def as_table(
    data: Any, columns: Sequence[str] | None = None, name: str = "the frame"
) -> RecordTable:
    """The records of a frame, of lists or arrays by name, or of an iterator of such batches.

    >>> as_table({"age": [41, None], "sex": ["F", "M"]}).numbers("age")
    array([41., nan])
    >>> as_table(iter([{"age": [41]}, {"age": ["7"]}])).numbers("age")
    array([41.,  7.])
    """
    if isinstance(data, RecordStream):
        data = data.table()
    if isinstance(data, RecordTable):
        return data
    cells = _of_batches(data, columns, name) if isinstance(data, Iterator) else _cells(data, name)
    wanted = list(cells) if columns is None else list(dict.fromkeys(columns))
    require_columns(name, cells, wanted)
    kept = {one: cells[one] for one in wanted}
    lengths = {len(values) for values in kept.values()}
    if len(lengths) != 1:
        raise InvalidInput(f"{name} has columns of different lengths: align its records")
    rows = lengths.pop()
    require_records(name, rows)
    return RecordTable(name, kept, rows)


def _of_batches(data: Iterator[Any], columns: Sequence[str] | None, name: str) -> dict[str, Any]:
    tables = [as_table(batch, columns, name) for batch in data]
    if not tables:
        raise InvalidInput(f"{name} has no batches, so no records: give at least one")
    names = list(tables[0].columns)
    for table in tables:
        require_columns(name, table.columns, names)
    return {one: joined([table.columns[one] for table in tables]) for one in names}


def _cells(data: Any, name: str) -> dict[str, Any]:
    if isinstance(data, Mapping):
        return {str(key): listed(values) for key, values in data.items()}
    import pyarrow

    if isinstance(data, pyarrow.RecordBatch | pyarrow.Table):
        if len(set(data.schema.names)) < len(data.schema.names):
            raise InvalidInput(f"{name} names a column twice: rename one of them")
        return {
            key: ArrowColumn(f"{name}: column {key!r}", data.column(key))
            for key in data.schema.names
        }
    frame = _narwhals_frame(data, name)
    return {str(key): listed(frame[key].to_native()) for key in frame.columns}


def _narwhals_frame(data: Any, name: str) -> Any:
    from unisono.data.databases import installed

    narwhals = installed("narwhals", "frames")
    try:
        frame = narwhals.from_native(data)
    except TypeError:
        raise InvalidInput(
            f"{name} is a {type(data).__name__}: give a frame of pandas, polars or Arrow, lists by "
            "the names of columns, or an iterator of such batches"
        ) from None
    return frame.collect() if isinstance(frame, narwhals.LazyFrame) else frame


__all__ = ["as_table"]
