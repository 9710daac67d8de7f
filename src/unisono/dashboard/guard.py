"""Who may ask: only by a name of this machine, only with the token, only to read.

A page of another site can make a browser on this machine send requests here. Three things stop
it. Its own name in the `Host` header (DNS rebinding) is refused. It does not know the token, and
the cookie that carries it is never sent along from other sites (SameSite=Strict). And nothing can
be changed from here: whatever is not GET or HEAD is refused.

The token stands in an address once: `/?token=...` is answered with the cookie and a redirect, so
that it stays out of history, of pictures of the screen and, by Referrer-Policy, of what other
servers are told.

Browsers send cookies to every port of a machine, so to other people's servers on it too. Pages
therefore lie below a random folder, the door's `room`, and the cookie is sent there only: another
server cannot lead a browser to a folder whose name it does not know. Scripts, which show the token
in a header, need no room.
"""

import hmac
import ipaddress
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN = "/static/"  # style and script, which hold no secrets and dress the page of a refusal
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A report is somebody's file: it may show its own styles and pictures, and run or fetch nothing.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox"
)
_ON = """<!doctype html><html lang="en"><head><meta http-equiv="refresh" content="0; url={0}/">
<title>unisono</title></head><body><p><a href="{0}/">All runs</a></p></body></html>"""
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class GuardedDoor:
    """The address people may use, and the token they must show."""

    token: str
    host: str
    port: int
    room: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def cookie(self) -> str:
        """Of its own for each dashboard: two of them must not overwrite each other's."""
        return f"unisono-{self.room}"

    def base(self, path: str) -> str:
        """What comes before the address of a page: the room, for those who know it.

        >>> door = GuardedDoor("t", "127.0.0.1", 80, "r00m")
        >>> door.base("/r00m/about"), door.base("/about"), door.base("/r00mier")
        ('/r00m', '', '')
        """
        return f"/{self.room}" if path.startswith(f"/{self.room}/") else ""

    def named(self, host: str) -> bool:
        """Is this what the `Host` header of an honest request says?

        >>> GuardedDoor("t", "127.0.0.1", 80).named("localhost:80")
        True
        >>> GuardedDoor("t", "127.0.0.1", 80).named("evil.example:80")
        False
        """
        name, colon, port = host.lower().rpartition(":")
        if not colon or name.count("[") != name.count("]"):  # the port of http is left out
            name, port = host.lower(), "80"
        if port != str(self.port):
            return False
        if is_loopback(self.host):
            return name in LOOPBACK
        if is_unspecified(self.host):  # reachable by every address, but by no foreign name
            return name in LOOPBACK or _is_address(name)
        return name in (self.host.lower(), f"[{self.host.lower()}]")

    def admits(self, headers: Headers, path: str) -> bool:
        """Does the request show the token, as a bearer or, in the room, as a cookie?"""
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and same(given.strip(), self.token):
            return True
        if not self.base(path):
            return False
        # Other servers of this machine may have set cookies that strict parsers stop at.
        cookies = cookie_parser("; ".join(headers.getlist("cookie")))
        return same(cookies.get(self.cookie, ""), self.token)


def same(given: str, token: str) -> bool:
    """Equal, in a time that does not tell how much of it is."""
    return hmac.compare_digest(given.encode(), token.encode())


def is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_unspecified(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


class Guard:
    """Stands before every page; `refuse` writes the page that says why not."""

    def __init__(
        self,
        app: ASGIApp,
        door: GuardedDoor,
        refuse: Callable[[HTTPStatus, GuardedDoor, str], Response],
    ) -> None:
        self.app, self.door, self.refuse = app, door, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._answer(scope)
        scope = {**scope, "root_path": self.door.base(scope["path"])}
        await (self.app if answer is None else answer)(scope, receive, dressed)

    def _answer(self, scope: Scope) -> Response | None:
        """What is said before any page is asked; None where the request may pass."""
        headers, base = Headers(scope=scope), self.door.base(scope["path"])
        path, hosts = scope["path"].removeprefix(base), headers.getlist("host")
        if len(hosts) != 1 or not self.door.named(hosts[0]):
            return self.refuse(HTTPStatus.MISDIRECTED_REQUEST, self.door, base)
        if scope["method"] not in ("GET", "HEAD"):
            answer = self.refuse(HTTPStatus.METHOD_NOT_ALLOWED, self.door, base)
            answer.headers["Allow"] = "GET, HEAD"
            return answer
        given = QueryParams(scope["query_string"]).get("token")
        if given is not None and path == "/" and same(given, self.door.token):
            return self._welcome(headers)
        if path.startswith(OPEN) or self.door.admits(headers, scope["path"]):
            return None
        return self.refuse(HTTPStatus.UNAUTHORIZED, self.door, base)

    def _welcome(self, headers: Headers) -> Response:
        """The cookie, and on to the list of runs.

        After a link on a page elsewhere (such as the file that opens the browser) a redirect still
        counts as sent by that page, and Strict holds the cookie back; a page of our own that
        leads on at once does not.
        """
        room = f"/{self.door.room}"
        answer: Response = RedirectResponse(f"{room}/", HTTPStatus.SEE_OTHER)
        if headers.get("sec-fetch-site") == "cross-site":
            answer = Response(_ON.format(room), media_type="text/html")
        answer.set_cookie(
            self.door.cookie, self.door.token, httponly=True, samesite="strict", path=f"{room}/"
        )
        return answer


__all__ = ["REPORT_POLICY", "Guard", "GuardedDoor", "is_loopback"]
