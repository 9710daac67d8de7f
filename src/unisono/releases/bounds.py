"""Sums of clipped rows, and clipped updates of whole parties.

ClippedSum      Σ over records of round(clip_C(row) / step)        one record moves it by C
ClippedUpdate   Σ over a party's shards of round(clip_C(update))   one party, or one record
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from unisono.accounting.gaussian import mu_for
from unisono.core.algorithm import Facts, SumTerms
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Sensitivity, positive
from unisono.core.trust import Relation, Unit, named
from unisono.core.values import (
    Contribution,
    clipped_sum,
    clipped_updates,
    sum_sensitivity,
    update_sensitivity,
)
from unisono.errors import InvalidInput
from unisono.releases.release import (
    IN_GRAPH_EPSILON,
    MODULUS_BITS,
    Release,
    record_terms,
    terms_of,
)

# Noise in a compiled program is proved up to 2^20 steps; a search for it looks beyond it.
_WIDEST = 2.0**18
# Float errors of norms let a sum exceed its bound by far less than this.
_FLOAT_SLACK = 1.01


def power_of_two_step(clipping_norm: float, dimension: int, terms: int) -> float:
    """So fine that rounding adds at most a thousandth to the sensitivity, unless the sum of all
    terms needs coarser steps to fit 32 bits."""
    fine = clipping_norm / (512 * math.sqrt(dimension))
    coarse = 8 * clipping_norm * terms / 2**31
    if fine >= coarse:
        return 2.0 ** math.floor(math.log2(fine))
    return 2.0 ** math.ceil(math.log2(coarse))


def power_of_two_steps(clipping_norm: float, dimension: int, terms: int) -> Iterator[float]:
    """Steps for a sum of so many terms, the finest first: that of `power_of_two_step`, and before
    it finer ones which leave noise less room in 32 bits. `price` takes the first that leaves
    enough (`sum_reach`).

    >>> list(power_of_two_steps(1.0, 1, 100)), list(power_of_two_steps(1.0, 1, 2**22))
    ([0.001953125], [0.00390625, 0.0078125, 0.015625])
    """
    last = power_of_two_step(clipping_norm, dimension, terms)
    fine = clipping_norm / (512 * math.sqrt(dimension))
    fitting = _FLOAT_SLACK * clipping_norm * terms / 2 ** (MODULUS_BITS - 1)
    first = max(math.floor(math.log2(fine)), math.ceil(math.log2(fitting)))
    exponents = range(first, round(math.log2(last)))
    yield from (2.0**exponent for exponent in exponents)
    yield last


@dataclass(frozen=True)
class ClippedSum:
    """A sum over records of rows (n, dimension), each clipped to an l2 norm and rounded on its own.

    `raw`: the rows. One record moves the sum by the clipping norm, twice that if it is replaced.
    """

    clipping_norm: float
    dimension: int
    pure: str = ""
    unit = Unit.RECORD
    whole = False
    batched = False
    in_graph = False

    def __post_init__(self) -> None:
        positive(clipping_norm=self.clipping_norm, dimension=self.dimension)

    def steps(self, release: Release, facts: Facts, privacy: Privacy) -> Iterator[float]:
        records = release.summed(facts.records, facts)
        yield from power_of_two_steps(self.clipping_norm, self.dimension, records)

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        return sum_sensitivity(
            self.clipping_norm, step, self.dimension, hides_presence=not facts.exact_sizes
        )

    def sum_bound(self, release: Release, facts: Facts, privacy: Privacy) -> float:
        return _FLOAT_SLACK * self.clipping_norm * release.summed(facts.records, facts)

    def terms(self, facts: Facts, privacy: Privacy, step: float) -> SumTerms:
        return record_terms(self, facts, privacy, step)

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, None]:
        rows = raw.reshape(len(raw), -1)
        if len(rows) != len(mask):  # or one row would count once for each record
            raise InvalidInput(f"{len(rows)} rows of {len(mask)} records: each record has one row")
        return clipped_sum(rows, self.clipping_norm, step, mask, not facts.exact_sizes), None


@dataclass(frozen=True)
class ClippedUpdate:
    """Updates (shards, dimension) of a party, each clipped as a whole, made from all of its records
    in any way. Hides the whole party (one shard), or one record, which lies in one shard.

    `raw`: the updates. What the party may remember are the clipped and rounded updates.
    """

    clipping_norm: float
    dimension: int
    unit: Unit = Unit.PARTY
    shards: int = 1
    in_graph: bool = False
    whole = True
    batched = False
    pure = ""

    def __post_init__(self) -> None:
        positive(clipping_norm=self.clipping_norm, dimension=self.dimension, shards=self.shards)
        object.__setattr__(self, "unit", named(Unit, "unit", self.unit))
        if self.unit is Unit.PERSON:
            raise InvalidInput(
                'unit = "person" of an update: it hides a record or a party; persons are hidden '
                "where the rows of a study are persons"
            )

    def steps(self, release: Release, facts: Facts, privacy: Privacy) -> Iterator[float]:
        shards = facts.parties * self.shards
        fine = power_of_two_step(self.clipping_norm, self.dimension, shards)
        if not self.in_graph:
            yield fine
            return
        # Of one round of everybody; sampling only lessens the noise that it takes.
        mu = mu_for(privacy.epsilon, privacy.delta) / math.sqrt(release.rounds)
        distance = self.clipping_norm * (2 if privacy.relation is Relation.REPLACE_ONE else 1)
        yield max(fine, 2.0 ** math.ceil(math.log2(distance / mu / _WIDEST)))

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        return update_sensitivity(self.clipping_norm, step, self.dimension, self.unit)

    def sum_bound(self, release: Release, facts: Facts, privacy: Privacy) -> float:
        return _FLOAT_SLACK * self.clipping_norm * facts.parties * self.shards

    def terms(self, facts: Facts, privacy: Privacy, step: float) -> SumTerms:
        update = update_sensitivity(self.clipping_norm, step, self.dimension, Unit.PARTY)
        number = (self.shards,) * facts.parties
        return terms_of(number, update.under(Relation.ZERO_OUT), step)

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, Any]:
        contribution, sent = clipped_updates(raw, self.clipping_norm, step, self.unit)
        return contribution, step * sent


__all__ = [
    "IN_GRAPH_EPSILON",
    "ClippedSum",
    "ClippedUpdate",
    "power_of_two_step",
    "power_of_two_steps",
]
