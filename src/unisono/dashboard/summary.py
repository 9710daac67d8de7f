"""What a list says of a run, in a line."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unisono.dashboard import shapes
from unisono.dashboard.catalogue import CatalogueEntry, trouble
from unisono.dashboard.parties import alive, party_names, spending, worst
from unisono.reports.reading import who
from unisono.reports.state import opened, simulated
from unisono.runs.folder import Run

# A sign beside the word, so that colour is never alone.
SIGNS = {"running": "▶", "finished": "✓", "failed": "✕", "stopped": "■", "unreadable": "?"}


@dataclass(frozen=True)
class RunSummary:
    """Numbers are None where no document says them."""

    id: str
    title: str
    engine: str
    state: str
    folder: str
    started: str
    ended: str
    party: str
    rounds: int | None
    of: int | None
    opened: int | None
    answered: int | None
    parties: int | None
    spent: float | None
    budget: float | None
    spent_by: str
    spent_against: str
    words: str
    error: str
    simulated: bool
    report: bool

    @property
    def sign(self) -> str:
        return SIGNS[self.state]

    @property
    def left_out(self) -> bool:
        """Were fewer rounds opened than there were?"""
        return self.opened is not None and self.opened < (self.rounds or 0)

    @property
    def passed(self) -> int:
        """Rounds, without those that were left out."""
        return (self.opened if self.left_out else self.rounds) or 0

    def to_json(self) -> dict[str, Any]:
        return dict(shapes.strict(asdict(self)))

    def sentence(self) -> str:
        """Where the run stands, for those who listen.

        Said after every step, so it is short.
        """
        rounds = "" if self.of is None else f", {counted(self.passed, self.of, 'round')}"
        rounds += " opened" if rounds and self.left_out else ""
        heard = (
            ""
            if self.answered is None or self.parties is None
            else (f", {counted(self.answered, self.parties, 'party', 'parties')} answered")
        )
        unreal = " Simulation, no privacy." if self.simulated else ""
        return f"{self.state.capitalize()}{rounds}{heard}.{unreal}"


def summarise(entry: CatalogueEntry) -> RunSummary:
    """The line of a run, whatever state its folder is in."""
    if entry.run is None:
        return _unreadable(entry, entry.trouble)
    try:
        return _read(entry, entry.run)
    except Exception as error:  # whatever lies in a folder, the others are shown
        return _unreadable(entry, trouble(error))


def _unreadable(entry: CatalogueEntry, why: str) -> RunSummary:
    return RunSummary(
        id=entry.identifier,
        title=path_text(entry.folder.name),
        engine="",
        state="unreadable",
        folder=path_text(entry.folder),
        started="",
        ended="",
        party="",
        rounds=None,
        of=None,
        opened=None,
        answered=None,
        parties=None,
        spent=None,
        budget=None,
        spent_by="",
        spent_against="",
        words="",
        error=path_text(why),
        simulated=False,
        report=False,
    )


def path_text(path: str | Path) -> str:
    """A path, or words with one, as text that a page can hold: names of files need not be UTF-8."""
    return str(path).encode(errors="replace").decode()


def _read(entry: CatalogueEntry, run: Run) -> RunSummary:
    heading, progress = run.heading, shapes.mapping(run.progress)
    # What a simulation says it spent, nobody has.
    most = None if simulated(run) else worst(spending(run))
    failed = shapes.text(shapes.mapping(run.result).get("failed"))
    return RunSummary(
        id=entry.identifier,
        title=shapes.text(heading.title) or path_text(entry.folder.name),
        engine=shapes.text(heading.engine),
        state=entry.state,
        folder=path_text(entry.folder),
        started=shapes.text(heading.started),
        ended=shapes.text(heading.ended),
        party=shapes.text(heading.party),
        rounds=shapes.whole(progress.get("rounds")),
        of=shapes.whole(progress.get("of")),
        opened=opened(run),
        answered=alive(run),
        parties=len(party_names(run)) or None,
        spent=most.spent if most else None,
        budget=most.budget if most else None,
        spent_by=most.party if most else "",
        spent_against=who(most.viewer) if most else "",
        words=shapes.text(progress.get("words")),
        error=shapes.text(heading.error) or failed,
        simulated=simulated(run),
        report=entry.has_report,
    )


def counted(some: int, total: int, thing: str, things: str = "") -> str:
    """So many of so many.

    >>> counted(3, 20, "round"), counted(1, 1, "party", "parties")
    ('3 of 20 rounds', '1 of 1 party')
    """
    return f"{some} of {total} {thing if total == 1 else things or thing + 's'}"


def moment(value: str) -> str:
    """A time as people read it, in the time of this machine; what is no time stays as it is."""
    try:
        read = datetime.fromisoformat(value)
        read = (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone()
    except (ValueError, OverflowError):  # the first and the last year have no other zone
        return value
    return f"{read:%Y-%m-%d %H:%M}"
