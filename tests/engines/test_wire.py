"""The wire: what may leave, and what may not come in."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.core.values import Contribution, Masked, Private
from unisono.engines import wire
from unisono.errors import InvalidInput, PrivacyViolation, UnisonoError


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


@pytest.mark.parametrize(
    "value",
    [Private([1]), Contribution(np.ones(1), 1.0, None), np.ones(2), None, object()],
)
def test_private_things_have_no_encoding(value):
    with pytest.raises(PrivacyViolation, match="may not leave"):
        wire.encode_value(value, {}, simulation=True)


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
