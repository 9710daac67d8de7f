"""The average of fitted models: a function of what was released about each, so that it is free.

Models of half the budget each have noise that does not depend on each other's, and errors of their
own; the mean of their answers has less of both (`models.average` has the rule).
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.metrics import accuracy_score, r2_score

from unisono.data import numbers
from unisono.data.columns import NumericColumn
from unisono.data.schema import Schema
from unisono.errors import InvalidInput
from unisono.estimators.foundation import write_model


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
        from unisono.models.average import averaged_chances  # which imports JAX

        return averaged_chances([np.asarray(own.predict_proba(X), float) for own in self.members_])

    def score(self, X: Any, y: Any) -> float:
        """Accuracy or R² on records that are nobody's secret: nothing is paid."""
        if self._regressor:
            return float(r2_score(numbers(y), self.predict(X)))
        return float(accuracy_score(y, self.predict(X)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the average with all its members to one folder, for `unisono.load`."""
        from unisono.models.average import AVERAGE, Average

        names = [own._model for own in self.members_]
        write_model(
            path,
            self.certificate_,
            fitted_as=(
                AVERAGE.name,
                {"members": names},
                widest_schema([own._schema_kept() for own in self.members_]),
                Average.of([own._prediction() for own in self.members_]),
            ),
            title=f"The average of {len(names)} models",
            model=AVERAGE.name,
            algorithm=f"the average of {', '.join(names)}",
            study=self.certificate_.study,
            statements=[*self.statements_, *_said_by_members(self.members_)],
        )


def widest_schema(schemas: Sequence[Schema]) -> Schema:
    """One schema for members that scale numbers by themselves: bounds that hold those of all."""
    columns = {}
    for name, column in schemas[0].columns.items():
        own = [schema.columns[name] for schema in schemas]
        spans = [one.span for one in own if isinstance(one, NumericColumn)]
        if spans:
            low, high = min(span[0] for span in spans), max(span[1] for span in spans)
            column = column.model_copy(update={"bounds": (low, high)})
        columns[name] = column
    return schemas[0].model_copy(update={"columns": columns})


def _said_by_members(members: Sequence[Any]) -> list[str]:
    """What members say, each thing once."""
    return list(dict.fromkeys(words for own in members for words in own.statements_))


__all__ = ["AveragedModel", "can_be_averaged", "widest_schema"]
