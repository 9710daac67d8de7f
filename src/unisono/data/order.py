"""A secret, exactly uniform order of records, where places would count (`studies.order`).

Why that suffices: let D and E be sets of n records that differ in one, and file them in any way.
A uniform order of D has the same law whatever the file's order, so order E by the same permutation
with the one record in the other's place. Then for every permutation the two lists differ in one
place, and the study on lists is (epsilon, delta)-private there. The permutation is part of the
randomness: a mixture over it, with the same weights on both sides, is (epsilon, delta)-private too,
for the hockey-stick divergence is jointly convex.
"""

import hashlib
import os

import numpy as np

from unisono.core.noise.keystream import Keystream
from unisono.core.noise.subset import permutation

KEY_BYTES = 32


def secret_order(records: int, key: bytes) -> np.ndarray:
    """A uniform permutation (records,) of places, as secret as its key.

    >>> sorted(secret_order(4, new_key()).tolist())
    [0, 1, 2, 3]
    """
    return permutation(Keystream(key), records)


def new_key() -> bytes:
    """A key that nobody knows."""
    return os.urandom(KEY_BYTES)


def simulated_key(seed: int, party: str) -> bytes:
    """The key of a simulation, which is no secret."""
    return hashlib.sha256(f"simulation {seed}: order of {party}".encode()).digest()


def order_key(seed: int | None, party: str) -> bytes:
    """A key that nobody knows, or that of a simulation."""
    return new_key() if seed is None else simulated_key(seed, party)


__all__ = ["KEY_BYTES", "new_key", "order_key", "secret_order", "simulated_key"]
