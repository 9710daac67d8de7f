"""How much strangers who connect may take: few connections at a time, and little memory for each.

A TLS connection costs memory before anybody has said who it is. asyncio gives each a buffer of
256 KiB, waits a minute for its handshake, and takes any number of them. Here a buffer holds two TLS
records, a handshake has seconds, and only so many connections are open at once on which no request
was answered as a party's: one more, and the oldest of them is closed. Connections of parties are
not counted and not closed.
"""

import asyncio
import contextlib
import socket
import weakref
from asyncio import sslproto
from collections import OrderedDict
from typing import Any

from unisono.engines.flower.public_gateway import Application, Event, Receive, Scope, Send

MOST_STRANGERS = 128
BUFFER_BYTES = 1 << 15
HANDSHAKE_SECONDS = 10.0
_FINE = 200  # the status of what is answered to parties only


class Strangers:
    """The connections on which nobody has proved to be a party yet, oldest first."""

    def __init__(self, most: int = MOST_STRANGERS) -> None:
        self._most = most
        self._open: OrderedDict[Any, weakref.ref[socket.socket]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def came(self, connection: socket.socket, address: Any) -> None:
        """Somebody has connected; the oldest stranger makes room."""
        self._forget_closed()
        self._open[address[:2]] = weakref.ref(connection)
        while len(self._open) > self._most:
            _, oldest = self._open.popitem(last=False)
            found = oldest()
            if found is not None:
                with contextlib.suppress(OSError):  # whoever has hung up is gone
                    found.shutdown(socket.SHUT_RDWR)

    def knows(self, address: Any) -> None:
        """A party is at this address."""
        if address is not None:
            self._open.pop(tuple(address[:2]), None)

    def _forget_closed(self) -> None:
        for address, own in list(self._open.items()):
            found = own()
            if found is None or found.fileno() < 0:
                del self._open[address]

    def watching(self, app: Application) -> Application:
        """The application; whoever gets an answer from it is no stranger."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            async def seen(event: Event) -> None:
                if event["type"] == "http.response.start" and event["status"] == _FINE:
                    self.knows(scope.get("client"))
                await send(event)

            await app(scope, receive, seen)

        return watched


class Listener(socket.socket):
    """A listening socket that tells of everybody who connects."""

    strangers: Strangers

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        self.strangers.came(connection, address)
        return connection, address


def listeners(host: str, port: int, strangers: Strangers) -> list[socket.socket]:
    """A listening socket for every address of this host."""
    found: list[socket.socket] = []
    flags = socket.AI_PASSIVE
    known = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
    for family, kind, protocol, _, address in dict.fromkeys(known):
        one = Listener(family, kind, protocol)
        one.strangers = strangers
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
        one.setblocking(False)
        found.append(one)
    return found


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose TLS servers wait seconds for a handshake."""

    async def create_server(self, *arguments: Any, **options: Any) -> Any:
        if options.get("ssl") is not None:
            options.setdefault("ssl_handshake_timeout", HANDSHAKE_SECONDS)
        return await super().create_server(*arguments, **options)


def small_buffers() -> None:
    """From now on in this process, TLS connections have small buffers: two records fit."""
    sslproto.SSLProtocol.max_size = BUFFER_BYTES


__all__ = ["Listener", "Loop", "Strangers", "listeners", "small_buffers"]
