"""DP-SGD for convex losses: secret Poisson batches and a secure sum.

In every round each party draws a secret sampling mask, each of its records with probability q,

    g_t     = sum over chosen records of clip_C(grad l(θ_t; record))  +  N(0, σ² I)
    v_{t+1} = m v_t + g_t / (q n) + λ θ_t,       θ_{t+1} = Π(θ_t - η v_{t+1})

and only the noisy sum is opened. Nobody, the coordinator included, knows who took part, so the
amplification by sampling holds against the server and every other party: T releases of a
Poisson-sampled Gaussian, accounted by a certified privacy loss distribution. The divisor is the
*expected* batch, never its secret size. Momentum, averaging, the regulariser and the projection Π
onto a convex set (`projections`; none unless asked for) are post-processing. `LOCAL` is valid too
(a party's mask is its own), with m times the variance.

Sampled batches save time, not privacy: at equal ε a full batch has the least noise per unit of
gradient (`gradient_perturbation`).
"""

import math
from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from unisono.algorithms.descent import (
    NOISE_LENGTH,
    DescentConfig,
    arrived,
    descend,
    stable_rate,
    start,
)
from unisono.algorithms.moments_noise import MOMENTS_ACCOUNTANT
from unisono.algorithms.projections import ConvexSet, convex_set, with_shape
from unisono.core.algorithm import Facts
from unisono.core.events import Poisson
from unisono.core.trust import Unit
from unisono.problems.linear import LinearLoss
from unisono.releases.algorithm import (
    Algorithm,
    AlgorithmKind,
    PublishedConfig,
    UtilityLaw,
    rounded,
)
from unisono.releases.person_sum import gradient_sum
from unisono.releases.release import Priced, Release


class ConvexDpSgdConfig(DescentConfig, PublishedConfig):
    """Noisy gradients of secret Poisson batches."""

    sampling_rate: float = Field(
        0.1, gt=0, le=1, description="A record's chance to take part in a round."
    )
    projection: Literal["none", "ball", "box", "simplex", "l1-ball"] = Field(
        "none", description="The set that weights stay in, as for sgd-synchronous; none: any."
    )
    radius: float = Field(5.0, gt=0, description="The size of the set that weights stay in.")
    own_set: ConvexSet | None = Field(
        None, exclude=True, description="Another set, by its projection and its size."
    )

    def agreed(self, problem: Any) -> dict[str, Any]:
        found = super().agreed(problem)
        return found if self.own_set is None else {**found, "own_set": self.own_set.agreed}

    def project(self, parameters: int) -> Callable[[Any], Any]:
        """The projection, for so many parameters."""
        if self.own_set is not None:
            return self.own_set.project
        if self.projection == "none":
            return lambda point: point
        return convex_set(self.projection, self.radius, parameters).project


def release(config: ConvexDpSgdConfig, problem: LinearLoss, facts: Facts) -> Release:
    bound = gradient_sum(config.clipping_norm, facts, problem.outputs)
    return Release(bound, config.rounds, Poisson(config.sampling_rate))


def build(
    config: ConvexDpSgdConfig, problem: LinearLoss, facts: Facts, priced: Priced
) -> Algorithm:
    project = config.project(problem.parameters(facts.features))
    first = start(problem.shape(facts.features))
    first = first._replace(parameters=project(first.parameters))
    if config.learning_rate is None:
        rate = learning_rate(config, problem, facts, priced)
        config = config.model_copy(update={"learning_rate": rate})

    def expected(records: float) -> float:
        return config.sampling_rate * records

    return Algorithm(
        init=lambda: (first, None),
        ask=lambda state: state.parameters,
        local=lambda public, own, records: (
            own,
            (problem.coefficients(public, *records.columns), records.columns[0]),
        ),
        merge=lambda state, sums: descend(
            config, state, sums.total / expected(sums.records), project
        ),
        result=lambda state: arrived(config, state),
        within=project,
    )


def learning_rate(
    config: ConvexDpSgdConfig, problem: LinearLoss, facts: Facts, priced: Priced
) -> float:
    """As in `descent`, with the noise that was really calibrated: stable, and quiet."""
    one_round = priced.noise_std / (config.sampling_rate * sum(facts.records))
    length = one_round * math.sqrt(config.rounds * problem.parameters(facts.features))
    quiet = NOISE_LENGTH[problem.loss] * (1 - config.momentum) / length
    return rounded(min(stable_rate(config, problem, facts.group), quiet))


CONVEX_DP_SGD = AlgorithmKind(
    "dp-sgd-convex",
    "noisy gradients of secret Poisson batches",
    ConvexDpSgdConfig,
    LinearLoss,
    release,
    build,
    lambda config, problem, facts, *_: with_shape(config, problem, facts),
    units=(Unit.RECORD, Unit.PERSON),
    sends="noisy sums of sampled records' gradients",
    laws={
        "classification": UtilityLaw(2.2, 0.846, 2.01, 1.69),
        "regression": UtilityLaw(44.1, 1.38, 3.25, 3.45),
    },
    printed=MOMENTS_ACCOUNTANT,
    weighs=True,
)
