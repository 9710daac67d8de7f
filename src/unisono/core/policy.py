"""What a party allows: the budget of one data set, per viewer.

The policy is in the first line of the data set's ledger. Of all it says budgets alone may change
later: an owner lowers them in the policy file, and raises them by a signed line of the ledger
(`core.raises`). What a ledger is known by is not its policy, but its data set and a random number.
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
    """At most epsilon at this delta, for ever; infinite epsilon says that the viewer is trusted.

    `per_year` is the allowance of one calendar year (UTC), at the same delta: what the releases of
    that year compose to; those of a plan count when it is declared. It paces spending and forgives
    nothing, as all years compose to at most epsilon.

    >>> Budget(0, 1e-6)
    Traceback (most recent call last):
    unisono.errors.InvalidInput: epsilon = 0 is not a positive number: give one above zero, \
or 'inf' for a viewer who is trusted
    """

    epsilon: float
    delta: float = 0.0
    per_year: float | None = None

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
        if self.per_year is not None and not (
            isinstance(self.per_year, (int, float)) and 0 < self.per_year < self.epsilon
        ):
            raise InvalidInput(
                f"per_year = {self.per_year!r}: the allowance of a year lies above zero and below "
                f"epsilon = {self.epsilon:g}, which all years share; leave it out, or choose less"
            )

    @property
    def in_a_year(self) -> float:
        """The most that one year may take of it."""
        return self.epsilon if self.per_year is None else self.per_year

    def within(self, other: "Budget") -> bool:
        """Whether it allows nowhere more than the other."""
        return (
            self.epsilon <= other.epsilon
            and self.delta <= other.delta
            and self.in_a_year <= other.in_a_year
        )

    @property
    def words(self) -> str:
        """For messages.

        >>> Budget(6.0, 1e-6, 2.0).words
        'epsilon 6 at delta 1e-06, 2 of it in a year'
        """
        year = "" if self.per_year is None else f", {self.per_year:g} of it in a year"
        return f"epsilon {self.epsilon:g} at delta {self.delta:g}{year}"

    def to_json(self) -> list[float | str]:
        epsilon = "inf" if math.isinf(self.epsilon) else float(self.epsilon)
        year = [] if self.per_year is None else [float(self.per_year)]
        return [epsilon, float(self.delta), *year]

    @classmethod
    def from_json(cls, document: Any) -> "Budget":
        epsilon, delta, *year = document
        (per_year,) = year or (None,)
        return cls(math.inf if epsilon == "inf" else epsilon, delta, per_year)


@dataclass(frozen=True)
class Policy:
    """Budget of one data set: `budget` for every viewer, `exceptions` for named ones. An exception
    that says nothing of a year is paced as everybody is.

    The budget also holds against the server together with `colluders` parties; larger
    coalitions are not counted. `records_per_person` and `parties_disjoint` are declarations
    that certificates print: a person with several records, or at two parties, is protected
    less.

    Where a `unit` is a person, `person` is the column of the records that says whose each is: under
    another column other groups of records would be hidden, from the same budget.

    `published` allows noise as a publication prints it (`core.printed`), at its true cost. It is a
    permission that may be given and taken back, and is not written into the ledger. `queried` says
    that the records are the rows of the party's own query, which certificates print too.
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
    person: str = ""
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
        return self._named.get(viewer, self.budget)

    def excepts(self, viewer: Viewer) -> bool:
        """Whether a viewer has a budget of its own."""
        return viewer in self._named

    @cached_property
    def _named(self) -> dict[Viewer, Budget]:
        year = self.budget.per_year
        return {
            viewer: replace(own, per_year=year)
            if year is not None and own.per_year is None and year < own.epsilon < math.inf
            else own
            for viewer, own in self.exceptions
        }

    @property
    def paced(self) -> bool:
        """Whether some viewer's budget is given out by the year."""
        return self.budget.per_year is not None or (
            bool(self.exceptions) and any(own.per_year is not None for _, own in self.exceptions)
        )

    def tightens(self, other: "Policy") -> bool:
        """Whether it says the same with budgets that are nowhere larger."""
        named = {viewer for viewer, _ in (*self.exceptions, *other.exceptions)}
        pairs = [(self.budget, other.budget)]
        pairs += [(self.budget_for(viewer), other.budget_for(viewer)) for viewer in named]
        return replace(self, budget=other.budget, exceptions=other.exceptions) == other and all(
            own.within(before) for own, before in pairs
        )

    @cached_property
    def fingerprint(self) -> str:
        """Equal for policies that say the same; with a seed it fixes a simulation's noise."""
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
            **({"person": self.person} if self.person else {}),
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
            person=document.get("person", ""),
        )
