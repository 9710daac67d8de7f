"""DP-FedAvg: federated averaging that hides whole parties (McMahan et al. 2018), whose clipping
follows a private quantile (Andrew et al. 2021).

In every round a party starts at the public model θ_t, trains locally on its own records without
noise, and sends by how much its model changed, together with a gauge of that change:

    Δ_j     = train(θ_t; records of j) - θ_t
    u_j     = Δ_j / max(||Δ_j||, C_t),         b_j = κ where ||Δ_j|| <= C_t, else -κ
    S_t     = Σ over parties that take part of (u_j, b_j)  +  N(0, σ² I)
    θ_{t+1} = optimizer(θ_t, -C_t S_t[u] / (q m))                 a step of 1 is FedAvg
    C_{t+1} = C_t exp(-r (part within C_t - quantile))

||(u_j, b_j)||² <= 1 + κ², whatever C_t is, so σ stays the same while C_t moves. All parties weigh
alike, and the divisor is the expected number of parties, never the secret number.

Unit: one party, all of its records together. Relation: zero-out (its records are as if absent: it
sends zero and its noise) or replace-one; *not* its presence, because an absent party's share of
noise is missing too. Sampler: everyone, or Poisson: every party decides in secret whether it takes
part in a round, and if not sends noise alone, so that nobody else knows. Parties remember nothing
between rounds, so T rounds compose as (sampled) Gaussians, accounted exactly, or by a certified
loss distribution where parties are sampled. Viewers: with LOCAL noise and with a secure sum
everybody but the party itself; with a TRUSTED_SERVER everybody but the server.
"""

import math
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from pydantic import Field, model_validator

from unisono.algorithms.optimise import (
    Averaging,
    NetworkConfig,
    NetworkResult,
    Rounds,
    optimizer_print,
    resolve_learning_rate,
    stepped,
)
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.trust import Unit
from unisono.problems.per_record import finite_records
from unisono.problems.record_loss import RecordLoss
from unisono.releases.algorithm import Algorithm, AlgorithmKind, Records, UtilityLaw
from unisono.releases.blocked_sum import Clipping, moved
from unisono.releases.bounds import ClippedUpdate
from unisono.releases.release import Priced, Release, sampler_of


class FedAvgConfig(NetworkConfig):
    """Changes of whole models, trained locally without noise; the optimizer is the server's."""

    rounds: Rounds = Field(100, description="How often changes of models are averaged.")
    sampling_rate: float = Field(
        1.0, gt=0, le=1, description="A party's chance to take part in a round."
    )
    epochs: int = Field(1, ge=1, description="How often a party goes through its records locally.")
    batch_size: int = Field(32, ge=1, description="Records of one local step, in their order.")
    average_last: float = Field(
        0.0, ge=0, le=1, description="The last share of rounds whose models are averaged."
    )
    clipping: Clipping = Field(
        Clipping(quantile=0.5), description="How changes are bounded: flat, by a quantile or not."
    )
    learning_rate: float | None = Field(
        None, gt=0, description="The length of a local step, unless there is an optimizer `home`."
    )
    home: Any = Field(
        None,
        exclude=True,
        description="The local optimizer, of optax, in place of a learning rate.",
    )
    optimizer: Any = Field(
        None, exclude=True, description="The server's, of optax; left out: steps of 1 (FedAvg)."
    )

    usual_learning_rate: ClassVar[float] = 0.1
    steered: ClassVar[str] = "home"

    @model_validator(mode="after")
    def _changes_are_clipped_as_a_whole(self) -> Self:
        if self.clipping.style != "flat" or self.clipping.loss_range:
            raise ValueError(
                f"clipping {self.clipping.style!r} with loss_range = {self.clipping.loss_range!r}: "
                "changes of models are clipped as a whole (flat), and no loss is released"
            )
        return self

    @property
    def gauges(self) -> int:
        """How many numbers a party adds to its update: the gauge, where a quantile is followed."""
        return 0 if self.clipping.quantile is None else 1

    @property
    def norm(self) -> float:
        """The largest norm of a party's scaled change and gauge."""
        return math.hypot(1.0, self.gauges * self.clipping.gauge)

    @property
    def optimizers(self) -> tuple[Any, Any]:
        """The local one and the server's."""
        home = optax.sgd(self.learning_rate) if self.home is None else self.home
        return home, optax.sgd(1.0) if self.optimizer is None else self.optimizer

    def agreed(self, problem: RecordLoss) -> dict[str, Any]:
        home, server = self.optimizers
        return {
            **self.model_dump(mode="json"),
            "optimizer": optimizer_print(server, problem),
            "home": optimizer_print(home, problem),
        }


class FedAvgPublic(NamedTuple):
    """What everybody sees: the model and the bound of its changes."""

    parameters: Any
    bound: Any


class FedAvgState(NamedTuple):
    """The server's."""

    parameters: Any
    optimizer: Any
    bound: Any
    average: Any
    round: Any


def release(config: FedAvgConfig, problem: RecordLoss, facts: Facts) -> Release:
    dimension = problem.plan.dimension + config.gauges
    bound = ClippedUpdate(config.norm, dimension, Unit.PARTY, in_graph=True)
    return Release(bound, config.rounds, sampler_of(config.sampling_rate))


def build(config: FedAvgConfig, problem: RecordLoss, facts: Facts, priced: Priced) -> Algorithm:
    clipping, size, (home, server) = config.clipping, problem.plan.dimension, config.optimizers
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), problem.parameters)
    unravel = ravel_pytree(first)[1]
    averaging = Averaging(config.rounds, config.average_last, config.decay)

    def init() -> tuple[FedAvgState, None]:
        bound = jnp.float32(clipping.bound)
        return FedAvgState(first, server.init(first), bound, first, jnp.int32(0)), None

    def local(public: FedAvgPublic, own: None, records: Records) -> tuple[None, Any]:
        data, mask = finite_records(records.columns, records.present)
        after = trained(config, problem, home, public.parameters, data, mask)
        change = ravel_pytree(after)[0] - ravel_pytree(public.parameters)[0]
        row = gauged(config, change, public.bound)
        # Nobody's records add nothing; and a change that is not finite is not sent either.
        return own, jnp.where(jnp.any(mask), row, 0.0)[None]

    def merge(state: FedAvgState, sums: Aggregate) -> FedAvgState:
        expected = config.sampling_rate * sums.survivors
        change = sums.total[:size] * (state.bound / expected)
        parameters, inside = stepped(server, unravel(-change), state.optimizer, state.parameters)
        bound = state.bound
        if config.gauges:
            within = (1.0 + sums.total[size] / (clipping.gauge * expected)) / 2.0
            bound = moved(clipping, bound, within)
        average = averaging.include(state.average, parameters, state.round)
        return FedAvgState(parameters, inside, bound, average, state.round + 1)

    return Algorithm(
        init=init,
        ask=lambda state: FedAvgPublic(state.parameters, state.bound),
        local=local,
        merge=merge,
        result=lambda state: NetworkResult(state.average, state.bound[None]),
    )


def trained(
    config: FedAvgConfig, problem: RecordLoss, optimizer: Any, first: Any, records: Any, mask: Any
) -> Any:
    """The model after a party's local epochs, from the public one.

    Batches without records are passed over, optimizer and all: padding changes nothing.
    """
    rows = mask.shape[0]
    size = min(config.batch_size, rows)
    count = -(-rows // size)

    def batches(column: Any) -> Any:
        padding = [(0, count * size - rows)] + [(0, 0)] * (column.ndim - 1)
        return jnp.pad(column, padding).reshape(count, size, *column.shape[1:])

    def step(carry: Any, batch: Any) -> tuple[Any, None]:
        parameters, state = carry
        gradient = jax.grad(_average_loss)(parameters, problem, *batch)
        after = stepped(optimizer, gradient, state, parameters)
        some = jnp.any(batch[1])
        return jax.tree.map(lambda new, old: jnp.where(some, new, old), after, carry), None

    dealt = jax.tree.map(batches, (records, mask))
    start = (first, optimizer.init(first))
    (after, _), _ = jax.lax.scan(
        lambda carry, _: jax.lax.scan(step, carry, dealt), start, length=config.epochs
    )
    return after


def _average_loss(parameters: Any, problem: RecordLoss, rows: Any, mask: Any) -> Any:
    """Over the records of a batch that are there.

    Where there is none a copy of one that is there stands in, with weight zero: the loss of a row
    of zeros might have no gradient.
    """
    there = jnp.argmax(mask)

    def filled(column: Any) -> Any:
        return jnp.where(mask.reshape(-1, *[1] * (column.ndim - 1)), column, column[there])

    losses = jax.vmap(problem.loss, in_axes=(None, 0))(parameters, jax.tree.map(filled, rows))
    return jnp.sum(jnp.where(mask, losses, 0.0)) / jnp.maximum(jnp.sum(mask), 1)


def gauged(config: FedAvgConfig, change: Any, bound: Any) -> Any:
    """A change of the model scaled to norm at most 1, and whether it was within its bound."""
    norm = jnp.sqrt(jnp.sum(change * change))
    scaled = change / jnp.maximum(norm, bound)
    gauge = jnp.where(norm <= bound, config.clipping.gauge, -config.clipping.gauge)
    return jnp.append(scaled, gauge) if config.gauges else scaled


FED_AVG = AlgorithmKind(
    "fed-avg",
    "averages of models trained locally",
    FedAvgConfig,
    RecordLoss,
    release,
    build,
    resolve_learning_rate,
    units=(Unit.PARTY,),
    sends="noisy sums of models' changes after many local steps",
    laws={
        "classification": UtilityLaw(2.51, 0.767, 2.26, 1.91),
        "regression": UtilityLaw(1870.0, 0.555, 2.51, 2.67),
        "network": UtilityLaw(0.146, 0.924, 1.37, 2.05, by_class=True),
    },
)
