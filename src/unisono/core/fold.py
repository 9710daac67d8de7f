"""Releases inside a compiled loop: fresh noise for every step, from one paid draw.

A key that is used inside `lax.scan` is traced once and would give the same noise in every
step. `fold` pays for all steps first, derives a ChaCha20 key per step, and adds the noise
itself between the two halves of the body; the engines do the same for rounds.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.compiled import abstract
from unisono.core.events import Event
from unisono.core.grant import Draw
from unisono.core.in_graph import in_graph_event, require_error_paid, share_width
from unisono.core.noise.chacha import key_from_bytes
from unisono.core.noise.in_graph import gaussian_on_grid
from unisono.core.release import require_paid_for
from unisono.core.values import Contribution

Before = Callable[[Any, Any], Contribution]
After = Callable[[Any, Any, Any], Any]

__all__ = ["fold", "in_graph_event"]


def fold(
    draw: Draw, event: Event, grid: float, steps: int, before: Before, after: After, carry: Any
) -> Any:
    """For every step: contribution = before(carry, step); carry = after(carry, noised, step).

    One compiled scan. The noise is added here, between the two functions, so that nothing inside
    them can use it twice; `noised` is in the value's own units. The event, made by
    `in_graph_event`, is paid `steps` times before the loop begins.
    """
    bound = abstract(before, carry, jnp.uint32(0))
    require_paid_for(bound, event, grid)
    require_error_paid(event, grid, int(np.prod(bound.value.shape)), steps)
    key, width = key_from_bytes(draw.take(event, times=steps)), share_width(event, grid, 1)

    def step(state: Any, number: Any) -> tuple[Any, None]:
        value = before(state, number).value
        fresh = jax.random.fold_in(key, number)
        noised = (value + gaussian_on_grid(fresh, value.shape, width)) * grid
        return after(state, noised, number), None

    return jax.lax.scan(step, carry, jnp.arange(steps, dtype=jnp.uint32))[0]
