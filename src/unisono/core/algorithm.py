"""What an algorithm is: pure functions, no party axis, no I/O, no noise.

The engine calls them in this order, once per round:

    public                 = ask(server_state)
    party_state, value     = local(facts, public, party_state, data, mask)   at every party
    party_state            = settle(party_state, accepted)                   at every party
    server_state           = merge(server_state, aggregate)                  post-processing only

`local` returns a bounded `Contribution`; the engine adds the noise that `event` names.
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from unisono.core.events import Composed, Event, Everyone, Gaussian, NoNoise, Sampler, canonical
from unisono.core.trust import EVERYONE, PARTY, SERVER, Trust, Viewer
from unisono.errors import InvalidInput


@dataclass(frozen=True)
class Facts:
    """What everybody knows before the run: sizes, shapes and who may fail or collude.

    With `exact_sizes` the record counts are true and public, so only replace-one and zero-out
    are defined. Without it they are nominal, a party may hold more or fewer records, and the
    presence of a record is hidden too (add-or-remove, E000-1).
    """

    records: tuple[int, ...]
    features: int
    minimum_survivors: int
    colluders: int = 0
    exact_sizes: bool = True

    def __post_init__(self) -> None:
        if not self.records or min(self.records) < 1:
            raise InvalidInput(
                f"record counts {self.records!r}: every party needs at least one record, and "
                "there must be a party"
            )
        if self.features < 1:
            raise InvalidInput(f"features = {self.features!r}: there is nothing to learn from")
        if not 1 <= self.minimum_survivors <= self.parties:
            raise InvalidInput(
                f"minimum_survivors = {self.minimum_survivors!r} with {self.parties} parties: "
                "it lies between 1 and the number of parties"
            )
        if self.colluders < 0 or self.honest < 1:
            raise InvalidInput(
                f"{self.minimum_survivors} survivors of whom {self.colluders} may collude leave "
                "no honest party: require more survivors or tolerate fewer colluders"
            )

    @property
    def parties(self) -> int:
        return len(self.records)

    @property
    def honest(self) -> int:
        """How many shares of noise are certain: survivors less colluders (X-4)."""
        return self.minimum_survivors - self.colluders


class Aggregate(NamedTuple):
    """What the server gets for a round: the noisy sum in value units, and whose it is.

    `records` is the public number of records behind the parties that arrived.
    """

    total: Any
    survivors: Any
    records: Any


class Algorithm(NamedTuple):
    """A private learning algorithm; see the module's description of the order of calls.

    `reach` bounds every coordinate of the clean sum over all parties, from public facts.
    """

    name: str
    settings: Mapping[str, Any]
    trusts: frozenset[Trust]
    combine: Literal["sum", "each"]
    rounds: int
    grid: Callable[[Facts, Trust], float]
    event: Callable[[Facts, Trust], Event]
    init: Callable[[Facts], tuple[Any, Any]]
    ask: Callable[[Any], Any]
    local: Callable[[Facts, Any, Any, Any, Any], tuple[Any, Any]]
    settle: Callable[[Any, Any], Any]
    merge: Callable[[Any, Aggregate], Any]
    result: Callable[[Any], Any]
    reach: Callable[[Facts], float]
    sampler: Sampler = Everyone()

    def cost(self, facts: Facts, trust: Trust, rounds: int | None = None) -> dict[Viewer, Composed]:
        """What the whole run, or some rounds of it, show to each viewer."""
        if trust not in self.trusts:
            raise InvalidInput(
                f"{self.name} cannot run with trust {trust!s}: choose one of "
                + ", ".join(sorted(self.trusts))
            )
        return cost_per_viewer(self.event(facts, trust), rounds or self.rounds, facts, trust)

    def study_hash(self, facts: Facts, trust: Trust) -> str:
        """What all parties agreed on, in one number."""
        agreed = {
            "algorithm": self.name,
            "settings": dict(self.settings),
            "rounds": self.rounds,
            "trust": str(trust),
            "records": list(facts.records),
            "features": facts.features,
            "minimum_survivors": facts.minimum_survivors,
            "colluders": facts.colluders,
            "exact_sizes": facts.exact_sizes,
        }
        return hashlib.sha256(canonical(agreed)).hexdigest()


def cost_per_viewer(
    event: Event, rounds: int, facts: Facts, trust: Trust
) -> dict[Viewer, Composed]:
    """Who sees how much noise (INVENTORY part 3).

    `LOCAL`: everyone sees each party's own message, so everyone gets the event itself.
    `SECURE_SUM`: everyone sees sums that hold at least `honest` shares; one curious party
    also knows its own share, so against it only the other survivors' shares count.
    `TRUSTED_SERVER`: the server sees the clean value.
    Messages travel on encrypted channels: the network sees what is published.
    """
    viewers = [*EVERYONE, *([Viewer.colluders(facts.colluders)] if facts.colluders else [])]
    cost = dict.fromkeys(viewers, event * rounds)
    if trust is Trust.TRUSTED_SERVER:
        for viewer in cost:
            if viewer == SERVER or viewer.coalition:
                cost[viewer] = replace(event, noise=NoNoise()) * rounds
    if trust is Trust.SECURE_SUM and facts.parties > 1:
        others = facts.minimum_survivors - 1
        cost[PARTY] = _with_shares(event, others, facts.honest) * rounds
    return cost


def _with_shares(event: Event, present: int, planned: int) -> Event:
    """The event against someone who leaves `present` unknown shares of `planned`."""
    if present >= planned:
        return event
    if present == 0:
        return replace(event, noise=NoNoise())
    if not isinstance(event.noise, Gaussian):
        raise InvalidInput(
            "against one curious party this noise must be planned for: set colluders to 1 or more"
        )
    std = event.noise.std * math.sqrt(present / planned)
    return replace(event, noise=replace(event.noise, std=std))
