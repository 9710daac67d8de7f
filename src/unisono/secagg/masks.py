"""Masks: streams of uniform residues from a seed, and seeds that two parties share.

    pair seed   HKDF-SHA256(X25519(own secret, other's public key), info = attempt, pair, question)
    own seed    HKDF-SHA256(own secret, info = attempt, party, question)
    stream      AES-256 in counter mode under the seed, which serves once

Streams are added to a vector block by block, so that neither leaves the processor's cache.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_BLOCK_BYTES = 1 << 18
_ZEROS = memoryview(bytes(_BLOCK_BYTES))
_ANY_KEY = X25519PrivateKey.from_private_bytes(b"\x01" * 32)


def public_key(secret: bytes) -> bytes:
    """The X25519 public key of a secret."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def private_key(secret: bytes) -> X25519PrivateKey:
    """The key of a secret; making it costs half an agreement, so many agreements share one."""
    return X25519PrivateKey.from_private_bytes(secret)


def exchanged(own: X25519PrivateKey, other: bytes) -> bytes:
    """What only the two holders can compute; raises ValueError for a key that shares nothing."""
    return own.exchange(X25519PublicKey.from_public_bytes(other))


def derived(agreed: bytes, purpose: bytes) -> bytes:
    """A key for one purpose from what two holders have `exchanged`."""
    return HKDF(SHA256(), length=32, salt=None, info=purpose).derive(agreed)


def shared(secret: bytes, other: bytes, purpose: bytes) -> bytes:
    """A key that only the two holders know; raises ValueError for a key that shares nothing."""
    return derived(exchanged(private_key(secret), other), purpose)


def is_usable(key: bytes) -> bool:
    """Whether an agreement with this public key can succeed at all."""
    try:
        exchanged(_ANY_KEY, key)
    except ValueError:
        return False
    return True


def stream(seed: bytes, size: int) -> bytes:
    """`size` bytes of the stream."""
    return _encryptor(seed).update(bytes(size))


def add(total: np.ndarray, seed: bytes, sign: int) -> None:
    """Add (sign 1) or subtract (sign -1) the seed's mask, in place, modulo the word's size."""
    add_all(total, [(seed, sign)])


def add_all(total: np.ndarray, masks: Sequence[tuple[bytes, int]]) -> None:
    """Add the masks of many seeds, each with its sign, in place."""
    streams = [(_encryptor(seed), np.add if sign > 0 else np.subtract) for seed, sign in masks]
    block = bytearray(_BLOCK_BYTES)
    mask = np.frombuffer(block, total.dtype)
    for start in range(0, total.size, len(mask)):
        part = total[start : start + len(mask)]
        zeros, own = _ZEROS[: part.nbytes], mask[: part.size]
        for encryptor, combine in streams:
            encryptor.update_into(zeros, block)
            combine(part, own, out=part)


def _encryptor(seed: bytes) -> Any:
    return Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor()
