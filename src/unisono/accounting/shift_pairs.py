"""Dominating pairs of additive noise, with or without secret Poisson sampling.

``f`` is the noise density of unit scale, ``D`` the sensitivity of one record that is present
against one that is zeroed out, in units of the noise scale, and ``q`` the sampling rate. The
relation fixes the pair:

    add-or-remove, zero-out   P = (1-q) f(x) + q f(x-D)    Q = f(x)
    replace-one               P = (1-q) f(x) + q f(x-D)    Q = (1-q) f(x) + q f(x+D)

Why the second dominates every replacement ``(1-q) f + q f(.-g)`` against
``(1-q) f + q f(.-g')`` with ``|g|, |g'| <= D``: for a test ``A`` let ``A'`` be the half-line
(half-space) of the same mass under ``f``. ``f`` is symmetric and log-concave, so by Neyman-Pearson
``A'`` has at least the mass of ``A`` under the shift ``+D`` and at most that under ``-D``. (In more
than one dimension this needs that one coordinate is the worst case: by rotational symmetry for the
Gaussian and l2, by :mod:`unisono.accounting.laplace_pairs` for Laplace noise and l1.)
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import ndtr, ndtri

from unisono.accounting import gaussian
from unisono.accounting.pairs import LARGEST_LOSS, UNIT_ROUNDOFF, Cells
from unisono.accounting.validation import FloatArray, require_positive, require_probability
from unisono.errors import InvalidInput

Relation = Literal["add-or-remove", "zero-out", "replace-one"]


def require_relation(relation: str) -> None:
    """Refuse a relation that has no pair."""
    if relation not in get_args(Relation):
        raise InvalidInput(
            f"relation is {relation!r}, which no pair is known for; choose "
            "'add-or-remove', 'zero-out' or 'replace-one'"
        )


class _ShiftPair:
    """Symmetric log-concave noise: the loss rises with the output, {L > e} is a half-line."""

    rate: float
    relation: Relation

    @property
    def shift(self) -> float:
        """``D`` above."""
        raise NotImplementedError

    @staticmethod
    def _tail(x: FloatArray) -> FloatArray:
        """Mass of the noise beyond ``|x|`` on one side."""
        raise NotImplementedError

    @staticmethod
    def _quantile(tail_mass: float) -> float:
        """The ``z`` with ``_tail(z) = tail_mass``."""
        raise NotImplementedError

    def _unsampled(self, epsilon: float) -> float:
        """Exact ``H(epsilon)`` at rate one."""
        raise NotImplementedError

    def loss(self, x: FloatArray) -> FloatArray:
        """The privacy loss of the outputs ``x``."""
        raise NotImplementedError

    def threshold(self, losses: FloatArray) -> FloatArray:
        """The ``x`` with ``{L > e} = {output > x}``, for every ``e`` in ``losses``."""
        raise NotImplementedError

    def _check(self, name: str) -> None:
        require_positive(name, self.shift)
        require_probability("rate", self.rate, zero=False)
        require_relation(self.relation)

    @property
    def symmetric(self) -> bool:
        return self.relation == "replace-one" or self.rate == 1.0

    @property
    def anchor(self) -> float:
        return 0.0

    @property
    def distance(self) -> float:
        """Distance of the two laws at rate one."""
        return self.shift * (2.0 if self.relation == "replace-one" else 1.0)

    def _components(self) -> tuple[tuple[float, float, float], ...]:
        """Triples (shift, weight in P, weight in Q)."""
        q = float(self.rate)
        if self.relation == "replace-one":
            centre = () if q == 1.0 else ((0.0, 1.0 - q, 1.0 - q),)
            return (*centre, (self.shift, q, 0.0), (-self.shift, 0.0, q))
        return (0.0, 1.0 - q, 1.0), (self.shift, q, 0.0)

    def _reach(self, tail_mass: float) -> tuple[float, float]:
        """Outputs above which P, and below which Q, has at most ``tail_mass``."""
        reach = self._quantile(tail_mass)
        return -reach - (self.shift if self.relation == "replace-one" else 0.0), self.shift + reach

    def window(self, tail_mass: float) -> tuple[float, float]:
        low, high = self.loss(np.array(self._reach(tail_mass)))
        return max(float(low), -LARGEST_LOSS), min(float(high), LARGEST_LOSS)

    def points(self, count: int, tail_mass: float) -> tuple[FloatArray, FloatArray]:
        edges = np.linspace(*self._reach(tail_mass), count + 1)
        mass = np.zeros(count)
        for shift, in_p, _ in self._components():
            mass += in_p * _increments(edges - shift, self._tail(edges - shift))
        return self.loss(0.5 * (edges[1:] + edges[:-1])), mass

    def hockey_stick(self, epsilon: float) -> tuple[float, float]:
        if self.rate == 1.0:
            both = self._unsampled(epsilon)
            return both, both
        if epsilon > LARGEST_LOSS:
            return self.hockey_stick(LARGEST_LOSS)
        ratio = math.exp(epsilon)
        right, left = self.threshold(np.array([epsilon, -epsilon]))
        forward = reverse = 0.0
        for shift, in_p, in_q in self._components():
            forward += (in_p - ratio * in_q) * self._beyond(right - shift)
            reverse += (in_q - ratio * in_p) * self._beyond(shift - left)
        return min(max(forward, 0.0), 1.0), min(max(reverse, 0.0), 1.0)

    def _beyond(self, x: float) -> float:
        """Mass of the noise above ``x``."""
        tail = float(self._tail(np.asarray(x)))
        return tail if x >= 0 else 1.0 - tail

    def cells(self, nodes: FloatArray) -> Cells:
        x, ratio = self.threshold(nodes), np.exp(nodes)
        size = len(nodes) - 1
        at_lower, at_upper, error = np.zeros(size), np.zeros(size), np.zeros(size)
        below = above = infinite = vanishing = rounding = 0.0
        for shift, in_p, in_q in self._components():
            y = x - shift
            tail = self._tail(y)
            mass = _increments(y, tail)
            weight = in_p - ratio * in_q
            at_lower -= weight[1:] * mass
            at_upper += weight[:-1] * mass
            # The relative error of a tail grows with the exponent it is the exponential of.
            doubt = np.abs(weight) * tail * (4.0 + np.minimum(y * y, 1500.0))
            error += doubt[:-1] + doubt[1:] + (in_p + ratio[1:] * in_q) * mass
            left, right = self._beyond(-float(y[0])), self._beyond(float(y[-1]))
            below += in_p * left
            above += in_q * ratio[-1] * right
            infinite += (in_p - in_q * ratio[-1]) * right
            vanishing += (in_q - in_p / ratio[0]) * left
            rounding += (in_p + in_q * ratio[-1]) * right + (in_q + in_p / ratio[0]) * left
        width = np.diff(nodes)
        rounding *= 1500.0 * UNIT_ROUNDOFF
        return Cells(
            np.maximum(at_lower / np.expm1(width), 0.0),
            np.maximum(at_upper / -np.expm1(-width), 0.0),
            error * (8.0 * UNIT_ROUNDOFF / width),
            below,
            above,
            max(infinite, 0.0) + rounding,
            max(vanishing, 0.0) + rounding,
        )


def _increments(y: FloatArray, tail: FloatArray) -> FloatArray:
    """``F(y_{i+1}) - F(y_i)`` from one-sided tails: no cancellation in either tail."""
    signed = np.where(y >= 0, -tail, tail)
    straddles = (y[1:] >= 0) & (y[:-1] < 0)
    return np.maximum(np.diff(signed) + straddles, 0.0)


def _mixed(exponent: FloatArray, rate: float) -> FloatArray:
    """``log(1 - q + q exp(exponent))``."""
    if rate == 1.0:
        return exponent
    large = exponent > 30.0
    plain = np.log1p(rate * np.expm1(np.where(large, 0.0, exponent)))
    rest = np.log1p((1.0 - rate) / rate * np.exp(-np.maximum(exponent, 30.0)))
    return np.where(large, exponent + math.log(rate) + rest, plain)


def _unmixed(losses: FloatArray, rate: float) -> FloatArray:
    """Inverse of :func:`_mixed`; minus infinity below its range."""
    if rate == 1.0:
        return losses
    inside = np.expm1(losses) + rate
    return np.where(inside > 0, np.log(np.where(inside > 0, inside, 1.0) / rate), -np.inf)


@dataclass(frozen=True)
class GaussianPair(_ShiftPair):
    """Gaussian noise; ``mu`` is the zero-out sensitivity of a record over the standard deviation.

    >>> round(GaussianPair(1.0).hockey_stick(1.0)[0], 10)
    0.1269367375
    """

    mu: float
    rate: float = 1.0
    relation: Relation = "add-or-remove"

    def __post_init__(self) -> None:
        self._check("mu")

    @property
    def shift(self) -> float:
        return self.mu

    @staticmethod
    def _tail(x: FloatArray) -> FloatArray:
        return np.asarray(ndtr(-np.abs(x)), dtype=np.float64)

    @staticmethod
    def _quantile(tail_mass: float) -> float:
        return float(-ndtri(tail_mass))

    def _unsampled(self, epsilon: float) -> float:
        return gaussian.delta(epsilon, self.distance)

    def loss(self, x: FloatArray) -> FloatArray:
        toward = _mixed(self.mu * x - 0.5 * self.mu**2, self.rate)
        if self.relation == "replace-one":
            return toward - _mixed(-self.mu * x - 0.5 * self.mu**2, self.rate)
        return toward

    def threshold(self, losses: FloatArray) -> FloatArray:
        if self.relation != "replace-one":
            return _unmixed(losses, self.rate) / self.mu + 0.5 * self.mu
        half = 0.5 * np.abs(losses)
        if self.rate == 1.0:
            return 0.5 * losses / self.mu
        # exp(mu x) solves a quadratic: mu x = e/2 + arcsinh(sinh(e/2) (1-q) / (q exp(-mu^2/2))).
        log_factor = math.log1p(-self.rate) - math.log(self.rate) + 0.5 * self.mu**2
        log_sinh = half + np.log(np.maximum(-np.expm1(-2.0 * half), 1e-300)) - math.log(2.0)
        argument = log_sinh + log_factor
        inverse = np.arcsinh(np.exp(np.minimum(argument, 300.0)))
        inverse = np.where(argument > 300.0, argument + math.log(2.0), inverse)
        return np.sign(losses) * (half + inverse) / self.mu


@dataclass(frozen=True)
class LaplacePair(_ShiftPair):
    """Laplace noise; ``epsilon`` is the zero-out sensitivity over the scale.

    >>> round(LaplacePair(1.0).hockey_stick(0.5)[0], 6)
    0.221199
    """

    epsilon: float
    rate: float = 1.0
    relation: Relation = "add-or-remove"

    def __post_init__(self) -> None:
        self._check("epsilon")

    @property
    def shift(self) -> float:
        return self.epsilon

    @property
    def anchor(self) -> float:
        return float(self.loss(np.array([np.inf]))[0])

    @staticmethod
    def _tail(x: FloatArray) -> FloatArray:
        return 0.5 * np.exp(-np.abs(x))

    @staticmethod
    def _quantile(tail_mass: float) -> float:
        return -math.log(2.0 * tail_mass)

    def _unsampled(self, epsilon: float) -> float:
        return -math.expm1(min(0.5 * (epsilon - self.distance), 0.0))

    def loss(self, x: FloatArray) -> FloatArray:
        toward = _mixed(np.clip(2.0 * x - self.epsilon, -self.epsilon, self.epsilon), self.rate)
        if self.relation == "replace-one":
            away = np.clip(-2.0 * x - self.epsilon, -self.epsilon, self.epsilon)
            return toward - _mixed(away, self.rate)
        return toward

    def threshold(self, losses: FloatArray) -> FloatArray:
        bottom, top = self.loss(np.array([-np.inf, np.inf]))
        if self.relation == "replace-one":
            # For outputs in [0, D] the far component has the constant ratio exp(-D) to the centre.
            far = float(_mixed(np.array([-self.epsilon]), self.rate)[0])
            size = 0.5 * (self.epsilon + _unmixed(np.abs(losses) + far, self.rate))
            x = np.sign(losses) * size
        else:
            x = 0.5 * (self.epsilon + _unmixed(losses, self.rate))
        return np.where(losses >= top, np.inf, np.where(losses < bottom, -np.inf, x))
