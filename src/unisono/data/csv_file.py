"""CSV files: the header, and one record for every line after it.

A line ends at a newline and nowhere else, quotes or not; one that does not parse is a record of
missing values, and the line after it another record. A line whose bytes are not UTF-8 is read as
Latin-1, each line by itself. Separator, decimal mark, quotes and encoding are declared. Only what
cannot depend on a record is found out: a mark at the very beginning of the file says how it is
encoded, and the header how names are separated.

A blank line is a record too, of missing values. Were it passed over, a record that is left blank
(an empty cell, where there is one column) would change how many records there are. Only the newline
that ends the last line begins no other.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from unisono.core.config import Config
from unisono.errors import InvalidInput

_SEPARATORS = (",", ";", "\t", "|")
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class CsvDialect(Config):
    """How CSV files are written, where they are written in one's own way."""

    separator: Literal[",", ";", "\t", "|"] | None = Field(
        None, description="What stands between cells; left out: what the header has."
    )
    decimal: Literal[".", ","] = Field(".", description="The decimal mark of numbers.")
    quote: Literal['"', "'"] = Field('"', description="What stands around cells that need it.")
    encoding: Literal["utf-8", "utf-16", "latin-1"] = Field(
        "utf-8",
        description="How text is encoded; a mark at the beginning of a file goes first. A line "
        "that is not UTF-8 is read as Latin-1.",
    )

    @model_validator(mode="after")
    def _fits(self) -> "CsvDialect":
        if self.separator == "," == self.decimal:
            raise InvalidInput(
                'separator = "," and decimal = ",": nobody can tell them apart; save the file with '
                "semicolons"
            )
        return self


USUAL = CsvDialect.model_validate({})


def read_csv(
    file: Path, columns: Sequence[str] | None, multiline: bool, dialect: CsvDialect = USUAL
) -> tuple[list[str], dict[str, list[Any]], int]:
    """The names of all columns, the cells of those that are wanted, and the number of records."""
    content = file.read_bytes()
    encoding, content = _encoding(content, dialect)
    lines = _lines(content, encoding)
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    first, *records = _joined(lines, dialect.quote, encoding) if multiline else lines
    header = _header(file, first, dialect, encoding)
    wanted = header.names
    if columns is not None:
        wanted = [name for name in dict.fromkeys(columns) if name in header.names]
    return header.names, cells_of(records, header, wanted), len(records)


class CsvHeader(NamedTuple):
    """What a file's first line says of the others."""

    names: list[str]
    separator: str
    quote: str
    encoding: str


def header_of(file: Path, first: bytes, dialect: CsvDialect = USUAL) -> CsvHeader:
    """What the first line of a file says, a mark at its very beginning included."""
    encoding, line = _encoding(first, dialect)
    if encoding.startswith("utf-16"):  # cut within its newline
        line = line[: len(line) // 2 * 2]
    return _header(file, line, dialect, encoding)


def _header(file: Path, first: bytes, dialect: CsvDialect, encoding: str) -> CsvHeader:
    separator = dialect.separator or _separator(first, dialect, encoding)
    names = _fields(first, separator, dialect.quote, encoding)
    if names is None or not any(names):
        raise InvalidInput(
            f"{file} cannot be read: its first line holds no names of columns in {dialect.encoding}"
            ", separated by commas, semicolons, tabs or bars"
        )
    if separator == "," == dialect.decimal:
        raise InvalidInput(
            f'{file} is separated by commas, and decimal = ",": nobody can tell them apart; save '
            "it with semicolons"
        )
    return CsvHeader(names, separator, dialect.quote, encoding)


def cells_of(
    records: Iterable[bytes], header: CsvHeader, wanted: Sequence[str]
) -> dict[str, list[Any]]:
    """The cells of each line, by column."""
    names, separator, quote, encoding = header
    broken: list[str | None] = [None] * len(names)
    rows = []
    for line in records:
        fields = _fields(line, separator, quote, encoding)
        rows.append(fields if fields is not None and len(fields) == len(names) else broken)
    places = [names.index(name) for name in wanted]
    return {name: [row[place] for row in rows] for name, place in zip(wanted, places, strict=True)}


def _encoding(content: bytes, dialect: CsvDialect) -> tuple[str, bytes]:
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return encoding, content.removeprefix(mark)
    return {"utf-16": "utf-16-le"}.get(dialect.encoding, dialect.encoding), content


def _lines(content: bytes, encoding: str) -> list[bytes]:
    """Cut at newlines, which have two bytes in UTF-16, at even places."""
    if not encoding.startswith("utf-16"):
        return content.split(b"\n")
    units = np.frombuffer(content[: len(content) // 2 * 2], "<u2" if encoding[-2] == "l" else ">u2")
    ends = [*(2 * np.flatnonzero(units == ord("\n"))), len(content)]
    begins = [0, *(int(end) + 2 for end in ends[:-1])]
    return [content[begin:end] for begin, end in zip(begins, ends, strict=True)]


def _separator(header: bytes, dialect: CsvDialect, encoding: str) -> str:
    """The one that cuts the header into most names."""

    def pieces(separator: str) -> int:
        return len(_fields(header, separator, dialect.quote, encoding) or ())

    return max(_SEPARATORS, key=pieces)


@lru_cache(maxsize=16)
def _field(separator: str, quote: str) -> re.Pattern[str]:
    """One field of a line and what ends it: in quotes, where two stand for one, or not beginning
    with one (as in 5 ft 10"), where quotes are letters like others."""
    mark, own = re.escape(separator), re.escape(quote)
    quoted = f"{own}([^{own}]*+(?:{own}{own}[^{own}]*+)*+){own}"
    return re.compile(f"(?:{quoted}|((?:[^{own}{mark}][^{mark}]*+)?+))({mark}|\\Z)")


def _fields(
    line: bytes, separator: str = ",", quote: str = '"', encoding: str = "utf-8"
) -> list[str] | None:
    """The cells of one line (RFC 4180); None where its quotes or its bytes make no sense.

    >>> _fields(b'1,"a ""b"", c",'), _fields(b'1,5 ft 10"'), _fields(b'1,"a" b')
    (['1', 'a "b", c', ''], ['1', '5 ft 10"'], None)
    """
    try:
        text = line.decode(encoding).removesuffix("\r")
    except UnicodeDecodeError:
        if encoding != "utf-8":
            return None
        text = line.decode("latin-1").removesuffix("\r")
    if quote not in text:
        return text.split(separator)
    pattern = _field(separator, quote)
    fields, at, more = [], 0, separator
    while more:
        found = pattern.match(text, at)
        if found is None:
            return None
        quoted, bare, more = found.groups()
        fields.append(bare if quoted is None else quoted.replace(2 * quote, quote))
        at = found.end()
    return fields


def _joined(lines: Iterable[bytes], quote: str, encoding: str) -> Iterator[bytes]:
    """Lines put together wherever a newline stands within quotes."""
    newline = "\n".encode(encoding)
    pending: list[bytes] = []
    quotes = 0
    for line in lines:
        pending.append(line)
        quotes += line.decode(encoding, "replace").count(quote)
        if quotes % 2 == 0:
            yield newline.join(pending)
            pending, quotes = [], 0
    if pending:
        yield newline.join(pending)


__all__ = ["USUAL", "CsvDialect", "CsvHeader", "cells_of", "header_of", "read_csv"]
