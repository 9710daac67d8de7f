"""Replies that prove who sent them, in which session, and to which request.

    party (4 bytes) | signature (64 bytes) | packet

The signature covers the session, the request and the packet, so that a reply can be neither
forged nor moved to another place. It is verified before the packet is read: what a stranger sends
costs a hash of its bytes. Requests need none: a party believes the server nothing.
"""

import hashlib
from typing import NamedTuple

from unisono.engines import wire
from unisono.errors import InvalidInput
from unisono.secagg.roster import SIGNATURE_BYTES, Identity, digest
from unisono.secagg.session import Session

_NUMBER_BYTES = 4
HEAD_BYTES = _NUMBER_BYTES + SIGNATURE_BYTES


class Reply(NamedTuple):
    """Who sent it, proven, and what it says."""

    party: int
    packet: wire.Packet


def seal(session: Session, identity: Identity, request: bytes, packet: bytes) -> bytes:
    """The packet with the party's number and signature in front."""
    number = session.roster.require(identity).to_bytes(_NUMBER_BYTES, "big")
    return number + identity.sign(_statement(session, fingerprint(request), packet)) + packet


def fingerprint(request: bytes) -> bytes:
    """What a reply's signature covers of its request; one request to many has one."""
    return hashlib.sha256(request).digest()


def open_reply(
    session: Session,
    request: bytes,
    reply: bytes,
    expected: int | None = None,
    known: bytes | None = None,
) -> Reply:
    """A reply that the party it names signed; `expected` is that party, where it is known, and
    `known` the request's fingerprint, where somebody has computed it."""
    party = int.from_bytes(reply[:_NUMBER_BYTES], "big")
    if len(reply) < HEAD_BYTES or (expected is not None and party != expected):
        raise InvalidInput("a reply that names no party, or another than was asked: refused")
    body = memoryview(reply)[HEAD_BYTES:]
    signature = reply[_NUMBER_BYTES:HEAD_BYTES]
    statement = _statement(session, known or fingerprint(request), body)
    if not session.roster.verify(party, signature, statement):
        raise InvalidInput("a reply that the party it names has not signed: refused")
    return Reply(party, wire.decode(body))


def _statement(session: Session, request: bytes, packet: bytes | memoryview) -> bytes:
    """`request` is its fingerprint."""
    return digest("reply", session.id, request, hashlib.sha256(packet).digest())
