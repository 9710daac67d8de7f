"""Messages as bytes: tagged, versioned, size-limited; no pickle, no code, nothing private.

    "UNIS" | version (1 byte) | header length (4 bytes) | JSON header | arrays, one after another

The header names the tag, a few scalars, and dtype and shape of each array. Only values that
may leave a party have an encoding: a `Private` value, a bare `Share` or a `Contribution` has
none, and simulated values are refused unless the transport says that it is a simulation.
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
MAXIMUM_BYTES, MAXIMUM_HEADER = 1 << 30, 1 << 22
_DTYPES = ("<f4", "<f8", "<i4", "<i8", "<u4", "<u8", "|b1", "|u1")
_DIMENSIONS = 8
_TAGS = (
    *("hello", "ask", "released", "masked", "disclosed", "dropout", "finish", "bundle", "blame"),
    *("announce", "deal", "agree", "unmask"),  # steps of the secure sum
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
    body = b"".join(a.astype(a.dtype.newbyteorder("<")).tobytes() for a in prepared)
    data = MAGIC + bytes([VERSION]) + struct.pack("<I", len(header)) + header + body
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


def decode(data: bytes) -> Packet:
    """The packet in `data`; malformed, unknown or oversized messages are refused."""
    if len(data) > MAXIMUM_BYTES or len(data) < 9 or data[:4] != MAGIC:
        raise InvalidInput(f"{len(data)} bytes that are not a message of this protocol: refused")
    if data[4] != VERSION:
        raise InvalidInput(f"message of version {data[4]}, this is version {VERSION}: update")
    (length,) = struct.unpack_from("<I", data, 5)
    if length > MAXIMUM_HEADER:
        raise InvalidInput(f"a message with a header of {length} bytes: refused")
    try:
        header = json.loads(data[9 : 9 + length])
        tag, scalars, layout = header["tag"], header["scalars"], header["arrays"]
        specifications = [(str(d), tuple(int(n) for n in shape)) for d, shape in layout]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise InvalidInput("a message whose header cannot be read: refused") from None
    if (
        not isinstance(scalars, dict)
        or tag not in _TAGS
        or any(d not in _DTYPES for d, _ in specifications)
    ):
        raise InvalidInput(f"a message with unknown tag {tag!r} or array type: refused")
    arrays, offset = [], 9 + length
    for dtype, shape in specifications:
        count = math.prod(shape)
        size = count * np.dtype(dtype).itemsize
        if len(shape) > _DIMENSIONS or not all(0 <= n <= MAXIMUM_BYTES for n in shape):
            raise InvalidInput(f"an array of {len(shape)} dimensions or of a strange size: refused")
        if offset + size > len(data):
            raise InvalidInput("a message shorter than its header says: refused")
        arrays.append(np.frombuffer(data, dtype, count, offset).reshape(shape))
        offset += size
    if offset != len(data):
        raise InvalidInput("a message longer than its header says: refused")
    return Packet(tag, scalars, tuple(arrays))


def bundle(parts: Sequence[bytes], scalars: Mapping[str, Any] | None = None) -> bytes:
    """Several packets as one."""
    return encode("bundle", scalars or {}, [np.frombuffer(part, np.uint8) for part in parts])


def unbundle(packet: Packet) -> list[Packet]:
    """The packets of a bundle; a bundle inside a bundle is refused."""
    parts = [decode(array.tobytes()) for array in packet.arrays]
    if packet.tag != "bundle" or any(part.tag == "bundle" for part in parts):
        raise InvalidInput("a bundle of packets in which another one lies: refused")
    return parts
