"""The source that a party's own policy names: what it may say, and one ledger for each place."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from unisono.data.sql import RowsOfOthers
from unisono.deployment.local_run import RunPlace, prepare
from unisono.deployment.parties_here import find_data
from unisono.errors import InvalidInput, PrivacyViolation
from unisono.studies.data_set import data_set, ledger_for, records_at, require_apart, sourced
from unisono.studies.policy_file import load_policy

TERMS = """\
[dataset]
name = "{name}"
ledger = "{name}.ledger"
[budget]
epsilon = 9.0
delta = 1e-5
[allow]
maximum_epsilon = 3.0
maximum_delta = 1e-5
minimum_parties = 1
[source]
{source}
"""
STUDY = """\
title = "Ages"
[data.columns]
age = { kind = "number", bounds = [0, 100] }
[[parties]]
name = "north"
records = 3
[privacy]
epsilon = 1.0
delta = 1e-6
[trust]
mode = "local"
[model]
name = "statistics"
[[model.questions]]
ask = "mean"
column = "age"
"""
QUERY = 'kind = "duckdb"\nfiles = { visits = "visits.parquet" }\nsql = "SELECT %s FROM visits"'


def policy(folder, source, name="north", file="policy.toml"):
    folder.mkdir(exist_ok=True)
    (folder / file).write_text(TERMS.format(name=name, source=source))
    return folder / file


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "north"
    folder.mkdir()
    table = pyarrow.table({"age": [30, 40, None], "other": [1, 2, 3]})
    pyarrow.parquet.write_table(table, folder / "visits.parquet")
    return folder


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('kind = "oracle"', "kind"),
        ('kind = "csv"', "needs path"),
        ('kind = "parquet"\npath = "v"\nsql = "SELECT 1"', 'write kind = "duckdb"'),
        ('kind = "duckdb"\nsql = "SELECT 1"', "what is queried"),
        ('kind = "duckdb"\npath = "a.db"', "needs sql"),
        ('kind = "duckdb"\npath = "a.db"\nsql = "DROP TABLE t"', "begins with 'drop'"),
        ('kind = "duckdb"\npath = "a"\nsql = "SELECT * FROM read_csv(1)"', "opens a file itself"),
        ('kind = "postgresql"\npath = "a"\nsql = "SELECT 1"', "connection"),
        ('kind = "postgresql"\nconnection = "password=x"\nsql = "SELECT 1"', "pgpass"),
        ('kind = "csv"\npath = "a.csv"\nconnection = "service=x"', "it is for PostgreSQL"),
        ('kind = "parquet"\npath = "a"\nfiles = { b = "c" }', "they are for DuckDB"),
        ('kind = "csv"\npath = "a.csv"\ndelimiter = ";"', "unknown"),
    ],
)
def test_a_source_that_makes_no_sense_is_refused_with_its_line(tmp_path, source, words):
    with pytest.raises(InvalidInput, match=words) as refusal:
        load_policy(policy(tmp_path / "north", source))
    assert "policy.toml line" in str(refusal.value)


def test_a_csv_file_is_read_in_its_owners_dialect(tmp_path):
    path = policy(tmp_path / "n", 'kind = "csv"\npath = "ages.txt"\ncsv = { decimal = "," }')
    (tmp_path / "n" / "ages.txt").write_text("age;sex\n1,5;F\n2;M\n")
    assert records_at(path, ["age"]).table().numbers("age").tolist() == [1.5, 2.0]


def test_a_policy_without_a_source_is_no_source(tmp_path):
    path = policy(tmp_path / "n", "")
    path.write_text(path.read_text().replace("[source]", ""))
    with pytest.raises(InvalidInput, match=r"names no \[source\]"):
        sourced(path)


def test_a_query_is_paid_from_the_ledger_beside_its_policy(home):
    path = policy(home, QUERY % "age")
    own = data_set(path)
    assert (own.name, own.ledger_path) == ("north", home / "north.ledger")
    ledger_for(path).close()
    assert own.ledger_path.exists()


def test_another_query_over_the_same_files_has_no_ledger_of_its_own(home):
    path = policy(home, QUERY % "age")
    policy(home, QUERY % "age + 1 AS age", "again", "again.policy.toml")
    with pytest.raises(PrivacyViolation, match="read the same place"):
        ledger_for(path)


def test_a_file_that_has_a_ledger_keeps_it(home):
    ledger_for(home / "visits.parquet", 1.0).close()
    with pytest.raises(PrivacyViolation, match="would know nothing"):
        ledger_for(policy(home, QUERY % "age"))


def test_the_same_rows_are_not_two_parties(home, tmp_path):
    elsewhere = tmp_path / "south"
    same = QUERY.replace("visits.parquet", str(home / "visits.parquet"))
    files = {"north": policy(home, same % "age"), "south": policy(elsewhere, same % "age", "south")}
    with pytest.raises(PrivacyViolation, match="hold the same records"):
        require_apart(files)


def test_a_policy_says_where_the_records_are(home, tmp_path):
    path = policy(home, QUERY % "age")
    assert find_data(["north"], tmp_path) == {"north": path}
    (home / "records.csv").write_text("age\n1\n")
    with pytest.raises(InvalidInput, match="several files"):
        find_data(["north"], tmp_path)


def task_of(home, tmp_path, rows, study=STUDY):
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "study.toml").write_text(study)
    files = {"north": policy(home, QUERY % rows)}
    return prepare(RunPlace(tmp_path / "study.toml", files, tmp_path / "run", None, None, None))


def test_whoever_mixes_people_in_a_query_is_warned(home, tmp_path):
    pytest.importorskip("duckdb")
    with pytest.warns(RowsOfOthers, match="one person"):
        task_of(home, tmp_path, "max(age) AS age", STUDY.replace("records = 3", "records = 1"))


def test_a_certificate_says_that_rows_are_a_querys(home, tmp_path):
    pytest.importorskip("duckdb")
    for edition in (
        "Ages",
        "Ages again",
    ):  # with a ledger that is begun, and with one that is there
        study = STUDY.replace("Ages", edition)
        with pytest.warns(UserWarning, match="empty cells among 3 records"):
            task = task_of(home, tmp_path / edition, "CAST(age AS TEXT) AS age", study)
        with task.opened() as books:
            task.run(books, lambda progress: None)
        path = tmp_path / edition / "run" / "certificate.json"
        declared = json.loads(path.read_text())["declarations"]
        assert declared["rows_of_queries"] == ["north"]
    assert (home / "north.ledger").exists()


def test_rows_of_a_query_get_a_secret_order(home, tmp_path):
    """Where one record stands may depend on others there, and nothing may depend on where."""
    pytest.importorskip("duckdb")
    from unisono.studies.build import build
    from unisono.studies.file import parse_study

    many = pyarrow.table({"age": list(range(60))})
    pyarrow.parquet.write_table(many, home / "visits.parquet")
    built = build(parse_study(STUDY.replace("records = 3", "records = 60"), "study.toml"))
    path = policy(home, QUERY % "age")
    one, other = (
        built.records(built.table(path), "north", bytes([n] * 32)).learnt["age"] for n in (1, 2)
    )
    assert sorted(one) == sorted(other) == list(range(60))
    assert one.tolist() != other.tolist()
    again = built.records(built.table(path), "north", bytes([1] * 32)).learnt["age"]
    assert one.tolist() == again.tolist()
