"""Privacy-loss-distribution accountant with certified upper and lower bounds.

>>> spent = compose([(GaussianPair(1.0, rate=0.01), 10_000)])
>>> bracket = spent.epsilon(1e-5)
>>> 6.18 < bracket.lower < bracket.upper < 6.19
True
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from unisono.accounting.convolution import compose_laws
from unisono.accounting.discretisation import discretise
from unisono.accounting.pairs import ApproximatePair, DiscretePair, Pair, PurePair
from unisono.accounting.planning import (
    epsilon_and_tilt,
    plan_step,
    plan_window,
    sketch,
)
from unisono.accounting.shift_pairs import GaussianPair, LaplacePair, Relation

__all__ = [
    "ApproximatePair",
    "Bracket",
    "Composition",
    "DiscretePair",
    "GaussianPair",
    "LaplacePair",
    "PurePair",
    "Relation",
    "compose",
]

_CUT = 1e-7  # share of delta that may be cut from all local tails together
_LARGEST_GRID = 2**23


class Bracket(NamedTuple):
    """A certified interval: the truth lies in ``[lower, upper]``."""

    lower: float
    upper: float

    @property
    def width(self) -> float:
        return self.upper - self.lower


def compose(
    terms: Sequence[tuple[Pair, int]], *, tolerance: float = 1e-3, shortcuts: bool = True
) -> "Composition":
    return Composition(tuple(terms), tolerance, shortcuts)


@dataclass(frozen=True)
class Composition:
    terms: tuple[tuple[Pair, int], ...]
    tolerance: float = 1e-3
    shortcuts: bool = True

    def epsilon(self, delta: float) -> Bracket:
        tail = _CUT * delta / sum(c for _, c in self.terms)
        uppers, lowers = [], []
        best = None
        orders = (True,) if all(p.symmetric for p, _ in self.terms) else (True, False)
        plans = {}
        step = math.inf
        for forward in orders:
            law = sketch(self.terms, tail, forward=forward)
            est, tilt = epsilon_and_tilt(law, delta)
            plan = plan_window(law, tilt)
            plans[forward] = plan
            step = min(step, plan_step(law, plan, self.tolerance))
        anchor = max(p.anchor for p, _ in self.terms)
        for _ in range(6):
            if anchor:
                step = anchor / math.ceil(anchor / step)
            ds = [(discretise(p, step, tail), c) for p, c in self.terms]
            ups = {}
            for f in orders:
                ups[f] = compose_laws(
                    [((d.above if f else d.above_reverse), c) for d, c in ds],
                    plans[f],
                    step,
                    upper=True,
                ).epsilon(delta)
            f = max(orders, key=lambda f: ups[f])
            lo = compose_laws(
                [((d.below if f else d.below_reverse), c) for d, c in ds],
                plans[f],
                step,
                upper=False,
            ).epsilon(delta)
            b = Bracket(lo, ups[f])
            print(
                step,
                plans[f],
                b,
                b.width,
                [len(d.above.mass) for d, _ in ds][:3],
                sum(d.above.mass.sum() - 1 for d, _ in ds),
                sum(d.below.mass.sum() - 1 for d, _ in ds),
            )
            if b.width <= self.tolerance:
                return b
            step *= max(0.1, min(0.7, 0.9 * math.sqrt(self.tolerance / b.width)))
        return b
