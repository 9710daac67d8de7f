"""A party's first policy from a budget, with a line of help on everything that it may say.

The help is the schema's own (`studies.policy_file`), so that a setting is described once.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.core.config import Config
from unisono.core.journal import read
from unisono.core.ledger import terms
from unisono.core.policy import Budget, Policy
from unisono.errors import InvalidInput
from unisono.studies.data_set import data_set
from unisono.studies.policy_file import Allowed, BudgetSection, Dataset, Exempt, parse_policy
from unisono.studies.template import toml_value


@dataclass(frozen=True)
class PolicyDraft:
    """A policy that may be written, and where it belongs."""

    path: Path
    text: str
    policy: Policy
    records: Path


def policy_draft(records: Path, budget: Budget, minimum_parties: int = 1) -> PolicyDraft:
    """The policy for a file of records, beside it; nothing is written, and no record is read.

    Where a ledger is there already it says how it counts, and the budget may only be lower.
    """
    if not records.exists():
        raise InvalidInput(f"there is no {records}: name the file of records that is to be asked")
    own = data_set(records)
    if own.policy_path.exists():
        raise InvalidInput(
            f"{own.policy_path} exists already and is left as it is: edit it; a budget is lowered "
            "there, and raised with `unisono ledger raise`"
        )
    policy = Policy(own.name, budget)
    if own.ledger_path.exists():
        present = terms(read(own.ledger_path)[0], own.ledger_path)
        if not budget.within(present.budget):
            raise InvalidInput(
                f"--budget {budget.words}: {own.ledger_path} has {present.budget.words}, and a "
                "policy may only lower it; raise it first, with `unisono ledger raise`"
            )
        policy = Policy(
            present.dataset,
            budget,
            present.exceptions,
            present.relation,
            present.unit,
            present.colluders,
            present.records_per_person,
            present.parties_disjoint,
        )
    text = policy_text(policy, own.ledger_path.name, minimum_parties)
    found = parse_policy(text, str(own.policy_path)).core_policy()
    assert found == policy, "a policy says something else than it was written for"
    return PolicyDraft(own.policy_path, text, policy, own.records)


def policy_text(policy: Policy, ledger: str, minimum_parties: int) -> str:
    """The file: what is said, and as comments what else may be, each with its help."""
    budget = policy.budget
    dataset = {
        "name": policy.dataset,
        "ledger": ledger,
        "records_per_person": policy.records_per_person,
        "parties_disjoint": policy.parties_disjoint,
    }
    section = {
        "epsilon": budget.epsilon,
        "per_year": budget.per_year,
        "delta": budget.delta,
        "relation": str(policy.relation),
        "unit": str(policy.unit),
        "colluders": policy.colluders,
    }
    allow = {
        "maximum_epsilon": budget.in_a_year,
        "maximum_delta": budget.delta,
        "minimum_parties": minimum_parties,
    }
    return (
        "# What this party allows, whatever a study or a server asks. Keep it beside the records.\n"
        "# Lines that begin with # are what else may be said, with what holds where they are left "
        "out.\n\n"
        f"[dataset]\n{_lines(Dataset, dataset)}\n"
        f"[budget]                       # for ever: nothing gives back what is spent\n"
        f"{_lines(BudgetSection, section, skip='exceptions')}"
        f"{_exceptions(policy)}\n"
        f"[allow]                        # what one study may be\n{_lines(Allowed, allow)}"
    )


def _exceptions(policy: Policy) -> str:
    """Viewers who may learn more, or less; without any, how one is written."""
    if not policy.exceptions:
        return "# [budget.exceptions.server]   # viewers who may learn more, or less\n" + "".join(
            f"# {line}\n" for line in _lines(Exempt, {"epsilon": float("inf")}).splitlines()[:1]
        )
    return "".join(
        f"\n[budget.exceptions.{json.dumps(str(viewer))}]\n"
        + _lines(Exempt, {"epsilon": own.epsilon, "delta": own.delta, "per_year": own.per_year})
        for viewer, own in policy.exceptions
    )


def _lines(section: type[Config], said: Mapping[str, Any], skip: str = "") -> str:
    """Every setting of a section with its help: as said, or as a comment with its default."""
    lines = []
    for name, info in section.model_fields.items():
        if name == skip:
            continue
        value, default = said.get(name), None
        if value is None:
            default = info.get_default(call_default_factory=True)
        shown = value if value is not None else default
        text = f"{name} = {'...' if shown is None else _toml(shown)}"
        mark = "" if value is not None else "# "
        lines.append(f"{mark + text:<30} # {info.description}\n")
    return "".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, float):
        return (
            "inf"
            if value == float("inf")
            else f"{value:g}"
            if float(f"{value:g}") == value
            else repr(value)
        )
    return toml_value(value)


__all__ = ["PolicyDraft", "policy_draft", "policy_text"]
