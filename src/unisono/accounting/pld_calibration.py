"""The least noise that keeps a composition within a privacy target, certified.

A cheap Renyi estimate finds where the answer is; the certified accountant corrects it once or
twice. The result never overshoots: the *upper* end of its bracket is at most the target.
"""

import math
from collections.abc import Callable, Sequence

from scipy.optimize import brentq

from unisono.accounting import gaussian
from unisono.accounting.bracketing import Bracket, estimate_epsilon
from unisono.accounting.pairs import Pair
from unisono.accounting.pld import compose
from unisono.accounting.shift_pairs import GaussianPair, Relation
from unisono.accounting.validation import (
    require_count,
    require_delta,
    require_epsilon,
    require_positive,
    require_probability,
)
from unisono.errors import ConditionViolated

Build = Callable[[float], Sequence[tuple[Pair, int]]]

_ROUNDS = 12
_REACH = 1e6


def calibrate_noise(
    target_epsilon: float,
    delta: float,
    build: Build,
    *,
    precision: float = 2e-3,
    guess: float = 1.0,
) -> float:
    """Smallest noise, within the relative ``precision``, whose certified epsilon is in the target.

    ``build(noise)`` lists the pairs of the whole plan at that noise; its cost must fall as the
    noise rises. Guarantee: ``compose(build(noise)).epsilon(delta).upper <= target_epsilon``
    (at the tolerance used here), and by its lower end ``noise / (1 + precision)`` would not do,
    to first order.

    >>> noise = calibrate_noise(1.0, 1e-5, lambda s: [(GaussianPair(1 / s, rate=0.01), 1000)])
    >>> 1.414 < noise < 1.417
    True
    """
    target = require_epsilon(target_epsilon, name="target_epsilon")
    delta = require_delta(delta)
    precision = require_positive("precision", precision)
    guess = require_positive("guess", guess)

    def cheap(log_noise: float) -> float:
        terms = compose(build(math.exp(log_noise))).terms
        return math.log(max(estimate_epsilon(terms, delta), 1e-9 * target) / target)

    def certified(log_noise: float, tolerance: float) -> Bracket:
        return compose(build(math.exp(log_noise)), tolerance=tolerance).epsilon(delta)

    low, high = _surround(cheap, math.log(guess), target)
    position = float(brentq(cheap, low, high, xtol=1e-3))
    step = 0.02
    slope = max((cheap(position) - cheap(position + step)) / step, 1e-3)
    # A bracket this narrow costs a third of the precision in noise.
    tolerance = target * precision * slope / 3.0
    enough: float | None = None
    too_little = -math.inf
    last: tuple[float, float] | None = None
    for attempt in range(_ROUNDS):
        found = certified(position, tolerance * (1.0 if attempt else 4.0))
        if found.upper <= target:
            enough = position if enough is None else min(enough, position)
            if target - found.lower <= 2.0 * tolerance:
                return math.exp(position)
        elif attempt or found.lower > target:  # the first, coarse bracket alone proves nothing
            too_little = max(too_little, position)
        # Aim a sixth of the precision below the target; estimate and truth run nearly parallel.
        wanted = target - 0.5 * tolerance
        middle = max(found.upper if found.upper < math.inf else 2.0 * target, 1e-3 * target)
        if last is not None and abs(last[0] - position) > 1e-6:  # what was seen beats the estimate
            slope = max((last[1] - math.log(middle)) / (position - last[0]), 1e-3)
            tolerance = min(tolerance, target * precision * slope / 3.0)
        last = position, math.log(middle)
        position += math.log(middle / wanted) / slope
        if enough is not None and not too_little < position < enough:
            if too_little == -math.inf:
                position = enough - 0.5 * precision
            else:
                position = 0.5 * (too_little + enough)
            if enough - too_little <= 0.5 * precision:
                break
    if enough is None:
        raise ConditionViolated(
            f"no noise up to {math.exp(position):g} was certified for epsilon = {target} at "
            f"delta = {delta}; check that the cost of build(noise) falls as noise rises"
        )
    return math.exp(enough)


def calibrate(
    target_epsilon: float,
    delta: float,
    rate: float,
    count: int,
    relation: Relation = "add-or-remove",
    *,
    precision: float = 2e-3,
) -> float:
    """Noise multiplier (standard deviation over zero-out sensitivity) of ``count`` Gaussian uses.

    Exact without sampling (``rate = 1``); otherwise within ``precision`` of the tight answer.

    >>> round(calibrate(1.0, 1e-5, 1.0, 1), 5)
    3.73063
    """
    rate = require_probability("rate", rate, zero=False)
    count = require_count("count", count)
    if rate == 1.0:
        mu = gaussian.mu_for(require_epsilon(target_epsilon), require_delta(delta))
        distance = GaussianPair(1.0, 1.0, relation).distance
        # The margin covers the rounding that brackets of the closed form allow for.
        return distance * math.sqrt(count) / mu * (1.0 + 1e-8)
    # The noise of the central limit theorem: mu_total = q sqrt(T (exp(1/s^2) - 1)).
    mu = gaussian.mu_for(require_epsilon(target_epsilon), require_delta(delta))
    guess = 1.0 / math.sqrt(math.log1p((mu / rate) ** 2 / count))
    return calibrate_noise(
        target_epsilon,
        delta,
        lambda noise: [(GaussianPair(1.0 / noise, rate, relation), count)],
        precision=precision,
        guess=guess,
    )


def _surround(cheap: Callable[[float], float], start: float, target: float) -> tuple[float, float]:
    """Log noises with the estimate above and below the target."""
    value, width = cheap(start), 0.5
    low = high = start
    while value > 0:
        low, high, width = high, high + width, 2.0 * width
        value = cheap(high)
        if value > 0 and high - start > math.log(_REACH):
            raise ConditionViolated(
                f"epsilon = {target} is out of reach: at noise {math.exp(high):g} the plan still "
                f"costs about {target * math.exp(value):g}; part of it does not depend on the "
                "noise, so lower that part or raise the target"
            )
    if high > start:
        return low, high
    while value <= 0:
        low, high, width = low - width, low, 2.0 * width
        value = cheap(low)
        if value <= 0 and start - low > math.log(_REACH):
            raise ConditionViolated(
                f"epsilon = {target} is met even at noise {math.exp(low):g}; nothing to calibrate: "
                "check build(noise), or choose the noise by hand"
            )
    return low, high
