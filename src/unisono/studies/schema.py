"""What a `study.toml` says: what the parties agree on, readable by each before it joins.

Equal meaning, equal hash: `StudyFile.hash` is over everything that is said, with what was left out
filled in (`meaning`), and does not depend on comments, layout or the machine.
"""

import hashlib
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, PrivateAttr, field_validator

from unisono.core.defaults import default_colluders, default_relation
from unisono.core.events import canonical
from unisono.core.trust import Relation, Trust, Unit
from unisono.errors import InvalidInput
from unisono.studies.settings import Settings
from unisono.studies.source import Section, Source

FORMAT = "unisono-study-1"
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
Name = Annotated[str, Field(pattern=NAME)]


class Number(Section):
    """A column of numbers; what lies outside the public bounds is clipped. `whole` numbers are
    added exactly in statistics."""

    kind: Literal["number"]
    bounds: tuple[float, float]
    whole: bool = False

    @field_validator("bounds")
    @classmethod
    def _range(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        low, high = bounds
        if not low < high:
            raise InvalidInput(
                f"bounds {low:g} to {high:g} are no range: give the public lowest and highest "
                "value, never read from the data"
            )
        return bounds


class Category(Section):
    """A column of named values, all of them public."""

    kind: Literal["category"]
    values: tuple[str, ...] = Field(min_length=2)

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(values)) < len(values) or not all(values):
            raise InvalidInput(f"values {', '.join(values)!r}: name each value once, none empty")
        return values


class Data(Section):
    """Columns in an agreed order; the target is the one to predict. `multiline` allows newlines in
    quoted cells of CSV files, and gives up that one record never decides where others end."""

    columns: dict[str, Annotated[Number | Category, Field(discriminator="kind")]] = Field(
        min_length=1
    )
    target: str | None = None
    sizes: Literal["exact", "hidden"] = "exact"
    multiline: bool = False

    @property
    def features(self) -> dict[str, Number | Category]:
        """All columns but the target."""
        return {name: column for name, column in self.columns.items() if name != self.target}


class Participant(Section):
    """A party; `records` is its public size, or a public estimate where sizes are hidden."""

    name: Name
    records: PositiveInt


class Privacy(Section):
    """What one unit may lose by the whole study, under which relation."""

    epsilon: PositiveFloat
    delta: Annotated[float, Field(ge=0, lt=1)]
    unit: Unit = Unit.RECORD
    relation: Relation = Field(
        default_factory=lambda said: default_relation(said.get("unit", Unit.RECORD))
    )


class Trusted(Section):
    """Where noise is added, how many parties must answer, how many may collude, and how many
    failed rounds of the run may be tried again in all; attempts are releases and are paid for."""

    mode: Trust
    minimum_survivors: PositiveInt | None = None
    colluders: Annotated[int, Field(ge=0)] | None = None
    retries: Annotated[int, Field(ge=0, le=100)] = 0


class Evaluation(Section):
    """How good the result is: by a share of each party's records (`holdout`, drawn in secret), kept
    out of training and asked for one noisy mean that costs `epsilon` in addition; or by a file of
    public records beside the study, which costs nothing."""

    holdout: Annotated[float, Field(gt=0, le=0.5)] | None = None
    epsilon: PositiveFloat | None = None
    file: Annotated[str, Field(min_length=1)] | None = None
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95

    @property
    def every(self) -> int:
        """One of how many records is kept out of training; 0 for none."""
        return 0 if self.holdout is None else round(1 / self.holdout)


class Server(Section):
    """Where the server listens, and how long it waits for answers, in seconds."""

    address: Annotated[str, Field(pattern=r"^[^\s:/]+:[0-9]{1,5}$")]
    deadline: PositiveFloat = 60.0


class StudyFile(Section):
    """The whole file. A study runs once; to run the same again, agree on the next `edition`."""

    title: str = Field(min_length=1)
    edition: PositiveInt = 1
    data: Data
    parties: tuple[Participant, ...] = Field(min_length=1)
    privacy: Privacy
    trust: Trusted
    algorithm: Settings
    evaluation: Evaluation | None = None
    server: Server | None = None
    _source: Source = PrivateAttr(default=Source())

    @property
    def source(self) -> Source:
        """Where it was read from; files that say the same are equal wherever they lie."""
        return self._source

    def placed(self, origin: Source) -> "StudyFile":
        """This file, remembering where it was read from."""
        self._source = origin
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The parties, in the agreed order."""
        return tuple(party.name for party in self.parties)

    @property
    def held_out(self) -> tuple[int, ...]:
        """How many records of each party are kept out of training; which is a secret."""
        every = self.evaluation.every if self.evaluation else 0
        return tuple(party.records // every if every else 0 for party in self.parties)

    @property
    def training(self) -> tuple[int, ...]:
        """How many records of each party are learnt from."""
        pairs = zip(self.parties, self.held_out, strict=True)
        return tuple(party.records - held for party, held in pairs)

    @property
    def survivors(self) -> int:
        """How many parties must answer in every round: all of them, unless it says fewer."""
        given = self.trust.minimum_survivors
        return len(self.parties) if given is None else given

    @property
    def colluders(self) -> int:
        """With how many parties the server may collude: one, unless it says (`defaults`)."""
        if self.trust.colluders is not None:
            return self.trust.colluders
        return default_colluders(self.trust.mode, self.survivors)

    @cached_property
    def meaning(self) -> dict[str, Any]:
        """Everything that is said, as plain JSON; the order of columns and parties counts."""
        said = self.model_dump(mode="json")
        said["format"] = FORMAT
        if self.evaluation is None:  # files from before there was one keep their hash
            del said["evaluation"]
        if not self.data.multiline:
            del said["data"]["multiline"]
        said["data"]["columns"] = [list(item) for item in said["data"]["columns"].items()]
        said["trust"] |= {"minimum_survivors": self.survivors, "colluders": self.colluders}
        return said

    @cached_property
    def hash(self) -> str:
        """What was agreed on, in one number."""
        return hashlib.sha256(canonical(self.meaning)).hexdigest()

    def party(self, name: str) -> int:
        """A party's number."""
        if name not in self.names:
            raise InvalidInput(
                f"{self.source.path or 'the study'} has no party {name!r}: it names "
                f"{', '.join(self.names)}"
            )
        return self.names.index(name)


__all__ = [
    "FORMAT", "NAME", "Category", "Data", "Evaluation", "Name", "Number", "Participant", "StudyFile"
]  # fmt: skip
