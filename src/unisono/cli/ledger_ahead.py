"""What may still be asked of a data set: what remains, and what that is in examples. No formatting.

Examples are counted by the ledger's filter, never by dividing epsilons: a mean at epsilon 1 with
Laplace noise (delta 0), and the study that was paid last, each asked for again and again.
"""

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli.ledger_reader import Book
from unisono.cli.words import clean, number
from unisono.core.costs import everyone
from unisono.core.events import NOTHING, Composed, Event, Laplace, bounded_sum, compose
from unisono.core.ledger_summary import Entry, Summary
from unisono.core.policy import Budget
from unisono.core.trust import Viewer
from unisono.core.wallet import Remaining

MOST = 20  # more than this is as good as many
_MEANS = (1.0, 0.1)
# One study is paid in pieces, by round, by turn or by stage.
_PIECE = re.compile(r"(?P<study>(?:run|session) [0-9a-f]+).*")


@dataclass(frozen=True)
class Left:
    """What is left against the viewer for whom that is least."""

    left: Remaining
    of: float
    delta: float

    def to_json(self) -> dict[str, Any]:
        return {**self.left._asdict(), "of": self.of, "delta": self.delta}


@dataclass(frozen=True)
class Example:
    """How often something could still be asked, in all and this year; at most `MOST`."""

    what: str
    more: int
    this_year: int | None


@dataclass(frozen=True)
class Ahead:
    """Everything that `unisono ledger show` says about the future."""

    year: int
    ever: Left
    this_year: Left | None
    examples: tuple[Example, ...]
    clock_behind: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "year": self.year,
            "remaining": self.ever.to_json(),
            "remaining_this_year": None if self.this_year is None else self.this_year.to_json(),
            "examples": [vars(one) for one in self.examples],
        }


def ahead(book: Book) -> Ahead:
    """What may still be asked, by the dates of the ledger: its year is no earlier than its last
    line's, whatever the clock says."""
    found = book.summary
    today = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(book.clock()))
    sensitivity = bounded_sum(l1=1.0, l2=1.0, linf=1.0, unit=found.policy.unit)
    distance = sensitivity.under(found.policy.relation).l1
    assert distance is not None
    costs = {
        f"a mean at epsilon {epsilon:g}": everyone(
            Event(Laplace(distance / epsilon, discrete=False), sensitivity) * 1,
            found.policy.colluders,
        )
        for epsilon in _MEANS
    }
    if found.entries:
        last = _last_study(found)
        costs[_last_words(found, last)] = last
    paced = found.policy.paced
    return Ahead(
        book.ledger.year,
        _left(book, lambda own: own.epsilon, book.ledger.left),
        _left(book, lambda own: own.per_year, book.ledger.left_this_year) if paced else None,
        tuple(_example(book, *item) for item in costs.items()),
        found.last if found.last > today else None,
    )


def _left(
    book: Book, limit: Callable[[Budget], float | None], left: Callable[[Viewer], Remaining]
) -> Left:
    policy = book.summary.policy
    general = limit(policy.budget) or math.inf
    lefts = [Left(Remaining(general, general, 1.0), general, policy.budget.delta)]
    for viewer in book.summary.histories:
        budget, own = policy.budget_for(viewer), left(viewer)
        most = limit(budget)
        if most is not None and math.isfinite(most):
            lefts.append(Left(own, most, budget.delta))
    return min(lefts, key=lambda one: one.left.epsilon)


def _example(book: Book, what: str, cost: Mapping[Viewer, Composed]) -> Example:
    more = book.ledger.fits_more(cost, MOST)
    if not book.summary.policy.paced:
        return Example(what, more, None)
    return Example(what, more, book.ledger.fits_more(cost, more, this_year=True))


def _last_entries(found: Summary) -> list[Entry]:
    """The grants that paid for the last study: one, or its pieces."""
    last = found.entries[-1]
    piece = _PIECE.fullmatch(last.purpose)
    if piece is None:
        return [last]
    study = piece["study"]
    return [
        entry
        for entry in found.entries
        if (own := _PIECE.fullmatch(entry.purpose)) and own["study"] == study
    ]


def _last_study(found: Summary) -> dict[Viewer, Composed]:
    entries = _last_entries(found)
    return {
        viewer: compose(entry.counted.get(viewer, NOTHING) for entry in entries)
        for viewer in dict.fromkeys(v for entry in entries for v in entry.counted)
    }


def _last_words(found: Summary, cost: Mapping[Viewer, Composed]) -> str:
    entry, policy = found.entries[-1], found.policy
    piece = _PIECE.fullmatch(entry.purpose)
    name = clean(entry.purpose if piece is None else piece["study"])[:40]
    budgets = {viewer: policy.budget_for(viewer) for viewer in cost}
    epsilon = max(
        (
            ACCOUNTANT.epsilon(history, policy.relation, budgets[viewer].delta)
            for viewer, history in cost.items()
            if math.isfinite(budgets[viewer].epsilon) and history != NOTHING
        ),
        default=0.0,
    )
    called = f" '{name}'" if name else ""
    return f"a study like the last one ({entry.time[:10]}{called}, epsilon {number(epsilon)})"
