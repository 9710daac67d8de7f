"""The laws of noise, and the kinds of secret sampling, that an event can name.

A law says of itself whatever follows from it: how wide it is, in which norm a value must be
bounded, how it is drawn. Others ask the law, not which law it is. What it costs is said in
`accounting.law_costs`, how it is calibrated and how far it reaches in `mechanisms`. The set of
laws is closed (`LAWS`): each carries a proof, and an unknown one is refused.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from unisono.core.sensitivity import positive
from unisono.errors import GrantMisused, InvalidInput, UnknownEvent

if TYPE_CHECKING:  # ledgers and the command line read events without NumPy: samplers load it
    import numpy as np

# Ratios of floats are rounded; the noise is drawn this much wider, so never narrower.
_ROUND_UP = 1 + 2.0**-50


class Drawing(NamedTuple):
    """What a sampler is asked for: whole numbers in steps of `grid`, of this `shape`.

    One release has `dimension` of them, and is one of `honest` equal shares of the noise.
    """

    key: bytes
    grid: float
    shape: tuple[int, ...]
    dimension: int
    honest: int


class Law:
    """What every law of noise says of itself.

    `kind` is its name in ledgers and on the command line; `norm` that in which a value must be
    bounded. An `additive` law is drawn and added to a vector; a `shared` one may be drawn in
    shares, which add up to it; an `independent` one has independent noise in each coordinate.
    One that `discloses` hides nothing. A `run` is the noise of several releases that are one event.
    A `nested` law is no noise of its own: it says how other releases were chosen from.
    """

    kind: ClassVar[str]
    norm: ClassVar[str]
    additive: ClassVar[bool] = True
    shared: ClassVar[bool] = False
    independent: ClassVar[bool] = True
    discloses: ClassVar[bool] = False
    run: ClassVar[bool] = False
    nested: ClassVar[bool] = False

    @property
    def size(self) -> float:
        """The one number by which people know how much noise it is."""
        raise NotImplementedError

    @property
    def gap(self) -> float:
        """The mass on which the law that is drawn may differ at will from the one accounted."""
        return 0.0

    @property
    def slack(self) -> float:
        """Elsewhere their probabilities are within a factor exp(slack)."""
        return 0.0

    def deviation(self, dimension: int) -> float:
        """The standard deviation of one coordinate of a release in so many."""
        raise InvalidInput(f"{type(self).__name__} is not noise on a number: it has no deviation")

    def steps(self, drawing: Drawing) -> "np.ndarray":
        """The noise itself, by the exact sampler, in whole steps."""
        raise UnknownEvent(f"{type(self).__name__} is not added to integers: it has no sampler")

    def remaining(self, present: int, planned: int) -> "Law | None":
        """The law of `present` shares out of `planned`, where that is noise of the same kind."""
        return None


@dataclass(frozen=True)
class Gaussian(Law):
    """Independent N(0, std^2) per coordinate, or integers that post-process it.

    The law that was drawn may differ from a post-processing of the continuous Gaussian: over
    all coordinates of one release their probabilities are within a factor exp(`slack`) but for
    a mass of `gap`. Exact samplers have no slack, and no gap unless shares are added.
    """

    std: float
    gap: float = 0.0
    slack: float = 0.0
    kind: ClassVar[str] = "gaussian"
    norm: ClassVar[str] = "l2"
    shared: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(std=self.std)
        if not 0 <= self.gap < 1:
            raise InvalidInput(f"gap = {self.gap!r} is not a total variation in [0, 1)")
        if not 0 <= self.slack < 1:
            raise InvalidInput(f"slack = {self.slack!r} is not a small epsilon in [0, 1)")

    @property
    def size(self) -> float:
        return self.std

    def deviation(self, dimension: int) -> float:
        return self.std

    def width(self, grid: float, shares: int) -> float:
        """The standard deviation of one of so many shares in grid steps, never too narrow."""
        return self.std / grid / math.sqrt(shares) * _ROUND_UP

    def steps(self, drawing: Drawing) -> "np.ndarray":
        """Rounded Gaussians; noise with a slack is what a compiled program draws from the key."""
        import numpy as np

        from unisono.core.noise import Keystream, rounded_gaussian, rounded_share_gap

        key, grid, shape, dimension, honest = drawing
        width = self.width(grid, honest)
        if self.slack:
            from unisono.core.noise.chacha import key_from_bytes
            from unisono.core.noise.in_graph import gaussian_on_grid
            from unisono.core.noise.parameters import single_precision

            drawn = gaussian_on_grid(key_from_bytes(key), shape, single_precision(width))
            return np.asarray(drawn, np.int64)
        if honest > 1 and dimension * rounded_share_gap(width, honest) > self.gap:
            raise GrantMisused(
                f"{honest} rounded shares of {width:.3g} grid steps differ from a Gaussian by "
                f"more than the gap {self.gap:g} that was authorised: use a finer grid"
            )
        return rounded_gaussian(Keystream(key), width, shape)

    def remaining(self, present: int, planned: int) -> "Gaussian":
        return replace(self, std=self.std * math.sqrt(present / planned))


@dataclass(frozen=True)
class GaussianRun(Gaussian):
    """`rounds` releases with independent noise that are one event: what they show together moves
    by the event's sensitivity (matrix mechanisms, whose releases hold a record several times)."""

    rounds: int = 1
    kind: ClassVar[str] = "gaussian-run"
    run: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(rounds=self.rounds)


@dataclass(frozen=True)
class Laplace(Law):
    """Independent Laplace noise in each of `dimension` coordinates.

    Releases draw the discrete law P(k) ∝ exp(-|k| grid / scale), k in steps of `grid`. Without a
    grid it is the textbook's continuous law, for analysis, which is not drawn; or, if `discrete`,
    the law on any grid, of which only the pure epsilon is known: on a grid as coarse as the
    sensitivity it is randomized response.
    """

    scale: float
    dimension: int = 1
    discrete: bool = False
    grid: float | None = None
    kind: ClassVar[str] = "laplace"
    norm: ClassVar[str] = "l1"
    shared: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(scale=self.scale, dimension=self.dimension)
        if self.grid is not None:
            positive(grid=self.grid)
            object.__setattr__(self, "discrete", True)

    @property
    def size(self) -> float:
        return self.scale

    def deviation(self, dimension: int) -> float:
        return math.sqrt(2) * self.scale

    def steps(self, drawing: Drawing) -> "np.ndarray":
        """Discrete Laplace, or its share: a difference of Pólya variables."""
        from unisono.core.noise import Keystream, discrete_laplace, discrete_laplace_share

        key, grid, shape, dimension, honest = drawing
        if self.dimension != dimension:
            raise GrantMisused(
                f"authorised in {self.dimension} coordinates, released in {dimension}: authorise "
                "what is released"
            )
        if not self.discrete:
            raise UnknownEvent(
                "continuous Laplace noise is for analysis; releases draw the discrete law: name "
                f"its grid, as in Laplace({self.scale:g}, {dimension}, grid={grid:g})"
            )
        if self.grid is not None and self.grid != grid:
            raise GrantMisused(
                f"authorised on grid {self.grid:g}, released on {grid:g}: authorise what is "
                "released"
            )
        scale = self.scale / grid * _ROUND_UP
        if honest == 1:
            return discrete_laplace(Keystream(key), scale, shape)
        return discrete_laplace_share(Keystream(key), scale, honest, shape)


@dataclass(frozen=True)
class NormNoise(Law):
    """Density ∝ exp(-||b||_2 / scale): the vector norm mechanism."""

    scale: float
    kind: ClassVar[str] = "norm"
    norm: ClassVar[str] = "l2"
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(scale=self.scale)

    @property
    def size(self) -> float:
        return self.scale

    def deviation(self, dimension: int) -> float:
        """E ||b||² = p (p + 1) scale², shared by p numbers."""
        return self.scale * math.sqrt(dimension + 1)

    def steps(self, drawing: Drawing) -> "np.ndarray":
        import numpy as np

        from unisono.core.noise import Keystream
        from unisono.core.noise.norm import rounded_norm

        key, grid, shape, dimension, _ = drawing
        stream, scale = Keystream(key), self.scale / grid * _ROUND_UP
        releases = math.prod(shape) // dimension
        each = [rounded_norm(stream, scale, dimension) for _ in range(releases)]
        return np.concatenate(each).reshape(shape)


@dataclass(frozen=True)
class DiscreteGaussian(Law):
    """Sum of `shares` discrete Gaussians of total variance std^2, in `dimension` coordinates.

    `grid` is the step of the integer grid in the units of `std`.
    """

    std: float
    grid: float
    dimension: int
    shares: int = 1
    kind: ClassVar[str] = "discrete-gaussian"
    norm: ClassVar[str] = "l2"
    shared: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(std=self.std, grid=self.grid, dimension=self.dimension, shares=self.shares)

    @property
    def size(self) -> float:
        return self.std

    def deviation(self, dimension: int) -> float:
        return self.std

    def steps(self, drawing: Drawing) -> "np.ndarray":
        from unisono.core.noise import Keystream, discrete_gaussian

        key, grid, shape, dimension, honest = drawing
        if (self.grid, self.dimension, self.shares) != (grid, dimension, honest):
            raise GrantMisused(
                f"authorised on grid {self.grid:g} with {self.shares} shares in "
                f"{self.dimension} dimensions, released on {grid:g} with {honest} in "
                f"{dimension}: authorise what is released"
            )
        width = self.std / grid / math.sqrt(honest) * _ROUND_UP
        return discrete_gaussian(Keystream(key), width, shape)


@dataclass(frozen=True)
class Skellam(Law):
    """Poisson minus Poisson of this standard deviation on a grid; closed under sums."""

    std: float
    grid: float
    kind: ClassVar[str] = "skellam"
    norm: ClassVar[str] = "l2"
    shared: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(std=self.std, grid=self.grid)

    @property
    def size(self) -> float:
        return self.std

    def deviation(self, dimension: int) -> float:
        return self.std

    def steps(self, drawing: Drawing) -> "np.ndarray":
        from unisono.core.noise import Keystream, skellam

        key, grid, shape, _, honest = drawing
        if self.grid != grid:
            raise GrantMisused(f"authorised on grid {self.grid:g}, released on {grid:g}")
        return skellam(Keystream(key), (self.std / grid) ** 2 / honest * _ROUND_UP, shape)


@dataclass(frozen=True)
class RandomizedResponse(Law):
    """One answer out of `choices`, kept with odds exp(epsilon) against each other answer."""

    epsilon: float
    choices: int = 2
    kind: ClassVar[str] = "randomized-response"
    norm: ClassVar[str] = "linf"
    additive: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        if self.choices < 2:
            raise InvalidInput(f"choices = {self.choices!r}: a response needs at least 2")

    @property
    def size(self) -> float:
        return self.epsilon


@dataclass(frozen=True)
class Selection(Law):
    """A choice with probability ∝ exp(score / (2 scale)), or permute-and-flip, which costs
    the same: epsilon = (sensitivity of the scores in linf) / scale."""

    scale: float
    kind: ClassVar[str] = "selection"
    norm: ClassVar[str] = "linf"
    additive: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(scale=self.scale)

    @property
    def size(self) -> float:
        return self.scale


@dataclass(frozen=True)
class NoNoise(Law):
    """The value itself is disclosed: epsilon is infinite against this viewer."""

    kind: ClassVar[str] = "none"
    norm: ClassVar[str] = "l2"
    additive: ClassVar[bool] = False
    discloses: ClassVar[bool] = True

    @property
    def size(self) -> float:
        return 0.0


@dataclass(frozen=True)
class RandomStopping(Law):
    """The best of a secret random number of runs, by a score that each of them releases with what
    it found; nobody sees the other runs, nor how many there were.

    A run shows one of `options` (compositions of events) of a unit, by a draw that depends on no
    record: which candidate it tries, or whether the unit is among the records that learn or among
    those that judge. The number of runs is drawn first, with P(k) in proportion to whole numbers,

        C(k + shape - 1, shape - 1),   k = 1 .. most,

    which is the negative binomial law of Papernot and Steinke (2022) with its parameter γ at 0, cut
    off at `most`: uniform for shape 1, growing with k for more. With `most` = 1 it is one run.
    """

    options: tuple[Any, ...]
    most: int
    shape: int = 1
    kind: ClassVar[str] = "random-stopping"
    norm: ClassVar[str] = "linf"
    additive: ClassVar[bool] = False
    nested: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(self.options))
        positive(most=self.most, shape=self.shape)
        if type(self.most) is not int or type(self.shape) is not int or self.shape > 4:
            raise InvalidInput(
                f"most = {self.most!r}, shape = {self.shape!r}: whole numbers, the shape at most 4"
            )
        if self.most > 1_000:
            raise InvalidInput(f"most = {self.most!r} runs: at most 1000 are accounted for")
        parts = [part for option in self.options for part, _ in option.parts]
        if not self.options or not all(option.parts for option in self.options):
            raise InvalidInput("random stopping among nothing: name what each run may release")
        if any(part.noise.nested for part in parts):
            raise InvalidInput("random stopping within random stopping: no proof is known for it")

    @property
    def size(self) -> float:
        return float(self.most)

    @property
    def weights(self) -> tuple[int, ...]:
        """P(k), k = 1 .. most, in whole numbers that are in proportion to it."""
        return tuple(math.comb(k + self.shape - 1, self.shape - 1) for k in range(1, self.most + 1))

    @property
    def discloses(self) -> bool:  # type: ignore[override]
        return any(option.discloses for option in self.options)

    @property
    def gap(self) -> float:
        """That of all runs, if each is the worst."""
        return self.most * max(_of_parts(option, "gap") for option in self.options)

    @property
    def slack(self) -> float:
        return self.most * max(_of_parts(option, "slack") for option in self.options)

    def drawn(self, key: bytes, candidates: int) -> tuple[int, tuple[int, ...]]:
        """How many runs there are, and which of so many candidates each of `most` would try."""
        from unisono.core.noise import Keystream, uniform_below

        stream, weights = Keystream(key), self.weights
        left, number = int(uniform_below(stream, sum(weights), 1)[0]), 0
        while left >= weights[number]:
            left, number = left - weights[number], number + 1
        chosen = uniform_below(stream, candidates, self.most)
        return number + 1, tuple(map(int, chosen))


def _of_parts(option: Any, name: str) -> float:
    return math.fsum(count * getattr(event.noise, name) for event, count in option.parts)


# Exactly these types: a subclass of one of them has another law, and no proof.
LAWS: tuple[type[Law], ...] = (
    Gaussian,
    GaussianRun,
    Laplace,
    NormNoise,
    DiscreteGaussian,
    Skellam,
    RandomizedResponse,
    Selection,
    RandomStopping,
    NoNoise,
)
Noise = Law


def require_known(noise: object) -> None:
    """Refuse noise of an unknown law, or of a type derived from a known one."""
    if type(noise) not in LAWS:
        raise UnknownEvent(
            f"{noise!r} is no law of noise (known: {', '.join(law.__name__ for law in LAWS)}): "
            "unknown releases are never free"
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
