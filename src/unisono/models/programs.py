"""Reading a traced program: where parameters meet records, and running it with eyes open.

A jaxpr is a list of operations. `sites_of` finds those that alone use a parameter and multiply it
with something made of the record: y = x W, or the convolution of an image, which is the same for
every patch. `evaluate` runs a program and shows each result before it is used.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jaxpr_types

_INLINED = ("jit", "pjit", "closed_call", "core_call")


@dataclass(frozen=True)
class Site:
    """Where a parameter meets a record: y = x W (`product`) or y = conv(x, W)."""

    leaf: int
    product: Callable[[Any, Any], Any]  # (x of one record, δ of one record) -> piece of the leaf
    joined: Callable[[Any], Any] | None  # Σ x ⊗ δ as (p, o) -> the parameter's own shape
    shape: tuple[int, ...]  # of the result, where δ is added
    terms: int
    data: int  # which operand is the record's


def inlined(jaxpr: Any) -> Any:
    """The same program with calls of compiled functions written out."""
    equations: list[Any] = []
    names: dict[Any, Any] = {}

    def atom(value: Any) -> Any:
        while not isinstance(value, jaxpr_types.Literal) and value in names:
            value = names[value]
        return value

    def walk(inner: Any) -> None:
        for equation in inner.eqns:
            called = _called(equation)
            operands = [atom(value) for value in equation.invars]
            if called is None:
                equations.append(equation.replace(invars=operands))
                continue
            # A function that is called twice has its variables renamed for each call.
            fresh = _renamed(called)
            names.update(zip(fresh.invars, operands, strict=True))
            walk(fresh)
            names.update(
                zip(equation.outvars, [atom(value) for value in fresh.outvars], strict=True)
            )

    walk(jaxpr)
    return jaxpr.replace(eqns=equations, outvars=[atom(v) for v in jaxpr.outvars])


def _called(equation: Any) -> Any:
    """The body of a call without constants of its own, else None."""
    if equation.primitive.name not in _INLINED:
        return None
    closed = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
    if closed is None:
        return None
    body = getattr(closed, "jaxpr", closed)
    return None if body.constvars else body


def _renamed(jaxpr: Any) -> Any:
    fresh: dict[Any, Any] = {}

    def atom(value: Any) -> Any:
        if isinstance(value, jaxpr_types.Literal):
            return value
        if value not in fresh:
            fresh[value] = jaxpr_types.Var(value.aval)
        return fresh[value]

    def out(value: Any) -> Any:
        return value if type(value).__name__ == "DropVar" else atom(value)

    equations = [
        equation.replace(
            invars=[atom(v) for v in equation.invars], outvars=[out(v) for v in equation.outvars]
        )
        for equation in jaxpr.eqns
    ]
    return jaxpr.replace(
        invars=[atom(v) for v in jaxpr.invars],
        outvars=[atom(v) for v in jaxpr.outvars],
        eqns=equations,
    )


def evaluate(closed: Any, arguments: list[Any], meet: Callable[[int, list[Any], Any], Any]) -> Any:
    """Run a program, showing every single result to `meet` before it is used."""
    jaxpr = closed.jaxpr
    known = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(value: Any) -> Any:
        return value.val if isinstance(value, jaxpr_types.Literal) else known[value]

    for at, equation in enumerate(jaxpr.eqns):
        operands = [read(value) for value in equation.invars]
        settings = equation.primitive.get_bind_params(equation.params)
        with equation.ctx.manager:
            result = equation.primitive.bind(*operands, **settings)
        results = result if equation.primitive.multiple_results else [meet(at, operands, result)]
        known.update(zip(equation.outvars, results, strict=True))
    return read(jaxpr.outvars[0])


def sites_of(jaxpr: Any, count: int) -> dict[int, Site]:
    """Operations that alone use a parameter and multiply it with something of the record."""
    parameters = {variable: k for k, variable in enumerate(jaxpr.invars[:count])}
    uses: dict[Any, list[int]] = {variable: [] for variable in parameters}
    made = set(parameters)  # what is computed from parameters only holds nothing of the record
    for at, equation in enumerate(jaxpr.eqns):
        variables = [v for v in equation.invars if not isinstance(v, jaxpr_types.Literal)]
        for variable in variables:
            if variable in uses:
                uses[variable].append(at)
        if variables and all(v in made for v in variables):
            made.update(equation.outvars)
    results = {v for v in jaxpr.outvars if not isinstance(v, jaxpr_types.Literal)}
    found: dict[int, Site] = {}
    for variable, places in uses.items():
        if len(places) != 1 or variable in results:
            continue
        equation = jaxpr.eqns[places[0]]
        reader = _READERS.get(equation.primitive.name)
        if reader is None:
            continue
        ours = [v is variable for v in equation.invars]
        other = equation.invars[ours.index(False)] if sum(ours) == 1 else None
        if other is None or isinstance(other, jaxpr_types.Literal) or other in made:
            continue
        site = reader(equation, parameters[variable], ours.index(True))
        if site is not None:
            found[places[0]] = site
    return found


def _dense(equation: Any, leaf: int, position: int) -> Site | None:
    """y = dot_general(x, W) or dot_general(W, x), without batch dimensions."""
    contracted, batch = equation.params["dimension_numbers"]
    if batch[0] or batch[1]:
        return None
    weights, data = equation.invars[position].aval, equation.invars[1 - position].aval
    ours, theirs = contracted[position], contracted[1 - position]
    free = [axis for axis in range(len(weights.shape)) if axis not in ours]
    rest = [axis for axis in range(len(data.shape)) if axis not in theirs]
    rows = math.prod(data.shape[axis] for axis in rest)
    inner = math.prod(weights.shape[axis] for axis in ours)
    outer = math.prod(weights.shape[axis] for axis in free)
    order = [*ours, *free]
    back = list(np.argsort(order))

    def split(x: Any, slope: Any) -> tuple[Any, Any]:
        """x as (rows, p) and δ as (rows, o)."""
        x = jnp.transpose(x, [*rest, *theirs]).reshape(rows, inner)
        slope = slope.reshape(outer, rows).T if position == 0 else slope.reshape(rows, outer)
        return x, slope

    def joined(matrix: Any) -> Any:
        return matrix.reshape([weights.shape[axis] for axis in order]).transpose(back)

    return _site(equation, leaf, 1 - position, split, joined, rows, inner, outer)


def _convolution(equation: Any, leaf: int, position: int) -> Site | None:
    """y = conv(x, W) of one image: each place of the result sees one patch of the input."""
    settings = equation.params
    data, kernel = (variable.aval for variable in equation.invars)
    layout = settings["dimension_numbers"]
    groups = (settings["feature_group_count"], settings["batch_group_count"])
    one = data.shape[layout.lhs_spec[0]] == 1
    if position != 1 or groups != (1, 1) or not one or set(settings["lhs_dilation"]) != {1}:
        return None
    window = [kernel.shape[axis] for axis in layout.rhs_spec[2:]]
    places = [equation.outvars[0].aval.shape[axis] for axis in layout.out_spec[2:]]
    rows, inner = math.prod(places), math.prod(window) * kernel.shape[layout.rhs_spec[1]]
    outer = kernel.shape[layout.rhs_spec[0]]
    # The patches' columns are ordered (window..., channel).
    order = [*layout.rhs_spec[2:], layout.rhs_spec[1], layout.rhs_spec[0]]
    back = list(np.argsort(order))

    def split(x: Any, slope: Any) -> tuple[Any, Any]:
        image = jnp.transpose(x, [*layout.lhs_spec[2:], layout.lhs_spec[1], layout.lhs_spec[0]])
        found = _patches(
            image[..., 0], window, places, settings["window_strides"], settings["padding"],
            settings["rhs_dilation"],
        )  # fmt: skip
        moved = jnp.transpose(slope, [*layout.out_spec[2:], layout.out_spec[1], layout.out_spec[0]])
        return found.reshape(rows, inner), moved.reshape(rows, outer)

    def joined(matrix: Any) -> Any:
        return matrix.reshape([kernel.shape[axis] for axis in order]).transpose(back)

    return _site(equation, leaf, 0, split, joined, rows, inner, outer)


def _patches(
    image: Any, window: list[int], places: list[int], strides: Any, padding: Any, dilation: Any
) -> Any:
    """The part of an image (..., channels) under the window at each place: (places, window, c)."""
    # Negative padding crops, as it does in the convolution itself.
    image = jax.lax.pad(
        image, jnp.zeros((), image.dtype), [*((a, b, 0) for a, b in padding), (0, 0, 0)]
    )
    taps = []
    for offset in np.ndindex(*window):
        begin = [o * d for o, d in zip(offset, dilation, strict=True)]
        cut = tuple(
            slice(b, b + s * (n - 1) + 1, s) for b, s, n in zip(begin, strides, places, strict=True)
        )
        taps.append(image[cut])
    stacked = jnp.stack(taps, axis=len(window))
    return stacked.reshape(*places, math.prod(window), image.shape[-1])


def _site(
    equation: Any, leaf: int, data: int, split: Any, joined: Any, rows: int, inner: int, outer: int
) -> Site:
    shape = equation.outvars[0].aval.shape
    if rows == 1:
        # One row: the gradient is an outer product, and is never formed.
        def pair(x: Any, slope: Any) -> Any:
            x, slope = split(x, slope)
            return x[0], slope[0]

        return Site(leaf, pair, joined, shape, inner + outer, data)

    def whole(x: Any, slope: Any) -> Any:
        x, slope = split(x, slope)
        return joined(jnp.matmul(x.T, slope))

    return Site(leaf, whole, None, shape, inner * outer, data)


_READERS: dict[str, Callable[[Any, int, int], Site | None]] = {
    "dot_general": _dense,
    "conv_general_dilated": _convolution,
}
