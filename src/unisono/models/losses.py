"""Convex losses of linear models: per-record gradients, Lipschitz and smoothness constants.

Records lie in the unit ball; parameters are (d,) for two classes and regression, (d, k) for k
classes. A `Loss` gives, for n records, the gradient of each as (n, *parameters.shape), so that
algorithms can bound each record on its own. Labels: -1 / +1, a number, or a class 0 .. k-1.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from unisono.errors import InvalidInput


class Loss(NamedTuple):
    """l(θ; x, y) with ||grad l|| <= lipschitz and Hessian <= smoothness on the unit ball."""

    name: str
    values: Callable[[Any, Any, Any], Any]
    gradients: Callable[[Any, Any, Any], Any]
    predict: Callable[[Any, Any], Any]
    lipschitz: float
    smoothness: float


def _outer(coefficients: Any, features: Any) -> Any:
    """Gradients of a linear model: (n,) or (n, k) coefficients times (n, d) features."""
    if coefficients.ndim == 1:
        return coefficients[:, None] * features
    return features[:, :, None] * coefficients[:, None, :]


def _logistic() -> Loss:
    """log(1 + exp(-y θ·x)), y in {-1, +1}: each gradient at most ||x|| long (000-11)."""

    def values(parameters: Any, features: Any, labels: Any) -> Any:
        return jnp.logaddexp(0.0, -labels * (features @ parameters))

    def gradients(parameters: Any, features: Any, labels: Any) -> Any:
        return _outer(-labels * jax.nn.sigmoid(-labels * (features @ parameters)), features)

    return Loss("logistic", values, gradients, _sign, 1.0, 0.25)


def _multinomial() -> Loss:
    """-log softmax(θᵀx)_y: the gradient (p - e_y) ⊗ x is at most sqrt(2) ||x|| long."""

    def values(parameters: Any, features: Any, labels: Any) -> Any:
        scores = jax.nn.log_softmax(features @ parameters)
        chosen = jnp.take_along_axis(scores, labels.astype(jnp.int32)[:, None], axis=1)
        return -chosen[:, 0]

    def gradients(parameters: Any, features: Any, labels: Any) -> Any:
        probabilities = jax.nn.softmax(features @ parameters)
        truth = jax.nn.one_hot(labels.astype(jnp.int32), parameters.shape[1])
        return _outer(probabilities - truth, features)

    def predict(parameters: Any, features: Any) -> Any:
        return jnp.argmax(features @ parameters, axis=1)

    return Loss("multinomial", values, gradients, predict, 2.0**0.5, 0.5)


def _squares() -> Loss:
    """(θ·x - y)²/2; Lipschitz only where |θ·x - y| <= 1, so algorithms must clip."""

    def values(parameters: Any, features: Any, labels: Any) -> Any:
        return 0.5 * (features @ parameters - labels) ** 2

    def gradients(parameters: Any, features: Any, labels: Any) -> Any:
        return _outer(features @ parameters - labels, features)

    def predict(parameters: Any, features: Any) -> Any:
        return features @ parameters

    return Loss("squares", values, gradients, predict, float("inf"), 1.0)


def _huber_svm(width: float = 0.5) -> Loss:
    """The hinge loss, rounded between margins 1 - width and 1 + width (Chaudhuri et al. 2011)."""

    def values(parameters: Any, features: Any, labels: Any) -> Any:
        gap = 1.0 - labels * (features @ parameters)
        curved = (gap + width) ** 2 / (4 * width)
        return jnp.where(gap > width, gap, jnp.where(gap < -width, 0.0, curved))

    def gradients(parameters: Any, features: Any, labels: Any) -> Any:
        gap = 1.0 - labels * (features @ parameters)
        return _outer(-labels * jnp.clip((gap + width) / (2 * width), 0.0, 1.0), features)

    return Loss("huber-svm", values, gradients, _sign, 1.0, 1 / (2 * width))


def _sign(parameters: Any, features: Any) -> Any:
    return jnp.where(features @ parameters >= 0, 1.0, -1.0)


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
