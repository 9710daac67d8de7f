"""The ring of neighbours: its threshold is exactly what is needed, and its tails are right."""

from fractions import Fraction
from itertools import pairwise, product
from math import comb

import pytest

from unisono.secagg import neighbours
from unisono.secagg.neighbours import choose, most_colluders, ring

from . import harness
from .harness import crowd


def bits(mask):
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def circle(parties, degree):
    """Bit masks of each party's neighbours."""
    order = list(range(parties))
    return [sum(1 << other for other in ring(order, degree, own)) for own in order]


def component(start, within, around):
    """All that are connected with `start` inside a set."""
    found, edge = 1 << start, 1 << start
    while edge:
        reached = 0
        for own in bits(edge):
            reached |= around[own]
        edge = reached & within & ~found
        found |= edge
    return found


def splits(parties, degree, fewer=0):
    """Whether some choice of honest survivors, dropouts and colluders opens part of a sum.

    τ = degree/2 + c + 2 - `fewer`, where c is the largest number of colluders around an honest
    party. A part opens if it is a connected group of honest survivors, not all of them, each with
    τ holders who would answer: itself, honest survivors and colluders among its neighbours.
    """
    around = circle(parties, degree)
    everyone = (1 << parties) - 1
    for kinds in product(range(3), repeat=parties):  # survivor, dropout, colluder
        honest = sum(1 << i for i, kind in enumerate(kinds) if kind == 0)
        colluding = sum(1 << i for i, kind in enumerate(kinds) if kind == 2)
        rest = list(bits(everyone & ~colluding))
        most = max(((around[i] & colluding).bit_count() for i in rest), default=0)
        threshold = degree // 2 + most + 2 - fewer
        left = honest
        while left:
            group = component(next(bits(left)), honest, around)
            left &= ~group
            if group != honest and all(
                1 + (around[i] & (honest | colluding)).bit_count() >= threshold for i in bits(group)
            ):
                return True
    return False


@pytest.mark.parametrize(("parties", "degree"), [(5, 2), (7, 2), (8, 2), (8, 4), (9, 4), (9, 6)])
def test_no_dropouts_and_colluders_open_part_of_a_sum(parties, degree):
    """All 3^n choices of survivors, dropouts and colluders."""
    assert not splits(parties, degree)


def test_one_holder_less_would_let_a_sum_be_split():
    assert splits(6, 2, fewer=1)
    assert splits(8, 2, fewer=1)


def test_no_dropouts_split_a_wider_ring_and_one_holder_less_would():
    """All 2^n survivors without colluders: two arcs of 3 between gaps of 2 need n = 10."""
    around, degree = circle(11, 4), 4

    def split(threshold):
        for honest in range(1, 2**11):
            left = honest
            while left:
                group = component(next(bits(left)), honest, around)
                left &= ~group
                if group != honest and all(
                    1 + (around[i] & honest).bit_count() >= threshold for i in bits(group)
                ):
                    return True
        return False

    assert not split(degree // 2 + 2)
    assert split(degree // 2 + 1)


@pytest.mark.parametrize(
    ("population", "marked", "drawn"), [(19, 6, 8), (99, 33, 20), (999, 200, 60), (10, 10, 4)]
)
def test_the_tail_is_the_hypergeometric_one(population, marked, drawn):
    """Against exact fractions, to a relative 1e-9, down to tails of 2^-120."""
    whole = comb(population, drawn)
    for more_than in range(drawn + 1):
        exact = sum(
            Fraction(comb(marked, x) * comb(population - marked, drawn - x), whole)
            for x in range(more_than + 1, drawn + 1)
            if drawn - x <= population - marked
        )
        found = neighbours._tail(population, marked, drawn, more_than)
        assert found == pytest.approx(float(exact), rel=1e-9, abs=2.0**-160)


@pytest.mark.parametrize(("parties", "colluders", "degree"), [(300, 60, 80), (1000, 333, 120)])
def test_more_colluders_than_the_bound_are_as_unlikely_as_claimed(parties, colluders, degree):
    def chance(more_than):
        top = min(colluders, degree)
        ways = sum(
            comb(colluders, x) * comb(parties - 1 - colluders, degree - x)
            for x in range(more_than + 1, top + 1)
        )
        return parties * Fraction(ways, comb(parties - 1, degree))

    most = most_colluders(parties, colluders, degree)
    assert chance(most) <= Fraction(1, 2**104) < chance(most - 1)
    for others in (most - 1, most, most + 5):
        found = neighbours.crowded(parties, colluders, degree, others)
        assert found == pytest.approx(float(chance(others)), rel=1e-9)


def test_the_bound_grows_with_colluders_and_neighbours():
    table = [[most_colluders(300, c, k) for k in range(16, 120, 8)] for c in range(0, 150, 15)]
    for row in table:
        assert row == sorted(row)
    for column in zip(*table, strict=True):
        assert list(column) == sorted(column)
    assert table[0] == [0] * len(table[0])
    assert all(most_colluders(300, c, 40) <= min(c, 40) for c in range(0, 150, 7))


def test_neighbours_grow_like_a_logarithm():
    """A tenth may drop out, none colludes: at most 14 neighbours more for ten times the parties.

    Measured: 26, 40, 46 and 50.
    """
    degrees = [choose(n, n * 9 // 10, 0)[0] for n in (101, 1000, 10_000, 100_000)]
    steps = [b - a for a, b in pairwise(degrees)]
    assert all(0 <= step <= 14 for step in steps)
    assert degrees[0] <= 28


@pytest.mark.parametrize(
    ("parties", "colluders"), [(101, 0), (101, 20), (120, 6), (300, 15), (300, 60), (1000, 10)]
)
def test_what_is_chosen_keeps_both_promises(parties, colluders):
    minimum = max((parties + colluders) // 2 + 1, parties * 9 // 10)
    degree, threshold = choose(parties, minimum, colluders)
    if degree == parties - 1:
        assert threshold == minimum
        return
    most = most_colluders(parties, colluders, degree)
    assert threshold == degree // 2 + most + 2
    assert most < threshold <= degree + 1


@pytest.mark.parametrize(("parties", "minimum"), [(120, 108), (1000, 600)])
def test_honest_dropouts_hinder_fewer_rounds_than_claimed(parties, minimum):
    """Union bound over all parties: a survivor lacks more than k + 1 - τ of its k neighbours, or
    a dropout, whose own share is gone as well, more than k - τ of them.

    Counting k + 1 - τ for dropouts as well would give 1.5e-6 and 1.2e-6 where 1e-6 is claimed.
    """
    degree, threshold = choose(parties, minimum, 0)
    assert degree < parties - 1
    gone, spare = parties - minimum, degree + 1 - threshold
    stuck = minimum * neighbours._tail(parties - 1, gone, degree, spare)
    stuck += gone * neighbours._tail(parties - 1, gone - 1, degree, spare - 1)
    assert stuck <= neighbours.stuck(parties, gone, degree, threshold) <= neighbours._STUCK


def test_up_to_a_hundred_parties_mask_with_everybody():
    assert choose(100, 51, 0) == (99, 51)
    assert choose(101, 91, 0)[0] < 100


def test_the_ring_is_mutual_and_its_order_follows_from_the_session(monkeypatch):
    session, other = harness.ring(monkeypatch, 15, 4, 4).session, crowd(15).session
    for own in range(15):
        around = session.neighbours(own)
        assert len(set(around)) == 4
        assert own not in around
        assert all(own in session.neighbours(neighbour) for neighbour in around)
        assert set(session.holders(own)) == {own, *around}
    assert sorted(session._order) == list(range(15))
    assert session._order != other._order
