"""A party's table against the study: header, types, categories, bounds and sizes."""

from dataclasses import replace

import numpy as np
import pytest

from unisono.data import read_table
from unisono.errors import ClippedValues, InvalidInput
from unisono.studies.build import build, columns
from unisono.studies.file import parse_study
from unisono.studies.table import Frame, values_of


def with_column(table, name, values, kind=None):
    kinds = table.kinds if kind is None else {**table.kinds, name: kind}
    return replace(table, columns={**table.columns, name: values}, kinds=kinds)


def test_values_rows_and_labels(text, table):
    file, own = parse_study(text), table(40)
    values = values_of(file, own, "north", 40)
    assert np.array_equal(values["radius"], own.columns["radius"])
    assert np.array_equal(values["diagnosis"] == 1, own.columns["diagnosis"] == "malignant")
    frame = Frame(file)
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
    rows = Frame(file).rows(values_of(file, own, "north", 40))
    assert Frame(file).names == ("radius", "age", "sex=f", "sex=m")
    assert np.array_equal(rows[:, 2] == 1, own.columns["sex"] == "f")
    assert np.array_equal(rows[:, 3] == 1, own.columns["sex"] == "m")


def test_a_number_as_target_is_scaled_with_its_row(change, table):
    file = parse_study(change(('target = "diagnosis"', 'target = "age"'),
                              ("rounds = 20", 'rounds = 20\nloss = "squares"')))  # fmt: skip
    own = table(40)
    rows, labels = columns(file, own, "north")
    assert labels / rows[:, -1] == pytest.approx((own.columns["age"] - 60) / 60, abs=1e-5)


def test_numbers_outside_are_clipped_and_only_the_party_is_told(text, table):
    file, own = parse_study(text), table(40)
    far = own.columns["radius"].copy()
    far[3], far[4] = 1e9, -1.0
    with pytest.warns(ClippedValues, match="2 of 40 values of 'radius' lie outside .* 5 to 30"):
        values = values_of(file, with_column(own, "radius", far), "north", 40)
    assert values["radius"][3] == 30
    assert values["radius"][4] == 5


def test_refusals(text, table):
    file, own = parse_study(text), table(40)
    strange = own.columns["sex"].copy()
    strange[6] = "M"
    gap = own.columns["radius"].copy()
    gap[1] = np.nan
    fewer = replace(own, columns={k: v for k, v in own.columns.items() if k != "age"})
    for broken, words in [
        (with_column(own, "sex", strange), "'sex' of record 7 is none of f, m"),
        (with_column(own, "radius", gap), "'radius' is not a finite number .* in record 2"),
        (with_column(own, "radius", own.columns["sex"], "text"), "'radius' of .* holds text"),
        (fewer, "has no column 'age'"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            values_of(file, broken, "north", 40)
    with pytest.raises(InvalidInput, match="has no party 'east'"):
        values_of(file, own, "east", 40)


def test_exact_sizes_are_exact(text, table):
    with pytest.raises(InvalidInput, match="holds 39 records, and the study states 40 for north"):
        columns(parse_study(text), table(39), "north")


def test_hidden_sizes_leave_room(change, table):
    file = parse_study(change(('sizes = "exact"', 'sizes = "hidden"'),
                              ('"replace-one"', '"add-or-remove"')))  # fmt: skip
    built = build(file)
    assert built.study.facts.places == 128
    for records in (7, 128):
        assert len(built.columns(table(records), "north")[0]) == records
    with pytest.warns(UserWarning, match="holds 129 records, and the study states about"):
        assert len(built.columns(table(129), "north")[0]) == 129


def test_a_file_on_disk(text, tmp_path, table):
    own, path = table(40), tmp_path / "north.csv"
    names = list(own.columns)
    lines = [",".join(names), *(",".join(str(own.columns[n][i]) for n in names) for i in range(40))]
    path.write_text("\n".join(lines))
    built = build(parse_study(text))
    read = built.columns(read_table(path, built.column_names), "north")
    for one, other in zip(read, built.columns(own, "north"), strict=True):
        assert np.array_equal(one, other)
