"""An audit against the claimed curve, not against one point of it.

A study claims more than one (ε, δ): its accountant knows δ(ε) for every ε, and each of these bounds
the errors of any test,

    1 - FNR <= e^ε FPR + δ(ε)     and     1 - FPR <= e^ε FNR + δ(ε)        for all ε >= 0.

The two-world audit has upper confidence bounds of both errors of one test. If they break any of
these inequalities, the claimed curve is refuted, at the audit's confidence and without a further
assumption: for Poisson sampling, Laplace noise and correlated noise as for Gaussian noise.

A number comes from a family of curves, the claimed mechanism with its noise multiplied by c:

    ε_family  =  the largest ε(δ) of a member that is refuted

which is at most the true ε(δ) if the mechanism is a member, that is, if only the amount of its
noise is in doubt. This is model-based, as the Gaussian bound is, whose family is all of μ-GDP.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from unisono.accounting.curve import PrivacyCurve
from unisono.attacks.audit import Audit
from unisono.attacks.distinguish import limits
from unisono.core.events import Composed
from unisono.core.trust import Relation
from unisono.errors import InvalidInput

_POINTS = 25
# Members of the family: from a quarter to four times the claimed noise, in steps of about 1 %.
_WIDEST, _HALVINGS = 4.0, 7

Family = Callable[[float], PrivacyCurve]
TradeOff = Callable[[float], float]


def error_bounds(found: Audit) -> tuple[float, float]:
    """Upper bounds of (FPR, FNR) of the audit's test that hold with its confidence."""
    evidence = found.model_based
    if evidence is None:
        raise InvalidInput(
            "the audit spent its whole confidence on the direct bound: audit with gaussian=True, "
            "at a delta above 0"
        )
    counts = np.array([[evidence.false_positives], [evidence.false_negatives]], float)
    level = found.false_alarm_rate / 2  # the other half is spent by the direct bound
    pair = limits(counts[0], counts[1], evidence.held_out, level)[evidence.statistic]
    return float(pair[0][0]), float(pair[1][0])


def trade_off(curve: PrivacyCurve, delta: float) -> TradeOff:
    """The least FNR that the curve allows at an FPR: convex and symmetric, by a few of its points.

    >>> from unisono.core.events import Event, Gaussian, bounded_sum
    >>> one = PrivacyCurve(Event(Gaussian(1.0), bounded_sum(l2=1.0)) * 1, Relation.ZERO_OUT)
    >>> round(trade_off(one, 1e-5)(0.309), 3)  # Phi(-1/2) = 0.309
    0.308
    """
    highest = min(curve.epsilon(delta), 60.0)
    epsilons = np.linspace(0.0, highest, _POINTS)
    spared = np.array([1 - curve.delta(float(epsilon)) for epsilon in epsilons])
    odds = np.exp(epsilons)

    def least(rate: float) -> float:
        return float(max(0.0, (spared - odds * rate).max(), ((spared - rate) / odds).max()))

    return least


def epsilon_in_family(family: Family, refuted: Callable[[TradeOff], bool], delta: float) -> float:
    """The largest epsilon(delta) of a member that is refuted; 0 if none is."""

    def falls(factor: float) -> bool:
        return refuted(trade_off(family(factor), delta))

    # Less noise is harder to refute: `high` is refuted throughout, `low` is not.
    low, high = (1 / _WIDEST, 1.0) if falls(1.0) else (1.0, _WIDEST)
    if high == _WIDEST and not falls(high):
        return 0.0
    for _ in range(_HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if falls(middle) else (middle, high)
    return family(high).epsilon(delta)


def curve_refuted(found: Audit, family: Family) -> bool:
    """Whether a two-world audit refutes the claim itself, the member with factor 1."""
    positive, negative = error_bounds(found)
    return negative < trade_off(family(1.0), found.delta)(positive)


def audited_epsilon(found: Audit, family: Family) -> float:
    """The bound in the family that a two-world audit gives."""
    positive, negative = error_bounds(found)
    return epsilon_in_family(family, lambda f: negative < f(positive), found.delta)


def noise_family(history: Composed, relation: Relation) -> Family:
    """The history's curves with all of its noise multiplied by a factor."""
    return lambda factor: PrivacyCurve(scaled(history, factor), relation)


def scaled(history: Composed, factor: float) -> Composed:
    """The same releases with noise of another width."""

    def wider(noise: Any) -> Any:
        for width in ("std", "scale"):
            if hasattr(noise, width):
                return replace(noise, **{width: getattr(noise, width) * factor})
        raise InvalidInput(f"{noise} has no width to multiply: audit it by the direct bound")

    return Composed(
        tuple((replace(event, noise=wider(event.noise)), count) for event, count in history.parts)
    )
