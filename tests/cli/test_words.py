"""Printed upper bounds are never below the truth."""

from hypothesis import given
from hypothesis import strategies as st

from unisono.cli import words

POSITIVE = st.floats(1e-12, 1e12, allow_nan=False)


@given(POSITIVE, st.integers(2, 8))
def test_rounding_is_upwards_and_slight(value, digits):
    rounded = words.round_up(value, digits)
    assert rounded >= value
    assert rounded <= value * (1 + 10.0 ** (1 - digits)) + 1e-300 or rounded - value < 1


@given(POSITIVE)
def test_printed_numbers_are_upper_bounds(value):
    assert float(words.number(value)) >= value * (1 - 1e-15)


@given(st.floats(0, 1))
def test_percentages_are_upper_bounds(probability):
    shown = float(words.percent(probability).removesuffix(" %"))
    assert shown >= 100 * probability - 1e-9
    assert shown <= 100 * probability + 0.100001


@given(st.floats(0, 3))
def test_a_bar_is_full_only_when_all_is_spent(share):
    bar = words.bar(share, 10)
    assert len(bar) == 10
    assert ("-" not in bar) == (share >= 1)
    assert ("#" in bar) == (share > 0)


def test_control_characters_are_taken_out():
    assert words.clean("a\x1b[31mb\nc\u202e") == "a?[31mb?c?"


def test_json_has_no_infinity():
    assert words.jsonable({"a": [float("inf"), float("nan"), 1.5]}) == {"a": ["inf", None, 1.5]}
