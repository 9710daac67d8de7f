"""Tables in the shape of the OMOP common data model, in DuckDB and in PostgreSQL: one study."""

import os
import runpy
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

from unisono.data.sql import RowsOfOthers
from unisono.deployment.local_run import RunPlace, prepare
from unisono.deployment.parties_here import find_data
from unisono.errors import InvalidInput
from unisono.studies.data_set import records_at

EXAMPLE = Path(__file__).parents[2] / "examples" / "omop"
SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
COLUMNS = ("age", "sex", "systolic", "diabetes", "visits")


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory):
    pytest.importorskip("duckdb")
    folder = tmp_path_factory.mktemp("omop")
    runpy.run_path(str(EXAMPLE / "make_data.py"))["main"](folder, sql=True)
    return folder


def read(path):
    with pytest.warns(RowsOfOthers, match="LIMIT"):
        return records_at(path, COLUMNS).table()


def test_three_hospitals_answer_by_their_own_queries(hospitals, tmp_path):
    data = find_data(("north", "south", "east"), hospitals)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task = prepare(
            RunPlace(hospitals / "study.toml", data, tmp_path / "run", None, None, seed=2)
        )
        with task.opened() as books:
            shown = task.run(books, lambda progress: None)
    found = {answer["name"]: answer for answer in shown["answers"]}
    tables = [read(path) for path in data.values()]
    systolic = np.concatenate([table.numbers("systolic") for table in tables])
    visits = np.concatenate([table.numbers("visits") for table in tables])
    for name, truth in (
        ("mean of systolic", np.nanmean(np.clip(systolic, 70, 220))),
        ("mean of visits", visits.mean()),
    ):
        low, high = found[name]["interval"]
        assert low <= truth <= high
        assert high - low < 0.1 * truth + 5


# ------------------------------------------------------------- PostgreSQL


@pytest.fixture(scope="module")
def server():
    """A server of its own, on a socket, as a user that is not root."""
    if not SERVERS:
        pytest.skip("no PostgreSQL server: install Debian's postgresql package")
    pytest.importorskip("psycopg")
    binaries = SERVERS[-1].parent
    home = Path(tempfile.mkdtemp(prefix="unisono-pg-"))
    root = os.geteuid() == 0
    if root:
        shutil.chown(home, "postgres", "postgres")
    user = {"user": "postgres", "group": "postgres"} if root else {}

    def run(*command):
        subprocess.run(command, check=True, cwd=home, stdout=subprocess.DEVNULL, **user)

    run(binaries / "initdb", "-D", home / "data", "-A", "trust", "-U", "postgres", "--no-sync")
    options = f"-k {home} -c listen_addresses='' -c fsync=off"
    control = (binaries / "pg_ctl", "-D", home / "data", "-w")
    run(*control, "-o", options, "-l", home / "log", "start")
    try:
        yield f"host={home} user=postgres"
    finally:
        run(*control, "-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def north(server, hospitals):
    import psycopg

    with psycopg.connect(f"{server} dbname=postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE north")
    with psycopg.connect(f"{server} dbname=north") as connection:
        connection.execute((hospitals / "north" / "tables.sql").read_text())
    return f"{server} dbname=north"


def sourced(folder, connection, sql=None):
    """The example's policy, with its tables in PostgreSQL."""
    text = (EXAMPLE / "policy.toml").read_text()
    text = text.replace(
        'kind = "duckdb"\npath = "clinic.duckdb"',
        f'kind = "postgresql"\nconnection = "{connection}"',
    )
    if sql is not None:
        text = f"{text.partition('sql = ')[0]}sql = '{sql}'\n"
    (folder / "policy.toml").write_text(text)
    return folder / "policy.toml"


@pytest.mark.slow
def test_postgresql_gives_the_records_that_duckdb_gives(north, hospitals, tmp_path):
    ours, theirs = read(sourced(tmp_path, north)), read(hospitals / "north" / "policy.toml")
    assert ours.rows == theirs.rows == 1200

    def rows(table):
        columns = [
            table.numbers("age"),
            table.codes("sex", ["F", "M"]),
            np.nan_to_num(table.numbers("systolic"), nan=-1.0),
            table.numbers("diabetes"),
            table.numbers("visits"),
        ]
        return sorted(map(tuple, np.column_stack(columns)))

    assert rows(ours) == rows(theirs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT nothing AS age FROM person", "cannot be read"),
        ("SELECT person_id FROM person", "no column"),
        ("SELECT age, age, age FROM person WHERE", "cannot be read"),
        ('SELECT ("x" || person_id)::integer AS age FROM person', "cannot be read"),
        ("WITH gone AS (DELETE FROM person RETURNING 1 AS age) SELECT age FROM gone", "cannot be"),
    ],
)
def test_what_postgresql_cannot_answer_is_refused_and_nothing_is_written(
    north, tmp_path, sql, words
):
    import psycopg

    path = sourced(tmp_path, north, sql)
    with pytest.raises(InvalidInput, match=words):
        records_at(path, ["age"]).table()
    with psycopg.connect(north) as connection:
        assert connection.execute("SELECT count(*) FROM person").fetchone() == (1260,)


@pytest.mark.slow
def test_a_value_that_stops_a_query_is_not_told(north, tmp_path):
    path = sourced(
        tmp_path, north, "SELECT concat(person_id, chr(120), 4711)::integer AS age FROM person"
    )
    with pytest.raises(InvalidInput, match="stopped at a value") as refusal:
        records_at(path, ["age"]).table()
    assert "4711" not in str(refusal.value)


@pytest.mark.slow
def test_dates_numbers_and_truths_are_told_as_text(north, tmp_path):
    path = sourced(
        tmp_path,
        north,
        "SELECT make_date(2020, 2, 29) AS age, 0.1::float8 AS sex, true AS diabetes, "
        "1e20::numeric AS visits, NULL AS systolic FROM person",
    )
    table = records_at(path, COLUMNS).table()
    first = {name: table.columns[name][0] for name in COLUMNS}
    assert first == {
        "age": "2020-02-29",
        "sex": "0.1",
        "diabetes": "true",
        "visits": "100000000000000000000",
        "systolic": None,
    }
