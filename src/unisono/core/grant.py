"""Permission to release, and the only source of secret coins and noise.

A ledger hands out a `Grant` after it has written the cost down. A grant allows a fixed
number of draws, in order, each once, in the process that asked for it. A `Draw` yields the
coins of its sampler and the noise of one authorised event; code that forgets to account
has no noise to add.

A grant for `records` that are released one at a time lets each of them be drawn for as often as its
cost says, and no more: what it shows of a record is the cost, however many there are (parallel
composition).
"""

import hashlib
import operator
import os
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from unisono.core.events import (
    Composed,
    Event,
    Everyone,
    Poisson,
    Sampler,
    WithoutReplacement,
    releases_of,
)
from unisono.core.noise import Keystream, bernoulli, poisson_samples
from unisono.core.noise.subset import permutation, permutations, subset
from unisono.core.trust import ITERATES, Viewer
from unisono.errors import GrantMisused

_LEDGERS_ONLY = object()


def derive(secret: bytes, label: str, *parts: bytes | int) -> bytes:
    """A 256-bit key for one purpose, independent of the keys for all others."""
    data = label.encode()
    for part in parts:
        raw = part.to_bytes(16, "little") if isinstance(part, int) else part
        data += len(raw).to_bytes(8, "little") + raw
    return hashlib.blake2b(data, key=secret, digest_size=32, person=b"unisono").digest()


class _Uncopyable:
    """Copies are the same object, so that a copy cannot spend twice; pickling is refused."""

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise GrantMisused(
            f"a {type(self).__name__} cannot be pickled: another process could spend it again; "
            "open the ledger file there instead"
        )


class Grant(_Uncopyable):
    """`releases` draws, already paid for in entry `number` of one ledger."""

    def __init__(
        self,
        maker: object,
        ledger: Any,
        number: int,
        cost: Mapping[Viewer, Composed],
        releases: int,
        secret: bytes,
        records: int | None = None,
    ) -> None:
        if maker is not _LEDGERS_ONLY:
            raise GrantMisused(
                "grants are made by Ledger.authorize only: ask the ledger, which writes the "
                "cost down first"
            )
        self.ledger, self.number, self.releases = ledger, number, releases
        # What a ledger checked once is shared by all its grants, and nobody can change it.
        shared = cost if isinstance(cost, MappingProxyType) else MappingProxyType(dict(cost))
        self.cost: Mapping[Viewer, Composed] = shared
        self._secret = secret
        self._next = 0
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._used: dict[tuple[Event, int | None], int] = {}
        self.records = records

    @cached_property
    def _paid(self) -> dict[Event, int]:
        """How often each event may be released; counted when the first is, for of a hundred
        thousand grants that are drawn together (`join`) none is asked."""
        seen = self.cost.get(ITERATES, Composed())
        return {event: count * releases_of(event) for event, count in seen.parts}

    @property
    def simulated(self) -> bool:
        return bool(self.ledger.simulated)

    def draw(self, index: int, public: bytes = b"", record: int | None = None) -> "Draw":
        """The randomness of release `index`, bound to what was public at that moment; where records
        are released one at a time, of this `record` alone."""
        self._here()
        index = operator.index(index)
        record = None if record is None else operator.index(record)
        if (record is None) != (self.records is None) or (
            record is not None and not 0 <= record < (self.records or 0)
        ):
            what = "all records together" if self.records is None else f"{self.records} records"
            raise GrantMisused(
                f"a draw for record {record!r} of grant {self.number}, which paid for {what}"
                f"{'' if self.records is None else ' one at a time'}: draw for what was paid for"
            )
        with self._lock:
            return self._draw(index, public, record)

    def draws(self, indices: Sequence[int], public: bytes = b"") -> "list[Draw]":
        """The `draw` of each of these releases, in less time than one by one."""
        if self.records is not None:
            raise GrantMisused(
                f"draws for all records of grant {self.number}, which paid for {self.records} "
                "records one at a time: draw for one record"
            )
        self._here()
        with self._lock:
            return [self._draw(operator.index(index), public, None) for index in indices]

    def order(self, records: int) -> np.ndarray:
        """A secret uniform order of a party's records, the same for the grant."""
        return permutation(Keystream(derive(self._secret, "order")), records)

    def places(self, slots: int) -> np.ndarray:
        """A secret uniform order of places, the same for the grant."""
        return permutation(Keystream(derive(self._secret, "places")), slots)

    def lot(self) -> bytes:
        """A secret for a drawing of lots that is no release, the same for the grant."""
        self._here()
        return derive(self._secret, "lot")

    def _draw(self, index: int, public: bytes, record: int | None) -> "Draw":
        if index < self._next:
            raise GrantMisused(
                f"draw {index} of grant {self.number} was used already: noise drawn twice cancels; "
                "authorize another release"
            )
        if index >= self.releases:
            raise GrantMisused(
                f"draw {index} of grant {self.number}, which paid for {self.releases} releases: "
                "authorize more"
            )
        self._next = index + 1
        secret = derive(self._secret, "draw", index, public)
        return Draw(_LEDGERS_ONLY, self, index, secret, record)

    def _here(self) -> None:
        if os.getpid() != self._process:
            raise GrantMisused(
                f"grant {self.number} belongs to process {self._process}: a forked process would "
                "draw the same noise; authorize in this process"
            )

    def _pay(self, event: Event, times: int, record: int | None = None) -> None:
        times = operator.index(times)
        if times < 1:
            raise GrantMisused(f"{times} releases cannot be paid for: at least one")
        with self._lock:
            self._pay_once(event, times, record)

    def _pay_once(self, event: Event, times: int, record: int | None) -> None:
        used = self._used.get((event, record), 0) + times
        if used > self._paid.get(event, 0):
            known = ", ".join(type(e.noise).__name__ for e in self._paid) or "nothing"
            raise GrantMisused(
                f"grant {self.number} paid for {known}, and not (or not as often) for {event}: "
                "authorize the event that is released"
            )
        self._used[event, record] = used

    def __repr__(self) -> str:
        return f"<Grant {self.number}: {self._next} of {self.releases} draws used>"


def join(grants: Sequence[Grant]) -> Grant:
    """One grant that draws for many parties of this process at once.

    Used up on the spot, the single grants cannot be drawn from again; the joint key depends on
    all of their secrets. The noise has the same law as drawn one by one, not the same bits.
    """
    first = grants[0]
    for grant in grants:
        grant._here()
        with grant._lock:  # or two threads find it fresh, and both use it up
            alike = grant.releases == first.releases and grant.cost == first.cost
            if grant._next or grant.records is not None or not alike:
                raise GrantMisused("only fresh grants of one cost can be drawn together")
            grant._next = grant.releases
    secret = hashlib.blake2b(b"".join(g._secret for g in grants), digest_size=32).digest()
    return Grant(_LEDGERS_ONLY, first.ledger, first.number, first.cost, first.releases, secret)


class SamplingMask(np.ndarray):
    """Which units take part in a release (units,); it cannot be changed, and knows its draw.

    Whatever is computed from it is an ordinary array again: a sum claims the amplification of a
    sample only if it was made with the mask that was drawn for it.
    """

    draw: "Draw | None" = None

    @classmethod
    def of(cls, draw: "Draw", chosen: np.ndarray) -> "SamplingMask":
        mask = np.array(chosen, bool).view(cls)
        mask.draw = draw
        mask.setflags(write=False)
        return mask


class Draw(_Uncopyable):
    """The sampling mask, the order and the noise of one release."""

    def __init__(
        self, maker: object, grant: Grant, index: int, secret: bytes, record: int | None = None
    ) -> None:
        if maker is not _LEDGERS_ONLY:
            raise GrantMisused("draws come from Grant.draw only")
        self.grant, self.index, self.record = grant, index, record
        self._secret: bytes | None = secret
        self._sampler: Sampler | None = None
        self._stream: Keystream | None = None

    @property
    def release_name(self) -> tuple[int, int]:
        """Entry and position: what a released value is bound to."""
        return self.grant.number, self.index

    @property
    def used(self) -> bool:
        """Whether its noise was taken."""
        return self._secret is None

    def sample(self, sampler: Sampler, units: int) -> SamplingMask:
        """Secret coins: which of `units` take part. The event paid for must name this sampler."""
        stream = self._coins(sampler, units)
        match sampler:
            case Everyone():
                chosen = np.ones(units, dtype=bool)
            case Poisson(rate):
                chosen = bernoulli(stream, rate, units)
            case WithoutReplacement(size):
                chosen = subset(stream, size, units)
        return SamplingMask.of(self, chosen)

    def chosen(self, sampler: Sampler, units: int) -> np.ndarray:
        """The numbers of those who take part, in a secret uniform order: of the same law as what
        `sample` chooses, in less time where they are few."""
        return chosen_together([self], sampler, units)[0]

    def _coins(self, sampler: Sampler, units: int) -> Keystream:
        """The bits that choose, once, for the sampler that the event must then name."""
        if self._sampler is not None:
            raise GrantMisused("the coins of this draw were tossed already: one sample per release")
        self._stream = stream = Keystream(self._key("coins"))
        self._sampler = sampler
        if isinstance(sampler, WithoutReplacement) and sampler.population != units:
            raise GrantMisused(
                f"the sampler draws from {sampler.population} units, but there are {units}: "
                "the event would claim another population"
            )
        return stream

    def places(self, slots: int, parties: int = 1) -> np.ndarray:
        """For each party a secret uniform order (parties, slots) of the places that its chosen
        units may take."""
        return np.stack([places_together([self], slots)[0] for _ in range(parties)])

    def _places(self) -> Keystream:
        """Where the bits that chose go on: they also say who lies where."""
        if self._stream is None:
            raise GrantMisused("nobody was chosen by this draw: choose first, then give places")
        return self._stream

    def take(self, event: Event, times: int = 1) -> bytes:
        """Pay with `event` and receive the key of its noise, once; `times` steps share a key."""
        self.grant._here()
        self._require_sampled_by(event.sampler)
        if times != 1 and not isinstance(event.sampler, Everyone):
            raise GrantMisused(
                "one sample serves one release: steps that sample each need a draw of their own"
            )
        with self.grant._lock:
            self._unused()
            self.grant._pay(event, times, self.record)
            return self._used_up()

    def _used_up(self) -> bytes:
        """The key of the noise, once; its payment is the caller's."""
        key = self._key("noise")
        self._secret = self._stream = None
        return key

    def _require_sampled_by(self, sampler: Sampler) -> None:
        if sampler != (self._sampler or Everyone()):
            raise GrantMisused(
                f"sampled by {self._sampler}, accounted as {sampler}: the sampler that was used is "
                "the one to account"
            )

    def _key(self, label: str) -> bytes:
        return derive(self._unused(), label)

    def _unused(self) -> bytes:
        if self._secret is None:
            raise GrantMisused(
                f"release {self.index} of grant {self.grant.number} has its noise already: "
                "one draw, one release"
            )
        return self._secret


def chosen_together(draws: Sequence[Draw], sampler: Sampler, units: int) -> list[np.ndarray]:
    """What each draw's `chosen` is, in less time than one by one."""
    if isinstance(sampler, Poisson):
        return poisson_samples([draw._coins(sampler, units) for draw in draws], sampler.rate, units)
    found = [np.flatnonzero(draw.sample(sampler, units)) for draw in draws]
    orders = [permutation(draw._places(), len(own)) for draw, own in zip(draws, found, strict=True)]
    return [own[order] for own, order in zip(found, orders, strict=True)]


def places_together(draws: Sequence[Draw], slots: int) -> np.ndarray:
    """A secret uniform order (draws, slots) of the places of each draw, another one every time."""
    return permutations([draw._places() for draw in draws], slots, short=True)


def take_together(draws: Sequence[Draw], event: Event) -> list[bytes]:
    """What each draw's `take` is, of one grant, in less time than one by one: all are paid for
    before the first key is handed out."""
    grant = draws[0].grant
    grant._here()
    for draw in draws:
        draw._require_sampled_by(event.sampler)
        if draw.grant is not grant or draw.record is not None:
            raise GrantMisused(
                f"draws of grant {grant.number} and of another, or of a single record, are taken "
                "one by one: only those of one grant for all records are paid for together"
            )
    with grant._lock:
        for draw in draws:
            draw._unused()
        grant._pay(event, len(draws))
        return [draw._used_up() for draw in draws]
