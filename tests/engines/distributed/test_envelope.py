"""Replies are bound to their request, session and party: moved elsewhere they are ignored."""

from functools import partial

import numpy as np
import pytest

from unisono.core.trust import Trust
from unisono.engines import wire
from unisono.engines.distributed import presence
from unisono.engines.distributed.envelope import HEAD_BYTES, Reply, open_reply
from unisono.engines.distributed.presence import Ask, Presence
from unisono.errors import InvalidInput

from .cluster import Cluster, descent
from .links import DirectLink

PUBLIC = np.zeros(2, np.float32)


def moved(cluster, other):
    """Genuine replies, each with a request to which it does not belong."""
    hello = partial(wire.encode, "hello")
    here = {"session": cluster.session.id.hex()}
    asked = {n: cluster.request("ask", n, 0, PUBLIC, counted=[-1] * 4) for n in range(2)}
    replies = {n: cluster.parties[0].answer(asked[n]) for n in asked}
    foreign = other.request("ask", 0, 0, PUBLIC, counted=[-1] * 4)
    greeting = hello({**here, "nonce": "1"})
    return {
        "round": (asked[1], replies[0]),
        "request": (hello({**here, "nonce": "2"}), cluster.parties[0].answer(greeting)),
        "session": (asked[0], other.parties[0].answer(foreign)),
        "session of the signature": (asked[0], other.parties[0].answer(asked[0])),
        "party": (
            asked[0],
            replies[0][:HEAD_BYTES] + cluster.parties[1].answer(asked[0])[HEAD_BYTES:],
        ),
    }


@pytest.fixture
def two_clusters(tmp_path):
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    first, second = (Cluster(descent(Trust.LOCAL), folder) for folder in folders)
    second.identities[0] = first.identities[0]  # one party, one key, two rosters
    second.roster = second.roster.__class__(
        second.roster.names, (first.identities[0].public, *second.roster.keys[1:])
    )
    second.session = type(first.session)(
        second.roster, first.session.study, first.session.minimum, masked=False
    )
    second.start(0)
    return first, second


@pytest.mark.parametrize(
    "where", ["round", "request", "session", "session of the signature", "party"]
)
def test_a_reply_that_was_moved_is_not_believed(two_clusters, where):
    """Signatures cover session, request and packet; a reply names its party."""
    first, second = two_clusters
    request, reply = moved(first, second)[where]
    with pytest.raises(InvalidInput, match="has not signed"):
        open_reply(first.session, request, reply)


@pytest.mark.parametrize("checked", [True, False])
def test_without_the_envelope_moved_replies_would_count(tmp_path, monkeypatch, checked):
    """Node 1 answers with what party 0 said to an earlier request: ignored; the control, without
    the check of signatures, counts it."""
    cluster = Cluster(descent(Trust.LOCAL), tmp_path)
    present = Presence(cluster.link, cluster.session, 1.0)
    assert present.meet() == [0, 1, 2, 3]
    old = cluster.parties[0].answer(cluster.request("ask", 0, 0, PUBLIC, counted=[-1] * 4))
    present.link = DirectLink({1: lambda data: old})
    if not checked:
        monkeypatch.setattr(
            presence, "open_reply", lambda *args: Reply(0, wire.decode(args[2][HEAD_BYTES:]))
        )
    question = Ask("ask", {"round": 1, "attempt": 0, "counted": [-1] * 4}, [PUBLIC], "released")
    found = present.exchange({0: [question]})
    assert set(found["ask"]) == (set() if checked else {0})


def test_a_party_cannot_answer_for_another(tmp_path):
    """Party 0 signs, properly, a packet from its own node while node 2 belongs to party 1."""
    cluster = Cluster(descent(Trust.LOCAL), tmp_path)
    present = Presence(cluster.link, cluster.session, 1.0)
    present.meet()
    present.link = DirectLink(dict.fromkeys(range(1, 5), cluster.parties[0].answer))
    question = Ask("ask", {"round": 0, "attempt": 0, "counted": [-1] * 4}, [PUBLIC], "released")
    found = present.exchange({1: [question], 2: [question]})
    assert found == {"ask": {}}


def test_a_greeting_must_be_fresh(tmp_path):
    """Whoever replays an old greeting is nobody."""
    cluster = Cluster(descent(Trust.LOCAL), tmp_path)
    greeting = wire.encode("hello", {"session": cluster.session.id.hex(), "nonce": "0" * 32})
    old = cluster.parties[0].answer(greeting)
    assert open_reply(cluster.session, greeting, old).packet.tag == "hello"
    present = Presence(DirectLink({7: lambda data: old}), cluster.session, 1.0)
    assert present.meet() == []


def test_what_goes_to_many_is_written_hashed_and_held_once(tmp_path, monkeypatch):
    """Copies of what all parties are told are the server's memory: n messages of n rows."""
    cluster = Cluster(descent(Trust.LOCAL), tmp_path)
    present = Presence(cluster.link, cluster.session, 1.0)
    parties = present.meet()
    hashed = []
    monkeypatch.setattr(presence, "fingerprint", lambda data: hashed.append(data) or bytes(32))
    sent = {}

    class Link(DirectLink):
        def exchange(self, requests, deadline):
            sent.update(requests)
            return {}

    present.link = Link({})
    common, own = (Ask("hello", {"nonce": n}, [PUBLIC], "hello") for n in "ab")
    present.exchange({party: [common, own] if party else [common] for party in parties})
    first, second, third, fourth = (sent[node] for node in sorted(sent))
    assert first != second
    assert second is third is fourth
    assert hashed == [first, second]
