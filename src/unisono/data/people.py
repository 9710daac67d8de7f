"""Whose a record is: from records to persons, on the party's own machine.

A column says whose each record is; it is read as text, each record's by itself. Equal texts are one
person, whatever else the records hold. A record that does not say whose it is belongs to nobody who
could be protected, and is left out: as a person of its own it would be protected as a single
record, and the person behind it, who may have others here, less than was promised.

A person's records become one row of a public length k. Of more than k records k are drawn in
secret, evenly; where there are fewer, the row is filled up with what counts for nothing. So how
many records a person has shows in no shape.

Persons stand in an order that says nothing of their records either (`order`). Let D and E
be tables that differ in all records of one person. A uniform order of all records, cut into
persons, is a uniform order of each person's own, independent of those of others: all other persons'
rows have the same law in D and E, so the two can be drawn together and differ in one row. The draws
are part of the randomness, and mixing over them costs nothing (the hockey-stick divergence is
jointly convex).
"""

import hashlib
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unisono.core.noise.keystream import Keystream
from unisono.core.noise.subset import permutation
from unisono.core.policy import Policy
from unisono.core.trust import Unit
from unisono.core.words import times
from unisono.data.cells import as_text, is_blank
from unisono.data.order import secret_order
from unisono.data.sources import UnreadValues
from unisono.errors import ClippedValues, InvalidInput

if TYPE_CHECKING:  # a mean of persons needs no declarations, which take a quarter of a second
    from unisono.data.encoding import Values

# So many records of a person are read at most, unless something is said: enough for most tables of
# visits, and few enough that rows stay short; and so many may be said.
RECORDS_PER_PERSON, MOST_RECORDS = 8, 1000
# Among a party's values by column: which of a person's k records are there, (persons, k). No column
# has this name, as files cannot hold it.
THERE = "\0there"
NOBODY = -1  # in the place of a record


def persons_of(cells: Sequence[Any] | np.ndarray, group: int, key: bytes) -> np.ndarray:
    """Which records each person's row holds (persons, group), -1 where it holds none; drawn by a
    secret key, and no two records in the order of the file.

    >>> rows = persons_of(["ann", "bob", "ann", None, "ann"], 2, bytes(32))
    >>> [sorted(row.tolist()) for row in rows][1], len(rows)
    ([-1, 1], 2)
    """
    texts = list(map(owner_of, cells))
    known = np.array([number for number, text in enumerate(texts) if text is not None], int)
    if not len(known):
        return np.full((0, group), NOBODY)
    numbers: dict[str | None, int] = {}
    owners = np.array([numbers.setdefault(texts[record], len(numbers)) for record in known])
    drawn = permutation(Keystream(_draws(key)), len(known))
    drawn = drawn[np.argsort(owners[drawn], kind="stable")]
    ordered = owners[drawn]
    begin = np.searchsorted(ordered, np.arange(len(numbers)))
    place = np.arange(len(drawn)) - begin[ordered]
    rows = np.full((len(numbers), group), NOBODY)
    kept = place < group
    rows[ordered[kept], place[kept]] = known[drawn[kept]]
    return rows


def owner_of(cell: Any) -> str | None:
    """Whose a record is; None where it does not say. Blanks around a name are no part of it."""
    return None if is_blank(cell) else (as_text(cell) or "").strip()


def _draws(key: bytes) -> bytes:
    """Another key than the one that orders persons: the two must not depend on each other."""
    return hashlib.sha256(b"records of persons" + key).digest()


def by_person(values: "Values", rows: np.ndarray) -> dict[str, np.ndarray]:
    """A party's columns (records,) as (persons, k), NaN where a person has fewer, and which of them
    are there; one record of each person makes (persons,), as if there were no others."""
    if rows.shape[1] == 1:
        return {name: column[rows[:, 0]] for name, column in values.items()}
    there = rows != NOBODY
    found = {name: np.where(there, column[rows], np.nan) for name, column in values.items()}
    return {**found, THERE: there}


def one_of_each(values: "Values") -> "Values":
    """One record of each person: the first one drawn, so that it is any of them."""
    if THERE not in values:
        return values
    return {name: column[:, 0] for name, column in values.items() if name != THERE}


def as_records(values: "Values") -> tuple["Values", np.ndarray | None]:
    """Columns (persons k,) as if they were records, and which of them are there (persons, k); None
    where they are records."""
    if THERE not in values:
        return values, None
    flat = {name: column.reshape(-1) for name, column in values.items() if name != THERE}
    return flat, values[THERE]


def as_rows(arrays: tuple[np.ndarray, ...], there: np.ndarray) -> tuple[np.ndarray, ...]:
    """What a model made of records, (persons k, ...), by person: (persons, k, ...), NaN where there
    is no record. Rows without a label are for tables, which also read which records are there: a
    value that is missing is not a record that is."""
    rows = tuple(
        np.where(
            there.reshape(*there.shape, *[1] * (array.ndim - 1)),
            array.reshape(*there.shape, *array.shape[1:]),
            np.nan,
        )
        for array in arrays
    )
    return rows if len(rows) > 1 else (*rows, there.astype(np.float32))


def blanked(array: np.ndarray, there: np.ndarray) -> np.ndarray:
    """The rows of an array (n, ...) that are `there` (n,); others say nothing of anybody: NaN, or
    zero where NaN cannot be written."""
    if there.all():
        return array
    blank = np.nan if array.dtype.kind in "fc" else array.dtype.type()
    return np.where(there.reshape(-1, *[1] * (array.ndim - 1)), array, blank)


def records_per_person(said: int | None) -> int:
    """How many records of a person are read at most: as is said, or as usual."""
    group = RECORDS_PER_PERSON if said is None else said
    if not (isinstance(group, int | np.integer) and 1 <= group <= MOST_RECORDS):
        raise InvalidInput(
            f"records_per_person = {said!r}: give a whole number from 1 to {MOST_RECORDS}"
        )
    return int(group)


def drawn_persons(
    cells: Sequence[Any], group: int, key: bytes, name: str, column: str
) -> np.ndarray:
    """The rows of a party's persons (persons, group) as `persons_of` draws them, in a secret order;
    whoever holds the records is told what became of them."""
    found = persons_of(cells, group, key)
    if not len(found):
        raise InvalidInput(
            f"no record of {name} says whose it is: a party without persons takes no part; nothing "
            "was spent"
        )
    warn_of_people(name, column or "persons", len(cells), cells, found)
    return found[secret_order(len(found), key)]


def require_same_persons(policy: Policy, unit: Unit, person: str) -> None:
    """Refuse persons by another column than the ledger counts them by: they are other groups of
    records, and what was spent on these does not add up with what was spent on those."""
    if unit is Unit.PERSON and policy.person and policy.person != person:
        said = f"by {person!r}" if person else "by ids without the name of a column"
        raise InvalidInput(
            f"the ledger of {policy.dataset} counts persons by the column {policy.person!r}, and "
            f"they are given {said}: give a frame and persons={policy.person!r}; nothing was spent"
        )


def warn_of_people(name: str, column: str, records: int, cells: Any, rows: np.ndarray) -> None:
    """Tell whoever holds the records, and nobody else, what became of them."""
    texts = list(map(owner_of, cells))
    nobody = sum(text is None for text in texts)
    if nobody:
        warnings.warn(
            f"{name}: {nobody} of {records} records do not say in {column!r} whose they are and "
            "are left out; fill them in if they should count. Nobody else is told",
            UnreadValues,
            stacklevel=2,
        )
    over = records - nobody - int(np.count_nonzero(rows != NOBODY))
    if over:
        full = np.count_nonzero(np.bincount(_counts(texts)) > rows.shape[1])
        warnings.warn(
            f"{name}: {full} of {len(rows)} persons have more than "
            f"{times(rows.shape[1], 'record')}; so many of each are drawn in secret, and {over} "
            "records are left out. A larger records_per_person would keep them. Nobody else is "
            "told",
            ClippedValues,
            stacklevel=2,
        )


def _counts(texts: Sequence[str | None]) -> np.ndarray:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts if text is not None])


__all__ = [
    "MOST_RECORDS",
    "NOBODY",
    "RECORDS_PER_PERSON",
    "THERE",
    "as_records",
    "as_rows",
    "blanked",
    "by_person",
    "drawn_persons",
    "one_of_each",
    "owner_of",
    "persons_of",
    "records_per_person",
    "require_same_persons",
    "warn_of_people",
]
