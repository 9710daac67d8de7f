"""What a defence costs: a small model trained through it, and its share of right predictions.

The network of the images learns the public digits from what the server sees of each round, by Adam;
nothing else differs between defences. Batches are drawn without replacement, but for DP-SGD: there
every record tosses a coin of probability B/n (Poisson), as its accountant assumes, and empty places
are filled by records of no class, whose gradient is zero.
"""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from unisono.attacks.defences import Defence, DpSgd
from unisono.attacks.laboratory.cases import Case
from unisono.attacks.laboratory.testbed import FEATURES, NOBODY, Ground, digits
from unisono.attacks.victim import as_gradient

EXPECTED = 60
_RATE = 0.01
# Eight standard deviations above the expected size of a Poisson batch.
_PLACES = EXPECTED + 8 * 8


def accuracy(ground: Ground, case: Case, rounds: int, seed: int) -> float:
    """The share of right predictions on held-out digits after so many rounds."""
    data, generator = digits(), np.random.default_rng([seed, 8])
    private = isinstance(case.make(ground, EXPECTED), DpSgd)
    defence = case.make(ground, _PLACES if private else EXPECTED)
    step = _step()
    parameters = jax.tree.map(jnp.asarray, ground.parameters)
    state = optax.adam(_RATE).init(parameters)
    for _ in range(rounds):
        rows, targets = (_poisson if private else _fixed)(ground, generator)
        victim = ground._replace(parameters=parameters).victim(rows, targets)
        seen = defence.observe(victim, generator)
        parameters, state = step(parameters, state, as_gradient(seen))
    scores = ground.network.predict(parameters, jnp.asarray(data.held))
    return float(np.mean(np.argmax(scores, axis=1) == data.held_labels))


def epsilon_of_training(ground: Ground, case: Case, rounds: int, delta: float) -> float:
    """The accountant's, for the presence of one record and whoever sees all rounds."""
    defence: Defence = case.make(ground, EXPECTED)
    return defence.epsilon(delta, len(ground.rows), rounds)


def _fixed(ground: Ground, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    drawn = generator.choice(len(ground.rows), EXPECTED, replace=False)
    return ground.rows[drawn], ground.targets[drawn]


def _poisson(ground: Ground, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    count = len(ground.rows)
    drawn = np.flatnonzero(generator.random(count) < EXPECTED / count)
    assert len(drawn) <= _PLACES
    rows = np.zeros((_PLACES, FEATURES), np.float32)
    targets = np.full(_PLACES, NOBODY, np.float32)
    rows[: len(drawn)], targets[: len(drawn)] = ground.rows[drawn], ground.targets[drawn]
    return rows, targets


@lru_cache(maxsize=1)
def _step() -> Any:
    optimiser = optax.adam(_RATE)

    def step(parameters: Any, state: Any, gradient: Any) -> tuple[Any, Any]:
        changes, state = optimiser.update(gradient, state)
        return optax.apply_updates(parameters, changes), state

    return jax.jit(step)
