"""HTML for notebooks: what an object shows of itself in a cell, by `_repr_html_`.

A notebook puts the pieces into a page of its own, which may be light or dark, whatever the reader's
system prefers. Text, rules and notes take the colour of the text around them, so that they can be
read in any theme; only marks have a colour of their own, a lighter one where the theme is known to
be dark. All rules of the style begin with the class `unisono` and touch nothing else in the page.
There are no scripts and nothing is loaded. Whatever is plain text is escaped; `Markup` is not.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from unisono.core.words import clean_lines

_LIGHT, _DARK = "#0072b2", "#56b4e9"  # Okabe and Ito's blues, told apart by all eyes
_WARNING = ("#a34a00", "#f0a35c")
# Jupyter (and its export), Visual Studio Code and Colab say what their theme is.
_DARK_THEMES = (
    '[data-jp-theme-light="false"]',
    ".vscode-dark",
    'html[theme="dark"]',
    '[data-theme="dark"]',
)
_LIGHT_THEMES = (
    '[data-jp-theme-light="true"]',
    ".vscode-light",
    'html[theme="light"]',
    '[data-theme="light"]',
)


def _colours(themes: Sequence[str], mark: str, warning: str) -> str:
    places = ",".join(f"{theme} .unisono" for theme in themes) or ".unisono"
    return f"{places}{{--unisono-mark:{mark};--unisono-warning:{warning}}}"


STYLE = Markup(
    "<style>"
    + _colours((), _LIGHT, _WARNING[0])
    + "@media(prefers-color-scheme:dark){"
    + _colours((), _DARK, _WARNING[1])
    + "}"
    + _colours(_LIGHT_THEMES, _LIGHT, _WARNING[0])
    + _colours(_DARK_THEMES, _DARK, _WARNING[1])
    + ".unisono{color:inherit;font:14px/1.45 system-ui,sans-serif;max-width:64em;"
    "overflow-x:auto}"
    ".unisono p{margin:.4em 0;max-width:52em}"
    ".unisono .unisono-title{font-weight:600;font-size:1.05em}"
    ".unisono .unisono-note{opacity:.78}"
    ".unisono .unisono-warning{border-left:3px solid var(--unisono-warning);padding-left:.7em;"
    "font-weight:600}"
    ".unisono table{border-collapse:collapse;border:0;margin:.5em 0;"
    "font-variant-numeric:tabular-nums;color:inherit;background:none}"
    ".unisono caption{caption-side:top;text-align:left;opacity:.78;padding:.2em 0}"
    ".unisono th,.unisono td{padding:.2em .8em .2em 0;text-align:right;vertical-align:top;"
    "border:0;color:inherit;white-space:normal}"
    ".unisono tr{background:none}"
    ".unisono th{font-weight:600}.unisono tbody th{font-weight:400}"
    ".unisono th:first-child,.unisono td:first-child,.unisono .unisono-words{text-align:left}"
    ".unisono .unisono-name{white-space:nowrap;opacity:.78}"
    ".unisono thead th{border-bottom:1px solid}"
    ".unisono tbody tr.unisono-part th{font-weight:600;padding-top:.7em}"
    ".unisono ol,.unisono ul{margin:.4em 0;padding-left:1.4em}"
    ".unisono summary{cursor:pointer;margin:.4em 0}"
    ".unisono code{color:inherit;background:none;font-size:.92em}"
    ".unisono svg{display:block;overflow:visible}"
    ".unisono .unisono-mark{stroke:var(--unisono-mark);fill:var(--unisono-mark)}"
    ".unisono .unisono-rule{stroke:currentColor;opacity:.35}"
    ".unisono .unisono-track{fill:currentColor;opacity:.15}"
    "</style>"
)
_SIMULATION = "A SIMULATION: the noise is predictable, so there is no privacy."


class ShownNumber(NamedTuple):
    """A number with its interval, in words and as it is drawn; not drawn where it is unknown."""

    label: str
    words: str
    span: str
    value: float | None
    low: float
    high: float


def shown(title: str, *parts: Markup | str, simulated: bool = False) -> str:
    """What a cell shows: a title and its parts, with their style."""
    warned = sentence(_SIMULATION, "warning") if simulated else Markup("")
    head = Markup('<p class="unisono-title">{}</p>').format(title) if title else Markup("")
    inner = Markup("").join(part for part in parts if part)
    made = Markup('{}<div class="unisono">{}{}{}</div>').format(STYLE, head, warned, inner)
    return clean_lines(str(made))


def sentence(words: str, kind: str = "") -> Markup:
    """A paragraph; `kind` is "note" or "warning". Nothing where there are no words."""
    named = Markup(' class="unisono-{}"').format(kind) if kind else ""
    return Markup("<p{}>{}</p>").format(named, words) if words else Markup("")


def sentences(words: Sequence[str]) -> Markup:
    """Numbered notes."""
    items = Markup("").join(Markup("<li>{}</li>").format(one) for one in words)
    return Markup('<ol class="unisono-note">{}</ol>').format(items) if words else Markup("")


def folded(title: str, *parts: Markup) -> Markup:
    """What is there for whoever opens it."""
    return Markup("<details><summary>{}</summary>{}</details>").format(
        title, Markup("").join(parts)
    )


def facts(pairs: Mapping[str, str | Markup]) -> Markup:
    """Names, and what is said of them; empty ones are left out."""
    rows = Markup("").join(
        Markup(
            '<tr><th scope="row" class="unisono-name">{}</th><td class="unisono-words">{}</td></tr>'
        ).format(*pair)
        for pair in pairs.items()
        if pair[1]
    )
    return Markup("<table><tbody>{}</tbody></table>").format(rows)


def grid(
    header: Sequence[str], rows: Sequence[Sequence[str | Markup]], caption: str = ""
) -> Markup:
    """A table whose first column names its rows. A row of one cell is the title of those below it;
    a shorter row's last cell is as wide as what is missing.

    >>> print(grid(["party", "epsilon"], [["<north>", "1.5"], ["south", "2"]]))
    <table><thead><tr><th scope="col">party</th><th scope="col">epsilon</th></tr></thead>\
<tbody><tr><th scope="row">&lt;north&gt;</th><td>1.5</td></tr>\
<tr><th scope="row">south</th><td>2</td></tr></tbody></table>
    """
    titles = Markup("").join(Markup('<th scope="col">{}</th>').format(one) for one in header)
    named = Markup("<caption>{}</caption>").format(caption) if caption else Markup("")
    body = Markup("").join(_row(row, len(header)) for row in rows)
    return Markup("<table>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(
        named, titles, body
    )


def _row(cells: Sequence[str | Markup], width: int) -> Markup:
    first, *others = cells
    if not others:
        return Markup(
            '<tr class="unisono-part"><th scope="rowgroup" colspan="{}">{}</th></tr>'
        ).format(width, first)
    made = [Markup("<td>{}</td>").format(one) for one in others]
    if len(cells) < width:
        wide = width - len(cells) + 1
        made[-1] = Markup('<td class="unisono-words" colspan="{}">{}</td>').format(wide, others[-1])
    return Markup('<tr><th scope="row">{}</th>{}</tr>').format(first, Markup("").join(made))


def intervals(numbers: Sequence[ShownNumber], header: Sequence[str], zero: bool) -> Markup:
    """Numbers with their intervals one below the other, drawn on one axis: with `zero` it begins
    there, or holds it."""
    if len(numbers) == 1:  # on an axis of its own a number lies nowhere
        return grid(header, [[one.label, one.words, one.span] for one in numbers])
    ends = [end for one in numbers for end in (one.low, one.high) if math.isfinite(end)]
    ends += [0.0] if zero else []
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    rows = [
        [one.label, one.words, one.span, _whisker(one, low, high, zero and low < 0)]
        for one in numbers
    ]
    return grid([*header, ""], rows)


def _whisker(one: ShownNumber, low: float, high: float, zero: bool) -> Markup:
    """An interval on an axis from `low` to `high`, which its neighbours share."""

    def across(value: float) -> str:
        share = (min(max(value, low), high) - low) / (high - low) if high > low else 0.5
        return f"{4 + 152 * share:.1f}"

    parts = [Markup('<line class="unisono-rule" x1="4" x2="156" y1="9" y2="9"/>')]
    if zero:
        middle = across(0.0)
        parts.append(
            Markup('<line class="unisono-rule" x1="{}" x2="{}" y1="1" y2="17"/>').format(
                middle, middle
            )
        )
    if math.isfinite(one.low) and math.isfinite(one.high):
        parts.append(
            Markup(
                '<line class="unisono-mark" stroke-width="3" x1="{}" x2="{}" y1="9" y2="9"/>'
            ).format(across(one.low), across(one.high))
        )
        if one.value is not None and math.isfinite(one.value):
            parts.append(
                Markup('<circle class="unisono-mark" cx="{}" cy="9" r="4"/>').format(
                    across(one.value)
                )
            )
    return _drawn(160, 18, f"{one.label}: {one.words} {one.span}", parts)


def gauge(used: float, limit: float, words: str) -> Markup:
    """How much of a limit is used."""
    share = 0.0 if math.isinf(limit) else 1.0 if not used < limit else max(used, 0.0) / limit
    parts = [
        Markup('<rect class="unisono-track" width="160" height="10" y="4" rx="2"/>'),
        Markup('<rect class="unisono-mark" width="{}" height="10" y="4" rx="2"/>').format(
            f"{160 * share:.1f}"
        ),
    ]
    return _drawn(160, 18, words, parts)


class ShownCurve(NamedTuple):
    """A curve with the ends of its band, at the same times (k,), and numbers at risk at some."""

    times: Sequence[float]
    values: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    at_risk: Sequence[tuple[float, float]] = ()


_DASHES = ("", "7 3", "2 3", "9 3 2 3", "1 4", "12 4")


def curves(named: Mapping[str, ShownCurve], x_label: str, y_label: str) -> Markup:
    """Curves from 0 to 1 with their bands, told apart by dashes, named below and, where there are
    any, with their numbers at risk under the times that these are of."""
    known = {name: own for name, own in named.items() if len(own.times) > 1}
    if not known:
        return Markup("")
    last = max(float(own.times[-1]) for own in known.values()) or 1.0
    left, top, width, height = 34, 8, 420, 170

    def at(time: float, value: float) -> str:
        down = top + height * (1 - min(max(value, 0.0), 1.0))
        return f"{left + width * time / last:.1f},{down:.1f}"

    parts: list[Markup] = []
    for level in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = top + height * (1 - level)
        parts.append(
            Markup(
                '<line class="unisono-rule" x1="{}" x2="{}" y1="{}" y2="{}"/>'
                '<text x="{}" y="{}" font-size="11" fill="currentColor" text-anchor="end">{}</text>'
            ).format(left, left + width, f"{y:g}", f"{y:g}", left - 5, f"{y + 4:g}", f"{level:g}")
        )
    for own, dashes in zip(known.values(), _DASHES * len(known), strict=False):
        around = [at(*pair) for pair in zip(own.times, own.high, strict=True)]
        around += [at(*pair) for pair in reversed(list(zip(own.times, own.low, strict=True)))]
        line = " ".join(at(*pair) for pair in zip(own.times, own.values, strict=True))
        parts.append(
            Markup(
                '<polygon points="{}" class="unisono-mark" stroke="none" stroke-width="0" '
                'fill-opacity=".16"/><polyline points="{}" class="unisono-mark" fill-opacity="0" '
                'stroke-width="2" stroke-dasharray="{}"/>'
            ).format(" ".join(around), line, dashes)
        )
    foot = top + height + 16
    for x, words, anchor in (
        (left, "0", "start"),
        (left + width / 2, x_label, "middle"),
        (left + width, f"{last:g}", "end"),
    ):
        parts.append(
            Markup(
                '<text x="{}" y="{}" font-size="11" fill="currentColor" text-anchor="{}">{}</text>'
            ).format(f"{x:g}", foot, anchor, words)
        )
    names = list(known) if len(known) > 1 else []
    for row, (name, dashes) in enumerate(zip(names, _DASHES * len(names), strict=False)):
        y = foot + 18 * (row + 1)
        parts.append(
            Markup(
                '<line class="unisono-mark" x1="{}" x2="{}" y1="{}" y2="{}" stroke-width="2" '
                'stroke-dasharray="{}"/><text x="{}" y="{}" font-size="12" fill="currentColor">'
                "{}</text>"
            ).format(left, left + 34, y - 4, y - 4, dashes, left + 42, y, name)
        )
    foot += 18 * len(names)
    if any(own.at_risk for own in known.values()):
        foot += 18
        parts.append(
            Markup('<text x="0" y="{}" font-size="11" fill="currentColor">{}</text>').format(
                foot, "at risk, with noise, at"
            )
        )
        longest = max(known.values(), key=lambda own: len(own.at_risk))
        lines = [[(time, f"{time:.3g}") for time, _ in longest.at_risk]]
        lines += [
            [(time, f"{number:.0f}") for time, number in own.at_risk] for own in known.values()
        ]
        for number, own_line in enumerate(lines):
            foot += 16
            if number and names:
                parts.append(
                    Markup(
                        '<line class="unisono-mark" x1="0" x2="22" y1="{}" y2="{}" '
                        'stroke-width="2" stroke-dasharray="{}"/>'
                    ).format(foot - 4, foot - 4, (_DASHES * len(names))[number - 1])
                )
            for time, words in own_line:
                parts.append(
                    Markup(
                        '<text x="{}" y="{}" font-size="11" fill="currentColor" '
                        'text-anchor="{}">{}</text>'
                    ).format(
                        f"{left + width * time / last:.1f}",
                        foot,
                        "end" if time > 0.97 * last else "middle",
                        words,
                    )
                )
    return sentence(y_label, "note") + _drawn(
        left + width + 8, foot + 6, f"{y_label} by {x_label}", parts
    )


def _drawn(width: float, height: float, words: str, parts: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg width="{}" height="{}" role="img" aria-label="{}" '
        'xmlns="http://www.w3.org/2000/svg">{}</svg>'
    ).format(f"{width:g}", f"{height:g}", words, Markup("").join(parts))


__all__ = [
    "STYLE",
    "ShownCurve",
    "ShownNumber",
    "curves",
    "facts",
    "folded",
    "gauge",
    "grid",
    "intervals",
    "sentence",
    "sentences",
    "shown",
]
