"""Harrell's concordance: how well a score orders times until an event, over all parties.

The target is the time, and a numeric column is the score that some model has given to every record.
Everything comes from one noisy table (`algorithms.concordance`).
"""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from unisono.algorithms.concordance import concordance_of
from unisono.algorithms.survival_table import unpacked_table
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.data.columns import NumericColumn
from unisono.data.encoding import Values
from unisono.data.schema import Schema
from unisono.models.kaplan_meier import EventConfig, draft, event_faults, event_times
from unisono.models.model import Choice, Fault, ModelKind, Posed, Target
from unisono.problems.survival import MOST_BINS, ScoredTimes
from unisono.releases.algorithm import AlgorithmKind

_INTERVALS = 8
_MOST_CUTS = 39


class ConcordanceConfig(EventConfig):
    """Which column says what."""

    score: str = Field(
        description="A number that is higher where the event is expected sooner, as a log hazard."
    )
    cuts: tuple[float, ...] | None = Field(
        None,
        min_length=1,
        max_length=_MOST_CUTS,
        description="Where scores are cut into intervals, rising and from public knowledge; left "
        "out: eight equal ones within the bounds.",
    )
    bins: int | None = Field(
        None,
        ge=2,
        le=MOST_BINS,
        description="Equal intervals of time; left out: a rule of records, groups and epsilon.",
    )

    @field_validator("cuts")
    @classmethod
    def _rising(cls, cuts: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if cuts is not None and not all(a < b for a, b in pairwise(cuts)):
            raise ValueError("cuts must rise from one to the next")
        return cuts


def faults(config: ConcordanceConfig, schema: Schema) -> Iterator[Fault]:
    column = schema.columns.get(config.score)
    if column is None:
        there = ", ".join(schema.columns)
        yield ("model", "score"), f"'{config.score}' is no column: there are {there}"
    elif not isinstance(column, NumericColumn):
        yield ("model", "score"), f"'{config.score}' is a {column.kind}, and a score is a number"
    elif config.score == schema.target:
        yield ("model", "score"), f"'{config.score}' is the time: a score is another column"
    elif config.cuts is None and getattr(column, "private", False):
        yield ("model", "cuts"), f"is missing: '{config.score}' has no public bounds to divide"
    yield from event_faults(config, schema)


def _cuts(config: ConcordanceConfig, schema: Schema) -> tuple[float, ...]:
    if config.cuts is not None:
        return config.cuts
    column = schema.columns[config.score]
    assert isinstance(column, NumericColumn)
    low, high = column.span
    return tuple(float(one) for one in np.linspace(low, high, _INTERVALS + 1)[1:-1])


def pose(
    config: ConcordanceConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy
) -> Posed:
    """A row is a time, whether the event happened then, and the interval of the score."""
    horizon, read = event_times(config, schema)
    cuts = _cuts(config, schema)
    names = tuple(str(place) for place in range(len(cuts) + 1))
    used = (schema.target or "", config.event, config.score)
    complete = not any(schema.columns[name].incomplete for name in used)
    problem = ScoredTimes(names, complete)

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        scores = np.asarray(values[config.score], float)
        place = np.where(np.isnan(scores), np.nan, np.searchsorted(cuts, scores))
        return (np.column_stack([*read(values), place]),)

    def present(study: Study, result: Result) -> dict[str, Any]:
        table = unpacked_table(result.value, problem)
        pure = bool(study.method.privacy.pure)
        numbers = table.numbers(study.facts, study.trust, laplace=pure)
        found = concordance_of(table.cells, numbers, config.confidence)
        shown = {
            "score": config.score,
            "time": schema.target,
            "event": config.event,
            "horizon": horizon,
            "cuts": list(cuts),
            "noise_std": numbers.noise,
            **found.to_json(),
        }
        note = (
            "Of pairs of records of which one had its event while the other was at risk, how often "
            f"it had the higher score, up to {horizon:g}; the interval counts sampling and the "
            "noise of privacy."
        )
        if not found.determined:
            note += (
                " Noise hides how many such pairs there are: more records or events, a larger "
                "epsilon or fewer cuts would help."
            )
        return {"target": schema.target, "concordance": shown, "note": note}

    given = {} if config.bins is None else {"bins": config.bins}
    return Posed(problem, 3, encode, present, settings=given)


def choose(config: ConcordanceConfig, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    return Choice("survival-table", "one noisy table of scores and times holds all pairs")


def _learns(config: ConcordanceConfig, schema: Schema) -> str:
    return f"how well {config.score} orders {schema.target} until {config.event}"


def _draft(schema: Schema) -> str:
    """The first number beside the target may be the score."""
    numbers = [
        name
        for name, column in schema.columns.items()
        if isinstance(column, NumericColumn) and name != schema.target
    ]
    score = f"score = {json.dumps(numbers[0], ensure_ascii=False)}\n" if numbers else ""
    return draft(schema) + score


CONCORDANCE = ModelKind(
    "concordance",
    "Harrell's C with an interval: how well a score orders times until an event",
    ConcordanceConfig,
    Target.NUMBER,
    ScoredTimes,
    pose,
    choose,
    learns=_learns,
    faults=faults,
    draft=_draft,
    describes=True,
    silent="it says how well a score orders times, and predicts none",
)

__all__ = ["CONCORDANCE", "ConcordanceConfig"]
