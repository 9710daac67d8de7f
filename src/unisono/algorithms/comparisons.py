"""Two groups or two categories compared: t test, medians, proportions, chi-square and Fisher.

Each builder returns a `Question` whose block is one that exists (`statistics`, `quantiles`), made
by group, and is asked with others in ONE release by a `Survey`. A record counts in its own group
alone, so that further groups cost nothing. What is read, and why it is valid under the noise, is
told in `hypothesis_tests`.

    difference of means         moments by group           Welch's t with noise
    difference of medians       a tree of counts by group  ranks of both groups, least over t
    difference of proportions   counts by group            z with noise, Newcombe's interval
    chi-square                  a contingency table        projected chi-square, Cramér's V
    fisher                      a 2x2 table                simulated with its margins, odds ratio

Every answer is an `Estimate` with a `HypothesisTest`: the difference, its interval for these
records and for the population behind them, a statistic, a p value and the part of the width that is
privacy. Where noise hides how many records a group has, nothing is determined, and it says so.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from unisono.algorithms import hypothesis_tests, statistics
from unisono.algorithms.estimates import Estimate, HypothesisTest
from unisono.algorithms.hypothesis_tests import Compared
from unisono.algorithms.quantiles import Tree, distribution, invert, quantiles, tree_of_group
from unisono.algorithms.readings import Noisy, noise_words
from unisono.algorithms.survey import Question
from unisono.algorithms.table_one import NumberVariable
from unisono.core.certificate import Certificate
from unisono.errors import InvalidInput
from unisono.problems.columns import Bounds, Groups, centre_of, require_bounds

Between = tuple[Any, Any]
_ROOT = math.sqrt(2.0)


def pair_of(labels: Sequence[Any], between: Between | None, name: str) -> tuple[int, int]:
    """Which two of the groups of `name` are compared: both where there are two.

    >>> pair_of(("drug", "placebo"), None, "arm"), pair_of(("a", "b", "c"), ("c", "a"), "arm")
    ((0, 1), (2, 0))
    """
    known = ", ".join(map(str, labels))
    if len(labels) < 2:
        raise InvalidInput(
            f"{name!r} has one group only, {known}: a comparison needs two; name another category"
        )
    if between is None and len(labels) > 2:
        raise InvalidInput(
            f"{name!r} has {len(labels)} groups, {known}: say with `between` which two are compared"
        )
    first, second = labels[:2] if between is None else between
    for one in (first, second):
        if one not in labels:
            raise InvalidInput(f"{one!r} is no group of {name!r}: there are {known}")
    if first == second:
        raise InvalidInput(f"{first!r} is compared with itself: name two groups of {name!r}")
    return list(labels).index(first), list(labels).index(second)


def require_table(first: Sequence[Any], second: Sequence[Any], square: bool, name: str) -> None:
    """Refuse a table in which nothing can depend on anything, or that Fisher's test is not of."""
    sizes = (len(first), len(second))
    if min(sizes) < 2:
        raise InvalidInput(
            f"{name}: a category with one value only depends on nothing; name another one"
        )
    if square and sizes != (2, 2):
        raise InvalidInput(
            f"{name}: Fisher's test is of two categories with two values each, and these have "
            f"{sizes[0]} and {sizes[1]}; ask for chi-square"
        )


# ------------------------------------------------------------------- questions


def difference_of_means(
    column: int,
    bounds: Bounds,
    by: Groups,
    *,
    name: str = "value",
    by_name: str = "groups",
    step: float | None = None,
    between: Between | None = None,
) -> Question:
    """Mean of the first group less that of the second, and Welch's t test that they are equal."""
    bounds = require_bounds(bounds, name)
    made = statistics.mean(column, bounds, name=name, step=step, by=by)
    pair = _Pair(f"difference of means of {name}", *_pair(by, between, by_name))
    return _asked(made, "difference of means", pair, partial(_read_means, pair, bounds, step))


def difference_of_medians(
    column: int,
    bounds: Bounds,
    by: Groups,
    *,
    name: str = "value",
    by_name: str = "groups",
    step: float | None = None,
    between: Between | None = None,
) -> Question:
    """Median of the first group less that of the second, and a test that they are equal; each group
    has a tree of counts of its own."""
    tree = NumberVariable(name, column, require_bounds(bounds, name), step).tree
    made = quantiles(
        column,
        (tree.low, tree.high),
        (0.5,),
        name=name,
        branching=tree.branching,
        depth=tree.levels,
        by=by,
    )
    pair = _Pair(f"difference of medians of {name}", *_pair(by, between, by_name))
    read = partial(_read_medians, pair, tree, len(by.labels))
    return _asked(made, "difference of medians", pair, read)


def difference_of_proportions(
    column: int,
    by: Groups,
    *,
    name: str = "proportion",
    by_name: str = "groups",
    between: Between | None = None,
) -> Question:
    """Share of records with 1 in `column`, of the first group less that of the second."""
    made = statistics.proportion(column, name=name, by=by)
    pair = _Pair(f"difference of proportions of {name}", *_pair(by, between, by_name))
    return _asked(made, "difference of proportions", pair, partial(_read_proportions, pair))


def chi_square(first: Groups, second: Groups, *, name: str = "table") -> Question:
    """Whether two categories are independent: Cramér's V, and a chi-square test."""
    return _table(first, second, name, square=False)


def fisher(first: Groups, second: Groups, *, name: str = "table") -> Question:
    """Whether two categories with two values each are independent: the odds ratio, and a test like
    Fisher's, by simulation."""
    return _table(first, second, name, square=True)


def _table(first: Groups, second: Groups, name: str, square: bool) -> Question:
    require_table(first.labels, second.labels, square, name)
    kind = "fisher" if square else "chi-square"
    made = statistics.contingency(first, second, name=name)
    read = partial(_read_table, name, first.labels, second.labels, square)
    return replace(made, read=read, settings=(*made.settings, ("test", kind)))


@dataclass(frozen=True)
class _Pair:
    """What is compared: a title, and which two of the groups, with their names."""

    title: str
    places: tuple[int, int]
    labels: tuple[Any, Any]

    @property
    def name(self) -> str:
        return f"{self.title}, {self.labels[0]} less {self.labels[1]}"


def _pair(
    by: Groups, between: Between | None, name: str
) -> tuple[tuple[int, int], tuple[Any, Any]]:
    places = pair_of(by.labels, between, name)
    return places, (by.labels[places[0]], by.labels[places[1]])


def _asked(made: Question, kind: str, pair: _Pair, read: Callable[..., Any]) -> Question:
    between = tuple(map(str, pair.labels))
    settings = (*made.settings, ("test", kind), ("between", between))
    return replace(made, name=pair.name, read=read, settings=settings)


# ------------------------------------------------------------------- readings


def _read_means(
    pair: _Pair,
    bounds: Bounds,
    step: float | None,
    noisy: Noisy,
    probability: float,
    certificate: Certificate,
) -> list[Estimate]:
    own = noisy.values[list(pair.places)]
    found = hypothesis_tests.compare_means(own, noisy.law, probability)
    hidden = _hidden(found, pair.labels)
    centre, half, _ = centre_of(*bounds, step)
    size, first, second = own.T
    size = np.maximum(size, 1.0)
    means = centre + half * np.clip(first / size, -1.0, 1.0)
    said = hidden or _sides(pair, means, size)
    note = f"{noise_words(noisy, half)} the sums; values outside the bounds were clipped first."
    if not hidden and (second / _ROOT + 0.75 * size - first**2 / size).sum() < 3 * noisy.law.std:
        note += " Noise hides the spread of the values: the column may as well be constant."
    # However the records were rounded, sums are off by no more than this.
    rounded = noisy.rounding[:2].sum() + np.abs(own).max() * noisy.precision
    found = _in_units(found, half, float((rounded / size).sum()))
    test = _Tested(pair.name, "the means are equal", "Welch's t", (-2 * half, 2 * half))
    return [test.answer(found, bool(hidden), f"{said} {note}", probability, certificate)]


def _read_medians(
    pair: _Pair,
    tree: Tree,
    groups: int,
    noisy: Noisy,
    probability: float,
    certificate: Certificate,
) -> list[Estimate]:
    trees = [tree_of_group(noisy, tree, groups, place).values[:, 0] for place in pair.places]
    found = hypothesis_tests.compare_medians(np.stack(trees), tree, noisy.law, probability)
    hidden = _hidden(found, pair.labels)
    below = [distribution(own, tree, None) for own in trees]
    medians = [invert(own, tree.edges, own[-1] / 2) for own in below]
    said = hidden or _sides(pair, medians, [own[-1] for own in below])
    note = f"{noise_words(noisy)} each count of both trees."
    span = tree.high - tree.low
    test = _Tested(pair.name, "the medians are equal", "z", (-span, span))
    return [test.answer(found, bool(hidden), f"{said} {note}", probability, certificate)]


def _read_proportions(
    pair: _Pair, noisy: Noisy, probability: float, certificate: Certificate
) -> list[Estimate]:
    counts = noisy.values[:, 0].reshape(-1, 2)[list(pair.places)]
    found = hypothesis_tests.compare_proportions(counts, noisy.law, probability)
    hidden = _hidden(found, pair.labels)
    size = np.maximum(counts.sum(axis=1), 1.0)
    said = hidden or _sides(pair, np.clip(counts[:, 1] / size, 0.0, 1.0), size)
    note = f"{said} {noise_words(noisy)} the counts."
    test = _Tested(pair.name, "the proportions are equal", "z", (-1.0, 1.0))
    return [test.answer(found, bool(hidden), note, probability, certificate)]


def _read_table(
    name: str,
    rows: tuple[Any, ...],
    columns: tuple[Any, ...],
    square: bool,
    noisy: Noisy,
    probability: float,
    certificate: Certificate,
) -> list[Estimate]:
    table = noisy.values[:, 0].reshape(len(rows), len(columns))
    law, whole = noisy.law, max(float(table.sum()), 1.0)
    note = f"{noise_words(noisy)} each of {table.size} counts, about {whole:.0f} in all."
    drowned = _drowned(table, law.std, rows, columns)
    if drowned:
        note += f" Noise hides whether there are any records with {drowned}."
    independent = "the categories are independent"
    if square:
        found = hypothesis_tests.fisher(table, law, probability)
        odds = f"odds of {columns[0]} in {rows[0]} divided by those in {rows[1]}"
        title = f"odds ratio of {name} ({odds})"
        test = _Tested(title, independent, "chi-square", (0.0, (2 * whole + 2) ** 2))
    else:
        found = hypothesis_tests.independence(table, law, probability)
        test = _Tested(f"Cramér's V of {name}", independent, "chi-square", (0.0, 1.0))
    hidden = not np.all(found.known)
    if hidden:
        note = (
            "Noise hides how many records there are in the table: expected counts drown in it. "
            f"Spend more, ask less at once, or use fewer categories. {note}"
        )
    return [test.answer(found, hidden, note, probability, certificate)]


def _drowned(
    table: np.ndarray, deviation: float, rows: tuple[Any, ...], columns: tuple[Any, ...]
) -> str:
    """Values of either category that may as well not occur."""
    found = []
    for labels, axis in ((rows, 1), (columns, 0)):
        noise = deviation * math.sqrt(table.shape[axis])
        margin = table.sum(axis=axis)
        found += [str(one) for one, n in zip(labels, margin, strict=True) if n < 2 * noise]
    return " or ".join(found)


def _sides(pair: _Pair, values: Iterable[float], sizes: Iterable[float]) -> str:
    """What each group is like."""
    said = [
        f"{label}: {value:.4g} in about {size:.0f} records"
        for label, value, size in zip(pair.labels, values, sizes, strict=True)
    ]
    return f"{'; '.join(said)}."


def _hidden(found: Compared, labels: Sequence[Any]) -> str:
    """Why nothing can be said, or nothing."""
    unknown = [str(one) for one, known in zip(labels, found.known, strict=True) if not known]
    if not unknown:
        return ""
    return (
        f"Noise hides how many records there are of {' and of '.join(unknown)}: there may be none. "
        "Spend more, ask less at once, or compare larger groups."
    )


def _in_units(found: Compared, factor: float, more: float) -> Compared:
    """In units of so much, and wider by `more` of the old ones."""
    own, interval = (
        (factor * (float(low) - more), factor * (float(high) + more))
        for low, high in (found.own, found.interval)
    )
    return found._replace(value=factor * float(found.value), own=own, interval=interval)


@dataclass(frozen=True)
class _Tested:
    """What is estimated and tested; `limits` of what is possible."""

    name: str
    hypothesis: str
    kind: str
    limits: tuple[float, float]

    def answer(
        self,
        found: Compared,
        hidden: bool,
        note: str,
        probability: float,
        certificate: Certificate,
    ) -> Estimate:
        """Within what is possible, the value inside its intervals; where sizes are `hidden`, that
        is all that can be said."""
        if hidden:
            return Estimate(
                self.name,
                sum(self.limits) / 2,
                self.limits,
                1 - probability,
                note,
                certificate,
                self.limits,
                determined=np.array([False]),
                test=HypothesisTest(self.hypothesis, self.kind, None, None, None, 1.0),
            )
        degrees = float(found.degrees)
        test = HypothesisTest(
            self.hypothesis,
            self.kind,
            float(found.statistic),
            degrees if math.isfinite(degrees) and self.kind != "z" else None,
            float(found.p_value),
            float(found.privacy_share),
        )
        value = float(np.clip(found.value, *self.limits))
        own, population = (
            (
                min(float(np.clip(low, *self.limits)), value),
                max(float(np.clip(high, *self.limits)), value),
            )
            for low, high in (found.own, found.interval)
        )
        return Estimate(
            self.name, value, own, 1 - probability, note, certificate, population, test=test
        )


__all__ = [
    "Between",
    "chi_square",
    "difference_of_means",
    "difference_of_medians",
    "difference_of_proportions",
    "fisher",
    "pair_of",
    "require_table",
]
