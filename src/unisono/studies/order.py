"""A secret, exactly uniform order of a party's records, where places in a file would count.

A study whose split or schedule goes by places (records kept out for a test; `dp-ftrl`, where
records take turns; `sgd-sequential`, where they are named) is private only if one record that is
exchanged leaves all others in their places. Files do not promise that: in one that is sorted,
another value moves many records. So each party shuffles its records first, in memory, by a key that
nobody learns and that is never written down.

Why that suffices: let D and E be sets of n records that differ in one, and file them in any way.
A uniform order of D has the same law whatever the file's order, so order E by the same permutation
with the one record in the other's place. Then for every permutation the two lists differ in one
place, and the study on lists is (epsilon, delta)-private there. The permutation is part of the
randomness: a mixture over it, with the same weights on both sides, is (epsilon, delta)-private too,
for the hockey-stick divergence is jointly convex.

A process that goes on with a run draws a new order, so a record may be learnt from before and
tested after. The argument holds for every pair of orders, as each payment covers a record in any
place, and ledgers add up training and test rather than take the larger. (The test is then no longer
of records that were never learnt from, and says so.) A run in which places matter from round to
round (`dp-ftrl`, `sgd-sequential`) is paid for at once and ends with its process, so it never sees
two orders.
"""

import hashlib
import os

import numpy as np

from unisono.core.noise.keystream import Keystream
from unisono.core.noise.subset import permutation


def secret_order(records: int, party: str, seed: int | None = None) -> np.ndarray:
    """A uniform permutation (records,) of places; a seed makes it a simulation's, not secret.

    >>> sorted(secret_order(4, "north").tolist())
    [0, 1, 2, 3]
    """
    key = os.urandom(32)
    if seed is not None:
        key = hashlib.sha256(f"simulation {seed}: order of {party}".encode()).digest()
    return permutation(Keystream(key), records)


__all__ = ["secret_order"]
