"""The minimiser of a regularised linear model, to a public tolerance, with a certificate.

    J(θ) = (1/N) sum over records of l(θ; x, y)  +  (λ/2) ||θ||²  +  b·θ

J is λ-strongly convex, so ||θ - θ*|| <= ||grad J(θ)|| / λ for *every* θ: whatever the solver did,
the gradient norm at the point it returns, computed in double precision and enlarged by a bound on
its own rounding (`rounding`), certifies how far the exact minimiser can be. A bound compares the
certificate with its public tolerance, never with what the solver happened to reach.

A party that fell out because of its data would tell something about them, so the tolerance is
never missed: Nesterov's method runs for a public number of steps that is proved to reach it. Scalar
losses with at most 512 parameters first take a fixed number of Newton steps with an exact line
search, which nearly always suffice; only where they do not does Nesterov's method follow.

Everything runs in double precision inside the caller's 32-bit program.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.events import positive
from unisono.problems.losses import Loss, bounded_records

NEWTON_STEPS, NEWTON_PARAMETERS = 16, 512
_HALVINGS = 20
# IEEE double precision: relative error of one rounded operation.
_UNIT = 2.0**-53


class Problem(NamedTuple):
    """J in double precision: rows (n, d) in the unit ball, labels (n,), switches (n,), N, λ, b."""

    loss: Loss
    features: Any
    labels: Any
    keep: Any
    normaliser: Any
    regularisation: float
    tilt: Any


class Solution(NamedTuple):
    """A point and a proved upper bound on the norm of the gradient there."""

    parameters: Any
    certified: Any


def radius(loss: Loss, regularisation: float, classes: int = 2) -> float:
    """Every minimiser (b = 0) lies in the ball of this radius: (λ/2)||θ*||² <= J(0) = l(0), and
    λ ||θ*|| <= ||grad of the mean loss|| <= G.

    >>> from unisono.problems.losses import LOSSES
    >>> round(radius(LOSSES["logistic"], 0.01), 2)
    11.77
    """
    positive(regularisation=regularisation)
    at_zero = {"logistic": math.log(2), "multinomial": math.log(classes), "squares": 0.5}
    by_value = math.sqrt(2 * at_zero.get(loss.name, 1.0) / regularisation)
    return min(by_value, loss.lipschitz / regularisation)


def lipschitz(loss: Loss, regularisation: float, classes: int = 2) -> float:
    """Largest gradient of one record at any minimiser, rounding of the rows included.

    For squares with labels in [-1, 1] it is ||θ*|| + 1: the sensitivity proof needs the gradient
    of a record only at the minimiser of a neighbour.
    """
    slope = loss.lipschitz
    if not math.isfinite(slope):
        slope = 1.0 + radius(loss, regularisation, classes)
    return slope * (1 + 1e-9)


def steps_needed(
    loss: Loss,
    parameters: int,
    regularisation: float,
    tolerance: float,
    crowding: float = 1.0,
    gap: float = 0.0,
) -> int:
    """How many steps `minimise` takes, from public numbers only.

    With S = smoothness * crowding and κ = (S + λ) / λ, Nesterov's method has
    J - J* <= 2 (J(0) - J*) (1 - κ^(-1/2))^k, and ||grad J||² <= 2 (S + λ) (J - J*). Without a tilt
    J* >= 0 and J(0) <= 16 crowding for any number of classes; with one, `gap` bounds J(0) - J*.
    """
    if loss.curvatures is not None and parameters <= NEWTON_PARAMETERS:
        return NEWTON_STEPS
    return _proved_steps(loss, regularisation, tolerance, crowding, gap)


def _proved_steps(
    loss: Loss, regularisation: float, tolerance: float, crowding: float, gap: float
) -> int:
    """Steps of Nesterov's method after which the gradient is below the tolerance, from any point
    with J no larger than J(0)."""
    steep = loss.smoothness * crowding + regularisation
    far = math.log(4 * max(16 * crowding, gap) * steep / tolerance**2)
    return math.ceil(math.sqrt(steep / regularisation) * far + 1)


def minimise(
    loss: Loss,
    features: Any,
    labels: Any,
    mask: Any,
    normaliser: Any,
    regularisation: float,
    shape: tuple[int, ...],
    tolerance: float,
    tilt: Any = None,
    crowding: float = 1.0,
    gap: float = 0.0,
    enough: Any = None,
) -> Solution:
    """Solve to the tolerance; features (n, d), labels (n,), mask (n,) -> Solution in float64.

    Call inside `jax.enable_x64(True)`. Records that are masked out or not finite count as zero.
    `crowding` bounds records / normaliser, where sizes are nominal; `gap` bounds J(0) - J*, where
    there is a tilt. The number of steps follows from the tolerance, the same for all parties;
    `enough`, at least as large, may be a party's own.
    """
    wide, marked = jnp.asarray(features, np.float64), jnp.asarray(labels, np.float64)
    rows, marks, keep = bounded_records(loss, wide, marked, mask)
    count = jnp.asarray(normaliser, np.float64)
    zero = jnp.zeros(shape, np.float64)
    problem = Problem(
        loss,
        rows,
        marks,
        keep,
        count,
        regularisation,
        zero if tilt is None else jnp.asarray(tilt, np.float64),
    )
    parameters = math.prod(shape)
    steps = steps_needed(loss, parameters, regularisation, tolerance, crowding, gap)
    if loss.curvatures is None or parameters > NEWTON_PARAMETERS:
        return _certified(problem, _nesterov(problem, zero, steps, crowding))
    first = _certified(problem, _newton(problem, zero, steps))
    proved = _proved_steps(loss, regularisation, tolerance, crowding, gap)
    enough = tolerance if enough is None else enough

    def go_on(carry: tuple[Any, Solution]) -> Any:
        return jnp.logical_and(carry[0], carry[1].certified > enough)

    def finish(carry: tuple[Any, Solution]) -> tuple[Any, Solution]:
        point = _nesterov(problem, carry[1].parameters, proved, crowding)
        return jnp.asarray(False), _certified(problem, point)

    return jax.lax.while_loop(go_on, finish, (jnp.asarray(True), first))[1]


def _certified(problem: Problem, point: Any) -> Solution:
    """A point with its certificate."""
    slope = gradient(problem, point)
    return Solution(point, jnp.sqrt(jnp.sum(slope**2)) + rounding(problem, point))


def gradient(problem: Problem, parameters: Any) -> Any:
    """grad J, the shape of the parameters."""
    slopes = problem.loss.slopes(problem.features @ parameters, problem.labels)
    switch = problem.keep if slopes.ndim == 1 else problem.keep[:, None]
    mean = problem.features.T @ jnp.where(switch, slopes, 0.0) / problem.normaliser
    return mean + problem.regularisation * parameters + problem.tilt


def rounding(problem: Problem, parameters: Any) -> Any:
    """How far the computed gradient norm may be from the true one; twice what is proved.

    In units of 2^-53, with n rows of norm <= 1 of N: a score errs by (d + 2) ||θ||, a slope by
    smoothness times that and 64 for exponentials; their sum over n records, in any order, by
    n (n + 4) G / N; regulariser and tilt by 4 (λ ||θ|| + ||b||), and the norm of p numbers by
    (p + 2) of itself.
    """
    rows, width = problem.features.shape
    size = jnp.sqrt(jnp.sum(parameters**2))
    steep = problem.loss.lipschitz if math.isfinite(problem.loss.lipschitz) else 1.0 + size
    share = rows / problem.normaliser
    each = problem.loss.smoothness * (width + 2) * size + 64.0
    rest = problem.regularisation * size + jnp.sqrt(jnp.sum(problem.tilt**2))
    norm = (parameters.size + 2) * (steep * share + rest)
    return 2 * _UNIT * (share * (each + (rows + 4) * steep) + 4 * rest + norm)


def _newton(problem: Problem, start: Any, steps: int) -> Any:
    """Newton's method; the line search bisects the derivative along the direction."""
    loss, rows, keep = problem.loss, problem.features, problem.keep
    assert loss.curvatures is not None
    bend = loss.curvatures

    def step(_: Any, parameters: Any) -> Any:
        scores = rows @ parameters
        weights = jnp.where(keep, bend(scores, problem.labels), 0.0) / problem.normaliser
        hessian = (rows * weights[:, None]).T @ rows
        hessian = hessian + problem.regularisation * jnp.eye(rows.shape[1], dtype=np.float64)
        slope = gradient(problem, parameters)
        factor = jax.scipy.linalg.cho_factor(hessian)
        move = -jax.scipy.linalg.cho_solve(factor, slope)
        moved = jnp.where(keep, rows @ move, 0.0)

        def along(length: Any) -> Any:
            change = loss.slopes(scores + length * moved, problem.labels) @ moved
            point = parameters + length * move
            rest = problem.regularisation * point + problem.tilt
            return change / problem.normaliser + rest @ move

        def halve(_: Any, bracket: Any) -> Any:
            low, high = bracket
            middle = 0.5 * (low + high)
            uphill = along(middle) > 0
            return jnp.where(uphill, low, middle), jnp.where(uphill, middle, high)

        # A full step is kept where it nearly solves the line: that is what converges fast.
        full = along(1.0) <= 0.1 * jnp.abs(slope @ move)
        zero, one = jnp.zeros((), np.float64), jnp.ones((), np.float64)
        low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (zero, one))
        return parameters + jnp.where(full, 1.0, 0.5 * (low + high)) * move

    return jax.lax.fori_loop(0, steps, step, start)


def _nesterov(problem: Problem, start: Any, steps: int, crowding: float) -> Any:
    """Nesterov's method with constant momentum for a strongly convex, smooth J."""
    steep = problem.loss.smoothness * crowding + problem.regularisation
    root = math.sqrt(problem.regularisation / steep)
    momentum = (1 - root) / (1 + root)

    def step(_: Any, carry: Any) -> Any:
        parameters, ahead = carry
        after = ahead - gradient(problem, ahead) / steep
        return after, after + momentum * (after - parameters)

    return jax.lax.fori_loop(0, steps, step, (start, start))[0]
