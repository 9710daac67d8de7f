"""Declarations from a codebook or a schema: names, types and ranges, and never a value."""

import datetime

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from unisono.cli import app
from unisono.errors import InvalidInput
from unisono.studies.codebook import read_codebook
from unisono.studies.file import load_study, parse_study
from unisono.studies.template import parse_column

RUNNER = CliRunner()
CODEBOOK = """\
variable;type;min;max;values;label
age;integer;18;100;;Age at first visit
creatinine;number;0;10.5;;mg/dl
sex;category;;;1=male, 2=female;
stage;ordinal;;;I|II|III;
seen;date;2010-01-01;2024-12-31;;
died;boolean;;;;
"""
PEOPLE = ("--model", "logistic-regression", "--parties", "a=300,b=200,c=400", "--yes")


def init(path, *arguments, code=0):
    done = RUNNER.invoke(app, ["init", str(path), *map(str, arguments)])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done


def test_a_codebook_that_says_everything_gives_a_study_that_is_ready(tmp_path):
    (tmp_path / "codebook.csv").write_text(CODEBOOK)
    init(tmp_path / "study.toml", "--codebook", tmp_path / "codebook.csv", *PEOPLE)
    columns = load_study(tmp_path / "study.toml").data.columns
    kinds = {name: column.kind for name, column in columns.items()}
    assert kinds == {
        "age": "number",
        "creatinine": "number",
        "sex": "category",
        "stage": "ordinal",
        "seen": "date",
        "died": "true-false",
    }
    assert columns["age"].integer
    assert columns["creatinine"].bounds == (0.0, 10.5)
    assert columns["sex"].values == ("1", "2")
    assert columns["seen"].bounds == ("2010-01-01", "2024-12-31")
    text = (tmp_path / "study.toml").read_text()
    assert "# Age at first visit" in text
    assert "# 1=male, 2=female" in text


def test_codes_for_missing_values_are_declared_and_are_no_values(tmp_path):
    (tmp_path / "codebook.csv").write_text(
        "name,type,min,max,values,missing codes\n"
        "age,integer,18,100,,999|-9\n"
        "sex,category,,,1=male; 2=female; 9=not known,9=refused\n"
        "dose,number,0,5,,\n"
        "died,boolean,,,,8; refused\n"
        "day,date,2000-01-01,2020-12-31,,9999-12-31\n"
        "stage,ordinal,,,I|II,9\n"
    )
    init(tmp_path / "study.toml", "--codebook", tmp_path / "codebook.csv", *PEOPLE)
    columns = load_study(tmp_path / "study.toml").data.columns
    assert columns["age"].missing_codes == (999, -9)
    assert columns["age"].missing == "drop record"
    assert columns["sex"].values == ("1", "2")
    assert columns["sex"].missing_codes == (9,)
    assert columns["dose"].missing_codes == ()
    assert columns["died"].missing_codes == (8, "refused")
    assert columns["day"].missing_codes == ("9999-12-31",)
    assert columns["stage"].missing_codes == (9,)
    assert np.isnan(columns["age"].read(["40", "999", "-9.0"])).tolist() == [False, True, True]


def test_what_a_database_does_not_say_is_left_to_people_and_refused_by_check(tmp_path):
    rows = "table_name,column_name,data_type\nvisit,age,integer\nvisit,sex,character varying(2)\n"
    rows += "visit,seen,timestamp without time zone\nvisit,scan,bytea\nvisit,died,boolean\n"
    (tmp_path / "columns.csv").write_text(rows)
    path = tmp_path / "study.toml"
    done = init(path, "--codebook", tmp_path / "columns.csv", *PEOPLE)
    assert "where the file says TODO: age, sex, seen" in done.stdout
    assert "left out: scan, as no column of a study holds bytea" in done.stderr
    checked = RUNNER.invoke(app, ["check", str(path)])
    assert checked.exit_code == 2
    for name, key in (("age", "bounds"), ("sex", "values"), ("seen", "bounds")):
        assert f"data.columns.{name}.{key}: is still TODO: fill in what is public" in checked.stderr
    filled = path.read_text()
    for kind, said in (
        ('kind = "number", bounds', "[18, 100]"),
        ('kind = "category", values', '["F", "M"]'),
        ('kind = "date", bounds', '["2010-01-01", "2024-12-31"]'),
    ):
        assert f'{kind} = "TODO"' in filled
        filled = filled.replace(f'{kind} = "TODO"', f"{kind} = {said}")
    assert list(parse_study(filled).data.columns) == ["age", "sex", "seen", "died"]


def test_of_a_parquet_file_names_and_types_are_read(tmp_path):
    table = pyarrow.table(
        {
            "age": [17731827],
            "height": [17.731827],
            "sex": pyarrow.array(["marker"]).dictionary_encode(),
            "seen": [datetime.datetime(2020, 1, 1)],
            "died": [True],
            "many": [[1, 2]],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    found = read_codebook(tmp_path / "a.parquet")
    assert found.columns == {
        "age": {"kind": "number", "bounds": "TODO", "integer": True},
        "height": {"kind": "number", "bounds": "TODO"},
        "sex": {"kind": "category", "values": "TODO"},
        "seen": {"kind": "date", "bounds": "TODO"},
        "died": {"kind": "true-false"},
    }
    assert list(found.left_out) == ["many"]


def test_an_option_counts_before_the_codebook(tmp_path):
    (tmp_path / "codebook.csv").write_text(CODEBOOK)
    path = tmp_path / "study.toml"
    more = ("--column", "age=20:90", "--column", "grade=mild<severe")
    init(path, "--codebook", tmp_path / "codebook.csv", *more, "--target", "died", *PEOPLE)
    columns = load_study(path).data.columns
    assert columns["age"].bounds == (20.0, 90.0)
    assert columns["grade"].kind == "ordinal"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names nothing"),
        ("age,weight\n50,70\n", "a codebook has a column 'name'"),
        ("name,type\nage,integer\nage,integer\n", "line 3: 'age': name each column once"),
        ("name,type,min,max\nage,integer,9,2\n", "line 2: age: range 9 to 2: the lowest comes"),
        ("name,type,range\nage,integer,old\n", "write LOW:HIGH, as 0:120"),
        ("name,type,values\nsex,category,F\n", "list each of at least two once"),
        ("name,type,min,max\nseen,date,1.1.2020,2.2.2020\n", "write two days"),
        ("name,type\nage,\n", "neither a type nor a range nor values"),
        ("name,type\nscan,bytea\n", "names no column that could be declared"),
        ('name,type\n"age,integer\n', "this is not CSV"),
    ],
)
def test_what_is_wrong_with_a_codebook(tmp_path, text, words):
    (tmp_path / "codebook.csv").write_text(text)
    with pytest.raises(InvalidInput) as refused:
        read_codebook(tmp_path / "codebook.csv")
    assert words in str(refused.value)


def test_columns_of_every_kind_can_be_typed():
    assert parse_column("true-false") == {"kind": "true-false"}
    assert parse_column("I < II") == {"kind": "ordinal", "values": ("I", "II")}
    assert parse_column("2010-01-01:2024-12-31")["bounds"] == ("2010-01-01", "2024-12-31")
    for wrong in ("a<", "1:x", "one"):
        with pytest.raises(InvalidInput):
            parse_column(wrong)
