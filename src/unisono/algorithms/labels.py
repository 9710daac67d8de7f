"""The labels of a column that nobody has listed, as of the classes of a target: one noisy grid.

Every record counts once on each of L levels (`unisono.data.spelling`), so the counts move by at
most sqrt(2 L) in l2 where a record is replaced, whatever labels it had and has: all labels have
their places in a public grid. So the promise is that of the noise alone. Histograms over the labels
that occur must hide also that one occurs at all, by a threshold that a single record passes with
probability delta (Korolova et al. 2009; Wilson et al. 2020), and parties would have to show each
other which labels they have before a secure sum could begin; here nobody does, and sums of all
parties are what every other release is. (Hashed counts with letters: Bassily et al. 2017.)

What is made of the noisy grid y costs nothing further. With noise of standard deviation σ in each
place, the count of a label is the median of y at its L places, with a noise of about 1.25 σ / √L:

    candidates   labels that are often used (whole numbers, yes and no, ...) or that the study
                 names are looked up
    others       are read letter by letter, the fullest place of each level of a cell

A candidate is believed where its count is so high that noise among all of them is so high once in a
thousand releases; another one where its letters stand out
together. The fullest label is
taken, its count subtracted, and so on. The median forgives the few places that two labels share.
"""

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from unisono.algorithms.readings import Noisy
from unisono.algorithms.survey import Question
from unisono.core.certificate import Certificate
from unisono.data.spelling import GRID, Grid, readable, spelt
from unisono.releases.rows import Ones
from unisono.releases.table import Block, codes

_FALSE_ALARM = 1e-3
# The largest of a cell's symbols on one level, where there is nothing but noise, in σ: its mean is
# below 2.5 and its spread below 0.45. Six spreads above the mean, letters are believed.
_LARGEST, _SIX_SPREADS = 2.5, 2.7
_MEDIAN = math.sqrt(math.pi / 2)  # how much noisier a median of normal numbers is than their mean
_PAIRS = (
    *("yes no", "Yes No", "YES NO", "y n", "Y N", "true false", "True False", "TRUE FALSE", "t f"),
    *("male female", "Male Female", "m f", "M F", "positive negative", "Positive Negative"),
    *("pos neg", "+ -", "case control", "Case Control", "benign malignant", "B M", "A B", "a b"),
    *("alive dead", "Alive Dead", "survived died", "healthy sick", "low high", "normal abnormal"),
    *("treated control", "treatment placebo", "present absent", "good bad", "spam ham"),
    *("unknown other", "Unknown Other", "<=50K >50K"),
)
USUAL: tuple[str, ...] = tuple(
    dict.fromkeys(
        (*map(str, range(-1, 1000)), *(word for pair in _PAIRS for word in pair.split(" ")))
    )
)


class Labels(NamedTuple):
    """The labels that were found, in order: numbers by size, then words."""

    names: tuple[str, ...]


def label_names(
    column: int,
    name: str,
    most: int,
    candidates: Sequence[str] = (),
    grid: Grid = GRID,
) -> Question:
    """The `most` frequent labels; `column` is the first of those that hold their places."""
    end = column + grid.levels

    def values(public: Any, features: Any) -> Any:
        return features[:, column]

    def cells(public: Any, features: Any) -> Any:
        own = codes(features[:, column:end], grid.width)
        starts = jnp.arange(grid.levels, dtype=jnp.int32) * grid.width
        return jnp.where(own >= 0, own + starts, -1)

    block = Block(name, Ones(), values, cells=cells, level_sizes=(grid.width,) * grid.levels)
    about = (
        ("kind", "labels"),
        ("column", column),
        ("most", most),
        ("grid", (grid.levels, grid.cells, grid.symbols)),
        ("candidates", tuple(candidates)),
    )
    known = tuple(dict.fromkeys((*candidates, *USUAL)))
    read = partial(_read, most, known, grid)
    return Question(name, lambda hidden: block, read, about)


def _read(
    most: int,
    candidates: tuple[str, ...],
    grid: Grid,
    noisy: Noisy,
    probability: float,
    certificate: Certificate,
) -> list[Labels]:
    counts = noisy.values[:, 0].reshape(grid.levels, grid.width)
    return [Labels(ordered(frequent(counts, noisy.law.std, most, candidates, grid)))]


def count_noise(noise_std: float, grid: Grid = GRID) -> float:
    """The noise of a label's count, where each place has this one."""
    return _MEDIAN * noise_std / math.sqrt(grid.levels)


def least_count(noise_std: float, candidates: int = len(USUAL), grid: Grid = GRID) -> float:
    """From how many records on a candidate is believed."""
    return -float(ndtri(_FALSE_ALARM / max(1, candidates))) * count_noise(noise_std, grid)


def least_spelt(noise_std: float) -> float:
    """From how many records on a short label that is no candidate is read rightly, nine times in
    ten: each of its letters must be the fullest of all."""
    return 2 * _LARGEST * noise_std


def frequent(
    counts: np.ndarray,
    noise_std: float,
    most: int,
    candidates: tuple[str, ...] = USUAL,
    grid: Grid = GRID,
) -> list[str]:
    """The most frequent labels of a noisy grid (levels, places), the fullest first."""
    left = np.array(counts, np.float64)
    least = least_count(noise_std, len(candidates), grid)
    levels = np.arange(grid.levels)
    listed = _places(candidates, grid)
    found: list[str] = []
    while len(found) < most:
        own = left[levels, listed]  # (candidates, levels)
        score = np.where(_consistent(own, noise_std), np.median(own, axis=1), -np.inf)
        score[(score <= least) | np.isin(candidates, found)] = -np.inf
        best = int(np.argmax(score))
        name, count = candidates[best], float(score[best])
        for other, size in _spelt_out(left, noise_std, grid):
            if size > count and other not in found:
                name, count = other, size
        if count == -math.inf:
            break
        found.append(name)
        left[levels, list(spelt(name, grid))] -= count
    return found


def _spelt_out(left: np.ndarray, noise_std: float, grid: Grid) -> list[tuple[str, float]]:
    """The label that each cell spells, where its letters stand out, with its count."""
    shaped = left.reshape(grid.levels, grid.cells, grid.symbols)
    fullest, heights = shaped.argmax(axis=2), shaped.max(axis=2)  # (levels, cells)
    levels, made = np.arange(grid.levels), []
    for cell in range(grid.cells):
        text = readable(fullest[:, cell].tolist())
        if text is None:
            continue
        letters = heights[: len(text) + 1, cell]
        if letters.mean() <= (_LARGEST + _SIX_SPREADS / math.sqrt(len(letters))) * noise_std:
            continue
        places = spelt(text, grid)
        own = left[levels, list(places)]
        # Read in another cell than its own, it is none.
        if places[0] // grid.symbols == cell and _consistent(own[None], noise_std)[0]:
            made.append((text, float(np.median(own))))
    return made


def _consistent(own: np.ndarray, noise_std: float) -> np.ndarray:
    """Whether all places of a label (n, levels) can have its count: of one that shares most letters
    with another, the rest is empty."""
    return own.min(axis=1) >= np.median(own, axis=1) / 2 - 4 * noise_std


@lru_cache(maxsize=8)
def _places(candidates: tuple[str, ...], grid: Grid) -> np.ndarray:
    return np.array([spelt(name, grid) for name in candidates])


def ordered(names: Sequence[str]) -> tuple[str, ...]:
    """Numbers by size, then words.

    >>> ordered(["yes", "10", "9", "no"])
    ('9', '10', 'no', 'yes')
    """

    def key(name: str) -> tuple[int, int, str]:
        whole = name.removeprefix("-").isdecimal()
        return (0, int(name), name) if whole else (1, 0, name)

    return tuple(sorted(names, key=key))


__all__ = [
    "USUAL",
    "Labels",
    "count_noise",
    "frequent",
    "label_names",
    "least_count",
    "least_spelt",
    "ordered",
]
