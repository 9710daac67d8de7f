"""The only source of random bits: the ChaCha20 keystream of RFC 8439, computed by OpenSSL.

A `Keystream` is read once, front to back. It can be neither copied nor pickled nor carried into a
forked process: any of these would let two releases use the same noise, and the difference of two
releases with equal noise is the difference of the data, without any privacy.
"""

import hashlib
import os
import sys
from typing import NoReturn, SupportsIndex

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from unisono.errors import GrantMisused, InvalidInput

KEY_BYTES = 32
NONCE_BYTES = 12
BLOCK_BYTES = 64
CAPACITY_BYTES = BLOCK_BYTES << 32  # the block counter of RFC 8439 has 32 bits: 256 GiB

_CHUNK_BYTES = 1 << 19
_ZEROS = memoryview(bytes(_CHUNK_BYTES))

# Inside the class the name `bytes` is the method, so annotations use these.
Octets = bytes
Label = bytes | int

_LABEL_IS_BYTES = b"\x00"
_LABEL_IS_INTEGER = b"\x01"
_LABEL_IS_EXTENSION = b"\x02"


class Keystream:
    """ChaCha20(key, nonce) from block 0 on, as bytes or as little-endian 64-bit words.

    Guarantee: under the assumption that ChaCha20 and keyed BLAKE2b are pseudorandom functions,
    everything read from a stream, from its children and from the extensions of its words is
    computationally indistinguishable from independent fair bits, and no bit is handed out twice.

    >>> Keystream(bytes(32)).bytes(8).hex()
    '76b8e0ada0f13d90'
    """

    __slots__ = ("_children", "_cipher", "_key", "_nonce", "_position", "_process")

    def __init__(self, key: bytes, nonce: bytes = bytes(NONCE_BYTES)) -> None:
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise InvalidInput(
                f"a keystream key must be {KEY_BYTES} bytes, got {_describe(key)}: a shorter key "
                f"weakens every noise drawn from it. Use secrets.token_bytes({KEY_BYTES})."
            )
        if not isinstance(nonce, bytes) or len(nonce) != NONCE_BYTES:
            raise InvalidInput(
                f"a keystream nonce must be {NONCE_BYTES} bytes (RFC 8439), got "
                f"{_describe(nonce)}. Leave it out to use zeros."
            )
        self._key = key
        self._nonce = nonce
        self._position = 0
        self._process = os.getpid()
        self._children: set[bytes] = set()
        initial_counter = bytes(4)
        self._cipher = Cipher(algorithms.ChaCha20(key, initial_counter + nonce), None).encryptor()

    @property
    def position(self) -> int:
        """Number of bytes read so far; it names the next word for `extension`."""
        return self._position

    def bytes(self, count: int) -> Octets:
        """The next `count` bytes."""
        out = self._room(_count(count))
        self._read_into(out)
        return out.tobytes()

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `8 * count` bytes as `count` little-endian unsigned words, shape (count,)."""
        words = self._room(8 * _count(count)).view(np.uint64)
        self.fill(words)
        return words

    def fill(self, words: NDArray[np.uint64]) -> None:
        """As `words`, into an array (count,) without gaps, in less time."""
        self._read_into(words.view(np.uint8))
        if sys.byteorder == "big":
            words.byteswap(inplace=True)

    def child(self, label: Label) -> "Keystream":
        """A stream independent of this one and of every child with another label.

        Each label is handed out once: a second child with the same label would repeat the noise
        of the first. Reading from this stream does not change its children.
        """
        if isinstance(label, bool) or not isinstance(label, Label):
            raise InvalidInput(f"a child label must be bytes or an integer, got {_describe(label)}")
        encoded = _encode_label(label)
        if encoded in self._children:
            raise GrantMisused(
                f"the child {label!r} of this keystream was already taken: a second one would "
                "repeat its noise. Use another label."
            )
        self._children.add(encoded)
        return self._derive(encoded)

    def extension(self, position: int) -> "Keystream":
        """Further bits, below the 64 read, of the word that began at byte `position`.

        Pure: exact samplers call it when 64 bits do not settle a draw. The same word always gets
        the same further bits, and no other reader ever sees them.
        """
        if not 0 <= position <= self._position - 8:
            raise GrantMisused(
                f"byte {position} does not begin a word already read (position "
                f"{self._position}): only words that were read can be extended."
            )
        return self._derive(_LABEL_IS_EXTENSION + position.to_bytes(8, "little"))

    def _derive(self, message: Octets) -> "Keystream":
        self._require_own_process()
        key = hashlib.blake2b(
            self._nonce + message, key=self._key, digest_size=KEY_BYTES, person=b"unisono.child"
        ).digest()
        return Keystream(key)

    def _room(self, count: int) -> NDArray[np.uint8]:
        self._require_left(count)
        return np.empty(count, np.uint8)

    def _read_into(self, out: NDArray[np.uint8]) -> None:
        self._require_own_process()
        self._require_left(out.size)
        for start in range(0, out.size, _CHUNK_BYTES):
            part = out[start : start + _CHUNK_BYTES]
            self._cipher.update_into(_ZEROS[: part.size], part.data)
        self._position += out.size

    def _require_left(self, count: int) -> None:
        if count > CAPACITY_BYTES - self._position:
            raise GrantMisused(
                f"{count} bytes were asked of a keystream with "
                f"{CAPACITY_BYTES - self._position} left: past 2^32 blocks the counter would "
                "repeat and so would the noise. Take a child or a new key."
            )

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:
            raise GrantMisused(
                f"a keystream made in process {self._process} was used in process {os.getpid()}: "
                "both would draw the same noise. Give each process a child of its own key."
            )

    def __copy__(self) -> NoReturn:
        raise GrantMisused(
            "a keystream cannot be copied: both copies would give the same noise, and two releases "
            "with equal noise reveal their difference. Pass the stream itself, or take a child."
        )

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise GrantMisused(
            "a keystream cannot be pickled: its key would leave the process and its noise could be "
            "drawn twice. Take a child in the process that needs it."
        )

    def __repr__(self) -> str:
        return f"Keystream(<secret key>, position={self._position})"


def _encode_label(label: Label) -> bytes:
    if isinstance(label, bytes):
        return _LABEL_IS_BYTES + label
    length = label.bit_length() // 8 + 1
    return _LABEL_IS_INTEGER + label.to_bytes(length, "little", signed=True)


def _count(count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 0:
        raise InvalidInput(
            f"the number of items to read must be a whole number >= 0, got {count!r}"
        )
    return int(count)


def _describe(value: object) -> str:
    """Type and length only: the value may be a secret."""
    length = f" of length {len(value)}" if isinstance(value, (bytes, bytearray, str)) else ""
    return f"{type(value).__name__}{length}"
