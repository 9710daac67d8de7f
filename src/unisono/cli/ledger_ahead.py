"""What may still be asked of a data set: what remains, and what that is in examples. No formatting.

Examples are counted by the accountant, never by dividing epsilons: a mean at epsilon 1 with Laplace
noise (delta 0), which is what it costs at most whoever sees it, and the study that was paid last.
"""

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli.ledger_reader import Book
from unisono.cli.words import clean, number
from unisono.core.costs import everyone
from unisono.core.events import NOTHING, Composed, Event, Laplace, bounded_sum, compose
from unisono.core.ledger_summary import Entry, Summary
from unisono.core.trust import Viewer

MOST = 99  # more than this is as good as many
_MEANS = (1.0, 0.1)
# One study is paid in pieces, by round, by turn or by stage.
_PIECE = re.compile(r"(?P<study>(?:run|session) [0-9a-f]+).*")


@dataclass(frozen=True)
class Left:
    """What remains against the viewer of whose budget least does."""

    epsilon: float
    of: float
    delta: float


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
            "remaining": vars(self.ever),
            "remaining_this_year": None if self.this_year is None else vars(self.this_year),
            "examples": [vars(one) for one in self.examples],
        }


def ahead(book: Book, now: float | None = None) -> Ahead:
    """What may still be asked, by the dates of the ledger: its year is no earlier than its last
    line's, whatever the clock says."""
    found, clock = book.summary, time.time() if now is None else now
    today = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(clock))
    year = int(max(today, found.last)[:4])
    this_year = found.of_year(year)
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
    return Ahead(
        year,
        _left(found, found.histories, lambda own: own.epsilon),
        _left(found, this_year, lambda own: own.per_year) if found.policy.paced else None,
        tuple(_example(found, this_year, *item) for item in costs.items()),
        found.last if found.last > today else None,
    )


def _left(found: Summary, histories: Mapping[Viewer, Composed], limit: Any) -> Left:
    general = found.policy.budget
    lefts = [Left(limit(general) or math.inf, limit(general) or math.inf, general.delta)]
    for viewer, history in histories.items():
        budget = found.policy.budget_for(viewer)
        if math.isinf(budget.epsilon) or limit(budget) is None or history == NOTHING:
            continue
        spent = ACCOUNTANT.epsilon(history, found.policy.relation, budget.delta)
        lefts.append(Left(max(limit(budget) - spent, 0.0), limit(budget), budget.delta))
    return min(lefts, key=lambda one: one.epsilon)


def _example(
    found: Summary,
    this_year: Mapping[Viewer, Composed],
    what: str,
    cost: Mapping[Viewer, Composed],
) -> Example:
    more = _more(found, found.histories, cost, lambda own: own.epsilon)
    if not found.policy.paced:
        return Example(what, more, None)
    return Example(what, more, min(more, _more(found, this_year, cost, lambda own: own.per_year)))


def _more(
    found: Summary, spent: Mapping[Viewer, Composed], cost: Mapping[Viewer, Composed], limit: Any
) -> int:
    """How often a cost still fits, at most `MOST`; viewers who have seen the same count once."""
    asked = {
        (spent.get(viewer, NOTHING), history, limit(budget), budget.delta)
        for viewer, history in cost.items()
        for budget in [found.policy.budget_for(viewer)]
        if not math.isinf(budget.epsilon) and limit(budget) is not None
    }

    def fits(times: int) -> bool:
        return all(
            ACCOUNTANT.fits(before + history * times, found.policy.relation, epsilon, delta)
            for before, history, epsilon, delta in asked
        )

    low, high = 0, 1
    while high <= MOST and fits(high):
        low, high = high, 2 * high
    high = min(high, MOST + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


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
