"""How far a bounded value can move when one unit changes, under each relation."""

import math
from dataclasses import dataclass

from unisono.core.trust import Relation, Unit
from unisono.errors import InvalidInput, UndefinedRelation


def positive(**values: float) -> None:
    """Refuse a named parameter that is not a positive finite number."""
    for name, value in values.items():
        if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
            raise InvalidInput(
                f"{name} = {value!r} is not a positive finite number: give one greater than zero"
            )


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

    def times(self, factor: float) -> "Distance":
        """So many times as far, in every norm."""
        norms = (self.l1, self.l2, self.linf)
        return Distance(*(None if norm is None else factor * norm for norm in norms))


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
    shares does not hide whether a *party* took part.
    """
    for name, value in (("l1", l1), ("l2", l2), ("linf", linf)):
        if value is not None:
            positive(**{name: value})
    once = Distance(l1, l2, linf)
    twice = Distance(*(None if v is None else 2 * v for v in (l1, l2, linf)))
    return Sensitivity(unit, twice, once, once if hides_presence else None)
