r"""Cheap estimates that tell the accountant where to look. Nothing here is part of a claim.

Every pair is imitated by a few hundred losses; from their cumulant ``K`` come the Renyi estimate

    epsilon = min_theta (K(theta) + theta log theta - (1+theta) log(1+theta) - log delta) / theta,

its minimiser as the tilt, a window that holds the tilted law up to ``OUTSIDE``, and a grid step.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unisono.accounting.convolution import Plan
from unisono.accounting.pairs import Pair
from unisono.accounting.validation import FloatArray

OUTSIDE = 1e-9
_POINTS = 30_000


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


def sketch(terms: Sequence[tuple[Pair, int]], tail_mass: float, *, forward: bool) -> Sketch:
    """Imitate the loss of every pair in one order."""
    count = max(64, min(512, _POINTS // len(terms)))
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


def _refine(
    low: float, high: float, objective: FloatArray, grid: FloatArray
) -> tuple[float, float]:
    best = int(np.argmin(objective))
    return float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])


def epsilon_and_tilt(law: Sketch, delta: float) -> tuple[float, float]:
    """Renyi estimate of epsilon at ``delta`` and the order that attains it."""
    low, high = 1e-4, 1e6
    for points in (41, 9, 9):
        orders = np.geomspace(low, high, points)
        value = (law.cumulant(orders) + _conversion(orders) - math.log(delta)) / orders
        low, high = _refine(low, high, value, orders)
    return float(np.min(value)), float(orders[np.argmin(value)])


def tilt_at(law: Sketch, epsilon: float) -> float:
    """Order that attains the Renyi estimate of delta at ``epsilon``."""
    low, high = 1e-4, 1e6
    for points in (41, 9, 9):
        orders = np.geomspace(low, high, points)
        value = law.cumulant(orders) + _conversion(orders) - orders * epsilon
        low, high = _refine(low, high, value, orders)
    return float(orders[np.argmin(value)])


def plan_window(law: Sketch, tilt: float) -> Plan:
    """Window of the law tilted by ``tilt``, and the Chernoff exponents that certify it."""
    mass = law.tilted(tilt)
    centre = np.sum(mass * law.losses, axis=-1, keepdims=True)
    variance = float(law.counts @ np.sum(mass * (law.losses - centre) ** 2, axis=-1))
    spread = math.sqrt(max(variance, 1e-24))
    slopes = np.geomspace(0.3, 40.0, 24) / spread
    base = float(law.cumulant(np.array([tilt]))[0])
    allowed = -math.log(OUTSIDE)
    high = (law.cumulant(tilt + slopes) - base + allowed) / slopes
    low = (law.cumulant(tilt - slopes) - base + allowed) / slopes
    best_high, best_low = int(np.argmin(high)), int(np.argmin(low))
    return Plan(
        tilt,
        -float(low[best_low]),
        float(high[best_high]),
        float(slopes[best_low]),
        float(slopes[best_high]),
    )


def plan_step(law: Sketch, plan: Plan, tolerance: float) -> float:
    """Grid step at which the bracket of epsilon should be about 0.7 ``tolerance`` wide.

    Splitting a loss between nodes at distance h adds a variance of h^2 / 6 (at most |L| h for
    losses nearer to zero than a step), which costs (1 + tilt) / 2 of it in epsilon above and
    twice that below.
    """
    mass, size = law.tilted(plan.tilt), np.abs(law.losses)
    step = plan.high - plan.low
    for _ in range(8):
        added = float(law.counts @ np.sum(mass * np.minimum(step**2 / 6.0, size * step), axis=-1))
        width = 1.5 * (1.0 + plan.tilt) * max(added, 1e-300)
        step *= min(math.sqrt(0.7 * tolerance / width), 1.0)
    return min(step, (plan.high - plan.low) / 64.0)
