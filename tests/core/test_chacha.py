"""ChaCha20 against RFC 8439 and OpenSSL, and as a generator of JAX."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from unisono.core.noise import chacha
from unisono.core.noise.chacha import (
    CHACHA20,
    LANES,
    Use,
    block,
    key_from_bytes,
    key_from_seed,
    key_words,
)
from unisono.errors import InvalidInput

ZERO_KEY = bytes(32)
compiled_block = jax.jit(block)


def words(data: bytes) -> jax.Array:
    return jnp.asarray(np.frombuffer(data, dtype="<u4").astype(np.uint32))


def stream(key: bytes, counter: int, nonce: bytes, blocks: int) -> bytes:
    counters = np.uint32(counter) + np.arange(blocks, dtype=np.uint32)
    output = compiled_block(words(key), jnp.asarray(counters), words(nonce))
    return np.asarray(output).T.astype("<u4").tobytes()


def openssl(key: bytes, counter: int, nonce: bytes, length: int) -> bytes:
    cipher = Cipher(algorithms.ChaCha20(key, counter.to_bytes(4, "little") + nonce), None)
    return cipher.encryptor().update(bytes(length))


def test_block_function_of_rfc_section_2_3_2():
    got = stream(bytes(range(32)), 1, bytes.fromhex("000000090000004a00000000"), 1)
    assert got == bytes.fromhex(
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


def test_encryption_of_rfc_section_2_4_2():
    text = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the"
        b" future, sunscreen would be it."
    )
    key_stream = stream(bytes(range(32)), 1, bytes.fromhex("000000000000004a00000000"), 2)
    cipher_text = bytes(a ^ b for a, b in zip(text, key_stream, strict=False))
    assert cipher_text == bytes.fromhex(
        "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b"
        "f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8"
        "07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
        "5af90bbf74a35be6b40b8eedf2785e42874d"
    )


APPENDIX_A1 = [
    (
        ZERO_KEY,
        0,
        "000000000000000000000000",
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        ZERO_KEY,
        1,
        "000000000000000000000000",
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    (
        bytes(31) + b"\x01",
        1,
        "000000000000000000000000",
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
        "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
    (
        b"\x00\xff" + bytes(30),
        2,
        "000000000000000000000000",
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
    (
        ZERO_KEY,
        0,
        "000000000000000000000002",
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
        "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
]


@pytest.mark.parametrize(("key", "counter", "nonce", "expected"), APPENDIX_A1)
def test_block_vectors_of_rfc_appendix_a1(key, counter, nonce, expected):
    assert stream(key, counter, bytes.fromhex(nonce), 1) == bytes.fromhex(expected)


@settings(max_examples=20, deadline=None)
@given(
    key=st.binary(min_size=32, max_size=32),
    nonce=st.binary(min_size=12, max_size=12),
    counter=st.integers(0, 2**32 - 8),
)
def test_block_equals_openssl(key, nonce, counter):
    assert stream(key, counter, nonce, 5) == openssl(key, counter, nonce, 5 * 64)


@pytest.mark.parametrize(
    "blocks",
    [
        1,
        LANES,
        pytest.param(LANES + 1, marks=pytest.mark.slow),
        1000,
        pytest.param(5 * LANES, marks=pytest.mark.slow),
    ],
)
def test_keystream_is_the_openssl_stream_without_gap_or_repeat(blocks):
    # Up to LANES blocks, then 4 tiles of a quarter each, then tiles of LANES with a rest.
    secret = bytes(range(100, 132))
    parts = np.asarray(chacha.keystream(words(secret), blocks, Use.BITS, 32))
    nonce = np.array([Use.BITS, 32, 0], "<u4").tobytes()
    got = parts.swapaxes(1, 2).astype("<u4").tobytes()
    assert len(got) >= 64 * blocks
    assert got == openssl(secret, 0, nonce, len(got))


@pytest.mark.parametrize("width", [8, 16, 32])
def test_bits_are_the_same_eager_compiled_and_vectorised(width):
    keys = jax.random.split(key_from_seed(1), 3)
    dtype = f"uint{width}"
    sizes = (17, 9001) if width == 32 else (17,)  # the long draw takes the compiled tiles
    for size in sizes:
        eager = np.stack([jax.random.bits(key, (size,), dtype) for key in keys])
        mapped = jax.vmap(lambda key, n=size: jax.random.bits(key, (n,), dtype))(keys)
        compiled = jax.jit(jax.vmap(lambda key, n=size: jax.random.bits(key, (n,), dtype)))(keys)
        assert eager.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(eager, mapped)
        np.testing.assert_array_equal(eager, compiled)


def test_64_bit_words():
    with jax.enable_x64(True):
        key = key_from_seed(1)
        values = np.asarray(jax.random.bits(key, (4096,), "uint64"))
    assert values.dtype == np.uint64
    # Each bit is set in 4096 / 2 +- 6 * 32 of the draws; false alarm 64 * 2e-9 < 1.3e-7.
    ones = np.array([np.sum((values >> np.uint64(bit)) & np.uint64(1)) for bit in range(64)], float)
    assert np.abs(ones - 2048).max() < 6 * 32


@pytest.mark.parametrize("width", [*(pytest.param(n, marks=pytest.mark.slow) for n in (8, 16)), 32])
def test_bits_are_balanced(width):
    values = np.asarray(jax.random.bits(key_from_seed(2), (100, 1000), f"uint{width}"))
    # Standard deviation of each count is 158; 6 of them: false alarm below 32 * 2e-9 per width.
    ones = np.array([np.sum((values >> bit) & 1) for bit in range(width)], float)
    assert np.abs(ones - 50_000).max() < 6 * 158.2


def test_uses_widths_and_children_never_share_keystream():
    key = key_from_seed(3)
    raw = key_words(key)
    pieces = [np.asarray(chacha.keystream(raw, 64, use)).ravel() for use in (Use.NORMAL, Use.GRID)]
    pieces += [np.asarray(chacha.keystream(raw, 64, Use.BITS, w)).ravel() for w in (8, 32)]
    pieces += [np.asarray(jax.random.key_data(jax.random.split(key, 100))).ravel()]
    pieces += [
        np.asarray(jax.random.key_data(jax.vmap(lambda i: jax.random.fold_in(key, i))(i))).ravel()
        for i in [jnp.arange(100)]
    ]
    # 5,700 random 64-bit pairs have a repeat with probability 1e-12.
    pairs = [(int(a) << 32) | int(b) for piece in pieces for a, b in pairwise(piece)]
    assert len(set(pairs)) == len(pairs)


def test_noise_in_a_scan_differs_at_every_step():
    key = key_from_seed(4)  # ERRATA X-2: one key traced once gave the same noise 50 times

    @jax.jit
    def run(key):
        def step(carry, i):
            return carry, jax.random.bits(jax.random.fold_in(key, i), (8,))

        return lax.scan(step, 0, jnp.arange(50))[1]

    rows = np.asarray(run(key))
    assert len({row.tobytes() for row in rows}) == 50
    np.testing.assert_array_equal(rows[7], jax.random.bits(jax.random.fold_in(key, 7), (8,)))


def test_split_is_deterministic_has_shape_and_extends():
    key = key_from_seed(5)
    grid = jax.random.key_data(jax.random.split(key, (2, 3)))
    assert grid.shape == (2, 3, 8)
    np.testing.assert_array_equal(
        grid.reshape(6, 8), jax.random.key_data(jax.random.split(key, 10))[:6]
    )
    assert jax.random.split(key, 0).shape == (0,)


def test_the_generator_serves_other_distributions():
    key = jax.random.wrap_key_data(jnp.arange(8, dtype=jnp.uint32), impl=CHACHA20)
    values = np.asarray(jax.random.uniform(key, (10_000,)))
    assert abs(values.mean() - 0.5) < 6 * 0.2887 / 100  # false alarm 2e-9
    assert jax.random.bits(key, (0, 3)).shape == (0, 3)


def test_seeds_differ_and_use_their_upper_half():
    with jax.enable_x64(True):
        seeds = [0, 1, 2**32, 2**33 + 1, -1]
        data = [jax.random.key_data(jax.random.key(seed, impl=CHACHA20)) for seed in seeds]
    assert len({np.asarray(row).tobytes() for row in data}) == len(seeds)


@pytest.mark.parametrize("bad", [b"", bytes(31), bytes(33), "a" * 32, 5])
def test_bad_secrets_are_refused(bad):
    with pytest.raises(InvalidInput):
        key_from_bytes(bad)


@pytest.mark.parametrize("bad", [-1, 2**31, 1.5, True, "1"])
def test_bad_seeds_are_refused(bad):
    with pytest.raises(InvalidInput):
        key_from_seed(bad)


def test_more_than_the_counter_allows_is_refused():
    key = key_from_seed(0)
    with pytest.raises(InvalidInput, match="counter"):
        jax.jit(lambda k: jax.random.bits(k, (2**36,))).lower(key)
    with pytest.raises(InvalidInput, match="split in stages"):
        jax.jit(lambda k: jax.random.split(k, 2**32)).lower(key)
    with pytest.raises(InvalidInput):
        chacha.keystream(key_words(key), 0, Use.BITS)
    with pytest.raises(InvalidInput, match="width"):
        chacha._random_bits(key_words(key), 24, (2,))


def test_other_keys_are_refused():
    with pytest.raises(InvalidInput, match="ChaCha20 key is needed"):
        key_words(jax.random.key(0))
    with pytest.raises(InvalidInput, match="typed"):
        key_words(jnp.zeros(8, jnp.uint32))
    with pytest.raises(InvalidInput, match="vmap"):
        key_words(jax.random.split(key_from_seed(0), 2))
