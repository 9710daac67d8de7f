"""From noisy sums to estimates with intervals: post-processing only.

An interval for a quantity made of several noisy sums takes an interval for each, at a level that
holds for all of them at once, and the least and largest value of the quantity over the box. That
is conservative and needs no approximation. Intervals for the population add the variance of the
sampling error, by the normal approximation (`error_margin`, `population_means`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unisono.algorithms.estimates import Estimate
from unisono.algorithms.noise_law import NoiseLaw, sum_law
from unisono.core.certificate import Certificate
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import Relation

if TYPE_CHECKING:  # tables are made for compiled programs; statistics in doubles need none
    from unisono.releases.table import Table

_ROOT = math.sqrt(2.0)
Labels = tuple[Any, ...]


class Sizes(NamedTuple):
    """How a block counts the values that are there, where their number is not public: `weight` is
    what each adds to the count in rows of moments, and `replaced` says that neighboring data
    replace a record, so that centered values cost no more than counted ones."""

    weight: float = 1.0
    replaced: bool = False

    @staticmethod
    def of(privacy: Privacy) -> "Sizes":
        """The most accurate count that has no privacy cost beside moments (`releases.rows`)."""
        replaced = privacy.relation is Relation.REPLACE_ONE
        return Sizes(1.5 if replaced and not privacy.pure else 1.0, replaced)


@dataclass(frozen=True)
class Noisy:
    """A block as it was opened: values (cells, k), the law of their noise, and encoding errors.

    `rounding` (k,) bounds how far rounding moved a sum over all records, in the worst case, and
    `precision` how far it was moved on its way here, relative to its size: of 32-bit floats,
    unless sums stayed in doubles. Where the first number is a count that weighed more than 1 in its
    rows (`Sizes`), it has that much less noise than the others: 1 / `weight` of it.
    """

    values: np.ndarray
    law: NoiseLaw
    rounding: np.ndarray
    records: int
    exact_sizes: bool
    precision: float = 2.0**-23
    weight: float = 1.0

    def margin(self, position: int, probability: float, numbers: int = 1) -> float:
        """Half-width that holds for `numbers` values at once, but for `probability`."""
        single = np.abs(self.values[:, position]).max() * self.precision
        law = self.law if position else self.law.scaled(1 / self.weight)
        return law.tail(probability, numbers) + float(self.rounding[position]) + float(single)

    def margins(self, weights: Sequence[Any], probability: float) -> Any:
        """How far weighted sums of the k numbers of each cell may be off, but for `probability`;
        each weight is a number or an array (cells,)."""
        sizes = [
            float(rounded) + np.abs(self.values[:, place]).max() * self.precision
            for place, rounded in enumerate(self.rounding)
        ]
        off = sum(np.abs(w) * size for w, size in zip(weights, sizes, strict=True))
        scaled = [np.asarray(weights[0]) / self.weight, *weights[1:]]
        return off + weighted_tail(self.law, scaled, probability)


def weighted_tail(law: NoiseLaw, weights: Sequence[Any], probability: float) -> Any:
    """A weighted sum of independent noises stays below this, but for `probability`.

    Exact for Gaussian noise. A weighted sum of Laplace noises is, at equal variance, lighter in its
    tails than one of them and, where the probability is small, heavier than a sum of equal ones;
    the larger of the two is taken.
    """
    terms = sum(bool(np.any(np.asarray(w) != 0)) for w in weights)
    norm = np.sqrt(sum(np.square(w) for w in weights))
    alone = law.tail(probability)
    even = law.summed(terms).tail(probability) / math.sqrt(terms) if terms else 0.0
    return norm * max(alone, even) + law.step * sum(np.abs(w) for w in weights)


def read_blocks(
    table: "Table", study: Study, total: np.ndarray, survivors: int, records: int
) -> list[Noisy]:
    """Undo weights and quantization of what `survivors` opened: every block in its own units."""
    algorithm, facts, trust = study.algorithm, study.facts, study.trust
    step = algorithm.grid(facts, trust)
    law = sum_law(algorithm.event(facts, trust), facts, trust, survivors, step)
    found, start = [], 0
    assert algorithm.privacy is not None  # a method's
    factors = table.factors(algorithm.privacy, step)
    shift = table.shift(facts, algorithm.privacy, step)
    # Sums that were rounded: one of each party, or of two segments where sizes are hidden.
    sums = 0 if not shift else survivors * (1 if facts.exact_sizes else 2)
    for block, factor in zip(table.blocks, factors, strict=True):
        weight = factor * step
        values = total[start : start + block.width].reshape(block.cell_count, block.length)
        counted = getattr(block.rows, "sized", 0.0)
        heavier = np.ones(block.length)
        heavier[0] = max(1.0, counted)
        worst = (
            records * (0.5 / (factor << shift) + block.error) * table.group + sums * 0.5 / factor
        )
        rounding = np.where(table.rounded(block, factor), worst, 0.0) / heavier
        own = law.scaled(1 / weight)
        made = Noisy(values / weight / heavier, own, rounding, records, facts.exact_sizes)
        found.append(replace(made, weight=float(heavier[0])))
        start += block.width
    return found


@dataclass(frozen=True)
class Box:
    """Least, estimated and largest value, arrays (cells,)."""

    low: np.ndarray
    value: np.ndarray
    high: np.ndarray

    def clipped(self, low: float, high: float) -> "Box":
        return Box(*(np.clip(end, low, high) for end in (self.low, self.value, self.high)))

    def linear(self, factor: float, offset: Any = 0.0) -> "Box":
        """factor * x + offset, for a positive factor."""
        return Box(*(factor * end + offset for end in (self.low, self.value, self.high)))


def column_box(noisy: Noisy, position: int, probability: float, numbers: int) -> Box:
    """One of the k numbers in every cell, with an interval that holds for `numbers` at once."""
    value = noisy.values[:, position]
    margin = noisy.margin(position, probability, numbers)
    return Box(value - margin, value, value + margin)


def estimate(
    name: str,
    box: Box,
    labels: Labels,
    confidence: float,
    note: str,
    certificate: Certificate,
    population: Box | None = None,
    determined: np.ndarray | None = None,
) -> Estimate:
    """A number where there are no labels, else an array."""

    def shaped(values: np.ndarray) -> Any:
        return values if labels else float(values[0])

    return Estimate(
        name,
        shaped(box.value),
        (shaped(box.low), shaped(box.high)),
        confidence,
        note,
        certificate,
        None if population is None else (shaped(population.low), shaped(population.high)),
        labels,
        None if determined is None or determined.all() else determined[: len(labels) or 1],
    )


def error_margin(law: NoiseLaw, noises: float, sampling: float, probability: float) -> float:
    """How far a figure errs, but for `probability`: a weighted sum of independent noises, whose
    squared weights sum to `noises`, and a normal sampling error of variance `sampling`.

    Exact for Gaussian noise. Of Laplace noise with scale s and weights |w| <= 1 the moment
    generating function is at most that of Σ w² whole noises, as -log(1 - w² x) <= -w² log(1 - x),
    and exp(v u² / 2) <= (1 - s² u²)^(-v / 2s²): a normal error counts as so many noises more.
    """
    return law.summed(noises + sampling / law.std**2).tail(probability)


def mean_ends(
    sums: np.ndarray, sizes: np.ndarray, margin: Callable[[np.ndarray], Any]
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of intervals for m = sum / size in [-1, 1], of noisy sums A and noisy sizes N.

    |A - m N| is noise alone, at most `margin(m)` but for its probability, and the margin grows with
    |m|: so the interval holds all m with (A - margin) / N <= m <= (A + margin) / N, which is
    Fieller's (1954), first with the margin of |m| = 1, then with that of those which are left.
    Not bounded where N is not positive.
    """
    known = sizes > 0
    size, far = np.where(known, sizes, 1.0), np.ones(len(sizes))
    low, high = -far, far
    for _ in range(4):
        off = margin(far)
        low, high = np.clip((sums - off) / size, -1, 1), np.clip((sums + off) / size, -1, 1)
        far = np.maximum(np.abs(low), np.abs(high))
    return np.where(known, low, -1.0), np.where(known, high, 1.0)


def variance_ends(
    sums: np.ndarray,
    sizes: np.ndarray,
    squares: np.ndarray,
    margin: Callable[[tuple[Any, ...], float], Any],
    probability: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of intervals for the variance of u, from N, A = Σ u and Q = Σ √2 (u² - 3/4).

    `margin` is how far a weighted sum of N, A and Q is off, but for a probability. The mean of
    (u - m)² is least where m is the mean, so that half of the probability is for the mean.
    """
    known = sizes > 0
    size = np.where(known, sizes, 1.0)
    square, mean = squares / (_ROOT * size) + 0.75, sums / size
    half = probability / 2
    low, high = mean_ends(sums, sizes, lambda far: margin((far, 1.0, 0.0), half))
    far = np.maximum(np.abs(low), np.abs(high))
    least, *ends = (square - 2 * m * mean + m**2 for m in (np.clip(mean, low, high), low, high))
    v_low, v_high = np.zeros(len(size)), np.ones(len(size))
    for _ in range(4):
        # Of N: 3/4 + m² - v, for all m and v that are left.
        count = np.maximum(np.abs(0.75 + far**2 - v_low), np.abs(0.75 - v_high))
        off = margin((count, 2 * far, 1 / _ROOT), half) / size
        v_low = np.clip(least - off, 0.0, 1.0)
        v_high = np.clip(np.maximum(*ends) + off, 0.0, 1.0)
    return np.where(known, v_low, 0.0), np.where(known, v_high, 1.0)


def population_means(
    sums: np.ndarray,
    sizes: np.ndarray,
    law: NoiseLaw,
    hidden: float,
    squares: np.ndarray | None,
    probability: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of intervals for means of u in [-1, 1], in the population of each cell.

    `sums` A of u have independent noise of variance σ², and `sizes` N of h σ²;
    `squares` Q are sums of √2 (u² - 3/4). The interval holds all μ with

        (A - μ N)² <= z² (v N + σ² (1 + h μ²)),    h = `hidden`, 0 where sizes are public

    which is Fieller's (1954). v is the variance by the noisy moments, plus one standard deviation
    of its noise, between 0 and 1 - m². Where the mean square cannot be told from 1, its value in a
    column of two values (`squares` None: it has two), v = 1 - μ² at each μ, the largest that a mean
    μ allows: Wilson's (1927) interval.
    """
    noise, h = law.std**2, hidden
    size = np.maximum(sizes, 1.0)
    mean = np.clip(sums / size, -1.0, 1.0)
    variance, two_valued = 1 - mean**2, np.ones(len(mean), bool)
    if squares is not None:
        square = squares / (_ROOT * size) + 0.75
        found = square - mean**2 + noise * (1 + h * mean**2) / size**2
        weights = 0.5 + 4 * mean**2 + h * (2 * mean**2 - square + 0.75) ** 2
        doubt = np.sqrt(noise * weights) / size
        two_valued = 1 - square <= 2 * np.sqrt(noise * (0.5 + h * (square - 0.75) ** 2)) / size
        variance = np.where(
            two_valued, variance, np.clip(np.maximum(found, 0.0) + doubt, 0.0, variance)
        )
    noises, sampling = 1 + h * mean**2, variance * size
    margins = [error_margin(law, *one, probability) for one in zip(noises, sampling, strict=True)]
    z2 = np.square(margins) / (noise * noises + sampling)
    # A quadratic in μ: a μ² - 2 m N² μ + c <= 0; not bounded where the size may as well be 0.
    a = size**2 + z2 * (two_valued * size - h * noise)
    c = (mean * size) ** 2 - z2 * (np.where(two_valued, size, sampling) + noise)
    known = (a > 0) & (sizes > 0)
    a = np.where(known, a, 1.0)
    centre, root = mean * size**2 / a, np.sqrt(np.maximum((mean * size**2) ** 2 - a * c, 0.0)) / a
    low, high = np.where(known, centre - root, -1.0), np.where(known, centre + root, 1.0)
    return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)


def noise_words(noisy: Noisy, factor: float = 1.0) -> str:
    law = noisy.law
    return f"{law.name} noise of standard deviation {law.std * factor:.4g} was added to"


# ------------------------------------------------------------------ statistics


def read_counts(
    name: str, labels: Labels, what: str, noisy: Noisy, probability: float, certificate: Certificate
) -> list[Estimate]:
    """Counts, one per cell; impossible values are moved to the nearest possible one."""
    most = float(noisy.records) if noisy.exact_sizes else math.inf
    box = column_box(noisy, 0, probability, len(noisy.values)).clipped(0.0, most)
    note = f"{noise_words(noisy)} {what}; negative counts are shown as 0."
    found = estimate(name, box, labels, 1 - probability, note, certificate)
    return [replace(found, unit="records")]


def read_sums(
    name: str,
    labels: Labels,
    unit: float,
    offset: float,
    noisy: Noisy,
    probability: float,
    certificate: Certificate,
) -> list[Estimate]:
    """Sums, one per cell: unit times what was opened, plus a public offset."""
    box = column_box(noisy, 0, probability, len(noisy.values)).linear(unit, offset)
    note = f"{noise_words(noisy, unit)} the sum; values outside the bounds were clipped first."
    return [estimate(name, box, labels, 1 - probability, note, certificate)]


def read_moments(
    name: str,
    labels: Labels,
    centre: float,
    reach: float,
    wanted: tuple[str, ...],
    counted: bool,
    spread: bool,
    noisy: Noisy,
    probability: float,
    certificate: Certificate,
) -> list[Estimate]:
    """Mean, variance and standard deviation from sums of u and √2 (u² - 3/4).

    The variance is that of the records, sum (x - mean)² / n, and is kept within what the bounds
    allow, [0, half range²].
    """
    hidden = counted or not noisy.exact_sizes
    first = 1 if hidden else 0
    cells = len(noisy.values)
    single = probability / cells
    public = np.full(cells, float(noisy.records))
    sizes = np.maximum(noisy.values[:, 0], 0.0) if hidden else public
    sums = noisy.values[:, first]
    squares = noisy.values[:, first + 1] if spread else None

    def margin(weights: tuple[Any, ...], level: float) -> Any:
        """Of the size, the sum and the squares, where they are noisy."""
        return noisy.margins(weights[1 - hidden : 2 + spread], level)

    value = np.clip(sums / np.maximum(sizes, 1.0), -1.0, 1.0)
    variance = None
    if squares is not None:
        least, most = variance_ends(sums, sizes, squares, margin, single)
        square = np.clip(squares / (_ROOT * np.maximum(sizes, 1.0)) + 0.75, 0.0, 1.0)
        variance = Box(least, np.clip(square - value**2, 0.0, 1.0), most)
    kind = "sum (and, jointly, to the number of records)" if hidden else "sum"
    note = f"{noise_words(noisy, reach)} the {kind}; values outside the bounds were clipped first."
    note += _count_words(sizes) if hidden else ""
    found = []
    if "mean" in wanted:
        population = None
        low, high = mean_ends(sums, sizes, lambda far: margin((far, 1.0, 0.0), single))
        mean = Box(low, value, high)
        if spread:
            h = hidden / noisy.weight**2
            ends = population_means(sums, sizes, noisy.law, h, squares, single)
            population = _around(mean, *ends).linear(reach, centre)
        else:
            needed = "replace-one" if noisy.law.gaussian else "delta > 0"
            note += f" An interval for the population needs {needed}."
        shown = mean.linear(reach, centre)
        found.append(
            estimate(
                f"mean of {name}", shown, labels, 1 - probability, note, certificate, population
            )
        )
    if variance is not None:
        scaled = variance.linear(reach**2)
        deviation = Box(*(np.sqrt(end) for end in (scaled.low, scaled.value, scaled.high)))
        for word, box in (("variance", scaled), ("standard deviation", deviation)):
            if word in wanted:
                title, sure = f"{word} of {name}", 1 - probability
                known = box.low > 0  # or the spread may as well be none
                found.append(
                    estimate(title, box, labels, sure, note, certificate, determined=known)
                )
    return found


def read_proportions(
    name: str,
    labels: Labels,
    paired: bool,
    noisy: Noisy,
    probability: float,
    certificate: Certificate,
) -> list[Estimate]:
    """Shares of records that fulfil a condition: count / public size, or yes / (no + yes).

    A share y / (n + y) grows with y and falls with n, so its extremes over the box of counts are
    at corners.
    """
    values, single = noisy.values[:, 0], probability / len(noisy.values)
    if noisy.values.shape[1] == 2:  # how many there are, and yes - no
        size, sums, law, h = (
            np.maximum(values, 0.0),
            noisy.values[:, 1],
            noisy.law,
            noisy.weight**-2,
        )
        low, high = mean_ends(sums, size, lambda far: noisy.margins((far, 1.0), single))
        value = np.clip(sums / np.maximum(size, 1.0), -1.0, 1.0)
        box = Box(low, value, high).linear(0.5, 0.5)
    elif not paired:
        size = np.array([float(noisy.records)])
        box = column_box(noisy, 0, probability, 1).clipped(0.0, float(noisy.records))
        box = box.linear(1 / float(noisy.records))
        # On the scale of u in [-1, 1]: 2 yes - size, or yes - no.
        sums, law, h = 2 * values - size, noisy.law.scaled(2.0), 0.0
    else:
        box = _paired(noisy, probability)
        no, yes = values[::2], values[1::2]
        size, sums = np.maximum(yes + no, 0.0), yes - no
        # Two noises with weights 1 ± μ, at most 2.
        law, h = noisy.law.scaled(2.0).summed(0.5), 1.0
    ends = population_means(sums, size, law, h, None, probability / len(box.value))
    population = _around(box, *((1 + end) / 2 for end in ends))
    note = f"{noise_words(noisy)} the counts behind the proportion."
    note += _count_words(size) if paired else ""
    return [estimate(name, box, labels, 1 - probability, note, certificate, population)]


def _count_words(sizes: np.ndarray) -> str:
    """How many values an answer is about, by what was released."""
    return f" By the noisy count {sizes.sum():,.0f} values are there; missing ones do not count."


def _around(box: Box, low: np.ndarray, high: np.ndarray) -> Box:
    """An interval for the population, which holds all that are possible for these records."""
    return Box(np.minimum(low, box.low), box.value, np.maximum(high, box.high))


def _paired(noisy: Noisy, probability: float) -> Box:
    counts = column_box(noisy, 0, probability, len(noisy.values)).clipped(0.0, math.inf)
    no, yes = (Box(counts.low[i::2], counts.value[i::2], counts.high[i::2]) for i in (0, 1))

    def share(y: np.ndarray, n: np.ndarray, empty: float) -> np.ndarray:
        whole = y + n
        return np.where(whole > 0, y / np.where(whole > 0, whole, 1.0), empty)

    return Box(
        share(yes.low, no.high, 0.0), share(yes.value, no.value, 0.5), share(yes.high, no.low, 1.0)
    )
