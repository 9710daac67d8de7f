"""A ledger for other programs, spreadsheets and reports."""

import csv
import io
import json
import math

from unisono.cli import words
from unisono.cli.ledger_reader import Book
from unisono.cli.ledger_text import history_words, policy_words, raise_words, rule_words
from unisono.core.trust import describe

COLUMNS = (
    "entry",
    "time",
    "purpose",
    "releases",
    "viewer",
    "what",
    "epsilon_alone",
    "delta",
)


def as_json(book: Book) -> str:
    """Everything, with full precision and every event."""
    return json.dumps(words.jsonable(book.to_json()), indent=2, ensure_ascii=False) + "\n"


def as_csv(book: Book) -> str:
    """One row for each entry and viewer."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in book.summary.entries:
        for viewer, history in entry.cost.items():
            writer.writerow(
                [
                    entry.number,
                    _cell(entry.time),
                    _cell(entry.purpose),
                    entry.releases,
                    viewer,
                    history_words(history),
                    words.jsonable(book.alone(entry, viewer)),
                    book.delta(viewer),
                ]
            )
    return text.getvalue()


def _cell(value: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    shown = words.clean(value)
    return "'" + shown if shown[:1] in ("=", "+", "-", "@") else shown


def as_markdown(book: Book) -> str:
    """A report for people: policy in words, spending, entries."""
    found = book.summary
    lines = [f"# Privacy ledger of {_inline(found.policy.dataset)}", ""]
    if found.simulated:
        lines += ["**Simulation: the noise is predictable; this protects no real data.**", ""]
    lines += [f"- {_inline(sentence)}" for sentence in policy_words(found.policy)]
    lines += [f"- {_inline(sentence)}" for sentence in raise_words(found)]
    lines += ["", "## Spent", ""]
    lines += [
        "| seen by | budget (guaranteed) | delta | left | these releases, had they been fixed in "
        "advance | grants |",
        "|---|---|---|---|---|---|",
    ]
    for s in book.spending:
        lines.append(
            f"| {describe(s.viewer)} | {words.number(s.budget.epsilon)} | {words.plain(s.delta)} | "
            f"{math.floor(100 * s.left.share)} % | {words.number(s.epsilon)} | {s.grants} |"
        )
    lines += ["", *rule_words(book)]
    lines += ["", "## Entries", ""]
    lines += [
        "| entry | time | purpose | releases | seen by | what | epsilon alone |",
        "|---|---|---|---|---|---|---|",
    ]
    for entry in found.entries:
        for viewer, history in entry.cost.items():
            lines.append(
                f"| {entry.number} | {_inline(entry.time)} | {_inline(entry.purpose)} | "
                f"{entry.releases} | {describe(viewer)} | {history_words(history)} | "
                f"{words.number(book.alone(entry, viewer))} |"
            )
    return "\n".join([*lines, "", f"Head of the chain: `{book.head}`", ""])


def _inline(value: str) -> str:
    """Text that stays inside its cell."""
    return words.clean(value).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
