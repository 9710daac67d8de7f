r"""Cheap estimates that tell the accountant where to look. Nothing here is part of a claim.

Every pair is imitated by a few hundred losses; from their cumulant ``K`` come the Renyi estimate

    epsilon = min_theta (K(theta) + theta log theta - (1+theta) log(1+theta) - log delta) / theta,

the window of losses that can matter, the tilt that keeps it short, and a grid step.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from unisono.accounting.convolution import ConvolutionPlan
from unisono.accounting.pairs import Pair
from unisono.accounting.validation import FloatArray

_POINTS = 6_000
_SHARES = (0.0, 0.25, 0.5, 1.0)


class Sketch(NamedTuple):
    """Losses and log masses, shape (events, points), with the counts, shape (events,)."""

    losses: FloatArray
    log_mass: FloatArray
    counts: FloatArray

    def cumulant(self, orders: FloatArray) -> FloatArray:
        """``K`` at ``orders``, any shape (k,)."""
        exponent = orders[:, None, None] * self.losses + self.log_mass
        peak = np.max(exponent, axis=-1, keepdims=True)
        total = np.log(np.sum(np.exp(exponent - peak), axis=-1)) + peak[..., 0]
        return total @ self.counts

    def tilted(self, order: float) -> FloatArray:
        """Masses tilted by ``order`` and normalised, shape (events, points)."""
        exponent = order * self.losses + self.log_mass
        mass = np.exp(exponent - np.max(exponent, axis=-1, keepdims=True))
        return mass / np.sum(mass, axis=-1, keepdims=True)

    def deviation(self, order: float) -> float:
        """Standard deviation of the composed loss tilted by ``order``."""
        mass = self.tilted(order)
        centre = np.sum(mass * self.losses, axis=-1, keepdims=True)
        variance = float(self.counts @ np.sum(mass * (self.losses - centre) ** 2, axis=-1))
        # A single atom does not deviate at all; its own size then sets the scale.
        return math.sqrt(max(variance, 1e-6 * float(np.max(self.losses**2)), 1e-24))

    def added_variance(self, order: float, step: float) -> float:
        """Variance that splitting between nodes adds: h^2 / 6 per use, at most |L| h near zero."""
        size = np.abs(self.losses)
        each = np.sum(self.tilted(order) * np.minimum(step**2 / 6.0, size * step), axis=-1)
        return float(self.counts @ each)


def sketch(terms: Sequence[tuple[Pair, int]], tail_mass: float, *, forward: bool) -> Sketch:
    """Imitate the loss of every pair in one order."""
    count = max(64, min(400, _POINTS // len(terms)))
    columns = [pair.points(count, tail_mass) for pair, _ in terms]
    width = max(1, *(len(losses) for losses, _ in columns))
    losses, mass = np.zeros((len(terms), width)), np.zeros((len(terms), width))
    for row, (loss, weight) in enumerate(columns):
        losses[row, : len(loss)], mass[row, : len(loss)] = loss, weight
    if not np.all(np.any(mass > 0, axis=1)):
        mass[~np.any(mass > 0, axis=1), 0] = 1.0
    log_mass = np.where(mass > 0, np.log(np.where(mass > 0, mass, 1.0)), -np.inf)
    if not forward:
        losses, log_mass = -losses, log_mass - losses
    return Sketch(losses, log_mass, np.array([count for _, count in terms], np.float64))


def _conversion(orders: FloatArray) -> FloatArray:
    return orders * np.log(orders) - (1.0 + orders) * np.log1p(orders)


def epsilon_and_order(law: Sketch, delta: float) -> tuple[float, float]:
    """Renyi estimate of epsilon at ``delta`` and the order that attains it."""
    return _minimise(
        lambda orders: (law.cumulant(orders) + _conversion(orders) - math.log(delta)) / orders
    )


def delta_and_order(law: Sketch, epsilon: float) -> tuple[float, float]:
    """Renyi estimate of delta at ``epsilon`` and the order that attains it."""
    value, order = _minimise(
        lambda orders: law.cumulant(orders) + _conversion(orders) - orders * epsilon
    )
    return math.exp(min(value, 0.0)), order


def _minimise(objective: Callable[[FloatArray], FloatArray]) -> tuple[float, float]:
    """Least value over orders in [1e-4, 1e6] and where it is taken, to a per cent."""
    low, high = 1e-4, 1e6
    for points in (41, 9, 9):
        orders = np.geomspace(low, high, points)
        value = objective(orders)
        best = int(np.argmin(value))
        low, high = float(orders[max(best - 1, 0)]), float(orders[min(best + 1, points - 1)])
    return float(value[best]), float(orders[best])


def plan_window(law: Sketch, order: float, epsilon: float, allowed: float) -> ConvolutionPlan:
    """Window and tilt with errors of delta at ``epsilon`` near ``allowed``; short windows win.

    ``order`` is the Renyi order of ``epsilon``; the window reaches down to 0.8 ``epsilon`` at
    least, because estimates are too large. Less tilt shortens the window when single losses
    have heavy tails; more keeps the rounding of the transform small against a small delta.
    """
    wide, narrow = sorted((law.deviation(0.0), law.deviation(order)), reverse=True)
    slopes = np.geomspace(0.1 / wide, 60.0 / max(narrow, 1e-3 * wide), 20)
    log_allowed = math.log(allowed)
    lost = (law.cumulant(slopes) - log_allowed) / slopes
    best = int(np.argmin(lost))
    high, order_lost = max(float(lost[best]), epsilon + 1e-9), float(slopes[best])
    rounding = math.log(1e-14 * (float(np.sum(law.counts)) + 1e5))
    plans = []
    for share in _SHARES:
        tilt = share * order
        here = float(law.cumulant(np.array([tilt]))[0]) - tilt * epsilon
        lows = (log_allowed + tilt * epsilon - law.cumulant(tilt - slopes)) / slopes
        wraps = (law.cumulant(tilt + slopes) - tilt * epsilon - log_allowed) / slopes
        low, wrap = int(np.argmax(lows)), int(np.argmin(wraps))
        width = max(high - min(float(lows[low]), 0.8 * epsilon), float(wraps[wrap]) - epsilon)
        orders = (order_lost, tilt - float(slopes[low]), tilt + float(slopes[wrap]))
        excess = max(here + rounding - log_allowed, 0.0)
        plans.append((excess, width, ConvolutionPlan(tilt, high - width, high, *orders)))
    return min(plans)[2]


def widened(law: Sketch, plan: ConvolutionPlan, step: float) -> ConvolutionPlan:
    """``plan`` with room for what the grid itself adds to the spread of the loss."""
    added = law.added_variance(0.0, step) + law.added_variance(plan.tilt, step)
    margin = 6.0 * math.sqrt(added)
    return plan._replace(low=plan.low - margin, high=plan.high + margin)


def plan_step(law: Sketch, plan: ConvolutionPlan, order: float, tolerance: float) -> float:
    """Grid step at which the bracket of epsilon should be about 0.6 ``tolerance`` wide.

    The variance that the grid adds costs (1 + order) / 2 of it in epsilon above and twice that
    below; but no more than a step per use on either side.
    """
    step = plan.high - plan.low
    uses = float(np.sum(law.counts))
    for _ in range(12):
        added = max(law.added_variance(order, step), 1e-300)
        width = min(1.5 * (1.0 + order) * added, 2.0 * uses * step)
        step *= min(math.sqrt(0.6 * tolerance / width), 1.0)
    return min(step, (plan.high - plan.low) / 64.0)
