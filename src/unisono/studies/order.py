"""A secret, exactly uniform order of a party's records, where places in a file would count.

A study whose split or schedule goes by places (records kept out for a test; `dp-ftrl`, where
records take turns; `sgd-sequential`, where they are named) is private only if one record that is
exchanged leaves all others in their places. Files do not promise that: in one that is sorted,
another value moves many records. So each party shuffles its records first, in memory, by a key that
nobody else learns: it lies beside the party's ledger until the study is over, so that whoever goes
on after a crash keeps out of training the same records.

Why that suffices: let D and E be sets of n records that differ in one, and file them in any way.
A uniform order of D has the same law whatever the file's order, so order E by the same permutation
with the one record in the other's place. Then for every permutation the two lists differ in one
place, and the study on lists is (epsilon, delta)-private there. The permutation is part of the
randomness: a mixture over it, with the same weights on both sides, is (epsilon, delta)-private too,
for the hockey-stick divergence is jointly convex.

A key that was lost is drawn anew. The argument holds for every pair of orders, as each payment
covers a record in any place, and ledgers add up training and test rather than take the larger. A
run in which places matter from round to round (`dp-ftrl`, `sgd-sequential`) is paid for at once and
ends with its process, so it never sees two orders.
"""

import hashlib
import os
from pathlib import Path

import numpy as np

from unisono.core import journal
from unisono.core.noise.keystream import Keystream
from unisono.core.noise.subset import permutation

_KEY_BYTES = 32


def secret_order(records: int, key: bytes) -> np.ndarray:
    """A uniform permutation (records,) of places, as secret as its key.

    >>> sorted(secret_order(4, new_key()).tolist())
    [0, 1, 2, 3]
    """
    return permutation(Keystream(key), records)


def new_key() -> bytes:
    """A key that nobody knows."""
    return os.urandom(_KEY_BYTES)


def simulated_key(seed: int, party: str) -> bytes:
    """The key of a simulation, which is no secret."""
    return hashlib.sha256(f"simulation {seed}: order of {party}".encode()).digest()


def found_key(path: Path) -> bytes | None:
    """The key that an earlier process of this run left in its owner's file."""
    try:
        key = path.read_bytes()
    except OSError:
        return None
    return key if len(key) == _KEY_BYTES else None


def keep_key(path: Path, key: bytes) -> None:
    """Leave the key for a later process of this run; the file is its owner's alone."""
    journal.replace(path, key, 0o600)


__all__ = ["found_key", "keep_key", "new_key", "secret_order", "simulated_key"]
