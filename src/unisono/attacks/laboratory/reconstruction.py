"""Gradient inversion, closed form and class means, on the images' network.

The attacker gets what the server saw, the public network and the public records; nothing else. Two
kinds are tried on everything: the adaptive one follows the public recipe of the defence, the naive
one takes every update for a plain gradient.

Labels are read off the last bias gradient. A clip shrinks it, and with it the counts of classes:
the adaptive attacker divides it by what the clip leaves of public records' gradients.

Two controls belong beside every error. The mean image is what somebody guesses who saw nothing. The
class means of labels that were read off the update are what somebody guesses who learned the labels
and no pixel; class means of blind labels are that attack without any update.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.attacks import closed_form
from unisono.attacks.gradient_inversion import InversionSettings, invert_without_labels
from unisono.attacks.laboratory.testbed import CLASSES, FEATURES, Ground
from unisono.attacks.scoring import match
from unisono.attacks.victim import Seen, as_gradient, attacker_model, length, sender

SETTINGS = InversionSettings(low=0.0, high=1.0, restarts=2, steps=400)
_LAST, _FIRST = "dense1", "dense0"


class Attempt(NamedTuple):
    """Rows (k, d) somebody came up with, and the classes they were looked for under."""

    rows: np.ndarray
    labels: np.ndarray


def inverted(
    ground: Ground, seen: Seen, records: int, adaptive: bool, settings: InversionSettings = SETTINGS
) -> Attempt:
    """Gradient inversion without labels, within the public range of grey values."""
    model = attacker_model(ground.network.loss, ground.parameters, seen, records, adaptive=adaptive)
    bias = last_bias(ground, seen, model.records, adaptive)

    def probabilities(rows: Any) -> Any:
        scores = ground.network.predict(ground.parameters, jnp.asarray(rows, jnp.float32))
        return jax.nn.softmax(scores)

    found = invert_without_labels(
        model, bias, probabilities, FEATURES, settings, ground.rows[:200], tries=2
    )
    return Attempt(found.rows, found.targets)


def last_bias(ground: Ground, seen: Seen, records: int, adaptive: bool) -> np.ndarray:
    """The gradient by the last bias, with what a clip took away put back by the adaptive."""
    bias = np.asarray(as_gradient(seen)[_LAST]["bias"], float)
    return bias / _left_by_clip(ground, seen, records) if adaptive else bias


def _left_by_clip(ground: Ground, seen: Seen, records: int) -> float:
    """Which part of public records' gradients a clip leaves, on average."""
    if "clip" not in seen.public:
        return 1.0
    size = records if seen.public["clipped"] == "batch" else 1
    send, lengths = sender(ground.network.loss, {}), []
    for start in range(0, 8 * size, size):
        part = slice(start, start + size)
        sent = send(
            ground.parameters, jnp.asarray(ground.rows[part]), jnp.asarray(ground.targets[part])
        )
        lengths.append(float(length(sent)))
    return float(np.mean(np.minimum(1.0, seen.public["clip"] / np.array(lengths))))


def quotient(seen: Seen, adaptive: bool) -> np.ndarray:
    """The only record of a batch (d,), by the closed form; adaptive: without pruned coordinates."""
    layer = as_gradient(seen)[_FIRST]
    weights, bias = (np.asarray(layer[name], float) for name in ("weights", "bias"))
    counted = (weights != 0) & (bias != 0) if adaptive and "pruned" in seen.public else None
    return np.clip(closed_form.one_record(weights, bias, counted), 0.0, 1.0)


def class_means(ground: Ground) -> np.ndarray:
    """The public mean image of every class, (classes, d)."""
    return np.stack([ground.rows[ground.targets == c].mean(axis=0) for c in range(CLASSES)])


def by_labels(ground: Ground, seen: Seen, records: int) -> Attempt:
    """The public mean images of the labels that the update gives away: no pixel was seen."""
    found = closed_form.labels(last_bias(ground, seen, records, True), records)
    return Attempt(class_means(ground)[found], found)


def blind_error(ground: Ground, truth: np.ndarray, draws: int = 50, seed: int = 0) -> float:
    """The same without an update: class means of random labels, matched with the truth."""
    means, generator = class_means(ground), np.random.default_rng([seed, 11])
    guesses = generator.integers(CLASSES, size=(draws, len(truth)))
    return float(np.mean([match(means[labels], truth).error for labels in guesses]))
