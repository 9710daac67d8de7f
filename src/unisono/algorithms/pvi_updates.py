"""Private partitioned inference by clipped updates of natural parameters (003 Algorithm 3, fixed).

In every round a party, or each of the k shards of its records, improves the public q on its own
and offers the change of its factor in natural parameters:

    Δ_j     = clip_C(λ(local optimum against the cavity q / t_j) - λ(q))
    S       = Σ_j Δ_j  +  N(0, σ² I)                     in shares through the secure sum
    λ(q)   <- λ(q) + ρ S,            t_j <- t_j + ρ Δ_j           *without the noise*

The thesis lets the party add its own share of noise to t_j and correct it later. Then the query of
a round depends on secret noise, composition does not apply, and the true epsilon is about six times
the stated one (E003-16, shown by `unisono reproduce dataset-level`). Here t_j is a function of its
own records, of public values and of its own coins, which are fresh in every round; so T rounds
compose: μ = sqrt(T) Δ / σ, whatever the server asks. The price: noise stays in q, with variance
ρ² σ² T.

* `unit` PARTY, one shard: hides a whole party's records (zero-out or replace-one; *not* its
  presence, because an absent party's share of noise is missing too). The server may also add the
  noise (TRUSTED_SERVER). Parties may be sampled: by secret coins of their own, or a fixed number
  in each round (003 §3.2.2). A fixed-size subset cannot stay secret where parties remember, for
  what the others remember betrays who was drawn; so it is public, nothing is amplified, and
  every party pays for its own turns.
* `unit` RECORD, k shards: hides one record. It lies in one shard, whose update moves by up to 2C.
  With `averaged` every shard guesses the whole party's factor, weighing its records k times, and
  the guesses are averaged (local averaging); otherwise every shard is a virtual party with its own
  factor (perturbed local parameters); both after Heikkilä et al. 2022. Row numbers assign shards.
"""

import math
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.algorithms.posterior import Answer, PriorSettings, answer_of, start_of, usable
from unisono.algorithms.pvi import Climb, local_optimum
from unisono.core.algorithm import Aggregate, Algorithm, Facts, Schedule
from unisono.core.defaults import PARTY_RELATION
from unisono.core.events import Event, Everyone, Poisson, Sampler, positive
from unisono.core.trust import Relation, Trust, Unit
from unisono.core.values import Contribution, clipped_updates, update_sensitivity
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import calibrate
from unisono.problems.gaussian_family import (
    Natural,
    pack,
    packed_size,
    product,
    quotient,
    unpack,
)
from unisono.problems.likelihoods import Likelihood
from unisono.problems.per_record import finite_records
from unisono.releases.bounds import power_of_two_step as choose_grid


@dataclass(frozen=True)
class Settings(PriorSettings):
    """What the parties agree on; `epsilon` and `delta` hold for the whole run.

    `rate`: every party takes part with this probability, by a secret coin. `subset`: this many
    parties are asked in a round, publicly drawn by `seed`. `precision_weight` scales precisions
    against shifts before the joint clip. `full` is the shape of q's covariance.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    unit: Unit = Unit.PARTY
    relation: Relation = PARTY_RELATION
    rounds: int = 10
    clip: float = 1.0
    damping: float = 0.5
    shards: int = 1
    averaged: bool = False
    rate: float | None = None
    subset: int | None = None
    precision_weight: float = 1.0
    full: bool = False
    climb: Climb = field(default_factory=Climb)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(
            epsilon=self.epsilon, delta=self.delta, rounds=self.rounds, clip=self.clip,
            shards=self.shards, precision_weight=self.precision_weight,
        )  # fmt: skip
        if self.delta >= 1 or not 0 < self.damping <= 1:
            raise InvalidInput(
                f"delta = {self.delta!r}, damping = {self.damping!r}: delta lies in (0, 1), "
                "damping in (0, 1]"
            )
        if self.relation is Relation.ADD_OR_REMOVE:
            raise InvalidInput(
                "clipped updates do not hide presence (add-or-remove): an absent party's share of "
                "noise is missing too, and a removed record regroups the shards; use zero-out or "
                "replace-one"
            )
        if self.unit is Unit.PARTY and self.shards != 1:
            raise InvalidInput(f"shards = {self.shards}: to hide a whole party it has one shard")
        sampled = self.rate is not None or self.subset is not None
        if sampled and (self.unit is Unit.RECORD or None not in (self.rate, self.subset)):
            raise InvalidInput("parties are sampled by `rate` or by `subset`, and for unit PARTY")
        if self.rate is not None:
            Poisson(self.rate)

    @property
    def sampler(self) -> Sampler:
        return Everyone() if self.rate is None else Poisson(self.rate)

    def turns(self, parties: int) -> Schedule:
        """Who is asked when: everyone, or a public random subset of fixed size in each round."""
        if self.subset is None:
            return Schedule(np.ones((self.rounds, parties), bool))
        if not 1 <= self.subset <= parties:
            raise InvalidInput(
                f"subset = {self.subset!r} of {parties} parties: it lies between 1 and all of them"
            )
        ranks = np.random.default_rng(self.seed).random((self.rounds, parties)).argsort(axis=1)
        return Schedule(ranks.argsort(axis=1) < self.subset)

    @property
    def step(self) -> float:
        """What the server multiplies a sum of updates by: ρ, shared among averaged shards."""
        return self.damping / self.shards if self.averaged else self.damping


class PartyState(NamedTuple):
    """Every shard's factor (k, p), packed and without noise: private. No shard's factor depends on
    another's records, or one record would move all updates of later rounds."""

    factors: Any
    proposed: Any


class Public(NamedTuple):
    """What everybody sees in a round; the round seeds the public samples."""

    q: Natural
    round: Any


def clipped_update_inference(settings: Settings, likelihood: Likelihood) -> Algorithm:
    """The algorithm for a likelihood, calibrated exactly (sampled: by loss distributions)."""
    weight, full = settings.precision_weight, settings.full
    if full and likelihood.scores is None:
        raise InvalidInput(
            f"a full covariance needs a likelihood of a score; {likelihood.name!r} is sampled: "
            "use full=False"
        )

    def size(facts: Facts) -> int:
        return packed_size(likelihood.size(facts.features), full)

    def grid(facts: Facts, trust: Trust | None = None) -> float:
        return choose_grid(settings.clip, size(facts), facts.parties * settings.shards)

    @lru_cache(maxsize=16)
    def event(facts: Facts, trust: Trust) -> Event:
        return calibrate(
            update_sensitivity(settings.clip, grid(facts), size(facts), settings.unit),
            settings.relation, settings.epsilon, settings.delta,
            count=facts.attempts(int(settings.turns(facts.parties).asked.sum(axis=0).max())),
            sampler=settings.sampler, dimension=size(facts), grid=grid(facts),
            shares=facts.honest if trust is Trust.SECURE_SUM else 1,
        )  # fmt: skip

    def to_vector(factor: Natural) -> Any:
        return pack(Natural(factor.shift, weight * factor.precision))

    def from_vector(vector: Any, dimension: int) -> Natural:
        factor = unpack(vector, dimension, full)
        return Natural(factor.shift, factor.precision / weight)

    def update(public: Public, factor: Any, data: Any, mask: Any, key: Any) -> Any:
        """One shard's change of its factor, as a vector."""
        cavity = quotient(public.q, from_vector(factor, public.q.shift.shape[0]))
        times = settings.shards if settings.averaged else 1
        best = local_optimum(
            likelihood, cavity, public.q, data, mask, settings.climb, key, weight=times
        )
        # Nobody's records add nothing, exactly: what a climb makes of rounding errors is not sent.
        return jnp.where(jnp.any(mask), to_vector(quotient(best, public.q)), 0.0)

    def local(
        facts: Facts, public: Public, state: PartyState, data: Any, mask: Any
    ) -> tuple[PartyState, Contribution]:
        sharded, masks = _in_shards(*finite_records(data, mask), settings.shards)
        keys = jax.random.fold_in(jax.random.key(settings.seed), public.round)
        changes = jax.vmap(update, in_axes=(None, 0, 0, 0, None))(
            public, state.factors, sharded, masks, keys
        )
        contribution, steps = clipped_updates(changes, settings.clip, grid(facts), settings.unit)
        return PartyState(state.factors, settings.damping * grid(facts) * steps), contribution

    def settle(state: PartyState, accepted: Any) -> PartyState:
        moved = jnp.where(accepted, state.proposed, 0.0)
        return PartyState(state.factors + moved, 0 * moved)

    def init(facts: Facts) -> tuple[Public, PartyState]:
        q = start_of(settings, likelihood.size(facts.features), full)
        nothing = jnp.zeros((settings.shards, size(facts)), jnp.float32)
        return Public(q, jnp.int32(0)), PartyState(nothing, nothing)

    def merge(server: Public, aggregate: Aggregate) -> Public:
        moved = from_vector(settings.step * aggregate.total, server.q.shift.shape[0])
        return Public(product(server.q, moved), server.round + 1)

    def result(server: Public) -> Answer:
        return answer_of(settings, server.q)

    return Algorithm(
        name="pvi-clipped-updates",
        settings={**asdict(settings), "likelihood": likelihood.name},
        trusts=frozenset(Trust),
        combine="sum",
        rounds=settings.rounds,
        grid=grid,
        event=event,
        init=init,
        ask=lambda server: Public(usable(settings, server.q)[0], server.round),
        local=local,
        settle=settle,
        merge=merge,
        result=result,
        reach=lambda facts: 1.01 * settings.clip * facts.parties * settings.shards,
        whole=True,
        schedule=None if settings.subset is None else lambda facts: settings.turns(facts.parties),
    )


def _in_shards(data: Any, mask: Any, shards: int) -> tuple[Any, Any]:
    """Rows dealt to shards by their number: (n, ...) -> (k, ceil(n / k), ...), and masks."""
    rows = mask.shape[0]
    length = math.ceil(rows / shards)

    def dealt(column: Any) -> Any:
        padded = jnp.pad(column, [(0, length * shards - rows)] + [(0, 0)] * (column.ndim - 1))
        return jnp.swapaxes(padded.reshape(length, shards, *column.shape[1:]), 0, 1)

    return tuple(dealt(jnp.asarray(column)) for column in data), dealt(jnp.asarray(mask))
