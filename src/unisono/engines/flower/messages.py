"""Flower messages that carry one packed byte string each.

Flower's cost is per object, not per byte, so a message holds a single value of bytes in our own
wire format; nothing of Flower's own serialisation of models is used.
"""

from flwr.app import ConfigRecord, Message, RecordDict

from unisono.errors import InvalidInput

MESSAGE_TYPE = "query.unisono"
_RECORD, _KEY = "unisono", "packet"


def wrap(data: bytes) -> RecordDict:
    """A record with one string of bytes."""
    return RecordDict({_RECORD: ConfigRecord({_KEY: data})})


def unwrap(message: Message) -> bytes:
    """The bytes of a message; anything else in it is refused."""
    content = message.content
    if list(content.keys()) != [_RECORD] or list(content[_RECORD].keys()) != [_KEY]:
        raise InvalidInput("a Flower message that does not hold exactly one packet: refused")
    data = content[_RECORD][_KEY]
    if not isinstance(data, bytes):
        raise InvalidInput(f"a packet of type {type(data).__name__} where bytes belong: refused")
    return data
