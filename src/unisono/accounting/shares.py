"""Noise that parties add in equal shares: what remains when fewer are honest than planned.

``h = minimum survivors - colluders`` honest shares are all that can be relied on; each share
has variance ``total / h``. Hiding a *party* behind shares is zero-out or replace-one, never
add-or-remove: an absent party's share is missing too.
"""

import math

from scipy.special import gammaln, hyp2f1, kve

from unisono.accounting.validation import (
    require_count,
    require_epsilon,
    require_non_negative,
    require_positive,
)
from unisono.errors import ConditionViolated


def honest_shares(minimum_parties: int, colluders: int) -> int:
    """``h = survivors - colluders``; refused below 1, where no noise would be left."""
    survivors = require_count("minimum_parties", minimum_parties)
    colluders = require_count("colluders", colluders, minimum=0)
    if colluders >= survivors:
        raise ConditionViolated(
            f"{survivors} survivors with {colluders} colluders leave no honest noise share; raise "
            "the minimum number of survivors or tolerate fewer colluders"
        )
    return survivors - colluders


def share_variance(total: float, minimum_parties: int, colluders: int) -> float:
    """Variance of each party's share so that the honest ones alone add up to ``total``.

    >>> share_variance(12.0, 5, 2)
    4.0
    """
    return require_positive("total", total) / honest_shares(minimum_parties, colluders)


def mu_with_fewer(mu: float, planned: int, honest: int) -> float:
    """Gaussian mu when ``honest`` shares arrive where ``planned`` were counted on.

    ``mu sqrt(planned / honest)``; with more than planned the noise only grows.
    """
    planned, honest = require_count("planned", planned), require_count("honest", honest)
    return require_non_negative("mu", mu) * math.sqrt(planned / honest)


def polya_epsilon(epsilon: float, planned: int, honest: int, sensitivity_l1: int) -> float:
    r"""Pure epsilon of discrete Laplace noise made of differences of Pólya shares.

    Each share is ``X - Y``, both NegativeBinomial(1/planned, a), ``a = e^{-epsilon/Delta_1}``.
    ``planned`` shares sum to discrete Laplace noise, epsilon-DP for integer vectors of L1
    sensitivity Delta_1; more are post-processing. With r = honest/planned < 1 the law of the
    sum, P(k) = sum_j p(j) p(j+k) with p log-convex, is log-convex on k >= 0, so the largest
    log ratio of neighbours is at 0 and

        epsilon' = Delta_1 log(P(0)/P(1)),  P(0)/P(1) = F(r,r;1;a^2) / (a r F(r,r+1;2;a^2)),

    finite, larger than epsilon, and attained when the change is one unit in Delta_1 coordinates.
    """
    epsilon = require_epsilon(epsilon)
    planned, honest = require_count("planned", planned), require_count("honest", honest)
    sensitivity = require_count("sensitivity_l1", sensitivity_l1)
    if honest >= planned:
        return epsilon
    r, a = honest / planned, math.exp(-epsilon / sensitivity)
    ratio = hyp2f1(r, r, 1, a * a) / hyp2f1(r, r + 1, 2, a * a)
    return sensitivity * (math.log(ratio) - math.log(r)) + epsilon


def norm_mechanism_epsilon(epsilon: float, dimension: int, planned: int, honest: int) -> float:
    r"""Pure epsilon of the L2 norm mechanism made of gamma-mixture shares.

    Over the reals only: rounding shares to a grid is not post-processing of the real sum. With
    ``nu = (p+1) honest / (2 planned)``, ``a = nu - p/2``, ``z = epsilon`` the residual is
    ``log[2^{a-1} Gamma(a) / (z^a K_a(z))]``, and infinite for a <= 0: a single colluder without the
    (m - t) correction once p >= m - 1.

    >>> round(norm_mechanism_epsilon(1.0, 1, 10, 9), 2)
    1.19
    """
    z = require_epsilon(epsilon)
    dimension = require_count("dimension", dimension)
    planned, honest = require_count("planned", planned), require_count("honest", honest)
    if honest >= planned:
        return z
    a = ((dimension + 1) * honest - dimension * planned) / (2 * planned)
    if a <= 0:
        return math.inf
    log_bessel = math.log(float(kve(a, z))) - z
    return (a - 1) * math.log(2) + float(gammaln(a)) - a * math.log(z) - log_bessel
