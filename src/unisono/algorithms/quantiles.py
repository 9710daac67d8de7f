"""Minimum, maximum, median and any quantile through ONE noisy hierarchical histogram.

A public range is cut into b^L leaves. On level l = 1..L every record counts in one of b^l nodes,
so it moves L numbers by 1: l1 = L, l2 = sqrt(L) alone, twice and sqrt(2) times that when replaced.
All quantiles are read from this one release:

    consistent   the leaves that fit all noisy nodes best: weighted least squares in two passes
                 (Hay et al. 2010), for any branching; the root is the public number of records
    monotone     the running sums of the leaves, made non-decreasing by isotonic regression
    inverted     the value at which the distribution function crosses q, linear within a leaf

The interval tests every value t: the records left of t are a signed sum of at most about
L b / 2 nodes, whose noise has a known law. A value stays in the
interval unless this noise would have to be larger than its 1 - α/2 quantile. Only the test at the
true quantile must hold, so no correction for the number of leaves is needed.

Minimum and maximum of a data set cannot be released: one record decides them. What is released are
quantiles so extreme that the records beyond them are about as many as the noise can hide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.optimize import isotonic_regression

from unisono.algorithms.estimates import Estimate
from unisono.algorithms.readings import Noisy
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


def prefixes(nodes: np.ndarray, tree: Tree, root: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Raw records left of every edge and how many noisy nodes each is made of, (leaves + 1,).

    On every level the edge is reached from the border of its parent on the left, by adding nodes,
    or on the right, by subtracting them, whichever takes fewer nodes in all. No node is used
    twice, so the noise of an edge is a sum of as many independent noises.
    """
    b = tree.branching
    # Borders of the root: nothing is left of it, and all records are inside, if that is public.
    left, terms = np.array([0.0, np.nan if root is None else root]), np.array([0, 0])
    for counts in np.split(np.asarray(nodes, np.float64), tree.offsets[1:]):
        running = np.concatenate([[0.0], np.cumsum(counts)])
        edge = np.arange(len(counts) + 1)
        below, above = edge // b, -(-edge // b)
        adding = left[below] + running[edge] - running[below * b]
        subtracting = left[above] - (running[above * b] - running[edge])
        more, fewer = terms[below] + edge - below * b, terms[above] + above * b - edge
        # A border that is not known cannot be subtracted from.
        forward = (np.isnan(subtracting) | (more <= fewer)) & ~np.isnan(adding)
        left, terms = np.where(forward, adding, subtracting), np.where(forward, more, fewer)
        if root is None and np.isnan(left[-1]):
            left[-1], terms[-1] = running[-1], b
    return left, terms


def quantile_interval(
    noisy: Noisy, tree: Tree, root: float | None, share: float, probability: float
) -> tuple[float, float]:
    """Values t for which neither "too few left of t" nor "too many" is refuted.

    Without a public root the rank is share times the sum of the b nodes of the first level, which
    is noisy too. In (left of t) - share * total these nodes have weights 1 - share or -share, and
    others 0 or ±1, so its variance is at most that of as many noises as `terms` + share² b.
    """
    left, terms = prefixes(noisy.values[:, 0], tree, root)
    more = 0.0 if root is not None else share**2 * tree.branching
    total = float(noisy.values[: tree.branching, 0].sum()) if root is None else root
    rank = share * total
    kinds = {
        int(k): noisy.law.summed(math.ceil(k + more)).tail(probability)
        for k in np.unique(terms)
        if k + more
    }
    margins = np.array([kinds.get(int(k), 0.0) for k in terms]) + np.abs(left).max() * 2.0**-22
    edges = tree.edges
    possible = (left[:-1] - margins[:-1] <= rank) & (left[1:] + margins[1:] >= rank)
    inside = np.flatnonzero(possible)
    if not len(inside):
        return float(edges[0]), float(edges[-1])
    return float(edges[inside[0]]), float(edges[inside[-1] + 1])


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
        value, interval = read_quantile(noisy, tree, share, probability)
        found.append(Estimate(title, value, interval, 1 - probability, note, certificate))
    return found


def _whole(noisy: Noisy, tree: Tree) -> float:
    root = float(noisy.records) if noisy.exact_sizes else None
    return max(float(distribution(noisy.values[:, 0], tree, root)[-1]), 1.0)


def read_quantile(
    noisy: Noisy, tree: Tree, share: float, probability: float
) -> tuple[float, tuple[float, float]]:
    """The value that this share of the records lies below, and its interval."""
    nodes = noisy.values[:, 0]
    root = float(noisy.records) if noisy.exact_sizes else None
    counts = distribution(nodes, tree, root)
    low, high = quantile_interval(noisy, tree, root, share, probability)
    value = invert(counts, tree.edges, share * max(float(counts[-1]), 1.0))
    return value, (min(low, value), max(high, value))


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
        Estimate(
            of_groups[0].name,
            np.array([one.value for one in of_groups]),
            (
                np.array([one.interval[0] for one in of_groups]),
                np.array([one.interval[1] for one in of_groups]),
            ),
            1 - probability,
            _of_groups(level, of_groups[0].note),
            certificate,
            labels=labels,
        )
        for level, of_groups in zip(levels, zip(*found, strict=True), strict=True)
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
