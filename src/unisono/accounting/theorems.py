r"""Classic composition, group privacy and sampling theorems, each with its condition checked.

A theorem used outside its condition raises ConditionViolated. For tables, `compare_composition`
returns every theorem as a record instead, the invalid ones marked and with the reason.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from unisono.accounting import renyi, zcdp
from unisono.accounting.composition import (
    Guarantee,
    advanced,
    basic,
    optimal,
    optimal_delta,
    published_sqrt6,
    require_guarantees,
    slack,
    sqrt6,
    strong,
    strong_heterogeneous,
)
from unisono.accounting.validation import (
    require_count,
    require_delta,
    require_epsilon,
    require_probability,
)
from unisono.errors import ConditionViolated, InvalidInput, UndefinedRelation

__all__ = [
    "Guarantee",
    "Theorem",
    "advanced",
    "amplify_by_sampling",
    "basic",
    "compare_composition",
    "group_approximate",
    "group_pure",
    "optimal",
    "optimal_delta",
    "parallel",
    "published_laplace_true_epsilon",
    "published_sqrt6",
    "sequential",
    "slack",
    "sqrt6",
    "strong",
    "strong_heterogeneous",
]


@dataclass(frozen=True)
class Theorem:
    """One line of a comparison: what a theorem says, whether it may be used here, and why not."""

    name: str
    epsilon: float
    valid: bool
    reason: str
    source: str


def sequential(parts: Sequence[Guarantee]) -> Guarantee:
    """Basic composition on the same records: epsilons and deltas add.

    >>> sequential([(1, 1e-6), (0.5, 0)])
    (1.5, 1e-06)
    """
    checked = require_guarantees(parts)
    total_delta = math.fsum(d for _, d in checked)
    if total_delta >= 1:
        raise ConditionViolated(
            f"the deltas add up to {total_delta:g}, which promises nothing; lower each delta"
        )
    return math.fsum(e for e, _ in checked), total_delta


def parallel(parts: Sequence[Guarantee]) -> Guarantee:
    """Composition over *disjoint* records: the worst part counts.

    Valid under replace-one and add-or-remove of one record that sits in exactly one part; the
    caller vouches for the disjointness.
    """
    checked = require_guarantees(parts)
    return max(e for e, _ in checked), max(d for _, d in checked)


def group_pure(epsilon: float, size: int) -> float:
    """Group of ``size`` records, pure differential privacy: ``size * epsilon``."""
    return require_epsilon(epsilon, zero=True) * require_count("size", size)


def group_approximate(epsilon: float, delta: float, size: int) -> Guarantee:
    """``(k epsilon, delta (e^{k epsilon} - 1)/(e^epsilon - 1))``, limit ``k delta``.

    (The thesis's eq. 3.8, corrected.)

    Vacuous once delta reaches 1, and then refused; a Gaussian's ``k mu`` is far tighter.
    """
    epsilon = require_epsilon(epsilon, zero=True)
    delta, size = require_delta(delta, zero=True), require_count("size", size)
    if delta == 0:
        return size * epsilon, 0.0
    if epsilon == 0:
        log_growth = math.log(size)
    else:  # log of (e^{k epsilon} - 1)/(e^epsilon - 1) without overflow
        log_growth = (size - 1) * epsilon + math.log(
            math.expm1(-size * epsilon) / math.expm1(-epsilon)
        )
    if math.log(delta) + log_growth >= 0:
        raise ConditionViolated(
            f"a group of {size} at epsilon {epsilon:g}, delta {delta:g} has a delta of 1 or more, "
            "which promises nothing; use the Gaussian curve (size * mu) or a smaller delta"
        )
    return size * epsilon, delta * math.exp(log_growth)


# Who may differ for which sampler (Balle-Barthe-Gaboardi 2018). Zero-out behaves as add-or-remove:
# an unsampled record and a zeroed one contribute the same.
_AMPLIFIED = {
    "poisson": {"add-or-remove", "zero-out"},
    "without-replacement": {"replace-one"},
}


def amplify_by_sampling(
    epsilon: float, delta: float, rate: float, *, sampler: str, relation: str
) -> Guarantee:
    """Secret sampling at rate q: ``(log(1 + q (e^epsilon - 1)), q delta)``.

    Holds for Poisson sampling under add-or-remove or zero-out, and for fixed-size sampling without
    replacement under replace-one; any other pair raises UndefinedRelation. Never holds against
    who knows which records were chosen.
    """
    epsilon, delta = require_epsilon(epsilon, zero=True), require_delta(delta, zero=True)
    rate = require_probability("rate", rate)
    if sampler not in _AMPLIFIED:
        raise InvalidInput(f"sampler is {sampler!r}; choose one of {sorted(_AMPLIFIED)}")
    if relation not in _AMPLIFIED[sampler]:
        raise UndefinedRelation(
            f"amplification by {sampler} sampling is not proved under {relation!r}; it holds "
            f"under {sorted(_AMPLIFIED[sampler])}"
        )
    if epsilon > 30:  # log(1 + q (e^eps - 1)) = eps + log(q + (1 - q) e^-eps)
        inner = rate + (1 - rate) * math.exp(-epsilon)
        return (max(0.0, epsilon + math.log(inner)) if inner > 0 else 0.0), rate * delta
    return math.log1p(rate * math.expm1(epsilon)), rate * delta


def published_laplace_true_epsilon(epsilon: float, dimension: int) -> float:
    """True pure epsilon of Chen 2019's output perturbation: ``sqrt(p) epsilon``.

    The source scales iid Laplace noise by an *L2* sensitivity; not private as claimed for p > 1.
    Attained by flipping the label of ``x = (1, ..., 1)/sqrt(p)``.
    """
    return require_epsilon(epsilon) * math.sqrt(require_count("dimension", dimension))


def compare_composition(
    epsilon: float, delta_each: float, count: int, delta: float
) -> list[Theorem]:
    """Every composition theorem for ``count`` adaptive (epsilon, delta_each) parts, side by side.

    An invalid line still shows the number its formula would give, or NaN, and says why it must
    not be used. (epsilon, delta)-DP is a mixture of full disclosure and epsilon-DP
    (Kairouz-Oh-Viswanath), so zCDP and Rényi bounds apply with delta' = `slack`.
    """
    epsilon, delta_each = require_epsilon(epsilon), require_delta(delta_each, zero=True)
    count, delta = require_count("count", count), require_delta(delta)

    def remaining() -> float:
        return slack(delta_each, count, delta)

    def by_renyi() -> float:
        curve = count * renyi.pure(renyi.ORDERS, epsilon)
        return min(renyi.epsilon(renyi.ORDERS, curve, remaining()), count * epsilon)

    arguments = (epsilon, delta_each, count, delta)
    candidates = [
        ("basic", lambda: basic(*arguments), "Dwork et al. 2006"),
        ("advanced", lambda: advanced(*arguments), "Dwork-Rothblum-Vadhan 2010"),
        ("sqrt(6 T log 1/delta)", lambda: sqrt6(*arguments), "lecture 16, Theorem 3.1(iii)"),
        ("strong", lambda: strong(*arguments), "Kairouz-Oh-Viswanath 2015, Theorem 3.4"),
        (
            "zCDP, standard",
            lambda: zcdp.epsilon_standard(count * zcdp.pure_classic(epsilon), remaining()),
            "Bun-Steinke 2016",
        ),
        (
            "zCDP, tight",
            lambda: zcdp.epsilon(count * zcdp.pure(epsilon), remaining()),
            "Canonne-Kamath-Steinke 2020, rho = epsilon tanh(epsilon/2)",
        ),
        ("Rényi", by_renyi, "Mironov 2017, tight conversion"),
        ("optimal", lambda: optimal(*arguments), "Kairouz-Oh-Viswanath 2015, Theorem 3.3"),
    ]
    table = []
    for name, compute, source in candidates:
        try:
            table.append(Theorem(name, compute(), True, "", source))
        except ConditionViolated as error:
            shown = published_sqrt6(epsilon, count, delta) if name.startswith("sqrt") else math.nan
            table.append(Theorem(name, shown, False, str(error), source))
    return table
