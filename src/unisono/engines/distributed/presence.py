"""Which node is which party: each proves it once, by a signature over a fresh greeting."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from unisono.engines import wire
from unisono.engines.distributed.envelope import open_reply
from unisono.engines.distributed.link import Link
from unisono.errors import UnisonoError
from unisono.secagg.session import Session

_PAUSE = 0.2


class Presence:
    """The parties that are connected, and signed exchanges with them."""

    def __init__(self, link: Link, session: Session, deadline: float) -> None:
        self.link, self.session, self.deadline = link, session, deadline
        self._node_of: dict[int, int] = {}
        self.bytes_sent = self.bytes_received = 0

    @property
    def parties(self) -> list[int]:
        return sorted(self._node_of)

    def meet(self) -> list[int]:
        """Greet nodes that are new, forget those that are gone; returns who is here."""
        nodes = set(self.link.nodes())
        self._node_of = {party: node for party, node in self._node_of.items() if node in nodes}
        strangers = nodes - set(self._node_of.values())
        if strangers:
            scalars = {"session": self.session.id.hex(), "nonce": secrets.token_hex(16)}
            hello = wire.encode("hello", scalars)
            replies = self.link.exchange(dict.fromkeys(strangers, hello), self.deadline)
            for node, reply in replies.items():
                packet = self._opened(hello, reply)
                if packet is not None and packet.tag == "hello":
                    self._node_of[packet.scalars["party"]] = node
        return self.parties

    def wait(self, enough: int, patience: float, say: Callable[[str], None]) -> list[int]:
        """Who is here once `enough` are, or when patience ends."""
        ends, told = time.monotonic() + patience, -1
        while len(self.meet()) < enough and time.monotonic() < ends:
            if len(self._node_of) != told:
                told = len(self._node_of)
                say(f"waiting for parties: {told} of {self.session.parties} are here")
            time.sleep(_PAUSE)
        return self.parties

    def exchange(
        self, tag: str, scalars: Mapping[str, object],
        arrays: Sequence[np.ndarray] | Mapping[int, Sequence[np.ndarray]],
        parties: Sequence[int], expected: str,
    ) -> dict[int, wire.Packet]:  # fmt: skip
        """Ask parties, all the same or each its own, and collect well-formed, signed answers."""
        scalars = {"session": self.session.id.hex(), **scalars}
        if isinstance(arrays, Mapping):
            asked = {party: wire.encode(tag, scalars, arrays[party]) for party in parties}
        else:
            asked = dict.fromkeys(parties, wire.encode(tag, scalars, arrays))
        node_of = {party: self._node_of[party] for party in parties if party in self._node_of}
        requests = {node: asked[party] for party, node in node_of.items()}
        replies = self.link.exchange(requests, self.deadline)
        self.bytes_sent += sum(map(len, requests.values()))
        self.bytes_received += sum(map(len, replies.values()))
        found = {}
        for party, node in node_of.items():
            packet = self._opened(asked[party], replies.get(node, b""))
            if packet is not None and (packet.tag, packet.scalars["party"]) == (expected, party):
                found[party] = packet
        return found

    def _opened(self, request: bytes, reply: bytes) -> wire.Packet | None:
        try:
            return open_reply(self.session, request, reply)
        except UnisonoError:
            return None  # whoever sends what cannot be read has not answered
