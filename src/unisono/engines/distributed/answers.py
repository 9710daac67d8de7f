"""Reading what parties answered: whoever says something malformed has said nothing."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from unisono.engines import wire
from unisono.errors import InvalidInput


def read(
    replies: Mapping[int, wire.Packet], reader: Callable[[int, tuple[np.ndarray, ...]], Any]
) -> dict[int, Any]:
    """What each party said, by a reader of its number and arrays."""
    found = {}
    for party, packet in replies.items():
        try:
            found[party] = reader(party, packet.arrays)
        except (InvalidInput, KeyError, IndexError, TypeError, ValueError):
            continue
    return found


def agreeing(answers: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """The answers whose shape and type most of them have."""
    kinds = Counter((answer.shape, answer.dtype) for answer in answers.values())
    if not kinds:
        return {}
    usual = kinds.most_common(1)[0][0]
    return {p: answer for p, answer in answers.items() if (answer.shape, answer.dtype) == usual}
