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

from unisono.algorithms.descent import choose_grid
from unisono.algorithms.posterior import (
    Answer,
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
from unisono.models.gaussian_family import Natural, mean, pack, packed_size, project, unpack
from unisono.models.likelihoods import Likelihood, expected_gradients, score_slopes


@dataclass(frozen=True)
class Settings(PriorSettings):
    """What the parties agree on; `epsilon` and `delta` hold for the whole run.

    `step` is ρ, `momentum` μ, `damping` λ, `bend_weight` κ and `memory` the largest β_t.
    `averaged` is the last part of the rounds whose means are averaged; 0 takes the last one.
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


class State(NamedTuple):
    """The server's: mean, velocity, averaged bend, late average of means, round; and how many
    records the study has."""

    mean: Any
    velocity: Any
    bend: Any
    average: Any
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
        return State(centre, 0 * centre, 0 * start.precision, centre, jnp.int32(0), records), None

    def local(
        facts: Facts, public: Public, party: None, data: Any, mask: Any
    ) -> tuple[None, Contribution]:
        rows = _statistics(settings, likelihood, public, *data)
        return party, clipped_sum(rows, settings.clip, grid(facts), mask, not facts.exact_sizes)

    def merge(state: State, aggregate: Aggregate) -> State:
        # Where parties are missing, those that came stand for them, by public sizes.
        whole = state.records / (settings.rate * aggregate.records)
        found = unpack(aggregate.total * whole, state.mean.shape[0], full)
        beta = jnp.minimum(settings.memory, state.round / (state.round + 1.0))
        fresh = found.precision / settings.bend_weight
        state = state._replace(bend=beta * state.bend + (1 - beta) * fresh)
        prior = prior_of(state)
        pull = _times(prior.precision, state.mean) - prior.shift
        velocity = settings.momentum * state.velocity + found.shift - pull
        precision = posterior(state, state.mean)[0].precision
        ridge = settings.damping * (jnp.eye(len(velocity)) if full else 1.0)
        centre = state.mean + settings.step * mean(Natural(velocity, precision + ridge))
        late = int(settings.rounds * (1 - settings.averaged))
        weight = jnp.where(state.round >= late, 1.0 / (state.round - late + 1), 1.0)
        average = state.average + weight * (centre - state.average)
        return state._replace(
            mean=centre, velocity=velocity, average=average, round=state.round + 1
        )

    def result(state: State) -> Answer:
        q, floored = posterior(state, state.average if settings.averaged else state.mean)
        return Answer(q.shift, q.precision, floored)

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
        found = score_slopes(likelihood, public.q, rows, labels)
        slopes = found.slope[:, None] * rows
        squares = rows[:, :, None] * rows[:, None, :] if settings.full else rows * rows
        bends = found.bend.reshape(-1, *[1] * (squares.ndim - 1)) * squares
    return jax.vmap(pack)(Natural(slopes, settings.bend_weight * bends))


def _public_key(settings: Settings, round_number: Any) -> Any:
    return jax.random.fold_in(jax.random.key(settings.seed), round_number + 1)


def _times(precision: Any, vector: Any) -> Any:
    return precision @ vector if precision.ndim == 2 else precision * vector
