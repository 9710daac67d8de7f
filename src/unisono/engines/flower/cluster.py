"""Flower's server process (SuperLink) as a context: started, used, and gone without a trace.

    with SuperLink(folder, tls=issue(folder / "tls", ["127.0.0.1"])) as server:
        server.register(party_key.pub)
        server.submit(write_app(...)).wait()

Parties reach it at `server.address`. Its state is in memory unless `database` names a file; a
server that was killed comes back on the same port, and without a database it has forgotten who
was registered: `register` may be repeated at any time. What a study must remember is in its own
checkpoint, not in Flower's state.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import tomllib
import uuid
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from unisono.engines.flower import leashed
from unisono.engines.flower.certificates import ServerFiles, require_public_key
from unisono.engines.flower.processes import free_port, marked, script
from unisono.engines.flower.refusals import is_loopback
from unisono.engines.flower.runs import Run, ServerFailed
from unisono.errors import InvalidInput

_START, _END = 60.0, 5.0  # seconds to come up, and to go down by itself
_COMMAND_SECONDS = 60.0
_POLL = 0.05
_MARK = "UNISONO_SUPERLINK"  # in the environment of every process that a SuperLink starts
_QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}


class SuperLink:
    """A `flower-superlink` of our own; everything it writes is in `folder`/flower."""

    def __init__(
        self, folder: Path, *, host: str = "127.0.0.1", port: int | None = None,
        tls: ServerFiles | None = None, insecure: bool = False, database: Path | None = None,
    ) -> None:  # fmt: skip
        if insecure == (tls is not None):
            raise InvalidInput("a SuperLink needs either TLS files or insecure=True, not both")
        if insecure and not is_loopback(host):
            raise InvalidInput(
                f"an insecure server on {host} is refused: it is for trying out on one machine "
                "(127.0.0.1); give it TLS files (certificates.issue)"
            )
        self.folder, self._host, self._tls, self._database = folder / "flower", host, tls, database
        self._port = port or free_port(host)
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = uuid.uuid4().hex
        self._previous_handler: Any = None

    @property
    def address(self) -> str:
        """Where parties on this machine reach it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)
        return f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}"

    @property
    def log(self) -> Path:
        """What Flower says."""
        return self.folder / "superlink.log"

    def __enter__(self) -> Self:
        if self._tls is None:
            warnings.warn(f"no TLS at {self.address}: for trying out only", stacklevel=2)
        if threading.current_thread() is threading.main_thread():
            self._previous_handler = signal.signal(signal.SIGTERM, _raise_exit)
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._previous_handler is not None:
            signal.signal(signal.SIGTERM, self._previous_handler)

    def start(self) -> None:
        """Starts the process and waits until it accepts connections."""
        self._configure()
        command = ["--host", self._host, "--port", str(self._port)]
        command += ["--disable-runtime-dependency-installation"]
        if self._tls is None:
            command += ["--insecure"]
        else:
            command += ["--enable-supernode-auth", "--ssl-ca-certfile", str(self._tls.authority)]
            command += ["--ssl-certfile", str(self._tls.certificate)]
            command += ["--ssl-keyfile", str(self._tls.key)]
        if self._database is not None:
            command += ["--database", str(self._database)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, leashed.__file__, str(os.getpid()), script("flower-superlink"),
                 *command], env=self._environment(),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        limit = time.monotonic() + _START
        while self._process.poll() is None and time.monotonic() < limit:
            if self._accepts():
                return
            time.sleep(_POLL)
        raise ServerFailed(f"the SuperLink at {self.address} did not start:\n{self.tail()}")

    def stop(self, *, kill: bool = False) -> None:
        """Ends the process and all it started: politely unless `kill`, and then for certain."""
        if self._process is None:
            return
        if not kill and self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END)
        for process in marked(_MARK, self._mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process = None

    def register(self, *public_keys: Path) -> None:
        """Admits the parties with these transport keys; harmless for those admitted already."""
        for path in public_keys:
            require_public_key(path)
        with ThreadPoolExecutor() as pool:  # each is a process that takes seconds to start
            answers = pool.map(
                lambda path: self.command("supernode", "register", path), public_keys
            )
        for path, answer in zip(public_keys, answers, strict=True):
            error = str(answer.get("error-message", "")).strip()
            if not answer.get("success") and "already in use" not in error:
                raise InvalidInput(f"the SuperLink does not register {path}: {error}")

    def submit(self, app: Path) -> Run:
        """Starts the server's part of a study, as `write_app` wrote it."""
        answer = self.command("run", app)
        if not answer.get("success"):
            raise ServerFailed(f"the SuperLink does not run {app}: {answer.get('error-message')}")
        settings = tomllib.loads((app / "pyproject.toml").read_text(encoding="utf-8"))
        job = Path(settings["tool"]["flwr"]["app"]["config"]["job"])
        return Run(self, int(answer["run-id"]), job)

    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def tail(self, lines: int = 15) -> str:
        """The last lines of Flower's log."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _configure(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        security = "insecure = true"
        if self._tls is not None:
            security = f"root-certificates = {json.dumps(str(self._tls.authority.resolve()))}"
        (self.folder / "config.toml").write_text(
            '[superlink]\ndefault = "own"\n[superlink.own]\n'
            f"address = {json.dumps(self.address)}\n{security}\n",
            encoding="utf-8",
        )

    def _environment(self) -> dict[str, str]:
        path = sysconfig.get_path("scripts") + os.pathsep + os.environ.get("PATH", "")
        own = {"FLWR_HOME": str(self.folder.resolve()), "PATH": path, _MARK: self._mark}
        return {**os.environ, **_QUIET, "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.3", **own}

    def _accepts(self) -> bool:
        host, _, port = self.address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=1):
                return True
        except OSError:
            return False

    def command(self, *arguments: str | Path) -> dict[str, Any]:
        """What Flower's command line answers."""
        done = subprocess.run(
            [script("flwr"), *arguments, "own", "--format", "json"], env=self._environment(),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_COMMAND_SECONDS,
        )  # fmt: skip
        start = done.stdout.find("{")
        try:
            return dict(json.loads(done.stdout[start:]))
        except ValueError:
            said = (done.stderr or done.stdout).strip()
            raise ServerFailed(f"`flwr {' '.join(map(str, arguments))}` failed: {said}") from None


def _raise_exit(number: int, frame: FrameType | None) -> NoReturn:
    """Lets a terminated process leave its contexts, and so end its children."""
    raise SystemExit(128 + number)
