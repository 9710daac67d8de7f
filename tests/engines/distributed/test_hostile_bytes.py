"""Bytes from anywhere: a party answers with a dropout, a server goes on without the sender."""

import json
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unisono.core.trust import Trust
from unisono.engines import wire
from unisono.engines.distributed import packets
from unisono.engines.distributed.envelope import HEAD_BYTES, open_reply, seal
from unisono.errors import InvalidInput

from .cluster import Cluster, descent

PUBLIC = np.zeros(2, np.float32)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    return Cluster(descent(), tmp_path_factory.mktemp("hostile"))


def raw(header, body=b""):
    """A message with a header of one's own making."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return wire.MAGIC + bytes([wire.VERSION]) + struct.pack("<I", len(text)) + text + body


HOSTILE = {
    "deep": raw(b'{"tag":"hello","scalars":' + b"[" * 10**5 + b"]" * 10**5 + b',"arrays":[]}'),
    "infinite shape": raw(b'{"tag":"hello","scalars":{},"arrays":[["|u1",[Infinity]]]}'),
    "many dimensions": raw({"tag": "hello", "scalars": {}, "arrays": [["|u1", [1] * 99]]}, b"x"),
    "vast and empty": raw({"tag": "hello", "scalars": {}, "arrays": [["|u1", [0, 10**30]]]}),
    "list of scalars": raw({"tag": "hello", "scalars": [1], "arrays": []}),
    "no scalars": raw({"tag": "hello", "scalars": None, "arrays": []}),
    "nothing": b"",
    "one byte": b"U",
    "only a signature": bytes(HEAD_BYTES),
}


# ------------------------------------------------------------- the party


@pytest.mark.parametrize("name", HOSTILE)
def test_a_party_answers_hostile_requests_with_a_dropout(cluster, name):
    reply = cluster.parties[0].answer(HOSTILE[name])
    assert open_reply(cluster.session, HOSTILE[name], reply).packet.tag == "dropout"
    assert cluster.turns(0) == []


@given(st.binary(max_size=400))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_get_a_dropout(cluster, data):
    reply = cluster.parties[0].answer(data)
    assert open_reply(cluster.session, data, reply).packet.tag == "dropout"


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
TAGS = st.sampled_from(["hello", "ask", "announce", "deal", "agree", "unmask", "finish", "bundle"])
ARRAYS = st.lists(
    st.tuples(
        st.sampled_from(["<f4", "<i4", "|u1", "|b1"]), st.lists(st.integers(0, 3), max_size=3)
    ),
    max_size=5,
)


@given(TAGS, st.integers(-1, 4) | JUNK, st.integers(-1, 2) | JUNK, JUNK, ARRAYS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_well_formed_nonsense_in_the_right_session_never_raises(
    cluster, tag, number, attempt, counted, arrays, named
):
    """Tags that a party knows, in its own session, with any scalars and arrays; nothing is paid
    for, since no such request comes with keys and shares that anyone signed."""
    scalars = {"round": number, "attempt": attempt, "counted": counted}
    if named:
        scalars["session"] = cluster.session.id.hex()
    sizes = [int(np.prod(shape)) * np.dtype(dtype).itemsize for dtype, shape in arrays]
    request = raw({"tag": tag, "scalars": scalars, "arrays": arrays}, bytes(sum(sizes)))
    reply = open_reply(cluster.session, request, cluster.parties[0].answer(request)).packet
    assert reply.tag in ("hello", "announce", "dropout", "finish", "bundle")
    assert cluster.turns(0) == []


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_request_costs_at_most_its_own_turn(tmp_path_factory, data):
    """Any bytes of a genuine request are changed: one turn at most is paid for, once."""
    cluster = Cluster(descent(Trust.LOCAL), tmp_path_factory.mktemp("damaged"))
    damaged = bytearray(cluster.request("ask", 0, 0, PUBLIC, counted=[-1] * 4))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    for _ in range(2):
        cluster.parties[0].answer(bytes(damaged))
    assert len(cluster.turns(0)) <= 1


# ------------------------------------------------------------ the server


def hostile_party(cluster, reply):
    """Party 0 answers everything but greetings with what `reply` makes of the honest answer."""
    honest = cluster.parties[0].answer

    def answer(request):
        sent = honest(request)
        return sent if wire.decode(request).tag == "hello" else reply(request, sent)

    cluster.link.answers[1] = answer


@pytest.mark.parametrize("trust", [Trust.SECURE_SUM, Trust.LOCAL])
@pytest.mark.parametrize("name", list(HOSTILE))
def test_a_server_goes_on_without_whoever_sends_hostile_bytes(tmp_path, name, trust):
    """Unsigned bytes: any node on the network could send these."""
    cluster = Cluster(descent(trust, parties=3, minimum=2, rounds=1), tmp_path)
    hostile_party(cluster, lambda request, sent: bytes(HEAD_BYTES) + HOSTILE[name])
    assert cluster.run().opened == 1


def test_replies_are_read_only_once_their_signature_is_verified(tmp_path, monkeypatch):
    """Whatever a stranger wrote after a signature that is none, nobody reads it."""
    cluster = Cluster(descent(Trust.LOCAL, parties=3, minimum=2, rounds=1), tmp_path)
    stranger = bytes(HEAD_BYTES) + raw({"tag": "released", "scalars": {}, "arrays": []})
    hostile_party(cluster, lambda request, sent: stranger)
    cluster.link.deliver = lambda node, request: cluster.link.answers[node](
        request
    )  # keeps nothing
    read, decode = [], wire.decode
    monkeypatch.setattr(wire, "decode", lambda data: read.append(bytes(data)) or decode(data))
    assert cluster.run().opened == 1
    assert read
    assert stranger[HEAD_BYTES:] not in read


def test_tables_of_more_rows_than_there_are_parties_are_not_read(monkeypatch):
    """A row each is work: a message of a gigabyte would hold ten million."""
    many = [np.arange(2**20, dtype=np.int32), np.zeros((2**20, 64), np.uint8)]
    with pytest.raises(InvalidInput, match="a table of 1048576 rows"):
        packets.read_signatures(many)


def reply_with(arrays, number=0):
    """A properly signed reply with the tag that was expected and other contents; it names the
    party with this number."""

    def made(cluster):
        def reply(request, sent):
            packet = wire.decode(sent[HEAD_BYTES:])
            parts = wire.unbundle(packet) if packet.tag == "bundle" else [packet]
            body = wire.encode(parts[0].tag, {}, arrays)
            sealed = seal(cluster.session, cluster.identities[0], request, body)
            return number.to_bytes(4, "big") + sealed[4:]

        hostile_party(cluster, reply)

    return made


SIGNED = {
    "no arrays": reply_with([]),
    "a number for a table": reply_with([np.array(1, np.int32), np.zeros((1, 96), np.uint8)]),
    "a number for a vector": reply_with([np.array(1, np.int64)]),
    "a vast vector": reply_with([np.zeros(1000, np.int64)]),
    "numbers that are not finite": reply_with([np.full(2, np.nan)]),
    "truth values": reply_with([np.ones(2, bool)]),
    "three tables": reply_with([np.zeros(1, np.int32), np.zeros((1, 96), np.uint8)] * 3),
    "empty tables": reply_with([np.zeros(0, np.int32), np.zeros((0, 96), np.uint8)]),
    "another party": reply_with([], 1),
    "no such party": reply_with([], 2**32 - 1),
}


@pytest.mark.parametrize(
    ("trust", "name"),
    [(trust, name) for trust in (Trust.SECURE_SUM, Trust.LOCAL) for name in SIGNED],
)
def test_a_server_goes_on_without_a_party_that_signs_nonsense(tmp_path, name, trust):
    cluster = Cluster(descent(trust, parties=4, minimum=3, rounds=1), tmp_path)
    SIGNED[name](cluster)
    outcome = cluster.run()
    assert outcome.opened == 1
    assert np.isfinite(outcome.value).all()


@given(st.binary(max_size=300))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_replies_are_refused(cluster, data):
    with pytest.raises(InvalidInput):
        open_reply(cluster.session, b"request", data)
