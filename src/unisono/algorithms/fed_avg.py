"""DP-FedAvg: federated averaging that hides whole parties (McMahan et al. 2018), whose clipping
follows a private quantile (Andrew et al. 2021).

In every round a party starts at the public model θ_t, trains at home on its own records without
noise, and sends by how much its model changed, together with a gauge of that change:

    Δ_j     = train(θ_t; records of j) - θ_t
    u_j     = Δ_j / max(||Δ_j||, C_t),         b_j = κ where ||Δ_j|| <= C_t, else -κ
    S_t     = Σ over parties that take part of (u_j, b_j)  +  N(0, σ² I)
    θ_{t+1} = optimizer(θ_t, -C_t S_t[u] / (q m))                 a step of 1 is FedAvg
    C_{t+1} = C_t exp(-r (part within C_t - quantile))

||(u_j, b_j)||² <= 1 + κ², whatever C_t is, so σ stays the same while C_t moves. All parties weigh
alike, and the divisor is the expected number of parties, never the secret number (E003-9).

Unit: one party, all of its records together. Relation: zero-out (its records are as if absent: it
sends zero and its noise) or replace-one; *not* its presence, because an absent party's share of
noise is missing too (E003-16). Sampler: everyone, or secret coins: every party tosses its own in
every round, and if it does not take part sends noise alone, so that nobody else knows. Parties
remember nothing between rounds, so T rounds compose as (sampled) Gaussians, accounted exactly, or
by a certified loss distribution where coins are tossed. Viewers: with LOCAL noise and with a secure
sum everybody but the party itself; with a TRUSTED_SERVER everybody but the server.
"""

import math
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from unisono.accounting.gaussian import mu_for
from unisono.algorithms.clipping import Clipping, moved
from unisono.algorithms.dp_sgd import IN_GRAPH_EPSILON
from unisono.algorithms.optimise import Averaging, Problem, agreed, planned, stepped
from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.defaults import PARTY_RELATION
from unisono.core.events import Event, Everyone, Poisson, Sampler, positive
from unisono.core.trust import Relation, Trust, Unit
from unisono.core.values import Contribution, clipped_updates, update_sensitivity
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import calibrate
from unisono.problems.per_record import finite_records
from unisono.releases.bounds import power_of_two_step as choose_grid

# Noise in a compiled program is proved up to 2^20 grid steps; a search for it looks beyond it.
_WIDEST = 2.0**18


@dataclass(frozen=True)
class Settings:
    """What the parties agree on; `epsilon` and `delta` hold for the whole run.

    `rate` is the probability with which a party takes part in a round. At home it goes `epochs`
    times through its records, `batch` of them at a time, in the order in which they lie.
    `clipping` bounds the changes of whole models: flat, and by a quantile or not. `averaged` is the
    last part of the rounds whose models are averaged, `decay` that of a moving average.
    """

    epsilon: float
    delta: float
    rounds: int = 100
    rate: float = 1.0
    epochs: int = 1
    batch: int = 32
    clipping: Clipping = field(default_factory=lambda: Clipping(quantile=0.5))
    averaged: float = 0.0
    decay: float = 0.0
    relation: Relation = PARTY_RELATION

    def __post_init__(self) -> None:
        positive(
            epsilon=self.epsilon, delta=self.delta, rounds=self.rounds, epochs=self.epochs,
            batch=self.batch,
        )  # fmt: skip
        Poisson(self.rate)
        Averaging(self.rounds, self.averaged, self.decay)
        if self.delta >= 1:
            raise InvalidInput(f"delta = {self.delta!r} must lie in (0, 1)")
        if self.relation is Relation.ADD_OR_REMOVE:
            raise InvalidInput(
                "a party's presence (add-or-remove) is not hidden: if it is absent, its share of "
                "noise is missing too; use zero-out or replace-one"
            )
        if self.clipping.style != "flat" or self.clipping.loss_range:
            raise InvalidInput(
                f"clipping {self.clipping.style!r} with loss_range = {self.clipping.loss_range!r}: "
                "changes of models are clipped as a whole (flat), and no loss is released"
            )

    @property
    def sampler(self) -> Sampler:
        return Everyone() if self.rate == 1 else Poisson(self.rate)

    @property
    def gauges(self) -> int:
        """How many numbers a party adds to its update: the gauge, where a quantile is followed."""
        return 0 if self.clipping.quantile is None else 1

    @property
    def norm(self) -> float:
        """The largest norm of a party's scaled change and gauge."""
        return math.hypot(1.0, self.gauges * self.clipping.gauge)


class Public(NamedTuple):
    """What everybody sees: the model and the bound of its changes."""

    parameters: Any
    bound: Any


class State(NamedTuple):
    """The server's."""

    parameters: Any
    optimizer: Any
    bound: Any
    average: Any
    round: Any


class Learned(NamedTuple):
    """The result: the model and the last bound."""

    parameters: Any
    bound: Any


def fed_avg(settings: Settings, problem: Problem, home: Any, server: Any) -> Algorithm:
    """The algorithm for a problem and two optax optimizers, for parties at home and for the server:
    `sgd(1.0)` there is FedAvg, `adam` FedAdam; every trust."""
    plan, clipping = planned(problem), settings.clipping
    size, dimension = plan.dimension, plan.dimension + settings.gauges
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), problem.parameters)
    unravel = ravel_pytree(first)[1]
    averaging = Averaging(settings.rounds, settings.averaged, settings.decay)
    # Of one round of everybody; secret coins only lessen the noise that it takes.
    mu = mu_for(settings.epsilon, settings.delta) / math.sqrt(settings.rounds)

    def grid(facts: Facts, trust: Trust | None = None) -> float:
        distance = settings.norm * (2 if settings.relation is Relation.REPLACE_ONE else 1)
        coarse = 2.0 ** math.ceil(math.log2(distance / mu / _WIDEST))
        return max(choose_grid(settings.norm, dimension, facts.parties), coarse)

    @lru_cache(maxsize=16)
    def event(facts: Facts, trust: Trust) -> Event:
        return calibrate(
            update_sensitivity(settings.norm, grid(facts), dimension, Unit.PARTY),
            settings.relation, settings.epsilon, settings.delta,
            count=facts.attempts(settings.rounds),
            sampler=settings.sampler, dimension=dimension, grid=grid(facts),
            in_graph=settings.epsilon <= IN_GRAPH_EPSILON,
            shares=facts.honest if trust is Trust.SECURE_SUM else 1,
        )  # fmt: skip

    def local(
        facts: Facts, public: Public, party: None, data: Any, mask: Any
    ) -> tuple[None, Contribution]:
        data, mask = finite_records(data, mask)
        after = trained(settings, problem, home, public.parameters, data, mask)
        change = ravel_pytree(after)[0] - ravel_pytree(public.parameters)[0]
        row = gauged(settings, change, public.bound)
        # Nobody's records add nothing; and a change that is not finite is not sent either.
        row = jnp.where(jnp.any(mask), row, 0.0)
        return party, clipped_updates(row[None], settings.norm, grid(facts), Unit.PARTY)[0]

    def init(facts: Facts) -> tuple[State, None]:
        bound = jnp.float32(clipping.bound)
        return State(first, server.init(first), bound, first, jnp.int32(0)), None

    def merge(state: State, aggregate: Aggregate) -> State:
        expected = settings.rate * aggregate.survivors
        change = aggregate.total[:size] * (state.bound / expected)
        parameters, inside = stepped(server, unravel(-change), state.optimizer, state.parameters)
        bound = state.bound
        if settings.gauges:
            within = (1.0 + aggregate.total[size] / (clipping.gauge * expected)) / 2.0
            bound = moved(clipping, bound, within)
        average = averaging.include(state.average, parameters, state.round)
        return State(parameters, inside, bound, average, state.round + 1)

    return Algorithm(
        name="fed-avg",
        settings={
            **asdict(settings), **agreed(problem, server),
            "home": agreed(problem, home)["optimizer"],
        },
        trusts=frozenset(Trust),
        combine="sum",
        rounds=settings.rounds,
        grid=grid,
        event=event,
        init=init,
        ask=lambda state: Public(state.parameters, state.bound),
        local=local,
        settle=lambda party, accepted: party,
        merge=merge,
        result=lambda state: Learned(state.average, state.bound),
        reach=lambda facts: 1.01 * settings.norm * facts.parties,
        whole=True,
    )  # fmt: skip


def trained(
    settings: Settings, problem: Problem, optimizer: Any, first: Any, records: Any, mask: Any
) -> Any:
    """The model after a party's epochs at home, from the public one.

    Batches without records are passed over, optimizer and all: padding changes nothing.
    """
    rows = mask.shape[0]
    size = min(settings.batch, rows)
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
        lambda carry, _: jax.lax.scan(step, carry, dealt), start, length=settings.epochs
    )
    return after


def _average_loss(parameters: Any, problem: Problem, rows: Any, mask: Any) -> Any:
    """Over the records of a batch that are there.

    Where there is none a copy of one that is there stands in, with weight zero: the loss of a row
    of zeros might have no gradient.
    """
    there = jnp.argmax(mask)

    def filled(column: Any) -> Any:
        return jnp.where(mask.reshape(-1, *[1] * (column.ndim - 1)), column, column[there])

    losses = jax.vmap(problem.loss, in_axes=(None, 0))(parameters, jax.tree.map(filled, rows))
    return jnp.sum(jnp.where(mask, losses, 0.0)) / jnp.maximum(jnp.sum(mask), 1)


def gauged(settings: Settings, change: Any, bound: Any) -> Any:
    """A change of the model scaled to norm at most 1, and whether it was within its bound."""
    norm = jnp.sqrt(jnp.sum(change * change))
    scaled = change / jnp.maximum(norm, bound)
    gauge = jnp.where(norm <= bound, settings.clipping.gauge, -settings.clipping.gauge)
    return jnp.append(scaled, gauge) if settings.gauges else scaled
