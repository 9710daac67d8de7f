"""Partitioned variational inference, without privacy (Ashman et al. 2022).

Party m keeps a factor t_m in place of its likelihood; everyone shares q(θ) ∝ p(θ) Π_m t_m(θ). At
its turn a party improves q against its own records,

    q_new  = argmax F_m(q),   F_m(q) = E_q[log p(y_m | θ)] - KL(q ‖ q_old / t_m)
    t_m   <- t_m (q_new / q_old)^ρ,        the other factors unchanged

with damping ρ in (0, 1]. Parties take turns one after another (sequential), all at once
(synchronous), or each at its own pace on what it saw at its last turn (asynchronous). For a
conjugate model the new factor does not depend on q, and one pass gives the exact posterior.

F_m is climbed by natural gradients, which for a Gaussian are a fixed-point equation: with the
*site* of the records, what they add to the natural parameters to first order at q,

    site(q) = ( d/dm - 2 m d/dv,  -2 d/dv ) of Σ E_q[log p],     λ <- (1-s) λ + s (cavity + site(λ))

or by plain gradients in (m, log v) with Adam. Parties that settle at one q hold a *stationary*
point of the global free energy, which is not always a maximum:
Σ F_m(q) = F(q) - (M-1) KL(q ‖ q*).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from unisono.algorithms.free_energy import (
    data_free_gradient,
    data_gradients,
    from_coordinates,
    in_log_variance,
    to_coordinates,
)
from unisono.core.algorithm import Schedule
from unisono.errors import InvalidInput
from unisono.problems.gaussian_family import (
    Natural,
    mean,
    power,
    product,
    project,
    quotient,
    symmetric,
)
from unisono.problems.likelihoods import Likelihood, expected_gradients, score_slopes

ScheduleName = Literal["synchronous", "sequential", "asynchronous"]


@dataclass(frozen=True)
class Climb:
    """How a party climbs its free energy: the method, steps, their size and samples per step.

    Natural steps of size 1 are Newton's for a full covariance; a diagonal q over columns that go
    together (one-hot) needs 0.1 to 0.2. Samples serve likelihoods that are no function of a score.
    """

    method: Annotated[
        Literal["natural", "gradient"], Field(description="Natural gradients, or plain ones.")
    ] = "natural"
    steps: Annotated[int, Field(description="Steps of a party in a round.")] = 20
    size: Annotated[float, Field(description="The length of a step; 1 is Newton's.")] = 0.5
    samples: Annotated[int, Field(description="Draws per step, for sampled likelihoods.")] = 8
    floor: Annotated[float, Field(description="Precisions do not fall below this.")] = 1e-6

    def __post_init__(self) -> None:
        if self.method not in ("natural", "gradient"):
            raise InvalidInput(f"unknown climb {self.method!r}: use 'natural' or 'gradient'")
        if self.steps < 1 or self.samples < 1 or not 0 < self.size <= 1 or not self.floor > 0:
            raise InvalidInput(
                f"{self.steps} steps of size {self.size!r} with {self.samples} samples and floor "
                f"{self.floor!r}: steps and samples are at least 1, sizes lie in (0, 1]"
            )


def site(
    likelihood: Likelihood, q: Natural, rows: Any, labels: Any, mask: Any, normals: Any = None
) -> Natural:
    """What the records add to the natural parameters, to first order at q; shaped like q.

    `mask` (n,) weighs the records, and is 0 for padding.
    """
    if likelihood.scores is not None:
        found = score_slopes(likelihood, q, rows, labels)
        slope, bend = _weighed(mask, found.slope), _weighed(mask, found.bend)
        if q.full:
            precision = symmetric((rows * bend[:, None]).T @ rows)
            return Natural(slope @ rows + precision @ mean(q), precision)
        precision = bend @ (rows * rows)
        return Natural(slope @ rows + precision * mean(q), precision)
    by_mean, by_variance = expected_gradients(likelihood, q, rows, labels, normals)
    by_mean = jnp.sum(_weighed(mask[:, None], by_mean), axis=0)
    by_variance = jnp.sum(_weighed(mask[:, None], by_variance), axis=0)
    return Natural(by_mean - 2 * by_variance * mean(q), -2 * by_variance)


def _weighed(mask: Any, values: Any) -> Any:
    """Values times their weights; what padding computes, even NaN, is no matter."""
    return jnp.where(mask > 0, mask * values, 0.0)


def local_optimum(
    likelihood: Likelihood,
    cavity: Natural,
    start: Natural,
    data: Any,
    mask: Any,
    climb: Climb,
    key: Any,
    weight: float = 1.0,
) -> Natural:
    """The q that maximises the free energy of these records, each counted `weight` times."""
    rows, labels = data
    mask = jnp.where(mask, weight, 0.0)
    if likelihood.exact and start.full:  # the site is the same everywhere: one step is exact
        return product(cavity, site(likelihood, start, rows, labels, mask))
    step = _natural_step if climb.method == "natural" else _gradient_step
    take = partial(step, likelihood, cavity, rows, labels, mask, climb)
    sampled = likelihood.scores is None
    keys = jax.random.split(key, climb.steps) if sampled else None
    first: Any = start
    if climb.method == "gradient":
        point = to_coordinates(start)
        first = (point, 0 * point, 0 * point, 0)
    last, _ = jax.lax.scan(lambda state, key: (take(state, key), None), first, keys, climb.steps)
    return last if climb.method == "natural" else from_coordinates(last[0])


def _normals(likelihood: Likelihood, climb: Climb, key: Any, size: int) -> Any:
    if likelihood.scores is not None:
        return None
    return jax.random.normal(key, (climb.samples, size))


def _natural_step(
    likelihood: Likelihood,
    cavity: Natural,
    rows: Any,
    labels: Any,
    mask: Any,
    climb: Climb,
    q: Natural,
    key: Any,
) -> Natural:
    normals = _normals(likelihood, climb, key, q.shift.shape[0])
    target = product(cavity, site(likelihood, q, rows, labels, mask, normals))
    moved = product(power(q, 1 - climb.size), power(target, climb.size))
    return project(moved, climb.floor)[0]


def _gradient_step(
    likelihood: Likelihood,
    cavity: Natural,
    rows: Any,
    labels: Any,
    mask: Any,
    climb: Climb,
    state: tuple[Any, Any, Any, Any],
    key: Any,
) -> tuple[Any, Any, Any, Any]:
    """One step of Adam up the free energy in (m, log v)."""
    point, first, second, number = state
    q = from_coordinates(point)
    normals = _normals(likelihood, climb, key, q.shift.shape[0])
    own = data_gradients(likelihood, q, rows, labels, normals)
    summed = jnp.sum(_weighed(mask[:, None], own), axis=0)
    gradient = in_log_variance(q, summed + data_free_gradient(q, cavity))
    first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
    number = number + 1
    unbiased = (first / (1 - 0.9**number), second / (1 - 0.999**number))
    return point + climb.size * unbiased[0] / (jnp.sqrt(unbiased[1]) + 1e-8), first, second, number


# ------------------------------------------------------------------- schedules


def schedule(
    name: ScheduleName, rounds: int, parties: int, paces: Sequence[int] | None = None
) -> Schedule:
    """Who is asked in which round.

    Synchronous: everyone in each. Sequential: one party in each, in turn. Asynchronous: party m
    needs paces[m] rounds (default 1, 2, 3, 1, 2, 3, ...) for one answer, and works on what it saw
    when it answered last.

    >>> schedule("sequential", 3, 3).asked.astype(int).tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    """
    numbers = np.arange(rounds)[:, None]
    if name == "synchronous":
        return Schedule(np.ones((rounds, parties), bool))
    if name == "sequential":
        if rounds < parties:
            raise InvalidInput(
                f"{rounds} rounds of one party each for {parties} parties: give every party a turn"
            )
        return Schedule(numbers % parties == np.arange(parties))
    if name == "asynchronous":
        pace = np.asarray(paces if paces is not None else np.arange(parties) % 3 + 1)
        if pace.shape != (parties,) or pace.min() < 1 or pace.max() > rounds:
            raise InvalidInput(
                f"paces = {pace.tolist()!r}: give every one of {parties} parties a whole number of "
                f"rounds from 1 to {rounds}"
            )
        return Schedule((numbers + 1) % pace == 0, stale=True)
    raise InvalidInput(
        f"unknown schedule {name!r}: use 'synchronous', 'sequential' or 'asynchronous'"
    )


# ------------------------------------------------------------------ the algorithm


class Inference(NamedTuple):
    """The posterior, every party's factor (leading party axis), and q after every round."""

    posterior: Natural
    factors: Natural
    history: Natural


def infer(
    likelihood: Likelihood,
    prior: Natural,
    parties: Sequence[tuple[Any, Any]],
    *,
    passes: int = 10,
    order: ScheduleName = "synchronous",
    paces: Sequence[int] | None = None,
    damping: float = 1.0,
    climb: Climb | None = None,
    seed: int = 0,
) -> Inference:
    """Partitioned inference over parties, each (rows (n, d), labels (n,)); no privacy at all.

    In a pass every party has a turn; slow parties of the asynchronous order have fewer.
    """
    if not 0 < damping <= 1:
        raise InvalidInput(f"damping = {damping!r}: it lies in (0, 1], and 1 does not damp")
    _require_usable(likelihood, prior, parties)
    rounds = passes * len(parties) if order == "sequential" else passes
    turns = schedule(order, rounds, len(parties), paces)
    data, mask = _padded(parties)
    climb = climb or Climb()
    q = Natural(*(jnp.asarray(part, jnp.float32) for part in prior))
    start = jax.tree.map(lambda leaf: jnp.zeros((len(parties), *leaf.shape), leaf.dtype), q)
    one_at_a_time = order == "sequential"
    keys = jax.random.split(jax.random.key(seed), len(turns.asked))

    def change(q: Natural, factor: Natural, data: Any, mask: Any, key: Any) -> Natural:
        cavity = quotient(q, factor)
        best = local_optimum(likelihood, cavity, q, data, mask, climb, key)
        return power(quotient(best, q), damping)

    def one_turn(carry: Any, inputs: Any) -> Any:
        q, factors, held = carry
        asked, key = inputs
        if one_at_a_time:
            mine = jnp.argmax(asked)
            own = jax.tree.map(lambda leaf: leaf[mine], (factors, data, mask))
            moved = change(q, own[0], own[1], own[2], key)
            factors = jax.tree.map(lambda all_, one: all_.at[mine].add(one), factors, moved)
            return (product(q, moved), factors, held), product(q, moved)
        seen = held if turns.stale else q
        sampled = likelihood.scores is None
        keys = jax.random.split(key, len(asked)) if sampled else key
        over = jax.vmap(
            change, in_axes=(0 if turns.stale else None, 0, 0, 0, 0 if sampled else None)
        )
        moved = over(seen, factors, data, mask, keys)
        moved = jax.tree.map(
            lambda leaf: jnp.where(asked.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, 0.0), moved
        )
        factors = product(factors, moved)
        q = product(q, Natural(moved.shift.sum(0), moved.precision.sum(0)))
        if turns.stale:
            held = jax.tree.map(
                lambda old, new: jnp.where(asked.reshape(-1, *[1] * new.ndim), new, old), held, q
            )
        return (q, factors, held), q

    held = jax.tree.map(lambda leaf: jnp.stack([leaf] * len(parties)), q) if turns.stale else None
    run = jax.jit(lambda carry, inputs: jax.lax.scan(one_turn, carry, inputs))
    (q, factors, _), history = run((q, start, held), (jnp.asarray(turns.asked), keys))
    if not bool(jnp.all(jnp.isfinite(q.shift)) & jnp.all(jnp.isfinite(q.precision))):
        raise InvalidInput(
            f"inference diverged over {passes} passes with damping {damping:g} and steps of size "
            f"{climb.size:g}: use smaller ones, or look for a log-likelihood that is not finite"
        )
    return Inference(q, factors, history)


def _padded(parties: Sequence[tuple[Any, Any]]) -> tuple[tuple[Any, Any], Any]:
    """Ragged parties as (parties, most records, ...) arrays and a mask of real rows."""
    sizes = np.array([len(labels) for _, labels in parties])
    most, width = max(1, int(sizes.max())), np.shape(parties[0][0])[1]
    rows = np.zeros((len(parties), most, width), np.float32)
    labels = np.zeros((len(parties), most), np.float32)
    for index, (own, marks) in enumerate(parties):
        rows[index, : len(marks)], labels[index, : len(marks)] = own, marks
    return (jnp.asarray(rows), jnp.asarray(labels)), jnp.asarray(
        np.arange(most)[None, :] < sizes[:, None]
    )


def _require_usable(
    likelihood: Likelihood, prior: Natural, parties: Sequence[tuple[Any, Any]]
) -> None:
    if not parties or all(len(labels) == 0 for _, labels in parties):
        raise InvalidInput("no party holds a record: there is nothing to infer from")
    width = np.shape(parties[0][0])[1]
    for index, (rows, labels) in enumerate(parties):
        if np.shape(rows) != (len(labels), width):
            raise InvalidInput(
                f"party {index} has rows of shape {np.shape(rows)} and {len(labels)} labels: every "
                f"party gives (records, {width}) rows and one label for each"
            )
        if not (np.isfinite(rows).all() and np.isfinite(labels).all()):
            raise InvalidInput(f"party {index} holds values that are not finite: remove them")
    size = likelihood.size(width)
    if prior.shift.shape != (size,):
        raise InvalidInput(
            f"a prior over {prior.shift.shape} for a likelihood of {size} parameters: give them "
            "the same size"
        )
    precision = np.asarray(prior.precision)
    least = np.linalg.eigvalsh(precision).min() if prior.full else precision.min()
    if not (math.isfinite(least) and least > 0):
        raise InvalidInput(
            f"the prior's least precision is {least!r}: a prior has a finite, positive variance"
        )
