"""Files and lists in, one record at a time: what is read of it, and what is refused."""

import datetime
import decimal

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unisono.data import (
    Bounds,
    UnreadValues,
    as_number,
    as_text,
    codes,
    listed,
    numbers,
    read_table,
)
from unisono.errors import InvalidInput

GOOD = "age,income,disease,insured\n30,1.5,flu,true\n41,2.5,none,false\n52,,flu,true\n"


@pytest.fixture
def write(tmp_path):
    def make(content, name="a.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


def same(one, other):
    return np.array_equal(one, other, equal_nan=True)


# ------------------------------------------------------------- what a cell means


def test_csv(write):
    table = read_table(write(GOOD))
    assert table.rows == 3
    assert table.numbers("age").tolist() == [30, 41, 52]
    assert same(table.numbers("income"), [1.5, 2.5, np.nan])
    assert same(table.numbers("disease"), [np.nan] * 3)
    assert table.numbers("insured").tolist() == [1, 0, 1]
    assert table.codes("disease", ("none", "flu")).tolist() == [1, 0, 1]
    assert table.codes("disease", ("none",)).tolist() == [-1, 0, -1]
    assert table.codes("age", ("30", "52")).tolist() == [0, -1, 1]
    assert table.codes("insured", ("true",)).tolist() == [0, -1, 0]


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("7", 7.0),
        (" 2.50\t", 2.5),
        ("-1e3", -1000.0),
        (".5", 0.5),
        ("TRUE", 1.0),
        ("False", 0.0),
        (True, 1.0),
        (np.bool_(False), 0.0),
        (3, 3.0),
        (np.int8(3), 3.0),
        (np.float32(0.5), 0.5),
        (decimal.Decimal("1.5"), 1.5),
        (5e-324, 5e-324),
        ("1,5", np.nan),
        ("1_000", np.nan),
        ("١٢", np.nan),
        ("0x10", np.nan),
        ("n/a", np.nan),
        ("nan", np.nan),
        ("inf", np.nan),
        ("1e999", np.nan),
        ("", np.nan),
        (None, np.nan),
        (10**400, np.nan),
        (np.inf, np.nan),
        (1j, np.nan),
        (b"1", np.nan),
        ([1], np.nan),
        (np.array(1), np.nan),
        (object(), np.nan),
        (decimal.Decimal("sNaN"), np.nan),
        (datetime.date(2020, 1, 1), np.nan),
    ],
)
def test_a_number_is_what_one_cell_spells(cell, number):
    assert same(as_number(cell), number)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("1", 0),
        (1, 0),
        (1.0, 0),
        ("1.0", 0),
        (True, 0),
        ("true", 0),
        (np.uint8(1), 0),
        ("north", 1),
        ("North", 1),
        (" north\xa0", 1),
        ("2.50", 2),
        (2.5, 2),
        ("", -1),
        (None, -1),
        (np.nan, -1),
        ("NA", 3),
        (["north"], -1),
        (np.str_("north"), 1),
        pytest.param(10**5000, -1, id="5000 digits"),
        ("9007199254740993", 4),
        (9007199254740993, 4),
        ("9007199254740992", -1),
        (9007199254740992.0, -1),
        (datetime.date(2020, 1, 1), 5),
        ("2020-01-01", 5),
    ],
)
def test_a_category_is_found_for_one_value_alone(value, place):
    public = (1, "north", "2.5", "NA", "9007199254740993", "2020-01-01")
    assert codes([value], public).tolist() == [place]


def test_case_decides_where_two_categories_differ_in_it_alone():
    assert codes(["m", "M", "m ", "W", "w"], ("m", "M", "w")).tolist() == [0, 1, 0, 2, 2]


@pytest.mark.parametrize("categories", [(), ("a", "a"), (1, 1.0), ("1", 1), ("",), (None, "a")])
def test_categories_are_distinct_and_none_is_missing(categories):
    with pytest.raises(InvalidInput, match="distinct"):
        codes(["a"], categories)


@given(st.integers(-(10**15), 10**15))
def test_whole_numbers_are_written_alike(number):
    assert as_text(float(number)) == as_text(number) == str(number)


@given(
    st.lists(st.one_of(st.floats(), st.integers(-(2**63), 2**63 - 1), st.booleans()), min_size=1),
    st.sampled_from([np.float64, np.float32, np.float16, np.int64, np.uint8, np.bool_]),
)
@settings(max_examples=100, deadline=None)
def test_typed_arrays_are_read_as_their_values_are(values, kind):
    """The fast ways for arrays of numbers give, bit for bit, what each value gives alone."""
    with np.errstate(all="ignore"):
        array = np.array(values, object).astype(float).astype(kind)
    assert numbers(array).tobytes() == np.array([as_number(one) for one in array]).tobytes()
    public = (0, 1, 2.5, -1)
    assert codes(array, public).tolist() == [int(codes([one], public)[0]) for one in array]


# ------------------------------------------------------------- columns of frames

WIDE = 2**53 + 1  # a double cannot hold it


class Frame:
    """A column as pandas and polars have it: NumPy gets floats as soon as one value is missing."""

    dtype = "Int64"

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        kind = float if None in self.values else np.int64
        return np.array([np.nan if v is None else v for v in self.values], kind)


class Pandas(Frame):
    def astype(self, kind):
        return np.array(self.values, kind)


class Polars(Frame):
    def to_list(self):
        return list(self.values)


KINDS = {
    "list": list,
    "objects": lambda values: np.array(values, object),
    "masked": lambda values: np.ma.masked_array(
        [0 if v is None else v for v in values], [v is None for v in values]
    ),
    "arrow": pyarrow.array,
    "arrow chunks": lambda values: pyarrow.chunked_array([values], pyarrow.int64()),
    "arrow dictionary": lambda values: pyarrow.array(values, pyarrow.int64()).dictionary_encode(),
    "pandas": Pandas,
    "polars": Polars,
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_missing_value_of_a_column_makes_no_other_a_float(kind):
    whole = codes(listed(KINDS[kind]([WIDE, WIDE - 1, 7])), [WIDE, WIDE - 1, 7])
    one_less = codes(listed(KINDS[kind]([WIDE, WIDE - 1, None])), [WIDE, WIDE - 1, 7])
    assert whole.tolist() == [0, 1, 2]
    assert one_less.tolist() == [0, 1, -1]


def test_one_text_of_an_arrow_array_that_is_no_text_takes_no_other_with_it():
    offsets = np.array([0, 1, 2, 3], np.int32).tobytes()
    buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(b"ab\xff")]
    broken = pyarrow.Array.from_buffers(pyarrow.string(), 3, buffers)
    assert codes(listed(broken), ["a", "b"]).tolist() == [0, 1, -1]


@pytest.mark.parametrize("table", [pyarrow.table({"a": [1, 2]}), np.zeros((2, 2)), np.array(3)])
def test_several_columns_are_no_list(table):
    with pytest.raises(InvalidInput, match="one value for each record"):
        listed(table)


# ------------------------------------------------------------- where a record ends


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        (b"1,x", ("1", "x")),
        (b"1,x\r", ("1", "x")),
        (b'"1","a ""b"", c"', ("1", 'a "b", c')),
        (b'1,""', ("1", "")),
        (b"1,x\x00y\x0b\x0c\xe2\x80\xa8\rz", ("1", "x\x00y\x0b\x0c\u2028\rz")),
        (b"", None),
        (b"\r", None),
        (b"1", None),
        (b"1,x,y", None),
        (b'1,"x', None),
        (b'1,x"', ("1", 'x"')),
        (b'1, "x"', ("1", ' "x"')),
        (b'1,"x"y', None),
        (b"1,\xff\xfe", ("1", "ÿþ")),
        (b"1,\xed\xa0\x80", ("1", "í\xa0\x80")),
    ],
)
def test_a_line_is_a_record_whatever_is_in_it(write, line, cells):
    table = read_table(write(b"age,note\n30,a\n" + line + b"\n41,b\n"))
    found = list(zip(table.columns["age"], table.columns["note"], strict=True))
    assert found == [("30", "a"), cells or (None, None), ("41", "b")]


def test_a_newline_in_quotes_ends_the_record_unless_it_is_declared(write):
    path = write('age,note\n30,a\n41,"two\nlines"\n52,c\n')
    assert list(read_table(path).columns["age"]) == ["30", None, None, "52"]
    declared = read_table(path, multiline=True)
    assert list(declared.columns["age"]) == ["30", "41", "52"]
    assert declared.columns["note"][1] == "two\nlines"


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_the_last_newline_begins_no_record(write, ending):
    assert list(read_table(write("\ufeffage\r\n30\r\n41" + ending)).columns["age"]) == ["30", "41"]
    assert read_table(write("age\n30\n\n")).rows == 2


LINES = [b"30,flu,x", b'41,none,"a, b"', b"52,flu,y", b"7.5,,z"]
ODD = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(
        st.sampled_from([b'"', b",", b"1", b"\x00", b"\r", b"\xff", b"flu", b"nan", b"-1e999"]),
        max_size=8,
    ).map(b"".join),
    st.floats().map(lambda number: f"{number!r},flu,x".encode()),
).map(lambda line: line.replace(b"\n", b""))


def of_records(table):
    """What is read of each record, as bytes: equal where it is equal to the last bit."""
    read = zip(table.numbers("age"), table.codes("disease", ("flu", "none")), strict=True)
    return [(number.tobytes(), int(code)) for number, code in read]


@given(line=ODD, place=st.integers(0, 3))
@example(line=b'30,flu,"x', place=1)
@example(line=b"", place=3)
@example(line=b"unknown,unknown,unknown", place=0)
@example(line=b'"' * 10_001, place=2)
@example(line=b"9" * 100_000 + b",flu,x", place=2)
@settings(max_examples=150, deadline=None)
def test_one_line_never_decides_how_another_is_read(tmp_path_factory, line, place):
    path = tmp_path_factory.getbasetemp() / "lines.csv"

    def read(lines):
        path.write_bytes(b"\n".join([b"age,disease,note", *lines]) + b"\n")
        return of_records(read_table(path, ["age", "disease"]))

    before = read(LINES)
    after = read([*LINES[:place], line, *LINES[place + 1 :]])
    assert len(after) == len(before)
    assert before[:place] + before[place + 1 :] == after[:place] + after[place + 1 :]


@pytest.mark.parametrize("quoted", ["x", '"x'])
def test_a_quote_in_a_column_that_nobody_asks_about_joins_no_records(write, quoted):
    lines = [f"{'yes' if number % 2 else 'no'},x" for number in range(20)]
    lines[2], lines[12] = f"no,{quoted}", f"no,{quoted}"
    table = read_table(write("\n".join(["flu,note", *lines]) + "\n"), ["flu"])
    assert table.rows == 20
    found = table.codes("flu", ("no", "yes"))
    others = [place for place in range(20) if place not in (2, 12)]
    assert found[others].tolist() == [place % 2 for place in others]


def test_a_hundred_thousand_lines_are_read(write):
    """About a second of work for both readings; one that is quadratic would take hours."""
    lines = "".join(f'{number},flu,"a, {number}",{number / 7}\n' for number in range(100_000))
    path = write("age,disease,note,income\n" + lines + '1,flu,"open\n')
    table = read_table(path)
    table.numbers("age"), table.numbers("income"), table.codes("disease", ("flu", "none"))
    assert read_table(path, multiline=True).rows == table.rows == 100_001


# ------------------------------------------------------------- Parquet


def test_parquet_reads_as_csv_does(tmp_path):
    path = tmp_path / "b.parquet"
    columns = {
        "age": pyarrow.array([30, None, 41], pyarrow.int16()),
        "disease": ["flu", "none", None],
        "weight": np.array([1.5, np.nan, np.inf], np.float32),
        "ward": pyarrow.array(["x", "y", None]).dictionary_encode(),
        "price": pyarrow.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.00")]),
        "born": pyarrow.array([datetime.date(2020, 1, 1), None, datetime.date(1990, 5, 1)]),
        "seen": pyarrow.array([1, None, 2**62], pyarrow.timestamp("ns")),
        "insured": [True, None, False],
        "empty": pyarrow.nulls(3),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    table = read_table(path)
    assert table.rows == 3
    assert same(table.numbers("age"), [30, np.nan, 41])
    assert same(table.numbers("weight"), [1.5, np.nan, np.nan])
    assert same(table.numbers("price"), [1.5, np.nan, 2.0])
    assert same(table.numbers("insured"), [1, np.nan, 0])
    assert same(table.numbers("empty"), [np.nan] * 3)
    assert table.codes("ward", ("y", "x")).tolist() == [1, 0, -1]
    assert table.codes("disease", ("flu", "none")).tolist() == [0, 1, -1]
    assert table.codes("price", ("1.5", "2")).tolist() == [0, -1, 1]
    assert table.codes("born", ("2020-01-01",)).tolist() == [0, -1, -1]
    assert table.codes("insured", ("true", "false")).tolist() == [0, -1, 1]
    assert table.columns["seen"][1] is None


CELLS = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.sampled_from([b'"', b"\n", b"\xff", b"nan", b"flu", b"1e999", b"\x00", b"9" * 10_000]),
)


@given(cell=CELLS, number=st.one_of(st.none(), st.floats()), place=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_one_parquet_cell_never_decides_how_another_is_read(tmp_path_factory, cell, number, place):
    path = tmp_path_factory.getbasetemp() / "cells.parquet"

    def read(texts, weights):
        raw = pyarrow.array(texts, pyarrow.binary())
        # As text that nobody checked: files may hold any bytes.
        unchecked = pyarrow.Array.from_buffers(pyarrow.string(), len(raw), raw.buffers())
        places = [None if text is None else place for place, text in enumerate(texts)]
        full = pyarrow.array([text or b"" for text in texts], pyarrow.binary())
        coded = pyarrow.DictionaryArray.from_arrays(
            pyarrow.array(places, pyarrow.int32()),
            pyarrow.Array.from_buffers(pyarrow.string(), len(full), full.buffers()),
        )
        table = pyarrow.table(
            {"text": unchecked, "coded": coded, "weight": pyarrow.array(weights, pyarrow.float64())}
        )
        pyarrow.parquet.write_table(table, path)
        found = read_table(path)
        read = (
            found.numbers("text"),
            found.codes("text", ("flu", "none")),
            found.numbers("weight"),
            found.codes("weight", (1, 2)),
            found.codes("coded", ("flu", "none")),
        )
        return [tuple(value.tobytes() for value in record) for record in zip(*read, strict=True)]

    texts, weights = [b"30", b"flu", b"none", b"x"], [1.0, 2.5, -1.0, None]
    before = read(texts, weights)
    texts[place], weights[place] = cell, number
    after = read(texts, weights)
    assert before[:place] + before[place + 1 :] == after[:place] + after[place + 1 :]


# ------------------------------------------------------------- refusals, of what is public


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
        ("", "a.csv", "no names of columns"),
        ("\n1\n", "a.csv", "no names of columns"),
        (b"\xff\xfea\x00\n1\n", "a.csv", "no names of columns"),
        ("age,income\n", "a.csv", "no records"),
        ("age,age\n1,2\n", "a.csv", "twice"),
        ("not a parquet file", "a.parquet", "cannot be read"),
        ("age\n1\n", "a.xlsx", "only .csv and .parquet"),
    ],
)
def test_unreadable_files(write, text, name, message):
    for multiline in (False, True):
        with pytest.raises(InvalidInput, match=message) as caught:
            read_table(write(text, name), multiline=multiline)
        assert name in str(caught.value)


def test_a_type_of_a_parquet_column_that_is_no_value_is_refused_by_its_schema(tmp_path):
    path = tmp_path / "b.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"visits": [[1], [2]], "age": [3, 4]}), path)
    assert read_table(path, ["age"]).rows == 2
    with pytest.raises(InvalidInput, match=r"'visits' has type list.*convert it first"):
        read_table(path)


def test_missing_file_and_column(write, tmp_path):
    with pytest.raises(InvalidInput, match="no such file"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(InvalidInput, match="no column 'height': it has age, disease, income"):
        read_table(write(GOOD), ["height"])
    with pytest.raises(InvalidInput, match="no column 'age'"):
        read_table(write(GOOD), ["income"]).numbers("age")
    assert len(read_table(write(GOOD.replace(",", ";")), ["age"]).numbers("age")) == 3


def test_the_party_is_told_what_was_not_read(write):
    table = read_table(write(GOOD))
    with pytest.warns(UnreadValues, match=r"1 of 3 values of 'income' in .*a\.csv .* record 3: "):
        table.warn_unread(np.isnan(table.numbers("income")), "income", "numbers")


@pytest.mark.parametrize("text", ["", "1", "a:b", "2:1", "0:inf", "nan:1", "1:1"])
def test_bad_bounds(text):
    with pytest.raises(InvalidInput, match="0:120"):
        Bounds.parse(text)


@given(low=st.floats(-1e9, 1e9), width=st.floats(1e-3, 1e9))
@settings(deadline=None)
def test_bounds_round_trip(low, width):
    bounds = Bounds.parse(f"{low!r}:{low + width!r}")
    assert bounds.pair == (low, low + width)
