"""Two groups, or two categories, compared: tests and the intervals that belong to them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unisono.algorithms.estimates import Estimate
from unisono.core.ledger import Ledger
from unisono.data import codes, listed
from unisono.errors import InvalidInput
from unisono.statistics.cells import (
    SINGLES,
    clean_numbers,
    public_range,
    require_number_type,
    truths,
)
from unisono.statistics.release import Terms, asked_of, terms_of


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

    flags = truths(condition)
    by, places = _grouped(groups, between, "between")
    question = difference_of_proportions(0, by, name=name)
    terms = terms_of(f"proportion test of {name}", epsilon, delta, ledger, confidence)
    return _compared(terms, question, flags, places, nominal_rows)


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

    terms = terms_of(f"chi-square of {name}", epsilon, delta, ledger, confidence)
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

    terms = terms_of(f"Fisher's test of {name}", epsilon, delta, ledger, confidence)
    return _tabled(comparisons.fisher, first, second, categories, terms, name, nominal_rows)


# ------------------------------------------------------------------ pieces


def _compared(
    terms: Terms, question: Any, first: np.ndarray, second: np.ndarray, nominal_rows: int | None
) -> Estimate:
    """The answer about records of two columns."""
    rows = _side_by_side(first, second).astype(np.float32)
    [found] = asked_of(terms, question, len(rows), (rows,), nominal_rows, features=2)
    return found


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
    low, high = public_range(bounds, within=SINGLES)
    require_number_type(values, None)
    by, places = _grouped(groups, between, "between")
    question = test(0, (low, high), by, name=name)
    numbers = np.clip(clean_numbers(values, low, high), low, high)
    return _compared(terms_of(f"{what} of {name}", **paid), question, numbers, places, nominal_rows)


def _tabled(
    test: Callable[..., Any],
    first: Any,
    second: Any,
    categories: tuple[Sequence[Any], Sequence[Any]],
    terms: Terms,
    name: str,
    nominal_rows: int | None,
) -> Estimate:
    (rows, row_places), (columns, column_places) = (
        _grouped(own, names, "categories", place)
        for place, (own, names) in enumerate(zip((first, second), categories, strict=True))
    )
    question = test(rows, columns, name=name)
    return _compared(terms, question, row_places, column_places, nominal_rows)


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
