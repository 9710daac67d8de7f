r"""The loss of discrete Laplace noise: what is drawn on the grid, in any number of coordinates.

Of ``P(k) ∝ p^|k|``, ``p = exp(-1/s)`` with the scale ``s`` in grid steps, moved by ``n`` steps in
one coordinate, the trade-off function is called ``f_n`` (``f_D`` for continuous Laplace noise moved
by ``D`` scales). Three facts carry what is accounted here.

*One coordinate is the worst case.* Let a vector move by ``v``, ``|v|_1 <= n``, with independent
noise in each coordinate. Move the coordinates one after the other: ``T(P, R) >= g(1 - f)`` where
``T(P, Q) >= f`` and ``T(Q, R) >= g`` (as for groups in Dong, Roth and Su 2022), so in two of them
``T >= f_{|v_2|}(1 - f_{|v_1|})``, and so on. A half-line is the most powerful test between any two
places of a symmetric log-concave law (Neyman and Pearson; at a whole number by the toss of a coin),
so the same half-line attains each step in turn: the right side *is* ``f_{|v|_1}``, which falls with
``|v|_1``.
Dimension is no part of the cost. With ``f_n`` for every pair of a sampled record and none, the
sampled pairs of :mod:`unisono.accounting.shift_pairs` hold in any dimension too: a test of size
``a`` without the record has power at most ``1 - f_n(a)`` with one record, and at least
``f_n(1 - a)`` with any other.

*On the grid the loss has n + 1 values.* ``log P(k - n)/P(k) = (2k - n)/s`` for ``0 <= k <= n``,
constant beyond: outcomes ``k <= 0`` are one, and so are those ``k >= n``. At ``n = 1`` this is
randomized response, the worst of all mechanisms with this epsilon; so nothing better can be said of
noise on an unknown grid.

*Continuous noise, moved a little further, dominates it.* The best test of ``H(x)`` is ``k > t`` for
some ``t``, so by arithmetic and geometric mean

    H(x) = 1 - (p^(n-t) + exp(x) p^(t+1)) / (1 + p) <= 1 - exp(x/2) p^(n/2) / cosh(1/(2s))

and the right side is ``H`` of continuous Laplace noise moved by ``n/s + 2 log cosh(1/(2s))``. What
the grid costs, ``1/(4 s^2)``, vanishes as the grid gets finer.
"""

import math
from dataclasses import dataclass

import numpy as np

from unisono.accounting.pairs import LARGEST_LOSS, AtomPair, Pair, PurePair
from unisono.accounting.shift_pairs import LaplacePair, Relation, require_relation
from unisono.accounting.validation import (
    FloatArray,
    require_count,
    require_positive,
    require_probability,
)

# Beyond as many steps the continuous pair is above the discrete one by epsilon / (4 n^2), 6e-5 of
# it at most, and there is no need to list outcomes.
LARGEST_LISTED = 64


@dataclass(frozen=True)
class DiscreteLaplacePair(AtomPair):
    """Discrete Laplace noise; ``scale``, and the ``units`` that a record adds, in grid steps.

    >>> round(DiscreteLaplacePair(2, 2.0).hockey_stick(0.5)[0], 6)
    0.244919
    """

    units: int
    scale: float
    rate: float = 1.0
    relation: Relation = "add-or-remove"

    def __post_init__(self) -> None:
        require_count("units", self.units)
        require_positive("scale", self.scale)
        require_probability("rate", self.rate, zero=False)
        require_relation(self.relation)

    def _lists(self, first: int) -> tuple[FloatArray, ...]:
        """The noise as it is, moved up, moved down: ``k <= first``, single k, ``k >= units``."""
        outcomes = np.arange(first, self.units + 1)
        ratio = math.exp(-1.0 / self.scale)
        each = np.full(len(outcomes), (1.0 - ratio) / (1.0 + ratio))
        each[[0, -1]] = 1.0 / (1.0 + ratio)

        def moved(place: int) -> FloatArray:
            return each * np.exp(-np.abs(outcomes - place) / self.scale)

        return moved(0), moved(self.units), moved(-self.units)

    def masses(self) -> tuple[FloatArray, FloatArray]:
        absent = 1.0 - self.rate
        if self.relation == "replace-one":
            centre, up, down = self._lists(-self.units)
            return absent * centre + self.rate * up, absent * centre + self.rate * down
        centre, up, _ = self._lists(0)
        return absent * centre + self.rate * up, centre


def discrete_laplace_pair(
    units: int, scale: float, rate: float = 1.0, relation: Relation = "add-or-remove"
) -> Pair | None:
    """The pair that dominates discrete Laplace noise on integers that a record moves by ``units``.

    None where the loss is too large to be told apart from its bound.
    """
    if 2 * units / scale > LARGEST_LOSS:
        return None
    if units == 1 and rate == 1.0 and relation != "replace-one":
        return PurePair(1.0 / scale)
    if units <= LARGEST_LISTED:
        return DiscreteLaplacePair(units, scale, rate, relation)
    return LaplacePair(continuous_epsilon(units, scale), rate, relation)


def continuous_epsilon(units: int, scale: float) -> float:
    """Distance over scale of the continuous Laplace pair that dominates the discrete one.

    >>> round(continuous_epsilon(1, 1.0), 4), round(continuous_epsilon(1024, 1024.0), 10)
    (1.2402, 1.0000002384)
    """
    # cosh x = 1 + 2 sinh^2 (x/2), so that nothing cancels.
    return (units / scale + 2.0 * math.log1p(2.0 * math.sinh(0.25 / scale) ** 2)) * (1 + 2.0**-50)
