"""The rows that tables add up: what is made of one record's values, and how far apart two may be.

With u in [-1, 1] and z in the unit ball of R^d, the rows and their bounds (one record alone; the
distance of two records) are

    Ones            1                     alone 1                  within 0
    Interval        x in [low, low + w]   alone max |end|          within w
    PlacedOne       (1, f - 1/2)          alone l1 3/2             within 1
                                                l2 √5/2
    Moments         (u, √2 (u² - 3/4))    alone l1 1 + √2/4        within l1 √2 (1 + √2/4)²
                                                l2 3/√8                   l2 2
    BallPoint       (1, z), or z          alone l1 1 + √d, √d      within l1 2 √d
                                                l2 √2, 1                  l2 2
    OuterProduct    z zᵀ, packed          alone l1 1 + (d-1)/√2    within l1 twice that
                                                l2 1                      l2 √2

Placed ones: f in [0, 1], so that |f - 1/2| <= 1/2 and |f - f'| <= 1, and the ones cancel. Where a
record moves to another cell it moves the sums by √2 √5/2 = sqrt(5/2) in l2, which exceeds 1.

Moments: with s = |u + v|, d = |u - v| and s + d <= 2 the distance is d (1 + √2 s) in l1, largest
at d = 1 + √2/4, and d sqrt(1 + 2 s²) in l2, which falls in s, so it is largest at s = 0: the second
moment is free under Gaussian noise and replace-one. A row alone has l2² = 2u⁴ - 2u² + 9/8.

Outer products: the upper triangle of z zᵀ with √2 on the off-diagonal, so that Euclidean distance
of these vectors is Frobenius distance of the matrices:

    alone     |z zᵀ|_F = |z|² <= 1
    replaced  |z zᵀ - y yᵀ|_F² = |z|⁴ + |y|⁴ - 2 (z·y)² <= 2
    l1        sum z_i² + √2 sum_{i<j} |z_i z_j| <= 1 + (d - 1) / √2,  since
              2 sum_{i<j} |z_i z_j| <= (d - 1) |z|²; twice that when replaced

    ScoredPoint     (a₁ v / √2, a₂ z zᵀ, a₃ y yᵀ)  alone l2 1              within l2 √2

Scored points: v, z and y in unit balls, a >= 0 with |a| <= 1, and all of them may differ by record.
With inner products of outer products never negative, and those of v and v' at least -1,

    |r - r'|² <= |r|² + |r'|² + a₁ a₁'  <=  (1 - a₁²/2) + (1 - a₁'²/2) + a₁ a₁'
              =  2 - (a₁ - a₁')² / 2    <=  2

so that a round may weigh a gradient against curvatures as it pleases. In the place of z zᵀ there
may be a sum of several outer products, z₁ z₁ᵀ + z₂ z₂ᵀ + ..., with (z₁, z₂, ...) in the unit ball:
its Frobenius norm is |z₁|² + |z₂|² + ... <= 1 at most, and inner products of such sums are sums of
squares, so that nothing else changes; likewise in the place of y yᵀ.

Where sizes are hidden, values may be missing, or there are groups, a number c precedes the row
(`sized`, 1 for points), so that the noisy size is released in the same event. It adds c to l1 and
c² to l2², and nothing to the distance of two rows. A missing value makes a row of zeros, so
replacing a record moves the sum by the distance of two rows or by one row alone, whichever is
larger:

    Moments, c = 3/2    alone l2² <= 9/4 + 9/8 = 27/8 < 4        the size has no privacy cost
    Moments, c = 1      alone l1  <= 1 + 1 + √2/4 = 2.35 < 2.59  likewise
    without the square  alone l1  <= 1 + 1 = 2                   likewise

Every kind moves whatever it is given into its domain, so its bounds hold for any values. A value
that is not finite makes its row not finite, which a table leaves out. Numbers that are `exact` are
multiples of 1 / `multiple`, which rounding does not move: ends of their range are such multiples
too, and a kind of whole values rounds them first.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np

from unisono.core.sensitivity import positive
from unisono.errors import InvalidInput

_ROOT = math.sqrt(2.0)
_FAR = 1 + _ROOT / 4


@dataclass(frozen=True)
class Size:
    """A bound in l1 and in l2."""

    l1: float
    l2: float

    def of(self, pure: bool) -> float:
        """The norm that the noise is in proportion to: Laplace for pure epsilon, else Gaussian."""
        return self.l1 if pure else self.l2


Range = tuple[float, float]
_COUNT: Range = (0.0, 1.0)


class Rows(Protocol):
    """A kind of row: `limit` bounds each of its numbers, `ranges` each from below and above (zero
    included: a row that is left out counts zero), `alone` a row, `within` the distance of two."""

    @property
    def exact(self) -> tuple[bool, ...]: ...

    @property
    def multiple(self) -> int: ...

    @property
    def limit(self) -> float: ...

    @property
    def ranges(self) -> tuple[Range, ...]: ...

    @property
    def alone(self) -> Size: ...

    @property
    def within(self) -> Size: ...

    def of(self, values: Any) -> Any:
        """The rows (n, numbers) of these values (n, ...)."""
        ...


@dataclass(frozen=True)
class Ones:
    """1 for each record that has a value."""

    exact = (True,)
    multiple = 1
    limit = 1.0
    ranges = (_COUNT,)
    alone = Size(1.0, 1.0)
    within = Size(0.0, 0.0)

    def of(self, values: Any) -> Any:
        return jnp.where(jnp.isfinite(values), 1.0, jnp.nan)[:, None]


@dataclass(frozen=True)
class PlacedOne:
    """1 for each record, and its place f in [0, 1] within its cell, centered: (1, f - 1/2).

    >>> PlacedOne().alone.l2, PlacedOne().within.l2
    (1.118033988749895, 1.0)
    """

    exact = (True, False)
    multiple = 1
    limit = 1.0
    ranges = (_COUNT, (-0.5, 0.5))
    alone = Size(1.5, math.sqrt(1.25))
    within = Size(1.0, 1.0)

    def of(self, values: Any) -> Any:
        return jnp.stack([jnp.ones_like(values), jnp.clip(values, 0.0, 1.0) - 0.5], axis=1)


@dataclass(frozen=True)
class Interval:
    """A number between `low` and `low + width`, at most 1 in size; `whole` ones, like the ends, are
    multiples of 1 / `multiple`.

    >>> Interval(0.5, 0.5).alone.l1, Interval(-1.0, 2.0).within.l2
    (1.0, 2.0)
    """

    low: float
    width: float
    whole: bool = False
    multiple: int = 1
    limit = 1.0

    def __post_init__(self) -> None:
        positive(width=self.width)
        _require_multiple(self.multiple)
        ends = (self.low, self.low + self.width)
        if self.whole and any(abs(_off(end, self.multiple)) > 1e-6 for end in ends):
            raise InvalidInput(
                f"whole numbers between {ends[0]:g} and {ends[1]:g}: the ends must be multiples of "
                f"1 / {self.multiple}, or rounding leaves the interval"
            )

    @property
    def exact(self) -> tuple[bool, ...]:
        return (self.whole,)

    @property
    def ranges(self) -> tuple[Range, ...]:
        return ((max(-1.0, min(0.0, self.low)), min(1.0, max(0.0, self.low + self.width))),)

    @property
    def alone(self) -> Size:
        far = min(1.0, max(abs(self.low), abs(self.low + self.width)))
        return Size(far, far)

    @property
    def within(self) -> Size:
        far = min(2.0, self.width)
        return Size(far, far)

    def of(self, values: Any) -> Any:
        bounded = jnp.clip(jnp.clip(values, self.low, self.low + self.width), -1.0, 1.0)
        return (_multiples(bounded, self.multiple) if self.whole else bounded)[:, None]


@dataclass(frozen=True)
class Moments:
    """u in [-1, 1] and, with `spread`, its square, after `sized` for each value that is there,
    where that is not 0; see the module. `multiple` is even where `sized` is a half."""

    spread: bool
    sized: float
    whole: bool = False
    multiple: int = 1

    def __post_init__(self) -> None:
        _require_multiple(self.multiple)
        if self.sized < 0 or _off(self.sized, self.multiple):
            raise InvalidInput(
                f"sized = {self.sized!r}: give a multiple of 1 / {self.multiple}, 0 or more"
            )

    @property
    def exact(self) -> tuple[bool, ...]:
        return (*[True] * bool(self.sized), self.whole, *[False] * self.spread)

    @property
    def limit(self) -> float:
        return max(self.sized, 1.5 / _ROOT if self.spread else 1.0)

    @property
    def ranges(self) -> tuple[Range, ...]:
        spread = (-0.75 * _ROOT, 0.25 * _ROOT)
        sizes = [(0.0, float(self.sized))] * bool(self.sized)
        return (*sizes, (-1.0, 1.0), *[spread] * self.spread)

    @property
    def alone(self) -> Size:
        alone = Size(_FAR, 3 / math.sqrt(8.0)) if self.spread else Size(1.0, 1.0)
        return Size(self.sized + alone.l1, math.hypot(self.sized, alone.l2))

    @property
    def within(self) -> Size:
        return Size(_ROOT * _FAR**2, 2.0) if self.spread else Size(2.0, 2.0)

    def of(self, values: Any) -> Any:
        u = jnp.clip(values, -1.0, 1.0)
        u = _multiples(u, self.multiple) if self.whole else u
        parts = [jnp.where(jnp.isfinite(u), float(self.sized), u)] if self.sized else []
        parts += [u] + ([_ROOT * (u * u - 0.75)] if self.spread else [])
        return jnp.stack(parts, axis=1)


@dataclass(frozen=True)
class BallPoint:
    """A point of the unit ball, preceded by 1 where it is `sized`."""

    dimension: int
    sized: bool = True
    multiple = 1
    limit = 1.0

    @property
    def exact(self) -> tuple[bool, ...]:
        return (*[True] * self.sized, *[False] * self.dimension)

    @property
    def ranges(self) -> tuple[Range, ...]:
        return (*[_COUNT] * self.sized, *[(-1.0, 1.0)] * self.dimension)

    @property
    def alone(self) -> Size:
        return Size(self.sized + math.sqrt(self.dimension), _ROOT if self.sized else 1.0)

    @property
    def within(self) -> Size:
        return Size(2 * math.sqrt(self.dimension), 2.0)

    def of(self, values: Any) -> Any:
        z = into_ball(jnp, values)
        return jnp.concatenate([_presence(z), z], axis=1) if self.sized else z


@dataclass(frozen=True)
class OuterProduct:
    """z zᵀ of a point of the unit ball, packed."""

    dimension: int
    sized: bool
    multiple = 1
    limit = 1.0

    @property
    def exact(self) -> tuple[bool, ...]:
        return (*[True] * self.sized, *[False] * (self.dimension * (self.dimension + 1) // 2))

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Squares on the diagonal, and √2 |z_i z_j| <= √2 / 2 beside it."""
        first, second = np.triu_indices(self.dimension)
        beside = (-_ROOT / 2, _ROOT / 2)
        packed = [_COUNT if same else beside for same in (first == second).tolist()]
        return (*[_COUNT] * self.sized, *packed)

    @property
    def alone(self) -> Size:
        return Size(self._l1 + self.sized, math.sqrt(1.0 + self.sized))

    @property
    def within(self) -> Size:
        return Size(2 * self._l1, _ROOT)

    @property
    def _l1(self) -> float:
        return 1 + (self.dimension - 1) / _ROOT

    def of(self, values: Any) -> Any:
        z = into_ball(jnp, values)
        if z.shape[1] != self.dimension:  # or indices beyond the end would repeat its last number
            raise InvalidInput(f"points of {z.shape[1]} numbers in rows of {self.dimension}")
        first, second = np.triu_indices(self.dimension)
        stretch = np.where(first == second, 1.0, _ROOT).astype(np.float32)
        products = z[:, first] * z[:, second] * stretch
        return jnp.concatenate([_presence(z), products], axis=1) if self.sized else products


@dataclass(frozen=True)
class ScoredPoint:
    """A vector v (`vector`,) and two outer products of points (`dimension`,), weighed by a (3,);
    see the module. Values are (v, z, y, a) of each record, side by side; z are `points` points,
    whose outer products are added up, and y are `others`."""

    vector: int
    dimension: int
    points: int = 1
    others: int = 1
    multiple = 1
    limit = 1.0

    @property
    def exact(self) -> tuple[bool, ...]:
        return (False,) * (self.vector + self.dimension * (self.dimension + 1))

    @property
    def ranges(self) -> tuple[Range, ...]:
        product = OuterProduct(self.dimension, sized=False).ranges
        return (*[(-1 / _ROOT, 1 / _ROOT)] * self.vector, *product, *product)

    @property
    def alone(self) -> Size:
        products = 2 * (1 + (self.dimension - 1) / _ROOT)
        return Size(math.sqrt(self.vector / 2) + products, 1.0)

    @property
    def within(self) -> Size:
        return Size(2 * self.alone.l1, _ROOT)

    def of(self, values: Any) -> Any:
        sizes = (self.vector, self.points * self.dimension, self.others * self.dimension)
        ends = np.cumsum(sizes)
        if values.shape[1] != ends[-1] + 3:
            raise InvalidInput(
                f"values of {values.shape[1]} numbers for scored points of {ends[-1] + 3}"
            )
        vector, one, other, weights = jnp.split(values, ends.tolist(), axis=1)
        weights = jnp.abs(into_ball(jnp, weights))
        product = OuterProduct(self.dimension, sized=False)

        def added(points: Any, number: int) -> Any:
            return sum(product.of(z) for z in jnp.split(into_ball(jnp, points), number, axis=1))

        first, second = added(one, self.points), added(other, self.others)
        parts = [into_ball(jnp, vector) / _ROOT, first, second]
        return jnp.concatenate(
            [weights[:, place, None] * part for place, part in enumerate(parts)], axis=1
        )


def unpacked(dimension: int, packed: Any, xp: Any = np) -> Any:
    """The symmetric matrix whose packed outer products were added up."""
    first, second = np.triu_indices(dimension)
    places = np.zeros((dimension, dimension), int)
    places[first, second] = places[second, first] = np.arange(len(first))
    stretch = np.where(np.eye(dimension, dtype=bool), 1.0, _ROOT)
    return xp.asarray(packed)[places] / stretch


def into_ball(xp: Any, points: Any) -> Any:
    """Points (n, d) moved into the unit ball, the same for NumPy and JAX."""
    norms = xp.sqrt(xp.sum(points * points, axis=1, keepdims=True))
    return points / xp.maximum(norms, 1.0)


def _require_multiple(multiple: int) -> None:
    if not isinstance(multiple, int) or multiple < 1:
        raise InvalidInput(f"multiple = {multiple!r}: a whole number, 1 or more")


def _off(end: float, multiple: int) -> float:
    return end * multiple - round(end * multiple)


def _multiples(values: Any, multiple: int) -> Any:
    return jnp.round(values * multiple) / multiple


def _presence(points: Any) -> Any:
    """1 for each point that is finite, (n, 1)."""
    return jnp.where(jnp.all(jnp.isfinite(points), axis=1), 1.0, jnp.nan)[:, None]


__all__ = [
    "BallPoint",
    "Interval",
    "Moments",
    "Ones",
    "OuterProduct",
    "PlacedOne",
    "Rows",
    "ScoredPoint",
    "Size",
    "into_ball",
    "unpacked",
]
