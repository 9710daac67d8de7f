"""DP-SGD (thesis Algorithm 1 with its line 8 corrected) for any loss, alone or across parties.

In every round each record of each party tosses a secret coin of probability q, and

    S_t     = Σ over chosen records of clip(grad l(θ_t; record))  +  N(0, σ² I)      the noisy sum
    θ_{t+1} = optimizer(θ_t, S_t / (q n))

The *clipped* gradients are added (the thesis adds the unclipped ones, E003-8), and the divisor is
the fixed expected batch q n, never the secret size of the batch (E003-9). Bounds that follow the
data follow a private quantile that is released with the gradient and paid for (E003-9).

Unit: one record. Sampler: Poisson, by each party's own secret coins, so that it amplifies against
everybody who does not see them: with a secure sum against the server and colluding parties, with
local noise against everyone else. T releases of the sampled Gaussian are accounted by a certified
loss distribution. Batches are padded to a public size; where sizes are public the chance that one
overflows, and is then cut short, is part of the event. Noise may change by a public schedule
(`noise_scales`).
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.algorithms.clipping import Clipping, clipped_sum, moved, read
from unisono.algorithms.optimise import Averaging, Problem, agreed, planned, stepped
from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.defaults import RELATION
from unisono.core.events import Event, Everyone, Gaussian, Poisson, Sampler, positive
from unisono.core.trust import Relation, Trust
from unisono.core.values import Contribution
from unisono.errors import ConditionViolated, InvalidInput
from unisono.mechanisms.gaussian import calibrate

# A batch overflows with at most this probability; times e^epsilon it vanishes beside any delta.
_OVERFLOW = 1e-18
# Rounding to the grid adds at most this part to the sensitivity.
_GRID_SHARE = 1 / 128
IN_GRAPH_EPSILON = 15.0


@dataclass(frozen=True)
class Settings:
    """What the parties agree on; `epsilon` and `delta` hold for the whole run.

    `rate` is the probability with which a record takes part in a round. `averaged` is the last part
    of the rounds whose iterates are averaged, `decay` that of a moving average. `noise_scales`
    multiply the noise in equal parts of the run: (1.5, 1.0) begins with more.
    """

    epsilon: float
    delta: float
    rounds: int = 1000
    rate: float = 0.01
    clipping: Clipping = field(default_factory=Clipping)
    averaged: float = 0.0
    decay: float = 0.0
    noise_scales: tuple[float, ...] = ()
    relation: Relation = RELATION

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon, delta=self.delta, rounds=self.rounds)
        Poisson(self.rate)
        Averaging(self.rounds, self.averaged, self.decay)
        if self.delta >= 1:
            raise InvalidInput(f"delta = {self.delta!r} must lie in (0, 1)")
        if len(self.noise_scales) > self.rounds:
            raise InvalidInput(
                f"{len(self.noise_scales)} levels of noise for {self.rounds} rounds: at most one "
                "for each"
            )
        for scale in self.noise_scales:
            positive(noise_scale=scale)

    @property
    def sampler(self) -> Sampler:
        return Everyone() if self.rate == 1 else Poisson(self.rate)

    @property
    def in_graph(self) -> bool:
        """Whether noise is drawn in the compiled program. Its sampler misses with a chance that
        e^epsilon multiplies: beyond 15 the exact sampler is taken."""
        return self.epsilon <= IN_GRAPH_EPSILON

    def scale(self, number: int) -> float:
        """The factor of the noise in round `number`."""
        if not self.noise_scales:
            return 1.0
        return self.noise_scales[number * len(self.noise_scales) // self.rounds]


class Public(NamedTuple):
    """What everybody sees: the model and the bounds of gradients."""

    parameters: Any
    bounds: Any


class State(NamedTuple):
    """The server's."""

    parameters: Any
    optimizer: Any
    bounds: Any
    average: Any
    loss: Any
    round: Any


class Learned(NamedTuple):
    """The result: the model, the last bounds, and the last loss (NaN unless it is released)."""

    parameters: Any
    bounds: Any
    loss: Any


def dp_sgd(settings: Settings, problem: Problem, optimizer: Any) -> Algorithm:
    """The algorithm for a problem and an optax optimizer; every trust."""
    plan, clipping = planned(problem), settings.clipping
    dimension = clipping.length(plan)
    averaging = Averaging(settings.rounds, settings.averaged, settings.decay)

    def priced(facts: Facts, step: float, shares: int) -> Event:
        return calibrate(
            clipping.sensitivity(plan, step, hides_presence=not facts.exact_sizes),
            settings.relation, settings.epsilon, settings.delta,
            count=facts.attempts(settings.rounds),
            sampler=settings.sampler, dimension=dimension, grid=step,
            in_graph=settings.in_graph, shares=shares, missed=overflow(settings, facts),
            scales=_levels(settings),
        )  # fmt: skip

    @lru_cache(maxsize=16)
    def base(facts: Facts, trust: Trust) -> Event:
        return priced(facts, grid(facts), facts.honest if trust is Trust.SECURE_SUM else 1)

    @lru_cache(maxsize=16)
    def grid(facts: Facts, trust: Trust | None = None) -> float:
        fine = choose_grid(dimension, facts, settings.rate)
        return proved_grid(fine, lambda step: priced(facts, step, 1))

    def local(
        facts: Facts, public: Public, party: None, data: Any, mask: Any
    ) -> tuple[None, Contribution]:
        return party, clipped_sum(
            plan, clipping, public.parameters, public.bounds, data, mask, grid(facts),
            not facts.exact_sizes,
        )  # fmt: skip

    def init(facts: Facts) -> tuple[State, None]:
        first = jax.tree.map(jnp.asarray, problem.parameters)
        return State(
            first, optimizer.init(first), clipping.start(plan), first, jnp.float32(jnp.nan),
            jnp.int32(0),
        ), None  # fmt: skip

    def merge(state: State, aggregate: Aggregate) -> State:
        expected = settings.rate * aggregate.records
        reading = read(plan, clipping, state.bounds, aggregate.total, expected)
        gradient = jax.tree.unflatten(plan.structure, reading.gradient)
        parameters, inside = stepped(optimizer, gradient, state.optimizer, state.parameters)
        return State(
            parameters, inside, moved(clipping, state.bounds, reading.within),
            averaging.include(state.average, parameters, state.round), reading.loss,
            state.round + 1,
        )  # fmt: skip

    return Algorithm(
        name="dp-sgd",
        settings={**asdict(settings), **agreed(problem, optimizer)},
        trusts=frozenset(Trust),
        combine="sum",
        rounds=settings.rounds,
        grid=lambda facts, trust: grid(facts),
        event=base,
        init=init,
        ask=lambda state: Public(state.parameters, state.bounds),
        local=local,
        settle=lambda party, accepted: party,
        merge=merge,
        result=lambda state: Learned(state.average, state.bounds, state.loss),
        reach=lambda facts: 1.01 * facts.parties * batch_size(settings.rate, facts),
        round_event=_by_rounds(settings, base) if settings.noise_scales else None,
        batch=lambda facts: batch_size(settings.rate, facts),
    )


def _levels(settings: Settings) -> list[tuple[float, int]]:
    """How many rounds have how much wider noise; none where it is constant."""
    if not settings.noise_scales:
        return []
    scales = [settings.scale(number) for number in range(settings.rounds)]
    return [(scale, scales.count(scale)) for scale in dict.fromkeys(scales)]


def _by_rounds(
    settings: Settings, base: Callable[[Facts, Trust], Event]
) -> Callable[[Facts, Trust, int], Event]:
    """Events of single rounds: the base event with wider or narrower noise."""

    def event(facts: Facts, trust: Trust, number: int) -> Event:
        common = base(facts, trust)
        assert isinstance(common.noise, Gaussian)
        std = common.noise.std * settings.scale(number)
        return replace(common, noise=replace(common.noise, std=std))

    return event


@lru_cache(maxsize=64)
def batch_size(rate: float, facts: Facts) -> int:
    """To how many rows a party's batch is padded: one in 10^18 batches is larger. A multiple of 64,
    so that a compiled program treats all of them alike (`engines.layout`)."""
    sizes = np.arange(int(rate * facts.places), facts.places + 1)
    chance = facts.parties * _more_than(sizes, facts.places, rate)
    enough = facts.places if rate == 1 else int(sizes[np.argmax(chance <= _OVERFLOW)])
    return 64 * -(-enough // 64)


def overflow(settings: Settings, facts: Facts) -> float:
    """The chance that some party's batch is cut short: larger than what it is padded to, where
    sizes are public. Where they are hidden it fills several batches, and nobody is left out."""
    size = batch_size(settings.rate, facts)
    if size >= facts.places or not facts.exact_sizes:
        return 0.0
    return float(facts.parties * _more_than(size, facts.places, settings.rate))


def _more_than(size: Any, places: int, rate: float) -> Any:
    """The chance that more than so many of all places are chosen."""
    # Only here: it takes 30 MB, which parties of other studies need not have.
    from scipy.stats import binom

    return binom.sf(size, places, rate)


def proved_grid(fine: float, priced: Callable[[float], Event]) -> float:
    """The first of coarser and coarser grids on which the noise has a proved in-graph sampler:
    beside wide noise, coarse steps cost little."""
    for factor in (1, 2, 4, 8, 32, 128, 512):
        try:
            priced(fine * factor)
        except ConditionViolated:
            continue
        return fine * factor
    raise InvalidInput(
        f"no grid from {fine:g} to {512 * fine:g} suits the noise of this budget: it is too wide "
        "or too narrow to be drawn in a compiled program; choose another epsilon or fewer rounds"
    )


def choose_grid(dimension: int, facts: Facts, rate: float) -> float:
    """A power of two so fine that rounding adds little to the sensitivity (1 before rounding),
    unless the sum of all batches needs coarser steps to fit 32 bits."""
    fine = _GRID_SHARE / math.sqrt(dimension)
    coarse = 8 * facts.parties * batch_size(rate, facts) / 2**31
    return 2.0 ** (math.floor(math.log2(fine)) if fine >= coarse else math.ceil(math.log2(coarse)))
