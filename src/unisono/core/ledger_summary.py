"""What a ledger file says, rebuilt from its lines alone: no lock, no repair, no writing.

A reader of the book (an ethics board, an auditor) may have no right to write it; `Ledger.open`
needs that right because it repairs and locks. `summary` is a pure function of the lines.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unisono.core.costs import counted_again
from unisono.core.events import NOTHING, Composed, compose, composed_from_json
from unisono.core.journal import understood
from unisono.core.ledger import header, raises_in, require_later, terms
from unisono.core.policy import Budget, Policy
from unisono.core.raises import Raise
from unisono.core.trust import Viewer
from unisono.errors import LedgerCorrupted


@dataclass(frozen=True)
class Entry:
    """One grant: when, what for, how many releases; what each viewer was shown, and what of it
    counts against the budget (which may count other units than the release hides)."""

    number: int
    time: str
    purpose: str
    releases: int
    cost: Mapping[Viewer, Composed]
    counted: Mapping[Viewer, Composed]


@dataclass(frozen=True)
class Summary:
    """The policy as it is now, the budget it began with and how that was raised; entries, and what
    each viewer has been shown."""

    policy: Policy
    issued: Budget
    raises: tuple[Raise, ...]
    identity: str
    created: str
    last: str
    simulated: bool
    entries: tuple[Entry, ...]
    histories: Mapping[Viewer, Composed]
    grants: Mapping[Viewer, int]


def summary(lines: Sequence[Mapping[str, Any]]) -> Summary:
    """The book that `lines` (from `journal.read`) tell; anything unexpected is corruption."""
    first = header(lines, "the file")
    raises, policy = raises_in(lines, first), terms(lines, "the file")
    with understood("a line"):
        costs, entries, last = _entries(lines[1:], policy, first.time)
    times = Counter(name for name, _ in entries)
    viewers = sorted({viewer for name in times for viewer in costs[name]})
    histories = {viewer: _history(viewer, costs, times) for viewer in viewers}
    grants = {v: sum(n for name, n in times.items() if v in costs[name]) for v in viewers}
    shown = tuple(entry for _, entry in entries)
    return Summary(
        policy,
        first.policy.budget,
        raises,
        first.identity,
        first.time,
        last,
        first.entropy == "simulation",
        shown,
        histories,
        grants,
    )


_Costs = dict[str, dict[Viewer, Composed]]


def _entries(
    lines: Sequence[Mapping[str, Any]], policy: Policy, last: str
) -> tuple[_Costs, list[tuple[str, Entry]], str]:
    """What counts of every cost, by its name; the grants; and the last date."""
    shown: _Costs = {}
    costs: _Costs = {}
    entries = []
    for line in lines:
        match line["kind"]:
            case "cost":
                name = line["cost"]
                shown[name] = {
                    Viewer(v): composed_from_json(parts) for v, parts in line["viewers"].items()
                }
                costs[name] = counted_again(shown[name], policy)
            case "grant":
                name, last = line["cost"], require_later(line["time"], last)
                entry = Entry(
                    int(line["number"]),
                    last,
                    str(line["purpose"]),
                    int(line["releases"]),
                    shown[name],
                    costs[name],
                )
                entries.append((name, entry))
            case "raise" | "plan":
                last = require_later(line["time"], last)
            case "filter":
                pass
            case other:
                raise LedgerCorrupted(
                    f"unknown line {other!r}: it was written by another version; an unknown line "
                    "is never taken as free"
                )
    return costs, entries, last


def _history(viewer: Viewer, costs: _Costs, times: Counter[str]) -> Composed:
    return compose(
        costs[name][viewer] * count
        for name, count in times.items()
        if costs[name].get(viewer, NOTHING) != NOTHING
    )
