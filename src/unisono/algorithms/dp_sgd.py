"""DP-SGD (Abadi et al. 2016) for any loss, alone or across parties.

In every round each party draws a secret sampling mask, each of its records with probability q, and

    S_t     = Σ over chosen records of clip(grad l(θ_t; record))  +  N(0, σ² I)      the noisy sum
    θ_{t+1} = optimizer(θ_t, S_t / (q n))

What is added are the *clipped* gradients, and the divisor is the fixed expected batch q n, never
the secret size of the batch. Bounds that follow the data follow a private quantile that is released
with the gradient and paid for (Andrew et al. 2021).

Unit: one record. Sampler: Poisson, by each party's own secret mask, so that it amplifies against
everybody who does not see it: with a secure sum against the server and colluding parties, with
local noise against everyone else. T releases of the sampled Gaussian are accounted by a certified
loss distribution. Batches are padded to a public size; where sizes are public the chance that one
overflows, and is then cut short, is part of the event. Noise may change by a public schedule
(`noise_scales`).
"""

from typing import Annotated, Any, NamedTuple, Self

import jax
import jax.numpy as jnp
from pydantic import Field, model_validator

from unisono.algorithms.moments_noise import MOMENTS_ACCOUNTANT
from unisono.algorithms.optimise import (
    NETWORK_LAW,
    Averaging,
    NetworkConfig,
    NetworkResult,
    Rounds,
    optimizer_of,
    resolve_learning_rate,
    stepped,
)
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.trust import Unit
from unisono.problems.record_loss import RecordLoss
from unisono.releases.algorithm import Algorithm, AlgorithmKind, PublishedConfig, Records
from unisono.releases.blocked_sum import BlockedSum, moved, read
from unisono.releases.release import Priced, Release, sampler_of


class DpSgdConfig(NetworkConfig, PublishedConfig):
    """Noisy gradients of secret Poisson batches."""

    rounds: Rounds = Field(150, description="Noisy steps in all; the budget covers them.")
    sampling_rate: float = Field(
        0.1, gt=0, le=1, description="A record's chance to take part in a round."
    )
    noise_scales: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (),
        strict=False,  # a list will do
        description="Multiply the noise in equal parts of the run: (1.5, 1.0) begins with more.",
    )

    @model_validator(mode="after")
    def _no_more_levels_than_rounds(self) -> Self:
        if len(self.noise_scales) > self.rounds:
            raise ValueError(
                f"{len(self.noise_scales)} levels of noise for {self.rounds} rounds: at most one "
                "for each"
            )
        return self


class DpSgdPublic(NamedTuple):
    """What everybody sees: the model and the bounds of gradients."""

    parameters: Any
    bounds: Any


class DpSgdState(NamedTuple):
    """The server's."""

    parameters: Any
    optimizer: Any
    bounds: Any
    average: Any
    loss: Any
    round: Any


def release(config: DpSgdConfig, problem: RecordLoss, facts: Facts) -> Release:
    return Release(
        BlockedSum(problem.plan, config.clipping, problem.group),
        config.rounds,
        sampler_of(config.sampling_rate),
        config.noise_scales,
    )


def build(config: Any, problem: RecordLoss, facts: Facts, priced: Priced) -> Algorithm:
    """The steps along noisy sums, of DP-SGD and of whatever else has a `sampling_rate`."""
    plan, clipping, optimizer = problem.plan, config.clipping, optimizer_of(config)
    averaging = Averaging(config.rounds, config.average_last, config.decay)

    def init() -> tuple[DpSgdState, None]:
        first, unknown = jax.tree.map(jnp.asarray, problem.parameters), jnp.float32(jnp.nan)
        inside, bounds = optimizer.init(first), clipping.start(plan)
        return DpSgdState(first, inside, bounds, first, unknown, jnp.int32(0)), None

    def local(public: DpSgdPublic, own: None, records: Records) -> tuple[None, Any]:
        return own, (public.parameters, public.bounds, records.columns)

    def merge(state: DpSgdState, sums: Aggregate) -> DpSgdState:
        expected = config.sampling_rate * sums.records
        reading = read(plan, clipping, state.bounds, sums.total, expected)
        gradient = jax.tree.unflatten(plan.structure, reading.gradient)
        parameters, inside = stepped(optimizer, gradient, state.optimizer, state.parameters)
        bounds = moved(clipping, state.bounds, reading.within)
        average = averaging.include(state.average, parameters, state.round)
        return DpSgdState(parameters, inside, bounds, average, reading.loss, state.round + 1)

    return Algorithm(
        init=init,
        ask=lambda state: DpSgdPublic(state.parameters, state.bounds),
        local=local,
        merge=merge,
        result=lambda state: NetworkResult(state.average, state.bounds, state.loss),
    )


DP_SGD = AlgorithmKind(
    "dp-sgd",
    "noisy gradients of any loss, of secret Poisson batches",
    DpSgdConfig,
    RecordLoss,
    release,
    build,
    resolve_learning_rate,
    units=(Unit.RECORD, Unit.PERSON),
    sends="noisy sums of sampled records' gradients",
    invertible=True,
    laws={"network": NETWORK_LAW},
    printed=MOMENTS_ACCOUNTANT,
)
