"""A finished model, judged: the study of an evaluation, which anybody can check, join and run.

`judged` holds the whole model as one text, so that every party knows what it evaluates, and nothing
else is exchanged. Each party lets the model predict its own records; one release of counts and
sums gives all metrics (`algorithms.evaluation`). `unisono evaluate` writes such a study.
"""

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from unisono.algorithms.evaluation import (
    ClassEvaluation,
    Evaluated,
    NumberEvaluation,
    TimeEvaluation,
    evaluated_json,
    time_evaluation,
)
from unisono.algorithms.score_influence import SCORE_INFLUENCE, ScoreSurvey
from unisono.algorithms.survey import STATISTICS, Survey
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.data.columns import NamedColumn, NumericColumn
from unisono.data.encoding import Frame, Values
from unisono.data.schema import Schema
from unisono.errors import InvalidInput
from unisono.models.average import Average
from unisono.models.fitted import Portable, portable
from unisono.models.kaplan_meier import EventConfig, event_times
from unisono.models.model import Choice, Fault, ModelConfig, ModelKind, Posed, Target
from unisono.models.prediction import HazardRatio, NearestCentre, Prediction, Scores
from unisono.releases.algorithm import AlgorithmKind

# Records that times are cut for where nobody says how many there are.
_USUAL = 2000


class EvaluationConfig(ModelConfig):
    """Which model is judged, and how."""

    judged: str = Field(
        description="The model, as one JSON text; `unisono evaluate RUN` writes it here."
    )
    by: str | None = Field(
        None, description="A category whose values are judged apart, and compared."
    )
    records: Annotated[int, Field(ge=1)] = Field(
        _USUAL, description="About so many records there are: more allow finer intervals of times."
    )
    largest_error: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="Errors of numbers count as this at most; left out: a quarter of the range.",
    )
    confidence: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.95, description="How often each interval holds."
    )


@lru_cache(maxsize=8)
def _model(text: str) -> Portable:
    return portable(text)


Judging = ClassEvaluation | NumberEvaluation | TimeEvaluation
# Times as shares of the horizon and events (n,) of records.
Times = Callable[[Values], tuple[np.ndarray, np.ndarray]]


def judging(
    schema: Schema,
    by: str | None,
    records: int,
    privacy: Privacy,
    *,
    chances: bool,
    intervals: bool = False,
    largest_error: float | None = None,
    timed: bool = False,
) -> Judging:
    """How a model over these columns is judged; all of it follows from public facts. What is
    `timed` says when an event is to be expected, and not a number."""
    groups, complete = _groups(by, schema), _complete(schema)
    if timed:
        return time_evaluation(records, privacy, groups, complete)
    target = schema.columns[schema.target or ""]
    if isinstance(target, NumericColumn):
        low, high = target.span
        largest = largest_error or (high - low) / 4
        return NumberEvaluation((low, high), largest, intervals, groups=groups, complete=complete)
    return ClassEvaluation(schema.classes, chances, groups=groups, complete=complete)


def judged_columns(
    how: Judging,
    prediction: Prediction,
    rows: np.ndarray,
    by: str | None,
    values: Values,
    target: str,
    times: Times | None = None,
) -> np.ndarray:
    """What the release adds up, of features (n, d) of records; one that misses what the model needs
    counts nowhere. `times` reads those of a survival model."""
    if isinstance(how, TimeEvaluation):
        assert isinstance(prediction, HazardRatio)
        assert times is not None
        score = prediction.log_ratio(rows)
        place = np.searchsorted(prediction.cuts(how.intervals), score).astype(float)
        place = np.where(np.isfinite(score), place, np.nan)
        return how.columns(place, *times(values), None if by is None else values[by])
    offset = _offset(prediction, values)
    whole = np.isfinite(rows).all(axis=1)
    if offset is not None:
        whole &= np.isfinite(offset)
        offset = np.where(whole, offset, 0.0)
    rows = np.where(whole[:, None], rows, 0.0)
    truth = np.where(whole, values[target], np.nan)
    group = None if by is None else values[by]
    if isinstance(how, NumberEvaluation):
        interval = None
        if how.intervals:
            low, high = prediction.interval(rows, 0.95, offset, new=True).T
            interval = low, high
        return how.columns(prediction.predict(rows, offset), truth, group, interval)
    if how.scored:
        chances = prediction.probabilities(rows, offset)
    else:
        chances = np.eye(len(how.classes))[prediction.predict(rows, offset)]
    order = [list(map(str, prediction.classes)).index(one) for one in how.classes]
    return how.columns(chances[:, order], truth, group)


def pose(
    config: EvaluationConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy
) -> Posed:
    """What the model's predictions are like; `STATISTICS` release nothing of chances."""
    model = _model(config.judged)
    how = judging(
        schema,
        config.by,
        config.records,
        privacy,
        chances=_has_chances(model) and algorithm is not STATISTICS,
        intervals=_has_intervals(model),
        largest_error=config.largest_error,
        timed=isinstance(model.prediction, HazardRatio),
    )
    times = read_times(model.settings, schema)

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        rows, target = model.rows(values), schema.target or ""
        return (judged_columns(how, model.prediction, rows, config.by, values, target, times),)

    def present(study: Study, result: Result) -> dict[str, Any]:
        found: Evaluated = how.read(study, result, config.confidence)
        return {
            "evaluation": evaluated_json(found),
            "judged": {
                "title": model.title,
                "model": model.kind.name,
                "file": model.file,
                "inputs": list(model.prediction.inputs),
            },
            "target": schema.target,
            "by": config.by,
            "confidence": config.confidence,
        }

    return Posed(how.survey, how.width, encode, present)


def read_times(settings: Any, schema: Schema) -> Times | None:
    """How times and events of a survival model's records are read; None of others."""
    return event_times(settings, schema).read if isinstance(settings, EventConfig) else None


def _offset(prediction: Prediction, values: Values) -> np.ndarray | None:
    said = prediction.offset if isinstance(prediction, Scores) else None
    if said is None:
        return None
    own = np.asarray(values[said.column], float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(own) if said.log else own


def _has_chances(model: Portable) -> bool:
    said = model.prediction
    return isinstance(said, Average) or (isinstance(said, Scores) and said.link != "sign")


def _has_intervals(model: Portable) -> bool:
    said = model.prediction
    return (
        isinstance(said, Scores)
        and said.covariance is not None
        and not said.silence
        and said.spread is not None
    )


def _groups(by: str | None, schema: Schema) -> tuple[str, ...]:
    if by is None:
        return ()
    column = schema.columns[by]
    assert isinstance(column, NamedColumn)  # `faults` refuses others
    return tuple(map(str, column.levels))


def _complete(schema: Schema) -> bool:
    """Whether every record counts, by what is declared."""
    return not any(column.incomplete for column in schema.columns.values())


def choose(config: Any, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    """Models that give chances take two rounds."""
    model = _model(config.judged)
    if schema.classes and _has_chances(model):
        words = "noisy counts of scores, then one bounded row a record for AUC and calibration"
        return Choice(SCORE_INFLUENCE.name, words)
    return Choice(STATISTICS.name, "one noisy release holds all metrics")


def learns(config: EvaluationConfig, schema: Schema) -> str:
    model = _model(config.judged)
    by = f", by {config.by}" if config.by else ""
    return f"how well the {model.kind.name} {model.title!r} predicts {schema.target}{by}"


def faults(config: EvaluationConfig, schema: Schema) -> Iterator[Fault]:
    """A model that cannot be read, columns that are not declared as its own, groups."""
    try:
        model = _model(config.judged)
    except InvalidInput as error:
        yield ("model", "judged"), str(error)
        return
    timed = isinstance(model.prediction, HazardRatio)
    if isinstance(model.prediction, NearestCentre) or (
        timed and not isinstance(model.settings, EventConfig)
    ):
        words = f"a {model.kind.name} predicts nothing that is right or wrong in one record"
        yield ("model", "judged"), f"{words}: judge a classifier, a regression or hazards"
        return
    offset = model.prediction.offset if isinstance(model.prediction, Scores) else None
    needed = [*model.prediction.inputs, *([] if offset is None else [offset.column])]
    if timed:
        needed.append(model.settings.event)
    if model.schema.target is not None:
        needed.append(model.schema.target)
        if schema.target != model.schema.target:
            words = f"'{schema.target}', where the model predicts {model.schema.target}"
            yield ("data", "target"), f"{words}: name that"
            return
    for name in needed:
        own = schema.columns.get(name)
        if own is None:
            yield ("data", "columns"), f"lack '{name}', which the model needs: declare it as there"
        elif own != model.schema.columns[name]:
            words = f"is declared otherwise than in the study that the model '{model.title}' is of"
            yield ("data", "columns", name), f"{words}: declare it as there"
    yield from group_faults(("model", "by"), config.by, schema)


def group_faults(place: tuple[str | int, ...], by: str | None, schema: Schema) -> Iterator[Fault]:
    """What is wrong with the column of subgroups, if there is one."""
    if by is None:
        return
    column = schema.columns.get(by)
    if column is None:
        yield place, f"'{by}' is no column: there are {', '.join(schema.columns)}"
    elif not isinstance(column, NamedColumn):
        yield place, f"'{by}' is a {column.kind}, and a category is needed here"


def draft(schema: Schema) -> str:
    """A model that knows nothing, in the place of the one that is to be judged."""
    from unisono.models.fitted import FORMAT

    inputs = tuple(schema.features)
    features = schema.model_copy(update={"target": None, "columns": dict(schema.features)})
    names = tuple(map(str, Frame(features).names))
    classes = schema.classes
    several = len(classes) > 2
    link = "softmax" if several else "logistic" if classes else "identity"
    target = schema.columns[schema.target or ""]
    centre = sum(target.span) / 2 if isinstance(target, NumericColumn) else 0.0
    outputs = len(classes) if several else 1
    said = {
        "format": FORMAT,
        "model": "logistic-regression" if classes else "linear-regression",
        "title": "a model that knows nothing",
        "file": "",
        "schema": schema.model_dump(mode="json"),
        "prediction": {
            "form": Scores.form,
            "inputs": inputs,
            "names": names,
            "shift": [0.0] * len(names),
            "scale": [1.0] * len(names),
            "layers": [{"weights": [[0.0] * outputs] * (len(names) + 1), "bias": [0.0] * outputs}],
            "link": link,
            "labels": list(classes),
            "centre": centre,
        },
    }
    return f"judged = {json.dumps(json.dumps(said), ensure_ascii=False)}\n"


EVALUATION = ModelKind(
    "evaluation",
    "how good a finished model is: accuracy, AUC, calibration, R², concordance, by subgroup",
    EvaluationConfig,
    Target.EITHER,
    (Survey, ScoreSurvey),
    pose,
    choose,
    learns,
    faults=faults,
    draft=draft,
    task="mean",
    describes=True,
    judges=lambda config: _model(config.judged).file,
    silent="it says how good another model is",
)
