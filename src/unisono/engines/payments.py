"""Paying for a run before its records are opened, and what ledgers remember of it.

`authorized` and `opened` are the two steps with which every run in one process begins, in this
order: the driver's (`driver`) and that of a single release outside of programs (`one_round`). The
rest is which rounds of a run were paid for, under which names:

NAME                         the whole run, paid for at once
NAME rounds 4-8              a piece of it
NAME rounds 4-8 again 0      the same piece once more, after 0 rounds that were tried again

NAME is "run" and the hash of a study file, or "study" and the hash of a study without one. Between
machines it is "session X turn 3 of HASH" (`distributed.spender`). So a ledger can say whether its
records were learnt from (`paid_training`).
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unisono.core.costs import Cost
from unisono.core.grant import Grant
from unisono.core.ledger import Ledger
from unisono.core.printed import require_printed_allowed
from unisono.core.streamed import StreamedColumns
from unisono.core.study import Party, Study
from unisono.core.trust import SERVER, Trust, Viewer
from unisono.errors import GrantMisused, InvalidInput, LedgerCorrupted


def authorized(
    study: Study, ledgers: Sequence[Ledger], turns: int, purpose: str = ""
) -> list[Grant]:
    """A grant of each party's ledger for a whole run, where all parties pay alike: all pay, or
    none. The payment is on the disk when this returns; `purpose` is said beside the study."""
    require_printed_allowed(study, ledgers)
    words = f"study {study.hash[:16]}"
    return Ledger.authorize_all(
        ledgers,
        local_cost(study, study.cost, ledgers),
        turns * study.algorithm.draws,
        f"{purpose}, {words}" if purpose else words,
    )


def local_cost(study: Study, cost: Cost, ledgers: Sequence[Ledger]) -> Cost:
    """The cost, with the largest coalition that a policy asks about, where the study plans for
    fewer colluders but adds all of a party's noise at the party (trust LOCAL): no number of others
    can take any of it away, so they see what the server sees."""
    [found] = local_costs(study, [cost], ledgers)
    return found


def local_costs(study: Study, costs: Sequence[Cost], ledgers: Sequence[Ledger]) -> list[Cost]:
    """`local_cost` of each; the policies are asked once for all of them, and not at all where noise
    is shared: a hundred thousand parties have as many costs."""
    if study.trust is not Trust.LOCAL:
        return list(costs)
    needed = max((ledger.policy.colluders for ledger in ledgers), default=0)

    def asked(cost: Cost) -> Cost:
        known = max((viewer.coalition for viewer in cost), default=0)
        return cost if needed <= known else {**cost, Viewer.colluders(needed): cost[SERVER]}

    return [asked(cost) for cost in costs]


def opened(
    study: Study, parties: Sequence[Party], grants: Sequence[Grant]
) -> list[tuple[np.ndarray, ...]]:
    """Every party's columns, for the grant that its own ledger has given."""
    columns = [party.open(grant) for party, grant in zip(parties, grants, strict=True)]
    for index, own in enumerate(columns):
        require_columns(study, index, own)
    return columns


def require_columns(
    study: Study, index: int, columns: Sequence[np.ndarray] | StreamedColumns
) -> None:
    """Widths, and sizes where they are exact, are public facts: refuse what does not fit."""
    facts = study.facts
    if isinstance(columns, StreamedColumns):
        lengths, shape = {columns.rows}, columns.shapes[0]
    else:
        lengths, shape = {len(column) for column in columns}, np.shape(columns[0])[1:]
    rows = columns.rows if isinstance(columns, StreamedColumns) else len(columns[0])
    width = math.prod(shape)
    promised = facts.records[index]
    if (rows != promised and facts.exact_sizes) or width != facts.features * facts.group:
        raise InvalidInput(
            f"party {index} holds {rows} {facts.unit}s of {width} features; the study says "
            f"{promised} of {facts.features * facts.group}: agree on the public sizes first"
        )
    if len(lengths) > 1:
        raise InvalidInput(f"party {index} has columns of different lengths: align its records")


@dataclass(frozen=True)
class Paid:
    """What ledgers remember of a run: all rounds before `rounds` were paid for, `again` of them
    more than once; `whole` if all of it was paid for at once."""

    rounds: int
    again: int
    whole: bool


def paid_before(name: str, ledgers: Sequence[Ledger]) -> Paid:
    """What any of these ledgers was ever asked to pay for a run of this name."""
    purposes = frozenset[str]().union(*(ledger.purposes() for ledger in ledgers))
    pattern = re.compile(rf"{re.escape(name)} rounds (\d+)-(\d+)( again)?.*")
    found = [match for purpose in purposes if (match := pattern.fullmatch(purpose))]
    again = sum(int(one[2]) - int(one[1]) for one in found if one[3])
    return Paid(max((int(one[2]) for one in found), default=0), again, name in purposes)


def run_name(file: str) -> str:
    """Under which name ledgers pay for a run in process of the study file of this hash."""
    return f"run {file[:32]}"


def file_label(file: str, suffix: str = "") -> str:
    """What stands behind a payment between machines; the stage that learns has no `suffix`."""
    return f" of {file[:32]}{suffix}"


def paid_training(ledger: Ledger, file: str = "", study: str = "") -> bool:
    """Whether a ledger has paid for the training of a model: of the study file of this hash, in
    process or between machines, or of a study without a file, of this hash. It is a function of
    what was paid for, and of no record."""
    purposes = ledger.purposes()
    if file:
        paid, searched = paid_before(run_name(file), [ledger]), f"{run_name(file)} search"
        if paid.whole or paid.rounds or any(one.startswith(searched) for one in purposes):
            return True
        if any(one.endswith(file_label(file)) for one in purposes):
            return True
    return bool(study) and any(f"study {study[:16]}" in one for one in purposes)


def require_paid(name: str, parties: Sequence[Party], opened: np.ndarray) -> None:
    """Refuse to go on with a ledger that does not hold every payment of what was opened: it was
    removed, or an older copy was put in its place."""
    for party in parties:
        paid = np.zeros_like(opened)  # by attempt, as `opened`
        purposes = party.ledger.purposes()
        for label in np.unique(opened[opened > 0]):
            pattern = re.compile(rf"{re.escape(name)} rounds (\d+)-(\d+){label_of(int(label))}")
            for match in filter(None, map(pattern.fullmatch, purposes)):
                own = slice(int(match[1]), int(match[2]))
                paid[own] = np.where(opened[own] == label, label, paid[own])
        lacking = np.flatnonzero(paid != opened)
        if lacking.size:
            raise LedgerCorrupted(
                f"the ledger of {party.name!r} lacks the payment of {len(lacking)} rounds that "
                f"this run has opened (round {lacking[0] + 1} first): it was removed, or an older "
                "copy was put in its place; put the ledger back that was here when the run stopped"
            )


def label_of(attempt: int) -> str:
    """How a payment is called by which the rounds were opened: the first, or one for a retry."""
    return "" if attempt == 1 else f" again {attempt - 2}"


def require_new(name: str, ledgers: Sequence[Ledger]) -> None:
    """Refuse a run that was paid for, in whatever folder: it cannot go on from nothing."""
    before = paid_before(name, ledgers)
    if before.rounds or before.whole:
        raise GrantMisused(
            "this edition of the study was paid for before, as the ledgers say, and its noise is "
            "gone with the process that drew it: a study runs once; to run it again, agree on the "
            "next edition"
        )


__all__ = [
    "Paid",
    "authorized",
    "file_label",
    "label_of",
    "local_cost",
    "local_costs",
    "opened",
    "paid_before",
    "paid_training",
    "require_columns",
    "require_new",
    "require_paid",
    "run_name",
]
