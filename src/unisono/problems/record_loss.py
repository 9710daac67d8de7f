"""Any loss of parameters and one record, traced."""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from unisono.errors import InvalidInput
from unisono.problems.per_record import PerRecord

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, eq=False)
class RecordLoss:
    """Any `loss(parameters, record)`: the first parameters, a public pytree of arrays, and one
    record, of which only shapes are looked at: what it held is not kept. A `group` says that a
    record is a person, with so many records at most (`of_persons`)."""

    loss: Callable[[Any, Any], Any]
    parameters: Any
    record: Any
    group: int = 1
    __hash__ = None  # type: ignore[assignment]  # it holds arrays, which no cache should keep

    def __post_init__(self) -> None:
        # A row that is given as an example would keep the whole table in memory, and its values.
        object.__setattr__(self, "record", jax.tree.map(_blank, self.record))

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


def _blank(leaf: Any) -> Any:
    return np.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, np.ndarray) else leaf


def of_persons(problem: RecordLoss, group: int) -> RecordLoss:
    """The loss of a person: the sum over its records, stacked (group, ...); records that are not
    finite, as those that fill up a person with fewer, add nothing.

    >>> line = RecordLoss(lambda w, record: w * record, np.float32(1), np.float32(0))
    >>> float(of_persons(line, 3).loss(2.0, jnp.array([1.0, jnp.nan, 4.0])))
    10.0
    """
    if group == 1:
        return problem

    def loss(parameters: Any, records: Any) -> Any:
        present = jnp.ones(group, bool)
        for leaf in jax.tree.leaves(records):
            present &= jnp.all(jnp.isfinite(leaf.reshape(group, -1)), axis=1)

        def shown(leaf: Any) -> Any:  # before the loss: the derivative of NaN is NaN, times 0 too
            return jnp.where(present.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, 0.0)

        losses = jax.vmap(problem.loss, (None, 0))(parameters, jax.tree.map(shown, records))
        return jnp.sum(jnp.where(present, losses, 0.0))

    stacked = jax.tree.map(
        lambda leaf: np.zeros((group, *np.shape(leaf)), np.asarray(leaf).dtype), problem.record
    )
    return RecordLoss(loss, problem.parameters, stacked, group)


def fingerprint(function: Callable[..., Any], *arguments: Any) -> str:
    """A function as a short name of its program: equal wherever the same code is traced. Rules of
    derivatives that are written by hand (`jax.custom_vjp`) are not part of it."""
    program = jax.make_jaxpr(function)(*arguments)
    digest = hashlib.sha256(_ADDRESS.sub("", str(program)).encode())
    for constant in _constants(program):  # arrays that it holds are printed as shapes only
        digest.update(np.asarray(constant).tobytes())
    return digest.hexdigest()[:16]


def _constants(program: Any) -> Iterator[Any]:
    """The arrays that a program holds, and those of the programs inside it (`jax.jit`)."""
    if isinstance(program, ClosedJaxpr):
        yield from program.consts
        program = program.jaxpr
    for equation in program.eqns:
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program):
            if _is_program(inner):
                yield from _constants(inner)


def _is_program(value: Any) -> bool:
    return isinstance(value, (ClosedJaxpr, Jaxpr))


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
