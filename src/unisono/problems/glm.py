"""Generalised linear models: what is asked, and what one record says about it.

    E[y | x] = μ(η),   Var[y | x] = φ v(η),   η = β₀ + β·x + offset

    binomial   μ = 1 / (1 + e^-η)   v = μ (1 - μ)    odds ratios      y is 0 or 1
    gaussian   μ = η                v = σ²           differences      y in public bounds
    poisson    μ = e^η              v = μ + α μ²     rate ratios      y counts, to a public bound

A record speaks through its Pearson residual r = (y - μ) / sqrt(v), which is bounded and centred:

    ψ(r) - a(η),     ψ(r) = r for the binomial, else max(-k, min(k, r)),     a(η) = E ψ(r)

so that its expectation at the true β is zero, whatever weight of x alone it is given (Mallows'
weights; Künsch, Stefanski and Carroll 1989). Under the gaussian a = 0, and errors that are not
symmetric move the intercept alone, as long as their law does not depend on x: the algorithm puts
that right by a wider mean of residuals. Counts often spread wider than the Poisson law: r and a(η)
are those of the negative binomial one, v = μ + α μ², whose α is 0 at first and then follows from
how widely residuals were seen to scatter. α has a part in weights and centres alone; errors are
those of the sandwich, whatever law counts follow.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from unisono.errors import InvalidInput

FAMILIES = ("binomial", "gaussian", "poisson")
# Probabilities and means are kept so far from their ends: a residual is bounded there.
_LEAST_CHANCE, _LEAST_MEAN = 1e-3, 6e-3
# How far residuals count in the mean that sets the intercept of a line, in deviations.
WIDE = 8.0


# What counts may vary by beyond the Poisson law, α of v = μ + α μ².
DISPERSIONS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)


class Said(NamedTuple):
    """What records say at the scores η: ∂μ/∂η / sqrt(v) (n,), bounded residuals ψ - a (n,), the
    slopes b of E[ψ] over that root (n,), and the largest |ψ - a| over all y (n,)."""

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
    `offset` those of the offset, if there is one. Weights are shares in [0, 1] of the largest."""

    family: str
    columns: tuple[Columns, ...]
    target: tuple[float, float]
    offset: tuple[float, float] | None = None
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
        """What records say; `spread` is σ of the gaussian and α of counts, `bend_at` is k."""
        return _SAID[self.family](scores, y, spread, bend_at, self.target)

    def scatter(self, mean: float, bend_at: float) -> np.ndarray:
        """The mean square of bounded residuals over their slope, for counts of this mean: by the α
        that they were computed with, and by the true one (both as `DISPERSIONS`)."""
        log_mean = _counts_table(0.0, bend_at, self.target[1]).log_mean
        place = int(np.argmin(np.abs(log_mean - math.log(mean))))
        return _scatter(math.exp(log_mean[place]), bend_at)

    def reach(self, mean: float, bend_at: float) -> float:
        """The largest |ψ - a| of a record whose mean is this."""
        if self.family == "gaussian":
            return bend_at
        if self.family == "binomial":
            return max(mean, 1 - mean) / math.sqrt(mean * (1 - mean))
        table = _counts_table(0.0, bend_at, self.target[1])
        return float(np.interp(math.log(mean), table.log_mean, table.reach))

    def slope(self, mean: float, bend_at: float) -> float:
        """b of a count whose mean is this."""
        table = _counts_table(0.0, bend_at, self.target[1])
        return float(np.interp(math.log(mean), table.log_mean, table.slope))

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
    tables = [_counts_table(alpha, bend_at, target[1]) for alpha in DISPERSIONS]
    grid = tables[0].log_mean.astype(np.float32)
    log_mean = jnp.clip(scores, grid[0], grid[-1])
    mean = jnp.exp(log_mean)
    deviation = jnp.sqrt(mean * (1 + spread * mean))

    def at(values: list[np.ndarray]) -> Any:
        """Between two dispersions, then between two means."""
        stacked = jnp.asarray(np.stack(values), jnp.float32)
        place = jnp.interp(spread, jnp.asarray(DISPERSIONS), jnp.arange(len(DISPERSIONS)) * 1.0)
        below = jnp.clip(jnp.floor(place).astype(jnp.int32), 0, len(DISPERSIONS) - 2)
        share = place - below
        mixed = (1 - share) * stacked[below] + share * stacked[below + 1]
        return jnp.interp(log_mean, grid, mixed)

    residual = jnp.clip((y - mean) / deviation, -bend_at, bend_at)
    centre, slope = at([t.centre for t in tables]), at([t.slope for t in tables])
    # Whatever the centre is, no bounded residual is farther from it than this.
    reach = jnp.maximum(bend_at - centre, centre + jnp.minimum(bend_at, mean / deviation))
    return Said(mean / deviation, residual - centre, slope, reach)


_SAID: dict[str, Callable[..., Said]] = {
    "binomial": _binomial,
    "gaussian": _gaussian,
    "poisson": _poisson,
}


class _CountsTable(NamedTuple):
    """a, b and the reach of bounded residuals of counts, over the logarithm of their mean."""

    log_mean: np.ndarray
    centre: np.ndarray
    slope: np.ndarray
    reach: np.ndarray


@lru_cache(maxsize=64)
def _counts_table(alpha: float, bend_at: float, largest: float) -> _CountsTable:
    """a = E ψ and b = E ψ r, since ∂ log f / ∂η is r times the root. Counts stop at a public bound
    in the data, here they go on: that is the model."""
    log_mean = np.linspace(math.log(_LEAST_MEAN), math.log(max(largest, 2.0)), 240)
    mean = np.exp(log_mean)[:, None]
    chances, residuals = _law(mean, alpha, alpha)
    bounded = np.clip(residuals, -bend_at, bend_at)
    # Beyond the counts that are listed ψ is k, and r has what is left of its mean, zero.
    centre = (chances * bounded).sum(axis=1) + bend_at * (1 - chances.sum(axis=1))
    slope = (chances * bounded * residuals).sum(axis=1)
    slope -= bend_at * (chances * residuals).sum(axis=1)
    below = np.minimum(bend_at, np.sqrt(mean / (1 + alpha * mean))[:, 0])
    return _CountsTable(log_mean, centre, slope, np.maximum(bend_at - centre, below + centre))


def _law(mean: np.ndarray, alpha: float, true: float) -> tuple[np.ndarray, np.ndarray]:
    """Chances of counts by the law of `true`, and their residuals by that of `alpha`."""
    top = float(np.max(mean))
    counts = np.arange(0, math.ceil(top + 8 * math.sqrt(top * (1 + true * top)) + 20))[None, :]
    if true == 0:
        logs = xlogy(counts, mean) - mean - gammaln(counts + 1)
    else:
        size = 1 / true
        logs = gammaln(counts + size) - gammaln(size) - gammaln(counts + 1)
        logs = logs + xlogy(counts, true * mean) - xlog1py(counts + size, true * mean)
    return np.exp(logs), (counts - mean) / np.sqrt(mean * (1 + alpha * mean))


@lru_cache(maxsize=512)
def _scatter(mean: float, bend_at: float) -> np.ndarray:
    """`GeneralizedLinear.scatter` at a mean of its grid."""
    found = np.array(
        [
            [_moments(mean, assumed, true, bend_at) for true in DISPERSIONS]
            for assumed in DISPERSIONS
        ]
    )
    found = np.maximum.accumulate(found, axis=1)
    found.setflags(write=False)
    return found


def _moments(mean: float, assumed: float, true: float, bend_at: float) -> float:
    """E (ψ - a)² / b of residuals of one dispersion, where counts have another one."""
    one = np.array([[mean]])
    chances, residuals = _law(one, assumed, true)
    usual, own = _law(one, assumed, assumed)
    bounded, expected = (np.clip(r, -bend_at, bend_at) for r in (residuals, own))
    centre = (usual * expected).sum() + bend_at * (1 - usual.sum())
    slope = (usual * expected * own).sum() - bend_at * (usual * own).sum()
    square = (chances * (bounded - centre) ** 2).sum()
    return float((square + (bend_at - centre) ** 2 * (1 - chances.sum())) / slope)


__all__ = ["DISPERSIONS", "FAMILIES", "WIDE", "Columns", "GeneralizedLinear", "Said"]
