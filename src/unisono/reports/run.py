"""A run as it lies in its folder, for reports and for whoever looks on while it runs.

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

All but run.json may be missing: a server knows no party's budget, and a run that has just begun
has no result. Nothing here was computed from records except through a paid release.
"""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from unisono.errors import InvalidInput

FORMAT = "unisono-run-1"
HEADING = "run.json"
LINES = 2000  # of a timeline: the latest ones, and at most as many of those before
State = Literal["running", "finished", "failed"]


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

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}


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
    heading = _document(folder / HEADING, damaged, dict)
    if heading is None or heading.pop("format", None) != FORMAT:
        raise InvalidInput(f"{folder} holds no run: give a folder that has a {HEADING}")
    try:
        first = Heading(**heading)
        _require_types(first)
    except TypeError:
        raise InvalidInput(
            f"{folder / HEADING} was written by another version of unisono: read it with that one"
        ) from None
    names = ("progress", "result", "certificate", "evaluation", "transcript", "attacks")
    documents = {name: _document(folder / f"{name}.json", damaged, dict) for name in names}
    budgets = _document(folder / "budgets.json", damaged, list)
    timeline, thinned = _lines(folder / "timeline.jsonl")
    return Run(
        folder=folder,
        heading=first,
        study=_text(folder / "study.toml"),
        timeline=timeline,
        thinned=thinned,
        budgets=None if budgets is None else tuple(budgets),
        damaged=tuple(damaged),
        **documents,
    )


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
    """Folders with a run, at most so deep; what may not be read is passed over."""
    try:
        own = [folder] if (folder / HEADING).is_file() else []
    except OSError:
        return []
    return own + _below(folder, depth)


def _below(folder: Path, depth: int) -> list[Path]:
    if depth == 0:
        return []
    try:
        inner = sorted(one for one in folder.iterdir() if one.is_dir() and one.name[0] != ".")
    except OSError:
        return []
    return [found for one in inner for found in find_runs(one, depth - 1)]


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _document(path: Path, damaged: list[str], kind: type) -> Any:
    """The document, if there is one of that kind."""
    text = _text(path)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, kind):
        damaged.append(path.name)
        return None
    return found


def _lines(path: Path) -> tuple[tuple[Mapping[str, Any], ...], bool]:
    """The latest lines and an even sample of those before, and whether it is a sample.

    Whole lines only: a writer may be in the middle of the last one.
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
    except OSError:
        return (), False
    found = []
    for line in (*early, *latest):
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError):
            break
    return tuple(found), every > 1


__all__ = ["FORMAT", "HEADING", "Heading", "Run", "State", "find_runs", "read_run"]
