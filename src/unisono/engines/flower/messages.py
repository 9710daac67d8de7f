"""Flower messages that carry one packed byte array each.

Flower's cost is per object, not per byte, so a message holds a single array of bytes in our
own wire format; nothing of Flower's own serialisation of models is used.
"""

from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict

from unisono.errors import InvalidInput

MESSAGE_TYPE = "query.unisono"
_RECORD, _KEY = "unisono", "packet"


def wrap(data: bytes) -> RecordDict:
    """A record with one array of bytes."""
    array = Array(np.frombuffer(data, np.uint8))
    return RecordDict({_RECORD: ArrayRecord({_KEY: array})})


def unwrap(message: Message) -> bytes:
    """The bytes of a message; anything else in it is refused."""
    content = message.content
    if list(content.keys()) != [_RECORD] or list(content[_RECORD].keys()) != [_KEY]:
        raise InvalidInput("a Flower message that does not hold exactly one packet: refused")
    array: Any = content[_RECORD][_KEY]
    return bytes(array.numpy().astype(np.uint8).tobytes())
