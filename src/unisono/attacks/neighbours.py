"""Neighbouring data sets before the noise: does one record move a release further than is claimed?

A claim of privacy is a claim about a sensitivity. So take it literally: draw records, the extreme
ones of floating point among them, change one of them as the relation allows, compute in both worlds
the integers that a party would add noise to, by the engine's own code, and compare their distance
with the event's. No noise means no statistics: a single pair that is too far apart is a proof.

What is public or drawn is the same in both worlds: the model, the sampling mask, inner noise.
Records that lie in a secret order are coupled as in `engines.layout`: where one is taken out, the
last takes its place. Of releases that are one event together (a correlated run) the whole vector is
compared.

A record that is taken out must also leave all others as they were: the release without it is
compared, bit by bit, with one in which it lies where it lay and counts for nothing. Only block sums
of floats may be rounded the other way, by a step in each of two blocks.

What an entrance makes of records before an algorithm reads them (encoders, scores of a model that
is evaluated) is compared by rows, in whatever order: tables with one record more, less or another
one, and the same records in another order (`neighbour_tables`), differ in the row of that record
alone (`rows_apart`). Many copies of a record whose score is nothing but rounding (`edge_weights`)
show arithmetic that mixes records.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from unisono.core.events import Event, Everyone, Poisson, WithoutReplacement, releases_of
from unisono.core.grant import Draw
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Unit
from unisono.engines.distributed.work import Worker
from unisono.engines.layout import segment_rows, spread
from unisono.engines.streaming import by_blocks
from unisono.errors import UnisonoError

Columns = tuple[np.ndarray, ...]
# The corners of 32-bit arithmetic: subnormal, rounding to even, overflow of a square or of a sum.
EXTREMES = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1e-45,
        -1e-40,
        1e-38,
        2.0**-24,
        1 + 2.0**-23,
        16777217.0,
        1e10,
        -1e19,
        1e30,
        3.4e38,
        -3.4e38,
        np.inf,
        -np.inf,
        np.nan,
    ],
    np.float32,
)
NORMS = ("l1", "l2", "linf")


class World(NamedTuple):
    """A party's records, which of them are there and take part, and which row of the program each
    lies in (-1 where none does)."""

    columns: Columns
    present: np.ndarray
    rows: np.ndarray
    gone: int = -1  # which record of the other world is missing

    @property
    def size(self) -> int:
        return len(self.present)


@dataclass(frozen=True)
class TooFar:
    """Two neighbours whose releases are further apart than the event says."""

    study: str
    relation: Relation
    norm: str
    moved: float
    claimed: float
    world: World
    neighbour: World

    def __str__(self) -> str:
        return (
            f"{self.study}, {self.relation}: one {self.norm} distance is {self.moved:.6g} where "
            f"{self.claimed:.6g} is claimed ({self.world.size} and {self.neighbour.size} records)"
        )


# ------------------------------------------------------------------ what a draw decides


class Layout(NamedTuple):
    """How records get to their rows: in batches of chosen ones, in a secret order, or as given."""

    segment: int
    batches: bool
    ordered: bool
    by_turns: bool
    named: bool = False

    @classmethod
    def of(cls, study: Study) -> "Layout":
        algorithm, facts = study.algorithm, study.facts
        by_turns = algorithm.by_place
        batches = algorithm.batch is not None and not by_turns
        ordered = segment_rows(study) is not None and not batches and not by_blocks(study)
        size = algorithm.batch(facts) if batches and algorithm.batch else facts.places
        return cls(size, batches, ordered, by_turns, algorithm.named is not None)


class _Scripted:
    """Stands for a draw, or for its grant, whose outcome is given: how two worlds are coupled is no
    chance. Its rows are those of the world."""

    def __init__(self, world: World, takes_part: bool, layout: "Layout") -> None:
        self.world, self.takes_part, self.layout = world, takes_part, layout
        self.grant = self
        # Of records that are named one by one: the one that is looked at.
        self.record = int(np.flatnonzero(world.present)[0]) if layout.named else None
        segment = layout.segment
        full = len(world.rows)
        if segment and (world.rows[-segment:] < 0).any():
            full -= segment
        last = world.rows[full:]
        slots = np.flatnonzero(last >= 0)
        self._order = np.concatenate([world.rows[:full], last[slots]])
        self._places = (
            np.concatenate([slots, np.flatnonzero(last < 0)]) if len(last) else (np.arange(segment))
        )

    def sample(self, sampler: Any, units: int) -> np.ndarray:
        if units == 1 and self.world.size != 1:
            return np.array([self.takes_part])
        if self.layout.ordered:  # coins are tossed for rows as they lie
            return self.world.present[self.world.rows[self.world.rows >= 0]]
        return self.world.present

    def chosen(self, sampler: Any, units: int) -> np.ndarray:
        return self._order

    def order(self, units: int) -> np.ndarray:
        left_out = np.setdiff1d(np.arange(units), self._order)
        return np.concatenate([self._order, left_out])

    def places(self, slots: int, parties: int = 0) -> np.ndarray:
        """Those of a grant; or, of one party, those of a draw."""
        return self._places[None] if parties else self._places


class _Opened:
    """A party that holds one world's records, open to whoever asks."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def open(self, _: Any) -> Columns:
        return self.columns


# ------------------------------------------------------------------ releases without noise


class CleanParty:
    """One party of a study, without its ledger and its noise."""

    def __init__(self, study: Study, index: int = 0) -> None:
        self.study, self.index = study, index
        self.layout = Layout.of(study)
        self._worker = Worker(study, cast(Party, _Opened(())), index)

    @property
    def event(self) -> Event:
        return self.study.algorithm.event_of(self.study.facts, self.study.trust, self.index)

    @property
    def turns(self) -> int:
        """How many releases the event is about."""
        return releases_of(self.event)

    def releases(self, world: World, publics: Any, state: Any, takes_part: bool = True) -> Any:
        """Integers of one event (turns, ...), and the party's state afterwards."""
        self._worker.party = cast(Party, _Opened(world.columns))
        algorithm = self.study.algorithm
        draw = cast(Draw, _Scripted(world, takes_part, self.layout))
        found = []
        for number, public in enumerate(publics):
            after, contribution, _ = self._worker.clean(draw, self.event, public, state, number)
            found.append(np.asarray(contribution.value))
            if algorithm.inner is None:
                state = algorithm.settle(after, True)
        return np.stack(found), state


def distances(first: np.ndarray, second: np.ndarray, grid: float) -> dict[str, float]:
    """How far two integer vectors are apart, in every norm, in value units."""
    # Sums of 32 bits live modulo 2^32, as their noise does; neighbours are close in the ring.
    apart = first - second if first.dtype == np.int32 else first.astype(object) - second
    steps = np.abs(apart.astype(np.float64)).reshape(-1)
    return {
        "l1": float(steps.sum()) * grid,
        "l2": math.sqrt(float((steps**2).sum())) * grid,
        "linf": float(steps.max(initial=0.0)) * grid,
    }


# ------------------------------------------------------------------ worlds


def draw_columns(
    generator: np.random.Generator, records: int, shapes: Any, extreme: float
) -> Columns:
    """Records of normal numbers, repeated values and, with this chance a cell, extreme ones."""
    columns = []
    for shape in shapes:
        full = (records, *shape)
        column = generator.normal(size=full).astype(np.float32)
        column *= np.float32(10.0 ** generator.integers(-3, 4))
        if generator.random() < 0.3:  # labels and categories
            column = generator.integers(-1, 3, size=full).astype(np.float32)
        odd = generator.random(full) < extreme
        column[odd] = generator.choice(EXTREMES, size=int(odd.sum()))
        if records > 1 and generator.random() < 0.2:  # many alike
            column[:] = column[generator.integers(records)]
        columns.append(column)
    return tuple(columns)


def draw_world(
    generator: np.random.Generator, study: Study, event: Event, shapes: Any, index: int = 0
) -> World:
    """A party's records: as many as the study says, or any number where sizes are hidden."""
    facts, layout = study.facts, Layout.of(study)
    size = facts.records[index]
    if not facts.exact_sizes:
        rate = event.sampler.rate if isinstance(event.sampler, Poisson) and layout.batches else 1.0
        size = int(generator.integers(1, int((2 * layout.segment + 3) / rate)))
        if generator.random() < 0.3:  # around the ends of a segment
            size = max(1, facts.places + int(generator.integers(-2, 3)))
    columns = draw_columns(generator, size, shapes, generator.choice([0.0, 0.02, 0.3]))
    present = np.ones(size, bool)
    if layout.named:  # one record in a release, the one that differs
        present = np.arange(size) == generator.integers(size)
    match event.sampler:
        case Poisson(rate) if event.sensitivity.unit is not Unit.PARTY:
            present = generator.random(size) < rate
        case WithoutReplacement(count, population):
            present = generator.permutation(population) < count
        case Everyone() | Poisson():
            pass
    dealt = np.flatnonzero(present) if layout.batches else np.arange(size)
    order = generator.permutation(dealt)
    if layout.by_turns or (layout.batches and facts.exact_sizes):
        order = order[: layout.segment]
    rows = spread(order, generator.permutation(layout.segment), layout.segment)
    return World(columns, present, rows)


def neighbour(
    generator: np.random.Generator, world: World, relation: Relation, unit: Unit, layout: Layout
) -> World:
    """The world with one record (or a whole party) replaced, zeroed out or taken away.

    Where records have public turns, nobody's coin decides: what is zeroed out is not a number.
    """
    if unit is Unit.PARTY:
        if relation is Relation.ZERO_OUT:
            nothing = tuple(np.full_like(column, np.nan) for column in world.columns)
            return world._replace(columns=nothing)
        shapes = [column.shape[1:] for column in world.columns]
        return world._replace(columns=draw_columns(generator, world.size, shapes, 0.1))
    own = generator.integers(world.size)
    if world.present.any():  # a record that was not chosen shows nothing
        own = generator.choice(np.flatnonzero(world.present))
    if relation is Relation.ZERO_OUT:
        return silent(world, int(own), layout, by_value=layout.by_turns)
    if relation is Relation.REPLACE_ONE:
        shapes = [column.shape[1:] for column in world.columns]
        other = draw_columns(generator, 1, shapes, generator.choice([0.0, 0.5]))
        columns = [np.array(column) for column in world.columns]
        for column, value in zip(columns, other, strict=True):
            column[own] = value[0]
        return world._replace(columns=tuple(columns))
    return without(world, int(own), layout)


def silent(world: World, own: int, layout: Layout, by_value: bool) -> World:
    """The world in which one record counts for nothing: its coin says so, or, `by_value`, it lies
    where it lay and is not a number."""
    if not by_value:
        present = world.present & (np.arange(world.size) != own)
        rows = _taken_out(world, own, layout) if layout.batches else world.rows
        return world._replace(present=present, rows=rows)
    columns = [np.array(column) for column in world.columns]
    for column in columns:
        column[own] = np.nan
    return world._replace(columns=tuple(columns))


def without(world: World, own: int, layout: Layout) -> World:
    """The world in which one record is missing."""
    rows = _taken_out(world, own, layout)
    rows[rows > own] -= 1
    return World(
        tuple(np.delete(column, own, axis=0) for column in world.columns),
        np.delete(world.present, own),
        rows,
        own,
    )


def _taken_out(world: World, own: int, layout: Layout) -> np.ndarray:
    """Who lies where without one record, coupled as in `engines.layout`.

    It leaves its place empty; in a segment that is full, one of the last segment moves there, and
    where records have a fixed number of places, one that found none before.
    """
    rows = world.rows.copy()
    place = np.flatnonzero(rows == own)
    if not place.size:
        return rows
    rows[place] = -1
    waiting = np.setdiff1d(np.arange(world.size), np.append(rows, own))
    last = np.flatnonzero(rows >= 0)[-1:]
    if layout.by_turns and waiting.size:
        rows[place] = waiting[0]
    elif not layout.by_turns and place[0] < len(rows) - layout.segment:
        rows[place], rows[last] = rows[last], -1
    if len(rows) > layout.segment and (rows[-layout.segment :] < 0).all():
        rows = rows[: -layout.segment]
    return rows


def draw_public(generator: np.random.Generator, public: Any) -> Any:
    """A public value of the same shape: near the first one, far away, or what no server should
    send. Whatever it is, it is the same in both worlds."""
    scale = 10.0 ** generator.integers(-2, 5)
    odd = generator.random() < 0.1

    def changed(leaf: Any) -> Any:
        array = np.asarray(leaf)
        if array.dtype.kind != "f":
            return leaf
        moved = array + (scale * generator.normal(size=array.shape)).astype(array.dtype)
        if odd and array.size:
            flat = np.array(moved).reshape(-1)
            flat[generator.integers(flat.size)] = generator.choice(EXTREMES)
            moved = flat.reshape(array.shape)
        return moved.astype(array.dtype)

    return jax.tree.map(changed, public)


# ------------------------------------------------------------------ tables at an entrance

# Numbers of records about multiples of what processors and libraries compute at once.
SIZES = (2, 3, 4, 5, 7, 8, 9, 40, 63, 64, 65, 129, 1023, 1025)


def edge_weights(generator: np.random.Generator, row: np.ndarray, tries: int = 2000) -> np.ndarray:
    """Weights (d,) for which the score of a row (d,) is nothing but rounding; if there are any on
    this machine, those for which its sign depends on the company of the row."""
    row = np.asarray(row, float)
    last = int(np.argmax(np.abs(row)))
    weights = np.zeros(len(row))
    for _ in range(tries):
        weights = generator.normal(size=len(row)) * 10.0 ** generator.uniform(0, 5, len(row))
        weights[last] = 0.0
        weights[last] = -(row @ weights) / row[last]
        if sign_depends_on_company(row, weights):
            break
    return weights


def sign_depends_on_company(row: np.ndarray, weights: np.ndarray) -> bool:
    """Whether a matrix product of this machine gives copies of a row scores of both signs."""
    signs = [np.tile(row, (size, 1)) @ weights[:, None] > 0 for size in range(33, 41)]
    return len({bool(one) for sign in signs for one in sign[:, 0]}) > 1


def neighbour_tables(
    generator: np.random.Generator, columns: Columns, other: Columns
) -> Iterator[tuple[str, Columns]]:
    """By name, tables (n, ...) that differ in one record from `columns`: one more, taken from
    `other` (1, ...), one less, one replaced by it; and the same records, moved."""
    size = len(columns[0])
    place = int(generator.integers(size))
    rows = np.arange(size)

    def changed(kept: np.ndarray, put: int | None) -> Columns:
        own = tuple(column[kept] for column in columns)
        if put is None:
            return own
        pairs = zip(own, other, strict=True)
        return tuple(np.insert(column, put, one, axis=0) for column, one in pairs)

    yield "added", changed(rows, place)
    yield "added at the end", changed(rows, size)
    if size > 1:
        yield "removed", changed(np.delete(rows, place), None)
        yield "the last removed", changed(rows[:-1], None)
    yield "replaced", changed(np.delete(rows, place), place)
    yield "replaced and moved", changed(np.delete(rows, place), size - 1)
    yield "moved", changed(generator.permutation(size), None)


def rows_apart(first: np.ndarray, second: np.ndarray) -> int:
    """How many rows of one table are not in the other, in whatever order; the larger number."""
    one, two = (Counter(row.tobytes() for row in np.ascontiguousarray(t)) for t in (first, second))
    return max((one - two).total(), (two - one).total())


# ------------------------------------------------------------------ the search


def studies_of(study: Study) -> list[Study]:
    """The same algorithm and facts under every trust that it offers there."""
    found = []
    for trust in sorted(study.algorithm.trusts):
        try:
            other = study.under(trust)
            other.algorithm.event(other.facts, trust)
        except UnisonoError:
            continue
        found.append(other)
    return found


def search(
    study: Study,
    shapes: Any,
    relations: Any,
    pairs: int,
    seed: int,
    name: str = "",
    slack: float = 0.0,
    index: int = 0,
) -> Iterator[TooFar | None]:
    """Neighbouring pairs of one party, one after the other: None, or what is further apart than
    is claimed under any trust that computes the same.

    `slack` is by how many steps in a coordinate all others together may be rounded differently.
    """
    generator = np.random.default_rng(seed)
    party = CleanParty(study, index)
    algorithm, facts = study.algorithm, study.facts
    grid = algorithm.grid(facts, study.trust)
    claims = [
        other.algorithm.event_of(facts, other.trust, index).sensitivity
        for other in studies_of(study)
        if other.algorithm.grid(facts, other.trust) == grid
    ]
    server, first = algorithm.init(facts)
    event = party.event
    unit, each = event.sensitivity.unit, 6
    done = 0
    while done < pairs:
        world = draw_world(generator, study, event, shapes, index)
        public = draw_public(generator, algorithm.ask(server))
        publics = [public] * party.turns
        takes_part = bool(generator.random() < 0.9)
        before = _released(party, world, publics, first, takes_part)
        for _ in range(min(each, pairs - done)):
            relation = relations[int(generator.integers(len(relations)))]
            other = neighbour(generator, world, relation, unit, party.layout)
            after = _released(party, other, publics, first, takes_part)
            done += 1
            found = _compared(name, before, after, grid, relation, claims, world, other)
            if found is None and relation is Relation.ADD_OR_REMOVE and algorithm.rows is None:
                alone = silent(world, other.gone, party.layout, algorithm.batch is not None)
                masked = _released(party, alone, publics, first, takes_part)
                found = _disturbed(name, masked, after, grid, slack, world, other)
            yield found


def _released(
    party: CleanParty, world: World, publics: Any, state: Any, takes_part: bool
) -> np.ndarray | None:
    """None where the party drops out: its solver missed the public tolerance."""
    try:
        return party.releases(world, publics, state, takes_part)[0]
    except UnisonoError as error:
        if "tolerance" not in str(error):
            raise
        return None


def _compared(
    name: str,
    before: np.ndarray | None,
    after: np.ndarray | None,
    grid: float,
    relation: Relation,
    claims: Any,
    world: World,
    other: World,
) -> TooFar | None:
    if before is None and after is None:
        return None
    if before is None or after is None:
        return TooFar(name, relation, "dropout", 1.0, 0.0, world, other)
    moved = distances(before, after, grid)
    for claim in claims:
        bound = claim.under(relation)
        for norm in NORMS:
            claimed = getattr(bound, norm)
            if claimed is not None and moved[norm] > claimed * (1 + 1e-12):
                return TooFar(name, relation, norm, moved[norm], claimed, world, other)
    return None


def _disturbed(
    name: str,
    masked: np.ndarray | None,
    after: np.ndarray | None,
    grid: float,
    slack: float,
    world: World,
    other: World,
) -> TooFar | None:
    if masked is None or after is None:
        return None
    moved = distances(masked, after, grid)["linf"]
    if moved <= slack * grid:
        return None
    return TooFar(
        name, Relation.ADD_OR_REMOVE, "linf (of all others)", moved, slack * grid, world, other
    )


__all__ = [
    "EXTREMES",
    "SIZES",
    "CleanParty",
    "TooFar",
    "World",
    "edge_weights",
    "neighbour_tables",
    "rows_apart",
    "search",
    "sign_depends_on_company",
    "without",
]
