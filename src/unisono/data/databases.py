"""DuckDB and PostgreSQL: the rows of a party's own query, every cell read by itself.

A column comes as text, or as the number that its declared type makes it; no type is guessed from
values. A cast that fails in DuckDB is a missing cell of its own record (TRY_CAST). PostgreSQL stops
there, and so does whatever else cannot go on because of one value; then nothing is spent, and the
message, which may concern a record, names no value and stays with the party.

Nothing is written: DuckDB opens its file for reading alone, and no file but those that are named;
PostgreSQL reads in a transaction that can do nothing else.
"""

import importlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from unisono.core.scratch import scratch_folder
from unisono.data.arrow import ArrowColumn
from unisono.data.csv_file import CsvDialect
from unisono.data.parquet_files import parquet_files
from unisono.data.sources import RecordTable, read_table, require_columns, require_records
from unisono.data.sql import quoted, require_named_files, require_query
from unisono.data.streams import BATCH, RecordStream
from unisono.errors import InvalidInput

_MEMORY = "256MB"


def installed(package: str, extra: str) -> Any:
    """An optional package, or how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise InvalidInput(
            f"{package} is not installed, and this source needs it: pip install 'unisono[{extra}]'"
        ) from None


# ------------------------------------------------------------- DuckDB


def duckdb_stream(
    sql: str,
    columns: Sequence[str] | None = None,
    database: Path | None = None,
    files: Mapping[str, Path | str] | None = None,
    dialect: CsvDialect | None = None,
) -> RecordStream:
    """The rows of a query over a DuckDB file, and over files by the names they are given.

    CSV files are read here and not by DuckDB, which guesses types and lets an open quote swallow
    the lines after it.
    """
    duckdb = installed("duckdb", "duckdb")
    require_query(sql)
    require_named_files(sql)
    place = str(database or "the query")
    given = dict(files or {})
    if database is not None and not database.is_file():
        raise InvalidInput(f"{database}: no such file; check the name")

    @contextmanager
    def connected() -> Iterator[Any]:
        try:
            # What a query cannot hold in memory goes where nobody else may read, and is removed.
            with (
                scratch_folder() as scratch,
                closing(_connected(duckdb, database, given, dialect, scratch)) as connection,
            ):
                yield connection
        except duckdb.Error as error:
            raise InvalidInput(_refusal(place, error, "TRY_CAST(cell AS type)")) from None

    with connected() as connection:
        query = _forgiving(connection, sql)
        described = connection.execute(f"DESCRIBE {query}").fetchall()
        names = tuple(str(row[0]) for row in described)
        wanted = names if columns is None else tuple(dict.fromkeys(columns))
        require_columns(place, names, wanted)
        _require_types(place, {str(row[0]): str(row[1]) for row in described}, wanted)
        rows = int(connection.execute(f"SELECT count(*) FROM ({query}) AS rows").fetchone()[0])
    require_records(place, rows)
    shown = ", ".join(map(quoted, wanted))

    def read() -> Iterator[RecordTable]:
        with connected() as connection:
            found = connection.sql(f"SELECT {shown} FROM ({query}) AS rows")
            reader = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
            for batch in reader(BATCH):
                cells = {
                    name: ArrowColumn(f"{place}: column {name!r}", batch.column(number))
                    for number, name in enumerate(wanted)
                }
                yield RecordTable(place, cells, batch.num_rows)

    return RecordStream(place, wanted, rows, read, unordered=True)


def _connected(
    duckdb: Any,
    database: Path | None,
    files: Mapping[str, Path | str],
    dialect: CsvDialect | None,
    scratch: Path,
) -> Any:
    """A connection that reads the database and the named files, and can do nothing else."""
    connection = duckdb.connect(
        str(database) if database else ":memory:",
        read_only=database is not None,
        config={
            "autoinstall_known_extensions": "false",
            "memory_limit": _MEMORY,
            "temp_directory": str(scratch),
        },
    )
    allowed: list[str] = []
    for name, place in files.items():
        if str(place).lower().endswith(".csv"):
            connection.register(name, _as_text(read_table(place, dialect=dialect)))
            continue
        paths = [str(file) for file, _ in parquet_files(place)]
        allowed += paths
        listed = ", ".join(_text(path) for path in paths)
        connection.execute(
            f"CREATE TEMP VIEW {quoted(name)} AS SELECT * FROM read_parquet([{listed}], "
            "hive_partitioning = true, hive_types_autocast = false)"
        )
    if allowed:
        connection.execute(f"SET allowed_paths = [{', '.join(map(_text, allowed))}]")
    connection.execute("SET python_enable_replacements = false")  # names of Python's variables
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _as_text(table: RecordTable) -> Any:
    import pyarrow

    columns = {
        name: pyarrow.array(cells, pyarrow.string()) for name, cells in table.columns.items()
    }
    return pyarrow.table(columns)


def _forgiving(connection: Any, sql: str) -> str:
    """The same query with every cast made one that yields NULL where it fails."""
    said = json.loads(connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()[0])
    if said.get("error"):
        raise InvalidInput(
            f"sql cannot be read: {said.get('error_message', 'it is no query')}; give one query "
            "in DuckDB's SQL"
        )
    made = json.dumps(_with_try_casts(said))
    return str(connection.execute("SELECT json_deserialize_sql(?::JSON)", [made]).fetchone()[0])


def _with_try_casts(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_try_casts(part) for part in node]
    if not isinstance(node, dict):
        return node
    made = {key: _with_try_casts(part) for key, part in node.items()}
    return made | {"try_cast": True} if made.get("class") == "CAST" else made


def _require_types(place: str, types: Mapping[str, str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if any(mark in types[name] for mark in ("[", "STRUCT", "MAP(", "UNION(")):
            raise InvalidInput(
                f"{place}: column {name!r} has type {types[name]}, which is neither number, text, "
                "date nor true/false: convert it in the query"
            )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# ------------------------------------------------------------- PostgreSQL


def postgresql_stream(
    sql: str, columns: Sequence[str] | None = None, connection: str = ""
) -> RecordStream:
    """The rows of a query, every cell as its text. `connection` is libpq's, such as
    "service=hospital"; what it leaves out is in PG* variables, and passwords are in ~/.pgpass."""
    psycopg = installed("psycopg", "postgresql")
    require_query(sql)
    require_no_password(connection)
    place, query = _shown_place(connection), sql.strip().rstrip(";")

    @contextmanager
    def transaction() -> Iterator[Any]:
        try:
            with psycopg.connect(connection, application_name="unisono") as opened:
                opened.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                opened.execute("SET LOCAL datestyle = 'ISO'")
                opened.execute("SET LOCAL timezone = 'UTC'")
                yield opened
                opened.rollback()
        except psycopg.Error as error:
            remedy = r"CASE WHEN cell ~ '^-?\d+(\.\d+)?$' THEN cell::numeric END"
            raise InvalidInput(_refusal(place, error, remedy)) from None

    with transaction() as opened:
        empty = opened.execute(f"SELECT * FROM ({query}) AS rows LIMIT 0")
        names = tuple(column.name for column in empty.description)
        wanted = names if columns is None else tuple(dict.fromkeys(columns))
        require_columns(place, names, wanted)
        rows = int(opened.execute(f"SELECT count(*) FROM ({query}) AS rows").fetchone()[0])
    require_records(place, rows)
    shown = ", ".join(f"{quoted(name)}::text" for name in wanted)

    def read() -> Iterator[RecordTable]:
        with transaction() as opened, opened.cursor("unisono") as cursor:
            cursor.execute(f"SELECT {shown} FROM ({query}) AS rows")
            while found := cursor.fetchmany(BATCH):
                cells = dict(zip(wanted, map(list, zip(*found, strict=True)), strict=True))
                yield RecordTable(place, cells, len(found))

    return RecordStream(place, wanted, rows, read, unordered=True)


def require_no_password(connection: str) -> None:
    """Refuse a password in a file that people copy, show and keep under version control."""
    url = connection.partition("://")[2].partition("@")[0] if "@" in connection else ""
    if "password" in connection.lower() or ":" in url:
        raise InvalidInput(
            "connection holds a password: keep it in ~/.pgpass, in a service file, or in the "
            'variable PGPASSWORD, and name the service, as connection = "service=hospital"'
        )


def _shown_place(connection: str) -> str:
    return f"PostgreSQL ({connection or os.environ.get('PGSERVICE') or 'by PG* variables'})"


# ------------------------------------------------------------- refusals


def _refusal(place: str, error: Exception, remedy: str) -> str:
    """Words about a query that failed: what kind of error it is, and no value of a record."""
    kind = type(error).__name__
    if kind in _ABOUT_VALUES:
        return (
            f"{place}: the query stopped at a value that it cannot convert or compute with "
            f"({kind}): one record would decide about all; write {remedy}"
        )
    first = str(error).strip().partition("\n")[0][:300]
    return f"{place} cannot be read: {first}; check the query and the connection"


# Errors that come of values, whose words quote them.
_ABOUT_VALUES = frozenset(
    (
        *("ConversionException", "InvalidInputException", "OutOfRangeException", "DataError"),
        *("ConstraintException", "TypeMismatchException", "InvalidTextRepresentation"),
        *("NumericValueOutOfRange", "DivisionByZero", "InvalidDatetimeFormat"),
        *("DatetimeFieldOverflow", "StringDataRightTruncation", "CardinalityViolation"),
    )
)

__all__ = ["duckdb_stream", "installed", "postgresql_stream", "require_no_password"]
