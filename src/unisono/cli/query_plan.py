"""From what was asked on the command line to questions and the columns they need."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from unisono.algorithms import comparisons, statistics
from unisono.algorithms.quantiles import MAXIMUM, MINIMUM, quantiles, tree_shape
from unisono.algorithms.readings import Sizes
from unisono.algorithms.statistics import Groups, Question
from unisono.cli.conditions import Condition, parse_condition
from unisono.core.defaults import warn_of_clipping
from unisono.core.privacy import Privacy
from unisono.data import Bounds, RecordTable, as_number, still_divided
from unisono.data.cells import blanks, numbers, uncoded
from unisono.data.csv_file import USUAL, CsvDialect
from unisono.errors import InvalidInput


@dataclass(frozen=True)
class Asked:
    """The options of `unisono query` that name statistics, as they were typed."""

    counts: Sequence[str] = ()
    proportions: Sequence[str] = ()
    sums: Sequence[str] = ()
    means: Sequence[str] = ()
    variances: Sequence[str] = ()
    deviations: Sequence[str] = ()
    quantiles: Sequence[str] = ()
    medians: Sequence[str] = ()
    minima: Sequence[str] = ()
    maxima: Sequence[str] = ()
    histograms: Sequence[str] = ()
    tables: Sequence[str] = ()
    by: str | None = None
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    whole: Sequence[str] = ()
    multiline: bool = False
    complete: Sequence[str] = ()
    missing_codes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    dialect: CsvDialect = USUAL
    t_tests: Sequence[str] = ()
    median_tests: Sequence[str] = ()
    proportion_tests: Sequence[str] = ()
    chi_squares: Sequence[str] = ()
    fishers: Sequence[str] = ()
    between: str | None = None


@dataclass
class Inquiry:
    """Questions, and the number that every record gives for each column they use."""

    asked: Asked
    privacy: Privacy
    questions: list[Question] = field(default_factory=list)
    slots: dict[tuple[str, Any], int] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The columns of the files that are read."""
        named = []
        for kind, what in self.slots:
            name = what.column if kind == "condition" else what
            if name is not None:
                named.append(name)
        return list(dict.fromkeys(named))

    def features(self, table: RecordTable) -> np.ndarray:
        """One party's records as numbers, (rows, slots); NaN for what is missing."""
        columns, declared = [], {}
        for kind, what in self.slots:
            if kind == "condition":
                columns.append(what.holds(table))
            elif kind == "number":
                coded = self.asked.missing_codes.get(what, ())
                cells = uncoded(table.column(what), coded, table.decimal)
                own = numbers(cells, table.decimal)
                unread = np.isnan(own)
                if what not in self.asked.complete:
                    empty = unread & blanks(cells)
                    declared[what], unread = int(np.count_nonzero(empty)), unread & ~empty
                more = self._comma(table, what) if unread.all() else self._moved(what)
                table.warn_unread(unread, what, "numbers", more)
                if what in self.asked.bounds:
                    low, high = self.asked.bounds[what].pair
                    warn_of_clipping(own, low, high, f"values of {what!r} in {table.name}")
                # Bounds clip later; this keeps the largest doubles within single precision.
                columns.append(np.clip(own, -1e30, 1e30))
            else:
                columns.append(self._codes(table, what))
        table.tell_empty(declared)
        return np.column_stack(columns)

    def _codes(self, table: RecordTable, name: str) -> np.ndarray:
        """Places in the public list; whoever holds the others, which count nowhere, is told."""
        labels = self.asked.categories[name]
        found = table.codes(name, labels)
        table.warn_unread(found < 0, name, f"any of {', '.join(labels)}")
        return found

    def _comma(self, table: RecordTable, name: str) -> str:
        """What was perhaps meant by a column of which nothing can be read."""
        other = "," if table.decimal == "." else "."
        meant = np.isfinite(numbers(table.column(name), other)).any()
        return f"Some are numbers with --decimal {other} instead. " if meant else ""

    def _moved(self, name: str) -> str:
        """What values that are missing do to the answers, for whoever holds them."""
        asked = self.asked
        divided = name in {*_moments(asked), *_quantiles(asked), *asked.sums} and not asked.by
        return still_divided(f"--complete {name}") if divided and name in asked.complete else ""

    # ------------------------------------------------------------- slots

    def number(self, name: str) -> int:
        return self._slot("number", name)

    def condition(self, condition: Condition) -> int:
        return self._slot("condition", condition)

    def groups(self, name: str) -> Groups:
        if name not in self.asked.categories:
            raise InvalidInput(
                f"the categories of {name!r} must be public: name them with "
                f"--categories {name}=FIRST,SECOND"
            )
        return Groups(self._slot("category", name), self.asked.categories[name])

    def bounds(self, name: str) -> tuple[float, float]:
        if name not in self.asked.bounds:
            raise InvalidInput(
                f"the bounds of {name!r} are missing: say what everybody knows about it with "
                f"--bounds {name}=LOWEST:HIGHEST; they are never read from the data"
            )
        return self.asked.bounds[name].pair

    def counted(self, question: Question, name: str | None) -> Question:
        """The question about the values that are there, unless none can be missing."""
        known = name in self.asked.complete
        return question if known else question.counting(Sizes.of(self.privacy))

    def step(self, name: str) -> float | None:
        return 1.0 if name in self.asked.whole else None

    def _slot(self, kind: str, what: Any) -> int:
        return self.slots.setdefault((kind, what), len(self.slots))


def inquire(asked: Asked, privacy: Privacy) -> Inquiry:
    """Build all questions; the same column's moments and quantiles share one block each."""
    inquiry = Inquiry(asked, privacy)
    by = inquiry.groups(asked.by) if asked.by else None
    suffix = f" by {asked.by}" if asked.by else ""
    add = inquiry.questions.append
    for text in asked.counts:
        slot = inquiry.condition(parse_condition(text))
        add(statistics.count(slot, name=f"count of {text}{suffix}", by=by))
    for text in asked.proportions:
        slot = inquiry.condition(parse_condition(text))
        made = statistics.proportion(slot, name=f"proportion of {text}{suffix}", by=by)
        add(inquiry.counted(made, parse_condition(text).column))
    for name in asked.sums:
        made = statistics.total(
            inquiry.number(name),
            inquiry.bounds(name),
            name=f"sum of {name}{suffix}",
            step=inquiry.step(name),
            by=by,
        )
        add(inquiry.counted(made, name))
    for name, wanted in _moments(asked).items():
        spread = wanted != ("mean",) or not privacy.pure
        made = statistics.mean(
            inquiry.number(name),
            inquiry.bounds(name),
            name=f"{name}{suffix}",
            step=inquiry.step(name),
            by=by,
            wanted=wanted,
            spread=spread,
        )
        add(inquiry.counted(made, name))
    for name, levels in _quantiles(asked).items():
        made = quantiles(
            inquiry.number(name),
            inquiry.bounds(name),
            levels,
            name=f"{name}{suffix}",
            by=by,
            **tree_shape(privacy.pure),
        )
        add(inquiry.counted(made, name))
    for text in asked.histograms:
        add(_histogram(inquiry, text, by, suffix))
    for text in asked.tables:
        add(_table(inquiry, text))
    _add_tests(inquiry, by)
    if not inquiry.questions:
        raise InvalidInput(
            "nothing was asked: name a statistic, such as --mean age --bounds age=0:120"
        )
    numeric = [what for kind, what in inquiry.slots if kind == "number"]
    for option, names, known in (
        ("--complete", asked.complete, inquiry.columns),
        ("--missing-codes", asked.missing_codes, numeric),
    ):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise InvalidInput(
                f"{option} {unknown[0]}: nothing is asked about {unknown[0]!r} that this option "
                f"changes; columns it can name: {', '.join(sorted(known)) or 'none'}"
            )
    return inquiry


def _add_tests(inquiry: Inquiry, by: Groups | None) -> None:
    """Comparisons of two groups, and of two categories."""
    asked, add = inquiry.asked, inquiry.questions.append
    compared = [*asked.t_tests, *asked.median_tests, *asked.proportion_tests]
    if asked.between is not None and not compared:
        raise InvalidInput("--between says which groups a test compares, and no test was asked for")
    if compared:
        if by is None or asked.by is None:
            raise InvalidInput(
                f"a test of {compared[0]!r} compares groups: say whose with --by COLUMN and "
                "--categories COLUMN=FIRST,SECOND"
            )
        between = None if asked.between is None else _two_groups(asked.between)
        groups: dict[str, Any] = {"by_name": asked.by, "between": between}
        for names, test in (
            (asked.t_tests, comparisons.difference_of_means),
            (asked.median_tests, comparisons.difference_of_medians),
        ):
            for name in names:
                place, bounds = inquiry.number(name), inquiry.bounds(name)
                add(test(place, bounds, by, name=name, step=inquiry.step(name), **groups))
        for text in asked.proportion_tests:
            slot = inquiry.condition(parse_condition(text))
            add(comparisons.difference_of_proportions(slot, by, name=text, **groups))
    for option, texts, of in (
        ("--chi-square", asked.chi_squares, comparisons.chi_square),
        ("--fisher", asked.fishers, comparisons.fisher),
    ):
        for text in texts:
            first, second = _two_columns(option, text)
            add(of(inquiry.groups(first), inquiry.groups(second), name=f"{first} by {second}"))


def _two_groups(text: str) -> tuple[str, str]:
    names = [part.strip() for part in text.split(",")]
    if len(names) != 2 or not all(names):
        raise InvalidInput(f"--between {text!r}: write two groups of --by, as north,south")
    return names[0], names[1]


def _moments(asked: Asked) -> dict[str, tuple[str, ...]]:
    words = (
        ("mean", asked.means),
        ("variance", asked.variances),
        ("standard deviation", asked.deviations),
    )
    wanted: dict[str, tuple[str, ...]] = {}
    for word, names in words:
        for name in dict.fromkeys(names):
            wanted[name] = (*wanted.get(name, ()), word)
    return wanted


def _quantiles(asked: Asked) -> dict[str, tuple[float | str, ...]]:
    wanted: dict[str, tuple[float | str, ...]] = {}

    def want(name: str, level: float | str) -> None:
        wanted[name] = (*wanted.get(name, ()), level)

    for name in asked.minima:
        want(name, MINIMUM)
    for text in asked.quantiles:
        name, colon, level = text.rpartition(":")
        try:
            want(name if colon else text, float(level if colon else "nan"))
        except ValueError:
            raise InvalidInput(
                f"--quantile {text!r}: write COLUMN:LEVEL, as age:0.9 (0.5 is the median)"
            ) from None
    for name in asked.medians:
        want(name, 0.5)
    for name in asked.maxima:
        want(name, MAXIMUM)
    return wanted


def _histogram(inquiry: Inquiry, text: str, by: Groups | None, suffix: str) -> Question:
    name, colon, bins = text.rpartition(":")
    if not colon:
        groups = inquiry.groups(text)
        title = f"histogram of {text}{suffix}"
        return statistics.histogram(groups.column, groups.labels, name=title, by=by)
    if not (bins.isascii() and bins.isdecimal() and 1 <= int(bins) <= 10_000):
        raise InvalidInput(
            f"--histogram {text!r}: write COLUMN:BINS with 1 to 10000 bins of equal width, or a "
            "COLUMN with --categories"
        )
    low, high = inquiry.bounds(name)
    edges = np.linspace(low, high, int(bins) + 1)
    labels = tuple(f"{a:g} to {b:g}" for a, b in pairwise(edges))
    return statistics.histogram(
        inquiry.number(name), labels, edges=tuple(edges), name=f"histogram of {name}{suffix}", by=by
    )


def _table(inquiry: Inquiry, text: str) -> Question:
    names = _two_columns("--table", text)
    first, second = (inquiry.groups(name) for name in names)
    return statistics.contingency(first, second, name=f"{names[0]} by {names[1]}")


def _two_columns(option: str, text: str) -> tuple[str, str]:
    names = [part.strip() for part in text.split(",")]
    if len(names) != 2 or names[0] == names[1] or not all(names):
        raise InvalidInput(f"{option} {text!r}: write two columns, as population,disease")
    return names[0], names[1]


def parse_bounds(texts: Sequence[str]) -> dict[str, Bounds]:
    """`age=0:120` and so on.

    >>> parse_bounds(["age=0:120"])
    {'age': Bounds(low=0.0, high=120.0)}
    """
    return {name: Bounds.parse(rest) for name, rest in _pairs("--bounds", texts, "0:120")}


def parse_categories(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """`population=north,south` and so on.

    >>> parse_categories(["population=north, south"])
    {'population': ('north', 'south')}
    """
    found = {}
    for name, rest in _pairs("--categories", texts, "north,south"):
        labels = tuple(part.strip() for part in rest.split(","))
        if not all(labels) or len(set(labels)) != len(labels):
            raise InvalidInput(f"--categories {name}={rest}: name each category once, none empty")
        found[name] = labels
    return found


def parse_codes(texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """`health=-9,999` and so on.

    >>> parse_codes(["health=-9,999"])
    {'health': (-9.0, 999.0)}
    """
    found = {}
    for name, rest in _pairs("--missing-codes", texts, "-9,999"):
        found[name] = tuple(as_number(part) for part in rest.split(","))
        if any(map(math.isnan, found[name])):
            raise InvalidInput(
                f"--missing-codes {name}={rest}: write numbers with commas between them, as -9,999"
                "; words in a column of numbers are missing anyway"
            )
    return found


def parse_dialect(decimal: str, encoding: str) -> CsvDialect:
    """How CSV files are written; what stands between cells is what the header has.

    >>> parse_dialect(",", "latin-1").decimal
    ','
    """
    if decimal not in (".", ","):
        raise InvalidInput(f"--decimal {decimal!r}: the decimal mark is . or a comma")
    if encoding not in ("utf-8", "utf-16", "latin-1"):
        raise InvalidInput(f"--encoding {encoding!r}: choose utf-8, utf-16 or latin-1")
    return CsvDialect.model_validate({"decimal": decimal, "encoding": encoding})


def _pairs(option: str, texts: Sequence[str], example: str) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        name, sign, rest = text.partition("=")
        if not (name and sign and rest):
            raise InvalidInput(f"{option} {text!r}: write COLUMN={example}")
        pairs.append((name, rest))
    if len({name for name, _ in pairs}) != len(pairs):
        raise InvalidInput(f"{option} names a column twice: say it once")
    return pairs
