"""Many runs of one study in one compiled program: what an audit of a whole algorithm needs.

An audit compares thousands of transcripts of two neighbouring worlds. `Replay` runs the engine's
own round, algorithm, clipping and exact noise sampler, vectorised over runs; only the ledger is
left out, because nothing is released: the noise is seeded and the data are the auditor's own.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.events import Event, Everyone, Poisson
from unisono.core.grant import derive
from unisono.core.release import noise_steps
from unisono.core.study import Study
from unisono.core.trust import Trust, Unit
from unisono.engines.batches import in_turn, numbered
from unisono.engines.requirements import asked
from unisono.engines.rounds import abstract_contribution, program, seen_at_first, stack
from unisono.errors import InvalidInput

_BATCH = 250


class Replay:
    """A study that can be run again and again on worlds of one shape."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._batch: Callable[..., Any] | None = None

    def transcripts(
        self, columns: Sequence[tuple[np.ndarray, ...]], runs: int, seed: int,
        present: Sequence[np.ndarray] | None = None,
        fault: Callable[[Event], Event] | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Opened sums of `runs` independent runs, in value units: (runs, rounds, ...).

        `present` switches records off, one mask per party: a world under zero-out. `fault` changes
        the event whose noise is really drawn, to see whether an audit notices.
        """
        algorithm, facts, trust = self.study.algorithm, self.study.facts, self.study.trust
        data = stack(self.study, columns)
        real = data.real.copy()
        for party, mask in enumerate(present or ()):
            real[party, : len(mask)] &= mask
        worlds = (data.arrays, real)
        shape = tuple(abstract_contribution(self.study, data).value.shape)
        self._batch = self._batch or self._compile()
        opened = []
        for begin in range(0, runs, _BATCH):
            secret = hashlib.sha256(f"replay {seed} {begin}".encode()).digest()
            inputs = self._inputs(real, shape, secret, fault)
            opened.append(np.asarray(self._batch(worlds, inputs)))
        unit = algorithm.inner.grid if algorithm.inner else algorithm.grid(facts, trust)
        return np.concatenate(opened)[:runs] * unit

    def _compile(self) -> Callable[..., Any]:
        study, facts = self.study, self.study.facts
        server, state = study.algorithm.init(facts)
        states = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * facts.parties), state)
        carry = (server, states, seen_at_first(study, server))
        compiled = program(study, study.algorithm.grid(facts, study.trust), recorded=False)
        turn, sizes = jnp.asarray(asked(study)), np.asarray(facts.records, np.float32)

        def one(arrays: Any, inputs: Any) -> Any:
            return compiled(carry, arrays, sizes, (*inputs, turn, turn))[1][2]

        return jax.jit(jax.vmap(one, in_axes=(None, 0)))

    def _inputs(
        self, real: np.ndarray, shape: tuple[int, ...], secret: bytes,
        fault: Callable[[Event], Event] | None,
    ) -> tuple[np.ndarray, ...]:  # fmt: skip
        """Masks, noise, takes and the server's noise of one batch of runs, as the engine has."""
        algorithm, facts, trust = self.study.algorithm, self.study.facts, self.study.trust
        counts = (_BATCH, algorithm.rounds, algorithm.steps)
        grid = algorithm.grid(facts, trust)
        honest = facts.honest if trust is Trust.SECURE_SUM else 1
        coins = np.random.default_rng(list(secret))

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
        masks = np.zeros((*counts, *real.shape), bool)
        takes = np.ones((*counts[:2], facts.parties), bool)
        for party in range(facts.parties):
            event = algorithm.event_of(facts, trust, party)
            # Where records come in batches, empty places toss coins too.
            units = real[party] if algorithm.batch is None else np.ones_like(real[party])
            masks[:, :, :, party], takes[:, :, party] = _tossed(coins, event, counts, units)
            if trust is not Trust.TRUSTED_SERVER:
                noise[:, :, :, party] = each_round(f"party {party}", party, counts, honest)
        if algorithm.rows is not None:
            turns = np.stack([in_turn(self.study, t) for t in range(algorithm.rounds)])
            shown = turns[None, :, None, None]
            masks = np.broadcast_to(shown, (*counts, facts.parties, turns.shape[1]))
        elif algorithm.batch is not None:
            masks = numbered(self.study, masks)
        central = np.zeros((*counts[:2], *shape), np.int32)
        if trust is Trust.TRUSTED_SERVER:
            central = each_round("server", 0, counts[:2], 1)
        return masks, noise, takes, central


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
