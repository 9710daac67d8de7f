"""Parties whose files lie on this machine: their records, and what each allows.

Policy and ledger lie beside the records that they are about (`studies.data_set`). A party that
brings its own policy is bound by it, and a ledger that is there already keeps its budget, whoever
began it. Where there is neither, whoever runs the study says what all studies may ever take: a
budget that the first of them would use up is never chosen silently.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.journal import read
from unisono.core.ledger import terms as terms_of
from unisono.core.policy import Budget, Policy
from unisono.core.trust import SERVER, Trust, Viewer
from unisono.core.words import number
from unisono.errors import BudgetExceeded, InvalidInput, PrivacyViolation
from unisono.releases.plugins import plugins_of
from unisono.studies.build import Built
from unisono.studies.data_set import DataSet, data_set
from unisono.studies.policy_file import PolicyFile, load_policy, parse_policy

_MADE = "# Made by unisono, as no policy was there: allows the study"


def find_data(names: Sequence[str], folder: Path) -> dict[str, Path]:
    """Each party's file in a folder: NAME.csv, NAME.parquet, or records in a folder NAME; or the
    policy that names its source."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        first = names[0]
        raise InvalidInput(
            f"--data {folder} {what}, so that there is no file for {first!r}: give the folder that "
            f"holds {first}.csv or {first}/records.csv, and those of the other parties"
        )
    found = {}
    for name in names:
        choices = [
            folder / place
            for suffix in ("csv", "parquet")
            for place in (f"{name}.{suffix}", f"{name}/records.{suffix}", f"{name}/{name}.{suffix}")
        ]
        there = [choice for choice in choices if choice.is_file()]
        policies = [folder / f"{name}.policy.toml", folder / name / "policy.toml"]
        named = [path for path in policies if path.is_file() and load_policy(path).records]
        if named:  # its own word on where the records are
            own = data_set(named[0]).records
            there = [*named, *(file for file in there if file.resolve() != own)]
        if not there:
            raise InvalidInput(
                f"{folder} has no file for {name!r}: put {name}.csv or {name}/records.csv there, "
                f"or {name}/policy.toml with a [source]"
            )
        if len(there) > 1:
            raise InvalidInput(
                f"{folder} has several files for {name!r} ({', '.join(map(str, there))}): keep the "
                "one that holds the party's records"
            )
        found[name] = there[0]
    return found


@dataclass(frozen=True)
class Unbudgeted:
    """Parties with neither a policy nor a ledger, and what the study takes of the budget that they
    need: epsilon against the viewer who learns most, at this delta."""

    names: tuple[str, ...]
    epsilon: float
    delta: float
    what: str = "study"

    @property
    def words(self) -> str:
        several = len(self.names) > 1
        names = ", ".join(self.names[:5])
        names += f" and {len(self.names) - 5} more" if len(self.names) > 5 else ""
        return (
            f"{names} {'have' if several else 'has'} no budget yet: neither a policy nor a ledger "
            f"lies beside {'their' if several else 'the'} records. This {self.what} takes epsilon "
            f"{number(self.epsilon)} at delta {self.delta:g}"
        )


Ask = Callable[[Unbudgeted], Budget]


def refuse(found: Unbudgeted) -> NoReturn:
    """Nobody is there to ask."""
    raise InvalidInput(
        f"{found.words}: say what all studies together may ever take, as --budget 6 or --budget "
        "6:1e-6 (epsilon, or epsilon and delta); or write a policy first, with `unisono policy "
        "init --budget 6 FILE`. Nothing was spent"
    )


def agreed_budget(
    built: Built,
    sets: Mapping[str, DataSet],
    second_ledgers: Path | None,
    given: Budget | None,
    ask: Ask,
) -> Budget | None:
    """The budget for parties that have none: as given, or as whoever is asked says."""
    names = [
        name
        for name, own in sets.items()
        if own.policy is None and not _ledger(own, second_ledgers).exists()
    ]
    if given is not None or not names:
        return given
    epsilon = max(study_epsilon(built, name) for name in names)
    return ask(Unbudgeted(tuple(names), epsilon, built.file.privacy.delta))


def policy_for(
    built: Built,
    own: DataSet,
    name: str,
    second_ledgers: Path | None,
    simulated: bool,
    budget: Budget | None = None,
) -> PolicyFile:
    """The party's own policy, or one that allows this study, within the budget of the ledger that
    is there, or within `budget`; a simulation spends nothing, so that no ledger limits it.

    Parties without a policy may pay from a second ledger in a folder of its own.
    """
    policy = own.policy
    if policy is not None:
        return policy
    ledger = _ledger(own, second_ledgers)
    if ledger.exists() and not simulated:
        terms = terms_of(read(ledger)[0], ledger)
    else:
        epsilon, delta = study_epsilon(built, name), built.file.privacy.delta
        if simulated:
            budget = Budget(epsilon * (1 + 1e-6), delta)
        terms = _terms(built, own, budget or refuse(Unbudgeted((name,), epsilon, delta)))
    return parse_policy(_allowing(built, terms, ledger), str(ledger))


def _ledger(own: DataSet, second_ledgers: Path | None) -> Path:
    return own.ledger_path if second_ledgers is None else second_ledgers / f"{own.name}.ledger"


def was_made(policy: PolicyFile) -> bool:
    """Whether nobody wrote it."""
    return policy.source.text.startswith(_MADE)


@contextmanager
def explained(policy: PolicyFile) -> Iterator[None]:
    """A refusal by a budget that nobody chose says where it comes from, and how to go on."""
    try:
        yield
    except (BudgetExceeded, PrivacyViolation) as error:
        if not was_made(policy):
            raise
        raise type(error)(
            f"{error}\nno policy lies beside these records: their budget is the one that was given "
            f"(--budget) when {policy.ledger_path} began, and whatever it was raised to since; to "
            "raise it, sign for it with `unisono ledger raise`; to try out, give --seed"
        ) from None


def _trusted(built: Built) -> set[Viewer]:
    """Viewers to whom the study shows everything."""
    colluders = built.study.facts.colluders
    trusted = {SERVER, Viewer.colluders(colluders)} if colluders else {SERVER}
    return trusted if built.study.trust is Trust.TRUSTED_SERVER else set()


def study_epsilon(built: Built, name: str) -> float:
    """What the study takes of a party's budget, at the study's own delta: no less than it says."""
    file, trusted = built.file, _trusted(built)
    privacy = file.privacy
    epsilon = max(
        ACCOUNTANT.epsilon(history, privacy.relation, privacy.delta)
        for viewer, history in built.costs[file.party(name)].items()
        if viewer not in trusted
    )
    if not math.isfinite(epsilon):
        raise InvalidInput(
            f"no finite epsilon protects {name!r} against every viewer in this study: change its "
            "trust or the number of survivors"
        )
    return max(privacy.epsilon, epsilon)


def _terms(built: Built, own: DataSet, budget: Budget) -> Policy:
    """What a ledger is begun with where no policy says it: it counts as this study does."""
    return Policy(
        own.name,
        budget,
        tuple((viewer, Budget(math.inf)) for viewer in _trusted(built)),
        built.file.privacy.relation,
        built.file.privacy.unit,
        built.study.facts.colluders,
        person=built.file.data.person or "",
    )


def _allowing(built: Built, terms: Policy, ledger: Path) -> str:
    """A policy on these terms that allows this study, and nothing else."""
    file, study, budget = built.file, built.study, terms.budget
    plugins = plugins_of(file.model.name, built.algorithm.name)
    year = _per_year(budget)
    exceptions = "".join(
        f'[budget.exceptions."{viewer}"]\nepsilon = {own.epsilon!r}\ndelta = {own.delta!r}\n'
        f"{_per_year(own)}"
        for viewer, own in terms.exceptions
    )
    person = f"person = {json.dumps(terms.person)}\n" if terms.person else ""
    return (
        f"{_MADE} {file.title!r}.\n"
        f"[dataset]\nname = {json.dumps(terms.dataset)}\nledger = {json.dumps(str(ledger))}\n"
        f"records_per_person = {terms.records_per_person}\n"
        f"parties_disjoint = {str(terms.parties_disjoint).lower()}\n\n"
        f"[budget]\nepsilon = {float(budget.epsilon)!r}\ndelta = {float(budget.delta)!r}\n{year}"
        f'relation = "{terms.relation}"\nunit = "{terms.unit}"\n{person}'
        f"colluders = {terms.colluders}\n{exceptions}\n"
        f"[allow]\nmaximum_epsilon = {float(budget.epsilon)!r}\n"
        f"maximum_delta = {float(budget.delta)!r}\n"
        f"minimum_parties = {study.facts.minimum_parties}\n"
        f'maximum_retries = {study.facts.retries}\ntrust = ["{study.trust}"]\n'
        f"plugins = {json.dumps([name for name, _ in plugins])}\n"
    )


def _per_year(budget: Budget) -> str:
    return "" if budget.per_year is None else f"per_year = {float(budget.per_year)!r}\n"


__all__ = [
    "Ask",
    "Unbudgeted",
    "agreed_budget",
    "explained",
    "find_data",
    "policy_for",
    "refuse",
    "study_epsilon",
    "was_made",
]
