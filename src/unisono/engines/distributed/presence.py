"""Which node is which party: each proves it once, by a signature over a fresh greeting."""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from unisono.engines import wire
from unisono.engines.distributed.envelope import HEAD_BYTES, Reply, fingerprint, open_reply
from unisono.engines.distributed.link import Link
from unisono.engines.distributed.sessions import greeting, other_version
from unisono.errors import UnisonoError
from unisono.secagg.session import PROTOCOL, Session

_PAUSE = 0.2


class Ask(NamedTuple):
    """A question, and the tag of a proper answer."""

    tag: str
    scalars: Mapping[str, Any]
    arrays: Sequence[np.ndarray]
    expected: str


class Presence:
    """The parties that are connected, and signed exchanges with them.

    Who comes in is first told `earlier`: the results of earlier stages, on which its part in this
    one depends. Whoever knows them already is told the same again.
    """

    def __init__(
        self, link: Link, session: Session, deadline: float, earlier: Sequence[bytes] = ()
    ) -> None:
        self.link, self.session, self.deadline = link, session, deadline
        self._earlier = tuple(earlier)
        self._node_of: dict[int, int] = {}
        self.learnt_from: set[int] = set()  # who said so when it was greeted
        self._versions: dict[str, bool] = {}  # other ones that nodes speak; whether it was said
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
            nonce = {"nonce": secrets.token_hex(16)}
            hello = wire.encode("hello", greeting(self.session) | nonce)
            for message in self._earlier:
                self.link.exchange(dict.fromkeys(strangers, message), self.deadline)
            replies = self.link.exchange(dict.fromkeys(strangers, hello), self.deadline)
            for node, reply in replies.items():
                found = self._opened(hello, reply)
                if found is None:
                    self._note_version(reply)
                elif found.packet.tag == "hello":
                    self._node_of[found.party] = node
                    if found.packet.scalars.get("learnt_from") is True:
                        self.learnt_from.add(found.party)
        return self.parties

    def _note_version(self, reply: bytes) -> None:
        """Which version a node speaks that cannot sign in this session, by its own word."""
        try:
            said = wire.decode(memoryview(reply)[HEAD_BYTES:]).scalars
        except UnisonoError:
            return
        other = other_version(self.session, said) if "version" in said else None
        if other is not None and len(self._versions) < self.session.parties:
            self._versions.setdefault(other, False)

    def _say_versions(self, say: Callable[[str], None]) -> None:
        for other, said in self._versions.items():
            if not said:
                say(
                    f"a node runs {other}, this server Unisono {self.session.version} (protocol "
                    f"{PROTOCOL}): install the same version on both; nothing was spent on it"
                )
                self._versions[other] = True

    def wait(self, enough: int, connect_timeout: float, say: Callable[[str], None]) -> list[int]:
        """Who is here once `enough` are, or when the time is over."""
        ends, told = time.monotonic() + connect_timeout, -1
        while len(self.meet()) < enough and time.monotonic() < ends:
            self._say_versions(say)
            if len(self._node_of) != told:
                told = len(self._node_of)
                say(f"waiting for parties: {told} of {self.session.parties} are here")
            time.sleep(_PAUSE)
        return self.parties

    def wait_for(
        self, parties: Collection[int], connect_timeout: float, say: Callable[[str], None]
    ) -> list[int]:
        """Who is here once all of these are, or when the time is over."""
        ends, told = time.monotonic() + connect_timeout, -1
        while (left := len(set(parties) - set(self.meet()))) and time.monotonic() < ends:
            self._say_versions(say)
            if left != told:
                told = left
                say(f"waiting for {left} of {self.session.parties} parties")
            time.sleep(_PAUSE)
        return self.parties

    def exchange(self, asks: Mapping[int, Sequence[Ask]]) -> dict[str, dict[int, wire.Packet]]:
        """Ask parties, each its own, and collect well-formed, signed answers, by what was asked.

        Several questions to one party travel as one message: a message costs more than its bytes.
        """
        # What goes to many is written, bundled, hashed and held in memory once.
        uses = Counter(id(ask) for own in asks.values() for ask in own)
        common: dict[int, bytes] = {}

        def part(ask: Ask) -> bytes:
            if uses[id(ask)] == 1:
                return self.written(ask)
            if id(ask) not in common:
                common[id(ask)] = self.written(ask)
            return common[id(ask)]

        written: dict[tuple[int, ...], bytes] = {}
        asked, requests = {}, {}
        for party, own in asks.items():
            if party not in self._node_of:
                continue
            names = tuple(map(id, own))
            if names not in written:
                parts = [part(ask) for ask in own]
                written[names] = parts[0] if len(parts) == 1 else wire.bundle(parts)
            asked[party] = requests[self._node_of[party]] = written[names]
        replies = self.link.exchange(requests, self.deadline)
        self.bytes_sent += sum(map(len, requests.values()))
        self.bytes_received += sum(map(len, replies.values()))
        found: dict[str, dict[int, wire.Packet]] = {
            ask.tag: {} for own in asks.values() for ask in own
        }
        known: dict[int, bytes] = {}
        for party, request in asked.items():
            if id(request) not in known:
                known[id(request)] = fingerprint(request)
            said = replies.get(self._node_of[party], b"")
            reply = self._opened(request, said, party, known[id(request)])
            for ask, answer in zip(asks[party], self._unbundled(reply), strict=False):
                if answer.tag == ask.expected:
                    found[ask.tag][party] = answer
                elif answer.tag == "blame":
                    found.setdefault("blame", {})[party] = answer
        return found

    def written(self, ask: Ask) -> bytes:
        """A question as it travels, in this session."""
        return wire.encode(ask.tag, {"session": self.session.id.hex(), **ask.scalars}, ask.arrays)

    @staticmethod
    def _unbundled(reply: Reply | None) -> list[wire.Packet]:
        if reply is None:
            return []
        try:
            packet = reply.packet
            return wire.unbundle(packet) if packet.tag == "bundle" else [packet]
        except UnisonoError:
            return []

    def _opened(
        self,
        request: bytes,
        reply: bytes,
        expected: int | None = None,
        known: bytes | None = None,
    ) -> Reply | None:
        try:
            return open_reply(self.session, request, reply, expected, known)
        except UnisonoError:
            return None  # whoever sends what cannot be read has not answered
