"""The server's part of a study, once it runs: is it still at it, and how did it end?"""

import contextlib
import signal
import subprocess
import time
from pathlib import Path
from typing import Protocol

from unisono.engines.flower.app import outcome
from unisono.errors import UnisonoError

_POLL = 0.05
_END = 5.0  # seconds to stop by itself


class ServerFailed(UnisonoError):
    """A process of the server did not do what was asked."""


class ServerProcess(Protocol):
    """What a run needs to know of the server it runs on."""

    def alive(self) -> bool:
        """Whether the process is there."""

    def tail(self) -> str:
        """The last lines of its log."""


class SubmittedRun:
    """A run and the process that carries it out."""

    def __init__(
        self, server: ServerProcess, identifier: int, job: Path, process: subprocess.Popen[bytes]
    ) -> None:
        self._server, self.identifier, self.job, self.process = server, identifier, job, process

    def alive(self) -> bool:
        """Whether it is still to finish."""
        return self._server.alive() and self.process.poll() is None

    def wait(self, timeout: float | None = None) -> None:
        """Returns when the run has finished; raises when it failed, or after `timeout` seconds."""
        limit = time.monotonic() + (timeout if timeout is not None else float("inf"))
        while (code := self.process.poll()) is None:
            if not self._server.alive():
                raise ServerFailed(f"the SuperLink ended before the run:\n{self._server.tail()}")
            if time.monotonic() > limit:
                raise ServerFailed(f"the run {self.identifier} did not finish in {timeout} s")
            time.sleep(_POLL)
        state, detail = outcome(self.job, self.identifier)
        if state == "finished":
            return
        if state in ("failed", "stopped"):
            raise ServerFailed(f"the run {self.identifier} {state}: {detail}")
        if not self._server.alive():
            raise ServerFailed(f"the SuperLink ended before the run:\n{self._server.tail()}")
        raise ServerFailed(f"the server's part of the study {_ended(code)}:\n{self._server.tail()}")

    def stop(self) -> None:
        """Ends the run; the parties stay."""
        if self.process.poll() is None:
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END)
        self.process.kill()
        self.process.wait()


def _ended(code: int) -> str:
    if code == -signal.SIGKILL:
        return "was killed (signal 9), by somebody or because this machine ran out of memory"
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
