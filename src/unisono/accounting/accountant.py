"""The accountant that ledgers are handed: every question asked once per distinct history."""

import math
from functools import lru_cache

from unisono.accounting import filter, gaussian, law_costs
from unisono.accounting.curve import PrivacyCurve
from unisono.core.events import Composed, Event
from unisono.core.trust import Relation
from unisono.core.wallet import Remaining, Wallet
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


@lru_cache(maxsize=1024)
def _begin(epsilon: float, delta: float) -> Wallet:
    return filter.begin(epsilon, delta)


@lru_cache(maxsize=1024)
def _left(wallet: Wallet) -> Remaining:
    seen = math.inf if wallet.window is None else float(wallet.window)
    pure = max(wallet.epsilon - seen - filter.gaussian_reach(wallet), 0.0)
    pure = pure if pure > 1e-9 * wallet.epsilon else 0.0  # the rounding of scales is nothing to use
    share = pure / wallet.epsilon if wallet.epsilon else 0.0
    if not wallet.mu2:
        return Remaining(0.0, pure, share)
    whole = _begin(wallet.epsilon, wallet.delta).mu2
    assert whole is not None
    # Before the first release exact composition allows all of it.
    mu = math.sqrt(wallet.mu2)
    most = wallet.epsilon if wallet.fresh else gaussian.epsilon(wallet.delta, mu)
    return Remaining(most, pure, max(share, min(wallet.mu2 / whole, 1.0)))


class DefaultAccountant:
    """Exact or certified bounds, remembered by history; budgets by the filter."""

    def begin(self, epsilon: float, delta: float) -> Wallet:
        return _begin(epsilon, delta)

    def charge(self, wallet: Wallet, history: Composed, relation: Relation) -> Wallet | None:
        return filter.charge(wallet, history, relation)

    def follows(self, before: Wallet, after: Wallet, history: Composed, relation: Relation) -> bool:
        """Whether a state may certainly follow another, whatever machine wrote both."""
        return filter.follows(before, after, history, relation)

    def left(self, wallet: Wallet) -> Remaining:
        return _left(wallet)

    def fits(self, history: Composed, relation: Relation, epsilon: float, delta: float) -> bool:
        """Whether a history that is declared as a whole is certainly (epsilon, delta)-private."""
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
