"""What a `policy.toml` says: one data set, its budget, and what a single study may be."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveInt, PrivateAttr

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core import policy as core
from unisono.core.config import Config
from unisono.core.ledger import Ledger
from unisono.core.trust import Relation, Trust, Unit, Viewer
from unisono.errors import InvalidInput
from unisono.studies import source
from unisono.studies.record_source import RecordSource
from unisono.studies.source import Fault, Source

Delta = Annotated[float, Field(ge=0, lt=1)]
# "inf" is how a policy says that a viewer is trusted.
Epsilon = Annotated[float, Field(gt=0, allow_inf_nan=True)]


class Dataset(Config):
    """Whose records, and where the ledger of their budget lies (beside the policy file unless the
    path is absolute). The two declarations are printed on certificates."""

    name: str = Field(
        min_length=1, description="The data set's name; `unisono join` takes it for the party's."
    )
    ledger: str = Field(
        min_length=1,
        description="The ledger's file, beside this one unless the path is absolute.",
    )
    records_per_person: PositiveInt = Field(
        1, description="Declared on certificates: how many records one person may have."
    )
    parties_disjoint: bool = Field(
        True, description="Declared on certificates: nobody has records at two parties."
    )


class Exempt(Config):
    """A viewer who may learn more, or less; infinite epsilon says that it is trusted."""

    epsilon: Epsilon = Field(description="What this viewer may learn; inf: it is trusted.")
    delta: Delta = Field(0.0, description="The delta at which it is counted.")
    per_year: Annotated[float, Field(gt=0)] | None = Field(
        None, description="What this viewer may learn in one calendar year; left out: as everybody."
    )


class BudgetSection(Config):
    """What all studies together may cost, against every viewer but the exceptions."""

    epsilon: Annotated[float, Field(gt=0)] = Field(
        description="What all studies together may cost, for ever."
    )
    per_year: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="What the studies of one calendar year (UTC) may cost, below epsilon; left "
        "out: no limit but epsilon.",
    )
    delta: Delta = Field(description="The chance of the worst case, over all studies.")
    relation: Relation = Field(
        Relation.REPLACE_ONE,
        description="What is hidden of a unit: which one it is, its values, or also that it is "
        "there.",
    )
    unit: Unit = Field(Unit.RECORD, description="Whose presence the budget hides.")
    person: str | None = Field(
        None,
        min_length=1,
        description='The column that says whose a record is, where unit = "person".',
    )
    colluders: Annotated[int, Field(ge=0)] = Field(
        0, description="So many parties may work together with the server."
    )
    exceptions: dict[str, Exempt] = Field(
        default_factory=dict, description="Viewers who may learn more, or less."
    )


class Allowed(Config):
    """What one study may be: the most it costs, at `maximum_delta`; how many parties must take
    part (`minimum_parties`) and how many of them are certainly honest (`minimum_honest`); and,
    where they are listed, which models, algorithms, columns, kinds of trust and servers."""

    maximum_epsilon: Annotated[float, Field(gt=0)] = Field(
        description="The most that one study may cost."
    )
    maximum_delta: Delta = Field(description="The delta at which it is counted.")
    minimum_parties: PositiveInt = Field(
        description="So many parties must take part in every round."
    )
    minimum_honest: PositiveInt = Field(1, description="So many of them must certainly be honest.")
    maximum_retries: Annotated[int, Field(ge=0)] = Field(
        0, description="So many failed rounds of a study may be tried again."
    )
    trust: tuple[Trust, ...] = Field(
        (Trust.SECURE_SUM, Trust.LOCAL),
        description="The kinds of trust that a study may ask for.",
    )
    models: tuple[str, ...] | None = Field(
        None, description="Which models a study may learn; left out: all."
    )
    algorithms: tuple[str, ...] | None = Field(
        None, description="Which algorithms a study may use; left out: all."
    )
    plugins: tuple[str, ...] = Field(
        (),
        description="Which installed distributions may bring a study's model or algorithm, which "
        "then reads records here; left out: none.",
    )
    columns: tuple[str, ...] | None = Field(
        None, description="The columns that a study may read; left out: all."
    )
    published: bool = Field(
        False,
        description="Whether a study may take noise as a publication prints it, at its true cost.",
    )
    servers: tuple[str, ...] | None = Field(
        None, description="Which servers a study may use, as HOST:PORT; left out: any."
    )


class PolicyFile(Config):
    """The whole file."""

    dataset: Dataset = Field(description="Whose records, and where the ledger of their budget is.")
    budget: BudgetSection = Field(
        description="What all studies together may cost, against every viewer."
    )
    allow: Allowed = Field(description="What one study may be.")
    records: RecordSource | None = Field(
        None,
        alias="source",
        description="Where the records come from; left out: the file that is given.",
    )
    _source: Source = PrivateAttr(default=Source())

    @property
    def source(self) -> Source:
        return self._source

    @property
    def home(self) -> Path:
        """The folder that its paths begin at."""
        return Path(self.source.path).parent

    @property
    def ledger_path(self) -> Path:
        return self.home / self.dataset.ledger

    def core_policy(self) -> core.Policy:
        """The policy that the ledger is made with, and that binds it from then on."""
        budget, dataset = self.budget, self.dataset
        return core.Policy(
            dataset.name,
            core.Budget(budget.epsilon, budget.delta, budget.per_year),
            tuple(
                (Viewer(viewer), core.Budget(own.epsilon, own.delta, own.per_year))
                for viewer, own in budget.exceptions.items()
            ),
            budget.relation,
            budget.unit,
            budget.colluders,
            dataset.records_per_person,
            dataset.parties_disjoint,
            self.allow.published,
            budget.person or "",
            queried=self.records is not None and self.records.sql is not None,
        )

    def open_ledger(self) -> Ledger:
        """The data set's book: made at first use, opened later; under another policy refused."""
        path = self.ledger_path
        if not path.exists():
            Ledger.create(path, self.core_policy(), ACCOUNTANT).close()
        return Ledger.open(path, ACCOUNTANT, self.core_policy())


def load_policy(path: str | Path) -> PolicyFile:
    """A party's policy, or an error for every line that is wrong."""
    file, origin = source.read(path, PolicyFile, _faults)
    file._source = origin
    return file


def parse_policy(text: str, path: str) -> PolicyFile:
    """As `load_policy`, from a text that errors call `path`."""
    file, origin = source.parse(text, path, PolicyFile, _faults)
    file._source = origin
    return file


def _faults(file: PolicyFile) -> Iterator[Fault]:
    for viewer in file.budget.exceptions:
        try:
            Viewer(viewer)
        except InvalidInput as error:
            yield ("budget", "exceptions", viewer), str(error)
    if (file.budget.unit is Unit.PERSON) != (file.budget.person is not None):
        words = 'unit = "person" and the column that says whose a record is go together'
        yield ("budget", "person"), f'{words}: write both, as person = "patient_id", or neither'
    budgets: dict[tuple[str, ...], BudgetSection | Exempt] = {("budget",): file.budget}
    budgets |= {("budget", "exceptions", v): own for v, own in file.budget.exceptions.items()}
    for place, own in budgets.items():
        if own.per_year is not None and own.per_year >= own.epsilon:
            words = f"{own.per_year:g} is not below epsilon = {own.epsilon:g}"
            yield (*place, "per_year"), f"{words}, which all years share: leave it out, or lower it"
    if file.allow.maximum_epsilon > file.budget.epsilon:
        words = f"{file.allow.maximum_epsilon:g} exceeds the whole budget {file.budget.epsilon:g}"
        yield ("allow", "maximum_epsilon"), f"{words}: no study may cost more than all of them"


__all__ = ["PolicyFile", "load_policy", "parse_policy"]
