"""Counts and sums of one party's records in doubles and 64-bit integers, outside of programs.

CountedCells    how many records lie in each of some public cells      one record moves one by 1
ColumnSums      Σ over records of round(value / step), by column       one record: its largest value
MomentSums      how many are there, Σ of a = round(value / step), a²   replaced: as far as Σ a alone

`ExactSum` is the method of a study that releases one of them once: priced like every other release,
and run by `engines.one_round`.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unisono.core.algorithm import Aggregate, Facts, PricedAlgorithm, SumTerms
from unisono.core.events import Event, bounded_sum
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Distance, Sensitivity, positive
from unisono.core.trust import Trust, Unit
from unisono.core.values import _BOUNDED_ONLY, Contribution
from unisono.errors import InvalidInput
from unisono.releases.release import Release, price, record_terms

# Bounded values are rounded to 2^-20 of their range; the rounding is in the sensitivity.
STEPS_IN_RANGE = 2**20
# Records that are added up at a time: so few that all passes over them stay in the cache.
_BLOCK = 2**16


@dataclass(frozen=True)
class CountedCells:
    """How many records lie in each cell. `raw`: cell numbers (n,), anything else lies in none.

    One record is in one cell: all norms are 1, and replacing it touches two cells, if there are so
    many.
    """

    dimension: int
    unit = Unit.RECORD
    whole = False
    batched = False
    in_graph = False
    pure = "laplace"

    def __post_init__(self) -> None:
        positive(dimension=self.dimension)

    def steps(self, release: Release, facts: Facts, privacy: Privacy) -> Iterator[float]:
        yield 1.0

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        once = Distance(l1=1.0, l2=1.0, linf=1.0)
        moved = Distance(l1=2.0, l2=math.sqrt(2), linf=1.0) if self.dimension > 1 else once
        return Sensitivity(Unit.RECORD, moved, once, once)

    def sum_bound(self, release: Release, facts: Facts, privacy: Privacy) -> float:
        return float(sum(facts.records))

    def terms(self, facts: Facts, privacy: Privacy, step: float) -> SumTerms:
        return record_terms(self, facts, privacy, step)._replace(low=0.0)

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, None]:
        inside = mask & (raw >= 0) & (raw < self.dimension)
        counts = np.bincount(raw[inside], minlength=self.dimension)
        bound = self.sensitivity(facts, privacy, step)
        return Contribution(counts, step, bound, maker=_BOUNDED_ONLY), None


@dataclass(frozen=True)
class ColumnSums:
    """Sums of columns whose entries are about `largest` at most. `raw`: rows (n, dimension).

    A record adds to each sum a whole number of steps. It is made of that record alone and clipped
    to ±m, m = ceil(largest / step), *after* all arithmetic in doubles: whatever centring, dividing
    and rounding did, a record alone moves each sum by at most m steps, which is what is stated. A
    row that is not finite adds zero. Rows may also be made as they are read (`BoundedRows`).
    """

    largest: float
    dimension: int = 1
    unit = Unit.RECORD
    whole = False
    batched = False
    in_graph = False
    pure = "laplace"

    def __post_init__(self) -> None:
        positive(largest=self.largest, dimension=self.dimension)

    def steps(self, release: Release, facts: Facts, privacy: Privacy) -> Iterator[float]:
        yield 2.0 ** math.floor(math.log2(self.largest / STEPS_IN_RANGE))

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        entry, columns = self._most(step) * step, self.dimension
        return bounded_sum(l1=entry * columns, l2=entry * math.sqrt(columns), linf=entry)

    def sum_bound(self, release: Release, facts: Facts, privacy: Privacy) -> float:
        step = next(self.steps(release, facts, privacy))
        return self._most(step) * step * sum(facts.records)

    def terms(self, facts: Facts, privacy: Privacy, step: float) -> SumTerms:
        return record_terms(self, facts, privacy, step)

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, None]:
        total = np.zeros(self.dimension, np.int64)
        for start in range(0, len(raw), _BLOCK):
            own = slice(start, start + _BLOCK)
            total += self._added(raw[own], mask[own], step)
        bound = self.sensitivity(facts, privacy, step)
        return Contribution(total, step, bound, maker=_BOUNDED_ONLY), None

    def _added(self, rows: np.ndarray, mask: np.ndarray, step: float) -> np.ndarray:
        """The sums of one block, in steps. Doubles add up whole numbers without error as long as
        no sum reaches 2^53; a block's stay below 2^16 records x (2^21 + 1) steps."""
        most = self._most(step)
        steps = np.divide(rows.T, step, order="C")
        np.rint(steps, out=steps)
        # Where all lie within ±m, clipping would change nothing; NaN lies nowhere.
        if not (mask.all() and steps.min() >= -most and steps.max() <= most):
            steps[:, ~(np.isfinite(rows).all(axis=1) & mask)] = 0.0
            steps = np.clip(steps, -most, most)
        return steps.sum(axis=1).astype(np.int64)

    def _most(self, step: float) -> int:
        return math.ceil(self.largest / step)


@dataclass(frozen=True)
class MomentSums(ColumnSums):
    """Sums of c = round(`presence` m), where that is not 0, of a, a column of `ColumnSums`, and
    with `squares` of b = round(√2 (a² / m - 3 m / 4)), in steps; a missing value adds zeros.

    b is made of the whole number a in [-m, m]. Two records with t = |a + a'| and d = |a - a'|,
    t + d <= 2m, have distance² at most d² + (√2 t d / m + 1)², the 1 for two roundings, and d² if
    t = 0, as b is even in a. For t >= 1, with x = t / m,

        4m² - d² (1 + 2x²)  >=  m² x (4 - 9x + 8x² - 2x³)  >=  0.89 t m
        2√2 t d / m + 1     <=  4√2 t + 1                  <=  6.7 t

    so that from m = 8 on (it is 2^20 at least) replacing a value moves a and b together by 2m in
    l2, as far as a alone; both have the same c. A record alone has l2² = c² + m² (2u⁴ - 2u² + 9/8),
    with rounding at most c² + (3m / √8 + 1)², and so has one whose value is replaced by a missing
    one. With c = 3m/2 that is below 4m²: under Gaussian noise and replace-one neither the squares
    nor the count have a privacy cost. In l1 a record alone has at most c + m without squares: with
    c = m no more than the 2m of two values, so the count has no cost under Laplace noise either.
    """

    squares: bool = True
    presence: float = 0.0
    dimension: int = 0

    def __post_init__(self) -> None:
        sums = 1 + self.squares + bool(self.presence)
        if self.dimension not in (0, sums) or not 0 <= self.presence <= 2:
            raise InvalidInput(
                f"dimension = {self.dimension}, presence = {self.presence}: these are {sums} sums, "
                "and a presence weighs 0 to 2"
            )
        object.__setattr__(self, "dimension", sums)
        super().__post_init__()

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        most, count = self._most(step), self._count(step)
        moments = 3 * most / math.sqrt(8.0) + 1 if self.squares else most
        root = math.sqrt(2.0) if self.squares else 1.0
        once = (count + moments * root, math.hypot(count, moments), max(count, moments))
        # |b - b'| <= √2 m + 1, as √2 u² lies in [0, √2]; l1 <= √2 l2.
        values = (2.0 * most * root, 2.0 * most, 2.0 * most)
        replaced = map(max, once, values)
        return Sensitivity(
            Unit.RECORD,
            Distance(*(step * n for n in replaced)),
            *[Distance(*(step * n for n in once))] * 2,
        )

    def sum_bound(self, release: Release, facts: Facts, privacy: Privacy) -> float:
        step = next(self.steps(release, facts, privacy))
        largest = max(1.5 / math.sqrt(2.0) * self._most(step) + 1, self._count(step))
        return largest * step * sum(facts.records)

    def _added(self, rows: np.ndarray, mask: np.ndarray, step: float) -> np.ndarray:
        """As before; blocks' sums stay below 2^16 x (2 x 2^21 + 1) steps."""
        most = self._most(step)
        own = np.isfinite(rows[:, 0]) & mask
        first = np.clip(np.rint(rows[own, 0] / step), -most, most)
        sums = [np.count_nonzero(own) * self._count(step)] if self.presence else []
        sums.append(first.sum())
        if self.squares:
            sums.append(np.rint(math.sqrt(2.0) * (first * first / most - 0.75 * most)).sum())
        return np.array(sums).astype(np.int64)

    def _count(self, step: float) -> int:
        """What a value that is there adds to the count, in steps."""
        return round(self.presence * self._most(step))

    def scales(self, step: float) -> tuple[float, float]:
        """What one value that is there adds to the count, and what u = 1 stands for: m steps."""
        return self._count(step) * step, self._most(step) * step


@dataclass(frozen=True)
class BoundedRows:
    """Rows (n, 1) of `values` (n,), each clipped to public bounds and less a public `centre`. NaN
    stands for what cannot be read.

    They are made slice by slice, each of its own record alone, so that ten million of them are
    never in memory at once.
    """

    values: np.ndarray
    bounds: tuple[float, float]
    centre: float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.values), 1

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, own: slice) -> np.ndarray:
        rows = np.clip(self.values[own], *self.bounds)
        rows -= self.centre
        return rows[:, None]


@dataclass(frozen=True)
class ExactSum:
    """One noisy release of one party's counts or sums; its result is the noisy array.

    `asked` is what is agreed on besides the bound and the promise: public, plain JSON, and part of
    the study's hash. A party's data is one array, as the bound reads it. The noise is all of the
    party's own (trust LOCAL), for there is nobody to share it with.
    """

    name: str
    bound: CountedCells | ColumnSums
    privacy: Privacy
    asked: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if type(self.bound) not in (CountedCells, ColumnSums, MomentSums):
            raise InvalidInput(
                f"a sum with the bound {type(self.bound).__name__}: bounds carry proofs and are a "
                "closed set; use CountedCells, ColumnSums or MomentSums"
            )

    def bind(self, facts: Facts, trust: Trust) -> PricedAlgorithm:
        """The release as engines run it, priced for one study."""
        bound, privacy = self.bound, self.privacy
        release = Release(bound, trusts=frozenset({Trust.LOCAL}))
        priced = price(release, privacy, facts, trust)

        def event(others: Facts, elsewhere: Trust) -> Event:
            if (others, elsewhere) != (facts, trust):
                raise InvalidInput(
                    f"{self.name} was priced for other facts or another trust: make a study of "
                    "the method itself"
                )
            return priced.event

        def local(_: Facts, public: Any, own: Any, data: Any, mask: Any) -> tuple[Any, Any]:
            return own, bound.integers(facts, privacy, priced.step, data[0], mask)[0]

        def merge(state: Any, sums: Aggregate) -> Any:
            return sums.total

        return PricedAlgorithm(
            name=self.name,
            settings={
                "privacy": privacy.to_json(),
                "bound": {"kind": type(bound).__name__, **asdict(bound)},
                **dict(self.asked),
            },
            trusts=release.trusts,
            combine="sum",
            rounds=release.rounds,
            grid=lambda *_: priced.step,
            event=event,
            init=lambda _: (np.zeros(bound.dimension), None),
            ask=lambda state: (),
            local=local,
            settle=lambda own, accepted: own,
            merge=merge,
            result=lambda state: state,
            reach=lambda _: bound.sum_bound(release, facts, privacy),
            terms=bound.terms(facts, privacy, priced.step),
            privacy=privacy,
            dimension=bound.dimension,
        )


__all__ = ["STEPS_IN_RANGE", "BoundedRows", "ColumnSums", "CountedCells", "ExactSum", "MomentSums"]
