"""Gradient perturbation (source 000, INVENTORY 2.3): T noisy full-gradient rounds.

    g_t     = sum over all parties and records of clip_C(grad l(θ_t; record))  +  N(0, σ² I)
    v_{t+1} = m v_t + g_t / n + λ θ_t
    θ_{t+1} = θ_t - η v_{t+1}

The regulariser is added after the noise, and momentum and averaging of the last iterates are
post-processing. Every iterate may be public: the T releases compose exactly as one Gaussian with
μ = sqrt(T) Δ / σ, so σ = Δ sqrt(T) / μ*(ε, δ) (E000-9; the slides' σ is too small for large ε).
The prefix up to round t costs sqrt(t/T) μ, by `prefix_epsilon` (E000-10).
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from unisono.accounting import gaussian
from unisono.algorithms.descent import DescentSettings, State, arrived, descend, start
from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.events import Event
from unisono.core.trust import Trust
from unisono.core.values import Contribution, clipped_sum, sum_sensitivity
from unisono.mechanisms.gaussian import calibrate
from unisono.models.losses import loss_named


@dataclass(frozen=True)
class Settings(DescentSettings):
    """What the parties agree on; see `DescentSettings`."""

    learning_rate: float = 4.0


def prefix_epsilon(settings: Settings, rounds: int) -> float:
    """Epsilon of the first `rounds` iterates at the same delta (corollary of 000, E000-10)."""
    mu = gaussian.mu_for(settings.epsilon, settings.delta) * math.sqrt(rounds / settings.rounds)
    return gaussian.epsilon(settings.delta, mu)


def gradient_perturbation(settings: Settings) -> Algorithm:
    """The algorithm, with noise calibrated exactly to the settings."""
    loss = loss_named(settings.loss)

    def event(facts: Facts, trust: Trust) -> Event:
        grid, dimension = settings.grid(facts), settings.dimension(facts)
        return calibrate(
            sum_sensitivity(settings.clip, grid, dimension, hides_presence=not facts.exact_sizes),
            settings.relation, settings.epsilon, settings.delta,
            count=facts.attempts(settings.rounds), dimension=dimension, grid=grid,
            shares=facts.honest if trust is Trust.SECURE_SUM else 1,
        )  # fmt: skip

    def local(
        facts: Facts, public: Any, party: None, data: Any, mask: Any
    ) -> tuple[None, Contribution]:
        features, labels = data
        rows = loss.gradients(public, features, labels).reshape(len(features), -1)
        hides_presence = not facts.exact_sizes
        return party, clipped_sum(rows, settings.clip, settings.grid(facts), mask, hides_presence)

    def merge(state: State, aggregate: Aggregate) -> State:
        return descend(settings, state, aggregate.total / aggregate.records)

    return Algorithm(
        name="gradient-perturbation",
        settings=asdict(settings),
        trusts=frozenset(Trust),
        combine="sum",
        rounds=settings.rounds,
        grid=lambda facts, trust: settings.grid(facts),
        event=event,
        init=lambda facts: (start(settings, facts), None),
        ask=lambda state: state.parameters,
        local=local,
        settle=lambda party, accepted: party,
        merge=merge,
        result=lambda state: arrived(settings, state),
        reach=lambda facts: 1.01 * settings.clip * sum(facts.records),
    )
