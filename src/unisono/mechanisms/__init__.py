"""Ways of adding noise: what each releases, what it costs, and how far off it may be.

    laplace              pure epsilon, l1          randomized_response   pure epsilon, one answer
    gaussian             (epsilon, delta), l2      selection             pure epsilon, one choice
    norm                 pure epsilon, l2          sampling              secret subsets, any noise
    discrete_gaussian    (epsilon, delta), l2, integers, shares
    skellam              (epsilon, delta), l2, integers, shares

Every module has `calibrate`, which returns the `Event` to authorise and to release, `tail`, which
bounds the error, and its entry of the catalogue, `MECHANISM`. `MECHANISMS` has them by name;
whoever holds noise asks for its `mechanism_of`, and need not know which law it is.
"""

from unisono.core.kinds import Law
from unisono.errors import UnknownEvent
from unisono.mechanisms import (
    discrete_gaussian,
    gaussian,
    laplace,
    norm,
    randomized_response,
    selection,
    skellam,
)
from unisono.mechanisms.mechanism import Mechanism

_MODULES = (
    laplace,
    gaussian,
    norm,
    discrete_gaussian,
    skellam,
    randomized_response,
    selection,
)
MECHANISMS: dict[str, Mechanism] = {module.MECHANISM.name: module.MECHANISM for module in _MODULES}
_BY_LAW = {law: m for m in MECHANISMS.values() for law in (m.law, *m.also)}


def mechanism_of(noise: Law) -> Mechanism:
    """The mechanism that adds this noise, by the exact type of its law."""
    found = _BY_LAW.get(type(noise))
    if found is None:
        raise UnknownEvent(
            f"no mechanism adds {type(noise).__name__} noise: use one of {', '.join(MECHANISMS)}"
        )
    return found


def tail(noise: Law, dimension: int, probability: float) -> float:
    """How far a release in so many coordinates errs, but for `probability`, as its mechanism says.

    >>> from unisono.core.events import Gaussian, Laplace
    >>> round(tail(Gaussian(1.0), 1, 0.05), 3), round(tail(Laplace(1.0), 1, 0.05), 3)
    (1.96, 2.996)
    """
    return mechanism_of(noise).tail(noise, dimension, probability)


__all__ = ["MECHANISMS", "Mechanism", "mechanism_of", "tail"]
