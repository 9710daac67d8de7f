"""One compiled round over all parties, which the engine in process and audits share.

Parties are stacked and vmapped, rounds are scanned. Noise and coins are arguments, drawn outside
by whoever is entitled to; records are arguments too, so no compiled program holds data.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.algorithm import Aggregate, PricedAlgorithm
from unisono.core.compiled import abstract, numbers
from unisono.core.grant import Grant
from unisono.core.noise.chacha import CHACHA20
from unisono.core.noise.in_graph import gaussian_on_grid
from unisono.core.noise.in_graph_error import MAX_STD, MIN_STD
from unisono.core.stacked import StackedColumn
from unisono.core.study import Study
from unisono.core.values import Contribution
from unisono.engines.layout import (
    gathered,
    laid_out,
    padded_length,
    program_rows,
    segment_rows,
    stacked,
)
from unisono.engines.requirements import rounded_report

# Parties of so many records are not stacked where sums are streamed: blocks would leave the cache.
_LARGE = 1024


class Stack(NamedTuple):
    """All parties' arrays, padded to (parties, most records, ...), and which rows are real."""

    arrays: tuple[Any, ...]
    real: np.ndarray


def stack(
    study: Study, columns: Sequence[tuple[np.ndarray, ...]], grants: Sequence[Grant] = ()
) -> Stack:
    """Every party's records as its grant lays them out, padded with rows that count for nothing."""
    given: Sequence[Grant | None] = grants or [None] * len(columns)
    own = [laid_out(study, g, c, i) for i, (c, g) in enumerate(zip(columns, given, strict=True))]
    most = padded_length(study, max(len(real) for _, real in own))
    arrays = zip(*(arrays for arrays, _ in own), strict=True)
    return Stack(
        tuple(stacked(parts, most) for parts in arrays),
        stacked([real for _, real in own], most),
    )


def abstract_contribution(study: Study, data: Stack) -> Contribution:
    """One party's contribution as shapes and bounds, without computing it.

    Equal studies of equal shapes have the same one, which is traced for the first of them only.
    """
    algorithm, parts = study.algorithm, study.algorithm.in_parts
    if algorithm.by_blocks:
        assert parts is not None
        assert parts.bounded is not None
        return parts.bounded(jax.ShapeDtypeStruct((algorithm.dimension,), np.int32))
    server, state = algorithm.init(study.facts)
    if algorithm.inside is not None:
        state = jax.ShapeDtypeStruct(algorithm.inside.shape, np.int32)
    rows = program_rows(study, data.real.shape[1])
    one = tuple(jax.ShapeDtypeStruct((rows, *a.shape[2:]), a.dtype) for a in data.arrays)
    leaves, layout = jax.tree.flatten((server, state, one, jax.ShapeDtypeStruct((rows,), bool)))
    shapes = tuple((np.shape(leaf), np.dtype(jax.dtypes.result_type(leaf))) for leaf in leaves)
    traced = _shared_contribution if _can_be_shared(study) else _contribution
    return traced(study, layout, shapes)


def _contribution(study: Study, layout: Any, shapes: Sequence[tuple[Any, Any]]) -> Contribution:
    """The contribution of a server's state, a party's, its columns and mask of these shapes."""
    algorithm = study.algorithm
    leaves = [jax.ShapeDtypeStruct(shape, kind) for shape, kind in shapes]
    server, *others = jax.tree.unflatten(layout, leaves)

    def contribution(server: Any, *arguments: Any) -> Any:
        return algorithm.local(study.facts, algorithm.ask(server), *arguments)[1]

    return abstract(contribution, server, *others, jax.ShapeDtypeStruct((), np.int32))


# Shapes and bounds: no numbers of anybody.
_shared_contribution = lru_cache(maxsize=64)(_contribution)


class SumSummary(NamedTuple):
    """Of a sum that is too large to be kept: its least and largest number, and its l2 norm."""

    low: Any
    high: Any
    l2: Any


def _summary(total: Any) -> SumSummary:
    floats = total.astype(jnp.float32)
    return SumSummary(jnp.min(floats), jnp.max(floats), jnp.sqrt(jnp.sum(floats * floats)))


def told(recorded: bool, remembered: bool, public: Any, values: Any, opened_sum: Any) -> Any:
    """What is kept of a round: at least enough to hold the sum against its limits."""
    if not remembered:
        return _summary(opened_sum)
    return public, values if recorded else None, opened_sum


class Keys(NamedTuple):
    """Noise that the program draws itself: ChaCha20 keys (..., parties, 8), and the width of each
    party's share in grid steps (..., parties)."""

    words: Any
    width: Any


class Twofold(NamedTuple):
    """Noise inside parties' computations (..., parties, shape), and that of their releases."""

    inside: Any
    release: Any


def program(
    study: Study, grid: float, recorded: bool, remembered: bool = True, summed: bool = False
) -> Callable[..., Any]:
    """One compiled scan over a chunk of rounds.

    `recorded` tells the parties' own messages, `remembered` what everybody saw in every round, of
    which there is only a `SumSummary` otherwise. Data
    that are `summed` are the parties' clean sums and not their records (`streaming`). Equal studies
    share a program, so that only the first of them waits for its compilation.
    """
    made = _shared_program if _can_be_shared(study) else _program
    return made(study, grid, recorded, remembered, summed)


def _can_be_shared(study: Study) -> bool:
    """Whether equal studies run the same functions: not if the problem holds arrays, which are not
    compared. One that has begun with what an earlier stage released differs in its first states,
    which are given to a program and no part of it."""
    if isinstance(study.method, PricedAlgorithm):
        return False
    try:
        hash(study)
    except TypeError:
        return False
    usual, own = study.method.bind(study.facts, study.trust), study.algorithm
    return own is usual or own._replace(init=usual.init, begin=usual.begin) == usual


def _program(
    study: Study, grid: float, recorded: bool, remembered: bool, summed: bool
) -> Callable[..., Any]:
    algorithm, facts = study.algorithm, study.facts
    stale = algorithm.schedule is not None and algorithm.schedule(facts).stale
    each = algorithm.combine == "each"
    unit = algorithm.inner.grid if algorithm.inner else grid
    answer = _noisy_steps(study, grid) if algorithm.inner else _one_release(study, summed)

    def one_round(data: Any, sizes: Any, carry: Any, inputs: Any) -> Any:
        server, states, held = carry
        masks, noise, takes, central, alive, turn = inputs
        public = algorithm.ask(server)
        seen = held if stale else public
        after, values, valid = answer(seen, states, data, masks, noise, takes)
        alive = jnp.logical_and(alive, valid)
        survivors = jnp.sum(alive)
        opened = survivors >= jnp.minimum(facts.minimum_parties, jnp.sum(turn))
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
        seen = told(recorded, remembered, public, values, jnp.where(opened, total, 0))
        return (server, states, held), seen

    @jax.jit
    def chunk(carry: Any, data: Any, sizes: Any, inputs: Any) -> Any:
        return jax.lax.scan(partial(one_round, data, sizes), carry, inputs)

    return chunk


# Programs hold functions and public numbers, never records.
_shared_program = lru_cache(maxsize=16)(_program)


def _clean_values(study: Study) -> Callable[..., Any]:
    """Every party's state, bounded value in grid steps and whether it kept its bound.

    Where sizes are hidden, segment after segment goes through one program of public shapes. What
    goes in and comes out is fenced off, so that the number of segments, which is all that differs
    between programs, has no part in how the program in between is compiled.
    """
    facts, axes = study.facts, (_public_axis(study), 0, 0, 0, 0)
    one = numbers(partial(study.algorithm.local, facts))
    local = _every(study, one, axes)
    if study.algorithm.streamed and facts.parties > 1 and max(facts.records) >= _LARGE:
        local = _in_turn(one, stale=axes[0] is not None)
    sizes = np.asarray(facts.records, np.int32)
    size = segment_rows(study)

    def at_once(public: Any, states: Any, data: Any, masks: Any) -> Any:
        return local(public, states, *_rows(study, data, masks), sizes)

    def by_segments(public: Any, states: Any, data: Any, masks: Any) -> Any:
        assert size is not None

        def part(number: Any) -> Any:
            given = _segment(study, data, masks, number, size)
            fenced = jax.lax.optimization_barrier((public, states, *given, sizes))
            _, values, valid = local(*fenced)
            return jax.lax.optimization_barrier((values, valid))

        def add(number: Any, carry: Any) -> Any:
            values, valid = part(number)
            return carry[0] + values, carry[1] & valid

        shape, _ = jax.eval_shape(part, 0)
        none = (jnp.zeros(shape.shape, shape.dtype), jnp.ones(study.facts.parties, bool))
        used = masks if study.algorithm.batch is None else masks >= 0
        last = jnp.max(jnp.where(jnp.any(used, axis=0), jnp.arange(masks.shape[1]), -1))
        return states, *jax.lax.fori_loop(0, last // size + 1, add, none)

    return at_once if size is None else by_segments


def _given_values(public: Any, states: Any, data: Any, masks: Any) -> Any:
    """As `_clean_values`, where the bounded values themselves are given."""
    arrays, _ = data
    return states, arrays[0], jnp.ones(len(arrays[0]), bool)


def _one_release(study: Study, summed: bool = False) -> Callable[..., Any]:
    """Every party's answer in a round: its clipped value and its noise, in grid steps."""
    clean = _given_values if summed else _clean_values(study)

    def answer(public: Any, states: Any, data: Any, masks: Any, noise: Any, takes: Any) -> Any:
        noise = jax.tree.map(lambda leaf: leaf[0], noise)
        if study.algorithm.inside is not None:  # in place of a state: there is none
            states, noise = noise.inside, noise.release
        after, bounded, valid = clean(public, states, data, masks[0])
        taken = jnp.where(_beside(takes, bounded), bounded, 0)
        return after, _noised(study, taken, noise), valid

    return answer


def _noisy_steps(study: Study, grid: float) -> Callable[..., Any]:
    """Several releases at home, then a report: states change by what was released only."""
    facts, inner, axis = study.facts, study.algorithm.inner, _public_axis(study)
    assert inner is not None
    clean = _clean_values(study)
    absorb = _every(study, partial(inner.absorb, facts), (axis, 0, 0))

    def answer(public: Any, states: Any, data: Any, masks: Any, noise: Any, takes: Any) -> Any:
        def step(carry: Any, inputs: Any) -> Any:
            states, valid = carry
            _, bounded, kept = clean(public, states, data, inputs[0])
            noisy = _noised(study, bounded, inputs[1]) * grid
            valid = valid & kept
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


def _in_turn(function: Callable[..., Any], stale: bool) -> Any:
    """A party's function for one party after the other, whose columns stay where they lie."""

    def each(public: Any, states: Any, arrays: Any, masks: Any, sizes: Any) -> Any:
        def own(given: Any) -> Any:
            party, held, state, mask, size = given
            columns = tuple(StackedColumn(array, party) for array in arrays)
            return function(held if stale else public, state, columns, mask, size)

        held = public if stale else None
        return jax.lax.map(own, (jnp.arange(len(masks)), held, states, masks, sizes))

    return each


def _rows(study: Study, data: Any, masks: Any) -> tuple[Any, Any]:
    """What the parties' functions see: all rows and a mask, or the batch that coins chose."""
    arrays, real = data
    if study.algorithm.batch is None:
        return arrays, masks
    return _every(study, gathered, (0, 0, 0))(arrays, real, masks)


def _segment(study: Study, data: Any, masks: Any, number: Any, size: int) -> tuple[Any, Any]:
    """One segment of every party's rows, and which of them count."""

    def cut(array: Any) -> Any:
        return jax.lax.dynamic_slice_in_dim(array, number * size, size, axis=1)

    if study.algorithm.batch is not None:
        return _rows(study, data, cut(masks))
    arrays, _ = data
    return jax.tree.map(cut, arrays), cut(masks)


def _noised(study: Study, values: Any, noise: Any) -> Any:
    """Values (parties, ...) with noise in grid steps: given, or drawn here from a key each.

    A width for which the sampler's error is not proved has no noise to offer: then the value stays
    out, never the noise. (Such widths are refused beforehand; a compiled program cannot refuse.)
    """
    if not isinstance(noise, Keys):
        return values + noise

    def one(value: Any, words: Any, width: Any) -> Any:
        key = jax.random.wrap_key_data(words, impl=CHACHA20)
        proved = (width >= MIN_STD) & (width <= MAX_STD)
        return jnp.where(proved, value, 0) + gaussian_on_grid(key, value.shape, width)

    return _every(study, one, (0, 0, 0))(values, noise.words, noise.width)


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
