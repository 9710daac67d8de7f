"""Sums of clipped gradients: what one record can move, and what the server reads."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.core.trust import Relation
from unisono.errors import InvalidInput
from unisono.problems.networks import mlp
from unisono.problems.per_record import PerRecord
from unisono.releases import blocked_sum
from unisono.releases.blocked_sum import STYLES, Clipping, clipped_sum, moved, read

WIDTH, COUNT, GRID = 4, 11, 2.0**-16
NETWORK = mlp(WIDTH, (3,), 3, activation="tanh")
PARAMETERS = jax.jit(NETWORK.init)(jax.random.key(3))
PLAN = PerRecord(NETWORK.loss, PARAMETERS, (jnp.zeros(WIDTH), jnp.zeros(())))


def batch(seed=0, size=1.0):
    generator = np.random.default_rng(seed)
    rows = size * generator.normal(size=(COUNT, WIDTH))
    return rows.astype(np.float32), generator.integers(0, 3, COUNT).astype(np.float32)


def summed(clipping, records, mask=None, bounds=None):
    bounds = clipping.start(PLAN) if bounds is None else bounds
    mask = np.ones(COUNT, bool) if mask is None else mask
    return np.asarray(compiled(clipping)(records, mask, bounds), float) * GRID


@lru_cache
def compiled(clipping):
    return jax.jit(
        lambda records, mask, bounds: (
            clipped_sum(PLAN, clipping, PARAMETERS, bounds, records, mask, GRID, False).value
        )
    )


def reference(clipping, records):
    """The definition, record by record in double precision."""
    slopes = jax.vmap(jax.grad(NETWORK.loss), (None, 0))(PARAMETERS, records)
    leaves = [np.asarray(leaf, float).reshape(COUNT, -1) for leaf in jax.tree.leaves(slopes)]
    norms = np.stack([np.linalg.norm(leaf, axis=1) for leaf in leaves], axis=1)
    whole = np.linalg.norm(norms, axis=1, keepdims=True)
    bound = clipping.bound
    match clipping.style:
        case "flat":
            weights = np.minimum(1, bound / whole) / bound
        case "normalised":
            weights = 1 / (whole + 0.01)
        case "per-layer":
            own = bound / np.sqrt(len(leaves))
            weights = np.minimum(1, own / norms) / (own * np.sqrt(len(leaves)))
    weights = np.broadcast_to(weights, norms.shape)
    return np.concatenate([weights[:, k] @ leaf for k, leaf in enumerate(leaves)])


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("block", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 128))])
def test_the_sum_is_the_definition(style, block):
    clipping = Clipping(style=style, bound=0.5, block=block)
    records = batch()
    found = summed(clipping, records)
    steps = COUNT * GRID  # every block rounds once
    np.testing.assert_allclose(found, reference(clipping, records), atol=steps + 1e-5)


@pytest.mark.parametrize(
    "style", [s if s == "flat" else pytest.param(s, marks=pytest.mark.slow) for s in STYLES]
)
def test_records_that_do_not_count_add_exactly_nothing(style):
    clipping = Clipping(
        style=style, quantile=None if style == "normalised" else 0.5, loss_range=2.0, block=4
    )
    rows, labels = batch()
    mask = np.ones(COUNT, bool)
    mask[[2, 7]] = False
    kept = summed(clipping, (rows, labels), mask)
    changed = rows.copy()
    changed[2], changed[7] = np.inf, np.nan
    np.testing.assert_array_equal(kept, summed(clipping, (changed, labels), mask))
    # Not finite: the same as not there, although the mask is on. (The ready-made networks cut
    # infinite rows, so it is the label that is not a number here.)
    strange = labels.copy()
    strange[[2, 7]] = np.nan
    loss = PerRecord(lambda p, r: NETWORK.loss(p, r) + 0 * r[1], PARAMETERS, (rows[0], labels[0]))

    @jax.jit
    def total(records, mask):
        bounds = clipping.start(loss)
        return clipped_sum(loss, clipping, PARAMETERS, bounds, records, mask, GRID, False).value

    found = np.asarray(total((rows, strange), np.ones(COUNT, bool))) * GRID
    np.testing.assert_allclose(found, kept, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    style=st.sampled_from(STYLES),
    seed=st.integers(0, 10**6),
    row=st.integers(0, COUNT - 1),
    size=st.sampled_from([1e-6, 1.0, 1e6]),
    bound=st.sampled_from([1e-3]),
    gauges=st.booleans(),
)
def test_one_record_moves_the_sum_by_no_more_than_is_claimed(style, seed, row, size, bound, gauges):
    quantile = 0.5 if gauges and style != "normalised" else None
    clipping = Clipping(
        style=style, bound=bound, block=4, quantile=quantile, loss_range=1.0 if gauges else 0.0
    )
    claimed = clipping.sensitivity(PLAN, GRID, False)
    records, other = batch(seed, size), batch(seed + 1, size)
    mask = np.ones(COUNT, bool)
    mask[row] = False
    whole, without = summed(clipping, records), summed(clipping, records, mask)
    assert np.linalg.norm(whole - without) <= claimed.under(Relation.ZERO_OUT).l2
    replaced = tuple(
        np.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b)
        for a, b in zip(records, other, strict=True)
    )
    assert (
        np.linalg.norm(whole - summed(clipping, replaced)) <= claimed.under(Relation.REPLACE_ONE).l2
    )


def test_the_claim_is_reached():
    """A clipped record has norm 1 but for a thousandth: the claim is not far above."""
    rows, labels = batch(size=1e3)
    mask = np.zeros(COUNT, bool)
    mask[0] = True
    clipping = Clipping(bound=1e-3)
    alone = np.linalg.norm(summed(clipping, (rows, labels), mask))
    claimed = clipping.sensitivity(PLAN, GRID, False).under(Relation.ZERO_OUT).l2
    assert 0.999 < alone <= claimed < 1.01


def test_the_server_reads_what_was_sent():
    records = batch()
    slopes = jax.vmap(jax.grad(NETWORK.loss), (None, 0))(PARAMETERS, records)
    leaves = jax.tree.leaves(slopes)
    norms = np.sqrt(sum(np.sum(np.square(leaf.reshape(COUNT, -1)), axis=1) for leaf in leaves))
    clipping = Clipping(bound=float(np.median(norms)) * 1.001, quantile=0.5, loss_range=50.0)
    reading = read(
        PLAN, clipping, clipping.start(PLAN), jnp.asarray(summed(clipping, records)), COUNT
    )
    factor = np.minimum(1, clipping.bound / norms)
    for found, leaf in zip(reading.gradient, leaves, strict=True):
        np.testing.assert_allclose(found, np.tensordot(factor, leaf, 1) / COUNT, atol=1e-4)
    assert float(reading.within[0]) == pytest.approx(6 / 11, abs=1e-3)
    losses = jax.vmap(NETWORK.loss, (None, 0))(PARAMETERS, records)
    assert float(reading.loss) == pytest.approx(float(jnp.mean(losses)), abs=0.05)


@pytest.mark.parametrize("start", [1e-4, 1e4])
@pytest.mark.parametrize("style", ["flat", "per-layer"])
def test_bounds_reach_the_quantile_from_both_sides(start, style):
    """Without noise: the part of records within the bounds ends next to the quantile."""
    clipping = Clipping(style=style, bound=start, quantile=0.6, rate=0.5)
    records = batch()
    bounds = clipping.start(PLAN)
    everyone = np.ones(COUNT, bool)

    @jax.jit
    def step(bounds):
        total = clipped_sum(PLAN, clipping, PARAMETERS, bounds, records, everyone, GRID, False)
        within = read(PLAN, clipping, bounds, total.value * GRID, COUNT).within
        return moved(clipping, bounds, within), within

    seen = []
    for _ in range(200):
        bounds, within = step(bounds)
        seen.append(np.asarray(within))
    # Eleven records: the part within jumps by 1/11 around the quantile.
    np.testing.assert_allclose(np.mean(seen[-50:], axis=0), 0.6, atol=0.05)
    wrong = moved(clipping, bounds, jnp.ones_like(bounds))
    assert np.all(np.asarray(wrong) < np.asarray(bounds))  # all within: the bound must fall


@pytest.mark.parametrize(
    "fields",
    [
        {"style": "none"},
        {"bound": 0.0},
        {"bound": float("nan")},
        {"quantile": 1.0},
        {"style": "normalised", "quantile": 0.5},
        {"loss_range": -1.0},
        {"block": 0},
        {"block": 10**6},
    ],
)
def test_bad_settings(fields):
    with pytest.raises(InvalidInput):
        Clipping(**fields)


@pytest.mark.parametrize(
    ("block", "rows", "size"),
    [(128, 640, 128), (128, 192, 128), (256, 320, 192), (512, 640, 320), (128, 64, 64), (4, 6, 4)],
)
def test_blocks_are_even_and_never_larger_than_asked(block, rows, size):
    """What the sensitivity counts on is the largest block, and rows alike in multiples of 64."""
    count = -(-rows // min(block, rows))
    assert blocked_sum._even_block(block, rows, count) == size
    assert count * size >= rows


# A record whose first layer is saturated: its slopes 1 - tanh² are a few units in the last place.
SATURATED = {
    "inner": 12 * np.random.default_rng(5).normal(size=(9, 4)).astype(np.float32),
    "outer": np.array([6.4, -2.4, 0.2, -3.2], np.float32),
}


@pytest.mark.parametrize("parties", [1, 3])
def test_what_is_added_is_what_the_norms_saw(parties):
    """Compiled twice, for the norms and for the sum, such slopes differ in their first digit."""

    def loss(weights, record):
        inside = jnp.tanh(record[0] @ weights["inner"])
        return jnp.logaddexp(0.0, -record[1] * (inside @ weights["outer"]))

    plan = PerRecord(loss, SATURATED, (np.zeros(9, np.float32), np.float32(0)))
    clipping, grid, count = Clipping("per-layer", block=4, quantile=0.5), 2.0**-10, 2_000

    def one(bounds, rows, mask):
        columns = (rows, jnp.ones(8))
        return clipped_sum(plan, clipping, SATURATED, bounds, columns, mask, grid, False).value

    program = jax.jit(jax.vmap(one) if parties > 1 else one)
    assert "conditional" in program.lower(*_saturated(parties, 0)).compile().as_text()
    for number in range(count // parties):
        sums = np.asarray(program(*_saturated(parties, number)), float).reshape(-1, 42) * grid
        assert np.linalg.norm(sums[:, :36], axis=1).max() <= np.sqrt(0.5) + grid * 6


def _saturated(parties, number):
    """Bounds that clip everything, and one record among eight rows of each party."""
    rows = np.random.default_rng(number).normal(size=(parties, 8, 9)).astype(np.float32)
    given = np.full((parties, 2), 1e-12, np.float32), rows, np.tile(np.arange(8) == 2, (parties, 1))
    return given if parties > 1 else tuple(part[0] for part in given)
