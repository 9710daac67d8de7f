"""Minimum, maximum, median and any quantile through ONE noisy hierarchical histogram.

A public range is cut into b^L leaves. On level l = 1..L every record counts in one of b^l nodes,
so it moves L numbers by 1: l1 = L, l2 = sqrt(L) alone, twice and sqrt(2) times that when replaced.
All quantiles are read from this one release:

    consistent   the leaves that fit all noisy nodes best: weighted least squares in two passes
                 (Hay et al. 2010), for any branching; the root is the public number of records
    monotone     the running sums of the leaves, made non-decreasing by isotonic regression
    inverted     the value at which the distribution function crosses q, linear within a leaf

With F the monotone running sums, N their last one and s² the public variance of the records left of
an edge less q N, both by least squares, the interval is rounded outwards to edges of leaves:

    these records    [F⁻¹(q N - z s), F⁻¹(q N + z s)]
    the population   the same with s² + q (1 - q) N

It misses only if F errs by more than z s at one of the two edges around the true quantile, so no
correction for the number of leaves is needed. That isotonic regression adds no error there is not
proved, but measured (`tests/algorithms/test_two_intervals.py`). Where noise covers both ends of the
range, nothing is estimable.

Minimum and maximum of a data set cannot be released: one record decides them. What is released are
quantiles so extreme that the records beyond them are about as many as the noise can hide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.optimize import isotonic_regression

from unisono.algorithms.estimates import Estimate, joined
from unisono.algorithms.readings import Noisy, error_margin
from unisono.algorithms.survey import Question, remembered
from unisono.core.certificate import Certificate
from unisono.errors import InvalidInput
from unisono.problems.columns import Bounds, Groups, require_bounds
from unisono.releases.rows import Ones
from unisono.releases.table import Block

MINIMUM, MAXIMUM = "minimum", "maximum"


@dataclass(frozen=True)
class Tree:
    """Leaves of equal width over a public range, or over asinh(x / fine) where `fine` is given.

    The second spacing resolves values near zero to about `fine` / leaves and large ones relative
    to their size, for columns of which little is known.

    >>> Tree(0.0, 16.0, branching=4, levels=2).edges[:3]
    array([0., 1., 2.])
    """

    low: float
    high: float
    branching: int = 16
    levels: int = 3
    fine: float | None = None

    def __post_init__(self) -> None:
        require_bounds((self.low, self.high), "the range")
        if self.branching < 2 or self.levels < 1 or self.leaves > 2**20:
            raise InvalidInput(
                f"a tree of {self.levels} levels with {self.branching} branches each: give at "
                "least 2 branches and 1 level, and at most 2^20 leaves"
            )
        if self.fine is not None and not (math.isfinite(self.fine) and self.fine > 0):
            raise InvalidInput(f"fine = {self.fine!r} is not a positive number")

    @property
    def leaves(self) -> int:
        return int(self.branching**self.levels)

    @property
    def ends(self) -> tuple[float, float]:
        """The range on the scale on which leaves are equal."""
        if self.fine is None:
            return self.low, self.high
        return math.asinh(self.low / self.fine), math.asinh(self.high / self.fine)

    @property
    def edges(self) -> np.ndarray:
        """The leaves' public borders, (leaves + 1,)."""
        inner = np.linspace(*self.ends, self.leaves + 1)
        return inner if self.fine is None else np.sinh(inner) * self.fine

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where the nodes of level 1..L begin in the flat vector."""
        counts = [self.branching**level for level in range(1, self.levels + 1)]
        return tuple(sum(counts[:i]) for i in range(len(counts)))

    @property
    def nodes(self) -> int:
        return self.offsets[-1] + self.leaves

    def cells(self, values: Any) -> Any:
        """The node of every value on each level, (n, levels)."""
        low, high = self.ends
        placed = values if self.fine is None else jnp.arcsinh(values / self.fine)
        leaf = jnp.floor((placed - low) * (self.leaves / (high - low)))
        leaf = jnp.clip(jnp.nan_to_num(leaf), 0, self.leaves - 1).astype(jnp.int32)
        return jnp.stack(
            [
                leaf // self.branching ** (self.levels - level) + self.offsets[level - 1]
                for level in range(1, self.levels + 1)
            ],
            axis=1,
        )


def tree_shape(pure: bool) -> dict[str, Any]:
    """Branches and depth with little noise in ranks: about the same number of nodes, but where
    noise is Gaussian it grows with √L, and where it is Laplace with L. Ranks' standard deviation
    times sensitivity is 5.4 (16^3: 6.6) and 8.1 (5^5: 8.6).
    """
    return {"branching": 16, "depth": 3} if pure else {"branching": 5, "depth": 5}


@remembered
def quantiles(
    column: int,
    bounds: Bounds,
    levels: Sequence[float | str],
    *,
    name: str = "value",
    branching: int = 16,
    depth: int = 3,
    fine: float | None = None,
    by: Groups | None = None,
) -> Question:
    """Any number of quantiles of one column; `levels` in [0, 1], "minimum" or "maximum".

    With `by` every group has a tree of its own, in the same release and at the same price: a record
    counts in its group's tree alone. Sizes of groups are not public, so ranks are noisy too.
    """
    tree = Tree(*require_bounds(bounds, name), branching, depth, fine)
    for level in levels:
        if level not in (MINIMUM, MAXIMUM) and not (
            isinstance(level, (int, float)) and 0 < level < 1
        ):
            raise InvalidInput(
                f"quantile {level!r} of {name}: give a number between 0 and 1 (0.5 is the "
                "median), or 'minimum' or 'maximum'"
            )

    block = quantile_block(column, tree, name)
    about: tuple[tuple[str, Any], ...] = (
        ("kind", "quantiles"),
        ("column", column),
        ("bounds", (tree.low, tree.high)),
        ("branching", branching),
        ("depth", depth),
        ("fine", fine),
    )
    if by is None:
        read = partial(_read, name, tree, tuple(levels))
        return Question(name, lambda hidden: block, read, about)
    grouped = block.by(by.column, len(by.labels))
    about = (*about, ("by", by.column), ("groups", tuple(map(str, by.labels))))
    read = partial(_read_groups, name, tree, tuple(levels), by.labels)
    return Question(name, lambda hidden: grouped, read, about)


def quantile_block(column: int, tree: Tree, name: str) -> Block:
    """The counts of one column in all nodes of a tree."""

    def values(public: Any, features: Any) -> Any:
        return features[:, column]

    def cells(public: Any, features: Any) -> Any:
        return tree.cells(features[:, column])

    sizes = tuple(tree.branching**level for level in range(1, tree.levels + 1))
    return Block(name, Ones(), values, cells=cells, level_sizes=sizes)


def median(column: int, bounds: Bounds, **options: Any) -> Question:
    """The value that half of the records are below."""
    return quantiles(column, bounds, (0.5,), **options)


# ------------------------------------------------------------- post-processing


def consistent_leaves(nodes: np.ndarray, tree: Tree, root: float | None) -> np.ndarray:
    """Least-squares leaves (b^L,) of noisy nodes with equal variance; `root` if it is public.

    Upwards, z of a node averages its own count and the sum of its children's z with weights
    (b^h - b^(h-1)) / (b^h - 1) and (b^(h-1) - 1) / (b^h - 1) at height h (leaves: 1). Downwards,
    what a parent knows better than its children is spread evenly over them.
    """
    b = tree.branching
    levels = np.split(np.asarray(nodes, np.float64), tree.offsets[1:])
    best = [levels[-1]]
    for height, counts in enumerate(reversed(levels[:-1]), start=2):
        children = best[0].reshape(-1, b).sum(axis=1)
        own = (b**height - b ** (height - 1)) / (b**height - 1)
        best.insert(0, own * counts + (1 - own) * children)
    parents = np.array([best[0].sum() if root is None else root])
    for counts in best:
        children = counts.reshape(-1, b)
        missing = (parents - children.sum(axis=1)) / b
        parents = (children + missing[:, None]).ravel()
    return parents


def distribution(nodes: np.ndarray, tree: Tree, root: float | None) -> np.ndarray:
    """Records left of every edge, (leaves + 1,): consistent, non-decreasing, from 0 to all."""
    leaves = consistent_leaves(nodes, tree, root)
    whole = max(float(leaves.sum()), 0.0)
    running = isotonic_regression(np.cumsum(leaves)).x
    return np.clip(np.concatenate([[0.0], running[:-1], [whole]]), 0.0, whole)


def invert(counts: np.ndarray, edges: np.ndarray, rank: float) -> float:
    """The value with `rank` records to its left, linear within a leaf.

    >>> invert(np.array([0.0, 2.0, 4.0]), np.array([0.0, 1.0, 2.0]), 3.0)
    1.5
    """
    leaf = int(np.clip(np.searchsorted(counts, rank, side="left") - 1, 0, len(edges) - 2))
    inside = counts[leaf + 1] - counts[leaf]
    part = (rank - counts[leaf]) / inside if inside > 0 else 0.5
    return float(edges[leaf] + np.clip(part, 0.0, 1.0) * (edges[leaf + 1] - edges[leaf]))


@lru_cache(maxsize=64)
def rank_variance(tree: Tree, share: float, root_known: bool) -> np.ndarray:
    """(leaves + 1,): the variance, in that of one node, of the records below each edge less `share`
    of all, by least squares; of the records below each edge where their number is public.

    AᵀA of the tree's design has the eigenvalue λ_m = 1 + b + ... + b^(L-m) for what is constant in
    nodes of level m and sums to zero among their siblings; for the constant it is λ_1, and a public
    root leaves no error in the constant.

    >>> rank_variance(Tree(0.0, 1.0, branching=2, levels=1), 0.5, False).tolist()
    [0.5, 0.5, 0.5]
    >>> rank_variance(Tree(0.0, 1.0, branching=2, levels=1), 0.5, True).tolist()
    [0.0, 0.5, 0.0]
    """
    b, leaves = tree.branching, tree.leaves
    edge = np.arange(leaves + 1)
    lengths = []  # of the contrast, averaged within the nodes of each level
    for level in range(tree.levels + 1):
        width = b ** (tree.levels - level)
        part = edge % width
        above = leaves - edge - np.where(part > 0, width - part, 0)
        mixed = np.where(part > 0, (part - share * width) ** 2 / width, 0.0)
        lengths.append((edge - part) * (1 - share) ** 2 + above * share**2 + mixed)
    eigenvalues = [
        (b ** (tree.levels - level + 1) - 1) / (b - 1) for level in range(1, tree.levels + 1)
    ]
    found = np.zeros(leaves + 1) if root_known else lengths[0] / eigenvalues[0]
    for (coarse, fine), eigenvalue in zip(pairwise(lengths), eigenvalues, strict=True):
        found = found + (fine - coarse) / eigenvalue
    return np.asarray(np.maximum(found, 0.0))


class QuantileReading(NamedTuple):
    """A quantile, its interval for these records and for the population that they were drawn from;
    not `estimable` where noise covers the whole range."""

    value: float
    interval: tuple[float, float]
    population: tuple[float, float]
    estimable: bool


def read_quantile(noisy: Noisy, tree: Tree, share: float, probability: float) -> QuantileReading:
    """The value that this share of the records lies below."""
    root = float(noisy.records) if noisy.exact_sizes else None
    counts, edges = distribution(noisy.values[:, 0], tree, root), tree.edges
    whole = max(float(counts[-1]), 1.0)
    rank = share * whole
    value = invert(counts, edges, rank)
    # Single edges have less noise, but isotonic regression averages over their neighbors: the mean
    # over as many edges as one branch of the first level has.
    place, reach = int(np.searchsorted(edges, value)), max(tree.leaves // (2 * tree.branching), 1)
    near = rank_variance(tree, share, root is not None)[max(place - reach, 0) : place + reach + 1]
    rounding = np.abs(counts).max() * 2.0**-22  # of 32-bit sums

    def ends(sampling: float) -> tuple[float, float]:
        margin = error_margin(noisy.law, float(near.mean()), sampling, probability) + rounding
        low = max(int(np.searchsorted(counts, rank - margin, side="left")) - 1, 0)
        high = min(int(np.searchsorted(counts, rank + margin, side="right")), tree.leaves)
        return min(float(edges[low]), value), max(float(edges[high]), value)

    interval = ends(0.0)
    estimable = interval != (float(edges[0]), float(edges[-1]))
    return QuantileReading(value, interval, ends(share * (1 - share) * whole), estimable)


def _read(
    name: str,
    tree: Tree,
    levels: tuple[float | str, ...],
    noisy: Noisy,
    probability: float,
    certificate: Certificate,
) -> list[Estimate]:
    typical = noisy.law.summed(tree.levels).tail(probability)
    whole = _whole(noisy, tree)
    found = []
    for level in levels:
        share, title, note = _meaning(level, name, typical, whole)
        read = read_quantile(noisy, tree, share, probability)
        estimate = Estimate(title, read.value, read.interval, 1 - probability, note, certificate)
        known = None if read.estimable else np.array([False])
        found.append(replace(estimate, population_interval=read.population, determined=known))
    return found


def _whole(noisy: Noisy, tree: Tree) -> float:
    root = float(noisy.records) if noisy.exact_sizes else None
    return max(float(distribution(noisy.values[:, 0], tree, root)[-1]), 1.0)


def tree_of_group(noisy: Noisy, tree: Tree, groups: int, group: int) -> Noisy:
    """One group's tree of a block that was made `by` so many groups."""
    parts, start = [], 0
    for level in range(1, tree.levels + 1):
        size = tree.branching**level
        parts.append(noisy.values[start + group * size : start + (group + 1) * size])
        start += groups * size
    return replace(noisy, values=np.concatenate(parts), exact_sizes=False)


def _read_groups(
    name: str,
    tree: Tree,
    levels: tuple[float | str, ...],
    labels: tuple[Any, ...],
    noisy: Noisy,
    probability: float,
    certificate: Certificate,
) -> list[Estimate]:
    """The same quantile of every group, as one estimate whose intervals hold at once."""
    count = len(labels)
    trees = [tree_of_group(noisy, tree, count, group) for group in range(count)]
    found = [_read(name, tree, levels, own, probability / count, certificate) for own in trees]
    return [
        joined(own[0].name, labels, own, 1 - probability, _of_groups(level, own[0].note))
        for level, own in zip(levels, zip(*found, strict=True), strict=True)
    ]


def _of_groups(level: float | str, note: str) -> str:
    """How many records lie beyond an extreme differs from group to group: it is not said."""
    if level not in (MINIMUM, MAXIMUM):
        return note
    side = "below" if level == MINIMUM else "above"
    return (
        f"not the {level} itself, which one record decides: about as many records of each group "
        f"lie {side} this value as the noise can hide."
    )


def _meaning(level: float | str, name: str, hidden: float, whole: float) -> tuple[float, str, str]:
    """The share of records to the left, the title, and what it means."""
    if level not in (MINIMUM, MAXIMUM):
        share = float(level)
        title = f"median of {name}" if share == 0.5 else f"quantile {share:g} of {name}"
        return (
            share,
            title,
            (
                f"{share:.3g} of the records lie below, read from one noisy tree of counts; values "
                "outside the range count at its ends."
            ),
        )
    beyond = min(0.25, max(hidden, 1.0) / whole)
    side = "below" if level == MINIMUM else "above"
    share = beyond if level == MINIMUM else 1 - beyond
    return (
        share,
        f"{level} of {name}",
        (
            f"not the {level} itself, which one record decides: about {beyond * whole:.0f} records "
            f"({beyond:.2%}) lie {side} this value, as many as the noise can hide."
        ),
    )
