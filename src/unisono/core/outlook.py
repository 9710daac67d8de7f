"""What a cost would take of a budget, before it is charged, and what would be left."""

import math
from dataclasses import dataclass

from unisono.core.costs import Cost, checked_cost
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget
from unisono.core.trust import Viewer
from unisono.core.wallet import Remaining
from unisono.core.words import number


@dataclass(frozen=True)
class Outlook:
    """Against the viewer of whose budget least would be left: epsilon of the cost alone, at the
    budget's delta; and what is left after it, for ever and of this year's allowance."""

    viewer: Viewer
    budget: Budget
    alone: float
    left: Remaining
    year: int | None = None
    year_left: Remaining | None = None

    def words(self, what: str = "this study") -> str:
        """One line for people.

        >>> left = Remaining(5.8, 0.0, 0.97)
        >>> Outlook(Viewer("server"), Budget(6.0, 1e-6), 1.0, left).words("this query")
        'this query takes epsilon 1 of 6; left: epsilon 5.8 at delta 1e-06 for one Gaussian release'
        """
        budget = self.budget
        line = f"{what} takes epsilon {number(self.alone)} of {budget.epsilon:g}; left: "
        line += self.left.words(budget.delta)
        if self.year_left is not None:
            line += f"; of the {budget.per_year:g} for {self.year}: "
            line += self.year_left.words(budget.delta)
        return line


def outlook(ledger: Ledger, cost: Cost) -> Outlook | None:
    """What a cost would take; None where every viewer is trusted."""
    policy, accountant = ledger.policy, ledger.accountant
    counted = checked_cost(
        tuple(cost.items()), policy.unit, policy.relation, policy.colluders
    ).counted
    found = []
    for viewer, history in counted.items():
        budget = policy.budget_for(viewer)
        if math.isinf(budget.epsilon):
            continue
        alone = accountant.epsilon(history, policy.relation, budget.delta) if history.parts else 0.0
        own = Outlook(viewer, budget, alone, ledger.left(viewer, history))
        if budget.per_year is not None:
            year = ledger.left_this_year(viewer, history)
            own = Outlook(viewer, budget, alone, own.left, ledger.year, year)
        found.append(own)
    return min(found, key=lambda one: one.left.share, default=None)
