"""Convex sets that parameters stay in, and projections onto them.

    ball      ||θ||₂ <= R                    |C| = 2 R            scaled towards the origin
    box       |θ_i| <= R                     |C| = 2 R sqrt(p)    clipped
    simplex   θ_i >= 0, Σ θ_i = R            |C| = R sqrt(2)      max(θ_i - τ, 0)
    l1-ball   ||θ||₁ <= R                    |C| = 2 R            sign(θ_i) max(|θ_i| - τ, 0)

|C| is the diameter, which step sizes are made of. τ is the number for which the result sums to R:
with u the sorted values, largest first, and k the largest index with u_k > (u_1 + ... + u_k - R)/k,
it is (u_1 + ... + u_k - R) / k (Held, Wolfe and Crowder 1974; Duchi et al. 2008).

A projection is a public function of what was released: post-processing, which costs nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from unisono.core.algorithm import Facts
from unisono.core.events import positive
from unisono.errors import InvalidInput
from unisono.problems.linear import LinearLoss
from unisono.problems.record_loss import fingerprint
from unisono.releases.algorithm import AlgorithmConfig

SetName = Literal["ball", "box", "simplex", "l1-ball"]


@dataclass(frozen=True)
class ConvexSet:
    """A set by the projection onto it, `project(parameters)`, a pure function of JAX that keeps
    their shape, and by its size: no two points are further apart than `diameter`, and none is
    further than `largest_norm` from zero. `shape` is that of the parameters, once it is known."""

    project: Callable[[Any], Any]
    diameter: float
    largest_norm: float
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        positive(diameter=self.diameter, largest_norm=self.largest_norm)

    @property
    def agreed(self) -> dict[str, Any]:
        """What parties agree on: its size, and the program of the projection."""
        assert self.shape is not None
        program = fingerprint(self.project, jnp.zeros(self.shape, jnp.float32))
        return {"program": program, "diameter": self.diameter, "largest_norm": self.largest_norm}


def ball(parameters: Any, radius: float) -> Any:
    """Onto the l2 ball about the origin."""
    size = jnp.sqrt(jnp.sum(parameters**2))
    return parameters * jnp.minimum(1.0, radius / jnp.maximum(size, 1e-30))


def box(parameters: Any, radius: float) -> Any:
    """Onto the numbers between -radius and radius."""
    return jnp.clip(parameters, -radius, radius)


def simplex(parameters: Any, radius: float) -> Any:
    """Onto numbers that are not negative and sum to the radius."""
    flat = parameters.reshape(-1)
    ordered = jnp.sort(flat)[::-1]
    over = (jnp.cumsum(ordered) - radius) / jnp.arange(1, len(flat) + 1)
    # The largest is always above its own threshold; rounding must not say otherwise.
    last = jnp.maximum(jnp.sum(ordered > over), 1) - 1
    return jnp.maximum(flat - over[last], 0.0).reshape(parameters.shape)


def l1_ball(parameters: Any, radius: float) -> Any:
    """Onto numbers whose absolute values sum to at most the radius."""
    sizes = jnp.abs(parameters)
    shrunk = jnp.sign(parameters) * simplex(sizes, radius)
    return jnp.where(jnp.sum(sizes) <= radius, parameters, shrunk)


def convex_set(name: SetName, radius: float, parameters: int) -> ConvexSet:
    """One of the sets above, for so many parameters.

    >>> convex_set("box", 2.0, 9).diameter
    12.0
    """
    project, diameter, largest = {
        "ball": (ball, 2.0, 1.0),
        "box": (box, 2 * math.sqrt(parameters), math.sqrt(parameters)),
        # One parameter alone is the radius; a set of one point has no steps to be sized for.
        "simplex": (simplex, math.sqrt(2.0), 1.0),
        "l1-ball": (l1_ball, 2.0, 1.0),
    }[name]
    return ConvexSet(lambda point: project(point, radius), diameter * radius, largest * radius)


def uniform_point(name: SetName, radius: float, parameters: int, seed: int) -> np.ndarray:
    """A point (parameters,) drawn uniformly from one of the sets."""
    generator = np.random.default_rng(seed)
    match name:
        case "ball":  # a direction, and a length whose p-th power is uniform
            direction = generator.normal(size=parameters)
            length = radius * generator.random() ** (1 / parameters)
            return length * direction / np.linalg.norm(direction)
        case "box":
            return generator.uniform(-radius, radius, parameters)
        case "simplex":  # shares of exponentials are uniform
            shares = generator.exponential(size=parameters)
            return radius * shares / shares.sum()
        case "l1-ball":  # one share more is how much is left
            shares = generator.exponential(size=parameters + 1)
            signs = generator.choice([-1.0, 1.0], parameters)
            return radius * signs * shares[:-1] / shares.sum()


class ProjectedConfig(AlgorithmConfig):
    """The set that parameters stay in."""

    radius: float = Field(5.0, gt=0, description="The size of the set that weights stay in.")
    projection: SetName = Field(
        "ball",
        description="That set: weights of a length up to `radius` (ball), each at most `radius` "
        "(box), their absolute values summing to at most `radius` (l1-ball), or none negative and "
        "summing to `radius` (simplex).",
    )
    own_set: ConvexSet | None = Field(
        None, exclude=True, description="Another set, by its projection and its size."
    )

    def set_of(self, parameters: int) -> ConvexSet:
        """The set, for so many parameters."""
        return self.own_set or convex_set(self.projection, self.radius, parameters)

    def agreed(self, problem: Any) -> dict[str, Any]:
        found = super().agreed(problem)
        return found if self.own_set is None else {**found, "own_set": self.own_set.agreed}


def with_shape(config: Any, problem: LinearLoss, facts: Facts) -> Any:
    """The configuration with the shape of what a set of one's own is for, checked once."""
    own = config.own_set
    if own is None:
        return config
    shape = problem.shape(facts.features)
    point = own.project(jnp.ones(shape, jnp.float32))
    if np.shape(point) != shape:
        raise InvalidInput(
            f"own_set projects parameters of shape {shape} to {np.shape(point)}: a projection "
            "keeps their shape"
        )
    return config.model_copy(update={"own_set": replace(own, shape=shape)})


__all__ = [
    "ConvexSet",
    "ProjectedConfig",
    "SetName",
    "ball",
    "box",
    "convex_set",
    "l1_ball",
    "simplex",
    "uniform_point",
    "with_shape",
]
