"""How far a sum of rounded Gaussian shares is from the continuous Gaussian."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from unisono.core.noise.parameters import spread, whole_number


@lru_cache(maxsize=256)
def rounded_share_gap(std: float, shares: int) -> float:
    """Total variation by which a sum of rounded Gaussian shares misses a post-processing of the
    continuous Gaussian: an upper bound, per coordinate.

    Claim. Let G_1..G_n be independent N(0, std^2), n = `shares`, S = sum round(G_i), and
    T = round(G + V_1 + ... + V_{n-1}) with G = sum G_i ~ N(0, n std^2) and V_i independent and
    uniform on [-1/2, 1/2]. T is a randomised function of G, and x + T is the same function of
    x + G for every integer x. The laws of S and T differ in total variation by at most

        sum_{j=1}^{n-1} sqrt( (1/2) sum_{m>=1} b_j^(2 m^2) ),   b_j = exp(-2 pi^2 std^2 j/(j+1)).

    So d coordinates released with shares satisfy the (epsilon, delta) of the continuous Gaussian
    of standard deviation std sqrt(n), with delta + (1 + e^epsilon) d gap in place of delta.

    Proof. Put E_i = round(G_i) - G_i, a function of G_i mod 1. Then S = G + E_1 + ... + E_n, and
    since S is an integer and |E_1| <= 1/2, S = round(G + E_2 + ... + E_n). T is the same function
    with (E_2..E_n) replaced by uniforms independent of G, so it is enough to compare the law of
    (E_2..E_n) given G with the uniform law. Peel off one share at a time: given
    H_{j+1} = G_1 + ... + G_{j+1}, the share G_{j+1} is normal with variance v = std^2 j/(j+1), and
    by Poisson summation its fractional part has the density
    1 + sum_{m != 0} exp(-2 pi^2 v m^2) e^(2 pi i m (x - mean)) on the circle. Cauchy-Schwarz and
    Parseval bound its distance from uniform, (1/2) int |density - 1|, by
    (1/2) sqrt(sum_{m != 0} exp(-4 pi^2 v m^2)), the j-th term of the claim. The bound does not
    depend on H_{j+1}, hence holds after averaging over what G and E_{j+2}..E_n leave unknown of
    it, and the chain rule adds up the n - 1 terms. The passage from total variation to delta
    is the triangle inequality on both neighbours. QED.

    One share is the continuous mechanism rounded: the gap is 0.

    >>> rounded_share_gap(4.0, 1)
    0.0
    >>> rounded_share_gap(4.0, 100) < 1e-68
    True
    """
    std = spread("std", std)
    shares = whole_number("shares", shares, 1, 10**9)
    if shares == 1:
        return 0.0

    def distance(j: NDArray[np.float64] | float) -> NDArray[np.float64]:
        with np.errstate(under="ignore"):
            decay = 4 * math.pi**2 * std**2 * np.asarray(j / (j + 1), dtype=np.float64)
            # sum_{m>=1} q^(m^2) <= q / (1 - q^3), as m^2 >= 1 + 3 (m - 1).
            return np.exp(-decay / 2) * np.sqrt(0.5 / -np.expm1(-3 * decay))

    # The terms fall with j: from the 4096th on, each is bounded by the 4096th.
    head = np.arange(1.0, min(shares, 4096))
    total = float(distance(head).sum())
    if shares > 4096:
        total += (shares - 4096) * float(distance(4096.0))
    # The factor and the summand cover rounding and underflow; a distance never exceeds 1.
    return min(1.0, total * (1 + 1e-9) + shares * 5e-324)
