"""Gradient perturbation: T noisy full-gradient rounds.

    g_t     = sum over all parties and records of clip_C(grad l(θ_t; record))  +  N(0, σ² I)
    v_{t+1} = m v_t + g_t / n + λ θ_t
    θ_{t+1} = θ_t - η v_{t+1}

The regulariser is added after the noise, and momentum and averaging of the last iterates are
post-processing. Every iterate may be public: the T releases compose exactly as one Gaussian with
μ = sqrt(T) Δ / σ, so σ = Δ sqrt(T) / μ*(ε, δ) (Dong, Roth and Su 2022). The prefix up to round t
costs sqrt(t/T) μ, by `prefix_epsilon`.
"""

import math

from unisono.accounting import gaussian
from unisono.algorithms.descent import (
    DescentConfig,
    arrived,
    descend,
    quiet_rate,
    signal,
    stable_rate,
    start,
)
from unisono.core.algorithm import Facts
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.problems.linear import LinearLoss
from unisono.releases.algorithm import Algorithm, AlgorithmKind, UtilityLaw, rounded
from unisono.releases.bounds import ClippedSum
from unisono.releases.release import Priced, Release


class GradientPerturbationConfig(DescentConfig):
    """Noisy full gradients: see `DescentConfig`."""


def resolve(
    config: GradientPerturbationConfig,
    problem: LinearLoss,
    facts: Facts,
    privacy: Privacy,
    trust: Trust,
) -> GradientPerturbationConfig:
    """The learning rate of the published rule, where none is given."""
    if config.learning_rate is not None or privacy.pure:
        return config
    quality = signal(facts, trust, privacy, problem.parameters(facts.features))
    rate = min(stable_rate(config, problem), quiet_rate(config, problem, quality))
    return config.model_copy(update={"learning_rate": rounded(rate)})


def release(config: GradientPerturbationConfig, problem: LinearLoss, facts: Facts) -> Release:
    return Release(
        ClippedSum(config.clipping_norm, problem.parameters(facts.features)), config.rounds
    )


def build(
    config: GradientPerturbationConfig, problem: LinearLoss, facts: Facts, priced: Priced
) -> Algorithm:
    gradients = problem.function.gradients
    return Algorithm(
        init=lambda: (start(problem.shape(facts.features)), None),
        ask=lambda state: state.parameters,
        local=lambda public, own, records: (own, gradients(public, *records.columns)),
        merge=lambda state, sums: descend(config, state, sums.total / sums.records),
        result=lambda state: arrived(config, state),
    )


def prefix_epsilon(privacy: Privacy, rounds: int, of: int) -> float:
    """Epsilon of the first `rounds` of `of` iterates at the same delta."""
    mu = gaussian.mu_for(privacy.epsilon, privacy.delta) * math.sqrt(rounds / of)
    return gaussian.epsilon(privacy.delta, mu)


GRADIENT_PERTURBATION = AlgorithmKind(
    "gradient-perturbation",
    "noisy full gradients in many rounds",
    GradientPerturbationConfig,
    LinearLoss,
    release,
    build,
    resolve,
    sends="noisy sums of all records' gradients",
    laws={
        "classification": UtilityLaw(1.36, 1.01, 1.88, 1.36),
        "regression": UtilityLaw(11.9, 1.49, 2.63, 2.49),
    },
)
