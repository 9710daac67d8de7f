"""The tensor method: the records of a batch from one gradient of a network (lecture 13, 5.2).

    f(x) = Σ_j a_j σ(w_j · x)            w_j ~ N(0, s² I), public, at the start of training
    g_j  = dL/da_j = Σ_i r_i σ(w_j · x_i)            r_i: slope of the loss, 2 (f - y) for squares

The viewer is the server (or whoever reads the unprotected update of one party): it knows W, σ and
the batch size, and sees g alone. Steps, each a module of this package:

    activations    which orders σ shows, or a refusal
    moments        deflate g; span of the records; orders 2, 3, 4 seen from the span
    diagonalise    directions by simultaneous diagonalisation
    refine         signs and residuals from odd and even orders; least squares beyond 8 records
    polish         solve g_j = Σ_i r_i σ(w_j · x_i) itself

The records are taken to have one known length (`norm`). Where lengths differ, directions are still
consistent, as order p then holds c_p(s ||x_i||) r_i: lengths and residuals are wrong until a polish
with `free_lengths`, which a homogeneous σ (relu) can never give. The error before the polish is
that of sample means over neurons, and falls as sqrt(1/m): the bound B sqrt(d/m) of (5.2) there is
about this estimate; it is no bound on the attacker, whom the polish leaves no error.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from unisono.attacks.tensor.activations import Activation, Array, activation_of, plan
from unisono.attacks.tensor.diagonalise import joint_directions, slices
from unisono.attacks.tensor.moments import (
    Neurons,
    array_neurons,
    contracted,
    deflated,
    leading_span,
    leading_span_of_order_three,
    row_span,
)
from unisono.attacks.tensor.polish import Polished, best_readout, polish
from unisono.attacks.tensor.refine import fitted
from unisono.errors import InvalidInput

REFINE_BEYOND = 8
POLISH_NEURONS = 100_000
_NEURONS_PER_UNKNOWN = 20
_EXACT = 1e-6  # also of a gradient in float32


class Diagnostics(NamedTuple):
    """What the attacker can see of its own success, without the truth."""

    orders: tuple[int, ...]
    signs_free: bool
    spectrum: Array  # (d,), largest first; the batch's values should stand out from the rest
    gap: float  # of the eigenvalues that told the records apart, at most 1
    real: bool  # whether those eigenvalues were real; complex ones mean too few neurons
    misfit: float  # ||g - fit|| / ||g||: near 0 says that the records are found
    moment_rows: Array  # (B, d): before the polish


class Recovered(NamedTuple):
    """Records (B, d) in no particular order, and residuals (B,), or (B, outputs) of a softmax, in
    the units of the gradient given: for (f - y)² they are 2 (f - y)."""

    rows: Array
    residuals: Array
    diagnostics: Diagnostics


def attack(
    gradient: Any,
    weights: Any,
    activation: str | Activation,
    batch: int,
    *,
    norm: float = 1.0,
    scale: float = 1.0,
    hidden_gradient: Any = None,
    polished: bool = True,
    polish_neurons: int = POLISH_NEURONS,
    free_lengths: bool = False,
    seed: int = 0,
) -> Recovered:
    """Recover `batch` records from dL/da, (m,) or (m, classes), and weights (m, d) or Neurons.

    `norm` is the common length of the records and `scale` the standard deviation of the weights.
    `hidden_gradient` (m, d), dL/dW, shows the span exactly. The polish reads the first
    `polish_neurons` neurons: without noise a few for each unknown suffice, with noise all help.

    >>> from unisono.attacks.tensor import shifted
    >>> generator = np.random.default_rng(0)
    >>> rows = generator.normal(size=(2, 8))
    >>> rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    >>> weights = generator.normal(size=(4000, 8))
    >>> found = attack(np.tanh(weights @ rows.T - 1) @ [0.7, -0.9], weights, shifted("tanh", 1), 2)
    >>> bool(np.min(np.linalg.norm(found.rows - rows[0], axis=1)) < 1e-9)
    True
    """
    shape = activation_of(activation)
    neurons = weights if isinstance(weights, Neurons) else array_neurons(weights, scale)
    seen, flat = _gradient(gradient, neurons, batch)
    length = norm * neurons.scale  # of a record, in units of the standardised weights
    chosen = plan(shape, length, seen.shape[1])
    generator = np.random.default_rng(seed)

    left, slopes = deflated(seen, neurons)
    if hidden_gradient is not None:
        basis, spectrum = row_span(_hidden(hidden_gradient, neurons), batch)
    elif 2 in chosen.orders:
        basis, spectrum = leading_span(left, neurons, batch)
    else:
        basis, spectrum = leading_span_of_order_three(left, neurons, batch, generator)
    higher = contracted(left, neurons, basis, chosen.orders)
    candidates = joint_directions(slices(higher), generator)
    if not candidates:
        raise InvalidInput(
            "the moments of this gradient are singular (is it zero, or the batch too large?): "
            f"there are no {batch} directions in it; ask for fewer records"
        )
    moments = {1: slopes @ basis, **higher}
    fits = [
        fitted(moments, chosen.coefficients, one.columns, batch > REFINE_BEYOND)
        for one in candidates
    ]
    order = sorted(range(len(fits)), key=lambda k: fits[k].cost)
    starts = [length * (basis @ fits[k].columns).T for k in order]
    best = candidates[order[0]]
    if polished:
        rows, residuals, _, misfit = _polished(
            seen, neurons, shape, starts, polish_neurons, free_lengths
        )
    else:
        rows, residuals = starts[0], fits[order[0]].residuals
        misfit = _misfit(seen, _first(neurons, polish_neurons), shape, rows)
    return Recovered(
        rows / neurons.scale,
        residuals[:, 0] if flat else residuals,
        Diagnostics(
            chosen.orders,
            chosen.signs_free,
            spectrum,
            best.gap,
            best.real,
            misfit,
            starts[0] / neurons.scale,
        ),
    )


def _polished(
    gradient: Array,
    neurons: Neurons,
    shape: Activation,
    starts: list[Array],
    most: int,
    free_lengths: bool,
) -> Polished:
    """Polish on few neurons from one start after another, until one explains them; where none
    does there is noise, and the best goes on with more neurons."""
    few = _first(neurons, min(most, _NEURONS_PER_UNKNOWN * (starts[0].size + 1)))
    found = []
    for start in starts:
        found.append(polish(gradient, few, shape, start, free_lengths=free_lengths))
        if found[-1].misfit < _EXACT:
            return found[-1]
    best = min(found, key=lambda one: one.misfit)
    if few.count == min(most, neurons.count):
        return best
    return polish(gradient, _first(neurons, most), shape, best.rows, free_lengths=free_lengths)


def _misfit(gradient: Array, neurons: Neurons, shape: Activation, rows: Array) -> float:
    readout = best_readout(gradient, neurons, shape, rows)
    left = 0.0
    for at, block in neurons.blocks():
        values = shape.value(block.astype(np.float64) @ rows.T)
        left += float(np.sum((values @ readout[:-1] + readout[-1] - gradient[at]) ** 2))
    return math.sqrt(left) / max(float(np.linalg.norm(gradient[: neurons.count])), 1e-300)


def _first(neurons: Neurons, count: int) -> Neurons:
    return Neurons(min(count, neurons.count), neurons.features, neurons.scale, neurons.read)


# ------------------------------------------------------------- what cannot be attacked


def _gradient(gradient: Any, neurons: Neurons, batch: int) -> tuple[Array, bool]:
    """As float64 (m, outputs), and whether it was (m,)."""
    found = np.asarray(gradient, np.float64)
    flat = found.ndim == 1
    found = found[:, None] if flat else found
    if found.ndim != 2 or len(found) != neurons.count:
        raise InvalidInput(
            f"the gradient has shape {np.shape(gradient)} for {neurons.count} neurons: give dL/da, "
            f"(m,) or (m, classes)"
        )
    if not np.all(np.isfinite(found)):
        raise InvalidInput("the gradient holds NaN or infinity: attack another round")
    if not (isinstance(batch, int) and 1 <= batch <= neurons.features):
        raise InvalidInput(
            f"batch = {batch!r} must be from 1 to d = {neurons.features}: the method tells apart "
            f"at most as many records as there are features"
        )
    if neurons.count < 2 * (neurons.features + 1):
        raise InvalidInput(
            f"{neurons.count} neurons are too few for moments in {neurons.features} features: it "
            f"takes many more than d; use gradient inversion"
        )
    return found, flat


def _hidden(hidden_gradient: Any, neurons: Neurons) -> Array:
    found = np.asarray(hidden_gradient, np.float64)
    if found.shape != (neurons.count, neurons.features) or not np.all(np.isfinite(found)):
        raise InvalidInput(
            f"hidden_gradient has shape {found.shape}: give finite numbers of the weights' shape "
            f"{(neurons.count, neurons.features)}"
        )
    return found
