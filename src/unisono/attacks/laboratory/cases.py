"""The defences on trial, each set to the same relative strength on every ground.

Clipping bounds are a part of the typical length of a gradient, noise is a multiple of its typical
coordinate, so that one row of the table means the same for every attack. The exponent is that of m
in lecture 13's Table 1, which bounds the error of the tensor method from above:

    none, clipping, dropout     B sqrt(d/m),  B sqrt(d/(m p)): p KEEPS            -1/2
    k local steps               k B sqrt(d/m)                                     -1/2
    l2 noise                    (B + σ) sqrt(d/m)                                 -1/2
    DP-SGD                      (B + σ max(1, |g|/C)) sqrt(d/m), |g| ~ sqrt(m)     0
    secure sum of n             n B sqrt(d/m): the batch is n times as large      -1/2
    pruning                     none is given
"""

from collections.abc import Callable
from typing import NamedTuple

from unisono.attacks.defences import (
    ClippingDefence,
    Defence,
    DpSgd,
    Dropout,
    GradientNoise,
    LocalStepsDefence,
    Nothing,
    Pruning,
    SecureSum,
)
from unisono.attacks.laboratory.testbed import BATCH, Ground
from unisono.errors import InvalidInput

STEPS = BATCH  # local steps; with fresh batches one record each


class Case(NamedTuple):
    """A row: a short name for `--only`, words, the defence for batches of a size on a ground, the
    bound of lecture 13 and its exponent in m (None where there is none)."""

    name: str
    words: str
    make: Callable[[Ground, int], Defence]
    bound: str
    exponent: float | None
    fresh: bool = False


def _noise(times: float) -> Callable[[Ground, int], Defence]:
    return lambda g, batch: GradientNoise(times * g.batch_length / g.numbers**0.5)


def _sum(parties: int) -> Callable[[Ground, int], Defence]:
    return lambda g, batch: SecureSum(parties, (g.rows, g.targets))


def _private(multiplier: float) -> Callable[[Ground, int], Defence]:
    return lambda g, batch: DpSgd(g.record_length / 4, multiplier, batch)


_PLAIN, _DP = "B sqrt(d/m)", "(B + σ max(1, |g|/C)) sqrt(d/m)"
CASES = (
    Case("none", "no defence", lambda g, b: Nothing(), _PLAIN, -0.5),
    Case(
        "local-same",
        f"{STEPS} local steps, same batch",
        lambda g, b: LocalStepsDefence(STEPS, g.rate),
        "k B sqrt(d/m)",
        -0.5,
    ),
    Case(
        "local-fresh",
        f"{STEPS} local steps, fresh batches",
        lambda g, b: LocalStepsDefence(STEPS, g.rate, fresh=True),
        "k B sqrt(d/m)",
        -0.5,
        True,
    ),
    Case("noise-weak", "l2 noise, a tenth of a coordinate", _noise(0.1), "(B + σ) sqrt(d/m)", -0.5),
    Case("noise-strong", "l2 noise, a whole coordinate", _noise(1.0), "(B + σ) sqrt(d/m)", -0.5),
    Case(
        "clip-batch",
        "batch clipped to half",
        lambda g, b: ClippingDefence(g.batch_length / 2),
        _PLAIN,
        -0.5,
    ),
    Case(
        "clip-record",
        "each record clipped to half",
        lambda g, b: ClippingDefence(g.record_length / 2, "record"),
        _PLAIN,
        -0.5,
    ),
    Case(
        "dropout-step",
        "dropout keeps 1/2, mask per step",
        lambda g, b: Dropout(0.5, g.units),
        "B sqrt(d/(m p))",
        -0.5,
    ),
    Case(
        "dropout-record",
        "dropout keeps 1/2, mask per record",
        lambda g, b: Dropout(0.5, g.units, "record"),
        "B sqrt(d/(m p))",
        -0.5,
    ),
    Case("pruning", "pruned to 10 %", lambda g, b: Pruning(0.1), "none given", None),
    Case("sum-2", "secure sum of 2 parties", _sum(2), "n B sqrt(d/m)", -0.5),
    Case("sum-4", "secure sum of 4 parties", _sum(4), "n B sqrt(d/m)", -0.5),
    Case("dp-weakest", "DP-SGD, noise 0.01", _private(0.01), _DP, 0.0),
    Case("dp-weak", "DP-SGD, noise 0.1", _private(0.1), _DP, 0.0),
    Case("dp-8", "DP-SGD, noise 0.61", _private(0.61), _DP, 0.0),
    Case("dp-1", "DP-SGD, noise 3.8", _private(3.8), _DP, 0.0),
)

_QUICK = (
    "none",
    "noise-strong",
    "clip-record",
    "dropout-step",
    "pruning",
    "sum-2",
    "dp-weakest",
    "dp-8",
)


def chosen(names: str | None, quick: bool = False) -> tuple[Case, ...]:
    """Cases by comma-separated names, in the order of the table; if none are given all, or one of
    each kind to be quick."""
    if not names:
        return tuple(case for case in CASES if not quick or case.name in _QUICK)
    wanted = [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in {case.name for case in CASES}]
    if unknown:
        known = ", ".join(case.name for case in CASES)
        raise InvalidInput(f"no defence is called {', '.join(unknown)}: choose from {known}")
    return tuple(case for case in CASES if case.name in wanted)
