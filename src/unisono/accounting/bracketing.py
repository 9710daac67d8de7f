"""Refine the grid until the certified bracket of epsilon or delta is narrow enough.

Both orders of the pairs are covered: the order with the larger estimate is bracketed first; the
other only has to be shown not to exceed it, for which a coarser grid usually is enough.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from unisono.accounting.convolution import Composed, Plan, compose_laws
from unisono.accounting.discretisation import Grid, discretise
from unisono.accounting.pairs import Pair
from unisono.accounting.planning import (
    Sketch,
    delta_and_order,
    epsilon_and_order,
    plan_step,
    plan_window,
    sketch,
)

Terms = Sequence[tuple[Pair, int]]

_LARGEST_GRID = 2**22
_ROUNDS = 7


class Bracket(NamedTuple):
    """A certified interval: the truth lies in ``[lower, upper]``."""

    lower: float
    upper: float

    @property
    def width(self) -> float:
        return self.upper - self.lower


class _Aim(NamedTuple):
    """One order of the pairs, and where to look for the answer."""

    forward: bool
    plan: Plan
    step: float
    estimate: float
    cut: float


def bracket_epsilon(terms: Terms, delta: float, tolerance: float) -> Bracket:
    """Certified epsilon at ``delta``, at most ``tolerance`` wide if the grid allows it."""

    def aim(law: Sketch, forward: bool) -> _Aim:
        estimate, order = epsilon_and_order(law, delta)
        # A relative change kappa of delta moves epsilon by about kappa / order.
        allowed = delta * min(1e-3, 0.02 * tolerance * order)
        plan = plan_window(law, order, max(estimate, 0.0), allowed)
        step = plan_step(law, plan, order, tolerance)
        return _Aim(forward, plan, step, estimate, allowed / float(np.sum(law.counts)))

    return _bracket(terms, delta, aim, lambda curve: curve.epsilon(delta), tolerance)


def bracket_delta(terms: Terms, epsilon: float, tolerance: float) -> Bracket:
    """Certified delta at ``epsilon``; ``tolerance`` is relative to its upper bound."""

    def aim(law: Sketch, forward: bool) -> _Aim:
        estimate, order = delta_and_order(law, epsilon)
        allowed = max(estimate, 1e-280) * min(1e-3, 0.02 * tolerance)
        plan = plan_window(law, order, epsilon, allowed)
        step = plan_step(law, plan, order, tolerance / max(order, 0.1))
        return _Aim(forward, plan, step, estimate, allowed / float(np.sum(law.counts)))

    point = np.array([epsilon])
    return _bracket(terms, None, aim, lambda curve: float(curve.deltas(point)[0]), tolerance)


def estimate_epsilon(terms: Terms, delta: float) -> float:
    """Renyi estimate of epsilon, the larger of both orders. Cheap; not a claim."""
    symmetric = all(pair.symmetric for pair, _ in terms)
    return max(
        epsilon_and_order(sketch(terms, 1e-6 * delta / _total(terms), forward=forward), delta)[0]
        for forward in ((True,) if symmetric else (True, False))
    )


def curve_above(terms: Terms, forward: bool, smallest_delta: float) -> Composed:
    """One certified upper curve, good for all epsilon with delta above ``smallest_delta``."""
    law = sketch(terms, 1e-3 * smallest_delta / _total(terms), forward=forward)
    estimate, order = epsilon_and_order(law, smallest_delta)
    plan = plan_window(law, order, 0.0, 1e-3 * smallest_delta)
    plan = plan._replace(high=max(plan.high, estimate))
    step = _aligned(terms, plan_step(law, plan, order, 1e-3))
    cut = 1e-3 * smallest_delta / _total(terms)
    return _compose(_grids(terms, step, cut), terms, plan, step, forward, upper=True)


def _bracket(
    terms: Terms,
    delta: float | None,
    aim: Callable[[Sketch, bool], _Aim],
    read: Callable[[Composed], float],
    tolerance: float,
) -> Bracket:
    orders = (True,) if all(pair.symmetric for pair, _ in terms) else (True, False)
    tail = 1e-6 * (delta or 1e-12) / _total(terms)
    aims = [aim(sketch(terms, tail, forward=forward), forward) for forward in orders]
    aims.sort(key=lambda found: -found.estimate)
    main = _refine(terms, aims[0], read, tolerance, -math.inf)
    if len(aims) == 1:
        return main
    # The error is quadratic in the step, and a third of the distance to the first order is free.
    spare = (main.upper - aims[1].estimate) / (3.0 * tolerance)
    step = aims[1].step * math.sqrt(min(max(spare, 1.0), 64.0))
    other = _refine(terms, aims[1]._replace(step=step), read, tolerance, main.upper)
    return Bracket(max(main.lower, other.lower), max(main.upper, other.upper))


def _refine(
    terms: Terms, aim: _Aim, read: Callable[[Composed], float], tolerance: float, enough: float
) -> Bracket:
    """Shorten the step until the bracket is narrow, or its upper end at most ``enough``."""
    step = aim.step
    best = Bracket(0.0, math.inf)
    for _ in range(_ROUNDS):
        step = _aligned(terms, step)
        grids = _grids(terms, step, aim.cut)
        upper = read(_compose(grids, terms, aim.plan, step, aim.forward, upper=True))
        best = Bracket(best.lower, min(best.upper, upper))
        if best.upper <= enough:
            return best
        lower = read(_compose(grids, terms, aim.plan, step, aim.forward, upper=False))
        best = Bracket(max(best.lower, lower), best.upper)
        if best.width <= tolerance:
            return best
        step *= max(0.15, min(0.9, 0.92 * math.sqrt(tolerance / (upper - lower))))
        if (aim.plan.high - aim.plan.low) / step > _LARGEST_GRID:
            return best
    return best


def _compose(
    grids: Sequence[Grid], terms: Terms, plan: Plan, step: float, forward: bool, *, upper: bool
) -> Composed:
    laws = [
        (grid.law_above(forward=forward) if upper else grid.law_below(forward=forward), count)
        for grid, (_, count) in zip(grids, terms, strict=True)
    ]
    return compose_laws(laws, plan, step, upper=upper)


def _grids(terms: Terms, step: float, cut: float) -> list[Grid]:
    return [discretise(pair, step, cut) for pair, _ in terms]


def _aligned(terms: Terms, step: float) -> float:
    """A step of at most ``step`` that puts the heaviest atom just outside a node.

    Just outside, because a dominated pair may not have a larger loss than the pair itself: an atom
    that rounding puts a hair inside its node would have to move a whole node.
    """
    anchor = max((count * pair.anchor, pair.anchor) for pair, count in terms)[1]
    return anchor / math.ceil(anchor / step) * (1.0 - 1e-12) if anchor > 0 else step


def _total(terms: Terms) -> int:
    return sum(count for _, count in terms)
