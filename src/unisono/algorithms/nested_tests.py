"""Tests of nested models that count the noise in: does a model lose by leaving columns out?

The last round of a regression has released a gradient g and a curvature H, and what is not known
about the way δ to the truth is g - H δ ~ N(0, S) (`noisy_scores`). Twice the quasi-log-likelihood
is, but for a constant,

    -Q(δ) = -(g - H δ)ᵀ S⁻¹ (g - H δ) - (δ - d₀)ᵀ L (δ - d₀)

and how far it falls when r coefficients are held at zero,

    D = min_{δ : E δ = e} Q(δ) - min_δ Q(δ)

is a likelihood-ratio statistic of what was released: chi-square with r degrees of freedom if they
are zero (the distance statistic of generalised moments; Newey and West 1987). A ratio of likelihoods
of records would be none: errors there have the sandwich's covariance, not the model's (Rotnitzky and
Jewell 1990), and each evaluation is a release of its own. D is post-processing and costs nothing.

S depends on δ, since the noise of H counts times the way, and so does Wald's statistic, which takes
it where the estimate is. Here it is taken at the *smaller* model's solution, for both minima: that
is the law under the hypothesis, as in score tests, and makes D a difference of one function. As Q is
a square, D = tᵀ (E V Eᵀ)⁻¹ t with t = E δ̂ - e at the minimum δ̂ with covariance V; to V is added
what noise in H shortens δ̂ by, squared, so that D errs on the small side.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unisono.algorithms.noisy_scores import Scored, noise_aware_step, numpy_loop

# A restriction is a prior so many times sharper than what data say.
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

    def step(precision: np.ndarray, way: np.ndarray) -> Any:
        return noise_aware_step(np, scored, precision, way, largest, curving, numpy_loop)

    free = step(prior, prior_way)
    sharp = _SHARP * np.linalg.inv(rows @ free.covariance @ rows.T)
    held = prior + rows.T @ sharp @ rows
    pull = prior @ prior_way + rows.T @ sharp @ wanted
    noise = step(held, np.linalg.solve(held, pull)).noise
    way, covariance = _minimum(scored, prior, prior_way, noise)
    apart = rows @ way - wanted
    return float(apart @ np.linalg.solve(rows @ covariance @ rows.T, apart))


def _minimum(
    scored: Scored, prior: np.ndarray, prior_way: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where Q is least for a given S, and the covariance of that."""
    p = len(prior)
    values, vectors = np.linalg.eigh((scored.curvature + scored.curvature.T) / 2)
    curvature = (vectors * np.maximum(values, 0.0)) @ vectors.T
    known = np.linalg.inv(noise)
    covariance = np.linalg.inv(curvature @ known @ curvature + prior)
    way = covariance @ (curvature @ known @ scored.gradient + prior @ prior_way)
    excess = scored.s_curvature**2 / 2 * (np.trace(known) * np.eye(p) + known)
    short = covariance @ (excess @ way)
    return way, covariance + np.outer(short, short)


__all__ = ["Evidence", "distance"]
