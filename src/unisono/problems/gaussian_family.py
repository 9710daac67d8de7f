"""Gaussians by their natural parameters: the one exponential family that inference needs.

A factor is exp(θ·a - ½ θᵀ P θ), with shift a = P·mean and precision P. Densities multiply where
natural parameters add, so a posterior over parties is a sum:

    q(θ) ∝ p(θ) Π_m t_m(θ)          (a, P)_q = (a, P)_p + Σ_m (a, P)_m      (Sharma 2019, eq. 2.17)

A precision of shape (d,) is diagonal (mean-field), of shape (d, d) full. A factor need not be
normalisable; a *density* has positive precision. log ∫ exp(θ·a - ½ θᵀPθ) dθ carries + ½ log|P⁻¹|
(the thesis prints the sign wrongly). Everything works on NumPy and JAX arrays alike.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from unisono.errors import InvalidInput


class Natural(NamedTuple):
    """A factor exp(θ·shift - ½ θᵀ precision θ): shift (d,), precision (d,) or (d, d)."""

    shift: Any
    precision: Any

    @property
    def full(self) -> bool:
        return self.precision.ndim == 2


def gaussian(mean: Any, variance: Any) -> Natural:
    """N(mean, variance): variances (d,) or a covariance (d, d).

    >>> import numpy as np
    >>> gaussian(np.array([1.0]), np.array([4.0]))
    Natural(shift=array([0.25]), precision=array([0.25]))
    """
    if variance.ndim == 1:
        return Natural(mean / variance, 1 / variance)
    precision = variance.__array_namespace__().linalg.inv(variance)
    return Natural(precision @ mean, precision)


def prior(dimension: int, mean: float, variance: float, full: bool = False) -> Natural:
    """Independent N(mean, variance) in every coordinate, as NumPy arrays."""
    if not (math.isfinite(variance) and variance > 0 and math.isfinite(mean)):
        raise InvalidInput(
            f"a prior with mean {mean!r} and variance {variance!r}: the mean must be finite and "
            "the variance a positive number; a flat prior is no density"
        )
    precision = np.full(dimension, 1 / variance)
    return Natural(mean * precision, np.diag(precision) if full else precision)


def flat(like: Natural) -> Natural:
    """The factor 1, shaped like another."""
    return Natural(0 * like.shift, 0 * like.precision)


def product(*factors: Natural) -> Natural:
    """The product of factors: natural parameters add (Sharma 2019, eq. 4.6)."""
    return Natural(sum(f.shift for f in factors), sum(f.precision for f in factors))


def quotient(above: Natural, below: Natural) -> Natural:
    """above / below (Sharma 2019, eq. 4.7); a density only where the precision stays positive."""
    return Natural(above.shift - below.shift, above.precision - below.precision)


def power(factor: Natural, exponent: Any) -> Natural:
    """factor ** exponent: a damped change, or a fraction of a factor."""
    return Natural(exponent * factor.shift, exponent * factor.precision)


def mean(q: Natural) -> Any:
    if not q.full:
        return q.shift / q.precision
    return q.shift.__array_namespace__().linalg.solve(q.precision, q.shift[:, None])[:, 0]


def covariance(q: Natural) -> Any:
    xp = q.precision.__array_namespace__()
    return xp.linalg.inv(q.precision) if q.full else xp.diag(1 / q.precision)


def variances(q: Natural) -> Any:
    """Marginal variances (d,)."""
    xp = q.precision.__array_namespace__()
    return xp.diagonal(xp.linalg.inv(q.precision)) if q.full else 1 / q.precision


def score_variances(q: Natural, rows: Any) -> Any:
    """Var_q[x·θ] for every row (n, d) -> (n,)."""
    if not q.full:
        return (rows * rows) @ (1 / q.precision)
    return ((rows @ covariance(q)) * rows).sum(-1)


def log_determinant(q: Natural) -> Any:
    """log |precision|."""
    xp = q.precision.__array_namespace__()
    return xp.linalg.slogdet(q.precision)[1] if q.full else xp.log(q.precision).sum()


def log_normaliser(q: Natural) -> Any:
    """log ∫ exp(θ·a - ½ θᵀPθ) dθ = ½ aᵀP⁻¹a - ½ log|P| + d/2 log 2π (corrects 4.4)."""
    size = q.shift.shape[0]
    return 0.5 * (q.shift @ mean(q) - log_determinant(q) + size * math.log(2 * math.pi))


def log_density(q: Natural, theta: Any) -> Any:
    """log q(θ) of one θ (d,)."""
    bent = q.precision @ theta if q.full else q.precision * theta
    return theta @ q.shift - 0.5 * (theta @ bent) - log_normaliser(q)


def kl(q: Natural, p: Natural) -> Any:
    """KL(q || p) between densities of one shape, in nats.

    >>> import numpy as np
    >>> standard = gaussian(np.zeros(1), np.ones(1))
    >>> float(kl(gaussian(np.ones(1), np.ones(1)), standard))
    0.5
    """
    apart = mean(q) - mean(p)
    size = q.shift.shape[0]
    if q.full:
        trace = (p.precision * covariance(q)).sum()
        bent = p.precision @ apart
    else:
        trace = (p.precision / q.precision).sum()
        bent = p.precision * apart
    return 0.5 * (trace - size + apart @ bent + log_determinant(q) - log_determinant(p))


def sample(q: Natural, normals: Any) -> Any:
    """Draws from q out of standard normals (k, d): mean + L⁻ᵀ z with P = L Lᵀ."""
    xp = q.precision.__array_namespace__()
    if not q.full:
        return mean(q) + normals / xp.sqrt(q.precision)
    factor = xp.linalg.cholesky(q.precision)
    return mean(q) + xp.linalg.solve(factor.T, normals.T).T


def project(q: Natural, floor: float) -> tuple[Natural, Any]:
    """Precision raised to at least `floor`, and how many directions had to be raised.

    Noise can make a precision negative; raising it *after* a release is post-processing. Raising
    every party's own statistic instead biases the sum. The shift is kept, so that a
    direction without information is drawn towards zero.
    """
    xp = q.precision.__array_namespace__()
    if not q.full:
        return Natural(q.shift, xp.maximum(q.precision, floor)), (q.precision < floor).sum()
    values, vectors = xp.linalg.eigh(symmetric(q.precision))
    raised = symmetric((vectors * xp.maximum(values, floor)) @ vectors.T)
    return Natural(q.shift, raised), (values < floor).sum()


def fall_back(q: Natural, prior: Natural, floor: float) -> tuple[Natural, Any]:
    """q, but the prior in every direction whose precision lies below `floor`; and how many.

    Such a direction holds noise alone: a raised precision with the noisy shift would put its mean
    anywhere. A hair below the floor (a thousandth) is rounding.
    """
    xp = q.precision.__array_namespace__()
    least = floor * (1 - 1e-3)
    if not q.full:
        low = q.precision < least
        shift = xp.where(low, prior.shift, q.shift)
        return Natural(shift, xp.where(low, prior.precision, q.precision)), low.sum()
    values, vectors = xp.linalg.eigh(symmetric(q.precision))
    low = values < least
    shift = vectors @ xp.where(low, vectors.T @ prior.shift, vectors.T @ q.shift)
    along = ((vectors.T @ prior.precision) * vectors.T).sum(-1)
    precision = (vectors * xp.where(low, along, values)) @ vectors.T
    return Natural(shift, symmetric(precision)), low.sum()


def symmetric(matrix: Any) -> Any:
    """The symmetric part: rounding errors that are not symmetric grow from round to round."""
    return (matrix + matrix.T) / 2


# ---------------------------------------------------- as vectors, for releases


def packed_size(dimension: int, full: bool) -> int:
    """How many numbers a packed factor has."""
    return dimension + (dimension * (dimension + 1) // 2 if full else dimension)


def pack(factor: Natural) -> Any:
    """One vector with the factor's l2 norm: shift, then precision.

    The upper triangle of a full precision carries sqrt(2) off the diagonal, so that the l2 norm
    of the vector is the Frobenius norm of the matrix and clipping treats all entries alike.
    """
    xp = factor.shift.__array_namespace__()
    if not factor.full:
        return xp.concatenate([factor.shift, factor.precision])
    size = factor.shift.shape[0]
    rows, columns = np.triu_indices(size)
    weight = _triangle_weights(size).astype(factor.shift.dtype)
    return xp.concatenate([factor.shift, factor.precision[rows, columns] * weight])


def unpack(vector: Any, dimension: int, full: bool) -> Natural:
    """The factor whose `pack` this is."""
    shift, rest = vector[:dimension], vector[dimension:]
    if not full:
        return Natural(shift, rest)
    xp = vector.__array_namespace__()
    halves = rest / _triangle_weights(dimension).astype(vector.dtype)
    return Natural(shift, xp.take(halves, xp.asarray(_positions(dimension))))


def _triangle_weights(size: int) -> Any:
    rows, columns = np.triu_indices(size)
    return np.where(rows == columns, 1.0, math.sqrt(2))


def _positions(size: int) -> Any:
    """Where entry (i, j) of a symmetric matrix stands in its packed upper triangle: (d, d)."""
    rows, columns = np.triu_indices(size)
    positions = np.zeros((size, size), int)
    positions[rows, columns] = positions[columns, rows] = np.arange(len(rows))
    return positions
