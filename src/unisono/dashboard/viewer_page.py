"""Through the eyes of one viewer: what a run costs against it, and what it saw."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from unisono.core.words import number as upper
from unisono.core.words import remaining, round_up
from unisono.dashboard import shapes
from unisono.dashboard.parties import Spent, spending
from unisono.reports.charts import gauge
from unisono.reports.marks import short
from unisono.reports.page import Section, paragraphs, table
from unisono.reports.reading import who
from unisono.reports.spending import histories
from unisono.reports.state import opened, simulated
from unisono.reports.viewers import COALITION, MESSAGES, left_out
from unisono.runs.folder import Run

MOST_GAUGES = 12
_UNREAL = (
    "A simulation: the noise comes from a seed, and whoever knows it subtracts the noise. Nothing "
    "is promised against anybody, and nothing was spent."
)
_NOT_ALL = "{} more in the table below."


def seen(run: Run, viewer: str | None) -> list[Section]:
    """Budgets against one viewer, and the messages it saw."""
    if viewer is None:
        return []
    cost = (
        paragraphs(_UNREAL, kind="notice inner")
        if simulated(run)
        else _guarantee(run, viewer) + _gauges(run, viewer) + _histories(run)
    )
    body = cost + _messages(run, viewer)
    return [Section(f"Through the eyes of {who(viewer)}", body, "viewer")]


def _guarantee(run: Run, viewer: str) -> Markup:
    """What the certificate promises against this viewer, in a sentence."""
    certificate = shapes.mapping(run.certificate)
    promises = [
        f"epsilon {_bound(line.get('epsilon'))} under {shapes.text(line.get('relation'))} "
        f"at delta {_bound(line.get('delta'))}"
        for line in shapes.mappings(certificate.get("guarantees"))
        if line.get("viewer") == viewer
    ]
    unit = shapes.text(certificate.get("unit")) or "record"
    words = f"For one {unit}, this run costs at most {'; '.join(promises)}."
    return paragraphs(words if promises else "")


def _bound(value: object) -> str:
    found = shapes.number(value)
    return "unknown" if found is None else upper(found)


def _gauges(run: Run, viewer: str) -> Markup:
    found = [one for one in spending(run) if one.viewer == viewer]
    if not found:
        return paragraphs(
            "No budgets here: what a party has spent stands in its own ledger.", kind="note"
        )
    if len(found) > MOST_GAUGES:  # those nearest to the end; a few keep their places
        found.sort(key=lambda one: (-one.share, -one.spent))
    drawn = Markup("").join(
        gauge(one.party, _up(one.spent), one.budget, before=_up(one.before), words=_left(one))
        for one in found[:MOST_GAUGES]
    )
    rows = [
        [
            one.party,
            short(_up(one.before)),
            short(_up(one.spent)),
            short(one.budget),
            one.relation,
            "–" if one.delta is None else short(one.delta),
        ]
        for one in found
    ]
    header = ["party", "releases before", "all releases", "budget", "relation", "delta"]
    numbers = folded(
        f"All {len(found)} budgets as a table" if len(found) > 1 else "The budget as a table",
        table(header, rows, f"Epsilon against {who(viewer)}"),
    )
    more = len(found) - MOST_GAUGES
    note = paragraphs(_NOT_ALL.format(more) if more > 0 else "", kind="note")
    return Markup('<h3>Budgets</h3><div class="gauges">{}</div>{}{}').format(drawn, note, numbers)


def _histories(run: Run) -> Markup:
    """Raises of budgets, and what this year has of them, as the certificate says."""
    found = histories(shapes.mapping(run.certificate))
    return Markup("").join(table(header, rows, title) for title, header, rows in found)


def _up(epsilon: float) -> float:
    """What was spent is an upper bound, so it is rounded up to the digits that are shown."""
    return round_up(epsilon, 3)


def _left(one: Spent) -> str:
    if math.isinf(one.spent):
        return "no protection"
    if math.isinf(one.budget):
        return "no limit agreed"
    return f"{remaining(one.left, 3)} left" if one.left > 0 else "used up"


def _messages(run: Run, viewer: str) -> Markup:
    messages = shapes.mappings(shapes.mapping(run.transcript).get("messages"))
    if not messages:
        return Markup("")
    total = shapes.whole(shapes.mapping(run.progress).get("of"))
    rows, hidden = [], []
    for message in messages:
        name = shapes.text(message.get("name"))
        name = MESSAGES.get(name, name)
        if _sees(viewer, shapes.names(message.get("viewers")) or []):
            rounds = _rounds(message.get("rounds"), total, opened(run))
            rows.append([name, rounds, _shape(message.get("shape"))])
        else:
            hidden.append(name)
    head = Markup("<h3>Messages it saw</h3>")
    body = table(["message", "rounds", "numbers in each"], rows, f"Seen by {who(viewer)}")
    unseen = ", ".join(dict.fromkeys(hidden))
    return (
        head
        + (body if rows else paragraphs("None."))
        + paragraphs(f"Hidden from it: {unseen}." if hidden else "", kind="note")
    )


def _sees(viewer: str, readers: Sequence[str]) -> bool:
    """Colluders see what the server and the parties see (core.transcript)."""
    if viewer.startswith("colluders"):
        return viewer in readers or not COALITION.isdisjoint(readers)
    return viewer in readers


def _rounds(value: object, total: int | None, done: int | None) -> str:
    """First and last round, counted from 1 as everywhere on the page."""
    ends = [shapes.whole(one) for one in value] if isinstance(value, list | tuple) else []
    known = [
        "the end" if total is not None and one >= total else str(one + 1)
        for one in ends
        if one is not None
    ]
    first, last = (ends[0], ends[-1]) if ends else (None, None)
    planned = last - first + 1 if first is not None and last is not None else 1
    missing = left_out(done, planned) if planned > 1 else ""
    return f"{' to '.join(dict.fromkeys(known))}{missing}" or "–"


def _shape(value: object) -> str:
    sizes = [shapes.whole(one) for one in value] if isinstance(value, list | tuple) else [None]
    return " × ".join("?" if one is None else str(one) for one in sizes) or "1"


def folded(words: str, body: Markup) -> Markup:
    """Something that is there for whoever wants it."""
    return Markup("<details><summary>{}</summary>{}</details>").format(words, body)


__all__ = ["folded", "seen"]
