"""Who takes part, and how each proves that a message is its own.

Every party holds the same roster: names and Ed25519 public keys, in an agreed order. Whoever
adds, drops or exchanges a key makes another roster with another hash, and so another session.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from unisono.errors import InvalidInput

KEY_BYTES, SIGNATURE_BYTES = 32, 64


def framed(*parts: bytes | int) -> bytes:
    """Parts with their lengths in front: no two lists of parts give the same bytes.

    >>> framed(b"ab", b"c") == framed(b"a", b"bc")
    False
    """
    raw = [part.to_bytes(8, "big") if isinstance(part, int) else part for part in parts]
    return b"".join(len(part).to_bytes(8, "big") + part for part in raw)


def digest(label: str, *parts: bytes | int) -> bytes:
    """SHA-256 over a label and framed parts."""
    return hashlib.sha256(framed(b"unisono/secure-sum/1", label.encode(), *parts)).digest()


@dataclass(frozen=True)
class Roster:
    """Names and public keys; the position is the party's number.

    >>> Roster(("north", "north"), (bytes(32), bytes(32)))
    Traceback (most recent call last):
    unisono.errors.InvalidInput: 'north' stands twice in the roster: give every party its own name
    """

    names: tuple[str, ...]
    keys: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not self.names or len(self.names) != len(self.keys):
            raise InvalidInput(
                f"a roster of {len(self.names)} names and {len(self.keys)} keys: one key for each"
            )
        names, keys = Counter(self.names), Counter(self.keys)
        for name, key in zip(self.names, self.keys, strict=True):
            if len(key) != KEY_BYTES:
                raise InvalidInput(
                    f"the key of {name!r} has {len(key)} bytes, an Ed25519 key has {KEY_BYTES}: "
                    "ask the party for its card again"
                )
            if names[name] > 1:
                raise InvalidInput(
                    f"{name!r} stands twice in the roster: give every party its own name"
                )
            if keys[key] > 1:
                raise InvalidInput(
                    f"the key of {name!r} stands twice in the roster: one holder of two votes; "
                    "every party makes its own key"
                )

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def hash(self) -> str:
        names = [name.encode() for name in self.names]
        return digest("roster", len(self), *names, *self.keys).hex()

    def index(self, name: str) -> int:
        """A party's number."""
        if name not in self._numbers:
            raise InvalidInput(
                f"{name!r} is not in the roster, which names {', '.join(self.names)}"
            )
        return self._numbers[name]

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def _public(self) -> Sequence[Ed25519PublicKey]:
        return [Ed25519PublicKey.from_public_bytes(key) for key in self.keys]

    def verify(self, index: int, signature: bytes, message: bytes) -> bool:
        """Whether the party with this number signed the message."""
        if not 0 <= index < len(self):
            return False
        try:
            self._public[index].verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def require(self, identity: "Identity") -> int:
        """The number of the party that holds this key, or a refusal."""
        number = self.index(identity.name)
        if self.keys[number] != identity.public:
            raise InvalidInput(
                f"the roster lists another key for {identity.name!r} than this party holds: use "
                "the keys whose card went into the roster, or agree on a new roster"
            )
        return number


class Identity:
    """A party's own name and signing key; it prints no secret."""

    def __init__(self, name: str, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise InvalidInput(f"a signing key of {len(secret)} bytes where {KEY_BYTES} belong")
        self.name = name
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def fresh(cls, name: str) -> "Identity":
        """A new key from the operating system's entropy."""
        return cls(name, Ed25519PrivateKey.generate().private_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    def __repr__(self) -> str:
        return f"<Identity {self.name}>"
