"""Records that arrive as small batches: places, coins for every place, and padded row numbers.

Coins are tossed for places, full or empty, and a batch is the chosen places in order. Whether a
place is full changes nothing else about the batch: every other record keeps its position in it,
and so the way its floats are rounded (X-1).
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.events import Event
from unisono.core.grant import Draw, Grant
from unisono.core.study import Study
from unisono.errors import InvalidInput

_NOBODY = -1


def placed(
    study: Study, grant: Grant | None, columns: Any, index: int
) -> tuple[list[np.ndarray], Any]:
    """A party's columns in their places, and which places are full."""
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
        out = np.zeros((slots, *np.shape(column)[1:]), np.float32)
        out[where] = np.asarray(column)[kept]
        spread.append(out)
    return spread, full


def tossed(study: Study, draw: Draw, event: Event, records: int, parties: int = 1) -> np.ndarray:
    """Which places are chosen: (parties, places)."""
    slots = study.facts.places
    units = records if study.facts.exact_sizes and parties == 1 else slots
    chosen = np.zeros((parties, slots), bool)
    chosen[:, :units] = draw.sample(event.sampler, parties * units).reshape(parties, units)
    return chosen


def numbered(study: Study, chosen: np.ndarray) -> np.ndarray:
    """Row numbers of the chosen places, (..., places) -> (..., batch); -1 where there is none."""
    assert study.algorithm.batch is not None
    size = study.algorithm.batch(study.facts)
    flat = chosen.reshape(-1, chosen.shape[-1])
    rows = np.full((len(flat), size), _NOBODY, np.int32)
    for own, row in zip(flat, rows, strict=True):
        found = np.flatnonzero(own)[:size]
        row[: len(found)] = found
    return rows.reshape(*chosen.shape[:-1], size)


def in_turn(study: Study, number: int) -> np.ndarray:
    """Row numbers (batch,) of whose public turn it is in round `number`."""
    assert study.algorithm.rows is not None
    assert study.algorithm.batch is not None
    rows = np.full(study.algorithm.batch(study.facts), _NOBODY, np.int32)
    named = study.algorithm.rows(study.facts, number)
    rows[: len(named)] = named
    return rows


def gathered(columns: Any, full: Any, rows: Any) -> tuple[Any, Any]:
    """One party's batch: its rows, and which of them count; inside a compiled program."""
    mask = (rows != _NOBODY) & jnp.take(full, rows, mode="clip")
    return jax.tree.map(lambda column: jnp.take(column, rows, axis=0, mode="clip"), columns), mask
