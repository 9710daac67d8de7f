"""Table 1 as journals print it: plain text, CSV, Markdown and HTML, from its JSON.

Every cell is what is printed, as "53.1 (12.4)", and the intervals of its figures in the same order,
as "52.8 to 53.4 (12.1 to 12.7)". Numbers have as many digits as their intervals allow.
"""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from itertools import zip_longest
from textwrap import wrap
from typing import Any, NamedTuple

from unisono.algorithms.estimates import UNDETERMINED

DIFFERENCE = "SMD"
_MOST_PLACES = 6  # of decimals
_SECOND = re.compile(r" (?=[(\[])")  # before the intervals of the second figure
_BREAKS = re.compile(r" (?=[(\[])|(?<=,) ")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")


class Cell(NamedTuple):
    """What is printed, and the intervals of its figures."""

    words: str
    interval: str = ""


def parts(interval: str) -> list[str]:
    """The intervals of a cell, one by one: where a line may be broken.

    >>> parts("4,663 to 4,767 [1 to 2, 5 to 6]")
    ['4,663 to 4,767', '[1 to 2,', '5 to 6]']
    """
    return _BREAKS.split(interval) if interval else []


class LaidOutRow(NamedTuple):
    """A row: its name, whether it belongs to the variable above, and a cell for each column."""

    label: str
    inner: bool
    cells: tuple[Cell, ...]


class Layout(NamedTuple):
    """The whole table: names of the columns, rows, and what holds for all of it."""

    header: tuple[str, ...]
    rows: tuple[LaidOutRow, ...]
    note: str


# ------------------------------------------------------------------- figures


def decimals(low: float, high: float) -> int:
    """How many are worth printing: one digit of the interval's half-width.

    >>> decimals(52.8, 53.4), decimals(990.0, 1010.0), decimals(0.4512, 0.4518)
    (1, 0, 4)
    """
    half = (high - low) / 2
    if half <= 0:
        return _MOST_PLACES
    return min(_MOST_PLACES, max(0, -math.floor(math.log10(half) + 1e-9)))


def number(value: float, places: int) -> str:
    """With thousands apart from 10,000 on, as 1996 may be a year; and no zeros after a number that
    is exact.

    >>> number(1996.77, 2), number(12345.0, 0), number(3.0, 6)
    ('1996.77', '12,345', '3')
    """
    text = f"{value:,.{places}f}" if abs(value) >= 9999.5 else f"{value:.{places}f}"
    if places == _MOST_PLACES:
        text = text.rstrip("0").rstrip(".")
    return text.removeprefix("-") if not text.strip("-0.,") else text


def _value(one: Mapping[str, Any], scale: float = 1.0, most: int = _MOST_PLACES) -> str:
    if not one["determined"]:
        return UNDETERMINED
    places = decimals(scale * one["low"], scale * one["high"])
    return number(scale * one["value"], min(places, most))


def _span(one: Mapping[str, Any], scale: float = 1.0, most: int = _MOST_PLACES) -> str:
    low, high = scale * one["low"], scale * one["high"]
    places = min(decimals(low, high), most)
    # Ends are rounded outwards, so that what is printed holds as often as it says.
    step = 10.0**-places
    low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return f"{number(low, places)} to {number(high, places)}"


def count_cell(one: Mapping[str, Any]) -> Cell:
    """A count; it is whole."""
    if one["low"] == one["high"]:
        return Cell(f"{one['value']:,.0f}")
    low, high = math.ceil(one["low"] - 1e-9), math.floor(one["high"] + 1e-9)
    return Cell(f"{one['value']:,.0f}", f"{low:,} to {max(low, high):,}")


def _share_cell(count: Mapping[str, Any], share: Mapping[str, Any]) -> Cell:
    own = count_cell(count)
    said, span = _value(share, 100.0), _span(share, 100.0)
    percent = said if said == UNDETERMINED else f"{said} %"
    return Cell(f"{own.words} ({percent})", f"{own.interval} ({span} %)".strip() if span else "")


def _pair_cell(mean: Mapping[str, Any], deviation: Mapping[str, Any]) -> Cell:
    """Mean (SD)."""
    return Cell(f"{_value(mean)} ({_value(deviation)})", f"{_span(mean)} ({_span(deviation)})")


def _quartile_cell(quartiles: Sequence[Mapping[str, Any]], whole: bool) -> Cell:
    """Median [first quartile, third quartile]; of whole numbers whole ones."""
    first, median, third = quartiles
    most = 0 if whole else _MOST_PLACES
    return Cell(
        f"{_value(median, most=most)} [{_value(first, most=most)}, {_value(third, most=most)}]",
        f"{_span(median, most=most)} [{_span(first, most=most)}, {_span(third, most=most)}]",
    )


def _difference_cell(one: Mapping[str, Any] | None) -> Cell:
    if one is None:
        return Cell("")
    if not one["determined"]:
        return Cell(UNDETERMINED)
    places = max(2, decimals(one["low"], one["high"]))
    ends = (f"{max(0.0, one[end]):.{places}f}" for end in ("low", "high"))
    return Cell(f"{one['value']:.{places}f}", " to ".join(ends))


# ------------------------------------------------------------------- rows


def layout(table: Mapping[str, Any]) -> Layout:
    """The table's JSON as rows of cells."""
    compared = any("difference" in row and row["difference"] for row in table["rows"])
    rows = [LaidOutRow("Records, n", False, tuple(map(count_cell, table["records"])))]
    for variable in table["rows"]:
        made = list(_number_rows(variable) if "levels" not in variable else _level_rows(variable))
        if compared:
            empty = Cell("")
            own = [_difference_cell(variable.get("difference")), *[empty] * (len(made) - 1)]
            made = [row._replace(cells=(*row.cells, d)) for row, d in zip(made, own, strict=True)]
        rows += made
    if compared:
        rows[0] = rows[0]._replace(cells=(*rows[0].cells, Cell("")))
    header = ("", *table["columns"], *((DIFFERENCE,) if compared else ()))
    return Layout(header, tuple(rows), _note(table, compared))


def _number_rows(variable: Mapping[str, Any]) -> list[LaidOutRow]:
    name, rows = variable["variable"], []
    if "mean" in variable:
        cells = map(_pair_cell, variable["mean"], variable["deviation"])
        rows.append(LaidOutRow(f"{name}, mean (SD)", False, tuple(cells)))
    if "quantiles" in variable:
        whole, columns = variable["whole"], zip(*variable["quantiles"], strict=True)
        shown = tuple(_quartile_cell(quartiles, whole) for quartiles in columns)
        rows.append(LaidOutRow(f"{name}, median [quartiles]", False, shown))
    return rows + _missing(variable)


def _level_rows(variable: Mapping[str, Any]) -> list[LaidOutRow]:
    levels = variable["levels"]
    blank = tuple(Cell("") for _ in levels[0]["count"])
    rows = [LaidOutRow(f"{variable['variable']}, n (%)", False, blank)]
    for level in levels:
        cells = tuple(map(_share_cell, level["count"], level["share"]))
        rows.append(LaidOutRow(str(level["level"]), True, cells))
    return rows + _missing(variable)


def _missing(variable: Mapping[str, Any]) -> list[LaidOutRow]:
    if "missing" not in variable:
        return []
    return [LaidOutRow("missing", True, tuple(map(count_cell, variable["missing"])))]


def _note(table: Mapping[str, Any], compared: bool) -> str:
    words = [
        f"Below each figure its {table['confidence']:.0%} interval, for these records: it holds "
        "the noise that privacy added, and each holds by itself.",
        "SD: standard deviation. Shares are of the values that are there.",
    ]
    if table["by"] is not None:
        words.append("Overall figures are sums over the groups.")
    if compared:
        many = len(table["columns"]) > 3
        which = "between the two groups that differ most" if many else "between the groups"
        words.append(f"SMD: standardised mean difference {which}, without its sign.")
    if UNDETERMINED in repr(_words(table)):
        words.append(f"{UNDETERMINED.capitalize()}: the noise is larger than the figure.")
    if "ungrouped" in table:
        words.append("Records without a group count in the public number of all records alone.")
    return " ".join(words)


def _words(document: Any) -> list[str]:
    """Whether any figure is not determined, without laying out the table."""
    if isinstance(document, Mapping):
        own = [UNDETERMINED] if document.get("determined") is False else []
        return own + [word for inner in document.values() for word in _words(inner)]
    if isinstance(document, (list, tuple)):
        return [word for inner in document for word in _words(inner)]
    return []


# ------------------------------------------------------------------- forms


def as_text(table: Mapping[str, Any], width: int | None = None) -> str:
    """For a terminal: intervals below their figures, each on a line of its own where the table is
    wider than `width`."""
    made = layout(table)
    lines = _text_lines(made, apart=False)
    if width is not None and sum(_widths(lines)) + 2 * (len(made.header) - 1) > width:
        lines = _text_lines(made, apart=True)
    widths = _widths(lines)
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    body = [
        "  ".join(w.ljust(size) for w, size in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    note = wrap(made.note, max(60, min(len(rule), 100)))
    return "\n".join([rule, body[0], rule, *body[1:], rule, *note])


def _text_lines(made: Layout, apart: bool) -> list[Sequence[str]]:
    lines: list[Sequence[str]] = [made.header]
    for row in made.rows:
        label = f"  {row.label}" if row.inner else row.label
        lines.append((label, *(cell.words for cell in row.cells)))
        parts = [
            _SECOND.split(cell.interval, maxsplit=1) if apart else [cell.interval]
            for cell in row.cells
        ]
        below = zip_longest(*parts, fillvalue="")
        lines += [("", *words) for words in below if any(words)]
    return lines


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]


def as_csv(table: Mapping[str, Any]) -> str:
    """One row for each row of the table, and beside each column its intervals."""
    made = layout(table)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    sure = f"{table['confidence']:.0%} interval"
    header = [part for name in made.header[1:] for part in (name, f"{name}, {sure}")]
    writer.writerow(["", *map(_spreadsheet, header)])
    for row in made.rows:
        label = f"  {row.label}" if row.inner else row.label
        cells = [part for cell in row.cells for part in cell]
        writer.writerow([_spreadsheet(label), *cells])
    return text.getvalue()


def _spreadsheet(words: str) -> str:
    """Names that a spreadsheet does not take for a formula."""
    return "'" + words if words.lstrip()[:1] in ("=", "+", "-", "@") else words


def as_markdown(table: Mapping[str, Any]) -> str:
    """A table with intervals below their figures."""
    made = layout(table)
    lines = [_markdown_row(map(_plain, made.header)), _markdown_row(["---"] * len(made.header))]
    for row in made.rows:
        label = f"&nbsp;&nbsp;{_plain(row.label)}" if row.inner else f"**{_plain(row.label)}**"
        cells = (
            f"{_plain(cell.words)}<br>{_plain(cell.interval)}"
            if cell.interval
            else _plain(cell.words)
            for cell in row.cells
        )
        lines.append(_markdown_row([label, *cells]))
    return "\n".join([*lines, "", made.note, ""])


def _markdown_row(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(words: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(words.split()))


def as_html(table: Mapping[str, Any]) -> str:
    """A table for any page; classes are those of reports."""
    made = layout(table)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in made.header)
    rows = []
    for row in made.rows:
        kind = ' class="inner"' if row.inner else ""
        cells = "".join(
            f"<td>{escape(cell.words)}"
            + (f'<span class="interval">{_unbroken(cell.interval)}</span>' if cell.interval else "")
            + "</td>"
            for cell in row.cells
        )
        rows.append(f'<tr{kind}><th scope="row">{escape(row.label)}</th>{cells}</tr>')
    return (
        f'<table class="table-one"><thead><tr>{head}</tr></thead>\n<tbody>'
        + "\n".join(rows)
        + f"</tbody></table>\n<p>{escape(made.note)}</p>\n"
    )


def _unbroken(interval: str) -> str:
    return " ".join(f"<span>{escape(part)}</span>" for part in parts(interval))


# For pages without the style of reports, as notebooks and files of their own.
STYLE = (
    "<style>.table-one{border-collapse:collapse;font:14px/1.4 system-ui,sans-serif}"
    ".table-one thead th{border-top:2px solid;border-bottom:1px solid}"
    ".table-one tbody tr:last-child>*{border-bottom:2px solid}"
    ".table-one th,.table-one td{padding:.25em .9em .25em 0;text-align:left;vertical-align:top}"
    ".table-one tbody th{font-weight:600}.table-one .inner th{font-weight:400;padding-left:1.2em}"
    ".table-one .interval{display:block;font-size:.82em;opacity:.72}"
    ".table-one .interval span{white-space:nowrap}"
    ".table-one+p{font:14px/1.4 system-ui,sans-serif;max-width:52em;opacity:.78}</style>\n"
)

__all__ = [
    "STYLE",
    "Cell",
    "LaidOutRow",
    "Layout",
    "as_csv",
    "as_html",
    "as_markdown",
    "as_text",
    "layout",
    "parts",
]
