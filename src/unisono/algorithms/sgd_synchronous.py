"""SGD2: T rounds of noisy full gradients, projected onto a ball or another convex set.

    G_t     = sum_j (sum over S_j of clip_L(w_j grad l(θ_t; d)) + noise_j)  +  n Δ θ_t
    θ_{t+1} = Π_C(θ_t - η_t G_t),        C of diameter |C|, within R of zero (`projections`)

The loss is summed, not averaged, over the n records. Replace-one sensitivity of a message is 2 L,
so σ = 2 L sqrt(T) / μ*(ε, δ). `LOCAL` is the protocol as published: every party adds σ, the sum has
m σ². Under a secure sum the total is σ² m / h: sqrt(m) less noise for the same guarantee.

Step sizes (p parameters, V the variance of the noise in a coordinate of the sum, L' = L + Δ R):

    convex (Δ = 0)           η   = |C| / sqrt(T (n² L'² + p V)),  plain average of the iterates
    strongly convex (Δ > 0)  η_t = 2 / (n Δ (t + 1)), t = 1, ...,  average with weights t

(Shamir and Zhang 2013; Lacoste-Julien, Schmidt and Bach 2012.) Δ is the regularisation: its
gradient is added after the noise, which costs nothing. The write-up returns the last iterate
(`iterate`), for which its bound was not shown; the average is what the bounds hold for.

Every record weighs w_j = 1, or n / (m n_j) where all parties are to weigh the same (`objectives`):
weights come before the clip, which is `lipschitz` times the largest of them. Their sum is n either
way, so the steps are the same.

As printed, every round is (ε / sqrt(T log(1/δ)), δ / T)-private by the classical Gaussian, and
strong composition is to give (ε, δ); its terms give sqrt(2) ε and more, at 2 δ. The noise, which
`published = true` takes, is several times what ε takes all the same.
"""

import math
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
from pydantic import Field

from unisono.accounting import published_gaussian
from unisono.algorithms.descent import Rounds
from unisono.algorithms.objectives import (
    ObjectiveConfig,
    effective_records,
    largest_weight,
    mean_of,
    record_weight,
)
from unisono.algorithms.projections import ProjectedConfig, with_shape
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.events import Gaussian
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Sensitivity
from unisono.core.trust import Trust
from unisono.problems.linear import LinearLoss
from unisono.releases.algorithm import (
    Algorithm,
    AlgorithmKind,
    Publication,
    PublishedConfig,
    Records,
    UtilityLaw,
)
from unisono.releases.release import Priced, Release
from unisono.releases.scaled_sum import ScaledSum


class SynchronousSgdConfig(ObjectiveConfig, ProjectedConfig, PublishedConfig):
    """Projected noisy gradients; `strong_convexity` = 0 chooses the convex regime."""

    rounds: Rounds = Field(100, description="Noisy gradients in all; the budget covers them.")
    lipschitz: float = Field(1.0, gt=0, description="The bound of one record's gradient.")
    strong_convexity: float = Field(0.0, ge=0, description="Of the loss; 0 unless regularised.")
    iterate: Literal["average", "last"] = Field(
        "average", description="The result: the average of all iterates, or the last one."
    )

    def steepness(self, parameters: int) -> float:
        """L': the largest gradient of one record's loss with its regulariser on the set."""
        return self.lipschitz + self.strong_convexity * self.set_of(parameters).largest_norm


class SynchronousSgdState(NamedTuple):
    """The server's: parameters, (weighted) average of the iterates, round."""

    parameters: Any
    average: Any
    round: Any


def convex_step(config: SynchronousSgdConfig, records: int, p: int, variance: float) -> float:
    """η = |C| / sqrt(T (n² L'² + p V))."""
    square = (records * config.steepness(p)) ** 2 + p * variance
    return config.set_of(p).diameter / math.sqrt(config.rounds * square)


def resolve(
    config: SynchronousSgdConfig, problem: LinearLoss, facts: Facts, privacy: Privacy, trust: Trust
) -> SynchronousSgdConfig:
    return with_shape(config, problem, facts)


def release(config: SynchronousSgdConfig, problem: LinearLoss, facts: Facts) -> Release:
    norm = config.lipschitz * largest_weight(config.objective, facts)
    bound = ScaledSum(norm, facts.features, problem.outputs)
    counted = effective_records(config.objective, facts)
    return Release(bound, config.rounds, effective_records=counted)


def build(
    config: SynchronousSgdConfig, problem: LinearLoss, facts: Facts, priced: Priced
) -> Algorithm:
    n, p = sum(facts.records), problem.parameters(facts.features)
    project = config.set_of(p).project
    convex = jnp.float32(convex_step(config, n, p, priced.noise_std**2))
    zero = project(jnp.zeros(problem.shape(facts.features), jnp.float32))

    def weighted(public: Any, own: None, records: Records) -> tuple[None, Any]:
        weight = record_weight(config.objective, facts, records.size)
        features, labels = records.columns
        return own, (weight * problem.coefficients(public, features, labels), features)

    def merge(state: SynchronousSgdState, sums: Aggregate) -> SynchronousSgdState:
        parameters, average, number = state
        # Dropouts: the survivors' gradient, scaled to all n records.
        total = n * mean_of(config.objective, facts, sums)
        gradient = total.reshape(parameters.shape) + n * config.strong_convexity * parameters
        step, weight = convex, 1.0 / (number + 1)
        if config.strong_convexity:
            step = 2.0 / (n * config.strong_convexity * (number + 2))
            weight = 2.0 / (number + 2)
        average = average + weight * (parameters - average)
        after = project(parameters - step * gradient)
        return SynchronousSgdState(after, average, number + 1)

    return Algorithm(
        init=lambda: (SynchronousSgdState(zero, zero, jnp.int32(0)), None),
        ask=lambda state: state.parameters,
        local=weighted,
        merge=merge,
        result=lambda state: state.average if config.iterate == "average" else state.parameters,
        within=project,
    )


def printed_noise(
    config: SynchronousSgdConfig,
    problem: LinearLoss,
    facts: Facts,
    privacy: Privacy,
    sensitivity: Sensitivity,
) -> Gaussian:
    """Theorem 3, read literally."""
    sigma = published_gaussian.published_synchronous_sgd_sigma(
        privacy.epsilon,
        privacy.delta,
        lipschitz=config.lipschitz * largest_weight(config.objective, facts),
        rounds=config.rounds,
    )
    return Gaussian(sigma)


SYNCHRONOUS_SGD = AlgorithmKind(
    "sgd-synchronous",
    "projected noisy gradients with proved step sizes (SGD2)",
    SynchronousSgdConfig,
    LinearLoss,
    release,
    build,
    resolve,
    sends="noisy sums of all records' gradients",
    laws={
        "classification": UtilityLaw(2.87, 0.695, 3.1, 2.61),
        "regression": UtilityLaw(7560.0, 0.537, 2.58, 2.74),
    },
    printed=Publication(
        "the write-up of SGD1 and SGD2, theorem 3",
        "its parts compose to more than epsilon, and its noise is more than enough",
        printed_noise,
    ),
)
