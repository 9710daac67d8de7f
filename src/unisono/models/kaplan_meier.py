"""Survival curves with bands, medians, restricted means and the log-rank test, by group.

The target is the time at which a record was last seen; a category says whether the event happened
then. All curves come from one noisy table (`algorithms.survival_table`), the test from one more
number of each record (`algorithms.log_rank`).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from unisono.algorithms.log_rank import LogRankState, log_rank_of
from unisono.algorithms.survival_curves import Curves, TimeCounts, estimate
from unisono.algorithms.survival_table import SURVIVAL_TABLE, unpacked_table
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.data.columns import NamedColumn, NumericColumn
from unisono.data.encoding import Values
from unisono.data.schema import Schema
from unisono.models.model import Choice, Fault, ModelConfig, ModelKind, Posed, Target
from unisono.problems.survival import BEYOND, MOST_BINS, SurvivalTimes
from unisono.releases.algorithm import AlgorithmKind

EVERYONE = "all"  # the group of a study without groups


class EventConfig(ModelConfig):
    """Which column says what happened."""

    event: str = Field(
        description="A category that says whether the event happened at the time, or the record "
        "was censored then."
    )
    event_value: str | None = Field(
        None,
        description="The value of the event column that is an event, others are censored; left "
        "out: the second of two.",
    )
    horizon: float | None = Field(
        None,
        gt=0,
        description="The time at which the study ends, from public knowledge: later events do not "
        "count. Left out: the highest value of the time's bounds.",
    )
    confidence: float = Field(0.95, gt=0, lt=1, description="How often each interval holds.")


class KaplanMeierConfig(EventConfig):
    """Which column says what, and where intervals of time end."""

    by: str | None = Field(
        None, description="A category whose values are the groups; left out: one curve."
    )
    visits: tuple[float, ...] | None = Field(
        None,
        min_length=1,
        max_length=MOST_BINS,
        description="Times at which records are seen, rising and from public knowledge: intervals "
        "of time end there. Left out: intervals follow when records leave, by a first release.",
    )
    bins: int | None = Field(
        None,
        ge=2,
        le=MOST_BINS,
        description="At most so many intervals of time where there are no visits; left out: a rule "
        "of records, groups and epsilon.",
    )
    log_rank: bool = Field(
        True, description="Whether groups are also compared by the log-rank test."
    )


def _time(schema: Schema) -> NumericColumn:
    column = schema.columns[schema.target or ""]
    assert isinstance(column, NumericColumn)  # the target's kind is checked before
    return column


def faults(config: KaplanMeierConfig, schema: Schema) -> Iterator[Fault]:
    """Columns that are not there, or of another kind."""
    if config.by is not None:
        yield from _named_faults("by", config.by, schema)
        if config.by == config.event:
            yield ("model", "by"), f"'{config.by}' is the event: groups are of another column"
    if config.visits is not None:
        yield from _visit_faults(config, config.visits, schema)
    yield from event_faults(config, schema)


def _visit_faults(
    config: KaplanMeierConfig, visits: tuple[float, ...], schema: Schema
) -> Iterator[Fault]:
    place, target = ("model", "visits"), schema.columns.get(schema.target or "")
    horizon = config.horizon
    if horizon is None and isinstance(target, NumericColumn):
        horizon = None if getattr(target, "private", False) else target.span[1]
    if not all(a < b for a, b in pairwise((0.0, *visits))):
        yield place, "must rise from one to the next, from above zero"
    elif horizon is None:
        yield place, "needs a public horizon: give horizon"
    elif visits[-1] > horizon:
        words = f"{visits[-1]:g} lies beyond the horizon, {horizon:g}"
        yield place, f"{words}: leave out visits that do not count"
    elif len(_visits(config, horizon)) > MOST_BINS:
        words = f"{len(visits)} visits, and the horizon after them, are more than {MOST_BINS}"
        yield place, f"{words}: give every other one"
    if config.bins is not None:
        yield ("model", "bins"), "visits end the intervals: leave out bins"


def _visits(config: KaplanMeierConfig, horizon: float) -> tuple[float, ...]:
    """Public ends of intervals, in horizons; none where there are no visits."""
    ends = [] if config.visits is None else [one for one in config.visits if one < horizon]
    return tuple(one / horizon for one in (*ends, horizon)) if config.visits else ()


def _named_faults(what: str, name: str, schema: Schema) -> Iterator[Fault]:
    column = schema.columns.get(name)
    if column is None:
        yield ("model", what), f"'{name}' is no column: there are {', '.join(schema.columns)}"
    elif not isinstance(column, NamedColumn):
        words = f"'{name}' is a {column.kind}, and a category is needed here"
        yield ("model", what), words


def event_faults(config: EventConfig, schema: Schema) -> Iterator[Fault]:
    """What is wrong with times and events, if anything."""
    yield from _named_faults("event", config.event, schema)
    columns, target = schema.columns, schema.columns.get(schema.target or "")
    event = columns.get(config.event)
    if isinstance(event, NamedColumn):
        values = ", ".join(event.levels)
        if config.event_value is None and len(event.levels) != 2:
            words = f"is missing: say which of {values} is the event"
            yield ("model", "event_value"), words
        elif config.event_value is not None and config.event_value not in event.levels:
            words = f"'{config.event_value}' is no value of {config.event}: it has {values}"
            yield ("model", "event_value"), words
    if isinstance(target, NumericColumn) and not getattr(target, "private", False):
        low, high = target.span
        if low < 0:
            words = f"times cannot be negative: the bounds of '{schema.target}' begin at {low:g}"
            yield ("model",), f"{words}, let them begin at 0"
        if config.horizon is not None and config.horizon > high:
            words = f"{config.horizon:g} lies beyond the bounds of '{schema.target}', {high:g}"
            yield ("model", "horizon"), f"{words}: nothing is seen there"


def event_value(config: EventConfig, schema: Schema) -> str:
    """The value that means that the event happened."""
    event = schema.columns[config.event]
    assert isinstance(event, NamedColumn)
    return config.event_value or event.levels[1]


class EventTimes(NamedTuple):
    """How far a study goes, and what a record's time and event are in it."""

    horizon: float
    read: Callable[[Values], tuple[np.ndarray, np.ndarray]]


def event_times(config: EventConfig, schema: Schema) -> EventTimes:
    """Times become shares of the horizon; whoever is seen at the end of the bounds or later, where
    numbers are clipped, has outlasted it."""
    target, event = schema.target or "", schema.columns[config.event]
    assert isinstance(event, NamedColumn)
    code = event.levels.index(event_value(config, schema))
    top = _time(schema).span[1]
    horizon = float(top if config.horizon is None else config.horizon)

    def read(values: Values) -> tuple[np.ndarray, np.ndarray]:
        time, happened = values[target], values[config.event]
        share = np.where(time >= top, BEYOND, time / horizon)
        share = np.where(np.isnan(time) | (time < 0), np.nan, share)
        share = np.where(share > 1, BEYOND, share)
        return share, np.where(np.isnan(happened), np.nan, happened == code)

    return EventTimes(horizon, read)


def pose(
    config: KaplanMeierConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy
) -> Posed:
    """A row is a time, whether the event happened then, and a group."""
    horizon, read = event_times(config, schema)
    groups: tuple[str, ...] = (EVERYONE,)
    if config.by is not None:
        by = schema.columns[config.by]
        assert isinstance(by, NamedColumn)
        groups = tuple(by.levels)
    used = (schema.target or "", config.event, *((config.by,) if config.by else ()))
    complete = not any(schema.columns[name].incomplete for name in used)
    problem = SurvivalTimes(groups, complete, _visits(config, horizon))

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        time, events = read(values)
        group = np.zeros(len(time)) if config.by is None else values[config.by]
        return (np.column_stack([time, events, group]),)

    def present(study: Study, result: Result) -> dict[str, Any]:
        return _presented(config, schema, problem, horizon, study, result.value)

    settings = (
        {} if config.bins is None or algorithm is not SURVIVAL_TABLE else {"bins": config.bins}
    )
    return Posed(problem, 3, encode, present, settings=settings)


def _presented(
    config: KaplanMeierConfig,
    schema: Schema,
    problem: SurvivalTimes,
    horizon: float,
    study: Study,
    value: Any,
) -> dict[str, Any]:
    test, released = None, value
    if isinstance(value, LogRankState):
        test, released = log_rank_of(study, value), value.table
    table = unpacked_table(released, problem)
    numbers = table.numbers(study.facts, study.trust, laplace=bool(study.method.privacy.pure))
    counts = TimeCounts(table.cells, table.places)
    intervals = table.intervals
    found = estimate(counts, numbers, problem.groups, intervals, horizon, config.confidence)
    first, *others = problem.groups
    shown: dict[str, Any] = {
        "time": schema.target,
        "event": config.event,
        "by": config.by,
        "horizon": horizon,
        "confidence": config.confidence,
        "visits": bool(problem.visits),
        "crowded": intervals.crowded and not problem.visits,
        "groups": {curve.group: curve.to_json() for curve in found.curves},
        "noise_std": numbers.noise,
    }
    if others:
        pairs = zip(others, found.differences, strict=True)
        shown["restricted_mean_differences"] = {
            f"{name} - {first}": one.to_json() for name, one in pairs
        }
        shown["log_rank"] = None if test is None else test.to_json(problem.groups)
    return {
        "target": schema.target,
        "kaplan_meier": shown,
        "note": " ".join(_notes(found, shown)),
    }


CROWDED = (
    "Records leave at few times, as at visits, so that medians are known to an interval of the "
    "curve only. If the times of visits are public, name them (visits)."
)


def _notes(found: Curves, shown: Mapping[str, Any]) -> Iterator[str]:
    horizon = shown["horizon"]
    yield (
        "Intervals hold at each time, bands at all times at once, if censoring is independent of "
        "the event within each group; both account for sampling and the noise of privacy. "
        f"Restricted means are of times up to {horizon:g}."
    )
    if shown.get("log_rank"):
        yield "The log-rank test is of equal hazards on the intervals of the curves."
    if shown["visits"]:
        yield "Intervals end at visits, and medians are known to the time between two of them."
    if shown["crowded"]:
        yield CROWDED
    early = [
        f"{curve.group} (0, {curve.times[1]:.4g}]"
        for curve in found.curves
        if curve.median.value is not None and curve.median.value <= curve.times[1]
    ]
    if early:
        yield f"The median lies within the first interval of {'; '.join(early)}."
    drowned = [
        f"{curve.group} from {curve.times[int(np.argmin(curve.determined)) - 1]:.4g} on"
        for curve in found.curves
        if not curve.determined.all()
    ]
    if drowned:
        yield (
            f"Too noisy to estimate: {'; '.join(drowned)}. Too few records are left at risk there. "
            "A shorter horizon, more records, fewer groups or a larger epsilon would help."
        )
    none = [
        curve.group
        for curve in found.curves
        if curve.determined.all() and curve.high[-1] == 1.0 and curve.survival[-1] > 0.999
    ]
    if none:
        yield f"No event can be told from noise in {', '.join(none)}."


def choose(config: KaplanMeierConfig, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    if config.by is None or not config.log_rank:
        return Choice("survival-table", "one noisy table holds every curve with its bands")
    if privacy.pure:
        return Choice("survival-table", "delta = 0 leaves no log-rank test, but every curve")
    return Choice("log-rank", "a noisy table for the curves, then a bounded score for the test")


def learns(config: KaplanMeierConfig, schema: Schema) -> str:
    by = f" by {config.by}" if config.by else ""
    return f"survival curves of {schema.target} until {config.event}{by}, with bands"


def draft(schema: Schema) -> str:
    """The first category of two values is often the event."""
    named = [
        name
        for name, column in schema.columns.items()
        if isinstance(column, NamedColumn) and len(column.levels) == 2
    ]
    return f"event = {json.dumps(named[0], ensure_ascii=False)}\n" if named else ""


KAPLAN_MEIER = ModelKind(
    "kaplan-meier",
    "survival curves with bands, medians, restricted means and the log-rank test, by group",
    KaplanMeierConfig,
    Target.NUMBER,
    SurvivalTimes,
    pose,
    choose,
    learns,
    faults=faults,
    draft=draft,
    describes=True,
    silent="its curves are of groups and say nothing of single records: learn hazards for that",
)

__all__ = [
    "CROWDED",
    "EVERYONE",
    "KAPLAN_MEIER",
    "EventConfig",
    "KaplanMeierConfig",
    "event_faults",
    "event_times",
    "event_value",
]
