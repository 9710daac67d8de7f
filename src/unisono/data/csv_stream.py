"""CSV files in batches of lines: the records that `csv_file` reads, without holding them all.

A line ends at a newline and nowhere else, so a file can be cut at any of them. UTF-16, whose
newlines have two bytes, and cells that hold newlines are read at once.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from unisono.data.csv_file import USUAL, CsvDialect, cells_of, header_of, read_csv
from unisono.data.sources import RecordTable, require_columns, require_records
from unisono.data.streams import BATCH, RecordStream
from unisono.errors import InvalidInput

_CHUNK = 2**22


def csv_stream(
    file: Path,
    columns: Sequence[str] | None = None,
    multiline: bool = False,
    dialect: CsvDialect | None = None,
) -> RecordTable | RecordStream:
    """The records of a CSV file, batch by batch, or at once where it cannot be cut."""
    own = dialect or USUAL
    try:
        with file.open("rb") as opened:
            beginning = opened.readline()
        header = header_of(file, beginning.removesuffix(b"\n"), own)
        wanted = header.names if columns is None else list(dict.fromkeys(columns))
        if multiline or header.encoding.startswith("utf-16"):
            names, cells, rows = read_csv(file, columns, multiline, own)
            require_columns(file, names, names if columns is None else columns)
            require_records(file, rows)
            return RecordTable(str(file), cells, rows, own.decimal)
        require_columns(file, header.names, wanted)
        rows = sum(1 for _ in _lines(file)) - 1
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror or 'it is damaged'}") from None
    require_records(file, rows)

    def read() -> Iterator[RecordTable]:
        lines = _lines(file)
        next(lines)
        while batch := list(islice(lines, BATCH)):
            yield RecordTable(str(file), cells_of(batch, header, wanted), len(batch), own.decimal)

    return RecordStream(str(file), tuple(wanted), rows, read, own.decimal)


def _lines(file: Path) -> Iterator[bytes]:
    """All lines, without their newlines; the newline that ends the last one begins no other."""
    with file.open("rb") as opened:
        rest, many = b"", False
        while chunk := opened.read(_CHUNK):
            *whole, rest = (rest + chunk).split(b"\n")
            many = many or bool(whole)
            yield from whole
        if rest or not many:
            yield rest


__all__ = ["csv_stream"]
