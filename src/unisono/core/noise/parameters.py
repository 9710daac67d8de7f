"""What the samplers accept: sizes and positive finite parameters, refused with a reason."""

import math
from math import prod

import numpy as np

from unisono.errors import InvalidInput

Size = int | tuple[int, ...]

# Beyond this scale 64 standard deviations would not fit in a signed 64-bit integer with room.
LARGEST_SCALE = 2.0**56


def shape_of(size: Size) -> tuple[tuple[int, ...], int]:
    """The shape asked for and its number of draws."""
    lengths = size if isinstance(size, tuple) else (size,)
    for length in lengths:
        whole = isinstance(length, (int, np.integer)) and not isinstance(length, bool)
        if not whole or length < 0:
            raise InvalidInput(f"size must be a whole number >= 0 or a tuple of them, got {size!r}")
    shape = tuple(int(length) for length in lengths)
    return shape, prod(shape)


def positive(name: str, value: float, largest: float = math.inf, why: str = "") -> float:
    """The value as a double, or a refusal: it must be finite, > 0 and below `largest`."""
    number = real_number(name, value)
    if number <= 0:
        raise InvalidInput(f"{name} must be greater than 0, got {value!r}")
    if number >= largest:
        raise InvalidInput(f"{name} must be below {largest:g}, got {value!r}: {why}")
    return number


def spread(name: str, value: float) -> float:
    """A positive scale whose noise fits in 64-bit integers."""
    why = "64 times this scale does not fit in a 64-bit integer; use a coarser grid"
    return positive(name, value, LARGEST_SCALE, why)


def real_number(name: str, value: float) -> float:
    """The value as a finite double that equals it."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise InvalidInput(f"{name} must be a real number, got {value!r}")
    if isinstance(value, (float, np.floating)) and not math.isfinite(value):
        raise InvalidInput(f"{name} must be finite, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if number != value:
        raise InvalidInput(
            f"{name} must be representable as a double, got {value!r}: round it first, so that the "
            "law that is drawn is the law that was meant"
        )
    return number


def whole_number(name: str, value: int, smallest: int, largest: int) -> int:
    """The value as an integer in [smallest, largest]."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not smallest <= value <= largest:
        raise InvalidInput(
            f"{name} must be a whole number in [{smallest}, {largest}], got {value!r}"
        )
    return int(value)


def single_precision(width: float) -> float:
    """The least 32-bit float that is no smaller: a width as a compiled program receives it."""
    nearest = np.float32(width)
    if not np.isfinite(nearest):
        return math.inf
    # As doubles: beside a 32-bit float NumPy would round the width before it compares.
    upward = np.nextafter(nearest, np.float32(np.inf))
    return float(nearest) if float(nearest) >= width else float(upward)
