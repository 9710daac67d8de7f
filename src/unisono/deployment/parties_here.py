"""Parties whose files lie on this machine: their records, and what each allows.

Policy and ledger lie beside the records that they are about, so that these have one book whatever
the study, its file or its folder is called:

    DATA/NAME.csv            DATA/NAME.policy.toml     DATA/NAME.ledger
    DATA/NAME/records.csv    DATA/NAME/policy.toml     DATA/NAME/NAME.ledger

A party that brings its own policy is bound by it. For others one is made that allows this study
once, and nothing else.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.trust import SERVER, Trust, Viewer
from unisono.deployment.files import folder_for, write
from unisono.errors import BudgetExceeded, InvalidInput, PrivacyViolation
from unisono.studies.plan import Built
from unisono.studies.policy_file import PolicyFile, load_policy, parse_policy

_MADE = "# Made by unisono, as no policy was there: allows the study"


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
        if len(there) > 1:
            raise InvalidInput(
                f"{folder} has several files for {name!r} ({', '.join(map(str, there))}): keep the "
                "one that holds the party's records"
            )
        found[name] = there[0]
    return found


def policy_of(data: Mapping[str, Path], name: str, ledgers: Path | None = None) -> Path:
    """The policy beside a party's records; where there is none, the place where it is made: there
    too, unless a folder for `ledgers` is given.

    Where the file is a link, what lies beside the records themselves counts as well.
    """
    beside = dict.fromkeys(_beside(path) for path in (data[name].absolute(), data[name].resolve()))
    there = [path for path in beside if path.exists()]
    if len({path.resolve() for path in there}) > 1:
        raise InvalidInput(
            f"{name!r} has two policies, {there[0]} and {there[1]}: keep the one that counts"
        )
    if there:
        return there[0]
    return list(beside)[-1] if ledgers is None else ledgers / name / "policy.toml"


def _beside(records: Path) -> Path:
    own_folder = records.stem in ("records", records.parent.name)
    return records.with_name("policy.toml" if own_folder else f"{records.stem}.policy.toml")


def policy_for(
    built: Built, data: Mapping[str, Path], name: str, ledgers: Path | None, simulated: bool
) -> PolicyFile:
    """The party's own policy, the one that was made before, or one that allows this study; a
    simulation spends nothing, so that what was made before is no limit to it."""
    path = policy_of(data, name, ledgers)
    if path.exists():
        found = load_policy(path)
        if not (simulated and was_made(found)):
            return found
    return parse_policy(allowing(built, name), str(path))


def was_made(policy: PolicyFile) -> bool:
    """Whether nobody wrote it."""
    return policy.source.text.startswith(_MADE)


def keep_policy(policy: PolicyFile) -> None:
    """Write down a policy that was made, once: one that is there is never replaced."""
    path = Path(policy.source.path)
    if path.exists():
        return
    folder_for(path.parent)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    write(draft, policy.source.text.encode())
    try:
        os.link(draft, path)
    except FileExistsError:
        raise InvalidInput(f"another process has made {path} just now: try again") from None
    finally:
        draft.unlink()


@contextmanager
def explained(policy: PolicyFile) -> Iterator[None]:
    """A refusal by a policy that nobody wrote says where it comes from, and how to go on."""
    try:
        yield
    except (BudgetExceeded, PrivacyViolation) as error:
        if not was_made(policy):
            raise
        raise type(error)(
            f"{error}\n{policy.source.path} was made for one study only, and these records' budget "
            "is set by it: a budget is fixed when its ledger begins, so where several studies are "
            "to come, put a policy with a larger one there before the first; to try out, give "
            "--seed"
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
        f"{_MADE} {file.title!r}, once.\n"
        f'[dataset]\nname = "{name}"\nledger = "{name}.ledger"\n\n'
        f"[budget]\nepsilon = {limit!r}\ndelta = {privacy.delta!r}\n"
        f'relation = "{privacy.relation}"\nunit = "{privacy.unit}"\n'
        f"colluders = {facts.colluders}\n{exceptions}\n"
        f"[allow]\nmaximum_epsilon = {limit!r}\nmaximum_delta = {privacy.delta!r}\n"
        f"minimum_quorum = {facts.minimum_survivors}\nmaximum_retries = {facts.retries}\n"
        f'trust = ["{study.trust}"]\n'
    )


__all__ = [
    "allowing", "explained", "find_data", "keep_policy", "policy_for", "policy_of", "was_made"
]  # fmt: skip
