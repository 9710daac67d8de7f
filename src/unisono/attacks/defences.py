"""Defences of a gradient, composable with any attack (lecture 13, Table 1), and what they cost.

A defence turns what a party would send into what the server sees. Only one of them is private:

    Nothing            the mean gradient
    LocalStepsDefence  θ_k - θ_0 after k steps, on the same batch or on a fresh batch for each
    GradientNoise      gradient + N(0, σ² I); its sensitivity is unbounded, so that no ε follows
    ClippingDefence    of the mean gradient ("batch") or of each record's ("record"), no noise
    DpSgd              (Σ_i clip(g_i) + N(0, (z C)² I)) / B, by training's own clip and noise
    Dropout            a hidden unit is KEPT with probability p and then divided by it
    Pruning            only the largest coordinates are sent; the others are zero
    SecureSum          the mean of the updates of n parties, and nothing else

`epsilon(delta, records, rounds)` is infinite where a defence is no differential privacy; for DpSgd
see `private_update`. The bounds of that table are upper bounds on the error of one attack and
certify no defence; p KEEPS in B sqrt(d / (m p)).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from unisono.attacks.private_update import DpSgd
from unisono.attacks.victim import Defence, Seen, Victim, leaf_at, sender
from unisono.core.events import positive
from unisono.errors import InvalidInput

__all__ = [
    "ClippingDefence",
    "Defence",
    "DpSgd",
    "Dropout",
    "GradientNoise",
    "LocalStepsDefence",
    "Nothing",
    "Pruning",
    "SecureSum",
]


def _sent(victim: Victim, public: Mapping[str, Any], masks: Any = None) -> Any:
    rows, targets = jnp.asarray(victim.rows), jnp.asarray(victim.targets)
    return sender(victim.loss, public)(victim.parameters, rows, targets, masks)


@dataclass(frozen=True)
class Nothing(Defence):
    @property
    def name(self) -> str:
        return "none"

    def observe(self, victim: Victim, generator: np.random.Generator) -> Seen:
        return Seen(_sent(victim, {}), {})


@dataclass(frozen=True)
class LocalStepsDefence(Defence):
    """k steps of gradient descent; with `fresh` the rows are cut into k batches, one a step."""

    steps: int = 5
    rate: float = 0.1
    fresh: bool = False

    def __post_init__(self) -> None:
        positive(steps=self.steps, rate=self.rate)

    @property
    def name(self) -> str:
        return f"{self.steps} local steps, {'fresh batches' if self.fresh else 'same batch'}"

    def observe(self, victim: Victim, generator: np.random.Generator) -> Seen:
        if self.fresh and len(victim.rows) % self.steps:
            raise InvalidInput(f"{len(victim.rows)} rows are no multiple of {self.steps} batches")
        public = {"steps": self.steps, "rate": self.rate, "fresh": self.fresh}
        return Seen(_sent(victim, public), public)


@dataclass(frozen=True)
class GradientNoise(Defence):
    """Noise of this standard deviation in each coordinate of an unbounded gradient."""

    std: float

    @property
    def name(self) -> str:
        return f"noise {self.std:g}"

    def observe(self, victim: Victim, generator: np.random.Generator) -> Seen:
        positive(std=self.std)

        def noisy(leaf: Any) -> Any:
            return leaf + jnp.asarray(generator.normal(0, self.std, leaf.shape), leaf.dtype)

        return Seen(jax.tree.map(noisy, _sent(victim, {})), {"std": self.std})


@dataclass(frozen=True)
class ClippingDefence(Defence):
    """An l2 bound without noise: on the mean gradient, or on each record's."""

    bound: float = 1.0
    of: Literal["batch", "record"] = "batch"

    def __post_init__(self) -> None:
        positive(bound=self.bound)
        _require(1.0, self.of, ("batch", "record"))

    @property
    def name(self) -> str:
        return f"{self.of} clipped to {self.bound:g}"

    def observe(self, victim: Victim, generator: np.random.Generator) -> Seen:
        public = {"clip": self.bound, "clipped": self.of}
        return Seen(_sent(victim, public), public)


@dataclass(frozen=True)
class Dropout(Defence):
    """Hidden units are kept with probability `keep`; `units` is the path of the array behind them,
    such as ("dense1", "weights"). One mask for the whole step, or one for each record."""

    keep: float
    units: tuple[str, ...]
    masks: Literal["step", "record"] = "step"

    def __post_init__(self) -> None:
        _require(self.keep, self.masks)

    @property
    def name(self) -> str:
        return f"dropout keeps {self.keep:g}, mask per {self.masks}"

    def observe(self, victim: Victim, generator: np.random.Generator) -> Seen:
        hidden = len(leaf_at(victim.parameters, self.units))
        shape = (hidden,) if self.masks == "step" else (len(victim.rows), hidden)
        masks = jnp.asarray(generator.random(shape) < self.keep, jnp.float32)
        public = {"keep": self.keep, "units": self.units, "masks": self.masks}
        return Seen(_sent(victim, public, masks), public)


@dataclass(frozen=True)
class Pruning(Defence):
    """The part `keep` of the coordinates that is largest in absolute value is sent."""

    keep: float

    def __post_init__(self) -> None:
        _require(self.keep)

    @property
    def name(self) -> str:
        return f"pruned to {100 * self.keep:g} %"

    def observe(self, victim: Victim, generator: np.random.Generator) -> Seen:
        update = _sent(victim, {})
        sizes = np.concatenate([np.abs(leaf).ravel() for leaf in jax.tree.leaves(update)])
        least = np.sort(sizes)[-math.ceil(self.keep * sizes.size)]
        pruned = jax.tree.map(lambda leaf: jnp.where(jnp.abs(leaf) >= least, leaf, 0.0), update)
        return Seen(pruned, {"pruned": self.keep})


@dataclass(frozen=True, eq=False)
class SecureSum(Defence):
    """The mean over parties; all but the victim draw batches from `pool`, (rows, targets)."""

    parties: int
    pool: tuple[Any, Any]

    @property
    def name(self) -> str:
        return f"secure sum of {self.parties}"

    def observe(self, victim: Victim, generator: np.random.Generator) -> Seen:
        rows, targets = self.pool
        size = len(victim.rows) * (self.parties - 1)
        if not 0 <= size <= len(rows):
            raise InvalidInput(f"{self.parties} parties need {size} of {len(rows)} pooled records")
        drawn = generator.choice(len(rows), size, replace=False)
        everyone = victim._replace(
            rows=np.concatenate([victim.rows, np.asarray(rows)[drawn]]),
            targets=np.concatenate([victim.targets, np.asarray(targets)[drawn]]),
        )
        return Seen(_sent(everyone, {}), {"parties": self.parties})


def _require(keep: float, value: str = "step", known: tuple[str, str] = ("step", "record")) -> None:
    if not 0 < keep <= 1:
        raise InvalidInput(f"keep = {keep!r}: the part that is kept lies in (0, 1]")
    if value not in known:
        raise InvalidInput(f"{value!r} is unknown: choose {' or '.join(known)}")
