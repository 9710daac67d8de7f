"""A party's keys and its card.

`keygen` makes two key pairs and a card. The signing key (Ed25519) proves that a message of the
secure sum is the party's own; the node key (EC P-384, in OpenSSH's format) is what Flower's
transport knows the party's machine by. Secret keys never leave the party's folder:

    NAME.signing     secret, 0600     NAME.node     secret, 0600     NAME.node.pub     public
    NAME.card        public: name, both public keys, and a fingerprint to read over the phone

A fingerprint is 128 bits of a hash over name and keys, written as eight pronounceable groups
(proquints: consonant, vowel, consonant, vowel, consonant for 16 bits).
"""

import base64
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import Field

from unisono.core.config import Config
from unisono.errors import InvalidInput
from unisono.secagg.roster import KEY_BYTES, Identity, framed
from unisono.studies import source
from unisono.studies.source import NAME, Fault

_CONSONANTS, _VOWELS = "bdfghjklmnprstvz", "aiou"
_GROUPS = 8
_PEM = serialization.Encoding.PEM
_OPENSSH = serialization.Encoding.OpenSSH


class Card(Config):
    """What a party hands to the others; keys are text, the node key a line of OpenSSH."""

    name: Annotated[str, Field(pattern=NAME)]
    signing: Annotated[str, Field(min_length=1)]
    node: Annotated[str, Field(min_length=1)]
    fingerprint: str

    @property
    def signing_key(self) -> bytes:
        return base64.b64decode(self.signing)

    @property
    def node_key(self) -> bytes:
        return self.node.encode()

    def to_toml(self) -> str:
        """The entry as TOML; no value holds a quote or a backslash."""
        lines = (f'{word} = "{value}"' for word, value in self.model_dump().items())
        return "\n".join(lines) + "\n"


def card_of(name: str, signing: bytes, node: bytes) -> Card:
    """The card for a party's public keys."""
    text, line = base64.b64encode(signing).decode(), node.decode()
    return Card(name=name, signing=text, node=line, fingerprint=fingerprint(name, signing, node))


def fingerprint(name: str, signing: bytes, node: bytes) -> str:
    """Eight groups that people can read to each other.

    >>> fingerprint("north", bytes(32), b"")[:11]
    'zumav-ninaf'
    """
    digest = hashlib.sha256(framed(b"unisono/card/1", name.encode(), signing, node)).digest()
    return "-".join(_proquint(digest[2 * i] << 8 | digest[2 * i + 1]) for i in range(_GROUPS))


def _proquint(word: int) -> str:
    """16 bits in five letters.

    >>> _proquint(0x7F00), _proquint(0x0001)
    ('lusab', 'babad')
    """
    c, v = _CONSONANTS, _VOWELS
    return c[word >> 12] + v[word >> 10 & 3] + c[word >> 6 & 15] + v[word >> 4 & 3] + c[word & 15]


# ------------------------------------------------------------- making keys


def keygen(folder: str | Path, name: str) -> Card:
    """Make a party's keys and card in a folder; refuses to replace any of them."""
    if not re.fullmatch(NAME, name):
        raise InvalidInput(
            f"name {name!r}: use letters, digits, '.', '_' and '-', beginning with a letter or "
            "digit, at most 64 of them"
        )
    home = Path(folder)
    files = {kind: home / f"{name}.{kind}" for kind in ("signing", "node", "node.pub", "card")}
    for file in files.values():
        if file.exists():
            raise InvalidInput(
                f"{file} exists already: keys are never overwritten; choose another folder, or "
                "remove the old keys yourself and hand out the new card"
            )
    home.mkdir(parents=True, exist_ok=True)
    signing, node = Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP384R1())
    plain = serialization.NoEncryption()
    line = node.public_key().public_bytes(_OPENSSH, serialization.PublicFormat.OpenSSH)
    card = card_of(name, signing.public_key().public_bytes_raw(), line)
    _write(
        files["signing"],
        signing.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, plain),
        0o600,
    )
    _write(
        files["node"], node.private_bytes(_PEM, serialization.PrivateFormat.OpenSSH, plain), 0o600
    )
    _write(files["node.pub"], line + b"\n", 0o644)
    _write(files["card"], card.to_toml().encode(), 0o644)
    return card


def _write(path: Path, content: bytes, mode: int) -> None:
    """A new file that nobody else could read before it had its permissions."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None


# ------------------------------------------------------------- reading keys


def load_identity(folder: str | Path, name: str) -> Identity:
    """A party's signing key; refuses a key that is missing, damaged or open to others."""
    path = Path(folder) / f"{name}.signing"
    content = _secret(path)
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(
            f"{path} is no Ed25519 key, or is damaged or cut short: restore it from a backup, or "
            "make new keys and hand out the new card"
        )
    return Identity(name, key.private_bytes_raw())


def load_node_key(folder: str | Path, name: str) -> Path:
    """The path of a party's node key, once it is known to be whole and its owner's alone."""
    path = Path(folder) / f"{name}.node"
    content = _secret(path)
    try:
        key = serialization.load_ssh_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidInput(
            f"{path} is no elliptic-curve key of OpenSSH, or is damaged or cut short: restore it "
            "from a backup, or make new keys and hand out the new card"
        )
    return path


def _secret(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        content = path.read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"{path} is missing: make keys with `unisono keygen` first") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise InvalidInput(
            f"{path} can be read by others (mode {mode & 0o777:03o}): run `chmod 600 {path}`; if "
            "others use this machine, make new keys"
        )
    return content


def load_card(path: str | Path) -> Card:
    """A card, if its fingerprint is that of its keys."""
    return source.read(path, Card, card_faults)[0]


def card_faults(card: Card) -> Iterator[Fault]:
    """What is wrong with a card by itself."""
    try:
        signing = base64.b64decode(card.signing, validate=True)
    except ValueError:
        signing = b""
    if len(signing) != KEY_BYTES:
        yield ("signing",), "is no Ed25519 key: ask the party for its card again"
        return
    try:
        key = serialization.load_ssh_public_key(card.node_key)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        yield ("node",), "is no elliptic-curve key of OpenSSH: ask the party for its card again"
    if card.fingerprint != fingerprint(card.name, signing, card.node_key):
        words = f"is not that of {card.name}'s keys: the card was changed or damaged"
        yield ("fingerprint",), f"{words}; ask for it again and compare it over the phone"


__all__ = [
    "Card",
    "card_faults",
    "card_of",
    "fingerprint",
    "keygen",
    "load_card",
    "load_identity",
    "load_node_key",
]
