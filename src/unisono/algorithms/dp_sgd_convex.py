"""DP-SGD for convex losses: secret Poisson batches and a secure sum (INVENTORY 2.6 (d)).

The redesign of SGD1 that needs no hidden order: in every round each party tosses a secret coin of
probability q for each of its own records,

    g_t     = sum over chosen records of clip_C(grad l(θ_t; record))  +  N(0, σ² I)
    v_{t+1} = m v_t + g_t / (q n) + λ θ_t,       θ_{t+1} = θ_t - η v_{t+1}

and only the noisy sum is opened. Nobody, the coordinator included, knows who took part, so the
amplification by sampling holds against the server and every other party: T releases of a
Poisson-sampled Gaussian, accounted by a certified privacy loss distribution. The divisor is the
*expected* batch, never its secret size. Momentum, averaging and the regulariser are
post-processing. `LOCAL` is valid too (a party's coins are its own), with m times the variance.
"""

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from unisono.algorithms.descent import DescentSettings, State, arrived, descend, start
from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.events import Event, Poisson
from unisono.core.trust import Trust
from unisono.core.values import Contribution, clipped_sum, sum_sensitivity
from unisono.mechanisms.gaussian import calibrate
from unisono.models.losses import loss_named


@dataclass(frozen=True)
class Settings(DescentSettings):
    """What the parties agree on; `rate` is the probability with which a record takes part in a
    round. See `DescentSettings` for the others."""

    rate: float = 0.1
    momentum: float = 0.9
    averaged: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        Poisson(self.rate)


def dp_sgd_convex(settings: Settings) -> Algorithm:
    """The algorithm, with noise calibrated by its privacy loss distribution; every trust."""
    loss = loss_named(settings.loss)
    sampler = Poisson(settings.rate)

    @lru_cache(maxsize=16)
    def event(facts: Facts, trust: Trust) -> Event:
        grid, dimension = settings.grid(facts), settings.dimension(facts)
        return calibrate(
            sum_sensitivity(settings.clip, grid, dimension, hides_presence=not facts.exact_sizes),
            settings.relation, settings.epsilon, settings.delta,
            count=facts.attempts(settings.rounds),
            sampler=sampler, dimension=dimension, grid=grid,
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
        return descend(settings, state, aggregate.total / (settings.rate * aggregate.records))

    return Algorithm(
        name="dp-sgd-convex",
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
