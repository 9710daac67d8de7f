"""The server's part of a study, once it is submitted: is it running, and how did it end?"""

import time
from pathlib import Path
from typing import Any, Protocol

from unisono.engines.flower.app import outcome
from unisono.engines.flower.processes import exists
from unisono.errors import UnisonoError

_POLL = 0.05
_SILENCE = 5.0  # after which Flower is asked about a run that says nothing


class ServerFailed(UnisonoError):
    """Flower's server process did not do what was asked."""


class Server(Protocol):
    """What a run needs to know of the server it runs on."""

    def alive(self) -> bool:
        """Whether the process is there."""

    def tail(self) -> str:
        """The last lines of its log."""

    def command(self, *arguments: str | Path) -> dict[str, Any]:
        """What Flower's command line answers."""


class Run:
    """A submitted run."""

    def __init__(self, server: Server, identifier: int, job: Path) -> None:
        self._server, self.identifier, self.job = server, identifier, job
        self._asked = time.monotonic()

    def alive(self) -> bool:
        """Whether it is still to finish."""
        return self._server.alive() and self._state()[0] in ("", "running")

    def wait(self, timeout: float | None = None) -> None:
        """Returns when the run has finished; raises when it failed, or after `timeout` seconds."""
        limit = time.monotonic() + (timeout if timeout is not None else float("inf"))
        while True:
            state, detail = self._state()
            if state == "finished":
                return
            if state in ("failed", "stopped"):
                raise ServerFailed(f"the run {self.identifier} {state}: {detail}")
            if not self._server.alive():
                raise ServerFailed(f"the SuperLink ended before the run:\n{self._server.tail()}")
            if time.monotonic() > limit:
                raise ServerFailed(f"the run {self.identifier} did not finish in {timeout} s")
            time.sleep(_POLL)

    def stop(self) -> None:
        """Ends the run; the parties stay."""
        self._server.command("stop", str(self.identifier))

    def _state(self) -> tuple[str, str]:
        """The run's own word, or what became of a run that could not give it."""
        state, detail, process = outcome(self.job, self.identifier)
        if state == "running" and not exists(process):
            state, detail, _ = outcome(self.job, self.identifier)  # its last word
            return ("failed", "its process is gone") if state == "running" else (state, detail)
        if state == "" and time.monotonic() - self._asked > _SILENCE:
            self._asked = time.monotonic()
            return self._flowers_word()
        return state, detail

    def _flowers_word(self) -> tuple[str, str]:
        """What Flower says of a run that never began, such as one that cannot be imported."""
        answer = self._server.command("list", "--run-id", str(self.identifier))
        for run in answer.get("runs", []):
            if str(run.get("status", "")).startswith("finished"):
                return "failed", str(run.get("status-details") or run)
        return "", ""
