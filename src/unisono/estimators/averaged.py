"""The average of fitted models: a function of what was released about each, so that it is free.

Models of half the budget each have noise that does not depend on each other's, and errors of their
own; the mean of their answers has less of both. Probabilities are averaged as logarithms, so that a
model that is sure counts more (a product of experts; Hinton 2002), numbers as they are.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.metrics import accuracy_score, r2_score

from unisono.data import numbers
from unisono.errors import InvalidInput

_LEAST = 1e-12  # of a probability whose logarithm is taken


def can_be_averaged(models: Sequence[Any]) -> bool:
    """Numbers can, and classes of models that tell their probabilities."""
    return all(is_regressor(model) or hasattr(model, "predict_proba") for model in models)


class AveragedModel:
    """Several fitted estimators of one task that answer together."""

    _search_study: Any = None

    def __init__(self, members: Sequence[Any]) -> None:
        self.members_ = tuple(members)
        first = self.members_[0]
        self._regressor = is_regressor(first)
        if not self._regressor:
            self.classes_ = first.classes_
        self.relation, self.certificate_ = first.relation, first.certificate_
        self.target_bounds = getattr(first, "target_bounds", None)
        self.statements_: tuple[str, ...] = (
            f"the average of {len(self.members_)} models, each of which has statements of its own",
        )

    def __repr__(self) -> str:
        return f"AveragedModel({list(self.members_)!r})"

    def __sklearn_tags__(self) -> Any:
        return self.members_[0].__sklearn_tags__()

    def predict(self, X: Any) -> np.ndarray:
        if self._regressor:
            return np.mean([np.asarray(own.predict(X), float) for own in self.members_], axis=0)
        found: np.ndarray = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, classes), each in proportion to the geometric mean of the members'."""
        if self._regressor:
            raise InvalidInput("an average of regressions has no probabilities: use predict")
        chances = [np.asarray(own.predict_proba(X), float) for own in self.members_]
        logs = np.mean([np.log(np.maximum(own, _LEAST)) for own in chances], axis=0)
        odds = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def score(self, X: Any, y: Any) -> float:
        """Accuracy or R² on records that are nobody's secret: nothing is paid."""
        if self._regressor:
            return float(r2_score(numbers(y), self.predict(X)))
        return float(accuracy_score(y, self.predict(X)))

    def save(self, path: Any) -> None:
        raise InvalidInput(
            f"{path}: an average of models is not written as one; save each of its members_, or "
            "search with average=False"
        )


__all__ = ["AveragedModel", "can_be_averaged"]
