"""One party's column inside a stack of all parties', read where it lies.

A compiled loop over parties that took its party out of the stack would write every record anew in
every round. Sums that are made part by part (`releases.scaled_sum`) never need more than a few rows
at a time: they cut those out.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class StackedColumn:
    """The column (n, ...) of one party in `stack` (parties, n, ...); no pytree, so that it is
    seen as one column."""

    stack: Any
    party: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.stack.shape[1:])

    @property
    def dtype(self) -> Any:
        return self.stack.dtype

    def cut(self, begin: Any, length: int) -> Any:
        """Rows from `begin` on, as an array."""
        corner = (self.party, begin, *[0] * (self.stack.ndim - 2))
        found = jax.lax.dynamic_slice(self.stack, corner, (1, length, *self.shape[1:]))
        return found.reshape(length, *self.shape[1:])


def cut(column: Any, begin: Any, length: int) -> Any:
    """Rows of a column from `begin` on, wherever it lies."""
    if isinstance(column, StackedColumn):
        return column.cut(begin, length)
    return jax.lax.dynamic_slice_in_dim(jnp.asarray(column), begin, length)


def whole(column: Any) -> Any:
    """A column as an array of its own."""
    return column.cut(0, column.shape[0]) if isinstance(column, StackedColumn) else column


__all__ = ["StackedColumn", "cut", "whole"]
