"""Secret sampling, and calibration of whatever is sampled.

A sampler is a wrapper that emits its own event: `Poisson(rate)`, `WithoutReplacement(size,
population)` or `Everyone()`. The draw tosses the coins itself and refuses an event that names
another sampler, so Poisson is never claimed for a shuffle. Guarantees: Poisson amplifies under
every relation, a fixed-size subset under replace-one only; both only against those who do not
see who was chosen.
"""

from collections.abc import Callable

from unisono.accounting.calibrate import smallest_scale
from unisono.core.events import Event, Sampler
from unisono.core.trust import Relation


def sampled(event: Event, sampler: Sampler) -> Event:
    """The same noise and sensitivity over a secret sample."""
    return Event(event.noise, event.sensitivity, sampler)


def calibrate_scale(
    event: Callable[[float], Event],
    relation: Relation,
    epsilon: float,
    delta: float,
    count: int,
    start: float,
    floor: float = 0.0,
) -> float:
    """Smallest noise scale at which `count` releases of `event(scale)` fit (epsilon, delta)."""
    return smallest_scale(
        lambda scale: event(scale) * count, relation, epsilon, delta, start=start, floor=floor
    )
