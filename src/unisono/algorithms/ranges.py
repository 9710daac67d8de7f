"""Ranges of columns of which nothing is known: one noisy histogram of magnitudes for each column.

Cells lie between -2^40 and 2^40, even on the scale asinh(x · 2^20): about one for every factor of
two, on both sides of zero, and one for zero itself. A record counts in one cell of each column and
of each level, as in `quantiles`, so d columns of L levels move by sqrt(2 d L) in l2 where a record
is replaced. Which of two trees is released, a rule of public facts decides (`resolution`):

    coarse   one level of 128 cells, where noise is large beside the records. The noisy counts y are
             read by the law that explains them best: over a fixed dictionary of laws p (normal,
             log-normal and exponential, with and without a spike at zero, of all magnitudes)

                 maximise over p and a <= n:   -|y - a p|² / 2σ² + log prior(p)

             which weighs all cells at once (a matched filter), where single cells say little. The
             prior holds 2^k for likelier the nearer k is to 0: data sets seldom come in 2^-15ths
    fine     three levels of 16 branches, two per cent apart, where records drown the noise: the
             quantiles themselves, by least squares over the tree (Hay et al. 2010)

Both give low, centre and high: the quantiles `beyond`, 1/2 and 1 - `beyond`. What is made of the
noisy counts costs nothing further. Only the counts are released, never which law was taken.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from unisono.algorithms.quantiles import Tree, distribution, invert, quantile_block
from unisono.algorithms.readings import Noisy
from unisono.algorithms.survey import Question
from unisono.core.certificate import Certificate
from unisono.data.columns import WIDEST

REACH, FINE = WIDEST, 2.0**-20
BEYOND = 0.01  # the share of records that is left outside on either side
COARSE = Tree(-REACH, REACH, branching=128, levels=1, fine=FINE)
EXACT = Tree(-REACH, REACH, branching=16, levels=3, fine=FINE)
_ENOUGH = 170.0  # records for each unit of noise, from which on single cells can be believed
_UNLIKELY = 0.15  # how much less likely a law is for every factor of two from 1, in nats


class Range(NamedTuple):
    """Bounds that hold all but a few records of a column, and its middle."""

    low: float
    centre: float
    high: float

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high


def resolution(records: int, noise_std: float) -> Tree:
    """The tree for so many records in all, where the coarse one is released with this noise."""
    return EXACT if records >= _ENOUGH * noise_std else COARSE


def column_range(column: int, name: str, tree: Tree = COARSE, beyond: float = BEYOND) -> Question:
    """The range of one column, read from a tree."""
    about = (
        ("kind", "range"),
        ("column", column),
        ("bounds", (tree.low, tree.high)),
        ("branching", tree.branching),
        ("depth", tree.levels),
        ("fine", tree.fine),
    )
    block = quantile_block(column, tree, name)
    return Question(name, lambda hidden: block, partial(_read, tree, beyond), about)


def _read(
    tree: Tree, beyond: float, noisy: Noisy, probability: float, certificate: Certificate
) -> list[Range]:
    counts, noise = noisy.values[:, 0], noisy.law.std
    if tree.levels == 1:
        return [likeliest_range(counts, noise, noisy.records, beyond)]
    return [quantile_range(counts, tree, noise, beyond)]


def widened(found: Iterable[Any]) -> Iterator[Any]:
    """Ranges with each end moved outward by the width, beyond which lies next to nothing; labels,
    which may be among them, as they are.

    Models that bound what a record adds by themselves pay little for wide bounds, while two per
    cent of clipped records move a line by several of its errors.
    """
    for one in found:
        if isinstance(one, Range):
            width = one.high - one.low
            yield ordered(one.low - width, one.centre, one.high + width)
        else:
            yield one


# ------------------------------------------------------------- quantiles


def quantile_range(nodes: np.ndarray, tree: Tree, noise_std: float, beyond: float) -> Range:
    """The quantiles themselves; less extreme ones where noise in the tails is larger than they."""
    counts = distribution(nodes, tree, None)
    whole = max(float(counts[-1]), 1.0)
    # The records left of an edge are a sum of at most L b / 2 nodes.
    hidden = 2 * noise_std * math.sqrt(tree.levels * tree.branching / 2) / whole
    share = min(max(beyond, hidden), 0.1)
    low, centre, high = (
        invert(counts, tree.edges, level * whole) for level in (share, 0.5, 1 - share)
    )
    return ordered(low, centre, high)


def ordered(low: float, centre: float, high: float) -> Range:
    """A range of positive width, in six digits, which every machine computes alike; what is too
    small for any cell is zero."""
    low, centre, high = (0.0 if abs(end) < FINE else end for end in (low, centre, high))
    least = max(abs(low), abs(high), FINE) * 1e-3
    if high - low < least:
        low, high = low - least, high + least
    low, centre, high = (float(f"{end:.6g}") for end in (low, centre, high))
    return Range(low, min(max(centre, low), high), high)


# ------------------------------------------------------------- laws


@dataclass(frozen=True)
class Laws:
    """Laws that columns may have: their cells' probabilities (laws, cells), their quantiles
    (laws, 3) and the logarithm of how likely each was held before (laws,)."""

    cells: np.ndarray
    quantiles: np.ndarray
    prior: np.ndarray


def likeliest_range(
    counts: np.ndarray, noise_std: float, records: float, beyond: float = BEYOND
) -> Range:
    """The quantiles of the law that explains the noisy counts of the coarse tree best."""
    laws = dictionary(beyond)
    squares = (laws.cells**2).sum(axis=1)
    matched = laws.cells @ counts
    # Not all records need to have a value: missing ones count nowhere.
    size = np.clip(matched / squares, 0.5 * records, records)
    gain = (2 * size * matched - size**2 * squares) / (2 * noise_std**2)
    return ordered(*map(float, laws.quantiles[int(np.argmax(gain + laws.prior))]))


@lru_cache(maxsize=4)
def dictionary(beyond: float) -> Laws:
    """All laws, of magnitudes between 2^-19 and 2^39, half a cell apart, on both sides of zero."""
    # What lies beyond all cells counts in the outermost ones.
    edges = np.concatenate([[-np.inf], COARSE.edges[1:-1], [np.inf]])
    levels = np.array([beyond, 0.5, 1 - beyond])
    zero = (edges > 0).astype(float)  # zero counts in the cell that begins there
    found: list[tuple[np.ndarray, np.ndarray, float]] = [(zero, np.zeros(3), 0.0)]
    for exponent in np.arange(-18.0, 38.0, 0.5):
        scale, prior = 2.0**exponent, -_UNLIKELY * abs(float(exponent))
        for cdf, quantile in _shapes():
            for sign in (1, -1):
                inner = cdf(sign * edges / scale)
                inner = inner if sign == 1 else 1 - inner
                quantiles = np.sort(sign * scale * quantile(levels))
                found.append((inner, quantiles, prior))
                for spike in (0.5, 0.8, 0.9, 0.95):
                    mixed = spike * zero + (1 - spike) * inner
                    rest = np.clip((levels - spike) / (1 - spike), 0.0, 1.0)
                    outer = sign * scale * quantile(np.maximum(rest[2], 0.5))
                    low, high = min(0.0, float(outer)), max(0.0, float(outer))
                    found.append((mixed, np.array([low, 0.0, high]), prior - 2.0))
    cells = np.array([np.diff(cdf) for cdf, _, _ in found])
    quantiles = np.array([_widened(own, q) for own, (_, q, _) in zip(cells, found, strict=True)])
    return Laws(cells, quantiles, np.array([prior for _, _, prior in found]))


def _widened(cells: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Quantiles that hold all of a cell which a good part of the law is in: where in a cell records
    lie is not known, so a narrow law could be beside them."""
    full = np.flatnonzero(cells >= 0.25)
    if not len(full) or not quantiles.any():
        return quantiles
    low, centre, high = quantiles
    begin, end = COARSE.edges[full[0]], COARSE.edges[full[-1] + 1]
    # The cell that begins at zero is zero itself.
    return np.array([min(low, begin), centre, high if end < FINE else max(high, end)])


def _shapes() -> list[tuple[Any, Any]]:
    """Distribution functions and quantiles of laws of magnitude 1."""
    made: list[tuple[Any, Any]] = [
        (lambda x: ndtr(x), lambda q: ndtri(q)),
        (lambda x: -np.expm1(-np.maximum(x, 0.0)), lambda q: -np.log1p(-q)),
    ]
    for spread in (0.03, 0.1, 0.2, 0.4):
        made.append((lambda x, s=spread: ndtr((x - 1) / s), lambda q, s=spread: 1 + s * ndtri(q)))
    for spread in (0.5, 0.8, 1.5):
        made.append(
            (
                lambda x, s=spread: ndtr(np.log(np.maximum(x, 1e-300)) / s),
                lambda q, s=spread: np.exp(s * ndtri(q)),
            )
        )
    return made


__all__ = [
    "BEYOND",
    "COARSE",
    "EXACT",
    "Range",
    "column_range",
    "likeliest_range",
    "resolution",
    "widened",
]
