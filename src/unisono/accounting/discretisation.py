r"""From a dominating pair to two laws of the privacy loss on a grid, one above and one below it.

With ``t = exp(epsilon)`` the curve ``t -> H(log t)`` is convex and falls from 1 to the mass of
infinite loss. A pair whose losses lie on the grid ``k h`` has a curve that is linear in ``t``
between nodes, and a curve above (below) means a pair that dominates (is dominated).

* Above: connect the dots (Doroshenko et al. 2022). The chord of a convex curve is above it.
  In every cell, P- and Q-mass are kept, so one discretisation serves ``P||Q`` and ``Q||P``.
* Below: in a cell of which the chord has the Q-masses ``a`` and ``b`` at its ends, the curve lies
  above its two end tangents, hence at most ``C = a b (t_{i+1} - t_i) / (a + b)`` below the chord.
  Lower the value at every node by the larger ``C`` of its two cells and take the greatest convex
  minorant: a curve below the true one with kinks on the grid only.

Both err by O(h^2) per use where the loss has a density, the second by O(h) where it has atoms
between nodes. A composed hockey stick only grows when mass moves to larger losses, so rounding is
covered by moving a bound of its error one node up in the first law and one node down in the second.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from unisono.accounting.pairs import UNIT_ROUNDOFF, Cells, Pair
from unisono.accounting.validation import FloatArray

EXCESS = 1e-12


class GridLaw(NamedTuple):
    """Masses at the losses ``(first + i) step`` and the mass at infinity, in one order."""

    mass: FloatArray
    first: int
    infinite: float


class Grid(NamedTuple):
    """A pair cut into cells of width ``step`` between ``nodes``, the first at ``first step``."""

    cells: Cells
    nodes: FloatArray
    first: int
    step: float

    def law_above(self, *, forward: bool) -> GridLaw:
        """A law whose composed curves are above those of the pair, in one order."""
        cells = self.cells
        mass = _chords(cells)
        error = _joined(cells.error, cells.error)
        infinite = cells.infinite if forward else cells.vanishing
        mass, error, first = self._ordered(mass, error, forward)
        # Node i receives the doubt about what lies above it from node i - 1.
        mass *= 1.0 + 16.0 * UNIT_ROUNDOFF
        moved = np.minimum(mass[:-1], error[1:])
        mass[1:] += error[1:]
        mass[:-1] -= moved
        return GridLaw(mass, first, infinite)

    def law_below(self, *, forward: bool) -> GridLaw:
        """A law whose composed curves are below those of the pair, in one order."""
        cells = self.cells
        below = _minorant(cells, self.nodes, self.step)
        error = _joined(cells.error, cells.error)
        error[1:-1] += error[:-2] + error[2:]
        infinite = (below.infinite if forward else below.vanishing) * (1.0 - 1e-12)
        mass, error, first = self._ordered(below.mass, 4.0 * error, forward)
        mass *= 1.0 - 16.0 * UNIT_ROUNDOFF
        moved = np.minimum(mass[1:], error[1:])
        mass[1:] -= moved
        mass[:-1] += moved
        return GridLaw(mass, first, infinite)

    def _ordered(
        self, mass: FloatArray, error: FloatArray, forward: bool
    ) -> tuple[FloatArray, FloatArray, int]:
        """P-masses as they are, or the Q-masses of the same atoms at minus the loss."""
        if forward:
            return mass, error, self.first
        shrink = np.exp(-self.nodes)
        doubt = error + 4.0 * UNIT_ROUNDOFF * (2.0 + np.abs(self.nodes)) * mass
        last = self.first + len(self.nodes) - 1
        return (mass * shrink)[::-1].copy(), (doubt * shrink)[::-1].copy(), -last


def discretise(pair: Pair, step: float, tail_mass: float) -> Grid:
    """Cut the loss of ``pair`` at the multiples of ``step``.

    ``tail_mass`` bounds what is cut from either end; the cut is counted as infinite loss above and
    dropped below.
    """
    low, high = pair.window(tail_mass)
    # One node beyond each end, so that an atom at the very end is inside, and always around 0.
    first = min(math.floor(low / step), 0) - 1
    last = max(math.ceil(high / step), 0) + 1
    nodes = np.arange(first, last + 1, dtype=np.float64) * step
    return Grid(pair.cells(nodes), nodes, first, step)


def _joined(at_lower: FloatArray, at_upper: FloatArray) -> FloatArray:
    """Values at both ends of n cells, added up at the n+1 nodes."""
    joined = np.zeros(len(at_lower) + 1)
    joined[:-1] += at_lower
    joined[1:] += at_upper
    return joined


def _chords(cells: Cells) -> FloatArray:
    """P-masses at the nodes of the pair above, tails included."""
    mass = _joined(cells.at_lower, cells.at_upper)
    mass[0] += cells.below * (1.0 + 1e-12)
    mass[-1] += cells.above * (1.0 + 1e-12)
    return mass


class _Minorant(NamedTuple):
    """P-masses at the nodes, P-mass of infinite loss, and Q-mass of losses at minus infinity."""

    mass: FloatArray
    infinite: float
    vanishing: float


def _minorant(cells: Cells, nodes: FloatArray, step: float) -> _Minorant:
    """The pair below (module docstring).

    Values of the curve are in units of P-mass: ``C = (e^h - 1) A B / (A + B)`` with ``A`` the
    P-mass at the lower end of the cell and ``B`` that at the upper end times ``e^-h``.
    The curve of a pair lies above ``1 - t`` and above 0. A node that cannot be lowered as far as
    its cells need passes its share on to the next; both lines meet at the node ``t = 1``, so there
    is a solution. Q may come out heavier than one by ``EXCESS``, to be paid for as a loss per use.
    """
    growth, decay, ratio = math.expm1(step), -math.expm1(-step), np.exp(nodes)
    chords = _chords(cells)
    width, weight = np.diff(ratio), chords / ratio
    low, high = cells.at_lower, cells.at_upper * (1.0 - decay)
    total = np.where(low + high > 0, low + high, 1.0)
    sag, share = growth * low * high / total, high / total
    left = np.concatenate([[0.0], np.cumsum(width * np.cumsum(weight[:-1]))])
    left += cells.vanishing * ratio
    right = np.concatenate([np.cumsum((width * _from_top(weight))[::-1])[::-1], [0.0]])
    right += cells.infinite
    drop = np.maximum(np.append(sag, 0.0), np.append(0.0, sag))
    # Beyond the outermost nodes the curve must not stay above what no cut is responsible for.
    drop[0] = max(drop[0], (cells.vanishing - cells.truly_vanishing) * ratio[0])
    drop[-1] = max(drop[-1], cells.infinite - cells.truly_infinite)
    _give_way(drop, left, sag, share)
    _give_way(drop[::-1], right[::-1], sag[::-1], (low / total)[::-1])
    lowered = (1.0 - share) * drop[:-1] + share * drop[1:]
    if np.any(lowered < sag * (1.0 - 1e-9)) or np.any(drop > left * (1.0 + 1e-9) + EXCESS * ratio):
        # No room at this step: P' = Q', which nothing can tell apart, is below every pair.
        return _Minorant(np.zeros(len(nodes)), 0.0, 0.0)
    change = np.diff(drop, prepend=0.0)
    mass = chords + change / np.concatenate([[1.0], np.full(len(sag), decay)])
    mass[:-1] -= change[1:] / growth
    infinite = cells.infinite - float(drop[-1])
    vanishing = cells.vanishing - float(drop[0] / ratio[0])
    if np.any(mass < 0):
        # Slopes (minus the Q-mass above) are summed from the top, so that small tails stay exact;
        # the first belongs to the segment from t = 0.
        slope = -np.cumsum((mass / ratio)[::-1])[::-1]
        convex = isotonic_regression(slope, weights=np.concatenate([ratio[:1], width])).x
        rising = np.maximum(convex, 0.0)
        infinite -= float(np.sum(rising[1:] * width) + rising[0] * ratio[0])
        vanishing -= float(slope[0] - convex[0])
        convex = np.append(np.minimum(convex, 0.0), 0.0)
        rounding = 8.0 * UNIT_ROUNDOFF * np.abs(slope)
        mass = ratio * (np.diff(convex) - rounding)
    return _Minorant(np.maximum(mass, 0.0), max(infinite, 0.0), max(vanishing, 0.0))


def _from_top(weight: FloatArray) -> FloatArray:
    """Sum of ``weight`` above every cell, shape (n,) for n+1 nodes."""
    return np.cumsum(weight[:0:-1])[::-1]


def _give_way(drop: FloatArray, room: FloatArray, sag: FloatArray, share: FloatArray) -> None:
    """Cap ``drop`` at ``room`` in place; what a cell then lacks its other end has to give.

    A cell is below the curve when ``(1 - share) drop[i] + share drop[i+1] >= sag``.
    """
    for index in np.flatnonzero(drop > room):
        node = int(index)
        while node < len(sag) and drop[node] > room[node]:
            drop[node] = room[node]
            lack = sag[node] - (1.0 - share[node]) * drop[node]
            if lack > 0:
                drop[node + 1] = max(drop[node + 1], lack / share[node])
            node += 1
    drop[-1] = min(drop[-1], room[-1])
