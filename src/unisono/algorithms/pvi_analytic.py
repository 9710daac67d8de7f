"""Bayesian linear regression from clipped sufficient statistics (003 eq. 4.19-4.21).

y = x·θ + N(0, σ_e²) with a Gaussian prior needs two sums over all records, Σ xxᵀ and Σ xy:

    precision = 1/σ_θ² + Σ xxᵀ / σ_e²,        shift = precision · mean = μ_θ/σ_θ² + Σ xy / σ_e²

Each record's (xy, xxᵀ) is one vector, clipped to norm C as a whole (4.19); the sum is released
with Gaussian noise. Unit: record; no sampling. σ = C sqrt(T) / μ*(ε, δ) for T releases if a record
is added, removed or blanked, twice that if one is replaced (INVENTORY 2.5).

`one_shot_regression`, preferred, releases the sum once: it does not depend on q, so every further
release buys the same thing again (E003-25), and partitioned inference on it is post-processing.

`iterated_regression` is the published algorithm: T rounds in which party m's factor follows its
fresh noisy statistic s_m,    t_m ← t_m + η (s_m / σ_e² - t_m),    q = prior · Π t_m.
With noise at every party (`LOCAL`) the server keeps all factors. They are functions of released
messages only, so the T releases compose plainly against everyone; a factor kept with a *share*
of secret noise would break that (E003-16). Otherwise the server keeps the sum of the factors.

Parties that never answered are missing from q; if no round could be opened, q is the prior. Noise
can make a precision negative. Raising it in every statistic (4.20) or every local factor
biases the sum upwards; raising it once, after the sum, does not (E003-22).
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.algorithms.posterior import Answer, own_epsilon, positive_epsilons
from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.defaults import RELATION
from unisono.core.events import Event, positive
from unisono.core.privacy import Privacy
from unisono.core.trust import Relation, Trust
from unisono.core.values import Contribution, clipped_sum
from unisono.errors import InvalidInput
from unisono.problems.gaussian_family import (
    Natural,
    pack,
    packed_size,
    power,
    prior,
    product,
    project,
    unpack,
)
from unisono.releases.bounds import ClippedSum
from unisono.releases.bounds import power_of_two_step as choose_grid
from unisono.releases.release import Release, price

PLACEMENTS = ("statistic", "local", "sum")


class _StatisticsSum(ClippedSum):
    """Sums of (xy, xxᵀ), which are few numbers: Laplace noise for pure epsilon."""

    pure = "laplace"


@dataclass(frozen=True)
class Settings:
    """What the parties agree on; `epsilon` and `delta` hold for the whole run.

    `noise_std` is σ_e, the spread of targets about the line; the prior is N(prior_mean,
    prior_variance) in every coordinate; `clip` bounds the norm of a record's (xy, xxᵀ).
    `epsilons` gives every party its own, under trust LOCAL.
    """

    epsilon: float
    delta: float
    clip: float = 1.0
    noise_std: float = 1.0
    prior_mean: float = 0.0
    prior_variance: float = 1.0
    relation: Relation = RELATION
    epsilons: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        Privacy(self.epsilon, self.delta, self.relation)
        positive_epsilons(self.epsilons)
        positive(clip=self.clip, noise_std=self.noise_std)
        prior(1, self.prior_mean, self.prior_variance)


@dataclass(frozen=True)
class IteratedSettings(Settings):
    """Also the number of rounds T, the damping η, and where a negative precision is raised.

    `placement` is "statistic" (eq. 4.20), "local" (the damped local factor) or "sum" (ours).
    """

    rounds: int = 10
    damping: float = 0.5
    placement: str = "sum"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(rounds=self.rounds, damping=self.damping)
        if self.damping > 1:
            raise InvalidInput(
                f"damping = {self.damping!r} steps past the new factor: choose one in (0, 1]"
            )
        if self.placement not in PLACEMENTS:
            raise InvalidInput(
                f"placement = {self.placement!r}: choose one of {', '.join(PLACEMENTS)}"
            )


def one_shot_regression(settings: Settings) -> Algorithm:
    """The posterior from one release, under every trust."""
    plan = IteratedSettings(**asdict(settings), rounds=1, damping=1.0)
    return _regression("one-shot-regression", settings, plan, "sum", frozenset(Trust))


def iterated_regression(settings: IteratedSettings, trust: Trust = Trust.LOCAL) -> Algorithm:
    """The published iteration, planned for one trust; see the module's description."""
    if trust is not Trust.LOCAL and settings.placement != "sum":
        raise InvalidInput(
            f"placement = {settings.placement!r} under {trust!s}: the server sees no single "
            "statistic or factor there; choose 'sum', which is also the one without bias"
        )
    combine = "each" if trust is Trust.LOCAL else "sum"
    return _regression("iterated-regression", settings, settings, combine, frozenset({trust}))


def _regression(
    name: str, agreed: Settings, plan: IteratedSettings, combine: Any, trusts: frozenset[Trust]
) -> Algorithm:
    privacy = Privacy(plan.epsilon, plan.delta, plan.relation)

    def grid(facts: Facts, trust: Trust) -> float:
        return choose_grid(plan.clip, packed_size(facts.features, True), sum(facts.records))

    def promised(privacy: Privacy, facts: Facts, trust: Trust) -> Event:
        sums = Release(_StatisticsSum(plan.clip, packed_size(facts.features, True)), plan.rounds)
        return price(sums, privacy, facts, trust).event

    def event(facts: Facts, trust: Trust) -> Event:
        return promised(privacy, facts, trust)

    def own_event(facts: Facts, trust: Trust, party: int) -> Event:
        own = replace(privacy, epsilon=own_epsilon(plan.epsilons, facts.parties, party))
        return promised(own, facts, trust)

    def init(facts: Facts) -> tuple[Natural, None]:
        kept, size = facts.parties if combine == "each" else 1, facts.features
        zero = Natural(jnp.zeros((kept, size)), jnp.zeros((kept, size, size)))
        return zero, None

    def local(
        facts: Facts, public: Any, party: None, data: Any, mask: Any
    ) -> tuple[None, Contribution]:
        rows = jax.vmap(pack)(record_factors(*data))
        step, hides_presence = grid(facts, Trust.LOCAL), not facts.exact_sizes
        return party, clipped_sum(rows, plan.clip, step, mask, hides_presence)

    def merge(factors: Natural, aggregate: Aggregate) -> Natural:
        each = combine == "each"
        heard = aggregate.total if each else aggregate.total[None]
        arrived = aggregate.present if each else jnp.ones(1, bool)
        seen = jax.vmap(lambda vector: _likelihood(plan, vector, factors.shift.shape[-1]))(heard)
        moved = jax.vmap(lambda old, new: damped(plan, old, new))(factors, seen)
        return Natural(
            jnp.where(arrived[:, None], moved.shift, factors.shift),
            jnp.where(arrived[:, None, None], moved.precision, factors.precision),
        )

    def result(factors: Natural) -> Answer:
        total = Natural(*(np.asarray(part, np.float64).sum(0) for part in factors))
        raised, floored = project(total, 0.0)
        start = prior(len(total.shift), plan.prior_mean, plan.prior_variance, full=True)
        return Answer(*product(start, raised), floored)

    return Algorithm(
        name=name,
        settings=asdict(agreed),
        trusts=trusts,
        combine=combine,
        rounds=plan.rounds,
        grid=grid,
        event=event,
        init=init,
        ask=lambda factors: (),
        local=local,
        settle=lambda party, accepted: party,
        merge=merge,
        result=result,
        reach=lambda facts: 1.01 * plan.clip * sum(facts.records),
        own_event=own_event if plan.epsilons else None,
    )


def record_factors(features: Any, labels: Any) -> Natural:
    """Every record's (xy, xxᵀ): shift (n, d), precision (n, d, d); σ_e² is divided out later."""
    return Natural(features * labels[:, None], features[:, :, None] * features[:, None, :])


def damped(plan: IteratedSettings, old: Natural, seen: Natural) -> Natural:
    """One factor's step towards what was seen of its party."""
    if plan.placement == "statistic":
        seen = project(seen, 0.0)[0]
    moved = product(power(old, 1 - plan.damping), power(seen, plan.damping))
    return project(moved, 0.0)[0] if plan.placement == "local" else moved


def _likelihood(plan: IteratedSettings, vector: Any, features: int) -> Natural:
    return power(unpack(vector, features, full=True), plan.noise_std**-2)
