"""Where records come from: Parquet in pieces, DuckDB, SQL that only reads, frames and batches."""

import datetime
import math
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.data import as_table, codes, numbers
from unisono.data import csv_stream as csv_streams
from unisono.data.arrow import ArrowColumn, arrow_cells
from unisono.data.cells import blanks, dates, truths
from unisono.data.csv_file import CsvDialect, read_csv
from unisono.data.csv_stream import csv_stream
from unisono.data.databases import duckdb_stream, postgresql_stream, require_no_password
from unisono.data.parquet_files import parquet_stream
from unisono.data.sql import RowsOfOthers, cautions, require_query, warn_of_rows
from unisono.errors import InvalidInput
from unisono.studies.data_set import records_at


def written(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def cells(table, name):
    return list(table.columns[name])


# ------------------------------------------------------------- Arrow's columns

COLUMNS = st.one_of(
    st.lists(st.none() | st.integers(-(2**62), 2**62)).map(
        lambda v: pyarrow.array(v, pyarrow.int64())
    ),
    st.lists(st.none() | st.floats()).map(lambda v: pyarrow.array(v, pyarrow.float64())),
    st.lists(st.none() | st.booleans()).map(lambda v: pyarrow.array(v, pyarrow.bool_())),
    st.lists(st.none() | st.sampled_from(["", "1", "2.5", "yes", "NA", "2020-02-29", "north", "é"]))
    .map(lambda v: pyarrow.array(v, pyarrow.string()))
    .flatmap(lambda a: st.sampled_from([a, a.dictionary_encode(), a.cast(pyarrow.large_string())])),
    st.lists(st.none() | st.dates(datetime.date(1, 1, 1))).map(
        lambda v: pyarrow.array(v, pyarrow.date32())
    ),
    st.lists(st.none() | st.binary(max_size=3)).map(lambda v: pyarrow.array(v, pyarrow.binary())),
)


@settings(max_examples=200, deadline=None)
@given(COLUMNS)
@example(pyarrow.array([None, None], pyarrow.null()))
def test_a_column_of_arrow_is_read_as_its_cells_one_by_one(values):
    column, one_by_one = ArrowColumn("a column", values), arrow_cells("a column", values)
    assert len(column) == len(one_by_one)
    for read in (numbers, truths, dates, blanks, lambda v: codes(v, ["1", "yes", "north", "2.5"])):
        np.testing.assert_array_equal(read(column), read(one_by_one))


def test_text_that_does_not_decode_spoils_its_own_cell_only():
    broken = pyarrow.array([b"41", b"\xff", b"7"], pyarrow.binary()).view(pyarrow.string())
    np.testing.assert_array_equal(numbers(ArrowColumn("ages", broken)), [41.0, np.nan, 7.0])


# ------------------------------------------------------------- Parquet


def test_partitions_are_columns_of_text_and_files_come_by_name(tmp_path):
    written(tmp_path / "year=2024" / "site=a%2Fb" / "2.parquet", age=[3])
    written(tmp_path / "year=2024" / "site=__HIVE_DEFAULT_PARTITION__" / "1.parquet", age=[9])
    written(tmp_path / "year=2023" / "site=c" / "1.parquet", age=[1, 2])
    written(tmp_path / "_delta" / "x.parquet", age=[99])
    stream = parquet_stream(tmp_path)
    assert (stream.rows, stream.names) == (4, ("age", "year", "site"))
    table = stream.table()
    assert cells(table, "age") == [1, 2, 9, 3]
    assert cells(table, "year") == ["2023", "2023", "2024", "2024"]
    assert cells(table, "site") == ["c", "c", None, "a/b"]
    assert parquet_stream(tmp_path, ["site"]).table().codes("site", ["c"]).tolist() == [
        0,
        0,
        -1,
        -1,
    ]


def test_a_pattern_names_files_too(tmp_path):
    for number in range(3):
        written(tmp_path / "visits" / f"{number}.parquet", age=[number])
    assert parquet_stream(f"{tmp_path}/visits/[01].parquet").table().numbers("age").tolist() == [
        0,
        1,
    ]


def test_files_of_one_folder_may_state_other_types(tmp_path):
    """What a file's schema states is no record's doing; a cell means the same in each."""
    written(tmp_path / "a.parquet", age=[1, None])
    written(tmp_path / "b.parquet", age=["2", "x"])
    found = parquet_stream(tmp_path).table().numbers("age")
    np.testing.assert_array_equal(found, [1, np.nan, 2, np.nan])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda d: None, "no .parquet files"),
        (lambda d: (d / "a.parquet").write_text("no"), "is it a Parquet file"),
        (lambda d: written(d / "a.parquet", weight=[1]), "no column 'age': it has weight"),
        (lambda d: written(d / "a.parquet", age=[[1]]), "neither number, text"),
        (lambda d: written(d / "a.parquet", age=pyarrow.array([], "int8")), "holds no records"),
    ],
)
def test_what_is_no_table_is_refused_before_it_is_read(tmp_path, make, words):
    make(tmp_path)
    with pytest.raises(InvalidInput, match=words):
        parquet_stream(tmp_path, ["age"])
    with pytest.raises(InvalidInput, match="no such file or folder"):
        parquet_stream(tmp_path / "nowhere", ["age"])


# ------------------------------------------------------------- CSV in batches


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from([b"1,2", b"", b'"a', b'"x,y",3', b"4,5\r", b"\xff,1", b"1", b"1,2,3"])
    ),
    st.sampled_from([b"", b"\n", b"\n\n"]),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.integers(1, 9),
)
def test_a_csv_file_in_batches_is_the_file(tmp_path_factory, lines, end, mark, chunk):
    path = tmp_path_factory.getbasetemp() / "batches.csv"
    path.write_bytes(mark + b"\n".join([b"a,b", *lines]) + end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_streams, "_CHUNK", chunk)
        patch.setattr(csv_streams, "BATCH", 2)
        names, whole, rows = read_csv(path, None, False)
        if not rows:
            with pytest.raises(InvalidInput, match="no records"):
                csv_stream(path)
            return
        stream = csv_stream(path)
        assert (stream.rows, list(stream.names)) == (rows, names)
        found = stream.table()
    assert {name: cells(found, name) for name in names} == whole


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_wide_text_is_read_at_once(tmp_path, encoding):
    (tmp_path / "a.csv").write_text("age;sex\n1;F\n2;M\n", encoding=encoding)
    dialect = CsvDialect.model_validate({"encoding": "utf-16"})
    assert csv_stream(tmp_path / "a.csv", ["age"], dialect=dialect).numbers("age").tolist() == [
        1,
        2,
    ]


# ------------------------------------------------------------- files that are damaged


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_damaged_files_are_read_or_refused_in_words(tmp_path, kind):
    """Bytes changed, dropped or doubled: never another error, and never a value in its words."""
    path, generator = tmp_path / f"a.{kind}", np.random.default_rng(5)
    secret, header = "Schneewittchen", b"age,name\n"
    if kind == "parquet":
        written(path, age=list(range(40)), name=[secret] * 40)
    else:
        path.write_bytes(header + f"7,{secret}\n".encode() * 40)
    good, told = path.read_bytes(), []
    least = len(header) if kind == "csv" else 0  # a header is public
    for _ in range(400):
        bad = bytearray(good)
        for place in generator.integers(least, len(good), generator.integers(1, 4)):
            other = [b"", bytes([generator.integers(256)]), b'\n"', bytes(8)]
            bad[place : place + 1] = other[generator.integers(4)]
        path.write_bytes(bytes(bad))
        try:
            records_at(path, ["age", "name"]).table().numbers("age")
        except InvalidInput as error:
            told.append(str(error))
    assert bool(told) == (kind == "parquet")
    assert not any(secret in words for words in told)


# ------------------------------------------------------------- SQL


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "DELETE FROM t",
        "COPY t TO 'x'",
        "SELECT 1; DROP TABLE t",
        "ATTACH 'x'",
        "-- SELECT\nSET x=1",
    ],
)
def test_only_one_query_that_reads_is_a_source(sql):
    with pytest.raises(InvalidInput, match="sql"):
        require_query(sql)


def test_what_is_said_in_text_and_comments_is_no_statement():
    require_query("/* DROP; */ (SELECT 'a;b', $$;$$, \";\" FROM t) -- ; the end")


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ('SELECT limit_of_age, "count" FROM t -- LIMIT 3', []),
        ("SELECT max(age) FROM t", ["aggregates (GROUP BY)"]),
        ("SELECT age FROM t GROUP BY age", ["aggregates (GROUP BY)"]),
        ("SELECT sum(x) OVER w FROM t WINDOW w AS ()", ["aggregates (GROUP BY)"]),
        ("SELECT row_number() OVER (ORDER BY age) FROM t", ["a window function (OVER)"]),
        ("SELECT DISTINCT age FROM t OFFSET 3", ["DISTINCT", "OFFSET"]),
        ("SELECT * FROM t TABLESAMPLE system(1)", ["TABLESAMPLE"]),
        ("SELECT * FROM t USING SAMPLE 10", ["USING"]),
    ],
)
def test_what_may_mix_people_is_told_to_the_owner(sql, found):
    assert cautions(sql) == found
    if found:
        with pytest.warns(RowsOfOthers, match="one person's entries alone"):
            warn_of_rows(sql, "north")
    else:
        warn_of_rows(sql, "north")


# ------------------------------------------------------------- DuckDB


@pytest.fixture
def clinic(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "clinic.duckdb"
    connection = duckdb.connect(str(path))
    connection.execute(
        "CREATE TABLE person AS SELECT * FROM (VALUES (1, '41', true, DATE '2020-02-29'), "
        "(2, 'unknown', NULL, NULL), (3, NULL, false, DATE '1999-12-31')) v(id, age, sick, born)"
    )
    connection.close()
    return path


def test_rows_of_a_query_are_records_and_a_failed_cast_is_its_own_missing_cell(clinic):
    stream = duckdb_stream(
        "SELECT age::INTEGER AS age, CAST(sick AS VARCHAR) AS sick, born FROM person ORDER BY id",
        ["born", "age", "sick"],
        clinic,
    )
    assert (stream.rows, stream.unordered) == (3, True)
    table = stream.table()
    np.testing.assert_array_equal(table.numbers("age"), [41, np.nan, np.nan])
    np.testing.assert_array_equal(dates(table.column("born")), [18321.0, np.nan, 10956.0])
    np.testing.assert_array_equal(truths(table.column("sick")), [1, np.nan, 0])


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT age FROM nobody", "cannot be read"),
        ("SELECT id FROM person", "no column 'age'"),
        ("SELECT [id] AS age FROM person", "convert it in the query"),
        ("SELECT id AS age FROM person WHERE id > 9", "holds no records"),
        ("SELECT * FROM read_csv('/etc/passwd')", "opens a file itself"),
        ("SELECT * FROM '/etc/passwd'", "opens a file itself"),
        ('SELECT content AS age FROM "/etc/passwd"', "cannot be read"),
        ("SELECT error(age) AS age FROM person", "stopped at a value"),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused_without_a_value(clinic, sql, words):
    with pytest.raises(InvalidInput, match=words) as refusal:
        duckdb_stream(sql, ["age"], clinic).table()
    assert "unknown" not in str(refusal.value)


def test_files_are_read_by_their_names_and_nothing_else_is(tmp_path):
    pytest.importorskip("duckdb")
    written(tmp_path / "v" / "year=07" / "a.parquet", person=[1, 2], weight=[70.5, None])
    (tmp_path / "p.csv").write_text('id;sex\n1;F\n2;"M\n3;M\n')
    secret = written(tmp_path / "secret.parquet", x=[1])
    files = {"visits": tmp_path / "v", "people": tmp_path / "p.csv"}
    sql = "SELECT weight, year, sex FROM visits LEFT JOIN people ON id = person::TEXT ORDER BY 1"
    table = duckdb_stream(sql, files=files).table()
    assert [cells(table, name) for name in ("weight", "year", "sex")] == [
        [70.5, None],
        ["07", "07"],  # text, as the folder says it: no type is guessed
        ["F", None],  # a line whose quotes make no sense is a record of missing values
    ]
    for other in (f'"{secret}"', "secret"):
        with pytest.raises(InvalidInput, match="cannot be read"):
            duckdb_stream(f"SELECT * FROM {other}", files=files)


def test_a_query_reads_and_cannot_write(clinic):
    before = clinic.read_bytes()
    with pytest.raises(InvalidInput):
        duckdb_stream(
            "SELECT 1 AS age FROM (INSERT INTO person SELECT * FROM person)", None, clinic
        )
    duckdb_stream("SELECT id FROM person", None, clinic).table()
    assert clinic.read_bytes() == before


# ------------------------------------------------------------- what is not installed, or not said


@pytest.mark.parametrize(
    ("package", "extra", "read"),
    [
        ("duckdb", "duckdb", lambda: duckdb_stream("SELECT 1")),
        ("psycopg", "postgresql", lambda: postgresql_stream("SELECT 1")),
        ("narwhals", "frames", lambda: as_table(object())),
    ],
)
def test_a_missing_package_names_the_command_that_installs_it(monkeypatch, package, extra, read):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InvalidInput, match=rf"pip install 'unisono\[{extra}\]'"):
        read()


@pytest.mark.parametrize(
    "connection",
    ["dbname=a password=b", "postgresql://me:secret@host/db", "host=x PassWord = 'y'"],
)
def test_passwords_are_kept_elsewhere(connection):
    with pytest.raises(InvalidInput, match="pgpass") as refusal:
        require_no_password(connection)
    assert "secret" not in str(refusal.value)
    require_no_password("postgresql://me@host:5432/db")
    require_no_password("service=hospital passfile=/home/me/.pgpass")


# ------------------------------------------------------------- frames

AGES, NAMES, IDS = [41.0, None, 7.5], ["F", None, "M"], [1, None, 2**60 + 1]


def frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    lists = {"age": AGES, "sex": NAMES, "id": IDS}
    kept = pandas.DataFrame({key: pandas.array(values) for key, values in lists.items()})
    return {
        "pandas": kept,
        "polars": polars.DataFrame(lists),
        "lazy": polars.LazyFrame(lists),
        "arrow": pyarrow.table(lists),
        "lists": lists,
        "batches": iter([polars.DataFrame(lists)[:1], kept[1:]]),
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "arrow", "lists", "batches"])
def test_every_frame_is_the_same_table(kind):
    table = as_table(frames()[kind])
    np.testing.assert_array_equal(table.numbers("age"), [41, np.nan, 7.5])
    assert table.codes("sex", ["F", "M"]).tolist() == [0, -1, 1]
    # One missing value does not make floats of whole numbers, which would lose the last digit.
    assert table.codes("id", [1, 2**60 + 1]).tolist() == [0, -1, 1]
    assert list(as_table(frames()[kind], ["sex"]).columns) == ["sex"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (3, "is a int: give a frame"),
        ({"b": [1], "a": [1, 2]}, "different lengths"),
        (iter(()), "no batches"),
        ({"b": [1]}, "no column 'a'"),
        (pyarrow.table([[1], [2]], names=["a", "a"]), "a column twice"),
    ],
)
def test_what_is_no_frame_is_refused_in_words(data, words):
    with pytest.raises(InvalidInput, match=words):
        as_table(data, ["a", "b"] if words == "different lengths" else ["a"])


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "batches"])
def test_table_one_takes_any_frame(kind):
    import unisono

    def described(frame):
        policy = unisono.Policy("trial", unisono.Budget(9.0, 1e-2))
        ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=1)
        return unisono.table_one(
            frame,
            bounds={"age": (0, 100)},
            categories={"sex": ["F", "M"]},
            epsilon=1.0,
            delta=1e-2,
            ledger=ledger,
        ).figures

    assert described(frames()[kind]) == described(frames()["lists"])


def test_batches_of_values_are_one_list():
    from unisono.data import listed

    given = listed(iter([[1, None], np.array([2.5]), pyarrow.array(["7"])]))
    np.testing.assert_array_equal(numbers(given), [1, math.nan, 2.5, 7])
