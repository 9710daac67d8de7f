"""Local DP-SGD: every party trains privately by itself, and the server averages models.

In every round a party starts at the public model θ and takes `steps` noisy steps locally. In each
it draws a secret sampling mask, each of its records with probability q, and

    S    = Σ over chosen records of clip(grad l(θ_j; record))  +  N(0, σ_j² I)
    θ_j <- optimizer(θ_j, S / (q n̄)),                    n̄ = public records of a party, on average

It then reports its change θ_j - θ, a function of what it released, and the server sets

    θ <- θ + Σ_j (θ_j - θ) / m,             m = public records of all that arrived / n̄

Dividing by n̄, and not by a party's own size, lets larger parties move further: with plain SGD
parties weigh by their sizes, and one step a round is DP-SGD (Abadi et al. 2016) with noise of each
party's own. Optimizers that undo scales, such as Adam, let all parties weigh alike. They begin anew
in every round; bounds that follow a quantile are each party's own, and stay with it.

Unit: one record. Trust LOCAL: everybody but its own party is an adversary, the server and all other
parties together. Sampler: Poisson, by the party's secret mask. `rounds` times `steps` releases of
the sampled Gaussian are accounted by a certified loss distribution, with the chance that a padded
batch overflows. Every party may have its own epsilon (`Privacy.own`).
"""

from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from pydantic import Field, model_validator

from unisono.algorithms.optimise import (
    Averaging,
    NetworkConfig,
    NetworkResult,
    Rounds,
    optimizer_of,
    resolve_learning_rate,
)
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.trust import Trust
from unisono.problems.record_loss import RecordLoss
from unisono.releases.algorithm import Algorithm, AlgorithmKind, Records, UtilityLaw
from unisono.releases.blocked_sum import BlockedSum, moved, read
from unisono.releases.release import LocalSteps, Priced, Release, sampler_of

# Changes of parameters travel as integers: steps of 2^-20, each change below 2^5.
_REPORT_STEP, _REPORT_LARGEST = 2.0**-20, 2.0**5


class LocalDpSgdConfig(NetworkConfig):
    """Noisy steps at every party by itself, and averages of their models."""

    rounds: Rounds = Field(20, description="How often models are averaged.")
    sampling_rate: float = Field(
        0.1, gt=0, le=1, description="A record's chance to take part in a step."
    )
    steps: int = Field(10, ge=1, description="Noisy local steps between two averages.")

    @model_validator(mode="after")
    def _no_loss_is_released(self) -> Self:
        if self.clipping.loss_range:
            raise ValueError(
                f"loss_range = {self.clipping.loss_range!r}: in local-dp-sgd a party's noisy loss "
                "stays with the party, where it would cost and tell nobody; leave it out"
            )
        return self


class LocalDpSgdOwn(NamedTuple):
    """A party's, a function of its releases: by how much its model differs from the public one, its
    optimizer, and its bounds of gradients."""

    change: Any
    optimizer: Any
    bounds: Any


class LocalDpSgdState(NamedTuple):
    """The server's."""

    parameters: Any
    average: Any
    round: Any


def release(config: LocalDpSgdConfig, problem: RecordLoss, facts: Facts) -> Release:
    return Release(
        BlockedSum(problem.plan, config.clipping),
        config.rounds,
        sampler_of(config.sampling_rate),
        local_steps=LocalSteps(config.steps, _REPORT_STEP, _REPORT_LARGEST),
    )


def build(config: LocalDpSgdConfig, problem: RecordLoss, facts: Facts, priced: Priced) -> Algorithm:
    plan, clipping, optimizer = problem.plan, config.clipping, optimizer_of(config)
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), problem.parameters)
    nothing = jax.tree.map(jnp.zeros_like, first)
    unravel = ravel_pytree(first)[1]
    averaging = Averaging(config.rounds, config.average_last, config.decay)
    typical = sum(facts.records) / facts.parties

    def init() -> tuple[LocalDpSgdState, LocalDpSgdOwn]:
        own = LocalDpSgdOwn(nothing, optimizer.init(first), clipping.start(plan))
        return LocalDpSgdState(first, first, jnp.int32(0)), own

    def local(public: Any, own: LocalDpSgdOwn, records: Records) -> tuple[LocalDpSgdOwn, Any]:
        return own, (_plus(public, own.change), own.bounds, records.columns)

    def absorb(public: Any, own: LocalDpSgdOwn, noisy: Any) -> LocalDpSgdOwn:
        reading = read(plan, clipping, own.bounds, noisy, config.sampling_rate * typical)
        gradient = jax.tree.unflatten(plan.structure, reading.gradient)
        here = _plus(public, own.change)
        step, inside = optimizer.update(gradient, own.optimizer, here)
        bounds = moved(clipping, own.bounds, reading.within)
        return LocalDpSgdOwn(_plus(own.change, step), inside, bounds)

    def settle(own: LocalDpSgdOwn, sent: None, accepted: Any) -> LocalDpSgdOwn:
        return LocalDpSgdOwn(nothing, optimizer.init(first), own.bounds)

    def merge(state: LocalDpSgdState, sums: Aggregate) -> LocalDpSgdState:
        parties = sums.records / jnp.float32(typical)
        parameters = _plus(state.parameters, unravel(sums.total / parties))
        average = averaging.include(state.average, parameters, state.round)
        return LocalDpSgdState(parameters, average, state.round + 1)

    return Algorithm(
        init=init,
        ask=lambda state: state.parameters,
        local=local,
        merge=merge,
        result=lambda state: NetworkResult(state.average),
        settle=settle,
        absorb=absorb,
        report=lambda own: ravel_pytree(own.change)[0],
    )


def _plus(parameters: Any, change: Any) -> Any:
    return jax.tree.map(lambda p, c: p + c, parameters, change)


LOCAL_DP_SGD = AlgorithmKind(
    "local-dp-sgd",
    "noisy steps at every party by itself, and averages of their models",
    LocalDpSgdConfig,
    RecordLoss,
    release,
    build,
    resolve_learning_rate,
    trusts=frozenset({Trust.LOCAL}),
    sends="models after many noisy local steps",
    laws={"network": UtilityLaw(0.873, 0.947, 1.51, 2.26, by_class=True)},
    own_epsilons=True,
)
