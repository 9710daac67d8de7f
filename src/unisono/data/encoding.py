"""From checked values to the rows and labels of a model, by the public schema.

Every column makes its own features (`columns`); interactions are products of the features of two.
Where a record misses what it needs all of its row is NaN: it teaches a model nothing at all, not
half. The public number of records stays what it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from unisono.data.columns import Feature, Number, NumericColumn
from unisono.data.scaling import Targets, UnitScaling, scaling, target_scaling
from unisono.data.schema import Schema

# Each column of a study as float64 (records,): numbers in their bounds, categories as places in
# their lists, NaN where a cell is missing.
Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Frame:
    """The columns that a model learns from: names (d,) and public ranges (d,)."""

    schema: Schema

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """All of them, with their public ranges."""
        own = {name: column.features(name) for name, column in self.schema.features.items()}
        made = [feature for features in own.values() for feature in features]
        for first, second in self.schema.interactions:
            made += [_product(a, b) for a in own[first] for b in own[second]]
        return tuple(made)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    def scaling(self, centred: str = "none") -> UnitScaling:
        """How rows come into the unit ball, by the public bounds."""
        low, high = zip(*(feature.bounds for feature in self.features), strict=True)
        return scaling((low, high), len(low), centred, [one.centre for one in self.features])

    @property
    def mean_square(self) -> float:
        """|u|² of a scaled row whose numbers are even over their ranges, and values alike often."""
        columns = self.schema.features
        products = (
            columns[first].mean_square * columns[second].mean_square
            for first, second in self.schema.interactions
        )
        return sum(column.mean_square for column in columns.values()) + sum(products)

    def rows(self, values: Values) -> np.ndarray:
        """One party's features (n, d), in their own units; NaN where a record is incomplete."""
        own = {name: column.encoded(values[name]) for name, column in self.schema.features.items()}
        columns = list(own.values())
        for first, second in self.schema.interactions:
            products = own[first][:, :, None] * own[second][:, None, :]
            columns.append(products.reshape(len(products), -1))
        return np.where(self._complete(values)[:, None], np.concatenate(columns, axis=1), np.nan)

    def _complete(self, values: Values) -> np.ndarray:
        """Which records miss nothing that they need (n,); a target is always needed."""
        needed = [
            np.isfinite(values[name])
            for name, column in self.schema.columns.items()
            if column.drops or name == self.schema.target
        ]
        size = len(next(iter(values.values())))
        return np.all(needed, axis=0) if needed else np.ones(size, bool)

    # --------------------------------------------------------- the target

    @property
    def target(self) -> str:
        assert self.schema.target is not None  # a study without one is refused
        return self.schema.target

    @property
    def classes(self) -> tuple[str, ...]:
        """The target's values; none where it is a number."""
        return self.schema.classes

    @property
    def targets(self) -> Targets:
        """The scaling of a number to [-1, 1]."""
        column = self.schema.columns[self.target]
        targets = target_scaling(column.span if isinstance(column, NumericColumn) else None)
        return replace(targets, paid=isinstance(column, Number) and column.released)

    def labels(self, values: Values, signed: bool) -> np.ndarray:
        """Places of classes, or -1 and +1 where two are `signed`; numbers in [-1, 1]; NaN where a
        record is incomplete."""
        own = np.where(self._complete(values), values[self.target], np.nan)
        if not self.classes:
            return self.targets.scaled(own)
        return 2 * own - 1 if signed else own


def _product(one: Feature, other: Feature) -> Feature:
    """The product of two features, whose range lies between products of their ends."""
    ends = [a * b for a in one.bounds for b in other.bounds]
    both = one.indicator and other.indicator
    return Feature(f"{one.name}:{other.name}", min(ends), max(ends), indicator=both)
