"""The least noise that keeps a promise.

Never overshoots the target: the scale returned was checked by the same certified bound that
will account for it, and it is within 0.1 % of the smallest such scale.
"""

import math
from collections.abc import Callable

from unisono.accounting.curve import PrivacyCurve
from unisono.accounting.validation import require_epsilon
from unisono.core.events import Composed, Event, positive
from unisono.core.trust import Relation
from unisono.errors import InvalidInput

_TOLERANCE = 5e-4


def smallest_scale(
    history: Callable[[float], Composed],
    relation: Relation,
    epsilon: float,
    delta: float,
    *,
    start: float = 1.0,
    floor: float = 0.0,
) -> float:
    """Smallest scale (to 0.1 %) at which `history(scale)` costs at most (epsilon, delta).

    The cost must fall as the scale grows. The search brackets the answer on a logarithmic
    axis and closes in by regula falsi on log epsilon, which is nearly linear there.

    >>> from unisono.core.events import Event, Gaussian, bounded_sum
    >>> std = smallest_scale(
    ...     lambda s: Event(Gaussian(s), bounded_sum(l2=1.0)) * 1, Relation.ZERO_OUT, 1.0, 1e-5)
    >>> 3.7306 < std < 3.7344
    True
    """
    require_epsilon(epsilon)
    positive(start=start)
    if not 0 <= delta < 1:
        raise InvalidInput(f"delta = {delta!r} lies outside [0, 1)")

    def excess(scale: float) -> float:
        cost = PrivacyCurve(history(scale), relation).epsilon(delta)
        return math.log(max(cost, 1e-12) / epsilon) if cost < math.inf else math.inf

    low = high = max(start, floor)
    at_low = at_high = excess(low)
    while at_high > 0:
        low, at_low = high, at_high
        high *= 2
        at_high = excess(high)
        if high > start * 2.0**80:
            raise InvalidInput(
                f"no amount of noise reaches epsilon {epsilon:g} at delta {delta:g}: raise delta, "
                "or use noise with a pure guarantee"
            )
    while at_low <= 0:
        high, at_high = low, at_low
        if low <= floor or low < start * 2.0**-80:
            return high
        low = max(low / 2, floor)
        at_low = excess(low)
    side = 0
    while high / low > 1 + _TOLERANCE:
        a, b = math.log(low), math.log(high)
        if math.isfinite(at_low) and at_low - at_high > 1e-12:
            middle = b + (a - b) * (-at_high) / (at_low - at_high)
            # Step past the estimate, so that both ends close in.
            margin = 0.2 * _TOLERANCE
            middle = min(max(middle, a + margin), b - margin)
            middle = middle + margin if side <= 0 else middle - margin
        else:
            middle = (a + b) / 2
        at = excess(math.exp(middle))
        if at > 0:
            low, at_low = math.exp(middle), at
            at_high = at_high / 2 if side == -1 else at_high
            side = -1
        else:
            high, at_high = math.exp(middle), at
            at_low = at_low / 2 if side == 1 else at_low
            side = 1
    return high


def calibrate_scale(
    event: Callable[[float], Event],
    relation: Relation,
    epsilon: float,
    delta: float,
    count: int,
    start: float,
    floor: float = 0.0,
) -> float:
    """Smallest noise scale at which `count` releases of `event(scale)` fit (epsilon, delta)."""
    return smallest_scale(
        lambda scale: event(scale) * count, relation, epsilon, delta, start=start, floor=floor
    )
