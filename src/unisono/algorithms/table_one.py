"""Table 1: who the records are about, by group and overall, in ONE release.

The first table of a clinical paper describes the people in it: for each column counts and shares,
mean (standard deviation), median [quartiles] and how many values are missing, in each group and
overall, and how far the groups are apart. Its blocks are those of a survey, each made by group:

    group sizes       a count in each group
    named column      a count of each level, and of what is missing
    numeric column    number, sum and sum of squares of the values that are there; a tree of counts

**Budget.** A block of sensitivity s that is given the part a of the budget has noise of standard
deviation in proportion to s / sqrt(a) (Gaussian) or s / a (Laplace). Its figures err by k times
that, k in standard deviations of the column, from public facts alone:

    group sizes       1                       relative to the size of a group
    named column      1 / sqrt(p (1 - p))     where the c levels are equally frequent, p = 1 / c
    mean              3                       where the public range is six standard deviations
    quantiles         3 sqrt(L b / 4)         likewise: a rank is about L b / 4 noisy nodes of a
                                              tree of L levels with b branches each

The sum of the squared errors is least where a is in proportion to k s (Gaussian) or to (k s)^(2/3)
(Laplace). A column's `weight` multiplies its part.

**Overall** figures are sums over the groups: no budget is spent on them. A record without a group
counts nowhere. Sizes of groups are also the sums of the counts of a named column in which every
record has a level, `(missing)` being one: under Gaussian noise all of them are averaged.

Where the number n of all records is public, it is printed as it is. If every record has a group as
well, n is the sum of the groups' sizes: what they lack of it is spread over them, which leaves
sqrt(1 - 1/g) of their noise in g groups (the projection on sizes of sum n), and what is missing
overall is n less a count. Under Laplace noise, whose law that would change, sizes stay as they are.

**Intervals** hold for each figure by itself, for these records. A ratio R = T / N of noisy sums is
tested as Fieller (1954) does: T - R N has noise whose law is known for every R, so that no normal
approximation is needed and small N do no harm. A variance v with mean m is tested the same way
through the sum of (u - m)² - v, for every m in the interval of the mean, at half of the error
probability each. Standardised differences (Austin 2009; Yang and Dalton 2012 for several levels)
are lengths |z|; since a length moves by no more than z does, |z| ± the quantile of |z* - z| over
simulated noise holds |z|.

A figure that the noise swamps is not determined, and says so in place of a number.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from unisono.algorithms import statistics
from unisono.algorithms.noise_law import NoiseLaw, simulated_noise
from unisono.algorithms.quantiles import Tree, quantiles, read_quantile, tree_of_group
from unisono.algorithms.readings import (
    Noisy,
    Sizes,
    mean_ends,
    read_blocks,
    variance_ends,
    weighted_tail,
)
from unisono.algorithms.survey import Question, Survey, unpack
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Relation
from unisono.data.columns import MISSING
from unisono.errors import InvalidInput
from unisono.problems.columns import Groups, centre_of

QUARTILES = (0.25, 0.5, 0.75)
_ROOT = math.sqrt(2.0)
_DRAWS = 2000  # of noise, for standardised differences
_LEAVES = (10, 3)  # branching and levels: noise is in proportion to levels * sqrt(branching)
_TWO_LEVELS = 256


# ------------------------------------------------------------------- what is asked


@dataclass(frozen=True)
class NumberVariable:
    """A numeric column: which of its summaries are wanted, and whether values may be missing."""

    name: str
    slot: int
    bounds: tuple[float, float]
    step: float | None = None
    mean: bool = True
    median: bool = True
    incomplete: bool = False

    @property
    def tree(self) -> Tree:
        """A thousandth of the range in three levels; of whole numbers each its own leaf, in two
        levels where that is enough, so that quantiles are whole."""
        low, high = self.bounds
        if self.step is None:
            return Tree(low, high, *_LEAVES)
        values = math.floor((high - low) / self.step + 1e-9) + 1
        if values > _LEAVES[0] ** _LEAVES[1]:
            return Tree(low, high, *_LEAVES)
        levels = 2 if values <= _TWO_LEVELS else 3
        branching = max(2, math.ceil(values ** (1 / levels) - 1e-9))
        start = low - self.step / 2
        return Tree(start, start + self.step * branching**levels, branching, levels)

    def questions(self, by: Groups | None, sizes: Sizes) -> list[tuple[Question, float]]:
        """Each with k, how far its figures err for noise of deviation 1."""
        asked = []
        if self.mean or self.incomplete:
            wanted = ("mean", "standard deviation")
            made = statistics.mean(
                self.slot, self.bounds, name=self.name, step=self.step, by=by, wanted=wanted
            )
            # Where they are there to be counted alone, the size of a group is what they err in.
            made = made.counting(sizes) if self.incomplete else made
            asked.append((made, 3.0 if self.mean else 1.0))
        if self.median:
            tree = self.tree
            made = quantiles(
                self.slot,
                (tree.low, tree.high),
                QUARTILES,
                name=f"quantiles of {self.name}",
                branching=tree.branching,
                depth=tree.levels,
                by=by,
            )
            made = made.counting(sizes) if self.incomplete else made
            asked.append((made, 3.0 * math.sqrt(tree.levels * tree.branching / 4)))
        return asked


@dataclass(frozen=True)
class NamedVariable:
    """A column of named levels; the last one is `(missing)` where values may be missing."""

    name: str
    slot: int
    levels: tuple[str, ...]
    total: bool = False  # whether every record has one of the levels

    @property
    def known(self) -> tuple[str, ...]:
        return tuple(level for level in self.levels if level != MISSING)

    def questions(self, by: Groups | None, sizes: Sizes) -> list[tuple[Question, float]]:
        made = statistics.histogram(self.slot, self.levels, name=self.name, by=by)
        count = max(len(self.known), 2)
        return [(made, count / math.sqrt(count - 1))]


Variable = NumberVariable | NamedVariable


@dataclass(frozen=True)
class TableOne:
    """Variables, and the public groups whose sizes and figures are compared.

    Without groups the number of records is public, or counted: then the column `everyone` holds 1
    for each of them. `complete`: every record has a group.
    """

    variables: tuple[Variable, ...]
    by: Groups | None
    privacy: Privacy
    group_name: str | None = None
    weights: Mapping[str, float] | None = None
    everyone: int | None = None
    complete: bool = False

    def __post_init__(self) -> None:
        if not self.variables:
            raise InvalidInput("a table of no columns: name at least one besides the groups")

    @property
    def survey(self) -> Survey:
        """All questions, each with its part of the budget."""
        asked: list[Question] = []
        sizes = None
        if self.by is not None:
            sizes = statistics.histogram(self.by.column, self.by.labels, name="records")
        elif self.everyone is not None:
            sizes = statistics.count(self.everyone, name="records")
        if sizes is not None:
            asked.append(sizes.weighing(self._part(sizes, 1.0)))
        for variable in self.variables:
            weight = (self.weights or {}).get(variable.name, 1.0)
            for question, error in variable.questions(self.by, Sizes.of(self.privacy)):
                asked.append(question.weighing(weight * self._part(question, error)))
        return Survey(asked)

    def _part(self, question: Question, error: float) -> float:
        """In proportion to this; see the module."""
        block = question.build(Sizes())
        replaced = self.privacy.relation is Relation.REPLACE_ONE
        size = (block.swapped if replaced else block.taken).of(self.privacy.pure)
        return float((error * size) ** (2 / 3) if self.privacy.pure else error * size)

    @property
    def columns(self) -> tuple[str, ...]:
        """What figures are given for: everybody, and each group."""
        return ("Overall", *(() if self.by is None else map(str, self.by.labels)))

    def read(self, study: Study, result: Result, confidence: float = 0.95) -> dict[str, Any]:
        """The finished table as plain JSON, as `algorithms.table_layout` lays it out."""
        if not 0 < confidence < 1:
            raise InvalidInput(f"confidence = {confidence!r}: it lies between 0 and 1, as 0.95")
        opened = unpack(np.asarray(result.value))
        table = self.survey.table(study.facts)
        found = iter(read_blocks(table, study, opened.total, opened.survivors, opened.records))
        probability = 1 - confidence
        groups = 0 if self.by is None else len(self.by.labels)
        counted = groups or self.everyone is not None
        sizes = _Sums.of(next(found), groups) if counted else _Sums.public(opened.records)
        rows = []
        blocks_of = {
            v.name: [next(found) for _ in v.questions(self.by, Sizes())] for v in self.variables
        }
        if counted:
            whole = [v.name for v in self.variables if isinstance(v, NamedVariable) and v.total]
            sizes = sizes.better([_Sums.of(blocks_of[name][0], groups) for name in whole])
        public = bool(groups) and study.facts.exact_sizes
        if public and self.complete:
            sizes = sizes.adding_up_to(opened.records)
        for variable in self.variables:
            blocks = blocks_of[variable.name]
            if isinstance(variable, NumberVariable):
                rows.append(_read_number(variable, blocks, groups, sizes, probability))
            else:
                rows.append(_read_named(variable, blocks[0], groups, probability))
        records = [_shown(sizes.count(c, 0, probability)) for c in _columns(sizes)]
        if public:
            everybody = float(opened.records)
            records[0] = _shown(Figure(everybody, everybody, everybody))
        return {
            "by": self.group_name,
            "columns": list(self.columns),
            "records": records,
            **({"ungrouped": True} if public and not self.complete else {}),
            "rows": rows,
            "confidence": confidence,
        }

    def answers(
        self, study: Study, result: Result, confidence: float = 0.95
    ) -> list[tuple[dict[str, Any], float]]:
        """The figures of a table as answers of a survey, for plans: each with all of its columns,
        and the range that its error is compared with."""
        table = self.read(study, result, confidence)
        found = [("records", table["records"], float(sum(study.facts.records)))]
        for variable, row in zip(self.variables, table["rows"], strict=True):
            if isinstance(variable, NamedVariable):
                shares = [one for level in row["levels"] for one in level["share"]]
                found.append((f"shares of {variable.name}", shares, 1.0))
                continue
            width = variable.bounds[1] - variable.bounds[0]
            if variable.mean:
                found.append((f"mean of {variable.name}", row["mean"], width))
                title = f"standard deviation of {variable.name}"
                found.append((title, row["deviation"], width / 2))
            if variable.median:
                quartiles = [one for level in row["quantiles"] for one in level]
                found.append((f"quartiles of {variable.name}", quartiles, width))
        return [
            (
                {
                    "name": name,
                    "value": [one["value"] for one in figures],
                    "interval": [[one[end] for one in figures] for end in ("low", "high")],
                    "confidence": confidence,
                },
                width,
            )
            for name, figures, width in found
        ]


# ------------------------------------------------------------------- figures


@dataclass(frozen=True)
class Figure:
    """A number with its interval; not `determined` where noise swamps it."""

    value: float
    low: float
    high: float
    determined: bool = True

    def moved(self, factor: float, offset: float = 0.0) -> "Figure":
        """In other units; the factor is positive."""
        value, low, high = (factor * x + offset for x in (self.value, self.low, self.high))
        return replace(self, value=value, low=low, high=high)


def figure(
    value: float, ends: tuple[float, float], limits: tuple[float, float], known: bool = True
) -> Figure:
    """Within what is possible, the value inside its interval; not determined where the interval is
    more than half of all that is possible.

    >>> figure(-2.0, (-5.0, 1.0), (0.0, 10.0))
    Figure(value=0.0, low=0.0, high=1.0, determined=True)
    """
    low, high = (float(np.clip(end, *limits)) for end in ends)
    inside = float(np.clip(value, low, high))
    wide = math.isfinite(limits[1]) and high - low > (limits[1] - limits[0]) / 2
    return Figure(inside, low, high, known and not wide)


def _shown(one: Figure | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {"value": one.value, "low": one.low, "high": one.high, "determined": one.determined}


@dataclass(frozen=True)
class _Sums:
    """Noisy sums (columns, k): overall and of each group; the law of each one's noise."""

    values: np.ndarray
    laws: tuple[NoiseLaw | None, ...]  # None where a number is public
    rounding: np.ndarray
    public_size: bool = False  # whether the first number has no noise
    weight: float = 1.0  # how much less noise it has than the others, as in `Noisy`

    @staticmethod
    def of(noisy: Noisy, groups: int) -> "_Sums":
        """Overall figures are sums over the groups; without groups they are all there is."""
        cells = noisy.values.reshape(max(groups, 1), -1)
        # Rounding is bounded over all records, so it is the same for every group and for the sum.
        rounding = np.tile(noisy.rounding, cells.shape[1] // len(noisy.rounding))
        rounding = rounding + np.abs(cells).max() * noisy.precision
        if not groups:
            return _Sums(cells, (noisy.law,), rounding, weight=noisy.weight)
        laws = (noisy.law.summed(groups), *[noisy.law] * groups)
        whole = cells.sum(axis=0, keepdims=True)
        return _Sums(np.concatenate([whole, cells]), laws, rounding)

    @staticmethod
    def public(records: int) -> "_Sums":
        """A number of records that everybody knows."""
        return _Sums(np.array([[float(records)]]), (None,), np.zeros(1))

    def margin(self, column: int, weights: Sequence[Any], probability: float) -> Any:
        """How far a weighted sum of these numbers may be off, but for `probability`."""
        rounded = sum(abs(w) * r for w, r in zip(weights, self.rounding, strict=True))
        law = self.laws[column]
        if law is None:
            return rounded
        scaled = [np.asarray(weights[0]) / self.weight, *weights[1:]]
        return rounded + weighted_tail(law, scaled, probability)

    def count(self, column: int, place: int, probability: float) -> Figure:
        """One of the numbers as a count."""
        value = self.values[column, place]
        margin = self.margin(column, _unit(place, self.values.shape[1]), probability)
        return figure(value, (value - margin, value + margin), (0.0, math.inf))

    def better(self, others: Sequence["_Sums"]) -> "_Sums":
        """The same counts from further blocks too, whose levels every record has one of: averages
        with weights that are inverse to the variances. Of Gaussian noise alone, whose averages are
        of the same law."""
        law = self.laws[-1]
        if law is None or not law.gaussian or not others:
            return self
        totals = [self.values[:, 0], *(one.values.sum(axis=1) for one in others)]
        laws = [self.laws, *([one.summed(_width(o)) for one in o.laws if one] for o in others)]
        precision = np.array([own[-1].std ** -2 for own in laws if own[-1]])
        shares = precision / precision.sum()
        rounding = sum(
            share * one.rounding.sum() for share, one in zip(shares, [self, *others], strict=True)
        )
        smaller = math.sqrt(1 / precision.sum()) / law.std
        return _Sums(
            np.tensordot(shares, np.array(totals), 1)[:, None],
            tuple(one.scaled(smaller) for one in self.laws if one),
            np.array([rounding]),
        )

    def adding_up_to(self, records: int) -> "_Sums":
        """Sizes of groups whose sum is public: the nearest ones that add up to it."""
        law, groups = self.laws[-1], len(self.values) - 1
        if law is None or not law.gaussian:
            return self
        own = self.values[1:] + (records - self.values[1:].sum(axis=0)) / groups
        smaller = law.scaled(math.sqrt(1 - 1 / groups))
        whole = np.array([[float(records)]])
        return _Sums(np.concatenate([whole, own]), (None, *[smaller] * groups), self.rounding)

    def less(self, other: "_Sums", column: int, probability: float) -> Figure:
        """This count less that of `other`, as what is missing."""
        own, subtracted = self.laws[column], other.laws[column]
        only = _unit(0, other.values.shape[1])
        assert subtracted is not None
        if own is None:
            margin = other.margin(column, only, probability)
        else:  # two independent noises: half of the probability each, unless their law adds up
            margin = self.margin(column, [1.0], probability / 2)
            margin += other.margin(column, only, probability / 2)
            if own.gaussian:
                noise = math.hypot(own.std, subtracted.std / other.weight)
                sure = own.tail(probability) / own.std * noise
                rounded = float(self.rounding[0] + other.rounding[0])
                margin = min(margin, sure + own.step + subtracted.step + rounded)
        rest = self.values[column, 0] - other.values[column, 0]
        return figure(rest, (rest - margin, rest + margin), (0.0, math.inf))


def _width(sums: "_Sums") -> int:
    return int(sums.values.shape[1])


def _unit(place: int, length: int) -> list[float]:
    return [1.0 if k == place else 0.0 for k in range(length)]


# ------------------------------------------------------------------- numbers


def _read_number(
    variable: NumberVariable,
    blocks: Sequence[Noisy],
    groups: int,
    sizes: _Sums,
    probability: float,
) -> dict[str, Any]:
    left = list(blocks)
    row: dict[str, Any] = {"variable": variable.name, "kind": "number"}
    if variable.mean or variable.incomplete:
        sums = _moment_sums(left.pop(0), groups, variable.incomplete)
        if variable.incomplete:
            row["missing"] = [_shown(sizes.less(sums, c, probability)) for c in _columns(sums)]
        if variable.mean:
            centre, half, _ = centre_of(*variable.bounds, variable.step)
            found = [_moments(sums, c, probability) for c in _columns(sums)]
            row["mean"] = [_shown(mean.moved(half, centre)) for mean, _ in found]
            row["deviation"] = [_shown(deviation.moved(half)) for _, deviation in found]
            row["difference"] = _shown(_number_difference(sums, found, probability))
    if variable.median:
        row["whole"] = _whole_leaves(variable)
        row["quantiles"] = _quantile_figures(variable, left.pop(0), groups, probability)
    return row


def _moment_sums(noisy: Noisy, groups: int, counted: bool) -> _Sums:
    """Number, sum and sum of squares; the number may be public."""
    sums = _Sums.of(noisy, groups)
    if groups or counted or not noisy.exact_sizes:
        return sums
    known = np.array([[float(noisy.records), *sums.values[0]]])
    return _Sums(known, sums.laws, np.concatenate([[0.0], sums.rounding]), public_size=True)


def _moments(sums: _Sums, column: int, probability: float) -> tuple[Figure, Figure]:
    """Mean and standard deviation of u in [-1, 1], from N, S = Σ u and T = Σ √2 (u² - 3/4)."""
    size, first, second = sums.values[column]
    noisy = 0.0 if sums.public_size else 1.0
    if size <= 0:
        unknown = Figure(0.0, -1.0, 1.0, False)
        return unknown, Figure(0.5, 0.0, 1.0, False)

    one, two, size_of = np.array([first]), np.array([second]), np.array([size])

    def margin(weights: Sequence[Any], level: float) -> Any:
        return sums.margin(column, (noisy * weights[0], *weights[1:]), level)

    least, most = variance_ends(one, size_of, two, margin, probability)
    low, high = mean_ends(one, size_of, lambda far: margin((far, 1.0, 0.0), probability))
    centre = first / size
    value = math.sqrt(max(second / _ROOT / size + 0.75 - centre**2, 0.0))
    ends = (math.sqrt(least[0]), math.sqrt(most[0]))
    deviation = figure(value, ends, (0.0, 1.0), bool(least[0] > 0))
    return figure(centre, (low[0], high[0]), (-1.0, 1.0)), deviation


def _quantile_figures(
    variable: NumberVariable, noisy: Noisy, groups: int, probability: float
) -> list[list[dict[str, Any] | None]]:
    """For each quartile, of each column."""
    tree = variable.tree
    if groups:
        trees = [tree_of_group(noisy, tree, groups, group) for group in range(groups)]
        whole = replace(
            trees[0],
            values=np.sum([own.values for own in trees], axis=0),
            law=noisy.law.summed(groups),
        )
        trees.insert(0, whole)
    else:
        known = noisy.exact_sizes and not variable.incomplete
        trees = [replace(noisy, exact_sizes=known)]
    found = []
    for level in QUARTILES:
        read = [read_quantile(own, tree, level, probability) for own in trees]
        found.append([_shown(_quantile(variable, one.value, one.interval)) for one in read])
    return found


def _whole_leaves(variable: NumberVariable) -> bool:
    """Whether every leaf of its tree holds one value."""
    edges, step = variable.tree.edges, variable.step
    return step is not None and math.isclose(edges[1] - edges[0], step, rel_tol=1e-6)


def _quantile(variable: NumberVariable, value: float, ends: tuple[float, float]) -> Figure:
    """Of whole numbers a whole number: those within the interval, whose ends lie between them."""
    (low, _), step = variable.bounds, variable.step
    if step is not None and _whole_leaves(variable):
        value = low + step * round((value - low) / step)
        ends = (
            low + step * math.ceil((ends[0] - low) / step - 1e-6),
            low + step * math.floor((ends[1] - low) / step + 1e-6),
        )
    return figure(value, ends, variable.bounds)


# ------------------------------------------------------------------- named levels


def _read_named(
    variable: NamedVariable, block: Noisy, groups: int, probability: float
) -> dict[str, Any]:
    sums = _Sums.of(block, groups)
    known = len(variable.known)
    row: dict[str, Any] = {"variable": variable.name, "kind": "levels"}
    if known < len(variable.levels):
        row["missing"] = [_shown(sums.count(c, known, probability)) for c in _columns(sums)]
    positive = np.maximum(sums.values[:, :known], 0.0)
    whole = positive.sum(axis=1)
    row["levels"] = [
        {
            "level": level,
            "count": [_shown(sums.count(c, place, probability)) for c in _columns(sums)],
            "share": [
                _shown(_share(sums, c, place, known, positive[c, place], whole[c], probability))
                for c in _columns(sums)
            ],
        }
        for place, level in enumerate(variable.known)
    ]
    row["difference"] = _shown(_level_difference(sums, known, probability))
    return row


def _columns(sums: _Sums) -> range:
    return range(len(sums.values))


def _share(
    sums: _Sums,
    column: int,
    place: int,
    known: int,
    positive: float,
    whole: float,
    probability: float,
) -> Figure:
    """Of the values that are there: Fieller's test of y - p Σ counts, for p in what is left. The
    value is of counts that are not negative, so that shares sum to 1."""
    counts = sums.values[column, :known]
    size = counts.sum()
    if size <= 0:
        return Figure(1 / known, 0.0, 1.0, False)
    low, high = 0.0, 1.0
    for _ in range(3):
        others = [high] * known
        others[place] = 1 - low
        weights = [*others, *[0.0] * (sums.values.shape[1] - known)]
        margin = sums.margin(column, weights, probability) / size
        share = counts[place] / size
        low, high = (float(end) for end in np.clip([share - margin, share + margin], 0.0, 1.0))
    value = positive / whole if whole > 0 else 1 / known
    return figure(value, (min(low, value), max(high, value)), (0.0, 1.0))


# ------------------------------------------------------------------- standardised differences


def _lengths(z: np.ndarray, drawn: np.ndarray, probability: float, more: float) -> Figure:
    """The largest |z| of any pair, z (pairs, k); `drawn` (draws, pairs, k) with further noise."""
    value = float(np.linalg.norm(z, axis=-1).max())
    off = np.linalg.norm(drawn - z, axis=-1).max(axis=-1)
    reach = float(np.quantile(off, 1 - probability, method="higher")) + more
    return figure(value, (value - reach, value + reach), (0.0, math.inf))


def _number_difference(
    sums: _Sums, found: Sequence[tuple[Figure, Figure]], probability: float
) -> Figure | None:
    """(m₁ - m₀) / sqrt((s₁² + s₀²) / 2), the largest of any two groups; None without groups."""
    groups = len(sums.values) - 1
    if groups < 2:
        return None
    law = sums.laws[1]
    assert law is not None
    if not all(mean.determined and deviation.determined for mean, deviation in found[1:]):
        return Figure(0.0, 0.0, 0.0, False)
    own = sums.values[1:]
    noisy = own + simulated_noise(law, (_DRAWS, *own.shape))

    def scores(values: np.ndarray) -> np.ndarray:
        size = np.maximum(values[..., 0], 1.0)
        mean = np.clip(values[..., 1] / size, -1, 1)
        variance = np.clip(values[..., 2] / _ROOT / size + 0.75 - mean**2, 1e-9, 1.0)
        return np.stack(
            [
                (mean[..., b] - mean[..., a]) / np.sqrt((variance[..., a] + variance[..., b]) / 2)
                for a, b in combinations(range(groups), 2)
            ],
            axis=-1,
        )[..., None]

    least = min(deviation.low for _, deviation in found[1:])
    more = 2 * float(sums.rounding[1] + sums.rounding[0]) / max(own[:, 0].min(), 1.0) / least
    return _lengths(scores(own), scores(noisy), probability, more)


def _level_difference(sums: _Sums, known: int, probability: float) -> Figure | None:
    """sqrt(dᵀ S⁻¹ d) for the shares d₁ - d₀ of all levels but one, S the mean of the two
    multinomial covariances (Yang and Dalton 2012); for two levels the usual difference of
    proportions. The largest of any two groups; None without groups."""
    groups = len(sums.values) - 1
    if groups < 2:
        return None
    law = sums.laws[1]
    assert law is not None
    own = sums.values[1:, :known]
    sizes = own.sum(axis=1)
    undetermined = Figure(0.0, 0.0, 0.0, False)
    if (sizes <= 0).any():
        return undetermined
    shares = own / sizes[:, None]
    # A level that noise cannot tell from an empty one makes S singular.
    error = law.std / sizes
    for a, b in combinations(range(groups), 2):
        if ((shares[a] + shares[b]) < 3 * math.hypot(error[a], error[b])).any():
            return undetermined
    noisy = own + simulated_noise(law, (_DRAWS, *own.shape))

    def scores(values: np.ndarray) -> np.ndarray:
        floor = np.maximum(values, 0.5)
        p = (floor / floor.sum(axis=-1, keepdims=True))[..., :-1]
        covariance = p[..., :, None] * np.eye(known - 1) - p[..., :, None] * p[..., None, :]
        pairs = []
        for a, b in combinations(range(groups), 2):
            pooled = (covariance[..., a, :, :] + covariance[..., b, :, :]) / 2
            root = np.linalg.cholesky(pooled + 1e-12 * np.eye(known - 1))
            apart = (p[..., b, :] - p[..., a, :])[..., None]
            pairs.append(np.linalg.solve(root, apart)[..., 0])
        return np.stack(pairs, axis=-2)

    return _lengths(scores(own), scores(noisy), probability, 0.0)


__all__ = ["QUARTILES", "Figure", "NamedVariable", "NumberVariable", "TableOne"]
