"""Records that a coordinator names one by one: its order, and the rounds that come of it.

The order is drawn by whoever coordinates, with OS entropy, and stays there: a party is told the row
of its own record in the rounds in which it is asked, and nothing in others. It is no secret that
the promise rests on: parties count how often each of their records was named, and are silent
beyond the agreed number of uses (`core.algorithm.Named`).
"""

import hashlib
import os

import numpy as np

from unisono.core.algorithm import Schedule
from unisono.core.noise import Keystream
from unisono.core.noise.subset import choices
from unisono.core.study import Study
from unisono.engines.requirements import asked
from unisono.errors import InvalidInput


def draw_order(study: Study, seed: int | None = None) -> np.ndarray:
    """The coordinator's order (rounds,): records 0 .. n-1 as the parties hold them one after the
    other, independent and exactly uniform; a seed makes it a simulation's."""
    key = os.urandom(32)
    if seed is not None:
        key = hashlib.sha256(f"simulation {seed}: order of {study.hash}".encode()).digest()
    return choices(Keystream(key), sum(study.facts.records), study.algorithm.rounds)


def order_of(study: Study, order: np.ndarray | None, seed: int | None = None) -> np.ndarray | None:
    """The order of a study: as given, or drawn; None where nobody names records."""
    if study.algorithm.named is None:
        if order is not None:
            raise InvalidInput(
                f"an order for {study.algorithm.name}, in which nobody names records: leave it out"
            )
        return None
    return draw_order(study, seed) if order is None else _require_order(study, order)


def _require_order(study: Study, order: np.ndarray) -> np.ndarray:
    names, records = np.asarray(order), sum(study.facts.records)
    if names.shape != (study.algorithm.rounds,) or names.dtype.kind not in "iu":
        raise InvalidInput(
            f"an order of shape {names.shape} and type {names.dtype} for {study.algorithm.rounds} "
            "steps: give one whole number for each"
        )
    if names.min() < 0 or names.max() >= records:
        raise InvalidInput(
            f"the order names records from {names.min()} to {names.max()}, outside 0 .. "
            f"{records - 1}: name records that exist"
        )
    return names


def schedule_of(study: Study, order: np.ndarray | None) -> Schedule:
    """Who is asked when: by the order, where records are named; else as the study says."""
    if order is None:
        return Schedule(asked(study))
    ends = np.cumsum(study.facts.records)
    owners = np.searchsorted(ends, order, side="right")
    rows = order - (ends - study.facts.records)[owners]
    return Schedule(owners[:, None] == np.arange(len(ends)), rows=rows)


def answered(study: Study, order: np.ndarray | None) -> np.ndarray:
    """In which rounds (rounds,) the parties that are asked answer, as far as it is up to the order:
    where records are named, as long as the record has uses left."""
    if order is None or study.algorithm.named is None:
        return np.ones(study.algorithm.rounds, bool)
    return times_used_before(order) < study.algorithm.named.uses


def times_used_before(names: np.ndarray) -> np.ndarray:
    """How often each step's record was named before it: what its owner counts.

    >>> times_used_before(np.array([3, 1, 3, 3, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    by_record = np.argsort(names, kind="stable")
    ordered = names[by_record]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    starts = np.maximum.accumulate(np.where(first, np.arange(len(names)), 0))
    counts = np.empty(len(names), np.int64)
    counts[by_record] = np.arange(len(names)) - starts
    return counts


def assumed_schedule(study: Study) -> Schedule:
    """Who is asked when, as audits assume it: where records are named, by a coordinator who is
    after the first one, and names each as often as its owner answers, one after the other."""
    if study.algorithm.named is None:
        return schedule_of(study, None)
    steps = np.arange(study.algorithm.rounds) // study.algorithm.named.uses
    return schedule_of(study, steps % sum(study.facts.records))


__all__ = [
    "answered",
    "assumed_schedule",
    "draw_order",
    "order_of",
    "schedule_of",
    "times_used_before",
]
