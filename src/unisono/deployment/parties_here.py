"""Parties whose files lie on this machine: their records, and what each allows.

A party that brings its own policy.toml beside its records (in a folder of its name) is bound by it.
For others one is made that allows this study once, and nothing else.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.trust import SERVER, Trust, Viewer
from unisono.errors import BudgetExceeded, InvalidInput, PrivacyViolation
from unisono.studies.plan import Built
from unisono.studies.policy_file import PolicyFile, load_policy, parse_policy


def find_data(names: Sequence[str], folder: Path) -> dict[str, Path]:
    """Each party's file in a folder: NAME.csv, NAME.parquet, or records in a folder NAME."""
    found = {}
    for name in names:
        choices = [
            folder / place
            for suffix in ("csv", "parquet")
            for place in (f"{name}.{suffix}", f"{name}/records.{suffix}", f"{name}/{name}.{suffix}")
        ]
        there = [choice for choice in choices if choice.is_file()]
        if not there:
            raise InvalidInput(
                f"{folder} has no file for {name!r}: put {name}.csv or {name}/records.csv there"
            )
        found[name] = there[0]
    return found


def policy_of(folder: Path, data: Mapping[str, Path], name: str) -> Path:
    """The party's own policy beside its data, or the one that is made for it."""
    own = data[name].parent / "policy.toml"
    return own if own.exists() and data[name].parent.name == name else folder / name / "policy.toml"


def policy_for(
    built: Built, folder: Path, data: Mapping[str, Path], name: str, simulated: bool
) -> PolicyFile:
    """The party's own policy, the one that was made before, or one that allows this study; a
    simulation spends nothing, so that what was made before is no limit to it."""
    path = policy_of(folder, data, name)
    made = path.parent == folder / name
    if path.exists() and not (made and simulated):
        return load_policy(path)
    return parse_policy(allowing(built, name), str(path))


@contextmanager
def explained(folder: Path, policy: PolicyFile) -> Iterator[None]:
    """A refusal by a policy that nobody wrote says where it comes from, and how to go on."""
    try:
        yield
    except (BudgetExceeded, PrivacyViolation) as error:
        path = Path(policy.source.path)
        if folder not in path.parents:
            raise
        raise type(error)(
            f"{error}\n{path} was made for one study only: to run others too, put a policy with a "
            "larger budget beside each party's records (NAME/policy.toml), or try out with --seed"
        ) from None


def allowing(built: Built, name: str) -> str:
    """A policy that allows this study once, and nothing else."""
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
    limit = max(privacy.epsilon, epsilon) * (1 + 1e-6)
    exceptions = "".join(
        f'[budget.exceptions."{viewer}"]\nepsilon = inf\n' for viewer in sorted(trusted)
    )
    return (
        f'[dataset]\nname = "{name}"\nledger = "{name}.ledger"\n\n'
        f"[budget]\nepsilon = {limit!r}\ndelta = {privacy.delta!r}\n"
        f'relation = "{privacy.relation}"\nunit = "{privacy.unit}"\n'
        f"colluders = {facts.colluders}\n{exceptions}\n"
        f"[allow]\nmaximum_epsilon = {limit!r}\nmaximum_delta = {privacy.delta!r}\n"
        f"minimum_quorum = {facts.minimum_survivors}\nmaximum_retries = {facts.retries}\n"
        f'trust = ["{study.trust}"]\n'
    )


__all__ = ["allowing", "explained", "find_data", "policy_for", "policy_of"]
