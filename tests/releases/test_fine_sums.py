"""Sums of very many records: exact in limbs, rounded once, and bounded by what is said of them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.algorithms import statistics
from unisono.algorithms.survey import Survey
from unisono.core.algorithm import agree_facts
from unisono.core.privacy import Privacy
from unisono.core.trust import Relation, Trust
from unisono.releases import table as tables
from unisono.releases.fine_sums import joined, limb_widths, split
from unisono.releases.release import Release


@settings(deadline=None)
@given(
    st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=40),
    st.integers(0, 17),
    st.integers(1, 2**29),
)
def test_limbs_add_up_to_the_rounded_sum(fine, shift, rows):
    widths = limb_widths(shift, max(rows, len(fine)))
    assert sum(widths) == shift
    assert all(max(rows, len(fine)) * 2**width < 2**31 for width in widths if rows < 2**28)
    parts = split(jnp.asarray(fine, jnp.int32), widths)
    found = joined([jnp.sum(part, dtype=jnp.int32) for part in parts], widths)
    assert int(found) == (sum(fine) + (1 << shift >> 1)) >> shift


def asked():
    return Survey(
        [
            statistics.mean(0, (0.0, 10.0), name="a", wanted=("mean", "variance")),
            statistics.mean(1, (-3.0, 1.0), name="b", by=statistics.Groups(2, ("x", "y", "z"))),
            statistics.histogram(2, ("x", "y", "z"), name="c"),
        ]
    )


@cache
def case(relation, exact_sizes, records=2**20):
    """A table whose steps are coarse: one record adds about five hundred of them."""
    facts = agree_facts([records], 3, Trust.LOCAL, exact_sizes=exact_sizes)
    privacy, table = Privacy(1.0, 1e-9, relation), asked().table(facts)
    step = next(table.steps(Release(table), facts, privacy))
    assert table.shift(facts, privacy, step) > 0
    return table, facts, privacy, step


@cache
def compiled(parts):
    table, facts, privacy, step = parts

    def integers(rows, mask):
        return table.integers(facts, privacy, step, ((), rows), mask)[0].value

    return jax.jit(integers)


def value(parts, rows):
    padded = np.zeros((64, 3), np.float32)
    padded[: len(rows)] = rows
    found = compiled(parts)(padded, np.arange(64) < len(rows))
    return np.asarray(found, np.float64) * parts[-1]


RELATIONS = [
    (Relation.REPLACE_ONE, True),
    (Relation.ZERO_OUT, True),
    (Relation.REPLACE_ONE, False),
    (Relation.ADD_OR_REMOVE, False),
]


@pytest.mark.parametrize(("relation", "exact_sizes"), RELATIONS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_neighbours_are_no_further_apart_than_is_paid_for(relation, exact_sizes, seed):
    parts = case(relation, exact_sizes)
    table, facts, privacy, step = parts
    generator = np.random.default_rng(seed)
    ends = np.array([[0.0, -3.0, 0], [10.0, 1.0, 2]])
    rows = generator.uniform([0, -3, 0], [10, 1, 3], (30, 3))
    rows[:, 2] = np.floor(rows[:, 2])
    rows[0] = ends[generator.integers(0, 2, 3), [0, 1, 2]]
    other = rows.copy()
    if relation is Relation.REPLACE_ONE:
        other[0] = ends[generator.integers(0, 2, 3), [0, 1, 2]]
    elif relation is Relation.ZERO_OUT:
        other[0] = np.nan
    else:
        other = np.delete(other, 0, axis=0)
    far = value(parts, rows) - value(parts, other)
    bound = table.sensitivity(facts, privacy, step).under(relation)
    assert np.abs(far).sum() <= bound.in_norm("l1")
    assert np.sqrt((far**2).sum()) <= bound.in_norm("l2")
    assert np.abs(far).max() <= bound.in_norm("linf")


@pytest.mark.parametrize(("relation", "exact_sizes"), RELATIONS[:2])
def test_the_bound_would_not_hold_for_half_of_it(relation, exact_sizes):
    """An end of a range against the other: what is paid for is needed, nearly all of it."""
    parts = case(relation, exact_sizes)
    table, facts, privacy, step = parts
    bound = table.sensitivity(facts, privacy, step).under(relation).in_norm("l2")
    reached = 0.0
    for first in ([0, -3, 0], [10, 1, 0], [0, 1, 1]):
        for second in ([10, 1, 1], [10, 1, 0], [np.nan, np.nan, np.nan]):
            if relation is Relation.ZERO_OUT:
                second = [np.nan] * 3
            far = value(parts, [first]) - value(parts, [second])
            reached = max(reached, float(np.sqrt((far**2).sum())))
    assert bound / 2 < reached <= bound


def test_rounding_no_longer_grows_with_the_number_of_records():
    parts = case(Relation.REPLACE_ONE, True, records=50_000_000)
    table, _, privacy, step = parts
    rows = np.tile([[3.3, -1.0, 1.0]], (60, 1))  # each would be rounded the same way
    u = (3.3 - 5.0) / 5.0
    weight = table.factors(privacy, step)[0] * step
    found = value(parts, rows)[0] / weight
    assert abs(found - 60 * u) < 1.0 / table.factors(privacy, step)[0]


def test_few_records_are_rounded_as_before():
    facts = agree_facts([tables._MANY - 1], 3, Trust.LOCAL)
    privacy, table = Privacy(1.0, 1e-9), asked().table(facts)
    step = next(table.steps(Release(table), facts, privacy))
    assert table.shift(facts, privacy, step) == 0
