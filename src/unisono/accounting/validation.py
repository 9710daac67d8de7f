"""Shared checks of privacy parameters: a bad value is refused before any formula sees it.

Every function returns the checked value, so that a check reads as an assignment:
``epsilon = require_epsilon(epsilon)``. NaN and infinity never pass. Messages say the value,
the cause and the remedy.
"""

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unisono.errors import InvalidInput

FloatArray = NDArray[np.float64]


def require_number(name: str, value: Any) -> float:
    """A finite real number.

    >>> require_number("mu", 2)
    2.0
    """
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise InvalidInput(f"{name} is {value!r}, which is not a number; pass a finite real number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(
            f"{name} is {value!r}, which is not a finite number; pass a single real number"
        ) from None
    if not math.isfinite(number):
        raise InvalidInput(
            f"{name} is {number}, which is not finite; a guarantee needs a finite {name}"
        )
    return number


def require_positive(name: str, value: Any) -> float:
    """A finite number greater than zero."""
    number = require_number(name, value)
    if number <= 0:
        raise InvalidInput(f"{name} is {number}, but it must be greater than 0; raise it")
    return number


def require_non_negative(name: str, value: Any) -> float:
    """A finite number that is zero or greater."""
    number = require_number(name, value)
    if number < 0:
        raise InvalidInput(f"{name} is {number}, but it must not be negative; use 0 or more")
    return number


def require_epsilon(epsilon: Any, *, zero: bool = False, name: str = "epsilon") -> float:
    """A finite privacy level: greater than 0, or with ``zero=True`` also 0."""
    return require_non_negative(name, epsilon) if zero else require_positive(name, epsilon)


def require_delta(delta: Any, *, zero: bool = False, name: str = "delta") -> float:
    """A failure probability in (0, 1), or with ``zero=True`` in [0, 1)."""
    number = require_number(name, delta)
    if number >= 1 or number < 0 or (number == 0 and not zero):
        interval = "[0, 1)" if zero else "(0, 1)"
        remedy = (
            "a delta of 0 needs a pure mechanism; otherwise choose far less than 1 / records"
            if number == 0
            else "choose far less than 1 / records, for example 1e-6"
        )
        raise InvalidInput(f"{name} is {number}, outside {interval}; {remedy}")
    return number


def require_probability(name: str, value: Any, *, zero: bool = True, one: bool = True) -> float:
    """A number in [0, 1]; ``zero`` and ``one`` say whether the ends are allowed."""
    number = require_number(name, value)
    if not 0 <= number <= 1 or (number == 0 and not zero) or (number == 1 and not one):
        interval = f"{'[' if zero else '('}0, 1{']' if one else ')'}"
        raise InvalidInput(f"{name} is {number}, outside {interval}; pass a probability")
    return number


def require_count(name: str, value: Any, *, minimum: int = 1) -> int:
    """A whole number of at least ``minimum``; 3.0 and numpy integers are accepted.

    >>> require_count("rounds", 3.0)
    3
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        count = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{name} is {value!r}, which is not a whole number; round it") from None
    if count < minimum:
        raise InvalidInput(f"{name} is {count}, but at least {minimum} is needed; raise it")
    return count


def require_numbers(name: str, values: ArrayLike, *, minimum: float = 0.0) -> FloatArray:
    """A one-dimensional array of at least one finite number, each at least ``minimum``."""
    try:
        numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is {values!r}, which is not a list of numbers") from None
    if numbers.ndim != 1 or numbers.size == 0:
        raise InvalidInput(
            f"{name} has shape {numbers.shape}; pass a flat list of at least one number"
        )
    if not np.all(np.isfinite(numbers)) or np.any(numbers < minimum):
        raise InvalidInput(
            f"{name} contains a value that is not finite or is below {minimum}; remove it"
        )
    return numbers


def require_orders(orders: ArrayLike) -> FloatArray:
    """Rényi orders: a flat list of finite numbers greater than 1."""
    checked = require_numbers("orders", orders)
    if np.any(checked <= 1):
        raise InvalidInput(
            f"orders contain {checked.min()}, but a Rényi order must be greater than 1"
        )
    return checked


def require_counts(name: str, counts: Iterable[Any] | None, length: int) -> FloatArray:
    """Repetitions, one whole number for each of ``length`` items; None means once each."""
    if counts is None:
        return np.ones(length)
    checked = np.array([require_count(name, count, minimum=0) for count in counts], dtype=float)
    if len(checked) != length:
        raise InvalidInput(f"{name} has {len(checked)} values for {length} items; give one each")
    return checked
