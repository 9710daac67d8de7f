"""Declarations of columns from what is written about them: a codebook, or a database's schema.

    name,type,minimum,maximum,values,missing codes,label
    age,integer,18,100,,999|-9,age at first visit
    sex,category,,,F|M,9,
    stage,ordinal,,,I|II|III,,
    died,boolean,,,,,

Both are public knowledge, which records are not, so that no value is ever read here: a Parquet file
gives the names and types of its columns, and a database the rows of its information_schema.columns.
What they do not say (bounds and values) is left as TODO, for people to fill in; `unisono check`
refuses a study with any of it.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.core.words import controls
from unisono.errors import InvalidInput
from unisono.studies.source import TODO

_LARGEST = 2**24
_MANY = 10_000
# What the columns of a codebook are called, in lower case.
_TITLES = {
    "name": ("name", "column", "column_name", "variable", "field", "item"),
    "type": ("type", "kind", "data_type", "datatype"),
    "low": ("minimum", "min", "low", "lowest"),
    "high": ("maximum", "max", "high", "highest"),
    "range": ("range", "bounds"),
    "values": ("values", "categories", "levels", "codes"),
    "format": ("format",),
    "missing": (
        *("missing codes", "missing_codes", "missing code", "missing_code", "missing values"),
        *("missing_values", "missing", "na_values"),
    ),
    "label": ("label", "labels", "description", "text"),
}
# How types begin, in lower case, as codebooks and databases call them; the longest match counts.
_TYPES = {
    "integer": ("integer", "int", "bigint", "smallint", "tinyint", "whole", "count", "uint"),
    "number": ("number", "numeric", "real", "float", "double", "decimal", "halffloat"),
    "category": (
        *("category", "categorical", "nominal", "factor", "enum", "dictionary", "user-defined"),
        *("char", "varchar", "nvarchar", "character", "text", "string", "large_string"),
    ),
    "ordinal": ("ordinal", "ordered", "likert"),
    "true-false": ("true-false", "bool", "boolean", "logical", "bit", "yes/no", "yes-no"),
    "date": ("date", "datetime", "timestamp"),
}
_KINDS = {word: kind for kind, words in _TYPES.items() for word in words}
_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"\[?\s*({_NUMBER})\s*(?::|\.\.|to|–|-|,|;)\s*({_NUMBER})\s*\]?")
_DAYS = re.compile(r"(\d{4}-\d\d-\d\d)\s*(?::|\.\.|to|–|,|;)\s*(\d{4}-\d\d-\d\d)")


@dataclass(frozen=True)
class Codebook:
    """Columns as a study file declares them, what people call them, and those that were left out
    because no kind of column holds their type."""

    columns: Mapping[str, Mapping[str, Any]]
    labels: Mapping[str, str]
    left_out: Mapping[str, str]


def read_codebook(path: str | Path) -> Codebook:
    """The columns that a codebook (.csv) or the schema of a Parquet file names."""
    file = Path(path)
    try:
        if file.suffix.lower() == ".parquet":
            return _declared(file, _parquet_rows(file))
        if file.stat().st_size > _LARGEST:
            raise InvalidInput(
                f"{path} is larger than 16 MB: a codebook names each column once; is it a file of "
                "records?"
            )
        return _declared(file, _csv_rows(file, file.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or 'it is damaged'}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text: save the codebook as UTF-8") from None


def _csv_rows(file: Path, text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row by our own titles, and where it stands."""
    first = text.partition("\n")[0]
    separator = max(",;\t|", key=first.count)
    rows = csv.reader(text.splitlines(), delimiter=separator, strict=True)
    try:
        given = [title.strip().casefold() for title in next(rows, [])]
        titles = [
            next((own for own, names in _TITLES.items() if title in names), "") for title in given
        ]
        if "name" not in titles:
            raise InvalidInput(
                f"{file}: the first line names {', '.join(given) or 'nothing'}: a codebook has a "
                "column 'name' (or column_name, variable), and 'type', 'minimum', 'maximum', "
                "'values' and 'label' as far as they are known"
            )
        for row in rows:
            if any(cell.strip() for cell in row):
                cells = dict(zip(titles, map(str.strip, row), strict=False))
                yield f"{file} line {rows.line_num}", cells
    except csv.Error as error:
        raise InvalidInput(f"{file} line {rows.line_num}: this is not CSV: {error}") from None


def _parquet_rows(file: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The schema alone: dictionaries and statistics, which hold values, stay unread."""
    import pyarrow
    import pyarrow.parquet

    if not file.is_file():
        raise InvalidInput(f"{file}: no such file; check the name")
    try:
        schema = pyarrow.parquet.read_schema(file)
    except (pyarrow.ArrowException, UnicodeDecodeError, MemoryError):
        raise InvalidInput(f"{file} cannot be read: is it a Parquet file?") from None
    for field in schema:
        yield f"{file}: column {field.name!r}", {"name": field.name, "type": str(field.type)}


def _declared(file: Path, rows: Iterator[tuple[str, dict[str, str]]]) -> Codebook:
    columns: dict[str, Mapping[str, Any]] = {}
    labels: dict[str, str] = {}
    left_out: dict[str, str] = {}
    faults: list[str] = []
    for where, row in rows:
        name = row.get("name", "")
        if not name or name in columns or name in left_out:
            faults.append(f"{where}: {name!r}: name each column once")
            continue
        if odd := [cell for cell in row.values() if controls(cell)]:
            faults.append(f"{where}: {odd[0]!a} holds control characters: write plain text")
            continue
        try:
            declared = _declaration(row)
        except InvalidInput as error:
            faults.append(f"{where}: {name}: {error}")
            continue
        if declared is None:
            left_out[name] = row.get("type", "")
            continue
        columns[name] = declared
        if label := _label(row):
            labels[name] = label
        if len(columns) > _MANY:
            raise InvalidInput(f"{file} names more than {_MANY} columns: keep those of the study")
    if faults:
        raise InvalidInput("\n".join(faults[:50]))
    if not columns:
        raise InvalidInput(f"{file} names no column that could be declared: is it a codebook?")
    return Codebook(columns, labels, left_out)


def _label(row: Mapping[str, str]) -> str:
    """What people call a column, and its values where these are codes; on one line."""
    values = row.get("values", "")
    said = [row.get("label", ""), values if "=" in values else ""]
    return " ".join("; ".join(filter(None, said)).split())


def _declaration(row: Mapping[str, str]) -> Mapping[str, Any] | None:
    """One column; None where no kind holds its type. Codes for what is missing are no values."""
    codes = _values(row.get("missing", ""))
    declared = _without_codes(row, codes)
    if declared is None or not codes:
        return declared
    coded = tuple(_as_number(code) for code in codes)
    return {**declared, "missing": "drop record", "missing_codes": coded}


def _without_codes(row: Mapping[str, str], codes: tuple[str, ...]) -> Mapping[str, Any] | None:
    said = row.get("type", "")
    values = tuple(value for value in _values(row.get("values", "")) if value not in codes)
    kind = _kind(said)
    if kind is None and not said:
        kind = "category" if values else "number" if row.get("low") or row.get("range") else None
        if kind is None:
            raise InvalidInput(
                "neither a type nor a range nor values: write number, integer, category, ordinal, "
                "true-false or date"
            )
    if kind == "true-false":
        return {"kind": kind}
    if kind in ("category", "ordinal") or (values and kind == "integer"):
        if len(values) == 1 or len(set(values)) < len(values):
            raise InvalidInput(
                f"values {row.get('values', '')!r}: list each of at least two once, as F|M"
            )
        return {"kind": "category" if kind == "integer" else kind, "values": values or TODO}
    if kind == "date":
        written = {"format": row["format"]} if row.get("format") else {}
        return {"kind": kind, "bounds": _days(row), **written}
    if kind in ("number", "integer"):
        whole = {"integer": True} if kind == "integer" else {}
        return {"kind": "number", "bounds": _bounds(row), **whole}
    return None


def _kind(said: str) -> str | None:
    """
    >>> _kind("character varying(20)"), _kind("double precision"), _kind("bytea")
    ('category', 'number', None)
    """
    word = said.strip().casefold()
    exact = [own for own in _KINDS if re.match(rf"{re.escape(own)}(?![a-z-])\d*", word)]
    return _KINDS[max(exact, key=len)] if exact else None


def _values(said: str) -> tuple[str, ...]:
    """Values with bars, semicolons or commas between them; of 1=male the 1 stands in the file.

    >>> _values("1=male; 2=female"), _values("F|M"), _values("")
    (('1', '2'), ('F', 'M'), ())
    """
    separator = next((mark for mark in "|;," if mark in said), "|")
    parts = [part.partition("=")[0].strip() for part in said.split(separator)]
    return tuple(part for part in parts if part)


def _as_number(code: str) -> int | float | str:
    """
    >>> _as_number("-9"), _as_number("99.9"), _as_number("refused")
    (-9, 99.9, 'refused')
    """
    if not re.fullmatch(_NUMBER, code):
        return code
    return int(code) if re.fullmatch(r"[+-]?\d+", code) else float(code)


def _bounds(row: Mapping[str, str]) -> Any:
    """The public range, or TODO."""
    low, high = row.get("low", ""), row.get("high", "")
    if not (low or high):
        if not (said := row.get("range", "")):
            return TODO
        if not (found := _RANGE.fullmatch(said.strip())):
            raise InvalidInput(f"range {said!r}: write LOW:HIGH, as 0:120")
        low, high = found[1], found[2]
    try:
        bounds = float(low), float(high)
    except ValueError:
        raise InvalidInput(f"range {low!r} to {high!r}: write two numbers, as 0 and 120") from None
    if not bounds[0] < bounds[1]:
        raise InvalidInput(f"range {low} to {high}: the lowest comes first")
    return bounds


def _days(row: Mapping[str, str]) -> Any:
    said = row.get("range", "") or ":".join(filter(None, (row.get("low"), row.get("high"))))
    if not said:
        return TODO
    if not (found := _DAYS.fullmatch(said.strip())):
        raise InvalidInput(f"range {said!r}: write two days, as 2010-01-01 and 2024-12-31")
    return found[1], found[2]


__all__ = ["Codebook", "read_codebook"]
