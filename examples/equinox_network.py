"""A private network written with Equinox: its modules are pytrees, so nothing has to be adapted.

Run it with `python examples/equinox_network.py` (needs `pip install equinox`). Two hospitals hold
small images; the network sees one image at a time, and layer normalisation instead of batch
normalisation, so that a record's gradient is its own.
"""

import equinox as eqx
import jax
import numpy as np
import optax
from sklearn.datasets import load_digits

import unisono
from unisono.training import train


class Network(eqx.Module):
    """64 grey levels to the scores of ten digits."""

    inner: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    outer: eqx.nn.Linear

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.inner = eqx.nn.Linear(64, 48, key=first)
        self.norm = eqx.nn.LayerNorm(48)
        self.outer = eqx.nn.Linear(48, 10, key=second)

    def __call__(self, image):
        return self.outer(jax.nn.tanh(self.norm(self.inner(image))))


def simulated(name):
    """A ledger made with a seed, so that the example repeats; for real records, `open_ledger`."""
    policy = unisono.Policy(
        name, unisono.Budget(4.0, 1e-4), relation=unisono.Relation.ADD_OR_REMOVE
    )
    return unisono.Ledger.in_memory(policy, unisono.ACCOUNTANT, seed=0)


def main(records=1797, rounds=100):
    images, labels = load_digits(return_X_y=True)
    images, labels = images[:records] / 16, labels[:records]  # 16: the maximum
    held = np.arange(len(labels)) % 4 == 0
    images, labels, unseen, truth = images[~held], labels[~held], images[held], labels[held]

    # What is learned are the arrays of the module; the rest of it is public structure.
    first, rest = eqx.partition(Network(jax.random.key(0)), eqx.is_inexact_array)

    def loss(arrays, record):
        image, label = record
        return optax.softmax_cross_entropy_with_integer_labels(
            eqx.combine(arrays, rest)(image), label.astype(int)
        )

    trained = train(
        loss,
        (images, labels),
        parameters=first,
        parties=np.array(["north", "south"])[np.arange(len(labels)) % 2],
        relation="add-or-remove",
        sizes=700,  # a public estimate of how many images each hospital has
        epsilon=4.0,
        delta=1e-4,
        rate=0.5,
        rounds=rounds,
        optimizer=optax.adam(0.02),
        averaged=0.25,
        ledger={name: simulated(name) for name in ("north", "south")},
    )
    network = eqx.combine(trained.parameters, rest)
    right = np.argmax(jax.vmap(network)(unseen), axis=1) == truth
    print(f"accuracy {right.mean():.3f} on {len(truth)} unseen images")
    print(trained.certificate.text())


if __name__ == "__main__":
    main()
