"""Poisson samples: every unit takes part by a coin of its own, exactly.

A sample of few among many need not toss a coin for each. Of n independent coins with probability q
a given set S of k shows heads, and nobody else does, with probability

    q^k (1 - q)^(n - k) = P(Binomial(n, q) = k) / C(n, k),

which depends on S by its size alone. So a size k from the exact binomial law, then a uniform subset
of k units, is the very same law on sets: that of independent coins, as the accountant prices it
(Devroye 1986, Non-uniform random variate generation, chapter XII). Both steps are exact, and the
time follows the sample, not the units.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from unisono.core.noise.coins import successes
from unisono.core.noise.exact import Interval, Reals, between, log_factorial, rational
from unisono.core.noise.inversion import InversionTable, inversion_table, inverted, tails
from unisono.core.noise.keystream import Keystream
from unisono.core.noise.parameters import real_number, whole_number
from unisono.core.noise.subset import permutation, repeated
from unisono.errors import InvalidInput

# Above this rate coins are tossed: numbers drawn at random would too often repeat each other.
LARGEST_RATE_BY_SIZE = 1 / 16
LARGEST_TABLE_MEAN = 2.0**20

# 2^14 steps of four roundings from the mode, and 2^15 additions.
_TABLE_RELATIVE_ERROR = 2.0**-34


def poisson_sample(
    stream: Keystream, rate: float, units: int, *, always_exact: bool = False
) -> NDArray[np.int64]:
    """Who of 0 .. units - 1 takes part, each with probability `rate` and independently, in a
    uniform order.

    >>> sample = poisson_sample(Keystream(bytes(32)), 0.01, 10_000).tolist()
    >>> len(set(sample)) == len(sample)
    True
    """
    return poisson_samples([stream], rate, units, always_exact=always_exact)[0]


def poisson_samples(
    streams: Sequence[Keystream], rate: float, units: int, *, always_exact: bool = False
) -> list[NDArray[np.int64]]:
    """A `poisson_sample` of each stream, at the same rate, in less time than one by one."""
    rate, units = real_number("rate", rate), whole_number("units", units, 0, 2**31)
    if 0 < rate <= LARGEST_RATE_BY_SIZE and 0 < units * rate <= LARGEST_TABLE_MEAN:
        return _by_size(streams, rate, units, always_exact)
    found = [successes(stream, rate, units, always_exact=always_exact) for stream in streams]
    return [own[permutation(stream, len(own))] for own, stream in zip(found, streams, strict=True)]


def _by_size(
    streams: Sequence[Keystream], rate: float, units: int, always_exact: bool
) -> list[NDArray[np.int64]]:
    """A binomial size k, then the first k different ones of independent uniform units.

    Given those already there, the next one that differs from them is uniform among the rest: that
    is a list without repetition, drawn one by one, and all lists of k units are equally likely.

    A word gives a uniform unit by its remainder, unless it lies beyond the last multiple of
    `units`; then it gives none. Whoever needs more words than usual reads on.
    """
    table = binomial_table(units, rate)
    most = units * rate + 4 * math.sqrt(units * rate)
    usual = math.ceil((1 + rate) * most) + 8
    position = streams[0].position
    if any(stream.position != position for stream in streams):
        raise InvalidInput("streams that are read together begin at the same position")
    words = np.empty((len(streams), 1 + usual), np.uint64)
    for row, stream in zip(words, streams, strict=True):
        stream.fill(row)
    sizes = inverted(table, streams, words[:, 0], position, always_exact)
    numbers, refused = _units(words[:, 1:], units)
    # Of words that name nobody there is one in 2^33 or fewer: then all are looked at one by one.
    refused |= True if refused.any() else repeated(numbers)
    counts = usual - np.count_nonzero(refused, axis=1)
    found, ends = numbers[~refused], np.cumsum(counts)
    return [
        found[end - count : end - count + size]
        if size <= count
        else _one_by_one(stream, own[1:], size, units)
        for stream, own, size, count, end in zip(
            streams, words, sizes.tolist(), counts.tolist(), ends.tolist(), strict=True
        )
    ]


def _units(words: NDArray[np.uint64], units: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The unit that each word names, and which of them name none."""
    last = np.uint64(2**64 - 1 - 2**64 % units)
    return (words % np.uint64(units)).view(np.int64), words > last


def _one_by_one(
    stream: Keystream, words: NDArray[np.uint64], size: int, units: int
) -> NDArray[np.int64]:
    """The first `size` different units that these words name, and as many more as it takes."""
    found: dict[int, None] = {}  # keeps the order
    while True:
        numbers, refused = _units(words, units)
        for number in numbers[~refused].tolist():
            if len(found) == size:
                break
            found.setdefault(number)
        if len(found) == size:
            return np.fromiter(found, np.int64, size)
        words = stream.words(size - len(found))


@lru_cache(maxsize=256)
def binomial_table(trials: int, probability: float) -> InversionTable:
    """The law P(k) = C(n, k) q^k (1 - q)^(n - k), q the rational value of the double, as a table
    of at most 20542 entries."""
    n, q = whole_number("trials", trials, 1, 2**31), real_number("probability", probability)
    if not (0 < q <= 0.5 and n * q <= LARGEST_TABLE_MEAN):
        raise InvalidInput(
            f"binomial({trials!r}, {probability!r}): inversion takes 0 < probability <= 1/2 and a "
            f"mean of at most {LARGEST_TABLE_MEAN:g}; toss coins instead (bernoulli)"
        )
    mean = n * q
    # As for Poisson counts, whose Chernoff bounds hold for binomial ones: less than 2^-70 beyond.
    mode, reach = math.floor(mean), 10 * math.sqrt(mean) + 30
    first, last = max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach))
    down, up = np.arange(mode, first, -1.0), np.arange(mode + 1.0, last + 1)
    odds = q / (1 - q)
    with np.errstate(under="ignore"):
        rising = np.cumprod(down / ((n - down + 1) * odds))[::-1]  # P(k - 1) / P(k)
        falling = np.cumprod((n - up + 1) * odds / up)  # P(k) / P(k - 1)
        masses = np.concatenate([rising, [1.0], falling])
        lower, upper = tails(masses / masses.sum())
    return inversion_table(
        first,
        lower,
        upper,
        _TABLE_RELATIVE_ERROR,
        lambda real, k: _cumulative(real, n, Fraction(q), k),
        starts_support=first == 0,
        guided=False,
    )


def _cumulative(real: Reals, n: int, q: Fraction, k: int) -> Interval:
    """P(X <= k), from whichever side of k the masses fall: all terms positive and decreasing."""
    if k < 0 or k >= n:
        return real.mpf(0 if k < 0 else 1)
    if k <= n * q:
        return _mass(real, n, q, k) * _series(real, n, q, k)
    # Those above k are those of the failures below n - k.
    return 1 - _mass(real, n, 1 - q, n - k - 1) * _series(real, n, 1 - q, n - k - 1)


def _mass(real: Reals, n: int, q: Fraction, k: int) -> Interval:
    logarithm = k * real.log(rational(real, q)) + (n - k) * real.log(rational(real, 1 - q))
    chosen = log_factorial(real, n) - log_factorial(real, k) - log_factorial(real, n - k)
    return real.exp(chosen + logarithm)


def _series(real: Reals, n: int, q: Fraction, k: int) -> Interval:
    """Σ_{j <= k} P(j) / P(k) for k up to the mean, in fixed point, each step rounded both ways."""
    bits, win, lose = real.prec, q.numerator, q.denominator - q.numerator
    low_term = high_term = low = high = 1 << bits
    j = k
    while j > 0 and high_term > 1 << 32:  # P(j - 1) = P(j) j (1 - q) / ((n - j + 1) q)
        above, below = j * lose, (n - j + 1) * win
        low_term = low_term * above // below
        high_term = -(-high_term * above // below)
        low, high, j = low + low_term, high + high_term, j - 1
    if j > 0:
        # Ratios r < 1 fall with j, so what is left out is at most r / (1 - r) of the last term.
        above, below = j * lose, (n - j + 1) * win
        high += -(-high_term * above // (below - above))
    return between(real, low, high, bits)
