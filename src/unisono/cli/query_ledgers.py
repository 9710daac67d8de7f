"""Who pays for a query: the ledger of each file, on the terms that its owner set.

Terms are fixed by the ledger that is there, or by a policy beside the file; for others by
`--budget`. All who may refuse are asked before a ledger is begun.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.journal import read, unavailable
from unisono.core.ledger import Ledger
from unisono.core.ledger import terms as terms_of
from unisono.core.policy import Budget, Policy
from unisono.core.study import Study
from unisono.core.trust import SERVER, Relation, Trust, Unit, Viewer
from unisono.deployment.parties_here import Ask, Unbudgeted, refuse
from unisono.errors import InvalidInput
from unisono.studies.data_set import DataSet, data_set, remember, require_only_ledger
from unisono.studies.policy import Request, require_question_allowed
from unisono.studies.policy_file import PolicyFile

if TYPE_CHECKING:
    from unisono.cli.query_run import Setting


@dataclass(frozen=True, eq=False)
class Payer:
    """A file, the ledger that pays for it, and the terms, where they are fixed already."""

    own: DataSet
    ledger: Path
    policy: PolicyFile | None = None
    terms: Policy | None = None


def payer(file: Path, setting: "Setting") -> Payer:
    """Who pays for a file; a simulation pays from memory, and nothing there limits it."""
    own, second = data_set(file), setting.second_ledgers
    if setting.seed is not None:
        return Payer(own, own.ledger_path)
    policy = own.policy
    ledger = own.ledger_path
    if policy is None and second is not None:
        ledger = second / f"{own.name}.ledger"
    else:
        require_only_ledger(own)
    terms = None if policy is None else policy.core_policy()
    if ledger.exists():
        terms = terms_of(read(ledger)[0], ledger)
    return Payer(own, ledger, policy, terms)


def require_relation(payers: Sequence[Payer], relation: Relation) -> None:
    for one in payers:
        if one.terms is not None and one.terms.relation is not relation:
            raise InvalidInput(
                f"the ledger of {one.own.name} counts {one.terms.relation!s}: ask with --relation "
                f"{one.terms.relation!s}"
            )


def require_allowed(
    payers: Sequence[Payer], study: Study, columns: Sequence[str], setting: "Setting"
) -> None:
    """Refuse a query that a policy beside one of the files does not allow."""
    for one in payers:
        if one.terms is not None and one.terms.unit is Unit.PERSON:
            _require_person(one.own.name, one.terms.person, setting.person)
    request = Request(
        "this query",
        study.trust,
        "statistics",
        "statistics",
        tuple(columns),
        None,
        setting.unit,
        setting.relation,
        person=setting.person,
    )
    for one, cost in zip(payers, study.costs, strict=True):
        if one.policy is not None:
            require_question_allowed(one.policy, request, study, cost)


def _require_person(name: str, counted: str, asked: str | None) -> None:
    """Refuse a query that does not hide the persons whom a ledger counts."""
    if asked is None or (counted and counted != asked):
        said = "single records" if asked is None else f"persons by {asked!r}"
        raise InvalidInput(
            f"the ledger of {name} counts persons, and this query hides {said}: ask with --person "
            f"{counted or 'COLUMN'}; nothing was spent"
        )


@contextmanager
def opened(
    payers: Sequence[Payer], study: Study, setting: "Setting", ask: Ask = refuse
) -> Iterator[list[Ledger]]:
    """The ledgers, all of which can pay; none is begun if one refuses."""
    budget = _budget(payers, study, setting, ask)
    begin = {
        one: _new_terms(one, study, setting, budget)
        for one in payers
        if setting.seed is not None or not one.ledger.exists()
    }
    with ExitStack() as stack:
        ledgers: dict[Payer, Ledger] = {}
        for one, cost in zip(payers, study.costs, strict=True):
            if one in begin:
                Ledger.in_memory(begin[one], ACCOUNTANT).check(cost)
                continue
            own = None if one.policy is None else one.policy.core_policy()
            ledgers[one] = Ledger.open(one.ledger, ACCOUNTANT, own)
            stack.callback(ledgers[one].close)
            ledgers[one].check(cost)
        for one, terms in begin.items():
            ledgers[one] = _begun(one, terms, setting)
            stack.callback(ledgers[one].close)
        if setting.seed is None:
            for one in payers:
                remember(one.own, one.ledger)
        yield [ledgers[one] for one in payers]


def _begun(one: Payer, terms: Policy, setting: "Setting") -> Ledger:
    if setting.seed is not None:
        return Ledger.in_memory(terms, ACCOUNTANT, setting.seed)
    try:
        one.ledger.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unavailable(one.ledger.parent, error) from None
    return Ledger.create(one.ledger, terms, ACCOUNTANT)


def _trusted(study: Study) -> list[Viewer]:
    """Viewers to whom the query shows everything."""
    if study.trust is not Trust.TRUSTED_SERVER:
        return []
    colluders = study.facts.colluders
    return [SERVER, *([Viewer.colluders(colluders)] if colluders else [])]


def _budget(payers: Sequence[Payer], study: Study, setting: "Setting", ask: Ask) -> Budget:
    """What files may ever be asked for that have no budget: as given, or as whoever is asked says.

    A simulation spends nothing, so that a budget for one query does."""
    lacking = [one.own.name for one in payers if one.terms is None]
    own = Budget(setting.epsilon, setting.delta)
    if setting.budget is not None or not lacking:
        return setting.budget or own
    trusted = _trusted(study)
    epsilon = max(
        ACCOUNTANT.epsilon(history, setting.relation, setting.delta)
        for cost in study.costs
        for viewer, history in cost.items()
        if viewer not in trusted
    )
    if setting.seed is not None:
        return Budget(max(epsilon, own.epsilon) * (1 + 1e-6), own.delta)
    return ask(Unbudgeted(tuple(lacking), epsilon, setting.delta, "query"))


def _new_terms(one: Payer, study: Study, setting: "Setting", budget: Budget) -> Policy:
    """What a ledger is begun with: the owner's policy, or the budget that is given."""
    if one.terms is not None:
        return one.terms
    return Policy(
        one.own.name,
        budget,
        tuple((viewer, Budget(math.inf)) for viewer in _trusted(study)),
        setting.relation,
        setting.unit,
        colluders=study.facts.colluders,
        person=setting.person or "",
    )
