"""Noisy power iteration (Hardt and Price 2014): the leading direction of a second-moment matrix.

    s_t     = sum over all parties and records of clip_C(x (x·v_t))  +  N(0, σ² I)
    v_{t+1} = s_t / ||s_t||

Rows x lie in the unit ball, so that a record's part is at most 1 long. All that is private about it
is said by `release`: a sum of clipped rows, in so many rounds. Noise, sensitivity, cost, shares of
a secure sum, payment and certificate follow from that.
"""

from typing import Any

import jax.numpy as jnp
from pydantic import Field

from unisono.core.algorithm import Aggregate, Facts
from unisono.problems.columns import BoundedColumns
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind, Records
from unisono.releases.bounds import ClippedSum
from unisono.releases.release import Priced, Release


class PowerIterationConfig(AlgorithmConfig):
    """Noisy products of the second-moment matrix with a direction."""

    rounds: int = Field(8, gt=0, le=1000, description="Products in all; the budget covers them.")
    clipping_norm: float = Field(1.0, gt=0, description="The largest part of one record.")


def release(config: PowerIterationConfig, problem: BoundedColumns, facts: Facts) -> Release:
    return Release(ClippedSum(config.clipping_norm, facts.features), config.rounds)


def build(
    config: PowerIterationConfig, problem: BoundedColumns, facts: Facts, priced: Priced
) -> Algorithm:
    start = jnp.ones(facts.features, jnp.float32) / jnp.sqrt(1.0 * facts.features)

    def local(direction: Any, own: None, records: Records) -> tuple[None, Any]:
        (rows,) = records.columns
        return own, rows * (rows @ direction)[:, None]

    def merge(direction: Any, sums: Aggregate) -> Any:
        return sums.total / jnp.maximum(jnp.linalg.norm(sums.total), 1e-30)

    return Algorithm(
        init=lambda: (start, None),
        ask=lambda direction: direction,
        local=local,
        merge=merge,
        result=lambda direction: direction,
    )


POWER_ITERATION = AlgorithmKind(
    "power-iteration",
    "noisy products of the second-moment matrix with a direction",
    PowerIterationConfig,
    BoundedColumns,
    release,
    build,
    sends="noisy sums of all records' products with a public direction",
)
