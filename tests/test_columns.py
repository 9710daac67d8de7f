"""Columns as hospitals have them: what a declaration makes of every cell, record by record."""

import datetime
import math
import warnings

import numpy as np
import pyarrow
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from unisono.data import read_table
from unisono.data.arrow import ArrowColumn
from unisono.data.cells import as_day, as_number
from unisono.data.columns import AnyColumn, Date, restricted_cubic
from unisono.data.csv_file import CsvDialect
from unisono.data.encoding import Frame
from unisono.data.schema import Schema
from unisono.errors import InvalidInput

KNOWN = TypeAdapter(AnyColumn)


def column(**said):
    return KNOWN.validate_python(said, strict=False)


def number(low=0.0, high=10.0, **said):
    return column(kind="number", bounds=(low, high), **said)


def category(*values, **said):
    return column(kind="category", values=values, **said)


NAN = math.nan

# ------------------------------------------------------------- missing and other values


@pytest.mark.parametrize(
    ("declared", "cells", "read"),
    [
        (number(), ["1", "n/a", None], [1, NAN, NAN]),
        (number(missing="drop record"), ["1", "n/a"], [1, NAN]),
        (number(missing="indicator", fill=0.0), ["1", ""], [1, NAN]),
        (number(missing=4.0), ["1", "", "?"], [1, 4, 4]),
        (category("a", "b"), ["b", "c", ""], [1, NAN, NAN]),
        (category("a", "b", other=True), ["b", "c", "", "NA"], [1, 2, NAN, NAN]),
        (category("a", "b", missing="category"), ["b", "c", ""], [1, 2, 2]),
        (category("a", "b", other=True, missing="category"), ["b", "c", "", "?"], [1, 2, 3, 3]),
        (category("a", "b", missing="b"), ["a", "", "c"], [0, 1, 1]),
        (category("a", "NA", other=True), ["NA", "n/a"], [1, NAN]),
        (column(kind="ordinal", values=("low", "mid", "high")), ["high", "x"], [2, NAN]),
        (column(kind="true-false"), ["Yes", "f", "1", "maybe", None], [1, 0, 1, NAN, NAN]),
        (column(kind="true-false", missing=True), ["no", ""], [0, 1]),
        (column(kind="true-false", missing="category"), ["no", ""], [0, 2]),
        (number(missing_codes=(9, -9)), ["1", "9", 9.0, "9.0", "-9", "99"], [1, *[NAN] * 4, 99]),
        (number(missing=4.0, missing_codes=("none",)), ["1", "none"], [1, 4]),
        (
            number(missing_codes=(9.0,), missing="indicator", fill=0.0),
            np.array([1.0, 9.0]),
            [1, NAN],
        ),
        (category("a", "b", other=True, missing_codes=("x",)), ["a", "x", "y"], [0, NAN, 2]),
        (category("a", "b", missing="category", missing_codes=(9,)), ["b", "9"], [1, 2]),
        (
            category("a", "b", missing_codes=("9", "refused")),
            ["b", "9.0", "refused"],
            [1, NAN, NAN],
        ),
        (
            category("a", "b", other=True, missing="category", missing_codes=("9",)),
            ["b", "c", "9", ""],
            [1, 2, 3, 3],
        ),
        (column(kind="ordinal", values=("1", "2"), missing_codes=(8,)), [1, 8, "2"], [0, NAN, 1]),
        (
            column(kind="ordinal", values=("1", "2"), missing_codes=("9",), missing="1"),
            ["2", "9"],
            [1, 0],
        ),
        (column(kind="true-false", missing=True, missing_codes=(9,)), ["no", 9], [0, 1]),
        (
            column(kind="true-false", missing_codes=("9",), missing="category"),
            ["1", "9", "x"],
            [1, 2, 2],
        ),
    ],
)
def test_every_declaration_says_what_becomes_of_an_odd_cell(declared, cells, read):
    assert np.array_equal(declared.read(cells), np.array(read, float), equal_nan=True)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"kind": "number", "bounds": (3.0, 1.0)}, "bounds 3 to 1 are no range"),
        ({"kind": "number", "bounds": (0.0, 1.0), "missing": 7.0}, "lies outside the bounds"),
        ({"kind": "number", "bounds": (0.0, 1.0), "missing": "mean"}, "'drop record' or 'indi"),
        ({"kind": "number", "bounds": (-2.0, 1.0), "transform": "log1p"}, "above -1"),
        ({"kind": "number", "bounds": (-2.0, 1.0), "transform": "sqrt"}, "at least 0"),
        ({"kind": "number", "bounds": (0.0, 1.0), "power": -1.0}, "power = -1"),
        ({"kind": "number", "bounds": (0.0, 9.0), "power": 2.0, "bins": (3.0,)}, "keep one"),
        ({"kind": "number", "bounds": (0.0, 9.0), "bins": (5.0, 3.0)}, "rising"),
        ({"kind": "number", "bounds": (0.0, 9.0), "knots": (5.0, 6.0)}, "at least 3"),
        ({"kind": "number", "bounds": (0.0, 9.0), "knots": (5.0, 6.0, 10.0)}, "between the bounds"),
        ({"kind": "category", "values": ("a", "a")}, "name each value once"),
        ({"kind": "category", "values": ("a", "(missing)")}, "rename it"),
        ({"kind": "category", "values": ("a", "b"), "missing": "c"}, "one of a, b"),
        ({"kind": "ordinal", "values": ("a", "b"), "missing": "category"}, "no place in an order"),
        (
            {"kind": "ordinal", "values": ("1", "2"), "missing_codes": (2,)},
            "one of the values 1, 2",
        ),
        (
            {"kind": "category", "values": ("a", "9"), "missing_codes": ("9",)},
            "'9' is one of the values a, 9, too",
        ),
        ({"kind": "true-false", "missing_codes": (9, "9")}, "name each once"),
        ({"kind": "true-false", "missing_codes": ("",)}, "none empty"),
        ({"kind": "true-false", "missing_codes": ("1",)}, "'1' is read as true or false"),
        ({"kind": "true-false", "missing_codes": ("Yes",)}, "'Yes' is read as true or false"),
        ({"kind": "date", "bounds": ("2020-01-01", "soon")}, "'soon' is no day"),
        ({"kind": "date", "bounds": ("2020-01-01", "2010-01-01")}, "2020-01-01 to 2010-01-01"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(said, words):
    with pytest.raises((InvalidInput, ValidationError), match=words):
        column(**said)


# ------------------------------------------------------------- features


def rows(schema_columns, values, target=None, **said):
    schema = Schema(columns=schema_columns, target=target, **said)
    frame = Frame(schema)
    made = frame.rows({name: np.array(own, float) for name, own in values.items()})
    return frame, made


def test_features_say_what_their_zero_means():
    """One value, or nothing where 0 is no value of its own."""
    columns = {
        "age": number(0, 100, missing="indicator", fill=0.0),
        "score": number(0, 10, bins=(2.0, 5.0)),
        "sex": category("f", "m", missing="category"),
        "stage": column(kind="ordinal", values=("I", "II", "III")),
        "smoker": column(kind="true-false"),
        "day": column(kind="date", bounds=("2020-01-01", "2021-01-01"), parts=("weekday",)),
    }
    found = {one.name: one.reference for name, own in columns.items() for one in own.features(name)}
    assert found["score=5 to 10"] == "score=0 to 2"
    assert found["sex=m"] == found["sex=(missing)"] == "sex=f"
    assert found["smoker"] == "smoker=false"
    days = [reference for name, reference in found.items() if name.startswith("day=")]
    assert len(days) == 6
    assert len(set(days)) == 1
    assert days[0] not in found
    assert found["age"] == found["age=(missing)"] == found["stage"] == ""


def test_features_are_named_and_lie_in_their_public_ranges():
    frame, made = rows(
        {
            "age": number(0, 100, missing="indicator", fill=0.0),
            "income": number(0, 99, transform="log1p"),
            "visits": number(0, 16, transform="sqrt"),
            "area": number(0, 3, power=2.0),
            "score": number(0, 10, bins=(2.0, 5.0)),
            "sex": category("f", "m", other=True, missing="category"),
            "stage": column(kind="ordinal", values=("I", "II", "III")),
            "smoker": column(kind="true-false", missing="category"),
        },
        {
            "age": [50, NAN],
            "income": [99, 0],
            "visits": [9, 16],
            "area": [3, 1],
            "score": [2, 9],
            "sex": [1, 3],
            "stage": [2, 0],
            "smoker": [1, 2],
        },
    )
    assert frame.names == (
        "age",
        "age=(missing)",
        "log1p(income)",
        "sqrt(visits)",
        "area^2",
        "score=2 to 5",
        "score=5 to 10",
        "sex=m",
        "sex=(other)",
        "sex=(missing)",
        "stage",
        "smoker",
        "smoker=(missing)",
    )
    expected = [
        [50, 0, math.log(100), 3, 9, 1, 0, 1, 0, 0, 2, 1, 0],
        [0, 1, 0, 4, 1, 0, 1, 0, 0, 1, 0, 0, 1],
    ]
    np.testing.assert_allclose(made, expected)
    low, high = np.array([feature.bounds for feature in frame.features]).T
    assert (low <= made).all()
    assert (made <= high).all()


def test_interactions_are_products_within_products_of_ranges():
    frame, made = rows(
        {"a": number(-2, 3), "b": number(-5, 1), "sex": category("f", "m")},
        {"a": [3, -2], "b": [-5, 1], "sex": [1, 0]},
        interactions=(("a", "b"), ("a", "sex")),
    )
    assert frame.names[3:] == ("a:b", "a:sex=m")
    assert [feature.bounds for feature in frame.features[3:]] == [(-15, 10), (-2, 3)]
    np.testing.assert_array_equal(made[:, 3:], [[-15, 3], [-2, 0]])
    with pytest.raises((InvalidInput, ValidationError), match="'c' is no feature"):
        rows({"a": number()}, {"a": [1]}, interactions=(("a", "c"),))


def test_an_indicator_enlarges_the_public_radius():
    plain, _ = rows({"age": number()}, {"age": [1]})
    flagged, _ = rows({"age": number(missing="indicator", fill=0.0)}, {"age": [1]})
    assert len(flagged.scaling().shift) == len(plain.scaling().shift) + 1


def test_a_missing_target_drops_its_record_whatever_is_declared():
    _, made = rows(
        {
            "age": number(missing="indicator", fill=0.0),
            "outcome": number(missing="indicator", fill=0.0),
        },
        {"age": [1, 2], "outcome": [NAN, 1]},
        target="outcome",
    )
    assert np.isnan(made[0]).all()
    assert not np.isnan(made[1]).any()


def test_restricted_cubic_splines_are_linear_outside_and_bend_inside():
    """Against their definition: continuous second derivative, straight beyond the outer knots."""
    knots, x = (2.0, 4.0, 5.0, 8.0), np.linspace(0, 10, 2001)
    basis = restricted_cubic(x, knots)
    assert basis.shape == (2001, 3)
    second = np.diff(basis, 2, axis=0)
    outside = (x[1:-1] < 1.99) | (x[1:-1] > 8.01)
    assert np.abs(second[outside]).max() < 1e-9 < np.abs(second[:, 1:]).max()
    assert (np.diff(basis, axis=0) >= -1e-12).all()  # so its range is that of its ends
    assert np.abs(np.diff(second, axis=0)).max() < 1e-6


# ------------------------------------------------------------- dates


def test_dates_are_years_ages_and_parts():
    born = column(kind="date", bounds=("1920-01-01", "2010-12-31"), age_at="2020-01-01")
    assert born.read(["1970-01-01"])[0] == pytest.approx(50, abs=0.01)
    assert born.span[0] < 10 < 100 < born.span[1] + 0.01
    admitted = column(
        kind="date",
        bounds=("2010-01-01", "2024-12-31"),
        format="%d.%m.%Y %H:%M",
        parts=("year", "month", "weekday", "hour"),
        missing="indicator",
        fill="2020-11-17",
    )
    values = admitted.read(["17.11.2020 13:05", "tomorrow", "17/11/2020"])
    assert values[0] == pytest.approx(2020.88, abs=0.01)
    assert np.isnan(values[1:]).all()
    names = [feature.name for feature in admitted.features("day")]
    made = dict(zip(names, admitted.encoded(values)[0], strict=True))
    hot = {name for name, value in made.items() if value == 1}
    assert hot == {"day=November", "day=Tuesday", "day=13"}
    assert admitted.encoded(values)[1, -1] == 1
    assert admitted.encoded(values)[1, 0] == pytest.approx(2020.88, abs=0.01)
    assert np.isfinite(admitted.encoded(values)).all()


@given(st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)))
@example(datetime.datetime(2000, 1, 1, 1, 0))
def test_parts_of_a_date_are_those_of_the_calendar(moment):
    moment = moment.replace(microsecond=0)
    told = Date(
        kind="date", bounds=("1900-01-01", "2100-01-02"), parts=("month", "weekday", "hour")
    )
    for aged in (told, told.model_copy(update={"age_at": "2024-02-29"})):
        [made] = aged.encoded(aged.read([moment.isoformat()]))
        parts = np.split(made, [11, 17])
        for hot, place in zip(
            parts, (moment.month - 1, moment.weekday(), moment.hour), strict=True
        ):
            assert np.flatnonzero(hot).tolist() == ([place - 1] if place else [])


@pytest.mark.parametrize("code", ["31.12.9999", "9999-12-31"])
def test_days_may_stand_for_a_missing_one(code):
    """As cells are written, or as bounds are; and where cells are days and no text, too."""
    bounds = ("2000-01-01", "2030-01-01")
    declared = column(kind="date", bounds=bounds, format="%d.%m.%Y", missing_codes=(code, "never"))
    cells = ["31.12.9999", "01.01.2020", "31.12.2999", " 31.12.9999", "never", "soon", ""]
    assert np.isnan(declared.read(cells)).tolist() == [True, False, False, *[True] * 4]
    assert declared.coded(cells).tolist() == [True, False, False, True, True, False, False]
    days = [datetime.datetime(9999, 12, 31), datetime.date(9999, 12, 31), datetime.date(2020, 1, 1)]
    assert declared.coded(days).tolist() == [True, True, False]
    times = pyarrow.array([days[0], datetime.datetime(2020, 1, 1)], pyarrow.timestamp("s"))
    iso = column(kind="date", bounds=bounds, missing_codes=("9999-12-31",))
    assert iso.coded(ArrowColumn("list", times)).tolist() == [True, False]


def test_codes_are_known_by_the_decimal_mark_of_numbers():
    cells = ["99,90", "99,9", "-9,0", "9,9", "99.9"]
    declared = number(missing_codes=(99.9, -9))
    assert declared.coded(cells, ",").tolist() == [True, True, True, False, True]
    assert np.array_equal(declared.read(cells, ","), [*[NAN] * 3, 9.9, NAN], equal_nan=True)
    listed = category("a", "b", other=True, missing_codes=(9,))
    assert listed.coded(["9.0", "9,0", "a"], ",").tolist() == [True, False, False]


def test_codes_are_public_and_part_of_the_agreement_and_silence_is_as_before():
    assert "missing_codes" not in number().hashed
    assert number(missing_codes=(-9.0,)).hashed != number().hashed
    assert number(missing_codes=(-9.0,)).hashed != number(missing_codes=(-8.0,)).hashed


def test_full_hours_are_their_own():
    told = Date(kind="date", bounds=("1900-01-01", "2100-01-02"), parts=("hour",))
    first = datetime.datetime(1932, 2, 23)
    moments = [first + datetime.timedelta(hours=hour) for hour in range(24 * 40)]
    made = told.encoded(told.read([moment.isoformat() for moment in moments]))
    found = [int(np.flatnonzero(hot)[0]) + 1 if hot.any() else 0 for hot in made]
    assert found == [moment.hour for moment in moments]


def test_dates_of_any_kind_are_the_same_day():
    same = ["2020-02-29", datetime.date(2020, 2, 29), np.datetime64("2020-02-29")]
    assert {as_day(value) for value in same} == {18321.0}
    assert as_day("2020-02-29T02:00+02:00") == 18321.0
    assert math.isnan(as_day(np.datetime64("NaT")))
    assert math.isnan(as_day("2020-02-30"))
    frame = np.array(["2020-02-29", "NaT"], "datetime64[ns]")
    told = column(kind="date", bounds=("2000-01-01", "2030-01-01"))
    assert np.isnan(told.read(frame)).tolist() == [False, True]


# ------------------------------------------------------------- dialects


TEXT = 'name;height;note\nÅsa;1,80;"a;b"\nJosé;n/a;x\n'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_files_are_read_as_they_are_declared_to_be_written(tmp_path, encoding, newline):
    path = tmp_path / "a.csv"
    path.write_bytes(TEXT.replace("\n", newline).encode(encoding))
    said = encoding.removesuffix("-sig")
    table = read_table(path, dialect=CsvDialect(decimal=",", encoding=said))
    assert list(table.column("name")) == ["Åsa", "José"]
    assert np.array_equal(table.numbers("height"), [1.8, NAN], equal_nan=True)
    assert table.column("note")[0] == "a;b"


def test_a_line_that_cannot_be_decoded_is_one_record(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n1,2\n3,gr\xf6\xdfer\n5,gr\xc3\xb6\xc3\x9fer\n")
    assert read_table(path).columns["b"] == ["2", "größer", "größer"]  # Latin-1, then UTF-8
    wide = "a,b\n1,2\n3,X\n5,6\n".encode("utf-16-le").replace("X".encode("utf-16-le"), b"\x00\xd8")
    path.write_bytes(b"\xff\xfe" + wide)
    assert np.array_equal(read_table(path).numbers("a"), [1, NAN, 5], equal_nan=True)


def test_the_header_alone_says_how_cells_are_separated(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1;2;3;4\n1,2\n")
    assert np.array_equal(read_table(path).numbers("a"), [NAN, 1], equal_nan=True)
    for mark in (",", ";", "\t", "|"):
        path.write_text(f"a{mark}b\n1{mark}2\n")
        assert read_table(path).numbers("b").tolist() == [2]
        path.write_text(f"a,x{mark}b\n1{mark}2\n")
        assert len(read_table(path, dialect=CsvDialect(separator=mark)).columns) == (
            3 if mark == "," else 2
        )


def test_commas_cannot_be_both(tmp_path):
    with pytest.raises((InvalidInput, ValidationError), match="nobody can tell them apart"):
        CsvDialect(separator=",", decimal=",")
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInput, match="save it with semicolons"):
        read_table(path, dialect=CsvDialect(decimal=","))


@pytest.mark.parametrize(
    ("text", "value"), [("2,5", 2.5), ("-,5e2", -50.0), ("2.5", NAN), ("1.000,5", NAN), ("7", 7.0)]
)
def test_a_decimal_comma_leaves_no_doubt(text, value):
    assert np.array_equal(as_number(text, ","), value, equal_nan=True)


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from([999, "999", 999.0, -9, "-9"]), st.floats(0, 9)), max_size=9)
)
def test_a_code_for_what_is_missing_is_an_empty_cell(cells):
    """Wherever cells come from, and whatever else is there."""
    for said in ({}, {"missing": "indicator", "fill": 0.0}, {"missing": 4.0}):
        plain, coded = number(**said), number(**said, missing_codes=(999, -9))
        gone = [None if as_number(cell) in (999, -9) else cell for cell in cells]
        expected = plain.read(gone)
        assert np.array_equal(coded.read(cells), expected, equal_nan=True)
        floats = np.array([as_number(cell) for cell in cells], float)
        assert np.array_equal(coded.read(floats), expected, equal_nan=True)
        arrow = ArrowColumn("list", pyarrow.array(floats))
        assert np.array_equal(coded.read(arrow), expected, equal_nan=True)
        text = ArrowColumn("list", pyarrow.array([str(cell) for cell in cells], pyarrow.string()))
        assert np.array_equal(coded.read(text), expected, equal_nan=True)
    assert number(missing_codes=(999,)).incomplete
    assert not number(missing=4.0, missing_codes=(999,)).incomplete


# ------------------------------------------------------------- one record, one row

DECLARED = {
    "n": number(-3, 9, missing="indicator", fill=0.0, missing_codes=(7, "x")),
    "spline": number(0, 9, knots=(1.0, 4.0, 8.0)),
    "c": category("a", "b", other=True, missing="category", missing_codes=("x",)),
    "o": column(kind="ordinal", values=("a", "b", "x"), missing="b"),
    "t": column(kind="true-false", missing="category"),
    "d": column(
        kind="date",
        bounds=("2000-01-01", "2030-01-01"),
        parts=("year", "weekday"),
        missing_codes=("0001-01-01",),
    ),
}
CELLS = st.one_of(
    st.none(),
    st.floats(),
    st.integers(-(10**30), 10**30),
    st.booleans(),
    st.text(max_size=6),
    st.sampled_from(["a", "b", "x", "yes", "2024-03-01", "NaN", "1e999", "", "0001-01-01"]),
    st.datetimes(),
    st.dates(),
)
RECORDS = st.lists(st.lists(CELLS, min_size=6, max_size=6), min_size=1, max_size=6)


def read_rows(records):
    values = {}
    for place, (name, own) in enumerate(DECLARED.items()):
        found = own.read([record[place] for record in records])
        values[name] = np.clip(found, *own.span) if own.numeric else found
    return Frame(Schema(columns=DECLARED, interactions=(("n", "c"),))).rows(values)


@settings(max_examples=200, deadline=None)
@given(RECORDS, st.lists(CELLS, min_size=6, max_size=6), st.data())
def test_one_record_changes_one_row_whatever_it_holds(records, other, data):
    """Bit by bit, and every row is within its public ranges or wholly missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = read_rows(records)
        place = data.draw(st.integers(0, len(records) - 1))
        after = read_rows([*records[:place], other, *records[place + 1 :]])
    others = np.arange(len(records)) != place
    assert np.array_equal(before[others], after[others], equal_nan=True)
    low, high = np.array(
        [f.bounds for f in Frame(Schema(columns=DECLARED, interactions=(("n", "c"),))).features]
    ).T
    missing = np.isnan(after)
    assert (missing.all(axis=1) == missing.any(axis=1)).all()
    inside = (low - 1e-9 <= after) & (after <= high + 1e-9)
    assert (inside | missing).all()
