"""Who masks with whom: everybody with everybody, or a ring in which each has a few neighbours.

With n parties all pairs cost n masks each; above 100 parties each masks with the k nearest on a
ring in an order that nobody chooses (it follows from the session's hash), and its secrets are
shared among those k and itself with threshold τ. Two facts make this safe against a server that
calls anyone it likes a dropout, and c parties that help it:

* One sum only. Suppose the honest survivors fell into two groups without an edge between them, so
  that two sums could be told apart. Somewhere on the ring an honest survivor u of one group is
  followed by an honest survivor of the other, more than k/2 places on. Then u has honest
  surviving neighbours on one side only, at most k/2; with itself and its colluding neighbours
  c_u that is at most k/2 + 1 + c_u holders, and its self-mask opens to τ only. So
  τ = k/2 + c_u + 2 forbids it, whoever dropped out.
* Colluders alone cannot open anything: c_u < τ.

c_u is the number of colluders among u's k neighbours: hypergeometric, as the order is random to
whoever chose the colluders before the session was agreed on. `most_colluders` bounds it for all u
together but for a probability of 2^-104, which leaves 2^-40 to a coordinator who tries 2^64 studies
until the order suits him. For all pairs the minimum of survivors is the threshold.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

ALL_PAIRS = 100
_UNSAFE_BITS = 104
# A ring so wide that honest dropouts hinder fewer rounds than this.
_STUCK = 1e-6
_FEWEST, _STRIDE = 16, 1.15


@lru_cache(maxsize=64)
def choose(parties: int, minimum: int, colluders: int) -> tuple[int, int]:
    """Neighbours of each party and the threshold of its secrets: (k, τ).

    >>> choose(5, 4, 1)
    (4, 4)
    """
    everybody = parties - 1, minimum
    if parties <= ALL_PAIRS:
        return everybody
    lowest, degree = _FEWEST, _FEWEST
    while degree < parties - 1:  # find a ring that is wide enough, then the narrowest
        if _threshold(parties, minimum, colluders, degree):
            for narrower in range(lowest, degree + 1, 2):
                threshold = _threshold(parties, minimum, colluders, narrower)
                if threshold:
                    return narrower, threshold
        lowest, degree = degree + 2, 2 * math.ceil(_STRIDE * degree / 2)
    return everybody


def _threshold(parties: int, minimum: int, colluders: int, degree: int) -> int:
    """τ of a ring with this many neighbours, or 0 if honest dropouts would hinder it too often."""
    threshold = degree // 2 + most_colluders(parties, colluders, degree) + 2
    if threshold > degree or stuck(parties, parties - minimum, degree, threshold) > _STUCK:
        return 0
    return threshold


def stuck(parties: int, gone: int, degree: int, threshold: int) -> float:
    """The chance, at most, that a sum cannot be opened although only this many dropped out.

    A dropout's own share is gone as well, so τ others must hold on: no more than k - τ of its k
    neighbours may fail with it. Union bound over all parties.
    """
    return parties * _tail(parties - 1, gone, degree, degree - threshold)


def crowded(parties: int, colluders: int, degree: int, most: int) -> float:
    """The chance, at most, that some party has more than `most` colluders among its neighbours."""
    return parties * _tail(parties - 1, colluders, degree, most)


def most_colluders(parties: int, colluders: int, degree: int) -> int:
    """Colluders among a party's neighbours: more than this at any party has probability 2^-104."""
    bound, more = 2.0**-_UNSAFE_BITS / parties, 0.0
    for found in range(min(colluders, degree), -1, -1):
        more += _chance(parties - 1, colluders, degree, found)
        if more > bound:
            return found
    return 0


def ring(order: Sequence[int], degree: int, place: int) -> tuple[int, ...]:
    """The `degree` parties nearest to the one at this place of the ring.

    >>> ring([3, 0, 2, 1, 4], 2, 1)
    (2, 3)
    """
    half = degree // 2
    steps = [step for step in range(-half, half + 1) if step]
    return tuple(sorted(order[(place + step) % len(order)] for step in steps))


def _tail(population: int, marked: int, drawn: int, more_than: int) -> float:
    """The chance that more than so many of `drawn` are marked (without replacement)."""
    highest = min(marked, drawn)
    return math.fsum(
        _chance(population, marked, drawn, x) for x in range(more_than + 1, highest + 1)
    )


def _chance(population: int, marked: int, drawn: int, found: int) -> float:
    """The chance that exactly so many of `drawn` are marked."""
    if found < drawn - (population - marked):
        return 0.0
    ways = _log_binomial(marked, found) + _log_binomial(population - marked, drawn - found)
    return math.exp(ways - _log_binomial(population, drawn))


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
