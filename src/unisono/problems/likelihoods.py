"""Log-likelihoods of one record, and their expectations under a Gaussian over the parameters.

Inference needs, per record, the gradient of E_q[log p(y | x, θ)] with respect to q's mean m and
variances v (Bonnet and Price):

    d/dm = E_q[∇ log p],        d/dv = ½ E_q[diagonal of ∇² log p]

Where the record enters through its score s = x·θ alone (linear, logistic, probit), s is Gaussian
under q and both are one-dimensional: slope g = E[l'(s)], bend h = -E[l''(s)], so d/dm = g x and
d/dv = -½ h x². They are computed in closed form or by Gauss-Hermite quadrature, without sampling.
Any other likelihood is sampled with *public* normals: θ = m + sqrt(v) z, and d/dv_j =
E[(∇ log p)_j z_j] / (2 sqrt(v_j)).
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, log_ndtr

from unisono.errors import InvalidInput
from unisono.problems.gaussian_family import Natural, mean, sample, score_variances, variances

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()

# The logistic function as a mixture of eight normal ones, Σ p Φ(k s), off by at most 3e-9
# (Monahan and Stefanski 1992): its mean under a Gaussian has closed form at every width, where
# 32 nodes of quadrature err by a third once the scores' standard deviation is 10.
_MIXTURE = np.array(
    [
        (0.003246343272134, 1.365340806296348),
        (0.051517477033972, 1.059523971016916),
        (0.195077912673858, 0.830791313765644),
        (0.315569823632818, 0.650732166639391),
        (0.274149576158423, 0.508135425366489),
        (0.131076880695470, 0.396313345166341),
        (0.027912418727972, 0.308904252267995),
        (0.001449567805354, 0.238212616409306),
    ]
)


class Likelihood(NamedTuple):
    """log p(y | x, θ) of one record x (d,), y (), with `size(d)` parameters.

    Score likelihoods also have l(s, y), l'(s, y) and l''(s, y) of arrays of scores, and some the
    expectations of l' and l'' over Gaussian scores in closed form, `expected(mean, variance, y)`;
    `slope_bound` and `bend_bound` bound |l'| and |l''|. `exact` says that l is quadratic in s: the
    Gaussian family is conjugate and one step of inference is exact. Studies are told apart by the
    `name`.

    The prediction, E[y] or P(y = 1), is `score_answer(mean, variance)` of Gaussian scores (n,),
    or `answer(θ, x)` of one θ and one record.
    """

    name: str
    size: Callable[[int], int]
    log_density: Callable[[Any, Any, Any], Any]
    scores: Callable[[Any, Any], tuple[Any, Any, Any]] | None = None
    slope_bound: float = math.inf
    bend_bound: float = math.inf
    exact: bool = False
    expected: Callable[[Any, Any, Any], tuple[Any, Any]] | None = None
    score_answer: Callable[[Any, Any], Any] | None = None
    answer: Callable[[Any, Any], Any] | None = None

    @property
    def agreed(self) -> dict[str, Any]:
        """What parties agree on when they agree on this likelihood."""
        return {"likelihood": self.name}


class Slopes(NamedTuple):
    """Per record (n,): E_q[l], g = E_q[l'] and h = -E_q[l'']."""

    value: Any
    slope: Any
    bend: Any


def score_slopes(likelihood: Likelihood, q: Natural, rows: Any, labels: Any) -> Slopes:
    """Expectations over the scores x·θ under q: in closed form where there is one, else by
    Gauss-Hermite quadrature of 32 nodes."""
    if likelihood.scores is None:
        raise InvalidInput(
            f"the likelihood {likelihood.name!r} is no function of a score x·θ: "
            "use expected_gradients with samples"
        )
    centre = rows @ mean(q)
    width = jnp.sqrt(jnp.maximum(score_variances(q, rows), 0.0))
    if likelihood.exact:  # quadratic: three nodes are exact, and their moments have closed form
        value, slope, bend = likelihood.scores(centre, labels)
        return Slopes(value + 0.5 * bend * width**2, slope, -bend)
    scores = centre[:, None] + width[:, None] * jnp.asarray(_NODES, centre.dtype)
    parts = likelihood.scores(scores, labels[:, None])
    value, slope, bend = (part @ jnp.asarray(_WEIGHTS, centre.dtype) for part in parts)
    if likelihood.expected is not None:  # quadrature that nobody reads is not compiled
        slope, bend = likelihood.expected(centre, width**2, labels)
    return Slopes(value, slope, -bend)


def expected_gradients(
    likelihood: Likelihood, q: Natural, rows: Any, labels: Any, normals: Any = None
) -> tuple[Any, Any]:
    """Per record, d/dm and d/dv of E_q[log p]: two arrays (n, p).

    Likelihoods without a score need `normals` (k, p), drawn from public randomness; q is then
    diagonal. Antithetic pairs (z, -z) are formed here, which makes d/dm exact for quadratics.
    """
    if likelihood.scores is not None:
        found = score_slopes(likelihood, q, rows, labels)
        return found.slope[:, None] * rows, -0.5 * found.bend[:, None] * rows * rows
    if normals is None or q.full:
        raise InvalidInput(
            f"the likelihood {likelihood.name!r} is sampled: give public normals (k, p) and a "
            "diagonal q"
        )
    centre, width = mean(q), jnp.sqrt(variances(q))
    both = jnp.concatenate([normals, -normals])
    slopes = jax.vmap(jax.grad(likelihood.log_density), in_axes=(None, 0, 0))

    def one(z: Any) -> tuple[Any, Any]:
        gradient = slopes(centre + width * z, rows, labels)
        return gradient, gradient * (z / (2 * width))

    by_mean, by_variance = jax.lax.map(one, both)
    return by_mean.mean(0), by_variance.mean(0)


def log_likelihoods(likelihood: Likelihood, theta: Any, rows: Any, labels: Any) -> Any:
    """log p of every record at one θ: (n,)."""
    return jax.vmap(likelihood.log_density, in_axes=(None, 0, 0))(theta, rows, labels)


def predictive(likelihood: Likelihood, q: Natural, rows: Any, normals: Any = None) -> Any:
    """The prediction for every row, averaged over q: E[y], or P(y = 1) for two classes."""
    if likelihood.score_answer is not None:
        return likelihood.score_answer(rows @ mean(q), score_variances(q, rows))
    if likelihood.answer is None or normals is None:
        raise InvalidInput(
            f"the likelihood {likelihood.name!r} predicts by sampling: give it an `answer(θ, x)` "
            "and normals (k, p)"
        )
    one = jax.vmap(likelihood.answer, in_axes=(None, 0))
    return jax.vmap(one, in_axes=(0, None))(sample(q, normals), rows).mean(0)


# ------------------------------------------------------------------ the models
# Ready-made ones are made once, so that equal studies are seen to be equal.


def _of_scores(
    name: str,
    scores: Callable[[Any, Any], tuple[Any, Any, Any]],
    predict: Any,
    slope: float,
    bend: float,
    exact: bool = False,
    expected: Any = None,
) -> Likelihood:
    def log_density(theta: Any, row: Any, label: Any) -> Any:
        return scores(row @ theta, label)[0]

    return Likelihood(
        name, lambda features: features, log_density, scores, slope, bend, exact, expected, predict
    )


@lru_cache(maxsize=64)
def linear(noise_std: float) -> Likelihood:
    """y = x·θ + N(0, noise_std²): conjugate."""
    if not (math.isfinite(noise_std) and noise_std > 0):
        raise InvalidInput(
            f"noise_std = {noise_std!r}: the spread of the targets around the line is a positive "
            "number"
        )
    precision = noise_std**-2
    constant = -0.5 * math.log(2 * math.pi) - math.log(noise_std)

    def scores(s: Any, y: Any) -> tuple[Any, Any, Any]:
        miss = y - s
        return constant - 0.5 * precision * miss**2, precision * miss, -precision + 0 * miss

    name = f"linear({float(noise_std)!r})"
    return _of_scores(name, scores, lambda s, v: s, math.inf, precision, exact=True)


def usual_error(likelihood: Likelihood) -> float:
    """How far targets within [-1, 1] usually lie from the line, for a likelihood of normal errors:
    within two of their standard deviations, and half of the range.

    >>> usual_error(linear(0.25)), usual_error(linear(2.0))
    (0.5, 1.0)
    """
    return min(1.0, 2 * likelihood.bend_bound**-0.5)


@cache
def logistic() -> Likelihood:
    """P(y | x) = 1 / (1 + exp(-y x·θ)), y in {-1, +1}."""

    def scores(s: Any, y: Any) -> tuple[Any, Any, Any]:
        chance = jax.nn.sigmoid(-y * s)
        return -jnp.logaddexp(0.0, -y * s), y * chance, -chance * (1 - chance)

    def mixture(s: Any, v: Any) -> tuple[Any, Any]:
        """E[σ] and E[σ'] over scores N(s, v); written out, so that it compiles into one loop."""
        above, height = 0.0 * s, 0.0 * s
        for weight, scale in _MIXTURE.tolist():
            narrowed = scale * jax.lax.rsqrt(1 + scale**2 * v)
            at = narrowed * s
            above = above + weight * erf(at * math.sqrt(0.5))
            height = height + weight * narrowed * jnp.exp(-0.5 * at * at)
        return 0.5 + 0.5 * above, height / math.sqrt(2 * math.pi)

    def expected(s: Any, v: Any, y: Any) -> tuple[Any, Any]:
        chance, height = mixture(-y * s, v)
        return y * chance, -height

    def predict(s: Any, v: Any) -> Any:
        return mixture(s, v)[0]

    return _of_scores("logistic", scores, predict, 1.0, 0.25, expected=expected)


@cache
def probit() -> Likelihood:
    """P(y | x) = Φ(y x·θ), y in {-1, +1}; l'' lies in (-1, 0)."""

    def scores(s: Any, y: Any) -> tuple[Any, Any, Any]:
        logs = log_ndtr(y * s)
        ratio = jnp.exp(-0.5 * s**2 - 0.5 * math.log(2 * math.pi) - logs)
        return logs, y * ratio, -ratio * (y * s + ratio)

    def predict(s: Any, v: Any) -> Any:
        return jnp.exp(log_ndtr(s / jnp.sqrt(1 + v)))

    return _of_scores("probit", scores, predict, math.inf, 1.0)


def two_layer(
    features: int, hidden: int, activation: Callable[[Any], Any] = jnp.tanh
) -> Likelihood:
    """A network of one hidden layer for two classes: logit = a·σ(W x + b) + c, y in {-1, +1}."""
    if hidden < 1 or features < 1:
        raise InvalidInput(f"a network of {features} inputs and {hidden} hidden units: at least 1")

    def logit(theta: Any, row: Any) -> Any:
        weights = theta[: hidden * features].reshape(hidden, features)
        biases, out = theta[hidden * features : -hidden - 1], theta[-hidden - 1 :]
        return activation(weights @ row + biases) @ out[:-1] + out[-1]

    def log_density(theta: Any, row: Any, label: Any) -> Any:
        return -jnp.logaddexp(0.0, -label * logit(theta, row))

    def answer(theta: Any, row: Any) -> Any:
        return jax.nn.sigmoid(logit(theta, row))

    return Likelihood(
        f"two-layer({features}, {hidden}, {getattr(activation, '__name__', 'custom')})",
        lambda _: hidden * (features + 2) + 1,
        log_density,
        answer=answer,
    )


def custom(
    log_density: Callable[[Any, Any, Any], Any],
    size: int,
    name: str = "custom",
    answer: Callable[[Any, Any], Any] | None = None,
) -> Likelihood:
    """Any JAX function log p(θ (size,), x (d,), y ()) -> () of one record."""
    if size < 1:
        raise InvalidInput(f"size = {size!r}: a likelihood has at least one parameter")
    return Likelihood(name, lambda _: size, log_density, answer=answer)


def likelihood_named(name: str, noise_std: float = 1.0) -> Likelihood:
    """A ready-made score likelihood.

    >>> likelihood_named("probit").bend_bound
    1.0
    """
    makers: dict[str, Callable[[], Likelihood]] = {
        "linear": lambda: linear(noise_std),
        "logistic": logistic,
        "probit": probit,
    }
    if name not in makers:
        raise InvalidInput(f"unknown likelihood {name!r}: choose one of {', '.join(makers)}")
    return makers[name]()
