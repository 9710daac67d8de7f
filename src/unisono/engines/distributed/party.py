"""The party's side: bytes in, bytes out, on the party's own terms.

A `Responder` answers the server's requests out of its own ledger, with its own code, study and
roster. It pays for a turn before the records are read, answers every step once, and signs what it
says. Every failure looks like a dropout on the wire; details go to the party's own log.
"""

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from unisono.core.costs import Cost
from unisono.core.study import Party, Study
from unisono.core.trust import Trust
from unisono.core.values import Masked
from unisono.engines import wire
from unisono.engines.checkpoint import Checkpoint
from unisono.engines.distributed import packets
from unisono.engines.distributed.envelope import seal
from unisono.engines.distributed.questions import (
    QUESTION_BYTES,
    Question,
    require_counted,
    require_public,
)
from unisono.engines.distributed.results import Signed, require_signed, result_hash
from unisono.engines.distributed.sessions import objection, other_version, spoken
from unisono.engines.distributed.spender import Spender
from unisono.engines.distributed.work import Worker
from unisono.engines.requirements import asked, require_begun
from unisono.engines.sum_limits import StudyLimits, refused
from unisono.errors import DishonestServer, InvalidInput, PrivacyViolation, SumRefused
from unisono.secagg import party as secure_sum
from unisono.secagg.roster import Identity
from unisono.secagg.session import Session

log = logging.getLogger("unisono.party")


class Responder:
    """One party in one session.

    `allow` is asked before every turn and raises where the party's policy forbids it. `memory` is a
    file of the party's own, for algorithms in which a party remembers something between rounds.
    `keep` is given the server's last message, which holds the result, before it is answered: what
    raises there leaves the result with the server. `label` stands behind every payment, and
    `learnt_from` says, where a model is judged, that this party's ledger has paid for its training:
    the server is told, as everybody will be. A `bystander` may have been in the session in another
    process, or not at all: it knows no rounds of its own to hold the result against. `plan` is the
    name and the cost of all stages, where this is one of several.
    """

    def __init__(
        self,
        study: Study,
        party: Party,
        identity: Identity,
        session: Session,
        *,
        at_once: bool = False,
        allow: Callable[[int], None] | None = None,
        memory: Path | None = None,
        keep: Callable[[bytes], None] | None = None,
        label: str = "",
        learnt_from: bool = False,
        bystander: bool = False,
        plan: tuple[str, Cost] | None = None,
    ) -> None:
        require_begun(study)
        self._bystander = bystander
        self.study, self.party, self.session = study, party, session
        self.index = session.roster.require(identity)
        self._identity, self._allow, self._keep = identity, allow, keep
        self._simulation = party.ledger.simulated
        self.spender = Spender(study, party, self.index, session.account, at_once, label, plan)
        self._own_learnt_from, self.learnt_from = learnt_from, tuple[int, ...]()
        self._worker = Worker(study, party, self.index)
        algorithm, facts = study.algorithm, study.facts
        server, self._state = algorithm.init(facts)
        self._public = self._held = algorithm.ask(server)
        self._result_like = jax.tree.map(np.asarray, algorithm.result(server))
        self._stale = algorithm.schedule is not None and algorithm.schedule(facts).stale
        # The state after the last answer, until the server says whether that answer counted.
        self._unsettled: tuple[int, Any, bool] | None = None
        # Where attempts at a secure sum stand, by round and attempt: one that is being opened, and
        # the next one, which may be set up meanwhile.
        self._steps: dict[tuple[int, int], Any] = {}
        self._answered_questions: dict[int, bytes] = {}  # under secure aggregation, by rounds
        self._last_counted = -1  # the last round that counted, by which the state was settled
        self.stopped = ""  # why this party takes part no longer
        self._asked = self.spender.paid > 0  # in any round
        self.authority: bytes | None = None  # who issues the server's certificate, where it has one
        self.result: Any = None
        self.result_hash = ""
        self.signed: Signed | None = None
        self.opened = 0
        self.finished = False
        self._limits = StudyLimits(study)
        self.refusal: SumRefused | None = None  # a sum that no honest parties make: it stops here
        self._memory = Checkpoint(memory, session.id.hex()) if memory else None
        self._remember()

    def answer(self, data: bytes) -> bytes:
        """Bytes in, bytes out; raises nothing that depends on the data."""
        try:
            packet = wire.decode(data)
            if packet.tag == "bundle":
                parts = [self._answered(part) for part in wire.unbundle(packet)]
                reply = wire.bundle(parts)
            else:
                reply = self._answered(packet)
        except Exception as error:
            reply = self._nothing(error)
        return seal(self.session, self._identity, data, reply)

    def _answered(self, packet: wire.Packet) -> bytes:
        try:
            return self._answer(packet)
        except DishonestServer as error:
            self.stopped = str(error)
            return self._nothing(error)
        except Exception as error:  # whatever the data provoke must look the same from outside
            return self._nothing(error)

    def _nothing(self, error: Exception) -> bytes:
        log.error("%s: no answer: %s", self.party.name, error)
        return wire.encode("dropout", {})

    def prepare(self, shapes: list[tuple[int, ...]], streamed: bool = False) -> None:
        """Compile for columns, or streamed blocks, of these shapes before anybody waits."""
        self._worker.prepare(shapes, self._state, self._public, streamed)

    def _answer(self, packet: wire.Packet) -> bytes:
        if packet.scalars.get("session") != self.session.id.hex():
            if packet.tag == "hello" and other_version(self.session, packet.scalars):
                log.error("%s: %s", self.party.name, objection(self.session, packet.scalars))
                return wire.encode("dropout", spoken(self.session))
            raise PrivacyViolation(
                "a request of another session: roster, study, parameters or an earlier stage's "
                "result differ from this party's"
            )
        if self.stopped:
            raise PrivacyViolation(f"this party takes part no longer: {self.stopped}")
        handlers = {
            "hello": self._hello,
            "sum": self._sum,
            "ask": self._ask,
            "announce": self._announce,
            "deal": self._deal,
            "agree": self._agree,
            "unmask": self._unmask,
            "finish": self._finish,
        }
        if packet.tag not in handlers:
            raise InvalidInput(f"a request with tag {packet.tag!r}, which a party does not answer")
        if self.finished and packet.tag not in ("hello", "finish"):
            raise PrivacyViolation(f"{packet.tag!r} after the result was told: nothing is left")
        if self.refusal is not None:
            raise self.refusal
        return handlers[packet.tag](packet)

    def _reply(self, tag: str, arrays: Sequence[np.ndarray] = (), **scalars: Any) -> bytes:
        return wire.encode(tag, scalars, arrays)

    # ---------------------------------------------------------------- turns

    def _hello(self, packet: wire.Packet) -> bytes:
        said = {"learnt_from": True} if self._own_learnt_from else {}
        return wire.encode("hello", said)

    def _sum(self, packet: wire.Packet) -> bytes:
        """A sum that counted, as the server tells it: beyond its limits, nothing more is said."""
        number, (total, given) = packet.scalars.get("round"), packet.arrays
        if type(number) is not int or not 0 <= number < self.study.algorithm.rounds:
            raise InvalidInput(f"a sum of round {number!r:.20}: refused")
        parties = sorted(set(given.reshape(-1).tolist()))
        if any(type(p) is not int or p not in range(self.session.parties) for p in parties):
            raise InvalidInput("a sum of parties that are not in the roster: refused")
        fault = self._limits.fault(total, parties, number)
        if fault:
            self.refusal = refused(number, f"the sum of {len(parties)} parties", fault)
            raise self.refusal
        return self._reply("sum")

    def _ask(self, packet: wire.Packet) -> bytes:
        """One turn: pay, read, bound, add noise; under a secure sum also mask."""
        number, attempt = _place(packet)
        self._asked = True
        algorithm, trust = self.study.algorithm, self.study.trust
        turn = self.spender.turn(number, attempt)
        if turn is not None:
            self.spender.require_new(turn)  # a question that comes twice changes nothing
        counted = require_counted(packet.scalars["counted"], number, self.session.parties)
        width = len(jax.tree.leaves(self._public))
        shown, others = packet.arrays[:width], packet.arrays[width:]
        asked = b""
        if trust is Trust.SECURE_SUM:  # refuse a lying server before anything is paid
            earlier, others = packets.read_questions(others[:2]), others[2:]
            question = Question(shown, counted, earlier)
            question.require_answered(self.index, self._answered_questions)
            self._require_settled(counted[self.index])
            asked = question.digest(self.session.attempt(number, attempt))
        if turn is None:
            return self._reply("dropout")
        state, public = self._settled(counted), self._checked(shown)
        accepted = None
        if trust is Trust.SECURE_SUM:
            dealt = self._take_step(secure_sum.Dealt, packet)
            try:
                accepted = secure_sum.accept(dealt, packets.read_deals(others, self.index))
            except secure_sum.BadBox as error:  # which no record has to do with
                log.error("%s: no answer: %s", self.party.name, error)
                return self._reply("blame", dealer=error.dealer)
        public, self._held = (self._held, public) if self._stale else (public, public)
        if self._allow is not None:
            self._allow(number)
        row = packet.scalars.get("row") if algorithm.named is not None else None
        if algorithm.named is not None:
            self.spender.require_use(row)
        grant, first = self.spender.pay(number, turn, row)
        if algorithm.inner is not None:
            value, after, part = self._worker.noisy_steps(
                algorithm.inner, grant, first, public, state, number
            )
        else:
            value, after, part = self._worker.one_release(grant, first, public, state, number, row)
        arrays: list[np.ndarray] = []
        if accepted is not None:
            after_sending, masked, signature = secure_sum.mask(accepted, value, asked)
            self._answered_questions[number] = asked
            self._steps = {(number, attempt): after_sending}  # older attempts are over
            arrays = packets.signatures({self.index: signature})
            value = Masked(masked, self.session.bits, value.simulated)
        self._state, self._unsettled = state, (number, after, part)
        self._last_counted = counted[self.index]
        self._save()
        return wire.encode_value(value, {"round": number}, self._simulation, arrays)

    def _checked(self, arrays: tuple[np.ndarray, ...]) -> Any:
        """The public state, if it has the shapes and types that were agreed on, and is one that
        the algorithm can ask for."""
        expected, structure = jax.tree.flatten(self._public)
        shapes = [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in expected]
        if [(a.shape, a.dtype) for a in arrays] != shapes:
            raise PrivacyViolation("a public state of another shape than the study agreed on")
        public = jax.tree.unflatten(structure, arrays)
        require_public(self.study.algorithm, public)
        return public

    def _settled(self, counted: Sequence[int]) -> Any:
        """The state after what the server says became of the last answer: it is public.

        `counted` names, for every party, the last round whose opened sum held its answer. It moves
        the state only with an answer, whose question covers it: what is refused changes nothing.
        Under secure aggregation an answer that did not count changes nothing either: nobody knows
        whether all were asked alike for it.
        """
        if self._unsettled is None:
            return self._state
        number, after, takes_part = self._unsettled
        counts = counted[self.index] == number
        if self.session.masked and not counts:
            return self._state
        return self.study.algorithm.settle(after, counts and takes_part)

    def _require_settled(self, last: int) -> None:
        """Refuse a last round that counted, by which this party's state was not settled."""
        answered = None if self._unsettled is None else self._unsettled[0]
        if not self._remembers or last in (self._last_counted, answered):
            return
        if answered is None:
            raise PrivacyViolation(
                f"the answer of round {last + 1} counted, and this party does not remember it: its "
                "memory was lost, and it answers nothing more in this study"
            )
        raise DishonestServer(
            f"the server says that round {last + 1} was this party's last one that counted, and "
            "said otherwise before"
        )

    def _finish(self, packet: wire.Packet) -> bytes:
        """The final result, for everybody: signed, and of rounds that can have been opened."""
        leaves, structure = jax.tree.flatten(self._result_like)
        given, beside = packet.arrays[: len(leaves)], packet.arrays[len(leaves) :]
        if [(a.shape, a.dtype) for a in given] != [(b.shape, b.dtype) for b in leaves]:
            raise InvalidInput("a result of another shape than the study's")
        opened = packet.scalars["opened"]
        if type(opened) is not int or not 0 <= opened <= self.study.algorithm.rounds:
            raise InvalidInput(f"a result of {opened!r} rounds where the study has fewer")
        learnt_from = self._learnt_from(packet.scalars.get("learnt_from", []))
        signed = Signed.read(beside)
        statement = result_hash(self.session, opened, given, learnt_from)
        if self.authority is not None:
            require_signed(self.authority, statement, signed)
        if self.finished and self.result_hash != statement.hex():
            raise PrivacyViolation(
                f"a second result of this study ({statement.hex()[:16]}…) after another one "
                f"({self.result_hash[:16]}…): keep what was signed, and ask the coordinator"
            )
        self._require_possible(opened)
        if self._keep is not None and not self.finished:
            self._keep(wire.encode(packet.tag, packet.scalars, packet.arrays))
        self.result = jax.tree.unflatten(structure, given)
        self.result_hash, self.signed, self.opened = statement.hex(), signed, opened
        self.learnt_from = learnt_from
        self.finished = True
        return self._reply("finish")

    def _learnt_from(self, given: Any) -> tuple[int, ...]:
        """The parties whose records a model was learnt from, as the server names them; refused
        where it says of this party what its ledger does not."""
        known = range(self.session.parties)
        if not isinstance(given, list) or any(type(p) is not int or p not in known for p in given):
            raise InvalidInput(f"parties {given!r:.40} that were learnt from: numbers are needed")
        if self._asked and (self.index in given) != self._own_learnt_from:
            word = "has" if self._own_learnt_from else "has not"
            raise PrivacyViolation(
                f"this party's ledger {word} paid for the training of this model, and the result "
                "says otherwise: refused"
            )
        return tuple(sorted(set(given)))

    def _require_possible(self, opened: int) -> None:
        """Refuse a result of more rounds than can have been opened by what this party answered."""
        if self._bystander or self.study.algorithm.named is not None:
            return  # in how many rounds others were asked is the coordinator's secret
        if opened and not self._asked:
            raise PrivacyViolation(
                f"a result of {opened} rounds, in none of which this party was asked: refused; if "
                "the study went on without it, the coordinator has the result"
            )
        table = asked(self.study)
        everybody = table.sum(axis=1) <= self.study.facts.minimum_parties
        needed = int(np.count_nonzero(table[:, self.index] & everybody))
        without = self.study.algorithm.rounds - needed
        if opened > without + self.spender.paid:
            raise PrivacyViolation(
                f"a result of {opened} rounds, where this party answered {self.spender.paid} and "
                f"only {without} can be opened without it: refused"
            )

    # ----------------------------------------------------------- secure sum

    def _announce(self, packet: wire.Packet) -> bytes:
        """Begin an attempt, or begin it anew while nothing was sent: older keys are forgotten.

        Keys that were announced and not used yet are announced again.
        """
        number, attempt = _place(packet)
        turn = self.spender.turn(number, attempt)
        if turn is None:
            raise PrivacyViolation(f"this party has no turn in round {number}")
        self.spender.require_new(turn)
        step = self._steps.get((number, attempt))
        if not isinstance(step, secure_sum.Announced):
            step, _ = secure_sum.announce(
                self.session, self._identity, self.index, number, attempt, os.urandom(32)
            )
        being_opened = (secure_sum.Sent, secure_sum.Agreed)
        kept = {p: s for p, s in self._steps.items() if isinstance(s, being_opened)}
        self._steps = {**kept, (number, attempt): step}
        return self._reply("announce", packets.announcements({self.index: step.announcement}))

    def _deal(self, packet: wire.Packet) -> bytes:
        announced = self._take_step(secure_sum.Announced, packet)
        step, deal = secure_sum.deal(announced, packets.read_announcements(packet.arrays))
        self._steps[_place(packet)] = step
        return self._reply("deal", packets.deal(self.index, deal))

    def _agree(self, packet: wire.Packet) -> bytes:
        sent = self._take_step(secure_sum.Sent, packet)
        step, signature = secure_sum.agree(sent, packets.read_signatures(packet.arrays))
        self._steps[_place(packet)] = step
        return self._reply("agree", packets.signatures({self.index: signature}))

    def _unmask(self, packet: wire.Packet) -> bytes:
        agreed = self._take_step(secure_sum.Agreed, packet)
        shares = secure_sum.unmask(agreed, packets.read_signatures(packet.arrays))
        return self._reply("unmask", packets.shares(shares))

    def _take_step(self, expected: type, packet: wire.Packet) -> Any:
        """The state of the attempt, which is used up: every step is answered once."""
        place = _place(packet)
        if not isinstance(self._steps.get(place), expected):
            raise PrivacyViolation(
                f"step {packet.tag!r} out of order: each step of an attempt is answered once, "
                "after the one before it"
            )
        return self._steps.pop(place)

    # --------------------------------------------------------------- memory

    @property
    def _remembers(self) -> bool:
        return self._stale or bool(jax.tree.leaves(self._state))

    def _save(self) -> None:
        """Before an answer leaves: what this party would need after a crash, in its own file."""
        if self._memory is None or not self._remembers or self._unsettled is None:
            return
        number, after, part = self._unsettled
        rounds = np.array([number, self._last_counted])
        asked = [
            self._answered_questions.get(one, bytes(QUESTION_BYTES)) for one in rounds.tolist()
        ]
        questions = np.frombuffer(b"".join(asked), np.uint8).reshape(2, QUESTION_BYTES)
        kept = self._state, after, np.asarray(part), self._held, rounds, questions
        self._memory.save(number, kept)

    def _remember(self) -> None:
        """Go on where an earlier process of this party stopped."""
        if self._memory is None or not self._remembers or not self._memory.exists():
            return
        shapes = np.zeros(2), np.zeros((2, QUESTION_BYTES))
        like = self._state, self._state, np.asarray(True), self._held, *shapes
        number, (self._state, after, part, self._held, rounds, asked) = self._memory.load(like)
        self._unsettled, self._last_counted = (number, after, bool(part)), int(rounds[1])
        if self.session.masked:
            known = zip(rounds.tolist(), asked, strict=True)
            self._answered_questions = {one: row.tobytes() for one, row in known if one >= 0}


def _place(packet: wire.Packet) -> tuple[int, int]:
    number, attempt = packet.scalars.get("round"), packet.scalars.get("attempt")
    if type(number) is not int or type(attempt) is not int:
        raise InvalidInput("a request without a round and an attempt: refused")
    return number, attempt
