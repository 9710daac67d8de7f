"""All parties in one process: vmapped over parties, scanned over rounds.

Ragged data are padded with rows whose mask is off, which contribute exactly zero. Noise is
drawn outside the compiled program, by the same exact integer samplers as everywhere, and
handed in as an argument; records are arguments too, so no compiled program holds data. The
secure sum is the ideal functionality: same encoding, shares and modulus as the protocol.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.algorithm import Algorithm
from unisono.core.certificate import certify
from unisono.core.costs import Cost
from unisono.core.events import Event
from unisono.core.grant import Draw, Grant, join
from unisono.core.ledger import Ledger
from unisono.core.release import (
    coins,
    noise_steps,
    party_keys,
    require_paid_for,
    server_noise,
    share_width,
)
from unisono.core.study import Party, Result, Study, require_same_kind
from unisono.core.transcript import EVERYONE, EVERYONE_AT_THE_END, Transcript
from unisono.core.trust import SERVER, Trust, Unit
from unisono.engines.batches import in_turn, numbered, tossed
from unisono.engines.checkpoint import Checkpoint
from unisono.engines.requirements import (
    asked,
    drawn_in_graph,
    require_columns,
    require_headroom,
    require_public_state,
    require_sampler_error,
)
from unisono.engines.rounds import (
    Keys,
    Stack,
    abstract_contribution,
    program,
    seen_at_first,
    stack,
)
from unisono.errors import InvalidInput

IDEAL = "ideal functionality inside one process (no network, nobody to hide from)"
# Rounds are compiled in chunks, bounded so that noise and coins of a chunk fit into memory.
_CHUNK_ROUNDS, _CHUNK_NUMBERS = 64, 2**25
# Above this many parties their noise is drawn from one joint key per round.
_JOINT_PARTIES = 64
# Single messages are kept in the transcript up to this many numbers.
_RECORDED_NUMBERS = 10**7


def run(
    study: Study, parties: Sequence[Party], *, dropouts: np.ndarray | None = None,
    progress: Callable[[int], None] | None = None,
    watch: Callable[[int, Any], None] | None = None, checkpoint: str | Path | None = None,
) -> Result:  # fmt: skip
    """Run a study: authorise at every party, then read the data, then learn.

    `dropouts` (rounds, parties) is true where a party fails to answer; a round that keeps
    fewer than the agreed minimum of survivors is not opened and leaves the model unchanged.
    With a `checkpoint` file the run authorises chunk by chunk and can be resumed after a
    crash: a chunk that was granted and not merged stays spent and gets fresh noise.

    After every chunk `progress` gets the number of rounds done, and `watch` also the result so far,
    which makes whoever watches a viewer of iterates.
    """
    require_same_kind(study, parties)
    algorithm, facts, trust = study.algorithm, study.facts, study.trust
    ledgers = [party.ledger for party in parties]
    server, state = algorithm.init(facts)
    states = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * facts.parties), state)
    saved = Checkpoint(checkpoint, study.hash) if checkpoint else None
    if saved:
        require_public_state(study, state)
        if facts.retries:
            raise InvalidInput("nothing is tried again in one process: set retries to 0")
    first = 0
    if saved and saved.exists():
        first, (server, states) = saved.load((server, states))
    todo = range(first, algorithm.rounds)
    alive = _alive(study, dropouts)
    transcript = Transcript()
    chunk: _Chunk | None = None
    if todo:
        _check(study, ledgers, todo)
    for payment in _pieces(study, todo) if saved else [todo] if todo else []:
        grants = _authorize(study, ledgers, payment)
        if chunk is None:
            columns = [p.open(grant) for p, grant in zip(parties, grants, strict=True)]
            for index, own in enumerate(columns):
                require_columns(study, index, own)
            chunk = _Chunk(study, stack(study, columns, grants), alive, ledgers[0].seed)
            held = seen_at_first(study, server)
        many = algorithm.alike and len(grants) > _JOINT_PARTIES
        joint = [join(grants)] if many else grants
        for rounds in _pieces(study, payment):
            carry, seen = chunk.run((server, states, held), joint, payment.start, rounds)
            server, states, held = carry
            _record(transcript, trust, rounds, seen)
            if saved:
                saved.save(rounds.stop, (server, states))
            if progress is not None:
                progress(rounds.stop)
            if watch is not None:
                watch(rounds.stop, _result(algorithm, server))
    value = _result(algorithm, server)
    transcript.record(algorithm.rounds, "result", value, EVERYONE_AT_THE_END)
    certificate = certify(
        study, {party.name: party.ledger for party in parties}, ledgers[0].accountant,
        secure_sum=IDEAL if trust is Trust.SECURE_SUM else "",
    )  # fmt: skip
    return Result(value, certificate, transcript)


def _result(algorithm: Algorithm, server: Any) -> Any:
    return jax.tree.map(np.asarray, algorithm.result(server))


def _check(study: Study, ledgers: Sequence[Ledger], todo: range) -> None:
    """Refuse before anything is spent if one party cannot pay for all that is left."""
    if study.algorithm.alike:
        Ledger.check_all(ledgers, _cost(study, todo))
        return
    for ledger, cost in zip(ledgers, study.costs, strict=True):
        ledger.check(cost)


def _authorize(study: Study, ledgers: Sequence[Ledger], rounds: range) -> list[Grant]:
    """One grant for each party: for these rounds, or for its own turns in the whole run."""
    algorithm, facts = study.algorithm, study.facts
    purpose = f"study {study.hash[:16]}"
    if algorithm.alike:
        return Ledger.authorize_all(
            ledgers, _cost(study, rounds), len(rounds) * algorithm.steps, purpose
        )
    return [
        ledger.authorize(cost, algorithm.turns(facts, party) * algorithm.steps, purpose)
        for party, (ledger, cost) in enumerate(zip(ledgers, study.costs, strict=True))
    ]


def _cost(study: Study, rounds: range) -> Cost:
    """What these rounds cost; a whole run includes its retries, as on every engine."""
    whole = len(rounds) == study.algorithm.rounds
    return study.algorithm.cost(study.facts, study.trust, None if whole else len(rounds))


class _Chunk:
    """What stays the same from one chunk of rounds to the next."""

    def __init__(self, study: Study, data: Stack, alive: np.ndarray, seed: int | None) -> None:
        algorithm, facts, trust = study.algorithm, study.facts, study.trust
        # Records are handed to the compiled program's device once, not with every chunk.
        self.study, self.alive = study, alive
        self.data = Stack(tuple(jnp.asarray(array) for array in data.arrays), data.real)
        self.records = data.real.sum(axis=1)
        self.grid = algorithm.grid(facts, trust)
        require_headroom(study)
        self.asked = asked(study)
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
        self.compiled = program(study, self.grid, recorded, remembered)

    def run(self, carry: Any, grants: Sequence[Grant], offset: int, rounds: range) -> Any:
        """Rounds of one chunk, whose draws in these grants begin at round `offset`."""
        masks, noise, takes = self._draw(grants, offset, rounds)
        central = np.zeros(len(rounds), np.int32)
        if self.server_noise is not None:
            drawn = [self.server_noise(number, self.shape) for number in rounds]
            central = np.stack(drawn).astype(np.int32)
        alive, turn = (table[rounds.start : rounds.stop] for table in (self.alive, self.asked))
        inputs = (masks, noise, takes, central, alive & turn, turn)
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
        jobs = []
        turns = np.cumsum(self.asked, axis=0) - self.asked
        for row, number in enumerate(rounds):
            for column, grant in enumerate(grants):
                if not self.asked[number, column]:
                    continue
                mine = slice(column * share, (column + 1) * share)
                event = algorithm.event_of(facts, study.trust, column, number)
                first = (turns[number, column] - turns[offset, column]) * steps
                for step in range(steps):
                    draw = grant.draw(int(first) + step, study_hash)
                    rows, part = self._chosen(draw, event, mine, number)
                    masks[row, step, mine] = rows
                    takes[row, mine] &= part
                    jobs.append((row, step, mine, event, draw.take(event)))
        if study.trust is not Trust.TRUSTED_SERVER:
            self._fill(noise, jobs)
        return masks, noise, takes

    def _empty(self, rounds: int) -> tuple[np.ndarray, Any]:
        """Where masks or row numbers, and noise or keys, of a chunk are written."""
        study, steps = self.study, self.study.algorithm.steps
        real, batch = self.data.real, study.algorithm.batch
        masks = np.zeros((rounds, steps, *real.shape), bool)
        if batch is not None:
            masks = np.full((rounds, steps, len(real), batch(study.facts)), -1, np.int32)
        if study.trust is Trust.TRUSTED_SERVER:
            return masks, np.zeros((rounds, steps, len(real), *[1] * len(self.shape)), np.int32)
        if self.in_graph:
            words = np.zeros((rounds, steps, len(real), 8), np.uint32)
            return masks, Keys(words, np.ones((rounds, steps, len(real)), np.float32))
        return masks, np.zeros((rounds, steps, len(real), *self.shape), np.int32)

    def _chosen(self, draw: Draw, event: Event, mine: slice, number: int) -> tuple[Any, Any]:
        """Masks or row numbers of the parties of one draw, and whether they contribute."""
        study, real = self.study, self.data.real[mine]
        if study.algorithm.rows is not None:
            return in_turn(study, number), True
        if event.sensitivity.unit is Unit.PARTY and len(real) > 1:
            return real, draw.sample(event.sampler, len(real))
        if study.algorithm.batch is not None:
            records = int(self.records[mine][0])
            return numbered(study, tossed(study, draw, event, records, len(real))), True
        rows = np.zeros_like(real)
        chosen, part = coins(draw, event, int(real.sum()))
        rows[real] = chosen
        return rows, part

    def _fill(self, noise: Any, jobs: list[tuple[int, int, slice, Event, bytes]]) -> None:
        """Every job's noise, drawn here by exact samplers, or the keys to draw it in the graph."""
        study, facts = self.study, self.study.facts
        honest = facts.honest if study.trust is Trust.SECURE_SUM else 1
        if self.in_graph:
            for row, step, mine, event, key in jobs:
                noise.words[row, step, mine] = party_keys(key, mine.stop - mine.start)
                noise.width[row, step, mine] = share_width(event, self.grid, honest)
            return

        def fill(job: tuple[int, int, slice, Event, bytes]) -> None:
            row, step, mine, event, key = job
            count = mine.stop - mine.start
            shape = (count, *self.shape) if count > 1 else self.shape
            drawn = noise_steps(key, event, self.grid, shape, honest, self.shape)
            noise[row, step, mine] = drawn.astype(np.int32)

        if len(self.data.real) <= _JOINT_PARTIES:
            for job in jobs:
                fill(job)
        else:  # large arrays release the interpreter's lock: one thread per core
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(fill, jobs))


def _pieces(study: Study, rounds: range) -> list[range]:
    """Chunks of rounds whose noise and coins fit into memory together."""
    rows = max(study.facts.records) * 2
    if study.algorithm.batch is not None:
        rows = study.algorithm.batch(study.facts) + study.facts.places // 8
    per_round = study.facts.parties * rows * study.algorithm.steps
    length = max(1, min(_CHUNK_ROUNDS, _CHUNK_NUMBERS // per_round))
    # A last piece of another length would be compiled anew: prefer a length that divides evenly.
    even = (n for n in range(length, length // 2, -1) if len(rounds) % n == 0)
    length = next(even, length)
    return [
        range(a, min(a + length, rounds.stop)) for a in range(rounds.start, rounds.stop, length)
    ]


def _alive(study: Study, dropouts: np.ndarray | None) -> np.ndarray:
    alive = np.ones((study.algorithm.rounds, study.facts.parties), bool)
    if dropouts is None:
        return alive
    if np.shape(dropouts) != alive.shape:
        raise InvalidInput(
            f"dropouts of shape {np.shape(dropouts)} where the study has {alive.shape}: "
            "give one row per round and one column per party"
        )
    return ~np.asarray(dropouts, bool)


def _record(transcript: Transcript, trust: Trust, rounds: range, seen: Any) -> None:
    if seen is None:  # too much to keep
        return
    publics, values, totals = jax.tree.map(np.asarray, seen)
    for row, number in enumerate(rounds):
        public = jax.tree.map(lambda leaf, r=row: leaf[r], publics)
        transcript.record(number, "public", public, EVERYONE)
        if values is not None:
            transcript.record(number, "messages", values[row], frozenset({SERVER}))
        transcript.record(number, "sum", totals[row], EVERYONE)
