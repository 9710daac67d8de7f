"""A convex loss of a linear score: gradients of single records in closed form."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp

from unisono.errors import InvalidInput
from unisono.problems.losses import Loss, loss_named


@dataclass(frozen=True)
class LinearLoss:
    """A convex loss of the score θᵀx, for rows in the unit ball; of several classes the parameters
    are (features, classes). Where records are `weighted`, labels come with a second column, in
    which a share in [0, 1] says how much a record counts before it is bounded.

    >>> LinearLoss("logistic").shape(3), LinearLoss("multinomial", 4).parameters(3)
    ((3,), 12)
    """

    loss: str = "logistic"
    classes: int = 2
    weighted: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        loss_named(self.loss)
        if self.classes < 2:
            raise InvalidInput(f"classes = {self.classes!r}: there are at least two")

    @property
    def function(self) -> Loss:
        return loss_named(self.loss)

    @property
    def agreed(self) -> dict[str, Any]:
        said = {"loss": self.loss, "classes": self.classes}
        return {**said, "weighted": True} if self.weighted else said

    @property
    def outputs(self) -> int:
        """How many scores a record has."""
        return self.classes if self.loss == "multinomial" else 1

    def coefficients(self, parameters: Any, features: Any, labels: Any) -> Any:
        """dl/ds of every record: its gradient is the row times these, (n,) or (n, outputs). Rows
        (n, k, features) of persons with labels (n, k) give (n, k) or (n, k, outputs). Labels of
        `weighted` records have one axis more, (label, weight)."""
        if self.weighted:
            weights = jnp.clip(labels[..., 1], 0.0, 1.0)
            found = replace(self, weighted=False).coefficients(parameters, features, labels[..., 0])
            return weights.reshape(*weights.shape, *[1] * (found.ndim - weights.ndim)) * found
        if features.ndim == 3:
            flat = features.reshape(-1, features.shape[2])
            found = self.coefficients(parameters, flat, labels.reshape(-1))
            return found.reshape(*labels.shape, *found.shape[1:])
        # A vector times a transposed matrix compiles to the faster of the two products.
        scores = features @ parameters if parameters.ndim > 1 else parameters @ features.T
        return self.function.slopes(scores, labels)

    def shape(self, features: int) -> tuple[int, ...]:
        """The shape of the parameters."""
        return (features, self.classes) if self.loss == "multinomial" else (features,)

    def parameters(self, features: int) -> int:
        """How many parameters there are."""
        return math.prod(self.shape(features))


@dataclass(frozen=True)
class ClassificationLoss(LinearLoss):
    """A loss of classes: its slope is bounded, whatever the parameters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not math.isfinite(self.function.lipschitz):
            raise InvalidInput(
                f"the slope of {self.loss!r} is not bounded: it is no loss of classes"
            )


@dataclass(frozen=True)
class MarginLoss(ClassificationLoss):
    """A loss whose slope has one sign for each record, whatever the parameters: logistic and
    Huber's hinge. The proof of objective perturbation needs it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.function.one_signed:
            raise InvalidInput(
                f"the slope of {self.loss!r} changes its sign: it is no loss of a margin"
            )


@dataclass(frozen=True)
class SquaredLoss(LinearLoss):
    """Half the squared error of a target in [-1, 1]: its minimum follows from sums of products."""

    loss: str = "squares"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss != "squares":
            raise InvalidInput(f"loss = {self.loss!r}: sums of products minimise squares only")


def linear_loss(loss: str = "logistic", classes: int = 2, weighted: bool = False) -> LinearLoss:
    """The problem of a loss, of the narrowest type: some algorithms are for margins only, or for
    squares.

    >>> linear_loss("huber-svm"), linear_loss("squares")
    (MarginLoss(loss='huber-svm', classes=2), SquaredLoss(loss='squares', classes=2))
    """
    if loss == "squares":
        return SquaredLoss(loss, classes, weighted)
    named = loss_named(loss)
    if named.one_signed:
        return MarginLoss(loss, classes, weighted)
    kind = ClassificationLoss if named.classifies else LinearLoss
    return kind(loss, classes, weighted)
