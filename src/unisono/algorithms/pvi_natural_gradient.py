"""Partitioned inference by noisy natural gradients: one bounded sum per round, no party state.

The posterior q(θ) = N(m, P⁻¹) is the prior times one factor per party. A natural-gradient step of
a party's factor needs two sums over its records, the slopes and bends of the expected
log-likelihood under the present q:

    G = Σ g x,   B = Σ h x xᵀ (or x² for a diagonal q),   g = E_q[l'(x·θ)],  h = -E_q[l''(x·θ)]

and moves the factor towards exp(θ·(G + B m) - ½ θᵀBθ) by a fraction ρ. Only the *product* of all
factors enters q, so the sums over all parties suffice and no factor is stored (Ashman et al. 2022).
Per round the parties release one clipped, noisy sum,

    (G_t, κ B_t) = Σ over all records of clip_C(g x, κ h x xᵀ)  +  N(0, σ² I)

and the rest is post-processing, the prior included (its P₀, m₀ are public):

    B̄_t     = β_t B̄_{t-1} + (1 - β_t) B_t                 the bend, averaged against noise
    P_t     = P₀ + B̄_t                                    raised to its floor, and flagged
    u_{t+1} = μ u_t + G_t - P₀ (m_t - m₀)                  momentum
    m_{t+1} = m_t + ρ (P_t + λ I)⁻¹ u_{t+1}                λ keeps noise small where P_t is

Precisions are raised after the sum: raised per party, they would be biased upwards.

With ρ = 1, μ = λ = 0 one round of a linear likelihood gives the exact posterior; at any fixed
point q is the optimum of (clipped) variational inference, whatever ρ, μ and λ are. Likelihoods that
are no function of a score are sampled with public normals, and bend = slope² (Gauss-Newton).

The last part of the rounds, `average_last`, is a *window*: it also keeps, in two halves, what every
round measured, G_t at m_t and B_t. From these `algorithms.noise_aware` computes a posterior that
knows of the noise, and whether the rounds agree with each other, whatever path the iterates took.

The damping λ, where it is left out, is a rule of the public noise: with s the noise in a number of
one opened sum over all n records, λ = `noise_damping` · s / sqrt(T). Where the data say less than
the noise, steps shrink; without noise λ vanishes.

For intervals of coefficients two settings matter. `at_mode` takes slopes and bends at the mean of q
instead of their expectations (Laplace's approximation), so that the fixed point is the posterior's
mode; a wide q, such as a weak prior, does not flatten the slopes. `weighted_rows` multiplies a
record by min(1, C / c(x)), c(x) the largest norm that a row x can give with either label, so that
nothing is left to clip: a weight of x alone leaves the expected slope zero at the true θ, where
clipping, which also looks at the label, moves it.

Privacy: unit one record; Gaussian noise for sensitivity C (add-or-remove, zero-out) or 2 C
(replace-one), T releases composed exactly, or with `sampling_rate` < 1 Poisson-sampled by a mask
that each party keeps secret. Viewers: everyone, by the trust of the run.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from pydantic import Field

from unisono.algorithms.descent import Rounds
from unisono.algorithms.noise_aware import aware_of_rounds
from unisono.algorithms.posterior import PosteriorConfig, PublicPosterior, start_of
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.events import Everyone, Poisson
from unisono.errors import InvalidInput
from unisono.problems.bayesian import BayesianProblem
from unisono.problems.gaussian_family import Natural, mean, pack, packed_size, project, unpack
from unisono.problems.likelihoods import (
    Likelihood,
    expected_gradients,
    score_slopes,
    usual_error,
)
from unisono.releases.algorithm import Algorithm, AlgorithmKind, RowScale, rounded
from unisono.releases.bounds import ClippedSum
from unisono.releases.release import Priced, Release


class NaturalGradientConfig(PosteriorConfig):
    """What the parties agree on about the steps."""

    rounds: Rounds = Field(15, description="Noisy sums in all; the budget covers them.")
    clipping_norm: float = Field(
        0.6, gt=0, description="The largest norm of one record's slope and weighted bend."
    )
    curvature_weight: float = Field(
        2.0, gt=0, description="Weighs a record's bend against its slope before both are clipped."
    )
    learning_rate: float = Field(0.12, gt=0, description="The part of a Newton step that is taken.")
    momentum: float = Field(0.7, ge=0, lt=1, description="How much of the last step is kept.")
    damping: float | None = Field(
        None, ge=0, description="Added to precisions in steps; left out: a rule of public noise."
    )
    noise_damping: float = Field(
        6.0, ge=0, description="Damping that is left out, over the noise of an average of rounds."
    )
    memory: float = Field(0.8, ge=0, lt=1, description="How much of the averaged bend is kept.")
    average_last: float = Field(
        0.2, ge=0, le=1, description="The last share of rounds that is averaged, and the window."
    )
    full_covariance: bool = Field(
        False, description="A full covariance: d (d + 1) / 2 bends at the sensitivity of d."
    )
    at_mode: bool = Field(False, description="Slopes and bends at the mean of q, for intervals.")
    weighted_rows: bool = Field(
        False, description="Long rows are weighted down instead of clipped, for intervals."
    )
    sampling_rate: float = Field(
        1.0, gt=0, le=1, description="A record's chance to take part in a round."
    )
    samples: int = Field(
        1, gt=0, description="Public draws per round, for likelihoods without a score."
    )
    spread: float = Field(
        0.0, ge=0, description="Scatters the starting mean publicly, as networks need."
    )


class Window(NamedTuple):
    """What late rounds measured, averaged over the earlier and the later half of them: means m_t
    (2, d), slopes G_t (2, d) at these means and bends B_t (2, d) or (2, d, d), of the parties that
    answered. `rounds` (2,) counts; the first half of a single round is empty."""

    means: Any
    slopes: Any
    bends: Any
    rounds: Any


class WindowedAnswer(NamedTuple):
    """A `PosteriorAnswer`, and the window from which a posterior that knows of the noise is
    computed."""

    shift: Any
    precision: Any
    floored: Any
    window: Window

    @property
    def natural(self) -> Natural:
        return Natural(self.shift, self.precision)


class NaturalGradientState(NamedTuple):
    """The server's: mean, velocity, averaged bend, late average of means, the window, the round."""

    mean: Any
    velocity: Any
    bend: Any
    average: Any
    window: Window
    round: Any


def release(config: NaturalGradientConfig, problem: BayesianProblem, facts: Facts) -> Release:
    likelihood, rate = problem.likelihood, config.sampling_rate
    _require_usable(config, likelihood)
    size = packed_size(likelihood.size(facts.features), config.full_covariance)
    return Release(
        ClippedSum(config.clipping_norm, size),
        config.rounds,
        Poisson(rate) if rate < 1 else Everyone(),
    )


def build(
    config: NaturalGradientConfig, problem: BayesianProblem, facts: Facts, priced: Priced
) -> Algorithm:
    likelihood, full = problem.likelihood, config.full_covariance
    start = start_of(problem, likelihood.size(facts.features), full)
    size, rate, records = len(start.shift), config.sampling_rate, jnp.float32(sum(facts.records))
    damping = damping_of(config, priced)

    def posterior(state: NaturalGradientState, centre: Any) -> tuple[Natural, Any]:
        """q with this mean, and how many directions of its precision were raised."""
        raw = Natural(centre, start.precision + state.bend)
        fixed, floored = project(raw, config.floor(problem))
        return Natural(_times(fixed.precision, centre), fixed.precision), floored

    def init() -> tuple[NaturalGradientState, None]:
        scatter = jax.random.normal(_public_key(config, -1), start.shift.shape)
        centre = mean(start) + config.spread * scatter
        nowhere, unbent = (jnp.stack([0 * part] * 2) for part in (centre, start.precision))
        window = Window(nowhere, nowhere, unbent, jnp.zeros(2))
        state = NaturalGradientState(
            centre, 0 * centre, 0 * start.precision, centre, window, jnp.int32(0)
        )
        return state, None

    def merge(state: NaturalGradientState, sums: Aggregate) -> NaturalGradientState:
        # Where parties are missing, those that came stand for them, by public sizes.
        found = unpack(sums.total * (records / (rate * sums.records)), size, full)
        seen = unpack(sums.total / rate, size, full)
        window = _observed(config, state, seen.shift, seen.precision / config.curvature_weight)
        beta = jnp.minimum(config.memory, state.round / (state.round + 1.0))
        fresh = found.precision / config.curvature_weight
        state = state._replace(bend=beta * state.bend + (1 - beta) * fresh)
        pull = _times(start.precision, state.mean) - start.shift
        velocity = config.momentum * state.velocity + found.shift - pull
        precision = posterior(state, state.mean)[0].precision
        ridge = damping * (jnp.eye(size) if full else 1.0)
        centre = state.mean + config.learning_rate * mean(Natural(velocity, precision + ridge))
        first = int(config.rounds * (1 - config.average_last))
        weight = jnp.where(state.round >= first, 1.0 / (state.round - first + 1), 1.0)
        average = state.average + weight * (centre - state.average)
        return state._replace(
            mean=centre, velocity=velocity, average=average, window=window, round=state.round + 1
        )

    def result(state: NaturalGradientState) -> WindowedAnswer:
        q, floored = posterior(state, state.average if config.average_last else state.mean)
        return WindowedAnswer(q.shift, q.precision, floored, state.window)

    return Algorithm(
        init=init,
        ask=lambda state: PublicPosterior(posterior(state, state.mean)[0], state.round),
        local=lambda public, own, records: (
            own,
            record_statistics(config, likelihood, public, *records.columns),
        ),
        merge=merge,
        result=result,
    )


def damping_of(config: NaturalGradientConfig, priced: Priced) -> float:
    """λ: as given, or in proportion to the noise in the average of all rounds' opened sums."""
    if config.damping is not None:
        return config.damping
    one_round = priced.noise_std / config.sampling_rate
    return rounded(config.noise_damping * one_round / math.sqrt(config.rounds))


def _observed(
    config: NaturalGradientConfig, state: NaturalGradientState, slope: Any, bend: Any
) -> Window:
    """The window after this round, which belongs to one of its halves once it is late."""
    late = min(int(config.rounds * (1 - config.average_last)), config.rounds - 1)
    half = jnp.int32(state.round >= late + (config.rounds - late) // 2)
    counts = state.window.rounds.at[half].add(jnp.where(state.round >= late, 1.0, 0.0))
    weight = jnp.where(state.round >= late, 1.0 / jnp.maximum(counts[half], 1.0), 0.0)
    fresh = Window(state.mean, slope, bend, 0.0)
    means, slopes, bends = (
        old.at[half].add(weight * (new - old[half]))
        for old, new in zip(state.window[:3], fresh[:3], strict=True)
    )
    return Window(means, slopes, bends, counts)


# ------------------------------------------------------------- what a record adds


def record_statistics(
    config: NaturalGradientConfig,
    likelihood: Likelihood,
    public: PublicPosterior,
    rows: Any,
    labels: Any,
) -> Any:
    """Per record, slope and κ · bend in one vector: (n, packed size)."""
    if likelihood.scores is None:
        shape = (config.samples, public.q.shift.shape[0])
        normals = jax.random.normal(_public_key(config, public.round), shape)
        slopes, _ = expected_gradients(likelihood, public.q, rows, labels, normals)
        bends = slopes * slopes
    else:
        slope, bend = _slopes(config, likelihood, public.q, rows, labels)
        slopes = slope[:, None] * rows
        squares = rows[:, :, None] * rows[:, None, :] if config.full_covariance else rows * rows
        bends = bend.reshape(-1, *[1] * (squares.ndim - 1)) * squares
    packed = jax.vmap(pack)(Natural(slopes, config.curvature_weight * bends))
    if not config.weighted_rows:
        return packed
    reach = row_norms(likelihood, config.curvature_weight, jnp.linalg.norm(rows, axis=1))
    return packed * jnp.minimum(1.0, config.clipping_norm / reach)[:, None]


def _slopes(
    config: NaturalGradientConfig, likelihood: Likelihood, q: Natural, rows: Any, labels: Any
) -> tuple[Any, Any]:
    """Slope and bend of every record, at the mean of q or expected under it."""
    if config.at_mode:
        assert likelihood.scores is not None
        _, slope, bend = likelihood.scores(rows @ mean(q), labels)
        return slope, -bend
    found = score_slopes(likelihood, q, rows, labels)
    return found.slope, found.bend


def row_norms(likelihood: Likelihood, curvature_weight: float, lengths: Any) -> Any:
    """The largest norm of (g x, κ h xxᵀ) over labels, for rows of these lengths."""
    bends = curvature_weight * likelihood.bend_bound * lengths
    return lengths * (largest_slope(likelihood) ** 2 + bends**2) ** 0.5


def largest_slope(likelihood: Likelihood) -> float:
    """The bound of |l'|. Slopes of the probit have none; at most one label in 18 passes 2 (where
    the score is 1.6 on the wrong side), and these are clipped."""
    return min(likelihood.slope_bound, 2.0)


def for_intervals(
    likelihood: Likelihood, square: float, clipping_norm: float | None = None
) -> dict[str, Any]:
    """The settings with which intervals of coefficients cover, for rows (u, 1) with |u|² about
    `square`.

    Newton steps to the mode with a full covariance, damped by the noise; the later five eighths of
    the rounds make the window. Rows longer than three quarters of the usual length are weighted
    down, which costs a tenth of precision and saves a quarter of noise; of the squared clipping
    norm, slopes and bends have half each. From zero Newton's method is near the mode after four
    steps, unless classes are nearly separate: with 12 rounds the window begins there, and more
    rounds cost next to nothing, since the window averages their noise. `algorithms.noise_aware`
    checks convergence.
    """
    slope, length = largest_slope(likelihood), 0.75 * math.sqrt(1 + square)
    usual = rounded(math.sqrt(2) * slope * length)
    return {
        "clipping_norm": usual if clipping_norm is None else clipping_norm,
        "curvature_weight": rounded(slope / (likelihood.bend_bound * length)),
        "full_covariance": True,
        "at_mode": True,
        "weighted_rows": True,
        "learning_rate": 1.0,
        "momentum": 0.0,
        "memory": 0.5,
        "average_last": 0.625,
        "damping": None,
        "noise_damping": 2.0,
    }


def suggest(problem: BayesianProblem, rows: RowScale) -> dict[str, Any]:
    """Newton steps for a line with normal errors, whose bends are the same everywhere: the first
    arrives, and the rest of the rounds averages noise.

    Of the squared clipping norm slopes and bends have half each, for rows of the usual length and
    errors of up to twice the spread of the targets, or half of their range (which is 1). Longer
    ones are clipped. Errors are as likely above the line as below it, and so clipping does not move
    the mode.
    """
    likelihood = problem.likelihood
    if not likelihood.exact:
        return {}
    error = usual_error(likelihood)
    return {
        "rounds": 12,
        "clipping_norm": rounded(math.sqrt(2) * likelihood.bend_bound * error * rows.length),
        "curvature_weight": rounded(error / rows.length),
        "full_covariance": True,
        "learning_rate": 1.0,
        "momentum": 0.0,
        "memory": 0.5,
        "average_last": 0.625,
        "noise_damping": 2.0,
    }


def _require_usable(config: NaturalGradientConfig, likelihood: Likelihood) -> None:
    if config.full_covariance and likelihood.scores is None:
        raise InvalidInput(
            f"the likelihood {likelihood.name!r} is sampled, which needs a diagonal q: "
            "set full_covariance = False"
        )
    special = config.weighted_rows or config.at_mode
    if special and (likelihood.scores is None or likelihood.exact):
        raise InvalidInput(
            f"weighted_rows = {config.weighted_rows}, at_mode = {config.at_mode} with the "
            f"likelihood {likelihood.name!r}: both are for the logistic and the probit; leave them "
            "out"
        )


def _public_key(config: NaturalGradientConfig, round_number: Any) -> Any:
    return jax.random.fold_in(jax.random.key(config.seed), round_number + 1)


def _times(precision: Any, vector: Any) -> Any:
    return precision @ vector if precision.ndim == 2 else precision * vector


NATURAL_GRADIENT = AlgorithmKind(
    "pvi-natural-gradient",
    "a posterior by noisy Newton steps, for any likelihood",
    NaturalGradientConfig,
    BayesianProblem,
    release,
    build,
    sends="noisy sums of all records' gradients and curvatures",
    unit_rows=False,
    noise_aware=aware_of_rounds,
    suggest=suggest,
)
