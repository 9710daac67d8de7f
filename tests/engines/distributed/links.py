"""Links without a network: one that delivers, and one on which things go wrong.

A fault is a function of the link, the node and the request; it delivers what it likes and returns
the reply that reaches the server, or None. Which message it befalls is named by a tag in it, the
node, and how many such requests the node was sent before.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from unisono.engines import wire
from unisono.engines.distributed.envelope import HEAD_BYTES
from unisono.errors import InvalidInput

Answer = Callable[[bytes], bytes]


class ServerKilled(Exception):
    """The server's process ends here."""


class Exchanged(NamedTuple):
    """One request that reached a party, and what the party said, whoever got to see it."""

    node: int
    request: wire.Packet
    reply: wire.Packet


class DirectLink:
    """Calls each node's answer at once; keeps everything that parties ever said."""

    def __init__(self, answers: Mapping[int, Answer] | None = None) -> None:
        self.answers: dict[int, Answer] = dict(answers or {})
        self.heard: list[Exchanged] = []

    def nodes(self) -> list[int]:
        return sorted(self.answers)

    def deliver(self, node: int, request: bytes) -> bytes | None:
        """The node's reply; None if nobody is there."""
        if node not in self.answers:
            return None
        reply = self.answers[node](request)
        for part, said in zip(parts(request), parts(reply[HEAD_BYTES:]), strict=False):
            self.heard.append(Exchanged(node, part, said))
        return reply

    def exchange(self, requests: Mapping[int, bytes], deadline: float) -> dict[int, bytes]:
        replies = {node: self.deliver(node, request) for node, request in requests.items()}
        return {node: reply for node, reply in replies.items() if reply is not None}


class FaultyLink:
    """A link on which faults befall chosen messages, and on which the server may die.

    `faults` maps (tag, node, occurrence) to a fault. `stops_at` is the number of the exchange in
    which the server dies: before anything is sent, or after parties have answered (`answered`).
    """

    def __init__(
        self,
        link: DirectLink,
        faults: Mapping[tuple[str, int, int], "Fault"] | None = None,
        stops_at: int | None = None,
        answered: bool = False,
    ) -> None:
        self.link, self.faults = link, dict(faults or {})
        self.stops_at, self.answered = stops_at, answered
        self.tags: list[str] = []
        self.befallen = 0
        self.requests: dict[int, list[bytes]] = {}
        self.replies: dict[int, list[bytes]] = {}
        self._late: list[tuple[int, bytes]] = []
        self._times: Counter[tuple[str, int]] = Counter()
        self._due: list[tuple[int, Callable[[], None]]] = []

    def nodes(self) -> list[int]:
        self._catch_up()
        return self.link.nodes()

    def exchange(self, requests: Mapping[int, bytes], deadline: float) -> dict[int, bytes]:
        self._catch_up()
        number = len(self.tags)
        asked = parts(next(iter(requests.values()))) if requests else []
        self.tags.append(next((part.tag for part in asked if part.tag != "sum"), ""))
        if number == self.stops_at and not self.answered:
            raise ServerKilled
        replies = {node: self._one(node, request) for node, request in requests.items()}
        if number == self.stops_at:
            raise ServerKilled
        return {node: reply for node, reply in replies.items() if reply is not None}

    def later(self, exchanges: int, action: Callable[[], None]) -> None:
        """Have something happen before the exchange that comes so many after this one."""
        self._due.append((len(self.tags) - 1 + exchanges, action))

    def late(self, node: int, request: bytes) -> None:
        """Deliver a request before the next exchange; nobody waits for its reply any more."""
        self._late.append((node, request))

    def _one(self, node: int, request: bytes) -> bytes | None:
        fault: Fault = deliver
        for tag in [part.tag for part in parts(request)]:
            fault = self.faults.get((tag, node, self._times[tag, node]), fault)
            self._times[tag, node] += 1
        self.befallen += fault is not deliver
        reply = fault(self, node, request)
        self.requests.setdefault(node, []).append(request)
        if reply is not None:
            self.replies.setdefault(node, []).append(reply)
        return reply

    def _catch_up(self) -> None:
        """What is due before the next exchange happens."""
        late, self._late = self._late, []
        for node, request in late:
            self.link.deliver(node, request)
        now = [action for exchange, action in self._due if exchange <= len(self.tags)]
        self._due = [due for due in self._due if due[0] > len(self.tags)]
        for action in now:
            action()


Fault = Callable[[FaultyLink, int, bytes], bytes | None]


def deliver(link: FaultyLink, node: int, request: bytes) -> bytes | None:
    """No fault."""
    return link.link.deliver(node, request)


def drop_request(link: FaultyLink, node: int, request: bytes) -> bytes | None:
    return None


def drop_reply(link: FaultyLink, node: int, request: bytes) -> bytes | None:
    link.link.deliver(node, request)
    return None


def delay(link: FaultyLink, node: int, request: bytes) -> bytes | None:
    """The request arrives after the deadline, when the server has gone on."""
    link.late(node, request)
    return None


def duplicate(link: FaultyLink, node: int, request: bytes) -> bytes | None:
    reply = link.link.deliver(node, request)
    link.link.deliver(node, request)
    return reply


def reorder(link: FaultyLink, node: int, request: bytes) -> bytes | None:
    """The request before this one arrives again, after it."""
    reply = link.link.deliver(node, request)
    link.link.deliver(node, link.requests[node][-1])
    return reply


def replay_reply(link: FaultyLink, node: int, request: bytes) -> bytes | None:
    """In place of its reply the server gets the party's reply before."""
    link.link.deliver(node, request)
    return link.replies[node][-1]


def corrupt_request(link: FaultyLink, node: int, request: bytes) -> bytes | None:
    """The last byte changes on the way to the party."""
    return link.link.deliver(node, request[:-1] + bytes([request[-1] ^ 1]))


def corrupt_public(link: FaultyLink, node: int, request: bytes) -> bytes | None:
    """The first byte of the first array changes on the way to the party."""
    place = _body(request)
    if wire.decode(request).tag == "bundle":
        place += _body(request[place:])
    changed = bytes([request[place] ^ 1])
    return link.link.deliver(node, request[:place] + changed + request[place + 1 :])


def corrupt_reply(link: FaultyLink, node: int, request: bytes) -> bytes | None:
    """The last byte changes on the way to the server."""
    reply = link.link.deliver(node, request)
    return None if reply is None else reply[:-1] + bytes([reply[-1] ^ 1])


def parts(message: bytes) -> list[wire.Packet]:
    """The packets of a message; none if it cannot be read."""
    try:
        packet = wire.decode(message)
        return wire.unbundle(packet) if packet.tag == "bundle" else [packet]
    except InvalidInput:
        return []


def _body(packet: bytes) -> int:
    """Where the arrays of a packet begin."""
    return 9 + int.from_bytes(packet[5:9], "little")
