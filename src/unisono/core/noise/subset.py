"""A secret order, a secret subset of fixed size, and secret choices: exactly uniform."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unisono.core.noise.keystream import Keystream
from unisono.core.noise.parameters import whole_number

# So many words of 32 bits agree, in one of twenty orders, in all bits that do not name a number.
_SHORT = 640


def permutation(stream: Keystream, count: int) -> NDArray[np.intp]:
    """A uniform order (count,) of 0 .. count - 1.

    Every number gets a random word. Given that no two words are equal all their orders are equally
    likely, so words are drawn again until they differ.

    >>> sorted(permutation(Keystream(bytes(32)), 4).tolist())
    [0, 1, 2, 3]
    """
    return permutations([stream], count)[0]


def permutations(
    streams: Sequence[Keystream], count: int, *, short: bool = False
) -> NDArray[np.intp]:
    """A `permutation` of each stream (streams, count), in less time than one by one. With `short`
    words, of 32 bits, the law is the same, and the bits are others."""
    count = whole_number("count", count, 0, 2**31)
    # Short words sort several times faster; of more of them too many would agree.
    short = short and count <= _SHORT
    drawn = np.empty((len(streams), -(-count // 2) if short else count), np.uint64)
    for own, stream in zip(drawn, streams, strict=True):
        stream.fill(own)
    words: NDArray[Any] = drawn.view(np.uint32)[:, :count] if short else drawn
    # Each number in the last bits of its word: sorting is several times faster than finding an
    # order, and gives the same one unless words agree in all other bits.
    last = words.dtype.type((1 << count.bit_length()) - 1)
    placed = words & ~last
    placed |= np.arange(count, dtype=words.dtype)
    placed.sort(axis=1)
    out = (placed & last).astype(np.intp)
    alike = (placed[:, 1:] ^ placed[:, :-1]) <= last
    for row in map(int, np.flatnonzero(alike.any(axis=1))):
        if len(np.unique(words[row])) == count:
            out[row] = np.argsort(words[row])
        else:
            out[row] = permutations([streams[row]], count, short=short)[0]
    return out


def subset(stream: Keystream, size: int, population: int) -> NDArray[np.bool_]:
    """Mask of a uniform subset of exactly `size` of `population` units: the smallest words win."""
    population = whole_number("population", population, 1, 2**31)
    size = whole_number("size", size, 1, population)
    mask = np.zeros(population, dtype=np.bool_)
    mask[np.argpartition(_different_words(stream, population), size - 1)[:size]] = True
    return mask


def choices(stream: Keystream, population: int, count: int) -> NDArray[np.int64]:
    """Numbers (count,) of 0 .. population - 1, independent and uniform.

    Words at or above the largest multiple of the population are drawn again, so that each number
    has equally many words.

    >>> set(choices(Keystream(bytes(32)), 3, 100).tolist())
    {0, 1, 2}
    """
    population = whole_number("population", population, 1, 2**31)
    limit = np.uint64(2**64 - 1 - 2**64 % population)
    words = stream.words(whole_number("count", count, 0, 2**31)).copy()
    while (again := words > limit).any():
        words[again] = stream.words(int(again.sum()))
    return (words % np.uint64(population)).astype(np.int64)


def repeated(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which numbers (rows, count) of at most 2^31 stood further ahead in their row already.

    >>> repeated(np.array([[3, 1, 3, 3], [0, 1, 2, 0]])).astype(int).tolist()
    [[0, 0, 1, 1], [0, 0, 0, 1]]
    """
    # Each place in the last bits of its number: as in `permutations`. Short numbers sort faster.
    bits = numbers.shape[1].bit_length()
    short = int(numbers.max(initial=0)).bit_length() + bits < 32
    placed: NDArray[Any] = numbers.astype(np.int32 if short else np.int64)
    placed <<= bits
    placed |= np.arange(numbers.shape[1], dtype=placed.dtype)
    placed.sort(axis=1)
    # Neighbours of the same number differ in the last bits alone.
    row, after = np.nonzero((placed[:, 1:] ^ placed[:, :-1]) < (1 << bits))
    out = np.zeros(numbers.shape, np.bool_)
    out[row, placed[row, after + 1] & ((1 << bits) - 1)] = True
    return out


def _different_words(stream: Keystream, count: int) -> NDArray[np.uint64]:
    words = stream.words(count)
    while len(np.unique(words)) < count:
        words = stream.words(count)
    return words
