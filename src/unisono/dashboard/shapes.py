"""Documents are somebody's files: what is not of the shape it should be is left out, not guessed.

Every page reads documents through these, so that a damaged run never breaks the page of the others.
"""

import math
from typing import Any

INFINITE = "inf"  # how documents write what JSON has no number for


def number(value: Any) -> float | None:
    """A number, infinity included; None for anything else.

    >>> number(2), number("inf"), number("2"), number(True), number(float("nan"))
    (2.0, inf, None, None, None)
    """
    if value == INFINITE:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return None if math.isnan(value) else float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf


def whole(value: Any) -> int | None:
    """A count, from 0 on."""
    found = number(value)
    return int(found) if found is not None and 0 <= found < 2**53 and found % 1 == 0 else None


def text(value: Any) -> str:
    """Words, or nothing."""
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> dict[str, Any]:
    return {str(key): inner for key, inner in value.items()} if hasattr(value, "items") else {}


def mappings(value: Any) -> list[dict[str, Any]]:
    """Those entries of a list that are mappings."""
    entries = value if isinstance(value, list | tuple) else []
    return [mapping(one) for one in entries if hasattr(one, "items")]


def names(value: Any) -> list[str] | None:
    """A list of names; None where nobody wrote one."""
    return [str(one) for one in value] if isinstance(value, list | tuple) else None


def strict(value: Any) -> Any:
    """The same document without numbers that JSON lacks.

    >>> strict({"a": [1, float("inf"), float("nan")]})
    {'a': [1, 'inf', None]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "-inf" if value < 0 else INFINITE
    if hasattr(value, "items"):
        return {str(key): strict(inner) for key, inner in value.items()}
    return [strict(one) for one in value] if isinstance(value, list | tuple) else value
