"""Posteriors that know of the noise that privacy added.

A posterior that takes noisy statistics for exact ones is far too narrow. But the law of the noise
is public, so what was released is an ordinary measurement of the coefficients θ:

    y = H θ + e,   Cov e = R        posterior precision  P₀ + HᵀR⁻¹H,
                                    posterior shift      P₀ m₀ + HᵀR⁻¹y

It is post-processing and costs nothing. Where noise drowns the data HᵀR⁻¹H vanishes, and the
answer is the prior. Both measurements below hold to first order in the noise.

Regression   The release is S = Σ uuᵀ + N and s = Σ u t + n, so

    s = S θ + Σ u e + n - N θ,      R = σ_e² S + v (I + ½ (tr M · I + M)),   M = E[θ θᵀ]

with v the variance of one released number. N is symmetric with variance v on its diagonal and
v / 2 beside it, whence Cov(N θ) = v/2 (|θ|² I + θθᵀ); M follows by iteration.

Descent      Near its fixed point m̂ the noisy iteration of `pvi_natural_gradient` is linear, with
one scalar recursion per eigenvalue p of the precision P = P₀ + B:

    u' = μ u - p e + ξ,     e' = e + ρ u' / (p + λ),     e = m - m̂,  Var ξ = v

Its averaged answer is m₀ + a (m̂ - m₀) + Σ k_t ξ_t, with a < 1 where it did not arrive in time, and
m̂ - m₀ = P⁻¹ B (θ - m₀) + P⁻¹ N(0, B): again a measurement of θ.
"""

from typing import NamedTuple

import numpy as np

from unisono.core.algorithm import Facts
from unisono.core.events import Event
from unisono.core.kinds import Gaussian, Laplace
from unisono.core.trust import Trust
from unisono.errors import InvalidInput
from unisono.models.gaussian_family import Natural, covariance, mean, symmetric

_ITERATIONS = 50


def opened_variance(event: Event, facts: Facts, trust: Trust) -> float:
    """Variance of the noise in one number of the sum that is opened when every party answers."""
    match event.noise:
        case Gaussian(std=std):
            variance = std**2
        case Laplace(scale=scale):
            variance = 2 * scale**2
        case other:
            raise InvalidInput(f"the variance of {other!r} is not known here: noise_aware=False")
    copies = {Trust.LOCAL: facts.parties, Trust.SECURE_SUM: facts.parties / facts.honest}
    return variance * copies.get(trust, 1)


def observed(prior: Natural, H: np.ndarray, R: np.ndarray, y: np.ndarray) -> Natural:
    """The posterior after measuring y = H θ + N(0, R)."""
    weights = np.linalg.solve(R, H)
    return Natural(prior.shift + weights.T @ y, prior.precision + symmetric(H.T @ weights))


def from_statistics(answer: Natural, prior: Natural, noise_std: float, variance: float) -> Natural:
    """The posterior of a regression from its one release, as `one_shot_regression` answered."""
    S = noise_std**2 * symmetric(answer.precision - prior.precision)
    s = noise_std**2 * (answer.shift - prior.shift)
    eye, q = np.eye(len(s)), prior
    for _ in range(_ITERATIONS):
        moment = np.outer(mean(q), mean(q)) + covariance(q)
        from_noise = variance * (eye + (np.trace(moment) * eye + moment) / 2)
        q = observed(prior, S, noise_std**2 * S + from_noise, s)
    return q


class Descent(NamedTuple):
    """The public constants of an iteration, and the variance v of its noise."""

    rounds: int
    step: float
    momentum: float
    damping: float
    averaged: float
    variance: float


def from_descent(answer: Natural, prior: Natural, descent: Descent) -> Natural:
    """The posterior from the answer of `natural_gradient_pvi`; full precisions, prior ∝ I."""
    p, vectors = np.linalg.eigh(symmetric(answer.precision))
    bend = np.maximum(p - prior.precision[0, 0], 0.0)
    gain, noise = response(p, descent)
    start = mean(prior)
    H = (vectors * (gain * bend / p)) @ vectors.T
    R = (vectors * (gain**2 * bend / p**2 + descent.variance * noise)) @ vectors.T
    return observed(prior, H, R, mean(answer) - start + H @ start)


def response(p: np.ndarray, descent: Descent) -> tuple[np.ndarray, np.ndarray]:
    """Per eigenvalue: the part a of the way that was gone, and Σ k_t² of the noise.

    Column 0 follows a start at e = -1, column t + 1 a unit of noise in round t.
    """
    rounds = descent.rounds
    error, velocity = np.zeros((2, len(p), rounds + 1))
    error[:, 0] = -1.0
    total, late = np.zeros_like(error), int(rounds * (1 - descent.averaged))
    late = min(late, rounds - 1)
    for t in range(rounds):
        velocity = descent.momentum * velocity - p[:, None] * error
        velocity[:, t + 1] += 1.0
        error = error + descent.step / (p + descent.damping)[:, None] * velocity
        total += error if t >= late else 0.0
    total /= rounds - late
    return 1 + total[:, 0], (total[:, 1:] ** 2).sum(1)


__all__ = ["Descent", "from_descent", "from_statistics", "observed", "opened_variance", "response"]
