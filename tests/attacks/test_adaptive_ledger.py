"""An analyst who asks a ledger adaptively: Gaussian sums, then one Laplace sum at a chosen moment.

Every request is granted by a real ledger. The largest delta of any such strategy is computed by
dynamic programming over the privacy loss; it stays within the budget. Under exact composition of
the releases that happened the same analyst exceeds it.
"""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

import unisono
from unisono import ACCOUNTANT, Budget, Ledger, Policy
from unisono.accounting import gaussian, law_costs
from unisono.accounting.curve import PrivacyCurve
from unisono.core.trust import Viewer
from unisono.errors import BudgetExceeded

LOOKS = 6
DELTA_EACH = 1e-9
NEIGHBORS = [1.0, 0.0], [-1.0, 0.0]
RESULT = Viewer("final-model")


def ledger_of(epsilon, delta):
    return Ledger.in_memory(Policy("d", Budget(epsilon, delta)), ACCOUNTANT)


def total(records, ledger, epsilon, delta):
    return unisono.total(records, (-1, 1), epsilon=epsilon, delta=delta, ledger=ledger).value


def cost_of(epsilon, delta):
    """What a ledger is asked for a sum."""
    scratch = ledger_of(50, 0.5)
    total(NEIGHBORS[0], scratch, epsilon, delta)
    return {viewer: scratch.history(viewer) for viewer in scratch.viewers}


def largest(granted, top):
    """The largest epsilon that is granted, by bisection; nearly 0 for none."""
    low, high = 1e-4, top
    for _ in range(11):
        middle = (low + high) / 2
        low, high = (middle, high) if granted(middle) else (low, middle)
    return low


def gaussian_profile(x, mu):
    return ndtr(mu / 2 - x / mu) - np.exp(x + log_ndtr(-mu / 2 - x / mu))


def laplace_profile(x, size):
    inner = -np.expm1((np.clip(x, -size, size) - size) / 2)
    return np.where(x >= size, 0.0, np.where(x <= -size, -np.expm1(np.minimum(x, 0.0)), inner))


class Attack:
    """Sizes that a ledger grants at each look, and the strategy that makes the most of them."""

    def __init__(self, epsilon, delta, rule):
        self.epsilon = epsilon
        mu = gaussian.mu_for(epsilon, delta)
        clock = np.concatenate([[0], np.geomspace(3e-3, 0.9, LOOKS)]) * mu * mu
        asked = [gaussian.epsilon(DELTA_EACH, size) for size in np.sqrt(np.diff(clock))]
        ledger = ledger_of(epsilon, delta)
        granted = rule(ledger, epsilon, delta)
        self.asked, self.mus, self.laplaces = asked, [], []
        for one in asked:
            total(NEIGHBORS[0], ledger, one, DELTA_EACH)
            (event, _), *more = cost_of(one, DELTA_EACH)[RESULT].parts
            assert not more
            self.mus.append(law_costs.gaussian_mu(event, ledger.policy.relation))
            self.laplaces.append(largest(lambda e: granted(cost_of(e, 0.0)), epsilon + 1))
        self.last = largest(lambda e: granted(cost_of(e, DELTA_EACH)), 3 * epsilon)
        self.rest = gaussian.mu_for(self.last, DELTA_EACH)
        self.solve(mu)

    def solve(self, mu):
        step = self.epsilon / 400
        half = int((14 * mu + 1) / step)
        self.grid, self.step = step * np.arange(-half, half + 1), step
        x = self.epsilon - self.grid
        value, self.takes = gaussian_profile(x, self.rest), []
        for size, own in zip(self.laplaces[::-1], self.mus[::-1], strict=True):
            now = laplace_profile(x, size)
            self.takes.insert(0, now > value)
            value = np.maximum(value, now)
            n = int((own * own / 2 + 9 * own) / step) + 1
            edges = ((np.arange(-n, n + 2) - 0.5) * step - own * own / 2) / own
            padded = np.pad(value, n, mode="edge")
            value = np.convolve(padded, np.diff(ndtr(edges))[::-1], mode="valid")
        self.delta = float(value[half])

    def take(self, k, loss):
        at = np.rint((loss - self.grid[0]) / self.step).astype(int)
        return self.takes[k][np.clip(at, 0, len(self.grid) - 1)]

    def simulate(self, sign, trials, rng):
        """How often the loss ends above epsilon, on the first (1) or the second data set (-1)."""
        loss, done = np.zeros(trials), np.zeros(trials, bool)
        for k, own in enumerate(self.mus):
            moved = sign * own * own / 2 + own * rng.standard_normal(trials)
            loss = np.where(done, loss, loss + moved)
            now = ~done & self.take(k, loss)
            size = self.laplaces[k]
            y = (sign > 0) + rng.laplace(0, 1 / size, trials)
            loss = np.where(now, loss + size * (np.abs(y) - np.abs(y - 1)), loss)
            done |= now
        moved = sign * self.rest**2 / 2 + self.rest * rng.standard_normal(trials)
        return float(np.mean(np.where(done, loss, loss + moved) > self.epsilon))


def by_ledger(ledger, epsilon, delta):
    """What the ledger grants."""

    def granted(cost):
        try:
            ledger.check(cost)
        except BudgetExceeded:
            return False
        return True

    return granted


def by_exact_composition(ledger, epsilon, delta):
    """What a ledger would grant that composes what happened."""

    def granted(cost):
        history = ledger.history(RESULT) + cost[RESULT]
        return PrivacyCurve(history, ledger.policy.relation).fits(epsilon, delta)

    return granted


@pytest.mark.parametrize("budget", [(1.0, 1e-6), (0.5, 1e-2)])
def test_no_strategy_exceeds_the_budget_of_a_ledger(budget):
    found = Attack(*budget, by_ledger)
    assert 0.5 < found.delta / budget[1] <= 1
    assert max(found.laplaces) > 0.1 * budget[0]  # something was granted


@pytest.mark.parametrize(("budget", "factor"), [((0.5, 1e-2), 1.5)])
def test_the_attack_works_on_exact_composition(budget, factor):
    """The control."""
    assert Attack(*budget, by_exact_composition).delta / budget[1] > factor


def test_simulated_and_real_runs():
    epsilon, delta = budget = 0.5, 1e-2
    found, rng, trials = Attack(*budget, by_ledger), np.random.default_rng(5), 200_000
    p, q = (found.simulate(sign, trials, rng) for sign in (1, -1))
    error = math.sqrt((p + math.exp(2 * epsilon) * q) / trials)
    assert p - math.exp(epsilon) * q <= delta + 4 * error
    assert abs(p - math.exp(epsilon) * q - found.delta) <= 4 * error + 0.05 * delta
    for records in NEIGHBORS * 3:  # the strategy is one that ledgers grant, from first to last
        ledger, loss = ledger_of(*budget), 0.0
        for k, (asked, mu) in enumerate(zip(found.asked, found.mus, strict=True)):
            loss += total(records, ledger, asked, DELTA_EACH) * mu * mu / 2
            if found.take(k, np.array([loss]))[0]:
                total(records, ledger, found.laplaces[k], 0.0)
                break
        else:
            total(records, ledger, found.last, DELTA_EACH)
