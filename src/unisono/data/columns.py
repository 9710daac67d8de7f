"""Columns as they are declared, all of it public; each kind reads its cells and makes features.

    kind          cells                        read as             features of a model
    number        2.5, 1e3                     itself              itself, or its log1p, root,
                                                                   power, bins or spline
    category      listed values                its place           0 and 1 for each but the first
    ordinal       listed values, in order      its place           its place, one number
    true-false    true, yes, t, y, 1, ...      0 or 1              0 or 1
    date          2024-03-01, or a format      years, or an age    year, month, weekday, hour

A cell that is none of these is missing, and the declaration says what becomes of it:

    missing = "drop record"   the record is a zero row in every model, and counts in no statistic of
                              the column; this is what happens where nothing is declared
    missing = "category"      a value of its own (categories, true-false)
    missing = "indicator"     numbers and dates: a further feature of 0 and 1, and `fill`, a public
                              value, in the place of the number
    missing = VALUE           a public constant; never a mean or median of records, which would be
                              a release

How many values are there is therefore released with each answer, unless `complete = true` declares
that every record has one. A cell that holds one of the `missing_codes`, such as 999, -9 or
31.12.9999 of a codebook, is missing, whatever it would be otherwise. Undeclared, such a number is
clipped to the bounds like any other.

Whatever is made of a record is made of that record alone and of what is written here.
"""

import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, PrivateAttr, field_validator, model_validator

from unisono.core.config import AddedLater, Config
from unisono.data.cells import as_text, blanks, codes, dates, numbers, truths, uncoded
from unisono.data.spelling import among, identities
from unisono.errors import InvalidInput

DROP: Literal["drop record"] = "drop record"
MISSING, OTHER = "(missing)", "(other)"
PRIVATE: Literal["private"] = "private"
_UNKNOWN, _NOT_FOUND = "(to be found {})", "(not found {})"
WIDEST = 2.0**40  # numbers of columns without bounds are looked at up to here
_DAYS_A_YEAR, _EPOCH_YEAR = 365.2425, 1970.0
_SECONDS = 86_400
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = tuple(datetime.date(2000, month, 1).strftime("%B") for month in range(1, 13))
_HOURS = tuple(f"{hour:02}" for hour in range(24))


# Cells that stand for a missing value, by their text or their number.
MissingCodes = Annotated[
    tuple[int | float | str, ...],
    Field(description="Cells that say that a value is missing, as 999 or -9."),
    AddedLater,
]


class Feature(NamedTuple):
    """One number that a model learns from, with its public range; `centre` is where models put its
    zero, where that is known too. An `indicator` is 0 or 1, and `reference` is what 0 means, where
    that is one value."""

    name: str
    low: float
    high: float
    centre: float | None = None
    indicator: bool = False
    reference: str = ""

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high


# ------------------------------------------------------------- what every kind can do


class ColumnKind(Config):
    """What every kind of column says of itself. `read` gives float64 (n,), NaN for what is missing;
    `features` and `encoded` what a model learns from: names and ranges (k,), and numbers (n, k)."""

    numeric: ClassVar[bool] = False

    complete: Annotated[bool, AddedLater] = Field(
        False,
        description="Every record has a value, by public knowledge: then the number of values is "
        "not released, and answers are divided by the number of records.",
    )

    @model_validator(mode="after")
    def _completeness_fits(self) -> "ColumnKind":
        if self.complete and (getattr(self, "missing", None) is not None or self._codes):
            raise InvalidInput(
                "complete = true, but missing or missing_codes are declared: a complete column has "
                "no missing values; keep one of them"
            )
        return self

    @model_validator(mode="after")
    def _codes_fit(self) -> "ColumnKind":
        texts = [as_text(code) for code in self._codes]
        if None in texts or len(set(texts)) < len(texts):
            raise InvalidInput(f"missing_codes = {list(self._codes)}: name each once, none empty")
        for code in self._codes:
            self._require_no_value(code)
        return self

    def _require_no_value(self, code: Any) -> None:
        """Refuse a code for what is missing that is a listed value."""
        listed = getattr(self, "values", ())
        if listed and isinstance(listed, tuple) and codes([code], listed)[0] >= 0:
            raise InvalidInput(
                f"missing_codes: {code!r} is one of the values {', '.join(listed)}, too; leave "
                "it out of one of them"
            )

    @property
    def wanted(self) -> str:
        """What its cells hold, in words."""
        raise NotImplementedError

    def read(self, cells: Iterable[Any], decimal: str = ".") -> np.ndarray:
        return self._read(self.uncoded(cells, decimal), decimal)

    def uncoded(self, cells: Iterable[Any], decimal: str = ".") -> Iterable[Any]:
        """Cells, those that hold a code for what is missing being empty. The `decimal` mark is one
        of numbers: listed values, and codes among them, are known without it."""
        return uncoded(cells, self._codes, decimal if self.numeric else ".")

    def coded(self, cells: Sequence[Any] | np.ndarray, decimal: str = ".") -> np.ndarray:
        """Which cells are empty by a code alone: bool (n,)."""
        return blanks(self.uncoded(cells, decimal)) & ~blanks(cells)

    @property
    def _codes(self) -> tuple[Any, ...]:
        return getattr(self, "missing_codes", ())

    def _read(self, cells: Iterable[Any], decimal: str) -> np.ndarray:
        raise NotImplementedError

    def features(self, name: str) -> tuple[Feature, ...]:
        raise NotImplementedError

    def encoded(self, values: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    @property
    def even(self) -> np.ndarray:
        """Values that are even over all that may occur; nobody's records."""
        raise NotImplementedError

    @property
    def drops(self) -> bool:
        """Whether a record that misses it teaches a model nothing."""
        return getattr(self, "missing", None) in (None, DROP)

    @property
    def incomplete(self) -> bool:
        """Whether values may be missing, so that whatever is divided by their number is divided by
        a released one."""
        missing = getattr(self, "missing", None)
        return not self.complete and missing in (None, DROP, "indicator")

    @property
    def fill_words(self) -> str | None:
        """The public value that takes the place of a missing one, where one does, in words."""
        missing = getattr(self, "missing", None)
        if missing == "indicator":
            return f"{as_text(getattr(self, 'fill', None))} (with an indicator)"
        if missing in (None, DROP):
            return None
        return MISSING if missing == "category" else as_text(missing)

    @property
    def mean_square(self) -> float:
        """E|u|² of its scaled features, where numbers are even over their ranges and values alike
        often."""
        return 1 / 3


class NumericColumn(ColumnKind):
    """A column of numbers in public bounds, whatever they are written as."""

    numeric: ClassVar[bool] = True

    @property
    def span(self) -> tuple[float, float]:
        """The public lowest and highest number."""
        raise NotImplementedError

    @property
    def step(self) -> float | None:
        """What its values are whole multiples of, where they are."""
        return None

    @property
    def even(self) -> np.ndarray:
        low, high = self.span
        return low + (high - low) * (np.arange(256) + 0.5) / 256

    def _flagged(self, name: str, features: tuple[Feature, ...]) -> tuple[Feature, ...]:
        flagged = getattr(self, "missing", None) == "indicator"
        return (
            (*features, Feature(f"{name}={MISSING}", 0.0, 1.0, indicator=True))
            if flagged
            else features
        )

    def _filled(self, values: np.ndarray, encode: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The features of each value, and whether it is missing, where that is one."""
        missing = np.isnan(values)
        if getattr(self, "missing", None) != "indicator":
            return np.where(missing[:, None], np.nan, encode(values))
        filled = np.where(missing, np.float64(self.stand_in or 0.0), values)
        return np.column_stack([encode(filled), missing])

    @property
    def stand_in(self) -> float | None:
        """The public number that stands in for a missing one, where one does."""
        raise NotImplementedError

    def _require_fill(self, fill: Any) -> None:
        """A public value goes with an indicator, and with nothing else."""
        flagged = getattr(self, "missing", None) == "indicator"
        if flagged and fill is None:
            raise InvalidInput(
                'missing = "indicator" needs fill, the public value that stands in for a missing '
                "one: the indicator's coefficient compares records without a value with records at "
                "fill. Give a typical value from public knowledge, as fill = 60"
            )
        if fill is not None and not flagged:
            raise InvalidInput(
                f'fill = {fill!r} without missing = "indicator": write missing = "indicator", or '
                "leave fill out"
            )


class NamedColumn(ColumnKind):
    """A column of named values: places in `levels`, the values that are listed and those that
    stand for others and for missing ones."""

    @property
    def levels(self) -> tuple[str, ...]:
        raise NotImplementedError

    @property
    def wanted(self) -> str:
        listed = [level for level in self.levels if level not in (MISSING, OTHER)]
        return f"any of {', '.join(listed)}"

    @property
    def even(self) -> np.ndarray:
        return np.arange(len(self.levels), dtype=float)

    def features(self, name: str) -> tuple[Feature, ...]:
        first, *more = (f"{name}={level}" for level in self.levels)
        return tuple(Feature(one, 0.0, 1.0, indicator=True, reference=first) for one in more)

    def encoded(self, values: np.ndarray) -> np.ndarray:
        return _one_hot(values, len(self.levels))

    @property
    def mean_square(self) -> float:
        return 1 - 1 / len(self.levels)

    def _placed(self, places: np.ndarray, blank: np.ndarray) -> np.ndarray:
        """Places with what is declared of others and of missing values; NaN where nothing is.

        A cell without any text is missing; one with another text is another value, where others
        are declared, and missing too where they are not."""
        found = np.where(places < 0, np.nan, places.astype(float))
        if OTHER in self.levels:
            found = np.where((places < 0) & ~blank, self.levels.index(OTHER), found)
        missing = getattr(self, "missing", None)
        if missing == "category":
            found = np.where(np.isnan(found), self.levels.index(MISSING), found)
        elif missing not in (None, DROP):
            found = np.where(np.isnan(found), self.levels.index(str(missing)), found)
        return found


def _one_hot(values: np.ndarray, levels: int) -> np.ndarray:
    """0 and 1 for each place but the first (n, levels - 1); NaN stays NaN."""
    hot = (values[:, None] == np.arange(1, levels)).astype(float)
    return np.where(np.isnan(values)[:, None], np.nan, hot)


# ------------------------------------------------------------- numbers


class Number(NumericColumn):
    """A column of numbers; what lies outside the public bounds is clipped. `integer` numbers are
    added exactly in statistics. At most one of `transform`, `power`, `bins` and `knots` says how
    models see it; statistics are in its own unit."""

    kind: Literal["number"] = Field(description="A column of numbers.")
    bounds: tuple[float, float] | Literal["private"] = Field(
        description="The public lowest and highest value; values outside are clipped. Where nobody "
        "knows them: private, and a part of epsilon pays for a range that holds most records."
    )
    integer: bool = Field(False, description="Whole numbers, which statistics add exactly.")
    missing: Annotated[Literal["drop record", "indicator"] | float | None, AddedLater] = Field(
        None,
        description="What becomes of a cell that is no number: its record counts nowhere (drop "
        "record), a further feature says so (indicator), or this public number takes its place.",
    )
    fill: Annotated[float | None, AddedLater] = Field(
        None, description="The public number in the place of a missing one, with an indicator."
    )
    missing_codes: MissingCodes = ()
    transform: Annotated[Literal["log1p", "sqrt"] | None, AddedLater] = Field(
        None, description="How models see it: log(1 + x) or the square root."
    )
    power: Annotated[float | None, AddedLater] = Field(
        None, description="How models see it: x to this power."
    )
    bins: Annotated[tuple[float, ...] | None, AddedLater] = Field(
        None,
        description="How models see it: which of the ranges between these public edges it lies in.",
    )
    knots: Annotated[tuple[float, ...] | None, AddedLater] = Field(
        None,
        description="How models see it: a restricted cubic spline with these public knots, at "
        "least 3.",
    )

    _centre: float | None = PrivateAttr(default=None)

    @field_validator("bounds")
    @classmethod
    def _range(cls, bounds: tuple[float, float] | str) -> tuple[float, float] | str:
        return bounds if isinstance(bounds, str) else require_range(*bounds)

    @model_validator(mode="after")
    def _fits(self) -> "Number":
        low, high = self.span
        self._require_fill(self.fill)
        for name in ("missing", "fill"):
            value = getattr(self, name)
            if isinstance(value, float) and not low <= value <= high:
                raise InvalidInput(
                    f"{name} = {value:g} lies outside the bounds {low:g} to {high:g}: give a "
                    "public number within them"
                )
        said = [n for n in ("transform", "power", "bins", "knots") if getattr(self, n) is not None]
        if len(said) > 1:
            raise InvalidInput(f"{' and '.join(said)}: a number has one of them; keep one")
        if self.transform == "log1p" and low <= -1:
            raise InvalidInput(f'bounds from {low:g}: "log1p" needs numbers above -1')
        if self.transform == "sqrt" and low < 0:
            raise InvalidInput(f'bounds from {low:g}: "sqrt" needs numbers of at least 0')
        if self.power is not None and (not self.power or low < 0 or (self.power < 0 and low == 0)):
            raise InvalidInput(
                f"power = {self.power:g} with bounds from {low:g}: give a power that is not 0, and "
                "bounds from 0, or above it where the power is negative"
            )
        for name, least in (("bins", 1), ("knots", 3)):
            given = getattr(self, name)
            if given is None:
                continue
            if self.private:
                raise InvalidInput(
                    f'{name} with bounds = "private": where they lie is not known beforehand; '
                    f"declare public bounds, or leave {name} out"
                )
            inside = all(low < edge < high for edge in given)
            if len(given) < least or not inside or not all(a < b for a, b in pairwise(given)):
                raise InvalidInput(
                    f"{name} = {list(given)}: give at least {least}, rising, all between the "
                    f"bounds {low:g} and {high:g}"
                )
        return self

    def _read(self, cells: Iterable[Any], decimal: str) -> np.ndarray:
        found = numbers(cells, decimal)
        return found if not isinstance(self.missing, float) else _constant(found, self.missing)

    @property
    def private(self) -> bool:
        """Whether its range is to be found out, and paid for."""
        return self.bounds == "private"

    @property
    def released(self) -> bool:
        """Whether its range was found out, so that some records lie outside."""
        return self._centre is not None

    @property
    def span(self) -> tuple[float, float]:
        """The bounds; while they are not known, all numbers that are looked at."""
        if not isinstance(self.bounds, str):
            return self.bounds
        curved = self.transform is not None or self.power is not None
        return (0.0 if curved else -WIDEST), WIDEST

    def within(self, low: float, high: float, centre: float) -> "Number":
        """This column, once its range was released: bounds that are public from now on."""
        low, high = (float(np.clip(end, *self.span)) for end in (low, high))
        if not low < high:  # all of it outside of what the transform takes
            low, high = self.span[0], self.span[0] + 1.0
        given = {"missing": self.missing, "fill": self.fill}
        clipped = {n: float(np.clip(v, low, high)) for n, v in given.items() if type(v) is float}
        known = self.model_copy(update={"bounds": (low, high), **clipped})
        known._centre = min(max(centre, low), high)
        return known

    @property
    def stand_in(self) -> float | None:
        return self.missing if isinstance(self.missing, float) else self.fill

    @property
    def wanted(self) -> str:
        return "numbers"

    @property
    def step(self) -> float | None:
        return 1.0 if self.integer else None

    @property
    def edges(self) -> tuple[float, ...]:
        """The ends of all bins."""
        return (self.span[0], *(self.bins or ()), self.span[1])

    def features(self, name: str) -> tuple[Feature, ...]:
        if self.bins is not None:
            ranges = [f"{name}={a:g} to {b:g}" for a, b in pairwise(self.edges)]
            first, *more = ranges
            made = tuple(
                Feature(label, 0.0, 1.0, indicator=True, reference=first) for label in more
            )
        elif self.knots is not None:
            ends = self._seen(np.array(self.span))
            names = [name, *(f"{name} bend {n}" for n in range(1, len(self.knots) - 1))]
            made = tuple(map(Feature, names, map(float, ends[0]), map(float, ends[1])))
        else:
            low, high = sorted(map(float, self._seen(np.array(self.span))[:, 0]))
            centre = None if self._centre is None else float(self._curve(np.array(self._centre)))
            made = (Feature(self._title(name), low, high, centre),)
        return self._flagged(name, made)

    def encoded(self, values: np.ndarray) -> np.ndarray:
        return self._filled(np.clip(values, *self.span), self._seen)

    def _seen(self, values: np.ndarray) -> np.ndarray:
        """What models see of numbers within the bounds (n,): (n, k)."""
        if self.bins is not None:
            places = np.searchsorted(self.bins, values, side="right").astype(float)
            return _one_hot(np.where(np.isnan(values), np.nan, places), len(self.bins) + 1)
        if self.knots is not None:
            return restricted_cubic(values, self.knots)
        return self._curve(values)[:, None]

    def _curve(self, values: np.ndarray) -> np.ndarray:
        if self.transform == "log1p":
            return np.log1p(values)
        if self.transform == "sqrt":
            return np.sqrt(values)
        return values if self.power is None else values**self.power

    def _title(self, name: str) -> str:
        if self.transform is not None:
            return f"{self.transform}({name})"
        return name if self.power is None else f"{name}^{self.power:g}"

    @property
    def mean_square(self) -> float:
        if self.bins is not None:
            return 1 - 1 / (len(self.bins) + 1)
        return (len(self.knots) - 1 if self.knots else 1) / 3


def restricted_cubic(values: np.ndarray, knots: tuple[float, ...]) -> np.ndarray:
    """x and k - 2 bends of a restricted cubic spline, linear beyond the outer knots (n, k - 1).

    With t the knots, bend j is [(x - t_j)³₊ - (x - t_{k-1})³₊ (t_k - t_j) / (t_k - t_{k-1})
    + (x - t_k)³₊ (t_{k-1} - t_j) / (t_k - t_{k-1})] / (t_k - t_1)² (Harrell 2015, 2.4.5). It never
    falls, so that its range lies between its values at the bounds.
    """
    *inner, before, last = knots
    width = (last - knots[0]) ** 2

    def cube(knot: float) -> np.ndarray:
        return np.maximum(values - knot, 0.0) ** 3

    bends = [
        (
            cube(knot)
            - cube(before) * (last - knot) / (last - before)
            + cube(last) * (before - knot) / (last - before)
        )
        / width
        for knot in inner
    ]
    return np.column_stack([values, *bends])


# ------------------------------------------------------------- named values


class Category(NamedColumn):
    """A column of named values, all of them public. `other` stands for all that are not listed.

    Where nobody has a list, values are "private": a part of epsilon finds the most frequent ones.
    Until then each is read as a number that stands for it (`spelling.identity`), and has its place
    afterwards (`placed`)."""

    kind: Literal["category"] = Field(description="A column of named values.")
    values: Annotated[tuple[str, ...], Field(min_length=2)] | Literal["private"] = Field(
        description="All values that occur, in an agreed order; the first is the reference. Where "
        "nobody has a list: private, and a part of epsilon finds the most frequent ones.",
    )
    number: Annotated[int | None, AddedLater] = Field(
        None,
        ge=2,
        le=100,
        description="How many values there are, where they are private; left out: 2.",
    )
    candidates: Annotated[tuple[str, ...], AddedLater] = Field(
        (),
        description="Values that may be expected, where they are private: they are found in fewer "
        "records than others.",
    )
    other: Annotated[bool, AddedLater] = Field(
        False,
        description="Whether values that are not listed count as one of their own, or as missing.",
    )
    missing: Annotated[str | None, AddedLater] = Field(
        None,
        description="What becomes of an empty cell: its record counts nowhere (drop record), it is "
        "a value of its own (category), or this one of the values takes its place.",
    )
    missing_codes: MissingCodes = ()

    @model_validator(mode="after")
    def _fits(self) -> "Category":
        for name in ("number", "candidates"):
            if getattr(self, name) and not self.private:
                raise InvalidInput(
                    f'{name} with a list of values: it belongs to values = "private"; leave it out'
                )
        if not isinstance(self.values, str):
            require_distinct(self.values)
        require_distinct(self.candidates)
        require_known(self.missing, () if isinstance(self.values, str) else self.values)
        return self

    @property
    def private(self) -> bool:
        """Whether its values are to be found out, and paid for."""
        return self.values == PRIVATE

    @property
    def most(self) -> int:
        """How many values are to be found, at most."""
        return 2 if self.number is None else self.number

    def listing(self, names: tuple[str, ...]) -> "Category":
        """This column, once its values were released: a list that is public from now on. Where
        fewer were found than there should be, places stay empty, so that as many are there."""
        listed = (*names, *map(_NOT_FOUND.format, range(len(names) + 1, self.most + 1)))
        known = {"values": listed, "number": None, "candidates": ()}
        return self.model_copy(update=known)

    @property
    def levels(self) -> tuple[str, ...]:
        listed = self.values
        if isinstance(listed, str):
            listed = tuple(map(_UNKNOWN.format, range(1, self.most + 1)))
        more = (OTHER,) if self.other else ()
        return (*listed, *more, *((MISSING,) if self.missing == "category" else ()))

    @property
    def wanted(self) -> str:
        return "any text" if self.private else super().wanted

    def _read(self, cells: Iterable[Any], decimal: str) -> np.ndarray:
        if isinstance(self.values, str):
            return identities(cells)
        cells = list(cells) if not isinstance(cells, np.ndarray) else cells
        return self._placed(codes(cells, self.values), blanks(cells))

    def placed(self, found: np.ndarray) -> np.ndarray:
        """Places of values that were read before they were listed (n,)."""
        return self._placed(among(found, self.values), np.isnan(found))


class Ordinal(NamedColumn):
    """A column of named values in an order, as stages of a disease: one number for models, values
    for statistics."""

    kind: Literal["ordinal"] = Field(description="A column of named values in an order.")
    values: tuple[str, ...] = Field(min_length=2, description="All values, from low to high.")
    missing: Annotated[str | None, AddedLater] = Field(
        None,
        description="What becomes of an empty cell: drop record, or one of the values instead.",
    )
    missing_codes: MissingCodes = ()

    @model_validator(mode="after")
    def _fits(self) -> "Ordinal":
        require_distinct(self.values)
        if self.missing == "category":
            raise InvalidInput(
                'missing = "category": a missing value has no place in an order; use "drop '
                'record", one of the values, or kind = "category"'
            )
        require_known(self.missing, self.values)
        return self

    @property
    def levels(self) -> tuple[str, ...]:
        return self.values

    def _read(self, cells: Iterable[Any], decimal: str) -> np.ndarray:
        cells = list(cells) if not isinstance(cells, np.ndarray) else cells
        return self._placed(codes(cells, self.values), blanks(cells))

    def features(self, name: str) -> tuple[Feature, ...]:
        return (Feature(name, 0.0, len(self.values) - 1.0),)

    def encoded(self, values: np.ndarray) -> np.ndarray:
        return values[:, None]

    @property
    def mean_square(self) -> float:
        return 1 / 3


class TrueFalse(NamedColumn):
    """A column of true and false, in the usual spellings."""

    kind: Literal["true-false"] = Field(description="A column of true and false.")
    missing: Annotated[Literal["drop record", "category"] | bool | None, AddedLater] = Field(
        None, description="What becomes of an empty cell: drop record, category, true or false."
    )
    missing_codes: MissingCodes = ()

    def _require_no_value(self, code: Any) -> None:
        if not math.isnan(truths([code])[0]):
            raise InvalidInput(
                f"missing_codes: {code!r} is read as true or false; leave it out, or declare a "
                "category"
            )

    @property
    def values(self) -> tuple[str, ...]:
        return ("false", "true")

    @property
    def wanted(self) -> str:
        return "true or false, yes or no, t or f, y or n, 1 or 0"

    @property
    def levels(self) -> tuple[str, ...]:
        return (*self.values, MISSING) if self.missing == "category" else self.values

    def features(self, name: str) -> tuple[Feature, ...]:
        first, *more = super().features(name)
        return (first._replace(name=name), *more)

    def _read(self, cells: Iterable[Any], decimal: str) -> np.ndarray:
        found = truths(cells)
        if isinstance(self.missing, bool):
            return _constant(found, float(self.missing))
        return self._placed(np.where(np.isnan(found), -1, found), np.isnan(found))


# ------------------------------------------------------------- dates


class Date(NumericColumn):
    """A column of dates or times, within public bounds: a number of years (2024.25 is the end of
    March 2024), or with `age_at` the age in years on that day. Models see any of its `parts`."""

    kind: Literal["date"] = Field(description="A column of dates, or of dates with times.")
    bounds: tuple[str, str] = Field(
        description="The public first and last day, as 2010-01-01; days outside are clipped."
    )
    format: str | None = Field(
        None, description='How it is written, as "%d.%m.%Y"; left out: ISO 8601, as 2024-03-01.'
    )
    age_at: str | None = Field(
        None, description="Count as age in years on this day, as from a date of birth."
    )
    parts: tuple[Literal["year", "month", "weekday", "hour"], ...] = Field(
        ("year",), min_length=1, description="What models see of it; the year is one number."
    )
    missing: Literal["drop record", "indicator"] | None = Field(
        None, description="What becomes of a cell that is no date: drop record, or indicator."
    )
    fill: Annotated[str | None, AddedLater] = Field(
        None, description="The public day in the place of a missing one, with an indicator."
    )
    missing_codes: MissingCodes = ()

    @model_validator(mode="after")
    def _fits(self) -> "Date":
        for name, text in (
            ("bounds", self.bounds[0]),
            ("bounds", self.bounds[1]),
            ("age_at", self.age_at),
            ("fill", self.fill),
        ):
            if text is not None and math.isnan(_day(text)):
                raise InvalidInput(f"{name}: {text!r} is no day: write it as 2024-03-01")
        require_range(_day(self.bounds[0]), _day(self.bounds[1]), self.bounds)
        if len(set(self.parts)) < len(self.parts):
            raise InvalidInput(f"parts = {list(self.parts)}: name each once")
        self._require_fill(self.fill)
        if self.fill is not None and not _day(self.bounds[0]) <= _day(self.fill) <= _day(
            self.bounds[1]
        ):
            raise InvalidInput(
                f"fill = {self.fill} lies outside the bounds {self.bounds[0]} to {self.bounds[1]}: "
                "give a public day within them"
            )
        return self

    @property
    def stand_in(self) -> float | None:
        return None if self.fill is None else float(self._years(np.array([_day(self.fill)]))[0])

    def uncoded(self, cells: Iterable[Any], decimal: str = ".") -> Iterable[Any]:
        """A code is also known by its day, however that is written."""
        cells = super().uncoded(cells, decimal)
        days = [_first_day(code, self.format) for code in self._codes]
        if not days:
            return cells
        gone = np.isin(dates(cells, self.format), [day for day in days if not math.isnan(day)])
        return [None if coded else cell for coded, cell in zip(gone, cells, strict=True)]

    def _read(self, cells: Iterable[Any], decimal: str) -> np.ndarray:
        return self._years(dates(cells, self.format))

    @property
    def wanted(self) -> str:
        return f"dates, as {self.format or 'ISO 8601'} writes them"

    def _years(self, days: np.ndarray) -> np.ndarray:
        """Days since 1970 as years, or as ages."""
        if self.age_at is None:
            return _EPOCH_YEAR + days / _DAYS_A_YEAR
        return (_day(self.age_at) - days) / _DAYS_A_YEAR

    @property
    def line(self) -> tuple[float, float]:
        """The number of the first day of 1970, and what each day adds to it."""
        [first] = self._years(np.zeros(1)).tolist()
        return first, (1 if self.age_at is None else -1) / _DAYS_A_YEAR

    def _seconds(self, years: np.ndarray) -> np.ndarray:
        """The other way: whole seconds since 1970, so that an hour begins in its hour."""
        if self.age_at is None:
            days = (years - _EPOCH_YEAR) * _DAYS_A_YEAR
        else:
            days = _day(self.age_at) - years * _DAYS_A_YEAR
        return np.floor(days * _SECONDS + 1e-3)  # years are known to some microseconds

    @property
    def span(self) -> tuple[float, float]:
        low, high = sorted(map(float, self._years(np.array([_day(end) for end in self.bounds]))))
        return low, high

    def features(self, name: str) -> tuple[Feature, ...]:
        made: list[Feature] = []
        for part in self.parts:
            if part == "year":
                made.append(Feature(name if self.age_at is None else f"age({name})", *self.span))
            else:
                first, *more = (f"{name}={one}" for one in _PARTS[part][0])
                made += [Feature(one, 0.0, 1.0, indicator=True, reference=first) for one in more]
        return self._flagged(name, tuple(made))

    def encoded(self, values: np.ndarray) -> np.ndarray:
        return self._filled(np.clip(values, *self.span), self._seen)

    def _seen(self, years: np.ndarray) -> np.ndarray:
        seconds = self._seconds(years)
        return np.column_stack(
            [
                years
                if part == "year"
                else _one_hot(_PARTS[part][1](seconds), len(_PARTS[part][0]))
                for part in self.parts
            ]
        )

    @property
    def mean_square(self) -> float:
        shares = (1 / 3 if part == "year" else 1 - 1 / len(_PARTS[part][0]) for part in self.parts)
        return sum(shares)


def _day(text: str) -> float:
    """A day of a declaration, in days since 1970; NaN where it is none."""
    return float(dates([text], None)[0])


def _first_day(code: Any, pattern: str | None) -> float:
    """The day that a code names, as cells are written, or else as bounds are; NaN for none."""
    written = float(dates([code], pattern)[0])
    return float(dates([code], None)[0]) if math.isnan(written) else written


def _month(seconds: np.ndarray) -> np.ndarray:
    known = np.where(np.isnan(seconds), 0.0, seconds).astype("datetime64[s]")
    months = known.astype("datetime64[M]").astype(np.int64) % 12
    return np.where(np.isnan(seconds), np.nan, months)


# The names of a part, and its place in them by seconds since 1970-01-01, which was a Thursday.
_PARTS: dict[str, tuple[tuple[str, ...], Callable[[np.ndarray], np.ndarray]]] = {
    "month": (_MONTHS, _month),
    "weekday": (_WEEKDAYS, lambda seconds: (seconds // _SECONDS + 3) % 7),
    "hour": (_HOURS, lambda seconds: seconds % _SECONDS // 3600),
}


# ------------------------------------------------------------- refusals


def _constant(values: np.ndarray, constant: float) -> np.ndarray:
    return np.where(np.isnan(values), constant, values)


def require_range(low: float, high: float, said: Any = None) -> tuple[float, float]:
    """Refuse bounds that are no range."""
    if not low < high:
        first, last = (f"{low:g}", f"{high:g}") if said is None else said
        raise InvalidInput(
            f"bounds {first} to {last} are no range: give the public lowest and highest value, "
            "never read from the data"
        )
    return low, high


def finite_range(given: Any) -> tuple[float, float] | None:
    """Two finite numbers that rise, or None of anything else.

    >>> finite_range((18, 100)), finite_range((9, 1)), finite_range("all")
    ((18.0, 100.0), None, None)
    """
    try:
        low, high = map(float, given)
    except (TypeError, ValueError):
        return None
    return (low, high) if -math.inf < low < high < math.inf else None


def range_given(name: str, given: Any) -> tuple[float, float]:
    """The bounds of a column in a mapping by name, or a refusal of what are none.

    >>> range_given("age", (18, 100))
    (18.0, 100.0)
    """
    found = finite_range(given)
    if found is None:
        raise InvalidInput(
            f"bounds of {name!r} are {given!r}: give two numbers, the public lowest and then the "
            "highest value, never read from the data"
        )
    return found


def require_distinct(values: tuple[str, ...]) -> None:
    spelled = {value.strip() for value in values}
    if len(spelled) < len(values) or not all(spelled):
        raise InvalidInput(f"values {', '.join(values)!r}: name each value once, none empty")
    for reserved in (MISSING, OTHER):
        if reserved in values:
            raise InvalidInput(
                f"values {', '.join(values)!r}: {reserved!r} is what other or missing values are "
                "called here; rename it"
            )


def require_known(missing: str | None, values: tuple[str, ...]) -> None:
    if missing not in (None, DROP, "category", *values):
        raise InvalidInput(
            f'missing = {missing!r}: say "drop record", "category", or one of {", ".join(values)}'
        )


AnyColumn = Annotated[Number | Category | Ordinal | TrueFalse | Date, Field(discriminator="kind")]

__all__ = [
    "MISSING",
    "OTHER",
    "WIDEST",
    "AnyColumn",
    "Category",
    "ColumnKind",
    "Date",
    "Feature",
    "NamedColumn",
    "Number",
    "NumericColumn",
    "Ordinal",
    "TrueFalse",
    "finite_range",
    "range_given",
    "restricted_cubic",
]
