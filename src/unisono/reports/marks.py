"""What charts are made of: SVG marks whose x is a share of the width and whose y is in pixels."""

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

LABEL = 34  # letters of a label that fit beside a number on a phone
Points = list[tuple[float, float]]
_FINE = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)  # round mantissas of ratios


def chart(height: float, title: str, told: str, parts: Sequence[Markup], kind: str = "") -> Markup:
    """An SVG as wide as its place, with its title and its numbers in words."""
    return Markup(
        '<svg class="chart{}" role="img" width="100%" height="{}" xmlns="http://www.w3.org/2000/svg">'
        "<title>{}</title><desc>{}</desc>{}</svg>"
    ).format(kind and f" {kind}", f"{height:g}", title, told, Markup("").join(parts))


def nothing(title: str) -> Markup:
    """A chart of nothing, which says so."""
    return chart(24, title, "nothing to draw", [text(0, 16, "nothing to draw", "soft")])


def text(x: float, y: float, words: str, kind: str = "", shift: int = 0) -> Markup:
    """Words at a share of the width, moved by `shift` pixels."""
    return Markup('<text x="{}" y="{}" dx="{}" class="{}">{}</text>').format(
        percent(x), f"{y:g}", shift, kind, words
    )


def rectangle(left: float, right: float, top: float, height: float, kind: str) -> Markup:
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" rx="2" class="{}"/>').format(
        percent(left), f"{top:g}", percent(max(right - left, 0.0)), f"{height:g}", kind
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(
        percent(x1), f"{y1:.5g}", percent(x2), f"{y2:.5g}", kind
    )


def dot(x: float, y: float, kind: str, radius: float = 4) -> Markup:
    return Markup('<circle cx="{}" cy="{}" r="{}" class="{}"/>').format(
        percent(x), f"{y:.5g}", f"{radius:g}", kind
    )


def stretched(top: float, height: float, inner: Markup) -> Markup:
    """Polygons and polylines, which need numbers: 1000 of them are the width."""
    return Markup(
        '<svg x="0" y="{}" width="100%" height="{}" viewBox="0 0 1000 {}" overflow="visible" '
        'preserveAspectRatio="none">{}</svg>'
    ).format(f"{top:g}", f"{height:g}", f"{height:g}", inner)


def curve(points: Points, kind: str) -> Markup:
    joined = " ".join(f"{1000 * x:.1f},{y:.2f}" for x, y in points)
    return Markup('<polyline class="curve stroke {}" points="{}"/>').format(kind, joined)


def area(points: Points, kind: str) -> Markup:
    joined = " ".join(f"{1000 * x:.1f},{y:.2f}" for x, y in points)
    return Markup('<polygon class="area fill {}" points="{}"/>').format(kind, joined)


def axis(
    scale: Sequence[float], foot: float, across: Callable[[float], float] | None = None
) -> list[Markup]:
    """Vertical grid lines with numbers below some of them, those at the ends inside the picture;
    `across` says where they lie, evenly unless told."""
    at = across or (lambda tick: place(tick, scale))
    parts = [line(at(tick), 0, at(tick), foot, "grid") for tick in scale]
    for tick in _labelled(scale):
        side = "" if tick == scale[0] else "end" if tick == scale[-1] else "middle"
        parts.append(text(at(tick), foot + 17, short(tick), f"soft tabular {side}"))
    return parts


def _labelled(scale: Sequence[float]) -> list[float]:
    """All of a few; of many every other one, zero among them, or one on a scale of ratios."""
    if len(scale) <= 5:
        return list(scale)
    middle = 0.0 if 0.0 in scale else 1.0 if scale[0] > 0 and 1.0 in scale else scale[0]
    even = scale.index(middle) % 2
    return [tick for number, tick in enumerate(scale) if number % 2 == even]


def upright(x: float, foot: float, words: str) -> list[Markup]:
    """A dashed vertical level, named above the chart's foot."""
    side, shift = ("end", -5) if x > 0.6 else ("", 5)
    named = [text(x, foot - 2, words, f"soft halo {side}", shift)] if words else []
    return [line(x, 0, x, foot, "reference"), *named]


def under(left: float, right: float, label: str, height: float) -> list[Markup]:
    """The ends of a horizontal axis, and its name between them."""
    low = height - 20
    return [
        text(0, low, short(left), "soft tabular"),
        text(0.5, low, label, "soft middle"),
        text(1, low, short(right), "soft tabular end"),
    ]


def legend(names: Sequence[str], top: float, palette: int) -> list[Markup]:
    """Each curve's dashes and name, a line for each."""
    parts: list[Markup] = []
    for number, name in enumerate(names):
        y = top + 18 * number
        kind = f"curve stroke s{number % palette + 1}"
        # A share of the width would stretch with it; a sample has the same length everywhere.
        parts.append(Markup('<path d="M0 {}h30" class="{}"/>').format(y - 4, kind))
        parts.append(text(0, y, cut(name, 44), "", 38))
    return parts


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that hold the range, about `count` steps of 1, 2 or 5 times a power of ten.

    >>> ticks(0.0, 1.97), ticks(-3.0, 12.0)
    ([0.0, 0.5, 1.0, 1.5, 2.0], [-5.0, 0.0, 5.0, 10.0, 15.0])
    """
    if not high > low:
        low, high = (low - 1, high + 1) if low == 0 else (low - abs(low) / 2, high + abs(low) / 2)
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round ratios, 1 among them, that hold the range: of a few sets the finest that needs no more
    than `most`. Ratios near 1 go by even steps.

    >>> log_ticks(0.97, 2.4), log_ticks(0.02, 30.0), log_ticks(0.97, 1.04)
    ([0.9, 1.0, 1.2, 1.5, 2.0, 2.5], [0.01, 0.1, 1.0, 10.0, 100.0], [0.96, 0.98, 1.0, 1.02, 1.04])
    """
    low, high = min(low, 1.0), max(high, 1.0)
    if high / low < 1.5:
        return ticks(low, high)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for within in (_FINE, (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
        marks = [float(f"{m}e{power}") for power in range(first, last + 1) for m in within]
        held = [mark for mark in marks if low < mark < high]
        held = [max(m for m in marks if m <= low), *held, min(m for m in marks if m >= high)]
        if len(held) <= most:
            return sorted({*held, 1.0})
    step = math.ceil((last - first) / (most - 2))
    return [10.0 ** (step * k) for k in range(math.floor(first / step), math.ceil(last / step) + 1)]


def place(value: float, scale: Sequence[float]) -> float:
    """Where a value lies on a scale, from 0 to 1."""
    return (value - scale[0]) / (scale[-1] - scale[0])


def share(value: float, limit: float) -> float:
    """How much of a limit is used, from 0 to 1; of an infinite one, nothing."""
    if math.isinf(limit):
        return 0.0
    return 1.0 if limit <= 0 or not value < limit else max(value, 0.0) / limit


def finite(points: Sequence[tuple[float, float]]) -> Points:
    return [(float(x), float(y)) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def percent(part: float) -> str:
    return f"{100 * part:.3f}".rstrip("0").rstrip(".") + "%"


def short(value: float) -> str:
    """A number as a chart shows it.

    >>> short(0.30000000000000004), short(12345.6), short(999.7), short(math.inf), short(-2e-7)
    ('0.3', '12,346', '1,000', 'infinite', '−2e−07')
    """
    if not math.isfinite(value):
        return "infinite" if value > 0 else "unknown"
    words = f"{value:,.0f}" if 999.5 <= abs(value) < 1e9 else f"{value:.3g}"
    return ("0" if words == "-0" else words).replace("-", "−")


def cut(label: str, letters: int = LABEL) -> str:
    """A label that fits."""
    return label if len(label) <= letters else label[: letters - 1] + "…"
