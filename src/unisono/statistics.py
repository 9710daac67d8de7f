"""A private statistic in three lines.

    import unisono
    book = unisono.open_ledger("ages.ledger", dataset="ages", epsilon=1.0, delta=1e-6)
    print(unisono.mean(ages, bounds=(0, 120), epsilon=0.5, ledger=book))

Each function is a study of one party that makes one release: it bounds the records by *public*
bounds, pays with the data set's ledger, draws exact integer noise and returns an `Estimate` that
prints its interval and its guarantee. The noise is discrete Laplace (pure epsilon) or, with a
`delta`, Gaussian.

    count, total, mean, histogram           doubles and 64-bit integers    `engines.one_round`
    variance, std, median, quantile         the questions of a `Survey`    `engines.in_process`

The second four are what `unisono query` asks, with one party: records are 32-bit floats there, and
JAX is imported when one of them is first called. So are all eight where `persons` are hidden, or
where records are streamed.

Values are a list or an array; with `column`, a frame of pandas, polars or Arrow, a DuckDB relation,
lists by name, a path to a Parquet or CSV file, or a function that begins the same batches anew
whenever it is called. What is larger than memory is read block by block.

    unisono.mean(visits, (0, 300), column="pressure", persons="patient", epsilon=0.5, ledger=book)

With `persons`, ids or a column of them, what is hidden is all records of one person, as with unit =
"person" in study files: every person counts once, and its records share that weight, so that a mean
is one of persons' means and a count adds up shares of persons. Of more than `records_per_person`
records so many are drawn in secret. The number of *persons* is public, that of records is not.

Every record is read by itself (`unisono.data`): a list is never made one array of one kind, and a
value that cannot be read adds nothing to a count, a sum or a histogram. Whoever calls is warned.
Where values may be missing, `missing="drop record"` asks for the mean, spread or quantiles of those
that are there; how many these are is no public number, so it is released in the same event.
"""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import readings
from unisono.algorithms.estimates import Estimate
from unisono.algorithms.noise_law import sum_law
from unisono.algorithms.readings import Noisy
from unisono.core.algorithm import Facts
from unisono.core.defaults import warn_of_clipping
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.streamed import StreamedColumns
from unisono.core.study import Party, Result, Study, warn_large_delta
from unisono.core.trust import Relation, Trust, Unit
from unisono.core.values import Private
from unisono.data import UnreadValues, codes, listed, numbers, still_divided, warn_unread
from unisono.data.cells import blanks
from unisono.data.given import HELD, is_frame, stream_of, table_of
from unisono.data.order import order_key
from unisono.data.people import as_rows, drawn_persons, require_same_persons
from unisono.data.people import records_per_person as usual_group
from unisono.data.streams import RecordStream
from unisono.engines import one_round
from unisono.errors import ClippedValues, InvalidInput
from unisono.releases.exact_sums import (
    STEPS_IN_RANGE,
    BoundedRows,
    ColumnSums,
    CountedCells,
    ExactSum,
)

# Sums of so small or so large values, or their grid, are not numbers that doubles hold; surveys
# hold records as 32-bit floats.
_DOUBLES, _SINGLES = (1e-250, 1e250), (1e-30, 1e30)
# Sums stay in doubles from the records to the reader; a few operations are rounded on the way.
_PRECISION = 2.0**-50


def open_ledger(
    path: str | os.PathLike[str],
    dataset: str,
    epsilon: float,
    delta: float = 0.0,
    *,
    relation: Relation | str = Relation.REPLACE_ONE,
    seed: int | None = None,
    unit: Unit | str = Unit.RECORD,
    person: str = "",
) -> Ledger:
    """Open the data set's ledger, or create it with this budget if there is none yet. With `unit`
    "person" it counts what is shown of all records of a person, by the column `person`."""
    policy = Policy(
        dataset,
        Budget(epsilon, delta),
        relation=Relation(relation),
        unit=Unit(unit),
        person=person,
    )
    if Path(path).exists():
        return Ledger.open(path, ACCOUNTANT, policy, seed)
    return Ledger.create(path, policy, ACCOUNTANT, seed)


# ------------------------------------------------------------ sums and counts


def count(
    condition: Any,
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "count",
    column: str | None = None,
    persons: Any = None,
    records_per_person: int | None = None,
    nominal_rows: int | None = None,
) -> Estimate:
    """How many records fulfil a condition (an array of true and false, or such a column)."""
    terms = _terms(name, epsilon, delta, ledger, confidence)
    given = _given(condition, column, persons, records_per_person, ledger)
    if not given.listed:
        from unisono.algorithms import statistics as questions

        [answer] = _surveyed(terms, questions.count(0, name=name), given, _truths, nominal_rows)
        return answer
    flags = codes(listed(given.cells), (False, True))
    warn_unread(flags < 0, "values", "true or false (write a condition, as ages > 65)")
    found = _released(terms, CountedCells(1), np.where(flags == 1, 0, -1))
    noisy = found.noisy(found.total)
    return terms.read(readings.read_counts, name, (), "the count", noisy, found.result)


def total(
    values: Any,
    bounds: tuple[float, float],
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "values",
    column: str | None = None,
    persons: Any = None,
    records_per_person: int | None = None,
    nominal_rows: int | None = None,
) -> Estimate:
    """The sum of values, each clipped to public bounds; one that cannot be read adds nothing.

    Values are rounded to about a millionth of the largest. Where the number of records is public,
    the interval counts that in; where it is hidden, nobody may know how much it adds up to.
    """
    title = f"sum of {_named(name, column)}"
    terms = _terms(title, epsilon, delta, ledger, confidence)
    given = _given(values, column, persons, records_per_person, ledger)
    if not given.listed:
        from unisono.algorithms import statistics as questions

        low, high = _range(bounds, within=_SINGLES)
        question = questions.total(0, (low, high), name=title)
        [answer] = _surveyed(terms, question, given, _between(low, high), nominal_rows)
        return answer
    records, low, high = _read(given.cells, bounds)
    bound = ColumnSums(max(abs(low), abs(high)))
    rows = BoundedRows(records, (low, high))
    found = _released(terms, bound, rows, bounds=[low, high])
    rounding = 0.0 if terms.hidden else found.records * found.step / 2
    noisy = found.noisy(found.total, rounding=(rounding,))
    return terms.read(readings.read_sums, title, (), 1.0, 0.0, noisy, found.result)


def mean(
    values: Any,
    bounds: tuple[float, float],
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "values",
    column: str | None = None,
    persons: Any = None,
    records_per_person: int | None = None,
    nominal_rows: int | None = None,
    missing: str | None = None,
) -> Estimate:
    """The average of values, each clipped to public bounds.

    Values are centred first, so the noise is in proportion to half the range. Where the number
    of records is public (replace-one, zero-out) it divides the sum; under add-or-remove a noisy
    count is released beside the sum, in one event. A value that cannot be read adds nothing: it
    counts as the centre of the bounds, or not at all where records are counted, as they are with
    `missing="drop record"`, too.
    """
    name, dropped = _named(name, column), _drops(missing)
    terms = _terms(f"mean of {name}", epsilon, delta, ledger, confidence)
    given = _given(values, column, persons, records_per_person, ledger)
    if not given.listed or (dropped and not terms.hidden):
        return _moment("mean", given, bounds, terms, name, nominal_rows, dropped)
    divided = not terms.hidden
    records, low, high = _read(given.cells, bounds, True, divided, dropped)
    centre, half = low / 2 + high / 2, high / 2 - low / 2
    rows = BoundedRows(records, (low, high), centre, half if terms.hidden else None)
    found = _released(terms, ColumnSums(half, rows.shape[1]), rows, bounds=[low, high])
    # On the scale of `read_moments`: records, and the sum of u = (x - centre) / half.
    scaled = found.total / half
    rounded = found.step / 2 / half
    if terms.hidden:
        # A record counts as half the range in whole steps.
        scaled[0] = found.total[0] / (np.rint(half / found.step) * found.step)
        margin = found.noisy(scaled, 1 / half).margin(0, 1 - confidence, numbers=2)
        rounding: tuple[float, ...] = (0.0, max(scaled[0] + margin, 0.0) * rounded)
    else:
        rounding = (found.records * rounded,)
    noisy = found.noisy(scaled, 1 / half, rounding)
    asked = (name, (), centre, half, ("mean",), False, False)
    return terms.read(readings.read_moments, *asked, noisy, found.result)


def histogram(
    values: Any,
    categories: Sequence[Any],
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "histogram",
    column: str | None = None,
    persons: Any = None,
    records_per_person: int | None = None,
    nominal_rows: int | None = None,
) -> Estimate:
    """How many records fall into each of the public categories; others are left out.

    What a record counts as is decided for it alone, as `unisono.data.codes` says.
    """
    labels = tuple(categories)
    terms = _terms(name, epsilon, delta, ledger, confidence)
    given = _given(values, column, persons, records_per_person, ledger)
    if not given.listed:
        from unisono.algorithms import statistics as questions

        codes((), categories)  # refuses what are no categories
        question = questions.histogram(0, labels, name=name)
        [answer] = _surveyed(terms, question, given, _places(labels), nominal_rows)
        return answer
    places = codes(listed(given.cells), categories)
    cells = CountedCells(len(labels))
    found = _released(terms, cells, places, categories=[str(one) for one in labels])
    noisy = found.noisy(found.total[:, None])
    return terms.read(readings.read_counts, name, labels, "each of the counts", noisy, found.result)


# ------------------------------------------------------- spread and quantiles


def variance(
    values: Any,
    bounds: tuple[float, float],
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "values",
    column: str | None = None,
    persons: Any = None,
    records_per_person: int | None = None,
    nominal_rows: int | None = None,
    missing: str | None = None,
) -> Estimate:
    """The variance of the records, Σ (x - mean)² / n, each clipped to public bounds.

    A value that cannot be read adds to no sum, but is one of the records where their number is
    public: there it counts as the centre of the bounds in the mean, and as 3/4 of the squared half
    range in the mean square, unless `missing="drop record"`. Where the number of records is hidden
    (add-or-remove), `nominal_rows` is a public upper limit of it.
    """
    name = _named(name, column)
    terms = _terms(f"variance of {name}", epsilon, delta, ledger, confidence)
    given = _given(values, column, persons, records_per_person, ledger)
    return _moment("variance", given, bounds, terms, name, nominal_rows, _drops(missing))


def std(
    values: Any,
    bounds: tuple[float, float],
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "values",
    column: str | None = None,
    persons: Any = None,
    records_per_person: int | None = None,
    nominal_rows: int | None = None,
    missing: str | None = None,
) -> Estimate:
    """The standard deviation of the records: the root of their `variance`."""
    name = _named(name, column)
    terms = _terms(f"standard deviation of {name}", epsilon, delta, ledger, confidence)
    given = _given(values, column, persons, records_per_person, ledger)
    return _moment("standard deviation", given, bounds, terms, name, nominal_rows, _drops(missing))


def quantile(
    values: Any,
    level: float | Sequence[float],
    bounds: tuple[float, float],
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "values",
    column: str | None = None,
    persons: Any = None,
    records_per_person: int | None = None,
    nominal_rows: int | None = None,
    missing: str | None = None,
) -> Estimate:
    """The value that a share `level` of the records lies below; several levels cost what one does.

    All levels are read from one noisy tree of counts (`unisono.algorithms.quantiles`), and come as
    one estimate, an array with the levels as labels. Each interval holds at `confidence` divided
    among them, so that all hold at once. Values outside the bounds count at their ends, and one
    that cannot be read counts nowhere; but where the number of records is public levels are shares
    of all of them, and with `missing="drop record"` of the values that are there. Where the number
    of records is hidden (add-or-remove), `nominal_rows` is a public upper limit of it.
    """
    from unisono.algorithms.quantiles import quantiles

    several = np.ndim(level) > 0
    levels = tuple(float(one) for one in np.ravel(np.asarray(level, float)))
    if not levels:
        raise InvalidInput("no level was asked for: give one between 0 and 1, as 0.5")
    low, high = _range(bounds, within=_SINGLES)
    name, dropped = _named(name, column), _drops(missing)
    title = f"median of {name}" if levels == (0.5,) else f"quantiles of {name}"
    terms = _terms(title, epsilon, delta, ledger, confidence)
    given = _given(values, column, persons, records_per_person, ledger)
    question = quantiles(0, (low, high), levels, name=name)
    question = question.counting() if dropped and not terms.hidden else question
    read = _between(low, high, not (dropped or terms.hidden), dropped)
    found = _surveyed(terms, question, given, read, nominal_rows, numbers=len(levels))
    return _joined(title, levels, found, confidence) if several else found[0]


def median(
    values: Any,
    bounds: tuple[float, float],
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "values",
    column: str | None = None,
    persons: Any = None,
    records_per_person: int | None = None,
    nominal_rows: int | None = None,
    missing: str | None = None,
) -> Estimate:
    """The value that half of the records lie below; see `quantile`."""
    return quantile(
        values,
        0.5,
        bounds,
        epsilon=epsilon,
        ledger=ledger,
        delta=delta,
        confidence=confidence,
        name=name,
        column=column,
        persons=persons,
        records_per_person=records_per_person,
        nominal_rows=nominal_rows,
        missing=missing,
    )


# ------------------------------------------------------------------ what is given

# One column of cells as float64 (n,), NaN where a cell cannot be read; whoever holds them is told.
_Read = Callable[[Any], np.ndarray]


@dataclass(frozen=True)
class _Given:
    """Values as they were given: a list, a stream of batches, or a list by persons (persons, k)."""

    cells: Any = None
    stream: RecordStream | None = None
    column: str = ""
    people: np.ndarray | None = None

    @property
    def listed(self) -> bool:
        """Whether they are a list of records, each of them by itself."""
        return self.stream is None and self.people is None

    @property
    def group(self) -> int | None:
        return None if self.people is None else self.people.shape[1]

    def columns(self, read: _Read) -> tuple[int, Any]:
        """How many records or persons there are, and what a survey of one column reads of them."""
        if self.stream is not None:
            return self.stream.rows, self._streamed(self.stream, read)
        own = read(self.cells).astype(np.float32)[:, None]
        if self.people is None:
            return len(own), (own,)
        if self.group == 1:
            return len(self.people), (own[self.people[:, 0]],)
        flat = own[self.people.reshape(-1)]
        return len(self.people), as_rows((flat,), self.people >= 0)

    def _streamed(self, stream: RecordStream, read: _Read) -> StreamedColumns:
        def batches() -> Iterator[tuple[np.ndarray, ...]]:
            unread = 0
            for batch in stream.batches():
                with warnings.catch_warnings():  # once, at the end
                    warnings.simplefilter("ignore", UnreadValues)
                    warnings.simplefilter("ignore", ClippedValues)
                    own = read(batch.column(self.column))
                unread += int(np.count_nonzero(np.isnan(own)))
                yield (own.astype(np.float32)[:, None],)
            if unread:
                warnings.warn(
                    f"{unread} of {stream.rows} values of {self.column!r} in {stream.name} cannot "
                    "be read: each counts as missing, which changes what is read of no other "
                    "record. Nobody else is told",
                    UnreadValues,
                    stacklevel=2,
                )

        return StreamedColumns(stream.rows, ((1,),), batches)


def _given(
    values: Any, column: str | None, persons: Any, group: int | None, ledger: Ledger
) -> _Given:
    """Values in memory, of persons if they are named, or a stream, where it is long."""
    if column is None:
        if is_frame(values) or isinstance(values, os.PathLike) or callable(values):
            raise InvalidInput(
                f"got a {type(values).__name__} with several columns: say which with column"
            )
        if isinstance(persons, str):
            raise InvalidInput(
                f"persons = {persons!r}, but values are a list without names: give a frame and a "
                "column, or one id for each value"
            )
        cells, owners = values, persons
    else:
        stream = stream_of(values, [column])
        if stream is not None and persons is None and stream.rows > HELD:
            return _Given(stream=stream, column=column)
        wanted = [column, *([persons] if isinstance(persons, str) else [])]
        table = table_of(values, wanted)
        cells = table.column(column)
        owners = table.column(persons) if isinstance(persons, str) else persons
    if owners is None:
        return _Given(cells)
    cells, ids = listed(cells), list(listed(owners))
    if len(ids) != len(cells):
        raise InvalidInput(f"{len(ids)} persons for {len(cells)} values: name one for each")
    named = persons if isinstance(persons, str) else ""
    require_same_persons(ledger.policy, Unit.PERSON, named)
    owner = ledger.policy.dataset
    key = order_key(ledger.seed, owner)
    people = drawn_persons(ids, usual_group(group), key, owner, named)
    return _Given(cells, people=people)


def _named(name: str, column: str | None) -> str:
    """What answers call values: a column by its own name, where they have no other."""
    return column if column is not None and name == "values" else name


def _truths(cells: Any) -> np.ndarray:
    flags = codes(listed(cells), (False, True))
    warn_unread(flags < 0, "values", "true or false")
    return np.where(flags < 0, np.nan, flags)


def _places(categories: Sequence[Any]) -> _Read:
    def read(cells: Any) -> np.ndarray:
        places = codes(listed(cells), categories)
        return np.where(places < 0, np.nan, places)

    return read


def _between(low: float, high: float, divided: bool = False, dropped: bool = False) -> _Read:
    return lambda cells: np.clip(_numbers(cells, low, high, divided, dropped), low, high)


# ------------------------------------------------------------------ pieces


@dataclass(frozen=True)
class _Terms:
    """What is promised, who pays, how sure intervals are, and what the ledger says it was for."""

    privacy: Privacy
    ledger: Ledger
    confidence: float
    purpose: str

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise InvalidInput(
                f"confidence = {self.confidence!r}: it lies between 0 and 1, as 0.95"
            )

    @property
    def hidden(self) -> bool:
        """Whether the number of records is hidden too."""
        return self.privacy.relation is Relation.ADD_OR_REMOVE

    def facts(
        self, records: int, nominal: int, features: int = 1, group: int | None = None
    ) -> Facts:
        """One party of so many records, or persons. A hidden number of them appears nowhere:
        neither in the price nor in the study's hash, from which it could be guessed; its owner is
        warned of a large delta."""
        if not self.hidden:
            return Facts((records,), features, 1, records_per_person=group)
        warn_large_delta(self.privacy.delta, records)
        return Facts((nominal,), features, 1, exact_sizes=False, records_per_person=group)

    def party(self, columns: Any) -> Party:
        name = self.ledger.policy.dataset
        return Party(name, Private(columns, name), self.ledger)

    def read(self, reading: Callable[..., list[Estimate]], *given: Any) -> Estimate:
        """The one estimate that a reading finds; `given` is what it asks for, and the result."""
        *asked, result = given
        [found] = reading(*asked, 1 - self.confidence, result.certificate)
        return found


def _terms(purpose: str, epsilon: float, delta: float, ledger: Ledger, confidence: float) -> _Terms:
    """The relation is the ledger's: budgets add up under one."""
    return _Terms(Privacy(epsilon, delta, ledger.policy.relation), ledger, confidence, purpose)


@dataclass(frozen=True)
class _Released:
    """A noisy array, and the study that it came of."""

    study: Study
    result: Result

    @property
    def total(self) -> np.ndarray:
        return np.array(self.result.value, np.float64)

    @property
    def step(self) -> float:
        return self.study.algorithm.grid(self.study.facts, self.study.trust)

    @property
    def records(self) -> int:
        return sum(self.study.facts.records)

    def noisy(
        self, values: np.ndarray, factor: float = 1.0, rounding: tuple[float, ...] = (0.0,)
    ) -> Noisy:
        """For the readings: `values` are `factor` times what was released, one cell in each row,
        and one cell in all where they are flat."""
        study, facts = self.study, self.study.facts
        event = study.algorithm.event(facts, study.trust)
        law = sum_law(event, facts, study.trust, 1, self.step).scaled(factor)
        return Noisy(
            np.atleast_2d(values),
            law,
            np.broadcast_to(np.asarray(rounding), (np.atleast_2d(values).shape[1],)),
            self.records,
            facts.exact_sizes,
            _PRECISION,
        )


def _released(
    terms: _Terms, bound: CountedCells | ColumnSums, rows: np.ndarray | BoundedRows, **asked: Any
) -> _Released:
    """One release of counts or sums, as a study of one party."""
    said = (("statistic", terms.purpose), *asked.items())
    # These bounds are priced without the number of records, so any will do where it is hidden.
    facts = terms.facts(len(rows), nominal=1, features=int(np.prod(rows.shape[1:])))
    study = Study(ExactSum("statistic", bound, terms.privacy, said), facts, Trust.LOCAL)
    result = one_round.run(study, [terms.party((rows,))], purpose=terms.purpose)
    return _Released(study, result)


def _moment(
    word: str,
    given: _Given,
    bounds: tuple[float, float],
    terms: _Terms,
    name: str,
    nominal_rows: int | None,
    dropped: bool,
) -> Estimate:
    from unisono.algorithms import statistics as questions

    low, high = _range(bounds, within=_SINGLES)
    spread = word != "mean" or not terms.privacy.pure
    question = questions.mean(0, (low, high), name=name, wanted=(word,), spread=spread)
    question = question.counting() if dropped and not terms.hidden else question
    read = _between(low, high, not (dropped or terms.hidden), dropped)
    [found] = _surveyed(terms, question, given, read, nominal_rows)
    return found


def _surveyed(
    terms: _Terms,
    question: Any,
    given: _Given,
    read: _Read,
    nominal_rows: int | None,
    numbers: int = 1,
) -> list[Estimate]:
    """The answers to one question of a survey with one party, all at once at the confidence."""
    from unisono.algorithms.survey import STATISTICS, Survey
    from unisono.engines import in_process

    if terms.hidden and nominal_rows is None:
        raise InvalidInput(
            "add-or-remove hides how many records there are: give a public upper limit of their "
            "number with nominal_rows"
        )
    survey = Survey([question])
    nominal = 1 if nominal_rows is None else nominal_rows
    records, columns = given.columns(read)
    if terms.hidden and records > nominal:  # refusing would tell everybody the size
        warnings.warn(
            f"there are more records than nominal_rows = {nominal}: all of them count, but "
            "intervals are made for fewer; give a larger number",
            stacklevel=4,
        )
    facts = terms.facts(records, nominal, group=given.group)
    study = Study(STATISTICS.method(survey, terms.privacy), facts, Trust.LOCAL)
    result = in_process.run(study, [terms.party(columns)], purpose=terms.purpose)
    return survey.read(study, result, 1 - (1 - terms.confidence) / numbers)


def _joined(
    title: str, levels: tuple[float, ...], found: Sequence[Estimate], confidence: float
) -> Estimate:
    """Estimates whose intervals hold at once, as one."""
    low, high = (np.array([one.interval[end] for one in found]) for end in (0, 1))
    return Estimate(
        title,
        np.array([one.value for one in found]),
        (low, high),
        confidence,
        "the shares of the records that lie below, read from one noisy tree of counts; values "
        "outside the range count at its ends.",
        found[0].certificate,
        labels=tuple(f"{level:g}" for level in levels),
    )


def _read(
    values: Any,
    bounds: tuple[float, float],
    centred: bool = False,
    divided: bool = False,
    dropped: bool = False,
) -> tuple[np.ndarray, float, float]:
    """Numbers (n,) and the bounds, for sums in doubles; they are clipped where they are used."""
    low, high = _range(bounds, centred)
    return _numbers(values, low, high, divided, dropped), low, high


def _range(
    bounds: tuple[float, float],
    centred: bool = False,
    within: tuple[float, float] = _DOUBLES,
) -> tuple[float, float]:
    """Public bounds, or a refusal of what are none."""
    low, high = (float(b) for b in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput(
            f"bounds {bounds!r} are not a finite range: give the public lowest and highest value, "
            "never read from the data"
        )
    smallest, largest = within
    if not smallest < max(abs(low), abs(high)) < largest:
        raise InvalidInput(
            f"bounds {bounds!r} are too small or too large to add up in "
            f"{'doubles' if within == _DOUBLES else '32-bit floats'}: choose another unit for "
            "values and bounds"
        )
    if centred and (high / 2 - low / 2) / STEPS_IN_RANGE < math.ulp(max(abs(low), abs(high))):
        raise InvalidInput(
            f"bounds {bounds!r} are too narrow for where they lie: doubles cannot tell the values "
            "between them apart; subtract a public constant from values and bounds first"
        )
    return low, high


def _numbers(
    values: Any, low: float, high: float, divided: bool = False, dropped: bool = False
) -> np.ndarray:
    """Numbers (n,), NaN where a value is none; whoever holds them is told which lie outside.
    `divided` by the number of all records, values that are missing move the answer, which is told
    too; `dropped`, empty ones are as declared."""
    column = listed(values)
    if _all_finite(column):
        records = np.asarray(column)
    else:
        records = numbers(column)
        moved = still_divided('missing="drop record"') if divided else ""
        unread = np.isnan(records) & ~blanks(column) if dropped else np.isnan(records)
        warn_unread(unread, "values", "finite numbers", moved)
    warn_of_clipping(records, low, high, "values")
    return records


def _drops(missing: str | None) -> bool:
    if missing not in (None, "drop record"):
        raise InvalidInput(
            f'missing = {missing!r}: write "drop record", or leave it out; a study file can say '
            "more of missing values"
        )
    return missing is not None


def _all_finite(column: Any) -> bool:
    """Whether these are finite doubles, which are read as they are, without a copy."""
    if not isinstance(column, np.ndarray) or column.dtype != np.float64:
        return False
    return bool(np.isfinite(column.min()) and np.isfinite(column.max()))  # NaN is both


__all__ = [
    "count",
    "histogram",
    "mean",
    "median",
    "open_ledger",
    "quantile",
    "std",
    "total",
    "variance",
]
