"""Privacy-loss-distribution accountant with certified upper and lower bounds.

>>> spent = compose([(GaussianPair(1.0, rate=0.01), 10_000)])
>>> bracket = spent.epsilon(1e-5)
>>> 6.18 < bracket.lower < bracket.upper < 6.19
True
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from unisono.accounting.bracketing import Bracket, bracket_delta, bracket_epsilon, curve_above
from unisono.accounting.composition import optimal_delta
from unisono.accounting.pairs import ApproximatePair, DiscretePair, Pair, PurePair
from unisono.accounting.shift_pairs import GaussianPair, LaplacePair, Relation
from unisono.accounting.validation import (
    FloatArray,
    require_count,
    require_delta,
    require_epsilon,
    require_positive,
)
from unisono.errors import InvalidInput

__all__ = [
    "ApproximatePair",
    "Bracket",
    "Composition",
    "DiscretePair",
    "GaussianPair",
    "LaplacePair",
    "Pair",
    "PurePair",
    "Relation",
    "compose",
]

_EXACT = 1e-9  # relative error allowed to the closed forms


@dataclass(frozen=True)
class Composition:
    """Releases on the same records, composed; made by :func:`compose`.

    Guarantee: for every ``delta`` the composition is ``(epsilon(delta).upper, delta)``-DP for the
    relation of its pairs, against an adversary who sees all releases and chooses queries, but not
    distributions of noise, from earlier answers (`accounting.filter` covers both); and its
    dominating pair is not ``(e, delta)``-DP for any ``e`` below ``epsilon(delta).lower``.
    """

    terms: tuple[tuple[Pair, int], ...]
    tolerance: float = 1e-3
    shortcuts: bool = True

    def epsilon(self, delta: float) -> Bracket:
        """Certified epsilon, at most ``tolerance`` wide unless the grid would be too long."""
        delta = require_delta(delta)
        exact = self._exact()
        if exact is not None:
            return _invert(exact, delta)
        bracket = bracket_epsilon(self.terms, delta, self.tolerance)
        if bracket.width > self.tolerance:  # a coarse grid can miss rare losses: look closer, once
            bracket = bracket_epsilon(self.terms, delta, self.tolerance / 20)
        return bracket

    def delta(self, epsilon: float) -> Bracket:
        """Certified delta, at most ``tolerance`` wide relative to it (with the same exception)."""
        epsilon = require_epsilon(epsilon, zero=True)
        exact = self._exact()
        if exact is None:
            return bracket_delta(self.terms, epsilon, self.tolerance)
        value = exact(epsilon)
        return Bracket(value * (1.0 - _EXACT), min(value * (1.0 + _EXACT), 1.0))

    def membership_advantage(self) -> float:
        """Upper bound of (true minus false positive rate) of any test of membership: delta(0)."""
        return self.delta(0.0).upper

    def trade_off(self, alpha: ArrayLike) -> FloatArray:
        """Lower bound of the false negative rate at false positive rate ``alpha``, any shape.

        ``f(alpha) = max over epsilon of max(1 - delta - e^epsilon alpha,
        e^-epsilon (1 - delta - alpha), 0)`` for either direction of the relation.
        """
        rates = np.asarray(alpha, dtype=np.float64)
        if not np.all((rates >= 0) & (rates <= 1)):
            raise InvalidInput(f"alpha is {alpha!r}, but error rates lie in [0, 1]; clip them")
        epsilons, deltas = self._curve()
        factor = np.exp(-epsilons)
        flat = rates.reshape(-1, 1)
        steep = 1.0 - deltas - np.exp(np.minimum(epsilons, 700.0)) * flat
        gentle = factor * (1.0 - deltas - flat)
        best = np.max(np.maximum(np.maximum(steep, gentle), 0.0), axis=1)
        return best.reshape(rates.shape)

    def _curve(
        self, smallest_delta: float = 1e-9, count: int = 200
    ) -> tuple[FloatArray, FloatArray]:
        """Upper bounds of delta on a grid of epsilons, shape (count,) each."""
        exact = self._exact()
        if exact is not None:
            top = _invert(exact, smallest_delta).upper
            epsilons = np.linspace(0.0, min(top, 1e4), count)
            return epsilons, np.array([exact(value) * (1.0 + _EXACT) for value in epsilons])
        symmetric = all(pair.symmetric for pair, _ in self.terms)
        curves = [
            curve_above(self.terms, forward, smallest_delta)
            for forward in ((True,) if symmetric else (True, False))
        ]
        top = max(min(curve.epsilon(smallest_delta), curve.losses[-1]) for curve in curves)
        epsilons = np.linspace(0.0, float(top), count)
        return epsilons, np.max([curve.deltas(epsilons) for curve in curves], axis=0)

    def _exact(self) -> Callable[[float], float] | None:
        """The closed form of ``delta(epsilon)``, where there is one."""
        if not self.shortcuts:
            return None
        pairs = [pair for pair, _ in self.terms]
        gaussians = [p for p in pairs if isinstance(p, GaussianPair) and p.rate == 1.0]
        if len(gaussians) == len(pairs):
            squares = (
                count * p.distance**2 for p, (_, count) in zip(gaussians, self.terms, strict=True)
            )
            total = GaussianPair(math.sqrt(math.fsum(squares)))
            return lambda epsilon: total.hockey_stick(epsilon)[0]
        pair, count = self.terms[0]
        if len(self.terms) == 1 and isinstance(pair, PurePair):
            each = pair.epsilon
            return lambda epsilon: optimal_delta(epsilon, each, count)
        return None


def compose(
    terms: Sequence[tuple[Pair, int]], *, tolerance: float = 1e-3, shortcuts: bool = True
) -> Composition:
    """Compose ``count`` uses of every pair in ``terms``; equal pairs are merged.

    ``tolerance`` is the width of the brackets asked for. ``shortcuts=False`` forbids closed forms
    (Gaussians without sampling; equal pure mechanisms), for checking the numerical path.

    >>> round(compose([(PurePair(1.0), 1000)]).epsilon(1e-5).upper, 2)
    577.83
    """
    require_positive("tolerance", tolerance)
    merged: dict[Pair, int] = {}
    for term in terms:
        try:
            pair, count = term
        except (TypeError, ValueError):
            raise InvalidInput(f"{term!r} is not a (pair, count); give both") from None
        merged[pair] = merged.get(pair, 0) + require_count("count", count)
    if not merged:
        raise InvalidInput("terms is empty, so nothing was released; give at least one pair")
    return Composition(tuple(merged.items()), tolerance, shortcuts)


def _invert(curve: Callable[[float], float], delta: float) -> Bracket:
    """Where a falling closed form meets ``delta``, from both sides."""
    ends = []
    for target in (delta * (1.0 + 2.0 * _EXACT), delta * (1.0 - 2.0 * _EXACT)):
        high = 1.0
        while curve(high) > target:
            high *= 2.0
        if curve(0.0) <= target:
            ends.append(0.0)
        else:
            ends.append(float(brentq(lambda e, t=target: curve(e) - t, 0.0, high, xtol=1e-12)))
    return Bracket(max(ends[0] * (1.0 - 1e-12) - 1e-12, 0.0), ends[1] * (1.0 + 1e-12) + 1e-12)
