"""Table 1 of a frame, in one call.

    book = unisono.open_ledger("trial.ledger", dataset="trial", epsilon=3.0, delta=1e-6)
    table = unisono.table_one(
        frame, by="arm", bounds={"age": (18, 100)}, categories={"arm": ["placebo", "drug"]},
        epsilon=1.0, delta=1e-6, ledger=book)
    print(table)

Columns are those that are declared, in the order of `bounds` and then `categories`: bounds and
categories are public, and never read from the frame. Whatever is no number, or none of the
categories, is missing, and is counted as that.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unisono.algorithms import table_layout
from unisono.algorithms.estimates import Estimate, guaranteed_parts
from unisono.algorithms.survey import STATISTICS
from unisono.core import notebook
from unisono.core.algorithm import Facts
from unisono.core.certificate import Certificate
from unisono.core.defaults import warn_of_clipping
from unisono.core.ledger import Ledger
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study, warn_large_delta
from unisono.core.trust import Relation, Trust, Unit
from unisono.core.values import Private
from unisono.data import as_text, listed
from unisono.data.columns import NumericColumn, range_given
from unisono.data.given import table_of
from unisono.data.order import order_key
from unisono.data.people import as_rows, drawn_persons, require_same_persons
from unisono.data.people import records_per_person as usual_group
from unisono.data.schema import Schema
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.models.table_one import TABLE_ONE


@dataclass(frozen=True)
class DescribedRecords:
    """A finished Table 1. `figures` is all of it as plain JSON; it prints as journals do, and in
    notebooks too."""

    figures: Mapping[str, Any]
    certificate: Certificate

    @property
    def text(self) -> str:
        return table_layout.as_text(self.figures)

    def to_markdown(self) -> str:
        return table_layout.as_markdown(self.figures)

    def to_csv(self) -> str:
        """Beside every column its intervals."""
        return table_layout.as_csv(self.figures)

    def to_html(self) -> str:
        """A table for any page, with its style."""
        return table_layout.STYLE + table_layout.as_html(self.figures)

    def to_json(self) -> dict[str, Any]:
        return dict(self.figures)

    @property
    def epsilon(self) -> float:
        """What the release cost, against the viewer who sees most."""
        return self._released.epsilon

    @property
    def delta(self) -> float:
        return self._released.delta

    @property
    def _released(self) -> Estimate:
        """The release as an estimate of no number: what it cost is said as everywhere else."""
        return Estimate("Table 1", 0.0, (0.0, 0.0), 0.95, "", self.certificate)

    def _repr_html_(self) -> str:
        """As notebooks show it."""
        return self.to_html() + notebook.shown(
            "", *guaranteed_parts(self.certificate), simulated=self.certificate.simulated
        )

    def __str__(self) -> str:
        guarantee = str(self._released).removeprefix(self._released.text).lstrip("\n")
        return f"{self.text}\n{guarantee}"


def table_one(
    frame: Any,
    by: str | None = None,
    *,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    categories: Mapping[str, Sequence[Any]] | None = None,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    integer: Sequence[str] = (),
    missing_codes: Mapping[str, Sequence[Any]] | None = None,
    mean_only: Sequence[str] = (),
    median_only: Sequence[str] = (),
    weights: Mapping[str, float] | None = None,
    confidence: float = 0.95,
    nominal_rows: int | None = None,
    persons: Any = None,
    records_per_person: int | None = None,
) -> DescribedRecords:
    """Who the records are about, in one release: counts and shares, mean (SD), median [quartiles],
    missing values and standardised differences, by group and overall, with intervals.

    `frame` is a frame of pandas, polars or Arrow, a DuckDB relation, a mapping of columns, a path
    to a Parquet or CSV file, or an iterator of batches;
    `by` is one of `categories`. Columns in `mean_only` or `median_only` are summarised by that
    alone, which leaves more of the budget to others; `integer` ones hold whole numbers;
    `missing_codes` name, by column, what the codebook writes for a missing value; `weights` change
    a column's part of the budget. Where the number of records is hidden (add-or-remove),
    `nominal_rows` is a public upper limit of it.

    With `persons`, ids or the name of a column, all records of one person are hidden: every person
    counts once, its records share that weight, and n is the number of persons. Of more than
    `records_per_person` records (8) so many are drawn in secret.
    """
    if not isinstance(frame, Mapping):
        frame = table_of(frame).columns
    schema = _schema(frame, bounds or {}, categories or {}, integer, missing_codes or {}, by)
    relation = ledger.policy.relation
    hidden = relation is Relation.ADD_OR_REMOVE
    if hidden and nominal_rows is None:
        raise InvalidInput(
            "add-or-remove hides how many records there are: give a public upper limit of their "
            "number with nominal_rows"
        )
    schema = schema.model_copy(update={"sizes": "hidden" if hidden else "exact"})
    config = TABLE_ONE.configured(
        by=by,
        mean_only=tuple(mean_only),
        median_only=tuple(median_only),
        weights={name: float(weight) for name, weight in (weights or {}).items()},
        confidence=float(confidence),
    )
    for place, words in TABLE_ONE.faults(config, schema):
        raise InvalidInput(f"{place[-1]}: {words}")
    privacy = Privacy(epsilon, delta, relation)
    posed = TABLE_ONE.pose(config, schema, STATISTICS, privacy)
    values = {name: column.read(listed(frame[name])) for name, column in schema.columns.items()}
    sizes = {len(own) for own in values.values()}
    if len(sizes) > 1:
        raise InvalidInput("columns of the frame differ in length: give each record every column")
    for name, column in schema.columns.items():
        if isinstance(column, NumericColumn):
            warn_of_clipping(values[name], *column.span, f"values of {name!r}")
    [records] = sizes
    owner = ledger.policy.dataset
    people = None
    if persons is not None:
        named = persons if isinstance(persons, str) else ""
        require_same_persons(ledger.policy, Unit.PERSON, named)
        if named and named not in frame:
            raise InvalidInput(
                f"the frame has no column {named!r} that says whose a record is: it has "
                f"{', '.join(map(str, frame))}"
            )
        ids = list(listed(frame[named] if named else persons))
        if len(ids) != records:
            raise InvalidInput(f"{len(ids)} persons for {records} records: name one for each")
        key = order_key(ledger.seed, owner)
        people = drawn_persons(ids, usual_group(records_per_person), key, owner, named)
        records = len(people)
    facts = _facts(records, posed.features, nominal_rows if hidden else None, delta)
    if people is not None:
        facts = replace(facts, records_per_person=people.shape[1])
    study = Study(STATISTICS.method(posed.problem, privacy), facts, Trust.LOCAL)
    rows = posed.rows(values)
    if people is not None:
        flat = tuple(array[people.reshape(-1)] for array in rows)
        rows = flat if people.shape[1] == 1 else as_rows(flat, people >= 0)
    party = Party(owner, Private(rows, owner), ledger)
    result = in_process.run(study, [party], purpose=f"Table 1{f' by {by}' if by else ''}")
    return DescribedRecords(posed.present(study, result)["table"], result.certificate)


def _facts(records: int, features: int, nominal: int | None, delta: float) -> Facts:
    """A hidden number of records appears nowhere, as in `unisono.statistics`."""
    if nominal is None:
        return Facts((records,), features, 1)
    warn_large_delta(delta, records)
    if records > nominal:  # refusing would tell everybody the size
        warnings.warn(
            f"there are more records than nominal_rows = {nominal}: all of them count, but "
            "intervals are made for fewer; give a larger number",
            stacklevel=3,
        )
    return Facts((nominal,), features, 1, exact_sizes=False)


def _schema(
    frame: Any,
    bounds: Mapping[str, tuple[float, float]],
    categories: Mapping[str, Sequence[Any]],
    integer: Sequence[str],
    missing_codes: Mapping[str, Sequence[Any]],
    by: str | None,
) -> Schema:
    """Declared columns; any of them may miss values, but for the groups."""
    twice = sorted(set(bounds) & set(categories))
    if twice:
        raise InvalidInput(f"{twice[0]!r} has bounds and categories: give it one of them")
    there = list(frame)
    for name in (*bounds, *categories, *integer, *missing_codes):
        if name not in bounds and name not in categories:
            option = "integer" if name in integer else "missing_codes"
            raise InvalidInput(f"{option} names {name!r}, which has no bounds: give it bounds")
        if name not in there:
            raise InvalidInput(
                f"the frame has no column {name!r}: it has {', '.join(map(str, there))}"
            )
    if by is not None and by not in categories:
        raise InvalidInput(
            f"by = {by!r}: the groups must be public; name them in categories, as "
            f"categories={{{by!r}: [first, second]}}"
        )
    columns: dict[str, Any] = {
        name: {
            "kind": "number",
            "bounds": range_given(name, own),
            "integer": name in integer,
            "missing": "drop record",
        }
        for name, own in bounds.items()
    }
    for name, values in categories.items():
        missing = {} if name == by else {"missing": "drop record"}
        columns[name] = {"kind": "category", "values": tuple(map(_category, values)), **missing}
    for name, given in missing_codes.items():
        texts = [None] if isinstance(given, str) or not np.iterable(given) else map(as_text, given)
        columns[name]["missing_codes"] = said = tuple(texts)
        if None in said:
            raise InvalidInput(
                f"missing_codes of {name!r} are {given!r}: give a list of numbers or words, as "
                "[-9, 999]"
            )
    if not columns:
        raise InvalidInput(
            "no column is declared: give bounds={name: (lowest, highest)} for numbers and "
            "categories={name: [values]} for others; they are never read from the data"
        )
    return Schema.declaring(columns)


def _category(value: Any) -> str:
    text = as_text(value)
    if text is None:
        raise InvalidInput(f"category {value!r}: name values that are not missing")
    return text


__all__ = ["DescribedRecords", "table_one"]
