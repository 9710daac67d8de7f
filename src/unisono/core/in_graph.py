"""Noise that is drawn inside a compiled program: the same Gaussian, and its sampler's error.

The in-graph sampler is not exact. All draws of a run together differ from the ideal by a factor
exp(slack) but for a mass `gap`, proved in `core.noise.in_graph_error`; an event carries its
part of both. This module imports no JAX, so that noise can be calibrated without it.
"""

from dataclasses import replace
from functools import lru_cache

from unisono.core.events import Event, Gaussian, releases_of
from unisono.core.noise.in_graph_error import ComposedError, composed_error
from unisono.core.noise.parameters import single_precision
from unisono.errors import ConditionViolated, GrantMisused

# Chances of a draw beyond where the sampler's error is proved; times e^epsilon they must stay far
# below delta. The smallest one at which the error is small is taken; both are accounted for.
FAILURES = (1e-18, 1e-16, 1e-14, 1e-12, 1e-11)
_SMALL = 1e-3


def share_width(event: Event, grid: float, shares: int) -> float:
    """The standard deviation of one share, in grid steps, as the program receives it.

    A 32-bit float, rounded up and so never too narrow. Whoever asks whether the sampler's error is
    proved for a width asks about this number: one that is in range only before it is converted
    would leave the program without noise.
    """
    return _width(_gaussian(event), grid, shares)


def _gaussian(event: Event) -> Gaussian:
    if not isinstance(event.noise, Gaussian):
        raise GrantMisused(f"{type(event.noise).__name__} has no in-graph sampler: use Gaussian")
    return event.noise


def _width(noise: Gaussian, grid: float, shares: int) -> float:
    return single_precision(noise.width(grid, shares))


@lru_cache(maxsize=256)
def run_error(
    noise: Gaussian, grid: float, dimension: int, steps: int, shares: int = 1
) -> ComposedError:
    """How far all draws of a run, of every share, are from ideal ones."""
    width = _width(noise, grid, shares)
    for failure in FAILURES[:-1]:
        try:
            error = composed_error(steps * dimension * shares, width, failure)
        except ConditionViolated:
            continue
        if error.epsilon <= _SMALL:
            return error
    return composed_error(steps * dimension * shares, width, FAILURES[-1])


def in_graph_event(event: Event, grid: float, dimension: int, steps: int, shares: int = 1) -> Event:
    """The event of one step whose noise is drawn in the graph: same noise, sampler's error added.

    The error of all `steps * dimension` draws is bounded once and shared evenly.
    """
    noise = _gaussian(event)
    error = run_error(noise, grid, dimension, steps, shares)
    events = steps / releases_of(event)
    gap = noise.gap + error.delta / events
    return replace(event, noise=replace(noise, gap=gap, slack=error.epsilon / events))


def require_error_paid(
    event: Event, grid: float, dimension: int, steps: int, shares: int = 1
) -> None:
    """Refuse an event that carries less than the sampler's error of `steps` such releases."""
    noise = _gaussian(event)
    error = run_error(noise, grid, dimension, steps, shares)
    events = steps / releases_of(event) * (1 + 1e-9)  # sums of floats
    if noise.slack * events < error.epsilon or noise.gap * events < error.delta:
        raise GrantMisused(
            "noise in a compiled program has a sampler's error that this event does not carry: use "
            "in_graph_event with the true dimension and number of steps"
        )
