"""What a `study.toml` says: what the parties agree on, readable by each before it joins.

Equal meaning, equal hash: `StudyFile.hash` is over everything that is said, with what was left out
filled in (`meaning`), and does not depend on comments, layout or the machine. The sections [model]
and [algorithm] are those of the registries: one table for each entry, told apart by its name.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property, reduce
from itertools import product
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, PrivateAttr, create_model

from unisono.algorithms.registry import algorithm_named, algorithms
from unisono.core.config import AddedLater, Config
from unisono.core.defaults import BOUNDS_SHARE, default_colluders, default_relation
from unisono.core.events import canonical
from unisono.core.privacy import Privacy
from unisono.core.trust import Relation, Trust, Unit
from unisono.core.words import did_you_mean
from unisono.data.schema import Schema
from unisono.data.sites import SITE, SiteColumn, site_column
from unisono.errors import InvalidInput
from unisono.models.model import Choice, ModelKind, Posed
from unisono.models.registry import algorithms_for, model_named, models
from unisono.releases.algorithm import AlgorithmKind
from unisono.releases.plugins import plugins_of
from unisono.studies.source import NAME, Source

FORMAT = "unisono-study-2"
Name = Annotated[str, Field(pattern=NAME)]
AUTO = "auto"


class Participant(Config):
    """A party; `records` is its public size, or a public estimate where sizes are hidden. Where
    persons are the unit it is their number, and how many records they have is nobody's business."""

    name: Name = Field(description="A party's name, as its files and cards have it.")
    records: PositiveInt = Field(
        description="The party's public number of records (of persons, where they are the unit), "
        "or an estimate where sizes are hidden."
    )
    epsilon: PositiveFloat | None = Field(
        None,
        description="An epsilon of its own, not above the study's, where every party adds all of "
        "its noise; left out: the study's.",
    )


class PrivacySection(Config):
    """What one unit may lose by the whole study, under which relation."""

    epsilon: PositiveFloat = Field(
        description="How much may be learnt of one unit: smaller hides more."
    )
    delta: Annotated[float, Field(ge=0, lt=1)] = Field(
        description="The chance of the worst case; far below 1 / number of records."
    )
    unit: Unit = Field(
        Unit.RECORD,
        description="Whose presence is hidden: a record's, a person's (data.person says whose a "
        "record is), or a whole party's.",
    )
    relation: Relation = Field(
        default_factory=lambda said: default_relation(said.get("unit", Unit.RECORD)),
        description="What is hidden of it: which one it is, its values, or also that it is there; "
        "left out: replace-one, for a party zero-out.",
    )
    bounds_share: Annotated[float, Field(gt=0, lt=1), AddedLater] = Field(
        BOUNDS_SHARE,
        description="The part of epsilon and delta that pays for the ranges of columns whose "
        "bounds are private, and for values that are.",
    )


class TrustSection(Config):
    """Where noise is added, how many parties must answer, how many may collude, and how many
    failed rounds of the run may be tried again in all; attempts are releases and are paid for."""

    mode: Trust = Field(
        description="Who adds the noise: parties in shares, each party alone, or a trusted server."
    )
    minimum_parties: PositiveInt | None = Field(
        None, description="So many parties must answer in every round; left out: all."
    )
    colluders: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="So many parties may work together with the server; left out: 1, or 0 with a "
        "trusted server.",
    )
    retries: Annotated[int, Field(ge=0, le=100)] = Field(
        0, description="So many failed rounds of the run may be tried again; all are paid for."
    )


class Evaluation(Config):
    """How good the result is: by a share of each party's records (`holdout`, drawn in secret), kept
    out of training and asked for one noisy mean that costs `epsilon` in addition; or by a file of
    public records beside the study, which costs nothing."""

    holdout: Annotated[float, Field(gt=0, le=0.5)] | None = Field(
        None, description="The share of each party's records that is kept out of training."
    )
    epsilon: PositiveFloat | None = Field(
        None, description="What the private test costs, in addition to the study."
    )
    file: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="A file of PUBLIC test records; its path begins at this file's folder."
    )
    confidence: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.95, description="How often intervals hold."
    )
    metrics: Annotated[Literal["score", "all"], AddedLater] = Field(
        "score",
        description='What the private test measures: one score, or "all": accuracy, AUC, losses, '
        "calibration and more, each less exactly.",
    )
    by: Annotated[str | None, AddedLater] = Field(
        None, description='A category whose values are judged apart, with metrics = "all".'
    )

    @property
    def every(self) -> int:
        """One of how many records is kept out of training; 0 for none."""
        return 0 if self.holdout is None else round(1 / self.holdout)


class SearchCandidate(Config):
    """What one candidate has instead of the file's own: settings of [model] and of [algorithm]; one
    that names another model or algorithm begins anew."""

    model: dict[str, Any] = Field({}, description="Settings that replace those of [model].")
    algorithm: dict[str, Any] = Field({}, description="Settings that replace those of [algorithm].")


class Search(Config):
    """A choice among candidates, for the study's one epsilon: each is learnt once, and one noisy
    release of scores says which is taken. All records learn and judge, or a share of each party's,
    drawn in secret, is kept out of training to judge (`holdout`)."""

    candidates: tuple[SearchCandidate, ...] = Field(
        (), description="What is tried; a candidate that says nothing is the file as it is."
    )
    grid: dict[str, tuple[Any, ...]] = Field(
        {},
        description='Values of settings, all combinations of which are tried, as "model.name" or '
        '"algorithm.rounds" = [20, 100].',
    )
    holdout: Annotated[float, Field(ge=0, le=0.5)] = Field(
        0.0,
        description="The share of each party's records that judges and is not learnt from: one in "
        "two, three, four and so on, whichever is nearest; 0: all records learn and judge.",
    )
    method: Literal["all", "random-stopping"] = Field(
        "all",
        description="Every candidate once, with all scores shown; or a secret random number of "
        "runs, of which the best alone is shown: then epsilon is promised to whoever sees the "
        "final model, and others pay for as many runs as there can be.",
    )
    most_runs: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None,
        description='With "random-stopping", the largest number of runs; left out: twice the '
        "candidates.",
    )
    average: Annotated[bool, AddedLater] = Field(
        False,
        description='With "all", whether the average of the first candidates of all releases is '
        "judged, too, and may be taken; it costs nothing.",
    )
    score_share: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.08,
        description="The part of what the study may show that pays for the scores; with "
        '"random-stopping", the part of a run, unless records are kept out of training.',
    )

    @property
    def most(self) -> int:
        """The largest number of runs."""
        return 2 * len(self.overrides) if self.most_runs is None else self.most_runs

    @property
    def overrides(self) -> tuple[dict[str, dict[str, Any]], ...]:
        """What is tried, in order: by section, what differs."""
        listed = [{"model": dict(c.model), "algorithm": dict(c.algorithm)} for c in self.candidates]
        if not self.grid:
            return tuple(listed)
        made = []
        for values in product(*self.grid.values()):
            own: dict[str, dict[str, Any]] = {"model": {}, "algorithm": {}}
            for name, value in zip(self.grid, values, strict=True):
                section, _, setting = name.partition(".")
                own.setdefault(section, {})[setting] = value
            made.append(own)
        return (*listed, *made)


class Server(Config):
    """Where the server listens, and how long it waits for answers, in seconds."""

    address: Annotated[str, Field(pattern=r"^[^\s:/]+:[0-9]{1,5}$")] = Field(
        description="HOST:PORT, as parties reach it."
    )
    deadline: PositiveFloat = Field(60.0, description="Seconds to wait for an answer.")


# ------------------------------------------------------------- sections of the registries


def _section(kind: ModelKind | AlgorithmKind, what: str) -> type[Config]:
    """A table of a study file: the entry's configuration, and its name."""
    known = {
        name: (info.annotation, info)
        for name, info in kind.config.model_fields.items()
        if not info.exclude
    }
    named: Any = (Literal[kind.name], Field(description=f"The {what}: {kind.summary}."))
    title = "".join(word.capitalize() for word in (*kind.name.split("-"), what))
    made: type[Config] = create_model(title, __base__=Config, name=named, **known)  # type: ignore[call-overload]
    made.__doc__ = kind.config.__doc__
    return made


class AutomaticAlgorithm(Config):
    """The algorithm that a published rule of public facts takes; `unisono check` says why."""

    name: Literal["auto"] = Field("auto", description="Chosen by a published rule of public facts.")


def _either(sections: Iterable[type[Config]]) -> Any:
    return Annotated[reduce(or_, sections), Field(discriminator="name")]


MODEL_SECTIONS = {name: _section(kind, "model") for name, kind in models().items()}
ALGORITHM_SECTIONS = {name: _section(kind, "algorithm") for name, kind in algorithms().items()}
if TYPE_CHECKING:
    ModelSection = Any
    AlgorithmSection = Any
else:
    ModelSection = _either(MODEL_SECTIONS.values())
    AlgorithmSection = _either([AutomaticAlgorithm, *ALGORITHM_SECTIONS.values()])


class StudyFile(Config):
    """The whole file. A study runs once; to run the same again, agree on the next `edition`."""

    title: str = Field(min_length=1, description="What the study is about, for people.")
    edition: PositiveInt = Field(
        1, description="A study runs once. To run the same again, agree on the next edition."
    )
    data: Schema = Field(description="Columns, all of them public knowledge.")
    parties: tuple[Participant, ...] = Field(
        min_length=1, description="Who takes part, in an agreed order."
    )
    privacy: PrivacySection = Field(description="What one unit may lose by the whole study.")
    trust: TrustSection = Field(
        description="Where noise is added, who must answer and who may collude."
    )
    model: ModelSection = Field(description="What is learnt.")
    algorithm: AlgorithmSection = Field(
        AutomaticAlgorithm(name="auto"), description='How it is learnt; left out: "auto".'
    )
    evaluation: Evaluation | None = Field(
        None, description="How good the result is: a private test, a public one, or both."
    )
    server: Server | None = Field(
        None, description="Where the server is, for studies between machines."
    )
    search: Search | None = Field(
        None, description="A choice among candidates, for the study's one epsilon."
    )
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
    def model_kind(self) -> ModelKind:
        return model_named(self.model.name)

    @cached_property
    def model_settings(self) -> Any:
        """The model's configuration."""
        return self.model_kind.configured(**_said(self.model))

    @cached_property
    def algorithm_settings(self) -> dict[str, Any]:
        """What the file says about the algorithm, but for its name."""
        return _said(self.algorithm)

    @property
    def names(self) -> tuple[str, ...]:
        """The parties, in the agreed order."""
        return tuple(party.name for party in self.parties)

    @property
    def held_out(self) -> tuple[int, ...]:
        """How many records of each party are kept out of training; which is a secret. Where sizes
        are hidden it is so many of the number that was agreed on, and each has a coin of its own:
        how many they are is released with their scores."""
        every = self.evaluation.every if self.evaluation else 0
        if self.search is not None:
            every = round(1 / self.search.holdout) if self.search.holdout else 0
        return tuple(party.records // every if every else 0 for party in self.parties)

    @property
    def judges(self) -> tuple[int, ...]:
        """How many records of each party judge the candidates of a search."""
        kept = self.search is not None and self.search.holdout
        return self.held_out if kept else tuple(party.records for party in self.parties)

    @property
    def draws(self) -> bool:
        """Whether a party draws records in secret, and draws the same when a run goes on: those
        that are kept out of training, or some of a person's."""
        return any(self.held_out) or self.data.person is not None

    @property
    def training(self) -> tuple[int, ...]:
        """How many records of each party are learnt from."""
        pairs = zip(self.parties, self.held_out, strict=True)
        return tuple(party.records - held for party, held in pairs)

    @property
    def survivors(self) -> int:
        """How many parties must answer in every round: all of them, unless it says fewer."""
        given = self.trust.minimum_parties
        return len(self.parties) if given is None else given

    @property
    def colluders(self) -> int:
        """With how many parties the server may collude: one, unless it says (`defaults`)."""
        if self.trust.colluders is not None:
            return self.trust.colluders
        return default_colluders(self.trust.mode, self.survivors)

    @property
    def promise(self) -> Privacy:
        """What the whole study promises, and where parties have epsilons of their own, to each."""
        said = self.privacy
        given = [party.epsilon for party in self.parties]
        own = tuple(said.epsilon if one is None else one for one in given) if any(given) else ()
        return Privacy(said.epsilon, said.delta, said.relation, own)

    @cached_property
    def choice(self) -> Choice:
        """The algorithm that the file names, or that of the model's published rule, and why."""
        if self.algorithm.name != AUTO:
            return Choice(self.algorithm.name, "")
        rule = self.model_kind.choose
        return rule(self.model_settings, self.data, self.promise, self.privacy.unit)

    @property
    def posed(self) -> Posed:
        """The model over these columns, for the algorithm of this study."""
        kind = algorithm_named(self.choice.algorithm)
        return self.model_kind.pose(
            self.model_settings, self.modelled(self.data), kind, self.promise
        )

    @property
    def sites(self) -> SiteColumn | None:
        """The column of parties, where the model has effects of them."""
        if not getattr(self.model_settings, "site_effects", False):
            return None
        return site_column(self.names, self.training)

    def modelled(self, data: Schema) -> Schema:
        """The columns as the model sees them, with that of parties, if it has effects of them."""
        if self.sites is None:
            return data
        return data.model_copy(update={"columns": {**data.columns, SITE: self.sites}})

    @property
    def _candidates(self) -> list[str]:
        """The algorithm that is named, or all that could be taken."""
        if self.algorithm.name != AUTO:
            return [self.algorithm.name]
        return [kind.name for kind in algorithms_for(self.model_kind)]

    @cached_property
    def meaning(self) -> dict[str, Any]:
        """Everything that is said, as plain JSON, with what the model suggests to the algorithm;
        the order of columns and parties counts. Whoever brings a plugin of another version means
        something else."""
        said = self.model_dump(mode="json")
        said["model"] = self.model.hashed
        said["algorithm"] = self.algorithm.hashed
        if self.algorithm.name != AUTO:
            suggested, own = self.posed.settings, self.algorithm_settings
            said["algorithm"] |= {name: suggested[name] for name in suggested.keys() - own.keys()}
        said["format"] = FORMAT
        if self.search is None:  # files that search for nothing mean what they meant before
            del said["search"]
        for party in said["parties"]:  # files that name none mean what they meant before
            if party["epsilon"] is None:
                del party["epsilon"]
        said["privacy"] = self.privacy.hashed
        said["data"] = self.data.hashed
        said["data"]["columns"] = [[name, own.hashed] for name, own in self.data.columns.items()]
        said["trust"] |= {"minimum_parties": self.survivors, "colluders": self.colluders}
        said["plugins"] = dict(plugins_of(self.model.name, *self._candidates))
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


def tried(file: StudyFile, override: Mapping[str, Mapping[str, Any]]) -> StudyFile:
    """A file with what a candidate of its search has instead; what is wrong raises InvalidInput or
    pydantic's ValidationError."""
    update: dict[str, Any] = {}
    for section, sections in (("model", MODEL_SECTIONS), ("algorithm", ALGORITHM_SECTIONS)):
        given, own = override.get(section, {}), getattr(file, section)
        if not given:
            continue
        name = given.get("name", own.name)
        kept = own.model_dump(mode="json", include=own.model_fields_set)
        said = {**(kept if name == own.name else {}), **given, "name": name}
        known: dict[str, type[Config]] = dict(sections)
        if section == "algorithm":
            known[AUTO] = AutomaticAlgorithm
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise InvalidInput(f"{section}.name = {name!r}: choose one of {', '.join(known)}{hint}")
        update[section] = known[name].model_validate_json(canonical(said))
    return unremembered(file, update)


def unremembered(file: StudyFile, update: Mapping[str, Any]) -> StudyFile:
    """A copy with other sections, which remembers nothing that followed from the old ones."""
    copy = file.model_copy(update=dict(update))
    for name in ("choice", "hash", "meaning", "model_settings", "algorithm_settings"):
        copy.__dict__.pop(name, None)
    return copy


def _said(section: Config) -> dict[str, Any]:
    """What a section says itself, but for its name: the rest follows from rules and defaults."""
    return {name: getattr(section, name) for name in section.model_fields_set if name != "name"}


__all__ = [
    "ALGORITHM_SECTIONS",
    "AUTO",
    "FORMAT",
    "MODEL_SECTIONS",
    "NAME",
    "Evaluation",
    "Name",
    "Participant",
    "StudyFile",
    "tried",
    "unremembered",
]
