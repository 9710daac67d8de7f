"""Columns by public knowledge: bounds, steps of whole numbers, and groups."""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from unisono.errors import InvalidInput

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Groups:
    """Public groups: `column` holds the group's number, 0 to len(labels) - 1; other records
    belong to no group and count nowhere."""

    column: int
    labels: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise InvalidInput(
                f"groups {self.labels!r}: name at least one, each once, from public knowledge"
            )


def require_bounds(bounds: Bounds, name: str) -> tuple[float, float]:
    """Public bounds as floats.

    >>> require_bounds((0, 120), "age")
    (0.0, 120.0)
    """
    low, high = (float(b) for b in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput(
            f"bounds {bounds!r} of {name} are not a finite range: give the public lowest and "
            "highest value, never read from the data"
        )
    if (high - low) < 1e-4 * max(abs(low), abs(high)):
        raise InvalidInput(
            f"bounds {bounds!r} of {name} are too narrow for where they lie (records are 32-bit "
            "floats): subtract a public constant from the column first"
        )
    return low, high


def centre_of(low: float, high: float, step: float | None) -> tuple[float, float, int]:
    """Centre, half range, and how many steps the half range holds.

    >>> centre_of(0.0, 120.0, 1.0), centre_of(0.0, 5.0, 1.0), centre_of(0.0, 5.0, None)
    ((60.0, 60.0, 60), (2.0, 3.0, 3), (2.5, 2.5, 1))
    """
    if step is None:
        return (low + high) / 2, (high - low) / 2, 1
    steps_in(high - low, step)
    centre = low + step * math.floor((high - low) / (2 * step))
    multiple = steps_in(max(high - centre, centre - low), step)
    return centre, multiple * step, multiple


def steps_in(reach: float, step: float) -> int:
    if not (math.isfinite(step) and step > 0):
        raise InvalidInput(f"step = {step!r} is not a positive number: give 1 for whole numbers")
    return max(1, math.ceil(reach / step - 1e-9))


def is_whole(low: float, high: float, step: float | None) -> bool:
    """Whether float32 holds all multiples of the step between the bounds exactly."""
    return step is not None and max(abs(low), abs(high)) / step < 2**24


def input_error(low: float, high: float) -> float:
    """How far a record as float32 is off, in half ranges, with the arithmetic on it."""
    return 2.0**-21 + 2.0**-23 * max(abs(low), abs(high)) / (high - low)


def over_unit(values: Any, unit: float, multiple: int, step: float | None) -> Any:
    """Values over their unit, moved to the nearest multiple of the step where there is one."""
    return values / unit if step is None else jnp.round(values / step) / multiple


def _require_columns(bounds: tuple[Bounds, ...]) -> None:
    if not bounds:
        raise InvalidInput("no columns: give public bounds for at least one")
    for column, own in enumerate(bounds):
        require_bounds(own, f"column {column}")


@dataclass(frozen=True)
class BoundedColumns:
    """The problem of rows of numbers, every column within public bounds; values outside are
    clipped."""

    bounds: tuple[Bounds, ...]

    def __post_init__(self) -> None:
        _require_columns(self.bounds)

    @property
    def agreed(self) -> dict[str, Any]:
        return {"bounds": [list(bounds) for bounds in self.bounds]}

    @property
    def dimension(self) -> int:
        return len(self.bounds)


@dataclass(frozen=True)
class ClusteredColumns:
    """The problem of so many groups of rows of numbers; not every algorithm for rows finds them."""

    bounds: tuple[Bounds, ...]
    clusters: int

    def __post_init__(self) -> None:
        _require_columns(self.bounds)
        if self.clusters < 1:
            raise InvalidInput(f"clusters = {self.clusters!r}: there is at least one")

    @property
    def agreed(self) -> dict[str, Any]:
        return {"bounds": [list(bounds) for bounds in self.bounds], "clusters": self.clusters}

    @property
    def dimension(self) -> int:
        return len(self.bounds)
