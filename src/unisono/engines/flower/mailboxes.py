"""Messages between the server's part of a study and its resident parties, one request each way.

Flower stores a message as a tree of objects in a database: a question and its answer took a party
six requests and the server's part six more, at several milliseconds each, and parties asked again
and again whether there was anything. Here the process of the SuperLink keeps messages in memory,
for as long as somebody waits for them. A party's request carries its last reply and is answered
with the next message, as soon as there is one. The server's part hands over the messages of an
exchange in one request, and its answer is the replies, as they come in.

    party's request     node (8 bytes) | purpose (1) | identifier (16) | reply
    its answer          identifier (16) | seconds to live (8) | message, or nothing
    server's request    deadline in seconds (8), then node (8) | length (8) | message for each
    its answer          node (8) | resident (1) | length (8) | reply for each that came

An empty reply says that there will be none. A message stays in its party's box until it is answered
or nobody waits for it, and is handed out again to a party that asks without having answered: its
connection broke, or its process was killed. What is in a message is none of this file's business.

A long reply takes memory only while somebody waits for it, and of each party only one does: the
rest of a reply that nobody asked for, that comes too late or that its party has begun to send anew
is read and dropped.
"""

import asyncio
import contextlib
import secrets
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

from unisono.engines.flower.public_gateway import SHORT, Headers, Receive, Scope, Send

# A party's signature for this server (`certificates.statement`), beside Flower's own headers.
SIGNATURE_HEADER = "flwr-unisono-signature"
PARTYS_PATH, SERVERS_PATH = "/v1/unisono/next-message", "/exchange"
# What a party wants besides handing over a reply: the next message; to be known to be there; or
# nothing more, and an older request of it that still waits is over.
AWAIT, BEAT, END = 0, 1, 2
# Seconds between signs of life, the fewest that Flower allows: the server counts a party out after
# twice as long.
HEARTBEAT_INTERVAL = 10.0
# Seconds for which a request waits for a message: well below what servers in between allow, and
# below the interval in which parties are missed.
LONGEST_WAIT = 8.0
# Seconds in which a party that is connected asks for its first message, if it is a resident.
_INTRODUCTION = 2.0
# Seconds for a whole request, or for as much of it as is read before it is known whose it is.
_BEGINNING = 30.0
_PIECE = 1 << 20  # bytes that are passed on at once: each is copied on its way

ASKED, ANSWERED = struct.Struct(">QB16s"), struct.Struct(">16sd")
DEADLINE, OUT, BACK = struct.Struct(">d"), struct.Struct(">QQ"), struct.Struct(">Q?Q")
NOTHING = bytes(16)


class HeldMessage(NamedTuple):
    """A message, and where its reply goes."""

    identifier: bytes
    node: int
    data: bytes
    expiry: float
    replies: "asyncio.Queue[tuple[int, bytearray]]"


class _Box:
    """One party's messages. A node that does not ask for them is a stock SuperNode."""

    def __init__(self) -> None:
        self.messages: dict[bytes, HeldMessage] = {}
        self._upload: tuple[bytes, bytearray] | None = None  # the long reply that is coming in
        self.waiting: asyncio.Future[HeldMessage | None] | None = None
        self.heard = -float("inf")
        self.stock = False

    @property
    def resident(self) -> bool:
        """Whether it has asked lately: it may come back as a SuperNode."""
        return time.monotonic() < self.heard + 2 * HEARTBEAT_INTERVAL

    def put(self, message: HeldMessage) -> None:
        self.messages[message.identifier] = message
        self._wake(message)

    def take(self, identifier: bytes) -> HeldMessage | None:
        """The message is over: answered, or nobody waits for it."""
        if self._upload is not None and self._upload[0] == identifier:
            self._drop()
        return self.messages.pop(identifier, None)

    async def rest(
        self, identifier: bytes, begun: bytearray, parts: AsyncIterator[bytes]
    ) -> bytearray | None:
        """The whole of a long reply; None where it is not wanted, or not any more."""
        self._drop()
        own = identifier, begun
        self._upload = own if identifier in self.messages else None
        try:
            async for part in parts:
                if self._upload is own:
                    begun += part
            return begun if self._upload is own else None
        finally:
            if self._upload is own:
                self._upload = None

    def _drop(self) -> None:
        """Memory is given back at once, also if no further part ever comes."""
        if self._upload is not None:
            self._upload[1].clear()
        self._upload = None

    def end_waiting(self) -> None:
        """The newest request of a party counts: it has given up the one before."""
        self._wake(None)

    async def next(self) -> HeldMessage | None:
        """The oldest message that is not answered, now or as soon as there is one."""
        if self.messages:
            return next(iter(self.messages.values()))
        self.waiting = own = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(own, LONGEST_WAIT)
        return None

    def _wake(self, message: HeldMessage | None) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(message)
        self.waiting = None


class Mailboxes:
    """Two ASGI applications over the same boxes: one for parties and one for the server's part.

    `recognise` tells which node signed a request, by its headers (None: nobody of the roster), and
    `present` that a node is there.
    """

    def __init__(
        self, recognise: Callable[[Headers], int | None], present: Callable[[int], None]
    ) -> None:
        self._recognise, self._present = recognise, present
        self._boxes: dict[int, _Box] = {}

    async def for_party(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Takes a party's reply and answers with its next message."""
        parts, body, more = _body(receive), bytearray(), False
        try:
            async with asyncio.timeout(_BEGINNING):
                async for part in parts:
                    body += part
                    if more := len(body) > SHORT:
                        break
        except TimeoutError:
            await _answer(send, 408)
            return
        except ConnectionError:
            return
        node, purpose, identifier = 0, END, NOTHING
        if len(body) >= ASKED.size:
            node, purpose, identifier = ASKED.unpack_from(body)
        known = await asyncio.to_thread(self._recognise, dict(scope["headers"]))
        if known is None or known != node:  # a party that was another node before introduces itself
            await _answer(send, 401)
            return
        if purpose != END:
            await asyncio.to_thread(self._present, node)
        box = self._boxes.setdefault(node, _Box())
        box.heard, box.stock = time.monotonic() if purpose != END else -float("inf"), False
        reply: bytearray | None = body
        del body[: ASKED.size]
        if more:
            try:
                reply = await box.rest(identifier, body, parts)
            except ConnectionError:
                return
        answered = None if reply is None else box.take(identifier)
        if answered is not None and reply is not None:
            answered.replies.put_nowait((node, reply))
        message = None
        if purpose != BEAT:
            box.end_waiting()
        if purpose == AWAIT:
            message = await box.next()
        if message is None:
            await _answer(send, 200)
            return
        left = max(message.expiry - time.monotonic(), 0.0)
        await _answer(send, 200, ANSWERED.pack(message.identifier, left) + message.data)

    async def for_server(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands out messages, and passes replies on until all are there or the deadline is over."""
        buffer = bytearray()
        waiting: dict[int, HeldMessage] = {}
        replies: asyncio.Queue[tuple[int, bytearray]] = asyncio.Queue()
        end = 0.0
        try:
            async for part in _body(receive):
                buffer += part
                if not end and len(buffer) >= DEADLINE.size:
                    end = time.monotonic() + DEADLINE.unpack_from(buffer)[0]
                    del buffer[: DEADLINE.size]
                for node, data in _cut(buffer) if end else ():
                    message = HeldMessage(secrets.token_bytes(16), node, data, end, replies)
                    waiting[node] = message
                    self._boxes.setdefault(node, _Box()).put(message)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            # Whoever handed them over may be killed: then nobody waits, and nobody shall answer.
            gone = asyncio.ensure_future(_disconnected(receive))
            try:
                async for frame in self._settled(waiting, replies, end, gone):
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
            finally:
                gone.cancel()
            await send({"type": "http.response.body", "body": b""})
        except ConnectionError:
            return
        finally:
            for message in waiting.values():
                self._boxes[message.node].take(message.identifier)

    async def _settled(
        self,
        waiting: dict[int, HeldMessage],
        replies: "asyncio.Queue[tuple[int, bytearray]]",
        end: float,
        gone: "asyncio.Future[None]",
    ) -> AsyncIterator[bytes]:
        """What there is to tell of each node, in the order in which it is known."""
        introduced = min(time.monotonic() + _INTRODUCTION, end)
        while waiting and not gone.done():
            now = time.monotonic()
            for node in [n for n in waiting if not self._boxes[n].resident]:
                box = self._boxes[node]
                untaken = waiting[node].identifier in box.messages  # no reply is on its way
                if untaken and (box.stock or now >= introduced):
                    box.stock = True
                    box.take(waiting.pop(node).identifier)
                    yield BACK.pack(node, False, 0)
            if now >= introduced:
                introduced = float("inf")
            if not waiting or (now >= end and replies.empty()):
                return
            coming = asyncio.ensure_future(replies.get())
            limit = max(min(introduced, end) - now, 0.0)
            either: set[asyncio.Future[Any]] = {coming, gone}
            await asyncio.wait(either, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                continue
            node, data = coming.result()
            if waiting.pop(node, None) is not None and data:
                yield BACK.pack(node, True, len(data))
                for begin in range(0, len(data), _PIECE):
                    yield bytes(memoryview(data)[begin : begin + _PIECE])


def _cut(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    """Whole messages from the beginning of a buffer, which are taken out of it."""
    while len(buffer) >= OUT.size:
        node, length = OUT.unpack_from(buffer)
        if len(buffer) < OUT.size + length:
            return
        yield node, bytes(memoryview(buffer)[OUT.size : OUT.size + length])
        del buffer[: OUT.size + length]


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        event = await receive()
        if event["type"] != "http.request":
            raise ConnectionError("whoever asked has hung up")
        yield event.get("body", b"")
        more = event.get("more_body", False)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Send, status: int, body: bytes = b"") -> None:
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
