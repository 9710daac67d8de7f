"""The certificate: in plain words, in numbers, and what it rests on."""

import math
from collections.abc import Sequence

from unisono.core.success import PHRASE
from unisono.core.trust import Relation
from unisono.core.words import number, one_in, promise_words, times
from unisono.reports.blocks import Block, Items, Part, ReportGrid, Text
from unisono.reports.blocks import ReportHeading as Title
from unisono.reports.reading import RunReading, ShownGuarantee, who
from unisono.reports.summary import split

RELATIONS = {
    "replace-one": "exchanged for any other",
    "zero-out": "values blanked out",
    "add-or-remove": "there or not",
}
SEES = {
    "final-model": "the result at the end, and nothing else",
    "iterates": "what is published in every round",
    "party": "what every party is sent, and its own records and noise",
    "network": "encrypted messages, and whatever is published",
}
_SERVER_SEES = {
    "local": "each party's message, which already holds all of its noise",
    "secure-sum": "masked numbers, of which only the noisy sum can be opened",
    "trusted-server": "each party's clean message, before noise is added",
}


def guarantees(reading: RunReading) -> Part:
    """Viewer by viewer, relation by relation."""
    if not reading.guarantees:
        return Part(
            "What is guaranteed",
            "guarantees",
            [
                Text(
                    "There is no certificate, and no study file to plan one from: nothing is "
                    "guaranteed.",
                    "warning",
                )
            ],
        )
    return Part(
        "What is guaranteed",
        "guarantees",
        [
            *_loud(reading),
            *_printed(reading),
            *([] if reading.simulated else _words(reading)),
            *_covered(reading),
            Title("In numbers"),
            _table(reading),
            Text(
                "“No protection” means that epsilon is infinite. All numbers are upper bounds and "
                "rounded up.",
                "note",
            ),
            Title("What it rests on"),
            Items(assumptions(reading)),
        ],
    )


def _loud(reading: RunReading) -> list[Block]:
    if reading.simulated:
        return [
            Text(
                "This run is a SIMULATION: its noise comes from a seed. The numbers below "
                "are those that the same run would have with real noise; as it is, nobody "
                "is protected.",
                "warning",
            )
        ]
    if reading.planned:
        return [Text("The run has no certificate yet. These are the numbers of its plan.", "note")]
    return []


def _printed(reading: RunReading) -> list[Block]:
    if not reading.printed:
        return []
    return [Text(f"{reading.printed[:1].upper()}{reading.printed[1:]}.", "warning")]


def _covered(reading: RunReading) -> list[Block]:
    if reading.tested is None:
        return []
    return [
        Text(
            f"Counted are the training and the private test (epsilon {reading.tested:g}), "
            "together.",
            "note",
        )
    ]


def _words(reading: RunReading) -> list[Block]:
    protects, exposes = split(reading)
    groups: dict[tuple[float, float], list[ShownGuarantee]] = {}
    for one in protects:
        groups.setdefault((one.epsilon, one.delta), []).append(one)
    blocks: list[Block] = [
        Text(_in_words(reading, epsilon, delta, members))
        for (epsilon, delta), members in groups.items()
    ]
    if exposes:
        names = "; ".join(who(one.viewer) for one in exposes)
        blocks.append(Text(f"Against {names}: no protection.", "warning"))
    return blocks


def _in_words(
    reading: RunReading, epsilon: float, delta: float, members: Sequence[ShownGuarantee]
) -> str:
    names = "; ".join(who(one.viewer) for one in members)
    promise = promise_words(epsilon, delta, reading.relation, reading.unit)
    return f"Against {names}: {promise[:1].lower()}{promise[1:]}"


def _table(reading: RunReading) -> ReportGrid:
    known = {(one.viewer, one.relation): one for one in reading.guarantees}
    relations = [str(r) for r in Relation if any(one.relation == r for one in reading.guarantees)]
    viewers = list(dict.fromkeys(one.viewer for one in reading.guarantees))
    asks = list(reading.success(()).questions)
    rows = []
    for viewer in viewers:
        found = [known.get((viewer, relation)) for relation in relations]
        delta = next(one.delta for one in found if one)
        promised = reading.promised.get(viewer)
        shown_to = reading.success([promised]).shown if promised else {}
        rows.append(
            [
                who(viewer),
                *(shown_to.get(asked, "–") for asked in asks),
                *(shown(one.epsilon) if one else "–" for one in found),
                one_in(delta) if delta else "0",
            ]
        )
    unit = {"record": "one record", "person": "all records of one person"}.get(
        reading.unit, "all data of one party"
    )
    real = "With real noise, not as it is: " if reading.simulated else ""
    return ReportGrid(
        f"{real}the {PHRASE}, by question; and epsilon of this run, at most, for {unit}",
        [
            "who looks",
            *asks,
            *(f"ε, {RELATIONS.get(one, one)}" for one in relations),
            "delta",
        ],
        rows,
    )


def shown(epsilon: float) -> str:
    return "no protection" if math.isinf(epsilon) else number(epsilon)


def sees(reading: RunReading, viewer: str) -> str:
    """What a viewer sees, by where noise is added."""
    server = _SERVER_SEES.get(reading.trust, "what the parties send it")
    if viewer == "server":
        return server
    if viewer.startswith("colluders"):
        many = times(int(viewer.partition(":")[2] or 1), "party", "parties")
        return f"{server}; and the records, noise and keys of {many}"
    return SEES.get(viewer, "what it is sent")


def assumptions(reading: RunReading) -> list[str]:
    """What has to be true for the certificate to be true."""
    given, found = reading.certificate, []
    survivors = given.get("minimum_parties") or (reading.file and reading.file.survivors)
    if reading.run.heading.engine == "in process":
        found.append(
            "All records lay on one machine while this ran. The numbers say what the "
            "messages and results show; whoever looks into that machine sees more."
        )
    if reading.trust == "secure-sum":
        many = times(reading.colluders, "party", "parties")
        found.append(
            f"In every round at least {survivors} of {reading.parties} parties answer, and the "
            f"server works together with at most {many}. The noise is shared out so that the sum "
            "keeps enough of it even then; with more colluders the promise to the others ends."
        )
    if given.get("secure_sum"):
        found.append(f"Secure sum: {given['secure_sum']}.")
    if reading.trust == "trusted-server":
        found.append(
            "The server is trusted with clean values: it must keep them to itself and "
            "add the noise that it promised."
        )
    if reading.trust == "local":
        found.append("Nobody needs to be trusted with noise: every party adds all of its own.")
    if given.get("transport"):
        found.append(f"Between machines it rests on {given['transport']}.")
    found += _declared(reading)
    found.append(
        "The public facts in the study file – bounds, sizes, names – were not chosen by "
        "looking at the records."
    )
    if not reading.simulated:
        found.append("The operating system's randomness cannot be foreseen.")
    return found


def _declared(reading: RunReading) -> list[str]:
    said, found = reading.certificate.get("declarations") or {}, []
    many, disjoint = said.get("records_per_person"), said.get("parties_disjoint")
    usual = ["each person has one record"] * (many == 1 and reading.unit == "record")
    usual += ["no person is at two parties"] * bool(disjoint)
    if usual:
        found.append(f"Assumed, unless a party's policy says otherwise: {' and '.join(usual)}.")
    if many is not None and many != 1 and reading.unit == "record":
        found.append(
            f"The parties declared that a person may have {many} records. The numbers protect "
            "one record; a person with several is protected like a group."
        )
    if disjoint is not None and not disjoint:
        found.append(
            "A person may be at several parties, and is then protected less than said here."
        )
    if queried := said.get("rows_of_queries"):
        found.append(
            f"Records of {', '.join(map(str, queried))} are the rows of a query of their own. What "
            "is promised holds for these rows: each has to be made of one person's entries alone."
        )
    return found


__all__ = ["assumptions", "guarantees", "sees", "shown"]
