"""The linkage attack as a table and a page. Reads the plain JSON of attacks.json."""

from collections.abc import Mapping
from typing import Any

from unisono.reports.page import Section, figure, page, paragraphs, table

PICTURE = "attack-linkage.png"
_HEADER = [
    "defence",
    "rows",
    "k",
    "given a name",
    "rightly",
    "outsider guesses",
    "insider guesses",
    "epsilon allows",
]
CAPTION = "Linkage: what a release without names leaves to whoever has a register with names"


def linkage_table(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows in words: for terminals, Markdown and reports."""
    rows = [
        [
            row["defence"],
            str(row["rows"]) if row["rows"] else "-",
            "-" if row["anonymity"] is None else str(row["anonymity"]),
            _share(row["matched"]),
            _share(row["reidentified"]),
            _share(row["outsider"]),
            _share(row["insider"]),
            _share(row["bound"]),
        ]
        for row in document["rows"]
    ]
    return list(_HEADER), rows


def linkage_words(document: Mapping[str, Any]) -> str:
    """What the columns are, and what they are measured against."""
    return (
        f"{document['patients']} patients of a synthetic town of {document['inhabitants']}, of "
        f"which {_share(document['unique'])} are unique by ZIP code, birth date and sex; "
        f"{_share(document['registered'])} are in the register. A blind guess of a diagnosis is "
        f"right {_share(document['baseline'])} of the time. An outsider has the register; an "
        "insider has the records of all other patients too. Shares are of all patients, k is of "
        "k-anonymity. Epsilon: replace-one, delta 0, one record, against everyone."
    )


def linkage_markdown(document: Mapping[str, Any]) -> str:
    header, rows = linkage_table(document)
    lines = [header, ["---"] * len(header), *rows]
    grid = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    return f"# Linkage attack\n\n{linkage_words(document)}\n\n{grid}"


def linkage_page(document: Mapping[str, Any], picture: bytes) -> str:
    """A page of its own, for the attack's run folder."""
    words = paragraphs(
        linkage_words(document),
        "Generalising and suppressing hinder who has only the register, and nobody who knows the "
        "other patients. Differential privacy bounds both, whatever they know.",
    )
    drawn = figure(
        picture,
        "For each defence the share of patients re-identified, and how often an outsider and an "
        "insider guess a diagnosis, beside the blind guess and what epsilon allows.",
        "The dashed line is a blind guess.",
    )
    sections = [
        Section("What was attacked", words, "linkage-say"),
        Section("What is left to the attackers", drawn, "linkage-picture"),
        Section("In numbers", table(*linkage_table(document), CAPTION), "linkage-table"),
    ]
    notice = "Quick: a smaller town, rougher numbers." if document["quick"] else ""
    return page("Linkage attack", sections, subtitle=f"seed {document['seed']}", notice=notice)


def _share(value: float | None) -> str:
    """
    >>> _share(0.873), _share(None)
    ('87.3 %', '-')
    """
    return "-" if value is None else f"{100 * value:.1f} %"


__all__ = [
    "CAPTION",
    "PICTURE",
    "linkage_markdown",
    "linkage_page",
    "linkage_table",
    "linkage_words",
]
