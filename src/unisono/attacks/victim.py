"""What a party computes in one exchange, what the server sees of it, and how an attacker models it.

A party with records (x_i, y_i), i = 1..B, and public parameters θ sends, before any defence,

    g(θ) = (1/B) Σ_i grad l(θ; x_i, y_i)                         (lecture 13, eq. 4.2, 5.1)

or, after k local steps at rate η, the difference θ_k - θ_0, where θ_{s+1} = θ_s - η g(θ_s). The
recipe of a defence is public (`Seen.public`), its records and coins are not. `sender` follows the
recipe and can be differentiated: parties send with it, and adaptive attackers look for records
with which it sends what they saw. A naive attacker takes everything for a plain gradient.

Keys of `public`, each left out where it does not apply:

    steps, rate, fresh   local steps; a fresh batch for each, or the same batch for all
    clip, clipped        the largest l2 norm, of "batch" (the mean gradient) or "record" (each one)
    std                  of the Gaussian noise in each coordinate
    keep, units, masks   dropout: the chance that a hidden unit is KEPT, the path of the array whose
                         first axis counts them, one mask for the "step" or for each "record"
    pruned               the part of coordinates that is sent; the others are zero
    parties              whose updates are averaged
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from unisono.errors import InvalidInput

Loss = Callable[[Any, Any], Any]
_TINY = 1e-30
_RECIPE = ("steps", "rate", "fresh", "clip", "clipped", "keep", "units", "masks")


class Victim(NamedTuple):
    """`loss(parameters, (row, target))`, public parameters, rows (B, d), targets (B, ...)."""

    loss: Loss
    parameters: Any
    rows: Any
    targets: Any


class Seen(NamedTuple):
    """All that the server sees: an update shaped like the parameters, and the public recipe."""

    update: Any
    public: Mapping[str, Any]


class Defence(Protocol):
    """What every defence offers; private it is only where it says so."""

    @property
    def name(self) -> str: ...

    def observe(self, victim: Victim, generator: np.random.Generator) -> Seen: ...

    def epsilon(self, delta: float, records: int, rounds: int) -> float:
        return math.inf


class Model(NamedTuple):
    """An attacker's model: `send(parameters, rows, targets, masks)` should give `update` where
    `counted` is 1.

    There are `records` rows to find. `mask` is a dropout mask that was read off the update.
    `units` is 0, or how many hidden units each record drops by a mask that has to be found too.
    """

    send: Callable[..., Any]
    parameters: Any
    update: Any
    counted: Any
    records: int
    mask: Any = None
    units: int = 0


def sender(loss: Loss, public: Mapping[str, Any]) -> Callable[..., Any]:
    """send(parameters, rows, targets, masks=None): what a party that follows the recipe sends, but
    for noise, pruning and other parties. Masks are (units,) for a step or (B, units) for each
    record; the precision is that of the rows. Compiled once for each loss and recipe."""
    return _sender(loss, tuple((key, public[key]) for key in _RECIPE if key in public))


@lru_cache(maxsize=64)
def _sender(loss: Loss, recipe: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    public = dict(recipe)
    one = _thinned(loss, public) if "units" in public else _plain(loss)

    def gradient(at: Any, rows: Any, targets: Any, masks: Any) -> Any:
        shared = masks is None or jnp.ndim(masks) == 1
        axes = (None, 0, 0, None if shared else 0)
        if public.get("clipped") == "record":
            each = jax.vmap(jax.grad(one), axes)(at, rows, targets, masks)
            lengths = jax.vmap(length)(each)
            weights = jnp.minimum(1.0, public["clip"] / jnp.maximum(lengths, _TINY)) / len(rows)
            return jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, 1), each)
        mean = jax.grad(lambda p: jnp.mean(jax.vmap(one, axes)(p, rows, targets, masks)))(at)
        if public.get("clipped") != "batch":
            return mean
        scale = jnp.minimum(1.0, public["clip"] / jnp.maximum(length(mean), _TINY))
        return jax.tree.map(lambda leaf: scale * leaf, mean)

    def send(parameters: Any, rows: Any, targets: Any, masks: Any = None) -> Any:
        first = jax.tree.map(lambda leaf: jnp.asarray(leaf, rows.dtype), parameters)
        if "steps" not in public:
            return gradient(first, rows, targets, masks)

        def step(at: Any, batch: Any) -> tuple[Any, None]:
            slopes = gradient(at, batch[0], batch[1], masks)
            return jax.tree.map(lambda p, g: p - public["rate"] * g, at, slopes), None

        batches = tuple(_by_step(part, public) for part in (rows, targets))
        last, _ = jax.lax.scan(step, first, batches)
        return jax.tree.map(jnp.subtract, last, first)

    return jax.jit(send)


def _by_step(part: Any, public: Mapping[str, Any]) -> Any:
    """What each local step sees of rows or targets (B, ...): (steps, batch, ...)."""
    if public["fresh"]:
        return part.reshape(public["steps"], -1, *part.shape[1:])
    return jnp.broadcast_to(part, (public["steps"], *part.shape))


def attacker_model(
    loss: Loss, parameters: Any, seen: Seen, records: int, *, adaptive: bool = True
) -> Model:
    """How an attacker who knows the number of records of a party explains what was seen.

    Adaptive attackers follow the public recipe; they fit only coordinates that pruning left, read
    the mask of a whole step off units without any gradient, and look for the records of all
    parties of a secure sum. Naive ones fit a plain gradient everywhere.
    """
    public, update = seen.public, seen.update
    ones = jax.tree.map(lambda leaf: np.ones(np.shape(leaf)), update)
    if not adaptive:
        return Model(sender(loss, {}), parameters, as_gradient(seen), ones, records)
    masks, counted = public.get("masks"), ones
    if "pruned" in public:
        counted = jax.tree.map(lambda leaf: (np.asarray(leaf) != 0) * 1.0, update)
    return Model(
        sender(loss, public),
        parameters,
        update,
        counted,
        records * public.get("parties", 1),
        mask=visible_mask(seen) if masks == "step" else None,
        units=len(leaf_at(parameters, public["units"])) if masks == "record" else 0,
    )


def as_gradient(seen: Seen) -> Any:
    """The update taken for a mean gradient: a difference over k steps is divided by -η k."""
    if "steps" not in seen.public:
        return seen.update
    scale = -1.0 / (seen.public["rate"] * seen.public["steps"])
    return jax.tree.map(lambda leaf: scale * leaf, seen.update)


def visible_mask(seen: Seen) -> np.ndarray:
    """Which hidden units were kept, (units,): a dropped one has no gradient at all."""
    leaf = np.asarray(leaf_at(seen.update, seen.public["units"]))
    return (leaf.reshape(len(leaf), -1) != 0).any(axis=1) * 1.0


def length(tree: Any) -> Any:
    """The l2 norm of all numbers together."""
    return jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(tree)))


def leaf_at(tree: Any, path: tuple[str, ...]) -> Any:
    """The array of nested dicts under a path of keys."""
    for key in path:
        if not isinstance(tree, Mapping) or key not in tree:
            known = ", ".join(map(str, tree)) if isinstance(tree, Mapping) else "an array"
            raise InvalidInput(f"no array at {path!r}: {key!r} is not among {known}")
        tree = tree[key]
    return tree


def _replaced(tree: Any, path: tuple[str, ...], leaf: Any) -> Any:
    if not path:
        return leaf
    return {**tree, path[0]: _replaced(tree[path[0]], path[1:], leaf)}


def _plain(loss: Loss) -> Callable[..., Any]:
    return lambda parameters, row, target, mask: loss(parameters, (row, target))


def _thinned(loss: Loss, public: Mapping[str, Any]) -> Callable[..., Any]:
    """The loss with hidden activations h_j replaced by m_j h_j / p.

    The same as multiplying the weights behind unit j by m_j / p, so that no layer need be known.
    """

    def one(parameters: Any, row: Any, target: Any, mask: Any) -> Any:
        leaf = leaf_at(parameters, public["units"])
        scale = (mask / public["keep"]).reshape(-1, *[1] * (leaf.ndim - 1))
        return loss(_replaced(parameters, public["units"], scale * leaf), (row, target))

    return one
