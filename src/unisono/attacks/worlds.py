"""Two neighbouring worlds of a study, found by trying, and an audit of the study in them.

Extreme records are put in the victim's place one after the other. Along transcripts of runs without
the victim it is worked out what each would add, u_t(a) at round t, and the two with the largest

    average over runs of  Σ_t |u_t(a) - u_t(b)|²

make the worlds (with zero-out and add-or-remove, b is "nobody"). Fresh runs of both are scored by
their likelihood ratio (`attacks.likelihood`) and audited. Whatever was chosen before, the audit's
confidence holds: none of those runs is used again.

Viewer: whoever sees every opened sum and works together with as many parties as the noise allows
for. Under local noise these are all others; in a secure sum, all but the honest survivors. They
know their own noise, and are silent in the replay. Party 0 is attacked.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from unisono.attacks.audit import MINIMUM_RUNS, Audit, audit
from unisono.attacks.likelihood import AttackLikelihood
from unisono.attacks.replay import Replay
from unisono.attacks.trade_off import Family, audited_epsilon, curve_refuted, noise_family
from unisono.core.events import Event
from unisono.core.study import Study
from unisono.core.trust import ITERATES, Relation, Trust, Unit
from unisono.engines.layout import padded_length
from unisono.engines.rounds import Stack
from unisono.errors import InvalidInput

Columns = tuple[np.ndarray, ...]
# Runs that are made at once: few, so that looking for neighbours takes little of the time.
_TOGETHER = 25


class WorldPair(NamedTuple):
    """Two neighbours, as stacked records."""

    inside: Stack
    outside: Stack
    distance: float  # what the victim moves all rounds by, on average and squared, in value units


class AuditEffort(NamedTuple):
    """At most so many runs in each world, and about so many seconds."""

    runs: int = 4000
    seconds: float = 60.0
    confidence: float = 0.999


@dataclass(frozen=True)
class AuditFinding:
    """An audit, and the family of curves that its errors are held against (None for delta 0)."""

    audit: Audit
    family: Family | None

    @property
    def curve_refuted(self) -> bool:
        """Whether the claimed curve is refuted: quick, and all that an alarm needs."""
        return self.family is not None and curve_refuted(self.audit, self.family)

    @cached_property
    def epsilon_family(self) -> float | None:
        """Model-based: the claimed mechanism with another amount of noise."""
        return None if self.family is None else audited_epsilon(self.audit, self.family)

    @property
    def epsilon(self) -> float:
        """The largest lower bound."""
        return max(self.audit.epsilon_direct, self.epsilon_family or 0.0)


Progress = Callable[[str, int, int], None]


def attacker(study: Study) -> AttackLikelihood:
    """Whoever attacks party 0: its first record, or all of it where parties are protected."""
    facts = study.facts
    loud = facts.honest if study.trust is Trust.SECURE_SUM else 1
    replay = Replay(study, silent=range(loud, facts.parties), together=_TOGETHER)
    unit = study.algorithm.event(facts, study.trust).sensitivity.unit
    held = max(facts.records) if study.algorithm.rows is None else facts.places
    victim = np.zeros((facts.parties, padded_length(study, held)), bool)
    victim[0, slice(facts.records[0]) if unit is Unit.PARTY else 0] = True
    return AttackLikelihood(replay, victim)


def find_pair(
    attack: AttackLikelihood,
    base: Sequence[Columns],
    extremes: Columns,
    relation: Relation,
    seed: int,
    progress: Progress | None = None,
) -> WorldPair:
    """The two neighbours among the extremes (k rows of every column) that differ most."""
    start = attack.replay.world(base)
    nobody = Stack(start.arrays, start.real & ~attack.victim)
    worlds = [
        Stack(with_victim(start.arrays, attack.victim, record), start.real)
        for record in zip(*extremes, strict=True)
    ] + ([] if relation is Relation.REPLACE_ONE else [nobody])
    seen, secret = next(attack.replay.batches(nobody, 1, seed))
    added = []
    for number, world in enumerate(worlds):
        added.append(attack.clean(world, seen, secret).astype(float) * attack.replay.unit)
        if progress is not None:
            progress("looking for neighbours", number + 1, len(worlds))

    def distance(pair: tuple[int, int]) -> float:
        return float(np.sum((added[pair[0]] - added[pair[1]]) ** 2) / len(seen))

    last = len(worlds) - 1
    pairs = [(a, last) for a in range(last)]
    if relation is Relation.REPLACE_ONE:
        pairs = [(a, b) for a in range(len(worlds)) for b in range(a)]
    first, second = max(pairs, key=distance)
    if not distance((first, second)) > 0:
        raise InvalidInput(
            "no extreme record changes what is seen: the study ignores its data, or the public "
            "bounds leave it nothing to see"
        )
    return WorldPair(worlds[first], worlds[second], distance((first, second)))


def audit_pair(
    attack: AttackLikelihood,
    pair: WorldPair,
    relation: Relation,
    delta: float,
    effort: AuditEffort,
    seed: int,
    progress: Progress | None = None,
    fault: Callable[[Event], Event] | None = None,
) -> AuditFinding:
    """Fresh runs of both worlds, scored and audited."""
    keys = [int(key) for key in np.random.SeedSequence(seed).generate_state(2, np.uint64)]
    streams = [
        attack.scores(world, pair.inside, pair.outside, effort.runs, key, fault)
        for world, key in zip((pair.inside, pair.outside), keys, strict=True)
    ]
    found: list[list[np.ndarray]] = [[], []]
    done, begin = 0, time.monotonic()
    while done < effort.runs:
        for own, stream in zip(found, streams, strict=True):
            own.append(next(stream))
        done += len(found[0][-1])
        if progress is not None:
            progress("runs in each world", min(done, effort.runs), effort.runs)
        # When to stop depends on the clock and never on the scores.
        late = (time.monotonic() - begin) * (done + len(found[0][-1])) / done > effort.seconds
        if late and done >= MINIMUM_RUNS:
            break
    inside, outside = (np.concatenate(parts)[: effort.runs] for parts in found)
    result = audit(inside, outside, delta, effort.confidence)
    history = attack.replay.study.costs[0][ITERATES]
    return AuditFinding(result, noise_family(history, relation) if delta > 0 else None)


def with_victim(
    arrays: Sequence[np.ndarray], victim: np.ndarray, record: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """The same records with one of these values in the victim's places."""
    changed = [np.array(array) for array in arrays]
    for array, value in zip(changed, record, strict=True):
        array[victim] = value
    return tuple(changed)
