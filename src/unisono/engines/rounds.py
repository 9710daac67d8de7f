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
from unisono.core.grant import Grant
from unisono.core.noise.chacha import CHACHA20
from unisono.core.noise.in_graph import gaussian_on_grid
from unisono.core.study import Study
from unisono.core.values import Contribution
from unisono.engines.batches import gathered, placed
from unisono.engines.requirements import padded_length, rounded_report


class Stack(NamedTuple):
    """All parties' arrays, padded to (parties, most records, ...), and which rows are real."""

    arrays: tuple[Any, ...]
    real: np.ndarray


def stack(
    study: Study, columns: Sequence[tuple[np.ndarray, ...]], grants: Sequence[Grant] = ()
) -> Stack:
    """Pad ragged parties with zero rows; where batches are drawn, put records into places."""
    if study.algorithm.batch is not None:
        given: Sequence[Grant | None] = grants or [None] * len(columns)
        own = [placed(study, g, c, i) for i, (c, g) in enumerate(zip(columns, given, strict=True))]
        arrays = tuple(np.stack(parts) for parts in zip(*(c for c, _ in own), strict=True))
        return Stack(arrays, np.stack([full for _, full in own]))
    sizes = np.array([len(party[0]) for party in columns])
    most = padded_length(study, int(sizes.max()))
    padded_arrays = []
    for position in range(len(columns[0])):
        parts = [np.asarray(party[position], np.float32) for party in columns]
        if (sizes == most).all():
            padded_arrays.append(np.stack(parts))
            continue
        padded = np.zeros((len(parts), most, *parts[0].shape[1:]), np.float32)
        for row, part in zip(padded, parts, strict=True):
            row[: len(part)] = part
        padded_arrays.append(padded)
    return Stack(tuple(padded_arrays), np.arange(most)[None, :] < sizes[:, None])


def abstract_contribution(study: Study, data: Stack) -> Contribution:
    """One party's contribution as shapes and bounds, without computing it."""
    algorithm = study.algorithm
    server, state = algorithm.init(study.facts)
    rows = data.real.shape[1] if algorithm.batch is None else algorithm.batch(study.facts)
    one = tuple(jax.ShapeDtypeStruct((rows, *a.shape[2:]), a.dtype) for a in data.arrays)
    mask = jax.ShapeDtypeStruct((rows,), bool)
    local = partial(algorithm.local, study.facts)
    _, contribution = jax.eval_shape(local, algorithm.ask(server), state, one, mask)
    return contribution


class Keys(NamedTuple):
    """Noise that the program draws itself: ChaCha20 keys (..., parties, 8), and the width of each
    party's share in grid steps (..., parties)."""

    words: Any
    width: Any


def program(
    study: Study, grid: float, recorded: bool, remembered: bool = True
) -> Callable[..., Any]:
    """One compiled scan over a chunk of rounds.

    `recorded` tells the parties' own messages, `remembered` what everybody saw in every round.
    """
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
        opened_sum = jnp.where(opened, total, 0)
        told = (public, values if recorded else None, opened_sum) if remembered else None
        return (server, states, held), told

    @jax.jit
    def chunk(carry: Any, data: Any, sizes: Any, inputs: Any) -> Any:
        return jax.lax.scan(partial(one_round, data, sizes), carry, inputs)

    return chunk


def _one_release(study: Study) -> Callable[..., Any]:
    """Every party's answer in a round: its clipped value and its noise, in grid steps."""
    local = _every(
        study, partial(study.algorithm.local, study.facts), (_public_axis(study), 0, 0, 0)
    )

    def answer(public: Any, states: Any, data: Any, masks: Any, noise: Any, takes: Any) -> Any:
        rows, mask = _rows(study, data, masks[0])
        after, contributions = local(public, states, rows, mask)
        bounded = contributions.value
        taken = jnp.where(_beside(takes, bounded), bounded, 0)
        values = taken + _drawn(study, jax.tree.map(lambda leaf: leaf[0], noise), bounded.shape[1:])
        return after, values, contributions.valid

    return answer


def _noisy_steps(study: Study, grid: float) -> Callable[..., Any]:
    """Several releases at home, then a report: states change by what was released only."""
    facts, inner, axis = study.facts, study.algorithm.inner, _public_axis(study)
    assert inner is not None
    local = _every(study, partial(study.algorithm.local, facts), (axis, 0, 0, 0))
    absorb = _every(study, partial(inner.absorb, facts), (axis, 0, 0))

    def answer(public: Any, states: Any, data: Any, masks: Any, noise: Any, takes: Any) -> Any:
        def step(carry: Any, inputs: Any) -> Any:
            states, valid = carry
            rows, mask = _rows(study, data, inputs[0])
            _, contributions = local(public, states, rows, mask)
            bounded = contributions.value
            noisy = (bounded + _drawn(study, inputs[1], bounded.shape[1:])) * grid
            valid = valid & contributions.valid
            return (_where(valid, absorb(public, states, noisy), states), valid), None

        start = (states, jnp.ones(facts.parties, bool))
        (states, valid), _ = jax.lax.scan(step, start, (masks, noise))
        return states, jax.vmap(partial(rounded_report, inner))(states), valid

    return answer


def _every(study: Study, function: Callable[..., Any], axes: tuple[int | None, ...]) -> Any:
    """A party's function for all of them at once. One party alone is not vectorised: a loop whose
    length depends on its batch stays a loop."""
    if study.facts.parties > 1:
        return jax.vmap(function, in_axes=axes)

    def alone(*arguments: Any) -> Any:
        own = [
            argument if axis is None else jax.tree.map(lambda leaf: leaf[0], argument)
            for argument, axis in zip(arguments, axes, strict=True)
        ]
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], function(*own))

    return alone


def _rows(study: Study, data: Any, masks: Any) -> tuple[Any, Any]:
    """What the parties' functions see: all rows and a mask, or the batch that coins chose."""
    arrays, real = data
    if study.algorithm.batch is None:
        return arrays, masks
    return _every(study, gathered, (0, 0, 0))(arrays, real, masks)


def _drawn(study: Study, noise: Any, shape: tuple[int, ...]) -> Any:
    """Noise in grid steps, (parties, ...): given, or drawn here from one key for each party."""
    if not isinstance(noise, Keys):
        return noise

    def one(words: Any, width: Any) -> Any:
        return gaussian_on_grid(jax.random.wrap_key_data(words, impl=CHACHA20), shape, width)

    return _every(study, one, (0, 0))(noise.words, noise.width)


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
