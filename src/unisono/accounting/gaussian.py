r"""Exact accounting of Gaussian noise without sampling (ERRATA "dG").

A release ``f(D) + N(0, sigma^2 I)`` with L2 sensitivity ``Delta`` under some relation has

    mu = Delta / sigma,
    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu),

exactly (Balle-Wang 2018), and adaptive composition adds squares, ``mu^2 = sum mu_t^2``
(Dong-Roth-Su 2019). ``mu`` is always in units of the sensitivity of *one* relation: replace-one
of a vector clipped to C has ``Delta = 2 C``, add-or-remove and zero-out have ``Delta = C``.

Everything that states a guarantee is rounded towards less privacy: ``epsilon`` up, ``mu_for``
down, by less than 1e-9 relative.
"""

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

from unisono.accounting.validation import (
    FloatArray,
    require_count,
    require_counts,
    require_delta,
    require_epsilon,
    require_non_negative,
    require_number,
    require_numbers,
    require_positive,
    require_probability,
)
from unisono.errors import ConditionViolated, InvalidInput

_ULP = 2.0**-52
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
# Below this mu the two terms of the curve cancel and their difference is integrated instead.
_SMALL_MU = 0.5


def _mills(x: FloatArray) -> FloatArray:
    """Mills ratio ``(1 - Phi(x)) / phi(x)``; overflows only for x < -37."""
    return math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))


def _log_delta(x: FloatArray, mu: FloatArray) -> FloatArray:
    r"""log delta at ``epsilon = mu (x + mu/2)``.

    With ``y = x + mu`` both terms share a density, ``e^epsilon phi(y) = phi(x)``, so
    ``delta = phi(x) (R(x) - R(y))`` with R the Mills ratio: nothing overflows, and for small mu
    ``R(x) - R(y) = int_x^y (1 - t R(t)) dt`` avoids the cancellation.
    """
    log_density = -0.5 * x * x - _LOG_ROOT_TWO_PI
    y = x + mu
    points = np.maximum(x, -1.0)[..., None] + (mu[..., None] / 2) * (1 + _NODES)
    integral = (mu / 2) * np.sum(_WEIGHTS * (1 - points * _mills(points)), axis=-1)
    difference = _mills(np.maximum(x, 0.0)) - _mills(np.maximum(y, 0.0))
    with np.errstate(divide="ignore"):
        small = log_density + np.log(np.maximum(integral, 0.0))
        right = log_density + np.log(np.maximum(difference, 0.0))
        # x < 0: Phi(-x) > 1/2, so the subtraction is harmless.
        left = np.log(np.maximum(ndtr(-x) - np.exp(log_density) * _mills(np.maximum(y, 0.0)), 0.0))
    return np.where(mu <= _SMALL_MU, small, np.where(x >= 0, right, left))


def deltas(epsilon: ArrayLike, mu: ArrayLike) -> FloatArray:
    """The exact curve, elementwise on broadcast arrays; ``epsilon >= 0``, ``mu >= 0``."""
    epsilons, mus = np.broadcast_arrays(
        np.asarray(epsilon, dtype=np.float64), np.asarray(mu, dtype=np.float64)
    )
    if not (np.all(np.isfinite(epsilons)) and np.all(np.isfinite(mus))):
        raise InvalidInput("epsilon or mu contains NaN or infinity; remove it")
    if np.any(epsilons < 0) or np.any(mus < 0):
        raise InvalidInput("epsilon or mu contains a negative value; both are 0 or more")
    safe = np.where(mus > 0, mus, 1.0)
    with np.errstate(over="ignore"):
        ratio = np.minimum(epsilons / safe, 1e150)
    return np.where(mus > 0, np.exp(_log_delta(ratio - safe / 2, safe)), 0.0)


def delta(epsilon: float, mu: float) -> float:
    """Exact delta of a Gaussian release (or composition) with parameter mu.

    >>> round(delta(1, 1), 10)
    0.1269367375
    """
    epsilon = require_epsilon(epsilon, zero=True)
    mu = require_non_negative("mu", mu)
    return float(deltas(epsilon, mu))


def log_delta(epsilon: float, mu: float) -> float:
    """Natural logarithm of ``delta``, also where delta itself underflows.

    >>> log_delta(100, 1) < -4900
    True
    """
    epsilon = require_epsilon(epsilon, zero=True)
    mu = require_positive("mu", mu)
    return float(_log_delta(np.asarray(epsilon / mu - mu / 2), np.asarray(mu)))


@lru_cache(maxsize=4096)
def _epsilon(delta: float, mu: float) -> float:
    if mu == 0 or math.erf(mu / math.sqrt(8)) * (1 + 4 * _ULP) <= delta:
        return 0.0
    width = np.asarray(mu)
    # A margin larger than the rounding error of _log_delta makes the answer an upper bound.
    target = math.log(delta) - 1e-12

    def excess(x: float) -> float:
        return float(_log_delta(np.asarray(x), width)) - target

    low = -mu / 2
    # delta <= Phi(-x) <= exp(-x^2/2) for x >= 0 puts the root below this.
    high = math.sqrt(2 * max(-target, 0.0)) + 1.0
    x = brentq(excess, low, high, xtol=1e-13, rtol=4 * _ULP) if excess(low) > 0 else low
    step = 1e-13 * (1 + abs(x))
    while excess(x) > 0:
        x, step = x + step, 2 * step
    return max(mu * (x + mu / 2) * (1 + 4 * _ULP), 0.0)


def epsilon(delta: float, mu: float) -> float:
    """Smallest epsilon with ``delta(epsilon, mu) <= delta``, rounded up.

    >>> round(epsilon(1e-5, 1), 8)
    4.3771781
    """
    return _epsilon(require_delta(delta), require_non_negative("mu", mu))


def mu_for(epsilon: float, delta: float) -> float:
    """Largest mu with ``delta(epsilon, mu) <= delta``, rounded down; sigma = Delta / mu.

    Guarantee: ``epsilon(delta, mu_for(epsilon0, delta)) <= epsilon0``, in floating point too.

    >>> round(1 / mu_for(1, 1e-5), 6)
    3.730632
    """
    return _mu_for(require_epsilon(epsilon, zero=True), require_delta(delta))


@lru_cache(maxsize=4096)
def _mu_for(target: float, delta: float) -> float:
    if target == 0:
        mu = 2 * float(ndtri(0.5 + delta / 2)) if delta > 1e-3 else _mu_at_zero(delta)
    else:
        high = 1.0
        while _epsilon(delta, high) < target:
            high *= 2
        low = min(high / 2, 1.0)
        while _epsilon(delta, low) > target:
            low /= 2
        mu = brentq(lambda m: _epsilon(delta, m) - target, low, high, xtol=1e-300, rtol=1e-13)
    slack = 1e-13
    while _epsilon(delta, mu) > target:
        mu, slack = mu * (1 - slack), 2 * slack
    return mu


def _mu_at_zero(delta: float) -> float:
    """Root of erf(mu / sqrt 8) = delta for small delta, where ndtri loses digits."""
    return brentq(lambda m: math.erf(m / math.sqrt(8)) / delta - 1, 0.0, 3.0, xtol=1e-300)


def compose(mus: ArrayLike, counts: Iterable[int] | None = None) -> float:
    """mu of an adaptive composition: ``sqrt(sum_i counts_i mus_i^2)``, rounded up.

    >>> round(compose([0.2], [78]), 6)
    1.766352
    """
    checked = require_numbers("mus", mus)
    repeats = require_counts("counts", counts, len(checked))
    total = math.sqrt(math.fsum(repeats * checked * checked))
    return total * (1 + 4 * _ULP)


def split(mu: float, count: int) -> float:
    """mu of each of ``count`` equal releases that together stay within ``mu``.

    Leaves room for the rounding of ``count`` single additions, so that `admits` accepts
    exactly ``count`` of them.
    """
    mu, count = require_positive("mu", mu), require_count("count", count)
    return mu / math.sqrt(count) * (1 - (count + 8) * 8 * _ULP)


def admits(spent: float, next: float, budget: float) -> bool:
    """Gaussian filter: may a release of ``next`` follow when ``spent`` is already paid?

    True iff ``spent^2 + next^2 <= budget^2``. Asked *before* each release it allows the noise of
    every step to be chosen adaptively (never stop after the fact).
    """
    spent, following = require_non_negative("spent", spent), require_non_negative("next", next)
    return compose([spent, following]) <= require_non_negative("budget", budget)


def group(mu: float, size: int) -> float:
    """mu against a group of ``size`` records that change together."""
    return require_non_negative("mu", mu) * require_count("size", size)


def colluders(mu: float, parties: int, colluding: int) -> float:
    """mu against ``colluding`` of ``parties`` that subtract, or withheld, their equal shares.

    The remaining variance is (m - t)/m of the total: ``mu sqrt(m / (m - t))``.
    """
    parties = require_count("parties", parties)
    colluding = require_count("colluding", colluding, minimum=0)
    if colluding >= parties:
        raise ConditionViolated(
            f"{colluding} of {parties} parties collude, so no honest noise is left and epsilon is "
            "infinite; require more honest parties"
        )
    return require_non_negative("mu", mu) * math.sqrt(parties / (parties - colluding))


def trade_off(false_alarm: ArrayLike, mu: float) -> FloatArray:
    """Lowest possible rate of missed detections at each false-alarm rate alpha.

    ``f_mu(alpha) = Phi(Phi^-1(1 - alpha) - mu)``.
    """
    alpha = require_numbers("false_alarm", false_alarm)
    if np.any(alpha > 1):
        raise InvalidInput(f"false_alarm contains {alpha.max()}, above 1; pass probabilities")
    return ndtr(-ndtri(alpha) - require_non_negative("mu", mu))


def membership_advantage(mu: float) -> float:
    """Largest true-positive minus false-positive rate of any test: ``2 Phi(mu/2) - 1``."""
    return math.erf(require_non_negative("mu", mu) / math.sqrt(8))


def best_guess_accuracy(mu: float, prior: float = 0.5) -> float:
    """How often the best adversary guesses right whether a record took part.

    With prior probability p of taking part and ``c = log(p/(1-p))/mu``:
    ``p Phi(mu/2 + c) + (1 - p) Phi(mu/2 - c)``.

    >>> round(best_guess_accuracy(1), 4)
    0.6915
    """
    mu = require_non_negative("mu", mu)
    prior = require_probability("prior", prior)
    if mu == 0 or prior in (0.0, 1.0):
        return max(prior, 1 - prior)
    shift = math.log(prior / (1 - prior)) / mu
    return float(prior * ndtr(mu / 2 + shift) + (1 - prior) * ndtr(mu / 2 - shift))


def reconstruction_bound(blind_success: float, mu: float) -> float:
    """Largest probability of reconstructing a record: ``Phi(Phi^-1(kappa) + mu)``."""
    kappa = require_probability("blind_success", blind_success)
    return float(ndtr(ndtri(kappa) + require_non_negative("mu", mu)))


def loss_tail(epsilon: float, mu: float) -> float:
    """``Pr[privacy loss > epsilon] = Phi(mu/2 - epsilon/mu)``; larger than delta."""
    mu = require_positive("mu", mu)
    return float(np.exp(log_ndtr(mu / 2 - require_number("epsilon", epsilon) / mu)))


def published_classical_sigma(
    epsilon: float, delta: float, sensitivity: float = 1.0, *, beyond_its_condition: bool = False
) -> float:
    """Chen 2019's ``sigma = Delta sqrt(2 log(1.25/delta)) / epsilon``; kept for comparison.

    Proved only for epsilon <= 1, where it wastes noise; outside, it raises
    ConditionViolated unless the caller says that it wants the number, not a guarantee. It is not
    private for large epsilon (delta=1e-5: from 8.42 on). Use ``sensitivity / mu_for``.
    """
    epsilon, delta = require_epsilon(epsilon), require_delta(delta)
    if epsilon > 1 and not beyond_its_condition:
        raise ConditionViolated(
            f"epsilon is {epsilon:g}, but the classical Gaussian formula is proved only for "
            "epsilon <= 1; use sensitivity / mu_for(epsilon, delta)"
        )
    return (
        require_positive("sensitivity", sensitivity)
        * math.sqrt(2 * math.log(1.25 / delta))
        / (epsilon)
    )
