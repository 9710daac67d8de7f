"""The loop of a resident party over a connection that misbehaves."""

import threading
import time

import httpx
import pytest

from unisono.engines.flower import party_client
from unisono.engines.flower.fleet import FleetRequest
from unisono.engines.flower.party_client import PATIENCE, _Resident, serve
from unisono.errors import InvalidInput


class Fleet:
    """Delivers messages, and breaks as it is told; a message is (identifier, bytes)."""

    def __init__(self, messages, stop, breaks=()):
        self.messages, self.stop, self.breaks = list(messages), stop, list(breaks)
        self.sent, self.waited, self.beats = [], [], 0

    def next_message(self, identifier, reply, wait):
        if identifier and self.breaks:
            raise self.breaks.pop(0)
        if identifier:
            self.sent.append((identifier, reply))
        self.waited.append(wait)
        if not self.messages:
            self.stop.set()
            return None
        return FleetRequest(*self.messages.pop(0))

    def beat(self):
        self.beats += 1


def message(identifier, data):
    return identifier, 5.0, data


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(party_client, "_SHORTEST_RETRY", 0.01)


def answered(messages, answer=bytes.upper, breaks=()):
    stop = threading.Event()
    fleet = Fleet(messages, stop, breaks)
    _Resident(fleet, answer, stop).work()
    return fleet


def test_one_message_in_one_reply_out():
    fleet = answered([message(b"1", b"a"), message(b"2", b"b")])
    assert fleet.sent == [(b"1", b"A"), (b"2", b"B")]


def test_a_message_delivered_twice_is_answered_once():
    """Who is asked again has nothing to add, and says so: nobody need wait for it."""
    calls, order = [], [(b"1", b"a"), (b"1", b"a"), (b"2", b"b"), (b"1", b"a")]

    def answer(data):
        calls.append(data)
        return data

    fleet = answered([message(*one) for one in order], answer)
    assert calls == [b"a", b"b"]
    assert fleet.sent == [(b"1", b"a"), (b"1", b""), (b"2", b"b"), (b"1", b"")]


def test_an_answer_that_fails_says_nothing(caplog):
    def fail(data):
        raise RuntimeError("record 17 is out of range")

    fleet = answered([message(b"1", b"a")], answer=fail)
    assert fleet.sent == [(b"1", b"")]
    assert "record 17" in caplog.text  # in the party's own log


def test_a_reply_goes_through_an_interrupted_connection_without_a_second_answer():
    calls = []

    def answer(data):
        calls.append(data)
        return data

    breaks = [httpx.ReadError("cut"), httpx.ReadTimeout("")]
    fleet = answered([message(b"1", b"a")], answer, breaks)
    assert (fleet.sent, calls) == ([(b"1", b"a")], [b"a"])


def test_a_reply_that_nobody_waits_for_is_given_up():
    with pytest.raises(httpx.ReadError):
        answered([(b"1", 0.0, b"a")], breaks=[httpx.ReadError("cut")] * 9)


def test_a_request_the_server_refuses_ends_the_connection():
    refused = httpx.HTTPStatusError("401", request=None, response=httpx.Response(401))
    with pytest.raises(httpx.HTTPStatusError):
        answered([message(b"1", b"a")], breaks=[refused])


def test_the_last_reply_is_handed_over_before_the_party_leaves():
    """The answer after which a party stops asks for no message more."""
    stop = threading.Event()
    fleet = Fleet([message(b"1", b"a"), message(b"2", b"b")], stop)

    def last(data):
        stop.set()
        return data

    _Resident(fleet, last, stop).work()
    assert fleet.sent == [(b"1", b"a"), (b"2", b"b")]
    assert fleet.waited == [True, False, False]


def test_while_an_answer_takes_long_the_party_says_that_it_is_there(monkeypatch):
    monkeypatch.setattr(party_client, "_BEAT", 0.02)
    monkeypatch.setattr(party_client, "_LOOK", 0.01)
    stop, beaten = threading.Event(), []
    fleet = Fleet([message(b"1", b"a")], stop)
    third = threading.Event()

    def beat():
        beaten.append(time.monotonic())
        if len(beaten) == 3:
            third.set()

    fleet.beat = beat
    _Resident(fleet, lambda data: data if third.wait(60) else b"", stop).work()
    assert fleet.sent == [(b"1", b"a")]
    assert beaten[2] - beaten[0] > 0.02  # and not without end


def test_a_server_that_does_not_wait_is_not_asked_without_end(monkeypatch):
    monkeypatch.setattr(party_client, "_SHORTEST_RETRY", 0.05)
    monkeypatch.setattr(party_client, "_SOON", 60.0)
    paused = []

    class Stop(threading.Event):
        def wait(self, timeout=None):
            paused.append(timeout)
            if len(paused) == 4:
                self.set()
            return self.is_set()

    class Hasty(Fleet):
        def next_message(self, identifier, reply, wait):
            self.waited.append(wait)

    fleet = Hasty([], Stop())
    _Resident(fleet, bytes.upper, fleet.stop).work()
    assert paused == [0.05, 0.1, 0.2, 0.4]
    assert len(fleet.waited) in (4, 5)  # one more may end a request that waits


def test_a_party_that_is_to_stop_does_not_wait_for_a_message_till_the_end():
    """What ends a request that waits is another one, which asks for nothing."""
    stop, ended = threading.Event(), threading.Event()

    class Waiting(Fleet):
        def next_message(self, identifier, reply, wait):
            if wait:
                assert ended.wait(60)
            ended.set()

    party = _Resident(Waiting([], stop), bytes.upper, stop)
    thread = threading.Thread(target=party.work)
    thread.start()
    time.sleep(0.05)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


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
            bytes.upper,
            "127.0.0.1:9",
            root_certificates=None,
            keys=None,
            stop=threading.Event(),
            insecure=True,
            connect_timeout=0.3,
        )
