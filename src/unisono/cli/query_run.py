"""Reading the parties' files, opening their ledgers and running one query.

The order matters: everything that can be wrong with the question or with a file is found before
a ledger is made, and a ledger refuses before the release; only then is anything spent.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.estimates import Estimate
from unisono.algorithms.one_shot import Promise, agree_facts
from unisono.algorithms.survey import ask
from unisono.cli.query_plan import Asked, Inquiry, inquire
from unisono.core.algorithm import Facts
from unisono.core.certificate import Certificate
from unisono.core.defaults import default_colluders
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import SERVER, Relation, Trust, Viewer
from unisono.core.values import Private
from unisono.data import Table, read_table, require_same_schema
from unisono.engines import in_process
from unisono.errors import InvalidInput

# Below this many files reading them is not worth a progress bar.
_MANY_FILES = 8


@dataclass(frozen=True)
class Setting:
    """The options of `unisono query` that say who is trusted and who pays."""

    epsilon: float
    delta: float
    relation: Relation
    trust: Trust
    ledger_folder: Path
    budget: float | None = None
    budget_delta: float | None = None
    survivors: int | None = None
    colluders: int | None = None
    nominal_rows: int | None = None
    confidence: float = 0.95
    seed: int | None = None


@dataclass(frozen=True)
class Answers:
    """Everything that is printed."""

    estimates: list[Estimate]
    certificate: Certificate
    ledgers: dict[str, str]
    records: int

    def text(self) -> str:
        return "\n".join([*(e.text for e in self.estimates), self.certificate.text()])

    def to_json(self) -> dict[str, Any]:
        return {
            "answers": [estimate.to_json() for estimate in self.estimates],
            "certificate": self.certificate.to_json(),
            "ledgers": self.ledgers,
        }


def answer(files: Sequence[Path], asked: Asked, setting: Setting) -> Answers:
    """Run one query over one file per party."""
    promise = Promise(setting.epsilon, setting.delta, setting.relation)
    if not 0 < setting.confidence < 1:
        raise InvalidInput(f"--confidence {setting.confidence}: it lies between 0 and 1, as 0.95")
    names = [file.stem for file in files]
    if len(set(names)) != len(names):
        raise InvalidInput(
            "two files bear the same name, so their ledgers would too: rename one of them"
        )
    inquiry = inquire(asked)
    survey = ask(inquiry.questions, promise, "query")
    paths = {name: setting.ledger_folder / f"{name}.ledger" for name in names}
    known = {
        n: Ledger.open(p, ACCOUNTANT, seed=setting.seed) for n, p in paths.items() if p.exists()
    }
    try:
        facts = _facts_before(len(files), setting, known)
        Study(survey.algorithm, facts, setting.trust)  # refuses what no data could mend
        tables = _read(files, inquiry)
        features = [inquiry.features(table) for table in tables]
        facts = _sizes(facts, tables, len(inquiry.slots), setting)
        study = Study(survey.algorithm, facts, setting.trust)
        _require_budget(set(names) - set(known), setting)
        parties = [
            Party(name, Private((rows.astype(np.float32),), name),
                  known.get(name) or _create(paths[name], name, facts, setting))
            for name, rows in zip(names, features, strict=True)
        ]  # fmt: skip
        known = {party.name: party.ledger for party in parties}
        result = in_process.run(study, parties)
    finally:
        for ledger in known.values():
            ledger.close()
    return Answers(
        survey.read(study, result, setting.confidence), result.certificate,
        {name: str(path) for name, path in paths.items()}, sum(facts.records),
    )  # fmt: skip


def _facts_before(parties: int, setting: Setting, known: dict[str, Ledger]) -> Facts:
    """What is agreed before a file is opened; sizes are filled in later."""
    for name, ledger in known.items():
        if ledger.policy.relation != setting.relation:
            raise InvalidInput(
                f"the ledger of {name} counts {ledger.policy.relation!s}: ask with --relation "
                f"{ledger.policy.relation!s}"
            )
    colluders = setting.colluders
    if colluders is None:
        # Whatever a ledger insists on is planned for as well.
        survivors = parties if setting.survivors is None else setting.survivors
        usual = default_colluders(setting.trust, survivors)
        colluders = max([usual, *(ledger.policy.colluders for ledger in known.values())])
    hidden = setting.relation is Relation.ADD_OR_REMOVE
    if hidden and setting.nominal_rows is None:
        raise InvalidInput(
            "add-or-remove hides how many records a file has: give a public upper limit with "
            "--nominal-rows"
        )
    return agree_facts(
        (setting.nominal_rows or 1,) * parties, 1, setting.trust, colluders=colluders,
        minimum_survivors=setting.survivors, exact_sizes=not hidden,
    )  # fmt: skip


def _sizes(facts: Facts, tables: Sequence[Table], features: int, setting: Setting) -> Facts:
    if facts.exact_sizes:
        return replace(facts, records=tuple(t.rows for t in tables), features=features)
    for table in tables:
        if table.rows > facts.records[0]:
            raise InvalidInput(
                f"{table.name} holds more records than --nominal-rows {setting.nominal_rows}: "
                "agree on a larger limit; nothing was spent"
            )
    return replace(facts, features=features)


def _read(files: Sequence[Path], inquiry: Inquiry) -> list[Table]:
    columns = inquiry.columns
    if len(files) < _MANY_FILES or not sys.stderr.isatty():
        tables = [read_table(file, columns) for file in files]
    else:
        from rich.console import Console
        from rich.progress import track

        shown = track(files, "reading", console=Console(stderr=True), transient=True)
        tables = [read_table(file, columns) for file in shown]
    require_same_schema(tables)
    return tables


def _require_budget(new: set[str], setting: Setting) -> None:
    if not new:
        return
    if setting.budget is None:
        raise InvalidInput(
            f"{min(new)} has no ledger in {setting.ledger_folder} yet: say how much it may ever "
            "spend with --budget EPSILON"
        )
    Budget(setting.budget, setting.delta if setting.budget_delta is None else setting.budget_delta)
    try:
        setting.ledger_folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"cannot make the folder {setting.ledger_folder}: {error.strerror}"
        ) from None


def _create(path: Path, name: str, facts: Facts, setting: Setting) -> Ledger:
    assert setting.budget is not None
    delta = setting.delta if setting.budget_delta is None else setting.budget_delta
    exceptions: tuple[tuple[Viewer, Budget], ...] = ()
    if setting.trust is Trust.TRUSTED_SERVER:
        exceptions = ((SERVER, Budget(math.inf)),)
        if facts.colluders:
            exceptions += ((Viewer.colluders(facts.colluders), Budget(math.inf)),)
    policy = Policy(
        name, Budget(setting.budget, delta), exceptions, setting.relation,
        colluders=facts.colluders,
    )  # fmt: skip
    return Ledger.create(path, policy, ACCOUNTANT, setting.seed)
