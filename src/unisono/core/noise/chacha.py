"""ChaCha20 (RFC 8439) as a random number generator of JAX, usable inside `jit`.

A key is 256 bits, `uint32[8]`. With it the block function is a pseudorandom function
of (counter, nonce); the 96-bit nonce separates the uses of one key, so no use ever sees
the keystream of another:

    nonce word 0    the use: bits, split, fold_in, seed, normals, grid noise
    nonce word 1    the bit width, for `bits`
    counter         the block number, the index of the child key, or the folded number

    split(key, n)[i] = first 256 bits of block i  of use SPLIT
    fold_in(key, i)  = first 256 bits of block i  of use FOLD_IN

Guarantee: as long as ChaCha20 is a pseudorandom function, all children of a key and all
bits drawn from different keys are jointly indistinguishable from independent uniform
bits. One key still gives one draw: use `fold_in(key, step)` inside a loop (ERRATA X-2).

    key = key_from_bytes(secrets.token_bytes(32))
    jax.random.bits(jax.random.fold_in(key, step), (1000,))
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from enum import IntEnum
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.random import define_prng_impl

from unisono.errors import InvalidInput

KEY_BYTES = 32
KEY_WORDS = 8
BLOCK_WORDS = 16
MAX_BLOCKS = 2**32
# 16 KiB of state stays in the first-level cache; measured faster than 128 and 512.
LANES = 256

_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4").astype(np.uint32)
_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class Use(IntEnum):
    """First nonce word: what a keystream is for. Two uses never share a block."""

    BITS = 1
    SPLIT = 2
    FOLD_IN = 3
    SEED = 4
    NORMAL = 5
    GRID = 6


def _rotate(x: Array, bits: int) -> Array:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def _round(state: Array, shift_b: int, shift_c: int, shift_d: int) -> Array:
    """Four quarter rounds at once on the rows of `state` (16, n), then the rows' rotation."""
    a, b, c, d = (state[4 * row : 4 * row + 4] for row in range(4))
    a = a + b
    d = _rotate(d ^ a, 16)
    c = c + d
    b = _rotate(b ^ c, 12)
    a = a + b
    d = _rotate(d ^ a, 8)
    c = c + d
    b = _rotate(b ^ c, 7)
    rows = [a]
    for row, shift in ((b, shift_b), (c, shift_c), (d, shift_d)):
        rows += [row[shift:], row[:shift]]
    # One array and a barrier per round: without them XLA recomputes the quarter rounds
    # for each of the 16 words, or copies all of them, and takes about twice as long.
    return lax.optimization_barrier(jnp.concatenate(rows))


def block(key: Array, counter: Array, nonce: Array) -> Array:
    """The block function of RFC 8439 section 2.3 at many counters.

    key uint32[8], counter uint32[n], nonce uint32[3] -> uint32[16, n]; column j, read as
    little-endian bytes, is the keystream block at counter[j].
    """
    n = counter.shape[0]
    fixed = jnp.concatenate([jnp.asarray(_CONSTANTS), key])
    start = jnp.concatenate(
        [
            jnp.broadcast_to(fixed[:, None], (12, n)),
            counter[None],
            jnp.broadcast_to(nonce[:, None], (3, n)),
        ]
    )

    def double_round(_: int, state: Array) -> Array:
        return _round(_round(state, 1, 2, 3), 3, 2, 1)

    return lax.fori_loop(0, 10, double_round, start) + start


@partial(jax.jit, static_argnames=("blocks", "use", "detail"))
def keystream(key: Array, blocks: int, use: Use, detail: int = 0) -> Array:
    """At least `blocks` blocks of the stream (key, use, detail): uint32[tiles, 16, lanes].

    Entry [t, w, l] is word w of block t * lanes + l; the words are left in the order in
    which they are computed, because transposing costs and the order of noise is free.
    """
    if not 0 < blocks <= MAX_BLOCKS - LANES:
        raise InvalidInput(
            f"{blocks} ChaCha20 blocks asked from one key, but the 32-bit counter allows 1 to"
            f" {MAX_BLOCKS - LANES}; draw the array in parts with jax.random.fold_in(key, part)"
        )
    nonce = jnp.array([int(use), detail, 0], dtype=jnp.uint32)
    lanes = min(blocks, LANES)
    tiles = -(-blocks // lanes)
    lane = jnp.arange(lanes, dtype=jnp.uint32)
    if tiles == 1:
        return block(key, lane, nonce)[None]
    first = jnp.arange(tiles, dtype=jnp.uint32) * np.uint32(lanes)
    return lax.map(lambda start: block(key, start + lane, nonce), first)


def _random_bits(key: Array, bit_width: int, shape: Sequence[int]) -> Array:
    if bit_width not in _UNSIGNED:
        raise InvalidInput(f"bit width {bit_width} is not supported; use 8, 16, 32 or 64")
    size = math.prod(shape)
    if size == 0:
        with jax.enable_x64(True):
            return jnp.zeros(tuple(shape), _UNSIGNED[bit_width])
    words = -(-size * bit_width // 32)
    stream = keystream(key, -(-words // BLOCK_WORDS), Use.BITS, bit_width).reshape(-1)
    if bit_width == 64:
        with jax.enable_x64(True):
            high = lax.convert_element_type(stream[:size], np.uint64)
            low = lax.convert_element_type(stream[size : 2 * size], np.uint64)
            return lax.reshape((high << np.uint64(32)) | low, tuple(shape))
    if bit_width < 32:
        stream = lax.bitcast_convert_type(stream, _UNSIGNED[bit_width]).reshape(-1)
    return stream[:size].reshape(tuple(shape))


@jax.jit
def _children(key: Array, index: Array, use: Array) -> Array:
    """Child keys uint32[n, 8] of `key` at uint32[n] indices."""
    nonce = jnp.zeros(3, jnp.uint32).at[0].set(use)
    return block(key, index, nonce)[:KEY_WORDS].T


def _split(key: Array, shape: Sequence[int]) -> Array:
    size = math.prod(shape)
    if size >= MAX_BLOCKS:
        raise InvalidInput(f"{size} keys asked from one split; at most 2^32 - 1, split in stages")
    index = jnp.arange(size, dtype=jnp.uint32)
    children = _children(key, index, np.uint32(Use.SPLIT))
    return children.reshape((*shape, KEY_WORDS))


def _fold_in(key: Array, data: Array | int) -> Array:
    index = jnp.asarray(data).astype(jnp.uint32).reshape(1)
    return _children(key, index, np.uint32(Use.FOLD_IN))[0]


def _seed(seed: Array) -> Array:
    """A key from an integer: for simulations only, an integer is guessed in no time."""
    if not jnp.issubdtype(seed.dtype, jnp.integer):
        raise InvalidInput(f"a seed must be an integer, not {seed.dtype}")
    low = lax.convert_element_type(seed, np.uint32)
    high = jnp.uint32(0)
    if seed.dtype.itemsize == 8:
        upper = lax.shift_right_logical(seed, seed.dtype.type(32))
        high = lax.convert_element_type(upper, np.uint32)
    words = jnp.zeros(KEY_WORDS, jnp.uint32).at[0].set(low).at[1].set(high)
    return _children(words, jnp.zeros(1, jnp.uint32), np.uint32(Use.SEED))[0]


CHACHA20: Hashable = define_prng_impl(
    key_shape=(KEY_WORDS,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="chacha20",
    tag="chacha20",
)


def key_from_bytes(secret: bytes) -> Array:
    """A typed key from 32 secret bytes, for example `secrets.token_bytes(32)`.

    >>> key = key_from_bytes(bytes(range(32)))
    >>> key.shape, str(key.dtype)
    ((), 'key<chacha20>')
    """
    if not isinstance(secret, (bytes, bytearray)):
        raise InvalidInput(f"a key is made from bytes, not from {type(secret).__name__}")
    if len(secret) != KEY_BYTES:
        raise InvalidInput(
            f"a ChaCha20 key has {KEY_BYTES} bytes, got {len(secret)}; use secrets.token_bytes(32)"
        )
    words = np.frombuffer(bytes(secret), dtype="<u4").astype(np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(words), impl=CHACHA20)


def key_from_seed(seed: int) -> Array:
    """A typed key from an integer of 31 bits. Simulations only: never for a real release."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise InvalidInput(f"seed {seed!r} is not an integer in [0, 2^31); use key_from_bytes")
    return jax.random.key(seed, impl=CHACHA20)


def key_words(key: Array) -> Array:
    """The uint32[8] of one typed ChaCha20 key; other keys and arrays of keys are refused."""
    dtype = getattr(key, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key):
        raise InvalidInput(f"a typed ChaCha20 key is needed, got {type(key).__name__} ({dtype})")
    if jax.random.key_impl(key) != CHACHA20:
        raise InvalidInput(f"a ChaCha20 key is needed, got {dtype}; make it with key_from_bytes")
    if key.shape != ():
        raise InvalidInput(f"one key is needed, got an array of shape {key.shape}; use jax.vmap")
    return jax.random.key_data(key)
