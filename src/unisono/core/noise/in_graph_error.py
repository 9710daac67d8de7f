"""How far the in-graph grid Gaussian is from the ideal one, proved.

Ideal law. Z = round(s G), G standard normal, s the std in grid steps. For integer data k,
k + Z = round(k + s G): adding Z is a post-processing of the Gaussian mechanism, so its exact
curve holds. Implemented law: the sampler of `in_graph`, which draws Z in pairs.

Step 1, one value. Couple the words of a pair with a continuous uniform pair by appending
ideal bits after the last bit used. Let r be the ideal radius, eps = 2^-53, and let x be an
ideal coordinate and x~ the computed one, in units of the std. Standard rounding analysis
of the sampler, which uses only + - * / sqrt of IEEE doubles (fused or not), gives

    -ln u       d 1, w 3.2, series 4.7, k ln 2 - series      relative error <= 9 eps
    radius      half of it, and the square root                            <= 7 eps
    angle       rounding 1.6 eps, 48 bits kept: 2^-50 pi = 25.2 eps        <= 27 eps
    sine, cosine                                             absolute error <= 3 eps
    product, times std                                                      <= 2 eps
    sum, rounded up from 39 eps                              64 eps = 2^-47

and the bits dropped from u (78 are kept, or 94 where u < 2^-32; the mantissa has 64) move
-ln u by at most 2^-78 / u + 2^-62, or 2^-94 / u + 2^-62, hence r by twice that over r. Where
u < 2^-32, that is r > 6.66, the angle keeps 32 bits: 2^-34 pi < 2^-32.3. Altogether

    |x~ - x| <= e(r) = 2^-47 r + 2^-61 / r + 2^-77 exp(r^2 / 2) / r        for r <= 6.66
    |x~ - x| <= e(r) = 2^-47 r + 2^-61 / r + 2^-32 r + 2^-93 exp(r^2 / 2) / r   otherwise.

Step 2, one cell of one pair. A cell boundary is at least 1/2 from the origin, so radii below
.49 / s stay in the cell of the origin. For a cell inside the disc of radius s rho - 1 let
E(rho) = s sup e over [.49 / s, rho]. The computed pair is in the cell only if the ideal one
is in the cell widened by E, and if the ideal one is in the cell narrowed by E. The density
of s G is log-concave, so with d = i / s^2 the mass of cell i is at least its larger boundary
density times (1 - exp(-d)) / d, and the four strips change the mass of a cell by a factor
within (1 - eta)^2 and (1 + eta)^2, where, as d <= rho / s =: D,

    eta(rho) = E exp(E (D + 1 / s^2)) D coth(D / 2),       kappa(rho) = -2 ln(1 - eta).

Hence |ln(implemented mass / ideal mass)| <= kappa(rho) for *every* cell inside that disc,
and under both laws the mass of the remaining cells is at most

    tau(rho) = exp(-(rho - 2.5 / s)^2 / 2).

Step 3, all draws. A whole run on fixed data is a function of its noise draws, so it is
enough to compare the product laws P of N pairs. On the cells inside the outermost disc the
log-ratio L is a sum of N independent terms l, |l| <= kappa_j with probability at most
tau_(j-1) on shell j. Its mean under the numerator is at most tau + sum_j tau_(j-1) kappa_j^2
(ln x <= x - 1, second order, kappa <= 1/8), and exp(x) - 1 - x is largest at the upper end of
a symmetric interval. Chernoff's bound for any lambda > 0 gives, in both directions,

    P~(S) <= exp(epsilon) P(S) + delta       P(S) <= exp(epsilon) P~(S) + delta
    epsilon = (N ln(1 + lambda mean + sum_j tau_(j-1) (exp(lambda kappa_j) - 1 - lambda kappa_j))
               + ln(2 / delta)) / lambda,     draws * tau(rho_last) <= delta / 2.

The random signs of l are what makes epsilon grow like sqrt(draws) kappa and not like
draws * kappa. Draws that use one value of a pair are covered: a marginal has smaller error.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unisono.errors import ConditionViolated, InvalidInput

MIN_STD = 4.0
MAX_STD = 2.0**20
TAIL_RADIUS = math.sqrt(64 * math.log(2))
LARGEST_NORMAL = math.sqrt(2 * 95 * math.log(2))
LARGEST_RADIUS = math.sqrt(2 * 94 * math.log(2))
MAX_DRAWS = 10**15

_RELATIVE = 2.0**-47
_TAIL_ANGLE = 2.0**-32


class ComposedError(NamedTuple):
    """The run and its ideal are within factor exp(epsilon) up to delta, both ways."""

    epsilon: float
    delta: float

    def applied_to(self, epsilon: float, delta: float) -> tuple[float, float]:
        """The guarantee of the run whose ideal is (epsilon, delta)-private.

        P~(S) <= e^a P(S) + b <= e^a (e^epsilon P'(S) + delta) + b, then P' <= e^a P~' + b.

        >>> ComposedError(0.001, 1e-12).applied_to(1.0, 1e-6)[0]
        1.002
        """
        for name, value in (("epsilon", epsilon), ("delta", delta)):
            if not (math.isfinite(value) and value >= 0):
                raise InvalidInput(f"{name} = {value} must be finite and at least 0")
        grown = math.exp(self.epsilon) * delta
        slack = (1 + math.exp(min(self.epsilon + epsilon, 700.0))) * self.delta
        return epsilon + 2 * self.epsilon, min(1.0, grown + slack)


def check_std(std: float) -> float:
    """The std in grid steps, refused outside the range for which the error is proved."""
    value = float(std)
    if not MIN_STD <= value <= MAX_STD:  # also refuses NaN
        raise ConditionViolated(
            f"std = {value} grid steps is outside [{MIN_STD:g}, {MAX_STD:g}], where the sampler's"
            " error is proved; choose another grid step or an exact integer sampler"
        )
    return value


def value_error(radius: float) -> float:
    """e(r): bound on |computed - ideal| of one coordinate, in units of the std (step 1).

    >>> 2.8e-14 < value_error(4.0) < 2.9e-14
    True
    """
    if not 0 < radius <= LARGEST_RADIUS:
        raise InvalidInput(f"radius {radius} must lie in (0, {LARGEST_RADIUS:.2f}]")
    error = _RELATIVE * radius + 2.0**-61 / radius
    if radius <= TAIL_RADIUS:
        return error + 2.0**-77 * math.exp(radius**2 / 2) / radius
    return error + _TAIL_ANGLE * radius + 2.0**-93 * math.exp(radius**2 / 2) / radius


def cell_error(radius: float, std: float) -> float:
    """kappa(rho): bound on |ln mass ratio| of every pair cell inside s rho - 1 (step 2)."""
    check_std(std)
    smallest = 0.49 / std
    # e is a sum of convex pieces: its supremum is at an end or on either side of the switch.
    ends = [value_error(smallest), value_error(radius)]
    if radius > TAIL_RADIUS:
        ends += [value_error(TAIL_RADIUS), value_error(math.nextafter(TAIL_RADIUS, math.inf))]
    shift = std * max(ends)
    if shift > 2.0**-6:
        raise ConditionViolated(
            f"at {radius:.2f} std of {std:g} grid steps a value may be off by {shift:.2g} of a"
            " step; use a smaller std in grid steps, fewer draws or a larger delta"
        )
    slope = radius / std
    eta = shift * math.exp(shift * (slope + std**-2)) * slope / math.tanh(slope / 2)
    return -2 * math.log1p(-eta)


def chernoff_slack(
    pairs: int, chance: np.ndarray, kappa: np.ndarray, mean: float, delta: float
) -> float:
    """Smallest t found with P(sum of `pairs` terms > t) <= delta, by Chernoff's bound.

    The terms are independent, of mean at most `mean`, and within +-kappa[j] except for
    events that `chance[j + 1]` bounds; kappa increases and chance[0] = 1.
    """
    best = math.inf
    # Any rate is valid; beyond 700 / kappa the exponential overflows.
    for rate in np.geomspace(1e-3, 600.0, 400) / kappa[-1]:
        x = rate * kappa
        # exp(x) - 1 - x <= x^2 exp(x) / 2, which does not cancel for small x.
        excess = np.where(x < 0.01, x**2 * np.exp(x) / 2, np.expm1(x) - x)
        growth = pairs * math.log1p(rate * mean + float(np.sum(chance * excess)))
        best = min(best, float((growth - math.log(delta)) / rate))
    return best


def composed_error(draws: int, std: float, delta: float = 1e-12) -> ComposedError:
    """(epsilon, delta) by which `draws` in-graph grid draws may differ from ideal (step 3).

    `delta` is spent half on draws beyond the outermost disc, half on the Chernoff bound.

    >>> composed_error(10**9, 16.0).epsilon < 1e-3
    True
    """
    check_std(std)
    if isinstance(draws, bool) or not isinstance(draws, int) or not 0 <= draws <= MAX_DRAWS:
        raise InvalidInput(f"draws = {draws!r} must be an integer in [0, {MAX_DRAWS:g}]")
    if not (math.isfinite(delta) and 0 < delta < 1):
        raise InvalidInput(f"delta = {delta} must lie strictly between 0 and 1")
    if draws == 0:
        return ComposedError(0.0, 0.0)
    outermost = 2.5 / std + math.sqrt(2 * math.log(2 * draws / delta))
    if outermost > LARGEST_RADIUS:
        raise ConditionViolated(
            f"{draws:g} draws at delta = {delta:g} need tails to {outermost:.2f} std, but the"
            f" sampler's error is proved up to {LARGEST_RADIUS:.2f}; use a larger delta,"
            " fewer draws or an exact integer sampler"
        )
    radii = np.append(np.arange(2.0, outermost, 0.05), outermost)
    kappa = np.array([cell_error(float(radius), std) for radius in radii])
    if kappa[-1] > 0.125:
        raise ConditionViolated(
            f"the relative error {kappa[-1]:.2g} of a cell's mass exceeds 1/8 at std = {std:g};"
            " use a smaller std in grid steps, fewer draws or a larger delta"
        )
    inner = np.maximum(radii[:-1] - 2.5 / std, 0.0)
    chance = np.append(1.0, np.exp(-(inner**2) / 2))
    mean = delta / (2 * draws) + float(np.sum(chance * kappa**2))
    epsilon = chernoff_slack((draws + 1) // 2, chance, kappa, mean, delta / 2)
    # Summation and cancellation errors of this function itself are far below one in a million.
    return ComposedError(epsilon * (1 + 1e-6), delta)
