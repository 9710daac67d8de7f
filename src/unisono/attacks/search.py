"""Minimising an attacker's objective from several starts, within a box.

    lbfgs    SciPy's L-BFGS-B, from one start after another, until one is good enough
    adam     optax's Adam with a cosine decay of its rate, all starts side by side

Both take `objective(vector, evidence)`, a pure JAX function. The evidence is an argument and not a
constant, so that one program serves all attacks of a kind: it is compiled at the first.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.optimize import minimize

Objective = Callable[[Any, Any], Any]
Box = tuple[np.ndarray, np.ndarray]
_MEMORY = 30  # pairs that L-BFGS remembers; the usual 10 need more steps on tanh networks


class Ends(NamedTuple):
    """Where each start that was tried ended, (starts, unknowns), and how high (starts,)."""

    points: np.ndarray
    heights: np.ndarray


def lbfgs(
    objective: Objective, evidence: Any, starts: np.ndarray, box: Box, steps: int, tolerance: float
) -> Ends:
    """One start after another; a height below `tolerance` ends the search."""
    compiled = _with_slope(objective)

    def value(vector: np.ndarray) -> tuple[float, np.ndarray]:
        height, slope = compiled(vector, evidence)
        return float(height), np.asarray(slope)

    def good_enough(intermediate_result: Any) -> None:
        if intermediate_result.fun < tolerance:
            raise StopIteration

    options = {
        "maxiter": steps,
        "maxfun": 2 * steps,
        "maxcor": _MEMORY,
        "ftol": 0.0,
        "gtol": 1e-14,
    }
    bounds = None if np.isinf(box).all() else list(zip(*box, strict=True))
    ends: list[Any] = []
    for start in starts:
        ends.append(
            minimize(
                value,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options=options,
                callback=good_enough,
            )
        )
        if ends[-1].fun < tolerance:
            break
    return Ends(np.array([end.x for end in ends]), np.array([end.fun for end in ends]))


def adam(
    objective: Objective, evidence: Any, starts: np.ndarray, box: Box, steps: int, rate: float
) -> Ends:
    """All starts together, put back into the box after every step."""
    ends, heights = _descent(objective, steps, rate)(jnp.asarray(starts), evidence, *box)
    return Ends(np.asarray(ends), np.asarray(heights))


@lru_cache(maxsize=64)
def _with_slope(objective: Objective) -> Callable[..., Any]:
    return jax.jit(jax.value_and_grad(objective))


@lru_cache(maxsize=64)
def _descent(objective: Objective, steps: int, rate: float) -> Callable[..., Any]:
    optimiser = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def run(start: Any, evidence: Any, low: Any, high: Any) -> tuple[Any, Any]:
        def step(carry: Any, _: None) -> tuple[Any, None]:
            vector, state = carry
            change, state = optimiser.update(jax.grad(objective)(vector, evidence), state)
            return (jnp.clip(vector + change, low, high), state), None

        (end, _), _ = jax.lax.scan(step, (start, optimiser.init(start)), None, steps)
        return end, objective(end, evidence)

    return jax.jit(jax.vmap(run, in_axes=(0, None, None, None)))
