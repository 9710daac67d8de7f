"""The tensor method on the two-layer network, by attackers who know a defence and who do not.

Both read the gradient by the output weights out of what was seen. The adaptive one

    dropout, one mask    leaves out silent neurons: the others are an unthinned network
    pruning              starts from all and polishes on the neurons that were sent
    secure sum           looks for the records of all parties

and goes on with all else as if it were plain: clips and local steps change residuals, and the
method finds those anyway. The error of moments is what lecture 13 bounds; the polish is what
an attacker would do next, and knows no such bound.
"""

import numpy as np

from unisono.attacks.laboratory.testbed import FEATURES, Ground
from unisono.attacks.tensor import ACTIVATIONS, Neurons, attack
from unisono.attacks.tensor.polish import polish
from unisono.attacks.victim import Seen, as_gradient, visible_mask

_NORM, _SCALE = FEATURES**0.5, FEATURES**-0.5
_SHAPE = ACTIVATIONS["selu"]
# Equations for each unknown; without noise a few would do, with noise all help.
_EQUATIONS = 16
_STEPS = 40
_MOST_POLISHED = 10  # records; the time grows with their fourth power


def by_moments(ground: Ground, seen: Seen, records: int, adaptive: bool = True) -> np.ndarray:
    """Records (k, d) of length sqrt(d), with an error that falls as 1/sqrt(m)."""
    gradient, weights, _ = _read(ground, seen, adaptive)
    wanted = records * (seen.public.get("parties", 1) if adaptive else 1)
    options = {"norm": _NORM, "scale": _SCALE, "polished": False, "polish_neurons": 1000}
    return attack(gradient, weights, _SHAPE, min(wanted, FEATURES), **options).rows


def polished(ground: Ground, seen: Seen, start: np.ndarray, adaptive: bool = True) -> np.ndarray:
    """Records (k, d) near `start` that solve the equations g_j = Σ_i r_i σ(w_j · x_i); more than
    ten are left as they are, to save time and not because it would fail."""
    if len(start) > _MOST_POLISHED:
        return start
    gradient, weights, sent = _read(ground, seen, adaptive)
    chosen = sent[: _EQUATIONS * (start.size + len(start) + 1)]
    neurons = Neurons(len(chosen), FEATURES, _SCALE, lambda a, b: weights[chosen[a:b]])
    found = polish(gradient[chosen][:, None], neurons, _SHAPE, start * _SCALE, steps=_STEPS)
    return found.rows / _SCALE


def adapts(seen: Seen) -> bool:
    """Whether knowing the recipe makes a difference to this attack."""
    public = seen.public
    return "pruned" in public or "parties" in public or public.get("masks") == "step"


def _read(ground: Ground, seen: Seen, adaptive: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradient (m,), the weights (m, d), and which of its numbers are equations."""
    gradient = np.asarray(as_gradient(seen)["output"], float)
    weights = np.asarray(ground.parameters["hidden"]).T
    if adaptive and seen.public.get("masks") == "step":
        kept = visible_mask(seen) > 0
        gradient, weights = gradient[kept], weights[kept]
    everything = np.arange(len(gradient))
    # Pruning chooses neurons by their size: moments over these would be biased, equations are not.
    sent = np.flatnonzero(gradient) if adaptive and "pruned" in seen.public else everything
    return gradient, weights, sent
