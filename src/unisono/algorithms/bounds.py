"""Utility bounds of SGD1 and SGD2 (the SGD write-up, eqs. 9-12), with every constant written out.

All are bounds on the expected excess risk of the *summed* loss, E[F(θ) - F(θ*)], over a convex set
of diameter |C|, for records whose loss (with its regulariser) is L-Lipschitz there. With n records,
p parameters and V the variance of the noise in one coordinate of the step's gradient,

    G² = n² L² + p V        bounds the second moment of what a step uses

    (9)   SGD1, convex, η_t = |C| / (G sqrt(t))          2 |C| G (2 + log T) / sqrt(T)
    (10)  SGD1, n Δ-strongly convex, η_t = 1/(n Δ t)     17 G² (1 + log T) / (n Δ T)
    (11)  SGD2, as printed                               8 m p (σ² + n² L²) / (n Δ T)
          SGD2, weighted average                         2 G² / (n Δ (T + 1))
          SGD2, convex, plain average                    |C| G / sqrt(T)
    (12)  constant step, corrected                       |θ0 - θ*|² / (2 T η) + η G² / 2
    trivial: any point of the set                        n L |C|

(9) and (10) are Shamir and Zhang 2013, theorems 2 and 1, for the last iterate; T = n² in the
source, which hides their constants in O(). (11) is valid but loose, and only for an average.
(12) is printed with η σ² for the second term, which is too small by about m p / 2. With
private noise V grows with T, so no bound falls below a floor; where a bound exceeds the
trivial one it says nothing.
"""

import math

from unisono.core.events import positive
from unisono.errors import InvalidInput


def second_moment(records: int, lipschitz: float, parameters: int, variance: float) -> float:
    """G² = n² L² + p V.

    >>> second_moment(10, 1.0, 4, 25.0)
    200.0
    """
    positive(records=records, lipschitz=lipschitz, parameters=parameters)
    if not (math.isfinite(variance) and variance >= 0):
        raise InvalidInput(f"variance = {variance!r} is not a number of at least 0")
    return float((records * lipschitz) ** 2 + parameters * variance)


def last_iterate_convex(diameter: float, moment: float, steps: int) -> float:
    """(9): steps η_t = |C| / (G sqrt(t)), last iterate."""
    positive(diameter=diameter, moment=moment, steps=steps)
    return 2 * diameter * math.sqrt(moment) * (2 + math.log(steps)) / math.sqrt(steps)


def last_iterate_strongly_convex(
    records: int, strong_convexity: float, moment: float, steps: int
) -> float:
    """(10): steps η_t = 1 / (n Δ t), last iterate."""
    positive(records=records, strong_convexity=strong_convexity, moment=moment, steps=steps)
    return 17 * moment * (1 + math.log(steps)) / (records * strong_convexity * steps)


def published_equation_11(
    records: int,
    lipschitz: float,
    parameters: int,
    parties: int,
    sigma: float,
    strong_convexity: float,
    steps: int,
) -> float:
    """(11) as printed, σ the noise of one party's message; loose by a factor of 4 to 4 m p."""
    positive(
        records=records,
        lipschitz=lipschitz,
        parameters=parameters,
        parties=parties,
        sigma=sigma,
        strong_convexity=strong_convexity,
        steps=steps,
    )
    moment = 8 * parties * parameters * (sigma**2 + (records * lipschitz) ** 2)
    return moment / (records * strong_convexity * steps)


def weighted_average(records: int, strong_convexity: float, moment: float, steps: int) -> float:
    """(11) sharpened: η_t = 2 / (n Δ (t + 1)), average with weights t (Lacoste-Julien et al.)."""
    positive(records=records, strong_convexity=strong_convexity, moment=moment, steps=steps)
    return 2 * moment / (records * strong_convexity * (steps + 1))


def constant_step(distance: float, moment: float, steps: int, step_size: float) -> float:
    """(12) corrected: constant η, plain average; `distance` = |θ0 - θ*|.

    >>> constant_step(1.0, second_moment(1, 1.0, 10, 5.0), 10**9, 0.1) > 0.1 * 1.0**2
    True
    """
    positive(moment=moment, steps=steps, step_size=step_size)
    if not (math.isfinite(distance) and distance >= 0):
        raise InvalidInput(f"distance = {distance!r} is not a number of at least 0")
    return distance**2 / (2 * steps * step_size) + step_size * moment / 2


def published_equation_12(distance: float, sigma: float, steps: int, step_size: float) -> float:
    """(12) as printed. NOT a bound: its noise term lacks m p and n² L²."""
    positive(distance=distance, sigma=sigma, steps=steps, step_size=step_size)
    return distance**2 / (2 * steps * step_size) + step_size * sigma**2


def plain_average(diameter: float, moment: float, steps: int) -> float:
    """Convex SGD2: the best constant step, η = |C| / (G sqrt(T)), in (12)."""
    positive(diameter=diameter, moment=moment, steps=steps)
    return diameter * math.sqrt(moment / steps)


def trivial(records: int, lipschitz: float, diameter: float) -> float:
    """n L |C|: what any fixed point of the set achieves without looking at the data."""
    positive(records=records, lipschitz=lipschitz, diameter=diameter)
    return records * lipschitz * diameter
