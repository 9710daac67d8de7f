"""k-means over several parties: T rounds of noisy sums and counts per cluster (Lloyd's algorithm).

Records are mapped by public bounds to z in [-1, 1]^d / sqrt(d), hence into the unit ball. Every
round releases one vector: for each cluster c the sum over its records of (1, z),

    (n_c, s_c) = sum over records nearest to centre c of (1, z)  +  N(0, σ² I)
    centre_c   = s_c / n_c  projected into the box,   where n_c stands out of the noise

A record counts in one cluster only: alone sqrt(2) in l2, and at most 2 when it is replaced, whether
it stays in its cluster (|z - z'| <= 2) or moves (sqrt(2) sqrt(2)). T rounds compose exactly as one
Gaussian. The first centres are points of a Halton sequence in the box: public, nothing is read
from the data (Blum et al. 2005; Su et al. 2016). Guarantee: (epsilon, delta) for all rounds
together, every iterate public.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from unisono.algorithms.noise_law import sum_law
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.certificate import Certificate
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.errors import InvalidInput
from unisono.problems.columns import Bounds, ClusteredColumns
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind
from unisono.releases.release import Priced, Release
from unisono.releases.rows import BallPoint
from unisono.releases.table import Block, Table, TableRecords, lone_weight


class KMeansConfig(AlgorithmConfig):
    """Noisy sums and counts of every cluster, in every round."""

    rounds: int = Field(
        8, ge=1, le=1_000_000, description="Noisy sums in all; the budget covers them."
    )


class KMeansState(NamedTuple):
    """Centres (clusters, d) on the unit scale and noisy sizes (clusters,)."""

    centres: Any
    sizes: Any


@dataclass(frozen=True)
class Clusters:
    """Centres (clusters, d) in the columns' own units, and how large the clusters seem.

    `margin` (clusters, d) bounds how far noise and rounding of the last round moved each centre
    from the mean of its records, with probability `confidence` for all at once.
    """

    centres: np.ndarray
    sizes: np.ndarray
    size_margin: float
    margin: np.ndarray
    confidence: float
    certificate: Certificate

    @property
    def text(self) -> str:
        lines = [f"{len(self.sizes)} clusters; {self.confidence:.0%} of the noise in brackets:"]
        for centre, size, margin in zip(self.centres, self.sizes, self.margin, strict=True):
            shown = ", ".join(f"{c:.5g} ± {m:.2g}" for c, m in zip(centre, margin, strict=True))
            lines.append(
                f"    about {size:.0f} [± {self.size_margin:.0f}] records around ({shown})"
            )
        lines.append("  The noise of earlier rounds can move records between clusters too.")
        return "\n".join(lines)

    def nearest(self, rows: np.ndarray, bounds: Sequence[Bounds]) -> np.ndarray:
        """The cluster of each row (n, d), by distance on the unit scale."""
        scale = np.array([high - low for low, high in bounds])
        gaps = (np.asarray(rows)[:, None, :] - self.centres[None]) / scale
        return np.asarray(np.argmin((gaps**2).sum(axis=2), axis=1))


def first_centres(clusters: int, dimension: int) -> np.ndarray:
    """Points of a Halton sequence in the box, on the unit scale: (clusters, d)."""
    # Only here: it takes 30 MB, which parties of other studies need not have.
    from scipy.stats import qmc

    points = qmc.Halton(dimension, scramble=False).random(clusters + 1)[1:]
    return np.asarray((2 * points - 1) / math.sqrt(dimension))


def release(config: KMeansConfig, problem: ClusteredColumns, facts: Facts) -> Release:
    if facts.features != problem.dimension:
        raise InvalidInput(
            f"{problem.dimension} bounds for {facts.features} columns: give public bounds for each"
        )
    # Laplace noise of many numbers over several rounds would drown the centres: no pure epsilon.
    return Release(Table((_block(problem),), pure="", group=facts.group), config.rounds)


def build(
    config: KMeansConfig, problem: ClusteredColumns, facts: Facts, priced: Priced
) -> Algorithm:
    """Its result is the state's centres and sizes, (clusters, d + 1)."""
    clusters, dimension = problem.clusters, problem.dimension
    weight, edge = lone_weight(priced.step), 1 / math.sqrt(dimension)

    def init() -> tuple[KMeansState, None]:
        centres = jnp.asarray(first_centres(clusters, dimension), jnp.float32)
        return KMeansState(centres, jnp.zeros(clusters, jnp.float32)), None

    def merge(state: KMeansState, sums: Aggregate) -> KMeansState:
        table = sums.total.reshape(clusters, dimension + 1) / weight
        sizes, added = table[:, 0], table[:, 1:]
        # A cluster below a thousandth of the records may be all noise: it stays where it was.
        seen = sizes > jnp.maximum(1.0, sums.records / 1000)
        moved = jnp.clip(added / jnp.maximum(sizes, 1.0)[:, None], -edge, edge)
        return KMeansState(jnp.where(seen[:, None], moved, state.centres), sizes)

    return Algorithm(
        init=init,
        ask=lambda state: state.centres,
        local=TableRecords(facts.group),
        merge=merge,
        result=lambda state: jnp.concatenate([state.centres, state.sizes[:, None]], axis=1),
        within=lambda centres: jnp.clip(centres, -edge, edge),
    )


K_MEANS = AlgorithmKind(
    "k-means",
    "noisy sums and counts of every cluster, in rounds",
    KMeansConfig,
    ClusteredColumns,
    release,
    build,
    units=(Unit.RECORD, Unit.PERSON),
    sends="noisy counts and sums",
)


def _block(problem: ClusteredColumns) -> Block:
    dimension = problem.dimension
    low, high = (np.array(ends, np.float32) for ends in zip(*problem.bounds, strict=True))
    width = 2 / (high - low)

    def place(features: Any) -> Any:
        unit = jnp.clip((features - low) * width - 1, -1.0, 1.0)
        return unit / math.sqrt(dimension)

    def cells(public: Any, features: Any) -> Any:
        placed = place(features)
        nearness = placed @ public.T - 0.5 * jnp.sum(public**2, axis=1)
        return jnp.argmax(nearness, axis=1).astype(jnp.int32)[:, None]

    return Block(
        "clusters",
        BallPoint(dimension),
        lambda _, features: place(features),
        cells=cells,
        level_sizes=(problem.clusters,),
    )


def read_clusters(
    problem: ClusteredColumns, study: Study, result: Result, confidence: float = 0.95
) -> Clusters:
    """Centres in the columns' units, with the error of the last round's noise."""
    low, high = (np.array(ends, float) for ends in zip(*problem.bounds, strict=True))
    table = np.asarray(result.value, float)
    half = (high - low) / 2
    centres = (table[:, :-1] * math.sqrt(len(low)) + 1) * half + low
    event = study.algorithm.event(study.facts, study.trust)
    step = study.algorithm.grid(study.facts, study.trust)
    weight = lone_weight(step)
    # With fewer survivors there is less noise, so the bound for all parties holds too.
    law = sum_law(event, study.facts, study.trust, study.facts.parties, step)
    tail = law.scaled(1 / weight).tail(1 - confidence, table.size)
    # |s / n - S / N| <= (tail + |s / n| tail) / (n - tail) for a true sum S and size N.
    sizes = np.maximum(table[:, -1:], 0.0)
    off = tail * (1 + np.abs(table[:, :-1])) / np.maximum(sizes - tail, 1e-9)
    off = off + 0.5 * step / weight
    margin = np.minimum(off * math.sqrt(len(low)), 2.0) * half
    return Clusters(
        centres, np.maximum(table[:, -1], 0.0), tail, margin, confidence, result.certificate
    )
