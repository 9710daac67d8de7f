"""Weights of records: how much each of them counts, before it is bounded.

A weight multiplies what one record says (its loss, and so its gradient, or its part of a sum of
products) *before* that is clipped. What a record can add stays within the same bound, so the
sensitivity, the noise and the price are those of records without weights: a heavy record is clipped
earlier, and gives nothing away that a light one would not. Weights may be private, as rows are; for
that a public number bounds them, and those above it are clipped to it. Algorithms are given shares
of it in [0, 1].

Weights by class are public numbers. Counts of classes are a statistic of the records, so "balanced"
would be a release that nobody pays for.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unisono.core.defaults import warn_of_clipping
from unisono.core.words import did_you_mean
from unisono.errors import InvalidInput


def as_shares(given: Any, largest: float | None, records: int) -> np.ndarray:
    """Weights (n,) as shares of the largest that is publicly allowed."""
    if largest is None or not 0 < largest < math.inf:
        raise InvalidInput(
            f"sample_weight with largest_weight = {largest!r}: pass a public bound of weights, "
            "known without looking at the data; nothing was spent"
        )
    own = one_each("sample_weight", given, records)
    if (own < 0).any() or not own.any():
        what = "negative numbers" if own.any() else "zeros only"
        raise InvalidInput(
            f"sample_weight holds {what}: a weight says how much a record counts, and some must "
            "count; nothing was spent"
        )
    warn_of_clipping(own, 0.0, largest, "weights")
    return np.clip(own, 0.0, largest) / largest


def one_each(name: str, given: Any, records: int) -> np.ndarray:
    """One number for each record (n,)."""
    try:
        column = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} holds what are no numbers; nothing was spent") from None
    if column.shape != (records,):
        raise InvalidInput(
            f"{name} of shape {column.shape} for {records} rows: give one number for each; nothing "
            "was spent"
        )
    if not np.isfinite(column).all():
        raise InvalidInput(
            f"{name} holds {np.count_nonzero(~np.isfinite(column))} values that are no finite "
            "numbers: leave such records out, or put a public constant there; nothing was spent"
        )
    return column


def by_class(given: Any, classes: Sequence[Any]) -> np.ndarray:
    """The weight of each class (k,), as shares of the largest; 1 for those that are not named."""
    if isinstance(given, str):
        why = (
            '"balanced" divides by how many records each class has, which is private: a fit would '
            "give these counts away without paying"
            if given == "balanced"
            else "there is no such rule"
        )
        raise InvalidInput(
            f"class_weight = {given!r}: {why}; pass public numbers, as "
            f"{{{classes[0]!r}: 1, {classes[-1]!r}: 5}}, known from elsewhere, or pay for counts "
            "first (unisono.histogram) and pass one over each; nothing was spent"
        )
    if not isinstance(given, Mapping):
        raise InvalidInput(
            f"class_weight is a {type(given).__name__}: give a mapping from class to a public "
            f"number, as {{{classes[0]!r}: 1, {classes[-1]!r}: 5}}; nothing was spent"
        )
    known = list(classes)
    strange = [name for name in given if name not in known]
    if strange:
        raise InvalidInput(
            f"class_weight names {strange[0]!r}, which is none of the classes "
            f"{[*map(_plain, known)]}: nothing was spent{did_you_mean(strange[0], map(str, known))}"
        )
    weights = np.array([_number(name, given.get(name, 1.0)) for name in known])
    if not weights.any():
        raise InvalidInput("class_weight is zero for all classes: some must count")
    return weights / weights.max()


def _number(name: Any, given: Any) -> float:
    good = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    if not good or not 0 <= float(given) < math.inf:
        raise InvalidInput(
            f"class_weight of {_plain(name)!r} is {given!r}: give a public number, zero or above; "
            "nothing was spent"
        )
    return float(given)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def refuse_others(estimator: Any, others: Mapping[str, Any]) -> None:
    """Refuse what `fit` of an estimator with a likelihood does not take."""
    for name, given in others.items():
        if name != "sample_weight":
            raise TypeError(f"{type(estimator).__name__}.fit() has no argument {name!r}")
        if given is not None:
            raise InvalidInput(
                f"sample_weight with {type(estimator).__name__}: with weights there is no "
                "likelihood, and its posterior would be too sure or not sure enough; use "
                "PrivateGLM, whose errors are right with weights too; nothing was spent"
            )


__all__ = ["as_shares", "by_class", "one_each", "refuse_others"]
