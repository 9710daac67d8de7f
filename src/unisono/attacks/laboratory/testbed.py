"""Where the laboratory attacks: public digits, five secret ones, and three small networks.

The records are scikit-learn's 8 x 8 digits, grey values in [0, 1]. Four fifths are public (the
attacker's idea of what records look like, and what models are trained on); five of the rest are the
secrets, one of each of five classes, and more of the rest are batches for repetitions.

    images    tanh 64-256-10 with cross-entropy       gradient inversion, closed form, membership
    moments   f(x) = Σ_j a_j selu(w_j · x), squares    the tensor method; images less the public
              mean, stretched to length sqrt(d), so that w_j · x is a standard normal; targets ±3
    small     tanh 64-8-10                            audits: thousands of exchanges

In `moments`, guessing the mean image is guessing zero: an error of exactly 1.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.attacks.victim import Victim, length, sender
from unisono.problems.networks import Network, mlp, two_layer

FEATURES, HIDDEN, CLASSES, SIDE = 64, 256, 10, 8
SHOWN = (0, 2, 3, 5, 7)  # the classes of the five digits in the pictures
BATCH = len(SHOWN)
NOBODY = -1.0  # a class that does not exist: its record has no loss, hence no gradient
_TARGET = 3.0  # large against f(x) ~ N(0, 1), so that no record is fainter than the others
_NUMBER = 3  # which test image of its class


class Digits(NamedTuple):
    """Public rows (n, 64) and classes (n,), and held-out ones; float32."""

    rows: np.ndarray
    labels: np.ndarray
    held: np.ndarray
    held_labels: np.ndarray


class Ground(NamedTuple):
    """A network at its start, public records for it, and the typical length of gradients there: of
    the mean over a batch, and of one record. `units` is the array behind the hidden units, and
    `rate` a step that changes little."""

    network: Network
    parameters: Any
    rows: np.ndarray
    targets: np.ndarray
    units: tuple[str, ...]
    rate: float
    batch_length: float
    record_length: float

    @property
    def numbers(self) -> int:
        return sum(np.size(leaf) for leaf in jax.tree.leaves(self.parameters))

    def victim(self, rows: Any, targets: Any) -> Victim:
        given = (np.asarray(part, np.float32) for part in (rows, targets))
        return Victim(self.network.loss, self.parameters, *given)


@lru_cache(maxsize=1)
def digits() -> Digits:
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    rows, labels = (rows / 16).astype(np.float32), labels.astype(np.float32)
    held = np.arange(len(rows)) % 5 == 0
    return Digits(rows[~held], labels[~held], rows[held], labels[held])


def secrets(number: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Batch 0 holds the five digits of the pictures; others are drawn from the held-out images."""
    data = digits()
    if number == 0:
        chosen = [int(np.flatnonzero(data.held_labels == label)[_NUMBER]) for label in SHOWN]
    else:
        generator = np.random.default_rng([7, number])
        chosen = list(generator.choice(len(data.held), BATCH, replace=False))
    return data.held[chosen], data.held_labels[chosen]


@lru_cache(maxsize=4)
def images(seed: int = 0, hidden: int = HIDDEN) -> Ground:
    data, network = digits(), _mlp(hidden)
    parameters = jax.tree.map(np.asarray, network.init(jax.random.key(seed)))
    return _ground(network, parameters, data.rows, data.labels, ("dense1", "weights"), 0.02)


@lru_cache(maxsize=12)
def moments(neurons: int, seed: int = 0) -> Ground:
    data, network = digits(), _two_layer(neurons)
    parameters = jax.tree.map(np.asarray, network.init(jax.random.key(seed)))
    rows, targets = stretched(data.rows), even_or_odd(data.labels)
    return _ground(network, parameters, rows, targets, ("output",), 0.02 / neurons)


def stretched(rows: np.ndarray) -> np.ndarray:
    """Less the public mean image, then of length sqrt(d)."""
    centred = rows - digits().rows.mean(axis=0)
    return np.sqrt(FEATURES) * centred / np.linalg.norm(centred, axis=1, keepdims=True)


def even_or_odd(labels: np.ndarray) -> np.ndarray:
    return np.where(labels % 2 == 0, _TARGET, -_TARGET).astype(np.float32)


@lru_cache(maxsize=4)
def _mlp(hidden: int) -> Network:
    # One object for each size, as compiled programs are kept by the loss function.
    return mlp(FEATURES, (hidden,), CLASSES, "tanh")


@lru_cache(maxsize=4)
def _two_layer(neurons: int) -> Network:
    return two_layer(FEATURES, neurons, "selu")


def _ground(
    network: Network,
    parameters: Any,
    rows: np.ndarray,
    targets: np.ndarray,
    units: tuple[str, ...],
    rate: float,
) -> Ground:
    send = sender(network.loss, {})
    sizes = []
    for size in (BATCH, 1):
        parts = [slice(start, start + size) for start in range(0, 4 * size, size)]
        sent = [send(parameters, jnp.asarray(rows[p]), jnp.asarray(targets[p])) for p in parts]
        sizes.append(float(np.mean([float(length(update)) for update in sent])))
    return Ground(network, parameters, rows, targets, units, rate, *sizes)
