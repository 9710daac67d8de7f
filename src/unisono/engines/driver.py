"""The driver of studies in one process: pay, open, compute, record, go on.

`drive` is the only loop over rounds here; `in_process.run`, `unisono run`, estimators and `train`
call it. A party's ledger authorises before its records are opened, and every payment is on the
ledger before its noise is drawn.

At once: the whole run is paid for before the first round, and ends with its process. That is so
without a checkpoint, and where a piece cannot be paid for alone (noise that is correlated over
rounds, parties that remember clean values or take turns).

In pieces, with a checkpoint: each piece of rounds is on every party's ledger under a name that is
granted once; the checkpoint follows when the piece is merged. So a run that is killed finds out
from the ledgers which rounds were paid for and lost: their noise died with the process and is not
drawn again. All pieces are declared to the ledgers as one plan before the first. The checkpoint in
turn names the payment of every round that was opened, and a ledger
that lacks one of them is not the ledger of this run. Lost rounds are tried again as far as the
study's retries go, with noise that was calibrated for that, and left out beyond; nobody pays for
more than was agreed on.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.collector import collector_paused
from unisono.core.events import releases_of
from unisono.core.grant import Grant, join
from unisono.core.ledger import Ledger
from unisono.core.streamed import StreamedColumns
from unisono.core.study import Party, Study, require_same_kind
from unisono.core.transcript import EVERYONE, Transcript
from unisono.core.trust import SERVER, Trust
from unisono.engines.checkpoint import Checkpoint
from unisono.engines.chunks import JOINT_PARTIES, Chunk, pieces
from unisono.engines.payments import (
    Paid,
    authorized,
    label_of,
    local_cost,
    opened,
    paid_before,
    require_new,
    require_paid,
)
from unisono.engines.record_order import answered, order_of
from unisono.engines.requirements import require_begun
from unisono.engines.rounds import SumSummary, seen_at_first, stack
from unisono.engines.streaming import StreamedChunk, by_blocks
from unisono.engines.sum_limits import StudyLimits, refused
from unisono.errors import InvalidInput

# Pieces of a run: enough to see budgets drain and to lose little, few enough to pay for quickly.
_PIECES, _PAYMENTS = 40, 2000
# After every piece: the rounds done, the server's state, and what there is to say.
Watch = Callable[[int, Any, str], None]


@dataclass(frozen=True)
class RunOutcome:
    """What came of a run: the result, how many rounds were opened, the shape of a message, what was
    seen by whom, and the server's last state."""

    value: Any
    opened: int
    shape: tuple[int, ...]
    transcript: Transcript
    state: Any = None


def drive(
    study: Study,
    parties: Sequence[Party],
    name: str | None = None,
    *,
    checkpoint: Path | None = None,
    dropouts: np.ndarray | None = None,
    order: np.ndarray | None = None,
    watch: Watch = lambda rounds, server, words: None,
    purpose: str = "",
) -> RunOutcome:
    """Run a study; with a `name`, once under it for each ledger, and with a `checkpoint` go on.
    `purpose` is said in the ledgers beside a study that has no name.

    `dropouts` (rounds, parties) is true where a party fails to answer; a round that keeps fewer
    than the agreed minimum of parties is not opened and leaves the model unchanged. `order`
    (rounds,) is a coordinator's who names records; it is drawn where none is given. Whoever watches
    is a viewer of iterates.
    """
    require_same_kind(study, parties)
    require_begun(study)
    ledgers = [party.ledger for party in parties]
    with collector_paused():
        server, state = study.algorithm.init(study.facts)
        states = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * len(parties)), state)
    carry = (server, states, np.zeros(study.algorithm.rounds, np.int64))
    whole, before, first = range(study.algorithm.rounds), Paid(0, 0, False), 0
    saved = None
    if checkpoint is not None and name is not None and in_pieces(study, state):
        saved = Checkpoint(checkpoint, name)
    if name is not None:
        before = paid_before(name, ledgers)
        if saved and saved.exists():
            first, carry = saved.load(carry)
            require_paid(name, parties, carry[2])
        else:
            require_new(name, ledgers)
    again, first, words = _lost(study, first, before)
    left = range(first, study.algorithm.rounds)
    names = order_of(study, order, ledgers[0].seed)
    work = _Work(study, parties, name, saved is not None, _alive(study, dropouts), purpose, names)
    with _declared(study, ledgers, name, sum(map(len, again)) + len(left)):
        if saved and not saved.exists():
            saved.save(0, carry)  # from now on what is paid for is known to be this run's
        if words:
            watch(first, carry[0], words)
        if saved is None:
            grants = work.pay(whole, "", server)
            for piece in _pieces(study, left) if name is not None else pieces(study, left):
                carry = work.piece(carry, grants, 0, piece, 1)
                watch(piece.stop, carry[0], "")
        else:
            todo = [(one, 2 + before.again) for one in again] + [
                (one, 1) for one in _pieces(study, left)
            ]
            for piece, attempt in todo:
                grants = work.pay(piece, label_of(attempt), server)
                carry = work.piece(carry, grants, piece.start, piece, attempt)
                work.read()  # nothing that follows from a refused sum is kept
                saved.save(piece.stop, carry)
                watch(piece.stop, carry[0], "")
    work.read()
    value = jax.tree.map(np.asarray, study.algorithm.result(carry[0]))
    number = int(np.count_nonzero(carry[2]))
    return RunOutcome(value, number, work.shape, work.transcript, carry[0])


def in_pieces(study: Study, state: Any) -> bool:
    """Whether rounds can be paid for singly, and what parties remember may be written down."""
    algorithm = study.algorithm
    remembers = bool(jax.tree.leaves(state)) and algorithm.inner is None
    single = releases_of(algorithm.event(study.facts, study.trust)) == 1
    return algorithm.alike and not remembers and single


def _lost(study: Study, first: int, before: Paid) -> tuple[list[range], int, str]:
    """Rounds to try again, the next new round, and words about what was lost."""
    lost = range(first, before.rounds)
    if not lost:
        return [], first, ""
    named = f"rounds {lost.start + 1} to {lost.stop}" if len(lost) > 1 else f"round {lost.stop}"
    if before.again + len(lost) <= study.facts.retries:
        return [lost], lost.stop, f"{named}: paid for and lost when the run stopped; tried again"
    return [], lost.stop, f"{named}: paid for and lost when the run stopped; left out"


def _pieces(study: Study, rounds: range) -> list[range]:
    """Pieces of one length, but for the last; a length that divides evenly compiles once."""
    if not rounds:
        return []
    whole = range(study.algorithm.rounds)
    wanted = max(2, min(_PIECES, _PAYMENTS // study.facts.parties))
    length = min(len(pieces(study, whole)[0]), -(-len(whole) // wanted))
    length = next((n for n in range(length, length // 2, -1) if len(whole) % n == 0), length)
    ends = [rounds.start, *range(rounds.start + length, rounds.stop, length), rounds.stop]
    return [range(a, b) for a, b in pairwise(ends)]


def _declared(
    study: Study, ledgers: Sequence[Ledger], name: str | None, left: int
) -> AbstractContextManager[None]:
    """All that is left of a run as one request to every ledger, before anything is released: all
    can bear it, or nobody is charged."""
    algorithm = study.algorithm
    if not left or (name is None and algorithm.alike):  # one grant covers all of it
        return nullcontext()
    if algorithm.alike:
        rounds = None if left == algorithm.rounds else left  # a whole run includes its retries
        cost = local_cost(study, algorithm.cost(study.facts, study.trust, rounds), ledgers)
        return Ledger.declared(ledgers, [cost] * len(ledgers), name)
    costs = [local_cost(study, own, [one]) for one, own in zip(ledgers, study.costs, strict=True)]
    return Ledger.declared(ledgers, costs, name)


def _alive(study: Study, dropouts: np.ndarray | None) -> np.ndarray:
    alive = np.ones((study.algorithm.rounds, study.facts.parties), bool)
    if dropouts is None:
        return alive
    if np.shape(dropouts) != alive.shape:
        raise InvalidInput(
            f"dropouts of shape {np.shape(dropouts)} where the study has {alive.shape}: "
            "give one row per round and one column per party"
        )
    return ~np.asarray(dropouts, bool)


class _Work:
    """Pays for pieces and computes them; the compiled program is made with the first."""

    def __init__(
        self,
        study: Study,
        parties: Sequence[Party],
        name: str | None,
        in_parts: bool,
        alive: np.ndarray,
        purpose: str,
        order: np.ndarray | None = None,
    ) -> None:
        self.study, self.parties, self.name, self.in_parts = study, parties, name, in_parts
        self.purpose = purpose
        self.alive, self.order, self.transcript = alive, order, Transcript()
        if order is not None:
            coordinator = frozenset({SERVER})
            self.transcript.record(0, "order", order, coordinator)
            self.transcript.record(0, "refused", ~answered(study, order), coordinator)
        self.shape: tuple[int, ...] = ()
        self._chunk: Any = None
        self._held: Any = None
        self._unread: tuple[range, Any] | None = None
        self._limits = StudyLimits(study)

    @collector_paused()
    def pay(self, rounds: range, label: str, server: Any) -> list[Grant]:
        """One grant of each party's ledger, on the disk before anything is drawn or read; those of
        very many parties draw as one."""
        algorithm = self.study.algorithm
        given = self._authorized(rounds, label)
        if self._chunk is None:
            self._begin(given, server)
        many = algorithm.alike and len(given) > JOINT_PARTIES
        return [join(given)] if many else given

    def _authorized(self, rounds: range, label: str) -> list[Grant]:
        study, algorithm, facts = self.study, self.study.algorithm, self.study.facts
        ledgers = [party.ledger for party in self.parties]
        if self.name is None and algorithm.alike:
            return authorized(study, ledgers, len(rounds), self.purpose)
        purpose, costs = self.name or f"study {study.hash[:16]}", study.costs
        turns = [algorithm.turns(facts, index) for index in range(len(ledgers))]
        if self.in_parts:
            purpose = f"{purpose} rounds {rounds.start}-{rounds.stop}{label}"
            costs = [algorithm.cost(facts, study.trust, len(rounds))] * len(ledgers)
            turns = [len(rounds)] * len(ledgers)
        singly = facts.records if algorithm.named else [None] * len(ledgers)
        return [
            ledger.authorize(
                local_cost(study, cost, [ledger]),
                own * algorithm.draws,
                purpose,
                once=self.name is not None,
                records=records,
            )
            for ledger, cost, own, records in zip(ledgers, costs, turns, singly, strict=True)
        ]

    @collector_paused()
    def piece(
        self, carry: Any, grants: Sequence[Grant], offset: int, rounds: range, attempt: int
    ) -> Any:
        """The state after these rounds, whose draws in the grants begin at round `offset`, and by
        which payment each was opened (see `label_of`).

        What was seen in them is read once the next piece is under way: while compiled rounds run,
        the noise of the next ones is drawn."""
        server, states, opened = carry
        after, seen = self._chunk.run((server, states, self._held), grants, offset, rounds)
        server, states, self._held = after
        self.read()
        self._unread = rounds, seen
        opened = np.array(opened)
        opened[rounds.start : rounds.stop] = attempt
        return server, states, opened

    def read(self) -> None:
        """Write down what was seen in the last piece, which waits until it is computed."""
        if self._unread is None:
            return
        rounds, seen = self._unread
        self._unread = None
        seen = jax.tree.map(np.asarray, seen)
        if not isinstance(seen, SumSummary):
            _record(self.transcript, rounds, seen)
        if self.study.facts.exact_sizes:  # else a party here may hold any number of records
            self._require_allowed(rounds, seen)

    def _require_allowed(self, rounds: range, seen: Any) -> None:
        """Refuse sums that records, bounds and noise do not allow (`sum_limits`): in one process
        that is a fault of code, which no retry would mend."""
        study, limits = self.study, self._limits
        name, each = study.algorithm.name, study.trust is Trust.LOCAL
        for parties, rows in self._alike(rounds):
            numbers = [rounds[row] for row in rows]
            if isinstance(seen, SumSummary):
                low, high, l2 = (part[rows] for part in seen)
                size = math.prod(self.shape)
                own = limits.of(parties, numbers[0], size)
                ends = float(low.min()), float(high.max()), float(l2.max())
                fault = own.summary_fault(*ends, dimension=size)
                if fault:
                    raise refused(numbers[0], f"a sum of {name} in this round or later", fault)
            elif each and seen[1] is not None and len(parties) <= JOINT_PARTIES:
                for party in parties:
                    limits.require(seen[1][rows, party], [party], numbers, f"a value of {name}")
            else:
                limits.require(seen[2][rows], parties, numbers, f"the sum of {name}")

    def _alike(self, rounds: range) -> list[tuple[tuple[int, ...], list[int]]]:
        """The parties of each round, and which rounds have the same parties and the same noise."""
        study, alike = self.study, dict[Any, list[int]]()
        for row, number in enumerate(rounds):
            parties = tuple(np.flatnonzero(self._chunk.alive[number]).tolist())
            if parties:
                event = study.algorithm.event_of(study.facts, study.trust, parties[0], number)
                alike.setdefault((parties, event), []).append(row)
        return [(parties, rows) for (parties, _), rows in alike.items()]

    def _begin(self, grants: Sequence[Grant], server: Any) -> None:
        study, seed = self.study, self.parties[0].ledger.seed
        columns = opened(study, self.parties, grants)
        streamed = by_blocks(study) or any(isinstance(own, StreamedColumns) for own in columns)
        data = None if streamed else stack(study, columns, grants)
        if data is None:
            self._chunk = StreamedChunk(study, columns, self.alive, seed, self.order)
        else:
            self._chunk = Chunk(study, data, self.alive, seed, self.order)
        self._held = seen_at_first(study, server)
        self.shape = self._chunk.shape


def _record(transcript: Transcript, rounds: range, seen: Any) -> None:
    publics, values, totals = seen
    for row, number in enumerate(rounds):
        public = jax.tree.map(lambda leaf, r=row: leaf[r], publics)
        transcript.record(number, "public", public, EVERYONE)
        if values is not None:
            transcript.record(number, "messages", values[row], frozenset({SERVER}))
        transcript.record(number, "sum", totals[row], EVERYONE)


__all__ = ["RunOutcome", "Watch", "drive", "in_pieces"]
