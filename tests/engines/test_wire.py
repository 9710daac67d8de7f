"""The wire: what may leave, and what may not come in."""

import contextlib
import json
import math
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.core.values import (
    _BOUNDED_ONLY,
    Contribution,
    Disclosed,
    Masked,
    Private,
    Released,
    Share,
)
from unisono.engines import wire
from unisono.errors import InvalidInput, PrivacyViolation, UnisonoError

CONTRIBUTION = Contribution(np.ones(1), 1.0, None, maker=_BOUNDED_ONLY)


@given(
    st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=4),
    st.lists(st.sampled_from(["<f4", "<i8", "<u8", "|b1"]), max_size=3),
    st.integers(0, 5),
)
def test_round_trip(scalars, dtypes, rows):
    arrays = [np.arange(rows * 2).reshape(rows, 2).astype(d) for d in dtypes]
    packet = wire.decode(wire.encode("ask", scalars, arrays))
    assert packet.tag == "ask"
    assert packet.scalars == scalars
    for sent, received in zip(arrays, packet.arrays, strict=True):
        np.testing.assert_array_equal(sent, received)
        assert sent.dtype == received.dtype


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_nonsense_is_refused_without_a_crash(data):
    with pytest.raises(InvalidInput):
        wire.decode(data)


@given(st.data())
@settings(max_examples=200)
def test_damaged_messages_never_crash(data):
    raw = bytearray(wire.encode("ask", {"round": 1}, [np.arange(4.0)]))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UnisonoError):
        wire.decode(bytes(raw))


def test_truncated_and_padded_messages_are_refused():
    raw = wire.encode("ask", {}, [np.arange(4.0)])
    with pytest.raises(InvalidInput, match="shorter"):
        wire.decode(raw[:-1])
    with pytest.raises(InvalidInput, match="longer"):
        wire.decode(raw + b"x")
    with pytest.raises(InvalidInput, match="version 9"):
        wire.decode(raw[:4] + b"\x09" + raw[5:])


def raw(header, body=b""):
    """A message with a header of one's own making."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return wire.MAGIC + bytes([wire.VERSION]) + struct.pack("<I", len(text)) + text + body


def shaped(*shape, dtype="|u1"):
    return {"tag": "ask", "scalars": {}, "arrays": [[dtype, list(shape)]]}


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"UNIS", id="only-magic"),
        pytest.param(b"PICKLE" + bytes(20), id="other-magic"),
        pytest.param(raw(b""), id="no-header"),
        pytest.param(raw(b"\x80\x04N."), id="pickle-as-header"),
        pytest.param(raw(b"{"), id="half-a-header"),
        pytest.param(raw(b"\xff\xfe\xfd"), id="no-text"),
        pytest.param(raw(b"[" * 10**5 + b"]" * 10**5), id="deep"),
        pytest.param(raw(b"1" * 10**4), id="a-long-number"),
        pytest.param(raw([1, 2]), id="a-list-as-header"),
        pytest.param(raw({"tag": "ask", "scalars": {}}), id="no-layout"),
        pytest.param(raw({"tag": "exec", "scalars": {}, "arrays": []}), id="unknown-tag"),
        pytest.param(raw({"tag": ["ask"], "scalars": {}, "arrays": []}), id="a-list-as-tag"),
        pytest.param(raw({"tag": "ask", "scalars": [], "arrays": []}), id="a-list-of-scalars"),
        pytest.param(raw(shaped(1, dtype="|O8"), bytes(8)), id="objects"),
        pytest.param(raw(shaped(1, dtype="<f2"), bytes(2)), id="unknown-type"),
        pytest.param(raw(shaped(-1), b"x"), id="negative-size"),
        pytest.param(raw(shaped(-1, -1), b"x"), id="two-negative-sizes"),
        pytest.param(raw(shaped(2**40)), id="vast"),
        pytest.param(raw(shaped(2**62, 4)), id="beyond-64-bits"),
        pytest.param(raw(shaped(0, 10**30)), id="vast-and-empty"),
        pytest.param(raw(shaped(*[1] * 99), b"x"), id="many-dimensions"),
        pytest.param(raw(shaped(0, 2**30, 2**30, 2**30)), id="empty-with-vast-sides"),
        pytest.param(raw(shaped("a"), b"x"), id="a-word-as-size"),
        pytest.param(raw(shaped("1"), b"x"), id="a-number-in-words-as-size"),
        pytest.param(raw(shaped(1.0), b"x"), id="a-fraction-as-size"),
        pytest.param(raw(shaped(True), b"x"), id="a-truth-value-as-size"),
        pytest.param(raw({**shaped(), "arrays": [["|u1", [0]]] * 300}), id="many-arrays"),
        pytest.param(raw({**shaped(), "arrays": {"|u1": [0]}}), id="no-list-of-arrays"),
        pytest.param(raw({**shaped(), "scalars": {"a": [[]] * 10**4}}), id="many-lists"),
        pytest.param(raw({**shaped(), "scalars": {"a": "a" * 2**17}}), id="a-long-word"),
        pytest.param(
            raw(b'{"tag":"ask","scalars":{},"arrays":[["|u1",[Infinity]]]}'), id="infinite-size"
        ),
        pytest.param(
            raw(b'{"tag":"ask","scalars":{},"arrays":[["|u1",[NaN]]]}'), id="size-not-a-number"
        ),
        pytest.param(wire.MAGIC + b"\x01\xff\xff\xff\xff{}", id="header-beyond-the-end"),
    ],
)
def test_hostile_messages_are_refused(message):
    with pytest.raises(InvalidInput):
        wire.decode(message)


def grown(text):
    """A message whose header is `text`: its length, and what reading it costs: how many sizes are
    multiplied with each other, and bytes of memory at the most."""
    message, products, multiply = raw(text), [], math.prod

    def counted(numbers):
        products.append(list(numbers))
        return multiply(products[-1])

    tracemalloc.start()
    try:
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(InvalidInput):
            patch.setattr(wire.math, "prod", counted)
            wire.decode(message)
        return len(message), max(map(len, products), default=0), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


LARGE = {
    "dimensions": (b'{"tag":"hello","scalars":{},"arrays":[["|u1",[', b"9,", b"9]]]}"),
    "arrays": (b'{"tag":"hello","scalars":{},"arrays":[', b'["|u1",[0]],', b'["|u1",[0]]]}'),
    "lists": (b'{"tag":"hello","scalars":{"a":[', b"[],", b'0]},"arrays":[]}'),
    "tables": (b'{"tag":"hello","scalars":{"a":[', b"{},", b'0]},"arrays":[]}'),
    "depth": (b'{"tag":"hello","scalars":{"a":', b"[", b""),
    "digits": (b'{"tag":"hello","scalars":{"a":', b"9", b'},"arrays":[]}'),
    "numbers": (b'{"tag":"hello","scalars":{"a":[', b"9.5,", b'0]},"arrays":[]}'),
    "words": (b'{"tag":"hello","scalars":{"a":[', b'"",', b'0]},"arrays":[]}'),
}


@pytest.mark.parametrize("what", LARGE)
@pytest.mark.parametrize("size", [2**12, 2**15, 2**20, 2**22])
def test_reading_costs_little_whatever_is_repeated(what, size):
    """As often as a few megabytes hold it."""
    begin, again, end = LARGE[what]
    length, sides, memory = grown(begin + again * (size // len(again)) + end)
    assert sides <= wire.MAXIMUM_DIMENSIONS
    assert memory < 2**20 + length


@given(
    st.recursive(
        st.integers() | st.text(max_size=9) | st.floats(allow_nan=False),
        lambda x: st.lists(x, max_size=9) | st.dictionaries(st.text(max_size=3), x, max_size=9),
    ),
    st.integers(1, 5000),
)
@settings(max_examples=60, deadline=None)
def test_any_header_costs_little_however_often_it_is_repeated(value, times):
    text = json.dumps({"tag": "bundle", "scalars": {"a": [value] * times}, "arrays": []})
    length, _, memory = grown(text.encode())
    assert memory < 2 * 2**20 + length


def test_a_bundle_copies_nothing_and_holds_few_parts():
    """Three parts are as large as the message; what reading adds does not grow with them."""
    parts = [wire.encode("ask", {}, [np.zeros(2**20, np.uint8)])] * 3
    message = wire.bundle(parts)
    tracemalloc.start()
    try:
        assert len(wire.unbundle(wire.decode(message))) == 3
        assert tracemalloc.get_traced_memory()[1] < 2**17
    finally:
        tracemalloc.stop()
    with pytest.raises(InvalidInput, match="a bundle of 4 packets: at most 3"):
        wire.bundle([*parts, b""])
    four = wire.encode("bundle", {}, [np.frombuffer(b"UNIS", np.uint8)] * 4)
    with pytest.raises(InvalidInput, match="more than 3 packets"):
        wire.unbundle(wire.decode(four))


@pytest.mark.parametrize(
    ("scalars", "arrays", "words"),
    [
        ({"a": "a" * 2**17}, [], "header of 131... bytes"),
        ({"a": [[]] * 10**4}, [], "opens 1000. brackets"),
        ({}, [np.zeros(1)] * 300, "more than 256 arrays"),
        ({}, [np.zeros((1,) * 9)], "more than 8 dimensions"),
        ({}, [np.zeros(1, np.float16)], "unknown array type"),
    ],
)
def test_what_could_not_be_read_is_not_sent(scalars, arrays, words):
    with pytest.raises(InvalidInput, match=words):
        wire.encode("ask", scalars, arrays)


def test_messages_beyond_the_limit_are_refused_on_both_sides(monkeypatch):
    small = wire.encode("ask", {}, [np.zeros(4)])
    large = wire.encode("ask", {}, [np.zeros(40)])
    monkeypatch.setattr(wire, "MAXIMUM_BYTES", len(small))
    wire.decode(small)
    with pytest.raises(InvalidInput, match="not a message of this protocol"):
        wire.decode(large)
    with pytest.raises(InvalidInput, match="split it"):
        wire.encode("ask", {}, [np.zeros(40)])


def test_scalars_that_are_not_finite_are_not_sent():
    """JSON has no NaN: other readers would stumble."""
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            wire.encode("ask", {"weight": value})


@given(
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(max_size=9),
        lambda x: st.lists(x, max_size=4) | st.dictionaries(st.text(max_size=9), x),
    ),
    st.binary(max_size=40),
)
@settings(max_examples=60)
def test_any_header_is_read_or_refused(header, body):
    """Also one that has the right fields with anything in them."""
    names = ("tag", "scalars", "arrays")
    for document in (header, dict.fromkeys(names, header), {**shaped(1), "arrays": header}):
        with contextlib.suppress(InvalidInput):
            assert wire.decode(raw(document, body)).tag in ("ask",)


def test_a_bundle_holds_packets_and_no_bundles():
    parts = [wire.encode("ask", {"round": n}, [np.arange(3)]) for n in range(2)]
    packet = wire.decode(wire.bundle(parts))
    assert [part.scalars["round"] for part in wire.unbundle(packet)] == [0, 1]
    for inside in (wire.bundle(parts), b"", b"UNIS", parts[0][:-1]):
        with pytest.raises(InvalidInput):
            wire.unbundle(wire.decode(wire.bundle([parts[0], inside])))
    with pytest.raises(InvalidInput):
        wire.unbundle(wire.decode(wire.encode("ask", {}, [np.zeros(3, np.float32)])))


def sealed(kind):
    return kind(np.ones(1, np.int64), 1.0, 0, 0, "ledger", simulated=False)


@pytest.mark.parametrize(
    "value",
    [Private([1]), CONTRIBUTION, sealed(Share), np.ones(2), None, object()],
)
def test_private_things_have_no_encoding(value):
    with pytest.raises(PrivacyViolation, match="may not leave"):
        wire.encode_value(value, {}, simulation=True)


@pytest.mark.parametrize("value", [Private([1]), CONTRIBUTION, sealed(Share)])
def test_private_things_cannot_go_along_as_arrays(value):
    with pytest.raises(PrivacyViolation, match="no encoding"):
        wire.encode("ask", {}, [value])
    with pytest.raises(PrivacyViolation, match="no encoding"):
        wire.encode_value(sealed(Released), {}, simulation=False, others=[value])
    with pytest.raises(TypeError):
        wire.encode("ask", {"value": value})


@pytest.mark.parametrize(("kind", "tag"), [(Released, "released"), (Disclosed, "disclosed")])
def test_what_may_leave_has_its_own_tag(kind, tag):
    """The control of the two tests above."""
    assert wire.decode(wire.encode_value(sealed(kind), {}, simulation=False)).tag == tag


def test_objects_cannot_be_smuggled_in_arrays():
    with pytest.raises(PrivacyViolation):
        wire.encode("ask", {}, [np.array([object()])])
    with pytest.raises(InvalidInput, match="unknown message tag"):
        wire.encode("code", {}, [])


def test_simulated_values_do_not_leave_on_a_real_wire():
    masked = Masked(np.arange(3, dtype=np.uint64), 32, simulated=True)
    with pytest.raises(PrivacyViolation, match="simulated"):
        wire.encode_value(masked, {}, simulation=False)
    assert wire.decode(wire.encode_value(masked, {}, simulation=True)).tag == "masked"
