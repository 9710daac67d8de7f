"""Records as people hold them: one data set or several, as any pytree of arrays.

Everything that can be refused is refused here, on the party's own screen, before anything is spent.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unisono.core.values import require_finite
from unisono.data.people import as_rows, blanked
from unisono.errors import InvalidInput
from unisono.estimators.members import Membership, membership

# Above this, neighbouring whole numbers are the same 32-bit float.
_LARGEST_WHOLE = 2**24


class Collected(NamedTuple):
    """Each party's arrays, in the order of the names, and the structure of one record."""

    members: Membership
    columns: list[tuple[np.ndarray, ...]]
    structure: Any

    @property
    def features(self) -> int:
        """How many numbers the first array of a record has."""
        return int(np.prod(self.columns[0][0].shape[1:]))

    def by_persons(self, people: Sequence[np.ndarray]) -> list[tuple[np.ndarray, ...]]:
        """The same arrays with a row for each person, (persons, k, ...), NaN where it has fewer
        records; `people` are the places of their records, as `persons_at` draws them."""

        def rows(columns: tuple[np.ndarray, ...], own: np.ndarray) -> tuple[np.ndarray, ...]:
            flat = tuple(column[own.reshape(-1)] for column in columns)
            if own.shape[1] == 1:
                return tuple(blanked(column, own[:, 0] >= 0) for column in flat)
            return as_rows(flat, own >= 0)[: len(flat)]

        return [rows(columns, own) for columns, own in zip(self.columns, people, strict=True)]


class Counted(NamedTuple):
    """Parties, and how many persons each of them holds."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]


def collect(records: Any, parties: Any) -> Collected:
    """Parties and their arrays: a list holds one entry for each party, all else is one data set."""
    if isinstance(records, list):
        return _listed(records, parties)
    columns, structure = _columns(records, "records")
    members = membership(parties, len(columns[0]))
    own = [tuple(column[rows] for column in columns) for rows in members.rows]
    return Collected(members, own, structure)


def _listed(records: Sequence[Any], names: Any) -> Collected:
    labels = [f"party {number}" for number in range(1, len(records) + 1)]
    if names is not None:
        labels = [str(name) for name in names]
    if not records or len(labels) != len(records) or len(set(labels)) < len(labels):
        raise InvalidInput(
            f"{len(records)} parties' records and {len(labels)} names: give one data set for each "
            "party, and to each party a name of its own"
        )
    found = [_columns(own, name) for own, name in zip(records, labels, strict=True)]
    kinds = {(structure, tuple(c.shape[1:] for c in columns)) for columns, structure in found}
    if len(kinds) > 1:
        raise InvalidInput(
            "the parties' records have different shapes: a list holds one entry per party, all "
            "alike; the columns of a single data set go into a tuple"
        )
    cuts = np.cumsum([len(columns[0]) for columns, _ in found])
    members = Membership(tuple(labels), tuple(np.split(np.arange(cuts[-1]), cuts[:-1])))
    return Collected(members, [columns for columns, _ in found], found[0][1])


def _columns(records: Any, name: str) -> tuple[tuple[np.ndarray, ...], Any]:
    """The arrays of a pytree, as float32, and its structure."""
    import jax

    leaves, structure = jax.tree.flatten(records)
    columns = tuple(_column(leaf, name) for leaf in leaves)
    lengths = [len(column) for column in columns]
    if not lengths or min(lengths) == 0:
        raise InvalidInput(
            f"{name} holds no records: an empty party cannot take part; leave it out of the study"
        )
    if min(lengths) < max(lengths):
        raise InvalidInput(
            f"{name} has columns of {lengths} rows: row i of every column belongs to record i, so "
            "give rows and labels of the same length; nothing was spent"
        )
    return columns, structure


def _column(leaf: Any, name: str) -> np.ndarray:
    array = np.asarray(leaf)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise InvalidInput(
            f"{name} has a column of type {array.dtype} and shape {array.shape}: records are "
            "numbers, one row for each; encode categories by a public list"
        )
    if array.dtype.kind in "iu" and array.size and np.abs(array).max() > _LARGEST_WHOLE:
        raise InvalidInput(
            f"{name} has whole numbers beyond {_LARGEST_WHOLE}, which 32-bit floats cannot tell "
            "apart: number categories from 0, or scale by a public range"
        )
    with np.errstate(over="ignore"):
        column = array.astype(np.float32)
    if not np.isfinite(column).all():
        require_finite(column, name)
    return column


__all__ = ["Collected", "Counted", "collect"]
