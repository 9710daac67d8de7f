"""Tests of nested models that count the noise in: does a model lose by leaving columns out?

The last round of a regression has released a gradient g and a curvature H, and what is not known
about the way δ to the truth is g - H δ ~ N(0, S(δ)) (`noisy_scores`). Twice the log-likelihood of
what was released is therefore, with the weak prior N(d₀, L⁻¹) and but for a constant, -Q(δ),

    Q(δ) = (g - H δ)ᵀ S(δ)⁻¹ (g - H δ) + log det S(δ) + (δ - d₀)ᵀ L (δ - d₀)

and how far it falls when r coefficients are held at zero, δ̃, against when none is, δ̂,

    D = Q(δ̃) - Q(δ̂)

is a likelihood-ratio statistic: chi-square with r degrees of freedom where they are zero. Were S
the same in both, D would be Wald's. It is not: the noise of H counts times the way, so that a way
that leads far from where the round was asked explains a gradient by noise; log det S is what such
an explanation costs. A ratio of the records' likelihoods would be another thing: its law is not
chi-square where errors are robust (Rotnitzky and Jewell 1990), and each evaluation of it would be a
release. D is post-processing of what was released and costs nothing.

What a Newton step misses of a curved likelihood is counted as it is at δ̂ in both: a smaller model
that is far off must not be excused by it.

Both ways are fixed points of the noise-aware step; a restriction is a prior that is a million times
sharper than what data say. Noise in H shortens δ̂, and what that is squared belongs to its variance:
D is made smaller by as much as Wald's statistic is by it, so that it errs on the safe side.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unisono.algorithms.noisy_scores import (
    Scored,
    noise_aware_step,
    numpy_loop,
    positive,
    shrunk_meat,
    way_noise,
)

_SHARP = 1e6


class Evidence(NamedTuple):
    """What the last step was made of (see `noisy_scores`): sums, the prior L and d₀, bounds of the
    way, and how it leads to standardised coefficients, θ = `theta` + `back` δ."""

    scored: Scored
    prior: Any
    prior_way: Any
    largest: Any
    curving: Any
    theta: Any
    back: Any


def distance(evidence: Evidence, places: Sequence[int]) -> float:
    """D of the hypothesis that these standardised coefficients are zero."""
    scored, prior, prior_way, largest, curving, theta, back = evidence
    rows, wanted = np.asarray(back)[list(places)], -np.asarray(theta)[list(places)]

    def step(precision: np.ndarray, way: np.ndarray, bent: float) -> Any:
        return noise_aware_step(np, scored, precision, way, largest, bent, numpy_loop)

    free = step(prior, prior_way, curving)
    sharp = _SHARP * np.linalg.inv(rows @ free.covariance @ rows.T)
    held = prior + rows.T @ sharp @ rows
    pull = prior @ prior_way + rows.T @ sharp @ wanted
    smaller = step(held, np.linalg.solve(held, pull), 0.0)
    curvature = positive(np, scored.curvature)
    meat = shrunk_meat(np, scored, curvature)

    def straight(way: np.ndarray, bent: float = 0.0) -> np.ndarray:
        found: np.ndarray = way_noise(
            np, scored, curvature, meat, way, free.covariance, largest, bent
        )
        return found

    curved = straight(free.way, curving) - straight(free.way)

    def noise(way: np.ndarray) -> np.ndarray:
        return straight(way) + curved

    def cost(way: np.ndarray) -> float:
        whole = noise(way)
        left, off = scored.gradient - curvature @ way, way - prior_way
        missed = left @ np.linalg.solve(whole, left) + off @ prior @ off
        return float(missed + np.linalg.slogdet(whole)[1])

    fall = max(cost(smaller.way) - cost(free.way), 0.0)
    known = np.linalg.solve(noise(free.way), curvature).T
    without = np.linalg.inv(known @ curvature + prior)  # the covariance but for the shortening
    apart = rows @ free.way - wanted

    def wald(covariance: np.ndarray) -> float:
        return float(apart @ np.linalg.solve(rows @ covariance @ rows.T, apart))

    return fall * min(1.0, wald(free.covariance) / max(wald(without), 1e-12))


__all__ = ["Evidence", "distance"]
