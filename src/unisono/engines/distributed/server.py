"""The server's side: ask, collect until the deadline, merge; it can be killed and go on.

A round is one exchange, or under a secure sum five: keys, shares, masked vectors, signatures over
the survivors, and what opens their sum. Setting up keys and shares costs nothing and is repeated
until enough parties take part. From the masked vectors on an attempt is paid for; if it fails, it
is tried again with fresh noise as often as the study allows, then the round is left out.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.algorithm import Aggregate
from unisono.core.study import Study
from unisono.core.transcript import EVERYONE, EVERYONE_AT_THE_END, Transcript
from unisono.core.trust import SERVER, Trust
from unisono.engines import wire
from unisono.engines.checkpoint import Checkpoint
from unisono.engines.distributed import packets
from unisono.engines.distributed.link import Link
from unisono.engines.distributed.presence import Presence
from unisono.engines.requirements import asked
from unisono.errors import InvalidInput
from unisono.secagg import server as secure_sum
from unisono.secagg.encoding import signed
from unisono.secagg.session import Session

ServerNoise = Callable[[int, tuple[int, ...]], np.ndarray]
_PAUSE = 0.2


@dataclass(frozen=True)
class Conditions:
    """How long the server waits, in seconds: for one answer, and for parties to appear."""

    deadline: float = 30.0
    patience: float = 300.0


@dataclass(frozen=True)
class Outcome:
    """What came of a run: the result, what the server saw, and which rounds were opened."""

    value: Any
    transcript: Transcript
    opened: int
    attempts: int
    traffic: Mapping[str, int] = field(default_factory=dict)


def coordinate(
    study: Study, link: Link, session: Session, *, conditions: Conditions | None = None,
    server_noise: ServerNoise | None = None, checkpoint: str | Path | None = None,
    progress: Callable[[int], None] | None = None, say: Callable[[str], None] = lambda text: None,
) -> Outcome:  # fmt: skip
    """Run all rounds. `server_noise` draws the noise of a trusted server, in grid steps."""
    wait = conditions or Conditions()
    return _Run(study, link, session, wait, server_noise, checkpoint, say).all(progress)


class _Run:
    def __init__(
        self, study: Study, link: Link, session: Session, conditions: Conditions,
        server_noise: ServerNoise | None, checkpoint: str | Path | None,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        algorithm, facts, trust = study.algorithm, study.facts, study.trust
        if session.parties != facts.parties:
            raise InvalidInput(
                f"a roster of {session.parties} parties for a study of {facts.parties}: use the "
                "study's own roster"
            )
        self.study, self.session, self.conditions = study, session, conditions
        self.present = Presence(link, session, conditions.deadline)
        self.server_noise, self.say = server_noise, say
        self.merge = jax.jit(algorithm.merge)
        self.unit = algorithm.inner.grid if algorithm.inner else algorithm.grid(facts, trust)
        self.needed = np.minimum(facts.minimum_survivors, asked(study).sum(axis=1))
        self.transcript = Transcript()
        self.state, _ = algorithm.init(facts)
        # The last round whose opened sum held each party's answer; retries used; rounds opened.
        self.counted = np.full(facts.parties, -1)
        self.attempt = np.asarray(0)
        self.opened = np.asarray(0)
        self.saved = Checkpoint(checkpoint, session.id.hex()) if checkpoint else None

    def all(self, progress: Callable[[int], None] | None) -> Outcome:
        algorithm = self.study.algorithm
        first = self._resume()
        if first < algorithm.rounds:
            self.present.wait(self.session.parties, self.conditions.patience, self.say)
        for number in range(first, algorithm.rounds):
            self._round(number)
            self._save(number + 1, begun=False)
            if progress is not None:
                progress(number + 1)
        value = jax.tree.map(np.asarray, algorithm.result(self.state))
        self.transcript.record(algorithm.rounds, "result", value, EVERYONE_AT_THE_END)
        self.present.meet()
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(value)]
        self.present.exchange("finish", {}, leaves, self.present.parties, "finish")
        traffic = {"sent": self.present.bytes_sent, "received": self.present.bytes_received}
        return Outcome(value, self.transcript, int(self.opened), int(self.attempt), traffic)

    def _round(self, number: int) -> None:
        """One round: opened, perhaps after retries, or left out."""
        public = self.study.algorithm.ask(self.state)
        seen = jax.tree.map(np.asarray, public)
        self.transcript.record(number, "public", seen, EVERYONE)
        while True:
            self.present.wait(int(self.needed[number]), self.conditions.patience, self.say)
            attempt = self._secure if self.study.trust is Trust.SECURE_SUM else self._plain
            found = attempt(number, jax.tree.leaves(seen))
            if found is not None:
                self._merge(number, *found)
                return
            if self.attempt >= self.study.facts.retries:
                self.say(f"round {number + 1} is left out: too few parties answered")
                return
            self.attempt = self.attempt + 1
            self.say(f"round {number + 1} is tried again ({self.attempt} of "
                     f"{self.study.facts.retries} retries)")  # fmt: skip

    def _merge(self, number: int, total: np.ndarray, parties: Sequence[int]) -> None:
        facts = self.study.facts
        self.transcript.record(number, "sum", total, EVERYONE)
        self.counted[list(parties)] = number
        self.opened = self.opened + 1
        records = sum(facts.records[party] for party in parties)
        present = np.isin(np.arange(facts.parties), list(parties))
        scaled = jnp.asarray(total.astype(np.int32)) * self.unit
        self.state = self.merge(
            self.state, Aggregate(scaled, len(parties), float(records), present)
        )

    def _scalars(self, number: int) -> dict[str, Any]:
        return {"round": number, "attempt": int(self.attempt)}

    # ------------------------------------------------------------ attempts

    def _plain(self, number: int, public: list[Any]) -> tuple[np.ndarray, list[int]] | None:
        """One exchange; every party sends all of its noise, or trusts the server."""
        trust = self.study.trust
        scalars = {**self._scalars(number), "counted": self.counted.tolist()}
        self._save(number, begun=True)
        expected = {Trust.LOCAL: "released"}.get(trust, "disclosed")
        replies = self.present.exchange("ask", scalars, public, self.present.parties, expected)
        answers = _agreeing(_read(replies, lambda party, arrays: arrays[0]))
        self.transcript.record(number, "messages", answers, frozenset({SERVER}))
        if len(answers) < self.needed[number]:
            return None
        return _total(self.study, number, answers, self.server_noise), list(answers)

    def _secure(self, number: int, public: list[Any]) -> tuple[np.ndarray, list[int]] | None:
        """Five exchanges; the server learns the sum over the survivors."""
        dealers = self._set_up(number)
        if dealers is None:
            return None
        self._save(number, begun=True)
        scalars, present = self._scalars(number), self.present
        try:
            asked_with = {**scalars, "counted": self.counted.tolist()}
            arrays = {
                party: [*public, *packets.deals(dealers.deals, party)] for party in dealers.deals
            }
            replies = present.exchange("ask", asked_with, arrays, list(arrays), "masked")
            masked = _agreeing(_read(replies, lambda party, arrays: arrays[0]))
            sealed = _read(replies, lambda party, arrays: packets.read_sealed(arrays[1:])[party])
            self.transcript.record(number, "messages", masked, frozenset({SERVER}))
            both = {party: (masked[party], sealed[party]) for party in masked.keys() & sealed}
            survivors = secure_sum.collect_vectors(dealers, both)
            alive = list(survivors.sealed)
            replies = present.exchange(
                "agree", scalars, packets.pairs(survivors.sealed), alive, "agree"
            )
            signatures = _read(replies, lambda p, arrays: packets.read_signatures(arrays)[p])
            enough = secure_sum.collect_signatures(survivors, signatures)
            replies = present.exchange(
                "unmask", scalars, packets.signatures(enough), alive, "unmask"
            )
            shares = _read(replies, lambda p, arrays: packets.read_shares(arrays))
            return secure_sum.open_sum(survivors, shares), alive
        except secure_sum.TooFew as error:
            self.say(f"round {number + 1}: {error}")
            return None

    def _set_up(self, number: int) -> secure_sum.Dealers | None:
        """Keys and shares, begun anew until enough parties take part or patience ends."""
        ends = time.monotonic() + self.conditions.patience
        while True:
            try:
                return self._keys_and_shares(number)
            except secure_sum.TooFew as error:
                self.say(f"round {number + 1}: {error}")
                if time.monotonic() > ends:
                    return None
                time.sleep(_PAUSE)
                self.present.meet()

    def _keys_and_shares(self, number: int) -> secure_sum.Dealers:
        scalars, present = self._scalars(number), self.present
        replies = present.exchange("announce", scalars, [], present.parties, "announce")
        announcements = _read(replies, lambda p, arrays: packets.read_announcements(arrays)[p])
        table = secure_sum.collect_keys(self.session, number, int(self.attempt), announcements)
        arrays = packets.announcements(table.announcements)
        replies = present.exchange("deal", scalars, arrays, list(table.keys), "deal")
        return secure_sum.collect_deals(table, _read(replies, packets.read_deal))

    # ----------------------------------------------------------- going on

    def _save(self, next_round: int, begun: bool) -> None:
        if self.saved is not None:
            state = (self.state, self.counted, self.attempt, self.opened, np.asarray(begun))
            self.saved.save(next_round, state)

    def _resume(self) -> int:
        """The first round to run; an attempt that was under way when the server died has failed."""
        if self.saved is None or not self.saved.exists():
            return 0
        like = (self.state, self.counted, self.attempt, self.opened, np.asarray(False))
        first, loaded = self.saved.load(like)
        self.state, self.counted, self.attempt, self.opened, begun = loaded
        self.counted = np.array(self.counted)
        if begun and self.attempt < self.study.facts.retries:
            self.attempt = self.attempt + 1
        elif begun:
            self.say(f"round {first + 1} was under way when the server stopped: it is left out")
            first += 1
        return first


def _read(
    replies: Mapping[int, wire.Packet], read: Callable[[int, tuple[np.ndarray, ...]], Any]
) -> dict[int, Any]:
    """What parties said; whoever says something malformed has said nothing."""
    found = {}
    for party, packet in replies.items():
        try:
            found[party] = read(party, packet.arrays)
        except (InvalidInput, KeyError, IndexError, ValueError):
            continue
    return found


def _agreeing(answers: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """The answers whose shape and type most of them have."""
    kinds = Counter((answer.shape, answer.dtype) for answer in answers.values())
    if not kinds:
        return {}
    usual = kinds.most_common(1)[0][0]
    return {p: answer for p, answer in answers.items() if (answer.shape, answer.dtype) == usual}


def _total(
    study: Study, number: int, answers: Mapping[int, np.ndarray], server_noise: ServerNoise | None
) -> np.ndarray:
    """The noisy sum of a round as integers that wrap modulo 2^32, as in process."""
    if study.algorithm.combine == "each":
        shape = next(iter(answers.values())).shape
        messages = np.zeros((study.facts.parties, *shape), np.int64)
        for party, value in answers.items():
            messages[party] = value
        return messages
    total = np.sum([v.astype(np.int64) for v in answers.values()], axis=0)
    if study.trust is Trust.TRUSTED_SERVER:
        if server_noise is None:
            raise InvalidInput("a trusted server needs its own source of noise")
        total = total + server_noise(number, total.shape)
    return signed(total.astype(np.uint64), 32)
