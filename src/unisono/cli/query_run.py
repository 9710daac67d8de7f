"""Reading the parties' files, asking their ledgers and running one query.

The order matters: everything that can be wrong with the question or with a file is found before
a ledger is made, and a ledger refuses before the release; only then is anything spent.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unisono.algorithms.estimates import Estimate
from unisono.algorithms.survey import STATISTICS, Survey
from unisono.cli.output import console
from unisono.cli.query_ledgers import Payer, opened, payer, require_allowed, require_relation
from unisono.cli.query_plan import Asked, Inquiry, inquire
from unisono.core.algorithm import Facts, agree_facts
from unisono.core.certificate import Certificate
from unisono.core.defaults import default_colluders
from unisono.core.outlook import Outlook, outlook
from unisono.core.policy import Budget
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust, Unit
from unisono.core.values import Private
from unisono.data import RecordTable
from unisono.data.order import order_key
from unisono.data.people import as_rows, drawn_persons
from unisono.data.people import records_per_person as usual_group
from unisono.deployment.parties_here import Ask, refuse
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.studies.data_set import records_at, require_apart

# Below this many files reading them is not worth a progress bar.
_MANY_FILES = 8


@dataclass(frozen=True)
class Setting:
    """The options of `unisono query` that say who is trusted and who pays."""

    epsilon: float
    delta: float
    relation: Relation
    trust: Trust
    second_ledgers: Path | None = None
    budget: Budget | None = None
    survivors: int | None = None
    colluders: int | None = None
    nominal_rows: int | None = None
    confidence: float = 0.95
    seed: int | None = None
    person: str | None = None
    records_per_person: int | None = None

    @property
    def unit(self) -> Unit:
        return Unit.RECORD if self.person is None else Unit.PERSON

    @property
    def group(self) -> int | None:
        """How many records of a person are read at most; None where records are hidden."""
        if self.person is not None:
            return usual_group(self.records_per_person)
        if self.records_per_person is not None:
            raise InvalidInput(
                "--records-per-person without --person: name the column that says whose a record is"
            )
        return None


@dataclass(frozen=True)
class QueryAnswers:
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


def answer(
    files: Sequence[Path],
    asked: Asked,
    setting: Setting,
    ask: Ask = refuse,
    say: Callable[[Mapping[str, Outlook]], None] = lambda outlooks: None,
) -> QueryAnswers:
    """Run one query over one file per party.

    Where a file has no budget, `ask` is told what the query takes; `say` is told what it takes of
    all budgets before it is paid."""
    privacy = Privacy(setting.epsilon, setting.delta, setting.relation)
    if not 0 < setting.confidence < 1:
        raise InvalidInput(f"--confidence {setting.confidence}: it lies between 0 and 1, as 0.95")
    inquiry = inquire(asked, privacy)
    survey = Survey(inquiry.questions)
    method = STATISTICS.method(survey, privacy)
    payers = [payer(file, setting) for file in files]
    names = [one.own.name for one in payers]
    if len(set(names)) != len(names):
        raise InvalidInput(
            "two files are one, or bear the same name, so that two parties would: give every party "
            "its own file, and each another name"
        )
    require_relation(payers, setting.relation)
    facts = _facts_before(len(files), setting, payers)
    Study(method, facts, setting.trust)  # refuses what no data could mend
    tables = _read(files, inquiry, setting)
    require_apart(dict(zip(names, files, strict=True)))
    columns = [
        _columns(inquiry, table, setting, name) for name, table in zip(names, tables, strict=True)
    ]
    sizes = {table.name: len(own[0]) for table, own in zip(tables, columns, strict=True)}
    facts = _sizes(facts, sizes, len(inquiry.slots), setting)
    study = Study(method, facts, setting.trust)
    require_allowed(payers, study, inquiry.columns, setting)
    with opened(payers, study, setting, ask) as ledgers:
        if setting.seed is None:
            found = [outlook(book, cost) for book, cost in zip(ledgers, study.costs, strict=True)]
            say({n: one for n, one in zip(names, found, strict=True) if one is not None})
        parties = [
            Party(name, Private(own, name), ledger)
            for name, own, ledger in zip(names, columns, ledgers, strict=True)
        ]
        result = in_process.run(study, parties)
    paths = {} if setting.seed is not None else dict(zip(names, payers, strict=True))
    return QueryAnswers(
        survey.read(study, result, setting.confidence),
        result.certificate,
        {name: str(one.ledger) for name, one in paths.items()},
        sum(facts.records),
    )


def usual_trust(files: int) -> Trust:
    """Who adds the noise where nobody says: a party alone has nobody to add shares with.

    >>> usual_trust(1), usual_trust(2)
    (<Trust.LOCAL: 'local'>, <Trust.SECURE_SUM: 'secure-sum'>)
    """
    return Trust.LOCAL if files == 1 else Trust.SECURE_SUM


def _facts_before(parties: int, setting: Setting, payers: Sequence[Payer]) -> Facts:
    """What is agreed before a file is opened; sizes are filled in later."""
    colluders = setting.colluders
    if colluders is None:
        # Whatever a ledger insists on is planned for as well.
        survivors = parties if setting.survivors is None else setting.survivors
        usual = default_colluders(setting.trust, survivors)
        colluders = max([usual, *(one.terms.colluders for one in payers if one.terms)])
    _require_crowd(parties, setting, colluders)
    hidden = setting.relation is Relation.ADD_OR_REMOVE
    if hidden and setting.nominal_rows is None:
        raise InvalidInput(
            "add-or-remove hides how many records a file has: give a public upper limit with "
            "--nominal-rows"
        )
    facts = agree_facts(
        (setting.nominal_rows or 1,) * parties,
        1,
        setting.trust,
        colluders=colluders,
        minimum_parties=setting.survivors,
        exact_sizes=not hidden,
    )
    return replace(facts, records_per_person=setting.group)


def _require_crowd(parties: int, setting: Setting, colluders: int) -> None:
    """Refuse, in the options of the command, a query in which no honest party hides another."""
    if parties == 1 and setting.trust is Trust.SECURE_SUM:
        raise InvalidInput(
            "--trust secure-sum with one file: it is one party, whose sum is its own value, so "
            "that nothing is hidden by adding; leave --trust out (it is local then), or give the "
            "files of others too"
        )
    survivors = parties if setting.survivors is None else setting.survivors
    if not 1 <= survivors <= parties:
        raise InvalidInput(
            f"--survivors {survivors} with {parties} {'file' if parties == 1 else 'files'}: of as "
            "many parties as there are files, say how many must answer, at least 1"
        )
    if colluders < 0:
        raise InvalidInput(f"--colluders {colluders}: a number of parties, 0 or more")
    if parties > 1 and colluders >= survivors:
        why = "" if setting.colluders is not None else ", for which a ledger plans,"
        raise InvalidInput(
            f"{survivors} of {parties} parties must answer, and {colluders} of them{why} may "
            "collude: no honest party is left; raise --survivors, lower --colluders, or let each "
            "party add all of the noise itself (--trust local)"
        )


def _columns(
    inquiry: Inquiry, table: RecordTable, setting: Setting, party: str
) -> tuple[np.ndarray, ...]:
    """What the survey reads of a party: a row for each record, or for each person."""
    features = inquiry.features(table).astype(np.float32)
    if setting.person is None or setting.group is None:
        return (features,)
    key = order_key(setting.seed, party)
    owners = list(table.column(setting.person))
    people = drawn_persons(owners, setting.group, key, table.name, setting.person)
    flat = features[people.reshape(-1)]
    return (flat,) if setting.group == 1 else as_rows((flat,), people >= 0)


def _sizes(facts: Facts, sizes: Mapping[str, int], features: int, setting: Setting) -> Facts:
    if facts.exact_sizes:
        return replace(facts, records=tuple(sizes.values()), features=features)
    for name, size in sizes.items():
        if size > facts.records[0]:  # refusing would tell everybody the size
            warnings.warn(
                f"{name} holds more {setting.unit}s than --nominal-rows {setting.nominal_rows}: "
                "all of them count, but intervals are made for fewer; agree on a larger number",
                stacklevel=2,
            )
    return replace(facts, features=features)


def _read(files: Sequence[Path], inquiry: Inquiry, setting: Setting) -> list[RecordTable]:
    columns, multiline = inquiry.columns, inquiry.asked.multiline
    if setting.person is not None:
        columns = list(dict.fromkeys([*columns, setting.person]))
    shown: Iterable[Path] = files
    if len(files) >= _MANY_FILES and sys.stderr.isatty():
        from rich.progress import track

        shown = track(files, "reading", console=console(stderr=True), transient=True)
    found = (records_at(file, columns, multiline, inquiry.asked.dialect) for file in shown)
    return [one if isinstance(one, RecordTable) else one.table() for one in found]
