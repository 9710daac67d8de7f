"""Estimators that can learn by Fisher scoring, whatever they are called.

Numbers lie in [-1, 1] by their public bounds and indicators are 0 and 1; nothing is divided by a
row's length. Two releases are priced and paid for together, as `PrivateGLM` does: counts of every
column (`algorithms.column_scales`), then rounds of gradient and curvature
(`algorithms.fisher_scoring`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unisono.core.algorithm import Facts
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.data.columns import Feature
from unisono.data.encoding import Frame
from unisono.data.scaling import Targets, UnitScaling
from unisono.estimators.configuration import FitPlan, in_stages
from unisono.estimators.foundation import PrivateEstimator

if TYPE_CHECKING:  # JAX is imported when a model is really fitted
    from unisono.models.glm import Regression

FISHER_SCORING = "fisher-scoring"


def scored_plan(
    problem: Any,
    settings: Mapping[str, Any],
    facts: Facts,
    trust: Trust,
    promise: Privacy,
    engine: str = "in-process",
) -> FitPlan:
    """Middles and spreads, then the rounds: priced together, and run one after the other."""
    from unisono.algorithms.fisher_scoring import FISHER_SCORING

    method = FISHER_SCORING.method(problem, promise, **settings)
    return in_stages(method, replace(facts, features=problem.width), trust, engine)


class ScoredEstimator(PrivateEstimator):
    """Rows and regression of Fisher scoring, where a subclass has `_scored` it."""

    _family = "gaussian"
    # Whether columns of an array with public bounds (0, 1) are taken for 0 and 1.
    _unit_range_is_indicator = True
    _scored = False  # whether the fit under way, or the last one, is by Fisher scoring

    def _scorable(self, facts: Facts, promise: Privacy) -> bool:
        """Whether public facts allow it: Gaussian noise, single records, and columns with ranges,
        public or about to be released."""
        known = not self._features_unknown or self._ranges is not None
        return bool(promise.delta) and facts.records_per_person is None and known

    def _encoded(
        self, scale: UnitScaling, X: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        if not self._scored:
            return super()._encoded(scale, X, labels)
        rows = X if self._declared is None else self._declared.rows(X)
        made = self._regression(rows.shape[1])
        return (made.rows(rows, self._scored_labels(labels), None, self._weights),)

    def _scored_labels(self, labels: np.ndarray) -> np.ndarray:
        """Labels as `Regression.rows` takes them."""
        return labels

    def _regression(self, features: int) -> "Regression":
        """By public bounds, or by ranges that were released."""
        from unisono.models.glm import column_layout, regression
        from unisono.problems.glm import Columns

        own: tuple[Feature, ...]
        if self._declared is not None:
            frame = Frame(self._declared.schema)
            own, columns = frame.features, column_layout(frame)
        else:
            given = getattr(self, "feature_names_in_", [f"x{j}" for j in range(features)])
            own = self._as_given([*map(str, given)])
            columns = tuple(Columns(one.name, 1, number=not one.indicator) for one in own)
        targets: Targets | None = self._targets if self._family == "gaussian" else None
        weighted = self._weights is not None
        return regression(self._family, columns, own, targets, weighted=weighted)

    def _as_given(self, names: Sequence[str]) -> tuple[Feature, ...]:
        """Columns of an array: those with public bounds (0, 1) may be indicators."""
        size = len(names)
        if self._ranges is not None:
            low, high = self._ranges[0], self._ranges[2]
        else:
            array = np.asarray(self._bounds, float)
            array = np.array([-array, array]) if array.ndim == 0 else array
            low, high = np.broadcast_to(array if array.ndim == 2 else array[:, None], (2, size))
        known = self._unit_range_is_indicator and not self._features_unknown
        indicators = (low == 0) & (high == 1) & known
        return tuple(
            Feature(name, float(a), float(b), indicator=bool(flag))
            for name, a, b, flag in zip(names, low, high, indicators, strict=True)
        )


__all__ = ["FISHER_SCORING", "ScoredEstimator", "scored_plan"]
