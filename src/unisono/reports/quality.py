"""How good the result is, where somebody measured it, and how the run went."""

from collections.abc import Mapping, Sequence
from typing import Any

from unisono.core.words import times
from unisono.reports.blocks import (
    Block,
    Curves,
    FactList,
    Intervals,
    Part,
    ReportGrid,
    Text,
    shorter,
)
from unisono.reports.charts import DrawnInterval
from unisono.reports.judged import judged_blocks
from unisono.reports.marks import short
from unisono.reports.reading import RunReading, listed, number, share
from unisono.reports.state import opened

_ABSENT = 20  # parties that missed rounds and are named


def quality(reading: RunReading) -> Part:
    """The score, with its interval, beside what needs no study at all."""
    given = reading.run.evaluation
    measured = [given, *given.get("also", ())] if given else []
    blocks = [block for one in measured for block in _measured(one)] or _nobody(reading)
    if measured and reading.tested is not None:
        blocks.append(
            Text(
                f"The private test asked records that were kept out of training, once, for epsilon "
                f"{reading.tested:g} under the same relation. What is guaranteed and the "
                "budgets below "
                "count it on top of the training.",
                "note",
            )
        )
    return Part("How good is it?", "quality", blocks)


def _measured(found: Mapping[str, Any]) -> list[Block]:
    if "metrics" in found:
        how = f"On {_many(found)} records: {found['how']}."
        return [*judged_blocks(found["metrics"], float(found["confidence"])), Text(how, "note")]
    name, value = str(found.get("measure", "score")), number(found["value"])
    low, high = (number(found.get(end, value)) for end in ("low", "high"))
    base = None if found.get("baseline") is None else number(found["baseline"])
    sure = share(found.get("confidence", 0.95))
    smaller_is_better = "error" in name
    # Errors are often skewed: a few large ones that were not met would move the mean.
    kind = f"rough {sure}" if smaller_is_better else sure
    rough = ", roughly: few records with large errors move it" if smaller_is_better else ""
    words = [
        f"Measured: {name} {short(value)}, between {short(low)} and {short(high)} with {sure} "
        f"confidence{rough}."
    ]
    if base is not None:
        beats = high < base if smaller_is_better else low > base
        loses = low > base if smaller_is_better else high < base
        verdict = "better than" if beats else "worse than" if loses else "not clearly better than"
        words.append(
            f"That is {verdict} {short(base)}, which whoever always gives the commonest "
            "or the mean answer reaches."
        )
    where = f"On {_many(found)} records" if found.get("records") else "Measured"
    return [
        Text(" ".join(words)),
        Intervals(
            f"{name[:1].upper()}{name[1:]}, with its {kind} interval",
            [DrawnInterval("this model", value, low, high)],
            reference=None if base is None else ("without any study", base),
        ),
        Text(f"{where}: {found['how']}." if found.get("how") else f"{where}.", "note"),
    ]


def _many(found: Mapping[str, Any]) -> str:
    about = "about " if found.get("records_noise") else ""
    return f"{about}{found['records']:,}"


def _nobody(reading: RunReading) -> list[Block]:
    if reading.file and not reading.file.model_kind.predicts:
        return [
            Text(
                "The intervals above say how far noise may have moved the result; there is "
                "nothing to predict, and so nothing else to measure."
            )
        ]
    return [
        Text("Nobody measured how well this result predicts, so nothing is said about it."),
        Text(
            "To measure it without cost, keep a file of public records apart and write file = "
            '"test.csv" under [evaluation] in the study file. To measure it on the parties\' own '
            "records, write holdout = 0.2 and epsilon = 0.5 there: a fifth of the records are "
            "kept out of training and asked once, with noise, for that much privacy.",
            "note",
        ),
    ]


def course(reading: RunReading) -> Part:
    """How the run went: who answered, and how the public result moved."""
    run = reading.run
    blocks: list[Block] = [FactList(_times(reading))]
    change = _curve(run.timeline, "change")
    score = _curve(run.timeline, "score")
    if len(change) > 1:
        blocks.append(
            Curves(
                "How far the public result still moved",
                {"change": change},
                "round",
                "length of the change since the line before",
                "A curve that comes to rest has learned what it can; one that does not is moved by "
                "noise, or needed more rounds.",
            )
        )
    if len(score) > 1:
        blocks.append(Curves("Score on public records", {"score": score}, "round", "score"))
    return Part("How the run went", "course", [*blocks, *_answered(reading)])


def _curve(timeline: Sequence[Mapping[str, Any]], key: str) -> list[tuple[float, float]]:
    return [
        (float(line["round"]), number(line[key])) for line in timeline if line.get(key) is not None
    ]


def _times(reading: RunReading) -> list[tuple[str, str]]:
    heading, progress = reading.run.heading, reading.run.progress or {}
    state = f"{heading.state}: {heading.error}" if heading.error else heading.state
    found = [
        ("state", state),
        (
            "where",
            {
                "in process": "all parties in one process",
                "party": f"at the party {heading.party or ''}".strip(),
            }.get(heading.engine, f"at the {heading.engine}"),
        ),
        ("began", _moment(heading.started)),
        ("ended", _moment(heading.ended)),
    ]
    done, total = opened(reading.run), progress.get("of")
    if done is None and total:
        found.append(("rounds", f"{progress['rounds']} of {total}"))
    elif done is not None:
        missing = f" of {total}; the others were left out" if total and done < int(total) else ""
        found.append(("opened", f"{times(done, 'round')}{missing}"))
    if progress.get("words"):
        found.append(("last words", str(progress["words"])))
    return [(name, words) for name, words in found if words]


def _moment(given: str | None) -> str:
    return (given or "").replace("T", " ").split(".")[0].split("+")[0].rstrip("Z") + (
        " UTC" if given else ""
    )


def _answered(reading: RunReading) -> list[Block]:
    asked = [line["answered"] for line in reading.run.timeline if line.get("answered") is not None]
    if not asked or not reading.names:
        return []
    missed = {name: sum(name not in names for names in asked) for name in reading.names}
    absent = sorted((name for name in missed if missed[name]), key=lambda name: -missed[name])
    if not absent:
        seen = " in the lines that were read" if reading.run.thinned else ""
        everyone = times(len(reading.names), "party", "parties")
        return [Text(f"All {everyone} answered every time{seen}.")]
    shown, note = shorter(absent, _ABSENT, "parties that missed rounds")
    rows = [[name, str(missed[name]), str(len(asked))] for name in shown]
    part = (
        ""
        if not reading.run.thinned
        else (" Counted are the latest lines of the timeline and an even sample of those before.")
    )
    return [
        Text(
            f"{listed(absent)} did not answer every time. A round that too few parties "
            "answer is not opened, and the noise is planned for the fewest that may answer."
            f"{part}"
        ),
        ReportGrid("Who missed answers", ["party", "missed", "of"], rows),
        *note,
    ]


__all__ = ["course", "quality"]
