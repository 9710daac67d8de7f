"""Partitioned inference by noisy natural gradients: one bounded sum per round, no party state.

The posterior q(θ) = N(m, P⁻¹) is the prior times one factor per party. A natural-gradient step of
a party's factor needs two sums over its records, the slopes and bends of the expected
log-likelihood under the present q:

    G = Σ g x,   B = Σ h x xᵀ (or x² for a diagonal q),   g = E_q[l'(x·θ)],  h = -E_q[l''(x·θ)]

and moves the factor towards exp(θ·(G + B m) - ½ θᵀBθ) by a fraction ρ. Only the *product* of all
factors enters q, so the sums over all parties suffice and no factor is stored (003 eq. 2.17).
Per round the parties release one clipped, noisy sum,

    (G_t, κ B_t) = Σ over all records of clip_C(g x, κ h x xᵀ)  +  N(0, σ² I)

and the rest is post-processing, the prior included (its P₀, m₀ are public):

    B̄_t     = β_t B̄_{t-1} + (1 - β_t) B_t                 the bend, averaged against noise
    P_t     = P₀ + B̄_t, raised to its floor and flagged (after the sum, never per party, E003-22)
    u_{t+1} = μ u_t + G_t - P₀ (m_t - m₀)                  momentum
    m_{t+1} = m_t + ρ (P_t + λ I)⁻¹ u_{t+1}                λ keeps noise small where P_t is

With ρ = 1, μ = λ = 0 one round of a linear likelihood gives the exact posterior; at any fixed
point q is the optimum of (clipped) variational inference, whatever ρ, μ and λ are. Likelihoods that
are no function of a score are sampled with public normals, and bend = slope² (Gauss-Newton).

The last part of the rounds, `averaged`, is a *window*: it also keeps, in two halves, what every
round measured, G_t at m_t and B_t. From these `estimators.noise_aware` computes a posterior that
knows of the noise, and whether the rounds agree with each other, whatever path the iterates took.

For intervals of coefficients two settings matter. `laplace` takes slopes and bends at the mean of q
instead of their expectations, so that the fixed point is the posterior's mode; a wide q, such as a
weak prior, does not flatten the slopes. `weighted` multiplies a record by min(1, C / c(x)), c(x)
the largest norm that a row x can give with either label, so that nothing is left to clip: a weight
of x alone leaves the expected slope zero at the true θ, where clipping, which also looks at the
label, moves it.

Privacy: unit one record, `relation` says which adjacency; the Gaussian mechanism of sensitivity
C (add-or-remove) or 2 C (replace-one), `rounds` releases composed exactly, or with `rate` < 1
Poisson-sampled by coins that each party keeps secret. Viewers: everyone, by the trust of the run.
"""

import math
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from unisono.algorithms.posterior import (
    PriorSettings,
    own_epsilon,
    positive_epsilons,
    start_of,
)
from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.defaults import RELATION
from unisono.core.events import Event, Everyone, Gaussian, Poisson, positive
from unisono.core.trust import Relation, Trust
from unisono.core.values import Contribution, clipped_sum, sum_sensitivity
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import calibrate
from unisono.problems.gaussian_family import Natural, mean, pack, packed_size, project, unpack
from unisono.problems.likelihoods import Likelihood, expected_gradients, score_slopes
from unisono.releases.bounds import power_of_two_step as choose_grid


@dataclass(frozen=True)
class Settings(PriorSettings):
    """What the parties agree on; `epsilon` and `delta` hold for the whole run.

    `step` is ρ, `momentum` μ, `damping` λ, `bend_weight` κ and `memory` the largest β_t.
    `averaged` is the last part of the rounds whose means are averaged, and the window; 0 takes the
    last one.
    `laplace` and `weighted` are for intervals, as the module says.
    `full` asks for a full covariance: d (d + 1) / 2 bends instead of d, at the same sensitivity.
    `spread` scatters the starting mean (public normals), which networks need. `epsilons` gives
    every party its own, under trust LOCAL.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    rounds: int = 15
    clip: float = 0.6
    bend_weight: float = 2.0
    step: float = 0.12
    momentum: float = 0.7
    damping: float = 0.0
    memory: float = 0.8
    averaged: float = 0.2
    full: bool = False
    laplace: bool = False
    weighted: bool = False
    rate: float = 1.0
    samples: int = 1
    spread: float = 0.0
    relation: Relation = RELATION
    epsilons: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(
            epsilon=self.epsilon, delta=self.delta, rounds=self.rounds, clip=self.clip,
            bend_weight=self.bend_weight, step=self.step, rate=self.rate, samples=self.samples,
        )  # fmt: skip
        positive_epsilons(self.epsilons)
        fractions = {"momentum": self.momentum, "memory": self.memory}
        for name, value in fractions.items():
            if not 0 <= value < 1:
                raise InvalidInput(f"{name} = {value!r}: it lies in [0, 1), 0 switches it off")
        if self.delta >= 1 or self.rate > 1 or not 0 <= self.averaged <= 1:
            raise InvalidInput(
                f"delta = {self.delta!r}, rate = {self.rate!r}, averaged = {self.averaged!r}: "
                "delta lies below 1, rate in (0, 1] and averaged in [0, 1]"
            )
        if not all(math.isfinite(value) and value >= 0 for value in (self.damping, self.spread)):
            raise InvalidInput(
                f"damping = {self.damping!r}, spread = {self.spread!r}: both are finite numbers, "
                "zero or above"
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
    """An `Answer`, and the window from which a posterior that knows of the noise is computed."""

    shift: Any
    precision: Any
    floored: Any
    window: Window

    @property
    def natural(self) -> Natural:
        return Natural(self.shift, self.precision)


class State(NamedTuple):
    """The server's: mean, velocity, averaged bend, late average of means, the window, the round;
    and how many records the study has."""

    mean: Any
    velocity: Any
    bend: Any
    average: Any
    window: Window
    round: Any
    records: Any


class Public(NamedTuple):
    """What everybody sees in a round; the round seeds the public samples."""

    q: Natural
    round: Any


def natural_gradient_pvi(settings: Settings, likelihood: Likelihood) -> Algorithm:
    """The algorithm for a likelihood, with noise calibrated exactly; every trust."""
    full = settings.full
    if full and likelihood.scores is None:
        raise InvalidInput(
            f"the likelihood {likelihood.name!r} is sampled, which needs a diagonal q: "
            "set full = False"
        )
    if (settings.weighted or settings.laplace) and (likelihood.scores is None or likelihood.exact):
        raise InvalidInput(
            f"weighted = {settings.weighted}, laplace = {settings.laplace} with the likelihood "
            f"{likelihood.name!r}: both are for the logistic and the probit; leave them out"
        )
    late = min(int(settings.rounds * (1 - settings.averaged)), settings.rounds - 1)

    def dimension(facts: Facts) -> int:
        return packed_size(likelihood.size(facts.features), full)

    def grid(facts: Facts, trust: Trust | None = None) -> float:
        return choose_grid(settings.clip, dimension(facts), sum(facts.records))

    @lru_cache(maxsize=1024)
    def priced(facts: Facts, trust: Trust, epsilon: float) -> Event:
        size, step = dimension(facts), grid(facts)
        return calibrate(
            sum_sensitivity(settings.clip, step, size, hides_presence=not facts.exact_sizes),
            settings.relation, epsilon, settings.delta, count=facts.attempts(settings.rounds),
            sampler=Poisson(settings.rate) if settings.rate < 1 else Everyone(),
            dimension=size, grid=step,
            shares=facts.honest if trust is Trust.SECURE_SUM else 1,
        )  # fmt: skip

    def event(facts: Facts, trust: Trust) -> Event:
        return priced(facts, trust, settings.epsilon)

    def own_event(facts: Facts, trust: Trust, party: int) -> Event:
        return priced(facts, trust, own_epsilon(settings.epsilons, facts.parties, party))

    def prior_of(state: State) -> Natural:
        return start_of(settings, state.mean.shape[0], full)

    def posterior(state: State, centre: Any) -> tuple[Natural, Any]:
        """q with this mean, and how many directions of its precision were raised."""
        raw = Natural(centre, prior_of(state).precision + state.bend)
        fixed, floored = project(raw, settings.floor)
        return Natural(_times(fixed.precision, centre), fixed.precision), floored

    def init(facts: Facts) -> tuple[State, None]:
        start = start_of(settings, likelihood.size(facts.features), full)
        scatter = jax.random.normal(_public_key(settings, -1), start.shift.shape)
        centre = mean(start) + settings.spread * scatter
        records = jnp.float32(sum(facts.records))
        nowhere, unbent = (jnp.stack([0 * part] * 2) for part in (centre, start.precision))
        window = Window(nowhere, nowhere, unbent, jnp.zeros(2))
        state = State(
            centre, 0 * centre, 0 * start.precision, centre, window, jnp.int32(0), records
        )
        return state, None

    def local(
        facts: Facts, public: Public, party: None, data: Any, mask: Any
    ) -> tuple[None, Contribution]:
        rows = _statistics(settings, likelihood, public, *data)
        return party, clipped_sum(rows, settings.clip, grid(facts), mask, not facts.exact_sizes)

    def merge(state: State, aggregate: Aggregate) -> State:
        # Where parties are missing, those that came stand for them, by public sizes.
        whole = state.records / (settings.rate * aggregate.records)
        found = unpack(aggregate.total * whole, state.mean.shape[0], full)
        seen = unpack(aggregate.total / settings.rate, state.mean.shape[0], full)
        window = _observed(state, seen.shift, seen.precision / settings.bend_weight)
        beta = jnp.minimum(settings.memory, state.round / (state.round + 1.0))
        fresh = found.precision / settings.bend_weight
        state = state._replace(bend=beta * state.bend + (1 - beta) * fresh)
        prior = prior_of(state)
        pull = _times(prior.precision, state.mean) - prior.shift
        velocity = settings.momentum * state.velocity + found.shift - pull
        precision = posterior(state, state.mean)[0].precision
        ridge = settings.damping * (jnp.eye(len(velocity)) if full else 1.0)
        centre = state.mean + settings.step * mean(Natural(velocity, precision + ridge))
        first = int(settings.rounds * (1 - settings.averaged))
        weight = jnp.where(state.round >= first, 1.0 / (state.round - first + 1), 1.0)
        average = state.average + weight * (centre - state.average)
        return state._replace(
            mean=centre, velocity=velocity, average=average, window=window, round=state.round + 1
        )

    def _observed(state: State, slope: Any, bend: Any) -> Window:
        """The window after this round, which belongs to one of its halves once it is late."""
        half = jnp.int32(state.round >= late + (settings.rounds - late) // 2)
        counts = state.window.rounds.at[half].add(jnp.where(state.round >= late, 1.0, 0.0))
        weight = jnp.where(state.round >= late, 1.0 / jnp.maximum(counts[half], 1.0), 0.0)
        fresh = Window(state.mean, slope, bend, 0.0)
        means, slopes, bends = (
            old.at[half].add(weight * (new - old[half]))
            for old, new in zip(state.window[:3], fresh[:3], strict=True)
        )
        return Window(means, slopes, bends, counts)

    def result(state: State) -> WindowedAnswer:
        q, floored = posterior(state, state.average if settings.averaged else state.mean)
        return WindowedAnswer(q.shift, q.precision, floored, state.window)

    return Algorithm(
        name="pvi-natural-gradient",
        settings={**asdict(settings), "likelihood": likelihood.name},
        trusts=frozenset(Trust),
        combine="sum",
        rounds=settings.rounds,
        grid=grid,
        event=event,
        init=init,
        ask=lambda state: Public(posterior(state, state.mean)[0], state.round),
        local=local,
        settle=lambda party, accepted: party,
        merge=merge,
        result=result,
        reach=lambda facts: 1.01 * settings.clip * sum(facts.records),
        own_event=own_event if settings.epsilons else None,
    )


def damped_for_noise(
    settings: Settings, likelihood: Likelihood, facts: Facts, trust: Trust, strength: float = 6.0
) -> Settings:
    """The settings with λ = strength · s / sqrt(rounds), s the noise of one round's opened sum.

    A public rule: where the data say less than the noise, steps shrink; without noise λ vanishes.
    """
    noise = natural_gradient_pvi(settings, likelihood).event(facts, trust).noise
    assert isinstance(noise, Gaussian)
    copies = {Trust.LOCAL: facts.parties, Trust.SECURE_SUM: facts.parties / facts.honest}
    one_round = noise.std * math.sqrt(copies.get(trust, 1)) / settings.rate
    return replace(settings, damping=strength * one_round / math.sqrt(settings.rounds))


def _statistics(
    settings: Settings, likelihood: Likelihood, public: Public, rows: Any, labels: Any
) -> Any:
    """Per record, slope and κ · bend in one vector: (n, packed size)."""
    if likelihood.scores is None:
        shape = (settings.samples, public.q.shift.shape[0])
        normals = jax.random.normal(_public_key(settings, public.round), shape)
        slopes, _ = expected_gradients(likelihood, public.q, rows, labels, normals)
        bends = slopes * slopes
    else:
        slope, bend = _slopes(settings, likelihood, public.q, rows, labels)
        slopes = slope[:, None] * rows
        squares = rows[:, :, None] * rows[:, None, :] if settings.full else rows * rows
        bends = bend.reshape(-1, *[1] * (squares.ndim - 1)) * squares
    packed = jax.vmap(pack)(Natural(slopes, settings.bend_weight * bends))
    if not settings.weighted:
        return packed
    reach = row_norms(likelihood, settings.bend_weight, jnp.linalg.norm(rows, axis=1))
    return packed * jnp.minimum(1.0, settings.clip / reach)[:, None]


def _slopes(
    settings: Settings, likelihood: Likelihood, q: Natural, rows: Any, labels: Any
) -> tuple[Any, Any]:
    """Slope and bend of every record, at the mean of q or expected under it."""
    if settings.laplace:
        assert likelihood.scores is not None
        _, slope, bend = likelihood.scores(rows @ mean(q), labels)
        return slope, -bend
    found = score_slopes(likelihood, q, rows, labels)
    return found.slope, found.bend


def row_norms(likelihood: Likelihood, bend_weight: float, lengths: Any) -> Any:
    """The largest norm of (g x, κ h xxᵀ) over labels, for rows of these lengths."""
    bends = bend_weight * likelihood.bend_bound * lengths
    return lengths * (largest_slope(likelihood) ** 2 + bends**2) ** 0.5


def largest_slope(likelihood: Likelihood) -> float:
    """The bound of |l'|. Slopes of the probit have none; at most one label in 18 passes 2 (where
    the score is 1.6 on the wrong side), and these are clipped."""
    return min(likelihood.slope_bound, 2.0)


def for_intervals(
    settings: Settings, likelihood: Likelihood, facts: Facts, trust: Trust, square: float,
    clip: float | None = None,
) -> Settings:  # fmt: skip
    """The settings with which intervals of coefficients cover, for rows (u, 1) with |u|² about
    `square`.

    Newton steps to the mode with a full covariance, damped by the noise; the later five eighths of
    the rounds make the window. Rows longer than three quarters of the usual length are weighted
    down, which costs a tenth of precision and saves a quarter of noise; of the squared clip, slopes
    and bends have half each. From zero Newton's method is near the mode after four steps, unless
    classes are nearly separate: with 12 rounds the window begins there, and more rounds cost next
    to nothing, since the window averages their noise. `estimators.noise_aware` checks convergence.
    """
    slope, length = largest_slope(likelihood), 0.75 * math.sqrt(1 + square)
    settings = replace(
        settings, clip=math.sqrt(2) * slope * length if clip is None else clip,
        bend_weight=slope / (likelihood.bend_bound * length), full=True, laplace=True,
        weighted=True, step=1.0, momentum=0.0, memory=0.5, averaged=0.625,
    )  # fmt: skip
    return damped_for_noise(settings, likelihood, facts, trust, strength=2.0)


def _public_key(settings: Settings, round_number: Any) -> Any:
    return jax.random.fold_in(jax.random.key(settings.seed), round_number + 1)


def _times(precision: Any, vector: Any) -> Any:
    return precision @ vector if precision.ndim == 2 else precision * vector
