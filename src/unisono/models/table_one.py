"""Table 1: counts and shares, mean (SD), median [quartiles] and missing values, by group."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from pydantic import Field, PositiveFloat

from unisono.algorithms.survey import Survey
from unisono.algorithms.table_one import NamedVariable, NumberVariable, TableOne, Variable
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.data.columns import MISSING, ColumnKind, NamedColumn, NumericColumn
from unisono.data.encoding import Values
from unisono.data.schema import Schema
from unisono.models.model import Choice, Fault, ModelConfig, ModelKind, Posed, Target
from unisono.problems.columns import Groups
from unisono.releases.algorithm import AlgorithmKind


class TableOneConfig(ModelConfig):
    """Which columns the table has, and how they are summarised."""

    by: str | None = Field(
        None, description="A category whose values are the groups; left out: overall alone."
    )
    columns: tuple[str, ...] | None = Field(
        None, min_length=1, description="The rows of the table, in order; left out: all columns."
    )
    mean_only: tuple[str, ...] = Field(
        (), description="Numbers that are shown as mean (SD) alone, without median [quartiles]."
    )
    median_only: tuple[str, ...] = Field(
        (), description="Numbers that are shown as median [quartiles] alone, as skewed ones are."
    )
    weights: dict[str, PositiveFloat] = Field(
        {}, description="A column's part of the budget, relative to what the rule gives it."
    )
    confidence: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.95, description="How often each interval holds."
    )


def rows_of(config: TableOneConfig, schema: Schema) -> list[str]:
    """The columns that are rows of the table: all but that of the groups."""
    names = list(schema.columns) if config.columns is None else list(config.columns)
    return [name for name in names if name != config.by]


def pose(
    config: TableOneConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy
) -> Posed:
    """One release; `(missing)` is a level of every named column that may miss values."""
    named = [*rows_of(config, schema), *([config.by] if config.by else [])]
    variables = tuple(
        _variable(config, name, schema.columns[name], slot)
        for slot, name in enumerate(rows_of(config, schema))
    )
    by, complete = None, False
    if config.by is not None:
        groups = schema.columns[config.by]
        assert isinstance(groups, NamedColumn)  # `faults` refuses others
        by, complete = Groups(len(named) - 1, groups.levels), not groups.drops
    uncounted = by is None and schema.sizes == "hidden"
    everyone = len(named) if uncounted else None
    table = TableOne(variables, by, privacy, config.by, config.weights, everyone, complete)
    codes = {v.name: _missing_code(v) for v in variables}

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        columns = [
            np.where(np.isnan(values[name]), codes.get(name, np.nan), values[name])
            for name in named
        ]
        ones = [np.ones(len(columns[0]))] if uncounted else []
        return (np.column_stack([*columns, *ones]),)

    def present(study: Study, result: Result) -> dict[str, Any]:
        return {"table": table.read(study, result, config.confidence)}

    def planned(study: Study, result: Result) -> list[tuple[dict[str, Any], float]]:
        return table.answers(study, result, config.confidence)

    return Posed(table.survey, len(named) + uncounted, encode, present, planned=planned)


def _variable(config: TableOneConfig, name: str, column: ColumnKind, slot: int) -> Variable:
    if isinstance(column, NumericColumn):
        return NumberVariable(
            name,
            slot,
            column.span,
            column.step,
            mean=name not in config.median_only,
            median=name not in config.mean_only,
            incomplete=column.incomplete,
        )
    assert isinstance(column, NamedColumn)
    misses = column.incomplete and MISSING not in column.levels
    levels = (*column.levels, *((MISSING,) if misses else ()))
    return NamedVariable(name, slot, levels, total=not column.complete)


def _missing_code(variable: Variable) -> float:
    """Where a missing value counts; nowhere, unless that is a level."""
    if isinstance(variable, NumberVariable) or MISSING not in variable.levels:
        return np.nan
    return float(variable.levels.index(MISSING))


def choose(config: Any, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    """There is one way."""
    return Choice("statistics", "one noisy release holds the whole table")


def learns(config: TableOneConfig, schema: Schema) -> str:
    rows = rows_of(config, schema)
    more = f" and {len(rows) - 8} more" if len(rows) > 8 else ""
    by = f" by {config.by}" if config.by else ""
    return f"a table that describes {', '.join(rows[:8])}{more}{by}"


def faults(config: TableOneConfig, schema: Schema) -> Iterator[Fault]:
    """Columns that are not there, or of another kind."""
    columns = schema.columns
    known = f"there are {', '.join(columns)}"
    if config.by is not None and config.by not in columns:
        yield ("model", "by"), f"'{config.by}' is no column: {known}"
    elif config.by is not None and not isinstance(columns[config.by], NamedColumn):
        words = f"'{config.by}' is a {columns[config.by].kind}, and a category is needed here"
        yield ("model", "by"), words
    rows = rows_of(config, schema)
    for name in rows:
        if name not in columns:
            yield ("model", "columns"), f"'{name}' is no column: {known}"
    if len(set(rows)) < len(rows):
        yield ("model", "columns"), "a column is named twice: name each once"
    if not rows:
        yield ("model", "columns"), "no column is left besides the groups: name at least one"
    for key in ("mean_only", "median_only"):
        for name in getattr(config, key):
            if name not in rows:
                yield ("model", key), f"'{name}' is no row of the table: it has {', '.join(rows)}"
            elif name in columns and not isinstance(columns[name], NumericColumn):
                words = f"'{name}' is a {columns[name].kind}, and a number is needed here"
                yield ("model", key), words
    for name in sorted(set(config.mean_only) & set(config.median_only)):
        yield ("model", "median_only"), f"'{name}' is in mean_only too: keep one, or none for both"
    for name in config.weights:
        if name not in rows:
            yield ("model", "weights", name), f"is no row of the table: it has {', '.join(rows)}"


def draft(schema: Schema) -> str:
    """By the last category, which is often the outcome or the arm."""
    named = [n for n, column in schema.columns.items() if isinstance(column, NamedColumn)]
    if not named or len(schema.columns) < 2:
        return ""
    return f"by = {json.dumps(named[-1], ensure_ascii=False)}\n"


TABLE_ONE = ModelKind(
    "table-one",
    "Table 1: counts and shares, mean (SD), median and quartiles, missing, by group",
    TableOneConfig,
    Target.NONE,
    Survey,
    pose,
    choose,
    learns,
    faults=faults,
    draft=draft,
    task="mean",
    silent="a table describes all records together",
)
