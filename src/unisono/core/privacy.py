"""What a study promises: epsilon and delta of the whole run, and under which relation.

It belongs to the study, never to an algorithm's settings: whoever learns, learns within it.
"""

from dataclasses import dataclass, replace
from typing import Any

from unisono.core.defaults import RELATION
from unisono.core.sensitivity import positive
from unisono.core.trust import Relation, named
from unisono.errors import InvalidInput


@dataclass(frozen=True)
class Privacy:
    """What one unit may lose by the whole run. `own` gives every party an epsilon of its own,
    where each adds all of its noise itself (trust LOCAL).

    >>> Privacy(1.0).pure, Privacy(1.0, 1e-6).pure
    (True, False)
    """

    epsilon: float
    delta: float = 0.0
    relation: Relation = RELATION
    own: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        object.__setattr__(self, "relation", named(Relation, "relation", self.relation))
        for number, epsilon in enumerate(self.own):
            positive(**{f"epsilon of party {number}": epsilon})
        if not (isinstance(self.delta, (int, float)) and 0 <= self.delta < 1):
            raise InvalidInput(
                f"delta = {self.delta!r} lies outside [0, 1): choose one far below 1 / number of "
                "records, such as 1e-6, or 0 for pure epsilon"
            )

    @property
    def pure(self) -> bool:
        return self.delta == 0

    @property
    def largest(self) -> float:
        """The weakest promise that any party is given."""
        return max(self.own, default=self.epsilon)

    @property
    def smallest(self) -> float:
        """The strongest one."""
        return min(self.own, default=self.epsilon)

    def of(self, party: int, parties: int) -> float:
        """One party's epsilon."""
        if not self.own:
            return self.epsilon
        if len(self.own) != parties:
            raise InvalidInput(
                f"{len(self.own)} epsilons for {parties} parties: give every party its own"
            )
        return self.own[party]

    def split(self, share: float) -> tuple["Privacy", "Privacy"]:
        """This promise in two: for a first release that takes a share of every epsilon and of
        delta, and for whatever follows. By basic composition (Dwork and Roth 2014, theorem 3.16)
        whoever keeps both keeps this one; that is simple, and slightly more careful than needed.

        >>> first, rest = Privacy(2.0, 1e-6).split(0.25)
        >>> first.epsilon, rest.epsilon
        (0.5, 1.5)
        """
        if not 0 < share < 1:
            raise InvalidInput(
                f"share = {share!r}: a first release takes more than 0 and less "
                "than 1 of the promise"
            )

        def first(whole: float) -> float:
            return share * whole

        def rest(whole: float) -> float:
            return whole - share * whole

        one, other = (
            replace(
                self,
                epsilon=part(self.epsilon),
                delta=part(self.delta),
                own=tuple(map(part, self.own)),
            )
            for part in (first, rest)
        )
        return one, other

    def to_json(self) -> dict[str, Any]:
        own = {"own": list(self.own)} if self.own else {}
        said = {"epsilon": self.epsilon, "delta": self.delta, "relation": str(self.relation)}
        return said | own
