"""What a physician on an ethics board reads first: what was learned, what is promised, what not."""

import math
from collections.abc import Mapping, Sequence

from unisono.core.trust import Relation
from unisono.core.words import number, one_in, percent, times
from unisono.reports.blocks import Block, Guesses, Part, Text, Tiles
from unisono.reports.marks import short
from unisono.reports.reading import RunReading, ShownGuarantee, listed, who
from unisono.reports.state import opened
from unisono.studies.schema import StudyFile

_TELLS = {
    (Relation.REPLACE_ONE, "record"): "which of two possible records was the one that was used",
    (Relation.ZERO_OUT, "record"): "whether the values of one record were used or blanked out",
    (Relation.ADD_OR_REMOVE, "record"): "whether one record was among those used",
    (Relation.REPLACE_ONE, "person"): "which of two possible persons, with all of their records, "
    "was the one whose records were used",
    (Relation.ZERO_OUT, "person"): "whether all records of one person were used or blanked out",
    (Relation.ADD_OR_REMOVE, "person"): "whether one person's records were among those used",
    (Relation.REPLACE_ONE, "party"): "which of two data sets one party gave",
    (Relation.ZERO_OUT, "party"): "whether one party's whole data were used or blanked out",
    (Relation.ADD_OR_REMOVE, "party"): "whether one party took part",
}
_SHORT = {
    "final-model": "the public that sees the result",
    "iterates": "whoever follows every round",
    "network": "an eavesdropper",
}
_ALMOST = 0.99  # a best guess that is right so often is hardly hindered


def summary(reading: RunReading) -> Part:
    """One paragraph, one picture, a few figures."""
    protects, exposes = split(reading)
    blocks: list[Block] = [Text(_learned(reading), "lead")]
    blocks += [
        Text(words) for words in (_promise(reading, protects), _not(reading, exposes)) if words
    ]
    if protects and not reading.simulated:
        blocks.append(_picture(reading, protects))
    figures = _figures(reading, protects)
    return Part("Summary", "summary", [*blocks, *([Tiles(figures)] if figures else [])])


def split(reading: RunReading) -> tuple[list[ShownGuarantee], list[ShownGuarantee]]:
    """Against whom there is a promise, the weakest first, and against whom there is none."""
    known = reading.promised.values()
    protects = sorted((g for g in known if math.isfinite(g.epsilon)), key=lambda g: -g.epsilon)
    return protects, [g for g in known if math.isinf(g.epsilon)]


def tells(reading: RunReading) -> str:
    """What an adversary would like to tell, as the study's relation and unit say."""
    given = (reading.relation, reading.unit)
    return next(
        (words for key, words in _TELLS.items() if tuple(map(str, key)) == given),
        f"two neighbouring data sets apart ({reading.relation})",
    )


def _learned(reading: RunReading) -> str:
    state, file = reading.run.heading.state, reading.file
    verb = {"running": "are learning", "finished": "learned"}.get(state, "tried to learn")
    if reading.failed:
        verb = "tried to learn"
    if file is None:
        many = times(reading.parties, "party", "parties") if reading.parties else "The parties"
        way = f" by {reading.algorithm}" if reading.algorithm else ""
        return f"{many} {verb} together{way}. The study file is missing, so no more can be said."
    records = sum(party.records for party in file.parties)
    about = "about " if file.data.sizes == "hidden" else ""
    units = "records" if file.data.person is None else "persons"
    names = listed(file.names)
    return (
        f"{times(len(file.names), 'party', 'parties')} ({names}) with {about}{records:,} {units} "
        f"{verb} {learned(_listed(file, reading))}. {_kept(reading)}"
    )


def _listed(file: StudyFile, reading: RunReading) -> StudyFile:
    """The file with the values that were found and paid for, where the result says which."""
    found = (reading.run.result or {}).get("private_values")
    if not isinstance(found, Mapping):
        return file
    names = {
        name: tuple(map(str, found[name]))[: column.most]
        for name, column in file.data.unlisted.items()
        if isinstance(found.get(name), list | tuple)
    }
    return file.model_copy(update={"data": file.data.within(names)})


def learned(file: StudyFile) -> str:
    """What a study learns, in plain words."""
    return file.model_kind.learns(file.model_settings, file.data)


def _kept(reading: RunReading) -> str:
    alone = reading.run.heading.engine == "in process"
    stayed = "All records lay on one machine" if alone else "No record left its party"
    return {
        "local": f"Every party added noise to what it sent. {stayed}.",
        "secure-sum": f"Only noisy sums over all parties were opened. {stayed}.",
        "trusted-server": "The parties sent clean values to the server, which added the noise "
        "before anything was published.",
    }.get(reading.trust, "")


def _promise(reading: RunReading, protects: Sequence[ShownGuarantee]) -> str:
    if not protects:
        return (
            ""
            if not reading.guarantees
            else ("Nobody is promised anything: against every viewer epsilon is infinite.")
        )
    if reading.simulated:
        return ""
    worst = protects[0]
    everyone = "; ".join(_short_name(one.viewer) for one in protects)
    will = "will be" if reading.planned else "is"
    weak = " That is almost no protection in the worst case." if worst.guess >= _ALMOST else ""
    delta = f" at delta {one_in(worst.delta)}" if worst.delta else ""
    other = "person's records" if reading.unit == "person" else "record"
    return (
        f"What is promised: whoever looks on ({everyone}), even knowing every other {other}, and "
        f"has to tell {tells(reading)}, {will} right at most {percent(worst.guess)} of the time. "
        f"Tossing a coin is right 50 % of the time. (Epsilon {number(worst.epsilon)}{delta}"
        f"{_covers(reading)}.){weak}{_people(reading)}"
    )


def _covers(reading: RunReading) -> str:
    return "" if reading.tested is None else ", for the training and the private test together"


def _people(reading: RunReading) -> str:
    """The promise is for one record; a person may have more of them."""
    if reading.unit == "person":
        return _whole_persons(reading)
    if reading.unit != "record":
        return ""
    said = reading.certificate.get("declarations") or {}
    many, disjoint = said.get("records_per_person"), said.get("parties_disjoint")
    if many is None or disjoint is None:
        return " This is about one record: a person with several records is protected less."
    words = (
        ""
        if many == 1
        else (
            f" This is about one record: the parties declared that a person may have {many}, "
            "and such "
            f"a person is protected about {many} times less (epsilon up to {many} times as large)."
        )
    )
    if not disjoint:
        words += (
            " A person may also be at several parties, and is then protected less by as many times."
            if words
            else " This is about one record: a person may be at several parties, and with "
            "a record at k of them is protected about k times less."
        )
    return words


def _whole_persons(reading: RunReading) -> str:
    """The promise is for all records of a person, at as many parties as the study says."""
    data = None if reading.file is None else reading.file.data
    if data is None:
        return " This is about a person, with all of its records at a party."
    column = f" (by the column {data.person})"
    if data.person_at_parties > 1:
        return (
            f" This is about a person{column}, with all of its records at up to "
            f"{data.person_at_parties} parties."
        )
    return (
        f" This is about a person{column}, with all of its records at one party: whoever is at "
        "several is protected less."
    )


def _short_name(viewer: str) -> str:
    return _SHORT.get(viewer) or who(viewer)


def _not(reading: RunReading, exposes: Sequence[ShownGuarantee]) -> str:
    if reading.simulated:
        return (
            "What is NOT promised: anything. This is a simulation with seeded noise, which "
            "whoever knows the seed can subtract."
        )
    against = [who(one.viewer) for one in exposes]
    if reading.trust == "secure-sum":
        many = times(reading.colluders, "party", "parties")
        against.append(f"the server together with more than {many}")
    against += ["whoever controls the machine on which the records lie"]
    if reading.unit != "party":
        against.append("conclusions about groups of people, which are the purpose of the study")
    return f"What is NOT promised: protection against {'; '.join(against)}."


def _picture(reading: RunReading, protects: Sequence[ShownGuarantee]) -> Guesses:
    right = protects[0].guess
    best = (
        "The best possible adversary may get almost all of them right, in the worst case."
        if right >= _ALMOST
        else "No adversary gets more right on average than the filled dots, whatever it knows and "
        "however much it computes."
    )
    return Guesses(
        f"Of 100 guesses, at most {percent(right).removesuffix(' %')} are right on average",
        right,
        f"Of 100 attempts to tell {tells(reading)}, coin tosses get 50 right. {best}",
    )


def _figures(reading: RunReading, protects: Sequence[ShownGuarantee]) -> list[tuple[str, str]]:
    run, found = reading.run, []
    if protects and not reading.simulated:
        worst = protects[0]
        alike = len({one.epsilon for one in reading.promised.values()}) == 1
        against = "everyone who looks on" if alike else who(worst.viewer)
        words = f"at most, at δ {one_in(worst.delta)}, against {against}"
        found.append((f"ε {number(worst.epsilon)}", words))
    if reading.file is not None:
        records = sum(party.records for party in reading.file.parties)
        found.append((f"{records:,}", f"records of {times(reading.parties, 'party', 'parties')}"))
    if run.progress and run.progress.get("of"):
        done = opened(run)
        some, what = (run.progress["rounds"], "rounds") if done is None else (done, "rounds opened")
        found.append((f"{some} of {run.progress['of']}", what))
    measured = run.evaluation
    if measured and isinstance(measured.get("value"), (int, float)):
        found.append((short(float(measured["value"])), str(measured.get("measure", "score"))))
    return found


__all__ = ["learned", "split", "summary", "tells"]
