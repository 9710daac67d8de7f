"""Files in, arrays out, and every refusal names the file, the fault and the remedy."""

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.data import Bounds, as_text, read_table, require_same_schema
from unisono.errors import InvalidInput

GOOD = "age,income,disease,insured\n30,1.5,flu,true\n41,2.5,none,false\n52,,flu,true\n"


@pytest.fixture
def write(tmp_path):
    def make(text, name="a.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


def test_csv(write):
    table = read_table(write(GOOD))
    assert table.rows == 3
    assert table.kinds == {
        "age": "number",
        "income": "number",
        "disease": "text",
        "insured": "boolean",
    }
    assert table.numbers("age").tolist() == [30, 41, 52]
    assert table.numbers("insured").tolist() == [1, 0, 1]
    assert table.codes("disease", ("none", "flu")).tolist() == [1, 0, 1]
    assert table.codes("disease", ("none",)).tolist() == [-1, 0, -1]
    assert table.codes("age", ("30", "52")).tolist() == [0, -1, 1]
    assert table.codes("insured", ("true",)).tolist() == [0, -1, 0]


def test_parquet_reads_as_csv_does(tmp_path, write):
    path = tmp_path / "b.parquet"
    columns = {
        "age": [30, 41],
        "disease": ["flu", "none"],
        "weight": np.array([1.5, 2], np.float32),
    }
    pyarrow.parquet.write_table(
        pyarrow.table({**columns, "ward": pyarrow.array(["x", "y"]).dictionary_encode()}), path
    )
    table = read_table(path)
    assert table.numbers("weight").tolist() == [1.5, 2.0]
    assert table.codes("ward", ("y", "x")).tolist() == [1, 0]
    require_same_schema([read_table(path, ["age"]), read_table(write(GOOD), ["age"])])


def test_a_table_prints_no_records(write):
    path = write(GOOD)
    # The path is shown, and may hold any digits.
    shown = repr(read_table(path)).replace(str(path), "")
    assert "3 records" in shown
    assert "flu" not in shown
    assert "30" not in shown


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "a.csv", "cannot be read"),
        ("age,income\n", "a.csv", "no records"),
        ("age,age\n1,2\n", "a.csv", "twice"),
        ("age,income\n1,2\n3\n", "a.csv", "cannot be read"),
        ("not a parquet file", "a.parquet", "cannot be read"),
        ("age\n1\n", "a.xlsx", "only .csv and .parquet"),
        ("age,none\n1,\n2,\n", "a.csv", "no value at all"),
    ],
)
def test_unreadable_files(write, text, name, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        read_table(write(text, name))
    assert name in str(caught.value)


def test_a_parsers_message_quotes_no_record(write):
    with pytest.raises(InvalidInput) as caught:
        read_table(write("age,income\n1,2\nsecret-name\n"))
    assert "secret" not in str(caught.value)


def test_missing_file_and_column(write, tmp_path):
    with pytest.raises(InvalidInput, match="no such file"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(InvalidInput, match="no column 'height': it has age, disease, income"):
        read_table(write(GOOD), ["height"])
    with pytest.raises(InvalidInput, match="no column 'age'"):
        read_table(write(GOOD), ["income"]).numbers("age")


@pytest.mark.parametrize("bad", ["nan", "inf", "", "NaN"])
def test_gaps_are_refused_with_file_and_record(write, bad):
    table = read_table(
        write(f"age\n1.5\n{bad}\n2.5\n{bad}\n" if bad else "age,b\n1.5,1\n,1\n2.5,1\n,1\n")
    )
    with pytest.raises(
        InvalidInput, match=r"a\.csv.*'age'.*record 2 \(and 1 more\).*nothing was spent"
    ):
        table.numbers("age")


def test_gaps_in_text_are_refused(write):
    table = read_table(write("disease,b\nflu,1\n,1\n"))
    with pytest.raises(InvalidInput, match="'disease' is missing in record 2"):
        table.codes("disease", ("flu",))


def test_text_is_no_number(write):
    with pytest.raises(InvalidInput, match="holds text"):
        read_table(write(GOOD)).numbers("disease")


def test_mismatched_schemas(write):
    first = read_table(write(GOOD))
    second = read_table(write(GOOD.replace("30,", "thirty,"), "b.csv"))
    with pytest.raises(InvalidInput, match=r"'age' holds numbers in .*a\.csv but text in"):
        require_same_schema([first, second])


@pytest.mark.parametrize("text", ["", "1", "a:b", "2:1", "0:inf", "nan:1", "1:1"])
def test_bad_bounds(text):
    with pytest.raises(InvalidInput, match="0:120"):
        Bounds.parse(text)


@given(low=st.floats(-1e9, 1e9), width=st.floats(1e-3, 1e9))
@settings(deadline=None)
def test_bounds_round_trip(low, width):
    bounds = Bounds.parse(f"{low!r}:{low + width!r}")
    assert bounds.pair == (low, low + width)


@given(st.integers(-(10**15), 10**15))
def test_whole_numbers_are_written_alike(number):
    assert as_text(float(number)) == as_text(number) == str(number)
