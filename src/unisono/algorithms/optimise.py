"""What a server does with noisy gradients: any optax optimizer, and averages of its iterates.

All of it is post-processing of what was released, and costs nothing: learning-rate schedules,
momentum, Adam, weight decay, the average of the last iterates, an exponential moving average.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.errors import InvalidInput
from unisono.problems.per_record import PerRecord

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class Problem(NamedTuple):
    """What is learned: `loss(parameters, record)`, the first parameters, which are public, and one
    record, of which only shapes are looked at."""

    loss: Callable[[Any, Any], Any]
    parameters: Any
    record: Any


@dataclass(frozen=True)
class Averaging:
    """Which model comes out of `rounds` iterates: the last one, the average of the last `part`
    of them, or a moving average with this `decay`."""

    rounds: int
    part: float = 0.0
    decay: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.part <= 1 and 0 <= self.decay < 1):
            raise InvalidInput(
                f"averaged part {self.part!r} must lie in [0, 1] and decay {self.decay!r} in [0, 1)"
            )
        if self.part and self.decay:
            raise InvalidInput("average the last iterates or take a moving average, not both")

    def include(self, average: Any, parameters: Any, number: Any) -> Any:
        """The average after round `number` brought these parameters."""
        if not self.part and not self.decay:
            return parameters
        late = int(self.rounds * (1 - self.part))
        weight = jnp.where(number >= late, 1.0 / (number - late + 1), 0.0)
        if self.decay:
            # The first iterates would weigh too much: the usual correction, as a changing weight.
            weight = (1 - self.decay) / (1 - self.decay ** (number + 1.0))
        return jax.tree.map(lambda old, new: old + weight * (new - old), average, parameters)


def planned(problem: Problem) -> PerRecord:
    """The problem's per-record gradients, refused where its loss cannot be trusted."""
    plan = PerRecord(problem.loss, problem.parameters, problem.record)
    require_finite_loss(problem)
    return plan


def require_finite_loss(problem: Problem) -> None:
    """Refuse a loss that is not finite on made-up records: it would teach nothing, silently."""
    value = jax.jit(jax.value_and_grad(problem.loss))
    generator = np.random.default_rng(0)
    made_up = (
        jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), np.float32), problem.record),
        jax.tree.map(lambda leaf: np.ones(np.shape(leaf), np.float32), problem.record),
        jax.tree.map(
            lambda leaf: np.abs(generator.normal(size=np.shape(leaf))).astype(np.float32),
            problem.record,
        ),
    )
    for record in made_up:
        loss, slope = value(problem.parameters, record)
        if all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves((loss, slope))):
            return
    raise InvalidInput(
        f"the loss is {float(loss)!r} or has a gradient that is not finite, at the first "
        "parameters, on made-up records of zeros, of ones and of normal numbers: such records "
        "would teach nothing; check the loss for logarithms of zero, divisions and overflow"
    )


def fingerprint(function: Callable[..., Any], *arguments: Any) -> str:
    """A function as a short name of its program: equal wherever the same code is traced."""
    program = jax.make_jaxpr(function)(*arguments)
    digest = hashlib.sha256(_ADDRESS.sub("", str(program)).encode())
    for constant in program.consts:  # arrays that the function holds are printed as shapes only
        digest.update(np.asarray(constant).tobytes())
    return digest.hexdigest()[:16]


def agreed(problem: Problem, optimizer: Any) -> dict[str, str]:
    """Loss, first parameters and optimizer as what parties sign."""
    leaves = jax.tree.leaves(problem.parameters)
    first = hashlib.sha256(b"".join(np.asarray(leaf, np.float32).tobytes() for leaf in leaves))
    zeros = jax.tree.map(jnp.zeros_like, problem.parameters)
    return {
        "loss": fingerprint(problem.loss, problem.parameters, problem.record),
        "parameters": first.hexdigest()[:16],
        "optimizer": fingerprint(
            optimizer.update, zeros, optimizer.init(problem.parameters), problem.parameters
        ),
    }


def stepped(optimizer: Any, gradient: Any, state: Any, parameters: Any) -> tuple[Any, Any]:
    """Parameters and optimizer state after one step along a gradient (a pytree)."""
    change, state = optimizer.update(gradient, state, parameters)
    return jax.tree.map(lambda p, c: p + c, parameters, change), state
