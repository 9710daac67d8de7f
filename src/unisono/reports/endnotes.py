"""Attacks, how to do it again, and what a report does not say."""

import json
from collections.abc import Mapping
from typing import Any

from unisono.core.words import times
from unisono.reports.blocks import (
    Block,
    Code,
    FactList,
    Items,
    Laboratory,
    Part,
    ReportGrid,
    Text,
    shorter,
)
from unisono.reports.blocks import ReportHeading as Title
from unisono.reports.linkage import CAPTION, linkage_table, linkage_words
from unisono.reports.reading import RunReading

_HEADS = 12  # ledger heads that are shown


def attacks(reading: RunReading) -> Part | None:
    """What attacks and audits found; nothing where nobody tried."""
    found = reading.run.attacks
    if not found:
        return None
    blocks: list[Block] = []
    for name, document in found.items():
        if name == "laboratory":
            blocks.append(Laboratory(document))
        elif name == "audit":
            blocks += [Title("Audit"), *_audit(document)]
        elif name == "linkage":
            blocks += [Text(linkage_words(document)), ReportGrid(CAPTION, *linkage_table(document))]
        else:
            blocks.append(Code(str(name), _indented(document)))
    return Part("Attacks and audits", "attacks", blocks)


def _audit(found: Mapping[str, Any]) -> list[Block]:
    if "claim" not in found or "bound" not in found:
        return [Code("audit", _indented(found))]
    refuted = found.get("verdict") == "refuted"
    words = (
        f"An audit ran the study {times(int(found.get('runs', 0)), 'time')} in each of two worlds "
        f"that differ in one {found.get('unit', 'record')}, and showed that epsilon is at least "
        f"{found['bound']:.4g}; claimed is at most {found['claim']:.4g}. "
    )
    words += (
        "The claim is refuted: do not rely on this study."
        if refuted
        else "That does not refute the claim. It does not prove it either."
    )
    plain = [
        (key.replace("_", " "), str(value))
        for key, value in found.items()
        if isinstance(value, (str, int, float, bool))
    ]
    return [Text(words, "warning" if refuted else ""), FactList(plain)]


def reproduction(reading: RunReading) -> Part:
    """Hashes, versions, the command and the file itself."""
    run, given = reading.run, reading.certificate
    result = run.result or {}
    study = result.get("study") or given.get("study")
    pairs = [
        ("command", run.heading.command),
        ("study", str(study or "")),
        ("file", str(result.get("file") or (reading.file.hash if reading.file else ""))),
        ("versions", ", ".join(f"{name} {one}" for name, one in given.get("versions", {}).items())),
        ("checked", _checked(reading, study)),
    ]
    blocks: list[Block] = [
        Text(
            "The same study with fresh noise gives another result, about as good: noise that "
            "could be drawn again would protect nobody. What can be checked is that the study is "
            "the one that was agreed on, and that the ledgers hold what it cost."
        ),
        FactList([(name, words) for name, words in pairs if words]),
    ]
    heads = list((given.get("ledger_heads") or {}).items())
    if heads:
        shown, note = shorter(heads, _HEADS, "ledgers; the certificate has more")
        blocks += [
            Title("Heads of the parties' ledgers"),
            Text(
                "“unisono ledger verify --head” tells whether a ledger still goes back to its "
                "head: that nothing which was spent has been forgotten."
            ),
            FactList([(str(name), str(head)) for name, head in shown]),
            *note,
        ]
    if run.study:
        blocks.append(Code("The study file, study.toml", run.study))
    if run.certificate:
        blocks.append(Code("The certificate, certificate.json", _indented(run.certificate)))
    return Part("How to reproduce it", "reproduce", blocks)


def _checked(reading: RunReading, study: Any) -> str:
    """Whether the copy of the file still builds the study that ran."""
    if reading.built is None:
        return (
            ""
            if reading.run.study is None
            else ("this version of unisono cannot build the study from its file")
        )
    if not study:
        return ""
    if reading.built.study.hash == study:
        return "study.toml builds this very study"
    return "study.toml builds ANOTHER study here: it was changed, or the versions differ"


def limits() -> Part:
    """The threat model in a few lines."""
    return Part(
        "What this report does not say",
        "limits",
        [
            Items(
                [
                    "That the records were true. A party may lie about its records and spoil "
                    "the result.",
                    "That nothing can be concluded about people. If smokers fall ill more "
                    "often, this may "
                    "be learned, and then concerns smokers who never took part.",
                    "Anything about side channels: how long a machine took, or that it fell "
                    "silent.",
                    "Who took part: the list of parties is known to all of them and to the server.",
                    "What other releases of the same records show. Only what passed the "
                    "ledgers is counted; "
                    "whoever deletes a ledger forgets what was spent.",
                ]
            )
        ],
    )


def _indented(document: Any) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False)


__all__ = ["attacks", "limits", "reproduction"]
