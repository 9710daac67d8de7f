r"""What the best of a random number of runs shows of one unit (Papernot and Steinke 2022).

A run Q releases a model with a noisy score; K runs are made, K drawn in secret by a public law that
depends on no record, and only the best run A is shown. With f(x) = E x^K the generating function of
K, and outcomes ordered by their scores,

    P(A = y) = f(Q(≤ y)) - f(Q(< y)) = Q(y) E_U f'(Q(< y) + U Q(y)),        U uniform on [0, 1].

(a, b) -> a^λ b^{1-λ} is jointly convex, so that for neighbours Q, Q' and every order λ > 1

    D_λ(A || A') <= D_λ(Q || Q') + sup log[f'(q)^λ f'(q')^{1-λ}] / (λ - 1),

with the supremum over the probabilities q = Q(S), q' = Q'(S) of one randomised event S (their
Lemma 7). They bound q' by q through one Rényi order, and get closed forms for the negative binomial
law (Theorem 2) and the Poisson law (Theorem 6), both of which may run for ever. Here f' is a
polynomial, as K has a largest value; it increases; and q' >= T(1 - q) for the trade-off function T
of a run (Dong, Roth and Su 2022). So the supremum is over one number, and on a cell [a, b] of
α = 1 - q it is at most  f'(1 - a)^λ f'(T(b))^{1-λ}: a grid of cells gives a certified bound.

Ties are broken by the order of the runs, which, as they are independent and alike, is the law of a
coin: a coin that is drawn with each score makes the order total. A run that begins by drawing one
of several options in secret is a mixture, whose divergences are no larger than the largest of the
options (joint convexity). `published_negative_binomial` and `published_poisson` are the theorems as
they are printed, for comparison and as an independent check.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from unisono.accounting.validation import FloatArray, require_positive

Curve = Callable[[FloatArray], FloatArray]
# Cells of α = 1 - q: fine where f' turns, near q = 1.
_CELLS: FloatArray = np.concatenate([[0.0], np.geomspace(1e-15, 1.0, 20_000)])


def derivative(weights: Sequence[int], points: FloatArray) -> FloatArray:
    """f' of the law of K with P(k) in proportion to `weights`, k = 1 .., at points of [0, 1]."""
    total = float(sum(weights))
    factors = np.array([k * w / total for k, w in enumerate(weights, 1)])
    found: FloatArray = np.polynomial.polynomial.polyval(points, factors)
    return found


def gaussian_trade_off(mu: float) -> Curve:
    """T of N(0, 1) against N(μ, 1)."""

    def least(alpha: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            found: FloatArray = np.where(alpha < 1, ndtr(-mu - ndtri(alpha)), 0.0)
        return np.where(alpha > 0, found, 1.0)

    return least


def supported_trade_off(epsilons: FloatArray, deltas: FloatArray) -> Curve:
    """The largest T that points (ε, δ) of a privacy profile prove, in both directions."""

    def least(alpha: FloatArray) -> FloatArray:
        first = 1 - deltas[:, None] - np.exp(epsilons)[:, None] * alpha
        second = np.exp(-epsilons)[:, None] * (1 - deltas[:, None] - alpha)
        found: FloatArray = np.maximum(0.0, np.maximum(first, second).max(axis=0))
        return found

    return least


def growth(orders: FloatArray, weights: Sequence[int], trade_off: Curve) -> FloatArray:
    """What the choice of the best adds to the Rényi divergence of a run, at these orders."""
    if len(weights) == 1:
        return np.zeros(len(orders))
    above, below = _cells(weights, trade_off)
    error = 8 * len(weights) * 2.0**-52  # of sums of positive terms, in the logarithm
    excess = [np.max(order * above - (order - 1) * below) for order in orders]
    found: FloatArray = np.array(excess) / (orders - 1) + error * orders / (orders - 1)
    return np.maximum(found, 0.0)


def pure_growth(weights: Sequence[int], epsilon: float) -> float:
    """What the choice adds to a pure epsilon of a run: the supremum of log f'(q) / f'(q')."""
    if len(weights) == 1:
        return 0.0
    above, below = _cells(weights, supported_trade_off(np.array([epsilon]), np.array([0.0])))
    return max(0.0, float(np.max(above - below))) + 16 * len(weights) * 2.0**-52


def _cells(weights: Sequence[int], trade_off: Curve) -> tuple[FloatArray, FloatArray]:
    """log f'(q) at its largest and log f'(q') at its smallest, in each cell."""
    least = np.clip(trade_off(_CELLS[1:]), 0.0, 1.0)
    above = np.log(derivative(weights, 1 - _CELLS[:-1]))
    return above, np.log(derivative(weights, least))


def published_negative_binomial(
    order: float, epsilon: float, shape: float, gamma: float, other: float, other_epsilon: float
) -> float:
    """Theorem 2 of Papernot and Steinke (2022), for K that may be any number: from (order,
    epsilon)- and (other, other_epsilon)-RDP of a run to the order-RDP of the best one."""
    require_positive("gamma", gamma)
    if shape == 0:
        mean = (1 / gamma - 1) / math.log(1 / gamma)
    else:
        mean = shape * (1 - gamma) / (gamma * (1 - gamma**shape))
    chosen = (1 + shape) * ((1 - 1 / other) * other_epsilon + math.log(1 / gamma) / other)
    return epsilon + chosen + math.log(mean) / (order - 1)


def published_poisson(order: float, epsilon: float, mean: float, delta: float) -> float:
    """Theorem 6: `delta` is that of a run at epsilon log(1 + 1 / (order - 1))."""
    return epsilon + mean * delta + math.log(mean) / (order - 1)
