"""Private stochastic gradient ascent on the local free energies (Sharma 2019, 4.2.1), simulated.

In each round every party starts at the server's q and takes some noisy steps on its own local free
energy in (m, log v); its factor becomes t = q_local / cavity, with a negative precision set to
zero, and the server multiplies the new factors together. A step, with secret lots of rate r:

    g = Σ_lot clip_C(gradient of a record)  +  N(0, (σC)² I)
    thesis:  a record's gradient holds its 1/N of the entropy and cavity terms;   step along g
    ours:    a record's gradient is its data term; step along g/r + (entropy and cavity terms)

Ours has the same privacy and no clip bias from terms that need no protection.
Per release and party: unit record, add-or-remove, Poisson-sampled Gaussian; every message is
post-processing of these releases, so the guarantee holds against everyone.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.algorithms.free_energy import (
    data_free_gradient,
    data_gradients,
    from_coordinates,
    in_log_variance,
    to_coordinates,
)
from unisono.experiments.linear_case import NOISE_STD, PRIOR, Shards, divergence, posterior
from unisono.problems.gaussian_family import Natural, product, quotient
from unisono.problems.likelihoods import linear

LIKELIHOOD = linear(NOISE_STD)
THRESHOLD = 1000.0  # the thesis reduces private gradients to this magnitude


class ClimbPlan(NamedTuple):
    """Public numbers of a climb; arrays of equal shape stand for several climbs at once.

    Steps are for the mean and for log v. `poisson` chooses between Poisson lots of rate `rate`
    and lots of exactly one record. `printed` is 2 for eq. (4.17) as printed and 1 for the right
    one. `decay` d lets the step in round i shrink as 1 / (1 + d i). `data_only` clips and
    noises data terms alone. `weight` rescales the variance coordinate while clipping and noising,
    so that the two coordinates of a record are alike in size.
    """

    mean_step: Any
    variance_step: Any
    clip: Any
    sigma: Any
    rate: Any
    poisson: Any = True
    printed: Any = 1.0
    decay: Any = 0.0
    data_only: Any = False
    weight: Any = 1.0


class HillClimb(NamedTuple):
    """The server's q after every round, and its KL from the posterior: (rounds,) each."""

    q: Natural
    kl: Any


def climb(
    plan: ClimbPlan,
    x: Any,
    y: Any,
    true: Natural,
    key: Any,
    rounds: int,
    steps: int,
    start: Natural,
) -> HillClimb:
    """One run on one data set x, y (parties, points); `start` holds the parties' first factors."""

    def one_round(factors: Natural, inputs: Any) -> tuple[Natural, tuple[Natural, Any]]:
        number, keys = inputs
        q = _posterior(factors)
        local = jax.vmap(_local, in_axes=(None, None, None, 0, 0, 0, 0, None))
        pace = 1 / (1 + plan.decay * number)
        factors = local(plan, pace, q, factors, x, y, keys, steps)
        q = _posterior(factors)
        return factors, (q, divergence(q, true))

    inputs = (jnp.arange(rounds), jax.random.split(key, (rounds, len(x), 2)))
    return HillClimb(*jax.lax.scan(one_round, start, inputs)[1])


def climb_all(
    plans: Sequence[ClimbPlan],
    shards: Shards,
    rounds: int,
    steps: int,
    start: Natural | None = None,
) -> HillClimb:
    """Every plan on every data set, in one compiled program: (plans, seeds, rounds) each.

    `start` holds factors (seeds, parties); without it nobody has said anything yet.
    """
    with jax.enable_x64(True):
        zero = jnp.zeros(shards.x.shape[:2])
        begin = Natural(zero, zero) if start is None else start
        stacked = jax.tree.map(lambda *parts: jnp.asarray(parts), *plans)
        # This generator compiles faster than the default one; nobody is protected by it here.
        keys = jax.random.split(jax.random.key(0, impl="rbg"), len(zero))
        found = _program(stacked, shards.x, shards.y, posterior(shards), keys, begin, rounds, steps)
        return jax.tree.map(np.asarray, found)


@partial(jax.jit, static_argnames=("rounds", "steps"))
def _program(
    plans: ClimbPlan,
    x: Any,
    y: Any,
    true: Natural,
    keys: Any,
    start: Natural,
    rounds: int,
    steps: int,
) -> HillClimb:
    def one(plan: ClimbPlan, x: Any, y: Any, true: Natural, key: Any, start: Natural) -> HillClimb:
        return climb(plan, x, y, true, key, rounds, steps, start)

    sets = jax.vmap(one, in_axes=(None, 0, 0, 0, 0, 0))
    return jax.vmap(sets, in_axes=(0, None, None, None, None, None))(plans, x, y, true, keys, start)


def _posterior(factors: Natural) -> Natural:
    return Natural(factors.shift.sum(), PRIOR.precision + jnp.maximum(factors.precision.sum(), 0.0))


def _local(
    plan: ClimbPlan, pace: Any, q: Natural, own: Natural, x: Any, y: Any, keys: Any, steps: int
) -> Natural:
    """A party's new factor after its noisy steps."""
    cavity = Natural(*(jnp.atleast_1d(part) for part in quotient(q, own)))
    noise = plan.sigma * plan.clip * jax.random.normal(keys[0], (steps, 2))
    lots = _lots(plan, keys[1], steps, len(x))
    rates = pace * jnp.stack([plan.mean_step, plan.variance_step])

    def step(point: Any, inputs: Any) -> tuple[Any, None]:
        here = from_coordinates(point)
        gradient = in_log_variance(here, _private_gradient(plan, here, cavity, x, y, *inputs))
        return point + rates * jnp.clip(gradient, -THRESHOLD, THRESHOLD), None

    begin = to_coordinates(product(cavity, Natural(*(jnp.atleast_1d(part) for part in own))))
    after = from_coordinates(jax.lax.scan(step, begin, (noise, lots))[0])
    factor = quotient(after, cavity)
    lowest = jnp.where(plan.data_only, -jnp.inf, 0.0)
    return Natural(factor.shift[0], jnp.maximum(factor.precision[0], lowest))


def _private_gradient(
    plan: ClimbPlan, q: Natural, cavity: Natural, x: Any, y: Any, noise: Any, lot: Any
) -> Any:
    """Clipped, summed over the lot, noised: with respect to (m, v)."""
    scale = jnp.stack([1.0, plan.weight])
    data = jnp.stack([1.0, plan.printed]) * data_gradients(LIKELIHOOD, q, x[:, None], y)
    rest = data_free_gradient(q, cavity)
    rest = rest.at[1].add((1 - plan.printed) * 0.5 * cavity.precision[0])
    rows = scale * (data + jnp.where(plan.data_only, 0.0, rest / len(x)))
    norms = jnp.sqrt(jnp.sum(rows**2, axis=1, keepdims=True))
    total = (lot @ (rows / jnp.maximum(1.0, norms / plan.clip)) + noise) / scale
    return jnp.where(plan.data_only, total / plan.rate + rest, total)


def _lots(plan: ClimbPlan, key: Any, steps: int, points: int) -> Any:
    """Which records each step looks at: (steps, points) of zeros and ones."""
    coins = jax.random.uniform(key, (steps, points))
    one = coins == coins.max(axis=1, keepdims=True)  # the largest of iid coins: one at random
    return jnp.where(plan.poisson, coins < plan.rate, one).astype(coins.dtype)
