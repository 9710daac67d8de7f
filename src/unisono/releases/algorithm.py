"""What an algorithm is: a configuration, a release, and five pure functions.

    public           = ask(state)                                 the server, seen by everybody
    own, raw         = local(public, own, records)                every party; raw, unbounded values
    state            = merge(state, aggregate)                    the server; post-processing only
    outcome          = result(state)

Between `local` and `merge` stands the bound that the algorithm's `Release` names: it clips,
quantizes and adds up what `local` returned, and only then is noise added. An algorithm can
therefore state no sensitivity of its own. What the bounds of records take for granted, that a row
is made of one record and of public values, is tried on synthetic records (`apart`): that finds
mistakes. It does not stop code that means to deceive, which could as well write records to a file.

An `AlgorithmKind` is an entry of the registry: everything that is known of an algorithm, in one
file. Phases, in this order: `resolve` fills in what was left out, from public facts; `release` says
what leaves a party; `price` (core's, not the algorithm's) derives step, events and noise; `build`
makes the functions, and may read the price.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import pydantic
from pydantic import Field

from unisono.core import algorithm as engine
from unisono.core.algorithm import Aggregate, Facts, Inner, InParts
from unisono.core.config import AddedLater, Config
from unisono.core.events import Event
from unisono.core.printed import Printed
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Sensitivity
from unisono.core.trust import Trust, Unit
from unisono.core.values import Contribution
from unisono.errors import InvalidInput
from unisono.mechanisms.printed import PrintedNoise
from unisono.releases.apart import require_apart
from unisono.releases.banded import BandedSum, with_memory
from unisono.releases.bounds import ClippedUpdate
from unisono.releases.closed import require_closed, require_printable
from unisono.releases.people import of_unit
from unisono.releases.release import (
    Bound,
    Priced,
    Release,
    SizedBound,
    price,
    round_event,
    segment_size,
)
from unisono.releases.scaled_sum import ScaledSum
from unisono.releases.table import Table


class Records(NamedTuple):
    """A party's rows as columns (n, ...), and which of them are there (n,); others are padding.

    Functions that return a value for each record may ignore `present`: their bound does not. `size`
    is the party's public number of records, as agreed; what weighs a party follows it, never
    `present`, which is secret and may be a part of the records.
    """

    columns: tuple[Any, ...]
    present: Any
    size: Any = None


class Algorithm(NamedTuple):
    """The functions of an algorithm, built for one study: facts and price are known to them.

    `init` returns the server's first state and a party's. `settle(own, sent, accepted)` is called
    after a round: `sent` is what the bound made of this party's update, where it remembers it.
    `absorb(public, own, noisy)` and `report(own)` are for releases that stay with the party: they
    see no records. `begin(found)` stands for `init` where an earlier stage comes first
    (`AlgorithmKind.earlier`), and gets what that one released. Where public values stay in a set,
    `within` is the projection onto it: a party refuses to be asked elsewhere.
    """

    init: Callable[[], tuple[Any, Any]]
    ask: Callable[[Any], Any]
    local: Callable[[Any, Any, Records], tuple[Any, Any]]
    merge: Callable[[Any, Aggregate], Any]
    result: Callable[[Any], Any]
    settle: Callable[[Any, Any, Any], Any] | None = None
    absorb: Callable[[Any, Any, Any], Any] | None = None
    report: Callable[[Any], Any] | None = None
    begin: Callable[[Any], tuple[Any, Any]] | None = None
    within: Callable[[Any], Any] | None = None


class AlgorithmConfig(Config):
    """An algorithm's own settings: fields with defaults, ranges and one line of help each. What a
    published rule of public facts fills in is None where it is left out. Fields that only Python
    can give (an optimizer) are excluded from dumps and from study files."""

    def agreed(self, problem: Any) -> dict[str, Any]:
        """These settings as plain JSON; what is a function, by a fingerprint of its program."""
        return self.hashed


PUBLISHED = (
    "Noise as it is printed in the publication, not calibrated: ledgers are charged what it really "
    "costs, and pay only where their policy allows it."
)


class PublishedConfig(AlgorithmConfig):
    """For algorithms whose kind says how their noise is `printed`."""

    published: Annotated[bool, AddedLater] = Field(False, description=PUBLISHED)


@dataclass(frozen=True)
class Publication:
    """An algorithm's noise as it is printed somewhere, which is not what its promise takes.

    `noise(config, problem, facts, privacy, sensitivity)` is the law that is printed for a promise:
    `price` takes it in place of calibrating, where the configuration says `published`. `where` it
    is printed and its `flaw`, as a clause, are told to whoever reads what it costs. A theorem about
    `pure` epsilon says nothing of others, and the other way round; `trusts` are those for which the
    cost of what is printed is proved.
    """

    where: str
    flaw: str
    noise: Callable[[Any, Any, Facts, Privacy, Sensitivity], PrintedNoise]
    pure: bool = False
    trusts: frozenset[Trust] = frozenset(Trust)
    simulations_only: bool = False

    def require(self, privacy: Privacy, name: str) -> None:
        """Refuse a promise about which the publication says nothing."""
        if privacy.pure and not self.pure:
            raise InvalidInput(
                f"{name} with published = true: {self.where} is about a delta in (0, 1), not about "
                "pure epsilon; give one"
            )
        if self.pure and not privacy.pure:
            raise InvalidInput(
                f"{name} with published = true: {self.where} is about pure epsilon; set delta to 0"
            )

    def of(self, privacy: Privacy) -> Printed:
        """What is told of a study with this noise."""
        return Printed(self.where, self.flaw, privacy.epsilon, privacy.delta, self.simulations_only)


class UtilityLaw(NamedTuple):
    """What is lost by noise, over the signal-to-noise ratio of a run: see `planning.laws`."""

    half: float
    power: float
    below: float
    above: float
    by_class: bool = False


class Earlier(NamedTuple):
    """Another algorithm that learns the same problem first, for a share of the promise."""

    kind: "AlgorithmKind"
    share: float


def _nothing_earlier(config: Any, problem: Any) -> Earlier | None:
    return None


class RowScale(NamedTuple):
    """What is public of the rows (u, 1) that a model makes of records: how many numbers a row has,
    none of them beyond 1, and |u|² of a usual one."""

    features: int
    mean_square: float

    @property
    def length(self) -> float:
        """|(u, 1)| of a usual row."""
        return float((1 + self.mean_square) ** 0.5)


def _no_suggestion(problem: Any, rows: RowScale) -> Mapping[str, Any]:
    return {}


def _keep(config: Any, problem: Any, facts: Facts, privacy: Privacy, trust: Trust) -> Any:
    return config


@dataclass(frozen=True)
class AlgorithmKind:
    """An entry of the registry. `problem` is the type of what it can learn: a model that poses such
    a problem can be learnt by it.

    `summary` is one line for lists and help. `units` are whose part can be hidden, the usual first;
    `trusts` where its noise may be added. `sends` says what leaves a party, for attackers and those
    who fear them; from `invertible` messages a search may find records (`attacks`). `unit_rows`:
    records are scaled to unit length for it. `noise_aware(study)` turns its result into one that
    counts the noise in, where the law of its effect is known. `remarks(study)` are what people
    would be surprised by later, each with a remedy, for `check`. `laws` tell the planner what noise
    costs, by task (see `planning.laws`). `suggest(problem, rows)` are the settings that suit a
    problem over rows of a public scale, where nobody says otherwise. `earlier(config, problem)` is
    the stage that it begins with, if any. `own_epsilons`: parties may have epsilons of their own,
    since each makes all of the noise of what it sends. `printed` is its noise as a publication has
    it, for configurations with a field `published`, and no others. `afterwards` are the settings
    that act on what was released and on nothing else, in algorithms of one round: studies that
    differ in them alone can share a release (see `Method.released`). `weighs`: records may have
    weights, which count before they are bounded.
    """

    name: str
    summary: str
    config: type[AlgorithmConfig]
    problem: type
    release: Callable[[Any, Any, Facts], Release]
    build: Callable[[Any, Any, Facts, Priced], Algorithm]
    resolve: Callable[[Any, Any, Facts, Privacy, Trust], Any] = _keep
    units: tuple[Unit, ...] = (Unit.RECORD,)
    trusts: frozenset[Trust] = frozenset(Trust)
    sends: str = "noisy sums"
    invertible: bool = False
    unit_rows: bool = True
    noise_aware: Callable[[Any], Callable[[Any], Any]] | None = None
    remarks: Callable[[Any], Iterable[tuple[str, str]]] | None = None
    laws: Mapping[str, UtilityLaw] = field(default_factory=dict, hash=False)
    suggest: Callable[[Any, RowScale], Mapping[str, Any]] = _no_suggestion
    earlier: Callable[[Any, Any], Earlier | None] = _nothing_earlier
    own_epsilons: bool = False
    printed: Publication | None = None
    afterwards: tuple[str, ...] = ()
    weighs: bool = False

    def __post_init__(self) -> None:
        if (self.printed is not None) != issubclass(self.config, PublishedConfig):
            raise InvalidInput(
                f"{self.name}: a kind says how its noise is `printed` if and only if its "
                "configuration is a PublishedConfig"
            )

    def hides(self, unit: Unit, group: int = 1) -> bool:
        """Whether it can hide such a unit. Of persons with one record each every algorithm for
        records does; of `group` records, those that add up a person's."""
        alone = unit is Unit.PERSON and group == 1 and Unit.RECORD in self.units
        return alone or unit in self.units

    def configured(self, **settings: Any) -> Any:
        """The configuration with these settings; whatever is wrong is refused in words."""
        try:
            return self.config(**settings)
        except pydantic.ValidationError as error:
            raise InvalidInput(_words(self, error)) from None

    def method(self, problem: Any, privacy: Privacy, **settings: Any) -> "Method":
        """The algorithm with these settings, for a problem and a promise."""
        return Method(self, self.configured(**settings), problem, privacy)


@dataclass(frozen=True)
class Method:
    """An algorithm, its configuration, what it is to learn and what is promised: all that a study
    needs besides its facts and its trust."""

    kind: AlgorithmKind
    config: Any
    problem: Any
    privacy: Privacy

    def __post_init__(self) -> None:
        if not isinstance(self.problem, self.kind.problem):
            raise InvalidInput(
                f"{self.kind.name} learns a {self.kind.problem.__name__}, not a "
                f"{type(self.problem).__name__}: choose another algorithm or another model"
            )

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def publication(self) -> Publication | None:
        """Where its noise is from, if it is not calibrated."""
        return self.kind.printed if getattr(self.config, "published", False) else None

    @property
    def trusts(self) -> frozenset[Trust]:
        own = self.kind.trusts
        return own if self.publication is None else own & self.publication.trusts

    @property
    def earlier(self) -> Earlier | None:
        """The stage that it begins with, if any."""
        return self.kind.earlier(self.config, self.problem)

    @property
    def before(self) -> tuple[AlgorithmKind, ...]:
        """The algorithms of all stages before its own, first ones first."""
        if self.earlier is None:
            return ()
        kind = self.earlier.kind
        return (*kind.method(self.problem, self.privacy).before, kind)

    @property
    def released(self) -> "Method":
        """The method whose settings leave out what acts on what was released only: where two are
        equal, one release serves both."""
        update = dict.fromkeys(self.kind.afterwards)
        return replace(self, config=self.config.model_copy(update=update)) if update else self

    def bind(self, facts: Facts, trust: Trust) -> engine.PricedAlgorithm:
        """The algorithm as engines run it: resolved, priced and built for one study."""
        return _bound(self, facts, trust)


# Equal studies are priced once: a plan, its check and its run ask for the same one.
@lru_cache(maxsize=256)
def _bound_hashable(method: Method, facts: Facts, trust: Trust) -> engine.PricedAlgorithm:
    return _assembled(method, facts, trust)


def _bound(method: Method, facts: Facts, trust: Trust) -> engine.PricedAlgorithm:
    try:
        hash(method)
    except TypeError:  # a problem that holds arrays: remembered for as long as the method lives
        known = method.__dict__.setdefault("bound", {})
        if (facts, trust) not in known:
            known[facts, trust] = _assembled(method, facts, trust)
        return known[facts, trust]
    return _bound_hashable(method, facts, trust)


def _assembled(method: Method, facts: Facts, trust: Trust) -> engine.PricedAlgorithm:
    kind, problem, privacy = method.kind, method.problem, method.privacy
    publication = method.publication
    if trust not in method.trusts:
        raise InvalidInput(
            f"{kind.name}{'' if publication is None else ' with published = true'} cannot run with "
            f"trust {trust!s}: choose one of "
            + ", ".join(sorted(method.trusts))
            + ("" if Trust.SECURE_SUM in method.trusts else "; its noise cannot come in shares")
        )
    config = kind.resolve(method.config, problem, facts, privacy, trust)
    release = kind.release(config, problem, facts)
    require_closed(release, kind.name)
    release = _fixed(release, facts)
    printed = None
    if publication is not None:
        publication.require(privacy, kind.name)
        require_printable(release, privacy, kind.name)
        law = partial(publication.noise, config, problem, facts, privacy)
        priced = price(release, privacy, facts, trust, law)
        printed = publication.of(privacy)
    else:
        priced = price(release, privacy, facts, trust)
    parts = kind.build(config, problem, facts, priced)
    bound, inside = priced.bound, priced.inside
    remembers = parts.settle is not None and release.local_steps is None
    raw_of = _apart(kind.name, parts, bound, facts)

    def local(
        _: Facts, public: Any, party: Any, data: Any, mask: Any, size: Any = None
    ) -> tuple[Any, Contribution]:
        if inside is not None:  # noise of this turn, for the bound alone
            _, raw = raw_of(public, None, Records(data, mask, size))
            return None, bound.integers(facts, privacy, priced.step, (party, raw), mask)[0]
        own = party[0] if remembers else party
        if isinstance(bound, ScaledSum):  # rows are made and added up in turns

            def of_turn(columns: Any, present: Any) -> Any:
                return raw_of(public, own, Records(columns, present, size))[1]

            made = bound.streamed(facts, privacy, priced.step, of_turn, data, mask)
            return ((own, None) if remembers else own), of_unit(facts, made)
        own, raw = raw_of(public, own, Records(data, mask, size))
        here = bound.of_party(size) if isinstance(bound, SizedBound) else bound
        contribution, sent = here.integers(facts, privacy, priced.step, raw, mask)
        contribution = contribution if bound.unit is Unit.PARTY else of_unit(facts, contribution)
        return ((own, sent) if remembers else own), contribution

    def with_memory_of_sent(first: tuple[Any, Any]) -> tuple[Any, Any]:
        state, own = first
        return state, (own, _nothing_sent(release)) if remembers else own

    def init(_: Facts) -> tuple[Any, Any]:
        return with_memory_of_sent(parts.init())

    def begin(_: Facts, found: Any) -> tuple[Any, Any]:
        assert parts.begin is not None
        return with_memory_of_sent(parts.begin(found))

    def settle(party: Any, accepted: Any) -> Any:
        if parts.settle is None:
            return party
        if not remembers:
            return parts.settle(party, None, accepted)
        own, sent = party
        return parts.settle(own, sent, accepted), 0 * sent

    inner = None
    if release.local_steps is not None:
        assert parts.absorb is not None
        assert parts.report is not None
        absorb = parts.absorb
        inner = Inner(
            release.local_steps.steps,
            lambda _, public, own, noisy: absorb(public, own, noisy),
            parts.report,
            release.local_steps.quantization,
            release.local_steps.largest,
        )

    alike = all(event is priced.event for event in priced.events)

    def require_same(others: Facts, elsewhere: Trust) -> None:
        if others != facts or elsewhere is not trust:
            raise InvalidInput(
                f"{kind.name} was priced for other facts or another trust, and cannot run with "
                f"trust {elsewhere!s} here: make a study of the method itself"
            )

    def event(others: Facts, elsewhere: Trust) -> Event:
        require_same(others, elsewhere)
        return priced.event

    def event_of(others: Facts, elsewhere: Trust, party: int) -> Event:
        require_same(others, elsewhere)
        return priced.events[party]

    algorithm = engine.PricedAlgorithm(
        name=kind.name,
        settings=settings_of(method, config),
        trusts=method.trusts & release.trusts,
        combine="each" if release.each else "sum",
        rounds=release.rounds,
        grid=lambda *_: priced.step,
        event=event,
        init=init,
        ask=parts.ask,
        local=local,
        settle=settle,
        merge=parts.merge,
        result=parts.result,
        reach=lambda _: bound.sum_bound(release, facts, privacy),
        terms=_terms(release, bound, facts, privacy, priced.step),
        own_event=None if alike else event_of,
        schedule=release.turns,
        inner=inner,
        round_event=None
        if not release.scales
        else lambda _, __, number: round_event(release, priced, number),
        batch=_batch(release, facts),
        whole=bound.whole,
        privacy=privacy,
        dimension=bound.dimension,
        inside=inside,
        begin=None if parts.begin is None else begin,
        effective_records=release.effective_records,
        named=release.named,
        streamed=isinstance(bound, ScaledSum),
        in_parts=None
        if remembers
        else _in_parts(bound, raw_of, parts.local, facts, priced, privacy),
        printed=printed,
        within=parts.within,
    )
    if isinstance(bound, BandedSum):
        return with_memory(algorithm, bound, facts, privacy)
    return algorithm


def _in_parts(
    bound: Any,
    raw_of: Callable[..., Any],
    read: Callable[..., Any],
    facts: Facts,
    priced: Priced,
    privacy: Privacy,
) -> InParts | None:
    """Sums to which each record adds integers of its own, by blocks of records: of tables, and of
    gradients that are rounded one by one where records are streamed."""
    step = priced.step
    if isinstance(bound, ScaledSum) and bound.rounds_apart(facts, privacy, step):

        def gradients(_: Any, public: Any, own: Any, data: Any, mask: Any, size: Any = None) -> Any:
            def of_turn(columns: Any, present: Any) -> Any:
                return raw_of(public, own, Records(columns, present, size))[1]

            return bound.exact_sums(step, of_turn, data, mask)

        return InParts(gradients, lambda total, rows: total)
    if not isinstance(bound, Table):
        return None

    def bounded(value: Any) -> Contribution:
        return of_unit(facts, bound.contribution(facts, privacy, step, value))

    factors = np.array(bound.factors(privacy, step), np.int32)
    sums = _TableSums(
        bound,
        read,
        bound.inexact(privacy, step),
        bound.shift(facts, privacy, step),
        raw_of,
    )
    return InParts(sums, partial(bound.rounded_sum, facts, privacy, step), factors, bounded)


@dataclass(frozen=True)
class _TableSums:
    """A block's exact sums in a table (`InParts.local`). Those of two studies are equal where rows
    are made alike (`read`), although weights, noise and numbers of records differ. `tried` is
    `read`, tried on synthetic records first."""

    table: Table
    read: Callable[..., Any]
    inexact: tuple[tuple[bool, ...], ...]
    shift: int
    tried: Callable[..., Any] = field(compare=False, repr=False)

    def __call__(
        self, factors: Any, public: Any, own: Any, data: Any, mask: Any, size: Any = None
    ) -> Any:
        _, raw = self.tried(public, own, Records(data, mask, size))
        return self.table.exact_sums(factors, self.inexact, self.shift, raw, mask)


def _terms(
    release: Release, bound: Bound, facts: Facts, privacy: Privacy, step: float
) -> engine.SumTerms:
    """What sums consist of: one report of each party where releases stay with it, one record where
    records are named."""
    single = (1.0,) * facts.parties
    if release.local_steps is not None:
        largest = release.local_steps.largest / release.local_steps.quantization + 1
        return engine.SumTerms(single, -largest, largest, math.inf, math.inf)
    terms = bound.terms(facts, privacy, step)
    return terms if release.named is None else terms._replace(number=single)


def _fixed(release: Release, facts: Facts) -> Release:
    """The release with its schedule as it is now: what is priced is what is asked."""
    if release.turns is None:
        return release
    schedule = release.turns(facts)
    asked = np.array(schedule.asked, bool)
    asked.setflags(write=False)
    schedule = schedule._replace(asked=asked, rows=None)
    return replace(release, turns=lambda _: schedule)


def _batch(release: Release, facts: Facts) -> Callable[[Facts], int] | None:
    """How many rows of a party reach its function, where not all of them do."""
    if release.named is not None:
        return lambda _: 1
    size = cache(lambda: segment_size(release, facts))
    return (lambda _: size()) if release.bound.batched else None


def _apart(
    name: str, parts: Algorithm, bound: Bound, facts: Facts
) -> Callable[[Any, Any, Records], tuple[Any, Any]]:
    """A party's function, tried on synthetic records when it is first traced; whole parties are
    bounded whatever is made of their records."""
    if bound.unit is Unit.PARTY:
        return parts.local
    tried: set[Any] = set()

    def local(public: Any, own: Any, records: Records) -> tuple[Any, Any]:
        shapes = tuple((column.shape[1:], column.dtype) for column in jax.tree.leaves(records[0]))
        if shapes not in tried and not isinstance(bound, ClippedUpdate):
            with jax.ensure_compile_time_eval():
                server, first = parts.init()
                asked = parts.ask(server)

            def rows_of(size: int, rows: Any, mask: Any) -> Any:
                return parts.local(asked, first, Records(rows, mask, size))[1]

            for size in sorted({min(facts.records), max(facts.records)}):
                require_apart(name, partial(rows_of, size), records[0])
            tried.add(shapes)
        after, raw = parts.local(public, own, records)
        if not _same(own, after):
            raise InvalidInput(
                f"what parties of {name} remember changes with their records: rows of a later "
                "round would be made of all of them; let `local` return it as it came, and change "
                "it by what was released, in `settle` or `absorb`"
            )
        return own, raw

    return local


def _same(before: Any, after: Any) -> bool:
    """Whether these are the same arrays, untouched."""
    one, other = jax.tree.leaves(before), jax.tree.leaves(after)
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _nothing_sent(release: Release) -> Any:
    import jax.numpy as jnp

    shards = getattr(release.bound, "shards", 1)
    return jnp.zeros((shards, release.bound.dimension), jnp.float32)


def settings_of(method: Method, config: Any) -> Mapping[str, Any]:
    """What parties agree on, as certificates and the study's hash state it; nothing twice, or one
    would be missing from the hash."""
    parts = (
        {"privacy": method.privacy.to_json()},
        config.agreed(method.problem),
        method.problem.agreed,
    )
    agreed = {name: value for part in parts for name, value in part.items()}
    if len(agreed) != sum(map(len, parts)):
        raise InvalidInput(
            f"{method.name}: a setting is named like one of its problem, or like the study's "
            f"privacy ({', '.join(method.problem.agreed)}, privacy): give it another name"
        )
    return agreed


def rounded(number: float) -> float:
    """Six digits: what a rule computes, libraries of other machines compute to the last bit only
    nearly, and parties must agree exactly.

    >>> rounded(0.12345678901)
    0.123457
    """
    return float(f"{number:.6g}")


def _words(kind: AlgorithmKind, error: pydantic.ValidationError) -> str:
    """What is wrong with a configuration: each setting with its value and the reason."""
    said = []
    for one in error.errors(include_url=False):
        name = ".".join(map(str, one["loc"]))
        if one["type"] == "extra_forbidden":
            known = ", ".join(kind.config.model_fields)
            said.append(f"{kind.name} does not know {name!r}: it takes {known}")
        else:
            reason = one["msg"].removeprefix("Value error, ")
            said.append(f"{name} = {one['input']!r}: {reason}" if name else reason)
    return "; ".join(said)
