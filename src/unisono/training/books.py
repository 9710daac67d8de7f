"""Whose budget a run draws on: an epsilon and a ledger for each party, for a record or for all."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.validation import LargeDeltaWarning, warn_large_delta
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget
from unisono.core.study import Study
from unisono.core.trust import Relation, Unit
from unisono.errors import InvalidInput
from unisono.estimators.members import Membership, ledgers_of


def warn_delta(delta: float, unit: Unit, sizes: Sequence[int]) -> None:
    """A delta that would allow to publish one of the units (E000-2)."""
    if unit is Unit.RECORD:
        warn_large_delta(delta, sum(sizes))
    elif delta * len(sizes) >= 1:
        warnings.warn(
            f"delta is {delta:g} with {len(sizes)} parties: at delta >= 1 / parties, publishing "
            "all records of one party would be allowed; use far less",
            LargeDeltaWarning,
            stacklevel=3,
        )


def epsilons_of(epsilon: float | None, epsilons: Any, names: Sequence[str]) -> tuple[float, ...]:
    """The epsilon of every party: one for all, or each its own.

    >>> epsilons_of(None, {"south": 2.0, "north": 1.0}, ["north", "south"])
    (1.0, 2.0)
    """
    if (epsilon is None) == (epsilons is None):
        raise InvalidInput(
            f"epsilon = {epsilon!r} and epsilons = {epsilons!r}: give one epsilon for all, or (in "
            "local-dp-sgd) epsilons, one for each party"
        )
    if epsilon is not None:
        return (epsilon,) * len(names)
    if isinstance(epsilons, Mapping):
        if {str(name) for name in epsilons} != set(names):
            raise InvalidInput(
                f"epsilons for {', '.join(map(str, epsilons))}, where the parties are "
                f"{', '.join(names)}: give one for each of them"
            )
        by_name = {str(name): value for name, value in epsilons.items()}
        return tuple(by_name[name] for name in names)
    if len(epsilons) != len(names):
        raise InvalidInput(f"{len(epsilons)} epsilons for {len(names)} parties: give one for each")
    return tuple(epsilons)


def books_of(
    given: Any, members: Membership, study: Study, unit: Unit, epsilons: Sequence[float],
    delta: float, relation: Relation, seed: int | None,
) -> list[Ledger]:  # fmt: skip
    """The ledger of every party: the given ones, or one in memory for exactly this run."""
    if given is not None:
        budget = Budget(max(epsilons), delta)
        return ledgers_of(given, members, study.cost, budget, relation, seed)
    books: dict[str, Ledger] = {}
    for epsilon in dict.fromkeys(epsilons):  # parties that pay alike are asked about once
        alike = [party for party, own in enumerate(epsilons) if own == epsilon]
        some = Membership(
            tuple(members.names[party] for party in alike),
            tuple(members.rows[party] for party in alike),
        )
        cost, budget = study.costs[alike[0]], Budget(epsilon, delta)
        for name, book in zip(
            some.names, ledgers_of(None, some, cost, budget, relation, seed), strict=True
        ):
            policy = replace(book.policy, unit=unit)
            books[name] = Ledger.in_memory(policy, ACCOUNTANT, seed=seed)
    return [books[name] for name in members.names]


__all__ = ["books_of", "epsilons_of", "warn_delta"]
