"""Messages as bytes: tagged, versioned, size-limited; no pickle, no code, nothing private.

    "UNIS" | version (1 byte) | header length (4 bytes) | JSON header | arrays, one after another

The header names the tag, a few scalars, and dtype and shape of each array. Only values that
may leave a party have an encoding: a `Private` value, a bare `Share` or a `Contribution` has
none, and simulated values are refused unless the transport says that it is a simulation.

Bytes come from strangers, so reading costs no more than their length: every number in a message is
held against its bound before anything is multiplied, parsed or made because of it, and arrays are
views of the bytes. The writer keeps to the same bounds: what can be sent can be read.
"""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from unisono.core.values import Disclosed, Masked, Released
from unisono.errors import InvalidInput, PrivacyViolation

MAGIC, VERSION = b"UNIS", 1
# A header is small: its largest entry is one number for each party.
MAXIMUM_BYTES, MAXIMUM_HEADER = 1 << 30, 1 << 16
MAXIMUM_ARRAYS, MAXIMUM_DIMENSIONS, MAXIMUM_PARTS = 256, 8, 3
# Two lists for each array, and some for scalars: they bound how deep a header goes.
_BRACKETS = 2 * MAXIMUM_ARRAYS + 128
_DTYPES = ("<f4", "<f8", "<i4", "<i8", "<u4", "<u8", "|b1", "|u1")
_TAGS = (
    *("hello", "ask", "released", "masked", "disclosed", "dropout", "finish", "bundle", "blame"),
    *("announce", "deal", "agree", "unmask", "sum"),  # steps of the secure sum, and what it was
)


class Packet(NamedTuple):
    """What a message says."""

    tag: str
    scalars: Mapping[str, Any]
    arrays: tuple[np.ndarray, ...]


def encode(tag: str, scalars: Mapping[str, Any], arrays: Sequence[Any] = ()) -> bytes:
    """Bytes of a public message."""
    if tag not in _TAGS:
        raise InvalidInput(f"unknown message tag {tag!r}: use one of {', '.join(_TAGS)}")
    prepared = []
    for array in arrays:
        if not hasattr(array, "dtype") or np.asarray(array).dtype.hasobject:
            raise PrivacyViolation(f"a {type(array).__name__} has no encoding: it may not leave")
        prepared.append(np.asarray(array, order="C"))  # keeps scalars scalar
    layout = [[a.dtype.newbyteorder("<").str, list(a.shape)] for a in prepared]
    header = json.dumps(
        {"tag": tag, "scalars": dict(scalars), "arrays": layout}, allow_nan=False
    ).encode()
    _require_small(header)
    _require_layout(layout)
    body = [a.astype(a.dtype.newbyteorder("<"), copy=False).tobytes() for a in prepared]
    data = b"".join([MAGIC, bytes([VERSION]), struct.pack("<I", len(header)), header, *body])
    if len(data) > MAXIMUM_BYTES:
        raise InvalidInput(f"a message of {len(data)} bytes exceeds {MAXIMUM_BYTES}: split it")
    return data


def encode_value(
    value: Any, scalars: Mapping[str, Any], simulation: bool, others: Sequence[Any] = ()
) -> bytes:
    """Bytes of what a party lets go, with `others` that go beside it; all else is refused."""
    tags = {Released: "released", Masked: "masked", Disclosed: "disclosed"}
    if type(value) not in tags:
        raise PrivacyViolation(
            f"a {type(value).__name__} may not leave the party: only released, masked or disclosed "
            "values have an encoding"
        )
    if value.simulated and not simulation:
        raise PrivacyViolation(
            "a simulated value (seeded noise) may not go over a real wire: use a ledger without "
            "a seed"
        )
    # Sums live modulo 2^32, so 32 bits of each number say all; masked ones have that width already.
    integers = value.value if isinstance(value, Masked) else value.value.astype(np.int32)
    return encode(tags[type(value)], scalars, [integers, *others])


def decode(data: bytes | memoryview) -> Packet:
    """The packet in `data`; malformed, unknown or oversized messages are refused."""
    if len(data) > MAXIMUM_BYTES or len(data) < 9 or data[:4] != MAGIC:
        raise InvalidInput(f"{len(data)} bytes that are not a message of this protocol: refused")
    if data[4] != VERSION:
        raise InvalidInput(f"message of version {data[4]}, this is version {VERSION}: update")
    (length,) = struct.unpack_from("<I", data, 5)
    if length > MAXIMUM_HEADER:
        raise InvalidInput(f"a message with a header of {length} bytes: refused")
    text = bytes(data[9 : 9 + length])
    _require_small(text)
    try:
        header = json.loads(text)
        tag, scalars, layout = header["tag"], header["scalars"], header["arrays"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidInput("a message whose header cannot be read: refused") from None
    if not isinstance(scalars, dict) or tag not in _TAGS:
        raise InvalidInput("a message with an unknown tag, or without scalars: refused")
    arrays, offset = [], 9 + length
    for dtype, shape, count in _require_layout(layout):
        size = count * np.dtype(dtype).itemsize
        if offset + size > len(data):
            raise InvalidInput("a message shorter than its header says: refused")
        arrays.append(np.frombuffer(data, dtype, count, offset).reshape(shape))
        offset += size
    if offset != len(data):
        raise InvalidInput("a message longer than its header says: refused")
    return Packet(tag, scalars, tuple(arrays))


def _require_small(header: bytes) -> None:
    """Refuse a header that would grow when it is parsed: an empty list is two bytes of text, and
    fifty times as many in memory. Brackets also bound how deep it goes."""
    if len(header) > MAXIMUM_HEADER:
        raise InvalidInput(
            f"a message with a header of {len(header)} bytes, at most {MAXIMUM_HEADER}: what is "
            "long belongs into an array"
        )
    brackets = header.count(b"[") + header.count(b"{")
    if brackets > _BRACKETS:
        raise InvalidInput(
            f"a message whose header opens {brackets} brackets, at most {_BRACKETS}: what is long "
            "belongs into an array"
        )


def _require_layout(layout: Any) -> list[tuple[str, list[int], int]]:
    """Type, shape and number of elements of each array: each bounded before it is multiplied."""
    if not isinstance(layout, list) or len(layout) > MAXIMUM_ARRAYS:
        raise InvalidInput(f"a message of more than {MAXIMUM_ARRAYS} arrays, or no list: refused")
    found = []
    for entry in layout:
        if not isinstance(entry, list) or len(entry) != 2 or entry[0] not in _DTYPES:
            raise InvalidInput("a message with an unknown array type: refused")
        dtype, shape = entry
        if (
            not isinstance(shape, list)
            or len(shape) > MAXIMUM_DIMENSIONS
            or not all(type(n) is int and 0 <= n <= MAXIMUM_BYTES for n in shape)
            or math.prod(max(n, 1) for n in shape) > MAXIMUM_BYTES
        ):
            raise InvalidInput(
                f"an array of more than {MAXIMUM_DIMENSIONS} dimensions or of a strange size: "
                "refused"
            )
        found.append((dtype, shape, math.prod(shape)))
    return found


def bundle(parts: Sequence[bytes], scalars: Mapping[str, Any] | None = None) -> bytes:
    """Several packets as one."""
    if len(parts) > MAXIMUM_PARTS:
        raise InvalidInput(f"a bundle of {len(parts)} packets: at most {MAXIMUM_PARTS}")
    return encode("bundle", scalars or {}, [np.frombuffer(part, np.uint8) for part in parts])


def unbundle(packet: Packet) -> list[Packet]:
    """The packets of a bundle, whose bytes are not copied; one inside another is refused."""
    flat = all(array.dtype == np.uint8 and array.ndim == 1 for array in packet.arrays)
    if packet.tag != "bundle" or len(packet.arrays) > MAXIMUM_PARTS or not flat:
        raise InvalidInput(f"no bundle, or one of more than {MAXIMUM_PARTS} packets: refused")
    parts = [decode(array.data) for array in packet.arrays]
    if any(part.tag == "bundle" for part in parts):
        raise InvalidInput("a bundle of packets in which another one lies: refused")
    return parts
