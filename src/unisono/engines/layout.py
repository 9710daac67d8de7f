"""Where a party's records lie in the arrays of a compiled program.

A compiled program rounds floats by its shapes, and may round a row by its place. So shapes follow
from public facts alone, and nobody's place depends on who else is there, as far as that can be.

Public sizes. All records lie as they are given. Those that were chosen for a batch get secret
places, drawn evenly among more than there are of them (a uniform order of them in a uniform subset
of places): whether one of them takes part leaves all others where they lie. (The chance that a
batch is larger than its places is part of the event.)

Hidden sizes. A program takes a *segment* of R rows. Records come in a secret uniform order; they
fill segments, and what is left over gets secret places, drawn evenly, in a last segment. All go
through the same program, and their integers are added up. How long that takes tells how many
there are.

What one record more changes. Let D hold a record r that E does not. If r lies in the last segment,
take it out: its place is empty, all others lie as they did, and that is how E would be drawn. If it
lies in one that is full, let l, drawn evenly from the last segment, take its place: that is how E
would be drawn, and each outcome comes from equally many of D. So the two worlds can be drawn
together, and mixing over what is drawn is no more than the worst pair (the hockey-stick divergence
is jointly convex). Of such a pair one block differs, by r, or two: r's, where l stands instead, and
the one that l has left; in exact arithmetic the sum moves by r alone. Every other block holds the
same rows in the same places of the same program, and comes out bit by bit the same.

Of all records, as many as were agreed fill one segment, and nobody ever moves; of a secret sample,
fewer than one in ten take a second one (`releases.release.segment_size`: a segment with room for
every batch would be a third empty, and cost as much as a full one). There l is computed in two
places, and this rests on programs that treat all places alike, which those of multiples of 64 rows
do (tested for every algorithm and for networks of usual sizes; others have a remainder that is
summed in another order). Events pay for l being rounded the other way and for errors of two blocks,
always.

Turns by place. Where it is public whose turn it is (`rows`), records lie in drawn places
of a fixed number, and those that find none are left out. An added record may then stand in another
one's place: the claim under add-or-remove is that of a replaced record.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.events import Event
from unisono.core.grant import Draw, Grant, chosen_together, places_together
from unisono.core.study import Study

_NOBODY = -1
_LANES = 64
_ALIGNMENT = 64  # bytes
# So many rows are drawn at once: their words stay in the second-level cache.
_TOGETHER = 1 << 16


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


def spread(order: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """Which record lies in which row, -1 where none does: full segments of `size` rows in this
    order, and what is left over in these places of a last one.

    >>> spread(np.array([4, 0, 2, 1, 3]), np.array([1, 0]), 2).tolist()
    [4, 0, 2, 1, -1, 3]
    """
    rows = np.full(max(1, -(-len(order) // size)) * size, _NOBODY, np.int32)
    _put(rows, order, places, size)
    return rows


def _put(rows: np.ndarray, order: np.ndarray, places: np.ndarray, size: int) -> None:
    """As `spread`, into rows that name nobody yet."""
    full = len(order) // size * size
    rows[:full] = order[:full]
    rows[full:][places[: len(order) - full]] = order[full:]


def laid_out(
    study: Study, grant: Grant | None, columns: Sequence[Any], index: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """A party's columns as the program wants them, before padding, and which rows are real."""
    given = [np.asarray(column, np.float32) for column in columns]
    facts, records = study.facts, len(given[0])
    by_turns = study.algorithm.rows is not None
    if by_turns and records > facts.places:
        # Refusing would tell everybody the size; who holds the records may know.
        warnings.warn(
            f"party {index} holds {records} records, more than the {facts.places} places that the "
            f"agreed size leaves: {records - facts.places} of them, drawn by lot, are left out; "
            "agree on a larger nominal size to use them",
            stacklevel=2,
        )
    size = facts.places if by_turns else segment_rows(study)
    if facts.exact_sizes or size is None or (study.algorithm.batch and not by_turns):
        length = facts.places if by_turns else max(records, 1)
        return [padded(column, length) for column in given], np.arange(length) < records
    order, places = np.arange(records), np.arange(size)
    if grant is not None:  # without one the records are an auditor's own, and need no secret
        order, places = grant.order(records), grant.places(size)
    rows = spread(order[: size if by_turns else None], places, size)
    real = rows != _NOBODY
    return [_dealt(column, rows, real) for column in given], real


def _dealt(column: np.ndarray, rows: np.ndarray, real: np.ndarray) -> np.ndarray:
    out = np.zeros((len(rows), *column.shape[1:]), column.dtype)
    out[real] = column[rows[real]]
    return out


def padded(column: np.ndarray, rows: int) -> np.ndarray:
    """A column with rows of zeros at its end."""
    if len(column) == rows:
        return column
    out = np.zeros((rows, *column.shape[1:]), column.dtype)
    out[: len(column)] = column
    return out


def stacked(parts: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """Columns of all parties (parties, rows, ...), with rows of zeros at their ends.

    They begin where JAX wants arrays to begin, which then uses them as they are: the records are
    copied once.
    """
    shape, dtype = (len(parts), rows, *parts[0].shape[1:]), parts[0].dtype
    size = math.prod(shape) * dtype.itemsize
    memory = np.zeros(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    out = memory[first : first + size].view(dtype).reshape(shape)
    for place, part in zip(out, parts, strict=True):
        place[: len(part)] = part
    return out


# ------------------------------------------------------------------ batches


def chosen_rows(study: Study, draw: Draw, event: Event, records: Sequence[int]) -> np.ndarray:
    """Row numbers (parties, rows) of those whom the draw's secret coins chose, in secret places.

    With public sizes, those beyond the places of a batch are left out, which the event accounts
    for; with hidden ones they fill further segments.
    """
    assert study.algorithm.batch is not None
    size = study.algorithm.batch(study.facts)
    chosen = _by_party(study, draw.chosen(event.sampler, int(sum(records))), records)
    places = draw.places(size, len(records))
    found = [spread(own, slots, size) for own, slots in zip(chosen, places, strict=True)]
    out = np.full((len(found), max(map(len, found))), _NOBODY, np.int32)
    for row, own in zip(out, found, strict=True):
        row[: len(own)] = own
    return out


def chosen_in_turns(study: Study, draws: Sequence[Draw], event: Event, records: int) -> np.ndarray:
    """The `chosen_rows` (draws, rows) of one party in many draws, in less time than one by one."""
    assert study.algorithm.batch is not None
    size = study.algorithm.batch(study.facts)
    together = max(1, _TOGETHER // size)
    chosen: list[np.ndarray] = []
    places: list[np.ndarray] = []
    for first in range(0, len(draws), together):
        some = draws[first : first + together]
        sampled = chosen_together(some, event.sampler, records)
        chosen += [_by_party(study, own, [records])[0] for own in sampled]
        places += [*places_together(some, size)]
    segments = max(1, -(-max(map(len, chosen)) // size))
    out = np.full((len(chosen), segments * size), _NOBODY, np.int32)
    for row, own, slots in zip(out, chosen, places, strict=True):
        _put(row, own, slots, size)
    return out


def _by_party(study: Study, everyone: np.ndarray, records: Sequence[int]) -> list[np.ndarray]:
    """Each party's own of all that were chosen, numbered from its first, as far as there are
    places. In the order of all: where that is uniform, so is each party's, independently."""
    assert study.algorithm.batch is not None
    most = study.algorithm.batch(study.facts) if segment_rows(study) is None else None
    if len(records) == 1:
        return [everyone[:most]]
    ends = np.cumsum(records)
    party = ends.searchsorted(everyone, side="right")
    sorted_by_party = everyone[np.argsort(party, kind="stable")]
    cuts = np.cumsum(np.bincount(party, minlength=len(ends)))
    parts = np.split(sorted_by_party, cuts[:-1])
    return [(part - end + own)[:most] for part, end, own in zip(parts, ends, records, strict=True)]


def batch_width(study: Study) -> int:
    """How many row numbers a batch is given in a compiled program: where sizes are hidden two
    segments, as a program of one would be compiled anew for the first batch that takes another."""
    assert study.algorithm.batch is not None
    segments = 1 if segment_rows(study) is None or study.algorithm.named is not None else 2
    return segments * study.algorithm.batch(study.facts)


def batched(study: Study, chosen: Sequence[np.ndarray]) -> np.ndarray:
    """Row numbers of several batches (batches, rows) in the given order, padded with -1."""
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
    if not missing:
        return rows
    return np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, missing)], constant_values=_NOBODY)


def gathered(columns: Any, full: Any, rows: Any) -> tuple[Any, Any]:
    """One party's batch: its rows, and which of them count; inside a compiled program or out."""
    take = np.take if isinstance(rows, np.ndarray) else jnp.take
    mask = (rows != _NOBODY) & take(full, rows, mode="clip")
    return jax.tree.map(lambda column: take(column, rows, axis=0, mode="clip"), columns), mask
