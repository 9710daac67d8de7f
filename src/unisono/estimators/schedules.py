"""How long, on how much of the data and how fast a network trains, and whether it got anywhere.

What is not given follows a rule of public facts; no record is looked at. With n records in all, p
parameters, clip C, momentum m = 0.9, sensitivity s (2 for replace-one, else 1) and μ the Gaussian
strength of (ε, δ),

    batch   B = min(n, 2048), sampled with q = B / n; T = 150 rounds
    noise   ρ = s sqrt(spread) / (B sqrt(log(1 + μ² / (q² T))))      of a mean gradient, over C
    rate    η = min(a (1 - m) / (ρ sqrt(T p)), b) / C      a = 20, b = 1 (squares: a = 4, b = 0.3)

T rounds then put noise of a length of about `a` into the parameters. ρ approximates what sampled
Gaussians need (a central limit theorem, Dong et al. 2022) and chooses η only: the noise that is
drawn, and what it costs, come from the certified accountant. The second half of the iterates is
averaged. Constants were set on held-out quarters of Adult's and of digits' *training* parts, those
of squares on a synthetic plane with bends (Friedman 1991).
"""

import math
from typing import Any

import numpy as np

from unisono.accounting import gaussian
from unisono.core.algorithm import Facts
from unisono.core.defaults import MOMENTUM
from unisono.core.events import positive
from unisono.core.privacy import Privacy
from unisono.core.trust import Relation, Trust
from unisono.errors import InvalidInput

AVERAGED, BATCH, ROUNDS = 0.5, 2048, 150
# (a, b) of the rule: useful parameters differ in length, and squares bend more than log-odds.
CLASSES, SQUARES = (20.0, 1.0), (4.0, 0.3)


def schedule(
    records: int,
    batch_size: int | None,
    rate: float | None,
    epochs: float | None,
    rounds: int | None,
) -> tuple[float, int]:
    """Sampling rate and rounds from what the user counts in.

    >>> schedule(1000, 50, None, 4, None)
    (0.05, 80)
    """
    if (batch_size is None) == (rate is None) or (epochs is None) == (rounds is None):
        raise InvalidInput(
            f"batch_size = {batch_size!r}, rate = {rate!r}, epochs = {epochs!r}, rounds = "
            f"{rounds!r}: give one of the first two and one of the last two"
        )
    if batch_size is not None:
        positive(batch_size=batch_size)
        if batch_size > records:
            raise InvalidInput(
                f"batch_size = {batch_size!r} of {records} records: a batch is a part of the data; "
                f"choose at most {records}"
            )
        rate = batch_size / records
    assert rate is not None
    if not 0 < rate <= 1:
        raise InvalidInput(f"rate = {rate!r}: the chance that a record takes part is in (0, 1]")
    if rounds is None:
        assert epochs is not None
        positive(epochs=epochs)
        rounds = max(1, round(epochs / rate))
    positive(rounds=rounds)
    if int(rounds) != rounds:
        raise InvalidInput(f"rounds = {rounds!r}: count whole rounds")
    return rate, int(rounds)


def quiet_rate(
    facts: Facts, trust: Trust, privacy: Privacy, rate: float, rounds: int, size: int
) -> float:
    """η C at which T rounds put noise of length 1 into `size` parameters (the module's rule)."""
    from unisono.releases.release import copies

    strength = gaussian.mu_for(privacy.epsilon, privacy.delta)
    signal = math.log1p(strength**2 / (rate**2 * rounds))
    factor = 2 if privacy.relation is Relation.REPLACE_ONE else 1
    noise = factor * math.sqrt(copies(facts, trust) / signal) / (rate * sum(facts.records))
    return (1 - MOMENTUM) / (noise * math.sqrt(rounds * size))


def require_converged(parameters: Any, learning_rate: float | None) -> None:
    """Refuse a model that is not finite, and say what is lost; None: an optimizer's own rate."""
    import jax

    if all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(parameters)):
        return
    what = "the optimizer's learning rate"
    if learning_rate is not None:
        what = f"learning_rate = {learning_rate:g}"
    raise InvalidInput(
        f"training diverged: parameters are infinite or not numbers. Lower {what} (try a tenth), "
        "or the clipping bound. The noisy gradients were released all the same, so the budget of "
        "this run IS SPENT: find rates on synthetic or public records first"
    )


__all__ = [
    "AVERAGED",
    "BATCH",
    "CLASSES",
    "ROUNDS",
    "SQUARES",
    "quiet_rate",
    "require_converged",
    "schedule",
]
