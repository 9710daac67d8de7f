"""Where to clip residuals that have no bound of their own: a level from a released histogram.

A record's gradient has the signed length u sqrt(p), and the round to come clips it at c R sqrt(p).
Its noise grows with R. The clip takes away about n (T₊ - T₋) in a direction if tails differ by
side, and much less if they do not, with

    T±(R) = E (±u - c R)₊

so that R minimizes (a R)² + n² (2 |T₊ - T₋| + min(T₊, T₋) / 5)²: a R is the deviation of the noise,
and the rest is what the clip is expected to take away. Tails are read from noisy counts of u in
fixed bins. Each side is modeled as lognormal, u = m + s (e^(σ Z) - 1) with Z normal, through its
upper fifth and the farthest level that stands out of the noise. σ = 0 is a normal tail, to which
noise draws it. Counts that certainly lie beyond are added. The expected effect of the clip is
reported and is added to the variance: it rests on a model of the tail and is not a proved bound.

Everything here is post-processing of the histogram. `xp` is NumPy, or JAX inside a run.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

_INNER = (0, 0.06, 0.1, 0.14, 0.18, 0.24, 0.32, 0.42, 0.55, 0.7, 0.9, 1.15)
_SIDE = np.array([*_INNER, 1.45, 1.8, 2.2, 2.7, 3.4, 4.5, 6, 9, 15, 30, 1e9])
_EDGES = np.concatenate([-_SIDE[:0:-1], _SIDE])
BINS = len(_EDGES) - 1
# σ of a lognormal tail: what is taken where noise hides it, and the largest one.
_USUAL_SIGMA, _MOST_SIGMA = 0.1, 2.0
_SIGMAS = np.linspace(0.02, _MOST_SIGMA, 200)
# A tail of one group moves a coefficient by more than it moves the mean.
_SIDES = 2.0
# Deviations of noise beyond which counts are certainly there.
_CERTAIN = 2.5
# In deviations of u: the least R, and the noise below which a wider clip is worth more.
_LEAST_LEVEL, _CHEAP = 2.2, 0.35
# σ of a heavy tail, and by how much it exceeds that of the other side.
_HEAVY, _ONE_SIDED = 0.6, 0.25


class Level(NamedTuple):
    """R, and what the clip is expected to move a sum by in one direction."""

    bound: Any
    miss: Any


def place_of(lengths: Any) -> Any:
    """The bin of every signed length (n,)."""
    return jnp.clip(jnp.searchsorted(jnp.asarray(_EDGES), lengths, side="right") - 1, 0, BINS - 1)


def clip_level(
    xp: Any,
    counts: Any,
    noise: Any,
    records: Any,
    unit: Any,
    clip: float,
    top: Any,
    least: Any,
    heaviest: float = _MOST_SIGMA,
) -> Level:
    """R in [least, top] for records with these counts (bins,), of this noise each; `unit` is a, the
    noise of a gradient for R = 1, and `clip` is c."""
    sides, spread = _sides(xp, counts, noise, records, top, heaviest)
    grid = xp.exp(xp.linspace(math.log(0.05), xp.log(xp.maximum(40.0, 1.05 * top)), 160))
    above, below = (_beyond(xp, side, top, clip * grid) for side in sides)
    apart, both = xp.abs(above - below), xp.minimum(above, below)
    cost = (unit * grid) ** 2 + (records * (_SIDES * apart + both / 5)) ** 2
    bound = grid[xp.argmin(cost)]
    doubt = BINS / 2 * (noise / records / 0.1) ** 2
    spread = (spread + doubt * xp.maximum(spread, 1.0)) / (1 + doubt)
    bound = xp.maximum(bound, _CHEAP * spread * xp.sqrt(records) / unit)
    bound = xp.maximum(bound, _LEAST_LEVEL * spread / clip)
    bound = xp.minimum(xp.maximum(bound, least), top)
    return Level(bound, records * xp.interp(bound, grid, _SIDES * apart + both / 5))


def heavy_tail(counts: Any, noise: float, records: float, top: float) -> bool:
    """Whether one side has a heavy tail. It may be the tail of one group alone, whose own tail is
    then heavier than is modeled."""
    sides, _ = _sides(np, counts, noise, records, top, _MOST_SIGMA)
    lighter, heavier = sorted(side.sigma for side in sides)
    return bool(heavier > _HEAVY and heavier - lighter > _ONE_SIDED)


class _Side(NamedTuple):
    """One side of the histogram: tails of noisy shares at the bins' edges and what noise leaves
    open there, the median, and the σ and s of the lognormal tail."""

    raw: Any
    edges: Any
    error: Any
    middle: Any
    sigma: Any
    scale: Any


def _sides(
    xp: Any, counts: Any, noise: Any, records: Any, top: Any, heaviest: float
) -> tuple[list[_Side], Any]:
    """Both sides, and the deviation of a normal law with the same 10 % and 90 % quantiles."""
    edges = xp.asarray(_EDGES)
    shares = xp.where((edges[:-1] < top) & (edges[1:] > -top), counts, 0.0) / records
    error = noise / records
    low, middle, high = _quantiles(xp, shares, xp.clip(edges, -top, top), (0.1, 0.5, 0.9))
    above = _side(xp, shares, edges, error, top, middle, heaviest)
    below = _side(xp, shares[::-1], -edges[::-1], error, top, -middle, heaviest)
    return [above, below], (high - low) / 2.56


def _falling(xp: Any, tails: Any) -> Any:
    """The mean of the largest falling sequence below tails (m,) and the smallest one above."""
    ahead = np.tri(len(tails), dtype=bool)
    lower = xp.min(xp.where(ahead, tails[None, :], xp.inf), axis=1)
    upper = xp.max(xp.where(ahead.T, tails[None, :], -xp.inf), axis=1)
    return (lower + upper) / 2


def _quantiles(xp: Any, shares: Any, edges: Any, levels: tuple[float, ...]) -> Any:
    """Of noisy shares in bins."""
    tails = xp.concatenate([xp.cumsum(shares[::-1])[::-1], xp.zeros(1)])
    rising = 1 - _falling(xp, tails) / xp.maximum(tails[0], 1e-6)
    return xp.interp(xp.asarray(levels), rising, edges)


def _side(
    xp: Any, shares: Any, edges: Any, error: Any, top: Any, middle: Any, heaviest: float
) -> _Side:
    raw = xp.concatenate([xp.cumsum(shares[::-1])[::-1], xp.zeros(1)])
    ends = xp.clip(edges, -top, top)
    falling = _falling(xp, raw)
    doubt = math.sqrt(6) * error
    far = xp.maximum(xp.maximum(0.01, xp.minimum(0.05, 8 * doubt)), 2 * doubt)
    near = xp.maximum(0.2, xp.minimum(2.5 * far, 0.3))

    def place(level: Any) -> Any:
        return xp.interp(-level, -falling, ends) - middle

    inner = xp.maximum(place(near), 1e-3)
    outer = xp.maximum(place(far), 1.05 * inner)
    one, other = -_ndtri(xp, near), -_ndtri(xp, xp.minimum(far, 0.14))
    ratios = xp.expm1(_SIGMAS * other) / xp.expm1(_SIGMAS * one)
    trust = xp.where(far < 0.14, 1 / (1 + 4 * (doubt / far) ** 2), 0.0)
    sigma = xp.interp(outer / inner, ratios, xp.asarray(_SIGMAS))
    sigma = _USUAL_SIGMA + trust * (sigma - _USUAL_SIGMA)
    sigma = xp.minimum(sigma, heaviest)
    scale = inner / xp.expm1(sigma * one)
    scale = xp.maximum(scale, xp.where(far < 0.14, outer / xp.expm1(sigma * other), 0.0))
    return _Side(raw, edges, error, middle, sigma, scale)


def _beyond(xp: Any, side: _Side, top: Any, points: Any) -> Any:
    """E (u - x)₊ at the points x, of one side."""
    raw, edges, error, middle, sigma, scale = side
    ends = xp.clip(edges, -top, top)

    def excess(distance: Any) -> Any:
        """E (u - m - t)₊ at distances t from the median."""
        place = xp.log1p(distance / scale) / sigma
        mean = xp.exp(sigma**2 / 2) * _ndtr(xp, sigma - place)
        return scale * (mean - (1 + distance / scale) * _ndtr(xp, -place))

    distance = xp.maximum(points - middle, 0.0)
    modelled = xp.maximum(excess(distance) - excess(xp.maximum(top - middle, 0.0)), 0.0)
    bins = np.arange(len(edges) - 1, -1, -1)
    certain = xp.maximum(raw - _CERTAIN * error * np.sqrt(bins), 0.0) * (bins > 0)
    ahead = np.tri(len(edges), dtype=bool).T
    certain = xp.max(xp.where(ahead, certain[None, :], 0.0), axis=1)
    steps = xp.concatenate([(ends[1:] - ends[:-1]) * certain[1:], xp.zeros(1)])
    seen = xp.cumsum(steps[::-1])[::-1]
    return xp.maximum(modelled, xp.interp(points, ends, seen, right=0.0))


def _ndtr(xp: Any, values: Any) -> Any:
    return special.ndtr(values) if xp is np else jax.scipy.special.ndtr(values)


def _ndtri(xp: Any, values: Any) -> Any:
    return special.ndtri(values) if xp is np else jax.scipy.special.ndtri(values)


__all__ = ["BINS", "Level", "clip_level", "heavy_tail", "place_of"]
