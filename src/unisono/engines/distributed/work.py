"""A party's own computation in one turn: open the records, bound, add noise.

The same `local`, samplers and noise as in one process, for one party.
"""

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.algorithm import Inner
from unisono.core.compiled import abstract, computed, numbers
from unisono.core.events import Event
from unisono.core.grant import Draw, Grant
from unisono.core.release import coins, disclose, inside_noise, post_processed, release, share
from unisono.core.streamed import HELD_BLOCK, StreamedColumns
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust, Unit
from unisono.core.values import Contribution
from unisono.engines.layout import (
    chosen_rows,
    gathered,
    in_turn,
    laid_out,
    padded,
    padded_length,
    program_rows,
    segment_rows,
)
from unisono.engines.payments import require_columns
from unisono.engines.requirements import (
    require_headroom,
    require_sampler_error,
    rounded_report,
)
from unisono.engines.streaming import BlockSums, by_blocks
from unisono.errors import PrivacyViolation, UnisonoError

# Columns of one call of the compiled function, and which of their rows count.
Segment = tuple[Any, Any]
# Rounding and 32-bit arithmetic may carry a bounded sum beyond its bound by no more than this.
_SLACK = 1.001


class Worker:
    """Computes what one party sends in a turn; holds no grant and no state."""

    def __init__(self, study: Study, party: Party, index: int) -> None:
        self.study, self.party, self.index = study, party, index
        require_headroom(study)
        self._local, self._absorb = _compiled(_Same(study))
        self._size = np.int32(study.facts.records[index])
        self._block_sums = BlockSums(study)  # compiled where it is needed
        self._by_blocks = by_blocks(study)
        self._promised: Any = None

    def prepare(
        self, shapes: list[tuple[int, ...]], state: Any, public: Any, streamed: bool = False
    ) -> None:
        """Compile before the first deadline runs, on zeros shaped like this party's columns, or
        like the blocks of those that are streamed."""
        event = self.study.algorithm.event_of(self.study.facts, self.study.trust, self.index)
        if streamed or self._by_blocks:
            block = shapes[0][0] if streamed else HELD_BLOCK
            one = [np.zeros((1, *shape[1:]), np.float32) for shape in shapes]
            made = self._block_sum(None, public, state, StreamedColumns.of(one, block))
            self._require_bounded(made, event, block)
            return
        rows = program_rows(self.study, shapes[0][0])
        columns = tuple(np.zeros((rows, *shape[1:]), np.float32) for shape in shapes)
        inside = self.study.algorithm.inside
        if inside is not None:
            state = np.zeros(inside.shape, np.int32)
        _, made = self._contribution(None, public, state, [(columns, np.zeros(rows, bool))])
        self._require_bounded(made, event, rows)  # a fault shows before any payment

    def one_release(
        self,
        grant: Grant,
        index: int,
        public: Any,
        state: Any,
        number: int,
        row: int | None = None,
    ) -> tuple[Any, Any, bool]:
        """The sealed value, the state after it, and whether the party's coin let it take part; of
        one `row` alone, where it was named."""
        algorithm, facts, trust = self.study.algorithm, self.study.facts, self.study.trust
        event = algorithm.event_of(facts, trust, self.index, number)
        if algorithm.inside is not None:  # in place of a state: there is none
            first = grant.draw(index, self.study.hash.encode())
            state, index = inside_noise(first, algorithm.inside), index + 1
        if algorithm.at_round is not None:
            state = algorithm.at_round(state, number)
        draw = grant.draw(index, self.study.hash.encode(), row)
        after, contribution, takes_part = self.clean(draw, event, public, state, number)
        value: Any
        match trust:
            case Trust.SECURE_SUM:
                value = share(draw, contribution, event, facts.honest)
            case Trust.LOCAL:
                value = release(draw, contribution, event)
            case Trust.TRUSTED_SERVER:
                value = disclose(draw, contribution, event)
        self.party.ledger.dispatch(value)
        return value, after, takes_part

    def noisy_steps(
        self, inner: Inner, grant: Grant, first: int, public: Any, state: Any, number: int
    ) -> tuple[Any, Any, bool]:
        """Several releases that stay at home, and a report that post-processes them."""
        event = self.study.algorithm.event_of(self.study.facts, self.study.trust, self.index)
        for step in range(inner.steps):
            draw = grant.draw(first + step, self.study.hash.encode())
            _, contribution, _ = self.clean(draw, event, public, state, number)
            noisy = release(draw, contribution, event)
            steps = jnp.asarray(noisy.value.astype(np.int32))
            state = self._absorb(public, state, steps * noisy.grid)
        value = post_processed(draw, np.asarray(rounded_report(inner, state)), inner.grid)
        self.party.ledger.dispatch(value)
        return value, state, True

    def clean(
        self, draw: Draw, event: Event, public: Any, state: Any, number: int
    ) -> tuple[Any, Contribution, bool]:
        """The state after a release, what it would be without noise, and whether the party's coin
        let it take part."""
        columns: Any = self.party.open(draw)
        if self._by_blocks and not isinstance(columns, StreamedColumns):
            require_columns(self.study, self.index, columns)
            chosen, _ = coins(draw, event, len(columns[0]))
            columns = StreamedColumns.of(columns, HELD_BLOCK, chosen)
        if isinstance(columns, StreamedColumns):
            require_columns(self.study, self.index, columns)
            contribution = self._block_sum(draw, public, state, columns)
            self._require_bounded(contribution, event, columns.rows)
            return state, contribution, True
        segments, takes_part = self._segments(columns, draw, event, number)
        after, contribution = self._contribution(draw, public, state, segments)
        self._require_bounded(contribution, event, sum(len(rows) for _, rows in segments))
        return after, contribution if takes_part else contribution.silenced(), takes_part

    def _segments(
        self, opened: Any, draw: Draw, event: Event, number: int
    ) -> tuple[list[Segment], bool]:
        """The party's rows by segments, which of them take part, and whether the party does."""
        study = self.study
        columns = [np.asarray(c, np.float32) for c in opened]
        require_columns(study, self.index, columns)
        arrays, real = laid_out(study, draw.grant, columns, self.index)
        size = segment_rows(study)
        if study.algorithm.batch is None:
            chosen, takes_part = coins(draw, event, int(real.sum()))
            length = padded_length(study, len(real))
            whole = [padded(array, length) for array in arrays]
            mask = np.zeros(length, bool)
            mask[: len(real)][real] = chosen
            cuts = [slice(a, a + (size or length)) for a in range(0, length, size or length)]
            return [(tuple(a[cut] for a in whole), mask[cut]) for cut in cuts], takes_part
        if draw.record is not None:
            rows = np.array([draw.record], np.int32)
        elif study.algorithm.rows is not None:
            rows = in_turn(study, number)
        else:
            rows = chosen_rows(study, draw, event, [int(real.sum())])[0]
        parts = np.split(rows, len(rows) // (size or len(rows)))
        return [gathered(tuple(arrays), real, part) for part in parts], True

    def _contribution(
        self, draw: Draw | None, public: Any, state: Any, segments: list[Segment]
    ) -> tuple[Any, Contribution]:
        """The state after this turn, and the sum over all segments, as integers."""
        bound = self._bound(public, state, *segments[0])
        parts = [self._local(public, state, *segment, self._size) for segment in segments]
        value = sum(np.asarray(part) for _, part, _ in parts)
        valid = all(bool(kept) for _, _, kept in parts)
        return parts[-1][0], computed(bound, value, valid, draw)

    def _block_sum(
        self, draw: Draw | None, public: Any, state: Any, columns: StreamedColumns
    ) -> Contribution:
        """The sum over all blocks of records that do not fit into memory (`streaming`)."""
        shapes = [jax.ShapeDtypeStruct(shape, np.float32) for shape in columns.block_shapes]
        mask = jax.ShapeDtypeStruct((columns.block,), bool)
        bound = self._bound(public, state, tuple(shapes), mask)
        value, valid = self._block_sums.of(public, columns, self._size, state)
        return computed(bound, value, valid, draw)

    def _bound(self, public: Any, state: Any, columns: Any, mask: Any) -> Contribution:
        """What the compiled function promises about its numbers."""
        if self._promised is None:
            algorithm, facts = self.study.algorithm, self.study.facts

            def contribution(*arguments: Any) -> Any:
                return algorithm.local(facts, *arguments)[1]

            self._promised = abstract(contribution, public, state, columns, mask, self._size)
        return self._promised

    def _require_bounded(self, contribution: Contribution, event: Event, rows: int) -> None:
        """Look again, on the integers themselves, before noise is added.

        Where sizes are hidden, a party with more records than agreed may reach further: a bound by
        agreed sizes would refuse for one record's sake, and show it.
        """
        facts, algorithm = self.study.facts, self.study.algorithm
        if not bool(contribution.valid):
            raise UnisonoError("the solver missed the public tolerance")
        value = np.asarray(contribution.value, np.float64)
        require_sampler_error(self.study, event, value.size)
        if contribution.sensitivity.unit is Unit.PARTY:
            size = float(np.sqrt(np.sum(value**2)))
            zeroed = contribution.sensitivity.under(Relation.ZERO_OUT)
            bound = zeroed.in_norm("l2") / contribution.grid
        else:
            size = float(np.abs(value).max(initial=0.0))
            bound = algorithm.reach(facts) / contribution.grid + max(facts.records)
            if not facts.exact_sizes:
                far = contribution.sensitivity.under(Relation.ADD_OR_REMOVE)
                record = far.in_norm("l2") if far.linf is None else far.linf
                bound = max(bound, rows * (record / contribution.grid + 1))
        if size > bound * _SLACK + 1:
            raise PrivacyViolation(
                f"a contribution of {size:.6g} grid steps where at most {bound:.6g} were agreed: "
                "nothing was sent"
            )


class _Same:
    """A study as a key: the same object, not an equal one."""

    def __init__(self, study: Study) -> None:
        self.study = study

    def __hash__(self) -> int:
        return id(self.study)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.study is self.study


@lru_cache(maxsize=8)
def _compiled(same: _Same) -> tuple[Any, Any]:
    """`local` and `absorb`, compiled once for all parties of a study in this process."""
    algorithm, facts = same.study.algorithm, same.study.facts
    absorb = jax.jit(partial(algorithm.inner.absorb, facts)) if algorithm.inner else None
    return jax.jit(numbers(partial(algorithm.local, facts))), absorb
