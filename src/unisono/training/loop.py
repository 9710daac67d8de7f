"""The run itself: everything that can be refused, then the ledgers, then the records."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unisono.accounting.validation import warn_large_delta
from unisono.core.certificate import Certificate
from unisono.core.policy import Budget
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.errors import InvalidInput
from unisono.estimators.members import facts_of, ledgers_of, public_sizes, require_room
from unisono.estimators.schedules import require_converged, schedule
from unisono.training.choices import (
    LEARNING_RATE,
    Request,
    built,
    clipping_of,
    model_of,
    optimizer_of,
    problem_of,
)
from unisono.training.data import Collected, collect
from unisono.training.progress import Step, following


@dataclass(frozen=True)
class Trained:
    """What came out: the model, and what it cost.

    `epsilon` is the largest of this run against any viewer who is not trusted, at `delta`: that of
    the ledger, if one was given.
    `bounds` are the last clipping bounds; `loss` is the last round's noisy average, or None unless
    it was released (`Clipping(loss_range=...)`).
    """

    parameters: Any
    certificate: Certificate
    epsilon: float
    delta: float
    bounds: np.ndarray
    loss: float | None
    network: Any = None

    def predict(self, rows: Any) -> np.ndarray:
        """Scores (n, classes), or values (n,), of a ready-made network for rows (n, d)."""
        if self.network is None:
            raise InvalidInput(
                "only a Network knows how to predict, and this was trained from a loss: call your "
                "own function with .parameters"
            )
        return np.asarray(self.network.predict(self.parameters, np.asarray(rows, np.float32)))


def train(
    model: Any, records: Any, *, epsilon: float, delta: float, parameters: Any = None,
    parties: Any = None, sizes: Any = None, batch_size: int | None = None,
    rate: float | None = None, epochs: float | None = None, rounds: int | None = None,
    clipping: Any = 1.0, optimizer: Any = None, learning_rate: float | None = None,
    averaged: float = 0.0, decay: float = 0.0, noise_scales: tuple[float, ...] = (),
    algorithm: str = "dp-sgd", relation: str = "add-or-remove", trust: str | None = None,
    minimum_survivors: int | None = None, colluders: int | None = None, ledger: Any = None,
    seed: int | None = None, progress: bool | Callable[[Step], None] = True,
) -> Trained:  # fmt: skip
    """Train a `Network`, or any `loss(parameters, record)`, under a budget.

    records : a pytree of arrays whose row i is record i (`(rows, labels)`), with `parties` naming
        the party of each row; or a *list* with one such pytree per party, `parties` naming them.
        They arrive at the loss as float32, in the same structure.
    parameters : any pytree of float32 arrays, public; a Network has its own, from a fixed key.
    sizes : for add-or-remove, a public estimate of each party's size, or a mapping from party.
    batch_size or rate, epochs or rounds : the expected batch of all parties together and how long.
    clipping : a bound on the norm of one record's gradient, or a `Clipping`.
    optimizer : of optax; None: momentum 0.9 at `learning_rate`.
    averaged, decay : average the last part of the iterates, or a moving average; free of charge.
    ledger : a Ledger, or a mapping from party to Ledger; None books the run in memory.
    progress : a bar in a terminal, or a function that gets a `Step` every few rounds.
    """
    from unisono.engines import compilation_cache, in_process

    compilation_cache.enable()
    held = collect(records, parties)
    kind, place = _chosen(Relation, "relation", relation), _trust(trust, held)
    public = public_sizes(sizes, held.members, kind, "sizes")
    warn_large_delta(delta, sum(public))
    facts = facts_of(public, held.features, place, kind, minimum_survivors, colluders)
    require_room(facts, held.members)
    coin, count = schedule(sum(public), batch_size, rate, epochs, rounds)
    cost, first, network = model_of(model, parameters)
    request = Request(
        epsilon, delta, coin, count, clipping_of(clipping), averaged, decay, tuple(noise_scales),
        kind, problem_of(cost, first, held), optimizer_of(optimizer, learning_rate),
    )  # fmt: skip
    study = Study(built(algorithm, request), facts, place)
    budget = Budget(epsilon, delta)
    ledgers = ledgers_of(ledger, held.members, study.cost, budget, kind, seed)
    people = [
        Party(name, Private(columns), book)
        for name, columns, book in zip(held.members.names, held.columns, ledgers, strict=True)
    ]
    with following(progress, study, kind, delta) as tell:
        result = in_process.run(study, people, progress=tell)
        loss = _released(result.value.loss)
        if tell is not None and loss is not None:
            tell(count, loss)
    used = LEARNING_RATE if learning_rate is None else learning_rate
    require_converged(result.value.parameters, used if optimizer is None else None)
    lines = result.certificate.lines
    seen = [line for line in lines if line.relation is kind and np.isfinite(line.epsilon)]
    worst = max(seen, key=lambda line: line.epsilon)
    return Trained(
        result.value.parameters, result.certificate, worst.epsilon, worst.delta,
        result.value.bounds, loss, network,
    )  # fmt: skip


def _released(loss: Any) -> float | None:
    """A loss that was not released is not a number."""
    return None if np.isnan(loss) else float(loss)


def _trust(given: str | None, held: Collected) -> Trust:
    if given is None:
        return Trust.LOCAL if len(held.columns) == 1 else Trust.SECURE_SUM
    return _chosen(Trust, "trust", given)


def _chosen(choices: Any, name: str, value: Any) -> Any:
    try:
        return choices(value)
    except ValueError:
        listed = ", ".join(map(str, choices))
        raise InvalidInput(f"{name} = {value!r}: choose one of {listed}") from None


__all__ = ["Trained", "train"]
