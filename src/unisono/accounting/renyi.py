r"""Rényi differential privacy (Mironov 2017): curves, composition, tight conversion.

A curve is an array of ``D_a(M(D) || M(D'))`` at an array of orders a > 1, the largest over both
orders of the neighbours. The divergence has ``dP/dQ`` in it,

    D_a(P || Q) = 1/(a-1) log E_P[(dP/dQ)^{a-1}] = 1/(a-1) log E_Q[(dP/dQ)^a],

which lecture 16 prints inverted. Curves add under adaptive composition, and every order
yields a valid bound, so a coarse grid of orders costs tightness and never truth.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp, xlogy

from unisono.accounting.validation import (
    FloatArray,
    require_counts,
    require_delta,
    require_epsilon,
    require_non_negative,
    require_numbers,
    require_orders,
    require_positive,
    require_probability,
)
from unisono.errors import InvalidInput

ORDERS: FloatArray = np.concatenate(
    [
        1 + np.geomspace(1e-3, 0.2, 12),
        np.arange(1.25, 12, 0.25),
        np.arange(12, 65),
        np.unique(np.round(np.geomspace(66, 4096, 48))),
    ]
)


def divergence(order: float, first: ArrayLike, second: ArrayLike) -> float:
    """``D_a(P || Q)`` of two finite distributions given as arrays of probabilities.

    Infinite where P has mass and Q has none.

    >>> round(divergence(2, [0.75, 0.25], [0.25, 0.75]), 6)
    0.847298
    """
    p, q = _distributions(first, second)
    a = float(require_orders(order)[0])
    if np.any((q == 0) & (p > 0)):
        return math.inf
    kept = p > 0
    return float(logsumexp(a * np.log(p[kept]) + (1 - a) * np.log(q[kept]))) / (a - 1)


def published_inverted_renyi(order: float, first: ArrayLike, second: ArrayLike) -> float:
    """Lecture 16's Definition 2.4, ``1/(a-1) log E_P[(dQ/dP)^{a-1}]``. Not private; for comparison.

    It equals ``(a-2)/(a-1) D_{a-1}(Q || P)``: never positive for a <= 2, and minus infinity for
    disjoint supports, so publishing the data satisfies it.
    """
    p, q = _distributions(first, second)
    a = float(require_orders(order)[0])
    kept = (p > 0) & (q > 0)
    if not np.any(kept):
        return -math.inf
    return float(logsumexp((2 - a) * np.log(p[kept]) + (a - 1) * np.log(q[kept]))) / (a - 1)


def _distributions(first: ArrayLike, second: ArrayLike) -> tuple[FloatArray, FloatArray]:
    p, q = require_numbers("first", first), require_numbers("second", second)
    if len(p) != len(q) or abs(p.sum() - 1) > 1e-9 or abs(q.sum() - 1) > 1e-9:
        raise InvalidInput(
            f"probabilities of lengths {len(p)} and {len(q)} sum to {p.sum():g} and {q.sum():g}; "
            "pass two distributions on the same values, each with sum 1"
        )
    return p, q


def gaussian(orders: ArrayLike, mu: float) -> FloatArray:
    """Gaussian noise: ``a mu^2 / 2`` with ``mu = Delta_2 / sigma``."""
    return require_orders(orders) * require_non_negative("mu", mu) ** 2 / 2


def pure(orders: ArrayLike, epsilon: float) -> FloatArray:
    r"""Any epsilon-DP mechanism; exact for randomized response.

    ``D_a = (log cosh((a - 1/2) epsilon) - log cosh(epsilon/2)) / (a - 1)``, never above epsilon.
    """
    a = require_orders(orders)
    epsilon = require_epsilon(epsilon, zero=True)
    step = (a - 1) * epsilon
    # cosh(x + epsilon/2)/cosh(epsilon/2) = 1 + 2 sinh^2(x/2) + sinh(x) tanh(epsilon/2): positive
    # terms for small x; for large x the linear part of log cosh is taken out exactly.
    x = np.minimum(step, 1.0)
    small = np.log1p(2 * np.sinh(x / 2) ** 2 + np.sinh(x) * math.tanh(epsilon / 2))
    large = step + np.log1p(np.exp(-2 * step - epsilon)) - math.log1p(math.exp(-epsilon))
    return np.where(step <= 1, small, large) / (a - 1)


def laplace(orders: ArrayLike, epsilon: float) -> FloatArray:
    """One-dimensional Laplace noise with ``epsilon = Delta_1 / b`` (Mironov 2017, Prop. 6).

    ``1/(a-1) log[ a/(2a-1) e^{(a-1) epsilon} + (a-1)/(2a-1) e^{-a epsilon} ]``.
    """
    a = require_orders(orders)
    epsilon = require_epsilon(epsilon, zero=True)
    terms = np.stack([np.log(a) + (a - 1) * epsilon, np.log(a - 1) - a * epsilon], axis=0) - np.log(
        2 * a - 1
    )
    exact = np.maximum(logsumexp(terms, axis=0) / (a - 1), 0.0)
    return np.minimum(exact, epsilon)


def poisson_gaussian(
    orders: ArrayLike, sampling_rate: float, noise_multiplier: float
) -> FloatArray:
    r"""Poisson-sampled Gaussian under add-or-remove (or zero-out), any real order.

    P = (1-q) N(0, s^2) + q N(1, s^2), Q = N(0, s^2), s = sigma / clip. D_a(P||Q) is the larger of
    the two directions (Mironov-Talwar-Zhang 2019, Theorem 5). Not valid under replace-one.
    """
    a = require_orders(orders)
    rate = require_probability("sampling_rate", sampling_rate)
    noise = require_positive("noise_multiplier", noise_multiplier)
    if rate == 0:
        return np.zeros_like(a)
    if rate == 1:
        return gaussian(a, 1 / noise)
    return np.array(
        [
            (
                log_moment_integer(int(order), rate, noise)
                if order == int(order)
                else _log_moment_real(float(order), rate, noise)
            )
            / (order - 1)
            for order in a
        ]
    )


def log_moment_integer(order: int, rate: float, noise: float) -> float:
    r"""log E_Q[(dP/dQ)^a] for integer a >= 2, without cancellation.

    ``sum_k C(a,k) (1-q)^{a-k} q^k e^{(k^2-k)/(2 s^2)}``; the binomial weights sum to 1, so the
    excess over 1 is a sum of positive terms, ``sum_{k>=2} ... (e^{(k^2-k)/(2 s^2)} - 1)``.
    """
    k = np.arange(2, order + 1, dtype=np.float64)
    growth = (k * k - k) / (2 * noise * noise)
    log_binomial = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    log_weight = log_binomial + xlogy(order - k, 1 - rate) + k * math.log(rate)
    return float(np.logaddexp(0.0, logsumexp(log_weight + _log_expm1(growth))))


def _log_expm1(x: FloatArray) -> FloatArray:
    """log(e^x - 1) for x > 0 without overflow."""
    return np.where(x > 30, x, np.log(np.expm1(np.minimum(x, 30.0))))


def _log_moment_real(order: float, rate: float, noise: float) -> float:
    r"""log E_Q[(dP/dQ)^a] for real a > 1 by the trapezoidal rule.

    With u = q (r - 1) the excess over 1 is ``E_Q[(1+u)^a - 1 - a u]``, an integral of a function
    that is non-negative (Bernoulli) and analytic in a strip of half-width pi s^2 around the real
    line, so the rule converges like ``exp(-2 pi^2 s^2 / step)``; the step makes that below 1e-17.
    """
    step = min(noise / 12, noise * noise / 2)
    points = np.arange(-14 * noise, order + 14 * noise + step, step)
    log_ratio = (2 * points - 1) / (2 * noise * noise)
    # log(1 + u), formed so that neither a large nor a small ratio overflows.
    log_mixture = np.logaddexp(math.log1p(-rate), math.log(rate) + log_ratio)
    power = order * log_mixture
    capped = np.minimum(log_mixture, 600.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        large = power + np.log1p(-np.exp(-power) * (1 + order * np.expm1(capped)))
        middle = np.expm1(np.minimum(power, 50.0)) - order * np.expm1(np.minimum(capped, 50.0))
        log_excess = np.where(power > 40, large, np.log(np.maximum(middle, 0.0)))
        # Near u = 0 the difference cancels; four terms of the binomial series are exact to 1e-14.
        near = np.abs(power) < 1e-3
        u = rate * np.expm1(np.where(near, log_ratio, 0.0))
        tail = 1 + (order - 2) / 3 * u * (1 + (order - 3) / 4 * u * (1 + (order - 4) / 5 * u))
        log_excess = np.where(near, np.log(order * (order - 1) / 2 * u * u * tail), log_excess)
    log_density = -0.5 * (points / noise) ** 2 - 0.5 * math.log(2 * math.pi * noise * noise)
    total = float(logsumexp(log_excess + log_density)) + math.log(step)
    return float(np.logaddexp(0.0, total + 1e-12))


def compose(curves: Sequence[ArrayLike], counts: Iterable[int] | None = None) -> FloatArray:
    """Curve of an adaptive composition of curves on the same orders: the weighted sum."""
    if len(curves) == 0:
        raise InvalidInput("no curves to compose; pass at least one")
    checked = [_curve(curve) for curve in curves]
    if len({len(curve) for curve in checked}) != 1:
        raise InvalidInput("curves have different lengths; evaluate all on the same orders")
    repeats = require_counts("counts", counts, len(checked))
    # A curve that is infinite at some order and repeated 0 times costs nothing, not NaN.
    return np.sum(
        [r * c for r, c in zip(repeats, checked, strict=True) if r > 0] or [checked[0] * 0], axis=0
    )


def _curve(curve: ArrayLike) -> FloatArray:
    values = np.atleast_1d(np.asarray(curve, dtype=np.float64))
    if values.ndim != 1 or np.any(np.isnan(values)) or np.any(values < 0):
        raise InvalidInput("a Rényi curve must be a flat list without NaN or negative values")
    return values


def epsilon(orders: ArrayLike, curve: ArrayLike, delta: float) -> float:
    """Smallest epsilon that the curve proves at ``delta``.

    ``min_a D_a + log(1 - 1/a) - (log delta + log a)/(a - 1)`` (Canonne-Kamath-Steinke 2020), and 0
    where ``D_a`` bounds the total variation by delta (Bretagnolle-Huber). Infinite orders of the
    curve are skipped; if all are infinite, so is the answer.
    """
    a, values = _matched(orders, curve)
    delta = require_delta(delta)
    usable = np.isfinite(values)
    a, values = a[usable], values[usable]
    if a.size == 0:
        return math.inf
    if np.any(-np.expm1(-values) <= delta * delta):
        return 0.0
    bounds = values + np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)
    return max(0.0, float(np.min(bounds)))


def delta(orders: ArrayLike, curve: ArrayLike, epsilon: float) -> float:
    """Smallest delta that the curve proves at ``epsilon``; at most 1."""
    a, values = _matched(orders, curve)
    epsilon = require_epsilon(epsilon, zero=True)
    if np.any(values == 0):
        return 0.0
    usable = np.isfinite(values)
    a, values = a[usable], values[usable]
    if a.size == 0:
        return 1.0
    logs = (a - 1) * (values - epsilon + np.log1p(-1 / a)) - np.log(a)
    variation = float(np.sqrt(-np.expm1(-np.min(values))))
    return min(1.0, math.exp(min(0.0, float(np.min(logs)))), variation)


def _matched(orders: ArrayLike, curve: ArrayLike) -> tuple[FloatArray, FloatArray]:
    a, values = require_orders(orders), _curve(curve)
    if len(a) != len(values):
        raise InvalidInput(f"{len(a)} orders but {len(values)} values of the curve; give one each")
    return a, values
