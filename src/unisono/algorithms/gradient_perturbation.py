"""Gradient perturbation: T noisy full-gradient rounds.

    g_t     = sum over all parties and records of clip_C(w_j grad l(θ_t; record))  +  N(0, σ² I)
    v_{t+1} = m v_t + g_t / n + λ θ_t
    θ_{t+1} = θ_t - η v_{t+1}

The regulariser is added after the noise, and momentum and averaging of the last iterates are
post-processing. Every iterate may be public: the T releases compose exactly as one Gaussian with
μ = sqrt(T) Δ / σ, so σ = Δ sqrt(T) / μ*(ε, δ) (Dong, Roth and Su 2022). The prefix up to round t
costs sqrt(t/T) μ, by `prefix_epsilon`.

Every record weighs w_j = 1, or n / (m n_j) where all parties are to weigh the same (`objectives`).
Weights come before the clip, which is then `clipping_norm` times the largest weight: a record of
the smallest party is clipped to `clipping_norm` as before, and the noise follows it. Others are
clipped later, at n_j / n_(1) times that.

As printed (Chen 2019, after Jayaraman et al. 2018), σ² = 8 G² T log(1/δ) / (m n_(1) ε)² in the mean
of the parties' means: μ = ε / sqrt(2 log(1/δ)), which is ε only while ε <= ε*(δ), 7.97 at δ = 1e-5,
and beyond that more. It runs with `published = true`; of the pooled sum, m n_(1) is n.
"""

import math
from typing import Any

from pydantic import Field

from unisono.accounting import gaussian, published_gaussian
from unisono.algorithms.descent import (
    DescentConfig,
    Rounds,
    arrived,
    descend,
    quiet_rate,
    signal,
    stable_rate,
    start,
)
from unisono.algorithms.objectives import (
    ObjectiveConfig,
    as_printed,
    effective_records,
    largest_weight,
    mean_of,
    record_weight,
)
from unisono.core.algorithm import Facts
from unisono.core.events import Gaussian
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Sensitivity
from unisono.core.trust import Trust, Unit
from unisono.problems.linear import LinearLoss
from unisono.releases.algorithm import (
    Algorithm,
    AlgorithmKind,
    Publication,
    PublishedConfig,
    Records,
    UtilityLaw,
    rounded,
)
from unisono.releases.person_sum import gradient_sum
from unisono.releases.release import Priced, Release


class GradientPerturbationConfig(DescentConfig, ObjectiveConfig, PublishedConfig):
    """Noisy full gradients: see `DescentConfig`.

    Full gradients have no noise of sampling, so that more momentum arrives at the same place in
    half as many rounds (set on a held-out quarter of Adult's training file).
    """

    rounds: Rounds = Field(100, description="Noisy gradients in all; the budget covers them.")
    momentum: float = Field(0.95, ge=0, lt=1, description="How much of the last step is kept.")


def resolve(
    config: GradientPerturbationConfig,
    problem: LinearLoss,
    facts: Facts,
    privacy: Privacy,
    trust: Trust,
) -> GradientPerturbationConfig:
    """The learning rate of the published rule, where none is given."""
    config = as_printed(config)
    if config.learning_rate is not None or privacy.pure:
        return config
    counted = effective_records(config.objective, facts)
    quality = signal(facts, trust, privacy, problem.parameters(facts.features), counted)
    rate = min(stable_rate(config, problem, facts.group), quiet_rate(config, problem, quality))
    return config.model_copy(update={"learning_rate": rounded(rate)})


def release(config: GradientPerturbationConfig, problem: LinearLoss, facts: Facts) -> Release:
    norm = config.clipping_norm * largest_weight(config.objective, facts)
    bound = gradient_sum(norm, facts, problem.outputs)
    counted = effective_records(config.objective, facts)
    return Release(bound, config.rounds, effective_records=counted)


def build(
    config: GradientPerturbationConfig, problem: LinearLoss, facts: Facts, priced: Priced
) -> Algorithm:
    objective = config.objective

    def weighted(public: Any, own: None, records: Records) -> tuple[None, Any]:
        weight = record_weight(objective, facts, records.size)
        features, labels = records.columns
        return own, (weight * problem.coefficients(public, features, labels), features)

    return Algorithm(
        init=lambda: (start(problem.shape(facts.features)), None),
        ask=lambda state: state.parameters,
        local=weighted,
        merge=lambda state, sums: descend(config, state, mean_of(objective, facts, sums)),
        result=lambda state: arrived(config, state),
    )


def prefix_epsilon(privacy: Privacy, rounds: int, of: int) -> float:
    """Epsilon of the first `rounds` of `of` iterates at the same delta."""
    mu = gaussian.mu_for(privacy.epsilon, privacy.delta) * math.sqrt(rounds / of)
    return gaussian.epsilon(privacy.delta, mu)


def printed_noise(
    config: GradientPerturbationConfig,
    problem: LinearLoss,
    facts: Facts,
    privacy: Privacy,
    sensitivity: Sensitivity,
) -> Gaussian:
    """The printed σ, of the sum: n times that of the mean. A record's gradient, times its weight,
    is at most G n / (m n_(1)), or G where all records weigh the same."""
    sigma = published_gaussian.published_gradient_perturbation_sigma(
        privacy.epsilon,
        privacy.delta,
        parties=1,
        smallest_party=1,
        lipschitz=config.clipping_norm * largest_weight(config.objective, facts),
        rounds=config.rounds,
    )
    return Gaussian(sigma)


GRADIENT_PERTURBATION = AlgorithmKind(
    "gradient-perturbation",
    "noisy full gradients in many rounds",
    GradientPerturbationConfig,
    LinearLoss,
    release,
    build,
    resolve,
    units=(Unit.RECORD, Unit.PERSON),
    sends="noisy sums of all records' gradients",
    laws={
        "classification": UtilityLaw(1.48, 0.759, 2.5, 2.1),
        "regression": UtilityLaw(167.0, 0.783, 2.99, 3.18),
    },
    printed=Publication(
        "Chen 2019, theorem on gradient perturbation",
        "the lemmas it cites give more than epsilon, and it is false for large ones",
        printed_noise,
    ),
    weighs=True,
)
