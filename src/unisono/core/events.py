"""What happened: noise, sampler, sensitivity, relation and unit, bound together.

An event says what was done to the data, never what it costs; `unisono.accounting`
knows the costs and refuses events it does not know. Events are frozen, hashable and
written to ledgers as JSON, so two releases with equal parameters are one event
counted twice.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from unisono.core.trust import Relation, Unit
from unisono.errors import InvalidInput, UndefinedRelation, UnknownEvent


def positive(**values: float) -> None:
    """Refuse a named parameter that is not a positive finite number."""
    for name, value in values.items():
        if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
            raise InvalidInput(
                f"{name} = {value!r} is not a positive finite number: give one greater than zero"
            )


# ---------------------------------------------------------------- sensitivity


@dataclass(frozen=True)
class Distance:
    """How far apart a bounded value can be on neighbours, in the norms that are known."""

    l1: float | None = None
    l2: float | None = None
    linf: float | None = None

    def __post_init__(self) -> None:
        for name in ("l1", "l2", "linf"):
            value = getattr(self, name)
            if value is not None:
                positive(**{name: value})

    def in_norm(self, norm: str) -> float:
        value: float | None = getattr(self, norm)
        if value is None:
            raise UndefinedRelation(
                f"no {norm} sensitivity is known ({self}): bound the value in {norm} first"
            )
        return value


@dataclass(frozen=True)
class Sensitivity:
    """The distance between neighbours under every relation for which it is defined."""

    unit: Unit
    replace_one: Distance | None = None
    zero_out: Distance | None = None
    add_or_remove: Distance | None = None

    def under(self, relation: Relation) -> Distance:
        distance: Distance | None = getattr(self, relation.replace("-", "_"))
        if distance is None:
            defined = ", ".join(self.relations) or "none"
            raise UndefinedRelation(
                f"this release bounds nothing under {relation!s} (defined: {defined}): "
                "ask for a relation it defines, or release through a sum of bounded records"
            )
        return distance

    @property
    def relations(self) -> tuple[Relation, ...]:
        return tuple(r for r in Relation if getattr(self, r.replace("-", "_")) is not None)


def bounded_sum(
    *,
    l1: float | None = None,
    l2: float | None = None,
    linf: float | None = None,
    unit: Unit = Unit.RECORD,
    hides_presence: bool = True,
) -> Sensitivity:
    """Sensitivity of a sum in which every unit contributes a vector of at most these norms.

    Removing or zeroing one unit moves the sum by its norm; replacing it by at most twice
    that. `hides_presence=False` leaves add-or-remove undefined: a sum whose noise comes in
    shares does not hide whether a *party* took part (E003-16).
    """  # fmt: skip
    for name, value in (("l1", l1), ("l2", l2), ("linf", linf)):
        if value is not None:
            positive(**{name: value})
    once = Distance(l1, l2, linf)
    twice = Distance(*(None if v is None else 2 * v for v in (l1, l2, linf)))
    return Sensitivity(unit, twice, once, once if hides_presence else None)


# ---------------------------------------------------------------------- noise


@dataclass(frozen=True)
class Gaussian:
    """Independent N(0, std^2) per coordinate, or integers that post-process it (X-3).

    The law that was drawn may differ from a post-processing of the continuous Gaussian: over
    all coordinates of one release their probabilities are within a factor exp(`slack`) but for
    a mass of `gap` (X-11). Exact samplers have no slack, and no gap unless shares are added.
    """

    std: float
    gap: float = 0.0
    slack: float = 0.0
    norm: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        positive(std=self.std)
        if not 0 <= self.gap < 1:
            raise InvalidInput(f"gap = {self.gap!r} is not a total variation in [0, 1)")
        if not 0 <= self.slack < 1:
            raise InvalidInput(f"slack = {self.slack!r} is not a small epsilon in [0, 1)")


@dataclass(frozen=True)
class Laplace:
    """Independent Laplace noise in each of `dimension` coordinates.

    Releases draw the discrete law P(k) ∝ exp(-|k| / scale) on the grid; `discrete=False` is
    the textbook's continuous law, for analysis.
    """

    scale: float
    dimension: int = 1
    discrete: bool = True
    norm: ClassVar[str] = "l1"

    def __post_init__(self) -> None:
        positive(scale=self.scale, dimension=self.dimension)


@dataclass(frozen=True)
class NormNoise:
    """Density ∝ exp(-||b||_2 / scale): the vector norm mechanism (INVENTORY 2.1)."""

    scale: float
    norm: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        positive(scale=self.scale)


@dataclass(frozen=True)
class DiscreteGaussian:
    """Sum of `shares` discrete Gaussians of total variance std^2, in `dimension` coordinates.

    `grid` is the step of the integer grid in the units of `std`.
    """

    std: float
    grid: float
    dimension: int
    shares: int = 1
    norm: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        positive(std=self.std, grid=self.grid, dimension=self.dimension, shares=self.shares)


@dataclass(frozen=True)
class Skellam:
    """Poisson minus Poisson of this standard deviation on a grid; closed under sums."""

    std: float
    grid: float
    norm: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        positive(std=self.std, grid=self.grid)


@dataclass(frozen=True)
class RandomizedResponse:
    """One answer out of `choices`, kept with odds exp(epsilon) against each other answer."""

    epsilon: float
    choices: int = 2
    norm: ClassVar[str] = "linf"

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        if self.choices < 2:
            raise InvalidInput(f"choices = {self.choices!r}: a response needs at least 2")


@dataclass(frozen=True)
class Selection:
    """A choice with probability ∝ exp(score / (2 scale)), or permute-and-flip, which costs
    the same: epsilon = (sensitivity of the scores in linf) / scale."""

    scale: float
    norm: ClassVar[str] = "linf"

    def __post_init__(self) -> None:
        positive(scale=self.scale)


@dataclass(frozen=True)
class NoNoise:
    """The value itself is disclosed: epsilon is infinite against this viewer."""

    norm: ClassVar[str] = "l2"


Noise = (
    Gaussian | Laplace | NormNoise | DiscreteGaussian | Skellam
    | RandomizedResponse | Selection | NoNoise
)  # fmt: skip


# ------------------------------------------------------------------- samplers


@dataclass(frozen=True)
class Everyone:
    """No sampling: every unit contributes."""


@dataclass(frozen=True)
class Poisson:
    """Every unit tosses its own secret coin with probability `rate`."""

    rate: float

    def __post_init__(self) -> None:
        positive(rate=self.rate)
        if self.rate > 1:
            raise InvalidInput(f"rate = {self.rate!r} is above 1: a probability is at most 1")


@dataclass(frozen=True)
class WithoutReplacement:
    """A secret subset of exactly `size` out of `population` units."""

    size: int
    population: int

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.population:
            raise InvalidInput(
                f"cannot draw {self.size!r} of {self.population!r} without replacement: "
                "size must lie between 1 and the population"
            )


Sampler = Everyone | Poisson | WithoutReplacement


# --------------------------------------------------------------------- events


@dataclass(frozen=True)
class Event:
    """One release: this noise, on a value of this sensitivity, over these units."""

    noise: Noise
    sensitivity: Sensitivity
    sampler: Sampler = Everyone()

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
    def fingerprint(self) -> str:
        return _fingerprint(composed_to_json(self))


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

_NOISE_KINDS: dict[str, type] = {
    "gaussian": Gaussian, "laplace": Laplace, "norm": NormNoise,
    "discrete-gaussian": DiscreteGaussian, "skellam": Skellam,
    "randomized-response": RandomizedResponse, "selection": Selection, "none": NoNoise,
}  # fmt: skip
_SAMPLER_KINDS: dict[str, type] = {
    "everyone": Everyone, "poisson": Poisson, "without-replacement": WithoutReplacement,
}  # fmt: skip
_KIND_NAMES = {cls: name for kinds in (_NOISE_KINDS, _SAMPLER_KINDS) for name, cls in kinds.items()}


def _tagged(value: Any) -> dict[str, Any]:
    return {"kind": _KIND_NAMES[type(value)], **dataclasses.asdict(value)}


def _untag(document: Mapping[str, Any], kinds: Mapping[str, type]) -> Any:
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
