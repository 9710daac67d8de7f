"""Parties whose files lie on this machine: their records, and what each allows.

Policy and ledger lie beside the records that they are about (`studies.data_set`). A party that
brings its own policy is bound by it. For others a ledger is begun that can pay for this study once;
one that is there already keeps its budget, whoever began it.
"""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.journal import read
from unisono.core.ledger import header
from unisono.core.policy import Budget, Policy
from unisono.core.trust import SERVER, Trust, Viewer
from unisono.errors import BudgetExceeded, InvalidInput, PrivacyViolation
from unisono.releases.plugins import plugins_of
from unisono.studies.build import Built
from unisono.studies.data_set import DataSet, data_set
from unisono.studies.policy_file import PolicyFile, load_policy, parse_policy

_MADE = "# Made by unisono, as no policy was there: allows the study"


def find_data(names: Sequence[str], folder: Path) -> dict[str, Path]:
    """Each party's file in a folder: NAME.csv, NAME.parquet, or records in a folder NAME; or the
    policy that names its source."""
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


def policy_for(
    built: Built, own: DataSet, name: str, second_ledgers: Path | None, simulated: bool
) -> PolicyFile:
    """The party's own policy, or one that allows this study, within the budget of the ledger that
    is there; a simulation spends nothing, so that no ledger limits it.

    Parties without a policy may pay from a second ledger in a folder of its own.
    """
    policy = own.policy
    if policy is not None:
        return policy
    ledger = own.ledger_path
    if second_ledgers is not None:
        ledger = second_ledgers / f"{own.name}.ledger"
    begun = not simulated and ledger.exists()
    terms = header(read(ledger)[0], ledger)[0] if begun else _terms(built, own, name)
    return parse_policy(_allowing(built, terms, ledger), str(ledger))


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
            f"{error}\nno policy lies beside these records, so that their budget was fixed by the "
            f"first study or query that was paid from {policy.ledger_path}: where several are to "
            "come, write a policy with a larger one before the first; to try out, give --seed"
        ) from None


def _terms(built: Built, own: DataSet, name: str) -> Policy:
    """A budget that suffices for this study once."""
    file, study = built.file, built.study
    privacy, facts = file.privacy, study.facts
    trusted = {SERVER, Viewer.colluders(facts.colluders)} if facts.colluders else {SERVER}
    trusted = trusted if study.trust is Trust.TRUSTED_SERVER else set()
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
    return Policy(
        own.name,
        Budget(max(privacy.epsilon, epsilon) * (1 + 1e-6), privacy.delta),
        tuple((viewer, Budget(math.inf)) for viewer in trusted),
        privacy.relation,
        privacy.unit,
        facts.colluders,
    )


def _allowing(built: Built, terms: Policy, ledger: Path) -> str:
    """A policy on these terms that allows this study, and nothing else."""
    file, study, budget = built.file, built.study, terms.budget
    plugins = plugins_of(file.model.name, built.algorithm.name)
    exceptions = "".join(
        f'[budget.exceptions."{viewer}"]\nepsilon = {own.epsilon!r}\ndelta = {own.delta!r}\n'
        for viewer, own in terms.exceptions
    )
    return (
        f"{_MADE} {file.title!r}.\n"
        f"[dataset]\nname = {json.dumps(terms.dataset)}\nledger = {json.dumps(str(ledger))}\n"
        f"records_per_person = {terms.records_per_person}\n"
        f"parties_disjoint = {str(terms.parties_disjoint).lower()}\n\n"
        f"[budget]\nepsilon = {float(budget.epsilon)!r}\ndelta = {float(budget.delta)!r}\n"
        f'relation = "{terms.relation}"\nunit = "{terms.unit}"\n'
        f"colluders = {terms.colluders}\n{exceptions}\n"
        f"[allow]\nmaximum_epsilon = {float(budget.epsilon)!r}\n"
        f"maximum_delta = {float(budget.delta)!r}\n"
        f"minimum_parties = {study.facts.minimum_parties}\n"
        f'maximum_retries = {study.facts.retries}\ntrust = ["{study.trust}"]\n'
        f"plugins = {json.dumps([name for name, _ in plugins])}\n"
    )


__all__ = ["explained", "find_data", "policy_for", "was_made"]
