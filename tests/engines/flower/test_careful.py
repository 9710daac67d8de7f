"""A server that lies about everything but its certificate, and what a party makes of it."""

import gzip
import http.server
import threading
import time
import tracemalloc
from contextlib import contextmanager, suppress

import httpx
import pytest

from unisono.engines import wire
from unisono.engines.flower import http_client
from unisono.engines.flower.fleet import Fleet
from unisono.engines.flower.http_client import _SHORT
from unisono.engines.flower.refusals import explain
from unisono.errors import InvalidInput


@contextmanager
def server(answer):
    """Somebody who answers each request as told; yields the address and the paths asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words):
            pass

        def do_POST(self):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            asked.append((self.path, self.headers.get("accept-encoding")))
            with suppress(OSError):  # the party has hung up
                answer(self)

        do_GET = do_POST  # noqa: N815 - the names that the library looks for

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{served.server_port}", asked
    finally:
        served.shutdown()
        served.server_close()
        thread.join()


def say(handler, status, headers, body=b""):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def fleet(address):
    party = Fleet(address, True, None, None)
    try:
        yield party
    finally:
        party.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status):
    with server(lambda handler: say(handler, 200, {})) as (inside, calls):

        def redirect(handler):
            say(handler, status, {"location": f"http://{inside}/admin"})

        with server(redirect) as (address, asked), fleet(address) as party:
            with pytest.raises(httpx.HTTPStatusError) as caught:
                party.heartbeat()
            refusal = explain(caught.value, address)
    assert calls == []
    assert [encoding for _, encoding in asked] == ["identity"]
    assert refusal.final
    assert str(status) in refusal.reason


def test_a_compressed_answer_is_refused_and_never_inflated():
    bomb = gzip.compress(bytes(1 << 26))
    with server(lambda handler: say(handler, 200, {"content-encoding": "gzip"}, bomb)) as (
        where,
        _,
    ):
        tracemalloc.start()
        try:
            with fleet(where) as party, pytest.raises(httpx.DecodingError, match="compressed"):
                party.next_message(b"", b"", wait=True)
            assert tracemalloc.get_traced_memory()[1] < 1 << 24
        finally:
            tracemalloc.stop()


def test_an_endless_answer_is_cut_off():
    written = []

    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(1000):
            handler.wfile.write(bytes(1 << 20))
            written.append(1 << 20)

    with (
        server(endless) as (address, _),
        fleet(address) as party,
        pytest.raises(httpx.DecodingError, match=str(_SHORT)) as caught,
    ):
        party.heartbeat()
    assert sum(written) < 1 << 26
    assert "not Flower's protocol" in explain(caught.value, address).reason


def test_an_answer_that_comes_byte_by_byte_is_given_up(monkeypatch):
    monkeypatch.setattr(http_client, "_WHOLE", 0.3)

    def dripping(handler):
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        for _ in range(1000):
            handler.wfile.write(b"x")
            time.sleep(0.05)

    with (
        server(dripping) as (address, _),
        fleet(address) as party,
        pytest.raises(httpx.ReadTimeout, match="not ended") as caught,
    ):
        party.heartbeat()
    assert not explain(caught.value, address).final  # a slow network, perhaps: it tries again


@pytest.mark.parametrize(
    ("message", "words"),
    [(bytes(23), "no room for its name"), (bytes(16) + b"\x7f\xf8" + bytes(6), "lives for nan s")],
    ids=["short", "no time"],
)
def test_a_message_without_its_head_is_refused(message, words):
    with (
        server(lambda handler: say(handler, 200, {}, message)) as (address, _),
        fleet(address) as party,
        pytest.raises(InvalidInput, match=words),
    ):
        party.next_message(b"", b"", wait=True)


def test_a_message_may_be_long_and_is_bounded(monkeypatch):
    monkeypatch.setattr(wire, "MAXIMUM_BYTES", 3 << 20)
    long = bytes(24 + (2 << 20))
    with server(lambda handler: say(handler, 200, {}, long)) as (address, _):
        with fleet(address) as party:
            assert len(party.next_message(b"", b"", wait=True).data) == 2 << 20
        monkeypatch.setattr(wire, "MAXIMUM_BYTES", 1 << 20)
        with fleet(address) as party, pytest.raises(httpx.DecodingError, match="more than"):
            party.next_message(b"", b"", wait=True)
