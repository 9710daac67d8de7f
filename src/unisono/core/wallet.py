"""What is left of one budget: the state of a privacy filter, as ledgers write it down.

A number cannot say what is left of (epsilon, delta) when the next question may depend on earlier
answers. The state is therefore a pair of distributions that may still be shown, and a bound on the
privacy loss so far:

    mu2     the Gaussian pair N(0, 1), N(mu, 1), mu squared: requests that it dominates may follow
    window  the largest loss of all releases that were not Gaussian: the sum of their epsilons
    clock   the sum of mu squared of all Gaussian releases, which bounds their losses in turn

While all losses lie within epsilon, pure requests may follow even if mu2 cannot bear them. `left`
is the part of delta for tails and for what samplers leave of the intended distributions.
`unisono.accounting.filter` holds the theorem and the charges.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from unisono.core.trust import Viewer
from unisono.core.words import remaining

_MACHINES = 1.001
# The theorem of `accounting.filter`, with the assumption that no code can check.
ADAPTIVE = "guaranteed if each request was chosen from no more than the adversary saw"


class Wallet(NamedTuple):
    """What remains of (epsilon, delta) against one adversary.

    `window` is None once losses without a bound were possible, `mu2` is None once pure requests
    have closed the Gaussian form.
    """

    epsilon: float
    delta: float
    window: Fraction | None
    clock: float
    mu2: float | None
    left: float

    @property
    def fresh(self) -> bool:
        """Whether nothing was released under it."""
        return self.window == self.clock == 0

    def to_json(self) -> list[Any]:
        window = None if self.window is None else str(self.window)
        return [window, self.clock, self.mu2, self.left]

    def after(self, document: Any) -> "Wallet":
        """The later state of this wallet that a ledger line describes."""
        window, clock, mu2, left = document
        return self._replace(
            window=None if window is None else _fraction(window),
            clock=float(clock),
            mu2=None if mu2 is None else float(mu2),
            left=float(left),
        )


@lru_cache(maxsize=64)
def _fraction(text: str) -> Fraction:
    return Fraction(text)


class Remaining(NamedTuple):
    """What may still be released against one adversary: one Gaussian release of epsilon `gaussian`
    at the budget's delta, or pure releases whose epsilons add up to `pure`; `share` is the part of
    the budget that is left."""

    gaussian: float
    pure: float
    share: float

    @property
    def epsilon(self) -> float:
        """Of the largest single release that still fits."""
        return max(self.gaussian, self.pure)

    def words(self, delta: float) -> str:
        """What is left, in both forms in which a budget can be used up.

        >>> Remaining(0.8, 0.5, 0.6).words(1e-6)
        'epsilon 0.8 at delta 1e-06 for one Gaussian release, or epsilon 0.5 in pure epsilons'
        >>> Remaining(0.8, 0.0, 0.6).words(1e-6), Remaining(0.0, 0.5, 0.5).words(1e-6)
        ('epsilon 0.8 at delta 1e-06 for one Gaussian release', 'epsilon 0.5 in pure epsilons')
        >>> Remaining(1.0, 1.0, 1.0).words(1e-6), Remaining(0.0, 0.0, 0.0).words(1e-6)
        ('epsilon 1 at delta 1e-06', 'nothing')
        """
        gaussian, pure = remaining(self.gaussian), remaining(self.pure)
        if gaussian == pure:
            return "nothing" if pure == "0" else f"epsilon {pure} at delta {delta:g}"
        one = f"epsilon {gaussian} at delta {delta:g} for one Gaussian release"
        forms = [one] * (gaussian != "0") + [f"epsilon {pure} in pure epsilons"] * (pure != "0")
        return ", or ".join(forms)


def together(found: Iterable[Remaining]) -> Remaining:
    """What fits under several limits, all of which hold; without any there is no limit."""
    gaussian, pure, share = zip(*found, (math.inf, math.inf, 1.0), strict=True)
    return Remaining(min(gaussian), min(pure), min(share))


def alternatives(found: Sequence[Remaining]) -> Remaining:
    """What fits into one of several wallets: a request is charged to one as a whole."""
    gaussian, pure, share = zip(*found, strict=True)
    return Remaining(max(gaussian), max(pure), sum(share) / len(share))


Wallets = Mapping[tuple[Viewer, int], tuple[Wallet, ...]]  # by year; 0 is for ever


def increase(before: float, after: float) -> float:
    """By how much one decimal is larger than another.

    >>> increase(1.0, 1.3)
    0.3
    """
    return float(Fraction(repr(after)) - Fraction(repr(before)))


def states_to_json(wallets: Wallets) -> list[Any]:
    """Viewers for whom the same is left share one entry."""
    groups: dict[tuple[int, tuple[Wallet, ...]], list[str]] = {}
    for (viewer, year), own in wallets.items():
        groups.setdefault((year, own), []).append(str(viewer))
    return [
        [viewers, year, [wallet.to_json() for wallet in own]]
        for (year, own), viewers in groups.items()
    ]


def states_from_json(document: Any, before: Wallets, charged: int = 1) -> Wallets:
    """Later states of these wallets, as a line describes them; refused if what is left grows, or if
    not one of a viewer's wallets is `charged`."""
    found = {}
    for viewers, year, states in document:
        last: tuple[Wallet, ...] | None = None
        for viewer in viewers:
            key = Viewer(viewer), int(year)
            own = before[key]
            if own is not last and own != last:
                pairs = zip(own, states, strict=True)
                last, later = own, tuple(wallet.after(state) for wallet, state in pairs)
                if not _only_falls(own, later, charged):
                    raise ValueError("what is left has grown")
            found[key] = later
    return found


def _only_falls(before: Sequence[Wallet], after: Sequence[Wallet], charged: int) -> bool:
    """Whether one wallet has less, and none has more. Where none is `charged`, states were computed
    again from older lines, by another machine perhaps, whose searches may end a little apart."""
    more = 1.0 if charged else _MACHINES
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    return len(changed) in (charged, 1) and all(
        0 <= b.left <= a.left * more
        and b.clock * more >= a.clock
        and (b.window is None or (a.window is not None and b.window * more >= a.window))
        and (b.mu2 is None or (a.mu2 is not None and 0 <= b.mu2 <= a.mu2 * more))
        and (b.mu2 is not None or b.window is not None)
        for a, b in changed
    )
