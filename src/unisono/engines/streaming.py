"""Sums over records that do not fit into memory: block by block, as integers.

    contribution(records) = sum over blocks of contribution(block)         exactly, in integers

That is what a contribution is, unless it is made of a party's records as a whole. A block goes
through one compiled program of a public shape, so that no record changes how one of another block
is rounded. What is drawn, paid and noised is as ever; only `local` is called more often.

Nobody promises that a record that is replaced leaves all others where they lie: in a file that is
sorted, and in a folder of partitions, another value moves many of them into other places and
blocks. So only sums to which every record adds integers of its own are streamed: each is rounded by
itself, in tables and gradients alike (`in_parts`), never a block of them. A program of a multiple
of 64 rows computes all rows alike (tested for shifts of every length), so the sum moves by one
record's integers. Where sizes are hidden, or rows come as a query gives them, only tables are.

Whether a party's records are streamed is decided by public facts: the agreed number of records,
columns and the algorithm. Tables are added up so in memory too (`by_blocks`), in shorter blocks:
one compiled program then serves every number of records.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.algorithm import Aggregate, PricedAlgorithm
from unisono.core.compiled import numbers
from unisono.core.grant import Grant
from unisono.core.kinds import Everyone
from unisono.core.streamed import HELD_BLOCK, StreamedColumns
from unisono.core.study import Study
from unisono.core.trust import Unit
from unisono.engines.chunks import Chunk
from unisono.engines.rounds import Stack
from unisono.errors import UnisonoError

_ROWS = 64  # of the records that stand for shapes


def streamable(study: Study, unordered: bool = False) -> bool:
    """Whether a party's part of this study can be computed block by block."""
    algorithm, facts = study.algorithm, study.facts
    if algorithm.whole or algorithm.batch is not None or algorithm.by_place:
        return False
    if algorithm.inner is not None or algorithm.inside is not None:
        return False
    if jax.tree.leaves(algorithm.init(facts)[1]) and algorithm.begin is None:
        return False  # a party that remembers
    events = algorithm.events(facts, study.trust)
    if not all(
        isinstance(event.sampler, Everyone) and event.sensitivity.unit is Unit.RECORD
        for event in events
    ):
        return False
    ordered = facts.exact_sizes and not unordered
    if algorithm.streamed:  # in memory it is blocks that are rounded
        return ordered and algorithm.in_parts is not None
    return ordered or algorithm.in_parts is not None


def by_blocks(study: Study) -> bool:
    """Whether records in memory are added up block by block, too."""
    return study.algorithm.by_blocks and streamable(study)


class StreamedChunk(Chunk):
    """As `Chunk`, for parties some of whose records are streamed, or are added up in blocks
    wherever they are: in every round their sums are computed first, and the round takes them from
    there. It is compiled, but for `by_blocks`."""

    def __init__(
        self,
        study: Study,
        columns: Sequence[Any],
        alive: np.ndarray,
        seed: int | None,
        order: np.ndarray | None = None,
    ) -> None:
        held = [own for own in columns if not isinstance(own, StreamedColumns)]
        streams = [own for own in columns if isinstance(own, StreamedColumns)]
        block = streams[0].block if streams else HELD_BLOCK
        made = iter([StreamedColumns.of(own, block) for own in held])
        self._columns = [own if isinstance(own, StreamedColumns) else next(made) for own in columns]
        arrays = tuple(
            np.zeros((len(columns), _ROWS, *shape), np.float32) for shape in self._columns[0].shapes
        )
        real = np.ones((len(columns), _ROWS), bool)
        super().__init__(study, Stack(arrays, real), alive, seed, order, summed=True)
        self._block_sums = BlockSums(study)

    def run(self, carry: Any, grants: Sequence[Grant], offset: int, rounds: range) -> Any:
        """Rounds of one chunk, one after the other: what is asked depends on the round before."""
        seen = []
        for number in rounds:
            public = self.study.algorithm.ask(carry[0])
            sums = self._sums(public)
            if self.study.algorithm.by_blocks:
                carry, told = self._round(carry, public, sums, grants, offset, number)
            else:
                self.data = Stack((jnp.asarray(sums),), self.data.real)
                carry, told = super().run(carry, grants, offset, range(number, number + 1))
            seen.append(told)
        return carry, jax.tree.map(lambda *leaves: np.concatenate(leaves), *seen)

    def _round(
        self,
        carry: Any,
        public: Any,
        sums: np.ndarray,
        grants: Sequence[Grant],
        offset: int,
        number: int,
    ) -> Any:
        """As a round of `program`, in NumPy: nothing is compiled for sums of a few numbers."""
        algorithm, facts = self.study.algorithm, self.study.facts
        server, states, held = carry
        _, noise, _ = self._draw(grants, offset, range(number, number + 1))
        values = sums + noise[0, 0]
        alive, turn = self.alive[number], self.asked[number]
        arrived = np.where(alive.reshape(-1, *[1] * (values.ndim - 1)), values, 0)
        total: np.ndarray = arrived
        if algorithm.combine != "each":
            total = arrived.sum(axis=0, dtype=np.int32)
            if self.server_noise is not None:
                total = total + self.server_noise(number, self.shape).astype(np.int32)
        survivors = int(np.sum(alive))
        opened = survivors >= min(facts.minimum_parties, int(np.sum(turn)))
        if opened:
            records = float(np.sum(np.where(alive, self.sizes, 0.0)))
            server = merged(algorithm, server, total, self.grid, survivors, records, alive)
        told = self.told(public, values, total if opened else np.zeros_like(total))
        return (server, states, held), jax.tree.map(lambda leaf: np.asarray(leaf)[None], told)

    def _sums(self, public: Any) -> np.ndarray:
        """Every party's clean sum in quantization steps (parties, ...), modulo 2^32."""
        found = [
            self._block_sums.of(public, own, np.int32(size))
            for own, size in zip(self._columns, self.study.facts.records, strict=True)
        ]
        if not all(valid for _, valid in found):
            raise UnisonoError("a block of records did not keep its bound: nothing was released")
        return np.stack([value for value, _ in found])


def merged(
    algorithm: PricedAlgorithm,
    server: Any,
    total: np.ndarray,
    grid: float,
    survivors: int,
    records: float,
    present: np.ndarray,
) -> Any:
    """The server's state after a round of sums `by_blocks`; engines share it, as programs and NumPy
    differ in the last bits of floats."""
    scaled = total.astype(np.int32) * grid
    with np.errstate(all="ignore"):  # programs do not warn either
        return algorithm.merge(server, Aggregate(scaled, survivors, records, present))


class BlockSums:
    """A party's clean sum over blocks of records, compiled once for all of them, and for all
    studies whose rows are made alike."""

    def __init__(self, study: Study) -> None:
        self._parts = study.algorithm.in_parts
        self._local: Callable[..., Any]
        if self._parts is not None:
            self._local = partial(_by_column(self._parts.local), self._parts.constants)
        else:
            self._local = jax.jit(numbers(partial(study.algorithm.local, study.facts)))

    def of(
        self, public: Any, columns: StreamedColumns, size: Any, state: Any = None
    ) -> tuple[np.ndarray, bool]:
        """In quantization steps, modulo 2^32, and whether every block kept its bound."""
        total: Any = 0
        valid, pending = True, None
        for block, mask in columns.blocks():
            if self._parts is not None:
                block = tuple(column.T for column in block)
            now = self._local(public, state, block, mask, size)
            if pending is not None:  # the next block is read while this one is computed
                total, valid = _added(total, valid, pending)
            pending = now
        assert pending is not None  # there is one block at least
        total, valid = _added(total, valid, pending)
        value = total if self._parts is None else self._parts.join(total, columns.block)
        return value.astype(np.int32), valid


def _by_column(local: Callable[..., Any]) -> Callable[..., Any]:
    """As `numbers`, of columns that lie one after the other, for what keeps its bound whatever the
    records. Tables read them so: a row-by-row layout would be strided through, column by column."""
    try:
        return _compiled(local)
    except TypeError:  # a problem that holds arrays, which are not compared
        return _compiled.__wrapped__(local)


# Programs hold functions and public numbers, never records.
@lru_cache(maxsize=64)
def _compiled(local: Callable[..., Any]) -> Callable[..., Any]:
    def summed(constants: Any, public: Any, own: Any, columns: Any, *given: Any) -> Any:
        rows = tuple(column.T for column in columns)
        return own, local(constants, public, own, rows, *given), jnp.asarray(True)

    return jax.jit(summed)


def _added(total: Any, valid: bool, part: Any) -> tuple[Any, bool]:
    _, value, kept = part
    return total + np.asarray(value).astype(np.int64), valid and bool(kept)


__all__ = ["BlockSums", "StreamedChunk", "by_blocks", "merged", "streamable"]
