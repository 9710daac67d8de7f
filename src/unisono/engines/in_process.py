"""All parties in one process: vmapped over parties, scanned over rounds.

Ragged data are padded with rows whose mask is off, which contribute exactly zero. Noise is
drawn outside the compiled program, by the same exact integer samplers as everywhere, and
handed in as an argument; records are arguments too, so no compiled program holds data. The
secure sum is the ideal functionality: same encoding, shares and modulus as the protocol.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.algorithm import Aggregate
from unisono.core.certificate import certify
from unisono.core.grant import Grant, join
from unisono.core.ledger import Ledger
from unisono.core.release import noise_steps, require_paid_for, server_noise
from unisono.core.study import Party, Result, Study, require_same_kind
from unisono.core.transcript import EVERYONE, EVERYONE_AT_THE_END, Transcript
from unisono.core.trust import SERVER, Trust
from unisono.core.values import Contribution
from unisono.engines.checkpoint import Checkpoint
from unisono.engines.requirements import require_columns, require_headroom
from unisono.errors import InvalidInput

jax.tree_util.register_dataclass(
    Contribution, data_fields=["value", "valid"], meta_fields=["grid", "sensitivity"]
)

IDEAL = "ideal functionality inside one process (no network, nobody to hide from)"
# Rounds are compiled in chunks, bounded so that noise and coins of a chunk fit into memory.
_CHUNK_ROUNDS, _CHUNK_NUMBERS = 64, 2**25
# Above this many parties their noise is drawn from one joint key per round.
_JOINT_PARTIES = 64
# Single messages are kept in the transcript up to this many numbers.
_RECORDED_NUMBERS = 10**7


class Stack(NamedTuple):
    """All parties' arrays, padded to (parties, most records, ...), and which rows are real."""

    arrays: tuple[Any, ...]
    real: np.ndarray


def stack(columns: Sequence[tuple[np.ndarray, ...]]) -> Stack:
    """Pad ragged parties with zero rows."""
    sizes = np.array([len(party[0]) for party in columns])
    most = int(sizes.max())
    arrays = []
    for position in range(len(columns[0])):
        parts = [np.asarray(party[position], np.float32) for party in columns]
        if (sizes == most).all():
            arrays.append(np.stack(parts))
            continue
        padded = np.zeros((len(parts), most, *parts[0].shape[1:]), np.float32)
        for row, part in zip(padded, parts, strict=True):
            row[: len(part)] = part
        arrays.append(padded)
    return Stack(tuple(arrays), np.arange(most)[None, :] < sizes[:, None])


def run(
    study: Study, parties: Sequence[Party], *, dropouts: np.ndarray | None = None,
    progress: Callable[[int], None] | None = None, checkpoint: str | Path | None = None,
) -> Result:  # fmt: skip
    """Run a study: authorise at every party, then read the data, then learn.

    `dropouts` (rounds, parties) is true where a party fails to answer; a round that keeps
    fewer than the agreed minimum of survivors is not opened and leaves the model unchanged.
    With a `checkpoint` file the run authorises chunk by chunk and can be resumed after a
    crash: a chunk that was granted and not merged stays spent and gets fresh noise.
    """
    require_same_kind(study, parties)
    algorithm, facts, trust = study.algorithm, study.facts, study.trust
    ledgers = [party.ledger for party in parties]
    server, state = algorithm.init(facts)
    states = jax.tree.map(lambda leaf: jnp.stack([leaf] * facts.parties), state)
    saved = Checkpoint(checkpoint, study.hash) if checkpoint else None
    first = 0
    if saved and saved.exists():
        first, (server, states) = saved.load((server, states))
    todo = range(first, algorithm.rounds)
    if todo:
        Ledger.check_all(ledgers, algorithm.cost(facts, trust, len(todo)))

    alive = _alive(study, dropouts)
    transcript = Transcript()
    chunk: _Chunk | None = None
    for payment in _pieces(study, todo) if saved else [todo] if todo else []:
        cost = algorithm.cost(facts, trust, len(payment))
        grants = Ledger.authorize_all(ledgers, cost, len(payment), f"study {study.hash[:16]}")
        if chunk is None:
            columns = [p.open(grant) for p, grant in zip(parties, grants, strict=True)]
            for index, own in enumerate(columns):
                require_columns(study, index, own)
            chunk = _Chunk(study, stack(columns), alive, ledgers[0].seed)
        joint = [join(grants)] if len(grants) > _JOINT_PARTIES else grants
        for rounds in _pieces(study, payment):
            (server, states), seen = chunk.run(server, states, joint, payment.start, rounds)
            _record(transcript, trust, rounds, seen)
            if saved:
                saved.save(rounds.stop, (server, states))
            if progress is not None:
                progress(rounds.stop)
    value = jax.tree.map(np.asarray, algorithm.result(server))
    transcript.record(algorithm.rounds, "result", value, EVERYONE_AT_THE_END)
    certificate = certify(
        study, {party.name: party.ledger for party in parties}, ledgers[0].accountant,
        secure_sum=IDEAL if trust is Trust.SECURE_SUM else "",
    )  # fmt: skip
    return Result(value, certificate, transcript)


class _Chunk:
    """What stays the same from one chunk of rounds to the next."""

    def __init__(self, study: Study, data: Stack, alive: np.ndarray, seed: int | None) -> None:
        algorithm, facts, trust = study.algorithm, study.facts, study.trust
        self.study, self.data, self.alive = study, data, alive
        self.event, self.grid = algorithm.event(facts, trust), algorithm.grid(facts, trust)
        require_headroom(study)
        contribution = _abstract_contribution(study, data)
        require_paid_for(contribution, self.event, self.grid)
        self.shape = tuple(contribution.value.shape)
        self.sizes = np.asarray(facts.records, np.float32)
        self.server_noise = None
        if trust is Trust.TRUSTED_SERVER:
            self.server_noise = server_noise(algorithm, facts, trust, seed)
        numbers = algorithm.rounds * facts.parties * int(np.prod(self.shape))
        recorded = trust is not Trust.SECURE_SUM and numbers <= _RECORDED_NUMBERS
        self.program = _program(study, self.grid, recorded)

    def run(
        self, server: Any, states: Any, grants: Sequence[Grant], offset: int, rounds: range
    ) -> Any:
        """Rounds of one chunk, whose draws in these grants begin at round `offset`."""
        masks, noise = self._draw(grants, offset, rounds)
        central = np.zeros((len(rounds), *self.shape), np.int64)
        if self.server_noise is not None:
            central = np.stack([self.server_noise(number, self.shape) for number in rounds])
        alive = self.alive[rounds.start : rounds.stop]
        inputs = (masks, noise, central.astype(np.int32), alive)
        return self.program(server, states, self.data.arrays, self.sizes, inputs)

    def _draw(
        self, grants: Sequence[Grant], offset: int, rounds: range
    ) -> tuple[np.ndarray, np.ndarray]:
        """Row masks (rounds, parties, n) and noise in grid steps (rounds, parties, ...)."""
        study, real = self.study, self.data.real
        honest = study.facts.honest if study.trust is Trust.SECURE_SUM else 1
        sampler, silent = study.algorithm.sampler, study.trust is Trust.TRUSTED_SERVER
        noise = np.zeros((len(rounds), len(real), *self.shape), np.int32)
        masks = np.zeros((len(rounds), *real.shape), bool)
        share = len(real) // len(grants)  # parties per grant: 1, or all of them
        shape = (share, *self.shape) if share > 1 else self.shape
        study_hash = study.hash.encode()

        def fill(row: int, mine: slice, key: bytes) -> None:
            steps = noise_steps(key, self.event, self.grid, shape, honest, self.shape)
            noise[row, mine] = steps.astype(np.int32)

        jobs = []
        for row, number in enumerate(rounds):
            for column, grant in enumerate(grants):
                mine = slice(column * share, (column + 1) * share)
                draw = grant.draw(number - offset, study_hash)
                chosen = real[mine]
                masks[row, mine][chosen] = draw.sample(sampler, int(chosen.sum()))
                jobs.append((row, mine, draw.take(self.event)))
        if silent:
            return masks, noise
        if share == 1:
            for job in jobs:
                fill(*job)
        else:  # large arrays release the interpreter's lock: one thread per core
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(lambda job: fill(*job), jobs))
        return masks, noise


def _program(study: Study, grid: float, recorded: bool) -> Callable[..., Any]:
    """One compiled scan over a chunk of rounds."""
    algorithm, minimum = study.algorithm, study.facts.minimum_survivors

    def one_round(data: Any, sizes: Any, carry: Any, inputs: Any) -> Any:
        server, states = carry
        masks, noise, central, alive = inputs
        public = algorithm.ask(server)
        local = partial(algorithm.local, study.facts)
        after, contributions = jax.vmap(local, in_axes=(None, 0, 0, 0))(public, states, data, masks)
        alive = jnp.logical_and(alive, contributions.valid)
        survivors = jnp.sum(alive)
        opened = survivors >= minimum
        # int32 sums wrap modulo 2^32, exactly as the secure sum's integers do.
        values = contributions.value + noise
        arrived = jnp.where(alive.reshape(-1, *[1] * (values.ndim - 1)), values, 0)
        total = jnp.sum(arrived, axis=0, dtype=jnp.int32) + central
        aggregate = Aggregate(total * grid, survivors, jnp.sum(jnp.where(alive, sizes, 0.0)))
        merged = algorithm.merge(server, aggregate)
        server = jax.tree.map(lambda new, old: jnp.where(opened, new, old), merged, server)
        states = jax.vmap(algorithm.settle)(after, jnp.logical_and(alive, opened))
        seen = (public, values if recorded else None, jnp.where(opened, total, 0))
        return (server, states), seen

    @jax.jit
    def chunk(server: Any, states: Any, data: Any, sizes: Any, inputs: Any) -> Any:
        return jax.lax.scan(partial(one_round, data, sizes), (server, states), inputs)

    return chunk


def _pieces(study: Study, rounds: range) -> list[range]:
    """Chunks of rounds whose noise and coins fit into memory together."""
    per_round = study.facts.parties * max(study.facts.records) * 2
    length = max(1, min(_CHUNK_ROUNDS, _CHUNK_NUMBERS // per_round))
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


def _abstract_contribution(study: Study, data: Stack) -> Contribution:
    """One party's contribution as shapes and bounds, without computing it."""
    algorithm = study.algorithm
    server, state = algorithm.init(study.facts)
    one = tuple(jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in data.arrays)
    mask = jax.ShapeDtypeStruct(data.real.shape[1:], bool)
    local = partial(algorithm.local, study.facts)
    _, contribution = jax.eval_shape(local, algorithm.ask(server), state, one, mask)
    return contribution


def _record(transcript: Transcript, trust: Trust, rounds: range, seen: Any) -> None:
    publics, values, totals = jax.tree.map(np.asarray, seen)
    for row, number in enumerate(rounds):
        public = jax.tree.map(lambda leaf, r=row: leaf[r], publics)
        transcript.record(number, "public", public, EVERYONE)
        if values is not None:
            transcript.record(number, "messages", values[row], frozenset({SERVER}))
        transcript.record(number, "sum", totals[row], EVERYONE)
