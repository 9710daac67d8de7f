"""The block function of ChaCha20 (RFC 8439 section 2.3), twice: quick to compile, quick to run.

The state is 16 words: 4 constants, 8 of the key, the counter, 3 of the nonce. Ten double rounds
mix the columns, then the diagonals, of its 4 x 4 matrix; the start is added at the end.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

BLOCK_WORDS = 16

_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4").astype(np.uint32)


def _rotate(x: Array, bits: int) -> Array:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def _quarter_round(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, Array, Array, Array]:
    a = a + b
    d = _rotate(d ^ a, 16)
    c = c + d
    b = _rotate(b ^ c, 12)
    a = a + b
    d = _rotate(d ^ a, 8)
    c = c + d
    b = _rotate(b ^ c, 7)
    return a, b, c, d


def _round(state: Array, shift_b: int, shift_c: int, shift_d: int) -> Array:
    """Four quarter rounds at once on the rows of `state` (16, n), then the rows' rotation."""
    a, b, c, d = _quarter_round(*(state[4 * row : 4 * row + 4] for row in range(4)))
    rows = [a]
    for row, shift in ((b, shift_b), (c, shift_c), (d, shift_d)):
        rows += [row[shift:], row[:shift]]
    # One array and a barrier per round: without them XLA recomputes the quarter rounds
    # for each of the 16 words, or copies all of them, and takes about twice as long.
    return lax.optimization_barrier(jnp.concatenate(rows))


def block(key: Array, counter: Array, nonce: Array) -> Array:
    """The block function of RFC 8439 section 2.3 at many counters, quick to compile.

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


def wide_start(key: Array, nonce: Array) -> Array:
    """The start of `wide_blocks` without counter, each word twice: uint32[16, 2].

    Make it outside the loop. Scalars, or pairs that XLA knows to be equal, it would move
    behind the operations of all rounds, one by one, and not finish.
    """
    fixed = jnp.concatenate([jnp.asarray(_CONSTANTS), key, jnp.zeros(1, jnp.uint32), nonce])
    return jnp.broadcast_to(fixed[:, None], (BLOCK_WORDS, 2))


def wide_blocks(start: Array, first: Array, lanes: int) -> Array:
    """The block function at first, first + 1, ...: uint32[2, lanes, 8], quick to run.

    `start` is a `wide_start`; call this in a loop over `first`. Entry [s, j, w] is word 8 s + w
    of the block at counter first + j. All rounds are written out on words of the output's
    shape, so XLA makes one loop of them; LLVM unrolls w in it and keeps the whole state in
    vector registers. The rounds run once for s = 0 and once for s = 1: of 16 words at a time
    XLA would make more than one loop.
    """
    shape = (2, lanes, 8)
    # Always 0, but XLA does not know: else it would compute the selections below outside the
    # loop over `first` and read them from memory, and LLVM could not tell which word is stored.
    zero = (first >> np.uint32(31)) >> np.uint32(1)
    half, lane, word = (lax.broadcasted_iota(np.uint32, shape, axis) for axis in range(3))
    begin = [lax.broadcast_in_dim(pair, shape, (0,)) for pair in start]
    begin[12] = first + lane
    state = list(begin)
    for turn in range(20):
        for a in range(4):
            column = [a] + [4 * row + (a + turn % 2 * row) % 4 for row in (1, 2, 3)]
            changed = _quarter_round(*(state[i] for i in column))
            for i, value in zip(column, changed, strict=True):
                state[i] = value
    words = [value + added for value, added in zip(state, begin, strict=True)]
    lower = half + zero == np.uint32(0)
    chosen = jnp.where(lower, words[0], words[8])
    for i in range(1, 8):
        here = jnp.where(lower, words[i], words[8 + i])
        chosen = jnp.where(word + zero == np.uint32(i), here, chosen)
    return chosen
