"""Counts, sums, means, spread and quantiles of one column."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from unisono.algorithms import readings
from unisono.algorithms.estimates import Estimate, joined
from unisono.algorithms.readings import Sizes
from unisono.core.ledger import Ledger
from unisono.data import codes, listed
from unisono.errors import InvalidInput
from unisono.releases.exact_sums import BoundedRows, ColumnSums, CountedCells, MomentSums
from unisono.statistics.cells import (
    SINGLES,
    Given,
    Read,
    between_bounds,
    given_values,
    named,
    places_in,
    public_range,
    read_numbers,
    truths,
)
from unisono.statistics.release import Terms, released, surveyed, terms_of

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
    terms = terms_of(name, epsilon, delta, ledger, confidence)
    given = given_values(condition, column, persons, records_per_person, ledger)
    if not given.listed:
        from unisono.algorithms import statistics as questions

        [answer] = surveyed(terms, questions.count(0, name=name), given, truths, nominal_rows)
        return answer
    flags = truths(given.cells)
    found = released(terms, CountedCells(1), np.where(flags == 1, 0, -1))
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
    title = f"sum of {named(name, column)}"
    terms = terms_of(title, epsilon, delta, ledger, confidence)
    given = given_values(values, column, persons, records_per_person, ledger, number=True)
    if not given.listed:
        from unisono.algorithms import statistics as questions

        low, high = public_range(bounds, within=SINGLES)
        question = questions.total(0, (low, high), name=title)
        [answer] = surveyed(terms, question, given, between_bounds(low, high), nominal_rows)
        return answer
    records, low, high = read_numbers(given.cells, bounds)
    bound = ColumnSums(max(abs(low), abs(high)))
    rows = BoundedRows(records, (low, high))
    found = released(terms, bound, rows, bounds=[low, high])
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
    complete: bool = False,
) -> Estimate:
    """The average of values, each clipped to public bounds.

    Values are centered first, so the noise is in proportion to half the range. A missing value, or
    one that cannot be read, does not count: how many are there is released in the same event and
    divides the sum, and the interval includes its noise. With `complete=True` you declare, from
    public knowledge, that none is missing: then the public number of records divides (replace-one,
    zero-out), and a value that is missing nevertheless counts as the center of the bounds. With a
    `delta` and replace-one the squares are released too, at no privacy cost, and the answer has two
    intervals: for these records, and for the population they were drawn from.
    """
    name = named(name, column)
    terms = terms_of(f"mean of {name}", epsilon, delta, ledger, confidence)
    given = given_values(values, column, persons, records_per_person, ledger, number=True)
    if not given.listed:
        return _moment("mean", given, bounds, terms, name, nominal_rows, complete)
    counted = terms.hidden or not complete
    records, low, high = read_numbers(given.cells, bounds, True, not counted)
    centre, half = low / 2 + high / 2, high / 2 - low / 2
    # Squares cost nothing under Gaussian noise and replace-one, and more elsewhere.
    sizes = Sizes.of(terms.privacy)
    spread = sizes.replaced and not terms.privacy.pure
    bound = MomentSums(half, squares=spread, presence=sizes.weight if counted else 0.0)
    found = released(terms, bound, BoundedRows(records, (low, high), centre), bounds=[low, high])
    # On the scale of `read_moments`: records, and the sum of u = (x - centre) / reach.
    one, reach = bound.scales(found.step)
    scaled, rounded = found.total / reach, found.step / 2 / reach
    if counted:
        scaled[0] = found.total[0] / one
    most = float(found.records)
    if terms.hidden:
        most = max(scaled[0] + found.noisy(scaled, 1 / one).margin(0, 1 - confidence, 2), 0.0)
    # Squares are rounded, and made of rounded values: √2 |u² - u'²| <= 2√2 |u - u'|.
    rounding = (*[0.0] * counted, most * rounded, *[4 * most * rounded] * spread)
    noisy = found.noisy(scaled, 1 / reach, rounding, one / reach if counted else 1.0)
    asked = (name, (), centre, reach, ("mean",), counted, spread)
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
    terms = terms_of(name, epsilon, delta, ledger, confidence)
    given = given_values(values, column, persons, records_per_person, ledger)
    if not given.listed:
        from unisono.algorithms import statistics as questions

        codes((), categories)  # refuses what are no categories
        question = questions.histogram(0, labels, name=name)
        [answer] = surveyed(terms, question, given, places_in(labels), nominal_rows)
        return answer
    places = codes(listed(given.cells), categories)
    cells = CountedCells(len(labels))
    found = released(terms, cells, places, categories=[str(one) for one in labels])
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
    complete: bool = False,
) -> Estimate:
    """The variance of the records, Σ (x - mean)² / n, each clipped to public bounds.

    A value that is missing, or cannot be read, does not count; see `mean` for `complete`. Where the
    number of records is hidden (add-or-remove), `nominal_rows` is a public upper limit of it.
    """
    name = named(name, column)
    terms = terms_of(f"variance of {name}", epsilon, delta, ledger, confidence)
    given = given_values(values, column, persons, records_per_person, ledger, number=True)
    return _moment("variance", given, bounds, terms, name, nominal_rows, complete)


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
    complete: bool = False,
) -> Estimate:
    """The standard deviation of the records: the root of their `variance`."""
    name = named(name, column)
    terms = terms_of(f"standard deviation of {name}", epsilon, delta, ledger, confidence)
    given = given_values(values, column, persons, records_per_person, ledger, number=True)
    return _moment("standard deviation", given, bounds, terms, name, nominal_rows, complete)


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
    complete: bool = False,
) -> Estimate:
    """The value that a share `level` of the records lies below; several levels cost what one does.

    All levels are read from one noisy tree of counts (`unisono.algorithms.quantiles`), and come as
    one estimate, an array with the levels as labels. Each interval, for these records and for the
    population they were drawn from, holds at `confidence` divided among them, so that all hold at
    once. Values outside the bounds count at their ends; one that is missing, or cannot be read,
    does not count, and levels are shares of the values that are there, or with `complete=True`
    (see `mean`) of all records. Where the number of records is hidden (add-or-remove),
    `nominal_rows` is a public upper limit of it.
    """
    from unisono.algorithms.quantiles import quantiles, tree_shape

    several = np.ndim(level) > 0
    levels = tuple(float(one) for one in np.ravel(np.asarray(level, float)))
    if not levels:
        raise InvalidInput("no level was asked for: give one between 0 and 1, as 0.5")
    if np.ndim(bounds) == 0:
        raise InvalidInput(
            f"level = {level!r} and bounds = {bounds!r}: bounds are two numbers; is it quantile("
            "values, level, bounds), with a level between 0 and 1 first?"
        )
    low, high = public_range(bounds, within=SINGLES)
    name = named(name, column)
    title = f"median of {name}" if levels == (0.5,) else f"quantiles of {name}"
    terms = terms_of(title, epsilon, delta, ledger, confidence)
    given = given_values(values, column, persons, records_per_person, ledger, number=True)
    question = quantiles(0, (low, high), levels, name=name, **tree_shape(terms.privacy.pure))
    question, read = _counted(question, terms, complete, low, high)
    found = surveyed(terms, question, given, read, nominal_rows, numbers=len(levels))
    if not several:
        return found[0]
    note = (
        "the shares of the records that lie below, read from one noisy tree of counts; values "
        "outside the range count at its ends."
    )
    return joined(title, tuple(f"{one:g}" for one in levels), found, confidence, note)


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
    complete: bool = False,
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
        complete=complete,
    )


# ------------------------------------------------------------------ pieces


def _moment(
    word: str,
    given: Given,
    bounds: tuple[float, float],
    terms: Terms,
    name: str,
    nominal_rows: int | None,
    complete: bool,
) -> Estimate:
    from unisono.algorithms import statistics as questions

    low, high = public_range(bounds, within=SINGLES)
    spread = word != "mean" or not terms.privacy.pure
    question = questions.mean(0, (low, high), name=name, wanted=(word,), spread=spread)
    question, read = _counted(question, terms, complete, low, high)
    [found] = surveyed(terms, question, given, read, nominal_rows)
    return found


def _counted(
    question: Any, terms: Terms, complete: bool, low: float, high: float
) -> tuple[Any, Read]:
    """The question about the values that are there, unless none can be missing; and how each is
    read."""
    counted = not (complete or terms.hidden)
    made = question.counting(Sizes.of(terms.privacy)) if counted else question
    return made, between_bounds(low, high, complete and not terms.hidden)
