"""Small charts as inline SVG, which follow light and dark and fit any width.

A chart has no width of its own. Horizontal positions are shares of the width ("37.5%"), heights
are pixels and text keeps its size, so the same chart is readable on a phone and on paper. Colours
are classes of `page.STYLE` (no inline styles: a strict Content-Security-Policy may forbid them);
series differ by dashes too. Every chart has a <title> and a <desc> with its numbers in words.
What is not a finite number is left out, never drawn as something else.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from unisono.core.words import hundredths
from unisono.core.words import number as upper
from unisono.models.inference import ratio_text
from unisono.reports import marks
from unisono.reports.marks import cut, place, short, ticks

PALETTE = 6  # classes s1 to s6
WIDE = 230
SQUARE = 400  # as high as a narrow chart is wide
RECORDS = "records"  # the unit of counts
Level = tuple[str, float]


class DrawnInterval(NamedTuple):
    """An estimate and where the truth lies with the stated confidence."""

    label: str
    middle: float
    low: float
    high: float


class BandedCurve(NamedTuple):
    """A curve and the ends of its band, all at the same times, and numbers at risk at some."""

    times: tuple[float, ...]
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    at_risk: tuple[tuple[float, float], ...] = ()


class ForestRow(NamedTuple):
    """An effect with its interval, and the interval that the sample alone would have had. A row
    without numbers is said in words."""

    label: str
    numbers: tuple[float, float, float] | None  # estimate, low, high
    sampling: tuple[float, float] = (0.0, 0.0)
    words: str = ""


class CalibrationBin(NamedTuple):
    """Records that were predicted alike: their mean score, and how many had the outcome."""

    score: float
    share: float
    low: float
    high: float


class Bell(NamedTuple):
    """A normal distribution."""

    label: str
    mean: float
    std: float


def gauge(label: str, value: float, limit: float, *, words: str, before: float = 0.0) -> Markup:
    """How much of a limit is used: `before` this time (paler), and `value` in all."""
    # What was spent is an upper bound.
    spent, paler = upper(value), upper(before)
    spent = "no protection" if math.isinf(value) else spent
    used_of = f"{spent}, no limit" if math.isinf(limit) else f"{spent} of {short(limit)}"
    used, earlier = marks.share(value, limit), min(before, value)
    kind = "over" if value > limit or math.isinf(value) else "spent"
    parts = [
        marks.text(0, 14, cut(label, 28), "strong"),
        marks.text(1, 14, used_of, "end soft tabular"),
        marks.rectangle(0, 1, 22, 12, "track"),
        marks.rectangle(marks.share(earlier, limit), used, 22, 12, kind),
        marks.rectangle(0, marks.share(earlier, limit), 22, 12, "before"),
    ]
    told = f"{label}: {used_of}, of which {paler} before. {words}"
    return Markup('<div class="gauge">{}<p class="note">{}</p></div>').format(
        marks.chart(36, label, told, parts), words
    )


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    reference: Level | None = None,
    from_zero: bool = True,
    height: int = WIDE,
    kind: str = "",
) -> Markup:
    """Curves over a shared axis, named above; `reference` is a level to compare with."""
    known = {name: marks.finite(points) for name, points in series.items()}
    known = {name: points for name, points in known.items() if points}
    if not known:
        return marks.nothing(title or y_label)
    every = [point for points in known.values() for point in points]
    levels = [y for _, y in every] + ([reference[1]] if reference else [])
    scale = ticks(min(0.0, *levels) if from_zero else min(levels), max(levels))
    left, right = min(x for x, _ in every), max(x for x, _ in every)
    named = list(known) if len(known) > 1 else []
    height += 18 * len(named)
    top, foot = 34 + 18 * len(named), height - 38

    def across(x: float) -> float:
        return (x - left) / (right - left) if right > left else 0.5

    def down(y: float) -> float:
        return foot - (foot - top) * place(y, scale)

    parts = [*marks.legend(named, 12, PALETTE), marks.text(0, top - 22, y_label, "soft")]
    parts += [marks.line(0, down(y), 1, down(y), "grid" if y else "axis") for y in scale]
    if reference:
        level = down(reference[1])
        parts += [
            marks.line(0, level, 1, level, "reference"),
            marks.text(1, level - 6, reference[0], "end soft halo"),
        ]
    for number, points in enumerate(known.values()):
        colour = f"s{number % PALETTE + 1}"
        drawn = [(across(x), down(y) - top) for x, y in points]
        parts.append(marks.stretched(top, foot - top, marks.curve(drawn, colour)))
        parts.append(marks.dot(drawn[-1][0], drawn[-1][1] + top, f"fill {colour}"))
    # A curve that begins in the corner would run through the number there.
    corner = any(points[0] == (left, 0.0) for points in known.values())
    levelled = [y for y in scale if y or not corner]
    parts += [marks.text(0, down(y) - 4, short(y), "soft halo tabular") for y in levelled]
    parts += marks.under(left, right, x_label, height)
    told = "; ".join(
        f"{name}: {short(points[0][1])} at {short(points[0][0])}, "
        f"{short(points[-1][1])} at {short(points[-1][0])}"
        for name, points in known.items()
    )
    words = f"{y_label}, by {x_label}. {told}"
    return marks.chart(height, title or y_label, words, parts, kind)


def banded(
    curves: Mapping[str, BandedCurve], *, x_label: str, y_label: str, title: str, height: int = 260
) -> Markup:
    """Shares over time, each with its band, on an axis from 0 to 1."""
    known = {name: own for name, own in curves.items() if len(own.times) > 1}
    if not known:
        return marks.nothing(title or y_label)
    scale = ticks(0.0, 1.0)
    right = max(own.times[-1] for own in known.values())
    named = list(known) if len(known) > 1 else []
    height += 18 * len(named)
    top, foot, axis = 34 + 18 * len(named), height - 38, height
    rows = _at_risk_rows(known)
    height += 16 * len(rows)

    def down(y: float) -> float:
        return foot - (foot - top) * place(y, scale)

    def drawn(times: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
        return [(x / right, down(y) - top) for x, y in zip(times, values, strict=True)]

    parts = [*marks.legend(named, 12, PALETTE), marks.text(0, top - 22, y_label, "soft")]
    parts += [marks.line(0, down(y), 1, down(y), "grid" if y else "axis") for y in scale]
    for number, own in enumerate(known.values()):
        kind = f"s{number % PALETTE + 1}"
        around = [*drawn(own.times, own.high), *reversed(drawn(own.times, own.low))]
        line = marks.curve(drawn(own.times, own.values), kind)
        parts.append(marks.stretched(top, foot - top, marks.area(around, kind) + line))
    parts += [marks.text(0, down(y) - 4, short(y), "soft halo tabular") for y in scale]
    parts += marks.under(0.0, right, x_label, axis)
    for number, (kind, row) in enumerate(rows):
        low = axis - 4 + 16 * number
        for time, words in row:
            side = "end" if time > 0.97 * right else "middle" if time else ""
            parts.append(marks.text(time / right, low, words, f"soft tabular {side} {kind}"))
    told = "; ".join(
        f"{name}: {short(own.values[-1])} at {short(own.times[-1])}, between {short(own.low[-1])} "
        f"and {short(own.high[-1])}"
        for name, own in known.items()
    )
    return marks.chart(height, title or y_label, f"{y_label}, by {x_label}. {told}", parts)


def _at_risk_rows(
    known: Mapping[str, BandedCurve],
) -> list[tuple[str, list[tuple[float, str]]]]:
    """Rows of words at times: of the times, and each curve's numbers at risk, with its kind."""
    longest = max((own.at_risk for own in known.values()), key=len)
    if not longest:
        return []
    rows = [("", [(time, f"at {short(time)}") for time, _ in longest])]
    for number, own in enumerate(known.values()):
        kind = f"fill s{number % PALETTE + 1}" if len(known) > 1 else ""
        rows.append((kind, [(time, f"{left:.0f}") for time, left in own.at_risk]))
    return rows


def said_in(unit: str) -> Callable[[float], str]:
    """How numbers of a unit are written: counts as whole ones.

    >>> said_in(RECORDS)(51.1), said_in("")(51.12)
    ('51', '51.1')
    """
    if unit == RECORDS:
        return lambda value: short(float(round(value)) if math.isfinite(value) else value)
    return short


def intervals(
    items: Sequence[DrawnInterval], *, title: str, unit: str = "", reference: Level | None = None
) -> Markup:
    """Estimates with their intervals on a shared axis; `reference` is a value to compare with.
    Counts of `RECORDS` begin at zero: twice as far to the right is twice as many."""
    items = [one for one in items if all(map(math.isfinite, one[1:]))]
    levels = [level for one in items for level in one[1:]]
    if not levels:
        return marks.nothing(title)
    levels += [reference[1]] if reference else []
    levels += [0.0] if unit == RECORDS else []
    scale, foot = ticks(min(levels), max(levels)), 44 * len(items) + (20 if reference else 4)
    parts, said = marks.axis(scale, foot), said_in(unit)
    parts += marks.upright(place(reference[1], scale), foot, reference[0]) if reference else []
    for number, (label, middle, low, high) in enumerate(items):
        y = 44 * number + 30
        parts += [
            marks.text(0, y - 14, cut(label, 26), "halo", 4),
            marks.text(
                1,
                y - 14,
                f"{said(middle)} ({said(low)} to {said(high)})",
                "end soft tabular halo",
            ),
            marks.line(place(low, scale), y, place(high, scale), y, "whisker stroke s1"),
            marks.dot(place(middle, scale), y, "fill s1", 5),
        ]
    told = "; ".join(
        f"{label}: {said(middle)}, between {said(low)} and {said(high)}"
        for label, middle, low, high in items
    )
    return _with_unit(foot, title, told, parts, unit)


def forest(rows: Sequence[ForestRow], *, title: str, ratios: bool, unit: str = "") -> Markup:
    """Effects one below the other beside a line of no effect: ratios on a log axis with 1, or
    differences with 0. The thick part of a bar is sampling, what sticks out of it is privacy."""

    def usable(row: ForestRow) -> bool:
        values = (*(row.numbers or ()), *row.sampling)
        return all(math.isfinite(v) and (v > 0 or not ratios) for v in values)

    rows = [
        row if row.numbers is None or usable(row) else row._replace(numbers=None) for row in rows
    ]
    known = [row.numbers for row in rows if row.numbers is not None]
    if not rows:
        return marks.nothing(title)
    none = 1.0 if ratios else 0.0
    levels = [none, *(level for numbers in known for level in numbers)]
    scale = marks.log_ticks(min(levels), max(levels)) if ratios else ticks(min(levels), max(levels))

    def across(value: float) -> float:
        if not ratios:
            return place(value, scale)
        return place(math.log(value), [math.log(scale[0]), math.log(scale[-1])])

    said = ratio_text if ratios else short  # as tables say it
    foot = 44 * len(rows) + 4
    parts = marks.axis(scale, foot, across) if known else []
    parts += [marks.line(across(none), 0, across(none), foot, "reference")] if known else []
    told = []
    for number, (label, numbers, sampling, words) in enumerate(rows):
        y = 44 * number + 30
        parts.append(marks.text(0, y - 14, cut(label, 26), "halo", 4))
        if numbers is None:
            parts.append(marks.text(0, y + 4, words or "not determined", "soft halo"))
            told.append(f"{label}: {words or 'not determined'}")
            continue
        middle, low, high = numbers
        shown = f"{said(middle)} ({said(low)} to {said(high)})"
        inner = [across(min(max(end, low), high)) for end in sampling]
        parts += [
            marks.text(1, y - 14, shown, "end soft tabular halo"),
            marks.line(across(low), y, across(high), y, "thin stroke s1"),
            marks.line(inner[0], y, inner[1], y, "thick stroke s1"),
            marks.dot(across(middle), y, "ringed s1", 5),
        ]
        told.append(f"{label}: {short(middle)}, between {short(low)} and {short(high)}")
    return _with_unit(foot, title, "; ".join(told), parts, unit if known else "")


def guesses(right: float, *, title: str, blind: float = 0.5) -> Markup:
    """A hundred attacks as dots: those that succeed by chance, those that succeed besides at most,
    and those that fail at least. Of a part of an attack only that part of its dot is filled."""
    by_chance, at_most = round(100 * blind), hundredths(right)
    whole = int(at_most)
    kinds = ["chance"] * by_chance + ["fill s2"] * (whole - by_chance)
    kinds += ["hollow"] * (100 - len(kinds))
    places = [((number % 20 + 0.5) / 20, 12 + 18 * (number // 20)) for number in range(100)]
    parts = [marks.dot(*at, kind, 5.5) for at, kind in zip(places, kinds, strict=True)]
    if at_most > whole:
        parts.append(marks.dot(*places[whole], "fill s2", 5.5 * math.sqrt(at_most - whole)))
    named = [
        (f"{by_chance} succeed by chance", "chance"),
        (f"{round(at_most - by_chance, 1):g} more succeed, at most", "fill s2"),
        (f"{round(100 - at_most, 1):g} fail, at least", "hollow"),
    ]
    for row, (words, kind) in enumerate(named):
        y = 122 + 20 * row
        parts.append(Markup('<circle cx="7" cy="{}" r="5.5" class="{}"/>').format(y - 4, kind))
        parts.append(marks.text(0, y, words, "", 22))
    told = "; ".join(words for words, _ in named)
    return marks.chart(174, title, f"Of 100 attacks, on average: {told}.", parts, "narrow")


def calibration(bins: Sequence[CalibrationBin], *, title: str) -> Markup:
    """Shares with the outcome over what was predicted, beside the line on which both agree."""
    known = [one for one in bins if all(map(math.isfinite, one))]
    if not known:
        return marks.nothing(title)
    scale, height, top = ticks(0.0, 1.0), SQUARE, 34
    foot = height - 38

    def down(y: float) -> float:
        return foot - (foot - top) * min(max(y, 0.0), 1.0)

    parts = [marks.text(0, 12, "share with the outcome", "soft")]
    parts += [marks.line(0, down(y), 1, down(y), "grid" if y else "axis") for y in scale]
    parts.append(marks.line(0, foot, 1, top, "reference"))
    for score, share, low, high in known:
        x = min(max(score, 0.0), 1.0)
        parts += [
            marks.line(x, down(low), x, down(high), "whisker stroke s1"),
            marks.dot(x, down(share), "fill s1", 5),
        ]
    parts += [marks.text(0, down(y) - 4, short(y), "soft halo tabular") for y in scale if y]
    parts += marks.under(0.0, 1.0, "predicted chance", height)
    told = "; ".join(
        f"predicted {short(score)}: {short(share)}, between {short(low)} and {short(high)}"
        for score, share, low, high in known
    )
    return marks.chart(height, title, told, parts, "narrow")


def bells(items: Sequence[Bell], *, title: str, unit: str = "") -> Markup:
    """Normal distributions one below the other, each over 3.5 standard deviations both ways."""
    items = [one for one in items if math.isfinite(one.mean) and 0 < one.std < math.inf]
    if not items:
        return marks.nothing(title)
    ends = [one.mean + side * 3.5 * one.std for one in items for side in (-1, 1)]
    scale, foot = ticks(min(0.0, *ends), max(0.0, *ends)), 62 * len(items) + 4
    parts = [*marks.axis(scale, foot), *marks.upright(place(0.0, scale), foot, "")]
    steps = [step / 8 for step in range(-28, 29)]
    for number, (label, mean, std) in enumerate(items):
        top = 62 * number
        hill = [(place(mean + z * std, scale), 34 - 32 * math.exp(-z * z / 2)) for z in steps]
        parts += [
            marks.stretched(top + 24, 34, marks.area(hill, "s1") + marks.curve(hill, "s1")),
            marks.text(0, top + 17, cut(label), "halo", 4),
            marks.text(1, top + 17, f"{short(mean)} ± {short(std)}", "end soft tabular halo"),
        ]
    told = "; ".join(
        f"{label}: mean {short(mean)}, standard deviation {short(std)}"
        for label, mean, std in items
    )
    return _with_unit(foot, title, told, parts, unit)


def _with_unit(foot: float, title: str, told: str, parts: list[Markup], unit: str) -> Markup:
    """The chart, with the unit of its axis at the right below the numbers."""
    named = [marks.text(1, foot + 34, unit, "end soft")] if unit else []
    return marks.chart(foot + (42 if unit else 26), title, told, [*parts, *named])


__all__ = [
    "RECORDS",
    "SQUARE",
    "WIDE",
    "BandedCurve",
    "Bell",
    "CalibrationBin",
    "DrawnInterval",
    "ForestRow",
    "banded",
    "bells",
    "calibration",
    "forest",
    "gauge",
    "guesses",
    "intervals",
    "lines",
    "said_in",
]
