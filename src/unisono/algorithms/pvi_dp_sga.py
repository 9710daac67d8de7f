"""Private partitioned inference by DP-SGA: noisy steps up the local free energy (003 §3.2.1).

Unit: one record. Everyone but its own party is an adversary (trust LOCAL): whatever a party sends
is made from noisy gradients. At its turn a party starts at the public q and takes `steps` steps; in
each, every record tosses a secret coin of probability r, and

    S  = Σ over chosen records of clip_C(d/d(m, v) E_q[log p(y | x, θ)])  +  N(0, σ² I)
    (m, log v) <- (m, log v) + η ∘ [ S / (r n) + (entropy and cavity) / n ]  in (m, log v)

The entropy and the cavity need no noise and are added after it (INVENTORY 2.4), with the halves of
(4.17) restored (E003-21); the chain rule to log v is post-processing. The party's factor becomes
t <- t (q_new / q_old)^ρ, a function of what it released, so T turns of `steps` releases compose as
Poisson-sampled Gaussians, accounted by a certified loss distribution. Every party may have its own
epsilon, and parties may take turns in any public order. n is the public size of a party, on
average: it only sets the scale of steps.
"""

from dataclasses import asdict, dataclass
from functools import lru_cache
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
from unisono.algorithms.posterior import (
    Answer,
    PriorSettings,
    answer_of,
    own_epsilon,
    positive_epsilons,
    start_of,
    usable,
)
from unisono.algorithms.pvi import ScheduleName, schedule
from unisono.core.algorithm import Aggregate, Algorithm, Facts, Inner, Schedule
from unisono.core.defaults import RELATION
from unisono.core.events import Event, Poisson, positive
from unisono.core.trust import Relation, Trust
from unisono.core.values import Contribution, clipped_sum, sum_sensitivity
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import calibrate
from unisono.problems.gaussian_family import Natural, power, product, quotient
from unisono.problems.likelihoods import Likelihood
from unisono.releases.bounds import power_of_two_step as choose_grid

# Changes of natural parameters travel as integers: steps of 2^-12, each change below 2^17.
_REPORT_GRID, _REPORT_REACH = 2.0**-12, 2.0**17


@dataclass(frozen=True)
class Settings(PriorSettings):
    """What the parties agree on.

    `epsilon` holds for the whole run; `epsilons` gives every party its own. `learning_rate`
    is for means, `variance_rate` for log variances; both are per record of the party. `step_limit`
    bounds each coordinate of one step, so that rare noise does not throw the climb far off.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    epsilons: tuple[float, ...] = ()
    rounds: int = 10
    steps: int = 20
    rate: float = 0.1
    clip: float = 1.0
    learning_rate: float = 0.1
    variance_rate: float = 0.01
    step_limit: float = 1.0
    damping: float = 1.0
    samples: int = 4
    order: ScheduleName = "synchronous"
    relation: Relation = RELATION

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(
            epsilon=self.epsilon, delta=self.delta, rounds=self.rounds, steps=self.steps,
            clip=self.clip, learning_rate=self.learning_rate, variance_rate=self.variance_rate,
            step_limit=self.step_limit, samples=self.samples,
        )  # fmt: skip
        positive_epsilons(self.epsilons)
        Poisson(self.rate)
        if self.delta >= 1 or not 0 < self.damping <= 1:
            raise InvalidInput(
                f"delta = {self.delta!r}, damping = {self.damping!r}: delta lies in (0, 1), "
                "damping in (0, 1]"
            )


class PartyState(NamedTuple):
    """A function of the party's releases: its factor, where its climb stands, and by how much the
    factor will change if the server accepts this turn."""

    factor: Natural
    point: Any
    change: Natural
    step: Any


class Public(NamedTuple):
    """What everybody sees at a turn; the round seeds the public samples."""

    q: Natural
    round: Any


def dp_sga(settings: Settings, likelihood: Likelihood, start: Natural | None = None) -> Algorithm:
    """The algorithm for a likelihood; q is mean-field.

    A `start` is what is known of all parties' factors together from an earlier release, such as the
    posterior of `one_shot_regression` divided by its prior: the hybrid that the thesis proposes and
    never runs (003 §4.2.3). Each party begins with an equal part of it; both releases are paid for.
    """

    def grid(facts: Facts, trust: Trust | None = None) -> float:
        return choose_grid(settings.clip, _dimension(facts), max(facts.records))

    def _dimension(facts: Facts) -> int:
        return 2 * likelihood.size(facts.features)

    @lru_cache(maxsize=1024)
    def priced(facts: Facts, epsilon: float, releases: int) -> Event:
        bound = sum_sensitivity(
            settings.clip, grid(facts), _dimension(facts), hides_presence=not facts.exact_sizes
        )
        return calibrate(
            bound, settings.relation, epsilon, settings.delta, count=releases,
            sampler=Poisson(settings.rate), dimension=_dimension(facts), grid=grid(facts),
        )  # fmt: skip

    def own_event(facts: Facts, trust: Trust, party: int) -> Event:
        epsilon = settings.epsilon
        if settings.epsilons:
            epsilon = own_epsilon(settings.epsilons, facts.parties, party)
        turns = schedule(settings.order, settings.rounds, facts.parties).asked[:, party].sum()
        return priced(facts, epsilon, int(turns) * settings.steps)

    def where(public: Public, state: PartyState) -> Natural:
        """The point of the climb: at the first step of a turn, the public q."""
        here = jnp.where(state.step == 0, to_coordinates(public.q), state.point)
        return from_coordinates(here)

    def normals(public: Public, state: PartyState) -> Any:
        if likelihood.scores is not None:
            return None
        key = jax.random.fold_in(jax.random.key(settings.seed), public.round)
        shape = (settings.samples, public.q.shift.shape[0])
        return jax.random.normal(jax.random.fold_in(key, state.step), shape)

    def local(
        facts: Facts, public: Public, state: PartyState, data: Any, mask: Any
    ) -> tuple[PartyState, Contribution]:
        rows, labels = data
        own = data_gradients(likelihood, where(public, state), rows, labels, normals(public, state))
        return state, clipped_sum(own, settings.clip, grid(facts), mask, not facts.exact_sizes)

    def absorb(facts: Facts, public: Public, state: PartyState, noisy: Any) -> PartyState:
        q, cavity = where(public, state), quotient(public.q, state.factor)
        size = sum(facts.records) / facts.parties
        fit = noisy / (settings.rate * size)
        slope = in_log_variance(q, fit + data_free_gradient(q, cavity) / size)
        means, logs = jnp.split(slope, 2)
        step = jnp.concatenate([settings.learning_rate * means, settings.variance_rate * logs])
        moved = to_coordinates(q) + jnp.clip(step, -settings.step_limit, settings.step_limit)
        change = power(quotient(from_coordinates(moved), public.q), settings.damping)
        return PartyState(state.factor, moved, _on_grid(change), state.step + 1)

    def settle(state: PartyState, accepted: Any) -> PartyState:
        kept = power(state.change, jnp.where(accepted, 1.0, 0.0))
        return PartyState(product(state.factor, kept), state.point, kept, jnp.int32(0))

    def init(facts: Facts) -> tuple[Public, PartyState]:
        q = start_of(settings, likelihood.size(facts.features))
        known = power(q, 0.0)
        if start is not None:
            known = Natural(*(jnp.asarray(part, jnp.float32) for part in start))
            _require_diagonal(known, q)
        q = product(q, known)
        party = PartyState(
            power(known, 1 / facts.parties), to_coordinates(q), power(q, 0.0), jnp.int32(0)
        )
        return Public(q, jnp.int32(0)), party

    def merge(server: Public, aggregate: Aggregate) -> Public:
        change = Natural(*jnp.split(aggregate.total, 2))
        return Public(product(server.q, change), server.round + 1)

    def ask(server: Public) -> Public:
        return Public(usable(settings, server.q)[0], server.round)

    def result(server: Public) -> Answer:
        return answer_of(settings, server.q)

    def in_turn(facts: Facts) -> Schedule:
        return schedule(settings.order, settings.rounds, facts.parties)

    takes_turns = settings.order != "synchronous"
    return Algorithm(
        name="pvi-dp-sga",
        settings={
            **asdict(settings),
            "likelihood": likelihood.name,
            "start": [] if start is None else [np.asarray(part).tolist() for part in start],
        },
        trusts=frozenset({Trust.LOCAL}),
        combine="sum",
        rounds=settings.rounds,
        grid=grid,
        event=lambda facts, trust: own_event(facts, trust, 0),
        init=init,
        ask=ask,
        local=local,
        settle=settle,
        merge=merge,
        result=result,
        reach=lambda facts: 1.01 * settings.clip * max(facts.records),
        own_event=own_event if settings.epsilons or takes_turns else None,
        schedule=in_turn if takes_turns else None,
        inner=Inner(
            settings.steps, absorb, lambda state: jnp.concatenate(state.change), _REPORT_GRID,
            _REPORT_REACH,
        ),
    )  # fmt: skip


def _require_diagonal(known: Natural, q: Natural) -> None:
    if known.precision.shape != q.precision.shape or not bool(jnp.all(known.precision >= 0)):
        raise InvalidInput(
            f"a start with precision of shape {known.precision.shape}: q is mean-field, so give "
            f"non-negative precisions of shape {q.precision.shape}"
        )


def _on_grid(change: Natural) -> Natural:
    """The change as it travels: the party applies to its factor exactly what the server applies."""
    return Natural(*(jnp.round(part / _REPORT_GRID) * _REPORT_GRID for part in change))
