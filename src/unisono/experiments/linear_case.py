"""The thesis's case study: one unknown slope, y = θx + N(0, σ_e²), spread over parties.

The posterior needs two sums only, S = Σ x² and R = Σ xy (Sharma 2019, eq. 4.9-4.10):

    precision = 1/σ_θ² + S/σ_e²,      shift = precision · mean = R/σ_e²

and the distance of an answer q from the posterior p is KL(q‖p). Everything here is a pure function
on arrays whose leading axes are free (seeds, clips, ...); a factor is a `Natural` of scalars.

σ_θ = 5 is a standard deviation, as figure 4.1 says. "N(0, 5)", in the captions of figures 4.3, 4.4
and 4.6, is a variance of 5 by the thesis's own convention (4.2). Those figures are run under both
readings, `PRIOR_VARIANCES`, of which a standard deviation of 5 gives the numbers of the text. The
thesis's code mixes the two: it learns with the variance 25 and compares with a posterior whose
prior *variance* is 5, `posterior(..., prior_variance=5)`.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.problems.gaussian_family import Natural, kl

NOISE_STD, PRIOR_STD, DELTA = 0.5, 5.0, 1e-5
PRIOR = Natural(0.0, PRIOR_STD**-2)
# What "N(0, 5)" can mean: the figures are matched by the first, the notation says the second.
PRIOR_VARIANCES = {"standard deviation 5": PRIOR_STD**2, "variance 5": 5.0}


class Shards(NamedTuple):
    """Data sets: slopes (seeds,), and x, y of shape (seeds, parties, points)."""

    slope: Any
    x: Any
    y: Any


def thesis_shards(
    seeds: Any,
    parties: int,
    points: int,
    slope: float | None = None,
    prior_variance: float = PRIOR_STD**2,
) -> Shards:
    """The thesis's data: legacy NumPy streams, one per seed.

    The slope is drawn first (unless it is fixed). Every party then draws the *whole* data set
    afresh and keeps its own part of it, and 2 x 200 test points that are never used; so all
    parties' records are independent, as they should be.
    """
    spread = math.sqrt(prior_variance)
    sets = [_one_set(int(seed), parties, points, slope, spread) for seed in seeds]
    return Shards(*(np.array(part) for part in zip(*sets, strict=True)))


def _one_set(
    seed: int, parties: int, points: int, slope: float | None, spread: float
) -> tuple[Any, Any, Any]:
    stream = np.random.RandomState(seed)
    theta = stream.normal(0.0, spread) if slope is None else slope
    shards = []
    for party in range(parties):
        x = stream.randn(parties * points)
        y = theta * x + NOISE_STD * stream.randn(parties * points)
        stream.randn(400)
        own = slice(party * points, (party + 1) * points)
        shards.append((x[own], y[own]))
    return theta, np.array([x for x, _ in shards]), np.array([y for _, y in shards])


def records(shards: Shards) -> Any:
    """Every record's statistic (xy, x²), (..., 2): shift first, as in `Natural`."""
    return np.stack([shards.x * shards.y, shards.x**2], axis=-1)


def clipped_sums(rows: Any, clip: Any) -> Any:
    """Σ over a party's records of the statistic, clipped to norm `clip` (Sharma 2019, eq. 4.19)."""
    norms = jnp.linalg.norm(rows, axis=-1, keepdims=True)
    return jnp.sum(rows / jnp.maximum(1.0, norms / clip), axis=-2)


def as_factor(statistic: Any) -> Natural:
    """(Σxy, Σx²) as a likelihood factor: divided by σ_e²."""
    return Natural(statistic[..., 0] / NOISE_STD**2, statistic[..., 1] / NOISE_STD**2)


def posterior(shards: Shards, prior_variance: float = PRIOR_STD**2) -> Natural:
    """The exact posterior of every data set (seeds,)."""
    seen = as_factor(records(shards).sum((-3, -2)))
    return Natural(seen.shift, seen.precision + 1 / prior_variance)


def divergence(q: Natural, p: Natural) -> Any:
    """KL(q‖p) of scalar Gaussians, element by element; leading axes broadcast."""
    parts = jnp.broadcast_arrays(q.shift, q.precision, p.shift, p.precision)
    rows = jnp.stack([part.reshape(-1) for part in parts], axis=1)[..., None]
    one = jax.vmap(lambda r: kl(Natural(r[0], r[1]), Natural(r[2], r[3])))
    return one(rows).reshape(parts[0].shape)


def with_prior(
    factors: Natural, floor: float = 0.0, prior_variance: float = PRIOR_STD**2
) -> Natural:
    """The prior times a product of factors, whose precision is raised to `floor`."""
    return Natural(factors.shift, 1 / prior_variance + jnp.maximum(factors.precision, floor))


# ------------------------------------------------- the damped iteration of eq. 4.19-4.21

PLACEMENTS = ("statistic", "local", "sum")


def damped_iteration(
    sums: Any, noise: Any, damping: float, placement: str, prior_variance: float = PRIOR_STD**2
) -> Natural:
    """q after every round (rounds, ...), from sums (..., parties, 2) and noise (rounds, ...).

    In each round a party's noisy statistic s replaces its factor by t + η (s/σ_e² - t). A negative
    precision is raised to zero in the statistic (eq. 4.20), in the damped local factor (as the
    thesis's code did when its figures were drawn), or, without bias, in the sum.
    """

    def one_round(factors: Natural, fresh: Any) -> tuple[Natural, Natural]:
        seen = as_factor(sums + fresh)
        if placement == "statistic":
            seen = seen._replace(precision=jnp.maximum(seen.precision, 0.0))
        shift = factors.shift + damping * (seen.shift - factors.shift)
        precision = factors.precision + damping * (seen.precision - factors.precision)
        if placement == "local":
            precision = jnp.maximum(precision, 0.0)
        factors = Natural(shift, precision)
        together = Natural(shift.sum(-1), precision.sum(-1))
        return factors, with_prior(together, prior_variance=prior_variance)

    start = jnp.zeros(jnp.broadcast_shapes(sums.shape, noise.shape[1:])[:-1])
    return jax.lax.scan(one_round, Natural(start, start), noise)[1]
