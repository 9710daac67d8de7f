"""A secret, exactly uniform order of records, where places would count (`studies.order`).

Why that suffices: let D and E be sets of n records that differ in one, and file them in any way.
A uniform order of D has the same law whatever the file's order, so order E by the same permutation
with the one record in the other's place. Then for every permutation the two lists differ in one
place, and the study on lists is (epsilon, delta)-private there. The permutation is part of the
randomness: a mixture over it, with the same weights on both sides, is (epsilon, delta)-private too,
for the hockey-stick divergence is jointly convex.

**Hidden sizes.** A share of fixed size would let one record more move another one across. There
each record has a coin of its own (`secret_share`). Let D hold a record r that E does not, and give
all others the same coins in both: coins are independent, so that is how either would be drawn.
Then r alone is added, to those that are kept or to the others, and whichever part it is not in is
the same in D and E, record by record, in the same order. The coins are part of the randomness too,
and mixing over them costs nothing.

What that costs. For fixed coins a record is read by the training or by the test and never by both,
so that every viewer of both, whatever it knows of the coins, could be promised the larger of the
two costs (parallel composition). It is not: ledgers add them up. The larger one holds only as long
as the coins are those of the first draw, and keys can be lost (`studies.order`); and a person who
is at several parties has a coin at each of them. The sum holds for any coins.
"""

import hashlib
import os

import numpy as np

from unisono.core.noise.keystream import Keystream
from unisono.core.noise.subset import choices, permutation

KEY_BYTES = 32


def secret_order(records: int, key: bytes) -> np.ndarray:
    """A uniform permutation (records,) of places, as secret as its key.

    >>> sorted(secret_order(4, new_key()).tolist())
    [0, 1, 2, 3]
    """
    return permutation(Keystream(key), records)


def secret_share(records: int, every: int, key: bytes) -> np.ndarray:
    """Which records (records,) are kept, each for itself with a chance of 1 / every, by coins that
    are as secret as the key and do not depend on the order that it makes.

    >>> secret_share(1000, 4, bytes(32)).sum().item()
    256
    """
    stream = Keystream(hashlib.sha256(b"coins of records" + key).digest())
    return np.asarray(choices(stream, every, records) == 0)


def new_key() -> bytes:
    """A key that nobody knows."""
    return os.urandom(KEY_BYTES)


def simulated_key(seed: int, party: str) -> bytes:
    """The key of a simulation, which is no secret."""
    return hashlib.sha256(f"simulation {seed}: order of {party}".encode()).digest()


def order_key(seed: int | None, party: str) -> bytes:
    """A key that nobody knows, or that of a simulation."""
    return new_key() if seed is None else simulated_key(seed, party)


__all__ = [
    "KEY_BYTES",
    "new_key",
    "order_key",
    "secret_order",
    "secret_share",
    "simulated_key",
]
