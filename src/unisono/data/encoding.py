"""From checked values to the rows and labels of a model, by the public schema.

number      itself, scaled later by its public bounds
category    one column of 0 and 1 for each value but the first, which is the reference
missing     NaN: a record that misses anything teaches a model nothing at all, not half
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unisono.data.scaling import Targets, UnitScaling, scaling, target_scaling
from unisono.data.schema import Category, Number, Schema

# Each column of a study as float64 (records,): numbers in their bounds, categories as places in
# their lists, NaN where a cell is neither.
Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Frame:
    """The columns that a model learns from: names (d,) and public ranges (d,)."""

    schema: Schema

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(
            name if isinstance(column, Number) else f"{name}={value}"
            for name, column in self.schema.features.items()
            for value in (column.values[1:] if isinstance(column, Category) else (None,))
        )

    def scaling(self, centred: str = "none") -> UnitScaling:
        """How rows come into the unit ball, by the public bounds."""
        bounds = [
            pair
            for column in self.schema.features.values()
            for pair in (
                [column.bounds]
                if isinstance(column, Number)
                else [(0.0, 1.0)] * (len(column.values) - 1)
            )
        ]
        low, high = zip(*bounds, strict=True)
        return scaling((low, high), len(bounds), centred)

    @property
    def mean_square(self) -> float:
        """|u|² of a scaled row whose numbers are even over their ranges, and values alike often."""
        return sum(
            1 / 3 if isinstance(column, Number) else 1 - 1 / len(column.values)
            for column in self.schema.features.values()
        )

    def rows(self, values: Values) -> np.ndarray:
        """One party's features (n, d), in their own units; NaN where a record is incomplete."""
        columns = []
        for name, column in self.schema.features.items():
            if isinstance(column, Number):
                columns.append(values[name])
            else:
                places = range(1, len(column.values))
                columns.extend((values[name] == place).astype(float) for place in places)
        return np.where(self._complete(values)[:, None], np.column_stack(columns), np.nan)

    def _complete(self, values: Values) -> np.ndarray:
        """Which records miss nothing (n,); of the others a model learns nothing, not half."""
        return np.all([np.isfinite(values[name]) for name in self.schema.columns], axis=0)

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
        return target_scaling(column.bounds if isinstance(column, Number) else None)

    def labels(self, values: Values, signed: bool) -> np.ndarray:
        """Places of classes, or -1 and +1 where two are `signed`; numbers in [-1, 1]; NaN where a
        record is incomplete."""
        own = np.where(self._complete(values), values[self.target], np.nan)
        if not self.classes:
            return self.targets.scaled(own)
        return 2 * own - 1 if signed else own
