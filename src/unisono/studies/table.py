"""From a party's table to numbers that the study may use: read, clipped, encoded.

All of it happens on the party's own machine before anything is spent, and its messages belong on
the party's own screen. Bounds and categories come from the study file, never from the table, and
every record is read by itself.

Numbers and dates are clipped to their public bounds, with a local warning that says how many were
outside. What is missing and has no declared value of its own is NaN, with a local warning. In
statistics its record counts in no sum or table of that column; in a model it teaches nothing at
all, unless an indicator says that it is missing. A refusal would tell everybody that such a record
is there.
"""

import warnings

import numpy as np

from unisono.data import RecordTable
from unisono.data.encoding import Values
from unisono.data.people import by_person, persons_of, warn_of_people
from unisono.data.reading import declared_column, declared_values
from unisono.data.sites import SITE
from unisono.data.spelling import places
from unisono.data.streams import RecordStream
from unisono.errors import InvalidInput
from unisono.studies.order import new_key
from unisono.studies.schema import StudyFile

# Among a party's values: the places of a column's labels, (records, levels), where its values are
# to be found out. No column has such a name, as files cannot hold it.
SPELT = "\0spelt "


class OneClass(UserWarning):
    """All targets of this party are the same; only it is told."""


def values_of(file: StudyFile, table: RecordTable, party: str, key: bytes | None = None) -> Values:
    """Each column of the study as float64 (records,): numbers in their bounds, categories as
    places in their lists, NaN where a cell is neither. Where persons are the unit, (persons,) or
    (persons, k), of records that are drawn by a secret key (`data.people`)."""
    if file.data.person is None or file.data.group is None:
        require_size(file, table, party, table.rows)
        return _values(file, table, party)
    owners = table.column(file.data.person)
    rows = persons_of(owners, file.data.group, new_key() if key is None else key)
    require_size(file, table, party, len(rows))
    warn_of_people(table.name, file.data.person, table.rows, owners, rows)
    return by_person(_values(file, table, party), rows)


def _values(file: StudyFile, table: RecordTable, party: str) -> Values:
    values = declared_values(table, file.data.columns)
    if file.sites is not None:
        values[SITE] = np.full(table.rows, float(file.sites.values.index(party)))
    for name, unlisted in file.data.unlisted.items():
        values[SPELT + name] = places(unlisted.uncoded(table.column(name), table.decimal))
    _warn_of_one_class(file, values, table.name)
    return values


def _warn_of_one_class(file: StudyFile, values: Values, name: str) -> None:
    """Tell whoever holds the records, and nobody else; those with targets that cannot be read have
    been told of the column already."""
    classes = file.data.classes
    if not classes:
        return
    targets = values[file.data.target or ""]
    found = np.unique(targets)
    if len(found) == 1 and np.isfinite(found[0]):
        unlisted = file.data.target in file.data.unlisted
        same = "the same" if unlisted else repr(classes[int(found[0])])
        warnings.warn(
            f"{name}: every {file.data.target!r} is {same}, one of "
            f"{len(classes)} classes: the other parties must hold the rest; check that it is the "
            "right column. Nobody else is told",
            OneClass,
            stacklevel=2,
        )


def public_values(file: StudyFile, table: RecordTable) -> Values:
    """As `values_of`, for public records: of any number, and refused where a cell is missing that
    no declaration covers. Which party they are like, they say themselves."""
    values = {}
    declared = file.modelled(file.data).columns
    for name, column in declared.items():
        values[name] = declared_column(table, name, column, "they are public records")
    for name, own in values.items():
        missing = np.flatnonzero(np.isnan(own))
        if len(missing) and (declared[name].drops or name == file.data.target):
            raise InvalidInput(
                f"{table.name}: {len(missing)} values of {name!r} are not "
                f"{declared[name].wanted}, first in record {missing[0] + 1}: correct or "
                "remove these public records; nothing was spent"
            )
    return values


def require_size(
    file: StudyFile, table: RecordTable | RecordStream, party: str, found: int
) -> None:
    """Where sizes are hidden a party may hold any number of records, and nobody is told."""
    stated = file.parties[file.party(party)].records
    what = "records" if file.data.person is None else f"persons (by {file.data.person!r})"
    if found == 0:
        raise InvalidInput(
            f"{table.name} holds no {what}: a party without any takes no part; nothing was spent"
        )
    if file.data.sizes == "exact" and found != stated:
        raise InvalidInput(
            f"{table.name} holds {found} {what}, and the study states {stated} for {party}: "
            "sizes are public and exact here; correct the study file with everybody, or agree on "
            'sizes = "hidden"; nothing was spent'
        )


__all__ = ["SPELT", "OneClass", "Values", "public_values", "require_size", "values_of"]
