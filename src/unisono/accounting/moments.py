r"""The moments accountant exactly as Sharma 2019 states it (eq. 2.5-2.16), plus a tight conversion.

Log moments of the Poisson-sampled Gaussian at lambda = 1..32,

    alpha(lambda) = log max(E1, E2),
    E1 = E_{z~mu_0}[(mu_0/mu)^lambda],  E2 = E_{z~mu}[(mu/mu_0)^lambda],
    mu_0 = N(0, s^2),  mu = (1-q) N(0, s^2) + q N(1, s^2),

where E2 >= E1 for the Gaussian and has a closed form. The relation is add-or-remove with Poisson
sampling; under replace-one or with lots of fixed size these numbers are not a guarantee. Kept as
the reference of the source: `unisono.accounting.renyi` is tighter.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from unisono.accounting.renyi import log_moment_integer
from unisono.accounting.validation import (
    FloatArray,
    require_count,
    require_counts,
    require_delta,
    require_epsilon,
    require_numbers,
    require_positive,
    require_probability,
)
from unisono.errors import InvalidInput

LARGEST_LAMBDA = 32


def log_moments(
    sampling_rate: float, noise_multiplier: float, largest_lambda: int = LARGEST_LAMBDA
) -> FloatArray:
    """alpha(1), ..., alpha(largest_lambda) of one step, shape (largest_lambda,).

    >>> round(float(log_moments(0.1, 1.0)[0]), 11)
    0.01703686324
    """
    rate = require_probability("sampling_rate", sampling_rate)
    noise = require_positive("noise_multiplier", noise_multiplier)
    largest = require_count("largest_lambda", largest_lambda)
    if rate == 0:
        return np.zeros(largest)
    if rate == 1:
        powers = np.arange(1, largest + 1)
        return powers * (powers + 1) / (2 * noise * noise)
    return np.array([log_moment_integer(power + 1, rate, noise) for power in range(1, largest + 1)])


def compose(steps: Sequence[ArrayLike], counts: Iterable[int] | None = None) -> FloatArray:
    """Log moments of an adaptive composition: they add (eq. 2.7)."""
    if len(steps) == 0:
        raise InvalidInput("no steps to compose; pass at least one array of log moments")
    checked = [require_numbers("log moments", step) for step in steps]
    if len({len(step) for step in checked}) != 1:
        raise InvalidInput("log moments have different lengths; use one largest_lambda for all")
    return require_counts("counts", counts, len(checked)) @ np.stack(checked)


def epsilon(moments: ArrayLike, delta: float) -> float:
    """eq. 2.10: ``min_lambda (alpha(lambda) - log delta) / lambda``.

    >>> round(epsilon(77 * log_moments(1, 5), 1e-5), 9)
    9.997641822
    """
    alpha, powers = _with_powers(moments)
    return float(np.min((alpha - math.log(require_delta(delta))) / powers))


def delta(moments: ArrayLike, epsilon: float) -> float:
    """eq. 2.9: ``min_lambda exp(alpha(lambda) - lambda epsilon)``, at most 1.

    It is the smallest delta that is *proved*. The source's eq. 2.8 prints "delta <=" where a single
    lambda proves "delta =", so that delta = 0 would always qualify; its 2.9 is right.
    """
    alpha, powers = _with_powers(moments)
    return math.exp(min(0.0, float(np.min(alpha - powers * require_epsilon(epsilon, zero=True)))))


def epsilon_tight(moments: ArrayLike, delta: float) -> float:
    """The same moments with the tight conversion.

    ``min_lambda alpha/lambda + log(lambda/(lambda+1)) - (log delta + log(lambda+1))/lambda``.
    """
    alpha, powers = _with_powers(moments)
    log_delta = math.log(require_delta(delta))
    bounds = alpha / powers - np.log1p(1 / powers) - (log_delta + np.log1p(powers)) / powers
    return max(0.0, float(np.min(bounds)))


def steps_within(
    target_epsilon: float,
    delta: float,
    sampling_rate: float,
    noise_multiplier: float,
    *,
    tight: bool = False,
) -> int:
    """How many steps fit: the check belongs *before* step t + 1, not after it.

    >>> steps_within(10, 1e-5, 1, 5)
    77
    """
    target = require_epsilon(target_epsilon)
    step = log_moments(sampling_rate, noise_multiplier)
    convert = epsilon_tight if tight else epsilon
    if require_probability("sampling_rate", sampling_rate) == 0:
        raise InvalidInput(
            "sampling_rate is 0: no record is ever used, so any number of steps fits"
        )
    low, high = 0, 1
    while convert(high * step, delta) <= target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if convert(middle * step, delta) <= target else (low, middle)
    return low


def noise_multiplier_for(
    target_epsilon: float, delta: float, sampling_rate: float, steps: int
) -> float:
    """The least noise multiplier, rounded up, for which the source's eq. 2.10 says epsilon.

    >>> round(noise_multiplier_for(9.997641822, 1e-5, 1, 77), 6)
    5.0
    """
    target, count = require_epsilon(target_epsilon), require_count("steps", steps)

    def excess(noise: float) -> float:
        return epsilon(count * log_moments(sampling_rate, noise), delta) - target

    # However much noise there is, so few moments prove no less than this.
    least = -math.log(require_delta(delta)) / LARGEST_LAMBDA
    if target <= least:
        raise InvalidInput(
            f"epsilon is {target:g}: moments up to lambda = {LARGEST_LAMBDA} prove nothing below "
            f"{least:.3g} at delta {delta:g}; choose a larger one"
        )
    low = high = 1.0
    while excess(high) > 0:
        high *= 2
    while excess(low) <= 0:
        low /= 2
    root = float(brentq(excess, low, high, rtol=1e-12))
    while excess(root) > 0:
        root *= 1 + 1e-12
    return root


def _with_powers(moments: ArrayLike) -> tuple[FloatArray, FloatArray]:
    alpha = require_numbers("log moments", moments)
    return alpha, np.arange(1, len(alpha) + 1, dtype=np.float64)
