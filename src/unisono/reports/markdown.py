"""A report as Markdown: the same words and tables; charts become their numbers.

Names come from files of others: letters that Markdown or HTML would obey are escaped.
"""

import math
import re
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

from unisono.core.words import clean
from unisono.reports import blocks, diagram
from unisono.reports.document import UNEXPECTED, report, unshown
from unisono.reports.laboratory import summary_table
from unisono.reports.marks import short
from unisono.runs.folder import Run

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")


def markdown(run: Run) -> str:
    """The report as text."""
    found = report(run)
    lines = [f"# {plain(found.title)}", f"*{plain(found.subtitle)}*"]
    lines += [f"> **{plain(found.notice)}**"] if found.notice else []
    for part in found.parts:
        lines.append(f"## {plain(part.title)}")
        lines += [_shown(block) for block in part.blocks]
    return "\n\n".join(line for line in lines if line) + "\n"


def _shown(block: blocks.Block) -> str:
    """A block, or words in its place."""
    try:
        return written(block)
    except UNEXPECTED as error:
        return written(unshown(error))


def plain(words: Any) -> str:
    """Words on one line that mean nothing but themselves.

    >>> plain("<b>a|b</b>")
    '\\\\<b\\\\>a\\\\|b\\\\</b\\\\>'
    """
    return _SPECIAL.sub(r"\\\1", clean(" ".join(str(words).split())))


def grid(header: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = "") -> str:
    lines = [f"**{plain(caption)}**\n"] if caption else []
    lines += [_row(header), _row(["---"] * len(header), str)]
    return "\n".join([*lines, *(_row(row) for row in rows)])


def _row(cells: Sequence[Any], shown: Any = plain) -> str:
    return "| " + " | ".join(shown(cell) for cell in cells) + " |"


@singledispatch
def written(block: Any) -> str:
    """A block as Markdown."""
    raise TypeError(f"no way to write {type(block).__name__}")


@written.register
def _(block: blocks.Text) -> str:
    if not block.words:
        return ""
    return f"> **{plain(block.words)}**" if block.tone == "warning" else plain(block.words)


@written.register
def _(block: blocks.ReportHeading) -> str:
    return f"### {plain(block.words)}"


@written.register
def _(block: blocks.Items) -> str:
    return "\n".join(f"- {plain(one)}" for one in block.words)


@written.register(blocks.FactList)
@written.register(blocks.Tiles)
def _(block: blocks.FactList | blocks.Tiles) -> str:
    return "\n".join(f"- **{plain(name)}** {plain(words)}" for name, words in block.pairs)


@written.register
def _(block: blocks.ReportGrid) -> str:
    return grid(block.header, block.rows, block.caption)


@written.register
def _(block: blocks.JournalTable) -> str:
    lines = [f"**{plain(block.caption)}**\n", _row(block.header)]
    lines.append(_row(["---"] * len(block.header), str))
    for label, inner, cells in block.rows:
        name = f"&nbsp;&nbsp;{plain(label)}" if inner else f"**{plain(label)}**"
        said = [f"{plain(w)}<br>{plain(i)}" if i else plain(w) for w, i in cells]
        lines.append(_row([name, *said], str))
    return "\n".join(lines)


@written.register
def _(block: blocks.Code) -> str:
    longest = max((len(run) for run in re.findall(r"`+", block.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"**{plain(block.title)}**\n\n{fence}\n{block.text.rstrip()}\n{fence}"


@written.register
def _(block: blocks.Gauges) -> str:
    rows = [
        [one.label, short(one.before), short(one.value), short(one.limit), one.words]
        for one in block.items
    ]
    return grid(["party", "releases before", "all releases", "budget", ""], rows, "Budgets")


@written.register
def _(block: blocks.Guesses) -> str:
    return plain(f"{block.title}. {block.caption}")


@written.register
def _(block: blocks.Curves) -> str:
    points = sorted({x for series in block.series.values() for x, _ in series})
    shown = [x for k, x in enumerate(points) if k % math.ceil(len(points) / 20) == 0]
    shown = shown if not points or shown[-1] == points[-1] else [*shown, points[-1]]
    values = [dict(series) for series in block.series.values()]
    rows = [[short(x), *(short(own[x]) if x in own else "–" for own in values)] for x in shown]
    return grid([block.x_label, *block.series], rows, f"{block.title} ({block.y_label})")


@written.register
def _(block: blocks.Intervals) -> str:
    rows = [[one.label, *map(short, one[1:])] for one in block.items]
    if block.reference:
        rows.append([block.reference[0], short(block.reference[1]), "", ""])
    return grid(["", block.unit or "value", "low", "high"], rows, _title(block))


@written.register
def _(block: blocks.Calibration) -> str:
    rows = [[short(one.score), *map(short, one[1:])] for one in block.bins]
    return grid(["predicted", "share", "low", "high"], rows, _title(block))


@written.register
def _(block: blocks.BandedCurves) -> str:
    return ""  # tables of the same numbers follow


@written.register(blocks.Bells)
@written.register(blocks.Forest)
def _(block: blocks.Bells | blocks.Forest) -> str:
    return ""  # a table of the same numbers follows


@written.register
def _(block: blocks.Flow) -> str:
    return plain(f"{diagram.told(block.trust, block.parties)} {block.caption}")


@written.register
def _(block: blocks.Laboratory) -> str:
    try:
        return grid(*summary_table(block.document), "Defences against attacks, in the laboratory")
    except UNEXPECTED as error:
        return written(unshown(error))


def _title(block: Any) -> str:
    return f"{block.title}: {block.caption}" if block.caption else str(block.title)


__all__ = ["grid", "markdown", "plain", "written"]
