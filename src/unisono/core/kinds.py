"""The kinds of noise and of secret sampling that an event can name."""

from dataclasses import dataclass
from typing import ClassVar

from unisono.core.sensitivity import positive
from unisono.errors import InvalidInput


@dataclass(frozen=True)
class Gaussian:
    """Independent N(0, std^2) per coordinate, or integers that post-process it.

    The law that was drawn may differ from a post-processing of the continuous Gaussian: over
    all coordinates of one release their probabilities are within a factor exp(`slack`) but for
    a mass of `gap`. Exact samplers have no slack, and no gap unless shares are added.
    """

    std: float
    gap: float = 0.0
    slack: float = 0.0
    norm: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        positive(std=self.std)
        if not 0 <= self.gap < 1:
            raise InvalidInput(f"gap = {self.gap!r} is not a total variation in [0, 1)")
        if not 0 <= self.slack < 1:
            raise InvalidInput(f"slack = {self.slack!r} is not a small epsilon in [0, 1)")


@dataclass(frozen=True)
class GaussianRun(Gaussian):
    """`rounds` releases with independent noise that are one event: what they show together moves
    by the event's sensitivity (matrix mechanisms, whose releases hold a record several times)."""

    rounds: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(rounds=self.rounds)


@dataclass(frozen=True)
class Laplace:
    """Independent Laplace noise in each of `dimension` coordinates.

    Releases draw the discrete law P(k) ∝ exp(-|k| / scale) on the grid; `discrete=False` is
    the textbook's continuous law, for analysis.
    """

    scale: float
    dimension: int = 1
    discrete: bool = True
    norm: ClassVar[str] = "l1"

    def __post_init__(self) -> None:
        positive(scale=self.scale, dimension=self.dimension)


@dataclass(frozen=True)
class NormNoise:
    """Density ∝ exp(-||b||_2 / scale): the vector norm mechanism."""

    scale: float
    norm: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        positive(scale=self.scale)


@dataclass(frozen=True)
class DiscreteGaussian:
    """Sum of `shares` discrete Gaussians of total variance std^2, in `dimension` coordinates.

    `grid` is the step of the integer grid in the units of `std`.
    """

    std: float
    grid: float
    dimension: int
    shares: int = 1
    norm: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        positive(std=self.std, grid=self.grid, dimension=self.dimension, shares=self.shares)


@dataclass(frozen=True)
class Skellam:
    """Poisson minus Poisson of this standard deviation on a grid; closed under sums."""

    std: float
    grid: float
    norm: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        positive(std=self.std, grid=self.grid)


@dataclass(frozen=True)
class RandomizedResponse:
    """One answer out of `choices`, kept with odds exp(epsilon) against each other answer."""

    epsilon: float
    choices: int = 2
    norm: ClassVar[str] = "linf"

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        if self.choices < 2:
            raise InvalidInput(f"choices = {self.choices!r}: a response needs at least 2")


@dataclass(frozen=True)
class Selection:
    """A choice with probability ∝ exp(score / (2 scale)), or permute-and-flip, which costs
    the same: epsilon = (sensitivity of the scores in linf) / scale."""

    scale: float
    norm: ClassVar[str] = "linf"

    def __post_init__(self) -> None:
        positive(scale=self.scale)


@dataclass(frozen=True)
class NoNoise:
    """The value itself is disclosed: epsilon is infinite against this viewer."""

    norm: ClassVar[str] = "l2"


Noise = (
    Gaussian
    | Laplace
    | NormNoise
    | DiscreteGaussian
    | Skellam
    | RandomizedResponse
    | Selection
    | NoNoise
)


# ------------------------------------------------------------------- samplers


@dataclass(frozen=True)
class Everyone:
    """No sampling: every unit contributes."""


@dataclass(frozen=True)
class Poisson:
    """Every unit tosses its own secret coin with probability `rate`."""

    rate: float

    def __post_init__(self) -> None:
        positive(rate=self.rate)
        if self.rate > 1:
            raise InvalidInput(f"rate = {self.rate!r} is above 1: a probability is at most 1")


@dataclass(frozen=True)
class WithoutReplacement:
    """A secret subset of exactly `size` out of `population` units."""

    size: int
    population: int

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.population:
            raise InvalidInput(
                f"cannot draw {self.size!r} of {self.population!r} without replacement: "
                "size must lie between 1 and the population"
            )


Sampler = Everyone | Poisson | WithoutReplacement
