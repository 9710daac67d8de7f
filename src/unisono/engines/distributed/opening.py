"""The server's exchanges around one secure sum, and the set-up of the next one meanwhile.

    set-up      announce, deal                          free; begun anew until enough take part
    opening     ask (masked vectors), agree, unmask     paid for by the parties

Setting up is independent of the model, so the next round's two steps travel with the first two of
this one's opening, and a round takes three exchanges.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from unisono.engines import wire
from unisono.engines.distributed import packets
from unisono.engines.distributed.answers import agreeing, read
from unisono.engines.distributed.presence import Ask, Presence
from unisono.engines.distributed.questions import Question
from unisono.secagg import server as secure_sum
from unisono.secagg.server import Dealers, ShareTable, Survivors, TooFew
from unisono.secagg.session import Session

_PAUSE = 0.2


class Spoilt(TooFew):
    """Shares that could not be opened; nothing was sent, so the same attempt may begin anew."""


class SumAttempt(NamedTuple):
    """A round, and how many retries of the run were used before."""

    round: int
    attempt: int

    @property
    def scalars(self) -> dict[str, int]:
        return self._asdict()


class Opening:
    """Secure sums of one session, one after another."""

    def __init__(
        self,
        session: Session,
        present: Presence,
        connect_timeout: float,
        say: Callable[[str], None],
    ) -> None:
        self.session, self.present, self._connect_timeout, self._say = (
            session,
            present,
            connect_timeout,
            say,
        )
        self._ready: dict[SumAttempt, Dealers] = {}
        # Left out from then on, while enough others remain: who dealt shares that cannot be opened.
        self._blamed: set[int] = set()
        # Who did not take part when last asked for this round alone: nobody waits for them.
        self._silent: set[int] = set()

    @property
    def _trusted(self) -> list[int]:
        fine = [party for party in self.present.parties if party not in self._blamed]
        return fine if len(fine) >= self.session.minimum else self.present.parties

    def set_up(self, place: SumAttempt) -> Dealers | None:
        """Who takes part: set up before, or now, anew until enough are here or the time is over.

        What was set up before serves if everybody who is here is in it: who missed one round is
        asked again before the next.
        """
        ready = self._ready.pop(place, None)
        if ready is not None and set(self._trusted) - set(ready.deals) <= self._silent:
            return ready
        ends = time.monotonic() + self._connect_timeout
        while True:
            try:
                return self._set_up_now(place)
            except TooFew as error:
                self._say(f"round {place.round + 1}: {error}")
                if time.monotonic() > ends:
                    return None
                time.sleep(_PAUSE)
                self.present.meet()

    def _set_up_now(self, place: SumAttempt) -> Dealers:
        announce = _announce(place)
        replies = self.present.exchange({party: [announce] for party in self._trusted})
        table = self._table(place, replies.get("announce", {}))
        deal = _deal(place, table)
        replies = self.present.exchange({party: [deal] for party in table.keys})
        dealers = secure_sum.collect_deals(table, read(replies["deal"], packets.read_deal))
        self._silent = set(self._trusted) - set(dealers.deals)
        return dealers

    def open(
        self,
        place: SumAttempt,
        dealers: Dealers,
        question: Question,
        coming: SumAttempt | None,
        seen: Callable[[Any], None],
        first: Sequence[Ask] = (),
    ) -> tuple[np.ndarray, list[int]]:
        """The sum over the survivors, and who they are; raises TooFew if it cannot be opened, and
        `Spoilt` if that is because of bad shares, and nobody has sent anything.

        `coming` is set up beside; `seen` is told the masked vectors; parties hear `first` before
        they are asked.
        """
        told, shown = {**place.scalars, "counted": list(question.counted)}, packets.deals(dealers)
        common = [*question.public, *packets.questions(question.earlier)]
        asks = {
            party: [*first, Ask("ask", told, [*common, *shown(party)], "masked")]
            for party in dealers.deals
        }
        replies = self._beside(asks, self._trusted, _announce(coming) if coming else None)
        if self._blame(replies.get("blame", {})):
            coming = None  # it is set up in its own time, without them
            if set(replies["ask"]) <= self._blamed:
                raise Spoilt("bad shares kept everybody from answering")
        asked = question.digest(self.session.attempt(*place))
        survivors = _survivors(dealers, replies["ask"], asked, seen)
        table = self._table_of(coming, replies.get("announce", {}))
        agree = Ask("agree", place.scalars, packets.signatures(survivors.signatures), "agree")
        replies = self._beside(
            {party: [agree] for party in survivors.signatures},
            list(table.keys) if table else [],
            _deal(coming, table) if coming and table else None,
        )
        if coming and table:
            self._keep(coming, table, replies.get("deal", {}))
        signed = read(replies["agree"], lambda p, arrays: packets.read_signatures(arrays)[p])
        enough = packets.signatures(secure_sum.collect_signatures(survivors, signed))
        unmask = Ask("unmask", place.scalars, enough, "unmask")
        replies = self.present.exchange({party: [unmask] for party in survivors.signatures})
        shares = read(replies["unmask"], lambda p, arrays: packets.read_shares(arrays))
        return secure_sum.open_sum(survivors, shares), list(survivors.signatures)

    def _blame(self, replies: Mapping[int, wire.Packet]) -> bool:
        """Leave out who is to blame; whether that is news.

        A dealer whom more parties blame than may collude is lying. Otherwise one of the two is,
        nobody knows which, and both are left out.
        """
        named: dict[int, int] = {
            party: packet.scalars["dealer"]
            for party, packet in replies.items()
            if type(packet.scalars.get("dealer")) is int
        }
        news: set[int] = set()
        for dealer in set(named.values()):
            blamers = {party for party, whom in named.items() if whom == dealer}
            alone = len(blamers) > self.session.colluders
            news |= {dealer} if alone else {dealer, *blamers}
        news -= self._blamed
        self._blamed |= news
        if news:
            self._ready.clear()
        return bool(news)

    def _beside(
        self, asks: Mapping[int, list[Ask]], others: Sequence[int], also: Ask | None
    ) -> dict[str, dict[int, wire.Packet]]:
        """Ask what belongs to this round, and of `others` also what belongs to the next."""
        extra = {party: [also] for party in others} if also else {}
        return self.present.exchange(
            {party: [*asks.get(party, []), *extra.get(party, [])] for party in {*asks, *extra}}
        )

    def _table(self, place: SumAttempt, replies: Mapping[int, wire.Packet]) -> ShareTable:
        keys = read(replies, lambda p, arrays: packets.read_announcements(arrays)[p])
        return secure_sum.collect_keys(self.session, place.round, place.attempt, keys)

    def _table_of(
        self, coming: SumAttempt | None, replies: Mapping[int, wire.Packet]
    ) -> ShareTable | None:
        """Keys for the round to come; too few, and it is set up in its own time."""
        if coming is not None:
            with contextlib.suppress(TooFew):
                return self._table(coming, replies)
        return None

    def _keep(
        self, coming: SumAttempt, table: ShareTable, replies: Mapping[int, wire.Packet]
    ) -> None:
        """Shares for the round to come; too few, and it is set up in its own time."""
        self._ready.clear()
        with contextlib.suppress(TooFew):
            deals = read(replies, packets.read_deal)
            self._ready[coming] = secure_sum.collect_deals(table, deals)


def _survivors(
    dealers: Dealers,
    replies: Mapping[int, wire.Packet],
    question: bytes,
    seen: Callable[[Any], None],
) -> Survivors:
    masked = agreeing(read(replies, lambda p, arrays: arrays[0]))
    signed = read(replies, lambda p, arrays: packets.read_signatures(arrays[1:])[p])
    seen(masked)
    both = {party: (masked[party], signed[party]) for party in masked.keys() & signed}
    return secure_sum.collect_vectors(dealers, both, question)


def _announce(place: SumAttempt) -> Ask:
    return Ask("announce", place.scalars, [], "announce")


def _deal(place: SumAttempt, table: ShareTable) -> Ask:
    return Ask("deal", place.scalars, packets.announcements(table.announcements), "deal")
