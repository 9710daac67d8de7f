"""What a series of releases costs, and the least noise that keeps a promise. No formatting."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unisono.accounting import gaussian, law_costs, pld
from unisono.accounting.calibrate import smallest_scale
from unisono.accounting.curve import PrivacyCurve
from unisono.accounting.validation import require_epsilon
from unisono.cli.inputs import GAUSSIAN, TypedQuestion
from unisono.cli.words import round_up
from unisono.core.certificate import Line
from unisono.core.events import Everyone
from unisono.core.success import AttackSuccess, attack_success
from unisono.core.trust import FINAL_MODEL, Relation, Unit
from unisono.errors import PrivacyViolation

BLIND = (0.001, 0.1)


@dataclass(frozen=True)
class UnderRelation:
    """Epsilon under one relation, and the success probability of the best attack that tells two
    neighbors apart; or the reason why there is none."""

    relation: Relation
    epsilon: float | None
    reason: str
    guess: float = 1.0


@dataclass(frozen=True)
class StatedCost:
    """Every answer about a series of releases; all numbers are upper bounds."""

    question: TypedQuestion
    noise: float
    epsilon: float
    pure_epsilon: float
    method: str
    advantage: float
    reconstruction: tuple[tuple[float, float], ...]
    relations: tuple[UnderRelation, ...]

    @property
    def success(self) -> AttackSuccess | None:
        """What the best attack on one record can infer; None where nothing is guaranteed."""
        delta = self.question.delta
        lines = [
            Line(FINAL_MODEL, one.relation, one.epsilon, delta, one.guess)
            for one in self.relations
            if one.epsilon is not None
        ]
        return attack_success(lines, self.question.relation, Unit.RECORD)

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": str(self.question.mechanism),
            "noise_multiplier": self.noise,
            "count": self.question.count,
            "sampler": sampler_json(self.question),
            "relation": str(self.question.relation),
            "epsilon": self.epsilon,
            "delta": self.question.delta,
            "pure_epsilon": self.pure_epsilon,
            "method": self.method,
            "membership_advantage": self.advantage,
            "best_guess": 0.5 * (1 + self.advantage),
            "success_probabilities": None if self.success is None else self.success.questions,
            "reconstruction": {f"{blind:g}": bound for blind, bound in self.reconstruction},
            "relations": {
                str(r.relation): {"epsilon": r.epsilon, "reason": r.reason} for r in self.relations
            },
        }


def sampler_json(question: TypedQuestion) -> dict[str, Any]:
    """The sampler and its parameters."""
    return {"kind": type(question.sampler).__name__, **vars(question.sampler)}


def cost(question: TypedQuestion, noise: float) -> StatedCost:
    """What `question` costs with this noise multiplier."""
    history = question.history(noise)
    history.parts[0][0].sensitivity.under(question.relation)
    curve = PrivacyCurve(history, question.relation)
    epsilon = curve.epsilon(question.delta)
    advantage = curve.advantage
    return StatedCost(
        question=question,
        noise=noise,
        epsilon=epsilon,
        pure_epsilon=curve.epsilon(0.0),
        method=curve.method,
        advantage=advantage,
        # The success at a secret is 1 - f(blind success), f the trade-off curve.
        reconstruction=tuple(
            (b, 1 - f) for b, f in zip(BLIND, _trade_off(curve, BLIND), strict=True)
        ),
        relations=tuple(
            UnderRelation(r, epsilon, "", curve.guess)
            if r is question.relation
            else _under(question, noise, r)
            for r in Relation
        ),
    )


def _under(question: TypedQuestion, noise: float, relation: Relation) -> UnderRelation:
    try:
        curve = PrivacyCurve(question.history(noise), relation)
        return UnderRelation(relation, curve.epsilon(question.delta), "", curve.guess)
    except PrivacyViolation as error:
        return UnderRelation(relation, None, str(error))


@dataclass(frozen=True)
class Classical:
    """What a textbook formula would have asked for, and what that really costs."""

    name: str
    noise: float
    true_epsilon: float
    valid: bool
    reason: str


@dataclass(frozen=True)
class Calibration:
    """The least noise multiplier for a target, rounded up, and what it costs."""

    target: float
    cost: StatedCost
    classical: Classical | None

    def to_json(self) -> dict[str, Any]:
        classical = None if self.classical is None else dict(vars(self.classical))
        return {"target_epsilon": self.target, **self.cost.to_json(), "classical": classical}


def calibrate(question: TypedQuestion, epsilon: float) -> Calibration:
    """The least noise with which `question` costs at most `epsilon`, to six digits, rounded up."""
    target = require_epsilon(epsilon)
    question.event(1.0).sensitivity.under(question.relation)
    noise = round_up(_least_noise(question, target), 6)
    return Calibration(target, cost(question, noise), _classical(question, target))


def _least_noise(question: TypedQuestion, target: float) -> float:
    mechanism, delta, count = question.entry, question.delta, question.count
    unsampled = isinstance(question.sampler, Everyone)
    if mechanism.pure and delta == 0 and unsampled:
        return (
            count * PrivacyCurve(question.event(1.0) * 1, question.relation).epsilon(0.0) / target
        )
    if not mechanism.law.additive:
        return smallest_scale(question.history, question.relation, target, delta)
    event = mechanism.calibrate(
        question.event(1.0).sensitivity,
        question.relation,
        target,
        delta,
        count=count,
        sampler=question.sampler,
        dimension=question.dimension,
        grid=question.grid,
    )
    return event.noise.size


def _classical(question: TypedQuestion, target: float) -> Classical | None:
    if not isinstance(question.sampler, Everyone) or question.delta == 0:
        return None
    if question.mechanism == GAUSSIAN:
        return _classical_gaussian(question, target)
    if question.entry.pure and question.count > 1:
        one = PrivacyCurve(question.event(1.0) * 1, question.relation).epsilon(0.0)
        return Classical(
            "basic composition",
            question.count * one / target,
            target,
            True,
            "epsilons simply add up, with no use for delta",
        )
    return None


def _classical_gaussian(question: TypedQuestion, target: float) -> Classical:
    count = question.count
    distance = question.event(1.0).sensitivity.under(question.relation).in_norm("l2")
    each, delta = target / count, question.delta / count
    noise = gaussian.published_classical_sigma(each, delta, distance, beyond_its_condition=True)
    true = gaussian.epsilon(question.delta, distance * math.sqrt(count) / noise)
    name = "classical formula sqrt(2 log(1.25/delta))/epsilon"
    if count > 1:
        name += ", budget split evenly"
    if true > target:
        return Classical(name, noise, true, False, "the formula promises more than it keeps")
    if each > 1:
        reason = "proved for epsilon <= 1 only; here it happens to hold"
        return Classical(name, noise, true, False, reason)
    return Classical(name, noise, true, True, "true, but with more noise than needed")


@dataclass(frozen=True)
class Picture:
    """What `privacy curve` draws."""

    question: TypedQuestion
    noise: float
    rounds: tuple[int, ...]
    epsilons: tuple[float, ...]
    guess: float
    false_positives: tuple[float, ...]
    trade_offs: tuple[tuple[int, tuple[float, ...]], ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": str(self.question.mechanism),
            "noise_multiplier": self.noise,
            "relation": str(self.question.relation),
            "sampler": sampler_json(self.question),
            "delta": self.question.delta,
            "best_guess": self.guess,
            "rounds": self.rounds,
            "epsilon": self.epsilons,
            "false_positive_rate": self.false_positives,
            "smallest_false_negative_rate": {str(n): rates for n, rates in self.trade_offs},
        }


def picture(question: TypedQuestion, noise: float, points: int = 24) -> Picture:
    """Epsilon after 1 .. count rounds, and the trade-off curve at the first and last of them."""
    event = question.event(noise)
    event.sensitivity.under(question.relation)
    # Epsilon grows about like the square root, so that the beginning needs more points.
    rounds = sorted({round(1 + (question.count - 1) * x * x) for x in np.linspace(0, 1, points)})
    epsilons = [PrivacyCurve(event * n, question.relation).epsilon(question.delta) for n in rounds]
    rates = np.concatenate([[0.0], np.geomspace(1e-4, 0.01, 12), np.linspace(0.02, 1, 99)])
    alphas = tuple(float(rate) for rate in rates.round(12))
    ends = sorted({1, question.count})
    return Picture(
        question,
        noise,
        tuple(rounds),
        tuple(epsilons),
        PrivacyCurve(question.history(noise), question.relation).guess,
        alphas,
        tuple((n, _trade_off(PrivacyCurve(event * n, question.relation), alphas)) for n in ends),
    )


def _trade_off(curve: PrivacyCurve, alphas: Sequence[float]) -> tuple[float, ...]:
    """Smallest false negative rates of any test, from one certified curve where there is one."""
    event, count = curve.history.parts[0]
    pair = law_costs.pair(event, curve.relation)
    if pair is None or law_costs.gaussian_mu(event, curve.relation) is not None:
        return tuple(curve.trade_off(alpha) for alpha in alphas)
    return tuple(float(rate) for rate in pld.compose([(pair, count)]).trade_off(alphas))
