"""Replies that prove who sent them, in which session, and to which request.

    signature (64 bytes) | packet

The signature covers the session, the request and the packet, so that a reply can be neither
forged nor moved to another place. Requests need none: a party believes the server nothing.
"""

import hashlib

from unisono.engines import wire
from unisono.errors import InvalidInput
from unisono.secagg.roster import SIGNATURE_BYTES, Identity, digest
from unisono.secagg.session import Session


def seal(session: Session, identity: Identity, request: bytes, packet: bytes) -> bytes:
    """The packet with the party's signature in front."""
    return identity.sign(_statement(session, request, packet)) + packet


def open_reply(session: Session, request: bytes, reply: bytes) -> wire.Packet:
    """The packet of a reply, if the party that it names signed it."""
    signature, body = reply[:SIGNATURE_BYTES], reply[SIGNATURE_BYTES:]
    packet = wire.decode(body)
    party = packet.scalars.get("party")
    if not isinstance(party, int) or not session.roster.verify(
        party, signature, _statement(session, request, body)
    ):
        raise InvalidInput("a reply that the party it names has not signed: refused")
    return packet


def _statement(session: Session, request: bytes, packet: bytes) -> bytes:
    sums = [hashlib.sha256(data).digest() for data in (request, packet)]
    return digest("reply", session.id, *sums)
