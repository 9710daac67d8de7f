"""The one defence that is private: a round of DP-SGD, by training's own clip and noise.

    update = (Σ_i clip(g_i) + N(0, (z Δ)² I)) / B        Δ = C + what floats and rounding add

The sum is `releases.blocked_sum.clipped_sum` in DP-SGD's quantization steps, the noise the engine's
exact sampler. Its key comes from a generator, for in a laboratory nothing is released.

`epsilon(delta, records, rounds)` is the accountant's: unit one record, relation add-or-remove,
Gaussian noise of multiplier z, viewer whoever sees all rounds (the server included). Batches are
Poisson samples of expected size B among `records` that nobody sees; with `records` = B there is no
sampling, as for somebody who knows who took part in the round.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.attacks.victim import Defence, Loss, Seen, Victim
from unisono.core.events import Event, Everyone, Gaussian, Poisson, bounded_sum, positive
from unisono.core.release import noise_steps
from unisono.core.trust import Relation
from unisono.errors import InvalidInput
from unisono.problems.per_record import PerRecord
from unisono.releases.blocked_sum import Clipping, clipped_sum, finest_step, read


@dataclass(frozen=True)
class DpSgd(Defence):
    """Gradients clipped to `bound`, noise of `multiplier` times that, batches of `batch`."""

    bound: float
    multiplier: float
    batch: int

    def __post_init__(self) -> None:
        positive(bound=self.bound, multiplier=self.multiplier, batch=self.batch)

    @property
    def name(self) -> str:
        return f"DP-SGD, noise {self.multiplier:g}"

    def observe(self, victim: Victim, generator: np.random.Generator) -> Seen:
        if len(victim.rows) != self.batch:
            raise InvalidInput(f"{len(victim.rows)} rows where batch = {self.batch}: give as many")
        records = tuple(jnp.asarray(part, jnp.float32) for part in (victim.rows, victim.targets))
        parameters = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), victim.parameters)
        shapes = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (parameters, records)
        )
        leaves, structure = jax.tree.flatten(shapes)
        plan = _plan(victim.loss, self.bound, self.batch, structure, *leaves)
        problem, grid, clipped, gradient = plan

        rule = Clipping(bound=self.bound)
        sensitivity = rule.sensitivity(problem, grid, hides_presence=True)
        moved = sensitivity.under(Relation.ADD_OR_REMOVE).in_norm("l2")
        event = Event(Gaussian(self.multiplier * moved), sensitivity)
        total = np.asarray(clipped(parameters, records), np.int64)
        total += noise_steps(generator.bytes(32), event, grid, total.shape, honest=1)
        noisy = jnp.asarray(total * grid, jnp.float32)
        std = self.multiplier * moved * self.bound / self.batch
        public = {"clip": self.bound, "clipped": "record", "std": std}
        return Seen(jax.tree.unflatten(problem.structure, gradient(noisy)), public)

    def epsilon(self, delta: float, records: int, rounds: int) -> float:
        """Per record, add-or-remove, for `rounds` rounds on a data set of `records`."""
        rate = self.batch / records
        sampler = Everyone() if rate >= 1 else Poisson(rate)
        event = Event(Gaussian(self.multiplier), bounded_sum(l2=1.0), sampler)
        return ACCOUNTANT.epsilon(event * rounds, Relation.ADD_OR_REMOVE, delta)


@lru_cache(maxsize=16)
def _plan(
    loss: Loss, bound: float, batch: int, structure: Any, *leaves: Any
) -> tuple[PerRecord, float, Callable[..., Any], Callable[..., Any]]:
    """The per-record gradients, their grid, their clipped sum in grid steps, and how the mean
    gradient is read off a noisy sum; compiled once."""
    parameters, records = jax.tree.unflatten(structure, leaves)
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), records)
    problem, rule = PerRecord(loss, parameters, one), Clipping(bound=bound)
    grid = finest_step(problem.dimension, 64 * -(-batch // 64))

    def clipped(at: Any, given: Any) -> Any:
        everyone, bounds = jnp.ones(batch, bool), rule.start(problem)
        return clipped_sum(problem, rule, at, bounds, given, everyone, grid, True).value

    def gradient(noisy: Any) -> Any:
        return read(problem, rule, rule.start(problem), noisy, batch).gradient

    return problem, grid, jax.jit(clipped), jax.jit(gradient)
