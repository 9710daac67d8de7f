"""One object that answers every question about a history: `PrivacyCurve`.

Plain Gaussians use the exact curve, everything with a dominating pair a certified
privacy loss distribution, integer noises without one their Rényi bounds. All answers are
upper bounds on what an adversary can do, stated under one relation.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from unisono.accounting import gaussian, law_costs, pld, renyi
from unisono.accounting.pairs import ApproximatePair, Pair
from unisono.accounting.validation import require_delta, require_epsilon, require_probability
from unisono.core.events import Composed
from unisono.core.trust import Relation

# The part of delta that calibration leaves for the gap of rounded shares.
GAP_SHARE = 1e-9
_EPSILONS = np.concatenate([[0.0], np.geomspace(1e-3, 60, 60)])
_ORDERS = np.unique(np.concatenate([np.arange(2, 65), np.geomspace(72, 4096, 40).round()]))


@dataclass(frozen=True)
class PrivacyCurve:
    """What a history costs under a relation.

    >>> from unisono.core.events import Event, Gaussian, bounded_sum
    >>> curve = PrivacyCurve(Event(Gaussian(1.0), bounded_sum(l2=1.0)) * 1, Relation.ZERO_OUT)
    >>> round(curve.epsilon(1e-5), 4), round(curve.delta(1.0), 4), round(curve.advantage, 3)
    (4.3772, 0.1269, 0.383)
    """

    history: Composed
    relation: Relation

    # ---------------------------------------------------------- questions

    def epsilon(self, delta: float) -> float:
        """Smallest certified epsilon at this delta; infinite if there is none."""
        if delta == 0:
            return self._pure
        require_delta(delta)
        if self._disclosed:
            return math.inf
        if not self.history.parts:
            return 0.0
        if self._gap == 0 and self._slack == 0:
            return self._epsilon(delta)
        return self._epsilon_of_real_law(delta)

    def delta(self, epsilon: float) -> float:
        """Smallest certified delta at this epsilon."""
        require_epsilon(epsilon, zero=True)
        if self._disclosed:
            return 1.0
        if not self.history.parts:
            return 0.0
        # P~ <= e^a P + g <= e^a (e^e P' + d) + g and P' <= e^a P~' + g, with e = epsilon - 2a.
        ideal = epsilon - 2 * self._slack
        if ideal < 0:
            # e^{2a} P <= e^epsilon P + (e^{2a} - e^epsilon)
            return min(1.0, self.delta(2 * self._slack) + math.expm1(2 * self._slack))
        missed = self._gap * (1 + math.exp(min(epsilon, 700.0)))
        return min(1.0, math.exp(self._slack) * self._delta(ideal) + missed)

    @property
    def advantage(self) -> float:
        """Largest gap between true and false positive rate of any membership test."""
        return self.delta(0.0)

    @property
    def guess(self) -> float:
        """Best success at telling, from an even prior, whether one took part."""
        return 0.5 * (1 + self.advantage)

    def trade_off(self, false_positive_rate: float) -> float:
        """Smallest false negative rate any test can have at this false positive rate."""
        alpha = require_probability("false_positive_rate", false_positive_rate)
        if self._disclosed:
            return 0.0
        if self._mu is not None and self._gap == 0 and self._slack == 0:
            return float(ndtr(-self._mu - ndtri(alpha))) if 0 < alpha < 1 else 1.0 - alpha
        if not self._renyi_only and self._slack == 0:
            # Laws within total variation g of the ideal ones shift both error rates by g.
            shifted = self._composition.trade_off(min(1.0, alpha + self._gap))
            return max(0.0, float(shifted) - self._gap)
        deltas = np.array([self.delta(float(epsilon)) for epsilon in _EPSILONS])
        forward = 1 - deltas - np.exp(_EPSILONS) * alpha
        backward = np.exp(-_EPSILONS) * (1 - deltas - alpha)
        return float(max(0.0, forward.max(), backward.max()))

    def reconstruction(self, blind_success: float) -> float:
        """Largest success at guessing a secret that blind guessing hits this often."""
        kappa = require_probability("blind_success", blind_success)
        return 1 - self.trade_off(kappa)

    @property
    def method(self) -> str:
        """How the numbers were found."""
        if self._disclosed:
            return "disclosed"
        if self._mu is not None:
            return "exact Gaussian curve"
        if not self._renyi_only:
            return "privacy loss distribution (certified)"
        return "Rényi divergence"

    # ------------------------------------------------------------ methods

    @property
    def _disclosed(self) -> bool:
        return self.history.discloses

    @cached_property
    def _mu(self) -> float | None:
        squares = []
        for event, count in self.history.parts:
            mu = law_costs.gaussian_mu(event, self.relation)
            if mu is None:
                return None
            squares.append(count * mu * mu)
        return math.sqrt(math.fsum(squares)) * (1 + 2.0**-50) if squares else None

    @cached_property
    def _pure(self) -> float:
        """Epsilon at delta 0: the sum over pure events."""
        total = 0.0
        for event, count in self.history.parts:
            one = law_costs.sampled_pure_epsilon(event, self.relation)
            if one is None:
                return math.inf
            total += count * one
        return total

    @cached_property
    def _gap(self) -> float:
        return math.fsum(count * event.noise.gap for event, count in self.history.parts)

    @cached_property
    def _slack(self) -> float:
        return math.fsum(count * event.noise.slack for event, count in self.history.parts)

    @cached_property
    def _pairs(self) -> list[tuple[Pair, int]]:
        found = []
        for event, count in self.history.parts:
            dominating = law_costs.pair(event, self.relation)
            if dominating is not None:
                found.append((dominating, count))
        return found

    @cached_property
    def _composition(self) -> pld.Composition:
        return pld.compose(self._pairs)

    @cached_property
    def _renyi_only(self) -> bool:
        return len(self._pairs) < len(self.history.parts)

    @cached_property
    def _renyi(self) -> np.ndarray | None:
        """The Rényi curve of everything, or None if some part has none."""
        curves, counts = [], []
        for event, count in self.history.parts:
            curve = law_costs.renyi_curve(event, self.relation, _ORDERS)
            if curve is None:
                return None
            curves.append(curve)
            counts.append(count)
        return renyi.compose(curves, counts)

    def _epsilon(self, delta: float) -> float:
        if self._mu is not None:
            return gaussian.epsilon(delta, self._mu)
        if not self._renyi_only:
            return min(self._composition.epsilon(delta).upper, self._pure)
        if self._renyi is not None:
            return renyi.epsilon(_ORDERS, self._renyi, delta)
        return pld.compose(self._mixed(delta)).epsilon(delta).upper

    def ideal_delta(self, epsilon: float) -> float:
        """Delta of the laws that were meant, whatever gap and slack what was drawn has."""
        return self._delta(epsilon)

    def _delta(self, epsilon: float) -> float:
        if self._mu is not None:
            return gaussian.delta(epsilon, self._mu)
        if epsilon >= self._pure:
            return 0.0
        if not self._renyi_only:
            return self._composition.delta(epsilon).upper
        if self._renyi is not None:
            return renyi.delta(_ORDERS, self._renyi, epsilon)
        return pld.compose(self._mixed(1e-6)).delta(epsilon).upper

    def _mixed(self, delta: float) -> list[tuple[Pair, int]]:
        """Pairs where there are any; the rest joined into one (epsilon, delta / 2) pair."""
        curves, counts = [], []
        for event, count in self.history.parts:
            if law_costs.pair(event, self.relation) is None:
                curve = law_costs.renyi_curve(event, self.relation, _ORDERS)
                if curve is None:
                    raise law_costs.unknown(event, self.relation)
                curves.append(curve)
                counts.append(count)
        rest = renyi.epsilon(_ORDERS, renyi.compose(curves, counts), delta / 2)
        return [*self._pairs, (ApproximatePair(rest, delta / 2), 1)]

    def _epsilon_of_real_law(self, delta: float) -> float:
        """Epsilon of a law that differs from the ideal one by a slack and a gap."""
        missed = delta * GAP_SHARE
        for _ in range(4):
            if missed >= delta:
                break
            high = self._epsilon((delta - missed) * math.exp(-self._slack)) + 2 * self._slack
            if self.delta(high) <= delta:
                return high
            # What the gap takes of delta, with a little more, as epsilon grows with it.
            missed = 1.001 * self._gap * (1 + math.exp(min(high, 700.0))) + delta * GAP_SHARE
        # Delta falls, then rises with the gap's e^epsilon: walk up in small steps.
        low = high
        while self.delta(high) > delta:
            low, high = high, 1.02 * high + 1e-3
            if self._gap * (1 + math.exp(min(high, 700.0))) > delta:
                return math.inf
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def fits(self, epsilon: float, delta: float) -> bool:
        """Whether the history is certainly within (epsilon, delta); cheap bounds come first."""
        if self._disclosed:
            return False
        if self._pure <= epsilon:
            return True
        if delta == 0:
            return False
        if self._mu is not None:
            # One comparison against a remembered threshold keeps ledgers at the disk's speed.
            if self._gap == 0 and self._slack == 0:
                return self._mu <= gaussian.mu_for(epsilon, delta)
            return self.delta(epsilon) <= delta or self.epsilon(delta) <= epsilon
        if self._renyi is not None and self._gap == 0 and self._slack == 0:
            if renyi.delta(_ORDERS, self._renyi, epsilon) <= delta:
                return True
            if self._renyi_only:
                return False
        return self.epsilon(delta) <= epsilon
