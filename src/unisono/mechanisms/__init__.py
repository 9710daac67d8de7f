"""Ways of adding noise: what each releases, what it costs, and how far off it may be.

    laplace              pure epsilon, l1          randomized_response   pure epsilon, one answer
    gaussian             (epsilon, delta), l2      selection             pure epsilon, one choice
    norm                 pure epsilon, l2          sampling              secret subsets, any noise
    discrete_gaussian    (epsilon, delta), l2, integers, shares
    skellam              (epsilon, delta), l2, integers, shares

Every module has `calibrate`, which returns the `Event` to authorise and to release, and
`tail`, which bounds the error. `MECHANISMS` lists them for tests and for the command line.
"""

from collections.abc import Callable
from typing import NamedTuple

from unisono.core.events import Event
from unisono.mechanisms import (
    discrete_gaussian,
    gaussian,
    laplace,
    norm,
    randomized_response,
    selection,
    skellam,
)


class Mechanism(NamedTuple):
    """One entry of the catalogue."""

    name: str
    releases: str
    norm: str
    pure: bool
    shares: str
    calibrate: Callable[..., Event]
    tail: Callable[..., float]


MECHANISMS: dict[str, Mechanism] = {
    m.name: m
    for m in (
        Mechanism(
            "laplace",
            "a vector",
            "l1",
            True,
            "differences of Pólya variables",
            laplace.calibrate,
            laplace.tail,
        ),
        Mechanism(
            "gaussian",
            "a vector",
            "l2",
            False,
            "rounded Gaussians",
            gaussian.calibrate,
            gaussian.tail,
        ),
        Mechanism(
            "norm",
            "a vector",
            "l2",
            True,
            "over the reals only (gamma mixture)",
            norm.calibrate,
            norm.tail,
        ),
        Mechanism(
            "discrete-gaussian",
            "an integer vector",
            "l2",
            False,
            "with a divisibility gap",
            discrete_gaussian.calibrate,
            discrete_gaussian.tail,
        ),
        Mechanism(
            "skellam",
            "an integer vector",
            "l2",
            False,
            "exact: sums stay Skellam",
            skellam.calibrate,
            skellam.tail,
        ),
        Mechanism(
            "randomized-response",
            "one answer out of k",
            "linf",
            True,
            "none",
            randomized_response.calibrate,
            randomized_response.tail,
        ),
        Mechanism(
            "selection",
            "one of several candidates",
            "linf",
            True,
            "none",
            selection.calibrate,
            selection.tail,
        ),
    )
}

__all__ = ["MECHANISMS", "Mechanism"]
