"""Records from one gradient of a two-layer network, by moments over its random neurons."""

from unisono.attacks.tensor.activations import ACTIVATIONS, Activation, plan, shifted
from unisono.attacks.tensor.moments import Neurons, array_neurons, gaussian_neurons
from unisono.attacks.tensor.pipeline import Diagnostics, Recovered, attack

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Diagnostics",
    "Neurons",
    "Recovered",
    "array_neurons",
    "attack",
    "gaussian_neurons",
    "plan",
    "shifted",
]
