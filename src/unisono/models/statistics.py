"""Statistics: questions by column name, answers as estimates with intervals, in one release."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from unisono.algorithms import comparisons, statistics
from unisono.algorithms.quantiles import quantiles, tree_shape
from unisono.algorithms.readings import Sizes
from unisono.algorithms.statistics import Groups
from unisono.algorithms.survey import Question, Survey
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.core.words import times
from unisono.data.columns import NamedColumn, NumericColumn
from unisono.data.encoding import Values
from unisono.data.schema import Schema
from unisono.errors import InvalidInput
from unisono.models.model import Choice, Fault, ModelConfig, ModelKind, Posed, Target
from unisono.models.questions import (
    AnyQuestion,
    ContingencyTable,
    GroupDifference,
    Histogram,
    IndependenceTest,
    Moment,
    Quantiles,
    ShareDifference,
    ShareQuestion,
)
from unisono.releases.algorithm import AlgorithmKind

_SPREAD = ("mean", "variance", "standard deviation")


class StatisticsModelConfig(ModelConfig):
    """All questions are answered by one release."""

    questions: tuple[AnyQuestion, ...] = Field(
        min_length=1, description="What is asked; one release answers all of it."
    )
    confidence: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.95, description="How often intervals hold."
    )


@dataclass
class Slots:
    """Which numbers of a record the questions read: columns, and whether one has a value."""

    schema: Schema
    taken: dict[tuple[str, int | None], int] = field(default_factory=dict)

    def column(self, name: str) -> int:
        return self.taken.setdefault((name, None), len(self.taken))

    def value(self, name: str, value: str) -> int:
        return self.taken.setdefault((name, self.category(name).index(value)), len(self.taken))

    def groups(self, name: str | None) -> Groups | None:
        return None if name is None else self.grouping(name)

    def grouping(self, name: str) -> Groups:
        return Groups(self.column(name), self.category(name))

    def category(self, name: str) -> tuple[str, ...]:
        column = self.schema.columns[name]
        assert isinstance(column, NamedColumn)  # `faults` refuses others
        return column.levels

    def number(self, name: str) -> tuple[int, tuple[float, float], float | None]:
        column = self.schema.columns[name]
        assert isinstance(column, NumericColumn)
        return self.column(name), column.span, column.step

    def counted(self, name: str) -> bool:
        """Whether its values may be missing: then means and shares are divided by how many there
        are, which is released with them."""
        return self.schema.columns[name].incomplete

    def rows(self, values: Values) -> np.ndarray:
        """One party's records (n, slots), float32; NaN for what is missing. They lie column by
        column, as tables add them up."""
        size = len(values[next(iter(self.taken))[0]])
        rows = np.empty((size, len(self.taken)), np.float32, order="F")
        for slot, (name, code) in enumerate(self.taken):
            own = values[name]
            rows[:, slot] = own if code is None else np.where(np.isnan(own), np.nan, own == code)
        return rows


def pose(
    config: StatisticsModelConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy
) -> Posed:
    """One release for all questions; moments of the same column share one block."""
    slots = Slots(schema)
    survey = Survey([_question(slots, *group, privacy) for group in _grouped(config.questions)])

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = survey.read(study, result, config.confidence)
        return {"answers": [estimate.to_json() for estimate in found]}

    return Posed(survey, len(slots.taken), lambda values: (slots.rows(values),), present)


def choose(config: Any, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    """There is one way."""
    return Choice("statistics", "one noisy release answers all questions")


def learns(config: StatisticsModelConfig, schema: Schema) -> str:
    asked = [_in_words(question) for question in config.questions]
    more = [f"{len(asked) - 6} more"] if len(asked) > 6 else []
    return f"the answers to {times(len(asked), 'question')}: {'; '.join(asked[:6] + more)}"


def _in_words(question: AnyQuestion) -> str:
    by = getattr(question, "by", None)
    suffix = f" by {by}" if by else ""
    match question:
        case ShareQuestion() | ShareDifference():
            return f"{question.ask} of {question.column} = {question.value}{suffix}"
        case Quantiles():
            levels = ", ".join(f"{level:g}" for level in question.levels)
            return f"quantiles of {question.column} ({levels}){suffix}"
        case IndependenceTest():
            return f"{question.ask} test of {' and '.join(question.columns)}"
        case ContingencyTable():
            return f"table of {' by '.join(question.columns)}"
    return f"{question.ask} of {question.column}{suffix}"


def faults(config: StatisticsModelConfig, schema: Schema) -> Iterator[Fault]:
    """Questions about columns that are not there, or of another kind."""
    columns = schema.columns
    for number, question in enumerate(config.questions):
        place = ("model", "questions", number)
        if isinstance(question, ContingencyTable):
            for asked in question.columns:
                if asked not in columns:
                    words = f"'{asked}' is no column: there are {', '.join(columns)}"
                    yield (*place, "columns"), words
                elif not isinstance(columns[asked], NamedColumn):
                    words = f"'{asked}' is a {columns[asked].kind}, and a category is needed here"
                    yield (*place, "columns"), words
            yield from _untestable(question, schema, place)
            continue
        needed = "number"
        if isinstance(question, ShareQuestion | ShareDifference) or (
            isinstance(question, Histogram) and not question.bins
        ):
            needed = "category"
        for key, kind in (("column", needed), ("by", "category")):
            wanted = NumericColumn if kind == "number" else NamedColumn
            name = getattr(question, key, None)
            if name is not None and name not in columns:
                yield (*place, key), f"'{name}' is no column: there are {', '.join(columns)}"
            elif name is not None and not isinstance(columns[name], wanted):
                hint = "; give bins" if question.ask == "histogram" and key == "column" else ""
                words = f"'{name}' is a {columns[name].kind}, and a {kind} is needed here"
                yield (*place, key), f"{words}{hint}"
        column = columns.get(question.column)
        known = column.levels if isinstance(column, NamedColumn) else ()
        value = getattr(question, "value", None)
        if value is not None and known and value not in known:
            yield (*place, "value"), f"'{value}' is none of {', '.join(known)}"
        yield from _untestable(question, schema, place)


def _untestable(question: AnyQuestion, schema: Schema, place: tuple[Any, ...]) -> Iterator[Fault]:
    """Tests of one group only, of groups that are none, and of tables that are too small."""

    def levels(name: str) -> tuple[str, ...]:
        column = schema.columns.get(name)
        return column.levels if isinstance(column, NamedColumn) else ()

    if isinstance(question, GroupDifference | ShareDifference) and levels(question.by):
        try:
            comparisons.pair_of(levels(question.by), question.between, question.by)
        except InvalidInput as error:
            yield (*place, "between" if question.between else "by"), str(error)
    if isinstance(question, IndependenceTest) and all(map(levels, question.columns)):
        rows, columns = map(levels, question.columns)
        try:
            comparisons.require_table(rows, columns, question.ask == "fisher", _in_words(question))
        except InvalidInput as error:
            yield (*place, "columns"), str(error)


def draft(schema: Schema) -> str:
    """A first question about every column."""
    return "".join(
        f'\n[[model.questions]]\nask = "{"mean" if column.numeric else "histogram"}"\n'
        f"column = {json.dumps(name, ensure_ascii=False)}\n"
        for name, column in schema.columns.items()
    )


STATISTICS = ModelKind(
    "statistics",
    "means, sums, counts, histograms, tables and quantiles, with intervals; tests",
    StatisticsModelConfig,
    Target.NONE,
    Survey,
    pose,
    choose,
    learns,
    faults=faults,
    draft=draft,
    task="mean",
    silent="statistics are answers about all records together",
)


# ------------------------------------------------------------- from words to blocks


def _grouped(asked: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, tuple[str, ...]]]:
    """Questions, each with the moments that are wanted of it: one block for a column's."""
    groups: dict[Any, tuple[AnyQuestion, tuple[str, ...]]] = {}
    for number, question in enumerate(asked):
        key: Any = number
        if isinstance(question, Moment) and question.ask in _SPREAD:
            key = (question.column, question.by)
            if key in groups and groups[key][0].weight != question.weight:
                raise InvalidInput(
                    f"questions about {question.column!r} share one release: give them one weight"
                )
        wanted = groups.get(key, (question, ()))[1]
        if question.ask in wanted:
            assert isinstance(question, Moment)  # others have a block each
            raise InvalidInput(f"the {question.ask} of {question.column!r} is asked for twice")
        groups[key] = (groups.get(key, (question, ()))[0], (*wanted, question.ask))
    return list(groups.values())


def _question(
    slots: Slots, asked: AnyQuestion, wanted: tuple[str, ...], privacy: Privacy
) -> Question:
    if isinstance(asked, IndependenceTest):
        rows, columns = map(slots.grouping, asked.columns)
        test = comparisons.fisher if asked.ask == "fisher" else comparisons.chi_square
        return test(rows, columns, name=" by ".join(asked.columns)).weighing(asked.weight)
    if isinstance(asked, GroupDifference | ShareDifference):
        return _difference(slots, asked).weighing(asked.weight)
    if isinstance(asked, ContingencyTable):
        rows, columns = map(slots.grouping, asked.columns)
        title = f"table of {' by '.join(asked.columns)}"
        return statistics.contingency(rows, columns, name=title).weighing(asked.weight)
    by = slots.groups(getattr(asked, "by", None))
    suffix = "" if by is None else f" by {asked.by}"
    name = f"{asked.column}{suffix}"
    match asked:
        case ShareQuestion(ask="count"):
            title = f"count of {asked.column} = {asked.value}{suffix}"
            made = statistics.count(slots.value(asked.column, asked.value), name=title, by=by)
        case ShareQuestion():
            title = f"proportion of {asked.column} = {asked.value}{suffix}"
            made = statistics.proportion(slots.value(asked.column, asked.value), name=title, by=by)
        case Histogram(bins=None):
            labels = slots.category(asked.column)
            place = slots.column(asked.column)
            made = statistics.histogram(place, labels, name=f"histogram of {name}", by=by)
        case Histogram(bins=bins):
            place, (low, high), _ = slots.number(asked.column)
            edges = tuple(np.linspace(low, high, (bins or 1) + 1))
            labels = tuple(f"{a:g} to {b:g}" for a, b in pairwise(edges))
            made = statistics.histogram(
                place, labels, edges=edges, name=f"histogram of {name}", by=by
            )
        case Quantiles():
            place, bounds, _ = slots.number(asked.column)
            shape = tree_shape(privacy.pure)
            made = quantiles(place, bounds, asked.levels, name=name, by=by, **shape)
        case Moment(ask="sum"):
            place, bounds, step = slots.number(asked.column)
            made = statistics.total(place, bounds, name=f"sum of {name}", step=step, by=by)
        case _:
            place, bounds, step = slots.number(asked.column)
            spread = wanted != ("mean",) or not privacy.pure
            made = statistics.mean(
                place, bounds, name=name, step=step, by=by, wanted=wanted, spread=spread
            )
    made = made.counting(Sizes.of(privacy)) if slots.counted(asked.column) else made
    return made.weighing(asked.weight)


def _difference(slots: Slots, asked: GroupDifference | ShareDifference) -> Question:
    by = slots.grouping(asked.by)
    groups: dict[str, Any] = {"by_name": asked.by, "between": asked.between}
    if isinstance(asked, ShareDifference):
        place = slots.value(asked.column, asked.value)
        name = f"{asked.column} = {asked.value}"
        return comparisons.difference_of_proportions(place, by, name=name, **groups)
    place, bounds, step = slots.number(asked.column)
    means = asked.ask == "difference of means"
    test = comparisons.difference_of_means if means else comparisons.difference_of_medians
    return test(place, bounds, by, name=asked.column, step=step, **groups)
