"""Generalised linear models: what is asked, and what one record says about it.

    E[y | x] = μ(η),   Var[y | x] = φ v(η),   η = β₀ + β·x + offset

    binomial   μ = 1 / (1 + e^-η)   v = μ (1 - μ)    odds ratios      y is 0 or 1
    gaussian   μ = η                v = σ²           differences      y in public bounds
    poisson    μ = e^η              v = μ            rate ratios      y counts, to a public bound

A record enters through its Pearson residual r = (y - μ) / sqrt(v), in one of three ways:

    bounded   r of the binomial, which ends by itself; of the gaussian max(-k, min(k, r)), whose
              slope is that of the mean if errors are symmetric given x
    wide      the product of r and the row's length is clipped, at a level that the algorithm finds
              from a released histogram: r itself may be long where x is usual. The estimand is the
              least-squares projection (gaussian), or the quasi-Poisson one (counts), whose
              expectation is zero whatever law y follows given x
    whole     as wide, but never clipped within the public bounds: a target with bounds 0 and 1

Each has a weight of x alone, which leaves the expectation at the true β zero if the mean model
holds (Mallows' weights; Künsch, Stefanski and Carroll 1989). Errors are those of the sandwich,
whatever the variance is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from unisono.errors import InvalidInput

FAMILIES = ("binomial", "gaussian", "poisson")
RESIDUALS = ("bounded", "wide", "whole")
# Probabilities and means are kept so far from their ends: a residual is bounded there.
_LEAST_CHANCE, _LEAST_MEAN = 1e-3, 3e-3
# How far residuals count in the mean that sets the intercept of a line, in deviations.
WIDE = 8.0


class Said(NamedTuple):
    """Terms of records at the scores η, (n,) each: ∂μ/∂η / sqrt(v), residuals ψ, bounded where they
    are to be, the slopes b of E[ψ] over that root, and the largest |ψ| over all y, which is
    infinite for residuals that are not bounded."""

    root: Any
    residual: Any
    slope: Any
    reach: Any


class Columns(NamedTuple):
    """Features that belong together: one number in [-1, 1], or 0 and 1 for each value of a
    category but the first, which is the reference. Where it is public how often each of these
    values occurs, `shares` say so."""

    name: str
    width: int
    number: bool
    shares: tuple[float, ...] | None = None


@dataclass(frozen=True)
class GeneralizedLinear:
    """The problem. Records are rows (features, y, offset, weight) of floats; numbers lie in
    [-1, 1] and so does y of the gaussian. `target` are the ends of y as it stands there, and
    `offset` those of the offset, if there is one. Weights are shares in [0, 1] of the largest.
    `residuals` are "bounded", "wide" or "whole", see the module."""

    family: str
    columns: tuple[Columns, ...]
    target: tuple[float, float]
    offset: tuple[float, float] | None = None
    weighted: bool = False
    residuals: str = "bounded"

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise InvalidInput(
                f"family = {self.family!r}: choose one of {', '.join(FAMILIES)}; counts that "
                "are overdispersed are poisson too, with robust errors"
            )
        if self.residuals not in RESIDUALS:
            raise InvalidInput(
                f"residuals = {self.residuals!r}: choose one of {', '.join(RESIDUALS)}"
            )

    @property
    def wide(self) -> bool:
        """Whether residuals are not bounded by themselves: those of counts never are, those of the
        binomial always."""
        return self.family == "poisson" or (
            self.family == "gaussian" and self.residuals != "bounded"
        )

    @property
    def features(self) -> int:
        return sum(one.width for one in self.columns)

    @property
    def width(self) -> int:
        """Numbers of a record's row."""
        return self.features + 1 + (self.offset is not None) + self.weighted

    @property
    def parameters(self) -> int:
        """Coefficients and the intercept, which comes first."""
        return 1 + self.features

    @property
    def numeric(self) -> np.ndarray:
        """Which features are numbers (d,)."""
        return np.repeat([c.number for c in self.columns], [c.width for c in self.columns])

    @property
    def agreed(self) -> dict[str, Any]:
        return {
            "family": self.family,
            "columns": [list(one if one.shares else one[:3]) for one in self.columns],
            "target": list(self.target),
            "offset": None if self.offset is None else list(self.offset),
            "weighted": self.weighted,
            "residuals": self.residuals,
        }

    def parts(self, rows: Any) -> tuple[Any, Any, Any, Any]:
        """Features (n, d), y (n,), offset (n,) and weight (n,) of rows."""
        d = self.features
        place = iter(range(d + 1, rows.shape[1]))
        offset = jnp.zeros_like(rows[:, d])
        if self.offset is not None:
            offset = jnp.clip(rows[:, next(place)], *self.offset)
        weight = rows[:, next(place)] if self.weighted else jnp.ones_like(rows[:, d])
        return rows[:, :d], rows[:, d], offset, jnp.clip(weight, 0.0, 1.0)

    def said(self, scores: Any, y: Any, spread: Any, bend_at: float) -> Said:
        """Terms of records; `spread` is σ of the gaussian, `bend_at` is k."""
        own = _SAID[self.family](scores, y, spread, self.target)
        if self.family != "gaussian" or self.wide:
            return own
        inside = jnp.where(jnp.abs(own.residual) < bend_at, 1.0, 0.0)
        bounded = jnp.clip(own.residual, -bend_at, bend_at)
        return own._replace(residual=bounded, slope=inside, reach=bend_at * own.slope)

    def reach(self, mean: float, bend_at: float) -> float:
        """The largest residual of a record whose mean is this; k where y does not bound it."""
        if self.family != "binomial":
            return bend_at
        return max(mean, 1 - mean) / math.sqrt(mean * (1 - mean))

    def link(self, mean: float) -> float:
        """The score of a mean."""
        if self.family == "gaussian":
            return mean
        return math.log(mean / (1 - mean)) if self.family == "binomial" else math.log(mean)

    def variance(self, mean: float) -> float:
        """v at a mean; σ² is 1 by itself."""
        if self.family == "gaussian":
            return 1.0
        return mean * (1 - mean) if self.family == "binomial" else mean

    def inside(self, mean: float, records: float) -> float:
        """A noisy mean of y, moved to where the family is defined and records can tell it from the
        end."""
        low = max(0.01, 1.0 / max(records, 1.0))
        if self.family == "gaussian":
            return min(max(mean, self.target[0]), self.target[1])
        if self.family == "binomial":
            return min(max(mean, low), 1 - low)
        return min(max(mean, 2.0 / max(records, 1.0), _LEAST_MEAN), self.target[1])


def _binomial(scores: Any, y: Any, spread: Any, target: Any) -> Said:
    chance = 1 / (1 + jnp.exp(-jnp.clip(scores, -30.0, 30.0)))
    chance = jnp.clip(chance, _LEAST_CHANCE, 1 - _LEAST_CHANCE)
    root = jnp.sqrt(chance * (1 - chance))
    reach = jnp.maximum(chance, 1 - chance) / root
    return Said(root, (y - chance) / root, jnp.ones_like(chance), reach)


def _gaussian(scores: Any, y: Any, spread: Any, target: Any) -> Said:
    ones = jnp.ones_like(scores)
    return Said(ones, (y - scores) / spread, ones, jnp.inf * ones)


def _poisson(scores: Any, y: Any, spread: Any, target: Any) -> Said:
    ends = math.log(_LEAST_MEAN) - 3.0, math.log(3 * max(target[1], 2.0))
    root, ones = jnp.exp(jnp.clip(scores, *ends) / 2), jnp.ones_like(scores)
    return Said(root, y / root - root, ones, jnp.inf * ones)


_SAID: dict[str, Callable[..., Said]] = {
    "binomial": _binomial,
    "gaussian": _gaussian,
    "poisson": _poisson,
}


__all__ = ["FAMILIES", "RESIDUALS", "WIDE", "Columns", "GeneralizedLinear", "Said"]
