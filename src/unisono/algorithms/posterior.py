"""What every private Bayesian algorithm starts from and gives back."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from pydantic import Field

from unisono.core.sensitivity import positive
from unisono.errors import InvalidInput
from unisono.problems.bayesian import NormalPrior
from unisono.problems.gaussian_family import Natural, fall_back
from unisono.releases.algorithm import AlgorithmConfig


class PosteriorAnswer(NamedTuple):
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


class PublicPosterior(NamedTuple):
    """What everybody sees in a round; the round seeds the public samples."""

    q: Natural
    round: Any


class PosteriorConfig(AlgorithmConfig):
    """The least precision that a posterior may have, and the seed of *public* samples.

    Data can only sharpen a log-concave posterior, so a precision below the prior's is noise.
    """

    least_precision: float | None = Field(
        None, gt=0, description="A posterior has no less precision; left out: the prior's."
    )
    seed: int = Field(0, description="Seeds samples that are public.")

    def floor(self, problem: NormalPrior) -> float:
        given = self.least_precision
        return 1 / problem.prior_variance if given is None else given


def own_epsilon(epsilons: tuple[float, ...], parties: int, party: int) -> float:
    """One party's own epsilon, where every party has been given one."""
    if len(epsilons) != parties:
        raise InvalidInput(f"{len(epsilons)} epsilons for {parties} parties: give one for each")
    return epsilons[party]


def positive_epsilons(epsilons: tuple[float, ...]) -> None:
    positive(**{f"epsilons[{index}]": value for index, value in enumerate(epsilons)})


def start_of(problem: NormalPrior, size: int, full: bool = False) -> Natural:
    """The prior as 32-bit arrays."""
    return Natural(*(jnp.asarray(part, jnp.float32) for part in problem.prior(size, full)))


def usable(config: PosteriorConfig, problem: NormalPrior, q: Natural) -> tuple[Natural, Any]:
    """q as a density: the prior wherever noise left too little precision; and how often."""
    start = start_of(problem, q.shift.shape[0], q.full)
    return fall_back(q, start, config.floor(problem))


def answer_of(config: PosteriorConfig, problem: NormalPrior, q: Natural) -> PosteriorAnswer:
    """The posterior to publish."""
    fixed, floored = usable(config, problem, q)
    return PosteriorAnswer(fixed.shift, fixed.precision, floored)
