"""Linear regression from sufficient statistics, with a ridge that follows the noise.

Squares are minimised by two sums over all records, S = Σ xxᵀ and s = Σ x t. They are released once,
as one vector (s, S) of every record, which has a norm of at most sqrt 2 for rows in the unit ball
and |t| <= 1, with Gaussian noise, or discrete Laplace noise for pure epsilon. Then

    θ = (S + κ I)⁻¹ s,     κ = n λ where a ridge λ is given, else max(0, ρ - λ_min(S))

Noise of variance v on the diagonal of S, and v / 2 beside it, has no eigenvalue beyond about
ρ = sqrt(2 d v) (Wigner's semicircle): with this κ what is inverted stands out of its noise, and
where data are many κ = 0. So much is "adaptive" of sufficient statistics with a private λ_min (Wang
2018); here λ_min is read from S itself, whose noise has a public law, instead of being paid for.

Everything after the release is post-processing, and so are models of fewer columns: those named, or
so many as matter most by the same noisy sums (`feature_subsets`). Unit: record; no sampling.
"""

import math
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from unisono.algorithms.feature_subsets import Features, kept_places, require_places
from unisono.core.algorithm import Aggregate, Facts
from unisono.problems.gaussian_family import Natural, pack, packed_size, unpack
from unisono.problems.linear import SquaredLoss
from unisono.releases.algorithm import (
    Algorithm,
    AlgorithmConfig,
    AlgorithmKind,
    Records,
    UtilityLaw,
)
from unisono.releases.bounds import ClippedSum
from unisono.releases.release import Priced, Release

# |(x t, xxᵀ)| of a row in the unit ball and a target in [-1, 1].
NORM = math.sqrt(2)


class AdaptiveStatisticsConfig(AlgorithmConfig):
    """One release; delta = 0 gives pure epsilon."""

    regularisation: float | None = Field(
        None,
        ge=0,
        description="λ of λ/2 |θ|², added to the average loss; left out: as much as the noise of "
        "the sums asks for, which is none where data are many.",
    )
    features: Annotated[int, Field(ge=1)] | tuple[Annotated[int, Field(ge=0)], ...] | None = Field(
        None,
        description="Learn from so many columns, those that matter most by the noisy sums; or from "
        "these, by their places after encoding, from 0. Sums are of all columns, whichever are "
        "kept. Left out: all.",
    )


class SummedProducts(NamedTuple):
    """What was released: the packed sums (s, S), and of how many records."""

    sums: Any
    records: Any


def release(config: AdaptiveStatisticsConfig, problem: SquaredLoss, facts: Facts) -> Release:
    if isinstance(config.features, tuple):
        require_places(config.features, facts.features - 1)  # before anything is paid
    return Release(ClippedSum(NORM, packed_size(facts.features, True), pure="laplace"))


def build(
    config: AdaptiveStatisticsConfig, problem: SquaredLoss, facts: Facts, priced: Priced
) -> Algorithm:
    size = facts.features

    def local(public: Any, own: None, records: Records) -> tuple[None, Any]:
        rows, targets = records.columns
        return own, jax.vmap(pack)(
            Natural(rows * targets[:, None], rows[:, :, None] * rows[:, None, :])
        )

    def merge(state: SummedProducts, sums: Aggregate) -> SummedProducts:
        return SummedProducts(
            jnp.asarray(sums.total, jnp.float32), jnp.asarray(sums.records, jnp.float32)
        )

    def result(state: SummedProducts) -> np.ndarray:
        ridge, features = config.regularisation, config.features
        return minimiser(ridge, state, size, priced.noise_std, features)

    nothing = SummedProducts(jnp.zeros(packed_size(size, True), jnp.float32), jnp.float32(0))
    return Algorithm(
        init=lambda: (nothing, None),
        ask=lambda state: (),
        local=local,
        merge=merge,
        result=result,
    )


def minimiser(
    ridge: float | None,
    state: SummedProducts,
    size: int,
    noise_std: float,
    features: Features | None = None,
) -> Any:
    """θ (d,), the intercept last, from what was released."""
    factor = unpack(np.asarray(state.sums, np.float64), size, full=True)
    records = max(float(state.records), 1.0)
    kept = np.arange(size)
    if features is not None:
        values, vectors = _steadied(factor.precision, ridge, records, noise_std)
        kept = kept_places(features, (vectors * values) @ vectors.T, factor.shift, size - 1)
    matrix, vector = factor.precision[np.ix_(kept, kept)], factor.shift[kept]
    values, vectors = _steadied(matrix, ridge, records, noise_std)
    theta = np.zeros(size)
    theta[kept] = vectors @ ((vectors.T @ vector) / values)
    return theta.astype(np.float32)


def _steadied(
    matrix: np.ndarray, ridge: float | None, records: float, noise_std: float
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of S + κ I, none of them at zero or below, and eigenvectors."""
    values, vectors = np.linalg.eigh(matrix)
    if ridge is None:
        # Negative eigenvalues are noise: nothing is learnt in their directions.
        least = math.sqrt(2 * len(matrix)) * noise_std
        added = max(0.0, least - float(values.min()))
    else:
        values, added = np.maximum(values, 0.0), ridge * records
    return np.maximum(values + added, 1e-9), vectors


ADAPTIVE_STATISTICS = AlgorithmKind(
    "adaptive-statistics",
    "a line from one noisy release of sums of products",
    AdaptiveStatisticsConfig,
    SquaredLoss,
    release,
    build,
    sends="noisy sums of products of all records' columns",
    laws={"regression": UtilityLaw(33.5, 1.26, 2.47, 2.62)},
    afterwards=("regularisation", "features"),
)

__all__ = ["ADAPTIVE_STATISTICS", "NORM", "AdaptiveStatisticsConfig"]
