"""Contributions of compiled functions: what JAX may see of them, and what it may not.

A compiled function returns arrays. Bounds are no arrays and are known once it is traced, so an
engine asks for them first (`abstract`), compiles the numbers apart (`numbers`), and puts both
together again (`computed`). Contributions are deliberately no pytrees: `jax.tree.map` over one
would make another with the same bound and other numbers.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from unisono.core.grant import Draw
from unisono.core.values import _BOUNDED_ONLY, Contribution


def abstract(function: Callable[..., Any], *arguments: Any) -> Any:
    """What `function` would return, as shapes and bounds, without computing it.

    Whatever is no contribution comes back as it is, to be refused by whoever has to pay for it.
    """
    traced: list[Any] = []

    def value(*given: Any) -> Any:
        made = function(*given)
        traced.append(made)
        return made.value if isinstance(made, Contribution) else None

    shape = jax.eval_shape(value, *arguments)
    made = traced[-1]
    return computed(made, shape, True) if isinstance(made, Contribution) else made


def numbers(function: Callable[..., tuple[Any, Contribution]]) -> Callable[..., Any]:
    """A `local` that returns arrays only: (state, value, whether it kept its bound)."""

    def apart(*arguments: Any) -> tuple[Any, Any, Any]:
        state, made = function(*arguments)
        return state, made.value, jnp.asarray(made.valid)

    return apart


def computed(
    bound: Contribution, value: Any, valid: Any, sample: Draw | None = None
) -> Contribution:
    """The contribution of which `value` and `valid` were computed; `sample` chose its records."""
    return replace(bound, maker=_BOUNDED_ONLY, value=value, valid=valid, sample=sample)
