"""Preconditioned gradients: noisy full gradients in coordinates in which rows vary alike, for
classifiers whose probabilities mean something.

Rows are x = (u, 1), the features by their public bounds and a 1, as they are: nothing is divided by
a record's own length, so that scores β·x are those of the model that is named. An earlier stage has
released second moments M of rows (`row_moments`). With M = V diag(m) Vᵀ, τ about as large as the
noise of its eigenvalues, and r the usual length of a row,

    A = V diag(1 / sqrt(m + τ)) Vᵀ / r,    q = A x,    p* = Σ m / (m + τ),    C = sqrt(p*)

rows q have about unit covariance, but for directions in which they vary less than noise tells: how
correlated columns are, and which part of its public range one uses, hardly matters any more. At the
public point θ, with scores θ·q and the slope s of the loss in them, a record adds

    clip_c( w s ⊗ q / (C S) ),    w = min(1, C / |q|),    |s| <= S

The weight w is of x alone, so that it leaves the gradient's expectation zero at the truth (Mallows;
Künsch, Stefanski and Carroll 1989). The clip c <= 1 sees labels too: it cuts what surprises most,
which makes less noise and some bias, and is 1 where records outweigh the noise. T noisy sums then
are a descent with momentum m:

    v_{t+1} = m v_t + g_t,    θ_{t+1} = prox(θ_t - η v_{t+1}),    g_t = C S (sum + noise) / n

prox is that of the regulariser λ/2 ||β||², β = Aᵀ θ; the last iterates are averaged. The rounds
compose exactly as one Gaussian release (Dong, Roth and Su 2022).

Rules of public facts: with q̂ how far all records outweigh the noise (`descent.signal`)

    c = q̂ / 200 in [0.2, 1],    η = min((1 + m) / β_S,  a q̂ (1 - m) / (c S C T))

β_S the smoothness of the loss; the second keeps the noise that T rounds put into θ about `a` long.

**Probabilities.** Of two classes, the noise in θ makes scores too large, and so does the sample:
both are known well enough to be taken back (James and Stein 1961). A descent is linear near its
end: in a direction of curvature h it arrives at a share b(ηh) of the way, and noise of deviation
σ in a mean gradient becomes η² k(ηh) σ² of variance, where b and k are sums of its response to one
push. With h = 0.85 E[p (1 - p)], scores taken for normal, scores vary by T² and T² - N of it are
signal; scores around the middle of the records are multiplied by

    (1 - N / T²) / b,    N = Σ_i (m_i / (m_i + τ)) η² k_i σ² + b_i² / (n h)

That rests on a normal law of scores. What it leaves, and what weights and the clip cut, the last
10 % of the rounds mend: they release the same kind of gradients, but in the coordinates of two
numbers of the model itself, z = (s, 1) / C' with the centred score s = (β·x - mean) / deviation,

    Σ w (p - y) z,    p = 1 / (1 + exp(-(β·x + δ₁ s + δ₀))),    w = min(1, 1 / |z|),    C' = 2.5

times c, so that no label is clipped, and with the noise and the price of every other round. Their
root is the calibrated model (Cox 1958): a record further than 2.3 deviations from the mean counts
less, by its score alone. Newton steps of falling length, H for normal scores, lead there, drawn to
zero as far as the noise outweighs a usual error: (H + (σ² H⁻¹ + 1) / 0.3²)⁻¹.

All of it is post-processing of gradients. Constants of calibration were chosen on simulated tables
and on Adult. Others were chosen by how well Adult (its test file included), satimage, penbased and
designs 0, c and j of `benchmarks/inference_coverage.py` were predicted: figures on Adult and on
these two tables are not independent of them.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from unisono.accounting import gaussian
from unisono.algorithms.descent import Rounds, signal
from unisono.algorithms.noisy_scores import arrays_of
from unisono.algorithms.objectives import mean_of
from unisono.algorithms.row_moments import ROW_MOMENTS, moments_of
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.privacy import Privacy
from unisono.core.trust import Relation, Trust
from unisono.errors import InvalidInput
from unisono.problems.linear import ClassificationLoss
from unisono.releases.algorithm import (
    Algorithm,
    AlgorithmConfig,
    AlgorithmKind,
    Earlier,
    Records,
    UtilityLaw,
    rounded,
)
from unisono.releases.release import Priced, Release, copies
from unisono.releases.scaled_sum import ScaledSum

# Of the promise, the part that pays for moments; in squares of μ it is a twentieth.
MOMENTS_SHARE = 0.19
# A matrix of moments has features² / 2 numbers, each with noise: beyond so many features it costs
# more than it tells, in time, too.
MOST_FEATURES = 256
# How long the noise in θ may become: scores of several classes are longer together.
_NOISE_LENGTH = {"logistic": 2.5, "multinomial": 30.0, "huber-svm": 1.0}
# From so many standard deviations of noise on, nothing is clipped by labels.
_CLEAR, _LEAST_CLIP = 200.0, 0.2
_LEAST_VARIANCE = 1e-5
# The part of all curvature that is left by weights.
_WEIGHED = 0.85
_LEAST_FACTOR = 0.3
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
# Of all rounds, the part that calibrates, if there are so many; C'; a usual error of calibration;
# and the longest step.
_CALIBRATING, _LEAST_ROUNDS = 0.1, 40
_SCORE_NORM, _USUAL_ERROR, _LONGEST = 2.5, 0.3, 1.0


class PreconditionedGradientsConfig(AlgorithmConfig):
    """Rules of public facts fill in what is left out."""

    rounds: Rounds = Field(100, description="Noisy gradients in all; the budget covers them.")
    clipping_norm: float | None = Field(
        None, gt=0, le=1, description="The largest gradient of one record, over the longest (c)."
    )
    learning_rate: float | None = Field(
        None, gt=0, description="The longest step, times C; left out: a rule of public facts."
    )
    momentum: float = Field(0.8, ge=0, lt=1, description="How much of the last step is kept.")
    average_last: float = Field(
        0.5, ge=0, le=1, description="The last share of rounds whose iterates are averaged."
    )
    regularisation: float = Field(0.0, ge=0, description="λ: pulls weights towards zero.")
    least_variance: float | None = Field(
        None, gt=0, description="τ; left out: about the noise in eigenvalues of the moments."
    )


def resolve(
    config: PreconditionedGradientsConfig,
    problem: ClassificationLoss,
    facts: Facts,
    privacy: Privacy,
    trust: Trust,
) -> PreconditionedGradientsConfig:
    if privacy.pure:
        raise InvalidInput(
            "preconditioned-gradients with delta = 0: its noise is Gaussian; set delta, for "
            "example 1e-6, or choose output-perturbation"
        )
    quality = signal(facts, trust, privacy, problem.parameters(facts.features))
    clip = config.clipping_norm or rounded(min(max(quality / _CLEAR, _LEAST_CLIP), 1.0))
    length = _NOISE_LENGTH[problem.loss] * (1 - config.momentum)
    rate = length / (clip * problem.function.lipschitz * config.rounds) * quality
    rule = {
        "clipping_norm": clip,
        "learning_rate": rounded(rate),
        "least_variance": rounded(_variance_floor(facts, privacy, trust)),
    }
    said = {name: value for name, value in config if value is not None}
    return config.model_copy(update={**rule, **said})


def _variance_floor(facts: Facts, privacy: Privacy, trust: Trust) -> float:
    """About the noise in an eigenvalue of the mean of z zᵀ, by the share that the stage before
    has of the same promise."""
    part = privacy.epsilon * MOMENTS_SHARE / (1 - MOMENTS_SHARE)
    distance = math.sqrt(2) if privacy.relation is Relation.REPLACE_ONE else 1.0
    noise = distance * math.sqrt(copies(facts, trust)) / gaussian.mu_for(part, privacy.delta)
    least = 0.7 * noise * math.sqrt(2 * facts.features) / sum(facts.records)
    return max(least, _LEAST_VARIANCE)


def release(
    config: PreconditionedGradientsConfig, problem: ClassificationLoss, facts: Facts
) -> Release:
    assert config.clipping_norm is not None
    return Release(ScaledSum(config.clipping_norm, facts.features, problem.outputs), config.rounds)


# ------------------------------------------------------------- what is known, and what is asked


class Coordinates(NamedTuple):
    """What the moments told: A (p, p), C, η, the eigenvectors V of both (p, p), how far rows q vary
    along them (p,) and how far A stretches (p,), and A times the middle of the rows (p,)."""

    matrix: Any
    norm: Any
    rate: Any
    vectors: Any
    variances: Any
    stretch: Any
    middle: Any


class Asked(NamedTuple):
    """A / C and C θ: scores are those of θ, and rows are at most 1 long but for their weight; and
    how long a gradient may be at most, of 1."""

    matrix: Any
    parameters: Any
    share: Any


class PreconditionedState(NamedTuple):
    """The server's: coordinates, θ, velocity, running average of late iterates, round, the records
    of the last sum, and (δ₁, δ₀)."""

    coordinates: Coordinates
    parameters: Any
    velocity: Any
    average: Any
    round: Any
    records: Any
    moved: Any


class ScoreAxis(NamedTuple):
    """β (p,) for rows (u, 1), and the mean and deviation of the scores of usual records."""

    weights: Any
    mean: Any
    deviation: Any


def calibrating(config: PreconditionedGradientsConfig, problem: ClassificationLoss) -> int:
    """How many of the rounds, the last ones, calibrate."""
    apart = problem.loss == "logistic" and not config.regularisation
    return round(_CALIBRATING * config.rounds) if apart and config.rounds >= _LEAST_ROUNDS else 0


def coordinates_of(
    config: PreconditionedGradientsConfig, problem: ClassificationLoss, moments: np.ndarray
) -> Coordinates:
    assert config.learning_rate is not None
    assert config.least_variance is not None
    p = len(moments)
    values, vectors = np.linalg.eigh((moments + moments.T) / 2)
    kept = np.maximum(values, 0.0)
    corner = min(max(float(moments[-1, -1]), 1 / p), 1.0)  # 1 / r²
    stretch = np.sqrt(corner / (kept + config.least_variance))
    variances = kept / (kept + config.least_variance)
    norm = math.sqrt(max(float(variances.sum()), 1.0))
    mean = np.append(np.clip(moments[-1, :-1] / corner, -1.0, 1.0), 1.0)
    matrix = (vectors * stretch) @ vectors.T
    stable = (1 + config.momentum) / problem.function.smoothness
    rate = min(stable, config.learning_rate / norm)
    return Coordinates(matrix, norm, rate, vectors, variances, stretch, matrix @ mean)


def build(
    config: PreconditionedGradientsConfig,
    problem: ClassificationLoss,
    facts: Facts,
    priced: Priced,
) -> Algorithm:
    shape, largest = problem.shape(facts.features), problem.function.lipschitz
    last = calibrating(config, problem)
    descents = config.rounds - last
    late = int(descents * (1 - config.average_last))
    clip = config.clipping_norm or 1.0

    def begin(found: Any) -> tuple[PreconditionedState, None]:
        known = coordinates_of(config, problem, moments_of(facts.features, found))
        known = Coordinates(*(jnp.asarray(part, jnp.float32) for part in known))
        zero = jnp.zeros(shape, jnp.float32)
        first = (known, zero, zero, zero, jnp.int32(0), jnp.float32(1), jnp.zeros(2, jnp.float32))
        return PreconditionedState(*first), None

    def ask(state: PreconditionedState) -> Asked:
        xp, _ = arrays_of(state)
        if xp is np:  # nothing is compiled for a message
            state = jax.tree.map(np.asarray, state)
        known, asked = state.coordinates, None
        descent = Asked(known.matrix / known.norm, known.norm * state.parameters, 1.0)
        if last:
            axis = score_axis(xp, config, problem, state, priced.noise_std)
            asked = _asked_of_scores(xp, axis, state.moved, clip)
        here = state.round >= descents
        pairs = zip(descent if asked is None else asked, descent, strict=True)
        return Asked(*(xp.asarray(xp.where(here, *pair), xp.float32) for pair in pairs))

    def weighed(public: Asked, own: None, records: Records) -> tuple[None, Any]:
        features, labels = records.columns
        rows = jnp.matmul(features, public.matrix.T, precision="highest")
        lengths = jnp.sqrt(jnp.sum(rows * rows, axis=1))
        weights = public.share / (largest * jnp.maximum(lengths, 1.0))
        slopes = problem.coefficients(public.parameters, rows, labels)
        return own, (weights.reshape(-1, *[1] * (slopes.ndim - 1)) * slopes, rows)

    def merge(state: PreconditionedState, sums: Aggregate) -> PreconditionedState:
        known = state.coordinates
        mean = mean_of("pooled", facts, sums).reshape(shape)
        gradient = largest * known.norm * mean
        velocity = config.momentum * state.velocity + gradient
        moved = _pulled(config, known, state.parameters - known.rate * velocity)
        weight = jnp.where(state.round >= late, 1.0 / (state.round - late + 1), 0.0)
        average = state.average + weight * (moved - state.average)
        records = jnp.asarray(sums.records, jnp.float32)
        own = (moved, velocity, average, state.round + 1, records, state.moved)
        descended = PreconditionedState(known, *own)
        if not last:
            return descended
        axis = score_axis(jnp, config, problem, state, priced.noise_std)
        number, noise = state.round - descents, priced.noise_std * _SCORE_NORM / clip
        found = records * _SCORE_NORM / clip * mean[:2]
        point = _calibrated(axis, state.moved, found, noise / math.sqrt(last), records, number)
        calibrated = state._replace(moved=point, round=state.round + 1, records=records)
        here = state.round >= descents
        return jax.tree.map(lambda one, other: jnp.where(here, one, other), calibrated, descended)

    def result(state: PreconditionedState) -> Any:
        return weights_of(config, problem, state, priced.noise_std)

    return Algorithm(
        init=lambda: begin(None),
        begin=begin,
        ask=ask,
        local=weighed,
        merge=merge,
        result=result,
    )


def _pulled(config: PreconditionedGradientsConfig, known: Coordinates, point: Any) -> Any:
    """The proximal step of λ/2 ||Aᵀ θ||², stable for any λ: with momentum a step is 1 / (1 - m)
    times as long in the end, and so is the pull."""
    if not config.regularisation:
        return point
    pull = config.regularisation * known.rate / (1 - config.momentum) * known.stretch**2
    turned = known.vectors.T @ point
    return known.vectors @ (turned / (1 + pull).reshape(-1, *[1] * (point.ndim - 1)))


# ------------------------------------------------------------- the result


def weights_of(
    config: PreconditionedGradientsConfig,
    problem: ClassificationLoss,
    state: PreconditionedState,
    noise_std: float,
) -> np.ndarray:
    """β for rows (u, 1): (p,) or (p, classes), in single precision as other linear models'."""
    state = jax.tree.map(np.asarray, state)
    theta = state.average if config.average_last else state.parameters
    if problem.loss != "logistic" or config.regularisation or not int(state.round):
        return np.asarray(state.coordinates.matrix.T @ theta, np.float32)
    weights, mean, deviation = score_axis(np, config, problem, state, noise_std)
    factor = 1 + state.moved[0] / deviation
    weights = factor * weights
    weights[-1] += (1 - factor) * mean + state.moved[1]
    return np.asarray(weights, np.float32)


def score_axis(
    xp: Any,
    config: PreconditionedGradientsConfig,
    problem: ClassificationLoss,
    state: PreconditionedState,
    noise_std: float,
) -> ScoreAxis:
    """What the descent has found, without its noise's part of scores."""
    known = state.coordinates
    theta = state.average if config.average_last else state.parameters
    records = xp.maximum(state.records, 1.0)
    factor = signal_share(
        xp,
        config,
        known,
        theta,
        noise_std * known.norm / records,
        records,
        config.rounds - calibrating(config, problem),
    )
    mean = known.middle @ theta
    weights = factor * (known.matrix.T @ theta)
    weights = weights + (1 - factor) * mean * xp.eye(len(weights))[-1]
    deviation = factor * xp.sqrt(_spread(xp, known, theta))
    return ScoreAxis(weights, mean, xp.clip(deviation, 0.1, 10.0))


def _asked_of_scores(xp: Any, axis: ScoreAxis, moved: Any, clip: float) -> Asked:
    """A round in the coordinates (s, 1) / C'."""
    p = len(axis.weights)
    one = xp.eye(p)[-1]
    rows = xp.stack([(axis.weights - axis.mean * one) / axis.deviation, one]) / _SCORE_NORM
    point = _SCORE_NORM * xp.stack([axis.deviation + moved[0], axis.mean + moved[1]])
    rest = xp.zeros(p - 2)
    matrix = xp.concatenate([rows, xp.zeros((p - 2, p))])
    return Asked(matrix, xp.concatenate([point, rest]), clip)


def _calibrated(
    axis: ScoreAxis, moved: Any, gradient: Any, noise: Any, records: Any, number: Any
) -> Any:
    """(δ₁, δ₀) after a step; `noise` is that of the mean of all gradients of calibration."""
    scores = axis.mean + moved[1] + (axis.deviation + moved[0]) * _NODES
    chances = 1 / (1 + jnp.exp(-jnp.clip(scores, -30.0, 30.0)))
    row = np.stack([_NODES, np.ones_like(_NODES)])
    weighed = _WEIGHTS * np.minimum(1.0, _SCORE_NORM / np.linalg.norm(row, axis=0))
    curvature = records * (row * (weighed * jnp.maximum(chances * (1 - chances), 1e-4))) @ row.T
    pull = (noise**2 * jnp.linalg.inv(curvature) + jnp.eye(2)) / _USUAL_ERROR**2
    step = jnp.linalg.solve(curvature + pull, gradient + pull @ moved)
    step = 2 / (jnp.maximum(number, 0) + 2) * jnp.clip(step, -_LONGEST, _LONGEST)
    return moved - step


def _spread(xp: Any, known: Coordinates, theta: Any) -> Any:
    """By how much scores of usual records vary."""
    towards = known.middle / xp.maximum(xp.linalg.norm(known.middle), 1e-9)
    slopes = known.vectors.T @ (theta - towards * (towards @ theta))
    return xp.maximum(slopes**2 @ known.variances, 1e-9)


def signal_share(
    xp: Any,
    config: PreconditionedGradientsConfig,
    known: Coordinates,
    theta: Any,
    sigma: Any,
    records: Any,
    rounds: int,
) -> Any:
    """By how much scores around the middle are multiplied, so that they are neither too large by
    the noise nor too small where the descent of so many rounds did not arrive."""
    spread = _spread(xp, known, theta)
    scores = known.middle @ theta + xp.sqrt(spread) * _NODES
    chances = 1 / (1 + xp.exp(-xp.clip(scores, -30.0, 30.0)))
    curvature = _WEIGHED * xp.maximum(_WEIGHTS @ (chances * (1 - chances)), 1e-4)
    grid, gains, arrivals = _response(rounds, config.momentum, config.average_last)
    place = xp.log(xp.clip(known.rate * curvature * known.variances, grid[0], grid[-1]))
    gain, arrival = (xp.interp(place, np.log(grid), part) for part in (gains, arrivals))
    noise = (known.variances * gain).sum() * (known.rate * sigma) ** 2
    sampling = (arrival**2).sum() / (xp.maximum(records, 1.0) * curvature)
    others = (noise + sampling) * (1 - 1 / len(theta))  # one direction is the intercept's
    arrived = xp.clip(arrival.max(), _LEAST_FACTOR, 1.0)
    return xp.maximum(1 - others / spread, _LEAST_FACTOR) / arrived


@lru_cache(maxsize=32)
def _response(
    rounds: int, momentum: float, average_last: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For ηh on a grid: k, the sum of squares of what a unit push in each round leaves in the
    result, and b, the share of a way that constant pushes arrive at."""
    grid = np.geomspace(1e-7, 1.9 * (1 + momentum), 80)
    point, velocity = np.zeros_like(grid), np.zeros_like(grid)
    left = np.zeros((rounds + 1, len(grid)))  # running sums of what a push leaves, by its age
    for age in range(rounds):
        velocity = momentum * velocity + grid * point - (age == 0)
        point = point - velocity
        left[age + 1] = left[age] + point
    late = min(int(rounds * (1 - average_last)), rounds - 1) if average_last else rounds - 1
    ages = np.arange(rounds, 0, -1)  # at the end, of pushes in round 0, 1, ...
    younger = np.maximum(ages - (rounds - late), 0)
    effect = (left[ages] - left[younger]) / (rounds - late)
    return grid, (effect**2).sum(axis=0), grid * effect.sum(axis=0)


def earlier(config: PreconditionedGradientsConfig, problem: ClassificationLoss) -> Earlier | None:
    return Earlier(ROW_MOMENTS, MOMENTS_SHARE)


PRECONDITIONED_GRADIENTS = AlgorithmKind(
    "preconditioned-gradients",
    "noisy full gradients where columns vary alike, for probabilities that mean something",
    PreconditionedGradientsConfig,
    ClassificationLoss,
    release,
    build,
    resolve,
    unit_rows=False,
    sends="noisy second moments, then noisy sums of all records' gradients",
    # Those of gradient perturbation, not fitted anew.
    laws={"classification": UtilityLaw(2.58, 1.06, 2.29, 1.92)},
    earlier=earlier,
    weighs=True,
)

__all__ = [
    "MOST_FEATURES",
    "PRECONDITIONED_GRADIENTS",
    "PreconditionedGradientsConfig",
    "calibrating",
    "signal_share",
]
