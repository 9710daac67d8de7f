"""What a run's own page says, part by part; a part with nothing to say is left out.

The parts that a report has too (result, certificate, attacks) are the report's own.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from markupsafe import Markup

from unisono.dashboard import shapes
from unisono.dashboard.catalogue import PICTURES, content
from unisono.dashboard.parties import attendance, spending, viewers, worst
from unisono.dashboard.viewer_page import folded, seen
from unisono.reports.blocks import Laboratory, Part
from unisono.reports.charts import lines
from unisono.reports.document import Report, report
from unisono.reports.html import sections as report_sections
from unisono.reports.laboratory import laboratory_sections
from unisono.reports.marks import chart, rectangle, short
from unisono.reports.page import Section, paragraphs, table
from unisono.runs.folder import Run

MOST_STRIPS = 20
MOST_NAMED = 8  # rounds without an answer
MOST_STEPS = 400  # of a curve
MOST_ROWS = 100  # of its table
_PLACES = 20  # in a strip, so that the marks of the first rounds are no wider than later ones
_REPORTED = ("rounds", "result", "quality", "guarantees", "attacks")
_CURVES = {"change": "length of the change", "score": "score on public records"}
_Step = TypeVar("_Step")


def chosen(run: Run, wanted: str | None) -> str | None:
    """Whom the page is about: the one asked for, else the one who has seen most."""
    known, most = viewers(run), worst(spending(run))
    if wanted in known:
        return wanted
    return most.viewer if most else next(iter(known), None)


def sections(run: Run, viewer: str | None) -> list[Section]:
    """All parts, in the order in which people ask."""
    return [*seen(run, viewer), *answers(run), *curves(run), *reported(run)]


def reported(run: Run) -> list[Section]:
    """What a report says of the run too, in its words."""
    whole = report(run)
    parts = [part for part in whole.parts if part.anchor in _REPORTED and _says(run, part.anchor)]
    parts.sort(key=lambda part: _REPORTED.index(part.anchor))
    found: list[Section] = []
    for part in parts:
        try:
            found += _drawn(run, whole, part)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            words = f"A document of this part is not as expected ({error!r})."
            found.append(Section(part.title, paragraphs(words, kind="notice inner"), part.anchor))
    return found


def _drawn(run: Run, whole: Report, part: Part) -> list[Section]:
    """The report's sections; those of a laboratory with the pictures that lie in the folder."""
    laboratories = [block for block in part.blocks if isinstance(block, Laboratory)]
    others = [block for block in part.blocks if not isinstance(block, Laboratory)]
    pictures = {
        name: picture
        for name in (PICTURES if laboratories else ())
        if (picture := content(run.folder / name)) is not None
    }
    made = report_sections(whole._replace(parts=[replace(part, blocks=others)])) if others else []
    for block in laboratories:
        made += laboratory_sections(block.document, pictures)
    return made


def _says(run: Run, anchor: str) -> bool:
    """Until there is a result, nothing is said about it."""
    return anchor not in ("result", "quality") or run.result is not None


def answers(run: Run) -> list[Section]:
    """Who answered in which round, as a strip for each party."""
    rounds, found = attendance(run)
    if not found:
        return []
    shown = found if len(found) <= MOST_STRIPS else [one for one in found if one.missed]
    shown = shown[:MOST_STRIPS]
    rows = [
        [one.party, _strip(one.party, one.answered), _answered(rounds, one.answered)]
        for one in shown
    ]
    others = found[len(shown) :]
    missing = sum(one.missed > 0 for one in others)
    rest = (
        ""
        if not others
        else (
            f"{len(others) - missing} other parties answered every time"
            + (f", {missing} others did not." if missing else ".")
        )
    )
    caption = f"Answers, from round {rounds[0]} to {rounds[-1]}. A low mark is no answer."
    body = table(["party", "answers", "answered"], rows, caption) if rows else Markup("")
    return [Section("Parties", body + paragraphs(rest), "parties")]


def curves(run: Run) -> list[Section]:
    """Public numbers over the rounds: how far the result still moves, and its public score."""
    steps = _thinned(shapes.mappings(run.timeline), MOST_STEPS)
    found = {
        words: [
            (float(at), value)
            for step in steps
            if (at := shapes.whole(step.get("round"))) is not None
            and (value := shapes.number(step.get(name))) is not None
            and math.isfinite(value)
        ]
        for name, words in _CURVES.items()
    }
    drawn = [
        lines({words: points}, x_label="round", y_label=words, title=words.capitalize())
        for words, points in found.items()
        if len(points) > 1
    ]
    if not drawn:
        return []
    by_round: dict[float, list[str]] = {}
    for place, points in enumerate(found.values()):
        for number, value in points:
            by_round.setdefault(number, ["–", "–"])[place] = short(value)
    rows = [[short(number), *cells] for number, cells in sorted(by_round.items())]
    rows = _thinned(rows, MOST_ROWS)
    numbers = folded("The numbers as a table", table(["round", *found], rows, "By round"))
    return [
        Section(
            "Curves",
            Markup('<div class="pair">{}</div>{}').format(Markup("").join(drawn), numbers),
            "curves",
        )
    ]


# ------------------------------------------------------------- parts of parts


def _strip(party: str, answered: Sequence[bool]) -> Markup:
    """A mark for each line of the timeline: high where there is an answer, low where none."""
    width = 1 / max(len(answered), _PLACES)
    parts = [
        rectangle(
            (place + 0.08) * width,
            (place + 0.92) * width,
            0 if heard else 13,
            18 if heard else 5,
            "heard" if heard else "unheard",
        )
        for place, heard in enumerate(answered)
    ]
    told = f"{sum(answered)} of {len(answered)} answers"
    return Markup('<div class="strip">{}</div>').format(chart(18, f"{party}: {told}", told, parts))


def _answered(rounds: Sequence[int | None], answered: Sequence[bool]) -> str:
    missed = [str(r) for r, heard in zip(rounds, answered, strict=True) if not heard]
    more = f" and {len(missed) - MOST_NAMED} more" if len(missed) > MOST_NAMED else ""
    without = f", not in {', '.join(missed[:MOST_NAMED])}{more}" if missed else ""
    return f"{sum(answered)} of {len(answered)}{without}"


def _thinned(steps: Sequence[_Step], most: int) -> list[_Step]:
    """At most about so many, evenly, the last one always."""
    every = -(-len(steps) // most)
    return list(steps[::-1][:: max(every, 1)][::-1])
