"""How a party pays: turn by turn, each once, also across restarts.

A party's turns are numbered in the order of the run: turn = (rounds in which it was asked before)
+ (retries so far). A turn is paid for just before the records are read, and the payment is on the
disk with its number; so a party that was killed knows which turns are gone, whoever asks again. It
is asked for at most as many turns as noise was calibrated for.

In simulations, and where all rounds are one event (correlated noise), the whole run is paid for at
once. A run of that kind ends for a party with its process.
"""

from unisono.core.events import releases_of
from unisono.core.grant import Grant
from unisono.core.study import Party, Study
from unisono.engines.requirements import asked
from unisono.errors import GrantMisused


class Spender:
    """Pays for one party's turns in one session."""

    def __init__(
        self, study: Study, party: Party, index: int, session: bytes, at_once: bool
    ) -> None:
        self.study, self._party, self._index = study, party, index
        event = study.algorithm.event_of(study.facts, study.trust, index)
        self._at_once = at_once or releases_of(event) > 1
        self._name = f"session {session.hex()[:32]}"
        self._asked = asked(study)[:, index]
        self._grant: Grant | None = None
        self.last, self.paid = self._paid_before()

    def check(self) -> None:
        """Refuse, before the party joins, a run that its ledger could not pay to the end."""
        algorithm, facts, trust = self.study.algorithm, self.study.facts, self.study.trust
        if self._at_once or self.last < 0:
            self._party.ledger.check(algorithm.cost(facts, trust, party=self._index))

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

    def pay(self, number: int, turn: int) -> tuple[Grant, int]:
        """The grant of a turn and its first draw; each turn once, and never one before the last."""
        self.require_new(turn)
        algorithm, facts, trust = self.study.algorithm, self.study.facts, self.study.trust
        ledger, draws = self._party.ledger, algorithm.draws
        if not self._at_once:
            cost = algorithm.turn_cost(facts, trust, self._index, number)
            grant = ledger.authorize(cost, draws, f"{self._name} turn {turn}", once=True)
            self.last, self.paid = turn, self.paid + 1
            return grant, 0
        if self._grant is None:
            turns = facts.attempts(algorithm.turns(facts, self._index))
            cost = algorithm.cost(facts, trust, party=self._index)
            self._grant = ledger.authorize(cost, turns * draws, self._name, once=True)
        self.last, self.paid = turn, self.paid + 1
        return self._grant, turn * draws

    def _paid_before(self) -> tuple[int, int]:
        """The last turn that any process of this party paid for, -1 for none; and how many."""
        turns = [
            int(purpose.removeprefix(f"{self._name} turn "))
            for purpose in self._party.ledger.purposes()
            if purpose.startswith(f"{self._name} turn ")
        ]
        return max(turns, default=-1), len(turns)
