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
from typing import TypeVar

import httpx

from unisono.engines.flower.certificates import NodeKeys
from unisono.engines.flower.fleet import Fleet, Request
from unisono.engines.flower.refusals import explain, require_address
from unisono.errors import InvalidInput

log = logging.getLogger("unisono.party")
Result = TypeVar("Result")

# Longer than the server takes to count out a party that was killed (two heartbeat intervals).
PATIENCE = 25.0
_BEAT = 3.0
# Asking costs the server time that answers need: the pause grows with the silence so far, and
# with how long the server takes to say that there is nothing.
_LONGEST_PAUSE, _SHARE_OF_SILENCE, _TIMES_OF_REPLY = 0.5, 0.05, 3.0
_SHORTEST_RETRY, _LONGEST_RETRY = 0.2, 3.0
_REMEMBERED = 1024  # messages


def serve(
    answer: Callable[[bytes], bytes], address: str, *, root_certificates: bytes | None,
    keys: NodeKeys | None, stop: threading.Event, insecure: bool = False,
    previous: int | None = None, connected: Callable[[int], None] | None = None,
    patience: float = PATIENCE,
) -> None:  # fmt: skip
    """Answers the server's messages until `stop` is set.

    Raises `InvalidInput` when no connection comes about at the start (within `patience` seconds,
    where waiting may help). Once connected, a server that goes away is waited for. `connected`
    is told the node id of each new connection; `previous` is the one that an earlier process of
    this party was told: with it a party that was killed is back at once, without it as soon as
    the server has missed its heartbeats.
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
    limit, retries, node, said = time.monotonic() + patience, _retries(), previous, ""
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


class _Resident:
    """The loop of one party."""

    def __init__(
        self, fleet: Fleet, answer: Callable[[bytes], bytes], stop: threading.Event
    ) -> None:
        self._fleet, self._answer, self._stop = fleet, answer, stop
        self._seen: OrderedDict[str, None] = OrderedDict()

    def work(self) -> None:
        """Answers messages until `stop`; raises when the connection is lost."""
        over = threading.Event()
        threading.Thread(target=self._beat, args=(over,), daemon=True).start()
        try:
            last = time.monotonic()
            while not self._stop.is_set():
                asked = time.monotonic()
                request = self._fleet.receive()
                now = time.monotonic()
                if request is None:
                    pause = max(_SHARE_OF_SILENCE * (now - last), _TIMES_OF_REPLY * (now - asked))
                    self._stop.wait(min(pause, _LONGEST_PAUSE))
                elif self._is_new(request):
                    self._respond(request)
                    last = time.monotonic()
        finally:
            over.set()

    def leave(self) -> None:
        """Says goodbye; a server that cannot hear it finds out by the heartbeat."""
        try:
            self._fleet.leave()
        except Exception as error:
            log.info("left without telling the server: %s", error)

    def _beat(self, over: threading.Event) -> None:
        while not over.wait(_BEAT):
            try:
                self._fleet.heartbeat()
            except Exception as error:  # the loop that asks for messages meets it too, and acts
                log.debug("heartbeat: %s", error)

    def _is_new(self, request: Request) -> bool:
        if request.identifier in self._seen:
            return False
        self._seen[request.identifier] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return True

    def _respond(self, request: Request) -> None:
        """One message in, one reply out, through an interrupted connection if need be, until the
        request has expired."""
        expiry = time.monotonic() + request.lifetime
        reply = self._fleet.reply(request, self._answered(request, expiry))
        self._insist(lambda: self._fleet.send(reply), expiry)

    def _answered(self, request: Request, expiry: float) -> bytes | None:
        """The answer, or nothing; why there is none could depend on the records and stays here."""
        try:
            data = self._insist(lambda: self._fleet.content(request), expiry)
            return self._answer(data)
        except httpx.HTTPError:
            raise
        except Exception as error:
            log.error("a message without an answer: %s", error)
            return None

    def _insist(self, action: Callable[[], Result], expiry: float) -> Result:
        """The result of `action`, tried again while the connection is interrupted."""
        for pause in _retries():
            try:
                return action()
            except httpx.TransportError:
                if time.monotonic() > expiry or self._stop.wait(pause):
                    raise
        raise AssertionError("pauses never end")


def _retries() -> Iterator[float]:
    """Pauses between attempts: doubled each time, up to a limit."""
    pause = _SHORTEST_RETRY
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_RETRY)
