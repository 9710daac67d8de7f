"""The local free energy of partitioned inference, and its gradient in mean and variance.

A party improves q(θ) = N(m, diag v) against its own records and its cavity, which is all that the
others know: cavity = q_before / t_own, a factor exp(θ·a - ½ θ·Pθ). It climbs

    F(q) = H[q] + Σ_records E_q[log p(y | x, θ)] + E_q[log cavity]

Only the middle term touches data. With a record's own E_q[log p] by `expected_gradients`,

    dF/dm = Σ d/dm E_q[log p]  +  a - P m
    dF/dv = Σ d/dv E_q[log p]  +  1/(2v) - ½ P

For linear regression d/dv E_q[log p] is -x²/(2σ²). As published (Sharma 2019), dF/dv lacks the
halves of the data and the cavity term; then q has no stationary point once there are two parties,
and the climb diverges. The variance stays positive when climbing in log v, where the chain rule
multiplies by v.

A private climb clips and noises the data term alone and adds the rest after the noise: what does
not depend on data needs no protection, and clipping it only adds bias. A gradient is one vector
(2p,): means first, then variances.
"""

import math
from typing import Any

import jax.numpy as jnp

from unisono.problems.gaussian_family import Natural, mean, variances
from unisono.problems.likelihoods import Likelihood, expected_gradients, score_slopes


def from_coordinates(point: Any) -> Natural:
    """The density at the coordinates (m, log v) of the climb: (2p,) -> diagonal Natural."""
    centre, log_variance = jnp.split(point, 2)
    precision = jnp.exp(-log_variance)
    return Natural(centre * precision, precision)


def to_coordinates(q: Natural) -> Any:
    """Where a diagonal density stands: (m, log v), shape (2p,).

    >>> to_coordinates(Natural(jnp.array([6.0]), jnp.array([1.0]))).tolist()
    [6.0, -0.0]
    """
    return jnp.concatenate([mean(q), -jnp.log(q.precision)])


def data_gradients(
    likelihood: Likelihood, q: Natural, rows: Any, labels: Any, normals: Any = None
) -> Any:
    """Every record's part of the gradient, (n, 2p): the part to clip and to noise."""
    return jnp.concatenate(expected_gradients(likelihood, q, rows, labels, normals), axis=-1)


def data_free_gradient(q: Natural, cavity: Natural) -> Any:
    """The entropy's and the cavity's part, (2p,): no data, hence neither clipped nor noised."""
    by_mean = cavity.shift - cavity.precision * mean(q)
    return jnp.concatenate([by_mean, 0.5 * (q.precision - cavity.precision)])


def in_log_variance(q: Natural, gradient: Any) -> Any:
    """The same gradient with respect to (m, log v): post-processing."""
    by_mean, by_variance = jnp.split(gradient, 2)
    return jnp.concatenate([by_mean, by_variance * variances(q)])


def free_energy(likelihood: Likelihood, q: Natural, cavity: Natural, rows: Any, labels: Any) -> Any:
    """F(q) up to the cavity's normaliser, for likelihoods of a score: what the gradients climb."""
    centre, spread = mean(q), variances(q)
    entropy = 0.5 * jnp.sum(1 + math.log(2 * math.pi) + jnp.log(spread))
    fit = jnp.sum(score_slopes(likelihood, q, rows, labels).value)
    others = cavity.shift @ centre - 0.5 * cavity.precision @ (centre**2 + spread)
    return entropy + fit + others
