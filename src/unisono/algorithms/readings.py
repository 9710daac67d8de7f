"""From noisy sums to estimates with intervals: post-processing only.

An interval for a quantity made of several noisy sums takes an interval for each, at a level that
holds for all of them at once, and the least and largest value of the quantity over the box. That
is conservative and needs no approximation. Sampling error is added by the normal approximation,
with half of the error probability for the noise and half for the sampling.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from unisono.algorithms.estimates import Estimate
from unisono.algorithms.noise_law import NoiseLaw, sum_law
from unisono.core.certificate import Certificate
from unisono.core.study import Study

if TYPE_CHECKING:  # tables are made for compiled programs; statistics in doubles need none
    from unisono.releases.table import Table

_ROOT = math.sqrt(2.0)
Labels = tuple[Any, ...]


@dataclass(frozen=True)
class Noisy:
    """A block as it was opened: values (cells, k), the law of their noise, and encoding errors.

    `rounding` (k,) bounds how far rounding moved a sum over all records, in the worst case, and
    `precision` how far it was moved on its way here, relative to its size: of 32-bit floats,
    unless sums stayed in doubles.
    """

    values: np.ndarray
    law: NoiseLaw
    rounding: np.ndarray
    records: int
    exact_sizes: bool
    precision: float = 2.0**-23

    def margin(self, position: int, probability: float, numbers: int = 1) -> float:
        """Half-width that holds for `numbers` values at once, but for `probability`."""
        single = np.abs(self.values[:, position]).max() * self.precision
        return self.law.tail(probability, numbers) + float(self.rounding[position]) + float(single)


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
        worst = (
            records * (0.5 / (factor << shift) + block.error) * table.group + sums * 0.5 / factor
        )
        rounding = np.where(table.rounded(block, factor), worst, 0.0)
        found.append(
            Noisy(values / weight, law.scaled(1 / weight), rounding, records, facts.exact_sizes)
        )
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

    def over(self, size: "Box", limit: float) -> "Box":
        """The ratio with sizes, where its absolute value is at most `limit`."""
        known = size.low > 0
        safe_low, safe_high = np.where(known, size.low, 1.0), np.where(known, size.high, 1.0)
        low = np.minimum(self.low / safe_low, self.low / safe_high)
        high = np.maximum(self.high / safe_low, self.high / safe_high)
        value = self.value / np.maximum(size.value, 1.0)
        wide = np.full_like(low, limit)
        return Box(np.where(known, low, -wide), value, np.where(known, high, wide)).clipped(
            -limit, limit
        )


def column_box(noisy: Noisy, position: int, probability: float, numbers: int) -> Box:
    """One of the k numbers in every cell, with an interval that holds for `numbers` at once."""
    value = noisy.values[:, position]
    margin = noisy.margin(position, probability, numbers)
    return Box(value - margin, value, value + margin)


def size_box(noisy: Noisy, hidden: bool, probability: float, numbers: int) -> Box:
    """How many records each cell holds: public, or released as the first number."""
    if hidden:
        return column_box(noisy, 0, probability, numbers).clipped(0.0, math.inf)
    public = np.full(len(noisy.values), float(noisy.records))
    return Box(public, public, public)


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
    numbers = len(noisy.values) * noisy.values.shape[1]
    cells = len(noisy.values)

    def boxes(level: float) -> tuple[Box, Box, Box | None]:
        size = size_box(noisy, hidden, level, numbers)
        mean = column_box(noisy, first, level, numbers).over(size, 1.0)
        if not spread:
            return size, mean, None
        # √2 (u² - 3/4) has sum S in [-3/√8 n, 1/√8 n], so the mean square is S / (√2 n) + 3/4.
        square = column_box(noisy, first + 1, level, numbers).over(size, 1.5 / _ROOT)
        square = square.linear(1 / _ROOT, 0.75).clipped(0.0, 1.0)
        largest = np.maximum(mean.low**2, mean.high**2)
        least = np.where(
            (mean.low < 0) & (mean.high > 0), 0.0, np.minimum(mean.low**2, mean.high**2)
        )
        variance = Box(square.low - largest, square.value - mean.value**2, square.high - least)
        return size, mean, variance.clipped(0.0, 1.0)

    _, mean, variance = boxes(probability)
    kind = "sum (and, jointly, to the number of records)" if hidden else "sum"
    note = f"{noise_words(noisy, reach)} the {kind}; values outside the bounds were clipped first."
    found = []
    if "mean" in wanted:
        population = None
        if spread:
            half_size, half_mean, half_variance = boxes(probability / 2)
            assert half_variance is not None
            z = -float(ndtri(probability / (4 * cells)))
            error = z * np.sqrt(half_variance.high / np.maximum(half_size.low, 1.0))
            population = Box(half_mean.low - error, half_mean.value, half_mean.high + error)
            population = population.clipped(-1.0, 1.0).linear(reach, centre)
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
    if not paired:
        counts = column_box(noisy, 0, probability, 1).clipped(0.0, float(noisy.records))
        size: Any = float(noisy.records)
        box = counts.linear(1 / size)
        half = column_box(noisy, 0, probability / 2, 1).clipped(0.0, size).linear(1 / size)
        least_size = np.array([size])
    else:
        box, _ = _paired(noisy, probability)
        half, least_size = _paired(noisy, probability / 2)
    z = -float(ndtri(probability / (4 * len(box.value))))
    least = np.maximum(least_size, 1.0)
    population = Box(
        half.low - z * np.sqrt(_bernoulli(half) / least),
        half.value,
        half.high + z * np.sqrt(_bernoulli(half) / least),
    ).clipped(0.0, 1.0)
    note = f"{noise_words(noisy)} the counts behind the proportion."
    return [estimate(name, box, labels, 1 - probability, note, certificate, population)]


def _bernoulli(box: Box) -> np.ndarray:
    """The largest p (1 - p) over the interval, since p is not known exactly."""
    middle = (box.low <= 0.5) & (box.high >= 0.5)
    return np.where(middle, 0.25, np.maximum(box.low * (1 - box.low), box.high * (1 - box.high)))


def _paired(noisy: Noisy, probability: float) -> tuple[Box, np.ndarray]:
    counts = column_box(noisy, 0, probability, len(noisy.values)).clipped(0.0, math.inf)
    no, yes = (Box(counts.low[i::2], counts.value[i::2], counts.high[i::2]) for i in (0, 1))

    def share(y: np.ndarray, n: np.ndarray, empty: float) -> np.ndarray:
        whole = y + n
        return np.where(whole > 0, y / np.where(whole > 0, whole, 1.0), empty)

    box = Box(
        share(yes.low, no.high, 0.0), share(yes.value, no.value, 0.5), share(yes.high, no.low, 1.0)
    )
    return box, no.low + yes.low
