"""The gradient of every record of a batch, without holding them all in memory.

Clipping needs the norm of each record's own gradient, then a weighted sum of gradients. Where a
layer y = x W sees a record as one row x, that record's gradient of W is the outer product x ⊗ δ
with δ = dl/dy, so that

    ||x ⊗ δ|| = ||x|| ||δ||            Σ_i w_i x_i ⊗ δ_i = Xᵀ diag(w) Δ

and one pass forward and one backward give everything: as much work as training without privacy.
Everything else (biases, convolutions, layers that a record passes several times) is held record by
record: gradients of those are small, or sums of many terms that cancel, whose floating-point error
would be measured against the terms and not against the clipped gradient.

No layer library is needed: the loss is traced once, and the program that comes out is read. An
operation that is the only one to use a parameter, and multiplies it with something of the record,
is written as a product of matrices; a zero is added to its result, whose derivative is δ, and its
input x is remembered. A convolution becomes the product of the patches under its window.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from unisono.errors import InvalidInput
from unisono.problems.programs import evaluate, inlined, sites_of
from unisono.problems.refusals import MIXES, require_apart, require_floats

_SMALLEST, _LARGEST = 1e-15, 1e15
# Layers of up to so many outputs are added up output by output.
_NARROW = 16


class Leaf(NamedTuple):
    """One array of parameters: how its gradients are held, and how many numbers are added up when
    the norm of one record's gradient is computed (its floating-point error grows with them)."""

    name: str
    shape: tuple[int, ...]
    kind: str  # "outer" or "whole"
    terms: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Pieces(NamedTuple):
    """All that is needed of n records: losses (n,), and per leaf the pair (x (n, p), δ (n, o)), or
    the gradients themselves, (n, o, p) or (n, *shape)."""

    losses: Any
    leaves: tuple[Any, ...]


class PerRecord:
    """How to get per-record gradients of `loss(parameters, record)`, from shapes alone.

    `parameters` is any pytree of floating-point arrays and `record` a pytree of one record's
    arrays; only their shapes and types are looked at.
    """

    def __init__(self, loss: Callable[[Any, Any], Any], parameters: Any, record: Any) -> None:
        shapes = jax.tree.map(_shape, parameters)
        paths, structure = jax.tree_util.tree_flatten_with_path(shapes)
        self.structure: Any = structure
        if not paths:
            raise InvalidInput("there are no parameters to learn: give a pytree of arrays")
        names = [jax.tree_util.keystr(path) or "parameters" for path, _ in paths]
        leaves = [leaf for _, leaf in paths]
        require_floats(names, leaves)
        try:
            program, result = jax.make_jaxpr(loss, return_shape=True)(shapes, _shapes(record))
        except NameError as error:
            raise InvalidInput(MIXES.format(error)) from None
        if getattr(result, "shape", None) != ():
            raise InvalidInput(
                f"the loss of one record returns {jax.tree.map(_words, result)}: it must be one "
                "number; a record is one row, so do not average over a batch"
            )
        flat = inlined(program.jaxpr)
        self._program = ClosedJaxpr(flat, program.consts)
        self._text = str(self._program)
        self._sites = sites_of(flat, len(leaves))
        gradient = jax.make_jaxpr(jax.grad(loss))(shapes, _shapes(record))
        require_apart(flat, gradient.jaxpr, self._sites.keys())
        outer = {site.leaf: site for site in self._sites.values()}
        self.leaves = tuple(
            Leaf(
                name,
                leaf.shape,
                "outer" if k in outer and outer[k].rows == 1 else "whole",
                outer[k].terms if k in outer else max(1, math.prod(leaf.shape)),
            )
            for k, (name, leaf) in enumerate(zip(names, leaves, strict=True))
        )
        # Leaves that are differentiated record by record, each record with a copy of its own.
        self._copied = [k for k in range(len(leaves)) if k not in outer]

    @property
    def dimension(self) -> int:
        """How many numbers are learned."""
        return sum(leaf.size for leaf in self.leaves)

    @property
    def terms(self) -> int:
        """How many numbers at most are added up in the norm of one record's gradient."""
        return max(leaf.terms for leaf in self.leaves) + len(self.leaves)

    @property
    def program(self) -> str:
        """The loss as text, the same wherever it is traced: what parties agree on."""
        return self._text

    def pieces(self, parameters: Any, records: Any) -> Pieces:
        """Losses and gradients of n records, stacked along their first axis."""
        flat = self.structure.flatten_up_to(parameters)
        rows = jax.tree.leaves(records)
        count = rows[0].shape[0]
        copies = [jnp.broadcast_to(flat[k], (count, *flat[k].shape)) for k in self._copied]
        zeros = {
            at: jnp.zeros((count, site.rows, site.outer), jnp.float32)
            for at, site in self._sites.items()
        }

        def total(copies: Any, zeros: Any) -> Any:
            run = jax.vmap(self._one, in_axes=(None, 0, 0, 0))
            losses, inputs = run(flat, copies, zeros, rows)
            return jnp.sum(losses), (losses, inputs)

        slopes, (losses, inputs) = jax.grad(total, argnums=(0, 1), has_aux=True)(copies, zeros)
        found: dict[int, Any] = dict(zip(self._copied, slopes[0], strict=True))
        for at, site in self._sites.items():
            found[site.leaf] = jax.vmap(site.piece)(inputs[at], slopes[1][at])
        return Pieces(losses, tuple(found[k] for k in range(len(flat))))

    def _one(self, flat: Any, copies: Any, zeros: Any, rows: Any) -> tuple[Any, Any]:
        """The loss of one record, and what its parameters met."""
        own = dict(zip(self._copied, copies, strict=True))
        values = [own.get(k, leaf) for k, leaf in enumerate(flat)]
        inputs = {}

        def meet(at: int, operands: list[Any]) -> Any:
            site = self._sites.get(at)
            if site is None:
                return None
            inputs[at], product = site.met(operands[site.data], operands[1 - site.data])
            return site.shaped(product + zeros[at])

        loss = evaluate(self._program, [*values, *rows], meet)
        return loss, inputs

    def norms(self, pieces: Pieces) -> Any:
        """The norm of every record's gradient, leaf by leaf: (n, leaves)."""
        return jnp.stack([_norm(piece) for piece in pieces.leaves], axis=1)

    def weighted(self, pieces: Pieces, weights: Any) -> list[Any]:
        """Σ_i w_i g_i for weights (n, leaves), as a list of arrays of the parameters' shapes."""
        sites = {site.leaf: site for site in self._sites.values()}
        sums = []
        for k, piece in enumerate(pieces.leaves):
            own = weights[:, k]
            if isinstance(piece, tuple):
                x, slope = piece
                total = _product(x, own[:, None] * slope)
            else:
                total = jnp.tensordot(own, piece, 1, precision="highest")
                total = total.T if k in sites else total
            sums.append(sites[k].weights_of(total) if k in sites else total)
        return sums


def cut(pieces: Pieces) -> Pieces:
    """Pieces whose numbers lie in ±1e15, and are zero below 1e-15: what is added is what the norms
    saw. The squares of numbers beyond would overflow, or vanish, and a norm be too small."""

    def one(leaf: Any) -> Any:
        return jnp.where(jnp.abs(leaf) < _SMALLEST, 0.0, jnp.clip(leaf, -_LARGEST, _LARGEST))

    return Pieces(pieces.losses, jax.tree.map(one, pieces.leaves))


def masked(pieces: Any, keep: Any) -> Any:
    """Pieces in which the records that do not count are zero, whatever they held."""

    def zeroed(leaf: Any) -> Any:
        return jnp.where(keep.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, 0.0)

    return jax.tree.map(zeroed, pieces)


def finite_records(records: Any, mask: Any) -> tuple[Any, Any]:
    """Records and which of them count, where one that is not finite is zero and does not: in a
    sum of products it would turn what the others add into NaN."""

    def finite(column: Any) -> Any:
        return jnp.all(jnp.isfinite(column.reshape(len(column), -1)), axis=1)

    for column in jax.tree.leaves(records):
        mask = mask & finite(column)
    return masked(records, mask), mask


def _product(x: Any, slopes: Any) -> Any:
    """Xᵀ Δ of (n, p) and (n, o). For few outputs column by column: compilers for processors turn
    products of a matrix and a vector into one pass over the matrix, but multiply a tall matrix,
    transposed, with a narrow one several times more slowly."""
    if slopes.shape[1] > _NARROW:
        return jnp.matmul(x.T, slopes, precision="highest")
    columns = [jnp.matmul(slope, x, precision="highest") for slope in slopes.T]
    return jnp.stack(columns, axis=1)


def _norm(piece: Any) -> Any:
    if isinstance(piece, tuple):
        return _row_norm(piece[0]) * _row_norm(piece[1])
    return _row_norm(piece)


def _row_norm(rows: Any) -> Any:
    flat = rows.reshape(len(rows), -1)
    return jnp.sqrt(jnp.sum(flat * flat, axis=1))


def _shape(leaf: Any) -> Any:
    if not hasattr(leaf, "shape"):
        leaf = np.asarray(leaf)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


def _shapes(record: Any) -> Any:
    return jax.tree.map(_shape, record)


def _words(leaf: Any) -> str:
    return f"an array of shape {leaf.shape}"
