"""Generalised linear models: what is asked, and what one record says about it.

    E[y | x] = μ(η),   Var[y | x] = φ v(η),   η = β₀ + β·x + offset

    binomial   μ = 1 / (1 + e^-η)   v = μ (1 - μ)    odds ratios      y is 0 or 1
    gaussian   μ = η                v = σ²           differences      y in public bounds
    poisson    μ = e^η              v = μ            rate ratios      y counts, to a public bound

A record speaks through its Pearson residual r = (y - μ) / sqrt(v), which is bounded and centred:

    ψ(r) - a(η),     ψ(r) = r for the binomial, else max(-k, min(k, r)),     a(η) = E ψ(r)

so that its expectation at the true β is zero, whatever weight of x alone it is given (Mallows'
weights; Künsch, Stefanski and Carroll 1989). Under the gaussian a = 0, and errors that are not
symmetric move the intercept alone, as long as their law does not depend on x: the algorithm puts
that right by a wider mean of residuals. Under the Poisson law a(η) is computed; counts that spread
wider than it (quasi-Poisson, negative binomial) leave ψ - a nearly centred and are counted in by
the sandwich.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.stats import poisson as poisson_law

from unisono.errors import InvalidInput

FAMILIES = ("binomial", "gaussian", "poisson")
# Probabilities and means are kept so far from their ends: a residual is bounded there.
_LEAST_CHANCE, _LEAST_MEAN = 1e-3, 6e-3
# How far residuals count in the mean that sets the intercept of a line, in deviations.
WIDE = 8.0


class Said(NamedTuple):
    """What records say at the scores η: sqrt(v) (n,), bounded residuals ψ - a (n,), their slopes
    b = -∂E[ψ] / ∂η / sqrt(v) (n,) and the largest |ψ - a| over all y (n,)."""

    root: Any
    residual: Any
    slope: Any
    reach: Any


class Columns(NamedTuple):
    """Features that belong together: one number in [-1, 1], or 0 and 1 for each value of a
    category but the first, which is the reference."""

    name: str
    width: int
    number: bool


@dataclass(frozen=True)
class GeneralizedLinear:
    """The problem. Records are rows (features, y, offset, weight) of floats; numbers lie in
    [-1, 1] and so does y of the gaussian. `target` are the ends of y as it stands there. Weights
    are shares in [0, 1] of the largest one."""

    family: str
    columns: tuple[Columns, ...]
    target: tuple[float, float]
    offset: bool = False
    weighted: bool = False

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise InvalidInput(
                f"family = {self.family!r}: choose one of {', '.join(FAMILIES)}; counts that "
                "spread wider than the Poisson law are poisson too, with robust errors"
            )

    @property
    def features(self) -> int:
        return sum(one.width for one in self.columns)

    @property
    def width(self) -> int:
        """Numbers of a record's row."""
        return self.features + 1 + self.offset + self.weighted

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
            "columns": [[one.name, one.width, one.number] for one in self.columns],
            "target": list(self.target),
            "offset": self.offset,
            "weighted": self.weighted,
        }

    def parts(self, rows: Any) -> tuple[Any, Any, Any, Any]:
        """Features (n, d), y (n,), offset (n,) and weight (n,) of rows."""
        d = self.features
        place = iter(range(d + 1, rows.shape[1]))
        offset = rows[:, next(place)] if self.offset else jnp.zeros_like(rows[:, d])
        weight = rows[:, next(place)] if self.weighted else jnp.ones_like(rows[:, d])
        return rows[:, :d], rows[:, d], offset, jnp.clip(weight, 0.0, 1.0)

    def said(self, scores: Any, y: Any, spread: Any, bend_at: float) -> Said:
        """What records say; `spread` is σ of the gaussian, `bend_at` is k."""
        return _SAID[self.family](scores, y, spread, bend_at, self.target)

    def reach(self, mean: float, bend_at: float) -> float:
        """The largest |ψ - a| of a record whose mean is this."""
        if self.family == "gaussian":
            return bend_at
        if self.family == "binomial":
            return max(mean, 1 - mean) / math.sqrt(mean * (1 - mean))
        table = _poisson_table(bend_at, self.target[1])
        return float(np.interp(math.log(mean), table.log_mean, table.reach))

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
        return min(max(mean, 0.1), self.target[1])


def _binomial(scores: Any, y: Any, spread: Any, bend_at: float, target: Any) -> Said:
    chance = 1 / (1 + jnp.exp(-jnp.clip(scores, -30.0, 30.0)))
    chance = jnp.clip(chance, _LEAST_CHANCE, 1 - _LEAST_CHANCE)
    root = jnp.sqrt(chance * (1 - chance))
    reach = jnp.maximum(chance, 1 - chance) / root
    return Said(root, (y - chance) / root, jnp.ones_like(chance), reach)


def _gaussian(scores: Any, y: Any, spread: Any, bend_at: float, target: Any) -> Said:
    residual = (y - scores) / spread
    inside = jnp.where(jnp.abs(residual) < bend_at, 1.0, 0.0)
    ones = jnp.ones_like(residual)
    return Said(ones, jnp.clip(residual, -bend_at, bend_at), inside, bend_at * ones)


def _poisson(scores: Any, y: Any, spread: Any, bend_at: float, target: Any) -> Said:
    table = _poisson_table(bend_at, target[1])
    log_mean = jnp.clip(scores, table.log_mean[0], table.log_mean[-1])
    root = jnp.exp(log_mean / 2)
    centre, slope, reach = (
        jnp.interp(log_mean, table.log_mean.astype(np.float32), values.astype(np.float32))
        for values in (table.centre, table.slope, table.reach)
    )
    residual = jnp.clip((y - root * root) / root, -bend_at, bend_at) - centre
    return Said(root, residual, slope, reach)


_SAID: dict[str, Callable[..., Said]] = {
    "binomial": _binomial,
    "gaussian": _gaussian,
    "poisson": _poisson,
}


class _Table(NamedTuple):
    """a, b and the reach of bounded residuals under the Poisson law, over the logarithm of its
    mean."""

    log_mean: np.ndarray
    centre: np.ndarray
    slope: np.ndarray
    reach: np.ndarray


@lru_cache(maxsize=16)
def _poisson_table(bend_at: float, largest: float) -> _Table:
    """a = E ψ and b = E ψ r, since ∂ log f / ∂η = y - μ. Counts stop at a public bound in the
    data, here they go on: that is the model."""
    log_mean = np.linspace(math.log(_LEAST_MEAN), math.log(max(largest, 2.0)), 400)
    mean = np.exp(log_mean)[:, None]
    counts = np.arange(0, math.ceil(largest + 10 * math.sqrt(largest) + 20))[None, :]
    chances = poisson_law.pmf(counts, mean)
    residuals = (counts - mean) / np.sqrt(mean)
    bounded = np.clip(residuals, -bend_at, bend_at)
    centre = (chances * bounded).sum(axis=1)
    slope = (chances * bounded * residuals).sum(axis=1)
    below = np.minimum(bend_at, np.sqrt(mean[:, 0]))
    return _Table(log_mean, centre, slope, np.maximum(bend_at - centre, below + centre))


__all__ = ["FAMILIES", "WIDE", "Columns", "GeneralizedLinear", "Said"]
