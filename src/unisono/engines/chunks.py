"""A chunk of rounds: draws in, compiled rounds, what was seen out.

Noise and coins are drawn here, outside the compiled program, by the same exact samplers as
everywhere; records, noise and coins are arguments of it, so no compiled program holds data.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import jax
import numpy as np

from unisono.core.events import Event
from unisono.core.grant import Draw, Grant, take_together
from unisono.core.in_graph import share_width
from unisono.core.kinds import Everyone
from unisono.core.release import (
    coins,
    inside_noise,
    noise_steps,
    party_keys,
    require_paid_for,
    server_noise,
)
from unisono.core.study import Study
from unisono.core.trust import Trust, Unit
from unisono.engines.layout import (
    batch_width,
    chosen_in_turns,
    chosen_rows,
    in_turn,
    wider,
)
from unisono.engines.record_order import answered, schedule_of
from unisono.engines.requirements import (
    drawn_in_graph,
    require_headroom,
    require_sampler_error,
)
from unisono.engines.rounds import (
    Keys,
    Stack,
    Twofold,
    abstract_contribution,
    program,
    told,
)

# Rounds are compiled in chunks, bounded so that noise and coins of a chunk fit into memory.
_CHUNK_ROUNDS, _CHUNK_NUMBERS = 64, 2**25
# Where one record is looked at in a round, there are many short rounds.
_CHUNK_NAMED = 4096
# Above this many parties their noise is drawn from one joint key per round.
JOINT_PARTIES = 64
# Single messages are kept in the transcript up to this many numbers.
_RECORDED_NUMBERS = 10**7
# Noise to be drawn: of a round, a step in it and some parties, for an event, with a key.
_Job = tuple[int, int, slice, Event, bytes]


class Chunk:
    """What stays the same from one chunk of rounds to the next."""

    def __init__(
        self,
        study: Study,
        data: Stack,
        alive: np.ndarray,
        seed: int | None,
        order: np.ndarray | None = None,
        summed: bool = False,
    ) -> None:
        algorithm, facts, trust = study.algorithm, study.facts, study.trust
        # Records are handed to the compiled program's device once, not with every chunk, and used
        # where they lie if that device is the processor itself (`layout.stacked`).
        self.study = study
        self.data = Stack(tuple(jax.device_put(array) for array in data.arrays), data.real)
        self.records = data.real.sum(axis=1)
        self.grid = algorithm.grid(facts, trust)
        require_headroom(study)
        self.asked, _, self.named_rows = schedule_of(study, order)
        # Who is silent because of the order makes no noise; whoever drops out has made it.
        works = self.asked & answered(study, order)[:, None]
        self.alive, self.works = alive & works, works
        self._turns: np.ndarray | None = None
        contribution = abstract_contribution(study, data)
        dimension = int(np.prod(contribution.value.shape))
        for event in algorithm.events(facts, trust):
            require_paid_for(contribution, event, self.grid)
            require_sampler_error(study, event, dimension)
        self.in_graph = drawn_in_graph(study)
        self.shape = tuple(contribution.value.shape)
        self.sizes = np.asarray(facts.records, np.float32)
        self.server_noise = None
        if trust is Trust.TRUSTED_SERVER:
            self.server_noise = server_noise(algorithm, facts, trust, seed)
        remembered = algorithm.rounds * dimension <= _RECORDED_NUMBERS
        every = algorithm.rounds * facts.parties * dimension <= _RECORDED_NUMBERS
        recorded = trust is not Trust.SECURE_SUM and every
        self.recorded, self.remembered = recorded, remembered
        self.compiled = program(study, self.grid, recorded, remembered, summed)

    def told(self, public: Any, values: Any, opened_sum: Any) -> Any:
        """What is remembered of a round."""
        return told(self.recorded, self.remembered, public, values, opened_sum)

    def run(self, carry: Any, grants: Sequence[Grant], offset: int, rounds: range) -> Any:
        """Rounds of one chunk, whose draws in these grants begin at round `offset`."""
        masks, noise, takes = self._draw(grants, offset, rounds)
        central = np.zeros(len(rounds), np.int32)
        if self.server_noise is not None:
            drawn = [self.server_noise(number, self.shape) for number in rounds]
            central = np.stack(drawn).astype(np.int32)
        alive, turn = (table[rounds.start : rounds.stop] for table in (self.alive, self.asked))
        inputs = (masks, noise, takes, central, alive, turn)
        return self.compiled(carry, tuple(self.data), self.sizes, inputs)

    def _draw(
        self, grants: Sequence[Grant], offset: int, rounds: range
    ) -> tuple[np.ndarray, Any, np.ndarray]:
        """Row masks (rounds, steps, parties, n) or row numbers of batches, noise in grid steps
        (rounds, steps, parties, ...) or its keys, and which parties contribute (rounds, parties).
        """
        study, algorithm, facts = self.study, self.study.algorithm, self.study.facts
        steps, parties = algorithm.steps, len(self.data.real)
        takes = np.ones((len(rounds), parties), bool)
        share = parties // len(grants)  # parties per grant: 1, or all of them
        study_hash = study.hash.encode()
        masks, noise = self._empty(len(rounds))
        jobs: list[_Job] = []
        works = self.works[:, : len(grants)]
        if self._turns is None:  # how often each has worked before: every run has as many grants
            self._turns = np.cumsum(works, axis=0) - works
        turns = self._turns
        if self._samples_batches and share == 1:
            for party, grant in enumerate(grants):
                masks, own = self._draw_batches(masks, grant, party, offset, rounds)
                jobs += own
            works = np.zeros_like(works)
        for row, column in np.argwhere(works[rounds.start : rounds.stop]).tolist():
            number, grant = rounds[row], grants[column]
            mine = slice(column * share, (column + 1) * share)
            event = algorithm.event_of(facts, study.trust, column, number)
            first = (turns[number, column] - turns[offset, column]) * algorithm.draws
            if algorithm.inside is not None:
                drawn = grant.draw(int(first), study_hash)
                noise.inside[row, 0, mine] = inside_noise(drawn, algorithm.inside, share)
                first += 1
            named = None if self.named_rows is None else int(self.named_rows[number])
            for step in range(steps):
                draw = grant.draw(int(first) + step, study_hash, named)
                rows, part = self._chosen(draw, event, mine, number)
                if rows.shape[-1] > masks.shape[-1]:  # a batch of several segments
                    masks = wider(masks, rows.shape[-1])
                masks[row, step, mine, ..., : rows.shape[-1]] = rows
                takes[row, mine] &= part
                jobs.append((row, step, mine, event, draw.take(event)))
        if study.trust is not Trust.TRUSTED_SERVER:
            self._fill(noise, jobs)
        return masks, noise, takes

    def _draw_batches(
        self, masks: np.ndarray, grant: Grant, party: int, offset: int, rounds: range
    ) -> tuple[np.ndarray, list[_Job]]:
        """Row numbers with the batches of one party in all rounds in which it works, and the keys
        of their noise: drawn together, as each by itself takes longer than a small model's step."""
        study, algorithm, turns = self.study, self.study.algorithm, self._turns
        assert turns is not None
        rows = np.flatnonzero(self.works[rounds.start : rounds.stop, party])
        firsts = (turns[rounds.start + rows, party] - turns[offset, party]) * algorithm.draws
        places = [(row, step) for row in rows.tolist() for step in range(algorithm.steps)]
        indices = (firsts[:, None] + np.arange(algorithm.steps)).reshape(-1).tolist()
        draws = grant.draws(indices, study.hash.encode())
        sampled: dict[Event, list[int]] = {}
        for at, (row, _) in enumerate(places):
            event = algorithm.event_of(study.facts, study.trust, party, rounds[row])
            sampled.setdefault(event, []).append(at)
        mine, jobs = slice(party, party + 1), []
        for event, own in sampled.items():
            some = [draws[at] for at in own]
            found = chosen_in_turns(study, some, event, int(self.records[party]))
            masks = wider(masks, max(masks.shape[-1], found.shape[1]))
            in_row, in_step = np.array([places[at] for at in own]).T
            masks[in_row, in_step, party, : found.shape[1]] = found
            keys = take_together(some, event)
            jobs += [(*places[at], mine, event, key) for at, key in zip(own, keys, strict=True)]
        return masks, jobs

    def _empty(self, rounds: int) -> tuple[np.ndarray, Any]:
        """Where masks or row numbers, and noise or keys, of a chunk are written."""
        study, steps = self.study, self.study.algorithm.steps
        real, batch = self.data.real, study.algorithm.batch
        masks = np.zeros((rounds, steps, *real.shape), bool)
        if batch is not None:
            masks = np.full((rounds, steps, len(real), batch_width(study)), -1, np.int32)
        if study.trust is Trust.TRUSTED_SERVER:
            return masks, np.zeros((rounds, steps, len(real), *[1] * len(self.shape)), np.int32)
        if self.in_graph:
            words = np.zeros((rounds, steps, len(real), 8), np.uint32)
            return masks, Keys(words, np.ones((rounds, steps, len(real)), np.float32))
        noise = np.zeros((rounds, steps, len(real), *self.shape), np.int32)
        if study.algorithm.inside is None:
            return masks, noise
        shape = study.algorithm.inside.shape
        return masks, Twofold(np.zeros((rounds, steps, len(real), *shape), np.int32), noise)

    @property
    def _samples_batches(self) -> bool:
        """Whether a party's records are sampled into batches, round by round."""
        algorithm = self.study.algorithm
        return algorithm.batch is not None and algorithm.rows is None and self.named_rows is None

    def _chosen(self, draw: Draw, event: Event, mine: slice, number: int) -> tuple[Any, Any]:
        """Masks or row numbers of the parties of one draw, and whether they contribute."""
        study, real = self.study, self.data.real[mine]
        if draw.record is not None:
            return np.array([draw.record], np.int32), True
        if study.algorithm.rows is not None:
            return in_turn(study, number), True
        if event.sensitivity.unit is Unit.PARTY and len(real) > 1:
            return real, draw.sample(event.sampler, len(real))
        if study.algorithm.batch is not None:
            return chosen_rows(study, draw, event, self.records[mine]), True
        if isinstance(event.sampler, Everyone):
            return real, True
        chosen, part = coins(draw, event, int(self.records[mine].sum()))
        rows = np.zeros_like(real)
        rows[real] = chosen
        return rows, part

    def _fill(self, noise: Any, jobs: list[_Job]) -> None:
        """Every job's noise, drawn here by exact samplers, or the keys to draw it in the graph."""
        study, facts = self.study, self.study.facts
        honest = facts.honest if study.trust is Trust.SECURE_SUM else 1
        noise = noise.release if isinstance(noise, Twofold) else noise
        if self.in_graph:
            width = cache(lambda event: share_width(event, self.grid, honest))
            for row, step, mine, event, key in jobs:
                noise.words[row, step, mine] = party_keys(key, mine.stop - mine.start)
                noise.width[row, step, mine] = width(event)
            return

        def fill(job: _Job) -> None:
            row, step, mine, event, key = job
            count = mine.stop - mine.start
            shape = (count, *self.shape) if count > 1 else self.shape
            noise[row, step, mine] = noise_steps(key, event, self.grid, shape, honest, self.shape)

        if len(self.data.real) <= JOINT_PARTIES:
            for job in jobs:
                fill(job)
        else:  # large arrays release the interpreter's lock: one thread per core
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(fill, jobs))


def pieces(study: Study, rounds: range) -> list[range]:
    """Chunks of rounds whose noise and coins fit into memory together."""
    rows = max(study.facts.records) * 2
    if study.algorithm.batch is not None:
        rows = study.algorithm.batch(study.facts) + study.facts.places // 8
    per_round = study.facts.parties * rows * study.algorithm.steps
    most = _CHUNK_ROUNDS if study.algorithm.named is None else _CHUNK_NAMED
    length = max(1, min(most, _CHUNK_NUMBERS // per_round))
    # A last piece of another length would be compiled anew: prefer a length that divides evenly.
    even = (n for n in range(length, length // 2, -1) if len(rounds) % n == 0)
    length = next(even, length)
    return [
        range(a, min(a + length, rounds.stop)) for a in range(rounds.start, rounds.stop, length)
    ]


__all__ = ["JOINT_PARTIES", "Chunk", "pieces"]
