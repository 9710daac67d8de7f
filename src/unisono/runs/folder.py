"""A run as it lies in its folder: what its files are called, how they are written and read.

    run.json          what runs, where, since when, and how it ended (`Heading`)
    study.toml        what the parties agreed on
    progress.json     rounds done, and the last words
    timeline.jsonl    a line for each step: round, time, who answered, public numbers
    budgets.json      what each party's ledger says: before, now, and at most, by viewer
    result.json       the result in the user's words and units
    certificate.json  what is guaranteed against whom
    evaluation.json   how good the result is, where somebody measured it
    transcript.json   which messages each viewer saw: names, rounds and shapes, never records
    attacks.json      what attacks and audits found

A server's folder also has how long to wait (`JOB`), what travelled (`TRAFFIC`) and who was told
the result (`INFORMED`), a party's its place at the server (`NODE`) and the server's signature
(`SIGNATURE`).

All but run.json may be missing: a server knows no party's budget, and a run that has just begun
has no result. Nothing here was computed from records except through a paid release.

Every JSON document, and every line of the timeline, begins with its `format`. A document of another
format is refused by whoever needs it, and named by whoever only looks on (`read_run`); it is never
guessed at.
"""

import json
import os
import stat
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from unisono.core import journal
from unisono.core.documents import (
    ARRAYS,
    CERTIFICATE,
    RESULT,
    Document,
    loads,
    no_link,
    other_format,
)
from unisono.core.documents import write as write
from unisono.errors import InvalidInput

LINES = 2000  # of a timeline: the latest ones, and at most as many of those before
State = Literal["running", "finished", "failed"]


HEADING = Document("run.json", "unisono-run-1")
PROGRESS = Document("progress.json", "unisono-progress-1")
BUDGETS = Document("budgets.json", "unisono-budgets-1")
EVALUATION = Document("evaluation.json", "unisono-evaluation-1")
TRANSCRIPT = Document("transcript.json", "unisono-transcript-1")
ATTACKS = Document("attacks.json", "unisono-attacks-1")
JOB = Document("job.json", "unisono-job-1")
INFORMED = Document("informed.json", "unisono-informed-1")
LOTS_DRAWN = Document("lots.json", "unisono-lots-1")
TRAFFIC = Document("traffic.json", "unisono-traffic-1")
NODE = Document("node.json", "unisono-node-1")
SIGNATURE = Document("signature.json", "unisono-signature-1")

STUDY, ROSTER = "study.toml", "roster.toml"
TIMELINE, TIMELINE_FORMAT = "timeline.jsonl", "unisono-timeline-1"
CERTIFICATE_TEXT = "certificate.txt"
CHECKPOINT, SERVER_CHECKPOINT = "run.checkpoint", "server.checkpoint"
# There is a result, and its private test is not over.
PENDING = "evaluation.pending"
REPORT_HTML, REPORT_MARKDOWN, REPORT_JSON = "report.html", "report.md", "report.json"
TABLE_CSV = "table.csv"  # Table 1, for spreadsheets


def checkpoint_of(stage: str) -> str:
    """Where a stage stands that is not the one that learns."""
    return f"{stage}.checkpoint"


# What whoever looks on reads.
SHOWN = (HEADING, PROGRESS, BUDGETS, RESULT, CERTIFICATE, EVALUATION, TRANSCRIPT, ATTACKS)
SHOWN_FILES = (STUDY, TIMELINE, *(one.file for one in SHOWN))
# What a run that begins anew leaves nothing of: all but the study, and what it goes on from.
OUTCOME_FILES = (
    *(one.file for one in SHOWN),
    *(TIMELINE, ARRAYS, PENDING, CERTIFICATE_TEXT),
    *(REPORT_HTML, REPORT_MARKDOWN, REPORT_JSON, TABLE_CSV),
)


# ------------------------------------------------------------------ a run


@dataclass(frozen=True)
class Heading:
    """What every run says of itself, rewritten when its state changes. Times are ISO 8601, UTC.

    `simulated` is said from the beginning: seeded noise protects nobody.
    """

    title: str
    engine: Literal["in process", "server", "party", "laboratory"]
    state: State
    started: str
    ended: str | None = None
    party: str | None = None
    command: str = ""
    process: int | None = None
    error: str | None = None
    simulated: bool = False

    def write(self, folder: Path) -> None:
        HEADING.write(folder, asdict(self))


@dataclass(frozen=True)
class Run:
    """Everything that is known of a run; documents are plain JSON, None where there is none.

    Of a long timeline (`thinned`) the early lines are a sample.
    """

    folder: Path
    heading: Heading
    study: str | None = None
    progress: Mapping[str, Any] | None = None
    timeline: tuple[Mapping[str, Any], ...] = ()
    budgets: tuple[Mapping[str, Any], ...] | None = None
    result: Mapping[str, Any] | None = None
    certificate: Mapping[str, Any] | None = None
    evaluation: Mapping[str, Any] | None = None
    transcript: Mapping[str, Any] | None = None
    attacks: Mapping[str, Any] | None = None
    damaged: tuple[str, ...] = field(default=())
    thinned: bool = False


def read_run(folder: Path) -> Run:
    """The run in a folder, at any moment of its life; damaged parts are named, not guessed."""
    damaged: list[str] = []
    heading = HEADING.look(folder, damaged)
    if heading is None:
        cause = f" ({damaged[0]})" if damaged else ""
        raise InvalidInput(
            f"{folder} holds no run{cause}: give a folder that has a {HEADING.file} of this version"
        )
    try:
        first = Heading(**{name: value for name, value in heading.items() if name != "format"})
        _require_types(first)
    except TypeError:
        raise InvalidInput(
            f"{folder / HEADING.file} was written by another version of unisono: read it with that "
            "one"
        ) from None
    budgets = BUDGETS.look(folder, damaged)
    timeline, thinned = _lines(folder / TIMELINE, damaged)
    return Run(
        folder=folder,
        heading=first,
        study=_text(folder / STUDY, damaged),
        progress=PROGRESS.look(folder, damaged),
        timeline=timeline,
        thinned=thinned,
        budgets=None if budgets is None else _parties(budgets, damaged),
        result=RESULT.look(folder, damaged),
        certificate=CERTIFICATE.look(folder, damaged),
        evaluation=EVALUATION.look(folder, damaged),
        transcript=TRANSCRIPT.look(folder, damaged),
        attacks=ATTACKS.look(folder, damaged),
        damaged=tuple(damaged),
    )


def _parties(
    budgets: Mapping[str, Any], damaged: list[str]
) -> tuple[Mapping[str, Any], ...] | None:
    found = budgets.get("parties")
    if isinstance(found, list):
        return tuple(found)
    damaged.append(BUDGETS.file)
    return None


def _require_types(heading: Heading) -> None:
    """Everybody reads the heading first, and nobody looks again at what stands in it."""
    texts = (heading.title, heading.engine, heading.state, heading.started, heading.command)
    optional = (heading.ended, heading.party, heading.error)
    if (
        not all(isinstance(word, str) for word in texts)
        or not all(isinstance(word, str | None) for word in optional)
        or not isinstance(heading.process, int | None)
        or not isinstance(heading.simulated, bool)
    ):
        raise TypeError("a heading of another kind")


def find_runs(folder: Path, depth: int = 3) -> list[Path]:
    """Folders with a run, at most so deep; what may not be read is passed over, and a folder that
    several links lead to is looked through once."""
    found: list[Path] = []
    level, known = [folder], {os.path.realpath(folder)}
    for left in range(depth, -1, -1):
        found += [one for one in level if _is(one / HEADING.file, stat.S_ISREG)]
        inner = sorted(below for one in level for below in _below(one)) if left else []
        level = []
        for one in inner:
            if (real := os.path.realpath(one)) not in known:
                known.add(real)
                level.append(one)
    return sorted(found)


def _below(folder: Path) -> list[Path]:
    try:
        inner = [one for one in folder.iterdir() if one.name[0] != "."]
    except OSError:
        return []
    return [one for one in inner if _is(one, stat.S_ISDIR)]


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(path.stat().st_mode)
    except OSError:
        return False


def _text(path: Path, damaged: list[str]) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "no UTF-8"
        damaged.append(f"{path.name} ({cause})")
        return None


def append_line(folder: Path, line: Mapping[str, Any]) -> None:
    """One more line of the timeline, whole, after whole lines; what a killed writer left unfinished
    is ended first."""
    path = folder / TIMELINE
    try:
        with open(path, "ab+", opener=no_link) as file:
            if file.tell() and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
                file.truncate(path.read_bytes().rfind(b"\n") + 1)
            whole = {"format": TIMELINE_FORMAT, **line}
            file.write(json.dumps(whole, allow_nan=False).encode() + b"\n")
    except OSError as error:
        raise journal.unavailable(path, error) from None


def _lines(path: Path, damaged: list[str]) -> tuple[tuple[Mapping[str, Any], ...], bool]:
    """The latest lines and an even sample of those before, and whether it is a sample.

    Whole lines only: a writer may be in the middle of the last one. Lines of another format, and
    all after them, are left out and named.
    """
    early: list[bytes] = []
    latest: deque[bytes] = deque()
    left, every = 0, 1  # lines that have left the latest; one in so many of them is kept
    try:
        with path.open("rb") as file:
            for line in file:
                latest.append(line)
                if len(latest) <= LINES:
                    continue
                before = latest.popleft()
                if left % every == 0:
                    early.append(before)
                left += 1
                if len(early) > LINES:
                    early, every = early[::2], 2 * every
    except FileNotFoundError:
        return (), False
    except OSError as error:
        damaged.append(f"{path.name} ({error.strerror})")
        return (), False
    found = []
    for line in (*early, *latest):
        try:
            read = loads(line)
        except (ValueError, RecursionError):
            break
        if isinstance(read, dict) and read.get("format") != TIMELINE_FORMAT:
            damaged.append(f"{path.name} ({other_format(read, TIMELINE_FORMAT)})")
            break
        found.append(read)
    return tuple(found), every > 1
