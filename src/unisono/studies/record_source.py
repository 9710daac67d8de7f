"""Where a party's records come from: the `[source]` section of its own policy.

    [source]                              [source]
    kind = "parquet"                      kind = "duckdb"
    path = "visits"                       path = "clinic.duckdb"
                                          sql = "SELECT age, sex FROM person"

A study names columns and nothing else; which file, table or query they come from is the party's
own business, and so is its SQL. Paths are beside the policy unless they are absolute.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from unisono.core.config import Config
from unisono.data import RecordTable
from unisono.data.csv_file import CsvDialect
from unisono.data.csv_stream import csv_stream
from unisono.data.databases import duckdb_stream, postgresql_stream, require_no_password
from unisono.data.parquet_files import parquet_stream
from unisono.data.sql import require_named_files, require_query, warn_of_rows
from unisono.data.streams import RecordStream
from unisono.errors import InvalidInput


class RecordSource(Config):
    """Where the records are, and the party's own query, where there is one."""

    kind: Literal["csv", "parquet", "duckdb", "postgresql"] = Field(
        description="What holds the records."
    )
    path: str | None = Field(
        None,
        min_length=1,
        description="The file; for Parquet also a folder, with or without partitions, or a "
        "pattern (visits/*.parquet); for DuckDB the database, where there is one.",
    )
    files: dict[str, str] = Field(
        default_factory=dict,
        description="DuckDB only: Parquet and CSV files (or folders of Parquet files) that the "
        "query may read, by the names that it has for them.",
    )
    sql: str | None = Field(
        None, description="The party's own query, whose rows are the records: one SELECT."
    )
    connection: str = Field(
        "",
        description="PostgreSQL only: where the server is, as libpq says it (service=hospital); "
        "without a password. Left out: what PG* variables say.",
    )
    csv: CsvDialect | None = Field(
        None, description="How this party's CSV files are written, where not as the study says."
    )

    @model_validator(mode="after")
    def _fits(self) -> "RecordSource":
        queried = self.kind in ("duckdb", "postgresql")
        if queried and self.sql is None:
            raise InvalidInput(f'kind = "{self.kind}" needs sql: one query whose rows are records')
        if not queried and self.sql is not None:
            raise InvalidInput(
                f'sql with kind = "{self.kind}": write kind = "duckdb", and the file under '
                "[source.files]"
            )
        if not queried and self.path is None:
            raise InvalidInput(f'kind = "{self.kind}" needs path: where the records are')
        if self.kind == "duckdb" and self.path is None and not self.files:
            raise InvalidInput('kind = "duckdb" needs path or [source.files]: what is queried')
        if self.kind != "duckdb" and self.files:
            raise InvalidInput(f'[source.files] with kind = "{self.kind}": they are for DuckDB')
        if self.kind == "postgresql" and self.path is not None:
            raise InvalidInput('path with kind = "postgresql": say where it is with connection')
        if self.kind != "postgresql" and self.connection:
            raise InvalidInput(f'connection with kind = "{self.kind}": it is for PostgreSQL')
        if self.sql is not None:
            require_query(self.sql)
        if self.sql is not None and self.kind == "duckdb":
            require_named_files(self.sql)
        require_no_password(self.connection)
        return self

    def places(self, home: Path) -> tuple[str, ...]:
        """What is read, by names that do not depend on how it is written: files and folders with
        links followed, or the server and its database."""
        if self.kind == "postgresql":
            known = (os.environ.get(name, "") for name in ("PGSERVICE", "PGHOST", "PGDATABASE"))
            return (f"postgresql {self.connection or ' '.join(known)}".strip(),)
        given = [*([] if self.path is None else [self.path]), *self.files.values()]
        return tuple(os.path.realpath(home / one) for one in given)

    def file(self, home: Path) -> Path | None:
        """The one file that holds all records, where there is one."""
        places = [Path(one) for one in self.places(home)]
        return places[0] if len(places) == 1 and places[0].is_file() else None

    def digest(self, home: Path) -> bytes:
        """The same for two policies that read the same rows of the same place."""
        said = "\0".join((*sorted(self.places(home)), self.sql or ""))
        return hashlib.sha256(said.encode()).digest()

    def records(
        self,
        home: Path,
        columns: Sequence[str] | None = None,
        multiline: bool = False,
        dialect: CsvDialect | None = None,
    ) -> RecordTable | RecordStream:
        """The records, of a policy that lies in the folder `home`."""
        dialect = self.csv or dialect
        if self.sql is not None:
            warn_of_rows(self.sql, str(home / (self.path or self.kind)))
        match self.kind:
            case "csv":
                return csv_stream(home / str(self.path), columns, multiline, dialect)
            case "parquet":
                return parquet_stream(home / str(self.path), columns)
            case "duckdb":
                database = None if self.path is None else home / self.path
                files = {name: home / place for name, place in self.files.items()}
                return duckdb_stream(str(self.sql), columns, database, files, dialect)
            case "postgresql":
                return postgresql_stream(str(self.sql), columns, self.connection)


__all__ = ["RecordSource"]
