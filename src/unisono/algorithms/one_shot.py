"""A statistic is one round: every party contributes a bounded vector, once.

    opened = sum over the parties of contribute(records)  +  the noise that `event` names
    answer = finish(opened)                                  post-processing only

`one_shot` turns these few functions into an `Algorithm` that runs on every engine and under every
trust. A `Promise` says how private the one release must be and picks the noise: discrete Laplace
(pure epsilon; Pólya shares in a secure sum) where delta is 0, Gaussian otherwise.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from unisono.accounting.gaussian import mu_for
from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.defaults import RELATION, default_colluders
from unisono.core.events import Event, Sensitivity, positive
from unisono.core.trust import Relation, Trust
from unisono.core.values import Contribution
from unisono.errors import InvalidInput
from unisono.mechanisms import gaussian, laplace


@dataclass(frozen=True)
class Promise:
    """What one record may lose by all `rounds` together: epsilon at delta under a relation.

    >>> Promise(1.0).pure, Promise(1.0, 1e-6).pure
    (True, False)
    """

    epsilon: float
    delta: float = 0.0
    relation: Relation = RELATION
    rounds: int = 1

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon, rounds=self.rounds)
        if not (isinstance(self.delta, (int, float)) and 0 <= self.delta < 1):
            raise InvalidInput(
                f"delta = {self.delta!r} lies outside [0, 1): choose one far below 1 / number of "
                "records, such as 1e-6, or 0 for pure epsilon"
            )

    @property
    def pure(self) -> bool:
        return self.delta == 0

    def require(self, facts: Facts, trust: Trust) -> None:
        """Refuse what this promise cannot hold against, before anything is spent."""
        if self.relation is Relation.ADD_OR_REMOVE and facts.exact_sizes:
            raise InvalidInput(
                "add-or-remove hides how many records there are, but the study publishes exact "
                "sizes: set exact_sizes=False and agree on nominal ones"
            )
        if trust is Trust.SECURE_SUM and self.pure and facts.parties > 1 and not facts.colluders:
            raise InvalidInput(
                "pure epsilon in a secure sum with colluders = 0: a curious party subtracts its "
                "own share, and a Laplace sum that lacks a share has no pure epsilon; set "
                "colluders to 1 or more (agree_facts does), or give a delta for Gaussian noise"
            )

    def scale(self, sensitivity: Sensitivity) -> float:
        """Roughly the noise that is needed, to choose a grid it fits on."""
        distance = sensitivity.under(self.relation)
        if self.pure:
            return distance.in_norm("l1") * self.rounds / self.epsilon
        return distance.in_norm("l2") * math.sqrt(self.rounds) / mu_for(self.epsilon, self.delta)

    def event(
        self, sensitivity: Sensitivity, width: int, grid: float, facts: Facts, trust: Trust
    ) -> Event:
        """The release of `width` numbers on `grid` that keeps the promise over all rounds."""
        self.require(facts, trust)
        count = facts.attempts(self.rounds)
        if self.pure:
            return laplace.calibrate(
                sensitivity, self.relation, self.epsilon, count=count, dimension=width
            )
        return gaussian.calibrate(
            sensitivity, self.relation, self.epsilon, self.delta, count=count,
            dimension=width, grid=grid, shares=facts.honest if trust is Trust.SECURE_SUM else 1,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "delta": self.delta, "relation": str(self.relation)}


def agree_facts(
    records: Sequence[int], features: int, trust: Trust, *, minimum_survivors: int | None = None,
    colluders: int | None = None, exact_sizes: bool = True,
) -> Facts:  # fmt: skip
    """Facts with the defaults: everyone answers, and one party may be curious.

    >>> agree_facts((10, 10, 10), 1, Trust.SECURE_SUM).honest
    2
    """
    parties = len(records)
    survivors = parties if minimum_survivors is None else minimum_survivors
    if colluders is None:
        colluders = default_colluders(trust, survivors)
    return Facts(tuple(int(n) for n in records), features, survivors, colluders, exact_sizes)


class Opened(NamedTuple):
    """What the server has once the round is open: the noisy sum, who answered, their records.

    Zero survivors say that too few parties answered and nothing was opened.
    """

    total: Any
    survivors: Any
    records: Any


def pack(opened: Opened) -> np.ndarray:
    """One flat array (width + 2,): the noisy sum, then the numbers of survivors and records."""
    ends = [float(opened.survivors), float(opened.records)]
    return np.concatenate([np.asarray(opened.total, np.float64).ravel(), ends])


def unpack(value: np.ndarray) -> Opened:
    """The inverse of `pack`; refuses a round that was never opened.

    >>> unpack(np.array([3.0, 4.0, 2.0, 50.0])).records
    50
    """
    survivors, records = int(value[-2]), round(float(value[-1]))
    if survivors == 0:
        raise InvalidInput(
            "fewer parties answered than the study requires, so the sum was not opened and there "
            "is no answer: ask again, or agree on a smaller minimum of survivors; what was "
            "granted stays spent"
        )
    return Opened(np.asarray(value[:-2], np.float64), survivors, records)


def one_shot(
    name: str,
    contribute: Callable[[Facts, Any, Any], Contribution],
    finish: Callable[[Opened], Any],
    event: Callable[[Facts, Trust], Event],
    grid: Callable[[Facts, Trust], float],
    reach: Callable[[Facts], float],
    shape: Callable[[Facts], tuple[int, ...]],
    settings: Mapping[str, Any] | None = None,
    trusts: frozenset[Trust] = frozenset(Trust),
) -> Algorithm:
    """An algorithm of a single round.

    `contribute(facts, data, mask)` returns a `Contribution` of `shape(facts)` on `grid`, whose
    sensitivity is at most the event's; `finish(opened)` may use any code, since it sees noisy
    sums only.
    """

    def init(facts: Facts) -> tuple[Opened, None]:
        return Opened(jnp.zeros(shape(facts), jnp.float32), jnp.int32(0), jnp.float32(0)), None

    def local(
        facts: Facts, public: Any, party: None, data: Any, mask: Any
    ) -> tuple[None, Contribution]:
        return party, contribute(facts, data, mask)

    def merge(state: Opened, aggregate: Aggregate) -> Opened:
        return Opened(
            jnp.asarray(aggregate.total, jnp.float32),
            jnp.asarray(aggregate.survivors, jnp.int32),
            jnp.asarray(aggregate.records, jnp.float32),
        )

    return Algorithm(
        name=name,
        settings=dict(settings or {}),
        trusts=trusts,
        combine="sum",
        rounds=1,
        grid=grid,
        event=event,
        init=init,
        ask=lambda state: (),
        local=local,
        settle=lambda party, accepted: party,
        merge=merge,
        result=finish,
        reach=reach,
    )
