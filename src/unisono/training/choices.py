"""The algorithms that learn from a loss of one record, and how each is built from what users give.

                   hides        a record takes part       noise                       trust
    dp-sgd         a record     by a secret coin          fresh in every round        every
    local-dp-sgd   a record     by a secret coin at home  fresh, of each party's own  local
    dp-ftrl        a record     every s rounds, known     correlated over rounds      every
    fed-avg        a party      if its party's coin says  fresh in every round        every

What one of them alone has is in its entry of `ALGORITHMS`.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from unisono.core.algorithm import Algorithm
from unisono.core.events import positive
from unisono.core.trust import Relation, Trust, Unit
from unisono.errors import InvalidInput
from unisono.estimators.schedules import MOMENTUM, schedule

# Where neither a learning rate nor an optimizer is given: with momentum, and without at home.
LEARNING_RATE, HOME_RATE = 0.5, 0.1
# Noise of so many rounds is correlated where nobody says otherwise.
_BANDS = 32


class Request(NamedTuple):
    """What every algorithm is built from; all of it public.

    `records` is how many there are in all. `epsilons` has one for each party; without budgets of
    their own they are equal. `options` is what only this algorithm has.
    """

    epsilons: tuple[float, ...]
    delta: float
    records: int
    batch_size: int | None
    rate: float | None
    epochs: float | None
    rounds: int | None
    clipping: Any
    optimizer: Any
    learning_rate: float | None
    averaged: float
    decay: float
    relation: Relation
    problem: Any
    options: Mapping[str, Any]

    @property
    def epsilon(self) -> float:
        return max(self.epsilons)

    @property
    def sampling(self) -> tuple[Any, ...]:
        return self.records, self.batch_size, self.rate, self.epochs, self.rounds


class Outcome(NamedTuple):
    """An algorithm's result: clipping bounds and loss only where it releases them."""

    parameters: Any
    bounds: np.ndarray | None
    loss: float | None


class Choice(NamedTuple):
    """An algorithm: how it is built and its result read, its own options with what they are
    unless given, what it hides, and what is chosen where nothing is said."""

    build: Callable[[Request], Algorithm]
    read: Callable[[Any], Outcome]
    options: Mapping[str, Any]
    learning_rate: float = LEARNING_RATE
    unit: Unit = Unit.RECORD
    trust: Trust | None = None


def _dp_sgd(request: Request) -> Algorithm:
    from unisono.algorithms.dp_sgd import Settings, dp_sgd

    rate, rounds = schedule(*request.sampling)
    settings = Settings(
        request.epsilon, request.delta, rounds, rate, clipping_of(request.clipping),
        request.averaged, request.decay, tuple(request.options["noise_scales"]), request.relation,
    )  # fmt: skip
    optimizer = _optimizer(request.optimizer, request.learning_rate)
    return dp_sgd(settings, request.problem, optimizer)


def _local_dp_sgd(request: Request) -> Algorithm:
    from unisono.algorithms.local_dp_sgd import Settings, local_dp_sgd

    steps = _whole(steps=request.options["steps"])
    rate, rounds = schedule(*request.sampling)
    if request.rounds is None:
        rounds = max(1, round(rounds / steps))
    clipping = clipping_of(request.clipping)
    if clipping.loss_range:
        raise InvalidInput(
            f"loss_range = {clipping.loss_range!r}: in local-dp-sgd a party's noisy loss stays at "
            "home, where it would cost and tell nobody; leave it out"
        )
    settings = Settings(
        request.epsilon, request.delta, rounds, rate, clipping, request.averaged, request.decay,
        relation=request.relation, steps=steps,
        epsilons=request.epsilons if len(set(request.epsilons)) > 1 else (),
    )  # fmt: skip
    optimizer = _optimizer(request.optimizer, request.learning_rate)
    return local_dp_sgd(settings, request.problem, optimizer)


def _dp_ftrl(request: Request) -> Algorithm:
    from unisono.algorithms.dp_ftrl import Settings, dp_ftrl

    separation = _separation(request)
    _, rounds = schedule(request.records, None, 1 / separation, request.epochs, request.rounds)
    bands, momentum = request.options["bands"], request.options["momentum"]
    if momentum is None:  # an optimizer that is given may have any
        momentum = MOMENTUM if request.optimizer is None else 0.0
    settings = Settings(
        request.epsilon, request.delta, rounds, separation,
        min(_BANDS, rounds, separation) if bands is None else _whole(bands=bands),
        momentum=momentum, clipping=clipping_of(request.clipping), averaged=request.averaged,
        decay=request.decay, relation=request.relation,
    )  # fmt: skip
    optimizer = _optimizer(request.optimizer, request.learning_rate)
    return dp_ftrl(settings, request.problem, optimizer)


def _separation(request: Request) -> int:
    """After how many rounds it is a record's turn again."""
    given, batch = request.options["separation"], request.batch_size
    if request.rate is not None:
        raise InvalidInput(
            f"rate = {request.rate!r}: nothing is sampled in dp-ftrl, records take turns; give "
            "separation (a turn in so many rounds) or batch_size"
        )
    if (given is None) == (batch is None):
        raise InvalidInput(
            f"separation = {given!r}, batch_size = {batch!r}: give one of the two; the data are "
            "dealt to as many batches as the separation says"
        )
    if given is None:
        rate, _ = schedule(request.records, batch, None, 1, None)
        return round(1 / rate)
    return _whole(separation=given)


def _fed_avg(request: Request) -> Algorithm:
    import optax

    from unisono.algorithms.clipping import Clipping
    from unisono.algorithms.fed_avg import Settings, fed_avg

    if request.rounds is None:
        raise InvalidInput(
            "rounds is missing: in fed-avg epochs and batch_size say how a party trains at home "
            "between two rounds; give rounds too"
        )
    rate = 1.0 if request.rate is None else request.rate
    _, rounds = schedule(request.records, None, rate, None, request.rounds)
    home = _optimizer(request.options["home"], request.learning_rate, HOME_RATE, None)
    followed = Clipping(quantile=0.5) if request.clipping is None else clipping_of(request.clipping)
    settings = Settings(
        request.epsilon, request.delta, rounds, rate,
        _whole(epochs=1 if request.epochs is None else request.epochs),
        _whole(batch_size=32 if request.batch_size is None else request.batch_size),
        followed, request.averaged, request.decay, request.relation,
    )  # fmt: skip
    server = optax.sgd(1.0) if request.optimizer is None else request.optimizer
    return fed_avg(settings, request.problem, home, server)


def _learned(value: Any) -> Outcome:
    """A loss that was not released is not a number."""
    loss = None if np.isnan(value.loss) else float(value.loss)
    return Outcome(value.parameters, value.bounds, loss)


ALGORITHMS: Mapping[str, Choice] = MappingProxyType(
    {
        "dp-sgd": Choice(_dp_sgd, _learned, {"noise_scales": ()}),
        "local-dp-sgd": Choice(
            _local_dp_sgd, lambda value: Outcome(value, None, None),
            {"steps": 10, "epsilons": None}, trust=Trust.LOCAL,
        ),
        "dp-ftrl": Choice(
            _dp_ftrl, _learned, {"separation": None, "bands": None, "momentum": None}
        ),
        "fed-avg": Choice(
            _fed_avg, lambda value: Outcome(value.parameters, np.atleast_1d(value.bound), None),
            {"home": None}, learning_rate=HOME_RATE, unit=Unit.PARTY,
        ),
    }
)  # fmt: skip


def chosen(name: str, options: Mapping[str, Any]) -> tuple[Choice, dict[str, Any]]:
    """An algorithm by its name, and its options with those that were given."""
    if name not in ALGORITHMS:
        raise InvalidInput(f"algorithm = {name!r}: choose one of {', '.join(ALGORITHMS)}")
    choice = ALGORITHMS[name]
    for option in options:
        if option not in choice.options:
            owners = [other for other, one in ALGORITHMS.items() if option in one.options]
            belongs = f"it belongs to {', '.join(owners)}" if owners else "nor does train"
            raise InvalidInput(
                f"{name} does not know {option!r} ({belongs}): besides what all have in common it "
                f"takes {', '.join(choice.options)}"
            )
    return choice, {**choice.options, **options}


def epsilons_of(epsilon: float | None, epsilons: Any, names: Sequence[str]) -> tuple[float, ...]:
    """The epsilon of every party: one for all, or each its own.

    >>> epsilons_of(None, {"south": 2.0, "north": 1.0}, ["north", "south"])
    (1.0, 2.0)
    """
    if (epsilon is None) == (epsilons is None):
        raise InvalidInput(
            f"epsilon = {epsilon!r} and epsilons = {epsilons!r}: give one epsilon for all, or (in "
            "local-dp-sgd) epsilons, one for each party"
        )
    if epsilon is not None:
        return (epsilon,) * len(names)
    if isinstance(epsilons, Mapping):
        if {str(name) for name in epsilons} != set(names):
            raise InvalidInput(
                f"epsilons for {', '.join(map(str, epsilons))}, where the parties are "
                f"{', '.join(names)}: give one for each of them"
            )
        by_name = {str(name): value for name, value in epsilons.items()}
        return tuple(by_name[name] for name in names)
    if len(epsilons) != len(names):
        raise InvalidInput(f"{len(epsilons)} epsilons for {len(names)} parties: give one for each")
    return tuple(epsilons)


def clipping_of(given: Any) -> Any:
    from unisono.algorithms.clipping import Clipping

    return given if isinstance(given, Clipping) else Clipping(bound=1.0 if given is None else given)


def _optimizer(
    given: Any, rate: float | None, usual: float = LEARNING_RATE, momentum: float | None = MOMENTUM
) -> Any:
    import optax

    if given is None:
        used = usual if rate is None else rate
        positive(learning_rate=used)
        return optax.sgd(used, momentum=momentum)
    if rate is not None:
        raise InvalidInput(f"learning_rate = {rate!r} beside an optimizer, which has its own")
    return given


def _whole(**named: Any) -> int:
    """The only argument, refused unless it is a whole number above zero."""
    [(name, value)] = named.items()
    positive(**named)
    if int(value) != value:
        raise InvalidInput(f"{name} = {value!r}: count in whole numbers")
    return int(value)


__all__ = ["ALGORITHMS", "Choice", "Outcome", "Request", "chosen", "clipping_of", "epsilons_of"]
