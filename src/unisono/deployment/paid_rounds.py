"""Rounds of a study in this process, paid for piece by piece, so that a killed run goes on.

Each piece of rounds is on every party's ledger, under a name that is granted once, before its noise
is drawn; the checkpoint follows when the piece is merged. So a run that is killed finds out from
the ledgers which rounds were paid for and lost: their noise died with the process and is not drawn
again (X-9). The checkpoint in turn names the payment of every round that was opened, and a ledger
that lacks one of them is not the book of this run. Lost rounds are tried again as far as the
study's retries go, with noise that was calibrated for that, and left out beyond; nobody pays for
more than was agreed on.

Where a piece cannot be paid for alone (noise that is correlated over rounds, parties that remember
clean values or take turns) the whole run is paid for at once and ends with its process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.events import releases_of
from unisono.core.grant import Grant, join
from unisono.core.ledger import Ledger
from unisono.core.study import Party, Study, require_same_kind
from unisono.deployment.payments import Paid, label_of, paid_before, require_new, require_paid
from unisono.engines.checkpoint import Checkpoint
from unisono.engines.chunks import JOINT_PARTIES, Chunk, pieces
from unisono.engines.requirements import require_columns
from unisono.engines.rounds import seen_at_first, stack

# Pieces of a run: enough to see budgets drain and to lose little, few enough to pay for quickly.
_PIECES, _PAYMENTS = 40, 2000


@dataclass(frozen=True)
class Outcome:
    """What came of a run: the result, the rounds that were opened, the shape of a message."""

    value: Any
    opened: int
    shape: tuple[int, ...]


def run_rounds(
    study: Study, parties: Sequence[Party], name: str, *, checkpoint: Path | None = None,
    watch: Callable[[int, Any, str], None] = lambda rounds, server, words: None,
) -> Outcome:  # fmt: skip
    """Run a study once under this name, or go on with it.

    After every piece `watch` gets the rounds done, the server's state and what there is to say;
    whoever watches is a viewer of iterates.
    """
    require_same_kind(study, parties)
    ledgers = [party.ledger for party in parties]
    server, state = study.algorithm.init(study.facts)
    states = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * len(parties)), state)
    carry = (server, states, np.zeros(study.algorithm.rounds, np.int64))
    saved = Checkpoint(checkpoint, name) if checkpoint and _in_parts(study, state) else None
    before, first = paid_before(name, ledgers), 0
    if saved and saved.exists():
        first, carry = saved.load(carry)
        require_paid(name, parties, carry[2])
    else:
        require_new(name, ledgers)
    again, first, words = _lost(study, first, before)
    rest = _pieces(study, range(first, study.algorithm.rounds))
    _require_payable(study, ledgers, again, rest)
    if saved and not saved.exists():
        saved.save(0, carry)  # from now on what is paid for is known to be this run's
    work = _Work(study, parties, name, saved)
    if words:
        watch(first, carry[0], words)
    if saved is None:
        grants = work.pay(range(study.algorithm.rounds), "", server)
        for piece in rest:
            carry = work.piece(carry, grants, 0, piece, 1)
            watch(piece.stop, carry[0], "")
    else:
        for piece, attempt in [(one, 2 + before.again) for one in again] + [
            (one, 1) for one in rest
        ]:
            grants = work.pay(piece, label_of(attempt), server)
            carry = work.piece(carry, grants, piece.start, piece, attempt)
            saved.save(piece.stop, carry)
            watch(piece.stop, carry[0], "")
    return Outcome(_result(study, carry), int(np.count_nonzero(carry[2])), work.shape)


def _lost(study: Study, first: int, before: Paid) -> tuple[list[range], int, str]:
    """Rounds to try again, the next new round, and words about what was lost."""
    lost = range(first, before.rounds)
    if not lost:
        return [], first, ""
    named = f"rounds {lost.start + 1} to {lost.stop}" if len(lost) > 1 else f"round {lost.stop}"
    if before.again + len(lost) <= study.facts.retries:
        return [lost], lost.stop, f"{named}: paid for and lost when the run stopped; tried again"
    return [], lost.stop, f"{named}: paid for and lost when the run stopped; left out"


def _in_parts(study: Study, state: Any) -> bool:
    """Whether rounds can be paid for singly, and what parties remember may be written down."""
    algorithm = study.algorithm
    remembers = bool(jax.tree.leaves(state)) and algorithm.inner is None
    return (
        algorithm.alike and not remembers
        and releases_of(algorithm.event(study.facts, study.trust)) == 1
    )  # fmt: skip


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


def _require_payable(
    study: Study, ledgers: Sequence[Ledger], again: Sequence[range], rest: Sequence[range]
) -> None:
    """Refuse before anything is spent if one party cannot pay for all that is left."""
    algorithm, left = study.algorithm, sum(map(len, [*again, *rest]))
    if left == algorithm.rounds:
        costs = study.costs
    elif left:
        costs = [algorithm.cost(study.facts, study.trust, left)] * len(ledgers)
    else:
        return
    for ledger, cost in zip(ledgers, costs, strict=True):
        ledger.check(cost)


def _result(study: Study, carry: Any) -> Any:
    return jax.tree.map(np.asarray, study.algorithm.result(carry[0]))


class _Work:
    """Pays for pieces and computes them; the compiled program is made with the first."""

    def __init__(
        self, study: Study, parties: Sequence[Party], name: str, saved: Checkpoint | None
    ) -> None:
        self.study, self.parties, self.name, self.in_parts = study, parties, name, bool(saved)
        self.shape: tuple[int, ...] = ()
        self._chunk: Any = None
        self._held: Any = None

    def pay(self, rounds: range, label: str, server: Any) -> list[Grant]:
        """One grant of each party's ledger, on the disk before anything is drawn or read; those of
        very many parties draw as one."""
        study, algorithm, facts = self.study, self.study.algorithm, self.study.facts
        given = []
        for index, party in enumerate(self.parties):
            if self.in_parts:
                cost = algorithm.cost(facts, study.trust, len(rounds))
                turns, purpose = len(rounds), f"rounds {rounds.start}-{rounds.stop}{label}"
                purpose = f"{self.name} {purpose}"
            else:
                turns, purpose = algorithm.turns(facts, index), self.name
                cost = dict(study.costs[index])
            grant = party.ledger.authorize(cost, turns * algorithm.draws, purpose, once=True)
            given.append(grant)
        if self._chunk is None:
            self._begin(given, server)
        many = algorithm.alike and len(given) > JOINT_PARTIES
        return [join(given)] if many else given

    def piece(
        self, carry: Any, grants: Sequence[Grant], offset: int, rounds: range, attempt: int
    ) -> Any:
        """The state after these rounds, whose draws in the grants begin at round `offset`, and by
        which payment each was opened (see `label_of`)."""
        server, states, opened = carry
        after, _ = self._chunk.run((server, states, self._held), grants, offset, rounds)
        server, states, self._held = after
        opened = np.array(opened)
        opened[rounds.start : rounds.stop] = attempt
        return server, states, opened

    def _begin(self, grants: Sequence[Grant], server: Any) -> None:
        study = self.study
        columns = [party.open(g) for party, g in zip(self.parties, grants, strict=True)]
        for index, own in enumerate(columns):
            require_columns(study, index, own)
        alive = np.ones((study.algorithm.rounds, study.facts.parties), bool)
        seed = self.parties[0].ledger.seed
        self._chunk = Chunk(study, stack(study, columns, grants), alive, seed)
        self._held = seen_at_first(study, server)
        self.shape = self._chunk.shape


__all__ = ["Outcome", "run_rounds"]
