"""What a physician on an ethics board reads first: what was learned, what is promised, what not."""

import math
from collections.abc import Mapping, Sequence

from unisono.core.success import question
from unisono.core.words import number, one_in, times
from unisono.reports.blocks import Block, Guesses, Part, Text, Tiles
from unisono.reports.marks import short
from unisono.reports.reading import RunReading, ShownGuarantee, listed, who
from unisono.reports.state import opened
from unisono.studies.schema import StudyFile

_SHORT = {
    "final-model": "the public that sees the result",
    "iterates": "whoever follows every round",
    "network": "an eavesdropper",
}


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
    planned = " (as planned)" if reading.planned else ""
    delta = f" at delta {one_in(worst.delta)}" if worst.delta else ""
    return (
        f"What is promised against {everyone}{planned}: {reading.success(protects).sentence} The "
        f"attack may use every other {reading.unit}. (Epsilon {number(worst.epsilon)}{delta}"
        f"{_covers(reading)}.){_people(reading)}"
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
    found = reading.success(protects)
    best = (
        "The best possible adversary may succeed almost always, in the worst case."
        if found.weak
        else "No adversary succeeds more often on average than the filled dots, whatever it knows "
        "and however much it computes."
    )
    asked = question(reading.relation, reading.unit)
    return Guesses(
        found.of_hundred,
        found.neighbors,
        f"Of 100 attacks that infer {asked}, 50 succeed by chance. {best}",
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


__all__ = ["learned", "split", "summary"]
