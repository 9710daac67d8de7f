"""Clusters of records that resemble each other, by their number columns."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from pydantic import Field

from unisono.algorithms import clustering
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.data.columns import NumericColumn
from unisono.data.encoding import Values
from unisono.data.schema import Schema
from unisono.models.model import (
    Choice,
    Fault,
    ModelConfig,
    ModelKind,
    Posed,
    Target,
    columns_in_words,
)
from unisono.models.prediction import NearestCentre
from unisono.problems.columns import ClusteredColumns
from unisono.releases.algorithm import AlgorithmKind


class KMeansModelConfig(ModelConfig):
    """How many groups are looked for."""

    clusters: int = Field(ge=1, le=1_000_000, description="How many groups.")


def pose(
    config: KMeansModelConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy
) -> Posed:
    """Clusters of all columns, each scaled by its public bounds."""
    columns = {n: c for n, c in schema.columns.items() if isinstance(c, NumericColumn)}
    bounds = tuple(column.span for column in columns.values())
    problem = ClusteredColumns(bounds, config.clusters)

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        return (np.column_stack([values[name] for name in columns]),)

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = clustering.read_clusters(problem, study, result)
        rows = zip(found.centres, found.margin, found.sizes, strict=True)
        return {
            "clusters": [
                {
                    "centre": dict(zip(columns, map(float, centre), strict=True)),
                    "margin": dict(zip(columns, map(float, margin), strict=True)),
                    "size": float(size),
                }
                for centre, margin, size in rows
            ],
            "size_margin": float(found.size_margin),
            "confidence": found.confidence,
        }

    def prediction(study: Study, result: Result) -> NearestCentre:
        found = clustering.read_clusters(problem, study, result)
        ranges = np.array([high - low for low, high in bounds])
        return NearestCentre(tuple(columns), tuple(columns), found.centres, ranges)

    return Posed(problem, len(columns), encode, present, prediction=prediction)


def choose(config: Any, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    """There is one way."""
    return Choice("k-means", "noisy sums and counts of every cluster, in rounds")


def faults(config: Any, schema: Schema) -> Iterator[Fault]:
    for name, column in schema.columns.items():
        if not isinstance(column, NumericColumn):
            words = f"is a {column.kind}: k-means measures distances of numbers; leave it out"
            yield ("data", "columns", name), words


def learns(config: KMeansModelConfig, schema: Schema) -> str:
    return f"{config.clusters} typical groups of records, by {columns_in_words(schema)}"


K_MEANS = ModelKind(
    "k-means",
    "groups of records that resemble each other",
    KMeansModelConfig,
    Target.NONE,
    ClusteredColumns,
    pose,
    choose,
    learns,
    faults=faults,
    draft=lambda schema: "clusters = 3\n",
    prediction=NearestCentre,
)
