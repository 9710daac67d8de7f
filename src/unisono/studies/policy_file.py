"""What a `policy.toml` says: one data set, its budget, and what a single study may be."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveInt, PrivateAttr

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core import policy as core
from unisono.core.ledger import Ledger
from unisono.core.trust import Relation, Trust, Unit, Viewer
from unisono.errors import InvalidInput
from unisono.studies import source
from unisono.studies.source import Fault, Section, Source

Delta = Annotated[float, Field(ge=0, lt=1)]
# "inf" is how a policy says that a viewer is trusted.
Epsilon = Annotated[float, Field(gt=0, allow_inf_nan=True)]


class Dataset(Section):
    """Whose records, and where the book of their budget lies (beside the policy file unless the
    path is absolute). The two declarations are printed on certificates."""

    name: str = Field(min_length=1)
    ledger: str = Field(min_length=1)
    records_per_person: PositiveInt = 1
    parties_disjoint: bool = True


class Exempt(Section):
    """A viewer who may learn more, or less; infinite epsilon says that it is trusted."""

    epsilon: Epsilon
    delta: Delta = 0.0


class Budget(Section):
    """What all studies together may cost, against every viewer but the exceptions."""

    epsilon: Annotated[float, Field(gt=0)]
    delta: Delta
    relation: Relation = Relation.REPLACE_ONE
    unit: Unit = Unit.RECORD
    colluders: Annotated[int, Field(ge=0)] = 0
    exceptions: dict[str, Exempt] = Field(default_factory=dict)


class Allowed(Section):
    """What one study may be: the most it costs, at `maximum_delta`; how many parties must take
    part (`minimum_quorum`) and how many of them are certainly honest (`minimum_honest`); and, where
    they are listed, which algorithms, columns, kinds of trust and servers."""

    maximum_epsilon: Annotated[float, Field(gt=0)]
    maximum_delta: Delta
    minimum_quorum: PositiveInt
    minimum_honest: PositiveInt = 1
    maximum_retries: Annotated[int, Field(ge=0)] = 0
    trust: tuple[Trust, ...] = (Trust.SECURE_SUM, Trust.LOCAL)
    algorithms: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    servers: tuple[str, ...] | None = None


class PolicyFile(Section):
    """The whole file."""

    dataset: Dataset
    budget: Budget
    allow: Allowed
    _source: Source = PrivateAttr(default=Source())

    @property
    def source(self) -> Source:
        return self._source

    @property
    def ledger_path(self) -> Path:
        return Path(self.source.path).parent / self.dataset.ledger

    def core_policy(self) -> core.Policy:
        """The policy that the ledger is made with, and known by."""
        budget, dataset = self.budget, self.dataset
        return core.Policy(
            dataset.name, core.Budget(budget.epsilon, budget.delta),
            tuple((Viewer(viewer), core.Budget(own.epsilon, own.delta))
                  for viewer, own in budget.exceptions.items()),
            budget.relation, budget.unit, budget.colluders, dataset.records_per_person,
            dataset.parties_disjoint,
        )  # fmt: skip

    def open_ledger(self) -> Ledger:
        """The data set's book: made at first use, opened later; under another policy refused."""
        path = self.ledger_path
        if path.exists():
            return Ledger.open(path, ACCOUNTANT, self.core_policy())
        return Ledger.create(path, self.core_policy(), ACCOUNTANT)


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
    if file.allow.maximum_epsilon > file.budget.epsilon:
        words = f"{file.allow.maximum_epsilon:g} exceeds the whole budget {file.budget.epsilon:g}"
        yield ("allow", "maximum_epsilon"), f"{words}: no study may cost more than all of them"


__all__ = ["PolicyFile", "load_policy", "parse_policy"]
