"""Inversion of a discrete law: X is the k with P(X <= k - 1) <= U < P(X <= k).

The cumulative probabilities are tabulated in double precision as pairs of 64-bit integers
certainly_below[i] <= 2^64 P(X <= first + i) <= certainly_above[i]. A word w of the keystream,
U in [w, w + 1) / 2^64, is settled by integer comparisons alone unless it falls between such a
pair or off the table; then `exact.invert` decides. A guide over the leading 18 bits of w answers
most draws with one lookup, where there are many of them (`draw_from_table`); tables for single
draws (`inverted`) do without.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unisono.core.noise.exact import Interval, LazyUniform, Reals, invert
from unisono.core.noise.keystream import Keystream

CHUNK = 1 << 13  # draws handled at once: the working arrays stay in the second-level cache
LARGEST_TABLE = (1 << 15) - 1  # the guide holds 16-bit indices

_GUIDE_BITS = 18
_GUIDE_SHIFT = np.uint64(64 - _GUIDE_BITS)
_WORD_MAX = np.uint64(2**64 - 1)
_UNSETTLED = -1

Cumulative = Callable[[Reals, int], Interval]


class InversionTable(NamedTuple):
    """Thresholds of a law on the integers, shape (n,) each, and the guide, shape (2^18,), or (0,)
    in tables for single draws."""

    first: int
    certainly_below: NDArray[np.uint64]
    certainly_above: NDArray[np.uint64]
    guide: NDArray[np.int16]
    starts_support: bool
    cumulative: Cumulative


def inversion_table(
    first: int,
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    relative_error: float,
    cumulative: Cumulative,
    *,
    starts_support: bool = False,
    guided: bool = True,
) -> InversionTable:
    """Table of a law from doubles lower[i] ~ P(X <= first + i) and upper[i] ~ P(X > first + i).

    Each must be correct within `relative_error` of itself plus 2^-65, and monotone in i.
    `starts_support` says that P(X < first) = 0. `cumulative` is the exact law, for the verdicts.
    """
    near_zero = lower <= upper
    scaled = np.where(near_zero, lower, upper) * 2.0**64
    # The tail not exceeding one half keeps both bounds below 2^64.
    low = np.maximum(np.floor(scaled * (1 - relative_error)) - 1, 0).astype(np.uint64)
    high = (np.ceil(scaled * (1 + relative_error)) + 1).astype(np.uint64)
    # 2^64 - low wraps to 0 when low = 0; _WORD_MAX stands for it, and then so it does in every
    # later entry, so that the last word of all runs off the table and gets an exact verdict.
    complement = np.where(low == 0, _WORD_MAX, ~low + np.uint64(1))
    # Running extremes keep the bounds valid, since P(X <= k) grows, and make them sorted.
    certainly_below = np.where(near_zero, low, ~high + np.uint64(1))
    certainly_below = np.minimum.accumulate(certainly_below[::-1])[::-1]
    certainly_above = np.maximum.accumulate(np.where(near_zero, high, complement))
    guide = np.empty(0, np.int16)
    if guided:
        guide = _guide(certainly_below, certainly_above, starts_support)
    return InversionTable(
        first, certainly_below, certainly_above, guide, starts_support, cumulative
    )


def _guide(
    certainly_below: NDArray[np.uint64],
    certainly_above: NDArray[np.uint64],
    starts_support: bool,
) -> NDArray[np.int16]:
    """The place in the table of all words with the same leading bits, if they have one."""
    buckets = 1 << _GUIDE_BITS
    begins = (certainly_below >> _GUIDE_SHIFT).astype(np.int64)
    ends = (certainly_above >> _GUIDE_SHIFT).astype(np.int64)
    opened = np.cumsum(np.bincount(begins, minlength=buckets))
    closed = np.cumsum(np.bincount(ends, minlength=buckets))
    closed_before = np.concatenate([[0], closed[:-1]])
    settled = (opened == closed_before) & (closed < certainly_below.size)
    if not starts_support:
        settled &= closed > 0
    return np.where(settled, closed, _UNSETTLED).astype(np.int16)


def tails(
    masses: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P(X <= i) and P(X > i) of masses, shape (n,), each summed from its own end."""
    upper = np.cumsum(masses[::-1])[::-1]
    return np.cumsum(masses), np.append(upper[1:], 0.0)


def draw_from_table(
    stream: Keystream, table: InversionTable, count: int, always_exact: bool
) -> NDArray[np.int64]:
    """`count` independent draws, one word each."""
    out = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK):
        part = out[start : start + CHUNK]
        position = stream.position
        words = stream.words(part.size)
        # `take` with signed indices and no check of their range: half of the time.
        leading = (words >> _GUIDE_SHIFT).view(np.int64)
        np.add(table.guide.take(leading, mode="clip"), table.first, out=part, dtype=np.int64)
        unsettled = np.flatnonzero(part < table.first)
        values, certain = _search(table, words[unsettled])
        part[unsettled] = values
        doubtful = np.arange(part.size) if always_exact else unsettled[~certain]
        for i in doubtful:
            uniform = LazyUniform(stream, words[i], position + 8 * int(i))
            part[i] = invert(uniform, table.cumulative, int(part[i]))
    return out


def inverted(
    table: InversionTable,
    streams: Sequence[Keystream],
    words: NDArray[np.uint64],
    position: int,
    always_exact: bool,
) -> NDArray[np.int64]:
    """One draw of each stream (streams,), by a word that was read at this position of it; the
    table needs no guide."""
    values, certain = _search(table, words)
    for i in range(len(words)) if always_exact else np.flatnonzero(~certain).tolist():
        uniform = LazyUniform(streams[i], words[i], position)
        values[i] = invert(uniform, table.cumulative, int(values[i]))
    return values


def _search(
    table: InversionTable, words: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Value of each word, and whether the comparisons settle it."""
    size = table.certainly_above.size
    index = np.searchsorted(table.certainly_above, words, side="right")
    certain = index < size
    certain &= words < table.certainly_below[np.minimum(index, size - 1)]
    if not table.starts_support:
        certain &= index > 0
    return table.first + index.astype(np.int64), certain
