"""k-means over several parties: T rounds of noisy sums and counts per cluster (Lloyd's algorithm).

Records are mapped by public bounds to z in [-1, 1]^d / sqrt(d), hence into the unit ball. Every
round releases one vector: for each cluster c the sum over its records of (1, z),

    (n_c, s_c) = sum over records nearest to centre c of (1, z)  +  N(0, σ² I)
    centre_c   = s_c / n_c  projected into the box,   where n_c stands out of the noise

A record counts in one cluster only: alone sqrt(2) in l2, and at most 2 when it is replaced, whether
it stays in its cluster (|z - z'| <= 2) or moves (sqrt(2) sqrt(2)). T rounds compose exactly as one
Gaussian. The first centres are points of a Halton sequence in the box: public, nothing is read
from the data. Guarantee: (epsilon, delta) for all rounds together, every iterate public.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from unisono.algorithms.blocks import Block, Plan, Size, contribute, plan
from unisono.algorithms.columns import Bounds, require_bounds
from unisono.algorithms.noise_law import sum_law
from unisono.algorithms.one_shot import Promise
from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.certificate import Certificate
from unisono.core.defaults import RELATION
from unisono.core.events import Event
from unisono.core.study import Result, Study
from unisono.core.trust import Relation, Trust
from unisono.core.values import Contribution
from unisono.errors import InvalidInput


@dataclass(frozen=True)
class Settings:
    """What the parties agree on: public bounds per column, clusters, rounds and the promise."""

    bounds: tuple[Bounds, ...]
    clusters: int
    epsilon: float
    delta: float
    rounds: int = 8
    relation: Relation = RELATION

    def __post_init__(self) -> None:
        for column, bounds in enumerate(self.bounds):
            require_bounds(bounds, f"column {column}")
        if not self.bounds or self.clusters < 1 or self.rounds < 1:
            raise InvalidInput(
                f"{self.clusters} clusters in {len(self.bounds)} columns over {self.rounds} "
                "rounds: each must be at least 1"
            )
        if self.promise.pure:
            raise InvalidInput(
                "delta = 0: k-means adds Gaussian noise to long vectors over several rounds, "
                "which has no pure epsilon; choose delta far below 1 / records, such as 1e-6"
            )

    @property
    def promise(self) -> Promise:
        return Promise(self.epsilon, self.delta, self.relation, self.rounds)


class State(NamedTuple):
    """Centres (clusters, d) on the unit scale, noisy sizes (clusters,), and the public weight
    that sums are encoded with."""

    centres: Any
    sizes: Any
    weight: Any


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


def first_centres(settings: Settings) -> np.ndarray:
    """Points of a Halton sequence in the box, on the unit scale: (clusters, d)."""
    # Only here: it takes 30 MB, which parties of other studies need not have.
    from scipy.stats import qmc

    dimension = len(settings.bounds)
    points = qmc.Halton(dimension, scramble=False).random(settings.clusters + 1)[1:]
    return (2 * points - 1) / math.sqrt(dimension)


def k_means(settings: Settings) -> Algorithm:
    """The algorithm; its result is the state's centres and sizes, (clusters, d + 1)."""
    dimension, clusters = len(settings.bounds), settings.clusters
    low, high = (np.array(ends, np.float32) for ends in zip(*settings.bounds, strict=True))
    block = (_block(settings, low, high),)
    edge = 1 / math.sqrt(dimension)

    def grid(facts: Facts, trust: Trust) -> float:
        return plan(block, settings.promise, facts).grid

    def event(facts: Facts, trust: Trust) -> Event:
        made = plan(block, settings.promise, facts)
        return settings.promise.event(made.sensitivity, made.width, made.grid, facts, trust)

    def init(facts: Facts) -> tuple[State, None]:
        if facts.features != dimension:
            raise InvalidInput(
                f"{dimension} bounds for {facts.features} columns: give public bounds for each"
            )
        centres = jnp.asarray(first_centres(settings), jnp.float32)
        weight = _weight(plan(block, settings.promise, facts))
        return State(centres, jnp.zeros(clusters, jnp.float32), jnp.float32(weight)), None

    def local(
        facts: Facts, public: Any, party: None, data: Any, mask: Any
    ) -> tuple[None, Contribution]:
        return party, contribute(block, settings.promise, facts, public, data[0], mask)

    def merge(state: State, aggregate: Aggregate) -> State:
        table = aggregate.total.reshape(clusters, dimension + 1) / state.weight
        sizes, sums = table[:, 0], table[:, 1:]
        # A cluster below a thousandth of the records may be all noise: it stays where it was.
        seen = sizes > jnp.maximum(1.0, aggregate.records / 1000)
        moved = jnp.clip(sums / jnp.maximum(sizes, 1.0)[:, None], -edge, edge)
        return State(jnp.where(seen[:, None], moved, state.centres), sizes, state.weight)

    def result(state: State) -> Any:
        return jnp.concatenate([state.centres, state.sizes[:, None]], axis=1)

    return Algorithm(
        name="k-means",
        settings={
            "promise": settings.promise.to_json(), "bounds": settings.bounds,
            "clusters": clusters, "rounds": settings.rounds,
        },
        trusts=frozenset(Trust),
        combine="sum",
        rounds=settings.rounds,
        grid=grid,
        event=event,
        init=init,
        ask=lambda state: state.centres,
        local=local,
        settle=lambda party, accepted: party,
        merge=merge,
        result=result,
        reach=lambda facts: plan(block, settings.promise, facts).reach,
    )  # fmt: skip


def _weight(made: Plan) -> float:
    return made.factors[0] * made.grid


def _block(settings: Settings, low: np.ndarray, high: np.ndarray) -> Block:
    dimension = len(low)
    width = 2 / (high - low)

    def place(features: Any) -> Any:
        unit = jnp.clip((features - low) * width - 1, -1.0, 1.0)
        return unit / math.sqrt(dimension)

    def rows(public: Any, features: Any) -> Any:
        placed = place(features)
        one = jnp.where(jnp.all(jnp.isfinite(placed), axis=1), 1.0, jnp.nan)
        return jnp.concatenate([one[:, None], placed], axis=1)

    def cells(public: Any, features: Any) -> Any:
        placed = place(features)
        nearness = placed @ public.T - 0.5 * jnp.sum(public**2, axis=1)
        return jnp.argmax(nearness, axis=1).astype(jnp.int32)[:, None]

    return Block(
        "clusters", rows, Size(1 + math.sqrt(dimension), math.sqrt(2.0)),
        Size(2 * math.sqrt(dimension), 2.0), length=dimension + 1,
        whole=(True, *[False] * dimension), cells=cells, cell_count=settings.clusters,
    )  # fmt: skip


def read_clusters(
    settings: Settings, study: Study, result: Result, confidence: float = 0.95
) -> Clusters:
    """Centres in the columns' units, with the error of the last round's noise."""
    low, high = (np.array(ends, float) for ends in zip(*settings.bounds, strict=True))
    table = np.asarray(result.value, float)
    half = (high - low) / 2
    centres = (table[:, :-1] * math.sqrt(len(low)) + 1) * half + low
    event = study.algorithm.event(study.facts, study.trust)
    block = (_block(settings, low.astype(np.float32), high.astype(np.float32)),)
    made = plan(block, settings.promise, study.facts)
    # With fewer survivors there is less noise, so the bound for all parties holds too.
    law = sum_law(event, study.facts, study.trust, study.facts.parties, made.grid)
    tail = law.scaled(1 / _weight(made)).tail(1 - confidence, table.size)
    # |s / n - S / N| <= (tail + |s / n| tail) / (n - tail) for a true sum S and size N.
    sizes = np.maximum(table[:, -1:], 0.0)
    off = tail * (1 + np.abs(table[:, :-1])) / np.maximum(sizes - tail, 1e-9)
    off = off + 0.5 / made.factors[0]
    margin = np.minimum(off * math.sqrt(len(low)), 2.0) * half
    return Clusters(
        centres, np.maximum(table[:, -1], 0.0), tail, margin, confidence, result.certificate
    )
