r"""Integer noise on a grid: Skellam, discrete Gaussian, its distributed sums, discrete Laplace.

All sensitivities and standard deviations are in grid steps, of the *rounded* integer vectors
(`rounded_l1`, `rounded_l2` add what rounding costs). The integer law is what is accounted: a
discrete Gaussian exceeds the continuous curve slightly.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from unisono.accounting import zcdp
from unisono.accounting.shares import (
    honest_shares,
    mu_with_fewer,
    norm_mechanism_epsilon,
    polya_epsilon,
    share_variance,
)
from unisono.accounting.validation import (
    FloatArray,
    require_count,
    require_epsilon,
    require_non_negative,
    require_orders,
    require_positive,
)
from unisono.errors import ConditionViolated, InvalidInput

__all__ = [
    "discrete_gaussian_delta",
    "discrete_gaussian_rho",
    "discrete_laplace_epsilon",
    "discrete_laplace_scale",
    "distributed_discrete_gaussian",
    "divisibility_gap",
    "honest_shares",
    "mu_with_fewer",
    "norm_mechanism_epsilon",
    "polya_epsilon",
    "rounded_l1",
    "rounded_l2",
    "share_variance",
    "skellam",
]

_LARGEST_STANDARD_DEVIATION = 1e5


def rounded_l1(sensitivity_l2: float, dimension: int, grid: float) -> int:
    """L1 sensitivity in grid steps after rounding each coordinate: ``sqrt(p) Delta_2/gamma + p``.

    Rounding moves each of two neighbours by at most half a step per coordinate; the
    integer part is enough because the rounded difference is an integer.
    """
    dimension = require_count("dimension", dimension)
    ratio = require_non_negative("sensitivity_l2", sensitivity_l2) / require_positive("grid", grid)
    return math.floor((math.sqrt(dimension) * ratio + dimension) * (1 + 2.0**-48))


def rounded_l2(sensitivity_l2: float, dimension: int, grid: float) -> float:
    """L2 sensitivity in grid steps after rounding each coordinate: ``Delta_2/gamma + sqrt(p)``."""
    dimension = require_count("dimension", dimension)
    ratio = require_non_negative("sensitivity_l2", sensitivity_l2) / require_positive("grid", grid)
    return ratio + math.sqrt(dimension)


def _require_norms(sensitivity_l1: float, sensitivity_l2: float) -> tuple[float, float]:
    l1 = require_non_negative("sensitivity_l1", sensitivity_l1)
    l2 = require_non_negative("sensitivity_l2", sensitivity_l2)
    if l1 < l2 * (1 - 1e-12):
        raise InvalidInput(
            f"sensitivity_l1 is {l1:g}, below sensitivity_l2 {l2:g}; an L1 norm is never smaller "
            "than the L2 norm of the same vector, so one of them is wrong"
        )
    return l1, l2


def skellam(
    orders: ArrayLike, variance: float, sensitivity_l1: float, sensitivity_l2: float
) -> FloatArray:
    r"""Rényi curve of Skellam noise ``Pois(V/2) - Pois(V/2)`` per coordinate, integer orders only.

    ``a D2^2/(2V) + min(((2a-1) D2^2 + 6 D1)/(4 V^2), 3 D1/(2V))`` (Agarwal-Kairouz-Liu 2021), V the
    *total* variance per coordinate of the honest shares: Skellam sums stay Skellam, with no gap.
    """
    a = require_orders(orders)
    if np.any(a != np.floor(a)):
        raise ConditionViolated(
            f"orders contain {a[a != np.floor(a)][0]:g}, but the Skellam bound is proved for whole "
            "orders only; pass integers of at least 2"
        )
    V = require_positive("variance", variance)
    l1, l2 = _require_norms(sensitivity_l1, sensitivity_l2)
    gap = np.minimum(((2 * a - 1) * l2 * l2 + 6 * l1) / (4 * V * V), 3 * l1 / (2 * V))
    return a * l2 * l2 / (2 * V) + gap


def divisibility_gap(share_standard_deviation: float, honest: int) -> float:
    r"""tau: how far a sum of ``honest`` discrete Gaussians is from a discrete Gaussian.

    ``10 sum_{k=1}^{h-1} exp(-2 pi^2 sigma^2 k/(k+1))`` (Kairouz-Liu-Steinke 2021), proved for a
    share standard deviation of at least half a grid step.
    """
    sigma = require_positive("share_standard_deviation", share_standard_deviation)
    honest = require_count("honest", honest)
    if sigma < 0.5:
        raise ConditionViolated(
            f"the share's standard deviation is {sigma:g} grid steps, but the sum of discrete "
            "Gaussians is bounded only from 0.5 on; use a finer grid (4 steps or more)"
        )
    k = np.arange(1, honest, dtype=np.float64)
    return float(10 * np.sum(np.exp(-2 * math.pi**2 * sigma * sigma * k / (k + 1))))


def distributed_discrete_gaussian(
    orders: ArrayLike,
    share_standard_deviation: float,
    honest: int,
    sensitivity_l1: float,
    sensitivity_l2: float,
    dimension: int,
) -> FloatArray:
    r"""Rényi curve of a sum of ``honest`` discrete Gaussian shares, any real order.

    With ``l_i = Delta_i / (sqrt(h) sigma)`` and the gap tau, the least of ``a l2^2/2 + tau d``,
    ``(a/2)(l2^2 + 2 l1 tau + tau^2 d)`` and ``(a/2)(l2 + tau sqrt d)^2``
    (Kairouz-Liu-Steinke 2021, Prop. 14).
    """
    a = require_orders(orders)
    d = require_count("dimension", dimension)
    tau = divisibility_gap(share_standard_deviation, honest)
    l1, l2 = _require_norms(sensitivity_l1, sensitivity_l2)
    scale = math.sqrt(honest) * share_standard_deviation
    l1, l2 = l1 / scale, l2 / scale
    bounds = [
        a * l2 * l2 / 2 + tau * d,
        a / 2 * (l2 * l2 + 2 * l1 * tau + tau * tau * d),
        a / 2 * (l2 + tau * math.sqrt(d)) ** 2,
    ]
    return np.min(bounds, axis=0)


def discrete_gaussian_rho(sensitivity_l2: float, standard_deviation: float) -> float:
    """zCDP of iid discrete Gaussian noise on integer vectors: ``Delta_2^2 / (2 sigma^2)``.

    Canonne-Kamath-Steinke 2020, Theorem 14: the same as the continuous Gaussian.
    """
    return zcdp.gaussian(sensitivity_l2, standard_deviation)


def discrete_gaussian_delta(
    epsilon: float, standard_deviation: float, sensitivity: int = 1
) -> float:
    r"""Exact delta of one integer with discrete Gaussian noise and integer sensitivity.

    With ``p(y) ~ exp(-y^2 / (2 sigma^2))`` and loss ``(2 y D + D^2)/(2 sigma^2)``:
    ``delta = sum_y p(y) (1 - e^{epsilon - loss(y)})_+`` (Canonne-Kamath-Steinke 2020, Theorem 7).
    p is log-concave, so a smaller shift costs less.

    >>> round(discrete_gaussian_delta(0.2, 1.0), 3)
    0.332
    """
    epsilon = require_epsilon(epsilon, zero=True)
    sigma = require_positive("standard_deviation", standard_deviation)
    shift = require_count("sensitivity", sensitivity)
    if sigma > _LARGEST_STANDARD_DEVIATION:
        raise InvalidInput(
            f"standard_deviation is {sigma:g} grid steps, too many to sum exactly; use a coarser "
            f"grid (at most {_LARGEST_STANDARD_DEVIATION:g} steps) or discrete_gaussian_rho"
        )
    variance = sigma * sigma
    first = math.floor(epsilon * variance / shift - shift / 2)
    # Beyond 40 standard deviations past the start the terms are below e^-800 of the first ones.
    y = first + np.arange(math.ceil(40 * sigma) + 4, dtype=np.float64)
    loss = (2 * y * shift + shift * shift) / (2 * variance)
    gain = np.maximum(-np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0)
    total = float(np.sum(np.exp(-y * y / (2 * variance)) * gain))
    return min(1.0, total / _theta(sigma) * (1 + 1e-12))


def _theta(sigma: float) -> float:
    """``sum_y exp(-y^2/(2 sigma^2))`` over all integers."""
    if sigma > 2:  # Poisson summation: the next term is below e^-78
        return sigma * math.sqrt(2 * math.pi)
    y = np.arange(1, math.ceil(40 * sigma) + 2, dtype=np.float64)
    return 1.0 + 2.0 * float(np.sum(np.exp(-y * y / (2 * sigma * sigma))))


def discrete_laplace_epsilon(scale: float, sensitivity_l1: int) -> float:
    """Pure epsilon of iid ``P(k) ~ e^{-|k|/b}`` noise on integer vectors: ``Delta_1 / b``."""
    return require_count("sensitivity_l1", sensitivity_l1, minimum=0) / require_positive(
        "scale", scale
    )


def discrete_laplace_scale(epsilon: float, sensitivity_l1: int) -> float:
    """Scale b for a target epsilon: ``Delta_1 / epsilon``."""
    return require_count("sensitivity_l1", sensitivity_l1) / require_epsilon(epsilon)
