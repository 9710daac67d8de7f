"""Objective perturbation with an approximate minimum: noise inside the objective.

    θ_j = argmin  sum_i l(θ; x_i, y_i) + (n_j λ / 2) ||θ||² + b_j·θ,      b_j ~ N(0, σ² I)
    out = sum_j n_j (round(θ~_j) + N(0, σ_out² I)) / sum_j n_j

(Chaudhuri, Monteleoni and Sarwate 2011; Kifer, Smith and Thakurta 2012; Iyengar et al. 2019.) Every
party does this with its own records; the average of the results, weighted by public sizes, or with
the same weight for every party (`objectives`), is post-processing. Noise inside one objective
cannot come in shares of a secure sum, so several parties are not pooled: trust LOCAL only. The
guarantee is proved in `releases.perturbed_minimiser`.

The ridge λ, where it is left out, lets the curvature of one record tell ℓ = epsilon / 16.
"""

import math

import jax.numpy as jnp
from pydantic import Field

from unisono.algorithms.objectives import ObjectiveConfig
from unisono.core import algorithm as engine
from unisono.core.algorithm import Facts
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.problems.linear import LinearLoss, MarginLoss
from unisono.releases.algorithm import Algorithm, AlgorithmKind, rounded
from unisono.releases.perturbed_minimiser import PerturbedMinimiser
from unisono.releases.release import Priced, Release


class ObjectivePerturbationConfig(ObjectiveConfig):
    """One noisy minimiser of each party; their average."""

    regularisation: float | None = Field(
        None, gt=0, description="Pulls weights towards zero. Left out: a rule of public facts."
    )
    tolerance: float = Field(
        1e-5, gt=0, le=1, description="How exactly a party minimises, relative to one record."
    )


def resolve(
    config: ObjectivePerturbationConfig,
    problem: LinearLoss,
    facts: Facts,
    privacy: Privacy,
    trust: Trust,
) -> ObjectivePerturbationConfig:
    """The ridge of the published rule, where none is given."""
    if config.regularisation is not None:
        return config
    ridge = problem.function.smoothness / (min(facts.records) * math.expm1(privacy.epsilon / 16))
    return config.model_copy(update={"regularisation": rounded(ridge)})


def release(config: ObjectivePerturbationConfig, problem: LinearLoss, facts: Facts) -> Release:
    assert config.regularisation is not None  # resolved
    bound = PerturbedMinimiser(problem, facts.features, config.regularisation, config.tolerance)
    return Release(bound, rounds=1, each=True, trusts=frozenset({Trust.LOCAL}))


def build(
    config: ObjectivePerturbationConfig, problem: LinearLoss, facts: Facts, priced: Priced
) -> Algorithm:
    shape, pooled = problem.shape(facts.features), config.objective == "pooled"
    sizes = jnp.asarray(facts.records if pooled else (1,) * facts.parties, jnp.float32)

    def average(_: object, models: engine.Aggregate) -> object:
        weights = jnp.where(models.present, sizes, 0.0)
        return (weights @ models.total / jnp.maximum(weights.sum(), 1.0)).reshape(shape)

    return Algorithm(
        init=lambda: (jnp.zeros(shape, jnp.float32), None),
        ask=lambda state: state,
        local=lambda public, own, records: (own, records.columns),
        merge=average,
        result=lambda state: state,
    )


OBJECTIVE_PERTURBATION = AlgorithmKind(
    "objective-perturbation",
    "one minimiser of each party, with noise inside its objective",
    ObjectivePerturbationConfig,
    MarginLoss,
    release,
    build,
    resolve,
    trusts=frozenset({Trust.LOCAL}),
)
