"""A report as data: notices, and sections of blocks.

Each section is made on its own, so that one damaged document costs one section and not the
report. `document` is all that the report says, as plain JSON.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, NamedTuple

from unisono.core.words import jsonable
from unisono.reports.blocks import Part, Text
from unisono.reports.endnotes import attacks, limits, reproduction
from unisono.reports.findings import findings
from unisono.reports.guarantees import guarantees
from unisono.reports.quality import course, quality
from unisono.reports.reading import RunReading
from unisono.reports.spending import growth, spending
from unisono.reports.state import SIMULATED, alive
from unisono.reports.summary import summary
from unisono.reports.viewers import viewers
from unisono.runs.folder import Run

FORMAT = "unisono-report-1"
_SECTIONS: Sequence[tuple[str, str, Callable[[RunReading], Part | None]]] = (
    ("Summary", "summary", summary),
    ("Result", "result", findings),
    ("How good is it?", "quality", quality),
    ("What is guaranteed", "guarantees", guarantees),
    ("What each adversary sees", "viewers", viewers),
    ("Budgets", "budgets", spending),
    ("Epsilon over the rounds", "rounds", growth),
    ("How the run went", "course", course),
    ("Attacks and audits", "attacks", attacks),
    ("How to reproduce it", "reproduce", reproduction),
)
# What reading a document of another shape may raise.
UNEXPECTED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
_LABORATORY = ("attacks",)  # a laboratory attacks no study, so there is nothing else to tell


class Report(NamedTuple):
    """Everything that a report says."""

    title: str
    subtitle: str
    notice: str
    parts: Sequence[Part]


def report(run: Run) -> Report:
    """The report of a run, at any moment of its life."""
    run = sound(run)
    reading = RunReading(run)
    wanted = [
        one for one in _SECTIONS if run.heading.engine != "laboratory" or one[1] in _LABORATORY
    ]
    parts = [_guarded(reading, *one) for one in wanted]
    title = run.heading.title or "A run without a title"
    made = [part for part in parts if part is not None]
    if run.heading.engine != "laboratory":
        made.append(limits())
    return Report(title, _subtitle(reading), _notice(reading), made)


def document(run: Run) -> dict[str, Any]:
    """Everything the report says, as plain JSON without NaN; infinity is the string "inf"."""
    run = sound(run)
    found = report(run)
    return {
        "format": FORMAT,
        "title": found.title,
        "subtitle": found.subtitle,
        "notice": found.notice,
        "run": asdict(run.heading),
        "damaged": list(run.damaged),
        "sections": [part.to_json() for part in found.parts],
        "documents": jsonable(
            {
                name: getattr(run, name)
                for name in (
                    "budgets",
                    "result",
                    "certificate",
                    "evaluation",
                    "transcript",
                    "attacks",
                )
            }
        ),
    }


def sound(run: Run) -> Run:
    """The run without documents of the wrong kind, which count as damaged."""
    tables = ("progress", "result", "certificate", "evaluation", "transcript", "attacks")
    wrong = [name for name in tables if not isinstance(getattr(run, name), Mapping | None)]
    lines = tuple(line for line in run.timeline if isinstance(line, Mapping))
    budgets = run.budgets
    if budgets is not None and not all(isinstance(one, Mapping) for one in budgets):
        wrong, budgets = [*wrong, "budgets"], None
    damaged = (*run.damaged, *(f"{name}.json" for name in wrong))
    gone: dict[str, Any] = dict.fromkeys(name for name in wrong if name != "budgets")
    return replace(run, timeline=lines, budgets=budgets, damaged=damaged, **gone)


def _guarded(
    reading: RunReading, title: str, anchor: str, make: Callable[[RunReading], Part | None]
) -> Part | None:
    """A section, or a section that says which it would have been."""
    try:
        return make(reading)
    except UNEXPECTED as error:
        return Part(title, anchor, [unshown(error)])


def unshown(error: Exception) -> Text:
    """In place of what a document of another shape would have said."""
    return Text(
        f"This section cannot be shown: a document in the folder is not as expected ({error!r}). "
        "Restore it from a backup, or run the study again.",
        "warning",
    )


def _subtitle(reading: RunReading) -> str:
    heading = reading.run.heading
    where = {
        "party": f"report of {heading.party or 'a party'}",
        "server": "report of the server",
        "laboratory": "attacks in the laboratory",
    }.get(heading.engine, "report")
    ended = heading.ended or heading.started
    return " · ".join(
        word for word in (where, heading.state, reading.algorithm, _day(ended)) if word
    )


def _day(moment: str) -> str:
    try:
        day = datetime.fromisoformat(moment)
    except ValueError:
        return ""
    return f"{day.day} {day:%B %Y}"


def _notice(reading: RunReading) -> str:
    """What must not be overlooked."""
    run, found = reading.run, []
    if reading.simulated:
        found.append(f"{SIMULATED} Do not run it on records that must stay private.")
    if run.heading.state == "running":
        there = alive(run.heading.process)
        found.append(
            "This run has not ended; the report shows how far it is."
            if there
            else "This run says that it is running, but its process is gone: it was stopped. "
            "The same command goes on where it stood."
        )
    if reading.failed:
        found.append(f"This run FAILED: {reading.failed}")
    if run.damaged:
        found.append(f"Damaged and left out: {', '.join(run.damaged)}.")
    return " ".join(found)


__all__ = ["FORMAT", "UNEXPECTED", "Report", "document", "report", "sound", "unshown"]
