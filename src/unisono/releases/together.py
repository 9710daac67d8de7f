"""One promise for two releases: how much noise each needs so that both together keep it.

Whoever splits epsilon and delta keeps the promise by basic composition (`Privacy.split`), and pays
too much for it: Gaussian noise adds up in squares (Dong, Roth and Su 2022, corollary 3.3). So both
parts are promised the same factor more, at the whole delta, as long as the accountant finds that
both together still show no viewer more than was promised:

    first   (c share ε, δ)       rest   (c (1 - share) ε, δ)       c = 1, 1 + 1/32, 1 + 2/32, ...

The parts are priced as always, and ledgers add up what they cost without knowing of c. It is one of
few public numbers, so that all machines find the same one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.algorithm import Facts
from unisono.core.costs import added
from unisono.core.events import Composed
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import Trust, Viewer

if TYPE_CHECKING:  # without JAX
    from unisono.releases.algorithm import AlgorithmKind, Method

First = TypeVar("First")
Rest = TypeVar("Rest")
Made = TypeVar("Made")
Costs = Sequence[Mapping[Viewer, Composed]]
_PARTS = 32


def together(
    promise: Privacy,
    share: float,
    first: Callable[[Privacy], First],
    rest: Callable[[Privacy], Rest],
    costs: Callable[[First, Rest], tuple[Costs, Costs]],
) -> tuple[First, Rest]:
    """What two functions make of their parts of a promise. `costs` says what either shows of each
    party. With pure epsilon, or epsilons of parties' own, the promise is simply split."""
    one, other = promise.split(share)
    made = first(one), rest(other)
    if promise.pure or promise.own:
        return made
    kept = _kept(_both(*costs(*made)), promise)

    def enlarged(parts: int) -> tuple[First, Rest]:
        factor = 1 + parts / _PARTS
        return (
            first(replace(promise, epsilon=factor * share * promise.epsilon)),
            rest(replace(promise, epsilon=factor * (1 - share) * promise.epsilon)),
        )

    low, high = 0, int(_PARTS / max(share, 1 - share)) - _PARTS + 1  # `low` keeps it, `high` not
    while high - low > 1:
        middle = (low + high) // 2
        tried = enlarged(middle)
        if _keeps(_both(*costs(*tried)), kept, promise):
            low, made = middle, tried
        else:
            high = middle
    return made


def in_stages(
    kind: "AlgorithmKind",
    promise: Privacy,
    made: Callable[["AlgorithmKind", Privacy], Made],
    study: Callable[[Made], Study],
) -> list[Made]:
    """What `made` makes of an algorithm and of those that it begins with, first ones first, each
    with its part of the promise. `study` finds the study in it."""
    alone = made(kind, promise)
    before = study(alone).method.earlier
    if before is None:
        return [alone]

    def cost(stages: list[Made]) -> Costs:
        parts = zip(*(study(one).costs for one in stages), strict=True)
        return [own[0] if len(own) == 1 else added(own) for own in parts]

    first, rest = together(
        promise,
        before.share,
        lambda part: in_stages(before.kind, part, made, study),
        lambda part: [made(kind, part)],
        lambda one, other: (cost(one), cost(other)),
    )
    return [*first, *rest]


def studies_of(method: "Method", facts: Facts, trust: Trust) -> tuple[Study | None, Study]:
    """The study of a method, and before it that of the one which it begins with, if any: both keep
    the method's promise together."""

    def made(kind: "AlgorithmKind", part: Privacy) -> Study:
        own = replace(method, privacy=part)
        return Study(
            own if kind is method.kind else kind.method(method.problem, part), facts, trust
        )

    *before, study = in_stages(method.kind, method.privacy, made, lambda one: one)
    return (before[0] if before else None), study


def largest_part(
    whole: float, start: float, tried: Callable[[float], tuple[First, float]]
) -> tuple[First, float] | None:
    """For many alike parts of one promise: what `tried` makes of the largest epsilon of a part with
    which all parts together cost no more than `whole`, to about 2 %, and that epsilon. `tried` also
    says what they cost; costs are nearly in proportion. Epsilons have four digits, so that all
    machines find the same. None where no epsilon is small enough.
    """
    low, high, found, guess = 0.0, math.inf, None, min(start, whole)
    for _ in range(_PARTS):
        epsilon = float(f"{guess:.4g}")
        made, cost = tried(epsilon)
        if cost <= whole:
            low, found = epsilon, (made, epsilon)
            if cost >= 0.98 * whole or epsilon >= whole:
                return found
        else:
            high = epsilon
        if found is not None and high / low < 1.005:
            return found
        towards = epsilon * whole / max(cost, 1e-9) * 0.995
        between = low < towards < high
        guess = towards if between else (low + high) / 2 if math.isfinite(high) else 2 * epsilon
        guess = min(guess, whole)
    return found


def _both(first: Costs, rest: Costs) -> Costs:
    """What both show of each party; parties that pay alike share one."""
    pairs = list(zip(first, rest, strict=True))
    known = {(id(a), id(b)): added((a, b)) for a, b in pairs}
    return [known[id(a), id(b)] for a, b in pairs]


def _kept(costs: Costs, promise: Privacy) -> list[tuple[Viewer, ...]]:
    """To whom the promise is kept, for each party."""
    known = {
        id(cost): tuple(viewer for viewer, own in cost.items() if _fits(own, promise))
        for cost in {id(cost): cost for cost in costs}.values()
    }
    return [known[id(cost)] for cost in costs]


def _keeps(costs: Costs, kept: list[tuple[Viewer, ...]], promise: Privacy) -> bool:
    """Whether the promise is kept to the same viewers of every party; how many rounds there are,
    and so which parties share a cost, may have changed."""
    pairs = {
        (id(cost), viewers): (cost, viewers) for cost, viewers in zip(costs, kept, strict=True)
    }
    return all(_fits(cost[one], promise) for cost, viewers in pairs.values() for one in viewers)


def _fits(history: Composed, promise: Privacy) -> bool:
    if history.discloses:
        return False
    return ACCOUNTANT.fits(history, promise.relation, promise.epsilon, promise.delta)


__all__ = ["in_stages", "largest_part", "studies_of", "together"]
