"""Private ridge regression."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from unisono.core.defaults import BOUNDS_SHARE, RELATION
from unisono.data.scaling import UnitScaling
from unisono.estimators.classifiers import ALGORITHM, COEFFICIENTS
from unisono.estimators.documentation import PARTIES, documented
from unisono.estimators.foundation import PrivateLinear, unknown_bounds
from unisono.estimators.statements import UNBOUNDED_TARGETS, UnboundedFeatures


class PrivateRidge(RegressorMixin, PrivateLinear):
    __doc__ = documented(
        "Differentially private least squares with an L2 penalty.\n\n"
        "    A row (u, 1) and its target t in [-1, 1] are both divided by r = ||(u, 1)||, which\n"
        "    weighs the record by 1 / r² and keeps the prediction linear: ŷ = θ·(u, 1).",
        ("bounds", "target_bounds", "relation", "trust", *ALGORITHM, *PARTIES),
        (COEFFICIENTS,),
    )
    _model = "linear-regression"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        bounds: Any = None,
        target_bounds: Any = None,
        relation: str = RELATION.value,
        trust: str | None = None,
        algorithm: str = "auto",
        regularisation: float | None = None,
        rounds: int = 200,
        records: Any = None,
        ledger: Any = None,
        minimum_parties: int | None = None,
        colluders: int | None = None,
        random_state: Any = None,
        bounds_share: float = BOUNDS_SHARE,
        columns: Any = None,
        records_per_person: int | None = None,
        person_at_parties: int = 1,
    ) -> None:
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.bounds_share, self.columns = bounds_share, columns
        self.records_per_person, self.person_at_parties = records_per_person, person_at_parties
        self.target_bounds = target_bounds
        self.relation, self.trust, self.algorithm = relation, trust, algorithm
        self.regularisation, self.rounds, self.records = regularisation, rounds, records
        self.ledger, self.minimum_parties, self.colluders = ledger, minimum_parties, colluders
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any, parties: Any = None, persons: Any = None) -> Any:
        """Learn from rows X (n, d), targets y (n,), the party and the person of each row (n,). Of
        a frame, or of a path, y, parties and persons may be names of columns."""
        records = self._read(X, y, parties, persons, numeric=True)
        parameters = self._learn(records, "squares", 1)
        parameters = self._targets.half * parameters
        parameters[:, -1] += self._targets.centre
        self._parameters = parameters
        slopes, intercepts = self._scaling.coefficients(parameters)
        self.coef_, self.intercept_ = slopes[0], float(intercepts[0])
        if self._target_bounds is None and not self._targets.paid:
            self._tell(UNBOUNDED_TARGETS, UnboundedFeatures)
        return self

    def _in_the_ball(
        self, scale: UnitScaling, X: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        rows, lengths = scale.rows(X)
        return rows, self._targets.scaled(labels) / lengths

    @property
    def _target_unknown(self) -> bool:
        return unknown_bounds(self._target_bounds, "target_bounds")

    def predict(self, X: Any) -> np.ndarray:
        """θ·(u, 1) of every row."""
        check_is_fitted(self)
        X = self._matrix(X)
        return self._scaling.whole(X) @ self._parameters[0]


__all__ = ["PrivateRidge"]
