"""Parquet: one file, a pattern, or a folder of files with or without partitions (year=2024/...).

Names of columns and their types are those that the files' schemas state, and the number of records
is in their metadata: nothing is inferred from values. What a folder's name says of a partition is
text. Files come in the order of their names.
"""

import glob
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from unisono.data.arrow import ArrowColumn
from unisono.data.sources import RecordTable, require_columns, require_records
from unisono.data.streams import BATCH, RecordStream, read_ahead
from unisono.errors import InvalidInput

_NULL = "__HIVE_DEFAULT_PARTITION__"
_PATTERN = frozenset("*?[")


def parquet_table(file: Path, columns: Sequence[str] | None) -> RecordTable:
    """The columns of one file, in memory."""
    with _opened(file) as opened:
        names = opened.schema_arrow.names
        wanted = names if columns is None else list(dict.fromkeys(columns))
        require_columns(file, names, wanted)
        table = opened.read(columns=wanted)
        require_records(file, table.num_rows)
        return RecordTable(str(file), _cells(file, table, wanted), table.num_rows)


def parquet_stream(place: str | Path, columns: Sequence[str] | None = None) -> RecordStream:
    """The columns of all files of a place, batch by batch."""
    files = parquet_files(place)
    names: tuple[str, ...] | None = None if columns is None else tuple(dict.fromkeys(columns))
    rows = 0
    for file, parts in files:
        with _opened(file) as opened:
            there = (*(n for n in opened.schema_arrow.names if n not in parts), *parts)
            names = names or there
            require_columns(file, there, names)
            for name in names:
                if name not in parts:  # a type that cannot be read is refused here
                    ArrowColumn(f"{file}: column {name!r}", _none_of(opened.schema_arrow, name))
            rows += opened.metadata.num_rows
    require_records(place, rows)
    assert names is not None
    wanted = names

    def read() -> Iterator[RecordTable]:
        for file, parts in files:
            own = [name for name in wanted if name not in parts]
            with _opened(file) as opened:
                # Group by group: a reader of all keeps what it has read of those before.
                for group in range(opened.num_row_groups):
                    for batch in opened.iter_batches(BATCH, row_groups=[group], columns=own):
                        cells = _cells(file, batch, own)
                        said = {n: [parts[n]] * batch.num_rows for n in wanted if n in parts}
                        yield RecordTable(str(file), {**cells, **said}, batch.num_rows)

    return RecordStream(str(place), wanted, rows, lambda: read_ahead(read()))


def parquet_files(place: str | Path) -> list[tuple[Path, dict[str, str | None]]]:
    """The files of a place, and what the names of their folders say of each (its partitions)."""
    root = Path(place)
    if root.is_file():
        return [(root, {})]
    if root.is_dir():
        found = list(root.rglob("*.parquet"))
    elif _PATTERN & set(str(place)):
        found = [Path(one) for one in glob.glob(str(place), recursive=True)]
        root = Path(str(place)[: min(map(str(place).index, _PATTERN & set(str(place))))]).parent
    else:
        raise InvalidInput(f"{place}: no such file or folder; check the name")
    shown = [
        file for file in sorted(found) if file.is_file() and not _hidden(file.relative_to(root))
    ]
    if not shown:
        raise InvalidInput(f"{place} holds no .parquet files: check the name")
    return [(file, _partitions(file.relative_to(root))) for file in shown]


def _hidden(file: Path) -> bool:
    """Files that other programs keep beside theirs, by custom."""
    return any(part[0] in "._" for part in file.parts)


def _partitions(file: Path) -> dict[str, str | None]:
    pairs = (part.split("=", 1) for part in file.parts[:-1] if "=" in part)
    return {unquote(k): None if v == _NULL else unquote(v) for k, v in pairs}


def _cells(file: Path, table: Any, wanted: Sequence[str]) -> dict[str, ArrowColumn]:
    return {name: ArrowColumn(f"{file}: column {name!r}", table.column(name)) for name in wanted}


def _none_of(schema: Any, name: str) -> Any:
    """No value of a column's type; Arrow's empty tables would import pandas."""
    import pyarrow

    return pyarrow.nulls(0, schema.field(name).type)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """A Parquet file; what Arrow says of a damaged one is not repeated, as it may quote records."""
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(file) as reader:
            yield reader
    except (pyarrow.ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition(":")[0][:100]
        raise InvalidInput(f"{file} cannot be read: {reason}; is it a Parquet file?") from None
    except (UnicodeDecodeError, OverflowError, MemoryError):
        raise InvalidInput(f"{file} cannot be read: it is damaged; write it again") from None


__all__ = ["parquet_files", "parquet_stream", "parquet_table"]
