"""From what users count in to the configuration of an algorithm that learns any loss.

                   hides        a record takes part         noise                       trust
    dp-sgd         a record     by a secret sampling mask   fresh in every round        every
    local-dp-sgd   a record     by a secret mask, locally   fresh, of each party's own  local
    dp-ftrl        a record     every s rounds, known       correlated over rounds      every
    fed-avg        a party      if its party is sampled     fresh in every round        every

Everything else is the algorithm's own: its options are the fields of its configuration, and it says
what it hides and where its noise may be added.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unisono.core.events import positive
from unisono.errors import InvalidInput
from unisono.estimators.schedules import schedule

if TYPE_CHECKING:
    from unisono.releases.algorithm import AlgorithmKind


def algorithms() -> Mapping[str, "AlgorithmKind"]:
    """All algorithms that learn any loss of a record, by name."""
    from unisono.algorithms import registry
    from unisono.problems.record_loss import RecordLoss

    return {
        name: kind for name, kind in registry.algorithms().items() if kind.problem is RecordLoss
    }


# Arguments of `train` that all algorithms understand, each in its way.
_COMMON = {
    *("rounds", "sampling_rate", "epochs", "batch_size", "clipping", "optimizer", "learning_rate"),
    *("average_last", "decay"),
}


def chosen(name: str, options: Mapping[str, Any]) -> "AlgorithmKind":
    """An algorithm by its name, unless it does not know these options."""
    known = algorithms()
    if name not in known:
        raise InvalidInput(f"algorithm = {name!r}: choose one of {', '.join(known)}")
    own = {kind.name: _own_options(kind) for kind in known.values()}
    for option in options:
        if option not in own[name]:
            owners = [other for other, theirs in own.items() if option in theirs]
            belongs = f"it belongs to {', '.join(owners)}" if owners else "nor does train"
            raise InvalidInput(
                f"{name} does not know {option!r} ({belongs}): besides what all have in common it "
                f"takes {', '.join(own[name])}"
            )
    return known[name]


def _own_options(kind: "AlgorithmKind") -> list[str]:
    return [name for name in kind.config.model_fields if name not in _COMMON]


def configured(
    kind: "AlgorithmKind",
    records: int,
    *,
    batch_size: int | None = None,
    rate: float | None = None,
    epochs: float | None = None,
    rounds: int | None = None,
    clipping: Any = None,
    averaged: float = 0.0,
    **own: Any,
) -> Any:
    """An algorithm's configuration for so many records in all; `own` are settings by their names
    there."""
    settings = own | _sampling(kind, records, batch_size, rate, epochs, rounds, own)
    if clipping is not None:
        settings["clipping"] = _clipping(clipping)
    return kind.configured(average_last=averaged, **settings)


def _sampling(
    kind: "AlgorithmKind",
    records: int,
    batch_size: int | None,
    rate: float | None,
    epochs: float | None,
    rounds: int | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """The settings that say who takes part and for how long, from what the user counts in."""
    fields = kind.config.model_fields
    if "epochs" in fields:  # of a party by itself, between two rounds
        return _local_epochs(kind, batch_size, rate, epochs, rounds)
    if "separation" in fields:
        separation = _separation(kind, records, batch_size, rate, options.get("separation"))
        _, rounds = schedule(records, None, 1 / separation, epochs, rounds)
        return {"rounds": rounds, "separation": separation}
    sampled, found = schedule(records, batch_size, rate, epochs, rounds)
    if rounds is None and "steps" in fields:
        steps = options.get("steps", fields["steps"].default)
        found = max(1, round(found / _whole(steps=steps)))
    return {"rounds": found, "sampling_rate": sampled}


def _local_epochs(
    kind: "AlgorithmKind",
    batch_size: int | None,
    rate: float | None,
    epochs: float | None,
    rounds: int | None,
) -> dict[str, Any]:
    if rounds is None:
        raise InvalidInput(
            f"rounds is missing: in {kind.name} epochs and batch_size say how a party trains "
            "locally between two rounds; give rounds too"
        )
    sampled, found = schedule(1, None, 1.0 if rate is None else rate, None, rounds)
    given = {"epochs": epochs, "batch_size": batch_size}
    whole = {name: _whole(**{name: value}) for name, value in given.items() if value is not None}
    return {"rounds": found, "sampling_rate": sampled, **whole}


def _separation(
    kind: "AlgorithmKind", records: int, batch: int | None, rate: float | None, given: Any
) -> int:
    """After how many rounds it is a record's turn again."""
    if rate is not None:
        raise InvalidInput(
            f"rate = {rate!r}: nothing is sampled in {kind.name}, records take turns; give "
            "separation (a turn in so many rounds) or batch_size"
        )
    if (given is None) == (batch is None):
        raise InvalidInput(
            f"separation = {given!r}, batch_size = {batch!r}: give one of the two; the data are "
            "dealt to as many batches as the separation says"
        )
    if given is None:
        return round(1 / schedule(records, batch, None, 1, None)[0])
    return _whole(separation=given)


def epsilons_of(epsilon: float | None, epsilons: Any, names: Sequence[str]) -> tuple[float, ...]:
    """The epsilon of every party: one for all, or each its own.

    >>> epsilons_of(None, {"south": 2.0, "north": 1.0}, ["north", "south"])
    (1.0, 2.0)
    """
    if (epsilon is None) == (epsilons is None):
        raise InvalidInput(
            f"epsilon = {epsilon!r} and epsilons = {epsilons!r}: give one epsilon for all, or "
            "(with trust local) epsilons, one for each party"
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


def _clipping(given: Any) -> Any:
    """A `Clipping`, of a bound if only that is given."""
    from unisono.releases.blocked_sum import Clipping

    return given if isinstance(given, Clipping) else Clipping(bound=given)


def _whole(**named: Any) -> int:
    """The only argument, refused unless it is a whole number above zero."""
    [(name, value)] = named.items()
    positive(**named)
    if int(value) != value:
        raise InvalidInput(f"{name} = {value!r}: count in whole numbers")
    return int(value)


__all__ = ["algorithms", "chosen", "configured", "epsilons_of"]
