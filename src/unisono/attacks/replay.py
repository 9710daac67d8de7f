"""Many runs of one study in one compiled program: what an audit of a whole algorithm needs.

An audit compares thousands of transcripts of two neighbouring worlds. `Replay` runs the engine's
own round, algorithm, clipping and exact noise sampler, vectorised over runs; only the ledger is
left out, because nothing is released: the noise is seeded and the data are the auditor's own.

Parties may be `silent`: they take part and add no noise. That is what a viewer sees who works
together with them, for they know their own noise and can subtract it.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.events import Event, Everyone, Poisson
from unisono.core.grant import derive
from unisono.core.release import noise_steps
from unisono.core.study import Study
from unisono.core.trust import Trust, Unit
from unisono.engines.layout import batched, in_turn
from unisono.engines.record_order import assumed_schedule
from unisono.engines.rounds import Stack, abstract_contribution, program, seen_at_first, stack
from unisono.errors import InvalidInput

_BATCH = 250
# So many numbers of noise and coins are held at once.
_NUMBERS = 2**25


class Replay:
    """A study that can be run again and again on worlds of one shape."""

    def __init__(self, study: Study, silent: Collection[int] = (), together: int = _BATCH) -> None:
        self.study, self.silent, self.together = study, silent, together
        self._batch: Callable[..., Any] | None = None

    def transcripts(
        self,
        columns: Sequence[tuple[np.ndarray, ...]],
        runs: int,
        seed: int,
        present: Sequence[np.ndarray] | None = None,
        fault: Callable[[Event], Event] | None = None,
    ) -> np.ndarray:
        """Opened sums of `runs` independent runs, in value units: (runs, rounds, ...).

        `present` switches records off, one mask per party: a world under zero-out. `fault` changes
        the event whose noise is really drawn, to see whether an audit notices.
        """
        data = self.world(columns, present)
        parts = self.batches(data, runs, seed, fault)
        return np.concatenate([opened for opened, _ in parts])[:runs] * self.unit

    def world(
        self, columns: Sequence[tuple[np.ndarray, ...]], present: Sequence[np.ndarray] | None = None
    ) -> Stack:
        """All parties' arrays, and which rows count."""
        data = stack(self.study, columns)
        real = data.real.copy()
        for party, mask in enumerate(present or ()):
            real[party, : len(mask)] &= mask
        return Stack(data.arrays, real)

    def batches(
        self, data: Stack, runs: int, seed: int, fault: Callable[[Event], Event] | None = None
    ) -> Iterator[tuple[np.ndarray, bytes]]:
        """Opened sums in grid steps, (together, rounds, ...), and the secret of their coins."""
        shape = tuple(abstract_contribution(self.study, data).value.shape)
        self._batch = self._batch or self._compile()
        size = self._together(data.real, shape)
        for begin in range(0, runs, size):
            secret = hashlib.sha256(f"replay {seed} {begin}".encode()).digest()
            masks, takes = self.coins(size, data.real, secret)
            noise, central = self._noise(size, shape, secret, fault)
            yield np.asarray(self._batch(tuple(data), (masks, noise, takes, central))), secret

    @property
    def unit(self) -> float:
        """What a grid step of an opened sum is worth."""
        algorithm = self.study.algorithm
        if algorithm.inner:
            return algorithm.inner.grid
        return algorithm.grid(self.study.facts, self.study.trust)

    def _together(self, real: np.ndarray, shape: tuple[int, ...]) -> int:
        """How many runs are made at once: as many as fit into memory."""
        algorithm = self.study.algorithm
        numbers = algorithm.rounds * algorithm.steps * (real.size + len(real) * math.prod(shape))
        return max(1, min(self.together, _NUMBERS // numbers))

    def _compile(self) -> Callable[..., Any]:
        study, facts = self.study, self.study.facts
        carry = first_carry(study)
        compiled = program(study, study.algorithm.grid(facts, study.trust), recorded=False)
        turn = jnp.asarray(assumed_schedule(study).asked)
        sizes = np.asarray(facts.records, np.float32)

        def one(data: Any, inputs: Any) -> Any:
            return compiled(carry, data, sizes, (*inputs, turn, turn))[1][2]

        return over_runs(one)

    def coins(
        self, runs: int, real: np.ndarray, secret: bytes, always: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Masks or row numbers of one batch of runs, and which parties contribute, as the engine
        has them. Records (parties, n) that `always` take part do so whatever their coin says."""
        algorithm, facts, trust = self.study.algorithm, self.study.facts, self.study.trust
        counts = (runs, algorithm.rounds, algorithm.steps)
        generator = np.random.default_rng(list(secret))
        masks = np.zeros((*counts, *real.shape), bool)
        takes = np.ones((*counts[:2], facts.parties), bool)
        for party in range(facts.parties):
            event = algorithm.event_of(facts, trust, party)
            # Where records come in batches, empty rows toss coins too.
            units = real[party] if algorithm.batch is None else np.ones_like(real[party])
            chosen, taking = _tossed(generator, event, counts, units)
            if always is not None:
                chosen = chosen | (always[party] & units)
                taking = taking | always[party].any()
            masks[:, :, :, party], takes[:, :, party] = chosen, taking
        if algorithm.named is not None:
            rows = np.asarray(assumed_schedule(self.study).rows)
            masks = np.broadcast_to(rows[None, :, None, None, None], (*counts, facts.parties, 1))
        elif algorithm.rows is not None:
            turns = np.stack([in_turn(self.study, t) for t in range(algorithm.rounds)])
            shown = turns[None, :, None, None]
            masks = np.broadcast_to(shown, (*counts, facts.parties, turns.shape[1]))
        elif algorithm.batch is not None:
            flat = masks.reshape(-1, masks.shape[-1])
            batches = batched(self.study, [np.flatnonzero(own) for own in flat])
            masks = batches.reshape(*masks.shape[:-1], -1)
        return masks, takes

    def _noise(
        self,
        runs: int,
        shape: tuple[int, ...],
        secret: bytes,
        fault: Callable[[Event], Event] | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The parties' noise and the server's of one batch of runs, as the engine has them."""
        algorithm, facts, trust = self.study.algorithm, self.study.facts, self.study.trust
        counts = (runs, algorithm.rounds, algorithm.steps)
        grid = algorithm.grid(facts, trust)
        honest = facts.honest if trust is Trust.SECURE_SUM else 1

        def drawn(label: str, event: Event, leading: tuple[int, ...], share: int) -> np.ndarray:
            law = fault(event) if fault else event
            key, total = derive(secret, label), (int(np.prod(leading)), *shape)
            steps = noise_steps(key, law, grid, total, share, shape)
            return steps.reshape(*leading, *shape).astype(np.int32)

        def each_round(label: str, party: int, leading: tuple[int, ...], share: int) -> np.ndarray:
            """Noise (runs, rounds, ...); drawn round by round only where it changes with them."""
            if algorithm.round_event is None:
                return drawn(label, algorithm.event_of(facts, trust, party), leading, share)
            once = (leading[0], *leading[2:])
            laws = (algorithm.event_of(facts, trust, party, t) for t in range(leading[1]))
            parts = [drawn(f"{label} {t}", law, once, share) for t, law in enumerate(laws)]
            return np.stack(parts, axis=1)

        noise = np.zeros((*counts, facts.parties, *shape), np.int32)
        central = np.zeros((*counts[:2], *shape), np.int32)
        if trust is Trust.TRUSTED_SERVER:
            return noise, each_round("server", 0, counts[:2], 1)
        for party in range(facts.parties):
            if party not in self.silent:
                noise[:, :, :, party] = each_round(f"party {party}", party, counts, honest)
        return noise, central


def over_runs(one: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of (data, inputs) for many inputs at once, (runs, ...).

    A program that switches to doubles inside, as solvers do, cannot be vectorised from outside: it
    is run for one input after the other.
    """
    together = jax.jit(jax.vmap(one, in_axes=(None, 0)))
    vectorised = [True]

    def many(data: Any, inputs: Any) -> Any:
        if vectorised[0]:
            try:
                return together(data, inputs)
            except TypeError:
                vectorised[0] = False
        runs = len(jax.tree.leaves(inputs)[0])
        each = (one(data, jax.tree.map(lambda leaf, k=k: leaf[k], inputs)) for k in range(runs))
        return np.stack([np.asarray(found) for found in each])

    return many


def first_carry(study: Study) -> tuple[Any, Any, Any]:
    """Server, parties' states and what they hold, before the first round."""
    server, state = study.algorithm.init(study.facts)
    states = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * study.facts.parties), state)
    return server, states, seen_at_first(study, server)


def _tossed(
    generator: np.random.Generator, event: Event, counts: tuple[int, int, int], real: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which records take part, (runs, rounds, steps, n), and whether the party does."""
    everyone = np.broadcast_to(real, (*counts, len(real)))
    match event.sampler:
        case Everyone():
            return everyone, np.ones(counts[:2], bool)
        case Poisson(rate) if event.sensitivity.unit is Unit.PARTY:
            return everyone, generator.random(counts[:2]) < rate
        case Poisson(rate):
            return everyone & (generator.random(everyone.shape) < rate), np.ones(counts[:2], bool)
    raise InvalidInput(f"{event.sampler} is not replayed: use Everyone or Poisson")


def best_direction(inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Where the average transcripts of two worlds differ, from runs that are not audited."""
    return inside.mean(0) - outside.mean(0)


def scores(transcripts: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """One number per run: the transcript along a direction."""
    return np.tensordot(transcripts, direction, direction.ndim)
