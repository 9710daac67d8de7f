"""Releases inside a compiled loop: fresh noise for every step, from one paid draw.

A key that is used inside `lax.scan` is traced once and would give the same noise in every
step (X-2). `fold` is the only way to release in a loop: it pays for all steps first, derives
a ChaCha20 key per step, and adds the noise itself between the two halves of the body.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.events import Event, Gaussian
from unisono.core.grant import Draw
from unisono.core.noise.chacha import key_from_bytes
from unisono.core.noise.in_graph import gaussian_on_grid
from unisono.core.noise.in_graph_error import composed_error
from unisono.core.release import require_paid_for
from unisono.core.values import Contribution
from unisono.errors import GrantMisused

Before = Callable[[Any, Any], Contribution]
After = Callable[[Any, Any, Any], Any]

# Times e^epsilon this must stay far below any delta.
FAILURE = 1e-18


def in_graph_event(event: Event, grid: float, dimension: int, steps: int) -> Event:
    """The event of one step whose noise is drawn in the graph: same noise, sampler's error added.

    The error of all `steps * dimension` draws is bounded once and shared evenly (X-11).
    """
    if not isinstance(event.noise, Gaussian):
        raise GrantMisused(f"{type(event.noise).__name__} has no in-graph sampler: use Gaussian")
    error = composed_error(steps * dimension, event.noise.std / grid, FAILURE)
    noise = replace(event.noise, gap=error.delta / steps, slack=error.epsilon / steps)
    return replace(event, noise=noise)


def fold(
    draw: Draw, event: Event, grid: float, steps: int, before: Before, after: After, carry: Any
) -> Any:
    """For every step: contribution = before(carry, step); carry = after(carry, noised, step).

    One compiled scan. The noise is added here, between the two functions, so that nothing inside
    them can use it twice; `noised` is in the value's own units. The event, made by
    `in_graph_event`, is paid `steps` times before the loop begins.
    """
    shape = jax.eval_shape(before, carry, jnp.uint32(0))
    require_paid_for(shape, event, grid)
    noise = event.noise
    if not isinstance(noise, Gaussian):
        raise GrantMisused(f"{type(noise).__name__} has no in-graph sampler: use Gaussian")
    dimension = int(np.prod(shape.value.shape))
    error = composed_error(steps * dimension, noise.std / grid, FAILURE)
    if noise.slack * steps < error.epsilon * (1 - 1e-9) or noise.gap * steps < error.delta * (
        1 - 1e-9
    ):
        raise GrantMisused(
            "noise in a compiled loop has a sampler's error that this event does not carry: use "
            "in_graph_event with the true dimension and number of steps"
        )
    key = key_from_bytes(draw.take(event, times=steps))

    def step(state: Any, number: Any) -> tuple[Any, None]:
        value = before(state, number).value
        fresh = jax.random.fold_in(key, number)
        noised = (value + gaussian_on_grid(fresh, value.shape, noise.std / grid)) * grid
        return after(state, noised, number), None

    return jax.lax.scan(step, carry, jnp.arange(steps, dtype=jnp.uint32))[0]
