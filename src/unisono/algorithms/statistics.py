"""Count, sum, mean, variance, proportion, histogram and contingency table over several parties.

Each builder returns a `Question`: a block of bounded rows and a way to read what was opened.
Questions are asked together, in ONE release, by a `Survey` (see `survey`).

With u = (x - centre) / half range in [-1, 1] the rows and their bounds (one record alone; the
distance of two records) are

    count       [condition]             alone 1            within 1
    sum         x / max |bound|         alone 1            within range / max |bound|
    mean        u                       alone 1            within 2
    moments     (u, √2 (u² - 3/4))      alone l1 1 + √2/4, l2 3/√8;  within l1 √2 (1 + √2/4)², l2 2
    histogram   1 in its bin            alone 1, several cells

Moments: with s = |u + v|, d = |u - v| and s + d <= 2 the distance is d (1 + √2 s) in l1, largest
at d = 1 + √2/4, and d sqrt(1 + 2 s²) in l2, which falls in s, so it is largest at s = 0: the second
moment is free under Gaussian noise and replace-one. A row alone has l2² = 2u⁴ - 2u² + 9/8.
Where sizes are hidden, or there are groups, a 1 precedes the row, so that the noisy size is
released in the same event. Values outside the public bounds are clipped, never refused.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from unisono.algorithms import readings
from unisono.algorithms.estimates import Estimate
from unisono.algorithms.readings import Noisy
from unisono.algorithms.survey import STATISTICS, Question, Survey
from unisono.core.certificate import Certificate
from unisono.errors import InvalidInput
from unisono.problems.columns import (
    Bounds,
    Groups,
    centre_of,
    input_error,
    is_whole,
    over_unit,
    require_bounds,
    steps_in,
)
from unisono.releases.table import Block, Size, codes

_ROOT = math.sqrt(2.0)
_FAR = 1 + _ROOT / 4


# ------------------------------------------------------------------- questions


def _grouped(block: Block, by: Groups | None) -> Block:
    return block if by is None else block.by(by.column, len(by.labels))


def _about(by: Groups | None, **settings: Any) -> tuple[tuple[str, Any], ...]:
    group = () if by is None else (("by", by.column), ("groups", tuple(map(str, by.labels))))
    return (*settings.items(), *group)


def count(column: int, *, name: str = "count", by: Groups | None = None) -> Question:
    """How many records have 1 (true) in `column`."""

    def rows(public: Any, features: Any) -> Any:
        return jnp.where(features[:, column] == 1, 1.0, 0.0)[:, None]

    block = _grouped(Block(name, rows, Size(1, 1), Size(1, 1)), by)
    labels = () if by is None else by.labels
    read = partial(readings.read_counts, name, labels, "each count" if by else "the count")
    return Question(name, lambda hidden: block, read, _about(by, kind="count", column=column))


def total(
    column: int, bounds: Bounds, *, name: str = "sum", step: float | None = None,
    by: Groups | None = None,
) -> Question:  # fmt: skip
    """The sum of a column, clipped to public bounds.

    With a `step` the values are multiples of it (1 for whole numbers) and are added exactly.
    Where the number of records is public the values are centred first, so the noise is in
    proportion to the range and not to the largest value.
    """
    low, high = require_bounds(bounds, name)
    centre, half, multiple = centre_of(low, high, step)
    unit = max(abs(low), abs(high))
    whole = 1 if step is None else steps_in(unit, step)
    unit = unit if step is None else whole * step

    def rows(public: Any, features: Any) -> Any:
        return over_unit(jnp.clip(features[:, column], low, high), unit, whole, step)[:, None]

    def centred(public: Any, features: Any) -> Any:
        clipped = jnp.clip(features[:, column], low, high) - centre
        return over_unit(clipped, half, multiple, step)[:, None]

    def build(hidden: bool) -> Block:
        exact = (is_whole(low, high, step),)
        if not hidden and by is None:
            return Block(
                name, centred, Size(1, 1), Size(2, 2), 1.0, 1, exact, multiple,
                error=input_error(low, high),
            )  # fmt: skip
        # Rounding both values to multiples of the step moves them apart by one step at most.
        within = min(2.0, (high - low + (step or 0.0)) / unit)
        block = Block(name, rows, Size(1, 1), Size(within, within), 1.0, 1, exact, whole)
        return _grouped(block, by)

    labels = () if by is None else by.labels

    def read(noisy: Noisy, probability: float, certificate: Certificate) -> Sequence[Estimate]:
        known = noisy.exact_sizes and by is None
        scale, offset = (half, centre * noisy.records) if known else (unit, 0.0)
        return readings.read_sums(name, labels, scale, offset, noisy, probability, certificate)

    about = _about(by, kind="sum", column=column, bounds=(low, high), step=step)
    return Question(name, build, read, about)


def mean(
    column: int, bounds: Bounds, *, name: str = "value", step: float | None = None,
    by: Groups | None = None, wanted: tuple[str, ...] = ("mean",), spread: bool = True,
) -> Question:  # fmt: skip
    """Mean and, with `spread`, variance and standard deviation of a column, in one event.

    The spread is free under Gaussian noise and replace-one, and gives the sampling error of the
    mean; without it pure epsilon buys a mean that is better by a factor 1.3.
    """
    low, high = require_bounds(bounds, name)
    if not spread and wanted != ("mean",):
        raise InvalidInput(f"{wanted} of {name} need the second moment: leave spread=True")
    centre, half, multiple = centre_of(low, high, step)
    counted = by is not None

    def rows(with_size: bool, public: Any, features: Any) -> Any:
        clipped = jnp.clip(features[:, column], low, high) - centre
        u = jnp.clip(over_unit(clipped, half, multiple, step), -1.0, 1.0)
        parts = [jnp.where(jnp.isfinite(u), 1.0, u)] if with_size else []
        parts += [u] + ([_ROOT * (u * u - 0.75)] if spread else [])
        return jnp.stack(parts, axis=1)

    def build(hidden: bool) -> Block:
        sized = hidden or counted
        alone = Size(_FAR, 3 / math.sqrt(8.0)) if spread else Size(1.0, 1.0)
        within = Size(_ROOT * _FAR**2, 2.0) if spread else Size(2.0, 2.0)
        if sized:
            alone = Size(1 + alone.l1, math.hypot(1.0, alone.l2))
        whole = (
            *((True,) if sized else ()),
            is_whole(low, high, step),
            *((False,) if spread else ()),
        )
        block = Block(
            name, partial(rows, sized), alone, within, 1.5 / _ROOT if spread else 1.0, len(whole),
            whole, multiple, error=input_error(low, high),
        )  # fmt: skip
        return _grouped(block, by)

    labels = () if by is None else by.labels
    read = partial(readings.read_moments, name, labels, centre, half, wanted, counted, spread)
    about = _about(
        by, kind="moments", column=column, bounds=(low, high), step=step, spread=spread
    )  # fmt: skip
    return Question(name, build, read, about)


def variance(column: int, bounds: Bounds, **options: Any) -> Question:
    """The variance of the records, sum (x - mean)² / n."""
    return mean(column, bounds, wanted=("variance",), **options)


def standard_deviation(column: int, bounds: Bounds, **options: Any) -> Question:
    """The square root of the variance."""
    return mean(column, bounds, wanted=("standard deviation",), **options)


def proportion(column: int, *, name: str = "proportion", by: Groups | None = None) -> Question:
    """The share of records with 1 in `column`: of all, or of each group."""

    def rows(public: Any, features: Any) -> Any:
        return jnp.where(features[:, column] == 1, 1.0, 0.0)[:, None]

    def ones(public: Any, features: Any) -> Any:
        return jnp.where(jnp.isfinite(features[:, column]), 1.0, jnp.nan)[:, None]

    def cells(public: Any, features: Any) -> Any:
        return jnp.where(features[:, column] == 1, 1, 0).astype(jnp.int32)[:, None]

    def build(hidden: bool) -> Block:
        if by is None and not hidden:
            return Block(name, rows, Size(1, 1), Size(1, 1))
        pair = Block(name, ones, Size(1, 1), Size(0, 0), cells=cells, cell_count=2)
        return _grouped(pair, by)

    labels = () if by is None else by.labels

    def read(noisy: Noisy, probability: float, certificate: Certificate) -> Sequence[Estimate]:
        paired = by is not None or not noisy.exact_sizes
        return readings.read_proportions(name, labels, paired, noisy, probability, certificate)

    return Question(name, build, read, _about(by, kind="proportion", column=column))


def histogram(
    column: int, labels: tuple[Any, ...], *, edges: Sequence[float] | None = None,
    name: str = "histogram", by: Groups | None = None,
) -> Question:  # fmt: skip
    """How many records fall into each public bin, or have each public category.

    Without `edges` the column holds category numbers. With edges e_0 < ... < e_b bin i is
    [e_i, e_{i+1}); values outside fall into the first or last bin.
    """
    bins = len(labels)
    limits = None if edges is None else np.asarray(edges, np.float32)
    if limits is not None and (
        len(limits) != bins + 1 or not np.isfinite(limits).all() or (np.diff(limits) <= 0).any()
    ):
        raise InvalidInput(
            f"{len(limits)} edges for {bins} bins of {name}: give one more edge than bins, "
            "finite and increasing"
        )
    if not bins:
        raise InvalidInput(f"the histogram of {name} has no bins: name at least one category")

    def ones(public: Any, features: Any) -> Any:
        return jnp.where(jnp.isfinite(features[:, column]), 1.0, jnp.nan)[:, None]

    def cells(public: Any, features: Any) -> Any:
        values = features[:, column]
        if limits is None:
            return codes(values, bins)[:, None]
        found = jnp.searchsorted(jnp.asarray(limits), values, side="right") - 1
        return jnp.clip(found, 0, bins - 1).astype(jnp.int32)[:, None]

    def build(hidden: bool) -> Block:
        block = Block(name, ones, Size(1, 1), Size(0, 0), cells=cells, cell_count=bins)
        return _grouped(block, by)

    shown = labels if by is None else tuple((g, label) for g in by.labels for label in labels)
    read = partial(readings.read_counts, name, shown, "each of the counts")
    about = _about(
        by, kind="histogram", column=column, labels=tuple(map(str, labels)),
        edges=None if edges is None else tuple(float(e) for e in edges),
    )  # fmt: skip
    return Question(name, build, read, about)


def contingency(first: Groups, second: Groups, *, name: str = "table") -> Question:
    """How many records have each pair of public categories."""
    return histogram(second.column, second.labels, name=name, by=first)


__all__ = [
    "STATISTICS", "Groups", "Question", "Survey", "contingency", "count", "histogram", "mean",
    "proportion", "require_bounds", "standard_deviation", "total", "variance",
]  # fmt: skip
