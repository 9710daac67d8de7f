"""Gaussian calibrations as the sources print them. Not private; kept for comparison.

Nothing here may back a claim: each function exists so that tests and reports can show how far
a printed formula is from the exact curve of `unisono.accounting.gaussian`.
"""

import math

from scipy.optimize import brentq

from unisono.accounting import gaussian
from unisono.accounting.validation import (
    require_count,
    require_delta,
    require_epsilon,
    require_positive,
    require_probability,
)


def classical_limit(delta: float) -> float:
    """Largest epsilon at which the classical formula is still true, rounded down.

    The formula's mu is ``epsilon / sqrt(2 log(1.25/delta))``; it is true while the exact epsilon
    of that mu stays below, which changes only once.

    >>> round(classical_limit(1e-5), 3)
    8.42
    """
    return _crossing(delta, math.sqrt(2 * math.log(1.25 / require_delta(delta))))


def published_gradient_perturbation_limit(delta: float) -> float:
    """epsilon*(delta): Chen 2019's theorem holds exactly iff epsilon <= epsilon*.

    >>> round(published_gradient_perturbation_limit(1e-5), 3)
    7.968
    """
    return _crossing(delta, math.sqrt(2 * math.log(1 / require_delta(delta))))


def _crossing(delta: float, constant: float) -> float:
    """Root of ``epsilon_exact(delta, epsilon / constant) = epsilon``, rounded down."""

    def excess(claimed: float) -> float:
        return gaussian.epsilon(delta, claimed / constant) - claimed

    low, high = 1e-3, 1.0
    while excess(high) <= 0:
        low, high = high, 2 * high
    root = brentq(excess, low, high, xtol=1e-12)
    slack = 1e-13
    while excess(root) > 0:
        root, slack = root * (1 - slack), 2 * slack
    return root


def published_gradient_perturbation_sigma(
    epsilon: float,
    delta: float,
    *,
    parties: int,
    smallest_party: int,
    lipschitz: float,
    rounds: int,
) -> float:
    """Chen 2019: ``sigma^2 = 8 G^2 T log(1/delta) / (m n_(1) epsilon)^2``.

    Not private for epsilon > epsilon*(delta), and "by zCDP lemmas" proves it for no epsilon. Right:
    ``2 G sqrt(T) / (m n_(1) mu_for(epsilon, delta))``, replace-one.
    """
    epsilon, delta = require_epsilon(epsilon), require_delta(delta)
    records = require_count("parties", parties) * require_count("smallest_party", smallest_party)
    rounds = require_count("rounds", rounds)
    scale = require_positive("lipschitz", lipschitz) / (records * epsilon)
    return scale * math.sqrt(8 * rounds * math.log(1 / delta))


def published_gradient_perturbation_true_epsilon(epsilon: float, delta: float) -> float:
    """Exact epsilon of Chen 2019's gradient perturbation when it claims ``epsilon``.

    Its mu is ``epsilon / sqrt(2 log(1/delta))`` whatever the other parameters are.

    >>> round(published_gradient_perturbation_true_epsilon(16, 1e-5), 2)
    19.14
    """
    delta = require_delta(delta)
    return gaussian.epsilon(delta, require_epsilon(epsilon) / math.sqrt(2 * math.log(1 / delta)))


def published_synchronous_sgd_sigma(
    epsilon: float, delta: float, *, lipschitz: float, rounds: int
) -> float:
    """The SGD write-up, Theorem 3 literally: each round ``(epsilon/sqrt(T log 1/delta), delta/T)``.

    ``sigma = 2 L sqrt(2 log(1.25 T/delta)) sqrt(T log(1/delta)) / epsilon`` under replace-one. Its
    own composition claims too much, though this much noise is more than enough:
    right is ``2 L sqrt(T) / mu_for(epsilon, delta)``.
    """
    epsilon, delta = require_epsilon(epsilon), require_delta(delta)
    rounds = require_count("rounds", rounds)
    each = epsilon / math.sqrt(rounds * math.log(1 / delta))
    return gaussian.published_classical_sigma(
        each,
        delta / rounds,
        2 * require_positive("lipschitz", lipschitz),
        beyond_its_condition=True,
    )


def published_synchronous_sgd_proved(epsilon: float, delta: float) -> tuple[float, float]:
    """What the SGD write-up's step 5 really proves: ``(sqrt2 eps + eps^2/log(1/delta), 2 delta)``.

    Not the (epsilon, delta) that Theorem 3 states.
    """
    epsilon, delta = require_epsilon(epsilon), require_delta(delta)
    return math.sqrt(2) * epsilon + epsilon**2 / math.log(1 / delta), 2 * delta


def published_secret_state_mu(
    rounds: int, damping: float, noise_multiplier: float
) -> tuple[float, float]:
    """True mu (final model, transcript) of Sharma 2019's Algorithm 3 with many parties.

    Each client feeds its own secret noise share back into its state and then corrects it, so its
    contribution accumulates while the noise stays fresh: the gap in round i is
    ``(1 + eta (i-1)) C``. The source accounts ``sqrt(T)/sigma``. Zero-out; twice that under
    replace-one. These are lower bounds on the true cost: not private as published.
    """
    rounds = require_count("rounds", rounds)
    damping = require_probability("damping", damping, zero=False)
    sigma = require_positive("noise_multiplier", noise_multiplier)
    transcript = math.sqrt(sum((1 + damping * i) ** 2 for i in range(rounds))) / sigma
    kept = 1 - (1 - damping) ** (2 * rounds)
    final = rounds * math.sqrt(damping * (2 - damping)) / (sigma * math.sqrt(kept))
    return final, transcript
