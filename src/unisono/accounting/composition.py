r"""Adaptive composition of (epsilon, delta)-DP parts: classic theorems, each condition checked.

All take ``count`` parts of (epsilon, delta_each) and the total delta, and return the total
epsilon, rounded up. Outside its condition a theorem raises ConditionViolated.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from unisono.accounting.validation import (
    FloatArray,
    require_count,
    require_delta,
    require_epsilon,
)
from unisono.errors import ConditionViolated, InvalidInput

Guarantee = tuple[float, float]
_SQRT6_CONSTANT = (math.sqrt(6) - math.sqrt(2)) ** 2  # 1.0718
_UP = 1 + 2.0**-48


def require_guarantees(parts: Sequence[Guarantee]) -> list[Guarantee]:
    """At least one (epsilon, delta) pair with epsilon >= 0 and delta in [0, 1)."""
    if len(parts) == 0:
        raise InvalidInput("no (epsilon, delta) pairs were given; pass at least one")
    return [(require_epsilon(e, zero=True), require_delta(d, zero=True)) for e, d in parts]


def slack(delta_each: float, count: int, delta: float) -> float:
    """delta' left for a composition theorem: ``1 - (1 - delta) / (1 - delta_each)^count``."""
    delta_each, count = require_delta(delta_each, zero=True), require_count("count", count)
    delta = require_delta(delta)
    left = -math.expm1(math.log1p(-delta) - count * math.log1p(-delta_each))
    if left <= 0:
        raise ConditionViolated(
            f"{count} parts with delta {delta_each:g} each already use up delta {delta:g}; "
            "raise the total delta or lower the delta of each part"
        )
    return left


def basic(epsilon: float, delta_each: float, count: int, delta: float) -> float:
    """``count * epsilon``, if the deltas fit."""
    epsilon, count = require_epsilon(epsilon), require_count("count", count)
    if count * require_delta(delta_each, zero=True) > require_delta(delta, zero=True):
        raise ConditionViolated(
            f"{count} deltas of {delta_each:g} add up to more than {delta:g}; raise the total delta"
        )
    return count * epsilon


def _additive_slack(delta_each: float, count: int, delta: float) -> float:
    left = require_delta(delta) - count * require_delta(delta_each, zero=True)
    if left <= 0:
        raise ConditionViolated(
            f"{count} deltas of {delta_each:g} use up the total delta {delta:g}; raise it"
        )
    return left


def advanced(epsilon: float, delta_each: float, count: int, delta: float) -> float:
    """Dwork-Rothblum-Vadhan 2010: ``eps sqrt(2 k log 1/delta') + k eps (e^eps - 1)``.

    ``delta' = delta - k delta_each`` must be positive.
    """
    epsilon, count = require_epsilon(epsilon), require_count("count", count)
    left = _additive_slack(delta_each, count, delta)
    with np.errstate(over="ignore"):
        drift = float(count * epsilon * np.expm1(epsilon))
    return (epsilon * math.sqrt(2 * count * math.log(1 / left)) + drift) * _UP


def strong(epsilon: float, delta_each: float, count: int, delta: float) -> float:
    """Kairouz-Oh-Viswanath 2015, Theorem 3.4: the closed-form bound for equal parts."""
    return strong_heterogeneous([(epsilon, delta_each)] * require_count("count", count), delta)


def strong_heterogeneous(parts: Sequence[Guarantee], delta: float) -> float:
    r"""Kairouz-Oh-Viswanath 2015, Theorem 3.5, for unequal parts; the exact answer is #P-hard.

    The least of ``sum eps`` and ``sum eps tanh(eps/2) + sqrt(2 sum eps^2 L)`` with
    ``L = min(log 1/delta', log(e + sqrt(sum eps^2)/delta'))``,
    ``delta' = 1 - (1 - delta) / prod (1 - delta_i)``.
    """
    checked = require_guarantees(parts)
    log_kept = math.fsum(math.log1p(-d) for _, d in checked)
    left = -math.expm1(math.log1p(-require_delta(delta)) - log_kept)
    if left <= 0:
        raise ConditionViolated(
            f"the parts' deltas already use up delta {delta:g}; raise the total delta"
        )
    total = math.fsum(e for e, _ in checked)
    squares = math.fsum(e * e for e, _ in checked)
    drift = math.fsum(e * math.tanh(e / 2) for e, _ in checked)
    level = min(math.log(1 / left), math.log(math.e + math.sqrt(squares) / left))
    return min(total, drift + math.sqrt(2 * squares * level)) * _UP


def _losses(epsilon: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Privacy losses of ``count`` randomized responses and their log probabilities."""
    lies = np.arange(count + 1, dtype=np.float64)
    log_choose = gammaln(count + 1) - gammaln(lies + 1) - gammaln(count - lies + 1)
    log_mass = log_choose - lies * epsilon - count * math.log1p(math.exp(-epsilon))
    return (count - 2 * lies) * epsilon, log_mass


def optimal_delta(total_epsilon: float, epsilon: float, count: int) -> float:
    r"""Exact delta of ``count`` epsilon-DP parts, rounded up.

    The worst case (Kairouz-Oh-Viswanath 2015, Theorem 3.3) is randomized response: with losses
    ``(k - 2 l) epsilon`` of probability p_l, ``delta = sum_l p_l (1 - e^{total - loss_l})_+``.
    """
    target = require_epsilon(total_epsilon, zero=True, name="total_epsilon")
    return _delta(target, *_losses(require_epsilon(epsilon), require_count("count", count)))


def _delta(target: float, loss: FloatArray, log_mass: FloatArray) -> float:
    kept = loss > target
    if not np.any(kept):
        return 0.0
    # Losses are rounded products: taken a little larger, their distance to the target, which may be
    # tiny, is never too small.
    reach = loss[kept] * (1 + 2.0**-50)
    terms = log_mass[kept] + np.log(-np.expm1(target - reach))
    # The log probabilities carry the rounding error of log-gamma, hence the margin.
    margin = 1 + 1e-12 + 2.0**-48 * float(gammaln(len(loss) + 1))
    return min(1.0, float(np.exp(logsumexp(terms))) * margin)


def optimal(epsilon: float, delta_each: float, count: int, delta: float) -> float:
    """Exact composition of equal parts, rounded up: the least epsilon true for every mechanism.

    >>> round(optimal(1.0, 0.0, 1000, 1e-5), 1)
    577.8
    """
    epsilon, count = require_epsilon(epsilon), require_count("count", count)
    left = slack(delta_each, count, delta)
    law = _losses(epsilon, count)
    if _delta(0.0, *law) <= left:
        return 0.0
    high = count * epsilon
    root = float(brentq(lambda e: _delta(e, *law) - left, 0.0, high, xtol=1e-12))
    step = 1e-13 * (1 + root)
    while _delta(root, *law) > left:
        root, step = root + step, 2 * step
    return min(root, high)


def published_sqrt6(epsilon: float, count: int, delta: float) -> float:
    """Lecture 16, Theorem 3.1(iii): ``eps sqrt(6 T log 1/delta)`` with no condition.

    Not private in general; kept for comparison (claims 262.8 where the truth is 577.8).
    """
    count, delta = require_count("count", count), require_delta(delta)
    return require_epsilon(epsilon) * math.sqrt(6 * count * math.log(1 / delta))


def sqrt6(epsilon: float, delta_each: float, count: int, delta: float) -> float:
    """``eps sqrt(6 T log 1/delta')`` where it is true, with ``delta' = delta - T delta_each``.

    Condition: ``T (e^eps - 1)^2 <= 1.0718 log(1/delta')`` from the advanced theorem, or
    for pure parts ``T eps^2 <= 4.287 log(1/delta')`` through zCDP.
    """
    epsilon, count = require_epsilon(epsilon), require_count("count", count)
    level = math.log(1 / _additive_slack(delta_each, count, delta))
    by_advanced = epsilon < 100 and count * math.expm1(epsilon) ** 2 <= _SQRT6_CONSTANT * level
    by_zcdp = delta_each == 0 and count * epsilon**2 <= 4 * _SQRT6_CONSTANT * level
    if not (by_advanced or by_zcdp):
        raise ConditionViolated(
            f"sqrt(6 T log 1/delta) needs T epsilon^2 <= {4 * _SQRT6_CONSTANT * level:.4g} (pure "
            f"parts) or T (e^epsilon - 1)^2 <= {_SQRT6_CONSTANT * level:.4g}, but epsilon is "
            f"{epsilon:g} and T is {count}; use the optimal composition"
        )
    return epsilon * math.sqrt(6 * count * level) * _UP
