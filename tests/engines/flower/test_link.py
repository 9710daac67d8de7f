"""One exchange over a grid that misbehaves, and the server's side of Flower under a deadline."""

import time
from types import SimpleNamespace

import httpx
import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    ObjectUnavailableError,
    pull_objects,
)
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import http_grid

from unisono.engines import wire
from unisono.engines.flower import link
from unisono.engines.flower.fleet import patient_until
from unisono.engines.flower.link import GridLink
from unisono.engines.flower.messages import unwrap, wrap
from unisono.errors import InvalidInput


class Clock:
    """Time passes when somebody sleeps, on however slow a machine."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds + 1e-9  # the last pause ends after the deadline, whatever is rounded


CLOCK = Clock()


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(link, "time", CLOCK)
    return CLOCK


class Grid:
    """Answers each message with what `behaviour` makes of it, once `delay` has passed."""

    def __init__(self, behaviour, delay=0.0, refuses=()):
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
        self.behaviour, self.delay, self.refuses = behaviour, delay, refuses
        self.pushed, self.pulls = [], 0

    def get_node_ids(self):
        return [3, 1, 2]

    def push_messages(self, messages):
        names = []
        for message in messages:
            name = f"message-{len(self.pushed)}"
            message.metadata.__dict__["_message_id"] = name
            self.pushed.append(message)
            names.append(None if message.metadata.dst_node_id in self.refuses else name)
        self.at = CLOCK.now
        return names

    def pull_messages(self, names):
        self.pulls, self.guarded = self.pulls + 1, http_grid.pull_objects is not pull_objects
        if CLOCK.now < self.at + self.delay:
            return []
        waiting = [m for m in self.pushed if m.metadata.message_id in set(names)]
        return [reply for m in waiting if (reply := self.behaviour(m)) is not None]


def capitals(message):
    return Message(wrap(unwrap(message).upper()), reply_to=message)


def test_replies_come_back_by_node_as_soon_as_all_are_there():
    grid = Grid(capitals, delay=0.05)
    own = GridLink(grid)
    assert own.nodes() == [1, 2, 3]
    started = CLOCK.now
    replies = own.exchange({1: b"a", 2: b"b"}, deadline=5.0)
    assert replies == {1: b"A", 2: b"B"}
    assert CLOCK.now - started < 1.0
    assert grid.guarded


@pytest.mark.parametrize(
    "reply",
    [
        lambda message: None,
        lambda message: Message(Error(0), reply_to=message),
        lambda message: Message(RecordDict({"other": ConfigRecord({"a": 1})}), reply_to=message),
        lambda message: Message(RecordDict(), reply_to=message),
    ],
    ids=["silent", "error", "another record", "empty"],
)
def test_a_node_that_errs_is_missing_and_the_others_are_not(reply):
    def behaviour(message):
        return reply(message) if message.metadata.dst_node_id == 2 else capitals(message)

    started = CLOCK.now
    replies = GridLink(Grid(behaviour)).exchange({1: b"a", 2: b"b", 3: b"c"}, deadline=0.3)
    assert replies == {1: b"A", 3: b"C"}
    assert CLOCK.now - started < 0.6


def test_a_reply_that_names_another_message_counts_for_nobody():
    def forge(message):
        other = Message(RecordDict(), 1, "query.unisono")
        other.metadata.__dict__["_message_id"] = "message-of-someone-else"
        return Message(wrap(b"forged"), reply_to=other)

    assert GridLink(Grid(forge)).exchange({1: b"a"}, deadline=0.1) == {}


def test_oversized_replies_are_missing(monkeypatch):
    monkeypatch.setattr(wire, "MAXIMUM_BYTES", 10)
    grid = Grid(lambda m: Message(wrap(unwrap(m) * 6), reply_to=m))
    replies = GridLink(grid).exchange({1: b"a", 2: b"bb"}, deadline=0.2)
    assert replies == {1: b"aaaaaa"}


def test_nobody_waits_for_a_message_that_could_not_be_pushed():
    started = CLOCK.now
    replies = GridLink(Grid(capitals, refuses=(3,))).exchange({1: b"a", 3: b"c"}, deadline=5.0)
    assert replies == {1: b"A"}
    assert CLOCK.now - started < 2.0


def test_messages_live_about_as_long_as_the_deadline_and_have_names_of_their_own():
    grid = Grid(capitals)
    GridLink(grid).exchange({1: b"a", 2: b"a"}, deadline=7.0)
    assert all(7.0 <= m.metadata.ttl <= 9.0 for m in grid.pushed)
    assert len({m.metadata.group_id for m in grid.pushed}) == 2


@pytest.mark.parametrize("deadline", [0.0, -1.0, float("nan")])
def test_a_deadline_must_leave_time(deadline):
    with pytest.raises(InvalidInput, match="deadline"):
        GridLink(Grid(capitals)).exchange({1: b"a"}, deadline)


def test_asking_is_not_a_busy_loop():
    grid = Grid(lambda message: None)
    GridLink(grid).exchange({1: b"a"}, deadline=0.5)
    assert 10 < grid.pulls < 60


def unavailable(name):
    raise ObjectUnavailableError(name)


def test_a_party_killed_while_uploading_delays_nobody_beyond_the_deadline():
    """Flower itself would wait two hours, a second at a time."""
    started = time.monotonic()
    with patient_until(started + 0.3), pytest.raises(ObjectPullError):
        http_grid.pull_objects(object_ids=["a"], pull_object_fn=unavailable)
    assert 0.2 < time.monotonic() - started < 600


def test_after_the_deadline_what_is_there_is_still_taken():
    with patient_until(time.monotonic() - 1.0):
        pulled = http_grid.pull_objects(object_ids=["a", "b"], pull_object_fn=str.encode)
    assert pulled == {"a": b"a", "b": b"b"}


def test_a_garbled_reply_is_an_error_and_not_the_end_of_the_pull():
    stock = http_grid.inflate_object_from_contents
    with patient_until(time.monotonic() + 1.0):
        for contents in ({"a": b"garbage"}, {}, {"a": b"Message  0\x00junk"}):
            reply = http_grid.inflate_object_from_contents("a", contents)
            assert reply.has_error()
            assert reply.metadata.reply_to_message_id == ""
    assert http_grid.inflate_object_from_contents is stock


def test_an_object_that_is_not_taken_costs_the_others_nothing():
    """A party that deletes its message while it is being uploaded is silent, and that is all."""
    taken = []

    def push(name, content):
        if name == "b":
            raise ObjectPushError(name, 1, "session")
        if name == "c":
            raise httpx.HTTPStatusError("404", request=None, response=httpx.Response(404))
        taken.append(name)

    objects = {name: SimpleNamespace(deflate=bytes) for name in "abcde"}
    with patient_until(time.monotonic() + 1.0):
        http_grid.push_objects(objects, push_object_fn=push, object_ids_to_push=set("abcd"))
    assert sorted(taken) == ["a", "d"]


def test_a_reply_of_many_objects_is_not_fetched():
    with patient_until(time.monotonic() + 1.0), pytest.raises(ObjectPullError):
        http_grid.pull_objects(object_ids=list("abcd"), pull_object_fn=str.encode)


class Refusing(Grid):
    """Hands out no batch that holds the reply of a node in `spoilt`."""

    def __init__(self, *spoilt):
        super().__init__(capitals)
        self.spoilt = {f"message-{node - 1}" for node in spoilt}

    def pull_messages(self, names):
        if self.spoilt & set(names):
            raise httpx.HTTPStatusError("500", request=None, response=httpx.Response(500))
        return super().pull_messages(names)


def test_a_reply_that_cannot_be_handed_out_is_missing_and_the_others_are_not():
    started = CLOCK.now
    replies = GridLink(Refusing(2)).exchange({1: b"a", 2: b"b", 3: b"c"}, deadline=5.0)
    assert replies == {1: b"A", 3: b"C"}
    assert CLOCK.now - started < 1.0


def test_a_superlink_that_refuses_everything_is_an_error():
    with pytest.raises(httpx.HTTPStatusError):
        GridLink(Refusing(1, 2)).exchange({1: b"a", 2: b"b"}, deadline=5.0)


def test_messages_are_forgotten_after_the_exchange_and_not_before():
    grid = Grid(lambda m: capitals(m) if m.metadata.dst_node_id == 1 else None)
    forgotten = []
    grid.forget = lambda names: forgotten.append((grid.pulls, sorted(names)))
    GridLink(grid).exchange({1: b"a", 2: b"b"}, deadline=0.2)
    assert forgotten == [(grid.pulls, ["message-0", "message-1"])]


def test_residents_answer_through_their_boxes_and_the_others_through_flower():
    grid = Grid(capitals)

    def deliver(requests, deadline):
        yield 1, requests[1] + b" in a box"
        yield 2, None

    grid.deliver = deliver
    replies = GridLink(grid).exchange({1: b"a", 2: b"b", 3: b"c"}, deadline=5.0)
    assert replies == {1: b"a in a box", 2: b"B"}
    assert [m.metadata.dst_node_id for m in grid.pushed] == [2]
