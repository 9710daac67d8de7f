r"""Sequential SGD with a hidden order (the SGD write-up, SGD1): what each viewer may be told.

A coordinator B draws a sequence pi uniformly from [n]^T, T = n^2, and in step i the owner of record
pi(i) releases ``n grad + N(0, sigma^2 I)``, of replace-one sensitivity ``2 n L``. Three views:

(a) who knows nothing of pi: each step samples 1 of n records without replacement;
(b) who knows pi, B first of all: **no amplification**. A hidden permutation never protects
    against who knows it. A record is used k ~ Bin(T, 1/n) times, each at full cost;
(c) who sees which *party* computed, as every other party does: 1 of n_j records, over
    Bin(T, n_j/n) steps.

All are replace-one, n public. View (b) believes that B drew pi at random; a B who names one record
again and again is stopped only by a cap that the party enforces itself (`capped_mu`).
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from unisono.accounting import gaussian
from unisono.accounting import sampling_without_replacement as without_replacement
from unisono.accounting.validation import (
    FloatArray,
    require_count,
    require_delta,
    require_epsilon,
    require_positive,
)
from unisono.errors import InvalidInput


def _step_mu(records: int, lipschitz: float, sigma: float) -> float:
    sensitivity = 2 * require_count("records", records) * require_positive("lipschitz", lipschitz)
    return sensitivity / require_positive("sigma", sigma)


def _steps(records: int, steps: int | None) -> int:
    return records**2 if steps is None else require_count("steps", steps)


def _binomial(trials: int, probability: float) -> tuple[FloatArray, FloatArray]:
    """Values and probabilities of Bin(trials, probability), all but 1e-40 of the mass.

    Built from ratios of neighbours and normalised: log-gamma of n^2 would lose eight digits.
    """
    if probability == 1:
        return np.array([float(trials)]), np.ones(1)
    mean = trials * probability
    reach = 14 * math.sqrt(mean) + 120
    k = np.arange(max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach)) + 1)
    ratios = np.log((trials - k[:-1]) / (k[:-1] + 1)) + math.log(probability / (1 - probability))
    log_mass = np.concatenate([[0.0], np.cumsum(ratios)])
    mass = np.exp(log_mass - log_mass.max())
    return k.astype(np.float64), mass / mass.sum()


def without_order_epsilon(
    delta: float, records: int, lipschitz: float, sigma: float, steps: int | None = None
) -> float:
    """View (a): epsilon against who sees all G_i but neither pi nor who computed."""
    mu = _step_mu(records, lipschitz, sigma)
    return without_replacement.epsilon(delta, _steps(records, steps), 1, records, mu, 1.0)


def known_order_delta(
    epsilon: float, records: int, lipschitz: float, sigma: float, steps: int | None = None
) -> float:
    """View (b): ``sum_k Bin(k; T, 1/n) dG(epsilon; sqrt(k) 2 n L / sigma)``.

    Exact for a coordinator who drew pi at random and knows it.
    """
    epsilon = require_epsilon(epsilon, zero=True)
    mu = _step_mu(records, lipschitz, sigma)
    uses, mass = _binomial(_steps(records, steps), 1 / records)
    return min(1.0, float(mass @ gaussian.deltas(epsilon, np.sqrt(uses) * mu)) * (1 + 1e-11))


def known_order_epsilon(
    delta: float, records: int, lipschitz: float, sigma: float, steps: int | None = None
) -> float:
    """View (b): least epsilon at ``delta``, rounded up."""
    delta = require_delta(delta)
    mu = _step_mu(records, lipschitz, sigma)
    return _inverse(
        delta,
        lambda e: known_order_delta(e, records, lipschitz, sigma, steps),
        start=mu,
    )


def capped_mu(uses: int, records: int, lipschitz: float, sigma: float) -> float:
    """mu when the owner lets no record be used more than ``uses`` times: ``sqrt(k_max) 2nL/sigma``.

    Holds whatever the coordinator does; with ``uses = n`` it is the cost of n fixed passes.
    """
    return math.sqrt(require_count("uses", uses)) * _step_mu(records, lipschitz, sigma)


def visible_parties_delta(
    epsilon: float,
    records: int,
    party_records: int,
    lipschitz: float,
    sigma: float,
    steps: int | None = None,
) -> float:
    """View (c) for a record of a party that holds ``party_records`` of the ``records``.

    The number of steps the party computes is seen and independent of the data, so the deltas of
    the Rényi bound are averaged over it (in bins, each counted at its largest number).
    """
    epsilon = require_epsilon(epsilon, zero=True)
    if party_records == 1:  # who computed is then which record: view (b), exactly
        return known_order_delta(epsilon, records, lipschitz, sigma, steps)
    return _visible_delta(epsilon, *_visible(records, party_records, lipschitz, sigma, steps))


def visible_parties_epsilon(
    delta: float,
    records: int,
    party_records: int,
    lipschitz: float,
    sigma: float,
    steps: int | None = None,
) -> float:
    """View (c): least epsilon at ``delta``, rounded up."""
    delta = require_delta(delta)
    if party_records == 1:
        return known_order_epsilon(delta, records, lipschitz, sigma, steps)
    prepared = _visible(records, party_records, lipschitz, sigma, steps)
    start = _step_mu(records, lipschitz, sigma)
    return _inverse(delta, lambda e: _visible_delta(e, *prepared), start=start)


def _visible(
    records: int, party_records: int, lipschitz: float, sigma: float, steps: int | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    records = require_count("records", records)
    party_records = require_count("party_records", party_records)
    if party_records > records:
        raise InvalidInput(
            f"party_records {party_records} exceeds records {records}; a party holds a part of all"
        )
    mu = _step_mu(records, lipschitz, sigma)
    orders = without_replacement.ORDERS
    curve = without_replacement.renyi_curve(orders, 1, party_records, mu, 1.0)
    uses, mass = _binomial(_steps(records, steps), party_records / records)
    edges = np.unique(np.linspace(0, len(uses), min(len(uses), 256) + 1).astype(int))
    largest = uses[edges[1:] - 1]
    weights = np.add.reduceat(mass, edges[:-1])
    return curve, largest, weights


def _visible_delta(
    epsilon: float, curve: FloatArray, counts: FloatArray, weights: FloatArray
) -> float:
    a = without_replacement.ORDERS
    logs = (a - 1) * (counts[:, None] * curve - epsilon + np.log1p(-1 / a)) - np.log(a)
    each = np.exp(np.minimum(np.min(logs, axis=1), 0.0))
    # A party that computed no step released nothing.
    return min(1.0, float(weights @ np.where(counts == 0, 0.0, each)) * (1 + 1e-11))


def _inverse(delta: float, curve: Callable[[float], float], start: float) -> float:
    """Least epsilon with ``curve(epsilon) <= delta`` for a decreasing curve, rounded up."""
    if curve(0.0) <= delta:
        return 0.0
    high = start
    while curve(high) > delta:
        high *= 2
    root = float(brentq(lambda e: curve(e) - delta, 0.0, high, rtol=1e-12))
    step = 1e-12 * (1 + root)
    while curve(root) > delta:
        root, step = root + step, 2 * step
    return root


def published_sigma(epsilon: float, delta: float, records: int, lipschitz: float) -> float:
    """The SGD write-up, eq. (3): ``sigma = 4 n L log(1.25 n^2 / delta) / epsilon``.

    More than enough in view (a), not private against B in view (b); kept for comparison.
    """
    epsilon, delta = require_epsilon(epsilon), require_delta(delta)
    records = require_count("records", records)
    level = math.log(1.25 * records**2 / delta)
    return 4 * records * require_positive("lipschitz", lipschitz) * level / epsilon


def published_equation6_delta(delta: float, records: int) -> float:
    """Left side of the SGD write-up's eq. (6), ``1 - (1 - delta/n^2)^{n^2} (1 - delta^{1/3})``.

    The source claims that it is at most delta; it is at least delta^{1/3}. Not private.
    """
    delta, steps = require_delta(delta), require_count("records", records) ** 2
    return -math.expm1(steps * math.log1p(-delta / steps) + math.log1p(-(delta ** (1 / 3))))
