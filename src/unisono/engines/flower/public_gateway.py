"""The public door of a server: what parties need passes, everything else is refused unread.

Flower serves its whole interface on one port: the parties' part, but also the part that starts
runs, and with it code, for whoever asks. This wrapper is all that listens on the public address.
It knows the few requests that a party makes and how long each may be. A long body is taken from
parties of the roster only, before a byte of it is read.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Mapping[bytes, bytes]

SHORT = 1 << 16  # bytes, for any request
# What is inside decides by these headers, and by no others; Flower's own begin with its name.
_NEEDED, _FLOWERS = {b"content-type", b"content-length", b"accept"}, b"flwr-"
_OVERHEAD = 1 << 12  # of a message around the bytes it carries


class Door:
    """An ASGI application around another.

    `short` and `long` are the paths that pass, `noted` those that are answered here, with an empty
    body, and go no further. `admits` says by path and headers whether a party of the roster asks:
    nobody else is heard at the `signed` paths, or with a long body at any.
    """

    def __init__(
        self,
        inner: Application,
        *,
        short: Collection[str],
        long: Collection[str],
        noted: Collection[str],
        admits: Callable[[str, Headers], bool],
        maximum: int,
        signed: Collection[str] = (),
    ) -> None:
        self._inner, self._short, self._long, self._noted = inner, short, long, noted
        self._admits, self._signed, self._maximum = admits, signed, maximum + _OVERHEAD

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = self._status(scope)
        if status is None:
            await self._inner(_plain(scope), receive, send)
            return
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def _status(self, scope: Scope) -> int | None:
        """With which status the request ends here, or None when it may pass."""
        path = scope["path"]
        if scope["type"] != "http" or path not in {*self._short, *self._long, *self._noted}:
            return 404
        if scope["method"] != "POST":
            return 405
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        # A body in chunks has no length beforehand, whatever else the headers say.
        if not length.isdigit() or b"transfer-encoding" in headers:
            return 411
        if int(length[:20]) > SHORT and (
            path not in self._long
            or int(length[:20]) > self._maximum
            or not self._admits(path, headers)
        ):
            return 413
        if path in self._signed and not self._admits(path, headers):
            return 401
        return 200 if path in self._noted else None


def _plain(scope: Scope) -> Scope:
    """The request without what it does not need.

    An application that asks for a request's address gets it from the header `host`: pinned, no
    stranger can make one part inside see another path than the next.
    """
    kept = [
        (name, value)
        for name, value in scope["headers"]
        if name in _NEEDED or name.startswith(_FLOWERS)
    ]
    return {**scope, "headers": [(b"host", b"localhost"), *kept], "query_string": b""}
