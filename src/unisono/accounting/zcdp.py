r"""Zero-concentrated differential privacy: ``D_a(M(D) || M(D')) <= a rho`` for all a > 1.

Bun-Steinke 2016, with the conversion of Canonne-Kamath-Steinke 2020 (Prop. 12). Guarantees are
rounded towards less privacy: epsilon up, rho down.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar

from unisono.accounting.validation import (
    require_count,
    require_counts,
    require_delta,
    require_epsilon,
    require_non_negative,
    require_numbers,
    require_positive,
)

_UP = 1 + 2.0**-48


def gaussian(sensitivity: float, standard_deviation: float) -> float:
    """rho of Gaussian noise: ``Delta_2^2 / (2 sigma^2)``; also discrete Gaussian noise on integers.

    >>> gaussian(1, 1)
    0.5
    """
    ratio = require_non_negative("sensitivity", sensitivity) / require_positive(
        "standard_deviation", standard_deviation
    )
    return ratio * ratio / 2


def standard_deviation(sensitivity: float, rho: float) -> float:
    """Gaussian noise for a target rho: ``Delta_2 / sqrt(2 rho)`` (lecture 16, Theorem 2.6)."""
    return require_positive("sensitivity", sensitivity) / math.sqrt(
        2 * require_positive("rho", rho)
    )


def pure_classic(epsilon: float) -> float:
    """epsilon-DP implies ``epsilon^2 / 2``-zCDP (Bun-Steinke Prop. 1.4)."""
    return require_epsilon(epsilon, zero=True) ** 2 / 2


def pure(epsilon: float) -> float:
    r"""epsilon-DP implies ``epsilon tanh(epsilon/2)``-zCDP, and no smaller rho holds for all.

    Proof. Every pair of outputs of an epsilon-DP mechanism is a post-processing of randomized
    response (Kairouz-Oh-Viswanath 2015), for which
    ``D_a = (log cosh((a - 1/2) epsilon) - log cosh(epsilon/2)) / (a - 1)``. With u = (a - 1/2)^2,
    ``G(u) = log cosh(epsilon sqrt u)`` is concave, since ``G' = epsilon tanh(epsilon sqrt u) /
    (2 sqrt u)`` and tanh(x)/x decreases. So ``G(u) - G(1/4) <= G'(1/4) (u - 1/4)
    = epsilon tanh(epsilon/2) a (a - 1)``, that is ``D_a <= a epsilon tanh(epsilon/2)``, with
    equality as a -> 1.

    >>> round(pure(1), 4)
    0.4621
    """
    epsilon = require_epsilon(epsilon, zero=True)
    return epsilon * math.tanh(epsilon / 2)


def compose(rhos: ArrayLike, counts: Iterable[int] | None = None) -> float:
    """rho of an adaptive composition: the sum."""
    checked = require_numbers("rhos", rhos)
    return math.fsum(checked * require_counts("counts", counts, len(checked))) * _UP


def group(rho: float, size: int) -> float:
    """rho against a group of ``size`` records: ``size^2 rho``."""
    return require_non_negative("rho", rho) * require_count("size", size) ** 2


def epsilon_standard(rho: float, delta: float) -> float:
    """``rho + 2 sqrt(rho log(1/delta))`` (Bun-Steinke Prop. 1.3); never tighter than `epsilon`."""
    rho, delta = require_non_negative("rho", rho), require_delta(delta)
    return (rho + 2 * math.sqrt(rho * math.log(1 / delta))) * _UP


def rho_standard(epsilon: float, delta: float) -> float:
    """Inverse of `epsilon_standard`: ``(sqrt(l + epsilon) - sqrt(l))^2`` with l = log(1/delta).

    >>> round(rho_standard(1, 1e-5), 8)
    0.02081994
    """
    epsilon, delta = require_epsilon(epsilon), require_delta(delta)
    level = math.log(1 / delta)
    # The conjugate form has no cancellation for small epsilon.
    root = epsilon / (math.sqrt(level + epsilon) + math.sqrt(level))
    return root * root / _UP**4


def _log_delta_at(log_excess: float, rho: float, epsilon: float) -> float:
    """log of the bound ``e^{(a-1)(a rho - epsilon)} (1 - 1/a)^{a-1} / a`` at a = 1 + e^t."""
    excess = math.exp(log_excess)
    order = 1 + excess
    return (
        excess * (order * rho - epsilon)
        + excess * (log_excess - math.log1p(excess))
        - math.log1p(excess)
    )


def delta(epsilon: float, rho: float) -> float:
    """Smallest delta that rho-zCDP proves at ``epsilon`` (tight conversion).

    Every order gives a valid bound, so the numerical minimum is an upper bound on delta.
    """
    epsilon, rho = require_epsilon(epsilon, zero=True), require_non_negative("rho", rho)
    if rho == 0:
        return 0.0
    return min(1.0, math.exp(_minimum(lambda t: _log_delta_at(t, rho, epsilon), rho)) * _UP)


def epsilon(rho: float, delta: float) -> float:
    """Smallest epsilon that rho-zCDP proves at ``delta`` (tight conversion).

    ``min_a a rho + log(1 - 1/a) - (log delta + log a)/(a - 1)``, rounded up; every order is valid.

    >>> round(epsilon(0.5, 1e-5), 4)
    4.7284
    """
    rho, delta = require_non_negative("rho", rho), require_delta(delta)
    if rho == 0:
        return 0.0

    def bound(t: float) -> float:
        excess = math.exp(t)
        log_order = math.log1p(excess)
        return (1 + excess) * rho + t - log_order - (math.log(delta) + log_order) / excess

    return max(0.0, _minimum(bound, rho) * _UP)


def _minimum(bound: Callable[[float], float], rho: float) -> float:
    """Least value of a bound over the order a = 1 + e^t: a coarse search, then a fine one."""
    upper = 0.5 * max(0.0, -math.log(rho)) + 12.0
    grid = np.linspace(-12.0, upper, 64)
    values = [bound(float(t)) for t in grid]
    best = int(np.argmin(values))
    low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
    fine = minimize_scalar(bound, bounds=(low, high), method="bounded", options={"xatol": 1e-9})
    return min(float(fine.fun), values[best])


def rho_for(epsilon: float, delta: float) -> float:
    """Largest rho with ``epsilon(rho, delta) <= epsilon``, rounded down (tight conversion)."""
    target, delta = require_epsilon(epsilon), require_delta(delta)
    low = rho_standard(target, delta)
    high = 2 * low
    while _epsilon(high, delta) <= target:
        low, high = high, 2 * high
    # xtol is absolute and rho may be tiny: only the relative tolerance may stop the search.
    root = brentq(lambda r: _epsilon(r, delta) - target, low, high, xtol=1e-300, rtol=1e-12)
    rho, slack = float(root), 1e-12
    while _epsilon(rho, delta) > target:
        rho, slack = rho * (1 - slack), 2 * slack
    return rho


_epsilon = epsilon  # rho_for has a parameter of that name
