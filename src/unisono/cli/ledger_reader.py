"""A ledger file as an auditor reads it: the summary with its costs. No formatting."""

import math
import string
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.events import NOTHING, Composed, composed_to_json
from unisono.core.journal import is_torn, read
from unisono.core.ledger import Clock, Ledger
from unisono.core.ledger_summary import Entry, Summary, summary
from unisono.core.policy import Budget, Policy
from unisono.core.raises import require_key
from unisono.core.trust import Viewer, describe
from unisono.core.verification import Verification, verify_charges
from unisono.core.wallet import Remaining
from unisono.errors import InvalidInput, UnisonoError


@dataclass(frozen=True)
class PlannedSpending:
    """What is left of one viewer's budget, and the epsilon of all releases so far, had they been
    fixed in advance."""

    viewer: Viewer
    budget: Budget
    left: Remaining
    epsilon: float
    delta: float
    grants: int

    @property
    def share(self) -> float:
        """Part of the budget that is used; nothing of an unlimited one."""
        return 1 - self.left.share


@dataclass(frozen=True)
class Book:
    """Everything `show` and `export` print."""

    file: Path
    head: str
    torn: bool
    summary: Summary
    ledger: Ledger
    spending: tuple[PlannedSpending, ...]
    clock: Clock

    def alone(self, entry: Entry, viewer: Viewer) -> float:
        """Epsilon of one entry by itself, at the delta of the viewer's budget."""
        return _epsilon(self.summary, viewer, entry.counted[viewer])

    def delta(self, viewer: Viewer) -> float:
        """The delta at which costs against this viewer are stated."""
        return _delta(self.summary, viewer)

    def to_json(self, last: int | None = None) -> dict[str, Any]:
        entries = self.summary.entries if last is None else _last(self.summary.entries, last)
        return {
            "file": str(self.file),
            "head": self.head,
            "created": self.summary.created,
            "simulated": self.summary.simulated,
            "incomplete_last_line": self.torn,
            "identity": self.summary.identity,
            "policy": self.summary.policy.to_json(),
            "issued": self.summary.issued.to_json(),
            "raises": [one.to_json() for one in self.summary.raises],
            "grants": len(self.summary.entries),
            "viewers": [
                {
                    "viewer": str(s.viewer),
                    "meaning": describe(s.viewer),
                    "budget": s.budget.epsilon,
                    "left": s.left._asdict(),
                    "fixed_in_advance": s.epsilon,
                    "exceeded_before_the_filter": s.viewer in self.ledger.older,
                    "delta": s.delta,
                    "grants": s.grants,
                }
                for s in self.spending
            ],
            "entries": [self._entry_json(entry) for entry in entries],
        }

    def _entry_json(self, entry: Entry) -> dict[str, Any]:
        return {
            "number": entry.number,
            "time": entry.time,
            "purpose": entry.purpose,
            "releases": entry.releases,
            "viewers": {
                str(viewer): {
                    "epsilon_alone": self.alone(entry, viewer),
                    "events": composed_to_json(history),
                }
                for viewer, history in entry.cost.items()
            },
        }


def read_book(file: Path, obey: Policy | None = None, clock: Clock = time.time) -> Book:
    """The book in `file`, without locking, repairing or writing it; with a policy that its owner
    lowered, by what that allows."""
    lines, head = read(file)
    found = summary(lines)
    ledger = Ledger.replica(lines, ACCOUNTANT, obey, clock)
    found = replace(found, policy=ledger.policy)
    spending = tuple(
        PlannedSpending(
            viewer,
            found.policy.budget_for(viewer),
            ledger.left(viewer),
            _epsilon(found, viewer, history),
            _delta(found, viewer),
            found.grants[viewer],
        )
        for viewer, history in found.histories.items()
    )
    return Book(file, head, is_torn(file), found, ledger, spending, clock)


def check_head(head: str | None) -> str | None:
    """A head as it is written in ledgers: 64 hexadecimal digits in lower case."""
    if head is None:
        return None
    wanted = head.strip().lower()
    if len(wanted) != 64 or set(wanted) - set(string.hexdigits):
        raise InvalidInput(
            f"--head {head!r} is not a head: give all 64 hexadecimal digits that "
            "'unisono ledger verify' or 'show' printed"
        )
    return wanted


def check_book(file: Path, head: str | None, key: bytes | None = None) -> Verification:
    """The chain, the head, and whether every line can be understood; with a party's public key,
    whether it signed every raise of the budget."""
    finding = verify_charges(file, ACCOUNTANT, head)
    if not finding.sound:
        return finding
    try:
        found = summary(read(file)[0])
        if key is not None:
            require_key(found.raises, key, "the key on the card")
    except UnisonoError as error:
        return Verification(finding.entries, finding.head, False, str(error))
    return finding


def _last(entries: tuple[Entry, ...], count: int) -> tuple[Entry, ...]:
    return entries[len(entries) - min(count, len(entries)) :]


def _epsilon(found: Summary, viewer: Viewer, history: Composed) -> float:
    if history == NOTHING:
        return 0.0
    return ACCOUNTANT.epsilon(history, found.policy.relation, _delta(found, viewer))


def _delta(found: Summary, viewer: Viewer) -> float:
    """Where a viewer's epsilon is read off: a trusted viewer has no delta of their own."""
    budget = found.policy.budget_for(viewer)
    return found.policy.budget.delta if math.isinf(budget.epsilon) else budget.delta
