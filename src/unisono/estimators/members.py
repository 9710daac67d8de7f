"""From rows with party labels to parties with ledgers."""

import hashlib
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.algorithm import Facts
from unisono.core.defaults import default_colluders
from unisono.core.events import Composed
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import Relation, Trust, Unit, Viewer
from unisono.data import as_text, listed
from unisono.data.order import new_key, order_key, secret_order
from unisono.data.people import NOBODY, drawn_persons, owner_of
from unisono.errors import (
    ClippedValues,
    FreshBudgetWarning,
    InvalidInput,
    PredictableNoiseWarning,
    warn,
)
from unisono.estimators.statements import IN_MEMORY, PREDICTABLE

ALONE = "the only party"
# A nominal size says how large sums may become; more rows than this would wrap around.
_MOST_OVER_NOMINAL = 4


@dataclass(frozen=True)
class Membership:
    """Which rows are whose: `names` (m,), and for each party the positions of its rows."""

    names: tuple[str, ...]
    rows: tuple[np.ndarray, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(rows) for rows in self.rows)


class Parties(Protocol):
    """Parties with records: their names, and how many records, or persons, each of them holds."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def sizes(self) -> tuple[int, ...]: ...


def membership(parties: Any, records: int) -> Membership:
    """Rows grouped by their party's label; None puts all rows into one party.

    Each label is read by itself: as one array, a single 2.5 would rename party 1 to 1.0.
    """
    if parties is None:
        return Membership((ALONE,), (np.arange(records),))
    values, which = _distinct(parties)
    if len(which) != records:
        raise InvalidInput(
            f"{len(which)} party labels for {records} rows: give one party label for each row"
        )
    labels = [as_text(value) for value in values]
    lacking = np.array([label is None for label in labels], bool)
    if missing := int(np.count_nonzero(lacking[which])):
        raise InvalidInput(
            f"{missing} rows have no party label: every record belongs to one, which is named by "
            "text or a number"
        )
    names, number = np.unique(np.array(labels, str), return_inverse=True)
    inverse = number[which]
    order = np.argsort(inverse, kind="stable")
    cuts = np.cumsum(np.bincount(inverse))[:-1]
    return Membership(tuple(str(name) for name in names), tuple(np.split(order, cuts)))


def _distinct(parties: Any) -> tuple[Any, np.ndarray]:
    """Labels, and which of them each row has. Of an array of whole numbers or of text all are alike
    in kind, so that equal ones need to be read once only."""
    if isinstance(parties, np.ndarray) and parties.ndim == 1 and parties.dtype.kind in "iuU":
        return np.unique(parties, return_inverse=True)
    values = listed(parties)
    return values, np.arange(len(values))


def public_sizes(
    records: Any, members: Parties, relation: Relation, name: str = "records"
) -> tuple[int, ...]:
    """Record counts that everyone may know; the user gave them as `name`.

    Replace-one and zero-out: the true sizes, public by definition. Add-or-remove hides whether a
    record is there, so its sizes are *nominal* and must not be counted in the data.
    """
    if records is None:
        if relation is Relation.ADD_OR_REMOVE:
            raise InvalidInput(
                "add-or-remove hides how many records there are, so their number cannot be read "
                f"from the data: give {name}, a public estimate per party, or use replace-one"
            )
        return members.sizes
    if relation is not Relation.ADD_OR_REMOVE:
        raise InvalidInput(
            f"{name} is given, but under {relation!s} sizes are exact and public: leave it out"
        )
    if isinstance(records, Mapping):
        sizes = _by_name(records, members, name)
    else:
        sizes = [records] * len(members.names)
    for party, nominal, held in zip(members.names, sizes, members.sizes, strict=True):
        if not (isinstance(nominal, (int, np.integer)) and nominal >= 1):
            raise InvalidInput(f"{name} of {party} is {nominal!r}: give a whole number above zero")
        if held > _MOST_OVER_NOMINAL * nominal:
            # Refusing would tell everybody the size; who holds the records may know.
            warnings.warn(
                f"party {party} holds more than {_MOST_OVER_NOMINAL} times the nominal {nominal} "
                "records: whatever divides by the nominal number will be that much too large; "
                "agree on a larger public estimate",
                stacklevel=2,
            )
    return tuple(int(size) for size in sizes)


def persons_at(
    members: Membership,
    cells: Sequence[Any],
    group: int,
    seed: int | None,
    column: str,
    most: int,
) -> tuple[np.ndarray, ...]:
    """Each party's persons, by the places of their records among the party's (persons, group), -1
    where there are fewer. `cells` (n,) say whose each record is, in a `column` or by ids alone.

    A person counts at `most` parties, which is public. At others its row stays, without records, so
    that no size and no refusal depends on where a person has records.
    """
    people, owners = [], []
    for name, rows in zip(members.names, members.rows, strict=True):
        own = [cells[place] for place in rows]
        drawn = drawn_persons(own, group, order_key(seed, name), name, column)
        people.append(drawn)
        owners.append([owner_of(own[first]) for first in drawn[:, 0]])
    kept = _counted_at(owners, most, order_key(seed, "persons at several parties"))
    if any(not all(own) for own in kept):
        warn(
            "some persons have records at more parties than person_at_parties, which is "
            f"{most}: each of them counts at that many, drawn in secret, and nowhere else. If "
            "equal ids are different people, put the party before them. Nobody else is told",
            ClippedValues,
        )
    return tuple(
        np.where(np.array(own, bool)[:, None], rows, NOBODY)
        for own, rows in zip(kept, people, strict=True)
    )


def _counted_at(owners: Sequence[Sequence[str | None]], most: int, key: bytes) -> list[list[bool]]:
    """Of each party's persons, whether they count there. Where a person counts is drawn by a secret
    key from its own parties alone: whoever else is there changes nothing of it."""
    places: dict[str | None, list[int]] = {}
    for party, own in enumerate(owners):
        for owner in own:
            places.setdefault(owner, []).append(party)

    def drawn(owner: str | None) -> set[int]:
        found = places[owner]
        if len(found) <= most:
            return set(found)

        def lot(party: int) -> bytes:
            return hashlib.sha256(key + f"{party}:{owner}".encode()).digest()

        return set(sorted(found, key=lot)[:most])

    at = {owner: drawn(owner) for owner in places}
    return [[party in at[owner] for owner in own] for party, own in enumerate(owners)]


def facts_of(
    sizes: Sequence[int],
    features: int,
    trust: Trust,
    relation: Relation,
    minimum_parties: int | None,
    colluders: int | None,
) -> Facts:
    """Public facts; unless told otherwise all survive, and one may be curious (`defaults`)."""
    survivors = len(sizes) if minimum_parties is None else minimum_parties
    if colluders is None:
        colluders = default_colluders(trust, survivors)
    exact = relation is not Relation.ADD_OR_REMOVE
    return Facts(tuple(sizes), features, survivors, colluders, exact_sizes=exact)


def shuffled(rows: np.ndarray, ledger: Ledger) -> np.ndarray:
    """Places of a party's records in a secret order; those of a simulation stay as they are."""
    return rows if ledger.simulated else rows[secret_order(len(rows), new_key())]


def warn_of_fresh(seed: int | None) -> None:
    """Say what a ledger that a fit makes for itself is worth, before anything is spent."""
    if seed is None:
        warn(IN_MEMORY, FreshBudgetWarning)
    else:
        warn(PREDICTABLE, PredictableNoiseWarning)


def fresh_ledgers(
    members: Parties,
    costs: Sequence[Mapping[Viewer, Composed]],
    budgets: Sequence[Budget],
    relation: Relation,
    seed: int | None,
    unit: Unit = Unit.RECORD,
) -> list[Ledger]:
    """For every party a ledger in memory, for exactly this run (see `warn_of_fresh`)."""
    exceptions: dict[Budget, Any] = {}
    for cost, budget in zip(costs, budgets, strict=True):
        if budget not in exceptions:  # parties that pay alike are asked about once
            exceptions[budget] = _exceptions(cost, budget, relation)
    policies = [
        Policy(name, budget, exceptions[budget], relation, unit)
        for name, budget in zip(members.names, budgets, strict=True)
    ]
    return Ledger.all_in_memory(policies, ACCOUNTANT, seed)


def given_ledgers(given: Any, members: Parties, seed: int | None) -> list[Ledger]:
    """The ledger of every party, as the user gave them."""
    if isinstance(given, Ledger):
        given = dict.fromkeys(members.names, given)
    if not isinstance(given, Mapping) or not all(isinstance(v, Ledger) for v in given.values()):
        raise InvalidInput(
            f"ledger is a {type(given).__name__}: give a Ledger, or a mapping from party to Ledger"
        )
    found = _by_name(given, members, "ledger")
    if len({ledger.place for ledger in found}) < len(found):
        raise InvalidInput(
            f"one ledger for {len(found)} parties: every data set has its own; give a mapping from "
            "party to Ledger"
        )
    if seed is not None and not all(ledger.simulated for ledger in found):
        raise InvalidInput(
            "a seed (random_state) makes a simulation, but the ledger is real and draws from the "
            "operating system: leave the seed out, or use a ledger made with one"
        )
    return found


def _by_name(mapping: Mapping[Any, Any], members: Parties, what: str) -> list[Any]:
    """The values of a mapping in the order of the parties: all of them, and nobody else."""
    named = {as_text(name) or str(name): value for name, value in mapping.items()}
    present = set(members.names)
    strangers, missing = sorted(set(named) - present), sorted(present - set(named))
    if present == {ALONE} and strangers:
        raise InvalidInput(
            f"{what} names {strangers[:3]}, and no row is said to be theirs: parties= is missing; "
            "give fit the party of each row, or one for all rows without a mapping"
        )
    if strangers and missing:
        raise InvalidInput(
            f"{what} names {strangers[:3]}, who hold no records, and lacks {missing[:3]}, who do: "
            "correct the labels of the rows or the names, so that both are the same"
        )
    if strangers:
        raise InvalidInput(
            f"{what} names {strangers[:3]}, who hold no records: an empty party cannot take part; "
            "leave it out of the study"
        )
    if missing:
        raise InvalidInput(f"{what} lacks {missing[:3]}: name every party")
    return [named[name] for name in members.names]


def _exceptions(
    cost: Mapping[Viewer, Composed], budget: Budget, relation: Relation
) -> tuple[tuple[Viewer, Budget], ...]:
    """Viewers who by the agreed trust see more than `budget`, each with what it sees."""
    found = []
    for viewer, history in cost.items():
        if history.discloses:
            found.append((viewer, Budget(math.inf, budget.delta)))
        elif not ACCOUNTANT.fits(history, relation, budget.epsilon, budget.delta):
            epsilon = ACCOUNTANT.epsilon(history, relation, budget.delta)
            found.append((viewer, Budget(epsilon * (1 + 1e-6), budget.delta)))
    return tuple(found)


__all__ = [
    "Membership",
    "Parties",
    "facts_of",
    "fresh_ledgers",
    "given_ledgers",
    "membership",
    "persons_at",
    "public_sizes",
    "warn_of_fresh",
]
