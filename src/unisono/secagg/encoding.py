"""Signed integers as residues modulo 2^k, and back.

A sum of residues is the residue of the sum, so masks that are uniform modulo 2^k hide a vector
and cancel in the sum.
"""

import numpy as np

from unisono.errors import InvalidInput

WORDS: dict[int, np.dtype] = {32: np.dtype("<u4"), 64: np.dtype("<u8")}


def word(bits: int) -> np.dtype:
    """The type that holds residues modulo 2^bits."""
    if bits not in WORDS:
        raise InvalidInput(f"a modulus of {bits} bits: choose 32 or 64")
    return WORDS[bits]


def encode(values: np.ndarray, bits: int) -> np.ndarray:
    """Integers as residues.

    >>> encode(np.array([-1, 5]), 32)
    array([4294967295,          5], dtype=uint32)
    """
    integers = np.asarray(values)
    if integers.dtype.kind not in "iu":
        raise InvalidInput(f"numbers of type {integers.dtype} are not on the integer grid")
    return integers.astype(word(bits))  # numpy's casts of integers keep the residue


def signed(residues: np.ndarray, bits: int) -> np.ndarray:
    """Residues modulo 2^bits as the integers nearest to zero.

    >>> signed(np.array([1, 2**32 - 1], dtype=np.uint64), 32)
    array([ 1, -1])
    """
    kind = np.dtype(f"<i{word(bits).itemsize}")
    return residues.astype(word(bits), copy=False).view(kind).astype(np.int64)
