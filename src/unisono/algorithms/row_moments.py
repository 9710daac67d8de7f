"""Second moments of rows: how far they vary in which direction, for algorithms that begin with it.

    M = sum over records of z zᵀ,    z = (u, 1) / ||(u, 1)||

One release of the upper triangle; one replaced record moves it by sqrt 2, because z lies in the
unit ball (`releases.rows.OuterProduct`). The last number of z zᵀ is 1 / ||(u, 1)||², so that the
usual length of a row is known from it too, and the last column over it is a mean of rows.
"""

from typing import Any

import numpy as np

from unisono.algorithms.column_scales import counted_once
from unisono.algorithms.survey import unpack
from unisono.core.algorithm import Facts
from unisono.problems.linear import LinearLoss
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind
from unisono.releases.release import Priced, Release
from unisono.releases.rows import OuterProduct, unpacked
from unisono.releases.table import Block, Table


class RowMomentsConfig(AlgorithmConfig):
    """Public bounds say everything."""


def table(facts: Facts) -> Table:
    """One block: the outer product of each record's row, which is moved into the unit ball."""

    def rows(public: Any, features: Any) -> Any:
        return features

    return Table((Block("moments", OuterProduct(facts.features, sized=False), rows),))


def release(config: RowMomentsConfig, problem: LinearLoss, facts: Facts) -> Release:
    return Release(table(facts))


def build(config: RowMomentsConfig, problem: LinearLoss, facts: Facts, priced: Priced) -> Algorithm:
    return counted_once(table(facts).dimension, facts, priced)


def moments_of(features: int, found: Any) -> np.ndarray:
    """The mean of z zᵀ (p, p) that was released; without a release, that of rows which vary alike
    in all directions."""
    if found is None:
        return np.eye(features) / features
    opened = unpack(np.asarray(found))
    return np.asarray(unpacked(features, opened.total)) / max(float(opened.records), 1.0)


ROW_MOMENTS = AlgorithmKind(
    "row-moments",
    "one noisy matrix of second moments, from which a linear model knows how its columns vary",
    RowMomentsConfig,
    LinearLoss,
    release,
    build,
    unit_rows=False,
    sends="noisy second moments of all records",
)

__all__ = ["ROW_MOMENTS", "moments_of"]
