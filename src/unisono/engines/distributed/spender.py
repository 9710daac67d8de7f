"""How a party pays: turn by turn, each once, also across restarts.

A party's turns are numbered in the order of the run: turn = (rounds in which it was asked before)
+ (retries so far). A turn is paid for just before the records are read, and the payment is on the
disk with its number; so a party that was killed knows which turns are gone, whoever asks again. It
is asked for at most as many turns as noise was calibrated for, and all of them, of all stages of a
study, are declared to its ledger as one plan before the first.

In simulations, where all rounds are one event (correlated noise), and where a coordinator names
records, the whole run is paid for at once. A run of that kind ends for a party with its process: a
new one finds the payment in the ledger, knows neither the noise nor how often records were used,
and is silent.
"""

from collections import Counter
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from unisono.core.costs import Cost
from unisono.core.events import releases_of
from unisono.core.grant import Grant
from unisono.core.ledger import Ledger
from unisono.core.printed import require_printed_allowed
from unisono.core.study import Party, Study
from unisono.engines.requirements import asked
from unisono.errors import GrantMisused


class Spender:
    """Pays for one party's turns in one session."""

    def __init__(
        self,
        study: Study,
        party: Party,
        index: int,
        session: bytes,
        at_once: bool,
        label: str = "",
        plan: tuple[str, Cost] | None = None,
    ) -> None:
        self.study, self._party, self._index = study, party, index
        require_printed_allowed(study, [party.ledger])
        event = study.algorithm.event_of(study.facts, study.trust, index)
        named = study.algorithm.named
        self._at_once = at_once or releases_of(event) > 1 or named is not None
        self._name, self._label = f"session {session.hex()[:32]}", label
        self._plan = plan  # of all stages, by name
        # A party cannot know when its records will be named: it may be asked in any round.
        always = np.ones(study.algorithm.rounds, bool)
        self._asked = always if named is not None else asked(study)[:, index]
        self._uses: Counter[int] = Counter()
        self._grant: Grant | None = None
        self.last, self.paid = self._paid_before()

    @property
    def begun(self) -> bool:
        """Whether anything of the run was ever paid for: a turn of it, or all of it at once."""
        return self.last >= 0 or self._paid_at_once

    @property
    def _paid_at_once(self) -> bool:
        purposes = self._party.ledger.purposes()
        return any(one == self._name or one.startswith(f"{self._name} of ") for one in purposes)

    def check(self) -> None:
        """Refuse, before the party joins, a run that its ledger could not pay to the end. Of one
        that was begun what is left is checked turn by turn; one that was paid for at once is over
        for this party, which may still fetch the result."""
        algorithm, facts, trust = self.study.algorithm, self.study.facts, self.study.trust
        if not self.begun and not self.declared:
            self._party.ledger.check(algorithm.cost(facts, trust, party=self._index))

    @property
    def declared(self) -> bool:
        """Whether the ledger has charged for all of the study, by any process of this party."""
        return self._party.ledger.has_plan(self._plan[0] if self._plan else self._name)

    def turn(self, number: int, attempt: int) -> int | None:
        """Which turn of this party it is; None if it is not asked in this round."""
        facts = self.study.facts
        if not (0 <= number < len(self._asked) and 0 <= attempt <= facts.retries):
            raise GrantMisused(
                f"round {number}, attempt {attempt}: the study has {len(self._asked)} rounds and "
                f"{facts.retries} retries"
            )
        return int(self._asked[:number].sum()) + attempt if self._asked[number] else None

    def require_new(self, turn: int) -> None:
        """Refuse a turn that was paid for, or one before it."""
        if turn <= self.last:
            raise GrantMisused(
                f"turn {turn} was answered before, or a later one was ({self.last}): a turn is "
                "answered once, and earlier ones are over"
            )

    def require_use(self, record: object) -> None:
        """Refuse to use a record that is not there, or more often than was agreed."""
        named, held = self.study.algorithm.named, self.study.facts.records[self._index]
        assert named is not None
        if type(record) is not int or not 0 <= record < held:
            raise GrantMisused(f"record {record!r} is named, where this party holds {held}")
        if self._uses[record] >= named.uses:
            raise GrantMisused(
                f"record {record} was used {named.uses} times, as often as was agreed: it is not "
                "used again"
            )

    def pay(self, number: int, turn: int, record: int | None = None) -> tuple[Grant, int]:
        """The grant of a turn and its first draw; each turn once, and never one before the last."""
        self.require_new(turn)
        if record is not None:
            self.require_use(record)
        algorithm, facts, trust = self.study.algorithm, self.study.facts, self.study.trust
        ledger, draws = self._party.ledger, algorithm.draws
        if not self._at_once:
            whole = algorithm.cost(facts, trust, party=self._index)
            cost = algorithm.turn_cost(facts, trust, self._index, number)
            purpose = f"{self._name} turn {turn}{self._label}"
            with self._declared(whole):
                grant = ledger.authorize(cost, draws, purpose, once=True)
            self.last, self.paid = turn, self.paid + 1
            return grant, 0
        if self._grant is None:
            if self._paid_at_once:
                raise GrantMisused(f"{self._name} was paid for before, by another process")
            turns = facts.attempts(algorithm.turns(facts, self._index))
            cost = algorithm.cost(facts, trust, party=self._index)
            held = None if record is None else facts.records[self._index]
            purpose = f"{self._name}{self._label}"
            with self._declared(cost):
                self._grant = ledger.authorize(cost, turns * draws, purpose, True, held)
        first = turn * draws
        if record is not None:
            first = self._uses.total()
            self._uses[record] += 1
        self.last, self.paid = turn, self.paid + 1
        return self._grant, first

    def _declared(self, whole: Cost) -> AbstractContextManager[None]:
        """All turns of the study as one plan, charged before the first. A run whose first turns an
        older version paid for singly goes on so."""
        ledger, (name, cost) = self._party.ledger, self._plan or (self._name, whole)
        if self.begun and not self.declared:
            return nullcontext()
        return Ledger.declared([ledger], [cost], name)

    def _paid_before(self) -> tuple[int, int]:
        """The last turn that any process of this party paid for, -1 for none; and how many."""
        turns = [
            int(purpose.removeprefix(f"{self._name} turn ").split()[0])
            for purpose in self._party.ledger.purposes()
            if purpose.startswith(f"{self._name} turn ")
        ]
        return max(turns, default=-1), len(turns)
