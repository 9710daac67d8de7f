"""Normals and grid Gaussians inside `jit`: law, tails, independence, proved error."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from scipy import stats

from unisono.core.noise import in_graph_error
from unisono.core.noise.chacha import LANES, Use, key_from_bytes, key_from_seed
from unisono.core.noise.in_graph import OUT_OF_RANGE, gaussian_on_grid, normal, normal_pair
from unisono.core.noise.in_graph_error import (
    LARGEST_NORMAL,
    ComposedError,
    cell_error,
    check_std,
    chernoff_slack,
    composed_error,
    value_error,
)
from unisono.errors import ConditionViolated, InvalidInput

SIZE = 2_000_000
WORD = st.integers(0, 2**32 - 1)
EDGES = [0, 1, 2, 3, 2**14, 2**16 - 1, 2**16, 2**31 - 1, 2**31, 0xB504F333, 0xB504F334, 2**32 - 1]


@pytest.fixture(scope="module")
def sample() -> np.ndarray:
    return np.asarray(normal(key_from_seed(11), (SIZE,)), dtype=np.float64)


def test_kolmogorov_smirnov(sample):
    assert stats.kstest(sample, "norm").pvalue > 1e-6  # false alarm 1e-6
    assert sample.mean() * math.sqrt(SIZE) == pytest.approx(0, abs=5)  # false alarm 6e-7


def test_tail_counts_down_to_one_in_a_million():
    counts = np.zeros(6)
    thresholds = -stats.norm.ppf(10.0 ** -np.arange(1, 7) / 2)
    draws = 20 * SIZE
    # Twenty million draws: here it is the running that takes time, not the compiling.
    quickly = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
    drawn = jax.jit(lambda key: normal(key, (SIZE,))).lower(key_from_seed(12))
    draw = drawn.compile(compiler_options=quickly)
    for i in range(20):
        values = np.abs(np.asarray(draw(jax.random.fold_in(key_from_seed(12), i))))
        counts += [(values > threshold).sum() for threshold in thresholds]
    # Two-sided exact binomial tests at 1e-7 each: false alarm 6e-7 in all.
    for i, count in enumerate(counts):
        assert stats.binomtest(int(count), draws, 10.0 ** -(i + 1)).pvalue > 1e-7


def test_pairs_are_independent(sample):
    half = SIZE // 2
    x, y = sample[:half], sample[half:]
    # Four correlations, each asymptotically N(0, 1): 5.5 deviations, false alarm 1.6e-7.
    for f, g in [(x, y), (x**2, y**2), (np.abs(x), y), (x, np.abs(y))]:
        assert abs(np.corrcoef(f, g)[0, 1]) * math.sqrt(half) < 5.5
    # Uniform on 16 x 16 equiprobable cells; false alarm 1e-6.
    cells = (16 * stats.norm.cdf(np.stack([x, y]))).astype(int)
    counts = np.bincount(16 * cells[0] + cells[1], minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_lanes_steps_and_neighbours_are_uncorrelated():
    key = key_from_seed(13)
    lanes = jax.jit(jax.vmap(lambda k: normal(k, (20_000,))))(jax.random.split(key, 20))

    @jax.jit
    def steps(key):
        return lax.scan(
            lambda c, i: (c, normal(jax.random.fold_in(key, i), (20_000,))), 0, jnp.arange(20)
        )[1]

    rows = np.concatenate([np.asarray(lanes), np.asarray(steps(key))])
    gram = np.corrcoef(rows) - np.eye(40)
    # 780 correlations with deviation 1/sqrt(20000): 6 deviations, false alarm 1.6e-6.
    assert np.abs(gram).max() < 6 / math.sqrt(20_000)
    flat = rows.ravel()
    for lag in (1, 2, 3, 4, 255, 256, 1024):
        assert abs(np.mean(flat[lag:] * flat[:-lag])) * math.sqrt(flat.size) < 6
    # Equal float32 pairs in different rows would betray repeated noise.
    pairs = {row[i : i + 2].tobytes() for row in rows for i in range(0, 20_000, 2)}
    assert len(pairs) == 40 * 10_000


def test_grid_noise_in_a_scan_is_never_repeated():
    key = key_from_seed(14)  # ERRATA X-2

    @jax.jit
    def run(key):
        def step(carry, i):
            return carry, gaussian_on_grid(jax.random.fold_in(key, i), (8,), 1000.0)

        return lax.scan(step, 0, jnp.arange(50))[1]

    rows = np.asarray(run(key))
    assert len({row.tobytes() for row in rows}) == 50
    eager = gaussian_on_grid(jax.random.fold_in(key, 7), (8,), 1000.0)
    np.testing.assert_array_equal(rows[7], eager)


def test_vectorised_and_single_draws_agree():
    keys = jax.random.split(key_from_seed(15), 3)
    stds = jnp.array([4.0, 50.0, 1e6], jnp.float32)
    together = jax.vmap(lambda key, std: gaussian_on_grid(key, (2, 5), std))(keys, stds)
    for row, key, std in zip(together, keys, stds, strict=True):
        np.testing.assert_array_equal(row, gaussian_on_grid(key, (2, 5), float(std)))
    assert together.dtype == jnp.int32
    assert normal(keys[0], ()).shape == ()
    assert normal(keys[0], (0, 3)).shape == (0, 3)
    assert normal(keys[0], 5).dtype == jnp.float32


@pytest.mark.parametrize("size", [pytest.param(100, marks=pytest.mark.slow), 5001])
def test_grid_noise_is_made_of_the_openssl_keystream(size):
    # The same words from another implementation, paired as documented, give the same noise.
    secret, std = bytes(range(7, 39)), 1000.0
    noise = np.asarray(gaussian_on_grid(key_from_bytes(secret), (size,), std))
    blocks = -(-size // 8)
    lanes = blocks if blocks <= LANES else min(-(-blocks // 4), LANES)
    parts = 1 if blocks <= LANES else 2
    tiles = -(-blocks // (parts * lanes))
    nonce = bytes(4) + np.array([Use.GRID, 0, 0], "<u4").tobytes()  # counter 0, then the nonce
    cipher = Cipher(algorithms.ChaCha20(secret, nonce), None).encryptor()
    stream = np.frombuffer(cipher.update(bytes(64 * tiles * parts * lanes)), "<u4")
    stream = stream.reshape(tiles, parts, lanes, 2, 8).swapaxes(2, 3)
    stream = (stream if parts == 2 else stream.swapaxes(3, 4)).reshape(tiles, 4, -1)
    rows = jnp.asarray(stream.swapaxes(0, 1).astype(np.uint32))
    pairs = np.stack([np.asarray(x) for x in pair_of(*rows)], axis=1)
    np.testing.assert_array_equal(noise, np.rint(std * pairs).astype(np.int32).ravel()[:size])


def test_long_draws_agree_eager_in_a_scan_and_vectorised():
    key = key_from_seed(17)
    draw = partial(gaussian_on_grid, shape=(70, 60), std=900.0)
    eager = np.stack([draw(jax.random.fold_in(key, i)) for i in range(3)])

    @jax.jit
    def run(key):
        return lax.scan(lambda c, i: (c, draw(jax.random.fold_in(key, i))), 0, jnp.arange(3))[1]

    np.testing.assert_array_equal(run(key), eager)
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(3))
    np.testing.assert_array_equal(jax.jit(jax.vmap(draw))(keys), eager)


def test_the_callers_precision_is_left_alone():
    normal(key_from_seed(0), 3)
    assert jnp.zeros(1).dtype == jnp.float32
    with jax.enable_x64(True):
        assert normal(key_from_seed(0), 3, jnp.float64).dtype == jnp.float64


def ideal(h: int, l: int, a: int, m: int, within: tuple[float, float]):  # noqa: E741
    """The ideal pair and radius; `within` is the place inside the box of the dropped bits."""
    signed = a - 2**32 if a >= 2**31 else a
    if h == 0:
        u = mpmath.ldexp((l << 30 | m >> 2) + mpmath.mpf(within[0]), -94)
        phi = mpmath.pi * mpmath.ldexp(signed + mpmath.mpf(within[1]), -33)
    else:
        u = mpmath.ldexp(((h << 32 | l) << 14 | (m >> 2) & 0x3FFF) + mpmath.mpf(within[0]), -78)
        phi = mpmath.pi * mpmath.ldexp((signed << 16 | m >> 16) + mpmath.mpf(within[1]), -49)
    radius = mpmath.sqrt(-2 * mpmath.log(u))
    pair = [radius * mpmath.cos(phi) * (-1 if m & 1 else 1), radius * mpmath.sin(phi)]
    return radius, pair[::-1] if m & 2 else pair


pair_of = jax.jit(normal_pair)


@mpmath.workdps(60)
def check_words(rows: np.ndarray) -> None:
    computed = [np.asarray(x) for x in pair_of(*jnp.asarray(rows.astype(np.uint32)).T)]
    for i, row in enumerate(rows):
        values = [mpmath.mpf(float(x[i])) for x in computed]
        radius, middle = ideal(*map(int, row), (0.5, 0.5))
        # At the centre of the box only rounding and the 64-bit mantissa remain.
        bound = 14 * mpmath.mpf(2) ** -53 * radius + mpmath.mpf(2) ** -61 / radius
        assert max(abs(v - x) for v, x in zip(values, middle, strict=True)) <= bound
        for corner in [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]:
            if corner[0] == 0.0 and row[0] == row[1] == 0 and row[3] < 4:
                continue  # u = 0 is beyond the largest radius with a proved error
            radius, exact = ideal(*map(int, row), corner)
            if 0 < radius < 11.4:
                error = max(abs(v - x) for v, x in zip(values, exact, strict=True))
                assert error <= value_error(float(radius))


def test_error_bound_holds_on_random_words():
    rng = np.random.default_rng(21)
    rows = rng.integers(0, 2**32, (1500, 4))
    rows[500:1000, 0] >>= rng.integers(0, 33, 500)  # all exponents down to the tail
    rows[1000:1200, :1] = 0
    rows[1000:1200, 1] >>= rng.integers(0, 33, 200)
    rows[1100:1200, 1] = 0  # the farthest tail, where the bits dropped from u dominate
    rows[1100:1200, 3] >>= rng.integers(0, 31, 100)
    rows[1200:, 0] = 2**32 - 1 - (rows[1200:, 0] >> rng.integers(0, 33, 300))  # u near 1
    check_words(rows)


@settings(max_examples=60, deadline=None)
@given(st.tuples(*[st.one_of(st.sampled_from(EDGES), WORD)] * 4))
def test_error_bound_holds_at_edges(row):
    check_words(np.array([row] * 8))


def test_largest_value():
    zero = jnp.zeros(1, jnp.uint32)
    x, y = (float(v[0]) for v in pair_of(zero, zero, zero, zero))
    assert math.hypot(x, y) == pytest.approx(LARGEST_NORMAL, rel=1e-12)
    ones = jnp.full(1, 2**32 - 1, jnp.uint32)
    assert all(0 < abs(float(v[0])) < 1e-8 for v in pair_of(ones, ones, ones, ones))


@pytest.mark.parametrize("std", [4.0, 37.5])
def test_grid_law(std):
    draws = np.asarray(gaussian_on_grid(key_from_seed(16), (SIZE,), std))
    top = int(4 * std)
    edges = np.arange(-top, top + 2) - 0.5
    masses = np.diff(np.concatenate([[0.0], stats.norm.cdf(edges / std), [1.0]]))
    counts = np.bincount(np.clip(draws, -top - 1, top + 1) + top + 1, minlength=2 * top + 3)
    assert stats.chisquare(counts, masses * SIZE).pvalue > 1e-6  # false alarm 1e-6


@mpmath.workdps(40)
@pytest.mark.parametrize("std", [4.0, 100.0])
def test_shifted_cell_masses_stay_within_the_cell_error(std):
    # The worst case of step 2: both boundaries move by the full error, outwards or inwards.
    for radius in (1.0, 3.0, 6.0, 9.5):
        kappa = cell_error(radius, std)
        shift = std * max(value_error(radius), value_error(0.49 / std))
        for i in {0, 1, int(std * radius / 2), int(std * radius)}:
            mass, wide, narrow = (
                mpmath.ncdf((i + 0.5 + s) / std) - mpmath.ncdf((i - 0.5 - s) / std)
                for s in (mpmath.mpf(0), mpmath.mpf(shift), -mpmath.mpf(shift))
            )
            assert mpmath.log(wide / mass) <= kappa / 2
            assert mpmath.log(mass / narrow) <= kappa / 2


@pytest.mark.parametrize("delta", [1e-3, 1e-12])
def test_chernoff_slack_is_valid_and_grows_like_the_square_root(delta):
    # Terms +-kappa of mean at most kappa^2: the sum is a shifted binomial with known quantile.
    pairs, kappa = 10**6, 1e-3
    heads = stats.binom.isf(delta, pairs, (1 + kappa) / 2)
    exact = kappa * (2 * heads - pairs)
    slack = chernoff_slack(pairs, np.ones(1), np.array([kappa]), kappa**2, delta)
    assert (
        exact
        <= slack
        <= 1.01 * (pairs * kappa**2 + kappa * math.sqrt(2 * pairs * math.log(1 / delta)))
    )
    # A rare shell costs about its own size, not its size times ln(1 / delta).
    rare = np.array([kappa, 0.1])
    both = chernoff_slack(pairs, np.array([1.0, 1e-30]), rare, kappa**2, delta)
    assert slack * 0.999 <= both <= slack + 0.1


def test_composed_error_is_small_and_grows():
    assert composed_error(0, 10.0) == (0.0, 0.0)
    small, large = composed_error(10**6, 16.0), composed_error(10**9, 16.0)
    assert 0 < small.epsilon < large.epsilon < 1e-5
    assert small.delta == large.delta == 1e-12
    assert composed_error(10**6, 64.0).epsilon > small.epsilon
    assert composed_error(10**6, 16.0, 1e-15).epsilon > small.epsilon
    # One draw costs at most the error of the outermost cells it may fall into.
    assert composed_error(1, 16.0).epsilon < cell_error(10.5, 16.0)


def test_applied_to_follows_the_definition():
    total = ComposedError(0.01, 1e-9).applied_to(1.0, 1e-6)
    assert total[0] == pytest.approx(1.02)
    assert total[1] == pytest.approx(math.exp(0.01) * 1e-6 + (1 + math.exp(1.01)) * 1e-9)
    for bad in [(-1.0, 0.0), (math.nan, 0.0), (1.0, math.inf)]:
        with pytest.raises(InvalidInput):
            ComposedError(0.01, 1e-9).applied_to(*bad)


@pytest.mark.parametrize("std", [0.0, -5.0, 3.999, 2.0**20 + 1, math.nan, math.inf])
def test_stds_outside_the_proof_are_refused(std):
    with pytest.raises(ConditionViolated):
        check_std(std)
    with pytest.raises(ConditionViolated):
        gaussian_on_grid(key_from_seed(0), (3,), std)
    with pytest.raises(ConditionViolated):
        composed_error(10, std)
    traced = jax.jit(lambda key, s: gaussian_on_grid(key, (3,), s))
    assert (traced(key_from_seed(0), jnp.float32(std)) == OUT_OF_RANGE).all()


def test_traced_std_in_range_is_used():
    traced = jax.jit(lambda key, s: gaussian_on_grid(key, (300,), s))
    exact = gaussian_on_grid(key_from_seed(0), (300,), 12.5)
    np.testing.assert_array_equal(traced(key_from_seed(0), 12.5), exact)
    assert (np.abs(np.asarray(exact)) < 12 * 12.5).all()


@pytest.mark.parametrize(
    "call",
    [
        partial(normal, jax.random.key(0), (3,)),
        partial(normal, key_from_seed(0), (-1,)),
        partial(normal, key_from_seed(0), (1.5,)),
        partial(normal, key_from_seed(0), (True,)),
        partial(normal, key_from_seed(0), (3,), jnp.float16),
        partial(normal, key_from_seed(0), (3,), jnp.float64),
        partial(normal, key_from_seed(0), (2**37,)),
        partial(gaussian_on_grid, key_from_seed(0), (3,), np.array([5.0])),
        partial(composed_error, -1, 10.0),
        partial(composed_error, 1.5, 10.0),
        partial(composed_error, 10, 10.0, 0.0),
        partial(composed_error, 10, 10.0, math.nan),
        partial(value_error, 0.0),
        partial(value_error, 12.0),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(InvalidInput):
        call()


def test_draws_beyond_the_proof_are_refused():
    with pytest.raises(ConditionViolated, match="larger delta"):
        composed_error(10**15, 16.0)
    with pytest.raises(ConditionViolated, match="smaller std"):
        composed_error(10**9, 2.0**20)
    assert in_graph_error.MIN_STD == 4.0
