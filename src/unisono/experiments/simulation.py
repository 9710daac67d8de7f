"""Many simulated runs of one algorithm at once, on generated records: nobody is protected here.

The algorithm's own functions run, compiled once for all draws of noise, with the noise
that its event names, in as many places as the trust says. Draws come from a seed.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.algorithm import Aggregate
from unisono.core.compiled import numbers
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.release import noise_steps
from unisono.core.study import Party, Study
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.engines import record_order, rounds

Records = Sequence[tuple[np.ndarray, np.ndarray]]


def logistic_records(parties: int, records: int, features: int, seed: int = 0) -> Records:
    """Per party (records, features) in the unit ball and labels ±1, split by one noisy plane."""
    generator = np.random.default_rng(seed)
    plane = np.linspace(2, -2, features) if features > 1 else np.array([2.0])
    data = []
    for _ in range(parties):
        rows = generator.normal(size=(records, features))
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        scores = rows @ plane + 0.5 * generator.normal(size=records)
        data.append((rows, np.where(scores > 0, 1.0, -1.0)))
    return data


def logistic_risks(
    models: np.ndarray, data: Records, regularisation: float, summed: bool = False
) -> np.ndarray:
    """Mean (or summed) logistic loss + (λ/2) ||θ||² per record, of models (draws, p): (draws,)."""
    points = np.atleast_2d(np.asarray(models, float))
    rows = np.concatenate([x for x, _ in data])
    labels = np.concatenate([y for _, y in data])
    losses = np.logaddexp(0, -labels * (points @ rows.T)).mean(axis=1)
    risks = losses + regularisation / 2 * np.sum(points**2, axis=1)
    return risks * len(labels) if summed else risks


def least_risk(data: Records, regularisation: float, radius: float = np.inf) -> float:
    """The least mean risk in the ball of this radius, without privacy."""
    start = np.zeros(data[0][0].shape[1])
    ball = {"type": "ineq", "fun": lambda point: radius**2 - point @ point}
    found = minimize(
        lambda point: logistic_risks(point, data, regularisation)[0],
        start,
        tol=1e-12,
        constraints=[ball] if np.isfinite(radius) else [],
        method="SLSQP",
        options={"maxiter": 500},
    )
    return float(found.fun)


def simulated_parties(data: Records, seed: int) -> list[Party]:
    """Parties whose ledgers are simulations, with a budget that never ends."""
    return [
        Party(
            f"p{j}",
            Private(own),
            Ledger.in_memory(Policy(f"p{j}", Budget(1e6, 1e-3)), ACCOUNTANT, seed),
        )
        for j, own in enumerate(data)
    ]


def simulate(
    study: Study, data: Records, draws: int, *, seed: int = 0, silent: bool = False
) -> np.ndarray:
    """Models (draws, ...) of `draws` independent runs; `silent` leaves the noise out."""
    algorithm, facts, trust = study.algorithm, study.facts, study.trust
    event, grid = algorithm.event(facts, trust), algorithm.grid(facts, trust)
    alone = trust is Trust.TRUSTED_SERVER or algorithm.named is not None
    places = 1 if alone else facts.parties
    honest = facts.honest if trust is Trust.SECURE_SUM else 1
    server, state = algorithm.init(facts)
    one = tuple(np.shape(np.ravel(algorithm.ask(server))))
    shape = (draws, algorithm.rounds, places, *one)
    noise = np.zeros(shape[:2] + one, np.int32)
    if not silent:
        key = np.random.default_rng(seed).bytes(32)
        noise = noise_steps(key, event, grid, shape, honest, one).sum(axis=2).astype(np.int32)
    stack = rounds.stack(study, data)
    if algorithm.named is not None:
        return _simulate_named(study, stack, noise, seed)
    states = jax.tree.map(lambda leaf: jnp.stack([leaf] * facts.parties), state)
    records, sizes = jnp.float32(sum(facts.records)), np.asarray(facts.records, np.int32)

    def one_round(arrays: Any, real: Any, carry: Any, steps: Any) -> Any:
        server, states = carry
        local = jax.vmap(numbers(partial(algorithm.local, facts)), in_axes=(None, 0, 0, 0, 0))
        states, values, _ = local(algorithm.ask(server), states, arrays, real, sizes)
        total = jnp.sum(values, axis=0, dtype=jnp.int32) + steps
        aggregate = Aggregate(total * grid, jnp.int32(facts.parties), records)
        return (algorithm.merge(server, aggregate), states), None

    @jax.jit
    def all_runs(arrays: Any, real: Any, noise: Any) -> Any:
        def one_run(steps: Any) -> Any:
            step = partial(one_round, arrays, real)
            (last, _), _ = jax.lax.scan(step, (server, states), steps)
            return algorithm.result(last)

        # One after the other: the solvers' double precision does not survive a second vmap.
        return jax.lax.map(one_run, noise)

    return np.asarray(all_runs(stack.arrays, stack.real, noise), float)


def _simulate_named(study: Study, stack: rounds.Stack, noise: np.ndarray, seed: int) -> np.ndarray:
    """The same where a coordinator names records: an order for every draw, one owner a step."""
    algorithm, facts = study.algorithm, study.facts
    grid, (server, state) = algorithm.grid(facts, study.trust), algorithm.init(facts)
    local = numbers(partial(algorithm.local, facts))
    orders = [record_order.draw_order(study, seed + draw) for draw in range(len(noise))]
    schedules = [record_order.schedule_of(study, order) for order in orders]
    owners = np.stack([schedule.asked.argmax(axis=1) for schedule in schedules])
    rows = np.stack([np.asarray(schedule.rows) for schedule in schedules])
    answers = np.stack([record_order.answered(study, order) for order in orders])

    def step(arrays: Any, server: Any, inputs: Any) -> Any:
        steps, owner, row, answer = inputs
        record = tuple(column[owner, row][None] for column in arrays)
        _, value, _ = local(algorithm.ask(server), state, record, jnp.ones(1, bool))
        heard = Aggregate((value + steps) * grid, jnp.int32(1), jnp.asarray(facts.records)[owner])
        merged = algorithm.merge(server, heard)
        return jax.tree.map(lambda new, old: jnp.where(answer, new, old), merged, server), None

    @jax.jit
    def all_runs(arrays: Any, inputs: Any) -> Any:
        def one_run(own: Any) -> Any:
            return algorithm.result(jax.lax.scan(partial(step, arrays), server, own)[0])

        return jax.lax.map(one_run, inputs)

    return np.asarray(all_runs(stack.arrays, (noise, owners, rows, answers)), float)
