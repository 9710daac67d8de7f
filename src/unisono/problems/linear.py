"""A convex loss of a linear score: gradients of single records in closed form."""

import math
from dataclasses import dataclass
from typing import Any

from unisono.errors import InvalidInput
from unisono.problems.losses import Loss, loss_named


@dataclass(frozen=True)
class LinearLoss:
    """A convex loss of the score θᵀx, for rows in the unit ball; of several classes the parameters
    are (features, classes).

    >>> LinearLoss("logistic").shape(3), LinearLoss("multinomial", 4).parameters(3)
    ((3,), 12)
    """

    loss: str = "logistic"
    classes: int = 2

    def __post_init__(self) -> None:
        loss_named(self.loss)
        if self.classes < 2:
            raise InvalidInput(f"classes = {self.classes!r}: there are at least two")

    @property
    def function(self) -> Loss:
        return loss_named(self.loss)

    @property
    def agreed(self) -> dict[str, Any]:
        return {"loss": self.loss, "classes": self.classes}

    def shape(self, features: int) -> tuple[int, ...]:
        """The shape of the parameters."""
        return (features, self.classes) if self.loss == "multinomial" else (features,)

    def parameters(self, features: int) -> int:
        """How many parameters there are."""
        return math.prod(self.shape(features))
