"""Rows into the unit ball, each on its own, by public knowledge only.

A row x (d,) becomes w = (u(x), 1) / r(x) (d + 1,) with ||w|| <= 1; the 1 carries the intercept.

    per-feature bounds  u_j = (x_j - shift_j) / scale_j in [-1, 1],   r = ||(u, 1)||
    norm bound R        u = x / R in the unit ball,                   r = sqrt(2)
    no bounds           u = x / max(1, ||x||),                        r = sqrt(2)

The scaling of one row reads no other row, so it costs no privacy. Dividing by the row's own
length r > 0 leaves the sign of θ·(u, 1), and the largest of several scores, as they are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unisono.core.defaults import warn_of_clipping
from unisono.core.values import require_finite
from unisono.errors import InvalidInput


@dataclass(frozen=True)
class UnitScaling:
    """How rows are brought into the unit ball; `norm` is None for per-feature bounds."""

    shift: np.ndarray
    scale: np.ndarray
    norm: float | None

    def whole(self, features: np.ndarray) -> np.ndarray:
        """(n, d) features to rows (u, 1) (n, d + 1), not yet divided by r.

        Features outside the bounds are clipped, each row by itself.
        """
        inner = (np.ascontiguousarray(features) - self.shift) / self.scale
        if self.norm is None:
            inner = np.clip(inner, -1.0, 1.0)
        else:
            lengths = np.linalg.norm(inner, axis=1, keepdims=True)
            inner = inner / np.maximum(1.0, lengths)
        return np.concatenate([inner, np.ones((len(inner), 1))], axis=1)

    def rows(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n, d) features to rows in the unit ball (n, d + 1) and their divisors r (n,)."""
        whole = self.whole(features)
        if self.norm is None:
            lengths = np.linalg.norm(whole, axis=1)
        else:
            lengths = np.full(len(whole), math.sqrt(2))
        return whole / lengths[:, None], lengths

    def coefficients(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Parameters (k, d + 1) for (u, 1) as coefficients (k, d) and intercepts (k,) for x."""
        slopes = parameters[:, :-1] / self.scale
        return slopes, parameters[:, -1] - slopes @ self.shift


def scaling(
    bounds: Any,
    features: int,
    centred: str = "none",
    centres: Sequence[float | None] | None = None,
) -> UnitScaling:
    """The scaling that public bounds define.

    Per-feature ranges begin at the bound nearest to zero; with `centred` "away from zero" those
    that do not hold zero, and with "all" every range, are centred instead. Where a feature's centre
    is public too, it is taken.

    >>> scaling([(17, 0), (90, 1)], 2).rows(np.array([[90.0, 0.0]]))[0].round(4)
    array([[0.7071, 0.    , 0.7071]])
    """
    nothing, one = np.zeros(features), np.ones(features)
    if bounds is None:
        return UnitScaling(nothing, one, 1.0)
    if isinstance(bounds, Mapping):
        raise InvalidInput(
            f"bounds are a dictionary of {len(bounds)} names: give (lowest, highest), each with "
            "one number per column in the order of the columns, as ([0, 0], [120, 1])"
        )
    try:
        given = np.asarray(bounds, dtype=float)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"bounds = {bounds!r} are no numbers: give (lowest, highest), each a number or one "
            "number per feature"
        ) from None
    array = require_finite(given, "bounds")
    if array.ndim == 0:
        if array <= 0:
            raise InvalidInput(f"bounds = {bounds!r}: a bound on the norm of rows is positive")
        return UnitScaling(nothing, one * float(array), float(array))
    if array.shape == (2,):
        array = np.repeat(array[:, None], features, axis=1)
    if array.shape != (2, features):
        raise InvalidInput(
            f"bounds of shape {array.shape} for {features} features: give (lowest, highest), each "
            "a number or one number per feature, or one number that bounds the norm of a row"
        )
    low, high = array
    if not (low < high).all():
        column = int(np.flatnonzero(low >= high)[0])
        raise InvalidInput(
            f"bounds of feature {column} are ({low[column]:g}, {high[column]:g}): the lowest value "
            "must lie below the highest"
        )
    # Zero stays zero where the range holds it, so that sparse rows stay short.
    shift = np.where(low > 0, low, np.where(high < 0, high, 0.0))
    if centred != "none":
        shift = np.where((shift != 0) | (centred == "all"), (low + high) / 2, shift)
    if centres is not None:
        shift = np.array([s if c is None else c for s, c in zip(shift, centres, strict=True)])
    return UnitScaling(shift, np.maximum(np.abs(low - shift), np.abs(high - shift)), None)


def warn_of_clipped_rows(rows: np.ndarray, bounds: Any, party: str) -> None:
    """Tell whoever holds these rows (n, d) how many the public bounds clip."""
    if bounds is None:
        return
    array = np.asarray(bounds, dtype=float)
    if array.ndim == 0:
        lengths = np.linalg.norm(rows, axis=1)
        warn_of_clipping(lengths, 0.0, float(array), f"lengths of rows of party {party}")
        return
    lows, highs = (np.broadcast_to(side, rows.shape[1:]) for side in array)
    for number, (low, high) in enumerate(zip(lows, highs, strict=True)):
        what = f"values of feature {number} of party {party}"
        warn_of_clipping(rows[:, number], low, high, what)


@dataclass(frozen=True)
class Targets:
    """Targets y as t = (y - centre) / half, clipped to [-1, 1]; of a range that was `paid` for, it
    is known that some lie outside."""

    centre: float
    half: float
    paid: bool = False

    @property
    def bounds(self) -> tuple[float, float]:
        return self.centre - self.half, self.centre + self.half

    def scaled(self, y: np.ndarray) -> np.ndarray:
        if not self.paid:
            warn_of_clipping(y, self.centre - self.half, self.centre + self.half, "targets")
        return np.clip((y - self.centre) / self.half, -1.0, 1.0)


def target_scaling(bounds: Any) -> Targets:
    """The scaling of targets that their public (lowest, highest) define."""
    try:
        low, high = (-1.0, 1.0) if bounds is None else bounds
        fine = math.isfinite(low) and math.isfinite(high) and low < high
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise InvalidInput(f"target_bounds = {bounds!r}: give the public (lowest, highest) target")
    return Targets((low + high) / 2, (high - low) / 2)


__all__ = ["Targets", "UnitScaling", "scaling", "target_scaling", "warn_of_clipped_rows"]
