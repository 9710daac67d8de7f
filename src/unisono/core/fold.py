"""Releases inside a compiled loop: fresh noise for every step, from one paid draw.

A key that is used inside `lax.scan` is traced once and would give the same noise in every
step (X-2). `fold` is the only way to release in a loop: it pays for all steps first, derives
a ChaCha20 key per step, and hands the body a function that adds that step's noise, once.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from unisono.core.events import Event, Gaussian
from unisono.core.grant import Draw
from unisono.core.noise.chacha import key_from_bytes
from unisono.core.noise.in_graph import gaussian_on_grid
from unisono.core.noise.in_graph_error import composed_error
from unisono.core.values import Contribution, within
from unisono.errors import GrantMisused

Body = Callable[[Any, Callable[[Contribution], Any], Any], Any]


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


def fold(draw: Draw, event: Event, grid: float, steps: int, body: Body, carry: Any) -> Any:
    """Run `carry = body(carry, release, step)` for all steps in one compiled scan.

    `release(contribution)` returns the noised value in its own units; the body calls it exactly
    once. The event, made by `in_graph_event`, is paid `steps` times before the loop begins.
    """
    noise = event.noise
    if not isinstance(noise, Gaussian) or noise.slack == 0:
        raise GrantMisused("noise in a compiled loop has a sampler's error: use in_graph_event")
    key = key_from_bytes(draw.take(event, times=steps))
    width = noise.std / grid

    def step(state: Any, number: Any) -> tuple[Any, None]:
        calls = []

        def release(contribution: Contribution) -> Any:
            if not isinstance(contribution, Contribution) or contribution.grid != grid:
                raise GrantMisused("release a Contribution on the grid that was authorised")
            if not within(contribution.sensitivity, event.sensitivity, noise.norm):
                raise GrantMisused(
                    "the contribution moves further than the event that was paid for"
                )
            calls.append(contribution)
            value = jnp.asarray(contribution.value)
            steps_of_noise = gaussian_on_grid(jax.random.fold_in(key, number), value.shape, width)
            return (value + steps_of_noise) * grid

        after = body(state, release, number)
        if len(calls) != 1:
            raise GrantMisused(
                f"the body released {len(calls)} times in a step: exactly one is paid"
            )
        return after, None

    return jax.lax.scan(step, carry, jnp.arange(steps, dtype=jnp.uint32))[0]
