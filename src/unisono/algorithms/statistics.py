"""Count, sum, mean, variance, proportion, histogram and contingency table over several parties.

Each builder returns a `Question`: a block of bounded rows and a way to read what was opened.
Questions are asked together, in ONE release, by a `Survey` (see `survey`).

Rows and their bounds are proved in `releases.rows`: counts and sums are intervals, means and
variances the moments of u = (x - centre) / half range in [-1, 1], histograms ones in cells. Values
outside the public bounds are clipped, never refused.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from unisono.algorithms import readings
from unisono.algorithms.estimates import Estimate
from unisono.algorithms.readings import Noisy, Sizes
from unisono.algorithms.survey import STATISTICS, Question, Survey, remembered
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
from unisono.releases.rows import Interval, Moments, Ones
from unisono.releases.table import Block, codes

# ------------------------------------------------------------------- questions


def _grouped(block: Block, by: Groups | None) -> Block:
    return block if by is None else block.by(by.column, len(by.labels))


def _about(by: Groups | None, **settings: Any) -> tuple[tuple[str, Any], ...]:
    group = () if by is None else (("by", by.column), ("groups", tuple(map(str, by.labels))))
    return (*settings.items(), *group)


_TRUE = Interval(0.0, 1.0, whole=True)


def _is_true(column: int, public: Any, features: Any) -> Any:
    return jnp.where(features[:, column] == 1, 1.0, 0.0)


def _value(column: int, public: Any, features: Any) -> Any:
    return features[:, column]


def _signed(column: int, public: Any, features: Any) -> Any:
    values = features[:, column]
    return jnp.where(jnp.isfinite(values), jnp.where(values == 1, 1.0, -1.0), jnp.nan)


def _moments(spread: bool, sizes: Sizes | None, whole: bool, multiple: int) -> Moments:
    """Rows of moments, with a count where sizes are not public; a half needs an even multiple."""
    weight = 0.0 if sizes is None else sizes.weight
    return Moments(spread, weight, whole, multiple if weight.is_integer() else 2 * multiple)


@remembered
def count(column: int, *, name: str = "count", by: Groups | None = None) -> Question:
    """How many records have 1 (true) in `column`."""
    block = _grouped(Block(name, _TRUE, partial(_is_true, column)), by)
    labels = () if by is None else by.labels
    read = partial(readings.read_counts, name, labels, "each count" if by else "the count")
    return Question(name, lambda hidden: block, read, _about(by, kind="count", column=column))


@remembered
def total(
    column: int,
    bounds: Bounds,
    *,
    name: str = "sum",
    step: float | None = None,
    by: Groups | None = None,
) -> Question:
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

    def plain(public: Any, features: Any) -> Any:
        return over_unit(jnp.clip(features[:, column], low, high), unit, whole, step)

    def centred(public: Any, features: Any) -> Any:
        clipped = jnp.clip(features[:, column], low, high) - centre
        return over_unit(clipped, half, multiple, step)

    def build(sizes: Sizes | None) -> Block:
        exact = is_whole(low, high, step)
        if sizes is None and by is None:
            error = input_error(low, high)
            return Block(name, Interval(-1.0, 2.0, exact, multiple), centred, error=error)
        if step is None:
            rows = Interval(low / unit, (high - low) / unit)
        else:
            least, most = round(low / step), round(high / step)
            rows = Interval(least / whole, max(1, most - least) / whole, exact, whole)
        return _grouped(Block(name, rows, plain), by)

    labels = () if by is None else by.labels

    def read(noisy: Noisy, probability: float, certificate: Certificate) -> Sequence[Estimate]:
        known = noisy.exact_sizes and by is None
        scale, offset = (half, centre * noisy.records) if known else (unit, 0.0)
        return readings.read_sums(name, labels, scale, offset, noisy, probability, certificate)

    about = _about(by, kind="sum", column=column, bounds=(low, high), step=step)
    return Question(name, build, read, about)


@remembered
def mean(
    column: int,
    bounds: Bounds,
    *,
    name: str = "value",
    step: float | None = None,
    by: Groups | None = None,
    wanted: tuple[str, ...] = ("mean",),
    spread: bool = True,
) -> Question:
    """Mean and, with `spread`, variance and standard deviation of a column, in one event.

    The spread is free under Gaussian noise and replace-one, and gives the sampling error of the
    mean; without it pure epsilon buys a mean that is better by a factor 1.3.
    """
    low, high = require_bounds(bounds, name)
    if not spread and wanted != ("mean",):
        raise InvalidInput(f"{wanted} of {name} need the second moment: leave spread=True")
    centre, half, multiple = centre_of(low, high, step)
    counted = by is not None

    def unit(public: Any, features: Any) -> Any:
        clipped = jnp.clip(features[:, column], low, high) - centre
        return over_unit(clipped, half, multiple, step)

    def build(sizes: Sizes | None) -> Block:
        rows = _moments(spread, Sizes() if counted else sizes, is_whole(low, high, step), multiple)
        block = Block(name, rows, unit, error=input_error(low, high))
        return _grouped(block, by)

    labels = () if by is None else by.labels
    read = partial(readings.read_moments, name, labels, centre, half, wanted, counted, spread)
    about = _about(by, kind="moments", column=column, bounds=(low, high), step=step, spread=spread)
    return Question(name, build, read, about)


def variance(column: int, bounds: Bounds, **options: Any) -> Question:
    """The variance of the records, sum (x - mean)² / n."""
    return mean(column, bounds, wanted=("variance",), **options)


def standard_deviation(column: int, bounds: Bounds, **options: Any) -> Question:
    """The square root of the variance."""
    return mean(column, bounds, wanted=("standard deviation",), **options)


@remembered
def proportion(column: int, *, name: str = "proportion", by: Groups | None = None) -> Question:
    """The share of records with 1 in `column`: of all, or of each group."""

    def cells(public: Any, features: Any) -> Any:
        return jnp.where(features[:, column] == 1, 1, 0).astype(jnp.int32)[:, None]

    def build(sizes: Sizes | None) -> Block:
        if by is None and sizes is None:
            return Block(name, _TRUE, partial(_is_true, column))
        if by is None and sizes is not None and sizes.replaced:
            # As accurate as the count of those with 1, which noise of pairs is not.
            return Block(name, _moments(False, sizes, True, 1), partial(_signed, column))
        pair = Block(name, Ones(), partial(_value, column), cells=cells, level_sizes=(2,))
        return _grouped(pair, by)

    labels = () if by is None else by.labels

    def read(noisy: Noisy, probability: float, certificate: Certificate) -> Sequence[Estimate]:
        paired = by is not None or not noisy.exact_sizes
        return readings.read_proportions(name, labels, paired, noisy, probability, certificate)

    return Question(name, build, read, _about(by, kind="proportion", column=column))


@remembered
def histogram(
    column: int,
    labels: tuple[Any, ...],
    *,
    edges: Sequence[float] | None = None,
    name: str = "histogram",
    by: Groups | None = None,
) -> Question:
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

    def cells(public: Any, features: Any) -> Any:
        values = features[:, column]
        if limits is None:
            return codes(values, bins)[:, None]
        found = jnp.searchsorted(jnp.asarray(limits), values, side="right") - 1
        return jnp.clip(found, 0, bins - 1).astype(jnp.int32)[:, None]

    def build(sizes: Sizes | None) -> Block:
        block = Block(name, Ones(), partial(_value, column), cells=cells, level_sizes=(bins,))
        return _grouped(block, by)

    shown = labels if by is None else tuple((g, label) for g in by.labels for label in labels)
    read = partial(readings.read_counts, name, shown, "each of the counts")
    about = _about(
        by,
        kind="histogram",
        column=column,
        labels=tuple(map(str, labels)),
        edges=None if edges is None else tuple(float(e) for e in edges),
    )
    return Question(name, build, read, about)


def contingency(first: Groups, second: Groups, *, name: str = "table") -> Question:
    """How many records have each pair of public categories."""
    return histogram(second.column, second.labels, name=name, by=first)


__all__ = [
    "STATISTICS",
    "Groups",
    "Question",
    "Survey",
    "contingency",
    "count",
    "histogram",
    "mean",
    "proportion",
    "require_bounds",
    "standard_deviation",
    "total",
    "variance",
]
