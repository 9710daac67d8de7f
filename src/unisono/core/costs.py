"""What a grant costs each viewer: complete, checked and named.

A cost says for every viewer what they will have seen. Whoever is left out would be free, so an
incomplete cost is refused; a coalition is counted where the policy asks for it.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from unisono.core.events import NOTHING, Composed, canonical, composed_to_json
from unisono.core.trust import EVERYONE, Relation, Unit, Viewer
from unisono.errors import InvalidInput

Cost = Mapping[Viewer, Composed]


def cost_name(cost: Cost) -> str:
    prints = {str(viewer): history.fingerprint for viewer, history in cost.items()}
    return hashlib.sha256(canonical(prints)).hexdigest()[:32]


class KnownCost(NamedTuple):
    """A cost that may be written: per viewer, by name, and as its line."""

    cost: dict[Viewer, Composed]
    name: str
    line: dict[str, Any]


def everyone(history: Composed, colluders: int = 0) -> dict[Viewer, Composed]:
    """The cost of releases that every viewer sees with the same noise."""
    coalition = (Viewer.colluders(colluders),) if colluders else ()
    return dict.fromkeys((*EVERYONE, *coalition), history)


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
    for history in cost.values():
        for event, _ in history.parts:
            if event.sensitivity.unit != unit:
                raise InvalidInput(
                    f"the release hides a {event.sensitivity.unit}, the policy counts per {unit}: "
                    "use a ledger for that unit"
                )
            event.sensitivity.under(relation)
    name = cost_name(cost)
    viewers = {str(viewer): composed_to_json(history) for viewer, history in cost.items()}
    return KnownCost(cost, name, {"kind": "cost", "cost": name, "viewers": viewers})
