"""What a file of this package says of its law: the uniform interface of all mechanisms."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

from unisono.core.events import Event, Sensitivity, bounded_sum
from unisono.core.kinds import Law
from unisono.errors import InvalidInput


class Scale(NamedTuple):
    """The noise of one release where every record's contribution has norm 1.

    `multiplier` is the size of the noise; the rest is for laws that have a use for it.
    """

    multiplier: float
    dimension: int = 1
    grid: float = 2.0**-10
    choices: int = 2


@dataclass(frozen=True)
class NoiseLaw:
    """The law of a sum of independent shares of noise, each number by itself, symmetric about 0.

    `shape` counts shares: the variance is in proportion to it. `step` is the grid, by which the
    integers that are drawn may differ from the continuous law.
    """

    scale: float
    shape: float = 1.0
    step: float = 0.0
    name: ClassVar[str]
    gaussian: ClassVar[bool] = False

    @property
    def std(self) -> float:
        raise NotImplementedError

    def _single(self, probability: float) -> float:
        """One number of the continuous law stays below this, but for `probability`."""
        raise NotImplementedError

    def scaled(self, factor: float) -> Self:
        """The law of factor times the noise."""
        return replace(self, scale=self.scale * abs(factor), step=self.step * abs(factor))

    def summed(self, terms: float) -> Self:
        """The law of the sum of `terms` independent noises."""
        return replace(self, shape=self.shape * terms)

    def tail(self, probability: float, numbers: int = 1) -> float:
        """All of `numbers` independent or dependent noises stay below this, but for `probability`.

        >>> from unisono.mechanisms.gaussian import GaussianSum
        >>> from unisono.mechanisms.laplace import LaplaceSum
        >>> round(GaussianSum(1.0).tail(0.05), 3), round(LaplaceSum(1.0).tail(0.05), 3)
        (1.96, 2.996)
        """
        if not 0 < probability < 1 or numbers < 1:
            raise InvalidInput(
                f"probability {probability!r} for {numbers!r} numbers: need (0, 1) and >= 1"
            )
        return self._single(probability / numbers) + self.step


class NoiseReach(NamedTuple):
    """How far a vector of noise reaches, but for a stated probability: every number of it, and its
    norms, infinite where nothing is known of them."""

    each: float
    l1: float = math.inf
    l2: float = math.inf


@dataclass(frozen=True)
class Mechanism:
    """One entry of the catalogue: whatever is true of a law beyond its sampler and its cost.

    `calibrate(sensitivity, relation, epsilon, delta, *, count, sampler, dimension, grid)` is the
    event whose `count` releases together cost at most (epsilon, delta). A `pure` law needs no
    delta; one that depends on neither dimension nor grid ignores them.
    `tail(noise, dimension, probability)` bounds the error.
    `unit(scale)` is the noise on records of norm 1; `unit_bound(scale)` their sensitivity, where it
    is not just that of a sum of such records.
    `summed(noise, shares, drawn, grid)` is the law of a sum of so many shares that `drawn` parties
    rounded, where it is known: intervals are made of it.
    `reach(noise, shares, drawn, grid, dimension, probability)` is how far such a sum of shares
    reaches in so many numbers, proved for what is drawn: sums of parties are held against it.
    For people: what the multiplier measures (`measure`), what the noise means (`meaning`).
    `also` are laws of the same noise under another name.
    """

    law: type[Law]
    releases: str
    pure: bool
    shares: str
    calibrate: Callable[..., Event]
    tail: Callable[..., float]
    unit: Callable[[Scale], Law]
    unit_bound: Callable[[Scale], Sensitivity] | None = None
    summed: Callable[[Any, float, int, float], NoiseLaw] | None = None
    reach: Callable[..., NoiseReach] | None = None
    measure: str = "a standard deviation of {} times the largest norm of one record"
    meaning: Callable[[Any], str] = lambda noise: ""
    also: tuple[type[Law], ...] = ()

    @property
    def name(self) -> str:
        return self.law.kind

    @property
    def norm(self) -> str:
        return self.law.norm

    def unit_sensitivity(self, scale: Scale) -> Sensitivity:
        """That of a sum of records whose norm, the one that the law asks for, is at most 1."""
        if self.unit_bound is not None:
            return self.unit_bound(scale)
        return bounded_sum(**{self.norm: 1.0})  # type: ignore[arg-type]


def require_tail(dimension: int, probability: float) -> None:
    """Refuse a tail of no probability, or in no coordinate."""
    if not 0 < probability < 1 or dimension < 1:
        raise InvalidInput(
            f"probability {probability!r}, dimension {dimension!r}: need (0, 1), >= 1"
        )
