"""Two-world audit: an empirical lower bound on epsilon.

A mechanism is run N times on a data set (world *in*) and N times on a neighbour
(world *out*); every output becomes one real score. How well a threshold on the score tells the
worlds apart bounds epsilon from below: see `unisono.attacks.distinguish` for the statistics.

Formal guarantee, for independent runs: with probability at least ``confidence``
``epsilon_direct`` is at most the true epsilon(delta) of the mechanism for this pair of
neighbours (no assumption on mechanism or score) **and** ``epsilon_model_based`` is at most
epsilon(delta) of the smallest mu for which the mechanism is mu-GDP. The second is a statement
about the claim only if the claim is that of a Gaussian mechanism, where (epsilon, delta) and
mu determine each other; a Laplace mechanism may be honest and exceed it. It needs no
assumption on the scores. A bound below the claim certifies nothing: audits find faults,
proofs find their absence.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from unisono.accounting import gaussian as gaussian_curve
from unisono.attacks.distinguish import (
    MINIMUM_CONFIDENCE,
    Array,
    Evidence,
    limits,
    lower_bound,
    odds,
    separation,
)
from unisono.errors import AuditFailed, InvalidInput

Data = TypeVar("Data")
Release = Callable[[Data, int, int], ArrayLike]
"""``release(data, runs, seed)`` -> array (runs,) or (runs, d): independent releases."""

MINIMUM_RUNS = 100


class Scores(NamedTuple):
    """One score a run, both arrays (runs,); large means "looks like world in"."""

    scores_in: Array
    scores_out: Array


@dataclass(frozen=True)
class Audit:
    """Lower bounds on epsilon(delta) that hold together with probability ``confidence``.

    ``epsilon_model_based`` and ``mu`` are None where no Gaussian trade-off was assumed.
    ``ceiling`` is the direct bound that complete separation of the worlds would have given:
    a claim above it cannot be refuted directly with this number of runs.
    """

    epsilon_direct: float
    epsilon_model_based: float | None
    mu: float | None
    ceiling: float
    direct: Evidence
    model_based: Evidence | None
    delta: float
    confidence: float
    runs: int

    @property
    def threshold(self) -> float:
        """Threshold of the direct test."""
        return self.direct.threshold

    @property
    def false_alarm_rate(self) -> float:
        """Largest probability that any bound of this audit exceeds the truth."""
        return 1.0 - self.confidence

    def summary(self) -> str:
        """The result in plain words."""
        lines = [
            f"{self.runs} runs in each of two neighbouring worlds, delta = {self.delta:g}.",
            f"Direct: epsilon is at least {self.epsilon_direct:.3f}, whatever the mechanism "
            f"(this many runs can show at most {self.ceiling:.2f}).",
        ]
        if self.epsilon_model_based is not None:
            lines.append(
                f"Model-based: epsilon is at least {self.epsilon_model_based:.3f} "
                f"(mu at least {self.mu:.3f}), if the mechanism is a Gaussian one."
            )
        lines.append(
            f"A correct mechanism is accused with probability at most "
            f"{100 * self.false_alarm_rate:.3g} %. A low bound certifies nothing."
        )
        return "\n".join(lines)


def audit(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    delta: float,
    confidence: float = 0.95,
    *,
    gaussian: bool = True,
    seed: int = 0,
) -> Audit:
    """Lower bounds on epsilon(delta) from scores (runs,) of two neighbouring worlds.

    The runs must be independent of each other, within and between the worlds. With
    ``gaussian`` the error level is shared equally by the direct and the model-based bound, so
    that ``confidence`` holds for both together; without it, or for delta = 0 (where no Gaussian
    mechanism has a finite epsilon), the direct bound has all of it. ``seed`` fixes the split.

    >>> noise = np.random.default_rng(1).normal(size=(2, 4000))
    >>> result = audit(noise[0] + 1.0, noise[1], delta=1e-5)
    >>> 0.8 < result.mu < 1.0
    True
    """
    inside, outside = _scores("scores_in", scores_in), _scores("scores_out", scores_out)
    _validate(inside, outside, delta, confidence)
    runs = len(inside)
    # The same permutation for both worlds makes the audit symmetric in them.
    order = np.random.default_rng(seed).permutation(runs)
    chosen, kept = order[: runs // 2], order[runs // 2 :]
    halves = (inside[chosen], outside[chosen]), (inside[kept], outside[kept])
    gaussian = gaussian and delta > 0
    level = (1.0 - confidence) / (2 if gaussian else 1)

    ratio, direct = lower_bound(*halves, lambda low, high: odds(low, high, delta), level)
    none = np.zeros(1)
    ceiling = max(
        odds(*bounds, delta)[0] for bounds in limits(none, none, len(kept), level).values()
    )
    mu, epsilon_model_based, model_based = None, None, None
    if gaussian:
        mu, model_based = lower_bound(*halves, separation, level)
        mu = max(mu, 0.0)
        epsilon_model_based = float(gaussian_curve.epsilon(delta, mu)) if mu > 0 else 0.0
    return Audit(
        epsilon_direct=_logarithm(ratio),
        epsilon_model_based=epsilon_model_based,
        mu=mu,
        ceiling=_logarithm(ceiling),
        direct=direct,
        model_based=model_based,
        delta=delta,
        confidence=confidence,
        runs=runs,
    )


def check(claim_epsilon: float, delta: float, audit: Audit) -> None:
    """Raise AuditFailed where a bound of the audit exceeds the claimed (epsilon, delta).

    A true claim is refused with probability at most ``audit.false_alarm_rate`` (for the
    model-based bound: a true claim about a Gaussian mechanism).
    """
    if not (math.isfinite(claim_epsilon) and claim_epsilon >= 0):
        raise InvalidInput(
            f"claim_epsilon = {claim_epsilon} is not a claim: give a finite number >= 0."
        )
    if delta != audit.delta:
        raise InvalidInput(
            f"The claim is for delta = {delta:g} but the audit was made for delta = "
            f"{audit.delta:g}: audit the scores again with the delta of the claim."
        )
    found = {"direct": audit.epsilon_direct, "model-based": audit.epsilon_model_based}
    broken = {kind: bound for kind, bound in found.items() if (bound or 0.0) > claim_epsilon}
    if not broken:
        return
    bounds = " and ".join(f"{bound:.3f} ({kind})" for kind, bound in broken.items())
    remedy = (
        "Look for too little noise, a missing clip, or a sensitivity stated too small."
        if "direct" in broken
        else "Look for too little noise, a missing clip, or a sensitivity stated too small; only "
        "the model-based bound objects, so if the noise is not Gaussian by design, audit with "
        "gaussian=False."
    )
    raise AuditFailed(
        f"The mechanism claims epsilon = {claim_epsilon:g} at delta = {delta:g}, but {audit.runs} "
        f"runs per world show that epsilon is at least {bounds}. A correct mechanism would be "
        f"accused with probability at most {100 * audit.false_alarm_rate:.3g} %. {remedy}"
    )


def two_worlds(
    release: Release[Data],
    data: Data,
    neighbour: Data,
    score: Callable[[Array], ArrayLike] | None = None,
    *,
    runs: int,
    seed: int,
    difference: ArrayLike | None = None,
) -> Scores:
    """Run ``release(data, runs, seed)`` on two neighbours and score every output.

    ``score`` maps outputs (runs, d) to (runs,). The default projects them on ``difference``
    (d,), the known difference of the two exact values (``data - neighbour`` if the mechanism
    releases its data): for Gaussian noise this is the likelihood ratio up to a monotone map,
    hence the most powerful score. The worlds get independent seeds.

    >>> def release(value, runs, seed):
    ...     return value + np.random.default_rng(seed).normal(size=(runs, 2))
    >>> scores = two_worlds(release, np.ones(2), np.zeros(2), runs=2000, seed=7)
    >>> 1.1 < audit(*scores, delta=1e-5).mu < 2**0.5
    True
    """
    if runs < MINIMUM_RUNS:
        raise InvalidInput(_too_few(runs))
    seeds = [int(word) for word in np.random.SeedSequence(seed).generate_state(2, np.uint64)]
    outputs = [
        _outputs(release(world, runs, key), runs)
        for world, key in zip((data, neighbour), seeds, strict=True)
    ]
    if score is None:
        direction = _direction(data, neighbour, difference, outputs[0].shape[1])
        with np.errstate(over="ignore", invalid="ignore"):  # _scores refuses what overflows
            projected = [output @ direction for output in outputs]
    else:
        projected = [np.asarray(score(output), np.float64) for output in outputs]
    names = ("score of data", "score of neighbour")
    checked = [_scores(name, value) for name, value in zip(names, projected, strict=True)]
    if any(len(value) != runs for value in checked):
        raise InvalidInput(
            f"score returned {len(checked[0])} and {len(checked[1])} values for {runs} runs: "
            f"it must return one number a run."
        )
    return Scores(*checked)


def repeat(mechanism: Callable[[int, Data], Any]) -> Release[Data]:
    """Turn ``mechanism(seed, data)``, one release, into a batch with a seed for each run."""

    def release(data: Data, runs: int, seed: int) -> Array:
        seeds = np.random.SeedSequence(seed).generate_state(runs, np.uint64)
        return np.stack([np.asarray(mechanism(int(key), data), np.float64) for key in seeds])

    return release


def _logarithm(ratio: float) -> float:
    return math.log(max(ratio, 1.0))


def _direction(data: Any, neighbour: Any, difference: ArrayLike | None, width: int) -> Array:
    if difference is None:
        try:
            difference = np.asarray(data, np.float64) - np.asarray(neighbour, np.float64)
        except (TypeError, ValueError):
            difference = np.empty(0)
    direction = np.atleast_1d(np.asarray(difference, np.float64))
    if direction.shape != (width,):
        raise InvalidInput(
            f"The difference of the worlds has shape {direction.shape} but the mechanism releases "
            f"{width} numbers: give difference= (their exact difference) or a score."
        )
    if not np.all(np.isfinite(direction)) or not np.any(direction):
        raise InvalidInput(
            f"difference = {direction} cannot tell the worlds apart: it must be finite and not "
            f"zero; give neighbours that differ, or a score."
        )
    return direction


def _outputs(value: ArrayLike, runs: int) -> Array:
    outputs = np.asarray(value, np.float64)
    if outputs.ndim == 0 or len(outputs) != runs:
        raise InvalidInput(
            f"The mechanism returned shape {outputs.shape} for {runs} runs: the first axis must "
            f"be the run; wrap a mechanism of single releases in repeat()."
        )
    bad = np.count_nonzero(~np.isfinite(outputs))
    if bad:
        raise InvalidInput(
            f"The mechanism released {bad} NaN or infinite values in {runs} runs: it must refuse "
            f"them before adding noise; mend the mechanism, then audit it."
        )
    return outputs.reshape(runs, -1)


def _scores(name: str, value: ArrayLike) -> Array:
    scores = np.asarray(value, np.float64)
    if scores.ndim != 1:
        raise InvalidInput(f"{name} has shape {scores.shape}: give one number a run, (runs,).")
    bad = np.count_nonzero(~np.isfinite(scores))
    if bad:
        raise InvalidInput(
            f"{name} has {bad} NaN or infinite values among {len(scores)}: the mechanism or the "
            f"score overflowed; replace infinities by the largest finite score (order is all "
            f"that counts) and find the cause of NaN."
        )
    return scores


def _too_few(runs: int) -> str:
    return (
        f"{runs} runs per world are too few: even complete separation would then prove next to "
        f"nothing; give at least {MINIMUM_RUNS}, and some thousands to find halved noise."
    )


def _validate(inside: Array, outside: Array, delta: float, confidence: float) -> None:
    if len(inside) != len(outside):
        raise InvalidInput(
            f"{len(inside)} scores of world in and {len(outside)} of world out: give equally "
            f"many, for the accuracy weighs both worlds equally."
        )
    if len(inside) < MINIMUM_RUNS:
        raise InvalidInput(_too_few(len(inside)))
    if not 0.0 <= delta < 1.0:
        raise InvalidInput(f"delta = {delta} is no failure probability: it must be in [0, 1).")
    if not MINIMUM_CONFIDENCE <= confidence < 1.0:
        raise InvalidInput(
            f"confidence = {confidence} must be in [{MINIMUM_CONFIDENCE}, 1): below, the bound on "
            f"the accuracy is not proved, and 1 needs infinitely many runs."
        )
