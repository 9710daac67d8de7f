"""Per-record gradients of convex losses, shape (n, d) from parameters (d,)."""

from typing import Any

import jax
import jax.numpy as jnp


def logistic_gradients(parameters: Any, features: Any, labels: Any) -> Any:
    """Gradients of log(1 + exp(-y θ·x)), y in {-1, +1}: each at most ||x|| long (000-11)."""
    margins = labels * (features @ parameters)
    return (-labels * jax.nn.sigmoid(-margins))[:, None] * features


def logistic_loss(parameters: Any, features: Any, labels: Any) -> Any:
    """Mean of log(1 + exp(-y θ·x))."""
    return jnp.mean(jnp.logaddexp(0.0, -labels * (features @ parameters)))
