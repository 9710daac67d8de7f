"""A run says of itself what it is, from its first moment to its end, and leaves a report."""

import os
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unisono.cli.output import warn
from unisono.errors import InvalidInput, UnisonoError

if TYPE_CHECKING:
    from unisono.runs.folder import Heading

INTERRUPTED = "interrupted; the same command goes on"


class DeploymentRecord:
    """The heading of a run in its folder."""

    def __init__(self, folder: Path, heading: "Heading") -> None:
        self._folder, self._heading = folder, heading
        self._write()

    def end(self, failed: str | None = None) -> None:
        """The run is over: as it should be, or with the reason why not."""
        from unisono.deployment.record import now

        state: Literal["finished", "failed"] = "finished" if failed is None else "failed"
        self._heading = replace(self._heading, state=state, ended=now(), error=failed)
        self._write()

    def _write(self) -> None:
        self._heading.write(self._folder)


@contextmanager
def recorded(
    folder: Path,
    title: str,
    engine: Literal["in process", "server", "party"],
    party: str | None = None,
    simulated: bool = False,
) -> Iterator[DeploymentRecord]:
    """Keeps run.json true while a run goes on; whatever stops it is written down.

    That it is a simulation is said from the beginning: nobody may take it for a real run.
    """
    from unisono.deployment.record import now
    from unisono.runs.folder import Heading

    command = shlex.join(["unisono", *sys.argv[1:]])
    began = _began(folder) or now()
    heading = Heading(
        title, engine, "running", began, None, party, command, os.getpid(), simulated=simulated
    )
    record = DeploymentRecord(folder, heading)
    try:
        yield record
    except (KeyboardInterrupt, SystemExit):  # the latter: somebody asked the process to end
        record.end(INTERRUPTED)
        warn("stopped: what was paid for stays paid for, and the same command goes on")
        raise
    except UnisonoError as error:
        record.end(str(error))
        raise
    except BaseException as error:  # its words may quote records
        record.end(f"{type(error).__name__}: see the terminal")
        raise


def _began(folder: Path) -> str | None:
    """When the run that goes on here began."""
    from unisono.runs.folder import read_run

    try:
        before = read_run(folder).heading
    except InvalidInput:
        return None
    return before.started if before.state != "finished" else None


def add_report(folder: Path) -> Path | None:
    """The report of a run that is over; a run without one is still a run."""
    from unisono.reports.html import write_report

    try:
        return write_report(folder)
    except (UnisonoError, ArithmeticError, LookupError, ValueError, OSError) as error:
        warn(f"no report was written ({error}): try `unisono report {folder}`")
        return None


def evaluation_in(folder: Path) -> dict[str, Any] | None:
    """How good the result of a run is, where somebody measured it."""
    from unisono.runs.folder import EVALUATION

    return EVALUATION.read(folder)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings as one line each, as a person at a terminal reads them, and none of them twice."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        words = " ".join(str(message).split())
        if words not in said:
            said.add(words)
            warn(words)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
