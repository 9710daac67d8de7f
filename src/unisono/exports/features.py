"""The features of a model as plain steps that other programs can follow.

`columns` says how a cell is read: a number within its bounds, a date as `at_1970` and `per_day` for
each day since (its `format`, or ISO 8601), or the place of a text, with `other` for every text that
has none. `features` says what is made of it, one number each:

    power     the number to this power, which is 1 for itself
    log1p     log(1 + number)
    between   1 where low <= cell < high (of the last range: where low <= cell), else 0
    bend      a bend of a restricted cubic spline (Harrell 2015, 2.4.5)
    level     1 where the value has this place in the list of levels, else 0
    place     the place itself
    missing   1 where the cell is missing, else 0
    product   of two features, by their places in this list

Where a number that is missing, or a place, is null, the record has no prediction.
"""

from typing import Any

from unisono.data.cells import truths
from unisono.data.columns import (
    MISSING,
    OTHER,
    Category,
    ColumnKind,
    Date,
    NamedColumn,
    Number,
    Ordinal,
    TrueFalse,
)
from unisono.data.schema import Schema
from unisono.errors import InvalidInput
from unisono.models.fitted import FittedModel
from unisono.models.prediction import NearestCentre, Prediction, Scores

_SPELLINGS = ("false", "true", "no", "yes", "f", "t", "n", "y", "0", "1")


def predicted(model: FittedModel) -> Prediction:
    """How a model predicts, or a refusal."""
    if model.prediction is None:
        raise InvalidInput(
            f"{model.model} predicts nothing that could be exported: {model.kind.silent}"
        )
    return model.prediction


def columns_of(model: FittedModel, offset: bool = False) -> dict[str, dict[str, Any]]:
    """How each cell is read; with `offset` also that of one."""
    found = predicted(model)
    added = found.offset if isinstance(found, Scores) and offset else None
    names = (*found.inputs, *(() if added is None else (added.column,)))
    return {name: _column(name, model.schema.columns[name]) for name in names}


def _column(name: str, column: ColumnKind) -> dict[str, Any]:
    codes = ["", *(str(code) for code in getattr(column, "missing_codes", ()))]
    if isinstance(column, Number):
        low, high = column.span
        said = {"kind": "number", "low": low, "high": high, "missing": column.stand_in}
        said["missing_codes"] = codes
    elif isinstance(column, Category | Ordinal | TrueFalse):
        levels = list(column.levels)
        missing = _missing_place(column, levels)
        places: dict[str, Any] = {n: k for k, n in enumerate(levels) if n not in (MISSING, OTHER)}
        if isinstance(column, TrueFalse):
            spelt = [way(one) for one in _SPELLINGS for way in (str, str.upper, str.title)]
            places = {one: int(truths([one])[0]) for one in spelt}
        places |= dict.fromkeys(codes, missing)
        other = levels.index(OTHER) if OTHER in levels else missing
        said = {"kind": "category", "levels": levels, "places": places, "other": other}
    elif isinstance(column, Date) and column.parts == ("year",) and not column.missing_codes:
        said = _date(column)
    else:
        raise InvalidInput(
            f"column {name!r} is a {getattr(column, 'kind', '')} with codes or parts that other "
            "programs read in other ways: predict with unisono.load or `unisono predict`"
        )
    return said


def _date(column: Date) -> dict[str, Any]:
    """A date is read as days since 1970, and counts as a number that grows by each day alike."""
    low, high = column.span
    first, slope = column.line
    said = {"kind": "date", "format": column.format, "at_1970": first, "per_day": slope}
    return said | {"low": low, "high": high, "missing": column.stand_in, "missing_codes": [""]}


def _missing_place(column: NamedColumn, levels: list[str]) -> int | None:
    said = getattr(column, "missing", None)
    if said in (None, "drop record"):
        return None
    if isinstance(said, bool):
        return int(said)
    return levels.index(MISSING if said == "category" else str(said))


def features_of(model: FittedModel) -> list[dict[str, Any]]:
    """What is made of the columns, in the order of the model's features."""
    found = predicted(model)
    if isinstance(found, NearestCentre):  # of columns as they are
        return [_number(name) for name in found.inputs]
    schema: Schema = model.schema
    made: list[dict[str, Any]] = []
    places: dict[str, range] = {}
    for name in found.inputs:
        own = list(_made(name, schema.columns[name]))
        places[name] = range(len(made), len(made) + len(own))
        made += own
    for first, second in schema.interactions:
        made += [{"make": "product", "of": [a, b]} for a in places[first] for b in places[second]]
    if len(made) != len(found.names):
        raise InvalidInput(f"{len(made)} features where the model has {len(found.names)}")
    return [{"name": name, **own} for name, own in zip(found.names, made, strict=True)]


def _made(name: str, column: ColumnKind) -> list[dict[str, Any]]:
    if isinstance(column, Ordinal):
        return [{"make": "place", "column": name}]
    if isinstance(column, NamedColumn):
        return [
            {"make": "level", "column": name, "place": place}
            for place in range(1, len(column.levels))
        ]
    assert isinstance(column, Number | Date)
    flag = [{"make": "missing", "column": name}] * (column.missing == "indicator")
    if isinstance(column, Date):
        return [_number(name), *flag]
    if column.bins is not None:
        edges = column.edges
        return [
            *(
                {
                    "make": "between",
                    "column": name,
                    "low": edges[n],
                    "high": edges[n + 1] if n < len(edges) - 2 else None,
                }
                for n in range(1, len(edges) - 1)
            ),
            *flag,
        ]
    if column.knots is not None:
        bends = range(len(column.knots) - 2)
        made = [
            {"make": "bend", "column": name, "knots": list(column.knots), "bend": n} for n in bends
        ]
        return [_number(name), *made, *flag]
    if column.transform == "log1p":
        return [{"make": "log1p", "column": name}, *flag]
    power = 0.5 if column.transform == "sqrt" else column.power
    return [_number(name, 1.0 if power is None else power), *flag]


def _number(name: str, power: float = 1.0) -> dict[str, Any]:
    return {"make": "power", "column": name, "power": power}


__all__ = ["columns_of", "features_of", "predicted"]
