"""The studies that a plan compares: files as somebody would write them, one for each algorithm and
trust, built by the same code that builds a study that runs. No table is read."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic import ValidationError

from unisono.cli.plan_made_up import even, ranges
from unisono.core.sensitivity import positive
from unisono.core.trust import Relation, Trust, Unit
from unisono.errors import ConditionViolated, InvalidInput
from unisono.planning.predict import Prediction, predict, predict_answers
from unisono.planning.tasks import Task
from unisono.planning.verdicts import headroom
from unisono.studies import settings
from unisono.studies.build import build
from unisono.studies.file import faults
from unisono.studies.plan import Built
from unisono.studies.schema import Number, StudyFile

_CONVEX = (
    "gradient-perturbation", "dp-sgd-convex", "output-perturbation", "sgd-synchronous", "fed-avg",
)  # fmt: skip
_ALGORITHMS: Mapping[Task, tuple[str, ...]] = {
    Task.MEAN: ("statistics",),
    Task.CLASSIFICATION: _CONVEX,
    Task.REGRESSION: _CONVEX,
    Task.NETWORK: ("dp-sgd", "dp-ftrl", "local-dp-sgd", "fed-avg"),
    Task.POSTERIOR: (
        "one-shot-regression", "pvi-natural-gradient", "pvi-dp-sga", "pvi-clipped-updates",
    ),
}  # fmt: skip
_PARTIES = ("fed-avg", "pvi-clipped-updates")
_AT_HOME = ("local-dp-sgd", "pvi-dp-sga")


@dataclass(frozen=True)
class Wish:
    """What somebody plans, all of it public. `classes` 0: a number is predicted.

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

    @property
    def headroom(self) -> float:
        return headroom(self.task, self.without_privacy, self.majority)

    @property
    def algorithms(self) -> tuple[str, ...]:
        named = _ALGORITHMS[self.task]
        if self.task is Task.POSTERIOR:
            return named[1:] if self.classes else named[:1]
        return named

    def crowd(self, times: int) -> "Wish":
        """The same with so many times as many parties, who all answer."""
        return replace(self, records=self.records * times, survivors=None)


class Candidate(NamedTuple):
    """A study that could run, or the reason why it cannot."""

    algorithm: str
    trust: Trust
    unit: Unit
    built: Built | None
    reason: str = ""


def candidates(wish: Wish) -> Iterator[Candidate]:
    """Every algorithm for the task under every trust it knows."""
    for name in wish.algorithms:
        for trust in [Trust.LOCAL] if name in _AT_HOME else Trust:
            yield candidate(document(wish, name, trust))


def candidate(said: dict[str, Any]) -> Candidate:
    """The study of a document, built."""
    name, trust = said["algorithm"]["name"], Trust(said["trust"]["mode"])
    unit = Unit.PARTY if name in _PARTIES else Unit.RECORD
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


def prediction(wish: Wish, found: Candidate) -> Prediction:
    """What is to be expected of a candidate that was built."""
    built = found.built
    assert built is not None
    if wish.task is not Task.MEAN:
        return predict(built.study, wish.task, wish.classes, wish.headroom)
    columns = built.parts.encode(even(built.file))
    return predict_answers(built.study, built.parts.present, columns, ranges(built.file))


# ------------------------------------------------------------- documents


def document(wish: Wish, name: str, trust: Trust) -> dict[str, Any]:
    """What a study file would say."""
    own = {"mode": trust, "minimum_survivors": wish.survivors, "colluders": wish.colluders}
    return {
        "title": f"plan of {name}",
        "data": _data(wish),
        "parties": [
            {"name": f"party-{number}", "records": count}
            for number, count in enumerate(wish.records, start=1)
        ],
        "privacy": {
            "epsilon": wish.epsilon, "delta": wish.delta, "relation": wish.relation,
            "unit": Unit.PARTY if name in _PARTIES else Unit.RECORD,
        },
        "trust": {key: value for key, value in own.items() if value is not None},
        "algorithm": _algorithm(wish, name),
    }  # fmt: skip


def _data(wish: Wish) -> dict[str, Any]:
    if wish.file is not None:
        return wish.file.model_dump(mode="json")["data"]
    hidden = wish.relation is Relation.ADD_OR_REMOVE
    number = {"kind": "number", "bounds": wish.bounds}
    columns: dict[str, Any] = {f"x{place}": number for place in range(1, wish.features + 1)}
    said = {"sizes": "hidden" if hidden else "exact", "columns": columns}
    if wish.task is Task.MEAN:
        return said
    if wish.classes:
        values = [f"class-{place}" for place in range(1, wish.classes + 1)]
        columns["y"] = {"kind": "category", "values": values}
    else:
        columns["y"] = {"kind": "number", "bounds": (-1.0, 1.0)}
    return {**said, "target": "y"}


def _algorithm(wish: Wish, name: str) -> dict[str, Any]:
    if wish.file is not None and name == wish.file.algorithm.name:
        return wish.file.algorithm.model_dump(mode="json")
    if wish.task is Task.MEAN:
        asked = [{"ask": "mean", "column": f"x{n}"} for n in range(1, wish.features + 1)]
        return {"name": name, "questions": asked}
    if wish.task is Task.NETWORK:
        return {"name": name, "hidden": hidden_layers(wish)}
    if name == "fed-avg":
        return {"name": name, "hidden": ()}
    if wish.task is Task.REGRESSION:
        return {"name": name, "loss": "squares"}
    return {"name": name}


def hidden_layers(wish: Wish) -> tuple[int, ...]:
    """A hidden layer with which the network has about as many parameters as were named; 64 units
    unless told, or as in the file.

    >>> hidden_layers(Wish(Task.NETWORK, (100,), features=9, classes=2, parameters=132))
    (10,)
    """
    if wish.file is not None and isinstance(wish.file.algorithm, settings.Layered):
        return wish.file.algorithm.hidden
    if wish.parameters is None:
        return (64,)
    outputs = max(1, wish.classes)
    # A row has features + 1 numbers, and every unit a bias.
    return (max(1, round((wish.parameters - outputs) / (wish.features + 2 + outputs))),)


# ------------------------------------------------------------- a study that is there already


def wish_of(
    file: StudyFile, without_privacy: float | None = None, majority: float | None = None
) -> Wish:
    """What a study file wants, so that its alternatives can be built too."""
    own, target = file.algorithm, file.data.target
    column = None if target is None else file.data.columns[target]
    classes = 0 if column is None or isinstance(column, Number) else len(column.values)
    if isinstance(own, settings.Statistics):
        task = Task.MEAN
    elif isinstance(own, settings.Layered):
        task = Task.NETWORK if own.hidden else _learned(classes)
    elif isinstance(own, settings.Linear):
        task = _learned(classes)
    elif isinstance(own, settings.OneShotRegression | settings.TwoClasses):
        task = Task.POSTERIOR
    else:
        raise InvalidInput(
            f"{own.name} is not predicted: how well clusters are found depends on how far apart "
            "they lie; its noise is in `unisono check`"
        )
    return Wish(
        task, tuple(party.records for party in file.parties), max(1, len(file.data.features)),
        classes, None, (-1.0, 1.0), file.privacy.epsilon, file.privacy.delta,
        file.privacy.relation, file.trust.minimum_survivors, file.trust.colluders, file,
        without_privacy, majority,
    )  # fmt: skip


def _learned(classes: int) -> Task:
    return Task.CLASSIFICATION if classes else Task.REGRESSION


__all__ = [
    "Candidate", "Wish", "candidate", "candidates", "document", "hidden_layers", "prediction",
    "wish_of",
]  # fmt: skip
