"""Output perturbation: one noisy average of local minimisers.

    θ_j   = argmin (1/n_j) sum_i l(θ; x_i, y_i) + (λ/2) ||θ||²     at party j, to tolerance τ_j
    θ     = (sum_j round(v_j θ_j) + noise) / sum_j v_j             one release, over those who came

with v_j = n_j / n_(1) for the pooled objective, n_(1) the smallest party: an average weighted by
public sizes. One record moves θ_j by at most 2 G / (n_j λ), hence v_j θ_j by 2 G / (n_(1) λ)
whatever the party (proved in `releases.minimiser`): the sum has the noise of equal weights, and
the average 2 G / (n λ) of it. Where all parties are to weigh the same (`objectives`) v_j = 1, and
the average has 2 G / (m n_(1) λ): the printed theorem, in which a small party makes the noise of
all.

Noise: Gaussian for (ε, δ) under every trust; for pure ε (δ = 0) l2-norm (gamma) noise where one
place adds all of it, discrete Laplace shares against the l1 sensitivity under a secure sum. As
printed (Chen 2019), every coordinate of the average has Laplace noise of scale 2 G / (m n_(1) λ ε),
which is in proportion to the l2 sensitivity: with `published = true` it runs, and is charged its
true cost, sqrt(p) ε.

The ridge λ, where it is left out, follows from the q of `descent`: b / q, which keeps the noise at
a length of about G / b. Of squares G is itself 1 + λ^(-1/2) (`releases.solver`), so that the noise
has a length of about λ^(-3/2) / q: there λ = (a q)^(-2/3) keeps it at a. b was set on Adult's
training file, a on synthetic planes.
"""

import math

import jax.numpy as jnp
from pydantic import Field

from unisono.algorithms.descent import signal
from unisono.algorithms.objectives import (
    DESCRIPTION,
    Objective,
    as_printed,
    effective_records,
)
from unisono.core import algorithm as engine
from unisono.core.algorithm import Facts
from unisono.core.events import Laplace
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Sensitivity
from unisono.core.trust import Trust
from unisono.problems.linear import LinearLoss
from unisono.releases.algorithm import (
    Algorithm,
    AlgorithmKind,
    Publication,
    PublishedConfig,
    UtilityLaw,
    rounded,
)
from unisono.releases.minimiser import Minimiser
from unisono.releases.release import Priced, Release

_BALANCE, _SQUARES = 0.3, 0.04


class OutputPerturbationConfig(PublishedConfig):
    """One noisy average of local minimisers; delta = 0 gives pure epsilon."""

    regularisation: float | None = Field(
        None,
        gt=0,
        description="Pulls weights towards zero; the noise is in proportion to 1 / it. Left out: a "
        "published rule of public facts.",
    )
    tolerance: float = Field(
        1e-3, gt=0, le=1, description="How exactly a party minimises, relative to one record."
    )
    # Part of every hash: its default is not what studies meant before there was a choice.
    objective: Objective = Field("pooled", description=DESCRIPTION)


def resolve(
    config: OutputPerturbationConfig,
    problem: LinearLoss,
    facts: Facts,
    privacy: Privacy,
    trust: Trust,
) -> OutputPerturbationConfig:
    """The ridge of the published rule, where none is given."""
    config = as_printed(config)
    if config.regularisation is not None:
        return config
    parameters = problem.parameters(facts.features)
    counted = effective_records(config.objective, facts)
    quality = signal(facts, trust, privacy, parameters, counted)
    bounded = math.isfinite(problem.function.lipschitz)
    ridge = _BALANCE / quality if bounded else (_SQUARES * quality) ** (-2 / 3)
    return config.model_copy(update={"regularisation": rounded(ridge)})


def release(config: OutputPerturbationConfig, problem: LinearLoss, facts: Facts) -> Release:
    assert config.regularisation is not None  # resolved
    bound = Minimiser(
        problem,
        facts.features,
        config.regularisation,
        config.tolerance,
        by_size=config.objective == "pooled",
    )
    counted = effective_records(config.objective, facts)
    return Release(bound, rounds=1, effective_records=counted)


def build(
    config: OutputPerturbationConfig, problem: LinearLoss, facts: Facts, priced: Priced
) -> Algorithm:
    shape, smallest = problem.shape(facts.features), min(facts.records)
    by_size = config.objective == "pooled"

    def average(_: object, sums: engine.Aggregate) -> object:
        weights = sums.records / smallest if by_size else sums.survivors
        mean = sums.total / jnp.maximum(weights, 1)
        return mean.reshape(shape).astype(jnp.float32)

    return Algorithm(
        init=lambda: (jnp.zeros(shape, jnp.float32), None),
        ask=lambda state: state,
        local=lambda public, own, records: (own, records.columns),
        merge=average,
        result=lambda state: state,
    )


def printed_noise(
    config: OutputPerturbationConfig,
    problem: LinearLoss,
    facts: Facts,
    privacy: Privacy,
    sensitivity: Sensitivity,
) -> Laplace:
    """The printed scale, of the sum of minimisers: m times that of their average. Where they are
    weighted by n_j / n_(1) the sum moves just as far."""
    bound = release(config, problem, facts).bound
    assert isinstance(bound, Minimiser)
    far = 2 * bound.steepness / (min(facts.records) * bound.regularisation)
    return Laplace(far / privacy.epsilon, bound.dimension)


OUTPUT_PERTURBATION = AlgorithmKind(
    "output-perturbation",
    "one noisy average of local minimisers; also for pure epsilon",
    OutputPerturbationConfig,
    LinearLoss,
    release,
    build,
    resolve,
    sends="the finished model only",
    laws={
        "classification": UtilityLaw(2.16, 0.444, 3.87, 3.26),
        "regression": UtilityLaw(1.4e8, 0.246, 1.96, 2.08),
    },
    printed=Publication(
        "Chen 2019, theorem on output perturbation",
        "its Laplace noise is in proportion to an L2 bound, and costs sqrt(p) times as much",
        printed_noise,
        pure=True,
    ),
)


__all__ = ["OUTPUT_PERTURBATION", "OutputPerturbationConfig"]
