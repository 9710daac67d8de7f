"""Convex losses of linear models: per-record gradients, Lipschitz and smoothness constants.

Records lie in the unit ball; parameters are (d,) for two classes and regression, (d, k) for k
classes. A `Loss` gives, for n records, the gradient of each as (n, *parameters.shape), so that
algorithms can bound each record on its own. Labels: -1 / +1, a number in [-1, 1], or a class
0 .. k-1.

Every loss sees a record only through its score s = θᵀx, so that with slope = dl/ds

    grad l = slope(s, y) ⊗ x          Hessian of l = curvature(s, y) ⊗ x xᵀ

and ||grad l|| <= |slope| ||x||: the constants below hold because `bounded_records` puts every
row into the unit ball and every label into its range, each on its own (no constant is read from
the data).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from unisono.errors import InvalidInput


class Loss(NamedTuple):
    """l(θ; x, y) with ||grad l|| <= lipschitz and Hessian <= smoothness on the unit ball.

    `costs`, `slopes` and `curvatures` are l, dl/ds and d²l/ds² from scores (n,) or (n, k); the
    curvature of several classes is a matrix per record and is not given. `one_signed` says that
    a record's slope never changes its sign, whatever the parameters.
    """

    name: str
    values: Callable[[Any, Any, Any], Any]
    gradients: Callable[[Any, Any, Any], Any]
    predict: Callable[[Any, Any], Any]
    lipschitz: float
    smoothness: float
    costs: Callable[[Any, Any], Any]
    slopes: Callable[[Any, Any], Any]
    curvatures: Callable[[Any, Any], Any] | None = None
    one_signed: bool = False

    @property
    def classifies(self) -> bool:
        return self.name != "squares"


def _outer(coefficients: Any, features: Any) -> Any:
    """Gradients of a linear model: (n,) or (n, k) coefficients times (n, d) features."""
    if coefficients.ndim == 1:
        return coefficients[:, None] * features
    return features[:, :, None] * coefficients[:, None, :]


def _linear(
    name: str,
    costs: Any,
    slopes: Any,
    curvatures: Any,
    predict: Any,
    lipschitz: float,
    smoothness: float,
    one_signed: bool = False,
) -> Loss:
    """The loss of parameters and records that these functions of the score make."""

    def values(parameters: Any, features: Any, labels: Any) -> Any:
        return costs(features @ parameters, labels)

    def gradients(parameters: Any, features: Any, labels: Any) -> Any:
        return _outer(slopes(features @ parameters, labels), features)

    return Loss(
        name,
        values,
        gradients,
        predict,
        lipschitz,
        smoothness,
        costs,
        slopes,
        curvatures,
        one_signed,
    )


def _logistic() -> Loss:
    """log(1 + exp(-y θ·x)), y in {-1, +1}: each gradient at most ||x|| long."""

    def costs(scores: Any, labels: Any) -> Any:
        return jnp.logaddexp(0.0, -labels * scores)

    def slopes(scores: Any, labels: Any) -> Any:
        return -labels * jax.nn.sigmoid(-labels * scores)

    def curvatures(scores: Any, labels: Any) -> Any:
        return labels**2 * jax.nn.sigmoid(labels * scores) * jax.nn.sigmoid(-labels * scores)

    return _linear("logistic", costs, slopes, curvatures, _sign, 1.0, 0.25, one_signed=True)


def _multinomial() -> Loss:
    """-log softmax(θᵀx)_y: the gradient (p - e_y) ⊗ x is at most sqrt(2) ||x|| long."""

    def costs(scores: Any, labels: Any) -> Any:
        logs = jax.nn.log_softmax(scores)
        chosen = jnp.take_along_axis(logs, labels.astype(jnp.int32)[:, None], axis=1, mode="clip")
        return -chosen[:, 0]

    def slopes(scores: Any, labels: Any) -> Any:
        truth = jax.nn.one_hot(labels.astype(jnp.int32), scores.shape[1], dtype=scores.dtype)
        return jax.nn.softmax(scores) - truth

    return _linear("multinomial", costs, slopes, None, _largest, 2.0**0.5, 0.5)


def _squares() -> Loss:
    """(θ·x - y)²/2; Lipschitz only where |θ·x - y| <= 1, so algorithms must clip."""

    def costs(scores: Any, labels: Any) -> Any:
        return 0.5 * (scores - labels) ** 2

    def slopes(scores: Any, labels: Any) -> Any:
        return scores - labels

    def curvatures(scores: Any, labels: Any) -> Any:
        return jnp.ones_like(scores)

    return _linear("squares", costs, slopes, curvatures, _score, float("inf"), 1.0)


def _huber_svm(width: float = 0.5) -> Loss:
    """The hinge loss, rounded between margins 1 - width and 1 + width (Chaudhuri et al. 2011)."""

    def costs(scores: Any, labels: Any) -> Any:
        gap = 1.0 - labels * scores
        curved = (gap + width) ** 2 / (4 * width)
        return jnp.where(gap > width, gap, jnp.where(gap < -width, 0.0, curved))

    def slopes(scores: Any, labels: Any) -> Any:
        gap = 1.0 - labels * scores
        return -labels * jnp.clip((gap + width) / (2 * width), 0.0, 1.0)

    def curvatures(scores: Any, labels: Any) -> Any:
        inside = jnp.abs(1.0 - labels * scores) <= width
        return jnp.where(inside, labels**2 / (2 * width), 0.0)

    return _linear(
        "huber-svm", costs, slopes, curvatures, _sign, 1.0, 1 / (2 * width), one_signed=True
    )


def _sign(parameters: Any, features: Any) -> Any:
    return jnp.where(features @ parameters >= 0, 1.0, -1.0)


def _score(parameters: Any, features: Any) -> Any:
    return features @ parameters


def _largest(parameters: Any, features: Any) -> Any:
    return jnp.argmax(features @ parameters, axis=1)


LOSSES: dict[str, Loss] = {
    loss.name: loss for loss in (_logistic(), _multinomial(), _squares(), _huber_svm())
}


def loss_named(name: str) -> Loss:
    """The loss of this name.

    >>> loss_named("logistic").lipschitz
    1.0
    """
    if name not in LOSSES:
        raise InvalidInput(f"unknown loss {name!r}: choose one of {', '.join(LOSSES)}")
    return LOSSES[name]


def bounded_records(loss: Loss, features: Any, labels: Any, mask: Any) -> tuple[Any, Any, Any]:
    """Rows in the unit ball, labels in their range, and which records count; each on its own.

    A row outside the ball is scaled onto it, a label outside [-1, 1] is cut (classes of the
    multinomial loss are kept), a record that is not finite is switched off: its gradient is zero.
    Shapes (n, d), (n,), (n,) -> the same. The norm of a row exceeds 1 by rounding only, at most
    (d + 8) units in the last place.
    """
    keep = mask & jnp.all(jnp.isfinite(features), axis=-1) & jnp.isfinite(labels)
    rows = jnp.where(keep[:, None], features, 0.0)
    # Scaled by the largest entry first: the squares of huge entries would overflow.
    largest = jnp.maximum(1.0, jnp.max(jnp.abs(rows), axis=-1, keepdims=True))
    small = rows / largest
    norms = largest * jnp.sqrt(jnp.sum(small * small, axis=-1, keepdims=True))
    rows = small * (largest / jnp.maximum(1.0, norms))
    marks = jnp.where(keep, labels, 0.0)
    return rows, marks if loss.name == "multinomial" else jnp.clip(marks, -1.0, 1.0), keep
