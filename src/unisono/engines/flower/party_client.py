"""A party that stays: Flower's transport, and nothing of Flower's that runs a stranger's code.

A stock SuperNode fetches the app that whoever submitted the run has shipped, and starts a Python
process for it with every message. A resident party keeps connection, TLS, registration and
heartbeat, and answers each message with the one function it was started with; it never asks for
the app. Whatever the server sends, the party goes on: a malformed message is refused, a message
delivered twice is answered once, and a server that is away is waited for.
"""

import logging
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import httpx

from unisono.engines.flower.certificates import NodeKeys
from unisono.engines.flower.fleet import Fleet, FleetRequest
from unisono.engines.flower.refusals import explain, require_address
from unisono.errors import InvalidInput

log = logging.getLogger("unisono.party")

# Longer than the server takes to count out a party that was killed (two heartbeat intervals).
PATIENCE = 25.0
_BEAT, _LOOK = 3.0, 0.25
_SOON = 1.0  # seconds before which a server that waits for a message with us has nothing to say
_SHORTEST_RETRY, _LONGEST_RETRY = 0.2, 3.0
_REMEMBERED = 1024  # messages


def serve(
    answer: Callable[[bytes], bytes],
    address: str,
    *,
    root_certificates: bytes | None,
    keys: NodeKeys | None,
    stop: threading.Event,
    insecure: bool = False,
    previous: int | None = None,
    connected: Callable[[int], None] | None = None,
    connect_timeout: float = PATIENCE,
) -> None:
    """Answers the server's messages until `stop` is set.

    Raises `InvalidInput` when no connection comes about at the start (within `connect_timeout`
    seconds, where waiting may help). Once connected, a server that goes away is waited for.
    `connected` is told the node id of each new connection; `previous` is the one that an earlier
    process of this party was told: with it a party that was killed is back at once, without it as
    soon as the server has missed its heartbeats.
    """
    require_address(address, insecure)
    if insecure and (keys is not None or root_certificates is not None):
        raise InvalidInput("keys and certificates prove nothing without TLS: leave them out")
    if insecure:
        warnings.warn(f"no TLS to {address}: for trying out on one machine only", stacklevel=2)
    try:
        fleet = Fleet(address, insecure, root_certificates, keys)
    except (ValueError, OSError) as error:
        raise InvalidInput(f"the authority's certificate cannot be read: {error}") from None
    resident = _Resident(fleet, answer, stop)
    limit, retries, node, said = time.monotonic() + connect_timeout, _retries(), previous, ""
    try:
        while not stop.is_set():
            try:
                node = fleet.open(node)
                limit, retries, said = float("inf"), _retries(), ""
                if connected is not None:
                    connected(node)
                resident.work()
            except Exception as error:  # whatever the server sends must not end the party
                refusal = explain(error, address)
                if limit < float("inf") and (refusal.final or time.monotonic() > limit):
                    raise InvalidInput(refusal.reason) from None
                if refusal.reason != said:  # once, however long the server is away
                    log.warning("%s; trying again", refusal.reason)
                said = refusal.reason
                stop.wait(next(retries))
        resident.leave()
    finally:
        fleet.close()


class _Reply(NamedTuple):
    """The answer to a message; empty where there is none. Until `expiry` somebody waits for it."""

    identifier: bytes
    data: bytes
    expiry: float


_NO_REPLY = _Reply(b"", b"", 0.0)


class _Resident:
    """The loop of one party."""

    def __init__(
        self, fleet: Fleet, answer: Callable[[bytes], bytes], stop: threading.Event
    ) -> None:
        self._fleet, self._answer, self._stop = fleet, answer, stop
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._waits = False

    def work(self) -> None:
        """Answers messages until `stop`; raises when the connection is lost."""
        over = threading.Event()
        beside = threading.Thread(target=self._beside, args=(over,), daemon=True)
        beside.start()
        reply, pauses = _NO_REPLY, _retries()
        try:
            while reply is not _NO_REPLY or not self._stop.is_set():
                asked = time.monotonic()
                request = self._next(reply)
                if request is not None:
                    reply, pauses = self._reply(request), _retries()
                    continue
                reply = _NO_REPLY
                if time.monotonic() < asked + _SOON:  # another process has this party's keys
                    self._stop.wait(next(pauses))
        finally:
            over.set()
            beside.join(_BEAT)

    def leave(self) -> None:
        """Says goodbye; a server that cannot hear it finds out by the heartbeat."""
        try:
            self._fleet.leave()
        except Exception as error:
            log.info("left without telling the server: %s", error)

    def _beside(self, over: threading.Event) -> None:
        """While an answer takes long, says that this party is there; when it is to stop, ends the
        request that waits for a message."""
        last = time.monotonic()
        while not over.wait(_LOOK):
            try:
                if self._stop.is_set() and self._waits:
                    self._fleet.next_message(b"", b"", wait=False)
                elif self._waits:
                    last = time.monotonic()  # a request that waits says so too
                elif time.monotonic() > last + _BEAT:
                    last = time.monotonic()
                    self._fleet.beat()
            except Exception as error:  # the loop that asks for messages meets it too, and acts
                log.debug("heartbeat: %s", error)

    def _next(self, reply: _Reply) -> FleetRequest | None:
        """Hands over a reply, through an interrupted connection if need be, until nobody waits for
        it any more; returns the next message, if there is one."""
        for pause in _retries():
            self._waits = not self._stop.is_set()
            try:
                return self._fleet.next_message(reply.identifier, reply.data, wait=self._waits)
            except httpx.TransportError:
                if time.monotonic() > reply.expiry or self._stop.wait(pause):
                    raise
            finally:
                self._waits = False
        raise AssertionError("pauses never end")

    def _reply(self, request: FleetRequest) -> _Reply:
        """One message in, one reply out. A message that comes again was answered, or lost with the
        process that began to answer it: nobody need wait for it."""
        expiry = time.monotonic() + request.lifetime
        data = self._answered(request) if self._is_new(request) else b""
        return _Reply(request.identifier, data, expiry)

    def _answered(self, request: FleetRequest) -> bytes:
        """The answer, or nothing; why there is none could depend on the records and stays here."""
        try:
            return self._answer(request.data)
        except Exception as error:
            log.error("a message without an answer: %s", error)
            return b""

    def _is_new(self, request: FleetRequest) -> bool:
        if request.identifier in self._seen:
            return False
        self._seen[request.identifier] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return True


def _retries() -> Iterator[float]:
    """Pauses between attempts: doubled each time, up to a limit."""
    pause = _SHORTEST_RETRY
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_RETRY)
