"""The accountant that ledgers are handed: every question asked once per distinct history."""

import math
from functools import lru_cache

from unisono.accounting import gaussian, law_costs
from unisono.accounting.curve import PrivacyCurve
from unisono.core.events import Composed, Event
from unisono.core.trust import Relation
from unisono.core.words import budget_guess

# Laws of so little noise are not worth a closer look.
_NO_PROMISE = 100.0


@lru_cache(maxsize=4096)
def _curve(history: Composed, relation: Relation) -> PrivacyCurve:
    return PrivacyCurve(history, relation)


@lru_cache(maxsize=65536)
def _epsilon(history: Composed, relation: Relation, delta: float) -> float:
    return _curve(history, relation).epsilon(delta)


@lru_cache(maxsize=65536)
def _guess(history: Composed, relation: Relation) -> float:
    return _curve(history, relation).guess


@lru_cache(maxsize=65536)
def _plain_gaussian(event: Event, relation: Relation) -> float | None:
    """mu squared of an unsampled, exactly drawn Gaussian, else None."""
    if event.noise.gap or event.noise.slack:
        return None
    mu = law_costs.gaussian_mu(event, relation)
    return None if mu is None else mu * mu


class DefaultAccountant:
    """Exact or certified bounds, remembered by history."""

    def fits(self, history: Composed, relation: Relation, epsilon: float, delta: float) -> bool:
        # Plain Gaussians, the bulk of all entries, need one sum and one remembered threshold.
        total = 0.0
        for event, count in history.parts:
            square = _plain_gaussian(event, relation)
            if square is None:
                return PrivacyCurve(history, relation).fits(epsilon, delta)
            total += count * square
        return delta > 0 and math.sqrt(total) * (1 + 2.0**-40) <= gaussian.mu_for(epsilon, delta)

    def epsilon(self, history: Composed, relation: Relation, delta: float) -> float:
        return _epsilon(history, relation, delta)

    def guess(self, history: Composed, relation: Relation, delta: float) -> float:
        epsilon = _epsilon(history, relation, delta)
        allowed = budget_guess(epsilon, delta)
        return allowed if epsilon > _NO_PROMISE else min(allowed, _guess(history, relation))


ACCOUNTANT = DefaultAccountant()
