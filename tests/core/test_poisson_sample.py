"""Poisson samples by their size: the very law of independent coins, in a uniform order."""

import math
import sys
from collections import Counter
from fractions import Fraction
from itertools import permutations as orders

import numpy as np
import pytest
from scipy import stats

from unisono.core.noise import Keystream, poisson_sample, poisson_samples
from unisono.core.noise.exact import fixed_point, reals
from unisono.core.noise.poisson_sample import (
    LARGEST_RATE_BY_SIZE,
    _cumulative,
    _units,
    binomial_table,
)
from unisono.core.noise.subset import permutation, permutations, repeated
from unisono.errors import InvalidInput

FALSE_ALARM = 1e-6  # of every statistical test here, with fixed seeds


def streams(count, seed=0):
    return [Keystream(bytes([seed]) * 24 + number.to_bytes(8, "little")) for number in range(count)]


def exact_cumulative(n, q, k):
    return sum(math.comb(n, j) * q**j * (1 - q) ** (n - j) for j in range(k + 1))


@pytest.mark.parametrize(("n", "rate"), [(1, 0.05), (7, 1 / 16), (60, 0.01), (300, 0.0625)])
def test_the_binomial_law_is_enclosed_at_every_count(n, rate):
    """The exact verdicts of the table rest on intervals: each holds the rational probability, and
    is narrow."""
    real, q = reals(128), Fraction(rate)
    assert fixed_point(_cumulative(real, n, q, -1), 64) == (0, 0)
    for k in {*range(0, n, 1 + n // 40), n}:
        low, high = fixed_point(_cumulative(real, n, q, k), 100)
        exact = exact_cumulative(n, q, k) * 2**100
        assert low <= exact <= high
        assert high - low < 2**30


@pytest.mark.parametrize(("n", "rate"), [(7, 1 / 16), (48_000, 0.01), (10**6, 1e-7)])
def test_thresholds_of_the_table_hold_the_exact_ones(n, rate):
    table, real = binomial_table(n, rate), reals(128)
    places = np.unique(np.linspace(0, len(table.certainly_below) - 1, 25).astype(int))
    for i in places:
        low, high = fixed_point(_cumulative(real, n, Fraction(rate), table.first + int(i)), 64)
        assert int(table.certainly_below[i]) <= low
        above = int(table.certainly_above[i])
        assert high <= above or above == 2**64 - 1  # the last word stands for 2^64


@pytest.mark.parametrize(("units", "rate"), [(40, 1 / 16), (5000, 0.01)])
def test_exact_verdicts_agree_with_the_table(units, rate):
    quick = poisson_samples(streams(40), rate, units)
    exact = poisson_samples(streams(40), rate, units, always_exact=True)
    assert [own.tolist() for own in quick] == [own.tolist() for own in exact]


def test_every_list_has_the_probability_that_coins_and_an_order_give_it():
    """Of 5 units at 1/16 each list of up to two has q^k (1 - q)^(5 - k) / k!."""
    units, rate, times = 5, LARGEST_RATE_BY_SIZE, 40_000
    found = Counter(tuple(own.tolist()) for own in poisson_samples(streams(times), rate, units))
    law = {
        own: rate**k * (1 - rate) ** (units - k) / math.factorial(k)
        for k in range(3)
        for own in orders(range(units), k)
    }
    seen = [found[own] for own in law]
    expected = [times * chance for chance in law.values()]
    seen.append(times - sum(seen))
    expected.append(times - sum(expected))
    assert stats.chisquare(seen, expected).pvalue > FALSE_ALARM


def test_sizes_are_binomial_and_units_alike_in_samples_of_many():
    """Sizes, how often each unit takes part, and how often two of them do at once."""
    units, rate, times = 3000, 0.05, 3000
    found = poisson_samples(streams(times, seed=1), rate, units)
    law, sizes = stats.binom(units, rate), np.array([len(own) for own in found])
    edges = law.ppf(np.linspace(0, 1, 11)[1:-1])
    seen = np.bincount(np.searchsorted(edges, sizes), minlength=10)
    expected = np.diff([0.0, *law.cdf(edges), 1.0]) * times
    assert stats.chisquare(seen, expected).pvalue > FALSE_ALARM
    assert all(len(set(own.tolist())) == len(own) for own in found)
    taken = np.zeros((times, units), bool)
    for row, own in zip(taken, found, strict=True):
        row[own] = True
    spread = ((taken.sum(axis=0) - times * rate) ** 2).sum() / (times * rate * (1 - rate))
    assert FALSE_ALARM < stats.chi2(units).cdf(spread) < 1 - FALSE_ALARM
    both = np.count_nonzero(taken[:, 0::2] & taken[:, 1::2])
    trials = times * (units // 2)
    assert stats.binomtest(both, trials, rate**2).pvalue > FALSE_ALARM
    # The first of the list is no particular unit.
    first = np.bincount([own[0] * 10 // units for own in found], minlength=10)
    assert stats.chisquare(first).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("units", "rate"), [(1, 0.05), (3000, 0.05), (200, 0.3), (0, 0.5)])
def test_samples_together_are_those_one_by_one(units, rate):
    together = poisson_samples(streams(20), rate, units)
    alone = [poisson_sample(stream, rate, units) for stream in streams(20)]
    assert [own.tolist() for own in together] == [own.tolist() for own in alone]


def test_whoever_reads_on_gets_the_same_sample(monkeypatch):
    """All lists one by one, as if no row of words had held enough of different units."""
    expected = poisson_samples(streams(20), 0.05, 3000)
    place = sys.modules[poisson_sample.__module__]
    monkeypatch.setattr(place, "repeated", lambda numbers: np.ones(numbers.shape, bool))
    found = poisson_samples(streams(20), 0.05, 3000)
    assert [own.tolist() for own in found] == [own.tolist() for own in expected]
    # Where words run out the stream is read on.
    few = place._one_by_one(streams(1)[0], np.zeros(3, np.uint64), 30, 1000)
    assert len(set(few.tolist())) == 30
    assert few[0] == 0


def test_words_beyond_the_last_multiple_name_nobody():
    words = np.array([0, 5, 2**64 - 2, 2**64 - 1], np.uint64)
    numbers, refused = _units(words, 3)  # 2^64 = 1 modulo 3
    assert refused.tolist() == [False, False, False, True]
    assert numbers[:3].tolist() == [0, 2, 2]
    assert not _units(words, 2**31)[1].any()


def test_streams_that_are_read_together_begin_together():
    first, second = streams(2)
    second.words(1)
    with pytest.raises(InvalidInput, match="same position"):
        poisson_samples([first, second], 0.01, 1000)


def test_large_means_are_refused_by_the_table_and_sampled_by_coins():
    with pytest.raises(InvalidInput, match="toss coins"):
        binomial_table(2**30, 0.01)
    with pytest.raises(InvalidInput, match="toss coins"):
        binomial_table(10, 0.6)
    assert poisson_sample(streams(1)[0], 0.0, 10).tolist() == []
    assert sorted(poisson_sample(streams(1)[0], 1.0, 10).tolist()) == list(range(10))


def test_orders_together_are_those_one_by_one():
    together = permutations(streams(30), 77)
    alone = [permutation(stream, 77) for stream in streams(30)]
    assert together.tolist() == [own.tolist() for own in alone]
    together = permutations(streams(30), 77, short=True)
    alone = [permutations([stream], 77, short=True)[0] for stream in streams(30)]
    assert together.tolist() == [own.tolist() for own in alone]


@pytest.mark.parametrize("count", [1, 4, 77, 640, 641, 5000])
def test_orders_hold_everyone_once(count):
    found = np.sort(permutations(streams(20), count, short=True), axis=1)
    assert (found == np.arange(count)).all()


def test_every_order_of_four_is_equally_likely():
    """By words of 32 bits, as orders of batches' places are drawn."""
    found = Counter(map(tuple, permutations(streams(24_000, seed=2), 4, short=True).tolist()))
    assert len(found) == 24
    assert stats.chisquare(list(found.values())).pvalue > FALSE_ALARM


@pytest.mark.parametrize("count", [512, 640, 700])
def test_everyone_stands_everywhere_alike_in_long_orders(count):
    """Both sides of the bound up to which words have 32 bits; of 640 one order in twenty has words
    that agree in all bits but the last ten."""
    found = permutations(streams(2000, seed=3), count, short=True)
    for unit in (0, count // 2, count - 1):
        place = np.nonzero(found == unit)[1]
        assert stats.chisquare(np.bincount(place * 10 // count, minlength=10)).pvalue > FALSE_ALARM
    # Neighbours in number are no neighbours in place.
    ahead = np.count_nonzero(found.argsort(axis=1)[:, 0] < found.argsort(axis=1)[:, 1])
    assert stats.binomtest(ahead, len(found), 0.5).pvalue > FALSE_ALARM


class Scripted:
    """A stream that gives these 32-bit words, call by call."""

    def __init__(self, *calls):
        self.calls = list(calls)

    def fill(self, words):
        given = np.zeros(2 * len(words), np.uint32)
        own = self.calls.pop(0)
        given[: len(own)] = own
        words[:] = given.view(np.uint64)


def test_words_that_agree_are_settled_by_all_bits_or_drawn_again():
    high = 1 << 20
    close = Scripted([high + 3, high + 1, high + 2])  # the last two bits name the numbers
    again = Scripted([high, high, 5], [9 << 8, 7 << 8, 8 << 8])
    found = permutations([close, again], 3, short=True)
    assert found.tolist() == [[1, 2, 0], [1, 2, 0]]
    assert again.calls == []


def test_what_stood_ahead_is_repeated():
    numbers = np.random.default_rng(0).integers(0, 40, (50, 30))
    expected = [[n in row[:i] for i, n in enumerate(row)] for row in numbers.tolist()]
    assert repeated(numbers).tolist() == expected
    assert repeated(numbers + 2**31 - 40).tolist() == expected
