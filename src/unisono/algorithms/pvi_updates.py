"""Private partitioned inference by clipped updates of natural parameters.

In every round a party, or each of the k shards of its records, improves the public q on its own
and offers the change of its factor in natural parameters:

    Δ_j     = clip_C(λ(local optimum against the cavity q / t_j) - λ(q))
    S       = Σ_j Δ_j  +  N(0, σ² I)                     in shares through the secure sum
    λ(q)   <- λ(q) + ρ S,            t_j <- t_j + ρ Δ_j           *without the noise*

As published (Sharma 2019, Algorithm 3), the party adds its own share of noise to t_j and corrects
it later. Then the query of a round depends on secret noise, composition does not apply, and the
true epsilon is about six times the stated one (shown by `unisono reproduce dataset-level`; see
below for how it runs). Here t_j is
a function of its own records, of public values and of its own sampling masks, which are fresh in
every round; so T rounds compose: μ = sqrt(T) Δ / σ, whatever the server asks. The price: noise
stays in q, with variance ρ² σ² T.

* `unit` PARTY, one shard: hides a whole party's records (zero-out or replace-one; *not* its
  presence, because an absent party's share of noise is missing too). The server may also add the
  noise (TRUSTED_SERVER). Parties may be sampled: each by its own secret draw, or a fixed number in
  each round. A fixed-size subset cannot stay secret where parties remember, for what the others
  remember betrays who was drawn; so it is public, nothing is amplified, and every party pays for
  its own turns.
* `unit` RECORD, k shards: hides one record. It lies in one shard, whose update moves by up to 2C.
  With `averaged_shards` every shard guesses the whole party's factor, weighing its records k times,
  and the guesses are averaged (local averaging); otherwise every shard is a virtual party with its
  own factor (perturbed local parameters); both after Heikkilä et al. 2022. Row numbers assign
  shards.

Algorithm 3 as printed (`published = true`; unit PARTY, trust LOCAL, simulations only). In every
round party j sends Δ_j + N(0, σ²/m I), and t_j <- t_j + ρ (Δ_j + its share of noise); σ is what
sqrt(T) Δ / σ = μ*(ε, δ) gives for the sum of all shares, which is all that is printed of it. What
can be proved: t_j is a function of what the party sent before, so everybody who reads its messages,
and not only their sum, sees T Gaussian releases of standard deviation σ / sqrt(m), and the true
cost is at most sqrt(m T) Δ / σ against anybody. That is charged; attacks on the sums alone show
about six times ε for many parties (`published_gaussian.published_secret_state_mu`).
"""

import math
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field, model_validator

from unisono.accounting import gaussian
from unisono.algorithms.descent import Rounds
from unisono.algorithms.posterior import (
    PosteriorConfig,
    PublicPosterior,
    answer_of,
    start_of,
    usable,
)
from unisono.algorithms.pvi import Climb, local_optimum
from unisono.core.algorithm import Aggregate, Facts, Schedule
from unisono.core.events import Everyone, Gaussian, Poisson
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Sensitivity
from unisono.core.trust import Relation, Trust, Unit
from unisono.errors import InvalidInput
from unisono.problems.bayesian import BayesianProblem
from unisono.problems.gaussian_family import (
    Natural,
    pack,
    packed_size,
    product,
    quotient,
    unpack,
)
from unisono.problems.per_record import finite_records
from unisono.releases.algorithm import (
    Algorithm,
    AlgorithmKind,
    Publication,
    PublishedConfig,
    Records,
    RowScale,
)
from unisono.releases.bounds import ClippedUpdate, power_of_two_step
from unisono.releases.release import LocalSteps, Priced, Release

# Of Algorithm 3 as printed: no message is longer than so many clipping norms.
_LONGEST = 2.0**12


class ClippedUpdatesConfig(PosteriorConfig, PublishedConfig):
    """What the parties agree on about updates and who sends them."""

    unit: Unit = Field(Unit.PARTY, description="What is hidden: a whole party, or one record.")
    rounds: Rounds = Field(10, description="Noisy sums of updates in all.")
    clipping_norm: float = Field(1.0, gt=0, description="The largest norm of one update.")
    damping: float = Field(0.5, gt=0, le=1, description="The part of an update that counts.")
    shards: int = Field(1, gt=0, description="Parts of a party's records, each with an update.")
    averaged_shards: bool = Field(
        False, description="Shards guess the party's factor together, not each its own."
    )
    sampling_rate: float | None = Field(
        None, gt=0, le=1, description="A party's chance to take part in a round, kept secret."
    )
    subset: int | None = Field(
        None, gt=0, description="How many parties are asked in a round, drawn publicly."
    )
    precision_weight: float = Field(
        1.0, gt=0, description="Weighs precisions against shifts before both are clipped."
    )
    full_covariance: bool = Field(False, description="A full covariance of q, or its diagonal.")
    climb: Climb = Field(default_factory=Climb, description="How a party improves q on its own.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.unit is Unit.PARTY and self.shards != 1:
            raise InvalidInput(f"shards = {self.shards}: to hide a whole party it has one shard")
        sampled = self.sampling_rate is not None or self.subset is not None
        both = self.sampling_rate is not None and self.subset is not None
        if sampled and (self.unit is Unit.RECORD or both):
            raise InvalidInput(
                "parties are sampled by `sampling_rate` or by `subset`, and for unit PARTY"
            )
        if self.published and (sampled or self.unit is not Unit.PARTY):
            raise InvalidInput(
                "published = true: Algorithm 3 hides whole parties, all of which take part in "
                "every round; leave sampling_rate and subset out, and hide a party"
            )
        return self

    @property
    def step(self) -> float:
        """What the server multiplies a sum of updates by: ρ, shared among averaged shards."""
        return self.damping / self.shards if self.averaged_shards else self.damping

    def turns(self, facts: Facts) -> Schedule:
        """Who is asked when: a public random subset of fixed size in each round."""
        parties = facts.parties
        if self.subset is None or self.subset > parties:
            raise InvalidInput(
                f"subset = {self.subset!r} of {parties} parties: it lies between 1 and all of them"
            )
        ranks = np.random.default_rng(self.seed).random((self.rounds, parties)).argsort(axis=1)
        return Schedule(ranks.argsort(axis=1) < self.subset)


def resolve(
    config: ClippedUpdatesConfig,
    problem: BayesianProblem,
    facts: Facts,
    privacy: Privacy,
    trust: Trust,
) -> ClippedUpdatesConfig:
    """Nothing is left out; what clipped updates cannot promise is refused in words."""
    if privacy.relation is Relation.ADD_OR_REMOVE:
        raise InvalidInput(
            "clipped updates do not hide presence (add-or-remove): an absent party's share of "
            "noise is missing too, and a removed record regroups the shards; use zero-out or "
            "replace-one"
        )
    return config


def release(config: ClippedUpdatesConfig, problem: BayesianProblem, facts: Facts) -> Release:
    likelihood = problem.likelihood
    if config.full_covariance and likelihood.scores is None:
        raise InvalidInput(
            f"a full covariance needs a likelihood of a score; {likelihood.name!r} is sampled: "
            "use full_covariance = False"
        )
    size = packed_size(likelihood.size(facts.features), config.full_covariance)
    return Release(
        ClippedUpdate(config.clipping_norm, size, config.unit, config.shards),
        config.rounds,
        Everyone() if config.sampling_rate is None else Poisson(config.sampling_rate),
        turns=None if config.subset is None else config.turns,
        local_steps=_with_own_noise(config, size, facts) if config.published else None,
    )


def _with_own_noise(config: ClippedUpdatesConfig, size: int, facts: Facts) -> LocalSteps:
    """One noisy release, which the party keeps and reports as it is."""
    step = power_of_two_step(config.clipping_norm, size, facts.parties)
    return LocalSteps(1, step, _LONGEST * config.clipping_norm)


def suggest(problem: BayesianProblem, rows: RowScale) -> dict[str, Any]:
    """For a line with normal errors a full covariance: a party's optimum is then exact."""
    return {"full_covariance": True} if problem.likelihood.exact else {}


def build(
    config: ClippedUpdatesConfig, problem: BayesianProblem, facts: Facts, priced: Priced
) -> Algorithm:
    """A party's own state are its shards' factors (k, p), packed and without noise: private. No
    shard's factor depends on another's records, or one record would move all updates of later
    rounds."""
    weight, full, likelihood = config.precision_weight, config.full_covariance, problem.likelihood
    start = start_of(problem, likelihood.size(facts.features), full)
    size = len(start.shift)

    def to_vector(factor: Natural) -> Any:
        return pack(Natural(factor.shift, weight * factor.precision))

    def from_vector(vector: Any) -> Natural:
        factor = unpack(vector, size, full)
        return Natural(factor.shift, factor.precision / weight)

    def update(public: PublicPosterior, factor: Any, data: Any, mask: Any, key: Any) -> Any:
        """One shard's change of its factor, as a vector."""
        cavity = quotient(public.q, from_vector(factor))
        times = config.shards if config.averaged_shards else 1
        best = local_optimum(
            likelihood, cavity, public.q, data, mask, config.climb, key, weight=times
        )
        # Nobody's records add nothing, exactly: what a climb makes of rounding errors is not sent.
        return jnp.where(jnp.any(mask), to_vector(quotient(best, public.q)), 0.0)

    def local(public: PublicPosterior, factors: Any, records: Records) -> tuple[Any, Any]:
        data, masks = _in_shards(*finite_records(records.columns, records.present), config.shards)
        key = jax.random.fold_in(jax.random.key(config.seed), public.round)
        changes = jax.vmap(update, in_axes=(None, 0, 0, 0, None))(public, factors, data, masks, key)
        return factors, changes

    def merge(server: PublicPosterior, sums: Aggregate) -> PublicPosterior:
        moved = from_vector(config.step * sums.total)
        return PublicPosterior(product(server.q, moved), server.round + 1)

    nothing = jnp.zeros((config.shards, packed_size(size, full)), jnp.float32)
    if config.published:
        return Algorithm(
            init=lambda: (PublicPosterior(start, jnp.int32(0)), NoisyFactor(nothing, nothing[0])),
            ask=lambda server: PublicPosterior(usable(config, problem, server.q)[0], server.round),
            local=lambda public, own, records: (own, local(public, own.factors, records)[1]),
            merge=merge,
            result=lambda server: answer_of(config, problem, server.q),
            absorb=lambda public, own, noisy: NoisyFactor(own.factors, noisy),
            report=lambda own: own.sent,
            settle=lambda own, _, accepted: NoisyFactor(
                own.factors + jnp.where(accepted, config.damping * own.sent, 0.0), 0 * own.sent
            ),
        )
    return Algorithm(
        init=lambda: (PublicPosterior(start, jnp.int32(0)), nothing),
        ask=lambda server: PublicPosterior(usable(config, problem, server.q)[0], server.round),
        local=local,
        merge=merge,
        result=lambda server: answer_of(config, problem, server.q),
        settle=lambda factors, sent, accepted: (
            factors + jnp.where(accepted, config.damping * sent, 0.0)
        ),
    )


class NoisyFactor(NamedTuple):
    """A party's, of Algorithm 3 as printed: its factor, and what it sent last; both are functions
    of its messages."""

    factors: Any
    sent: Any


def printed_noise(
    config: ClippedUpdatesConfig,
    problem: BayesianProblem,
    facts: Facts,
    privacy: Privacy,
    sensitivity: Sensitivity,
) -> Gaussian:
    """A party's share of a noise that would do for the sum, if parties kept none of it in mind."""
    distance = sensitivity.under(privacy.relation).in_norm("l2")
    together = distance * math.sqrt(config.rounds) / gaussian.mu_for(privacy.epsilon, privacy.delta)
    return Gaussian(together / math.sqrt(facts.parties))


def _in_shards(data: Any, mask: Any, shards: int) -> tuple[Any, Any]:
    """Rows dealt to shards by their number: (n, ...) -> (k, ceil(n / k), ...), and masks."""
    rows = mask.shape[0]
    length = math.ceil(rows / shards)

    def dealt(column: Any) -> Any:
        padded = jnp.pad(column, [(0, length * shards - rows)] + [(0, 0)] * (column.ndim - 1))
        return jnp.swapaxes(padded.reshape(length, shards, *column.shape[1:]), 0, 1)

    return tuple(dealt(jnp.asarray(column)) for column in data), dealt(jnp.asarray(mask))


CLIPPED_UPDATES = AlgorithmKind(
    "pvi-clipped-updates",
    "a posterior by clipped changes of factors",
    ClippedUpdatesConfig,
    BayesianProblem,
    release,
    build,
    resolve,
    units=(Unit.PARTY,),
    sends="noisy sums of clipped changes of posteriors",
    suggest=suggest,
    printed=Publication(
        "Sharma 2019, Algorithm 3",
        "a party's state holds its own secret noise, which it then corrects",
        printed_noise,
        trusts=frozenset({Trust.LOCAL}),
        simulations_only=True,
    ),
)
