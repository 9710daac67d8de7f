"""The loop of a resident party over a connection that misbehaves."""

import threading
import time
from types import SimpleNamespace

import httpx
import pytest

from unisono.engines.flower import resident
from unisono.engines.flower.resident import PATIENCE, _Resident, serve
from unisono.errors import InvalidInput


class Fleet:
    """Delivers messages, and breaks as it is told; a message is (identifier, bytes)."""

    def __init__(self, messages, stop, breaks=()):
        self.messages, self.stop, self.breaks = list(messages), stop, list(breaks)
        self.sent, self.left = [], False

    def receive(self):
        if not self.messages:
            self.stop.set()
            return None
        identifier, data = self.messages.pop(0)
        return SimpleNamespace(identifier=identifier, lifetime=5.0, data=data)

    def content(self, request):
        if isinstance(request.data, Exception):
            raise request.data
        return request.data

    def reply(self, request, data):
        return request.identifier, data

    def send(self, reply):
        if self.breaks:
            raise self.breaks.pop(0)
        self.sent.append(reply)

    def heartbeat(self):
        return True

    def leave(self):
        self.left = True


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(resident, "_SHORTEST_RETRY", 0.01)


def answered(messages, answer=bytes.upper, breaks=()):
    stop = threading.Event()
    fleet = Fleet(messages, stop, breaks)
    _Resident(fleet, answer, stop).work()
    return fleet


def test_one_message_in_one_reply_out():
    fleet = answered([("1", b"a"), ("2", b"b")])
    assert fleet.sent == [("1", b"A"), ("2", b"B")]


def test_a_message_delivered_twice_is_answered_once():
    calls = []
    fleet = answered([("1", b"a"), ("1", b"a"), ("2", b"b"), ("1", b"a")], answer=calls.append)
    assert calls == [b"a", b"b"]
    assert [identifier for identifier, _ in fleet.sent] == ["1", "2"]


def test_a_malformed_message_is_refused_and_the_party_goes_on():
    fleet = answered([("1", InvalidInput("two records")), ("2", KeyError("x")), ("3", b"c")])
    assert fleet.sent == [("1", None), ("2", None), ("3", b"C")]


def test_an_answer_that_fails_says_nothing(caplog):
    def fail(data):
        raise RuntimeError("record 17 is out of range")

    fleet = answered([("1", b"a")], answer=fail)
    assert fleet.sent == [("1", None)]
    assert "record 17" in caplog.text  # in the party's own log


def test_a_reply_goes_through_an_interrupted_connection_without_a_second_answer():
    calls = []

    def answer(data):
        calls.append(data)
        return data

    fleet = answered([("1", b"a")], answer, breaks=[httpx.ReadError("cut"), httpx.ReadTimeout("")])
    assert (fleet.sent, calls) == ([("1", b"a")], [b"a"])


def test_a_request_the_server_refuses_ends_the_connection():
    refused = httpx.HTTPStatusError("401", request=None, response=httpx.Response(401))
    with pytest.raises(httpx.HTTPStatusError):
        answered([("1", b"a")], breaks=[refused])


@pytest.mark.parametrize(
    ("address", "options", "words"),
    [
        ("nowhere", {}, "host:port"),
        ("https://host:1", {}, "host:port"),
        ("host:99999", {}, "host:port"),
        ("192.0.2.1:9443", {"insecure": True}, "without TLS"),
        ("hospital.example:9443", {"insecure": True}, "without TLS"),
        ("127.0.0.1:9443", {"insecure": True, "root_certificates": b""}, "prove nothing"),
        ("127.0.0.1:9443", {"root_certificates": b"no certificate"}, "cannot be read"),
        ("no-such-host.invalid:9443", {}, "no known address"),
    ],
)
def test_what_cannot_work_is_refused_at_once(address, options, words):
    settings = {"root_certificates": None, "keys": None, "stop": threading.Event(), **options}
    started = time.monotonic()
    with pytest.raises(InvalidInput, match=words):
        serve(bytes.upper, address, **settings)
    assert time.monotonic() - started < PATIENCE / 2


def test_nobody_at_the_address_is_an_error_after_some_patience():
    with (
        pytest.warns(UserWarning, match="no TLS"),
        pytest.raises(InvalidInput, match="nobody answers at 127"),
    ):
        serve(
            bytes.upper, "127.0.0.1:9", root_certificates=None, keys=None,
            stop=threading.Event(), insecure=True, patience=0.3,
        )  # fmt: skip
