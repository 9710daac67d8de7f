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
bits. One key still gives one draw: use `fold_in(key, step)` inside a loop.

    key = key_from_bytes(secrets.token_bytes(32))
    jax.random.bits(jax.random.fold_in(key, step), (1000,))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from enum import IntEnum
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.random import define_prng_impl

from unisono.core.noise.chacha_block import BLOCK_WORDS, block, wide_blocks, wide_start
from unisono.errors import InvalidInput

KEY_BYTES = 32
KEY_WORDS = 8
MAX_BLOCKS = 2**32
# Below, compiling matters more than running; above, blocks are made in tiles of this many.
LANES = 256

_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class Use(IntEnum):
    """First nonce word: what a keystream is for. Two uses never share a block."""

    BITS = 1
    SPLIT = 2
    FOLD_IN = 3
    SEED = 4
    NORMAL = 5
    GRID = 6


def keystream_map(
    function: Callable[[Array], Array], key: Array, blocks: int, use: Use, detail: int = 0
) -> Array:
    """`function` of consecutive parts of a stream of at least `blocks` blocks, stacked.

    The parts are uint32[p, 2, lanes, 8], equally large and small enough for the cache. Entry
    [i, s, j, w] is word 8 s + w of the part's block i * lanes + j: the words are left in the
    order in which they are computed, because transposing costs and the order of noise is free.
    Up to LANES blocks are one part, computed in the order [0, s, w, j].
    """
    if not 0 < blocks <= MAX_BLOCKS - 4 * LANES:
        raise InvalidInput(
            f"{blocks} ChaCha20 blocks asked from one key, but the 32-bit counter allows 1 to"
            f" {MAX_BLOCKS - 4 * LANES}; draw the array in parts with jax.random.fold_in(key, part)"
        )
    nonce = jnp.array([int(use), detail, 0], dtype=jnp.uint32)
    if blocks <= LANES:
        stream = block(key, jnp.arange(blocks, dtype=jnp.uint32), nonce)
        return function(stream.reshape(1, 2, 8, blocks))[None]
    # Two loops of at least two steps each: XLA fuses everything within a loop, and would
    # compute the rounds again for every use of their words, but it fuses nothing across one.
    lanes = min(-(-blocks // 4), LANES)
    start = wide_start(key, nonce)
    first = jnp.arange(2 * -(-blocks // (2 * lanes)), dtype=jnp.uint32) * np.uint32(lanes)

    def part(first: Array) -> Array:
        return function(lax.map(lambda counter: wide_blocks(start, counter, lanes), first))

    return lax.map(part, first.reshape(-1, 2))


@partial(jax.jit, static_argnames=("blocks", "use", "detail"))
def keystream(key: Array, blocks: int, use: Use, detail: int = 0) -> Array:
    """At least `blocks` blocks of the stream (key, use, detail): uint32[parts, 2, lanes, 8].

    Entry [i, s, j, w] is word 8 s + w of block i * lanes + j.
    """
    parts = keystream_map(lambda words: words, key, blocks, use, detail)
    parts = parts.reshape(-1, *parts.shape[2:])
    return parts if blocks > LANES else parts.swapaxes(2, 3)


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
