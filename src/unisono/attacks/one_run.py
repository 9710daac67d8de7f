"""An audit by one single run (Steinke, Nasr and Jagielski 2023).

Of m canaries each is put into the data or left out by a fair coin. One run is made; every canary
gets a score, high where it looks included. The auditor guesses "in" for the highest scores, "out"
for the lowest, and abstains in between. If the run is (ε, δ)-private per record, the number V of
correct guesses among r is hardly larger than a binomial:

    P(V >= v)  <=  P(B >= v) + 2 m δ α,        B ~ Binomial(r, e^ε / (1 + e^ε))
    α = max over i in 1..v of  P(v - i <= B < v) / i

(their Theorem 5.2). The largest ε for which that is below 1 - confidence is refuted: the run is not
(ε, δ)-private. Holds for any mechanism, any scores and any dependence between canaries, for
add-or-remove or zero-out; it is weaker than thousands of runs in two worlds, and costs one.

Where the claim is that of a Gaussian mechanism, a whole trade-off curve is claimed, and more can be
refuted (Mahloujifar, Melis and Chaudhuri 2025): with h_i + r_i the chance of i or more correct
guesses, split by a wrong and a right one, and f the claimed curve, going down from i = v

    h_i = max(h_{i+1}, f(1 - r_{i+1})),        r_i = r_{i+1} + i / (r - i) (h_i - h_{i+1})

bounds h_0 + r_0 from below; beyond r / m the claim is refuted. `refuted` takes any claimed curve f,
such as that of sampled Gaussian noise; `one_run` itself reports the Gaussian's.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from unisono.accounting import gaussian
from unisono.errors import AuditFailed, InvalidInput


@dataclass(frozen=True)
class OneRun:
    """What one run shows: `epsilon` is at most the true one with probability `confidence`, and so
    is `mu`, if the mechanism is a Gaussian one; `epsilon_model_based` is that mu's epsilon."""

    epsilon: float
    mu: float
    delta: float
    confidence: float
    canaries: int
    guesses: int
    correct: int

    @property
    def epsilon_model_based(self) -> float:
        return gaussian.epsilon(self.delta, self.mu) if self.mu > 0 else 0.0

    def __str__(self) -> str:
        return (
            f"{self.correct} of {self.guesses} guesses about {self.canaries} canaries were right: "
            f"epsilon is at least {self.epsilon:.3g} at delta {self.delta:g} "
            f"(confidence {self.confidence:g})"
        )


def check(claim_epsilon: float, found: OneRun, gaussian: bool = True) -> None:
    """Raise AuditFailed where one run refutes the claimed epsilon; a true claim is refused with
    probability at most 1 - `found.confidence` for each bound that is looked at.

    `gaussian`: the claim is that of Gaussian noise without sampling, so its mu is a claim too.
    """
    bounds = {"whatever the mechanism": found.epsilon}
    if gaussian:
        bounds["if its noise is Gaussian"] = found.epsilon_model_based
    words, bound = max(bounds.items(), key=lambda item: item[1])
    if bound > claim_epsilon:
        raise AuditFailed(
            f"the run claims epsilon = {claim_epsilon:g} at delta = {found.delta:g}, but "
            f"{found.correct} of {found.guesses} guesses about {found.canaries} canaries were "
            f"right: epsilon is at least {bound:.3f}, {words} (confidence {found.confidence:g}). "
            "Look for too little noise, a missing clip, or a sensitivity stated too small"
        )


def chance(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Bound on the probability of so many correct guesses under an (epsilon, delta)-private run.

    >>> chance(10, 10, 5, 0.0, 0.0) > 0.5
    True
    """
    odds = 1 / (1 + math.exp(-epsilon))
    alpha = 0.0
    if delta > 0 and correct > 0:
        below = np.cumsum(binom.pmf(correct - np.arange(1, correct + 1), guesses, odds))
        alpha = float(np.max(below / np.arange(1, correct + 1)))
    return min(1.0, float(binom.sf(correct - 1, guesses, odds)) + 2 * canaries * delta * alpha)


def one_run(
    scores: ArrayLike,
    included: ArrayLike,
    guesses: int,
    delta: float,
    confidence: float = 0.95,
    only_in: bool = False,
) -> OneRun:
    """The largest epsilon that one run refutes: scores (m,), included (m,) fair coins.

    `guesses`, chosen before the scores are seen, is how many canaries are guessed about: half of
    them "in" (the highest scores), half "out". With `only_in` all are guessed to be "in", which is
    better where records are sampled: an included canary that was never drawn looks left out.
    """
    values, coins = np.asarray(scores, float), np.asarray(included, bool)
    if values.ndim != 1 or values.shape != coins.shape or not np.isfinite(values).all():
        raise InvalidInput(
            f"scores of shape {values.shape} for coins of shape {coins.shape}: give one finite "
            "score for each canary"
        )
    if not 2 <= guesses <= len(values) or guesses % 2:
        raise InvalidInput(
            f"guesses = {guesses!r} about {len(values)} canaries: an even number up to all of them"
        )
    if not (0 <= delta < 1 and 0.5 <= confidence < 1):
        raise InvalidInput(f"delta {delta!r} lies in [0, 1), confidence {confidence!r} in [.5, 1)")
    order = np.argsort(values, kind="stable")
    half = 0 if only_in else guesses // 2
    correct = int(coins[order[half - guesses :]].sum() + (~coins[order[:half]]).sum())
    doubt = 1 - confidence
    size = len(values)
    epsilon = _largest(lambda e: chance(size, guesses, correct, e, delta) < doubt, 50.0)
    mu = _largest(lambda m: gaussian_refuted(size, guesses, correct, m, doubt), 20.0)
    return OneRun(epsilon, mu, delta, confidence, size, guesses, correct)


def gaussian_refuted(canaries: int, guesses: int, correct: int, mu: float, doubt: float) -> bool:
    """Whether so many correct guesses are less likely than `doubt` under mu-GDP.

    >>> gaussian_refuted(100, 50, 50, 0.5, 0.05), gaussian_refuted(100, 50, 25, 0.5, 0.05)
    (True, False)
    """
    return refuted(canaries, guesses, correct, lambda p: float(ndtr(-ndtri(p) - mu)), doubt)


def refuted(
    canaries: int, guesses: int, correct: int, trade_off: Callable[[float], float], doubt: float
) -> bool:
    """Whether so many correct guesses are less likely than `doubt` under a claimed curve."""
    right = doubt * correct / canaries
    wrong = doubt * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        grown = max(wrong, trade_off(1.0 - right))
        if grown == wrong:  # neither can change any more
            break
        right, wrong = min(1.0, right + i / (guesses - i) * (grown - wrong)), grown
    return right + wrong > guesses / canaries


def _largest(refuted: Callable[[float], bool], high: float) -> float:
    """The largest value that is refuted, 0 if none is; smaller ones are refuted too."""
    low = 0.0
    if not refuted(1e-9):
        return low
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
