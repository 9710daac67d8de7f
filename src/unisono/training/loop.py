"""The run itself: everything that can be refused, then the ledgers, then the records."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unisono.core.certificate import Certificate
from unisono.core.defaults import default_relation, default_trust
from unisono.core.policy import Budget
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.errors import InvalidInput
from unisono.estimators.members import (
    facts_of,
    fresh_ledgers,
    given_ledgers,
    public_sizes,
    warn_of_fresh,
)
from unisono.estimators.schedules import require_converged
from unisono.training.choices import Choice, Request, chosen, epsilons_of
from unisono.training.data import Collected, collect
from unisono.training.model import model_of, problem_of
from unisono.training.progress import Step, following


@dataclass(frozen=True)
class Trained:
    """What came out: the model, and what it cost.

    `epsilon` is the largest of this run against any viewer who is not trusted, at `delta`: that of
    the ledger, if one was given. `certificate.unit` says whether it is for a record or a party.
    `bounds` are the last clipping bounds, None where they stay at home; `loss` is the last round's
    noisy average, or None unless it was released (`Clipping(loss_range=...)`).
    """

    parameters: Any
    certificate: Certificate
    epsilon: float
    delta: float
    bounds: np.ndarray | None
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
    model: Any, records: Any, *, delta: float, epsilon: float | None = None,
    algorithm: str = "dp-sgd", parameters: Any = None, parties: Any = None, sizes: Any = None,
    batch_size: int | None = None, rate: float | None = None, epochs: float | None = None,
    rounds: int | None = None, clipping: Any = None, optimizer: Any = None,
    learning_rate: float | None = None, averaged: float = 0.0, decay: float = 0.0,
    relation: str | None = None, trust: str | None = None, minimum_survivors: int | None = None,
    colluders: int | None = None, ledger: Any = None, seed: int | None = None,
    progress: bool | Callable[[Step], None] = True, **options: Any,
) -> Trained:  # fmt: skip
    """Train a `Network`, or any `loss(parameters, record)`, under a budget.

    records : a pytree of arrays whose row i is record i (`(rows, labels)`), with `parties` naming
        the party of each row; or a *list* with one such pytree per party, `parties` naming them.
        They arrive at the loss as float32, in the same structure.
    parameters : any pytree of float32 arrays, public; a Network has its own, from a fixed key.
    sizes : for add-or-remove, a public estimate of each party's size, or a mapping from party.
    batch_size or rate, epochs or rounds : the expected batch of all parties together and how long.
    clipping : a bound on the norm of one record's gradient, 1 unless given, or a `Clipping`.
    optimizer : of optax; None: momentum 0.9 at `learning_rate`.
    averaged, decay : average the last part of the iterates, or a moving average; free of charge.
    relation : replace-one, or zero-out where the algorithm hides parties.
    ledger : a Ledger, or a mapping from party to Ledger; None books the run in memory and
        warns (`FreshBudgetWarning`).
    seed : makes a SIMULATION whose noise is predictable, and warns (`PredictableNoiseWarning`).
    progress : a bar in a terminal, or a function that gets a `Step` every few rounds.

    What only one algorithm has:

    dp-sgd : noise_scales multiply the noise in equal parts of the run.
    local-dp-sgd : steps at home in each round (10); epsilons, a mapping from party or one for each
        in the order of their names, in place of epsilon.
    dp-ftrl : separation, after how many rounds a record has its turn again, or batch_size, and no
        rate; bands, over how many rounds noise is correlated; momentum, that of your optimizer.
    fed-avg : home, the optimizer at home, where a party goes `epochs` times through its records in
        batches of `batch_size`; rate is the chance of a *party* to take part, clipping bounds the
        change of its model (None follows the median), optimizer is the server's.
    """
    from unisono.engines import compilation_cache, in_process

    compilation_cache.enable()
    choice, options = chosen(algorithm, options)
    held = collect(records, parties)
    usual = default_relation(choice.unit)
    kind = usual if relation is None else _named(Relation, "relation", relation)
    place = _trust(trust, choice, held)
    public = public_sizes(sizes, held.members, kind, "sizes")
    facts = facts_of(public, held.features, place, kind, minimum_survivors, colluders)
    cost, first, network = model_of(model, parameters)
    own = epsilons_of(epsilon, options.get("epsilons"), held.members.names)
    request = Request(
        own, delta, sum(public), batch_size, rate, epochs, rounds, clipping, optimizer,
        learning_rate, averaged, decay, kind, problem_of(cost, first, held), options,
    )  # fmt: skip
    study = Study(choice.build(request), facts, place)
    if ledger is None:
        warn_of_fresh(seed)
        budgets = [Budget(one, delta) for one in own]
        books = fresh_ledgers(held.members, study.costs, budgets, kind, seed, choice.unit)
    else:
        books = given_ledgers(ledger, held.members, seed)
    people = [
        Party(name, Private(columns), book)
        for name, columns, book in zip(held.members.names, held.columns, books, strict=True)
    ]
    with following(progress, study, kind, delta, lambda value: choice.read(value).loss) as watch:
        result = in_process.run(study, people, watch=watch)
    outcome = choice.read(result.value)
    own_rate = optimizer is None and options.get("home") is None
    used = choice.learning_rate if learning_rate is None else learning_rate
    require_converged(outcome.parameters, used if own_rate else None)
    lines = result.certificate.lines
    seen = [line for line in lines if line.relation is kind and np.isfinite(line.epsilon)]
    worst = max(seen, key=lambda line: line.epsilon)
    return Trained(
        outcome.parameters, result.certificate, worst.epsilon, worst.delta, outcome.bounds,
        outcome.loss, network,
    )  # fmt: skip


def _trust(given: str | None, choice: Choice, held: Collected) -> Trust:
    if given is not None:
        return _named(Trust, "trust", given)
    if choice.trust is not None:
        return choice.trust
    return default_trust(len(held.columns))


def _named(choices: Any, name: str, value: Any) -> Any:
    try:
        return choices(value)
    except ValueError:
        listed = ", ".join(map(str, choices))
        raise InvalidInput(f"{name} = {value!r}: choose one of {listed}") from None


__all__ = ["Trained", "train"]
