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

    gradient   q = n μ / (s sqrt(p spread)),   η = min(1.95 · 1.9 / (β + λ), a q 0.1 / (0.4 T))
    output     c = s k sqrt(spread) / (m n_(1)),   λ = (2 β c² / r²)^(1/3),
               k = sqrt(p) / μ (Gaussian), p / ε (norm), sqrt(2) p / ε (Laplace)

η keeps heavy-ball descent stable and the noise that T rounds add to the parameters about `a` long.
λ minimises λ r²/2 + β (c/λ)²/2: the bias towards zero of parameters of length r = 10 against the
risk that noise of length c/λ adds.
"""

import math
from typing import NamedTuple

from unisono.accounting import gaussian
from unisono.algorithms import gradient_perturbation as gradients
from unisono.algorithms import output_perturbation as outputs
from unisono.core.algorithm import Algorithm, Facts
from unisono.core.events import positive
from unisono.core.trust import Relation, Trust
from unisono.errors import InvalidInput
from unisono.models.losses import loss_named

_ROUNDS, _CLIP, _MOMENTUM, _AVERAGED = 200, 0.4, 0.9, 0.5
_NOISE_LENGTH = {"logistic": 36.0, "multinomial": 36.0, "huber-svm": 36.0, "squares": 1.0}
_USEFUL_LENGTH = {"logistic": 10.0, "multinomial": 10.0, "huber-svm": 10.0, "squares": 1.0}


class Choice(NamedTuple):
    """What "auto" decided, and why, in a sentence for reports."""

    algorithm: Algorithm
    reason: str


def choose(
    facts: Facts, trust: Trust, *, epsilon: float, delta: float, loss: str = "logistic",
    classes: int = 2, relation: Relation = Relation.REPLACE_ONE, most_rounds: int | None = None,
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
    rounds = min(_ROUNDS, most_rounds or _ROUNDS)
    ridge = 1e-5 if regularisation is None else regularisation
    parameters = facts.features * (classes if loss == "multinomial" else 1)
    rate = gradient_rate(
        signal(facts, trust, epsilon, delta, relation, parameters), loss, ridge, rounds
    )
    plan = gradients.Settings(
        epsilon=epsilon, delta=delta, loss=loss, classes=classes, rounds=rounds, clip=_CLIP,
        learning_rate=rate, momentum=_MOMENTUM, averaged=_AVERAGED, regularisation=ridge,
        relation=relation,
    )  # fmt: skip
    reason = f"{rounds} noisy full gradients compose exactly as one Gaussian release"
    return Choice(gradients.gradient_perturbation(plan), reason)


def signal(
    facts: Facts, trust: Trust, epsilon: float, delta: float, relation: Relation, parameters: int
) -> float:
    """q: how many standard deviations of noise all records together outweigh."""
    mu = gaussian.mu_for(epsilon, delta)
    noise = math.sqrt(parameters * _spread(facts, trust))
    return sum(facts.records) * mu / (_factor(relation) * noise)


def gradient_rate(quality: float, loss: str, regularisation: float, rounds: int) -> float:
    """η: stable for a β-smooth loss, and quiet."""
    stable = 1.95 * (1 + _MOMENTUM) / (loss_named(loss).smoothness + regularisation)
    quiet = _NOISE_LENGTH[loss] * (1 - _MOMENTUM) / (_CLIP * rounds)
    return min(stable, quiet * quality)


def output_ridge(
    facts: Facts, trust: Trust, epsilon: float, delta: float, loss: str, classes: int,
    relation: Relation,
) -> float:  # fmt: skip
    """λ of output perturbation: bias against noise."""
    parameters = facts.features * (classes if loss == "multinomial" else 1)
    if delta:
        length = math.sqrt(parameters) / gaussian.mu_for(epsilon, delta)
    else:
        length = parameters / epsilon * (math.sqrt(2) if trust is Trust.SECURE_SUM else 1.0)
    noise = _factor(relation) * length * math.sqrt(_spread(facts, trust))
    noise /= facts.parties * min(facts.records)
    useful = _USEFUL_LENGTH[loss]
    return (2 * loss_named(loss).smoothness * noise**2 / useful**2) ** (1 / 3)


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
