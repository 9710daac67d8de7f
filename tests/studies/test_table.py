"""A party's table against the study: header, types, categories, bounds and sizes."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unisono.data import UnreadValues
from unisono.data.encoding import Frame
from unisono.errors import ClippedValues, InvalidInput
from unisono.studies.build import build, columns
from unisono.studies.explain import explain
from unisono.studies.file import parse_study
from unisono.studies.table import values_of

pytestmark = pytest.mark.usefixtures("in_order")


def with_column(table, name, values):
    return replace(table, columns={**table.columns, name: values})


def test_values_rows_and_labels(text, table):
    file, own = parse_study(text), table(40)
    values = values_of(file, own, "north")
    assert np.array_equal(values["radius"], own.columns["radius"])
    assert np.array_equal(values["diagnosis"] == 1, own.columns["diagnosis"] == "malignant")
    frame = Frame(file.data)
    assert frame.names == ("radius", "age", "sex=m")
    assert np.array_equal(frame.rows(values)[:, 2] == 1, own.columns["sex"] == "m")
    rows, labels = columns(file, own, "north")
    assert np.all(np.linalg.norm(rows, axis=1) <= 1 + 1e-6)
    assert set(labels) == {-1.0, 1.0}
    # The sign of a row's first number over its last gives back the scaled feature.
    scaled = (own.columns["radius"] - 5) / 25
    assert rows[:, 0] / rows[:, -1] == pytest.approx(scaled, abs=1e-5)


def test_categories_of_three_values_become_two_columns(change, table):
    file = parse_study(change(('values = ["f", "m"]', 'values = ["x", "f", "m"]')))
    own = table(40)
    rows = Frame(file.data).rows(values_of(file, own, "north"))
    assert Frame(file.data).names == ("radius", "age", "sex=f", "sex=m")
    assert np.array_equal(rows[:, 2] == 1, own.columns["sex"] == "f")
    assert np.array_equal(rows[:, 3] == 1, own.columns["sex"] == "m")


def test_a_number_as_target_is_scaled_with_its_row(change, table):
    file = parse_study(
        change(
            ('target = "diagnosis"', 'target = "age"'), ("logistic-regression", "linear-regression")
        )
    )
    own = table(40)
    rows, labels = columns(file, own, "north")
    assert labels / rows[:, -1] == pytest.approx((own.columns["age"] - 60) / 60, abs=1e-5)


def test_numbers_outside_are_clipped_and_only_the_party_is_told(text, table):
    file, own = parse_study(text), table(40)
    far = own.columns["radius"].copy()
    far[3], far[4] = 1e9, -1.0
    with pytest.warns(ClippedValues, match="2 of 40 values of 'radius' lie outside .* 5 to 30"):
        values = values_of(file, with_column(own, "radius", far), "north")
    assert values["radius"][3] == 30
    assert values["radius"][4] == 5


@pytest.mark.parametrize(
    ("name", "cell", "words"),
    [
        ("sex", "x", r"1 of 40 values of 'sex' .* are not any of f, m, first in record 7:"),
        ("sex", None, r"empty cells among 40 records, .* do not count .*: sex 1"),
        ("radius", np.nan, r"empty cells among 40 records, .*: radius 1"),
        ("radius", "wide", r"are not numbers"),
        ("diagnosis", "", r"empty cells among 40 records, .*: diagnosis 1"),
    ],
)
def test_a_cell_that_cannot_be_read_is_missing_and_only_the_party_is_told(
    text, table, name, cell, words
):
    """A refusal would tell everybody of the record. What models see of it is NaN all over, and
    what they see of others is the same to the last bit; of public records it is refused."""
    built, own = build(parse_study(text)), table(40)
    changed = np.array(own.columns[name], object)
    changed[6] = cell
    broken = with_column(own, name, changed)
    with pytest.warns(UnreadValues, match=words):
        values = values_of(built.file, broken, "north")
    assert np.flatnonzero(np.isnan(values[name])).tolist() == [6]
    with pytest.warns(UnreadValues, match="Nobody else is told"):
        seen = built.columns(broken, "north")
    for one, other in zip(seen, built.columns(own, "north"), strict=True):
        assert np.isnan(one[6]).all()
        assert np.delete(one, 6, axis=0).tobytes() == np.delete(other, 6, axis=0).tobytes()
    with pytest.raises(InvalidInput, match=f"1 values of {name!r} are not .*record 7"):
        built.testable(broken)


def test_refusals(text, table):
    file, own = parse_study(text), table(40)
    fewer = replace(own, columns={k: v for k, v in own.columns.items() if k != "age"})
    with pytest.raises(InvalidInput, match="has no column 'age'"):
        values_of(file, fewer, "north")
    with pytest.raises(InvalidInput, match="has no party 'east'"):
        values_of(file, own, "east")


def test_exact_sizes_are_exact(text, table):
    with pytest.raises(InvalidInput, match="holds 39 records, and the study states 40 for north"):
        columns(parse_study(text), table(39), "north")


def test_hidden_sizes_admit_any_number_without_a_word(change, table):
    file = parse_study(
        change(('sizes = "exact"', 'sizes = "hidden"'), ('"replace-one"', '"add-or-remove"'))
    )
    built = build(file)
    assert built.study.facts.places == 128
    for records in (7, 128, 129, 1000):
        assert len(built.columns(table(records), "north")[0]) == records


def test_a_file_on_disk(text, tmp_path, table):
    own, path = table(40), tmp_path / "north.csv"
    names = list(own.columns)
    lines = [",".join(names), *(",".join(str(own.columns[n][i]) for n in names) for i in range(40))]
    path.write_text("\n".join(lines))
    built = build(parse_study(text))
    read = built.columns(built.table(path), "north")
    for one, other in zip(read, built.columns(own, "north"), strict=True):
        assert np.array_equal(one, other)


def test_newlines_in_cells_are_declared_in_the_study(change, tmp_path):
    path = tmp_path / "north.csv"
    path.write_text('radius,age,sex,diagnosis\n9,30,f,benign\n9,30,"f\n",benign\n')
    plain = build(parse_study(change()))
    declared = build(parse_study(change(('sizes = "exact"', 'sizes = "exact"\nmultiline = true'))))
    assert (plain.table(path).rows, declared.table(path).rows) == (3, 2)
    assert plain.file.hash != declared.file.hash
    assert plain.file.meaning["data"]["multiline"] is False
    words = [danger.words for danger in explain(declared.file).dangers]
    assert any("one record can change many" in said for said in words)


ODD_CELLS = st.sampled_from(["", '"', ",", "\x00", "nan", "1e999", "f", "benign", "12", "\r", "é"])


@given(
    line=st.one_of(
        st.binary(max_size=30),
        st.lists(ODD_CELLS, max_size=9).map(lambda cells: ",".join(cells).encode()),
    )
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_one_line_never_changes_what_a_model_sees_of_another(text, table, tmp_path, line):
    """From the bytes of a file to the rows of a model: the others are equal to the last bit."""
    own, path, built = table(40), tmp_path / "north.csv", build(parse_study(text))
    cells = zip(*own.columns.values(), strict=True)
    lines = [",".join(own.columns), *(",".join(map(str, record)) for record in cells)]
    seen = []
    for changed in (lines[6].encode(), line.replace(b"\n", b"")):
        file = [one.encode() for one in lines]
        file[6] = changed
        path.write_bytes(b"\n".join(file) + b"\n")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreadValues)
            warnings.simplefilter("ignore", ClippedValues)
            seen.append(built.columns(built.table(path), "north"))
    for before, after in zip(*seen, strict=True):
        assert before.shape == after.shape
        assert np.delete(before, 5, axis=0).tobytes() == np.delete(after, 5, axis=0).tobytes()
