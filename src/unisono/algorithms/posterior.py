"""What every private Bayesian algorithm starts from and gives back."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from unisono.core.events import positive
from unisono.errors import InvalidInput
from unisono.problems.gaussian_family import Natural, fall_back, prior


class Answer(NamedTuple):
    """A private posterior in natural parameters.

    `floored` counts directions whose precision noise pushed below what a posterior can have; there
    the answer was repaired after the release, to the prior or its precision. A large count says
    that noise drowns the data.
    """

    shift: Any
    precision: Any
    floored: Any

    @property
    def natural(self) -> Natural:
        return Natural(self.shift, self.precision)


@dataclass(frozen=True)
class PriorSettings:
    """Independent normal priors, and the least precision that a posterior may have.

    Data can only sharpen a log-concave posterior, so a precision below the prior's is noise:
    `least_precision` is the prior's unless it is given. `seed` is for *public* samples.
    """

    prior_mean: float = 0.0
    prior_variance: float = 1.0
    least_precision: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        prior(1, self.prior_mean, self.prior_variance)
        if not (math.isfinite(self.floor) and self.floor > 0):
            raise InvalidInput(
                f"least_precision = {self.least_precision!r}: it is a positive number, or None for "
                "the prior's precision"
            )

    @property
    def floor(self) -> float:
        given = self.least_precision
        return 1 / self.prior_variance if given is None else given


def own_epsilon(epsilons: tuple[float, ...], parties: int, party: int) -> float:
    """One party's own epsilon, where every party has been given one."""
    if len(epsilons) != parties:
        raise InvalidInput(f"{len(epsilons)} epsilons for {parties} parties: give one for each")
    return epsilons[party]


def positive_epsilons(epsilons: tuple[float, ...]) -> None:
    positive(**{f"epsilons[{index}]": value for index, value in enumerate(epsilons)})


def start_of(settings: PriorSettings, dimension: int, full: bool = False) -> Natural:
    """The prior as 32-bit arrays."""
    made = prior(dimension, settings.prior_mean, settings.prior_variance, full)
    return Natural(*(jnp.asarray(part, jnp.float32) for part in made))


def usable(settings: PriorSettings, q: Natural) -> tuple[Natural, Any]:
    """q as a density: the prior wherever noise left too little precision; and how often."""
    start = start_of(settings, q.shift.shape[0], q.full)
    return fall_back(q, start, settings.floor)


def answer_of(settings: PriorSettings, q: Natural) -> Answer:
    """The posterior to publish."""
    fixed, floored = usable(settings, q)
    return Answer(fixed.shift, fixed.precision, floored)
