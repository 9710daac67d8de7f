"""The studies that a plan compares: files as somebody would write them, one for each algorithm and
trust, built by the same code that builds a study that runs. No table is read."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic import ValidationError

from unisono.algorithms.registry import algorithm_named
from unisono.cli.plan_synthetic import even, ranges
from unisono.core.sensitivity import positive
from unisono.core.trust import Relation, Trust, Unit
from unisono.data.encoding import Frame
from unisono.errors import ConditionViolated, InvalidInput
from unisono.models.model import ModelKind, Target
from unisono.models.registry import algorithms_for, model_named, models
from unisono.planning.posteriors import WIDTHS
from unisono.planning.predict import Prediction, predict, predict_answers, predict_figures
from unisono.planning.tasks import Task
from unisono.planning.verdicts import headroom
from unisono.releases.algorithm import AlgorithmKind
from unisono.studies.build import Built, build
from unisono.studies.file import faults
from unisono.studies.schema import AUTO, StudyFile


@dataclass(frozen=True)
class PlanRequest:
    """What somebody plans, all of it public. `classes` 0: a number is predicted. `features` are
    numbers, `categories` how many values each column of named values has; with a `file`, `features`
    are all that its columns make.

    `without_privacy` is the accuracy or R² that somebody expects of a model without privacy,
    `majority` the share of the commonest class. With a `file` the columns, the relation and the
    settings of its own algorithm come from there.
    """

    task: Task
    records: tuple[int, ...]
    features: int = 1
    classes: int = 0
    parameters: int | None = None
    bounds: tuple[float, float] = (-1.0, 1.0)
    epsilon: float = 1.0
    delta: float = 1e-6
    relation: Relation = Relation.REPLACE_ONE
    survivors: int | None = None
    colluders: int | None = None
    file: StudyFile | None = None
    without_privacy: float | None = None
    majority: float | None = None
    categories: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        headroom(self.task, self.without_privacy, self.majority)
        if not 0 <= self.delta < 1:
            raise InvalidInput(
                f"delta = {self.delta!r} lies outside [0, 1): choose one far below 1 / number of "
                "records, such as 1e-6, or 0 for pure epsilon"
            )
        if self.features < 1 or self.classes < 0 or self.classes == 1:
            raise InvalidInput(
                f"features = {self.features}, classes = {self.classes}: there is at least one "
                "feature, and there are two classes or more (0 where a number is predicted)"
            )
        if min(self.categories, default=2) < 2:
            raise InvalidInput(
                f"categories = {', '.join(map(str, self.categories))}: a column of named values "
                "has two of them or more"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parties, as the file has them."""
        if self.file is not None and len(self.file.parties) == len(self.records):
            return tuple(self.file.names)
        return tuple(f"party-{number}" for number in range(1, len(self.records) + 1))

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Of the parties: some may have one of their own in the file."""
        own: list[float | None] = [None] * len(self.records)
        if self.file is not None and len(self.file.parties) == len(self.records):
            own = [party.epsilon for party in self.file.parties]
        return tuple(self.epsilon if one is None else one for one in own)

    @property
    def columns(self) -> int:
        """How many columns somebody declares."""
        if self.file is not None:
            return len(self.file.data.features)
        return self.features + len(self.categories)

    @property
    def encoded(self) -> int:
        """How many features models see: every value of a category but the first is one, and so are
        indicators of what is missing, bins, knots and products."""
        return self.features + sum(count - 1 for count in self.categories)

    @property
    def headroom(self) -> float:
        return headroom(self.task, self.without_privacy, self.majority)

    @property
    def entries(self) -> tuple[tuple[ModelKind, AlgorithmKind], ...]:
        """What competes: every algorithm for the models of this task. A network without hidden
        layers is a linear model, and hides whole parties where no other does."""
        if self.file is not None and self.task is not Task.NETWORK:
            wanted = [self.file.model_kind]
        else:
            wanted = [kind for kind in models().values() if kind.task == self.task]
            number = Target.NUMBER if self.classes == 0 else None
            if self.task is Task.POSTERIOR:
                wanted = [k for k in wanted if (k.target is Target.NUMBER) == (number is not None)]
        found = [(kind, one) for kind in wanted[:1] for one in algorithms_for(kind)]
        if self.task in (Task.CLASSIFICATION, Task.REGRESSION):
            network = model_named("network")
            found += [
                (network, one)
                for one in algorithms_for(network)
                if one.units == (Unit.PARTY,) and self.task in one.laws
            ]
        if self.task is Task.MEAN:
            return tuple(found)
        if self.task is Task.POSTERIOR:
            return tuple(pair for pair in found if pair[1].name in WIDTHS)
        return tuple(pair for pair in found if self.task in pair[1].laws)

    @property
    def algorithms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(kind.name for _, kind in self.entries))

    def crowd(self, times: int) -> "PlanRequest":
        """The same with so many times as many parties, who all answer."""
        return replace(self, records=self.records * times, survivors=None)


class Candidate(NamedTuple):
    """A study that could run, or the reason why it cannot."""

    algorithm: str
    trust: Trust
    unit: Unit
    built: Built | None
    reason: str = ""


def candidates(request: PlanRequest) -> Iterator[Candidate]:
    """Every algorithm for the task under every trust it knows."""
    for _, kind in request.entries:
        for trust in Trust:
            if trust in kind.trusts:
                yield candidate(document(request, kind.name, trust))


def automatic(request: PlanRequest, trust: Trust) -> Candidate:
    """The study that `auto` would run under a trust, so that a plan recommends what will happen."""
    found = candidate(document(request, AUTO, trust))
    return found if found.built is None else found._replace(algorithm=found.built.algorithm.name)


def candidate(said: dict[str, Any]) -> Candidate:
    """The study of a document, built."""
    name, trust = said["algorithm"]["name"], Trust(said["trust"]["mode"])
    unit = Unit(said["privacy"]["unit"])
    try:
        file = StudyFile.model_validate_json(json.dumps(said))
        for _, words in faults(file):
            return Candidate(name, trust, unit, None, words)
        return Candidate(name, trust, unit, build(file))
    except (InvalidInput, ConditionViolated) as error:
        words = str(error).partition(f"{name}: ")[2] or str(error)
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        words = "; ".join(wrong)
    return Candidate(name, trust, unit, None, words)


def prediction(request: PlanRequest, found: Candidate) -> Prediction:
    """What is to be expected of a candidate that was built."""
    built = found.built
    assert built is not None
    if request.task is not Task.MEAN:
        told = request.without_privacy
        return predict(built.study, request.task, request.classes, request.headroom, told)
    columns = built.posed.encode(even(built.file))
    if built.file.data.person is not None:
        columns = built.synthetic(even(built.file))
    if built.posed.planned is not None:
        return predict_figures(built.study, built.posed.planned, columns)
    return predict_answers(built.study, built.posed.present, columns, ranges(built.file))


# ------------------------------------------------------------- documents


def document(request: PlanRequest, name: str, trust: Trust) -> dict[str, Any]:
    """What a study file would say."""
    own = {"mode": trust, "minimum_parties": request.survivors, "colluders": request.colluders}
    return {
        "title": f"plan of {name}",
        "data": _data(request),
        "parties": [
            {"name": f"party-{number}", "records": count}
            for number, count in enumerate(request.records, start=1)
        ],
        "privacy": {
            "epsilon": request.epsilon,
            "delta": request.delta,
            "relation": request.relation,
            "unit": _unit(request, name),
        },
        "trust": {key: value for key, value in own.items() if value is not None},
        **_learnt(request, name),
    }


def _unit(request: PlanRequest, name: str) -> Unit:
    """Persons where the study names them, else what the algorithm usually hides."""
    if request.file is not None and request.file.data.person is not None:
        return Unit.PERSON
    return Unit.RECORD if name == AUTO else algorithm_named(name).units[0]


def _data(request: PlanRequest) -> dict[str, Any]:
    if request.file is not None:
        return request.file.model_dump(mode="json")["data"]
    hidden = request.relation is Relation.ADD_OR_REMOVE
    number = {"kind": "number", "bounds": request.bounds}
    columns: dict[str, Any] = {f"x{place}": number for place in range(1, request.features + 1)}
    for place, count in enumerate(request.categories, start=1):
        values = [f"value-{number}" for number in range(1, count + 1)]
        columns[f"c{place}"] = {"kind": "category", "values": values}
    said = {"sizes": "hidden" if hidden else "exact", "columns": columns}
    if request.task is Task.MEAN:
        return said
    if request.classes:
        values = [f"class-{place}" for place in range(1, request.classes + 1)]
        columns["y"] = {"kind": "category", "values": values}
    else:
        columns["y"] = {"kind": "number", "bounds": (-1.0, 1.0)}
    return {**said, "target": "y"}


def _learnt(request: PlanRequest, name: str) -> dict[str, Any]:
    """The sections [model] and [algorithm]."""
    model = next(kind for kind, one in request.entries if name in (one.name, AUTO))
    said = {"name": model.name, **_model(request, model)}
    own = request.file
    if own is None:
        return {"model": said, "algorithm": {"name": name}}
    if model.name == own.model.name:
        said = own.model.model_dump(mode="json", exclude_unset=True)
    # What the file leaves out stays open: the model's own rule fills it in, as in the study.
    same = own.algorithm.name == name
    algorithm = own.algorithm.model_dump(mode="json", exclude_unset=True) if same else {}
    return {"model": said, "algorithm": {"name": name, **algorithm}}


def _model(request: PlanRequest, model: ModelKind) -> dict[str, Any]:
    if request.task is Task.MEAN:
        asked = [{"ask": "mean", "column": f"x{n}"} for n in range(1, request.features + 1)]
        return {"questions": asked}
    if model.name == "network":
        return {"hidden": hidden_layers(request) if request.task is Task.NETWORK else ()}
    return {}


def hidden_layers(request: PlanRequest) -> tuple[int, ...]:
    """A hidden layer with which the network has about as many parameters as were named; 64 units
    unless told, or as in the file.

    >>> hidden_layers(PlanRequest(Task.NETWORK, (100,), features=9, classes=2, parameters=132))
    (10,)
    """
    if request.file is not None and request.file.model.name == "network":
        return tuple(request.file.model_settings.hidden)
    if request.parameters is None:
        return (64,)
    outputs = max(1, request.classes)
    # A row has features + 1 numbers, and every unit a bias.
    return (max(1, round((request.parameters - outputs) / (request.encoded + 2 + outputs))),)


# ------------------------------------------------------------- a study that is there already


def request_of(
    file: StudyFile, without_privacy: float | None = None, majority: float | None = None
) -> PlanRequest:
    """What a study file wants, so that its alternatives can be built too."""
    classes = len(file.data.classes)
    kind = file.model_kind
    if not kind.task:
        raise InvalidInput(
            f"{kind.name} is not predicted: nobody has measured what noise costs it; its noise is "
            "in `unisono check`"
        )
    task = Task(kind.task)
    if task is Task.NETWORK and not file.model_settings.hidden:
        task = Task.CLASSIFICATION if classes else Task.REGRESSION
    return PlanRequest(
        task,
        tuple(party.records for party in file.parties),
        _encoded(file),
        classes,
        None,
        (-1.0, 1.0),
        file.privacy.epsilon,
        file.privacy.delta,
        file.privacy.relation,
        file.trust.minimum_parties,
        file.trust.colluders,
        file,
        without_privacy,
        majority,
    )


def _encoded(file: StudyFile) -> int:
    """Features that the columns of a file make; a survey has none."""
    schema = file.modelled(file.data)
    return max(1, len(Frame(schema).names)) if schema.target is not None else 1


__all__ = [
    "Candidate",
    "PlanRequest",
    "automatic",
    "candidate",
    "candidates",
    "document",
    "hidden_layers",
    "prediction",
    "request_of",
]
