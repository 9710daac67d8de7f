"""Model inversion: from a released model back to what its records look like.

From a classifier's confidences (Fredrikson et al. 2014, 2015, the attack that motivates 003):

    class_image         maximise log p(class | x) - λ |x - x_0|² within the range of the features:
                        what the model takes for typical; a person, where a class is a person
    missing_attribute   someone's other attributes, label and confidence are known: the value
                        maximising prior(v) L(confidence seen; model(x with v))

From a Bayesian posterior N(mean, Σ) of y = θ·x + N(0, σ_e²) with a public Gaussian prior the
likelihood's natural parameters are the sufficient statistics (Sharma 2019, eq. 4.19-4.21):

    XᵀX = σ_e² (Σ⁻¹ - Σ_0⁻¹)            Xᵀy = σ_e² (Σ⁻¹ mean - Σ_0⁻¹ mean_0)

so that an exact posterior is the data up to a rotation, and two posteriors, before and after
somebody joined, differ by x xᵀ / σ_e² and x y / σ_e² of that person: `newcomer` reads them off.
Nothing here is secret but the records; the viewer is whoever sees the released model.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from unisono.attacks.linear_recovery import RecoveredRecord, Statistics, record_of
from unisono.core.events import positive
from unisono.errors import InvalidInput
from unisono.problems.gaussian_family import Natural, quotient


def class_image(
    predict: Callable[[Any], Any],
    label: int,
    start: Any,
    low: float = 0.0,
    high: float = 1.0,
    weight: float = 0.01,
    steps: int = 200,
) -> np.ndarray:
    """The row (d,) that a model takes for its class `label`, close to a public `start` (d,).

    `predict(rows)` (n, d) -> scores (n, classes) is the released model; `weight` is λ.
    """
    centre = np.asarray(start, float)
    if not (low < high and centre.ndim == 1):
        raise InvalidInput(
            f"a start of shape {centre.shape} in [{low}, {high}]: give one row, and low below high"
        )

    def height(row: Any) -> Any:
        scores = jax.nn.log_softmax(predict(row[None])[0])
        return weight * jnp.sum((row - centre) ** 2) - scores[label]

    with jax.enable_x64(True):
        compiled = jax.jit(jax.value_and_grad(height))
        end = minimize(
            lambda row: tuple(np.asarray(part, float) for part in compiled(row)),
            centre.clip(low, high),
            jac=True,
            method="L-BFGS-B",
            bounds=[(low, high)] * len(centre),
            options={"maxiter": steps},
        )
    return np.asarray(end.x)


def missing_attribute(
    confidences: Callable[[np.ndarray], Any],
    seen: Any,
    row: Any,
    column: int,
    values: Sequence[float],
    prior: Sequence[float] | None = None,
    spread: float = 0.05,
) -> tuple[float, np.ndarray]:
    """The most likely value of one attribute, and the probability of each of `values`.

    `seen` (classes,) are the confidences the model answered about the person, whose other
    attributes are in `row` (d,); `confidences(rows)` asks the released model, as anyone may.
    `spread` is how far answers are rounded or noised.
    """
    positive(spread=spread)
    weights = np.full(len(values), 1.0) if prior is None else np.asarray(prior, float)
    if len(values) < 1 or weights.shape != (len(values),) or np.any(weights < 0):
        raise InvalidInput(f"{len(values)} values with prior {prior!r}: one weight >= 0 for each")
    candidates = np.repeat(np.asarray(row, float)[None], len(values), axis=0)
    candidates[:, column] = values
    gaps = np.sum((np.asarray(confidences(candidates)) - np.asarray(seen)) ** 2, axis=1)
    with np.errstate(divide="ignore"):
        logarithms = np.log(weights) - gaps / (2 * spread**2)
    chances = np.exp(logarithms - logarithms.max())
    chances /= chances.sum()
    return float(values[int(np.argmax(chances))]), chances


def statistics_of(posterior: Natural, prior: Natural, noise_std: float) -> Statistics:
    """XᵀX and Xᵀy of all records behind a posterior with full precision (d, d)."""
    positive(noise_std=noise_std)
    likelihood = quotient(posterior, prior)
    if not likelihood.full:
        raise InvalidInput(
            "a mean-field posterior holds the diagonal of XᵀX only: give a full precision (d, d)"
        )
    square = noise_std**2
    return Statistics(square * np.asarray(likelihood.precision), square * likelihood.shift)


def newcomer(before: Natural, after: Natural, noise_std: float) -> RecoveredRecord:
    """The record of whoever joined between two posteriors under the same prior."""
    found = statistics_of(after, before, noise_std)
    return record_of(found.gram, found.moment)
