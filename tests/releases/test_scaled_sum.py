"""Sums of rows times coefficients: what they are, and how far one record moves them."""

from functools import lru_cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.core.algorithm import Facts
from unisono.core.privacy import Privacy
from unisono.core.stacked import StackedColumn
from unisono.core.trust import Relation, Trust
from unisono.errors import InvalidInput
from unisono.releases.bounds import ClippedSum
from unisono.releases.release import Release, fits, price, sum_reach
from unisono.releases.scaled_sum import BLOCK, ScaledSum

PRIVACY, STEP = Privacy(1.0, 1e-6), 2.0**-12
SIZES = (1, 5, BLOCK - 1, BLOCK, 2 * BLOCK + 1, 5 * BLOCK + 7)


def facts(records, features=3, exact=True):
    return Facts((records,), features, 1, exact_sizes=exact)


@lru_cache
def program(bound, given):
    return jax.jit(lambda *raw: bound.integers(given, PRIVACY, STEP, raw[:2], raw[2])[0].value)


def summed(bound, coefficients, rows, mask=None, exact=True):
    mask = np.ones(len(rows), bool) if mask is None else mask
    compiled = program(bound, facts(len(rows), rows.shape[1], exact))
    return np.asarray(compiled(coefficients, rows, mask), np.int64)


def exactly(clip, coefficients, rows, mask):
    """The same in doubles, without rounding: (features · outputs,)."""
    given = coefficients.reshape(len(rows), -1).astype(float)
    gradients = rows.astype(float)[:, :, None] * given[:, None, :]
    flat = gradients.reshape(len(rows), -1)[mask]
    norms = np.linalg.norm(flat, axis=1, keepdims=True)
    return (flat * np.minimum(1, clip / np.maximum(norms, 1e-30))).sum(axis=0)


def records(generator, size, features, outputs):
    rows = generator.normal(size=(size, features)).astype(np.float32)
    return generator.normal(size=(size, outputs)).astype(np.float32), rows


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("outputs", [1, 4])
def test_it_is_the_sum_of_clipped_gradients(size, outputs):
    generator = np.random.default_rng(size)
    coefficients, rows = records(generator, size, 3, outputs)
    mask = generator.random(size) < 0.7
    bound = ScaledSum(0.8, 3, outputs)
    total = STEP * summed(bound, coefficients, rows, mask)
    blocks = -(-size // BLOCK)
    error = np.abs(total - exactly(0.8, coefficients, rows, mask))
    assert error.max() <= blocks * STEP / 2 + 1e-4 * size
    alone = ClippedSum(0.8, 3 * outputs)
    gradients = (rows[:, :, None] * coefficients[:, None, :]).reshape(size, -1)
    found, _ = alone.integers(facts(size), PRIVACY, STEP, gradients, mask)
    assert np.abs(total - STEP * np.asarray(found.value)).max() <= STEP * (size + blocks) / 2 + 1e-4


@pytest.mark.parametrize("size", SIZES)
def test_hidden_sizes_round_every_record_on_its_own(size):
    """In any order, to the last bit."""
    generator = np.random.default_rng(size)
    coefficients, rows = records(generator, size, 3, 1)
    order = generator.permutation(size)
    bound = ScaledSum(0.8, 3)
    one = summed(bound, coefficients, rows, exact=False)
    assert np.array_equal(one, summed(bound, coefficients[order], rows[order], exact=False))
    hidden = facts(size, exact=False)
    assert bound.sensitivity(hidden, PRIVACY, STEP) == ClippedSum(0.8, 3).sensitivity(
        hidden, PRIVACY, STEP
    )


STRANGE = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-30, 1e20, -1e30, 3e38, np.nan, np.inf, -np.inf])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SIZES), st.integers(0, 2**31), st.lists(STRANGE, min_size=8, max_size=8))
def test_one_record_moves_it_no_further_than_it_says(size, seed, odd):
    generator = np.random.default_rng(seed)
    coefficients, rows = records(generator, size, 3, 1)
    coefficients *= generator.choice([0.0, 1e-3, 1.0, 1e6], (size, 1)).astype(np.float32)
    bound, place = ScaledSum(0.5, 3), int(generator.integers(size))
    others, moved = coefficients.copy(), rows.copy()
    others[place], moved[place] = odd[0], odd[1:4]
    coefficients[place], rows[place] = odd[4], odd[5:8]
    change = summed(bound, others, moved) - summed(bound, coefficients, rows)
    said = bound.sensitivity(facts(size), PRIVACY, STEP).under(Relation.REPLACE_ONE)
    assert STEP * np.linalg.norm(change) <= said.in_norm("l2")
    zeroed = summed(bound, coefficients, rows, np.arange(size) != place)
    said = bound.sensitivity(facts(size), PRIVACY, STEP).under(Relation.ZERO_OUT)
    assert STEP * np.linalg.norm(zeroed - summed(bound, coefficients, rows)) <= said.in_norm("l2")


@pytest.mark.parametrize("tiny", [1e-30, 1e-25, 1e-22, 1e-20, 1e-19, 1e-18])
def test_a_tiny_row_with_a_huge_coefficient_is_no_short_gradient(tiny):
    """Its squares underflow, so that its norm seems to be zero. Either way round."""
    bound = ScaledSum(0.5, 3)
    said = bound.sensitivity(facts(5), PRIVACY, STEP).under(Relation.ZERO_OUT)
    for row, coefficient in ((tiny, 3e38), (3e18, tiny), (tiny, 1e15), (3e38, tiny)):
        rows, coefficients = np.zeros((5, 3), np.float32), np.zeros((5, 1), np.float32)
        rows[2], coefficients[2] = row, coefficient
        total = summed(bound, coefficients, rows)
        assert STEP * np.linalg.norm(total) <= said.in_norm("l2")


def test_opposite_records_nearly_reach_what_it_says():
    """A claim of half as much would be refuted."""
    rows = np.zeros((2 * BLOCK, 3), np.float32)
    rows[:, 0] = 1
    coefficients = np.ones((2 * BLOCK, 1), np.float32)
    other = coefficients.copy()
    other[7] = -1
    bound = ScaledSum(0.5, 3)
    change = summed(bound, other, rows) - summed(bound, coefficients, rows)
    said = bound.sensitivity(facts(2 * BLOCK), PRIVACY, STEP).under(Relation.REPLACE_ONE)
    assert 0.99 * said.in_norm("l2") <= STEP * np.linalg.norm(change) <= said.in_norm("l2")


@pytest.mark.parametrize("features", [1, 10, 100, 1000])
def test_blocks_add_at_most_half_a_percent_to_the_sensitivity(features):
    bound, given = ScaledSum(1.0, features), facts(10_000, features)
    *_, step = bound.steps(Release(bound), given, PRIVACY)
    said = bound.sensitivity(given, PRIVACY, step).under(Relation.ZERO_OUT)
    assert 1.0 <= said.in_norm("l2") <= 1.005


@pytest.mark.parametrize("features", [20, 100])
def test_a_million_records_round_finely_and_their_sum_fits(features):
    bound, given = ScaledSum(0.4, features), Facts((100_000,) * 10, features, 10, 1)
    release, privacy = Release(bound, 200), Privacy(1.0, 1e-9)
    found = price(release, privacy, given, Trust.SECURE_SUM)
    said = bound.sensitivity(given, privacy, found.step).under(Relation.ZERO_OUT).in_norm("l2")
    assert 0.4 <= said <= 0.4 * 1.007
    reach = sum_reach(bound.sum_bound(release, given, privacy), found.events, given, Trust.LOCAL)
    assert fits(reach, found.step)
    assert not fits(reach, found.step / 4)


def test_wide_noise_takes_a_coarser_step():
    """Its room in the modulus is found before anybody is asked to pay."""
    bound, given = ScaledSum(0.4, 10), Facts((20_000,) * 50, 10, 50)
    release = Release(bound, 1000)
    steps = [
        price(release, Privacy(epsilon, 1e-9), given, Trust.LOCAL).step for epsilon in (1.0, 0.05)
    ]
    assert steps[0] < steps[1]


def test_turns_are_cut_out_of_a_stack_where_they_lie():
    """Row by row what `local` makes of all records of the second of three parties."""
    generator, size, features = np.random.default_rng(3), 1500, 40
    stack = generator.normal(size=(3, size, features)).astype(np.float32)
    labels = generator.normal(size=(3, size)).astype(np.float32)
    bound, mask = ScaledSum(0.8, features), generator.random(size) < 0.9
    assert bound.turn < size

    def local(columns, present):
        return jax.numpy.tanh(columns[1]), columns[0]

    def of_party(stack, labels, mask, party):
        columns = (StackedColumn(stack, party), StackedColumn(labels, party))
        return bound.streamed(facts(size, features), PRIVACY, STEP, local, columns, mask).value

    found = STEP * np.asarray(jax.jit(of_party)(stack, labels, mask, 1))
    true = exactly(0.8, np.tanh(labels[1])[:, None], stack[1], mask)
    assert np.abs(found - true).max() <= -(-size // BLOCK) * STEP / 2 + 1e-4
    assert np.abs(found - exactly(0.8, np.tanh(labels[0])[:, None], stack[0], mask)).max() > 1


def test_every_record_has_one_row_and_one_coefficient():
    bound = ScaledSum(1.0, 3)
    with pytest.raises(InvalidInput, match="each record has one of each"):
        bound.integers(facts(4), PRIVACY, STEP, (np.ones(3), np.ones((4, 3))), np.ones(4, bool))


def test_products_have_all_digits_on_every_machine():
    """Processors ignore it; accelerators take ten bits, unless they are told not to."""
    bound, rows = ScaledSum(1.0, 3, 2), np.ones((2 * BLOCK + 5, 3), np.float32)
    text = program(bound, facts(len(rows))).lower(rows[:, :2], rows, rows[:, 0] > 0).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    assert len(products) >= 4
    assert all("HIGHEST" in line for line in products)
