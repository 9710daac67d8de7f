"""Bayesian linear regression from clipped sufficient statistics.

y = x·θ + N(0, σ_e²) with a Gaussian prior needs two sums over all records, Σ xxᵀ and Σ xy:

    precision = 1/σ_θ² + Σ xxᵀ / σ_e²,        shift = precision · mean = μ_θ/σ_θ² + Σ xy / σ_e²

Each record's (xy, xxᵀ) is one vector, clipped to norm C as a whole; the sum is released with
Gaussian noise, or discrete Laplace noise for pure epsilon. Unit: record; no sampling. σ =
C sqrt(T) / μ*(ε, δ) for T releases if a record is added, removed or blanked, twice that if one is
replaced (Dong, Roth and Su 2022).

One-shot regression, preferred, releases the sum once: it does not depend on q, so every further
release buys the same thing again, and partitioned inference on it is post-processing.

Iterated regression is the published algorithm (Sharma 2019): T rounds in which party m's
factor follows its fresh noisy statistic s_m,

    t_m ← t_m + η (s_m / σ_e² - t_m),    q = prior · Π t_m.

With noise at every party (`LOCAL`) the server keeps all factors. They are functions of released
messages only, so the T releases compose plainly against everyone; a factor kept with a *share*
of secret noise would break that. Otherwise the server keeps the sum of the factors.

Parties that never answered are missing from q; if no round could be opened, q is the prior. Noise
can make a precision negative. Raising it in every statistic, as published, or in every local factor
biases the sum upwards; raising it once, after the sum, does not.
"""

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from unisono.algorithms.descent import Rounds
from unisono.algorithms.noise_aware import aware_of_statistics
from unisono.algorithms.posterior import PosteriorAnswer
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.errors import InvalidInput
from unisono.problems.bayesian import GaussianRegression
from unisono.problems.gaussian_family import (
    Natural,
    pack,
    packed_size,
    power,
    product,
    project,
    unpack,
)
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind, RowScale
from unisono.releases.bounds import ClippedSum
from unisono.releases.release import Priced, Release


class OneShotRegressionConfig(AlgorithmConfig):
    """One release; delta = 0 gives pure epsilon."""

    clipping_norm: float = Field(
        1.0, gt=0, description="The largest norm of one record's (xy, xxᵀ)."
    )


class IteratedRegressionConfig(OneShotRegressionConfig):
    """The published iteration."""

    rounds: Rounds = Field(10, description="Noisy releases in all; the budget covers them.")
    damping: float = Field(0.5, gt=0, le=1, description="How far a factor follows a release.")
    placement: Literal["statistic", "local", "sum"] = Field(
        "sum", description="Where a negative precision is raised; without bias in the sum only."
    )
    each: bool | None = Field(
        None, description="One factor for each party; left out: where trust is local."
    )


def resolve(
    config: IteratedRegressionConfig,
    problem: GaussianRegression,
    facts: Facts,
    privacy: Privacy,
    trust: Trust,
) -> IteratedRegressionConfig:
    """Whether the server sees, and keeps, the factor of every party."""
    each = trust is Trust.LOCAL if config.each is None else config.each
    if not each and config.placement != "sum":
        raise InvalidInput(
            f"placement = {config.placement!r} under {trust!s}: the server sees no single "
            "statistic or factor there; choose 'sum', which is also the one without bias"
        )
    return config.model_copy(update={"each": each})


def release_once(
    config: OneShotRegressionConfig, problem: GaussianRegression, facts: Facts
) -> Release:
    return Release(_bound(config, facts))


def release_often(
    config: IteratedRegressionConfig, problem: GaussianRegression, facts: Facts
) -> Release:
    return Release(_bound(config, facts), config.rounds, each=bool(config.each))


def _bound(config: OneShotRegressionConfig, facts: Facts) -> ClippedSum:
    return ClippedSum(config.clipping_norm, packed_size(facts.features, True), pure="laplace")


def suggest(problem: GaussianRegression, rows: RowScale) -> dict[str, Any]:
    """Nothing is clipped: |(xy, xxᵀ)|² is at most d + d² where no number is beyond 1."""
    return {"clipping_norm": math.sqrt(rows.features**2 + rows.features)}


def build_once(
    config: OneShotRegressionConfig, problem: GaussianRegression, facts: Facts, priced: Priced
) -> Algorithm:
    """An iteration of one round that follows its only release all the way."""
    once = IteratedRegressionConfig(
        clipping_norm=config.clipping_norm, rounds=1, damping=1.0, placement="sum", each=False
    )
    return build_often(once, problem, facts, priced)


def build_often(
    config: IteratedRegressionConfig, problem: GaussianRegression, facts: Facts, priced: Priced
) -> Algorithm:
    kept, size = facts.parties if config.each else 1, facts.features

    def seen_in(vector: Any) -> Natural:
        """The factor that a released statistic stands for."""
        return power(unpack(vector, size, full=True), problem.noise_std**-2)

    def merge(factors: Natural, sums: Aggregate) -> Natural:
        heard = sums.total if config.each else sums.total[None]
        arrived = sums.present if config.each else jnp.ones(1, bool)
        moved = jax.vmap(lambda old, new: damped(config, old, new))(
            factors, jax.vmap(seen_in)(heard)
        )
        return Natural(
            jnp.where(arrived[:, None], moved.shift, factors.shift),
            jnp.where(arrived[:, None, None], moved.precision, factors.precision),
        )

    def result(factors: Natural) -> PosteriorAnswer:
        total = Natural(*(np.asarray(part, np.float64).sum(0) for part in factors))
        raised, floored = project(total, 0.0)
        return PosteriorAnswer(*product(problem.prior(size, full=True), raised), floored)

    return Algorithm(
        init=lambda: (Natural(jnp.zeros((kept, size)), jnp.zeros((kept, size, size))), None),
        ask=lambda factors: (),
        local=lambda public, own, records: (own, jax.vmap(pack)(record_factors(*records.columns))),
        merge=merge,
        result=result,
    )


def record_factors(features: Any, labels: Any) -> Natural:
    """Every record's (xy, xxᵀ): shift (n, d), precision (n, d, d); σ_e² is divided out later."""
    return Natural(features * labels[:, None], features[:, :, None] * features[:, None, :])


def damped(config: IteratedRegressionConfig, old: Natural, seen: Natural) -> Natural:
    """One factor's step towards what was seen of its party."""
    if config.placement == "statistic":
        seen = project(seen, 0.0)[0]
    moved = product(power(old, 1 - config.damping), power(seen, config.damping))
    return project(moved, 0.0)[0] if config.placement == "local" else moved


ONE_SHOT_REGRESSION = AlgorithmKind(
    "one-shot-regression",
    "a linear regression's posterior from one noisy release",
    OneShotRegressionConfig,
    GaussianRegression,
    release_once,
    build_once,
    sends="noisy sums of products of all records' columns",
    unit_rows=False,
    noise_aware=aware_of_statistics,
    suggest=suggest,
)
ITERATED_REGRESSION = AlgorithmKind(
    "iterated-regression",
    "the same from many releases, as published; to compare",
    IteratedRegressionConfig,
    GaussianRegression,
    release_often,
    build_often,
    resolve,
    sends="noisy sums of products of all records' columns",
    unit_rows=False,
    suggest=suggest,
)
