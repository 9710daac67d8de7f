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
        mass = _joined(cells.at_lower, cells.at_upper)
        mass[0] += cells.below * (1.0 + 1e-12)
        mass[-1] += cells.above * (1.0 + 1e-12)
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
        chords = _joined(cells.at_lower, cells.at_upper)
        mass = np.maximum(_minorant(chords, cells, self.nodes, self.step), 0.0)
        error = _joined(cells.error, cells.error)
        error[1:-1] += error[:-2] + error[2:]
        infinite = cells.truly_infinite if forward else cells.truly_vanishing
        mass, error, first = self._ordered(mass, 4.0 * error, forward)
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
    # One node beyond each end, so that an atom at the very end is inside.
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    nodes = np.arange(first, last + 1, dtype=np.float64) * step
    return Grid(pair.cells(nodes), nodes, first, step)


def _joined(at_lower: FloatArray, at_upper: FloatArray) -> FloatArray:
    """Values at both ends of n cells, added up at the n+1 nodes."""
    joined = np.zeros(len(at_lower) + 1)
    joined[:-1] += at_lower
    joined[1:] += at_upper
    return joined


def _minorant(mass: FloatArray, cells: Cells, nodes: FloatArray, step: float) -> FloatArray:
    """P-masses of the pair below (module docstring); ``mass`` are those of the chords.

    Values of the curve are in units of P-mass: ``C = (e^h - 1) A B / (A + B)`` with ``A`` the
    P-mass at the lower end of the cell and ``B`` that at the upper end times ``e^-h``.
    No node may fall below the tangents of the curve at the outermost nodes (which are ``1 - t`` and
    the infinite mass, but for the cut). A node that cannot give way passes its share on.
    """
    growth, decay = math.expm1(step), -math.expm1(-step)
    ratio = np.exp(nodes)
    low, high = cells.at_lower, cells.at_upper * (1.0 - decay)
    total = np.where(low + high > 0, low + high, 1.0)
    sag = growth * low * high / total
    drop = np.zeros(len(nodes))
    drop[1:-1] = np.maximum(sag[1:], sag[:-1])
    weight, width = mass / ratio, np.diff(ratio)
    left = np.concatenate([[0.0], np.cumsum(width * np.cumsum(weight[:-1]))])
    right = np.concatenate([np.cumsum((width * _from_top(weight))[::-1])[::-1], [0.0]])
    _give_way(drop, left, sag, high / total)
    # The same from the other end, with the roles of the ends of a cell exchanged.
    _give_way(drop[::-1], right[::-1], sag[::-1], (low / total)[::-1])
    change = np.diff(drop)
    lowered = mass.copy()
    lowered[:-1] -= change / growth
    lowered[1:] += change / decay
    if np.any(lowered < 0):
        # Slopes (minus the Q-mass above) are summed from the top, so that small tails stay exact.
        slope = -_from_top(lowered / ratio)
        convex = isotonic_regression(slope, weights=width).x
        rounding = 8.0 * UNIT_ROUNDOFF * np.abs(slope[:-1])
        lowered[1:-1] = ratio[1:-1] * (np.diff(convex) - rounding)
        lowered[0] = lowered[-1] = 0.0
    return lowered


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
