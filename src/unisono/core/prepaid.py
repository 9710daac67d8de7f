"""A ledger for one run of several that another ledger has paid for all together.

Where a random number of runs is made and the best is shown, what is paid is one event for all of
them (`RandomStopping`), before the first. Each run then needs permissions and noise of its own, for
the training and the score that it consists of. They come from a ledger in memory: it is opened with
a draw of the grant that paid, so that there are no more of them than runs were paid for; its noise
follows from that draw; and it grants what such a run releases, once, and nothing else. As many runs
are made as there can be, and those beyond the number that was drawn do not count: how long a search
took, and what it wrote, then does not tell that number, on whose secrecy the bound rests.

Of a run that trains on some records and is judged by others, one record is in one of the two parts:
neighbours differ in the training or in the scores. Which part it is in is drawn without looking at
it, so the run is a mixture over that draw, and costs what the dearer part does (joint convexity):
both parts are options of the event.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace

from unisono.core.costs import Cost, added, counted
from unisono.core.events import Composed, Event, random_stopping
from unisono.core.grant import Draw, Grant
from unisono.core.ledger import Accountant, Ledger
from unisono.core.policy import Budget
from unisono.core.trust import FINAL_MODEL, ITERATES, Relation, Viewer
from unisono.core.wallet import Remaining, Wallet
from unisono.errors import GrantMisused

# The number of runs has a law that grows with k + 1: few searches end after one or two.
SHAPE = 2
SEES_BEST_ONLY: frozenset[Viewer] = frozenset({FINAL_MODEL})
UNPROVED = (
    "a candidate samples records in secret, and no Rényi bound of that is known under this "
    'relation, on which random stopping rests: use zero-out or add-or-remove, or {}"all"'
)


def one_of(parts: Sequence[Cost], viewer: Viewer) -> Event:
    """One run, in which a record is in one of these parts: it costs what the dearest does."""
    return random_stopping([part[viewer] for part in parts], 1)


def stopping_cost(parts: Sequence[Cost], most: int) -> dict[Viewer, Composed]:
    """What a search by random stopping costs each viewer: who sees the best run only pays for that,
    everybody else for as many runs as there can be. Parties are told every model that their
    records judge, and are asked in every run, whatever the trust."""
    return {
        viewer: random_stopping([part[viewer] for part in parts], most, SHAPE) * 1
        if viewer in SEES_BEST_ONLY
        else one_of(parts, viewer) * most
        for viewer in parts[0]
    }


def lots_of(grants: Sequence[Grant]) -> bytes:
    """The secret by which the number of runs is drawn, of all parties' ledgers together: nobody
    chooses it alone. A search that is paid for again draws it anew, since what two searches cost
    together rests on their numbers being independent."""
    return hashlib.blake2b(b"".join(grant.lot() for grant in grants), digest_size=32).digest()


class _Bought:
    """An accountant that allows what was bought, once; epsilons are another's."""

    def __init__(self, other: Accountant) -> None:
        self._other = other

    def begin(self, epsilon: float, delta: float) -> Wallet:
        return Wallet(epsilon, delta, None, 0.0, 0.0, 0.0)

    def charge(self, wallet: Wallet, history: Composed, relation: Relation) -> Wallet | None:
        return None

    def left(self, wallet: Wallet) -> Remaining:
        return Remaining(0.0, 0.0, 0.0)

    def epsilon(self, history: Composed, relation: Relation, delta: float) -> float:
        return self._other.epsilon(history, relation, delta)

    def guess(self, history: Composed, relation: Relation, delta: float) -> float:
        return self._other.guess(history, relation, delta)


def prepaid(draw: Draw, event: Event, costs: Sequence[Cost]) -> Ledger:
    """The ledger of one run; `draw` is a draw of the grant that paid for runs by `event`. The run
    releases all of `costs`, each of which is one of the event's options: the caller answers for
    their being of different records, so that a record is in one of them only."""
    parent: Ledger = draw.grant.ledger
    known = getattr(event.noise, "options", ())
    if not costs or any(cost[ITERATES] not in known for cost in costs):
        raise GrantMisused(
            "this run is none of those that were paid for: name it among the options beforehand"
        )
    policy, delta = parent.policy, parent.policy.budget.delta
    own = counted(added(costs), policy.unit, policy.relation)
    exempt = tuple((v, Budget(math.inf, delta)) for v, seen in own.items() if seen.discloses)
    # The budget is not what limits it: all that it grants is drawn from what was bought.
    terms = replace(policy, budget=Budget(1.0, delta), exceptions=exempt)
    key = draw.take(event)
    ledger = Ledger.in_memory(terms, _Bought(parent.accountant), seed=parent.seed)
    ledger._prepaid = key
    ledger._buy(own)
    return ledger


def exhausted(parent: Ledger) -> Ledger:
    """The ledger of runs that another process has paid for, whose noise is gone with it: it grants
    nothing."""
    terms = replace(parent.policy, budget=Budget(1.0, parent.policy.budget.delta), exceptions=())
    return Ledger.in_memory(terms, _Bought(parent.accountant), seed=parent.seed)


__all__ = [
    "SEES_BEST_ONLY",
    "SHAPE",
    "UNPROVED",
    "exhausted",
    "lots_of",
    "one_of",
    "prepaid",
    "stopping_cost",
]
