"""The likelihood ratio of a transcript: what an attacker does who knows all but one record.

Whoever sees the opened sums S_1, ..., S_T knows the public values θ_t of every round, and can work
out what the parties would have sent there, f_t, without noise, for any record in the victim's
place. Noise of standard deviation σ then says how likely the transcript is: with u_t what the
victim would add at θ_t, and R_t = S_t - f_t(nobody) what is left when the others are subtracted,

    log p(S | record) - log p(S | nobody)  =  Σ_t log(1 - q + q exp((R_t · u_t - |u_t|²/2) / σ²))

where the victim tosses a coin of probability q; the others' coins are known to the attacker, as the
definition of privacy allows. Without sampling, q = 1. By the lemma of Neyman and Pearson no score
tells two worlds apart better, if the noise is Gaussian; for other noise, and for algorithms that
add noise between two messages, it is a score like any other.

To work out f_t, the same compiled rounds are made with other data and without noise, and the server
goes on with the sums that were seen (`Scripted`) instead of those that come in.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from unisono.attacks.replay import Replay, first_carry, over_runs
from unisono.core.algorithm import Aggregate
from unisono.core.events import Event, Poisson
from unisono.core.study import Study
from unisono.engines.record_order import assumed_schedule
from unisono.engines.rounds import Stack, program


class Scripted(NamedTuple):
    """A server's state, the sums (rounds, ...) that it will believe, and how many are over."""

    server: Any
    sums: Any
    number: Any


class AttackLikelihood:
    """Clean sums along seen transcripts, for any data of one shape."""

    def __init__(self, replay: Replay, victim: np.ndarray) -> None:
        """`victim` (parties, n): which units of the stacked records are the victim's."""
        self.replay, self.victim = replay, victim
        self._follow = _compiled(replay.study)

    def clean(self, data: Stack, seen: np.ndarray, secret: bytes) -> np.ndarray:
        """What the parties add to the sums (runs, rounds, ...) at the public values of the
        transcripts `seen`, the victim's coin always on; in grid steps."""
        masks, takes = self.replay.coins(len(seen), data.real, secret, self.victim)
        return np.asarray(self._follow(tuple(data), (masks, takes, seen)))

    def scores(
        self,
        shown: Stack,
        inside: Stack,
        outside: Stack,
        runs: int,
        seed: int,
        fault: Callable[[Event], Event] | None = None,
    ) -> Iterator[np.ndarray]:
        """Batches of log likelihood ratios, of runs in world `shown`."""
        nobody = Stack(inside.arrays, inside.real & ~self.victim)
        for seen, secret in self.replay.batches(shown, runs, seed, fault):
            others = self.clean(nobody, seen, secret)
            ratios = [
                self._against_nobody(seen - others, self.clean(world, seen, secret) - others)
                for world in (inside, outside)
            ]
            yield ratios[0] - ratios[1]

    def score(self, world: Stack, seen: np.ndarray, secret: bytes) -> np.ndarray:
        """log p(seen | world) - log p(seen | nobody) of each run."""
        nobody = Stack(world.arrays, world.real & ~self.victim)
        others = self.clean(nobody, seen, secret)
        return self._against_nobody(seen - others, self.clean(world, seen, secret) - others)

    def _against_nobody(self, rest: np.ndarray, added: np.ndarray) -> np.ndarray:
        """log p(record) - log p(nobody) of each run, from R and u in grid steps."""
        study, unit = self.replay.study, self.replay.unit
        axes = tuple(range(2, rest.ndim))
        rest, added = rest * unit, added * unit
        exponents = ((rest - added / 2) * added).sum(axis=axes)
        if study.algorithm.inner is not None:
            return exponents.sum(axis=1)  # of how much noise a message holds nothing is known here
        events = [
            study.algorithm.event_of(study.facts, study.trust, 0, t)
            for t in range(study.algorithm.rounds)
        ]
        return mixed(exponents / np.array([_variance(e) for e in events]), events)


def mixed(exponents: np.ndarray, events: Sequence[Event]) -> np.ndarray:
    """Σ_t log(1 - q + q exp(exponent_t)) of exponents (..., rounds)."""
    rates = np.array([e.sampler.rate if isinstance(e.sampler, Poisson) else 1.0 for e in events])
    with np.errstate(divide="ignore"):
        absent = np.log1p(-rates)
    return np.logaddexp(absent, np.log(rates) + exponents).sum(axis=-1)


def _variance(event: Event) -> float:
    return event.noise.deviation(1) ** 2


def _compiled(study: Study) -> Callable[..., Any]:
    """Clean sums in grid steps, for batches of (masks, takes, seen sums)."""
    algorithm, facts, unit = study.algorithm, study.facts, _unit(study)

    def merge(state: Scripted, aggregate: Aggregate) -> Scripted:
        believed = aggregate._replace(total=state.sums[state.number] * unit)
        server = algorithm.merge(state.server, believed)
        return Scripted(server, state.sums, state.number + 1)

    following = replace(
        study, method=algorithm._replace(ask=lambda s: algorithm.ask(s.server), merge=merge)
    )
    server, states, held = first_carry(study)
    compiled = program(following, algorithm.grid(facts, study.trust), recorded=False)
    turn, sizes = jnp.asarray(assumed_schedule(study).asked), np.asarray(facts.records, np.float32)

    def one(data: Any, inputs: Any) -> Any:
        masks, takes, seen = inputs
        own = seen[0, 0] if algorithm.combine == "each" else seen[0]
        silence = jnp.zeros(
            (algorithm.rounds, algorithm.steps, facts.parties, *own.shape), jnp.int32
        )
        carry = (Scripted(server, seen, jnp.int32(0)), states, held)
        central = jnp.zeros((algorithm.rounds, *own.shape), jnp.int32)
        inputs = (masks, silence, takes, central, turn, turn)
        return compiled(carry, data, sizes, inputs)[1][2]

    return over_runs(one)


def _unit(study: Study) -> float:
    inner = study.algorithm.inner
    return inner.grid if inner else study.algorithm.grid(study.facts, study.trust)
