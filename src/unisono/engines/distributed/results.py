"""The result of a session: its hash, and the coordinator's signature over it.

The hash covers the session, the rounds that were opened and every number of the result. It stands
in the certificates of all, who can compare it in one line. The signature is made with the key of
the server's TLS certificate, which the study's authority issued; a party keeps both, so that a
coordinator that shows two parties two results has signed the proof of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from unisono.errors import InvalidInput, PrivacyViolation
from unisono.secagg.roster import digest
from unisono.secagg.session import Session

_SCHEME = ec.ECDSA(hashes.SHA256())


def result_hash(
    session: Session, opened: int, leaves: Sequence[np.ndarray], learnt_from: Sequence[int] = ()
) -> bytes:
    """What a result is known by; so is the label that names parties whose records it was learnt
    from."""
    label = [f"learnt from {list(learnt_from)}".encode()] if learnt_from else []
    return digest("result", session.id, opened, *described(leaves), *label)


def described(leaves: Sequence[np.ndarray]) -> list[bytes | int]:
    """Arrays as parts of a digest: how many there are, and of each the type, shape and numbers."""
    parts: list[bytes | int] = [len(leaves)]
    for leaf in leaves:
        parts += [f"{leaf.dtype.newbyteorder('<').str} {leaf.shape}".encode(), _bytes(leaf)]
    return parts


def unnamed_hash(session: Session, opened: int, value: Any) -> str:
    """What the best of several runs is known by, in the session by which the whole is known: which
    run it was is nobody's business."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(value)]
    return result_hash(session, opened, leaves).hex()


def _bytes(leaf: np.ndarray) -> bytes:
    return leaf.astype(leaf.dtype.newbyteorder("<")).tobytes()


@dataclass(frozen=True)
class Signed:
    """A signature, and the certificate (DER) of the key that made it; both are public."""

    certificate: bytes
    signature: bytes

    @property
    def arrays(self) -> list[np.ndarray]:
        return [np.frombuffer(part, np.uint8) for part in (self.certificate, self.signature)]

    def to_json(self, result: str) -> dict[str, str]:
        """The proof of what was signed, for whoever has the authority's certificate."""
        return {
            "result": result,
            "scheme": "ECDSA, SHA-256",
            "signature": self.signature.hex(),
            "certificate": self.certificate.hex(),
        }

    @classmethod
    def read(cls, arrays: Sequence[np.ndarray]) -> "Signed | None":
        """The inverse of `arrays`; none of them is no signature."""
        if not arrays:
            return None
        if len(arrays) != 2 or any(a.dtype != np.uint8 or a.ndim != 1 for a in arrays):
            raise InvalidInput("a result with something else than a signature beside it: refused")
        return cls(arrays[0].tobytes(), arrays[1].tobytes())


@dataclass(frozen=True)
class ResultSigner:
    """The coordinator's key, and the certificate by which parties recognise it."""

    certificate: bytes
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def load(cls, certificate: Path, key: Path) -> "ResultSigner":
        shown = x509.load_pem_x509_certificate(certificate.read_bytes())
        own = serialization.load_pem_private_key(key.read_bytes(), password=None)
        if not isinstance(own, ec.EllipticCurvePrivateKey):
            raise InvalidInput(f"{key} is no elliptic-curve key: results cannot be signed with it")
        return cls(shown.public_bytes(serialization.Encoding.DER), own)

    def sign(self, statement: bytes) -> Signed:
        return Signed(self.certificate, self.key.sign(statement, _SCHEME))


def require_signed(authority: bytes, statement: bytes, signed: Signed | None) -> None:
    """Refuse a result that no server of this authority (a PEM certificate) signed."""
    remedy = "refused; ask the coordinator which server sent it"
    if signed is None:
        raise PrivacyViolation(f"a result that nobody signed: {remedy}")
    try:
        certificate = x509.load_der_x509_certificate(signed.certificate)
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
        key = certificate.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError("another kind of key")
        key.verify(signed.signature, statement, _SCHEME)
    except (ValueError, TypeError, InvalidSignature):
        raise PrivacyViolation(f"a result that the study's server did not sign: {remedy}") from None


__all__ = ["ResultSigner", "Signed", "require_signed", "result_hash"]
