r"""Gaussian noise on a lot of fixed size drawn without replacement. Replace-one only.

Everything takes the *replace-one sensitivity* and the noise's standard deviation, in the same
units, so that the factor of two cannot be lost: records clipped to C have replace-one sensitivity
2 C. The sampling must be secret: against who knows the lot there is no amplification.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp

from unisono.accounting import composition, gaussian, renyi
from unisono.accounting.validation import (
    FloatArray,
    require_count,
    require_delta,
    require_epsilon,
    require_non_negative,
    require_orders,
    require_positive,
)
from unisono.errors import InvalidInput

ORDERS: FloatArray = np.concatenate(
    [np.arange(2, 65), np.unique(np.round(np.geomspace(66, 1024, 40)))]
).astype(np.float64)


def _rate_and_mu(
    sample_size: int, population: int, replace_one_sensitivity: float, standard_deviation: float
) -> tuple[float, float]:
    sample_size = require_count("sample_size", sample_size)
    population = require_count("population", population)
    if sample_size > population:
        raise InvalidInput(
            f"sample_size {sample_size} exceeds the population {population}; without replacement "
            "a lot cannot be larger than the data"
        )
    mu = require_non_negative("replace_one_sensitivity", replace_one_sensitivity) / (
        require_positive("standard_deviation", standard_deviation)
    )
    return sample_size / population, mu


def renyi_curve(
    orders: ArrayLike,
    sample_size: int,
    population: int,
    replace_one_sensitivity: float,
    standard_deviation: float,
) -> FloatArray:
    r"""Rényi curve of one release (Wang-Balle-Kasiviswanathan 2019, Theorem 27).

    With q = sample_size/population, mu = sensitivity/std and r the likelihood ratio of N(mu, 1) to
    N(0, 1), for integer a:

        (a-1) D_a <= log(1 + sum_{j=2}^a C(a,j) q^j min(4 sqrt(B_lo B_hi), 2 e^{j(j-1) mu^2/2})),

    ``B_l = E[(r-1)^l]``, lo and hi the even neighbours of j. Real orders interpolate ``(a-1) D_a``,
    which is convex. Never above the curve without sampling.
    """
    a = require_orders(orders)
    rate, mu = _rate_and_mu(sample_size, population, replace_one_sensitivity, standard_deviation)
    plain = renyi.gaussian(a, mu)
    if rate == 1 or mu == 0:
        return plain
    low, high = np.floor(a).astype(int), np.ceil(a).astype(int)
    needed = sorted(set(low) | set(high))
    log_terms = _log_terms(needed[-1], rate, mu)
    moments = {order: _log_moment(order, log_terms) for order in needed}
    weight = a - low
    bound = np.array(
        [(1 - w) * moments[i] + w * moments[j] for w, i, j in zip(weight, low, high, strict=True)]
    )
    return np.minimum(bound / (a - 1), plain)


def _log_terms(largest: int, rate: float, mu: float) -> FloatArray:
    """log of ``q^j min(4 sqrt(B_lo B_hi), 2 e^{j(j-1) mu^2/2})`` for j = 2..largest."""
    j = np.arange(2, largest + 1)
    simple = math.log(2) + j * (j - 1) * mu * mu / 2
    even = np.array([_log_even_moment(power, mu) for power in range(2, largest + 2, 2)])
    pair = math.log(4) + (even[j // 2 - 1] + even[(j + 1) // 2 - 1]) / 2
    return j * math.log(rate) + np.minimum(simple, pair)


def _log_even_moment(power: int, mu: float) -> float:
    """``log E_{z~N(0,1)}[(e^{mu z - mu^2/2} - 1)^power]`` for even powers.

    The trapezoidal rule on an entire, Gaussian-dominated function: exact to rounding, and with
    positive terms only, where the alternating binomial sum would cancel.
    """
    reach = 14 + 2 * math.sqrt(power)
    z = np.arange(-reach, power * mu + reach, 1 / 16)
    with np.errstate(divide="ignore"):
        exponent = mu * z - mu * mu / 2
        log_distance = np.where(
            exponent > 30, exponent, np.log(np.abs(np.expm1(np.minimum(exponent, 30.0))))
        )
    log_density = -0.5 * z * z - 0.5 * math.log(2 * math.pi)
    return float(logsumexp(power * log_distance + log_density)) - math.log(16) + 1e-12


def _log_moment(order: int, log_terms: FloatArray) -> float:
    if order < 2:
        return 0.0
    j = np.arange(2, order + 1)
    log_choose = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    return float(np.logaddexp(0.0, logsumexp(log_choose + log_terms[: order - 1])))


def epsilon(
    delta: float,
    steps: int,
    sample_size: int,
    population: int,
    replace_one_sensitivity: float,
    standard_deviation: float,
    orders: ArrayLike = ORDERS,
) -> float:
    """epsilon of ``steps`` releases by the Rényi curve."""
    curve = renyi_curve(
        orders, sample_size, population, replace_one_sensitivity, standard_deviation
    )
    return renyi.epsilon(orders, require_count("steps", steps) * curve, delta)


def amplified_delta(
    epsilon: float,
    sample_size: int,
    population: int,
    replace_one_sensitivity: float,
    standard_deviation: float,
) -> float:
    """delta of one release by amplification: ``q dG(log(1 + (e^epsilon - 1)/q); mu)``."""
    rate, mu = _rate_and_mu(sample_size, population, replace_one_sensitivity, standard_deviation)
    epsilon = require_epsilon(epsilon, zero=True)
    # For large epsilon e^epsilon - 1 would overflow; log(1 + (e^eps-1)/q) = eps - log q + ...
    inner = (
        math.log1p(math.expm1(epsilon) / rate)
        if epsilon < 30
        else epsilon - math.log(rate) + math.log1p((rate - 1) * math.exp(-epsilon))
    )
    return rate * gaussian.delta(inner, mu)


def amplified_epsilon(
    delta: float,
    sample_size: int,
    population: int,
    replace_one_sensitivity: float,
    standard_deviation: float,
) -> float:
    """epsilon of one release by amplification: ``log(1 + q (e^{epsilon_G(delta/q)} - 1))``."""
    rate, mu = _rate_and_mu(sample_size, population, replace_one_sensitivity, standard_deviation)
    delta = require_delta(delta)
    if delta / rate >= 1:
        return 0.0
    inner = gaussian.epsilon(delta / rate, mu)
    if inner > 30:
        return inner + math.log(rate + (1 - rate) * math.exp(-inner))
    return math.log1p(rate * math.expm1(inner)) * (1 + 2.0**-48)


def amplified_composition(
    delta: float,
    steps: int,
    sample_size: int,
    population: int,
    replace_one_sensitivity: float,
    standard_deviation: float,
) -> float:
    """epsilon of ``steps`` releases: amplification of each, then optimal composition.

    An alternative to the Rényi curve, valid for every split of delta; the best of a few is taken.
    """
    steps, delta = require_count("steps", steps), require_delta(delta)
    arguments = (sample_size, population, replace_one_sensitivity, standard_deviation)
    if steps == 1:
        return amplified_epsilon(delta, *arguments)
    best = math.inf
    for fraction in (0.01, 0.1, 0.3, 0.5, 0.7, 0.9):
        each = fraction * delta / steps
        single = amplified_epsilon(each, *arguments)
        if single == 0:
            return 0.0
        best = min(best, composition.optimal(single, each, steps, delta))
    return best
