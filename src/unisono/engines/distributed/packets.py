"""The secure sum's messages as arrays of bytes: party numbers, and one row for each of them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from unisono.engines.distributed.questions import QUESTION_BYTES
from unisono.errors import InvalidInput
from unisono.secagg.party import BOX_BYTES, Announcement, Deal
from unisono.secagg.roster import KEY_BYTES, SIGNATURE_BYTES
from unisono.secagg.server import Dealers
from unisono.secagg.shamir import SHARE_BYTES

_PAIR = KEY_BYTES + SIGNATURE_BYTES  # a commitment and a signature
_MOST_ROWS = 1 << 14  # a header has no room to count more parties
_ANNOUNCED = 2 * KEY_BYTES + SIGNATURE_BYTES


def rows(table: Mapping[int, bytes], width: int) -> list[np.ndarray]:
    """Numbers (n,) and rows (n, width) of a table."""
    parties = sorted(table)
    flat = np.frombuffer(b"".join(table[party] for party in parties), np.uint8)
    return [np.array(parties, np.int32), flat.reshape(len(parties), width)]


def table(arrays: Sequence[np.ndarray], width: int) -> dict[int, bytes]:
    """The inverse of `rows`; a number that stands twice, or another width, is refused."""
    if len(arrays) != 2 or arrays[0].ndim != 1:
        raise InvalidInput("a table without its two arrays: refused")
    parties, data = arrays
    if len(parties) > _MOST_ROWS:
        raise InvalidInput(f"a table of {len(parties)} rows, at most {_MOST_ROWS}: refused")
    if parties.dtype != np.int32 or data.dtype != np.uint8 or data.shape != (len(parties), width):
        raise InvalidInput(f"a table of shape {data.shape} where rows of {width} bytes belong")
    found = {int(party): row.tobytes() for party, row in zip(parties, data, strict=True)}
    if len(found) != len(parties):
        raise InvalidInput("a party stands twice in one table: refused")
    return found


def announcements(found: Mapping[int, Announcement]) -> list[np.ndarray]:
    return rows({party: one.keys + one.signature for party, one in found.items()}, _ANNOUNCED)


def read_announcements(arrays: Sequence[np.ndarray]) -> dict[int, Announcement]:
    split = 2 * KEY_BYTES
    return {p: Announcement(r[:split], r[split:]) for p, r in table(arrays, _ANNOUNCED).items()}


def commitments(found: Mapping[int, Deal]) -> list[np.ndarray]:
    """A commitment and a signature of each dealer."""
    return rows({party: one[0] + one[1] for party, one in found.items()}, _PAIR)


def deal(party: int, one: Deal) -> list[np.ndarray]:
    """What a dealer sends: its commitment and signature, and a box for each neighbour."""
    return [*commitments({party: one}), *rows(one.boxes, BOX_BYTES)]


def read_deal(party: int, arrays: Sequence[np.ndarray]) -> Deal:
    own = table(arrays[:2], _PAIR)[party]
    return Deal(own[:KEY_BYTES], own[KEY_BYTES:], table(arrays[2:], BOX_BYTES))


def deals(dealers: Dealers) -> Callable[[int], list[np.ndarray]]:
    """What each party is shown of all deals: the boxes are those for it, by dealer.

    What everybody is shown is written once, and boxes are sorted by receiver once.
    """
    everybodys = commitments(dealers.deals)
    return lambda party: [*everybodys, *rows(dealers.boxes.get(party, {}), BOX_BYTES)]


def read_deals(arrays: Sequence[np.ndarray], party: int) -> dict[int, Deal]:
    boxes = table(arrays[2:], BOX_BYTES)
    return {
        dealer: Deal(
            row[:KEY_BYTES],
            row[KEY_BYTES:],
            {party: boxes[dealer]} if dealer in boxes else {},
        )
        for dealer, row in table(arrays[:2], _PAIR).items()
    }


def questions(found: Mapping[int, bytes]) -> list[np.ndarray]:
    """The questions of earlier rounds, by rounds."""
    return rows(found, QUESTION_BYTES)


def read_questions(arrays: Sequence[np.ndarray]) -> dict[int, bytes]:
    return table(arrays, QUESTION_BYTES)


def signatures(found: Mapping[int, bytes]) -> list[np.ndarray]:
    return rows(found, SIGNATURE_BYTES)


def read_signatures(arrays: Sequence[np.ndarray]) -> dict[int, bytes]:
    return table(arrays, SIGNATURE_BYTES)


def shares(found: Mapping[int, bytes]) -> list[np.ndarray]:
    return rows(found, SHARE_BYTES)


def read_shares(arrays: Sequence[np.ndarray]) -> dict[int, bytes]:
    return table(arrays, SHARE_BYTES)
