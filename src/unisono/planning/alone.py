"""Whether a party would do better alone: with its own records under the same promise, or without
any noise, for its own eyes.

Everything is measured as in the plan, against a model without privacy that has learnt from the
records of all. Fewer records cost something of their own, by a law of n / (d + 1), records for each
feature (`laws.FEWER_RECORDS`). What noise costs a party alone comes on top: of what is left by one
the other leaves its part,

    lost / most = 1 - (1 - fewer / most) (1 - noise / most)

at each end of the bands. Of a posterior, widths are compared; of a mean, errors of noise and of
having asked so many people, whose answers are supposed to be even over their range.

It is supposed that the parties' records are alike: a party whose people differ from all others
learns about them only from its own.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from unisono.planning import laws
from unisono.planning.laws import Band
from unisono.planning.tasks import Task

_NEARLY = 1.1
_EVEN = 1 / math.sqrt(12)  # deviation of a number that is even over its range, in ranges


class Place(StrEnum):
    """Which of the parties it is."""

    SMALLEST = "smallest"
    LARGEST = "largest"
    EVERY = "every"  # all are alike


class Gain(StrEnum):
    """What a party has of taking part, in words that follow its name."""

    ALL = "gains"
    PUBLISHED = "gains what it may publish"
    NOTHING = "gains next to nothing"
    LOSS = "would do better alone"


def gain(together: float, promised: float | None, unshared: float) -> Gain:
    """By what is lost, or by widths, together, alone under the same promise, and alone without
    noise; what differs by less than a tenth is alike.

    >>> str(gain(0.02, 0.1, 0.05)), str(gain(0.02, 0.1, 0.01)), str(gain(0.02, 0.01, 0.0))
    ('gains', 'gains what it may publish', 'would do better alone')
    """
    if promised is None or promised > _NEARLY * together:
        return Gain.ALL if unshared >= together else Gain.PUBLISHED
    return Gain.NOTHING if _NEARLY * promised >= together else Gain.LOSS


def who(party: str, place: Place, records: int) -> str:
    """How a sentence about a party begins."""
    if place is Place.EVERY:
        return f"Every party, of {records:,} records,"
    return f"{party}, the {place} party with {records:,} records,"


class Alone(NamedTuple):
    """What a party has to expect together with the others, alone under the same promise (None where
    that cannot be, for a `reason`), and alone without noise, for its own eyes."""

    party: str
    place: Place
    records: int
    together: Band
    promised: Band | None
    unshared: Band
    reason: str = ""

    @property
    def gain(self) -> Gain:
        """By what is likely."""
        promised = None if self.promised is None else self.promised.likely
        return gain(self.together.likely, promised, self.unshared.likely)

    @property
    def clear(self) -> bool:
        """Whether being together or alone without noise is better whatever the bands leave open:
        neither likely loss lies in the other's band."""
        low, high = sorted((self.together, self.unshared), key=lambda band: band.likely)
        return high.likely > low.high and low.likely < high.low

    def to_json(self) -> dict[str, Any]:
        return {
            "party": self.party,
            "place": str(self.place),
            "records": self.records,
            "together": self.together._asdict(),
            "alone_under_the_same_promise": self.promised and self.promised._asdict(),
            "reason": self.reason,
            "alone_without_noise": self.unshared._asdict(),
            "verdict": f"{self.gain}",
            "clear": self.clear,
        }


def places(records: Sequence[int]) -> dict[Place, int]:
    """The parties in question, by their places in the list; none where there is one party only.

    >>> {str(place): number for place, number in places((300, 40, 500)).items()}
    {'smallest': 1, 'largest': 2}
    """
    if len(records) < 2:
        return {}
    if min(records) == max(records):
        return {Place.EVERY: 0}
    sizes = list(records)
    return {Place.SMALLEST: sizes.index(min(sizes)), Place.LARGEST: sizes.index(max(sizes))}


def fewer_records(task: Task, records: int, total: int, features: int, classes: int) -> Band:
    """What a model without privacy loses that learns from a part of the records only."""
    if records >= total:
        return Band(0.0, 0.0, 0.0)
    return laws.band(laws.FEWER_RECORDS[task], records / (features + 1), classes)


def both(fewer: Band, noise: Band, classes: int) -> Band:
    """What fewer records and noise cost together, at each end."""
    most = laws.largest(classes)
    pairs = zip(fewer, noise, strict=True)
    return Band(*(most * (1 - (1 - one / most) * (1 - other / most)) for one, other in pairs))


def of_a_mean(noise: float, width: float, records: int) -> Band:
    """The error of an answer with noise of this error about so many people, each of whose values is
    even over a range of this width."""
    error = math.hypot(noise, _EVEN * width / math.sqrt(records))
    return Band(error, error, error)


def exactly(value: float) -> Band:
    return Band(value, value, value)


__all__ = [
    "Alone",
    "Gain",
    "Place",
    "both",
    "exactly",
    "fewer_records",
    "gain",
    "of_a_mean",
    "places",
    "who",
]
