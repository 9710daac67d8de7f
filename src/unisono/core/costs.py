"""What a grant costs each viewer: complete, checked and named.

A cost says for every viewer what they will have seen. Whoever is left out would be free, so an
incomplete cost is refused; a coalition is counted where the policy asks for it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from unisono.core.events import (
    NOTHING,
    Composed,
    Event,
    Sensitivity,
    canonical,
    compose,
    composed_to_json,
    random_stopping,
)
from unisono.core.policy import Policy
from unisono.core.trust import EVERYONE, Relation, Unit, Viewer
from unisono.errors import InvalidInput, LedgerCorrupted, UndefinedRelation

Cost = Mapping[Viewer, Composed]


def cost_name(cost: Cost) -> str:
    prints = {str(viewer): history.fingerprint for viewer, history in cost.items()}
    return hashlib.sha256(canonical(prints)).hexdigest()[:32]


class KnownCost(NamedTuple):
    """A cost that may be written: per viewer what is released and what counts against the budget,
    by name, and as its line."""

    cost: Mapping[Viewer, Composed]
    counted: dict[Viewer, Composed]
    name: str
    line: dict[str, Any]


def everyone(history: Composed, colluders: int = 0) -> dict[Viewer, Composed]:
    """The cost of releases that every viewer sees with the same noise."""
    coalition = (Viewer.colluders(colluders),) if colluders else ()
    return dict.fromkeys((*EVERYONE, *coalition), history)


def added(costs: Sequence[Cost]) -> Cost:
    """What several releases of one party show to each viewer, all together."""
    total = dict(costs[0])
    for cost in costs[1:]:
        for viewer, history in cost.items():
            total[viewer] = total[viewer] + history if viewer in total else history
    return total


def _complete(items: tuple[tuple[str, Composed], ...], colluders: int) -> dict[Viewer, Composed]:
    """The cost against everyone the policy protects from; whoever is left out would be free."""
    named = {Viewer(viewer): history for viewer, history in items}
    if not named or all(history == NOTHING for history in named.values()):
        raise InvalidInput("a cost that touches no viewer pays for nothing: name who sees it")
    missing = [viewer for viewer in EVERYONE if viewer not in named]
    if missing:
        raise InvalidInput(
            f"the cost does not say what {', '.join(missing)} sees: name every viewer, for example "
            "with everyone(history)"
        )
    cost = {viewer: named[viewer] for viewer in EVERYONE}
    if colluders:
        # A coalition sees at least what a smaller one sees.
        larger = sorted((v for v in named if v.coalition >= colluders), key=lambda v: v.coalition)
        if not larger:
            raise InvalidInput(
                f"the policy protects against {colluders} colluding parties, the cost names none "
                "so large: plan the study for that many colluders"
            )
        cost[Viewer.colluders(colluders)] = named[larger[0]]
    return cost


@lru_cache(maxsize=4096)
def checked_cost(
    items: tuple[tuple[str, Composed], ...], unit: Unit, relation: Relation, colluders: int
) -> KnownCost:
    complete = _complete(items, colluders)
    cost = {viewer: history for viewer, history in complete.items() if history != NOTHING}
    own = counted(cost, unit, relation)
    name = cost_name(cost)
    viewers = {str(viewer): composed_to_json(history) for viewer, history in cost.items()}
    line = {"kind": "cost", "cost": name, "viewers": viewers}
    return KnownCost(MappingProxyType(cost), own, name, line)


def counted(
    cost: Mapping[Viewer, Composed], unit: Unit, relation: Relation
) -> dict[Viewer, Composed]:
    """What a cost means for a budget of this unit and relation, or a refusal.

    One ledger counts everything that is released of a data set. What hides a whole party hides each
    of its persons and records, and what hides a person each of its records; what hides a record
    promises nothing to a person or a party.
    """
    return {
        viewer: compose(_for_unit(event, unit, relation) * times for event, times in history.parts)
        for viewer, history in cost.items()
    }


def counted_again(cost: Mapping[Viewer, Composed], policy: Policy) -> dict[Viewer, Composed]:
    """As `counted`, for a cost that stands in a ledger: it was accepted when it was written."""
    try:
        return counted(cost, policy.unit, policy.relation)
    except (InvalidInput, UndefinedRelation) as error:
        raise LedgerCorrupted(
            f"a cost stands in the ledger that its policy refuses ({error}): it was written by hand"
        ) from None


def _for_unit(event: Event, unit: Unit, relation: Relation) -> Event:
    own = event.sensitivity
    if event.noise.nested and own.unit is not unit:  # what it chooses from is counted so

        def each(option: Composed) -> Composed:
            return compose(_for_unit(one, unit, relation) * times for one, times in option.parts)

        law: Any = event.noise
        return random_stopping(map(each, law.options), law.most, law.shape)
    if own.unit is not unit:
        if _LARGER.index(own.unit) < _LARGER.index(unit):
            raise InvalidInput(
                f"the release hides a {own.unit}, the budget counts {_COUNTED[unit]}, to whom it "
                f"promises nothing: pay for it from a budget that counts {own.unit}s"
            )
        event = _for_a_part(event, unit, relation)
    event.sensitivity.under(relation)
    return event


# A record lies in one person, a person's records at a party in that party.
_LARGER = (Unit.RECORD, Unit.PERSON, Unit.PARTY)
_COUNTED = {Unit.RECORD: "records", Unit.PERSON: "persons", Unit.PARTY: "whole parties"}


def _for_a_part(event: Event, unit: Unit, relation: Relation) -> Event:
    """A release that hides a party, as it counts for one of the party's records; or for a person of
    the party, or a record of a person.

    Whatever happens to one record, the party's records are replaced by others: the distance is
    that of replacing the party, under every relation. The party's secret coin hides the record too;
    how much is known for replacing (both worlds toss it), so that under the other relations no coin
    is counted. Where the presence of a party is not hidden, sizes may be public: then that of a
    record is not hidden either.

    A record that is replaced may have been one person's and be another's, as whose it is stands in
    it: two persons change, each no further than one that is replaced. Both toss coins of their own,
    so that none is counted.
    """
    own, sampler = event.sensitivity, event.sampler
    replaced = own.under(Relation.REPLACE_ONE)
    if own.unit is Unit.PERSON and relation is Relation.REPLACE_ONE:
        return Event(event.noise, Sensitivity(unit, replaced.times(2), replaced))
    if relation is Relation.REPLACE_ONE:
        # Sampling is accounted for by the norm of what the coin lets through.
        return Event(event.noise, Sensitivity(unit, replaced, own.zero_out), sampler)
    presence = None if own.add_or_remove is None else replaced
    return Event(event.noise, Sensitivity(unit, replaced, replaced, presence))
