"""Which tensors an activation shows: its Hermite coefficients, and the orders worth estimating.

For a standard normal z, and He_p the Hermite polynomials of probability (1, z, z² - 1, ...),

    σ(ρz) = Σ_p c_p He_p(z) / p!            c_p = E[σ(ρz) He_p(z)]

where ρ is the length of the records times the standard deviation of the weights. The moment of
order p shows c_p Σ_i r_i x_i^⊗p, and nothing where c_p = 0: what counts is c_p / sqrt(p!) against
the length of σ once its constant and its slope are gone, for that is what drowns it.

    orders 2 and 3    selu, elu, shifted relu, shifted tanh
    orders 2 and 4    relu, gelu, softplus: a line plus an even function has c_3 = 0; the signs
                      come from order 1
    order 3 alone     tanh, sigmoid: a constant plus an odd function has c_2 = c_4 = 0, and (r, x)
                      and (-r, -x) look alike: signs are free
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from unisono.errors import InvalidInput

Array = NDArray[np.float64]

HIGHEST = 4
USABLE = 0.02  # of the deflated activation's length; below, a tensor needs > 2500 times the neurons
_REACH, _PANELS, _POINTS = 12.0, 96, 12
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


class Activation(NamedTuple):
    """σ and σ' on arrays; `kinks` says where σ' jumps, so that integrals stay exact."""

    name: str
    value: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    kinks: tuple[float, ...] = ()


class ActivationPlan(NamedTuple):
    """The orders to estimate, all coefficients c_0 ... c_4, and whether signs stay unknown."""

    orders: tuple[int, ...]
    coefficients: Array
    signs_free: bool


def _elu(scale: float, alpha: float) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    def value(t: Any) -> Any:
        return scale * np.where(t > 0, t, alpha * np.expm1(np.minimum(t, 0)))

    def slope(t: Any) -> Any:
        return scale * np.where(t > 0, 1.0, alpha * np.exp(np.minimum(t, 0)))

    return value, slope


def _density(t: Any) -> Any:
    return np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)


_SHAPES = (
    Activation("selu", *_elu(_SELU_SCALE, _SELU_ALPHA), (0.0,)),
    Activation("elu", *_elu(1.0, 1.0), (0.0,)),
    Activation("tanh", np.tanh, lambda t: 1 - np.tanh(t) ** 2),
    Activation("sigmoid", special.expit, lambda t: special.expit(t) * special.expit(-t)),
    Activation("relu", lambda t: np.maximum(t, 0), lambda t: (t > 0) * 1.0, (0.0,)),
    Activation("gelu", lambda t: t * special.ndtr(t), lambda t: special.ndtr(t) + t * _density(t)),
    Activation("softplus", lambda t: np.logaddexp(0, t), special.expit),
    Activation("identity", lambda t: t, np.ones_like),
)
ACTIVATIONS = {shape.name: shape for shape in _SHAPES}


def activation_of(activation: str | Activation) -> Activation:
    if isinstance(activation, Activation):
        return activation
    if activation not in ACTIVATIONS:
        raise InvalidInput(
            f"activation = {activation!r} is unknown: choose one of {', '.join(ACTIVATIONS)}, or "
            f"give an Activation with its value and slope"
        )
    return ACTIVATIONS[activation]


def shifted(activation: str | Activation, shift: float) -> Activation:
    """σ(t - shift): what a common public bias of -shift makes of σ."""
    base = activation_of(activation)
    return Activation(
        f"{base.name} shifted by {shift:g}",
        lambda t: base.value(t - shift),
        lambda t: base.slope(t - shift),
        tuple(kink + shift for kink in base.kinks),
    )


def hermite_coefficients(activation: str | Activation, scale: float = 1.0) -> tuple[Array, float]:
    """c_0 ... c_4 of z -> σ(scale z), and the length sqrt(E[σ²] - c_0² - c_1²) of what is left.

    Gauss-Legendre on panels cut at the kinks; Gauss-Hermite is slow to see a kink.

    >>> coefficients, _ = hermite_coefficients("relu")
    >>> bool(abs(coefficients[2] - 1 / math.sqrt(2 * math.pi)) < 1e-12)
    True
    """
    shape = activation_of(activation)
    edges = np.linspace(-_REACH, _REACH, _PANELS + 1)
    inside = [kink / scale for kink in shape.kinks if abs(kink / scale) < _REACH]
    edges = np.union1d(edges, inside)
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    half = np.diff(edges)[:, None] / 2
    z = ((edges[:-1] + edges[1:])[:, None] / 2 + half * points).ravel()
    mass = (half * weights).ravel() * _density(z)
    values = np.asarray(shape.value(scale * z), np.float64)
    found = np.array([mass @ (values * special.eval_hermitenorm(p, z)) for p in range(HIGHEST + 1)])
    left = values - found[0] - found[1] * z
    return found, math.sqrt(mass @ left**2)


def plan(activation: str | Activation, scale: float = 1.0, outputs: int = 1) -> ActivationPlan:
    """The orders that show the records, or a refusal with its reason.

    Several outputs have a second-order matrix each, and three (hence two independent ones, as
    residuals of a softmax add up to zero) do without a higher order.

    >>> plan("selu").orders, plan("relu").orders, plan("tanh").orders
    ((2, 3), (2, 4), (3,))
    """
    shape = activation_of(activation)
    if not (math.isfinite(scale) and scale > 0):
        raise InvalidInput(f"scale = {scale!r} must be a positive number: norm times weight scale")
    coefficients, left = hermite_coefficients(shape, scale)
    sizes = np.abs(coefficients) / np.sqrt(special.factorial(np.arange(HIGHEST + 1)))
    if left <= 1e-6 * math.sqrt(left**2 + sizes[0] ** 2 + sizes[1] ** 2):
        raise InvalidInput(
            f"{shape.name} is a straight line at scale {scale:g}: one gradient shows only "
            f"Σ r_i x_i; use the attack on linear networks, which needs d + 1 rounds"
        )
    first = sizes[1] > USABLE * left
    second, third, fourth = (sizes[p] > USABLE * left for p in (2, 3, 4))
    if second and (third or fourth):
        higher = 3 if (third and sizes[3] >= sizes[4]) or not fourth else 4
        return ActivationPlan((2, higher), coefficients, not (third and higher == 3) and not first)
    if third:
        return ActivationPlan((3,), coefficients, True)
    if second and outputs >= 3:
        return ActivationPlan((2,), coefficients, not first)
    shares = ", ".join(f"{size / left:.1e}" for size in sizes[2:])
    raise InvalidInput(
        f"{shape.name} at scale {scale:g} shows no record: of its curved part orders 2, 3 and 4 "
        f"hold {shares}, and the method needs order 2 with 3 or 4, or 3 alone, above {USABLE:g} "
        f"(order 2 alone shows a subspace, not its records); use gradient inversion"
    )
