"""A report as one HTML file, and the three files of a report in a run's folder."""

import json
from collections.abc import Mapping, Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

from markupsafe import Markup

from unisono.algorithms.table_layout import as_csv, parts
from unisono.errors import InvalidInput, LedgerUnavailable
from unisono.reports import blocks, charts, diagram
from unisono.reports.document import UNEXPECTED, Report, document, report, unshown
from unisono.reports.laboratory import laboratory_sections, read_pictures
from unisono.reports.markdown import markdown
from unisono.reports.page import Section, figure, page, render, table
from unisono.runs.folder import (
    REPORT_HTML,
    REPORT_JSON,
    REPORT_MARKDOWN,
    TABLE_CSV,
    Run,
    read_run,
    write,
)


def html(run: Run) -> str:
    """The report as one self-contained page."""
    found = report(run)
    made = sections(found, read_pictures(run.folder) if run.attacks else {})
    return page(found.title, made, subtitle=found.subtitle, notice=found.notice)


def sections(found: Report, pictures: Mapping[str, bytes] | None = None) -> list[Section]:
    """The parts of a report as sections of a page, with the laboratory's pictures if given."""
    made: list[Section] = []
    for part in found.parts:
        if any(isinstance(block, blocks.Laboratory) for block in part.blocks):
            made += _with_laboratory(part, pictures or {})
        else:
            made.append(Section(part.title, _body(part.blocks), part.anchor))
    return made


def _with_laboratory(part: blocks.Part, pictures: Mapping[str, bytes]) -> list[Section]:
    """The laboratory brings sections of its own; what else was found keeps the part's title."""
    others = [block for block in part.blocks if not isinstance(block, blocks.Laboratory)]
    made = [Section(part.title, _body(others), part.anchor)] if others else []
    for block in part.blocks:
        if isinstance(block, blocks.Laboratory):
            try:
                made += laboratory_sections(block.document, pictures)
            except UNEXPECTED as error:
                made.append(Section(part.title, _body([unshown(error)]), part.anchor))
    return made


def write_report(folder: Path) -> Path:
    """Write report.html, report.md and report.json into a run's folder, and a Table 1 as CSV for
    spreadsheets; returns the first."""
    run = read_run(folder)
    made = {REPORT_JSON: as_json(run), REPORT_MARKDOWN: markdown(run), REPORT_HTML: html(run)}
    made |= _spreadsheet(run)
    try:
        for name, text in made.items():
            write(folder / name, text.encode(errors="replace"))
    except LedgerUnavailable:
        raise InvalidInput(
            f"the report cannot be written into {folder}: make room there and make it writable, or "
            f"write it elsewhere with `unisono report {folder} --output FILE`"
        ) from None
    return folder / REPORT_HTML


def _spreadsheet(run: Run) -> dict[str, str]:
    """A Table 1; one that was written strangely is in the other files as far as it goes."""
    if not isinstance(run.result, Mapping) or "table" not in run.result:
        return {}
    try:
        return {TABLE_CSV: as_csv(run.result["table"])}
    except UNEXPECTED:
        return {}


def as_json(run: Run) -> str:
    return json.dumps(document(run), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


# ------------------------------------------------------------- blocks


def _body(parts: Sequence[blocks.Block]) -> Markup:
    return Markup("\n").join(_shown(block) for block in parts)


def _shown(block: blocks.Block) -> Markup:
    """A block, or words in its place: a number in a document may be one that cannot be drawn."""
    try:
        return drawn(block)
    except UNEXPECTED as error:
        return drawn(unshown(error))


@singledispatch
def drawn(block: Any) -> Markup:
    """A block as HTML; names and words in it are escaped."""
    raise TypeError(f"no way to draw {type(block).__name__}")


@drawn.register
def _(block: blocks.Text) -> Markup:
    if not block.words:
        return Markup("")
    if block.tone == "warning":
        return Markup('<p class="notice inner" role="note">{}</p>').format(block.words)
    kind = Markup(' class="{}"').format(block.tone) if block.tone else ""
    return Markup("<p{}>{}</p>").format(kind, block.words)


@drawn.register
def _(block: blocks.ReportHeading) -> Markup:
    return Markup("<h3>{}</h3>").format(block.words)


@drawn.register
def _(block: blocks.Items) -> Markup:
    return render("items.html", items=block.words)


@drawn.register
def _(block: blocks.FactList) -> Markup:
    return render("facts.html", pairs=block.pairs)


@drawn.register
def _(block: blocks.Tiles) -> Markup:
    return render("tiles.html", pairs=block.pairs)


@drawn.register
def _(block: blocks.ReportGrid) -> Markup:
    return table(block.header, block.rows, block.caption)


@drawn.register
def _(block: blocks.JournalTable) -> Markup:
    rows = [
        (label, inner, [(words, parts(interval)) for words, interval in cells])
        for label, inner, cells in block.rows
    ]
    return render("journal_table.html", caption=block.caption, header=block.header, rows=rows)


@drawn.register
def _(block: blocks.Code) -> Markup:
    return render("code.html", title=block.title, text=block.text)


@drawn.register
def _(block: blocks.Gauges) -> Markup:
    gauges = [
        charts.gauge(one.label, one.value, one.limit, words=one.words, before=one.before)
        for one in block.items
    ]
    return Markup('<div class="gauges">{}</div>').format(Markup("").join(gauges))


@drawn.register
def _(block: blocks.Guesses) -> Markup:
    return _titled(block, charts.guesses(block.right, title=block.title))


@drawn.register
def _(block: blocks.Curves) -> Markup:
    drawing = charts.lines(
        block.series,
        x_label=block.x_label,
        y_label=block.y_label,
        title=block.title,
        reference=block.reference,
        height=charts.SQUARE if block.square else charts.WIDE,
        kind="narrow" if block.square else "",
    )
    return _titled(block, drawing)


@drawn.register
def _(block: blocks.BandedCurves) -> Markup:
    drawing = charts.banded(
        block.curves, x_label=block.x_label, y_label=block.y_label, title=block.title
    )
    return _titled(block, drawing)


@drawn.register
def _(block: blocks.Intervals) -> Markup:
    drawing = charts.intervals(
        block.items, title=block.title, unit=block.unit, reference=block.reference
    )
    return _titled(block, drawing)


@drawn.register
def _(block: blocks.Calibration) -> Markup:
    return _titled(block, charts.calibration(block.bins, title=block.title))


@drawn.register
def _(block: blocks.Forest) -> Markup:
    drawing = charts.forest(block.rows, title=block.title, ratios=block.ratios, unit=block.unit)
    return _titled(block, drawing)


@drawn.register
def _(block: blocks.Bells) -> Markup:
    drawing = charts.bells(block.items, title=block.title, unit=block.unit)
    return _titled(block, drawing)


@drawn.register
def _(block: blocks.Flow) -> Markup:
    drawing = diagram.flow(block.trust, block.names, block.parties)
    return figure(drawing, diagram.told(block.trust, block.parties), block.caption)


def _titled(block: Any, drawing: Markup) -> Markup:
    """The chart under its title; who cannot see it hears its numbers."""
    title = Markup('<p class="chart-title">{}</p>').format(block.title)
    return Markup("<figure>{}{}{}</figure>").format(
        title,
        drawing,
        Markup("<figcaption>{}</figcaption>").format(block.caption) if block.caption else "",
    )


__all__ = ["as_json", "drawn", "html", "sections", "write_report"]
