"""Every accountant's answer to the same question, the invalid ones with the reason. No formatting.

An invalid line shows the number its formula would give, so that a reader sees the size of the
error; it is never a guarantee.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unisono.accounting import (
    gaussian,
    law_costs,
    moments,
    pld,
    renyi,
    sampling_without_replacement,
    theorems,
    zcdp,
)
from unisono.accounting.curve import PrivacyCurve
from unisono.cli.inputs import GAUSSIAN, TypedQuestion
from unisono.core.events import DiscreteGaussian, Everyone, Poisson, WithoutReplacement
from unisono.core.trust import Relation
from unisono.errors import ConditionViolated, PrivacyViolation


@dataclass(frozen=True)
class ComparisonLine:
    """One accountant: its upper bound (and a lower bound where certified), or why not."""

    name: str
    epsilon: float
    valid: bool
    note: str = ""
    lower: float | None = None

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def compare(question: TypedQuestion, noise: float) -> list[ComparisonLine]:
    """All accountants that have something to say, the tightest valid one first."""
    question.event(noise).sensitivity.under(question.relation)
    lines = _lines(question, noise)
    return sorted(lines, key=_rank)


def _rank(line: ComparisonLine) -> tuple[bool, float, str]:
    return not line.valid, math.inf if math.isnan(line.epsilon) else line.epsilon, line.name


def _lines(question: TypedQuestion, noise: float) -> list[ComparisonLine]:
    if question.entry.pure:
        return _pure(question, noise)
    if question.mechanism != GAUSSIAN:
        return _integer(question, noise)
    match question.sampler:
        case Everyone():
            return [
                _attempt("exact Gaussian curve", lambda: _exact(question, noise)),
                _certified(question, noise),
                *_without_sampling(question, noise, ""),
                *_by_theorems(question, noise, rate=None),
            ]
        case Poisson(rate):
            return [
                _certified(question, noise),
                *_poisson(question, noise, rate),
                _ignoring(question, noise),
                *_by_theorems(question, noise, rate),
            ]
        case WithoutReplacement(size, population):
            return [
                *_fixed_size(question, noise, size, population),
                _ignoring(question, noise),
                *_claimed_poisson(question, noise, size / population),
            ]


# ------------------------------------------------------------------- Gaussian


def _distance(question: TypedQuestion) -> float:
    return question.event(1.0).sensitivity.under(question.relation).in_norm("l2")


def _exact(question: TypedQuestion, noise: float) -> float:
    mu = _distance(question) * math.sqrt(question.count) / noise
    return gaussian.epsilon(question.delta, mu)


def _certified(question: TypedQuestion, noise: float) -> ComparisonLine:
    name = "privacy loss distribution"
    try:
        pair = law_costs.pair(question.event(noise), question.relation)
        if pair is None:
            raise law_costs.unknown(question.event(noise), question.relation)
        bracket = pld.compose([(pair, question.count)]).epsilon(question.delta)
    except PrivacyViolation as error:
        return ComparisonLine(name, math.nan, False, str(error))
    return ComparisonLine(name, bracket.upper, True, "certified from both sides", bracket.lower)


def _without_sampling(question: TypedQuestion, noise: float, note: str) -> list[ComparisonLine]:
    """Accountants of the plain Gaussian, at the relation's own distance."""
    count, delta, distance = question.count, question.delta, _distance(question)
    multiplier = noise / distance
    rho = zcdp.compose([zcdp.gaussian(distance, noise)], [count])
    curve = count * renyi.gaussian(renyi.ORDERS, 1 / multiplier)
    published = moments.epsilon(count * moments.log_moments(1.0, multiplier), delta)
    return [
        ComparisonLine(
            "Rényi, tight conversion", renyi.epsilon(renyi.ORDERS, curve, delta), True, note
        ),
        ComparisonLine("moments accountant, as published (lambda <= 32)", published, True, note),
        ComparisonLine("zCDP, tight conversion", zcdp.epsilon(rho, delta), True, note),
        ComparisonLine("zCDP, standard conversion", zcdp.epsilon_standard(rho, delta), True, note),
    ]


def _poisson(question: TypedQuestion, noise: float, rate: float) -> list[ComparisonLine]:
    """Rényi and moments accountants of the Poisson-sampled Gaussian."""
    valid = question.relation is not Relation.REPLACE_ONE
    note = (
        ""
        if valid
        else "proved for add-or-remove and zero-out; replacing a record moves the sum twice as far"
    )
    return [
        ComparisonLine(name, epsilon, valid, note)
        for name, epsilon in _poisson_formulas(question, noise, rate)
    ]


def _poisson_formulas(
    question: TypedQuestion, noise: float, rate: float
) -> list[tuple[str, float]]:
    count, delta = question.count, question.delta
    curve = count * renyi.poisson_gaussian(renyi.ORDERS, rate, noise)
    published = moments.epsilon(count * moments.log_moments(rate, noise), delta)
    return [
        ("Rényi, tight conversion", renyi.epsilon(renyi.ORDERS, curve, delta)),
        ("moments accountant, as published (lambda <= 32)", published),
    ]


def _ignoring(question: TypedQuestion, noise: float) -> ComparisonLine:
    name = "exact Gaussian curve, sampling ignored"
    fixed_size = isinstance(question.sampler, WithoutReplacement)
    if fixed_size and question.relation is Relation.ADD_OR_REMOVE:
        # Another record takes the free place in the subset, so the sum moves by two norms.
        note = "in a subset of fixed size, another record takes the place of a removed one"
        return ComparisonLine(name, _exact(question, noise), False, note)
    note = "true, but gives away what the secret sampling gains"
    return ComparisonLine(name, _exact(question, noise), True, note)


def _fixed_size(
    question: TypedQuestion, noise: float, size: int, population: int
) -> list[ComparisonLine]:
    names = ("Rényi, fixed-size subset", "amplification, then optimal composition")
    if question.relation is not Relation.REPLACE_ONE:
        note = "a subset of fixed size has a guarantee under replace-one only"
        return [ComparisonLine(name, math.nan, False, note) for name in names]
    arguments = (question.delta, question.count, size, population, _distance(question), noise)
    return [
        _attempt(names[0], lambda: sampling_without_replacement.epsilon(*arguments)),
        _attempt(names[1], lambda: sampling_without_replacement.amplified_composition(*arguments)),
    ]


def _claimed_poisson(question: TypedQuestion, noise: float, rate: float) -> list[ComparisonLine]:
    note = "accounts Poisson sampling, but the subset has a fixed size"
    found = _poisson_formulas(question, noise, rate)
    return [
        ComparisonLine(f"{name}, as if Poisson", epsilon, False, note) for name, epsilon in found
    ]


def _by_theorems(question: TypedQuestion, noise: float, rate: float | None) -> list[ComparisonLine]:
    """Each release by the classical or the exact formula, all of them by a composition theorem."""
    # Rounding of count * (delta / count) must not count as overspending.
    count, delta = question.count, question.delta * (1 - 1e-12)
    mu = _distance(question) / noise

    def classical(delta_each: float) -> float:
        return math.sqrt(2 * math.log(1.25 / delta_each)) * mu

    def exact(delta_each: float) -> float:
        return gaussian.epsilon(delta_each, mu)

    plans: list[tuple[str, Callable[[float], float], float, Callable[..., float]]] = [
        ("classical formula, basic composition", classical, delta / count, theorems.basic),
        (
            "classical formula, advanced composition",
            classical,
            delta / 2 / count,
            theorems.advanced,
        ),
        ("exact each, optimal composition", exact, delta / 2 / count, theorems.optimal),
    ]
    return [
        _theorem_line(question, name, single, delta_each, combine, rate)
        for name, single, delta_each, combine in plans
    ]


def _theorem_line(
    question: TypedQuestion,
    name: str,
    single: Callable[[float], float],
    delta_each: float,
    combine: Callable[..., float],
    rate: float | None,
) -> ComparisonLine:
    count, delta = question.count, question.delta
    # Sampling shrinks delta as well, so each release may use delta / rate before it.
    before = delta_each if rate is None else min(delta_each / rate, 0.5)
    one = single(before)
    reason = ""
    if "classical" in name and one > 1:
        reason = (
            f"a release has epsilon {one:.4g}; the classical formula is proved for epsilon <= 1 "
            "only"
        )
    if rate is not None:
        try:
            one = theorems.amplify_by_sampling(
                one, before, rate, sampler="poisson", relation=str(question.relation)
            )[0]
        except PrivacyViolation as error:
            return ComparisonLine(name, math.nan, False, str(error))
    if one == 0:
        return ComparisonLine(name, 0.0, not reason, reason)
    try:
        epsilon = combine(one, delta_each, count, delta)
    except ConditionViolated as error:
        return ComparisonLine(name, math.nan, False, reason or str(error))
    return ComparisonLine(name, epsilon, not reason, reason)


# --------------------------------------------------------------- other noises


def _pure(question: TypedQuestion, noise: float) -> list[ComparisonLine]:
    """Composition theorems for releases that have a pure epsilon each."""
    count, delta = question.count, question.delta
    each = PrivacyCurve(question.event(noise) * 1, question.relation).epsilon(0.0)
    if delta == 0:
        return [
            ComparisonLine("basic composition", count * each, True, "the only one without a delta")
        ]
    table = theorems.compare_composition(each, 0.0, count, delta)
    return [
        *(
            ComparisonLine(
                f"{t.name} composition" if "(" not in t.name else f"{t.name}, as published",
                t.epsilon,
                t.valid,
                t.reason,
            )
            for t in table
        ),
        _certified(question, noise),
    ]


def _integer(question: TypedQuestion, noise: float) -> list[ComparisonLine]:
    """Integer noise: its own Rényi bound, and the continuous curve that it does not obey."""
    count, delta, distance = question.count, question.delta, _distance(question)
    curve = PrivacyCurve(question.history(noise), question.relation)
    lines = [_attempt("Rényi bound of the integer law", lambda: curve.epsilon(delta))]
    discrete = question.mechanism == DiscreteGaussian.kind
    if discrete and isinstance(question.sampler, Everyone):
        rho = zcdp.compose([zcdp.gaussian(distance, noise)], [count])
        lines += [
            ComparisonLine("zCDP, tight conversion", zcdp.epsilon(rho, delta), True),
            ComparisonLine("zCDP, standard conversion", zcdp.epsilon_standard(rho, delta), True),
        ]
    note = "the law of integers lies slightly above the continuous curve"
    return [*lines, ComparisonLine("exact Gaussian curve", _exact(question, noise), False, note)]


def _attempt(name: str, compute: Callable[[], float]) -> ComparisonLine:
    try:
        return ComparisonLine(name, compute(), True)
    except PrivacyViolation as error:
        return ComparisonLine(name, math.nan, False, str(error))
