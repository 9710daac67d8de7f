"""What engines run: a priced algorithm, as pure functions without party axis, I/O or noise.

Authors write a `releases.algorithm.Algorithm`; `releases` prices and binds it to one study and
makes this of it. The engine calls the functions in this order, once per round:

    public                 = ask(server_state)
    party_state, value     = local(facts, public, party_state, data, mask, size)  at every party
    party_state            = settle(party_state, accepted)                        at every party
    server_state           = merge(server_state, aggregate)                       post-processing

`local` returns a bounded `Contribution`; the engine draws the sampling mask and adds the noise that
`event` names. `size` is the party's public number of records, which weights may follow: the rows
that are there may be fewer, or a segment of them.

Some algorithms do more: parties with budgets of their own (`own_event`), parties that take turns
(`schedule`), records that a coordinator names one by one (`named`), several noisy local steps
between two messages (`inner`), noise inside the computation itself (`inside`), noise that changes
from round to round (`round_event`), records that arrive as a small batch (`batch`), and states that
begin with what an earlier release found (`begin`).
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from unisono.core.defaults import default_colluders
from unisono.core.events import (
    Composed,
    Event,
    Everyone,
    NoNoise,
    WithoutReplacement,
    canonical,
    compose,
    releases_of,
)
from unisono.core.printed import Printed
from unisono.core.privacy import Privacy
from unisono.core.trust import EVERYONE, PARTY, SERVER, Trust, Unit, Viewer
from unisono.errors import InvalidInput


@dataclass(frozen=True)
class Facts:
    """What everybody knows before the run: sizes, shapes and who may fail or collude.

    With `exact_sizes` the record counts are true and public, so only replace-one and zero-out
    are defined. Without it they are nominal, a party may hold more or fewer records, and the
    presence of a record is hidden too (add-or-remove).

    `retries` is how many failed rounds of a run may be tried again, in all. Every attempt is a
    release with noise of its own, and noise is calibrated for all of them.

    With `records_per_person` k a row of a party's columns is a person, of at most k records, and
    whatever is said of records is said of persons: `records` counts them, relations hide them. With
    k = 1 rows look as they do without; else they are (k, ...), NaN where a person has fewer.
    A person is at no more than `person_at_parties` of the parties.
    """

    records: tuple[int, ...]
    features: int
    minimum_parties: int
    colluders: int = 0
    exact_sizes: bool = True
    retries: int = 0
    records_per_person: int | None = None
    person_at_parties: int = 1

    def __post_init__(self) -> None:
        self._require_people()
        if self.retries < 0 or int(self.retries) != self.retries:
            raise InvalidInput(f"retries = {self.retries!r}: a whole number of rounds, 0 or more")
        if not self.records or min(self.records) < 1:
            raise InvalidInput(
                f"record counts {self.records!r}: every party needs at least one record, and "
                "there must be a party"
            )
        if self.features < 1:
            raise InvalidInput(f"features = {self.features!r}: there is nothing to learn from")
        if not 1 <= self.minimum_parties <= self.parties:
            raise InvalidInput(
                f"minimum_parties = {self.minimum_parties!r} with {self.parties} parties: "
                "it lies between 1 and the number of parties"
            )
        if self.colluders < 0 or self.honest < 1:
            raise InvalidInput(
                f"colluders = {self.colluders} with minimum_parties = {self.minimum_parties}: "
                "no honest party is left; require that more parties answer, or tolerate fewer "
                "colluders"
            )

    def _require_people(self) -> None:
        many, places = self.records_per_person, self.person_at_parties
        if many is not None and (type(many) is not int or many < 1):
            raise InvalidInput(f"records_per_person = {many!r}: a whole number, 1 or more")
        if type(places) is not int or not 1 <= places <= max(1, self.parties):
            raise InvalidInput(
                f"person_at_parties = {places!r} with {self.parties} parties: it lies between 1 "
                "and the number of parties"
            )
        if places > 1 and many is None:
            raise InvalidInput(
                f"person_at_parties = {places!r} where single records are hidden: it is about "
                "persons; say records_per_person too"
            )

    @property
    def parties(self) -> int:
        return len(self.records)

    @property
    def unit(self) -> Unit:
        """What a row of a party's columns is."""
        return Unit.RECORD if self.records_per_person is None else Unit.PERSON

    @property
    def group(self) -> int:
        """How many records a row holds at most."""
        return self.records_per_person or 1

    @property
    def places(self) -> int:
        """How many rows a party's records take up in a compiled program, all parties alike: the
        largest size, with room to spare where sizes are hidden."""
        most = max(self.records)
        return most if self.exact_sizes else 64 * math.ceil((most + most / 32 + 64) / 64)

    @property
    def most_records(self) -> tuple[int, ...]:
        """How many records of each party a sum may hold before it is refused: as many as agreed;
        where sizes are hidden and may differ from that, twice as many and 64 more."""
        return self.records if self.exact_sizes else tuple(2 * n + 64 for n in self.records)

    def attempts(self, rounds: int) -> int:
        """How often a party may be asked in a run of so many rounds."""
        return rounds + self.retries

    @property
    def honest(self) -> int:
        """How many shares of noise are certain: survivors less colluders. A party alone has all
        of its noise itself: whoever works with the server sees what the server sees."""
        return self.minimum_parties - self.colluders if self.parties > 1 else 1


def agree_facts(
    records: Sequence[int],
    features: int,
    trust: Trust,
    *,
    minimum_parties: int | None = None,
    colluders: int | None = None,
    exact_sizes: bool = True,
) -> Facts:
    """Facts with the defaults: everyone answers, and one party may be curious.

    >>> agree_facts((10, 10, 10), 1, Trust.SECURE_SUM).honest
    2
    """
    parties = len(records)
    survivors = parties if minimum_parties is None else minimum_parties
    if colluders is None:
        colluders = default_colluders(trust, survivors)
    return Facts(tuple(int(n) for n in records), features, survivors, colluders, exact_sizes)


class Aggregate(NamedTuple):
    """What the server gets for a round: the noisy sum in value units, and whose it is.

    `records` is the public number of records behind the parties that arrived. Algorithms that
    combine "each" get the messages one by one: `total` (parties, ...), zero where `present`
    (parties,) is false.
    """

    total: Any
    survivors: Any
    records: Any
    present: Any = None


class SumTerms(NamedTuple):
    """How large a clean sum can be, by public facts, in quantization steps.

    Party p adds up at most `number[p]` terms. Each term adds between `low` and `high` to every
    number, or to each its own (dimension,), and its norms are at most `l1` and `l2`."""

    number: tuple[float, ...]
    low: Any
    high: Any
    l1: float
    l2: float


class Inner(NamedTuple):
    """Several noisy steps at home between two messages: each step is a release of its own.

        state   = absorb(facts, public, state, noisy)     after each of `steps` noisy releases
        message = report(state)                           a vector, rounded to `grid` for the wire

    Neither sees data: the party's state changes by what it released and by public values only
    (what `local` returns as state is ignored), so the message is post-processing.
    """

    steps: int
    absorb: Callable[[Facts, Any, Any, Any], Any]
    report: Callable[[Any], Any]
    grid: float
    reach: float


class Inside(NamedTuple):
    """Noise that goes into a party's computation before there is a value to release: an event of
    its own in every turn, paid and drawn first.

    `local` gets it in whole steps of `grid`, integers of this `shape`, where it gets a party's
    state otherwise: such a party remembers nothing, and the noise ends with the turn.
    """

    event: Event
    grid: float
    shape: tuple[int, ...]


class Schedule(NamedTuple):
    """Who is asked when: `asked` (rounds, parties), which an algorithm's own schedule makes public.

    A `stale` party works on the public values that it saw at its last turn (asynchronous). Where a
    coordinator names records (`Named`), engines make such a schedule of the order that it drew:
    one party is asked in every round, for one of its `rows` (rounds,).
    """

    asked: np.ndarray
    stale: bool = False
    rows: np.ndarray | None = None


class Named(NamedTuple):
    """In every round a coordinator names one record, and its owner alone answers, for it alone.

    The order is the coordinator's own, and secret from the parties: each learns when its own
    records are named. An owner answers at most `uses` times for a record, whoever asks, and is
    silent beyond that; so silence depends on the order alone. A record is then part of `uses`
    messages at most, and all others depend on it through what was released before: whoever knows
    the order, or made it up to do harm, sees `uses` events of it (parallel composition over
    records, sequential over the uses of one).
    """

    uses: int


class InParts(NamedTuple):
    """A party's sum by blocks of records: `local(constants, public, own, data, mask, size)` are
    integers (parts, ...) of a block, which add up over blocks without any error, and
    `join(total, rows)` is what the algorithm's own `local` makes of all records, where blocks have
    so many rows. Functions that are equal share a compiled program: what differs from study to
    study stands in the public `constants`. `bounded(value)` is the contribution of a joined sum,
    where that needs no program."""

    local: Callable[..., Any]
    join: Callable[[Any, int], Any]
    constants: Any = ()
    bounded: Callable[[Any], Any] | None = None


class PricedAlgorithm(NamedTuple):
    """An algorithm with its price; see the module's description of the order of calls.

    `reach` bounds every coordinate of the clean sum over all parties, from public facts; `terms` is
    what sums are held against once they have their noise (`engines.sum_limits`).
    `effective_records` is how many records count, each by its weight over the largest weight, where
    that is not all of them: noise hides the heaviest record.

    With `batch` a party's `local` gets only the rows that its sampling mask chose, padded to this
    many: those that do not fit are left out, which `event` accounts for, or where sizes are hidden
    come in another batch of the same round. `rows` then names, in place of a mask, whose turn it is
    in a round: row numbers (batch,), the same for every party.

    Where sums are `streamed`, a party's rows are gone through block by block, each in the
    processor's cache: several large parties take their turns then, and are not stacked. At public
    sizes such a block is rounded as a whole, so that it matters who is beside whom (`by_company`).

    Where a sum can be computed exactly `in_parts`, every record adds integers of its own to it,
    whoever else is there. In which row of a program a record lies may still decide how its floats
    are rounded, at public sizes, where rows are no multiple of 64 (`engines.layout`). That is worth
    a last bit of a record's own numbers, unless they are computed from what a server asks: scores
    that are differences of huge numbers are nothing but rounding. So it matters in which row each
    record lies wherever a server asks (`by_company`); those of a `batch` have random places.

    A contribution is a sum over records, which may be computed in parts, unless it is made from the
    party's records as a `whole` (a minimiser, an update), whose bound holds whatever the records.
    Noise that was not calibrated says where it was `printed`.

    Where public states stay in a set, `within` is the projection onto it: parties refuse others.
    Where parties follow a clock, `at_round(own, number)` is a party's state as it begins round
    `number`, which it may not have been asked in before: engines in which parties miss rounds call
    it before `local`.

    With `begin` the first states follow from what an earlier stage of the study released, which is
    public: see `begun`. Price and hash do not depend on it.
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
    local: Callable[..., tuple[Any, Any]]
    settle: Callable[[Any, Any], Any]
    merge: Callable[[Any, Aggregate], Any]
    result: Callable[[Any], Any]
    reach: Callable[[Facts], float]
    terms: SumTerms
    own_event: Callable[[Facts, Trust, int], Event] | None = None
    schedule: Callable[[Facts], Schedule] | None = None
    inner: Inner | None = None
    round_event: Callable[[Facts, Trust, int], Event] | None = None
    batch: Callable[[Facts], int] | None = None
    rows: Callable[[Facts, int], np.ndarray] | None = None
    whole: bool = False
    privacy: Privacy | None = None
    dimension: int | None = None
    inside: Inside | None = None
    effective_records: float | None = None
    named: Named | None = None
    printed: Printed | None = None
    begin: Callable[[Facts, Any], tuple[Any, Any]] | None = None
    streamed: bool = False
    in_parts: InParts | None = None
    within: Callable[[Any], Any] | None = None
    at_round: Callable[[Any, int], Any] | None = None

    def begun(self, found: Any) -> "PricedAlgorithm":
        """The same algorithm at the same price, from the states that `found` tells."""
        begin = self.begin
        if begin is None:
            return self
        return self._replace(init=lambda facts: begin(facts, found), begin=None)

    @property
    def alike(self) -> bool:
        """Whether every party pays the same, and the same in every round."""
        turns = self.schedule is not None or self.named is not None
        return self.own_event is None and not turns and self.round_event is None

    @property
    def by_blocks(self) -> bool:
        """Whether records are added up in blocks of one public shape wherever they are, and what a
        server makes of the sums needs no compiled program."""
        apart = self.schedule is None and self.named is None and self.batch is None
        return apart and self.in_parts is not None and self.in_parts.bounded is not None

    @property
    def by_place(self) -> bool:
        """Whether it matters in which place among a party's records one lies."""
        return self.rows is not None or self.named is not None

    def by_company(self, facts: Facts) -> bool:
        """Whether it matters which records lie side by side, or in which row each of them lies."""
        return facts.exact_sizes and (self.streamed or (self.batch is None and self._asks(facts)))

    def _asks(self, facts: Facts) -> bool:
        """Whether records are read by what a server says, which may be anything."""
        asked = self.ask(self.init(facts)[0])
        return not (isinstance(asked, tuple) and not asked)

    @property
    def steps(self) -> int:
        """How many releases a party makes in one of its turns."""
        return self.inner.steps if self.inner else 1

    @property
    def draws(self) -> int:
        """How many draws of a grant one turn of a party takes."""
        return self.steps + (1 if self.inside else 0)

    def event_of(self, facts: Facts, trust: Trust, party: int, number: int = 0) -> Event:
        """What one party releases in one step of round `number`."""
        if self.round_event is not None:
            return self.round_event(facts, trust, number)
        return self.own_event(facts, trust, party) if self.own_event else self.event(facts, trust)

    def events(self, facts: Facts, trust: Trust) -> list[Event]:
        """All kinds of release of a run."""
        if self.round_event is not None:
            found = (self.round_event(facts, trust, number) for number in range(self.rounds))
        else:
            parties = range(facts.parties if self.own_event else 1)
            found = (self.event_of(facts, trust, party) for party in parties)
        return list(dict.fromkeys(found))

    def turns(self, facts: Facts, party: int) -> int:
        """In how many rounds a party is asked; at most, where records are named."""
        if self.named is not None:
            return min(self.rounds, self.named.uses * facts.records[party])
        if self.schedule is None:
            return self.rounds
        return int(self.schedule(facts).asked[:, party].sum())

    def cost(
        self, facts: Facts, trust: Trust, rounds: int | None = None, party: int = 0
    ) -> dict[Viewer, Composed]:
        """What the whole run, or some rounds of it, show of one party's data to each viewer."""
        self.require(facts, trust)
        if self.round_event is not None:
            if rounds not in (None, self.rounds):
                raise InvalidInput(f"{self.name} pays for its whole schedule of noise, or not")
            history = compose(
                self.round_event(facts, trust, number) * 1 for number in range(self.rounds)
            )
            return _cost_per_viewer(history, facts, trust)
        event = self.event_of(facts, trust, party)
        if self.named is not None:
            if rounds not in (None, self.rounds):
                raise InvalidInput(
                    f"{self.name} pays for {self.named.uses} uses of each record, or not at all: "
                    f"{rounds} of its {self.rounds} rounds cannot be paid for alone"
                )
            return _cost_per_viewer(event * self.named.uses, facts, trust)
        turns = facts.attempts(self.turns(facts, party)) if rounds is None else rounds
        releases = turns * self.steps
        if releases % releases_of(event):
            raise InvalidInput(
                f"{self.name} is one event of {releases_of(event)} releases, and cannot be paid "
                f"for in parts ({releases})"
            )
        history = self._with_inside(event * (releases // releases_of(event)), turns)
        return _cost_per_viewer(history, facts, trust)

    def _with_inside(self, history: Composed, turns: int) -> Composed:
        return self.inside.event * turns + history if self.inside else history

    def turn_cost(
        self, facts: Facts, trust: Trust, party: int, number: int
    ) -> dict[Viewer, Composed]:
        """What one party's turn in round `number` shows of its data, if turns are paid singly."""
        if self.named is not None:
            raise InvalidInput(
                f"turns of {self.name} are not paid for singly: the whole run is, before the first"
            )
        event = self.event_of(facts, trust, party, number)
        return _cost_per_viewer(self._with_inside(event * self.steps, 1), facts, trust)

    def require(self, facts: Facts, trust: Trust) -> None:
        """Refuse a trust that the algorithm does not offer, and what only LOCAL noise can do."""
        if trust not in self.trusts:
            raise InvalidInput(
                f"{self.name} cannot run with trust {trust!s}: choose one of "
                + ", ".join(sorted(self.trusts))
            )
        per_party = self.inner or self.own_event or self.inside
        if (self.combine == "each" or per_party) and trust is not Trust.LOCAL:
            raise InvalidInput(
                f"{self.name} releases per party, which a secure sum cannot hide and a server's "
                "noise does not cover: use trust 'local'"
            )
        if self.schedule is not None and trust is Trust.SECURE_SUM:
            raise InvalidInput(
                f"in {self.name} parties take turns, and shares of noise are missing from a secure "
                "sum in which not everyone takes part: use trust 'local' or 'trusted-server'"
            )
        if self.inside is not None and (self.inner or self.schedule or self.round_event):
            raise InvalidInput("noise inside a computation is for one release in every round")
        if self.round_event is not None and (self.inner or self.own_event or self.schedule):
            raise InvalidInput("noise that changes by rounds is for parties that all pay alike")
        if self.named is not None:
            self._require_named(facts, trust)
        event = self.event(facts, trust)
        whole = event.sensitivity.unit is Unit.PARTY
        several = self.draws != 1 or releases_of(event) != 1
        if facts.retries and (several or self.inner or not self.alike):
            raise InvalidInput(
                f"rounds of {self.name} cannot be tried again, as their noise or their turns "
                "depend on each other: set retries to 0; a round that fails is left out"
            )
        if whole and isinstance(event.sampler, WithoutReplacement):
            raise InvalidInput(
                "a fixed number of parties is drawn by somebody who then knows them: ask them by a "
                "public schedule, or let every party toss a secret coin (Poisson)"
            )
        if whole and self.inner is not None and not isinstance(event.sampler, Everyone):
            raise InvalidInput("parties that toss coins for themselves send one release a round")
        if self.schedule is not None:
            asked = self.schedule(facts).asked
            if asked.shape != (self.rounds, facts.parties) or not asked.any(axis=0).all():
                raise InvalidInput(
                    f"a schedule of shape {asked.shape} for {self.rounds} rounds and "
                    f"{facts.parties} parties: every party must have a turn"
                )

    def _require_named(self, facts: Facts, trust: Trust) -> None:
        more = (self.schedule, self.inner, self.inside, self.own_event, self.round_event, self.rows)
        if any(part is not None for part in more) or self.batch is None or self.batch(facts) != 1:
            raise InvalidInput(
                f"{self.name}: records that are named come one at a time, one release in a round, "
                "with the same noise for all"
            )
        if trust is not Trust.LOCAL or not facts.exact_sizes:
            raise InvalidInput(
                f"{self.name} names records by their place among a public number, and their owner "
                "adds the noise: use trust local and exact sizes"
            )

    def study_hash(self, facts: Facts, trust: Trust) -> str:
        """What all parties agreed on, in one number; what `settings` leaves out is not in it."""
        agreed = {
            "algorithm": self.name,
            "settings": _as_numbers(dict(self.settings)),
            "rounds": self.rounds,
            "trust": str(trust),
            "records": list(facts.records),
            "features": facts.features,
            "minimum_parties": facts.minimum_parties,
            "colluders": facts.colluders,
            "exact_sizes": facts.exact_sizes,
            **({"retries": facts.retries} if facts.retries else {}),
            **_people(facts),
        }
        return hashlib.sha256(canonical(agreed)).hexdigest()


def _people(facts: Facts) -> dict[str, Any]:
    """What is agreed where rows are persons; studies of records mean what they meant before."""
    if facts.records_per_person is None:
        return {}
    return {
        "records_per_person": facts.records_per_person,
        "person_at_parties": facts.person_at_parties,
    }


def _as_numbers(value: Any) -> Any:
    """Whole numbers as floats, at any depth: who writes 3 and who writes 3.0 agree."""
    if isinstance(value, Mapping):
        return {key: _as_numbers(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_numbers(inner) for inner in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def cost_per_viewer(
    event: Event, rounds: int, facts: Facts, trust: Trust
) -> dict[Viewer, Composed]:
    """Who sees how much noise.

    `LOCAL`: everyone sees each party's own message, so everyone gets the event itself.
    `SECURE_SUM`: everyone sees sums that hold at least `honest` shares; one curious party
    also knows its own share, so against it only the other survivors' shares count.
    `TRUSTED_SERVER`: the server sees the clean value.
    Messages travel on encrypted channels: the network sees what is published.
    """
    return _cost_per_viewer(event * rounds, facts, trust)


def _cost_per_viewer(history: Composed, facts: Facts, trust: Trust) -> dict[Viewer, Composed]:
    viewers = [*EVERYONE, *([Viewer.colluders(facts.colluders)] if facts.colluders else [])]
    cost = dict.fromkeys(viewers, history)
    if trust is Trust.TRUSTED_SERVER:
        for viewer in cost:
            if viewer == SERVER or viewer.coalition:
                cost[viewer] = _each(history, lambda event: replace(event, noise=NoNoise()))
    if trust is Trust.SECURE_SUM and facts.parties > 1:
        others = facts.minimum_parties - 1
        cost[PARTY] = _each(history, lambda event: _with_shares(event, others, facts.honest))
    return cost


def _each(history: Composed, change: Callable[[Event], Event]) -> Composed:
    return Composed(tuple((change(event), count) for event, count in history.parts))


def _with_shares(event: Event, present: int, planned: int) -> Event:
    """The event against someone who leaves `present` unknown shares of `planned`."""
    if present >= planned:
        return event
    if present == 0:
        return replace(event, noise=NoNoise())
    remaining = event.noise.remaining(present, planned)
    if remaining is None:
        raise InvalidInput(
            "against one curious party this noise must be planned for: set colluders to 1 or more"
        )
    return replace(event, noise=remaining)
