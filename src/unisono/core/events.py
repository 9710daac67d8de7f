"""What happened: noise, sampler, sensitivity, relation and unit, bound together.

An event says what was done to the data, never what it costs; `unisono.accounting`
knows the costs and refuses events it does not know. Events are frozen, hashable and
written to ledgers as JSON, so two releases with equal parameters are one event
counted twice.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from unisono.core.kinds import (
    LAWS,
    DiscreteGaussian,
    Everyone,
    Gaussian,
    GaussianRun,
    Laplace,
    Noise,
    NoNoise,
    NormNoise,
    Poisson,
    RandomizedResponse,
    RandomStopping,
    Sampler,
    Selection,
    Skellam,
    WithoutReplacement,
    require_known,
)
from unisono.core.sensitivity import Distance, Sensitivity, bounded_sum, positive
from unisono.core.trust import Relation, Unit
from unisono.errors import InvalidInput, UnknownEvent

__all__ = [
    "NOTHING",
    "Composed",
    "DiscreteGaussian",
    "Distance",
    "Event",
    "Everyone",
    "Gaussian",
    "GaussianRun",
    "Laplace",
    "NoNoise",
    "Noise",
    "NormNoise",
    "Poisson",
    "RandomStopping",
    "RandomizedResponse",
    "Sampler",
    "Selection",
    "Sensitivity",
    "Skellam",
    "WithoutReplacement",
    "bounded_sum",
    "canonical",
    "compose",
    "composed_from_json",
    "composed_to_json",
    "event_from_json",
    "event_to_json",
    "positive",
    "random_stopping",
    "releases_of",
]


@dataclass(frozen=True)
class Event:
    """One release: this noise, on a value of this sensitivity, over these units."""

    noise: Noise
    sensitivity: Sensitivity
    sampler: Sampler = Everyone()

    def __post_init__(self) -> None:
        require_known(self.noise)
        if self.noise.run and not isinstance(self.sampler, Everyone):
            raise InvalidInput(
                f"{self.sampler} in a run of releases that are one event: no proof of "
                "amplification is known for it; use Everyone"
            )
        if self.noise.nested and (self.sensitivity, self.sampler) != (
            _sensitivity_of(self.noise),
            Everyone(),
        ):
            raise InvalidInput(
                "random stopping has the unit and the relations of what it chooses from, and no "
                "sampler: make the event with random_stopping(...)"
            )

    def __mul__(self, count: int) -> "Composed":
        return Composed(((self, count),))

    @cached_property
    def fingerprint(self) -> str:
        return _fingerprint(event_to_json(self))

    @cached_property
    def _hash(self) -> int:
        return hash((self.noise, self.sensitivity, self.sampler))

    def __hash__(self) -> int:
        return self._hash  # events are keys everywhere; hash their nested fields once


@dataclass(frozen=True)
class Composed:
    """Several releases on the same data, adaptively; equal events are counted once.

    >>> noise, bound = Gaussian(2.0), bounded_sum(l2=1.0)
    >>> history = Event(noise, bound) * 3 + Event(noise, bound) * 4
    >>> [count for _, count in history.parts]
    [7]
    """

    parts: tuple[tuple[Event, int], ...] = ()

    def __post_init__(self) -> None:
        merged: dict[Event, int] = {}
        for event, count in self.parts:
            if not isinstance(event, Event):
                raise UnknownEvent(f"{event!r} is not an event: unknown releases are never free")
            if int(count) != count or count < 1:
                raise InvalidInput(f"an event happened {count!r} times: count whole releases")
            merged[event] = merged.get(event, 0) + int(count)
        ordered = tuple(merged.items())
        if len(ordered) > 1:
            ordered = tuple(sorted(ordered, key=lambda part: part[0].fingerprint))
        object.__setattr__(self, "parts", ordered)

    def __add__(self, other: "Composed") -> "Composed":
        if not self.parts:
            return other
        if len(self.parts) == len(other.parts) == 1 and self.parts[0][0] == other.parts[0][0]:
            (event, count), (_, more) = self.parts[0], other.parts[0]
            return _counted(event, count + more)
        return Composed(self.parts + other.parts)

    def __mul__(self, count: int) -> "Composed":
        if count == 1:
            return self
        return Composed(tuple((event, n * count) for event, n in self.parts))

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The relations under which every part has a sensitivity."""
        return tuple(
            r for r in Relation if all(r in event.sensitivity.relations for event, _ in self.parts)
        )

    @cached_property
    def discloses(self) -> bool:
        """Whether some part shows the value itself."""
        return any(event.noise.discloses for event, _ in self.parts)

    @cached_property
    def fingerprint(self) -> str:
        return _fingerprint(composed_to_json(self))


def releases_of(event: Event) -> int:
    """How many releases one event covers: one, unless its noise is that of a whole run."""
    return getattr(event.noise, "rounds", 1)


def random_stopping(options: Iterable[Composed], most: int, shape: int = 1) -> Event:
    """The best of a random number of runs, each of which releases one of these (see the law)."""
    law = RandomStopping(tuple(options), most, shape)
    return Event(law, _sensitivity_of(law))


def _sensitivity_of(law: Any) -> Sensitivity:
    """Unit and relations of all that is chosen from. What moves is which run is the best: at most
    from one to another."""
    events = [event for option in law.options for event, _ in option.parts]
    units = {event.sensitivity.unit for event in events}
    if len(units) > 1:
        raise InvalidInput(f"runs that hide {' and '.join(sorted(units))}: choose among one kind")
    shared = [r for r in Relation if all(r in event.sensitivity.relations for event in events)]
    once = {r.replace("-", "_"): Distance(linf=1.0) for r in shared}
    return Sensitivity(units.pop(), **once)


def _counted(event: Event, count: int) -> Composed:
    """One event, `count` times, both known to be valid: the hot path of every ledger."""
    composed = object.__new__(Composed)
    object.__setattr__(composed, "parts", ((event, count),))
    return composed


NOTHING = Composed()


def compose(histories: Iterable[Composed]) -> Composed:
    """Sequential composition of several histories."""
    return Composed(tuple(part for history in histories for part in history.parts))


# ----------------------------------------------------------------------- JSON


def _nested(law: type[Noise]) -> Callable[..., Any]:
    """A law that is read from a document in which options are documents too."""

    def read(options: Iterable[Any], **fields: Any) -> Any:
        return law(tuple(composed_from_json(one) for one in options), **fields)  # type: ignore[call-arg]

    return read


_NOISE_KINDS: dict[str, Callable[..., Any]] = {
    law.kind: _nested(law) if law.nested else law for law in LAWS
}
_SAMPLER_KINDS: dict[str, Callable[..., Any]] = {
    "everyone": Everyone,
    "poisson": Poisson,
    "without-replacement": WithoutReplacement,
}
_KIND_NAMES: dict[Any, str] = {law: law.kind for law in LAWS} | {
    cls: name for name, cls in _SAMPLER_KINDS.items()
}


def _tagged(value: Any) -> dict[str, Any]:
    """What is not known of a law is left out, as in documents from before it was asked."""
    fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if getattr(value, "nested", False):
        fields["options"] = [composed_to_json(one) for one in value.options]
    return {
        "kind": _KIND_NAMES[type(value)],
        **{name: field for name, field in fields.items() if field is not None},
    }


def _untag(document: Mapping[str, Any], kinds: Mapping[str, Callable[..., Any]]) -> Any:
    fields = dict(document)
    kind = fields.pop("kind", None)
    if kind not in kinds:
        raise UnknownEvent(
            f"unknown kind {kind!r} (known: {', '.join(kinds)}): it was written by another "
            "version; unknown releases are never counted as free"
        )
    try:
        return kinds[kind](**fields)
    except TypeError as error:
        raise UnknownEvent(f"malformed {kind!r} in an event: {error}") from None


def event_to_json(event: Event) -> dict[str, Any]:
    distances = {
        str(relation): {
            norm: value
            for norm, value in dataclasses.asdict(event.sensitivity.under(relation)).items()
            if value is not None
        }
        for relation in event.sensitivity.relations
    }
    return {
        "noise": _tagged(event.noise),
        "unit": str(event.sensitivity.unit),
        "sensitivity": distances,
        "sampler": _tagged(event.sampler),
    }


def event_from_json(document: Mapping[str, Any]) -> Event:
    """The event a ledger line describes; anything unexpected raises `UnknownEvent`."""
    try:
        distances = {
            Relation(r).replace("-", "_"): Distance(**fields)
            for r, fields in document["sensitivity"].items()
        }
        sensitivity = Sensitivity(Unit(document["unit"]), **distances)
        noise = _untag(document["noise"], _NOISE_KINDS)
        sampler = _untag(document["sampler"], _SAMPLER_KINDS)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise UnknownEvent(f"malformed event {document!r}: {error!r}") from None
    return Event(noise, sensitivity, sampler)


def composed_to_json(history: Composed) -> list[dict[str, Any]]:
    return [{"count": count, **event_to_json(event)} for event, count in history.parts]


def composed_from_json(document: Iterable[Mapping[str, Any]]) -> Composed:
    return Composed(tuple((event_from_json(part), part["count"]) for part in document))


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(document: Any) -> bytes:
    """The one byte string that stands for a JSON document."""
    return _ENCODER.encode(document).encode()


def _fingerprint(document: Any) -> str:
    return hashlib.sha256(canonical(document)).hexdigest()
