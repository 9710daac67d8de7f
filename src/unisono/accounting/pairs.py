"""Dominating pairs: two output laws that are the worst case of one private release.

A mechanism is dominated by the pair ``(P, Q)`` when for every neighbouring input and every
``epsilon`` its hockey-stick divergence is at most

    H(epsilon) = sup_A P(A) - exp(epsilon) Q(A),

in the order ``P||Q`` for one direction of the relation and ``Q||P`` for the other. Products of
pairs dominate compositions (Zhu, Dong and Wang 2022), so all an accountant needs is the law of
the privacy loss ``L = log dP/dQ``. This module holds the pairs with finitely many losses;
:mod:`unisono.accounting.shift_pairs` those of additive noise.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from unisono.accounting.validation import FloatArray, require_epsilon, require_probability
from unisono.errors import InvalidInput

UNIT_ROUNDOFF = 2.0**-53
LARGEST_LOSS = 600.0  # exp(+-loss) stays far inside the range of doubles; beyond: counted infinite


class Cells(NamedTuple):
    """The loss between nodes ``e_0 < ... < e_n``, with every cell replaced by two atoms.

    Cell ``i`` holds the outcomes with ``e_i < L <= e_{i+1}``, of mass ``p`` under P and ``q`` under
    Q. ``at_lower[i]`` and ``at_upper[i]`` are the P-masses of the two atoms at ``e_i`` and
    ``e_{i+1}`` that keep both ``p`` and ``q``; ``error[i]`` bounds the rounding error of either.
    ``below`` is the P-mass with ``L <= e_0`` and ``above`` is ``exp(e_n)`` times the Q-mass with
    ``L > e_n``. ``infinite``, the P-mass left above, and ``vanishing``, the Q-mass left below, are
    infinite losses of ``P||Q`` and ``Q||P``; truncation and rounding up are included.
    ``truly_infinite`` and ``truly_vanishing`` are the parts that no truncation caused.
    """

    at_lower: FloatArray
    at_upper: FloatArray
    error: FloatArray
    below: float
    above: float
    infinite: float
    vanishing: float
    truly_infinite: float = 0.0
    truly_vanishing: float = 0.0


class Pair(Protocol):
    """What the accountant asks of a dominating pair; implementations are hashable values."""

    @property
    def symmetric(self) -> bool:
        """Whether the orders ``P||Q`` and ``Q||P`` have the same curve."""

    @property
    def anchor(self) -> float:
        """A loss that should lie on the grid because it carries mass; 0 when none does."""

    def hockey_stick(self, epsilon: float) -> tuple[float, float]:
        """Exact ``H(epsilon)``, ``epsilon >= 0``, of one use in the orders ``P||Q``, ``Q||P``."""

    def window(self, tail_mass: float) -> tuple[float, float]:
        """Losses above which P, and below which Q, has at most ``tail_mass`` (of finite loss)."""

    def points(self, count: int, tail_mass: float) -> tuple[FloatArray, FloatArray]:
        """Losses and P-masses that imitate the pair: for estimates, never for a claim."""

    def cells(self, nodes: FloatArray) -> Cells:
        """The loss between ``nodes``, shape (n+1,)."""


class AtomPair:
    """A pair with finitely many outcomes; subclasses give the two probability vectors."""

    def masses(self) -> tuple[FloatArray, FloatArray]:
        """Probabilities of the outcomes under P and Q, shape (k,) each."""
        raise NotImplementedError

    def _finite(self) -> tuple[FloatArray, FloatArray]:
        """Losses (ascending) and P-masses of the outcomes possible under both."""
        upper, lower = self.masses()
        both = (upper > 0) & (lower > 0)
        losses = np.log(upper[both]) - np.log(lower[both])
        order = np.argsort(losses)
        return losses[order], upper[both][order]

    @property
    def symmetric(self) -> bool:
        upper, lower = self.masses()
        return bool(np.array_equal(upper, lower[::-1]))

    @property
    def anchor(self) -> float:
        sizes = np.abs(self._finite()[0])
        sizes = sizes[sizes > 1e-9]
        return float(sizes.min()) if sizes.size else 0.0

    def hockey_stick(self, epsilon: float) -> tuple[float, float]:
        upper, lower = self.masses()
        ratio = math.exp(min(epsilon, LARGEST_LOSS))
        forward = float(np.sum(np.maximum(upper - ratio * lower, 0.0)))
        return forward, float(np.sum(np.maximum(lower - ratio * upper, 0.0)))

    def window(self, tail_mass: float) -> tuple[float, float]:
        losses, _ = self._finite()
        if not losses.size:
            return 0.0, 0.0
        return max(float(losses[0]), -LARGEST_LOSS), min(float(losses[-1]), LARGEST_LOSS)

    def points(self, count: int, tail_mass: float) -> tuple[FloatArray, FloatArray]:
        losses, mass = self._finite()
        return losses, mass

    def cells(self, nodes: FloatArray) -> Cells:
        losses, mass = self._finite()
        upper, lower = self.masses()
        size = len(nodes) - 1
        # Loss e_i exactly on a node belongs to the cell below it, so that its atom stays put.
        index = np.searchsorted(nodes, losses, side="left") - 1
        inside = (index >= 0) & (index < size)
        slot, loss, weight = index[inside], losses[inside], mass[inside]
        width = nodes[slot + 1] - nodes[slot]
        at_upper = weight * (np.expm1(nodes[slot] - loss) / np.expm1(-width))
        at_lower = weight * (np.expm1(nodes[slot + 1] - loss) / np.expm1(width))
        error = 8.0 * UNIT_ROUNDOFF * weight * (1.0 + (1.0 + np.abs(loss)) / width)
        over, under = index >= size, index < 0
        above = float(np.sum(mass[over] * np.exp(nodes[-1] - losses[over])))
        below = float(np.sum(mass[under]))
        hidden = float(
            np.sum(mass[under] * -np.expm1(losses[under] - nodes[0]) * np.exp(-losses[under]))
        )
        infinite = float(np.sum(upper[lower == 0]))
        vanishing = float(np.sum(lower[upper == 0]))
        # What the vectors lack to sum to one may be anywhere: at infinity, in the worst case.
        lack_upper = max(1.0 - float(np.sum(upper)), 0.0)
        lack_lower = max(1.0 - float(np.sum(lower)), 0.0)
        return Cells(
            _binned(slot, np.maximum(at_lower, 0.0), size),
            _binned(slot, np.maximum(at_upper, 0.0), size),
            _binned(slot, error, size),
            below,
            above,
            infinite + lack_upper + float(np.sum(mass[over])) - above,
            vanishing + lack_lower + hidden,
            infinite,
            vanishing,
        )


def _binned(slot: NDArray[np.intp], values: FloatArray, size: int) -> FloatArray:
    return np.asarray(np.bincount(slot, weights=values, minlength=size), dtype=np.float64)


@dataclass(frozen=True)
class PurePair(AtomPair):
    """Randomized response: dominates every pure epsilon-DP mechanism.

    >>> round(PurePair(1.0).hockey_stick(0.0)[0], 6)
    0.462117
    """

    epsilon: float

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)

    def masses(self) -> tuple[FloatArray, FloatArray]:
        truth = 1.0 / (1.0 + math.exp(-self.epsilon))
        upper = np.array([truth, math.exp(-self.epsilon) * truth])
        return upper, upper[::-1].copy()

    def _finite(self) -> tuple[FloatArray, FloatArray]:
        upper, _ = self.masses()
        return np.array([-self.epsilon, self.epsilon]), upper[::-1].copy()


@dataclass(frozen=True)
class ApproximatePair(AtomPair):
    """Dominates every (epsilon, delta)-DP mechanism (Kairouz, Oh and Viswanath 2015)."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon, zero=True)
        require_probability("delta", self.delta, one=False)

    def masses(self) -> tuple[FloatArray, FloatArray]:
        truth = (1.0 - self.delta) / (1.0 + math.exp(-self.epsilon))
        upper = np.array([self.delta, truth, math.exp(-self.epsilon) * truth, 0.0])
        return upper, upper[::-1].copy()

    def _finite(self) -> tuple[FloatArray, FloatArray]:
        upper, _ = self.masses()
        return np.array([-self.epsilon, self.epsilon]), upper[2:0:-1].copy()


@dataclass(frozen=True)
class DiscretePair(AtomPair):
    """Two probability vectors: any mechanism whose worst case is known outcome by outcome.

    ``upper[k]`` and ``lower[k]`` are the probabilities of outcome ``k`` under P and Q. A tail that
    was cut has to be an outcome of its own, with probability 0 on the other side.
    """

    upper: tuple[float, ...]
    lower: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.upper) != len(self.lower) or not self.upper:
            raise InvalidInput(
                f"upper has {len(self.upper)} and lower {len(self.lower)} outcomes; give both "
                "probabilities of every outcome"
            )
        for name, values in (("upper", self.upper), ("lower", self.lower)):
            for value in values:
                require_probability(f"an entry of {name}", value)
            total = math.fsum(values)
            if abs(total - 1.0) > 1e-12:
                raise InvalidInput(
                    f"{name} sums to {total}, not to 1; add the missing outcomes or normalise"
                )

    def masses(self) -> tuple[FloatArray, FloatArray]:
        return np.array(self.upper, dtype=np.float64), np.array(self.lower, dtype=np.float64)
