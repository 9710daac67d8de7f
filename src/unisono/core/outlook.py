"""What a cost would take of a budget, before it is paid: what is spent, and what would remain.

Epsilons do not add up: what remains is the budget less the composition of everything, of which the
cost is a part. So two studies that take 1 each may leave more than 4 of 6.
"""

import math
from dataclasses import dataclass

from unisono.core.costs import Cost, checked_cost
from unisono.core.events import NOTHING, Composed
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget
from unisono.core.trust import Viewer
from unisono.core.words import number, remaining


@dataclass(frozen=True)
class Outlook:
    """Against the viewer of whose budget most would be used: epsilon of the cost alone, and of all
    before and after it, at the budget's delta; and of this year, where its allowance is limited."""

    viewer: Viewer
    budget: Budget
    alone: float
    before: float
    after: float
    year: int | None = None
    year_after: float = 0.0

    def words(self, what: str = "this study") -> str:
        """One line for people.

        >>> Outlook(Viewer("server"), Budget(6.0, 1e-6), 1.0, 0.0, 1.0).words()
        'this study takes epsilon 1 of 6 at delta 1e-06; 5 remain'
        """
        budget = self.budget
        spent = "" if self.before == 0 else f" ({number(self.before)} is spent already)"
        line = f"{what} takes epsilon {number(self.alone)} of {budget.epsilon:g}{spent} at delta "
        line += f"{budget.delta:g}; {_remain(budget.epsilon - self.after)}"
        if self.year is not None and budget.per_year is not None:
            left = _remain(budget.per_year - self.year_after)
            line += f"; of the {budget.per_year:g} for {self.year}, {left}"
        return line


def outlook(ledger: Ledger, cost: Cost) -> Outlook | None:
    """What a cost would take; None where every viewer is trusted."""
    policy, accountant = ledger.policy, ledger.accountant
    counted = checked_cost(
        tuple(cost.items()), policy.unit, policy.relation, policy.colluders
    ).counted
    found: dict[tuple[Composed, Composed, Composed, Budget], Outlook] = {}

    def epsilon(history: Composed, delta: float) -> float:
        return 0.0 if history == NOTHING else accountant.epsilon(history, policy.relation, delta)

    for viewer, history in counted.items():
        budget = policy.budget_for(viewer)
        if math.isinf(budget.epsilon):
            continue
        before, year = ledger.history(viewer), ledger.history_this_year(viewer)
        asked = before, year, history, budget
        if asked in found:  # viewers who have seen the same are accounted for once
            continue
        at = budget.delta
        alone, after = epsilon(history, at), epsilon(before + history, at)
        own = Outlook(viewer, budget, alone, epsilon(before, at), after)
        if budget.per_year is not None:
            after_year = epsilon(year + history, at)
            own = Outlook(viewer, budget, alone, own.before, after, ledger.year, after_year)
        found[asked] = own
    return max(found.values(), key=lambda one: one.after / one.budget.epsilon, default=None)


def _remain(left: float) -> str:
    shown = remaining(left)
    return "nothing remains" if shown == "0" else f"{shown} remain{'s' if shown == '1' else ''}"
