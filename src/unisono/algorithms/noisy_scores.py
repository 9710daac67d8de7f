"""From noisy scores to coefficients and their covariance: the step that knows of the noise.

At a public point θ, in coordinates in which rows are q = A z sqrt(v) of about unit covariance, a
round has released sums over n records, each with Gaussian noise of a known deviation:

    g = Σ w q (ψ - a)        sd s_g       gradient; in expectation H δ, δ the way to the truth
    H = Σ w b q qᵀ           sd s_h       curvature (off the diagonal s_h / sqrt 2)
    B = Σ w² (ψ - a)² q qᵀ   sd s_b       how gradients of single records scatter: the meat

The way solves g = H δ + what is not known about it, whose covariance is

    S = B + s_g² I + (s_h² / 2) (tr(M) I + M) + curving,     M = E[δ δᵀ] = δ δᵀ + V

the noise of H times an unknown way being noise too. With a weak prior N(d₀, L⁻¹) on δ

    V = (H S⁻¹ H + L)⁻¹,     δ = V (H S⁻¹ g + L d₀)

and S, V and δ depend on each other: a damped fixed point (after Avella-Medina, Bradshaw and Loh
2023, who count the noise of both sums in). Nothing is inverted that noise may have made singular.
V is a sandwich H⁻¹ S H⁻¹ where H is well measured, so errors may have any variance.

Noise drives the eigenvalues of H apart: where it is large, `denoised` takes that back, so that
directions are not lost whose curvature noise has pushed to zero, and others not trusted that it has
raised. What else is
left makes H S⁻¹ H too large by at most N = (s_h² / 2) (tr(S⁻¹) I + S⁻¹) on average, and δ too short
by V N δ (attenuation, as in regression with errors in the variables; Fuller 1987): its square is
counted in.

Curving: a Newton step is exact for lines only. Where it changes scores by τ deviations, the mean
curvature on the way differs from H by about τ / 2, so (τ² / 4) times half of (H δ)(H δ)ᵀ and half
of its trace, evenly, belong to S; late rounds make small steps, and it vanishes.

The meat is noisy too. It is drawn towards the multiple of H that the model expects, the more the
less it differs from it beyond noise (James and Stein 1961).

Everything here is post-processing of what was released. `xp` is NumPy, or JAX inside a run.
"""

import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from unisono.core.algorithm import Aggregate

# Iterations of fixed points, each halfway to the next value.
_ITERATIONS = 40
_LEAST = 1e-9
# Deviations of noise, below which a direction's curvature may be noise alone.
_WEAK = 4.0
_HERMITE, _HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_HERMITE_WEIGHTS = _HERMITE_WEIGHTS / _HERMITE_WEIGHTS.sum()


class Scored(NamedTuple):
    """What one round has released, and the deviations of its noise."""

    gradient: Any
    curvature: Any
    meat: Any
    s_gradient: Any
    s_curvature: Any
    s_meat: Any


class Step(NamedTuple):
    """The way δ (p,), its covariance (p, p), and what of it would be left without noise: the
    sandwich of the sample alone."""

    way: Any
    covariance: Any
    sampling: Any


def positive(xp: Any, matrix: Any) -> Any:
    """The nearest matrix without negative eigenvalues."""
    values, vectors = xp.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * xp.maximum(values, 0.0)) @ vectors.T


def denoised(xp: Any, curvature: Any, noise: Any) -> Any:
    """H without what noise does to its eigenvalues: it drives them apart, and turns their vectors.

    For H + E with Gaussian E (deviation s_h on the diagonal, s_h / sqrt 2 beside it) the best
    matrix that has the noisy eigenvectors u_i has the eigenvalues E[u_iᵀ H u_i], which are

        ξ_i = λ_i - s_h² Σ_{j ≠ i} (λ_i - λ_j) / ((λ_i - λ_j)² + η²),     η = s_h / 2

    (Ledoit and Péché 2011; Bun, Bouchaud and Potters 2017 for added noise); η tells eigenvalues
    apart that noise alone has parted. Small ones grow, and large ones shrink. None is negative.

    That is so on average over H. A small eigenvalue that noise could not have made so small is one
    of columns that say nearly the same, and must stay small: with r = s_h sqrt(2 p) over the mean
    eigenvalue, the reach of noise, nothing is taken back below r = 1/4, and all of it from 1/2 on.
    """
    p = len(curvature)
    values, vectors = xp.linalg.eigh((curvature + curvature.T) / 2)
    apart = values[:, None] - values
    pushed = xp.sum(apart / (apart**2 + noise**2 / 4), axis=1)
    reach = noise * math.sqrt(2 * p) / xp.maximum(xp.mean(values), 1e-9)
    part = xp.clip(4 * reach - 1, 0.0, 1.0)
    return (vectors * xp.maximum(values - part * noise**2 * pushed, 0.0)) @ vectors.T


def weak_directions(curvature: np.ndarray, noise: float) -> np.ndarray:
    """Directions (p, k) whose curvature is less than four deviations of its noise.

    A way there is g over a number that may be all noise, and intervals of such ratios are too short
    where they are bounded, whatever the estimator (Gleser and Hwang 1987; Dufour 1997). Their
    length does not show it: where noise raised the curvature most, they are the shortest.
    """
    values, vectors = np.linalg.eigh(denoised(np, curvature, noise))
    return np.asarray(vectors[:, values < _WEAK * noise])


def shrunk_meat(xp: Any, scored: Scored, curvature: Any) -> Any:
    """B, drawn towards the multiple of H that it is under the model."""
    p = len(scored.gradient)
    expected = xp.trace(scored.meat) + scored.s_meat * p**0.5  # the wider one, when in doubt
    ratio = xp.clip(expected / xp.maximum(xp.trace(curvature), _LEAST), 0.2, 25.0)
    apart = scored.meat - ratio * curvature
    noise = (scored.s_meat**2 + (ratio * scored.s_curvature) ** 2) * p * (p + 1) / 2
    kept = xp.maximum(0.0, 1 - noise / xp.maximum(xp.sum(apart * apart), _LEAST))
    return positive(xp, ratio * curvature + kept * apart)


def modelled_meat(xp: Any, scored: Scored, family: str) -> Scored:
    """Sums with the meat that the model has: E w² (ψ - a)² q qᵀ is no more than E w b q qᵀ, the
    curvature, for the binomial; for others a multiple of it, the mean square of residuals."""
    curvature, p = positive(xp, scored.curvature), len(scored.gradient)
    ratio = xp.asarray(1.0)
    if family != "binomial":
        seen = xp.trace(scored.meat) + scored.s_meat * p**0.5
        ratio = xp.clip(seen / xp.maximum(xp.trace(curvature), _LEAST), 0.2, 25.0)
    return scored._replace(meat=ratio * curvature, s_meat=0.0 * scored.s_meat)


def way_noise(
    xp: Any,
    scored: Scored,
    curvature: Any,
    meat: Any,
    way: Any,
    covariance: Any,
    largest: Any,
    curving: Any,
    bends: Any = None,
) -> Any:
    """S: the covariance of what is not known about a way, which is itself known to a covariance.
    `bends` (p, p) takes off directions in which it does not matter how far a step misses."""
    p = len(way)
    one = xp.eye(p)
    moment = xp.outer(way, way) + covariance
    moment = moment * xp.minimum(1.0, largest / xp.trace(moment))
    spread = xp.trace(moment) * one + moment
    whole = meat + scored.s_gradient**2 * one + scored.s_curvature**2 / 2 * spread
    way = way if bends is None else bends @ way
    moved = curvature @ way
    bent = xp.minimum(1.0, curving * (way @ moved) / 4)
    return whole + bent / 2 * (xp.outer(moved, moved) + (moved @ moved) / p * one)


def noise_aware_step(
    xp: Any,
    scored: Scored,
    prior: Any,
    prior_way: Any,
    largest: Any,
    curving: Any,
    loop: Callable[..., Any],
    bends: Any = None,
) -> Step:
    """The fixed point. `prior` is L (p, p), `prior_way` d₀ (p,), `largest` what E|δ|² cannot
    exceed, and `curving` the factor that makes δᵀHδ the square of τ; zero for lines. For `bends`
    see `way_noise`."""
    p = len(scored.gradient)
    one = xp.eye(p)
    curvature, gradient = denoised(xp, scored.curvature, scored.s_curvature), scored.gradient
    meat = shrunk_meat(xp, scored, curvature)
    pull = prior @ prior_way

    def again(state: tuple[Any, Any]) -> tuple[Any, Any, Any]:
        way, covariance = state
        whole = way_noise(xp, scored, curvature, meat, way, covariance, largest, curving, bends)
        known = xp.linalg.solve(whole, curvature).T
        found = xp.linalg.inv(known @ curvature + prior)
        return found @ (known @ gradient + pull), found, whole

    def halfway(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        new = again(state)
        return (state[0] + new[0]) / 2, (state[1] + new[1]) / 2

    start = (0.0 * gradient, xp.linalg.inv(prior))
    way, covariance, whole = again(loop(0, _ITERATIONS, halfway, start))
    # The square of a noisy H is too large by what noise adds to it, so the way is too short.
    known = xp.linalg.inv(whole)
    excess = scored.s_curvature**2 / 2 * (xp.trace(known) * one + known)
    short = covariance @ (excess @ way)
    covariance = covariance + xp.outer(short, short)
    inverse = xp.linalg.inv(curvature + prior)
    return Step(way, (covariance + covariance.T) / 2, inverse @ meat @ inverse)


def attenuation(
    xp: Any, chance: Any, spread: Any, variance: Any, loop: Callable[..., Any]
) -> tuple[Any, Any]:
    """How much a logistic step from the intercept alone falls short, and the intercept that goes
    with it: a slope there is the mean of v over all scores, which is less than v at their mean
    (Zeger, Liang and Albert 1988). Scores are taken for normal with this `spread` after the step.

    Returns the factor by which slopes grow and the score of the new intercept.
    """
    nodes, weights = xp.asarray(_HERMITE), xp.asarray(_HERMITE_WEIGHTS)

    def chances(middle: Any, deviation: Any) -> Any:
        return 1 / (1 + xp.exp(-xp.clip(middle + deviation * nodes, -30.0, 30.0)))

    def centred(deviation: Any, middle: Any) -> Any:
        def newton(_: Any, value: Any) -> Any:
            own = chances(value, deviation)
            slope = xp.maximum(weights @ (own * (1 - own)), 1e-3)
            return value + (chance - weights @ own) / slope

        return loop(0, 5, newton, middle)

    def again(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        factor, middle = state
        middle = centred(factor * spread, middle)
        own = chances(middle, factor * spread)
        wanted = xp.minimum(variance / (weights @ (own * (1 - own))), 1.8)
        return (factor + wanted) / 2, middle

    start = (xp.asarray(1.0), xp.log(chance / (1 - chance)))
    factor, middle = loop(0, 30, again, start)
    return factor, middle


def whitened(xp: Any, curvature: Any, noise: Any, records: Any) -> Any:
    """(H / n)^(-1/2), with eigenvalues no smaller than noise could make them."""
    p = len(curvature)
    values, vectors = xp.linalg.eigh((curvature + curvature.T) / (2 * records))
    least = xp.maximum(0.7 * noise * (2 * p) ** 0.5 / records, 1e-3)
    return (vectors / xp.sqrt(xp.maximum(values, least))) @ vectors.T


def arrays_of(state: Any) -> tuple[Any, Callable[..., Any]]:
    """NumPy and its loop, or JAX's where this is traced inside a compiled program."""
    jax = sys.modules.get("jax")  # nothing is traced where nobody has imported it
    if jax and any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(state)):
        return jax.numpy, jax.lax.fori_loop
    return np, numpy_loop


def with_round(xp: Any, state: Any, sums: Aggregate, weight: float) -> Any:
    """A state with what its round has asked and released: `points`, `sums` and `records` by
    rounds."""

    def placed(old: Any, new: Any) -> Any:
        here = xp.arange(len(old)) == state.round
        here = xp.reshape(here, (-1, *[1] * (old.ndim - 1)))
        return xp.where(here, xp.asarray(new, xp.float32), old)

    return state._replace(
        points=type(state.points)(*map(placed, state.points, state.point)),
        sums=placed(state.sums, sums.total / weight),
        records=placed(state.records, sums.records),
    )


def numpy_loop(begin: int, end: int, body: Callable[[Any, Any], Any], state: Any) -> Any:
    """`jax.lax.fori_loop`, for NumPy."""
    for number in range(begin, end):
        state = body(number, state)
    return state


__all__ = [
    "Scored",
    "Step",
    "arrays_of",
    "attenuation",
    "modelled_meat",
    "noise_aware_step",
    "numpy_loop",
    "positive",
    "shrunk_meat",
    "way_noise",
    "weak_directions",
    "whitened",
    "with_round",
]
