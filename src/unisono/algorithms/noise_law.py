"""The law of the noise in a sum over parties, for confidence intervals.

With an event of scale s, `survivors` parties answered and `honest` shares were planned for:

    trust            Gaussian: variance      Laplace: characteristic function
    LOCAL            survivors s²            (1 + s² t²)^-survivors
    SECURE_SUM       survivors / honest s²   (1 + s² t²)^-(survivors / honest)
    TRUSTED_SERVER   s²                      (1 + s² t²)^-1

The law of such a sum is the mechanism's to know (`mechanisms.laplace.LaplaceSum` and others).
"""

import numpy as np

from unisono.core.algorithm import Facts
from unisono.core.events import Event
from unisono.core.trust import Trust
from unisono.errors import UnknownEvent
from unisono.mechanisms import MECHANISMS, mechanism_of
from unisono.mechanisms.mechanism import NoiseLaw


def sum_law(event: Event, facts: Facts, trust: Trust, survivors: int, grid: float) -> NoiseLaw:
    """The noise in the opened sum of a round in which `survivors` parties answered."""
    shares = {
        Trust.LOCAL: float(survivors),
        Trust.SECURE_SUM: survivors / facts.honest,
        Trust.TRUSTED_SERVER: 1.0,
    }[trust]
    mechanism = mechanism_of(event.noise)
    if mechanism.summed is None:
        known = " or ".join(m.law.__name__ for m in MECHANISMS.values() if m.summed)
        raise UnknownEvent(
            f"no confidence interval for {type(event.noise).__name__} noise: use {known}"
        )
    drawn = 1 if trust is Trust.TRUSTED_SERVER else survivors
    return mechanism.summed(event.noise, shares, drawn, grid)


def simulated_noise(law: NoiseLaw, shape: tuple[int, ...]) -> np.ndarray:
    """Noise of this law from a public seed, for readings alone: it protects nothing. Always the
    same draws: whoever reads a release finds the same figures."""
    generator = np.random.default_rng(0)
    if law.gaussian:
        return generator.normal(0.0, law.std, shape)
    levels = np.concatenate([[0.0], np.geomspace(1e-4, 0.5, 40), np.linspace(0.5, 0.999, 40)[1:]])
    sizes = [law.tail(max(level, 1e-5)) for level in levels]
    drawn = np.interp(generator.random(shape), levels, sizes)
    return drawn * generator.choice([-1.0, 1.0], shape)


__all__ = ["NoiseLaw", "simulated_noise", "sum_law"]
