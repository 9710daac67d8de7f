"""Reading a traced program: where parameters meet records, and running it with eyes open.

A jaxpr is a list of operations. `sites_of` finds those that alone use a parameter and multiply it
with something made of the record: y = x W, or the convolution of an image, which is the same for
every patch. `evaluate` runs a program and shows each result before it is used.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jaxpr_types

_FLOAT = np.dtype(np.float32)
_INLINED = ("jit", "pjit", "closed_call", "core_call")


@dataclass(frozen=True)
class Site:
    """Where a parameter meets a record, in matrix form: y = shaped(X M) with rows X (r, p) made of
    x, a matrix M (p, o) made of W and a product (r, o). A dense layer sees one row; a convolution
    sees one row for each place of its window."""

    leaf: int
    data: int  # which operand is the record's
    rows: int
    inner: int
    outer: int
    met: Callable[[Any, Any], tuple[Any, Any]]  # X and X M, of x and W
    weights_of: Callable[[Any], Any]  # W of M
    shaped: Callable[[Any], Any]

    @property
    def terms(self) -> int:
        """How many squares are added up in the norm of one record's gradient."""
        return self.inner + self.outer if self.rows == 1 else self.inner * self.outer

    def piece(self, rows: Any, slope: Any) -> Any:
        """One record's gradient: the pair of an outer product, or the sum over several rows, as
        a matrix (o, p): CPUs compute this way round faster."""
        if self.rows == 1:
            return rows[0], slope[0]
        return jnp.matmul(slope.T, rows)


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


def evaluate(closed: Any, arguments: list[Any], meet: Callable[[int, list[Any]], Any]) -> Any:
    """Run a program; where `meet` has an answer for an operation, that is its result."""
    jaxpr = closed.jaxpr
    known = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(value: Any) -> Any:
        return value.val if isinstance(value, jaxpr_types.Literal) else known[value]

    for at, equation in enumerate(jaxpr.eqns):
        operands = [read(value) for value in equation.invars]
        result = meet(at, operands)
        if result is None:
            settings = equation.primitive.get_bind_params(equation.params)
            with equation.ctx.manager:
                result = equation.primitive.bind(*operands, **settings)
        results = result if equation.primitive.multiple_results else [result]
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
        if {variable.aval.dtype, other.aval.dtype, equation.outvars[0].aval.dtype} != {_FLOAT}:
            continue  # norms of other types would overflow or lose digits
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
    shape = equation.outvars[0].aval.shape
    matrix_of, weights_of = _matrix_form(weights.shape, [*ours, *free], inner, outer)

    def met(x: Any, w: Any) -> Any:
        seen = jnp.transpose(x, [*rest, *theirs]).reshape(rows, inner)
        return seen, jnp.matmul(seen, matrix_of(w))

    return Site(
        leaf,
        1 - position,
        rows,
        inner,
        outer,
        met=met,
        weights_of=weights_of,
        # The result has the axes of its first operand first.
        shaped=lambda product: (product.T if position == 0 else product).reshape(shape),
    )


def _convolution(equation: Any, leaf: int, position: int) -> Site | None:
    """y = conv(x, W) of one image: each place of the result sees one patch of the input."""
    settings = equation.params
    data, kernel = (variable.aval for variable in equation.invars)
    layout = settings["dimension_numbers"]
    groups = (settings["feature_group_count"], settings["batch_group_count"])
    one = data.shape[layout.lhs_spec[0]] == 1
    places = [equation.outvars[0].aval.shape[axis] for axis in layout.out_spec[2:]]
    spread = any(step != 1 for step in settings["lhs_dilation"])
    if position != 1 or groups != (1, 1) or not one or spread or 0 in places:
        return None
    axes = [
        _Axis(*numbers)
        for numbers in zip(
            (data.shape[axis] for axis in layout.lhs_spec[2:]),
            (kernel.shape[axis] for axis in layout.rhs_spec[2:]),
            places,
            settings["window_strides"],
            settings["padding"],
            settings["rhs_dilation"],
            strict=True,
        )
    ]
    outer, channels = (kernel.shape[axis] for axis in layout.rhs_spec[:2])
    rows, inner = math.prod(places), math.prod(axis.window for axis in axes) * channels
    # The patches' columns are ordered (window..., channel).
    order = [*layout.rhs_spec[2:], layout.rhs_spec[1], layout.rhs_spec[0]]
    matrix_of, weights_of = _matrix_form(kernel.shape, order, inner, outer)
    back = list(np.argsort([*layout.out_spec[2:], layout.out_spec[1], layout.out_spec[0]]))

    @jax.custom_vjp
    def product(image: Any, patches: Any, weights: Any) -> Any:
        return jnp.matmul(patches, matrix_of(weights))

    def backward(weights: Any, slope: Any) -> Any:
        return _slope_of_image(axes, jnp.transpose(weights, order), slope), None, None

    product.defvjp(lambda *operands: (product(*operands), operands[2]), backward)

    def met(x: Any, weights: Any) -> Any:
        image = jnp.transpose(x, [*layout.lhs_spec[2:], layout.lhs_spec[1], layout.lhs_spec[0]])
        image = image[..., 0]
        patches = _patches(axes, jax.lax.stop_gradient(image)).reshape(rows, inner)
        return patches, product(image, patches, weights)

    return Site(
        leaf,
        0,
        rows,
        inner,
        outer,
        met=met,
        weights_of=weights_of,
        shaped=lambda product: product.reshape(*places, outer, 1).transpose(back),
    )


def _matrix_form(shape: Any, order: list[int], inner: int, outer: int) -> tuple[Any, Any]:
    """Weights of any shape as a matrix (p, o), and back."""
    back = list(np.argsort(order))
    sizes = [shape[axis] for axis in order]
    return (
        lambda weights: jnp.transpose(weights, order).reshape(inner, outer),
        lambda matrix: matrix.reshape(sizes).transpose(back),
    )


class _Axis(NamedTuple):
    """A convolution along one axis of an image."""

    size: int
    window: int
    places: int
    stride: int
    padding: tuple[int, int]
    dilation: int

    @property
    def span(self) -> int:
        return self.dilation * (self.window - 1) + 1


def _patches(axes: list[_Axis], image: Any) -> Any:
    """The part of an image (..., channels) under the window at each place: (rows, *window, c)."""
    # Negative padding crops, as it does in the convolution itself.
    sides = [*((*axis.padding, 0) for axis in axes), (0, 0, 0)]
    image = jax.lax.pad(image, jnp.zeros((), image.dtype), sides)
    span = [*(axis.span for axis in axes), image.shape[-1]]
    taps = tuple(slice(None, None, axis.dilation) for axis in axes)
    places = np.array(list(np.ndindex(*(axis.places for axis in axes))), np.int32)
    corners = places * np.array([axis.stride for axis in axes], np.int32)
    return jax.vmap(lambda at: jax.lax.dynamic_slice(image, (*at, 0), span)[taps])(corners)


def _slope_of_image(axes: list[_Axis], kernel: Any, slope: Any) -> Any:
    """dl/dx of a convolution from dl/dy (rows, o) and the kernel (*window, c, o): a convolution
    too, of the slopes, spread by the stride, with the kernel turned round.

    JAX has the same rule, but names the kernel's axes in an order that XLA computes ten times
    slower inside a loop on CPUs."""
    count = len(axes)
    turned = jnp.swapaxes(jnp.flip(kernel, range(count)), -1, -2)
    sides = []
    for axis in axes:
        before = axis.span - 1 - axis.padding[0]
        spread = axis.stride * (axis.places - 1) + 1
        sides.append((before, axis.size + axis.span - 1 - spread - before))
    image = (0, count + 1, *range(1, count + 1))
    return jax.lax.conv_general_dilated(
        slope.reshape(1, *(axis.places for axis in axes), -1),
        turned,
        [1] * count,
        sides,
        [axis.stride for axis in axes],
        [axis.dilation for axis in axes],
        jax.lax.ConvDimensionNumbers(image, (count + 1, count, *range(count)), image),
    )[0]


_READERS: dict[str, Callable[[Any, int, int], Site | None]] = {
    "dot_general": _dense,
    "conv_general_dilated": _convolution,
}
