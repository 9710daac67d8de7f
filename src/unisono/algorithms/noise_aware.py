"""Posteriors that know of the noise that privacy added.

A posterior that takes noisy statistics for exact ones is far too narrow. But the law of the noise
is public, so what was released is an ordinary measurement of the coefficients θ:

    y = H θ + e,   Cov e = R        posterior precision  P₀ + HᵀR⁻¹H,
                                    posterior shift      P₀ m₀ + HᵀR⁻¹y

It is post-processing and costs nothing. Where noise drowns the data HᵀR⁻¹H vanishes, and the
answer is the prior. Both measurements below hold to first order in the noise. H is noisy too, and
with a weak prior even the little that noise alone makes of it looks like information; so nothing is
learnt of a coefficient whose own entry of H does not stand out of the noise (`beyond_noise`).

Regression   The release is S = Σ uuᵀ + N and s = Σ u t + n, so

    s = S θ + Σ u e + n - N θ,      R = σ_e² S + v (I + ½ (tr M · I + M)),   M = E[θ θᵀ]

with v the variance of one released number. N is symmetric with variance v on its diagonal and
v / 2 beside it, whence Cov(N θ) = v/2 (|θ|² I + θθᵀ); M follows by iteration.

Rounds       The late rounds of `pvi_natural_gradient` measured slopes G_t at the means m_t, and the
bend B. Slopes are linear near the mode: G_t = Σ g x at the truth + B (θ - m_t) + noise, so that

    Ḡ + B m̄ = B θ + N(0, B) + n̄ + N (m̄ - θ),      R = B + v/T I + w/2 (tr M · I + M)

with T rounds in the window, v the variance of a round's slope, w that of the averaged bend and M =
E[(θ - m̄)(θ - m̄)ᵀ]. It does not matter how m̄ came about, nor whether it has arrived: what is
missing of the way is one Newton step, and a bend that is wrong hurts only as far as that step goes.
Rows were weighted by a weight of at most 1, so the slopes' own variance is below B.

Convergence  A line through either half of the window, with its own bend, leads to the same slope
at the answer θ̂ = E[θ]: r_h = G_h - B_h (θ̂ - m_h). What remains, d = r_2 - r_1, has the covariance

    D = Σ_h ( v I + w (|s_h|² I + s_h s_hᵀ)/2 ) / T_h + τ² B,          s_h = θ̂ - m_h

v and w of one round. Rounds that disagree by more than noise and a fifth (τ) of a posterior
deviation, in all directions together (dᵀ D⁻¹ d) or along the way that was left to go (s_1), have
not converged: slopes were not linear where the window lies. Only public values are needed.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtri

from unisono.core.algorithm import Facts
from unisono.core.events import Event
from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.errors import InvalidInput
from unisono.problems.gaussian_family import Natural, covariance, mean, project, symmetric
from unisono.releases.release import copies

_ITERATIONS = 50
_TOLERANCE = 0.2  # of a posterior deviation: how much rounds may disagree for other reasons
FALSE_ALARM = 1e-3  # how often `converged` doubts rounds that agree, to first order in the noise
_STANDING_OUT = 3.1  # deviations: a normal number is larger once in a thousand times
LEAST_ROUNDS = 8  # fewer are doubted: under much noise, rounds on their way look like any others


def opened_variance(event: Event, facts: Facts, trust: Trust) -> float:
    """Variance of the noise in one number of the sum that is opened when every party answers."""
    noise = event.noise
    if not (noise.additive and noise.independent):
        raise InvalidInput(f"the variance of {noise!r} is not known here: noise_aware=False")
    return noise.deviation(1) ** 2 * copies(facts, trust)


def observed(
    prior: Natural, H: np.ndarray, R: np.ndarray, y: np.ndarray, measured: np.ndarray | None = None
) -> Natural:
    """The posterior after measuring y = H θ + N(0, R).

    Of coefficients that were not `measured` (d,) nothing is learnt: what they do to y is what the
    prior says of them, and counts as noise.
    """
    if measured is not None:
        rest = H[:, ~measured]
        y = y - rest @ mean(prior)[~measured]
        R = R + rest @ covariance(prior)[np.ix_(~measured, ~measured)] @ rest.T
        H = np.where(measured, H, 0.0)
    weights = np.linalg.solve(R, H)
    return Natural(prior.shift + weights.T @ y, prior.precision + symmetric(H.T @ weights))


def beyond_noise(information: np.ndarray, variance: float) -> np.ndarray:
    """Which coefficients (d,) a noisy positive matrix of information (d, d) is about: those whose
    own entry stands out of the noise.

    Symmetric Gaussian noise has this variance v on its diagonal and half of it beside. With its
    negative directions cut off, its diagonal is 0.3 sqrt(d v) on average (half of Wigner's
    semicircle), and exceeds that by 3.1 sqrt(v) in one of a thousand coefficients at most.
    """
    mean_of_noise = 0.3 * math.sqrt(len(information))
    return np.diagonal(information) > (mean_of_noise + _STANDING_OUT) * math.sqrt(variance)


def from_statistics(
    answer: Natural,
    prior: Natural,
    noise_std: float,
    variance: float,
    measured: np.ndarray | None = None,
) -> Natural:
    """The posterior of a regression from its one release, as a one-shot regression answered."""
    S = noise_std**2 * symmetric(answer.precision - prior.precision)
    s = noise_std**2 * (answer.shift - prior.shift)
    eye, q = np.eye(len(s)), prior
    for _ in range(_ITERATIONS):
        moment = np.outer(mean(q), mean(q)) + covariance(q)
        from_noise = variance * (eye + (np.trace(moment) * eye + moment) / 2)
        q = observed(prior, S, noise_std**2 * S + from_noise, s, measured)
    return q


class RoundNoise(NamedTuple):
    """Variances of the noise in one number of a round's slopes, and of its bends."""

    slope_variance: float
    bend_variance: float


def from_window(
    window: Any, prior: Natural, noise: RoundNoise, measured: np.ndarray | None = None
) -> Natural:
    """The posterior from the window of `pvi_natural_gradient`; full bends."""
    means, slopes, bend, rounds = _pooled(window)
    seen, eye, q = slopes + bend @ means, np.eye(len(slopes)), prior
    for _ in range(_ITERATIONS):
        apart = mean(q) - means
        moment = np.outer(apart, apart) + covariance(q)
        from_bends = noise.bend_variance * (np.trace(moment) * eye + moment) / 2
        R = bend + (noise.slope_variance * eye + from_bends) / rounds
        q = observed(prior, bend, R, seen, measured)
    return q


def converged(window: Any, q: Natural, noise: RoundNoise) -> bool:
    """Whether both halves of a window lead to q, the posterior that was computed from it.

    False where the window has one round, which cannot disagree with another.
    """
    rounds = np.asarray(window.rounds, float)
    if rounds.min() < 1:
        return False
    eye, rest, spread = np.eye(len(q.shift)), [], _TOLERANCE**2 * _pooled(window)[2]
    steps = mean(q) - np.asarray(window.means, float)
    for slope, bend, step, count in zip(window.slopes, window.bends, steps, rounds, strict=True):
        rest.append(slope - symmetric(np.asarray(bend, float)) @ step)
        from_bend = noise.bend_variance * (step @ step * eye + np.outer(step, step)) / 2
        spread = spread + (noise.slope_variance * eye + from_bend) / count
    apart, way = rest[1] - rest[0], steps[0]
    return bool(
        apart @ np.linalg.solve(spread, apart) < chdtri(len(apart), FALSE_ALARM / 2)
        and (way @ apart) ** 2 < chdtri(1, FALSE_ALARM / 2) * (way @ spread @ way)
    )


def _pooled(window: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Mean, slope and bend of the whole window, the bend without negative directions; rounds."""
    parts = np.asarray(window.rounds, float)
    rounds = float(parts.sum())
    means, slopes, bends = (
        np.tensordot(parts / rounds, np.asarray(part, float), 1) for part in window[:3]
    )
    return means, slopes, project(Natural(slopes, symmetric(bends)), 0.0)[0].precision, rounds


class Aware(NamedTuple):
    """A posterior that knows of the noise, whether the run that it comes from converged, and of
    which coefficients (d,) more than noise was measured; None if that is not known."""

    q: Natural
    converged: bool = True
    measured: np.ndarray | None = None


Refine = Callable[[Any], Aware]


def aware_of_statistics(study: Study) -> Refine:
    """What the answer of a one-shot regression says, its noise counted in."""
    facts, problem = study.facts, study.method.problem
    variance = opened_variance(study.algorithm.event(facts, study.trust), facts, study.trust)
    prior = problem.prior(facts.features, full=True)

    def refine(value: Any) -> Aware:
        answer, spread = full_natural(value), problem.noise_std
        information = spread**2 * (answer.precision - prior.precision)
        measured = beyond_noise(information, variance)
        q = from_statistics(answer, prior, spread, variance, measured)
        return Aware(q, measured=measured)

    return refine


def aware_of_rounds(study: Study) -> Refine:
    """What the answer of natural gradients says, its noise counted in."""
    facts, method = study.facts, study.method
    prior = method.problem.prior(facts.features, full=True)
    variance = opened_variance(study.algorithm.event(facts, study.trust), facts, study.trust)
    noise = RoundNoise(variance, variance / method.config.curvature_weight**2)
    enough = study.algorithm.rounds >= LEAST_ROUNDS

    def refine(value: Any) -> Aware:
        window = value.window
        _, _, bend, rounds = _pooled(window)
        measured = beyond_noise(bend, noise.bend_variance / rounds)
        q = from_window(window, prior, noise, measured)
        return Aware(q, enough and converged(window, q, noise), measured)

    return refine


def full_natural(value: Any) -> Natural:
    """An answer's natural parameters in double precision, with a matrix of precisions."""
    precision = np.asarray(value.precision, float)
    full = precision if precision.ndim == 2 else np.diag(precision)
    return Natural(np.asarray(value.shift, float), full)


__all__ = [
    "FALSE_ALARM",
    "LEAST_ROUNDS",
    "Aware",
    "Refine",
    "RoundNoise",
    "aware_of_rounds",
    "aware_of_statistics",
    "converged",
    "from_statistics",
    "from_window",
    "full_natural",
    "observed",
    "opened_variance",
]
