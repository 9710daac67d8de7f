"""A party's HTTP client: it talks to the one address it was given and takes bounded answers only.

Flower's client follows redirects, so that a server could make a hospital's machine call addresses
inside the hospital, without TLS, and it inflates what is compressed, so that 6 MB of answer became
7 GB of memory. Here a redirect is an answer like any other, and refused; a compressed answer is
refused unread, as it was not asked for; and reading stops where an answer exceeds its bound, or
comes so slowly that it is kept from ending.
"""

import ssl
import time
from typing import Any

import httpx

from unisono.engines import wire
from unisono.engines.flower.mailboxes import PARTYS_PATH

_SECONDS = 30.0  # without a byte
_WHOLE, _SLOWEST = 45.0, 10_000.0  # seconds for any answer, and bytes a second for a longer one
_SHORT = 1 << 20  # bytes, for anything but the content of a message
_OVERHEAD = 1 << 12  # of a message around the bytes it carries


class CarefulClient(httpx.Client):
    """Refuses redirects, compression and long answers, with errors of `httpx`."""

    def __init__(self, root_certificates: bytes | None) -> None:
        trusted: ssl.SSLContext | bool = True
        if root_certificates is not None:
            trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trusted.load_verify_locations(cadata=root_certificates.decode("ascii"))
        plain = {"accept-encoding": "identity"}
        super().__init__(verify=trusted, timeout=_SECONDS, follow_redirects=False, headers=plain)

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """The answer, read whole; only what is in it and its status are kept."""
        answer = super().send(request, **{**options, "stream": True})
        try:
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise httpx.DecodingError("a compressed answer, which was not asked for")
            long = request.url.path == PARTYS_PATH
            maximum = wire.MAXIMUM_BYTES + _OVERHEAD if long else _SHORT
            content, began = bytearray(), time.monotonic()
            for chunk in answer.iter_raw():
                content += chunk
                if len(content) > maximum:
                    raise httpx.DecodingError(f"an answer of more than {maximum} bytes")
                if time.monotonic() > began + _WHOLE + len(content) / _SLOWEST:
                    raise httpx.ReadTimeout(f"an answer that has not ended after {_WHOLE:g} s")
        finally:
            answer.close()
        kept = [(name, value) for name, value in answer.headers.items() if name == "date"]
        return httpx.Response(
            answer.status_code, headers=kept, content=bytes(content), request=request
        )
