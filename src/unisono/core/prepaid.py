"""A ledger for one run of several that another ledger has paid for all together.

Where a random number of runs is made and the best is shown, what is paid is one event for all of
them (`RandomStopping`), before the first. Each run then needs permissions and noise of its own, for
the training and the score that it consists of. They come from a ledger in memory: it is opened with
a draw of the grant that paid, so that there are no more of them than runs were paid for; its noise
follows from that draw; and it grants what one of the options releases, once, and nothing else.
"""

import math
from dataclasses import replace

from unisono.core.costs import Cost, counted
from unisono.core.events import Composed, Event
from unisono.core.grant import Draw
from unisono.core.ledger import Accountant, Ledger
from unisono.core.policy import Budget
from unisono.core.trust import ITERATES, Relation
from unisono.errors import GrantMisused


class _Bought:
    """An accountant that allows what was bought, event by event; epsilons are another's."""

    def __init__(self, bought: list[Composed], other: Accountant) -> None:
        self._bought = [dict(history.parts) for history in bought]
        self._other = other

    def fits(self, history: Composed, relation: Relation, epsilon: float, delta: float) -> bool:
        return any(
            all(count <= own.get(event, 0) for event, count in history.parts)
            for own in self._bought
        )

    def epsilon(self, history: Composed, relation: Relation, delta: float) -> float:
        return self._other.epsilon(history, relation, delta)


def prepaid(draw: Draw, event: Event, cost: Cost) -> Ledger:
    """The ledger of one run, which costs `cost`, one of the options of `event`; `draw` is a draw of
    the grant that paid for such runs."""
    parent: Ledger = draw.grant.ledger
    if not event.noise.nested or cost[ITERATES] not in getattr(event.noise, "options", ()):
        raise GrantMisused(
            "this run is none of those that were paid for: name it among the options beforehand"
        )
    policy, delta = parent.policy, parent.policy.budget.delta
    own = counted(cost, policy.unit, policy.relation)
    exempt = tuple((v, Budget(math.inf, delta)) for v, seen in own.items() if seen.discloses)
    bought = [history for history in own.values() if not history.discloses]
    # The budget is not what limits it: a pure one stands for "what was bought".
    terms = replace(policy, budget=Budget(1.0, delta), exceptions=exempt)
    key = draw.take(event)
    ledger = Ledger.in_memory(terms, _Bought(bought, parent.accountant), seed=parent.seed)
    ledger._prepaid = key
    return ledger


__all__ = ["prepaid"]
