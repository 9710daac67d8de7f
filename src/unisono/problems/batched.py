"""A loss of one record from a loss that was written for batches.

Per-record clipping bounds a person's influence only if a record's gradient is a function of that
record and the parameters. A loss written for batches keeps to this if

    loss(θ, batch)_i = loss(θ, [record i])_0       for every batch that holds record i

Then a batch of one is the loss of one record. Batch normalisation breaks it: the means and
variances of the whole batch enter every record's loss, and so one person moves the gradients of
all others, whatever each of them is clipped to. The check below compares the loss of a synthetic
record, and its gradient, alone and in two companies. It shows dependence and does not prove
independence; but whatever it misses costs accuracy only, as the loss that is returned never sees
a second record.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.errors import InvalidInput

_COMPANY = 8
_ROUNDING = 1e-3  # batches of different sizes are summed in different orders


def from_batched(loss: Callable[[Any, Any], Any], parameters: Any, records: Any) -> Any:
    """`loss(parameters, batch) -> (n,)` as a loss of one record, if it treats each on its own.

    `records` is a batch, or anything that has its shapes and types (`jax.ShapeDtypeStruct` will
    do), as a tuple or other pytree of arrays (n, ...). Its values are never read.

    >>> def squares(w, batch):
    ...     rows, labels = batch
    ...     return (rows @ w - labels) ** 2
    >>> shapes = jax.ShapeDtypeStruct((9, 2), "float32"), jax.ShapeDtypeStruct((9,), "float32")
    >>> loss = from_batched(squares, jnp.zeros(2), shapes)
    >>> float(loss(jnp.ones(2), (jnp.ones(2), 5.0)))
    9.0
    """
    _require_one_loss_each(loss, parameters, records)
    of_first = jax.jit(jax.value_and_grad(lambda point, batch: loss(point, batch)[0]))
    for point in (parameters, _moved(parameters)):
        _require_independence(of_first, point, records)

    def one(parameters: Any, record: Any) -> Any:
        return loss(parameters, jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], record))[0]

    return one


def _require_one_loss_each(loss: Any, parameters: Any, records: Any) -> None:
    try:
        shape = getattr(jax.eval_shape(loss, parameters, _synthetic(records, 0, 3)), "shape", None)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the loss fails on a batch of three records: {error}") from None
    if shape != (3,):
        raise InvalidInput(
            f"the loss gives shape {shape} for three records: return one number for each, (3,), "
            "not their mean or sum, for the sum hides whose loss is whose"
        )


def _require_independence(of_first: Any, parameters: Any, records: Any) -> None:
    """Compare the first record's loss and gradient alone and in two companies."""
    first = _synthetic(records, 0, 1)
    alone = jax.tree.leaves(of_first(parameters, first))
    for seed in (1, 2):
        others = _synthetic(records, seed, _COMPANY)
        batch = jax.tree.map(lambda *parts: np.concatenate(parts), first, others)
        together = jax.tree.leaves(of_first(parameters, batch))
        if not all(map(_same, alone, together)):
            raise InvalidInput(
                "the loss of a record changes with the other records of its batch, as in batch "
                "normalisation: other people's records enter a record's gradient, so no clip "
                "bounds one record's influence; use group or layer normalisation, which take each "
                "record on its own"
            )


def _same(one: Any, other: Any) -> bool:
    """Equal but for rounding, in proportion to the largest entry; NaN equals NaN."""
    one, other = np.asarray(one, float), np.asarray(other, float)
    largest = np.max(np.abs(one), initial=0.0, where=np.isfinite(one))
    return np.allclose(one, other, rtol=0.0, atol=_ROUNDING * largest, equal_nan=True)


def _synthetic(records: Any, seed: int, count: int) -> Any:
    """Standard-normal records of these shapes; whole numbers where the type is not a float."""
    generator = np.random.default_rng(seed)

    def draw(leaf: Any) -> Any:
        numbers = generator.standard_normal((count, *leaf.shape[1:]))
        floating = jnp.issubdtype(leaf.dtype, jnp.floating)
        return (numbers if floating else np.abs(numbers)).astype(leaf.dtype)

    return jax.tree.map(draw, records)


def _moved(parameters: Any) -> Any:
    """A point nearby: at zero, where many layers start, a network may not show what it does."""
    generator = np.random.default_rng(3)

    def move(leaf: Any) -> Any:
        return leaf + (0.1 * generator.standard_normal(leaf.shape)).astype(leaf.dtype)

    return jax.tree.map(move, parameters)
