"""One record against DP-SGD's epsilon, and against the number of parties in a secure sum.

A party sends the gradient of one record: the easiest prey there is. DP-SGD hides it by noise; a
secure sum hides it among n - 1 others, and its attacker looks for all n records at once. As the
best of n guesses counts, each point has a control: the best of as many public images.
"""

from collections.abc import Sequence

import numpy as np

from unisono.attacks.defences import Defence, DpSgd, SecureSum
from unisono.attacks.laboratory import reconstruction, testbed
from unisono.attacks.laboratory.results import TensorPoint
from unisono.attacks.laboratory.testbed import Ground
from unisono.attacks.scoring import match


def by_epsilon(
    place: Ground, multipliers: Sequence[float], digits: int, delta: float, seed: int
) -> tuple[TensorPoint, ...]:
    """Points by epsilon of the round, for somebody who knows who took part."""
    found = []
    for multiplier in multipliers:
        defence = DpSgd(place.record_length / 4, multiplier, 1)
        found.append(_point(place, defence, defence.epsilon(delta, 1, 1), 1, digits, seed))
    return tuple(found)


def by_parties(
    place: Ground, parties: Sequence[int], digits: int, seed: int
) -> tuple[TensorPoint, ...]:
    pool = (place.rows, place.targets)
    return tuple(_point(place, SecureSum(n, pool), n, n, digits, seed) for n in parties)


def _point(
    place: Ground, defence: Defence, at: float, guesses: int, digits: int, seed: int
) -> TensorPoint:
    rows, labels = testbed.secrets()
    errors, controls = [], []
    for number in range(digits):
        own = slice(number, number + 1)
        generator = np.random.default_rng([seed, 4, number])
        seen = defence.observe(place.victim(rows[own], labels[own]), generator)
        found = reconstruction.inverted(place, seen, 1, adaptive=True)
        errors.append(match(found.rows, rows[own]).error)
        for _ in range(20):
            drawn = place.rows[generator.choice(len(place.rows), guesses, replace=False)]
            controls.append(match(drawn, rows[own]).error)
    return TensorPoint(float(at), float(np.mean(errors)), float(np.mean(controls)))
