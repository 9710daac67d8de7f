"""Private ridge regression."""

import math
import warnings
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from unisono.errors import InvalidInput
from unisono.estimators.classifiers import _PARAMETERS
from unisono.estimators.foundation import PrivateLinear
from unisono.estimators.scaling import Scaling
from unisono.estimators.statements import UNBOUNDED_TARGETS, UnboundedFeatures

_CLASSES = "    classes : the public set of labels; None takes it from y and treats it as public.\n"
_DOCUMENTED = (
    _PARAMETERS.replace(_CLASSES, "")
    .replace("classes_, n_features", "n_features")
    .replace("labels, width,", "width,")
)


class PrivateRidge(RegressorMixin, PrivateLinear):
    __doc__ = (
        "Differentially private least squares with an L2 penalty.\n\n"
        "    A row (u, 1) and its target t in [-1, 1] are both divided by r = ||(u, 1)||, which\n"
        "    weighs the record by 1 / r² and keeps the prediction linear: ŷ = θ·(u, 1).\n"
        "    `target_bounds`: public (lowest, highest) target; None takes (-1, 1) and clips.\n"
        + _DOCUMENTED
    )  # fmt: skip

    def __init__(
        self, epsilon: float = 1.0, delta: float = 1e-5, *, bounds: Any = None,
        target_bounds: tuple[float, float] | None = None, relation: str = "replace-one",
        trust: str | None = None, algorithm: str = "auto", regularisation: float | None = None,
        rounds: int = 200, records: Any = None, ledger: Any = None,
        minimum_survivors: int | None = None, colluders: int | None = None,
        random_state: Any = None,
    ) -> None:  # fmt: skip
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.target_bounds = target_bounds
        self.relation, self.trust, self.algorithm = relation, trust, algorithm
        self.regularisation, self.rounds, self.records = regularisation, rounds, records
        self.ledger, self.minimum_survivors, self.colluders = ledger, minimum_survivors, colluders
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any, parties: Any = None) -> Any:
        """Learn from rows X (n, d), targets y (n,) and the party of each row (n,)."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        centre, half = self._targets()
        outside = np.count_nonzero(np.abs(y - centre) > half * (1 + 1e-9))
        if outside and self.target_bounds is not None:
            raise InvalidInput(
                f"{outside} targets lie outside their public bounds {self.target_bounds!r}: clip "
                "them with numpy.clip, or agree on wider bounds; nothing was spent"
            )
        scaled = np.clip((y - centre) / half, -1.0, 1.0)
        parameters = half * self._learn(X, scaled, parties, "squares", 1)
        parameters[:, -1] += centre
        self._parameters = parameters
        slopes, intercepts = self._scaling.coefficients(parameters)
        self.coef_, self.intercept_ = slopes[0], float(intercepts[0])
        if self.target_bounds is None:
            self.statements_ = (*self.statements_, UNBOUNDED_TARGETS)
            warnings.warn(UNBOUNDED_TARGETS, UnboundedFeatures, stacklevel=2)
        return self

    def _targets(self) -> tuple[float, float]:
        """Centre and half width of the public range of targets."""
        try:
            low, high = (-1.0, 1.0) if self.target_bounds is None else self.target_bounds
            fine = math.isfinite(low) and math.isfinite(high) and low < high
        except (TypeError, ValueError):
            fine = False
        if not fine:
            raise InvalidInput(
                f"target_bounds = {self.target_bounds!r}: give the public (lowest, highest) target"
            )
        return (low + high) / 2, (high - low) / 2

    def _in_the_ball(
        self, scale: Scaling, X: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        rows, lengths = scale.rows(X)
        return rows, labels / lengths

    def predict(self, X: Any) -> np.ndarray:
        """θ·(u, 1) of every row."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        rows, lengths = self._scaling.rows(X)
        return (rows * lengths[:, None]) @ self._parameters[0]


__all__ = ["PrivateRidge"]
