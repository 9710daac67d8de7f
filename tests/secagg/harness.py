"""One attempt at one round in memory: dropouts at every stage, and a server that may lie.

The five stages are named for what parties do in them. All parties live in one process, so that a
signature which one of them has checked need not be checked again: `Remembering` is a roster whose
`verify` remembers its answers, which are those of the real one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from unisono.core.values import Share
from unisono.errors import PrivacyViolation
from unisono.secagg import neighbours, party, server
from unisono.secagg.roster import Identity, Roster, digest
from unisono.secagg.session import Session

# What everybody is asked, unless a test says otherwise.
QUESTION = digest("test question")
STAGES = ("announce", "deal", "mask", "agree", "unmask")


class Remembering(Roster):
    """A roster that checks the same signature once."""

    def verify(self, index: int, signature: bytes, message: bytes) -> bool:
        if not 0 <= index < len(self):
            return False
        return _verified(self.keys[index], signature, message)


@lru_cache(maxsize=20_000)
def _verified(key: bytes, signature: bytes, message: bytes) -> bool:
    return Roster(("one",), (key,)).verify(0, signature, message)


@dataclass(frozen=True)
class Crowd:
    """A session and the identities of its parties."""

    session: Session
    identities: tuple[Identity, ...]

    def announce(self, index: int, place: tuple[int, int] = (0, 0), salt: bytes = b"") -> Any:
        """A party's first step. The worst case: the same secrets in all sessions and rounds."""
        secret = digest("test secret", index, salt)
        return party.announce(self.session, self.identities[index], index, *place, secret)


@lru_cache(maxsize=64)
def _identities(parties: int) -> tuple[Identity, ...]:
    return tuple(Identity(f"p{i}", digest("test identity", i)) for i in range(parties))


def crowd(
    parties: int,
    minimum: int | None = None,
    colluders: int = 0,
    bits: int = 32,
    study: bytes = b"study",
) -> Crowd:
    """So many parties; the minimum is the smallest that is safe, unless given."""
    people = _identities(parties)
    roster = Remembering(tuple(p.name for p in people), tuple(p.public for p in people))
    least = (parties + colluders) // 2 + 1
    return Crowd(Session(roster, study, minimum or least, colluders, bits), people)


def ring(monkeypatch: Any, parties: int, degree: int, threshold: int, colluders: int = 0) -> Crowd:
    """A crowd on a ring of this degree; with a study, and so a session, of its own."""
    monkeypatch.setattr(neighbours, "choose", lambda *_: (degree, threshold))
    return crowd(parties, colluders=colluders, study=f"ring {degree} {threshold}".encode())


def share(values: Any) -> Share:
    """Integers as a party's noised share."""
    return Share(np.asarray(values), 1.0, 0, 0, "a ledger for tests", True)


class Relay:
    """What the server passes on; the honest one changes nothing."""

    def receive(self, stage: str, sender: int, message: Any) -> Any:
        """A party's message on its way to the server; None if it gets lost."""
        return message

    def show(self, stage: str, receiver: int, shown: Any) -> Any:
        """What the server shows one party before it takes the step."""
        return shown


@dataclass
class Run:
    """What happened: the total or the failure, who refused what, and all messages and states."""

    total: np.ndarray | None = None
    failure: server.TooFew | None = None
    refusals: dict[int, tuple[str, Exception]] = field(default_factory=dict)
    messages: dict[str, dict[int, Any]] = field(default_factory=dict)
    states: dict[str, dict[int, Any]] = field(default_factory=dict)
    table: server.ShareTable | None = None
    dealers: server.Dealers | None = None
    survivors: server.Survivors | None = None

    @property
    def alive(self) -> list[int]:
        return sorted(self.survivors.signatures) if self.survivors else []


def run(
    people: Crowd,
    vectors: Mapping[int, Any],
    gone: Mapping[int, str] | None = None,
    relay: Relay | None = None,
    place: tuple[int, int] = (0, 0),
    until: str = "open",
    questions: Mapping[int, bytes] | None = None,
) -> Run:
    """One attempt; a party in `gone` is silent from that stage on; `until` stops after a stage.
    `questions` are what parties are asked other than the rest."""
    found, asked = Run(), questions or {}
    try:
        _stages(found, people, vectors, gone or {}, relay or Relay(), place, until, asked)
    except server.TooFew as failure:
        found.failure = failure
    return found


def _stages(
    found: Run,
    people: Crowd,
    vectors: Mapping[int, Any],
    gone: Mapping[int, str],
    relay: Relay,
    place: tuple[int, int],
    until: str,
    questions: Mapping[int, bytes],
) -> None:
    session = people.session

    def ask(
        stage: str,
        parties: Any,
        take: Callable[[int, Any], tuple[Any, Any]],
        shown: Callable[[int], Any] = lambda index: None,
    ) -> dict[int, Any]:
        replies, states = {}, {}
        for index in parties:
            if index in gone and STAGES.index(gone[index]) <= STAGES.index(stage):
                continue
            try:
                states[index], message = take(index, relay.show(stage, index, shown(index)))
            except (PrivacyViolation, ValueError) as error:
                found.refusals[index] = stage, error
                continue
            message = relay.receive(stage, index, message)
            if message is not None:
                replies[index] = message
        found.messages[stage], found.states[stage] = replies, states
        return replies

    def before(stage: str) -> Mapping[int, Any]:
        return found.states[STAGES[STAGES.index(stage) - 1]]

    def mask(index: int, deals: Any) -> Any:
        accepted = party.accept(before("mask")[index], deals)
        question = questions.get(index, QUESTION)
        state, vector, sealed = party.mask(accepted, share(vectors[index]), question)
        return state, (vector, sealed)

    sent = ask("announce", range(session.parties), lambda i, _: people.announce(i, place))
    if until == "announce":
        return
    table = found.table = server.collect_keys(session, *place, sent)
    sent = ask(
        "deal",
        table.keys,
        lambda i, keys: party.deal(before("deal")[i], keys),
        lambda index: dict(table.announcements),
    )
    if until == "deal":
        return
    dealers = found.dealers = server.collect_deals(table, sent)
    sent = ask("mask", dealers.deals, mask, dealers.for_party)
    if until == "mask":
        return
    survivors = found.survivors = server.collect_vectors(dealers, sent, QUESTION)
    sent = ask(
        "agree",
        survivors.signatures,
        lambda i, who: party.agree(before("agree")[i], who),
        lambda index: dict(survivors.signatures),
    )
    if until == "agree":
        return
    enough = server.collect_signatures(survivors, sent)
    sent = ask(
        "unmask",
        found.states["agree"],
        lambda i, votes: (None, party.unmask(before("unmask")[i], votes)),
        lambda index: dict(enough),
    )
    found.total = server.open_sum(survivors, sent)


def plain_sum(vectors: Mapping[int, Any], alive: Any, bits: int) -> np.ndarray:
    """The sum modulo 2^bits as signed integers, in Python's own arithmetic."""
    rows = [np.asarray(vectors[index]).ravel().tolist() for index in alive]
    half, whole = 2 ** (bits - 1), 2**bits
    return np.array([(sum(c) + half) % whole - half for c in zip(*rows, strict=True)], np.int64)
