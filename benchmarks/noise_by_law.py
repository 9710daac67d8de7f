"""Two-stage studies under a secure sum with noise drawn by its law, for thousands of simulations.

What a party adds before noise are integers, a sum over records that the algorithm computes and
rounds one by one; here they are the very same, added up in blocks that stay in the cache, by the
algorithm's own functions. What is left out is what does not change an answer: ledgers, grants,
certificates, transcripts, and the exact samplers, whose law is round(N(0, s²)) for each party; here
it is drawn by NumPy, in the same shares. `same_integers` holds a run of the engine to that: what it
opened, less the noise that its ledgers drew, are these integers in every round, exactly.

No privacy is in such a run: it is for simulations whose records are made up.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.algorithms.fisher_scoring import Point, ScoringState
from unisono.core.algorithm import Aggregate
from unisono.core.ledger import Ledger
from unisono.core.release import noise_steps
from unisono.core.study import Result, Study
from unisono.engines.payments import authorized

# Rows of a block where they divide the records; few numbers stay in the cache as they are. Programs
# of other shapes may round a record otherwise in the last bit (`unisono.engines.layout`): then all
# rows are taken at once.
_BLOCK, _CACHED = 1000, 2**20
Draws = Callable[[int], np.ndarray]


class StageByLaw:
    """One stage of a study: what its rounds add up, and what the server makes of it."""

    def __init__(self, study: Study) -> None:
        algorithm, facts, trust = study.algorithm, study.facts, study.trust
        self.study, self.records = study, sum(facts.records)
        grid = algorithm.grid(facts, trust)
        self._widths = [
            algorithm.event_of(facts, trust, 0, number).noise.width(grid, facts.honest)
            for number in range(algorithm.rounds)
        ]
        width = algorithm.dimension or 1

        def added(block: int, server: Any, rows: Any) -> Any:
            # Asked in the same program, as the engine does: apart, norms are rounded once more.
            public = algorithm.ask(server)

            def one(total: Any, own: Any) -> Any:
                here, size = jnp.ones(block, bool), jnp.int32(self.records)
                _, made = algorithm.local(facts, public, None, (own,), here, size)
                return total + made.value, None

            blocks = rows.reshape(-1, block, rows.shape[1])
            return jax.lax.scan(one, jnp.zeros(width, jnp.int32), blocks)[0]

        def merged(server: Any, total: Any) -> Any:
            everybody = jnp.int32(facts.parties), jnp.float32(self.records)
            present = jnp.ones(facts.parties, bool)
            return algorithm.merge(server, Aggregate(total * grid, *everybody, present))

        small = self.records * width <= _CACHED
        self._added, self._merged = jax.jit(added, static_argnums=0), jax.jit(merged)
        self._block = self.records if small or self.records % _BLOCK else _BLOCK

    def integers(self, server: Any, rows: Any) -> Any:
        """What all records add up to, before noise, where this state of the server asks."""
        return self._added(self._block, server, rows)

    def opened_by(self, result: Result, rows: np.ndarray, drawn: Sequence[np.ndarray]) -> int:
        """How many integers differ from what the engine has opened, less this noise."""
        sums = [m.value for m in result.transcript.messages if m.name == "sum"]
        differ = 0
        for number, (total, noise) in enumerate(zip(sums, drawn, strict=True)):
            own = np.asarray(self.integers(_asking(result.value, number), rows))
            differ += int(np.sum(np.asarray(total, np.int32) - noise != own))
        if differ and self._block != self.records:
            self._block = self.records
            return self.opened_by(result, rows, drawn)
        return differ

    def noise(self, generator: np.random.Generator, number: int) -> np.ndarray:
        """What all parties' shares add up to in a round."""
        shape = (self.study.facts.parties, self.study.algorithm.dimension or 1)
        shares = np.rint(generator.normal(0.0, self._widths[number], shape))
        return shares.sum(axis=0).astype(np.int32)

    def run(self, begun: Study, rows: Any, noise: Draws) -> Any:
        """What the stage finds on these records (n, width)."""
        algorithm = begun.algorithm
        server, _ = algorithm.init(begun.facts)
        for number in range(algorithm.rounds):
            total = self.integers(server, rows) + noise(number)
            server = self._merged(server, total)
        return jax.tree.map(np.asarray, algorithm.result(server))


class StudyByLaw:
    """Both stages, priced together."""

    def __init__(self, first: Study, second: Study) -> None:
        self.first, self.second = StageByLaw(first), StageByLaw(second)

    def run(self, rows: np.ndarray, generator: np.random.Generator) -> Any:
        """The second stage's value, with noise of its own."""
        own = jax.device_put(rows)
        start = self.first.run(self.first.study, own, partial(self.first.noise, generator))
        begun = self.second.study.begun(start)
        return self.second.run(begun, own, partial(self.second.noise, generator))

    def same_integers(
        self, rows: np.ndarray, results: Sequence[Result], ledgers: Sequence[Ledger]
    ) -> Any:
        """The second stage's value by these functions with the engine's noise. `results` are what
        the engine found on the same records, with ledgers of the same seeds as these new ones.

        Raises `AssertionError` where the engine has opened other integers in any round.
        """
        value: Any = None
        for stage, result in zip((self.first, self.second), results, strict=True):
            drawn = list(_drawn(stage.study, ledgers))
            if differ := stage.opened_by(result, rows, drawn):
                raise AssertionError(
                    f"{stage.study.algorithm.name}: the engine has added up other integers, "
                    f"{differ} of them differ"
                )
            value = stage.run(stage.study.begun(value), rows, drawn.__getitem__)
        return value


def _asking(value: Any, number: int) -> Any:
    """The server's state that asked in this round: counts ask nothing, scores of a point."""
    if not isinstance(value, ScoringState):
        return value
    point = Point(*(part[number] for part in value.points))
    return value._replace(point=point, round=np.int32(number))


def _drawn(study: Study, ledgers: Sequence[Ledger]) -> Iterator[np.ndarray]:
    """The noise of every round that the engine draws of such ledgers, all shares together."""
    algorithm, facts, trust = study.algorithm, study.facts, study.trust
    grants = authorized(study, ledgers, algorithm.rounds)
    grid, shape = algorithm.grid(facts, trust), (algorithm.dimension or 1,)
    for number in range(algorithm.rounds):
        event = algorithm.event_of(facts, trust, 0, number)
        keys = [grant.draw(number, study.hash.encode()).take(event) for grant in grants]
        shares = [noise_steps(key, event, grid, shape, facts.honest) for key in keys]
        yield np.sum(shares, axis=0).astype(np.int32)


__all__ = ["StudyByLaw"]
