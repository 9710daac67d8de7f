"""What a model is: its configuration, the problem that it poses, and how its result is read.

A `ModelKind` is an entry of the registry. `pose` turns a configuration and the public schema into a
`Posed` model: a problem that algorithms can solve, and the functions between a party's values, the
rows that algorithms read, and the result that people read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import pydantic

from unisono.core.config import Config
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.data.blocks import in_blocks, values_in_blocks
from unisono.data.columns import NamedColumn, NumericColumn
from unisono.data.encoding import Values
from unisono.data.schema import Schema
from unisono.errors import InvalidInput
from unisono.models.prediction import Prediction
from unisono.releases.algorithm import AlgorithmKind

# Where in a model's section something is wrong, and what.
Fault = tuple[tuple[str | int, ...], str]


class Target(StrEnum):
    """What the column that is predicted must be."""

    NONE = "none"
    CLASSES = "classes"
    TWO_CLASSES = "two classes"
    NUMBER = "number"
    EITHER = "either"  # a category makes a classifier, a number a regression


class ModelConfig(Config):
    """A model's own settings: fields with defaults, ranges and one line of help each."""


class Choice(NamedTuple):
    """The algorithm that a published rule of public facts takes, and why; another one is taken
    where the planner calls it useless and that one better."""

    algorithm: str
    reason: str


def _no_arrays(value: Any) -> dict[str, np.ndarray]:
    return {}


@dataclass(frozen=True)
class Posed:
    """A model over the columns of one study.

    `encode` turns checked values into the arrays that the algorithm reads; `present` a result into
    plain JSON, in the user's words and units; `arrays` names what is too large for JSON. `score`
    judges a result record by record, from its arrays: (n,) in [0, 1], where the target is a
    category 1 for a right prediction and 0 for a wrong one, where it is a number the absolute error
    as a share of the target's range. `settings` are what the model suggests to the algorithm where
    nobody says otherwise. `prediction` is how a result predicts, in the form that its kind names.
    `planned`: the answers that a plan states the errors of, where what is
    presented has other ones than `answers`, each with what its error is compared with.
    """

    problem: Any
    features: int
    encode: Callable[[Values], tuple[np.ndarray, ...]]
    present: Callable[[Study, Result], dict[str, Any]]
    arrays: Callable[[Any], Mapping[str, np.ndarray]] = field(default=_no_arrays)
    score: Callable[[Study, Any, tuple[np.ndarray, ...]], np.ndarray] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    planned: Callable[[Study, Result], list[tuple[dict[str, Any], float]]] | None = None
    prediction: Callable[[Study, Result], Prediction] | None = None

    def rows(self, values: Values) -> tuple[np.ndarray, ...]:
        """What `encode` makes of a party's records, float32, in blocks of one public shape."""

        def compute(own: Values) -> list[np.ndarray]:
            return [array.astype(np.float32, copy=False) for array in self.encode(own)]

        return values_in_blocks(compute, values)

    def scores(self, study: Study, value: Any, rows: tuple[np.ndarray, ...]) -> np.ndarray:
        """The `score` (n,) of records by their rows, in blocks of one public shape."""
        score = self.score
        assert score is not None
        return in_blocks(lambda *own: (np.asarray(score(study, value, own)),), *rows)[0]


def _no_faults(config: Any, schema: Schema) -> Iterator[Fault]:
    return iter(())


@dataclass(frozen=True)
class ModelKind:
    """An entry of the registry. `problem` is the type of what it poses, or several, where it poses
    another one to other algorithms: every algorithm for such problems can learn it.

    `choose` is the published rule behind the algorithm "auto". `learns` says what is learnt, as a
    phrase; `prediction` is the form in which it predicts, and `silent` says why it does not where
    it has none; `notes` what a reader of the result should know beforehand, given the algorithm;
    `faults` what the schema or the settings lack; `draft` writes the settings that have no default,
    as TOML, for `unisono init`. `task` is what the planner calls it. One that has a target and only
    `describes` it predicts nothing of single records, and has no score. `judges` names the study
    file (its hash) whose model is judged, so that ledgers can say who was learnt from. Classifiers
    without `chances` say which class it is, and not how sure they are. Of `compared` algorithms
    "auto" takes the one that `prefer` does, given the studies by those that can run: what each is
    predicted to lose, by public facts. Ranges that are released for one with `wide_ranges` are
    moved outward: it bounds what a record adds by itself, and would be biased by a clip.
    """

    name: str
    summary: str
    config: type[ModelConfig]
    target: Target
    problem: type | tuple[type, ...]
    pose: Callable[[Any, Schema, AlgorithmKind, Privacy], Posed]
    choose: Callable[[Any, Schema, Privacy, Unit], Choice]
    learns: Callable[[Any, Schema], str]
    notes: Callable[[Any, AlgorithmKind], Sequence[str]] = lambda config, algorithm: ()
    faults: Callable[[Any, Schema], Iterator[Fault]] = _no_faults
    draft: Callable[[Schema], str] = lambda schema: ""
    task: str = ""
    describes: bool = False
    prediction: type[Prediction] | None = None
    silent: str = ""
    judges: Callable[[Any], str] | None = None
    chances: bool = True
    compared: tuple[str, ...] = ()
    prefer: Callable[[Mapping[str, Study]], Choice] | None = None
    wide_ranges: bool = False

    @property
    def predicts(self) -> bool:
        """Whether a result says something of single records that can be right or wrong."""
        return self.target is not Target.NONE and not self.describes

    def configured(self, **settings: Any) -> Any:
        """The configuration with these settings."""
        try:
            return self.config(**settings)
        except pydantic.ValidationError as error:
            said = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
            raise InvalidInput(f"model {self.name}: {'; '.join(said)}") from None

    def solved_by(self, algorithm: AlgorithmKind) -> bool:
        """Whether an algorithm can learn this model."""
        return any(issubclass(own, algorithm.problem) for own in self.problems)

    @property
    def problems(self) -> tuple[type, ...]:
        """The types of what it poses, the usual one first."""
        return self.problem if isinstance(self.problem, tuple) else (self.problem,)


def target_faults(kind: ModelKind, schema: Schema) -> Iterator[str]:
    """What is wrong with the target, if anything."""
    wanted, target = kind.target, schema.target
    if wanted is Target.NONE:
        if target is not None:
            yield f"'{target}': {kind.name} has no target; leave it out"
        return
    if target is None:
        yield f"is missing: say which column {kind.name} predicts"
        return
    column = schema.columns.get(target)
    if column is None:
        yield f"'{target}' is no column: there are {', '.join(schema.columns)}"
    elif wanted is Target.NUMBER and not isinstance(column, NumericColumn):
        words = f"{kind.name} predicts a number: choose another model"
        yield f"'{target}' is a {column.kind}, and {words}"
    elif wanted in (Target.CLASSES, Target.TWO_CLASSES) and not isinstance(column, NamedColumn):
        words = f"{kind.name} predicts classes: choose another model"
        yield f"'{target}' is a {column.kind}, and {words}"
    elif (
        wanted is Target.TWO_CLASSES and isinstance(column, NamedColumn) and len(column.levels) > 2
    ):
        yield f"'{target}' has {len(column.levels)} values, {kind.name} takes two"


def columns_in_words(schema: Schema) -> str:
    """The features, not more than eight of them."""
    columns = list(schema.features)
    more = f" and {len(columns) - 8} more" if len(columns) > 8 else ""
    return ", ".join(columns[:8]) + more


def predicts(what: str, schema: Schema) -> str:
    """That something predicts the target from the features, as a phrase."""
    values = schema.classes
    more = " ..." if len(values) > 4 else ""
    which = f" ({' or '.join(values[:4])}{more})" if values else ""
    does = "predicts" if values else "estimates"
    return f"{what} that {does} {schema.target}{which} from {columns_in_words(schema)}"


def share_of_range(predicted: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Absolute errors of targets scaled to [-1, 1], as shares of that range.

    >>> share_of_range(np.array([0.5, 7.0]), np.array([0.0, -1.0]))
    array([0.25, 1.  ])
    """
    errors = np.abs(np.clip(predicted, -1.0, 1.0) - np.clip(true, -1.0, 1.0)) / 2
    return np.nan_to_num(np.asarray(errors, float), nan=1.0)
