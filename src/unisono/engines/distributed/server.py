"""The server's side: ask, collect until the deadline, merge; it can be killed and go on.

A round is one exchange, or the several of a secure sum (`opening`). If too few parties answer, an
attempt fails; it is tried again with fresh noise as often as the study allows, then the round is
left out.

Once a sum has its noise, the server holds it against what records, bounds and noise allow
(`sum_limits`). A sum beyond its limits fails the attempt; without retries left the run ends.
Parties get the sums that counted, and hold them against the same limits.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
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
from unisono.engines.checkpoint import Checkpoint
from unisono.engines.distributed.answers import agreeing, read
from unisono.engines.distributed.link import Link
from unisono.engines.distributed.opening import Opening, Spoilt, SumAttempt
from unisono.engines.distributed.presence import Ask, Presence
from unisono.engines.distributed.questions import QUESTION_BYTES, Question, require_public
from unisono.engines.distributed.results import ResultSigner, result_hash
from unisono.engines.record_order import order_of, schedule_of
from unisono.engines.requirements import require_begun
from unisono.engines.streaming import merged
from unisono.engines.sum_limits import StudyLimits, refused
from unisono.errors import DishonestServer, InvalidInput, SumRefused
from unisono.secagg.encoding import signed
from unisono.secagg.server import TooFew
from unisono.secagg.session import Session

# Seconds in which a party that is not gone is back: it tries again every few.
_RETURN = 60.0

ServerNoise = Callable[[int, tuple[int, ...], int], np.ndarray]


@dataclass(frozen=True)
class Conditions:
    """How long the server waits, in seconds: for one answer, and for parties to appear; and
    whether it sets up the next secure sum while it opens one."""

    deadline: float = 30.0
    connect_timeout: float = 300.0
    ahead: bool = True


@dataclass(frozen=True)
class StageOutcome:
    """What came of a run: the result, what the server saw, which rounds were opened, who has said
    that it holds the result, and the message by which it was `told`. Where a model was judged:
    whose ledgers have paid for its training, by what they say."""

    value: Any
    transcript: Transcript
    opened: int
    attempts: int
    result_hash: str
    informed: frozenset[int]
    told: bytes = b""
    learnt_from: tuple[int, ...] = ()
    traffic: Mapping[str, int] = field(default_factory=dict)


def coordinate(
    study: Study,
    link: Link,
    session: Session,
    *,
    conditions: Conditions | None = None,
    server_noise: ServerNoise | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[int], None] | None = None,
    say: Callable[[str], None] = lambda text: None,
    signer: ResultSigner | None = None,
    transcript: Transcript | None = None,
    uninformed: Collection[int] | None = None,
    earlier: Sequence[bytes] = (),
    order: np.ndarray | None = None,
) -> StageOutcome:
    """Run all rounds of one stage.

    `server_noise` draws the noise of a trusted server, in grid steps; `signer` signs the result for
    parties that know the server by a certificate; `transcript` is told what the server sees, all of
    which is kept without one; `earlier` are the messages by which the results of earlier stages
    were told (`Outcome.told`), for parties that missed them. `order` (rounds,) names records, where
    a coordinator does that, and is drawn here otherwise: by a server that goes on, anew, which
    leaves it uniform.

    A run whose rounds are all in its checkpoint only hands out the result: to those who are
    `uninformed`, for whom it waits.
    """
    wait = conditions or Conditions()
    run = _Run(
        study, link, session, wait, server_noise, checkpoint, say, transcript, earlier, order
    )
    return run.all(progress, signer, uninformed)


class _Run:
    def __init__(
        self,
        study: Study,
        link: Link,
        session: Session,
        conditions: Conditions,
        server_noise: ServerNoise | None,
        checkpoint: str | Path | None,
        say: Callable[[str], None],
        transcript: Transcript | None = None,
        earlier: Sequence[bytes] = (),
        order: np.ndarray | None = None,
    ) -> None:
        algorithm, facts, trust = study.algorithm, study.facts, study.trust
        require_begun(study)
        if session.parties != facts.parties:
            raise InvalidInput(
                f"a roster of {session.parties} parties for a study of {facts.parties}: use the "
                "study's own roster"
            )
        self.study, self.session, self.conditions = study, session, conditions
        self.present = Presence(link, session, conditions.deadline, earlier)
        self.server_noise, self.say = server_noise, say
        self.merge = jax.jit(algorithm.merge)  # where sums need a compiled program
        self.unit = algorithm.inner.grid if algorithm.inner else algorithm.grid(facts, trust)
        names = order_of(study, order)
        self.schedule = schedule_of(study, names)
        self.needed = np.minimum(facts.minimum_parties, self.schedule.asked.sum(axis=1))
        self.transcript = Transcript() if transcript is None else transcript
        if names is not None:
            self.transcript.record(0, "order", names, frozenset({SERVER}))
        self.state, _ = algorithm.init(facts)
        # The last round whose opened sum held each party's answer; retries used; rounds opened.
        self.counted = np.full(facts.parties, -1)
        self.attempt = np.asarray(0)
        self.opened = np.asarray(0)
        # What was asked in the rounds that were opened (`questions`), under secure aggregation.
        self.asked = np.zeros((algorithm.rounds, QUESTION_BYTES), np.uint8)
        # Who said, before it was asked, that its ledger paid for training the model that is judged.
        self.learnt = np.zeros(facts.parties, bool)
        self.saved = Checkpoint(checkpoint, session.id.hex()) if checkpoint else None
        self.limits = StudyLimits(study)
        self.refusal: SumRefused | None = None  # of the last attempt
        self.sum: Ask | None = None  # the last one that counted, for the parties
        self.opening = Opening(session, self.present, conditions.connect_timeout, say)

    def all(
        self,
        progress: Callable[[int], None] | None,
        signer: ResultSigner | None = None,
        uninformed: Collection[int] | None = None,
    ) -> StageOutcome:
        algorithm = self.study.algorithm
        begun = self.saved is not None and self.saved.exists()
        first = self._resume()
        if uninformed is not None:
            self.present.wait_for(uninformed, self.conditions.connect_timeout, self.say)
        else:
            self._gather(begun)
        for number in range(first, algorithm.rounds):
            self._round(number)
            self._save(number + 1, begun=False)
            if progress is not None:
                progress(number + 1)
        value = jax.tree.map(np.asarray, algorithm.result(self.state))
        self.transcript.record(algorithm.rounds, "result", value, EVERYONE_AT_THE_END)
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(value)]
        learnt_from = np.flatnonzero(self.learnt).tolist()
        statement = result_hash(self.session, int(self.opened), leaves, learnt_from)
        beside = signer.sign(statement).arrays if signer else []
        label = {"learnt_from": learnt_from} if learnt_from else {}
        told = Ask("finish", {"opened": int(self.opened), **label}, [*leaves, *beside], "finish")
        informed = self._inform(told, uninformed)
        traffic = {"sent": self.present.bytes_sent, "received": self.present.bytes_received}
        return StageOutcome(
            value,
            self.transcript,
            int(self.opened),
            int(self.attempt),
            statement.hex(),
            informed,
            self.present.written(told),
            tuple(learnt_from),
            traffic,
        )

    def _gather(self, begun: bool) -> None:
        """Wait until parties are here: at the start for all, and when a run that was begun goes on
        for those who were here lately, for a moment.

        Whoever is gone for good would hold up every restart; whoever comes back after a round has
        begun takes part in the next.
        """
        everybody, connect_timeout = range(self.session.parties), self.conditions.connect_timeout
        if begun:
            self.present.wait_for(
                self._lately() or everybody, min(connect_timeout, _RETURN), self.say
            )
        else:
            self.present.wait(len(everybody), connect_timeout, self.say)

    def _lately(self) -> list[int]:
        """Whose answers are in the last sum that was opened."""
        last = int(self.counted.max())
        return [] if last < 0 else np.flatnonzero(self.counted == last).tolist()

    def _inform(self, told: Ask, uninformed: Collection[int] | None) -> frozenset[int]:
        """Hand out the result; who was there until the end and is away for a moment gets it too."""
        wanted = set(self._lately() if uninformed is None else uninformed)
        informed: set[int] = set()
        for connect_timeout in (0.0, min(self.conditions.connect_timeout, _RETURN)):
            if not informed or wanted - informed:
                here = self.present.wait_for(wanted - informed, connect_timeout, self.say)
                asks = {p: [*self._sum_first, told] for p in here if p not in informed}
                informed |= set(self.present.exchange(asks).get("finish", {})) if asks else set()
        return frozenset(informed)

    def _round(self, number: int) -> None:
        """One round: opened, perhaps after retries, or left out."""
        public = self.study.algorithm.ask(self.state)
        seen = jax.tree.map(np.asarray, public)
        self.transcript.record(number, "public", seen, EVERYONE)
        try:
            require_public(self.study.algorithm, seen)
        except DishonestServer as error:  # parties would refuse it: nobody is asked, or charged
            self.say(f"round {number + 1} is left out: {error}")
            return
        while True:
            self.present.wait(int(self.needed[number]), self.conditions.connect_timeout, self.say)
            attempt = self._secure if self.study.trust is Trust.SECURE_SUM else self._plain
            self.refusal = None
            found = attempt(number, jax.tree.leaves(seen))
            if found is not None and self._allowed(number, *found):
                self._merge(number, *found)
                return
            if self.refusal is not None and self.attempt >= self.study.facts.retries:
                raise self.refusal
            if self.attempt >= self.study.facts.retries:
                self.say(f"round {number + 1} is left out: too few parties answered")
                return
            self.attempt = self.attempt + 1
            self.say(
                f"round {number + 1} is tried again ({self.attempt} of "
                f"{self.study.facts.retries} retries)"
            )

    def _allowed(self, number: int, total: np.ndarray, parties: Sequence[int]) -> bool:
        """Whether a sum is within its limits; one that is not was released all the same."""
        fault = self.limits.fault(total, parties, number)
        if fault:
            self.transcript.record(number, "refused sum", total, EVERYONE)
            self._refuse(refused(number, f"the sum of {len(parties)} parties", fault))
        return not fault

    def _refuse(self, refusal: SumRefused) -> None:
        self.refusal = refusal
        self.say(str(refusal).partition("\n")[0])

    @property
    def _sum_first(self) -> list[Ask]:
        """What parties are told before they are asked again. Nobody hears of records that were
        named, but for their owners."""
        return [] if self.sum is None or self.study.algorithm.named is not None else [self.sum]

    def _merge(self, number: int, total: np.ndarray, parties: Sequence[int]) -> None:
        facts = self.study.facts
        self.transcript.record(number, "sum", total, EVERYONE)
        told = [total.astype(np.int32), np.array(parties, np.int32)]
        self.sum = Ask("sum", {"round": number}, told, "sum")
        self.counted[list(parties)] = number
        self.opened = self.opened + 1
        records = sum(facts.records[party] for party in parties)
        present = np.isin(np.arange(facts.parties), list(parties))
        if self.study.algorithm.by_blocks:
            own = len(parties), float(records), present
            self.state = merged(self.study.algorithm, self.state, total, self.unit, *own)
            return
        scaled = jnp.asarray(total.astype(np.int32)) * self.unit
        self.state = self.merge(
            self.state, Aggregate(scaled, len(parties), float(records), present)
        )

    # ------------------------------------------------------------ attempts

    def _plain(self, number: int, public: list[Any]) -> tuple[np.ndarray, list[int]] | None:
        """One exchange; every party sends all of its noise, or trusts the server."""
        place = SumAttempt(number, int(self.attempt))
        scalars = {**place.scalars, "counted": self.counted.tolist()}
        expected = "released" if self.study.trust is Trust.LOCAL else "disclosed"
        parties = self.present.parties
        if self.schedule.rows is not None:  # nobody but its owner hears of a record that is named
            own = self.schedule.asked[number]
            parties = [party for party in parties if own[party]]
            scalars["row"] = int(self.schedule.rows[number])
            scalars["counted"] = np.where(own, self.counted, -1).tolist()
        ask = Ask("ask", scalars, public, expected)
        self._save(number, begun=True)
        asks = {party: [*self._sum_first, ask] for party in parties}
        replies = self.present.exchange(asks) if parties else {}
        answers = agreeing(read(replies.get("ask", {}), lambda party, arrays: arrays[0]))
        self._saw(number, answers)
        if self.study.trust is Trust.LOCAL:
            answers = {p: own for p, own in answers.items() if self._keeps(number, p, own)}
        if len(answers) < self.needed[number]:
            return None
        return _total(self.study, place, answers, self.server_noise), list(answers)

    def _keeps(self, number: int, party: int, value: np.ndarray) -> bool:
        """Whether a party's own value, which has all of its noise, is within its limits; else the
        party is left out of the round."""
        fault = self.limits.fault_of(value, party, number)
        if fault:
            name = self.session.roster.names[party]
            self._refuse(refused(number, f"the value of {name}", fault, single=True))
        return not fault

    def _secure(self, number: int, public: list[Any]) -> tuple[np.ndarray, list[int]] | None:
        """The server learns the sum over the survivors."""
        place, rounds = SumAttempt(number, int(self.attempt)), self.study.algorithm.rounds
        ahead = self.conditions.ahead and number + 1 < rounds
        counted = self.counted.tolist()
        earlier = {last: self.asked[last].tobytes() for last in set(counted) - {-1}}
        question = Question([np.asarray(leaf) for leaf in public], counted, earlier)
        while True:
            dealers = self.opening.set_up(place)
            if dealers is None:
                return None
            self._save(number, begun=True)
            try:
                found = self.opening.open(
                    place,
                    dealers,
                    question,
                    SumAttempt(number + 1, place.attempt) if ahead else None,
                    lambda masked: self._saw(number, masked),
                    self._sum_first,
                )
                asked = question.digest(self.session.attempt(*place))
                self.asked[number] = np.frombuffer(asked, np.uint8)
                return found
            except Spoilt as error:
                self.say(f"round {number + 1}: {error}; it begins anew without whoever is to blame")
            except TooFew as error:
                self.say(f"round {number + 1}: {error}")
                return None

    def _saw(self, number: int, messages: Any) -> None:
        self.transcript.record(number, "messages", messages, frozenset({SERVER}))

    # ----------------------------------------------------------- going on

    def _save(self, next_round: int, begun: bool) -> None:
        self.learnt[list(self.present.learnt_from)] = True
        if self.saved is not None:
            self.saved.save(next_round, self._standing(begun))

    def _standing(self, begun: bool) -> tuple[Any, ...]:
        """All that a server needs to go on; `begun` says that a round is under way."""
        under_way = np.asarray(begun)
        numbers = self.counted, self.attempt, self.opened, under_way, self.learnt
        return self.state, *numbers, self.asked

    def _resume(self) -> int:
        """The first round to run; an attempt that was under way when the server died has failed."""
        if self.saved is None or not self.saved.exists():
            return 0
        first, loaded = self.saved.load(self._standing(False))
        self.state, self.counted, self.attempt, self.opened, begun, self.learnt, self.asked = loaded
        self.counted, self.learnt = np.array(self.counted), np.array(self.learnt)
        self.asked = np.array(self.asked)
        if begun and self.attempt < self.study.facts.retries:
            self.attempt = self.attempt + 1
        elif begun:
            self.say(f"round {first + 1} was under way when the server stopped: it is left out")
            first += 1
        return first


def _total(
    study: Study,
    place: SumAttempt,
    answers: Mapping[int, np.ndarray],
    server_noise: ServerNoise | None,
) -> np.ndarray:
    """The noisy sum of a round as integers that wrap modulo 2^32, as in process."""
    if study.algorithm.combine == "each":
        shape = next(iter(answers.values())).shape
        messages = np.zeros((study.facts.parties, *shape), np.int64)
        for party, value in answers.items():
            messages[party] = value
        return messages
    # One by one: a table of all would take as much memory again.
    total = np.asarray(sum(value.astype(np.int64) for value in answers.values()))
    if study.trust is Trust.TRUSTED_SERVER:
        if server_noise is None:
            raise InvalidInput("a trusted server needs its own source of noise")
        total = total + server_noise(place.round, total.shape, place.attempt)
    return signed(total.astype(np.uint64), 32)
