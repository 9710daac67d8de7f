"""Why a party cannot reach its server, in words: the value, the cause and the remedy."""

import datetime
import email.utils
import ipaddress
import json
import socket
from typing import NamedTuple

import httpx

from unisono.errors import InvalidInput

# Flower's codes for the two refusals that need different remedies.
REGISTRATION_DISABLED, ACTIVATION_FAILED = 2001, 2004
# Requests are signed over the time; Flower accepts five seconds ahead and five minutes behind.
_CLOCK_TOLERANCE = 5.0
_UNKNOWN = (
    "{} does not admit this party's transport key: it is admitted once the server runs with a "
    "roster that holds this party's card, and an earlier process of this party no longer counts"
)


class Refusal(NamedTuple):
    """What went wrong; `final` when waiting cannot help."""

    reason: str
    final: bool


def require_address(address: str, insecure: bool) -> None:
    """Refuses what is not `host:port`, and plain connections that leave this machine."""
    host, colon, port = address.rpartition(":")
    if "://" in address or not (colon and host and port.isdigit() and 0 < int(port) < 65536):
        raise InvalidInput(
            f"{address!r} is not an address: write host:port, such as 127.0.0.1:9443"
        )
    if insecure and not is_loopback(host):
        raise InvalidInput(
            f"an insecure connection to {host} is refused: without TLS anyone on the way can read "
            "and change messages; it is for 127.0.0.1, localhost and ::1 only"
        )


def is_loopback(host: str) -> bool:
    """Whether what is sent to this host stays on this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def explain(error: Exception, address: str) -> Refusal:
    """The refusal behind an error of the connection."""
    if isinstance(error, httpx.HTTPStatusError):
        return _status(error.response, address)
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        cause = text.partition("certificate verify failed:")[2].strip(" ]") or "not trusted"
        if "not yet valid" in cause or "expired" in cause:
            now = datetime.datetime.now(datetime.UTC).isoformat(" ", "minutes")
            return Refusal(
                f"the certificate shown at {address} is not valid at this machine's time, {now} "
                f"({cause.split(' (_ssl')[0]}): set this machine's clock; if it is right, the "
                "server's was not when its certificate was made",
                True,
            )
        return Refusal(
            f"the certificate shown at {address} is not accepted ({cause.split(' (_ssl')[0]}): "
            "take the authority's file and the host name from whoever runs the server",
            True,
        )
    if "SSL" in text:
        return Refusal(f"{address} does not speak TLS ({text}): check the port", True)
    if isinstance(_root(error), socket.gaierror):
        return Refusal(f"the host of {address} has no known address: check its name", True)
    if isinstance(error, httpx.TransportError):
        return Refusal(
            f"nobody answers at {address} ({text or type(error).__name__}): "
            "check the address, and that the server runs",
            False,
        )
    return Refusal(f"{address} answers with something that is not Flower's protocol: {text}", False)


def _status(response: httpx.Response, address: str) -> Refusal:
    status, code = response.status_code, _flower_code(response)
    if code == ACTIVATION_FAILED:
        return Refusal(_UNKNOWN.format(address), False)
    if code == REGISTRATION_DISABLED:
        return Refusal(f"{address} admits registered keys only: join with a transport key", True)
    if status == httpx.codes.UNAUTHORIZED:
        difference = _clock_difference(response)
        if abs(difference) > _CLOCK_TOLERANCE:
            return Refusal(
                f"{address} rejects this party's signature: the two clocks differ by "
                f"{difference:+.0f} s; set this machine's clock",
                True,
            )
        return Refusal(_UNKNOWN.format(address), False)
    if status >= 500:
        return Refusal(f"{address} fails with status {status}: see the server's log", False)
    return Refusal(
        f"{address} answers with status {status}: it is no Flower server of this version", True
    )


def _flower_code(response: httpx.Response) -> int:
    try:
        return int(json.loads(response.text)["code"])
    except (ValueError, KeyError, TypeError):
        return 0


def _clock_difference(response: httpx.Response) -> float:
    """Seconds this machine is ahead of the server, by the date on its response."""
    try:
        theirs = email.utils.parsedate_to_datetime(response.headers["date"])
    except (KeyError, ValueError):
        return 0.0
    return (datetime.datetime.now(datetime.UTC) - theirs).total_seconds()


def _root(error: BaseException) -> BaseException:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error
