"""Clipped integer sums: the bound they state is the bound they keep."""

import math
from functools import lru_cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unisono.core.release import require_room_for_noise
from unisono.core.trust import Relation
from unisono.core.values import clipped_sum, require_finite, sum_sensitivity, within
from unisono.errors import InvalidInput


def matrices(counts, widths):
    numbers = st.floats(-1e6, 1e6, width=32) | st.sampled_from([np.nan, np.inf, -np.inf, 0.0])
    return hnp.arrays(np.float32, st.tuples(counts, widths), elements=numbers)


def require_bounded(value, rows, clip, grid):
    """No record moves value(rows, mask) by more than the sensitivity."""
    bound = sum_sensitivity(clip, grid, rows.shape[1]).under(Relation.ZERO_OUT).in_norm("l2")
    whole = np.asarray(value(rows, np.ones(len(rows), bool)), np.int64)
    for gone in range(len(rows)):
        mask = np.arange(len(rows)) != gone
        moved = np.linalg.norm((whole - np.asarray(value(rows, mask), np.int64)) * grid)
        assert moved <= bound


@given(
    matrices(st.integers(1, 8), st.integers(1, 6)),
    st.floats(0.01, 100),
    st.sampled_from([2.0**-k for k in range(3, 12)]),
)
@settings(max_examples=150, deadline=None)
def test_removing_a_record_moves_the_sum_by_at_most_the_sensitivity(rows, clip, grid):
    """X-1: integers, rounded before the sum."""
    require_bounded(lambda r, m: clipped_sum(r, clip, grid, m).value, rows, clip, grid)


@lru_cache
def compiled_sum(clip, grid):
    return jax.jit(lambda rows, mask: clipped_sum(rows, clip, grid, mask).value)


@given(
    matrices(st.sampled_from([5, 8]), st.sampled_from([1, 6])),
    st.sampled_from([(0.013, 2.0**-3), (1.7, 2.0**-11), (97.3, 2.0**-6)]),
)
@settings(max_examples=100, deadline=None)
def test_the_same_holds_in_compiled_float32(rows, scales):
    """A few shapes and clips, because each is compiled anew."""
    require_bounded(compiled_sum(*scales), rows, *scales)


def test_an_unclipped_or_unrounded_bound_would_not_hold():
    """The sensitivity is not slack for nothing: rounding alone passes the plain clip."""
    row = np.full((1, 100), 0.1)  # norm 1, every coordinate rounds up from 1.5 to 2 steps
    moved = np.linalg.norm(clipped_sum(row * 1.5 * 10 / 15, 1.5, 1 / 15).value / 15)
    assert moved > 1.0


def test_float_sums_can_move_by_twice_the_clip_and_ours_cannot():
    """X-1's counterexample: big records absorb small ones in a float32 sum."""
    rows = np.concatenate([np.full((1, 1), 2.0**24), np.ones((7, 1))]).astype(np.float32)
    floats = jax.jit(lambda r: r.sum())
    moved_float = abs(float(floats(rows)) - float(floats(rows[:-1])))
    assert moved_float != 1.0
    integers = [int(clipped_sum(r, 2.0**24, 1.0).value[0]) for r in (rows, rows[:-1])]
    assert integers[0] - integers[1] == 1


def test_masked_and_not_finite_rows_contribute_exactly_zero():
    rows = np.array([[1.0], [np.nan], [np.inf], [5.0]])
    assert clipped_sum(rows, 1.0, 2.0**-4, np.array([True, True, True, False])).value == [16]


def test_within_compares_every_relation_and_norm():
    narrow, wide = sum_sensitivity(1.0, 0.01, 2), sum_sensitivity(2.0, 0.01, 2)
    assert within(narrow, wide, "l2")
    assert not within(wide, narrow, "l2")
    assert not within(sum_sensitivity(1.0, 0.01, 2, hides_presence=False), wide, "l2")


def test_bad_bounds_are_refused():
    for clip, grid in ((0.0, 1.0), (math.nan, 1.0), (1.0, -1.0), (1e-13, 1e-20)):
        with pytest.raises(InvalidInput):
            sum_sensitivity(clip, grid, 2)
    with pytest.raises(InvalidInput, match="2 value"):
        require_finite(np.array([1, np.nan, np.inf]), "ages")


@pytest.mark.parametrize("extreme", [2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_integers_that_leave_no_room_for_noise_are_refused(extreme):
    """The least 64-bit integer too, whose absolute value in 64 bits is negative."""
    require_room_for_noise(np.array([], np.int64))
    require_room_for_noise(np.array([0, 2**62 - 1, 1 - 2**62]))
    with pytest.raises(InvalidInput, match="overflows 62-bit"):
        require_room_for_noise(np.array([0, extreme, 5]))
