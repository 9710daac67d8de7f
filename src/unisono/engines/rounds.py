"""One compiled round over all parties, which the engine in process and audits share.

Parties are stacked and vmapped, rounds are scanned. Noise and coins are arguments, drawn outside
by whoever is entitled to; records are arguments too, so no compiled program holds data.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.algorithm import Aggregate
from unisono.core.study import Study
from unisono.core.values import Contribution
from unisono.engines.requirements import padded_length, rounded_report


class Stack(NamedTuple):
    """All parties' arrays, padded to (parties, most records, ...), and which rows are real."""

    arrays: tuple[Any, ...]
    real: np.ndarray


def stack(study: Study, columns: Sequence[tuple[np.ndarray, ...]]) -> Stack:
    """Pad ragged parties with zero rows."""
    sizes = np.array([len(party[0]) for party in columns])
    most = padded_length(study, int(sizes.max()))
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


def abstract_contribution(study: Study, data: Stack) -> Contribution:
    """One party's contribution as shapes and bounds, without computing it."""
    algorithm = study.algorithm
    server, state = algorithm.init(study.facts)
    one = tuple(jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in data.arrays)
    mask = jax.ShapeDtypeStruct(data.real.shape[1:], bool)
    local = partial(algorithm.local, study.facts)
    _, contribution = jax.eval_shape(local, algorithm.ask(server), state, one, mask)
    return contribution


def program(study: Study, grid: float, recorded: bool) -> Callable[..., Any]:
    """One compiled scan over a chunk of rounds."""
    algorithm, facts = study.algorithm, study.facts
    stale = algorithm.schedule is not None and algorithm.schedule(facts).stale
    each = algorithm.combine == "each"
    unit = algorithm.inner.grid if algorithm.inner else grid
    answer = _noisy_steps(study, grid) if algorithm.inner else _one_release(study)

    def one_round(data: Any, sizes: Any, carry: Any, inputs: Any) -> Any:
        server, states, held = carry
        masks, noise, takes, central, alive, turn = inputs
        public = algorithm.ask(server)
        seen = held if stale else public
        after, values, valid = answer(seen, states, data, masks, noise, takes)
        alive = jnp.logical_and(alive, valid)
        survivors = jnp.sum(alive)
        opened = survivors >= jnp.minimum(facts.minimum_survivors, jnp.sum(turn))
        arrived = jnp.where(_beside(alive, values), values, 0)
        # int32 sums wrap modulo 2^32, exactly as the secure sum's integers do.
        total = arrived if each else jnp.sum(arrived, axis=0, dtype=jnp.int32) + central
        records = jnp.sum(jnp.where(alive, sizes, 0.0))
        merged = algorithm.merge(server, Aggregate(total * unit, survivors, records, alive))
        server = jax.tree.map(lambda new, old: jnp.where(opened, new, old), merged, server)
        accepted = jnp.logical_and(jnp.logical_and(alive, opened), takes)
        settled = jax.vmap(algorithm.settle)(after, accepted)
        # Whoever had no turn was not asked, and neither works nor settles.
        states = _where(turn, settled, states)
        if stale:
            fresh = jax.tree.map(lambda leaf: jnp.stack([leaf] * facts.parties), public)
            held = _where(turn, fresh, held)
        told = (public, values if recorded else None, jnp.where(opened, total, 0))
        return (server, states, held), told

    @jax.jit
    def chunk(carry: Any, data: Any, sizes: Any, inputs: Any) -> Any:
        return jax.lax.scan(partial(one_round, data, sizes), carry, inputs)

    return chunk


def _one_release(study: Study) -> Callable[..., Any]:
    """Every party's answer in a round: its clipped value and its noise, in grid steps."""
    local = partial(study.algorithm.local, study.facts)

    def answer(public: Any, states: Any, data: Any, masks: Any, noise: Any, takes: Any) -> Any:
        every = jax.vmap(local, in_axes=(_public_axis(study), 0, 0, 0))
        after, contributions = every(public, states, data, masks[0])
        bounded = contributions.value
        values = jnp.where(_beside(takes, bounded), bounded, 0) + noise[0]
        return after, values, contributions.valid

    return answer


def _noisy_steps(study: Study, grid: float) -> Callable[..., Any]:
    """Several releases at home, then a report: states change by what was released only."""
    facts, inner, axis = study.facts, study.algorithm.inner, _public_axis(study)
    assert inner is not None
    local = jax.vmap(partial(study.algorithm.local, facts), in_axes=(axis, 0, 0, 0))
    absorb = jax.vmap(partial(inner.absorb, facts), in_axes=(axis, 0, 0))

    def answer(public: Any, states: Any, data: Any, masks: Any, noise: Any, takes: Any) -> Any:
        def step(carry: Any, inputs: Any) -> Any:
            states, valid = carry
            _, contributions = local(public, states, data, inputs[0])
            noisy = (contributions.value + inputs[1]) * grid
            valid = valid & contributions.valid
            return (_where(valid, absorb(public, states, noisy), states), valid), None

        start = (states, jnp.ones(facts.parties, bool))
        (states, valid), _ = jax.lax.scan(step, start, (masks, noise))
        return states, jax.vmap(partial(rounded_report, inner))(states), valid

    return answer


def _public_axis(study: Study) -> int | None:
    """Stale parties each hold public values of their own."""
    schedule = study.algorithm.schedule
    return 0 if schedule is not None and schedule(study.facts).stale else None


def seen_at_first(study: Study, server: Any) -> Any:
    """What every party holds before its first turn; only stale parties hold anything."""
    if _public_axis(study) is None:
        return None
    public = study.algorithm.ask(server)
    return jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * study.facts.parties), public)


def _beside(flags: Any, values: Any) -> Any:
    """Flags (parties,) shaped to go with values (parties, ...)."""
    return flags.reshape(-1, *[1] * (values.ndim - 1))


def _where(flags: Any, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda n, o: jnp.where(_beside(flags, n), n, o), new, old)
