"""Events of noise that was not calibrated: a law as a publication prints it, whatever it costs."""

from unisono.core.events import Event, Gaussian, Laplace, Sampler, Sensitivity
from unisono.errors import InvalidInput
from unisono.mechanisms import gaussian

PrintedNoise = Gaussian | Laplace


def event_as_printed(
    law: PrintedNoise,
    sensitivity: Sensitivity,
    *,
    count: int,
    sampler: Sampler,
    dimension: int,
    shares: int,
    grid: float,
    in_graph: bool,
    missed: float,
) -> Event:
    """One of `count` releases with this noise, with what shares, samplers and batches add to its
    cost; only the size of the noise is the publication's."""
    if type(law) is Laplace:
        return Event(Laplace(float(law.scale), dimension, grid=grid), sensitivity, sampler)
    if type(law) is not Gaussian:
        raise InvalidInput(f"{law!r} is no noise that is drawn here: print Gaussian or Laplace")
    return gaussian.event_of(
        float(law.std),  # a plain number, whatever a plugin made of it
        sensitivity,
        count=count,
        sampler=sampler,
        dimension=dimension,
        shares=shares,
        grid=grid,
        in_graph=in_graph,
        missed=missed,
    )


__all__ = ["PrintedNoise", "event_as_printed"]
