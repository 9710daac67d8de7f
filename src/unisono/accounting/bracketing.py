"""Refine the grid until the certified bracket of epsilon or delta is narrow enough.

Both orders of the pairs are covered: the order with the larger estimate is bracketed first; the
other only has to be shown not to exceed it, for which a coarser grid usually is enough.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from unisono.accounting.convolution import ComposedLoss, ConvolutionPlan, compose_laws
from unisono.accounting.discretisation import Grid, discretise
from unisono.accounting.pairs import Pair
from unisono.accounting.planning import (
    Sketch,
    delta_and_order,
    epsilon_and_order,
    plan_step,
    plan_window,
    sketch,
    widened,
)

Terms = Sequence[tuple[Pair, int]]

_LARGEST_GRID = 2**21
_ROUNDS = 7


class Bracket(NamedTuple):
    """A certified interval: the truth lies in ``[lower, upper]``."""

    lower: float
    upper: float

    @property
    def width(self) -> float:
        return self.upper - self.lower


class _Question(NamedTuple):
    """What is asked of a curve, and when the answer is good enough.

    ``aim(law, forward, found)`` plans the search, from estimates or from what was found; ``read``
    takes the answer from a curve, ``ceiling(largest, lost)`` bounds it when losses above
    ``largest`` have mass ``lost``, and ``narrow`` is allowed over actual width of a bracket.
    """

    aim: Callable[..., "_Aim"]
    read: Callable[[ComposedLoss], float]
    ceiling: Callable[[float, float], float]
    narrow: Callable[[Bracket], float]


class _Aim(NamedTuple):
    """One order of the pairs, and where to look for the answer."""

    law: Sketch
    forward: bool
    plan: ConvolutionPlan
    step: float
    estimate: float
    cut: float


def bracket_epsilon(terms: Terms, delta: float, tolerance: float) -> Bracket:
    """Certified epsilon at ``delta``, at most ``tolerance`` wide if the grid allows it."""

    def aim(law: Sketch, forward: bool, found: Bracket | None = None) -> _Aim:
        estimate, order = epsilon_and_order(law, delta)
        if found is not None:
            estimate = found.upper
            order = delta_and_order(law, estimate)[1]
        # A relative change kappa of delta moves epsilon by about kappa / order.
        allowed = delta * min(1e-3, 0.02 * tolerance * order)
        plan = plan_window(law, order, max(estimate, 0.0), allowed)
        step = plan_step(law, plan, order, tolerance)
        return _Aim(law, forward, plan, step, estimate, allowed / float(np.sum(law.counts)))

    def ceiling(largest: float, lost: float) -> float:
        return largest if lost <= delta else math.inf

    tail = 1e-6 * delta / _total(terms)

    def narrow(bracket: Bracket) -> float:
        return tolerance / max(bracket.width, 1e-300)

    return _bracket(terms, tail, _Question(aim, lambda c: c.epsilon(delta), ceiling, narrow))


def bracket_delta(terms: Terms, epsilon: float, tolerance: float) -> Bracket:
    """Certified delta at ``epsilon``; ``tolerance`` is relative to its upper bound."""
    ends = [_extremes(terms, 1e-290 / _total(terms), forward) for forward in (True, False)]
    if max(end.largest for end in ends) <= epsilon:
        return Bracket(max(end.infinite for end in ends), max(end.lost for end in ends))

    def aim(law: Sketch, forward: bool, found: Bracket | None = None) -> _Aim:
        estimate, order = delta_and_order(law, epsilon)
        if found is not None:
            estimate = found.upper
        allowed = max(estimate, 1e-280) * min(1e-3, 0.02 * tolerance)
        plan = plan_window(law, order, epsilon, allowed)
        step = plan_step(law, plan, order, tolerance / min(max(order, 0.1), 1e3))
        return _Aim(law, forward, plan, step, estimate, allowed / float(np.sum(law.counts)))

    def read(curve: ComposedLoss) -> float:
        return float(curve.deltas(np.array([epsilon]))[0])

    def ceiling(largest: float, lost: float) -> float:
        return lost if largest <= epsilon else math.inf

    def narrow(bracket: Bracket) -> float:
        return tolerance * bracket.upper / max(bracket.width, 1e-300)

    return _bracket(terms, 1e-18 / _total(terms), _Question(aim, read, ceiling, narrow))


def estimate_epsilon(terms: Terms, delta: float) -> float:
    """Renyi estimate of epsilon, the larger of both orders. Cheap; not a claim."""
    symmetric = all(pair.symmetric for pair, _ in terms)
    return max(
        epsilon_and_order(sketch(terms, 1e-6 * delta / _total(terms), forward=forward), delta)[0]
        for forward in ((True,) if symmetric else (True, False))
    )


def curve_above(terms: Terms, forward: bool, smallest_delta: float) -> ComposedLoss:
    """One certified upper curve, good for all epsilon with delta above ``smallest_delta``."""
    law = sketch(terms, 1e-3 * smallest_delta / _total(terms), forward=forward)
    estimate, order = epsilon_and_order(law, smallest_delta)
    plan = plan_window(law, order, 0.0, 1e-3 * smallest_delta)
    plan = plan._replace(high=max(plan.high, estimate))
    step = _aligned(terms, plan_step(law, plan, order, 1e-3))
    cut = 1e-3 * smallest_delta / _total(terms)
    plan = widened(law, plan, step)
    return _compose(_grids(terms, step, cut), terms, plan, step, forward, upper=True)


def _bracket(
    terms: Terms,
    tail: float,
    question: _Question,
) -> Bracket:
    orders = (True,) if all(pair.symmetric for pair, _ in terms) else (True, False)
    aims = [question.aim(sketch(terms, tail, forward=forward), forward) for forward in orders]
    aims.sort(key=lambda found: -found.estimate)
    main = _refine(terms, aims[0], question, -math.inf)
    if len(aims) == 1 or _ceiling(terms, aims[1], question) <= main.upper:
        return main
    # The error is quadratic in the step, and a third of the distance to the first order is free.
    spare = question.narrow(Bracket(aims[1].estimate, main.upper))
    step = aims[1].step / math.sqrt(min(max(3.0 * spare, 1.0 / 64.0), 1.0))
    other = _refine(terms, aims[1]._replace(step=step), question, main.upper)
    return Bracket(max(main.lower, other.lower), max(main.upper, other.upper))


class _Extremes(NamedTuple):
    """The largest composed loss, what may exceed it, and what is truly infinite."""

    largest: float
    lost: float
    infinite: float


def _extremes(terms: Terms, cut: float, forward: bool) -> _Extremes:
    """What the ends of the windows say: sampling bounds the loss in one order, atoms in both."""
    largest = kept = finite = 0.0
    for pair, count in terms:
        low, high = pair.window(cut)
        cells = pair.cells(np.array([low - 1e-9, high + 1e-9]))
        largest += count * max((high if forward else -low) + 1e-9, 0.0)
        lost = float(cells.infinite if forward else cells.vanishing)
        true = float(cells.truly_infinite if forward else cells.truly_vanishing)
        kept += count * math.log1p(-lost) if lost < 1.0 else -math.inf
        finite += count * math.log1p(-true) if true < 1.0 else -math.inf
    return _Extremes(largest * (1.0 + 1e-9), 0.0 - math.expm1(kept), 0.0 - math.expm1(finite))


def _ceiling(terms: Terms, aim: _Aim, question: _Question) -> float:
    ends = _extremes(terms, aim.cut, aim.forward)
    return question.ceiling(ends.largest, ends.lost)


def _refine(terms: Terms, aim: _Aim, question: _Question, enough: float) -> Bracket:
    """Shorten the step until the bracket is narrow, or its upper end at most ``enough``."""
    windows = [pair.window(aim.cut) for pair, _ in terms]
    extent = max(max(high, 0.0) - min(low, 0.0) for low, high in windows)
    finest = max(aim.plan.high - aim.plan.low, extent) / _LARGEST_GRID
    step = max(aim.step, finest)
    best = Bracket(0.0, math.inf)
    for _ in range(_ROUNDS):
        step = _aligned(terms, step)
        grids = _grids(terms, step, aim.cut)
        plan = widened(aim.law, aim.plan, step)
        upper = question.read(_compose(grids, terms, plan, step, aim.forward, upper=True))
        best = Bracket(best.lower, min(best.upper, upper))
        if best.upper <= enough:
            return best
        lower = question.read(_compose(grids, terms, plan, step, aim.forward, upper=False))
        best = Bracket(max(best.lower, lower), best.upper)
        if question.narrow(best) >= 1.0:
            return best
        shrink = 0.92 * math.sqrt(question.narrow(Bracket(lower, upper)))
        # A bound of 0 says that the step is longer than the smaller end of the loss.
        step *= max(0.15, min(0.9, shrink)) if lower > 0 else 0.15
        if best.upper < math.inf and abs(best.upper - aim.estimate) > 0.03 * aim.estimate:
            # The estimate was off (heavy tails): look where the answer is.
            aim = question.aim(aim.law, aim.forward, best)
        if step < finest:
            return best
    return best


def _compose(
    grids: Sequence[Grid],
    terms: Terms,
    plan: ConvolutionPlan,
    step: float,
    forward: bool,
    *,
    upper: bool,
) -> ComposedLoss:
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
