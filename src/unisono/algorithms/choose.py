"""Which algorithm "auto" takes: a published rule on public facts, no record is looked at.

    1. pure ε wanted (δ = 0)        output perturbation (norm or discrete Laplace noise): the only
                                    one whose single release has no δ
    2. one round only               output perturbation with Gaussian noise
    3. otherwise                    gradient perturbation: T = min(200, rounds allowed) noisy full
                                    gradients, clip 0.4, momentum 0.9, average of the last half.
                                    T Gaussian rounds compose exactly as one, so many cheap rounds
                                    cost no more than few

Sampled batches (`dp_sgd_convex`) save time, not privacy: at equal ε a full batch has the least
noise per unit of gradient. Objective perturbation suits one party; several cannot pool it.

Settings. With n records in all, p parameters, m parties, sensitivity factor s (2 for replace-one,
else 1), `spread` = variance of the noise in the sum over the planned one, and β the smoothness,

    q = n μ / (s sqrt(p spread))   or, for pure epsilon,   n ε / (s p sqrt(spread))
    gradient   η = min(1.95 (1 + m) / (β + λ),  a q (1 - m) / (C T)),  m = 0.9 the momentum
    output     λ = b / q

q is how far the signal of all records outweighs the noise. η keeps heavy-ball descent stable for
β-smooth losses, and the noise that T rounds put into the parameters about `a` long; λ keeps the
noise of output perturbation at a length of about G / b. The constants were set once, on a held-out
quarter of Adult's *training* file (losses of classes) and on synthetic planes (squares).
"""

import math
from typing import NamedTuple

from unisono.accounting import gaussian
from unisono.algorithms import gradient_perturbation as gradients
from unisono.algorithms import output_perturbation as outputs
from unisono.core.algorithm import Algorithm, Facts
from unisono.core.defaults import RELATION, RIDGE
from unisono.core.events import positive
from unisono.core.trust import Relation, Trust
from unisono.errors import InvalidInput
from unisono.models.losses import loss_named

ROUNDS, CLIP, MOMENTUM, AVERAGED = 200, 0.4, 0.9, 0.5
# How long the noise in the parameters may become: the length of useful parameters differs.
NOISE_LENGTH = {"logistic": 36.0, "multinomial": 36.0, "huber-svm": 12.0, "squares": 0.3}
_OUTPUT_BALANCE = 0.3


class Choice(NamedTuple):
    """What "auto" decided, and why, in a sentence for reports."""

    algorithm: Algorithm
    reason: str


def choose(
    facts: Facts, trust: Trust, *, epsilon: float, delta: float, loss: str = "logistic",
    classes: int = 2, relation: Relation = RELATION, most_rounds: int | None = None,
    regularisation: float | None = None,
) -> Choice:  # fmt: skip
    """The algorithm of the rule above; equal public facts always give the same choice."""
    positive(epsilon=epsilon)
    if not 0 <= delta < 1:
        raise InvalidInput(f"delta = {delta!r} lies outside [0, 1): use 0 for pure epsilon")
    if most_rounds is not None and most_rounds < 1:
        raise InvalidInput(f"most_rounds = {most_rounds!r}: learning takes at least one round")
    if delta == 0 or most_rounds == 1:
        ridge = regularisation or output_ridge(
            facts, trust, epsilon, delta, loss, classes, relation
        )
        settings = outputs.Settings(
            epsilon, delta, loss, classes, regularisation=ridge, relation=relation
        )
        cause = "pure epsilon was asked for" if delta == 0 else "only one round is possible"
        return Choice(outputs.output_perturbation(settings), f"{cause}: one noisy average")
    rounds = min(ROUNDS, most_rounds or ROUNDS)
    ridge = RIDGE if regularisation is None else regularisation
    parameters = facts.features * (classes if loss == "multinomial" else 1)
    rate = gradient_rate(
        signal(facts, trust, epsilon, delta, relation, parameters), loss, ridge, rounds
    )
    plan = gradients.Settings(
        epsilon=epsilon, delta=delta, loss=loss, classes=classes, rounds=rounds, clip=CLIP,
        learning_rate=rate, momentum=MOMENTUM, averaged=AVERAGED, regularisation=ridge,
        relation=relation,
    )  # fmt: skip
    reason = f"{rounds} noisy full gradients compose exactly as one Gaussian release"
    return Choice(gradients.gradient_perturbation(plan), reason)


def signal(
    facts: Facts, trust: Trust, epsilon: float, delta: float, relation: Relation, parameters: int
) -> float:
    """q: how many standard deviations of noise all records together outweigh.

    >>> facts = Facts((10_000,), 10, 1)
    >>> round(signal(facts, Trust.LOCAL, 1.0, 1e-5, Relation.REPLACE_ONE, 10))
    424
    """
    strength = gaussian.mu_for(epsilon, delta) if delta else epsilon / math.sqrt(parameters)
    noise = math.sqrt(parameters * _spread(facts, trust))
    return sum(facts.records) * strength / (_factor(relation) * noise)


def stable_rate(loss: str, regularisation: float) -> float:
    """The largest learning rate that heavy-ball descent bears."""
    return 1.95 * (1 + MOMENTUM) / (loss_named(loss).smoothness + regularisation)


def gradient_rate(quality: float, loss: str, regularisation: float, rounds: int) -> float:
    """η: stable for a β-smooth loss, and quiet."""
    quiet = NOISE_LENGTH[loss] * (1 - MOMENTUM) / (CLIP * rounds)
    return min(stable_rate(loss, regularisation), quiet * quality)


def output_ridge(
    facts: Facts, trust: Trust, epsilon: float, delta: float, loss: str, classes: int,
    relation: Relation,
) -> float:  # fmt: skip
    """λ of output perturbation."""
    parameters = facts.features * (classes if loss == "multinomial" else 1)
    return _OUTPUT_BALANCE / signal(facts, trust, epsilon, delta, relation, parameters)


def _factor(relation: Relation) -> int:
    return 2 if relation is Relation.REPLACE_ONE else 1


def _spread(facts: Facts, trust: Trust) -> float:
    """Variance of the noise in the sum, if all survive, over the planned one."""
    match trust:
        case Trust.LOCAL:
            return float(facts.parties)
        case Trust.SECURE_SUM:
            return facts.parties / facts.honest
        case Trust.TRUSTED_SERVER:
            return 1.0
