"""Which runs lie under the folders that were given, each by an opaque identifier.

A browser never names a path: it names a run by the hash of its folder, and only folders that were
found here have one. What a link leads to outside the given folders is not shown, and documents
that are links, pipes or devices are not opened.
"""

import hashlib
import math
import os
import stat
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from unisono.errors import UnisonoError
from unisono.reports.laboratory import AXIS, GRID
from unisono.reports.state import alive
from unisono.runs.folder import REPORT_HTML, SHOWN_FILES, Run, State, find_runs, read_run

PICTURES = (GRID, AXIS)  # of an attack laboratory
_LARGEST = 64 * 2**20  # bytes of one document
_RESCAN = 1.0  # seconds between looks for new folders


@dataclass(frozen=True)
class CatalogueEntry:
    """A run as it was when last read; `trouble` says why there is no `run`.

    `version` changes whenever a file of the run does.
    """

    identifier: str
    folder: Path
    run: Run | None
    trouble: str = ""
    has_report: bool = False
    version: str = ""

    @property
    def state(self) -> str:
        """running, finished, failed, stopped (running, says the file; nobody does) or unreadable.

        Processes are asked anew each time: that one has died changes no file.
        """
        if self.run is None:
            return "unreadable"
        state, process = self.run.heading.state, self.run.heading.process
        if state == "running" and not alive(process):
            return "stopped"
        return state if state in get_args(State) else "unreadable"


class Catalogue:
    """Runs under some folders; a run is read again only where one of its files has changed."""

    def __init__(self, folders: Sequence[Path], rescan: float = _RESCAN) -> None:
        self.folders = tuple(folder.resolve() for folder in folders)
        self._rescan = rescan
        self._lock = threading.Lock()
        self._next_look = -math.inf
        self._found: dict[str, Path] = {}
        self._read: dict[str, CatalogueEntry] = {}

    def entries(self) -> list[CatalogueEntry]:
        """Every run there is: those that run first, then the youngest."""
        with self._lock:
            self._look()
            found = list(self._found.items())
        entries = [self._entry(name, folder) for name, folder in found]
        entries.sort(key=_started, reverse=True)
        return sorted(entries, key=lambda one: one.state != "running")

    def entry(self, identifier: str) -> CatalogueEntry | None:
        """The run of that name, None if no folder has it."""
        with self._lock:
            if identifier not in self._found:
                self._look()
            folder = self._found.get(identifier)
        return None if folder is None else self._entry(identifier, folder)

    def report(self, identifier: str) -> bytes | None:
        """The report in a run's folder."""
        entry = self.entry(identifier)
        return None if entry is None else content(entry.folder / REPORT_HTML)

    def _look(self) -> None:
        if (begin := time.monotonic()) < self._next_look:
            return
        found = [Path(os.path.realpath(one)) for root in self.folders for one in find_runs(root)]
        self._found = {
            _identifier(one): one
            for one in found
            if any(one.is_relative_to(root) for root in self.folders)
        }
        self._read = {name: kept for name, kept in self._read.items() if name in self._found}
        # Large folders are looked through less often: about a tenth of the time goes into it.
        end = time.monotonic()
        self._next_look = end + self._rescan * max(1.0, 10 * (end - begin))

    def _entry(self, identifier: str, folder: Path) -> CatalogueEntry:
        """Read without the lock: a run that takes long keeps nobody from the others."""
        mark = [_mark(folder / name) for name in (*SHOWN_FILES, *PICTURES, REPORT_HTML)]
        version = hashlib.sha256(repr(mark).encode()).hexdigest()[:16]
        known = self._read.get(identifier)
        if known is None or known.version != version:
            known = replace(_read(identifier, folder), version=version)
            with self._lock:
                if identifier in self._found:
                    self._read[identifier] = known
        return known


def _identifier(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]


def _started(entry: CatalogueEntry) -> str:
    return "" if entry.run is None else str(entry.run.heading.started)


def _read(identifier: str, folder: Path) -> CatalogueEntry:
    for name in SHOWN_FILES:
        found = _mark(folder / name)
        if found is not None and not found[0]:
            words = f"{name} is a link, no plain file, or larger than {_LARGEST >> 20} MB"
            return CatalogueEntry(identifier, folder, None, words)
    try:
        run = read_run(folder)
    except UnisonoError as error:
        return CatalogueEntry(identifier, folder, None, str(error))
    except Exception as error:  # whatever lies in a folder, the others are shown
        return CatalogueEntry(identifier, folder, None, trouble(error))
    report = _mark(folder / REPORT_HTML)
    return CatalogueEntry(identifier, folder, run, has_report=report is not None and report[0])


def trouble(error: Exception) -> str:
    """Why a run cannot be shown, for whoever can look at its files."""
    words = " ".join(str(error).split())
    return f"its documents cannot be shown ({type(error).__name__}: {words:.200})"


def _mark(path: Path) -> tuple[bool, int, int, int] | None:
    """Whether a file may be opened, and what changes whenever it is written."""
    try:
        found = path.lstat()
    except OSError:
        return None
    plain = stat.S_ISREG(found.st_mode) and found.st_size <= _LARGEST
    return plain, found.st_mtime_ns, found.st_size, found.st_ino


def content(path: Path) -> bytes | None:
    """A plain file's content; a link is not followed, and a pipe is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        plain = _mark(path)
        return file.read(_LARGEST) if plain is not None and plain[0] else None


__all__ = ["PICTURES", "Catalogue", "CatalogueEntry", "content", "trouble"]
