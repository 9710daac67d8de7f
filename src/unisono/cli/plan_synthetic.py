"""Records that nobody has, on which a plan tries a survey, and what errors are compared with."""

from typing import Any

import numpy as np

from unisono.data.columns import NumericColumn
from unisono.models.questions import (
    AnyQuestion,
    ContingencyTable,
    IndependenceTest,
    Moment,
    Quantiles,
)
from unisono.studies.schema import StudyFile

_MADE_UP = 256  # records


def even(file: StudyFile) -> dict[str, np.ndarray]:
    """Columns that are even over their public ranges; nobody's records."""
    place = np.arange(_MADE_UP)
    return {
        name: column.even[place % len(column.even)] for name, column in file.data.columns.items()
    }


def ranges(file: StudyFile) -> list[float]:
    """What each answer's error is compared with: the range of the column, or all records.

    Answers come in the order of `surveys`: moments of the same column stand together.
    """
    groups: dict[Any, list[float]] = {}
    for number, question in enumerate(file.model_settings.questions):
        key: Any = number
        if isinstance(question, Moment) and question.ask != "sum":
            key = (question.column, question.by)
        times = len(question.levels) if isinstance(question, Quantiles) else 1
        groups.setdefault(key, []).extend([_range(file, question)] * times)
    return [width for group in groups.values() for width in group]


def _range(file: StudyFile, question: AnyQuestion) -> float:
    records = float(sum(party.records for party in file.parties))
    if isinstance(question, IndependenceTest):
        return 1.0
    if isinstance(question, ContingencyTable):
        return records
    column = file.data.columns[question.column]
    if question.ask in ("count", "histogram"):
        return records
    if question.ask in ("proportion", "difference of proportions") or not isinstance(
        column, NumericColumn
    ):
        return 1.0
    width = column.span[1] - column.span[0]
    return {"variance": width**2 / 4, "sum": records * width}.get(question.ask, width)


__all__ = ["even", "ranges"]
