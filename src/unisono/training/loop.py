"""The run itself: everything that can be refused, then the ledgers, then the records."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unisono.core.certificate import Certificate
from unisono.core.defaults import default_relation, default_trust
from unisono.core.policy import Budget
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust, Unit
from unisono.core.values import Private
from unisono.data import listed
from unisono.data.people import records_per_person as usual_group
from unisono.data.people import require_same_persons
from unisono.errors import InvalidInput
from unisono.estimators.members import (
    Parties,
    facts_of,
    fresh_ledgers,
    given_ledgers,
    persons_at,
    public_sizes,
    warn_of_fresh,
)
from unisono.estimators.schedules import require_converged
from unisono.training.choices import chosen, configured, epsilons_of
from unisono.training.data import Collected, Counted, collect
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
    model: Any,
    records: Any,
    *,
    delta: float,
    epsilon: float | None = None,
    algorithm: str = "dp-sgd",
    parameters: Any = None,
    parties: Any = None,
    persons: Any = None,
    records_per_person: int | None = None,
    person_at_parties: int = 1,
    sizes: Any = None,
    batch_size: int | None = None,
    rate: float | None = None,
    epochs: float | None = None,
    rounds: int | None = None,
    clipping: Any = None,
    optimizer: Any = None,
    learning_rate: float | None = None,
    averaged: float = 0.0,
    decay: float = 0.0,
    epsilons: Any = None,
    relation: str | None = None,
    trust: str | None = None,
    minimum_parties: int | None = None,
    colluders: int | None = None,
    ledger: Any = None,
    seed: int | None = None,
    progress: bool | Callable[[Step], None] = True,
    **options: Any,
) -> Trained:
    """Train a `Network`, or any `loss(parameters, record)`, under a budget.

    records : a pytree of arrays whose row i is record i (`(rows, labels)`), with `parties` naming
        the party of each row; or a *list* with one such pytree per party, `parties` naming them.
        They arrive at the loss as float32, in the same structure.
    parameters : any pytree of float32 arrays, public; a Network has its own, from a fixed key.
    persons : whose each record is, one id for each row, or a list of ids per party where `records`
        is a list. Then all records of a person are hidden, and batches draw persons: a person's
        gradients are added up and clipped as one record's. Of more than `records_per_person` (8) so
        many are drawn in secret; `person_at_parties` parties may know the same person.
    sizes : for add-or-remove, a public estimate of each party's size, or a mapping from party.
    batch_size or rate, epochs or rounds : the expected batch of all parties together and how long.
    clipping : a bound on the norm of one record's gradient, 1 unless given, or a `Clipping`.
    optimizer : of optax; None: momentum 0.9 at `learning_rate`.
    epsilons : in place of epsilon, a mapping from party, or one for each in the order of their
        names; with trust local, where each adds all of its noise itself.
    averaged, decay : average the last part of the iterates, or a moving average; free of charge.
    relation : replace-one, or zero-out where the algorithm hides parties.
    ledger : a Ledger, or a mapping from party to Ledger; None books the run in memory and
        warns (`FreshBudgetWarning`).
    seed : makes a SIMULATION whose noise is predictable, and warns (`PredictableNoiseWarning`).
    progress : a bar in a terminal, or a function that gets a `Step` every few rounds.

    What only one algorithm has:

    dp-sgd : noise_scales multiply the noise in equal parts of the run.
    local-dp-sgd : steps, the local ones in each round (10).
    dp-ftrl : separation, after how many rounds a record has its turn again, or batch_size, and no
        rate; bands, over how many rounds noise is correlated; momentum, that of your optimizer.
    fed-avg : home, the optimizer at home, where a party goes `epochs` times through its records in
        batches of `batch_size`; rate is the chance of a *party* to take part, clipping bounds the
        change of its model (None follows the median), optimizer is the server's.
    """
    from unisono.engines import compilation_cache, in_process
    from unisono.problems.record_loss import of_persons
    from unisono.releases.algorithm import Method

    compilation_cache.enable()
    kind = chosen(algorithm, options)
    held = collect(records, parties)
    usual = default_relation(kind.units[0])
    hides = usual if relation is None else _named(Relation, "relation", relation)
    place = _trust(trust, kind.trusts, held)
    group = None if persons is None else usual_group(records_per_person)
    people = (
        None if group is None else _people(held, records, persons, group, seed, person_at_parties)
    )
    if group is not None and not kind.hides(Unit.PERSON, group):
        raise InvalidInput(
            f"persons of up to {group} records with {kind.name}: it does not add up a person's "
            "records; choose dp-sgd, or records_per_person = 1, which draws one of each"
        )
    columns: list[tuple[np.ndarray, ...]] = held.columns
    counted: Parties = held.members
    if people is not None:
        columns = held.by_persons(people)
        counted = Counted(held.members.names, tuple(map(len, people)))
    public = public_sizes(sizes, counted, hides, "sizes")
    facts = facts_of(public, held.features, place, hides, minimum_parties, colluders)
    facts = replace(
        facts,
        records_per_person=group,
        person_at_parties=1 if group is None else person_at_parties,
    )
    cost, first, network = model_of(model, parameters)
    own = epsilons_of(epsilon, epsilons, held.members.names)
    privacy = Privacy(max(own), delta, hides, own if len(set(own)) > 1 else ())
    config = configured(
        kind,
        sum(public),
        batch_size=batch_size,
        rate=rate,
        epochs=epochs,
        rounds=rounds,
        clipping=clipping,
        optimizer=optimizer,
        learning_rate=learning_rate,
        averaged=averaged,
        decay=decay,
        **options,
    )
    problem = of_persons(problem_of(cost, first, held), facts.group)
    study = Study(Method(kind, config, problem, privacy), facts, place)
    if ledger is None:
        warn_of_fresh(seed)
        budgets = [Budget(one, delta) for one in own]
        unit = kind.units[0] if group is None else Unit.PERSON
        books = fresh_ledgers(held.members, study.costs, budgets, hides, seed, unit)
    else:
        books = given_ledgers(ledger, held.members, seed)
        for book in books:
            require_same_persons(book.policy, facts.unit, "")
    members = [
        Party(name, Private(own), book)
        for name, own, book in zip(held.members.names, columns, books, strict=True)
    ]
    with following(progress, study, hides, delta, _released_loss) as watch:
        result = in_process.run(study, members, watch=watch)
    found = result.value
    require_converged(found.parameters, study.algorithm.settings["learning_rate"])
    lines = result.certificate.lines
    seen = [line for line in lines if line.relation is hides and np.isfinite(line.epsilon)]
    worst = max(seen, key=lambda line: line.epsilon)
    return Trained(
        found.parameters,
        result.certificate,
        worst.epsilon,
        worst.delta,
        found.bounds,
        _released_loss(found),
        network,
    )


def _released_loss(found: Any) -> float | None:
    """A loss that was not released is not a number."""
    return None if found.loss is None or np.isnan(found.loss) else float(found.loss)


def _people(
    held: Collected, records: Any, persons: Any, group: int, seed: int | None, most: int
) -> tuple[np.ndarray, ...]:
    """Each party's persons, of the ids that were given for all rows, or for those of each party."""
    each = [list(listed(own)) for own in persons] if isinstance(records, list) else [persons]
    ids = [one for own in each for one in listed(own)]
    rows = sum(held.members.sizes)
    if len(ids) != rows:
        raise InvalidInput(f"{len(ids)} persons for {rows} records: name one for each")
    return persons_at(held.members, ids, group, seed, "", most)


def _trust(given: str | None, offered: frozenset[Trust], held: Collected) -> Trust:
    if given is not None:
        return _named(Trust, "trust", given)
    usual = default_trust(len(held.columns))
    return usual if usual in offered else next(iter(offered))


def _named(choices: Any, name: str, value: Any) -> Any:
    try:
        return choices(value)
    except ValueError:
        listed = ", ".join(map(str, choices))
        raise InvalidInput(f"{name} = {value!r}: choose one of {listed}") from None


__all__ = ["Trained", "train"]
