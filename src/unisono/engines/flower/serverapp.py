"""The process in which the server's part of a study runs: installed code, named by reference.

    python -m unisono.engines.flower.serverapp SOCKET RUN MODULE:ATTRIBUTE JOB

It reaches the SuperLink over the socket that only processes of the same user can open.
"""

import importlib
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import NoReturn

from flwr.serverapp import ServerApp

from unisono.engines.flower.app import note
from unisono.engines.flower.superlink import HeldTask
from unisono.errors import InvalidInput


def main(socket: str, run: str, component: str, job: str) -> None:
    """Carry out a run and tell the SuperLink that it is over."""
    signal.signal(signal.SIGTERM, _stopped)
    try:
        app = _loaded(component)
        task = HeldTask(Path(socket), int(run))
    except Exception:
        note(Path(job), int(run), "failed", traceback.format_exc(limit=-2))
        raise
    failure: str | None = "stopped"
    try:
        app(task.grid, task.context({"job": job}))
        failure = None
    finally:
        task.end(failure)


def _loaded(component: str) -> ServerApp:
    module, _, attribute = component.partition(":")
    app = getattr(importlib.import_module(module), attribute)
    if not isinstance(app, ServerApp):
        raise InvalidInput(f"{component} is a {type(app).__name__} where a ServerApp belongs")
    return app


def _stopped(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main(*sys.argv[1:])
