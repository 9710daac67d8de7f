"""Where a party's records lie in the arrays of a compiled program.

Public sizes. Records lie as they are given, padded with rows that count for nothing. A batch is the
chosen rows in order, padded to a public size.

Hidden sizes. A compiled program rounds floats by its shapes, so shapes follow from public facts
alone: a program takes a *segment* of R rows, and a party that holds more runs several segments
through the same program and adds up their integers. Records lie in a secret uniform order, without
gaps but at the end, and so do those that were chosen for a batch. How long that takes tells how
many there are.

What one record more changes. Let D hold a record r that E does not. Deal D in a uniform order, take
r out and put the last record l in its place: that is a uniform order of E, and each of them comes
from equally many orders of D. So the two worlds can be drawn together, and mixing over
orders is no more than the worst pair of them (the hockey-stick divergence is jointly convex). In
such a pair two blocks differ: r's, where l stands instead, and the last, which l has left; in exact
arithmetic the sum moves by r alone. Every other block holds the same rows in the same places of the
same program, and comes out bit by bit the same. That l is rounded in two places, and that block
sums of floats err in two blocks, is in the distance that events claim under add-or-remove.

Turns by place. Where it is public whose turn it is (`Algorithm.rows`), records lie in drawn places
of a fixed number, and those that find none are left out. An added record may then stand in another
one's place: the claim under add-or-remove is that of a replaced record.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.events import Event
from unisono.core.grant import Draw, Grant
from unisono.core.study import Study
from unisono.errors import InvalidInput

_NOBODY = -1
_LANES = 64


def segment_rows(study: Study) -> int | None:
    """How many rows reach the compiled program at once; None if all of a party's rows do."""
    algorithm, facts = study.algorithm, study.facts
    if facts.exact_sizes or algorithm.rows is not None or algorithm.whole:
        return None
    return facts.places if algorithm.batch is None else algorithm.batch(facts)


def program_rows(study: Study, records: int) -> int:
    """How many rows a party's function sees, where parties hold at most so many records."""
    if study.algorithm.batch is not None:
        return study.algorithm.batch(study.facts)
    return segment_rows(study) or padded_length(study, records)


def padded_length(study: Study, records: int) -> int:
    """To how many rows a party's columns are padded, with rows that count for nothing."""
    segment = segment_rows(study)
    if segment is None or study.algorithm.batch is not None:
        lanes = 1 if study.facts.exact_sizes else _LANES
        return max(1, -(-records // lanes)) * lanes
    return max(1, -(-records // segment)) * segment


def laid_out(
    study: Study, grant: Grant | None, columns: Sequence[Any], index: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """A party's columns as the program wants them, before padding, and which rows are real."""
    given = [np.asarray(column, np.float32) for column in columns]
    facts, records = study.facts, len(given[0])
    if study.algorithm.rows is not None:
        return _placed(study, grant, given, index)
    if not facts.exact_sizes and study.algorithm.batch is None and grant is not None:
        order = grant.order(records)
        given = [column[order] for column in given]
    return given, np.ones(records, bool)


def padded(column: np.ndarray, rows: int) -> np.ndarray:
    """A column with rows of zeros at its end."""
    if len(column) == rows:
        return column
    out = np.zeros((rows, *column.shape[1:]), column.dtype)
    out[: len(column)] = column
    return out


def _placed(
    study: Study, grant: Grant | None, columns: list[np.ndarray], index: int
) -> tuple[list[np.ndarray], np.ndarray]:
    slots, records = study.facts.places, len(columns[0])
    kept = where = np.arange(records)
    if not study.facts.exact_sizes:
        if grant is None:
            raise InvalidInput("places of hidden records are drawn from a grant: give it")
        kept, where = grant.places(records, slots)
    if records > slots:
        # Refusing would tell everybody the size; who holds the records may know.
        warnings.warn(
            f"party {index} holds {records} records, more than the {slots} places that the agreed "
            f"size leaves: {records - slots} of them, drawn by lot, are left out; agree on a "
            "larger nominal size to use them",
            stacklevel=2,
        )
    full = np.zeros(slots, bool)
    full[where] = True
    spread = []
    for column in columns:
        out = np.zeros((slots, *column.shape[1:]), np.float32)
        out[where] = column[kept]
        spread.append(out)
    return spread, full


# ------------------------------------------------------------------ batches


def chosen_rows(study: Study, draw: Draw, event: Event, records: Sequence[int]) -> list[np.ndarray]:
    """Row numbers of those whom the draw's secret coins chose, for each of its parties."""
    sizes = np.asarray(records)
    ends = np.cumsum(sizes)
    chosen = np.split(draw.sample(event.sampler, int(ends[-1])), ends[:-1])
    found = [np.flatnonzero(np.asarray(own)) for own in chosen]
    if study.facts.exact_sizes:
        return found
    # A uniform order of all of them is one of each party's, independent of the others'.
    ranks = np.split(draw.order(sum(map(len, found))), np.cumsum([len(own) for own in found])[:-1])
    return [own[np.argsort(rank)] for own, rank in zip(found, ranks, strict=True)]


def batched(study: Study, chosen: Sequence[np.ndarray]) -> np.ndarray:
    """Row numbers of several batches (batches, rows), padded to their public size; -1 is nobody.

    With public sizes, those beyond it are left out, which the event accounts for; with hidden ones
    they fill further segments of the same size.
    """
    assert study.algorithm.batch is not None
    length = size = study.algorithm.batch(study.facts)
    if segment_rows(study) is not None:
        length = max(1, -(-max(map(len, chosen)) // size)) * size
    out = np.full((len(chosen), length), _NOBODY, np.int32)
    for row, own in zip(out, chosen, strict=True):
        row[: min(length, len(own))] = own[:length]
    return out


def in_turn(study: Study, number: int) -> np.ndarray:
    """Row numbers (batch,) of whose public turn it is in round `number`."""
    assert study.algorithm.rows is not None
    return batched(study, [study.algorithm.rows(study.facts, number)])[0]


def wider(rows: np.ndarray, length: int) -> np.ndarray:
    """Row numbers (..., rows) with as many more that name nobody."""
    missing = length - rows.shape[-1]
    return np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, missing)], constant_values=_NOBODY)


def gathered(columns: Any, full: Any, rows: Any) -> tuple[Any, Any]:
    """One party's batch: its rows, and which of them count; inside a compiled program or out."""
    take = np.take if isinstance(rows, np.ndarray) else jnp.take
    mask = (rows != _NOBODY) & take(full, rows, mode="clip")
    return jax.tree.map(lambda column: take(column, rows, axis=0, mode="clip"), columns), mask
