"""AUC and calibration of noisy distributions of scores, and their influence functions there.

A score is the log-odds x of the outcome, clipped to ±40. Noisy distribution functions F0 of records
without the outcome and F1 of those with it, of N0 and N1 records, are only good enough to locate:
a noisy sum of influence functions over the records corrects what they say. For the AUC A that is

    A = A' + Σ_{y=1} (F0'(x) - A') / N1' + Σ_{y=0} (1 - F1'(x) - A') / N0',    A' = ∫ F0' dF1'

whose error ∫ (F0' - F0) d(F1' - F1) is a product of two (Hampel 1974; Neyman 1959). Equal scores
count one half, as F is linear within a leaf. Slope b and intercept a of the log-odds of the outcome
solve Σ (1, z) (y - π(a + b z)) = 0, with z = (x - c) / r. With π' at a start that F' tell,

    Σ (1, z) (π(a + b z) - π') over F'  =  Σ over records of (1, z) (y - π') .

The sampling error of both comes from F', and what is left of the products from adding noise to F'
again, with a public seed.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtri

from unisono.algorithms.quantiles import Tree, consistent_leaves, distribution, rank_variance

LIMIT, _FINE = 20.0, 0.02
# Leaves are equal on the scale asinh(x / 0.02): 0.0026 wide at 0, and 13 % of x far out, so that
# narrow, rare and over-confident scores need no setting. Records hold the number of their leaf.
LEAVES = 256
TREE = Tree(0.0, float(LEAVES), branching=16, levels=2)
EDGES = Tree(-LIMIT, LIMIT, branching=16, levels=2, fine=_FINE).edges
_MIDDLES = np.sinh((np.arcsinh(EDGES[1:] / _FINE) + np.arcsinh(EDGES[:-1] / _FINE)) / 2) * _FINE
# Of the standard deviation of a node, that of records left of an edge.
PREFIX = math.sqrt(float(rank_variance(TREE, 0.0, True).mean()))
_DRAWS, _SEED = 100, 27
# The outermost share of scores whose places noise rules, in deviations of records left of an edge.
_TAIL, _LEAST_TAIL, _MOST_TAIL, _PARTS = 3.0, 0.002, 0.1, 8
# Scores at the clip are told from noise where they are so many deviations of it.
_STANDS_OUT = 2.0
_RADII = np.arange(0.5, 12.01, 0.25)
_FARTHEST = 15.0  # of a and b on the scale of z


def leaf_of(x: np.ndarray) -> np.ndarray:
    """The leaf of each score.

    >>> leaf_of(np.array([-np.inf, 0.0, 0.001, 1e9])).tolist()
    [0, 128, 128, 255]
    """
    return np.asarray(np.clip(np.searchsorted(EDGES, x, side="right") - 1, 0, LEAVES - 1))


def left_of(nodes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Records of both classes left of every edge (2, leaves + 1), of noisy nodes (2, nodes) and
    numbers of records (2,) that are better known."""
    pairs = zip(nodes, np.maximum(sizes, 1.0), strict=True)
    return np.stack([distribution(own, TREE, float(size)) for own, size in pairs])


def again(left: np.ndarray, noise: float, errors: np.ndarray) -> np.ndarray:
    """The same with noise of these standard deviations, of nodes and of both sizes (2,), added to
    it, (draws, 2, leaves + 1)."""
    generator = np.random.default_rng(_SEED)
    leaves = np.diff(left)
    nodes = np.concatenate([leaves.reshape(2, -1, TREE.branching).sum(axis=2), leaves], axis=1)
    return np.stack(
        [
            left_of(
                nodes + noise * generator.standard_normal(nodes.shape),
                left[:, -1] + errors * generator.standard_normal(2),
            )
            for _ in range(_DRAWS)
        ]
    )


@lru_cache(maxsize=1)
def _leaf_weights() -> np.ndarray:
    """Consistent leaves are these weights (leaves, nodes) of noisy nodes."""
    return np.stack([consistent_leaves(own, TREE, 0.0) for own in np.eye(TREE.nodes)], axis=1)


def between_errors(ends: np.ndarray) -> np.ndarray:
    """Standard deviations, in that of a node, of the records between edges of these numbers."""
    return np.linalg.norm(np.add.reduceat(_leaf_weights(), ends[:-1], axis=0), axis=1)


def mean_chances(mass: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Mean scores, as chances, of the leaves between edges of these numbers."""
    weights = mass + 1e-9
    sums = np.add.reduceat(weights * expit(_MIDDLES), ends[:-1])
    return np.asarray(sums / np.add.reduceat(weights, ends[:-1]))


# ------------------------------------------------------------------- AUC


def shares(left: np.ndarray) -> np.ndarray:
    """Distribution functions at the edges."""
    return np.asarray(left / left[..., -1:])


def area(below: np.ndarray) -> Any:
    """∫ F0 dF1 of distribution functions (..., 2, leaves + 1)."""
    return np.sum(np.diff(below[..., 1, :]) * _between(below[..., 0, :]), axis=-1)


def _between(values: np.ndarray) -> np.ndarray:
    return np.asarray((values[..., 1:] + values[..., :-1]) / 2)


def area_sampling(left: np.ndarray) -> float:
    """The variance of the AUC from sampling (DeLong et al. 1988)."""
    below = shares(left)
    zero, one = np.diff(below)
    above, under = 1 - _between(below[1]), _between(below[0])
    parts = [(zero, above, left[0, -1]), (one, under, left[1, -1])]
    return float(sum(max(f @ v**2 - (f @ v) ** 2, 0.0) / size for f, v, size in parts))


def area_remainder(left: np.ndarray, drawn: np.ndarray) -> float:
    """The mean square of what the influence function at `drawn` leaves of the AUC at `left`."""
    below, other, sizes = shares(left), shares(drawn), left[:, -1]
    zero, one = np.diff(below)
    first = area(other)
    under = _between(other[:, 0]) @ one - first
    above = (1 - _between(other[:, 1])) @ zero - first
    found = first + under * sizes[1] / drawn[:, 1, -1] + above * sizes[0] / drawn[:, 0, -1]
    return float(np.mean((found - area(below)) ** 2))


# ------------------------------------------------------------------- calibration


class Start(NamedTuple):
    """Where the correction of slope and intercept starts, of one or many distributions: places of
    scores (..., m), how many records of both classes lie there (..., 2, m), c and r of z, (a, b)
    (..., 2), and the chances π' (..., m)."""

    places: np.ndarray
    mass: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    at: np.ndarray
    chance: np.ndarray

    @property
    def z(self) -> np.ndarray:
        return np.asarray((self.places - self.centre[..., None]) / self.scale[..., None])

    def on_scores(self, at: np.ndarray) -> tuple[Any, Any]:
        """Intercept and slope on the scale of x."""
        slope = at[..., 1] / self.scale
        return at[..., 0] - slope * self.centre, slope


def start_of(left: np.ndarray, noise: float) -> Start:
    """By a logistic regression on distributions (..., 2, leaves + 1), whose tails are those of a
    normal one; `noise` is the standard deviation of a node."""
    flat = left.reshape(-1, *left.shape[-2:])
    placed = [_placed(own, noise) for own in flat]
    places, mass = (
        np.stack(part).reshape(*left.shape[:-2], *part[0].shape)
        for part in zip(*placed, strict=True)
    )
    whole, sizes = mass.sum(axis=-2), np.maximum(mass.sum(axis=-1), 1.0)
    centre, scale = _moments(whole, places)
    z = (places - centre[..., None]) / scale[..., None]
    at = np.stack([np.log(sizes[..., 1] / sizes[..., 0]), 0 * centre], axis=-1)
    ridge = np.array([1e-9, 2 * noise])
    for _ in range(50):
        chance = _chance(at, z)
        residual = mass[..., 1, :] - whole * chance
        step = _solved(*_information(z, whole * chance * (1 - chance), ridge), _score(z, residual))
        at = at + np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-6:
            break
    chance = _chance(at, z)
    other, wider = _moments(whole * chance * (1 - chance), places)
    slope = at[..., 1] / scale
    found = np.stack([at[..., 0] + slope * (other - centre), slope * wider], axis=-1)
    return Start(places, mass, other, wider, found, chance)


def root_of(start: Start, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(a, b) (..., 2) at which the equations hold, given the sum of scores at the start, and
    whether they hold anywhere (...)."""
    z, whole, at = start.z, start.mass.sum(axis=-2), start.at
    for _ in range(60):
        chance = _chance(at, z)
        missing = total - _score(z, whole * (chance - start.chance))
        parts = _information(z, whole * chance * (1 - chance), np.full(2, 1e-6))
        step = _solved(*parts, missing)
        at = np.clip(at + np.clip(step, -0.5, 0.5), -2 * _FARTHEST, 2 * _FARTHEST)
        if np.abs(step).max() < 1e-6:
            break
    known = (np.abs(step).max(axis=-1) < 1e-6) & (np.abs(at).max(axis=-1) <= _FARTHEST)
    return at, known


def radius_of(start: Start, noise: float, unit: float) -> float:
    """Where scores (1, z) (y - π') are clipped: the least radius at which clipped parts are
    expected to sum to less than a tenth of the standard deviation, by π' and by the classes' noisy
    distributions. `unit` is the standard deviation of a sum of points of the unit ball."""
    whole, length = start.mass.sum(axis=0), np.hypot(1.0, start.z)
    lengths = np.stack([start.chance * length, (1 - start.chance) * length])
    beyond = np.maximum(lengths - _RADII[:, None, None], 0.0)  # (radii, classes, places)
    expected = whole * np.stack([1 - start.chance, start.chance])
    lost = np.maximum(
        (beyond * expected).sum(axis=(1, 2)), (beyond * start.mass).sum(axis=(1, 2)) - noise
    )
    curved = whole * start.chance * (1 - start.chance) @ start.z**2
    enough = lost < 0.1 * np.sqrt(curved + (unit * _RADII) ** 2)
    return float(_RADII[np.argmax(enough)] if enough.any() else _RADII[-1])


class Covariance(NamedTuple):
    """Of (a, b): from sampling and from the noise of the sum, on the scale of z (2, 2)."""

    sampling: np.ndarray
    noise: np.ndarray


def covariance_of(start: Start, at: np.ndarray, noise: float) -> Covariance:
    """The sandwich at a root; `noise` is the standard deviation of a number of the sum."""
    z, whole, chance = start.z, start.mass.sum(axis=0), _chance(at, start.z)
    design = np.stack([np.ones_like(z), z])
    bread = np.linalg.inv((design * whole * chance * (1 - chance)) @ design.T + 1e-6 * np.eye(2))
    squares = start.mass[1] * (1 - chance) ** 2 + start.mass[0] * chance**2
    meat = (design * squares) @ design.T
    return Covariance(bread @ meat @ bread, noise**2 * bread @ bread)


def calibration_remainder(start: Start, drawn: Start) -> tuple[float, float] | None:
    """Mean squares of what starts `drawn` leave of intercept and slope; None where distributions
    have no root, or most of `drawn` have none."""
    ends = _score(start.z, start.mass[1] - start.mass.sum(axis=0) * start.chance)
    base, known = root_of(start, ends)
    if not known:
        return None
    intercept, slope = start.on_scores(base)
    z = (start.places - drawn.centre[:, None]) / drawn.scale[:, None]
    residual = start.mass[1] - start.mass.sum(axis=0) * _chance(drawn.at, z)
    found, rooted = root_of(drawn, _score(z, residual))
    if rooted.mean() < 0.75:
        return None
    one, other = drawn.on_scores(found)
    apart = one[rooted] - intercept, other[rooted] - slope
    return float(np.mean(apart[0] ** 2)), float(np.mean(apart[1] ** 2))


def _placed(left: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Places (leaves + 18,) and records of both classes there: scores at the clip, leaves, and
    beyond the share of scores that noise rules a normal tail through two quantiles of all."""
    leaves = np.diff(left)
    clipped = leaves[:, [0, -1]]
    clipped = np.where(clipped.sum(axis=0) > _STANDS_OUT * math.sqrt(2.0) * noise, clipped, 0.0)
    left = np.clip(left - clipped[:, :1], 0.0, (left[:, -1] - clipped.sum(axis=1))[:, None])
    left[:, 0] = 0.0
    whole = left.sum(axis=0)
    size = max(float(whole[-1]), 1.0)
    deviation = math.sqrt(2.0) * PREFIX * noise
    share = float(np.clip(_TAIL * deviation / size, _LEAST_TAIL, _MOST_TAIL))
    wider = min(4 * share, 0.4)
    rising = whole + 1e-9 * np.arange(len(whole))
    lowest, low, high, highest = np.interp(
        size * np.array([share, wider, 1 - wider, 1 - share]), rising, EDGES
    )
    ends = np.clip(EDGES, lowest, highest)
    inside = np.stack([np.diff(np.interp(ends, EDGES, own)) for own in left])
    tail = ndtri(share * (np.arange(_PARTS) + 0.5) / _PARTS)
    apart = float(ndtri(share) - ndtri(wider))
    places = [np.array([-LIMIT, LIMIT]), np.clip(_MIDDLES, ends[:-1], ends[1:])]
    mass = [clipped, inside]
    for end, inner, outer in (
        (lowest, low, [np.interp(lowest, EDGES, own) for own in left]),
        (highest, high, [own[-1] - np.interp(highest, EDGES, own) for own in left]),
    ):
        places.append(np.clip(end + (end - inner) / apart * (tail - ndtri(share)), -LIMIT, LIMIT))
        mass.append(np.repeat(np.array(outer)[:, None] / _PARTS, _PARTS, axis=1))
    return np.concatenate(places), np.concatenate(mass, axis=1)


def _moments(weights: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = np.maximum(weights.sum(axis=-1), 1e-12)
    centre = (weights * places).sum(axis=-1) / total
    square = (weights * (places - centre[..., None]) ** 2).sum(axis=-1) / total
    return centre, np.sqrt(square) + 1e-9


def _chance(at: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.asarray(expit(at[..., :1] + at[..., 1:] * z))


def _score(z: np.ndarray, residual: np.ndarray) -> np.ndarray:
    return np.stack([residual.sum(axis=-1), (residual * z).sum(axis=-1)], axis=-1)


def _information(
    z: np.ndarray, weights: np.ndarray, ridge: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        weights.sum(axis=-1) + ridge[0],
        (weights * z).sum(axis=-1),
        (weights * z**2).sum(axis=-1) + ridge[1],
    )


def _solved(a: np.ndarray, b: np.ndarray, c: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Of a matrix ((a, b), (b, c))."""
    one, other = right[..., 0], right[..., 1]
    determinant = np.maximum(a * c - b * b, 1e-18)
    return np.stack([(c * one - b * other) / determinant, (a * other - b * one) / determinant], -1)


__all__ = [
    "EDGES",
    "LEAVES",
    "LIMIT",
    "PREFIX",
    "TREE",
    "Covariance",
    "Start",
    "again",
    "area",
    "area_remainder",
    "area_sampling",
    "between_errors",
    "calibration_remainder",
    "covariance_of",
    "leaf_of",
    "left_of",
    "mean_chances",
    "radius_of",
    "root_of",
    "shares",
    "start_of",
]
