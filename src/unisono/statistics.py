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
    t_test, median_test, proportion_test,   likewise: two groups, or two
    chi_square, fisher                      categories, compared

The others are what `unisono query` asks, with one party: records are 32-bit floats there, and
JAX is imported when one of them is first called.

Every record is read by itself (`unisono.data`): a list is never made one array of one kind, and a
value that cannot be read adds nothing to a count, a sum or a histogram. Whoever calls is warned.
"""

import math
import os
import warnings
from collections.abc import Callable, Sequence
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
from unisono.core.study import Party, Result, Study, warn_large_delta
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.data import codes, listed, numbers, warn_unread
from unisono.engines import one_round
from unisono.errors import InvalidInput
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
) -> Ledger:
    """Open the data set's ledger, or create it with this budget if there is none yet."""
    policy = Policy(dataset, Budget(epsilon, delta), relation=Relation(relation))
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
) -> Estimate:
    """How many records fulfil a condition (an array of true and false)."""
    flags = codes(listed(condition), (False, True))
    warn_unread(flags < 0, "values", "true or false (write a condition, as ages > 65)")
    terms = _terms(name, epsilon, delta, ledger, confidence)
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
) -> Estimate:
    """The sum of values, each clipped to public bounds; one that cannot be read adds nothing.

    Values are rounded to about a millionth of the largest. Where the number of records is public,
    the interval counts that in; where it is hidden, nobody may know how much it adds up to.
    """
    records, low, high = _read(values, bounds)
    title = f"sum of {name}"
    terms = _terms(title, epsilon, delta, ledger, confidence)
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
) -> Estimate:
    """The average of values, each clipped to public bounds.

    Values are centred first, so the noise is in proportion to half the range. Where the number
    of records is public (replace-one, zero-out) it divides the sum; under add-or-remove a noisy
    count is released beside the sum, in one event. A value that cannot be read adds nothing: it
    counts as the centre of the bounds, or not at all where records are counted.
    """
    records, low, high = _read(values, bounds, centred=True)
    centre, half = low / 2 + high / 2, high / 2 - low / 2
    terms = _terms(f"mean of {name}", epsilon, delta, ledger, confidence)
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
) -> Estimate:
    """How many records fall into each of the public categories; others are left out.

    What a record counts as is decided for it alone, as `unisono.data.codes` says.
    """
    places = codes(listed(values), categories)
    labels = tuple(categories)
    terms = _terms(name, epsilon, delta, ledger, confidence)
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
    nominal_rows: int | None = None,
) -> Estimate:
    """The variance of the records, Σ (x - mean)² / n, each clipped to public bounds.

    A value that cannot be read adds to no sum, but is one of the records where their number is
    public: there it counts as the centre of the bounds in the mean, and as 3/4 of the squared half
    range in the mean square. Where the number of records is hidden (add-or-remove), `nominal_rows`
    is a public upper limit of it.
    """
    terms = _terms(f"variance of {name}", epsilon, delta, ledger, confidence)
    return _moment("variance", values, bounds, terms, name, nominal_rows)


def std(
    values: Any,
    bounds: tuple[float, float],
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "values",
    nominal_rows: int | None = None,
) -> Estimate:
    """The standard deviation of the records: the root of their `variance`."""
    terms = _terms(f"standard deviation of {name}", epsilon, delta, ledger, confidence)
    return _moment("standard deviation", values, bounds, terms, name, nominal_rows)


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
    nominal_rows: int | None = None,
) -> Estimate:
    """The value that a share `level` of the records lies below; several levels cost what one does.

    All levels are read from one noisy tree of counts (`unisono.algorithms.quantiles`), and come as
    one estimate, an array with the levels as labels. Each interval holds at `confidence` divided
    among them, so that all hold at once. Values outside the bounds count at their ends, and one
    that cannot be read counts nowhere. Where the number of records is hidden (add-or-remove),
    `nominal_rows` is a public upper limit of it.
    """
    from unisono.algorithms.quantiles import quantiles

    several = np.ndim(level) > 0
    levels = tuple(float(one) for one in np.ravel(np.asarray(level, float)))
    if not levels:
        raise InvalidInput("no level was asked for: give one between 0 and 1, as 0.5")
    records, low, high = _read(values, bounds, within=_SINGLES)
    title = f"median of {name}" if levels == (0.5,) else f"quantiles of {name}"
    terms = _terms(title, epsilon, delta, ledger, confidence)
    question = quantiles(0, (low, high), levels, name=name)
    found = _surveyed(
        terms, question, np.clip(records, low, high), nominal_rows, numbers=len(levels)
    )
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
    nominal_rows: int | None = None,
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
        nominal_rows=nominal_rows,
    )


# ------------------------------------------------------------------- tests


def t_test(
    values: Any,
    groups: Any,
    bounds: tuple[float, float],
    *,
    between: Sequence[Any],
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "values",
    nominal_rows: int | None = None,
) -> Estimate:
    """Mean of the first group less that of the second, with Welch's t test that they are equal.

    `groups` says of each record which group it is in, `between` names the two that are compared;
    others count nowhere. The answer's `test` has statistic and p value, with the noise counted in,
    and the part of the interval's width that is privacy (`unisono.algorithms.hypothesis_tests`).
    """
    from unisono.algorithms.comparisons import difference_of_means

    return _difference(
        difference_of_means,
        "t test",
        values,
        groups,
        bounds,
        between,
        name,
        nominal_rows,
        epsilon=epsilon,
        delta=delta,
        ledger=ledger,
        confidence=confidence,
    )


def median_test(
    values: Any,
    groups: Any,
    bounds: tuple[float, float],
    *,
    between: Sequence[Any],
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "values",
    nominal_rows: int | None = None,
) -> Estimate:
    """Median of the first group less that of the second, and a test that they are equal; see
    `t_test`."""
    from unisono.algorithms.comparisons import difference_of_medians

    return _difference(
        difference_of_medians,
        "median test",
        values,
        groups,
        bounds,
        between,
        name,
        nominal_rows,
        epsilon=epsilon,
        delta=delta,
        ledger=ledger,
        confidence=confidence,
    )


def proportion_test(
    condition: Any,
    groups: Any,
    *,
    between: Sequence[Any],
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "condition",
    nominal_rows: int | None = None,
) -> Estimate:
    """Share of records that fulfil a condition, of the first group less that of the second, and a
    test that they are equal; see `t_test`."""
    from unisono.algorithms.comparisons import difference_of_proportions

    flags = codes(listed(condition), (False, True))
    warn_unread(flags < 0, "values", "true or false (write a condition, as ages > 65)")
    by, places = _grouped(groups, between, "between")
    question = difference_of_proportions(0, by, name=name)
    terms = _terms(f"proportion test of {name}", epsilon, delta, ledger, confidence)
    rows = _side_by_side(np.where(flags < 0, np.nan, flags), places)
    [found] = _surveyed(terms, question, rows, nominal_rows)
    return found


def chi_square(
    first: Any,
    second: Any,
    categories: tuple[Sequence[Any], Sequence[Any]],
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "table",
    nominal_rows: int | None = None,
) -> Estimate:
    """Whether two categories are independent: Cramér's V and a chi-square test under the noise.

    `categories` are the public values of the first and of the second; records with others count
    nowhere.
    """
    from unisono.algorithms import comparisons

    terms = _terms(f"chi-square of {name}", epsilon, delta, ledger, confidence)
    return _tabled(comparisons.chi_square, first, second, categories, terms, name, nominal_rows)


def fisher(
    first: Any,
    second: Any,
    categories: tuple[Sequence[Any], Sequence[Any]],
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
    confidence: float = 0.95,
    name: str = "table",
    nominal_rows: int | None = None,
) -> Estimate:
    """Whether two categories with two values each are independent: the odds ratio, and a test like
    Fisher's, simulated with the noise; see `chi_square`."""
    from unisono.algorithms import comparisons

    terms = _terms(f"Fisher's test of {name}", epsilon, delta, ledger, confidence)
    return _tabled(comparisons.fisher, first, second, categories, terms, name, nominal_rows)


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

    def facts(self, records: np.ndarray | BoundedRows, nominal: int, features: int = 1) -> Facts:
        """One party. A hidden number of records appears nowhere: neither in the price nor in the
        study's hash, from which it could be guessed; its owner is warned of a large delta."""
        if not self.hidden:
            return Facts((len(records),), features, 1)
        warn_large_delta(self.privacy.delta, len(records))
        return Facts((nominal,), features, 1, exact_sizes=False)

    def party(self, records: np.ndarray | BoundedRows) -> Party:
        name = self.ledger.policy.dataset
        return Party(name, Private((records,), name), self.ledger)

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
    facts = terms.facts(rows, nominal=1, features=int(np.prod(rows.shape[1:])))
    study = Study(ExactSum("statistic", bound, terms.privacy, said), facts, Trust.LOCAL)
    result = one_round.run(study, [terms.party(rows)], purpose=terms.purpose)
    return _Released(study, result)


def _moment(
    word: str,
    values: Any,
    bounds: tuple[float, float],
    terms: _Terms,
    name: str,
    nominal_rows: int | None,
) -> Estimate:
    from unisono.algorithms import statistics as questions

    records, low, high = _read(values, bounds, within=_SINGLES)
    question = questions.mean(0, (low, high), name=name, wanted=(word,))
    [found] = _surveyed(terms, question, np.clip(records, low, high), nominal_rows)
    return found


def _surveyed(
    terms: _Terms,
    question: Any,
    records: np.ndarray,
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
    if terms.hidden and len(records) > nominal:  # refusing would tell everybody the size
        warnings.warn(
            f"there are more records than nominal_rows = {nominal}: all of them count, but "
            "intervals are made for fewer; give a larger number",
            stacklevel=4,
        )
    rows = records.astype(np.float32).reshape(len(records), -1)
    facts = terms.facts(records, nominal, rows.shape[1])
    study = Study(STATISTICS.method(survey, terms.privacy), facts, Trust.LOCAL)
    result = in_process.run(study, [terms.party(rows)], purpose=terms.purpose)
    return survey.read(study, result, 1 - (1 - terms.confidence) / numbers)


def _difference(
    test: Callable[..., Any],
    what: str,
    values: Any,
    groups: Any,
    bounds: tuple[float, float],
    between: Sequence[Any],
    name: str,
    nominal_rows: int | None,
    **paid: Any,
) -> Estimate:
    records, low, high = _read(values, bounds, within=_SINGLES)
    by, places = _grouped(groups, between, "between")
    question = test(0, (low, high), by, name=name)
    rows = _side_by_side(np.clip(records, low, high), places)
    [found] = _surveyed(_terms(f"{what} of {name}", **paid), question, rows, nominal_rows)
    return found


def _tabled(
    test: Callable[..., Any],
    first: Any,
    second: Any,
    categories: tuple[Sequence[Any], Sequence[Any]],
    terms: _Terms,
    name: str,
    nominal_rows: int | None,
) -> Estimate:
    (rows, row_places), (columns, column_places) = (
        _grouped(own, names, "categories", place)
        for place, (own, names) in enumerate(zip((first, second), categories, strict=True))
    )
    question = test(rows, columns, name=name)
    records = _side_by_side(row_places, column_places)
    [found] = _surveyed(terms, question, records, nominal_rows)
    return found


def _grouped(
    groups: Any, names: Sequence[Any], option: str, place: int = 1
) -> tuple[Any, np.ndarray]:
    """Public groups in a column, and the number of each record's group, -1 for any other."""
    from unisono.problems.columns import Groups

    if isinstance(names, str):
        raise InvalidInput(f"{option} = {names!r}: name groups in a list, as ['drug', 'placebo']")
    labels = tuple(names)
    if option == "between" and len(labels) != 2:
        raise InvalidInput(f"between = {list(labels)!r}: name the two groups that are compared")
    return Groups(place, labels), codes(listed(groups), labels).astype(float)


def _side_by_side(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    if len(first) != len(second):
        raise InvalidInput(
            f"{len(first)} values and {len(second)} groups: give one of each for every record"
        )
    return np.column_stack([first, second])


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
    within: tuple[float, float] = _DOUBLES,
) -> tuple[np.ndarray, float, float]:
    """Numbers (n,), NaN where a value is none, and the bounds; whoever holds them is told which lie
    outside. They are clipped where they are used."""
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
    column = listed(values)
    if _all_finite(column):
        records = np.asarray(column)
    else:
        records = numbers(column)
        warn_unread(np.isnan(records), "values", "finite numbers")
    warn_of_clipping(records, low, high, "values")
    return records, low, high


def _all_finite(column: Any) -> bool:
    """Whether these are finite doubles, which are read as they are, without a copy."""
    if not isinstance(column, np.ndarray) or column.dtype != np.float64:
        return False
    return bool(np.isfinite(column.min()) and np.isfinite(column.max()))  # NaN is both


__all__ = [
    "chi_square",
    "count",
    "fisher",
    "histogram",
    "mean",
    "median",
    "median_test",
    "open_ledger",
    "proportion_test",
    "quantile",
    "std",
    "t_test",
    "total",
    "variance",
]
