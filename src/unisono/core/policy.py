"""What a party allows: the budget of one data set, per viewer.

The policy is the first line of the data set's ledger and gives the ledger its identity:
moving or renaming the file changes nothing, and no other policy can be slipped under it.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from unisono.core.events import canonical
from unisono.core.trust import Relation, Unit, Viewer
from unisono.errors import InvalidInput


@dataclass(frozen=True)
class Budget:
    """At most epsilon at this delta; infinite epsilon says that the viewer is trusted.

    >>> Budget(0, 1e-6)
    Traceback (most recent call last):
    unisono.errors.InvalidInput: epsilon = 0 is not a positive number: give one above zero, \
or 'inf' for a viewer who is trusted
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.epsilon, (int, float)) and self.epsilon > 0):
            raise InvalidInput(
                f"epsilon = {self.epsilon!r} is not a positive number: give one above zero, "
                "or 'inf' for a viewer who is trusted"
            )
        if not (isinstance(self.delta, (int, float)) and 0 <= self.delta < 1):
            raise InvalidInput(
                f"delta = {self.delta!r} lies outside [0, 1): it is the probability of the worst "
                "case, so choose one far below 1 / number of records, such as 1e-6"
            )

    def to_json(self) -> list[float | str]:
        return ["inf" if math.isinf(self.epsilon) else float(self.epsilon), float(self.delta)]

    @classmethod
    def from_json(cls, document: Any) -> "Budget":
        epsilon, delta = document
        return cls(math.inf if epsilon == "inf" else epsilon, delta)


@dataclass(frozen=True)
class Policy:
    """Budget of one data set: `budget` for every viewer, `exceptions` for named ones.

    The budget also holds against the server together with `colluders` parties; larger
    coalitions are not counted. `records_per_person` and `parties_disjoint` are declarations
    that certificates print: a person with several records, or at two parties, is protected
    less.

    `published` allows noise as a publication prints it (`core.printed`), at its true cost. It is a
    permission that may be given and taken back, and no part of the ledger's identity. `queried`
    says that the records are the rows of the party's own query, which certificates print too.
    """

    dataset: str
    budget: Budget
    exceptions: tuple[tuple[Viewer, Budget], ...] = ()
    relation: Relation = Relation.REPLACE_ONE
    unit: Unit = Unit.RECORD
    colluders: int = 0
    records_per_person: int = 1
    parties_disjoint: bool = True
    published: bool = field(default=False, compare=False)
    queried: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if not self.dataset or not isinstance(self.dataset, str):
            raise InvalidInput("a policy names its data set: give a non-empty name")
        if math.isinf(self.budget.epsilon):
            raise InvalidInput(
                "the general budget is infinite, which protects nobody: name the trusted viewer "
                "in the exceptions instead"
            )
        if self.colluders < 0:
            raise InvalidInput(f"colluders = {self.colluders!r}: a number of parties, 0 or more")
        if self.records_per_person < 1:
            raise InvalidInput(
                f"records_per_person = {self.records_per_person!r}: a person has at least one"
            )
        ordered = tuple(sorted((Viewer(v), b) for v, b in dict(self.exceptions).items()))
        object.__setattr__(self, "exceptions", ordered)

    def budget_for(self, viewer: Viewer) -> Budget:
        for named, budget in self.exceptions:
            if named == viewer:
                return budget
        return self.budget

    def tightens(self, other: "Policy") -> bool:
        """Whether it says the same with budgets that are nowhere larger."""
        named = {viewer for viewer, _ in (*self.exceptions, *other.exceptions)}
        pairs = [(self.budget, other.budget)]
        pairs += [(self.budget_for(viewer), other.budget_for(viewer)) for viewer in named]
        return replace(self, budget=other.budget, exceptions=other.exceptions) == other and all(
            own.epsilon <= before.epsilon and own.delta <= before.delta for own, before in pairs
        )

    @cached_property
    def identity(self) -> str:
        """What the data set's ledger is known by, wherever the file lies."""
        return hashlib.sha256(canonical(self.to_json())).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "budget": self.budget.to_json(),
            "exceptions": {str(v): b.to_json() for v, b in self.exceptions},
            "relation": str(self.relation),
            "unit": str(self.unit),
            "colluders": self.colluders,
            "records_per_person": self.records_per_person,
            "parties_disjoint": self.parties_disjoint,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Policy":
        exceptions = {Viewer(v): Budget.from_json(b) for v, b in document["exceptions"].items()}
        return cls(
            dataset=document["dataset"],
            budget=Budget.from_json(document["budget"]),
            exceptions=tuple(exceptions.items()),
            relation=Relation(document["relation"]),
            unit=Unit(document["unit"]),
            colluders=document["colluders"],
            records_per_person=document["records_per_person"],
            parties_disjoint=document["parties_disjoint"],
        )
