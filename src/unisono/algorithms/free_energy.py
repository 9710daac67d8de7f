"""The free energies of partitioned inference, local and global, and their gradients.

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

What all parties climb together is the global free energy, the evidence lower bound (Bui et al.
2018; Sharma 2019, definition 2.2.2):

    F(q) = E_q[log p(θ) Π_m p(X_m | θ) / q(θ)] = Σ_m E_q[log p(X_m | θ)] - KL(q ‖ p)
         = log p(X) - KL(q ‖ posterior)

Let q* = p Π_m t_m be normalised, and F_m(q) = E_q[log q* p(X_m | θ) / (q t_m)] the local free
energies around it. As log q*/p = Σ log t_m, for every q

    Σ_m F_m(q) = F(q) - (M - 1) KL(q ‖ q*)

and KL(q ‖ q*) and its gradient vanish at q*. Hence the properties of partitioned inference
(Bui et al. 2018; Sharma 2019, theorem 2.2.3):

    1.  Σ_m F_m(q*) = F(q*), whether the parties have converged or not
    2.  Σ_m ∇F_m(q*) = ∇F(q*): where every party is at a stationary point of its own free energy,
        q* is a stationary point of the global one

Published as "is a maximum of the global one", the second is false in general: a joint maximum of
the F_m can be a minimum of F. It is right where F has one stationary point, as for conjugate models
and log-concave likelihoods of a score (Challis and Barber 2013). These functions read records
without noise, to check inference on data one may look at; they release nothing.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from unisono.errors import InvalidInput
from unisono.problems.gaussian_family import (
    Natural,
    covariance,
    kl,
    log_normaliser,
    mean,
    product,
    quotient,
    variances,
)
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


# ------------------------------------------------------------- all parties together


def global_free_energy(
    likelihood: Likelihood, q: Natural, prior: Natural, rows: Any, labels: Any
) -> Any:
    """F(q) = Σ E_q[log p(y | x, θ)] - KL(q ‖ prior) over all records: at most log p(X).

    One record y = 1 at x = 1 with unit noise and prior N(0, 1): the posterior N(½, ½) attains
    log p(y) = log N(1; 0, 2).

    >>> from unisono.problems.gaussian_family import gaussian
    >>> from unisono.problems.likelihoods import linear
    >>> one, half = jnp.ones(1), jnp.full(1, 0.5)
    >>> at = global_free_energy(linear(1.0), gaussian(half, half), gaussian(0 * one, one),
    ...                         jnp.ones((1, 1)), one)
    >>> round(float(at), 4), round(-0.5 * math.log(4 * math.pi) - 0.25, 4)
    (-1.5155, -1.5155)
    """
    return jnp.sum(score_slopes(likelihood, q, rows, labels).value) - kl(q, prior)


def local_free_energies(
    likelihood: Likelihood,
    q: Natural,
    prior: Natural,
    factors: Natural,
    parties: Sequence[tuple[Any, Any]],
) -> Any:
    """F_m(q) of every party (M,) around q* = prior Π t_m; factors (M, ...) are as `infer` has them.

    F_m(q) = E_q[log p(X_m | θ)] - KL(q ‖ q*) - E_q[log t_m]. Factors are known up to a constant;
    each carries an equal part of the one that normalises q*, so that the sum is free of it:
    Σ_m F_m(q) = F(q) - (M - 1) KL(q ‖ q*).
    """
    apart = _split(factors, parties)
    centre = product(prior, *apart)
    constant = (log_normaliser(prior) - log_normaliser(centre)) / len(apart)
    away = kl(q, centre)
    found = []
    for factor, (rows, labels) in zip(apart, parties, strict=True):
        fit = jnp.sum(score_slopes(likelihood, q, rows, labels).value)
        found.append(fit - away - _expected_log(q, factor) - constant)
    return jnp.stack(found)


class FixedPoint(NamedTuple):
    """At q* = prior Π t_m: the local free energies (M,) and the global one, and their gradients
    with respect to (m, v), (M, 2p) and (2p,).

    Both columns agree in their sums (theorem 2.2.3). Parties have converged where
    `local_gradients` vanish; then `gradient` does, and q* is stationary for all records together,
    which is a maximum where the global free energy has no other stationary point.
    """

    local: Any
    whole: Any
    local_gradients: Any
    gradient: Any


def fixed_point(
    likelihood: Likelihood, prior: Natural, factors: Natural, parties: Sequence[tuple[Any, Any]]
) -> FixedPoint:
    """Free energies and gradients at q* = prior Π t_m; q* is diagonal, factors are (M, p)."""
    if prior.full:
        raise InvalidInput(
            "gradients in mean and variances belong to a diagonal q, and this prior has a full "
            "precision matrix: use global_free_energy and local_free_energies, which take both"
        )
    apart = _split(factors, parties)
    q = product(prior, *apart)
    data = [data_gradients(likelihood, q, rows, labels).sum(0) for rows, labels in parties]
    own = [data_free_gradient(q, quotient(q, factor)) for factor in apart]
    rows, labels = (jnp.concatenate([jnp.asarray(part[k]) for part in parties]) for k in (0, 1))
    return FixedPoint(
        local_free_energies(likelihood, q, prior, factors, parties),
        global_free_energy(likelihood, q, prior, rows, labels),
        jnp.stack([one + rest for one, rest in zip(data, own, strict=True)]),
        jnp.sum(jnp.stack(data), axis=0) + data_free_gradient(q, prior),
    )


def _split(factors: Natural, parties: Sequence[Any]) -> list[Natural]:
    """One factor for each party, or a refusal."""
    if len(factors.shift) != len(parties):
        raise InvalidInput(
            f"{len(factors.shift)} factors for {len(parties)} parties: give every party's factor "
            "and records, in one order"
        )
    return [Natural(*pair) for pair in zip(factors.shift, factors.precision, strict=True)]


def _expected_log(q: Natural, factor: Natural) -> Any:
    """E_q[θ·a - ½ θᵀPθ] = m·a - ½ (mᵀPm + tr(P V))."""
    centre = mean(q)
    if not q.full:
        return factor.shift @ centre - 0.5 * factor.precision @ (centre**2 + variances(q))
    bent = centre @ factor.precision @ centre + jnp.sum(factor.precision * covariance(q))
    return factor.shift @ centre - 0.5 * bent
