"""Statistics and clusters: questions by column name, answers as estimates with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from unisono.algorithms import clustering, statistics
from unisono.algorithms.quantiles import quantiles
from unisono.algorithms.statistics import Groups
from unisono.algorithms.survey import STATISTICS, Question, Survey
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.errors import InvalidInput
from unisono.models.problems import BoundedColumns
from unisono.studies import settings as choices
from unisono.studies.plan import Parts, facts_of
from unisono.studies.questions import AnyQuestion, Histogram, Moment, Quantiles, Share
from unisono.studies.schema import Category, Number, StudyFile
from unisono.studies.table import Values

_SPREAD = ("mean", "variance", "standard deviation")


@dataclass
class Slots:
    """Which numbers of a record the questions read: columns, and whether one has a value."""

    file: StudyFile
    taken: dict[tuple[str, int | None], int] = field(default_factory=dict)

    def column(self, name: str) -> int:
        return self.taken.setdefault((name, None), len(self.taken))

    def value(self, name: str, value: str) -> int:
        return self.taken.setdefault((name, self.category(name).index(value)), len(self.taken))

    def groups(self, name: str | None) -> Groups | None:
        return None if name is None else Groups(self.column(name), self.category(name))

    def category(self, name: str) -> tuple[str, ...]:
        column = self.file.data.columns[name]
        assert isinstance(column, Category)  # `file.faults` refuses others
        return column.values

    def number(self, name: str) -> tuple[int, tuple[float, float], float | None]:
        column = self.file.data.columns[name]
        assert isinstance(column, Number)
        return self.column(name), column.bounds, 1.0 if column.whole else None

    def rows(self, values: Values) -> np.ndarray:
        """One party's records (n, slots); NaN for what is missing."""
        columns = [
            values[name] if code is None
            else np.where(np.isnan(values[name]), np.nan, values[name] == code)
            for name, code in self.taken
        ]  # fmt: skip
        return np.column_stack(columns)


def statistics_of(file: StudyFile, own: choices.Statistics) -> Parts:
    """One release for all questions; moments of the same column share one block."""
    slots = Slots(file)
    questions = [_question(slots, *group) for group in _grouped(own.questions)]
    survey = Survey(questions)

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = survey.read(study, result, own.confidence)
        return {"answers": [estimate.to_json() for estimate in found]}

    return Parts(
        STATISTICS.method(survey, _privacy(file)), facts_of(file, len(slots.taken)),
        lambda values: (slots.rows(values),), present,
    )  # fmt: skip


def _privacy(file: StudyFile) -> Privacy:
    return Privacy(file.privacy.epsilon, file.privacy.delta, file.privacy.relation)


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
            raise InvalidInput(f"the {question.ask} of {question.column!r} is asked for twice")
        groups[key] = (groups.get(key, (question, ()))[0], (*wanted, question.ask))
    return list(groups.values())


def _question(slots: Slots, asked: AnyQuestion, wanted: tuple[str, ...]) -> Question:
    by = slots.groups(getattr(asked, "by", None))
    suffix = "" if by is None else f" by {asked.by}"  # type: ignore[union-attr]
    name = f"{asked.column}{suffix}"
    match asked:
        case Share(ask="count"):
            title = f"count of {asked.column} = {asked.value}{suffix}"
            made = statistics.count(slots.value(asked.column, asked.value), name=title, by=by)
        case Share():
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
            made = quantiles(place, bounds, asked.levels, name=asked.column)
        case Moment(ask="sum"):
            place, bounds, step = slots.number(asked.column)
            made = statistics.total(place, bounds, name=f"sum of {name}", step=step, by=by)
        case _:
            place, bounds, step = slots.number(asked.column)
            spread = wanted != ("mean",) or slots.file.privacy.delta > 0
            made = statistics.mean(
                place, bounds, name=name, step=step, by=by, wanted=wanted, spread=spread
            )
    return made.weighing(asked.weight)


def k_means(file: StudyFile, own: choices.KMeans) -> Parts:
    """Clusters of all columns, each scaled by its public bounds."""
    columns = {n: c for n, c in file.data.columns.items() if isinstance(c, Number)}
    problem = BoundedColumns(tuple(column.bounds for column in columns.values()))
    method = clustering.K_MEANS.method(
        problem, _privacy(file), clusters=own.clusters, rounds=own.rounds
    )

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        return (np.column_stack([values[name] for name in columns]),)

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = clustering.read_clusters(problem, study, result)
        rows = zip(found.centres, found.margin, found.sizes, strict=True)
        return {
            "clusters": [
                {"centre": dict(zip(columns, map(float, centre), strict=True)),
                 "margin": dict(zip(columns, map(float, margin), strict=True)),
                 "size": float(size)}
                for centre, margin, size in rows
            ],
            "size_margin": float(found.size_margin), "confidence": found.confidence,
        }  # fmt: skip

    return Parts(method, facts_of(file, len(columns)), encode, present)


__all__ = ["Slots", "k_means", "statistics_of"]
