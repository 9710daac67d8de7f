"""Limits of sums: what records, bounds and noise allow, held against every sum that has its noise.

A party can send any integers, and masks hide them. The sum shows more: if all parties keep to the
protocol, then in quantization steps, for the parties that answered,

    number n_p of terms of party p,  N = Σ n_p     (records, updates, weights of minimizers)
    N low - r  <=  every number  <=  N high + r    r: how far the noise of one number reaches
    l1 or l2 norm of the vector  <=  N length + R  R: how far the norm of all noise reaches

(`SumTerms`, `NoiseReach`). In a Poisson sample N is replaced by its own tail. Limits are public and
only values that have their noise are compared: a refusal is post-processing of a release and has
no privacy cost. Sums are residues modulo 2^32, read as the integers nearest to zero.

An honest run of one stage is refused with a probability of at most `FALSE_ALARMS`, by the union
bound over numbers, norms, parties, rounds and retries; a thousand stages stay below 1e-9.

A sum within its limits may still be false: a party that breaks the protocol can move it by about
the bound of all records together. Larger changes are refused. The sum does not show which party
caused them, unless the server sees the parties' values one by one (trust LOCAL).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from unisono.core.events import Event, Poisson
from unisono.core.study import Study
from unisono.core.trust import Trust, Unit
from unisono.errors import SumRefused, UnknownEvent
from unisono.mechanisms import mechanism_of
from unisono.mechanisms.mechanism import NoiseReach

# Probability that any sum of an honest stage is refused.
FALSE_ALARMS = 1e-12
# Sums of squares in doubles err by less.
_FLOAT_SLACK = 1 + 1e-9


class SumLimits(NamedTuple):
    """Between which limits the numbers (dimension,) of a sum lie, and how long it may be; in
    quantization steps of `step`."""

    low: Any
    high: Any
    l1: float
    l2: float
    step: float

    def fault(self, total: np.ndarray) -> str:
        """What is beyond the limits, in words; empty where nothing is."""
        if total.dtype.kind not in "iu":
            return f"it holds numbers of type {total.dtype} where parties add integers"
        flat = total.reshape(-1).astype(np.float64)
        if np.ndim(self.low) and np.size(self.low) != flat.size:
            return f"it holds {flat.size} numbers where {np.size(self.low)} belong"
        beyond = np.maximum(flat - self.high, self.low - flat)
        worst = int(np.argmax(beyond)) if flat.size else 0
        if flat.size and beyond[worst] > 0:
            ends = [float(np.broadcast_to(end, flat.shape)[worst]) for end in (self.low, self.high)]
            low, high = (f"{end * self.step:.6g}" for end in ends)
            return (
                f"number {worst + 1} of {flat.size} is {flat[worst] * self.step:.6g}, but records, "
                f"bounds and noise allow {low} to {high}"
            )
        norms = ("l1", float(np.abs(flat).sum()), self.l1), ("l2", _norm(flat), self.l2)
        for name, size, limit in norms:
            if size > limit * _FLOAT_SLACK:
                return (
                    f"its {name} norm is {size * self.step:.6g}, but records, bounds and noise "
                    f"allow {limit * self.step:.6g}"
                )
        return ""

    def hold(self, totals: np.ndarray) -> bool:
        """Whether all of several sums (sums, ...) of integers are within the limits."""
        flat = totals.reshape(len(totals), -1).astype(np.float64)
        if np.any(flat > self.high) or np.any(flat < self.low):
            return False
        lengths = np.sqrt(np.sum(flat * flat, axis=1)) if math.isfinite(self.l2) else np.zeros(1)
        sums = np.sum(np.abs(flat), axis=1) if math.isfinite(self.l1) else np.zeros(1)
        return bool(
            lengths.max() <= self.l2 * _FLOAT_SLACK and sums.max() <= self.l1 * _FLOAT_SLACK
        )

    def summary_fault(self, low: float, high: float, l2: float, dimension: int) -> str:
        """As `fault`, of a sum that is known by its least and its largest number and its l2 norm,
        in 32-bit floats: where sums are too large to be kept."""
        slack = 1 + (dimension + 64) * 2.0**-24
        ends = np.array([math.floor(low / slack), math.ceil(high / slack)], np.int64)
        widest = SumLimits(np.min(self.low), np.max(self.high), math.inf, math.inf, self.step)
        if l2 > self.l2 * slack:
            return (
                f"its l2 norm is {l2 * self.step:.6g}, but records, bounds and noise allow "
                f"{self.l2 * self.step:.6g}"
            )
        return widest.fault(ends)


def _norm(flat: np.ndarray) -> float:
    return float(np.sqrt(np.sum(flat * flat)))


class StudyLimits:
    """The limits of every sum of one study."""

    def __init__(self, study: Study) -> None:
        self.study = study
        algorithm, facts = study.algorithm, study.facts
        self._step = algorithm.inner.grid if algorithm.inner else algorithm.grid(facts, study.trust)
        # Where parties' values are seen one by one, each is looked at, and their sum.
        vectors = facts.parties + 1 if study.trust is Trust.LOCAL else 1
        self._chance = FALSE_ALARMS / (max(1, facts.attempts(algorithm.rounds)) * vectors)
        self._limits = lru_cache(maxsize=32)(self._made)

    def of(self, parties: Sequence[int], number: int, dimension: int) -> SumLimits:
        """The limits of the sum of these parties in round `number`."""
        algorithm, facts, trust = self.study.algorithm, self.study.facts, self.study.trust
        events = [algorithm.event_of(facts, trust, party, number) for party in parties]
        widest = max(events, key=lambda event: event.noise.size)
        return self._limits(tuple(sorted(parties)), widest, dimension)

    def fault(self, total: np.ndarray, parties: Sequence[int], number: int) -> str:
        """What is wrong with the sum of these parties in round `number`, in words, if anything;
        where messages are kept apart, with one of them."""
        if not len(parties):
            return ""
        if self.study.algorithm.combine == "each":
            rows = [(party, self.fault_of(total[party], party, number)) for party in parties]
            return next((f"party {party}: {words}" for party, words in rows if words), "")
        return self.of(parties, number, total.size).fault(total)

    def require(
        self, totals: np.ndarray, parties: Sequence[int], numbers: Sequence[int], what: str
    ) -> None:
        """Refuse one of several sums of these parties, in rounds of the same noise."""
        each = self.study.algorithm.combine == "each" and len(parties) > 1
        if not each and self.of(parties, numbers[0], totals[0].size).hold(totals):
            return
        for total, number in zip(totals, numbers, strict=True):
            fault = (
                self.fault(total, parties, number)
                if each
                else self.of(parties, number, total.size).fault(total)
            )
            if fault:
                raise refused(number, what, fault, len(parties) == 1)

    def fault_of(self, value: np.ndarray, party: int, number: int) -> str:
        """What is wrong with one party's value that has all of its noise (trust LOCAL)."""
        return self.of([party], number, value.size).fault(value)

    def _made(self, parties: tuple[int, ...], event: Event, dimension: int) -> SumLimits:
        terms = self.study.algorithm.terms
        number = _most(sum(terms.number[party] for party in parties), event, self._chance / 2)
        noise = self._noise(len(parties), event, dimension)
        each, l1, l2 = (far / self._step for far in noise)
        return SumLimits(
            number * terms.low - each,
            number * terms.high + each,
            number * terms.l1 + l1,
            number * terms.l2 + l2,
            self._step,
        )

    def _noise(self, parties: int, event: Event, dimension: int) -> NoiseReach:
        """How far the noise in a sum of so many parties reaches."""
        facts, trust = self.study.facts, self.study.trust
        if self.study.algorithm.inner is not None:  # reports are cut to their range, noise included
            return NoiseReach(0.0)
        shares, drawn = {
            Trust.LOCAL: (float(parties), parties),
            Trust.SECURE_SUM: (parties / facts.honest, parties),
            Trust.TRUSTED_SERVER: (1.0, 1),
        }[trust]
        reach = mechanism_of(event.noise).reach
        if reach is None:
            raise UnknownEvent(
                f"how far {type(event.noise).__name__} noise reaches is not known: sums with it "
                "cannot be held against limits"
            )
        return reach(event.noise, shares, drawn, self._step, dimension, self._chance / 2)


def _most(number: float, event: Event, probability: float) -> float:
    """So many terms are in a sum at most, but for `probability`: in a Poisson sample of n records
    at rate q no more than n q + t, t² = 2 L (n q (1 - q) + t / 3), L = log(1 / probability), by
    Bernstein's inequality."""
    sampler = event.sampler
    if not isinstance(sampler, Poisson) or event.sensitivity.unit is Unit.PARTY:
        return number
    tail = math.log(1 / probability)
    variance = number * sampler.rate * (1 - sampler.rate)
    more = tail / 3 + math.sqrt(tail**2 / 9 + 2 * variance * tail)
    return min(number, number * sampler.rate + more)


def refused(number: int, what: str, fault: str, single: bool = False) -> SumRefused:
    """The error of a sum, or of a `single` party's value, that is refused in round `number`."""
    who = "that party" if single else "at least one party"
    unnamed = "" if single else "; the sum does not show which one"
    return SumRefused(
        f"Round {number + 1}: {what} is refused: {fault}.\n"
        f"Honest parties cause this with probability below {FALSE_ALARMS:g}: {who} broke the "
        f"protocol or has a fault{unnamed}.\n"
        "The round stays charged. Ask the parties to check their software and their records before "
        "you agree on a new study."
    )


__all__ = ["FALSE_ALARMS", "StudyLimits", "SumLimits", "refused"]
