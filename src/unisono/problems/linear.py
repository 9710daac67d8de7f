"""What models ask algorithms to learn: the joint between the two registries.

    LinearLoss      a convex loss of a linear score: gradients of single records in closed form
    RecordLoss      any loss of parameters and one record, traced (`per_record`)
    BayesianProblem  a likelihood and a prior, for Bayesian inference (`bayesian`)
    Survey          questions that one table of sums and counts answers (`algorithms.survey`)

An algorithm names the type that it needs, so compatibility follows by type. Every problem says what
parties `agreed` on when they agree on it, as plain JSON.
"""

import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.errors import InvalidInput
from unisono.problems.losses import Loss, loss_named
from unisono.problems.per_record import PerRecord

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class LinearLoss:
    """A convex loss of the score θᵀx, for rows in the unit ball; of several classes the parameters
    are (features, classes).

    >>> LinearLoss("logistic").shape(3), LinearLoss("multinomial", 4).parameters(3)
    ((3,), 12)
    """

    loss: str = "logistic"
    classes: int = 2

    def __post_init__(self) -> None:
        loss_named(self.loss)
        if self.classes < 2:
            raise InvalidInput(f"classes = {self.classes!r}: there are at least two")

    @property
    def function(self) -> Loss:
        return loss_named(self.loss)

    @property
    def agreed(self) -> dict[str, Any]:
        return {"loss": self.loss, "classes": self.classes}

    def shape(self, features: int) -> tuple[int, ...]:
        """The shape of the parameters."""
        return (features, self.classes) if self.loss == "multinomial" else (features,)

    def parameters(self, features: int) -> int:
        """How many parameters there are."""
        return math.prod(self.shape(features))


@dataclass(frozen=True, eq=False)
class RecordLoss:
    """Any `loss(parameters, record)`: the first parameters, a public pytree of arrays, and one
    record, of which only shapes are looked at."""

    loss: Callable[[Any, Any], Any]
    parameters: Any
    record: Any

    @cached_property
    def plan(self) -> PerRecord:
        """Gradients of single records, refused where the loss cannot be trusted."""
        plan = PerRecord(self.loss, self.parameters, self.record)
        _require_finite(self)
        return plan

    @cached_property
    def agreed(self) -> dict[str, Any]:
        leaves = jax.tree.leaves(self.parameters)
        first = b"".join(np.asarray(leaf, np.float32).tobytes() for leaf in leaves)
        return {
            "loss": fingerprint(self.loss, self.parameters, self.record),
            "parameters": hashlib.sha256(first).hexdigest()[:16],
        }


def fingerprint(function: Callable[..., Any], *arguments: Any) -> str:
    """A function as a short name of its program: equal wherever the same code is traced."""
    program = jax.make_jaxpr(function)(*arguments)
    digest = hashlib.sha256(_ADDRESS.sub("", str(program)).encode())
    for constant in program.consts:  # arrays that the function holds are printed as shapes only
        digest.update(np.asarray(constant).tobytes())
    return digest.hexdigest()[:16]


def _require_finite(problem: RecordLoss) -> None:
    """Refuse a loss that is not finite on synthetic records: it would teach nothing, silently."""
    value = jax.jit(jax.value_and_grad(problem.loss))
    generator = np.random.default_rng(0)

    def normal(leaf: Any) -> Any:
        return np.abs(generator.normal(size=np.shape(leaf))).astype(np.float32)

    synthetic = (
        jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), np.float32), problem.record),
        jax.tree.map(lambda leaf: np.ones(np.shape(leaf), np.float32), problem.record),
        jax.tree.map(normal, problem.record),
    )
    for record in synthetic:
        loss, slope = value(problem.parameters, record)
        if all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves((loss, slope))):
            return
    raise InvalidInput(
        f"the loss is {float(loss)!r} or has a gradient that is not finite, at the first "
        "parameters, on synthetic records of zeros, of ones and of normal numbers: such records "
        "would teach nothing; check the loss for logarithms of zero, divisions and overflow"
    )
