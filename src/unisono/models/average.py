"""The average of several models that a search has released: a function of them, so that it is free.

    numbers   the mean of what the members predict
    classes   in proportion to the geometric mean of the members' probabilities, each at least
              1e-12: a member that is sure counts more (a product of experts; Hinton 2002)

It is learnt by nothing: `[search]` with `average = true` and `PrivateSearch(average=True)` make it
of their candidates. So it is not among the models that a study names; a saved one is read here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from pydantic import Field

from unisono.data.schema import Schema
from unisono.errors import InvalidInput
from unisono.models.model import ModelConfig, ModelKind, Target
from unisono.models.prediction import Prediction, Scores

LEAST = 1e-12  # of a probability whose logarithm is taken
AVERAGE_NAME = "average"


class AverageConfig(ModelConfig):
    """What was averaged."""

    members: tuple[str, ...] = Field((), description="The models by their names.")


def averaged_chances(chances: Sequence[np.ndarray]) -> np.ndarray:
    """(n, k) in proportion to the geometric mean of the members' (n, k)."""
    logs = np.mean([np.log(np.maximum(own, LEAST)) for own in chances], axis=0)
    odds = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Average(Prediction):
    """Members that predict the same from the same features."""

    form: ClassVar[str] = "average"
    members: tuple[Scores, ...]

    @classmethod
    def of(cls, members: Sequence[Prediction]) -> "Average":
        """The average of these, or a refusal of what cannot be averaged."""
        known = [own for own in members if isinstance(own, Scores)]
        if not members or len(known) < len(members):
            raise InvalidInput(f"{_UNLIKE}: some have no scores")
        found = cls(known[0].inputs, known[0].names, tuple(known))
        try:
            found._check()
        except ValueError as error:
            raise InvalidInput(f"{_UNLIKE}: {error}") from None
        return found

    def document(self) -> dict[str, Any]:
        return super().document() | {"members": [own.document() for own in self.members]}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        try:
            members = tuple(Scores.read(own) for own in document["members"])
        except (TypeError, KeyError, AttributeError):
            raise InvalidInput("its members are not written as such") from None
        return super().read({**document, "members": members})

    def _check(self) -> None:
        if len(self.members) < 2:
            raise ValueError(f"{len(self.members)} members, where an average has two or more")
        for own in self.members:
            if (tuple(own.inputs), tuple(own.names)) != (tuple(self.inputs), tuple(self.names)):
                raise ValueError("members predict from other features than each other")
            if own.labels != self.members[0].labels:
                raise ValueError("members predict other classes than each other")
            if own.link == "sign":
                raise ValueError("a member has classes and no probabilities")
            if own.offset is not None:
                raise ValueError("a member adds an offset to its scores")

    # ------------------------------------------------------------- what it says

    @property
    def classes(self) -> tuple[Any, ...]:
        return self.members[0].labels

    @property
    def words(self) -> str:
        return self.members[0].words

    def predict(self, X: np.ndarray, offset: np.ndarray | None = None) -> np.ndarray:
        if self.classes:
            return self.probabilities(X, offset).argmax(axis=1)
        return np.mean([own.predict(X, offset) for own in self.members], axis=0)

    def probabilities(self, X: np.ndarray, offset: np.ndarray | None = None) -> np.ndarray:
        if not self.classes:
            return super().probabilities(X, offset)
        return averaged_chances([own.probabilities(X, offset) for own in self.members])


_UNLIKE = "these models cannot be averaged"


def _only_made(*given: Any) -> NoReturn:
    raise InvalidInput(
        "an average is made of candidates and not learnt by itself: write [search] with average = "
        "true, or PrivateSearch(average=True)"
    )


def _learns(config: AverageConfig, schema: Schema) -> str:
    return f"the average of {len(config.members)} models"


AVERAGE = ModelKind(
    AVERAGE_NAME,
    "predict by the average of several models",
    AverageConfig,
    Target.EITHER,
    Average,
    _only_made,
    _only_made,
    _learns,
    prediction=Average,
)

__all__ = ["AVERAGE", "LEAST", "Average", "AverageConfig", "averaged_chances"]
