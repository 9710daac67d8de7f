"""Ready-made networks: a loss of one record, so that the influence of each can be bounded.

A `Network` knows how to start, what one record costs it, and how to predict. The gradient of the
sum over records is the sum of gradients of one record each, and a clip bounds each of those. A
loss that mixes the records of a batch has no such gradients: see `from_batched`.

    logistic        scores = Wᵀx + b
    two_layer       f(x) = Σ_j a_j σ(w_j · x)                              (lecture 13, eq. 4.3)
    mlp             x -> σ(Wᵀx + b) -> ... -> scores
    convolutional   two convolutions, each with a pool, and two dense layers: 26,010 numbers

With r = f(x) - y the two-layer network's squares (f - y)² have the gradients

    by a_j:  2 r σ(w_j · x)              by w_j:  2 a_j r σ'(w_j · x) x

of which the source prints neither the 2 nor the a_j. Labels are float32 and classes count from 0; a
record of an unknown class has a loss of zero whatever the parameters, so that it teaches nothing.
Rows and labels are cut to ±1e6, so that no finite record overflows.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from unisono.errors import InvalidInput
from unisono.problems.batched import from_batched

__all__ = ["Network", "convolutional", "from_batched", "logistic", "mlp", "two_layer"]

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "softplus": jax.nn.softplus,
    "sigmoid": jax.nn.sigmoid,
    "elu": jax.nn.elu,
    "selu": jax.nn.selu,
    "gelu": lambda values: jax.nn.gelu(values, approximate=False),
    "identity": lambda values: values,
}
_LARGEST = 1e6


class Network(NamedTuple):
    """A model without privacy. A record is (row (d,), label ()), all float32.

    `init` takes a key of `jax.random` and gives the parameters, a dict of float32 arrays;
    `predict` takes rows (n, d) and gives scores (n, classes), or values (n,) for regression,
    where `classes` is 0.
    """

    name: str
    init: Callable[[Any], Any]
    loss: Callable[[Any, Any], Any]
    predict: Callable[[Any, Any], Any]
    classes: int


def logistic(features: int, classes: int) -> Network:
    """Multinomial logistic regression; starts at zero, as its loss is convex.

    >>> network = logistic(4, 3)
    >>> network.predict(network.init(jax.random.key(0)), jnp.ones((2, 4))).shape
    (2, 3)
    """
    _require_sizes(features=features, classes=_several(classes))

    def init(key: Any) -> Any:
        return {"weights": jnp.zeros((features, classes)), "bias": jnp.zeros(classes)}

    return _network(f"logistic {features}-{classes}", init, _dense, classes)


def two_layer(
    features: int,
    hidden: int,
    activation: str = "tanh",
    task: str = "squares",
    fixed_output: bool = False,
) -> Network:
    """f(x) = Σ_j a_j σ(w_j · x), without biases; w_j is column j of `hidden`, a is `output`.

    The task "squares" costs (f - y)²; "classes" costs log(1 + exp(-s f)), where s is +1 for
    labels above one half and -1 for others: 0 / 1 and -1 / +1 both will do. `fixed_output` leaves
    a_j at 1/m, as lecture 13 does from eq. (4.7) on.
    """
    _require_sizes(features=features, hidden=hidden)
    shape = _activation(activation)
    if task not in ("squares", "classes"):
        raise InvalidInput(f"task = {task!r} is unknown: choose squares or classes")

    def init(key: Any) -> Any:
        first, second = jax.random.split(key)
        parameters = {"hidden": _normal(first, (features, hidden), 1 / features)}
        if not fixed_output:
            parameters["output"] = _normal(second, (hidden,), 1 / hidden)
        return parameters

    def value(parameters: Any, rows: Any) -> Any:
        output = jnp.full(hidden, 1 / hidden) if fixed_output else parameters["output"]
        return shape(rows @ parameters["hidden"]) @ output

    def loss(parameters: Any, record: Any) -> Any:
        row, label = map(_cut, record)
        if task == "squares":
            return (value(parameters, row) - label) ** 2
        return jax.nn.softplus(jnp.where(label > 0.5, -1.0, 1.0) * value(parameters, row))

    def predict(parameters: Any, rows: Any) -> Any:
        scores = value(parameters, _cut(rows))
        return scores if task == "squares" else jnp.stack([jnp.zeros_like(scores), scores], axis=-1)

    name = f"two-layer {features}-{hidden} {activation} {task}" + " fixed" * fixed_output
    return Network(name, init, loss, predict, 0 if task == "squares" else 2)


def mlp(
    features: int, hidden: Sequence[int] = (256,), classes: int = 10, activation: str = "relu"
) -> Network:
    """Dense layers; `classes=0` is regression at (f - y)²/2."""
    sizes = (features, *hidden, _several(classes) if classes else 1)
    _require_sizes(**{f"layer {number}": size for number, size in enumerate(sizes)})
    shape = _activation(activation)
    pairs = list(pairwise(sizes))

    def init(key: Any) -> Any:
        keys = jax.random.split(key, len(pairs))
        return {f"dense{i}": _layer(keys[i], activation, *pairs[i]) for i in range(len(pairs))}

    def scores(parameters: Any, rows: Any) -> Any:
        for i in range(len(pairs) - 1):
            rows = shape(_dense(parameters[f"dense{i}"], rows))
        last = _dense(parameters[f"dense{len(pairs) - 1}"], rows)
        return last if classes else last[..., 0]

    return _network(f"mlp {'-'.join(map(str, sizes))} {activation}", init, scores, classes)


def convolutional(
    shape: tuple[int, int, int] = (28, 28, 1), classes: int = 10, activation: str = "relu"
) -> Network:
    """The small image network of Opacus's MNIST example, for rows of height x width x channels.

    Convolution 16 of 8x8, stride 2, padding 3; pool; convolution 32 of 4x4, stride 2; pool;
    dense 32; dense `classes`. Pools take the largest of 2x2, at stride 1.
    """
    height, width, channels = shape
    _require_sizes(height=height, width=width, channels=channels, classes=_several(classes))
    bent = _activation(activation)
    # Convolutions leave (s - 2)//2 + 1 and (s - 4)//2 + 1 places, and each pool one place fewer.
    rest = [((size - 2) // 2 - 4) // 2 for size in (height, width)]
    if min(rest) < 1:
        raise InvalidInput(f"images of {height} x {width} are too small: need 14 x 14 or more")
    flat = 32 * rest[0] * rest[1]

    def init(key: Any) -> Any:
        keys = jax.random.split(key, 4)
        return {
            "convolution0": _layer(keys[0], activation, 8, 8, channels, 16),
            "convolution1": _layer(keys[1], activation, 4, 4, 16, 32),
            "dense0": _layer(keys[2], activation, flat, 32),
            "dense1": _layer(keys[3], activation, 32, classes),
        }

    def scores(parameters: Any, rows: Any) -> Any:
        images = rows.reshape(-1, *shape)
        images = _pool(bent(_convolution(parameters["convolution0"], images, padding=3)))
        images = _pool(bent(_convolution(parameters["convolution1"], images, padding=0)))
        inner = bent(_dense(parameters["dense0"], images.reshape(*rows.shape[:-1], flat)))
        return _dense(parameters["dense1"], inner)

    name = f"convolutional {'x'.join(map(str, shape))}-{classes} {activation}"
    return _network(name, init, scores, classes)


# ------------------------------------------------------------- losses of one record


def _network(name: str, init: Any, scores: Any, classes: int) -> Network:
    """Cross-entropy of the scores, or half the squared error of the value."""

    def loss(parameters: Any, record: Any) -> Any:
        row, label = map(_cut, record)
        out = scores(parameters, row)
        if not classes:
            return (out - label) ** 2 / 2
        truth = jax.nn.one_hot(label.astype(jnp.int32), classes, dtype=out.dtype)
        return -jnp.sum(truth * jax.nn.log_softmax(out))

    def predict(parameters: Any, rows: Any) -> Any:
        return scores(parameters, _cut(rows))

    return Network(name, init, loss, predict, classes)


def _cut(values: Any) -> Any:
    return jnp.maximum(jnp.minimum(values, _LARGEST), -_LARGEST)


def _dense(layer: Any, rows: Any) -> Any:
    return rows @ layer["weights"] + layer["bias"]


def _convolution(layer: Any, images: Any, padding: int) -> Any:
    """Stride 2; images (n, height, width, channels)."""
    sides = ((padding, padding), (padding, padding))
    order = ("NHWC", "HWIO", "NHWC")
    found = jax.lax.conv_general_dilated(images, layer["weights"], (2, 2), sides, None, None, order)
    return found + layer["bias"]


def _pool(images: Any) -> Any:
    """The largest of 2x2, at stride 1: by shifts, whose gradient is cheaper than a window's."""
    wide = jnp.maximum(images[:, :-1], images[:, 1:])
    return jnp.maximum(wide[:, :, :-1], wide[:, :, 1:])


# ------------------------------------------------------------- starting points


def _normal(key: Any, shape: tuple[int, ...], variance: float) -> Any:
    return math.sqrt(variance) * jax.random.normal(key, shape, jnp.float32)


def _layer(key: Any, activation: str, *shape: int) -> Any:
    """Weights (..., inputs, outputs) and bias: He's variance where half of the units are silent,
    Glorot's otherwise; a convolution has its inputs and outputs once for every place it sees."""
    inputs, outputs = (math.prod(shape[:-2]) * size for size in shape[-2:])
    silent = activation in ("relu", "softplus", "gelu")
    variance = 2 / inputs if silent else 2 / (inputs + outputs)
    return {"weights": _normal(key, shape, variance), "bias": jnp.zeros(shape[-1])}


# ------------------------------------------------------------- what cannot be built


def _activation(name: str) -> Callable[[Any], Any]:
    if name not in ACTIVATIONS:
        raise InvalidInput(f"unknown activation {name!r}: choose one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def _several(classes: int) -> int:
    if classes < 2:
        raise InvalidInput(f"classes = {classes!r}: a classifier needs at least 2")
    return classes


def _require_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise InvalidInput(f"{name} = {size!r} is not a size: give a whole number from 1")
