"""Sums of clipped per-record gradients of any loss, by blocks of records.

A record's gradient g = (g_1, ..., g_K), cut into K groups of parameters, becomes

    flat         u = g min(1, C / ||g||) / C                        one group, K = 1
    per layer    u_k = g_k min(1, C_k / ||g_k||) / (C_k sqrt(K))    one group for each array
    normalised   u = g / (||g|| + 0.01)                             no bound to choose

so that ||u|| <= 1 in every case: the noise is the same whatever the bounds are, and bounds may
change from round to round. The server multiplies by what the parties divided by.

A record may add gauges, numbers in [-κ, κ]: whether its norm is within each bound, from which the
bounds follow a quantile of the norms (Andrew et al. 2021), and its loss, cut to a public range.
They are released together with the gradient by the same Gaussian: ||(u, gauges)||² <= 1 + m κ².
A record whose loss or gradient is not finite adds nothing at all.

`BlockedSum` is the bound; what the server reads from a noisy sum (`read`, `moved`) stands beside
it, because it undoes the same scaling.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from pydantic import Field

from unisono.core.algorithm import Facts, SumTerms
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Sensitivity, positive
from unisono.core.trust import Unit
from unisono.core.values import _BOUNDED_ONLY, Contribution, blocked_sum_sensitivity
from unisono.errors import InvalidInput
from unisono.problems.per_record import PerRecord, Pieces, cut, masked
from unisono.releases.release import Release, batch_size, record_terms

Style = Literal["flat", "per-layer", "normalised"]
STYLES: tuple[Style, ...] = ("flat", "per-layer", "normalised")
_SOFT = 0.01
_TINY = 1e-30
_LEAST, _MOST = 1e-12, 1e12
# Rounding adds about this part to the sensitivity.
ROUNDING_SHARE = 1 / 128
# The sampler in compiled programs is proved for noise of up to so many steps: wide noise takes
# coarser ones, which cost little beside it.
_COARSER = (1, 2, 4, 8, 32, 128, 512)
# So many numbers of records' gradients are held at once (512 kB), or those of one block.
_TOGETHER = 2**17
# Float errors of norms let a sum exceed its bound by far less than this.
_FLOAT_SLACK = 1.01


@dataclass(frozen=True)
class Clipping:
    """How gradients are bounded, all of it public.

    With a `quantile` the bounds move, by steps of `rate` in their logarithm, until this part of the
    records lies within them. With a `loss_range` the average loss, cut to [0, loss_range], is
    released too. `gauge` is κ: each gauge costs a share κ² / 2 of the noise. Records are added up
    in blocks of `block`: the memory they take, not the result, depends on it (but for rounding).
    """

    style: Annotated[
        Style,
        Field(description="One bound for a gradient, one for each layer, or all scaled to it."),
    ] = "flat"
    bound: Annotated[float, Field(description="The largest norm; longer ones are clipped.")] = 1.0
    quantile: Annotated[
        float | None, Field(description="The share that bounds follow; left out: they stay.")
    ] = None
    rate: Annotated[float, Field(description="How fast bounds follow the quantile.")] = 0.2
    loss_range: Annotated[
        float, Field(description="Also release the average loss, cut to this; 0: not.")
    ] = 0.0
    gauge: Annotated[
        float, Field(description="What is released beside gradients, as a share of their bound.")
    ] = 0.1
    block: Annotated[int, Field(description="So many records are added up at a time.")] = 128

    def __post_init__(self) -> None:
        positive(bound=self.bound, rate=self.rate, gauge=self.gauge, block=self.block)
        if self.style not in STYLES:
            raise InvalidInput(f"clipping {self.style!r}: choose one of {', '.join(STYLES)}")
        if self.quantile is not None and not 0 < self.quantile < 1:
            raise InvalidInput(
                f"quantile = {self.quantile!r}: the part of the gradients that stays unclipped "
                "lies in (0, 1)"
            )
        if self.quantile is not None and self.style == "normalised":
            raise InvalidInput("normalised gradients have no bound that could follow a quantile")
        if not (math.isfinite(self.loss_range) and self.loss_range >= 0):
            raise InvalidInput(f"loss_range = {self.loss_range!r}: a number, or 0 for no release")
        if not _LEAST <= self.bound <= _MOST or self.block > 4096:
            raise InvalidInput(
                f"bound = {self.bound!r}, block = {self.block!r}: bounds lie in [1e-12, 1e12] and "
                "blocks hold at most 4096 records, or float32 arithmetic loses too much"
            )

    def groups(self, problem: PerRecord) -> int:
        return len(problem.leaves) if self.style == "per-layer" else 1

    def gauges(self, problem: PerRecord) -> int:
        """How many numbers a record adds besides its gradient."""
        followed = 0 if self.quantile is None else self.groups(problem)
        return followed + (1 if self.loss_range else 0)

    def length(self, problem: PerRecord) -> int:
        """How many numbers are released in all."""
        return problem.dimension + self.gauges(problem)

    def start(self, problem: PerRecord) -> Any:
        """The first bounds (groups,): of a whole gradient of norm `bound`."""
        groups = self.groups(problem)
        return jnp.full(groups, self.bound / math.sqrt(groups), jnp.float32)

    def sensitivity(self, problem: PerRecord, step: float, hides_presence: bool) -> Sensitivity:
        """How far one record moves the sum."""
        if hides_presence and self.block % 64:
            raise InvalidInput(
                f"block = {self.block} where sizes are hidden: a compiled program treats all rows "
                "of a block alike only if it has a multiple of 64; use 64, 128 or 256"
            )
        return blocked_sum_sensitivity(
            step,
            problem.dimension,
            self.block,
            problem.terms,
            self.gauges(problem),
            self.gauge,
            hides_presence,
        )


@dataclass(frozen=True)
class BlockedSum:
    """Σ over records of (u, gauges): one record moves it by 1, more by gauges, floats and rounding.

    `raw`: the parameters at which gradients are taken, the clipping bounds (groups,), and the
    records' columns. With a `group` the plan is of a loss of persons, of up to so many records.
    """

    plan: PerRecord
    clipping: Clipping
    group: int = 1
    unit = Unit.RECORD
    whole = False
    batched = True
    in_graph = True
    pure = ""

    @property
    def dimension(self) -> int:
        return self.clipping.length(self.plan)

    def steps(self, release: Release, facts: Facts, privacy: Privacy) -> Iterator[float]:
        fine = finest_step(self.dimension, facts.parties * batch_size(release, facts))
        yield from (fine * factor for factor in _COARSER)

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        return self.clipping.sensitivity(self.plan, step, hides_presence=not facts.exact_sizes)

    def sum_bound(self, release: Release, facts: Facts, privacy: Privacy) -> float:
        largest = max(1.0, self.clipping.gauge)
        return _FLOAT_SLACK * largest * release.summed(batch_size(release, facts), facts)

    def terms(self, facts: Facts, privacy: Privacy, step: float) -> SumTerms:
        return record_terms(self, facts, privacy, step)

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, None]:
        parameters, bounds, columns = raw
        hides_presence = not facts.exact_sizes
        return clipped_sum(
            self.plan, self.clipping, parameters, bounds, columns, mask, step, hides_presence
        ), None


def finest_step(dimension: int, records: int) -> float:
    """A power of two so fine that rounding adds little to the sensitivity (1 before rounding),
    unless a sum over so many records needs coarser steps to fit 32 bits."""
    fine = ROUNDING_SHARE / math.sqrt(dimension)
    coarse = 8 * records / 2**31
    return 2.0 ** (math.floor(math.log2(fine)) if fine >= coarse else math.ceil(math.log2(coarse)))


class Reading(NamedTuple):
    """What the server reads from a noisy sum: gradient leaves, and averages of the gauges."""

    gradient: list[Any]
    within: Any
    loss: Any


def clipped_sum(
    problem: PerRecord,
    clipping: Clipping,
    parameters: Any,
    bounds: Any,
    records: Any,
    mask: Any,
    step: float,
    hides_presence: bool,
) -> Contribution:
    """Σ over records of (u, gauges), as integers in steps: (dimension + gauges,).

    Works through the batch in blocks, as many as hold a record whose mask is on.
    """
    rows = mask.shape[0]
    # Bounds come from the server: whatever it says, they are numbers in range.
    bounds = jnp.where(jnp.isfinite(bounds), jnp.clip(bounds, _LEAST, _MOST), 1.0)
    count = -(-rows // min(clipping.block, rows))
    size = _even_block(clipping.block, rows, count)
    turns = -(-count // _blocks_at_once(problem, size))
    together = -(-count // turns)
    padding = turns * together * size - rows

    def blocks(column: Any) -> Any:
        padded = jnp.pad(column, [(0, padding)] + [(0, 0)] * (column.ndim - 1))
        return padded.reshape(turns, together, size, *column.shape[1:])

    records, mask = jax.tree.map(blocks, records), blocks(mask)

    def add(number: Any, total: list[Any]) -> list[Any]:
        own = jax.tree.map(lambda column: column[number], records)
        added = _blocks(problem, clipping, parameters, bounds, own, mask[number], step)
        return [a + b for a, b in zip(total, added, strict=True)]

    total = [jnp.zeros(leaf.shape, jnp.int32) for leaf in problem.leaves]
    total.append(jnp.zeros(clipping.gauges(problem), jnp.int32))
    if turns == 1:
        total = add(0, total)
    else:
        last = jnp.max(jnp.where(jnp.any(mask, axis=(1, 2)), jnp.arange(1, turns + 1), 0))
        total = jax.lax.fori_loop(0, last, add, total)
    vector = jnp.concatenate([part.reshape(-1) for part in total])
    bound = clipping.sensitivity(problem, step, hides_presence)
    return Contribution(vector, step, bound, maker=_BOUNDED_ONLY)


def _even_block(block: int, rows: int, count: int) -> int:
    """The smallest multiple of 64 at which `count` blocks hold all rows, so that few are padding;
    blocks that are no such multiples, and treat rows differently, stay as they are."""
    lanes = 64 if block % 64 == 0 else block
    return min(block, rows, lanes * -(-rows // (count * lanes)))


def _blocks_at_once(problem: PerRecord, size: int) -> int:
    """How many blocks of this size are computed together: those of small models, whose single
    operations are so short that a program would mostly start them."""
    held = sum(sum(f.shape) if f.kind == "outer" else f.size for f in problem.leaves)
    return max(1, _TOGETHER // (size * max(1, held)))


def _blocks(
    problem: PerRecord,
    clipping: Clipping,
    parameters: Any,
    bounds: Any,
    records: Any,
    mask: Any,
    step: float,
) -> list[Any]:
    """The sum of blocks (blocks, size, ...) in steps: of each block a float sum per array of
    parameters, rounded once; the rest is integers."""
    blocks, size = mask.shape
    records = jax.tree.map(lambda column: column.reshape(-1, *column.shape[2:]), records)
    mask = mask.reshape(-1)
    pieces = _computed_once(problem, parameters, bounds, records)
    norms = problem.norms(pieces)
    keep = mask & jnp.isfinite(pieces.losses) & jnp.all(jnp.isfinite(norms), axis=1)
    pieces = masked(pieces, keep)
    weights, within = _weights(clipping, jnp.where(keep[:, None], norms, 0.0), bounds)
    weights = jnp.where(keep[:, None], weights / step, 0.0)
    rounded = _rounded_sums(problem, pieces, weights, blocks, size)
    readings = _gauges(clipping, within, pieces.losses)
    gauge = jnp.round(clipping.gauge / step * readings).astype(jnp.int32)
    return [*rounded, jnp.sum(jnp.where(keep[:, None], gauge, 0), axis=0)]


def _rounded_sums(
    problem: PerRecord, pieces: Pieces, weights: Any, blocks: int, size: int
) -> list[Any]:
    """Σ w_i g_i of every block, rounded, and added up as integers."""

    def rounded(pieces: Pieces, weights: Any) -> list[Any]:
        return [jnp.round(p).astype(jnp.int32) for p in problem.weighted(pieces, weights)]

    if blocks == 1:
        return rounded(pieces, weights)

    def apart(leaf: Any) -> Any:
        return leaf.reshape(blocks, size, *leaf.shape[1:])

    each = jax.vmap(rounded)(*jax.tree.map(apart, (pieces, weights)))
    return [jnp.sum(part, axis=0, dtype=jnp.int32) for part in each]


def _computed_once(problem: PerRecord, parameters: Any, bounds: Any, records: Any) -> Pieces:
    """The pieces of gradients, in memory: what is added is, bit for bit, what the norms saw.

    A compiler that fuses computes them once for the norms and once more for the sum, and may round
    products differently there: 1 - tanh² of a saturated neuron then differs in its first digit, and
    a sum exceeds its bound. XLA drops barriers before it fuses, but keeps what a branch gives in
    memory: so this is one, taken always (bounds are positive by now, which no compiler knows), by
    all parties of a vectorised program at once."""

    def computed() -> Pieces:
        return cut(problem.pieces(parameters, records))

    def nothing() -> Pieces:
        return jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), shapes)

    shapes = jax.eval_shape(computed)
    return jax.lax.cond(_positive(bounds), computed, nothing)


@jax.custom_batching.custom_vmap
def _positive(bounds: Any) -> Any:
    return jnp.all(bounds > 0)


@_positive.def_vmap
def _all_positive(axis_size: int, in_batched: Any, bounds: Any) -> tuple[Any, bool]:
    return _positive(bounds), False


def _weights(clipping: Clipping, norms: Any, bounds: Any) -> tuple[Any, Any]:
    """What each array of each record's gradient is multiplied with, (n, leaves), and whether each
    group of parameters is within its bound, (n, groups)."""
    if clipping.style != "per-layer":
        # Of norms up to 1e34: scaled first, or their squares overflow.
        largest = jnp.maximum(jnp.max(norms, axis=1, keepdims=True), _TINY)
        parts = norms / largest
        norms = largest * jnp.sqrt(jnp.sum(parts * parts, axis=1, keepdims=True))
    within = norms <= bounds
    if clipping.style == "normalised":
        return 1.0 / (norms + _SOFT), within
    weights = 1.0 / (jnp.maximum(norms, bounds) * math.sqrt(norms.shape[1]))
    return weights, within


def _gauges(clipping: Clipping, within: Any, losses: Any) -> Any:
    """Numbers in [-1, 1] of every record: (n, gauges)."""
    found = []
    if clipping.quantile is not None:
        found.append(jnp.where(within, 1.0, -1.0))
    if clipping.loss_range:
        part = jnp.clip(losses / clipping.loss_range, 0.0, 1.0)
        found.append(1.0 - 2.0 * part[:, None])
    return jnp.concatenate(found, axis=1) if found else jnp.zeros((len(losses), 0))


def read(problem: PerRecord, clipping: Clipping, bounds: Any, total: Any, expected: Any) -> Reading:
    """A noisy sum (dimension + gauges,) over `expected` records, taken apart.

    The gauges are centred, so that a batch that happens to be larger or smaller than expected
    moves the estimates towards the middle only.
    """
    scale = jnp.ones(1)
    if clipping.style != "normalised":
        scale = bounds * math.sqrt(bounds.shape[0])
    gradient, begin = [], 0
    for number, leaf in enumerate(problem.leaves):
        part = total[begin : begin + leaf.size].reshape(leaf.shape)
        gradient.append(part * (scale[number if len(scale) > 1 else 0] / expected))
        begin += leaf.size
    means = total[begin:] / (clipping.gauge * expected)
    followed = 0 if clipping.quantile is None else clipping.groups(problem)
    loss = jnp.float32(jnp.nan)
    if clipping.loss_range:
        loss = clipping.loss_range * (1.0 - means[followed]) / 2.0
    return Reading(gradient, (1.0 + means[:followed]) / 2.0, loss)


def moved(clipping: Clipping, bounds: Any, within: Any) -> Any:
    """Bounds after a round: C <- C exp(-rate (part within - quantile)).

    More within than wanted: the bound falls; fewer: it rises (from both sides).
    """
    if clipping.quantile is None:
        return bounds
    gap = jnp.clip(within, 0.0, 1.0) - clipping.quantile
    return jnp.clip(bounds * jnp.exp(-clipping.rate * gap), _LEAST, _MOST)
