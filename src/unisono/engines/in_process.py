"""All parties in one process: vmapped over parties, scanned over rounds.

Ragged data are padded with rows whose mask is off, which contribute exactly zero. Noise is
drawn outside the compiled program, by the same exact integer samplers as everywhere, and
handed in as an argument; records are arguments too, so no compiled program holds data. The
secure sum is the ideal functionality: same encoding, shares and modulus as the protocol.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.algorithm import Aggregate, Algorithm
from unisono.core.certificate import certify
from unisono.core.events import Event
from unisono.core.grant import Grant
from unisono.core.release import noise_steps, server_noise
from unisono.core.study import Party, Result, Study, require_same_kind
from unisono.core.transcript import EVERYONE, EVERYONE_AT_THE_END, Transcript
from unisono.core.trust import SERVER, Trust
from unisono.core.values import Contribution
from unisono.errors import InvalidInput

jax.tree_util.register_dataclass(
    Contribution, data_fields=["value"], meta_fields=["grid", "sensitivity"]
)

IDEAL = "ideal functionality inside one process (no network, nobody to hide from)"
_MODULUS_BITS = 32
_CHUNK = 64


class Stack(NamedTuple):
    """All parties' arrays, padded to (parties, most records, ...), and which rows are real."""

    arrays: tuple[Any, ...]
    real: Any


def stack(columns: Sequence[tuple[np.ndarray, ...]]) -> Stack:
    """Pad ragged parties with zero rows."""
    most = max(len(party[0]) for party in columns)
    arrays = []
    for position in range(len(columns[0])):
        parts = [np.asarray(party[position], np.float32) for party in columns]
        padded = np.zeros((len(parts), most, *parts[0].shape[1:]), np.float32)
        for row, part in zip(padded, parts, strict=True):
            row[: len(part)] = part
        arrays.append(padded)
    sizes = np.array([len(party[0]) for party in columns])
    return Stack(tuple(arrays), np.arange(most)[None, :] < sizes[:, None])


def run(
    study: Study, parties: Sequence[Party], *, dropouts: np.ndarray | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:  # fmt: skip
    """Run a study: authorise at every party, then read the data, then learn.

    `dropouts` (rounds, parties) is true where a party fails to answer; a round that keeps
    fewer than the agreed minimum of survivors is not opened and leaves the model unchanged.
    """
    simulated = require_same_kind(study, parties)
    algorithm, facts, trust = study.algorithm, study.facts, study.trust
    for party in parties:
        party.ledger.check(study.cost)
    grants = [
        party.ledger.authorize(study.cost, algorithm.rounds, purpose=f"study {study.hash[:16]}")
        for party in parties
    ]
    columns = [party.data.open(grant) for party, grant in zip(parties, grants, strict=True)]
    require_shapes(study, columns)
    event, grid = algorithm.event(facts, trust), algorithm.grid(facts, trust)
    require_headroom(study, event, grid)
    data = stack(columns)
    sizes = jnp.asarray(facts.records, jnp.float32)
    server, party_state = algorithm.init(facts)
    party_states = jax.tree.map(lambda leaf: jnp.stack([leaf] * facts.parties), party_state)
    alive = np.ones((algorithm.rounds, facts.parties), bool)
    if dropouts is not None:
        alive &= ~np.asarray(dropouts, bool).reshape(alive.shape)

    transcript = Transcript()
    shape = contribution_shape(algorithm, server, party_state, data)
    central = _central_noise(study, simulated)
    program = _program(algorithm, grid, facts.minimum_survivors)
    for start in range(0, algorithm.rounds, _CHUNK):
        rounds = range(start, min(start + _CHUNK, algorithm.rounds))
        noise, masks = _randomness(study, event, grid, grants, rounds, shape, data)
        (server, party_states), seen = program(
            server, party_states, data.arrays, sizes, masks, noise,
            np.stack([central(number, shape) for number in rounds]).astype(np.int32),
            alive[rounds.start : rounds.stop],
        )  # fmt: skip
        _record(transcript, trust, rounds, seen)
        if progress is not None:
            progress(rounds.stop)
    value = np.asarray(algorithm.result(server))
    transcript.record(algorithm.rounds, "result", value, EVERYONE_AT_THE_END)
    certificate = certify(
        study, {party.name: party.ledger for party in parties}, parties[0].ledger.accountant,
        secure_sum=IDEAL if trust is Trust.SECURE_SUM else "",
    )  # fmt: skip
    return Result(value, certificate, transcript)


def _program(algorithm: Algorithm, grid: float, minimum: int) -> Callable[..., Any]:
    """One compiled scan over a chunk of rounds."""

    def one_round(data: Any, sizes: Any, carry: Any, inputs: Any) -> Any:
        server, states = carry
        masks, noise, central, alive = inputs
        public = algorithm.ask(server)
        after, contributions = jax.vmap(algorithm.local, in_axes=(None, 0, 0, 0))(
            public, states, data, masks
        )
        survivors = jnp.sum(alive)
        opened = survivors >= minimum
        # int32 sums wrap modulo 2^32, exactly as the secure sum's integers do.
        values = contributions.value + noise
        arrived = jnp.where(alive[:, None], values, 0)
        total = jnp.sum(arrived, axis=0, dtype=jnp.int32) + central
        aggregate = Aggregate(total * grid, survivors, jnp.sum(jnp.where(alive, sizes, 0.0)))
        merged = algorithm.merge(server, aggregate)
        server = jax.tree.map(lambda new, old: jnp.where(opened, new, old), merged, server)
        accepted = jnp.logical_and(alive, opened)
        states = jax.vmap(algorithm.settle)(after, accepted)
        return (server, states), (public, values, jnp.where(opened, total, 0))

    @jax.jit
    def chunk(server: Any, states: Any, data: Any, sizes: Any, *inputs: Any) -> Any:
        return jax.lax.scan(partial(one_round, data, sizes), (server, states), inputs)

    return chunk


def _central_noise(study: Study, simulated: bool) -> Callable[[int, tuple[int, ...]], np.ndarray]:
    """What a trusted server adds to each sum; nothing where the parties add noise."""
    if study.trust is Trust.TRUSTED_SERVER:
        return server_noise(study.algorithm, study.facts, study.trust, simulated)
    return lambda number, shape: np.zeros(shape, np.int64)


def _randomness(
    study: Study, event: Event, grid: float, grants: Sequence[Grant], rounds: range,
    shape: tuple[int, ...], data: Stack,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Noise (rounds, parties, d) in grid steps and row masks (rounds, parties, n)."""
    sampler, trust = study.algorithm.sampler, study.trust
    honest = study.facts.honest if trust is Trust.SECURE_SUM else 1
    real = np.asarray(data.real)
    noise = np.zeros((len(rounds), len(grants), *shape), np.int64)
    masks = np.zeros((len(rounds), *real.shape), bool)
    for row, number in enumerate(rounds):
        for column, grant in enumerate(grants):
            draw = grant.draw(number, study.hash.encode())
            coins = draw.sample(sampler, int(real[column].sum()))
            masks[row, column, : len(coins)] = coins
            key = draw.take(event)
            if trust is not Trust.TRUSTED_SERVER:
                noise[row, column] = noise_steps(key, event, grid, shape, honest)
    return noise.astype(np.int32), masks


def contribution_shape(
    algorithm: Algorithm, server: Any, party: Any, data: Stack
) -> tuple[int, ...]:
    """The shape of one party's contribution, without computing it."""
    one = tuple(jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in data.arrays)
    mask = jax.ShapeDtypeStruct(data.real.shape[1:], bool)
    _, contribution = jax.eval_shape(algorithm.local, algorithm.ask(server), party, one, mask)
    return tuple(contribution.value.shape)


def require_shapes(study: Study, columns: Sequence[tuple[np.ndarray, ...]]) -> None:
    """Widths, and sizes where they are exact, are public facts: refuse what does not fit."""
    for index, (party, promised) in enumerate(zip(columns, study.facts.records, strict=True)):
        rows, width = np.shape(party[0])
        fits = rows == promised or not study.facts.exact_sizes
        if not fits or width != study.facts.features:
            raise InvalidInput(
                f"party {index} holds {rows} records of {width} features; the study says "
                f"{promised} of {study.facts.features}: agree on the public sizes first"
            )


def require_headroom(study: Study, event: Event, grid: float) -> None:
    """The sum of all contributions and noises must fit the modulus, by public bounds."""
    per_record = event.sensitivity.zero_out
    assert per_record is not None
    records = sum(study.facts.records)
    std = getattr(event.noise, "std", getattr(event.noise, "scale", 0.0))
    parties = study.facts.parties
    tail = 12 * std * (parties / study.facts.honest) ** 0.5
    tail *= parties**0.5 if study.trust is Trust.LOCAL else 1
    reach = (records * per_record.in_norm("linf") + tail) / grid
    if reach >= 2 ** (_MODULUS_BITS - 1):
        raise InvalidInput(
            f"sums may reach {reach:.3g} grid steps, beyond a {_MODULUS_BITS}-bit modulus: "
            "use a coarser grid (a larger clip relative to the noise) or fewer records"
        )


def _record(transcript: Transcript, trust: Trust, rounds: range, seen: Any) -> None:
    publics, values, totals = (np.asarray(s) for s in seen)
    for row, number in enumerate(rounds):
        transcript.record(number, "public", publics[row], EVERYONE)
        if trust is not Trust.SECURE_SUM:
            transcript.record(number, "messages", values[row], frozenset({SERVER}))
        transcript.record(number, "sum", totals[row], EVERYONE)
