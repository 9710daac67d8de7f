"""The accountant that ledgers are handed: every question asked once per distinct history."""

from functools import lru_cache

from unisono.accounting.curve import PrivacyCurve
from unisono.core.events import Composed
from unisono.core.trust import Relation


@lru_cache(maxsize=4096)
def _curve(history: Composed, relation: Relation) -> PrivacyCurve:
    return PrivacyCurve(history, relation)


@lru_cache(maxsize=65536)
def _epsilon(history: Composed, relation: Relation, delta: float) -> float:
    return _curve(history, relation).epsilon(delta)


class DefaultAccountant:
    """Exact or certified bounds, remembered by history."""

    def fits(self, history: Composed, relation: Relation, epsilon: float, delta: float) -> bool:
        return PrivacyCurve(history, relation).fits(epsilon, delta)

    def epsilon(self, history: Composed, relation: Relation, delta: float) -> float:
        return _epsilon(history, relation, delta)


ACCOUNTANT = DefaultAccountant()
