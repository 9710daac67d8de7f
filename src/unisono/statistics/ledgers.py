"""The ledger of a data set, opened or created in one call."""

import os
from pathlib import Path

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import Relation, Unit
from unisono.core.verification import Verification, verify_charges


def open_ledger(
    path: str | os.PathLike[str],
    dataset: str,
    epsilon: float,
    delta: float = 0.0,
    *,
    relation: Relation | str = Relation.REPLACE_ONE,
    seed: int | None = None,
    unit: Unit | str = Unit.RECORD,
    person: str = "",
) -> Ledger:
    """Open the data set's ledger, or create it with this budget if there is none yet. With `unit`
    "person" it counts what is shown of all records of a person, by the column `person`."""
    policy = Policy(
        dataset,
        Budget(epsilon, delta),
        relation=Relation(relation),
        unit=Unit(unit),
        person=person,
    )
    if Path(path).exists():
        return Ledger.open(path, ACCOUNTANT, policy, seed)
    return Ledger.create(path, policy, ACCOUNTANT, seed)


def verify(path: str | os.PathLike[str], head: str | None = None) -> Verification:
    """Check a ledger file, and that every charge covers its releases; with a `head` kept elsewhere,
    truncation and rewriting show too."""
    return verify_charges(path, ACCOUNTANT, head)
