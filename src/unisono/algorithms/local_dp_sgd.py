"""Local DP-SGD: every party trains privately at home, and the server averages models.

In every round a party starts at the public model θ and takes `steps` noisy steps at home. In each,
every one of its records tosses a secret coin of probability q, and

    S    = Σ over chosen records of clip(grad l(θ_j; record))  +  N(0, σ_j² I)
    θ_j <- optimizer(θ_j, S / (q n̄)),                    n̄ = public records of a party, on average

It then reports its change θ_j - θ, a function of what it released, and the server sets

    θ <- θ + Σ_j (θ_j - θ) / m,             m = public records of all that arrived / n̄

Dividing by n̄, and not by a party's own size, lets larger parties move further: with plain SGD at
home parties weigh by their sizes, and one step a round is DP-SGD (thesis Algorithm 1 with line 8
corrected, E003-8) with noise of each party's own. Optimizers that undo scales, such as Adam, let
all parties weigh alike. They begin anew in every round; bounds that follow a quantile are each
party's own, and stay with it.

Unit: one record. Trust LOCAL: everybody but its own party is an adversary, the server and all other
parties together. Sampler: Poisson, by secret coins at home. `rounds` times `steps` releases of the
sampled Gaussian are accounted by a certified loss distribution, with the chance that a padded batch
overflows. Every party may have its own epsilon.
"""

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from unisono.algorithms import dp_sgd
from unisono.algorithms.clipping import clipped_sum, moved, read
from unisono.algorithms.dp_sgd import (
    IN_GRAPH_EPSILON,
    batch_size,
    choose_grid,
    overflow,
    proved_grid,
)
from unisono.algorithms.optimise import Averaging, Problem, agreed, planned
from unisono.algorithms.posterior import own_epsilon, positive_epsilons
from unisono.core.algorithm import Aggregate, Algorithm, Facts, Inner
from unisono.core.events import Event, positive
from unisono.core.trust import Trust
from unisono.core.values import Contribution
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import calibrate

# Changes of parameters travel as integers: steps of 2^-20, each change below 2^5.
_REPORT_GRID, _REPORT_REACH = 2.0**-20, 2.0**5


@dataclass(frozen=True)
class Settings(dp_sgd.Settings):
    """What the parties agree on, as in DP-SGD; `epsilon` and `delta` hold for the whole run.

    `rate` is the probability with which a record takes part in one of the `steps` of a round;
    `epsilons` gives every party its own.
    """

    rounds: int = 20
    steps: int = 10
    epsilons: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(steps=self.steps)
        positive_epsilons(self.epsilons)
        if self.noise_scales:
            raise InvalidInput(
                f"noise_scales = {self.noise_scales!r}: noise at home is the same in every step"
            )


class PartyState(NamedTuple):
    """A function of the party's releases: by how much its model differs from the public one, its
    optimizer, and its bounds of gradients."""

    change: Any
    optimizer: Any
    bounds: Any


class State(NamedTuple):
    """The server's; `typical` is the public number of records of a party, on average."""

    parameters: Any
    average: Any
    round: Any
    typical: Any


def local_dp_sgd(settings: Settings, problem: Problem, optimizer: Any) -> Algorithm:
    """The algorithm for a problem and an optax optimizer, which works at home; trust LOCAL."""
    plan, clipping = planned(problem), settings.clipping
    dimension = clipping.length(plan)
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), problem.parameters)
    nothing = jax.tree.map(jnp.zeros_like, first)
    unravel = ravel_pytree(first)[1]
    averaging = Averaging(settings.rounds, settings.averaged, settings.decay)

    budgets = settings.epsilons or (settings.epsilon,)

    @lru_cache(maxsize=16)
    def grid(facts: Facts, trust: Trust | None = None) -> float:
        fine = choose_grid(dimension, facts, settings.rate)
        return proved_grid(fine, lambda step: calibrated(facts, min(budgets), step))

    def calibrated(facts: Facts, epsilon: float, step: float) -> Event:
        return calibrate(
            clipping.sensitivity(plan, step, hides_presence=not facts.exact_sizes),
            settings.relation, epsilon, settings.delta, count=settings.rounds * settings.steps,
            sampler=settings.sampler, dimension=dimension, grid=step,
            in_graph=max(budgets) <= IN_GRAPH_EPSILON, missed=overflow(settings, facts),
        )  # fmt: skip

    @lru_cache(maxsize=1024)
    def priced(facts: Facts, epsilon: float) -> Event:
        return calibrated(facts, epsilon, grid(facts))

    def own_event(facts: Facts, trust: Trust, party: int) -> Event:
        if not settings.epsilons:
            return priced(facts, settings.epsilon)
        return priced(facts, own_epsilon(settings.epsilons, facts.parties, party))

    def local(
        facts: Facts, public: Any, state: PartyState, data: Any, mask: Any
    ) -> tuple[PartyState, Contribution]:
        return state, clipped_sum(
            plan, clipping, _plus(public, state.change), state.bounds, data, mask, grid(facts),
            not facts.exact_sizes,
        )  # fmt: skip

    def absorb(facts: Facts, public: Any, state: PartyState, noisy: Any) -> PartyState:
        expected = settings.rate * _typical(facts)
        reading = read(plan, clipping, state.bounds, noisy, expected)
        gradient = jax.tree.unflatten(plan.structure, reading.gradient)
        here = _plus(public, state.change)
        step, inside = optimizer.update(gradient, state.optimizer, here)
        bounds = moved(clipping, state.bounds, reading.within)
        return PartyState(_plus(state.change, step), inside, bounds)

    def settle(state: PartyState, accepted: Any) -> PartyState:
        return PartyState(nothing, optimizer.init(first), state.bounds)

    def init(facts: Facts) -> tuple[State, PartyState]:
        party = PartyState(nothing, optimizer.init(first), clipping.start(plan))
        return State(first, first, jnp.int32(0), jnp.float32(_typical(facts))), party

    def merge(state: State, aggregate: Aggregate) -> State:
        parties = aggregate.records / state.typical
        parameters = _plus(state.parameters, unravel(aggregate.total / parties))
        average = averaging.include(state.average, parameters, state.round)
        return State(parameters, average, state.round + 1, state.typical)

    return Algorithm(
        name="local-dp-sgd",
        settings={**asdict(settings), **agreed(problem, optimizer)},
        trusts=frozenset({Trust.LOCAL}),
        combine="sum",
        rounds=settings.rounds,
        grid=lambda facts, trust: grid(facts),
        event=lambda facts, trust: own_event(facts, trust, 0),
        init=init,
        ask=lambda state: state.parameters,
        local=local,
        settle=settle,
        merge=merge,
        result=lambda state: state.average,
        reach=lambda facts: 1.01 * batch_size(settings.rate, facts),
        own_event=own_event if settings.epsilons else None,
        batch=lambda facts: batch_size(settings.rate, facts),
        inner=Inner(
            settings.steps, absorb, lambda state: ravel_pytree(state.change)[0], _REPORT_GRID,
            _REPORT_REACH,
        ),
    )  # fmt: skip


def _typical(facts: Facts) -> float:
    return sum(facts.records) / facts.parties


def _plus(parameters: Any, change: Any) -> Any:
    return jax.tree.map(lambda p, c: p + c, parameters, change)
