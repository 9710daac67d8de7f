"""Where a dashboard listens, and the address that opens it.

The socket listens before anything is printed or loaded: the address that is printed is the one
that answers, whatever port the machine gave, and a browser that is quicker than the server waits.
"""

import secrets
import socket

from unisono.dashboard.guard import GuardedDoor
from unisono.errors import InvalidInput

_TOKEN_BYTES = 32


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, or a clear reason why there is none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise InvalidInput(
            f"--host {host!r} is no address of this machine: try 127.0.0.1"
        ) from None
    family, kind, protocol, _, place = found[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(place)
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another --port, or "
            "leave it out and any free one is taken"
        ) from None
    return listener


def door_of(host: str, listener: socket.socket, token: str | None = None) -> GuardedDoor:
    """The door of a bound socket, with a fresh token unless one is given."""
    return GuardedDoor(
        token or secrets.token_urlsafe(_TOKEN_BYTES), host, listener.getsockname()[1]
    )


def address(door: GuardedDoor) -> str:
    """What people open once: it holds the token.

    >>> address(GuardedDoor("secret", "::1", 8123))
    'http://[::1]:8123/?token=secret'
    """
    name = f"[{door.host}]" if ":" in door.host else door.host
    # Nothing can be opened at "any address of this machine"; this one is among them.
    name = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(name, name)
    return f"http://{name}:{door.port}/?token={door.token}"


__all__ = ["address", "bind", "door_of"]
