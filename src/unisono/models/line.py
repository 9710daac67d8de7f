"""A straight line by Fisher scoring, for whoever wants to predict: coefficients that noise does not
drive far from what is likely, a ridge where one is asked for, and how far targets scatter.

Coefficients with intervals must say what the data say, however little that is. Those that predict
need not: with V the covariance of an estimate θ, under the weak prior N(θ₀, L⁻¹) that it was found
with, data know J = V⁻¹ - L, and under another prior N(θ₀, P⁻¹) the estimate is

    (J + P)⁻¹ (J θ + P θ₀)          (`under_prior`)

For prediction P is that of columns which together explain about as much as the target varies: a
deviation of 1 / sqrt(p) target deviations for a change of each of p columns by its own. Where noise
alone would explain more than a fiftieth of it, ν = p (s_g / n)² by the public noise of a gradient,
they are believed to explain 1 / 50ν of it (`believed_share`): where noise drowns everything slopes
go to zero, and predictions to the middle. The intercept lies within half a deviation of the
target's released median, given columns at theirs.

The intercept of bounded residuals is known well, and its distance from that of the mean little:
residuals are wide there, and so is their noise. Errors that are not symmetric move it by about a
tenth of a deviation; so of the distance that was measured the part τ² / (τ² + noise²) is taken.

All of it is post-processing of what the rounds released (`algorithms.fisher_scoring`).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import chdtri

from unisono.algorithms import fisher_scoring
from unisono.algorithms.feature_subsets import Features, minimiser_of
from unisono.algorithms.fisher_scoring import Fitted, Terms, terms_for
from unisono.algorithms.noisy_scores import positive
from unisono.algorithms.steady_scales import two_valued
from unisono.core.study import Study
from unisono.data.scaling import UnitScaling
from unisono.models.glm import Regression, in_units
from unisono.models.posterior import Posterior

# Of the intercept's prior, in deviations of the target.
_INTERCEPT_SD = 0.5
# How far the mean of residuals lies from where bounded ones balance, in their deviations.
_SKEW = 0.1
# What noise may explain of the target's variance before less is believed of the columns.
_DROWNING = 0.02
# The weak prior that rounds are run with, where what is wanted is a prediction.
PRIOR_SD = 1.0
# Of Fisher scoring, where what is wanted is a prediction.
PREDICTION = {"prior_sd": PRIOR_SD, "prediction": True}


class Believed(NamedTuple):
    """A normal distribution of standardised coefficients: mean (p,) and covariance (p, p)."""

    mean: np.ndarray
    covariance: np.ndarray


def under_prior(
    found: Fitted, theta: np.ndarray, mean: np.ndarray, precision: np.ndarray
) -> Believed:
    """What is believed of θ under the prior N(mean, precision⁻¹), where the estimate was found with
    N(theta, found.prior²)."""
    # In units of the old prior, L is one and J has no eigenvalue below zero but for noise.
    unit = found.prior
    values, vectors = np.linalg.eigh(np.linalg.inv(found.covariance / np.outer(unit, unit)))
    known = (vectors * np.maximum(values - 1.0, 0.0)) @ vectors.T
    whole = known + precision * np.outer(unit, unit)
    # Under the old prior (J + L) (θ̂ - θ₀) = J (d - θ₀), d what data alone would say.
    way = (known + np.eye(len(unit))) @ ((found.theta - theta) / unit)
    way = way + (precision * np.outer(unit, unit)) @ ((mean - theta) / unit)
    covariance = np.linalg.inv(whole) * np.outer(unit, unit)
    moved = theta + unit * np.linalg.solve(whole, way)
    return Believed(moved, (covariance + covariance.T) / 2)


def predicting(
    made: Regression, study: Study, value: Any, features: Features | None = None
) -> np.ndarray:
    """Coefficients (p,) in the user's units, the intercept first, for prediction; of `features`
    only, where some are named or counted: those whose predictions differ least, in square mean,
    from what is believed of all."""
    terms = terms_for(study)
    found = _steadied(terms, value)
    columns = len(found.theta) - 1
    number = columns
    if features is not None:
        number = min(features, columns) if isinstance(features, int) else len(features)
    share = believed_share(terms, value)
    believed = _shrunk(terms, found, value, math.sqrt(share / max(number, 1)))
    theta = believed.mean
    if features is not None:
        moments = second_moments(terms, value, steadied=True)
        theta = minimiser_of(features, moments, moments @ theta, 0)
    return _in_units(made, found, theta)


def believed_share(terms: Terms, value: Any) -> float:
    """What columns are believed to explain of the target's variance before rounds are read, by
    public noise alone."""
    last = int(value.round) - 1
    start = jax.tree.map(lambda part: np.asarray(part, np.float64), value.start)
    told = fisher_scoring.opened(np, terms, value._replace(start=start), last).scored
    records = max(float(value.records[last]), 1.0)
    noise = len(told.gradient) * (float(told.s_gradient) / records) ** 2
    return min(1.0, _DROWNING / max(noise, 1e-12))


def _steadied(terms: Terms, value: Any) -> Fitted:
    """What was found, with as much of the way to the mean of residuals as stands out of noise."""
    found = fisher_scoring.fitted(terms, value)
    state = jax.tree.map(lambda part: np.asarray(part, np.float64), value)
    last = int(value.round) - 1
    told = fisher_scoring.averaged(np, terms, state, last)
    sigma, records = float(state.points.sigma[last]), max(float(state.records[last]), 1.0)
    inverse = np.linalg.inv(state.points.whitening[last])
    far = sigma * float(told.residuals - inverse[0] @ told.scored.gradient) / records
    noise = told.s_residuals**2 + told.scored.s_gradient**2 * (inverse[0] @ inverse[0])
    noise = sigma**2 * float(noise) / records**2
    kept = (_SKEW * sigma) ** 2 / ((_SKEW * sigma) ** 2 + noise)
    theta, covariance = found.theta.copy(), found.covariance.copy()
    theta[0] -= (1 - kept) * far
    covariance[0, 0] -= (1 - kept**2) * noise
    return found._replace(theta=theta, covariance=covariance)


def _shrunk(terms: Terms, found: Fitted, value: Any, deviation: float) -> Believed:
    """θ under a prior of so many deviations of the target for a change of each column by its own,
    and the narrow one of the intercept. A number of two values has, as a category, the same for
    each of them however rare it is."""
    start = jax.tree.map(lambda part: np.asarray(part, np.float64), value.start)
    deviations = deviation / terms.config.prior_sd * found.prior
    ends = terms.problem.numeric & two_valued(start.centre, start.scale)
    deviations[1:] *= np.where(ends, start.scale / 2, 1.0)
    deviations[0] = _INTERCEPT_SD * float(start.spread)
    return under_prior(found, start.theta, start.theta, np.diag(deviations**-2.0))


def _in_units(made: Regression, found: Fitted, theta: np.ndarray) -> np.ndarray:
    assert made.targets is not None
    estimate = made.unit * in_units(found, made.middle, made.half) @ theta
    estimate[0] += made.targets.centre
    return np.asarray(estimate)


def ridged(
    made: Regression,
    study: Study,
    value: Any,
    ridge: float,
    scale: UnitScaling,
    features: Features | None = None,
) -> np.ndarray:
    """Coefficients (p,) in the user's units, the intercept first, that minimise

        mean ½ (t - θ·(u, 1))² + ridge/2 |θ|²

    with features u and targets t scaled by their bounds, as the quadratic around the estimate that
    the last rounds released: in standardised coordinates, where θ = K β and E zzᵀ = M,
    β_ridge = (M + ridge KᵀK)⁻¹ M β. M is the released curvature over its first entry, which counts
    the records. Only `features` have a coefficient, where some are named or counted.
    """
    terms = terms_for(study)
    found = _steadied(terms, value)
    turned = to_scaled(made, found, scale)
    moments = second_moments(terms, value)
    plain = _shrunk(terms, found, value, terms.config.prior_sd).mean
    theta = minimiser_of(features, moments + ridge * turned.T @ turned, moments @ plain, 0)
    return _in_units(made, found, theta)


def to_scaled(made: Regression, found: Fitted, scale: UnitScaling) -> np.ndarray:
    """The matrix that turns standardised coefficients into those of (1, u), features u scaled by
    public bounds."""
    matrix = in_units(found, made.middle, made.half)
    turn = np.zeros((len(matrix), len(matrix)))
    turn[0, 0], turn[0, 1:] = 1.0, scale.shift
    turn[1:, 1:] = np.diag(scale.scale)
    return turn @ matrix


def posterior_by_scoring(
    made: Regression,
    study: Study,
    value: Any,
    scale: UnitScaling,
    names: Sequence[str],
    prior_variance: float | None = None,
) -> Posterior:
    """The posterior of the coefficients of (u, 1), the intercept last, with targets in [-1, 1] or
    log-odds: full covariance, noise counted in.

    The prior is that of the rounds, weak and in standardised units, or N(0, prior_variance) of
    every coefficient of (u, 1). Errors are those of a sandwich: they do not rest on a spread of
    targets that somebody supposed.
    """
    found = fisher_scoring.fitted(terms_for(study), value)
    turn = to_scaled(made, found, scale)
    turn = np.concatenate([turn[1:], turn[:1]])
    prior = np.diag(found.prior**2)
    believed = Believed(found.theta, found.covariance)
    if prior_variance is not None:
        theta = np.asarray(value.start.theta, np.float64)
        precision = turn.T @ turn / prior_variance
        believed = under_prior(found, theta, np.zeros(len(theta)), precision)
        prior = np.linalg.inv(precision)
    seen = made.read(study, value)
    return Posterior(
        turn @ believed.mean,
        turn @ believed.covariance @ turn.T,
        tuple(names),
        converged=not seen.doubts,
        prior_covariance=turn @ prior @ turn.T,
        measured=np.concatenate([seen.determined[1:], seen.determined[:1]]),
        doubts=seen.doubts,
    )


def second_moments(terms: Terms, value: Any, steadied: bool = False) -> np.ndarray:
    """E zzᵀ (p, p) of standardised rows (1, z), as the curvature of the last rounds tells it; or
    `steadied`, so that no direction is shorter than what noise may have made."""
    state = jax.tree.map(lambda part: np.asarray(part, np.float64), value)
    last = int(value.round) - 1
    scored = fisher_scoring.averaged(np, terms, state, last).scored
    inverse = np.linalg.inv(state.points.whitening[last])
    noise = float(scored.s_curvature)
    raised = noise * math.sqrt(2 * len(inverse)) * np.eye(len(inverse)) if steadied else 0.0
    curvature = inverse @ (positive(np, scored.curvature) + raised) @ inverse.T
    return np.asarray(
        curvature / max(curvature[0, 0], noise * float(inverse[0] @ inverse[0]), 1e-9)
    )


def scatter(made: Regression, study: Study, value: Any) -> float:
    """How far targets scatter around the line, in their own units: σ of the last round times r, the
    spread of residuals over it.

    With n records, b the share of residuals within k and w the weights that keep rows q bounded,
    the traces of curvature and meat that were released are about

        n b(r) E[w |q|²]     and     n E[ψ²](r) E[w² |q|²]

    by a normal law of residuals. Weights are in the meat twice, so that their plain ratio is too
    small. With |q|² = s (1 + χ²), one degree of freedom for each column, s follows from the first
    for any r, and r from the second.
    """
    terms = terms_for(study)
    state = jax.tree.map(lambda part: np.asarray(part, np.float64), value)
    last = int(value.round) - 1
    told = fisher_scoring.opened(np, terms, state, last).scored
    records = max(float(state.records[last]), 1.0)
    meat, curvature = (float(np.trace(part)) / records for part in (told.meat, told.curvature))
    k = float(terms.config.bend_at or 1.0)
    spreads = np.linspace(0.2, 4.0, 400)
    edge = k / spreads
    shares = np.array([math.erf(one / math.sqrt(2)) for one in edge])
    density = np.exp(-(edge**2) / 2) / math.sqrt(2 * math.pi)
    squares = spreads**2 * (shares - 2 * edge * density) + k**2 * (1 - shares)
    within = shares
    if last == 0:  # there the share is not that of records, but one that was multiplied by
        seen = np.interp(meat / max(curvature, 1e-6), squares / shares, shares)
        within = np.full_like(shares, seen)
    sizes, once, twice = _weighed(terms)
    size = np.interp(max(curvature, 1e-6) / within, once, sizes)
    expected = np.maximum.accumulate(squares * np.interp(size, sizes, twice))
    spread = float(np.interp(meat, expected, spreads))
    return made.unit * float(state.points.sigma[last]) * spread


def _weighed(terms: Terms) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values of s, and by them E[w |q|²] and E[w² |q|²] for the weights w of Fisher scoring."""
    config, p = terms.config, terms.problem.parameters
    assert config.gradient_norm is not None
    assert config.curvature_norm is not None
    sizes = np.geomspace(0.02, 50.0, 120)
    free = chdtri(p - 1, 1 - (np.arange(200) + 0.5) / 200) if p > 1 else np.zeros(1)
    square = sizes[:, None] * (1 + free)
    by_gradient = config.gradient_norm * np.sqrt(p / square)
    by_curvature = config.curvature_norm * p / square
    weights = np.minimum(1.0, np.minimum(by_gradient, by_curvature))
    return sizes, (weights * square).mean(axis=1), (weights**2 * square).mean(axis=1)


__all__ = [
    "PREDICTION",
    "PRIOR_SD",
    "believed_share",
    "posterior_by_scoring",
    "predicting",
    "ridged",
    "scatter",
    "second_moments",
    "under_prior",
]
