"""What the parties agreed on, who they are, and what a run gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unisono.core import notebook
from unisono.core.algorithm import Facts, PricedAlgorithm
from unisono.core.certificate import Certificate
from unisono.core.events import Composed
from unisono.core.grant import Draw, Grant
from unisono.core.ledger import Ledger
from unisono.core.printed import require_printed_allowed
from unisono.core.transcript import Transcript
from unisono.core.trust import Trust, Unit, Viewer, named
from unisono.core.values import Private
from unisono.errors import GrantMisused, InvalidInput, LargeDeltaWarning, warn


@dataclass(frozen=True)
class Study:
    """A method, public facts and trust: everything that is fixed before data is read."""

    method: Any
    facts: Facts
    trust: Trust

    def __post_init__(self) -> None:
        object.__setattr__(self, "trust", named(Trust, "trust", self.trust))
        if self.trust is Trust.SECURE_SUM and self.facts.parties == 1:
            raise InvalidInput(
                "one party alone in a secure sum: its sum is its own value, so nothing is hidden "
                "by adding; use trust 'local', or invite another party"
            )
        self.algorithm.require(self.facts, self.trust)
        warn_of_the_promise(self)

    @cached_property
    def algorithm(self) -> PricedAlgorithm:
        """The algorithm as engines run it: resolved, priced and built for this study."""
        if isinstance(self.method, PricedAlgorithm):
            return self.method
        return self.method.bind(self.facts, self.trust)

    def under(self, trust: Trust) -> "Study":
        """The same study for another trust, priced anew."""
        return Study(self.method, self.facts, trust)

    def begun(self, found: Any) -> "Study":
        """The same study, its price and its hash, begun with what an earlier one released."""
        if self.algorithm.begin is None:
            return self
        started = object.__new__(Study)  # checked before: nothing that is checked differs
        started.__dict__.update(self.__dict__, algorithm=self.algorithm.begun(found))
        return started

    @property
    def released(self) -> "Study":
        """The same study, its price and its hash, whose result is the server's last state: all that
        was released, of which others make results of their own."""
        telling = object.__new__(Study)
        whole = self.algorithm._replace(result=lambda state: state)
        telling.__dict__.update(self.__dict__, algorithm=whole)
        return telling

    @property
    def cost(self) -> Mapping[Viewer, Composed]:
        """What the run shows of the first party; of every party, where all are alike."""
        return self.algorithm.cost(self.facts, self.trust)

    @cached_property
    def costs(self) -> Sequence[Mapping[Viewer, Composed]]:
        """What the run shows of each party."""
        if self.algorithm.alike:
            return [self.cost] * self.facts.parties
        return [
            self.algorithm.cost(self.facts, self.trust, party=party)
            for party in range(self.facts.parties)
        ]

    @cached_property
    def hash(self) -> str:
        return self.algorithm.study_hash(self.facts, self.trust)


@dataclass(frozen=True)
class Party:
    """Holds records and the ledger that guards them."""

    name: str
    data: Private[tuple[np.ndarray, ...]]
    ledger: Ledger

    def open(self, permission: Grant | Draw) -> tuple[np.ndarray, ...]:
        """The records, for a permission paid by this party's own ledger."""
        paid_by = permission.grant.ledger if isinstance(permission, Draw) else permission.ledger
        if paid_by is not self.ledger:
            raise GrantMisused(f"{self.name} opens its records to grants of its own ledger only")
        return self.data.open(permission)


@dataclass(frozen=True)
class Result:
    """The server's final state and all that a reader needs to trust it."""

    value: Any
    certificate: Certificate
    transcript: Transcript

    def _repr_html_(self) -> str:
        """As notebooks show it: what kind of thing came out, and its certificate."""
        shape = f" of shape {np.shape(self.value)}" if isinstance(self.value, np.ndarray) else ""
        return notebook.shown(
            f"Result: {type(self.value).__name__}{shape}",
            notebook.sentence("It is in .value; what was promised with it:"),
            *self.certificate.as_parts(),
            simulated=self.certificate.simulated,
        )


def warn_large_delta(delta: float, units: int, unit: Unit = Unit.RECORD) -> None:
    """Warn when delta >= 1 / units.

    "Publish one uniformly random record in clear" is (0, 1/n)-differentially private under
    replace-one, so such a delta promises nothing to the person who is published.
    """
    if delta * units < 1:
        return
    many, whole = {
        Unit.PARTY: ("parties", "all records of one party"),
        Unit.PERSON: ("persons", "all records of one person"),
        Unit.RECORD: ("records", "one whole record"),
    }[unit]
    warn(
        f"delta is {delta:g} with {units} {many}: at delta >= 1 / {many}, publishing {whole} would "
        f"be allowed; use {float(units) ** -2:.3g} (1 / {many}^2) or less",
        LargeDeltaWarning,
    )


def warn_of_the_promise(study: Any) -> None:
    """Warn of a large delta where parties agree on it: in a `Study`, or what takes its place."""
    settings, facts = study.algorithm.settings, study.facts
    own = getattr(study.algorithm, "privacy", None)
    delta = own.delta if own else settings.get("delta", 0.0)
    if delta * sum(facts.records) < 1:  # there are no more parties than records
        return
    unit = next(iter(study.cost.values())).parts[0][0].sensitivity.unit
    warn_large_delta(delta, facts.parties if unit is Unit.PARTY else sum(facts.records), unit)


def require_same_kind(study: Study, parties: Sequence[Party]) -> bool:
    """Check that parties fit the study; returns whether the run is a simulation."""
    if len(parties) != study.facts.parties:
        raise InvalidInput(
            f"the study names {study.facts.parties} parties, {len(parties)} are here: "
            "wait for the others, or agree on a smaller study"
        )
    if len({party.name for party in parties}) != len(parties):
        raise InvalidInput("two parties bear the same name: give each its own")
    if len({party.ledger.place for party in parties}) != len(parties):
        raise InvalidInput("two parties share one ledger: every data set has its own")
    simulated = {party.ledger.simulated for party in parties}
    if len(simulated) != 1:
        raise InvalidInput(
            "some ledgers are simulated (seeded) and some are real: a run is one or the other"
        )
    require_printed_allowed(study, (party.ledger for party in parties))
    return simulated.pop()
