"""Which algorithm "auto" takes for a convex loss: a published rule on public facts.

    1. pure ε wanted (δ = 0)        output perturbation (l2-norm or discrete Laplace noise): the
                                    only one whose single release has no δ
    2. one round only               output perturbation with Gaussian noise
    3. otherwise                    gradient perturbation: T = min(200, rounds allowed) noisy full
                                    gradients. T Gaussian rounds compose exactly as one, so many
                                    cheap rounds cost no more than few

No record is looked at. Sampled batches (`dp_sgd_convex`) save time, not privacy: at equal ε a full
batch has the least noise per unit of gradient. Objective perturbation suits one party; several
cannot pool it.
"""

from typing import NamedTuple

from unisono.algorithms.gradient_perturbation import (
    GRADIENT_PERTURBATION,
    GradientPerturbationConfig,
)
from unisono.algorithms.output_perturbation import OUTPUT_PERTURBATION
from unisono.core.privacy import Privacy
from unisono.errors import InvalidInput
from unisono.problems.linear import LinearLoss
from unisono.releases.algorithm import Method


class AlgorithmChoice(NamedTuple):
    """What "auto" decided, and why, in a sentence for reports."""

    method: Method
    reason: str


def choose(
    problem: LinearLoss,
    privacy: Privacy,
    most_rounds: int | None = None,
    regularisation: float | None = None,
) -> AlgorithmChoice:
    """The algorithm of the rule above; equal public facts always give the same choice."""
    if most_rounds is not None and most_rounds < 1:
        raise InvalidInput(f"most_rounds = {most_rounds!r}: learning takes at least one round")
    given = {} if regularisation is None else {"regularisation": regularisation}
    if privacy.pure or most_rounds == 1:
        cause = "pure epsilon was asked for" if privacy.pure else "only one round is possible"
        if not regularisation:  # the sensitivity is in proportion to 1 / it
            given = {}
        return AlgorithmChoice(
            OUTPUT_PERTURBATION.method(problem, privacy, **given), f"{cause}: one noisy average"
        )
    usual = GradientPerturbationConfig.model_fields["rounds"].default
    rounds = min(usual, most_rounds or usual)
    method = GRADIENT_PERTURBATION.method(problem, privacy, rounds=rounds, **given)
    return AlgorithmChoice(
        method, f"{rounds} noisy full gradients compose exactly as one Gaussian release"
    )
