"""One promise for two releases: how much noise each needs so that both together keep it.

Whoever splits epsilon and delta keeps the promise by basic composition (`Privacy.split`), and pays
too much for it: Gaussian noise adds up in squares (Dong, Roth and Su 2022, corollary 3.3). So both
parts are promised the same factor more, at the whole delta, as long as the accountant finds that
both together still show no viewer more than was promised:

    first   (c share ε, δ)       rest   (c (1 - share) ε, δ)       c = 1, 1 + 1/32, 1 + 2/32, ...

The parts are priced as always, and ledgers add up what they cost without knowing of c. It is one of
few public numbers, so that all machines find the same one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.costs import added
from unisono.core.events import Composed
from unisono.core.privacy import Privacy
from unisono.core.trust import Viewer

First = TypeVar("First")
Rest = TypeVar("Rest")
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
    known: dict[int, list[Viewer]] = {}
    kept = []  # the viewers of each party who are shown no more than was promised
    for cost in _both(*costs(*made)):
        if id(cost) not in known:
            known[id(cost)] = [one for one, own in cost.items() if _fits(own, promise)]
        kept.append(known[id(cost)])

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
        found = zip(_both(*costs(*tried)), kept, strict=True)
        several = {(id(cost), id(viewers)): (cost, viewers) for cost, viewers in found}
        if all(
            _fits(cost[viewer], promise) for cost, viewers in several.values() for viewer in viewers
        ):
            low, made = middle, tried
        else:
            high = middle
    return made


def _both(first: Costs, rest: Costs) -> Costs:
    """What both show of each party: one object for parties that pay alike, which is looked at once.
    Whether they do may depend on the noise, so that there is always one for each party."""
    made: dict[tuple[int, int], Mapping[Viewer, Composed]] = {}
    for a, b in zip(first, rest, strict=True):
        if (id(a), id(b)) not in made:
            made[id(a), id(b)] = added((a, b))
    return [made[id(a), id(b)] for a, b in zip(first, rest, strict=True)]


def _fits(history: Composed, promise: Privacy) -> bool:
    if history.discloses:
        return False
    return ACCOUNTANT.fits(history, promise.relation, promise.epsilon, promise.delta)


__all__ = ["together"]
