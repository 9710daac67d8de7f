"""Losses that are refused: what one record changes could not be bounded.

Per-record gradients are computed for many records at once. That is safe where every operation
treats them apart. Some do not: collective operations and batch normalisation by design; callbacks,
hand-written batching rules and random bits of the generator "rbg" by their batching rules; and
convolutions with a kernel of every record's own, which XLA may compute as one large product in
which a record that is not a number meets the zeros of all others.
"""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from jax.extend import core as jaxpr_types

from unisono.errors import InvalidInput

MIXES = (
    "the loss communicates between the records of a batch ({}): a record's gradient would hold "
    "other people's records, and no clip bounds what one record changes. Replace batch "
    "normalisation by group or layer normalisation"
)
_CALLBACKS = ("callback", "custom_vmap", "ffi_call", "infeed", "outfeed", "rng_bit_generator")
_COLLECTIVE = ("psum", "pmax", "pmin", "all_gather", "all_to_all", "ppermute", "axis_index")


def require_floats(names: list[str], leaves: list[Any]) -> None:
    """Parameters are float32: the errors of clipping are proved for it."""
    for name, leaf in zip(names, leaves, strict=True):
        if leaf.dtype != np.float32:
            raise InvalidInput(
                f"{name} has type {leaf.dtype}: parameters are float32 arrays, because gradients "
                "are clipped and rounded in 32 bits; convert it, or keep numbers that are not "
                "learned out of the parameters"
            )


def require_apart(loss: Any, gradient: Any, sites: Collection[int]) -> None:
    """Refuse a loss, or its gradient, with operations that may mix the records of a batch.

    `loss` is the program that is run, with calls written out, and `sites` are its operations that
    are computed in matrix form.
    """
    for equation in (*_equations(loss), *_equations(gradient)):
        name = equation.primitive.name
        if any(part in name for part in _CALLBACKS) or "rbg" in str(equation.params.get("impl")):
            raise InvalidInput(
                f"the loss uses {name}, which handles the records of a batch together: a record's "
                "gradient could hold other people's records. Write it with ordinary operations; "
                'random numbers need the generator "threefry2x32"'
            )
        if any(name.startswith(part) for part in _COLLECTIVE):
            raise InvalidInput(MIXES.format(name))
    fixed = set(loss.constvars)
    for at, equation in enumerate(loss.eqns):
        if all(isinstance(v, jaxpr_types.Literal) or v in fixed for v in equation.invars):
            fixed.update(equation.outvars)
        convolves = [e for e in _equations(equation) if e.primitive.name == _CONVOLUTION]
        if equation.primitive.name == _CONVOLUTION:
            kernel = equation.invars[1]
            known = isinstance(kernel, jaxpr_types.Literal) or kernel in fixed
            convolves = [] if at in sites or known else [equation]
        if convolves:
            raise InvalidInput(
                "a convolution whose kernel is not a parameter of its own (it is grouped, used "
                "twice, changed first, or inside jax.checkpoint or a loop): the gradients of its "
                "records can mix. Give it a kernel of its own, or write it as patches and a matrix "
                "product (jax.lax.conv_general_dilated_patches of the record, then @)"
            )


_CONVOLUTION = "conv_general_dilated"


def _equations(program: Any) -> Iterator[Any]:
    """All operations inside a program, or inside the programs that an operation holds."""
    if hasattr(program, "eqns"):
        for equation in program.eqns:
            yield equation
            yield from _equations(equation)
        return
    for inner in jaxpr_types.jaxprs_in_params(program.params):
        yield from _equations(inner)
